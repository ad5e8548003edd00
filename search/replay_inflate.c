/* gzip, a piece at a time. See replay_internal.h. The only file of search/ that knows zlib. */
#include <stdlib.h>
#include <zlib.h>

#include "search/replay_internal.h"

#define PIECE (64u * 1024)

struct replay_inflate {
    z_stream stream;
    bool open;    /* stream is initialised */
    bool at_end;  /* behind a member */
    bool damaged; /* nothing more is taken */
    uint8_t piece[PIECE];
};

struct replay_inflate *replay_inflate_create(void)
{
    struct replay_inflate *self = calloc(1, sizeof *self);
    if (!self) {
        return NULL;
    }
    if (inflateInit2(&self->stream, 15 + 16) != Z_OK) { /* 16: gzip's header and sum alone */
        free(self);
        return NULL;
    }
    self->open = true;
    return self;
}

void replay_inflate_destroy(struct replay_inflate *self)
{
    if (self) {
        if (self->open) {
            (void)inflateEnd(&self->stream);
        }
        free(self);
    }
}

enum gk_status replay_inflate_feed(struct replay_inflate *self, const uint8_t *bytes, size_t size,
                                   replay_sink *sink, void *context, struct gk_err *err)
{
    while (size && !self->damaged) {
        z_stream *stream = &self->stream;
        uInt given = (uInt)(size < PIECE ? size : PIECE);
        if (self->at_end) { /* another member, or bytes behind the last one */
            self->at_end = false;
            (void)inflateReset(stream);
        }
        stream->next_in = (z_const Bytef *)bytes;
        stream->avail_in = given;
        int result = Z_OK;
        do {
            stream->next_out = self->piece;
            stream->avail_out = PIECE;
            result = inflate(stream, Z_NO_FLUSH);
            enum gk_status status =
                sink(context, (const char *)self->piece, PIECE - stream->avail_out, err);
            if (status != GK_OK) {
                return status;
            }
        } while (result == Z_OK && (stream->avail_in || !stream->avail_out));
        size -= given - stream->avail_in;
        bytes += given - stream->avail_in;
        if (result == Z_STREAM_END) {
            self->at_end = true;
        } else if (result == Z_MEM_ERROR) {
            return gk_fail(err, GK_NOMEM, "no memory to decompress");
        } else if (result != Z_OK && result != Z_BUF_ERROR) {
            self->damaged = true;
        }
    }
    return GK_OK;
}

bool replay_inflate_whole(const struct replay_inflate *self)
{
    return self->at_end && !self->damaged;
}
