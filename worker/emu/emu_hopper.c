/*
 * What the instructions of sm_90 share: blocks of a cluster, phases of mbarriers, and the watch
 * over registers that wgmma holds.
 */
#include "worker/emu/emu_inside.h"

#include <string.h>

#include "core/buf.h"

struct emu_block *emu_block_find(const struct emu_warp *warp, uint64_t address)
{
    uint64_t rank = address >> EMU_CTA_SHIFT;
    struct emu_block *block;

    if (!rank) {
        return warp->block;
    }
    if (rank > warp->run->cluster_blocks) {
        return NULL;
    }
    block = warp->block - warp->block->rank + (rank - 1);
    return block->live ? block : NULL;
}

static uint32_t cluster_alive(struct emu_block *first)
{
    const struct emu_run *run = first->warps[0].run;
    uint32_t alive = 0;

    for (uint32_t i = 0; i < run->cluster_blocks; i++) {
        alive += first[i].alive_threads;
    }
    return alive;
}

/* Ends the phase of the cluster's barrier when all threads that live have arrived. */
void emu_cluster_check(struct emu_block *block)
{
    struct emu_block *first = block - block->rank;
    const struct emu_run *run = first->warps[0].run;

    if (!first->cluster_arrived || first->cluster_arrived < cluster_alive(first)) {
        return;
    }
    emu_gate_drop(&first->cluster_done);
    first->cluster_done = first->cluster_gate;
    first->cluster_gate = (struct emu_gate){0};
    first->cluster_arrived = 0;
    first->cluster_phase++;
    for (uint32_t i = 0; i < run->cluster_blocks; i++) {
        for (uint32_t w = 0; w < first[i].warp_count; w++) {
            for (uint32_t g = 0; g < first[i].warps[w].group_count; g++) {
                struct emu_group *group = &first[i].warps[w].groups[g];

                group->wait = group->wait == EMU_WAIT_CLUSTER ? EMU_READY : group->wait;
            }
        }
    }
}

struct emu_mbarrier *emu_mbarrier_find(struct emu_block *block, uint32_t offset)
{
    for (uint32_t i = 0; i < block->mbarrier_count; i++) {
        if (block->mbarriers[i].offset == offset) {
            return &block->mbarriers[i];
        }
    }
    return NULL;
}

struct emu_mbarrier *emu_mbarrier_at(struct emu_warp *warp, const struct emu_insn *insn,
                                     unsigned lane, uint64_t address, struct emu_block **owner_out)
{
    struct emu_block *owner = emu_block_find(warp, address);
    struct emu_mbarrier *barrier =
        owner ? emu_mbarrier_find(owner, (uint32_t)(address & EMU_CTA_MASK)) : NULL;

    if (!owner) {
        (void)emu_fault(warp, insn, lane, GK_EMU_FAULT_OUT_OF_BOUNDS, address,
                        "mbarrier at shared address 0x%llx of a block that is not in the cluster, "
                        "or has ended",
                        (unsigned long long)address);
        return NULL;
    }
    if (!barrier) {
        (void)emu_fault(warp, insn, lane, GK_EMU_FAULT_BAD_OPERAND, address,
                        "no mbarrier was made at shared address 0x%llx",
                        (unsigned long long)address);
        return NULL;
    }
    *owner_out = owner;
    return barrier;
}

static void wake(struct emu_block *owner, uint32_t offset)
{
    (void)offset; /* those that wait for another barrier look, and wait again */
    for (uint32_t w = 0; w < owner->warp_count; w++) {
        for (uint32_t g = 0; g < owner->warps[w].group_count; g++) {
            struct emu_group *group = &owner->warps[w].groups[g];

            group->wait = group->wait == EMU_WAIT_MBARRIER ? EMU_READY : group->wait;
        }
    }
}

int emu_mbarrier_add(struct emu_warp *warp, const struct emu_insn *insn, unsigned lane,
                     struct emu_block *owner, struct emu_mbarrier *barrier, uint32_t arrivals,
                     int64_t bytes)
{
    if (arrivals > barrier->pending) {
        return emu_fault(warp, insn, lane, GK_EMU_FAULT_BAD_OPERAND, barrier->offset,
                         "%u arrivals at the mbarrier at shared offset 0x%x, whose phase %u waits "
                         "for %u (of %u)",
                         arrivals, barrier->offset, barrier->phase, barrier->pending,
                         barrier->count);
    }
    barrier->pending -= arrivals;
    barrier->bytes += bytes;
    barrier->polls = 0;
    if (barrier->bytes > (int64_t)EMU_MBARRIER_COUNT_MAX ||
        barrier->bytes < -(int64_t)EMU_MBARRIER_COUNT_MAX) {
        return emu_fault(warp, insn, lane, GK_EMU_FAULT_BAD_OPERAND, barrier->offset,
                         "the mbarrier at shared offset 0x%x waits for %lld bytes, at most %u are "
                         "possible",
                         barrier->offset, (long long)barrier->bytes, EMU_MBARRIER_COUNT_MAX);
    }
    if (!barrier->pending && !barrier->bytes) {
        emu_gate_drop(&barrier->done);
        barrier->done = barrier->now;
        barrier->now = (struct emu_gate){0};
        barrier->pending = barrier->count;
        barrier->phase++;
        wake(owner, barrier->offset);
    }
    return EMU_NEXT;
}

/* An instruction that names registers which some wgmma uses too. */
int emu_exec_guarded(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)
{
    for (uint32_t i = 0; i < insn->op_count; i++) {
        int32_t offset = insn->op[i];

        if (offset < 0 || offset & 1) {
            continue;
        }
        if (warp->wgmma_used[offset / 64] > warp->wgmma_done) {
            return emu_fault(warp, insn, (unsigned)__builtin_ctz(mask), GK_EMU_FAULT_RACE, 0,
                             "a register of a wgmma is touched before wgmma.wait_group has waited "
                             "for its group");
        }
        warp->wgmma_touched[offset / 64] = warp->wgmma_fences + 1;
    }
    return insn->inner(warp, insn, mask);
}

uint32_t emu_mbarrier_waited(const struct emu_warp *warp, const struct emu_group *group)
{
    const struct emu_insn *insn = &warp->run->kernel->code[group->pc];
    unsigned lane = (unsigned)__builtin_ctz(group->mask);
    const unsigned char *base = warp->base[insn->op[insn->address] & 1] +
                                (insn->op[insn->address] & ~1) + lane * insn->address_width;
    uint32_t address; /* the low half is the shared address */

    memcpy(&address, base, sizeof(address));
    return (address + (uint32_t)insn->imm) & EMU_CTA_MASK;
}

void emu_mbarrier_describe(struct gk_buf *text, const struct emu_warp *warp,
                           const struct emu_group *group, const char *where)
{
    const struct emu_mbarrier *barrier =
        emu_mbarrier_find(warp->block, emu_mbarrier_waited(warp, group));

    if (!barrier) {
        gk_buf_printf(text, "for an mbarrier, %s", where);
        return;
    }
    gk_buf_printf(text,
                  "for the mbarrier at shared offset 0x%x, whose phase %u waits for %u of %u "
                  "arrivals and %lld bytes, %s",
                  barrier->offset, barrier->phase, barrier->pending, barrier->count,
                  (long long)barrier->bytes, where);
}
