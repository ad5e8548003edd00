/*
 * The judge: statistics over samples, tie sets, the pick. Pure.
 *
 * A final round gives, per pass, one paired sample of each finalist. The ratio of a candidate to
 * the best is judged by a bootstrap interval over passes from a seeded generator. Noise floor: the
 * half-width of the ratio of two copies of one config in the same round, or how far that ratio
 * stands off 1 where that is more: copies that differ steadily show what cannot be told apart here.
 * Tie set: all whose interval reaches within max(noise floor, GK_TIE_MARGIN) of the best.
 */
#ifndef GK_SEARCH_JUDGE_H
#define GK_SEARCH_JUDGE_H

#include "core/prng.h"
#include "core/status.h"

#define GK_FINALISTS_MAX       32
#define GK_PASSES_MAX          256
#define GK_TIE_MARGIN          0.005 /* docs/DESIGN.md section 8: half a percent */
#define GK_BOOTSTRAP_ROUNDS    1000
#define GK_PASSES_MEASURED_MIN 3 /* fewer settle nothing on a measured device */
/* Floors where the copies cannot tell one on a measured device: too few passes, no copies. */
#define GK_FLOOR_FEW_PASSES 0.05
#define GK_FLOOR_NO_COPIES  0.02

void gk_sort(double *values, uint32_t count);     /* rising; no NaN */
double gk_median(double *values, uint32_t count); /* sorts values; count > 0 */

struct gk_round_entry {
    bool dropped; /* failed in the round */
    uint32_t pass_count;
    double pass_ns[GK_PASSES_MAX]; /* i-th pass; entries are paired by pass */
    int32_t twin; /* index of the entry that is a second copy of this config, or -1 */
    /* for the pick */
    bool is_incumbent, is_default, is_vendor; /* the vendor's row is never picked */
    uint64_t resource_rank; /* fewest resources first: registers * threads + shared memory, by the
                               caller */
    uint32_t order;         /* declared order: the space's index */
};

struct gk_round_verdict_entry {
    double median_ns;
    double ratio;     /* to the best: >= 1 for the best's equals and worse */
    double low, high; /* 95 % bootstrap interval of the ratio */
    bool tied;        /* in the tie set */
    /* Of tied entries: faster than the default (the incumbent) by more than the margin, the whole
     * interval; true where there is none to beat, false while that one is tied itself. */
    bool beats_default, beats_incumbent;
    /* Of tied entries: the vendor's time over this one's, above 1 where this one is faster, with
     * its interval; 0 without a vendor. */
    double of_vendor, of_vendor_low, of_vendor_high;
};

struct gk_round_verdict {
    uint32_t best;      /* index of the entry with the smallest median */
    double noise_floor; /* of the copies' ratio, or the GPUs' spread if that is more; 0 when every
                           sample is equal and no spread is known */
    double margin;      /* max(noise floor, GK_TIE_MARGIN) */
    uint32_t tie_count;
    struct gk_round_verdict_entry entries[GK_FINALISTS_MAX];
    bool settled; /* more passes would not change the tie set: intervals have parted or are inside
                     the margin */
};

/* measured: samples have noise, so few passes settle nothing and a floor is assumed where the
 * copies tell none; false: times of a model. spread: how far GPUs of one key stand apart, half of
 * it, as a part of the time (0: not known): no noise floor is below it. GK_NO_PICK when every entry
 * is dropped. */
enum gk_status gk_judge_round(const struct gk_round_entry *entries, uint32_t count, uint64_t seed,
                              bool measured, double spread, struct gk_round_verdict *verdict_out,
                              struct gk_err *err);

/* The pick inside the tie set by the fixed rule: the incumbent; else the default; else the config
 * in most tie sets of the same group (popularity[i], computed by the caller once all are known);
 * else fewest resources; else first in declared order. Never slower: where the incumbent (the
 * default) is not tied, only what beats it beyond the margin may replace it; the best always
 * does. */
uint32_t gk_judge_pick(const struct gk_round_entry *entries, const struct gk_round_verdict *verdict,
                       uint32_t count, const uint32_t *popularity, const char **reason_out);

/* Finalists from a search, best first: ok results within `within` (1.05) of the best, at least
 * `least` where there are so many, at most `most`. Times that are no positive number do not count.
 * chosen_out holds `most`. */
uint32_t gk_judge_finalists(const double *time_ns, const uint32_t *order, uint32_t count,
                            uint32_t least, uint32_t most, double within, uint32_t *chosen_out);

#endif
