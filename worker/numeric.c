/* Elements as doubles: see numeric.h. */
#include "worker/numeric.h"

#include <math.h>
#include <string.h>

/* Shape of a small float: significant bits with the hidden one, exponent of the smallest normal,
 * bias. */
struct float_form {
    int digits, exponent_min, bias;
    uint32_t sign_bit;
    double largest;
    bool has_infinity;
};

static const struct float_form form_bf16 = {8, -126, 127, 0x8000, 0x1.fep127, true};
static const struct float_form form_f16 = {11, -14, 15, 0x8000, 65504.0, true};
static const struct float_form form_e4m3 = {4, -6, 7, 0x80, 448.0, false};

static const struct float_form *form_of(enum gk_dtype dtype)
{
    return dtype == GK_BF16 ? &form_bf16 : dtype == GK_F16 ? &form_f16 : &form_e4m3;
}

static uint32_t encode(const struct float_form *form, double value)
{
    const int fraction_bits = form->digits - 1;
    const uint32_t infinity = (form->sign_bit >> fraction_bits) * (1u << fraction_bits) -
                              (form->has_infinity ? 1u << fraction_bits : 0u);
    uint32_t sign = signbit(value) ? form->sign_bit : 0;
    double size = fabs(value);
    if (isnan(value)) {
        return form->sign_bit - 1; /* all ones below the sign */
    }
    int exponent = 0;
    if (size > 0 && !isinf(size)) {
        (void)frexp(size, &exponent);
        exponent--; /* size = 1.x * 2^exponent */
    }
    if (exponent < form->exponent_min) {
        exponent = form->exponent_min;
    }
    double quantum = ldexp(1.0, exponent - fraction_bits);
    double rounded = isinf(size) ? size : nearbyint(size / quantum) * quantum;
    if (rounded > form->largest) {
        return form->has_infinity ? sign | infinity : sign | (form->sign_bit - 2);
    }
    if (rounded < ldexp(1.0, form->exponent_min)) {
        return sign | (uint32_t)ldexp(rounded, fraction_bits - form->exponent_min);
    }
    (void)frexp(rounded, &exponent);
    exponent--;
    uint32_t fraction =
        (uint32_t)ldexp(rounded, fraction_bits - exponent) & ((1u << fraction_bits) - 1);
    return sign | (uint32_t)(exponent + form->bias) << fraction_bits | fraction;
}

static double decode(const struct float_form *form, uint32_t bits)
{
    const int fraction_bits = form->digits - 1;
    uint32_t size = bits & (form->sign_bit - 1);
    uint32_t fraction = size & ((1u << fraction_bits) - 1);
    int exponent = (int)(size >> fraction_bits);
    int exponent_max = (int)((form->sign_bit - 1) >> fraction_bits);
    double value = 0;
    if (form->has_infinity && exponent == exponent_max) {
        value = fraction ? NAN : INFINITY;
    } else if (!form->has_infinity && size == form->sign_bit - 1) {
        value = NAN;
    } else if (exponent == 0) {
        value = ldexp(fraction, form->exponent_min - fraction_bits);
    } else {
        value = ldexp((1u << fraction_bits) + fraction, exponent - form->bias - fraction_bits);
    }
    return bits & form->sign_bit ? -value : value;
}

bool gk_dtype_is_float(enum gk_dtype dtype)
{
    return dtype <= GK_F64;
}

double gk_element_load(enum gk_dtype dtype, const void *at)
{
    union {
        uint8_t u8;
        int8_t i8;
        uint16_t u16;
        uint32_t u32;
        int32_t i32;
        int64_t i64;
        float f32;
        double f64;
    } bits = {0};
    memcpy(&bits, at, gk_dtype_bytes(dtype));
    switch (dtype) {
    case GK_BF16:
    case GK_F16:
        return decode(form_of(dtype), bits.u16);
    case GK_E4M3:
        return decode(form_of(dtype), bits.u8);
    case GK_F32:
        return (double)bits.f32;
    case GK_F64:
        return bits.f64;
    case GK_I8:
        return bits.i8;
    case GK_I32:
        return bits.i32;
    case GK_I64:
        return (double)bits.i64;
    case GK_U8:
        return bits.u8;
    case GK_U32:
        return bits.u32;
    case GK_DTYPE_COUNT:
        break;
    }
    return NAN;
}

