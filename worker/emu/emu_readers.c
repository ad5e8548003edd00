/*
 * Lists of earlier accesses. See emu_touch.h.
 *
 * What one block reads is kept in a list of each piece of memory, whose entries come and go. What
 * several blocks read is kept in sets that pieces share: tiles of an operand are read by the same
 * threads in the same order, so there are few sets for many pieces, and adding the same reader to
 * the same set is one look into a cache.
 */
#include <stdlib.h>
#include <string.h>

#include "worker/emu/emu_touch.h"

#define SETS_MAX   (1u << 21) /* nodes of a launch: 60 MB */
#define STEPS      4096u      /* places of the cache */
#define DEPTH_MAX  4096u      /* entries of one set */
#define WALK_EVERY 64u        /* depths at which a set is looked through for what can go */

struct emu_reader emu_reader_of(const struct touch *touch)
{
    return (struct emu_reader){.mask = touch->mask,
                               .tick = touch->tick,
                               .pc = touch->pc,
                               .block = touch->owner,
                               .first = (uint16_t)touch->first,
                               .scope = touch->scope};
}

struct emu_reader emu_reader_of_epoch(uint64_t epoch, uint32_t pc, uint8_t flags)
{
    uint32_t agent = epoch_agent(epoch);

    return (struct emu_reader){.mask = 1u << agent % EMU_LANES,
                               .tick = epoch_tick(epoch),
                               .pc = pc,
                               .block = epoch_tag(epoch),
                               .first = (uint16_t)(agent / EMU_LANES * EMU_LANES),
                               .scope = epoch & 3,
                               .flags = flags};
}

unsigned emu_entry_unordered(const struct touch *touch, const struct emu_reader *entry)
{
    for (uint32_t left = entry->mask; left; left &= left - 1) {
        unsigned l = (unsigned)__builtin_ctz(left);

        if (!emu_known_before(touch, touch->lane, entry->block, entry->first + l, entry->tick)) {
            return l;
        }
    }
    return EMU_LANES;
}

/* ------------------------------------------------------------------ lists of one piece */

static uint32_t reader_new(struct emu_order *order)
{
    uint32_t at = order->reader_free;

    if (at) {
        order->reader_free = order->readers[at].next;
        return at;
    }
    if (order->reader_count == order->reader_capacity) {
        uint32_t capacity = order->reader_capacity ? order->reader_capacity * 2 : 1024;
        struct emu_reader *grown = realloc(order->readers, capacity * sizeof(*grown));

        if (!grown) {
            return 0;
        }
        order->readers = grown;
        order->reader_capacity = capacity;
        order->reader_count = order->reader_count ? order->reader_count : 1;
    }
    return order->reader_count++;
}

static void reader_free(struct emu_order *order, uint32_t at)
{
    order->readers[at].next = order->reader_free;
    order->reader_free = at;
}

void emu_list_free(struct emu_order *order, uint32_t list)
{
    for (uint32_t at = list, next; at; at = next) {
        next = order->readers[at].next;
        reader_free(order, at);
    }
}

uint32_t emu_list_push(struct emu_order *order, uint32_t list, struct emu_reader reader)
{
    uint32_t at = list == NO_MEMORY ? 0 : reader_new(order);

    if (!at) {
        return NO_MEMORY;
    }
    reader.next = list;
    order->readers[at] = reader;
    return at;
}

uint32_t emu_list_copy(struct emu_order *order, uint32_t list)
{
    uint32_t copy = 0;

    for (uint32_t at = list; at && copy != NO_MEMORY; at = order->readers[at].next) {
        copy = emu_list_push(order, copy, order->readers[at]);
    }
    return copy;
}

static bool of_this_warp(const struct touch *touch, const struct emu_reader *entry)
{
    return entry->first == touch->first && entry->block == touch->owner && !entry->flags;
}

