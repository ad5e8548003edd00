/*
 * What several exported headers share, guarded: types of launches, the device, helpers; and for an
 * op its problem struct with what follows from it.
 */
#include "cli/export_model.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char types_text[] =
    "#ifndef GK_EXPORT_TYPES\n"
    "#define GK_EXPORT_TYPES 1\n"
    "/* Shared by all exported headers. */\n"
    "enum gk_match {\n"
    "    GK_MATCH_NONE,    /* no row, and no default is legal: run your own kernel */\n"
    "    GK_MATCH_DEFAULT, /* not tuned: what a careful engineer would ship for this problem */\n"
    "    GK_MATCH_NEAR,    /* tuned for a neighbouring problem; legal for this one */\n"
    "    GK_MATCH_EXACT    /* tuned and verified for this very problem and gpu */\n"
    "};\n"
    "enum gk_origin { GK_ORIGIN_TUNED, GK_ORIGIN_DEFAULT };\n"
    "enum gk_argument_kind {\n"
    "    GK_ARGUMENT_TENSOR,     /* address of the tensor `name`; null if it does not exist */\n"
    "    GK_ARGUMENT_WORKSPACE,  /* address of the workspace `name` plus value.u64 bytes */\n"
    "    GK_ARGUMENT_VALUE,      /* `size` bytes of value */\n"
    "    GK_ARGUMENT_TENSOR_MAP  /* 128 bytes by value, encoded from maps[index] */\n"
    "};\n"
    "struct gk_argument {\n"
    "    enum gk_argument_kind kind;\n"
    "    const char *name;\n"
    "    uint32_t index; /* of a workspace in workspaces[], of a map in maps[] */\n"
    "    uint32_t size;  /* bytes in the kernel's parameters */\n"
    "    union {\n"
    "        uint64_t u64;\n"
    "        int64_t i64;\n"
    "        uint32_t u32;\n"
    "        int32_t i32;\n"
    "        float f32;\n"
    "        double f64;\n"
    "    } value;\n"
    "};\n"
    "#define GK_ARGUMENTS_MAX 48\n"
    "#define GK_LAUNCHES_MAX 8\n"
    "#define GK_WORKSPACES_MAX 8\n"
    "#define GK_MAPS_MAX 16\n"
    "struct gk_launch {\n"
    "    int present; /* 0: this problem and config do without it */\n"
    "    int is_plan; /* once for a set of lengths, not with every run */\n"
    "    const char *kernel; /* extern \"C\" name in the module */\n"
    "    const char *source; /* path in this folder */\n"
    "    const char *const *include_dirs; /* in this folder; NULL ends */\n"
    "    const char *const *options;      /* of the compiler, beside -arch and -D; NULL ends */\n"
    "    uint32_t grid[3], block[3], cluster[3];\n"
    "    uint32_t smem_bytes; /* dynamic */\n"
    "    int cooperative, pdl, nonportable_cluster;\n"
    "    int32_t carveout_percent; /* -1: not set */\n"
    "    uint32_t argument_count;  /* in the kernel's order */\n"
    "    struct gk_argument arguments[GK_ARGUMENTS_MAX];\n"
    "};\n"
    "enum gk_workspace_init {\n"
    "    GK_WORKSPACE_ANY,      /* no value is needed */\n"
    "    GK_WORKSPACE_ZERO,     /* zero before every run */\n"
    "    GK_WORKSPACE_ZERO_KEPT /* zero once: the kernels leave it so */\n"
    "};\n"
    "struct gk_workspace {\n"
    "    const char *name;\n"
    "    uint64_t bytes; /* 0: not needed */\n"
    "    uint64_t align;\n"
    "    enum gk_workspace_init init;\n"
    "};\n"
    "struct gk_map {\n"
    "    int present;\n"
    "    const char *name, *tensor;\n"
    "    uint32_t rank;\n"
    "    int64_t dims[5], strides[5], box[5], element_strides[5]; /* innermost first; strides in "
    "bytes, from 1 */\n"
    "    int64_t offset; /* elements */\n"
    "    uint32_t swizzle_bytes, l2_promotion_bytes;\n"
    "    int fill_nan;\n"
    "};\n"
    "struct gk_plan { /* about 15 KB */\n"
    "    uint32_t launch_count, workspace_count, map_count;\n"
    "    struct gk_launch launches[GK_LAUNCHES_MAX];\n"
    "    struct gk_workspace workspaces[GK_WORKSPACES_MAX];\n"
    "    struct gk_map maps[GK_MAPS_MAX];\n"
    "};\n"
    "/* What is known of a compiled kernel; some grids ask for it. */\n"
    "struct gk_facts {\n"
    "    int64_t regs, spill_bytes, static_smem, blocks_per_sm, max_clusters;\n"
    "};\n"
    "/* Per-request values: selection sees these. */\n"
    "struct gk_series {\n"
    "    int64_t count, min, max, sum;\n"
    "};\n"
    "#ifdef __cplusplus\n"
    "#define GK_THREAD_LOCAL thread_local\n"
    "#else\n"
    "#define GK_THREAD_LOCAL _Thread_local\n"
    "#endif\n";

