/*
 * Tensor maps, and the hardware's own rules for them.
 *
 * The driver refuses a bad map with one number and no reason. So each of its rules is made a
 * constraint here, as text of the expression language over the map's own expressions: a config that
 * breaks one is rejected before compiling, by name, and exports render the rule to C like any
 * other.
 */
#include "kernels/catalog_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAP_RANK_MAX 5

struct context {
    struct gk_reader *r;
    const struct gk_op *op;
    struct gk_template *t;
    struct gk_rule_list *rules;
};

/* ------------------------------------------------------------------ reading */

static const uint32_t swizzles[] = {0, 32, 64, 128};
static const uint32_t promotions[] = {0, 64, 128, 256};

/* "none" or a number of bytes, as text or as a number. */
static uint32_t read_bytes(struct gk_reader *r, const struct gk_json *json, const char *key,
                           const uint32_t choices[4])
{
    const struct gk_json *value = gk_json_get(json, key);
    char number[16];
    const char *text = gk_json_string(value, value ? "" : "none");
    if (gk_json_is(value, GK_JSON_INT)) {
        (void)snprintf(number, sizeof number, "%d", (int)gk_json_int(value, 0)); /* 11 bytes */
        text = number;
    }
    for (uint32_t i = 0; i < 4; i++) {
        char choice[16];
        (void)snprintf(choice, sizeof choice, "%" PRIu32, choices[i]); /* 3 digits */
        if (strcmp(text, i == 0 ? "none" : choice) == 0) {
            return choices[i];
        }
    }
    char shown[GK_JSON_SHOW_SIZE];
    gk_json_show(value, shown);
    gk_reader_fail(r, key, GK_INPUT, "%s; none, %" PRIu32 ", %" PRIu32 " or %" PRIu32 " is allowed",
                   shown, choices[1], choices[2], choices[3]);
    return 0;
}

static void read_rank(const struct context *c, const struct gk_json *json,
                      struct gk_tensor_map *map)
{
    const struct gk_scope *scope = c->t->scope;
    struct gk_expr *strides[MAP_RANK_MAX] = {NULL};
    const struct gk_json *dims = gk_json_get(json, "dims");
    size_t rank = gk_json_count(dims);
    if (gk_json_is(dims, GK_JSON_ARRAY) && (rank < 1 || rank > MAP_RANK_MAX)) {
        gk_reader_fail(c->r, "dims", GK_LIMIT,
                       "constraint tensor_map.%s.rank: %zu dimensions; 1 to %d are allowed",
                       map->name, rank, MAP_RANK_MAX);
        return;
    }
    map->rank = gk_read_exprs(c->r, json, "dims", scope, 1, MAP_RANK_MAX, true, map->dims);
    uint32_t r = map->rank;
    if (r == 0) {
        return;
    }
    gk_read_exprs(c->r, json, "box", scope, r, r, true, map->box);
    gk_read_exprs(c->r, json, "element_strides", scope, r, r, false, map->element_strides);
    gk_read_exprs(c->r, json, "strides", scope, r - 1, r - 1, false, strides);
    memcpy(map->strides + 1, strides, (MAP_RANK_MAX - 1) * sizeof *strides);
}

