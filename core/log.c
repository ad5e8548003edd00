/* See log.h. */
#include "core/log.h"

#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SECOND_NS UINT64_C(1000000000)
/* A storm is reported so often while it lasts. */
#define REPORT_NS (10 * SECOND_NS)
/* Kept free at a line's end for a closing quote, the mark that fields are missing, and the end. */
#define TAIL_BYTES 24

static const char *const level_names[] = {"error", "warn", "info", "debug"};
static const char *const format_names[] = {"logfmt", "json"};
static const int priorities[] = {3, 4, 6, 7}; /* of syslog */

struct bucket {
    uint64_t filled_ns; /* when tokens was right */
    uint64_t quiet_ns;  /* when the first line since the last report was suppressed */
    double tokens;
    uint64_t suppressed; /* since the last report */
};

struct gk_log {
    struct gk_log_setup setup;
    struct bucket *buckets;
    struct gk_log_counters counters;
    uint64_t lost_unsaid; /* not written since the last line that was */
    bool open, cut;       /* a line is being made; a field did not fit */
    enum gk_log_level level;
    size_t size;
    char line[GK_LOG_LINE_MAX];
};

const char *gk_log_level_name(enum gk_log_level level)
{
    return (unsigned)level < GK_ARRAY_COUNT(level_names) ? level_names[level] : "unknown";
}

bool gk_log_level_from(const char *name, enum gk_log_level *level_out)
{
    for (size_t i = 0; i < GK_ARRAY_COUNT(level_names); i++) {
        if (strcmp(name, level_names[i]) == 0) {
            *level_out = (enum gk_log_level)i;
            return true;
        }
    }
    return false;
}

const char *gk_log_format_name(enum gk_log_format format)
{
    return (unsigned)format < GK_ARRAY_COUNT(format_names) ? format_names[format] : "unknown";
}

bool gk_log_format_from(const char *name, enum gk_log_format *format_out)
{
    for (size_t i = 0; i < GK_ARRAY_COUNT(format_names); i++) {
        if (strcmp(name, format_names[i]) == 0) {
            *format_out = (enum gk_log_format)i;
            return true;
        }
    }
    return false;
}

enum gk_status gk_log_create(const struct gk_log_setup *setup, struct gk_log **log_out,
                             struct gk_err *err)
{
    if (setup->event_count == 0 || !setup->events) {
        return gk_fail(err, GK_USAGE, "a log needs a table of events");
    }
    struct gk_log *log = calloc(1, sizeof *log);
    struct bucket *buckets = calloc(setup->event_count, sizeof *buckets);
    if (!log || !buckets) {
        free(log);
        free(buckets);
        return gk_fail(err, GK_NOMEM, "out of memory for the log");
    }
    log->setup = *setup;
    log->buckets = buckets;
    uint64_t now = setup->clock.monotonic_ns(setup->clock.context);
    for (uint32_t i = 0; i < setup->event_count; i++) {
        buckets[i] = (struct bucket){.filled_ns = now, .tokens = GK_LOG_BURST};
    }
    *log_out = log;
    return GK_OK;
}

void gk_log_destroy(struct gk_log *log)
{
    if (log) {
        free(log->buckets);
        free(log);
    }
}

void gk_log_set_level(struct gk_log *log, enum gk_log_level level)
{
    log->setup.level = level;
}

enum gk_log_level gk_log_get_level(const struct gk_log *log)
{
    return log->setup.level;
}

struct gk_log_counters gk_log_counters(const struct gk_log *log)
{
    return log->counters;
}

/* ------------------------------------------------------------------ text */

/* Appends if it fits with the tail; false: nothing was appended. */
static bool put(struct gk_log *log, const char *bytes, size_t size)
{
    if (log->size + size + TAIL_BYTES > sizeof log->line) {
        return false;
    }
    memcpy(log->line + log->size, bytes, size);
    log->size += size;
    return true;
}

/* Bytes of the character of UTF-8 at text, its code in *code_out; 0 if there is none. Reads no byte
 * behind a NUL. */
static size_t character(const unsigned char *text, uint32_t *code_out)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t size = text[0] < 0x80             ? 1
                  : (text[0] & 0xe0) == 0xc0 ? 2
                  : (text[0] & 0xf0) == 0xe0 ? 3
                  : (text[0] & 0xf8) == 0xf0 ? 4
                                             : 0;
    uint32_t code = size == 1 ? text[0] : size ? text[0] & (0x7fu >> size) : 0;
    for (size_t i = 1; i < size; i++) {
        if ((text[i] & 0xc0) != 0x80) {
            return 0;
        }
        code = code << 6 | (text[i] & 0x3f);
    }
    if (size > 1 && (code < least[size] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))) {
        return 0;
    }
    *code_out = code;
    return size;
}

