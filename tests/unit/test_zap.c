/*
 * Who comes in over tcp: no key, an unknown one, the right one, a revoked one; and the trap: CURVE
 * without a handler that is enforced lets anybody in.
 */
#include "core/zap.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

#include <cmocka.h>

#include "core/hash.h"

#define LONG_MS  10000 /* what has to come */
#define SHORT_MS 700   /* what must not come: ten times what the others need */

static struct gk_key server_key;

struct scene {
    struct gk_link *daemon;
    struct gk_key_list list;
    char local[64], tcp[256];
};

static struct gk_key new_key(const char *name)
{
    struct gk_key key;
    assert_int_equal(gk_key_make(name, &key, NULL), GK_OK);
    memcpy(key.server_key, server_key.public_key, sizeof key.server_key);
    return key;
}

static void admit(struct gk_key_list *list, const struct gk_key *key, uint8_t roles,
                  const char *hosts)
{
    struct gk_admitted one = {.roles = roles, .is_pool = roles == GK_ROLE_WORK};
    (void)snprintf(one.name, sizeof one.name, "%s", key->name);
    memcpy(one.public_key, key->public_key, sizeof one.public_key);
    one.hosts = (char *)(uintptr_t)hosts; /* copied, not changed */
    assert_int_equal(gk_key_list_add(list, &one, NULL), GK_OK);
}

static void copy_list(struct gk_key_list *to, const struct gk_key_list *from)
{
    *to = (struct gk_key_list){0};
    for (uint32_t i = 0; i < from->count; i++) {
        assert_int_equal(gk_key_list_add(to, &from->keys[i], NULL), GK_OK);
    }
}

static void open_scene(struct scene *scene)
{
    struct gk_err err = {0};
    struct gk_key_list list;
    (void)snprintf(scene->local, sizeof scene->local, "ipc:///tmp/gk-test-zap-%d", (int)getpid());
    /* In this order on purpose: the local socket must stay without keys all the same. */
    const char *endpoints[] = {"tcp://127.0.0.1:*", scene->local};
    copy_list(&list, &scene->list);
    const struct gk_link_server server = {
        .endpoints = endpoints, .endpoint_count = 2, .key = &server_key, .keys = &list};
    if (gk_link_serve(&server, &scene->daemon, &err) != GK_OK) {
        fail_msg("%s", err.text);
    }
    for (uint32_t i = 0; gk_link_endpoint_at(scene->daemon, i); i++) {
        const char *endpoint = gk_link_endpoint_at(scene->daemon, i);
        if (strncmp(endpoint, "tcp://", 6) == 0) {
            (void)snprintf(scene->tcp, sizeof scene->tcp, "%s", endpoint);
        }
    }
    assert_true(scene->tcp[0] && !strchr(scene->tcp, '*'));
}

static void close_scene(struct scene *scene)
{
    gk_link_destroy(scene->daemon);
    gk_key_list_fini(&scene->list);
    (void)unlink(scene->local + 6);
}

static enum gk_status try_ping(struct gk_link *link, uint64_t seq)
{
    struct gk_message message = {.type = GK_MSG_PING, .seq = seq, .body = gk_json_new_object()};
    enum gk_status status = gk_link_send(link, NULL, &message, NULL);
    gk_message_fini(&message);
    return status;
}

static void send_ping(struct gk_link *link, uint64_t seq)
{
    assert_int_equal(try_ping(link, seq), GK_OK);
}

/* The next message; GK_TIMEOUT. */
static enum gk_status next(struct gk_link *daemon, int wait_ms, uint64_t *seq, struct gk_peer *peer,
                           struct gk_err *err)
{
    struct gk_message message = {0};
    enum gk_status status = gk_link_receive(daemon, peer, &message, err);
    if (status == GK_AGAIN) {
        status = gk_link_wait(daemon, wait_ms, err);
        status = status == GK_OK ? gk_link_receive(daemon, peer, &message, err) : status;
    }
    *seq = message.seq;
    gk_message_fini(&message);
    return status;
}

static void expect(struct scene *scene, uint64_t seq, const char *key, uint8_t roles)
{
    struct gk_peer peer = {0};
    struct gk_err err = {0};
    uint64_t got = 0;
    enum gk_status status = next(scene->daemon, LONG_MS, &got, &peer, &err);
    if (status != GK_OK) {
        fail_msg("%s", err.text);
    }
    assert_int_equal(got, seq);
    assert_string_equal(peer.key, key);
    assert_int_equal(peer.roles, roles);
    assert_string_equal(peer.host, key[0] ? "127.0.0.1" : "");
}

