/*
 * Barriers, warp-wide communication and fences.
 *
 * A .sync instruction with a member mask waits until all lanes of the mask that have not exited
 * stand at it; an .aligned one until all lanes of the warp do. Warps run one at a time and every
 * write is visible at once, so fences move no data: barriers, bar.warp.sync and fences are edges of
 * the order that accesses are checked against (emu_order.h).
 */
#include "worker/emu/emu_exec.h"

#include <string.h>

enum bar_op { BAR_SYNC, BAR_ARRIVE, BAR_RED, BAR_ALIGNED = 16 };

/* ------------------------------------------------------------------ barriers of a block */

static void write_reduction(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask,
                            const struct emu_barrier *barrier)
{
    uint32_t *d = emu_operand(warp, insn, 0);

    if (insn->atom == PTX_POPC) {
        EMU_FOR_LANES(mask, d[l] = barrier->popc);
    } else {
        bool value = insn->atom == PTX_AND ? barrier->all : barrier->any;

        *d = (*d & ~mask) | (value ? mask : 0);
    }
}

void emu_barrier_check(struct emu_block *block, unsigned id)
{
    struct emu_barrier *barrier = &block->barriers[id];
    uint32_t expected = barrier->expected ? barrier->expected : block->alive_threads;

    if (!barrier->used || barrier->arrived < expected) {
        return;
    }
    for (uint32_t w = 0; w < block->warp_count; w++) {
        struct emu_warp *warp = &block->warps[w];

        for (uint32_t g = 0; g < warp->group_count; g++) {
            struct emu_group *group = &warp->groups[g];

            if (group->wait == EMU_WAIT_BARRIER && group->barrier == id) {
                const struct emu_insn *insn = &warp->run->kernel->code[group->pc];

                if ((insn->sub & 15) == BAR_RED) {
                    write_reduction(warp, insn, group->mask, barrier);
                }
                emu_order_leave(warp, group->mask, &barrier->gate);
                group->wait = EMU_READY;
                group->pc++;
            }
        }
    }
    emu_gate_drop(&barrier->gate);
    *barrier = (struct emu_barrier){0};
}

/* Operand places: red has a destination first and a predicate last; the count may be absent. */
static int bar_operands(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask,
                        uint32_t *id_out, uint32_t *count_out)
{
    bool red = (insn->sub & 15) == BAR_RED;
    unsigned lane = (unsigned)__builtin_ctz(mask), at = red ? 1 : 0;
    unsigned last = insn->op_count - (red ? 1u : 0u);
    const uint32_t *id = emu_operand(warp, insn, at);

    *id_out = id[lane];
    *count_out = 0;
    if (at + 1 < last && insn->op[at + 1] >= 0) {
        const uint32_t *count = emu_operand(warp, insn, at + 1);

        *count_out = count[lane];
        if (!*count_out || *count_out % EMU_LANES) {
            return emu_fault(warp, insn, lane, GK_EMU_FAULT_BAD_OPERAND, 0,
                             "barrier %u for %u threads: a multiple of 32 is needed", *id_out,
                             *count_out);
        }
    }
    if (*id_out >= EMU_BARRIERS) {
        return emu_fault(warp, insn, lane, GK_EMU_FAULT_BAD_OPERAND, 0,
                         "barrier %u, a block has 0 to %d", *id_out, EMU_BARRIERS - 1);
    }
    for (uint32_t left = mask; left; left &= left - 1) {
        if (id[__builtin_ctz(left)] != *id_out) {
            return emu_fault(warp, insn, (unsigned)__builtin_ctz(left), GK_EMU_FAULT_BAD_OPERAND, 0,
                             "lanes of one warp name barriers %u and %u", *id_out,
                             id[__builtin_ctz(left)]);
        }
    }
    return EMU_NEXT;
}

static void add_predicate(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask,
                          struct emu_barrier *barrier)
{
    const uint32_t *p = emu_operand(warp, insn, insn->op_count - 1u);
    uint32_t value = insn->sub & PTX_SUB_NEGATED ? ~*p : *p;

    barrier->popc += (uint32_t)__builtin_popcount(value & mask);
    barrier->all = barrier->all && (value & mask) == mask;
    barrier->any = barrier->any || (value & mask) != 0;
}

