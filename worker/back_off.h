/*
 * How long a worker waits before it connects again.
 */
#ifndef GK_WORKER_BACK_OFF_H
#define GK_WORKER_BACK_OFF_H

#include <stdint.h>

/* Milliseconds before the attempt that comes after `attempts` vain ones: anywhere, by `random`,
 * below a bound that doubles with each, and less than GK_RECONNECT_MAX_MS (core/wire.h) whatever
 * came before. What a REJECT asks for comes on top of it. */
uint64_t gk_back_off_ms(uint32_t attempts, uint32_t random);

#endif
