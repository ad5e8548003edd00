/* Queue, dispatch, the tick. */
#include <stdio.h>

#include "core/keys.h"
#include "daemon/core_internal.h"

bool peer_equal(const struct gk_peer *a, const struct gk_peer *b)
{
    return a->size == b->size && memcmp(a->bytes, b->bytes, a->size) == 0;
}

enum gk_status role_need(struct gk_core *core, const struct gk_peer *peer, uint8_t roles,
                         const char *what, struct gk_err *err)
{
    char needed[32] = "";
    if (peer->roles & roles) {
        return GK_OK;
    }
    for (unsigned role = 1; role < GK_ROLES_ALL; role <<= 1) {
        if (roles & role) {
            size_t size = strlen(needed);
            (void)snprintf(needed + size, sizeof needed - size, "%s%s", size ? " or " : "",
                           gk_role_name((uint8_t)role));
        }
    }
    core->counters.forbidden++;
    return gk_fail(err, GK_DENIED, "%s: key '%s' lacks the role %s", what, peer->key, needed);
}

bool is_store_failure(enum gk_status status)
{
    return status == GK_IO || status == GK_FULL || status == GK_CORRUPT || status == GK_NOMEM ||
           status == GK_INTERNAL || status == GK_BUSY;
}

/* ------------------------------------------------------------------ queue */

static bool queue_grow(struct gk_core *core)
{
    uint32_t capacity = core->queue_capacity ? core->queue_capacity * 2 : 64;
    struct out *queue = capacity <= QUEUE_MAX ? calloc(capacity, sizeof *queue) : NULL;
    if (!queue) {
        return false;
    }
    for (uint32_t i = 0; i < core->queue_count; i++) {
        queue[i] = core->queue[(core->queue_head + i) % core->queue_capacity];
    }
    free(core->queue);
    core->queue = queue;
    core->queue_head = 0;
    core->queue_capacity = capacity;
    return true;
}

/* NULL when it is full. */
static struct out *queue_push(struct gk_core *core, const struct gk_peer *peer,
                              enum gk_message_type type, uint64_t session, uint64_t token,
                              uint64_t reply_to)
{
    if (core->queue_count == core->queue_capacity && !queue_grow(core)) {
        core->counters.queue_dropped++;
        (void)core_notice(core, GK_EVENT_QUEUE_FULL, "%s was dropped: %" PRIu32 " messages wait",
                          gk_message_name(type), core->queue_count); /* nothing more is known */
        return NULL;
    }
    struct out *out = &core->queue[(core->queue_head + core->queue_count) % core->queue_capacity];
    *out = (struct out){.peer = *peer,
                        .message = {.type = type,
                                    .epoch = (uint64_t)core->epoch,
                                    .session = session,
                                    .seq = ++core->seq,
                                    .token = token,
                                    .reply_to = reply_to}};
    core->queue_count++;
    return out;
}

void core_send(struct gk_core *core, const struct gk_peer *peer, enum gk_message_type type,
               uint64_t session, uint64_t token, uint64_t reply_to, struct gk_json *body)
{
    struct out *out = body ? queue_push(core, peer, type, session, token, reply_to) : NULL;
    if (out) {
        out->message.body = body;
    } else {
        gk_json_free(body);
    }
}

void core_send_text(struct gk_core *core, const struct gk_peer *peer, enum gk_message_type type,
                    uint64_t session, uint64_t token, struct gk_buf *text)
{
    bool whole = gk_buf_status(text, NULL) == GK_OK;
    struct out *out = whole ? queue_push(core, peer, type, session, token, 0) : NULL;
    if (out) {
        out->text = *text;
        *text = (struct gk_buf){0};
    } else {
        gk_buf_fini(text);
    }
}

void core_send_session(struct gk_core *core, struct session *session, enum gk_message_type type,
                       uint64_t token, struct gk_json *body)
{
    core_send(core, &session->peer, type, session->id, token, 0, body);
}

/* The ERROR, and its line in the log. */
static void refuse(struct gk_core *core, const struct gk_peer *peer, uint64_t reply_to,
                   uint64_t token, enum gk_event event, const struct gk_err *why)
{
    struct gk_json *body = gk_json_new_object();
    core->counters.errors_sent++;
    count_refusal(core, why->status);
    struct session *session = session_of(core, peer);
    struct gk_notice *notice = core_notice(core, event, "%s", why->text);
    notice_name(notice, gk_status_name(why->status));
    notice_peer(notice, peer);
    notice->worker = session ? session->worker : 0;
    notice->token = (int64_t)token;
    if (!gk_json_set_string(body, "status", gk_status_name(why->status)) ||
        !gk_json_set_string(body, "text", why->text)) {
        gk_json_free(body);
        return;
    }
    core_send(core, peer, GK_MSG_ERROR, 0, token, reply_to, body);
}