static bool read_map(const struct context *c, const struct gk_json *json)
{
    static const char *const keys[] = {
        "name",    "tensor",       "dims", "strides",    "offset", "box", "element_strides",
        "swizzle", "l2_promotion", "fill", "interleave", "when",   NULL};
    static const char *const fills[] = {"zero", "nan", NULL}, *const interleaves[] = {"none", NULL};
    struct gk_template *t = c->t;
    struct gk_tensor_map *map = &t->maps[t->map_count];
    if (!gk_read_keys(c->r, json, keys) ||
        !gk_read_name(c->r, json, "name", GK_MAP_NAME_MAX, map->name)) {
        return false;
    }
    (void)gk_reader_enter(c->r, "(%s)", map->name); /* the caller leaves */
    for (uint32_t i = 0; i < t->map_count; i++) {
        if (strcmp(t->maps[i].name, map->name) == 0) {
            gk_reader_fail(c->r, "name", GK_EXISTS, "a second tensor map \"%s\"; names are unique",
                           map->name);
            return false;
        }
    }
    t->map_count++;
    uint32_t before = c->r->errors;
    const char *tensor = gk_read_text(c->r, json, "tensor", GK_NAME_MAX, true);
    int64_t index = tensor ? gk_op_tensor_index(c->op, tensor) : 0;
    if (index < 0) {
        struct gk_buf buf = {0};
        gk_op_tensor_names(c->op, &buf);
        gk_reader_fail(c->r, "tensor", GK_NOT_FOUND, "\"%s\" is no tensor of op \"%s\"; %s are",
                       tensor, c->op->fields.op, gk_buf_text(&buf));
        gk_buf_fini(&buf);
    }
    map->tensor = index > 0 ? (uint32_t)index : 0;
    read_rank(c, json, map);
    map->offset = gk_read_expr(c->r, json, "offset", t->scope, GK_WANT_INT, false);
    map->when = gk_read_expr(c->r, json, "when", t->scope, GK_WANT_INT, false);
    map->swizzle = read_bytes(c->r, json, "swizzle", swizzles);
    map->l2_promotion = read_bytes(c->r, json, "l2_promotion", promotions);
    map->fill_nan = gk_read_choice(c->r, json, "fill", fills, 0) == 1;
    (void)gk_read_choice(c->r, json, "interleave", interleaves, 0); /* the only one, today */
    return c->r->errors == before;
}

void gk_map_fini(struct gk_tensor_map *map)
{
    for (uint32_t i = 0; i < MAP_RANK_MAX; i++) {
        gk_expr_destroy(map->dims[i]);
        gk_expr_destroy(map->strides[i]);
        gk_expr_destroy(map->box[i]);
        gk_expr_destroy(map->element_strides[i]);
    }
    gk_expr_destroy(map->offset);
    gk_expr_destroy(map->when);
}

/* ------------------------------------------------------------------ the rules */

/* Size of an element as an expression: a number, or a choice over the dtype field's values. */
static void put_element_bytes(const struct gk_op *op, const struct gk_tensor *tensor,
                              struct gk_buf *buf)
{
    if (!tensor->dtype.from_field) {
        gk_buf_printf(buf, "%" PRIu32, gk_dtype_bytes(tensor->dtype.dtype));
        return;
    }
    const struct gk_field *field = &op->fields.fields[tensor->dtype.field];
    gk_buf_putc(buf, '(');
    for (uint32_t i = 0; i < field->value_count; i++) {
        enum gk_dtype dtype = GK_BF16;
        (void)gk_dtype_from_name(field->values[i], &dtype); /* checked when the field was read */
        if (i + 1 < field->value_count) {
            gk_buf_printf(buf, "%s == '%s' ? %" PRIu32 " : ", field->name, field->values[i],
                          gk_dtype_bytes(dtype));
        } else {
            gk_buf_printf(buf, "%" PRIu32, gk_dtype_bytes(dtype));
        }
    }
    gk_buf_putc(buf, ')');
}

/* Adds constraint tensor_map.<map>.<rule>; the text is `guard` with the condition. */
__attribute__((format(printf, 5, 6))) static void add_rule(const struct context *c,
                                                           const struct gk_tensor_map *map,
                                                           const char *rule, const char *why,
                                                           const char *format, ...)
{
    struct gk_buf buf = {0};
    char name[GK_NAME_MAX], text[GK_EXPR_TEXT_MAX];
    va_list ap;
    va_start(ap, format);
    int length = vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    if (length < 0 || (size_t)length >= sizeof text) {
        gk_reader_fail(c->r, NULL, GK_LIMIT,
                       "the rule %s has more than %d bytes; use derived names", rule,
                       GK_EXPR_TEXT_MAX - 1);
        return;
    }
    if (map->when) {
        gk_buf_printf(&buf, "!(%s) || (%s)", gk_expr_text(map->when), text);
    } else {
        gk_buf_puts(&buf, text);
    }
    (void)snprintf(name, sizeof name, "tensor_map.%.31s.%.19s", map->name, rule);
    struct gk_json *value = buf.failed ? NULL : gk_json_new_string(gk_buf_text(&buf));
    char *doc = gk_strdup(why);
    gk_buf_fini(&buf);
    if (!value || !doc) {
        gk_reader_fail(c->r, rule, GK_NOMEM, "out of memory");
    } else {
        struct gk_expr *expr = gk_read_expr_value(c->r, value, rule, c->t->scope, GK_WANT_INT);
        if (expr) {
            gk_rules_add(c->r, c->rules, name, doc, expr, true, 0);
            doc = NULL;
        }
    }
    free(doc);
    gk_json_free(value);
}

