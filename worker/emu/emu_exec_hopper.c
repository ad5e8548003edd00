/*
 * sm_90: mbarriers, clusters and proxy fences.
 *
 * try_wait suspends its lanes until a phase ends, so that what waits is known when nothing can step
 * any more, but it may also come back without an answer, as the hardware does after some time: in
 * the late and the random schedule the first one at a place does. test_wait only looks. An arrival
 * at another block's mbarrier that releases to its own block alone, which is what PTX takes where
 * nothing is said, gives stages back: what the thread did has ended, and may be written over. It
 * publishes nothing that the thread wrote.
 */
#include "worker/emu/emu_exec.h"

#include <stdlib.h>
#include <string.h>

#include "worker/emu/emu_access.h"

#define MBARRIER_BYTES 8u
#define POLLS_MAX      64u /* looks in vain, of all lanes, before what they wait for lands */

/* ------------------------------------------------------------------ blocks of a cluster */

static int mapa(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)
{
    const uint32_t *rank = emu_operand(warp, insn, 2);
    bool wide = insn->type == PTX_U64;
    void *d = emu_operand(warp, insn, 0);
    const void *a = emu_operand(warp, insn, 1);

    for (uint32_t left = mask; left; left &= left - 1) {
        unsigned l = (unsigned)__builtin_ctz(left);
        uint64_t address = wide ? ((const uint64_t *)a)[l] : ((const uint32_t *)a)[l];

        if (rank[l] >= warp->run->cluster_blocks) {
            return emu_fault(warp, insn, l, GK_EMU_FAULT_BAD_OPERAND, 0,
                             "block %u of a cluster of %u", rank[l], warp->run->cluster_blocks);
        }
        address = (address & ~(uint64_t)(UINT32_MAX & ~EMU_CTA_MASK)) | (uint64_t)(rank[l] + 1)
                                                                            << EMU_CTA_SHIFT;
        if (wide) {
            ((uint64_t *)d)[l] = address;
        } else {
            ((uint32_t *)d)[l] = (uint32_t)address;
        }
    }
    return EMU_NEXT;
}

/* sub 0: arrive, 1: wait. A block without a cluster is one of one block. */
static int cluster_barrier(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)
{
    struct emu_block *first = warp->block - warp->block->rank;
    int step = emu_warp_converge(warp, insn, mask);

    if (step != EMU_NEXT) {
        return step;
    }
    if (insn->sub == 0) {
        if (warp->cluster_phase != 0) {
            return emu_fault(warp, insn, (unsigned)__builtin_ctz(mask), GK_EMU_FAULT_BAD_OPERAND, 0,
                             "arrives at the cluster's barrier again, without a wait between");
        }
        if (insn->sem != PTX_SEM_RELAXED) {
            emu_order_arrive(warp, mask, &first->cluster_gate, first->index);
        }
        warp->cluster_phase = first->cluster_phase + 1;
        first->cluster_arrived += (uint32_t)__builtin_popcount(mask);
        emu_cluster_check(warp->block);
        return EMU_NEXT;
    }
    if (!warp->cluster_phase) {
        return emu_fault(warp, insn, (unsigned)__builtin_ctz(mask), GK_EMU_FAULT_BAD_OPERAND, 0,
                         "waits for the cluster's barrier without having arrived");
    }
    if (first->cluster_phase < warp->cluster_phase) {
        warp->run->report->counts.barrier_waits++;
        emu_warp_block(warp, EMU_WAIT_CLUSTER);
        return EMU_BLOCK;
    }
    warp->cluster_phase = 0;
    emu_order_learn(warp, mask, &first->cluster_done.known);
    return EMU_NEXT;
}

/* ------------------------------------------------------------------ mbarriers */

/* Checks the 8 bytes like a plain access, which orders uses behind the init. */
static int reach_barrier(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask,
                         enum emu_access_kind kind, struct emu_reach *reach)
{
    return emu_access(warp, insn, mask, (enum emu_space)insn->space, false, MBARRIER_BYTES, kind,
                      reach);
}

