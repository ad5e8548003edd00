/*
 * Moves, branches, calls, exits and traps.
 */
#include "worker/emu/ptx_decode.h"
#include "worker/emu/emu_exec.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MOVE(name, type)                                                                           \
    int name(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)                    \
    {                                                                                              \
        type *d = emu_operand(warp, insn, 0);                                                      \
        const type *a = emu_operand(warp, insn, 1);                                                \
        EMU_FOR_LANES(mask, d[l] = a[l]);                                                          \
        return EMU_NEXT;                                                                           \
    }
MOVE(emu_exec_mov_16, uint16_t)
MOVE(emu_exec_mov_32, uint32_t)
MOVE(emu_exec_mov_64, uint64_t)

int emu_exec_mov_pred(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)
{
    uint32_t *d = emu_operand(warp, insn, 0);
    const uint32_t *a = emu_operand(warp, insn, 1);
    uint32_t value = insn->sub & PTX_SUB_NEGATED ? ~*a : *a;

    *d = (*d & ~mask) | (value & mask);
    return EMU_NEXT;
}

/* insn->sub: bytes of the wide register; insn->vec: parts, the first is the lowest. The wide value
 * is gathered before it is written: a part may be the very register that is written. */
int emu_exec_pack(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)
{
    unsigned char *d = emu_operand(warp, insn, 0), whole[EMU_LANES][8];
    uint32_t wide = insn->sub, part = wide / insn->vec;

    for (uint32_t i = 0; i < insn->vec; i++) {
        const unsigned char *a = emu_operand(warp, insn, 1 + i);

        for (unsigned l = 0; l < EMU_LANES; l++) {
            memcpy(whole[l] + i * part, a + l * part, part);
        }
    }
    EMU_FOR_LANES(mask, memcpy(d + l * wide, whole[l], wide));
    return EMU_NEXT;
}

int emu_exec_unpack(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)
{
    const unsigned char *a = emu_operand(warp, insn, 0);
    unsigned char whole[EMU_LANES * 8];
    uint32_t wide = insn->sub, part = wide / insn->vec;

    memcpy(whole, a, (size_t)wide * EMU_LANES);
    for (uint32_t i = 0; i < insn->vec; i++) {
        unsigned char *d = emu_operand(warp, insn, 1 + i);

        EMU_FOR_LANES(mask, memcpy(d + l * part, whole + l * wide + i * part, part));
    }
    return EMU_NEXT;
}

/* Time is the work done: instructions of the warp for clock, of the launch for globaltimer. */
int emu_exec_clock(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)
{
    uint64_t clock = warp->run->emu->seed + warp->steps + warp->run->executed + warp->run->stamp;
    uint64_t value;
    uint32_t *narrow = emu_operand(warp, insn, 0);
    uint64_t *wide = emu_operand(warp, insn, 0);

    warp->run->stamp++; /* two readings differ */
    switch ((enum ptx_clock)insn->sub) {
    case PTX_CLOCK_HI:
    case PTX_GLOBALTIMER_HI:
        value = clock >> 32;
        break;
    default:
        value = clock;
        break;
    }
    if (insn->sub == PTX_CLOCK_64 || insn->sub == PTX_GLOBALTIMER) {
        EMU_FOR_LANES(mask, wide[l] = value);
    } else {
        EMU_FOR_LANES(mask, narrow[l] = (uint32_t)value);
    }
    return EMU_NEXT;
}

/* ------------------------------------------------------------------ branches */

int emu_exec_bra(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)
{
    uint32_t target = (uint32_t)insn->imm, next = warp->pc + 1;

    if (mask != warp->active) {
        /* Both ways are taken: the lower one goes on, the other waits for its turn. */
        warp->run->report->counts.divergent_branches++;
        if (target < next) {
            emu_warp_split(warp, warp->active & ~mask, next, EMU_READY);
        } else {
            emu_warp_split(warp, mask, target, EMU_READY);
            target = next;
        }
    }
    warp->pc = target;
    return EMU_JUMP;
}

int emu_exec_brx(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)
{
    const struct emu_table *table = &warp->run->kernel->tables[insn->imm];
    const uint32_t *index = emu_operand(warp, insn, 0);
    uint32_t left = mask, rest = warp->active & ~mask;
    uint32_t first = UINT32_MAX;

    if (rest) {
        emu_warp_split(warp, rest, warp->pc + 1, EMU_READY);
    }
    while (left) {
        unsigned lane = (unsigned)__builtin_ctz(left);
        uint32_t same = 0, target;

        if (index[lane] >= table->count) {
            return emu_fault(warp, insn, lane, GK_EMU_FAULT_BAD_OPERAND, 0,
                             "branch index %u, the table has %u targets", index[lane],
                             table->count);
        }
        target = table->targets[index[lane]];
        for (unsigned l = 0; l < EMU_LANES; l++) {
            if (left >> l & 1 && index[l] < table->count && table->targets[index[l]] == target) {
                same |= 1u << l;
            }
        }
        left &= ~same;
        if (first == UINT32_MAX) {
            first = target;
        } else {
            warp->run->report->counts.divergent_branches++;
            emu_warp_split(warp, same, target, EMU_READY);
        }
    }
    warp->pc = first;
    warp->limit = warp->group_count > 1 ? 0 : warp->limit;
    return EMU_JUMP;
}

/* ------------------------------------------------------------------ calls */

