/*
 * A link in a libuv loop. The first test sets the trap that loop.h describes, first for a plain
 * poll handle, which must be caught by it (else the test would prove nothing), then for
 * gk_loop_watch.
 */
#include "core/loop.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

#include <cmocka.h>

static char folder[] = "/tmp/gk-test-loop-XXXXXX";
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

/* One daemon link in a loop and one client link, both on this thread. */
struct scene {
    uv_loop_t loop;
    uv_timer_t timer; /* sends between receives */
    uv_timer_t limit; /* ends a test that would hang */
    struct gk_link *daemon, *client;
    struct gk_loop_link *watch;
    struct gk_peer peer;
    unsigned received, wanted, per_call, calls;
    unsigned sent_in_timer;
    bool out_of_time;
};

static uv_os_sock_t descriptor(struct gk_link *link)
{
    uv_os_sock_t fd = -1;
    size_t size = sizeof fd;
    assert_int_equal(zmq_getsockopt(gk_link_socket(link), ZMQ_FD, &fd, &size), 0);
    return fd;
}

static void send_one(struct gk_link *link, const struct gk_peer *peer)
{
    struct gk_message message = {.type = GK_MSG_PING, .body = gk_json_new_object()};
    struct gk_err err = {0};
    if (gk_link_send(link, peer, &message, &err) != GK_OK) {
        fail_msg("%s", err.text);
    }
    gk_message_fini(&message);
}

static void take(struct scene *scene)
{
    for (unsigned i = 0; i < scene->per_call; i++) {
        struct gk_message message = {0};
        enum gk_status status = gk_link_receive(scene->daemon, &scene->peer, &message, NULL);
        if (status == GK_AGAIN) {
            return;
        }
        assert_int_equal(status, GK_OK);
        gk_message_fini(&message);
        if (++scene->received == scene->wanted) {
            uv_stop(&scene->loop);
            return;
        }
    }
}

static void on_ready(void *context)
{
    struct scene *scene = context;
    scene->calls++;
    take(scene);
}

static void on_limit(uv_timer_t *timer)
{
    struct scene *scene = timer->data;
    scene->out_of_time = true;
    uv_stop(&scene->loop);
}

static void open_scene(struct scene *scene, uint64_t limit_ms)
{
    *scene = (struct scene){.per_call = 64, .wanted = 1};
    assert_int_equal(gk_link_bind(endpoint, &scene->daemon, NULL), GK_OK);
    assert_int_equal(gk_link_connect(endpoint, &scene->client, NULL), GK_OK);
    /* the daemon learns the client's routing id from a first message */
    send_one(scene->client, NULL);
    assert_int_equal(gk_link_wait(scene->daemon, 5000, NULL), GK_OK);
    take(scene);
    assert_int_equal(scene->received, 1);
    scene->received = 0;
    assert_int_equal(uv_loop_init(&scene->loop), 0);
    assert_int_equal(uv_timer_init(&scene->loop, &scene->timer), 0);
    assert_int_equal(uv_timer_init(&scene->loop, &scene->limit), 0);
    scene->timer.data = scene->limit.data = scene;
    assert_int_equal(uv_timer_start(&scene->limit, on_limit, limit_ms, 0), 0);
}

