/* gktune best: what the store would export. */
#include "cli/listing.h"
#include "cli/shape_option.h"

#include <inttypes.h>
#include <string.h>

static int64_t tie_count(const struct gk_json *row)
{
    const struct gk_json *ties = gk_json_get(row, "ties");
    return gk_json_is(ties, GK_JSON_ARRAY) ? (int64_t)gk_json_count(ties) : gk_json_int(ties, 0);
}

static void cells(struct gk_cli *cli, struct gk_table *table, const struct gk_json *row)
{
    char age[32];
    int64_t now = (int64_t)cli->clock.wall_ms(cli->clock.context);
    int64_t then = gk_json_get_int(row, "confirmed_ms", gk_json_get_int(row, "picked_ms", 0));
    double time_ns = gk_json_get_real(row, "time_ns", 0);
    gk_age_text(then, now, age);
    gk_cell_text(table, row, "op");
    gk_cell_problem(cli, table, row);
    gk_cell_text(table, row, "arch");
    gk_cell_text(table, row, "gpu");
    gk_cell_text(table, row, "kind");
    gk_cell_time(table, row, "time_ns");
    gk_cell_ratio(table, gk_json_get_real(row, "default_ns", 0), time_ns);
    gk_cell_vendor(table, row);
    gk_cell_text(table, row, "policy");
    gk_cell_text(table, row, "regime");
    gk_cell_marks(table, gk_json_get(row, "marks"));
    gk_table_cell(table, "%.1f%%", 100 * gk_json_get_real(row, "margin", 0));
    gk_table_cell(table, "%" PRId64, tie_count(row));
    gk_table_cell(table, "%s%s", age, gk_json_get_bool(row, "stale", false) ? " stale" : "");
    gk_cell_text(table, row, "config");
}

struct op_names {
    const char *wanted;
    bool found;
    struct gk_json *names; /* an object: each name once */
};

static enum gk_status note_op(void *context, const struct gk_json *row, struct gk_err *err)
{
    struct op_names *ops = context;
    const char *name = gk_json_get_string(row, "op", "");
    ops->found |= strcmp(name, ops->wanted) == 0;
    return gk_json_set_bool(ops->names, name, true) ? GK_OK
                                                    : gk_fail(err, GK_NOMEM, "out of memory");
}

static void note_catalog(struct gk_cli *cli, struct op_names *ops)
{
    const struct gk_catalog *catalog = gk_label_catalog(cli);
    for (uint32_t i = 0; catalog && i < gk_catalog_op_count(catalog); i++) {
        const struct gk_op_fields *fields = &gk_catalog_op(catalog, i)->fields;
        ops->found |= strcmp(fields->op, ops->wanted) == 0;
        (void)gk_json_set_bool(ops->names, fields->op, true); /* for a message */
    }
}

/* "No picks yet" would hide a name that was mistyped: an op is one of the catalog or of the store.
 */
static enum gk_status check_op(struct gk_cli *cli, struct gk_client *client, const char *wanted,
                               struct gk_err *err)
{
    struct op_names ops = {.wanted = wanted, .names = gk_json_new_object()};
    enum gk_status status = GK_OK;
    note_catalog(cli, &ops);
    if (!ops.found) {
        status = gk_client_pages(client, "best", gk_json_new_object(), "rows", note_op, &ops, err);
    }
    if (status == GK_OK && !ops.found) {
        struct gk_buf names = {0};
        void *cursor = NULL;
        const char *key = NULL;
        while (gk_json_next(ops.names, &cursor, &key)) {
            gk_buf_printf(&names, "%s%s", names.size ? ", " : "", key);
        }
        status = gk_fail(err, GK_NOT_FOUND, "'%.100s' is no op; there are %s", wanted,
                         names.size ? gk_buf_text(&names) : "none");
        gk_buf_fini(&names);
    }
    gk_json_free(ops.names);
    return status;
}

enum gk_status gk_cmd_best(struct gk_cli *cli, struct gk_err *err)
{
    static const char *const filters[] = {"arch", "gpu"};
    struct gk_client *client = NULL;
    enum gk_status status = gk_client_open(cli, &client, err);
    if (status == GK_OK && cli->options.operand_count) {
        status = check_op(cli, client, cli->options.operands[0], err);
    }
    if (status == GK_OK) {
        struct gk_json *body = gk_json_new_object();
        if (cli->options.operand_count) {
            (void)gk_json_set_string(body, "op", cli->options.operands[0]);
        }
        for (size_t i = 0; i < GK_ARRAY_COUNT(filters); i++) {
            const char *value = gk_options_get(&cli->options, filters[i]);
            char arch[64];
            if (value) {
                gk_arch_name(value, arch);
                (void)gk_json_set_string(body, filters[i], i == 0 ? arch : value);
            }
        }
        status = gk_listing(cli, client, "best", body, "rows",
                            "op|problem|arch|gpu|kind|>time|>vs default|>vendor|>x of "
                            "vendor|policy|regime|marks|>margin|>ties|>age|config",
                            cells, "no picks yet", err);
    }
    gk_client_close(client);
    return status;
}
