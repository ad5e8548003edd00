/*
 * Shadow memory: the last write and the reads since of every piece of memory that a launch touches,
 * and the check of each access against them.
 *
 * A piece read by several lanes of one block holds a list of readers; read by several blocks, a set
 * that pieces share (emu_readers.c). A launch with too many different sets counts from then on: it
 * is "many", which remembers only how many times blocks had learned from others by then, and a
 * later write is right if its block has learned something since. That may miss a race in a large
 * launch, and never accuses an ordered write.
 *
 * Strong accesses do not race with one another, so a strong write does not end what lies before it:
 * reads that it is not ordered behind stay in the list, and so does the strong write before, unless
 * the new one has read it. A strong read orders the write that it saw, and that alone, before what
 * its thread does next.
 */
#include "worker/emu/ptx_table.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/emu/emu_access.h"
#include "worker/emu/emu_touch.h"

#define LIST        ((uint64_t)TAGS << BLOCK_SHIFT | 1ull << 32)
#define SET         ((uint64_t)TAGS << BLOCK_SHIFT | 2ull << 32)
#define MANY        ((uint64_t)TAGS << BLOCK_SHIFT | 3ull << 32)
#define MANY_STRONG ((uint64_t)TAGS << BLOCK_SHIFT | 4ull << 32)
#define KIND_MASK   (~(uint64_t)UINT32_MAX)
#define SHIFT_MAX   4u

/* ------------------------------------------------------------------ order of two accesses */

static const struct emu_ticks *ticks_of(const struct emu_seen *seen, const struct touch *touch,
                                        uint32_t tag)
{
    uint32_t at;

    if (tag == touch->tag) {
        return seen->own;
    }
    if (touch->warp->run->total_blocks < TAGS) { /* a tag is the number of its block */
        at = emu_far_place(seen->far, tag);
        return seen->far && at < seen->far->count && seen->far->part[at]->block == tag
                   ? seen->far->part[at]
                   : NULL;
    }
    for (uint32_t i = 0; seen->far && i < seen->far->count; i++) {
        if (seen->far->part[i]->block != EMU_AHEAD_BLOCK &&
            tag_of(seen->far->part[i]->block) == tag) {
            return seen->far->part[i];
        }
    }
    return NULL;
}

bool emu_known_before(const struct touch *touch, unsigned lane, uint32_t tag, uint32_t agent,
                      uint32_t tick)
{
    const struct emu_ticks *ticks;

    if (tag == touch->tag && agent == touch->warp->index * EMU_LANES + lane) {
        return true;
    }
    ticks = ticks_of(&touch->warp->order.known[lane].all, touch, tag);
    if (ticks && agent < ticks->count && ticks->tick[agent] >= tick) {
        return true;
    }
    if (!touch->write || touch->atomic) {
        return false;
    }
    ticks = ticks_of(&touch->warp->order.known[lane].ended, touch, tag);
    return ticks && agent < ticks->count && ticks->tick[agent] >= tick;
}

static inline bool before(const struct touch *touch, unsigned lane, uint64_t epoch)
{
    return emu_known_before(touch, lane, epoch_tag(epoch), epoch_agent(epoch), epoch_tick(epoch));
}

/* Strong accesses of sufficient scope do not race with one another. */
static bool both_strong(const struct touch *touch, uint32_t tag, uint8_t scope)
{
    uint8_t least = scope < touch->scope ? scope : touch->scope;

    if (!least) {
        return false;
    }
    return tag == touch->tag || least == EMU_SCOPE_GPU ||
           least >= emu_order_distance(touch->warp->run, tag, touch->tag);
}

/* Asynchronous operations see a plain access only behind a proxy fence. */
static bool shown(const struct touch *touch, uint64_t epoch)
{
    const struct emu_known *known = &touch->warp->order.known[touch->lane];
    const struct emu_seen *async =
        &known->async[touch->target ? EMU_PROXY_SHARED : EMU_PROXY_GLOBAL];
    uint32_t agent = epoch_agent(epoch);
    const struct emu_ticks *ticks;

    if (touch->generic || agent >= touch->warp->run->warps * EMU_LANES) {
        return true; /* not of another proxy, or asynchronous itself */
    }
    ticks = ticks_of(async, touch, epoch_tag(epoch));
    return ticks && ticks->tick[agent] >= epoch_tick(epoch);
}

