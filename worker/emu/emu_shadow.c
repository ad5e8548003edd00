/*
 * Shadow memory: the last write and the reads since of every piece of memory that a launch touches,
 * and the check of each access against them.
 *
 * An epoch names an access: block (24 bits, modulo), agent (11), tick (27) and scope (2). A piece
 * read by several lanes holds a list of readers of one block; read by lanes of several blocks that
 * nothing orders, it is "many", which remembers only how many times blocks had learned from others
 * by then: a later write is right only if its block has learned something since. That never accuses
 * an ordered write, and keeps what every block reads small.
 */
#include "worker/emu/ptx_table.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/emu/emu_access.h"

#define BLOCK_SHIFT 40
#define AGENT_SHIFT 29
#define TICK_SHIFT  2
#define AGENT_MASK  2047u
#define TAGS        0xffffffu /* of blocks: the value itself marks what is no epoch */
#define LIST        ((uint64_t)TAGS << BLOCK_SHIFT | 1ull << 32)
#define MANY        ((uint64_t)TAGS << BLOCK_SHIFT | 2ull << 32)
#define MANY_STRONG ((uint64_t)TAGS << BLOCK_SHIFT | 3ull << 32)
#define KIND_MASK   (~(uint64_t)UINT32_MAX)
#define SHIFT_MAX   4u

/* One access while it is checked. */
struct touch {
    struct emu_warp *warp;
    const struct emu_insn *insn;
    uint64_t epoch; /* of `lane` */
    uint64_t address;
    uint32_t tag; /* of the block of the thread that accesses, or started the operation */
    uint32_t tick, pc, mask, bytes;
    uint32_t first; /* agent that bit 0 of the mask stands for */
    unsigned lane;
    struct emu_block *target; /* whose shared memory it is */
    bool async, passing;      /* passing: leaves no trace */
    uint8_t scope;
    bool write, atomic;
    enum emu_space space;
};

static uint32_t tag_of(uint64_t block)
{
    return (uint32_t)(block % TAGS);
}

static uint64_t epoch_of(uint32_t tag, uint32_t agent, uint32_t tick, uint8_t scope)
{
    return (uint64_t)tag << BLOCK_SHIFT | (uint64_t)agent << AGENT_SHIFT |
           (uint64_t)tick << TICK_SHIFT | scope;
}

/* ------------------------------------------------------------------ order of two accesses */

static bool before_far(const struct emu_known *known, uint32_t tag, uint32_t agent, uint32_t tick)
{
    for (uint32_t i = 0; known->far && i < known->far->count; i++) {
        const struct emu_ticks *part = known->far->part[i];

        if (tag_of(part->block) == tag) {
            return agent < part->count && part->tick[agent] >= tick;
        }
    }
    return false;
}

static bool known_before(const struct touch *touch, unsigned lane, uint32_t tag, uint32_t agent,
                         uint32_t tick)
{
    const struct emu_known *known = &touch->warp->order.known[lane];

    if (tag != touch->tag) {
        return before_far(known, tag, agent, tick);
    }
    return agent == touch->warp->index * EMU_LANES + lane ||
           (known->own && known->own->tick[agent] >= tick);
}

static inline bool before(const struct touch *touch, unsigned lane, uint64_t epoch)
{
    return known_before(touch, lane, (uint32_t)(epoch >> BLOCK_SHIFT),
                        (uint32_t)(epoch >> AGENT_SHIFT) & AGENT_MASK,
                        (uint32_t)(epoch >> TICK_SHIFT) & EMU_TICK_MAX);
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

/* `who`: the thread of the earlier access, `pc` its instruction. */
static int report(const struct touch *touch, unsigned lane, bool wrote, const char *who,
                  uint32_t pc)
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
                     "%s of %u bytes at %s address 0x%" PRIx64 "%s is not ordered behind the %s "
                     "by %s%s at %s",
                     touch->async && touch->write ? "asynchronous write"
                     : touch->async               ? "asynchronous read"
                     : touch->atomic              ? "atomic operation"
                     : touch->write               ? "write"
                                                  : "read",
                     touch->bytes, touch->space == EMU_SHARED ? "shared" : "global", touch->address,
                     place, wrote ? "write" : "read", who,
                     touch->async && wrote ? " (or no fence.proxy.async lies between)" : "", where);
}

static int report_epoch(const struct touch *touch, unsigned lane, bool wrote, uint64_t epoch,
                        uint32_t pc)
{
    char who[160];

    other_thread(touch, (uint32_t)(epoch >> BLOCK_SHIFT),
                 (uint32_t)(epoch >> AGENT_SHIFT) & AGENT_MASK, who, sizeof(who));
    return report(touch, lane, wrote, who, pc);
}

