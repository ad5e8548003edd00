/*
 * Plans: the vendor's call in numbers. Pure.
 *
 * Which of a matrix's strides is 1, and so how a library sees it, is left to the one who calls the
 * library: here a matrix is what it is in the product, with a stride for its rows and one for its
 * columns.
 */
#include "kernels/render_internal.h"

#include <inttypes.h>

static enum gk_status truth(const struct gk_plan *plan, const char *key, const struct gk_expr *expr,
                            bool fallback, bool *truth_out, struct gk_err *err)
{
    int64_t value = 0;
    enum gk_status status =
        gk_render_eval(plan, err, expr, fallback ? 1 : 0, &value, "vendor: %s", key);
    if (status == GK_OK) {
        *truth_out = value != 0;
    }
    return status;
}

static enum gk_status real(const struct gk_plan *plan, const char *key, const struct gk_expr *expr,
                           double fallback, double *value_out, struct gk_err *err)
{
    *value_out = fallback;
    enum gk_status status = expr ? gk_expr_eval_real(expr, plan->slots, value_out, err) : GK_OK;
    return status == GK_OK ? GK_OK : gk_fail_in(err, status, "vendor: %s", key);
}

/* The matrices of a batch begin batch_stride elements apart, so none but the first is aligned
 * better than that distance is. */
static int64_t common_align(int64_t align, int64_t batch_stride, uint32_t element)
{
    int64_t distance = batch_stride * (int64_t)element;
    int64_t lowest = distance & -distance;
    return distance != 0 && lowest < align ? lowest : align;
}

/* A tensor as a matrix of the product; rank 0 or 1 cannot be here (checked when it was loaded),
 * except for the bias, which is rank 1 or has extents of 1 before its last. */
static void take_matrix(const struct gk_plan *plan, int32_t tensor, bool transposed,
                        struct gk_plan_matrix *matrix)
{
    const struct gk_plan_tensor *planned = &plan->tensors[tensor];
    uint32_t row = planned->rank - 2, col = planned->rank - 1;
    bool batched = planned->rank == 3 && planned->extents[0] > 1;
    *matrix = (struct gk_plan_matrix){
        .tensor = tensor,
        .dtype = planned->dtype,
        .rows = planned->extents[transposed ? col : row],
        .cols = planned->extents[transposed ? row : col],
        .row_stride = planned->strides[transposed ? col : row],
        .col_stride = planned->strides[transposed ? row : col],
        .batch_stride = batched ? planned->strides[0] : 0,
    };
    matrix->align =
        common_align(planned->align, matrix->batch_stride, gk_dtype_bytes(planned->dtype));
}

static enum gk_status check_there(const struct gk_plan *plan, int32_t tensor, struct gk_err *err)
{
    const struct gk_plan_tensor *planned = &plan->tensors[tensor];
    if (!planned->present) {
        return gk_fail(err, GK_INPUT,
                       "vendor: tensor %s does not exist in this problem; \"when\" has to say so",
                       planned->def->name);
    }
    return GK_OK;
}

static enum gk_status check_extents(const struct gk_plan *plan, const struct gk_plan_matrix *matrix,
                                    const char *what, int64_t rows, int64_t cols, int64_t batch,
                                    struct gk_err *err)
{
    const struct gk_plan_tensor *planned = &plan->tensors[matrix->tensor];
    int64_t own = planned->rank == 3 ? planned->extents[0] : 1;
    if (matrix->rows != rows || matrix->cols != cols || (own != batch && own != 1)) {
        return gk_fail(err, GK_INPUT,
                       "vendor: %s (tensor %s) is %" PRId64 " of %" PRId64 " x %" PRId64
                       "; %" PRId64 " (or 1) of %" PRId64 " x %" PRId64 " is needed",
                       what, planned->def->name, own, matrix->rows, matrix->cols, batch, rows,
                       cols);
    }
    return GK_OK;
}

/* One value a column of D, one after another, whatever stands before the last extent. */
static enum gk_status take_bias(const struct gk_plan *plan, const struct gk_vendor_def *def,
                                struct gk_plan_matmul *matmul, struct gk_err *err)
{
    matmul->bias.tensor = -1;
    if (def->bias < 0 || !plan->tensors[def->bias].present) {
        return GK_OK;
    }
    const struct gk_plan_tensor *planned = &plan->tensors[def->bias];
    int64_t last = planned->rank > 0 ? planned->extents[planned->rank - 1] : 1;
    int64_t stride = planned->rank > 0 ? planned->strides[planned->rank - 1] : 1;
    if (planned->elements != matmul->n || last != matmul->n || (stride != 1 && matmul->n > 1)) {
        return gk_fail(err, GK_INPUT,
                       "vendor: bias (tensor %s) has %" PRId64 " elements, %" PRId64
                       " apart; %" PRId64 " one after another are needed",
                       planned->def->name, planned->elements, stride, matmul->n);
    }
    matmul->bias = (struct gk_plan_matrix){.tensor = def->bias,
                                           .dtype = planned->dtype,
                                           .rows = 1,
                                           .cols = matmul->n,
                                           .row_stride = matmul->n,
                                           .col_stride = 1,
                                           .align = planned->align};
    return GK_OK;
}

