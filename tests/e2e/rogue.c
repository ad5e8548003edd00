/*
 * A client that means harm, for rogue.sh: with a key that is admitted, or with bare sockets.
 *
 *     gk_rogue ENDPOINT KEY frames      one message of each broken kind, each of them a protocol
 * error gk_rogue ENDPOINT KEY oversize    a frame one byte over the limit gk_rogue ENDPOINT KEY
 * multipart N one message of N frames of 256 KiB gk_rogue ENDPOINT KEY worker      says HELLO, then
 * results and releases for leases of others gk_rogue ENDPOINT KEY deaf N      N requests, of which
 * no answer is ever read gk_rogue ENDPOINT -   silent N    N connections that say nothing; prints
 * how many were closed gk_rogue ENDPOINT -   garbage N   N connections that send random bytes
 *
 * Prints one line and exits 0 when it could do what it wanted; what it did is the daemon's to bear.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

#include "core/hash.h"
#include "core/keys.h"

#define FRAME_BYTES (256u << 10)
#define STRANGERS_S 13

static void die(const char *what)
{
    (void)fprintf(stderr, "gk_rogue: %s: %s\n", what, strerror(errno));
    exit(2);
}

static void *raw_socket(void *context, const char *endpoint, const struct gk_key *key)
{
    void *socket = zmq_socket(context, ZMQ_DEALER);
    int linger = 10000, timeout = 20000;
    if (zmq_setsockopt(socket, ZMQ_CURVE_SERVERKEY, key->server_key, GK_KEY_TEXT_SIZE) != 0 ||
        zmq_setsockopt(socket, ZMQ_CURVE_PUBLICKEY, key->public_key, GK_KEY_TEXT_SIZE) != 0 ||
        zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, key->secret_key, GK_KEY_TEXT_SIZE) != 0 ||
        zmq_setsockopt(socket, ZMQ_LINGER, &linger, sizeof linger) != 0 ||
        zmq_setsockopt(socket, ZMQ_SNDTIMEO, &timeout, sizeof timeout) != 0 ||
        zmq_connect(socket, endpoint) != 0) {
        die("connect");
    }
    return socket;
}

static void send_bytes(void *socket, const void *bytes, size_t size, bool more)
{
    if (zmq_send(socket, bytes, size, more ? ZMQ_SNDMORE : 0) < 0) {
        die("send");
    }
}

/* A header and a body that need not go together. */
static void send_pair(void *socket, const struct gk_message *message, const char *body, int bend)
{
    unsigned char header[GK_HEADER_SIZE];
    struct gk_buf text = {0};
    struct gk_err err = {0};
    if (gk_wire_encode(message, header, &text, &err) != GK_OK) {
        errno = EINVAL;
        die(err.text);
    }
    if (bend >= 0) {
        header[bend] ^= 0xff;
    }
    const char *bytes = body ? body : gk_buf_text(&text);
    if (body) { /* sealed as it is: only the text is wrong */
        (void)gk_wire_seal(message, header, body, strlen(body), &err);
    }
    send_bytes(socket, header, sizeof header, true);
    send_bytes(socket, bytes, strlen(bytes), false);
    gk_buf_fini(&text);
}

static int frames(void *socket)
{
    static const char *const bodies[] = {
        "{\"verb\":\"\xff\xfe\"}",           "{\"verb\":NaN}", "[1,2]", "{", "{\"a\":1,\"a\":2}",
        "{\"n\":99999999999999999999999999}"};
    struct gk_message request = {.type = GK_MSG_REQUEST, .seq = 1, .body = gk_json_new_object()};
    char zeros[64] = {0};
    int count = 0;
    send_bytes(socket, zeros, 64, false), count++;
    send_bytes(socket, zeros, 64, true), send_bytes(socket, zeros, 2, false), count++;
    send_bytes(socket, zeros, 64, true), send_bytes(socket, zeros, 0, true);
    send_bytes(socket, zeros, 1, false), count++;
    static const int bent[] = {0, 4, 8, 12, 60}; /* magic, version, flags, length, checksum */
    for (size_t i = 0; i < GK_ARRAY_COUNT(bent); i++) {
        send_pair(socket, &request, NULL, bent[i]), count++;
    }
    for (size_t i = 0; i < GK_ARRAY_COUNT(bodies); i++) {
        send_pair(socket, &request, bodies[i], -1), count++;
    }
    char *deep = malloc(200001); /* nested a hundred thousand times */
    if (!deep) {
        die("memory");
    }
    memset(deep, '[', 200000);
    deep[200000] = '\0';
    send_pair(socket, &request, deep, -1), count++;
    free(deep);
    gk_message_fini(&request);
    return count;
}

static int multipart(void *socket, int count)
{
    char *bytes = calloc(1, FRAME_BYTES);
    if (!bytes) {
        die("memory");
    }
    for (int i = 0; i < count; i++) {
        send_bytes(socket, bytes, FRAME_BYTES, i + 1 < count);
    }
    free(bytes);
    return count;
}

