/* Workers: HELLO and what they hold, READY, heartbeats, BYE. */
#include <stdio.h>

#include "core/json_view.h"
#include "daemon/core_internal.h"

#define HELLO_TEXT_MAX  255  /* a host name has 253 */
#define DEVICE_JSON_MAX 4096 /* of one device, some 700 of an honest worker */

struct session *session_find(struct gk_core *core, uint64_t id)
{
    return id != 0 ? gk_table_get(&core->sessions_by_id, id) : NULL;
}

/* FNV-1a of the routing id. */
static uint64_t peer_key(const struct gk_peer *peer)
{
    uint64_t key = 14695981039346656037u;
    for (uint8_t i = 0; i < peer->size && i < GK_PEER_ID_MAX; i++) {
        key = (key ^ peer->bytes[i]) * 1099511628211u;
    }
    return key;
}

struct session *session_of(struct gk_core *core, const struct gk_peer *peer)
{
    struct session *session = gk_table_get(&core->sessions_by_peer, peer_key(peer));
    if (!session || peer_equal(&session->peer, peer)) {
        return session;
    }
    for (uint32_t i = 0; i < core->session_count; i++) { /* two peers of one hash */
        if (peer_equal(&core->sessions[i]->peer, peer)) {
            return core->sessions[i];
        }
    }
    return NULL;
}

struct session *session_hears(struct gk_core *core, const struct gk_peer *peer,
                              const struct gk_message *message)
{
    struct session *session = (peer->roles & GK_ROLE_WORK) ? session_of(core, peer) : NULL;
    if (!session || session->id != message->session || message->seq != session->seq_seen + 1) {
        return NULL;
    }
    session->heard_ns = core->now_ns;
    return session;
}

static void tables_forget(struct gk_core *core, const struct session *session)
{
    uint64_t key = peer_key(&session->peer);
    (void)gk_table_remove(&core->sessions_by_id, session->id);
    if (gk_table_get(&core->sessions_by_peer, key) != session) {
        return;
    }
    (void)gk_table_remove(&core->sessions_by_peer, key);
    for (uint32_t i = 0; i < core->session_count; i++) { /* of one hash: its turn now */
        struct session *other = core->sessions[i];
        if (other != session && peer_key(&other->peer) == key) {
            (void)gk_table_put(&core->sessions_by_peer, key, other); /* a slot has become free */
        }
    }
}

static bool tables_add(struct gk_core *core, struct session *session)
{
    return gk_table_put(&core->sessions_by_id, session->id, session) &&
           gk_table_put(&core->sessions_by_peer, peer_key(&session->peer), session);
}

/* why NULL: it said BYE. */
enum gk_status session_end(struct gk_core *core, struct session *session, const char *why,
                           struct gk_err *err)
{
    bool said_bye = !why;
    struct gk_notice *notice = core_notice(core, why ? GK_EVENT_WORKER_LOST : GK_EVENT_WORKER_WENT,
                                           "%s", why ? why : "it said BYE");
    notice->worker = session->worker;
    notice_name(notice, session->host);
    notice_peer(notice, &session->peer);
    for (uint32_t i = 0; i < core->lease_count; i++) {
        notice->count += core->leases[i].session == session->id;
    }
    core->counters.workers_lost += !said_bye;
    enum gk_status status = gk_db_worker_seen(core->db, session->worker, core->wall_ms,
                                              said_bye ? "gone" : "lost", err);
    core->settled_ns = core->now_ns + GRACE_NS;
    for (uint32_t i = core->lease_count; status == GK_OK && i-- > 0;) {
        struct lease *lease = &core->leases[i];
        /* A lease that is lost may end its task, and with it leases behind this place. */
        if (i >= core->lease_count || lease->session != session->id) {
            continue;
        }
        lease->session = 0;
        if (said_bye) {
            status = lease_lost(core, lease, false, "the worker ended", err);
        } else if (lease->deadline_ns > core->now_ns + GRACE_NS) {
            lease->deadline_ns =
                core->now_ns + GRACE_NS; /* it may come back and say that it holds it */
        }
    }
    reservations_drop(core, session->id, UINT32_MAX);
    tables_forget(core, session);
    for (uint32_t i = 0; i < core->session_count; i++) {
        if (core->sessions[i] == session) {
            core->sessions[i] = core->sessions[--core->session_count];
            break;
        }
    }
    for (uint32_t d = 0; d < session->device_count; d++) {
        gk_json_free(session->devices[d].json);
    }
    free(session->devices);
    free(session);
    return status;
}

