/* core/json: parsing with its bounds and messages, files, canonical text, reals. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <fcntl.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "core/json.h"
#include "core/prng.h"
#include "tests/support/check.h"
#include "tests/support/parsed.h"

static void assert_refused(const char *text, size_t size, enum gk_status want, const char *part)
{
    struct gk_json *json = NULL;
    struct gk_err err;
    assert_status(gk_json_parse(text, size, "some.json", &json, &err), want, err);
    assert_null(json);
    assert_contains(err.text, "some.json: ");
    assert_contains(err.text, part);
}

static void assert_canonical(const char *text, const char *want)
{
    struct gk_json *json = parsed(text);
    char *got = gk_json_text(json);
    assert_string_equal(got, want);
    free(got);
    gk_json_free(json);
}

static void refusals_name_the_place(void **state)
{
    (void)state;
    static const struct {
        const char *text, *part;
    } cases[] = {
        {"", "line 1, column 0"},
        {"[1,\n 2,,]", "line 2, column 4"},
        {"{\"a\":1,\"a\":2}", "duplicate object key near '\"a\"'"},
        {"[1]x", "end of file expected near 'x'"},
        {"{} {}", "end of file expected"},
        {"9223372036854775808", "too big integer"},
        {"-9223372036854775809", "too big negative integer"},
        {"[1, 1e999]", "line 1, column 9: real number overflow"},
        {"\"a\\u0000b\"", "line 1, column 10: \\u0000 in a string"},
        {"\"\\ud800\"", "invalid Unicode"},
        {"[\"a\nb\"]", "line 1"},
        {"\xEF\xBB\xBF{}", "byte order mark"},
        {"[NaN]", "invalid token"},
        {"{'a':1}", "line 1"},
        {"[01]", "line 1"},
    };
    for (size_t i = 0; i < GK_ARRAY_COUNT(cases); i++) {
        assert_refused(cases[i].text, strlen(cases[i].text), GK_PARSE, cases[i].part);
    }
    assert_refused("{}\0", 3, GK_PARSE, "end of file expected");
}

static void utf8_is_checked(void **state)
{
    (void)state;
    static const char *const bad[] = {"\x80",
                                      "\xC0\x80",
                                      "\xC1\xBF",
                                      "\xE0\x9F\xBF",
                                      "\xED\xA0\x80",
                                      "\xF0\x8F\xBF\xBF",
                                      "\xF4\x90\x80\x80",
                                      "\xF5\x80\x80\x80",
                                      "\xC3",
                                      "\xE2\x82",
                                      "\xFF",
                                      "\xE2(\xA1"};
    size_t at = 0;
    for (size_t i = 0; i < GK_ARRAY_COUNT(bad); i++) {
        char text[16];
        int size = snprintf(text, sizeof text, "ab%s", bad[i]);
        assert_false(gk_utf8_check(text, (size_t)size, &at));
        assert_int_equal(at, 2);
    }
    const char *good =
        "a\xC2\x80\xC3\xA9\xE0\xA0\x80\xED\x9F\xBF\xEE\x80\x80\xF0\x90\x80\x80\xF4\x8F\xBF\xBF";
    assert_true(gk_utf8_check(good, strlen(good), &at));
    assert_refused("{\"a\":\"\xff\"}", 9, GK_PARSE, "not UTF-8: byte 0xFF at offset 6");
    char text[] = "x\xff\xc3\xa9\xc3";
    gk_utf8_clean(text);
    assert_string_equal(text, "x?\xc3\xa9?");
}

static void nest(struct gk_buf *buf, int levels)
{
    for (int i = 0; i < levels; i++) {
        gk_buf_puts(buf, i % 2 ? "{\"k[\\\"[\":" : "[");
    }
    gk_buf_puts(buf, "1");
    for (int i = levels; i-- > 0;) {
        gk_buf_puts(buf, i % 2 ? "}" : "]");
    }
}

static void nesting_is_bounded(void **state)
{
    (void)state;
    struct gk_buf buf = {0};
    nest(&buf, GK_JSON_DEPTH_MAX);
    gk_json_free(parsed(gk_buf_text(&buf)));
    gk_buf_reset(&buf);
    gk_buf_puts(&buf, "\n ");
    nest(&buf, GK_JSON_DEPTH_MAX + 1);
    assert_refused(buf.data, buf.size, GK_LIMIT, "line 2, column ");
    assert_refused(buf.data, buf.size, GK_LIMIT, "nested deeper than 64 levels");
    gk_buf_reset(&buf);
    for (int i = 0; i < 200000; i++) { /* would be the end of the C stack */
        gk_buf_putc(&buf, '[');
    }
    assert_refused(buf.data, buf.size, GK_LIMIT, "line 1, column 65");
    gk_buf_reset(&buf);
    gk_buf_putc(&buf, '[');
    for (unsigned i = 0; i <= GK_JSON_CONTAINERS_MAX; i++) {
        gk_buf_puts(&buf, "[],");
    }
    assert_refused(buf.data, buf.size, GK_LIMIT, "lists and objects");
    gk_buf_fini(&buf);
}

