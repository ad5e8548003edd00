/*
 * Small asynchronous operations that an mbarrier counts: stores and atomic operations to shared
 * memory of the cluster (st.async, red.async), and arrivals that wait for a thread's cp.async.
 *
 * All lanes of an instruction that count on one mbarrier are one operation. It belongs to the block
 * of the mbarrier and lands there as loads in bulk do (emu_flight.h).
 */
#include "worker/emu/emu_access.h"

#include <stdlib.h>
#include <string.h>

#include "worker/emu/emu_combine.h"

#define PUT_BYTES_MAX 16u

/* What lanes send, in flight->data. */
struct put {
    uint32_t offset[EMU_LANES]; /* in the shared memory of the target */
    uint8_t value[EMU_LANES][PUT_BYTES_MAX];
};

static void land_put(struct emu_flight *flight)
{
    const struct put *put = (const void *)flight->data;
    uint32_t size = flight->bytes / (uint32_t)__builtin_popcount(flight->mask);

    for (uint32_t left = flight->mask; left; left &= left - 1) {
        unsigned l = (unsigned)__builtin_ctz(left);
        uint8_t *to = flight->block->shared + put->offset[l];

        if (flight->op) {
            uint64_t old = 0, with = 0;

            memcpy(&old, to, size);
            memcpy(&with, put->value[l], size);
            old = emu_combine(flight->op, flight->add, old, with);
            memcpy(to, &old, size);
        } else {
            memcpy(to, put->value[l], size);
            emu_bits_set(flight->block->shared_written, put->offset[l], size);
        }
    }
}

/* The block and the offset that the lane sends to, and the mbarrier that counts it there. */
static int target_of(struct emu_warp *warp, const struct emu_insn *insn, unsigned lane,
                     uint32_t bytes, struct emu_block **block_out, uint32_t *offset_out,
                     struct emu_mbarrier **barrier_out)
{
    uint64_t to = emu_shared_offset(emu_lane_address(warp, insn, 0, lane));
    uint64_t counts = emu_shared_offset(emu_lane_address(warp, insn, 1, lane));
    struct emu_block *block = emu_block_find(warp, to), *owner = NULL;
    struct emu_mbarrier *barrier = emu_mbarrier_at(warp, insn, lane, counts, &owner);

    if (!barrier) {
        return EMU_STOP;
    }
    if (block != owner) {
        return emu_fault(warp, insn, lane, GK_EMU_FAULT_BAD_OPERAND, to,
                         "shared address 0x%llx and the mbarrier at 0x%llx: both lie in one block "
                         "of the cluster, which has not ended",
                         (unsigned long long)to, (unsigned long long)counts);
    }
    if (!barrier->shown) {
        return emu_fault(warp, insn, lane, GK_EMU_FAULT_RACE, counts,
                         "the operation counts on an mbarrier whose init no fence.mbarrier_init "
                         "or fence.proxy.async follows");
    }
    *block_out = block;
    *barrier_out = barrier;
    *offset_out = (uint32_t)(to & EMU_CTA_MASK);
    if (*offset_out % bytes || *offset_out + bytes > warp->run->shared_bytes) {
        return emu_fault_memory(warp, insn, lane,
                                *offset_out % bytes ? GK_EMU_FAULT_MISALIGNED
                                                    : GK_EMU_FAULT_OUT_OF_BOUNDS,
                                EMU_SHARED, to, bytes, "asynchronous write");
    }
    if (insn->sub && emu_bits_count(block->shared_written, *offset_out, bytes) != bytes) {
        return emu_fault_memory(warp, insn, lane, GK_EMU_FAULT_UNWRITTEN, EMU_SHARED, to, bytes,
                                "asynchronous atomic operation");
    }
    return EMU_NEXT;
}

static struct emu_flight *room(struct emu_warp *warp, const struct emu_insn *insn, unsigned lane,
                               struct emu_block *block, const struct emu_mbarrier *barrier)
{
    struct emu_flight *flight = emu_flights_room(&block->flights);

    if (!flight) {
        (void)emu_fault(warp, insn, lane, GK_EMU_FAULT_UNSUPPORTED, 0,
                        "the host has no memory for more copies in flight");
        return NULL;
    }
    flight->kind = EMU_FLIGHT_LOAD;
    flight->warp = warp;
    flight->insn = insn;
    flight->block = block;
    flight->mask = 0;
    flight->bytes = flight->batch = 0;
    flight->op = 0;
    flight->bulk = (struct emu_flight_bulk){.barrier = barrier->offset};
    return flight;
}

static void take_values(struct emu_warp *warp, const struct emu_insn *insn, unsigned lane,
                        uint8_t value[PUT_BYTES_MAX])
{
    uint32_t size = ptx_type_bytes(insn->type);

    for (uint32_t i = 0; i < (insn->vec ? insn->vec : 1u); i++) {
        const uint8_t *from = emu_operand(warp, insn, 1 + i);

        memcpy(value + i * size, from + lane * size, size);
    }
}

/* Operands: to, values, mbarrier. sub 1: an atomic operation. Starts one operation for the lanes
 * that count on the same mbarrier as the first of the mask, and takes these out of it. */
