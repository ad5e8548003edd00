/*
 * Messages as bytes. No sockets here, so this file is fuzzed as it stands.
 *
 * A message is two frames: a header of exactly 64 bytes (little-endian) and a body: UTF-8 JSON, an
 * object, at most GK_BODY_MAX bytes. Anything else is refused before a field is read. The members
 * of each body stand in schemas/PROTOCOL.md and schemas/message.schema.json.
 *
 *    0 magic "GKT1"    4 version u16    6 type u16    8 flags u32 (0)
 *
 *   12 body length u32  16 epoch u64    24 session u64  32 seq u64
 *
 *   40 token u64        48 reply_to u64  56 reserved u32 (0)
 *
 *   60 CRC-32C of bytes 0..59 and the body
 */
#ifndef GK_CORE_WIRE_H
#define GK_CORE_WIRE_H

#include "core/json.h"

#define GK_HEADER_SIZE      64
#define GK_BODY_MAX         (1u << 20)
#define GK_WIRE_VERSION     1 /* what this build speaks */
#define GK_WIRE_VERSION_MIN 1 /* the oldest it understands */

/* What daemon and worker must agree on. The daemon leaves a lease alone for GK_GRACE_MS while its
 * worker is away, and all leases after a start. A worker that lives must be back within it, or what
 * it runs is run again: its longest way back is a connection that hears nothing for
 * GK_HEARTBEAT_MS * GK_LIVENESS, one wait of at most GK_RECONNECT_MAX_MS, and the HELLO. */
#define GK_HEARTBEAT_MS     2000
#define GK_LIVENESS         3
#define GK_GRACE_MS         15000
#define GK_RECONNECT_MAX_MS 8000
_Static_assert(GK_HEARTBEAT_MS *GK_LIVENESS + GK_RECONNECT_MAX_MS < GK_GRACE_MS,
               "a worker that lives comes back before its leases are given to others");

/* W worker, D daemon, C client. Numbers travel: append, never renumber. */
#define GK_MESSAGE_MAP(X)                                                                          \
    X(HELLO, 1)                                                                                    \
    X(WELCOME, 2)                                                                                  \
    X(REJECT, 3)                                                                                   \
    X(READY, 4) X(LEASE, 5) X(STARTED, 6) X(RESULT, 7) X(ACK, 8) X(RELEASE, 9) X(CANCEL, 10)       \
        X(PING, 11) X(PONG, 12) X(BLOB_GET, 13) X(BLOB, 14) X(DEVICE_EVENT, 15) X(BYE, 16)         \
            X(REQUEST, 32) X(REPLY, 33) X(EVENT, 34) X(ERROR, 35)

enum gk_message_type {
#define GK_MESSAGE_ENUM(name, number) GK_MSG_##name = number,
    GK_MESSAGE_MAP(GK_MESSAGE_ENUM)
#undef GK_MESSAGE_ENUM
};

struct gk_message {
    enum gk_message_type type;
    uint16_t version;     /* filled by encode */
    uint64_t epoch;       /* the daemon's; 0 before WELCOME */
    uint64_t session;     /* issued by the daemon in WELCOME; 0 for clients */
    uint64_t seq;         /* counts up per sender and session, from 1 */
    uint64_t token;       /* of the lease it is about; 0 if about none */
    uint64_t reply_to;    /* seq of the REQUEST answered; 0 else */
    struct gk_json *body; /* an object; owned */
};

const char *gk_message_name(enum gk_message_type type); /* NULL for an unknown number */
void gk_message_fini(struct gk_message *message);

/* Header into header_out, canonical body into body (reset first). GK_LIMIT if the body is too long.
 */
enum gk_status gk_wire_encode(const struct gk_message *message,
                              unsigned char header_out[GK_HEADER_SIZE], struct gk_buf *body,
                              struct gk_err *err);
/* GK_PROTOCOL for anything malformed, GK_VERSION for a version out of range (names the range). */
enum gk_status gk_wire_decode(const void *header, size_t header_size, const void *body,
                              size_t body_size, struct gk_message *message_out, struct gk_err *err);
/* The two halves of these, for who has the body as text already, or wants it as text: seal makes
 * the header of a canonical body (message->body is not looked at); open checks both frames and
 * fills everything but the body (NULL), which nobody has parsed then. Errors as above. */
enum gk_status gk_wire_seal(const struct gk_message *message,
                            unsigned char header_out[GK_HEADER_SIZE], const void *body,
                            size_t body_size, struct gk_err *err);
enum gk_status gk_wire_open(const void *header, size_t header_size, const void *body,
                            size_t body_size, struct gk_message *message_out, struct gk_err *err);
/* Parses the body of an opened message into message->body. */
enum gk_status gk_wire_parse_body(struct gk_message *message, const void *body, size_t body_size,
                                  struct gk_err *err);
uint32_t gk_crc32c(uint32_t crc, const void *bytes, size_t size);
/* The same number without the processor's instruction: the tests compare the two. */
uint32_t gk_crc32c_by_table(uint32_t crc, const void *bytes, size_t size);

#endif
