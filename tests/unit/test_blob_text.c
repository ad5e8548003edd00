/* Base64: the RFC's vectors, every length, and what is refused. */
#include "cli/blob_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void test_vectors(void **state)
{
    (void)state;
    static const char *const vectors[][2] = {{"", ""},
                                             {"f", "Zg=="},
                                             {"fo", "Zm8="},
                                             {"foo", "Zm9v"},
                                             {"foob", "Zm9vYg=="},
                                             {"fooba", "Zm9vYmE="},
                                             {"foobar", "Zm9vYmFy"}};
    for (size_t i = 0; i < GK_ARRAY_COUNT(vectors); i++) {
        struct gk_buf text = {0}, bytes = {0};
        gk_blob_text(vectors[i][0], strlen(vectors[i][0]), &text);
        assert_string_equal(gk_buf_text(&text), vectors[i][1]);
        assert_int_equal(gk_blob_bytes(gk_buf_text(&text), text.size, &bytes, NULL), GK_OK);
        assert_string_equal(gk_buf_text(&bytes), vectors[i][0]);
        gk_buf_fini(&text);
        gk_buf_fini(&bytes);
    }
}

static void test_every_length(void **state)
{
    (void)state;
    unsigned char all[256];
    for (unsigned i = 0; i < 256; i++) {
        all[i] = (unsigned char)(i * 167 + 13);
    }
    for (size_t size = 0; size <= 256; size++) {
        struct gk_buf text = {0}, bytes = {0};
        gk_blob_text(all, size, &text);
        assert_int_equal(text.size, (size + 2) / 3 * 4);
        assert_int_equal(gk_blob_bytes(gk_buf_text(&text), text.size, &bytes, NULL), GK_OK);
        assert_int_equal(bytes.size, size);
        assert_memory_equal(gk_buf_text(&bytes), all, size);
        gk_buf_fini(&text);
        gk_buf_fini(&bytes);
    }
}

static void test_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"Z",    "Zg",   "Zg=",      "Zg=a", "Z===", "====",
                                      "Zm9 ", "Zm-_", "Zg==Zg==", "Zh==", "Zm9=", "Zm9v\n"};
    for (size_t i = 0; i < GK_ARRAY_COUNT(bad); i++) {
        struct gk_buf bytes = {0};
        struct gk_err err = {0};
        gk_buf_puts(&bytes, "kept");
        assert_int_equal(gk_blob_bytes(bad[i], strlen(bad[i]), &bytes, &err), GK_PARSE);
        assert_non_null(strstr(err.text, "base64"));
        assert_int_equal(bytes.size, 4);
        gk_buf_fini(&bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_every_length),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