/* ------------------------------------------------------------------ HELLO */

/* Names of a device become names of results, files of exports and rows of listings. A model that
 * said of itself that it is a GPU would have its times believed. */
static enum gk_status check_device(const struct gk_json *json, const struct gk_device_props *props,
                                   struct gk_err *err)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    const char *const names[] = {props->arch, props->target, props->gpu};
    for (size_t i = 0; i < GK_ARRAY_COUNT(names); i++) {
        if (names[i][strspn(names[i], letters)] != '\0') {
            return gk_fail(err, GK_INPUT,
                           "device: '%s' is no name: letters, digits, '.', '_' and '-' are allowed",
                           names[i]);
        }
    }
    const char *dash = strrchr(props->arch, '-');
    if (strcmp(dash ? dash + 1 : props->arch, props->target) != 0 ||
        (dash != NULL) != props->modelled) {
        return gk_fail(err, GK_INPUT,
                       "device: arch '%s' of target '%s' whose times are %s: a GPU's arch is its "
                       "target, a model's has emu- or mock- before it",
                       props->arch, props->target, props->modelled ? "modelled" : "measured");
    }
    struct gk_buf text = {0};
    enum gk_status status = gk_json_canonical(json, &text, err);
    if (status == GK_OK && text.size > DEVICE_JSON_MAX) {
        status = gk_fail(err, GK_LIMIT, "device: %zu bytes, at most %d are allowed", text.size,
                         DEVICE_JSON_MAX);
    }
    gk_buf_fini(&text);
    return status;
}

static enum gk_status read_devices(struct gk_core *core, struct session *session,
                                   const struct gk_json *hello, struct gk_err *err)
{
    const struct gk_json *devices;
    enum gk_status status = gk_json_need(hello, "devices", GK_JSON_ARRAY, &devices, "HELLO", err);
    if (status != GK_OK) {
        return status;
    }
    if (gk_json_count(devices) > DEVICES_MAX) {
        return gk_fail(err, GK_LIMIT, "HELLO: %zu devices, at most %d are served",
                       gk_json_count(devices), DEVICES_MAX);
    }
    (void)core;
    session->devices = calloc(gk_json_count(devices) + 1, sizeof *session->devices);
    if (!session->devices) {
        return gk_fail(err, GK_NOMEM, "out of memory for devices");
    }
    for (size_t i = 0; i < gk_json_count(devices); i++) {
        status = gk_device_props_from_json(gk_json_at(devices, i), &session->devices[i].props, err);
        if (status == GK_OK) {
            status = check_device(gk_json_at(devices, i), &session->devices[i].props, err);
        }
        if (status != GK_OK) {
            return gk_fail_in(err, status, "HELLO: device %zu", i);
        }
        session->devices[i].json = gk_json_copy(gk_json_at(devices, i));
        session->devices[i].ok = true;
        session->device_count = (uint32_t)i + 1;
    }
    return GK_OK;
}

/* Whether the worker still has, in the same place, the device that the lease is for: one that was
 * started again with other devices may hold leases of those that it had. A lease of an old store
 * does not say which it was. */
static bool has_its_device(const struct session *session, const struct lease *lease)
{
    return lease->device < session->device_count &&
           (lease->device_key[0] == '\0' ||
            strcmp(session->devices[lease->device].key, lease->device_key) == 0);
}

/* Every token that the worker holds is kept or dropped; every lease of it that it does not hold is
 * over. */
static enum gk_status settle_held(struct gk_core *core, struct session *session,
                                  const struct gk_json *held, struct gk_json *keep,
                                  struct gk_json *drop, struct gk_err *err)
{
    for (size_t i = 0; i < gk_json_count(held); i++) {
        int64_t token = gk_json_get_int(gk_json_at(held, i), "token", 0);
        struct lease *lease = token > 0 ? lease_find(core, token) : NULL;
        bool keeps = lease && lease->worker == session->worker && has_its_device(session, lease);
        if (!gk_json_push(keeps ? keep : drop, gk_json_new_int(token))) {
            return gk_fail(err, GK_NOMEM, "out of memory");
        }
        if (keeps) {
            lease->session = session->id;
            /* Queued at the worker: as long as it lives. Begun: it may need what a STARTED one has.
             */
            bool queued =
                strcmp(gk_json_get_string(gk_json_at(held, i), "state", ""), "queued") == 0;
            lease->started = !queued;
            lease->deadline_ns =
                queued ? UINT64_MAX : core->now_ns + 2 * RUN_MODELLED_S * SECOND_NS;
            session->devices[lease->device].leases++;
            session->devices[lease->device].in_final |= lease->is_final;
        }
    }
    for (uint32_t i = core->lease_count; i-- > 0;) {
        struct lease *lease = &core->leases[i];
        if (i < core->lease_count && /* as in session_end */
            lease->worker == session->worker && lease->session != session->id) {
            lease->session = 0;
            enum gk_status status =
                lease_lost(core, lease, lease->started, "the worker came back without it", err);
            if (status != GK_OK) {
                return status;
            }
        }
    }
    return GK_OK;
}

