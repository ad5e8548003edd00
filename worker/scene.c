/* Scenes: layout, inputs, references, reset. See scene.h; scene_look.c looks at results. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/generate.h"
#include "worker/numeric.h"
#include "worker/scene_inside.h"

#define SLOT_ALIGN        512u /* more than any alignment that is promised */
#define L2_MULTIPLE       10
#define SEGMENTS_A_TENSOR 3 /* two guards and what is between them */
#define MEMORY_SHARE      2 /* an arena takes at most this part of the device's memory: half */

/* ------------------------------------------------------------------ layout */

static uint64_t round_up(uint64_t value, uint64_t unit)
{
    return (value + unit - 1) / unit * unit;
}

static void lay_out(struct gk_scene *scene, const struct gk_plan *plan)
{
    uint64_t at = 0, content = 0;
    for (uint32_t i = 0; i < plan->op->tensor_count; i++) {
        const struct gk_plan_tensor *planned = &plan->tensors[i];
        struct scene_tensor *tensor = &scene->tensors[i];
        if (!planned->present) {
            continue;
        }
        uint64_t align = (uint64_t)planned->align;
        tensor->present = true;
        tensor->is_input = planned->def->role != GK_TENSOR_OUT;
        tensor->is_output = planned->def->role != GK_TENSOR_IN;
        (void)snprintf(tensor->name, sizeof tensor->name, "%s", planned->def->name);
        tensor->bytes = gk_plan_tensor_bytes(planned);
        tensor->poison_bytes = gk_dtype_bytes(planned->dtype);
        gk_element_poison(planned->dtype, tensor->poison);
        at = align > SLOT_ALIGN ? round_up(at, align) : at;
        tensor->front = align > SLOT_ALIGN ? align : SCENE_GUARD_BYTES;
        scene->slot_align = align > scene->slot_align ? align : scene->slot_align;
        /* An odd multiple of align is a multiple of nothing larger. */
        tensor->odd = align < 256 ? align : 0;
        tensor->offset = at;
        at = round_up(at + tensor->front + tensor->odd + tensor->bytes + SCENE_GUARD_BYTES,
                      SLOT_ALIGN);
        content += tensor->bytes;
    }
    scene->slot_bytes = round_up(at, scene->slot_align);
    scene->content_bytes = content;
}

/* Of an output's reference in one set: (value, magnitude) of each element. */
static uint64_t result_bytes(const struct gk_plan *plan, uint32_t tensor)
{
    return (uint64_t)plan->tensors[tensor].elements * 2 * sizeof(double);
}

/* Sets that timing rotates through. */
static enum gk_status count_slots(struct gk_scene *scene, const struct gk_device_props *props,
                                  struct gk_err *err)
{
    uint64_t wanted = scene->content_bytes == 0
                          ? 2
                          : (uint64_t)props->l2_bytes * L2_MULTIPLE / scene->content_bytes + 1;
    uint64_t room = (uint64_t)props->mem_bytes / MEMORY_SHARE / scene->slot_bytes;
    wanted = wanted < GK_INPUT_SETS ? GK_INPUT_SETS : wanted;
    wanted = wanted > GK_SCENE_SLOTS_MAX ? GK_SCENE_SLOTS_MAX : wanted;
    if (room < 2 + scene->beside.count && scene->beside.count > 1) {
        scene->left_out = scene->beside.kinds[--scene->beside.count];
    }
    const uint32_t beside = gk_scene_slots_beside(scene);
    room = room > beside ? room - beside : 0;
    if (room < 2) {
        return gk_fail(err, GK_LIMIT,
                       "three copies of the problem's tensors are %" PRIu64 " bytes; half of the "
                       "device's memory is %" PRId64,
                       3 * scene->slot_bytes, props->mem_bytes / MEMORY_SHARE);
    }
    scene->slots = (uint32_t)(wanted < room ? wanted : room);
    return GK_OK;
}

uint32_t gk_scene_slots_beside(const struct gk_scene *scene)
{
    return scene->beside.count > 0 ? scene->beside.count : 1;
}