/* What moves a cursor, ends a line or turns the order of a text around. */
static bool is_control(uint32_t code)
{
    return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x2028 || code == 0x2029 ||
           (code >= 0x200e && code <= 0x200f) || (code >= 0x202a && code <= 0x202e) ||
           (code >= 0x2066 && code <= 0x2069) || code == 0xfeff;
}

/* One character, or one byte that is none, escaped where it must be. */
static bool put_character(struct gk_log *log, const unsigned char *text, size_t size, uint32_t code)
{
    char escaped[16];
    const char *named = code == '\n'   ? "\\n"
                        : code == '\t' ? "\\t"
                        : code == '\r' ? "\\r"
                        : code == '"'  ? "\\\""
                        : code == '\\' ? "\\\\"
                                       : NULL;
    if (size > 0 && named) {
        return put(log, named, 2);
    }
    if (size > 0 && !is_control(code)) {
        return put(log, (const char *)text, size);
    }
    /* JSON knows no bytes: one that is no UTF-8 shows as the character of its number. */
    const char *format = log->setup.format == GK_LOG_JSON || (size > 0 && code > 0xff)
                             ? "\\u%04" PRIx32
                             : "\\x%02" PRIx32;
    int count = snprintf(escaped, sizeof escaped, format, size > 0 ? code : (uint32_t)text[0]);
    return put(log, escaped, (size_t)count);
}

static bool put_quoted(struct gk_log *log, const char *text)
{
    const unsigned char *at = (const unsigned char *)text;
    size_t start = log->size;
    bool fits = put(log, "\"", 1);
    while (fits && *at != '\0') {
        uint32_t code = 0;
        size_t size = character(at, &code);
        if (log->size - start > GK_LOG_VALUE_MAX) {
            fits = put(log, "...", 3);
            break;
        }
        fits = put_character(log, at, size, code);
        at += size > 0 ? size : 1;
    }
    fits = fits && put(log, "\"", 1);
    return fits;
}

static bool is_bare(const char *text)
{
    size_t plain = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_./:@+-,");
    return plain > 0 && text[plain] == '\0' && plain < GK_LOG_VALUE_MAX;
}

/* key= or "key":; a field that does not fit is left out whole, and the line says so. */
static void field(struct gk_log *log, const char *key, const char *value, bool is_number)
{
    size_t start = log->size;
    bool json = log->setup.format == GK_LOG_JSON;
    bool fits = json ? put(log, log->size > 0 && log->line[log->size - 1] != '{' ? ",\"" : "\"",
                           log->size > 0 && log->line[log->size - 1] != '{' ? 2 : 1) &&
                           put(log, key, strlen(key)) && put(log, "\":", 2)
                     : put(log, " ", 1) && put(log, key, strlen(key)) && put(log, "=", 1);
    fits = fits && (is_number || (!json && is_bare(value)) ? put(log, value, strlen(value))
                                                           : put_quoted(log, value));
    if (!fits) {
        log->size = start;
        log->cut = true;
    }
}

static void put_time(struct gk_log *log)
{
    uint64_t wall_ms = log->setup.clock.wall_ms(log->setup.clock.context);
    time_t seconds = (time_t)(wall_ms / 1000);
    struct tm utc = {0};
    char text[40] = "", whole[48];
    if (!gmtime_r(&seconds, &utc) || strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &utc) == 0) {
        (void)snprintf(text, sizeof text, "%" PRIu64, wall_ms / 1000);
    }
    (void)snprintf(whole, sizeof whole, "%s.%03uZ", text, (unsigned)(wall_ms % 1000));
    if (log->setup.format == GK_LOG_JSON) {
        field(log, "ts", whole, false);
    } else {
        (void)put(log, "ts=", 3); /* the first of an empty line */
        (void)put(log, whole, strlen(whole));
    }
}

/* ------------------------------------------------------------------ lines */

static void start_line(struct gk_log *log, enum gk_log_level level, const char *event)
{
    log->size = 0;
    log->cut = false;
    log->open = true;
    log->level = level;
    if (log->setup.priorities) {
        char mark[8];
        int size = snprintf(mark, sizeof mark, "<%d>", priorities[level]);
        (void)put(log, mark, (size_t)size); /* an empty line has room for the fixed fields */
    }
    if (log->setup.format == GK_LOG_JSON) {
        (void)put(log, "{", 1);
    }
    put_time(log);
    field(log, "level", level_names[level], false);
    field(log, "event", event, false);
    field(log, "program", log->setup.program, false);
}

/* The line as it is, or not at all: half of one would glue the next one to it. */
static bool write_line(struct gk_log *log)
{
    struct pollfd ready = {.fd = log->setup.fd, .events = POLLOUT};
    if (poll(&ready, 1, 0) != 1 || !(ready.revents & POLLOUT)) {
        return false; /* nobody reads: the service does not wait for its log */
    }
    ssize_t wrote = write(log->setup.fd, log->line, log->size);
    if (wrote > 0 && (size_t)wrote < log->size) {
        (void)!write(log->setup.fd, "\n", 1); /* a disk that filled up meanwhile */
    }
    return wrote == (ssize_t)log->size;
}