uint32_t emu_list_prune(const struct touch *touch, uint32_t list, bool *merged_out)
{
    struct emu_order *order = &touch->warp->run->order;
    uint32_t *link = NULL, head = list;

    *merged_out = false;
    for (uint32_t at = list, next; at; at = next) {
        struct emu_reader *entry = &order->readers[at];
        bool mine = of_this_warp(touch, entry);

        next = entry->next;
        if (mine && entry->tick == touch->tick && entry->scope == touch->scope) {
            entry->mask |= touch->mask;
            *merged_out = true;
        } else if (entry->scope <= touch->scope) {
            entry->mask &= mine ? ~touch->mask : EMU_FULL;
            if (!entry->mask || emu_entry_unordered(touch, entry) == EMU_LANES) {
                if (link) {
                    *link = next;
                } else {
                    head = next;
                }
                reader_free(order, at);
                continue;
            }
        }
        link = &entry->next;
    }
    return head;
}

/* ------------------------------------------------------------------ lists that pieces share */

/* A step that was taken before: this reader added to this set. */
struct emu_set_step {
    uint32_t set, result;
    struct emu_reader reader; /* `next` is 0 */
};

static uint64_t hash_entry(const struct emu_reader *entry, uint32_t next)
{
    uint64_t x = (uint64_t)entry->block << 32 | entry->mask;

    x = (x ^ (uint64_t)next << 17) * 0x9e3779b97f4a7c15ull;
    x = (x ^ x >> 29 ^ ((uint64_t)entry->tick << 24 | entry->first)) * 0xbf58476d1ce4e5b9ull;
    return x ^ x >> 31 ^ entry->pc ^ (uint64_t)entry->scope << 40 ^ (uint64_t)entry->flags << 44;
}

static bool same_entry(const struct emu_reader *a, const struct emu_reader *b)
{
    return a->block == b->block && a->mask == b->mask && a->tick == b->tick &&
           a->first == b->first && a->pc == b->pc && a->scope == b->scope && a->flags == b->flags;
}

static bool sets_grow(struct emu_reader_sets *sets)
{
    uint32_t capacity = sets->capacity ? sets->capacity * 2 : 1024;
    struct emu_reader *nodes;
    uint32_t *slots;

    if (capacity > SETS_MAX) {
        return false;
    }
    nodes = realloc(sets->nodes, capacity * sizeof(*nodes));
    sets->nodes = nodes ? nodes : sets->nodes;
    slots = calloc((size_t)capacity * 2, sizeof(*slots));
    sets->steps = sets->steps ? sets->steps : calloc(STEPS, sizeof(*sets->steps));
    if (!nodes || !slots || !sets->steps) {
        free(slots);
        return false;
    }
    if (!sets->count) {
        nodes[0] = (struct emu_reader){0};
        sets->count = 1;
    }
    for (uint32_t i = 1; i < sets->count; i++) {
        uint32_t at = (uint32_t)hash_entry(&nodes[i], nodes[i].next) & (capacity * 2 - 1);

        while (slots[at]) {
            at = (at + 1) & (capacity * 2 - 1);
        }
        slots[at] = i;
    }
    free(sets->slots);
    sets->slots = slots;
    sets->capacity = capacity;
    return true;
}

/* The number of the entry with this list behind it. 0: too many. */
static uint32_t set_of(struct emu_reader_sets *sets, const struct emu_reader *entry, uint32_t next)
{
    uint32_t at;

    if (sets->count >= sets->capacity && !sets_grow(sets)) {
        return 0;
    }
    at = (uint32_t)hash_entry(entry, next) & (sets->capacity * 2 - 1);
    while (sets->slots[at]) {
        const struct emu_reader *node = &sets->nodes[sets->slots[at]];

        if (node->next == next && same_entry(node, entry)) {
            return sets->slots[at];
        }
        at = (at + 1) & (sets->capacity * 2 - 1);
    }
    sets->slots[at] = sets->count;
    sets->nodes[sets->count] = *entry;
    sets->nodes[sets->count].next = next;
    sets->nodes[sets->count].depth = next ? sets->nodes[next].depth + 1 : 1;
    return sets->count++;
}

