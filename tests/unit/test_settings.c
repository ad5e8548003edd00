/* The config file and the command line: one table, all mistakes at once, with their lines. */
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
#include "daemon/settings.h"

static char path[64];

static void write_file(const char *text)
{
    struct gk_err err = {0};
    (void)snprintf(path, sizeof path, "/tmp/gk-settings-%d.json", (int)getpid());
    assert_int_equal(gk_file_store(path, text, strlen(text), &err), GK_OK);
}

/* All these texts are in the message; each mistake has its line. */
static void expect_refused(const char *text, const char *const *parts, size_t count)
{
    struct gk_settings settings;
    struct gk_err err = {0};
    write_file(text);
    gk_settings_init(&settings);
    enum gk_status status = gk_settings_load(&settings, path, &err);
    status = status == GK_OK ? gk_settings_finish(&settings, &err) : status;
    assert_int_not_equal(status, GK_OK);
    for (size_t i = 0; i < count; i++) {
        if (!strstr(err.text, parts[i])) {
            fail_msg("'%s' is not in: %s", parts[i], err.text);
        }
    }
    gk_settings_fini(&settings);
    (void)unlink(path);
}

static void test_good(void **state)
{
    struct gk_settings settings;
    struct gk_err err = {0};
    struct gk_buf shown = {0};
    (void)state;
    write_file("{\"note\": [\"a comment with \\\"listen\\\": {\"],\n"
               " \"state\": \"/var/lib/gktune\",\n"
               " \"listen\": [\"ipc:///run/a\", \"ipc:///run/b\"],\n"
               " \"http\": \"[::1]:9090\",\n"
               " \"log_level\": \"warn\", \"log_format\": \"json\",\n"
               " \"disk_low\": \"1GiB\", \"disk_resume\": \"2GiB\", \"ballast\": \"off\",\n"
               " \"migrate\": false}\n");
    gk_settings_init(&settings);
    assert_int_equal(gk_settings_load(&settings, path, &err), GK_OK);
    assert_int_equal(gk_settings_finish(&settings, &err), GK_OK);
    assert_string_equal(settings.state, "/var/lib/gktune");
    assert_int_equal(settings.listen_count, 2);
    assert_string_equal(settings.listen[1], "ipc:///run/b");
    assert_int_equal(settings.log_level, GK_LOG_WARN);
    assert_int_equal(settings.log_format, GK_LOG_JSON);
    assert_int_equal(settings.disk_low_bytes, 1 << 30);
    assert_int_equal(settings.ballast_bytes, 0);
    assert_false(settings.migrate);
    gk_settings_print(&settings, "/var/lib/gktune", "ipc:///run/a ipc:///run/b", &shown);
    assert_non_null(strstr(gk_buf_text(&shown), "state        /var/lib/gktune (line 2)\n"));
    assert_non_null(strstr(gk_buf_text(&shown), "log_format   json (line 5)\n"));
    assert_non_null(strstr(gk_buf_text(&shown), "migrate      false (line 7)\n"));
    gk_buf_fini(&shown);
    gk_settings_fini(&settings);
    (void)unlink(path);
}

static void test_all_mistakes(void **state)
{
    static const char *const parts[] = {
        ":2: unknown member 'htpp'; known are state, listen, http",
        ":3: listen: 'ipc://relative': ipc:///absolute/path or tcp://host:port is needed",
        ":4: disk_low: '64' has no unit",
        ":5: disk_resume: '1.5GiB' is no size",
        ":6: ballast: 7 is no text",
        ":7: log_level: 'loud': allowed are error, warn, info, debug",
        ":8: migrate: \"no\" is no truth value",
        ":9: http: 'localhost'",
        ":10: state: {} is no text",
    };
    (void)state;
    expect_refused("{\n"
                   "\"htpp\": \"127.0.0.1:1\",\n"
                   "\"listen\": \"ipc://relative\",\n"
                   "\"disk_low\": \"64\",\n"
                   "\"disk_resume\": \"1.5GiB\",\n"
                   "\"ballast\": 7,\n"
                   "\"log_level\": \"loud\",\n"
                   "\"migrate\": \"no\",\n"
                   "\"http\": \"localhost\",\n"
                   "\"state\": {}\n}",
                   parts, GK_ARRAY_COUNT(parts));
}

