/* See fake_cublaslt.h. Signatures are those of cublasLt.h, which is included. */
#include "tests/support/fake_cublaslt.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static struct fake_cublaslt state = {.offer_count = 1};

struct fake_cublaslt *fake_cublaslt(void)
{
    return &state;
}

/* CUBLAS_STATUS_SUCCESS unless this call is the one that has to fail. */
static cublasStatus_t enter(enum fake_function function)
{
    if (state.fail_in != function || state.fail_at-- > 0) {
        return CUBLAS_STATUS_SUCCESS;
    }
    state.fail_in = FAKE_NONE;
    return state.fail_with;
}

static void *make(size_t size)
{
    state.alive++;
    return calloc(1, size);
}

static cublasStatus_t drop(void *object)
{
    state.alive--;
    free(object);
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t take(void *member, size_t member_size, const void *value, size_t size)
{
    if (size != member_size || !value) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    memcpy(member, value, size);
    return CUBLAS_STATUS_SUCCESS;
}

/* ------------------------------------------------------------------ handles and descriptors */

size_t cublasLtGetVersion(void)
{
    return 130407;
}

const char *cublasLtGetStatusString(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_SUCCESS         ? "fine"
           : status == CUBLAS_STATUS_NOT_SUPPORTED ? "not supported, says the fake"
                                                   : "wrong, says the fake";
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle)
{
    cublasStatus_t status = enter(FAKE_CREATE);
    if (status == CUBLAS_STATUS_SUCCESS) {
        *handle = state.handle = make(1);
    }
    return status;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
    return drop(handle);
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *desc, cublasComputeType_t compute,
                                        cudaDataType_t scale)
{
    cublasStatus_t status = enter(FAKE_DESC_CREATE);
    if (status == CUBLAS_STATUS_SUCCESS) {
        struct fake_desc *made = make(sizeof *made);
        *made = (struct fake_desc){.compute = compute, .scale = scale, .bias_type = -1};
        *desc = (cublasLtMatmulDesc_t)(void *)made;
    }
    return status;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc)
{
    return drop(desc);
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void *value, size_t size)
{
    struct fake_desc *own = (struct fake_desc *)(void *)desc;
    cublasStatus_t status = enter(FAKE_DESC_SET);
    if (status != CUBLAS_STATUS_SUCCESS) {
        return status;
    }
    switch ((int)attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
        return take(&own->transa, 4, value, size);
    case CUBLASLT_MATMUL_DESC_TRANSB:
        return take(&own->transb, 4, value, size);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
        return take(&own->epilogue, 4, value, size);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
        return take(&own->bias, sizeof own->bias, value, size);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
        return take(&own->bias_type, 4, value, size);
    case CUBLASLT_MATMUL_DESC_FAST_ACCUM:
        return take(&own->fast_accum, 1, value, size);
    default:
        return CUBLAS_STATUS_INVALID_VALUE;
    }
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, cudaDataType type,
                                          uint64_t rows, uint64_t cols, int64_t ld)
{
    cublasStatus_t status = enter(FAKE_LAYOUT_CREATE);
    if (status == CUBLAS_STATUS_SUCCESS) {
        struct fake_layout *made = make(sizeof *made);
        *made = (struct fake_layout){type, rows, cols, ld, 1, 0};
        *layout = (cublasLtMatrixLayout_t)(void *)made;
    }
    return status;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout)
{
    return drop(layout);
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void *value, size_t size)
{
    struct fake_layout *own = (struct fake_layout *)(void *)layout;
    cublasStatus_t status = enter(FAKE_LAYOUT_SET);
    if (status != CUBLAS_STATUS_SUCCESS) {
        return status;
    }
    switch ((int)attribute) {
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
        return take(&own->batch, 4, value, size);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
        return take(&own->batch_stride, 8, value, size);
    default:
        return CUBLAS_STATUS_INVALID_VALUE;
    }
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference)
{
    cublasStatus_t status = enter(FAKE_PREFERENCE_CREATE);
    if (status == CUBLAS_STATUS_SUCCESS) {
        struct fake_preference *made = make(sizeof *made);
        *made = (struct fake_preference){0, 256, 256, 256, 256};
        *preference = (cublasLtMatmulPreference_t)(void *)made;
    }
    return status;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference)
{
    return drop(preference);
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void *value, size_t size)
{
    struct fake_preference *own = (struct fake_preference *)(void *)preference;
    cublasStatus_t status = enter(FAKE_PREFERENCE_SET);
    if (status != CUBLAS_STATUS_SUCCESS) {
        return status;
    }
    switch ((int)attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
        return take(&own->workspace_max, 8, value, size);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
        return take(&own->align_a, 4, value, size);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
        return take(&own->align_b, 4, value, size);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
        return take(&own->align_c, 4, value, size);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
        return take(&own->align_d, 4, value, size);
    default:
        return CUBLAS_STATUS_INVALID_VALUE;
    }
}

/* ------------------------------------------------------------------ algorithms */

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int requested,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int *returned)
{
    cublasStatus_t status = enter(FAKE_HEURISTIC);
    if (status != CUBLAS_STATUS_SUCCESS || !handle) {
        return handle ? status : CUBLAS_STATUS_NOT_INITIALIZED;
    }
    memcpy(&state.desc, desc, sizeof state.desc);
    memcpy(&state.a, a, sizeof state.a);
    memcpy(&state.b, b, sizeof state.b);
    memcpy(&state.c, c, sizeof state.c);
    memcpy(&state.d, d, sizeof state.d);
    memcpy(&state.preference, preference, sizeof state.preference);
    state.bias_asked = state.desc.bias;
    state.asked_count = requested;
    *returned = state.offer_count < requested ? state.offer_count : requested;
    for (int i = 0; i < *returned; i++) {
        results[i] = (cublasLtMatmulHeuristicResult_t){.workspaceSize = state.offers[i].workspace,
                                                       .state = state.offers[i].state};
        results[i].algo.data[0] = (uint64_t)i;
    }
    return CUBLAS_STATUS_SUCCESS;
}

