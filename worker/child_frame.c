/* Frames over pipes: see child_frame.h. */
#include "worker/child_frame.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PREFIX 4

static uint32_t read_length(const unsigned char *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

enum gk_status gk_frame_pack(const struct gk_json *json, char **bytes_out, size_t *size_out,
                             struct gk_err *err)
{
    struct gk_buf buf = {0};
    unsigned char prefix[PREFIX] = {0};
    gk_buf_add(&buf, prefix, PREFIX);
    enum gk_status status = gk_json_canonical(json, &buf, err);
    status = status == GK_OK ? gk_buf_status(&buf, err) : status;
    if (status == GK_OK && buf.size - PREFIX > GK_FRAME_MAX) {
        status = gk_fail(err, GK_LIMIT, "a frame of %zu bytes; at most %u are allowed",
                         buf.size - PREFIX, GK_FRAME_MAX);
    }
    if (status == GK_OK) {
        uint32_t length = (uint32_t)(buf.size - PREFIX);
        for (int i = 0; i < PREFIX; i++) {
            buf.data[i] = (char)(length >> 8 * i & 0xff);
        }
        *size_out = buf.size;
        *bytes_out = gk_buf_detach(&buf);
    }
    gk_buf_fini(&buf);
    return status;
}

enum gk_status gk_frame_write(int fd, const struct gk_json *json, struct gk_err *err)
{
    char *bytes = NULL;
    size_t size = 0, done = 0;
    enum gk_status status = gk_frame_pack(json, &bytes, &size, err);
    while (status == GK_OK && done < size) {
        ssize_t wrote = write(fd, bytes + done, size - done);
        if (wrote > 0) {
            done += (size_t)wrote;
        } else if (errno != EINTR) {
            status = gk_fail(err, errno == EPIPE ? GK_CLOSED : GK_IO, "writing a frame: %s",
                             strerror(errno));
        }
    }
    free(bytes);
    return status;
}

/* *size_out < size only at the end of the stream. */
static enum gk_status read_all(int fd, void *bytes, size_t size, size_t *size_out,
                               struct gk_err *err)
{
    size_t done = 0;
    while (done < size) {
        ssize_t got = read(fd, (char *)bytes + done, size - done);
        if (got == 0) {
            break;
        }
        if (got > 0) {
            done += (size_t)got;
        } else if (errno != EINTR) {
            return gk_fail(err, GK_IO, "reading a frame: %s", strerror(errno));
        }
    }
    *size_out = done;
    return GK_OK;
}

enum gk_status gk_frame_read(int fd, struct gk_json **json_out, struct gk_err *err)
{
    unsigned char prefix[PREFIX];
    size_t got = 0;
    enum gk_status status = read_all(fd, prefix, PREFIX, &got, err);
    if (status != GK_OK) {
        return status;
    }
    if (got == 0) {
        return gk_fail(err, GK_END, "the other side closed");
    }
    uint32_t length = got == PREFIX ? read_length(prefix) : 0;
    if (got < PREFIX || length > GK_FRAME_MAX) {
        return gk_fail(err, GK_PROTOCOL, "a frame was cut off or is too long");
    }
    char *text = malloc((size_t)length + 1);
    if (!text) {
        return gk_fail(err, GK_NOMEM, "out of memory for a frame of %u bytes", length);
    }
    status = read_all(fd, text, length, &got, err);
    if (status == GK_OK && got < length) {
        status = gk_fail(err, GK_PROTOCOL, "a frame was cut off");
    }
    if (status == GK_OK) {
        status = gk_json_parse(text, length, "frame", json_out, err);
    }
    free(text);
    return status;
}

void gk_frame_reader_fini(struct gk_frame_reader *reader)
{
    gk_buf_fini(&reader->buf);
}

enum gk_status gk_frame_feed(struct gk_frame_reader *reader, const void *bytes, size_t size,
                             struct gk_err *err)
{
    if (reader->buf.size + size > (size_t)GK_FRAME_MAX * 2) {
        return gk_fail(err, GK_LIMIT, "a child sends faster than it is read");
    }
    gk_buf_add(&reader->buf, bytes, size);
    return gk_buf_status(&reader->buf, err);
}

enum gk_status gk_frame_next(struct gk_frame_reader *reader, struct gk_json **json_out,
                             struct gk_err *err)
{
    struct gk_buf *buf = &reader->buf;
    if (buf->size < PREFIX) {
        return GK_AGAIN;
    }
    uint32_t length = read_length((const unsigned char *)buf->data);
    if (length > GK_FRAME_MAX) {
        return gk_fail(err, GK_LIMIT, "a frame of %u bytes; at most %u are allowed", length,
                       GK_FRAME_MAX);
    }
    if (buf->size - PREFIX < length) {
        return GK_AGAIN;
    }
    enum gk_status status = gk_json_parse(buf->data + PREFIX, length, "frame", json_out, err);
    size_t rest = buf->size - PREFIX - length;
    memmove(buf->data, buf->data + PREFIX + length, rest);
    buf->size = rest;
    buf->data[rest] = '\0';
    return status == GK_OK || status == GK_NOMEM ? status : GK_PROTOCOL;
}
