/* Base64 (RFC 4648, with padding): how bytes of a blob stand in a JSON body. */
#ifndef GK_CLI_BLOB_TEXT_H
#define GK_CLI_BLOB_TEXT_H

#include "core/buf.h"
#include "core/status.h"

/* Appends the text of `size` bytes. */
void gk_blob_text(const void *bytes, size_t size, struct gk_buf *out);
/* Appends the bytes of a text. GK_PARSE for a foreign character, a wrong length, or bits that are not zero
 * behind the last byte: one text per value. Nothing is appended on failure. */
enum gk_status gk_blob_bytes(const char *text, size_t size, struct gk_buf *out,
                                struct gk_err *err);

#endif
