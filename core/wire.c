/*
 * Messages as bytes: see wire.h. Pure functions over memory; any thread.
 *
 * The order of checks in decode matters: sizes before any field, the magic before the version, the
 * version before everything whose place a later version may move, the checksum before the body is
 * parsed.
 */
#include "core/wire.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const unsigned char magic[4] = {'G', 'K', 'T', '1'};

/* Offsets of the header's fields, in wire.h's table. */
enum {
    AT_VERSION = 4,
    AT_TYPE = 6,
    AT_FLAGS = 8,
    AT_BODY_SIZE = 12,
    AT_EPOCH = 16,
    AT_SESSION = 24,
    AT_SEQ = 32,
    AT_TOKEN = 40,
    AT_REPLY_TO = 48,
    AT_RESERVED = 56,
    AT_CRC = 60
};

/* CRC-32C (Castagnoli, reflected polynomial 0x82F63B78). Two ways to the same number: the
 * processor's instruction where it has one, since a daemon under load checks every byte of some
 * 40,000 frames a second; else a nibble a step, 64 bytes of table. */
static const uint32_t crc_table[16] = {
    0x00000000, 0x105EC76F, 0x20BD8EDE, 0x30E349B1, 0x417B1DBC, 0x5125DAD3, 0x61C69362, 0x7198540D,
    0x82F63B78, 0x92A8FC17, 0xA24BB5A6, 0xB21572C9, 0xC38D26C4, 0xD3D3E1AB, 0xE330A81A, 0xF36E6F75,
};

static uint32_t crc_by_table(uint32_t crc, const unsigned char *p, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        crc ^= p[i];
        crc = (crc >> 4) ^ crc_table[crc & 15];
        crc = (crc >> 4) ^ crc_table[crc & 15];
    }
    return crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) static uint32_t crc_by_instruction(uint32_t crc,
                                                                     const unsigned char *p,
                                                                     size_t size)
{
    uint64_t wide = crc;
    for (; size >= sizeof(uint64_t); p += sizeof(uint64_t), size -= sizeof(uint64_t)) {
        uint64_t word;
        memcpy(&word, p, sizeof word);
        wide = __builtin_ia32_crc32di(wide, word);
    }
    crc = (uint32_t)wide;
    for (size_t i = 0; i < size; i++) {
        crc = __builtin_ia32_crc32qi(crc, p[i]);
    }
    return crc;
}
#endif

uint32_t gk_crc32c(uint32_t crc, const void *bytes, size_t size)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("sse4.2")) {
        return ~crc_by_instruction(~crc, bytes, size);
    }
#endif
    return ~crc_by_table(~crc, bytes, size);
}

uint32_t gk_crc32c_by_table(uint32_t crc, const void *bytes, size_t size)
{
    return ~crc_by_table(~crc, bytes, size);
}

static void put(unsigned char *at, uint64_t value, unsigned size)
{
    for (unsigned i = 0; i < size; i++) {
        at[i] = (unsigned char)(value >> (8 * i));
    }
}

static uint64_t take(const unsigned char *at, unsigned size)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < size; i++) {
        value |= (uint64_t)at[i] << (8 * i);
    }
    return value;
}

const char *gk_message_name(enum gk_message_type type)
{
    switch (type) {
#define MESSAGE_NAME(name, number)                                                                 \
    case GK_MSG_##name:                                                                            \
        return #name;
        GK_MESSAGE_MAP(MESSAGE_NAME)
#undef MESSAGE_NAME
    }
    return NULL;
}

void gk_message_fini(struct gk_message *message)
{
    if (message) {
        gk_json_free(message->body);
        message->body = NULL;
    }
}

enum gk_status gk_wire_encode(const struct gk_message *message,
                              unsigned char header_out[GK_HEADER_SIZE], struct gk_buf *body,
                              struct gk_err *err)
{
    const char *name = gk_message_name(message->type);
    if (!name) {
        return gk_fail(err, GK_INTERNAL, "message type %d does not exist", (int)message->type);
    }
    if (!gk_json_is(message->body, GK_JSON_OBJECT)) {
        return gk_fail(err, GK_INTERNAL, "message %s: the body is %s, an object is needed", name,
                       gk_json_type_name(gk_json_type(message->body)));
    }
    gk_buf_reset(body);
    enum gk_status status = gk_json_canonical(message->body, body, err);
    if (status != GK_OK) {
        return gk_fail_in(err, status, "message %s", name);
    }
    return gk_wire_seal(message, header_out, body->data, body->size, err);
}

