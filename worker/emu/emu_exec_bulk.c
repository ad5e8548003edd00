/*
 * Bulk and tensor copies between global and shared memory.
 *
 * A copy is walked twice: when it is started everything that it will touch is checked, and when it
 * lands (emu_flight.h) the bytes move. What a load writes is written by an agent of the block that
 * it goes to, known to those that have waited for a phase of the mbarrier it counts on; what a
 * store reads and writes is done by two agents of the thread that started it, known to it after
 * wait_group.read and wait_group. A copy sees what plain accesses wrote only if a
 * fence.proxy.async lies between.
 */
#include "worker/emu/emu_access.h"
#include "worker/emu/emu_combine.h"

#include <string.h>

#include "worker/emu/emu_narrow.h"

#define BULK_ALIGN 16u

/* One copy while it is walked. */
struct bulk {
    struct emu_flight *flight; /* lands now; NULL: it is being started */
    struct emu_warp *warp;
    const struct emu_insn *insn;
    unsigned lane;
    struct emu_block *block; /* whose shared memory takes part */
    bool store;
    uint8_t add;    /* type of a reduction; 0: a copy */
    uint8_t op;     /* enum ptx_atom of it */
    uint32_t agent; /* of the shared memory's accesses: reads of a store, writes of a load */
    uint32_t tick;
    bool counted; /* a multicast crosses the L2 once */
};

/* ------------------------------------------------------------------ pieces */

static uint8_t *global_at(struct bulk *bulk, uint64_t address, uint32_t bytes, bool write)
{
    struct emu_alloc *alloc = emu_memory_find(&bulk->warp->run->emu->memory, address, bytes);
    enum gk_emu_fault fault = GK_EMU_FAULT_NONE;

    if (!alloc) {
        fault = GK_EMU_FAULT_OUT_OF_BOUNDS;
    } else if (write && alloc->is_const) {
        fault = GK_EMU_FAULT_CONST_WRITE;
    } else if ((!write || bulk->add) && !alloc->all_written &&
               emu_bits_count(alloc->written, address - alloc->address, bytes) != bytes) {
        fault = GK_EMU_FAULT_UNWRITTEN;
    }
    if (fault != GK_EMU_FAULT_NONE) {
        (void)emu_fault_memory(bulk->warp, bulk->insn, bulk->lane, fault, EMU_GLOBAL, address,
                               bytes, write ? "bulk write" : "bulk read");
        return NULL;
    }
    emu_touch_pages(bulk->warp->run, alloc, address - alloc->address,
                    address - alloc->address + bytes - 1);
    return alloc->bytes + (address - alloc->address);
}

static uint8_t *shared_at(struct bulk *bulk, uint32_t offset, uint32_t bytes, bool write)
{
    struct emu_block *block = bulk->block;

    if (offset + bytes > bulk->warp->run->shared_bytes) {
        (void)emu_fault_memory(bulk->warp, bulk->insn, bulk->lane, GK_EMU_FAULT_OUT_OF_BOUNDS,
                               EMU_SHARED, offset, bytes, write ? "bulk write" : "bulk read");
        return NULL;
    }
    if (!write && emu_bits_count(block->shared_written, offset, bytes) != bytes) {
        (void)emu_fault_memory(bulk->warp, bulk->insn, bulk->lane, GK_EMU_FAULT_UNWRITTEN,
                               EMU_SHARED, offset, bytes, "bulk read");
        return NULL;
    }
    return block->shared + offset;
}

static uint64_t float_sum(uint8_t type, uint64_t x, uint64_t y)
{
    if (type == PTX_F64) {
        double a, b;

        memcpy(&a, &x, sizeof(a));
        memcpy(&b, &y, sizeof(b));
        a += b;
        memcpy(&x, &a, sizeof(x));
        return x;
    }
    if (type == PTX_F32) {
        return emu_bits_of(emu_float_of((uint32_t)x) + emu_float_of((uint32_t)y));
    }
    if (type == PTX_BF16) {
        return emu_bf16_of_float(emu_float_of((uint32_t)x << 16) + emu_float_of((uint32_t)y << 16));
    }
    return emu_half_of_float(emu_float_of_half((uint16_t)x) + emu_float_of_half((uint16_t)y));
}

