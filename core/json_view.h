/*
 * JSON text looked at where it lies: a flat list of values that point into it, no memory of its
 * own.
 *
 * For messages that come thousands of times a second in canonical form (core/json.h). It says yes
 * to canonical text alone: no white space, members in order, numbers and strings as
 * gk_json_canonical() writes them; so a piece of the text may be stored as it stands. Anything
 * else, also what is only unusual (an escape by number, more values than there is room for), is a
 * no without a reason: the caller parses it with gk_json_parse(), which has the last word and the
 * messages.
 */
#ifndef GK_CORE_JSON_VIEW_H
#define GK_CORE_JSON_VIEW_H

#include "core/json.h"

struct gk_view_value {
    enum gk_json_type type;
    bool escaped;      /* a string with backslashes */
    uint32_t at, size; /* of its text; of a string between its quotes */
    uint32_t end;      /* index of the value behind it and all that is inside of it */
    union {
        int64_t integer; /* also true and false */
        double real;
    };
};

struct gk_view {
    const char *text;
    struct gk_view_value *values; /* the caller's; the first is the whole, then depth first; of an
                                     object each member's key (a string), then its value */
    uint32_t count, capacity;
};

/* text[size] is a NUL. */
bool gk_view_parse(struct gk_view *view, const char *text, size_t size);
/* The value of a member, NULL: no such member, or `object` is none (NULL is none too). */
const struct gk_view_value *gk_view_get(const struct gk_view *view,
                                        const struct gk_view_value *object, const char *key);
/* Walks elements of a list, or keys and values of an object in turn: start with *cursor 0; NULL at
 * the end. */
const struct gk_view_value *gk_view_next(const struct gk_view *view,
                                         const struct gk_view_value *list, uint32_t *cursor);
bool gk_view_is(const struct gk_view *view, const struct gk_view_value *value, const char *text);

#endif
