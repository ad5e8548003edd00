/*
 * Sockets: the only user of libzmq besides loop.c.
 *
 * The daemon binds one ROUTER; workers and clients connect a DEALER. Options that the measured
 * traps demand are set here and nowhere else: ROUTER_MANDATORY with DONTWAIT (a full or gone peer
 * is GK_AGAIN or GK_CLOSED, never a silent loss), no HANDOVER, LINGER bounded, MAXMSGSIZE, ZMTP
 * heartbeats, HANDSHAKE_IVL, high-water marks. Never fork after a link exists; children are
 * exec'ed.
 */
#ifndef GK_CORE_LINK_H
#define GK_CORE_LINK_H

#include "core/wire.h"

struct gk_link;

/* What a key may do; a peer has the roles of its key. Numbers travel in key files: never renumber.
 */
enum gk_role {
    GK_ROLE_SUBMIT = 1, /* send kernels, queue jobs, control its own ones */
    GK_ROLE_WORK = 2,   /* take leases, send results */
    GK_ROLE_ADMIN = 4,  /* jobs of others, the store, the daemon itself */
    GK_ROLES_ALL = 7
};

#define GK_PEER_ID_MAX  32 /* routing ids that the ROUTER generates are 5 bytes */
#define GK_KEY_NAME_MAX 65 /* 64 bytes of name and its end */

/* Who sent a message. `bytes` is where answers go, and all that tells two peers apart; the rest
 * says who it is. The local ipc socket has no key and all roles: its folder is 0700. */
struct gk_peer {
    unsigned char bytes[GK_PEER_ID_MAX];
    uint8_t size;
    uint8_t roles;             /* bits of enum gk_role */
    char key[GK_KEY_NAME_MAX]; /* name of its key; "": the local ipc socket */
};

/* Endpoint "ipc:///path" or "tcp://host:port". A path longer than the system's limit is refused
 * naming both lengths. bind: GK_BUSY if somebody else listens there. */
enum gk_status gk_link_bind(const char *endpoint, struct gk_link **link_out, struct gk_err *err);
enum gk_status gk_link_connect(const char *endpoint, struct gk_link **link_out, struct gk_err *err);
/* The same in the context of another link, which must outlive it: a thousand links of a load test
 * share their threads. */
enum gk_status gk_link_connect_beside(const char *endpoint, struct gk_link *beside,
                                      struct gk_link **link_out, struct gk_err *err);
void gk_link_destroy(struct gk_link *link);

/* Never blocks. peer is for a bound link (NULL otherwise). The message stays the caller's. */
enum gk_status gk_link_send(struct gk_link *link, const struct gk_peer *peer,
                            const struct gk_message *message, struct gk_err *err);
/* Never blocks: GK_AGAIN when nothing is there. GK_PROTOCOL/GK_VERSION: a malformed message was
 * taken and dropped; peer_out says whose. */
enum gk_status gk_link_receive(struct gk_link *link, struct gk_peer *peer_out,
                               struct gk_message *message_out, struct gk_err *err);
/* Blocks up to timeout_ms for something to receive; GK_TIMEOUT. For clients without a loop. */
enum gk_status gk_link_wait(struct gk_link *link, int timeout_ms, struct gk_err *err);

/* The endpoint as bound (a tcp port of 0 or * resolved) or as connected; lent. */
const char *gk_link_endpoint(const struct gk_link *link);

/* Both with the body as canonical text instead of message->body, which is not looked at (send) or
 * NULL (receive: nobody has parsed it). */
enum gk_status gk_link_send_text(struct gk_link *link, const struct gk_peer *peer,
                                 const struct gk_message *message, const char *body, size_t size,
                                 struct gk_err *err);
enum gk_status gk_link_receive_text(struct gk_link *link, struct gk_peer *peer_out,
                                    struct gk_message *message_out, struct gk_buf *body,
                                    struct gk_err *err);

/* A descriptor that is readable when something may have come, -1 if there is none. It may stay
 * silent while something is there: who waits on it receives until GK_AGAIN first, after every wake
 * and after every send (loop.h is the wrapper for libuv). */
int gk_link_fd(struct gk_link *link);

/* For loop.c: the ZMQ socket. */
void *gk_link_socket(struct gk_link *link);

#endif