static int64_t to_integer(double value, double min, double max)
{
    if (isnan(value)) {
        return 0;
    }
    if (value <= min) {
        return (int64_t)min;
    }
    /* 2^63 is no int64: the largest double below it is 2^63 - 1024. */
    return value >= max ? (max >= 0x1p63 ? INT64_MAX : (int64_t)max) : (int64_t)nearbyint(value);
}

void gk_element_store(enum gk_dtype dtype, void *at, double value)
{
    uint64_t bits = 0;
    float narrow = 0;
    switch (dtype) {
    case GK_BF16:
    case GK_F16:
    case GK_E4M3:
        bits = encode(form_of(dtype), value);
        break;
    case GK_F32:
        narrow = (float)value;
        memcpy(&bits, &narrow, sizeof narrow);
        break;
    case GK_F64:
        memcpy(&bits, &value, sizeof value);
        break;
    case GK_I8:
        bits = (uint64_t)to_integer(value, -128, 127);
        break;
    case GK_I32:
        bits = (uint64_t)to_integer(value, INT32_MIN, INT32_MAX);
        break;
    case GK_I64:
        bits = (uint64_t)to_integer(value, -0x1p63, 0x1p63);
        break;
    case GK_U8:
        bits = (uint64_t)to_integer(value, 0, UINT8_MAX);
        break;
    case GK_U32:
        bits = (uint64_t)to_integer(value, 0, UINT32_MAX);
        break;
    case GK_DTYPE_COUNT:
        return;
    }
    memcpy(at, &bits, gk_dtype_bytes(dtype)); /* little-endian hosts only, as GPUs are */
}

double gk_element_round(enum gk_dtype dtype, double value)
{
    unsigned char bytes[8] = {0};
    gk_element_store(dtype, bytes, value);
    return gk_element_load(dtype, bytes);
}

void gk_element_poison(enum gk_dtype dtype, void *at)
{
    /* NVIDIA arithmetic makes 0x7fff (16 bits), 0x7fffffff, 0xfff8.. and 0x7f; e4m3 has no other
     * NaN. */
    static const uint64_t poison[GK_DTYPE_COUNT] = {
        [GK_BF16] = 0x7fd5,
        [GK_F16] = 0x7fd5,
        [GK_E4M3] = 0xff,
        [GK_F32] = 0x7fd5a5a5,
        [GK_F64] = 0x7ffd5a5a5a5a5a5a,
        [GK_I8] = 0xa5,
        [GK_I32] = 0xa5a5a5a5,
        [GK_I64] = 0xa5a5a5a5a5a5a5a5,
        [GK_U8] = 0xa5,
        [GK_U32] = 0xa5a5a5a5,
    };
    memcpy(at, &poison[dtype], gk_dtype_bytes(dtype));
}

double gk_dtype_tiny(enum gk_dtype dtype)
{
    switch (dtype) {
    case GK_BF16:
        return 0x1p-134;
    case GK_F16:
        return 0x1p-25;
    case GK_E4M3:
        return 0x1p-10;
    case GK_F32:
        return 0x1p-150;
    default:
        return 0;
    }
}

double gk_dtype_exact_max(enum gk_dtype dtype)
{
    switch (dtype) {
    case GK_BF16:
        return 0x1p8;
    case GK_F16:
        return 0x1p11;
    case GK_E4M3:
        return 0x1p4;
    case GK_F32:
        return 0x1p24;
    case GK_F64:
        return 0x1p53;
    default:
        return INFINITY;
    }
}