static const char helpers_text[] =
    "/* Bounded text, as snprintf counts: *at is what would have been written. */\n"
    "static inline void gk_x_put(char *text, size_t size, size_t *at, const char *more)\n"
    "{\n"
    "    for (; *more; more++, (*at)++) {\n"
    "        if (*at + 1 < size) {\n"
    "            text[*at] = *more;\n"
    "            text[*at + 1] = 0;\n"
    "        }\n"
    "    }\n"
    "}\n"
    "static inline void gk_x_put_int(char *text, size_t size, size_t *at, int64_t value)\n"
    "{\n"
    "    char digits[24];\n"
    "    int n = 23;\n"
    "    uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;\n"
    "    digits[n] = 0;\n"
    "    do {\n"
    "        digits[--n] = (char)('0' + (int)(rest % 10));\n"
    "        rest /= 10;\n"
    "    } while (rest > 0);\n"
    "    gk_x_put(text, size, at, value < 0 ? \"(-\" : \"\");\n"
    "    gk_x_put(text, size, at, digits + n);\n"
    "    gk_x_put(text, size, at, value < 0 ? \")\" : \"\");\n"
    "}\n"
    "static inline int gk_x_same(const char *a, const char *b)\n"
    "{\n"
    "    while (*a && *a == *b) {\n"
    "        a++;\n"
    "        b++;\n"
    "    }\n"
    "    return *a == *b;\n"
    "}\n"
    "/* |log2(a / b)| of positive numbers, to 2^-20: how far two extents are apart. */\n"
    "static inline double gk_x_apart(int64_t a, int64_t b)\n"
    "{\n"
    "    double x, sum = 0.0, bit = 1.0;\n"
    "    int i;\n"
    "    if (a <= 0 || b <= 0) {\n"
    "        return a == b ? 0.0 : 64.0;\n"
    "    }\n"
    "    x = a > b ? (double)a / (double)b : (double)b / (double)a;\n"
    "    while (x >= 2.0) {\n"
    "        x *= 0.5;\n"
    "        sum += 1.0;\n"
    "    }\n"
    "    for (i = 0; i < 20; i++) {\n"
    "        x *= x;\n"
    "        bit *= 0.5;\n"
    "        if (x >= 2.0) {\n"
    "            x *= 0.5;\n"
    "            sum += bit;\n"
    "        }\n"
    "    }\n"
    "    return sum;\n"
    "}\n"
    "static inline int gk_x_extent(int64_t value, uint32_t *out)\n"
    "{\n"
    "    *out = value < 1 || value > INT64_C(2147483647) ? 0 : (uint32_t)value;\n"
    "    return *out > 0;\n"
    "}\n";

/* dev.* in the order of device properties: the struct and the rows of gpus follow the same scope.
 */