static int bar(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)
{
    struct emu_block *block = warp->block;
    uint32_t id = 0, count = 0;
    unsigned op = insn->sub & 15;
    struct emu_barrier *barrier;
    int step = insn->sub & BAR_ALIGNED ? emu_warp_converge(warp, insn, mask) : EMU_NEXT;

    step = step == EMU_NEXT ? bar_operands(warp, insn, mask, &id, &count) : step;
    if (step != EMU_NEXT) {
        return step;
    }
    barrier = &block->barriers[id];
    if (!barrier->used) {
        *barrier = (struct emu_barrier){.used = true, .all = true, .expected = count};
    } else if (barrier->expected != count) {
        return emu_fault(warp, insn, (unsigned)__builtin_ctz(mask), GK_EMU_FAULT_BAD_OPERAND, 0,
                         "barrier %u is in use for %u threads (0: all), here it is for %u", id,
                         barrier->expected, count);
    }
    barrier->arrived +=
        count && insn->sub & BAR_ALIGNED ? EMU_LANES : (uint32_t)__builtin_popcount(mask);
    if (op == BAR_RED) {
        add_predicate(warp, insn, mask, barrier);
    }
    emu_order_arrive(warp, mask, &barrier->gate, block->index);
    if (op == BAR_ARRIVE) {
        emu_barrier_check(block, id);
        return EMU_NEXT;
    }
    warp->run->report->counts.barrier_waits++;
    if (mask != warp->active) { /* only without .aligned: the others go on */
        emu_warp_split(warp, mask, warp->pc, EMU_WAIT_BARRIER);
        warp->groups[warp->group_count - 1].barrier = (uint8_t)id;
        emu_barrier_check(block, id);
        warp->limit = 0;
        return EMU_NEXT;
    }
    warp->groups[warp->current].barrier = (uint8_t)id;
    emu_warp_block(warp, EMU_WAIT_BARRIER);
    emu_barrier_check(block, id);
    return EMU_BLOCK;
}

/* ------------------------------------------------------------------ member masks */

/* Which lanes of `mask` may go on: those whose member mask is all here. The others are split off
 * to wait. *ready_out may be 0 when only lanes with a false guard go on. */
static int members_ready(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask,
                         const uint32_t *members, uint32_t *ready_out)
{
    uint32_t ready = 0, waiting, agree = EMU_FULL;

    for (unsigned l = 0; l < EMU_LANES; l++) {
        agree &= members[l];
    }
    if (mask == EMU_FULL && agree == EMU_FULL) { /* the usual case */
        *ready_out = mask;
        return EMU_NEXT;
    }
    for (uint32_t left = mask; left;) {
        unsigned lane = (unsigned)__builtin_ctz(left);
        uint32_t want = members[lane], same = 0;

        if (!(want >> lane & 1)) {
            return emu_fault(warp, insn, lane, GK_EMU_FAULT_BAD_OPERAND, 0,
                             "member mask 0x%08x does not name the lane itself (%u)", want, lane);
        }
        for (unsigned l = 0; l < EMU_LANES; l++) {
            same |= (uint32_t)(left >> l & 1 && members[l] == want) << l;
        }
        if (!(want & warp->alive & ~same)) {
            ready |= same;
        }
        left &= ~same;
    }
    waiting = mask & ~ready;
    if (waiting && emu_warp_gather(warp)) {
        return EMU_JUMP;
    }
    if (waiting && waiting == warp->active) {
        emu_warp_block(warp, EMU_WAIT_WARP);
        return EMU_BLOCK;
    }
    if (waiting) {
        emu_warp_split(warp, waiting, warp->pc, EMU_WAIT_WARP);
    }
    *ready_out = ready;
    return EMU_NEXT;
}

static int bar_warp(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask);

/* bar.warp.sync may be met at different instructions: counts lanes that wait at any of them with
 * the same mask, and lets them go when all are there. */
