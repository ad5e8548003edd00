/*
 * Tensor maps: the hardware's rules by name, then the driver's encoder, which alone knows the
 * layout of the 128 bytes and says no more than "invalid value" when a rule is broken.
 */
#include <inttypes.h>
#include <string.h>

#include "worker/cuda/cuda_inside.h"

#define DIM_MAX    (UINT64_C(1) << 32)
#define STRIDE_END (UINT64_C(1) << 40)
#define BOX_MAX    256u
#define STEP_MAX   8u

static bool type_of(enum gk_dtype dtype, CUtensorMapDataType *type_out)
{
    switch (dtype) {
    case GK_BF16:
        *type_out = CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
        return true;
    case GK_F16:
        *type_out = CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
        return true;
    case GK_F32:
        *type_out = CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
        return true;
    case GK_F64:
        *type_out = CU_TENSOR_MAP_DATA_TYPE_FLOAT64;
        return true;
    case GK_E4M3: /* bytes to a copy */
    case GK_I8:
    case GK_U8:
        *type_out = CU_TENSOR_MAP_DATA_TYPE_UINT8;
        return true;
    case GK_I32:
        *type_out = CU_TENSOR_MAP_DATA_TYPE_INT32;
        return true;
    case GK_U32:
        *type_out = CU_TENSOR_MAP_DATA_TYPE_UINT32;
        return true;
    case GK_I64:
        *type_out = CU_TENSOR_MAP_DATA_TYPE_INT64;
        return true;
    case GK_DTYPE_COUNT:
        break;
    }
    return false;
}

static bool swizzle_of(uint32_t bytes, CUtensorMapSwizzle *swizzle_out)
{
    switch (bytes) {
    case 0:
        *swizzle_out = CU_TENSOR_MAP_SWIZZLE_NONE;
        return true;
    case 32:
        *swizzle_out = CU_TENSOR_MAP_SWIZZLE_32B;
        return true;
    case 64:
        *swizzle_out = CU_TENSOR_MAP_SWIZZLE_64B;
        return true;
    case 128:
        *swizzle_out = CU_TENSOR_MAP_SWIZZLE_128B;
        return true;
    default:
        return false;
    }
}

static bool promotion_of(uint32_t bytes, CUtensorMapL2promotion *promotion_out)
{
    switch (bytes) {
    case 0:
        *promotion_out = CU_TENSOR_MAP_L2_PROMOTION_NONE;
        return true;
    case 64:
        *promotion_out = CU_TENSOR_MAP_L2_PROMOTION_L2_64B;
        return true;
    case 128:
        *promotion_out = CU_TENSOR_MAP_L2_PROMOTION_L2_128B;
        return true;
    case 256:
        *promotion_out = CU_TENSOR_MAP_L2_PROMOTION_L2_256B;
        return true;
    default:
        return false;
    }
}

static enum gk_status check_dimension(const struct gk_device_map *map, uint32_t i,
                                      struct gk_err *err)
{
    if (map->dims[i] < 1 || map->dims[i] > DIM_MAX) {
        return gk_fail(err, GK_INPUT,
                       "tensor map: dimension %" PRIu32 " has %" PRIu64
                       " elements; 1 to 2^32 are allowed",
                       i, map->dims[i]);
    }
    if (i > 0 && (map->strides[i] % 16 != 0 || map->strides[i] >= STRIDE_END)) {
        return gk_fail(err, GK_INPUT,
                       "tensor map: dimension %" PRIu32 " has a stride of %" PRIu64
                       " bytes; multiples of 16 below 2^40 are allowed",
                       i, map->strides[i]);
    }
    if (map->box[i] < 1 || map->box[i] > BOX_MAX) {
        return gk_fail(err, GK_INPUT,
                       "tensor map: dimension %" PRIu32 " has a box of %" PRIu32
                       " elements; 1 to %u are allowed",
                       i, map->box[i], BOX_MAX);
    }
    if (map->element_strides[i] < 1 || map->element_strides[i] > STEP_MAX) {
        return gk_fail(err, GK_INPUT,
                       "tensor map: dimension %" PRIu32 " has an element stride of %" PRIu32
                       "; 1 to %u are allowed",
                       i, map->element_strides[i], STEP_MAX);
    }
    return GK_OK;
}

