/* Recorded spaces: both formats, torn and oddly spelt ones, gzip, and what the space becomes. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include <cmocka.h>

#include "core/buf.h"
#include "search/replay.h"

#define assert_near(got, wanted, most) assert_true(fabs((got) - (wanted)) <= (most))

#define HEAD                                                                                       \
    "{\n\"device_name\": \"Toy GPU\",\n\"kernel_name\": \"toy\",\n\"problem_size\": [4096],\n"     \
    "\"tune_params_keys\": [\"BM\", \"W\"],\n"                                                     \
    "\"tune_params\": {\"BM\": [64, 128, 32], \"W\": [4, 8, 16]},\n"                               \
    "\"objective\": \"time\",\n\"cache\": {\n"
#define ROW_64_4                                                                                   \
    "\"64,4\": {\"BM\": 64, \"W\": 4, \"time\": 0.31, \"times\": [0.32, 0.30], "                   \
    "\"compile_time\": 700.5, \"verification_time\": 3.5, \"benchmark_time\": 9.0, "               \
    "\"strategy_time\": 100, \"framework_time\": 1.25, \"timestamp\": \"2026-01-05 02:11:09\"}"
#define ROW_64_8                                                                                   \
    "\"64,8\": {\"BM\": 64, \"W\": 8, \"time\": \"RuntimeFailedConfig\", "                         \
    "\"compile_time\": 690.0, \"benchmark_time\": 0}"
#define ROW_128_4                                                                                  \
    "\"128,4\": {\"BM\": 128, \"W\": 4, \"time\": 0.25, \"times\": [0.25, 0.25, 0.25], "           \
    "\"compile_time\": 1000.0}"
#define ROW_128_8                                                                                  \
    "\"128,8\": {\"BM\": 128, \"W\": 8, \"__error__\": \"CompilationFailedConfig\", "              \
    "\"time\": \"CompilationFailedConfig\"}"
#define TAIL "\n}\n}\n"

static enum gk_status read_pieces(const void *bytes, size_t size, size_t piece,
                                  struct gk_recording **out, struct gk_err *err)
{
    struct gk_replay_reader *reader = NULL;
    enum gk_status status = gk_replay_reader_create("file", &reader, err);
    assert_int_equal(status, GK_OK);
    for (size_t at = 0; status == GK_OK && at < size; at += piece) {
        size_t now = size - at < piece ? size - at : piece;
        char *exact = malloc(now); /* the sanitizer sees a read past the piece */
        assert_non_null(exact);
        memcpy(exact, (const char *)bytes + at, now);
        status = gk_replay_feed(reader, exact, now, err);
        free(exact);
    }
    if (status == GK_OK) {
        status = gk_replay_finish(reader, out, err);
    }
    gk_replay_reader_destroy(reader);
    return status;
}

static struct gk_recording *read_text(const char *text)
{
    struct gk_recording *recording = NULL;
    struct gk_err err = {0};
    if (read_pieces(text, strlen(text), 7, &recording, &err) != GK_OK) {
        fail_msg("%s", err.text);
    }
    return recording;
}

static void read_fails(const char *text, const char *wanted)
{
    struct gk_recording *recording = NULL;
    struct gk_err err = {0};
    assert_int_equal(read_pieces(text, strlen(text), 1000, &recording, &err), GK_INPUT);
    if (!strstr(err.text, wanted)) {
        fail_msg("'%s' is not in '%s'", wanted, err.text);
    }
}

static const struct gk_replay_row *row_of(const struct gk_recording *recording, int64_t bm,
                                          int64_t w)
{
    struct gk_config config = {.count = 2, .values = {bm, w}};
    uint32_t index = 0;
    (void)memcpy(config.template_name, recording->kernel, strlen(recording->kernel) + 1);
    if (gk_space_find(recording->space, &config, &index, NULL) != GK_OK) {
        return NULL;
    }
    return &recording->rows[index];
}

static void assert_same(const struct gk_recording *a, const struct gk_recording *b)
{
    assert_int_equal(a->count, b->count);
    assert_memory_equal(a->drops, b->drops, sizeof a->drops);
    assert_memory_equal(a->oddities, b->oddities, sizeof a->oddities);
    for (uint32_t i = 0; i < a->count; i++) {
        struct gk_config x, y;
        gk_space_config(a->space, i, &x);
        gk_space_config(b->space, i, &y);
        assert_memory_equal(x.values, y.values, sizeof x.values);
        assert_int_equal(a->rows[i].outcome, b->rows[i].outcome);
        assert_true(a->rows[i].time_ns == b->rows[i].time_ns);
        assert_int_equal(a->rows[i].sample_count, b->rows[i].sample_count);
    }
}