/* ------------------------------------------------------------------ reports */

static void other_thread(const struct touch *touch, uint32_t tag, uint32_t agent, char *text,
                         size_t size)
{
    const struct emu_run *run = touch->warp->run;
    const uint32_t *dim = run->launch->block, *grid = run->launch->grid;

    if (agent >= run->warps * EMU_LANES) {
        (void)snprintf(text, size, "an asynchronous operation of block (%u,%u,%u)", tag % grid[0],
                       tag / grid[0] % grid[1], tag / grid[0] / grid[1]);
        return;
    }
    (void)snprintf(text, size, "thread (%u,%u,%u) of block (%u,%u,%u)", agent % dim[0],
                   agent / dim[0] % dim[1], agent / dim[0] / dim[1], tag % grid[0],
                   tag / grid[0] % grid[1], tag / grid[0] / grid[1]);
}

/* `who`: the thread of the earlier access, `pc` its instruction; `relation`: of this one to it. */
static int report_text(const struct touch *touch, unsigned lane, const char *relation,
                       const char *who, uint32_t pc)
{
    const struct emu_run *run = touch->warp->run;
    const struct gk_emu_kernel *kernel = run->kernel;
    char where[500] = "", place[120] = "";

    if (pc < kernel->code_count) {
        emu_describe(kernel->module, &kernel->code[pc], where, sizeof(where));
    }
    if (touch->space != EMU_SHARED) {
        const struct emu_alloc *alloc = emu_memory_nearest(&run->emu->memory, touch->address);

        if (alloc) {
            (void)snprintf(place, sizeof(place), " (offset %" PRIu64 " of '%s')",
                           touch->address - alloc->address, alloc->name);
        }
    }
    return emu_fault(touch->warp, touch->insn, lane, GK_EMU_FAULT_RACE, touch->address,
                     "%s of %u bytes at %s address 0x%" PRIx64 "%s %s by %s at %s",
                     touch->async && touch->atomic  ? "asynchronous sum"
                     : touch->async && touch->write ? "asynchronous write"
                     : touch->async                 ? "asynchronous read"
                     : touch->atomic                ? "atomic operation"
                     : touch->write                 ? "write"
                                                    : "read",
                     touch->bytes, touch->space == EMU_SHARED ? "shared" : "global", touch->address,
                     place, relation, who, where);
}

static int report(const struct touch *touch, unsigned lane, bool wrote, const char *who,
                  uint32_t pc)
{
    char them[220];

    (void)snprintf(them, sizeof(them), "%s%s", who,
                   touch->async && wrote ? " (or no fence.proxy.async lies between)" : "");
    return report_text(touch, lane,
                       wrote ? "is not ordered behind the write" : "is not ordered behind the read",
                       them, pc);
}

static int report_epoch(const struct touch *touch, unsigned lane, bool wrote, uint64_t epoch,
                        uint32_t pc)
{
    char who[160];

    other_thread(touch, epoch_tag(epoch), epoch_agent(epoch), who, sizeof(who));
    return report(touch, lane, wrote, who, pc);
}

/* ------------------------------------------------------------------ what lies before */

static void readers_free(struct emu_order *order, struct emu_cell *cell)
{
    if ((cell->reader & KIND_MASK) == LIST) {
        emu_list_free(order, (uint32_t)cell->reader);
    }
    cell->reader = 0;
}

/* The first entry of a list or a set, and what is behind it; NULL behind the last. */
static const struct emu_reader *entry_at(const struct emu_order *order, uint64_t reader)
{
    uint32_t at = (uint32_t)reader;

    if (!at || ((reader & KIND_MASK) != LIST && (reader & KIND_MASK) != SET)) {
        return NULL;
    }
    return (reader & KIND_MASK) == LIST ? &order->readers[at] : &order->sets.nodes[at];
}

