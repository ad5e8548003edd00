/*
 * Sockets: see link.h. One ZeroMQ context a link: a program has one link, and then nothing of
 * another one can hold up its end. One thread a link.
 */
#include "core/link.h"

#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <zmq.h>

#include "core/hash.h"
#include "core/zap.h"

/* Messages queued for one peer before send says GK_AGAIN, and taken ahead of receive. A lease is
 * about 2 KB, so a stuck worker costs the daemon some 2 MB. */
#define QUEUE_MESSAGES_MAX 1000
/* Connections that wait to be accepted. A thousand workers come at once when the daemon is back:
 * with 100, the default, most of their SYNs are dropped and come again seconds later. (The kernel
 * may hold it to net.core.somaxconn.) */
#define BACKLOG 4096
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
/* libzmq tries again after this and up to as much more. Each process has its own, so that those who
 * were cut off together do not come together. */
#define RECONNECT_LEAST_MS 100
#define RECONNECT_MORE_MS  700
/* On the local socket there is no crowd, and a try costs a system call that fails. */
#define RECONNECT_LOCAL_LEAST_MS 10
#define RECONNECT_LOCAL_MORE_MS  30
/* ZMQ_ZERO_COPY_RECV, which the header shows with the draft API alone. A message received without a
 * copy holds the whole buffer that it came in: 18 KB for a PING, a queue of them 18 MB (measured).
 */
#define OPTION_ZERO_COPY_RECV 10
#define DESCRIPTORS_LOOKED    4096 /* for the one that libzmq listens on: it was opened just now */

struct gk_link {
    void *context;
    void *socket;
    void *monitor;      /* of a link that connects: how often it was, and whether it was refused */
    struct gk_zap *zap; /* of a server with a key */
    bool is_router, borrows_context, refused;
    uint32_t connections; /* made so far, as the monitor has told */
    /* Of the last encode: kept, so that sending allocates nothing in the steady state. */
    struct gk_buf body;
    /* as bound or connected; the longest ipc path has 107 bytes, a host name 253 */
    char endpoints[GK_LINK_ENDPOINTS_MAX][256];
    uint32_t endpoint_count;
};

/* ------------------------------------------------------------------ making */

static bool is_ipc(const char *endpoint)
{
    return strncmp(endpoint, "ipc://", 6) == 0;
}

/* Of tcp: 1 to 65535; 0 and * are any, which only a listener can mean. */
static bool port_is_good(const char *port)
{
    size_t digits = strspn(port, "0123456789");
    return strcmp(port, "*") == 0 ||
           (digits > 0 && digits <= 5 && port[digits] == '\0' && strtol(port, NULL, 10) <= 65535);
}

