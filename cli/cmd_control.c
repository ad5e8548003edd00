/* gktune cancel, pause, resume, retry: one verb of the daemon each, for one job or several. */
#include "cli/client.h"

#include <inttypes.h>
#include <stdio.h>

static enum gk_status request_body(const struct gk_cli *cli, struct gk_json **body_out,
                                   struct gk_err *err)
{
    const char *reason = gk_options_get(&cli->options, "reason");
    struct gk_json *body = gk_json_new_object(), *jobs = gk_json_new_array();
    enum gk_status status = GK_OK;
    bool ok = !reason || gk_json_set_string(body, "reason", reason);
    for (uint32_t i = 0; status == GK_OK && i < cli->options.operand_count; i++) {
        int64_t job = 0;
        status = gk_parse_job(cli->options.operands[i], &job, err);
        ok = gk_json_push(jobs, gk_json_new_int(job)) && ok;
    }
    ok = gk_json_set(body, "jobs", jobs) && ok;
    if (status == GK_OK && !ok) {
        status = gk_fail(err, GK_NOMEM, "out of memory");
    }
    if (status != GK_OK) {
        gk_json_free(body);
        return status;
    }
    *body_out = body;
    return GK_OK;
}

/* With --json {done, job, jobs}; job is the first of them. */
static enum gk_status print(const struct gk_cli *cli, const struct gk_json *reply,
                            struct gk_err *err)
{
    const struct gk_json *jobs = gk_json_get(reply, "jobs");
    if (cli->json) {
        struct gk_json *json = gk_json_new_object();
        (void)gk_json_set_int(json, "job", gk_json_get_int(reply, "job", 0));
        (void)gk_json_set_string(json, "done", cli->command->name);
        (void)gk_json_set(json, "jobs", gk_json_copy(jobs));
        enum gk_status status = gk_print_json(cli, json, err);
        gk_json_free(json);
        return status;
    }
    for (size_t i = 0; i < gk_json_count(jobs); i++) {
        const struct gk_json *job = gk_json_at(jobs, i);
        (void)fprintf(stderr, "job %" PRId64 ": %s%s\n", gk_json_get_int(job, "job", 0),
                      gk_json_get_string(job, "state", "?"),
                      gk_json_get_bool(job, "changed", true) ? "" : " (as it was)");
    }
    return GK_OK;
}

enum gk_status gk_cmd_control(struct gk_cli *cli, struct gk_err *err)
{
    struct gk_client *client = NULL;
    struct gk_json *reply = NULL, *body = NULL;
    enum gk_status status = request_body(cli, &body, err);
    if (status == GK_OK) {
        status = gk_client_open(cli, &client, err);
    }
    if (status == GK_OK) {
        status = gk_client_request(client, cli->command->name, body, 0, &reply, err);
        body = NULL;
    }
    if (status == GK_OK) {
        status = print(cli, reply, err);
    }
    gk_json_free(body);
    gk_json_free(reply);
    gk_client_close(client);
    return status;
}