#define EACH_ENTRY(order, entry, from)                                                             \
    const struct emu_reader *entry = entry_at(order, from);                                        \
    entry;                                                                                         \
    entry = entry_at(order, ((from)&KIND_MASK) | entry->next)

static bool is_epoch(uint64_t reader)
{
    return reader >> BLOCK_SHIFT != TAGS;
}

static int no_memory(const struct touch *touch)
{
    return emu_fault(touch->warp, touch->insn, touch->lane, GK_EMU_FAULT_UNSUPPORTED, 0,
                     "the host has no memory for the readers of this launch");
}

static uint64_t many_now(const struct touch *touch, uint64_t old)
{
    bool strong =
        touch->scope && ((old & KIND_MASK) == MANY_STRONG || (is_epoch(old) && (old & 3)));

    return (strong ? MANY_STRONG : MANY) | touch->warp->run->order.far_acquires;
}

/* Readers of more than one block. */
static int add_to_set(const struct touch *touch, struct emu_cell *cell,
                      const struct emu_reader *reader)
{
    struct emu_order *order = &touch->warp->run->order;
    uint32_t set = (uint32_t)cell->reader;

    if ((cell->reader & KIND_MASK) == LIST) {
        set = emu_set_of_list(touch, set);
    }
    set = set ? emu_set_add(touch, set, reader) : 0;
    cell->reader = set ? SET | set : MANY | order->far_acquires;
    cell->reader_pc = touch->pc;
    return EMU_NEXT;
}

static bool one_block(const struct emu_order *order, uint64_t readers, uint32_t tag)
{
    for (EACH_ENTRY(order, entry, readers)) {
        if (entry->block != tag) {
            return false;
        }
    }
    return true;
}

static int add_to_list(const struct touch *touch, struct emu_cell *cell)
{
    struct emu_order *order = &touch->warp->run->order;
    uint32_t list = (uint32_t)cell->reader;
    struct emu_reader reader = emu_reader_of(touch);
    bool merged = false;

    if (is_epoch(cell->reader)) {
        list = cell->reader
                   ? emu_list_push(order, 0, emu_reader_of_epoch(cell->reader, cell->reader_pc, 0))
                   : 0;
    }
    if (list == NO_MEMORY) {
        cell->reader = 0;
        return no_memory(touch);
    }
    list = emu_list_prune(touch, list, &merged);
    cell->reader = list ? LIST | list : 0;
    if (merged) {
        return EMU_NEXT;
    }
    if (list && !one_block(order, cell->reader, touch->owner)) {
        return add_to_set(touch, cell, &reader);
    }
    if (!list && !(touch->mask & (touch->mask - 1))) {
        cell->reader = touch->epoch;
        cell->reader_pc = touch->pc;
        return EMU_NEXT;
    }
    list = emu_list_push(order, list, reader);
    if (list == NO_MEMORY) {
        return no_memory(touch);
    }
    cell->reader = LIST | list;
    return EMU_NEXT;
}

static int add_reader(const struct touch *touch, struct emu_cell *cell)
{
    struct emu_reader reader = emu_reader_of(touch);
    bool epoch = is_epoch(cell->reader);

    if (epoch && cell->reader && (cell->reader & 3) <= touch->scope &&
        before(touch, touch->lane, cell->reader)) {
        cell->reader = 0;
    }
    if (!cell->reader && !(touch->mask & (touch->mask - 1))) {
        cell->reader = touch->epoch;
        cell->reader_pc = touch->pc;
        return EMU_NEXT;
    }
    switch (epoch ? LIST : cell->reader & KIND_MASK) {
    case LIST:
        return add_to_list(touch, cell);
    case SET:
        return add_to_set(touch, cell, &reader);
    default:
        cell->reader = many_now(touch, cell->reader);
        cell->reader_pc = touch->pc;
        return EMU_NEXT;
    }
}

/* ------------------------------------------------------------------ checks */

/* Whether somebody whom the lane comes after has seen the last write, a strong one, by a strong
 * read. Who has seen it is not known any more when "many" have read. */
