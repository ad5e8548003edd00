#include "worker/pool.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/child.h"

#define ATTEMPTS_MAX  2
#define PROCESSES_MAX 64

struct waiter {
    struct waiter *next;
    gk_pool_done_cb done;
    void *context;
    uint32_t tag;
};

struct item {
    struct item *next;
    struct gk_hash key;
    struct gk_json *request;
    struct waiter *waiters;
    uint32_t deadline_s, attempts;
    uint64_t started_ns;
};

struct slot {
    struct gk_pool *pool;
    struct gk_child *child;
    struct item *item;   /* being compiled */
    uv_timer_t deadline;
    bool timed_out, timer_open;
};

struct gk_pool {
    uv_loop_t *loop;
    struct gk_pool_options options;
    struct item *queue;  /* first in, first out */
    struct slot *slots;
    uint32_t timers_open;
    bool paused, destroyed;
    char hello_error[GK_ERR_TEXT_MAX]; /* why the last process could not start */
};

/* ------------------------------------------------------------------ codes */

struct gk_code *gk_code_hold(struct gk_code *code)
{
    code->references++;
    return code;
}

void gk_code_drop(struct gk_code *code)
{
    if (code && --code->references == 0) {
        free(code->message);
        gk_compile_output_fini(&code->output);
        free(code);
    }
}

static struct gk_code *code_new(enum gk_failure failure, const char *message)
{
    struct gk_code *code = calloc(1, sizeof *code);
    if (code) {
        code->references = 1;
        code->failure = failure;
        code->message = message ? gk_strdup(message) : NULL;
    }
    return code;
}

/* ------------------------------------------------------------------ items */

static void item_free(struct item *item)
{
    while (item && item->waiters) {
        struct waiter *next = item->waiters->next;
        free(item->waiters);
        item->waiters = next;
    }
    if (item) {
        gk_json_free(item->request);
        free(item);
    }
}

/* Tells all that wait. Takes the code and the item. */
static void item_finish(struct item *item, struct gk_code *code)
{
    while (item->waiters) {
        struct waiter *waiter = item->waiters;
        item->waiters = waiter->next; /* first: the callback may ask for more, or forget others */
        if (code) {
            waiter->done(waiter->context, waiter->tag, code);
        }
        free(waiter);
    }
    item_free(item);
    gk_code_drop(code);
}

static void store(struct gk_pool *pool, const struct item *item, const struct gk_code *code)
{
    struct gk_cache_entry entry = {.log = code->output.log, .ptx = code->output.ptx,
                                   .cubin = (char *)code->output.cubin,
                                   .ptx_size = code->output.ptx_size,
                                   .cubin_size = code->output.cubin_size};
    if (pool->options.cache && code->failure == GK_FAILURE_NONE) {
        (void)gk_cache_put(pool->options.cache, &item->key, &entry, NULL); /* a full disk costs time only */
    }
}

/* ------------------------------------------------------------------ processes */

static void pump(struct gk_pool *pool);

static struct gk_code *code_from(const struct gk_pipe *frame)
{
    const struct gk_json *json = frame->json;
    const char *log = gk_json_get_string(json, "log", ""), *text = gk_json_get_string(json, "text", "");
    const int64_t ptx = gk_json_get_int(json, "ptx", -1), cubin = gk_json_get_int(json, "cubin", -1);
    struct gk_code *code = code_new(GK_FAILURE_NONE, NULL);
    if (!code) {
        return NULL;
    }
    code->output.compiled = gk_json_get_bool(json, "compiled", false);
    code->output.log = gk_strdup(log);
    const char *status = gk_json_get_string(json, "status", "INTERNAL");
    if (strcmp(status, "OK") != 0) {
        code->failure = strcmp(status, "NOMEM") == 0 ? GK_FAILURE_COMPILE_MEMORY : GK_FAILURE_COMPILE_ERROR;
        code->message = gk_strdup(text);
    } else if (!code->output.compiled) {
        const bool memory = strstr(log, "out of memory") || strstr(log, "memory exhausted");
        code->failure = memory ? GK_FAILURE_COMPILE_MEMORY : GK_FAILURE_COMPILE_ERROR;
        code->message = gk_strdup(log);
    } else if (ptx < 0 || cubin < 0 || (uint64_t)ptx + (uint64_t)cubin != frame->payload_size) {
        code->failure = GK_FAILURE_COMPILE_CRASH;
        code->message = gk_strdup("the compile process sent sizes that do not fit its payload");
    } else {
        code->output.ptx = gk_strndup(frame->payload, (size_t)ptx);
        code->output.ptx_size = (size_t)ptx;
        code->output.cubin = malloc((size_t)cubin + 1);
        if (code->output.cubin) {
            memcpy(code->output.cubin, frame->payload + ptx, (size_t)cubin);
        }
        code->output.cubin_size = (size_t)cubin;
        if (!code->output.ptx || !code->output.cubin) {
            code->failure = GK_FAILURE_INFRA;
            code->message = gk_strdup("out of memory for code");
        }
    }
    return code;
}

