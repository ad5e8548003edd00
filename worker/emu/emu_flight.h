/*
 * Asynchronous copies in flight: cp.async, bulk and tensor copies in both directions.
 *
 * Everything that can be wrong about a copy (bounds, alignment, order) is looked at when it is
 * started. When its bytes move is up to the schedule: at issue (EARLY); when they are waited for,
 * or nothing else can run (LATE); at a random time between (RANDOM). A copy that is not waited for
 * is thus also seen by the values that it leaves, not by the order of accesses alone.
 *
 * A load in bulk belongs to the block that it writes, and counts on an mbarrier there when it
 * lands. cp.async and stores in bulk belong to the warp that started them, whose lanes wait for
 * them. A store reads shared memory first, into a copy of its own, and writes later: waiting for
 * reads does not show what is written.
 */
#ifndef GK_WORKER_EMU_EMU_FLIGHT_H
#define GK_WORKER_EMU_EMU_FLIGHT_H

#include <stdbool.h>
#include <stdint.h>

struct emu_block;
struct emu_insn;
struct emu_run;
struct emu_warp;

/* What the 128 bytes of a tensor map hold here. */
struct emu_map {
    uint64_t magic; /* EMU_MAP_MAGIC */
    uint64_t address;
    uint64_t strides[5]; /* bytes; [0] is the element's size */
    uint32_t last[5];    /* elements of each dimension, less one */
    uint16_t box[5];
    uint8_t steps[5];
    uint8_t rank, swizzle, fill_nan;
    uint8_t type; /* enum ptx_type: of reductions and of NaN */
};
#define EMU_MAP_MAGIC 0x70616d6b67756d65ull

enum emu_flight_kind {
    EMU_FLIGHT_LANES, /* cp.async */
    EMU_FLIGHT_LOAD,  /* in bulk, to shared memory */
    EMU_FLIGHT_STORE  /* in bulk, from shared memory */
};

/* One piece a lane. */
struct emu_flight_lanes {
    uint32_t address[32];          /* in shared memory */
    const unsigned char *from[32]; /* NULL: nothing is read */
    uint8_t sizes[32];             /* bytes that are read; zeros follow */
};

/* A box of a tensor map, or a run of bytes. */
struct emu_flight_bulk {
    bool box;
    bool sent; /* from shared memory of the block that started it, where `global` is an offset */
    struct emu_map map;
    int32_t at[5]; /* coordinates of a box */
    uint64_t global;
    uint32_t shared, barrier; /* offsets in the block */
};

struct emu_flight {
    enum emu_flight_kind kind;
    struct emu_warp *warp;                   /* that started it; its block may have ended */
    const struct emu_insn *insn;             /* that started it */
    struct emu_block *block;                 /* whose shared memory takes part */
    void (*move)(struct emu_flight *flight); /* of bulk copies: moves the bytes, cannot fail */
    uint64_t due;                            /* run->executed from which on it may land */
    uint32_t mask;        /* LANES: those that have not waited yet; else the lane that started it */
    uint32_t batch;       /* LANES and STORE: number of the group it belongs to */
    uint32_t bytes;       /* a lane, or all */
    uint32_t agent, tick; /* of a bulk copy (emu_order.h) */
    uint32_t arrivals;    /* LOAD: at the mbarrier, of lanes whose cp.async before are done then */
    uint32_t number;      /* LANES: cp.async of the warp before it; the same of such an arrival */
    bool moved;           /* LANES: the bytes have changed, though nobody may look yet */
    uint8_t add;          /* enum ptx_type of a reduction; 0: a copy */
    uint8_t op;           /* enum ptx_atom of it */
    unsigned char *data;  /* STORE: what it has read; NULL: nothing yet */
    union {
        struct emu_flight_lanes lanes;
        struct emu_flight_bulk bulk;
    };
};

struct emu_flights {
    struct emu_flight *items; /* in the order in which they were started */
    uint32_t count, capacity;
};

void emu_flights_fini(struct emu_flights *flights);
void emu_flights_clear(struct emu_flights *flights);
/* A place for one more, behind the last: filled by the caller, and then counted by
 * emu_flight_start(). NULL: no memory. */
struct emu_flight *emu_flights_room(struct emu_flights *flights);
/* Starts the flight that lies behind the last. false: a fault. */
bool emu_flight_start(struct emu_run *run, struct emu_block *owner, struct emu_flights *flights);

/* Lanes of the mask have waited for their cp.async of groups below the lane's threshold. */
void emu_flights_wait_lanes(struct emu_warp *warp, const uint32_t *threshold, uint32_t mask);
/* The move of an arrival: cp.async that its lanes started before it are done. */
void emu_flights_land_lanes(struct emu_flight *arrival);
/* Groups of cp.async that the warp has not waited for. */
uint32_t emu_flights_groups(const struct emu_warp *warp);
/* The lane has waited for its stores of groups up to `batch`: for their reads, or for all. */
void emu_flights_wait_stores(struct emu_warp *warp, unsigned lane, uint32_t batch, bool reads_only);
/* Lands what is due (RANDOM). false: a fault. */
bool emu_flights_due(struct emu_block *block);
/* Lands loads that count on the barrier until its phase ends, the youngest first. false: a fault.
 */
bool emu_flights_land_on(struct emu_block *block, uint32_t barrier);
/* The block has nothing else to run, or has run for long: lands what its threads wait for; if that
 * is nothing, the youngest load; with `all`, everything. *landed_out: something did. false: a
 * fault. */
bool emu_flights_force(struct emu_block *block, bool all, bool *landed_out);
/* All threads of the block have ended. false: a fault. */
bool emu_flights_end(struct emu_block *block);

#endif
