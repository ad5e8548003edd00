/*
 * Timing where the device times itself: docs/DESIGN.md section 8. A recording holds the pipeline
 * many times back to back, each time on the next slot of the scene, so that no launch finds its
 * operands in L2 (policy `warm`: always on the same slot, so that it does); one replay is one
 * sample.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/measure.h"
#include "worker/trial_inside.h"
#include "worker/vendor.h"

#define LAUNCHES_MIN  50
#define LAUNCHES_LONG 4   /* of those that last so long that */
#define LONG_NS       1e8 /* so much is a sample: what begins and ends it is nothing beside it */
#define LAUNCHES_MAX  8192
#define STREAM_MAX    512 /* without a graph: what the driver queues before a launch has to wait */
#define SAMPLE_NS_MIN 5e6 /* of a replay */
#define SAMPLE_NS_MAX 1.4e10 /* four times that is within the longest patience */
#define SHORT_NS      3e6    /* of the first, short sample */
#define SHORT_GIVE_UP 1.5    /* slower than the best by this factor: one short sample says enough */
#define FLOOR_NEAR    1.05
#define DROPPED_MAX   3 /* batches that may be dropped before the row is kept and marked */

/* NVML's clocks event reasons: hardware slowdown, software and hardware thermal slowdown, power
 * brake. Bit 2, the power cap, is no fault: it is the regime of a large product. */
#define THROTTLE_BITS  (INT64_C(0x8) | 0x20 | 0x40 | 0x80)
#define POWER_CAP_BIT  INT64_C(0x4)
#define AT_POWER_LIMIT 0.9 /* of the limit: docs/DESIGN.md section 8 */

/* ------------------------------------------------------------------ the floor */

/* The bf16 rate is what props tell; on every architecture so far 8-bit operands run at twice that,
 * and wider ones never faster. */
static double operand_rate(const struct gk_plan *plan)
{
    for (uint32_t i = 0; i < plan->op->tensor_count; i++) {
        const struct gk_plan_tensor *tensor = &plan->tensors[i];
        if (tensor->present && tensor->def->role == GK_TENSOR_IN &&
            gk_dtype_bytes(tensor->dtype) == 1) {
            return 2;
        }
    }
    return 1;
}

double trial_floor_ns(const struct work *work)
{
    const struct gk_device_props *dev = &work->bench->device->props;
    double clock_hz = (double)dev->clock_khz * 1e3;
    double flops_s = (double)dev->tensor_flops_per_clk_sm * (double)dev->sms * clock_hz *
                     operand_rate(&work->plan);
    double by_flops = work->plan.flops / flops_s * 1e9;
    double by_bytes = work->plan.bytes / (double)dev->mem_bytes_per_us * 1e3;
    /* A problem so small that its slots stay in L2 may beat the memory. */
    bool warm = work->trial && work->trial->policy == GK_POLICY_WARM;
    bool cold =
        work->scene && !warm && gk_scene_rotation_bytes(work->scene) >= 2 * (uint64_t)dev->l2_bytes;
    return cold && by_bytes > by_flops ? by_bytes : by_flops;
}

static void compare_floor(struct work *work)
{
    struct gk_record *record = work->record;
    double floor_ns = trial_floor_ns(work);
    if (record->time_ns < floor_ns) {
        gk_record_fail(record, GK_STAGE_MEASURE, GK_FAILURE_FLOOR,
                       "%.4g us; %.4g operations and %.4g bytes need %.4g us on this device",
                       record->time_ns / 1e3, work->plan.flops, work->plan.bytes, floor_ns / 1e3);
    } else if (record->time_ns < floor_ns * FLOOR_NEAR) {
        record->marks |= 1u << GK_MARK_NEAR_FLOOR;
    }
}

/* ------------------------------------------------------------------ recordings */

void trial_recording_drop(struct work *work, struct recording *recording)
{
    if (recording->graph) {
        work->bench->device->ops->graph_free(work->bench->device, recording->graph);
        recording->graph = NULL;
    }
    trial_stream_drop(recording);
    recording->at = 0;
}

static uint32_t places(const struct work *work, bool twice)
{
    if (work->trial->policy == GK_POLICY_WARM) {
        return 1;
    }
    return gk_scene_slots(work->scene) * (twice ? 2 : 1);
}

