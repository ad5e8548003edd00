/* Inside a scene: what scene.c and scene_look.c share. Nothing else includes this. */
#ifndef GK_WORKER_SCENE_INSIDE_H
#define GK_WORKER_SCENE_INSIDE_H

#include "worker/generate.h"
#include "worker/scene.h"

#define SCENE_GUARD_BYTES                                                                          \
    512 /* wider than any access of one warp's first instruction behind a row */
#define SCENE_GUARD_BYTE 0xc5
#define SCENE_BESIDE     GK_INPUT_SETS /* index of the first inputs beside the sets */
#define SCENE_SETS       (GK_INPUT_SETS + GK_BESIDES_MAX)

struct scene_tensor {
    bool present, is_input, is_output;
    char name[GK_NAME_MAX];
    uint64_t offset, front; /* in a slot: its guard, and the guard's bytes */
    uint64_t odd;           /* bytes more before it in the slots beside the rotation */
    uint64_t bytes;
    unsigned char poison[8];
    uint32_t poison_bytes;
};

struct gk_scene {
    struct gk_scene *next; /* most recently used first */
    struct gk_hash key;
    uint64_t id;
    struct gk_device *device;
    struct gk_inspector *inspector;
    const struct gk_op *op; /* lent anew by every gk_scene_get */
    struct scene_tensor tensors[GK_TENSORS_MAX];
    uint32_t tensor_count;
    uint64_t slot_align, slot_bytes, content_bytes;
    uint32_t slots;              /* of the rotation; those beside it follow */
    struct gk_besides beside;    /* one slot each; none: one slot, with the inputs of set 0 */
    enum gk_input_kind left_out; /* that one which there was no room for; DRAWN: none */
    uint64_t arena;
    /* As many slots again, numbered behind those beside the rotation; 0: nobody wanted them yet. */
    uint64_t more;
    uint64_t pristine; /* hidden: all inputs of all sets, since each mapping costs time */
    struct {
        uint64_t inputs[GK_TENSORS_MAX]; /* in pristine; 0: none */
        uint64_t pairs[GK_TENSORS_MAX];  /* hidden: (value, magnitude) of each element */
        bool computed;
    } sets[SCENE_SETS];
    uint64_t bytes; /* of the device, all together, with references that are still to come */
};

struct gk_scenes {
    struct gk_device *device;
    struct gk_inspector *inspector;
    struct gk_scene *first;
    uint64_t bytes_max, made;
    uint64_t lent; /* number of the scene that was lent last; 0: the last call had none */
    uint64_t ran;  /* the last one that was lent at all: whose candidates ran last */
};

/* Slots a run was given: a list, or every one of them. */
struct scene_ran {
    const uint32_t *slots;
    uint32_t count;
    bool all;
};

enum scene_kind { SCENE_GUARD_FRONT, SCENE_GUARD_BACK, SCENE_INPUT, SCENE_OUTPUT };

struct scene_label {
    uint32_t kind, slot, tensor;
};

struct scene_segments {
    struct gk_segment *segments;
    struct scene_label *labels; /* of each */
    uint32_t count, room;
};

uint64_t scene_front(const struct gk_scene *scene, uint32_t slot, uint32_t tensor);
uint64_t scene_address(const struct gk_scene *scene, uint32_t slot, uint32_t tensor);
uint32_t scene_set_of(const struct gk_scene *scene, uint32_t slot);
/* All there are, with those beside the rotation. */
uint32_t scene_slots_all(const struct gk_scene *scene);
/* Empty segments are left out. */
enum gk_status scene_segment(struct scene_segments *list, const struct gk_segment *segment,
                             uint32_t kind, uint32_t slot, uint32_t tensor, struct gk_err *err);
void scene_segments_fini(struct scene_segments *list);
enum gk_status scene_guards(const struct gk_scene *scene, uint32_t slot, uint32_t tensor,
                            struct scene_segments *list, struct gk_err *err);
enum gk_status scene_content(const struct gk_scene *scene, uint32_t slot, uint32_t tensor,
                             struct scene_segments *list, struct gk_err *err);
/* Everything that a run leaves alone: all but the outputs of its slots. */
enum gk_status scene_gather(const struct gk_scene *scene, const struct scene_ran *ran,
                            struct scene_segments *list, struct gk_err *err);
/* One hidden allocation; 0 is none. */
enum gk_status scene_show(struct gk_scene *scene, uint64_t address, struct gk_err *err);
enum gk_status scene_show_inputs(struct gk_scene *scene, struct gk_err *err);

#endif