/* Slots that lie in the arena: those of the rotation, then those beside it. */
static uint32_t slots_first(const struct gk_scene *scene)
{
    return scene->slots + gk_scene_slots_beside(scene);
}

static bool is_beside(const struct gk_scene *scene, uint32_t slot)
{
    return slot >= scene->slots && slot < slots_first(scene);
}

/* Guard before a tensor: wider by the odd step in the slots beside the rotation. */
uint64_t scene_front(const struct gk_scene *scene, uint32_t slot, uint32_t tensor)
{
    const struct scene_tensor *t = &scene->tensors[tensor];
    return t->front + (is_beside(scene, slot) ? t->odd : 0);
}

uint64_t scene_address(const struct gk_scene *scene, uint32_t slot, uint32_t tensor)
{
    const uint32_t first = slots_first(scene);
    uint64_t base = slot < first ? scene->arena + slot * scene->slot_bytes
                                 : scene->more + (slot - first) * scene->slot_bytes;
    return base + scene->tensors[tensor].offset + scene_front(scene, slot, tensor);
}

uint32_t scene_set_of(const struct gk_scene *scene, uint32_t slot)
{
    if (is_beside(scene, slot)) {
        return scene->beside.count > 0 ? SCENE_BESIDE + slot - scene->slots : 0;
    }
    /* By place, which is less behind the slots beside. A rotation of few has few sets. */
    uint32_t place = slot < scene->slots ? slot : slot - gk_scene_slots_beside(scene);
    return place % (scene->slots < GK_INPUT_SETS ? scene->slots : GK_INPUT_SETS);
}

uint32_t scene_slots_all(const struct gk_scene *scene)
{
    return slots_first(scene) + (scene->more ? scene->slots : 0);
}

uint32_t gk_scene_slot_at(const struct gk_scene *scene, uint32_t place)
{
    return place < scene->slots ? place : place + gk_scene_slots_beside(scene);
}

uint32_t gk_scene_slot_of(const struct gk_scene *scene, uint32_t input_set)
{
    return input_set % GK_INPUT_SETS % scene->slots;
}

uint32_t gk_scene_slot_beside(const struct gk_scene *scene, uint32_t which)
{
    return scene->slots + which;
}

enum gk_input_kind gk_scene_left_out(const struct gk_scene *scene)
{
    return scene->left_out;
}

void gk_scene_memory(const struct gk_scene *scene, uint32_t slot, struct gk_memory *memory)
{
    for (uint32_t i = 0; i < scene->tensor_count; i++) {
        const struct scene_tensor *tensor = &scene->tensors[i];
        if (tensor->present) {
            memory->tensors[i] = (struct gk_buffer){
                .base = scene_address(scene, slot, i) - scene_front(scene, slot, i),
                .address = scene_address(scene, slot, i),
                .front = scene_front(scene, slot, i),
                .bytes = tensor->bytes,
                .back = SCENE_GUARD_BYTES,
            };
        }
    }
}

/* ------------------------------------------------------------------ segments */

enum gk_status scene_segment(struct scene_segments *list, const struct gk_segment *segment,
                             uint32_t kind, uint32_t slot, uint32_t tensor, struct gk_err *err)
{
    if (segment->bytes == 0) {
        return GK_OK;
    }
    if (list->count == list->room) {
        uint32_t room = list->room ? 2 * list->room : 64;
        struct gk_segment *segments = realloc(list->segments, room * sizeof *segments);
        list->segments = segments ? segments : list->segments;
        struct scene_label *labels = realloc(list->labels, room * sizeof *labels);
        list->labels = labels ? labels : list->labels;
        if (!segments || !labels) {
            return gk_fail(err, GK_NOMEM, "out of memory for %" PRIu32 " segments", room);
        }
        list->room = room;
    }
    list->segments[list->count] = *segment;
    list->labels[list->count++] = (struct scene_label){kind, slot, tensor};
    return GK_OK;
}

void scene_segments_fini(struct scene_segments *list)
{
    free(list->segments);
    free(list->labels);
    memset(list, 0, sizeof *list);
}