enum gk_status gk_endpoint_check(const char *endpoint, struct gk_err *err)
{
    bool local = is_ipc(endpoint);
    if (!local && strncmp(endpoint, "tcp://", 6) != 0) {
        return gk_fail(err, GK_USAGE, "endpoint '%s': allowed are ipc:///path and tcp://host:port",
                       endpoint);
    }
    const size_t path_max = sizeof((struct sockaddr_un *)0)->sun_path - 1;
    const char *rest = endpoint + 6;
    if (*rest == '\0') {
        return gk_fail(err, GK_USAGE, "endpoint '%s': %s is missing", endpoint,
                       local ? "the path" : "host:port");
    }
    if (local && strlen(rest) > path_max) {
        return gk_fail(err, GK_USAGE,
                       "socket path '%s' has %zu bytes, this system allows %zu: choose a shorter "
                       "state folder (--state or $GKTUNE_STATE)",
                       rest, strlen(rest), path_max);
    }
    const char *colon = strrchr(rest, ':');
    if (!local && (strlen(rest) > 240 || !colon || colon == rest || !port_is_good(colon + 1))) {
        return gk_fail(err, GK_USAGE,
                       "endpoint '%s': tcp://host:port is needed, with a port up to 65535",
                       endpoint);
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
        {ZMQ_BACKLOG, BACKLOG},
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
        (void)zmq_ctx_set(link->context, OPTION_ZERO_COPY_RECV, 0);     /* else: more memory */
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
    memcpy(address.sun_path, path, size); /* gk_endpoint_check() saw that it fits */
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

/* The descriptor that libzmq listens on for this tcp endpoint: zap.c pauses it. */
static int listening_fd(const char *endpoint)
{
    long port =
        strtol(strrchr(endpoint, ':') + 1, NULL, 10); /* gk_endpoint_check() saw the colon */
    for (int fd = 0; fd < DESCRIPTORS_LOOKED; fd++) {
        int listens = 0;
        socklen_t size = sizeof listens;
        struct sockaddr_storage address = {0};
        if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || !listens) {
            continue;
        }
        size = sizeof address;
        if (getsockname(fd, (struct sockaddr *)&address, &size) != 0) {
            continue;
        }
        in_port_t found =
            address.ss_family == AF_INET    ? ((const struct sockaddr_in *)&address)->sin_port
            : address.ss_family == AF_INET6 ? ((const struct sockaddr_in6 *)&address)->sin6_port
                                            : 0;
        if (ntohs(found) == port) {
            return fd;
        }
    }
    return -1;
}

static enum gk_status bind_one(struct gk_link *link, const char *endpoint, struct gk_err *err)
{
    if (is_ipc(endpoint) && somebody_listens(endpoint + 6)) {
        return gk_fail(err, GK_BUSY, "%s: another process listens there", endpoint);
    }
    if (strchr(endpoint, '[')) { /* an IPv6 address in brackets */
        enum gk_status status = set_option(link, ZMQ_IPV6, 1, err);
        if (status != GK_OK) {
            return status;
        }
    }
    if (zmq_bind(link->socket, endpoint) != 0) {
        int error = zmq_errno();
        return gk_fail(err, error == EADDRINUSE ? GK_BUSY : GK_IO, "cannot listen on %s: %s",
                       endpoint, zmq_strerror(error));
    }
    char *bound = link->endpoints[link->endpoint_count++];
    size_t size = sizeof link->endpoints[0];
    if (zmq_getsockopt(link->socket, ZMQ_LAST_ENDPOINT, bound, &size) != 0) {
        (void)snprintf(bound, sizeof link->endpoints[0], "%s", endpoint);
    }
    int fd = is_ipc(endpoint) ? -1 : listening_fd(bound);
    if (fd >= 0) {
        gk_zap_tend(link->zap, fd);
    }
    return GK_OK;
}

/* The handler comes first, then ipc, then what makes the socket a CURVE server: options hold for
 * what is bound after them, and the local socket needs no key. */
static enum gk_status bind_all(struct gk_link *link, const struct gk_link_server *server,
                               struct gk_err *err)
{
    enum gk_status status = GK_OK;
    if (server->key) {
        status = gk_zap_start(link->context, &link->zap, err);
    }
    if (status == GK_OK && link->zap && server->keys) {
        status = gk_zap_set_keys(link->zap, server->keys, err);
    }
    for (uint32_t i = 0; status == GK_OK && i < server->endpoint_count; i++) {
        status = is_ipc(server->endpoints[i]) ? bind_one(link, server->endpoints[i], err) : GK_OK;
    }
    if (status == GK_OK && link->zap) {
        status = gk_zap_guard(link->socket, server->key, err);
    }
    for (uint32_t i = 0; status == GK_OK && i < server->endpoint_count; i++) {
        status = is_ipc(server->endpoints[i]) ? GK_OK : bind_one(link, server->endpoints[i], err);
    }
    return status;
}

static enum gk_status need_key(const char *endpoint, const struct gk_key *key, struct gk_err *err)
{
    return key || is_ipc(endpoint)
               ? GK_OK
               : gk_fail(err, GK_DENIED,
                         "%s: tcp is encrypted and needs a key (gktune keys new makes one)",
                         endpoint);
}

enum gk_status gk_link_serve(const struct gk_link_server *server, struct gk_link **link_out,
                             struct gk_err *err)
{
    struct gk_link *link = NULL;
    enum gk_status status = GK_OK;
    if (server->endpoint_count < 1 || server->endpoint_count > GK_LINK_ENDPOINTS_MAX) {
        return gk_fail(err, GK_USAGE, "%u endpoints; 1 to %d are allowed", server->endpoint_count,
                       GK_LINK_ENDPOINTS_MAX);
    }
    for (uint32_t i = 0; status == GK_OK && i < server->endpoint_count; i++) {
        status = gk_endpoint_check(server->endpoints[i], err);
        if (status == GK_OK) {
            status = need_key(server->endpoints[i], server->key, err);
        }
    }
    if (status == GK_OK) {
        status = create(true, NULL, &link, err);
    }
    if (status == GK_OK) {
        status = bind_all(link, server, err);
    }
    if (status != GK_OK) {
        gk_link_destroy(link);
        return status;
    }
    *link_out = link;
    return GK_OK;
}

enum gk_status gk_link_bind(const char *endpoint, struct gk_link **link_out, struct gk_err *err)
{
    const struct gk_link_server server = {.endpoints = &endpoint, .endpoint_count = 1};
    return gk_link_serve(&server, link_out, err);
}

/* Somebody who hears of connections. */
static enum gk_status listen_to(struct gk_link *link, struct gk_err *err)
{
    char monitor[64]; /* links beside each other share the names of a context */
    (void)snprintf(monitor, sizeof monitor, "inproc://gk.link.monitor.%p", (void *)link);
    int events = ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH;
    if (zmq_socket_monitor(link->socket, monitor, events) != 0) {
        return gk_fail(err, GK_INTERNAL, "monitor of a link: %s", zmq_strerror(zmq_errno()));
    }
    link->monitor = zmq_socket(link->context, ZMQ_PAIR);
    if (!link->monitor || zmq_connect(link->monitor, monitor) != 0) {
        return gk_fail(err, GK_INTERNAL, "monitor of a link: %s", zmq_strerror(zmq_errno()));
    }
    return GK_OK;
}

/* A client of CURVE. */
static enum gk_status take_key(struct gk_link *link, const struct gk_key *key, struct gk_err *err)
{
    static const struct {
        int option;
        size_t at;
        const char *what;
    } parts[] = {
        {ZMQ_CURVE_SERVERKEY, offsetof(struct gk_key, server_key), "the daemon's public key"},
        {ZMQ_CURVE_PUBLICKEY, offsetof(struct gk_key, public_key), "a public key"},
        {ZMQ_CURVE_SECRETKEY, offsetof(struct gk_key, secret_key), "a secret key"}};
    for (size_t i = 0; i < GK_ARRAY_COUNT(parts); i++) {
        const char *text = (const char *)key + parts[i].at;
        if (!*text) {
            return gk_fail(err, GK_INPUT, "key '%s' lacks %s", key->name, parts[i].what);
        }
        if (zmq_setsockopt(link->socket, parts[i].option, text, GK_KEY_TEXT_SIZE) != 0) {
            return gk_fail(err, GK_INPUT, "key '%s': %s: %s", key->name, parts[i].what,
                           zmq_strerror(zmq_errno()));
        }
    }
    return GK_OK;
}

static enum gk_status connect_socket(struct gk_link *link, const char *endpoint,
                                     const struct gk_key *key, struct gk_err *err)
{
    uint32_t random = 0;
    gk_random_bytes(&random, sizeof random);
    int wait_ms = is_ipc(endpoint)
                      ? RECONNECT_LOCAL_LEAST_MS + (int)(random % RECONNECT_LOCAL_MORE_MS)
                      : RECONNECT_LEAST_MS + (int)(random % RECONNECT_MORE_MS);
    enum gk_status status = set_option(link, ZMQ_RECONNECT_IVL, wait_ms, err);
    if (status == GK_OK && strchr(endpoint, '[')) {
        status = set_option(link, ZMQ_IPV6, 1, err);
    }
    if (status == GK_OK && !is_ipc(endpoint)) {
        status = take_key(link, key, err);
    }
    if (status == GK_OK) {
        status = listen_to(link, err);
    }
    if (status == GK_OK && zmq_connect(link->socket, endpoint) != 0) {
        int error = zmq_errno();
        status = gk_fail(err, error == EINVAL ? GK_USAGE : GK_IO, "cannot connect to %s: %s",
                         endpoint, zmq_strerror(error));
    }
    return status;
}

enum gk_status gk_link_connect_as(const char *endpoint, const struct gk_key *key,
                                  struct gk_link *beside, struct gk_link **link_out,
                                  struct gk_err *err)
{
    struct gk_link *link = NULL;
    enum gk_status status = gk_endpoint_check(endpoint, err);
    if (status == GK_OK) {
        status = need_key(endpoint, key, err);
    }
    if (status == GK_OK) {
        status = create(false, beside, &link, err);
    }
    if (status == GK_OK) {
        status = connect_socket(link, endpoint, key, err);
    }
    if (status != GK_OK) {
        gk_link_destroy(link);
        return status;
    }
    (void)snprintf(link->endpoints[link->endpoint_count++], sizeof link->endpoints[0], "%s",
                   endpoint);
    *link_out = link;
    return GK_OK;
}

enum gk_status gk_link_connect(const char *endpoint, struct gk_link **link_out, struct gk_err *err)
{
    return gk_link_connect_as(endpoint, NULL, NULL, link_out, err);
}

void gk_link_destroy(struct gk_link *link)
{
    if (!link) {
        return;
    }
    void *const sockets[] = {link->monitor, link->socket};
    for (size_t i = 0; i < GK_ARRAY_COUNT(sockets); i++) {
        if (sockets[i]) {
            (void)zmq_close(sockets[i]); /* fails only for what is not a socket */
        }
    }
    gk_zap_destroy(link->zap);
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
    return link->endpoints[0];
}

const char *gk_link_endpoint_at(const struct gk_link *link, uint32_t index)
{
    return index < link->endpoint_count ? link->endpoints[index] : NULL;
}

void *gk_link_socket(struct gk_link *link)
{
    return link->socket;
}

/* ------------------------------------------------------------------ who is let in */

const char *gk_refusal_name(enum gk_refusal reason)
{
    static const char *const names[GK_REFUSAL_COUNT] = {"unknown", "revoked", "host", "malformed",
                                                        "crowded"};
    return (unsigned)reason < GK_REFUSAL_COUNT ? names[reason] : "other";
}

enum gk_status gk_link_set_keys(struct gk_link *link, struct gk_key_list *keys, struct gk_err *err)
{
    if (!link->zap) { /* without a tcp endpoint there is nobody to let in */
        gk_key_list_fini(keys);
        return GK_OK;
    }
    return gk_zap_set_keys(link->zap, keys, err);
}

void gk_link_refusals(struct gk_link *link, struct gk_link_refusals *out)
{
    if (link->zap) {
        (void)gk_zap_refusals(link->zap, out);
    } else {
        *out = (struct gk_link_refusals){0};
    }
}

bool gk_link_is_guarded(const struct gk_link *link)
{
    return !link->zap || gk_zap_alive(link->zap);
}

enum gk_status gk_link_look_again(struct gk_link *link, struct gk_peer *peer, struct gk_err *err)
{
    return link->zap && peer->public_key[0]
               ? gk_zap_who(link->zap, peer->public_key, peer->host, peer, err)
               : GK_OK;
}

/* What the monitor has to tell. Of a message of two frames, the first one begins with the event. */
static void hear_monitor(struct gk_link *link)
{
    for (bool came = link->monitor != NULL; came;) {
        zmq_msg_t event, address;
        uint16_t number = 0;
        (void)zmq_msg_init(&event); /* cannot fail */
        (void)zmq_msg_init(&address);
        came = zmq_msg_recv(&event, link->monitor, ZMQ_DONTWAIT) >= 0;
        if (came && zmq_msg_size(&event) >= sizeof number) {
            memcpy(&number, zmq_msg_data(&event), sizeof number);
        }
        if (came && zmq_msg_more(&event)) {
            (void)zmq_msg_recv(&address, link->monitor, ZMQ_DONTWAIT); /* of the same message */
        }
        (void)zmq_msg_close(&event);
        (void)zmq_msg_close(&address);
        link->refused = link->refused || number == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH;
        link->connections += number == ZMQ_EVENT_HANDSHAKE_SUCCEEDED;
    }
}

uint32_t gk_link_connections(struct gk_link *link)
{
    hear_monitor(link);
    return link->connections;
}

void *gk_link_monitor(struct gk_link *link)
{
    return link->monitor;
}

enum gk_status gk_link_refused(struct gk_link *link, struct gk_err *err)
{
    hear_monitor(link);
    return link->refused ? gk_fail(err, GK_DENIED,
                                   "%s: the daemon refuses this key: it is not admitted there, was "
                                   "revoked, or may not be used from this host (gktune keys list "
                                   "on the daemon's host says)",
                                   link->endpoints[0])
                         : GK_OK;
}

/* Of the local socket libzmq says "localhost:uid:gid:pid", of the others a bare IP address. Its
 * folder is 0700, so the user is always ours or root; checked all the same. */
static bool is_local(const char *address)
{
    unsigned long user;
    char *end = NULL;
    if (!address || strncmp(address, "localhost:", 10) != 0) {
        return false;
    }
    user = strtoul(address + 10, &end, 10);
    return end != address + 10 && *end == ':' && (user == 0 || user == geteuid());
}

/* Not snprintf(), which reads a format twice for each message that comes. */
static void copy_text(char *to, size_t size, const char *from)
{
    size_t length = strnlen(from, size - 1);
    memcpy(to, from, length);
    to[length] = '\0';
}

/* Fills key, roles and host of the peer from the message's last frame. */
static enum gk_status identify(struct gk_link *link, zmq_msg_t *last, struct gk_peer *peer,
                               struct gk_err *err)
{
    if (!link->zap) { /* ipc alone */
        peer->roles = GK_ROLES_ALL;
        return GK_OK;
    }
    const char *user = zmq_msg_gets(last, "User-Id"), *address = zmq_msg_gets(last, "Peer-Address");
    if (user && *user && address) {
        copy_text(peer->host, sizeof peer->host, address);
        copy_text(peer->public_key, sizeof peer->public_key, user);
        return gk_zap_who(link->zap, user, address, peer, err);
    }
    if (is_local(address)) {
        peer->roles = GK_ROLES_ALL;
        return GK_OK;
    }
    return gk_fail(err, GK_DENIED, "%s: a peer without a key",
                   address ? address : "an address unknown");
}

/* ------------------------------------------------------------------ sending */

static enum gk_status send_frame(struct gk_link *link, const char *whom, const void *bytes,
                                 size_t size, int more, struct gk_err *err)
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
            return gk_fail(err, GK_AGAIN, "%s: the peer's queue of %d messages is full", whom,
                           QUEUE_MESSAGES_MAX);
        }
        if (error == EHOSTUNREACH) {
            return gk_fail(err, GK_CLOSED, "%s: the peer is gone", whom);
        }
        return gk_fail(err, GK_IO, "%s: send: %s", whom, zmq_strerror(error));
    }
}

