/*
 * Code of a template in an exported header: its config struct, what is derived from problem, device
 * and config, its constraints, launches, workspaces, tensor maps and defines.
 */
#include "cli/export_model.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct coder {
    const struct export_set *set;
    const struct export_unit *unit;
    const struct gk_template *t;
    struct gk_buf *out;
    struct gk_err *err;
    enum gk_status status;
};

static void expr(struct coder *coder, const struct gk_expr *e)
{
    if (coder->status == GK_OK) {
        coder->status =
            export_expr(coder->unit->op, coder->t, e, coder->t->scope, coder->out, coder->err);
    }
}

/* "<ident>_<unit>" */
static void unit_name(const struct coder *coder)
{
    gk_buf_printf(coder->out, "%s_%s", coder->set->ident, coder->unit->name);
}

static void config_struct(struct coder *coder)
{
    struct gk_buf *out = coder->out;
    gk_buf_puts(out, "struct ");
    unit_name(coder);
    gk_buf_puts(out, " {\n");
    for (uint32_t i = 0; i < coder->t->param_count; i++) {
        const struct gk_param *param = &coder->t->params[i];
        gk_buf_puts(out, "    int32_t ");
        export_name(param->name, out);
        gk_buf_puts(out, ";");
        if (param->names) {
            gk_buf_puts(out, " /*");
            for (uint32_t j = 0; j < param->value_count; j++) {
                gk_buf_printf(out, " %" PRIu32 " %s", j, param->names[j]);
            }
            gk_buf_puts(out, " */");
        }
        gk_buf_putc(out, '\n');
    }
    gk_buf_puts(out, coder->t->param_count ? "};\n" : "    int32_t none_;\n};\n");
}

static void derived_struct(struct coder *coder)
{
    struct gk_buf *out = coder->out;
    uint32_t count = 0;
    gk_buf_puts(out, "struct ");
    unit_name(coder);
    gk_buf_puts(out, "_derived {\n");
    for (uint32_t i = 0; i < coder->t->rule_count; i++) {
        const struct gk_rule *rule = &coder->t->rules[i];
        if (!rule->is_constraint) {
            bool real = gk_expr_type(rule->expr) == GK_VALUE_REAL;
            gk_buf_printf(out, "    %s ", real ? "double" : "int64_t");
            export_name(rule->name, out);
            gk_buf_puts(out, ";\n");
            count++;
        }
    }
    gk_buf_puts(out, count ? "};\n" : "    int64_t none_;\n};\n");
}

/* The common parameters of the unit's functions. */
static void signature(struct coder *coder, const char *function)
{
    const char *op = coder->set->op_name;
    gk_buf_puts(coder->out, "static inline int ");
    unit_name(coder);
    gk_buf_printf(coder->out,
                  "_%s(const struct gk_%s_problem *p,\n    const struct gk_%s_derived *o, const "
                  "struct gk_device *d,\n"
                  "    const struct ",
                  function, op, op);
    unit_name(coder);
    gk_buf_puts(coder->out, " *c");
}

static void legal_function(struct coder *coder)
{
    struct gk_buf *out = coder->out;
    gk_buf_puts(out, "/* 1 if the template runs this problem with this config on this device; then "
                     "v is filled. */\n");
    signature(coder, "legal");
    gk_buf_puts(out, ", struct ");
    unit_name(coder);
    gk_buf_puts(
        out,
        "_derived *v)\n{\n    (void)p;\n    (void)o;\n    (void)d;\n    (void)c;\n    (void)v;\n");
    for (uint32_t i = 0; i < coder->t->rule_count; i++) {
        const struct gk_rule *rule = &coder->t->rules[i];
        if (rule->is_constraint) {
            gk_buf_puts(out, "    if ((");
            expr(coder, rule->expr);
            gk_buf_printf(out, ") == 0) {\n        return 0; /* %s */\n    }\n", rule->name);
        } else {
            gk_buf_puts(out, "    v->");
            export_name(rule->name, out);
            gk_buf_puts(out, " = ");
            expr(coder, rule->expr);
            gk_buf_puts(out, ";\n");
        }
    }
    gk_buf_puts(out, "    return 1;\n}\n");
}

/* ------------------------------------------------------------------ launches */

