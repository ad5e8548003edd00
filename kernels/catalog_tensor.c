/*
 * op.json: tensors, their generators, and those of the rungs exact and extreme.
 */
#include "kernels/catalog_internal.h"

#include <inttypes.h>
#include <string.h>

int64_t gk_op_tensor_index(const struct gk_op *op, const char *name)
{
    for (uint32_t i = 0; i < op->tensor_count; i++) {
        if (strcmp(op->tensors[i].name, name) == 0) {
            return i;
        }
    }
    return -1;
}

void gk_op_tensor_names(const struct gk_op *op, struct gk_buf *buf)
{
    for (uint32_t i = 0; i < op->tensor_count; i++) {
        gk_buf_printf(buf, "%s%s", i ? ", " : "", op->tensors[i].name);
    }
}

/* ------------------------------------------------------------------ generators */

/* What each generator takes: expressions in the order of struct gk_generator's args, and the member
 * that names an ints field. Reals may be rounded and have spikes; indices need an integer type. */
struct generator_form {
    const char *name;
    enum gk_generator_kind kind;
    const char *args[4];
    uint32_t required; /* the first so many args must be there */
    const char *series;
    enum { MAKES_NUMBERS, MAKES_REALS, MAKES_INDICES } makes;
};

static const struct generator_form forms[] = {
    {"normal", GK_GEN_NORMAL, {"scale"}, 0, NULL, MAKES_REALS},
    {"uniform", GK_GEN_UNIFORM, {"min", "max"}, 2, NULL, MAKES_REALS},
    {"ternary", GK_GEN_TERNARY, {"density", "scale"}, 0, NULL, MAKES_REALS},
    {"small_int", GK_GEN_SMALL_INT, {"max"}, 1, NULL, MAKES_NUMBERS},
    {"constant", GK_GEN_CONSTANT, {"value"}, 1, NULL, MAKES_REALS},
    {"offsets", GK_GEN_OFFSETS, {NULL}, 0, "lengths", MAKES_INDICES},
    {"series", GK_GEN_SERIES, {NULL}, 0, "field", MAKES_INDICES},
    {"page_table", GK_GEN_PAGE_TABLE, {"pages", "page_size"}, 2, "needed", MAKES_INDICES},
    {"class_index",
     GK_GEN_CLASS_INDEX,
     {"classes", "ignore", "ignore_fraction"},
     1,
     NULL,
     MAKES_INDICES},
    {"bytes", GK_GEN_BYTES, {NULL}, 0, NULL, MAKES_NUMBERS},
};

static int32_t read_series_field(struct gk_reader *r, const struct gk_json *json, const char *key,
                                 const struct gk_op *op)
{
    char name[GK_NAME_MAX];
    if (!gk_read_name(r, json, key, sizeof name, name)) {
        return -1;
    }
    int64_t index = gk_op_field_index(op, name);
    if (index < 0 || op->fields.fields[index].type != GK_FIELD_INTS) {
        gk_reader_fail(r, key, GK_NOT_FOUND, "\"%s\" is no field of type ints", name);
        return -1;
    }
    return (int32_t)index;
}

static void read_spike(struct gk_reader *r, const struct gk_json *json, const struct gk_op *op,
                       const struct gk_tensor *tensor, struct gk_spike *spike)
{
    static const char *const keys[] = {"size", "share", "columns", NULL};
    const struct gk_json *object = gk_json_get(json, "spike");
    if (!object) {
        return;
    }
    size_t mark = gk_reader_enter(r, "spike");
    if (gk_read_keys(r, object, keys)) {
        const struct gk_scope *scope = op->fields.scope;
        spike->size = gk_read_expr(r, object, "size", scope, GK_WANT_REAL, true);
        spike->share = gk_read_expr(r, object, "share", scope, GK_WANT_REAL, false);
        spike->columns = gk_read_expr(r, object, "columns", scope, GK_WANT_INT, false);
    }
    if (tensor->rank == 0 || (tensor->rows_owner >= 0 && tensor->rows_axis + 1 == tensor->rank)) {
        gk_reader_fail(r, NULL, GK_INPUT,
                       "needs rows: a last dimension of which every element is somebody's");
    }
    gk_reader_leave(r, mark);
}

