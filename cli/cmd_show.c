/* gktune show: one job, problem by problem. */
#include "cli/listing.h"
#include "cli/winners.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum gk_status gk_cmd_show(struct gk_cli *cli, struct gk_err *err)
{
    struct gk_client *client = NULL;
    struct gk_winners winners = {0};
    int64_t job = 0;
    enum gk_status status = gk_parse_job(cli->options.operands[0], &job, err);
    if (status == GK_OK) {
        status = gk_client_open(cli, &client, err);
    }
    if (status == GK_OK) {
        status = gk_winners_load(client, job, &winners, err);
    }
    if (status == GK_OK && cli->json) {
        struct gk_json *json = gk_winners_json(&winners);
        status = json ? gk_print_json(cli, json, err) : gk_fail(err, GK_NOMEM, "out of memory");
        gk_json_free(json);
    } else if (status == GK_OK) {
        struct gk_buf out = {0};
        gk_winners_summary(&winners, &out);
        gk_winners_rates(&winners, &out);
        gk_winners_table(cli, &winners, &out);
        (void)fputs(gk_buf_text(&out), stdout);
        gk_buf_fini(&out);
    }
    gk_winners_fini(&winners);
    gk_client_close(client);
    return status;
}
