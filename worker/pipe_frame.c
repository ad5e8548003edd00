#include "worker/pipe_frame.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const unsigned char MAGIC[4] = {'G', 'K', 'F', '1'};

static void put_u32(unsigned char *out, uint32_t value)
{
    for (int i = 0; i < 4; i++) {
        out[i] = (unsigned char)(value >> (8 * i));
    }
}

static uint32_t get_u32(const unsigned char *in)
{
    return (uint32_t)in[0] | (uint32_t)in[1] << 8 | (uint32_t)in[2] << 16 | (uint32_t)in[3] << 24;
}

void gk_pipe_fini(struct gk_pipe *frame)
{
    if (frame) {
        gk_json_free(frame->json);
        free(frame->payload);
        *frame = (struct gk_pipe){0};
    }
}

enum gk_status gk_pipe_encode(const struct gk_json *json, const void *payload,
                               size_t payload_size, struct gk_buf *out, struct gk_err *err)
{
    struct gk_buf text = {0};
    unsigned char header[GK_PIPE_HEADER_SIZE];
    enum gk_status status = gk_json_canonical(json, &text, err);
    if (status != GK_OK) {
        goto out;
    }
    if (text.size > GK_PIPE_JSON_MAX || payload_size > GK_PIPE_PAYLOAD_MAX) {
        status = gk_fail(err, GK_LIMIT,
                         "frame of %zu bytes of JSON and %zu of payload; %u and %u are allowed",
                         text.size, payload_size, GK_PIPE_JSON_MAX, GK_PIPE_PAYLOAD_MAX);
        goto out;
    }
    memcpy(header, MAGIC, sizeof MAGIC);
    put_u32(header + 4, (uint32_t)text.size);
    put_u32(header + 8, (uint32_t)payload_size);
    gk_buf_add(out, header, sizeof header);
    gk_buf_add(out, text.data, text.size);
    if (payload_size) {
        gk_buf_add(out, payload, payload_size);
    }
    status = gk_buf_status(out, err);
out:
    gk_buf_fini(&text);
    return status;
}

/* Sizes from a header, checked. */
static enum gk_status parse_header(const unsigned char *header, size_t *json_size,
                                   size_t *payload_size, struct gk_err *err)
{
    if (memcmp(header, MAGIC, sizeof MAGIC) != 0) {
        return gk_fail(err, GK_PROTOCOL, "frame of a child does not begin with GKF1");
    }
    *json_size = get_u32(header + 4);
    *payload_size = get_u32(header + 8);
    if (*json_size == 0 || *json_size > GK_PIPE_JSON_MAX || *payload_size > GK_PIPE_PAYLOAD_MAX) {
        return gk_fail(err, GK_PROTOCOL,
                       "frame of a child announces %zu bytes of JSON and %zu of payload; 1 to %u "
                       "and 0 to %u are allowed",
                       *json_size, *payload_size, GK_PIPE_JSON_MAX, GK_PIPE_PAYLOAD_MAX);
    }
    return GK_OK;
}

static enum gk_status parse_body(const char *json, size_t json_size, const char *payload,
                                 size_t payload_size, struct gk_pipe *frame_out,
                                 struct gk_err *err)
{
    struct gk_pipe frame = {0};
    enum gk_status status = gk_json_parse(json, json_size, "frame of a child", &frame.json, err);
    if (status == GK_OK && !gk_json_is(frame.json, GK_JSON_OBJECT)) {
        status = GK_PROTOCOL;
    }
    if (status != GK_OK && status != GK_NOMEM) {
        status = gk_fail(err, GK_PROTOCOL, "frame of a child is not a JSON object");
    }
    if (status == GK_OK && payload_size) {
        frame.payload = malloc(payload_size + 1);
        if (!frame.payload) {
            status = gk_fail(err, GK_NOMEM, "out of memory for a frame");
        } else {
            memcpy(frame.payload, payload, payload_size);
            frame.payload[payload_size] = 0;
            frame.payload_size = payload_size;
        }
    }
    if (status != GK_OK) {
        gk_pipe_fini(&frame);
        return status;
    }
    *frame_out = frame;
    return GK_OK;
}