static void expect_nothing(struct scene *scene)
{
    struct gk_peer peer = {0};
    uint64_t got = 0;
    assert_int_equal(next(scene->daemon, SHORT_MS, &got, &peer, NULL), GK_TIMEOUT);
}

static struct gk_link *join(struct scene *scene, const struct gk_key *key)
{
    struct gk_link *link = NULL;
    struct gk_err err = {0};
    if (gk_link_connect_as(scene->tcp, key, NULL, &link, &err) != GK_OK) {
        fail_msg("%s", err.text);
    }
    return link;
}

static void expect_refused(struct gk_link *link)
{
    struct gk_err err = {0};
    for (int i = 0; gk_link_refused(link, NULL) == GK_OK && i < LONG_MS / 10; i++) {
        (void)gk_link_wait(link, 10, NULL);
    }
    assert_int_equal(gk_link_refused(link, &err), GK_DENIED);
    assert_non_null(strstr(err.text, "refuses this key"));
}

static void test_right_key(void **state)
{
    (void)state;
    struct scene scene = {0};
    struct gk_key worker = new_key("worker"), boss = new_key("boss");
    admit(&scene.list, &worker, GK_ROLE_WORK, NULL);
    admit(&scene.list, &boss, GK_ROLE_ADMIN | GK_ROLE_SUBMIT, "127.0.0.0/8");
    open_scene(&scene);
    struct gk_link *a = join(&scene, &worker), *b = join(&scene, &boss), *local = NULL;
    assert_int_equal(gk_link_connect(scene.local, &local, NULL), GK_OK);
    send_ping(a, 1);
    expect(&scene, 1, "worker", GK_ROLE_WORK);
    send_ping(b, 2);
    expect(&scene, 2, "boss", GK_ROLE_ADMIN | GK_ROLE_SUBMIT);
    send_ping(local, 3);
    expect(&scene, 3, "", GK_ROLES_ALL);
    for (uint64_t i = 4; i < 100; i++) { /* also what libzmq fetched ahead */
        send_ping(a, i);
    }
    for (uint64_t i = 4; i < 100; i++) {
        expect(&scene, i, "worker", GK_ROLE_WORK);
    }
    assert_true(gk_link_is_guarded(scene.daemon));
    assert_int_equal(gk_link_refused(a, NULL), GK_OK);
    gk_link_destroy(a);
    gk_link_destroy(b);
    gk_link_destroy(local);
    close_scene(&scene);
}

static void test_wrong_keys(void **state)
{
    (void)state;
    struct scene scene = {0};
    struct gk_key good = new_key("good"), unknown = new_key("unknown"), far = new_key("far"),
                  gone = new_key("gone"), fooled = new_key("good");
    admit(&scene.list, &good, GK_ROLE_WORK, NULL);
    admit(&scene.list, &far, GK_ROLE_WORK, "10.0.0.0/8");
    admit(&scene.list, &gone, GK_ROLE_WORK, NULL);
    assert_int_equal(gk_key_list_revoke(&scene.list, "gone", 1, "stolen", NULL), GK_OK);
    open_scene(&scene);
    /* No key at all: a plain socket. */
    void *context = zmq_ctx_new(), *raw = zmq_socket(context, ZMQ_DEALER);
    int linger = 0;
    assert_int_equal(zmq_setsockopt(raw, ZMQ_LINGER, &linger, sizeof linger), 0);
    assert_int_equal(zmq_connect(raw, scene.tcp), 0);
    assert_true(zmq_send(raw, "x", 1, 0) >= 0);
    struct gk_link *links[4] = {join(&scene, &unknown), join(&scene, &far), join(&scene, &gone)};
    /* Another daemon's public key: it is not this one that we want to talk to. */
    memcpy(fooled.server_key, unknown.public_key, sizeof fooled.server_key);
    links[3] = join(&scene, &fooled);
    for (size_t i = 0; i < GK_ARRAY_COUNT(links);
         i++) { /* a refusal may be there before the send */
        enum gk_status status = try_ping(links[i], i);
        assert_true(status == GK_OK || status == GK_AGAIN);
    }
    for (size_t i = 0; i < 3; i++) {
        expect_refused(links[i]);
    }
    expect_nothing(&scene);
    struct gk_link_refusals refusals;
    gk_link_refusals(scene.daemon, &refusals);
    assert_true(refusals.counts[GK_REFUSED_UNKNOWN] >= 1);
    assert_true(refusals.counts[GK_REFUSED_HOST] >= 1);
    assert_true(refusals.counts[GK_REFUSED_REVOKED] >= 1);
    assert_true(refusals.line_count >= 3);
    for (uint32_t i = 0; i < refusals.line_count; i++) {
        assert_non_null(strstr(refusals.lines[i], "127.0.0.1"));
        assert_null(strstr(refusals.lines[i], unknown.public_key)); /* its first digits will do */
    }
    /* And the right one still comes in. */
    struct gk_link *right = join(&scene, &good);
    send_ping(right, 9);
    expect(&scene, 9, "good", GK_ROLE_WORK);
    gk_link_destroy(right);
    for (size_t i = 0; i < GK_ARRAY_COUNT(links); i++) {
        gk_link_destroy(links[i]);
    }
    (void)zmq_close(raw);
    (void)zmq_ctx_term(context);
    close_scene(&scene);
}

