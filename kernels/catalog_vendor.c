/*
 * op.json: "vendor", the call of a library that does what the op does.
 *
 * It stands for a row beside ours in a final round and changes nothing that we compute, so it is no
 * part of any identity: an op may gain or lose it and no stored result becomes stale.
 */
#include "kernels/catalog_internal.h"

#include <string.h>

/* What a matrix of the call may be: an input, an output, and how many axes it has. */
enum part_role { PART_READ, PART_WRITTEN };

/* Index of the tensor that `key` names, -1 with a message. */
static int32_t read_part(struct gk_reader *r, const struct gk_json *json, const char *key,
                         const struct gk_op *op, enum part_role role)
{
    char name[GK_NAME_MAX];
    if (!gk_read_name(r, json, key, sizeof name, name)) {
        return -1;
    }
    int64_t index = gk_op_tensor_index(op, name);
    if (index < 0) {
        struct gk_buf names = {0};
        gk_op_tensor_names(op, &names);
        gk_reader_fail(r, key, GK_NOT_FOUND, "\"%s\" is no tensor; there are %s", name,
                       gk_buf_text(&names));
        gk_buf_fini(&names);
        return -1;
    }
    const struct gk_tensor *tensor = &op->tensors[index];
    if (role == PART_WRITTEN ? tensor->role == GK_TENSOR_IN : tensor->role == GK_TENSOR_OUT) {
        gk_reader_fail(r, key, GK_INPUT, "tensor \"%s\" is %s; %s or inout is allowed", name,
                       role == PART_WRITTEN ? "an input" : "an output",
                       role == PART_WRITTEN ? "out" : "in");
        return -1;
    }
    return (int32_t)index;
}

/* A matrix, or a batch of them. */
static void check_rank(struct gk_reader *r, const char *key, const struct gk_op *op, int32_t index)
{
    if (index >= 0 && op->tensors[index].rank != 2 && op->tensors[index].rank != 3) {
        gk_reader_fail(r, key, GK_INPUT,
                       "tensor \"%s\" has %u extents; 2 (rows, columns) or 3 (batch before them) "
                       "are allowed",
                       op->tensors[index].name, (unsigned)op->tensors[index].rank);
    }
}

static void read_matrices(struct gk_reader *r, const struct gk_json *json, const struct gk_op *op,
                          struct gk_vendor_def *vendor)
{
    int32_t a = read_part(r, json, "a", op, PART_READ);
    int32_t b = read_part(r, json, "b", op, PART_READ);
    int32_t d = read_part(r, json, "d", op, PART_WRITTEN);
    bool has_c = gk_json_get(json, "c") != NULL, has_beta = gk_json_get(json, "beta") != NULL;
    vendor->c = has_c ? read_part(r, json, "c", op, PART_READ) : -1;
    vendor->bias = gk_json_get(json, "bias") ? read_part(r, json, "bias", op, PART_READ) : -1;
    check_rank(r, "a", op, a);
    check_rank(r, "b", op, b);
    check_rank(r, "c", op, vendor->c);
    check_rank(r, "d", op, d);
    if (d >= 0 && (d == a || d == b)) {
        gk_reader_fail(r, "d", GK_INPUT, "tensor \"%s\" is read as %s and written as d",
                       op->tensors[d].name, d == a ? "a" : "b");
    }
    if (has_c != has_beta) {
        gk_reader_fail(r, NULL, GK_INPUT, "\"%s\" is there without \"%s\"", has_c ? "c" : "beta",
                       has_c ? "beta" : "c");
    }
    vendor->a = a >= 0 ? (uint32_t)a : 0; /* a file with mistakes is not used */
    vendor->b = b >= 0 ? (uint32_t)b : 0;
    vendor->d = d >= 0 ? (uint32_t)d : 0;
}

void gk_op_read_vendor(struct gk_reader *r, const struct gk_json *json, struct gk_op *op)
{
    static const char *const keys[] = {
        "library",      "when",  "a",    "b",    "c",         "d",          "bias", "a_transposed",
        "b_transposed", "alpha", "beta", "relu", "gelu_tanh", "fast_accum", NULL};
    static const char *const libraries[] = {"cublaslt", NULL};
    const struct gk_json *object = gk_json_get(json, "vendor");
    const struct gk_scope *scope = op->fields.scope;
    struct gk_vendor_def *vendor = &op->vendor;
    vendor->c = vendor->bias = -1;
    if (!object) {
        return;
    }
    size_t mark = gk_reader_enter(r, "vendor");
    if (!gk_json_is(object, GK_JSON_OBJECT)) {
        gk_reader_fail(r, NULL, GK_INPUT, "%s; an object {\"library\": ...} is allowed",
                       gk_json_type_name(gk_json_type(object)));
    } else {
        (void)gk_read_keys(r, object, keys); /* an object: checked above */
        vendor->present = true;
        int library = gk_read_choice(r, object, "library", libraries, -1);
        vendor->library = library >= 0 ? (enum gk_vendor_library)library : GK_VENDOR_CUBLASLT;
        read_matrices(r, object, op, vendor);
        vendor->when = gk_read_expr(r, object, "when", scope, GK_WANT_INT, false);
        vendor->a_transposed = gk_read_expr(r, object, "a_transposed", scope, GK_WANT_INT, false);
        vendor->b_transposed = gk_read_expr(r, object, "b_transposed", scope, GK_WANT_INT, false);
        vendor->alpha = gk_read_expr(r, object, "alpha", scope, GK_WANT_REAL, false);
        vendor->beta = gk_read_expr(r, object, "beta", scope, GK_WANT_REAL, false);
        vendor->relu = gk_read_expr(r, object, "relu", scope, GK_WANT_INT, false);
        vendor->gelu_tanh = gk_read_expr(r, object, "gelu_tanh", scope, GK_WANT_INT, false);
        vendor->fast_accum = gk_read_expr(r, object, "fast_accum", scope, GK_WANT_INT, false);
    }
    gk_reader_leave(r, mark);
}

void gk_vendor_def_fini(struct gk_vendor_def *vendor)
{
    gk_expr_destroy(vendor->when);
    gk_expr_destroy(vendor->a_transposed);
    gk_expr_destroy(vendor->b_transposed);
    gk_expr_destroy(vendor->alpha);
    gk_expr_destroy(vendor->beta);
    gk_expr_destroy(vendor->relu);
    gk_expr_destroy(vendor->gelu_tanh);
    gk_expr_destroy(vendor->fast_accum);
}
