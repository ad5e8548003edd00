/* Waits between connections: see back_off.h. */
#include "worker/back_off.h"

#include "core/wire.h"

#define LEAST_MS 250

/* Full jitter: a thousand workers that were cut off together must not come together. The bound
 * stops at what the daemon's grace for leases allows (GK_GRACE_MS). With half a minute, the usual
 * bound, every other worker would be away for longer than that after an outage of some minutes, and
 * trials that are alive would run a second time. A try is one small message, so a daemon that is
 * down for a day costs nothing more by the shorter bound. */
uint64_t gk_back_off_ms(uint32_t attempts, uint32_t random)
{
    uint64_t bound_ms = LEAST_MS;
    for (uint32_t i = 0; i < attempts && bound_ms < GK_RECONNECT_MAX_MS; i++) {
        bound_ms *= 2;
    }
    return random % (bound_ms < GK_RECONNECT_MAX_MS ? bound_ms : GK_RECONNECT_MAX_MS);
}