static void dims(struct coder *coder, const char *what, struct gk_expr *const *exprs)
{
    for (int i = 0; i < 3; i++) {
        if (!exprs[i]) {
            gk_buf_printf(coder->out, "        l->%s[%d] = 1;\n", what, i);
            continue;
        }
        gk_buf_puts(coder->out, "        if (!gk_x_extent(");
        expr(coder, exprs[i]);
        gk_buf_printf(coder->out, ", &l->%s[%d])) {\n            return 0;\n        }\n", what, i);
    }
}

static const struct scalar {
    const char *member, *type;
    uint32_t size;
} scalars[] = {[GK_SCALAR_I32] = {"i32", "int32_t", 4}, [GK_SCALAR_U32] = {"u32", "uint32_t", 4},
               [GK_SCALAR_I64] = {"i64", "int64_t", 8}, [GK_SCALAR_U64] = {"u64", "uint64_t", 8},
               [GK_SCALAR_F32] = {"f32", "float", 4},   [GK_SCALAR_F64] = {"f64", "double", 8}};

static void argument(struct coder *coder, const struct gk_arg *arg, uint32_t index)
{
    struct gk_buf *out = coder->out;
    const char *kind = arg->kind == GK_ARG_TENSOR       ? "TENSOR"
                       : arg->kind == GK_ARG_WORKSPACE  ? "WORKSPACE"
                       : arg->kind == GK_ARG_TENSOR_MAP ? "TENSOR_MAP"
                                                        : "VALUE";
    const char *name = arg->kind == GK_ARG_TENSOR       ? coder->unit->op->tensors[arg->index].name
                       : arg->kind == GK_ARG_WORKSPACE  ? coder->t->workspaces[arg->index].name
                       : arg->kind == GK_ARG_TENSOR_MAP ? coder->t->maps[arg->index].name
                                                        : NULL;
    const struct scalar *scalar = &scalars[arg->scalar];
    uint32_t size = arg->kind == GK_ARG_VALUE        ? scalar->size
                    : arg->kind == GK_ARG_TENSOR_MAP ? 128
                                                     : 8;
    gk_buf_printf(out,
                  "        a = &l->arguments[%" PRIu32
                  "];\n        a->kind = GK_ARGUMENT_%s;\n        a->name = ",
                  index, kind);
    if (name) {
        export_quoted(name, out);
    } else {
        gk_buf_puts(out, "NULL");
    }
    gk_buf_printf(out,
                  ";\n        a->index = %" PRIu32 ";\n        a->size = %" PRIu32
                  ";\n        a->value.u64 = 0;\n",
                  arg->kind == GK_ARG_VALUE ? 0 : arg->index, size);
    if (arg->kind == GK_ARG_VALUE) {
        gk_buf_printf(out, "        a->value.%s = (%s)", scalar->member, scalar->type);
        expr(coder, arg->expr);
        gk_buf_puts(out, ";\n");
        if (arg->scalar == GK_SCALAR_I32 || arg->scalar == GK_SCALAR_U32) {
            gk_buf_printf(out, "        if ((int64_t)a->value.%s != ", scalar->member);
            expr(coder, arg->expr);
            gk_buf_puts(out, ") {\n            return 0; /* does not fit */\n        }\n");
        }
    } else if (arg->kind == GK_ARG_WORKSPACE && arg->expr) {
        gk_buf_puts(out, "        a->value.u64 = (uint64_t)");
        expr(coder, arg->expr);
        gk_buf_puts(out, ";\n");
    }
}

static void text_list(struct coder *coder, const char *name, char *const *texts, uint32_t count,
                      const char *prefix)
{
    gk_buf_printf(coder->out, "    static const char *const %s[] = {", name);
    for (uint32_t i = 0; i < count; i++) {
        char *text = gk_asprintf("%s%s", prefix, texts[i]);
        export_quoted(text ? text : "", coder->out);
        gk_buf_puts(coder->out, ", ");
        free(text);
    }
    gk_buf_puts(coder->out, "NULL};\n");
}

/* What stands before the last slash of a launch's source. */
static int folder_size(const struct gk_launch_def *def)
{
    const char *slash = strrchr(def->source, '/');
    return slash ? (int)(slash - def->source) : 0;
}

static bool is_first_of_its_folder(const struct gk_template *t, uint32_t index)
{
    int size = folder_size(&t->launches[index]);
    for (uint32_t i = 0; i < index; i++) {
        if (folder_size(&t->launches[i]) == size &&
            strncmp(t->launches[i].source, t->launches[index].source, (size_t)size) == 0) {
            return false;
        }
    }
    return true;
}