void core_error(struct gk_core *core, const struct gk_peer *peer, uint64_t reply_to, uint64_t token,
                enum gk_status status, const char *format, ...)
{
    struct gk_err text = {0};
    va_list ap;
    va_start(ap, format);
    (void)gk_vfail(&text, status, format, ap); /* the box formats the text */
    va_end(ap);
    refuse(core, peer, reply_to, token, GK_EVENT_REFUSED, &text);
}

enum gk_status core_event(struct gk_core *core, int64_t job, const char *kind, struct gk_json *body,
                          struct gk_err *err)
{
    int64_t event = 0;
    if (!body && !(body = gk_json_new_object())) {
        return gk_fail(err, GK_NOMEM, "out of memory for an event");
    }
    enum gk_status status = gk_db_event_add(core->db, job, core->wall_ms, kind, body, &event, err);
    gk_json_free(body);
    core->new_events = true;
    return status;
}

enum gk_status core_event_text(struct gk_core *core, int64_t job, const char *kind,
                               const struct gk_buf *text, struct gk_err *err)
{
    int64_t event = 0;
    enum gk_status status = gk_buf_status(text, err);
    core->new_events = true;
    return status == GK_OK
               ? gk_db_event_put(core->db, job, core->wall_ms, kind, gk_buf_text(text), &event, err)
               : status;
}

static void queue_pop(struct gk_core *core, struct out *out)
{
    *out = core->queue[core->queue_head];
    core->queue[core->queue_head] = (struct out){0};
    core->queue_head = (core->queue_head + 1) % core->queue_capacity;
    core->queue_count--;
}

bool gk_core_take(struct gk_core *core, struct gk_peer *peer_out, struct gk_message *message_out)
{
    struct out out;
    while (core->queue_count > 0) {
        queue_pop(core, &out);
        bool good = true;
        if (!out.message.body) {
            /* Fails when out of memory alone: as with a full queue, it is dropped. */
            good = gk_json_parse(gk_buf_text(&out.text), out.text.size, "a queued message",
                                 &out.message.body, NULL) == GK_OK;
            gk_buf_fini(&out.text);
        }
        if (good) {
            *peer_out = out.peer;
            *message_out = out.message;
            return true;
        }
    }
    return false;
}

uint32_t gk_core_sessions(const struct gk_core *core)
{
    return core->session_count;
}

uint32_t gk_core_waiting(const struct gk_core *core)
{
    return core->queue_count;
}

bool gk_core_take_text(struct gk_core *core, struct gk_peer *peer_out,
                       struct gk_message *message_out, struct gk_buf *body)
{
    struct out out;
    while (core->queue_count > 0) {
        queue_pop(core, &out);
        gk_buf_reset(body);
        bool good = true;
        if (out.message.body) {
            good = gk_json_canonical(out.message.body, body, NULL) == GK_OK;
            gk_message_fini(&out.message);
        } else {
            gk_buf_fini(body);
            *body = out.text;
            good = gk_buf_status(body, NULL) == GK_OK;
        }
        if (good) {
            *peer_out = out.peer;
            *message_out = out.message;
            return true;
        }
    }
    return false;
}

/* ------------------------------------------------------------------ life */

enum gk_status gk_core_create(const struct gk_core_setup *setup, struct gk_core **core_out,
                              struct gk_err *err)
{
    struct gk_core *core = calloc(1, sizeof *core);
    if (!core) {
        return gk_fail(err, GK_NOMEM, "out of memory for the core");
    }
    core->db = setup->db;
    core->files = setup->files;
    core->keys = setup->keys;
    core->epoch = setup->epoch;
    core->pid = setup->pid;
    core->is_private = setup->is_private;
    core->now_ns = setup->now_ns;
    core->wall_ms = setup->wall_ms;
    core->settled_ns = setup->now_ns + GRACE_NS;
    core->counters = setup->counters ? *setup->counters : (struct gk_core_counters){0};
    (void)snprintf(core->version, sizeof core->version, "%s", setup->version ? setup->version : "");
    struct gk_json *meta = NULL;
    enum gk_status status = gk_db_meta(core->db, &meta, err);
    (void)snprintf(core->store_id, sizeof core->store_id, "%s",
                   gk_json_get_string(meta, "store_id", ""));
    gk_json_free(meta);
    status = status == GK_OK ? core_load(core, err) : status;
    if (status != GK_OK) {
        gk_core_destroy(core);
        return status;
    }
    *core_out = core;
    return GK_OK;
}