/* ------------------------------------------------------------------ lists of readers */

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

static void list_free(struct emu_order *order, struct emu_cell *cell)
{
    if ((cell->reader & KIND_MASK) == LIST) {
        for (uint32_t at = (uint32_t)cell->reader, next; at; at = next) {
            next = order->readers[at].next;
            reader_free(order, at);
        }
    }
    cell->reader = 0;
}

static bool list_push(struct emu_order *order, struct emu_cell *cell, struct emu_reader reader)
{
    uint32_t at = reader_new(order);

    if (!at) {
        return false;
    }
    reader.next = (cell->reader & KIND_MASK) == LIST ? (uint32_t)cell->reader : 0;
    order->readers[at] = reader;
    cell->reader = LIST | at;
    return true;
}

/* A copy of the list for another cell. */
static uint64_t list_copy(struct emu_order *order, uint64_t reader)
{
    struct emu_cell copy = {0};

    for (uint32_t at = (uint32_t)reader; at; at = order->readers[at].next) {
        (void)list_push(order, &copy, order->readers[at]);
    }
    return copy.reader;
}

/* The first lane of the entry whose read is not before the touch, or 32. */
static unsigned entry_unordered(const struct touch *touch, unsigned lane,
                                const struct emu_reader *entry)
{
    for (uint32_t left = entry->mask; left; left &= left - 1) {
        unsigned l = (unsigned)__builtin_ctz(left);

        if (!known_before(touch, lane, entry->block, entry->first + l, entry->tick)) {
            return l;
        }
    }
    return EMU_LANES;
}

static uint64_t many_now(const struct touch *touch, uint64_t old)
{
    bool strong = touch->scope && ((old & KIND_MASK) == MANY_STRONG || (old & 3));

    return (strong ? MANY_STRONG : MANY) | touch->warp->run->order.far_acquires;
}

/* ------------------------------------------------------------------ one cell */

static struct emu_reader reader_of(const struct touch *touch)
{
    return (struct emu_reader){.mask = touch->mask,
                               .tick = touch->tick,
                               .pc = touch->pc,
                               .block = touch->tag,
                               .first = (uint16_t)touch->first,
                               .scope = touch->scope};
}

static struct emu_reader reader_of_epoch(uint64_t epoch, uint32_t pc)
{
    uint32_t agent = (uint32_t)(epoch >> AGENT_SHIFT) & AGENT_MASK;

    return (struct emu_reader){.mask = 1u << agent % EMU_LANES,
                               .tick = (uint32_t)(epoch >> TICK_SHIFT) & EMU_TICK_MAX,
                               .pc = pc,
                               .block = (uint32_t)(epoch >> BLOCK_SHIFT),
                               .first = (uint16_t)(agent / EMU_LANES * EMU_LANES),
                               .scope = epoch & 3};
}

/* The list without entries that the touch makes needless: those before it, and older ones of the
 * same lanes. Sets *merged_out when an entry of this warp and tick has taken the lanes in. */