/* Revoked while connected: what it sends from then on, and what was on its way, is refused. */
static void test_revoked_live(void **state)
{
    (void)state;
    struct scene scene = {0};
    struct gk_key a = new_key("a"), b = new_key("b");
    struct gk_key_list list;
    struct gk_peer peer = {0};
    struct gk_err err = {0};
    uint64_t seq = 0;
    admit(&scene.list, &a, GK_ROLE_WORK, NULL);
    admit(&scene.list, &b, GK_ROLE_WORK, NULL);
    open_scene(&scene);
    struct gk_link *link = join(&scene, &a), *other = join(&scene, &b);
    send_ping(link, 1);
    expect(&scene, 1, "a", GK_ROLE_WORK);
    assert_int_equal(next(scene.daemon, 0, &seq, &peer, &err), GK_TIMEOUT);
    send_ping(link, 2);
    assert_int_equal(gk_link_wait(scene.daemon, LONG_MS, NULL), GK_OK); /* it is in the queue */
    assert_int_equal(gk_key_list_revoke(&scene.list, "a", 1, "stolen", NULL), GK_OK);
    copy_list(&list, &scene.list);
    assert_int_equal(gk_link_set_keys(scene.daemon, &list, NULL), GK_OK);
    assert_int_equal(next(scene.daemon, LONG_MS, &seq, &peer, &err), GK_DENIED);
    assert_non_null(strstr(err.text, "key a was revoked: stolen"));
    assert_true(peer.size > 0);
    assert_int_equal(peer.roles, 0);
    send_ping(link, 3);
    assert_int_equal(next(scene.daemon, LONG_MS, &seq, &peer, &err), GK_DENIED);
    send_ping(other, 4);
    expect(&scene, 4, "b", GK_ROLE_WORK);
    gk_link_destroy(link);
    gk_link_destroy(other);
    close_scene(&scene);
}

/* ------------------------------------------------------------------ the trap */

/* A CURVE server made with this module's own means, handler on or off, and a key that nobody
 * knows. */
static bool stranger_comes_in(bool with_handler)
{
    void *context = zmq_ctx_new(), *router = zmq_socket(context, ZMQ_ROUTER);
    struct gk_zap *zap = NULL;
    struct gk_key stranger = new_key("stranger");
    struct gk_link *link = NULL;
    char endpoint[256];
    size_t size = sizeof endpoint;
    int linger = 0;
    assert_int_equal(gk_zap_start(context, &zap, NULL), GK_OK);
    assert_true(gk_zap_alive(zap));
    assert_int_equal(gk_zap_guard(router, &server_key, NULL), GK_OK);
    assert_int_equal(zmq_setsockopt(router, ZMQ_LINGER, &linger, sizeof linger), 0);
    assert_int_equal(zmq_bind(router, "tcp://127.0.0.1:*"), 0);
    assert_int_equal(zmq_getsockopt(router, ZMQ_LAST_ENDPOINT, endpoint, &size), 0);
    if (!with_handler) {
        gk_zap_stop(zap);
        assert_false(gk_zap_alive(zap));
    }
    assert_int_equal(gk_link_connect_as(endpoint, &stranger, NULL, &link, NULL), GK_OK);
    send_ping(link, 1);
    zmq_pollitem_t item = {.socket = router, .events = ZMQ_POLLIN};
    bool came = zmq_poll(&item, 1, SHORT_MS) > 0;
    gk_link_destroy(link);
    (void)zmq_close(router);
    gk_zap_destroy(zap);
    (void)zmq_ctx_term(context);
    return came;
}

/* Red when the domain is empty, or missing. */
static void test_trap_domain(void **state)
{
    (void)state;
    assert_false(stranger_comes_in(true));
}

/* Red when the handler is not enforced: libzmq lets all in when nobody answers its question. */
static void test_trap_enforced(void **state)
{
    (void)state;
    assert_false(stranger_comes_in(false));
}