static void on_frame(void *context, struct gk_child *child, const struct gk_pipe *frame)
{
    struct slot *slot = context;
    struct item *item = slot->item;
    const char *kind = gk_json_get_string(frame->json, "kind", "");
    if (strcmp(kind, "hello") == 0) {
        (void)snprintf(slot->pool->hello_error, sizeof slot->pool->hello_error, "%s",
                       gk_json_get_string(frame->json, "error", ""));
        return;
    }
    if (strcmp(kind, "compiled") != 0 || !item) {
        gk_child_kill(child); /* it says what nobody asked */
        return;
    }
    slot->item = NULL;
    (void)uv_timer_stop(&slot->deadline);
    struct gk_code *code = code_from(frame);
    if (code) {
        code->compile_ns = (double)(uv_hrtime() - item->started_ns);
        store(slot->pool, item, code);
    }
    struct gk_pool *pool = slot->pool;
    item_finish(item, code);
    pump(pool);
}

static void fail_item(struct slot *slot, struct item *item, int64_t exit_status, int signal, const char *why)
{
    char text[GK_ERR_TEXT_MAX + 256];
    enum gk_failure failure = GK_FAILURE_COMPILE_CRASH;
    if (slot->timed_out || signal == SIGXCPU) {
        failure = GK_FAILURE_COMPILE_TIMEOUT;
        (void)snprintf(text, sizeof text, "the compiler was stopped after %u s", item->deadline_s);
    } else if (slot->pool->hello_error[0]) {
        failure = GK_FAILURE_INFRA;
        (void)snprintf(text, sizeof text, "compile process: %s", slot->pool->hello_error);
    } else if (signal) {
        (void)snprintf(text, sizeof text, "the compile process died by signal %d, %u times", signal,
                       item->attempts);
    } else {
        (void)snprintf(text, sizeof text, "the compile process ended with status %" PRId64 " %s",
                       exit_status, why);
    }
    struct gk_code *code = code_new(failure, text);
    if (code) {
        code->compile_ns = (double)(uv_hrtime() - item->started_ns);
    }
    item_finish(item, code);
}

static void on_ended(void *context, struct gk_child *child, int64_t exit_status, int signal,
                     const char *why)
{
    struct slot *slot = context;
    struct item *item = slot->item;
    struct gk_pool *pool = slot->pool;
    (void)child;
    slot->child = NULL;
    slot->item = NULL;
    (void)uv_timer_stop(&slot->deadline);
    if (item) {
        /* a deadline is not tried again: it would take as long once more */
        if (item->attempts < ATTEMPTS_MAX && !slot->timed_out && signal != SIGXCPU) {
            item->next = pool->queue;
            pool->queue = item;
        } else {
            fail_item(slot, item, exit_status, signal, why);
        }
    }
    slot->timed_out = false;
    pump(pool);
}

static void on_deadline(uv_timer_t *timer)
{
    struct slot *slot = timer->data;
    slot->timed_out = true;
    if (slot->child) {
        gk_child_kill(slot->child);
    }
}

static enum gk_status start_item(struct slot *slot, struct item *item, struct gk_err *err)
{
    static const struct gk_child_events EVENTS = {on_frame, on_ended};
    enum gk_status status = GK_OK;
    if (!slot->child) {
        status = gk_child_spawn(slot->pool->loop, slot->pool->options.argv, &EVENTS, slot, &slot->child, err);
    }
    if (status == GK_OK) {
        status = gk_child_send(slot->child, item->request, NULL, 0, err);
    }
    if (status == GK_OK) {
        item->attempts++;
        item->started_ns = uv_hrtime();
        slot->item = item;
        slot->timed_out = false;
        (void)uv_timer_start(&slot->deadline, on_deadline, (uint64_t)item->deadline_s * 1000, 0);
    }
    return status;
}

/* Gives queued items to free processes. */
static void pump(struct gk_pool *pool)
{
    for (uint32_t i = 0; i < pool->options.processes && pool->queue && !pool->paused && !pool->destroyed; i++) {
        struct slot *slot = &pool->slots[i];
        struct gk_err err = {0};
        if (slot->item) {
            continue;
        }
        struct item *item = pool->queue;
        pool->queue = item->next;
        item->next = NULL;
        if (start_item(slot, item, &err) == GK_OK) {
            continue;
        }
        item->attempts++;
        if (item->attempts < ATTEMPTS_MAX + 1) { /* the process was ending: `ended` pumps again */
            item->next = pool->queue;
            pool->queue = item;
            if (slot->child) {
                gk_child_kill(slot->child);
                continue;
            }
        } else {
            item_finish(item, code_new(GK_FAILURE_INFRA, err.text));
        }
    }
}

/* ------------------------------------------------------------------ asking */