static enum gk_status device_struct(struct gk_buf *out)
{
    struct gk_scope *scope = gk_scope_create();
    uint32_t first = 0;
    enum gk_status status = scope ? gk_device_props_scope(scope, &first, NULL) : GK_NOMEM;
    gk_buf_puts(out, "struct gk_device {\n    const char *gpu;\n    int64_t ");
    for (uint32_t i = first; status == GK_OK && i < gk_scope_count(scope); i++) {
        gk_buf_printf(out, "%s%s", i > first ? ", " : "", gk_scope_at(scope, i)->name + 4);
    }
    gk_buf_puts(out, ";\n};\n");
    gk_scope_destroy(scope);
    return status;
}

enum gk_status export_shared_types(struct gk_buf *out)
{
    gk_buf_puts(out, types_text);
    enum gk_status status = device_struct(out);
    gk_buf_puts(out, helpers_text);
    gk_buf_puts(out, "#endif\n\n");
    gk_buf_puts(out, gk_expr_c_helpers());
    gk_buf_putc(out, '\n');
    return status;
}

/* ------------------------------------------------------------------ the op's problem */

static void enum_type(const struct gk_op *op, const struct gk_field *field, struct gk_buf *out)
{
    gk_buf_printf(out, "enum gk_%s_", op->fields.op);
    export_name(field->name, out);
}

static void field_type(const struct gk_op *op, const struct gk_field *field, struct gk_buf *out)
{
    switch (field->type) {
    case GK_FIELD_INT:
        gk_buf_puts(out, "int64_t");
        break;
    case GK_FIELD_REAL:
        gk_buf_puts(out, "double");
        break;
    case GK_FIELD_BOOL:
        gk_buf_puts(out, "int");
        break;
    case GK_FIELD_ENUM:
        enum_type(op, field, out);
        break;
    case GK_FIELD_INTS:
        gk_buf_puts(out, "struct gk_series");
        break;
    }
}

/* Comments hold the file's words: an end of comment in them would end ours. */
static void comment(const char *text, struct gk_buf *out)
{
    for (const char *p = text; *p; p++) {
        gk_buf_putc(out, *p == '\n' ? ' ' : *p);
        if (*p == '*' && p[1] == '/') {
            gk_buf_putc(out, ' ');
        }
        if (*p == '/' && p[1] == '*') {
            gk_buf_putc(out, ' ');
        }
    }
}

static void problem_struct(const struct gk_op *op, struct gk_buf *out)
{
    for (uint32_t i = 0; i < op->fields.field_count; i++) {
        const struct gk_field *field = &op->fields.fields[i];
        if (field->type != GK_FIELD_ENUM) {
            continue;
        }
        enum_type(op, field, out);
        gk_buf_puts(out, " {");
        for (uint32_t j = 0; j < field->value_count; j++) {
            gk_buf_printf(out, "%s GK_", j ? "," : "");
            export_upper(op->fields.op, out);
            gk_buf_putc(out, '_');
            export_upper(field->name, out);
            gk_buf_putc(out, '_');
            export_upper(field->values[j], out);
        }
        gk_buf_puts(out, " };\n");
    }
    gk_buf_printf(out, "struct gk_%s_problem {\n", op->fields.op);
    for (uint32_t i = 0; i < op->fields.field_count; i++) {
        const struct gk_field *field = &op->fields.fields[i];
        gk_buf_puts(out, "    ");
        field_type(op, field, out);
        gk_buf_putc(out, ' ');
        export_name(field->name, out);
        gk_buf_putc(out, ';');
        if (field->doc) {
            gk_buf_puts(out, " /* ");
            comment(field->doc, out);
            gk_buf_puts(out, " */");
        }
        gk_buf_putc(out, '\n');
    }
    gk_buf_puts(out, "};\n");
}

static void member(const struct gk_field *field, const char *name, struct gk_buf *out)
{
    gk_buf_puts(out, "p->");
    export_name(field->name, out);
    gk_buf_printf(out, ".%s = ", name);
}

