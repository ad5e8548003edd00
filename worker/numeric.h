/*
 * Elements of every dtype as doubles and back, rounded once to nearest, ties to even.
 *
 * The one place where the host side of the worker turns numbers into element bits. Pure, no libm
 * beyond exact operations (ldexp, frexp, nearbyint under the default rounding mode), so that inputs
 * are the same bits on every host.
 */
#ifndef GK_WORKER_NUMERIC_H
#define GK_WORKER_NUMERIC_H

#include "kernels/catalog.h"

/* The element at `at` (any alignment). I64 beyond 2^53 loses low bits: integer outputs are compared
 * as bytes, never through this. */
double gk_element_load(enum gk_dtype dtype, const void *at);
/* Rounds once. bf16, f16, f32 overflow to infinity, e4m3 (which has none) to its largest, 448, as
 * cvt.satfinite does; integers saturate, NaN becomes 0. */
void gk_element_store(enum gk_dtype dtype, void *at, double value);
/* The value that an element of this type would hold. */
double gk_element_round(enum gk_dtype dtype, double value);
/* A quiet NaN with a payload that arithmetic does not make (poison of outputs), for integers 0xA5
 * bytes; gk_dtype_bytes() bytes are written. */
void gk_element_poison(enum gk_dtype dtype, void *at);
bool gk_dtype_is_float(enum gk_dtype dtype);
/* Half of the smallest subnormal: what rounding may lose near zero. 0 for integers. */
double gk_dtype_tiny(enum gk_dtype dtype);
/* Largest n with every integer in [-n, n] held exactly (2^8 for bf16); infinity for integers. */
double gk_dtype_exact_max(enum gk_dtype dtype);

#endif