static bool meet_elsewhere(struct emu_warp *warp, uint32_t want, uint32_t here)
{
    const struct emu_insn *code = warp->run->kernel->code;
    uint32_t there = here;

    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t g = 0; g < warp->group_count; g++) {
            struct emu_group *group = &warp->groups[g];
            const struct emu_insn *other = &code[group->pc];

            if (g == warp->current || group->wait != EMU_WAIT_WARP || other->exec != bar_warp) {
                continue;
            }
            if (((const uint32_t *)emu_operand(warp, other, 0))[__builtin_ctz(group->mask)] !=
                want) {
                continue;
            }
            if (pass) {
                group->wait = EMU_READY;
                group->pc++;
            } else {
                there |= group->mask;
            }
        }
        if (want & warp->alive & ~there) {
            return false;
        }
    }
    emu_order_warp_sync(warp, there);
    warp->limit = 0;
    return true;
}

static int bar_warp(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)
{
    const uint32_t *members = emu_operand(warp, insn, 0);
    uint32_t want = members[__builtin_ctz(mask)], same = 0, ready = 0;
    int step;

    for (unsigned l = 0; l < EMU_LANES; l++) {
        same |= (uint32_t)(mask >> l & 1 && members[l] == want) << l;
    }
    if (same == EMU_FULL && want == EMU_FULL) {
        emu_order_warp_sync(warp, EMU_FULL);
        return EMU_NEXT;
    }
    if (same == mask && want & warp->alive & ~mask && meet_elsewhere(warp, want, mask)) {
        return EMU_NEXT;
    }
    step = members_ready(warp, insn, mask, members, &ready);
    for (uint32_t left = step == EMU_NEXT ? ready : 0; left;) {
        want = members[__builtin_ctz(left)];
        same = 0;
        for (unsigned l = 0; l < EMU_LANES; l++) {
            same |= (uint32_t)(left >> l & 1 && members[l] == want) << l;
        }
        emu_order_warp_sync(warp, same);
        left &= ~same;
    }
    return step;
}

/* ------------------------------------------------------------------ shfl, vote, match, redux */

static int shfl(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)
{
    uint32_t *d = emu_operand(warp, insn, 0), *p = emu_operand(warp, insn, 1);
    const uint32_t *a = emu_operand(warp, insn, 2), *b = emu_operand(warp, insn, 3);
    const uint32_t *c = emu_operand(warp, insn, 4);
    uint32_t source[EMU_LANES], hit = 0;
    int step = members_ready(warp, insn, mask, emu_operand(warp, insn, 5), &mask);

    if (step != EMU_NEXT || !mask) {
        return step;
    }
    memcpy(source, a, sizeof(source));
    for (uint32_t left = mask; left; left &= left - 1) {
        uint32_t lane = (uint32_t)__builtin_ctz(left), by = b[lane] & 31, clamp = c[lane] & 31;
        uint32_t segment = c[lane] >> 8 & 31;
        uint32_t most = (lane & segment) | (clamp & ~segment & 31), from;
        bool inside;

        if (insn->mods & PTX_M_UP) {
            from = lane - by;
            inside = (int32_t)from >= (int32_t)most;
        } else {
            from = insn->mods & PTX_M_DOWN   ? lane + by
                   : insn->mods & PTX_M_BFLY ? lane ^ by
                                             : (lane & segment) | (by & ~segment & 31);
            inside = from <= most;
        }
        from = inside ? from & 31 : lane;
        d[lane] = source[from];
        hit |= (uint32_t)inside << lane;
    }
    *p = (*p & ~mask) | hit;
    return EMU_NEXT;
}

static int vote(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)
{
    uint32_t *d = emu_operand(warp, insn, 0);
    const uint32_t *q = emu_operand(warp, insn, 1), *members = emu_operand(warp, insn, 2);
    uint32_t value = insn->sub & PTX_SUB_NEGATED ? ~*q : *q;
    int step = members_ready(warp, insn, mask, members, &mask);

    if (step != EMU_NEXT) {
        return step;
    }
    for (uint32_t left = mask; left;) {
        uint32_t want = members[__builtin_ctz(left)], same = 0, votes;
        bool result;

        for (unsigned l = 0; l < EMU_LANES; l++) {
            same |= (uint32_t)(left >> l & 1 && members[l] == want) << l;
        }
        left &= ~same;
        votes = value & same;
        if (insn->mods & PTX_M_BALLOT) {
            EMU_FOR_LANES(same, d[l] = votes);
            continue;
        }
        result = insn->mods & PTX_M_ALL   ? votes == same
                 : insn->mods & PTX_M_ANY ? votes != 0
                                          : votes == same || votes == 0;
        *d = (*d & ~same) | (result ? same : 0);
    }
    return EMU_NEXT;
}