static enum gk_status send_frames(struct gk_link *link, const struct gk_peer *peer,
                                  const unsigned char header[GK_HEADER_SIZE], const char *body,
                                  size_t size, struct gk_err *err)
{
    /* Behind a ROUTER are many: where it listens does not say who is meant. */
    const char *whom = !peer ? link->endpoints[0] : peer->host[0] ? peer->host : "the local socket";
    enum gk_status status = GK_OK;
    if (peer) {
        status = send_frame(link, whom, peer->bytes, peer->size, ZMQ_SNDMORE, err);
    }
    if (status == GK_OK) {
        status = send_frame(link, whom, header, GK_HEADER_SIZE, ZMQ_SNDMORE, err);
    }
    return status == GK_OK ? send_frame(link, whom, body, size, 0, err) : status;
}

enum gk_status gk_link_send(struct gk_link *link, const struct gk_peer *peer,
                            const struct gk_message *message, struct gk_err *err)
{
    GK_ASSERT(link->is_router == (peer != NULL));
    unsigned char header[GK_HEADER_SIZE];
    enum gk_status status = gk_wire_encode(message, header, &link->body, err);
    return status == GK_OK ? send_frames(link, peer, header, link->body.data, link->body.size, err)
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
        return gk_fail(err, error == EAGAIN ? GK_AGAIN : GK_IO, "%s: receive: %s",
                       link->endpoints[0], zmq_strerror(error));
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
    struct gk_peer peer = {0};
    if (status == GK_OK && first) {
        size_t size = zmq_msg_size(&frames[0]);
        peer.size = (uint8_t)(size > GK_PEER_ID_MAX ? 0 : size);
        memcpy(peer.bytes, zmq_msg_data(&frames[0]), peer.size);
        zmq_msg_t *last = count > wanted ? &extra : &frames[count - 1];
        status = identify(link, last, &peer, err);
        if (status == GK_OK && peer.size == 0) {
            /* A peer may choose its id; one that we cannot hold could not be told from others. */
            status = gk_fail(err, GK_PROTOCOL,
                             "the peer's routing id has %zu bytes; 1 to %d are "
                             "allowed",
                             size, GK_PEER_ID_MAX);
        }
        if (peer_out) {
            *peer_out = peer;
        }
    }
    if (status != GK_OK) {
        /* nothing there, the socket is broken, or nobody who may send */
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
        return gk_fail(err, GK_TIMEOUT, "%s: nothing came within %d ms", link->endpoints[0],
                       timeout_ms);
    }
    return gk_fail(err, GK_IO, "%s: poll: %s", link->endpoints[0], zmq_strerror(zmq_errno()));
}