static void reduce_elements(uint8_t *to, const uint8_t *from, uint32_t bytes, uint8_t op,
                            uint8_t type)
{
    uint32_t size = ptx_type_bytes(type);

    for (uint32_t at = 0; at < bytes; at += size) {
        uint64_t x = 0, y = 0;

        memcpy(&x, to + at, size);
        memcpy(&y, from + at, size);
        x = ptx_type_is_float(type) ? float_sum(type, x, y) : emu_combine(op, type, x, y);
        memcpy(to + at, &x, size);
    }
}

/* Up to 16 bytes that lie in one chunk of shared memory, when the copy is started. */
static int check_piece(struct bulk *bulk, uint64_t global, uint32_t shared, uint32_t bytes)
{
    uint32_t unit = (uint32_t)(global | shared | bytes);

    if (!shared_at(bulk, shared, bytes, !bulk->store) ||
        !global_at(bulk, global, bytes, bulk->store)) {
        return EMU_STOP;
    }
    unit &= 0 - unit; /* both sides in aligned parts */
    for (uint32_t at = 0; at < bytes; at += unit) {
        enum emu_async_kind there = !bulk->store ? EMU_ASYNC_READ
                                    : bulk->add  ? EMU_ASYNC_ADD
                                                 : EMU_ASYNC_WRITE;

        if (emu_order_async(bulk->warp, bulk->insn, bulk->lane, bulk->block, shared + at, unit,
                            bulk->store ? EMU_ASYNC_READ : EMU_ASYNC_WRITE, bulk->block,
                            bulk->agent, bulk->tick) != EMU_NEXT ||
            emu_order_async(bulk->warp, bulk->insn, bulk->lane, NULL, global + at, unit, there,
                            bulk->block, bulk->agent + bulk->store, bulk->tick) != EMU_NEXT) {
            return EMU_STOP;
        }
    }
    return EMU_NEXT;
}

/* The same when it lands: nothing can be wrong any more. */
static int move_piece(struct bulk *bulk, uint64_t global, uint32_t shared, uint32_t bytes)
{
    const struct emu_flight *flight = bulk->flight;
    struct emu_alloc *alloc;
    uint8_t *g, *s;

    if (!flight) {
        return check_piece(bulk, global, shared, bytes);
    }
    alloc = emu_memory_find(&bulk->warp->run->emu->memory, global, bytes);
    g = alloc->bytes + (global - alloc->address);
    s = flight->data ? flight->data + (shared - flight->bulk.shared) : bulk->block->shared + shared;
    if (!bulk->store) {
        memcpy(s, g, bytes);
        emu_bits_set(bulk->block->shared_written, shared, bytes);
        return EMU_NEXT;
    }
    if (bulk->add) {
        reduce_elements(g, s, bytes, bulk->op, bulk->add);
    } else {
        memcpy(g, s, bytes);
    }
    if (!alloc->all_written) {
        emu_bits_set(alloc->written, global - alloc->address, bytes);
    }
    return EMU_NEXT;
}

/* ------------------------------------------------------------------ agents */

/* A load's agent, in the block that it writes. */
static void agent_of_load(struct bulk *bulk)
{
    struct emu_block *block = bulk->block;
    uint32_t slot = block->load_next++ % EMU_SLOT_LOADS;

    bulk->agent = bulk->warp->run->warps * EMU_LANES + EMU_SLOT_LOAD + slot;
    bulk->tick = ++block->load_tick[slot];
}

/* The first of a thread's two agents. More threads than there are slots share the last one. */
static uint32_t agent_of_store(struct emu_warp *warp, unsigned lane)
{
    struct emu_block *block = warp->block;
    uint32_t thread = warp->index * EMU_LANES + lane, at = 0;

    while (at < block->store_thread_count && block->store_threads[at] != thread) {
        at++;
    }
    if (at == block->store_thread_count && at < GK_ARRAY_COUNT(block->store_threads)) {
        block->store_threads[block->store_thread_count++] = thread;
    }
    at = at < GK_ARRAY_COUNT(block->store_threads) ? at : at - 1;
    return warp->run->warps * EMU_LANES + EMU_SLOT_STORE + 2 * at;
}

/* ------------------------------------------------------------------ operands */

static const struct emu_map *map_at(struct bulk *bulk, uint64_t address)
{
    struct emu_run *run = bulk->warp->run;
    const struct emu_map *map = NULL;
    struct emu_alloc *alloc;

    if (address - EMU_PARAM_BASE < EMU_WINDOW_BYTES) {
        uint64_t at = address - EMU_PARAM_BASE;

        if (at + 128 <= run->kernel->params_size && at % 64 == 0) {
            map = (const void *)(run->params + at);
        }
    } else {
        alloc = emu_memory_find(&run->emu->memory, address, 128);
        if (alloc && address % 64 == 0) {
            map = (const void *)(alloc->bytes + (address - alloc->address));
        }
    }
    if (!map || map->magic != EMU_MAP_MAGIC) {
        (void)emu_fault(bulk->warp, bulk->insn, bulk->lane, GK_EMU_FAULT_BAD_OPERAND, address,
                        "no tensor map lies at 0x%llx", (unsigned long long)address);
        return NULL;
    }
    return map;
}