/* Guards of one tensor of one slot. */
enum gk_status scene_guards(const struct gk_scene *scene, uint32_t slot, uint32_t tensor,
                            struct scene_segments *list, struct gk_err *err)
{
    const struct scene_tensor *t = &scene->tensors[tensor];
    uint64_t address = scene_address(scene, slot, tensor);
    struct gk_segment front = {.address = address - scene_front(scene, slot, tensor),
                               .bytes = scene_front(scene, slot, tensor),
                               .pattern = {SCENE_GUARD_BYTE},
                               .pattern_bytes = 1};
    struct gk_segment back = {.address = address + t->bytes,
                              .bytes = SCENE_GUARD_BYTES,
                              .pattern = {SCENE_GUARD_BYTE},
                              .pattern_bytes = 1};
    enum gk_status status = scene_segment(list, &front, SCENE_GUARD_FRONT, slot, tensor, err);
    return status == GK_OK ? scene_segment(list, &back, SCENE_GUARD_BACK, slot, tensor, err)
                           : status;
}

/* What a tensor of a slot holds before a candidate runs: its input, or poison. */
enum gk_status scene_content(const struct gk_scene *scene, uint32_t slot, uint32_t tensor,
                             struct scene_segments *list, struct gk_err *err)
{
    const struct scene_tensor *t = &scene->tensors[tensor];
    struct gk_segment segment = {.address = scene_address(scene, slot, tensor), .bytes = t->bytes};
    if (t->is_input) {
        segment.same_as = scene->sets[scene_set_of(scene, slot)].inputs[tensor];
    } else {
        memcpy(segment.pattern, t->poison, sizeof segment.pattern);
        segment.pattern_bytes = t->poison_bytes;
    }
    return scene_segment(list, &segment, t->is_input ? SCENE_INPUT : SCENE_OUTPUT, slot, tensor,
                         err);
}

static enum gk_status paint(struct gk_scene *scene, const struct scene_segments *list,
                            struct gk_err *err)
{
    return list->count == 0
               ? GK_OK
               : gk_inspector_paint(scene->inspector, list->segments, list->count, err);
}

/* ------------------------------------------------------------------ inputs */

static enum gk_status alloc_hidden(struct gk_device *device, const char *name, uint64_t bytes,
                                   uint64_t *address_out, struct gk_err *err)
{
    bytes = bytes ? bytes : 1;
    return device->ops->alloc_hidden
               ? device->ops->alloc_hidden(device, name, bytes, address_out, err)
               : device->ops->alloc(device, name, bytes, SLOT_ALIGN, address_out, err);
}

enum gk_status scene_show(struct gk_scene *scene, uint64_t address, struct gk_err *err)
{
    return scene->device->ops->show && address
               ? scene->device->ops->show(scene->device, address, err)
               : GK_OK;
}

enum gk_status scene_show_inputs(struct gk_scene *scene, struct gk_err *err)
{
    return scene_show(scene, scene->pristine, err);
}

/* On the device where a generator works element by element; the others are short lists. */
static enum gk_status generate(struct gk_scene *scene, const struct gk_plan *plan, uint32_t tensor,
                               uint64_t seed, enum gk_input_kind inputs, uint64_t address,
                               struct gk_err *err)
{
    struct gk_err why = {0};
    enum gk_status status =
        gk_inspector_generate(scene->inspector, plan, tensor, seed, inputs, address, &why);
    if (status != GK_UNSUPPORTED) {
        return status == GK_OK ? GK_OK : gk_fail(err, status, "%s", why.text);
    }
    size_t bytes = (size_t)scene->tensors[tensor].bytes;
    unsigned char *host = malloc(bytes + 1);
    status = host ? gk_generate(plan, tensor, seed, inputs, host, err)
                  : gk_fail(err, GK_NOMEM, "out of memory for %zu bytes of %s", bytes,
                            scene->tensors[tensor].name);
    if (status == GK_OK && bytes > 0) {
        status = scene->device->ops->write(scene->device, address, host, bytes, err);
    }
    free(host);
    return status;
}

static bool has_set(const struct gk_scene *scene, uint32_t set)
{
    return set >= SCENE_BESIDE ? set - SCENE_BESIDE < scene->beside.count : set < scene->slots;
}

