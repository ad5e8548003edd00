/*
 * Groups of lanes and the run loop.
 *
 * Lanes that stand at one instruction with one call stack are a group and run together. Of several
 * groups the one deepest in calls and lowest in the code runs, so lanes that parted meet again
 * where the code joins. Order is only that: a preference. A group that takes many backward branches
 * while another could run gives way to it, so a lane may wait for a lane of its own warp, as
 * independent thread scheduling promises.
 */
#include "worker/emu/ptx_table.h"

#include <string.h>

#define BACK_BRANCHES_MAX 32u  /* then an older group gets a turn */
#define FAIR_TURN         128u /* instructions of such a turn */
#define NO_GROUP          UINT32_MAX

static bool same_place(const struct emu_group *a, const struct emu_group *b)
{
    return a->pc == b->pc && a->depth == b->depth &&
           memcmp(a->stack, b->stack, a->depth * sizeof(a->stack[0])) == 0;
}

static void drop_group(struct emu_warp *warp, uint32_t index)
{
    warp->group_count--;
    if (index != warp->group_count) {
        warp->groups[index] = warp->groups[warp->group_count];
        if (warp->current == warp->group_count) {
            warp->current = index;
        }
    }
}

void emu_warp_start(struct emu_warp *warp, uint32_t lanes)
{
    warp->started = warp->alive = lanes;
    warp->group_count = 1;
    warp->groups[0] = (struct emu_group){.pc = 0, .mask = lanes};
    warp->current = NO_GROUP;
    warp->finished = lanes == 0;
    emu_flights_clear(&warp->flights);
    warp->tried = 0;
    warp->carry = 0;
    warp->steps = 0;
    warp->wgmma_batch = warp->wgmma_done = warp->wgmma_fences = 0;
    warp->cluster_phase = 0;
    warp->registers = warp->register_moves = 0;
    memset(warp->bulk_batch, 0, sizeof(warp->bulk_batch));
    memset(warp->bulk_used, 0, sizeof(warp->bulk_used));
    memset(warp->bulk_waited, 0, sizeof(warp->bulk_waited));
    memset(warp->batches, 0, sizeof(warp->batches));
    warp->copies = warp->copies_ended = 0;
    memset(warp->copies_landed, 0, sizeof(warp->copies_landed));
    memset(warp->copies_waited, 0, sizeof(warp->copies_waited));
}

static void save_current(struct emu_warp *warp)
{
    if (warp->current != NO_GROUP) {
        warp->groups[warp->current].pc = warp->pc;
        warp->groups[warp->current].mask = warp->active;
    }
}

/* The lowest pc of another ready group at the running group's depth. */
static uint32_t limit_of(const struct emu_warp *warp)
{
    const struct emu_group *mine = &warp->groups[warp->current];
    uint32_t limit = UINT32_MAX;

    if (warp->fair) {
        return 0;
    }
    for (uint32_t i = 0; i < warp->group_count; i++) {
        const struct emu_group *group = &warp->groups[i];

        if (i == warp->current || group->wait != EMU_READY) {
            continue;
        }
        if (group->depth > mine->depth) {
            return 0;
        }
        if (group->depth == mine->depth && group->pc < limit) {
            limit = group->pc;
        }
    }
    return limit;
}

static bool better(const struct emu_group *a, const struct emu_group *b)
{
    return a->depth != b->depth ? a->depth > b->depth : a->pc < b->pc;
}

static void enter(struct emu_warp *warp, uint32_t index, bool fair)
{
    warp->current = index;
    warp->pc = warp->groups[index].pc;
    warp->active = warp->groups[index].mask;
    warp->groups[index].last_run = ++warp->run->stamp;
    warp->fair = fair;
    warp->back_branches = 0;
    warp->limit = limit_of(warp);
}

/* Adds ready groups at the running group's place to it. */
static void merge_ready(struct emu_warp *warp)
{
    save_current(warp);
    for (uint32_t i = 0; i < warp->group_count;) {
        if (i != warp->current && warp->groups[i].wait == EMU_READY &&
            same_place(&warp->groups[i], &warp->groups[warp->current])) {
            warp->active |= warp->groups[i].mask;
            drop_group(warp, i);
        } else {
            i++;
        }
    }
    warp->groups[warp->current].mask = warp->active;
}