/* ------------------------------------------------------------------ boxes */

static uint32_t swizzled(const struct emu_map *map, uint32_t address)
{
    return map->swizzle ? address ^ ((address >> 7 & (map->swizzle / 16u - 1)) << 4) : address;
}

static int fill_piece(struct bulk *bulk, const struct emu_map *map, uint32_t shared, uint32_t bytes)
{
    /* Of whatever type: an H200 (tests/conformance: tma_load_0, tma_nan32). */
    static const uint16_t nan = 0x7ff7;
    uint8_t *to = shared_at(bulk, shared, bytes, true);
    uint32_t unit = shared | bytes;

    if (!to) {
        return EMU_STOP;
    }
    unit &= 0 - unit;
    for (uint32_t at = 0; !bulk->flight && at < bytes; at += unit) {
        if (emu_order_async(bulk->warp, bulk->insn, bulk->lane, bulk->block, shared + at, unit,
                            EMU_ASYNC_WRITE, bulk->block, bulk->agent, bulk->tick) != EMU_NEXT) {
            return EMU_STOP;
        }
    }
    if (bulk->flight) {
        memset(to, 0, bytes);
        for (uint32_t at = 0; map->fill_nan && at + sizeof(nan) <= bytes; at += sizeof(nan)) {
            memcpy(to + at, &nan, sizeof(nan));
        }
        emu_bits_set(bulk->block->shared_written, shared, bytes);
    }
    return EMU_NEXT;
}

/* One row of the box: `global` is where its first element would lie, `outside` that the row lies
 * outside the tensor. Rows begin with whole pieces of 16 bytes (check_box), so only the tensor's
 * end cuts through one. There a store writes the piece to its end all the same: an H200 does
 * (tests/conformance: tma_store). */
static int move_row(struct bulk *bulk, const struct emu_map *map, int64_t x, bool outside,
                    uint64_t global, uint32_t shared)
{
    uint32_t size = (uint32_t)map->strides[0], per = 16 / size, count = map->box[0];
    int64_t end = (int64_t)map->last[0] + 1;

    if (bulk->store) {
        end = (end + per - 1) / per * per;
    }
    for (uint32_t i = 0; i < count; i += per) {
        uint32_t chunk = swizzled(map, shared + i * size), last = count - i < per ? count - i : per;
        int64_t left = outside || x + (int64_t)i < 0 ? 0 : end - x - (int64_t)i;
        uint32_t inside = left <= 0 ? 0 : left < (int64_t)last ? (uint32_t)left : last;

        if (inside < last && !bulk->store &&
            fill_piece(bulk, map, chunk + inside * size, (last - inside) * size) != EMU_NEXT) {
            return EMU_STOP;
        }
        if (inside &&
            move_piece(bulk, global + (uint64_t)i * size, chunk, inside * size) != EMU_NEXT) {
            return EMU_STOP;
        }
    }
    return EMU_NEXT;
}

/* Elements along an axis: with steps a box counts what it spans. The innermost axis has none. */
static uint32_t box_extent(const struct emu_map *map, uint32_t axis)
{
    uint32_t box = map->box[axis], step = axis == 0 ? 1u : map->steps[axis];

    return (box + step - 1) / step;
}

static uint32_t box_bytes(const struct emu_map *map)
{
    uint32_t bytes = (uint32_t)map->strides[0];

    for (uint32_t i = 0; i < map->rank; i++) {
        bytes *= box_extent(map, i);
    }
    return bytes;
}