/* Calls to map memory cost more than its size, so that all inputs lie in one allocation. */
static enum gk_status make_inputs(struct gk_scene *scene, const struct gk_plan *plan,
                                  struct gk_err *err)
{
    uint64_t each = 0;
    uint32_t sets = 0;
    for (uint32_t i = 0; i < scene->tensor_count; i++) {
        each += scene->tensors[i].is_input ? round_up(scene->tensors[i].bytes, SLOT_ALIGN) : 0;
    }
    for (uint32_t set = 0; set < SCENE_SETS; set++) {
        sets += has_set(scene, set);
    }
    enum gk_status status =
        alloc_hidden(scene->device, "inputs", sets * each, &scene->pristine, err);
    uint64_t at = scene->pristine;
    for (uint32_t set = 0; set < SCENE_SETS && status == GK_OK; set++) {
        enum gk_input_kind inputs =
            set >= SCENE_BESIDE ? scene->beside.kinds[set - SCENE_BESIDE] : GK_INPUTS_DRAWN;
        uint64_t seed = gk_input_seed(inputs ? 0 : set, inputs);
        for (uint32_t i = 0; i < scene->tensor_count && has_set(scene, set) && status == GK_OK;
             i++) {
            if (scene->tensors[i].is_input) {
                scene->sets[set].inputs[i] = at;
                status = generate(scene, plan, i, seed, inputs, at, err);
                at += round_up(scene->tensors[i].bytes, SLOT_ALIGN);
            }
        }
    }
    return status;
}

/* Guards and inputs of slots from..to-1; their outputs too if wanted, which a reset does else. */
static enum gk_status furnish(struct gk_scene *scene, uint32_t from, uint32_t to, bool outputs,
                              struct gk_err *err)
{
    struct scene_segments list = {0};
    enum gk_status status = GK_OK;
    for (uint32_t slot = from; slot < to && status == GK_OK; slot++) {
        for (uint32_t i = 0; i < scene->tensor_count && status == GK_OK; i++) {
            if (scene->tensors[i].present) {
                status = scene_guards(scene, slot, i, &list, err);
            }
            if (status == GK_OK && scene->tensors[i].present &&
                (outputs || scene->tensors[i].is_input)) {
                status = scene_content(scene, slot, i, &list, err);
            }
        }
    }
    status = status == GK_OK ? paint(scene, &list, err) : status;
    scene_segments_fini(&list);
    return status;
}

static enum gk_status make_arena(struct gk_scene *scene, struct gk_err *err)
{
    uint32_t slots = slots_first(scene);
    enum gk_status status = scene->device->ops->alloc(
        scene->device, "arena", slots * scene->slot_bytes, scene->slot_align, &scene->arena, err);
    return status == GK_OK ? furnish(scene, 0, slots, false, err) : status;
}

/* ------------------------------------------------------------------ life */

static void scene_destroy(struct gk_scene *scene)
{
    if (!scene) {
        return;
    }
    const struct gk_device_ops *ops = scene->device->ops;
    for (uint32_t set = 0; set < SCENE_SETS; set++) {
        for (uint32_t i = 0; i < GK_TENSORS_MAX; i++) {
            if (scene->sets[set].pairs[i]) {
                (void)ops->release(scene->device, scene->sets[set].pairs[i], NULL);
            }
        }
    }
    const uint64_t blocks[] = {scene->pristine, scene->arena, scene->more};
    for (uint32_t i = 0; i < GK_ARRAY_COUNT(blocks); i++) {
        if (blocks[i]) {
            (void)ops->release(scene->device, blocks[i], NULL);
        }
    }
    free(scene);
}

struct gk_scenes *gk_scenes_create(struct gk_device *device, struct gk_inspector *inspector,
                                   uint64_t bytes_max)
{
    struct gk_scenes *scenes = calloc(1, sizeof *scenes);
    if (scenes) {
        scenes->device = device;
        scenes->inspector = inspector;
        scenes->bytes_max = bytes_max;
    }
    return scenes;
}

