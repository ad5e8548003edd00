/*
 * Compiled code on disk, by content: spool/cache/<hash>.
 *
 * The key covers the module (sources, defines, options), the target and the NVRTC version, so an entry
 * never goes stale and never means something else. An entry is one file with its own hash inside: a
 * torn or damaged one is said, removed, and built again. Entries are written aside and renamed, so
 * several workers may share a folder; a lock per key keeps two of them from building the same thing.
 */
#ifndef GK_WORKER_CACHE_H
#define GK_WORKER_CACHE_H

#include "core/hash.h"
#include "core/json.h"
#include "worker/compile_log.h"

#define GK_CACHE_ENTRY_MAX (64u << 20)

struct gk_cache;

struct gk_cache_entry {
    char *log, *ptx, *cubin; /* owned */
    size_t ptx_size, cubin_size;
    struct gk_compile_facts facts;
};

/* Makes the folder if need be. size_max_bytes bounds all entries together. */
enum gk_status gk_cache_open(const char *folder, uint64_t size_max_bytes,
                             struct gk_cache **cache_out, struct gk_err *err);
void gk_cache_close(struct gk_cache *cache);

struct gk_hash gk_cache_key(const struct gk_hash *module_key, const char *target,
                            const char *nvrtc_version);

/* GK_NOT_FOUND, or GK_CORRUPT for an entry that was damaged (it is gone then). A hit is marked as used. */
enum gk_status gk_cache_get(struct gk_cache *cache, const struct gk_hash *key,
                            struct gk_cache_entry *entry_out, struct gk_err *err);
/* Then removes the entries used least recently until the rest fits. */
enum gk_status gk_cache_put(struct gk_cache *cache, const struct gk_hash *key,
                            const struct gk_cache_entry *entry, struct gk_err *err);
void gk_cache_entry_fini(struct gk_cache_entry *entry);

/* Exclusive right to build a key: GK_BUSY while another process holds it. *lock_out >= 0 until unlock. The kernel
 * gives the lock back if its holder dies. */
enum gk_status gk_cache_lock(struct gk_cache *cache, const struct gk_hash *key, int *lock_out,
                             struct gk_err *err);
void gk_cache_unlock(int lock);

uint64_t gk_cache_bytes(const struct gk_cache *cache);

#endif
