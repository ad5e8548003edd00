/* What a service manager would hear, on a socket of the test's own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/notify.h"

static int listen_at(const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t size = strlen(name);
    memcpy(address.sun_path, name, size + 1);
    if (name[0] == '@') {
        address.sun_path[0] = '\0';
    }
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address,
                          (socklen_t)(offsetof(struct sockaddr_un, sun_path) + size)),
                     0);
    return fd;
}

static void hear(int fd, const char *wanted)
{
    char text[2048];
    ssize_t got = recv(fd, text, sizeof text - 1, 0);
    assert_true(got >= 0);
    text[got] = '\0';
    assert_string_equal(text, wanted);
}

static void test_messages(void **state)
{
    char path[64], abstract[64];
    (void)state;
    (void)snprintf(path, sizeof path, "/tmp/gk-notify-%d", (int)getpid());
    (void)snprintf(abstract, sizeof abstract, "@gk-notify-%d", (int)getpid());
    const char *const names[] = {path, abstract};
    for (size_t i = 0; i < 2; i++) {
        struct gk_notify notify;
        int fd = listen_at(names[i]);
        assert_int_equal(gk_notify_init(&notify, names[i], "30000000", NULL, 7, NULL), GK_OK);
        assert_int_equal(notify.watchdog_us, 30000000);
        assert_true(gk_notify_send(&notify, "READY=1\nSTATUS=%d workers", 3));
        hear(fd, "READY=1\nSTATUS=3 workers");
        gk_notify_fini(&notify);
        assert_false(gk_notify_send(&notify, "STOPPING=1"));
        (void)close(fd);
    }
    assert_int_equal(unlink(path), 0);
}

/* A manager that does not read must not hold the loop. */
static void test_never_blocks(void **state)
{
    char abstract[64];
    struct gk_notify notify;
    (void)state;
    (void)snprintf(abstract, sizeof abstract, "@gk-notify-slow-%d", (int)getpid());
    int fd = listen_at(abstract);
    assert_int_equal(gk_notify_init(&notify, abstract, NULL, NULL, 7, NULL), GK_OK);
    bool taken = true;
    for (int i = 0; taken && i < 100000; i++) {
        taken = gk_notify_send(&notify, "WATCHDOG=1");
    }
    assert_false(taken);
    gk_notify_fini(&notify);
    (void)close(fd);
}

static void test_environment(void **state)
{
    struct gk_notify notify;
    struct gk_err err = {0};
    char longer[300];
    (void)state;
    assert_int_equal(gk_notify_init(&notify, NULL, "1", NULL, 7, &err), GK_OK);
    assert_int_equal(notify.fd, -1);
    assert_int_equal(notify.watchdog_us, 0);
    assert_false(gk_notify_send(&notify, "READY=1"));
    gk_notify_fini(&notify);
    assert_int_equal(gk_notify_init(&notify, "@x", "5000000", "8", 7, &err), GK_OK);
    assert_int_equal(notify.watchdog_us, 0); /* of another process */
    gk_notify_fini(&notify);
    assert_int_equal(gk_notify_init(&notify, "@x", "5s", "7", 7, &err), GK_OK);
    assert_int_equal(notify.watchdog_us, 0);
    gk_notify_fini(&notify);
    assert_int_equal(gk_notify_init(&notify, "relative", NULL, NULL, 7, &err), GK_USAGE);
    assert_non_null(strstr(err.text, "relative"));
    memset(longer, '/', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    assert_int_equal(gk_notify_init(&notify, longer, NULL, NULL, 7, &err), GK_USAGE);
    gk_notify_fini(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_messages),
        cmocka_unit_test(test_never_blocks),
        cmocka_unit_test(test_environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
