/* Looking at a scene after a candidate ran: see scene.h. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/scene_inside.h"

/* ------------------------------------------------------------------ around the results */

static bool is_in(const struct scene_ran *ran, uint32_t slot)
{
    bool found = ran->all;
    for (uint32_t i = 0; i < ran->count && !found; i++) {
        found = ran->slots[i] == slot;
    }
    return found;
}

enum gk_status scene_gather(const struct gk_scene *scene, const struct scene_ran *ran,
                            struct scene_segments *list, struct gk_err *err)
{
    uint32_t slots = scene_slots_all(scene);
    enum gk_status status = GK_OK;
    for (uint32_t slot = 0; slot < slots && status == GK_OK; slot++) {
        bool run = is_in(ran, slot);
        for (uint32_t i = 0; i < scene->tensor_count && status == GK_OK; i++) {
            if (!scene->tensors[i].present) {
                continue;
            }
            status = scene_guards(scene, slot, i, list, err);
            if (status == GK_OK && !(run && scene->tensors[i].is_output)) {
                status = scene_content(scene, slot, i, list, err);
            }
        }
    }
    return status;
}

static void name_change(const struct gk_scene *scene, const struct scene_label *label,
                        const struct gk_audit *audit, bool ran, enum gk_stage stage,
                        struct gk_record *record)
{
    const struct scene_tensor *tensor = &scene->tensors[label->tensor];
    const char *when = stage == GK_STAGE_MEASURE ? "while it was timed: " : "";
    if (label->kind == SCENE_INPUT && ran) {
        gk_record_fail(record, stage, GK_FAILURE_INPUT_CHANGED,
                       "%sinput %s changed: %" PRIu64 " bytes, first at byte %" PRIu64, when,
                       tensor->name, audit->changed, audit->first);
        return;
    }
    int64_t at = (int64_t)audit->first;
    if (label->kind == SCENE_GUARD_FRONT) {
        at -= (int64_t)scene_front(scene, label->slot, label->tensor);
    } else if (label->kind == SCENE_GUARD_BACK) {
        at += (int64_t)tensor->bytes;
    }
    gk_record_fail(record, stage, GK_FAILURE_CANARY,
                   "%s%s%s: %" PRIu64 " bytes %s changed, first at byte %" PRId64
                   " (the buffer has bytes 0 to %" PRIu64 ")",
                   when, ran ? "" : "another set's ", tensor->name, audit->changed,
                   label->kind == SCENE_INPUT || label->kind == SCENE_OUTPUT ? "of the buffer"
                                                                             : "around the buffer",
                   at, tensor->bytes);
}

static enum gk_status audit(struct gk_scene *scene, const struct scene_ran *ran,
                            enum gk_stage stage, struct gk_record *record, struct gk_err *err)
{
    struct scene_segments list = {0};
    struct gk_audit *audits = NULL;
    enum gk_status status = scene_show_inputs(scene, err);
    if (status == GK_OK) {
        status = scene_gather(scene, ran, &list, err);
    }
    if (status == GK_OK) {
        audits = calloc(list.count + 1, sizeof *audits);
        status = audits
                     ? gk_inspector_audit(scene->inspector, list.segments, list.count, audits, err)
                     : gk_fail(err, GK_NOMEM, "out of memory");
    }
    /* What a run was given tells more than what it hit elsewhere. */
    for (uint32_t round = 0; round < 2 && status == GK_OK; round++) {
        for (uint32_t i = 0; i < list.count && record->failure == GK_FAILURE_NONE; i++) {
            bool run = is_in(ran, list.labels[i].slot);
            if (audits[i].changed > 0 && run == (round == 0)) {
                name_change(scene, &list.labels[i], &audits[i], run, stage, record);
            }
        }
    }
    if (status == GK_OK && record->failure != GK_FAILURE_NONE) {
        /* The next candidate must meet a clean scene: inputs and guards are painted anew. */
        status = gk_inspector_paint(scene->inspector, list.segments, list.count, err);
    }
    free(audits);
    scene_segments_fini(&list);
    return status;
}

enum gk_status gk_scene_audit(struct gk_scene *scene, const uint32_t *ran_slots, uint32_t ran_count,
                              struct gk_record *record, struct gk_err *err)
{
    const struct scene_ran ran = {.slots = ran_slots, .count = ran_count};
    return audit(scene, &ran, GK_STAGE_VERIFY, record, err);
}

enum gk_status gk_scene_audit_timed(struct gk_scene *scene, struct gk_record *record,
                                    struct gk_err *err)
{
    const struct scene_ran ran = {.all = true};
    return audit(scene, &ran, GK_STAGE_MEASURE, record, err);
}

/* ------------------------------------------------------------------ results */

static enum gk_status check_on_host(struct gk_scene *scene, uint32_t slot, uint32_t tensor,
                                    const struct gk_verify_input *input,
                                    struct gk_verdict *verdict_out, struct gk_err *err)
{
    const struct gk_device_ops *ops = scene->device->ops;
    struct gk_verify_input full = *input;
    uint64_t bytes = scene->tensors[tensor].bytes;
    uint64_t pair_bytes = (uint64_t)input->tensor->elements * 2 * sizeof(double);
    unsigned char *got = malloc((size_t)bytes + 1);
    double *pairs = malloc((size_t)pair_bytes + 1);
    enum gk_status status =
        got && pairs ? GK_OK
                     : gk_fail(err, GK_NOMEM, "out of memory for %" PRIu64 " bytes of results",
                               bytes + pair_bytes);
    if (status == GK_OK && bytes > 0) {
        status = ops->read(scene->device, scene_address(scene, slot, tensor), got, bytes, err);
    }
    if (status == GK_OK && pair_bytes > 0) {
        status = ops->read(scene->device, scene->sets[scene_set_of(scene, slot)].pairs[tensor],
                           pairs, pair_bytes, err);
    }
    full.got = got;
    full.pairs = pairs;
    if (status == GK_OK) {
        status = gk_verify(&full, verdict_out, err);
    }
    free(got);
    free(pairs);
    return status;
}

enum gk_status gk_scene_check(struct gk_scene *scene, uint32_t slot, uint32_t tensor,
                              const struct gk_verify_input *input, struct gk_verdict *verdict_out,
                              struct gk_err *err)
{
    struct gk_verdict_sum sum;
    const uint64_t pairs = scene->sets[scene_set_of(scene, slot)].pairs[tensor];
    GK_ASSERT(scene->sets[scene_set_of(scene, slot)].computed);
    enum gk_status status = scene_show(scene, pairs, err);
    if (status == GK_OK) {
        status = gk_inspector_check(scene->inspector, input, scene_address(scene, slot, tensor),
                                    pairs, &sum, err);
    }
    if (status != GK_OK) {
        return status;
    }
    if (!sum.rung.passed) {
        return check_on_host(scene, slot, tensor, input, verdict_out, err);
    }
    memset(verdict_out, 0, sizeof *verdict_out);
    verdict_out->rung = sum.rung;
    return GK_OK;
}
