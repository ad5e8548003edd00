/* Command-line options, budgets, tables, state folders, and help made from the table of commands.
 */
#include "cli/command.h"
#include "cli/follow.h"
#include "cli/manual.h"
#include "cli/table.h"
#include "core/state_dir.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct gk_option own[] = {{"shapes", "FILE", "", false},
                                       {"device", "DEV", "", true},
                                       {"fresh", NULL, "", false},
                                       {NULL, NULL, NULL, false}};

static enum gk_status parse(const char *const *argv, int argc, struct gk_options *options,
                            struct gk_err *err)
{
    return gk_options_parse(own, gk_common_options, argc, (char *const *)(uintptr_t)argv, options,
                            err);
}

static void test_parse(void **state)
{
    (void)state;
    static const char *const argv[] = {"gemm", "--shapes", "f",          "--device=a", "--device",
                                       "b",    "--fresh",  "--state=/s", "--",         "--odd"};
    struct gk_options options;
    assert_int_equal(parse(argv, GK_ARRAY_COUNT(argv), &options, NULL), GK_OK);
    assert_int_equal(options.operand_count, 2);
    assert_string_equal(options.operands[1], "--odd");
    assert_string_equal(gk_options_get(&options, "shapes"), "f");
    assert_string_equal(gk_options_at(&options, "device", 1), "b");
    assert_null(gk_options_at(&options, "device", 2));
    assert_true(gk_options_has(&options, "fresh"));
    assert_string_equal(gk_options_get(&options, "state"), "/s");
    assert_null(gk_options_get(&options, "connect"));
}

/* The best time is that of the problem which recorded last, and each problem keeps its own. */
static void test_best_so_far(void **state)
{
    static const struct {
        const char *event;
        double best;
    } steps[] = {
        {"{\"kind\":\"asked\",\"task\":1,\"time_ns\":5.0}", 0},
        {"{\"kind\":\"recorded\",\"task\":1,\"ok\":false}", 0},
        {"{\"kind\":\"recorded\",\"task\":1,\"time_ns\":50.0}", 50},
        {"{\"kind\":\"recorded\",\"task\":2,\"time_ns\":7.0}", 7},
        {"{\"kind\":\"recorded\",\"task\":1,\"time_ns\":60.0}", 50},
        {"{\"kind\":\"recorded\",\"task\":1,\"time_ns\":40.0}", 40},
        {"{\"kind\":\"recorded\",\"task\":65,\"time_ns\":90.0}", 90},
    };
    struct gk_follow follow = {0};
    (void)state;
    for (size_t i = 0; i < GK_ARRAY_COUNT(steps); i++) {
        struct gk_json *event = NULL;
        assert_int_equal(
            gk_json_parse(steps[i].event, strlen(steps[i].event), "event", &event, NULL), GK_OK);
        gk_follow_recorded(&follow, event);
        assert_true(follow.best_ns == steps[i].best);
        gk_json_free(event);
    }
}

/* A long last cell: whole in a pipe, between words on a terminal, below its row where that is
 * narrow. */
static void test_wrapped(void **state)
{
    static const struct {
        uint32_t width;
        const char *text;
    } cases[] = {
        {0, "id  message\n 7  one two three four five six seven eight nine ten eleven twelve\n"},
        {50,
         "id  message\n 7  one two three four five six seven eight nine\n    ten eleven twelve\n"},
        {24, "id  message\n 7  \n    one two three four\n    five six seven eight\n    nine ten "
             "eleven\n"
             "    twelve\n"},
        {100, "id  message\n 7  one two three four five six seven eight nine ten eleven twelve\n"},
    };
    (void)state;
    for (size_t i = 0; i < GK_ARRAY_COUNT(cases); i++) {
        struct gk_table table;
        struct gk_buf out = {0};
        gk_table_init(&table, ">id|message");
        table.width = cases[i].width;
        gk_table_cell(&table, "7");
        gk_table_cell(&table, "one two three four five six seven eight nine ten eleven twelve");
        gk_table_render(&table, &out);
        assert_string_equal(gk_buf_text(&out), cases[i].text);
        gk_table_fini(&table);
        gk_buf_fini(&out);
    }
}

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *argv[4];
        const char *part;
    } bad[] = {
        {{"--shape", "f", NULL}, "did you mean '--shapes'"},
        {{"--quux", NULL}, "unknown option '--quux'"},
        {{"-x", NULL}, "'-x'"},
        {{"--shapes", NULL}, "needs a value: --shapes FILE"},
        {{"--shapes=", NULL}, "empty value"},
        {{"--fresh=1", NULL}, "takes no value"},
        {{"--shapes=a", "--shapes=b", NULL}, "given twice"},
    };
    for (size_t i = 0; i < GK_ARRAY_COUNT(bad); i++) {
        struct gk_options options;
        struct gk_err err = {0};
        int argc = 0;
        while (bad[i].argv[argc]) {
            argc++;
        }
        assert_int_equal(parse(bad[i].argv, argc, &options, &err), GK_USAGE);
        if (!strstr(err.text, bad[i].part)) {
            fail_msg("'%s' is not in '%s'", bad[i].part, err.text);
        }
    }
}