static int mbarrier_init(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)
{
    const uint32_t *count = emu_operand(warp, insn, 1);
    struct emu_block *block = warp->block;
    struct emu_reach reach;

    if (reach_barrier(warp, insn, mask, EMU_STORE, &reach) != EMU_NEXT) {
        return EMU_STOP;
    }
    for (uint32_t left = mask; left; left &= left - 1) {
        unsigned l = (unsigned)__builtin_ctz(left);
        struct emu_mbarrier *barrier = emu_mbarrier_find(block, (uint32_t)reach.address[l]);

        if (!count[l] || count[l] > EMU_MBARRIER_COUNT_MAX) {
            return emu_fault(warp, insn, l, GK_EMU_FAULT_BAD_OPERAND, reach.address[l],
                             "an mbarrier for %u arrivals, 1 to %u are possible", count[l],
                             EMU_MBARRIER_COUNT_MAX);
        }
        if (!block->mbarriers) {
            block->mbarriers = calloc(EMU_MBARRIERS_MAX, sizeof(*block->mbarriers));
        }
        if (!block->mbarriers || (!barrier && block->mbarrier_count == EMU_MBARRIERS_MAX)) {
            return emu_fault(warp, insn, l, GK_EMU_FAULT_UNSUPPORTED, reach.address[l],
                             "more than %d mbarriers in a block", EMU_MBARRIERS_MAX);
        }
        if (!barrier) {
            barrier = &block->mbarriers[block->mbarrier_count++];
        }
        emu_gate_drop(&barrier->now);
        emu_gate_drop(&barrier->done);
        *barrier = (struct emu_mbarrier){.offset = (uint32_t)reach.address[l],
                                         .count = count[l],
                                         .pending = count[l],
                                         .maker = warp->index * EMU_LANES + l};
    }
    return EMU_NEXT;
}

static int mbarrier_inval(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)
{
    struct emu_block *block = warp->block, *owner = NULL;
    struct emu_reach reach;

    if (reach_barrier(warp, insn, mask, EMU_STORE, &reach) != EMU_NEXT) {
        return EMU_STOP;
    }
    for (uint32_t left = mask; left; left &= left - 1) {
        unsigned l = (unsigned)__builtin_ctz(left);
        struct emu_mbarrier *barrier = emu_mbarrier_at(warp, insn, l, reach.address[l], &owner);

        if (!barrier) {
            return EMU_STOP;
        }
        emu_gate_drop(&barrier->now);
        emu_gate_drop(&barrier->done);
        *barrier = block->mbarriers[--block->mbarrier_count];
        emu_bits_clear(block->shared_written, reach.address[l], MBARRIER_BYTES);
    }
    return EMU_NEXT;
}

/* The opaque state that an arrival gives: the phase, and arrivals that it still waited for before.
 */
#define STATE_PENDING_BITS 20
_Static_assert(EMU_MBARRIER_COUNT_MAX < 1u << STATE_PENDING_BITS, "counts fit into a state");

enum { ARRIVE, ARRIVE_EXPECT, EXPECT, COMPLETE_TX };
#define STATE       16u /* one is written */
#define DROP        32u /* later phases wait for so many fewer */
#define NO_COMPLETE 64u /* must not end the phase */

/* What .noComplete and arrive_drop add to an arrival. */
static int leave_barrier(struct emu_warp *warp, const struct emu_insn *insn, unsigned lane,
                         struct emu_mbarrier *barrier, uint32_t arrivals)
{
    if (insn->sub & NO_COMPLETE && arrivals == barrier->pending && !barrier->bytes) {
        return emu_fault(warp, insn, lane, GK_EMU_FAULT_BAD_OPERAND, barrier->offset,
                         "%u arrivals with .noComplete would end phase %u of the mbarrier at "
                         "shared offset 0x%x",
                         arrivals, barrier->phase, barrier->offset);
    }
    if (insn->sub & DROP && arrivals <= barrier->pending) { /* more are a fault of their own */
        barrier->count -= arrivals;
    }
    return EMU_NEXT;
}

/* Operands: [state] address [count or bytes]. sub: what, and the flags above. */
static int mbarrier_arrive(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)
{
    unsigned what = insn->sub & (STATE - 1), at = (unsigned)insn->address + 1;
    const uint32_t *value =
        at < insn->op_count && insn->op[at] >= 0 ? emu_operand(warp, insn, at) : NULL;
    struct emu_reach reach;

    if (reach_barrier(warp, insn, mask, EMU_LOAD, &reach) != EMU_NEXT) {
        return EMU_STOP;
    }
    for (uint32_t left = mask; left; left &= left - 1) {
        unsigned l = (unsigned)__builtin_ctz(left);
        struct emu_block *owner = NULL;
        struct emu_mbarrier *barrier = emu_mbarrier_at(warp, insn, l, reach.address[l], &owner);
        int64_t bytes = what == ARRIVE        ? 0
                        : what == COMPLETE_TX ? -(int64_t)(value ? value[l] : 0)
                                              : (int64_t)(value ? value[l] : 0);
        uint32_t arrivals = what == ARRIVE ? (value ? value[l] : 1) : what == ARRIVE_EXPECT;

        if (!barrier) {
            return EMU_STOP;
        }
        if (owner != warp->block && !barrier->shown) {
            return emu_fault(warp, insn, l, GK_EMU_FAULT_RACE, reach.address[l],
                             "arrival at an mbarrier of another block whose init no "
                             "fence.mbarrier_init follows");
        }
        if (insn->sub & STATE && insn->op[0] != warp->run->kernel->sink) {
            ((uint64_t *)emu_operand(warp, insn, 0))[l] =
                (uint64_t)barrier->phase << STATE_PENDING_BITS | barrier->pending;
        }
        if (arrivals && insn->sem != PTX_SEM_RELAXED) {
            bool far = owner != warp->block && insn->scope < EMU_SCOPE_CLUSTER;

            (far ? emu_order_arrive_ended : emu_order_arrive)(warp, 1u << l, &barrier->now,
                                                              owner->index);
        }
        if (leave_barrier(warp, insn, l, barrier, arrivals) != EMU_NEXT ||
            emu_mbarrier_add(warp, insn, l, owner, barrier, arrivals, bytes) != EMU_NEXT) {
            return EMU_STOP;
        }
    }
    return EMU_NEXT;
}

