/* Reference results: see reference.h. */
#include "worker/reference.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "worker/generate.h"

struct entry {
    struct entry *next; /* most recently used first */
    struct gk_hash key;
    size_t bytes;
    struct gk_reference reference;
};

struct gk_references {
    struct entry *first;
    size_t bytes, bytes_max;
};

struct gk_references *gk_references_create(size_t bytes_max)
{
    struct gk_references *references = calloc(1, sizeof *references);
    if (references) {
        references->bytes_max = bytes_max;
    }
    return references;
}

static void entry_destroy(struct entry *entry)
{
    if (!entry) {
        return;
    }
    for (uint32_t i = 0; i < GK_TENSORS_MAX; i++) {
        free(entry->reference.inputs.tensors[i]);
        free(entry->reference.pairs[i]);
    }
    free(entry);
}

void gk_references_destroy(struct gk_references *references)
{
    if (!references) {
        return;
    }
    while (references->first) {
        struct entry *next = references->first->next;
        entry_destroy(references->first);
        references->first = next;
    }
    free(references);
}

static struct gk_hash key_of(const struct gk_plan *plan, const struct gk_problem *problem,
                             const struct gk_device *device, uint32_t input_set,
                             enum gk_input_kind inputs)
{
    struct gk_hasher hasher;
    unsigned char set[2] = {(unsigned char)input_set, (unsigned char)inputs};
    gk_hasher_init(&hasher);
    gk_hasher_part(&hasher, plan->op->reference.tokens.bytes, GK_HASH_SIZE);
    gk_hasher_part(&hasher, problem->id.bytes, GK_HASH_SIZE);
    gk_hasher_text(&hasher, device->props.device);
    gk_hasher_part(&hasher, set, sizeof set);
    return gk_hasher_final(&hasher);
}

static struct entry *find(struct gk_references *references, const struct gk_hash *key)
{
    for (struct entry **at = &references->first; *at; at = &(*at)->next) {
        if (gk_hash_equal(&(*at)->key, key)) {
            struct entry *entry = *at;
            *at = entry->next;
            entry->next = references->first;
            references->first = entry;
            return entry;
        }
    }
    return NULL;
}

/* Keeps at least the newest: one problem larger than the bound still works. */
static void shrink(struct gk_references *references)
{
    while (references->bytes > references->bytes_max && references->first->next) {
        struct entry **last = &references->first->next;
        while ((*last)->next) {
            last = &(*last)->next;
        }
        references->bytes -= (*last)->bytes;
        entry_destroy(*last);
        *last = NULL;
    }
}

static enum gk_status make_inputs(struct entry *entry, const struct gk_plan *plan,
                                  uint32_t input_set, enum gk_input_kind inputs, struct gk_err *err)
{
    uint64_t seed = gk_input_seed(input_set, inputs);
    for (uint32_t i = 0; i < plan->op->tensor_count; i++) {
        const struct gk_plan_tensor *tensor = &plan->tensors[i];
        if (!tensor->present || tensor->def->role == GK_TENSOR_OUT) {
            continue;
        }
        size_t bytes = gk_plan_tensor_bytes(tensor);
        unsigned char *data = calloc(1, bytes + 1);
        entry->reference.inputs.tensors[i] = data;
        if (!data) {
            return gk_fail(err, GK_NOMEM, "out of memory for %zu bytes of %s", bytes,
                           tensor->def->name);
        }
        entry->bytes += bytes;
        enum gk_status status = gk_generate(plan, i, seed, inputs, data, err);
        if (status != GK_OK) {
            return status;
        }
    }
    return GK_OK;
}

static enum gk_status read_results(struct entry *entry, struct gk_device *device,
                                   const struct gk_plan *plan, const struct gk_memory *memory,
                                   struct gk_err *err)
{
    for (uint32_t i = 0; i < plan->op->tensor_count; i++) {
        const struct gk_buffer *result = &memory->results[i];
        uint64_t unwritten = 0;
        if (!result->base) {
            continue;
        }
        entry->reference.pairs[i] = calloc(1, result->bytes + 1);
        if (!entry->reference.pairs[i]) {
            return gk_fail(err, GK_NOMEM, "out of memory for the reference");
        }
        entry->bytes += result->bytes;
        enum gk_status status =
            result->bytes == 0 ? GK_OK
                               : device->ops->read(device, result->address,
                                                   entry->reference.pairs[i], result->bytes, err);
        if (status == GK_OK && result->bytes > 0 && device->ops->unwritten) {
            status =
                device->ops->unwritten(device, result->address, result->bytes, &unwritten, err);
        }
        if (status == GK_OK && unwritten > 0) {
            status = gk_fail(err, GK_TRIAL, "reference: %" PRIu64 " bytes of %s were never written",
                             unwritten, plan->tensors[i].def->name);
        }
        if (status != GK_OK) {
            return status;
        }
    }
    return GK_OK;
}

static enum gk_status compute(struct entry *entry, struct gk_device *device,
                              const struct gk_problem *problem, const struct gk_op *op,
                              const struct gk_compile_output *code, struct gk_err *err)
{
    struct gk_plan *plan = calloc(1, sizeof *plan);
    struct gk_run *run = calloc(1, sizeof *run);
    struct gk_memory memory = {0};
    struct gk_loaded loaded = {0};
    enum gk_status status = GK_OK;
    if (!plan || !run) {
        status = gk_fail(err, GK_NOMEM, "out of memory");
        goto out;
    }
    status = gk_plan_reference(op, problem, &device->props, plan, err);
    if (status == GK_OK) {
        status = gk_plan_load(device, plan, &code, &loaded, err);
    }
    if (status == GK_OK) {
        status = gk_memory_make(device, plan, &memory, err);
    }
    if (status == GK_OK) {
        status = gk_memory_reset(device, plan, &memory, &entry->reference.inputs, true, err);
    }
    if (status == GK_OK) {
        status = gk_plan_run(device, plan, &loaded, &memory, run, err);
    }
    if (status == GK_OK) {
        status = read_results(entry, device, plan, &memory, err);
    }
    if (status != GK_OK) {
        status = gk_fail_in(err, status, "reference of %s", op->fields.op);
    }
out:
    gk_memory_free(device, &memory);
    gk_plan_unload(device, &loaded);
    gk_plan_fini(plan);
    free(plan);
    free(run);
    return status;
}

enum gk_status gk_reference_get(struct gk_references *references, struct gk_device *device,
                                const struct gk_plan *plan, const struct gk_problem *problem,
                                const struct gk_compile_output *code, uint32_t input_set,
                                enum gk_input_kind inputs,
                                const struct gk_reference **reference_out, struct gk_err *err)
{
    struct gk_hash key = key_of(plan, problem, device, input_set, inputs);
    struct entry *entry = find(references, &key);
    if (!entry) {
        entry = calloc(1, sizeof *entry);
        if (!entry) {
            return gk_fail(err, GK_NOMEM, "out of memory");
        }
        entry->key = key;
        enum gk_status status = make_inputs(entry, plan, input_set, inputs, err);
        if (status == GK_OK) {
            status = compute(entry, device, problem, plan->op, code, err);
        }
        if (status != GK_OK) {
            entry_destroy(entry);
            return status;
        }
        entry->next = references->first;
        references->first = entry;
        references->bytes += entry->bytes;
        shrink(references);
    }
    *reference_out = &entry->reference;
    return GK_OK;
}