/* ------------------------------------------------------------------ whole files */

static void test_cache(void **state)
{
    (void)state;
    struct gk_recording *recording =
        read_text(HEAD ROW_64_4 ",\n" ROW_64_8 ",\n" ROW_128_4 ",\n" ROW_128_8 TAIL);
    assert_int_equal(recording->format, GK_REPLAY_KERNEL_TUNER);
    assert_string_equal(recording->device, "Toy GPU");
    assert_string_equal(recording->kernel, "toy");
    assert_int_equal(recording->count, 4);
    assert_int_equal(recording->ok_count, 2);
    assert_int_equal(recording->outcomes[GK_REPLAY_COMPILE], 1);
    assert_int_equal(recording->outcomes[GK_REPLAY_RUNTIME], 1);
    assert_near(recording->best_ns, 0.25e6, 1e-3);
    const struct gk_replay_row *row = row_of(recording, 64, 4);
    assert_non_null(row);
    assert_near(row->time_ns, 0.31e6, 1e-3);
    assert_near(row->compile_ns, 700.5e6, 1);
    assert_near(row->run_ns, 9e6, 1);
    assert_near(row->verify_ns, 3.5e6, 1);
    assert_near(row->overhead_ns, 1.25e6, 1);
    assert_near(gk_replay_cost_ns(row), 714.25e6, 1);
    assert_int_equal(row->sample_count, 2);
    assert_near(recording->samples_ns[row->sample_first + 1], 0.30e6, 1e-3);
    /* No time of its run is recorded: its samples are what it took. */
    assert_near(row_of(recording, 128, 4)->run_ns, 0.75e6, 1);
    for (int i = 0; i < GK_REPLAY_DROPS; i++) {
        assert_int_equal(recording->drops[i].count, 0);
    }
    /* Values are those of rows, in rising order: 32 and 16 are declared and never measured. */
    const struct gk_tree *tree = &recording->def.trees[0];
    assert_int_equal(tree->param_count, 2);
    assert_int_equal(tree->params[0].value_count, 2);
    assert_int_equal(tree->params[0].values[0], 64);
    assert_int_equal(tree->params[1].values[1], 8);
    assert_int_equal(gk_space_count(recording->space), 4);
    gk_recording_destroy(recording);
}

#define T4_OK                                                                                      \
    "{\"timestamp\": \"2026-01-05T02:11:09+00:00\", \"configuration\": {\"BM\": 64, \"W\": 4}, "   \
    "\"times\": {\"compilation\": 700.5, \"benchmark\": 9.0, \"framework\": 1.25, "                \
    "\"search_algorithm\": 100, \"validation\": 3.5, \"runtimes\": [0.32, 0.30]}, "                \
    "\"invalidity\": \"correct\", \"correctness\": 1, "                                            \
    "\"measurements\": [{\"name\": \"power\", \"value\": 3, \"unit\": \"W\"}, "                    \
    "{\"name\": \"time\", \"value\": 0.31, \"unit\": \"\"}], \"objectives\": [\"time\"]}"
#define T4_FAILED                                                                                  \
    "{\"configuration\": {\"BM\": 64, \"W\": 8}, \"times\": {\"compilation_time\": 690}, "         \
    "\"invalidity\": \"timeout\", \"correctness\": 1, "                                            \
    "\"measurements\": [{\"name\": \"time\", \"value\": \"RuntimeFailedConfig\"}]}"

static void test_t4(void **state)
{
    (void)state;
    struct gk_recording *recording =
        read_text("{\"schema_version\": \"1.0.0\", \"results\": [\n" T4_OK ",\n" T4_FAILED "],\n"
                  "\"metadata\": {\"timeunit\": \"miliseconds\", \"device\": \"Toy GPU\"}}");
    assert_int_equal(recording->format, GK_REPLAY_T4);
    assert_string_equal(recording->device, "Toy GPU");
    assert_int_equal(recording->count, 2);
    assert_int_equal(recording->rows[0].outcome, GK_REPLAY_OK);
    assert_near(recording->rows[0].time_ns, 0.31e6, 1e-3);
    assert_near(gk_replay_cost_ns(&recording->rows[0]), 714.25e6, 1);
    assert_int_equal(recording->rows[1].outcome, GK_REPLAY_TIMEOUT);
    assert_near(recording->rows[1].compile_ns, 690e6, 1);
    assert_int_equal(recording->oddities[GK_REPLAY_UNIT], 1);
    gk_recording_destroy(recording);
}

