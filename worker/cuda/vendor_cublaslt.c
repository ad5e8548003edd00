/*
 * worker/vendor.h by cuBLASLt.
 *
 * The library thinks in columns: its matrices have a distance between columns, and rows lie one
 * after another. A row-major D of m x n is to it the n x m matrix D', and D' = B' A' (' is the
 * transpose), so A and B change places and nothing is copied. Which of its operands is marked as
 * transposed follows from the stride that is 1. The bias has one value a column of D, which is a
 * row of D': the form that the library has.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/buf.h"
#include "worker/cuda/cublaslt.h"
#include "worker/cuda/cuda_inside.h"
#include "worker/vendor.h"

#define WORKSPACE_ALIGN 256
#define ALIGN_MAX       256 /* what the library asks for at most, and takes for granted unasked */

/* A matrix as the library sees it. */
struct view {
    bool transposed; /* the stored matrix is the transpose of the operand */
    int64_t rows, cols, ld;
};

struct gk_vendor {
    struct gk_device *device;
    struct gk_cublaslt lt;
    struct gk_plan_matmul matmul;
    bool swapped; /* D is row-major: the library's first operand is our B */
    float alpha, beta;
    cublasLtHandle_t handle;
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t first, second, c, d;
    cublasLtMatmulHeuristicResult_t results[GK_VENDOR_CHOICES_MAX];
    uint32_t count;
};

static enum gk_status fail_lt(const struct gk_vendor *vendor, enum gk_status status,
                              cublasStatus_t result, const char *function, struct gk_err *err)
{
    const char *text = vendor->lt.status_text(result);
    return gk_fail(err, status, "%s: %s: %s (%d)", vendor->lt.text, function,
                   text ? text : "an error without a name", (int)result);
}

static enum gk_status check(const struct gk_vendor *vendor, cublasStatus_t result,
                            const char *function, struct gk_err *err)
{
    return result == CUBLAS_STATUS_SUCCESS
               ? GK_OK
               : fail_lt(vendor, result == CUBLAS_STATUS_ALLOC_FAILED ? GK_NOMEM : GK_UNSUPPORTED,
                         result, function, err);
}

/* ------------------------------------------------------------------ layouts */

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Element (i, j) at i * row_stride + j * col_stride, as columns with a distance. False if neither
 * stride is 1 where it counts. A single row or column has a stride that nobody uses; one that is a
 * column is one first, since D must not be transposed. */
static bool view_of(int64_t rows, int64_t cols, int64_t row_stride, int64_t col_stride,
                    struct view *view)
{
    if (row_stride == 1 && (col_stride >= rows || cols == 1)) {
        *view = (struct view){false, rows, cols, larger(col_stride, rows)};
    } else if (col_stride == 1 && row_stride >= cols) {
        *view = (struct view){true, cols, rows, row_stride};
    } else if (rows == 1 && col_stride >= 1) {
        *view = (struct view){false, 1, cols, col_stride};
    } else if (cols == 1 && row_stride >= 1) {
        *view = (struct view){true, 1, rows, row_stride};
    } else {
        return false;
    }
    return true;
}

static bool view_matrix(const struct gk_plan_matrix *matrix, bool swapped, struct view *view)
{
    return swapped
               ? view_of(matrix->cols, matrix->rows, matrix->col_stride, matrix->row_stride, view)
               : view_of(matrix->rows, matrix->cols, matrix->row_stride, matrix->col_stride, view);
}

static bool type_of(enum gk_dtype dtype, cudaDataType_t *type_out)
{
    switch (dtype) {
    case GK_BF16:
        *type_out = CUDA_R_16BF;
        return true;
    case GK_F16:
        *type_out = CUDA_R_16F;
        return true;
    case GK_E4M3:
        *type_out = CUDA_R_8F_E4M3;
        return true;
    case GK_F32:
        *type_out = CUDA_R_32F;
        return true;
    default:
        return false; /* sums are fp32 and so are alpha and beta: no integers, no doubles */
    }
}

static const char *tensor_name(const struct gk_plan *plan, const struct gk_plan_matrix *matrix)
{
    return plan->tensors[matrix->tensor].def->name;
}

static enum gk_status set_batch(struct gk_vendor *vendor, cublasLtMatrixLayout_t layout,
                                const struct gk_plan_matrix *matrix, struct gk_err *err)
{
    int32_t count = (int32_t)vendor->matmul.batch;
    if (count == 1) {
        return GK_OK;
    }
    cublasStatus_t result =
        vendor->lt.layout_set(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count);
    if (result == CUBLAS_STATUS_SUCCESS) {
        result = vendor->lt.layout_set(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                       &matrix->batch_stride, sizeof matrix->batch_stride);
    }
    return check(vendor, result, "cublasLtMatrixLayoutSetAttribute", err);
}