enum gk_status gk_wire_seal(const struct gk_message *message,
                            unsigned char header_out[GK_HEADER_SIZE], const void *body,
                            size_t body_size, struct gk_err *err)
{
    const char *name = gk_message_name(message->type);
    if (!name) {
        return gk_fail(err, GK_INTERNAL, "message type %d does not exist", (int)message->type);
    }
    if (body_size > GK_BODY_MAX) {
        return gk_fail(err, GK_LIMIT, "message %s: the body has %zu bytes, at most %u are allowed",
                       name, body_size, GK_BODY_MAX);
    }
    unsigned char header[GK_HEADER_SIZE] = {0};
    memcpy(header, magic, sizeof magic);
    put(header + AT_VERSION, GK_WIRE_VERSION, 2);
    put(header + AT_TYPE, (uint64_t)message->type, 2);
    put(header + AT_BODY_SIZE, body_size, 4);
    put(header + AT_EPOCH, message->epoch, 8);
    put(header + AT_SESSION, message->session, 8);
    put(header + AT_SEQ, message->seq, 8);
    put(header + AT_TOKEN, message->token, 8);
    put(header + AT_REPLY_TO, message->reply_to, 8);
    uint32_t crc = gk_crc32c(0, header, AT_CRC);
    put(header + AT_CRC, gk_crc32c(crc, body, body_size), 4);
    memcpy(header_out, header, sizeof header);
    return GK_OK;
}

/* Everything about the two frames that can be said without reading the body. */
static enum gk_status check_frames(const unsigned char *header, size_t header_size,
                                   const void *body, size_t body_size, struct gk_err *err)
{
    if (header_size != GK_HEADER_SIZE) {
        return gk_fail(err, GK_PROTOCOL, "the header has %zu bytes, %d are needed", header_size,
                       GK_HEADER_SIZE);
    }
    if (body_size > GK_BODY_MAX) {
        return gk_fail(err, GK_PROTOCOL, "the body has %zu bytes, at most %u are allowed",
                       body_size, GK_BODY_MAX);
    }
    if (memcmp(header, magic, sizeof magic) != 0) {
        return gk_fail(err, GK_PROTOCOL, "the header does not begin with \"GKT1\"");
    }
    unsigned version = (unsigned)take(header + AT_VERSION, 2);
    if (version < GK_WIRE_VERSION_MIN || version > GK_WIRE_VERSION) {
        return gk_fail(err, GK_VERSION, "message version %u; this build understands %d to %d",
                       version, GK_WIRE_VERSION_MIN, GK_WIRE_VERSION);
    }
    uint64_t said = take(header + AT_BODY_SIZE, 4);
    if (said != body_size) {
        return gk_fail(err, GK_PROTOCOL,
                       "the header promises a body of %" PRIu64 " bytes, %zu came", said,
                       body_size);
    }
    uint32_t crc = gk_crc32c(gk_crc32c(0, header, AT_CRC), body, body_size);
    uint32_t met = (uint32_t)take(header + AT_CRC, 4);
    if (met != crc) {
        return gk_fail(err, GK_PROTOCOL, "the checksum is %08" PRIX32 ", the bytes give %08" PRIX32,
                       met, crc);
    }
    if (take(header + AT_FLAGS, 4) != 0 || take(header + AT_RESERVED, 4) != 0) {
        return gk_fail(err, GK_PROTOCOL, "flags or reserved bytes are not zero");
    }
    return GK_OK;
}

enum gk_status gk_wire_open(const void *header_bytes, size_t header_size, const void *body,
                            size_t body_size, struct gk_message *message_out, struct gk_err *err)
{
    const unsigned char *header = header_bytes;
    enum gk_status status = check_frames(header, header_size, body, body_size, err);
    if (status != GK_OK) {
        return status;
    }
    struct gk_message message = {
        .type = (enum gk_message_type)take(header + AT_TYPE, 2),
        .version = (uint16_t)take(header + AT_VERSION, 2),
        .epoch = take(header + AT_EPOCH, 8),
        .session = take(header + AT_SESSION, 8),
        .seq = take(header + AT_SEQ, 8),
        .token = take(header + AT_TOKEN, 8),
        .reply_to = take(header + AT_REPLY_TO, 8),
    };
    if (!gk_message_name(message.type)) {
        return gk_fail(err, GK_PROTOCOL, "message type %d is not known", (int)message.type);
    }
    *message_out = message;
    return GK_OK;
}

enum gk_status gk_wire_parse_body(struct gk_message *message, const void *body, size_t body_size,
                                  struct gk_err *err)
{
    char origin[48]; /* "message " and the longest name */
    struct gk_json *json = NULL;
    (void)snprintf(origin, sizeof origin, "message %s", gk_message_name(message->type));
    enum gk_status status = gk_json_parse(body, body_size, origin, &json, err);
    if (status == GK_NOMEM) {
        return status;
    }
    if (status != GK_OK) {
        if (err) {
            err->status = GK_PROTOCOL; /* a text that does not parse is a malformed message here */
        }
        return GK_PROTOCOL;
    }
    if (!gk_json_is(json, GK_JSON_OBJECT)) {
        status = gk_fail(err, GK_PROTOCOL, "%s: the body is %s, an object is needed", origin,
                         gk_json_type_name(gk_json_type(json)));
        gk_json_free(json);
        return status;
    }
    message->body = json;
    return GK_OK;
}

enum gk_status gk_wire_decode(const void *header, size_t header_size, const void *body,
                              size_t body_size, struct gk_message *message_out, struct gk_err *err)
{
    struct gk_message message = {0};
    enum gk_status status = gk_wire_open(header, header_size, body, body_size, &message, err);
    if (status == GK_OK) {
        status = gk_wire_parse_body(&message, body, body_size, err);
    }
    if (status == GK_OK) {
        *message_out = message;
    }
    return status;
}
