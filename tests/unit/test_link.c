/* Sockets: both directions, order, what is refused, what a full or gone peer looks like. */
#include "core/link.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <zmq.h>

#include <cmocka.h>

static char folder[] = "/tmp/gk-test-link-XXXXXX";
static char endpoint[64];

static int make_folder(void **state)
{
    (void)state;
    if (!mkdtemp(folder)) {
        return -1;
    }
    (void)snprintf(endpoint, sizeof endpoint, "ipc://%s/s", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    (void)unlink(endpoint + 6);
    return rmdir(folder);
}

static struct gk_message ping(uint64_t seq)
{
    struct gk_message message = {.type = GK_MSG_PING, .seq = seq, .body = gk_json_new_object()};
    return message;
}

static void send_ping(struct gk_link *link, const struct gk_peer *peer, uint64_t seq)
{
    struct gk_message message = ping(seq);
    struct gk_err err = {0};
    if (gk_link_send(link, peer, &message, &err) != GK_OK) {
        fail_msg("send %d: %s", (int)seq, err.text);
    }
    gk_message_fini(&message);
}

/* Waits for one message, up to 5 s. */
static uint64_t receive_seq(struct gk_link *link, struct gk_peer *peer)
{
    struct gk_message message = {0};
    struct gk_err err = {0};
    for (;;) {
        enum gk_status status = gk_link_receive(link, peer, &message, &err);
        if (status == GK_OK) {
            break;
        }
        assert_int_equal(status, GK_AGAIN);
        if (gk_link_wait(link, 5000, &err) != GK_OK) {
            fail_msg("%s", err.text);
        }
    }
    uint64_t seq = message.seq;
    gk_message_fini(&message);
    return seq;
}

static void test_both_directions(void **state)
{
    (void)state;
    struct gk_link *daemon = NULL, *a = NULL, *b = NULL;
    assert_int_equal(gk_link_bind(endpoint, &daemon, NULL), GK_OK);
    assert_int_equal(gk_link_connect(endpoint, &a, NULL), GK_OK);
    assert_int_equal(gk_link_connect(endpoint, &b, NULL), GK_OK);
    assert_string_equal(gk_link_endpoint(daemon), endpoint);
    struct gk_peer peer_a = {0}, peer_b = {0};
    struct gk_message message = {0};
    struct gk_err err = {0};
    assert_int_equal(gk_link_receive(daemon, &peer_a, &message, &err), GK_AGAIN);
    assert_int_equal(gk_link_wait(daemon, 0, &err), GK_TIMEOUT);
    for (uint64_t i = 1; i <= 100; i++) {
        send_ping(a, NULL, i);
    }
    for (uint64_t i = 1; i <= 100; i++) {
        assert_int_equal(receive_seq(daemon, &peer_a), i);
    }
    send_ping(b, NULL, 500);
    assert_int_equal(receive_seq(daemon, &peer_b), 500);
    assert_true(peer_a.size > 0 && peer_b.size == peer_a.size);
    assert_memory_not_equal(peer_a.bytes, peer_b.bytes, peer_a.size);
    send_ping(daemon, &peer_b, 7);
    send_ping(daemon, &peer_a, 8);
    assert_int_equal(receive_seq(a, NULL), 8);
    assert_int_equal(receive_seq(b, NULL), 7);
    gk_link_destroy(a);
    gk_link_destroy(b);
    gk_link_destroy(daemon);
    gk_link_destroy(NULL);
}

static void test_address_in_use(void **state)
{
    (void)state;
    struct gk_link *daemon = NULL, *second = NULL, *client = NULL;
    struct gk_err err = {0};
    assert_int_equal(gk_link_bind(endpoint, &daemon, NULL), GK_OK);
    assert_int_equal(gk_link_bind(endpoint, &second, &err), GK_BUSY);
    assert_non_null(strstr(err.text, endpoint));
    /* and the first one is still there */
    assert_int_equal(gk_link_connect(endpoint, &client, NULL), GK_OK);
    send_ping(client, NULL, 3);
    assert_int_equal(receive_seq(daemon, NULL), 3);
    gk_link_destroy(client);
    gk_link_destroy(daemon);
}

static void test_stale_socket_file(void **state)
{
    (void)state;
    /* What a killed daemon leaves behind: a socket file that nobody listens on. */
    (void)unlink(endpoint + 6);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    (void)snprintf(address.sun_path, sizeof address.sun_path, "%s", endpoint + 6);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(close(fd), 0);
    assert_int_equal(access(endpoint + 6, F_OK), 0);
    struct gk_link *daemon = NULL;
    assert_int_equal(gk_link_bind(endpoint, &daemon, NULL), GK_OK);
    gk_link_destroy(daemon);
}

static void test_bad_endpoints(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",         "ipc://",   "tcp://",      "tcp://noport",  "http://x:1", "/path",
        "tcp://h:", "tcp://:1", "tcp://h:abc", "tcp://h:65536", "tcp://h:1x"};
    struct gk_link *link = NULL;
    struct gk_err err = {0};
    for (size_t i = 0; i < GK_ARRAY_COUNT(bad); i++) {
        assert_int_equal(gk_link_bind(bad[i], &link, &err), GK_USAGE);
        assert_non_null(strstr(err.text, bad[i]));
        assert_int_equal(gk_link_connect(bad[i], &link, &err), GK_USAGE);
    }
    char path[400] = "ipc:///tmp/";
    memset(path + strlen(path), 'd', 200);
    assert_int_equal(gk_link_bind(path, &link, &err), GK_USAGE);
    assert_non_null(strstr(err.text, "has 205 bytes, this system allows 107"));
    assert_int_equal(gk_link_connect(path, &link, &err), GK_USAGE);
    assert_int_equal(gk_link_bind("ipc:///no/such/folder/s", &link, &err), GK_IO);
    assert_null(link);
}