static void put_include_dir(struct coder *coder, int size, const char *inside)
{
    const char *folder = coder->unit->bundle->folder;
    char *path = gk_asprintf("%s%s%.*s", folder, size ? "/" : "", size, inside);
    export_quoted(path ? path : "", coder->out);
    gk_buf_puts(coder->out, ", ");
    free(path);
}

/* Folders that the compiler searches: those of the sources first, since a source that is compiled
 * from memory has no folder of which the compiler knows; include/; the template's own. */
static void include_dirs(struct coder *coder)
{
    const struct gk_template *t = coder->t;
    gk_buf_puts(coder->out, "    static const char *const include_dirs[] = {");
    for (uint32_t i = 0; i < t->launch_count; i++) {
        if (is_first_of_its_folder(t, i)) {
            put_include_dir(coder, folder_size(&t->launches[i]), t->launches[i].source);
        }
    }
    put_include_dir(coder, (int)strlen("include"), "include");
    for (uint32_t i = 0; i < t->include_dir_count; i++) {
        put_include_dir(coder, (int)strlen(t->include_dirs[i]), t->include_dirs[i]);
    }
    gk_buf_puts(coder->out, "NULL};\n");
}

static void launch(struct coder *coder, uint32_t index)
{
    const struct gk_launch_def *def = &coder->t->launches[index];
    struct gk_buf *out = coder->out;
    char *source = gk_asprintf("%s/%s", coder->unit->bundle->folder, def->source);
    gk_buf_printf(out, "    l = &plan->launches[%" PRIu32 "];\n    l->kernel = ", index);
    export_quoted(def->kernel, out);
    gk_buf_puts(out, ";\n    l->source = ");
    export_quoted(source ? source : "", out);
    free(source);
    gk_buf_printf(
        out,
        ";\n    l->include_dirs = include_dirs;\n    l->options = options;\n    l->is_plan = %d;\n"
        "    l->cooperative = %d;\n    l->pdl = %d;\n    l->nonportable_cluster = %d;\n"
        "    l->carveout_percent = -1;\n    l->argument_count = %" PRIu32 ";\n    l->present = ",
        def->is_plan, def->cooperative, def->pdl, def->nonportable_cluster, def->arg_count);
    if (def->when) {
        gk_buf_putc(out, '(');
        expr(coder, def->when);
        gk_buf_puts(out, ") != 0;\n");
    } else {
        gk_buf_puts(out, "1;\n");
    }
    gk_buf_puts(out, "    if (l->present) {\n");
    gk_buf_printf(out,
                  "        const struct gk_facts *k = facts ? &facts[%" PRIu32
                  "] : &no_facts;\n        (void)k;\n",
                  index);
    dims(coder, "grid", def->grid);
    dims(coder, "block", def->block);
    dims(coder, "cluster", def->cluster);
    gk_buf_puts(out, "        l->smem_bytes = (uint32_t)");
    if (def->smem) {
        expr(coder, def->smem);
    } else {
        gk_buf_puts(out, "0");
    }
    gk_buf_puts(out, ";\n");
    if (def->carveout) {
        gk_buf_puts(out, "        l->carveout_percent = (int32_t)");
        expr(coder, def->carveout);
        gk_buf_puts(out, ";\n");
    }
    for (uint32_t i = 0; i < def->arg_count; i++) {
        argument(coder, &def->args[i], i);
    }
    gk_buf_puts(out, "    }\n");
}

static void workspace(struct coder *coder, uint32_t index)
{
    static const char *const inits[] = {"ANY", "ZERO", "ZERO_KEPT"};
    const struct gk_workspace *def = &coder->t->workspaces[index];
    struct gk_buf *out = coder->out;
    gk_buf_printf(out, "    w = &plan->workspaces[%" PRIu32 "];\n    w->name = ", index);
    export_quoted(def->name, out);
    gk_buf_printf(out, ";\n    w->init = GK_WORKSPACE_%s;\n    w->align = ", inits[def->init]);
    if (def->align) {
        gk_buf_puts(out, "(uint64_t)");
        expr(coder, def->align);
    } else {
        gk_buf_puts(out, "256");
    }
    gk_buf_puts(out, ";\n    w->bytes = ");
    if (def->when) {
        gk_buf_puts(out, "(");
        expr(coder, def->when);
        gk_buf_puts(out, ") == 0 ? 0 : ");
    }
    gk_buf_puts(out, "(uint64_t)(");
    expr(coder, def->extent);
    gk_buf_printf(out, ") * %" PRIu32 ";\n", gk_dtype_bytes(def->dtype));
}