static enum gk_status make_layout(struct gk_vendor *vendor, const struct gk_plan *plan,
                                  const struct gk_plan_matrix *matrix, struct view *view,
                                  cublasLtMatrixLayout_t *layout_out, struct gk_err *err)
{
    cudaDataType_t type = CUDA_R_32F;
    if (!type_of(matrix->dtype, &type)) {
        return gk_fail(err, GK_UNSUPPORTED, "vendor: tensor %s is %s; bf16, f16, e4m3, f32 go",
                       tensor_name(plan, matrix), gk_dtype_name(matrix->dtype));
    }
    if (!view_matrix(matrix, vendor->swapped, view)) {
        return gk_fail(err, GK_UNSUPPORTED,
                       "vendor: tensor %s has strides %" PRId64 " and %" PRId64 " for %" PRId64
                       " x %" PRId64 "; one must be 1, the other must not overlap",
                       tensor_name(plan, matrix), matrix->row_stride, matrix->col_stride,
                       matrix->rows, matrix->cols);
    }
    cublasStatus_t result = vendor->lt.layout_create(layout_out, type, (uint64_t)view->rows,
                                                     (uint64_t)view->cols, view->ld);
    enum gk_status status = check(vendor, result, "cublasLtMatrixLayoutCreate", err);
    return status == GK_OK ? set_batch(vendor, *layout_out, matrix, err) : status;
}

/* ------------------------------------------------------------------ what is asked for */

static enum gk_status check_sizes(const struct gk_plan_matmul *matmul, struct gk_err *err)
{
    const struct {
        const char *name;
        int64_t value;
    } sizes[] = {
        {"batch", matmul->batch}, {"rows", matmul->m}, {"columns", matmul->n}, {"sum", matmul->k}};
    for (size_t i = 0; i < GK_ARRAY_COUNT(sizes); i++) {
        if (sizes[i].value < 1 || sizes[i].value > INT32_MAX) {
            return gk_fail(err, GK_UNSUPPORTED,
                           "vendor: extent of %s is %" PRId64 "; 1 to 2^31 - 1 go", sizes[i].name,
                           sizes[i].value);
        }
    }
    return GK_OK;
}

static enum gk_status set_desc(struct gk_vendor *vendor, cublasLtMatmulDescAttributes_t attribute,
                               const void *value, size_t size, struct gk_err *err)
{
    return check(vendor, vendor->lt.desc_set(vendor->desc, attribute, value, size),
                 "cublasLtMatmulDescSetAttribute", err);
}

/* The address is not read before the product runs, but its alignment counts for the choice. */
static enum gk_status set_bias(struct gk_vendor *vendor, uint64_t address, struct gk_err *err)
{
    const void *pointer = NULL;
    memcpy(&pointer, &address, sizeof pointer);
    return set_desc(vendor, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &pointer, sizeof pointer, err);
}

static enum gk_status set_epilogue(struct gk_vendor *vendor, const struct gk_plan *plan,
                                   struct gk_err *err)
{
    const struct gk_plan_matmul *matmul = &vendor->matmul;
    bool biased = matmul->bias.tensor >= 0;
    uint32_t epilogue = matmul->relu        ? CUBLASLT_EPILOGUE_RELU
                        : matmul->gelu_tanh ? CUBLASLT_EPILOGUE_GELU
                                            : 0;
    enum gk_status status = GK_OK;
    if (biased) {
        cudaDataType_t type = CUDA_R_32F;
        epilogue |= CUBLASLT_EPILOGUE_BIAS;
        if (!type_of(matmul->bias.dtype, &type)) {
            return gk_fail(err, GK_UNSUPPORTED, "vendor: tensor %s is %s; bf16, f16, f32 go",
                           tensor_name(plan, &matmul->bias), gk_dtype_name(matmul->bias.dtype));
        }
        if (!vendor->swapped) {
            return gk_fail(err, GK_UNSUPPORTED,
                           "vendor: a bias a column needs a row-major tensor %s",
                           tensor_name(plan, &matmul->d));
        }
        int32_t number = (int32_t)type;
        status = set_desc(vendor, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &number, sizeof number, err);
        if (status == GK_OK) {
            status = set_bias(vendor, (uint64_t)matmul->bias.align, err);
        }
    }
    if (status == GK_OK && epilogue != 0) {
        status = set_desc(vendor, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue, err);
    }
    return status;
}

