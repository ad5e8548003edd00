/* gktune drain: the daemon takes no new work; what is out ends. --off: it does again. */
#include "cli/client.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define LOOK_MS 500 /* between two looks of --wait */

/* Until nothing is out, saying what is. */
static enum gk_status wait_empty(struct gk_client *client, struct gk_err *err)
{
    int64_t told = -1;
    for (;;) {
        struct gk_json *reply = NULL;
        enum gk_status status =
            gk_client_request(client, "status", gk_json_new_object(), 0, &reply, err);
        const char *state = gk_json_get_string(reply, "state", "");
        int64_t leases = gk_json_get_int(reply, "leases", 0);
        bool drains = gk_json_get(reply, "drain_ms") != NULL;
        bool empty = leases == 0 && drains;
        if (status == GK_OK && !drains) {
            status = gk_fail(err, GK_CONFLICT, "the drain was ended meanwhile (%s)", state);
        }
        gk_json_free(reply);
        if (status != GK_OK || empty) {
            return status;
        }
        if (leases != told) {
            (void)fprintf(stderr, "%" PRId64 " leases are out\n", leases);
            told = leases;
        }
        struct timespec pause = {.tv_nsec = LOOK_MS * 1000000L};
        (void)nanosleep(&pause, NULL); /* cut short, it looks earlier */
    }
}

enum gk_status gk_cmd_drain(struct gk_cli *cli, struct gk_err *err)
{
    struct gk_client *client = NULL;
    struct gk_json *reply = NULL, *body = gk_json_new_object();
    const char *reason = gk_options_get(&cli->options, "reason");
    bool off = gk_options_has(&cli->options, "off"), wait = gk_options_has(&cli->options, "wait");
    if (off && wait) {
        gk_json_free(body);
        return gk_fail(err, GK_USAGE, "drain: --off and --wait exclude each other");
    }
    (void)gk_json_set_bool(body, "on", !off);
    (void)(!reason || gk_json_set_string(body, "reason", reason));
    enum gk_status status = gk_client_open(cli, &client, err);
    if (status == GK_OK) {
        status = gk_client_request(client, "drain", body, 0, &reply, err);
    } else {
        gk_json_free(body);
    }
    int64_t leases = gk_json_get_int(reply, "leases", 0);
    if (status == GK_OK && wait) {
        status = wait_empty(client, err);
        leases = 0;
    }
    if (status == GK_OK && cli->json) {
        struct gk_json *json = gk_json_new_object();
        (void)gk_json_set_bool(json, "draining", !off);
        (void)gk_json_set_bool(json, "changed", gk_json_get_bool(reply, "changed", false));
        (void)gk_json_set_int(json, "leases", leases);
        status = gk_print_json(cli, json, err);
        gk_json_free(json);
    } else if (status == GK_OK && off) {
        (void)fprintf(stderr, "the daemon takes work again\n");
    } else if (status == GK_OK) {
        (void)fprintf(stderr, "the daemon takes no new work; %" PRId64 " leases are out\n", leases);
    }
    gk_json_free(reply);
    gk_client_close(client);
    return status;
}
