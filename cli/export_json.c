/* Format json: the picks as data, for those who do not include a C header. Depends on picks alone,
 * as the header. */
#include "cli/export_model.h"

#include <stdlib.h>
#include <string.h>

static struct gk_json *defines_json(const struct export_set *set, const struct export_row *row,
                                    uint32_t launch)
{
    const struct export_unit *unit = &set->units[row->unit];
    char **defines = NULL;
    uint32_t count = 0;
    if (gk_catalog_defines(unit->op, unit->t, launch, &row->problem, &row->config, set->target,
                           &defines, &count, NULL) != GK_OK) {
        return NULL;
    }
    struct gk_json *list = gk_json_new_array();
    for (uint32_t i = 0; i < count; i++) {
        (void)gk_json_push(list, gk_json_new_string(defines[i]));
    }
    gk_defines_free(defines, count);
    return list;
}

static struct gk_json *launches_json(const struct export_set *set, const struct export_row *row)
{
    const struct export_unit *unit = &set->units[row->unit];
    struct gk_json *launches = gk_json_new_array();
    for (uint32_t i = 0; i < unit->t->launch_count; i++) {
        struct gk_json *launch = gk_json_new_object();
        char *source = gk_asprintf("%s/%s", unit->bundle->folder, unit->t->launches[i].source);
        (void)gk_json_set_string(launch, "kernel", unit->t->launches[i].kernel);
        (void)gk_json_set_string(launch, "source", source ? source : "");
        (void)gk_json_set(launch, "defines", defines_json(set, row, i));
        (void)gk_json_push(launches, launch);
        free(source);
    }
    return launches;
}

static struct gk_json *row_json(const struct export_set *set, const struct export_row *row)
{
    static const char *const keys[] = {"problem",  "arch",          "gpu",    "policy",
                                       "template", "template_hash", "config", "kind"};
    struct gk_json *json = gk_json_new_object();
    for (size_t i = 0; i < GK_ARRAY_COUNT(keys); i++) {
        const struct gk_json *value = gk_json_get(row->json, keys[i]);
        if (value) {
            (void)gk_json_set(json, keys[i], gk_json_copy(value));
        }
    }
    (void)gk_json_set(json, "fields", gk_problem_to_json(&row->shown));
    struct gk_json *params = gk_json_new_object();
    const struct gk_template *t = set->units[row->unit].t;
    for (uint32_t i = 0; i < t->param_count; i++) {
        const struct gk_param *param = &t->params[i];
        (void)gk_json_set(params, param->name,
                          param->names ? gk_json_new_string(param->names[row->config.values[i]])
                                       : gk_json_new_int(row->config.values[i]));
    }
    (void)gk_json_set(json, "params", params);
    (void)gk_json_set(json, "launches", launches_json(set, row));
    if (gk_json_get_bool(row->json, "stale", false)) {
        (void)gk_json_set_bool(json, "stale", true);
    }
    return json;
}

enum gk_status export_rows_json(const struct export_set *set, struct gk_json **json_out,
                                struct gk_err *err)
{
    struct gk_json *json = gk_json_new_object(), *rows = gk_json_new_array();
    for (uint32_t i = 0; i < set->row_count; i++) {
        (void)gk_json_push(rows, row_json(set, &set->rows[i]));
    }
    bool ok = json && gk_json_count(rows) == set->row_count &&
              gk_json_set_int(json, "version", 1) && gk_json_set_string(json, "op", set->op_name) &&
              gk_json_set_string(json, "arch", set->arch) &&
              gk_json_set_string(json, "target", set->target) &&
              gk_json_set_string(json, "policy", set->policy) &&
              gk_json_set_bool(json, "modelled", set->modelled);
    ok = gk_json_set(json, "rows", rows) && ok;
    if (!ok) {
        gk_json_free(json);
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    *json_out = json;
    return GK_OK;
}