/* As a worker that lies: what it is not told it makes up. */
static int lie(void *socket)
{
    static const char hello[] =
        "{\"boot_id\":\"b\",\"build\":\"rogue\",\"cores\":1,\"devices\":[],\"held\":[{\"state\":"
        "\"queued\",\"token\":1},{\"state\":\"running\",\"token\":2}],\"host\":\"rogue\",\"nvrtc\":"
        "\"13.0\",\"pid\":1,\"spool_id\":\"rogue\",\"version_max\":1,\"version_min\":1}";
    struct gk_message message = {.type = GK_MSG_HELLO, .seq = 1, .body = gk_json_new_object()};
    struct gk_message answer = {0};
    unsigned char header[GK_HEADER_SIZE];
    char body[4096];
    send_pair(socket, &message, hello, -1);
    if (zmq_recv(socket, header, sizeof header, 0) != GK_HEADER_SIZE) {
        die("no answer to HELLO");
    }
    int size = zmq_recv(socket, body, sizeof body, 0);
    struct gk_err err = {0};
    if (size < 0 || gk_wire_decode(header, sizeof header, body, (size_t)size, &answer, &err) ||
        answer.type != GK_MSG_WELCOME) {
        errno = EPROTO;
        die("the answer to HELLO is no WELCOME");
    }
    message.session = answer.session;
    gk_message_fini(&answer);
    for (int token = 1; token <= 400; token++) { /* some of them are out */
        message.type = token % 3 == 0 ? GK_MSG_STARTED : GK_MSG_RESULT;
        message.token = (uint64_t)token;
        message.seq++;
        send_pair(socket, &message, "{\"phase\":\"run\",\"record\":{\"stage\":\"done\"}}", -1);
    }
    gk_message_fini(&message);
    return 400;
}

static int deaf(void *socket, int count)
{
    static const char body[] = "{\"verb\":\"jobs\"}";
    struct gk_message message = {.type = GK_MSG_REQUEST, .seq = 1, .body = gk_json_new_object()};
    int small = 1;
    (void)zmq_setsockopt(socket, ZMQ_RCVHWM, &small, sizeof small); /* a known option */
    for (int i = 0; i < count; i++) {
        message.seq = (uint64_t)i + 1;
        send_pair(socket, &message, body, -1);
    }
    gk_message_fini(&message);
    (void)sleep(3); /* stays connected and reads nothing */
    return count;
}

/* ------------------------------------------------------------------ without a key */

static int plain_connect(const char *endpoint)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    const char *port = strrchr(endpoint, ':');
    char host[64];
    if (!port || strncmp(endpoint, "tcp://", 6) != 0) {
        errno = EINVAL;
        die(endpoint);
    }
    (void)snprintf(host, sizeof host, "%.*s", (int)(port - endpoint - 6), endpoint + 6);
    address.sin_port = htons((uint16_t)strtol(port + 1, NULL, 10));
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || inet_pton(AF_INET, host, &address.sin_addr) != 1 ||
        connect(fd, (const struct sockaddr *)&address, sizeof address) != 0) {
        die("connect");
    }
    return fd;
}

static time_t now_s(void)
{
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_MONOTONIC, &now); /* a known clock */
    return now.tv_sec;
}

/* Opens `count` connections, says nothing (or rubbish), and counts those that are closed within
 * STRANGERS_S: the handshake may take 5. */
static int strangers(const char *endpoint, int count, bool noisy)
{
    struct pollfd *fds = calloc((size_t)count, sizeof *fds);
    int closed = 0;
    if (!fds) {
        die("memory");
    }
    for (int i = 0; i < count; i++) {
        fds[i] = (struct pollfd){.fd = plain_connect(endpoint), .events = POLLIN};
        unsigned char bytes[512];
        gk_random_bytes(bytes, sizeof bytes);
        if (noisy && send(fds[i].fd, bytes, sizeof bytes, MSG_NOSIGNAL) < 0 && errno != EPIPE &&
            errno != ECONNRESET) {
            die("send");
        }
    }
    /* By the clock: each greeting of the daemon ends a poll as well. */
    for (time_t until = now_s() + STRANGERS_S; closed < count && now_s() < until;) {
        (void)poll(fds, (nfds_t)count, 100);
        for (int i = 0; i < count; i++) {
            char byte[256];
            ssize_t got =
                fds[i].fd >= 0 && fds[i].revents ? recv(fds[i].fd, byte, sizeof byte, 0) : 1;
            if (got == 0 || (got < 0 && errno == ECONNRESET)) {
                (void)close(fds[i].fd);
                fds[i].fd = -1; /* poll passes over it */
                closed++;
            }
        }
    }
    free(fds);
    return closed;
}

int main(int argc, char **argv)
{
    if (argc < 4 || gk_hash_setup(NULL) != GK_OK) {
        (void)fprintf(stderr, "gk_rogue ENDPOINT KEY|- MODE [N]\n");
        return 2;
    }
    const char *mode = argv[3];
    int count = argc > 4 ? (int)strtol(argv[4], NULL, 10) : 1;
    if (strcmp(mode, "silent") == 0 || strcmp(mode, "garbage") == 0) {
        (void)printf("%d\n", strangers(argv[1], count, strcmp(mode, "garbage") == 0));
        return 0;
    }
    struct gk_key key = {0};
    struct gk_err err = {0};
    if (gk_key_load(argv[2], &key, &err) != GK_OK) {
        (void)fprintf(stderr, "gk_rogue: %s\n", err.text);
        return 2;
    }
    void *context = zmq_ctx_new(), *socket = raw_socket(context, argv[1], &key);
    if (strcmp(mode, "oversize") == 0) {
        char *bytes = calloc(1, GK_BODY_MAX + 1);
        send_bytes(socket, bytes, GK_BODY_MAX + 1, false);
        free(bytes);
        count = 1;
    } else {
        count = strcmp(mode, "frames") == 0      ? frames(socket)
                : strcmp(mode, "multipart") == 0 ? multipart(socket, count)
                : strcmp(mode, "worker") == 0    ? lie(socket)
                                                 : deaf(socket, count);
    }
    (void)printf("%d\n", count);
    (void)fflush(stdout);
    (void)zmq_close(socket);
    (void)zmq_ctx_term(context); /* waits until all is sent, at most LINGER */
    return 0;
}