/* The unit may stand behind the rows, a measurement may have its own, and an unknown one is said.
 */
static void test_units(void **state)
{
    (void)state;
    static const struct {
        const char *metadata;
        const char *own;
        double time_ns, compile_ns;
        enum gk_replay_oddity oddity; /* GK_REPLAY_ODDITIES: none */
    } cases[] = {
        {"{\"timeunit\": \"microseconds\"}", "", 5e3, 7e3, GK_REPLAY_ODDITIES},
        {"{\"timeunit\": \"seconds\"}", "ms", 5e6, 7e9, GK_REPLAY_ODDITIES},
        {"{\"timeunit\": \"fortnights\"}", "", 5e6, 7e6, GK_REPLAY_UNIT_OTHER},
        {"{}", "us", 5e3, 7e6, GK_REPLAY_ODDITIES},
    };
    for (size_t i = 0; i < GK_ARRAY_COUNT(cases); i++) {
        char *text = gk_asprintf("{\"results\": [{\"configuration\": {\"A\": 1}, \"times\": "
                                 "{\"compilation\": 7}, \"measurements\": [{\"name\": \"time\", "
                                 "\"value\": 5, \"unit\": \"%s\"}]}], \"metadata\": %s}",
                                 cases[i].own, cases[i].metadata);
        struct gk_recording *recording = read_text(text);
        assert_near(recording->rows[0].time_ns, cases[i].time_ns, 1e-3);
        assert_near(recording->rows[0].compile_ns, cases[i].compile_ns, 1);
        for (int k = 0; k < GK_REPLAY_ODDITIES; k++) {
            assert_int_equal(recording->oddities[k], k == (int)cases[i].oddity);
        }
        gk_recording_destroy(recording);
        free(text);
    }
}

/* ------------------------------------------------------------------ cut anywhere */

/* Rows that are whole in the first `cut` bytes; *inside_out: one more has begun. */
static uint32_t whole_rows(const char *const *rows, uint32_t count, size_t head, size_t cut,
                           bool *inside_out)
{
    uint32_t whole = 0;
    size_t end = head;
    *inside_out = false;
    for (uint32_t i = 0; i < count; i++) {
        *inside_out |= cut > end && cut < end + strlen(rows[i]);
        end += strlen(rows[i]);
        whole += cut >= end;
        end += 2; /* ",\n" */
    }
    return whole;
}

static void check_cuts(const char *head, const char *const *rows, uint32_t count, const char *tail)
{
    struct gk_buf text = {0};
    gk_buf_puts(&text, head);
    for (uint32_t i = 0; i < count; i++) {
        gk_buf_printf(&text, "%s%s", i ? ",\n" : "", rows[i]);
    }
    gk_buf_puts(&text, tail);
    for (size_t cut = 0; cut <= text.size; cut++) {
        struct gk_recording *recording = NULL, *pieces = NULL;
        struct gk_err err = {0};
        bool inside = false;
        uint32_t whole = whole_rows(rows, count, strlen(head), cut, &inside);
        enum gk_status status = read_pieces(text.data, cut, text.size + 1, &recording, &err);
        assert_int_equal(status, whole ? GK_OK : GK_INPUT);
        if (!whole) {
            continue;
        }
        assert_int_equal(recording->count, whole);
        assert_int_equal(recording->drops[GK_REPLAY_TORN].count, inside);
        assert_int_equal(recording->drops[GK_REPLAY_UNREADABLE].count, 0);
        assert_int_equal(recording->oddities[GK_REPLAY_UNCLOSED], cut < text.size - 1);
        assert_int_equal(read_pieces(text.data, cut, 1, &pieces, &err), GK_OK);
        assert_same(recording, pieces);
        gk_recording_destroy(recording);
        gk_recording_destroy(pieces);
    }
    gk_buf_fini(&text);
}

static void test_cut_cache(void **state)
{
    (void)state;
    static const char *const rows[] = {ROW_64_4, ROW_64_8, ROW_128_4, ROW_128_8};
    check_cuts(HEAD, rows, GK_ARRAY_COUNT(rows), "\n}\n}\n");
}

