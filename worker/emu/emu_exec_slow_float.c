/*
 * f32 and f64 arithmetic in the rounding modes that are not round-to-nearest: the host's own
 * rounding mode is switched around a plain loop. Built with -frounding-math.
 */
#include "worker/emu/emu_exec.h"

#include <fenv.h>
#include <math.h>
#include <string.h>

enum slow_op { SLOW_ADD, SLOW_SUB, SLOW_MUL, SLOW_FMA, SLOW_DIV, SLOW_RCP, SLOW_SQRT };

static int host_mode(uint8_t round)
{
    switch (round) {
    case PTX_RZ:
        return FE_TOWARDZERO;
    case PTX_RM:
        return FE_DOWNWARD;
    case PTX_RP:
        return FE_UPWARD;
    default:
        return FE_TONEAREST;
    }
}

static float flush_32(float x)
{
    return fpclassify(x) == FP_SUBNORMAL ? copysignf(0.0f, x) : x;
}

static float compute_32(enum slow_op op, float x, float y, float z)
{
    switch (op) {
    case SLOW_ADD:
        return x + y;
    case SLOW_SUB:
        return x - y;
    case SLOW_MUL:
        return x * y;
    case SLOW_FMA:
        return fmaf(x, y, z);
    case SLOW_DIV:
        return x / y;
    case SLOW_RCP:
        return 1.0f / x;
    default:
        return sqrtf(x);
    }
}

static double compute_64(enum slow_op op, double x, double y, double z)
{
    switch (op) {
    case SLOW_ADD:
        return x + y;
    case SLOW_SUB:
        return x - y;
    case SLOW_MUL:
        return x * y;
    case SLOW_FMA:
        return fma(x, y, z);
    case SLOW_DIV:
        return x / y;
    case SLOW_RCP:
        return 1.0 / x;
    default:
        return sqrt(x);
    }
}

static int slow_f32(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)
{
    float *d = emu_operand(warp, insn, 0);
    const float *a = emu_operand(warp, insn, 1);
    const float *b = emu_operand(warp, insn, insn->op_count > 2 ? 2 : 1);
    const float *c = emu_operand(warp, insn, insn->op_count > 3 ? 3 : 1);
    bool flush = insn->mods & PTX_M_FTZ;
    int before = fegetround();

    (void)fesetround(host_mode(insn->round));
    for (uint32_t left = mask; left; left &= left - 1) {
        unsigned l = (unsigned)__builtin_ctz(left);
        float x = flush ? flush_32(a[l]) : a[l], y = flush ? flush_32(b[l]) : b[l];
        float out = compute_32((enum slow_op)insn->sub, x, y, flush ? flush_32(c[l]) : c[l]);

        out = flush ? flush_32(out) : out;
        if (insn->mods & PTX_M_SAT) {
            out = out >= 1.0f ? 1.0f : out > 0.0f ? out : 0.0f;
        }
        if (isnan(out)) {
            const uint32_t nan = 0x7fffffffu;

            memcpy(&out, &nan, sizeof(out));
        }
        d[l] = out;
    }
    (void)fesetround(before);
    return EMU_NEXT;
}

static int slow_f64(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)
{
    double *d = emu_operand(warp, insn, 0);
    const double *a = emu_operand(warp, insn, 1);
    const double *b = emu_operand(warp, insn, insn->op_count > 2 ? 2 : 1);
    const double *c = emu_operand(warp, insn, insn->op_count > 3 ? 3 : 1);
    int before = fegetround();

    (void)fesetround(host_mode(insn->round));
    for (uint32_t left = mask; left; left &= left - 1) {
        unsigned l = (unsigned)__builtin_ctz(left);

        d[l] = compute_64((enum slow_op)insn->sub, a[l], b[l], c[l]);
    }
    (void)fesetround(before);
    return EMU_NEXT;
}

#define R "[.rz|.rm|.rp]"
static const struct ptx_row ROWS[] = {
    {"add" R "{.ftz}{.sat}.f32", "Dt St St", slow_f32, EMU_CLASS_FMA, SLOW_ADD},
    {"sub" R "{.ftz}{.sat}.f32", "Dt St St", slow_f32, EMU_CLASS_FMA, SLOW_SUB},
    {"mul" R "{.ftz}{.sat}.f32", "Dt St St", slow_f32, EMU_CLASS_FMA, SLOW_MUL},
    {"fma" R "{.ftz}{.sat}.f32", "Dt St St St", slow_f32, EMU_CLASS_FMA, SLOW_FMA},
    {"mad" R "{.ftz}{.sat}.f32", "Dt St St St", slow_f32, EMU_CLASS_FMA, SLOW_FMA},
    {"div" R "{.ftz}.f32", "Dt St St", slow_f32, EMU_CLASS_SPECIAL, SLOW_DIV},
    {"rcp" R "{.ftz}.f32", "Dt St", slow_f32, EMU_CLASS_SPECIAL, SLOW_RCP},
    {"sqrt" R "{.ftz}.f32", "Dt St", slow_f32, EMU_CLASS_SPECIAL, SLOW_SQRT},
    {"add" R ".f64", "Dt St St", slow_f64, EMU_CLASS_FP64, SLOW_ADD},
    {"sub" R ".f64", "Dt St St", slow_f64, EMU_CLASS_FP64, SLOW_SUB},
    {"mul" R ".f64", "Dt St St", slow_f64, EMU_CLASS_FP64, SLOW_MUL},
    {"fma" R ".f64", "Dt St St St", slow_f64, EMU_CLASS_FP64, SLOW_FMA},
    {"mad" R ".f64", "Dt St St St", slow_f64, EMU_CLASS_FP64, SLOW_FMA},
    {"div" R ".f64", "Dt St St", slow_f64, EMU_CLASS_FP64, SLOW_DIV},
    {"rcp" R ".f64", "Dt St", slow_f64, EMU_CLASS_FP64, SLOW_RCP},
    {"sqrt" R ".f64", "Dt St", slow_f64, EMU_CLASS_FP64, SLOW_SQRT},
};

EMU_ROWS_FUNCTION(emu_rows_slow_float, ROWS)