void gk_pipe_reader_fini(struct gk_pipe_reader *reader)
{
    if (reader) {
        gk_buf_fini(&reader->bytes);
        reader->start = 0;
    }
}

enum gk_status gk_pipe_feed(struct gk_pipe_reader *reader, const void *bytes, size_t size,
                             struct gk_err *err)
{
    if (reader->start > 0) { /* what was handed out makes room first */
        size_t rest = reader->bytes.size - reader->start;
        memmove(reader->bytes.data, reader->bytes.data + reader->start, rest);
        reader->bytes.size = rest;
        reader->start = 0;
    }
    gk_buf_add(&reader->bytes, bytes, size);
    return gk_buf_status(&reader->bytes, err);
}

enum gk_status gk_pipe_next(struct gk_pipe_reader *reader, struct gk_pipe *frame_out,
                             struct gk_err *err)
{
    size_t have = reader->bytes.size - reader->start, json_size = 0, payload_size = 0;
    if (have < GK_PIPE_HEADER_SIZE) {
        return GK_AGAIN;
    }
    const char *at = reader->bytes.data + reader->start;
    enum gk_status status =
        parse_header((const unsigned char *)at, &json_size, &payload_size, err);
    if (status != GK_OK) {
        return status;
    }
    size_t whole = GK_PIPE_HEADER_SIZE + json_size + payload_size;
    if (have < whole) {
        return GK_AGAIN;
    }
    status = parse_body(at + GK_PIPE_HEADER_SIZE, json_size, at + GK_PIPE_HEADER_SIZE + json_size,
                        payload_size, frame_out, err);
    if (status == GK_OK) {
        reader->start += whole;
    }
    return status;
}

/* GK_CLOSED only if the stream ends before the first byte. */
static enum gk_status read_all(int fd, void *out, size_t size, struct gk_err *err)
{
    size_t done = 0;
    while (done < size) {
        ssize_t got = read(fd, (char *)out + done, size - done);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return gk_fail(err, GK_IO, "reading a frame: %s", strerror(errno));
        }
        if (got == 0) {
            return done == 0 ? gk_fail(err, GK_CLOSED, "the stream of frames ended")
                             : gk_fail(err, GK_PROTOCOL, "the stream ended inside a frame");
        }
        done += (size_t)got;
    }
    return GK_OK;
}

enum gk_status gk_pipe_read(int fd, struct gk_pipe *frame_out, struct gk_err *err)
{
    unsigned char header[GK_PIPE_HEADER_SIZE];
    size_t json_size = 0, payload_size = 0;
    char *body = NULL;
    enum gk_status status = read_all(fd, header, sizeof header, err);
    if (status == GK_OK) {
        status = parse_header(header, &json_size, &payload_size, err);
    }
    if (status != GK_OK) {
        return status;
    }
    body = malloc(json_size + payload_size);
    if (!body) {
        return gk_fail(err, GK_NOMEM, "out of memory for a frame");
    }
    status = read_all(fd, body, json_size + payload_size, err);
    if (status == GK_CLOSED) {
        status = gk_fail(err, GK_PROTOCOL, "the stream ended inside a frame");
    }
    if (status == GK_OK) {
        status = parse_body(body, json_size, body + json_size, payload_size, frame_out, err);
    }
    free(body);
    return status;
}

enum gk_status gk_pipe_write(int fd, const struct gk_json *json, const void *payload,
                              size_t payload_size, struct gk_err *err)
{
    struct gk_buf bytes = {0};
    enum gk_status status = gk_pipe_encode(json, payload, payload_size, &bytes, err);
    size_t done = 0;
    while (status == GK_OK && done < bytes.size) {
        ssize_t put = write(fd, bytes.data + done, bytes.size - done);
        if (put < 0 && errno == EINTR) {
            continue;
        }
        if (put < 0) {
            status = gk_fail(err, errno == EPIPE ? GK_CLOSED : GK_IO, "writing a frame: %s",
                             strerror(errno));
        } else {
            done += (size_t)put;
        }
    }
    gk_buf_fini(&bytes);
    return status;
}
