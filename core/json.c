/*
 * JSON over jansson: see json.h. The only file that knows the library.
 *
 * struct gk_json is never defined: a pointer to it is a json_t pointer under another name, so that
 * nothing is wrapped and nothing is allocated twice. Any thread; one value one thread.
 */
#include "core/json.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static json_t *raw(const struct gk_json *json)
{
    /* jansson's readers take non-const pointers here and there; nothing is changed through them. */
    return (json_t *)(uintptr_t)json;
}

static struct gk_json *wrap(json_t *json)
{
    return (struct gk_json *)json;
}

/* ------------------------------------------------------------------ checks before parsing */

/* jansson allows 2048 levels of recursion; ours is 64, so it is counted before the parser runs. */
static enum gk_status check_nesting(const char *text, size_t size, const char *origin,
                                    struct gk_err *err)
{
    size_t line = 1, column = 0, containers = 0;
    int depth = 0;
    bool in_string = false;
    for (size_t i = 0; i < size; i++) {
        char c = text[i];
        column += ((unsigned char)c & 0xC0) != 0x80; /* characters, not bytes */
        if (c == '\n') {
            line++;
            column = 0;
            in_string = false; /* a string cannot hold one: the parser will say so */
        } else if (in_string) {
            if (c == '\\' && i + 1 < size && text[i + 1] != '\n') {
                i++;
                column++;
            } else if (c == '"') {
                in_string = false;
            }
        } else if (c == '"') {
            in_string = true;
        } else if (c == '[' || c == '{') {
            if (++depth > GK_JSON_DEPTH_MAX) {
                return gk_fail(err, GK_LIMIT,
                               "%s: line %zu, column %zu: nested deeper than %d levels", origin,
                               line, column, GK_JSON_DEPTH_MAX);
            }
            if (++containers > GK_JSON_CONTAINERS_MAX) {
                return gk_fail(err, GK_LIMIT, "%s: line %zu: more than %u lists and objects",
                               origin, line, GK_JSON_CONTAINERS_MAX);
            }
        } else if (c == ']' || c == '}') {
            depth--;
        }
    }
    return GK_OK;
}

