/* gktune submit: stores a job; with --wait stays until it ends. */
#include "cli/ending.h"
#include "cli/follow.h"
#include "cli/request.h"

#include <inttypes.h>
#include <stdio.h>

static enum gk_status print_stored(struct gk_cli *cli, int64_t job, bool private,
                                   struct gk_err *err)
{
    if (private) {
        (void)fprintf(stderr,
                      "no gktuned is running: nothing works on job %" PRId64
                      " until one starts on this state folder\n",
                      job);
    }
    if (!cli->json) {
        (void)printf("job %" PRId64 " stored\n", job);
        return GK_OK;
    }
    struct gk_json *json = gk_json_new_object();
    (void)gk_json_set_int(json, "job", job);
    (void)gk_json_set_bool(json, "daemon", !private);
    enum gk_status status = gk_print_json(cli, json, err);
    gk_json_free(json);
    return status;
}

enum gk_status gk_cmd_submit(struct gk_cli *cli, struct gk_err *err)
{
    struct gk_request request;
    struct gk_client *client = NULL;
    int64_t job = 0;
    enum gk_status status = gk_request_init(&request, cli, false, err);
    if (status != GK_OK) {
        return status;
    }
    struct gk_buf text = {0};
    gk_request_budget_text(&request, &text);
    (void)fprintf(stderr, "%s\n", gk_buf_text(&text));
    gk_buf_fini(&text);
    status = gk_client_open(cli, &client, err);
    if (status == GK_OK) {
        status = gk_request_submit(&request, client, &job, err);
    }
    if (status == GK_OK && !request.wait) {
        status = print_stored(cli, job, gk_client_is_private(client), err);
    } else if (status == GK_OK) {
        struct gk_progress progress;
        gk_progress_init(&progress, cli);
        gk_progress_note(&progress, "job %" PRId64 " stored; waiting for its end", job);
        struct gk_follow follow = {.client = client,
                                   .job = job,
                                   .progress = &progress,
                                   .budget_trials = request.budget.trials};
        status = gk_follow(&follow, err);
        gk_progress_end(&progress);
        if (status == GK_OK) {
            cli->catalog = request.catalog;
            status = gk_ending(cli, client, job, NULL, NULL, err);
            cli->catalog = NULL;
        }
    }
    gk_client_close(client);
    gk_request_fini(&request);
    return status;
}
