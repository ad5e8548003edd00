/*
 * Devices that get no lease, workers that are emptied, letters of what is not tried again, and the
 * audit trail that all of these leave.
 *
 * A fence belongs to the device, not to a session: its key is the UUID, or WORKER/DEVICE of devices
 * that have none (a worker is known by its spool). It stands in the store before anything else
 * follows from it, outlives worker and daemon, and says who raised it: one that an operator raised
 * is lifted by operators alone, others also by a self-test of the worker that passes.
 */
#include <stdio.h>

#include "daemon/core_internal.h"

#define FENCES_MAX 4096
#define CAUSE_MAX  500 /* bytes */

enum gk_status core_audit(struct gk_core *core, const char *who, const char *what,
                          const char *target, const char *reason, const char *outcome,
                          struct gk_err *err)
{
    struct gk_db_audit line = {
        .who = who, .what = what, .target = target, .reason = reason, .outcome = outcome};
    return gk_db_audit_add(core->db, core->wall_ms, &line, err);
}

enum gk_status dead_letter(struct gk_core *core, const struct task *task, const char *kind,
                           int64_t trial, const char *cause, struct gk_err *err)
{
    enum gk_status status =
        gk_db_dead_put(core->db, kind, trial, task->arch, cause, core->wall_ms, err);
    return status == GK_OK ? gk_db_dead_count(core->db, &core->dead_letters, err) : status;
}

/* ------------------------------------------------------------------ what is known */

const struct fence *fence_find(const struct gk_core *core, const char *key)
{
    for (uint32_t i = 0; i < core->fence_count; i++) {
        if (strcmp(core->fences[i].key, key) == 0) {
            return &core->fences[i];
        }
    }
    return NULL;
}

static enum gk_status fence_add(struct gk_core *core, const char *key, const char *origin,
                                const char *cause, int64_t since_ms, struct gk_err *err)
{
    const struct fence *found = fence_find(core, key);
    size_t at = found ? (size_t)(found - core->fences) : core->fence_count;
    if (!found) {
        struct fence *fences = realloc(core->fences, (at + 1) * sizeof *fences);
        if (!fences) {
            return gk_fail(err, GK_NOMEM, "out of memory for a fence");
        }
        core->fences = fences;
        core->fence_count++;
        core->fences[at].since_ms = since_ms;
    }
    struct fence *fence = &core->fences[at];
    (void)snprintf(fence->key, sizeof fence->key, "%s", key);
    (void)snprintf(fence->origin, sizeof fence->origin, "%s", origin);
    (void)snprintf(fence->cause, sizeof fence->cause, "%s", cause);
    return GK_OK;
}

enum gk_status operators_load(struct gk_core *core, struct gk_err *err)
{
    struct gk_json *rows = NULL, *drain = NULL;
    enum gk_status status = gk_db_fences(core->db, &rows, err);
    for (size_t i = 0; status == GK_OK && i < gk_json_count(rows); i++) {
        const struct gk_json *row = gk_json_at(rows, i);
        status = fence_add(core, gk_json_get_string(row, "device", ""),
                           gk_json_get_string(row, "origin", "operator"),
                           gk_json_get_string(row, "cause", ""),
                           gk_json_get_int(row, "since_ms", 0), err);
    }
    gk_json_free(rows);
    if (status == GK_OK) {
        status = gk_db_drain_get(core->db, &drain, err);
    }
    core->drain_ms = gk_json_get_int(drain, "since_ms", 0);
    (void)snprintf(core->drain_reason, sizeof core->drain_reason, "%s",
                   gk_json_get_string(drain, "reason", ""));
    gk_json_free(drain);
    if (status == GK_OK) {
        status = gk_db_dead_count(core->db, &core->dead_letters, err);
    }
    return status == GK_OK ? gk_db_any_pardons(core->db, &core->any_pardons, err) : status;
}

void device_key(int64_t worker, const char *device, const char *uuid, char key_out[DEVICE_KEY_SIZE])
{
    if (uuid[0]) {
        (void)snprintf(key_out, DEVICE_KEY_SIZE, "%.90s", uuid);
    } else {
        (void)snprintf(key_out, DEVICE_KEY_SIZE, "%" PRId64 "/%.64s", worker, device);
    }
}

enum gk_status session_mark(struct gk_core *core, struct session *session, struct gk_err *err)
{
    struct gk_json *row = NULL;
    enum gk_status status = gk_db_worker_row(core->db, session->worker, &row, err);
    session->drained = gk_json_get(row, "drain_ms") != NULL;
    gk_json_free(row);
    for (uint32_t d = 0; d < session->device_count; d++) {
        const struct gk_device_props *props = &session->devices[d].props;
        char key[DEVICE_KEY_SIZE];
        device_key(session->worker, props->device, props->uuid, key);
        memcpy(session->devices[d].key, key, sizeof key);
        session->devices[d].fenced = fence_find(core, key) != NULL;
    }
    return status;
}

void reservations_drop(struct gk_core *core, uint64_t session, uint32_t device)
{
    for (uint32_t j = 0; j < core->job_count; j++) {
        for (uint32_t t = 0; t < core->jobs[j]->task_count; t++) {
            struct task *task = &core->jobs[j]->tasks[t];
            if (task->reserved_session == session &&
                (device == UINT32_MAX || task->reserved_device == device)) {
                task->reserved_session = 0;
            }
        }
    }
}

/* ------------------------------------------------------------------ fencing */

static void mark_devices(struct gk_core *core, const char *key, bool fenced)
{
    for (uint32_t s = 0; s < core->session_count; s++) {
        struct session *session = core->sessions[s];
        for (uint32_t d = 0; d < session->device_count; d++) {
            if (strcmp(session->devices[d].key, key) == 0) {
                session->devices[d].fenced = fenced;
                session->devices[d].infra_in_row = 0;
                reservations_drop(core, session->id, d);
            }
        }
    }
}