static void read_generator(struct gk_reader *r, const struct gk_json *json, const struct gk_op *op,
                           const struct gk_tensor *tensor, struct gk_generator *gen)
{
    const char *names[GK_ARRAY_COUNT(forms) + 1] = {NULL};
    for (size_t i = 0; i < GK_ARRAY_COUNT(forms); i++) {
        names[i] = forms[i].name;
    }
    gen->series_field = -1;
    if (!gk_json_is(json, GK_JSON_OBJECT)) {
        gk_reader_fail(r, NULL, GK_INPUT, "%s; an object {\"kind\": ...} is allowed",
                       gk_json_type_name(gk_json_type(json)));
        return;
    }
    int choice = gk_read_choice(r, json, "kind", names, -1);
    if (choice < 0) {
        return;
    }
    const struct generator_form *form = &forms[choice];
    const char *keys[8] = {"kind"};
    size_t count = 1;
    for (size_t i = 0; form->args[i]; i++) {
        keys[count++] = form->args[i];
    }
    if (form->makes == MAKES_REALS) {
        keys[count++] = "round";
        keys[count++] = "spike";
    }
    keys[count] = form->series;        /* or the end */
    (void)gk_read_keys(r, json, keys); /* an object: checked above */
    gen->kind = form->kind;
    for (uint32_t i = 0; form->args[i]; i++) {
        gen->args[i] = gk_read_expr(r, json, form->args[i], op->fields.scope, GK_WANT_REAL,
                                    i < form->required);
    }
    if (form->series) {
        gen->series_field = read_series_field(r, json, form->series, op);
    }
    if (form->makes == MAKES_REALS) {
        gen->round = gk_read_expr(r, json, "round", op->fields.scope, GK_WANT_REAL, false);
        read_spike(r, json, op, tensor, &gen->spike);
    }
}

static bool dtype_is_integer(enum gk_dtype dtype)
{
    return gk_dtype_roundoff(dtype) == 0;
}

/* Offsets, pages and class numbers need an integer type, whatever value a dtype field takes. */
static void check_generator_type(struct gk_reader *r, const struct gk_op *op,
                                 const struct gk_tensor *tensor)
{
    for (size_t i = 0; i < GK_ARRAY_COUNT(forms); i++) {
        if (forms[i].kind != tensor->gen.kind || forms[i].makes != MAKES_INDICES) {
            continue;
        }
        bool whole = !tensor->dtype.from_field && dtype_is_integer(tensor->dtype.dtype);
        if (tensor->dtype.from_field) {
            const struct gk_field *field = &op->fields.fields[tensor->dtype.field];
            whole = true;
            for (uint32_t k = 0; k < field->value_count; k++) {
                enum gk_dtype dtype = GK_F32;
                whole = whole && gk_dtype_from_name(field->values[k], &dtype) &&
                        dtype_is_integer(dtype);
            }
        }
        if (!whole) {
            gk_reader_fail(r, "dtype", GK_INPUT,
                           "generator %s makes integers; i8, i32, i64, u8 or u32 is allowed",
                           forms[i].name);
        }
    }
}

static void generator_fini(struct gk_generator *gen)
{
    for (size_t i = 0; i < GK_ARRAY_COUNT(gen->args); i++) {
        gk_expr_destroy(gen->args[i]);
    }
    gk_expr_destroy(gen->round);
    gk_expr_destroy(gen->spike.size);
    gk_expr_destroy(gen->spike.share);
    gk_expr_destroy(gen->spike.columns);
}

/* ------------------------------------------------------------------ tensors */

static void read_dtype_ref(struct gk_reader *r, const struct gk_json *json, const struct gk_op *op,
                           struct gk_dtype_ref *ref)
{
    const char *text = gk_read_text(r, json, "dtype", GK_NAME_MAX, true);
    if (!text) {
        return;
    }
    if (text[0] != '=') {
        if (!gk_dtype_from_name(text, &ref->dtype)) {
            gk_reader_fail(
                r, "dtype", GK_INPUT,
                "\"%s\" is no element type; bf16, f16, e4m3, f32, f64, i8, i32, i64, u8, "
                "u32 or \"=FIELD\" is allowed",
                text);
        }
        return;
    }
    int64_t index = gk_op_field_index(op, text + 1);
    if (index < 0 || !op->fields.fields[index].is_dtype) {
        gk_reader_fail(r, "dtype", GK_NOT_FOUND, "\"%s\" names no dtype field", text);
        return;
    }
    ref->from_field = true;
    ref->field = (uint32_t)index;
}

