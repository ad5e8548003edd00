/* Base64 of core: RFC 4648's vectors, every length around a piece, every malformed text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base64.h"
#include "tests/support/check.h"

static void vectors(void **state)
{
    static const char *const pairs[][2] = {
        {"", ""},        {"f", "Zg=="},        {"fo", "Zm8="},
        {"foo", "Zm9v"}, {"foob", "Zm9vYg=="}, {"foobar", "Zm9vYmFy"}};
    (void)state;
    for (size_t i = 0; i < GK_ARRAY_COUNT(pairs); i++) {
        struct gk_buf text = {0};
        gk_base64_encode(pairs[i][0], strlen(pairs[i][0]), &text);
        assert_string_equal(gk_buf_text(&text), pairs[i][1]);
        gk_buf_fini(&text);
    }
}

/* Pieces of 3072 bytes are joined inside: lengths on both sides of one, two and three of them. */
static void round_trips(void **state)
{
    static const size_t around[] = {0, 3072, 6144, 9216};
    (void)state;
    for (size_t i = 0; i < GK_ARRAY_COUNT(around); i++) {
        for (size_t size = around[i] > 4 ? around[i] - 4 : 0; size < around[i] + 5; size++) {
            unsigned char *bytes = malloc(size + 1);
            assert_non_null(bytes);
            for (size_t j = 0; j < size; j++) {
                bytes[j] = (unsigned char)(j * 37 + (j >> 8));
            }
            struct gk_err err;
            struct gk_buf text = {0}, back = {0};
            gk_base64_encode(bytes, size, &text);
            assert_int_equal(text.size, (size + 2) / 3 * 4);
            assert_ok(gk_base64_decode(gk_buf_text(&text), text.size, &back, &err), err);
            assert_int_equal(back.size, size);
            assert_true(size == 0 || memcmp(back.data, bytes, size) == 0);
            gk_buf_fini(&text);
            gk_buf_fini(&back);
            free(bytes);
        }
    }
}

static void malformed(void **state)
{
    static const char *const texts[] = {"aGVsbG8g\xe4"
                                        "29ybGQ=",
                                        "Zg",
                                        "Zg=",
                                        "Z===",
                                        "Zh==",
                                        "Zm9=",
                                        "Zm9*",
                                        "Zm =",
                                        "=m9v",
                                        "Zg==Zg=="};
    (void)state;
    for (size_t i = 0; i < GK_ARRAY_COUNT(texts); i++) {
        struct gk_err err;
        struct gk_buf out = {0};
        gk_buf_puts(&out, "kept");
        assert_status(gk_base64_decode(texts[i], strlen(texts[i]), &out, &err), GK_PARSE, err);
        assert_contains(err.text, "base64");
        assert_string_equal(gk_buf_text(&out), "kept");
        gk_buf_fini(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(vectors), cmocka_unit_test(round_trips),
                                       cmocka_unit_test(malformed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
