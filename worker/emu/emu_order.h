/*
 * Happens-before order: who has seen what, and the races that follow from it.
 *
 * An agent is whoever touches memory on its own: a thread, or an asynchronous operation. Agents of
 * a block are numbered: thread t is agent t, slots for asynchronous operations follow. Each agent
 * has a tick that grows when others may come to know of what it did so far. What a thread knows is
 * a vector of ticks, one an agent of its block (struct emu_ticks), and the same of other blocks as
 * far as it has learned from them (struct emu_far). Vectors are shared and copied when written: the
 * threads behind a barrier all hold the one that the barrier joined.
 *
 * Shadow memory keeps for each piece of 16 bytes, or less where accesses are narrower, the last
 * write and the reads since. An access that the earlier one does not happen before, one of them a
 * write, is a race. Edges are those of PTX: barriers, bar.warp.sync, release and acquire patterns
 * over strong accesses, waits for asynchronous copies; launches are in order. Shuffles, votes and
 * the lockstep of a warp order nothing.
 */
#ifndef GK_WORKER_EMU_EMU_ORDER_H
#define GK_WORKER_EMU_EMU_ORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/status.h"

struct emu_warp;
struct emu_block;
struct emu_run;
struct emu_insn;
struct emu_alloc;
struct emu_reach;
struct emu_barrier;

#define EMU_ASYNC_AGENTS 160u
#define EMU_TICK_MAX     ((1u << 27) - 1)

/* Up to which tick each agent of one block is known. */
struct emu_ticks {
    uint32_t refs, count;
    uint64_t block; /* linear index */
    uint32_t tick[];
};

/* What is known of other blocks. */
struct emu_far {
    uint32_t refs, count;
    struct emu_ticks *part[]; /* ascending by block */
};

/* Ticks of the own block and of others. */
struct emu_seen {
    struct emu_ticks *own; /* NULL: nothing yet */
    struct emu_far *far;
};

/* Asynchronous operations see plain accesses to this memory behind a proxy fence. */
enum emu_proxy { EMU_PROXY_SHARED, EMU_PROXY_GLOBAL, EMU_PROXIES };

struct emu_known {
    struct emu_seen all;
    /* More that has ended, though nothing says that its writes can be seen: what it did lies before
     * later writes, not before later reads. Left by arrivals that release to their block alone. */
    struct emu_seen ended;
    struct emu_seen async[EMU_PROXIES]; /* the part of it that a fence.proxy.async lies behind */
};

/* Memory-model scopes, in order. */
enum emu_scope { EMU_WEAK = 0, EMU_SCOPE_CTA = 1, EMU_SCOPE_CLUSTER = 2, EMU_SCOPE_GPU = 3 };

/* What those who arrived somewhere hand to those who leave. PTX wants fence and strong access in
 * one thread. Kernels let every thread fence, then one thread behind a barrier make the access, and
 * the other way round: that holds on every GPU, since a fence is done when it returns, so fences
 * and observations pass barriers too. */
struct emu_gate {
    struct emu_known known, fenced, observed;
    uint8_t fenced_scope, observed_scope; /* 0: none */
};

void emu_gate_drop(struct emu_gate *gate);

struct emu_known emu_known_ref(const struct emu_known *known);
void emu_known_drop(struct emu_known *known);
/* Adds what `from` knows to `into`, which belongs to a thread or object of block `block`. */
void emu_known_join(struct emu_known *into, uint64_t block, const struct emu_known *from);
/* Adds that agents [first, first + 32) of `mask` of the block have done all up to `tick`. */
void emu_known_add(struct emu_known *into, const struct emu_block *block, uint32_t first,
                   uint32_t mask, uint32_t tick);

/* ------------------------------------------------------------------ shadow memory */

struct emu_cell {
    uint64_t writer; /* epoch of the last write, 0: none */
    uint64_t reader; /* epoch of the only reader since, or a list, or "many"; 0: none */
    uint32_t writer_pc, reader_pc;
};

#define EMU_SHADOW_BYTES 4096u /* of memory, a page of the shadow */

struct emu_shadow_page {
    struct emu_cell *cells; /* NULL until touched */
    uint64_t stamp;         /* contents count only if this is the shadow's stamp */
    uint32_t shift;         /* a cell stands for 1 << shift bytes */
};

struct emu_shadow {
    struct emu_shadow_page *pages; /* NULL until touched */
    uint64_t bytes, stamp;
    bool reused; /* gets new stamps within one launch: readers in old pages are still allocated */
};

void emu_shadow_fini(struct emu_shadow *shadow);

/* An earlier access that a later one may race with: reads since the last write, and what strong
 * writes did not take away. Several entries of a list may belong to one warp. */
struct emu_reader {
    uint32_t next, mask, tick, pc;
    uint32_t block; /* tag of an epoch */
    uint16_t first; /* agent of lane 0 */
    uint8_t scope;
    uint8_t flags;  /* EMU_READER_* */
    uint32_t depth; /* of a set: entries from here on */
};

#define EMU_READER_OLD   1u /* it lies before the last write, a strong one */
#define EMU_READER_WROTE 2u /* a strong write, behind which came another that did not read it */

/* Lists that many pieces of memory share: what several blocks have read. A list is a number; an
 * entry and the list behind it have one number, and stay until the launch ends. */
