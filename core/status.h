/*
 * Status codes and the error box.
 *
 * Every function that can fail returns enum gk_status and takes, last, a caller-owned
 * struct gk_err (may be NULL). gk_fail() fills the box and returns the status, so that
 * `return gk_fail(err, ...)` is one line. Libraries never print; the three mains do.
 *
 * struct gk_diag gathers many messages in one pass: a file with nine mistakes is
 * reported nine times at once, not once in nine runs.
 */
#ifndef GK_CORE_STATUS_H
#define GK_CORE_STATUS_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One map, so that name, number and text cannot part. Numbers travel on the wire and into the
 * store: append, never renumber. */
#define GK_STATUS_MAP(X)                                                                           \
    X(OK, 0, "ok")                                                                                 \
    X(NOMEM, 1, "out of memory")                                                                   \
    X(USAGE, 2, "bad usage")                                                                       \
    X(INPUT, 3, "bad input")                                                                       \
    X(PARSE, 4, "text does not parse")                                                             \
    X(LIMIT, 5, "over a limit")                                                                    \
    X(NOT_FOUND, 6, "not found")                                                                   \
    X(EXISTS, 7, "exists already")                                                                 \
    X(IO, 8, "input or output failed")                                                             \
    X(RANGE, 9, "arithmetic out of range")                                                         \
    X(UNSUPPORTED, 10, "not supported")                                                            \
    X(MISSING, 11, "a needed library, program or file is missing")                                 \
    X(BUSY, 12, "held by another process")                                                         \
    X(TIMEOUT, 13, "took too long")                                                                \
    X(AGAIN, 14, "would block")                                                                    \
    X(PROTOCOL, 15, "malformed message")                                                           \
    X(VERSION, 16, "version not supported")                                                        \
    X(STALE, 17, "stale token or epoch")                                                           \
    X(CONFLICT, 18, "same key, other content")                                                     \
    X(DENIED, 19, "not allowed")                                                                   \
    X(UNREACHABLE, 20, "daemon does not answer")                                                   \
    X(CORRUPT, 21, "stored data is damaged")                                                       \
    X(FULL, 22, "no space left")                                                                   \
    X(CANCELLED, 23, "cancelled")                                                                  \
    X(CLOSED, 24, "the other side closed")                                                         \
    X(NO_PICK, 25, "no verified pick")                                                             \
    X(TRIAL, 26, "the trial failed")                                                               \
    X(END, 27, "no more")                                                                          \
    X(INTERNAL, 28, "internal error")

enum gk_status {
#define GK_STATUS_ENUM(name, number, text) GK_##name = number,
    GK_STATUS_MAP(GK_STATUS_ENUM)
#undef GK_STATUS_ENUM
};

/* Longest message kept; longer ones end in "...". Fits a path, an expression and a reason. */
#define GK_ERR_TEXT_MAX 1024

struct gk_err {
    enum gk_status status;
    char text[GK_ERR_TEXT_MAX];
};

/* Name of a status as in the map ("NOMEM"), and its sentence. Never NULL; unknown numbers say so.
 */
const char *gk_status_name(enum gk_status status);
const char *gk_status_text(enum gk_status status);

/* Exit status of a command that ended with this status: 0 done, 1 no verified pick, 2 bad usage or
 * input, 3 no daemon, 4 internal (docs/DESIGN.md, section 11). */
int gk_status_exit(enum gk_status status);

/* Fills err (if not NULL) with status and the formatted text, and returns status. */
enum gk_status gk_fail(struct gk_err *err, enum gk_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
enum gk_status gk_vfail(struct gk_err *err, enum gk_status status, const char *format, va_list ap)
    __attribute__((format(printf, 3, 0)));

/* Puts "context: " before the text of an error that is on its way up. Returns err's status, or
 * `status` when err is NULL. */
enum gk_status gk_fail_in(struct gk_err *err, enum gk_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ------------------------------------------------------------------ many errors in one pass */

/* Messages kept; further ones are only counted. A screen or two: more help nobody. */
#define GK_DIAG_MAX 64

struct gk_diag {
    uint32_t count;        /* all messages added, also those not kept */
    uint32_t kept;         /* texts[0 .. kept) are set */
    enum gk_status status; /* of the first message */
    char *texts[GK_DIAG_MAX];
};

void gk_diag_init(struct gk_diag *diag);
void gk_diag_fini(struct gk_diag *diag);

/* Adds a message and returns status, so that a checker can say `bad = gk_diag_add(...)` and go on.
 */
enum gk_status gk_diag_add(struct gk_diag *diag, enum gk_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* GK_OK if nothing was added, else fills err with all kept texts joined by new lines. */
enum gk_status gk_diag_status(const struct gk_diag *diag, struct gk_err *err);

/* ------------------------------------------------------------------ bugs */

/* Stays on in release. For what cannot happen unless gktune itself is wrong; never for input. */
#define GK_ASSERT(condition)                                                                       \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            gk_panic(__FILE__, __LINE__, #condition);                                              \
        }                                                                                          \
    } while (0)

_Noreturn void gk_panic(const char *file, int line, const char *condition);

#define GK_ARRAY_COUNT(array) (sizeof(array) / sizeof((array)[0]))

#endif