/* Offer n has algorithm 60 + n, tile 20 + n, and so on: all different, so that none is confused. */
cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t *algo,
                                                    cublasLtMatmulAlgoConfigAttributes_t attribute,
                                                    void *value, size_t size, size_t *written)
{
    static const uint32_t bases[] = {60, 20, 1, 100, 200, 300, 30, 400, 500};
    size_t needed = attribute >= CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID ? 2 : 4;
    if ((size_t)attribute >= sizeof bases / sizeof bases[0] || size != needed) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    uint32_t number = bases[attribute] + (uint32_t)algo->data[0];
    memcpy(value, &number, size);
    *written = size;
    return CUBLAS_STATUS_SUCCESS;
}

/* ------------------------------------------------------------------ the product */

static size_t bytes_of(int type)
{
    return type == CUDA_R_32F ? 4 : 2;
}

static float value_at(const void *base, int type, int64_t index)
{
    const unsigned char *at = (const unsigned char *)base + index * (int64_t)bytes_of(type);
    float wide = 0;
    if (type == CUDA_R_32F) {
        memcpy(&wide, at, 4);
    } else if (type == CUDA_R_16BF) {
        memcpy((unsigned char *)&wide + 2, at, 2);
    } else {
        _Float16 half = 0;
        memcpy(&half, at, 2);
        wide = (float)half;
    }
    return wide;
}

/* Tests use values that are exact in the type: bf16 needs no rounding here. */
static void put_at(void *base, int type, int64_t index, float value)
{
    unsigned char *at = (unsigned char *)base + index * (int64_t)bytes_of(type);
    _Float16 half = (_Float16)value;
    if (type == CUDA_R_32F) {
        memcpy(at, &value, 4);
    } else if (type == CUDA_R_16BF) {
        memcpy(at, (const unsigned char *)&value + 2, 2);
    } else {
        memcpy(at, &half, 2);
    }
}

/* Element (row, col) of op(X). */
static int64_t place(const struct fake_layout *x, cublasOperation_t op, int64_t batch, int64_t row,
                     int64_t col)
{
    int64_t inside = op == CUBLAS_OP_N ? row + col * x->ld : col + row * x->ld;
    return batch * x->batch_stride + inside;
}

static bool layout_good(const struct fake_layout *x, const struct fake_layout *d)
{
    return x->ld >= (int64_t)x->rows && x->batch == d->batch && x->batch_stride >= 0 &&
           (x->type == CUDA_R_32F || x->type == CUDA_R_16BF || x->type == CUDA_R_16F);
}

