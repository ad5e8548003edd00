/*
 * Sockets: see link.h. One ZeroMQ context a link: a program has one link, and then nothing of
 * another one can hold up its end. One thread a link.
 */
#include "core/link.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <zmq.h>

/* Messages queued for one peer before send says GK_AGAIN, and taken ahead of receive. A lease is
 * about 2 KB, so a stuck worker costs the daemon some 2 MB. */
#define QUEUE_MESSAGES_MAX 1000
/* Long enough for a last REPLY or BYE on a healthy connection, short enough that an exit never
 * hangs. */
#define LINGER_MS 500
/* An idle or half-open TCP connection may not hold a slot for longer than this (default 30 s). */
#define HANDSHAKE_MS 5000
/* Links of one context: those that a load test puts beside each other. */
#define SOCKETS_MAX 8192
/* ZMTP's own heartbeats close descriptors of peers that were cut off; sessions have their own PING.
 */
#define HEARTBEAT_MS         5000
#define HEARTBEAT_TIMEOUT_MS 15000

struct gk_link {
    void *context;
    void *socket;
    bool is_router, borrows_context;
    struct gk_buf
        body; /* of the last encode: kept, so that sending allocates nothing in the steady state */
    char endpoint[256]; /* as bound or connected; the longest ipc path has 107 bytes, a host name
                           253 */
};

/* ------------------------------------------------------------------ making */

static enum gk_status check_endpoint(const char *endpoint, struct gk_err *err)
{
    bool is_ipc = strncmp(endpoint, "ipc://", 6) == 0;
    if (!is_ipc && strncmp(endpoint, "tcp://", 6) != 0) {
        return gk_fail(err, GK_USAGE, "endpoint '%s': allowed are ipc:///path and tcp://host:port",
                       endpoint);
    }
    const size_t path_max = sizeof((struct sockaddr_un *)0)->sun_path - 1;
    const char *rest = endpoint + 6;
    if (*rest == '\0') {
        return gk_fail(err, GK_USAGE, "endpoint '%s': %s is missing", endpoint,
                       is_ipc ? "the path" : "host:port");
    }
    if (is_ipc && strlen(rest) > path_max) {
        return gk_fail(err, GK_USAGE,
                       "socket path '%s' has %zu bytes, this system allows %zu: choose a shorter "
                       "state folder (--state or $GKTUNE_STATE)",
                       rest, strlen(rest), path_max);
    }
    if (!is_ipc && (strlen(rest) > 240 || !strrchr(rest, ':'))) {
        return gk_fail(err, GK_USAGE, "endpoint '%s': tcp://host:port is needed", endpoint);
    }
    return GK_OK;
}

static enum gk_status set_option(struct gk_link *link, int option, int value, struct gk_err *err)
{
    if (zmq_setsockopt(link->socket, option, &value, sizeof value) != 0) {
        return gk_fail(err, GK_INTERNAL, "socket option %d = %d: %s", option, value,
                       zmq_strerror(zmq_errno()));
    }
    return GK_OK;
}

static enum gk_status set_options(struct gk_link *link, struct gk_err *err)
{
    const struct {
        int option, value;
    } options[] = {
        {ZMQ_SNDHWM, QUEUE_MESSAGES_MAX},
        {ZMQ_RCVHWM, QUEUE_MESSAGES_MAX},
        {ZMQ_LINGER, LINGER_MS},
        {ZMQ_HANDSHAKE_IVL, HANDSHAKE_MS},
        {ZMQ_HEARTBEAT_IVL, HEARTBEAT_MS},
        {ZMQ_HEARTBEAT_TIMEOUT, HEARTBEAT_TIMEOUT_MS},
        {ZMQ_HEARTBEAT_TTL, HEARTBEAT_TIMEOUT_MS},
        {ZMQ_TCP_KEEPALIVE, 1},
        {ZMQ_SNDTIMEO, 0}, /* with DONTWAIT everywhere a second belt: nothing here may block */
        {ZMQ_RCVTIMEO, 0},
    };
    for (size_t i = 0; i < GK_ARRAY_COUNT(options); i++) {
        enum gk_status status = set_option(link, options[i].option, options[i].value, err);
        if (status != GK_OK) {
            return status;
        }
    }
    /* A limit on a frame, not on a message: receive() counts the frames. */
    int64_t frame_max = GK_BODY_MAX;
    if (zmq_setsockopt(link->socket, ZMQ_MAXMSGSIZE, &frame_max, sizeof frame_max) != 0) {
        return gk_fail(err, GK_INTERNAL, "socket option MAXMSGSIZE: %s", zmq_strerror(zmq_errno()));
    }
    if (link->is_router) {
        /* Without it a send to a full or gone peer is a success that loses the message. */
        return set_option(link, ZMQ_ROUTER_MANDATORY, 1, err);
    }
    return GK_OK;
}

