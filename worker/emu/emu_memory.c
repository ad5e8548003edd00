/*
 * Arenas of the emulated device: allocations with bounds, a bit a byte that says "written", and
 * the host's side of the API. Addresses only grow and are separated by guard gaps, so a stray
 * pointer meets nothing and a use after free is told from a use of something newer.
 */
#include "worker/emu/emu_inside.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Between allocations: larger than any vector access or small index slip. */
#define GUARD_BYTES   65536u
#define ALIGN_DEFAULT 256u
#define SLACK_BYTES   64u /* behind the bytes, so that vector code may load past the end unharmed */

/* ------------------------------------------------------------------ bits */

void emu_bits_set(unsigned char *bits, uint64_t first, uint64_t count)
{
    uint64_t end = first + count;

    while (first < end && (first & 7)) {
        bits[first >> 3] = (unsigned char)(bits[first >> 3] | 1u << (first & 7));
        first++;
    }
    if (end - first >= 8) {
        memset(bits + (first >> 3), 0xff, (size_t)((end - first) >> 3));
        first += (end - first) & ~7ull;
    }
    for (; first < end; first++) {
        bits[first >> 3] = (unsigned char)(bits[first >> 3] | 1u << (first & 7));
    }
}

void emu_bits_clear(unsigned char *bits, uint64_t first, uint64_t count)
{
    uint64_t end = first + count;

    while (first < end && (first & 7)) {
        bits[first >> 3] = (unsigned char)(bits[first >> 3] & ~(1u << (first & 7)));
        first++;
    }
    if (end - first >= 8) {
        memset(bits + (first >> 3), 0, (size_t)((end - first) >> 3));
        first += (end - first) & ~7ull;
    }
    for (; first < end; first++) {
        bits[first >> 3] = (unsigned char)(bits[first >> 3] & ~(1u << (first & 7)));
    }
}

uint64_t emu_bits_count(const unsigned char *bits, uint64_t first, uint64_t count)
{
    uint64_t end = first + count, total = 0;

    while (first < end && (first & 63)) {
        total += (uint64_t)(bits[first >> 3] >> (first & 7)) & 1u;
        first++;
    }
    for (; first + 64 <= end; first += 64) {
        uint64_t word;

        memcpy(&word, bits + (first >> 3), sizeof(word));
        total += (uint64_t)__builtin_popcountll(word);
    }
    for (; first < end; first++) {
        total += (uint64_t)(bits[first >> 3] >> (first & 7)) & 1u;
    }
    return total;
}

/* ------------------------------------------------------------------ allocations */

static void alloc_destroy(struct emu_alloc *alloc)
{
    if (alloc) {
        free(alloc->bytes);
        free(alloc->written);
        free(alloc->touched);
        emu_shadow_fini(&alloc->shadow);
        for (unsigned i = 0; i < EMU_AHEAD_LEVELS; i++) {
            emu_shadow_fini(&alloc->ahead[i]);
        }
        free(alloc);
    }
}

static struct emu_alloc *alloc_create(const char *name, uint64_t bytes)
{
    struct emu_alloc *alloc = calloc(1, sizeof(*alloc));

    if (!alloc) {
        return NULL;
    }
    alloc->size = bytes;
    alloc->bytes = calloc(1, (size_t)bytes + SLACK_BYTES);
    alloc->written = calloc(1, (size_t)(bytes / 8) + 16);
    alloc->touched = calloc(1, (size_t)(bytes / EMU_PAGE_BYTES / 8) + 16);
    if (!alloc->bytes || !alloc->written || !alloc->touched) {
        alloc_destroy(alloc);
        return NULL;
    }
    memcpy(alloc->name, name, strnlen(name, EMU_NAME_MAX - 1));
    return alloc;
}

