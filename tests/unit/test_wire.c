/* Messages as bytes: round trips, and every way a header or a body can be wrong. */
#include "core/wire.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct frames {
    unsigned char header[GK_HEADER_SIZE];
    struct gk_buf body;
};

static struct gk_message sample(void)
{
    struct gk_message message = {.type = GK_MSG_LEASE,
                                 .epoch = 0x1122334455667788u,
                                 .session = 2,
                                 .seq = 3,
                                 .token = UINT64_MAX,
                                 .reply_to = 5,
                                 .body = gk_json_new_object()};
    assert_true(gk_json_set_int(message.body, "b", 7));
    assert_true(gk_json_set_string(message.body, "a", "caf\xC3\xA9"));
    return message;
}

static void encode(struct frames *frames, const struct gk_message *message)
{
    struct gk_err err = {0};
    assert_int_equal(gk_wire_encode(message, frames->header, &frames->body, &err), GK_OK);
}

static void setup_frames(struct frames *frames)
{
    struct gk_message message = sample();
    encode(frames, &message);
    gk_message_fini(&message);
}

/* Makes the checksum right again, so that a test reaches the check behind it. */
static void seal(struct frames *frames)
{
    uint32_t crc =
        gk_crc32c(gk_crc32c(0, frames->header, 60), frames->body.data, frames->body.size);
    for (unsigned i = 0; i < 4; i++) {
        frames->header[60 + i] = (unsigned char)(crc >> (8 * i));
    }
}

static void set_body(struct frames *frames, const char *text, size_t size)
{
    gk_buf_reset(&frames->body);
    gk_buf_add(&frames->body, text, size);
    for (unsigned i = 0; i < 4; i++) {
        frames->header[12 + i] = (unsigned char)(size >> (8 * i));
    }
    seal(frames);
}

static void expect(const struct frames *frames, enum gk_status wanted, const char *part)
{
    struct gk_err err = {0};
    struct gk_message message = {.seq = 77};
    assert_int_equal(gk_wire_decode(frames->header, GK_HEADER_SIZE, frames->body.data,
                                    frames->body.size, &message, &err),
                     wanted);
    assert_int_equal(err.status, wanted);
    if (!strstr(err.text, part)) {
        fail_msg("'%s' is not in '%s'", part, err.text);
    }
    assert_int_equal(message.seq, 77); /* written on success only */
    assert_null(message.body);
}

static void test_crc_known_values(void **state)
{
    (void)state;
    /* Check value of the polynomial, and the 32-byte patterns of RFC 3720, B.4. */
    assert_int_equal(gk_crc32c(0, "123456789", 9), 0xE3069283u);
    unsigned char bytes[32] = {0};
    assert_int_equal(gk_crc32c(0, bytes, 32), 0x8A9136AAu);
    memset(bytes, 0xFF, 32);
    assert_int_equal(gk_crc32c(0, bytes, 32), 0x62A8AB43u);
    for (unsigned i = 0; i < 32; i++) {
        bytes[i] = (unsigned char)i;
    }
    assert_int_equal(gk_crc32c(0, bytes, 32), 0x46DD794Eu);
    assert_int_equal(gk_crc32c(gk_crc32c(0, bytes, 5), bytes + 5, 27), 0x46DD794Eu);
    assert_int_equal(gk_crc32c(0, NULL, 0), 0);
}

/* The processor's instruction and the table: at every length and alignment of a word or two. */
static void test_crc_two_ways(void **state)
{
    (void)state;
    unsigned char bytes[64];
    for (unsigned i = 0; i < sizeof bytes; i++) {
        bytes[i] = (unsigned char)(i * 37 + 11);
    }
    for (size_t from = 0; from < 9; from++) {
        for (size_t size = 0; from + size <= sizeof bytes; size++) {
            assert_int_equal(gk_crc32c(0x1234567, bytes + from, size),
                             gk_crc32c_by_table(0x1234567, bytes + from, size));
        }
    }
}

static void test_seal_and_open(void **state)
{
    (void)state;
    static const char text[] = "{\"a\":1}";
    struct gk_message message = {.type = GK_MSG_RESULT, .epoch = 4, .seq = 9, .token = 7},
                      got = {0};
    unsigned char header[GK_HEADER_SIZE];
    struct gk_err err = {0};
    assert_int_equal(gk_wire_seal(&message, header, text, sizeof text - 1, &err), GK_OK);
    assert_int_equal(gk_wire_open(header, sizeof header, text, sizeof text - 1, &got, &err), GK_OK);
    assert_true(got.type == GK_MSG_RESULT && got.epoch == 4 && got.seq == 9 && got.token == 7);
    assert_null(got.body);
    assert_int_equal(gk_wire_open(header, sizeof header, "{\"a\":2}", 7, &got, &err), GK_PROTOCOL);
    assert_int_equal(gk_wire_seal(&message, header, text, GK_BODY_MAX + 1, &err), GK_LIMIT);
}