static int move_box(struct bulk *bulk, const struct emu_map *map, const int32_t at[5],
                    uint32_t shared)
{
    uint32_t rows = 1, row_bytes = map->box[0] * (uint32_t)map->strides[0];

    for (uint32_t i = 1; i < map->rank; i++) {
        rows *= box_extent(map, i);
    }
    for (uint32_t row = 0; row < rows; row++) {
        uint32_t rest = row;
        bool outside = false;
        uint64_t global = map->address + (uint64_t)((int64_t)at[0] * (int64_t)map->strides[0]);

        for (uint32_t i = 1; i < map->rank; i++) {
            int64_t place = at[i] + (int64_t)(rest % box_extent(map, i)) * map->steps[i];

            rest /= box_extent(map, i);
            outside = outside || place < 0 || place > (int64_t)map->last[i];
            global += (uint64_t)(place * (int64_t)map->strides[i]);
        }
        if (move_row(bulk, map, at[0], outside, global, shared + row * row_bytes) != EMU_NEXT) {
            return EMU_STOP;
        }
    }
    return EMU_NEXT;
}

/* What the hardware answers with an illegal instruction: seen on an H200, and told in
 * triton-lang/triton#7385 and tile-ai/tilelang#2527. */
static int check_box(struct bulk *bulk, const struct emu_map *map, const int32_t at[5])
{
    uint32_t size = (uint32_t)map->strides[0];

    if ((int64_t)at[0] * size % BULK_ALIGN) {
        return emu_fault(bulk->warp, bulk->insn, bulk->lane, GK_EMU_FAULT_MISALIGNED, 0,
                         "tensor copy at innermost coordinate %d of %u-byte elements: it begins "
                         "between pieces of 16 bytes",
                         at[0], size);
    }
    for (uint32_t i = 0; bulk->store && i < map->rank; i++) {
        if (at[i] < 0) {
            return emu_fault(bulk->warp, bulk->insn, bulk->lane, GK_EMU_FAULT_BAD_OPERAND, 0,
                             "tensor store at coordinate %d along axis %u: stores may reach over "
                             "the far end of a tensor, and begin at 0 or later",
                             at[i], i);
        }
    }
    return EMU_NEXT;
}

/* ------------------------------------------------------------------ flights */

static int move_run(struct bulk *bulk, uint64_t global, uint32_t shared, uint32_t bytes)
{
    for (uint32_t at = 0; at < bytes; at += BULK_ALIGN) {
        if (move_piece(bulk, global + at, shared + at, BULK_ALIGN) != EMU_NEXT) {
            return EMU_STOP;
        }
    }
    return EMU_NEXT;
}

/* From shared memory of one block to that of another, up to 16 bytes at a time. */
static int move_sent(struct bulk *bulk, uint32_t from, uint32_t to, uint32_t bytes)
{
    struct bulk source = *bulk;

    source.block = bulk->warp->block;
    for (uint32_t at = 0; at < bytes; at += BULK_ALIGN) {
        const uint8_t *f = shared_at(&source, from + at, BULK_ALIGN, false);
        uint8_t *t = f ? shared_at(bulk, to + at, BULK_ALIGN, true) : NULL;

        if (!t) {
            return EMU_STOP;
        }
        if (bulk->add &&
            emu_bits_count(bulk->block->shared_written, to + at, BULK_ALIGN) != BULK_ALIGN) {
            return emu_fault_memory(bulk->warp, bulk->insn, bulk->lane, GK_EMU_FAULT_UNWRITTEN,
                                    EMU_SHARED, to + at, BULK_ALIGN, "bulk reduction");
        }
        if (bulk->flight && bulk->add) {
            reduce_elements(t, f, BULK_ALIGN, bulk->op, bulk->add);
        } else if (bulk->flight) {
            memcpy(t, f, BULK_ALIGN);
            emu_bits_set(bulk->block->shared_written, to + at, BULK_ALIGN);
        } else if (emu_order_async(bulk->warp, bulk->insn, bulk->lane, source.block, from + at,
                                   BULK_ALIGN, EMU_ASYNC_READ, bulk->block, bulk->agent,
                                   bulk->tick) != EMU_NEXT ||
                   emu_order_async(bulk->warp, bulk->insn, bulk->lane, bulk->block, to + at,
                                   BULK_ALIGN, bulk->add ? EMU_ASYNC_ADD : EMU_ASYNC_WRITE,
                                   bulk->block, bulk->agent, bulk->tick) != EMU_NEXT) {
            return EMU_STOP;
        }
    }
    return EMU_NEXT;
}

static int walk(struct bulk *bulk, const struct emu_flight_bulk *what, uint32_t bytes)
{
    if (what->sent) {
        return move_sent(bulk, (uint32_t)what->global, what->shared, bytes);
    }
    return what->box ? move_box(bulk, &what->map, what->at, what->shared)
                     : move_run(bulk, what->global, what->shared, bytes);
}