enum gk_status trial_record(struct work *work, uint32_t launches, bool twice, struct gk_err *err)
{
    struct gk_device *device = work->bench->device;
    uint32_t count = places(work, twice);
    trial_recording_drop(work, &work->recording);
    work->recording.launches = launches;
    work->recording.twice = twice;
    if (work->trial->policy == GK_POLICY_EAGER) {
        return trial_stream_prepare(work, count, err);
    }
    enum gk_status status = device->ops->record_begin(device, err);
    if (status != GK_OK) {
        return status;
    }
    for (uint32_t i = 0; i < launches && status == GK_OK; i++) {
        status = trial_issue(work, gk_scene_slot_at(work->scene, i % count), err);
    }
    struct gk_err ending = {0};
    enum gk_status ended = device->ops->record_end(device, &work->recording.graph, &ending);
    if (status == GK_OK && ended != GK_OK) {
        status = gk_fail(err, ended, "%s", ending.text);
    }
    if (status != GK_OK) {
        trial_recording_drop(work, &work->recording);
    }
    return status;
}

enum gk_status trial_replay(struct work *work, double *ns_out, struct gk_err *err)
{
    struct gk_device *device = work->bench->device;
    struct gk_device_report *report = calloc(1, sizeof *report);
    enum gk_status status =
        report ? gk_scene_restore(work->scene, err) : gk_fail(err, GK_NOMEM, "out of memory");
    if (status == GK_OK) {
        /* One launch of a slow candidate is within patience, fifty of them are not. */
        trial_set_patience(work, work->estimate_ns * work->recording.launches);
        status = work->recording.ready
                     ? trial_stream_run(work, report, err)
                     : device->ops->replay(device, work->recording.graph, report, err);
    }
    if (status == GK_OK && !(report->ns > 0)) {
        status = gk_fail(err, GK_RANGE, "a replay of %g ns; more than 0 is allowed", report->ns);
    }
    if (status == GK_OK) {
        work->record->gpu_measure_ns += report->ns;
        *ns_out = report->ns / work->recording.launches;
    } else if (status == GK_TRIAL) {
        gk_record_fail(work->record, GK_STAGE_MEASURE, report->failure, "%s", report->text);
    }
    free(report);
    return status;
}

bool trial_is_short(const struct work *work)
{
    return work->estimate_ns * work->recording.launches < 2 * SAMPLE_NS_MIN;
}

/* What a sample has at least: each set is met. */
static uint32_t launches_least(const struct work *work, double estimate_ns, bool twice)
{
    uint32_t slots = places(work, twice), least = LAUNCHES_MIN;
    if (estimate_ns * LAUNCHES_MIN > LONG_NS) {
        double enough = ceil(LONG_NS / estimate_ns);
        least = enough < LAUNCHES_LONG ? LAUNCHES_LONG : (uint32_t)enough;
    }
    return least < slots ? slots : least;
}

uint32_t trial_whole_launches(const struct work *work, double estimate_ns, bool twice)
{
    uint32_t slots = places(work, twice);
    double wanted = estimate_ns > 0 ? ceil(SAMPLE_NS_MIN / estimate_ns) : LAUNCHES_MIN;
    double least = launches_least(work, estimate_ns, twice);
    wanted = wanted < least ? least : wanted;
    wanted = wanted > LAUNCHES_MAX ? LAUNCHES_MAX : wanted;
    uint32_t launches = ((uint32_t)wanted + slots - 1) / slots * slots;
    if (estimate_ns * launches > SAMPLE_NS_MAX) {
        uint32_t most = (uint32_t)(SAMPLE_NS_MAX / estimate_ns);
        launches = most >= slots ? most / slots * slots : most > 0 ? most : 1;
    }
    if (work->trial->policy == GK_POLICY_EAGER && launches > STREAM_MAX) {
        launches = STREAM_MAX >= slots ? STREAM_MAX / slots * slots : STREAM_MAX;
    }
    return launches;
}

/* ------------------------------------------------------------------ samples */

static enum gk_status whole_sample(void *context, double *ns_out, struct gk_err *err)
{
    return trial_replay(context, ns_out, err);
}

/* One sample that is the mean of a block: what the device does when it is busy for long. */
static enum gk_status block_sample(struct work *work, double *ns_out, struct gk_err *err)
{
    const struct gk_effort *effort = &work->trial->effort;
    double warmed = 0, spent = 0, ns = 0;
    uint64_t replays = 0;
    enum gk_status status = GK_OK;
    while (status == GK_OK && warmed < effort->warm_ns) {
        status = trial_replay(work, &ns, err);
        warmed += ns * work->recording.launches;
    }
    while (status == GK_OK && (replays == 0 || spent < effort->block_ns)) {
        status = trial_replay(work, &ns, err);
        spent += ns * work->recording.launches;
        replays++;
    }
    if (status == GK_OK) {
        *ns_out = spent / ((double)replays * work->recording.launches);
    }
    return status;
}

