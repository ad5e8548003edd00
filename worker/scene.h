/*
 * Scenes: a problem laid out on a device, for a device that compares results itself.
 *
 * A scene is one arena with many copies (slots) of the problem's tensors, guards before and behind
 * each. Timing rotates through the slots, so together they exceed ten times the L2 (docs/DESIGN.md
 * section 8; three times is not enough, since eviction hints carry data across launches); slot i
 * holds input set i mod 4, and its tensors begin where an allocator puts them, at multiples of 256
 * bytes, as they do in an engine. One or two more slots, beside the rotation, are for verification
 * alone: their tensors have the alignment that was promised and no better (a kernel that reads 32
 * bytes at once from rows that are 16-byte aligned must not pass), and they hold the inputs of the
 * exact rung and of the extreme one, or where neither applies one those of set 0.
 *
 * What a candidate must not reach, the pristine inputs and the reference's results, lies in hidden
 * memory (worker/device.h): mapped while a scene is being made or looked at, unmapped while a
 * candidate runs. So a candidate can neither copy the answer nor spoil what it is compared with,
 * although both stay on the device.
 */
#ifndef GK_WORKER_SCENE_H
#define GK_WORKER_SCENE_H

#include "core/record.h"
#include "worker/generate.h"
#include "worker/inspect/inspect.h"
#include "worker/runner.h"

#define GK_SCENE_SLOTS_MAX                                                                         \
    1024 /* a problem so small that these stay under ten L2s says so: sets                         \
          */

struct gk_scene;
struct gk_scenes; /* of one device, least recently used first out */

/* `inspector` is borrowed. Scenes together take at most bytes_max, references included, but one
 * always fits if the device has room for it. */
struct gk_scenes *gk_scenes_create(struct gk_device *device, struct gk_inspector *inspector,
                                   uint64_t bytes_max);
void gk_scenes_destroy(struct gk_scenes *scenes);

/* The scene of a problem, made if it is not there, and clean if another one was lent since. Lent
 * until the next call for another problem.
 * `plan`: any plan of the op for this problem. `beside`: of the slots beside the rotation.
 * Where there is room for three slots alone, the second of them is left out.
 * GK_LIMIT: the device has not room for even three slots. */
enum gk_status gk_scene_get(struct gk_scenes *scenes, const struct gk_plan *plan,
                            const struct gk_problem *problem, const struct gk_besides *beside,
                            struct gk_scene **scene_out, struct gk_err *err);
/* Drops all scenes but the one that was lent last. False: there was no other. For who finds the
 * device's memory short before theirs is: others may use it too. */
bool gk_scenes_drop_others(struct gk_scenes *scenes);
/* Whether a scene with this number is still there. */
bool gk_scene_alive(const struct gk_scenes *scenes, uint64_t id);
uint64_t gk_scene_id(const struct gk_scene *scene);
/* Slots that timing rotates through: 2 or more. */
uint32_t gk_scene_slots(const struct gk_scene *scene);
/* All their bytes together. */
uint64_t gk_scene_rotation_bytes(const struct gk_scene *scene);
/* As many slots again, for who wants to see whether data was carried from one launch to the next
 * in L2: made once, they stay as long as the scene. Shows hidden memory. GK_LIMIT: there is no room
 * for them, nothing has changed. */
enum gk_status gk_scene_widen(struct gk_scenes *scenes, struct gk_scene *scene, struct gk_err *err);
/* Slot at a place of the rotation: places below gk_scene_slots(), or below twice that in a scene
 * that was widened. */
uint32_t gk_scene_slot_at(const struct gk_scene *scene, uint32_t place);
/* Slot of the rotation that holds input set 0..3. */
uint32_t gk_scene_slot_of(const struct gk_scene *scene, uint32_t input_set);
/* Slots beside it, one or two, and each of them. */
uint32_t gk_scene_slots_beside(const struct gk_scene *scene);
uint32_t gk_scene_slot_beside(const struct gk_scene *scene, uint32_t which);
/* The inputs that had no room beside it; GK_INPUTS_DRAWN: none. */
enum gk_input_kind gk_scene_left_out(const struct gk_scene *scene);
/* Addresses of a slot's tensors into memory->tensors; nothing else is touched, nothing is owned. */
void gk_scene_memory(const struct gk_scene *scene, uint32_t slot, struct gk_memory *memory);

/* Computes the reference of the slot's set with the op's own kernel, once. Errors as of
 * gk_plan_run: GK_TRIAL and others mean that the reference did not run. */
enum gk_status gk_scene_reference(struct gk_scene *scene, const struct gk_problem *problem,
                                  uint32_t slot, const struct gk_compile_output *code,
                                  struct gk_err *err);
/* Every slot has its inputs, and every output of every slot is poison, as a candidate must find it.
 * Hidden memory is hidden afterwards. */
enum gk_status gk_scene_reset(struct gk_scene *scene, struct gk_err *err);
enum gk_status gk_scene_hide(struct gk_scene *scene, struct gk_err *err);
/* inout tensors of all slots hold their inputs again, as before a recording is replayed. */
enum gk_status gk_scene_restore(struct gk_scene *scene, struct gk_err *err);

/* After a run that failed before anybody looked around: guards, inputs and outputs as a scene is
 * made, so that no later candidate answers for what this one hit. Shows hidden memory. */
enum gk_status gk_scene_clean(struct gk_scene *scene, struct gk_err *err);

/* What is around: guards, inputs, outputs of slots that were not run. A change is a failure in the
 * record, and the scene is clean again. Shows hidden memory. */
enum gk_status gk_scene_audit(struct gk_scene *scene, const uint32_t *ran_slots, uint32_t ran_count,
                              struct gk_record *record, struct gk_err *err);
/* The same after timing, which ran every slot: guards and inputs. The failure's stage is measure.
 */
enum gk_status gk_scene_audit_timed(struct gk_scene *scene, struct gk_record *record,
                                    struct gk_err *err);
/* One output of a slot against the reference, which must have been computed. `input`: everything
 * but got and pairs. Where the device's answer is not "passed", or the tensor has padding, the host
 * looks again and says what is wrong. Shows hidden memory. */
enum gk_status gk_scene_check(struct gk_scene *scene, uint32_t slot, uint32_t tensor,
                              const struct gk_verify_input *input, struct gk_verdict *verdict_out,
                              struct gk_err *err);

#endif
