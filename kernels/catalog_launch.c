/*
 * Launches of a kernel.json, and the reference's: dimensions, typed arguments, attributes.
 */
#include "kernels/catalog_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char *const scalar_names[] = {"i32", "u32", "i64", "u64", "f32", "f64", NULL};

struct context {
    struct gk_reader *r;
    const struct gk_op *op;
    const struct gk_template *t; /* NULL: the reference */
    const struct gk_scope *scope;
};

static uint32_t scalar_bytes(enum gk_scalar scalar)
{
    bool small = scalar == GK_SCALAR_I32 || scalar == GK_SCALAR_U32 || scalar == GK_SCALAR_F32;
    return small ? 4 : 8;
}

/* ------------------------------------------------------------------ arguments */

static void read_tensor_arg(const struct context *c, const struct gk_json *json, const char *key,
                            struct gk_arg *arg)
{
    const char *name = gk_json_get_string(json, key, "");
    int64_t index = gk_op_tensor_index(c->op, name);
    if (index < 0 && c->op->tensor_count == 0) {
        return; /* op.json's mistake, told there */
    }
    if (index < 0) {
        struct gk_buf buf = {0};
        gk_op_tensor_names(c->op, &buf);
        gk_reader_fail(c->r, key, GK_NOT_FOUND, "\"%.60s\" is no tensor of op \"%s\"; %s are", name,
                       c->op->fields.op, gk_buf_text(&buf));
        gk_buf_fini(&buf);
        return;
    }
    arg->index = (uint32_t)index;
}

static void read_value_arg(const struct context *c, const struct gk_json *json, const char *key,
                           struct gk_arg *arg)
{
    int scalar = gk_read_choice(c->r, json, "type", scalar_names, -1);
    arg->scalar = scalar >= 0 ? (enum gk_scalar)scalar : GK_SCALAR_I64;
    if (strcmp(key, "field") == 0) {
        const char *name = gk_json_get_string(json, key, "");
        int64_t index = gk_op_field_index(c->op, name);
        if (index < 0) {
            gk_reader_fail(c->r, key, GK_NOT_FOUND, "\"%.60s\" is no field of op \"%s\"", name,
                           c->op->fields.op);
            return;
        }
        if (c->op->fields.fields[index].type == GK_FIELD_INTS) {
            gk_reader_fail(c->r, key, GK_INPUT,
                           "\"%s\" is per-request data; it reaches a kernel as a tensor (generator "
                           "series or offsets)",
                           name);
            return;
        }
    }
    arg->expr = gk_read_expr(c->r, json, key, c->scope, GK_WANT_REAL, true);
    bool is_real = arg->expr && gk_expr_type(arg->expr) == GK_VALUE_REAL;
    if (is_real && scalar >= 0 && scalar != GK_SCALAR_F32 && scalar != GK_SCALAR_F64) {
        gk_reader_fail(c->r, "type", GK_INPUT, "\"%s\" for a real value; f32 or f64 is allowed",
                       scalar_names[scalar]);
    }
}

static void read_workspace_arg(const struct context *c, const struct gk_json *json,
                               struct gk_arg *arg)
{
    const char *name = gk_json_get_string(json, "workspace", "");
    uint32_t count = c->t ? c->t->workspace_count : 0, i = 0;
    while (i < count && strcmp(c->t->workspaces[i].name, name) != 0) {
        i++;
    }
    if (i == count) {
        gk_reader_fail(c->r, "workspace", GK_NOT_FOUND,
                       "\"%.60s\" is no workspace of this template", name);
    }
    arg->index = i;
    arg->expr = gk_read_expr(c->r, json, "offset", c->scope, GK_WANT_INT, false);
}

static void read_map_arg(const struct context *c, const struct gk_json *json, struct gk_arg *arg)
{
    const char *name = gk_json_get_string(json, "tensor_map", "");
    uint32_t count = c->t ? c->t->map_count : 0, i = 0;
    while (i < count && strcmp(c->t->maps[i].name, name) != 0) {
        i++;
    }
    if (i == count) {
        gk_reader_fail(c->r, "tensor_map", GK_NOT_FOUND,
                       "\"%.60s\" is no tensor map of this template", name);
    }
    arg->index = i;
}

