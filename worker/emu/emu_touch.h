/*
 * What the files of the shadow memory share: one access while it is checked, names of accesses, and
 * lists of earlier ones.
 *
 * An epoch names an access: block (24 bits, modulo), agent (11), tick (27) and scope (2).
 */
#ifndef GK_WORKER_EMU_EMU_TOUCH_H
#define GK_WORKER_EMU_EMU_TOUCH_H

#include "worker/emu/emu_inside.h"

#define BLOCK_SHIFT 40
#define AGENT_SHIFT 29
#define TICK_SHIFT  2
#define AGENT_MASK  2047u
#define TAGS        0xffffffu /* of blocks: the value itself marks what is no epoch */

/* One access while it is checked. */
struct touch {
    struct emu_warp *warp;
    const struct emu_insn *insn;
    uint64_t epoch; /* of `lane` */
    uint64_t address;
    uint32_t tag;   /* of the block of the thread that accesses, or started the operation */
    uint32_t owner; /* of the block of the agent */
    uint32_t tick, pc, mask, bytes;
    uint32_t first; /* agent that bit 0 of the mask stands for */
    unsigned lane;
    struct emu_block *target; /* whose shared memory it is */
    bool async;
    bool generic; /* asynchronous, but no other proxy */
    uint8_t scope;
    bool write, atomic;
    enum emu_space space;
};

static inline uint32_t tag_of(uint64_t block)
{
    return (uint32_t)(block % TAGS);
}

static inline uint64_t epoch_of(uint32_t tag, uint32_t agent, uint32_t tick, uint8_t scope)
{
    return (uint64_t)tag << BLOCK_SHIFT | (uint64_t)agent << AGENT_SHIFT |
           (uint64_t)tick << TICK_SHIFT | scope;
}

static inline uint32_t epoch_tag(uint64_t epoch)
{
    return (uint32_t)(epoch >> BLOCK_SHIFT);
}

static inline uint32_t epoch_agent(uint64_t epoch)
{
    return (uint32_t)(epoch >> AGENT_SHIFT) & AGENT_MASK;
}

static inline uint32_t epoch_tick(uint64_t epoch)
{
    return (uint32_t)(epoch >> TICK_SHIFT) & EMU_TICK_MAX;
}

/* Whether the lane knows of what the agent did up to the tick. */
bool emu_known_before(const struct touch *touch, unsigned lane, uint32_t tag, uint32_t agent,
                      uint32_t tick);
/* The first lane of the entry whose access is not before that of touch->lane, or 32. */
unsigned emu_entry_unordered(const struct touch *touch, const struct emu_reader *entry);
struct emu_reader emu_reader_of(const struct touch *touch);
struct emu_reader emu_reader_of_epoch(uint64_t epoch, uint32_t pc, uint8_t flags);

/* ------------------------------------------------------------------ lists of one piece */

#define NO_MEMORY UINT32_MAX /* in place of a list */

void emu_list_free(struct emu_order *order, uint32_t list);
/* All of these give the new list; 0 is the empty one. */
uint32_t emu_list_push(struct emu_order *order, uint32_t list, struct emu_reader reader);
uint32_t emu_list_copy(struct emu_order *order, uint32_t list);
/* Without entries that the touch makes needless: those before it, and older ones of the same lanes;
 * stronger ones stay, since they tell who has seen a strong write. Sets *merged_out when an entry
 * of this warp and tick has taken the lanes in. */
uint32_t emu_list_prune(const struct touch *touch, uint32_t list, bool *merged_out);

/* ------------------------------------------------------------------ lists that pieces share */

/* The set with the reader in it. 0: the launch has too many sets. */
uint32_t emu_set_add(const struct touch *touch, uint32_t set, const struct emu_reader *reader);
/* The same entries as a set; the list is freed. */
uint32_t emu_set_of_list(const struct touch *touch, uint32_t list);
void emu_sets_fini(struct emu_reader_sets *sets);

#endif
