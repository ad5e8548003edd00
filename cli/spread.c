/* How far GPUs of one key stand apart: see spread.h. */
#include "cli/spread.h"
#include "cli/listing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The daemon gives a row a GPU; those of one task and regime are one config's, and stand together
 * but for the regime. Times of two regimes are not compared. */
struct spread {
    struct gk_json *groups; /* as --json prints them */
    int64_t task;           /* of the newest rows */
    size_t first;           /* group of that task */
};

static int compare_reals(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

#define DEVICES_MAX 16 /* of one config: db/db.h has as many */

static struct gk_json *group_of(struct spread *spread, const struct gk_json *row)
{
    static const char *const members[] = {"op",     "problem",  "arch",   "gpu", "policy",
                                          "regime", "template", "config", "job", "task"};
    int64_t task = gk_json_get_int(row, "task", 0);
    const char *regime = gk_json_get_string(row, "regime", "");
    if (task != spread->task) {
        spread->task = task;
        spread->first = gk_json_count(spread->groups);
    }
    for (size_t i = spread->first; i < gk_json_count(spread->groups); i++) {
        const struct gk_json *group = gk_json_at(spread->groups, i);
        /* A GPU without a time was measured in no regime: it stands with the others. */
        if (!gk_json_get(row, "time_ns") ||
            strcmp(gk_json_get_string(group, "regime", ""), regime) == 0) {
            return (struct gk_json *)(uintptr_t)group; /* ours */
        }
    }
    struct gk_json *group = gk_json_new_object();
    bool ok = gk_json_set(group, "devices", gk_json_new_array());
    for (size_t i = 0; ok && i < GK_ARRAY_COUNT(members); i++) {
        const struct gk_json *value = gk_json_get(row, members[i]);
        ok = !value || gk_json_set(group, members[i], gk_json_copy(value));
    }
    if (!gk_json_push(spread->groups, group) || !ok) {
        return NULL;
    }
    return (struct gk_json *)(uintptr_t)gk_json_at(spread->groups,
                                                   gk_json_count(spread->groups) - 1);
}

static enum gk_status take_row(void *context, const struct gk_json *row, struct gk_err *err)
{
    static const char *const members[] = {"worker", "host", "time_ns", "passes", "reason", "at_ms"};
    struct spread *spread = context;
    struct gk_json *group = group_of(spread, row), *device = gk_json_new_object();
    bool ok =
        group && gk_json_set_string(device, "device", gk_json_get_string(row, "device_key", ""));
    for (size_t i = 0; ok && i < GK_ARRAY_COUNT(members); i++) {
        const struct gk_json *value = gk_json_get(row, members[i]);
        ok = !value || gk_json_set(device, members[i], gk_json_copy(value));
    }
    if (!ok || !gk_json_push((struct gk_json *)(uintptr_t)gk_json_get(group, "devices"), device)) {
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    return GK_OK;
}

/* median_ns, spread (slowest less fastest, as a part of the median) and half_width (as the daemon
 * takes it into the noise floor) of a group with two times at least; ratio of each device. */
static bool finish(struct gk_json *group)
{
    const struct gk_json *devices = gk_json_get(group, "devices");
    double times[DEVICES_MAX];
    size_t count = 0;
    for (size_t i = 0; i < gk_json_count(devices) && count < DEVICES_MAX; i++) {
        double time_ns = gk_json_get_real(gk_json_at(devices, i), "time_ns", 0);
        if (time_ns > 0) {
            times[count++] = time_ns;
        }
    }
    if (count < 2) {
        return true;
    }
    qsort(times, count, sizeof times[0], compare_reals);
    double median = count % 2 ? times[count / 2] : (times[count / 2 - 1] + times[count / 2]) / 2;
    double apart = times[count - 1] - times[0];
    bool ok = gk_json_set_real(group, "median_ns", median) &&
              gk_json_set_real(group, "spread", apart / median) &&
              gk_json_set_real(group, "half_width", apart / (times[0] + times[count - 1]));
    for (size_t i = 0; ok && i < gk_json_count(devices); i++) {
        struct gk_json *device = (struct gk_json *)(uintptr_t)gk_json_at(devices, i); /* ours */
        double time_ns = gk_json_get_real(device, "time_ns", 0);
        ok = !(time_ns > 0) || gk_json_set_real(device, "ratio", time_ns / median);
    }
    return ok;
}

/* "GPU-00112233" of a whole UUID; WORKER/DEVICE as it is. */
static void cell_device(struct gk_table *table, const char *key)
{
    bool uuid = strncmp(key, "GPU-", 4) == 0 || strncmp(key, "MIG-", 4) == 0;
    gk_table_cell(table, "%.*s", uuid ? 12 : 64, key);
}

static void put_group(struct gk_cli *cli, struct gk_table *table, const struct gk_json *group)
{
    const struct gk_json *devices = gk_json_get(group, "devices"),
                         *spread = gk_json_get(group, "spread");
    for (size_t i = 0; i < gk_json_count(devices); i++) {
        const struct gk_json *device = gk_json_at(devices, i);
        gk_cell_text(table, group, "op");
        gk_cell_problem(cli, table, group);
        gk_cell_text(table, group, "gpu");
        cell_device(table, gk_json_get_string(device, "device", "-"));
        gk_cell_time(table, device, "time_ns");
        if (gk_json_get(device, "ratio")) {
            gk_table_cell(table, "%.4f", gk_json_get_real(device, "ratio", 0));
        } else {
            gk_table_cell(table, "-");
        }
        if (spread) {
            gk_table_cell(table, "%.2f %%", 100 * gk_json_real(spread, 0));
        } else {
            gk_table_cell(table, "-");
        }
        gk_table_cell(
            table, "%s",
            gk_json_get_string(device, "reason", gk_json_get_string(group, "config", "-")));
    }
}

static enum gk_status print(struct gk_cli *cli, const struct gk_json *groups, struct gk_err *err)
{
    struct gk_table table;
    struct gk_buf out = {0};
    if (gk_json_count(groups) == 0) {
        (void)fprintf(stderr, "no config was measured on several GPUs yet: run or submit with "
                              "--spread does it\n");
        return GK_OK;
    }
    gk_table_init(&table, "op|problem|gpu|device|>time|>ratio|>max-min|config");
    for (size_t i = 0; i < gk_json_count(groups); i++) {
        put_group(cli, &table, gk_json_at(groups, i));
    }
    gk_table_render(&table, &out);
    enum gk_status status = gk_buf_status(&out, err);
    (void)fputs(gk_buf_text(&out), stdout);
    gk_buf_fini(&out);
    gk_table_fini(&table);
    return status;
}

enum gk_status gk_print_spread(struct gk_cli *cli, struct gk_err *err)
{
    struct gk_client *client = NULL;
    struct spread spread = {.groups = gk_json_new_array()};
    struct gk_json *body = gk_json_new_object(), *all = NULL;
    const char *op = gk_options_get(&cli->options, "op");
    bool ok = spread.groups && body && (!op || gk_json_set_string(body, "op", op));
    enum gk_status status =
        ok ? gk_client_open(cli, &client, err) : gk_fail(err, GK_NOMEM, "out of memory");
    if (status == GK_OK) {
        status = gk_client_pages(client, "spread", body, "spreads", take_row, &spread, err);
        body = NULL;
    }
    for (size_t i = 0; status == GK_OK && i < gk_json_count(spread.groups); i++) {
        if (!finish((struct gk_json *)(uintptr_t)gk_json_at(spread.groups, i))) { /* ours */
            status = gk_fail(err, GK_NOMEM, "out of memory");
        }
    }
    if (status == GK_OK && cli->json) {
        all = gk_json_new_object();
        status = gk_json_set(all, "spreads", gk_json_copy(spread.groups))
                     ? gk_print_json(cli, all, err)
                     : gk_fail(err, GK_NOMEM, "out of memory");
    } else if (status == GK_OK) {
        status = print(cli, spread.groups, err);
    }
    gk_json_free(all);
    gk_json_free(body);
    gk_json_free(spread.groups);
    gk_client_close(client);
    return status;
}