/* Without what the reader makes needless, and with the reader in front. What lies behind the last
 * entry that goes is there already. */
static uint32_t set_build(const struct touch *touch, uint32_t set, struct emu_reader reader)
{
    struct emu_reader_sets *sets = &touch->warp->run->order.sets;
    uint32_t kept[DEPTH_MAX], count = 0, anew = 0, built = set;

    for (uint32_t at = set; at; at = sets->nodes[at].next) {
        const struct emu_reader *entry = &sets->nodes[at];
        bool mine = of_this_warp(touch, entry), goes;

        goes = mine && entry->tick == reader.tick && entry->scope == reader.scope;
        if (goes) {
            if (!(reader.mask & ~entry->mask)) {
                return set; /* those that poll in turn do not make new ones */
            }
            reader.mask |= entry->mask;
        } else if (entry->scope <= reader.scope) {
            goes = (mine && !(entry->mask & ~reader.mask)) ||
                   emu_entry_unordered(touch, entry) == EMU_LANES;
        }
        if (goes) {
            anew = count;
            built = entry->next;
        } else if (count == DEPTH_MAX) {
            return 0;
        } else {
            kept[count++] = at;
        }
    }
    while (anew) {
        struct emu_reader entry = sets->nodes[kept[--anew]];

        built = set_of(sets, &entry, built);
        if (!built) {
            return 0;
        }
    }
    return set_of(sets, &reader, built);
}

/* The usual cases without a walk through the set: the warp has just been here, or comes for the
 * first time since others were. An entry too many does no harm, and goes at the next walk. */
static uint32_t set_put(const struct touch *touch, uint32_t set, const struct emu_reader *reader)
{
    struct emu_reader_sets *sets = &touch->warp->run->order.sets;
    const struct emu_reader *head = &sets->nodes[set];

    if (reader->scope || head->depth % WALK_EVERY == 0) {
        return set_build(touch, set, *reader);
    }
    for (uint32_t at = set; at && sets->nodes[at].block == reader->block;
         at = sets->nodes[at].next) {
        const struct emu_reader *entry = &sets->nodes[at];

        if (of_this_warp(touch, entry) && entry->tick == reader->tick && !entry->scope) {
            struct emu_reader both = *reader;

            both.mask |= entry->mask;
            return both.mask == entry->mask ? set
                   : at == set              ? set_of(sets, &both, entry->next)
                                            : set_build(touch, set, *reader);
        }
    }
    return set_of(sets, reader, set);
}

uint32_t emu_set_add(const struct touch *touch, uint32_t set, const struct emu_reader *reader)
{
    struct emu_reader_sets *sets = &touch->warp->run->order.sets;
    struct emu_set_step *step;
    uint32_t result;

    if (!sets->steps && !sets_grow(sets)) {
        return 0;
    }
    step = &sets->steps[hash_entry(reader, set) % STEPS];
    if (step->result && step->set == set && same_entry(&step->reader, reader)) {
        return step->result;
    }
    result = set_put(touch, set, reader);
    *step = (struct emu_set_step){.set = set, .result = result, .reader = *reader};
    return result;
}

uint32_t emu_set_of_list(const struct touch *touch, uint32_t list)
{
    struct emu_order *order = &touch->warp->run->order;
    uint32_t set = 0;

    for (uint32_t at = list; at; at = order->readers[at].next) {
        set = set_of(&order->sets, &order->readers[at], set);
        if (!set) {
            break;
        }
    }
    emu_list_free(order, list);
    return set;
}

void emu_sets_fini(struct emu_reader_sets *sets)
{
    free(sets->nodes);
    free(sets->slots);
    free(sets->steps);
    *sets = (struct emu_reader_sets){0};
}