static void test_round_trip(void **state)
{
    (void)state;
    struct frames frames = {0};
    struct gk_message message = sample(), got = {0};
    struct gk_err err = {0};
    encode(&frames, &message);
    assert_string_equal(gk_buf_text(&frames.body), "{\"a\":\"caf\xC3\xA9\",\"b\":7}");
    assert_int_equal(gk_wire_decode(frames.header, GK_HEADER_SIZE, frames.body.data,
                                    frames.body.size, &got, &err),
                     GK_OK);
    assert_int_equal(got.type, GK_MSG_LEASE);
    assert_int_equal(got.version, GK_WIRE_VERSION);
    assert_true(got.epoch == message.epoch && got.session == 2 && got.seq == 3);
    assert_true(got.token == UINT64_MAX && got.reply_to == 5);
    assert_true(gk_json_equal(got.body, message.body));
    gk_message_fini(&got);
    gk_message_fini(&got); /* twice is nothing */
    gk_message_fini(NULL);
    gk_message_fini(&message);
    gk_buf_fini(&frames.body);
}

/* The layout is the contract: these bytes may never move. */
static void test_layout(void **state)
{
    (void)state;
    struct frames frames = {0};
    setup_frames(&frames);
    const unsigned char *h = frames.header;
    assert_memory_equal(h, "GKT1\x01\x00\x05\x00\x00\x00\x00\x00", 12);
    assert_int_equal(h[12], frames.body.size);
    assert_memory_equal(h + 16, "\x88\x77\x66\x55\x44\x33\x22\x11", 8);
    assert_int_equal(h[24], 2);
    assert_int_equal(h[32], 3);
    assert_memory_equal(h + 40, "\xff\xff\xff\xff\xff\xff\xff\xff", 8);
    assert_int_equal(h[48], 5);
    assert_memory_equal(h + 56, "\0\0\0\0", 4);
    gk_buf_fini(&frames.body);
}

static void test_every_type_has_a_name(void **state)
{
    (void)state;
    unsigned known = 0;
    for (int type = 0; type < 65536; type++) {
        known += gk_message_name((enum gk_message_type)type) != NULL;
    }
    assert_int_equal(known, 20);
    assert_string_equal(gk_message_name(GK_MSG_DEVICE_EVENT), "DEVICE_EVENT");
}

/* The checksum covers everything: no single flipped bit passes. */
static void test_every_flipped_bit(void **state)
{
    (void)state;
    struct frames frames = {0};
    setup_frames(&frames);
    for (size_t bit = 0; bit < (GK_HEADER_SIZE + frames.body.size) * 8; bit++) {
        unsigned char *byte = bit < GK_HEADER_SIZE * 8
                                  ? &frames.header[bit / 8]
                                  : (unsigned char *)&frames.body.data[bit / 8 - GK_HEADER_SIZE];
        *byte = (unsigned char)(*byte ^ (1u << (bit % 8)));
        struct gk_message message = {0};
        enum gk_status status = gk_wire_decode(frames.header, GK_HEADER_SIZE, frames.body.data,
                                               frames.body.size, &message, NULL);
        assert_true(status == GK_PROTOCOL || status == GK_VERSION);
        *byte = (unsigned char)(*byte ^ (1u << (bit % 8)));
    }
    gk_buf_fini(&frames.body);
}

static void test_header_sizes(void **state)
{
    (void)state;
    struct frames frames = {0};
    setup_frames(&frames);
    unsigned char longer[GK_HEADER_SIZE + 1] = {0};
    memcpy(longer, frames.header, GK_HEADER_SIZE);
    for (size_t size = 0; size <= GK_HEADER_SIZE + 1; size++) {
        /* exactly as many bytes as are said to be there, so that a read past them is seen */
        unsigned char *header = malloc(size ? size : 1);
        assert_non_null(header);
        memcpy(header, longer, size);
        struct gk_message message = {0};
        enum gk_status status =
            gk_wire_decode(header, size, frames.body.data, frames.body.size, &message, NULL);
        assert_int_equal(status, size == GK_HEADER_SIZE ? GK_OK : GK_PROTOCOL);
        gk_message_fini(&message);
        free(header);
    }
    gk_buf_fini(&frames.body);
}

static void test_header_fields(void **state)
{
    (void)state;
    struct frames frames = {0};
    setup_frames(&frames);
    frames.header[3] = '2';
    expect(&frames, GK_PROTOCOL, "GKT1");
    frames.header[3] = '1';

    frames.header[4] = 0;
    expect(&frames, GK_VERSION, "version 0; this build understands 1 to 1");
    frames.header[4] = 2;
    expect(&frames, GK_VERSION, "version 2;");
    frames.header[5] = 1;
    expect(&frames, GK_VERSION, "version 258;");
    frames.header[4] = 1;
    frames.header[5] = 0;

    frames.header[6] = 99;
    seal(&frames);
    expect(&frames, GK_PROTOCOL, "type 99");
    frames.header[6] = 0;
    seal(&frames);
    expect(&frames, GK_PROTOCOL, "type 0");
    frames.header[6] = GK_MSG_LEASE;

    for (unsigned at = 8; at < 12; at++) {
        frames.header[at] = 1;
        seal(&frames);
        expect(&frames, GK_PROTOCOL, "flags");
        frames.header[at] = 0;
    }
    for (unsigned at = 56; at < 60; at++) {
        frames.header[at] = 0x80;
        seal(&frames);
        expect(&frames, GK_PROTOCOL, "reserved");
        frames.header[at] = 0;
    }
    frames.header[12]++;
    seal(&frames);
    expect(&frames, GK_PROTOCOL, "promises");
    frames.header[12]--;
    seal(&frames);
    frames.header[60] ^= 1;
    expect(&frames, GK_PROTOCOL, "checksum");
    gk_buf_fini(&frames.body);
}

