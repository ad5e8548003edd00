/*
 * JSON: the one parser for files and for the wire.
 *
 * struct gk_json is opaque; only json.c knows the library behind it. Ownership: gk_json_new_*,
 * gk_json_parse* and gk_json_copy return an owned value that gk_json_free() releases. gk_json_get()
 * and gk_json_at() lend. gk_json_set() and gk_json_push() take the value over, also when they fail,
 * so that `gk_json_set(o, "k", gk_json_new_int(1))` never leaks.
 *
 * Bounds: text size by the caller's limit, nesting at GK_JSON_DEPTH_MAX, numbers must fit int64 or
 * a finite double, UTF-8 checked, duplicate keys and bytes after the value refused. Parse errors
 * name line and column.
 */
#ifndef GK_CORE_JSON_H
#define GK_CORE_JSON_H

#include "core/buf.h"
#include "core/status.h"

struct gk_json;

/* Deeper nesting than any of our formats by far, and shallow enough for every C stack. */
#define GK_JSON_DEPTH_MAX 64
/* Lists and objects of one text. An object costs the parser some 300 bytes: this bounds what a text
 * of
 * "{},{},..." can make it allocate. The largest of our files has 30,000. */
#define GK_JSON_CONTAINERS_MAX (1u << 20)

enum gk_json_type {
    GK_JSON_NULL,
    GK_JSON_BOOL,
    GK_JSON_INT,
    GK_JSON_REAL,
    GK_JSON_STRING,
    GK_JSON_ARRAY,
    GK_JSON_OBJECT
};

/* "an integer", "a string", ...: for messages. */
const char *gk_json_type_name(enum gk_json_type type);

/* ---- reading ---- */
/* `origin` names the text in messages (a path, "message SUBMIT"). */
enum gk_status gk_json_parse(const char *text, size_t size, const char *origin,
                             struct gk_json **json_out, struct gk_err *err);
/* Reads a regular file of at most size_max bytes. A directory, FIFO, device, missing or too large
 * file is refused by name before anything is read (opened non-blocking, so a FIFO cannot hang us).
 */
enum gk_status gk_json_load(const char *path, size_t size_max, struct gk_json **json_out,
                            struct gk_err *err);
/* The same guard for any text file: malloc'd, NUL-terminated, *size_out without the NUL. */
enum gk_status gk_file_load(const char *path, size_t size_max, char **text_out, size_t *size_out,
                            struct gk_err *err);
/* Writes aside, fsyncs, renames, fsyncs the folder: a reader sees the old or the new whole file.
 * What is there and no file, as a device or a FIFO, is not replaced: GK_INPUT. */
enum gk_status gk_file_store(const char *path, const void *bytes, size_t size, struct gk_err *err);
/* Makes a file of mode 0600 that is not there yet, durable before it returns. GK_EXISTS: nothing is
 * overwritten, and no link is followed. */
enum gk_status gk_file_store_new(const char *path, const void *bytes, size_t size,
                                 struct gk_err *err);

void gk_json_free(struct gk_json *json);
struct gk_json *gk_json_copy(const struct gk_json *json); /* deep; NULL when out of memory */
/* The same value once more, not a copy: to put one value into two objects. Neither holder may
 * change it from then on. */
struct gk_json *gk_json_share(const struct gk_json *json);
bool gk_json_equal(const struct gk_json *a, const struct gk_json *b);

enum gk_json_type gk_json_type(const struct gk_json *json); /* NULL pointer: GK_JSON_NULL */
bool gk_json_is(const struct gk_json *json, enum gk_json_type type);
size_t gk_json_count(const struct gk_json *json); /* elements of an array or object, else 0 */
const struct gk_json *gk_json_get(const struct gk_json *object, const char *key); /* NULL: absent */
const struct gk_json *gk_json_at(const struct gk_json *array, size_t index);
/* i-th member of an object in insertion order (file order). NULL past the end. */
const struct gk_json *gk_json_member(const struct gk_json *object, size_t index,
                                     const char **key_out);

/* The same as a walk, O(1) a step: start with a NULL cursor; NULL after the last member. The object
 * must not change meanwhile. */
const struct gk_json *gk_json_next(const struct gk_json *object, void **cursor,
                                   const char **key_out);

