/*
 * Selection in an exported header: exact, near or default, said by gk_match, never silently.
 *
 * Near: a row whose flags (enums, truth values, reals) equal the asked ones, whose template's
 * constraints admit the asked problem with that row's config, and whose baked extents are the asked
 * ones; the nearest by the sum of |log2| over the integer key fields, the first in the table among
 * equals. A row of another gpu is near at best.
 */
#include "cli/export_model.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------ default */

static enum gk_status default_value(const struct export_set *set, const struct gk_default_def *def,
                                    const struct gk_template *t, uint32_t index, struct gk_buf *out,
                                    struct gk_err *err)
{
    const struct gk_param *param = &t->params[index];
    gk_buf_puts(out, "        value = ");
    enum gk_status status =
        export_expr(set->op, NULL, def->values[index], set->op->fields.scope, out, err);
    gk_buf_puts(out, ";\n        listed = listed && (");
    for (uint32_t i = 0; i < param->value_count; i++) {
        gk_buf_printf(out, "%svalue == INT64_C(%" PRId64 ")", i ? " || " : "", param->values[i]);
    }
    gk_buf_printf(
        out, ");\n        row.config.values[%" PRIu32 "] = listed ? (int32_t)value : 0;\n", index);
    return status;
}

static enum gk_status default_entry(const struct export_set *set, const struct gk_default_def *def,
                                    uint32_t unit_index, struct gk_buf *out, struct gk_err *err)
{
    const struct export_unit *unit = &set->units[unit_index];
    enum gk_status status = GK_OK;
    if (def->when) {
        gk_buf_puts(out, "    if ((");
        status = export_expr(set->op, NULL, def->when, set->op->fields.scope, out, err);
        gk_buf_puts(out, ") != 0) {\n");
    } else {
        gk_buf_puts(out, "    {\n");
    }
    gk_buf_printf(
        out,
        "        struct %s_%s_derived v;\n        int listed = 1;\n        int64_t value = 0;\n",
        set->ident, unit->name);
    for (uint32_t i = 0; i < unit->t->param_count && status == GK_OK; i++) {
        status = default_value(set, def, unit->t, i, out, err);
    }
    gk_buf_printf(out,
                  "        (void)value;\n        if (listed && %s_%s_legal(p, o, &%s_gpus[gpu], "
                  "&row.config.%s, &v)) {\n"
                  "            row.template_id = ",
                  set->ident, unit->name, set->ident, unit->name);
    export_upper(set->ident, out);
    gk_buf_putc(out, '_');
    export_upper(unit->name, out);
    gk_buf_puts(out, ";\n            return &row;\n        }\n    }\n");
    return status;
}

static bool unit_of(const struct export_set *set, const struct gk_template *t, uint32_t *unit_out)
{
    for (uint32_t i = 0; i < set->unit_count; i++) {
        if (set->units[i].t == t || gk_hash_equal(&set->units[i].t->hash, &t->hash)) {
            *unit_out = i;
            return true;
        }
    }
    return false;
}

enum gk_status export_default_code(const struct export_set *set, struct gk_buf *out,
                                   struct gk_err *err)
{
    enum gk_status status = GK_OK;
    gk_buf_printf(
        out,
        "/* What an untuned problem gets: the first legal entry of the op's ordered rules. The row "
        "is one a thread\n"
        " * and is overwritten by the next call. */\n"
        "static inline const struct %s_row *%s_default(const struct gk_%s_problem *p,\n"
        "    const struct gk_%s_derived *o, uint32_t gpu)\n{\n"
        "    static GK_THREAD_LOCAL struct %s_row row;\n    uint32_t i;\n    (void)o;\n"
        "    row.origin = GK_ORIGIN_DEFAULT;\n    row.gpu = gpu;\n    row.problem = *p;\n    "
        "row.config_text = NULL;\n"
        "    for (i = 0; i < GK_LAUNCHES_MAX; i++) {\n        row.defines[i] = NULL;\n    }\n",
        set->ident, set->ident, set->op_name, set->op_name, set->ident);
    for (uint32_t i = 0; i < set->op->default_count && status == GK_OK; i++) {
        const struct gk_default_def *def = &set->op->defaults[i];
        uint32_t unit = 0;
        if (unit_of(set, &set->op->templates[def->template_index], &unit)) {
            status = default_entry(set, def, unit, out, err);
        }
    }
    gk_buf_puts(out, "    return NULL;\n}\n\n");
    return status;
}

/* ------------------------------------------------------------------ dispatch by template */

/* "    case GK_X_TEMPLATE:\n" */
static void case_line(const struct export_set *set, uint32_t unit, struct gk_buf *out)
{
    gk_buf_puts(out, "    case ");
    export_upper(set->ident, out);
    gk_buf_putc(out, '_');
    export_upper(set->units[unit].name, out);
    gk_buf_puts(out, ":\n");
}