enum gk_status emu_memory_alloc(struct emu_memory *memory, const char *name, uint64_t bytes,
                                uint64_t align, struct emu_alloc **out, struct gk_err *err)
{
    struct emu_alloc *alloc;

    align = align ? align : ALIGN_DEFAULT;
    if (align & (align - 1) || align > (1ull << 30)) {
        return gk_fail(err, GK_USAGE,
                       "allocation '%s': alignment %" PRIu64 " is not a power of two up to 2^30",
                       name, align);
    }
    if (bytes > memory->limit_bytes || memory->used_bytes > memory->limit_bytes - bytes) {
        return gk_fail(err, GK_LIMIT,
                       "allocation '%s' of %" PRIu64 " bytes: %" PRIu64 " of the emulated device's "
                       "%" PRIu64 " bytes are in use",
                       name, bytes, memory->used_bytes, memory->limit_bytes);
    }
    if (memory->count == memory->capacity) {
        size_t capacity = memory->capacity ? memory->capacity * 2 : 64;
        struct emu_alloc **grown = realloc(memory->allocs, capacity * sizeof(*grown));

        if (!grown) {
            return gk_fail(err, GK_NOMEM, "allocation '%s': list of %zu", name, capacity);
        }
        memory->allocs = grown;
        memory->capacity = capacity;
    }
    alloc = alloc_create(name, bytes);
    if (!alloc) {
        return gk_fail(err, GK_NOMEM,
                       "allocation '%s' of %" PRIu64 " bytes: the host has no "
                       "memory for it",
                       name, bytes);
    }
    if (!memory->next_address) {
        memory->next_address = EMU_GLOBAL_BASE;
    }
    alloc->address = (memory->next_address + align - 1) & ~(align - 1);
    memory->next_address = ((alloc->address + bytes + GUARD_BYTES) & ~255ull) + 256;
    memory->used_bytes += bytes;
    memory->allocs[memory->count++] = alloc;
    *out = alloc;
    return GK_OK;
}

void emu_memory_free(struct emu_memory *memory, struct emu_alloc *alloc)
{
    for (size_t i = 0; i < memory->count; i++) {
        if (memory->allocs[i] == alloc) {
            memory->count--;
            memmove(memory->allocs + i, memory->allocs + i + 1,
                    (memory->count - i) * sizeof(*memory->allocs));
            memory->used_bytes -= alloc->size;
            memory->last = 0;
            alloc_destroy(alloc);
            return;
        }
    }
}

void emu_memory_fini(struct emu_memory *memory)
{
    for (size_t i = 0; i < memory->count; i++) {
        alloc_destroy(memory->allocs[i]);
    }
    free(memory->allocs);
    *memory = (struct emu_memory){0};
}