static void test_cut_t4(void **state)
{
    (void)state;
    static const char *const rows[] = {T4_OK, T4_FAILED};
    check_cuts("{\"metadata\": {\"timeunit\": \"ms\"}, \"results\": [\n", rows,
               GK_ARRAY_COUNT(rows), "\n]\n}\n");
}

/* One byte lost, or one that is too many, costs the row that it is in and at most the next. */
static void check_damage(const char *head, const char *const *rows, uint32_t count,
                         const char *tail)
{
    struct gk_buf text = {0};
    gk_buf_puts(&text, head);
    for (uint32_t i = 0; i < count; i++) {
        gk_buf_printf(&text, "%s%s", i ? ",\n" : "", rows[i]);
    }
    size_t end = text.size;
    gk_buf_puts(&text, tail);
    for (size_t at = strlen(head); at < end; at++) {
        static const char spice[] = "\0\"{}[]:,\\\n"; /* the first: a lost byte */
        for (size_t s = 0; s < sizeof spice - 1; s++) {
            struct gk_recording *recording = NULL;
            struct gk_err err = {0};
            struct gk_buf bad = {0};
            gk_buf_add(&bad, text.data, at);
            gk_buf_add(&bad, spice + s, s > 0);
            gk_buf_puts(&bad, text.data + at + (s == 0));
            if (read_pieces(bad.data, bad.size, 64, &recording, &err) != GK_OK) {
                fail_msg("byte %zu, %zu: %s", at, s, err.text);
            }
            if (recording->count + 2 < count) {
                fail_msg("byte %zu, spice %zu: %u rows of %u\n%s", at, s, recording->count, count,
                         bad.data);
            }
            gk_recording_destroy(recording);
            gk_buf_fini(&bad);
        }
    }
    gk_buf_fini(&text);
}

static void test_damage(void **state)
{
    (void)state;
    static const char *const cache[] = {
        "\"64,4\": {\"BM\": 64, \"W\": 4, \"time\": 0.31, \"times\": [0.32, 0.30]}",
        "\"64,8\": {\"BM\": 64, \"W\": 8, \"time\": 0.33, \"note\": \"a, b\"}",
        "\"128,4\": {\"BM\": 128, \"W\": 4, \"time\": 0.35}",
        "\"128,8\": {\"BM\": 128, \"W\": 8, \"time\": 0.37}",
        "\"32,8\": {\"BM\": 32, \"W\": 8, \"time\": 0.39}"};
    static const char *const t4[] = {
        "{\"configuration\": {\"BM\": 64, \"W\": 4}, \"times\": {\"runtimes\": [1, 2]}}",
        "{\"configuration\": {\"BM\": 64, \"W\": 8}, \"times\": {\"runtimes\": [1, 2]}}",
        "{\"timestamp\": \"x\", \"configuration\": {\"BM\": 32, \"W\": 8}, \"times\": "
        "{\"runtimes\": [3]}}",
        "{\"configuration\": {\"BM\": 128, \"W\": 8}, \"times\": {\"runtimes\": [1, 2]}}"};
    check_damage(HEAD, cache, GK_ARRAY_COUNT(cache), TAIL);
    check_damage("{\"results\": [\n", t4, GK_ARRAY_COUNT(t4), "]}");
}

/* What is said about a place holds also behind text that was read twice. */
static void test_places(void **state)
{
    (void)state;
    struct gk_recording *recording =
        read_text(HEAD "\"64,4\": {\"BM\": 64,\n\n\"W\": 4, \"time\": [1,\n" ROW_64_8
                       ",\n" ROW_128_4 ",\n\"128,8\": {\"BM\": 128}, \"128,16\": {\"BM\"");
    assert_int_equal(recording->count, 2);
    assert_int_equal(recording->drops[GK_REPLAY_UNREADABLE].first_line, 9);
    assert_int_equal(recording->drops[GK_REPLAY_NO_RESULT].first_line, 14);
    assert_int_equal(recording->drops[GK_REPLAY_TORN].first_line, 14);
    assert_int_equal(recording->drops[GK_REPLAY_UNREADABLE].first_offset, strlen(HEAD));
    gk_recording_destroy(recording);
}

/* ------------------------------------------------------------------ odd spellings */

