/* Rows of one op on one arch: see export_model.h. */
#include "cli/export_model.h"

#include "core/policy.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool row_is(const struct gk_json *row, const char *op, const char *arch)
{
    return strcmp(gk_json_get_string(row, "op", ""), op) == 0 &&
           strcmp(gk_json_get_string(row, "arch", ""), arch) == 0;
}

static const struct export_bundle *bundle_of(const struct gk_json *row,
                                             const struct export_bundle *bundles, uint32_t count)
{
    struct gk_hash id;
    if (!gk_hash_from_hex(gk_json_get_string(row, "bundle", ""), &id)) {
        return NULL;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (gk_hash_equal(&bundles[i].id, &id)) {
            return &bundles[i];
        }
    }
    return NULL;
}

static enum gk_status add_unit(struct export_set *set, const struct export_bundle *bundle,
                               const char *template_name, uint32_t *unit_out, struct gk_err *err)
{
    const struct gk_op *op = gk_catalog_find(bundle->catalog, set->op_name);
    const struct gk_template *t = op ? gk_op_template(op, template_name) : NULL;
    if (!t) {
        return gk_fail(err, GK_CORRUPT, "a row names template '%s', its bundle has none",
                       template_name);
    }
    uint32_t same_name = 0;
    for (uint32_t i = 0; i < set->unit_count; i++) {
        if (gk_hash_equal(&set->units[i].t->hash, &t->hash)) {
            *unit_out = i;
            return GK_OK;
        }
        same_name += strcmp(set->units[i].t->name, t->name) == 0;
    }
    if (set->unit_count == EXPORT_UNITS_MAX) {
        return gk_fail(err, GK_LIMIT, "more than %d versions of templates of %s", EXPORT_UNITS_MAX,
                       set->op_name);
    }
    struct export_unit *unit = &set->units[set->unit_count];
    *unit = (struct export_unit){.bundle = bundle, .op = op, .t = t};
    (void)snprintf(unit->name, sizeof unit->name, same_name ? "%s_%" PRIu32 : "%s", t->name,
                   same_name + 1);
    *unit_out = set->unit_count++;
    return GK_OK;
}

/* Device properties of a row: those it carries, or the built-in ones of its arch. */
static enum gk_status device_of(const struct export_set *set, const struct gk_json *row,
                                struct gk_device_props *dev, struct gk_err *err)
{
    const struct gk_json *device = gk_json_get(row, "device");
    if (gk_json_is(device, GK_JSON_OBJECT)) {
        return gk_device_props_from_json(device, dev, err);
    }
    return gk_device_props_builtin(set->arch, dev, err);
}

static enum gk_status add_gpu(struct export_set *set, const struct gk_json *row, uint32_t *gpu_out,
                              struct gk_err *err)
{
    const char *name = gk_json_get_string(row, "gpu", "?");
    for (uint32_t i = 0; i < set->gpu_count; i++) {
        if (strcmp(set->gpus[i].name, name) == 0) {
            *gpu_out = i;
            return GK_OK;
        }
    }
    if (set->gpu_count == EXPORT_GPUS_MAX) {
        return gk_fail(err, GK_LIMIT, "more than %d gpus of arch %s; choose one by --gpu",
                       EXPORT_GPUS_MAX, set->arch);
    }
    struct export_gpu *gpu = &set->gpus[set->gpu_count];
    enum gk_status status = device_of(set, row, &gpu->dev, err);
    if (status != GK_OK) {
        return gk_fail_in(err, status, "device of gpu %s", name);
    }
    (void)snprintf(gpu->name, sizeof gpu->name, "%s", name);
    *gpu_out = set->gpu_count++;
    return GK_OK;
}

static enum gk_status read_row(struct export_set *set, const struct gk_json *json,
                               const struct export_bundle *bundle, struct export_row *row,
                               struct gk_err *err)
{
    const char *text = gk_json_get_string(json, "problem", "");
    struct gk_space_def def = {0};
    uint32_t tree = 0;
    row->json = json;
    row->is_default = strcmp(gk_json_get_string(json, "kind", ""), "default") == 0;
    enum gk_status status =
        add_unit(set, bundle, gk_json_get_string(json, "template", ""), &row->unit, err);
    if (status == GK_OK) {
        status = add_gpu(set, json, &row->gpu, err);
    }
    if (status != GK_OK) {
        return status;
    }
    const struct export_unit *unit = &set->units[row->unit];
    status = gk_problem_from_text(&unit->op->fields, text, &row->problem, err);
    if (status == GK_OK) {
        status = gk_problem_from_text(&set->op->fields, text, &row->shown, err);
    }
    if (status == GK_OK) {
        status = gk_catalog_space(unit->op, &row->problem, &set->gpus[row->gpu].dev, &def, err);
    }
    if (status == GK_OK) {
        status = gk_config_from_text(&def, gk_json_get_string(json, "config", ""), &row->config,
                                     &tree, err);
    }
    gk_space_def_fini(&def);
    return status;
}

/* Declared order of fields, numbers by value: neighbouring shapes stand together, and adding one
 * moves no other. */
static int compare_rows(const void *a, const void *b)
{
    const struct export_row *x = a, *y = b;
    const struct gk_op_fields *op = x->shown.op;
    for (uint32_t pass = 0; pass < 2; pass++) { /* flags first: dtype and layout part a table */
        for (uint32_t i = 0; i < op->field_count; i++) {
            const struct gk_field *field = &op->fields[i];
            bool extent = field->type == GK_FIELD_INT;
            if (extent != (pass == 1) || field->type == GK_FIELD_INTS) {
                continue;
            }
            if (field->type == GK_FIELD_REAL) {
                double p = x->shown.slots[field->slot].r, q = y->shown.slots[field->slot].r;
                if (p < q || p > q) {
                    return p < q ? -1 : 1;
                }
                continue;
            }
            int64_t p = x->shown.slots[field->slot].i, q = y->shown.slots[field->slot].i;
            if (p != q) {
                return p < q ? -1 : 1;
            }
        }
    }
    int order = strcmp(x->shown.canonical, y->shown.canonical);
    return order ? order : (x->gpu > y->gpu) - (x->gpu < y->gpu);
}