void gk_core_destroy(struct gk_core *core)
{
    if (!core) {
        return;
    }
    struct out out;
    while (core->queue_count > 0) {
        queue_pop(core, &out);
        gk_message_fini(&out.message);
        gk_buf_fini(&out.text);
    }
    for (uint32_t i = 0; i < core->session_count; i++) {
        for (uint32_t d = 0; d < core->sessions[i]->device_count; d++) {
            gk_json_free(core->sessions[i]->devices[d].json);
        }
        free(core->sessions[i]->devices);
        free(core->sessions[i]);
    }
    for (uint32_t i = 0; i < core->job_count; i++) {
        job_free(core, core->jobs[i]);
    }
    gk_table_fini(&core->sessions_by_id);
    gk_table_fini(&core->sessions_by_peer);
    gk_table_fini(&core->lease_places);
    gk_told_fini(&core->told);
    gk_buf_fini(&core->event_text);
    free(core->sessions);
    free(core->shares); /* empty: each went with its last job */
    free(core->jobs);
    care_free(core);
    free(core->fences);
    free(core->leases);
    free(core->queue);
    free(core);
}

/* ------------------------------------------------------------------ events */

enum gk_status gk_core_message(struct gk_core *core, const struct gk_peer *peer,
                               const struct gk_message *message, uint64_t now_ns, uint64_t wall_ms,
                               struct gk_err *err)
{
    core->now_ns = now_ns;
    core->wall_ms = wall_ms;
    core->counters.messages++;
    if (key_is_suspended(core, peer)) {
        core_error(core, peer, message->seq, message->token, GK_DENIED,
                   "key '%s' is suspended after repeated errors from this host", peer->key);
        return GK_OK;
    }
    if (core->disk == GK_CORE_DISK_FULL) {
        return full_message(core, peer, message, err);
    }
    if (message->type == GK_MSG_REQUEST) {
        return request_message(core, peer, message, err);
    }
    struct gk_err why = {0};
    const char *name = gk_message_name(message->type);
    if (role_need(core, peer, GK_ROLE_WORK, name ? name : "this message", &why) != GK_OK) {
        if (message->type == GK_MSG_HELLO) { /* it has the wrong key, and would ask for ever */
            session_reject(core, peer, GK_DENIED, why.text, 0);
        } else {
            core_error(core, peer, message->seq, message->token, GK_DENIED, "%s", why.text);
        }
        return key_erred(core, peer, why.text, err);
    }
    return session_message(core, peer, message, err);
}

enum gk_status gk_core_message_text(struct gk_core *core, const struct gk_peer *peer,
                                    const struct gk_message *message, const char *body, size_t size,
                                    uint64_t now_ns, uint64_t wall_ms, struct gk_err *err)
{
    enum gk_status status = GK_OK;
    core->now_ns = now_ns;
    core->wall_ms = wall_ms;
    bool is_ready = message->type == GK_MSG_READY;
    bool may = (message->type == GK_MSG_RESULT || is_ready) && core->disk != GK_CORE_DISK_FULL &&
               !key_is_suspended(core, peer);
    struct session *session = may ? session_hears(core, peer, message) : NULL;
    if (session) {
        session->seq_seen = message->seq; /* before: the session may end with its result */
        if (is_ready ? session_ready_text(session, body, size)
                     : lease_result_text(core, session, message, body, size, &status, err)) {
            core->counters.messages++;
            return status;
        }
        session->seq_seen = message->seq - 1; /* the other way takes it */
    }
    struct gk_message parsed = *message;
    struct gk_err why = {0};
    status = gk_wire_parse_body(&parsed, body, size, &why);
    if (status == GK_NOMEM) {
        return gk_fail(err, status, "%s", why.text);
    }
    if (status != GK_OK) {
        return gk_core_malformed(core, peer, &why, now_ns, err);
    }
    status = gk_core_message(core, peer, &parsed, now_ns, wall_ms, err);
    gk_message_fini(&parsed);
    return status;
}

enum gk_status gk_core_malformed(struct gk_core *core, const struct gk_peer *peer,
                                 const struct gk_err *why, uint64_t now_ns, struct gk_err *err)
{
    core->now_ns = now_ns;
    core->counters.malformed++;
    if (key_is_suspended(core, peer)) {
        return GK_OK; /* it was told; answering all that it sends would be work for nothing */
    }
    refuse(core, peer, 0, 0, GK_EVENT_MALFORMED, why);
    return why->status == GK_VERSION ? GK_OK : key_erred(core, peer, why->text, err);
}