static bool aligned(const void *address, uint32_t align)
{
    return (uintptr_t)address % align == 0;
}

static float finish_value(const struct fake_desc *desc, float value, int64_t row)
{
    if (desc->epilogue & CUBLASLT_EPILOGUE_BIAS) {
        value += value_at(desc->bias, desc->bias_type, row); /* one a row of D */
    }
    if (desc->epilogue & CUBLASLT_EPILOGUE_RELU) {
        value = value > 0 ? value : 0;
    }
    if (desc->epilogue & CUBLASLT_EPILOGUE_GELU) {
        value =
            0.5F * value * (1 + tanhf(0.7978845608F * (value + 0.044715F * value * value * value)));
    }
    return value;
}

static void compute(const struct fake_desc *desc, const void *a, const void *b, const void *c,
                    void *d, int64_t sum)
{
    for (int64_t batch = 0; batch < state.d.batch; batch++) {
        for (int64_t col = 0; col < (int64_t)state.d.cols; col++) {
            for (int64_t row = 0; row < (int64_t)state.d.rows; row++) {
                float value = 0;
                for (int64_t k = 0; k < sum; k++) {
                    value += value_at(a, (int)state.a.type,
                                      place(&state.a, desc->transa, batch, row, k)) *
                             value_at(b, (int)state.b.type,
                                      place(&state.b, desc->transb, batch, k, col));
                }
                value *= state.alpha;
                if (state.beta != 0) {
                    value += state.beta * value_at(c, (int)state.c.type,
                                                   place(&state.c, CUBLAS_OP_N, batch, row, col));
                }
                put_at(d, (int)state.d.type, place(&state.d, CUBLAS_OP_N, batch, row, col),
                       finish_value(desc, value, row));
            }
        }
    }
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha,
                              const void *a, cublasLtMatrixLayout_t a_layout, const void *b,
                              cublasLtMatrixLayout_t b_layout, const void *beta, const void *c,
                              cublasLtMatrixLayout_t c_layout, void *d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t *algo,
                              void *workspace, size_t workspace_bytes, cudaStream_t stream)
{
    cublasStatus_t status = enter(FAKE_MATMUL);
    if (status != CUBLAS_STATUS_SUCCESS || !handle) {
        return handle ? status : CUBLAS_STATUS_NOT_INITIALIZED;
    }
    memcpy(&state.desc, desc, sizeof state.desc);
    memcpy(&state.a, a_layout, sizeof state.a);
    memcpy(&state.b, b_layout, sizeof state.b);
    memcpy(&state.c, c_layout, sizeof state.c);
    memcpy(&state.d, d_layout, sizeof state.d);
    memcpy(&state.alpha, alpha, 4);
    memcpy(&state.beta, beta, 4);
    const struct fake_desc *own = &state.desc;
    uint64_t rows = own->transa == CUBLAS_OP_N ? state.a.rows : state.a.cols;
    uint64_t sum = own->transa == CUBLAS_OP_N ? state.a.cols : state.a.rows;
    uint64_t sum_b = own->transb == CUBLAS_OP_N ? state.b.rows : state.b.cols;
    uint64_t cols = own->transb == CUBLAS_OP_N ? state.b.cols : state.b.rows;
    bool good = own->compute == CUBLAS_COMPUTE_32F && own->scale == CUDA_R_32F &&
                layout_good(&state.a, &state.d) && layout_good(&state.b, &state.d) &&
                layout_good(&state.c, &state.d) && layout_good(&state.d, &state.d) &&
                sum == sum_b && rows == state.d.rows && cols == state.d.cols &&
                rows == state.c.rows && cols == state.c.cols &&
                aligned(a, state.preference.align_a) && aligned(b, state.preference.align_b) &&
                aligned(c, state.preference.align_c) && aligned(d, state.preference.align_d) &&
                workspace_bytes >= state.offers[algo->data[0]].workspace &&
                (!(own->epilogue & CUBLASLT_EPILOGUE_BIAS) || (own->bias && own->bias_type >= 0));
    if (!good) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    state.matmuls++;
    state.algo = algo->data[0];
    state.c_address = c;
    state.d_address = d;
    state.workspace = workspace;
    state.workspace_bytes = workspace_bytes;
    state.stream = stream;
    compute(own, a, b, c, d, (int64_t)sum);
    return CUBLAS_STATUS_SUCCESS;
}