void session_reject(struct gk_core *core, const struct gk_peer *peer, enum gk_status status,
                    const char *text, int64_t retry_after_ms)
{
    struct gk_json *body = gk_json_new_object();
    core->counters.workers_rejected++;
    struct gk_notice *notice = core_notice(core, GK_EVENT_WORKER_REJECTED, "%s", text);
    notice_name(notice, gk_status_name(status));
    notice_peer(notice, peer);
    if (gk_json_set_string(body, "code", gk_status_name(status)) &&
        gk_json_set_string(body, "text", text) &&
        gk_json_set_int(body, "retry_after_ms", retry_after_ms)) {
        core_send(core, peer, GK_MSG_REJECT, 0, 0, 0, body);
    } else {
        gk_json_free(body);
    }
}

enum gk_status sessions_end_of(struct gk_core *core, const struct gk_peer *peer, int64_t retry_ms,
                               const char *text, struct gk_err *err)
{
    for (uint32_t i = 0; i < core->session_count;) {
        struct session *session = core->sessions[i];
        if (strcmp(session->peer.key, peer->key) != 0 ||
            strcmp(session->peer.host, peer->host) != 0) {
            i++;
            continue;
        }
        session_reject(core, &session->peer, GK_DENIED, text, retry_ms);
        enum gk_status status = session_end(core, session, text, err);
        if (status != GK_OK) {
            return status;
        }
    }
    return GK_OK;
}

/* ------------------------------------------------------------------ who it is */

/* Longer than whoever is in the way can be silent without being given up. */
#define SILENT_RETRY_MS (HEARTBEAT_MS * (LIVENESS + 1))

/* A single key is one host's. Where it is from is what the connection says; what host and boot it
 * claims tells two of them behind one address apart. */
static bool is_elsewhere(const struct session *a, const struct session *b)
{
    return strcmp(a->peer.host, b->peer.host) != 0 || strcmp(a->host, b->host) != 0 ||
           strcmp(a->boot, b->boot) != 0;
}

/* A GPU has one worker at a time: two would time each other's kernels, and the store would believe
 * both. The lock beside the device (worker/cuda/gpu_lock.h) ends at the border of a network
 * namespace; this does not. `worker` is the one that asks, 0 when it is new: only its spool makes
 * it the same one coming back. Boot id and pid do not: two containers of a host may both be pid 7.
 * So one that lost its spool waits until its former session has been silent for too long. */
static const struct session *holder_of(const struct gk_core *core, int64_t worker, const char *uuid)
{
    for (uint32_t i = 0; uuid[0] && i < core->session_count; i++) {
        const struct session *other = core->sessions[i];
        for (uint32_t d = 0; other->worker != worker && d < other->device_count; d++) {
            if (strcmp(other->devices[d].props.uuid, uuid) == 0) {
                return other;
            }
        }
    }
    return NULL;
}

static enum gk_status check_gpus(const struct gk_core *core, const struct session *session,
                                 int64_t worker, int64_t *retry_ms, struct gk_err *err)
{
    for (uint32_t d = 0; d < session->device_count; d++) {
        const char *uuid = session->devices[d].props.uuid;
        const struct session *other = holder_of(core, worker, uuid);
        if (other) {
            *retry_ms = SILENT_RETRY_MS;
            return gk_fail(err, GK_DENIED,
                           "device %s (%s) is worker %" PRId64
                           "'s on host '%s', which lives: a GPU has one worker at a time. End "
                           "one of the two",
                           session->devices[d].props.device, uuid, other->worker, other->host);
        }
    }
    return GK_OK;
}