static void writing_is_bounded_too(void **state)
{
    (void)state;
    struct gk_json *json = gk_json_new_array();
    for (int i = 1; i < GK_JSON_DEPTH_MAX; i++) {
        struct gk_json *outer = gk_json_new_array();
        assert_true(gk_json_push(outer, json));
        json = outer;
    }
    char *text = gk_json_text(json);
    gk_json_free(parsed(text));
    free(text);
    struct gk_json *outer = gk_json_new_array();
    assert_true(gk_json_push(outer, json));
    struct gk_buf buf = {0};
    struct gk_err err;
    assert_status(gk_json_canonical(outer, &buf, &err), GK_LIMIT, err);
    assert_contains(err.text, "nested deeper than 64 levels");
    assert_null(gk_json_text(outer));
    gk_buf_fini(&buf);
    gk_json_free(outer);
}

static void canonical_text(void **state)
{
    (void)state;
    assert_canonical(" { \"b\" : 1 , \"a\" : [ true , false , null ] , \"B\" : \"x\" } ",
                     "{\"B\":\"x\",\"a\":[true,false,null],\"b\":1}");
    assert_canonical("{}", "{}");
    assert_canonical("[]", "[]");
    assert_canonical("[1.0, 1, 0.1, 1e30, 1E-7, -0.0, 100000.0]",
                     "[1.0,1,0.1,1e+30,1e-07,-0.0,100000.0]");
    assert_canonical("9223372036854775807", "9223372036854775807");
    assert_canonical("-9223372036854775808", "-9223372036854775808");
    assert_canonical("\"\\u0041\\u00e9\\/\\u0001\\n\\\"\\\\\\u007f\"",
                     "\"A\xC3\xA9/\\u0001\\n\\\"\\\\\x7f\"");
    assert_canonical("{\"ab\":1,\"a\":2,\"a b\":3}", "{\"a\":2,\"a b\":3,\"ab\":1}");
}

static void pretty_text(void **state)
{
    (void)state;
    struct gk_json *json = parsed("{\"b\":[1,2],\"a\":{\"x\":[{\"y\":1.5}]},\"c\":{},\"d\":[]}");
    struct gk_buf buf = {0};
    struct gk_err err;
    assert_ok(gk_json_pretty(json, &buf, &err), err);
    assert_string_equal(
        gk_buf_text(&buf),
        "{\n  \"b\": [1, 2],\n  \"a\": {\n    \"x\": [\n      {\n        \"y\": 1.5\n"
        "      }\n    ]\n  },\n  \"c\": {},\n  \"d\": []\n}");
    struct gk_json *back = parsed(gk_buf_text(&buf));
    assert_true(gk_json_equal(json, back));
    gk_json_free(back);
    gk_json_free(json);
    gk_buf_fini(&buf);
}