static enum gk_status create(bool is_router, struct gk_link *beside, struct gk_link **link_out,
                             struct gk_err *err)
{
    struct gk_link *link = calloc(1, sizeof *link);
    if (!link) {
        return gk_fail(err, GK_NOMEM, "out of memory for a link");
    }
    enum gk_status status = GK_OK;
    link->is_router = is_router;
    link->borrows_context = beside != NULL;
    link->context = beside ? beside->context : zmq_ctx_new();
    if (!link->context) {
        status = gk_fail(err, GK_NOMEM, "ZeroMQ context: %s", zmq_strerror(zmq_errno()));
        goto out;
    }
    if (!beside) { /* 1023 by default; takes effect with the first socket */
        (void)zmq_ctx_set(link->context, ZMQ_MAX_SOCKETS, SOCKETS_MAX); /* in range */
    }
    link->socket = zmq_socket(link->context, is_router ? ZMQ_ROUTER : ZMQ_DEALER);
    if (!link->socket) {
        status = gk_fail(err, GK_NOMEM, "ZeroMQ socket: %s", zmq_strerror(zmq_errno()));
        goto out;
    }
    status = set_options(link, err);
out:
    if (status != GK_OK) {
        gk_link_destroy(link);
        return status;
    }
    *link_out = link;
    return GK_OK;
}

/* libzmq removes whatever stands at an ipc path before it binds, so it would take over the address
 * of a living daemon. Somebody who accepts there is asked first. */
static bool somebody_listens(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t size = strlen(path);
    memcpy(address.sun_path, path, size); /* check_endpoint() saw that it fits */
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return false;
    }
    socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + size + 1);
    int rc = connect(fd, (const struct sockaddr *)&address, length);
    bool listens = rc == 0 || errno == EAGAIN; /* EAGAIN: its backlog is full */
    (void)close(fd);                           /* nothing was written to it */
    return listens;
}

enum gk_status gk_link_bind(const char *endpoint, struct gk_link **link_out, struct gk_err *err)
{
    enum gk_status status = check_endpoint(endpoint, err);
    if (status != GK_OK) {
        return status;
    }
    if (strncmp(endpoint, "ipc://", 6) == 0 && somebody_listens(endpoint + 6)) {
        return gk_fail(err, GK_BUSY, "%s: another process listens there", endpoint);
    }
    struct gk_link *link = NULL;
    status = create(true, NULL, &link, err);
    if (status != GK_OK) {
        return status;
    }
    if (zmq_bind(link->socket, endpoint) != 0) {
        int error = zmq_errno();
        status = gk_fail(err, error == EADDRINUSE ? GK_BUSY : GK_IO, "cannot listen on %s: %s",
                         endpoint, zmq_strerror(error));
        gk_link_destroy(link);
        return status;
    }
    size_t size = sizeof link->endpoint;
    if (zmq_getsockopt(link->socket, ZMQ_LAST_ENDPOINT, link->endpoint, &size) != 0) {
        (void)snprintf(link->endpoint, sizeof link->endpoint, "%s", endpoint);
    }
    *link_out = link;
    return GK_OK;
}

static enum gk_status connect_link(const char *endpoint, struct gk_link *beside,
                                   struct gk_link **link_out, struct gk_err *err)
{
    enum gk_status status = check_endpoint(endpoint, err);
    if (status != GK_OK) {
        return status;
    }
    struct gk_link *link = NULL;
    status = create(false, beside, &link, err);
    if (status != GK_OK) {
        return status;
    }
    if (zmq_connect(link->socket, endpoint) != 0) {
        int error = zmq_errno();
        status = gk_fail(err, error == EINVAL ? GK_USAGE : GK_IO, "cannot connect to %s: %s",
                         endpoint, zmq_strerror(error));
        gk_link_destroy(link);
        return status;
    }
    (void)snprintf(link->endpoint, sizeof link->endpoint, "%s", endpoint);
    *link_out = link;
    return GK_OK;
}