static bool was_seen(const struct touch *touch, unsigned lane, const struct emu_cell *cell)
{
    const struct emu_order *order = &touch->warp->run->order;

    if ((cell->reader & KIND_MASK) == MANY_STRONG) {
        return true;
    }
    if (is_epoch(cell->reader)) {
        return cell->reader & 3 && before(touch, lane, cell->reader);
    }
    for (EACH_ENTRY(order, entry, cell->reader)) {
        for (uint32_t left = entry->scope && !entry->flags ? entry->mask : 0; left;
             left &= left - 1) {
            if (emu_known_before(touch, lane, entry->block,
                                 entry->first + (uint32_t)__builtin_ctz(left), entry->tick)) {
                return true;
            }
        }
    }
    return false;
}

static int check_writer(const struct touch *touch, const struct emu_cell *cell)
{
    uint8_t scope = cell->writer & 3;

    if (touch->async) {
        if ((before(touch, touch->lane, cell->writer) && shown(touch, cell->writer)) ||
            both_strong(touch, epoch_tag(cell->writer), scope)) {
            return EMU_NEXT;
        }
        return report_epoch(touch, touch->lane, true, cell->writer, cell->writer_pc);
    }
    for (uint32_t left = touch->mask; left; left &= left - 1) {
        unsigned lane = (unsigned)__builtin_ctz(left);

        if (!before(touch, lane, cell->writer) &&
            !both_strong(touch, epoch_tag(cell->writer), scope) &&
            !(scope && was_seen(touch, lane, cell))) {
            return report_epoch(touch, lane, true, cell->writer, cell->writer_pc);
        }
    }
    return EMU_NEXT;
}

/* Entries of the list or set with one of the flags, 0: all of them. */
static int check_entries(const struct touch *touch, const struct emu_cell *cell, uint8_t flags)
{
    const struct emu_order *order = &touch->warp->run->order;

    for (EACH_ENTRY(order, entry, cell->reader)) {
        unsigned l =
            flags && !(entry->flags & flags) ? EMU_LANES : emu_entry_unordered(touch, entry);

        if (l < EMU_LANES && !both_strong(touch, entry->block, entry->scope)) {
            return report_epoch(touch, touch->lane, (entry->flags & EMU_READER_WROTE) != 0,
                                epoch_of(entry->block, entry->first + l, entry->tick, 0),
                                entry->pc);
        }
    }
    return EMU_NEXT;
}

static int check_readers(const struct touch *touch, const struct emu_cell *cell)
{
    switch (cell->reader & KIND_MASK) {
    case LIST:
    case SET:
        return check_entries(touch, cell, 0);
    case MANY:
    case MANY_STRONG:
        if (touch->warp->block->far_acquired > (uint32_t)cell->reader ||
            (touch->scope && (cell->reader & KIND_MASK) == MANY_STRONG)) {
            return EMU_NEXT;
        }
        return report(touch, touch->lane, false, "threads of several blocks, last",
                      cell->reader_pc);
    default:
        if (before(touch, touch->lane, cell->reader) ||
            both_strong(touch, epoch_tag(cell->reader), cell->reader & 3)) {
            return EMU_NEXT;
        }
        return report_epoch(touch, touch->lane, false, cell->reader, cell->reader_pc);
    }
}

/* ------------------------------------------------------------------ one cell */

/* The read-only path may hold what was there before the launch, whatever barrier lies between. */
static int read_only_cell(const struct touch *touch, const struct emu_cell *cell)
{
    char who[160];

    other_thread(touch, epoch_tag(cell->writer), epoch_agent(cell->writer), who, sizeof(who));
    return report_text(touch, touch->lane,
                       "through the read-only path (.nc) is not ordered behind the write in this "
                       "launch",
                       who, cell->writer_pc);
}

static int read_cell(const struct touch *touch, struct emu_cell *cell)
{
    if (cell->writer && touch->insn->mods & PTX_M_NC && !touch->async) {
        return read_only_cell(touch, cell);
    }
    if (cell->writer && check_writer(touch, cell) != EMU_NEXT) {
        return EMU_STOP;
    }
    if (cell->writer & 3 && !touch->scope &&
        check_entries(touch, cell, EMU_READER_WROTE) != EMU_NEXT) {
        return EMU_STOP;
    }
    if (cell->reader == touch->epoch && !(touch->mask & (touch->mask - 1))) {
        return EMU_NEXT;
    }
    return add_reader(touch, cell);
}