static void copy_lanes(struct emu_warp *warp, const struct emu_copy *copy, uint32_t mask)
{
    unsigned char *to = warp->base[0] + copy->to;
    const unsigned char *from = warp->base[0] + copy->from;

    if (mask == EMU_FULL) {
        memcpy(to, from, (size_t)copy->bytes * EMU_LANES);
        return;
    }
    for (uint32_t left = mask; left; left &= left - 1) {
        unsigned l = (unsigned)__builtin_ctz(left);

        memcpy(to + l * (size_t)copy->bytes, from + l * (size_t)copy->bytes, copy->bytes);
    }
}

int emu_exec_call(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)
{
    const struct gk_emu_kernel *kernel = warp->run->kernel;
    const struct emu_call *call = &kernel->calls[insn->imm];
    struct emu_group *group;

    if (mask != warp->active) {
        emu_warp_split(warp, warp->active & ~mask, warp->pc + 1, EMU_READY);
    }
    group = &warp->groups[warp->current];
    for (uint32_t i = 0; i < group->depth; i++) {
        if (kernel->calls[kernel->code[group->stack[i]].imm].function == call->function) {
            return emu_fault(warp, insn, (unsigned)__builtin_ctz(mask), GK_EMU_FAULT_CALL_DEPTH, 0,
                             "function %s calls itself, directly or not",
                             kernel->function_name[call->function]);
        }
    }
    if (group->depth == EMU_CALL_DEPTH_MAX) {
        return emu_fault(warp, insn, (unsigned)__builtin_ctz(mask), GK_EMU_FAULT_CALL_DEPTH, 0,
                         "%d calls are open, no more are possible", EMU_CALL_DEPTH_MAX);
    }
    for (uint32_t i = 0; i < call->in_count; i++) {
        copy_lanes(warp, &call->in[i], mask);
    }
    group->stack[group->depth++] = warp->pc;
    warp->pc = call->target;
    warp->limit = warp->group_count > 1 ? 0 : UINT32_MAX;
    return EMU_JUMP;
}

int emu_exec_exit(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)
{
    for (uint32_t left = mask; left; left &= left - 1) {
        unsigned l = (unsigned)__builtin_ctz(left);

        if (warp->bulk_used[l] > warp->bulk_waited[l]) {
            return emu_fault(warp, insn, l, GK_EMU_FAULT_RACE, 0,
                             "the thread ends without cp.async.bulk.wait_group for its last bulk "
                             "store, which may still read shared memory when the block is gone");
        }
    }
    emu_warp_exit(warp, mask);
    return warp->active ? EMU_NEXT : EMU_BLOCK;
}

int emu_exec_ret(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)
{
    const struct gk_emu_kernel *kernel = warp->run->kernel;
    struct emu_group *group = &warp->groups[warp->current];
    const struct emu_call *call;
    uint32_t site;

    if (!group->depth) {
        return emu_exec_exit(warp, insn, mask);
    }
    if (mask != warp->active) {
        emu_warp_split(warp, warp->active & ~mask, warp->pc + 1, EMU_READY);
        group = &warp->groups[warp->current];
    }
    site = group->stack[--group->depth];
    call = &kernel->calls[kernel->code[site].imm];
    if (call->has_out) {
        copy_lanes(warp, &call->out, mask);
    }
    warp->pc = site + 1;
    warp->limit = warp->group_count > 1 ? 0 : UINT32_MAX;
    return EMU_JUMP;
}

/* ------------------------------------------------------------------ ends */

static int trap(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)
{
    return emu_fault(warp, insn, (unsigned)__builtin_ctz(mask), GK_EMU_FAULT_TRAP, 0,
                     "the kernel stopped itself");
}

/* Text of a device string, as far as it is written; for messages only. */
static void device_string(struct emu_warp *warp, int32_t param, unsigned lane, char *text,
                          size_t size)
{
    uint64_t address;
    size_t used = 0;

    memcpy(&address, warp->base[0] + param + lane * 8u, sizeof(address));
    while (used + 1 < size) {
        const struct emu_alloc *alloc = emu_memory_find(&warp->run->emu->memory, address + used, 1);
        char c = alloc ? (char)alloc->bytes[address + used - alloc->address] : 0;

        if (!c) {
            break;
        }
        text[used++] = c >= 32 && c < 127 ? c : '?';
    }
    text[used] = 0;
}

/* __assertfail(message, file, line, function, character size) */
int emu_exec_assert_fail(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)
{
    unsigned lane = (unsigned)__builtin_ctz(mask);
    char message[200], file[200], function[120];
    uint32_t line;

    device_string(warp, insn->op[0], lane, message, sizeof(message));
    device_string(warp, insn->op[1], lane, file, sizeof(file));
    device_string(warp, insn->op[3], lane, function, sizeof(function));
    memcpy(&line, warp->base[0] + insn->op[2] + lane * 4u, sizeof(line));
    return emu_fault(warp, insn, lane, GK_EMU_FAULT_ASSERT, 0, "`%s` at %s:%u in %s", message, file,
                     line, function);
}

/* vprintf(format, arguments): nothing is printed, and no conversions were made, which is what the
 * result says. The arguments have been put where it would find them, by instructions of their own.
 */
int emu_exec_printf(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)
{
    uint32_t *d = (void *)(warp->base[0] + insn->op[2]);

    EMU_FOR_LANES(mask, d[l] = 0);
    return EMU_NEXT;
}

#define CONTROL EMU_CLASS_CONTROL

static const struct ptx_row ROWS[] = {
    {"ret{.uni}", "", emu_exec_ret, CONTROL, 0},
    {"exit", "", emu_exec_exit, CONTROL, 0},
    {"trap", "", trap, CONTROL, 0},
    {"brkpt", "", trap, CONTROL, 0},
};

EMU_ROWS_FUNCTION(emu_rows_control, ROWS)