/* Mandatory routing: a full queue and a gone peer are told, never a silent loss. */
static void test_full_and_gone(void **state)
{
    (void)state;
    struct gk_link *daemon = NULL, *client = NULL;
    struct gk_peer peer = {0};
    assert_int_equal(gk_link_bind(endpoint, &daemon, NULL), GK_OK);
    assert_int_equal(gk_link_connect(endpoint, &client, NULL), GK_OK);
    send_ping(client, NULL, 1);
    assert_int_equal(receive_seq(daemon, &peer), 1);

    struct gk_message message = ping(0);
    char *text = malloc(2001);
    assert_non_null(text);
    memset(text, 'x', 2000);
    text[2000] = '\0';
    assert_true(gk_json_set_string(message.body, "x", text));
    free(text);
    enum gk_status status = GK_OK;
    struct gk_err err = {0};
    uint64_t sent = 0;
    while (sent < 100000) {
        message.seq = sent + 1;
        status = gk_link_send(daemon, &peer, &message, &err);
        if (status != GK_OK) {
            break;
        }
        sent++;
    }
    assert_int_equal(status, GK_AGAIN);
    for (uint64_t i = 1; i <= sent; i++) { /* everything that was accepted arrives, in order */
        assert_int_equal(receive_seq(client, NULL), i);
    }
    gk_link_destroy(client);
    /* The daemon's side hears of it from its own thread: ask until it does. */
    for (int i = 0; i < 5000 && status != GK_CLOSED; i++) {
        status = gk_link_send(daemon, &peer, &message, &err);
        (void)gk_link_wait(daemon, 1, NULL);
    }
    assert_int_equal(status, GK_CLOSED);
    assert_string_equal(err.text, "the local socket: the peer is gone"); /* whom, not where */
    gk_message_fini(&message);
    gk_link_destroy(daemon);
}

/* libzmq connects again by itself: the link counts, and counts no connection twice. */
static void test_connections_are_counted(void **state)
{
    (void)state;
    struct gk_link *daemon = NULL, *client = NULL;
    struct gk_peer peer = {0};
    assert_int_equal(gk_link_connect(endpoint, &client, NULL), GK_OK);
    assert_int_equal(gk_link_connections(client), 0); /* nobody is there yet */
    for (uint64_t i = 1; i <= 3; i++) {
        assert_int_equal(gk_link_bind(endpoint, &daemon, NULL), GK_OK);
        for (int waits = 0; waits < 5000 && gk_link_connections(client) < i; waits++) {
            (void)gk_link_wait(client, 1, NULL);
        }
        send_ping(client, NULL, i);
        assert_int_equal(receive_seq(daemon, &peer), i);
        assert_int_equal(gk_link_connections(client), i);
        gk_link_destroy(daemon);
    }
    assert_int_equal(gk_link_refused(client, NULL), GK_OK); /* of a key nobody spoke */
    gk_link_destroy(client);
}

