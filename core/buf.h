/*
 * gk_buf: a growing byte buffer that is always NUL-terminated.
 *
 * Errors are sticky: a failed allocation sets `failed` and later appends do nothing, so that a
 * renderer may append a hundred times and check once with gk_buf_status().
 */
#ifndef GK_CORE_BUF_H
#define GK_CORE_BUF_H

#include "core/status.h"

struct gk_buf {
    char *data;      /* NULL until the first append; else data[size] == 0 */
    size_t size;     /* bytes used, without the terminating NUL */
    size_t capacity; /* bytes allocated */
    bool failed;     /* an allocation failed: the content is not whole */
};

/* {0} is a valid empty buffer; init exists for symmetry. fini takes NULL and zero. */
void gk_buf_init(struct gk_buf *buf);
void gk_buf_fini(struct gk_buf *buf);
void gk_buf_reset(struct gk_buf *buf); /* keeps the memory */

/* Makes room for so many bytes more, at once instead of by doubling. */
void gk_buf_expect(struct gk_buf *buf, size_t size);

void gk_buf_add(struct gk_buf *buf, const void *bytes, size_t size);
void gk_buf_puts(struct gk_buf *buf, const char *text);
void gk_buf_putc(struct gk_buf *buf, char c);
void gk_buf_printf(struct gk_buf *buf, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The text so far; "" for an empty buffer. Valid until the next append. */
const char *gk_buf_text(const struct gk_buf *buf);

/* GK_NOMEM if any append failed. */
enum gk_status gk_buf_status(const struct gk_buf *buf, struct gk_err *err);

/* Takes the memory out of the buffer (malloc'd, NUL-terminated, the caller frees); NULL if failed.
 */
char *gk_buf_detach(struct gk_buf *buf);

/* malloc'd copies; NULL when out of memory. */
char *gk_strdup(const char *text);
char *gk_strndup(const char *text, size_t size);
char *gk_asprintf(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
