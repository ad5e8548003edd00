/*
 * Rounding to and widening from narrow floating-point formats, slow and general.
 */
#include "worker/emu/emu_narrow.h"

#include <math.h>

struct emu_format emu_format_of(uint8_t type)
{
    switch (type) {
    case PTX_F16:
    case PTX_F16X2:
        return (struct emu_format){10, 5, 15, true};
    case PTX_BF16:
    case PTX_BF16X2:
        return (struct emu_format){7, 8, 127, true};
    case PTX_TF32:
        return (struct emu_format){10, 8, 127, true};
    case PTX_E4M3:
    case PTX_E4M3X2:
        return (struct emu_format){3, 4, 7, false};
    case PTX_E5M2:
    case PTX_E5M2X2:
        return (struct emu_format){2, 5, 15, true};
    default:
        return (struct emu_format){23, 8, 127, true};
    }
}

/* |x| in units of the last place, as an integer in double, rounded by mode. */
static double round_units(double units, uint8_t round, bool negative)
{
    double down = floor(units), rest = units - down;

    switch (round) {
    case PTX_RZ:
        return down;
    case PTX_RM:
        return rest > 0 && negative ? down + 1 : down;
    case PTX_RP:
        return rest > 0 && !negative ? down + 1 : down;
    case PTX_RNA:
        return rest >= 0.5 ? down + 1 : down;
    default:
        if (rest > 0.5 || (rest == 0.5 && fmod(down, 2.0) != 0.0)) {
            return down + 1;
        }
        return down;
    }
}

static uint32_t largest_finite(struct emu_format format)
{
    uint32_t all = (1u << (format.fraction_bits + format.exponent_bits)) - 1;

    return format.has_infinity ? all - (1u << format.fraction_bits) : all - 1;
}

static uint32_t overflow_bits(struct emu_format format, uint8_t round, bool negative, bool saturate)
{
    uint32_t all = (1u << (format.fraction_bits + format.exponent_bits)) - 1;
    bool stays = round == PTX_RZ || (round == PTX_RM && !negative) || (round == PTX_RP && negative);

    if (saturate || stays) {
        return largest_finite(format);
    }
    return format.has_infinity ? all & ~((1u << format.fraction_bits) - 1) : all;
}

uint32_t emu_round_narrow(double x, uint8_t type, uint8_t round, bool saturate)
{
    struct emu_format format = emu_format_of(type);
    uint32_t all = (1u << (format.fraction_bits + format.exponent_bits)) - 1;
    bool negative = signbit(x);
    uint32_t sign = (uint32_t)negative << (format.fraction_bits + format.exponent_bits), bits;
    int exponent, lowest = 1 - format.bias;
    double units;

    if (isnan(x)) {
        return all; /* the hardware's NaN: all ones without the sign */
    }
    x = fabs(x);
    if (isinf(x)) {
        return sign |
               (saturate ? largest_finite(format) : overflow_bits(format, PTX_RN, negative, false));
    }
    if (x == 0) {
        return sign;
    }
    exponent = ilogb(x);
    exponent = exponent < lowest ? lowest : exponent;
    units = round_units(ldexp(x, format.fraction_bits - exponent), round, negative);
    if (units >= ldexp(1.0, format.fraction_bits + 1)) {
        units /= 2;
        exponent++;
    }
    if (exponent > format.bias + (format.has_infinity ? 0 : 1)) {
        return sign | overflow_bits(format, round, negative, saturate);
    }
    bits = (uint32_t)units;
    if (bits >> format.fraction_bits) { /* normal: the leading one becomes the exponent */
        bits += (uint32_t)(exponent + format.bias - 1) << format.fraction_bits;
    }
    if (bits > largest_finite(format)) {
        return sign | overflow_bits(format, round, negative, saturate);
    }
    return sign | bits;
}

double emu_widen_narrow(uint32_t bits, uint8_t type)
{
    struct emu_format format = emu_format_of(type);
    uint32_t all = (1u << (format.fraction_bits + format.exponent_bits)) - 1;
    uint32_t rest = bits & all, fraction = rest & ((1u << format.fraction_bits) - 1);
    uint32_t exponent = rest >> format.fraction_bits;
    bool negative = bits >> (format.fraction_bits + format.exponent_bits) & 1;
    double x;

    if (format.has_infinity && exponent == (1u << format.exponent_bits) - 1) {
        x = fraction ? (double)NAN : (double)INFINITY;
    } else if (!format.has_infinity && rest == all) {
        x = (double)NAN;
    } else if (exponent == 0) {
        x = ldexp((double)fraction, 1 - format.bias - format.fraction_bits);
    } else {
        x = ldexp((double)(fraction | 1u << format.fraction_bits),
                  (int)exponent - format.bias - format.fraction_bits);
    }
    return negative ? -x : x;
}

double emu_add_odd(double x, double y)
{
    double sum = x + y, back = sum - x, lost = (x - (sum - back)) + (y - back);
    uint64_t bits;

    if (!isfinite(sum) || lost == 0) {
        return sum;
    }
    memcpy(&bits, &sum, sizeof(bits));
    if (!(bits & 1)) {
        /* Toward the lost part by one unit if that shortens the distance, else away: either way the
         * last bit becomes one, which says "not exact" to the next rounding. */
        bits = (lost > 0) == (sum > 0) ? bits + 1 : bits - 1;
        memcpy(&sum, &bits, sizeof(sum));
    }
    return sum;
}
