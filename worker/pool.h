/*
 * The compile pool: N processes, a queue, a deadline for each compilation, the cache in front.
 *
 * Equal modules that are wanted at the same time are compiled once. A process that dies or is killed at its
 * deadline is replaced; its compilation is tried once more and then failed by name (compile_crash,
 * compile_timeout). All callbacks come from the loop, never from inside gk_pool_want().
 */
#ifndef GK_WORKER_POOL_H
#define GK_WORKER_POOL_H

#include <uv.h>

#include "core/record.h"
#include "worker/cache.h"
#include "worker/compiler.h"

/* A finished compilation, shared by all that wait for it. */
struct gk_code {
    uint32_t references;
    enum gk_failure failure;  /* NONE, COMPILE_ERROR, _TIMEOUT, _MEMORY, _CRASH, INFRA */
    char *message;            /* of the failure; else NULL */
    struct gk_compile_output output;
    bool cached;
    double compile_ns;
};
struct gk_code *gk_code_hold(struct gk_code *code);
void gk_code_drop(struct gk_code *code); /* accepts NULL */

struct gk_pool;

struct gk_pool_options {
    uint32_t processes;
    char *const *argv;        /* of a compile process; lent, must outlive the pool */
    struct gk_cache *cache;   /* NULL: none (mock) */
};

/* Lent for the call: hold it to keep it. */
typedef void (*gk_pool_done_cb)(void *context, uint32_t tag, struct gk_code *code);

enum gk_status gk_pool_create(uv_loop_t *loop, const struct gk_pool_options *options,
                              struct gk_pool **pool_out, struct gk_err *err);
/* Kills the processes; no callback comes any more. Memory goes when the loop has closed its handles. */
void gk_pool_destroy(struct gk_pool *pool);

/* Wants the module `key`: either *code_out is held for the caller at once (a cache hit), or it is NULL and done() follows.
 * `request` is the compile frame without its id; taken over in any case. */
enum gk_status gk_pool_want(struct gk_pool *pool, const struct gk_hash *key, struct gk_json *request,
                            uint32_t deadline_s, gk_pool_done_cb done, void *context, uint32_t tag,
                            struct gk_code **code_out, struct gk_err *err);
/* No callback for this context any more; a compilation that nobody waits for leaves the queue. */
void gk_pool_forget(struct gk_pool *pool, const void *context);
/* While held, nothing new starts: a final round is on and the processor is its. */
void gk_pool_pause(struct gk_pool *pool, bool paused);
/* Process ids of the running compile processes, for tests and `doctor`. */
uint32_t gk_pool_pids(const struct gk_pool *pool, int *pids_out, uint32_t max);

#endif