static int pending_count(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)
{
    uint32_t *d = emu_operand(warp, insn, 0);
    const uint64_t *state = emu_operand(warp, insn, 1);

    EMU_FOR_LANES(mask, d[l] = (uint32_t)(state[l] & ((1u << STATE_PENDING_BITS) - 1)));
    return EMU_NEXT;
}

/* Whether this try_wait comes back at once, without an answer. */
static bool gives_up(struct emu_warp *warp)
{
    bool first = warp->tried != warp->pc + 1 && warp->run->emu->schedule != GK_EMU_EARLY &&
                 (warp->run->emu->schedule == GK_EMU_LATE || emu_random(warp->run) % 2);

    warp->tried = warp->pc + 1;
    return first;
}

/* Copies that lanes poll for land after a while. false: a fault. */
static bool look_in_vain(struct emu_warp *warp, uint32_t mask, const struct emu_reach *reach)
{
    for (uint32_t left = mask; left; left &= left - 1) {
        uint32_t offset = (uint32_t)(reach->address[__builtin_ctz(left)] & EMU_CTA_MASK);
        struct emu_mbarrier *barrier = emu_mbarrier_find(warp->block, offset);

        if (barrier && ++barrier->polls >= POLLS_MAX) {
            barrier->polls = 0;
            if (!emu_flights_land_on(warp->block, offset)) {
                return false;
            }
        }
    }
    return true;
}

/* sub: bit 0, a parity is given, else a state; bit 1: waits. */
static int mbarrier_wait(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)
{
    uint32_t *p = emu_operand(warp, insn, 0), ended = 0;
    const void *given = emu_operand(warp, insn, 2);
    struct emu_reach reach;

    if (reach_barrier(warp, insn, mask, EMU_LOAD, &reach) != EMU_NEXT) {
        return EMU_STOP;
    }
    for (uint32_t left = mask; left; left &= left - 1) {
        unsigned l = (unsigned)__builtin_ctz(left);
        struct emu_block *owner = NULL;
        struct emu_mbarrier *barrier = emu_mbarrier_at(warp, insn, l, reach.address[l], &owner);
        uint64_t phase = insn->sub & 1 ? ((const uint32_t *)given)[l]
                                       : ((const uint64_t *)given)[l] >> STATE_PENDING_BITS;

        if (!barrier) {
            return EMU_STOP;
        }
        if (insn->sub & 1 && phase > 1) {
            return emu_fault(warp, insn, l, GK_EMU_FAULT_BAD_OPERAND, reach.address[l],
                             "parity %llu, 0 and 1 are possible", (unsigned long long)phase);
        }
        if (insn->sub & 1 ? phase != (barrier->phase & 1) : phase < barrier->phase) {
            ended |= 1u << l;
            if (insn->sem != PTX_SEM_RELAXED) {
                emu_order_learn(warp, 1u << l, &barrier->done.known);
            }
        }
    }
    if (!ended && insn->sub & 2 && mask == warp->active && !gives_up(warp)) {
        warp->run->report->counts.barrier_waits++;
        emu_warp_block(warp, EMU_WAIT_MBARRIER);
        return EMU_BLOCK;
    }
    *p = (*p & ~mask) | ended;
    if (ended == mask) {
        warp->tried = 0;
        return EMU_NEXT;
    }
    return look_in_vain(warp, mask & ~ended, &reach) ? EMU_YIELD : EMU_STOP;
}

/* ------------------------------------------------------------------ fences */

static void show_barriers(struct emu_warp *warp, uint32_t mask)
{
    for (uint32_t i = 0; i < warp->block->mbarrier_count; i++) {
        struct emu_mbarrier *barrier = &warp->block->mbarriers[i];
        uint32_t lane = barrier->maker - warp->index * EMU_LANES;

        if (lane < EMU_LANES && mask >> lane & 1) {
            barrier->shown = true;
        }
    }
}