enum gk_status gk_link_connect(const char *endpoint, struct gk_link **link_out, struct gk_err *err)
{
    return connect_link(endpoint, NULL, link_out, err);
}

enum gk_status gk_link_connect_beside(const char *endpoint, struct gk_link *beside,
                                      struct gk_link **link_out, struct gk_err *err)
{
    return connect_link(endpoint, beside, link_out, err);
}

void gk_link_destroy(struct gk_link *link)
{
    if (!link) {
        return;
    }
    if (link->socket) {
        (void)zmq_close(link->socket); /* fails only for what is not a socket */
    }
    if (link->context && !link->borrows_context) {
        while (zmq_ctx_term(link->context) != 0 && zmq_errno() == EINTR) {
            /* a signal came; at most LINGER_MS in all */
        }
    }
    gk_buf_fini(&link->body);
    free(link);
}

const char *gk_link_endpoint(const struct gk_link *link)
{
    return link->endpoint;
}

void *gk_link_socket(struct gk_link *link)
{
    return link->socket;
}

/* ------------------------------------------------------------------ sending */

static enum gk_status send_frame(struct gk_link *link, const void *bytes, size_t size, int more,
                                 struct gk_err *err)
{
    for (;;) {
        if (zmq_send(link->socket, bytes, size, ZMQ_DONTWAIT | more) >= 0) {
            return GK_OK;
        }
        int error = zmq_errno();
        if (error == EINTR) {
            continue;
        }
        if (error == EAGAIN) {
            return gk_fail(err, GK_AGAIN, "%s: the peer's queue of %d messages is full",
                           link->endpoint, QUEUE_MESSAGES_MAX);
        }
        if (error == EHOSTUNREACH) {
            return gk_fail(err, GK_CLOSED, "%s: the peer is gone", link->endpoint);
        }
        return gk_fail(err, GK_IO, "%s: send: %s", link->endpoint, zmq_strerror(error));
    }
}

static enum gk_status send_frames(struct gk_link *link, const struct gk_peer *peer,
                                  const unsigned char header[GK_HEADER_SIZE], const char *body,
                                  size_t size, struct gk_err *err)
{
    enum gk_status status = GK_OK;
    if (peer) {
        status = send_frame(link, peer->bytes, peer->size, ZMQ_SNDMORE, err);
    }
    if (status == GK_OK) {
        status = send_frame(link, header, GK_HEADER_SIZE, ZMQ_SNDMORE, err);
    }
    return status == GK_OK ? send_frame(link, body, size, 0, err) : status;
}

enum gk_status gk_link_send(struct gk_link *link, const struct gk_peer *peer,
                            const struct gk_message *message, struct gk_err *err)
{
    GK_ASSERT(link->is_router == (peer != NULL));
    unsigned char header[GK_HEADER_SIZE];
    enum gk_status status = gk_wire_encode(message, header, &link->body, err);
    return status == GK_OK
               ? send_frames(link, peer, header, link->body.data, link->body.size, err)
               : status;
}

enum gk_status gk_link_send_text(struct gk_link *link, const struct gk_peer *peer,
                                 const struct gk_message *message, const char *body, size_t size,
                                 struct gk_err *err)
{
    GK_ASSERT(link->is_router == (peer != NULL));
    unsigned char header[GK_HEADER_SIZE];
    enum gk_status status = gk_wire_seal(message, header, body, size, err);
    return status == GK_OK ? send_frames(link, peer, header, body, size, err) : status;
}

/* ------------------------------------------------------------------ receiving */

/* GK_AGAIN when nothing is there. */
static enum gk_status receive_frame(struct gk_link *link, zmq_msg_t *frame, struct gk_err *err)
{
    for (;;) {
        if (zmq_msg_recv(frame, link->socket, ZMQ_DONTWAIT) >= 0) {
            return GK_OK;
        }
        int error = zmq_errno();
        if (error == EINTR) {
            continue;
        }
        return gk_fail(err, error == EAGAIN ? GK_AGAIN : GK_IO, "%s: receive: %s", link->endpoint,
                       zmq_strerror(error));
    }
}

