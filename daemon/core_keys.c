/*
 * Keys in the core: which may still be used, and what keeps sending what is no message. Who has
 * which key is the shell's business (struct gk_core_keys).
 */
#include <stdio.h>

#include "daemon/core_internal.h"

/* ------------------------------------------------------------------ penalties */

#define PENALTY_WINDOW_NS (60 * SECOND_NS)
#define SUSPENDED_NS      (60 * SECOND_NS)

static struct penalty *penalty_of(struct gk_core *core, const struct gk_peer *peer)
{
    for (uint32_t i = 0; i < core->penalty_count; i++) {
        struct penalty *penalty = &core->penalties[i];
        if (strcmp(penalty->key, peer->key) == 0 && strcmp(penalty->host, peer->host) == 0) {
            return penalty;
        }
    }
    return NULL;
}

bool key_is_suspended(struct gk_core *core, const struct gk_peer *peer)
{
    const struct penalty *penalty = peer->key[0] ? penalty_of(core, peer) : NULL;
    return penalty && penalty->suspended_ns > core->now_ns;
}

/* A place of its own; when all are taken, that of whoever erred longest ago. */
static struct penalty *penalty_add(struct gk_core *core, const struct gk_peer *peer)
{
    struct penalty *penalty = &core->penalties[0];
    if (core->penalty_count < PENALTIES_MAX) {
        penalty = &core->penalties[core->penalty_count++];
    }
    for (uint32_t i = 0; i < core->penalty_count && core->penalty_count == PENALTIES_MAX; i++) {
        if (core->penalties[i].last_ns < penalty->last_ns) {
            penalty = &core->penalties[i];
        }
    }
    *penalty = (struct penalty){.since_ns = core->now_ns};
    (void)snprintf(penalty->key, sizeof penalty->key, "%s", peer->key);
    (void)snprintf(penalty->host, sizeof penalty->host, "%s", peer->host);
    return penalty;
}

enum gk_status key_erred(struct gk_core *core, const struct gk_peer *peer, const char *what,
                         struct gk_err *err)
{
    if (!peer->key[0]) {
        return GK_OK; /* the local socket: whoever is there may stop the daemon anyway */
    }
    struct penalty *penalty = penalty_of(core, peer);
    if (!penalty) {
        penalty = penalty_add(core, peer);
    }
    if (core->now_ns - penalty->since_ns > PENALTY_WINDOW_NS) {
        penalty->since_ns = core->now_ns;
        penalty->errors = 0;
    }
    penalty->last_ns = core->now_ns;
    if (++penalty->errors < PENALTY_ERRORS || penalty->suspended_ns > core->now_ns) {
        return GK_OK;
    }
    penalty->errors = 0;
    penalty->suspended_ns = core->now_ns + SUSPENDED_NS;
    core->counters.suspended++;
    char text[160];
    notice_peer(core_notice(core, GK_EVENT_KEY_SUSPENDED, "%s", what), peer);
    (void)snprintf(text, sizeof text, "suspended for %d s after %d errors in a minute: %.80s",
                   (int)(SUSPENDED_NS / SECOND_NS), PENALTY_ERRORS, what);
    char target[GK_KEY_NAME_MAX + GK_PEER_HOST_SIZE + 16];
    (void)snprintf(target, sizeof target, "key %s from %s", peer->key, peer->host);
    enum gk_status status = core_audit(core, "gktuned", "suspend", target, what, text, err);
    return status == GK_OK ? sessions_end_of(core, peer, SUSPENDED_NS / 1000000u, text, err)
                           : status;
}

/* ------------------------------------------------------------------ revocation */

/* What it holds goes back at once: nobody waits for a result that would be refused. */
static enum gk_status end_denied(struct gk_core *core, struct session *session, const char *why,
                                 struct gk_err *err)
{
    enum gk_status status = GK_OK;
    session_reject(core, &session->peer, GK_DENIED, why, 0);
    for (uint32_t i = core->lease_count; status == GK_OK && i-- > 0;) {
        /* A lease that is lost may end its task, and with it leases behind this place. */
        if (i < core->lease_count && core->leases[i].session == session->id) {
            core->leases[i].session = 0;
            status = lease_lost(core, &core->leases[i], false, why, err);
        }
    }
    if (status == GK_OK) {
        char target[32];
        (void)snprintf(target, sizeof target, "worker %" PRId64, session->worker);
        status = core_audit(core, "gktuned", "end session", target, why, "its leases go back", err);
    }
    return status == GK_OK ? session_end(core, session, why, err) : status;
}

static enum gk_status reload_keys(struct gk_core *core, const char *who, uint32_t *valid_out,
                                  struct gk_err *err)
{
    char outcome[32];
    *valid_out = 0;
    if (!core->keys.reload) {
        return GK_OK;
    }
    struct gk_err why = {0};
    enum gk_status status = core->keys.reload(core->keys.context, valid_out, &why);
    if (status != GK_OK) { /* the keys stay as they were; it is not the store that failed */
        return gk_fail(err, GK_INPUT, "keys: %s; they stay as they were", why.text);
    }
    (void)snprintf(outcome, sizeof outcome, "%" PRIu32 " are valid", *valid_out);
    status = core_audit(core, who, "reload keys", "keys.json", NULL, outcome, err);
    if (status != GK_OK) {
        return status;
    }
    for (uint32_t i = 0; i < core->session_count;) {
        struct session *session = core->sessions[i];
        status = core->keys.look(core->keys.context, &session->peer, &why);
        if (status == GK_OK && (session->peer.roles & GK_ROLE_WORK)) {
            i++;
            continue;
        }
        status = end_denied(core, session,
                            status == GK_OK ? "its key may not work any more" : why.text, err);
        if (status != GK_OK) {
            return status;
        }
    }
    for (uint32_t i = 0; i < core->watcher_count; i++) {
        if (core->keys.look(core->keys.context, &core->watchers[i].peer, NULL) != GK_OK) {
            core->watchers[i].stale = true;
            core->new_events = true; /* they are looked at */
        }
    }
    return GK_OK;
}

enum gk_status gk_core_reload_keys(struct gk_core *core, uint64_t now_ns, uint64_t wall_ms,
                                   uint32_t *valid_out, struct gk_err *err)
{
    core->now_ns = now_ns;
    core->wall_ms = wall_ms;
    return reload_keys(core, "signal", valid_out, err);
}

enum gk_status request_keys(struct gk_core *core, const struct gk_peer *peer,
                            const struct gk_json *body, struct gk_json *reply, struct gk_err *err)
{
    const char *action = gk_json_get_string(body, "action", "");
    if (strcmp(action, "reload") == 0) {
        uint32_t valid = 0;
        enum gk_status status = reload_keys(core, peer->key, &valid, err);
        return status != GK_OK                          ? status
               : gk_json_set_int(reply, "valid", valid) ? GK_OK
                                                        : gk_fail(err, GK_NOMEM, "out of memory");
    }
    if (strcmp(action, "list") == 0) {
        struct gk_json *rows = NULL;
        struct gk_err why = {0};
        enum gk_status status = core->keys.list ? core->keys.list(core->keys.context, &rows, &why)
                                                : gk_fail(&why, GK_UNSUPPORTED, "no keys here");
        if (status == GK_OK && !gk_json_set(reply, "keys", rows)) {
            return gk_fail(err, GK_NOMEM, "out of memory");
        }
        return status == GK_OK
                   ? GK_OK
                   : gk_fail(err, is_store_failure(status) ? GK_INPUT : status, "%s", why.text);
    }
    return gk_fail(err, GK_INPUT, "keys: action '%.40s'; there are list and reload", action);
}