/* What a strong write leaves of what lies before it. `seen`: it has read the write before. */
static int keep_hazards(const struct touch *touch, struct emu_cell *cell, bool seen)
{
    struct emu_order *order = &touch->warp->run->order;
    const uint64_t old = cell->reader;
    uint32_t kept = 0;

    if ((old & KIND_MASK) == MANY || (old & KIND_MASK) == MANY_STRONG) {
        return EMU_NEXT;
    }
    if (old && is_epoch(old) && !before(touch, touch->lane, old)) {
        kept =
            emu_list_push(order, kept, emu_reader_of_epoch(old, cell->reader_pc, EMU_READER_OLD));
    }
    for (uint32_t at = is_epoch(old) ? 0 : (uint32_t)old; at;) {
        struct emu_reader entry =
            (old & KIND_MASK) == LIST ? order->readers[at] : order->sets.nodes[at];

        at = entry.next;
        if ((!(entry.flags & EMU_READER_WROTE) || !seen) &&
            emu_entry_unordered(touch, &entry) < EMU_LANES) {
            entry.flags = entry.flags ? entry.flags : EMU_READER_OLD;
            kept = emu_list_push(order, kept, entry);
        }
    }
    if (!seen && cell->writer & 3 && !before(touch, touch->lane, cell->writer)) {
        kept = emu_list_push(order, kept,
                             emu_reader_of_epoch(cell->writer, cell->writer_pc, EMU_READER_WROTE));
    }
    readers_free(order, cell);
    if (kept == NO_MEMORY) {
        return no_memory(touch);
    }
    cell->reader = kept ? LIST | kept : 0;
    return EMU_NEXT;
}

/* `again`: another lane of this very instruction has just written the same bytes. Which of them
 * stays is not defined: the instruction compares what they write. */
static int write_cell(const struct touch *touch, struct emu_cell *cell, bool again)
{
    if (cell->writer && !again && check_writer(touch, cell) != EMU_NEXT) {
        return EMU_STOP;
    }
    if (cell->reader && check_readers(touch, cell) != EMU_NEXT) {
        return EMU_STOP;
    }
    if (touch->scope && (cell->reader || (cell->writer & 3 && !touch->atomic))) {
        if (keep_hazards(touch, cell, touch->atomic) != EMU_NEXT) {
            return EMU_STOP;
        }
    } else if (cell->reader) {
        readers_free(&touch->warp->run->order, cell);
    }
    cell->writer = touch->epoch;
    cell->writer_pc = touch->pc;
    return EMU_NEXT;
}

/* ------------------------------------------------------------------ pages */

void emu_shadow_fini(struct emu_shadow *shadow)
{
    uint64_t pages = shadow->bytes / EMU_SHADOW_BYTES + 1;

    for (uint64_t i = 0; shadow->pages && i < pages; i++) {
        free(shadow->pages[i].cells);
    }
    free(shadow->pages);
    *shadow = (struct emu_shadow){0};
}

/* Cells of 1 << shift bytes instead of larger ones. */
static bool refine(struct emu_order *order, struct emu_shadow_page *page, uint32_t shift)
{
    uint32_t count = EMU_SHADOW_BYTES >> shift, apart = page->shift - shift;
    struct emu_cell *cells = calloc(count, sizeof(*cells));

    if (!cells) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        cells[i] = page->cells[i >> apart];
        if (i & ((1u << apart) - 1) && (cells[i].reader & KIND_MASK) == LIST) {
            uint32_t copy = emu_list_copy(order, (uint32_t)cells[i].reader);

            cells[i].reader = copy == NO_MEMORY ? MANY | order->far_acquires : LIST | copy;
        }
    }
    free(page->cells);
    page->cells = cells;
    page->shift = shift;
    return true;
}