static enum gk_status take_samples(struct work *work, struct gk_measured *measured,
                                   struct gk_err *err)
{
    const struct gk_effort *effort = &work->trial->effort;
    double sample_ns = work->estimate_ns * work->recording.launches;
    if (effort->block_ns > 0) {
        memset(measured, 0, sizeof *measured);
        enum gk_status status = block_sample(work, &measured->samples_ns[0], err);
        measured->count = 1;
        measured->median_ns = measured->samples_ns[0];
        return status;
    }
    double most = sample_ns > 0 ? effort->budget_ns / sample_ns : 1;
    struct gk_measure_rule rule = {.few = 3, .half_width = 0.005, .samples_max = 1};
    rule.samples_max = most > effort->samples_max   ? effort->samples_max
                       : most < effort->samples_min ? effort->samples_min
                                                    : (uint32_t)most;
    return gk_measure(&rule, whole_sample, work, measured, err);
}

/* ------------------------------------------------------------------ conditions */

static enum gk_status read_vitals(struct work *work, struct gk_device_vitals *vitals)
{
    struct gk_device *device = work->bench->device;
    *vitals = (struct gk_device_vitals){-1, -1, -1, -1, -1, -1, -1};
    return device->ops->vitals ? device->ops->vitals(device, vitals, NULL) : GK_UNSUPPORTED;
}

static bool set_known(struct gk_json *json, const char *name, int64_t value)
{
    return value < 0 || gk_json_set_int(json, name, value);
}

/* Batches that do not count: the clock was throttled for the reasons `why` (bits as NVML names
 * them), or somebody else was on the GPU. */
struct dropped {
    uint32_t throttled, shared;
    int64_t why;
};