void gk_scenes_destroy(struct gk_scenes *scenes)
{
    if (!scenes) {
        return;
    }
    while (scenes->first) {
        struct gk_scene *next = scenes->first->next;
        scene_destroy(scenes->first);
        scenes->first = next;
    }
    free(scenes);
}

/* Drops the scenes used longest ago, but for one, until `bytes` more fit. */
static void make_room(struct gk_scenes *scenes, uint64_t bytes, const struct gk_scene *but)
{
    for (;;) {
        uint64_t sum = bytes;
        struct gk_scene **last = NULL;
        for (struct gk_scene **at = &scenes->first; *at; at = &(*at)->next) {
            sum += (*at)->bytes;
            last = *at == but ? last : at;
        }
        if (!last || sum <= scenes->bytes_max) {
            return;
        }
        struct gk_scene *scene = *last;
        *last = scene->next;
        scene_destroy(scene);
    }
}

bool gk_scenes_drop_others(struct gk_scenes *scenes)
{
    bool any = false;
    for (struct gk_scene **at = &scenes->first; *at;) {
        struct gk_scene *scene = *at;
        if (scene->id == scenes->lent) {
            at = &scene->next;
            continue;
        }
        *at = scene->next;
        scene_destroy(scene);
        any = true;
    }
    return any;
}

static struct gk_hash key_of(const struct gk_plan *plan, const struct gk_problem *problem)
{
    struct gk_hasher hasher;
    gk_hasher_init(&hasher);
    gk_hasher_part(&hasher, plan->op->meaning.bytes, GK_HASH_SIZE);
    gk_hasher_part(&hasher, problem->id.bytes, GK_HASH_SIZE);
    return gk_hasher_final(&hasher);
}

/* Device memory of a scene once all of its references are computed: two doubles an element and set
 * are soon more than everything else. */
static uint64_t bytes_of(const struct gk_scene *scene, const struct gk_plan *plan)
{
    uint32_t slots = slots_first(scene);
    uint32_t sets =
        (scene->slots < GK_INPUT_SETS ? scene->slots : GK_INPUT_SETS) + scene->beside.count;
    uint64_t bytes = slots * scene->slot_bytes;
    for (uint32_t i = 0; i < scene->tensor_count; i++) {
        const struct scene_tensor *tensor = &scene->tensors[i];
        bytes += tensor->is_input ? sets * round_up(tensor->bytes, SLOT_ALIGN) : 0;
        bytes += tensor->is_output ? sets * result_bytes(plan, i) : 0;
    }
    return bytes;
}

static enum gk_status scene_make(struct gk_scenes *scenes, const struct gk_plan *plan,
                                 const struct gk_besides *beside, struct gk_scene *scene,
                                 struct gk_err *err)
{
    scene->tensor_count = plan->op->tensor_count;
    scene->slot_align = SLOT_ALIGN;
    lay_out(scene, plan);
    scene->beside = *beside;
    enum gk_status status = count_slots(scene, &scenes->device->props, err);
    if (status != GK_OK) {
        return status;
    }
    scene->bytes = bytes_of(scene, plan);
    make_room(scenes, scene->bytes, NULL);
    status = make_inputs(scene, plan, err);
    return status == GK_OK ? make_arena(scene, err) : status;
}

