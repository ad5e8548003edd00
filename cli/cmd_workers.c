/* gktune workers: a line a device of each worker; drain and resume a worker, fence and unfence a
 * device. */
#include "cli/listing.h"
#include "cli/spread.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void cells(struct gk_cli *cli, struct gk_table *table, const struct gk_json *row)
{
    char age[32];
    int64_t now = (int64_t)cli->clock.wall_ms(cli->clock.context);
    gk_age_text(gk_json_get_int(row, "last_seen_ms", 0), now, age);
    const struct gk_json *devices = gk_json_get(row, "devices");
    size_t count = gk_json_count(devices);
    for (size_t i = 0; i < (count ? count : 1); i++) {
        const struct gk_json *device = gk_json_at(devices, i),
                             *fence = gk_json_get(device, "fenced");
        gk_cell_int(table, row, "worker");
        gk_cell_text(table, row, "host");
        gk_cell_int(table, row, "pid");
        gk_cell_text(table, row, "state");
        gk_cell_text(table, device, "device");
        gk_cell_text(table, device, "arch");
        gk_cell_text(table, device, "gpu");
        gk_cell_text(table, row, "job");
        gk_cell_int(table, row, "leases");
        gk_table_cell(table, "%s", age);
        if (fence) {
            gk_table_cell(table, "fenced: %s", gk_json_get_string(fence, "cause", "?"));
        } else {
            gk_cell_text(table, row, "drain_reason");
        }
    }
}

static enum gk_status list(struct gk_cli *cli, struct gk_client *client, struct gk_err *err)
{
    return gk_listing(cli, client, "workers", gk_json_new_object(), "workers",
                      ">worker|host|>pid|state|device|arch|gpu|job|>leases|>seen|note", cells,
                      "no worker has been here yet", err);
}

static void print_change(const char *action, const struct gk_json *reply)
{
    const char *as_it_was = gk_json_get_bool(reply, "changed", true) ? "" : " (as it was)";
    const char *device = gk_json_get_string(reply, "device", NULL);
    if (device) {
        (void)fprintf(stderr, "device %s: %s%s\n", device,
                      strcmp(action, "fence") == 0 ? "fenced" : "not fenced", as_it_was);
    } else {
        (void)fprintf(stderr, "worker %" PRId64 ": %s%s, %" PRId64 " leases are out\n",
                      gk_json_get_int(reply, "worker", 0),
                      strcmp(action, "drain") == 0 ? "gets no new lease" : "gets leases", as_it_was,
                      gk_json_get_int(reply, "leases", 0));
    }
}

static enum gk_status change(struct gk_cli *cli, struct gk_client *client, const char *action,
                             const char *what, int64_t worker, struct gk_err *err)
{
    struct gk_json *body = gk_json_new_object(), *reply = NULL;
    const char *reason = gk_options_get(&cli->options, "reason");
    (void)gk_json_set_string(body, "action", action);
    (void)(worker ? gk_json_set_int(body, "worker", worker)
                  : gk_json_set_string(body, "device", what));
    (void)(!reason || gk_json_set_string(body, "reason", reason));
    enum gk_status status = gk_client_request(client, "workers", body, 0, &reply, err);
    if (status == GK_OK && cli->json) {
        status = gk_print_json(cli, reply, err);
    } else if (status == GK_OK) {
        print_change(action, reply);
    }
    gk_json_free(reply);
    return status;
}

enum gk_status gk_cmd_workers(struct gk_cli *cli, struct gk_err *err)
{
    struct gk_client *client = NULL;
    const struct gk_options *options = &cli->options;
    const char *action = options->operand_count > 0 ? options->operands[0] : "list",
               *what = options->operand_count > 1 ? options->operands[1] : NULL;
    bool lists = strcmp(action, "list") == 0,
         worker = strcmp(action, "drain") == 0 || strcmp(action, "resume") == 0,
         device = strcmp(action, "fence") == 0 || strcmp(action, "unfence") == 0;
    int64_t id = 0;
    enum gk_status status = GK_OK;
    if (gk_options_has(options, "spread")) {
        return options->operand_count == 0
                   ? gk_print_spread(cli, err)
                   : gk_fail(err, GK_USAGE, "workers --spread takes no argument");
    }
    if (gk_options_has(options, "op")) {
        return gk_fail(err, GK_USAGE, "--op goes with --spread");
    }
    if (!lists && !worker && !device) {
        return gk_fail(err, GK_USAGE,
                       "workers '%s': allowed are list, drain, resume, fence and unfence", action);
    }
    if (lists != (what == NULL)) {
        return gk_fail(err, GK_USAGE, "workers %s %s", action,
                       lists    ? "takes no argument"
                       : worker ? "needs the number of a WORKER"
                                : "needs a DEVICE: its UUID, or WORKER/DEVICE");
    }
    if (device && !gk_options_has(options, "reason")) {
        return gk_fail(err, GK_USAGE,
                       "workers %s needs --reason TEXT: whoever finds it so will ask", action);
    }
    if (worker) {
        status = gk_parse_int(what, "WORKER", 1, INT64_MAX, &id, err);
    }
    if (status == GK_OK) {
        status = gk_client_open(cli, &client, err);
    }
    if (status == GK_OK) {
        status = lists ? list(cli, client, err) : change(cli, client, action, what, id, err);
    }
    gk_client_close(client);
    return status;
}
