/*
 * A full disk: nothing can be committed, so nothing may change. What reads is answered; a worker is
 * refused with a time to come back, and keeps its results in its spool until then. When there is
 * room the shell makes a new core from the store, and every lease gets its grace.
 */
#include "daemon/core_internal.h"

static const char TEXT[] =
    "the disk of the daemon's state folder is full: nothing is stored until there is room; "
    "results stay where they are";

static enum gk_status refuse_request(struct gk_core *core, const struct gk_peer *peer,
                                     const struct gk_message *message, struct gk_err *err)
{
    struct gk_json *reply = gk_json_new_object();
    if (!gk_json_set_string(reply, "status", gk_status_name(GK_FULL)) ||
        !gk_json_set_string(reply, "text", TEXT)) {
        gk_json_free(reply);
        return gk_fail(err, GK_NOMEM, "out of memory for a reply");
    }
    count_refusal(core, GK_FULL);
    core_send(core, peer, GK_MSG_REPLY, 0, 0, message->seq, reply);
    return GK_OK;
}

enum gk_status full_message(struct gk_core *core, const struct gk_peer *peer,
                            const struct gk_message *message, struct gk_err *err)
{
    switch (message->type) {
    case GK_MSG_REQUEST:
        return request_only_looks(message->body) ? request_message(core, peer, message, err)
                                                 : refuse_request(core, peer, message, err);
    case GK_MSG_HELLO:
        session_reject(core, peer, GK_FULL, TEXT, RETRY_FULL_MS);
        return GK_OK;
    case GK_MSG_BYE:
    case GK_MSG_ERROR:
        return GK_OK; /* its leases are looked after when there is room again */
    default:
        /* No session outlived the core that met the full disk: STALE makes a worker say HELLO. */
        core_error(core, peer, message->seq, message->token, GK_STALE,
                   "%s: no such session; say HELLO", gk_message_name(message->type));
        return GK_OK;
    }
}