static void test_bodies(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t size;
        const char *part;
    } bad[] = {
        {"", 0, "LEASE"},
        {"[]", 2, "an object is needed"},
        {"7", 1, "an object is needed"},
        {"null", 4, "an object is needed"},
        {"{", 1, "line 1"},
        {"{}x", 3, "line 1"},
        {"{}\0", 3, "line 1"},
        {"{\"a\":1,\"a\":2}", 13, "line 1"},
        {"{\"a\":1e999}", 11, "line 1"},
        {"{\"a\":99999999999999999999}", 26, "line 1"},
        {"{\"a\":\"\\u0000\"}", 14, "line 1"},
        {"{\"a\":\"\xC3\"}", 9, "UTF-8"},
        {"{\"a\":\"\xED\xA0\x80\"}", 11, "UTF-8"},
        {"\xEF\xBB\xBF{}", 5, "byte order mark"},
    };
    struct frames frames = {0};
    setup_frames(&frames);
    for (size_t i = 0; i < GK_ARRAY_COUNT(bad); i++) {
        set_body(&frames, bad[i].text, bad[i].size);
        expect(&frames, GK_PROTOCOL, bad[i].part);
    }
    gk_buf_fini(&frames.body);
}

static void test_deep_and_large_bodies(void **state)
{
    (void)state;
    struct frames frames = {0};
    setup_frames(&frames);
    struct gk_buf text = {0};
    gk_buf_puts(&text, "{\"a\":");
    for (int i = 0; i < 200000; i++) {
        gk_buf_putc(&text, '[');
    }
    set_body(&frames, text.data, text.size);
    expect(&frames, GK_PROTOCOL, "nested deeper");

    /* The largest allowed body passes, one byte more does not. */
    const char *head = "{\"a\":\"", *tail = "\"}";
    for (size_t more = 0; more < 2; more++) {
        gk_buf_reset(&text);
        gk_buf_puts(&text, head);
        while (text.size < GK_BODY_MAX - strlen(tail) + more) {
            gk_buf_putc(&text, 'x');
        }
        gk_buf_puts(&text, tail);
        set_body(&frames, text.data, text.size);
        struct gk_message message = {0};
        enum gk_status status = gk_wire_decode(frames.header, GK_HEADER_SIZE, frames.body.data,
                                               frames.body.size, &message, NULL);
        assert_int_equal(status, more ? GK_PROTOCOL : GK_OK);
        gk_message_fini(&message);
    }
    gk_buf_fini(&text);
    gk_buf_fini(&frames.body);
}

static void test_encode_refuses(void **state)
{
    (void)state;
    struct frames frames = {0};
    struct gk_err err = {0};
    struct gk_message message = sample();
    message.type = (enum gk_message_type)17;
    assert_int_equal(gk_wire_encode(&message, frames.header, &frames.body, &err), GK_INTERNAL);
    message.type = GK_MSG_PING;
    char *text = malloc(GK_BODY_MAX + 1);
    assert_non_null(text);
    memset(text, 'x', GK_BODY_MAX);
    text[GK_BODY_MAX] = '\0';
    assert_true(gk_json_set_string(message.body, "long", text));
    free(text);
    memset(frames.header, 0x5A, sizeof frames.header);
    assert_int_equal(gk_wire_encode(&message, frames.header, &frames.body, &err), GK_LIMIT);
    assert_non_null(strstr(err.text, "1048576"));
    assert_int_equal(frames.header[0], 0x5A); /* written on success only */
    gk_message_fini(&message);
    assert_int_equal(gk_wire_encode(&message, frames.header, &frames.body, &err), GK_INTERNAL);
    gk_buf_fini(&frames.body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_crc_known_values),
        cmocka_unit_test(test_crc_two_ways),
        cmocka_unit_test(test_seal_and_open),
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_layout),
        cmocka_unit_test(test_every_type_has_a_name),
        cmocka_unit_test(test_every_flipped_bit),
        cmocka_unit_test(test_header_sizes),
        cmocka_unit_test(test_header_fields),
        cmocka_unit_test(test_bodies),
        cmocka_unit_test(test_deep_and_large_bodies),
        cmocka_unit_test(test_encode_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
