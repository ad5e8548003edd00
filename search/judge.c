/*
 * The judge. See judge.h. Pure; any thread.
 *
 * The ratio of an entry to the best is the median of its per-pass ratios: a drift of the clock that
 * both saw cancels inside a pass, which a ratio of two medians would keep.
 */
#include "search/judge.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#define LOW_AT             (GK_BOOTSTRAP_ROUNDS / 40)         /* 2.5 % */
#define HIGH_AT            (GK_BOOTSTRAP_ROUNDS - 1 - LOW_AT) /* 97.5 % */
#define SETTLED_PASSES_MIN 4    /* a bootstrap over fewer passes is narrow for no reason */
#define NARROW             0.25 /* of the margin: an interval so narrow moves no tie set */
/* Streams of the generator: an entry against the best draws from its own index. */
#define STREAM_TWINS  1000
#define STREAM_VENDOR 2000
#define STREAM_OLD    3000

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void gk_sort(double *values, uint32_t count)
{
    qsort(values, count, sizeof values[0], compare_doubles);
}

double gk_median(double *values, uint32_t count)
{
    GK_ASSERT(count > 0);
    gk_sort(values, count);
    uint32_t half = count / 2;
    return count % 2 ? values[half] : (values[half - 1] + values[half]) / 2;
}

/* ------------------------------------------------------------------ ratios */

struct ratio {
    double middle, low, high;
    double farthest; /* of one pass from 1 */
    uint32_t passes; /* that both entries have */
};

/* Resamples passes of a / b. `stream` keeps the draws of one entry apart from those of another. */
static struct ratio paired_ratio(const struct gk_round_entry *a, const struct gk_round_entry *b,
                                 uint64_t seed, uint64_t stream)
{
    double ratios[GK_PASSES_MAX], drawn[GK_PASSES_MAX], medians[GK_BOOTSTRAP_ROUNDS];
    struct ratio ratio = {.passes = a->pass_count < b->pass_count ? a->pass_count : b->pass_count};
    bool all_equal = true;
    for (uint32_t i = 0; i < ratio.passes; i++) {
        ratios[i] = a->pass_ns[i] / b->pass_ns[i];
        ratio.farthest = fmax(ratio.farthest, fabs(ratios[i] - 1));
        all_equal = all_equal && ratios[i] == ratios[0];
    }
    if (all_equal) { /* a modelled device, or the entry itself */
        ratio.middle = ratio.low = ratio.high = ratios[0];
        return ratio;
    }
    struct gk_prng prng;
    gk_prng_init(&prng, seed, stream);
    for (uint32_t round = 0; round < GK_BOOTSTRAP_ROUNDS; round++) {
        for (uint32_t i = 0; i < ratio.passes; i++) {
            drawn[i] = ratios[gk_prng_below(&prng, ratio.passes)];
        }
        medians[round] = gk_median(drawn, ratio.passes);
    }
    gk_sort(medians, GK_BOOTSTRAP_ROUNDS);
    ratio.middle = gk_median(ratios, ratio.passes);
    ratio.low = medians[LOW_AT];
    ratio.high = medians[HIGH_AT];
    return ratio;
}

/* ------------------------------------------------------------------ a round */

/* The second copy of a config gives the noise floor and is never picked; the first stands for both.
 */
static bool is_copy(const struct gk_round_entry *entries, uint32_t at)
{
    if (entries[at].twin >= 0 && (uint32_t)entries[at].twin < at) {
        return true;
    }
    for (uint32_t i = 0; i < at; i++) {
        if (entries[i].twin == (int32_t)at) {
            return true;
        }
    }
    return false;
}

static bool is_candidate(const struct gk_round_entry *entries, uint32_t at)
{
    return !entries[at].dropped && !entries[at].is_vendor && !is_copy(entries, at);
}

static enum gk_status check_round(const struct gk_round_entry *entries, uint32_t count,
                                  struct gk_err *err)
{
    if (count > GK_FINALISTS_MAX) {
        return gk_fail(err, GK_LIMIT, "a round of %u entries; allowed: %d", count,
                       GK_FINALISTS_MAX);
    }
    for (uint32_t i = 0; i < count; i++) {
        const struct gk_round_entry *entry = &entries[i];
        if (entry->twin < -1 || entry->twin >= (int32_t)count || entry->twin == (int32_t)i) {
            return gk_fail(err, GK_INPUT, "entry %u of the round: twin %" PRId32 " of %u", i,
                           entry->twin, count);
        }
        if (entry->dropped) {
            continue;
        }
        if (entry->pass_count == 0 || entry->pass_count > GK_PASSES_MAX) {
            return gk_fail(err, GK_INPUT, "entry %u of the round has %u passes; allowed: 1 to %d",
                           i, entry->pass_count, GK_PASSES_MAX);
        }
        for (uint32_t pass = 0; pass < entry->pass_count; pass++) {
            double ns = entry->pass_ns[pass];
            if (!(ns > 0) || !isfinite(ns)) {
                return gk_fail(err, GK_INPUT, "entry %u of the round: pass %u took %g ns", i, pass,
                               ns);
            }
        }
    }
    return GK_OK;
}