static void legal_dispatch(const struct export_set *set, struct gk_buf *out)
{
    gk_buf_printf(
        out,
        "/* 1 if the row's template runs this problem with the row's config on the row's gpu. */\n"
        "static inline int %s_admits(const struct %s_row *row, const struct gk_%s_problem *p,\n"
        "    const struct gk_%s_derived *o)\n{\n    const struct gk_device *d = "
        "&%s_gpus[row->gpu];\n"
        "    switch (row->template_id) {\n",
        set->ident, set->ident, set->op_name, set->op_name, set->ident);
    for (uint32_t i = 0; i < set->unit_count; i++) {
        const struct export_unit *unit = &set->units[i];
        case_line(set, i, out);
        gk_buf_puts(out, "    {\n");
        gk_buf_printf(out, "        struct %s_%s_derived v;\n", set->ident, unit->name);
        for (uint32_t f = 0; f < unit->op->fields.field_count; f++) {
            if ((unit->t->bake_mask >> f & 1) != 0 &&
                unit->op->fields.fields[f].type == GK_FIELD_INT) {
                struct gk_buf name = {0};
                export_name(unit->op->fields.fields[f].name, &name);
                gk_buf_printf(out,
                              "        if (p->%s != row->problem.%s) {\n            return 0; /* "
                              "baked */\n        }\n",
                              gk_buf_text(&name), gk_buf_text(&name));
                gk_buf_fini(&name);
            }
        }
        gk_buf_printf(out, "        return %s_%s_legal(p, o, d, &row->config.%s, &v);\n    }\n",
                      set->ident, unit->name, unit->name);
    }
    gk_buf_puts(out, "    }\n    return 0;\n}\n\n");
}

void export_dispatch_code(const struct export_set *set, struct gk_buf *out)
{
    legal_dispatch(set, out);
    gk_buf_printf(
        out,
        "/* Grids, blocks, arguments, shared memory, workspaces and tensor maps of a row for a "
        "problem. facts: one entry\n"
        " * a launch, or NULL where no grid asks for what is known after compiling. 0: the row "
        "does not run it. */\n"
        "static inline int %s_launch(const struct gk_%s_problem *p, const struct %s_row *row,\n"
        "    const struct gk_facts *facts, struct gk_plan *plan)\n{\n    struct gk_%s_derived o;\n"
        "    const struct gk_device *d = &%s_gpus[row->gpu];\n    if (!gk_%s_derive(p, &o)) {\n    "
        "    return 0;\n    }\n"
        "    switch (row->template_id) {\n",
        set->ident, set->op_name, set->ident, set->op_name, set->ident, set->op_name);
    for (uint32_t i = 0; i < set->unit_count; i++) {
        case_line(set, i, out);
        gk_buf_printf(out, "        return %s_%s_plan(p, &o, d, &row->config.%s, facts, plan);\n",
                      set->ident, set->units[i].name, set->units[i].name);
    }
    gk_buf_printf(
        out,
        "    }\n    return 0;\n}\n\n/* Defines of a launch, \"NAME=VALUE\" a line, as snprintf "
        "counts. For an exact match the same text stands in\n"
        " * row->defines[launch]. */\n"
        "static inline size_t %s_defines(const struct gk_%s_problem *p, const struct %s_row *row,\n"
        "    uint32_t launch, char *text, size_t size)\n{\n    switch (row->template_id) {\n",
        set->ident, set->op_name, set->ident);
    for (uint32_t i = 0; i < set->unit_count; i++) {
        case_line(set, i, out);
        gk_buf_printf(out,
                      "        return %s_%s_defines(p, &row->config.%s, launch, text, size);\n",
                      set->ident, set->units[i].name, set->units[i].name);
    }
    gk_buf_puts(out, "    }\n    return 0;\n}\n\n");
}

/* ------------------------------------------------------------------ selection */

/* Condition that a field of a and b differs: "a->M != b->M". Reals by < and >, so that no compiler
 * warns. */
static void differs(const struct gk_field *field, struct gk_buf *out)
{
    struct gk_buf name = {0};
    export_name(field->name, &name);
    const char *n = gk_buf_text(&name);
    if (field->type == GK_FIELD_REAL) {
        gk_buf_printf(out, "a->%s < b->%s || a->%s > b->%s", n, n, n, n);
    } else if (field->type == GK_FIELD_INTS) {
        gk_buf_printf(
            out, "a->%s.count != b->%s.count || a->%s.max != b->%s.max || a->%s.sum != b->%s.sum",
            n, n, n, n, n, n);
    } else {
        gk_buf_printf(out, "a->%s != b->%s", n, n);
    }
    gk_buf_fini(&name);
}

static bool is_extent(const struct gk_field *field)
{
    return field->type == GK_FIELD_INT || field->type == GK_FIELD_INTS;
}