static int fence_barriers(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)
{
    (void)insn;
    show_barriers(warp, mask);
    return EMU_NEXT;
}

static int fence_proxy(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)
{
    show_barriers(warp, mask);
    if (insn->space != EMU_GLOBAL) {
        emu_order_proxy_fence(warp, mask, EMU_PROXY_SHARED);
    }
    if (insn->space != EMU_SHARED) {
        emu_order_proxy_fence(warp, mask, EMU_PROXY_GLOBAL);
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

static int wait_ahead(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)
{
    (void)insn;
    emu_ahead_wait(warp, mask);
    return EMU_NEXT;
}

#define CONTROL EMU_CLASS_CONTROL
#define WHERE   "{.shared|.shared::cta}"
#define ANY     "{.shared|.shared::cta|.shared::cluster}"
#define SEM     "{.relaxed|.release}{.cta|.cluster}"
#define ACQ     "{.relaxed|.acquire}{.cta|.cluster}"

static const struct ptx_row ROWS[] = {
    {"mapa{.shared::cluster}[.u32|.u64]", "Dt St Sw", mapa, EMU_CLASS_INT, 0},
    {"barrier.cluster.arrive{.release|.relaxed}{.aligned}", "", cluster_barrier, CONTROL, 0},
    {"barrier.cluster.wait{.acquire}{.aligned}", "", cluster_barrier, CONTROL, 1},
    {"mbarrier.init" WHERE ".b64", "A Sw", mbarrier_init, CONTROL, 0},
    {"mbarrier.inval" WHERE ".b64", "A", mbarrier_inval, CONTROL, 0},
    {"mbarrier.arrive" SEM ANY ".b64", "Dd A Sw?", mbarrier_arrive, CONTROL, ARRIVE | STATE},
    {"mbarrier.arrive.expect_tx" SEM ANY ".b64", "Dd A Sw", mbarrier_arrive, CONTROL,
     ARRIVE_EXPECT | STATE},
    {"mbarrier.arrive.noComplete{.release}{.cta}" WHERE ".b64", "Dd A Sw", mbarrier_arrive, CONTROL,
     ARRIVE | STATE | NO_COMPLETE},
    {"mbarrier.arrive_drop" SEM ANY ".b64", "Dd A Sw?", mbarrier_arrive, CONTROL,
     ARRIVE | STATE | DROP},
    {"mbarrier.arrive_drop.expect_tx" SEM ANY ".b64", "Dd A Sw", mbarrier_arrive, CONTROL,
     ARRIVE_EXPECT | STATE | DROP},
    {"mbarrier.arrive_drop.noComplete{.release}{.cta}" WHERE ".b64", "Dd A Sw", mbarrier_arrive,
     CONTROL, ARRIVE | STATE | DROP | NO_COMPLETE},
    {"mbarrier.pending_count.b64", "Dw Sd", pending_count, EMU_CLASS_INT, 0},
    {"mbarrier.expect_tx{.relaxed}{.cta|.cluster}" ANY ".b64", "A Sw", mbarrier_arrive, CONTROL,
     EXPECT},
    {"mbarrier.complete_tx{.relaxed}{.cta|.cluster}" ANY ".b64", "A Sw", mbarrier_arrive, CONTROL,
     COMPLETE_TX},
    {"mbarrier.test_wait" ACQ WHERE ".b64", "P A Sd", mbarrier_wait, CONTROL, 0},
    {"mbarrier.test_wait.parity" ACQ WHERE ".b64", "P A Sw", mbarrier_wait, CONTROL, 1},
    {"mbarrier.try_wait" ACQ WHERE ".b64", "P A Sd Sw?", mbarrier_wait, CONTROL, 2},
    {"mbarrier.try_wait.parity" ACQ WHERE ".b64", "P A Sw Sw?", mbarrier_wait, CONTROL, 3},
    {"fence.mbarrier_init.release.cluster", "", fence_barriers, CONTROL, 0},
    {"fence.proxy.async{.global|.shared::cta|.shared::cluster}", "", fence_proxy, CONTROL, 0},
    {"griddepcontrol.wait", "", wait_ahead, CONTROL, 0},
    {"griddepcontrol.launch_dependents", "", no_effect, CONTROL, 0},
    {"setmaxnreg.dec.sync.aligned.u32", "I", emu_exec_registers, CONTROL, 0},
    {"setmaxnreg.inc.sync.aligned.u32", "I", emu_exec_registers, CONTROL, 1},
    {"prefetch{.param|.const}.tensormap", "A", no_effect, CONTROL, 0},
};

EMU_ROWS_FUNCTION(EMU_ISA_NAME(emu_rows_hopper), ROWS)