static void test_spellings(void **state)
{
    (void)state;
    struct gk_recording *recording = read_text(
        HEAD
        "\"64,4\": {\"BM\": \"64\", \"W\": 4.0, \"time\": \"0.31\", \"times\": [NaN, 0.31, -1], "
        "\"compile_time\": Infinity, \"GFLOP/s\": -Infinity, \"note\": \"NaN Infinity\"},\n"
        "\"64,8\": {\"time\": NaN, \"times\": [0.5, 0.7], \"more\": None, \"bad\": True},\n"
        "\"128,4\": {\"BM\": 128, \"W\": 4, \"time\": 1e20},\n"
        "\"128,8\": {\"BM\": 128, \"W\": 8, \"time\": \"InvalidConfig\"},\n"
        "\"256,8\": {\"BM\": 256, \"W\": 8, \"time\": NaN},\n"
        "\"256,16\": {\"BM\": 256, \"W\": null, \"time\": 1.5},\n"
        "\"512\": {\"BM\": 512, \"time\": 1.5},\n"
        "\"512,4\": {\"BM\": [512], \"W\": 4, \"time\": 2.5},\n"
        "\"64,16\": 12, \"64,16\": {\"BM\": 64, \"W\": 16, \"time\": 0.4},\n"
        "\"64,16\": {\"BM\": 64, \"W\": 16, \"time\": 0.6},\n" TAIL);
    assert_int_equal(recording->count, 7);
    assert_near(row_of(recording, 64, 4)->time_ns, 0.31e6, 1e-3);
    assert_int_equal(row_of(recording, 64, 4)->sample_count, 1);
    assert_near(row_of(recording, 64, 8)->time_ns, 0.6e6, 1e-3); /* its samples' mean */
    assert_int_equal(row_of(recording, 128, 4)->outcome, GK_REPLAY_CONSTRAINTS);
    assert_int_equal(row_of(recording, 128, 8)->outcome, GK_REPLAY_CONSTRAINTS);
    assert_near(row_of(recording, 256, 16)->time_ns, 1.5e6, 1e-3);
    assert_near(row_of(recording, 512, 4)->time_ns, 2.5e6, 1e-3);
    assert_near(row_of(recording, 64, 16)->time_ns, 0.6e6, 1e-3); /* the later one */
    assert_int_equal(recording->drops[GK_REPLAY_NO_RESULT].count, 1);
    assert_int_equal(recording->drops[GK_REPLAY_NO_RESULT].first_line, 13);
    assert_int_equal(recording->drops[GK_REPLAY_NO_CONFIG].count, 1);
    assert_int_equal(recording->drops[GK_REPLAY_UNREADABLE].count, 1);
    assert_int_equal(recording->drops[GK_REPLAY_REPEATED].count, 1);
    assert_int_equal(recording->drops[GK_REPLAY_SAMPLE].count, 2);
    assert_int_equal(recording->oddities[GK_REPLAY_COMMA], 1);
    assert_int_equal(recording->oddities[GK_REPLAY_NOT_NUMBER], 5);
    assert_int_equal(recording->oddities[GK_REPLAY_TEXT_NUMBER], 2);
    assert_int_equal(recording->oddities[GK_REPLAY_KEY_CONFIG], 4);
    gk_recording_destroy(recording);
}

/* Words, reals and truth values are values too. */
static void test_values(void **state)
{
    (void)state;
    struct gk_recording *recording = read_text(
        "{\"results\": ["
        "{\"configuration\": {\"L\": \"row\", \"F\": 0.5, \"B\": true}, \"times\": "
        "{\"runtimes\": [1]}},"
        "{\"configuration\": {\"L\": \"col\", \"F\": 0.25, \"B\": false}, \"times\": "
        "{\"runtimes\": [2]}},"
        "{\"configuration\": {\"L\": 3, \"F\": 2, \"B\": true}, \"times\": {\"runtimes\": [3]}},"
        "{\"configuration\": {\"L\": 3, \"F\": 2}, \"times\": {\"runtimes\": [3]}},"
        "{\"configuration\": {\"L\": 3, \"F\": 2, \"B\": 1, \"X\": 1}, \"times\": {}}]}");
    const struct gk_tree *tree = &recording->def.trees[0];
    assert_int_equal(recording->count, 3);
    assert_string_equal(tree->params[0].names[0], "3");
    assert_string_equal(tree->params[0].names[1], "col");
    assert_string_equal(tree->params[1].names[0], "0.25");
    assert_string_equal(tree->params[1].names[2], "2");
    assert_null(tree->params[2].names);
    assert_int_equal(tree->params[2].values[1], 1);
    assert_int_equal(recording->drops[GK_REPLAY_NO_CONFIG].count, 2);
    gk_recording_destroy(recording);
}

