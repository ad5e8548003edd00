/* See json_view.h. */
#include "core/json_view.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define VIEW_DEPTH_MAX 16

struct reader {
    struct gk_view *view;
    const char *text, *at, *end;
};

static bool read_value(struct reader *r, int depth);

static struct gk_view_value *push(struct reader *r, enum gk_json_type type)
{
    struct gk_view *view = r->view;
    if (view->count == view->capacity) {
        return NULL;
    }
    struct gk_view_value *value = &view->values[view->count++];
    *value =
        (struct gk_view_value){.type = type, .at = (uint32_t)(r->at - r->text), .end = view->count};
    return value;
}

static bool skip(struct reader *r, const char *word, size_t size)
{
    if ((size_t)(r->end - r->at) < size || memcmp(r->at, word, size) != 0) {
        return false;
    }
    r->at += size;
    return true;
}

/* Between the quotes: no control characters, and only escapes that canonical text has. */
static bool read_string(struct reader *r)
{
    r->at++; /* the quote */
    struct gk_view_value *value = push(r, GK_JSON_STRING);
    if (!value) {
        return false;
    }
    const char *start = r->at;
    for (; r->at < r->end && *r->at != '"'; r->at++) {
        if ((unsigned char)*r->at < 0x20) {
            return false;
        }
        if (*r->at == '\\') {
            value->escaped = true;
            r->at++;
            if (r->at == r->end || !strchr("\"\\bfnrt", *r->at) || *r->at == '\0') {
                return false;
            }
        }
    }
    value->size = (uint32_t)(r->at - start);
    return skip(r, "\"", 1);
}

/* A decimal without exponent, as it stands in a text. */
struct decimal {
    uint64_t number;            /* its digits without the point */
    unsigned digits, places;    /* from the first one that is not zero; behind the point */
    bool negative, known;       /* known: at most 17 digits, of which at most 19 are places */
    bool leads_zero, ends_zero; /* more zeros than its value needs */
};

static struct decimal read_decimal(const char *text, size_t size)
{
    struct decimal d = {.negative = *text == '-'};
    size_t at = d.negative, whole = 0;
    bool behind = false;
    for (; at < size; at++) {
        if (text[at] == '.' && !behind) {
            behind = true;
        } else if (text[at] >= '0' && text[at] <= '9' && d.digits <= 17) {
            d.number = d.number * 10 + (uint64_t)(text[at] - '0');
            d.digits += d.number > 0;
            d.places += behind;
            whole += !behind;
        } else {
            return d;
        }
    }
    d.known = whole > 0 && d.places > 0 && d.places <= 19 && d.digits <= 17;
    d.leads_zero = whole > 1 && text[d.negative] == '0';
    d.ends_zero = d.places > 1 && text[size - 1] == '0';
    return d;
}

/* number / 10^places, rounded once. The quotient has 56 bits or more, so whatever is behind them
 * only tells whether it is a tie: one bit says that. */
static double quotient(uint64_t number, unsigned places)
{
    uint64_t power = 1;
    for (unsigned i = 0; i < places; i++) {
        power *= 10;
    }
    int shift = 56 + __builtin_clzll(number) - __builtin_clzll(power);
    unsigned __int128 wide = (unsigned __int128)number << shift;
    uint64_t bits = (uint64_t)(wide / power);
    return ldexp((double)(bits | (wide % power != 0)), -shift);
}

/* What strtod() gives. Of at most 15 digits one exact number over another is rounded once. */
static double value_of(const struct decimal *d, const char *text)
{
    static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,
                                    1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19};
    if (!d->known) {
        return strtod(text, NULL);
    }
    double value =
        d->digits <= 15 ? (double)d->number / powers[d->places] : quotient(d->number, d->places);
    return d->negative ? -value : value;
}

static bool read_real(struct gk_view_value *value, const char *text)
{
    char storage[40];
    struct gk_buf canonical = {.data = storage, .capacity = sizeof storage};
    struct decimal d = read_decimal(text, value->size);
    value->type = GK_JSON_REAL;
    value->real = value_of(&d, text);
    if (!isfinite(value->real)) {
        return false;
    }
    /* What has at most 15 digits is the shortest that reads back, and keeps its form in this range:
     * nothing but zeros too many can be wrong with it. */
    double size = fabs(value->real);
    if (d.known && d.digits <= 15 && ((size >= 1e-4 && size < 1e15) || d.number == 0)) {
        return !d.leads_zero && !d.ends_zero;
    }
    gk_json_put_real(&canonical, value->real); /* 26 bytes at most: the storage is never left */
    return canonical.size == value->size && memcmp(storage, text, canonical.size) == 0;
}