static void test_budgets(void **state)
{
    (void)state;
    struct gk_budget budget;
    assert_int_equal(gk_parse_budget("24", &budget, NULL), GK_OK);
    assert_true(budget.trials == 24 && budget.seconds == 0);
    assert_int_equal(gk_parse_budget("30s", &budget, NULL), GK_OK);
    assert_true(budget.trials == 0 && budget.seconds == 30);
    assert_int_equal(gk_parse_budget("10m", &budget, NULL), GK_OK);
    assert_int_equal(budget.seconds, 600);
    assert_int_equal(gk_parse_budget("168h", &budget, NULL), GK_OK);
    static const char *const bad[] = {"",   "0",    "-1",      "x",  "1.5", "10x",
                                      "s",  "169h", "1000001", " 5", "5 ",  "99999999999999999999",
                                      "0s", "10mm"};
    for (size_t i = 0; i < GK_ARRAY_COUNT(bad); i++) {
        assert_int_equal(gk_parse_budget(bad[i], &budget, NULL), GK_USAGE);
    }
    int64_t value = 0;
    assert_int_equal(gk_parse_int("-5", "x", -10, 10, &value, NULL), GK_OK);
    assert_int_equal(value, -5);
    assert_int_equal(gk_parse_int("11", "x", -10, 10, &value, NULL), GK_USAGE);
    assert_int_equal(gk_parse_int("+1", "x", -10, 10, &value, NULL), GK_USAGE);
    assert_int_equal(gk_parse_int("0x1", "x", -10, 10, &value, NULL), GK_USAGE);
}

static void test_table(void **state)
{
    (void)state;
    struct gk_table table;
    struct gk_buf out = {0};
    gk_table_init(&table, "name|>count|last");
    gk_table_cell(&table, "caf\xC3\xA9");
    gk_table_cell(&table, "%d", 7);
    gk_table_cell(&table, "x");
    gk_table_cell(&table, "a");
    gk_table_cell(&table, "%d", 12345678);
    gk_table_cell(&table, "longer");
    assert_int_equal(gk_table_rows(&table), 2);
    gk_table_render(&table, &out);
    assert_string_equal(gk_buf_text(&out), "name     count  last\n"
                                           "caf\xC3\xA9         7  x\n"
                                           "a     12345678  longer\n");
    gk_buf_fini(&out);
    gk_table_fini(&table);
}

static void test_state_dir(void **state)
{
    (void)state;
    static const struct {
        const char *option, *env, *xdg, *home, *want;
    } rows[] = {
        {"/o/", "/e", "/x", "/h", "/o"},
        {NULL, "/e", "/x", "/h", "/e"},
        {NULL, "", "/x", "/h", "/x/gktune"},
        {NULL, NULL, "rel", "/h", "/h/.local/state/gktune"},
        {"", NULL, NULL, "/h", "/h/.local/state/gktune"},
        {"/", NULL, NULL, NULL, "/"},
    };
    struct gk_buf out = {0};
    for (size_t i = 0; i < GK_ARRAY_COUNT(rows); i++) {
        assert_int_equal(
            gk_state_dir(rows[i].option, rows[i].env, rows[i].xdg, rows[i].home, &out, NULL),
            GK_OK);
        assert_string_equal(gk_buf_text(&out), rows[i].want);
    }
    struct gk_err err = {0};
    assert_int_equal(gk_state_dir(NULL, NULL, NULL, NULL, &out, &err), GK_USAGE);
    assert_non_null(strstr(err.text, "--state"));
    gk_buf_fini(&out);
}

/* Every command is whole: help, page and completion name it and each of its options. */
static void test_manual(void **state)
{
    (void)state;
    struct gk_buf all = {0}, completion = {0};
    gk_manual_overview(&all);
    assert_int_equal(gk_manual_completion("bash", &completion, NULL), GK_OK);
    const struct gk_command *command;
    uint32_t count = 0;
    for (; (command = gk_command_at(count)) != NULL; count++) {
        struct gk_buf help = {0}, page = {0};
        gk_manual_help(command, &help);
        gk_manual_page(command, &page);
        assert_true(gk_command_find(command->name) == command);
        assert_non_null(strstr(gk_buf_text(&all), command->summary));
        assert_non_null(strstr(gk_buf_text(&help), "examples:\n  gktune "));
        assert_non_null(strstr(gk_buf_text(&page), ".SH EXAMPLES"));
        assert_non_null(strstr(gk_buf_text(&completion), command->name));
        for (const struct gk_option *option = command->options; option->name; option++) {
            assert_non_null(strstr(gk_buf_text(&help), option->name));
            assert_non_null(strstr(gk_buf_text(&completion), option->name));
        }
        gk_buf_fini(&help);
        gk_buf_fini(&page);
    }
    assert_int_equal(count, 25);
    assert_int_equal(gk_manual_completion("fish", &completion, NULL), GK_USAGE);
    assert_null(gk_command_find("verify"));
    gk_buf_fini(&all);
    gk_buf_fini(&completion);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse),     cmocka_unit_test(test_best_so_far),
        cmocka_unit_test(test_wrapped),   cmocka_unit_test(test_refused),
        cmocka_unit_test(test_budgets),   cmocka_unit_test(test_table),
        cmocka_unit_test(test_state_dir), cmocka_unit_test(test_manual),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