static void list_prune(const struct touch *touch, struct emu_cell *cell, bool *merged_out)
{
    struct emu_order *order = &touch->warp->run->order;
    uint32_t *link = NULL, first = (uint32_t)cell->reader, next;
    uint32_t head = first;

    *merged_out = false;
    for (uint32_t at = first; at; at = next) {
        struct emu_reader *entry = &order->readers[at];
        bool mine = entry->first == touch->first;

        next = entry->next;
        if (mine && entry->tick == touch->tick && entry->scope == touch->scope) {
            entry->mask |= touch->mask;
            *merged_out = true;
        } else {
            entry->mask &= mine ? ~touch->mask : EMU_FULL;
            if (!entry->mask || entry_unordered(touch, touch->lane, entry) == EMU_LANES) {
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
    cell->reader = head ? LIST | head : 0;
}

static int add_reader(const struct touch *touch, struct emu_cell *cell)
{
    struct emu_order *order = &touch->warp->run->order;
    bool merged = false, ok = true;

    if ((cell->reader & KIND_MASK) == MANY || (cell->reader & KIND_MASK) == MANY_STRONG) {
        cell->reader = many_now(touch, cell->reader);
        cell->reader_pc = touch->pc;
        return EMU_NEXT;
    }
    if ((cell->reader & KIND_MASK) == LIST) {
        uint32_t block = order->readers[(uint32_t)cell->reader].block;

        list_prune(touch, cell, &merged);
        if (cell->reader && block != touch->tag) {
            list_free(order, cell);
            cell->reader = many_now(touch, 0);
            cell->reader_pc = touch->pc;
            return EMU_NEXT;
        }
    } else if (cell->reader && !before(touch, touch->lane, cell->reader)) {
        if (cell->reader >> BLOCK_SHIFT != touch->tag) {
            cell->reader = many_now(touch, cell->reader);
            cell->reader_pc = touch->pc;
            return EMU_NEXT;
        }
        {
            struct emu_reader old = reader_of_epoch(cell->reader, cell->reader_pc);

            cell->reader = 0;
            ok = list_push(order, cell, old);
            list_prune(touch, cell, &merged);
        }
    } else {
        cell->reader = 0;
    }
    if (merged) {
        return EMU_NEXT;
    }
    if (!cell->reader && !(touch->mask & (touch->mask - 1))) {
        cell->reader = touch->epoch;
        cell->reader_pc = touch->pc;
        return EMU_NEXT;
    }
    ok = ok && list_push(order, cell, reader_of(touch));
    return ok ? EMU_NEXT
              : emu_fault(touch->warp, touch->insn, touch->lane, GK_EMU_FAULT_UNSUPPORTED, 0,
                          "the host has no memory for the readers of this launch");
}

/* Asynchronous operations see a plain write only behind a proxy fence. */
static bool shown(const struct touch *touch, uint64_t epoch)
{
    const struct emu_ticks *async = touch->warp->order.known[touch->lane].async;
    uint32_t agent = (uint32_t)(epoch >> AGENT_SHIFT) & AGENT_MASK;

    return agent >= touch->warp->run->warps * EMU_LANES || epoch >> BLOCK_SHIFT != touch->tag ||
           (async && async->tick[agent] >= ((uint32_t)(epoch >> TICK_SHIFT) & EMU_TICK_MAX));
}

static int check_writer(const struct touch *touch, const struct emu_cell *cell)
{
    if (touch->async) {
        if (before(touch, touch->lane, cell->writer) && shown(touch, cell->writer)) {
            return EMU_NEXT;
        }
        return report_epoch(touch, touch->lane, true, cell->writer, cell->writer_pc);
    }
    for (uint32_t left = touch->mask; left; left &= left - 1) {
        unsigned lane = (unsigned)__builtin_ctz(left);

        if (!before(touch, lane, cell->writer) &&
            !both_strong(touch, (uint32_t)(cell->writer >> BLOCK_SHIFT), cell->writer & 3)) {
            return report_epoch(touch, lane, true, cell->writer, cell->writer_pc);
        }
    }
    return EMU_NEXT;
}

static int read_cell(const struct touch *touch, struct emu_cell *cell)
{
    if (cell->writer && check_writer(touch, cell) != EMU_NEXT) {
        return EMU_STOP;
    }
    if (touch->passing) {
        return EMU_NEXT;
    }
    if (cell->reader == touch->epoch && !(touch->mask & (touch->mask - 1))) {
        return EMU_NEXT;
    }
    return add_reader(touch, cell);
}

static int check_list(const struct touch *touch, const struct emu_cell *cell)
{
    const struct emu_order *order = &touch->warp->run->order;

    for (uint32_t at = (uint32_t)cell->reader; at; at = order->readers[at].next) {
        const struct emu_reader *entry = &order->readers[at];
        unsigned l = entry_unordered(touch, touch->lane, entry);

        if (l < EMU_LANES && !both_strong(touch, entry->block, entry->scope)) {
            return report_epoch(touch, touch->lane, false,
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
        return check_list(touch, cell);
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
            both_strong(touch, (uint32_t)(cell->reader >> BLOCK_SHIFT), cell->reader & 3)) {
            return EMU_NEXT;
        }
        return report_epoch(touch, touch->lane, false, cell->reader, cell->reader_pc);
    }
}

/* `again`: another lane of this very instruction has just written the same bytes. Which of them
 * stays is not defined, but it is one of them. */
static int write_cell(const struct touch *touch, struct emu_cell *cell, bool again)
{
    if (cell->writer && !again && check_writer(touch, cell) != EMU_NEXT) {
        return EMU_STOP;
    }
    if (cell->reader) {
        if (check_readers(touch, cell) != EMU_NEXT) {
            return EMU_STOP;
        }
        list_free(&touch->warp->run->order, cell);
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
            cells[i].reader = list_copy(order, cells[i].reader);
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
            list_free(order, &page->cells[i]);
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
    uint32_t agent = (uint32_t)(cell->writer >> AGENT_SHIFT) & AGENT_MASK;
    uint32_t other = agent - touch->warp->index * EMU_LANES;

    return cell->writer >> BLOCK_SHIFT == touch->tag && other < touch->lane && mask >> other & 1 &&
           cell->writer_pc == touch->pc && reach->address[other] == touch->address &&
           cell->writer == epoch_of(touch->tag, agent, touch->tick, touch->scope);
}

static int touch_memory(struct touch *touch, struct emu_shadow *shadow, uint64_t offset,
                        const struct emu_reach *reach, uint32_t mask)
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

static int access_one(struct touch *touch, const struct emu_reach *reach, uint32_t mask)
{
    uint64_t offset = 0;
    struct emu_shadow *shadow =
        touch->target ? &touch->target->shadow
                      : shadow_of(touch->warp, touch->space, touch->address, touch->bytes, &offset);

    offset = touch->target ? touch->address : offset;

    if (!shadow) {
        return EMU_NEXT;
    }
    if (touch_memory(touch, shadow, offset, reach, mask) != EMU_NEXT) {
        return EMU_STOP;
    }
    if (touch->scope) {
        emu_order_strong(
            touch->warp, touch->insn, touch->lane, !touch->write || touch->atomic, touch->write,
            touch->space == EMU_SHARED ? &emu_block_at(touch->warp, touch->address)->releases
                                       : &touch->warp->run->order.releases,
            (touch->space == EMU_SHARED ? touch->address & EMU_CTA_MASK : touch->address) + 1);
        touch->tick = touch->warp->order.tick;
    }
    return EMU_NEXT;
}

int emu_order_access(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask,
                     uint32_t bytes, unsigned kind, const struct emu_reach *reach)
{
    struct touch touch = {.warp = warp,
                          .insn = insn,
                          .tag = tag_of(warp->block->index),
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
    if (reach->uniform && kind == EMU_LOAD && !touch.scope) {
        touch.lane = (unsigned)__builtin_ctz(mask);
        touch.mask = mask;
        touch.address = reach->address[touch.lane];
        touch.epoch = epoch_of(touch.tag, warp->index * EMU_LANES + touch.lane, touch.tick, 0);
        return access_one(&touch, reach, mask);
    }
    for (uint32_t left = mask; left; left &= left - 1) {
        touch.lane = (unsigned)__builtin_ctz(left);
        touch.mask = 1u << touch.lane;
        touch.address = reach->address[touch.lane];
        touch.epoch =
            epoch_of(touch.tag, warp->index * EMU_LANES + touch.lane, touch.tick, touch.scope);
        if (access_one(&touch, reach, mask) != EMU_NEXT) {
            return EMU_STOP;
        }
    }
    return EMU_NEXT;
}

int emu_order_async(struct emu_warp *warp, const struct emu_insn *insn, unsigned lane,
                    struct emu_block *target, uint64_t address, uint32_t bytes, bool write,
                    uint32_t agent, uint32_t tick)
{
    struct touch touch = {.warp = warp,
                          .insn = insn,
                          .tag = tag_of(warp->block->index),
                          .tick = tick,
                          .pc = warp->pc,
                          .bytes = bytes,
                          .first = agent / EMU_LANES * EMU_LANES,
                          .mask = 1u << agent % EMU_LANES,
                          .lane = lane,
                          .target = target,
                          .address = address,
                          .async = true,
                          .write = write,
                          .space = target ? EMU_SHARED : EMU_GLOBAL};

    if (warp->run->order.off) {
        return EMU_NEXT;
    }
    if (agent == EMU_NO_AGENT) {
        touch.passing = true;
        touch.first = 0;
        touch.mask = 1;
        return access_one(&touch, NULL, 0);
    }
    touch.epoch = epoch_of(tag_of(target ? target->index : warp->block->index), agent, tick, 0);
    return access_one(&touch, NULL, 0);
}

void emu_order_landed(struct emu_warp *warp, unsigned lane, uint32_t address, uint32_t bytes)
{
    struct emu_shadow_page *page;

    if (warp->run->order.off) {
        return;
    }
    page = page_at(&warp->run->order, &warp->block->shadow, address, bytes);
    if (!page) {
        return;
    }
    for (uint32_t at = address; at < address + bytes; at += 1u << page->shift) {
        page->cells[at % EMU_SHADOW_BYTES >> page->shift].writer = epoch_of(
            tag_of(warp->block->index), warp->index * EMU_LANES + lane, warp->order.tick, EMU_WEAK);
    }
}
