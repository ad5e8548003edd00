/* A record read from a RESULT's text is the one read from its JSON, and its texts are the same
 * bytes; what is not canonical, or no record, is left to the other way. */
#include "core/told.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/json_view.h"
#include "tests/support/sample_trials.h"

static char *body_of(struct gk_json *record)
{
    struct gk_json *body = gk_json_new_object();
    assert_true(gk_json_set(body, "record", record));
    char *text = gk_json_text(body);
    assert_non_null(text);
    gk_json_free(body);
    return text;
}

/* Whatever the fast way accepts, the slow one gives too: the same numbers and texts. */
static bool both_ways(const char *body)
{
    struct gk_told fast = {0}, slow = {0};
    struct gk_json *json = NULL;
    bool took = gk_told_from_body(body, strlen(body), &fast);
    if (took) {
        assert_int_equal(gk_json_parse(body, strlen(body), "body", &json, NULL), GK_OK);
        assert_int_equal(gk_told_from_json(gk_json_get(json, "record"), &slow, NULL), GK_OK);
        assert_string_equal(gk_buf_text(&fast.kept), gk_buf_text(&slow.kept));
        assert_string_equal(gk_buf_text(&fast.samples), gk_buf_text(&slow.samples));
        assert_string_equal(gk_buf_text(&fast.environment), gk_buf_text(&slow.environment));
        gk_json_free(slow.record.counts); /* text alone in a body's record */
        gk_json_free(slow.record.environment);
        slow.record.counts = slow.record.environment = NULL;
        struct gk_json *a = gk_record_to_json(&fast.record), *b = gk_record_to_json(&slow.record);
        assert_true(gk_json_equal(a, b));
        gk_json_free(a);
        gk_json_free(b);
        gk_json_free(json);
    }
    gk_told_fini(&fast);
    gk_told_fini(&slow);
    return took;
}

static void test_samples_of_workers(void **state)
{
    (void)state;
    struct gk_prng prng;
    gk_prng_init(&prng, 5, 0);
    for (uint32_t i = 0; i < 300; i++) {
        char *body = body_of(sample_record(&prng, i % 4));
        assert_true(both_ways(body));
        free(body);
    }
}

static void test_all_members(void **state)
{
    (void)state;
    struct gk_record record;
    gk_record_init(&record);
    record.stage = GK_STAGE_DONE;
    record.time_ns = 1234.5;
    record.marks = 1u << GK_MARK_UNSTABLE | 1u << GK_MARK_NEAR_FLOOR;
    record.code_id = gk_hash_text("code");
    record.counts = gk_json_new_object();
    record.samples_ns[record.sample_count++] = 0.1;
    assert_true(gk_json_set_int(record.counts, "sectors", 7));
    char *body = body_of(gk_record_to_json(&record));
    assert_true(both_ways(body));
    free(body);
    gk_record_fail(&record, GK_STAGE_COMPILE, GK_FAILURE_COMPILE_ERROR, "caf\xC3\xA9 at line 3");
    body = body_of(gk_record_to_json(&record));
    assert_true(both_ways(body));
    free(body);
    gk_record_fail(&record, GK_STAGE_COMPILE, GK_FAILURE_COMPILE_ERROR, "quoted \"x\"\n");
    body = body_of(gk_record_to_json(&record));
    assert_false(both_ways(body)); /* the other way unescapes */
    free(body);
    gk_record_fini(&record);
}

/* Conditions as long as they like would make a row that fits no page: refused, on both ways. */
static void test_long_conditions(void **state)
{
    static char text[GK_RECORD_EXTRA_MAX + 1];
    struct gk_record record;
    struct gk_err err = {0};
    (void)state;
    for (int more = 0; more < 2; more++) {
        struct gk_told told = {0};
        gk_record_init(&record);
        record.stage = GK_STAGE_DONE;
        record.environment = gk_json_new_object();
        memset(text, 'x', sizeof text - 1);
        text[GK_RECORD_EXTRA_MAX - 8 + more] = '\0'; /* {"a":".."} */
        assert_true(gk_json_set_string(record.environment, "a", text));
        struct gk_json *json = gk_record_to_json(&record);
        enum gk_status status = gk_told_from_json(json, &told, &err);
        assert_int_equal(status, more ? GK_LIMIT : GK_OK);
        assert_true(!more || strstr(err.text, "environment has 16385 bytes"));
        char *body = body_of(json);
        assert_int_equal(gk_told_from_body(body, strlen(body), &told), !more);
        free(body);
        gk_told_fini(&told);
        gk_record_fini(&record);
    }
}

