/* Frames: whole ones, pieces of a byte, cut ones, too long ones. */
#include "worker/child_frame.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static struct gk_json *sample(int64_t n)
{
    struct gk_json *json = gk_json_new_object();
    assert_true(gk_json_set_int(json, "n", n) && gk_json_set_string(json, "text", "abc\n\"x\""));
    return json;
}

static void through_a_pipe(void **state)
{
    int fds[2];
    struct gk_json *out = sample(5), *in = NULL;
    struct gk_err err = {0};
    (void)state;
    assert_int_equal(pipe(fds), 0);
    assert_int_equal(gk_frame_write(fds[1], out, &err), GK_OK);
    assert_int_equal(gk_frame_read(fds[0], &in, &err), GK_OK);
    assert_true(gk_json_equal(in, out));
    gk_json_free(in);
    assert_int_equal(write(fds[1], "\5\0\0\0{}", 6), 6);
    assert_int_equal(close(fds[1]), 0);
    assert_int_equal(gk_frame_read(fds[0], &in, &err), GK_PROTOCOL); /* cut off */
    assert_int_equal(gk_frame_read(fds[0], &in, &err), GK_END);
    assert_int_equal(close(fds[0]), 0);
    gk_json_free(out);
}

static void in_pieces(void **state)
{
    struct gk_frame_reader reader = {0};
    struct gk_err err = {0};
    int64_t seen = 0;
    (void)state;
    for (int64_t n = 0; n < 3; n++) {
        char *bytes = NULL;
        size_t size = 0;
        struct gk_json *out = sample(n);
        assert_int_equal(gk_frame_pack(out, &bytes, &size, &err), GK_OK);
        for (size_t i = 0; i < size; i++) {
            struct gk_json *in = NULL;
            assert_int_equal(gk_frame_feed(&reader, bytes + i, 1, &err), GK_OK);
            enum gk_status status = gk_frame_next(&reader, &in, &err);
            assert_int_equal(status, i + 1 == size ? GK_OK : GK_AGAIN);
            if (status == GK_OK) {
                assert_int_equal(gk_json_get_int(in, "n", -1), n);
                seen++;
            }
            gk_json_free(in);
        }
        free(bytes);
        gk_json_free(out);
    }
    assert_int_equal(seen, 3);
    gk_frame_reader_fini(&reader);
}

static void refused(void **state)
{
    struct gk_frame_reader reader = {0};
    struct gk_json *in = NULL;
    struct gk_err err = {0};
    (void)state;
    assert_int_equal(gk_frame_feed(&reader, "\377\377\377\377", 4, &err), GK_OK);
    assert_int_equal(gk_frame_next(&reader, &in, &err), GK_LIMIT);
    gk_frame_reader_fini(&reader);
    memset(&reader, 0, sizeof reader);
    assert_int_equal(gk_frame_feed(&reader, "\3\0\0\0{]}", 7, &err), GK_OK);
    assert_int_equal(gk_frame_next(&reader, &in, &err), GK_PROTOCOL);
    gk_frame_reader_fini(&reader);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(through_a_pipe),
                                       cmocka_unit_test(in_pieces), cmocka_unit_test(refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
