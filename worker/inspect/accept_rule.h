/*
 * When an output element is accepted: the only text of the rule. The host reads it in verify.c, the
 * inspector's kernels in inspect.cu, so the two cannot drift apart.
 *
 * Written in what C17 and CUDA C++ without a standard library have in common: no library function,
 * no isnan(). Every operation rounds once: compilers must not fuse a product with a sum (NVRTC:
 * -fmad=false; host: -ffp-contract=off), or the bound would depend on who asks.
 */
#ifndef GK_WORKER_INSPECT_ACCEPT_RULE_H
#define GK_WORKER_INSPECT_ACCEPT_RULE_H

#ifdef __CUDACC__
#define GK_ACCEPT          static __device__ __forceinline__
#define GK_ACCEPT_INFINITY __longlong_as_double(0x7ff0000000000000)
#else
#include <stdbool.h>
#define GK_ACCEPT          static inline
#define GK_ACCEPT_INFINITY __builtin_inf()
#endif

/* Of one output tensor. */
struct gk_accept_rule {
    double roundoff, scale, tiny; /* the bound: roundoff*|want| + scale*magnitude + tiny */
    double exact_max;             /* the type holds every integer up to it */
    int is_float;
    int exact;           /* bit for bit with the value rounded once; integers always are */
    int check_magnitude; /* magnitudes beyond exact_max are counted */
};

/* What an element holds. */
struct gk_accept_element {
    double got, want, magnitude;
    double rounded; /* want as the type would hold it */
    bool same_bits; /* got's bits are those of rounded */
    bool is_poison; /* got's bits are those that were there before the run */
};

struct gk_judgement {
    double error, bound;
    double norm_error; /* what the norms add up: the error but for half the smallest step of the
                          type, which no result can avoid where all are subnormal */
    double excess; /* error / bound, the error itself where no error is allowed; NaN counts as
                      infinite */
    bool good;
    bool nonfinite; /* finite where the reference is not, or the other way round */
    bool poisoned;  /* not good, and never written as it seems */
    bool summed;    /* takes part in the norms */
    bool too_large;
};

GK_ACCEPT double gk_accept_size(double x)
{
    return x < 0 ? -x : x;
}

GK_ACCEPT bool gk_accept_nan(double x)
{
    return x != x;
}

GK_ACCEPT bool gk_accept_finite(double x)
{
    return x - x == 0; /* infinity and NaN give NaN */
}

GK_ACCEPT bool gk_accept_infinite(double x)
{
    return !gk_accept_nan(x) && !gk_accept_finite(x);
}

/* Accepts by error <= bound and never rejects by error > bound, so that NaN fails. */
GK_ACCEPT struct gk_judgement gk_accept_judge(const struct gk_accept_rule *rule,
                                              const struct gk_accept_element *element)
{
    struct gk_judgement it;
    const double got = element->got, want = element->want, rounded = element->rounded;
    it.error = gk_accept_size(got - want);
    it.norm_error = it.error > rule->tiny ? it.error - rule->tiny : 0;
    it.bound = 0;
    if (gk_accept_nan(want) || gk_accept_infinite(rounded)) {
        it.good = gk_accept_nan(rounded) ? gk_accept_nan(got) : got == rounded;
    } else if (rule->exact || !rule->is_float) {
        /* -0 is 0 */
        it.good = element->same_bits || (rule->is_float && got == rounded);
    } else {
        it.bound =
            rule->roundoff * gk_accept_size(want) + rule->scale * element->magnitude + rule->tiny;
        it.good = it.error <= it.bound;
    }
    it.excess = it.bound > 0 ? it.error / it.bound : it.error;
    if (gk_accept_nan(it.excess)) {
        it.excess = GK_ACCEPT_INFINITY;
    }
    it.nonfinite = !it.good && gk_accept_finite(got) != gk_accept_finite(rounded);
    it.poisoned = !it.good && element->is_poison;
    it.summed = gk_accept_finite(got) && gk_accept_finite(want);
    it.too_large = rule->check_magnitude && !(element->magnitude <= rule->exact_max);
    return it;
}

#endif