static void compare_functions(const struct export_set *set, struct gk_buf *out)
{
    const struct gk_op_fields *op = &set->op->fields;
    gk_buf_printf(out,
                  "static inline int %s_same_flags(const struct gk_%s_problem *a, const struct "
                  "gk_%s_problem *b)\n{\n"
                  "    (void)a;\n    (void)b;\n",
                  set->ident, set->op_name, set->op_name);
    for (uint32_t i = 0; i < op->field_count; i++) {
        if (!is_extent(&op->fields[i])) {
            gk_buf_puts(out, "    if (");
            differs(&op->fields[i], out);
            gk_buf_puts(out, ") {\n        return 0;\n    }\n");
        }
    }
    gk_buf_printf(out,
                  "    return 1;\n}\nstatic inline double %s_distance(const struct gk_%s_problem "
                  "*a, const struct gk_%s_problem *b)\n{\n"
                  "    double sum = 0.0;\n",
                  set->ident, set->op_name, set->op_name);
    for (uint32_t i = 0; i < op->field_count; i++) {
        const struct gk_field *field = &op->fields[i];
        struct gk_buf name = {0};
        export_name(field->name, &name);
        const char *n = gk_buf_text(&name);
        if (field->type == GK_FIELD_INT && field->role == GK_FIELD_KEY) {
            gk_buf_printf(out, "    sum += gk_x_apart(a->%s, b->%s);\n", n, n);
        } else if (field->type == GK_FIELD_INTS) {
            static const char *const members[] = {"count", "max", "sum"};
            for (size_t m = 0; m < GK_ARRAY_COUNT(members); m++) {
                gk_buf_printf(out, "    sum += gk_x_apart(a->%s.%s + 1, b->%s.%s + 1);\n", n,
                              members[m], n, members[m]);
            }
        }
        gk_buf_fini(&name);
    }
    gk_buf_printf(out,
                  "    return sum;\n}\nstatic inline int %s_equal(const struct gk_%s_problem *a, "
                  "const struct gk_%s_problem *b)\n{\n"
                  "    if (!%s_same_flags(a, b)) {\n        return 0;\n    }\n",
                  set->ident, set->op_name, set->op_name, set->ident);
    for (uint32_t i = 0; i < op->field_count; i++) {
        if (is_extent(&op->fields[i])) {
            gk_buf_puts(out, "    if (");
            differs(&op->fields[i], out);
            gk_buf_puts(out, ") {\n        return 0;\n    }\n");
        }
    }
    gk_buf_puts(out, "    return 1;\n}\n\n");
}

void export_select_code(const struct export_set *set, struct gk_buf *out)
{
    compare_functions(set, out);
    const char *x = set->ident;
    gk_buf_printf(out,
                  "/* The row for a problem on a gpu (a name of %s_gpus; NULL: any), and why. NULL "
                  "with GK_MATCH_NONE. */\n"
                  "static inline const struct %s_row *%s_select_on(const char *gpu,\n"
                  "    const struct gk_%s_problem *p, enum gk_match *why)\n{\n"
                  "    const struct %s_row *near_row = NULL, *row;\n    struct gk_%s_derived o;\n  "
                  "  double best = 0.0;\n"
                  "    uint32_t i, at = 0;\n    enum gk_match match = GK_MATCH_NONE;\n",
                  x, x, x, set->op_name, x, set->op_name);
    gk_buf_printf(out,
                  "    if (!gk_%s_derive(p, &o)) {\n        if (why) {\n            *why = "
                  "GK_MATCH_NONE;\n        }\n        return NULL;\n    }\n"
                  "    for (i = 0; gpu && i < %s_GPU_COUNT; i++) {\n        at = gk_x_same(gpu, "
                  "%s_gpus[i].gpu) ? i : at;\n    }\n",
                  set->op_name, x, x);
    gk_buf_printf(
        out,
        "    for (i = 0; i < %s_ROW_COUNT; i++) {\n        int here;\n        double apart;\n      "
        "  row = &%s_rows[i];\n"
        "        here = !gpu || gk_x_same(gpu, %s_gpus[row->gpu].gpu);\n"
        "        if (here && %s_equal(p, &row->problem)) {\n            if (why) {\n               "
        " *why = GK_MATCH_EXACT;\n            }\n            return row;\n        }\n",
        x, x, x, x);
    gk_buf_printf(out,
                  "        if (!%s_same_flags(p, &row->problem) || !%s_admits(row, p, &o)) {\n     "
                  "       continue;\n        }\n"
                  "        apart = %s_distance(p, &row->problem) + (here ? 0.0 : 0.001);\n"
                  "        if (!near_row || apart < best) {\n            near_row = row;\n         "
                  "   best = apart;\n        }\n    }\n",
                  x, x, x);
    gk_buf_printf(out,
                  "    if (near_row) {\n        match = GK_MATCH_NEAR;\n    } else {\n        "
                  "near_row = %s_default(p, &o, at);\n"
                  "        match = near_row ? GK_MATCH_DEFAULT : GK_MATCH_NONE;\n    }\n    if "
                  "(why) {\n        *why = match;\n    }\n    return near_row;\n}\n\n",
                  x);
    gk_buf_printf(out,
                  "static inline const struct %s_row *%s_select(const struct gk_%s_problem *p, "
                  "enum gk_match *why)\n{\n"
                  "    return %s_select_on(NULL, p, why);\n}\n\n#ifndef gk_%s_select\n#define "
                  "gk_%s_select %s_select\n#endif\n\n",
                  x, x, set->op_name, x, set->op_name, set->op_name, x);
}
