/* Listings: see listing.h. */
#include "cli/listing.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct listing {
    struct gk_cli *cli;
    struct gk_table table;
    struct gk_json *rows; /* with --json */
    gk_listing_cells cells;
};

static enum gk_status take_row(void *context, const struct gk_json *row, struct gk_err *err)
{
    struct listing *listing = context;
    if (!listing->rows) {
        listing->cells(listing->cli, &listing->table, row);
        return GK_OK;
    }
    if (!gk_json_push(listing->rows, gk_json_copy(row))) {
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    return GK_OK;
}

enum gk_status gk_listing(struct gk_cli *cli, struct gk_client *client, const char *verb,
                          struct gk_json *body, const char *list, const char *head,
                          gk_listing_cells cells, const char *none, struct gk_err *err)
{
    struct listing listing = {.cli = cli, .cells = cells};
    listing.rows = cli->json ? gk_json_new_array() : NULL;
    gk_table_init(&listing.table, head);
    listing.table.width = isatty(STDOUT_FILENO) && cli->columns > 0 ? (uint32_t)cli->columns : 0;
    enum gk_status status = gk_client_pages(client, verb, body, list, take_row, &listing, err);
    if (status == GK_OK && cli->json) {
        struct gk_json *json = gk_json_new_object();
        (void)gk_json_set(json, list, listing.rows);
        listing.rows = NULL;
        status = gk_print_json(cli, json, err);
        gk_json_free(json);
    } else if (status == GK_OK && gk_table_rows(&listing.table) == 0) {
        (void)fprintf(stderr, "%s\n", none);
    } else if (status == GK_OK) {
        struct gk_buf out = {0};
        gk_table_render(&listing.table, &out);
        status = gk_buf_status(&out, err);
        (void)fputs(gk_buf_text(&out), stdout);
        gk_buf_fini(&out);
    }
    gk_json_free(listing.rows);
    gk_table_fini(&listing.table);
    return status;
}

void gk_cell_text(struct gk_table *table, const struct gk_json *row, const char *key)
{
    gk_table_cell(table, "%s", gk_json_get_string(row, key, "-"));
}

void gk_cell_int(struct gk_table *table, const struct gk_json *row, const char *key)
{
    const struct gk_json *value = gk_json_get(row, key);
    if (gk_json_is(value, GK_JSON_INT)) {
        gk_table_cell(table, "%" PRId64, gk_json_int(value, 0));
    } else {
        gk_table_cell(table, "-");
    }
}

void gk_cell_time(struct gk_table *table, const struct gk_json *row, const char *key)
{
    char text[32];
    gk_time_text(gk_json_get_real(row, key, 0), text);
    gk_table_cell(table, "%s", text);
}

#define LABEL_SIZE 512

const struct gk_catalog *gk_label_catalog(struct gk_cli *cli)
{
    if (!cli->catalog && !cli->catalog_tried && cli->kernels_dir) {
        struct gk_diag diag; /* a broken catalog is told by the commands that need one */
        gk_diag_init(&diag);
        cli->catalog_tried = true;
        if (gk_catalog_load(cli->kernels_dir, &cli->owned_catalog, &diag) == GK_OK) {
            cli->catalog = cli->owned_catalog;
        }
        gk_diag_fini(&diag);
    }
    return cli->catalog;
}

/* False if the op is unknown here, or is another one than when the problem was stored. */
static bool label_of(struct gk_cli *cli, const char *canonical, char label_out[LABEL_SIZE])
{
    char name[GK_NAME_MAX];
    struct gk_problem problem = {0};
    if (!gk_label_catalog(cli) || gk_problem_op_of(canonical, name, NULL) != GK_OK) {
        return false;
    }
    const struct gk_op *op = gk_catalog_find(cli->catalog, name);
    if (!op || gk_problem_from_text(&op->fields, canonical, &problem, NULL) != GK_OK) {
        return false;
    }
    gk_problem_label(&problem, label_out, LABEL_SIZE);
    gk_problem_fini(&problem);
    return true;
}

void gk_cell_problem(struct gk_cli *cli, struct gk_table *table, const struct gk_json *row)
{
    const char *problem = gk_json_get_string(row, "problem", "-");
    char label[LABEL_SIZE];
    if (label_of(cli, problem, label)) {
        gk_table_cell(table, "%s", label);
        return;
    }
    const char *brace = strchr(problem, '{');
    struct gk_buf text = {0};
    /* {"K":64,"dtype":"f16"} as K=64 dtype=f16: what a shapes file said */
    for (const char *p = brace ? brace : problem; *p; p++) {
        if (*p == ':') {
            gk_buf_putc(&text, '=');
        } else if (*p == ',') {
            gk_buf_putc(&text, ' ');
        } else if (!strchr("\"{}", *p)) {
            gk_buf_putc(&text, *p);
        }
    }
    gk_table_cell(table, "%s", gk_buf_text(&text));
    gk_buf_fini(&text);
}

void gk_cell_ratio(struct gk_table *table, double over, double under)
{
    if (over > 0 && under > 0) {
        gk_table_cell(table, "%.3fx", over / under);
    } else {
        gk_table_cell(table, "-");
    }
}

#define VENDOR_REASON_BYTES 60 /* in a cell; --json has all of it */

void gk_cell_vendor(struct gk_table *table, const struct gk_json *pick)
{
    const struct gk_json *vendor = gk_json_get(pick, "vendor");
    const char *reason = gk_json_get_string(vendor, "reason", NULL);
    if (reason) {
        int size = (int)strcspn(reason, "\n");
        gk_table_cell(table, "-");
        gk_table_cell(table, "no vendor time: %.*s%s",
                      size > VENDOR_REASON_BYTES ? VENDOR_REASON_BYTES : size, reason,
                      size > VENDOR_REASON_BYTES || reason[size] ? " ..." : "");
    } else if (vendor) {
        double ratio = gk_json_get_real(vendor, "of_vendor", 0);
        gk_cell_time(table, vendor, "time_ns");
        gk_table_cell(table, "%.3fx +-%.3f", ratio,
                      (gk_json_get_real(vendor, "of_vendor_high", ratio) -
                       gk_json_get_real(vendor, "of_vendor_low", ratio)) /
                          2);
    } else {
        gk_table_cell(table, "-");
        gk_table_cell(table, "-");
    }
}

void gk_cell_marks(struct gk_table *table, const struct gk_json *marks)
{
    struct gk_buf text = {0};
    for (size_t i = 0; i < gk_json_count(marks); i++) {
        gk_buf_printf(&text, "%s%s", i ? ", " : "", gk_json_string(gk_json_at(marks, i), "?"));
    }
    gk_table_cell(table, "%s", text.size > 0 ? gk_buf_text(&text) : "-");
    gk_buf_fini(&text);
}

const struct gk_json *gk_job_of(const struct gk_json *reply)
{
    const struct gk_json *job = gk_json_get(reply, "job");
    return gk_json_is(job, GK_JSON_OBJECT) ? job : reply;
}

bool gk_trial_unrun(const struct gk_json *trial)
{
    return strcmp(gk_json_get_string(trial, "state", ""), "parked") == 0 &&
           strcmp(gk_json_get_string(trial, "failure", "none"), "none") == 0;
}

bool gk_job_ended(const struct gk_json *job)
{
    const char *state = gk_json_get_string(job, "state", "");
    return strcmp(state, "done") == 0 || strcmp(state, "failed") == 0 ||
           strcmp(state, "cancelled") == 0;
}
