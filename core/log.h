/*
 * Structured logs: one line an event, as logfmt or JSON, on a descriptor that may fail.
 *
 * Only the two mains and the daemon's shell hold a log; libraries return errors and the core queues
 * notices, and whoever owns the loop writes them here. A table of events, made by the caller, fixes
 * their names (stable: dashboards and alerts match them) and levels. Every value is escaped, so a
 * name that came over the wire can neither begin a line nor move a cursor.
 *
 * Nothing here blocks and nothing here fails: what cannot be written (a full disk, a reader that
 * does not read) and what is over an event's rate is counted, and the count is the next thing that
 * is said. One thread.
 */
#ifndef GK_CORE_LOG_H
#define GK_CORE_LOG_H

#include "core/clock.h"
#include "core/status.h"

enum gk_log_level { GK_LOG_ERROR, GK_LOG_WARN, GK_LOG_INFO, GK_LOG_DEBUG };
enum gk_log_format { GK_LOG_LOGFMT, GK_LOG_JSON };

#define GK_LOG_LEVELS "error, warn, info, debug"

/* Bytes of a line at most. PIPE_BUF: a pipe that has room takes the line whole and at once. */
#define GK_LOG_LINE_MAX 4096
/* Bytes of one value; longer ones end in "...". */
#define GK_LOG_VALUE_MAX 1024
/* Lines of one event: so many at once, and so many more a second. A storm of one event must hide
 * neither others nor itself. */
#define GK_LOG_BURST  60
#define GK_LOG_RATE_S 10

struct gk_log_event {
    const char *name; /* lower case with underscores; never renamed */
    enum gk_log_level level;
};

struct gk_log_setup {
    int fd;              /* stays the caller's */
    const char *program; /* lent; a field of every line */
    enum gk_log_format format;
    enum gk_log_level level;
    const struct gk_log_event *events; /* lent */
    uint32_t event_count;
    struct gk_clock clock;
    bool priorities; /* "<N>" before each line: systemd's journal takes it as the level */
};

struct gk_log_counters {
    uint64_t lines[4];   /* written, by level */
    uint64_t suppressed; /* over their event's rate */
    uint64_t lost;       /* could not be written */
};

struct gk_log;

/* GK_USAGE for a table without events, GK_NOMEM. */
enum gk_status gk_log_create(const struct gk_log_setup *setup, struct gk_log **log_out,
                             struct gk_err *err);
void gk_log_destroy(struct gk_log *log);

void gk_log_set_level(struct gk_log *log, enum gk_log_level level);
enum gk_log_level gk_log_get_level(const struct gk_log *log);
struct gk_log_counters gk_log_counters(const struct gk_log *log);
/* "warn" and back. */
const char *gk_log_level_name(enum gk_log_level level);
bool gk_log_level_from(const char *name, enum gk_log_level *level_out);
/* "logfmt" and back. */
const char *gk_log_format_name(enum gk_log_format format);
bool gk_log_format_from(const char *name, enum gk_log_format *format_out);

/* One line: begin, fields, end. Fields of a line that is not written (below the level, over the
 * rate) do nothing, so callers need not ask; begin says it for those that would have to compute
 * something. A NULL log writes nothing. */
bool gk_log_begin(struct gk_log *log, uint32_t event);
void gk_log_int(struct gk_log *log, const char *key, int64_t value);
void gk_log_real(struct gk_log *log, const char *key, double value);
void gk_log_text(struct gk_log *log, const char *key, const char *text); /* NULL: no field */
void gk_log_end(struct gk_log *log);

/* A line with the field text= alone. */
void gk_log_say(struct gk_log *log, uint32_t event, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* To be called about once a second: says what was suppressed (log_suppressed, of=, count=), once
 * its event is quiet or every ten seconds. */
void gk_log_beat(struct gk_log *log);

#endif