static void send_frames(void *socket, unsigned count, size_t size)
{
    char *bytes = calloc(1, size + 1);
    assert_non_null(bytes);
    for (unsigned i = 0; i < count; i++) {
        assert_true(zmq_send(socket, bytes, size, i + 1 < count ? ZMQ_SNDMORE : 0) >= 0);
    }
    free(bytes);
}

static void expect_malformed(struct gk_link *daemon, struct gk_peer *peer, const char *part)
{
    struct gk_err err = {0};
    struct gk_message message = {0};
    assert_int_equal(gk_link_wait(daemon, 5000, NULL), GK_OK);
    assert_int_equal(gk_link_receive(daemon, peer, &message, &err), GK_PROTOCOL);
    assert_true(peer->size > 0); /* it is said whose it was */
    if (!strstr(err.text, part)) {
        fail_msg("'%s' is not in '%s'", part, err.text);
    }
}

/* Whatever a stranger sends costs that message and no other. */
static void test_malformed_messages(void **state)
{
    (void)state;
    struct gk_link *daemon = NULL, *client = NULL;
    struct gk_peer peer = {0};
    assert_int_equal(gk_link_bind(endpoint, &daemon, NULL), GK_OK);
    void *context = zmq_ctx_new(), *raw = zmq_socket(context, ZMQ_DEALER);
    assert_int_equal(zmq_connect(raw, endpoint), 0);
    send_frames(raw, 1, 0);
    expect_malformed(daemon, &peer, "1 frames");
    send_frames(raw, 1, 64);
    expect_malformed(daemon, &peer, "1 frames");
    send_frames(raw, 2, 64);
    expect_malformed(daemon, &peer, "GKT1");
    send_frames(raw, 2, 3);
    expect_malformed(daemon, &peer, "the header has 3 bytes");
    send_frames(raw, 3, 64);
    expect_malformed(daemon, &peer, "3 frames");
    send_frames(raw, 4000, 1000);
    expect_malformed(daemon, &peer, "4000 frames");
    assert_int_equal(gk_link_connect(endpoint, &client, NULL), GK_OK);
    send_ping(client, NULL, 11);
    assert_int_equal(receive_seq(daemon, &peer), 11);
    (void)zmq_close(raw);
    (void)zmq_ctx_term(context);
    gk_link_destroy(client);
    gk_link_destroy(daemon);
}

/* A frame over the limit ends that connection; others go on. */
static void test_frame_over_the_limit(void **state)
{
    (void)state;
    struct gk_link *daemon = NULL, *client = NULL;
    assert_int_equal(gk_link_bind(endpoint, &daemon, NULL), GK_OK);
    void *context = zmq_ctx_new(), *raw = zmq_socket(context, ZMQ_DEALER);
    int linger = 0;
    assert_int_equal(zmq_setsockopt(raw, ZMQ_LINGER, &linger, sizeof linger), 0);
    assert_int_equal(zmq_connect(raw, endpoint), 0);
    send_frames(raw, 1, GK_BODY_MAX + 1);
    assert_int_equal(gk_link_connect(endpoint, &client, NULL), GK_OK);
    struct gk_peer peer = {0};
    send_ping(client, NULL, 12);
    assert_int_equal(receive_seq(daemon, &peer), 12);
    struct gk_message message = {0};
    assert_int_equal(gk_link_receive(daemon, &peer, &message, NULL), GK_AGAIN);
    (void)zmq_close(raw);
    (void)zmq_ctx_term(context);
    gk_link_destroy(client);
    gk_link_destroy(daemon);
}

/* Nobody there: nothing blocks, neither sending nor the end. */
static void test_nobody_listens(void **state)
{
    (void)state;
    struct gk_link *client = NULL;
    assert_int_equal(gk_link_connect(endpoint, &client, NULL), GK_OK);
    send_ping(client, NULL, 1);
    assert_int_equal(gk_link_wait(client, 20, NULL), GK_TIMEOUT);
    gk_link_destroy(client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both_directions),    cmocka_unit_test(test_address_in_use),
        cmocka_unit_test(test_stale_socket_file),  cmocka_unit_test(test_bad_endpoints),
        cmocka_unit_test(test_full_and_gone),      cmocka_unit_test(test_connections_are_counted),
        cmocka_unit_test(test_malformed_messages), cmocka_unit_test(test_frame_over_the_limit),
        cmocka_unit_test(test_nobody_listens),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