/* Picks the group to run: by place, or the one that has waited longest. */
static bool choose(struct emu_warp *warp, bool fair)
{
    uint32_t best = NO_GROUP;

    save_current(warp);
    for (uint32_t i = 0; i < warp->group_count; i++) {
        const struct emu_group *group = &warp->groups[i];

        if (group->wait != EMU_READY) {
            continue;
        }
        if (best == NO_GROUP || (fair ? group->last_run < warp->groups[best].last_run
                                      : better(group, &warp->groups[best]))) {
            best = i;
        }
    }
    if (best == NO_GROUP) {
        warp->current = NO_GROUP;
        return false;
    }
    enter(warp, best, fair);
    merge_ready(warp);
    warp->limit = limit_of(warp);
    return true;
}

void emu_warp_split(struct emu_warp *warp, uint32_t mask, uint32_t pc, enum emu_wait wait)
{
    struct emu_group *group = &warp->groups[warp->group_count++];

    *group = warp->groups[warp->current];
    group->pc = pc;
    group->mask = mask;
    group->wait = (uint8_t)wait;
    warp->active &= ~mask;
    if (wait == EMU_READY && pc < warp->limit) {
        warp->limit = pc;
    }
}

void emu_warp_block(struct emu_warp *warp, enum emu_wait wait)
{
    save_current(warp);
    warp->groups[warp->current].wait = (uint8_t)wait;
    warp->current = NO_GROUP;
}

bool emu_warp_gather(struct emu_warp *warp)
{
    bool any = false;

    save_current(warp);
    for (uint32_t i = 0; i < warp->group_count;) {
        struct emu_group *group = &warp->groups[i];

        if (i != warp->current && group->wait == EMU_WAIT_WARP &&
            same_place(group, &warp->groups[warp->current])) {
            warp->active |= group->mask;
            drop_group(warp, i);
            any = true;
        } else {
            i++;
        }
    }
    warp->groups[warp->current].mask = warp->active;
    return any;
}

int emu_warp_converge(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)
{
    if (warp->active != warp->alive) {
        if (emu_warp_gather(warp)) {
            return EMU_JUMP; /* the same instruction again, with the lanes that joined */
        }
        emu_warp_block(warp, EMU_WAIT_WARP);
        return EMU_BLOCK;
    }
    if (mask != warp->active) {
        return emu_fault(warp, insn, (unsigned)__builtin_ctz(warp->active & ~mask),
                         GK_EMU_FAULT_DIVERGENT, 0,
                         "its guard is false for lanes 0x%08x and true for 0x%08x of one warp",
                         warp->active & ~mask, mask);
    }
    return EMU_NEXT;
}

int emu_warp_whole(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)
{
    int step = emu_warp_converge(warp, insn, mask);

    if (step == EMU_NEXT && mask != EMU_FULL) {
        return emu_fault(warp, insn, (unsigned)__builtin_ctz(mask), GK_EMU_FAULT_DIVERGENT, 0,
                         "lanes 0x%08x of the warp do not exist or have exited", ~mask);
    }
    return step;
}

void emu_warp_exit(struct emu_warp *warp, uint32_t mask)
{
    struct emu_block *block = warp->block;

    warp->alive &= ~mask;
    warp->active &= ~mask;
    block->alive_threads -= (uint32_t)__builtin_popcount(mask);
    for (uint32_t i = 0; i < warp->group_count; i++) { /* they may wait for those that left */
        if (warp->groups[i].wait == EMU_WAIT_WARP) {
            warp->groups[i].wait = EMU_READY;
        }
    }
    if (!warp->active) {
        uint32_t gone = warp->current;

        warp->current = NO_GROUP;
        drop_group(warp, gone);
    } else {
        warp->limit = 0;
    }
    if (!warp->alive) {
        warp->finished = true;
        block->warps_finished++;
    }
    for (unsigned id = 0; id < EMU_BARRIERS; id++) {
        if (block->barriers[id].used && !block->barriers[id].expected) {
            emu_barrier_check(block, id);
        }
    }
    if (warp->run->cluster_blocks > 1) {
        emu_cluster_check(block);
    }
}