/* Which request has which page is what the table's generator made of the same lengths. */
static void read_pages(struct gk_reader *r, const struct gk_json *rows, const struct gk_op *op,
                       struct gk_tensor *tensor)
{
    char name[GK_NAME_MAX];
    if (!gk_json_get(rows, "pages") || !gk_read_name(r, rows, "pages", sizeof name, name)) {
        return;
    }
    int64_t index = gk_op_tensor_index(op, name);
    const struct gk_tensor *table = index >= 0 ? &op->tensors[index] : NULL;
    if (!table || table == tensor || table->gen.kind != GK_GEN_PAGE_TABLE) {
        gk_reader_fail(r, "pages", GK_NOT_FOUND,
                       "\"%s\" is no tensor before this one that page_table generates", name);
    } else if (table->gen.series_field != tensor->rows_owner) {
        gk_reader_fail(r, "pages", GK_INPUT, "\"%s\" has pages for other lengths than the owner's",
                       name);
    } else if (tensor->rows_axis == 0) {
        gk_reader_fail(r, "pages", GK_INPUT, "axis is 0; the keys of a page need 1 or more");
    } else {
        tensor->rows_pages = (int32_t)index;
    }
}

static void read_rows(struct gk_reader *r, const struct gk_json *json, const struct gk_op *op,
                      struct gk_tensor *tensor)
{
    static const char *const keys[] = {"owner", "axis", "pages", NULL};
    const struct gk_json *rows = gk_json_get(json, "rows");
    tensor->rows_owner = tensor->rows_pages = -1;
    if (!rows) {
        return;
    }
    size_t mark = gk_reader_enter(r, "rows");
    if (gk_read_keys(r, rows, keys)) {
        int64_t axis = gk_json_get(rows, "axis") ? gk_json_get_int(rows, "axis", -1) : 0;
        tensor->rows_owner = read_series_field(r, rows, "owner", op);
        if (axis < 0 || (axis > 0 && axis >= (int64_t)tensor->rank)) {
            gk_reader_fail(r, "axis", GK_INPUT,
                           "a dimension of the tensor, 0 to %" PRIu32 ", is needed",
                           tensor->rank > 0 ? tensor->rank - 1 : 0);
        } else if (axis > 0 && tensor->role != GK_TENSOR_IN) {
            gk_reader_fail(r, "axis", GK_INPUT, "rows along another axis than 0 belong to inputs");
        } else {
            tensor->rows_axis = (uint32_t)axis;
            read_pages(r, rows, op, tensor);
        }
    }
    gk_reader_leave(r, mark);
}

static void read_layout(struct gk_reader *r, const struct gk_json *json, const struct gk_op *op,
                        struct gk_tensor *tensor)
{
    const struct gk_scope *scope = op->fields.scope;
    tensor->rank =
        gk_read_exprs(r, json, "extents", scope, 0, GK_TENSOR_RANK_MAX, true, tensor->extents);
    uint32_t strides =
        gk_read_exprs(r, json, "strides", scope, 0, GK_TENSOR_RANK_MAX, false, tensor->strides);
    if (gk_json_get(json, "strides") && strides != tensor->rank) {
        gk_reader_fail(r, "strides", GK_INPUT, "%" PRIu32 " of them for %" PRIu32 " extents",
                       strides, tensor->rank);
    }
    tensor->offset = gk_read_expr(r, json, "offset", scope, GK_WANT_INT, false);
    tensor->align = gk_read_expr(r, json, "align", scope, GK_WANT_INT, false);
    tensor->when = gk_read_expr(r, json, "when", scope, GK_WANT_INT, false);
}

static void read_tensor(struct gk_reader *r, const struct gk_json *json, struct gk_op *op)
{
    static const char *const keys[] = {"name",  "role", "dtype", "extents", "strides", "offset",
                                       "align", "when", "gen",   "rows",    NULL};
    static const char *const roles[] = {"in", "out", "inout", NULL};
    char name[GK_NAME_MAX];
    if (!gk_read_keys(r, json, keys) || !gk_read_name(r, json, "name", sizeof name, name)) {
        return;
    }
    (void)gk_reader_enter(r, "(%s)", name); /* the caller leaves */
    if (gk_op_tensor_index(op, name) >= 0) {
        gk_reader_fail(r, "name", GK_EXISTS, "a second tensor \"%s\"; names are unique", name);
        return;
    }
    struct gk_tensor *tensor = &op->tensors[op->tensor_count++];
    memcpy(tensor->name, name, sizeof tensor->name);
    tensor->gen.series_field = tensor->exact.series_field = tensor->extreme.series_field = -1;
    int role = gk_read_choice(r, json, "role", roles, -1);
    tensor->role = role >= 0 ? (enum gk_tensor_role)role : GK_TENSOR_INOUT;
    read_dtype_ref(r, json, op, &tensor->dtype);
    read_layout(r, json, op, tensor);
    read_rows(r, json, op, tensor);
    const struct gk_json *gen = gk_json_get(json, "gen");
    if (gen && role == GK_TENSOR_OUT) {
        gk_reader_fail(r, "gen", GK_INPUT, "an output has no generator: it is poisoned");
    } else if (!gen && role >= 0 && role != GK_TENSOR_OUT) {
        gk_reader_fail(r, NULL, GK_INPUT, "\"gen\" is missing; an input needs a generator");
    } else if (gen && role >= 0) {
        size_t mark = gk_reader_enter(r, "gen");
        read_generator(r, gen, op, tensor, &tensor->gen);
        gk_reader_leave(r, mark);
        check_generator_type(r, op, tensor);
    }
}