static double noise_floor(const struct gk_round_entry *entries, uint32_t count, uint64_t seed,
                          bool measured)
{
    double floor = 0;
    bool told = false;
    for (uint32_t i = 0; i < count; i++) {
        int32_t twin = entries[i].twin;
        if (twin < 0 || entries[i].dropped || entries[twin].dropped) {
            continue;
        }
        struct ratio ratio = paired_ratio(&entries[i], &entries[twin], seed, STREAM_TWINS + i);
        double reach = fmax((ratio.high - ratio.low) / 2, fabs(ratio.middle - 1));
        if (ratio.passes < SETTLED_PASSES_MIN) {
            reach = ratio.farthest; /* a bootstrap of few is too narrow: take all that was seen */
        }
        if (measured && ratio.passes < GK_PASSES_MEASURED_MIN) {
            reach = fmax(reach, GK_FLOOR_FEW_PASSES);
        }
        floor = fmax(floor, reach);
        told = true;
    }
    return told || !measured ? floor : GK_FLOOR_NO_COPIES;
}

/* More passes could not move the entry across the margin: its interval is on one side, and stands
 * on enough passes or on samples without any spread. */
static bool is_settled(const struct ratio *ratio, double margin, bool measured)
{
    uint32_t least = measured ? GK_PASSES_MEASURED_MIN : 2;
    bool enough = ratio->passes >= SETTLED_PASSES_MIN ||
                  (ratio->passes >= least && ratio->low == ratio->high);
    bool narrow = ratio->high - ratio->low <= NARROW * margin;
    return enough && (ratio->low > 1 + margin || ratio->high <= 1 + margin || narrow);
}

/* Medians, and the fastest that may be picked; UINT32_MAX when nothing may. */
static uint32_t find_best(const struct gk_round_entry *entries, uint32_t count,
                          struct gk_round_verdict *verdict)
{
    uint32_t best = UINT32_MAX;
    for (uint32_t i = 0; i < count; i++) {
        double sorted[GK_PASSES_MAX];
        if (entries[i].dropped) {
            continue;
        }
        for (uint32_t pass = 0; pass < entries[i].pass_count; pass++) {
            sorted[pass] = entries[i].pass_ns[pass];
        }
        verdict->entries[i].median_ns = gk_median(sorted, entries[i].pass_count);
        if (is_candidate(entries, i) &&
            (best == UINT32_MAX ||
             verdict->entries[i].median_ns < verdict->entries[best].median_ns)) {
            best = i;
        }
    }
    return best;
}

/* Whether tied entry `at` may replace those marked by `is_old`: see beats_default. */
static bool beats(const struct gk_round_entry *entries, uint32_t count,
                  const struct gk_round_verdict *verdict, uint32_t at, uint64_t seed,
                  bool incumbent)
{
    for (uint32_t i = 0; i < count; i++) {
        bool is_old = incumbent ? entries[i].is_incumbent : entries[i].is_default;
        if (!is_old || !is_candidate(entries, i)) {
            continue;
        }
        if (verdict->entries[i].tied) {
            return false;
        }
        struct ratio ratio =
            paired_ratio(&entries[i], &entries[at], seed, STREAM_OLD + i * GK_FINALISTS_MAX + at);
        if (at != verdict->best && !(ratio.low > 1 + verdict->margin)) {
            return false;
        }
    }
    return true;
}

static void compare_tied(const struct gk_round_entry *entries, uint32_t count, uint64_t seed,
                         struct gk_round_verdict *verdict)
{
    uint32_t vendor = 0;
    while (vendor < count && !(entries[vendor].is_vendor && !entries[vendor].dropped)) {
        vendor++;
    }
    for (uint32_t i = 0; i < count; i++) {
        struct gk_round_verdict_entry *entry = &verdict->entries[i];
        if (!entry->tied) {
            continue;
        }
        entry->beats_default = beats(entries, count, verdict, i, seed, false);
        entry->beats_incumbent = beats(entries, count, verdict, i, seed, true);
        if (vendor < count) {
            struct ratio ratio =
                paired_ratio(&entries[vendor], &entries[i], seed, STREAM_VENDOR + i);
            entry->of_vendor = ratio.middle;
            entry->of_vendor_low = ratio.low;
            entry->of_vendor_high = ratio.high;
        }
    }
}