static bool read_number(struct reader *r)
{
    struct gk_view_value *value = push(r, GK_JSON_INT);
    const char *start = r->at;
    uint64_t size = 0;
    bool negative = *r->at == '-', whole = true;
    for (r->at += negative; r->at < r->end; r->at++) {
        char c = *r->at;
        if (c >= '0' && c <= '9') {
            size = size * 10 + (uint64_t)(c - '0'); /* may overflow: then it is too long, below */
        } else if (c == '.' || c == 'e' || c == '+' || c == '-') {
            whole = false;
        } else {
            break;
        }
    }
    size_t digits = (size_t)(r->at - start) - negative;
    if (!value || digits == 0) {
        return false;
    }
    value->size = (uint32_t)(r->at - start);
    if (!whole) {
        return read_real(value, start);
    }
    if (digits > 18 || (start[negative] == '0' && (digits > 1 || negative))) {
        return false;
    }
    value->integer = negative ? -(int64_t)size : (int64_t)size;
    return true;
}

static bool read_word(struct reader *r)
{
    struct gk_view_value *value = push(r, GK_JSON_NULL);
    const char *start = r->at;
    if (!value) {
        return false;
    }
    if (skip(r, "true", 4)) {
        value->type = GK_JSON_BOOL;
        value->integer = 1;
    } else if (skip(r, "false", 5)) {
        value->type = GK_JSON_BOOL;
    } else if (!skip(r, "null", 4)) {
        return false;
    }
    value->size = (uint32_t)(r->at - start);
    return true;
}

static bool key_is_behind(const struct reader *r, const struct gk_view_value *before,
                          const struct gk_view_value *key)
{
    uint32_t size = before->size < key->size ? before->size : key->size;
    int order = memcmp(r->text + before->at, r->text + key->at, size);
    return order < 0 || (order == 0 && before->size < key->size);
}

static bool read_members(struct reader *r, bool object, int depth)
{
    uint32_t before = UINT32_MAX;
    const char *closing = object ? "}" : "]";
    if (skip(r, closing, 1)) {
        return true;
    }
    do {
        uint32_t key = r->view->count;
        if (object) {
            if (r->at == r->end || *r->at != '"' || !read_string(r) ||
                r->view->values[key].escaped || !skip(r, ":", 1) ||
                (before != UINT32_MAX &&
                 !key_is_behind(r, &r->view->values[before], &r->view->values[key]))) {
                return false;
            }
            before = key;
        }
        if (!read_value(r, depth + 1)) {
            return false;
        }
    } while (skip(r, ",", 1));
    return skip(r, closing, 1);
}

static bool read_value(struct reader *r, int depth)
{
    if (r->at == r->end || depth > VIEW_DEPTH_MAX) {
        return false;
    }
    char c = *r->at;
    if (c == '"') {
        return read_string(r);
    }
    if (c == '-' || (c >= '0' && c <= '9')) {
        return read_number(r);
    }
    if (c != '{' && c != '[') {
        return read_word(r);
    }
    uint32_t index = r->view->count;
    const char *start = r->at;
    if (!push(r, c == '{' ? GK_JSON_OBJECT : GK_JSON_ARRAY)) {
        return false;
    }
    r->at++;
    if (!read_members(r, c == '{', depth)) {
        return false;
    }
    r->view->values[index].size = (uint32_t)(r->at - start);
    r->view->values[index].end = r->view->count;
    return true;
}

bool gk_view_parse(struct gk_view *view, const char *text, size_t size)
{
    struct reader reader = {view, text, text, text + size};
    size_t bad;
    view->text = text;
    view->count = 0;
    return size < UINT32_MAX && gk_utf8_check(text, size, &bad) && read_value(&reader, 0) &&
           reader.at == reader.end;
}

bool gk_view_is(const struct gk_view *view, const struct gk_view_value *value, const char *text)
{
    size_t size = strlen(text);
    return value->size == size && memcmp(view->text + value->at, text, size) == 0;
}

const struct gk_view_value *gk_view_next(const struct gk_view *view,
                                         const struct gk_view_value *list, uint32_t *cursor)
{
    uint32_t index = *cursor ? *cursor : (uint32_t)(list - view->values) + 1;
    if (index >= list->end) {
        return NULL;
    }
    *cursor = view->values[index].end;
    return &view->values[index];
}

const struct gk_view_value *gk_view_get(const struct gk_view *view,
                                        const struct gk_view_value *object, const char *key)
{
    size_t size = strlen(key);
    if (!object || object->type != GK_JSON_OBJECT) {
        return NULL;
    }
    /* A member's value stands behind its name. */
    for (uint32_t at = (uint32_t)(object - view->values) + 1; at < object->end;) {
        const struct gk_view_value *name = &view->values[at], *value = name + 1;
        if (name->size == size && memcmp(view->text + name->at, key, size) == 0) {
            return value;
        }
        at = value->end;
    }
    return NULL;
}