static void finish_line(struct gk_log *log)
{
    bool json = log->setup.format == GK_LOG_JSON;
    if (log->cut) { /* the tail was kept free for this */
        const char *mark = json ? ",\"cut\":true" : " cut=true";
        memcpy(log->line + log->size, mark, strlen(mark));
        log->size += strlen(mark);
    }
    if (json) {
        log->line[log->size++] = '}';
    }
    log->line[log->size++] = '\n';
    log->open = false;
    if (write_line(log)) {
        log->counters.lines[log->level]++;
    } else {
        log->counters.lost++;
        log->lost_unsaid++;
    }
}

/* Before the first line that may be written again: how many could not. */
static void say_lost(struct gk_log *log)
{
    char count[24];
    uint64_t lost = log->lost_unsaid;
    if (lost == 0) {
        return;
    }
    log->lost_unsaid = 0;
    (void)snprintf(count, sizeof count, "%" PRIu64, lost);
    start_line(log, GK_LOG_WARN, "log_lost");
    field(log, "count", count, true);
    finish_line(log);
    if (log->lost_unsaid > 0) { /* this line was lost as well; it is not one of those counted */
        log->counters.lost--;
        log->lost_unsaid = lost;
    }
}

static bool take_token(struct gk_log *log, struct bucket *bucket)
{
    uint64_t now = log->setup.clock.monotonic_ns(log->setup.clock.context);
    bucket->tokens += (double)(now - bucket->filled_ns) / (double)SECOND_NS * GK_LOG_RATE_S;
    bucket->tokens = bucket->tokens > GK_LOG_BURST ? GK_LOG_BURST : bucket->tokens;
    bucket->filled_ns = now;
    if (bucket->tokens >= 1) {
        bucket->tokens -= 1;
        return true;
    }
    bucket->quiet_ns = bucket->suppressed == 0 ? now : bucket->quiet_ns;
    bucket->suppressed++;
    log->counters.suppressed++;
    return false;
}

bool gk_log_begin(struct gk_log *log, uint32_t event)
{
    if (!log) {
        return false;
    }
    GK_ASSERT(event < log->setup.event_count);
    log->open = false;
    if (log->setup.events[event].level > log->setup.level ||
        !take_token(log, &log->buckets[event])) {
        return false;
    }
    say_lost(log);
    start_line(log, log->setup.events[event].level, log->setup.events[event].name);
    return true;
}

void gk_log_int(struct gk_log *log, const char *key, int64_t value)
{
    if (log && log->open) {
        char text[24];
        (void)snprintf(text, sizeof text, "%" PRId64, value);
        field(log, key, text, true);
    }
}

void gk_log_real(struct gk_log *log, const char *key, double value)
{
    if (log && log->open) {
        char text[32];
        (void)snprintf(text, sizeof text, "%.6g", value);
        field(log, key, text, value == value && value - value == 0); /* JSON knows no NaN */
    }
}

void gk_log_text(struct gk_log *log, const char *key, const char *text)
{
    if (log && log->open && text) {
        field(log, key, text, false);
    }
}

void gk_log_end(struct gk_log *log)
{
    if (log && log->open) {
        finish_line(log);
    }
}

void gk_log_say(struct gk_log *log, uint32_t event, const char *format, ...)
{
    if (gk_log_begin(log, event)) {
        char text[GK_LOG_VALUE_MAX];
        va_list ap;
        va_start(ap, format);
        (void)vsnprintf(text, sizeof text, format, ap); /* a longer one is cut */
        va_end(ap);
        gk_log_text(log, "text", text);
        gk_log_end(log);
    }
}

void gk_log_beat(struct gk_log *log)
{
    if (!log) {
        return;
    }
    uint64_t now = log->setup.clock.monotonic_ns(log->setup.clock.context);
    for (uint32_t i = 0; i < log->setup.event_count; i++) {
        struct bucket *bucket = &log->buckets[i];
        double tokens =
            bucket->tokens + (double)(now - bucket->filled_ns) / (double)SECOND_NS * GK_LOG_RATE_S;
        bool quiet = tokens >= GK_LOG_BURST;
        if (bucket->suppressed == 0 || (!quiet && now - bucket->quiet_ns < REPORT_NS)) {
            continue;
        }
        char count[24];
        (void)snprintf(count, sizeof count, "%" PRIu64, bucket->suppressed);
        bucket->suppressed = 0;
        say_lost(log);
        start_line(log, GK_LOG_WARN, "log_suppressed");
        field(log, "of", log->setup.events[i].name, false);
        field(log, "count", count, true);
        finish_line(log);
    }
}
