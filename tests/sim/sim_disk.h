/*
 * A disk in memory for SQLite: a VFS that knows what was synced. Registered as the default one, so
 * that the production store runs on it unchanged. It can die at any of its operations, lose or tear
 * what was not synced, fail one operation, or be full. One simulation a process.
 */
#ifndef GK_TESTS_SIM_DISK_H
#define GK_TESTS_SIM_DISK_H

#include "core/prng.h"
#include "core/status.h"

enum disk_fault {
    DISK_FINE,
    DISK_DIES, /* this operation and all later ones do nothing and fail: the process was killed */
    DISK_EIO,  /* this operation fails once */
    DISK_FULL, /* this write and all later ones find no room until disk_make_room() */
};

/* Empties the disk. `prng` decides about lost and torn sectors; borrowed. */
void disk_reset(struct gk_prng *prng);
void disk_register(void);
/* The fault comes with the Nth operation from now that writes, syncs, cuts or deletes. */
void disk_arm(enum disk_fault fault, uint64_t operation);
void disk_make_room(void);
void disk_die_now(void);
bool disk_is_dead(void);
bool disk_fault_hit(void);   /* since the last disk_arm() */
bool disk_sync_failed(void); /* since the last disk_revive() */
uint64_t disk_operations(void);
/* After the process is gone and its handles are closed. power_lost: of every sector that was not
 * synced either the old, the new or a mixture is there. */
void disk_revive(bool power_lost);
/* A disk that lies: sync does nothing. For the canary. */
void disk_ignore_syncs(bool ignore);
/* Flips one bit somewhere in the store's file; false: it has no bytes. */
bool disk_flip_bit(void);

#endif
