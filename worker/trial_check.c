/*
 * Finalists of a GPU once more on the emulated device, on a small problem: see trial_inside.h.
 *
 * A GPU shows what came out. That a warp read before another one had written, and found the right
 * value all the same, it does not show: on the emulated device every access is watched, under
 * schedules that a GPU may hardly ever take. The code is the very code that was
 * verified and timed, since extents are its arguments.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/device_emu.h"
#include "worker/trial_inside.h"

/* SMs of the device. One: what a config needs to be of use on all of a GPU, more tiles than SMs, it
 * needs of fewer here, and blocks that take tiles in turn have turns. But a cluster runs as a
 * whole, and a config of many parts is of use only where there are SMs for them: 0, as many as the
 * GPU has. */
static const int32_t CHECKER_SMS[] = {1, 8, 0};
#define REFERENCES_MB 256

#define RUNG          "emulated"
#define NOT_DONE      "emulated_not" /* member of the record's environment: why not */
#define NOT_DONE_SIZE 400            /* a verdict carries it */

enum gk_status gk_checker_open(const char *target, struct gk_trial_bench *checker_out,
                               struct gk_err *err)
{
    char name[64];
    *checker_out = (struct gk_trial_bench){0};
    (void)snprintf(name, sizeof name, "emu:%.32s", target);
    enum gk_status status = gk_device_open(name, &checker_out->device, err);
    if (status != GK_OK) {
        return status;
    }
    checker_out->references = gk_references_create((size_t)REFERENCES_MB << 20);
    if (!checker_out->references) {
        gk_checker_close(checker_out);
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    return GK_OK;
}

void gk_checker_close(struct gk_trial_bench *checker)
{
    gk_references_destroy(checker->references);
    gk_device_close(checker->device);
    *checker = (struct gk_trial_bench){0};
}

/* What says something of the kernel, not of the device that imitates another one. */
static bool convicts(enum gk_failure failure)
{
    switch (failure) {
    case GK_FAILURE_OUT_OF_BOUNDS:
    case GK_FAILURE_MISALIGNED:
    case GK_FAILURE_UNWRITTEN_READ:
    case GK_FAILURE_RACE:
    case GK_FAILURE_BAD_OPERAND:
    case GK_FAILURE_DEADLOCK:
    case GK_FAILURE_TRAP:
    case GK_FAILURE_WRONG:
    case GK_FAILURE_NONFINITE:
    case GK_FAILURE_NEVER_WRITTEN:
    case GK_FAILURE_CANARY:
    case GK_FAILURE_INPUT_CHANGED:
    case GK_FAILURE_WORKSPACE:
        return true;
    default:
        return false;
    }
}

static enum gk_status not_done(struct work *work, const char *why, struct gk_err *err)
{
    struct gk_json *environment = work->record->environment;
    char text[NOT_DONE_SIZE];
    (void)snprintf(text, sizeof text, "not run on the emulated device: %s", why);
    work->record->marks |= 1u << GK_MARK_NOT_EMULATED;
    return !environment || gk_json_set_string(environment, NOT_DONE, text)
               ? GK_OK
               : gk_fail(err, GK_NOMEM, "out of memory");
}

bool trial_is_same_code(const struct gk_plan *a, const struct gk_plan *b)
{
    bool same = a->launch_count == b->launch_count;
    for (uint32_t i = 0; same && i < a->launch_count; i++) {
        const struct gk_plan_launch *x = &a->launches[i], *y = &b->launches[i];
        same = x->present == y->present &&
               (!x->present || gk_hash_equal(&x->module_key, &y->module_key));
    }
    return same;
}

/* Whether small problem number `which` serves: the config is legal on it, with the code that it has
 * here. GK_END: there is no such number. */
static enum gk_status look_at(const struct work *work, uint32_t which, struct gk_problem *small_out,
                              bool *serves_out, struct gk_err *err)
{
    const struct gk_trial *trial = work->trial;
    struct gk_plan plan = {0};
    *serves_out = false;
    enum gk_status status = gk_problem_small(trial->op, trial->problem, which, small_out, err);
    if (status == GK_OK) {
        status = gk_plan_render(trial->op, trial->template_, small_out, trial->config,
                                &work->bench->checker->device->props, &plan, err);
        *serves_out = status == GK_OK && trial_is_same_code(&plan, &work->plan);
        gk_plan_fini(&plan);
    }
    if (!*serves_out) {
        gk_problem_fini(small_out);
        memset(small_out, 0, sizeof *small_out);
    }
    bool is_other = status == GK_INPUT || status == GK_LIMIT || status == GK_RANGE;
    return is_other ? GK_OK : status;
}

/* The first one that serves; GK_END: none. */
static enum gk_status find_small(const struct work *work, struct gk_problem *small_out,
                                 struct gk_err *err)
{
    bool serves = false;
    for (uint32_t i = 0; i < GK_ARRAY_COUNT(CHECKER_SMS); i++) {
        enum gk_status status = GK_OK;
        work->bench->checker->device->props.sms =
            CHECKER_SMS[i] > 0 ? CHECKER_SMS[i] : work->bench->device->props.sms;
        for (uint32_t which = 0; status == GK_OK && !serves; which++) {
            struct gk_err why = {0};
            status = look_at(work, which, small_out, &serves, &why);
            if (status != GK_OK && status != GK_END) {
                return gk_fail(err, status, "%s", why.text);
            }
        }
        if (serves) {
            return GK_OK;
        }
    }
    return GK_END;
}

/* One run under a schedule. *done_out: it says something of the kernel. */
static enum gk_status run(struct work *work, const struct gk_problem *small,
                          enum gk_emu_schedule schedule, bool *done_out, struct gk_err *err)
{
    struct gk_trial trial = *work->trial;
    struct gk_trial_bench bench = *work->bench->checker;
    struct gk_record *record = calloc(1, sizeof *record);
    if (!record) {
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    trial.problem = small;
    trial.input_set = 0;
    trial.keep = NULL;
    trial.sets = GK_TRIAL_SETS_PLAIN;
    trial.policy = GK_POLICY_COLD_GRAPH;
    gk_record_init(record);
    bench.references_on = work->bench->device;
    gk_device_emu_schedule(bench.device, schedule);
    enum gk_status status = gk_trial_run(&bench, &trial, record, err);
    if (status == GK_OK && convicts(record->failure)) {
        gk_record_fail(work->record, record->stage, record->failure,
                       "on the emulated device, %s: %s", small->canonical,
                       record->message ? record->message : "");
    } else if (status == GK_OK && record->failure != GK_FAILURE_NONE) {
        *done_out = false;
        status = not_done(work, record->message ? record->message : "", err);
    }
    gk_record_fini(record);
    free(record);
    return status;
}

enum gk_status trial_device_check(struct work *work, struct gk_err *err)
{
    static const enum gk_emu_schedule SCHEDULES[] = {GK_EMU_LATE, GK_EMU_EARLY, GK_EMU_RANDOM};
    struct gk_problem small = {0};
    bool done = true;
    const struct gk_trial_bench *bench = work->bench;
    if (!(bench->checker || bench->no_checker) || work->trial->input_set != GK_INPUT_SETS_ALL ||
        work->trial->measure_only) {
        return GK_OK;
    }
    if (!bench->checker) {
        return not_done(work, bench->no_checker, err);
    }
    enum gk_status status = find_small(work, &small, err);
    if (status == GK_END) {
        return not_done(work, "the config is legal on no small problem of the op", err);
    }
    for (uint32_t i = 0; i < GK_ARRAY_COUNT(SCHEDULES) && status == GK_OK && done; i++) {
        if (!trial_failed(work)) {
            status = run(work, &small, SCHEDULES[i], &done, err);
        }
    }
    if (status == GK_OK && done) {
        const struct gk_verdict verdict = {
            .rung = {.passed = !trial_failed(work), .worst_index = -1, .norm_error = -1}};
        trial_add_rung(work->record, RUNG, &verdict);
    }
    gk_problem_fini(&small);
    return status;
}