/* A list whose default is one value, so many times. */
static enum gk_status assign_list(const struct gk_op *op, const struct gk_field *field,
                                  struct gk_buf *out, struct gk_err *err)
{
    gk_buf_puts(out, "    ");
    member(field, "count", out);
    enum gk_status status = GK_OK;
    if (field->count_expr) {
        status = export_expr(op, NULL, field->count_expr, op->fields.scope, out, err);
    } else {
        gk_buf_puts(out, "1");
    }
    gk_buf_puts(out, ";\n    ");
    member(field, "min", out);
    member(field, "max", out);
    if (status == GK_OK) {
        status = export_expr(op, NULL, field->default_expr, op->fields.scope, out, err);
    }
    gk_buf_puts(out, ";\n    ");
    member(field, "sum", out);
    gk_buf_puts(out, "p->");
    export_name(field->name, out);
    gk_buf_puts(out, ".min * p->");
    export_name(field->name, out);
    gk_buf_puts(out, ".count;\n");
    return status;
}

/* Assigns the default of a field: an expression over the fields before it. */
static enum gk_status assign_default(const struct gk_op *op, const struct gk_field *field,
                                     struct gk_buf *out, struct gk_err *err)
{
    if (field->type == GK_FIELD_INTS) {
        return assign_list(op, field, out, err);
    }
    gk_buf_puts(out, "    p->");
    export_name(field->name, out);
    gk_buf_puts(out, " = (");
    field_type(op, field, out);
    gk_buf_puts(out, ")");
    enum gk_status status = export_expr(op, NULL, field->default_expr, op->fields.scope, out, err);
    gk_buf_puts(out, ";\n");
    return status;
}

static bool depends_on_fields(const struct gk_op *op, const struct gk_field *field)
{
    for (uint32_t i = 0; field->default_expr && i < op->fields.field_count; i++) {
        uint32_t slot = op->fields.fields[i].slot;
        if (gk_expr_uses(field->default_expr, slot) ||
            (field->count_expr && gk_expr_uses(field->count_expr, slot))) {
            return true;
        }
    }
    return false;
}

static enum gk_status default_functions(const struct gk_op *op, struct gk_buf *out,
                                        struct gk_err *err)
{
    const char *name = op->fields.op;
    enum gk_status status = GK_OK;
    gk_buf_printf(
        out,
        "/* Sets every field whose default follows from other fields; call it after changing "
        "those. */\n"
        "static inline void gk_%s_problem_derive(struct gk_%s_problem *p)\n{\n    (void)p;\n",
        name, name);
    for (uint32_t i = 0; i < op->fields.field_count && status == GK_OK; i++) {
        if (depends_on_fields(op, &op->fields.fields[i])) {
            status = assign_default(op, &op->fields.fields[i], out, err);
        }
    }
    gk_buf_printf(out,
                  "}\n/* Required fields as given, all others at their default. */\n"
                  "static inline void gk_%s_problem_init(struct gk_%s_problem *p",
                  name, name);
    for (uint32_t i = 0; i < op->fields.field_count; i++) {
        if (!op->fields.fields[i].default_text) {
            gk_buf_puts(out, ", ");
            field_type(op, &op->fields.fields[i], out);
            gk_buf_putc(out, ' ');
            export_name(op->fields.fields[i].name, out);
        }
    }
    gk_buf_puts(out, ")\n{\n");
    for (uint32_t i = 0; i < op->fields.field_count && status == GK_OK; i++) {
        const struct gk_field *field = &op->fields.fields[i];
        if (!field->default_text) {
            gk_buf_puts(out, "    p->");
            export_name(field->name, out);
            gk_buf_puts(out, " = ");
            export_name(field->name, out);
            gk_buf_puts(out, ";\n");
        } else if (!depends_on_fields(op, field)) {
            status = assign_default(op, field, out, err);
        }
    }
    gk_buf_printf(out, "    gk_%s_problem_derive(p);\n}\n", name);
    return status;
}

