/*
 * Memory of the CUDA device: a list of what is allocated, and memory that can be hidden.
 *
 * Hidden memory is made of physical pieces of the driver (cuMemCreate) whose address range stays
 * reserved while nothing is mapped there: a kernel that reads it then faults as it does anywhere
 * else. Copying to the host instead was rejected: references of a large problem would cross the
 * bus once a trial. Each allocation is a piece of its own, rounded up to the granularity (2 MB);
 * packing several into one would save memory that nobody misses and make freeing one impossible.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/cuda/cuda_inside.h"

#define ALIGN_DEFAULT  256u
#define ALIGN_MAX      (1ull << 30)
#define NAME_SHOWN_MAX 48

struct cuda_block {
    uint64_t address, bytes; /* as asked for */
    CUdeviceptr base;        /* as the driver gave it */
    uint64_t base_bytes;
    bool is_hidden; /* one of alloc_hidden */
    bool mapped;    /* of those: kernels reach it now */
    CUmemGenericAllocationHandle piece;
    char name[NAME_SHOWN_MAX];
};

/* ------------------------------------------------------------------ the list */

/* Index of the first block that begins behind the address. */
static uint32_t index_behind(const struct cuda_device *device, uint64_t address)
{
    uint32_t low = 0, high = device->block_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (device->blocks[middle].address <= address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static enum gk_status make_room(struct cuda_device *device, struct gk_err *err)
{
    if (device->block_count < device->block_room) {
        return GK_OK;
    }
    uint32_t room = device->block_room ? device->block_room * 2 : 64;
    struct cuda_block *blocks = realloc(device->blocks, room * sizeof *blocks);
    if (!blocks) {
        return gk_fail(err, GK_NOMEM, "out of memory for %" PRIu32 " allocations", room);
    }
    device->blocks = blocks;
    device->block_room = room;
    return GK_OK;
}

static void insert(struct cuda_device *device, const struct cuda_block *block)
{
    uint32_t at = index_behind(device, block->address);
    memmove(&device->blocks[at + 1], &device->blocks[at],
            (device->block_count - at) * sizeof *block);
    device->blocks[at] = *block;
    device->block_count++;
    device->used_bytes += block->base_bytes;
}

enum gk_status cuda_range(struct cuda_device *device, uint64_t address, uint64_t size,
                          const char *what, struct gk_err *err)
{
    uint32_t behind = index_behind(device, address);
    const struct cuda_block *block = behind ? &device->blocks[behind - 1] : NULL;
    if (!block) {
        return gk_fail(err, GK_RANGE, "%s of %" PRIu64 " bytes at 0x%" PRIx64 ": no allocation",
                       what, size, address);
    }
    if (size > block->bytes || address - block->address > block->bytes - size) {
        return gk_fail(err, GK_RANGE,
                       "%s of %" PRIu64 " bytes at 0x%" PRIx64 " is not inside one allocation; the "
                       "nearest is '%s', %" PRIu64 " bytes at 0x%" PRIx64,
                       what, size, address, block->name, block->bytes, block->address);
    }
    if (block->is_hidden && !block->mapped) {
        return gk_fail(err, GK_RANGE, "%s at 0x%" PRIx64 ": '%s' is hidden", what, address,
                       block->name);
    }
    return GK_OK;
}

/* ------------------------------------------------------------------ plain memory */

static enum gk_status check_idle(struct cuda_device *device, const char *what, struct gk_err *err)
{
    enum gk_status status = cuda_ready(device, what, err);
    if (status == GK_OK && device->record != CUDA_RECORD_NONE) {
        status = gk_fail(err, GK_USAGE, "%s: a recording is open", what);
    }
    return status;
}

enum gk_status cuda_alloc(struct gk_device *base, const char *name, uint64_t bytes, uint64_t align,
                          uint64_t *address_out, struct gk_err *err)
{
    struct cuda_device *device = cuda_of(base);
    struct cuda_block block = {.bytes = bytes};
    enum gk_status status = check_idle(device, "alloc", err);
    align = align ? align : ALIGN_DEFAULT;
    if (status == GK_OK && ((align & (align - 1)) != 0 || align > ALIGN_MAX)) {
        return gk_fail(err, GK_USAGE,
                       "allocation '%s': alignment %" PRIu64 " is not a power of two up to 2^30",
                       name, align);
    }
    if (status == GK_OK && bytes > (uint64_t)base->props.mem_bytes) {
        return gk_fail(err, GK_LIMIT,
                       "allocation '%s' of %" PRIu64 " bytes: device %s has %" PRId64, name, bytes,
                       base->props.device, base->props.mem_bytes);
    }
    if (status == GK_OK) {
        status = make_room(device, err);
    }
    if (status != GK_OK) {
        return status;
    }
    /* The driver promises 256 bytes; what is larger is made by allocating more. */
    block.base_bytes = (bytes ? bytes : 1) + (align > ALIGN_DEFAULT ? align : 0);
    CUresult result = device->driver->alloc(&block.base, (size_t)block.base_bytes);
    if (result != CUDA_SUCCESS) {
        return cuda_result(device, result, "cuMemAlloc", err,
                           "allocation '%s' of %" PRIu64 " bytes, %" PRIu64 " in use", name, bytes,
                           device->used_bytes);
    }
    block.address = (block.base + align - 1) & ~(align - 1);
    (void)snprintf(block.name, sizeof block.name, "%s", name);
    insert(device, &block);
    *address_out = block.address;
    return GK_OK;
}

/* ------------------------------------------------------------------ memory that hides */

static CUmemAllocationProp piece_props(const struct cuda_device *device)
{
    return (CUmemAllocationProp){
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = (int)device->device},
    };
}

static enum gk_status map(struct cuda_device *device, struct cuda_block *block, struct gk_err *err)
{
    const struct gk_cuda_driver *driver = device->driver;
    CUmemAccessDesc access = {.location = piece_props(device).location,
                              .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUresult result = driver->piece_map(block->base, (size_t)block->base_bytes, 0, block->piece, 0);
    if (result != CUDA_SUCCESS) {
        return cuda_result(device, result, "cuMemMap", err, "'%s' is shown again", block->name);
    }
    result = driver->piece_access(block->base, (size_t)block->base_bytes, &access, 1);
    if (result != CUDA_SUCCESS) {
        (void)driver->piece_unmap(block->base, (size_t)block->base_bytes);
        return cuda_result(device, result, "cuMemSetAccess", err, "'%s' is shown again",
                           block->name);
    }
    block->mapped = true;
    return GK_OK;
}

static enum gk_status unmap(struct cuda_device *device, struct cuda_block *block,
                            struct gk_err *err)
{
    CUresult result = device->driver->piece_unmap(block->base, (size_t)block->base_bytes);
    if (result != CUDA_SUCCESS) {
        return cuda_result(device, result, "cuMemUnmap", err, "'%s' is hidden", block->name);
    }
    block->mapped = false;
    return GK_OK;
}

/* Gives back what a block holds, in the order that the driver demands. */
static enum gk_status give_back(struct cuda_device *device, struct cuda_block *block,
                                struct gk_err *err)
{
    const struct gk_cuda_driver *driver = device->driver;
    if (!block->is_hidden) {
        CUresult result = driver->release(block->base);
        return result == CUDA_SUCCESS
                   ? GK_OK
                   : cuda_result(device, result, "cuMemFree", err, "release of '%s'", block->name);
    }
    enum gk_status status = block->mapped ? unmap(device, block, err) : GK_OK;
    CUresult result = status == GK_OK ? driver->piece_release(block->piece) : CUDA_SUCCESS;
    if (status == GK_OK && result == CUDA_SUCCESS) {
        result = driver->range_free(block->base, (size_t)block->base_bytes);
    }
    return result == CUDA_SUCCESS
               ? status
               : cuda_result(device, result, "cuMemRelease", err, "release of '%s'", block->name);
}

enum gk_status cuda_alloc_hidden(struct gk_device *base, const char *name, uint64_t bytes,
                                 uint64_t *address_out, struct gk_err *err)
{
    struct cuda_device *device = cuda_of(base);
    const struct gk_cuda_driver *driver = device->driver;
    struct cuda_block block = {.bytes = bytes, .is_hidden = true};
    CUmemAllocationProp props = piece_props(device);
    size_t unit = 0;
    enum gk_status status = check_idle(device, "alloc_hidden", err);
    status = status == GK_OK ? make_room(device, err) : status;
    if (status != GK_OK) {
        return status;
    }
    const char *function = "cuMemGetAllocationGranularity";
    CUresult result = driver->piece_granularity(&unit, &props, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    if (result == CUDA_SUCCESS && (unit == 0 || bytes > (uint64_t)base->props.mem_bytes)) {
        result = unit == 0 ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (result == CUDA_SUCCESS) {
        block.base_bytes = ((bytes ? bytes : 1) + unit - 1) / unit * unit;
        function = "cuMemAddressReserve";
        result = driver->range_reserve(&block.base, (size_t)block.base_bytes, 0, 0, 0);
    }
    bool reserved = result == CUDA_SUCCESS && block.base != 0;
    if (reserved) {
        function = "cuMemCreate";
        result = driver->piece_create(&block.piece, (size_t)block.base_bytes, &props, 0);
    }
    if (result != CUDA_SUCCESS) {
        if (reserved) {
            (void)driver->range_free(block.base, (size_t)block.base_bytes);
        }
        return cuda_result(device, result, function, err,
                           "hidden allocation '%s' of %" PRIu64 " bytes, %" PRIu64 " in use", name,
                           bytes, device->used_bytes);
    }
    block.address = block.base;
    (void)snprintf(block.name, sizeof block.name, "%s", name);
    status = map(device, &block, err);
    if (status != GK_OK) {
        (void)driver->piece_release(block.piece);
        (void)driver->range_free(block.base, (size_t)block.base_bytes);
        return status;
    }
    insert(device, &block);
    *address_out = block.address;
    return GK_OK;
}

enum gk_status cuda_hide(struct gk_device *base, bool hidden, struct gk_err *err)
{
    struct cuda_device *device = cuda_of(base);
    enum gk_status status = check_idle(device, "hide", err);
    for (uint32_t i = 0; i < device->block_count && status == GK_OK; i++) {
        struct cuda_block *block = &device->blocks[i];
        if (block->is_hidden && block->mapped == hidden) {
            status = hidden ? unmap(device, block, err) : map(device, block, err);
        }
    }
    return status;
}

enum gk_status cuda_show(struct gk_device *base, uint64_t address, struct gk_err *err)
{
    struct cuda_device *device = cuda_of(base);
    uint32_t behind = index_behind(device, address);
    if (behind == 0 || device->blocks[behind - 1].address != address ||
        !device->blocks[behind - 1].is_hidden) {
        return gk_fail(err, GK_NOT_FOUND,
                       "show of 0x%" PRIx64 ": no hidden allocation begins there", address);
    }
    struct cuda_block *block = &device->blocks[behind - 1];
    enum gk_status status = check_idle(device, "show", err);
    return status == GK_OK && !block->mapped ? map(device, block, err) : status;
}

/* ------------------------------------------------------------------ the end */

enum gk_status cuda_release(struct gk_device *base, uint64_t address, struct gk_err *err)
{
    struct cuda_device *device = cuda_of(base);
    uint32_t behind = index_behind(device, address);
    if (behind == 0 || device->blocks[behind - 1].address != address) {
        return gk_fail(err, GK_NOT_FOUND, "release of 0x%" PRIx64 ": no allocation begins there",
                       address);
    }
    enum gk_status status = check_idle(device, "release", err);
    status = status == GK_OK ? give_back(device, &device->blocks[behind - 1], err) : status;
    if (status == GK_OK) {
        device->used_bytes -= device->blocks[behind - 1].base_bytes;
        device->block_count--;
        memmove(&device->blocks[behind - 1], &device->blocks[behind],
                (device->block_count - (behind - 1)) * sizeof *device->blocks);
    }
    return status;
}

void cuda_memory_fini(struct cuda_device *device)
{
    for (uint32_t i = 0; i < device->block_count && !device->lost; i++) {
        (void)give_back(device, &device->blocks[i], NULL); /* the context's end frees the rest */
    }
    free(device->blocks);
    device->blocks = NULL;
    device->block_count = device->block_room = 0;
}