/* Whether this worker may have a session now. A spool belongs to the key that first came with it:
 * who has another key cannot take over its leases by knowing its id. */
static enum gk_status admit(struct gk_core *core, const struct session *session, const char *spool,
                            int64_t *retry_ms, struct gk_err *err)
{
    struct gk_json *row = NULL;
    const struct gk_peer *peer = &session->peer;
    enum gk_status status = gk_db_worker_get(core->db, spool, &row, err);
    if (status != GK_OK && status != GK_NOT_FOUND) {
        return status;
    }
    int64_t worker = gk_json_get_int(row, "worker", 0);
    char owner[GK_KEY_NAME_MAX];
    (void)snprintf(owner, sizeof owner, "%s", gk_json_get_string(row, "key", ""));
    gk_json_free(row);
    if (worker != 0 && strcmp(owner, peer->key) != 0) {
        return gk_fail(err, GK_DENIED,
                       "this spool was another key's ('%s'); use a spool folder of your own",
                       owner);
    }
    for (uint32_t i = 0; peer->key[0] && !peer->is_pool && i < core->session_count; i++) {
        const struct session *other = core->sessions[i];
        bool itself = other->worker == worker && strcmp(other->host, session->host) == 0 &&
                      strcmp(other->boot, session->boot) == 0; /* with another address now */
        if (!itself && strcmp(other->peer.key, peer->key) == 0 && is_elsewhere(other, session)) {
            *retry_ms = SILENT_RETRY_MS;
            return gk_fail(err, GK_DENIED,
                           "key '%s' is in use on host %s (%s): a single key is one host's. Give "
                           "each host a key, or make one with --pool",
                           peer->key, other->host, other->peer.host);
        }
    }
    return check_gpus(core, session, worker, retry_ms, err);
}

/* GK_OK: `session` is filled. Anything else is the worker's mistake. */
static enum gk_status read_hello(struct gk_core *core, const struct gk_json *hello,
                                 struct session *session, struct gk_err *err)
{
    int64_t low, high;
    const char *spool;
    enum gk_status status = gk_json_need_int(hello, "version_min", 0, 65535, &low, "HELLO", err);
    if (status == GK_OK) {
        status = gk_json_need_int(hello, "version_max", 0, 65535, &high, "HELLO", err);
    }
    if (status == GK_OK && (low > GK_WIRE_VERSION || high < GK_WIRE_VERSION_MIN)) {
        status = gk_fail(err, GK_VERSION,
                         "the worker speaks protocol %" PRId64 " to %" PRId64
                         ", this daemon %d to %d: upgrade the %s",
                         low, high, GK_WIRE_VERSION_MIN, GK_WIRE_VERSION,
                         low > GK_WIRE_VERSION ? "daemon" : "worker");
    }
    if (status == GK_OK) {
        status = gk_json_need_string(hello, "spool_id", 128, &spool, "HELLO", err);
    }
    if (status == GK_OK && spool[0] == '\0') {
        status = gk_fail(err, GK_INPUT, "HELLO: \"spool_id\" is empty");
    }
    /* What stands in listings. */
    static const char *const texts[] = {"host", "boot_id", "build", "nvrtc", "job"};
    for (size_t i = 0; status == GK_OK && i < GK_ARRAY_COUNT(texts); i++) {
        const char *text;
        if (gk_json_get(hello, texts[i])) {
            status = gk_json_need_string(hello, texts[i], HELLO_TEXT_MAX, &text, "HELLO", err);
        }
    }
    if (status == GK_OK) {
        (void)snprintf(session->nvrtc, sizeof session->nvrtc, "%s",
                       gk_json_get_string(hello, "nvrtc", ""));
        session->keeps_bundle = gk_json_get_bool(hello, "keeps_bundle", false);
        (void)snprintf(session->host, sizeof session->host, "%s",
                       gk_json_get_string(hello, "host", ""));
        (void)snprintf(session->boot, sizeof session->boot, "%s",
                       gk_json_get_string(hello, "boot_id", ""));
        status = read_devices(core, session, hello, err);
    }
    return status;
}

