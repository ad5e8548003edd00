/*
 * A device behind a table that counts, is short of memory, or is slow: what a trial does about each
 * is seen in `pressed`. One at a time.
 */
#ifndef GK_TESTS_PRESSED_H
#define GK_TESTS_PRESSED_H

#include "worker/device.h"

#define PRESSED_BLOCKS_MAX 256
#define PRESSED_PLACES_MAX 4096

struct pressed {
    const struct gk_device_ops *real;
    struct gk_device_ops ops;
    struct {
        uint64_t address, bytes;
    } blocks[PRESSED_BLOCKS_MAX];
    uint64_t used, most;
    uint32_t graphs;            /* alive */
    uint32_t streams, streamed; /* samples without a graph, and their launches */
    uint32_t stream_first;      /* launches before this one */
    bool tight;                 /* nothing is left while a recording is alive */
    bool streaming;
    bool recording, impatient;
    double launch_ns; /* of every launch; 0: what the model says */
    uint32_t recorded;
    uint64_t patience_ms;
    /* What a recording goes through, by the first argument of its launches. */
    uint64_t places[PRESSED_PLACES_MAX];
    uint32_t place_count, most_places;
    struct {
        struct gk_device_graph *graph;
        uint32_t launches, places;
    } recordings[4];
    /* Faster while the sets are few: up to that many places a launch takes carried_ns. */
    uint32_t carried_places;
    double carried_ns;
    double jitter; /* of every third replay */
    uint32_t replays;
    uint32_t pdl;             /* launches that may overlap what is ahead of them */
    int64_t throttle;         /* why the clock is low, as NVML has it, ... */
    uint32_t throttled_looks; /* ... so many times from now on */
    const int64_t *others;    /* processes on the GPU at each look from now on; NULL: none */
};

extern struct pressed pressed;

/* Puts the table between the device and who uses it, with everything in `pressed` at its beginning;
 * the device's own operations stay in pressed.real. */
void pressed_begin(struct gk_device *device);
/* Of others and of the throttled clock, for pressed.ops.vitals. */
enum gk_status pressed_vitals(struct gk_device *dev, struct gk_device_vitals *now_out,
                              struct gk_err *err);

#endif