static void map_list(struct coder *coder, const char *what, struct gk_expr *const *exprs,
                     uint32_t rank, const char *fallback)
{
    for (uint32_t i = 0; i < 5; i++) {
        gk_buf_printf(coder->out, "        m->%s[%" PRIu32 "] = ", what, i);
        if (i < rank && exprs[i]) {
            expr(coder, exprs[i]);
        } else {
            gk_buf_puts(coder->out, fallback);
        }
        gk_buf_puts(coder->out, ";\n");
    }
}

static void map(struct coder *coder, uint32_t index)
{
    const struct gk_tensor_map *def = &coder->t->maps[index];
    struct gk_buf *out = coder->out;
    gk_buf_printf(out, "    m = &plan->maps[%" PRIu32 "];\n    m->name = ", index);
    export_quoted(def->name, out);
    gk_buf_puts(out, ";\n    m->tensor = ");
    export_quoted(coder->unit->op->tensors[def->tensor].name, out);
    gk_buf_printf(out,
                  ";\n    m->rank = %" PRIu32 ";\n    m->swizzle_bytes = %" PRIu32
                  ";\n    m->l2_promotion_bytes = %" PRIu32
                  ";\n    m->fill_nan = %d;\n    m->present = ",
                  def->rank, def->swizzle, def->l2_promotion, def->fill_nan);
    if (def->when) {
        gk_buf_putc(out, '(');
        expr(coder, def->when);
        gk_buf_puts(out, ") != 0;\n");
    } else {
        gk_buf_puts(out, "1;\n");
    }
    gk_buf_puts(out, "    if (m->present) {\n        m->offset = ");
    if (def->offset) {
        expr(coder, def->offset);
    } else {
        gk_buf_puts(out, "0");
    }
    gk_buf_puts(out, ";\n");
    map_list(coder, "dims", def->dims, def->rank, "1");
    map_list(coder, "strides", def->strides, def->rank, "0");
    map_list(coder, "box", def->box, def->rank, "1");
    map_list(coder, "element_strides", def->element_strides, def->rank, "1");
    gk_buf_puts(out, "    }\n");
}

static bool reads_k(const struct gk_template *t, const struct gk_launch_def *def)
{
    for (uint32_t slot = t->k_slot; slot < t->k_slot + 5; slot++) {
        for (int i = 0; i < 3; i++) {
            if ((def->grid[i] && gk_expr_uses(def->grid[i], slot)) ||
                (def->block[i] && gk_expr_uses(def->block[i], slot)) ||
                (def->cluster[i] && gk_expr_uses(def->cluster[i], slot))) {
                return true;
            }
        }
    }
    return false;
}

static void plan_function(struct coder *coder)
{
    struct gk_buf *out = coder->out;
    bool needs_facts = false;
    for (uint32_t i = 0; i < coder->t->launch_count; i++) {
        needs_facts |= reads_k(coder->t, &coder->t->launches[i]);
    }
    signature(coder, "plan");
    gk_buf_puts(out, ", const struct gk_facts *facts, struct gk_plan *plan)\n{\n");
    text_list(coder, "options", coder->t->options, coder->t->option_count, "");
    include_dirs(coder);
    gk_buf_puts(out, "    struct gk_facts no_facts;\n    struct gk_launch *l;\n    struct "
                     "gk_argument *a;\n    struct ");
    unit_name(coder);
    gk_buf_puts(out, "_derived derived, *v = &derived;\n");
    gk_buf_puts(out, coder->t->workspace_count ? "    struct gk_workspace *w;\n" : "");
    gk_buf_puts(out, coder->t->map_count ? "    struct gk_map *m;\n" : "");
    gk_buf_puts(out, "    no_facts.regs = no_facts.spill_bytes = no_facts.static_smem = 0;\n"
                     "    no_facts.blocks_per_sm = no_facts.max_clusters = 0;\n    (void)a;\n");
    if (needs_facts) {
        gk_buf_puts(out, "    if (!facts) {\n        return 0; /* a grid asks for what is known "
                         "after compiling */\n    }\n");
    }
    gk_buf_puts(out, "    if (!");
    unit_name(coder);
    gk_buf_puts(out, "_legal(p, o, d, c, v)) {\n        return 0;\n    }\n    a = NULL;\n");
    gk_buf_printf(out,
                  "    plan->launch_count = %" PRIu32 ";\n    plan->workspace_count = %" PRIu32
                  ";\n    plan->map_count = %" PRIu32 ";\n",
                  coder->t->launch_count, coder->t->workspace_count, coder->t->map_count);
    for (uint32_t i = 0; i < coder->t->launch_count; i++) {
        launch(coder, i);
    }
    for (uint32_t i = 0; i < coder->t->workspace_count; i++) {
        workspace(coder, i);
    }
    for (uint32_t i = 0; i < coder->t->map_count; i++) {
        map(coder, i);
    }
    gk_buf_puts(out, "    return 1;\n}\n");
}

