/* What is said when a job has ended: see ending.h. */
#include "cli/ending.h"
#include "cli/listing.h"
#include "cli/winners.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REASONS_MAX   64 /* core/record.h has fewer failures */
#define EXAMPLE_BYTES 160

struct reason {
    char name[48];
    int64_t count;
    char *config, *message; /* of the first */
};

struct reasons {
    struct reason list[REASONS_MAX];
    uint32_t count;
    int64_t unrun; /* taken back when the job was asked to finish: no failures */
};

static enum gk_status count_reason(void *context, const struct gk_json *row, struct gk_err *err)
{
    (void)err;
    struct reasons *reasons = context;
    const char *name = gk_json_get_string(row, "failure", "none");
    if (gk_trial_unrun(row)) {
        reasons->unrun++;
        return GK_OK;
    }
    if (strcmp(gk_json_get_string(row, "state", ""), "parked") == 0) {
        name = "parked";
    }
    if (strcmp(name, "none") == 0) {
        return GK_OK;
    }
    for (uint32_t i = 0; i < reasons->count; i++) {
        if (strcmp(reasons->list[i].name, name) == 0) {
            reasons->list[i].count++;
            return GK_OK;
        }
    }
    if (reasons->count < REASONS_MAX) {
        struct reason *reason = &reasons->list[reasons->count++];
        (void)snprintf(reason->name, sizeof reason->name, "%s", name);
        reason->count = 1;
        reason->config = gk_strdup(gk_json_get_string(row, "config", ""));
        reason->message = gk_strdup(gk_json_get_string(row, "message", ""));
    }
    return GK_OK;
}

static int most_first(const void *a, const void *b)
{
    const struct reason *x = a, *y = b;
    return x->count != y->count ? (x->count < y->count) - (x->count > y->count)
                                : strcmp(x->name, y->name);
}

static void reasons_fini(struct reasons *reasons)
{
    for (uint32_t i = 0; i < reasons->count; i++) {
        free(reasons->list[i].config);
        free(reasons->list[i].message);
    }
}

static enum gk_status load_reasons(struct gk_client *client, int64_t job, struct reasons *reasons,
                                   struct gk_err *err)
{
    struct gk_json *body = gk_json_new_object();
    (void)gk_json_set_int(body, "job", job);
    (void)gk_json_set_bool(body, "failed", true);
    enum gk_status status =
        gk_client_pages(client, "trials", body, "trials", count_reason, reasons, err);
    qsort(reasons->list, reasons->count, sizeof reasons->list[0], most_first);
    return status;
}

static void reasons_text(const struct reasons *reasons, int64_t job, struct gk_buf *out)
{
    if (reasons->unrun > 0) {
        gk_buf_printf(out, "\n%" PRId64 " trial%s not run: the job was asked to finish before\n",
                      reasons->unrun, reasons->unrun == 1 ? " was" : "s were");
    }
    if (reasons->count == 0) {
        gk_buf_puts(out, "\nno failed trials\n");
        return;
    }
    gk_buf_puts(out, "\nfailed trials\n");
    struct gk_table table;
    gk_table_init(&table, ">count|reason|for example");
    for (uint32_t i = 0; i < reasons->count; i++) {
        const struct reason *reason = &reasons->list[i];
        const char *message = reason->message ? reason->message : "";
        size_t size = strcspn(message, "\n");
        gk_table_cell(&table, "%" PRId64, reason->count);
        gk_table_cell(&table, "%s", reason->name);
        gk_table_cell(&table, "%s: %.*s%s", reason->config ? reason->config : "",
                      (int)(size > EXAMPLE_BYTES ? EXAMPLE_BYTES : size), message,
                      size > EXAMPLE_BYTES || message[size] ? " ..." : "");
    }
    gk_table_render(&table, out);
    gk_table_fini(&table);
    gk_buf_printf(out, "all of them: gktune trials %" PRId64 " --failed\n", job);
}

static enum gk_status print_object(struct gk_cli *cli, const struct gk_winners *winners,
                                   const struct reasons *reasons, const char *export_path,
                                   struct gk_err *err)
{
    struct gk_json *json = gk_winners_json(winners), *failures = gk_json_new_array();
    for (uint32_t i = 0; i < reasons->count; i++) {
        struct gk_json *one = gk_json_new_object();
        (void)gk_json_set_string(one, "failure", reasons->list[i].name);
        (void)gk_json_set_int(one, "count", reasons->list[i].count);
        (void)gk_json_set_string(one, "config",
                                 reasons->list[i].config ? reasons->list[i].config : "");
        (void)gk_json_set_string(one, "message",
                                 reasons->list[i].message ? reasons->list[i].message : "");
        (void)gk_json_push(failures, one);
    }
    (void)gk_json_set(json, "failures", failures);
    (void)gk_json_set_int(json, "not_run", reasons->unrun);
    if (export_path) {
        (void)gk_json_set_string(json, "export", export_path);
    }
    enum gk_status status =
        json ? gk_print_json(cli, json, err) : gk_fail(err, GK_NOMEM, "out of memory");
    gk_json_free(json);
    return status;
}

/* The headers alone, as paths to include: evidence and sources lie beside them. */
static void headers_text(const char *folder, const struct gk_json *files, struct gk_buf *out)
{
    gk_buf_putc(out, '\n');
    for (size_t i = 0; i < gk_json_count(files); i++) {
        const char *path = gk_json_string(gk_json_at(files, i), "");
        size_t size = strlen(path);
        if (!strchr(path, '/') && size > 2 && strcmp(path + size - 2, ".h") == 0) {
            gk_buf_printf(out, "exported header: %s/%s\n", folder, path);
        }
    }
}

enum gk_status gk_ending(struct gk_cli *cli, struct gk_client *client, int64_t job,
                         const char *export_path, const struct gk_json *files, struct gk_err *err)
{
    struct gk_winners winners = {0};
    struct reasons reasons = {0};
    struct gk_buf out = {0};
    enum gk_status status = gk_winners_load(client, job, &winners, err);
    if (status == GK_OK) {
        status = load_reasons(client, job, &reasons, err);
    }
    if (status == GK_OK && cli->json) {
        status = print_object(cli, &winners, &reasons, export_path, err);
    } else if (status == GK_OK) {
        gk_winners_summary(&winners, &out);
        gk_winners_rates(&winners, &out);
        gk_winners_table(cli, &winners, &out);
        reasons_text(&reasons, job, &out);
        if (export_path) {
            headers_text(export_path, files, &out);
        }
        (void)fputs(gk_buf_text(&out), stdout);
    }
    if (status == GK_OK) {
        uint32_t without = gk_winners_without(&winners);
        size_t tasks = gk_json_count(winners.tasks);
        if (without > 0 || tasks == 0) {
            status = gk_fail(err, GK_NO_PICK, "%" PRIu32 " of %zu problems have no verified pick",
                             without, tasks);
        }
    }
    gk_buf_fini(&out);
    reasons_fini(&reasons);
    gk_winners_fini(&winners);
    return status;
}