/* Shortest: reads back the same, and no text with a digit less does. */
static void reals_are_shortest(void **state)
{
    (void)state;
    static const double known[] = {1,
                                   0.1,
                                   1.5,
                                   1e30,
                                   5e-324,
                                   DBL_MAX,
                                   DBL_MIN,
                                   1 / 3.,
                                   123456789012345678.,
                                   2.2250738585072011e-308,
                                   0x1p-23,
                                   -7.25};
    static const char *const texts[] = {"1",
                                        "0.1",
                                        "1.5",
                                        "1e+30",
                                        "5e-324",
                                        "1.7976931348623157e+308",
                                        "2.2250738585072014e-308",
                                        "0.3333333333333333",
                                        "1.2345678901234568e+17",
                                        "2.225073858507201e-308",
                                        "1.1920928955078125e-07",
                                        "-7.25"};
    char text[32], shorter[400];
    for (size_t i = 0; i < GK_ARRAY_COUNT(known); i++) {
        gk_real_text(known[i], text);
        assert_string_equal(text, texts[i]);
    }
    struct gk_prng prng;
    gk_prng_init(&prng, 1, 0);
    for (int i = 0; i < 100000; i++) {
        uint64_t bits = gk_prng_u64(&prng);
        double value;
        memcpy(&value, &bits, sizeof value);
        if (!isfinite(value)) {
            continue;
        }
        gk_real_text(value, text);
        assert_true(strtod(text, NULL) == value);
        int digits = 0;
        for (const char *c = text; *c && *c != 'e'; c++) {
            digits += *c >= '0' && *c <= '9';
        }
        if (digits > 1 && i % 16 == 0) {
            snprintf(shorter, sizeof shorter, "%.*g", digits - 1, value);
            assert_true(strtod(shorter, NULL) != value || strchr(text, 'e') == NULL);
        }
    }
}

static struct gk_json *random_value(struct gk_prng *prng, int depth)
{
    uint64_t bits = gk_prng_u64(prng);
    double real;
    char text[24] = "";
    switch (gk_prng_below(prng, depth > 0 ? 8 : 6)) {
    case 0:
        return gk_json_new_null();
    case 1:
        return gk_json_new_bool(bits & 1);
    case 2:
        return gk_json_new_int((int64_t)bits >> gk_prng_below(prng, 64));
    case 3:
        memcpy(&real, &bits, sizeof real);
        return gk_json_new_real(real);
    case 4:
        return gk_json_new_real((double)(int64_t)(bits >> 50));
    case 5:
        for (size_t i = 0; i < gk_prng_below(prng, 20); i++) {
            text[i] = (char)(1 + gk_prng_below(prng, 255));
        }
        return gk_json_new_string(text);
    case 6: {
        struct gk_json *list = gk_json_new_array();
        for (uint64_t i = gk_prng_below(prng, 5); i > 0; i--) {
            assert_true(gk_json_push(list, random_value(prng, depth - 1)));
        }
        return list;
    }
    default: {
        struct gk_json *object = gk_json_new_object();
        for (uint64_t i = gk_prng_below(prng, 5); i > 0; i--) {
            snprintf(text, sizeof text, "k%d", (int)gk_prng_below(prng, 100));
            assert_true(gk_json_set(object, text, random_value(prng, depth - 1)));
        }
        return object;
    }
    }
}