static void read_arg(const struct context *c, const struct gk_json *json, struct gk_arg *arg)
{
    static const struct {
        const char *kind;
        enum gk_arg_kind value;
        const char *keys[3]; /* besides the kind */
    } kinds[] = {{"tensor", GK_ARG_TENSOR, {NULL}},
                 {"field", GK_ARG_VALUE, {"type"}},
                 {"expr", GK_ARG_VALUE, {"type"}},
                 {"result", GK_ARG_RESULT, {NULL}},
                 {"workspace", GK_ARG_WORKSPACE, {"offset"}},
                 {"tensor_map", GK_ARG_TENSOR_MAP, {NULL}}};
    size_t allowed = c->t ? GK_ARRAY_COUNT(kinds) : 4; /* a reference has no workspace, no map */
    for (size_t i = 0; i < allowed; i++) {
        const char *kind = kinds[i].kind;
        if (!gk_json_get(json, kind) || (c->t && kinds[i].value == GK_ARG_RESULT)) {
            continue;
        }
        const char *keys[4] = {kind, kinds[i].keys[0], kinds[i].keys[1], NULL};
        (void)gk_read_keys(c->r, json, keys); /* an object: it has a member */
        arg->kind = kinds[i].value;
        if (arg->kind == GK_ARG_TENSOR || arg->kind == GK_ARG_RESULT) {
            read_tensor_arg(c, json, kind, arg);
        } else if (arg->kind == GK_ARG_VALUE) {
            read_value_arg(c, json, kind, arg);
        } else if (arg->kind == GK_ARG_WORKSPACE) {
            read_workspace_arg(c, json, arg);
        } else {
            read_map_arg(c, json, arg);
        }
        return;
    }
    char shown[GK_JSON_SHOW_SIZE];
    gk_json_show(json, shown);
    gk_reader_fail(c->r, NULL, GK_INPUT, "%s; an object with one of %s is allowed", shown,
                   c->t ? "tensor, field, expr, workspace, tensor_map"
                        : "tensor, field, expr, result");
}

/* Bytes of the parameter block, each argument at its own alignment. */
static uint32_t block_bytes(const struct gk_launch_def *launch)
{
    uint32_t bytes = 0;
    for (uint32_t i = 0; i < launch->arg_count; i++) {
        const struct gk_arg *arg = &launch->args[i];
        bool is_map = arg->kind == GK_ARG_TENSOR_MAP;
        uint32_t size = is_map ? 128 : arg->kind == GK_ARG_VALUE ? scalar_bytes(arg->scalar) : 8;
        uint32_t align = is_map ? 64 : size;
        bytes = (bytes + align - 1) / align * align + size;
    }
    return bytes;
}

static void read_args(const struct context *c, const struct gk_json *json,
                      struct gk_launch_def *launch)
{
    const struct gk_json *list = gk_read_list(c->r, json, "args", 0, GK_ARGS_MAX, true);
    for (uint32_t i = 0; i < gk_json_count(list); i++) {
        size_t mark = gk_reader_enter(c->r, "args[%" PRIu32 "]", i);
        read_arg(c, gk_json_at(list, i), &launch->args[i]);
        launch->arg_count = i + 1;
        gk_reader_leave(c->r, mark);
    }
    uint32_t bytes = block_bytes(launch);
    if (bytes > GK_PARAM_BYTES_MAX) {
        gk_reader_fail(c->r, "args", GK_LIMIT, "%" PRIu32 " bytes of arguments; at most %d", bytes,
                       GK_PARAM_BYTES_MAX);
    }
}

/* ------------------------------------------------------------------ the rest */

static void read_launch_params(const struct context *c, const struct gk_json *json,
                               struct gk_launch_def *launch)
{
    const struct gk_template *t = c->t;
    const struct gk_json *list = gk_read_list(c->r, json, "params", 0, GK_PARAMS_MAX, false);
    if (!gk_json_get(json, "params")) {
        launch->param_mask = (uint32_t)((UINT64_C(1) << t->param_count) - 1);
    }
    for (uint32_t i = 0; i < gk_json_count(list); i++) {
        const char *name = gk_json_string(gk_json_at(list, i), "");
        uint32_t k = 0;
        while (k < t->param_count && strcmp(t->params[k].name, name) != 0) {
            k++;
        }
        if (k == t->param_count) {
            gk_reader_fail(c->r, "params", GK_NOT_FOUND,
                           "\"%.60s\" is no parameter of this template", name);
        } else {
            launch->param_mask |= UINT32_C(1) << k;
        }
    }
}

