/*
 * Conversions that kernels are full of, as vector loops. All others are in emu_exec_slow_cvt.c,
 * behind these in the table. Compiled once an instruction set.
 */
#include "worker/emu/emu_exec.h"
#include "worker/emu/emu_narrow.h"

EMU_OP1(cvt_16_32, uint16_t, uint32_t, x)
EMU_OP1(cvt_16_64, uint16_t, uint64_t, x)
EMU_OP1(cvt_32_u16, uint32_t, uint16_t, x)
EMU_OP1(cvt_32_s16, int32_t, int16_t, x)
EMU_OP1(cvt_32_64, uint32_t, uint64_t, x)
EMU_OP1(cvt_64_u32, uint64_t, uint32_t, x)
EMU_OP1(cvt_64_s32, int64_t, int32_t, x)
EMU_OP1(cvt_64_u16, uint64_t, uint16_t, x)
EMU_OP1(cvt_64_s16, int64_t, int16_t, x)

EMU_OP1(cvt_f32_s32, float, int32_t, x)
EMU_OP1(cvt_f32_u32, float, uint32_t, x)
EMU_OP1(cvt_f64_s32, double, int32_t, x)
EMU_OP1(cvt_f64_u32, double, uint32_t, x)
EMU_OP1(cvt_f64_f32, double, float, x)

static inline float canonical(float x)
{
    return x != x ? emu_float_of(0x7fffffffu) : x;
}

EMU_OP1(cvt_f32_f64, float, double, canonical((float)x))

/* Float to integer: clamp first, so that the host's conversion is always defined; NaN gives 0. */
EMU_OP1(cvt_s32_f32_rzi, int32_t, float,
        x >= 0x1p31f   ? INT32_MAX
        : x > -0x1p31f ? (int32_t)x
        : x != x       ? 0
                       : INT32_MIN)

EMU_OP1(cvt_f32_f16, float, uint16_t, emu_float_of_half(x))
EMU_OP1(cvt_f32_bf16, float, uint16_t, emu_float_of((uint32_t)x << 16)) /* NaN bits too */
EMU_OP1(cvt_f16_f32, uint16_t, float, emu_half_of_float(x))
EMU_OP1(cvt_bf16_f32, uint16_t, float, emu_bf16_of_float(x))
EMU_OP2(cvt_bf16x2_f32, uint32_t, float,
        (uint32_t)emu_bf16_of_float(x) << 16 | emu_bf16_of_float(y))
EMU_OP2(cvt_f16x2_f32, uint32_t, float, (uint32_t)emu_half_of_float(x) << 16 | emu_half_of_float(y))

#define INT EMU_CLASS_INT
#define FMA EMU_CLASS_FMA
#define F64 EMU_CLASS_FP64

static const struct ptx_row ROWS[] = {
    {"cvt[.u16|.s16][.u32|.s32]", "Dh Sw", cvt_16_32, INT, 0},
    {"cvt[.u16|.s16][.u64|.s64]", "Dh Sd", cvt_16_64, INT, 0},
    {"cvt[.u32|.s32].u16", "Dw Sh", cvt_32_u16, INT, 0},
    {"cvt[.u32|.s32].s16", "Dw Sh", cvt_32_s16, INT, 0},
    {"cvt[.u32|.s32][.u64|.s64]", "Dw Sd", cvt_32_64, INT, 0},
    {"cvt[.u64|.s64].u32", "Dd Sw", cvt_64_u32, INT, 0},
    {"cvt[.u64|.s64].s32", "Dd Sw", cvt_64_s32, INT, 0},
    {"cvt[.u64|.s64].u16", "Dd Sh", cvt_64_u16, INT, 0},
    {"cvt[.u64|.s64].s16", "Dd Sh", cvt_64_s16, INT, 0},
    {"cvt.rn.f32.s32", "Dw Sw", cvt_f32_s32, FMA, 0},
    {"cvt.rn.f32.u32", "Dw Sw", cvt_f32_u32, FMA, 0},
    {"cvt.rn.f64.s32", "Dd Sw", cvt_f64_s32, F64, 0},
    {"cvt.rn.f64.u32", "Dd Sw", cvt_f64_u32, F64, 0},
    {"cvt.f64.f32", "Dd Sw", cvt_f64_f32, F64, 0},
    {"cvt.rn.f32.f64", "Dw Sd", cvt_f32_f64, F64, 0},
    {"cvt.rzi.s32.f32", "Dw Sw", cvt_s32_f32_rzi, FMA, 0},
    {"cvt.f32.f16", "Dw Sh", cvt_f32_f16, FMA, 0},
    {"cvt.f32.bf16", "Dw Sh", cvt_f32_bf16, FMA, 0},
    {"cvt.rn.f16.f32", "Dh Sw", cvt_f16_f32, FMA, 0},
    {"cvt.rn.bf16.f32", "Dh Sw", cvt_bf16_f32, FMA, 0},
    {"cvt.rn.bf16x2.f32", "Dw Sw Sw", cvt_bf16x2_f32, FMA, 0},
    {"cvt.rn.f16x2.f32", "Dw Sw Sw", cvt_f16x2_f32, FMA, 0},
};

EMU_ROWS_FUNCTION(EMU_ISA_NAME(emu_rows_cvt), ROWS)