static void land(struct emu_flight *flight)
{
    struct bulk bulk = {.flight = flight,
                        .warp = flight->warp,
                        .insn = flight->insn,
                        .lane = (unsigned)__builtin_ctz(flight->mask),
                        .block = flight->block,
                        .store = flight->kind == EMU_FLIGHT_STORE,
                        .add = flight->add,
                        .op = flight->op};

    (void)walk(&bulk, &flight->bulk, flight->bytes); /* was checked when it was started */
}

/* A box that reaches beyond its tensor counts whole: what is left out of it is nobody's ideal. */
static void count_copy(struct bulk *bulk, uint32_t bytes)
{
    struct gk_emu_counts *counts = &bulk->warp->run->report->counts;

    if (bulk->store) {
        counts->bulk_store_bytes += bytes;
    } else {
        counts->bulk_load_bytes += bytes;
    }
    counts->bulk_global_bytes += bulk->counted ? 0 : bytes;
    bulk->counted = true;
}

/* Checks the whole copy, and lets it go. */
static int start(struct bulk *bulk, const struct emu_flight_bulk *what, uint32_t bytes)
{
    struct emu_warp *warp = bulk->warp;
    struct emu_block *owner = bulk->store ? warp->block : bulk->block;
    struct emu_flights *flights = bulk->store ? &warp->flights : &owner->flights;
    struct emu_flight *flight;

    if (walk(bulk, what, bytes) != EMU_NEXT) {
        return EMU_STOP;
    }
    count_copy(bulk, bytes);
    flight = emu_flights_room(flights);
    if (!flight) {
        return emu_fault(warp, bulk->insn, bulk->lane, GK_EMU_FAULT_UNSUPPORTED, 0,
                         "the host has no memory for more copies in flight");
    }
    flight->kind = bulk->store ? EMU_FLIGHT_STORE : EMU_FLIGHT_LOAD;
    flight->warp = warp;
    flight->insn = bulk->insn;
    flight->block = bulk->block;
    flight->move = land;
    flight->mask = 1u << bulk->lane;
    flight->batch = bulk->tick;
    flight->bytes = bytes;
    flight->agent = bulk->agent;
    flight->tick = bulk->tick;
    flight->add = bulk->add;
    flight->op = bulk->op;
    flight->bulk = *what;
    return emu_flight_start(warp->run, owner, flights) ? EMU_NEXT : EMU_STOP;
}

/* ------------------------------------------------------------------ loads */

/* A load into block `to`, which counts on a barrier there. */
static int start_load(struct bulk *bulk, struct emu_block *to, uint64_t barrier_address,
                      struct emu_flight_bulk *what, uint32_t bytes)
{
    struct emu_mbarrier *barrier =
        emu_mbarrier_find(to, (uint32_t)(barrier_address & EMU_CTA_MASK));

    bulk->block = to;
    if (!to->live) {
        return emu_fault(bulk->warp, bulk->insn, bulk->lane, GK_EMU_FAULT_OUT_OF_BOUNDS, 0,
                         "a copy to block %u of the cluster, which has ended", to->rank);
    }
    if (!barrier || !barrier->shown) {
        return emu_fault(bulk->warp, bulk->insn, bulk->lane,
                         barrier ? GK_EMU_FAULT_RACE : GK_EMU_FAULT_BAD_OPERAND, barrier_address,
                         barrier
                             ? "the copy counts on an mbarrier whose init no fence.mbarrier_init "
                               "or fence.proxy.async follows"
                             : "the copy counts on shared address 0x%llx, where no mbarrier was "
                               "made",
                         (unsigned long long)barrier_address);
    }
    agent_of_load(bulk);
    what->barrier = barrier->offset;
    return start(bulk, what, bytes);
}

/* Blocks that a copy goes to: those of the mask, or the one that the address names. */
static int load_blocks(struct bulk *bulk, uint64_t to, uint32_t mask_operand, uint32_t *blocks_out)
{
    struct emu_warp *warp = bulk->warp;
    uint32_t rank = (uint32_t)(to >> EMU_CTA_SHIFT);

    *blocks_out = 1u << (rank ? rank - 1 : warp->block->rank);
    if (bulk->insn->mods & PTX_M_MULTICAST) {
        *blocks_out = ((const uint16_t *)emu_operand(warp, bulk->insn, mask_operand))[bulk->lane];
    }
    if (!*blocks_out || *blocks_out >> warp->run->cluster_blocks) {
        return emu_fault(warp, bulk->insn, bulk->lane, GK_EMU_FAULT_BAD_OPERAND, to,
                         "a copy to blocks 0x%x of a cluster of %u", *blocks_out,
                         warp->run->cluster_blocks);
    }
    return EMU_NEXT;
}

