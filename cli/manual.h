/* Help, manual pages and shell completion, all made from the table of commands. */
#ifndef GK_CLI_MANUAL_H
#define GK_CLI_MANUAL_H

#include "cli/command.h"

void gk_manual_overview(struct gk_buf *out);                               /* gktune --help */
void gk_manual_help(const struct gk_command *command, struct gk_buf *out); /* gktune CMD --help */
/* roff of gktune(1) (command NULL) or gktune-CMD(1). */
void gk_manual_page(const struct gk_command *command, struct gk_buf *out);
/* Completion script of "bash" or "zsh"; GK_USAGE for another shell. */
enum gk_status gk_manual_completion(const char *shell, struct gk_buf *out, struct gk_err *err);

#endif
