/*
 * What each thread knows of the others, and the edges that teach it. See emu_order.h.
 */
#include "worker/emu/ptx_table.h"

#include <stdlib.h>
#include <string.h>

#include "worker/emu/emu_access.h"
#include "worker/emu/emu_touch.h"

/* ------------------------------------------------------------------ vectors of ticks */

static struct emu_ticks *ticks_new(uint64_t block, uint32_t count)
{
    struct emu_ticks *ticks = calloc(1, sizeof(*ticks) + count * sizeof(ticks->tick[0]));

    if (ticks) {
        ticks->refs = 1;
        ticks->count = count;
        ticks->block = block;
    }
    return ticks;
}

static void ticks_drop(struct emu_ticks *ticks)
{
    if (ticks && !--ticks->refs) {
        free(ticks);
    }
}

/* Makes the vector one that only this holder has. false: no memory, nothing changed. */
static bool ticks_own(struct emu_ticks **ticks)
{
    struct emu_ticks *copy;

    if ((*ticks)->refs == 1) {
        return true;
    }
    copy = ticks_new((*ticks)->block, (*ticks)->count);
    if (!copy) {
        return false;
    }
    memcpy(copy->tick, (*ticks)->tick, copy->count * sizeof(copy->tick[0]));
    ticks_drop(*ticks);
    *ticks = copy;
    return true;
}

static bool covers(const struct emu_ticks *a, const struct emu_ticks *b)
{
    uint32_t less = 0;

    for (uint32_t i = 0; i < a->count; i++) {
        less |= (uint32_t)(a->tick[i] < b->tick[i]);
    }
    return !less;
}

static void ticks_join(struct emu_ticks **into, struct emu_ticks *from)
{
    if (!from || *into == from) {
        return;
    }
    if (!*into) {
        *into = from;
        from->refs++;
        return;
    }
    if (covers(*into, from) || !ticks_own(into)) {
        return;
    }
    for (uint32_t i = 0; i < from->count; i++) {
        uint32_t x = (*into)->tick[i], y = from->tick[i];

        (*into)->tick[i] = x > y ? x : y;
    }
}

/* ------------------------------------------------------------------ other blocks */

static void far_drop(struct emu_far *far)
{
    if (far && !--far->refs) {
        for (uint32_t i = 0; i < far->count; i++) {
            ticks_drop(far->part[i]);
        }
        free(far);
    }
}