static enum gk_status make_desc(struct gk_vendor *vendor, const struct gk_plan *plan,
                                const struct view *first, const struct view *second,
                                struct gk_err *err)
{
    cublasOperation_t ops[2] = {first->transposed ? CUBLAS_OP_T : CUBLAS_OP_N,
                                second->transposed ? CUBLAS_OP_T : CUBLAS_OP_N};
    enum gk_status status =
        check(vendor, vendor->lt.desc_create(&vendor->desc, CUBLAS_COMPUTE_32F, CUDA_R_32F),
              "cublasLtMatmulDescCreate", err);
    if (status == GK_OK) {
        status = set_desc(vendor, CUBLASLT_MATMUL_DESC_TRANSA, &ops[0], sizeof ops[0], err);
    }
    if (status == GK_OK) {
        status = set_desc(vendor, CUBLASLT_MATMUL_DESC_TRANSB, &ops[1], sizeof ops[1], err);
    }
    if (status == GK_OK && vendor->matmul.fast_accum) {
        int8_t fast = 1;
        status = set_desc(vendor, CUBLASLT_MATMUL_DESC_FAST_ACCUM, &fast, sizeof fast, err);
    }
    return status == GK_OK ? set_epilogue(vendor, plan, err) : status;
}

/* Both D and C have to be stored as D is seen: the library transposes its operands alone. */
static enum gk_status make_problem(struct gk_vendor *vendor, const struct gk_plan *plan,
                                   struct gk_err *err)
{
    const struct gk_plan_matmul *matmul = &vendor->matmul;
    const struct gk_plan_matrix *c = matmul->c.tensor >= 0 ? &matmul->c : &matmul->d;
    struct view first, second, in, out;
    vendor->swapped = view_matrix(&matmul->d, true, &out) && !out.transposed;
    const struct gk_plan_matrix *left = vendor->swapped ? &matmul->b : &matmul->a;
    const struct gk_plan_matrix *right = vendor->swapped ? &matmul->a : &matmul->b;
    enum gk_status status = make_layout(vendor, plan, left, &first, &vendor->first, err);
    if (status == GK_OK) {
        status = make_layout(vendor, plan, right, &second, &vendor->second, err);
    }
    if (status == GK_OK) {
        status = make_layout(vendor, plan, c, &in, &vendor->c, err);
    }
    if (status == GK_OK) {
        status = make_layout(vendor, plan, &matmul->d, &out, &vendor->d, err);
    }
    if (status == GK_OK && (in.transposed || out.transposed)) {
        status = gk_fail(err, GK_UNSUPPORTED, "vendor: tensors %s and %s are not stored alike",
                         tensor_name(plan, c), tensor_name(plan, &matmul->d));
    }
    return status == GK_OK ? make_desc(vendor, plan, &first, &second, err) : status;
}

/* ------------------------------------------------------------------ choices */

/* Without this the library takes 256 bytes for granted and offers code that reads wider than our
 * tensors are aligned. */
static cublasStatus_t set_alignments(struct gk_vendor *vendor, cublasLtMatmulPreference_t wish)
{
    const struct gk_plan_matmul *matmul = &vendor->matmul;
    const struct {
        cublasLtMatmulPreferenceAttributes_t attribute;
        int64_t align;
    } all[] = {
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
         vendor->swapped ? matmul->b.align : matmul->a.align},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
         vendor->swapped ? matmul->a.align : matmul->b.align},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
         matmul->c.tensor >= 0 ? matmul->c.align : matmul->d.align},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, matmul->d.align},
    };
    cublasStatus_t result = CUBLAS_STATUS_SUCCESS;
    for (size_t i = 0; i < GK_ARRAY_COUNT(all) && result == CUBLAS_STATUS_SUCCESS; i++) {
        uint32_t align = (uint32_t)(all[i].align < ALIGN_MAX ? all[i].align : ALIGN_MAX);
        result = vendor->lt.preference_set(wish, all[i].attribute, &align, sizeof align);
    }
    return result;
}

/* Those that came with success and keep to the limit, moved to the front in their order. */
static void keep_good(struct gk_vendor *vendor, int returned, uint64_t workspace_bytes_max)
{
    for (int i = 0; i < returned && i < GK_VENDOR_CHOICES_MAX; i++) {
        const cublasLtMatmulHeuristicResult_t *result = &vendor->results[i];
        if (result->state == CUBLAS_STATUS_SUCCESS &&
            result->workspaceSize <= workspace_bytes_max) {
            vendor->results[vendor->count++] = *result;
        }
    }
}

