/* Messages from strangers: 64 bytes of header, then the body. What is accepted is encoded to an
 * equal message. Random bytes never meet the checksum, so each input is also tried repaired. */
#include <string.h>

#include "core/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void put_u32(unsigned char *at, uint32_t value)
{
    for (int i = 0; i < 4; i++) {
        at[i] = (unsigned char)(value >> (8 * i));
    }
}

static void try_message(const unsigned char *header, size_t header_size, const uint8_t *body,
                        size_t body_size)
{
    struct gk_message first = {0}, second = {0};
    struct gk_buf text = {0};
    struct gk_err err;
    unsigned char again[GK_HEADER_SIZE];
    if (gk_wire_decode(header, header_size, body, body_size, &first, &err) != GK_OK) {
        return;
    }
    GK_ASSERT(header_size == GK_HEADER_SIZE && gk_message_name(first.type));
    /* Canonical text may be longer than what came (escapes): only the limit may refuse it. */
    enum gk_status status = gk_wire_encode(&first, again, &text, &err);
    GK_ASSERT(status == GK_OK || status == GK_LIMIT);
    if (status == GK_OK) {
        GK_ASSERT(gk_wire_decode(again, sizeof again, text.data, text.size, &second, &err) ==
                  GK_OK);
        GK_ASSERT(first.type == second.type && first.epoch == second.epoch);
        GK_ASSERT(first.session == second.session && first.seq == second.seq);
        GK_ASSERT(first.token == second.token && first.reply_to == second.reply_to);
        GK_ASSERT(gk_json_equal(first.body, second.body));
        gk_message_fini(&second);
    }
    gk_buf_fini(&text);
    gk_message_fini(&first);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    unsigned char header[GK_HEADER_SIZE];
    if (size < GK_HEADER_SIZE) {
        try_message(data, size, NULL, 0);
        return 0;
    }
    const uint8_t *body = data + GK_HEADER_SIZE;
    size_t body_size = size - GK_HEADER_SIZE;
    memcpy(header, data, sizeof header);
    try_message(header, sizeof header, body, body_size);
    put_u32(header + 12, (uint32_t)body_size);
    put_u32(header + 60, gk_crc32c(gk_crc32c(0, header, 60), body, body_size));
    try_message(header, sizeof header, body, body_size);
    return 0;
}