static void test_tcp_needs_a_key(void **state)
{
    (void)state;
    struct gk_link *link = NULL;
    struct gk_err err = {0};
    struct gk_key half = new_key("half");
    assert_int_equal(gk_link_bind("tcp://127.0.0.1:*", &link, &err), GK_DENIED);
    assert_int_equal(gk_link_connect("tcp://127.0.0.1:9", &link, &err), GK_DENIED);
    assert_non_null(strstr(err.text, "gktune keys new"));
    half.server_key[0] = '\0';
    assert_int_equal(gk_link_connect_as("tcp://127.0.0.1:9", &half, NULL, &link, &err), GK_INPUT);
    assert_non_null(strstr(err.text, "the daemon's public key"));
    assert_null(link);
}

/* A routing id that is chosen by the peer and too long to be kept: nobody is taken for another. */
static void test_long_routing_id(void **state)
{
    (void)state;
    struct scene scene = {0};
    struct gk_peer peer = {0};
    struct gk_err err = {0};
    uint64_t seq = 0;
    open_scene(&scene);
    void *context = zmq_ctx_new(), *raw = zmq_socket(context, ZMQ_DEALER);
    char id[200];
    int linger = 0;
    memset(id, 'i', sizeof id);
    assert_int_equal(zmq_setsockopt(raw, ZMQ_ROUTING_ID, id, sizeof id), 0);
    assert_int_equal(zmq_setsockopt(raw, ZMQ_LINGER, &linger, sizeof linger), 0);
    assert_int_equal(zmq_connect(raw, scene.local), 0);
    assert_true(zmq_send(raw, "x", 1, ZMQ_SNDMORE) >= 0 && zmq_send(raw, "x", 1, 0) >= 0);
    assert_int_equal(next(scene.daemon, LONG_MS, &seq, &peer, &err), GK_PROTOCOL);
    assert_non_null(strstr(err.text, "200 bytes"));
    (void)zmq_close(raw);
    (void)zmq_ctx_term(context);
    close_scene(&scene);
}

/* ------------------------------------------------------------------ descriptors */

static uint64_t cpu_ms(void)
{
    struct timespec now;
    assert_int_equal(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now), 0);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* At the limit libzmq alone would try to accept for ever, with a full core. Here new connections
 * wait before it, the CPU stays idle, and when there is room again everybody comes in. */
static void test_descriptor_limit(void **state)
{
    (void)state;
    struct scene scene = {0};
    struct gk_key good = new_key("good");
    struct rlimit before, low;
    struct gk_link_refusals refusals = {0};
    int sockets[200];
    size_t count = GK_ARRAY_COUNT(sockets);
    admit(&scene.list, &good, GK_ROLE_WORK, NULL);
    open_scene(&scene);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    address.sin_port = htons((uint16_t)strtol(strrchr(scene.tcp, ':') + 1, NULL, 10));
    for (size_t i = 0; i < count; i++) {
        sockets[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_true(sockets[i] >= 0);
    }
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    low = before;
    low.rlim_cur = (rlim_t)sockets[count - 1] + 80;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    for (size_t i = 0; i < count; i++) { /* all at once: they take every descriptor there is */
        assert_int_equal(connect(sockets[i], (const struct sockaddr *)&address, sizeof address), 0);
    }
    for (int i = 0; refusals.counts[GK_REFUSED_CROWDED] == 0 && i < LONG_MS / 20; i++) {
        (void)usleep(20000);
        gk_link_refusals(scene.daemon, &refusals);
    }
    assert_int_equal(refusals.counts[GK_REFUSED_CROWDED], 1);
    assert_non_null(strstr(refusals.lines[0], "no new connections"));
    int fd = -1; /* files of our own can be opened again as soon as the held ones are given back */
    for (int i = 0; fd < 0 && i < LONG_MS / 20; i++) {
        (void)usleep(20000);
        fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    }
    assert_true(fd >= 0);
    assert_int_equal(close(fd), 0);
    uint64_t start = cpu_ms();
    (void)usleep(1000000);
    assert_true(cpu_ms() - start < 300); /* a spinning thread would have taken all of it */
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(close(sockets[i]), 0);
    }
    struct gk_link *right = join(&scene, &good);
    send_ping(right, 9);
    expect(&scene, 9, "good", GK_ROLE_WORK);
    gk_link_destroy(right);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    close_scene(&scene);
}

static int setup(void **state)
{
    (void)state;
    return gk_hash_setup(NULL) == GK_OK && gk_key_make("gktuned", &server_key, NULL) == GK_OK ? 0
                                                                                              : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_right_key),       cmocka_unit_test(test_wrong_keys),
        cmocka_unit_test(test_revoked_live),    cmocka_unit_test(test_trap_domain),
        cmocka_unit_test(test_trap_enforced),   cmocka_unit_test(test_tcp_needs_a_key),
        cmocka_unit_test(test_long_routing_id), cmocka_unit_test(test_descriptor_limit),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
