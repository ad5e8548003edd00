/* T4: what we write keeps the rules and is read back; each broken rule is found. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "search/replay_t4.h"
#include "tests/support/parsed.h"

#define assert_near(got, wanted, most) assert_true(fabs((got) - (wanted)) <= (most))

static struct gk_recording *read_checked(const char *text, struct gk_diag *diag)
{
    struct gk_replay_reader *reader = NULL;
    struct gk_recording *recording = NULL;
    struct gk_err err = {0};
    assert_int_equal(gk_replay_reader_create("t4", &reader, &err), GK_OK);
    gk_replay_reader_check(reader, diag);
    assert_int_equal(gk_replay_feed(reader, text, strlen(text), &err), GK_OK);
    if (gk_replay_finish(reader, &recording, &err) != GK_OK) {
        fail_msg("%s", err.text);
    }
    gk_replay_reader_destroy(reader);
    return recording;
}

static void test_round_trip(void **state)
{
    (void)state;
    static const double samples[] = {0.211e6, 0.2090000000001e6, 0.25e6};
    static const struct gk_t4_measurement extras[] = {{"registers", 128, ""},
                                                      {"spill", 16, "bytes"}};
    const struct gk_t4_head head = {.device = "h200 \"132\" SMs",
                                    .kernel = "gemm_mma",
                                    .problem = "gemm{\"K\":32}",
                                    .version = "0.1.0"};
    struct gk_json *one = parsed("{\"BM\": 128, \"LAYOUT\": \"nt\"}"),
                   *two = parsed("{\"BM\": 64, \"LAYOUT\": \"nn\"}"),
                   *three = parsed("{\"BM\": 64, \"LAYOUT\": \"nt\"}");
    const struct gk_t4_result results[] = {
        {.configuration = one,
         .recorded_ms = INT64_C(1767579069123),
         .compile_ns = 812.5e6,
         .run_ns = 41e6,
         .verify_ns = 3.25e6,
         .overhead_ns = 0.5e6,
         .time_ns = 0.211e6,
         .samples_ns = samples,
         .sample_count = 3,
         .measurements = extras,
         .measurement_count = 2},
        {.configuration = two, .outcome = GK_REPLAY_CORRECTNESS, .failure = "race", .run_ns = 7e6},
        {.configuration = three, .time_ns = 0.5e6},
    };
    struct gk_buf text = {0};
    struct gk_err err;
    struct gk_diag diag;
    gk_diag_init(&diag);
    gk_t4_begin(&head, &text);
    for (size_t i = 0; i < GK_ARRAY_COUNT(results); i++) {
        assert_int_equal(gk_t4_add(&results[i], i == 0, &text, &err), GK_OK);
    }
    gk_t4_end(&text);
    assert_non_null(strstr(text.data, "\"timestamp\":\"2026-01-05T02:11:09+00:00\""));
    assert_non_null(strstr(text.data, "{\"name\":\"registers\",\"unit\":\"\",\"value\":128"));
    struct gk_json *whole = parsed(text.data); /* one JSON text */
    struct gk_recording *recording = read_checked(text.data, &diag);
    if (diag.count) {
        fail_msg("%s", diag.texts[0]);
    }
    assert_string_equal(recording->device, head.device);
    assert_string_equal(recording->kernel, "gemm_mma");
    assert_int_equal(recording->count, 3);
    assert_int_equal(recording->outcomes[GK_REPLAY_CORRECTNESS], 1);
    const struct gk_replay_row *row = &recording->rows[2]; /* BM 128 comes last */
    assert_near(row->time_ns, 0.211e6, 1e-6);
    assert_near(row->compile_ns, 812.5e6, 1e-3);
    assert_near(row->run_ns, 41e6, 1e-3);
    assert_near(row->verify_ns, 3.25e6, 1e-3);
    assert_near(row->overhead_ns, 0.5e6, 1e-3);
    assert_int_equal(row->sample_count, 3);
    assert_near(recording->samples_ns[row->sample_first + 1], samples[1], 1e-6);
    assert_near(recording->rows[1].time_ns, 0.5e6, 1e-6);
    assert_near(recording->rows[0].run_ns, 7e6, 1e-3);
    gk_recording_destroy(recording);
    gk_json_free(whole);
    gk_buf_fini(&text);
    gk_diag_fini(&diag);
    gk_json_free(one);
    gk_json_free(two);
    gk_json_free(three);
}

#define GOOD                                                                                       \
    "{\"timestamp\": \"2026-01-05T02:11:09Z\", \"configuration\": {\"A\": 1}, \"times\": "         \
    "{\"compilation\": 1, \"runtimes\": [2, 3]}, \"invalidity\": \"correct\", \"correctness\": "   \
    "1, \"measurements\": [{\"name\": \"time\", \"value\": 2.5, \"unit\": \"ms\"}], "              \
    "\"objectives\": [\"time\"]}"

