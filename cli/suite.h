/*
 * A suite: what one night tunes, as a file (schemas/suite.schema.json, docs/formats.md). Each set
 * of it is what `gktune submit` takes on its line, and is checked in the same way; the whole is
 * stored by one request.
 */
#ifndef GK_CLI_SUITE_H
#define GK_CLI_SUITE_H

#include "cli/request.h"

#define GK_SUITE_SETS_MAX 64
#define GK_SUITE_NAME_MAX 63 /* bytes of a suite's, slot's or set's name */

struct gk_suite {
    char *name, *slot;
    struct gk_suite_set {
        char *name, *what, *shapes;
        struct gk_request request;
    } * sets;
    uint32_t count;
};

/* Reads the file and everything that it names. All mistakes of it, of its shapes files and kernels
 * are in diag at once; GK_OK if there is none. The options --until, --if-changed, --wait, --fresh
 * and --slot of the line hold for every set. */
enum gk_status gk_suite_init(struct gk_suite *suite, struct gk_cli *cli, const char *path,
                             struct gk_diag *diag);
void gk_suite_fini(struct gk_suite *suite);
/* Sends the bundles, then the suite. reply_out: {suite slot night jobs:[{set job tasks ..}]}. */
enum gk_status gk_suite_submit(const struct gk_suite *suite, struct gk_client *client,
                               uint64_t wall_ms, struct gk_json **reply_out, struct gk_err *err);

/* When asking ends, as wall time: "06:30", the next time that clocks here show it, or "90m", "2h",
 * from now. GK_USAGE says what is allowed. */
enum gk_status gk_parse_until(const char *text, uint64_t wall_ms, uint64_t *until_ms_out,
                              struct gk_err *err);

#endif
