/* gk_<op>_<arch>.h as text. Depends on picks alone: no times, no dates, no paths. */
#include "cli/export_model.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void preamble(const struct export_set *set, struct gk_buf *out)
{
    gk_buf_printf(
        out, "/*\n * Tuned configs of %s for %s. Written by `gktune export`: do not edit.\n *\n",
        set->op_name, set->arch);
    if (set->modelled) {
        gk_buf_puts(out, " * EMULATED: rows were chosen by modelled times of an emulated device, "
                         "not measured on a GPU. They are\n"
                         " * verified results of the same code, but not a statement about any "
                         "GPU's speed.\n *\n");
    }
    gk_buf_printf(out, " * Policy %s. %" PRIu32 " row%s of", set->policy, set->row_count,
                  set->row_count == 1 ? "" : "s");
    for (uint32_t i = 0; i < set->gpu_count; i++) {
        gk_buf_printf(out, "%s %s", i ? "," : "", set->gpus[i].name);
    }
    gk_buf_puts(out, ". Templates:");
    for (uint32_t i = 0; i < set->unit_count; i++) {
        char hex[GK_HASH_TEXT_SIZE];
        gk_hash_hex(&set->units[i].t->hash, hex);
        gk_buf_printf(out, "%s %s (%.12s)", i ? "," : "", set->units[i].name, hex);
    }
    gk_buf_printf(out, ".\n * What was measured stands in %s.evidence.json, sources in src/.\n *\n",
                  set->ident);
    gk_buf_printf(
        out,
        " *   struct gk_%s_problem p;\n *   enum gk_match why;\n *   gk_%s_problem_init(&p, ...);\n"
        " *   row = %s_select(&p, &why);            exact, near or default; NULL: none\n"
        " *   %s_defines(&p, row, i, text, size);   -D options of launch i\n"
        " *   %s_launch(&p, row, NULL, &plan);      grid, block, arguments, workspaces\n"
        " *\n * Compile plan.launches[i].source with NVRTC or nvcc for %s, launch what is present "
        "in order.\n */\n",
        set->op_name, set->op_name, set->ident, set->ident, set->ident, set->target);
}

static void row_types(const struct export_set *set, struct gk_buf *out)
{
    uint32_t widest = 1;
    gk_buf_printf(out, "enum %s_template {", set->ident);
    for (uint32_t i = 0; i < set->unit_count; i++) {
        gk_buf_puts(out, i ? ", " : " ");
        export_upper(set->ident, out);
        gk_buf_putc(out, '_');
        export_upper(set->units[i].name, out);
        widest = set->units[i].t->param_count > widest ? set->units[i].t->param_count : widest;
    }
    gk_buf_printf(out,
                  " };\n\nstruct %s_row {\n    enum gk_origin origin;\n    uint32_t gpu; /* index "
                  "into %s_gpus */\n"
                  "    enum %s_template template_id;\n    union {\n        int32_t values[%" PRIu32
                  "]; /* in declared order */\n",
                  set->ident, set->ident, set->ident, widest);
    for (uint32_t i = 0; i < set->unit_count; i++) {
        gk_buf_printf(out, "        struct %s_%s %s;\n", set->ident, set->units[i].name,
                      set->units[i].name);
    }
    gk_buf_printf(out,
                  "    } config;\n    struct gk_%s_problem problem;\n    const char *config_text; "
                  "/* NULL in a default that was not in the table */\n"
                  "    const char *defines[GK_LAUNCHES_MAX]; /* \"NAME=VALUE\" a line for each "
                  "launch; NULL past the last */\n};\n\n",
                  set->op_name);
}

static enum gk_status gpu_table(const struct export_set *set, struct gk_buf *out)
{
    struct gk_scope *scope = gk_scope_create();
    uint32_t first = 0;
    enum gk_status status = scope ? gk_device_props_scope(scope, &first, NULL) : GK_NOMEM;
    uint32_t count = status == GK_OK ? gk_scope_count(scope) : 0;
    union gk_value *slots = calloc(count + 1, sizeof *slots);
    gk_buf_printf(
        out, "#define %s_GPU_COUNT %" PRIu32 "u\nstatic const struct gk_device %s_gpus[] = {\n",
        set->ident, set->gpu_count, set->ident);
    for (uint32_t i = 0; slots && i < set->gpu_count; i++) {
        gk_device_props_fill(&set->gpus[i].dev, slots + first);
        gk_buf_puts(out, "    {");
        export_quoted(set->gpus[i].name, out);
        for (uint32_t s = first; s < count; s++) {
            gk_buf_printf(out, ", INT64_C(%" PRId64 ")", slots[s].i);
        }
        gk_buf_puts(out, "},\n");
    }
    gk_buf_puts(out, "};\n\n");
    status = slots ? status : GK_NOMEM;
    free(slots);
    gk_scope_destroy(scope);
    return status;
}