static int put_some(struct emu_warp *warp, const struct emu_insn *insn, uint32_t *mask)
{
    uint32_t bytes = ptx_type_bytes(insn->type) * (insn->vec ? insn->vec : 1u), offset = 0, slot;
    struct emu_block *block = NULL, *other = NULL;
    struct emu_mbarrier *barrier = NULL, *another = NULL;
    unsigned first = (unsigned)__builtin_ctz(*mask);
    struct emu_flight *flight;
    struct put *put;

    if (target_of(warp, insn, first, bytes, &block, &offset, &barrier) != EMU_NEXT) {
        return EMU_STOP;
    }
    flight = room(warp, insn, first, block, barrier);
    put = flight ? calloc(1, sizeof(*put)) : NULL;
    if (!put) {
        return EMU_STOP;
    }
    flight->data = (void *)put;
    flight->move = land_put;
    flight->op = insn->sub ? insn->atom : 0;
    flight->add = insn->type;
    slot = block->load_next++ % EMU_SLOT_LOADS;
    flight->agent = warp->run->warps * EMU_LANES + EMU_SLOT_LOAD + slot;
    flight->tick = ++block->load_tick[slot];
    for (uint32_t left = *mask; left; left &= left - 1) {
        unsigned l = (unsigned)__builtin_ctz(left);

        if (target_of(warp, insn, l, bytes, &other, &offset, &another) != EMU_NEXT ||
            (another == barrier && emu_order_async(warp, insn, l, block, offset, bytes,
                                                   insn->sub ? EMU_ASYNC_SUM : EMU_ASYNC_PUT, block,
                                                   flight->agent, flight->tick) != EMU_NEXT)) {
            free(put);
            return EMU_STOP;
        }
        if (another == barrier) {
            put->offset[l] = offset;
            take_values(warp, insn, l, put->value[l]);
            flight->mask |= 1u << l;
        }
    }
    *mask &= ~flight->mask;
    flight->bytes = bytes * (uint32_t)__builtin_popcount(flight->mask);
    return emu_flight_start(warp->run, block, &block->flights) ? EMU_NEXT : EMU_STOP;
}

static int put(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)
{
    while (mask) {
        if (put_some(warp, insn, &mask) != EMU_NEXT) {
            return EMU_STOP;
        }
    }
    return EMU_NEXT;
}

/* sub 1: the arrival is one that the barrier waits for; else it waits for one more because of it.
 */
static int copies_arrive(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)
{
    struct emu_block *owner = NULL;
    struct emu_reach reach;

    if (emu_access(warp, insn, mask, EMU_SHARED, false, 8, EMU_LOAD, &reach) != EMU_NEXT) {
        return EMU_STOP;
    }
    for (uint32_t left = mask; left;) {
        unsigned first = (unsigned)__builtin_ctz(left);
        struct emu_mbarrier *barrier =
            emu_mbarrier_at(warp, insn, first, reach.address[first], &owner);
        struct emu_flight *flight;

        if (!barrier) {
            return EMU_STOP;
        }
        if (owner != warp->block) {
            return emu_fault(warp, insn, first, GK_EMU_FAULT_BAD_OPERAND, reach.address[first],
                             "cp.async counts on mbarriers of its own block");
        }
        flight = room(warp, insn, first, owner, barrier);
        if (!flight) {
            return EMU_STOP;
        }
        for (unsigned l = first; l < EMU_LANES; l++) {
            flight->mask |= (uint32_t)(left >> l & 1 && reach.address[l] == reach.address[first])
                            << l;
        }
        left &= ~flight->mask;
        flight->move = emu_flights_land_lanes;
        flight->arrivals = (uint32_t)__builtin_popcount(flight->mask);
        flight->number = warp->copies;
        barrier->pending += insn->sub ? 0 : flight->arrivals;
        if (!emu_flight_start(warp->run, owner, &owner->flights)) {
            return EMU_STOP;
        }
    }
    return EMU_NEXT;
}

#define MEM EMU_CLASS_MEMORY
#define PUT "st.async{.weak}{.shared::cluster}.mbarrier::complete_tx::bytes"
#define SUM "red.async{.relaxed}{.cluster}{.shared::cluster}.mbarrier::complete_tx::bytes"

static const struct ptx_row ROWS[] = {
    {PUT "{.v2|.v4}[.b32|.u32|.s32|.f32]", "A Wt A", put, MEM, 0},
    {PUT "{.v2}[.b64|.u64|.s64|.f64]", "A Wt A", put, MEM, 0},
    {SUM "[.inc|.dec].u32", "A St A", put, MEM, 1},
    {SUM "[.min|.max][.u32|.s32]", "A St A", put, MEM, 1},
    {SUM "[.and|.or|.xor].b32", "A St A", put, MEM, 1},
    {SUM ".add[.u32|.s32|.u64]", "A St A", put, MEM, 1},
    {"cp.async.mbarrier.arrive{.shared|.shared::cta}.b64", "A", copies_arrive, MEM, 0},
    {"cp.async.mbarrier.arrive.noinc{.shared|.shared::cta}.b64", "A", copies_arrive, MEM, 1},
};

EMU_ROWS_FUNCTION(emu_rows_async, ROWS)
