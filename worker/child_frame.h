/*
 * Messages between the supervisor and its children: JSON with a length before it, over pipes.
 *
 * A child is not trusted to be sane: its frames are bounded, and one that is malformed ends it.
 */
#ifndef GK_WORKER_CHILD_FRAME_H
#define GK_WORKER_CHILD_FRAME_H

#include "core/json.h"

#define GK_FRAME_MAX (64u << 20) /* a cubin of some MB in base64, its PTX and its log */

/* For children: blocking. read: GK_END when the other side closed between frames, GK_PROTOCOL
 * inside one. */
enum gk_status gk_frame_write(int fd, const struct gk_json *json, struct gk_err *err);
enum gk_status gk_frame_read(int fd, struct gk_json **json_out, struct gk_err *err);

/* Length and text as one malloc'd block, for a writer with its own queue. */
enum gk_status gk_frame_pack(const struct gk_json *json, char **bytes_out, size_t *size_out,
                             struct gk_err *err);

/* For the supervisor: bytes as they come. {0} is empty. */
struct gk_frame_reader {
    struct gk_buf buf;
};
void gk_frame_reader_fini(struct gk_frame_reader *reader);
enum gk_status gk_frame_feed(struct gk_frame_reader *reader, const void *bytes, size_t size,
                             struct gk_err *err);
/* GK_AGAIN: no whole frame yet. GK_PROTOCOL, GK_LIMIT: the stream is broken for good. */
enum gk_status gk_frame_next(struct gk_frame_reader *reader, struct gk_json **json_out,
                             struct gk_err *err);

#endif