/* ------------------------------------------------------------------ defines */

/* One define: its name in sorted order, and code that writes its value. */
struct define {
    char *key;   /* the name; order is that of "NAME=VALUE" texts */
    char *guard; /* C condition, or NULL: always */
    char *code;  /* statement that writes the value */
};

struct define_list {
    struct define *list;
    uint32_t count, capacity;
    bool failed;
};

static void add_define(struct define_list *defines, char *key, char *guard, char *code)
{
    if (defines->count == defines->capacity) {
        uint32_t capacity = defines->capacity ? 2 * defines->capacity : 64;
        struct define *list = realloc(defines->list, capacity * sizeof *list);
        if (list) {
            defines->list = list;
            defines->capacity = capacity;
        }
    }
    if (!key || !code || defines->count == defines->capacity) {
        defines->failed = true;
        free(key);
        free(guard);
        free(code);
        return;
    }
    defines->list[defines->count++] = (struct define){key, guard, code};
}

static char *macro_name(const char *prefix, const char *name, const char *word)
{
    struct gk_buf text = {0};
    gk_buf_puts(&text, prefix);
    export_upper(name, &text);
    if (word) {
        gk_buf_putc(&text, '_');
        export_upper(word, &text);
    }
    return gk_buf_detach(&text);
}

static char *put_text(const char *text)
{
    struct gk_buf code = {0};
    gk_buf_puts(&code, "gk_x_put(text, size, &at, ");
    export_quoted(text, &code);
    gk_buf_puts(&code, ");");
    return gk_buf_detach(&code);
}

static char *put_int_of(const char *object, const char *member)
{
    struct gk_buf code = {0};
    gk_buf_printf(&code, "gk_x_put_int(text, size, &at, (int64_t)%s->", object);
    export_name(member, &code);
    gk_buf_puts(&code, ");");
    return gk_buf_detach(&code);
}

static void field_defines(const struct coder *coder, uint32_t index, struct define_list *defines)
{
    const struct gk_field *field = &coder->unit->op->fields.fields[index];
    const char *prefix = coder->t->macro_prefix;
    bool baked = (coder->t->bake_mask >> index & 1) != 0;
    struct gk_buf member = {0};
    export_name(field->name, &member);
    if (field->is_dtype) {
        for (uint32_t i = 0; i < field->value_count; i++) {
            enum gk_dtype dtype = GK_BF16;
            (void)gk_dtype_from_name(field->values[i], &dtype);
            char *is = gk_asprintf("(int64_t)p->%s == %" PRIu32, gk_buf_text(&member), i);
            add_define(defines, macro_name(prefix, field->name, NULL), is ? gk_strdup(is) : NULL,
                       put_text(coder->t->dtype_macros[dtype]));
            add_define(defines, macro_name(prefix, field->name, field->values[i]), is,
                       put_text("1"));
        }
    } else if (field->type == GK_FIELD_ENUM) {
        add_define(defines, macro_name(prefix, field->name, NULL), NULL,
                   put_int_of("p", field->name));
        for (uint32_t i = 0; i < field->value_count; i++) {
            char number[16];
            (void)snprintf(number, sizeof number, "%" PRIu32, i);
            add_define(defines, macro_name(prefix, field->name, field->values[i]), NULL,
                       put_text(number));
        }
    } else if (field->type == GK_FIELD_BOOL || (field->type == GK_FIELD_INT && baked)) {
        add_define(defines, macro_name(prefix, field->name, NULL), NULL,
                   put_int_of("p", field->name));
    }
    gk_buf_fini(&member);
}

static int compare_defines(const void *a, const void *b)
{
    /* "NAME=..": '=' sorts behind digits and before letters and '_' */
    const struct define *x = a, *y = b;
    size_t i = 0;
    while (x->key[i] && x->key[i] == y->key[i]) {
        i++;
    }
    unsigned char p = (unsigned char)(x->key[i] ? x->key[i] : '=');
    unsigned char q = (unsigned char)(y->key[i] ? y->key[i] : '=');
    return p != q ? (p > q) - (p < q) : (a > b) - (a < b);
}