static void read_l2_window(const struct context *c, const struct gk_json *json,
                           struct gk_launch_def *launch)
{
    static const char *const keys[] = {"tensor", "hit_ratio", "policy", NULL};
    static const char *const policies[] = {"persisting", "streaming", "normal", NULL};
    const struct gk_json *window = gk_json_get(json, "l2_window");
    if (!window) {
        return;
    }
    size_t mark = gk_reader_enter(c->r, "l2_window");
    if (gk_read_keys(c->r, window, keys)) {
        struct gk_arg arg = {0};
        read_tensor_arg(c, window, "tensor", &arg);
        launch->l2_window_tensor = (int32_t)arg.index;
        launch->l2_window_hit_ratio = gk_json_get_real(window, "hit_ratio", 1.0);
        launch->l2_window_policy =
            (enum gk_l2_policy)gk_read_choice(c->r, window, "policy", policies, 0);
        if (!(launch->l2_window_hit_ratio >= 0 && launch->l2_window_hit_ratio <= 1)) {
            gk_reader_fail(c->r, "hit_ratio", GK_INPUT, "%g; 0 to 1 is allowed",
                           launch->l2_window_hit_ratio);
        }
    }
    gk_reader_leave(c->r, mark);
}

static void read_attributes(const struct context *c, const struct gk_json *json,
                            struct gk_launch_def *launch)
{
    static const char *const keys[] = {"cooperative", "pdl",       "nonportable_cluster",
                                       "carveout",    "l2_window", NULL};
    const struct gk_json *object = gk_json_get(json, "attributes");
    if (!object) {
        return;
    }
    size_t mark = gk_reader_enter(c->r, "attributes");
    if (gk_read_keys(c->r, object, keys)) {
        launch->cooperative = gk_read_bool(c->r, object, "cooperative", false);
        launch->pdl = gk_read_bool(c->r, object, "pdl", false);
        launch->nonportable_cluster = gk_read_bool(c->r, object, "nonportable_cluster", false);
        launch->carveout = gk_read_expr(c->r, object, "carveout", c->scope, GK_WANT_INT, false);
        read_l2_window(c, object, launch);
    }
    gk_reader_leave(c->r, mark);
}

static void read_names(const struct context *c, const struct gk_json *json,
                       struct gk_launch_def *launch)
{
    (void)gk_read_name(c->r, json, "kernel", sizeof launch->kernel, launch->kernel); /* reported */
    if (gk_json_get(json, "name")) {
        (void)gk_read_name(c->r, json, "name", sizeof launch->name, launch->name); /* reported */
    } else {
        memcpy(launch->name, launch->kernel, sizeof launch->name);
    }
}

void gk_launch_read(struct gk_reader *r, const struct gk_json *json, const struct gk_op *op,
                    const struct gk_template *t, const struct gk_scope *scope,
                    struct gk_launch_def *launch)
{
    static const char *const keys[] = {"name",  "kernel",     "source", "params", "grid",
                                       "block", "cluster",    "smem",   "when",   "phase",
                                       "args",  "attributes", NULL};
    static const char *const phases[] = {"run", "plan", NULL};
    const struct context c = {.r = r, .op = op, .t = t, .scope = scope};
    launch->l2_window_tensor = -1;
    if (t && !gk_read_keys(r, json, keys)) {
        return; /* the reference's keys were checked by its reader */
    }
    read_names(&c, json, launch);
    gk_read_exprs(r, json, "block", scope, 1, 3, true, launch->block);
    launch->smem = gk_read_expr(r, json, "smem", scope, GK_WANT_INT, false);
    read_args(&c, json, launch);
    if (!t) {
        return;
    }
    gk_read_exprs(r, json, "cluster", scope, 1, 3, false, launch->cluster);
    launch->when = gk_read_expr(r, json, "when", scope, GK_WANT_INT, false);
    launch->is_plan = gk_read_choice(r, json, "phase", phases, 0) == 1;
    read_launch_params(&c, json, launch);
    read_attributes(&c, json, launch);
}

void gk_launch_read_grid(struct gk_reader *r, const struct gk_json *json,
                         const struct gk_scope *scope, struct gk_launch_def *launch)
{
    gk_read_exprs(r, json, "grid", scope, 1, 3, true, launch->grid);
}

void gk_launch_fini(struct gk_launch_def *launch)
{
    for (uint32_t i = 0; i < 3; i++) {
        gk_expr_destroy(launch->grid[i]);
        gk_expr_destroy(launch->block[i]);
        gk_expr_destroy(launch->cluster[i]);
    }
    for (uint32_t i = 0; i < launch->arg_count; i++) {
        gk_expr_destroy(launch->args[i].expr);
    }
    gk_expr_destroy(launch->smem);
    gk_expr_destroy(launch->when);
    gk_expr_destroy(launch->carveout);
    free(launch->source);
    memset(launch, 0, sizeof *launch);
}