enum gk_status gk_json_parse(const char *text, size_t size, const char *origin,
                             struct gk_json **json_out, struct gk_err *err)
{
    size_t bad = 0;
    if (!gk_utf8_check(text, size, &bad)) {
        return gk_fail(err, GK_PARSE, "%s: not UTF-8: byte 0x%02X at offset %zu", origin,
                       (unsigned)(unsigned char)text[bad], bad);
    }
    if (size >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0) {
        return gk_fail(err, GK_PARSE,
                       "%s: starts with a byte order mark (EF BB BF), which JSON does not have",
                       origin);
    }
    enum gk_status status = check_nesting(text, size, origin, err);
    if (status != GK_OK) {
        return status;
    }
    json_error_t error;
    json_t *json =
        json_loadb(size ? text : "", size, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
    if (!json) {
        if (json_error_code(&error) == json_error_out_of_memory) {
            return gk_fail(err, GK_NOMEM, "%s: out of memory while parsing %zu bytes", origin,
                           size);
        }
        if (json_error_code(&error) == json_error_null_character) {
            return gk_fail(err, GK_PARSE, "%s: line %d, column %d: \\u0000 in a string", origin,
                           error.line, error.column);
        }
        gk_utf8_clean(error.text); /* the library quotes the text and may cut a character */
        return gk_fail(err, GK_PARSE, "%s: line %d, column %d: %s", origin, error.line,
                       error.column, error.text);
    }
    *json_out = wrap(json);
    return GK_OK;
}

enum gk_status gk_json_load(const char *path, size_t size_max, struct gk_json **json_out,
                            struct gk_err *err)
{
    char *text = NULL;
    size_t size = 0;
    enum gk_status status = gk_file_load(path, size_max, &text, &size, err);
    if (status == GK_OK) {
        status = gk_json_parse(text, size, path, json_out, err);
    }
    free(text);
    return status;
}

/* ------------------------------------------------------------------ reading */

const char *gk_json_type_name(enum gk_json_type type)
{
    switch (type) {
    case GK_JSON_NULL:
        return "null";
    case GK_JSON_BOOL:
        return "true or false";
    case GK_JSON_INT:
        return "an integer";
    case GK_JSON_REAL:
        return "a real number";
    case GK_JSON_STRING:
        return "a string";
    case GK_JSON_ARRAY:
        return "a list";
    case GK_JSON_OBJECT:
        return "an object";
    }
    return "an unknown type";
}

void gk_json_free(struct gk_json *json)
{
    json_decref(raw(json));
}

struct gk_json *gk_json_copy(const struct gk_json *json)
{
    return wrap(json_deep_copy(raw(json)));
}

struct gk_json *gk_json_share(const struct gk_json *json)
{
    return wrap(json_incref(raw(json)));
}

bool gk_json_equal(const struct gk_json *a, const struct gk_json *b)
{
    return json_equal(raw(a), raw(b));
}

enum gk_json_type gk_json_type(const struct gk_json *json)
{
    if (!json) {
        return GK_JSON_NULL;
    }
    switch (json_typeof(raw(json))) {
    case JSON_OBJECT:
        return GK_JSON_OBJECT;
    case JSON_ARRAY:
        return GK_JSON_ARRAY;
    case JSON_STRING:
        return GK_JSON_STRING;
    case JSON_INTEGER:
        return GK_JSON_INT;
    case JSON_REAL:
        return GK_JSON_REAL;
    case JSON_TRUE:
    case JSON_FALSE:
        return GK_JSON_BOOL;
    case JSON_NULL:
        return GK_JSON_NULL;
    }
    return GK_JSON_NULL;
}

bool gk_json_is(const struct gk_json *json, enum gk_json_type type)
{
    return json && gk_json_type(json) == type;
}

size_t gk_json_count(const struct gk_json *json)
{
    return gk_json_is(json, GK_JSON_OBJECT) ? json_object_size(raw(json))
                                            : json_array_size(raw(json));
}

const struct gk_json *gk_json_get(const struct gk_json *object, const char *key)
{
    return wrap(json_object_get(raw(object), key));
}

struct gk_json *gk_json_get_mutable(struct gk_json *object, const char *key)
{
    return wrap(json_object_get(raw(object), key));
}

const struct gk_json *gk_json_at(const struct gk_json *array, size_t index)
{
    return wrap(json_array_get(raw(array), index));
}

const struct gk_json *gk_json_next(const struct gk_json *object, void **cursor,
                                   const char **key_out)
{
    if (!gk_json_is(object, GK_JSON_OBJECT)) {
        return NULL;
    }
    void *iterator =
        *cursor ? json_object_iter_next(raw(object), *cursor) : json_object_iter(raw(object));
    if (!iterator) {
        return NULL;
    }
    *cursor = iterator;
    if (key_out) {
        *key_out = json_object_iter_key(iterator);
    }
    return wrap(json_object_iter_value(iterator));
}

const struct gk_json *gk_json_member(const struct gk_json *object, size_t index,
                                     const char **key_out)
{
    void *cursor = NULL;
    const struct gk_json *value = gk_json_next(object, &cursor, key_out);
    for (size_t i = 0; value && i < index; i++) {
        value = gk_json_next(object, &cursor, key_out);
    }
    return value;
}

int64_t gk_json_int(const struct gk_json *json, int64_t fallback)
{
    return json_is_integer(raw(json)) ? json_integer_value(raw(json)) : fallback;
}

double gk_json_real(const struct gk_json *json, double fallback)
{
    return json_is_number(raw(json)) ? json_number_value(raw(json)) : fallback;
}

bool gk_json_bool(const struct gk_json *json, bool fallback)
{
    return json_is_boolean(raw(json)) ? json_is_true(raw(json)) : fallback;
}

const char *gk_json_string(const struct gk_json *json, const char *fallback)
{
    return json_is_string(raw(json)) ? json_string_value(raw(json)) : fallback;
}

int64_t gk_json_get_int(const struct gk_json *object, const char *key, int64_t fallback)
{
    return gk_json_int(gk_json_get(object, key), fallback);
}

double gk_json_get_real(const struct gk_json *object, const char *key, double fallback)
{
    return gk_json_real(gk_json_get(object, key), fallback);
}

bool gk_json_get_bool(const struct gk_json *object, const char *key, bool fallback)
{
    return gk_json_bool(gk_json_get(object, key), fallback);
}

const char *gk_json_get_string(const struct gk_json *object, const char *key, const char *fallback)
{
    return gk_json_string(gk_json_get(object, key), fallback);
}

enum gk_status gk_json_need(const struct gk_json *object, const char *key, enum gk_json_type type,
                            const struct gk_json **out, const char *where, struct gk_err *err)
{
    if (!gk_json_is(object, GK_JSON_OBJECT)) {
        return gk_fail(err, GK_INPUT, "%s: %s where an object is needed", where,
                       gk_json_type_name(gk_json_type(object)));
    }
    const struct gk_json *value = gk_json_get(object, key);
    if (!value) {
        return gk_fail(err, GK_INPUT, "%s: \"%s\" is missing; %s is needed", where, key,
                       gk_json_type_name(type));
    }
    if (gk_json_type(value) != type) {
        char shown[GK_JSON_SHOW_SIZE];
        gk_json_show(value, shown);
        return gk_fail(err, GK_INPUT, "%s: \"%s\" is %s; %s is needed", where, key, shown,
                       gk_json_type_name(type));
    }
    *out = value;
    return GK_OK;
}

enum gk_status gk_json_need_int(const struct gk_json *object, const char *key, int64_t min,
                                int64_t max, int64_t *out, const char *where, struct gk_err *err)
{
    const struct gk_json *value = NULL;
    enum gk_status status = gk_json_need(object, key, GK_JSON_INT, &value, where, err);
    if (status != GK_OK) {
        return status;
    }
    int64_t number = gk_json_int(value, 0);
    if (number < min || number > max) {
        return gk_fail(err, GK_INPUT,
                       "%s: \"%s\" is %" PRId64 "; %" PRId64 " to %" PRId64 " is allowed", where,
                       key, number, min, max);
    }
    *out = number;
    return GK_OK;
}

enum gk_status gk_json_need_string(const struct gk_json *object, const char *key, size_t size_max,
                                   const char **out, const char *where, struct gk_err *err)
{
    const struct gk_json *value = NULL;
    enum gk_status status = gk_json_need(object, key, GK_JSON_STRING, &value, where, err);
    if (status != GK_OK) {
        return status;
    }
    const char *text = gk_json_string(value, "");
    size_t size = strlen(text);
    if (size > size_max) {
        char shown[GK_JSON_SHOW_SIZE];
        gk_json_show(value, shown);
        return gk_fail(err, GK_LIMIT, "%s: \"%s\" is %s with %zu bytes; at most %zu are allowed",
                       where, key, shown, size, size_max);
    }
    *out = text;
    return GK_OK;
}

/* ------------------------------------------------------------------ building */

struct gk_json *gk_json_new_null(void)
{
    return wrap(json_null());
}

struct gk_json *gk_json_new_bool(bool value)
{
    return wrap(json_boolean(value));
}

struct gk_json *gk_json_new_int(int64_t value)
{
    return wrap(json_integer(value));
}

struct gk_json *gk_json_new_real(double value)
{
    return isfinite(value) ? wrap(json_real(value)) : wrap(json_null());
}

struct gk_json *gk_json_new_string(const char *text)
{
    size_t size = strlen(text), bad = 0;
    if (gk_utf8_check(text, size, &bad)) {
        return wrap(json_stringn_nocheck(text, size));
    }
    char *clean = gk_strndup(text, size);
    if (!clean) {
        return NULL;
    }
    gk_utf8_clean(clean);
    json_t *json = json_stringn_nocheck(clean, size);
    free(clean);
    return wrap(json);
}

struct gk_json *gk_json_new_array(void)
{
    return wrap(json_array());
}

struct gk_json *gk_json_new_object(void)
{
    return wrap(json_object());
}

bool gk_json_set(struct gk_json *object, const char *key, struct gk_json *value)
{
    return json_object_set_new(raw(object), key, raw(value)) == 0;
}

bool gk_json_push(struct gk_json *array, struct gk_json *value)
{
    return json_array_append_new(raw(array), raw(value)) == 0;
}

bool gk_json_set_int(struct gk_json *object, const char *key, int64_t value)
{
    return gk_json_set(object, key, gk_json_new_int(value));
}

bool gk_json_set_real(struct gk_json *object, const char *key, double value)
{
    return gk_json_set(object, key, gk_json_new_real(value));
}

bool gk_json_set_bool(struct gk_json *object, const char *key, bool value)
{
    return gk_json_set(object, key, gk_json_new_bool(value));
}

bool gk_json_set_string(struct gk_json *object, const char *key, const char *value)
{
    return gk_json_set(object, key, gk_json_new_string(value));
}
