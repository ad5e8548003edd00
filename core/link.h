/*
 * Sockets: the only user of libzmq besides loop.c.
 *
 * The daemon binds one ROUTER, behind its local socket and tcp endpoints alike; workers and clients
 * connect a DEALER. tcp is CURVE, without exception, and zap.h decides who comes in; who sent a
 * message is read from its last frame (libzmq 4.3.4 loses it on the first). Options that measured
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

#define GK_PEER_ID_MAX    32 /* routing ids that the ROUTER generates are 5 bytes */
#define GK_KEY_NAME_MAX   65 /* 64 bytes of name and its end */
#define GK_KEY_TEXT_SIZE  41 /* 40 characters of Z85 and their end */
#define GK_PEER_HOST_SIZE 46 /* an IPv6 address and its end */

/* Who sent a message. `bytes` is where answers go, and all that tells two peers apart; the rest
 * says who it is. The local ipc socket has no key and all roles: its folder is 0700. */
struct gk_peer {
    unsigned char bytes[GK_PEER_ID_MAX];
    uint8_t size;
    char public_key[GK_KEY_TEXT_SIZE]; /* of its key; "": the local ipc socket */
    uint8_t roles;                     /* bits of enum gk_role */
    bool is_pool;                      /* its key may be used on many hosts at once */
    char key[GK_KEY_NAME_MAX];         /* name of its key; "": the local ipc socket */
    char host[GK_PEER_HOST_SIZE];      /* its address; "": the local ipc socket */
};

struct gk_key; /* core/keys.h */
struct gk_key_list;

/* One ROUTER behind several endpoints, "ipc:///path" or "tcp://host:port" (host may be * for all
 * addresses, port 0 or * for any). tcp is CURVE alone, and asks the admitted keys about everybody.
 */
struct gk_link_server {
    const char *const *endpoints;
    uint32_t endpoint_count;  /* 1 to GK_LINK_ENDPOINTS_MAX */
    const struct gk_key *key; /* the daemon's own; NULL: ipc endpoints alone */
    struct gk_key_list *keys; /* admitted; taken (left empty) */
};
#define GK_LINK_ENDPOINTS_MAX 9 /* the local socket, and eight that somebody names */

/* Whether a link could be made of it, as far as its text says: GK_USAGE names what is allowed. */
enum gk_status gk_endpoint_check(const char *endpoint, struct gk_err *err);
/* A path longer than the system's limit is refused naming both lengths. GK_BUSY if somebody else
 * listens there; GK_DENIED for tcp without a key. */
enum gk_status gk_link_serve(const struct gk_link_server *server, struct gk_link **link_out,
                             struct gk_err *err);
/* One ipc endpoint. */
enum gk_status gk_link_bind(const char *endpoint, struct gk_link **link_out, struct gk_err *err);
enum gk_status gk_link_connect(const char *endpoint, struct gk_link **link_out, struct gk_err *err);
/* key: of the caller, with the daemon's public one in server_key; needed for tcp, not used on ipc
 * (may be NULL there). It stays the caller's. beside: NULL, or another link whose context it
 * shares, and which must outlive it: a thousand links of a load test have one set of threads. */
enum gk_status gk_link_connect_as(const char *endpoint, const struct gk_key *key,
                                  struct gk_link *beside, struct gk_link **link_out,
                                  struct gk_err *err);
void gk_link_destroy(struct gk_link *link);

/* ---- who is let in: of a serving link with a key ---- */
enum gk_refusal {
    GK_REFUSED_UNKNOWN,   /* a key that is not in the list */
    GK_REFUSED_REVOKED,   /* connections, and messages of a connection that was there before */
    GK_REFUSED_HOST,      /* not from this address */
    GK_REFUSED_MALFORMED, /* no CURVE handshake */
    GK_REFUSED_CROWDED,   /* how often accepting stopped near the limit of file descriptors */
    GK_REFUSAL_COUNT
};
const char *gk_refusal_name(enum gk_refusal reason); /* as metrics say it: "unknown" */
#define GK_REFUSALS_KEPT 8
struct gk_link_refusals {
    uint64_t counts[GK_REFUSAL_COUNT]; /* since the start */
    uint32_t line_count;
    char lines[GK_REFUSALS_KEPT][240]; /* the first ones since the last call, for the log */
};
/* Replaces the admitted keys (takes the list). Messages of a key that is not in it any more are
 * refused from then on. */
enum gk_status gk_link_set_keys(struct gk_link *link, struct gk_key_list *keys, struct gk_err *err);
/* Fills the counts, and hands out the lines since the last call. */
void gk_link_refusals(struct gk_link *link, struct gk_link_refusals *out);
/* False: the handler of authentication has ended. Nobody is let in, so the program must end. */
bool gk_link_is_guarded(const struct gk_link *link);
/* Whether the peer's key may still be used, with which roles: GK_OK refreshes both. For sessions
 * after gk_link_set_keys(). */
enum gk_status gk_link_look_again(struct gk_link *link, struct gk_peer *peer, struct gk_err *err);

/* Of a connected link: GK_DENIED when the other side has refused the key, GK_OK while nothing is
 * known. After GK_DENIED the link is of no more use. */
enum gk_status gk_link_refused(struct gk_link *link, struct gk_err *err);
/* Of a connected link: how many connections it has had so far. libzmq makes a new one by itself
 * when one breaks; to the other side it is another peer, and what was on its way is lost. */
uint32_t gk_link_connections(struct gk_link *link);

/* Never blocks. peer is for a bound link (NULL otherwise). The message stays the caller's. */
enum gk_status gk_link_send(struct gk_link *link, const struct gk_peer *peer,
                            const struct gk_message *message, struct gk_err *err);
/* Never blocks: GK_AGAIN when nothing is there. GK_PROTOCOL/GK_VERSION: a malformed message was
 * taken and dropped; peer_out says whose. GK_DENIED: so was one of a key that is revoked. */
enum gk_status gk_link_receive(struct gk_link *link, struct gk_peer *peer_out,
                               struct gk_message *message_out, struct gk_err *err);
/* Blocks up to timeout_ms for something to receive; GK_TIMEOUT. For clients without a loop. */
enum gk_status gk_link_wait(struct gk_link *link, int timeout_ms, struct gk_err *err);

/* The first endpoint as bound (a tcp port of 0 or * resolved) or as connected; lent. */
const char *gk_link_endpoint(const struct gk_link *link);
/* The others of a serving link; NULL past the last. */
const char *gk_link_endpoint_at(const struct gk_link *link, uint32_t index);

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

/* For loop.c: the ZMQ socket, and the one that tells of connections (NULL: a bound link). */
void *gk_link_socket(struct gk_link *link);
void *gk_link_monitor(struct gk_link *link);

#endif
