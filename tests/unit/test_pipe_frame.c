/* Frames between the supervisor and its children: round trips, pieces, bounds, strangers' bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>
#include <unistd.h>

#include "worker/pipe_frame.h"

static struct gk_json *sample(void)
{
    struct gk_json *json = gk_json_new_object();
    assert_true(gk_json_set_string(json, "kind", "compile"));
    return json;
}

static void encode(struct gk_buf *bytes, const void *payload, size_t size)
{
    struct gk_json *json = sample();
    assert_int_equal(gk_pipe_encode(json, payload, size, bytes, NULL), GK_OK);
    gk_json_free(json);
}

static void arrives_byte_by_byte(void **state)
{
    (void)state;
    struct gk_buf bytes = {0};
    struct gk_pipe_reader reader = {0};
    struct gk_pipe frame = {0};
    encode(&bytes, "a\0b", 3);
    encode(&bytes, NULL, 0);
    int frames = 0;
    for (size_t i = 0; i < bytes.size; i++) {
        assert_int_equal(gk_pipe_feed(&reader, bytes.data + i, 1, NULL), GK_OK);
        enum gk_status status = gk_pipe_next(&reader, &frame, NULL);
        if (status == GK_OK) {
            assert_string_equal(gk_json_get_string(frame.json, "kind", ""), "compile");
            assert_int_equal(frame.payload_size, frames == 0 ? 3 : 0);
            assert_true(frames != 0 || memcmp(frame.payload, "a\0b", 3) == 0);
            gk_pipe_fini(&frame);
            frames++;
        } else {
            assert_int_equal(status, GK_AGAIN);
        }
    }
    assert_int_equal(frames, 2);
    gk_pipe_reader_fini(&reader);
    gk_buf_fini(&bytes);
}

static void expect_refused(const void *bytes, size_t size)
{
    struct gk_pipe_reader reader = {0};
    struct gk_pipe frame = {0};
    struct gk_err err = {0};
    assert_int_equal(gk_pipe_feed(&reader, bytes, size, NULL), GK_OK);
    assert_int_equal(gk_pipe_next(&reader, &frame, &err), GK_PROTOCOL);
    assert_true(err.text[0] != 0);
    gk_pipe_reader_fini(&reader);
}

static void strangers_are_refused(void **state)
{
    (void)state;
    static const unsigned char HUGE_JSON[12] = {'G', 'K', 'F', '1', 0xff, 0xff, 0xff, 0xff};
    static const unsigned char HUGE_PAYLOAD[12] = {'G', 'K', 'F', '1', 2, 0, 0, 0, 0xff, 0xff, 0xff, 0x7f};
    static const unsigned char NO_JSON[12] = {'G', 'K', 'F', '1'};
    static const unsigned char LIST[14] = {'G', 'K', 'F', '1', 2, 0, 0, 0, 0, 0, 0, 0, '[', ']'};
    static const unsigned char BROKEN[14] = {'G', 'K', 'F', '1', 2, 0, 0, 0, 0, 0, 0, 0, '{', '{'};
    expect_refused("not a frame!", 12);
    expect_refused(HUGE_JSON, sizeof HUGE_JSON);
    expect_refused(HUGE_PAYLOAD, sizeof HUGE_PAYLOAD);
    expect_refused(NO_JSON, sizeof NO_JSON);
    expect_refused(LIST, sizeof LIST);
    expect_refused(BROKEN, sizeof BROKEN);
}

static void through_a_pipe(void **state)
{
    (void)state;
    int ends[2];
    struct gk_pipe frame = {0};
    struct gk_json *json = sample();
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(gk_pipe_write(ends[1], json, "xyz", 3, NULL), GK_OK);
    assert_int_equal(gk_pipe_read(ends[0], &frame, NULL), GK_OK);
    assert_true(gk_json_equal(frame.json, json));
    assert_memory_equal(frame.payload, "xyz", 4); /* with the NUL behind it */
    gk_pipe_fini(&frame);
    assert_int_equal(write(ends[1], "GKF1", 4), 4);
    (void)close(ends[1]);
    assert_int_equal(gk_pipe_read(ends[0], &frame, NULL), GK_PROTOCOL); /* cut inside the header */
    assert_int_equal(gk_pipe_read(ends[0], &frame, NULL), GK_CLOSED);
    (void)close(ends[0]);
    gk_json_free(json);
}

static void too_large_is_refused(void **state)
{
    (void)state;
    struct gk_buf bytes = {0};
    struct gk_json *json = sample();
    struct gk_err err = {0};
    assert_int_equal(gk_pipe_encode(json, "", (size_t)GK_PIPE_PAYLOAD_MAX + 1, &bytes, &err),
                     GK_LIMIT);
    assert_int_equal(bytes.size, 0);
    gk_json_free(json);
    gk_buf_fini(&bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arrives_byte_by_byte),
        cmocka_unit_test(strangers_are_refused),
        cmocka_unit_test(through_a_pipe),
        cmocka_unit_test(too_large_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