/* body NULL: the message's body is parsed; else it is put there as text. */
static enum gk_status receive(struct gk_link *link, struct gk_peer *peer_out,
                              struct gk_message *message_out, struct gk_buf *body,
                              struct gk_err *err)
{
    /* A router sees the peer's id first. One frame more than is allowed is kept, so that a message
     * of many frames is told from one of two; the rest is dropped as it comes. */
    const unsigned first = link->is_router ? 1 : 0, wanted = first + 2;
    zmq_msg_t frames[3], extra;
    for (unsigned i = 0; i < GK_ARRAY_COUNT(frames); i++) {
        (void)zmq_msg_init(&frames[i]); /* cannot fail */
    }
    (void)zmq_msg_init(&extra);
    unsigned count = 0;
    bool more = true;
    enum gk_status status = GK_OK;
    while (more && status == GK_OK) {
        zmq_msg_t *frame = count < wanted ? &frames[count] : &extra;
        status = receive_frame(link, frame, err);
        if (status == GK_OK) {
            count++;
            more = zmq_msg_more(frame) != 0;
        }
    }
    if (status == GK_OK && first && peer_out) {
        size_t size = zmq_msg_size(&frames[0]);
        *peer_out = (struct gk_peer){.size = (uint8_t)(size > GK_PEER_ID_MAX ? 0 : size),
                                     .roles = GK_ROLES_ALL};
        memcpy(peer_out->bytes, zmq_msg_data(&frames[0]), peer_out->size);
    }
    if (status != GK_OK) {
        /* nothing there, or the socket is broken */
    } else if (count != wanted) {
        status = gk_fail(err, GK_PROTOCOL, "the message has %u frames, 2 are needed",
                         count - (count > 0 ? first : 0));
    } else {
        const void *bytes = zmq_msg_data(&frames[first + 1]);
        size_t size = zmq_msg_size(&frames[first + 1]);
        status = (body ? gk_wire_open : gk_wire_decode)(zmq_msg_data(&frames[first]),
                                                        zmq_msg_size(&frames[first]), bytes, size,
                                                        message_out, err);
        if (status == GK_OK && body) {
            gk_buf_reset(body);
            gk_buf_add(body, bytes, size);
            status = gk_buf_status(body, err);
        }
    }
    for (unsigned i = 0; i < GK_ARRAY_COUNT(frames); i++) {
        (void)zmq_msg_close(&frames[i]);
    }
    (void)zmq_msg_close(&extra);
    return status;
}

enum gk_status gk_link_receive(struct gk_link *link, struct gk_peer *peer_out,
                               struct gk_message *message_out, struct gk_err *err)
{
    return receive(link, peer_out, message_out, NULL, err);
}

enum gk_status gk_link_receive_text(struct gk_link *link, struct gk_peer *peer_out,
                                    struct gk_message *message_out, struct gk_buf *body,
                                    struct gk_err *err)
{
    return receive(link, peer_out, message_out, body, err);
}

int gk_link_fd(struct gk_link *link)
{
    int fd = -1;
    size_t size = sizeof fd;
    return zmq_getsockopt(link->socket, ZMQ_FD, &fd, &size) == 0 ? fd : -1;
}

enum gk_status gk_link_wait(struct gk_link *link, int timeout_ms, struct gk_err *err)
{
    zmq_pollitem_t item = {.socket = link->socket, .events = ZMQ_POLLIN};
    int rc = zmq_poll(&item, 1, timeout_ms);
    if (rc > 0) {
        return GK_OK;
    }
    if (rc == 0 || zmq_errno() == EINTR) {
        /* A signal ends the wait early: the caller looks at its flags and its own deadline. */
        return gk_fail(err, GK_TIMEOUT, "%s: nothing came within %d ms", link->endpoint,
                       timeout_ms);
    }
    return gk_fail(err, GK_IO, "%s: poll: %s", link->endpoint, zmq_strerror(zmq_errno()));
}
