/* gktune jobs: a line a job. */
#include "cli/listing.h"

#include <inttypes.h>
#include <string.h>

/* Priority, with what waiting has added to it by now, and for how long the job has waited for a
 * lease that it could use. */
static void cell_turn(struct gk_table *table, const struct gk_json *row)
{
    char waits[32] = "-";
    int64_t priority = gk_json_get_int(row, "priority", 0),
            effective = gk_json_get_int(row, "effective_priority", priority),
            waits_s = (int64_t)gk_json_get_real(row, "waiting_s", 0);
    if (effective != priority) {
        gk_table_cell(table, "%" PRId64 "+%" PRId64, priority, effective - priority);
    } else {
        gk_table_cell(table, "%" PRId64, priority);
    }
    if (waits_s > 0) {
        gk_age_text(0, waits_s * 1000, waits);
    }
    gk_table_cell(table, "%s", waits);
}

static void cells(struct gk_cli *cli, struct gk_table *table, const struct gk_json *row)
{
    char age[32];
    if (!gk_options_has(&cli->options, "all") && gk_job_ended(row)) {
        return;
    }
    int64_t now = (int64_t)cli->clock.wall_ms(cli->clock.context);
    gk_age_text(gk_json_get_int(row, "created_ms", 0), now, age);
    gk_cell_int(table, row, "job");
    gk_cell_text(table, row, "state");
    const char *suite = gk_json_get_string(row, "suite", NULL);
    gk_table_cell(table, "%s%s%s%s", gk_json_get_string(row, "what", "-"), suite ? " (suite " : "",
                  suite ? suite : "", suite ? ")" : "");
    gk_cell_int(table, row, "problems");
    gk_cell_int(table, row, "tasks");
    gk_cell_int(table, row, "done");
    gk_cell_int(table, row, "trials");
    gk_cell_int(table, row, "failed");
    cell_turn(table, row);
    gk_table_cell(table, "%s", age);
}

enum gk_status gk_cmd_jobs(struct gk_cli *cli, struct gk_err *err)
{
    struct gk_client *client = NULL;
    enum gk_status status = gk_client_open(cli, &client, err);
    if (status == GK_OK) {
        status = gk_listing(
            cli, client, "jobs", gk_json_new_object(), "jobs",
            ">job|state|what|>problems|>tasks|>done|>trials|>failed|>priority|>waits|>age", cells,
            gk_options_has(&cli->options, "all") ? "no jobs"
                                                 : "no open jobs; ended ones: gktune jobs --all",
            err);
    }
    gk_client_close(client);
    return status;
}
