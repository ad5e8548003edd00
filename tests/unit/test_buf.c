/* core/buf: growth, sticky failure, detaching. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/buf.h"

static void grows_and_ends_in_nul(void **state)
{
    (void)state;
    struct gk_buf buf = {0};
    struct gk_err err;
    assert_string_equal(gk_buf_text(&buf), "");
    for (int i = 0; i < 1000; i++) {
        gk_buf_printf(&buf, "%d,", i % 10);
        gk_buf_putc(&buf, ';');
        assert_int_equal(buf.data[buf.size], 0);
    }
    gk_buf_puts(&buf, "end");
    gk_buf_add(&buf, "\0x", 2);
    assert_int_equal(buf.size, 3005);
    assert_memory_equal(buf.data, "0,;1,;", 6);
    assert_memory_equal(buf.data + 3000, "end\0x", 6);
    assert_int_equal(gk_buf_status(&buf, &err), GK_OK);
    size_t capacity = buf.capacity;
    gk_buf_reset(&buf);
    assert_string_equal(gk_buf_text(&buf), "");
    assert_int_equal(buf.capacity, capacity);
    gk_buf_fini(&buf);
    gk_buf_fini(NULL);
}

static void failure_sticks(void **state)
{
    (void)state;
    struct gk_buf buf = {0};
    struct gk_err err;
    gk_buf_puts(&buf, "abc");
    gk_buf_add(&buf, "abc", SIZE_MAX / 2); /* never read: no such memory */
    assert_true(buf.failed);
    gk_buf_puts(&buf, "def");
    gk_buf_printf(&buf, "%d", 1);
    assert_string_equal(gk_buf_text(&buf), "abc");
    assert_int_equal(gk_buf_status(&buf, &err), GK_NOMEM);
    assert_null(gk_buf_detach(&buf));
    assert_int_equal(buf.size, 0);
}

static void detach_gives_the_memory(void **state)
{
    (void)state;
    struct gk_buf buf;
    gk_buf_init(&buf);
    char *empty = gk_buf_detach(&buf);
    assert_string_equal(empty, "");
    gk_buf_puts(&buf, "text");
    char *text = gk_buf_detach(&buf);
    assert_string_equal(text, "text");
    assert_null(buf.data);
    free(empty);
    free(text);
}

static void copies(void **state)
{
    (void)state;
    char *a = gk_strdup("abc"), *b = gk_strndup("abcdef", 2), *c = gk_asprintf("%s-%d", "x", 7);
    assert_string_equal(a, "abc");
    assert_string_equal(b, "ab");
    assert_string_equal(c, "x-7");
    free(a);
    free(b);
    free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grows_and_ends_in_nul),
        cmocka_unit_test(failure_sticks),
        cmocka_unit_test(detach_gives_the_memory),
        cmocka_unit_test(copies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