enum gk_status gk_scene_get(struct gk_scenes *scenes, const struct gk_plan *plan,
                            const struct gk_problem *problem, const struct gk_besides *beside,
                            struct gk_scene **scene_out, struct gk_err *err)
{
    struct gk_hash key = key_of(plan, problem);
    scenes->lent = 0;
    for (struct gk_scene **at = &scenes->first; *at; at = &(*at)->next) {
        struct gk_scene *scene = *at;
        if (gk_hash_equal(&scene->key, &key)) {
            *at = scene->next;
            scene->next = scenes->first;
            scenes->first = scene;
            bool rested = scenes->ran != scene->id;
            scene->op = plan->op;
            scenes->lent = scenes->ran = scene->id;
            *scene_out = scene;
            /* A candidate of another problem may have hit it, which this one must not answer for.
             */
            return rested ? gk_scene_clean(scene, err) : GK_OK;
        }
    }
    struct gk_scene *scene = calloc(1, sizeof *scene);
    if (!scene) {
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    scene->key = key;
    scene->id = ++scenes->made;
    scene->device = scenes->device;
    scene->inspector = scenes->inspector;
    scene->op = plan->op;
    enum gk_status status = scene_make(scenes, plan, beside, scene, err);
    if (status != GK_OK) {
        scene_destroy(scene);
        return status;
    }
    scene->next = scenes->first;
    scenes->first = scene;
    scenes->lent = scenes->ran = scene->id;
    *scene_out = scene;
    return GK_OK;
}

enum gk_status gk_scene_widen(struct gk_scenes *scenes, struct gk_scene *scene, struct gk_err *err)
{
    const uint64_t bytes = scene->slots * scene->slot_bytes;
    const uint32_t first = slots_first(scene);
    struct gk_err why = {0};
    if (scene->more) {
        return GK_OK;
    }
    uint64_t segments = (uint64_t)(scene->slots + first) * scene->tensor_count * SEGMENTS_A_TENSOR;
    if (segments > GK_SEGMENTS_MAX || scene->bytes + bytes > scenes->bytes_max) {
        return gk_fail(err, GK_LIMIT,
                       "twice the sets take %" PRIu64 " bytes more; scenes may take %" PRIu64
                       ", and a scene %d segments",
                       bytes, scenes->bytes_max, GK_SEGMENTS_MAX);
    }
    make_room(scenes, bytes, scene);
    enum gk_status status = scene_show_inputs(scene, err);
    if (status != GK_OK) {
        return status;
    }
    status = scene->device->ops->alloc(scene->device, "twice the sets", bytes, scene->slot_align,
                                       &scene->more, &why);
    if (status != GK_OK) {
        return gk_fail(err, status == GK_NOMEM ? GK_LIMIT : status, "%s", why.text);
    }
    scene->bytes += bytes;
    return furnish(scene, first, scene_slots_all(scene), true, err);
}

bool gk_scene_alive(const struct gk_scenes *scenes, uint64_t id)
{
    const struct gk_scene *scene = scenes->first;
    while (scene && scene->id != id) {
        scene = scene->next;
    }
    return scene != NULL;
}

uint64_t gk_scene_id(const struct gk_scene *scene)
{
    return scene->id;
}

uint32_t gk_scene_slots(const struct gk_scene *scene)
{
    return scene->slots;
}

uint64_t gk_scene_rotation_bytes(const struct gk_scene *scene)
{
    return scene->slots * scene->content_bytes;
}

/* ------------------------------------------------------------------ before a run */

static bool has_inout(const struct gk_scene *scene)
{
    bool any = false;
    for (uint32_t i = 0; i < scene->tensor_count; i++) {
        any = any || (scene->tensors[i].is_input && scene->tensors[i].is_output);
    }
    return any;
}

enum gk_status gk_scene_hide(struct gk_scene *scene, struct gk_err *err)
{
    return scene->device->ops->hide ? scene->device->ops->hide(scene->device, true, err) : GK_OK;
}

enum gk_status gk_scene_reset(struct gk_scene *scene, struct gk_err *err)
{
    uint32_t slots = scene_slots_all(scene);
    struct scene_segments list = {0};
    enum gk_status status = has_inout(scene) ? scene_show_inputs(scene, err) : GK_OK;
    for (uint32_t slot = 0; slot < slots && status == GK_OK; slot++) {
        for (uint32_t i = 0; i < scene->tensor_count && status == GK_OK; i++) {
            if (scene->tensors[i].present && scene->tensors[i].is_output) {
                status = scene_content(scene, slot, i, &list, err);
            }
        }
    }
    status = status == GK_OK ? paint(scene, &list, err) : status;
    scene_segments_fini(&list);
    return status == GK_OK ? gk_scene_hide(scene, err) : status;
}

enum gk_status gk_scene_clean(struct gk_scene *scene, struct gk_err *err)
{
    struct scene_segments list = {0};
    enum gk_status status = scene_show_inputs(scene, err);
    if (status == GK_OK) {
        status = scene_gather(scene, &(struct scene_ran){0}, &list, err);
    }
    status = status == GK_OK ? paint(scene, &list, err) : status;
    scene_segments_fini(&list);
    return status;
}

enum gk_status gk_scene_restore(struct gk_scene *scene, struct gk_err *err)
{
    return has_inout(scene) ? gk_scene_reset(scene, err) : GK_OK;
}

/* ------------------------------------------------------------------ the reference */

static enum gk_status make_results(struct gk_scene *scene, const struct gk_plan *plan, uint32_t set,
                                   struct gk_memory *memory, struct gk_err *err)
{
    /* NaN: what the reference leaves out, no candidate can match. */
    static const unsigned char nothing = 0xff;
    for (uint32_t i = 0; i < scene->tensor_count; i++) {
        const struct scene_tensor *tensor = &scene->tensors[i];
        uint64_t bytes = result_bytes(plan, i);
        if (!tensor->present || !tensor->is_output) {
            continue;
        }
        uint64_t *pairs = &scene->sets[set].pairs[i];
        enum gk_status status = *pairs
                                    ? scene_show(scene, *pairs, err)
                                    : alloc_hidden(scene->device, tensor->name, bytes, pairs, err);
        if (status == GK_OK && bytes > 0) {
            status = scene->device->ops->fill(scene->device, *pairs, bytes, &nothing, 1, err);
        }
        if (status != GK_OK) {
            return status;
        }
        memory->results[i].base = memory->results[i].address = *pairs;
        memory->results[i].bytes = bytes;
    }
    return GK_OK;
}

#define REFERENCE_PATIENCE_MS 120000 /* double sums of the largest problems take seconds */

static enum gk_status compute(struct gk_scene *scene, const struct gk_plan *plan, uint32_t set,
                              const struct gk_compile_output *code, struct gk_err *err)
{
    struct gk_memory memory = {0};
    struct gk_loaded loaded = {0};
    struct gk_run *run = calloc(1, sizeof *run);
    for (uint32_t i = 0; i < scene->tensor_count; i++) {
        if (scene->tensors[i].present && scene->tensors[i].is_input) {
            memory.tensors[i].base = memory.tensors[i].address = scene->sets[set].inputs[i];
            memory.tensors[i].bytes = scene->tensors[i].bytes;
        }
    }
    enum gk_status status = run ? gk_plan_load(scene->device, plan, &code, &loaded, err)
                                : gk_fail(err, GK_NOMEM, "out of memory");
    if (status == GK_OK) {
        status = make_results(scene, plan, set, &memory, err);
    }
    if (status == GK_OK && scene->device->ops->patience) {
        scene->device->ops->patience(scene->device, REFERENCE_PATIENCE_MS);
    }
    if (status == GK_OK) {
        status = gk_plan_run(scene->device, plan, &loaded, &memory, run, err);
        if (status == GK_TRIAL) {
            status = gk_fail(err, GK_TRIAL, "%s", run->report.text);
        }
    }
    gk_plan_unload(scene->device, &loaded);
    free(run);
    return status;
}

enum gk_status gk_scene_reference(struct gk_scene *scene, const struct gk_problem *problem,
                                  uint32_t slot, const struct gk_compile_output *code,
                                  struct gk_err *err)
{
    uint32_t set = scene_set_of(scene, slot);
    if (scene->sets[set].computed) {
        return GK_OK;
    }
    struct gk_plan *plan = calloc(1, sizeof *plan);
    if (!plan) {
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    enum gk_status status = gk_plan_reference(scene->op, problem, &scene->device->props, plan, err);
    if (status == GK_OK) {
        status = scene_show_inputs(scene, err);
    }
    if (status == GK_OK) {
        status = compute(scene, plan, set, code, err);
    }
    scene->sets[set].computed = status == GK_OK;
    if (status != GK_OK) {
        status = gk_fail_in(err, status, "reference of %s", scene->op->fields.op);
    }
    gk_plan_fini(plan);
    free(plan);
    return status;
}