/* Devices that the worker may test, so that a fence that only a failure raised is lifted again. */
static bool set_fenced(const struct gk_core *core, struct gk_json *body,
                       const struct session *session)
{
    struct gk_json *list = gk_json_new_array();
    bool ok = list != NULL, any = false;
    for (uint32_t d = 0; ok && d < session->device_count; d++) {
        const struct fence *fence = fence_find(core, session->devices[d].key);
        if (!fence) {
            continue;
        }
        struct gk_json *item = gk_json_new_object();
        any = true;
        ok = gk_json_set_int(item, "device", d) &&
             gk_json_set_string(item, "origin", fence->origin) &&
             gk_json_set_string(item, "cause", fence->cause);
        ok = gk_json_push(list, item) && ok;
    }
    if (!any) {
        gk_json_free(list);
        return ok;
    }
    return gk_json_set(body, "fenced", list) && ok;
}

static enum gk_status welcome(struct gk_core *core, struct session *session,
                              const struct gk_json *hello, struct gk_err *err)
{
    struct gk_json *body = gk_json_new_object(), *keep = gk_json_new_array(),
                   *drop = gk_json_new_array();
    enum gk_status status =
        gk_db_worker_put(core->db, hello, session->peer.key, core->wall_ms, &session->worker, err);
    for (uint32_t d = 0; status == GK_OK && d < session->device_count; d++) {
        status = gk_db_device_put(core->db, session->worker, session->devices[d].json,
                                  session->nvrtc, core->wall_ms, err);
    }
    /* The same spool again: what the daemon knew of it is history (a lost connection, a fast
     * restart). */
    for (uint32_t i = 0; status == GK_OK && i < core->session_count; i++) {
        if (core->sessions[i]->worker == session->worker && core->sessions[i] != session) {
            status = session_end(core, core->sessions[i], "it came back", err);
            i = UINT32_MAX; /* from the start: the list has changed */
        }
    }
    if (status == GK_OK) {
        status = session_mark(core, session, err);
    }
    if (status == GK_OK) {
        status = settle_held(core, session, gk_json_get(hello, "held"), keep, drop, err);
    }
    bool ok = gk_json_set(body, "keep", keep);
    ok = gk_json_set(body, "drop", drop) && ok &&
         gk_json_set_int(body, "heartbeat_ms", HEARTBEAT_MS) &&
         gk_json_set_string(body, "store_id", core->store_id) &&
         gk_json_set_int(body, "liveness", LIVENESS) && set_fenced(core, body, session);
    if (status != GK_OK || !ok) {
        gk_json_free(body);
        return status != GK_OK ? status : gk_fail(err, GK_NOMEM, "out of memory");
    }
    struct gk_notice *notice =
        core_notice(core, GK_EVENT_WORKER_CAME, "%" PRIu32 " devices, %zu leases kept, %zu dropped",
                    session->device_count, gk_json_count(keep), gk_json_count(drop));
    notice_name(notice, gk_json_get_string(hello, "host", ""));
    notice_peer(notice, &session->peer);
    notice->worker = session->worker;
    notice->count = session->device_count;
    core->counters.workers_came++;
    core_send_session(core, session, GK_MSG_WELCOME, 0, body);
    for (uint32_t i = 0; status == GK_OK && i < core->job_count; i++) {
        status = job_bind(core, core->jobs[i], err);
    }
    return status;
}

static enum gk_status hello_message(struct gk_core *core, const struct gk_peer *peer,
                                    const struct gk_message *message, struct gk_err *err)
{
    struct session *old = session_of(core, peer);
    enum gk_status status = old ? session_end(core, old, "it said HELLO again", err) : GK_OK;
    if (status != GK_OK) {
        return status;
    }
    struct session *session = calloc(1, sizeof *session);
    struct session **sessions =
        realloc(core->sessions, (core->session_count + 1) * sizeof *sessions);
    if (sessions) {
        core->sessions = sessions;
    }
    if (!session || !sessions) {
        free(session ? session->devices : NULL);
        free(session);
        return gk_fail(err, GK_NOMEM, "out of memory for a session");
    }
    struct gk_err why = {0};
    int64_t retry_ms = 0;
    session->peer = *peer;
    status = read_hello(core, message->body, session, &why);
    if (status == GK_VERSION &&
        gk_json_get_int(message->body, "version_min", 0) > GK_WIRE_VERSION) {
        retry_ms = RETRY_NEWER_MS; /* daemons are upgraded first: this one may be about to be */
    }
    if (status == GK_OK && core->session_count >= SESSIONS_MAX) {
        retry_ms = RETRY_MANY_MS;
        status =
            gk_fail(&why, GK_LIMIT, "%d workers are connected, no more are served", SESSIONS_MAX);
    }
    if (status == GK_OK) {
        status = admit(core, session, gk_json_get_string(message->body, "spool_id", ""), &retry_ms,
                       &why);
    }
    if (status != GK_OK) {
        for (uint32_t d = 0; d < session->device_count; d++) {
            gk_json_free(session->devices[d].json);
        }
        free(session ? session->devices : NULL);
        free(session);
        if (is_store_failure(status)) {
            return gk_fail(err, status, "%s", why.text);
        }
        session_reject(core, peer, status, why.text, retry_ms);
        return status == GK_VERSION || retry_ms ? GK_OK : key_erred(core, peer, why.text, err);
    }
    session->id = (uint64_t)core->epoch << 24 | ++core->counters.sessions_begun;
    session->heard_ns = core->now_ns;
    session->seq_seen = message->seq;
    core->sessions[core->session_count++] = session;
    if (!tables_add(core, session)) {
        return gk_fail(err, GK_NOMEM, "out of memory for a session");
    }
    return welcome(core, session, message->body, err);
}

