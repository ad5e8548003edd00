/* gktune cancel, pause, resume, retry: one verb of the daemon each. */
#include "cli/client.h"

#include <inttypes.h>
#include <stdio.h>

enum gk_status gk_cmd_control(struct gk_cli *cli, struct gk_err *err)
{
    struct gk_client *client = NULL;
    struct gk_json *reply = NULL;
    int64_t job = 0;
    enum gk_status status = gk_parse_job(cli->options.operands[0], &job, err);
    if (status == GK_OK) {
        status = gk_client_open(cli, &client, err);
    }
    if (status == GK_OK) {
        struct gk_json *body = gk_json_new_object();
        (void)gk_json_set_int(body, "job", job);
        status = gk_client_request(client, cli->command->name, body, 0, &reply, err);
    }
    if (status == GK_OK && cli->json) {
        struct gk_json *json = gk_json_new_object();
        (void)gk_json_set_int(json, "job", job);
        (void)gk_json_set_string(json, "done", cli->command->name);
        status = gk_print_json(cli, json, err);
        gk_json_free(json);
    } else if (status == GK_OK) {
        (void)fprintf(stderr, "job %" PRId64 ": %s\n", job, cli->command->name);
    }
    gk_json_free(reply);
    gk_client_close(client);
    return status;
}