/* Values with a fallback for absent or other types: for data that was validated before. */
int64_t gk_json_int(const struct gk_json *json, int64_t fallback);
double gk_json_real(const struct gk_json *json, double fallback); /* accepts integers */
bool gk_json_bool(const struct gk_json *json, bool fallback);
const char *gk_json_string(const struct gk_json *json, const char *fallback); /* lent */
/* The same on a member: gk_json_int(gk_json_get(object, key), fallback). */
int64_t gk_json_get_int(const struct gk_json *object, const char *key, int64_t fallback);
double gk_json_get_real(const struct gk_json *object, const char *key, double fallback);
bool gk_json_get_bool(const struct gk_json *object, const char *key, bool fallback);
const char *gk_json_get_string(const struct gk_json *object, const char *key, const char *fallback);

/* Values that must be there: an error names where, the key, what was met and what is allowed. */
enum gk_status gk_json_need_int(const struct gk_json *object, const char *key, int64_t min,
                                int64_t max, int64_t *out, const char *where, struct gk_err *err);
enum gk_status gk_json_need_string(const struct gk_json *object, const char *key, size_t size_max,
                                   const char **out, const char *where, struct gk_err *err);
enum gk_status gk_json_need(const struct gk_json *object, const char *key, enum gk_json_type type,
                            const struct gk_json **out, const char *where, struct gk_err *err);

/* The value as short text for a message: canonical, cut with "..." at a character boundary. */
#define GK_JSON_SHOW_SIZE 80
void gk_json_show(const struct gk_json *json, char text_out[GK_JSON_SHOW_SIZE]);

/* True if the bytes are UTF-8 (no surrogates, no overlong forms); else *bad_out is the first bad
 * byte. */
bool gk_utf8_check(const char *text, size_t size, size_t *bad_out);

/* Turns every byte that is not part of UTF-8 into '?', in place. */
void gk_utf8_clean(char *text);

/* ---- writing ---- */
struct gk_json *gk_json_new_null(void);
struct gk_json *gk_json_new_bool(bool value);
struct gk_json *gk_json_new_int(int64_t value);
struct gk_json *gk_json_new_real(double value);       /* NaN and infinities become null */
struct gk_json *gk_json_new_string(const char *text); /* invalid UTF-8 bytes become '?' */
struct gk_json *gk_json_new_array(void);
struct gk_json *gk_json_new_object(void);
/* False when out of memory or value is NULL. The value is taken in any case. */
bool gk_json_set(struct gk_json *object, const char *key, struct gk_json *value);
bool gk_json_push(struct gk_json *array, struct gk_json *value);
bool gk_json_set_int(struct gk_json *object, const char *key, int64_t value);
bool gk_json_set_real(struct gk_json *object, const char *key, double value);
bool gk_json_set_bool(struct gk_json *object, const char *key, bool value);
bool gk_json_set_string(struct gk_json *object, const char *key, const char *value);
/* Writable member, or NULL if absent. */
struct gk_json *gk_json_get_mutable(struct gk_json *object, const char *key);

/* Canonical text: sorted keys, no white space, reals as the shortest decimal that reads back the
 * same. Equal values give equal bytes: identities are hashes of this text. A real always carries a
 * '.' or an exponent ("1.0", "1e+30"), so that it reads back as a real: 1 and 1.0 are two values.
 * Writing stops with GK_LIMIT at GK_JSON_DEPTH_MAX, since nobody could read the text back. */
enum gk_status gk_json_canonical(const struct gk_json *json, struct gk_buf *buf,
                                 struct gk_err *err);
/* The same as a malloc'd string; NULL when out of memory or nested too deeply. */
char *gk_json_text(const struct gk_json *json);
/* For people: two spaces, member order kept. */
enum gk_status gk_json_pretty(const struct gk_json *json, struct gk_buf *buf, struct gk_err *err);
/* Shortest decimal of a finite double ("1", "0.1", "1e+30"); at most 32 bytes with the NUL. */
void gk_real_text(double value, char text_out[32]);
/* The same by the C library alone, ten times as long: the tests compare the two. */
void gk_real_text_slowly(double value, char text_out[32]);
/* An integer, a finite real and a string as canonical text has them: for who writes a text piece by
 * piece. */
void gk_json_put_int(struct gk_buf *buf, int64_t value);
void gk_json_put_real(struct gk_buf *buf, double value);
void gk_json_put_string(struct gk_buf *buf, const char *text);

#endif