/* Index of the last allocation that begins at or before the address; count if there is none. */
static size_t index_before(const struct emu_memory *memory, uint64_t address)
{
    size_t low = 0, high = memory->count;

    while (low < high) {
        size_t middle = (low + high) / 2;

        if (memory->allocs[middle]->address <= address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low ? low - 1 : memory->count;
}

static bool holds(const struct emu_alloc *alloc, uint64_t address, uint64_t size)
{
    return address >= alloc->address && size <= alloc->size &&
           address - alloc->address <= alloc->size - size;
}

struct emu_alloc *emu_memory_find(struct emu_memory *memory, uint64_t address, uint64_t size)
{
    size_t at;

    if (memory->last < memory->count && holds(memory->allocs[memory->last], address, size)) {
        return memory->allocs[memory->last];
    }
    at = index_before(memory, address);
    if (at == memory->count || !holds(memory->allocs[at], address, size)) {
        return NULL;
    }
    memory->last = at;
    return memory->allocs[at];
}

const struct emu_alloc *emu_memory_nearest(const struct emu_memory *memory, uint64_t address)
{
    size_t at = index_before(memory, address);
    const struct emu_alloc *before, *after;

    if (!memory->count) {
        return NULL;
    }
    if (at == memory->count) {
        return memory->allocs[0];
    }
    before = memory->allocs[at];
    if (at + 1 == memory->count || address - before->address < before->size) {
        return before;
    }
    after = memory->allocs[at + 1];
    return address - (before->address + before->size) <= after->address - address ? before : after;
}

/* ------------------------------------------------------------------ the host's side */

enum gk_status gk_emu_alloc(struct gk_emu *emu, const char *name, uint64_t bytes, uint64_t align,
                            uint64_t *address_out, struct gk_err *err)
{
    struct emu_alloc *alloc = NULL;
    enum gk_status status = emu_memory_alloc(&emu->memory, name, bytes, align, &alloc, err);

    if (status == GK_OK) {
        *address_out = alloc->address;
    }
    return status;
}

enum gk_status gk_emu_free(struct gk_emu *emu, uint64_t address, struct gk_err *err)
{
    size_t at = index_before(&emu->memory, address);

    if (at == emu->memory.count || emu->memory.allocs[at]->address != address) {
        return gk_fail(err, GK_NOT_FOUND,
                       "free of 0x%" PRIx64 ": no allocation of the emulated device begins there",
                       address);
    }
    emu_memory_free(&emu->memory, emu->memory.allocs[at]);
    return GK_OK;
}

static enum gk_status find_range(struct gk_emu *emu, const char *verb, uint64_t address,
                                 uint64_t size, struct emu_alloc **out, struct gk_err *err)
{
    const struct emu_alloc *nearest;

    *out = emu_memory_find(&emu->memory, address, size);
    if (*out) {
        return GK_OK;
    }
    nearest = emu_memory_nearest(&emu->memory, address);
    if (!nearest) {
        return gk_fail(err, GK_RANGE,
                       "%s of %" PRIu64 " bytes at 0x%" PRIx64
                       ": the emulated device holds no allocation",
                       verb, size, address);
    }
    return gk_fail(err, GK_RANGE,
                   "%s of %" PRIu64 " bytes at 0x%" PRIx64 " is not inside one "
                   "allocation; the nearest is '%s', %" PRIu64 " bytes at 0x%" PRIx64,
                   verb, size, address, nearest->name, nearest->size, nearest->address);
}

static void mark(struct emu_alloc *alloc, uint64_t offset, uint64_t size)
{
    if (alloc->all_written) {
        return;
    }
    if (offset == 0 && size == alloc->size) {
        alloc->all_written = true;
    }
    emu_bits_set(alloc->written, offset, size);
}

enum gk_status gk_emu_write(struct gk_emu *emu, uint64_t address, const void *bytes, uint64_t size,
                            struct gk_err *err)
{
    struct emu_alloc *alloc = NULL;
    enum gk_status status = find_range(emu, "write", address, size, &alloc, err);

    emu_ahead_forget(emu);
    if (status == GK_OK && size) {
        memcpy(alloc->bytes + (address - alloc->address), bytes, (size_t)size);
        mark(alloc, address - alloc->address, size);
    }
    return status;
}

enum gk_status gk_emu_read(struct gk_emu *emu, uint64_t address, void *bytes, uint64_t size,
                           struct gk_err *err)
{
    struct emu_alloc *alloc = NULL;
    enum gk_status status = find_range(emu, "read", address, size, &alloc, err);

    emu_ahead_forget(emu);
    if (status == GK_OK && size) {
        memcpy(bytes, alloc->bytes + (address - alloc->address), (size_t)size);
    }
    return status;
}

enum gk_status gk_emu_fill(struct gk_emu *emu, uint64_t address, uint64_t size, const void *pattern,
                           uint32_t pattern_bytes, struct gk_err *err)
{
    struct emu_alloc *alloc = NULL;
    enum gk_status status = find_range(emu, "fill", address, size, &alloc, err);
    unsigned char *at;

    emu_ahead_forget(emu);
    if (status != GK_OK) {
        return status;
    }
    if (pattern_bytes < 1 || pattern_bytes > 16) {
        return gk_fail(err, GK_USAGE, "fill: a pattern of %u bytes, 1 to 16 are allowed",
                       pattern_bytes);
    }
    at = alloc->bytes + (address - alloc->address);
    for (uint64_t i = 0; i < size; i += pattern_bytes) {
        uint64_t part = size - i < pattern_bytes ? size - i : pattern_bytes;

        memcpy(at + i, pattern, (size_t)part);
    }
    mark(alloc, address - alloc->address, size);
    return GK_OK;
}

void *gk_emu_host_pointer(struct gk_emu *emu, uint64_t address, uint64_t size)
{
    struct emu_alloc *alloc = emu_memory_find(&emu->memory, address, size);

    return alloc ? alloc->bytes + (address - alloc->address) : NULL;
}

enum gk_status gk_emu_mark_written(struct gk_emu *emu, uint64_t address, uint64_t size,
                                   struct gk_err *err)
{
    struct emu_alloc *alloc = NULL;
    enum gk_status status = find_range(emu, "mark", address, size, &alloc, err);

    if (status == GK_OK) {
        mark(alloc, address - alloc->address, size);
    }
    return status;
}

enum gk_status gk_emu_mark_unwritten(struct gk_emu *emu, uint64_t address, uint64_t size,
                                     struct gk_err *err)
{
    struct emu_alloc *alloc = NULL;
    enum gk_status status = find_range(emu, "mark", address, size, &alloc, err);

    if (status == GK_OK && size) {
        alloc->all_written = false;
        emu_bits_clear(alloc->written, address - alloc->address, size);
    }
    return status;
}

enum gk_status gk_emu_unwritten(struct gk_emu *emu, uint64_t address, uint64_t size,
                                uint64_t *unwritten_bytes_out, struct gk_err *err)
{
    struct emu_alloc *alloc = NULL;
    enum gk_status status = find_range(emu, "question", address, size, &alloc, err);

    if (status == GK_OK) {
        *unwritten_bytes_out =
            alloc->all_written
                ? 0
                : size - emu_bits_count(alloc->written, address - alloc->address, size);
    }
    return status;
}

uint64_t gk_emu_memory_used(const struct gk_emu *emu)
{
    return emu->memory.used_bytes;
}