static struct emu_shadow_page *page_at(struct emu_order *order, struct emu_shadow *shadow,
                                       uint64_t offset, uint32_t bytes)
{
    struct emu_shadow_page *page;
    uint32_t shift = bytes >= 16 ? SHIFT_MAX : (uint32_t)__builtin_ctz(bytes);

    if (!shadow->pages) {
        shadow->pages =
            calloc((size_t)(shadow->bytes / EMU_SHADOW_BYTES) + 1, sizeof(*shadow->pages));
        if (!shadow->pages) {
            return NULL;
        }
    }
    page = &shadow->pages[offset / EMU_SHADOW_BYTES];
    if (!page->cells) {
        page->cells = calloc(EMU_SHADOW_BYTES >> shift, sizeof(*page->cells));
        page->shift = shift;
        page->stamp = shadow->stamp;
    } else if (page->stamp != shadow->stamp) {
        for (uint32_t i = 0; shadow->reused && i < EMU_SHADOW_BYTES >> page->shift; i++) {
            readers_free(order, &page->cells[i]);
        }
        memset(page->cells, 0, (EMU_SHADOW_BYTES >> page->shift) * sizeof(*page->cells));
        page->stamp = shadow->stamp;
    }
    if (page->cells && shift < page->shift && !refine(order, page, shift)) {
        return NULL;
    }
    return page->cells ? page : NULL;
}

/* ------------------------------------------------------------------ accesses */

static bool written_by_twin(const struct touch *touch, const struct emu_cell *cell,
                            const struct emu_reach *reach, uint32_t mask)
{
    uint32_t agent = epoch_agent(cell->writer);
    uint32_t other = agent - touch->warp->index * EMU_LANES;

    return epoch_tag(cell->writer) == touch->tag && other < touch->lane && mask >> other & 1 &&
           cell->writer_pc == touch->pc && reach->address[other] == touch->address &&
           cell->writer == epoch_of(touch->tag, agent, touch->tick, touch->scope);
}

static int touch_memory(struct touch *touch, struct emu_shadow *shadow, uint64_t offset,
                        struct emu_reach *reach, uint32_t mask)
{
    struct emu_shadow_page *page = page_at(&touch->warp->run->order, shadow, offset, touch->bytes);
    uint32_t first, last;

    if (!page) {
        return emu_fault(touch->warp, touch->insn, touch->lane, GK_EMU_FAULT_UNSUPPORTED, 0,
                         "the host has no memory for the shadow of this launch");
    }
    first = (uint32_t)(offset % EMU_SHADOW_BYTES) >> page->shift;
    last = (uint32_t)((offset + touch->bytes - 1) % EMU_SHADOW_BYTES) >> page->shift;
    for (uint32_t i = first; i <= last; i++) {
        struct emu_cell *cell = &page->cells[i];

        if (touch->write) {
            bool again = reach && cell->writer && written_by_twin(touch, cell, reach, mask);

            if (again) {
                reach->twins |= 1u << touch->lane;
                reach->twin[touch->lane] =
                    (uint8_t)(epoch_agent(cell->writer) - touch->warp->index * EMU_LANES);
            }
            if (write_cell(touch, cell, again) != EMU_NEXT) {
                return EMU_STOP;
            }
        } else if (read_cell(touch, cell) != EMU_NEXT) {
            return EMU_STOP;
        }
    }
    return EMU_NEXT;
}

/* The shadow that holds the address, and where. NULL: memory that is not watched. */
static struct emu_shadow *shadow_of(struct emu_warp *warp, enum emu_space space, uint64_t address,
                                    uint32_t bytes, uint64_t *offset_out)
{
    struct emu_alloc *alloc;

    if (space == EMU_SHARED) {
        *offset_out = address & EMU_CTA_MASK;
        return &emu_block_at(warp, address)->shadow;
    }
    alloc = emu_memory_find(&warp->run->emu->memory, address, bytes);
    if (!alloc || alloc->is_const) {
        return NULL;
    }
    if (alloc->shadow.stamp != warp->run->emu->launches) {
        alloc->shadow.bytes = alloc->size;
        alloc->shadow.stamp = warp->run->emu->launches;
    }
    *offset_out = address - alloc->address;
    return &alloc->shadow;
}