/* Each case replaces a piece of a good row. */
static void test_rules_of_rows(void **state)
{
    (void)state;
    static const struct {
        const char *piece, *other, *wanted; /* wanted NULL: still good */
    } cases[] = {
        {"Z\"", "+01:00\"", NULL},
        {"T02:11:09Z", " 02:11:09.502007+00:00", NULL},
        {"\"ms\"", "\"\"", NULL},
        {"\"compilation\": 1", "\"compilation_time\": 1", NULL},
        {"Z\"", " UTC\"", "timestamp"},
        {"2026-01", "January", "timestamp"},
        {"{\"A\": 1}", "{}", "configuration"},
        {"{\"A\": 1}", "[1]", "configuration"},
        {"{\"compilation\": 1, \"runtimes\": [2, 3]}", "7", "times"},
        {"\"compilation\": 1", "\"compilation\": -1", "times.compilation"},
        {"\"compilation\": 1", "\"compilation\": \"1\"", "times.compilation"},
        {"\"compilation\": 1", "\"compilation\": 1, \"compilation_time\": 2", "differ"},
        {"\"compilation\": 1", "\"framework\": 1", "neither compilation"},
        {"[2, 3]", "[2, \"3\"]", "runtimes[1]"},
        {"[2, 3]", "[]", "no runtimes"},
        {"[2, 3]", "5", "times.runtimes"},
        {"\"correct\",", "\"fine\",", "invalidity 'fine'"},
        {"\"correct\",", "\"runtime\",", "correctness 1 with invalidity"},
        {"\"correctness\": 1", "\"correctness\": 2", "0 or 1"},
        {"\"correctness\": 1", "\"correctness\": true", "0 or 1"},
        {"\"value\": 2.5", "\"value\": null", "measurements[0]"},
        {"\"value\": 2.5", "\"value\": \"2.5\"", "must be a number"},
        {"\"unit\": \"ms\"", "\"unit\": 3", "measurements[0]"},
        {"[{\"name\": \"time\", \"value\": 2.5, \"unit\": \"ms\"}]", "3", "must be a list"},
        {"[\"time\"]", "[\"time\", \"power\"]", "exactly one"},
        {"[\"time\"]", "[\"power\"]", "'power'"},
    };
    for (size_t i = 0; i < GK_ARRAY_COUNT(cases); i++) {
        const char *at = strstr(GOOD, cases[i].piece);
        assert_non_null(at);
        char *text = gk_asprintf("%.*s%s%s", (int)(at - GOOD), GOOD, cases[i].other,
                                 at + strlen(cases[i].piece));
        struct gk_json *row = parsed(text);
        struct gk_diag diag;
        gk_diag_init(&diag);
        gk_t4_check_row(row, "line 7", &diag);
        if (!cases[i].wanted && diag.count) {
            fail_msg("case %zu: %s", i, diag.texts[0]);
        }
        if (cases[i].wanted && (diag.count != 1 || !strstr(diag.texts[0], cases[i].wanted) ||
                                strncmp(diag.texts[0], "line 7: ", 8) != 0)) {
            fail_msg("case %zu: %u, '%s'", i, diag.count, diag.count ? diag.texts[0] : "");
        }
        gk_diag_fini(&diag);
        gk_json_free(row);
        free(text);
    }
}

static void test_rules_of_files(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint32_t count;
        const char *first;
    } cases[] = {
        {"{\"schema_version\": \"1.0.0\", \"results\": [" GOOD "]}", 0, NULL},
        {"{\"results\": [" GOOD "]}", 1, "schema_version is missing"},
        {"{\"schema_version\": \"1.0\", \"results\": [" GOOD "]}", 1, "schema_version '1.0'"},
        {"{\"schema_version\": \"1.0.0\", \"results\": [" GOOD
         "], \"metadata\": {\"timeunit\": \"miliseconds\"}}",
         1, "metadata.timeunit 'miliseconds'"},
        {"{\"schema_version\": \"1.0.0\", \"results\": [" GOOD ",", 2, "commas"},
        {"{\"schema_version\": \"1.0.0\",\n\"results\": [" GOOD ",\n" GOOD ",\n{\"conf", 2,
         "line 4: rows that the file ends in: 1"},
    };
    for (size_t i = 0; i < GK_ARRAY_COUNT(cases); i++) {
        struct gk_diag diag;
        gk_diag_init(&diag);
        struct gk_recording *recording = read_checked(cases[i].text, &diag);
        bool found = !cases[i].first;
        for (uint32_t k = 0; k < diag.kept && !found; k++) {
            found = strstr(diag.texts[k], cases[i].first) != NULL;
        }
        if (diag.count != cases[i].count || !found) {
            fail_msg("case %zu: %u, '%s'", i, diag.count, diag.count ? diag.texts[0] : "");
        }
        gk_recording_destroy(recording);
        gk_diag_fini(&diag);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_rules_of_rows),
        cmocka_unit_test(test_rules_of_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