enum gk_status gk_pool_create(uv_loop_t *loop, const struct gk_pool_options *options,
                              struct gk_pool **pool_out, struct gk_err *err)
{
    struct gk_pool *pool = calloc(1, sizeof *pool);
    struct slot *slots = calloc(PROCESSES_MAX, sizeof *slots);
    if (!pool || !slots) {
        free(pool);
        free(slots);
        return gk_fail(err, GK_NOMEM, "out of memory for the compile pool");
    }
    pool->loop = loop;
    pool->options = *options;
    pool->slots = slots;
    if (pool->options.processes > PROCESSES_MAX) {
        pool->options.processes = PROCESSES_MAX;
    }
    for (uint32_t i = 0; i < pool->options.processes; i++) {
        slots[i].pool = pool;
        (void)uv_timer_init(loop, &slots[i].deadline);
        slots[i].deadline.data = &slots[i];
        pool->timers_open++;
    }
    *pool_out = pool;
    return GK_OK;
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct slot *slot = handle->data;
    struct gk_pool *pool = slot->pool;
    if (--pool->timers_open == 0) {
        free(pool->slots);
        free(pool);
    }
}

void gk_pool_destroy(struct gk_pool *pool)
{
    if (!pool) {
        return;
    }
    pool->destroyed = true;
    while (pool->queue) {
        struct item *item = pool->queue;
        pool->queue = item->next;
        item_free(item);
    }
    for (uint32_t i = 0; i < pool->options.processes; i++) {
        gk_child_abandon(pool->slots[i].child);
        item_free(pool->slots[i].item);
        pool->slots[i].item = NULL;
        uv_close((uv_handle_t *)&pool->slots[i].deadline, on_timer_closed);
    }
}

static struct item *find_item(struct gk_pool *pool, const struct gk_hash *key)
{
    for (uint32_t i = 0; i < pool->options.processes; i++) {
        if (pool->slots[i].item && gk_hash_equal(&pool->slots[i].item->key, key)) {
            return pool->slots[i].item;
        }
    }
    for (struct item *item = pool->queue; item; item = item->next) {
        if (gk_hash_equal(&item->key, key)) {
            return item;
        }
    }
    return NULL;
}

static struct gk_code *cached_code(struct gk_pool *pool, const struct gk_hash *key)
{
    struct gk_cache_entry entry = {0};
    if (!pool->options.cache || gk_cache_get(pool->options.cache, key, &entry, NULL) != GK_OK) {
        return NULL; /* a damaged entry is gone, and built again */
    }
    struct gk_code *code = code_new(GK_FAILURE_NONE, NULL);
    if (!code) {
        gk_cache_entry_fini(&entry);
        return NULL;
    }
    code->cached = true;
    code->output = (struct gk_compile_output){.compiled = true, .ptx = entry.ptx, .ptx_size = entry.ptx_size,
                                              .cubin = (unsigned char *)entry.cubin,
                                              .cubin_size = entry.cubin_size, .log = entry.log};
    return code;
}

enum gk_status gk_pool_want(struct gk_pool *pool, const struct gk_hash *key, struct gk_json *request,
                            uint32_t deadline_s, gk_pool_done_cb done, void *context, uint32_t tag,
                            struct gk_code **code_out, struct gk_err *err)
{
    struct item *item = find_item(pool, key), **tail = &pool->queue;
    *code_out = item ? NULL : cached_code(pool, key);
    if (*code_out) {
        gk_json_free(request);
        return GK_OK;
    }
    struct waiter *waiter = calloc(1, sizeof *waiter), **last;
    struct item *fresh = item ? NULL : calloc(1, sizeof *fresh);
    if (!waiter || !request || (!item && !fresh)) {
        free(waiter);
        free(fresh);
        gk_json_free(request);
        return gk_fail(err, GK_NOMEM, "out of memory for a compilation");
    }
    if (item) {
        gk_json_free(request);
    } else {
        item = fresh;
        item->key = *key;
        item->request = request;
        item->deadline_s = deadline_s ? deadline_s : 1;
        while (*tail) {
            tail = &(*tail)->next;
        }
        *tail = item;
    }
    waiter->done = done;
    waiter->context = context;
    waiter->tag = tag;
    for (last = &item->waiters; *last; last = &(*last)->next) {
    }
    *last = waiter;
    pump(pool);
    return GK_OK;
}

static void forget_in(struct item *item, const void *context)
{
    for (struct waiter **at = &item->waiters; *at;) {
        struct waiter *waiter = *at;
        if (waiter->context == context) {
            *at = waiter->next;
            free(waiter);
        } else {
            at = &waiter->next;
        }
    }
}

void gk_pool_forget(struct gk_pool *pool, const void *context)
{
    for (uint32_t i = 0; i < pool->options.processes; i++) {
        if (pool->slots[i].item) {
            forget_in(pool->slots[i].item, context); /* it goes on: the cache gains */
        }
    }
    for (struct item **at = &pool->queue; *at;) {
        struct item *item = *at;
        forget_in(item, context);
        if (!item->waiters) {
            *at = item->next;
            item_free(item);
        } else {
            at = &item->next;
        }
    }
}

void gk_pool_pause(struct gk_pool *pool, bool paused)
{
    pool->paused = paused;
    pump(pool);
}

uint32_t gk_pool_pids(const struct gk_pool *pool, int *pids_out, uint32_t max)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < pool->options.processes && count < max; i++) {
        if (pool->slots[i].child) {
            pids_out[count++] = gk_child_pid(pool->slots[i].child);
        }
    }
    return count;
}
