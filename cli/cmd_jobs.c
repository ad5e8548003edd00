/* gktune jobs: a line a job. */
#include "cli/listing.h"

#include <string.h>

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
    gk_cell_text(table, row, "what");
    gk_cell_int(table, row, "problems");
    gk_cell_int(table, row, "tasks");
    gk_cell_int(table, row, "done");
    gk_cell_int(table, row, "trials");
    gk_cell_int(table, row, "failed");
    gk_table_cell(table, "%s", age);
}

enum gk_status gk_cmd_jobs(struct gk_cli *cli, struct gk_err *err)
{
    struct gk_client *client = NULL;
    enum gk_status status = gk_client_open(cli, &client, err);
    if (status == GK_OK) {
        status = gk_listing(cli, client, "jobs", gk_json_new_object(), "jobs",
                            ">job|state|what|>problems|>tasks|>done|>trials|>failed|>age", cells,
                            gk_options_has(&cli->options, "all")
                                ? "no jobs"
                                : "no open jobs; ended ones: gktune jobs --all",
                            err);
    }
    gk_client_close(client);
    return status;
}
