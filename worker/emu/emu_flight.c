/*
 * When asynchronous copies land. See emu_flight.h.
 */
#include "worker/emu/emu_inside.h"

#include <stdlib.h>
#include <string.h>

#define DELAY_MAX 4096u /* warp instructions of the launch (RANDOM) */
#define NEVER     UINT64_MAX
/* Stores of a warp that have read and not written: more are not kept back. */
#define KEPT_STORES_MAX 16u

/* ------------------------------------------------------------------ lists */

void emu_flights_clear(struct emu_flights *flights)
{
    for (uint32_t i = 0; i < flights->count; i++) {
        free(flights->items[i].data);
    }
    flights->count = 0;
}

void emu_flights_fini(struct emu_flights *flights)
{
    emu_flights_clear(flights);
    free(flights->items);
    *flights = (struct emu_flights){0};
}

struct emu_flight *emu_flights_room(struct emu_flights *flights)
{
    if (flights->count == flights->capacity) {
        uint32_t capacity = flights->capacity ? flights->capacity * 2 : 16;
        struct emu_flight *grown = realloc(flights->items, capacity * sizeof(*grown));

        if (!grown) {
            return NULL;
        }
        flights->items = grown;
        flights->capacity = capacity;
    }
    flights->items[flights->count].data = NULL;
    flights->items[flights->count].moved = false;
    flights->items[flights->count].add = 0;
    flights->items[flights->count].arrivals = 0;
    return &flights->items[flights->count];
}

static void drop(struct emu_flights *flights, uint32_t at)
{
    free(flights->items[at].data);
    flights->count--;
    memmove(&flights->items[at], &flights->items[at + 1],
            (flights->count - at) * sizeof(flights->items[0]));
}

/* ------------------------------------------------------------------ cp.async */

static void move_lanes(struct emu_flight *flight, uint32_t mask)
{
    for (uint32_t left = flight->moved ? 0 : mask; left; left &= left - 1) {
        unsigned l = (unsigned)__builtin_ctz(left);
        unsigned char *to = flight->block->shared + flight->lanes.address[l];
        uint32_t size = flight->lanes.sizes[l];

        if (size) {
            memcpy(to, flight->lanes.from[l], size);
        }
        memset(to + size, 0, flight->bytes - size);
    }
}

/* Lanes of the mask whose copy is done: those below the threshold of their lane, or, without one,
 * those that `until` copies of the warp came before. */
static uint32_t done_lanes(const struct emu_flight *flight, uint32_t mask,
                           const uint32_t *threshold, uint32_t until)
{
    uint32_t done = 0;

    if (flight->kind != EMU_FLIGHT_LANES) {
        return 0;
    }
    for (uint32_t left = flight->mask & mask; left; left &= left - 1) {
        unsigned l = (unsigned)__builtin_ctz(left);

        done |= (uint32_t)(threshold ? flight->batch < threshold[l] : flight->number < until) << l;
    }
    return done;
}

/* The bytes count as written by the threads that waited for them, or by the warp's agent at `tick`
 * if none did. */
static void finish_lanes(struct emu_warp *warp, uint32_t mask, const uint32_t *threshold,
                         uint32_t until, uint32_t tick)
{
    struct emu_flights *flights = &warp->flights;
    struct emu_block *block = warp->block;
    uint32_t kept = 0;

    for (uint32_t i = 0; i < flights->count; i++) {
        struct emu_flight *flight = &flights->items[i];
        uint32_t done = done_lanes(flight, mask, threshold, until);

        move_lanes(flight, done);
        for (uint32_t left = done; left; left &= left - 1) {
            unsigned l = (unsigned)__builtin_ctz(left);
            uint32_t address = flight->lanes.address[l];

            if (threshold) {
                warp->copies_waited[l] = warp->order.tick;
                emu_order_landed(block, warp->index * EMU_LANES + l, warp->order.tick, address,
                                 flight->bytes);
            } else {
                warp->copies_landed[l] = tick;
                emu_order_landed(block, emu_copies_agent(warp), tick, address, flight->bytes);
            }
            emu_bits_clear(block->shared_pending, address, flight->bytes);
            emu_bits_set(block->shared_written, address, flight->bytes);
        }
        if (flight->kind == EMU_FLIGHT_LANES) {
            flight->mask &= ~done;
        }
        if (flight->kind != EMU_FLIGHT_LANES || flight->mask) {
            if (kept != i) {
                flights->items[kept] = *flight;
            }
            kept++;
        }
    }
    flights->count = kept;
}