/* Property: text reads back equal, equal values have equal text, and pretty text means the same. */
static void text_and_value_are_inverse(void **state)
{
    (void)state;
    struct gk_prng prng;
    gk_prng_init(&prng, 2, 0);
    for (int i = 0; i < 3000; i++) {
        struct gk_json *json = random_value(&prng, 5), *copy = gk_json_copy(json);
        struct gk_buf pretty = {0};
        char *text = gk_json_text(json), *copy_text = gk_json_text(copy);
        struct gk_json *back = parsed(text);
        assert_true(gk_json_equal(json, back));
        assert_string_equal(text, copy_text);
        assert_int_equal(gk_json_pretty(json, &pretty, NULL), GK_OK);
        struct gk_json *second = parsed(gk_buf_text(&pretty));
        assert_true(gk_json_equal(json, second));
        gk_json_free(json);
        gk_json_free(copy);
        gk_json_free(back);
        gk_json_free(second);
        gk_buf_fini(&pretty);
        free(text);
        free(copy_text);
    }
}

static void values_are_lent(void **state)
{
    (void)state;
    struct gk_json *json =
        parsed("{\"z\":1,\"i\":-5,\"r\":2.5,\"s\":\"t\",\"b\":true,\"l\":[7,8],\"n\":null}");
    const char *key = NULL;
    assert_int_equal(gk_json_count(json), 7);
    assert_int_equal(gk_json_get_int(json, "i", 0), -5);
    assert_int_equal(gk_json_get_int(json, "r", 9), 9);
    assert_int_equal(gk_json_get_int(json, "none", 9), 9);
    assert_true(gk_json_get_real(json, "r", 0) == 2.5);
    assert_true(gk_json_get_real(json, "i", 0) == -5.0);
    assert_true(gk_json_get_real(json, "s", 3) == 3.0);
    assert_string_equal(gk_json_get_string(json, "s", ""), "t");
    assert_string_equal(gk_json_get_string(json, "i", "no"), "no");
    assert_true(gk_json_get_bool(json, "b", false));
    assert_false(gk_json_get_bool(json, "i", false));
    assert_int_equal(gk_json_int(gk_json_at(gk_json_get(json, "l"), 1), 0), 8);
    assert_null(gk_json_at(gk_json_get(json, "l"), 2));
    assert_null(gk_json_get(json, "none"));
    assert_null(gk_json_get(NULL, "none"));
    assert_int_equal(gk_json_type(NULL), GK_JSON_NULL);
    assert_false(gk_json_is(NULL, GK_JSON_NULL));
    assert_true(gk_json_is(gk_json_get(json, "n"), GK_JSON_NULL));
    assert_int_equal(gk_json_int(gk_json_member(json, 0, &key), 0), 1);
    assert_string_equal(key, "z"); /* the order of the file, not of the alphabet */
    assert_non_null(gk_json_member(json, 6, &key));
    assert_string_equal(key, "n");
    assert_null(gk_json_member(json, 7, &key));
    void *cursor = NULL;
    size_t count = 0;
    while (gk_json_next(json, &cursor, &key)) {
        const char *again = NULL;
        gk_json_member(json, count++, &again);
        assert_string_equal(key, again);
    }
    assert_int_equal(count, 7);
    gk_json_free(json);
}

static void needs_name_the_place(void **state)
{
    (void)state;
    struct gk_json *json = parsed("{\"i\":70,\"s\":\"text\",\"r\":1.5,\"b\":true}");
    struct gk_err err;
    int64_t number = 0;
    const char *text = NULL;
    const struct gk_json *value = NULL;
    assert_ok(gk_json_need_int(json, "i", 0, 70, &number, "msg", &err), err);
    assert_int_equal(number, 70);
    assert_status(gk_json_need_int(json, "i", 1, 64, &number, "msg", &err), GK_INPUT, err);
    assert_string_equal(err.text, "msg: \"i\" is 70; 1 to 64 is allowed");
    assert_status(gk_json_need_int(json, "r", 1, 64, &number, "msg", &err), GK_INPUT, err);
    assert_string_equal(err.text, "msg: \"r\" is 1.5; an integer is needed");
    assert_status(gk_json_need_int(json, "x", 1, 64, &number, "msg", &err), GK_INPUT, err);
    assert_string_equal(err.text, "msg: \"x\" is missing; an integer is needed");
    assert_ok(gk_json_need_string(json, "s", 4, &text, "msg", &err), err);
    assert_string_equal(text, "text");
    assert_status(gk_json_need_string(json, "s", 3, &text, "msg", &err), GK_LIMIT, err);
    assert_string_equal(err.text, "msg: \"s\" is \"text\" with 4 bytes; at most 3 are allowed");
    assert_status(gk_json_need(json, "s", GK_JSON_ARRAY, &value, "msg", &err), GK_INPUT, err);
    assert_string_equal(err.text, "msg: \"s\" is \"text\"; a list is needed");
    assert_status(gk_json_need(NULL, "s", GK_JSON_ARRAY, &value, "msg", &err), GK_INPUT, err);
    assert_string_equal(err.text, "msg: null where an object is needed");
    gk_json_free(json);
}