/* ------------------------------------------------------------------ others */

static enum gk_status ready_message(struct gk_core *core, struct session *session,
                                    const struct gk_message *message)
{
    struct gk_err why = {0};
    int64_t device, credit;
    enum gk_status status = gk_json_need_int(
        message->body, "device", 0, (int64_t)session->device_count - 1, &device, "READY", &why);
    if (status == GK_OK) {
        status = gk_json_need_int(message->body, "credit", 0, CREDIT_MAX, &credit, "READY", &why);
    }
    if (status != GK_OK) {
        core_error(core, &session->peer, message->seq, 0, status, "%s", why.text);
        return GK_OK;
    }
    session->devices[device].credit = credit;
    session->quiet = false;
    return GK_OK;
}

/* Every RESULT brings one. */
bool session_ready_text(struct session *session, const char *body, size_t size)
{
    struct gk_view_value values[8];
    struct gk_view view = {.values = values, .capacity = GK_ARRAY_COUNT(values)};
    if (!gk_view_parse(&view, body, size)) {
        return false;
    }
    const struct gk_view_value *credit = gk_view_get(&view, values, "credit"),
                               *device = gk_view_get(&view, values, "device");
    if (!credit || credit->type != GK_JSON_INT || !device || device->type != GK_JSON_INT ||
        credit->integer < 0 || credit->integer > CREDIT_MAX || device->integer < 0 ||
        device->integer >= (int64_t)session->device_count) {
        return false;
    }
    session->devices[device->integer].credit = credit->integer;
    session->quiet = false;
    return true;
}

static enum gk_status release_message(struct gk_core *core, struct session *session,
                                      const struct gk_message *message, struct gk_err *err)
{
    const struct gk_json *tokens = gk_json_get(message->body, "tokens");
    const char *reason = gk_json_get_string(message->body, "reason", "released");
    enum gk_status status = GK_OK;
    for (size_t i = 0; status == GK_OK && i < gk_json_count(tokens); i++) {
        struct lease *lease = lease_find(core, gk_json_int(gk_json_at(tokens, i), 0));
        if (lease && lease->worker != session->worker) {
            core->counters.not_owner++;
            return key_erred(core, &session->peer, "RELEASE of another's lease", err);
        }
        if (lease && lease->session == session->id) {
            status = lease_lost(core, lease, false, reason, err);
        }
    }
    return status;
}

static enum gk_status started_message(struct gk_core *core, struct session *session,
                                      const struct gk_message *message, struct gk_err *err)
{
    struct lease *lease = lease_find(core, (int64_t)message->token);
    if (lease && lease->worker != session->worker) {
        core->counters.not_owner++;
        return key_erred(core, &session->peer, "STARTED of another's lease", err);
    }
    if (!lease || lease->session != session->id) {
        return GK_OK; /* late: the answer to its result will say so */
    }
    bool run = strcmp(gk_json_get_string(message->body, "phase", ""), "run") == 0;
    bool modelled = session->devices[lease->device].props.modelled;
    uint64_t run_s = modelled ? RUN_MODELLED_S : RUN_S;
    enum gk_status status = GK_OK;
    if (!lease->started) { /* a restart must know that it was the config's turn */
        lease->started = true;
        status = gk_db_lease_started(core->db, lease->token, err);
    }
    if (!run && !lease->is_final) {
        return status; /* it may wait for a compile slot and the device: queueing never times out */
    }
    /* Twice what the worker enforces itself: this is for a worker that hangs. */
    uint64_t seconds = lease->is_final ? 2 * (FINAL_BUDGET_S + run_s + COMPILE_S) : 2 * run_s;
    lease->deadline_ns = core->now_ns + seconds * SECOND_NS;
    return status;
}