void emu_flights_wait_lanes(struct emu_warp *warp, const uint32_t *threshold, uint32_t mask)
{
    finish_lanes(warp, mask, threshold, 0, 0);
    for (uint32_t left = mask; left; left &= left - 1) {
        unsigned l = (unsigned)__builtin_ctz(left);

        if (threshold[l] && warp->copies_landed[l]) { /* an mbarrier's count made them land */
            emu_order_done(warp, 1u << l, emu_copies_agent(warp), warp->copies_landed[l]);
        }
    }
}

void emu_flights_land_lanes(struct emu_flight *arrival)
{
    struct emu_warp *warp = arrival->warp;
    struct emu_mbarrier *barrier = emu_mbarrier_find(arrival->block, arrival->bulk.barrier);

    arrival->agent = emu_copies_agent(warp);
    arrival->tick = ++warp->copies_ended;
    finish_lanes(warp, arrival->mask, NULL, arrival->number, arrival->tick);
    for (uint32_t left = warp->run->order.off ? 0 : arrival->mask; left; left &= left - 1) {
        unsigned l = (unsigned)__builtin_ctz(left);

        if (warp->copies_waited[l]) { /* by the thread itself, before this */
            emu_known_add(&barrier->now.known, warp->block, warp->index * EMU_LANES, 1u << l,
                          warp->copies_waited[l]);
        }
    }
}

uint32_t emu_flights_groups(const struct emu_warp *warp)
{
    uint32_t groups = 0, last = UINT32_MAX;

    for (uint32_t i = 0; i < warp->flights.count; i++) {
        const struct emu_flight *flight = &warp->flights.items[i];

        if (flight->kind == EMU_FLIGHT_LANES && flight->batch != last) {
            last = flight->batch;
            groups++;
        }
    }
    return groups;
}

/* ------------------------------------------------------------------ stores */

/* The source is a run of shared memory, whatever the box; a swizzle stays inside 128 bytes. Without
 * memory for it `data` stays NULL: then the store is read when it is written, which is as legal. */
static void read_source(struct emu_flight *flight)
{
    uint32_t size = (flight->bytes + 127) / 128 * 128;
    uint32_t there = flight->warp->run->shared_bytes - flight->bulk.shared;

    if (flight->data) {
        return;
    }
    flight->data = malloc(size);
    if (flight->data) {
        memcpy(flight->data, flight->block->shared + flight->bulk.shared,
               size < there ? size : there);
    }
}

static void write_store(struct emu_flights *flights, uint32_t at)
{
    flights->items[at].move(&flights->items[at]);
    drop(flights, at);
}

void emu_flights_wait_stores(struct emu_warp *warp, unsigned lane, uint32_t batch, bool reads_only)
{
    struct emu_flights *flights = &warp->flights;
    uint32_t read = 0;

    for (uint32_t i = flights->count; i-- > 0;) {
        struct emu_flight *flight = &flights->items[i];

        if (flight->kind != EMU_FLIGHT_STORE || flight->mask != 1u << lane ||
            flight->batch > batch) {
            continue;
        }
        if (reads_only) {
            read_source(flight);
        }
        if (!reads_only || !flight->data || ++read > KEPT_STORES_MAX) {
            write_store(flights, i);
        }
    }
}

/* ------------------------------------------------------------------ loads */

/* Writes shared memory and counts on the barrier. false: a fault. */
static bool land(struct emu_flights *flights, uint32_t at)
{
    struct emu_flight *flight = &flights->items[at];
    struct emu_block *block = flight->block;
    struct emu_mbarrier *barrier = emu_mbarrier_find(block, flight->bulk.barrier);
    unsigned lane = (unsigned)__builtin_ctz(flight->mask);

    if (!barrier) {
        (void)emu_fault(flight->warp, flight->insn, lane, GK_EMU_FAULT_BAD_OPERAND,
                        flight->bulk.barrier,
                        "the mbarrier at shared offset 0x%x was given up while a copy in flight "
                        "counts on it",
                        flight->bulk.barrier);
        return false;
    }
    flight->move(flight);
    if (!flight->warp->run->order.off) {
        emu_known_add(&barrier->now.known, block, flight->agent / EMU_LANES * EMU_LANES,
                      1u << flight->agent % EMU_LANES, flight->tick);
    }
    if (emu_mbarrier_add(flight->warp, flight->insn, lane, block, barrier, flight->arrivals,
                         -(int64_t)flight->bytes) != EMU_NEXT) {
        return false;
    }
    drop(flights, at);
    return true;
}

bool emu_flights_land_on(struct emu_block *block, uint32_t barrier)
{
    const struct emu_mbarrier *at = emu_mbarrier_find(block, barrier);
    uint32_t phase = at ? at->phase : 0;

    for (uint32_t i = block->flights.count; at && at->phase == phase && i-- > 0;) {
        if (block->flights.items[i].bulk.barrier == barrier && !land(&block->flights, i)) {
            return false;
        }
    }
    return true;
}