struct emu_reader_sets {
    struct emu_reader *nodes; /* [0] is not used */
    uint32_t count, capacity;
    uint32_t *slots; /* of a hash table of twice the capacity: numbers of nodes, 0: free */
    struct emu_set_step *steps; /* what was added to what, a cache */
};

/* What was released at an address by a strong write, for strong reads to take. */
struct emu_release {
    uint64_t key;   /* address + 1; 0: a free place */
    uint64_t owner; /* block of the releasing thread, and of `known` */
    struct emu_known known;
    uint8_t scope; /* 0: nothing is released here any more */
};

struct emu_releases {
    struct emu_release *slots;
    uint32_t count, capacity;
};

/* Of a launch. */
struct emu_order {
    bool off;
    struct emu_reader *readers; /* [0] is not used */
    uint32_t reader_count, reader_capacity, reader_free;
    struct emu_reader_sets sets;
    struct emu_releases releases;
    uint32_t far_acquires; /* so far */
};

void emu_order_fini(struct emu_order *order);

/* Of the lanes of a warp. */
struct emu_lane_order {
    struct emu_known known[32];
    struct emu_known fenced[32]; /* known and done at the last fence: what strong writes release */
    struct emu_known observed[32]; /* released values read by strong reads, taken at a fence */
    uint8_t fence_scope[32], observed_scope[32]; /* 0: none */
    uint32_t tick;                               /* of all lanes, from 1 up */
    bool any_fenced, any_observed;
};

void emu_lane_order_reset(struct emu_lane_order *lanes);
void emu_block_order_reset(struct emu_block *block);
enum emu_scope emu_order_distance(const struct emu_run *run, uint64_t a, uint64_t b);

/* ------------------------------------------------------------------ edges */

/* All of these do nothing when order.off. */

/* The lanes of the mask know of one another. */
void emu_order_warp_sync(struct emu_warp *warp, uint32_t mask);
/* What the lanes know and did goes into an object of block `block`. */
void emu_order_arrive(struct emu_warp *warp, uint32_t mask, struct emu_gate *gate, uint64_t block);
/* The same where the release does not reach that block: what the lanes know and did has ended. */
void emu_order_arrive_ended(struct emu_warp *warp, uint32_t mask, struct emu_gate *gate,
                            uint64_t block);
/* The lanes learn what the object holds. */
void emu_order_learn(struct emu_warp *warp, uint32_t mask, const struct emu_known *from);
/* The same where all of the lanes have arrived at the object, and nothing happened since. */
void emu_order_leave(struct emu_warp *warp, uint32_t mask, const struct emu_gate *gate);
void emu_order_fence(struct emu_warp *warp, uint32_t mask, enum emu_scope scope);
/* A strong access to the word of this key. */
void emu_order_strong(struct emu_warp *warp, const struct emu_insn *insn, unsigned lane, bool reads,
                      bool writes, struct emu_releases *releases, uint64_t key);

/* Plain accesses so far to shared or to global memory are shown to asynchronous operations. */
void emu_order_proxy_fence(struct emu_warp *warp, uint32_t mask, enum emu_proxy proxy);
/* All threads of the block have ended: the first one knows what any of them knew. */
void emu_order_gather(struct emu_block *block);
/* Place of the block in the list, or where it would be. */
uint32_t emu_far_place(const struct emu_far *far, uint64_t block);
/* The lanes know that the launch ahead has ended (emu_ahead.h). */
void emu_order_ahead(struct emu_warp *warp, uint32_t mask);
/* The lanes have waited for what this agent of their block did up to `tick`. */
void emu_order_done(struct emu_warp *warp, uint32_t mask, uint32_t agent, uint32_t tick);

/* ------------------------------------------------------------------ accesses (emu_shadow.c) */

enum emu_async_kind {
    EMU_ASYNC_READ,
    EMU_ASYNC_WRITE,
    EMU_ASYNC_ADD,
    EMU_ASYNC_PUT, /* a write, as plain ones see memory: no fence.proxy.async is needed */
    EMU_ASYNC_SUM  /* the same of an atomic operation, of the cluster's scope */
};

/* Up to 16 aligned bytes touched by an asynchronous operation that `lane` starts now. `target`: the
 * block whose shared memory it is, NULL for global memory. The agent is one of block `owner`. */
int emu_order_async(struct emu_warp *warp, const struct emu_insn *insn, unsigned lane,
                    struct emu_block *target, uint64_t address, uint32_t bytes,
                    enum emu_async_kind kind, const struct emu_block *owner, uint32_t agent,
                    uint32_t tick);

/* Called before the data moves. `kind`: enum emu_access_kind. Sets reach->twins of a write.
 * EMU_NEXT or EMU_STOP. */
int emu_order_access(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask,
                     uint32_t bytes, unsigned kind, struct emu_reach *reach);
/* All threads of the block have ended: whatever other blocks and asynchronous operations did to its
 * shared memory must come before that. false: a fault. */
bool emu_order_end(struct emu_block *block);
/* The bytes of shared memory count as written by this agent at its tick: an asynchronous copy is
 * complete. */
void emu_order_landed(struct emu_block *block, uint32_t agent, uint32_t tick, uint32_t address,
                      uint32_t bytes);

#endif