static void test_refused(void **state)
{
    static const struct {
        const char *text, *part;
    } rows[] = {
        {"[]", "an object is needed"},
        {"{\"state\": \"/a\",}", "line 1, column 16"},
        {"{\"state\": \"/a\", \"state\": \"/b\"}", "state"},
        {"{\"listen\": [\"ipc:///a\", 3]}", ":1: listen: 3 is no text or list of texts"},
        {"{\"listen\": [\"ipc:///a\", \"ipc:///a\"]}", "named twice"},
        {"{\"listen\": [\"ipc:///1\",\"ipc:///2\",\"ipc:///3\",\"ipc:///4\",\"ipc:///5\","
         "\"ipc:///6\",\"ipc:///7\",\"ipc:///8\",\"ipc:///9\"]}",
         "more than 8 endpoints"},
        {"{\"disk_low\": \"99999999999999999999MiB\"}", "is no size"},
        {"{\"disk_low\": \"1B\"}", "64KiB to"},
        {"{\"disk_low\": \"-1MiB\"}", "is no size"},
        {"{\"disk_low\": \"1 MiB\"}", "is no size"},
        {"{\"disk_low\": \"1MB\"}", "KiB, MiB, GiB or TiB"},
        {"{\"http\": \"127.0.0.1:70000\"}", "an address and a port are needed"},
        {"{\"http\": \"banana:80\"}", "http: 'banana:80': an address and a port are needed"},
        {"{\"http\": \"127.0.0.1:+80\"}", "an address and a port are needed"},
        {"{\"http\": \"[::1:80\"}", "an address and a port are needed"},
        {"{\"listen\": \"tcp://127.0.0.1:abc\"}", "with a port up to 65535"},
        {"{\"listen\": \"tcp://127.0.0.1:99999\"}", "with a port up to 65535"},
        {"{\"disk_low\": \"2MiB\", \"disk_resume\": \"2MiB\"}", "must be more than disk_low"},
        {"{\"state\": \"\"}", "empty path"},
    };
    (void)state;
    for (size_t i = 0; i < GK_ARRAY_COUNT(rows); i++) {
        expect_refused(rows[i].text, &rows[i].part, 1);
    }
}

/* The command line wins, also over a list; what the file says there is checked all the same. */
static void test_ranks(void **state)
{
    struct gk_settings settings;
    struct gk_err err = {0};
    (void)state;
    gk_settings_init(&settings);
    assert_int_equal(gk_settings_set(&settings, GK_SETTING_LISTEN, "ipc:///option",
                                     GK_SETTING_OPTION, "--listen", &err),
                     GK_OK);
    assert_int_equal(gk_settings_set(&settings, GK_SETTING_LOG_LEVEL, "error", GK_SETTING_OPTION,
                                     "--log-level", &err),
                     GK_OK);
    write_file("{\"listen\": [\"ipc:///file\"], \"log_level\": \"debug\", \"disk_low\": \"1MiB\"}");
    assert_int_equal(gk_settings_load(&settings, path, &err), GK_OK);
    assert_int_equal(settings.listen_count, 1);
    assert_string_equal(settings.listen[0], "ipc:///option");
    assert_int_equal(settings.log_level, GK_LOG_ERROR);
    assert_int_equal(settings.disk_low_bytes, 1 << 20);
    write_file("{\"log_level\": \"loud\"}");
    assert_int_equal(gk_settings_load(&settings, path, &err), GK_INPUT);
    gk_settings_fini(&settings);
    (void)unlink(path);
}

static void test_reload(void **state)
{
    struct gk_settings settings;
    struct gk_err err = {0};
    struct gk_buf restart = {0};
    (void)state;
    gk_settings_init(&settings);
    assert_int_equal(gk_settings_set(&settings, GK_SETTING_DISK_LOW, "3MiB", GK_SETTING_OPTION,
                                     "--disk-low", &err),
                     GK_OK);
    assert_int_equal(gk_settings_finish(&settings, &err), GK_OK);
    write_file("{\"log_level\": \"debug\", \"disk_low\": \"1MiB\", \"disk_resume\": \"9MiB\","
               " \"http\": \"127.0.0.1:1\"}");
    assert_int_equal(gk_settings_reload(&settings, path, &restart, &err), GK_OK);
    assert_int_equal(settings.log_level, GK_LOG_DEBUG);
    assert_int_equal(settings.disk_low_bytes, 3 << 20); /* the command line's */
    assert_int_equal(settings.disk_resume_bytes, 9 << 20);
    assert_null(settings.http);
    assert_string_equal(gk_buf_text(&restart), "http");
    /* A mistake anywhere: nothing changes. */
    write_file("{\"log_level\": \"error\", \"disk_resume\": \"1MiB\"}");
    assert_int_equal(gk_settings_reload(&settings, path, &restart, &err), GK_INPUT);
    assert_int_equal(settings.log_level, GK_LOG_DEBUG);
    assert_int_equal(settings.disk_resume_bytes, 9 << 20);
    gk_buf_fini(&restart);
    gk_settings_fini(&settings);
    (void)unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),    cmocka_unit_test(test_all_mistakes),
        cmocka_unit_test(test_refused), cmocka_unit_test(test_ranks),
        cmocka_unit_test(test_reload),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