static void building_never_leaks(void **state)
{
    (void)state;
    struct gk_json *object = gk_json_new_object();
    assert_true(gk_json_set_int(object, "i", 1));
    assert_true(gk_json_set_real(object, "r", 0.5));
    assert_true(gk_json_set_real(object, "nan", (double)NAN));
    assert_true(gk_json_set_bool(object, "b", true));
    assert_true(gk_json_set_string(object, "s", "bad \xff byte"));
    assert_false(gk_json_set(object, "null", NULL));
    assert_false(gk_json_set(object, "bad \xff key", gk_json_new_int(1)));
    assert_false(gk_json_push(object, gk_json_new_int(1))); /* no list: still taken */
    assert_true(gk_json_set(object, "l", gk_json_new_array()));
    assert_true(gk_json_push(gk_json_get_mutable(object, "l"), gk_json_new_null()));
    char *text = gk_json_text(object);
    assert_string_equal(
        text, "{\"b\":true,\"i\":1,\"l\":[null],\"nan\":null,\"r\":0.5,\"s\":\"bad ? byte\"}");
    free(text);
    gk_json_free(object);
    gk_json_free(NULL);
}

static void shown_values_are_short(void **state)
{
    (void)state;
    char shown[GK_JSON_SHOW_SIZE];
    struct gk_buf buf = {0};
    for (int i = 0; i < 60; i++) {
        gk_buf_puts(&buf, "\xC3\xA9");
    }
    struct gk_json *json = gk_json_new_string(gk_buf_text(&buf));
    gk_json_show(json, shown);
    size_t bad = 0;
    assert_true(strlen(shown) < GK_JSON_SHOW_SIZE);
    assert_true(gk_utf8_check(shown, strlen(shown), &bad));
    assert_string_equal(shown + strlen(shown) - 3, "...");
    gk_json_show(NULL, shown);
    assert_string_equal(shown, "null");
    gk_json_free(json);
    gk_buf_fini(&buf);
}