static void problem_value(const struct gk_op *op, const struct export_row *row, uint32_t index,
                          struct gk_buf *out)
{
    const struct gk_field *field = &op->fields.fields[index];
    const union gk_value *value = &row->shown.slots[field->slot];
    char real[32];
    switch (field->type) {
    case GK_FIELD_INT:
        gk_buf_printf(out, "INT64_C(%" PRId64 ")", value->i);
        break;
    case GK_FIELD_BOOL:
        gk_buf_printf(out, "%d", value->i != 0);
        break;
    case GK_FIELD_REAL:
        gk_real_text(value->r, real);
        gk_buf_printf(out, "%s%s", real, strpbrk(real, ".e") ? "" : ".0");
        break;
    case GK_FIELD_ENUM:
        gk_buf_puts(out, "GK_");
        export_upper(op->fields.op, out);
        gk_buf_putc(out, '_');
        export_upper(field->name, out);
        gk_buf_putc(out, '_');
        export_upper(field->values[value->i], out);
        break;
    case GK_FIELD_INTS: {
        int64_t min = 0, max = 0, sum = 0;
        for (uint32_t i = 0; i < value->series->count; i++) {
            int64_t v = value->series->values[i];
            min = i == 0 || v < min ? v : min;
            max = i == 0 || v > max ? v : max;
            sum += v;
        }
        gk_buf_printf(out,
                      "{INT64_C(%" PRIu32 "), INT64_C(%" PRId64 "), INT64_C(%" PRId64
                      "), INT64_C(%" PRId64 ")}",
                      value->series->count, min, max, sum);
        break;
    }
    }
}

static enum gk_status defines_text(const struct export_set *set, const struct export_row *row,
                                   uint32_t launch, struct gk_buf *out, struct gk_err *err)
{
    const struct export_unit *unit = &set->units[row->unit];
    char **defines = NULL;
    uint32_t count = 0;
    enum gk_status status = gk_catalog_defines(unit->op, unit->t, launch, &row->problem,
                                               &row->config, set->target, &defines, &count, err);
    struct gk_buf text = {0};
    for (uint32_t i = 0; i < count; i++) {
        gk_buf_printf(&text, "%s\n", defines[i]);
    }
    export_quoted(gk_buf_text(&text), out);
    gk_buf_fini(&text);
    gk_defines_free(defines, count);
    return status;
}

static enum gk_status row_text(const struct export_set *set, const struct export_row *row,
                               struct gk_buf *out, struct gk_err *err)
{
    const struct export_unit *unit = &set->units[row->unit];
    enum gk_status status = GK_OK;
    gk_buf_printf(out, "    {GK_ORIGIN_%s, %" PRIu32 ", ", row->is_default ? "DEFAULT" : "TUNED",
                  row->gpu);
    export_upper(set->ident, out);
    gk_buf_putc(out, '_');
    export_upper(unit->name, out);
    gk_buf_puts(out, ", {{");
    uint32_t widest = 1;
    for (uint32_t i = 0; i < set->unit_count; i++) {
        widest = set->units[i].t->param_count > widest ? set->units[i].t->param_count : widest;
    }
    for (uint32_t i = 0; i < widest;
         i++) { /* every value is written: C++ warns about missing ones */
        gk_buf_printf(out, "%s%" PRId64, i ? ", " : "",
                      i < unit->t->param_count ? row->config.values[i] : 0);
    }
    gk_buf_puts(out, "}},\n     {");
    for (uint32_t i = 0; i < set->op->fields.field_count; i++) {
        gk_buf_puts(out, i ? ", " : "");
        problem_value(set->op, row, i, out);
    }
    gk_buf_puts(out, "},\n     ");
    export_quoted(gk_json_get_string(row->json, "config", ""), out);
    gk_buf_puts(out, ",\n     {");
    for (uint32_t i = 0; i < GK_LAUNCHES_MAX && status == GK_OK; i++) {
        gk_buf_puts(out, i ? ", " : "");
        if (i < unit->t->launch_count) {
            status = defines_text(set, row, i, out, err);
        } else {
            gk_buf_puts(out, "NULL");
        }
    }
    gk_buf_puts(out, "}},\n");
    return status;
}

static enum gk_status row_table(const struct export_set *set, struct gk_buf *out,
                                struct gk_err *err)
{
    enum gk_status status = GK_OK;
    gk_buf_printf(out,
                  "#define %s_ROW_COUNT %" PRIu32 "u\nstatic const struct %s_row %s_rows[] = {\n",
                  set->ident, set->row_count, set->ident, set->ident);
    for (uint32_t i = 0; i < set->row_count && status == GK_OK; i++) {
        char label[160];
        gk_problem_label(&set->rows[i].shown, label, sizeof label);
        gk_buf_printf(out, "    /* %" PRIu32 ": %s, %s%s */\n", i, label,
                      set->gpus[set->rows[i].gpu].name,
                      gk_json_get_bool(set->rows[i].json, "stale", false) ? ", stale" : "");
        status = row_text(set, &set->rows[i], out, err);
    }
    gk_buf_puts(out, "};\n\n");
    return status;
}

enum gk_status export_header_text(const struct export_set *set, struct gk_buf *out,
                                  struct gk_err *err)
{
    struct gk_buf guard = {0};
    export_upper(set->ident, &guard);
    preamble(set, out);
    gk_buf_printf(out, "#ifndef %s_H\n#define %s_H\n\n#include <stddef.h>\n#include <stdint.h>\n\n",
                  gk_buf_text(&guard), gk_buf_text(&guard));
    gk_buf_fini(&guard);
    enum gk_status status = export_shared_types(out);
    if (status == GK_OK) {
        status = export_problem_types(set, out, err);
    }
    for (uint32_t i = 0; i < set->unit_count && status == GK_OK; i++) {
        status = export_unit_code(set, i, out, err);
    }
    if (status == GK_OK) {
        row_types(set, out);
        status = gpu_table(set, out);
    }
    if (status == GK_OK) {
        status = row_table(set, out, err);
    }
    if (status == GK_OK) {
        status = export_default_code(set, out, err);
    }
    if (status == GK_OK) {
        export_dispatch_code(set, out);
        export_select_code(set, out);
        gk_buf_puts(out, "#endif\n");
        status = gk_buf_status(out, err);
    }
    return status;
}
