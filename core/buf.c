/* gk_buf: see buf.h. No global state, any thread, one buffer one thread. */
#include "core/buf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void gk_buf_init(struct gk_buf *buf)
{
    memset(buf, 0, sizeof *buf);
}

void gk_buf_fini(struct gk_buf *buf)
{
    if (buf) {
        free(buf->data);
        memset(buf, 0, sizeof *buf);
    }
}

void gk_buf_reset(struct gk_buf *buf)
{
    buf->size = 0;
    buf->failed = false;
    if (buf->data) {
        buf->data[0] = '\0';
    }
}

static bool reserve(struct gk_buf *buf, size_t extra)
{
    if (buf->failed) {
        return false;
    }
    if (extra > SIZE_MAX / 4 - buf->size) {
        buf->failed = true;
        return false;
    }
    size_t need = buf->size + extra + 1;
    if (need <= buf->capacity) {
        return true;
    }
    size_t capacity = buf->capacity ? buf->capacity : 64;
    while (capacity < need) {
        capacity *= 2;
    }
    char *data = realloc(buf->data, capacity);
    if (!data) {
        buf->failed = true;
        return false;
    }
    buf->data = data;
    buf->capacity = capacity;
    return true;
}

void gk_buf_expect(struct gk_buf *buf, size_t size)
{
    if (reserve(buf, size)) {
        buf->data[buf->size] = '\0';
    }
}

void gk_buf_add(struct gk_buf *buf, const void *bytes, size_t size)
{
    if (!reserve(buf, size)) {
        return;
    }
    if (size) {
        memcpy(buf->data + buf->size, bytes, size);
    }
    buf->size += size;
    buf->data[buf->size] = '\0';
}

void gk_buf_puts(struct gk_buf *buf, const char *text)
{
    gk_buf_add(buf, text, strlen(text));
}

void gk_buf_putc(struct gk_buf *buf, char c)
{
    gk_buf_add(buf, &c, 1);
}

void gk_buf_printf(struct gk_buf *buf, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    int length = vsnprintf(NULL, 0, format, ap);
    va_end(ap);
    if (length < 0 || !reserve(buf, (size_t)length)) {
        buf->failed = true;
        return;
    }
    va_start(ap, format);
    (void)vsnprintf(buf->data + buf->size, (size_t)length + 1, format, ap); /* same length */
    va_end(ap);
    buf->size += (size_t)length;
}

const char *gk_buf_text(const struct gk_buf *buf)
{
    return buf->data ? buf->data : "";
}

enum gk_status gk_buf_status(const struct gk_buf *buf, struct gk_err *err)
{
    return buf->failed ? gk_fail(err, GK_NOMEM, "text of more than %zu bytes", buf->size) : GK_OK;
}

char *gk_buf_detach(struct gk_buf *buf)
{
    if (!buf->failed && !buf->data) {
        (void)reserve(buf, 0); /* an empty text is still a text; failure shows below */
        if (buf->data) {
            buf->data[0] = '\0';
        }
    }
    char *data = buf->failed ? NULL : buf->data;
    if (!data) {
        free(buf->data);
    }
    memset(buf, 0, sizeof *buf);
    return data;
}

char *gk_strndup(const char *text, size_t size)
{
    char *copy = malloc(size + 1);
    if (copy) {
        memcpy(copy, text, size);
        copy[size] = '\0';
    }
    return copy;
}

char *gk_strdup(const char *text)
{
    return gk_strndup(text, strlen(text));
}

char *gk_asprintf(const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    int length = vsnprintf(NULL, 0, format, ap);
    va_end(ap);
    if (length < 0) {
        return NULL;
    }
    char *text = malloc((size_t)length + 1);
    if (text) {
        va_start(ap, format);
        (void)vsnprintf(text, (size_t)length + 1, format, ap); /* same length */
        va_end(ap);
    }
    return text;
}