static void odd_files_are_refused_by_name(void **state)
{
    (void)state;
    struct gk_err err;
    struct gk_json *json = NULL;
    char *text = NULL;
    size_t size = 0;
    assert_status(gk_json_load("no_such.json", 10, &json, &err), GK_NOT_FOUND, err);
    assert_string_equal(err.text, "no_such.json: no such file");
    assert_status(gk_json_load(".", 10, &json, &err), GK_INPUT, err);
    assert_string_equal(err.text, ".: is a directory, a regular file is needed");
    assert_status(gk_file_load("/dev/zero", 10, &text, &size, &err), GK_INPUT, err);
    assert_contains(err.text, "is a character device");
    assert_int_equal(mkfifo("test_json.fifo", 0600), 0);
    assert_status(gk_file_load("test_json.fifo", 10, &text, &size, &err), GK_INPUT, err);
    assert_contains(err.text, "is a FIFO");
    assert_int_equal(unlink("test_json.fifo"), 0);
    int fd = open("test_json.big", O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_int_equal(ftruncate(fd, 1 << 30), 0); /* sparse */
    close(fd);
    assert_status(gk_file_load("test_json.big", 1000, &text, &size, &err), GK_LIMIT, err);
    assert_string_equal(err.text, "test_json.big: has 1073741824 bytes, at most 1000 are read");
    assert_int_equal(unlink("test_json.big"), 0);
    /* Files of /proc have size 0 and content. */
    assert_ok(gk_file_load("/proc/self/status", 1 << 20, &text, &size, &err), err);
    assert_true(size > 100 && strlen(text) == size);
    free(text);
    assert_status(gk_file_load("/proc/self/status", 100, &text, &size, &err), GK_LIMIT, err);
    assert_contains(err.text, "more than 100 bytes");
}

static void store_replaces_whole_files(void **state)
{
    (void)state;
    struct gk_err err;
    char *text = NULL;
    size_t size = 0;
    struct stat info;
    assert_ok(gk_file_store("test_json.out", "first", 5, &err), err);
    assert_int_equal(chmod("test_json.out", 0600), 0);
    assert_ok(gk_file_store("./test_json.out", "", 0, &err), err);
    assert_int_equal(stat("test_json.out", &info), 0);
    assert_int_equal(info.st_mode & 07777, 0600);
    assert_ok(gk_file_load("test_json.out", 10, &text, &size, &err), err);
    assert_int_equal(size, 0);
    assert_string_equal(text, "");
    free(text);
    assert_int_equal(unlink("test_json.out"), 0);
    assert_status(gk_file_store("no/such/folder", "x", 1, &err), GK_IO, err);
    assert_contains(err.text, "no/such/folder: cannot create a file beside it: ");
    assert_int_equal(mkdir("test_json.dir", 0700), 0);
    assert_status(gk_file_store("test_json.dir", "x", 1, &err), GK_IO, err);
    assert_contains(err.text, "test_json.dir: cannot rename into place: ");
    assert_int_equal(rmdir("test_json.dir"), 0); /* and nothing is left beside it */
}

/* The fast way to a real's text gives the bytes of the slow one: of values as they are measured, of
 * few digits, of ties, around powers of ten and two, and of any bits. */
static void test_real_text_two_ways(void **state)
{
    (void)state;
    uint64_t seed = 88172645463325252u;
    char fast[32], slow[32];
    for (int i = 0; i < 400000; i++) {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        double value = 0, unit = (double)(seed >> 11) / 9007199254740992.0;
        switch (i % 6) {
        case 0:
            value = unit * pow(10, (int)(seed % 21) - 5);
            break;
        case 1:
            value = (double)(int64_t)(seed % 2000000) / 1000.0;
            break;
        case 2:
            value = (double)(seed % 100000) / 65536.0; /* ends in a 5 */
            break;
        case 3:
            value = nextafter(pow(10, (int)(seed % 19) - 4), seed & 64 ? 0 : 1e300);
            break;
        case 4:
            value = -(double)(seed >> (seed % 50 + 10));
            break;
        default:
            memcpy(&value, &seed, sizeof value);
            value = isfinite(value) ? value : 0.1;
        }
        gk_real_text(value, fast);
        gk_real_text_slowly(value, slow);
        assert_string_equal(fast, slow);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_real_text_two_ways),
        cmocka_unit_test(refusals_name_the_place),
        cmocka_unit_test(utf8_is_checked),
        cmocka_unit_test(nesting_is_bounded),
        cmocka_unit_test(writing_is_bounded_too),
        cmocka_unit_test(canonical_text),
        cmocka_unit_test(pretty_text),
        cmocka_unit_test(reals_are_shortest),
        cmocka_unit_test(text_and_value_are_inverse),
        cmocka_unit_test(values_are_lent),
        cmocka_unit_test(needs_name_the_place),
        cmocka_unit_test(building_never_leaks),
        cmocka_unit_test(shown_values_are_short),
        cmocka_unit_test(odd_files_are_refused_by_name),
        cmocka_unit_test(store_replaces_whole_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