static void launch_defines(struct coder *coder, uint32_t index)
{
    const struct gk_launch_def *def = &coder->t->launches[index];
    struct define_list defines = {0};
    const char *target = coder->set->target;
    char arch[16];
    (void)snprintf(arch, sizeof arch, "%d", (int)strtol(target + 3, NULL, 10) * 10);
    add_define(&defines, macro_name(coder->t->macro_prefix, "ARCH", NULL), NULL, put_text(arch));
    for (uint32_t i = 0; i < coder->unit->op->fields.field_count; i++) {
        field_defines(coder, i, &defines);
    }
    for (uint32_t i = 0; i < coder->t->param_count; i++) {
        const struct gk_param *param = &coder->t->params[i];
        if ((def->param_mask >> i & 1) == 0) {
            continue;
        }
        add_define(&defines, gk_strdup(param->macro), NULL, put_int_of("c", param->name));
        for (uint32_t j = 0; param->names && j < param->value_count; j++) {
            char number[16];
            (void)snprintf(number, sizeof number, "%" PRIu32, j);
            struct gk_buf word = {0}; /* the macro may be the user's own: it is kept as written */
            gk_buf_printf(&word, "%s_", param->macro);
            export_upper(param->names[j], &word);
            add_define(&defines, gk_buf_detach(&word), NULL, put_text(number));
        }
    }
    if (defines.failed && coder->status == GK_OK) {
        coder->status = gk_fail(coder->err, GK_NOMEM, "out of memory");
    }
    if (defines.count > 0) {
        qsort(defines.list, defines.count, sizeof *defines.list, compare_defines);
    }
    gk_buf_printf(coder->out, "    if (launch == %" PRIu32 ") {\n", index);
    for (uint32_t i = 0; i < defines.count; i++) {
        const struct define *define = &defines.list[i];
        const char *indent = define->guard ? "            " : "        ";
        if (define->guard) {
            gk_buf_printf(coder->out, "        if (%s) {\n", define->guard);
        }
        gk_buf_printf(
            coder->out,
            "%sgk_x_put(text, size, &at, \"%s=\");\n%s%s\n%sgk_x_put(text, size, &at, \"\\n\");\n",
            indent, define->key, indent, define->code, indent);
        if (define->guard) {
            gk_buf_puts(coder->out, "        }\n");
        }
        free(define->key);
        free(define->guard);
        free(define->code);
    }
    free(defines.list);
    gk_buf_puts(coder->out, "    }\n");
}

static bool bakes_reals(const struct coder *coder)
{
    for (uint32_t i = 0; i < coder->unit->op->fields.field_count; i++) {
        if ((coder->t->bake_mask >> i & 1) != 0 &&
            coder->unit->op->fields.fields[i].type == GK_FIELD_REAL) {
            return true;
        }
    }
    return false;
}

/* Shortest decimals of reals need more than a header can carry: a template that bakes one has its
 * rows' texts alone. */
static void defines_function(struct coder *coder)
{
    struct gk_buf *out = coder->out;
    gk_buf_puts(out, "static inline size_t ");
    unit_name(coder);
    gk_buf_printf(out, "_defines(const struct gk_%s_problem *p,\n    const struct ",
                  coder->set->op_name);
    unit_name(coder);
    gk_buf_puts(out, " *c, uint32_t launch, char *text, size_t size)\n{\n    size_t at = 0;\n    "
                     "(void)p;\n    (void)c;\n"
                     "    (void)launch;\n    if (size > 0) {\n        text[0] = 0;\n    }\n");
    if (!bakes_reals(coder)) {
        for (uint32_t i = 0; i < coder->t->launch_count; i++) {
            launch_defines(coder, i);
        }
    }
    gk_buf_puts(out, "    return at;\n}\n\n");
}

enum gk_status export_unit_code(const struct export_set *set, uint32_t unit, struct gk_buf *out,
                                struct gk_err *err)
{
    struct coder coder = {
        .set = set, .unit = &set->units[unit], .t = set->units[unit].t, .out = out, .err = err};
    gk_buf_printf(out, "/* ---- template %s ---- */\n", coder.unit->name);
    config_struct(&coder);
    derived_struct(&coder);
    legal_function(&coder);
    plan_function(&coder);
    defines_function(&coder);
    return coder.status;
}