static void add_stride_rules(const struct context *c, const struct gk_tensor_map *map,
                             const char *bytes)
{
    struct gk_buf packed = {0};
    gk_buf_puts(&packed, bytes);
    for (uint32_t i = 1; i < map->rank; i++) {
        gk_buf_printf(&packed, " * (%s)", gk_expr_text(map->dims[i - 1]));
        const char *stride = map->strides[i] ? gk_expr_text(map->strides[i]) : gk_buf_text(&packed);
        add_rule(c, map, "stride_16", "strides of a tensor map are multiples of 16 bytes",
                 "(%s) %% 16 == 0", stride);
        add_rule(c, map, "stride_2_40", "strides of a tensor map are 0 to 2^40 - 1 bytes",
                 "(%s) >= 0 && (%s) < 1099511627776", stride, stride);
    }
    if (packed.failed) {
        gk_reader_fail(c->r, NULL, GK_NOMEM, "out of memory");
    }
    gk_buf_fini(&packed);
}

static void add_rules(const struct context *c, const struct gk_tensor_map *map)
{
    const struct gk_tensor *tensor = &c->op->tensors[map->tensor];
    struct gk_buf element = {0};
    put_element_bytes(c->op, tensor, &element);
    const char *bytes = gk_buf_text(&element);
    add_rule(c, map, "address_16", "a tensor map's address is a multiple of 16 bytes",
             "(%s) %% 16 == 0 && (%s) * %s %% 16 == 0",
             tensor->align ? gk_expr_text(tensor->align) : "256",
             map->offset ? gk_expr_text(map->offset) : "0", bytes);
    add_stride_rules(c, map, bytes);
    for (uint32_t i = 0; i < map->rank; i++) {
        const char *dim = gk_expr_text(map->dims[i]), *box = gk_expr_text(map->box[i]);
        add_rule(c, map, "dim_2_32", "dimensions of a tensor map are 1 to 2^32",
                 "(%s) >= 1 && (%s) <= 4294967296", dim, dim);
        add_rule(c, map, "box_256", "a box has 1 to 256 elements in each dimension",
                 "(%s) >= 1 && (%s) <= 256", box, box);
        if (map->element_strides[i]) {
            const char *step = gk_expr_text(map->element_strides[i]);
            add_rule(c, map, "element_stride_8", "element strides are 1 to 8",
                     "(%s) >= 1 && (%s) <= 8", step, step);
        }
    }
    const char *inner = gk_expr_text(map->box[0]);
    add_rule(c, map, "inner_box_16", "the inner box is a multiple of 16 bytes",
             "(%s) * %s %% 16 == 0", inner, bytes);
    if (map->swizzle > 0) {
        add_rule(c, map, "inner_box_swizzle", "the inner box lies within the swizzle span",
                 "(%s) * %s <= %" PRIu32, inner, bytes, map->swizzle);
    }
    if (element.failed) {
        gk_reader_fail(c->r, NULL, GK_NOMEM, "out of memory");
    }
    gk_buf_fini(&element);
}

void gk_maps_read(struct gk_reader *r, const struct gk_json *json, const struct gk_op *op,
                  struct gk_template *t, struct gk_rule_list *rules)
{
    const struct context c = {.r = r, .op = op, .t = t, .rules = rules};
    const struct gk_json *list = gk_read_list(r, json, "tensor_maps", 0, GK_TENSOR_MAPS_MAX, false);
    for (uint32_t i = 0; i < gk_json_count(list) && op->tensor_count > 0; i++) {
        size_t mark = gk_reader_enter(r, "tensor_maps[%" PRIu32 "]", i);
        if (read_map(&c, gk_json_at(list, i))) {
            add_rules(&c, &t->maps[t->map_count - 1]);
        }
        gk_reader_leave(r, mark);
    }
}
