/* The log: escapes, levels, rates, a destination that fails. Time is the test's. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/json.h"
#include "core/log.h"
#include "tests/support/check.h"

enum { EV_FIRST, EV_SECOND, EV_QUIET };
static const struct gk_log_event events[] = {
    {"first", GK_LOG_INFO}, {"second", GK_LOG_ERROR}, {"quiet", GK_LOG_DEBUG}};

struct rig {
    struct gk_log *log;
    int fd;
    uint64_t now_ns;
    char text[65536];
};

static uint64_t monotonic(void *context)
{
    return ((struct rig *)context)->now_ns;
}

static uint64_t wall(void *context)
{
    (void)context;
    return UINT64_C(1700000000123);
}

static void rig_open(struct rig *rig, enum gk_log_format format, bool priorities)
{
    char path[] = "/tmp/gk-log-XXXXXX";
    struct gk_err err = {0};
    *rig = (struct rig){.now_ns = 1};
    rig->fd = mkstemp(path);
    assert_true(rig->fd >= 0);
    assert_int_equal(unlink(path), 0);
    const struct gk_log_setup setup = {.fd = rig->fd,
                                       .program = "prog",
                                       .format = format,
                                       .level = GK_LOG_INFO,
                                       .events = events,
                                       .event_count = 3,
                                       .clock = {monotonic, wall, rig},
                                       .priorities = priorities};
    assert_int_equal(gk_log_create(&setup, &rig->log, &err), GK_OK);
}

/* What was written so far. */
static const char *rig_text(struct rig *rig)
{
    ssize_t got = pread(rig->fd, rig->text, sizeof rig->text - 1, 0);
    assert_true(got >= 0);
    rig->text[got] = '\0';
    return rig->text;
}

static void rig_close(struct rig *rig)
{
    gk_log_destroy(rig->log);
    (void)close(rig->fd);
}

static unsigned lines_with(const char *text, const char *part)
{
    unsigned count = 0;
    for (const char *at = text; (at = strstr(at, part)); at++) {
        count++;
    }
    return count;
}

static void test_line(void **state)
{
    struct rig rig;
    (void)state;
    rig_open(&rig, GK_LOG_LOGFMT, false);
    assert_true(gk_log_begin(rig.log, EV_FIRST));
    gk_log_int(rig.log, "job", 12);
    gk_log_real(rig.log, "seconds", 0.5);
    gk_log_text(rig.log, "host", "gpu-1.example");
    gk_log_text(rig.log, "absent", NULL);
    gk_log_text(rig.log, "empty", "");
    gk_log_end(rig.log);
    assert_string_equal(rig_text(&rig),
                        "ts=2023-11-14T22:13:20.123Z level=info event=first program=prog job=12 "
                        "seconds=0.5 host=gpu-1.example empty=\"\"\n");
    rig_close(&rig);
    rig_open(&rig, GK_LOG_LOGFMT, true);
    gk_log_say(rig.log, EV_SECOND, "a %s", "b");
    assert_memory_equal(rig_text(&rig), "<3>ts=2023", 10);
    assert_non_null(strstr(rig.text, " text=\"a b\"\n"));
    rig_close(&rig);
}

/* A name that came over the wire ends no line, colours nothing and turns no text around. */
static void test_escapes(void **state)
{
    static const char evil[] = "a\nlevel=error event=fake\x1b[31m\"\\\r\t\x7f\xc2\x9b"
                               "2J \xe2\x80\xae \xff\xc0\x80 \xc3\xa9";
    struct rig rig;
    (void)state;
    rig_open(&rig, GK_LOG_LOGFMT, false);
    assert_true(gk_log_begin(rig.log, EV_FIRST));
    gk_log_text(rig.log, "name", evil);
    gk_log_end(rig.log);
    assert_contains(rig_text(&rig),
                    "name=\"a\\nlevel=error event=fake\\x1b[31m\\\"\\\\\\r\\t\\x7f\\x9b2J "
                    "\\u202e \\xff\\xc0\\x80 \xc3\xa9\"\n");
    assert_int_equal(lines_with(rig.text, "\n"), 1);
    rig_close(&rig);
    rig_open(&rig, GK_LOG_JSON, false);
    assert_true(gk_log_begin(rig.log, EV_FIRST));
    gk_log_text(rig.log, "name", evil);
    gk_log_int(rig.log, "n", -3);
    gk_log_end(rig.log);
    struct gk_json *json = NULL;
    struct gk_err err = {0};
    (void)rig_text(&rig);
    assert_ok(gk_json_parse(rig.text, strlen(rig.text), "line", &json, &err), err);
    assert_string_equal(gk_json_get_string(json, "event", ""), "first");
    assert_int_equal(gk_json_get_int(json, "n", 0), -3);
    assert_int_equal(lines_with(rig.text, "\n"), 1);
    assert_null(strchr(rig.text, '\x1b'));
    gk_json_free(json);
    rig_close(&rig);
}

/* A value is cut, a line that would be too long loses whole fields and says so. */
static void test_bounds(void **state)
{
    struct rig rig;
    static char huge[100000];
    (void)state;
    memset(huge, '"', sizeof huge - 1);
    rig_open(&rig, GK_LOG_JSON, false);
    assert_true(gk_log_begin(rig.log, EV_FIRST));
    for (int i = 0; i < 10; i++) {
        gk_log_text(rig.log, "x", huge);
    }
    gk_log_int(rig.log, "last", 1);
    gk_log_end(rig.log);
    assert_true(strlen(rig_text(&rig)) <= GK_LOG_LINE_MAX);
    assert_non_null(strstr(rig.text, ",\"last\":1,\"cut\":true}\n"));
    rig_close(&rig);
}

