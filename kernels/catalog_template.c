/*
 * kernel.json: one template.
 *
 * Its scope begins with the op's symbols at the same slots, then dev.*, the parameters, derived
 * names, and last k.*: an expression compiled before k.* are added cannot name them, so the order
 * of reading below is what keeps a constraint from asking for a register count.
 */
#include "kernels/catalog_internal.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------ targets */

/* "sm_80", "sm_90a": the number, and whether it is a variant; 0 if it is neither. */
static uint32_t parse_target(const char *text, size_t size, bool *variant_out)
{
    uint32_t number = 0;
    size_t i = 3;
    if (size < 5 || strncmp(text, "sm_", 3) != 0) {
        return 0;
    }
    for (; i < size && i < 6 && isdigit((unsigned char)text[i]); i++) {
        number = number * 10 + (uint32_t)(text[i] - '0');
    }
    *variant_out = i < size && (text[i] == 'a' || text[i] == 'f');
    i += *variant_out;
    return i == size && number >= 50 ? number : 0;
}

uint32_t gk_target_arch(const char *target)
{
    bool variant = false;
    return 10 * parse_target(target, strlen(target), &variant);
}

bool gk_template_runs_on(const struct gk_template *template_, const char *target)
{
    uint32_t arch = gk_target_arch(target);
    for (uint32_t i = 0; i < template_->arch_count; i++) {
        const char *text = template_->archs[i];
        size_t size = strlen(text);
        bool variant = false;
        if (text[size - 1] == '+') {
            uint32_t least = 10 * parse_target(text, size - 1, &variant);
            if (arch != 0 && arch >= least) {
                return true;
            }
        } else if (strcmp(text, target) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_arch(const char *text)
{
    size_t size = strlen(text);
    bool variant = false;
    bool newer = size > 0 && text[size - 1] == '+';
    return parse_target(text, newer ? size - 1 : size, &variant) != 0 && !(newer && variant);
}

/* ------------------------------------------------------------------ lists of text */

/* A list of texts, each accepted by `is_legal`; copies into *out. */
static uint32_t read_texts(struct gk_reader *r, const struct gk_json *json, const char *key,
                           uint32_t min, uint32_t max, bool (*is_legal)(const char *),
                           const char *allowed, char ***out)
{
    const struct gk_json *list = gk_read_list(r, json, key, min, max, min > 0);
    uint32_t count = 0;
    if (!list) {
        return 0;
    }
    char **texts = calloc(gk_json_count(list) + 1, sizeof *texts);
    for (uint32_t i = 0; texts && i < gk_json_count(list); i++) {
        const char *text = gk_json_string(gk_json_at(list, i), "");
        bool twice = false;
        for (uint32_t k = 0; k < count; k++) {
            twice = twice || strcmp(texts[k], text) == 0;
        }
        if (twice) {
            gk_reader_fail(r, key, GK_EXISTS, "\"%.80s\" stands twice", text);
        } else if (!is_legal(text)) {
            char shown[GK_JSON_SHOW_SIZE];
            gk_json_show(gk_json_at(list, i), shown);
            gk_reader_fail(r, key, GK_INPUT, "%s; %s", shown, allowed);
        } else if ((texts[count] = gk_strdup(text)) != NULL) {
            count++;
        } else {
            gk_reader_fail(r, key, GK_NOMEM, "out of memory");
        }
    }
    if (!texts) {
        gk_reader_fail(r, key, GK_NOMEM, "out of memory");
    }
    *out = texts;
    return count;
}

/* Options change what the compiler does with the source, never what it reads or writes: no -I, no
 * output files, nothing that names a path of the worker. */
static bool is_option(const char *text)
{
    static const char *const allowed[] = {"-use_fast_math", "-default-device", "-std=c++17",
                                          "-std=c++20", "-lineinfo"};
    for (size_t i = 0; i < GK_ARRAY_COUNT(allowed); i++) {
        if (strcmp(allowed[i], text) == 0) {
            return true;
        }
    }
    static const char regs[] = "-maxrregcount=";
    if (strncmp(text, regs, sizeof regs - 1) != 0) {
        return false;
    }
    const char *digits = text + sizeof regs - 1;
    size_t size = strspn(digits, "0123456789");
    long count = size > 0 && size <= 3 && digits[size] == '\0' ? strtol(digits, NULL, 10) : 0;
    return digits[0] != '0' && count >= 16 && count <= 255;
}

/* ------------------------------------------------------------------ parameters */

static bool is_macro(const char *text)
{
    return gk_plain_name(text) && strncmp(text, "__", 2) != 0;
}

static void read_param_macro(struct gk_reader *r, const struct gk_json *json,
                             const struct gk_template *t, struct gk_param *param)
{
    const char *macro = gk_read_text(r, json, "macro", GK_NAME_MAX - 1, false);
    if (macro) {
        if (!is_macro(macro)) {
            gk_reader_fail(
                r, "macro", GK_INPUT,
                "\"%s\" is no macro; letters, digits and '_', not beginning with a digit "
                "or \"__\", are allowed",
                macro);
        }
        (void)snprintf(param->macro, sizeof param->macro, "%s", macro); /* at most 63 bytes */
        return;
    }
    struct gk_buf buf = {0};
    gk_buf_puts(&buf, t->macro_prefix);
    gk_macro_word(param->name, &buf);
    if (buf.failed) {
        gk_reader_fail(r, "name", GK_NOMEM, "out of memory");
    } else if (buf.size >= sizeof param->macro) {
        gk_reader_fail(r, "name", GK_LIMIT, "macro \"%s\" has more than %d bytes",
                       gk_buf_text(&buf), GK_NAME_MAX - 1);
    }
    (void)snprintf(param->macro, sizeof param->macro, "%s", gk_buf_text(&buf)); /* reported above */
    gk_buf_fini(&buf);
}

static void read_param_values(struct gk_reader *r, const struct gk_json *json,
                              struct gk_param *param)
{
    const struct gk_json *list = gk_read_list(r, json, "values", 1, GK_PARAM_VALUES_MAX, true);
    uint32_t count = (uint32_t)gk_json_count(list);
    if (count == 0) {
        return;
    }
    if (gk_json_is(gk_json_at(list, 0), GK_JSON_STRING)) {
        param->names = gk_read_values(r, list, &param->value_count);
        for (uint32_t i = 0; i < param->value_count; i++) {
            param->values[i] = (int64_t)i;
        }
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        const struct gk_json *value = gk_json_at(list, i);
        if (!gk_json_is(value, GK_JSON_INT)) {
            char shown[GK_JSON_SHOW_SIZE];
            gk_json_show(value, shown);
            gk_reader_fail(r, "values", GK_INPUT, "%s; all integers or all text is allowed", shown);
        }
        param->values[i] = gk_json_int(value, 0);
        for (uint32_t k = 0; k < i; k++) {
            if (gk_json_is(value, GK_JSON_INT) && param->values[k] == param->values[i]) {
                gk_reader_fail(r, "values", GK_EXISTS,
                               "%" PRId64 " stands twice; values are unique", param->values[i]);
            }
        }
    }
    param->value_count = count;
}

static void read_param(struct gk_reader *r, const struct gk_json *json, struct gk_template *t)
{
    static const char *const keys[] = {"name", "values", "macro", NULL};
    struct gk_param *param = &t->params[t->param_count];
    if (!gk_read_keys(r, json, keys) ||
        !gk_read_name(r, json, "name", sizeof param->name, param->name)) {
        return;
    }
    (void)gk_reader_enter(r, "(%s)", param->name); /* the caller leaves */
    t->param_count++;
    param->doc = gk_read_doc(r, json);
    read_param_macro(r, json, t, param);
    read_param_values(r, json, param);
    struct gk_err err = {0};
    enum gk_status status =
        gk_scope_add(t->scope, param->name, GK_VALUE_INT, (const char *const *)param->names,
                     param->names ? param->value_count : 0, &param->slot, &err);
    if (status != GK_OK) {
        gk_reader_fail(r, "name", status, "%s", err.text);
    }
}

static void read_params(struct gk_reader *r, const struct gk_json *json, struct gk_template *t)
{
    const struct gk_json *list = gk_read_list(r, json, "params", 0, GK_PARAMS_MAX, true);
    for (uint32_t i = 0; i < gk_json_count(list); i++) {
        size_t mark = gk_reader_enter(r, "params[%" PRIu32 "]", i);
        read_param(r, gk_json_at(list, i), t);
        gk_reader_leave(r, mark);
    }
}

/* ------------------------------------------------------------------ scope */

static void scope_begin(struct gk_reader *r, const struct gk_op *op, struct gk_template *t)
{
    struct gk_err err = {0};
    enum gk_status status = GK_OK;
    for (uint32_t i = 0; i < gk_scope_count(op->fields.scope) && status == GK_OK; i++) {
        const struct gk_symbol *symbol = gk_scope_at(op->fields.scope, i);
        uint32_t slot = 0;
        status = gk_scope_add(t->scope, symbol->name, symbol->type, symbol->enum_values,
                              symbol->enum_count, &slot, &err);
        GK_ASSERT(status != GK_OK || slot == symbol->slot);
    }
    if (status == GK_OK) {
        status = gk_device_props_scope(t->scope, &t->dev_slot, &err);
    }
    if (status != GK_OK) {
        gk_reader_fail(r, NULL, status, "%s", err.text);
    }
}

static void scope_add_k(struct gk_reader *r, struct gk_template *t)
{
    static const char *const names[] = {"k.regs", "k.spill_bytes", "k.static_smem",
                                        "k.blocks_per_sm", "k.max_clusters"};
    for (size_t i = 0; i < GK_ARRAY_COUNT(names); i++) {
        struct gk_err err = {0};
        uint32_t slot = 0;
        enum gk_status status =
            gk_scope_add(t->scope, names[i], GK_VALUE_INT, NULL, 0, &slot, &err);
        if (status != GK_OK) {
            gk_reader_fail(r, NULL, status, "%s", err.text);
        }
        t->k_slot = i == 0 ? slot : t->k_slot;
    }
}

/* ------------------------------------------------------------------ small sections */

static void read_bake(struct gk_reader *r, const struct gk_json *json, const struct gk_op *op,
                      struct gk_template *t)
{
    const struct gk_json *list = gk_read_list(r, json, "bake", 0, GK_FIELDS_MAX, false);
    for (uint32_t i = 0; i < gk_json_count(list); i++) {
        const char *name = gk_json_string(gk_json_at(list, i), "");
        int64_t index = gk_op_field_index(op, name);
        if (index < 0) {
            gk_reader_fail(r, "bake", GK_NOT_FOUND, "\"%.60s\" is no field of op \"%s\"", name,
                           op->fields.op);
            continue;
        }
        enum gk_field_type type = op->fields.fields[index].type;
        if (type != GK_FIELD_INT && type != GK_FIELD_REAL) {
            gk_reader_fail(r, "bake", GK_INPUT,
                           "\"%s\"; int and real fields are allowed (dtypes, enums and bools are "
                           "macros anyway, per-request values never)",
                           name);
        }
        t->bake_mask |= UINT64_C(1) << index;
    }
}

static void read_workspace(struct gk_reader *r, const struct gk_json *json, struct gk_template *t)
{
    static const char *const keys[] = {"name", "dtype", "extent", "init", "when", "align", NULL};
    static const char *const inits[] = {"any", "zero", "zero_kept", NULL};
    char name[GK_NAME_MAX];
    if (!gk_read_keys(r, json, keys) || !gk_read_name(r, json, "name", sizeof name, name)) {
        return;
    }
    (void)gk_reader_enter(r, "(%s)", name); /* the caller leaves */
    for (uint32_t i = 0; i < t->workspace_count; i++) {
        if (strcmp(t->workspaces[i].name, name) == 0) {
            gk_reader_fail(r, "name", GK_EXISTS, "a second workspace \"%s\"; names are unique",
                           name);
            return;
        }
    }
    struct gk_workspace *workspace = &t->workspaces[t->workspace_count++];
    memcpy(workspace->name, name, sizeof workspace->name);
    const char *dtype = gk_read_text(r, json, "dtype", GK_NAME_MAX, true);
    if (dtype && !gk_dtype_from_name(dtype, &workspace->dtype)) {
        gk_reader_fail(
            r, "dtype", GK_INPUT,
            "\"%s\" is no element type; bf16, f16, e4m3, f32, f64, i8, i32, i64, u8, u32 "
            "are allowed",
            dtype);
    }
    workspace->extent = gk_read_expr(r, json, "extent", t->scope, GK_WANT_INT, true);
    workspace->align = gk_read_expr(r, json, "align", t->scope, GK_WANT_INT, false);
    workspace->when = gk_read_expr(r, json, "when", t->scope, GK_WANT_INT, false);
    workspace->init = (enum gk_workspace_init)gk_read_choice(r, json, "init", inits, GK_WS_ANY);
}

static void read_workspaces(struct gk_reader *r, const struct gk_json *json, struct gk_template *t)
{
    const struct gk_json *list = gk_read_list(r, json, "workspaces", 0, GK_WORKSPACES_MAX, false);
    for (uint32_t i = 0; i < gk_json_count(list); i++) {
        size_t mark = gk_reader_enter(r, "workspaces[%" PRIu32 "]", i);
        read_workspace(r, gk_json_at(list, i), t);
        gk_reader_leave(r, mark);
    }
}

static bool is_cpp_type(const char *text)
{
    size_t size = strlen(text);
    for (size_t i = 0; i < size; i++) {
        if (!isalnum((unsigned char)text[i]) && !strchr("_: <>,*", text[i])) {
            return false;
        }
    }
    return size > 0 && size < GK_NAME_MAX && !isdigit((unsigned char)text[0]) && text[0] != ' ';
}

static void read_dtype_macros(struct gk_reader *r, const struct gk_json *json,
                              struct gk_template *t)
{
    const struct gk_json *object = gk_json_get(json, "dtype_macros");
    if (object && !gk_json_is(object, GK_JSON_OBJECT)) {
        gk_reader_fail(r, "dtype_macros", GK_INPUT,
                       "an object from element type to C++ type is "
                       "allowed");
    }
    for (uint32_t i = 0; i < GK_DTYPE_COUNT; i++) {
        const char *type = gk_dtype_cpp((enum gk_dtype)i);
        const struct gk_json *own = gk_json_get(object, gk_dtype_name((enum gk_dtype)i));
        if (own && !is_cpp_type(gk_json_string(own, ""))) {
            char shown[GK_JSON_SHOW_SIZE];
            gk_json_show(own, shown);
            gk_reader_fail(r, "dtype_macros", GK_INPUT, "%s is no C++ type", shown);
        }
        t->dtype_macros[i] = gk_strdup(own ? gk_json_string(own, type) : type);
        if (!t->dtype_macros[i]) {
            gk_reader_fail(r, "dtype_macros", GK_NOMEM, "out of memory");
        }
    }
    void *cursor = NULL;
    const char *key = NULL;
    while (gk_json_next(object, &cursor, &key)) {
        enum gk_dtype dtype = GK_BF16;
        if (!gk_dtype_from_name(key, &dtype)) {
            gk_reader_fail(r, "dtype_macros", GK_INPUT, "\"%.40s\" is no element type", key);
        }
    }
}

static void read_prefix(struct gk_reader *r, const struct gk_json *json, struct gk_template *t)
{
    const struct gk_json *prefix = gk_json_get(json, "macro_prefix");
    const char *text = gk_json_string(prefix, prefix ? "0" : "GK_"); /* "0": no prefix, reported */
    if (strlen(text) >= 32 || (text[0] != '\0' && !is_macro(text))) {
        gk_reader_fail(
            r, "macro_prefix", GK_INPUT,
            "\"%.40s\"; \"\", or letters, digits and '_', at most 31 bytes, not beginning "
            "with a digit or \"__\", are allowed",
            text);
        text = "GK_";
    }
    (void)snprintf(t->macro_prefix, sizeof t->macro_prefix, "%s", text); /* at most 31 bytes */
}

/* ------------------------------------------------------------------ after compiling, launches */

static void read_after(struct gk_reader *r, const struct gk_json *json, struct gk_template *t)
{
    static const char *const keys[] = {"name", "expr", "launch", NULL};
    struct gk_after_rule *after = &t->after[t->after_count];
    if (!gk_read_keys(r, json, keys) ||
        !gk_read_name(r, json, "name", sizeof after->rule.name, after->rule.name)) {
        return;
    }
    (void)gk_reader_enter(r, "(%s)", after->rule.name); /* the caller leaves */
    after->rule.is_constraint = true;
    after->rule.doc = gk_read_doc(r, json);
    after->rule.expr = gk_read_expr(r, json, "expr", t->scope, GK_WANT_INT, true);
    after->launch = -1;
    t->after_count++;
    const char *launch = gk_read_text(r, json, "launch", GK_NAME_MAX, false);
    for (uint32_t i = 0; launch && i < t->launch_count; i++) {
        after->launch = strcmp(t->launches[i].name, launch) == 0 ? (int32_t)i : after->launch;
    }
    if (launch && after->launch < 0) {
        gk_reader_fail(r, "launch", GK_NOT_FOUND, "\"%s\" is no launch of this template", launch);
    }
    if (!gk_json_get(json, "why")) {
        gk_reader_fail(r, NULL, GK_INPUT,
                       "\"why\" is missing; a reason people can act on is needed");
    }
}

static void read_all_after(struct gk_reader *r, const struct gk_json *json, struct gk_template *t)
{
    const struct gk_json *list =
        gk_read_list(r, json, "after_compile", 0, GK_AFTER_COMPILE_MAX, false);
    for (uint32_t i = 0; i < gk_json_count(list); i++) {
        size_t mark = gk_reader_enter(r, "after_compile[%" PRIu32 "]", i);
        read_after(r, gk_json_at(list, i), t);
        gk_reader_leave(r, mark);
    }
}

static void read_launch_source(struct gk_reader *r, const struct gk_json *json,
                               const struct gk_json *launch_json, const struct gk_reach *reach,
                               struct gk_launch_def *launch)
{
    const char *source = gk_read_text(r, launch_json, "source", GK_PATH_MAX - 1, false);
    if (!source) {
        source = gk_json_get_string(json, "source", NULL);
        if (!source) {
            gk_reader_fail(r, NULL, GK_INPUT,
                           "\"source\" is missing, here and at the top; the file that holds the "
                           "kernel is needed");
            return;
        }
    }
    gk_reach_tokens(reach, r, "source", source, &launch->source, &launch->tokens);
}

static void read_launches(struct gk_reader *r, const struct gk_json *json, const struct gk_op *op,
                          const struct gk_reach *reach, struct gk_template *t)
{
    const struct gk_json *list =
        gk_read_list(r, json, "launches", 1, GK_ARRAY_COUNT(t->launches), true);
    for (uint32_t i = 0; i < gk_json_count(list); i++) {
        struct gk_launch_def *launch = &t->launches[i];
        size_t mark = gk_reader_enter(r, "launches[%" PRIu32 "]", i);
        t->launch_count = i + 1;
        gk_launch_read(r, gk_json_at(list, i), op, t, t->scope, launch);
        for (uint32_t k = 0; k < i; k++) {
            if (launch->name[0] && strcmp(t->launches[k].name, launch->name) == 0) {
                gk_reader_fail(r, "name", GK_EXISTS,
                               "a second launch \"%s\"; give each its own \"name\"", launch->name);
            }
        }
        if (launch->name[0]) {
            read_launch_source(r, json, gk_json_at(list, i), reach, launch);
        }
        gk_reader_leave(r, mark);
    }
    (void)gk_read_text(r, json, "source", GK_PATH_MAX - 1, false); /* for its message */
}

static void read_grids(struct gk_reader *r, const struct gk_json *json, struct gk_template *t)
{
    const struct gk_json *list = gk_json_get(json, "launches");
    for (uint32_t i = 0; i < t->launch_count; i++) {
        size_t mark = gk_reader_enter(r, "launches[%" PRIu32 "]", i);
        gk_launch_read_grid(r, gk_json_at(list, i), t->scope, &t->launches[i]);
        gk_reader_leave(r, mark);
    }
}

/* ------------------------------------------------------------------ the file */

/* include_dirs are kept relative to the catalog's root, as a compiler that unpacked it needs them.
 */
static void read_include_dirs(struct gk_reader *r, const struct gk_json *json,
                              const struct gk_op *op, const struct gk_reach *reach,
                              struct gk_reach *own, struct gk_template *t, char ***dirs_out,
                              uint32_t *count_out)
{
    uint32_t count = read_texts(
        r, json, "include_dirs", 0, GK_INCLUDE_DIRS_MAX, gk_path_is_legal,
        "a relative path below this file's folder, without \"..\", is allowed", dirs_out);
    *count_out = count;
    *own = *reach;
    own->include_dirs = (const char *const *)*dirs_out;
    own->include_dir_count = count;
    t->include_dirs = count > 0 ? calloc(count, sizeof *t->include_dirs) : NULL;
    for (uint32_t i = 0; t->include_dirs && i < count; i++) {
        t->include_dirs[i] = gk_asprintf("%s/%s", op->fields.op, (*dirs_out)[i]);
        t->include_dir_count += t->include_dirs[i] != NULL;
    }
    if (t->include_dir_count < count) {
        gk_reader_fail(r, "include_dirs", GK_NOMEM, "out of memory");
    }
}

void gk_template_read(struct gk_reader *r, const struct gk_json *json, const struct gk_op *op,
                      const struct gk_reach *reach, struct gk_template *t)
{
    static const char *const keys[] = {"template",     "op",
                                       "source",       "archs",
                                       "params",       "derived",
                                       "constraints",  "after_compile",
                                       "bake",         "workspaces",
                                       "tensor_maps",  "launches",
                                       "options",      "include_dirs",
                                       "dtype_macros", "macro_prefix",
                                       "prior",        NULL};
    char **dirs = NULL, name[GK_NAME_MAX];
    uint32_t dir_count = 0, before = r->errors;
    struct gk_reach own;
    t->scope = gk_scope_create();
    t->file = gk_strdup(r->file);
    if (!t->scope || !t->file) {
        gk_reader_fail(r, NULL, GK_NOMEM, "out of memory");
        return;
    }
    if (!gk_read_keys(r, json, keys)) {
        return;
    }
    (void)gk_read_name(r, json, "template", sizeof t->name, t->name); /* reported */
    if (gk_read_name(r, json, "op", sizeof name, name) && strcmp(name, op->fields.op) != 0) {
        gk_reader_fail(r, "op", GK_INPUT, "\"%s\" stands in the folder of op \"%s\"", name,
                       op->fields.op);
    }
    t->doc = gk_read_doc(r, json);
    t->arch_count = read_texts(r, json, "archs", 1, GK_ARCHS_MAX, is_arch,
                               "\"sm_80\", \"sm_90a\" (that one alone) or \"sm_80+\" (that and "
                               "newer) is allowed",
                               &t->archs);
    t->option_count = read_texts(r, json, "options", 0, GK_OPTIONS_MAX, is_option,
                                 "-use_fast_math, -maxrregcount=N (16 to 255), -default-device, "
                                 "-std=c++17, -std=c++20, -lineinfo are allowed",
                                 &t->options);
    read_include_dirs(r, json, op, reach, &own, t, &dirs, &dir_count);
    read_prefix(r, json, t);
    read_dtype_macros(r, json, t);
    scope_begin(r, op, t);
    read_params(r, json, t);
    struct gk_rule_list rules = {0};
    gk_read_rules(r, json, t->scope, &rules);
    gk_maps_read(r, json, op, t, &rules);
    t->rules = rules.rules;
    t->rule_count = rules.count;
    gk_prior_read(r, json, t);
    read_bake(r, json, op, t);
    read_workspaces(r, json, t);
    read_launches(r, json, op, &own, t);
    scope_add_k(r, t);
    read_grids(r, json, t);
    read_all_after(r, json, t);
    gk_macros_check(r, op, t);
    if (r->errors == before) {
        struct gk_err err = {0};
        enum gk_status status = gk_template_hash(json, op, t, &t->hash, &err);
        if (status != GK_OK) {
            gk_reader_fail(r, NULL, status, "%s", err.text);
        }
    }
    gk_free_values(dirs, dir_count);
}

void gk_template_fini(struct gk_template *t)
{
    gk_rules_free(t->rules, t->rule_count);
    gk_prior_fini(&t->prior);
    for (uint32_t i = 0; i < t->after_count; i++) {
        gk_expr_destroy(t->after[i].rule.expr);
        free(t->after[i].rule.doc);
    }
    for (uint32_t i = 0; i < t->param_count; i++) {
        free(t->params[i].doc);
        gk_free_values(t->params[i].names, t->params[i].names ? t->params[i].value_count : 0);
    }
    for (uint32_t i = 0; i < t->workspace_count; i++) {
        gk_expr_destroy(t->workspaces[i].extent);
        gk_expr_destroy(t->workspaces[i].align);
        gk_expr_destroy(t->workspaces[i].when);
    }
    for (uint32_t i = 0; i < t->map_count; i++) {
        gk_map_fini(&t->maps[i]);
    }
    for (uint32_t i = 0; i < t->launch_count; i++) {
        gk_launch_fini(&t->launches[i]);
    }
    for (uint32_t i = 0; i < GK_DTYPE_COUNT; i++) {
        free(t->dtype_macros[i]);
    }
    gk_free_values(t->archs, t->arch_count);
    gk_free_values(t->options, t->option_count);
    gk_free_values(t->include_dirs, t->include_dir_count);
    gk_scope_destroy(t->scope);
    free(t->doc);
    free(t->file);
    memset(t, 0, sizeof *t);
}