/* ------------------------------------------------------------------ time */

bool emu_flight_start(struct emu_run *run, struct emu_block *owner, struct emu_flights *flights)
{
    struct emu_flight *flight = &flights->items[flights->count++];
    uint32_t delay = emu_random(run) % DELAY_MAX;

    flight->due = NEVER;
    if (run->emu->schedule == GK_EMU_RANDOM) {
        flight->due = run->executed + (emu_random(run) % 4 ? delay : 0);
        owner->next_due = flight->due < owner->next_due ? flight->due : owner->next_due;
    }
    if (run->emu->schedule != GK_EMU_EARLY) {
        return true;
    }
    if (flight->kind == EMU_FLIGHT_LOAD) {
        return land(flights, flights->count - 1);
    }
    if (flight->kind == EMU_FLIGHT_STORE) {
        write_store(flights, flights->count - 1);
    } else {
        move_lanes(flight, flight->mask);
        flight->moved = true;
    }
    return true;
}

/* A store that is due reads, and writes after a time as long again. */
static void due_of_warp(struct emu_warp *warp, uint64_t now, uint64_t *next)
{
    for (uint32_t i = 0; i < warp->flights.count; i++) {
        struct emu_flight *flight = &warp->flights.items[i];

        if (flight->due > now) {
            *next = flight->due < *next ? flight->due : *next;
        } else if (flight->kind == EMU_FLIGHT_LANES) {
            move_lanes(flight, flight->mask);
            flight->moved = true;
            flight->due = NEVER;
        } else if (flight->data) {
            write_store(&warp->flights, i--);
        } else {
            read_source(flight);
            flight->due = now + emu_random(warp->run) % DELAY_MAX;
            *next = flight->due < *next ? flight->due : *next;
        }
    }
}

bool emu_flights_due(struct emu_block *block)
{
    uint64_t now = block->warps[0].run->executed, next = NEVER;

    for (uint32_t i = 0; i < block->flights.count;) {
        uint64_t due = block->flights.items[i].due;

        if (due > now) {
            next = due < next ? due : next;
            i++;
        } else if (!land(&block->flights, i)) {
            return false;
        }
    }
    for (uint32_t w = 0; w < block->warp_count; w++) {
        due_of_warp(&block->warps[w], now, &next);
    }
    block->next_due = next;
    return true;
}

bool emu_flights_force(struct emu_block *block, bool all, bool *landed_out)
{
    struct emu_flights *loads = &block->flights;
    uint32_t before = loads->count;

    for (uint32_t w = 0; w < block->warp_count && loads->count; w++) {
        for (uint32_t g = 0; g < block->warps[w].group_count; g++) {
            const struct emu_group *group = &block->warps[w].groups[g];

            if (group->wait == EMU_WAIT_MBARRIER &&
                !emu_flights_land_on(block, emu_mbarrier_waited(&block->warps[w], group))) {
                return false;
            }
        }
    }
    while (loads->count && (all || loads->count == before)) {
        if (!land(loads, loads->count - 1)) {
            return false;
        }
    }
    *landed_out = *landed_out || loads->count != before;
    for (uint32_t w = 0; all && w < block->warp_count; w++) {
        struct emu_flights *stores = &block->warps[w].flights;

        for (uint32_t i = stores->count; i-- > 0;) {
            if (stores->items[i].kind == EMU_FLIGHT_STORE) {
                write_store(stores, i);
                *landed_out = true;
            }
        }
    }
    return true;
}

bool emu_flights_end(struct emu_block *block)
{
    bool landed = false;

    for (uint32_t i = block->flights.count; i-- > 0;) {
        if (block->flights.items[i].arrivals) { /* nobody waits for them any more */
            drop(&block->flights, i);
        }
    }
    if (block->flights.count) {
        const struct emu_flight *flight = &block->flights.items[0];

        (void)emu_fault(flight->warp, flight->insn, (unsigned)__builtin_ctz(flight->mask),
                        GK_EMU_FAULT_RACE, flight->bulk.shared,
                        "block (%u,%u,%u) has ended, and nobody waited for this copy of %u bytes "
                        "to its shared memory",
                        block->ctaid[0], block->ctaid[1], block->ctaid[2], flight->bytes);
        return false;
    }
    if (!emu_flights_force(block, true, &landed)) {
        return false;
    }
    for (uint32_t w = 0; w < block->warp_count; w++) {
        emu_flights_clear(&block->warps[w].flights);
    }
    return true;
}