uint32_t emu_far_place(const struct emu_far *far, uint64_t block)
{
    uint32_t low = 0, high = far ? far->count : 0;

    while (low < high) {
        uint32_t middle = (low + high) / 2;

        if (far->part[middle]->block < block) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* The list with one more place before `at`, or as it is, owned by one holder. */
static bool far_own(struct emu_far **far, uint32_t at, bool grow)
{
    uint32_t count = *far ? (*far)->count : 0;
    struct emu_far *copy;

    if (*far && (*far)->refs == 1 && !grow) {
        return true;
    }
    copy = calloc(1, sizeof(*copy) + (count + 1) * sizeof(copy->part[0]));
    if (!copy) {
        return false;
    }
    copy->refs = 1;
    copy->count = count + grow;
    for (uint32_t i = 0; i < count; i++) {
        copy->part[i + (grow && i >= at)] = (*far)->part[i];
        (*far)->part[i]->refs++;
    }
    far_drop(*far);
    *far = copy;
    return true;
}

static void far_join(struct emu_far **far, struct emu_ticks *part)
{
    uint32_t at = emu_far_place(*far, part->block);
    bool there = *far && at < (*far)->count && (*far)->part[at]->block == part->block;

    if (there && ((*far)->part[at] == part || covers((*far)->part[at], part))) {
        return;
    }
    if (far_own(far, at, !there)) {
        ticks_join(&(*far)->part[at], part);
    }
}

/* ------------------------------------------------------------------ knowledge */

static struct emu_seen seen_ref(const struct emu_seen *seen)
{
    if (seen->own) {
        seen->own->refs++;
    }
    if (seen->far) {
        seen->far->refs++;
    }
    return *seen;
}

static void seen_drop(struct emu_seen *seen)
{
    ticks_drop(seen->own);
    far_drop(seen->far);
    *seen = (struct emu_seen){0};
}

struct emu_known emu_known_ref(const struct emu_known *known)
{
    (void)seen_ref(&known->all);
    (void)seen_ref(&known->ended);
    for (unsigned i = 0; i < EMU_PROXIES; i++) {
        (void)seen_ref(&known->async[i]);
    }
    return *known;
}

void emu_known_drop(struct emu_known *known)
{
    seen_drop(&known->all);
    seen_drop(&known->ended);
    for (unsigned i = 0; i < EMU_PROXIES; i++) {
        seen_drop(&known->async[i]);
    }
}

void emu_gate_drop(struct emu_gate *gate)
{
    emu_known_drop(&gate->known);
    emu_known_drop(&gate->fenced);
    emu_known_drop(&gate->observed);
    gate->fenced_scope = gate->observed_scope = 0;
}

static void join_part(struct emu_seen *into, uint64_t block, struct emu_ticks *part)
{
    if (part->block == block) {
        ticks_join(&into->own, part);
    } else {
        far_join(&into->far, part);
    }
}

static void seen_join(struct emu_seen *into, uint64_t block, const struct emu_seen *from)
{
    if (from->own) {
        join_part(into, block, from->own);
    }
    if (!from->far || from->far == into->far) {
        return;
    }
    if (!into->far && emu_far_place(from->far, block) == from->far->count) {
        into->far = from->far;
        from->far->refs++;
        return;
    }
    for (uint32_t i = 0; i < from->far->count; i++) {
        join_part(into, block, from->far->part[i]);
    }
}

void emu_known_join(struct emu_known *into, uint64_t block, const struct emu_known *from)
{
    seen_join(&into->all, block, &from->all);
    seen_join(&into->ended, block, &from->ended);
    for (unsigned i = 0; i < EMU_PROXIES; i++) {
        seen_join(&into->async[i], block, &from->async[i]);
    }
}

static bool known_equal(const struct emu_known *a, const struct emu_known *b)
{
    return memcmp(a, b, sizeof(*a)) == 0; /* pointers alone */
}

void emu_known_add(struct emu_known *into, const struct emu_block *block, uint32_t first,
                   uint32_t mask, uint32_t tick)
{
    if (!into->all.own) {
        into->all.own = ticks_new(block->index, block->agents);
    }
    if (!into->all.own || !ticks_own(&into->all.own)) {
        return;
    }
    for (uint32_t left = mask; left; left &= left - 1) {
        uint32_t *at = &into->all.own->tick[first + (uint32_t)__builtin_ctz(left)];

        *at = tick > *at ? tick : *at; /* copies of one slot land in any order */
    }
}

void emu_lane_order_reset(struct emu_lane_order *lanes)
{
    for (unsigned l = 0; l < EMU_LANES; l++) {
        emu_known_drop(&lanes->known[l]);
        emu_known_drop(&lanes->fenced[l]);
        emu_known_drop(&lanes->observed[l]);
    }
    memset(lanes, 0, sizeof(*lanes));
    lanes->tick = 1;
}

static void releases_fini(struct emu_releases *releases)
{
    for (uint32_t i = 0; i < releases->capacity; i++) {
        emu_known_drop(&releases->slots[i].known);
    }
    free(releases->slots);
    *releases = (struct emu_releases){0};
}

void emu_order_fini(struct emu_order *order)
{
    releases_fini(&order->releases);
    emu_sets_fini(&order->sets);
    free(order->readers);
    *order = (struct emu_order){0};
}

void emu_block_order_reset(struct emu_block *block)
{
    releases_fini(&block->releases);
    for (unsigned i = 0; i < EMU_BARRIERS; i++) {
        emu_gate_drop(&block->barriers[i].gate);
    }
    for (uint32_t i = 0; i < block->mbarrier_count; i++) {
        emu_gate_drop(&block->mbarriers[i].now);
        emu_gate_drop(&block->mbarriers[i].done);
    }
    block->mbarrier_count = 0;
    emu_gate_drop(&block->cluster_gate);
    emu_gate_drop(&block->cluster_done);
    for (uint32_t w = 0; block->warps && w < block->warp_count; w++) {
        emu_lane_order_reset(&block->warps[w].order);
    }
}

/* ------------------------------------------------------------------ barriers */

/* Adds what the lanes know, and what they did, to `into`. */
static void join_lanes(struct emu_warp *warp, uint32_t mask, struct emu_known *into)
{
    const struct emu_known *last = NULL;

    for (uint32_t left = mask; left; left &= left - 1) {
        const struct emu_known *known = &warp->order.known[__builtin_ctz(left)];

        if (!last || !known_equal(known, last)) {
            emu_known_join(into, warp->block->index, known);
        }
        last = known;
    }
}

static void next_tick(struct emu_warp *warp)
{
    if (warp->order.tick < EMU_TICK_MAX) {
        warp->order.tick++;
    }
}

static uint8_t weaker(uint8_t a, uint8_t b)
{
    return a && (a < b || !b) ? a : b;
}

/* Fences and observations of the lanes pass a barrier. */
static void gate_take(struct emu_warp *warp, uint32_t mask, struct emu_gate *gate, uint64_t block)
{
    struct emu_lane_order *order = &warp->order;

    for (uint32_t left = mask; left; left &= left - 1) {
        unsigned l = (unsigned)__builtin_ctz(left);

        if (order->fence_scope[l]) {
            emu_known_join(&gate->fenced, block, &order->fenced[l]);
            gate->fenced_scope = weaker(gate->fenced_scope, order->fence_scope[l]);
        }
        if (order->observed_scope[l]) {
            emu_known_join(&gate->observed, block, &order->observed[l]);
            gate->observed_scope = weaker(gate->observed_scope, order->observed_scope[l]);
        }
    }
}

static void gate_give(struct emu_warp *warp, uint32_t mask, const struct emu_gate *gate)
{
    struct emu_lane_order *order = &warp->order;

    for (uint32_t left = mask; left; left &= left - 1) {
        unsigned l = (unsigned)__builtin_ctz(left);

        if (gate->fenced_scope) {
            emu_known_join(&order->fenced[l], warp->block->index, &gate->fenced);
            order->fence_scope[l] = weaker(order->fence_scope[l], gate->fenced_scope);
            order->any_fenced = true;
        }
        if (gate->observed_scope) {
            emu_known_join(&order->observed[l], warp->block->index, &gate->observed);
            order->observed_scope[l] = weaker(order->observed_scope[l], gate->observed_scope);
            order->any_observed = true;
        }
    }
}

/* What the lanes' fences released and what they observed is that of all of them behind a barrier of
 * the warp. */
static void share_fences(struct emu_warp *warp, uint32_t mask)
{
    struct emu_lane_order *order = &warp->order;
    struct emu_gate gate = {0};

    gate_take(warp, mask, &gate, warp->block->index);
    for (uint32_t left = mask; left; left &= left - 1) {
        unsigned l = (unsigned)__builtin_ctz(left);

        if (gate.fenced_scope) { /* each lane's own is a part of it */
            emu_known_drop(&order->fenced[l]);
            order->fenced[l] = emu_known_ref(&gate.fenced);
            order->fence_scope[l] = gate.fenced_scope;
        }
        if (gate.observed_scope) {
            emu_known_drop(&order->observed[l]);
            order->observed[l] = emu_known_ref(&gate.observed);
            order->observed_scope[l] = gate.observed_scope;
        }
    }
    emu_gate_drop(&gate);
}

void emu_order_warp_sync(struct emu_warp *warp, uint32_t mask)
{
    struct emu_known all = {0};

    if (warp->run->order.off) {
        return;
    }
    if (warp->order.any_fenced || warp->order.any_observed) {
        share_fences(warp, mask);
    }
    join_lanes(warp, mask, &all);
    for (uint32_t left = mask; left; left &= left - 1) {
        emu_known_drop(&warp->order.known[__builtin_ctz(left)]);
    }
    emu_known_add(&all, warp->block, warp->index * EMU_LANES, mask, warp->order.tick);
    next_tick(warp);
    for (uint32_t left = mask; left; left &= left - 1) {
        warp->order.known[__builtin_ctz(left)] = emu_known_ref(&all);
    }
    emu_known_drop(&all);
}

void emu_order_arrive(struct emu_warp *warp, uint32_t mask, struct emu_gate *gate, uint64_t block)
{
    struct emu_known mine = {0};

    if (warp->run->order.off) {
        return;
    }
    if (warp->order.any_fenced || warp->order.any_observed) {
        gate_take(warp, mask, gate, block);
    }
    if (block == warp->block->index) {
        join_lanes(warp, mask, &gate->known);
        emu_known_add(&gate->known, warp->block, warp->index * EMU_LANES, mask, warp->order.tick);
    } else {
        join_lanes(warp, mask, &mine);
        emu_known_add(&mine, warp->block, warp->index * EMU_LANES, mask, warp->order.tick);
        emu_known_join(&gate->known, block, &mine);
        emu_known_drop(&mine);
    }
    next_tick(warp);
}

void emu_order_arrive_ended(struct emu_warp *warp, uint32_t mask, struct emu_gate *gate,
                            uint64_t block)
{
    const struct emu_lane_order *order = &warp->order;
    struct emu_known mine = {0};

    if (warp->run->order.off) {
        return;
    }
    for (uint32_t left = mask; left; left &= left - 1) {
        unsigned l = (unsigned)__builtin_ctz(left);

        if (order->fence_scope[l] >= EMU_SCOPE_CLUSTER) { /* that is released all the same */
            emu_known_join(&gate->known, block, &order->fenced[l]);
        }
    }
    join_lanes(warp, mask, &mine);
    emu_known_add(&mine, warp->block, warp->index * EMU_LANES, mask, warp->order.tick);
    seen_join(&gate->known.ended, block, &mine.all);
    seen_join(&gate->known.ended, block, &mine.ended);
    for (unsigned i = 0; i < EMU_PROXIES; i++) {
        seen_join(&gate->known.async[i], block, &mine.async[i]);
    }
    emu_known_drop(&mine);
    next_tick(warp);
}

void emu_order_proxy_fence(struct emu_warp *warp, uint32_t mask, enum emu_proxy proxy)
{
    struct emu_known all = {0};

    if (warp->run->order.off) {
        return;
    }
    join_lanes(warp, mask, &all);
    emu_known_add(&all, warp->block, warp->index * EMU_LANES, mask, warp->order.tick);
    next_tick(warp);
    for (uint32_t left = mask; left; left &= left - 1) {
        struct emu_seen *async = &warp->order.known[__builtin_ctz(left)].async[proxy];

        seen_drop(async);
        *async = seen_ref(&all.all);
    }
    emu_known_drop(&all);
}

void emu_order_done(struct emu_warp *warp, uint32_t mask, uint32_t agent, uint32_t tick)
{
    struct emu_ticks *before = NULL, *after = NULL;

    if (warp->run->order.off || !tick) {
        return;
    }
    for (uint32_t left = mask; left; left &= left - 1) {
        struct emu_known *known = &warp->order.known[__builtin_ctz(left)];

        if (known->all.own && known->all.own->tick[agent] >= tick) {
            continue;
        }
        if (after && known->all.own == before) {
            ticks_drop(known->all.own);
            known->all.own = after;
            after->refs++;
            continue;
        }
        before = known->all.own;
        emu_known_add(known, warp->block, agent / EMU_LANES * EMU_LANES, 1u << agent % EMU_LANES,
                      tick);
        after = known->all.own;
    }
}

void emu_order_ahead(struct emu_warp *warp, uint32_t mask)
{
    struct emu_ticks *all = ticks_new(EMU_AHEAD_BLOCK, 1);

    if (!all) { /* accused of what it waited for, and never passed by mistake */
        return;
    }
    all->tick[0] = EMU_TICK_MAX;
    for (uint32_t left = mask; left; left &= left - 1) {
        far_join(&warp->order.known[__builtin_ctz(left)].all.far, all);
    }
    ticks_drop(all);
}

void emu_order_learn(struct emu_warp *warp, uint32_t mask, const struct emu_known *from)
{
    if (warp->run->order.off) {
        return;
    }
    for (uint32_t left = mask; left; left &= left - 1) {
        emu_known_join(&warp->order.known[__builtin_ctz(left)], warp->block->index, from);
    }
    if (from->all.far || from->ended.far ||
        (from->all.own && from->all.own->block != warp->block->index)) {
        warp->block->far_acquired = ++warp->run->order.far_acquires;
    }
}

/* Behind a barrier of the block all know the same, of which theirs is a part. */
void emu_order_leave(struct emu_warp *warp, uint32_t mask, const struct emu_gate *gate)
{
    if (warp->run->order.off) {
        return;
    }
    for (uint32_t left = mask; left; left &= left - 1) {
        struct emu_known *known = &warp->order.known[__builtin_ctz(left)];

        emu_known_drop(known);
        *known = emu_known_ref(&gate->known);
    }
    if (gate->fenced_scope || gate->observed_scope) {
        gate_give(warp, mask, gate);
    }
}

void emu_order_gather(struct emu_block *block)
{
    struct emu_known all = {0};

    for (uint32_t w = 0; w < block->warp_count; w++) {
        join_lanes(&block->warps[w], block->warps[w].started, &all);
    }
    emu_known_drop(&block->warps[0].order.known[0]);
    block->warps[0].order.known[0] = all;
}

/* ------------------------------------------------------------------ release and acquire */

/* A fence makes what came before part of every strong write behind it, and takes what strong reads
 * before it have seen. */
void emu_order_fence(struct emu_warp *warp, uint32_t mask, enum emu_scope scope)
{
    struct emu_lane_order *order = &warp->order;

    if (warp->run->order.off) {
        return;
    }
    for (uint32_t left = mask; left; left &= left - 1) {
        unsigned l = (unsigned)__builtin_ctz(left);

        if (order->any_observed && order->observed_scope[l]) {
            emu_order_learn(warp, 1u << l, &order->observed[l]);
            emu_known_drop(&order->observed[l]);
            order->observed_scope[l] = 0;
        }
        emu_known_drop(&order->fenced[l]);
        order->fenced[l] = emu_known_ref(&order->known[l]);
        emu_known_add(&order->fenced[l], warp->block, warp->index * EMU_LANES, 1u << l,
                      order->tick);
        order->fence_scope[l] = (uint8_t)scope;
    }
    order->any_fenced = true;
    next_tick(warp);
}

static uint32_t hash_of(uint64_t address, uint32_t capacity)
{
    return (uint32_t)(address * 0x9e3779b97f4a7c15ull >> 40) & (capacity - 1);
}

static struct emu_release *release_find(struct emu_releases *releases, uint64_t key)
{
    for (uint32_t at = releases->capacity ? hash_of(key, releases->capacity) : 0;
         releases->capacity && releases->slots[at].key; at = (at + 1) & (releases->capacity - 1)) {
        if (releases->slots[at].key == key) {
            return &releases->slots[at];
        }
    }
    return NULL;
}

static struct emu_release *release_add(struct emu_releases *releases, uint64_t key)
{
    struct emu_release *found = release_find(releases, key);
    uint32_t at;

    if (found) {
        return found;
    }
    if (releases->count * 2 >= releases->capacity) {
        struct emu_releases grown = {.capacity = releases->capacity ? releases->capacity * 2 : 16};

        grown.slots = calloc(grown.capacity, sizeof(*grown.slots));
        if (!grown.slots) {
            return NULL;
        }
        for (uint32_t i = 0; i < releases->capacity; i++) {
            if (releases->slots[i].key) {
                *release_add(&grown, releases->slots[i].key) = releases->slots[i];
            }
        }
        free(releases->slots);
        *releases = grown;
    }
    at = hash_of(key, releases->capacity);
    while (releases->slots[at].key) {
        at = (at + 1) & (releases->capacity - 1);
    }
    releases->slots[at].key = key;
    releases->count++;
    return &releases->slots[at];
}

/* How far two blocks stand apart, as the scope that reaches from one to the other. */
enum emu_scope emu_order_distance(const struct emu_run *run, uint64_t a, uint64_t b)
{
    if (a == b) {
        return EMU_SCOPE_CTA;
    }
    return emu_cluster_of(run, a) == emu_cluster_of(run, b) ? EMU_SCOPE_CLUSTER : EMU_SCOPE_GPU;
}

static void strong_read(struct emu_warp *warp, const struct emu_insn *insn, unsigned lane,
                        const struct emu_release *release)
{
    struct emu_lane_order *order = &warp->order;
    uint8_t scope = release->scope < insn->scope ? release->scope : insn->scope;

    if (scope < emu_order_distance(warp->run, warp->block->index, release->owner)) {
        return;
    }
    if (insn->sem == PTX_SEM_ACQUIRE || insn->sem == PTX_SEM_ACQ_REL) {
        emu_order_learn(warp, 1u << lane, &release->known);
        return;
    }
    emu_known_join(&order->observed[lane], warp->block->index, &release->known);
    order->observed_scope[lane] = scope;
    order->any_observed = true;
}

static void strong_write(struct emu_warp *warp, const struct emu_insn *insn, unsigned lane,
                         bool atomic, struct emu_releases *releases, uint64_t key)
{
    struct emu_lane_order *order = &warp->order;
    bool releasing = insn->sem == PTX_SEM_RELEASE || insn->sem == PTX_SEM_ACQ_REL;
    struct emu_release *release = release_find(releases, key);
    struct emu_known out = {0};
    uint8_t scope = insn->scope;

    if (!releasing && !order->fence_scope[lane]) {
        if (release && !atomic) { /* the value that was released is gone */
            emu_known_drop(&release->known);
            release->scope = 0;
        }
        return;
    }
    release = release ? release : release_add(releases, key);
    if (!release) {
        return;
    }
    out = emu_known_ref(releasing ? &order->known[lane] : &order->fenced[lane]);
    if (releasing) {
        emu_known_add(&out, warp->block, warp->index * EMU_LANES, 1u << lane, order->tick);
    }
    if (!releasing && order->fence_scope[lane] < scope) {
        scope = order->fence_scope[lane];
    }
    if (!atomic || !release->scope) {
        emu_known_drop(&release->known);
        release->owner = warp->block->index;
        release->scope = scope;
    } else if (scope < release->scope) {
        release->scope = scope; /* a chain reaches as far as its weakest link */
    }
    emu_known_join(&release->known, release->owner, &out);
    emu_known_drop(&out);
    next_tick(warp);
}

void emu_order_strong(struct emu_warp *warp, const struct emu_insn *insn, unsigned lane, bool reads,
                      bool writes, struct emu_releases *releases, uint64_t key)
{
    if (reads && releases->count) {
        const struct emu_release *release = release_find(releases, key);

        if (release && release->scope) {
            strong_read(warp, insn, lane, release);
        }
    }
    if (writes) {
        strong_write(warp, insn, lane, reads, releases, key);
    }
}
