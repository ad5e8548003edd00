/*
 * Time as a parameter. Mains make one real clock and hand it down; tests and the simulator hand
 * down their own. Monotonic time orders and expires; wall time is only ever shown and stored.
 */
#ifndef GK_CORE_CLOCK_H
#define GK_CORE_CLOCK_H

#include <stdint.h>

struct gk_clock {
    uint64_t (*monotonic_ns)(void *context);
    uint64_t (*wall_ms)(void *context); /* milliseconds since 1970-01-01T00:00Z */
    void *context;
};

/* The machine's clocks. */
struct gk_clock gk_clock_real(void);

#endif