/* What is out to the device is over, and no config's fault. */
static enum gk_status take_back(struct gk_core *core, const char *key, const char *cause,
                                struct gk_err *err)
{
    char why[CAUSE_SIZE];
    enum gk_status status = GK_OK;
    (void)snprintf(why, sizeof why, "its device was fenced: %.200s", cause);
    for (uint32_t i = core->lease_count; status == GK_OK && i-- > 0;) {
        struct lease *lease = &core->leases[i];
        /* A lease that is lost may end its task, and with it leases behind this place. */
        if (i >= core->lease_count || strcmp(lease->device_key, key) != 0) {
            continue;
        }
        lease_cancel(core, lease);
        status = lease_lost(core, lease, false, why, err);
    }
    return status;
}

enum gk_status fence_device(struct gk_core *core, const char *key, const char *origin,
                            const char *cause, const char *who, struct gk_err *err)
{
    char target[DEVICE_KEY_SIZE + 16];
    const struct fence *found = fence_find(core, key);
    if (found && strcmp(found->origin, "operator") == 0 && strcmp(origin, "operator") != 0) {
        return GK_OK; /* an operator's word stands, and its cause too */
    }
    if (!found && core->fence_count >= FENCES_MAX) {
        return gk_fail(err, GK_LIMIT, "%d devices are fenced, no more are", FENCES_MAX);
    }
    struct gk_db_fence fence = {.device = key, .origin = origin, .cause = cause, .who = who};
    enum gk_status status = gk_db_fence_put(core->db, &fence, core->wall_ms, err);
    if (status == GK_OK) {
        status = fence_add(core, key, origin, cause, (int64_t)core->wall_ms, err);
    }
    (void)snprintf(target, sizeof target, "device %s", key);
    if (status == GK_OK) {
        status = core_audit(core, who, "fence", target, cause, "fenced", err);
    }
    if (status == GK_OK) {
        notice_name(core_notice(core, GK_EVENT_DEVICE_FENCED, "%s", cause), key);
        core->counters.devices_fenced_total += !found;
        mark_devices(core, key, true);
        status = take_back(core, key, cause, err);
    }
    return status;
}

enum gk_status unfence_device(struct gk_core *core, const char *key, const char *reason,
                              const char *who, struct gk_err *err)
{
    char target[DEVICE_KEY_SIZE + 16];
    const struct fence *found = fence_find(core, key);
    if (!found) {
        return GK_OK;
    }
    enum gk_status status = gk_db_fence_drop(core->db, key, err);
    (void)snprintf(target, sizeof target, "device %s", key);
    if (status == GK_OK) {
        status = core_audit(core, who, "unfence", target, reason, "lifted", err);
    }
    if (status == GK_OK) {
        notice_name(core_notice(core, GK_EVENT_DEVICE_OK, "%s", reason), key);
        core->fences[found - core->fences] = core->fences[--core->fence_count];
        mark_devices(core, key, false);
    }
    return status;
}

void tell_unfenced(struct gk_core *core, const char *key, const char *reason)
{
    for (uint32_t s = 0; s < core->session_count; s++) {
        struct session *session = core->sessions[s];
        for (uint32_t d = 0; d < session->device_count; d++) {
            struct gk_json *body =
                strcmp(session->devices[d].key, key) == 0 ? gk_json_new_object() : NULL;
            if (body && gk_json_set_int(body, "device", d) &&
                gk_json_set_string(body, "state", "ok") &&
                gk_json_set_string(body, "cause", reason)) {
                core_send_session(core, session, GK_MSG_DEVICE_EVENT, 0, body);
            } else {
                gk_json_free(body); /* out of memory: its next session tells it */
            }
        }
    }
}

enum gk_status device_message(struct gk_core *core, struct session *session,
                              const struct gk_message *message, struct gk_err *err)
{
    struct gk_err why = {0};
    int64_t device;
    enum gk_status status =
        gk_json_need_int(message->body, "device", 0, (int64_t)session->device_count - 1, &device,
                         "DEVICE_EVENT", &why);
    if (status != GK_OK) {
        core_error(core, &session->peer, message->seq, 0, status, "%s", why.text);
        return GK_OK;
    }
    const char *state = gk_json_get_string(message->body, "state", ""),
               *cause = gk_json_get_string(message->body, "cause", "no cause was told");
    char who[GK_KEY_NAME_MAX + 32], key[DEVICE_KEY_SIZE], kept[CAUSE_MAX + 1];
    (void)snprintf(kept, sizeof kept, "%s", cause); /* it stands in listings and in the trail */
    gk_utf8_clean(kept);
    (void)snprintf(who, sizeof who, "worker %" PRId64 "%s%s", session->worker,
                   session->peer.key[0] ? " " : "", session->peer.key);
    (void)snprintf(key, sizeof key, "%s", session->devices[device].key);
    session->devices[device].ok = strcmp(state, "ok") == 0 || strcmp(state, "fenced") == 0;
    const struct fence *fence = fence_find(core, key);
    if (strcmp(state, "fenced") == 0) {
        status = fence_device(core, key, "worker", kept, who, &why);
    } else if (strcmp(state, "ok") == 0 && fence && strcmp(fence->origin, "operator") != 0) {
        status = unfence_device(core, key, kept, who, &why);
    }
    if (status == GK_OK) {
        return GK_OK;
    }
    if (is_store_failure(status)) {
        return gk_fail(err, status, "%s", why.text);
    }
    session->devices[device].ok = false; /* it cannot be written down; no lease goes there */
    core_error(core, &session->peer, message->seq, 0, status, "%s", why.text);
    return GK_OK;
}
