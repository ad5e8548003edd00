/* What is said when a job has ended: winners, failed trials by reason, and the command's status. */
#ifndef GK_CLI_ENDING_H
#define GK_CLI_ENDING_H

#include "cli/client.h"

/* Prints to stdout (with --json one object). export_path (the folder) and files (what gk_export()
 * wrote there) may be NULL. GK_NO_PICK when a problem has no pick. */
enum gk_status gk_ending(struct gk_cli *cli, struct gk_client *client, int64_t job,
                         const char *export_path, const struct gk_json *files, struct gk_err *err);

#endif