static int active_mask(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)
{
    uint32_t *d = emu_operand(warp, insn, 0);

    EMU_FOR_LANES(mask, d[l] = mask);
    return EMU_NEXT;
}

static uint64_t lane_value(const void *array, unsigned lane, uint32_t bytes)
{
    uint64_t value = 0;

    memcpy(&value, (const unsigned char *)array + lane * bytes, bytes);
    return value;
}

static int match(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)
{
    uint32_t *d = emu_operand(warp, insn, 0), *p = emu_operand(warp, insn, 1);
    const void *a = emu_operand(warp, insn, 2);
    const uint32_t *members = emu_operand(warp, insn, 3);
    uint32_t bytes = ptx_type_bytes(insn->type), out[EMU_LANES], hit = 0;
    int step = members_ready(warp, insn, mask, members, &mask);

    if (step != EMU_NEXT || !mask) {
        return step;
    }
    for (uint32_t left = mask; left; left &= left - 1) {
        unsigned lane = (unsigned)__builtin_ctz(left);
        uint32_t equal = 0, group = 0;

        for (unsigned l = 0; l < EMU_LANES; l++) {
            if (mask >> l & 1 && members[l] == members[lane]) {
                group |= 1u << l;
                equal |= (uint32_t)(lane_value(a, l, bytes) == lane_value(a, lane, bytes)) << l;
            }
        }
        out[lane] = insn->mods & PTX_M_ALL ? (equal == group ? group : 0) : equal;
        hit |= (uint32_t)(equal == group) << lane;
    }
    EMU_FOR_LANES(mask, d[l] = out[l]);
    *p = (*p & ~mask) | hit;
    return EMU_NEXT;
}

static uint32_t reduce(uint8_t op, uint8_t type, uint32_t x, uint32_t y)
{
    bool less = type == PTX_S32 ? (int32_t)x < (int32_t)y : x < y;

    switch (op) {
    case PTX_ADD:
        return x + y;
    case PTX_MIN:
        return less ? x : y;
    case PTX_MAX:
        return less ? y : x;
    case PTX_AND:
        return x & y;
    case PTX_OR:
        return x | y;
    default:
        return x ^ y;
    }
}

static int redux(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)
{
    uint32_t *d = emu_operand(warp, insn, 0), source[EMU_LANES];
    const uint32_t *a = emu_operand(warp, insn, 1), *members = emu_operand(warp, insn, 2);
    int step = members_ready(warp, insn, mask, members, &mask);

    if (step != EMU_NEXT) {
        return step;
    }
    memcpy(source, a, sizeof(source));
    for (uint32_t left = mask; left;) {
        unsigned first = (unsigned)__builtin_ctz(left);
        uint32_t same = 1u << first, value = source[first];

        for (unsigned l = first + 1; l < EMU_LANES; l++) {
            if (left >> l & 1 && members[l] == members[first]) {
                same |= 1u << l;
                value = reduce(insn->atom, insn->type, value, source[l]);
            }
        }
        left &= ~same;
        EMU_FOR_LANES(same, d[l] = value);
    }
    return EMU_NEXT;
}

/* The lowest lane of the member mask is elected. */
static int elect(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)
{
    uint32_t *d = emu_operand(warp, insn, 0), *p = emu_operand(warp, insn, 1), hit = 0;
    const uint32_t *members = emu_operand(warp, insn, 2);
    int step = members_ready(warp, insn, mask, members, &mask);

    if (step != EMU_NEXT) {
        return step;
    }
    for (uint32_t left = mask; left; left &= left - 1) {
        unsigned lane = (unsigned)__builtin_ctz(left);
        uint32_t leader = (uint32_t)__builtin_ctz(members[lane] & warp->alive);

        d[lane] = leader;
        hit |= (uint32_t)(leader == lane) << lane;
    }
    *p = (*p & ~mask) | hit;
    return EMU_NEXT;
}

static int fence(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)
{
    emu_order_fence(warp, mask, (enum emu_scope)insn->scope);
    return EMU_NEXT;
}