enum gk_status gk_judge_round(const struct gk_round_entry *entries, uint32_t count, uint64_t seed,
                              bool measured, double spread, struct gk_round_verdict *verdict_out,
                              struct gk_err *err)
{
    struct gk_round_verdict verdict = {.settled = true};
    enum gk_status status = check_round(entries, count, err);
    if (status != GK_OK) {
        return status;
    }
    verdict.best = find_best(entries, count, &verdict);
    if (verdict.best == UINT32_MAX) {
        return gk_fail(err, GK_NO_PICK, "none of the %u entries came through the round", count);
    }
    verdict.noise_floor = fmax(noise_floor(entries, count, seed, measured), spread);
    verdict.margin = fmax(verdict.noise_floor, GK_TIE_MARGIN);
    for (uint32_t i = 0; i < count; i++) {
        struct gk_round_verdict_entry *entry = &verdict.entries[i];
        if (entries[i].dropped) {
            continue;
        }
        struct ratio ratio = paired_ratio(&entries[i], &entries[verdict.best], seed, i);
        entry->ratio = ratio.middle;
        entry->low = ratio.low;
        entry->high = ratio.high;
        if (is_candidate(entries, i)) {
            entry->tied = ratio.low <= 1 + verdict.margin;
            verdict.tie_count += entry->tied;
            verdict.settled = verdict.settled && is_settled(&ratio, verdict.margin, measured);
        }
    }
    compare_tied(entries, count, seed, &verdict);
    *verdict_out = verdict;
    return GK_OK;
}

/* ------------------------------------------------------------------ the pick */

/* Keeps the entries with the smallest key; how many are left. */
static uint32_t keep_least(bool *in, const uint64_t *keys, uint32_t count)
{
    uint64_t least = UINT64_MAX;
    uint32_t left = 0;
    for (uint32_t i = 0; i < count; i++) {
        least = in[i] && keys[i] < least ? keys[i] : least;
    }
    for (uint32_t i = 0; i < count; i++) {
        in[i] = in[i] && keys[i] == least;
        left += in[i];
    }
    return left;
}

static bool tied_one(const struct gk_round_entry *entries, const struct gk_round_verdict *verdict,
                     uint32_t count, bool incumbent)
{
    for (uint32_t i = 0; i < count; i++) {
        if (verdict->entries[i].tied &&
            (incumbent ? entries[i].is_incumbent : entries[i].is_default)) {
            return true;
        }
    }
    return false;
}

uint32_t gk_judge_pick(const struct gk_round_entry *entries, const struct gk_round_verdict *verdict,
                       uint32_t count, const uint32_t *popularity, const char **reason_out)
{
    static const char *const reasons[] = {"incumbent", "default", "in most tie sets",
                                          "fewest resources", "first in declared order"};
    uint64_t keys[GK_ARRAY_COUNT(reasons)][GK_FINALISTS_MAX];
    bool in[GK_FINALISTS_MAX] = {0};
    uint32_t step = 0;
    bool keeps_incumbent = tied_one(entries, verdict, count, true);
    bool keeps_default = tied_one(entries, verdict, count, false);
    for (uint32_t i = 0; i < count; i++) {
        const struct gk_round_verdict_entry *entry = &verdict->entries[i];
        in[i] = entry->tied && (keeps_incumbent || entry->beats_incumbent) &&
                (keeps_default || entry->beats_default);
        keys[0][i] = !entries[i].is_incumbent;
        keys[1][i] = !entries[i].is_default;
        keys[2][i] = popularity ? UINT32_MAX - popularity[i] : 0;
        keys[3][i] = entries[i].resource_rank;
        keys[4][i] = entries[i].order;
    }
    GK_ASSERT(verdict->best < count && in[verdict->best]);
    bool alone = verdict->tie_count == 1;
    uint32_t allowed = 0;
    for (uint32_t i = 0; i < count; i++) {
        allowed += in[i];
    }
    while (step < GK_ARRAY_COUNT(reasons) && keep_least(in, keys[step], count) > 1) {
        step++;
    }
    uint32_t pick = 0;
    while (!in[pick]) {
        pick++;
    }
    step = step < GK_ARRAY_COUNT(reasons) ? step : (uint32_t)GK_ARRAY_COUNT(reasons) - 1;
    if (reason_out) {
        bool named = entries[pick].is_incumbent || entries[pick].is_default;
        *reason_out = alone && !named              ? "alone in the tie set"
                      : allowed == 1 && !named     ? "alone beats default and incumbent"
                      : entries[pick].is_incumbent ? reasons[0]
                      : entries[pick].is_default   ? reasons[1]
                                                   : reasons[step];
    }
    return pick;
}

/* ------------------------------------------------------------------ before and inside a round */

uint32_t gk_judge_finalists(const double *time_ns, const uint32_t *order, uint32_t count,
                            uint32_t least, uint32_t most, double within, uint32_t *chosen_out)
{
    uint32_t chosen = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (!(time_ns[i] > 0) || !isfinite(time_ns[i])) {
            continue;
        }
        uint32_t at = chosen; /* insertion by time, then declared order */
        while (at > 0 && (time_ns[i] < time_ns[chosen_out[at - 1]] ||
                          (time_ns[i] == time_ns[chosen_out[at - 1]] &&
                           order[i] < order[chosen_out[at - 1]]))) {
            at--;
        }
        if (at >= most) {
            continue;
        }
        chosen += chosen < most;
        for (uint32_t k = chosen - 1; k > at; k--) {
            chosen_out[k] = chosen_out[k - 1];
        }
        chosen_out[at] = i;
    }
    while (chosen > least && chosen > 1 &&
           time_ns[chosen_out[chosen - 1]] > within * time_ns[chosen_out[0]]) {
        chosen--;
    }
    return chosen;
}