static enum gk_status note_conditions(struct work *work, const struct gk_device_vitals *vitals,
                                      const struct dropped *dropped, struct gk_err *err)
{
    struct gk_record *record = work->record;
    struct gk_json *json = gk_json_new_object();
    enum gk_input_kind left_out = gk_scene_left_out(work->scene);
    bool at_limit = (vitals->throttle > 0 && (vitals->throttle & POWER_CAP_BIT)) ||
                    (vitals->power_mw > 0 && vitals->power_limit_mw > 0 &&
                     (double)vitals->power_mw > AT_POWER_LIMIT * (double)vitals->power_limit_mw);
    bool good =
        json && set_known(json, "sm_clock_khz", vitals->sm_clock_khz) &&
        set_known(json, "memory_clock_khz", vitals->memory_clock_khz) &&
        set_known(json, "temperature_c", vitals->temperature_c) &&
        set_known(json, "power_mw", vitals->power_mw) &&
        set_known(json, "power_limit_mw", vitals->power_limit_mw) &&
        set_known(json, "throttle", vitals->throttle) &&
        set_known(json, "others", vitals->others) &&
        gk_json_set_int(json, "dropped", dropped->throttled) &&
        (dropped->why == 0 || gk_json_set_int(json, "dropped_throttle", dropped->why)) &&
        (dropped->shared == 0 || gk_json_set_int(json, "dropped_shared", dropped->shared)) &&
        gk_json_set_bool(json, "at_power_limit", at_limit) &&
        gk_json_set_string(json, "regime",
                           work->trial->effort.block_ns > 0 ? "sustained" : "burst") &&
        gk_json_set_int(json, "sets", places(work, work->recording.twice)) &&
        gk_json_set_int(json, "launches", work->recording.launches) &&
        (left_out == GK_INPUTS_DRAWN ||
         gk_json_set_string(json, "rung_not", trial_beside_name(left_out)));
    if (good && work->vendor) {
        char text[GK_VENDOR_TEXT_MAX], detail[GK_VENDOR_TEXT_MAX + 96];
        gk_vendor_describe(work->vendor, work->vendor_choice, text);
        (void)snprintf(detail, sizeof detail, "%s: result %" PRIu32 " of %" PRIu32 ": %s",
                       gk_vendor_version(work->vendor), work->vendor_choice + 1,
                       gk_vendor_count(work->vendor), text);
        good = gk_json_set_string(json, "detail", detail);
    }
    if (!good) {
        gk_json_free(json);
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    gk_json_free(record->environment);
    record->environment = json;
    return GK_OK;
}

/* Samples until the clock was not throttled and nobody else was on the GPU, neither before a batch
 * nor behind it; a GPU that is never alone or never cool does not stop a job: the row is kept and
 * marked, and beside who was there in the trial before too it is at once. */
static enum gk_status sample_all(struct work *work, struct gk_measured *measured,
                                 struct gk_err *err)
{
    struct gk_device_vitals vitals;
    struct dropped dropped = {0};
    bool *never_alone = work->bench->never_alone, patient = !never_alone || !*never_alone;
    (void)read_vitals(work, &vitals); /* what is not told is -1 */
    for (;;) {
        int64_t before = vitals.others;
        enum gk_status status = take_samples(work, measured, err);
        if (status != GK_OK) {
            return status;
        }
        (void)read_vitals(work, &vitals);
        bool throttled = vitals.throttle > 0 && (vitals.throttle & THROTTLE_BITS);
        bool shared = before > 0 || vitals.others > 0;
        bool again = throttled || (shared && patient);
        if (again && dropped.throttled + dropped.shared < DROPPED_MAX) {
            dropped.throttled += throttled;
            dropped.shared += !throttled;
            dropped.why |= throttled ? vitals.throttle & THROTTLE_BITS : 0;
            continue;
        }
        if (never_alone) {
            *never_alone = shared;
        }
        vitals.others = before > vitals.others ? before : vitals.others;
        work->record->marks |= throttled ? 1u << GK_MARK_THROTTLED : 0;
        work->record->marks |= shared ? 1u << GK_MARK_SHARED : 0;
        return note_conditions(work, &vitals, &dropped, err);
    }
}

/* ------------------------------------------------------------------ stages of effort */

/* A few launches, which say whether more are worth while. *enough_out: they are not. */
static enum gk_status short_sample(struct work *work, bool *enough_out, struct gk_err *err)
{
    uint32_t slots = places(work, false);
    double best = work->trial->best_ns, ns = 0;
    double launches = work->estimate_ns > 0 ? SHORT_NS / work->estimate_ns : slots;
    uint32_t count = launches > slots ? slots : (uint32_t)launches;
    count = count < 2 ? 2 : count; /* a single set is met by the second launch as it will be */
    count = work->estimate_ns * count > SAMPLE_NS_MAX ? 1 : count;
    enum gk_status status = trial_record(work, count, false, err);
    if (status == GK_OK && work->estimate_ns < SHORT_NS) {
        status =
            trial_replay(work, &ns, err); /* the first replay carries the recording to the device */
    }
    if (status == GK_OK) {
        status = trial_replay(work, &ns, err);
    }
    if (status != GK_OK) {
        return status;
    }
    work->estimate_ns = ns;
    *enough_out = best > 0 && ns > SHORT_GIVE_UP * best;
    if (*enough_out) {
        const struct dropped none = {0};
        struct gk_device_vitals vitals;
        work->record->time_ns = work->record->samples_ns[0] = ns;
        work->record->sample_count = 1;
        work->record->marks |= 1u << GK_MARK_ONE_SAMPLE;
        (void)read_vitals(work, &vitals);
        work->record->marks |= vitals.others > 0 ? 1u << GK_MARK_SHARED : 0;
        status = note_conditions(work, &vitals, &none, err);
    }
    return status;
}

static enum gk_status sample_whole(struct work *work, struct gk_err *err)
{
    struct gk_record *record = work->record;
    struct gk_measured *measured = calloc(1, sizeof *measured);
    double ns = 0;
    bool twice = work->trial->sets == GK_TRIAL_SETS_TWICE;
    uint32_t least = launches_least(work, work->estimate_ns, twice);
    bool fresh = !trial_is_recorded(work) || work->recording.launches < least ||
                 work->recording.twice != twice;
    enum gk_status status = measured ? GK_OK : gk_fail(err, GK_NOMEM, "out of memory");
    if (status == GK_OK && fresh) {
        status =
            trial_record(work, trial_whole_launches(work, work->estimate_ns, twice), twice, err);
        if (status == GK_OK && trial_is_short(work)) {
            status = trial_replay(work, &ns, err);
        }
    }
    if (status == GK_OK) {
        status = sample_all(work, measured, err);
    }
    if (status == GK_OK) {
        memcpy(record->samples_ns, measured->samples_ns, sizeof record->samples_ns);
        record->sample_count = measured->count;
        record->time_ns = measured->median_ns;
        record->marks |= measured->count >= 6 && !measured->stable ? 1u << GK_MARK_UNSTABLE : 0;
        record->marks |= twice ? 1u << GK_MARK_L2_CARRIED : 0;
        record->marks |= work->recording.launches < least ? 1u << GK_MARK_FEW_LAUNCHES : 0;
    }
    free(measured);
    return status;
}

/* What was found to carry data in its first pass is timed over twice the sets in all others, or not
 * at all: the two are never paired. */
static enum gk_status need_twice(struct work *work, struct gk_err *err)
{
    bool there = true;
    enum gk_status status = GK_OK;
    if (work->trial->sets == GK_TRIAL_SETS_TWICE) {
        status = trial_widen(work, &there, err);
    }
    if (status == GK_OK && !there) {
        gk_record_fail(work->record, GK_STAGE_MEASURE, GK_FAILURE_MEMORY,
                       "it is to be timed over twice the sets, for which there is no room now");
    }
    return status;
}

static enum gk_status measure(struct work *work, struct gk_err *err)
{
    bool enough = false;
    enum gk_status status = need_twice(work, err);
    if (status == GK_OK && !trial_failed(work)) {
        status = gk_scene_hide(work->scene, err);
    }
    if (status != GK_OK || trial_failed(work)) {
        return status;
    }
    if (!trial_is_recorded(work)) {
        status = short_sample(work, &enough, err);
    }
    if (status == GK_OK && !enough) {
        status = sample_whole(work, err);
    }
    if (status == GK_OK && work->trial->sets == GK_TRIAL_SETS_COMPARE &&
        work->trial->policy != GK_POLICY_WARM) {
        status = trial_compare_twice(work, err);
    }
    if (status == GK_OK) {
        compare_floor(work);
    }
    return status;
}

enum gk_status trial_device_measure(struct work *work, struct gk_err *err)
{
    work->record->gpu_measure_ns =
        work->record->gpu_measure_ns > 0 ? work->record->gpu_measure_ns : 0;
    enum gk_status status = measure(work, err);
    if (status == GK_TRIAL || status == GK_INPUT || status == GK_LIMIT ||
        status == GK_UNSUPPORTED) {
        if (!trial_failed(work)) {
            gk_record_fail(work->record, GK_STAGE_MEASURE, GK_FAILURE_LAUNCH_ERROR, "%s",
                           err->text);
        }
        status = GK_OK;
    }
    if (status == GK_OK && trial_failed(work)) {
        /* Nobody will look around after this. A lost device refuses, and nobody comes after it. */
        (void)gk_scene_clean(work->scene, NULL);
    }
    return status;
}

/* Unseen once, then the better of two: one sample that met a low clock must not make the vendor's
 * second best stand for it. */
static enum gk_status sample_choice(struct work *work, double *ns_out, struct gk_err *err)
{
    double ns = 0, other = 0;
    enum gk_status status = trial_replay(work, &ns, err);
    if (status == GK_OK) {
        status = trial_replay(work, &ns, err);
    }
    if (status == GK_OK) {
        status = trial_replay(work, &other, err);
    }
    if (status == GK_OK) {
        *ns_out = other < ns ? other : ns;
    }
    return status;
}

/* Every result of the library's heuristic, timed alike; the fastest stands for the vendor. */
enum gk_status trial_vendor_choose(struct work *work, struct gk_err *err)
{
    uint32_t best = 0;
    double best_ns = 0;
    enum gk_status status = GK_OK;
    work->record->gpu_measure_ns = 0;
    for (uint32_t i = 0; i < gk_vendor_count(work->vendor) && status == GK_OK; i++) {
        double ns = 0;
        work->vendor_choice = i;
        status = trial_issue(work, 0, err); /* loads its code */
        if (status == GK_OK) {
            status = trial_record(work, places(work, false), false, err);
        }
        if (status == GK_OK) {
            status = trial_replay(work, &ns, err);
        }
        if (status == GK_OK) {
            status = trial_record(work, trial_whole_launches(work, ns, false), false, err);
        }
        if (status == GK_OK) {
            status = sample_choice(work, &ns, err);
        }
        if (status == GK_UNSUPPORTED) { /* one that the library offers and then refuses */
            status = GK_OK;
            continue;
        }
        if (status == GK_OK && (best_ns == 0 || ns < best_ns)) {
            best_ns = ns;
            best = i;
        }
    }
    trial_recording_drop(work, &work->recording);
    work->vendor_choice = best;
    work->estimate_ns = best_ns;
    if (status == GK_OK && best_ns == 0) {
        return gk_fail(err, GK_UNSUPPORTED, "the library refuses all of its own results");
    }
    return status;
}