static int access_one(struct touch *touch, struct emu_reach *reach, uint32_t mask)
{
    uint64_t offset = 0;
    struct emu_shadow *shadow =
        touch->target ? &touch->target->shadow
                      : shadow_of(touch->warp, touch->space, touch->address, touch->bytes, &offset);

    offset = touch->target ? touch->address : offset;

    if (!shadow) {
        return EMU_NEXT;
    }
    if (touch->warp->run->ahead && !touch->target && touch->space == EMU_GLOBAL &&
        emu_ahead_touch(touch) != EMU_NEXT) {
        return EMU_STOP;
    }
    if (touch_memory(touch, shadow, offset, reach, mask) != EMU_NEXT) {
        return EMU_STOP;
    }
    if (touch->scope && !touch->async) {
        emu_order_strong(
            touch->warp, touch->insn, touch->lane, !touch->write || touch->atomic, touch->write,
            touch->space == EMU_SHARED ? &emu_block_at(touch->warp, touch->address)->releases
                                       : &touch->warp->run->order.releases,
            (touch->space == EMU_SHARED ? touch->address & EMU_CTA_MASK : touch->address) + 1);
        touch->tick = touch->warp->order.tick;
    }
    return EMU_NEXT;
}

static uint32_t lanes_at(const struct emu_reach *reach, uint64_t address)
{
    uint32_t same = 0;

    for (unsigned l = 0; l < EMU_LANES; l++) {
        same |= (uint32_t)(reach->address[l] == address) << l;
    }
    return same;
}

int emu_order_access(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask,
                     uint32_t bytes, unsigned kind, struct emu_reach *reach)
{
    struct touch touch = {.warp = warp,
                          .insn = insn,
                          .tag = tag_of(warp->block->index),
                          .owner = tag_of(warp->block->index),
                          .tick = warp->order.tick,
                          .pc = warp->pc,
                          .bytes = bytes,
                          .first = warp->index * EMU_LANES,
                          .scope = insn->sem ? insn->scope : EMU_WEAK,
                          .write = kind != EMU_LOAD,
                          .atomic = kind == EMU_ATOMIC,
                          .space = reach->space};

    if (reach->space != EMU_SHARED && reach->space != EMU_GLOBAL) {
        return EMU_NEXT;
    }
    for (uint32_t left = mask; left;) {
        touch.lane = (unsigned)__builtin_ctz(left);
        touch.mask = 1u << touch.lane;
        touch.address = reach->address[touch.lane];
        if (kind == EMU_LOAD && !touch.scope && !reach->contiguous) {
            touch.mask = reach->uniform ? left : lanes_at(reach, touch.address) & left;
        }
        left &= ~touch.mask;
        touch.epoch =
            epoch_of(touch.tag, warp->index * EMU_LANES + touch.lane, touch.tick, touch.scope);
        if (access_one(&touch, reach, mask) != EMU_NEXT) {
            return EMU_STOP;
        }
    }
    return EMU_NEXT;
}

int emu_order_async(struct emu_warp *warp, const struct emu_insn *insn, unsigned lane,
                    struct emu_block *target, uint64_t address, uint32_t bytes,
                    enum emu_async_kind kind, const struct emu_block *owner, uint32_t agent,
                    uint32_t tick)
{
    struct touch touch = {.warp = warp,
                          .insn = insn,
                          .tag = tag_of(warp->block->index),
                          .owner = tag_of(owner->index),
                          .tick = tick,
                          .pc = warp->pc,
                          .bytes = bytes,
                          .first = agent / EMU_LANES * EMU_LANES,
                          .mask = 1u << agent % EMU_LANES,
                          .lane = lane,
                          .target = target,
                          .address = address,
                          .async = true,
                          .generic = kind == EMU_ASYNC_PUT || kind == EMU_ASYNC_SUM,
                          .scope = kind == EMU_ASYNC_ADD   ? EMU_SCOPE_GPU
                                   : kind == EMU_ASYNC_SUM ? EMU_SCOPE_CLUSTER
                                                           : EMU_WEAK,
                          .write = kind != EMU_ASYNC_READ,
                          .atomic = kind == EMU_ASYNC_ADD || kind == EMU_ASYNC_SUM,
                          .space = target ? EMU_SHARED : EMU_GLOBAL};

    if (warp->run->order.off) {
        return EMU_NEXT;
    }
    touch.epoch = epoch_of(touch.owner, agent, tick, touch.scope);
    return access_one(&touch, NULL, 0);
}