static int tensor_load(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)
{
    for (uint32_t left = mask; left; left &= left - 1) {
        struct bulk bulk = {.warp = warp, .insn = insn, .lane = (unsigned)__builtin_ctz(left)};
        uint64_t to = emu_shared_offset(emu_lane_address(warp, insn, 0, bulk.lane));
        uint64_t counts = emu_shared_offset(emu_lane_address(warp, insn, 2, bulk.lane));
        const struct emu_map *map = map_at(&bulk, emu_lane_address(warp, insn, 1, bulk.lane));
        struct emu_flight_bulk what = {.box = true, .shared = (uint32_t)(to & EMU_CTA_MASK)};
        uint32_t blocks;

        if (!map || load_blocks(&bulk, to, (unsigned)insn->address3 + 1, &blocks) != EMU_NEXT) {
            return EMU_STOP;
        }
        if (map->rank != insn->vec || to % 128) {
            return emu_fault(
                warp, insn, bulk.lane,
                to % 128 ? GK_EMU_FAULT_MISALIGNED : GK_EMU_FAULT_BAD_OPERAND, to,
                "tensor copy with %u coordinates to shared address 0x%llx: the map has "
                "rank %u, and 128 bytes are the alignment",
                insn->vec, (unsigned long long)to, map->rank);
        }
        what.map = *map;
        for (unsigned i = 0; i < insn->vec; i++) {
            what.at[i] = ((const int32_t *)emu_operand(warp, insn, 2 + i))[bulk.lane];
        }
        if (check_box(&bulk, map, what.at) != EMU_NEXT) {
            return EMU_STOP;
        }
        for (uint32_t rest = blocks; rest; rest &= rest - 1) {
            struct emu_block *first = warp->block - warp->block->rank;

            if (start_load(&bulk, first + __builtin_ctz(rest), counts, &what, box_bytes(map)) !=
                EMU_NEXT) {
                return EMU_STOP;
            }
        }
    }
    return EMU_NEXT;
}

static int check_run(struct bulk *bulk, uint64_t global, uint64_t shared, uint32_t bytes)
{
    if ((global | shared | bytes) % BULK_ALIGN) {
        return emu_fault(
            bulk->warp, bulk->insn, bulk->lane, GK_EMU_FAULT_MISALIGNED, global,
            "bulk copy of %u bytes between 0x%llx and shared address 0x%llx: multiples "
            "of 16 are needed",
            bytes, (unsigned long long)global, (unsigned long long)shared);
    }
    return EMU_NEXT;
}

/* Operands: to, from, bytes, barrier: the first and the last lie in one block of the cluster. */
static int bulk_send(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)
{
    for (uint32_t left = mask; left; left &= left - 1) {
        struct bulk bulk = {.warp = warp, .insn = insn, .lane = (unsigned)__builtin_ctz(left)};
        uint64_t to = emu_shared_offset(emu_lane_address(warp, insn, 0, bulk.lane));
        uint64_t from = emu_shared_offset(emu_lane_address(warp, insn, 1, bulk.lane));
        uint64_t counts = emu_shared_offset(emu_lane_address(warp, insn, 2, bulk.lane));
        uint32_t bytes = ((const uint32_t *)emu_operand(warp, insn, 2))[bulk.lane];
        struct emu_flight_bulk what = {
            .sent = true, .global = from & EMU_CTA_MASK, .shared = (uint32_t)(to & EMU_CTA_MASK)};
        struct emu_block *there = emu_block_find(warp, to);

        bulk.add = insn->sub ? insn->type : 0;
        bulk.op = insn->atom;
        if (!there || emu_block_find(warp, counts) != there) {
            return emu_fault(
                warp, insn, bulk.lane, GK_EMU_FAULT_BAD_OPERAND, to,
                "a copy to shared address 0x%llx that counts on an mbarrier at 0x%llx: "
                "both lie in one block of the cluster, which has not ended",
                (unsigned long long)to, (unsigned long long)counts);
        }
        if (check_run(&bulk, from, to, bytes) != EMU_NEXT ||
            start_load(&bulk, there, counts, &what, bytes) != EMU_NEXT) {
            return EMU_STOP;
        }
    }
    return EMU_NEXT;
}

