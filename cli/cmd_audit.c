/* gktune audit: who did what, to what, why, and how it ended; --verify walks the chain of hashes.
 */
#include "cli/listing.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static void cells(struct gk_cli *cli, struct gk_table *table, const struct gk_json *row)
{
    char at[32] = "-";
    time_t seconds = (time_t)(gk_json_get_int(row, "at_ms", 0) / 1000);
    struct tm parts;
    const char *who = gk_json_get_string(row, "who", "");
    (void)cli;
    if (gmtime_r(&seconds, &parts)) {
        (void)strftime(at, sizeof at, "%Y-%m-%dT%H:%M:%SZ", &parts); /* "-" if it does not fit */
    }
    gk_cell_int(table, row, "line");
    gk_table_cell(table, "%s", at);
    gk_table_cell(table, "%s", *who ? who : "(local)");
    gk_cell_text(table, row, "what");
    gk_cell_text(table, row, "target");
    gk_cell_text(table, row, "outcome");
    gk_cell_text(table, row, "reason");
}

static enum gk_status verify(struct gk_cli *cli, struct gk_client *client, struct gk_err *err)
{
    struct gk_json *body = gk_json_new_object(), *reply = NULL;
    (void)gk_json_set_bool(body, "verify", true);
    enum gk_status status = gk_client_request(client, "audit", body, 0, &reply, err);
    const struct gk_json *problems = gk_json_get(reply, "problems");
    bool whole = gk_json_get_bool(reply, "ok", false);
    if (status == GK_OK && cli->json) {
        status = gk_print_json(cli, reply, err);
    } else if (status == GK_OK) {
        (void)printf("%" PRId64 " lines: %s\n", gk_json_get_int(reply, "audit_lines", 0),
                     whole ? "the chain is whole" : "the chain is broken");
        for (size_t i = 0; i < gk_json_count(problems); i++) {
            (void)printf("  %s\n", gk_json_string(gk_json_at(problems, i), ""));
        }
    }
    if (status == GK_OK && !whole) {
        status = gk_fail(err, GK_CORRUPT, "the audit trail is not what was written");
    }
    gk_json_free(reply);
    return status;
}

enum gk_status gk_cmd_audit(struct gk_cli *cli, struct gk_err *err)
{
    struct gk_client *client = NULL;
    enum gk_status status = gk_client_open(cli, &client, err);
    if (status == GK_OK && gk_options_has(&cli->options, "verify")) {
        status = verify(cli, client, err);
    } else if (status == GK_OK) {
        status = gk_listing(cli, client, "audit", gk_json_new_object(), "lines",
                            ">line|time|who|what|target|outcome|reason", cells,
                            "nothing has been done yet", err);
    }
    gk_client_close(client);
    return status;
}
