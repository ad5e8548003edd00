/*
 * Frames between the supervisor and its children, over pipes.
 *
 * A frame is a JSON object and a payload of bytes (sources, PTX, cubins), so that binary data needs no
 * encoding:  "GKF1"  json size u32  payload size u32  (little-endian)  json  payload
 * Both sizes are bounded before a byte is allocated. A child is not trusted: a compiler that was taken
 * over can send anything, so the reader treats its input as it would a stranger's.
 */
#ifndef GK_WORKER_PIPE_FRAME_H
#define GK_WORKER_PIPE_FRAME_H

#include "core/json.h"

#define GK_PIPE_HEADER_SIZE 12
#define GK_PIPE_JSON_MAX (12u << 20)    /* a compilation with all files of a bundle, escaped */
#define GK_PIPE_PAYLOAD_MAX (64u << 20) /* a bundle's sources, or the modules of eight launches */

struct gk_pipe {
    struct gk_json *json; /* an object; owned */
    char *payload;        /* malloc'd, with a NUL behind payload_size bytes; NULL if there is none */
    size_t payload_size;
};

void gk_pipe_fini(struct gk_pipe *frame);

/* Appends one frame. GK_LIMIT names what is too large. */
enum gk_status gk_pipe_encode(const struct gk_json *json, const void *payload,
                               size_t payload_size, struct gk_buf *out, struct gk_err *err);

/* Bytes come in as they arrive, whole frames go out. */
struct gk_pipe_reader {
    struct gk_buf bytes;
    size_t start; /* of the first byte not yet handed out */
};

void gk_pipe_reader_fini(struct gk_pipe_reader *reader);
enum gk_status gk_pipe_feed(struct gk_pipe_reader *reader, const void *bytes, size_t size,
                             struct gk_err *err);
/* GK_AGAIN: more bytes are needed. GK_PROTOCOL: malformed; the stream cannot be used any more. */
enum gk_status gk_pipe_next(struct gk_pipe_reader *reader, struct gk_pipe *frame_out,
                             struct gk_err *err);

/* For children, blocking. read gives GK_CLOSED at a clean end of the stream. */
enum gk_status gk_pipe_read(int fd, struct gk_pipe *frame_out, struct gk_err *err);
enum gk_status gk_pipe_write(int fd, const struct gk_json *json, const void *payload,
                              size_t payload_size, struct gk_err *err);

#endif