void emu_order_landed(struct emu_block *block, uint32_t agent, uint32_t tick, uint32_t address,
                      uint32_t bytes)
{
    struct emu_order *order = &block->warps[0].run->order;
    struct emu_shadow_page *page;

    if (order->off) {
        return;
    }
    page = page_at(order, &block->shadow, address, bytes);
    if (!page) {
        return;
    }
    for (uint32_t at = address; at < address + bytes; at += 1u << page->shift) {
        page->cells[at % EMU_SHADOW_BYTES >> page->shift].writer =
            epoch_of(tag_of(block->index), agent, tick, EMU_WEAK);
    }
}

/* ------------------------------------------------------------------ the end of a block */

/* Accesses of the block's own threads end with it, their cp.async too. */
static bool is_own(const struct touch *end, uint32_t tag, uint32_t agent)
{
    uint32_t threads = end->warp->run->warps * EMU_LANES;

    return tag == end->tag && (agent < threads || agent >= threads + EMU_SLOT_COPY);
}

static bool outlives(const struct touch *end, uint64_t epoch)
{
    return epoch && !is_own(end, epoch_tag(epoch), epoch_agent(epoch)) &&
           !before(end, end->lane, epoch);
}

static bool report_outlived(const struct touch *end, uint64_t epoch, uint32_t pc, bool wrote)
{
    const struct emu_block *block = end->warp->block;
    const struct gk_emu_kernel *kernel = end->warp->run->kernel;
    char who[160];

    other_thread(end, epoch_tag(epoch), epoch_agent(epoch), who, sizeof(who));
    (void)emu_fault(end->warp, &kernel->code[pc < kernel->code_count ? pc : 0], end->lane,
                    GK_EMU_FAULT_RACE, end->address,
                    "block (%u,%u,%u) has ended, and nothing orders that behind the %s by %s at "
                    "shared offset 0x%" PRIx64 " of it",
                    block->ctaid[0], block->ctaid[1], block->ctaid[2], wrote ? "write" : "read",
                    who, end->address);
    return false;
}

static bool end_cell(const struct touch *end, const struct emu_cell *cell)
{
    const struct emu_order *order = &end->warp->run->order;

    if (outlives(end, cell->writer)) {
        return report_outlived(end, cell->writer, cell->writer_pc, true);
    }
    if (is_epoch(cell->reader)) {
        return !outlives(end, cell->reader) ||
               report_outlived(end, cell->reader, cell->reader_pc, false);
    }
    for (EACH_ENTRY(order, entry, cell->reader)) {
        unsigned l =
            is_own(end, entry->block, entry->first) ? EMU_LANES : emu_entry_unordered(end, entry);

        if (l < EMU_LANES) {
            return report_outlived(end, epoch_of(entry->block, entry->first + l, entry->tick, 0),
                                   entry->pc, (entry->flags & EMU_READER_WROTE) != 0);
        }
    }
    return true;
}

bool emu_order_end(struct emu_block *block)
{
    struct emu_run *run = block->warps[0].run;
    const struct emu_shadow *shadow = &block->shadow;
    /* An end is like a write of all shared memory: what was done there has ended before. */
    struct touch end = {.warp = &block->warps[0], .tag = tag_of(block->index), .write = true};

    if (run->order.off || run->cluster_blocks == 1 || !shadow->pages) {
        return true;
    }
    emu_order_gather(block);
    for (uint64_t p = 0; p * EMU_SHADOW_BYTES < run->shared_bytes; p++) {
        const struct emu_shadow_page *page = &shadow->pages[p];

        for (uint32_t i = 0;
             page->cells && page->stamp == shadow->stamp && i < EMU_SHADOW_BYTES >> page->shift;
             i++) {
            end.address = p * EMU_SHADOW_BYTES + ((uint64_t)i << page->shift);
            if (!end_cell(&end, &page->cells[i])) {
                return false;
            }
        }
    }
    return true;
}
