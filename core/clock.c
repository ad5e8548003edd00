/* The machine's clocks behind struct gk_clock: see clock.h. */
#include "core/clock.h"

#include <time.h>

static uint64_t read_clock_ns(clockid_t id)
{
    struct timespec now;
    if (clock_gettime(id, &now) != 0) {
        return 0; /* cannot happen for the two clocks used here on Linux */
    }
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint64_t real_monotonic_ns(void *context)
{
    (void)context;
    return read_clock_ns(CLOCK_MONOTONIC);
}

static uint64_t real_wall_ms(void *context)
{
    (void)context;
    return read_clock_ns(CLOCK_REALTIME) / 1000000u;
}

struct gk_clock gk_clock_real(void)
{
    return (struct gk_clock){.monotonic_ns = real_monotonic_ns, .wall_ms = real_wall_ms};
}