/* Operands: to, from, bytes, barrier, blocks or policy. */
static int bulk_load(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)
{
    for (uint32_t left = mask; left; left &= left - 1) {
        struct bulk bulk = {.warp = warp, .insn = insn, .lane = (unsigned)__builtin_ctz(left)};
        uint64_t to = emu_shared_offset(emu_lane_address(warp, insn, 0, bulk.lane));
        uint64_t from = emu_lane_address(warp, insn, 1, bulk.lane);
        uint64_t counts = emu_shared_offset(emu_lane_address(warp, insn, 2, bulk.lane));
        uint32_t bytes = ((const uint32_t *)emu_operand(warp, insn, 2))[bulk.lane], blocks;
        struct emu_flight_bulk what = {.global = from, .shared = (uint32_t)(to & EMU_CTA_MASK)};

        if (load_blocks(&bulk, to, (unsigned)insn->address3 + 1, &blocks) != EMU_NEXT ||
            check_run(&bulk, from, to, bytes) != EMU_NEXT) {
            return EMU_STOP;
        }
        for (uint32_t rest = blocks; rest; rest &= rest - 1) {
            struct emu_block *first = warp->block - warp->block->rank;

            if (start_load(&bulk, first + __builtin_ctz(rest), counts, &what, bytes) != EMU_NEXT) {
                return EMU_STOP;
            }
        }
    }
    return EMU_NEXT;
}

/* ------------------------------------------------------------------ stores */

static void start_store(struct bulk *bulk)
{
    bulk->store = true;
    bulk->block = bulk->warp->block;
    bulk->agent = agent_of_store(bulk->warp, bulk->lane);
    bulk->tick = bulk->warp->bulk_batch[bulk->lane] + 1;
    bulk->warp->bulk_used[bulk->lane] = bulk->tick;
}

static int tensor_store(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)
{
    for (uint32_t left = mask; left; left &= left - 1) {
        struct bulk bulk = {.warp = warp, .insn = insn, .lane = (unsigned)__builtin_ctz(left)};
        uint64_t from = emu_shared_offset(emu_lane_address(warp, insn, 1, bulk.lane));
        const struct emu_map *map = map_at(&bulk, emu_lane_address(warp, insn, 0, bulk.lane));
        struct emu_flight_bulk what = {.box = true, .shared = (uint32_t)from};

        if (!map) {
            return EMU_STOP;
        }
        if (map->rank != insn->vec || from % 128) {
            return emu_fault(warp, insn, bulk.lane,
                             from % 128 ? GK_EMU_FAULT_MISALIGNED : GK_EMU_FAULT_BAD_OPERAND, from,
                             "tensor copy with %u coordinates from shared address 0x%llx: the map "
                             "has rank %u, and 128 bytes are the alignment",
                             insn->vec, (unsigned long long)from, map->rank);
        }
        what.map = *map;
        for (unsigned i = 0; i < insn->vec; i++) {
            what.at[i] = ((const int32_t *)emu_operand(warp, insn, 1 + i))[bulk.lane];
        }
        start_store(&bulk);
        bulk.add = insn->sub ? map->type : 0;
        bulk.op = insn->atom;
        if (insn->sub && insn->atom != PTX_ADD && ptx_type_is_float(map->type)) {
            return emu_fault(warp, insn, bulk.lane, GK_EMU_FAULT_UNSUPPORTED, 0,
                             "reductions of %s other than sums are not emulated",
                             ptx_type_name(map->type));
        }
        if (check_box(&bulk, map, what.at) != EMU_NEXT ||
            start(&bulk, &what, box_bytes(map)) != EMU_NEXT) {
            return EMU_STOP;
        }
    }
    return EMU_NEXT;
}

/* Operands: to, from, bytes. */
static int bulk_store(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)
{
    for (uint32_t left = mask; left; left &= left - 1) {
        struct bulk bulk = {.warp = warp, .insn = insn, .lane = (unsigned)__builtin_ctz(left)};
        uint64_t to = emu_lane_address(warp, insn, 0, bulk.lane);
        uint64_t from = emu_shared_offset(emu_lane_address(warp, insn, 1, bulk.lane));
        uint32_t bytes = ((const uint32_t *)emu_operand(warp, insn, 2))[bulk.lane];
        struct emu_flight_bulk what = {.global = to, .shared = (uint32_t)from};

        start_store(&bulk);
        bulk.add = insn->sub ? insn->type : 0;
        bulk.op = insn->atom;
        if (check_run(&bulk, to, from, bytes) != EMU_NEXT ||
            start(&bulk, &what, bytes) != EMU_NEXT) {
            return EMU_STOP;
        }
    }
    return EMU_NEXT;
}