static enum gk_status ask(struct gk_vendor *vendor, uint64_t workspace_bytes_max,
                          struct gk_err *err)
{
    const struct gk_plan_matmul *matmul = &vendor->matmul;
    cublasLtMatmulPreference_t wish = NULL;
    int returned = 0;
    cublasStatus_t result = vendor->lt.preference_create(&wish);
    enum gk_status status = check(vendor, result, "cublasLtMatmulPreferenceCreate", err);
    if (status != GK_OK) {
        return status;
    }
    result = vendor->lt.preference_set(wish, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                       &workspace_bytes_max, sizeof workspace_bytes_max);
    if (result == CUBLAS_STATUS_SUCCESS) {
        result = set_alignments(vendor, wish);
    }
    status = check(vendor, result, "cublasLtMatmulPreferenceSetAttribute", err);
    if (status == GK_OK) {
        result = vendor->lt.heuristic(vendor->handle, vendor->desc, vendor->first, vendor->second,
                                      vendor->c, vendor->d, wish, GK_VENDOR_CHOICES_MAX,
                                      vendor->results, &returned);
        status = check(vendor, result, "cublasLtMatmulAlgoGetHeuristic", err);
    }
    (void)vendor->lt.preference_destroy(wish); /* it cannot fail on what was created */
    if (status == GK_OK) {
        keep_good(vendor, returned, workspace_bytes_max);
    }
    if (status == GK_OK && vendor->count == 0) {
        status = gk_fail(err, GK_UNSUPPORTED,
                         "%s has no algorithm for %" PRId64 " x %" PRId64 " x %" PRId64
                         " in %s with at most %" PRIu64 " bytes of workspace (%d offered)",
                         vendor->lt.text, matmul->m, matmul->n, matmul->k,
                         gk_dtype_name(matmul->a.dtype), workspace_bytes_max, returned);
    }
    return status;
}

/* ------------------------------------------------------------------ public */

