/*
 * Bytes in JSON: base64 (RFC 4648, with padding) for pieces of blobs in messages and for binaries
 * between processes. Pure.
 */
#ifndef GK_CORE_BASE64_H
#define GK_CORE_BASE64_H

#include "core/buf.h"
#include "core/status.h"

/* Appends the text of `size` bytes; an allocation that fails shows in the buffer. */
void gk_base64_encode(const void *bytes, size_t size, struct gk_buf *out);
/* Appends the bytes of a text. GK_PARSE for anything but canonical base64: a foreign character, a
 * wrong length, bits that are not zero behind the last byte. Nothing is appended on failure. */
enum gk_status gk_base64_decode(const char *text, size_t size, struct gk_buf *out,
                                struct gk_err *err);

#endif