/* Bytes changed, taken out, doubled: never read as anything else than the parser reads. */
static void test_damaged_texts(void **state)
{
    (void)state;
    static const char alphabet[] = "{}[]\",:0123456789.eE+-truefalsn \\\x01\xC3\xA9x";
    struct gk_prng prng;
    uint32_t taken = 0, refused = 0;
    gk_prng_init(&prng, 6, 0);
    for (uint32_t i = 0; i < 6000; i++) {
        char *body = body_of(sample_record(&prng, i % 4));
        size_t size = strlen(body), at = gk_prng_below(&prng, size);
        switch (gk_prng_below(&prng, 3)) {
        case 0:
            body[at] = alphabet[gk_prng_below(&prng, sizeof alphabet - 1)];
            break;
        case 1:
            memmove(body + at, body + at + 1, size - at);
            break;
        default:
            body[at] = body[gk_prng_below(&prng, size)];
        }
        *(both_ways(body) ? &taken : &refused) += 1;
        free(body);
    }
    assert_true(taken > 100 && refused > 1000); /* both happen, or nothing was tried */
}

static bool view(const char *text)
{
    struct gk_view_value values[16];
    struct gk_view seen = {.values = values, .capacity = 16};
    return gk_view_parse(&seen, text, strlen(text));
}

/* A real's text: shortest digits or some too few or too many of them, once in a while one that is
 * changed. */
static void real_text(uint64_t seed, char text[64])
{
    double value = 0, unit = (double)(seed >> 11) / 9007199254740992.0;
    switch (seed % 5) {
    case 0:
        value = unit * pow(10, (int)(seed >> 8 & 31) - 12);
        break;
    case 1:
        value = (double)(int64_t)(seed >> 40) / 1000.0;
        break;
    case 2:
        value = nextafter((double)(seed >> 44) / 65536.0, seed & 64 ? 0 : 1e300);
        break;
    case 3:
        value = -(double)(seed >> (seed % 50 + 10));
        break;
    default:
        memcpy(&value, &seed, sizeof value);
        value = isfinite(value) ? value : 0.1;
    }
    if (seed & 1) {
        struct gk_buf buf = {0};
        gk_json_put_real(&buf, value);
        (void)snprintf(text, 64, "%.60s", gk_buf_text(&buf));
        gk_buf_fini(&buf);
    } else if (fabs(value) < 1e18 && seed & 2) {
        (void)snprintf(text, 64, "%.*f", (int)(seed >> 20 & 15) + 1, value);
    } else {
        (void)snprintf(text, 64, "%.*g", (int)(seed >> 20 & 15) + 3, value);
    }
    if ((seed >> 30 & 7) == 0) {
        text[(seed >> 33) % strlen(text)] = "0159.-"[(seed >> 50) % 6];
    }
}

/* A real is what strtod() reads, and is canonical if it is written as gk_json_put_real() would. */
static void test_reals(void **state)
{
    (void)state;
    uint64_t seed = 88172645463325252u, good = 0, bad = 0;
    char text[64];
    for (int i = 0; i < 400000; i++) {
        struct gk_view_value values[4];
        struct gk_view view = {.values = values, .capacity = 4};
        struct gk_buf canonical = {0};
        char *end = NULL;
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        real_text(seed, text);
        if (!strpbrk(text, ".e")) {
            continue;
        }
        double value = strtod(text, &end);
        gk_json_put_real(&canonical, value);
        bool wanted = *end == '\0' && isfinite(value) && strcmp(gk_buf_text(&canonical), text) == 0,
             got = gk_view_parse(&view, text, strlen(text));
        if (wanted != got || (got && memcmp(&values[0].real, &value, sizeof value) != 0)) {
            fail_msg("%s: %s", text, got ? "taken, or another value" : "refused");
        }
        good += got;
        bad += !got;
        gk_buf_fini(&canonical);
    }
    assert_true(good > 100000 && bad > 50000);
}

static void test_canonical_alone(void **state)
{
    (void)state;
    static const char *const good[] = {
        "{}",  "[]",    "[1,2.5,\"a\\n\"]", "{\"a\":{\"b\":null},\"c\":-7}",
        "0.5", "1e+30", "[true,false]",     "123456789012345678"};
    static const char *const bad[] = {"",
                                      " 1",
                                      "1 ",
                                      "{\"b\":1,\"a\":2}",
                                      "{\"a\":1,\"a\":2}",
                                      "{\"a\" :1}",
                                      "[1,]",
                                      "[1",
                                      "01",
                                      "-0",
                                      "1.50",
                                      "1e30",
                                      "1.",
                                      "\"\\u0041\"",
                                      "\"a",
                                      "nul",
                                      "{\"a\"}",
                                      "\"\x01\"",
                                      "\"\xFF\"",
                                      "1e999",
                                      "-",
                                      "[1}",
                                      "{,}",
                                      "9999999999999999999"};
    for (size_t i = 0; i < GK_ARRAY_COUNT(good); i++) {
        assert_true(view(good[i]));
    }
    for (size_t i = 0; i < GK_ARRAY_COUNT(bad); i++) {
        if (view(bad[i])) {
            fail_msg("'%s' was taken", bad[i]);
        }
    }
    assert_false(
        view("[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]")); /* more than there is room for */
    assert_false(view("[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_samples_of_workers), cmocka_unit_test(test_all_members),
        cmocka_unit_test(test_long_conditions),    cmocka_unit_test(test_damaged_texts),
        cmocka_unit_test(test_canonical_alone),
        cmocka_unit_test(test_reals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