/* A parameter of more values than a space can have: the rows with the surplus ones go. */
static void test_many_values(void **state)
{
    (void)state;
    struct gk_buf text = {0};
    gk_buf_puts(&text, HEAD);
    for (int i = 0; i < 70; i++) {
        gk_buf_printf(&text, "%s\"%d,1\": {\"BM\": %d, \"W\": 1, \"time\": 1}", i ? "," : "", i, i);
    }
    gk_buf_puts(&text, TAIL);
    struct gk_recording *recording = read_text(text.data);
    assert_int_equal(recording->count, GK_PARAM_VALUES_MAX);
    assert_int_equal(recording->drops[GK_REPLAY_MANY].count, 70 - GK_PARAM_VALUES_MAX);
    gk_recording_destroy(recording);
    gk_buf_fini(&text);
}

/* Without a header the first row's key says how many of its members are parameters. */
static void test_no_header(void **state)
{
    (void)state;
    struct gk_recording *recording =
        read_text("{\"cache\": {" ROW_64_4 "," ROW_128_4 "}, \"more\": [1, {\"a\": 2}]}");
    assert_int_equal(recording->count, 2);
    assert_int_equal(recording->def.trees[0].param_count, 2);
    assert_string_equal(recording->def.trees[0].params[1].name, "W");
    gk_recording_destroy(recording);
}

/* Rows that were appended to a file which had been closed. */
static void test_appended(void **state)
{
    (void)state;
    struct gk_recording *recording =
        read_text(HEAD ROW_64_4 "}\n},\n" ROW_64_8 ",\n" ROW_128_4 "\n}\n}\n");
    assert_int_equal(recording->count, 3);
    gk_recording_destroy(recording);
}

static void test_neither(void **state)
{
    (void)state;
    read_fails("", "neither a cache");
    read_fails("[1, 2, 3]", "neither a cache");
    read_fails("{\"cache\": 3}", "neither a cache");
    read_fails(HEAD TAIL, "not one row with a time");
    read_fails(HEAD ROW_64_8 TAIL, "not one row with a time");
    read_fails(HEAD "\"64,4\": {\"BM\": }" TAIL, "1 rows that are not JSON, the first in line 9");
}

/* Without any cost time would stand still: each config takes a second then. */
static void test_no_cost(void **state)
{
    (void)state;
    struct gk_recording *recording =
        read_text("{\"results\": [{\"configuration\": {\"A\": 1}, \"measurements\": [{\"name\": "
                  "\"time\", \"value\": 5}]}, {\"configuration\": {\"A\": 2}, \"invalidity\": "
                  "\"compile\"}]}");
    assert_int_equal(recording->count, 2);
    assert_int_equal(recording->oddities[GK_REPLAY_NO_COST], 2);
    assert_near(gk_replay_cost_ns(&recording->rows[0]), 1e9, 0);
    assert_near(recording->mean_cost_ns, 1e9, 0);
    gk_recording_destroy(recording);
}

static void test_many_params(void **state)
{
    (void)state;
    struct gk_buf text = {0};
    gk_buf_puts(&text, "{\"results\": [{\"configuration\": {");
    for (int i = 0; i < GK_PARAMS_MAX + 1; i++) {
        gk_buf_printf(&text, "%s\"P%d\": 1", i ? ", " : "", i);
    }
    gk_buf_puts(&text, "}, \"times\": {\"runtimes\": [1]}}]}");
    read_fails(text.data, "its configs have 25 parameters, a space has at most 24");
    gk_buf_fini(&text);
}

/* A row that never ends is dropped without keeping it; what follows is read. */
static void test_long_row(void **state)
{
    (void)state;
    struct gk_buf text = {0};
    gk_buf_puts(&text, HEAD "\"64,4\": {\"BM\": 64, \"note\": \"");
    for (uint32_t i = 0; i < GK_REPLAY_ROW_MAX / 16 + 10; i++) {
        gk_buf_puts(&text, "0123456789abcdef");
    }
    gk_buf_puts(&text, "\"},\n" ROW_128_4 TAIL);
    struct gk_recording *recording = read_text(text.data);
    assert_int_equal(recording->count, 1);
    assert_int_equal(recording->drops[GK_REPLAY_TOO_LONG].count, 1);
    gk_recording_destroy(recording);
    gk_buf_fini(&text);
}