static int compare_gpus(const void *a, const void *b)
{
    return strcmp(((const struct export_gpu *)a)->name, ((const struct export_gpu *)b)->name);
}

/* The names of gpus are known before rows are read, so that their order does not hang on that of
 * the rows. */
static enum gk_status gather_gpus(struct export_set *set, const struct gk_json *rows,
                                  struct gk_err *err)
{
    enum gk_status status = GK_OK;
    for (size_t i = 0; i < gk_json_count(rows) && status == GK_OK; i++) {
        uint32_t gpu = 0;
        if (row_is(gk_json_at(rows, i), set->op_name, set->arch)) {
            status = add_gpu(set, gk_json_at(rows, i), &gpu, err);
        }
    }
    qsort(set->gpus, set->gpu_count, sizeof set->gpus[0], compare_gpus);
    return status;
}

/* The op whose problem struct is written: that with the most fields; fields are only ever added. */
static enum gk_status choose_op(struct export_set *set, const struct gk_json *rows,
                                const struct export_bundle *bundles, uint32_t bundle_count,
                                struct gk_err *err)
{
    for (size_t i = 0; i < gk_json_count(rows); i++) {
        const struct gk_json *row = gk_json_at(rows, i);
        if (!row_is(row, set->op_name, set->arch)) {
            continue;
        }
        set->row_count++;
        const struct export_bundle *bundle = bundle_of(row, bundles, bundle_count);
        const struct gk_op *op = bundle ? gk_catalog_find(bundle->catalog, set->op_name) : NULL;
        if (!op) {
            return gk_fail(err, GK_CORRUPT, "a row of op %s has no bundle with that op",
                           set->op_name);
        }
        if (!set->op || op->fields.field_count > set->op->fields.field_count) {
            set->op = op;
            set->bundle = bundle;
        }
        if (set->policy[0] == '\0') {
            (void)snprintf(set->policy, sizeof set->policy, "%s",
                           gk_json_get_string(row, "policy", gk_policy_name(GK_POLICY_COLD_GRAPH)));
        }
    }
    return set->op ? GK_OK
                   : gk_fail(err, GK_NOT_FOUND, "no row of %s on %s", set->op_name, set->arch);
}

/* Templates that the defaults name, so that a default can be answered for any problem. */
static enum gk_status add_default_units(struct export_set *set, struct gk_err *err)
{
    enum gk_status status = GK_OK;
    for (uint32_t i = 0; i < set->op->default_count && status == GK_OK; i++) {
        const struct gk_template *t = &set->op->templates[set->op->defaults[i].template_index];
        uint32_t unit = 0;
        if (gk_template_runs_on(t, set->target)) {
            status = add_unit(set, set->bundle, t->name, &unit, err);
        }
    }
    return status;
}

enum gk_status export_set_init(struct export_set *set, const char *op, const char *arch,
                               const struct gk_json *rows, const struct export_bundle *bundles,
                               uint32_t bundle_count, struct gk_err *err)
{
    *set = (struct export_set){0};
    const char *dash = strchr(arch, '-');
    (void)snprintf(set->op_name, sizeof set->op_name, "%s", op);
    (void)snprintf(set->arch, sizeof set->arch, "%s", arch);
    (void)snprintf(set->target, sizeof set->target, "%s", dash ? dash + 1 : arch);
    (void)snprintf(set->ident, sizeof set->ident, "gk_%s_%s", op, arch);
    for (char *p = set->ident; *p; p++) {
        *p = *p == '-' ? '_' : *p;
    }
    set->modelled = dash != NULL;
    enum gk_status status = choose_op(set, rows, bundles, bundle_count, err);
    if (status == GK_OK) {
        status = gather_gpus(set, rows, err);
    }
    uint32_t wanted = set->row_count, count = 0;
    set->rows = calloc(wanted + 1, sizeof *set->rows);
    set->row_count = 0;
    if (status == GK_OK && !set->rows) {
        status = gk_fail(err, GK_NOMEM, "out of memory");
    }
    for (size_t i = 0; i < gk_json_count(rows) && status == GK_OK; i++) {
        const struct gk_json *row = gk_json_at(rows, i);
        if (row_is(row, op, arch) &&
            strcmp(gk_json_get_string(row, "policy", set->policy), set->policy) == 0) {
            set->row_count = ++count; /* also of one that is half read: fini releases it */
            status = read_row(set, row, bundle_of(row, bundles, bundle_count),
                              &set->rows[count - 1], err);
            if (status != GK_OK) {
                status =
                    gk_fail_in(err, status, "row of %s", gk_json_get_string(row, "problem", "?"));
            }
        }
    }
    if (status == GK_OK) {
        qsort(set->rows, set->row_count, sizeof *set->rows, compare_rows);
        status = add_default_units(set, err);
    }
    if (status != GK_OK) {
        export_set_fini(set);
    }
    return status;
}

void export_set_fini(struct export_set *set)
{
    for (uint32_t i = 0; i < set->row_count; i++) {
        gk_problem_fini(&set->rows[i].problem);
        gk_problem_fini(&set->rows[i].shown);
    }
    free(set->rows);
    *set = (struct export_set){0};
}