static int sleep_now(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)
{
    (void)warp;
    (void)insn;
    (void)mask;
    return EMU_YIELD;
}

#define CONTROL      EMU_CLASS_CONTROL
#define SYNC_ALIGNED (BAR_SYNC | BAR_ALIGNED)

static const struct ptx_row ROWS[] = {
    {"bar{.cta}.sync", "Sw Sw?", bar, CONTROL, SYNC_ALIGNED},
    {"bar{.cta}.arrive", "Sw Sw", bar, CONTROL, BAR_ARRIVE | BAR_ALIGNED},
    {"bar{.cta}.red.popc.u32", "Dw Sw G", bar, CONTROL, BAR_RED | BAR_ALIGNED},
    {"bar{.cta}.red.popc.u32", "Dw Sw Sw G", bar, CONTROL, BAR_RED | BAR_ALIGNED},
    {"bar{.cta}.red[.and|.or].pred", "P Sw G", bar, CONTROL, BAR_RED | BAR_ALIGNED},
    {"bar{.cta}.red[.and|.or].pred", "P Sw Sw G", bar, CONTROL, BAR_RED | BAR_ALIGNED},
    {"barrier{.cta}.sync.aligned", "Sw Sw?", bar, CONTROL, SYNC_ALIGNED},
    {"barrier{.cta}.sync", "Sw Sw?", bar, CONTROL, BAR_SYNC},
    {"barrier{.cta}.arrive.aligned", "Sw Sw", bar, CONTROL, BAR_ARRIVE | BAR_ALIGNED},
    {"barrier{.cta}.arrive", "Sw Sw", bar, CONTROL, BAR_ARRIVE},
    {"barrier{.cta}.red.popc.aligned.u32", "Dw Sw G", bar, CONTROL, BAR_RED | BAR_ALIGNED},
    {"barrier{.cta}.red.popc.aligned.u32", "Dw Sw Sw G", bar, CONTROL, BAR_RED | BAR_ALIGNED},
    {"barrier{.cta}.red[.and|.or].aligned.pred", "P Sw G", bar, CONTROL, BAR_RED | BAR_ALIGNED},
    {"barrier{.cta}.red[.and|.or].aligned.pred", "P Sw Sw G", bar, CONTROL, BAR_RED | BAR_ALIGNED},
    {"barrier{.cta}.red.popc.u32", "Dw Sw G", bar, CONTROL, BAR_RED},
    {"barrier{.cta}.red.popc.u32", "Dw Sw Sw G", bar, CONTROL, BAR_RED},
    {"barrier{.cta}.red[.and|.or].pred", "P Sw G", bar, CONTROL, BAR_RED},
    {"barrier{.cta}.red[.and|.or].pred", "P Sw Sw G", bar, CONTROL, BAR_RED},
    {"bar.warp.sync", "Sw", bar_warp, CONTROL, 0},
    {"shfl.sync[.up|.down|.bfly|.idx].b32", "Rw Sw Sw Sw Sw", shfl, EMU_CLASS_INT, 0},
    {"vote.sync[.all|.any|.uni].pred", "P G Sw", vote, EMU_CLASS_INT, 0},
    {"vote.sync.ballot.b32", "Dw G Sw", vote, EMU_CLASS_INT, 0},
    {"activemask.b32", "Dw", active_mask, EMU_CLASS_INT, 0},
    {"match[.any|.all].sync[.b32|.b64]", "Rw St Sw", match, EMU_CLASS_INT, 0},
    {"redux.sync[.add|.min|.max][.u32|.s32]", "Dw Sw Sw", redux, EMU_CLASS_INT, 0},
    {"redux.sync[.and|.or|.xor].b32", "Dw Sw Sw", redux, EMU_CLASS_INT, 0},
    {"elect.sync", "Rw Sw", elect, EMU_CLASS_INT, 0},
    {"membar[.cta|.gl|.sys]", "", fence, CONTROL, 0},
    {"fence{.sc|.acq_rel|.acquire|.release}[.cta|.cluster|.gpu|.sys]", "", fence, CONTROL, 0},
    {"nanosleep.u32", "Sw", sleep_now, CONTROL, 0},
};

EMU_ROWS_FUNCTION(emu_rows_sync, ROWS)
