/* Status codes and the error box: see status.h. No state, any thread. */
#include "core/status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *gk_status_name(enum gk_status status)
{
    switch (status) {
#define GK_STATUS_NAME(name, number, text)                                                         \
    case GK_##name:                                                                                \
        return #name;
        GK_STATUS_MAP(GK_STATUS_NAME)
#undef GK_STATUS_NAME
    }
    return "UNKNOWN_STATUS";
}

const char *gk_status_text(enum gk_status status)
{
    switch (status) {
#define GK_STATUS_TEXT(name, number, text)                                                         \
    case GK_##name:                                                                                \
        return text;
        GK_STATUS_MAP(GK_STATUS_TEXT)
#undef GK_STATUS_TEXT
    }
    return "unknown status";
}

int gk_status_exit(enum gk_status status)
{
    switch (status) {
    case GK_OK:
        return 0;
    case GK_NO_PICK:
    case GK_CANCELLED:
        return 1;
    case GK_UNREACHABLE:
        return 3;
    case GK_USAGE:
    case GK_INPUT:
    case GK_PARSE:
    case GK_LIMIT:
    case GK_NOT_FOUND:
    case GK_EXISTS:
    case GK_RANGE:
    case GK_UNSUPPORTED:
    case GK_MISSING:
    case GK_BUSY:
    case GK_DENIED:
    case GK_IO:
    case GK_FULL:
    case GK_CONFLICT:
    case GK_CORRUPT:
    case GK_VERSION:
        return 2;
    default:
        return 4;
    }
}

enum gk_status gk_vfail(struct gk_err *err, enum gk_status status, const char *format, va_list ap)
{
    if (!err) {
        return status;
    }
    err->status = status;
    int length = vsnprintf(err->text, sizeof err->text, format, ap);
    if (length < 0) {
        err->text[0] = '\0';
    } else if ((size_t)length >= sizeof err->text) {
        memcpy(err->text + sizeof err->text - 4, "...", 4);
    }
    return status;
}

enum gk_status gk_fail(struct gk_err *err, enum gk_status status, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    (void)gk_vfail(err, status, format, ap); /* returns what it was given */
    va_end(ap);
    return status;
}

enum gk_status gk_fail_in(struct gk_err *err, enum gk_status status, const char *format, ...)
{
    if (!err) {
        return status;
    }
    char inner[GK_ERR_TEXT_MAX];
    memcpy(inner, err->text, sizeof inner);
    enum gk_status kept = err->status;

    va_list ap;
    va_start(ap, format);
    (void)gk_vfail(err, kept, format, ap); /* returns what it was given */
    va_end(ap);

    size_t used = strlen(err->text);
    int length = snprintf(err->text + used, sizeof err->text - used, ": %s", inner);
    if (length > 0 && used + (size_t)length >= sizeof err->text) {
        memcpy(err->text + sizeof err->text - 4, "...", 4);
    }
    return kept;
}

void gk_diag_init(struct gk_diag *diag)
{
    memset(diag, 0, sizeof *diag);
}

void gk_diag_fini(struct gk_diag *diag)
{
    if (!diag) {
        return;
    }
    for (uint32_t i = 0; i < diag->kept; i++) {
        free(diag->texts[i]);
    }
    memset(diag, 0, sizeof *diag);
}

enum gk_status gk_diag_add(struct gk_diag *diag, enum gk_status status, const char *format, ...)
{
    if (diag->count == 0) {
        diag->status = status;
    }
    diag->count++;
    if (diag->kept < GK_DIAG_MAX) {
        struct gk_err box;
        va_list ap;
        va_start(ap, format);
        (void)gk_vfail(&box, status, format, ap); /* returns what it was given */
        va_end(ap);
        char *text = malloc(strlen(box.text) + 1);
        if (text) { /* without memory the message is still counted */
            memcpy(text, box.text, strlen(box.text) + 1);
            diag->texts[diag->kept++] = text;
        }
    }
    return status;
}

enum gk_status gk_diag_status(const struct gk_diag *diag, struct gk_err *err)
{
    if (diag->count == 0) {
        return GK_OK;
    }
    if (!err) {
        return diag->status;
    }
    size_t used = 0;
    err->status = diag->status;
    err->text[0] = '\0';
    for (uint32_t i = 0; i < diag->kept; i++) {
        int length = snprintf(err->text + used, sizeof err->text - used, "%s%s", i ? "\n" : "",
                              diag->texts[i]);
        used += length > 0 ? (size_t)length : 0;
        if (used >= sizeof err->text) {
            memcpy(err->text + sizeof err->text - 4, "...", 4);
            break;
        }
    }
    if (diag->kept == 0) {
        (void)gk_fail(err, diag->status, "%s", gk_status_text(diag->status)); /* status is known */
    }
    return diag->status;
}

_Noreturn void gk_panic(const char *file, int line, const char *condition)
{
    fprintf(stderr, "gktune: bug: %s:%d: %s does not hold\n", file, line, condition);
    fflush(stderr);
    abort();
}