static enum gk_status blob_message(struct gk_core *core, struct session *session,
                                   const struct gk_message *message, struct gk_err *err);

enum gk_status session_message(struct gk_core *core, const struct gk_peer *peer,
                               const struct gk_message *message, struct gk_err *err)
{
    if (message->type == GK_MSG_HELLO) {
        return hello_message(core, peer, message, err);
    }
    struct session *session = session_of(core, peer);
    if (!session || session->id != message->session) {
        core_error(core, peer, message->seq, message->token, GK_STALE,
                   "%s of session %" PRIu64 ": no such session; say HELLO",
                   gk_message_name(message->type), message->session);
        return GK_OK;
    }
    session->heard_ns = core->now_ns;
    if (message->seq <= session->seq_seen) {
        core->counters.replayed++; /* it was here before: a copy of the same bytes */
        return GK_OK;
    }
    if (message->seq != session->seq_seen + 1) {
        core->counters.gaps++;
        core_error(core, peer, message->seq, message->token, GK_STALE,
                   "message %" PRIu64 " came after %" PRIu64
                   ": what was between them is lost; say HELLO",
                   message->seq, session->seq_seen);
        return GK_OK;
    }
    session->seq_seen = message->seq;
    switch (message->type) {
    case GK_MSG_READY:
        return ready_message(core, session, message);
    case GK_MSG_STARTED:
        return started_message(core, session, message, err);
    case GK_MSG_RESULT:
        return lease_result(core, session, message, err);
    case GK_MSG_RELEASE:
        return release_message(core, session, message, err);
    case GK_MSG_DEVICE_EVENT:
        return device_message(core, session, message, err);
    case GK_MSG_BLOB_GET:
        return blob_message(core, session, message, err);
    case GK_MSG_PING:
        core_send_session(core, session, GK_MSG_PONG, 0, gk_json_new_object());
        return GK_OK;
    case GK_MSG_PONG:
        session->quiet = strcmp(gk_json_get_string(message->body, "state", ""), "quiet") == 0;
        if (session->quiet) {
            reservations_drop(core, session->id, UINT32_MAX);
        }
        return GK_OK;
    case GK_MSG_BYE:
        return session_end(core, session, NULL, err);
    case GK_MSG_ERROR:
        return GK_OK; /* counted with the messages; answering an error with an error never ends */
    default:
        core_error(core, peer, message->seq, message->token, GK_PROTOCOL,
                   "a worker does not send %s; allowed are HELLO READY STARTED RESULT RELEASE "
                   "DEVICE_EVENT BLOB_GET PING PONG BYE",
                   gk_message_name(message->type));
        return GK_OK;
    }
}

static enum gk_status blob_message(struct gk_core *core, struct session *session,
                                   const struct gk_message *message, struct gk_err *err)
{
    struct gk_err why = {0};
    (void)err;
    struct gk_json *body = blob_piece(core, gk_json_get_string(message->body, "hash", ""),
                                      gk_json_get_int(message->body, "offset", 0), &why);
    if (!body) {
        core_error(core, &session->peer, message->seq, 0, why.status, "%s", why.text);
        return GK_OK;
    }
    core_send(core, &session->peer, GK_MSG_BLOB, session->id, 0, message->seq, body);
    return GK_OK;
}

enum gk_status sessions_step(struct gk_core *core, struct gk_err *err)
{
    for (uint32_t i = 0; i < core->session_count;) {
        struct session *session = core->sessions[i];
        uint64_t silent = core->now_ns - session->heard_ns;
        if (silent > (uint64_t)HEARTBEAT_MS * LIVENESS * 1000000u) {
            enum gk_status status = session_end(core, session, "no word for 6 s", err);
            if (status != GK_OK) {
                return status;
            }
            continue;
        }
        if (silent > (uint64_t)HEARTBEAT_MS * 1000000u &&
            core->now_ns - session->pinged_ns > (uint64_t)HEARTBEAT_MS * 1000000u) {
            session->pinged_ns = core->now_ns;
            core_send_session(core, session, GK_MSG_PING, 0, gk_json_new_object());
        }
        i++;
    }
    return GK_OK;
}