void gk_op_read_tensors(struct gk_reader *r, const struct gk_json *json, struct gk_op *op)
{
    const struct gk_json *list = gk_read_list(r, json, "tensors", 1, GK_TENSORS_MAX, true);
    bool writes = false;
    for (uint32_t i = 0; i < gk_json_count(list); i++) {
        size_t mark = gk_reader_enter(r, "tensors[%" PRIu32 "]", i);
        read_tensor(r, gk_json_at(list, i), op);
        gk_reader_leave(r, mark);
    }
    for (uint32_t i = 0; i < op->tensor_count; i++) {
        writes = writes || op->tensors[i].role != GK_TENSOR_IN;
    }
    if (list && !writes) {
        gk_reader_fail(r, "tensors", GK_INPUT, "none is out or inout: there is nothing to verify");
    }
}

void gk_tensor_fini(struct gk_tensor *tensor)
{
    for (uint32_t i = 0; i < GK_TENSOR_RANK_MAX; i++) {
        gk_expr_destroy(tensor->extents[i]);
        gk_expr_destroy(tensor->strides[i]);
    }
    gk_expr_destroy(tensor->offset);
    gk_expr_destroy(tensor->align);
    gk_expr_destroy(tensor->when);
    generator_fini(&tensor->gen);
    generator_fini(&tensor->exact);
    generator_fini(&tensor->extreme);
}

/* ------------------------------------------------------------------ rungs with own inputs */

static void read_rung(struct gk_reader *r, const struct gk_json *json, struct gk_op *op,
                      bool is_extreme)
{
    const char *rung = is_extreme ? "extreme" : "exact";
    struct gk_expr **when_out = is_extreme ? &op->extreme_when : &op->exact_when;
    static const char *const extreme_keys[] = {"when", "gen", NULL};
    static const char *const exact_keys[] = {"when", "gen", "bounded", NULL};
    const struct gk_json *object = gk_json_get(json, rung);
    if (!object) {
        return;
    }
    size_t mark = gk_reader_enter(r, "%s", rung);
    const struct gk_json *gens = gk_json_get(object, "gen");
    if (gk_read_keys(r, object, is_extreme ? extreme_keys : exact_keys)) {
        if (!is_extreme) {
            op->exact_bounded = gk_op_read_outputs(r, object, "bounded", op);
        }
        *when_out = gk_read_expr(r, object, "when", op->fields.scope, GK_WANT_INT, false);
        if (!gk_json_get(object, "when")) {
            struct gk_json *always = gk_json_new_int(1);
            *when_out = gk_read_expr_value(r, always, "when", op->fields.scope, GK_WANT_INT);
            gk_json_free(always);
        }
        if (!gk_json_is(gens, GK_JSON_OBJECT)) {
            gk_reader_fail(r, NULL, GK_INPUT,
                           "\"gen\" is missing; an object from tensor to generator is needed");
        }
    }
    void *cursor = NULL;
    const char *name = NULL;
    for (const struct gk_json *gen = NULL; (gen = gk_json_next(gens, &cursor, &name));) {
        size_t inner = gk_reader_enter(r, "gen.%.63s", name);
        int64_t index = gk_op_tensor_index(op, name);
        if (index < 0 || op->tensors[index].role == GK_TENSOR_OUT) {
            gk_reader_fail(r, NULL, GK_NOT_FOUND, "names no input tensor");
        } else {
            struct gk_tensor *tensor = &op->tensors[index];
            read_generator(r, gen, op, tensor, is_extreme ? &tensor->extreme : &tensor->exact);
        }
        gk_reader_leave(r, inner);
    }
    gk_reader_leave(r, mark);
}

void gk_op_read_special(struct gk_reader *r, const struct gk_json *json, struct gk_op *op)
{
    read_rung(r, json, op, false);
    read_rung(r, json, op, true);
}
