/*
 * setmaxnreg: registers that move between the warpgroups of a block.
 *
 * The ISA calls the instruction a hint; kernels that get their registers or hang are what it means
 * in practice, so all of its rules are taken for rules. A block is launched with as many registers
 * a thread as its launch bounds leave, which is what ptxas gives a kernel with setmaxnreg; without
 * bounds ptxas ignores the instruction (C7508), which is a fault here. A dec puts registers into a
 * pool of the block, an inc waits until they are there. All four warps of a warpgroup execute the
 * same instruction, each one before any of them goes on to the next.
 */
#include "worker/emu/emu_inside.h"

#include "core/buf.h"

#define UNIT     8u /* registers a thread */
#define LEAST    24u
#define MOST     256u
#define OF_AN_SM 65536u /* on every target; what ptxas divides among the threads of its bounds */

static uint32_t up(uint32_t count)
{
    return (count + UNIT - 1) / UNIT * UNIT;
}

/* Registers a thread at launch. 0: nobody has said how many. */
static uint32_t at_launch(const struct emu_run *run)
{
    const struct gk_emu_kernel *kernel = run->kernel;
    const uint32_t *bound = kernel->reqntid[0] ? kernel->reqntid : kernel->maxntid;
    uint32_t given = up(run->launch->registers_per_thread), threads, each;

    if (kernel->maxnreg) {
        return up(kernel->maxnreg) > given ? up(kernel->maxnreg) : given;
    }
    if (!bound[0]) {
        return 0;
    }
    threads = bound[0] * (bound[1] ? bound[1] : 1) * (bound[2] ? bound[2] : 1);
    each = OF_AN_SM / (threads * (kernel->minnctapersm ? kernel->minnctapersm : 1));
    each = each > MOST ? MOST : each / UNIT * UNIT;
    return each > given ? each : given;
}

static uint32_t held(const struct emu_warp *warp)
{
    return warp->registers ? warp->registers : at_launch(warp->run);
}

/* What the warps of the block could never have together. */
static bool too_many(const struct emu_warp *warp, uint32_t count)
{
    uint32_t others = warp->run->warps - EMU_WARPGROUP;

    return EMU_LANES * (EMU_WARPGROUP * count + others * LEAST) >
           EMU_LANES * warp->run->warps * at_launch(warp->run);
}

static int check_count(struct emu_warp *warp, const struct emu_insn *insn, uint32_t count)
{
    const uint32_t first = warp->index / EMU_WARPGROUP * EMU_WARPGROUP;

    if (count % UNIT || count < LEAST || count > MOST) {
        return emu_fault(warp, insn, 0, GK_EMU_FAULT_BAD_OPERAND, 0,
                         "setmaxnreg %u, multiples of 8 from 24 to 256 are possible", count);
    }
    if (!at_launch(warp->run)) {
        return emu_fault(warp, insn, 0, GK_EMU_FAULT_BAD_OPERAND, 0,
                         "setmaxnreg in a kernel without .maxntid, .reqntid or .maxnreg: ptxas "
                         "does not know its registers at entry and ignores it (C7508)");
    }
    if (first + EMU_WARPGROUP > warp->run->warps) {
        return emu_fault(warp, insn, 0, GK_EMU_FAULT_BAD_OPERAND, 0,
                         "setmaxnreg in a warpgroup of %u warps, 4 are needed",
                         warp->run->warps - first);
    }
    if (!insn->sub && count > held(warp)) {
        return emu_fault(warp, insn, 0, GK_EMU_FAULT_BAD_OPERAND, 0,
                         "setmaxnreg.dec %u of a warp that holds %u registers a thread", count,
                         held(warp));
    }
    if (insn->sub && too_many(warp, count)) {
        return emu_fault(warp, insn, 0, GK_EMU_FAULT_BAD_OPERAND, 0,
                         "setmaxnreg.inc %u waits for ever: the block has %u registers, and its "
                         "%u other warps keep 24 a thread",
                         count, EMU_LANES * warp->run->warps * at_launch(warp->run),
                         warp->run->warps - EMU_WARPGROUP);
    }
    return EMU_NEXT;
}

/* The warp's next move must be that of its warpgroup. */
static int check_group(struct emu_warp *warp, const struct emu_insn *insn)
{
    struct emu_block *block = warp->block;
    struct emu_warpgroup *group = &block->warpgroups[warp->index / EMU_WARPGROUP];
    const struct emu_warp *first = &block->warps[warp->index / EMU_WARPGROUP * EMU_WARPGROUP];

    if (warp->register_moves < group->moves) {
        if (insn == group->insn) {
            return EMU_NEXT;
        }
        return emu_fault(warp, insn, 0, GK_EMU_FAULT_DIVERGENT, 0,
                         "warps of one warpgroup execute different setmaxnreg: another one "
                         "executed that of PTX line %u",
                         group->insn->line);
    }
    for (uint32_t w = 0; w < EMU_WARPGROUP; w++) {
        if (first[w].register_moves != warp->register_moves) {
            return emu_fault(warp, insn, 0, GK_EMU_FAULT_DIVERGENT, 0,
                             "warp %u has not executed the setmaxnreg of PTX line %u, and warp %u "
                             "of its warpgroup comes to the next",
                             first[w].index, group->insn->line, warp->index);
        }
    }
    group->moves++;
    group->insn = insn;
    return EMU_NEXT;
}

static void wake(struct emu_block *block)
{
    for (uint32_t w = 0; w < block->warp_count; w++) {
        for (uint32_t g = 0; g < block->warps[w].group_count; g++) {
            struct emu_group *group = &block->warps[w].groups[g];

            group->wait = group->wait == EMU_WAIT_POOL ? EMU_READY : group->wait;
        }
    }
}

/* sub 1: inc, 0: dec. */
int emu_exec_registers(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)
{
    struct emu_block *block = warp->block;
    uint32_t count = (uint32_t)insn->imm, need;
    int step = emu_warp_whole(warp, insn, mask);

    step = step == EMU_NEXT ? check_count(warp, insn, count) : step;
    step = step == EMU_NEXT ? check_group(warp, insn) : step;
    if (step != EMU_NEXT) {
        return step;
    }
    if (insn->sub) {
        count = count > held(warp) ? count : held(warp); /* kernels ask for what they have */
        need = EMU_LANES * (count - held(warp));
        if (need > block->register_pool) {
            emu_warp_block(warp, EMU_WAIT_POOL);
            return EMU_BLOCK;
        }
        block->register_pool -= need;
    } else {
        block->register_pool += EMU_LANES * (held(warp) - count);
        wake(block);
    }
    warp->registers = count;
    warp->register_moves++;
    return EMU_NEXT;
}

bool emu_registers_end(struct emu_block *block)
{
    for (uint32_t w = 0; w < block->warp_count; w++) {
        const struct emu_warpgroup *group = &block->warpgroups[w / EMU_WARPGROUP];

        if (block->warps[w].register_moves < group->moves) {
            (void)emu_fault(&block->warps[w], group->insn, 0, GK_EMU_FAULT_DIVERGENT, 0,
                            "warp %u has ended without this setmaxnreg, which another warp of its "
                            "warpgroup executed",
                            w);
            return false;
        }
    }
    return true;
}

void emu_registers_describe(struct gk_buf *text, const struct emu_warp *warp,
                            const struct emu_group *group, const char *where)
{
    const struct emu_insn *insn = &warp->run->kernel->code[group->pc];

    gk_buf_printf(text, "for %u registers of the block's pool, which has %u, %s",
                  EMU_LANES * ((uint32_t)insn->imm - held(warp)), warp->block->register_pool,
                  where);
}
