/*
 * Whether a pipeline carries data from one launch to the next in L2: eviction hints and windows can
 * keep what ten times the L2 ought to have pushed out, and then the time is one that no application
 * sees. Nobody can tell it from a cubin, so a finalist is timed over twice the sets too: what the
 * sets push out anyway takes as long, what was carried takes longer.
 */
#include <stdlib.h>

#include "worker/trial_inside.h"

#define LOOK_MORE  1.01 /* one sample slower than this: more are taken, both kinds in turn */
#define SLOWER     0.02 /* and by this at least it counts as carried */
#define TURNS      3
#define RATIO      "twice_ratio" /* members of the record's environment */
#define NOT_LOOKED "twice_not"

static int by_value(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

/* Sorts; the samples' distance from lowest to highest, as a part of the median. */
static double spread(double samples[TURNS])
{
    qsort(samples, TURNS, sizeof *samples, by_value);
    return (samples[TURNS - 1] - samples[0]) / samples[TURNS / 2];
}

static enum gk_status note_not_looked(struct work *work, const char *why, struct gk_err *err)
{
    struct gk_record *record = work->record;
    record->environment = record->environment ? record->environment : gk_json_new_object();
    return record->environment && gk_json_set_string(record->environment, NOT_LOOKED, why)
               ? GK_OK
               : gk_fail(err, GK_NOMEM, "out of memory");
}

enum gk_status trial_widen(struct work *work, bool *there_out, struct gk_err *err)
{
    struct gk_err why = {0};
    enum gk_status status = gk_scene_widen(work->bench->scenes, work->scene, &why);
    *there_out = status == GK_OK;
    if (status == GK_LIMIT) {
        status = note_not_looked(work, why.text, &why);
    }
    return status == GK_OK ? gk_scene_hide(work->scene, err) : gk_fail(err, status, "%s", why.text);
}

static void swap(struct work *work, struct recording *other)
{
    struct recording now = work->recording;
    work->recording = *other;
    *other = now;
}

/* In turn, so that a clock that drifts hits both alike. The plain recording is in place afterwards
 * as before. */
static enum gk_status in_turn(struct work *work, struct recording *twice, double plain_ns[TURNS],
                              double twice_ns[TURNS], struct gk_err *err)
{
    enum gk_status status = GK_OK;
    for (uint32_t i = 0; i < TURNS && status == GK_OK; i++) {
        status = trial_replay(work, &plain_ns[i], err);
        if (status == GK_OK) {
            swap(work, twice);
            status = trial_replay(work, &twice_ns[i], err);
            swap(work, twice);
        }
    }
    return status;
}

/* The record's samples are those of twice the sets, and so are all passes to come. */
static enum gk_status take_twice(struct work *work, const double samples[TURNS], double median_ns,
                                 struct gk_err *err)
{
    struct gk_record *record = work->record;
    for (uint32_t i = 0; i < TURNS; i++) {
        record->samples_ns[i] = samples[i];
    }
    record->sample_count = TURNS;
    record->time_ns = median_ns;
    record->marks |= 1u << GK_MARK_L2_CARRIED;
    bool good = gk_json_set_int(record->environment, "sets", 2 * gk_scene_slots(work->scene)) &&
                gk_json_set_int(record->environment, "launches", work->recording.launches);
    return good ? GK_OK : gk_fail(err, GK_NOMEM, "out of memory");
}

/* One look, since nearly nothing carries data; where it is slower, three samples of each. */
static enum gk_status compare(struct work *work, struct recording *twice, bool *carried_out,
                              struct gk_err *err)
{
    double plain_ns[TURNS], twice_ns[TURNS], look_ns = 0;
    swap(work, twice);
    enum gk_status status = trial_replay(work, &look_ns, err);
    if (status == GK_OK && trial_is_short(work)) {
        status = trial_replay(work, &look_ns, err); /* the first carried the recording there */
    }
    swap(work, twice);
    double ratio = look_ns / work->record->time_ns;
    if (status == GK_OK && ratio > LOOK_MORE) {
        status = in_turn(work, twice, plain_ns, twice_ns, err);
        if (status != GK_OK) {
            return status;
        }
        double noise = spread(plain_ns), other = spread(twice_ns);
        noise = other > noise ? other : noise;
        noise = noise > SLOWER ? noise : SLOWER;
        ratio = twice_ns[TURNS / 2] / plain_ns[TURNS / 2];
        *carried_out = ratio > 1 + noise;
    }
    if (status == GK_OK && !gk_json_set_real(work->record->environment, RATIO, ratio)) {
        status = gk_fail(err, GK_NOMEM, "out of memory");
    }
    if (status == GK_OK && *carried_out) {
        swap(work, twice);
        status = take_twice(work, twice_ns, twice_ns[TURNS / 2], err);
    }
    return status;
}

enum gk_status trial_compare_twice(struct work *work, struct gk_err *err)
{
    struct recording other = {0};
    bool there = false, carried = false;
    uint32_t launches = trial_whole_launches(work, work->record->time_ns, true);
    if (work->record->marks >> GK_MARK_FEW_LAUNCHES & 1) {
        return note_not_looked(work, "a launch takes far longer than anything stays in L2", err);
    }
    enum gk_status status = trial_widen(work, &there, err);
    if (status != GK_OK || !there) {
        return status;
    }
    swap(work, &other);
    status = trial_record(work, launches, true, err);
    swap(work, &other);
    if (status == GK_OK) {
        status = compare(work, &other, &carried, err);
    }
    trial_recording_drop(work, &other); /* of the two the one that is not in place */
    return status;
}