/* ------------------------------------------------------------------ gzip */

static size_t deflate_text(const char *text, uint8_t *out, size_t capacity)
{
    z_stream stream = {0};
    assert_int_equal(deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    stream.next_in = (z_const Bytef *)(uintptr_t)text;
    stream.avail_in = (uInt)strlen(text);
    stream.next_out = out;
    stream.avail_out = (uInt)capacity;
    assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
    size_t size = capacity - stream.avail_out;
    deflateEnd(&stream);
    return size;
}

static void test_gzip(void **state)
{
    (void)state;
    static const char text[] = HEAD ROW_64_4 ",\n" ROW_64_8 ",\n" ROW_128_4 TAIL;
    uint8_t packed[4096];
    size_t first = deflate_text(HEAD ROW_64_4 ",\n", packed, sizeof packed);
    size_t size =
        first + deflate_text(ROW_64_8 ",\n" ROW_128_4 TAIL, packed + first, sizeof packed - first);
    struct gk_recording *plain = read_text(text), *recording = NULL;
    struct gk_err err = {0};
    for (size_t piece = 1; piece < size + 2; piece += 13) {
        assert_int_equal(read_pieces(packed, size, piece, &recording, &err), GK_OK);
        assert_same(plain, recording);
        gk_recording_destroy(recording);
    }
    for (size_t cut = 0; cut < size; cut++) { /* torn anywhere: rows or an error, never a crash */
        recording = NULL;
        enum gk_status status = read_pieces(packed, cut, 100, &recording, &err);
        assert_true(status == GK_OK || status == GK_INPUT);
        if (status == GK_OK) {
            assert_true(recording->count >= 1 && recording->count <= 3);
            assert_true(recording->drops[GK_REPLAY_STREAM].count == 1 || cut == first);
            gk_recording_destroy(recording);
        }
    }
    packed[first + 30] ^= 0x55; /* damage inside: what came out before it stays */
    recording = NULL;
    assert_int_equal(read_pieces(packed, size, 100, &recording, &err), GK_OK);
    assert_int_equal(recording->drops[GK_REPLAY_STREAM].count, 1);
    gk_recording_destroy(recording);
    gk_recording_destroy(plain);
}

/* What comes out of gzip is bounded, not what went in; a file of that size exactly is read. */
static void test_too_much_text(void **state)
{
    (void)state;
    static const char text[] = HEAD ROW_64_4 ",\n" ROW_128_4 TAIL;
    uint8_t packed[4096];
    size_t size = deflate_text(text, packed, sizeof packed);
    for (size_t i = 0; i < 4; i++) {
        bool zipped = i & 1, fits = i & 2;
        struct gk_replay_reader *reader = NULL;
        struct gk_recording *recording = NULL;
        struct gk_err err = {0};
        assert_int_equal(gk_replay_reader_create("file", &reader, &err), GK_OK);
        gk_replay_reader_limit(reader, strlen(text) - !fits);
        enum gk_status status = gk_replay_feed(reader, zipped ? (const void *)packed : text,
                                               zipped ? size : strlen(text), &err);
        assert_int_equal(status, fits ? GK_OK : GK_LIMIT);
        if (fits) {
            assert_int_equal(gk_replay_finish(reader, &recording, &err), GK_OK);
            assert_int_equal(recording->count, 2);
            gk_recording_destroy(recording);
        } else {
            assert_non_null(strstr(err.text, "file: more than"));
            assert_true(zipped == (strstr(err.text, "decompressed") != NULL));
        }
        gk_replay_reader_destroy(reader);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_too_much_text),
        cmocka_unit_test(test_cache),
        cmocka_unit_test(test_t4),
        cmocka_unit_test(test_units),
        cmocka_unit_test(test_cut_cache),
        cmocka_unit_test(test_cut_t4),
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_spellings),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_many_values),
        cmocka_unit_test(test_no_header),
        cmocka_unit_test(test_appended),
        cmocka_unit_test(test_neither),
        cmocka_unit_test(test_no_cost),
        cmocka_unit_test(test_many_params),
        cmocka_unit_test(test_long_row),
        cmocka_unit_test(test_gzip),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