static void range_check(const struct gk_field *field, struct gk_buf *out)
{
    if (field->type != GK_FIELD_INT) {
        return;
    }
    gk_buf_puts(out, "    if (p->");
    export_name(field->name, out);
    gk_buf_printf(out, " < INT64_C(%" PRId64 ") || p->", field->min);
    export_name(field->name, out);
    gk_buf_printf(out, " > INT64_C(%" PRId64 ")) {\n        return 0;\n    }\n", field->max);
}

static enum gk_status derived_function(const struct gk_op *op, struct gk_buf *out,
                                       struct gk_err *err)
{
    const char *name = op->fields.op;
    enum gk_status status = GK_OK;
    uint32_t count = 0;
    gk_buf_printf(out, "struct gk_%s_derived {\n", name);
    for (uint32_t i = 0; i < op->fields.rule_count; i++) {
        const struct gk_rule *rule = &op->fields.rules[i];
        if (!rule->is_constraint && export_has(op, rule->slot)) {
            gk_buf_printf(out, "    %s ",
                          gk_expr_type(rule->expr) == GK_VALUE_REAL ? "double" : "int64_t");
            export_name(rule->name, out);
            gk_buf_puts(out, ";\n");
            count++;
        }
    }
    gk_buf_printf(out,
                  "%s};\n/* 1 if the problem is legal; then o is filled. */\n"
                  "static inline int gk_%s_derive(const struct gk_%s_problem *p, struct "
                  "gk_%s_derived *o)\n{\n"
                  "    (void)p;\n    (void)o;\n",
                  count ? "" : "    int64_t none_;\n", name, name, name);
    for (uint32_t i = 0; i < op->fields.field_count; i++) {
        range_check(&op->fields.fields[i], out);
    }
    for (uint32_t i = 0; i < op->fields.rule_count && status == GK_OK; i++) {
        const struct gk_rule *rule = &op->fields.rules[i];
        if (rule->is_constraint) {
            gk_buf_puts(out, "    if ((");
            status = export_expr(op, NULL, rule->expr, op->fields.scope, out, err);
            gk_buf_printf(out, ") == 0) {\n        return 0; /* %s */\n    }\n", rule->name);
        } else if (export_has(op, rule->slot)) {
            gk_buf_puts(out, "    o->");
            export_name(rule->name, out);
            gk_buf_puts(out, " = ");
            status = export_expr(op, NULL, rule->expr, op->fields.scope, out, err);
            gk_buf_puts(out, ";\n");
        }
    }
    gk_buf_puts(out, "    return 1;\n}\n");
    return status;
}

enum gk_status export_problem_types(const struct export_set *set, struct gk_buf *out,
                                    struct gk_err *err)
{
    struct gk_buf body = {0};
    problem_struct(set->op, &body);
    enum gk_status status = default_functions(set->op, &body, err);
    if (status == GK_OK) {
        status = derived_function(set->op, &body, err);
    }
    /* Two headers of one op made from different versions of it must not be mixed. */
    struct gk_hash hash = gk_hash_bytes(gk_buf_text(&body), body.size);
    struct gk_buf guard = {0};
    gk_buf_puts(&guard, "GK_");
    export_upper(set->op->fields.op, &guard);
    gk_buf_puts(&guard, "_PROBLEM");
    const char *name = gk_buf_text(&guard);
    uint32_t id = (uint32_t)hash.bytes[0] << 24 | (uint32_t)hash.bytes[1] << 16 |
                  (uint32_t)hash.bytes[2] << 8 | hash.bytes[3];
    gk_buf_printf(
        out,
        "#if defined(%s) && %s != 0x%08" PRIx32
        "\n#error \"two exported headers describe %s problems "
        "differently: export both with one version\"\n#endif\n#ifndef %s\n#define %s 0x%08" PRIx32
        "\n",
        name, name, id, set->op->fields.op, name, name, id);
    gk_buf_add(out, gk_buf_text(&body), body.size);
    gk_buf_puts(out, "#endif\n\n");
    gk_buf_fini(&guard);
    gk_buf_fini(&body);
    return status;
}