static void close_scene(struct scene *scene)
{
    uv_close((uv_handle_t *)&scene->timer, NULL);
    uv_close((uv_handle_t *)&scene->limit, NULL);
    gk_loop_unwatch(scene->watch);
    assert_int_equal(uv_run(&scene->loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(uv_loop_close(&scene->loop), 0); /* EBUSY if a handle were left */
    gk_link_destroy(scene->client);
    gk_link_destroy(scene->daemon);
}

/* The trap: messages arrive, then a send eats the edge, then nobody sends any more. */
static void spring_trap(uv_timer_t *timer)
{
    struct scene *scene = timer->data;
    for (unsigned i = 0; i < scene->wanted; i++) {
        send_one(scene->client, NULL);
    }
    assert_int_equal(gk_link_wait(scene->daemon, 5000, NULL), GK_OK); /* they have arrived */
    send_one(scene->daemon, &scene->peer);
    /* A first send on a pipe may itself cause one more signal: eat until the descriptor stays
     * quiet. */
    struct pollfd quiet = {.fd = descriptor(scene->daemon), .events = POLLIN};
    for (int i = 0; i < 100 && poll(&quiet, 1, 20) > 0; i++) {
        assert_int_equal(gk_link_wait(scene->daemon, 0, NULL), GK_OK);
    }
}

static void naive_poll(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    struct scene *scene = poll->data;
    scene->calls++;
    take(scene);
}

static void test_plain_poll_handle_is_trapped(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene, 300);
    uv_poll_t naive;
    naive.data = &scene;
    assert_int_equal(uv_poll_init_socket(&scene.loop, &naive, descriptor(scene.daemon)), 0);
    assert_int_equal(uv_poll_start(&naive, UV_READABLE, naive_poll), 0);
    scene.wanted = 1;
    assert_int_equal(uv_timer_start(&scene.timer, spring_trap, 1, 0), 0);
    (void)uv_run(&scene.loop, UV_RUN_DEFAULT);
    assert_true(scene.out_of_time); /* the message is there and nobody was told */
    assert_int_equal(scene.received, 0);
    assert_int_equal(gk_link_wait(scene.daemon, 0, NULL), GK_OK);
    uv_close((uv_handle_t *)&naive, NULL);
    close_scene(&scene);
}

static void test_watch_is_not_trapped(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene, 10000);
    assert_int_equal(gk_loop_watch(&scene.loop, scene.daemon, on_ready, &scene, &scene.watch, NULL),
                     GK_OK);
    scene.wanted = 20;
    assert_int_equal(uv_timer_start(&scene.timer, spring_trap, 1, 0), 0);
    (void)uv_run(&scene.loop, UV_RUN_DEFAULT);
    assert_false(scene.out_of_time);
    assert_int_equal(scene.received, 20);
    close_scene(&scene);
}

/* Many rounds: each turn of the timer sends both ways, so that edges are eaten all the time. */
static void on_busy_timer(uv_timer_t *timer)
{
    struct scene *scene = timer->data;
    if (scene->sent_in_timer >= scene->wanted) {
        (void)uv_timer_stop(timer);
        return;
    }
    send_one(scene->client, NULL);
    scene->sent_in_timer++;
    if (scene->sent_in_timer % 3 != 0) {
        send_one(scene->daemon, &scene->peer);
    }
    struct gk_message message = {0};
    while (gk_link_receive(scene->client, NULL, &message, NULL) == GK_OK) {
        gk_message_fini(&message);
    }
}

static void test_sends_between_receives_strand_nothing(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene, 20000);
    assert_int_equal(gk_loop_watch(&scene.loop, scene.daemon, on_ready, &scene, &scene.watch, NULL),
                     GK_OK);
    scene.wanted = 900;
    assert_int_equal(uv_timer_start(&scene.timer, on_busy_timer, 1, 1), 0);
    (void)uv_run(&scene.loop, UV_RUN_DEFAULT);
    assert_false(scene.out_of_time);
    assert_int_equal(scene.received, 900);
    close_scene(&scene);
}

/* A callback that takes one message and returns is called again, without further traffic. */
static void test_callback_may_stop_early(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene, 10000);
    assert_int_equal(gk_loop_watch(&scene.loop, scene.daemon, on_ready, &scene, &scene.watch, NULL),
                     GK_OK);
    scene.wanted = 200;
    scene.per_call = 1;
    assert_int_equal(uv_timer_start(&scene.timer, spring_trap, 1, 0), 0);
    (void)uv_run(&scene.loop, UV_RUN_DEFAULT);
    assert_false(scene.out_of_time);
    assert_int_equal(scene.received, 200);
    assert_true(scene.calls >= 200);
    close_scene(&scene);
}

/* An idle link must not keep the loop spinning: at most a few turns in 200 ms of silence. */
static void count_turn(uv_check_t *check)
{
    unsigned *turns = check->data;
    (*turns)++;
}

static void test_idle_link_does_not_spin(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene, 200);
    assert_int_equal(gk_loop_watch(&scene.loop, scene.daemon, on_ready, &scene, &scene.watch, NULL),
                     GK_OK);
    unsigned turns = 0;
    uv_check_t check;
    check.data = &turns;
    assert_int_equal(uv_check_init(&scene.loop, &check), 0);
    assert_int_equal(uv_check_start(&check, count_turn), 0);
    (void)uv_run(&scene.loop, UV_RUN_DEFAULT);
    assert_true(scene.out_of_time);
    assert_true(turns < 50);
    assert_int_equal(scene.calls, 0);
    uv_close((uv_handle_t *)&check, NULL);
    close_scene(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain_poll_handle_is_trapped),
        cmocka_unit_test(test_watch_is_not_trapped),
        cmocka_unit_test(test_sends_between_receives_strand_nothing),
        cmocka_unit_test(test_callback_may_stop_early),
        cmocka_unit_test(test_idle_link_does_not_spin),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