static int bulk_commit(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)
{
    (void)insn;
    EMU_FOR_LANES(mask, warp->bulk_batch[l]++);
    return EMU_NEXT;
}

/* sub 1: only the reads of shared memory are waited for. */
static int bulk_wait(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)
{
    for (uint32_t left = mask; left; left &= left - 1) {
        unsigned l = (unsigned)__builtin_ctz(left);
        uint32_t keep = (uint32_t)insn->imm, batch = warp->bulk_batch[l], agent;

        if (batch > keep) {
            agent = agent_of_store(warp, l);
            warp->bulk_waited[l] = batch - keep;
            emu_flights_wait_stores(warp, l, batch - keep, insn->sub != 0);
            emu_order_done(warp, 1u << l, agent, batch - keep);
            if (!insn->sub) {
                emu_order_done(warp, 1u << l, agent + 1, batch - keep);
            }
        }
    }
    return EMU_NEXT;
}

static int no_effect(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)
{
    (void)warp;
    (void)insn;
    (void)mask;
    return EMU_NEXT;
}

#define MEM  EMU_CLASS_MEMORY
#define DIMS "[.1d|.2d|.3d|.4d|.5d]"
#define IN   "[.shared::cluster|.shared::cta].global"
#define TX   ".mbarrier::complete_tx::bytes{.multicast::cluster}{.L2::cache_hint}"

#define OPS         "[.add|.min|.max|.inc|.dec|.and|.or|.xor]"
#define REDUCE      "cp.reduce.async.bulk.global.shared::cta.bulk_group{.L2::cache_hint}"
#define REDUCE_SENT "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes"

static const struct ptx_row ROWS[] = {
    {"cp.async.bulk.tensor" DIMS IN "{.tile}" TX, "A T A Sx? Sx?", tensor_load, MEM, 0},
    {"cp.async.bulk" IN TX, "A A Sw A Sx? Sx?", bulk_load, MEM, 0},
    {"cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes", "A A Sw A",
     bulk_send, MEM, 0},
    {"cp.async.bulk.tensor" DIMS ".global.shared::cta{.tile}.bulk_group{.L2::cache_hint}",
     "T A Sd?", tensor_store, MEM, 0},
    {"cp.reduce.async.bulk.tensor" DIMS ".global.shared::cta" OPS
     "{.tile}.bulk_group{.L2::cache_hint}",
     "T A Sd?", tensor_store, MEM, 1},
    {"cp.async.bulk.global.shared::cta.bulk_group{.L2::cache_hint}", "A A Sw Sd?", bulk_store, MEM,
     0},
    {REDUCE ".add{.noftz}[.f32|.f64|.u32|.s32|.u64|.f16|.bf16]", "A A Sw Sd?", bulk_store, MEM, 1},
    {REDUCE "[.and|.or|.xor][.b32|.b64]", "A A Sw Sd?", bulk_store, MEM, 1},
    {REDUCE "[.inc|.dec].u32", "A A Sw Sd?", bulk_store, MEM, 1},
    {REDUCE "[.min|.max][.u32|.s32|.u64|.s64]", "A A Sw Sd?", bulk_store, MEM, 1},
    {REDUCE_SENT "[.and|.or|.xor].b32", "A A Sw A", bulk_send, MEM, 1},
    {REDUCE_SENT "[.inc|.dec].u32", "A A Sw A", bulk_send, MEM, 1},
    {REDUCE_SENT "[.min|.max][.u32|.s32]", "A A Sw A", bulk_send, MEM, 1},
    {REDUCE_SENT ".add[.u32|.s32|.u64]", "A A Sw A", bulk_send, MEM, 1},
    {"cp.async.bulk.prefetch.tensor" DIMS ".L2.global{.tile}{.L2::cache_hint}", "T Sd?", no_effect,
     MEM, 0},
    {"cp.async.bulk.prefetch.L2.global{.L2::cache_hint}", "A Sw Sd?", no_effect, MEM, 0},
    {"cp.async.bulk.commit_group", "", bulk_commit, EMU_CLASS_CONTROL, 0},
    {"cp.async.bulk.wait_group", "I", bulk_wait, EMU_CLASS_CONTROL, 0},
    {"cp.async.bulk.wait_group.read", "I", bulk_wait, EMU_CLASS_CONTROL, 1},
};

EMU_ROWS_FUNCTION(EMU_ISA_NAME(emu_rows_bulk), ROWS)