static enum gk_status take_matrices(const struct gk_plan *plan, const struct gk_vendor_def *def,
                                    struct gk_plan_matmul *matmul, struct gk_err *err)
{
    bool a_transposed = false, b_transposed = false;
    enum gk_status status = check_there(plan, (int32_t)def->a, err);
    status = status == GK_OK ? check_there(plan, (int32_t)def->b, err) : status;
    status = status == GK_OK ? check_there(plan, (int32_t)def->d, err) : status;
    if (status == GK_OK) {
        status = truth(plan, "a_transposed", def->a_transposed, false, &a_transposed, err);
    }
    if (status == GK_OK) {
        status = truth(plan, "b_transposed", def->b_transposed, false, &b_transposed, err);
    }
    if (status != GK_OK) {
        return status;
    }
    take_matrix(plan, (int32_t)def->a, a_transposed, &matmul->a);
    take_matrix(plan, (int32_t)def->b, b_transposed, &matmul->b);
    take_matrix(plan, (int32_t)def->d, false, &matmul->d);
    const struct gk_plan_tensor *d = &plan->tensors[def->d];
    matmul->batch = d->rank == 3 ? d->extents[0] : 1;
    matmul->m = matmul->d.rows;
    matmul->n = matmul->d.cols;
    matmul->k = matmul->a.cols;
    status = check_extents(plan, &matmul->a, "a", matmul->m, matmul->k, matmul->batch, err);
    if (status == GK_OK) {
        status = check_extents(plan, &matmul->b, "b", matmul->k, matmul->n, matmul->batch, err);
    }
    matmul->c.tensor = -1;
    if (status == GK_OK && def->c >= 0 && plan->tensors[def->c].present) {
        take_matrix(plan, def->c, false, &matmul->c);
        status = check_extents(plan, &matmul->c, "c", matmul->m, matmul->n, matmul->batch, err);
    }
    return status == GK_OK ? take_bias(plan, def, matmul, err) : status;
}

static enum gk_status take_scalars(const struct gk_plan *plan, const struct gk_vendor_def *def,
                                   struct gk_plan_matmul *matmul, struct gk_err *err)
{
    enum gk_status status = real(plan, "alpha", def->alpha, 1.0, &matmul->alpha, err);
    if (status == GK_OK) {
        status = real(plan, "beta", def->beta, 0.0, &matmul->beta, err);
    }
    if (status == GK_OK) {
        status = truth(plan, "relu", def->relu, false, &matmul->relu, err);
    }
    if (status == GK_OK) {
        status = truth(plan, "gelu_tanh", def->gelu_tanh, false, &matmul->gelu_tanh, err);
    }
    if (status == GK_OK) {
        status = truth(plan, "fast_accum", def->fast_accum, false, &matmul->fast_accum, err);
    }
    if (status == GK_OK && matmul->relu && matmul->gelu_tanh) {
        status = gk_fail(err, GK_INPUT, "vendor: relu and gelu_tanh at once; one is allowed");
    }
    if (status == GK_OK && matmul->beta != 0.0 && matmul->c.tensor < 0) {
        status = gk_fail(err, GK_INPUT, "vendor: beta is %g, but tensor %s does not exist here",
                         matmul->beta, plan->op->tensors[def->c].name);
    }
    return status;
}

enum gk_status gk_plan_vendor(const struct gk_plan *plan, struct gk_plan_matmul *matmul_out,
                              struct gk_err *err)
{
    const struct gk_vendor_def *def = &plan->op->vendor;
    struct gk_plan_matmul matmul = {.library = def->library};
    bool holds = true;
    if (!def->present) {
        return gk_fail(err, GK_UNSUPPORTED, "op %s names no vendor", plan->op->fields.op);
    }
    enum gk_status status = truth(plan, "when", def->when, true, &holds, err);
    if (status == GK_OK && !holds) {
        struct gk_buf values = {0};
        gk_expr_show_values(def->when, plan->slots, &values);
        status = gk_fail(err, GK_UNSUPPORTED, "the vendor of op %s does not do this: %s%s",
                         plan->op->fields.op, gk_expr_text(def->when), gk_buf_text(&values));
        gk_buf_fini(&values);
    }
    if (status == GK_OK) {
        status = take_matrices(plan, def, &matmul, err);
    }
    if (status == GK_OK) {
        status = take_scalars(plan, def, &matmul, err);
    }
    if (status == GK_OK) {
        *matmul_out = matmul;
    }
    return status;
}