static void test_levels(void **state)
{
    struct rig rig;
    enum gk_log_level level;
    (void)state;
    rig_open(&rig, GK_LOG_LOGFMT, false);
    assert_false(gk_log_begin(rig.log, EV_QUIET));
    gk_log_text(rig.log, "not", "there");
    gk_log_end(rig.log);
    gk_log_set_level(rig.log, GK_LOG_DEBUG);
    assert_true(gk_log_begin(rig.log, EV_QUIET));
    gk_log_end(rig.log);
    gk_log_set_level(rig.log, GK_LOG_ERROR);
    gk_log_say(rig.log, EV_FIRST, "no");
    gk_log_say(rig.log, EV_SECOND, "yes");
    assert_int_equal(lines_with(rig_text(&rig), "\n"), 2);
    assert_null(strstr(rig.text, "there"));
    assert_true(gk_log_level_from("warn", &level) && level == GK_LOG_WARN);
    assert_false(gk_log_level_from("loud", &level));
    assert_false(gk_log_begin(NULL, EV_FIRST));
    gk_log_text(NULL, "a", "b");
    gk_log_end(NULL);
    rig_close(&rig);
}

/* A storm of one event is cut and counted; another event is not touched by it. */
static void test_rate(void **state)
{
    struct rig rig;
    (void)state;
    rig_open(&rig, GK_LOG_LOGFMT, false);
    for (int i = 0; i < 1000; i++) {
        gk_log_say(rig.log, EV_FIRST, "%d", i);
    }
    gk_log_say(rig.log, EV_SECOND, "heard");
    assert_int_equal(lines_with(rig_text(&rig), "event=first"), GK_LOG_BURST);
    assert_int_equal(lines_with(rig.text, "heard"), 1);
    gk_log_beat(rig.log); /* it goes on, and ten seconds are not over */
    assert_int_equal(lines_with(rig_text(&rig), "log_suppressed"), 0);
    rig.now_ns += UINT64_C(6500000000);
    gk_log_beat(rig.log);
    assert_non_null(strstr(rig_text(&rig), "event=log_suppressed program=prog of=first count=940"));
    gk_log_beat(rig.log);
    assert_int_equal(lines_with(rig_text(&rig), "log_suppressed"), 1);
    assert_int_equal(gk_log_counters(rig.log).suppressed, 940);
    rig_close(&rig);
}

/* A full disk: nothing stops, and the first line that is written again says how many are missing.
 */
static void test_lost(void **state)
{
    struct rig rig;
    struct gk_err err = {0};
    int pipes[2];
    char text[70000];
    (void)state;
    rig_open(&rig, GK_LOG_LOGFMT, false);
    gk_log_destroy(rig.log);
    assert_int_equal(pipe(pipes), 0); /* nobody reads yet */
    const struct gk_log_setup setup = {.fd = pipes[1],
                                       .program = "prog",
                                       .level = GK_LOG_INFO,
                                       .events = events,
                                       .event_count = 3,
                                       .clock = {monotonic, wall, &rig}};
    assert_int_equal(gk_log_create(&setup, &rig.log, &err), GK_OK);
    static char wide[1000];
    memset(wide, 'x', sizeof wide - 1);
    for (int i = 0; i < 200; i++) {
        rig.now_ns += UINT64_C(1000000000);
        gk_log_say(rig.log, EV_FIRST, "%s", wide);
    }
    uint64_t lost = gk_log_counters(rig.log).lost;
    assert_true(lost > 100);
    assert_int_equal(gk_log_counters(rig.log).lines[GK_LOG_INFO] + lost, 200);
    assert_true(read(pipes[0], text, sizeof text) > 0);
    gk_log_say(rig.log, EV_SECOND, "back");
    ssize_t got = read(pipes[0], text, sizeof text - 1);
    assert_true(got > 0);
    text[got] = '\0';
    char wanted[64];
    (void)snprintf(wanted, sizeof wanted, "event=log_lost program=prog count=%u\n", (unsigned)lost);
    assert_non_null(strstr(text, wanted));
    assert_non_null(strstr(text, "text=back\n"));
    (void)close(pipes[0]);
    (void)close(pipes[1]);
    rig_close(&rig);
}

/* /dev/full is a disk without room for anybody. */
static void test_full_disk(void **state)
{
    struct rig rig;
    (void)state;
    rig_open(&rig, GK_LOG_LOGFMT, false);
    int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    assert_true(full >= 0);
    assert_true(dup2(full, rig.fd) >= 0);
    gk_log_say(rig.log, EV_FIRST, "a");
    gk_log_say(rig.log, EV_FIRST, "b");
    assert_int_equal(gk_log_counters(rig.log).lost, 2);
    assert_int_equal(gk_log_counters(rig.log).lines[GK_LOG_INFO], 0);
    (void)close(full);
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_line),      cmocka_unit_test(test_escapes),
        cmocka_unit_test(test_bounds),    cmocka_unit_test(test_levels),
        cmocka_unit_test(test_rate),      cmocka_unit_test(test_lost),
        cmocka_unit_test(test_full_disk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