enum gk_status gk_core_peer_gone(struct gk_core *core, const struct gk_peer *peer, uint64_t now_ns,
                                 struct gk_err *err)
{
    core->now_ns = now_ns;
    if (core->disk == GK_CORE_DISK_FULL) {
        return GK_OK; /* its lease is looked after when there is room again */
    }
    for (uint32_t i = 0; i < core->watcher_count; i++) {
        if (peer_equal(&core->watchers[i].peer, peer)) {
            core->watchers[i].stale = true;
        }
    }
    struct session *session = session_of(core, peer);
    return session ? session_end(core, session, "it cannot be reached", err) : GK_OK;
}

/* Work that needs no free worker: bind, tell, ask, judge, end. Bounded a tick by the open tasks. */
static enum gk_status jobs_step(struct gk_core *core, struct gk_err *err)
{
    for (uint32_t i = 0; i < core->job_count;) {
        struct job *job = core->jobs[i];
        enum gk_status status = until_step(core, job, err);
        for (uint32_t t = 0; status == GK_OK && job_runs(core, job) && t < job->task_count; t++) {
            if (job->tasks[t].search || job->finishing) {
                status = task_step(core, &job->tasks[t], err);
            }
        }
        if (status == GK_OK) {
            status = job_step(core, job, err);
        }
        if (status != GK_OK) {
            return status;
        }
        i += i < core->job_count && core->jobs[i] == job; /* an ended job is gone from the list */
    }
    return GK_OK;
}

/* Who seems silent may have spoken: first the sockets are drained. A flood that never ends does not
 * keep everybody alive for ever. */
static bool may_expire(const struct gk_core *core)
{
    return core->backlog_ns == 0 || core->now_ns - core->backlog_ns > BACKLOG_NS;
}

enum gk_status gk_core_tick(struct gk_core *core, uint64_t now_ns, uint64_t wall_ms,
                            uint64_t *next_ns_out, struct gk_err *err)
{
    core->now_ns = now_ns;
    core->wall_ms = wall_ms;
    core->tick++;
    if (core->disk == GK_CORE_DISK_FULL) {
        *next_ns_out = now_ns + SECOND_NS;
        return GK_OK; /* nothing expires: a new core gives every lease its grace */
    }
    ages_step(core);
    enum gk_status status = GK_OK;
    if (may_expire(core)) {
        status = sessions_step(core, err);
        status = status == GK_OK ? leases_step(core, err) : status;
    }
    if (status == GK_OK) {
        status = spreads_step(core, err);
    }
    if (status == GK_OK) {
        status = jobs_step(core, err);
    }
    if (status == GK_OK) {
        status = leases_grant(core, err);
    }
    if (status == GK_OK) {
        status = jobs_step(core, err); /* what was opened may be done already, by reuse */
    }
    if (status == GK_OK) {
        status = watchers_step(core, err);
    }
    uint64_t next = now_ns + SECOND_NS;
    for (uint32_t i = 0; i < core->lease_count; i++) {
        if (core->leases[i].deadline_ns < next) {
            next = core->leases[i].deadline_ns;
        }
    }
    *next_ns_out = next;
    return status;
}

void gk_core_set_backlog(struct gk_core *core, bool more)
{
    core->backlog_ns = !more ? 0 : core->backlog_ns ? core->backlog_ns : core->now_ns;
}

void gk_core_abandon(struct gk_core *core, enum gk_status status, const char *text)
{
    struct gk_peer peer;
    struct gk_message message;
    while (gk_core_take(core, &peer, &message)) {
        gk_message_fini(&message);
    }
    care_abandon(core, status, text);
}

void gk_core_say_bye(struct gk_core *core)
{
    care_abandon(core, GK_CLOSED, "the daemon ends before it is done; ask again");
    for (uint32_t i = 0; i < core->session_count; i++) {
        struct gk_json *body = gk_json_new_object();
        if (gk_json_set_string(body, "reason", "the daemon ends")) {
            core_send_session(core, core->sessions[i], GK_MSG_BYE, 0, body);
        } else {
            gk_json_free(body);
        }
    }
}

void gk_core_set_disk(struct gk_core *core, enum gk_core_disk disk, uint64_t free_bytes,
                      uint64_t resume_bytes)
{
    core->disk = disk;
    core->free_bytes = free_bytes;
    core->resume_bytes = resume_bytes;
}

bool gk_core_wants_stop(const struct gk_core *core)
{
    return core->stopping;
}
