/*
 * Inside a trial: what its files share. Nothing else includes this.
 *
 *   trial.c         from a request to a record: render, limits, load, then one of the two ladders
 *   trial_host.c    the ladder where the host compares
 *   trial_device.c  the ladder where the device compares (worker/scene.h)
 *   trial_timing.c  recordings over rotating sets, samples
 *   trial_stream.c  launches without a graph
 *   trial_twice.c   whether data was carried from launch to launch: the same over twice the sets
 */
#ifndef GK_WORKER_TRIAL_INSIDE_H
#define GK_WORKER_TRIAL_INSIDE_H

#include "worker/scene.h"
#include "worker/trial.h"
#include "worker/verify.h"

struct ready;

struct recording {
    struct gk_device_graph *graph; /* NULL: none */
    struct ready *ready;           /* without a graph: launches to be made one by one; NULL: none */
    uint32_t launches;             /* of the pipeline, in a sample */
    uint32_t at;                   /* without a graph: the next launch's place, counted on */
    bool twice;                    /* over twice the sets */
};

struct work { /* of one trial; owned pieces */
    const struct gk_trial_bench *bench;
    const struct gk_trial *trial;
    struct gk_record *record;
    struct gk_plan plan;
    struct gk_loaded loaded;
    struct gk_memory memory; /* host ladder: everything; device ladder: workspaces */
    struct gk_run run;
    bool started; /* a run has been made: zero_kept workspaces are the kernel's now */
    /* device ladder */
    struct gk_scene *scene; /* lent by the bench's scenes */
    uint64_t scene_id;
    struct recording recording;
    double estimate_ns;
    /* the vendor's pipeline in place of the template's */
    struct gk_vendor *vendor;
    uint32_t vendor_choice;
};

static inline bool trial_failed(const struct work *work)
{
    return work->record->failure != GK_FAILURE_NONE;
}

/* Name of a seeded set's rung. */
const char *trial_rung_name(uint32_t set, bool first);
void trial_add_rung(struct gk_record *record, const char *name, const struct gk_verdict *verdict);
/* Leading logical elements of an output that are compared: rows without owner come last. */
int64_t trial_compared(const struct work *work, uint32_t tensor);
/* What an output is allowed: whether it is compared bit for bit, scale and norm of `input`. The
 * norm is that of data of ordinary size; of exact and extreme inputs each element has its bound,
 * and that is all. */
enum gk_status trial_tolerance(const struct work *work, uint32_t tensor, enum gk_input_kind inputs,
                               struct gk_verify_input *input, struct gk_err *err);
/* Name of the rung of the inputs beside the sets. */
const char *trial_beside_name(enum gk_input_kind inputs);
/* Turns what a run said into the record's failure; statuses that are the worker's own come back. */
enum gk_status trial_take_run(struct work *work, enum gk_status status, struct gk_err *err);

/* A zero_kept workspace is zero, or the record fails. Reads it back. */
enum gk_status trial_kept_zero(struct work *work, uint32_t workspace, struct gk_err *err);

enum gk_status trial_host_ladder(struct work *work, struct gk_err *err);
enum gk_status trial_host_measure(struct work *work, struct gk_err *err);

enum gk_status trial_device_ladder(struct work *work, struct gk_err *err);
/* After timing: the answer is still right, with whatever timing left in the workspaces. */
enum gk_status trial_device_again(struct work *work, struct gk_err *err);
/* Do these plans of one template run the same code? */
bool trial_is_same_code(const struct gk_plan *a, const struct gk_plan *b);
/* Of finalists, where the bench has a checker or says why it has none: rung "emulated". Where the
 * config is legal on no small problem of the op, or the emulated device cannot run it, the record
 * has the mark not_emulated, and its environment says why in "emulated_not": a GPU's verdict then
 * stands alone. */
enum gk_status trial_device_check(struct work *work, struct gk_err *err);
/* After timing: nothing around was written, so that no later candidate answers for it. */
enum gk_status trial_device_audit(struct work *work, struct gk_err *err);
/* How long the next piece of work is waited for. `expected_ns`: what it is known to take; 0: one
 * launch of a candidate, which nobody has seen yet. */
void trial_set_patience(const struct work *work, double expected_ns);
/* The slot's tensors and the trial's workspaces. */
void trial_slot_memory(const struct work *work, uint32_t slot, struct gk_memory *memory);
/* Everything that the pipeline enqueues once, on the buffers of `slot`. */
enum gk_status trial_issue(struct work *work, uint32_t slot, struct gk_err *err);
enum gk_status trial_device_measure(struct work *work, struct gk_err *err);
/* Records the pipeline `launches` times over the slots in turn, in place of what was recorded;
 * `twice`: over those of a widened scene. */
enum gk_status trial_record(struct work *work, uint32_t launches, bool twice, struct gk_err *err);
void trial_recording_drop(struct work *work, struct recording *recording);
static inline bool trial_is_recorded(const struct work *work)
{
    return work->recording.graph || work->recording.ready;
}
/* What a recording is without a graph, over so many places of the rotation. */
enum gk_status trial_stream_prepare(struct work *work, uint32_t places, struct gk_err *err);
void trial_stream_drop(struct recording *recording);
/* Launches of one sample; results as of the device's replay(). */
enum gk_status trial_stream_run(struct work *work, struct gk_device_report *report_out,
                                struct gk_err *err);
/* One sample: ns of the pipeline. */
enum gk_status trial_replay(struct work *work, double *ns_out, struct gk_err *err);
/* Launches of a whole sample: as many as the policy wants, every slot equally often. */
uint32_t trial_whole_launches(const struct work *work, double estimate_ns, bool twice);
/* Whether a recording just made has to run once unseen: its first replay carries it to the device,
 * which long ones hide. */
bool trial_is_short(const struct work *work);
/* The scene has twice the sets. *there_out false: no room, and the record's environment says it. */
enum gk_status trial_widen(struct work *work, bool *there_out, struct gk_err *err);
/* After the samples of a final round's first pass: times it over twice the sets as well. If that is
 * slower beyond the noise, the recording, the samples and the mark are those of twice the sets. */
enum gk_status trial_compare_twice(struct work *work, struct gk_err *err);
/* Sets vendor_choice to the fastest of the library's results. GK_UNSUPPORTED: none runs. */
enum gk_status trial_vendor_choose(struct work *work, struct gk_err *err);
/* The least time that the problem's bytes and operations take on this device. */
double trial_floor_ns(const struct work *work);

#endif