static enum gk_status check_rules(const struct gk_device_map *map, struct gk_err *err)
{
    enum gk_status status = GK_OK;
    if (map->rank < 1 || map->rank > 5) {
        return gk_fail(err, GK_INPUT, "tensor map: rank %" PRIu32 "; 1 to 5 are allowed",
                       map->rank);
    }
    if (map->address % 16 != 0 || map->address == 0) {
        return gk_fail(err, GK_INPUT,
                       "tensor map: address 0x%" PRIx64 " is not a multiple of 16 bytes",
                       map->address);
    }
    for (uint32_t i = 0; i < map->rank && status == GK_OK; i++) {
        status = check_dimension(map, i, err);
    }
    if (status != GK_OK) {
        return status;
    }
    uint32_t inner = map->box[0] * gk_dtype_bytes(map->dtype);
    if (inner % 16 != 0) {
        return gk_fail(
            err, GK_INPUT,
            "tensor map: the inner box has %" PRIu32 " bytes; multiples of 16 are allowed", inner);
    }
    if (map->swizzle != 0 && inner > map->swizzle) {
        return gk_fail(err, GK_INPUT,
                       "tensor map: the inner box has %" PRIu32 " bytes, more than the %" PRIu32
                       " that the swizzle spans",
                       inner, map->swizzle);
    }
    return GK_OK;
}

enum gk_status cuda_encode(struct gk_device *base, const struct gk_device_map *map,
                           unsigned char bytes_out[128], struct gk_err *err)
{
    struct cuda_device *device = cuda_of(base);
    CUtensorMap encoded;
    CUtensorMapDataType type;
    CUtensorMapSwizzle swizzle;
    CUtensorMapL2promotion promotion;
    cuuint64_t strides[5] = {0};
    cuuint64_t dims[5] = {0};
    enum gk_status status = cuda_ready(device, "encode", err);
    if (status == GK_OK && base->props.sm < 90) {
        return gk_fail(err, GK_UNSUPPORTED, "tensor map: device %s (%s) has none: 9.0 is the first",
                       base->props.device, base->props.target);
    }
    if (status == GK_OK && !type_of(map->dtype, &type)) {
        return gk_fail(err, GK_INPUT, "tensor map: element type %d is unknown", (int)map->dtype);
    }
    if (status == GK_OK && !swizzle_of(map->swizzle, &swizzle)) {
        return gk_fail(err, GK_INPUT,
                       "tensor map: a swizzle of %" PRIu32 " bytes; 0, 32, 64, 128 are allowed",
                       map->swizzle);
    }
    if (status == GK_OK && !promotion_of(map->l2_promotion, &promotion)) {
        return gk_fail(err, GK_INPUT,
                       "tensor map: an L2 promotion of %" PRIu32
                       " bytes; 0, 64, 128, 256 are allowed",
                       map->l2_promotion);
    }
    if (status == GK_OK && map->fill_nan && gk_dtype_roundoff(map->dtype) <= 0) {
        return gk_fail(err, GK_INPUT, "tensor map: %s has no NaN to fill with",
                       gk_dtype_name(map->dtype));
    }
    status = status == GK_OK ? check_rules(map, err) : status;
    if (status != GK_OK) {
        return status;
    }
    for (uint32_t i = 0; i < map->rank; i++) {
        dims[i] = map->dims[i];
        if (i > 0) {
            strides[i - 1] = map->strides[i]; /* the driver's list leaves out the innermost */
        }
    }
    CUresult result = device->driver->tensor_map(
        &encoded, type, map->rank, (void *)(uintptr_t)map->address, dims, strides, map->box,
        map->element_strides, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, promotion,
        map->fill_nan ? CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA
                      : CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (result != CUDA_SUCCESS) {
        return cuda_result(device, result, "cuTensorMapEncodeTiled", err,
                           "tensor map of rank %" PRIu32 " at 0x%" PRIx64, map->rank, map->address);
    }
    _Static_assert(sizeof encoded == 128, "a tensor map is 128 bytes");
    memcpy(bytes_out, &encoded, sizeof encoded);
    return GK_OK;
}
