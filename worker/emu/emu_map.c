/*
 * Tensor maps: the hardware's rules, and a layout of our own in the 128 bytes.
 */
#include "worker/emu/ptx_table.h"

#include <inttypes.h>
#include <string.h>

#define DIM_MAX    (UINT64_C(1) << 32)
#define STRIDE_END (UINT64_C(1) << 40)
#define BOX_MAX    256u
#define STEP_MAX   8u

static uint8_t type_of(enum gk_emu_element element, bool *is_float_out)
{
    static const uint8_t TYPES[] = {PTX_U8,  PTX_U16, PTX_U32,  PTX_S32, PTX_U64,
                                    PTX_F16, PTX_F32, PTX_BF16, PTX_F64};

    *is_float_out = element >= GK_EMU_ELEMENT_F16;
    return (size_t)element < GK_ARRAY_COUNT(TYPES) ? TYPES[element] : (uint8_t)PTX_NONE;
}

static enum gk_status check_dimension(const struct gk_emu_map *map, uint32_t i, struct gk_err *err)
{
    if (map->dims[i] < 1 || map->dims[i] > DIM_MAX) {
        return gk_fail(err, GK_INPUT,
                       "tensor map: dimension %" PRIu32 " has %" PRIu64
                       " elements, 1 to 2^32 are allowed",
                       i, map->dims[i]);
    }
    if (i && (map->strides[i] % 16 || map->strides[i] >= STRIDE_END)) {
        return gk_fail(err, GK_INPUT,
                       "tensor map: dimension %" PRIu32 " has a stride of %" PRIu64
                       " bytes, multiples of 16 below 2^40 are allowed",
                       i, map->strides[i]);
    }
    if (map->box[i] < 1 || map->box[i] > BOX_MAX) {
        return gk_fail(err, GK_INPUT,
                       "tensor map: dimension %" PRIu32 " has a box of %" PRIu32
                       " elements, 1 to %u are allowed",
                       i, map->box[i], BOX_MAX);
    }
    if (map->element_strides[i] < 1 || map->element_strides[i] > STEP_MAX) {
        return gk_fail(err, GK_INPUT,
                       "tensor map: dimension %" PRIu32 " has an element stride of %" PRIu32
                       ", 1 to %u are allowed",
                       i, map->element_strides[i], STEP_MAX);
    }
    return GK_OK;
}

static enum gk_status check(const struct gk_emu_map *map, uint32_t size, bool is_float,
                            struct gk_err *err)
{
    enum gk_status status = GK_OK;
    uint64_t inner;

    if (map->rank < 1 || map->rank > 5) {
        return gk_fail(err, GK_INPUT, "tensor map: rank %" PRIu32 ", 1 to 5 are allowed",
                       map->rank);
    }
    if (!map->address || map->address % 16) {
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
    inner = (uint64_t)map->box[0] * size;
    if (inner % 16) {
        return gk_fail(
            err, GK_INPUT,
            "tensor map: the inner box has %" PRIu64 " bytes, multiples of 16 are allowed", inner);
    }
    if (map->swizzle != 0 && map->swizzle != 32 && map->swizzle != 64 && map->swizzle != 128) {
        return gk_fail(err, GK_INPUT,
                       "tensor map: a swizzle of %" PRIu32 " bytes, 0, 32, 64, 128 are allowed",
                       map->swizzle);
    }
    if (map->swizzle && inner > map->swizzle) {
        return gk_fail(err, GK_INPUT,
                       "tensor map: the inner box has %" PRIu64 " bytes, more than the %" PRIu32
                       " that the swizzle spans",
                       inner, map->swizzle);
    }
    if (map->fill_nan && !is_float) {
        return gk_fail(err, GK_INPUT, "tensor map: integers have no NaN to fill with");
    }
    return GK_OK;
}

enum gk_status gk_emu_map_encode(const struct gk_emu *emu, const struct gk_emu_map *map,
                                 unsigned char bytes_out[128], struct gk_err *err)
{
    bool is_float = false;
    uint8_t type = type_of(map->element, &is_float);
    struct emu_map out = {.magic = EMU_MAP_MAGIC, .address = map->address, .type = type};
    enum gk_status status;

    _Static_assert(sizeof(out) <= 128, "a tensor map is 128 bytes");
    if (emu->props.sm_major < 9) {
        return gk_fail(err, GK_UNSUPPORTED, "tensor map: %s has none, sm_90 is the first",
                       emu->props.target);
    }
    if (!type) {
        return gk_fail(err, GK_INPUT, "tensor map: element type %d is unknown", (int)map->element);
    }
    status = check(map, ptx_type_bytes(type), is_float, err);
    if (status != GK_OK) {
        return status;
    }
    out.rank = (uint8_t)map->rank;
    out.swizzle = (uint8_t)map->swizzle;
    out.fill_nan = map->fill_nan;
    for (uint32_t i = 0; i < map->rank; i++) {
        out.strides[i] = i ? map->strides[i] : ptx_type_bytes(type);
        out.last[i] = (uint32_t)(map->dims[i] - 1);
        out.box[i] = (uint16_t)map->box[i];
        out.steps[i] = (uint8_t)map->element_strides[i];
    }
    memset(bytes_out, 0, 128);
    memcpy(bytes_out, &out, sizeof(out));
    return GK_OK;
}