bool emu_warp_can_run(const struct emu_warp *warp)
{
    for (uint32_t i = 0; i < warp->group_count; i++) {
        if (warp->groups[i].wait == EMU_READY) {
            return true;
        }
    }
    return false;
}

/* No group is ready. Lanes that wait for lanes which themselves wait inside the warp will never be
 * joined, unless a barrier of the block lets some of them go first. */
static bool check_stuck(struct emu_warp *warp)
{
    const struct emu_group *stuck = NULL;
    const struct emu_insn *insn;

    for (uint32_t i = 0; i < warp->group_count; i++) {
        if (warp->groups[i].wait == EMU_WAIT_BARRIER || warp->groups[i].wait == EMU_WAIT_MBARRIER ||
            warp->groups[i].wait == EMU_WAIT_CLUSTER || warp->groups[i].wait == EMU_WAIT_POOL) {
            return true;
        }
        stuck = &warp->groups[i];
    }
    if (!stuck) {
        return true; /* finished */
    }
    insn = &warp->run->kernel->code[stuck->pc];
    (void)emu_fault(warp, insn, (unsigned)__builtin_ctz(stuck->mask), GK_EMU_FAULT_DIVERGENT, 0,
                    "lanes 0x%08x of warp %u stand here, and the other lanes alive (0x%08x) never "
                    "come",
                    stuck->mask, warp->index, warp->alive & ~stuck->mask);
    return false;
}

/* After an instruction at or behind the limit, or when groups changed. */
static bool regroup(struct emu_warp *warp, uint32_t *fair_left)
{
    merge_ready(warp);
    if (warp->fair && --*fair_left) {
        return true;
    }
    if (warp->fair) {
        *fair_left = FAIR_TURN;
        return choose(warp, false);
    }
    for (uint32_t i = 0; i < warp->group_count; i++) {
        if (i != warp->current && warp->groups[i].wait == EMU_READY &&
            better(&warp->groups[i], &warp->groups[warp->current])) {
            return choose(warp, false);
        }
    }
    warp->limit = limit_of(warp);
    return true;
}

static inline uint32_t guarded(const struct emu_warp *warp, const struct emu_insn *insn)
{
    uint32_t p;

    if (insn->guard < 0) {
        return warp->active;
    }
    memcpy(&p, warp->base[insn->guard & 1] + (insn->guard & ~1), sizeof(p));
    return warp->active & (insn->guard_negated ? ~p : p);
}

bool emu_warp_run(struct emu_warp *warp, uint32_t quantum)
{
    const struct emu_insn *code = warp->run->kernel->code;
    const struct emu_lines *lines = warp->run->lines;
    uint64_t *hits = warp->run->hits;
    uint32_t steps = 0, fair_left = FAIR_TURN;
    bool ok = true;

    if (!choose(warp, false)) {
        return check_stuck(warp);
    }
    while (steps < quantum) {
        const struct emu_insn *insn = &code[warp->pc];
        uint32_t mask = guarded(warp, insn), before = warp->pc;
        int step = !mask   ? EMU_NEXT
                   : lines ? emu_lines_exec(warp, insn, mask)
                           : insn->exec(warp, insn, mask);

        hits[before]++;
        steps++;
        if (step == EMU_NEXT) {
            warp->pc++;
        } else if (step == EMU_JUMP) {
            if (warp->pc <= before && warp->group_count > 1 && !warp->fair &&
                ++warp->back_branches > BACK_BRANCHES_MAX) {
                fair_left = FAIR_TURN;
                (void)choose(warp, true);
                continue;
            }
        } else if (step == EMU_BLOCK) {
            if (!choose(warp, false)) {
                ok = check_stuck(warp);
                break;
            }
            continue;
        } else if (step == EMU_YIELD) {
            warp->pc++;
            break;
        } else {
            ok = false;
            break;
        }
        if (warp->pc >= warp->limit && !regroup(warp, &fair_left)) {
            break;
        }
    }
    save_current(warp);
    warp->current = NO_GROUP;
    warp->steps += steps;
    warp->run->executed += steps;
    return ok;
}