enum gk_status gk_vendor_open(struct gk_device *device, const char *places,
                              const struct gk_plan *plan, uint64_t workspace_bytes_max,
                              struct gk_vendor **vendor_out, struct gk_err *err)
{
    struct gk_plan_matmul matmul;
    enum gk_status status = gk_plan_vendor(plan, &matmul, err);
    if (status == GK_OK) {
        status = check_sizes(&matmul, err);
    }
    if (status == GK_OK && !gk_device_cuda_stream(device)) {
        status = gk_fail(err, GK_UNSUPPORTED, "device %s is no CUDA device: cuBLASLt does not run",
                         device->props.device);
    }
    if (status != GK_OK) {
        return status;
    }
    struct gk_vendor *vendor = calloc(1, sizeof *vendor);
    if (!vendor) {
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    vendor->device = device;
    vendor->matmul = matmul;
    vendor->alpha = (float)matmul.alpha;
    vendor->beta = (float)matmul.beta;
    status = gk_cublaslt_open(places, &vendor->lt, err);
    if (status == GK_OK) {
        status = check(vendor, vendor->lt.create(&vendor->handle), "cublasLtCreate", err);
    }
    if (status == GK_OK) {
        status = make_problem(vendor, plan, err);
    }
    if (status == GK_OK) {
        status = ask(vendor, workspace_bytes_max, err);
    }
    if (status == GK_OK) {
        *vendor_out = vendor;
        vendor = NULL;
    }
    gk_vendor_close(vendor);
    return status;
}

/* What is destroyed was created; the library's answers to that say nothing that could be acted on.
 * The handle has memory of the device, and freeing it waits for what does not end: of a lost device
 * it stays, as all else there does. */
void gk_vendor_close(struct gk_vendor *vendor)
{
    if (!vendor) {
        return;
    }
    cublasLtMatrixLayout_t layouts[] = {vendor->first, vendor->second, vendor->c, vendor->d};
    for (size_t i = 0; i < GK_ARRAY_COUNT(layouts); i++) {
        if (layouts[i]) {
            (void)vendor->lt.layout_destroy(layouts[i]);
        }
    }
    if (vendor->desc) {
        (void)vendor->lt.desc_destroy(vendor->desc);
    }
    if (vendor->handle && !cuda_of(vendor->device)->lost) {
        (void)vendor->lt.destroy(vendor->handle);
    }
    free(vendor);
}

const char *gk_vendor_version(const struct gk_vendor *vendor)
{
    return vendor->lt.text;
}

const char *gk_vendor_path(const struct gk_vendor *vendor)
{
    return vendor->lt.path;
}

uint32_t gk_vendor_count(const struct gk_vendor *vendor)
{
    return vendor->count;
}

uint64_t gk_vendor_workspace(const struct gk_vendor *vendor, uint32_t choice)
{
    GK_ASSERT(choice < vendor->count);
    return vendor->results[choice].workspaceSize;
}

/* -1: this version of the library has no such attribute. */
static int64_t attribute_of(const struct gk_vendor *vendor, uint32_t choice,
                            cublasLtMatmulAlgoConfigAttributes_t attribute, size_t size)
{
    uint32_t value = 0; /* little-endian: smaller attributes fill its low bytes */
    size_t written = 0;
    cublasStatus_t result =
        vendor->lt.algo_get(&vendor->results[choice].algo, attribute, &value, size, &written);
    return result == CUBLAS_STATUS_SUCCESS && written == size ? (int64_t)value : -1;
}

/* The tiles that are met; others are told by their number in cublasLtMatmulTile_t. */
static const char *tile_name(int64_t tile)
{
    static const char *const names[] = {
        "any",     "8x8",    "8x16",   "16x8",   "8x32",    "16x16",   "32x8",    "8x64",
        "16x32",   "32x16",  "64x8",   "32x32",  "32x64",   "64x32",   "32x128",  "64x64",
        "128x32",  "64x128", "128x64", "64x256", "128x128", "256x64",  "64x512",  "128x256",
        "256x128", "512x64", "64x96",  "96x64",  "96x128",  "128x160", "160x128", "192x128",
        "128x192", "128x96", "32x256", "256x32"};
    return tile >= 0 && tile < (int64_t)GK_ARRAY_COUNT(names) ? names[tile] : "tile";
}

void gk_vendor_describe(const struct gk_vendor *vendor, uint32_t choice,
                        char text_out[GK_VENDOR_TEXT_MAX])
{
    GK_ASSERT(choice < vendor->count);
    int64_t tile = attribute_of(vendor, choice, CUBLASLT_ALGO_CONFIG_TILE_ID, 4);
    (void)snprintf(text_out, GK_VENDOR_TEXT_MAX,
                   "algo %" PRId64 ", tile %s (%" PRId64 "), stages %" PRId64 ", split-k %" PRId64
                   ", reduction %" PRId64 ", swizzle %" PRId64 ", option %" PRId64
                   ", inner %" PRId64 ", cluster %" PRId64 ", workspace %zu B",
                   attribute_of(vendor, choice, CUBLASLT_ALGO_CONFIG_ID, 4), tile_name(tile), tile,
                   attribute_of(vendor, choice, CUBLASLT_ALGO_CONFIG_STAGES_ID, 4),
                   attribute_of(vendor, choice, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, 4),
                   attribute_of(vendor, choice, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, 4),
                   attribute_of(vendor, choice, CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING, 4),
                   attribute_of(vendor, choice, CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, 4),
                   attribute_of(vendor, choice, CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID, 2),
                   attribute_of(vendor, choice, CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, 2),
                   vendor->results[choice].workspaceSize);
}

/* ------------------------------------------------------------------ running */

static enum gk_status check_call(const struct gk_vendor *vendor, uint32_t choice,
                                 const uint64_t *addresses, uint64_t workspace_address,
                                 uint64_t workspace_bytes, struct gk_err *err)
{
    const struct gk_plan_matmul *matmul = &vendor->matmul;
    const struct gk_plan_matrix *all[] = {&matmul->a, &matmul->b, &matmul->c, &matmul->d,
                                          &matmul->bias};
    if (choice >= vendor->count) {
        return gk_fail(err, GK_INPUT, "choice %" PRIu32 " of the vendor; there are %" PRIu32,
                       choice, vendor->count);
    }
    uint64_t needed = vendor->results[choice].workspaceSize;
    if (workspace_bytes < needed ||
        (needed > 0 && (workspace_address == 0 || workspace_address % WORKSPACE_ALIGN != 0))) {
        return gk_fail(err, GK_INPUT,
                       "choice %" PRIu32 " of the vendor: a workspace of %" PRIu64
                       " bytes at 0x%" PRIx64 "; %" PRIu64 " bytes aligned to %d are needed",
                       choice, workspace_bytes, workspace_address, needed, WORKSPACE_ALIGN);
    }
    for (size_t i = 0; i < GK_ARRAY_COUNT(all); i++) {
        if (all[i]->tensor < 0) {
            continue;
        }
        uint64_t address = addresses[all[i]->tensor];
        uint64_t align = (uint64_t)(all[i]->align < ALIGN_MAX ? all[i]->align : ALIGN_MAX);
        if (address == 0 || address % align != 0) {
            return gk_fail(err, GK_INPUT,
                           "vendor: tensor %" PRId32 " at 0x%" PRIx64
                           "; an address that is a multiple of %" PRIu64 " was promised",
                           all[i]->tensor, address, align);
        }
    }
    return GK_OK;
}

static void *pointer_of(const uint64_t *addresses, int32_t tensor)
{
    void *pointer = NULL;
    memcpy(&pointer, &addresses[tensor], sizeof pointer);
    return pointer;
}

static cublasStatus_t multiply(struct gk_vendor *vendor, uint32_t choice, const uint64_t *addresses,
                               uint64_t workspace_address, uint64_t workspace_bytes)
{
    const struct gk_plan_matmul *matmul = &vendor->matmul;
    const int32_t first = vendor->swapped ? matmul->b.tensor : matmul->a.tensor;
    const int32_t second = vendor->swapped ? matmul->a.tensor : matmul->b.tensor;
    const int32_t c = matmul->c.tensor >= 0 ? matmul->c.tensor : matmul->d.tensor;
    void *stream = gk_device_cuda_stream(vendor->device);
    return vendor->lt.matmul(
        vendor->handle, vendor->desc, &vendor->alpha, pointer_of(addresses, first), vendor->first,
        pointer_of(addresses, second), vendor->second, &vendor->beta, pointer_of(addresses, c),
        vendor->c, pointer_of(addresses, matmul->d.tensor), vendor->d,
        &vendor->results[choice].algo, pointer_of(&workspace_address, 0), (size_t)workspace_bytes,
        (cudaStream_t)stream);
}

/* As of a launch: whatever fails while a recording is open ends it. */
static enum gk_status fail_recording(struct cuda_device *device, const struct gk_err *own,
                                     struct gk_err *err)
{
    if (device->record == CUDA_RECORD_OPEN) {
        cuda_record_fail(device, own);
    }
    return gk_fail(err, own->status, "%s", own->text);
}

/* A call that was refused may have left pieces in the stream: they are waited for, and an error of
 * theirs is the better answer. */
static enum gk_status settle(struct gk_vendor *vendor, cublasStatus_t result, struct gk_err *err)
{
    struct gk_device_report report;
    enum gk_status status = gk_device_cuda_settle(vendor->device, vendor->lt.text, &report, err);
    if (status == GK_OK && result != CUBLAS_STATUS_SUCCESS) {
        status = fail_lt(vendor, GK_UNSUPPORTED, result, "cublasLtMatmul", err);
    }
    return status;
}

enum gk_status gk_vendor_enqueue(struct gk_vendor *vendor, uint32_t choice,
                                 const uint64_t tensor_addresses[GK_TENSORS_MAX],
                                 uint64_t workspace_address, uint64_t workspace_bytes,
                                 struct gk_err *err)
{
    struct cuda_device *device = cuda_of(vendor->device);
    struct gk_err own = {0};
    enum gk_status status = cuda_ready(device, vendor->lt.text, &own);
    if (status == GK_OK && device->record == CUDA_RECORD_FAILED) {
        /* Nothing is captured any more: the call would run instead. */
        status = gk_fail(&own, device->record_err.status, "%s", device->record_err.text);
    }
    if (status == GK_OK) {
        status =
            check_call(vendor, choice, tensor_addresses, workspace_address, workspace_bytes, &own);
    }
    if (status == GK_OK && vendor->matmul.bias.tensor >= 0) {
        status = set_bias(vendor, tensor_addresses[vendor->matmul.bias.tensor], &own);
    }
    if (status != GK_OK) {
        return fail_recording(device, &own, err);
    }
    cublasStatus_t result =
        multiply(vendor, choice, tensor_addresses, workspace_address, workspace_bytes);
    if (device->record == CUDA_RECORD_NONE) {
        return settle(vendor, result, err);
    }
    gk_device_cuda_foreign(vendor->device);
    if (result != CUBLAS_STATUS_SUCCESS) {
        (void)fail_lt(vendor, GK_UNSUPPORTED, result, "cublasLtMatmul", &own);
        return fail_recording(device, &own, err);
    }
    return GK_OK;
}
