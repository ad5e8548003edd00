/* Bytes in JSON: cubins between processes and blobs of the protocol (RFC 4648, with padding). Pure.
 */
#ifndef GK_WORKER_BASE64_H
#define GK_WORKER_BASE64_H

#include "core/buf.h"

/* malloc'd text; NULL when out of memory. */
char *gk_base64_encode(const void *bytes, size_t size);
/* malloc'd bytes. GK_PARSE for anything but canonical base64. */
enum gk_status gk_base64_decode(const char *text, unsigned char **bytes_out, size_t *size_out,
                                struct gk_err *err);

#endif
