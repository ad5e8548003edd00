/*
 * JSON as text: UTF-8, shortest reals, canonical and pretty text. See json.h. Written over our own
 * readers, so that canonical bytes (identities!) do not depend on the library's version.
 */
#include "core/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MEMBERS_SMALL 32 /* sorted on the stack */

/* ------------------------------------------------------------------ UTF-8 */

/* Length of the UTF-8 sequence at p, 0 if there is none (Unicode 15, table 3-7). */
static size_t utf8_length(const unsigned char *p, size_t left)
{
    if (p[0] < 0x80) {
        return 1;
    }
    size_t length = p[0] >= 0xF0 ? 4 : p[0] >= 0xE0 ? 3 : 2;
    if (p[0] < 0xC2 || p[0] > 0xF4 || left < length) {
        return 0;
    }
    unsigned char low = 0x80, high = 0xBF;
    switch (p[0]) {
    case 0xE0:
        low = 0xA0; /* else overlong */
        break;
    case 0xED:
        high = 0x9F; /* else a surrogate */
        break;
    case 0xF0:
        low = 0x90; /* else overlong */
        break;
    case 0xF4:
        high = 0x8F; /* else past U+10FFFF */
        break;
    default:
        break;
    }
    if (p[1] < low || p[1] > high) {
        return 0;
    }
    for (size_t i = 2; i < length; i++) {
        if ((p[i] & 0xC0) != 0x80) {
            return 0;
        }
    }
    return length;
}

bool gk_utf8_check(const char *text, size_t size, size_t *bad_out)
{
    const unsigned char *p = (const unsigned char *)text;
    for (size_t i = 0; i < size;) {
        uint64_t word;
        while (size - i >= sizeof word) { /* plain ASCII, a word at a time */
            memcpy(&word, p + i, sizeof word);
            if (word & UINT64_C(0x8080808080808080)) {
                break;
            }
            i += sizeof word;
        }
        if (i == size) {
            break;
        }
        size_t length = utf8_length(p + i, size - i);
        if (length == 0) {
            *bad_out = i;
            return false;
        }
        i += length;
    }
    return true;
}

void gk_utf8_clean(char *text)
{
    size_t size = strlen(text), bad = 0;
    for (size_t from = 0; !gk_utf8_check(text + from, size - from, &bad);) {
        from += bad;
        text[from++] = '?';
    }
}

/* ------------------------------------------------------------------ writing */

/* Powers of ten that a double holds exactly: a quotient of two exact numbers is rounded once, as
 * reading the decimal would round. */
static const double exact_powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                      1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                      1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

/* kept without a sign and with `places` digits behind the point. */
static void write_decimal(uint64_t kept, unsigned places, bool negative, char text_out[32])
{
    char reversed[32];
    unsigned count = 0, at = 0;
    for (; places > 0 && kept % 10 == 0; places--) {
        kept /= 10;
    }
    for (; kept > 0 || count <= places; kept /= 10) {
        reversed[count++] = (char)('0' + kept % 10);
    }
    if (negative) {
        text_out[at++] = '-';
    }
    while (count > 0) {
        if (count == places) {
            text_out[at++] = '.';
        }
        text_out[at++] = reversed[--count];
    }
    text_out[at] = '\0';
}

/* The decimal of at most 15 digits, or the shortest of 16 or 17, that reads back: what the general
 * way below finds, for 1e-4 <= value < 1e15, where the text has no exponent. Every digit is exact:
 * below the binary point there are at most 66 bits, so that the part of value behind the decimal
 * point is an integer over a power of two, and ten times it fits. False: the general way decides.
 */
static bool real_text_plain(double value, char text_out[32])
{
    uint64_t bits;
    double size = fabs(value);
    if (!(size >= 1e-4 && size < 1e15)) {
        return false;
    }
    memcpy(&bits, &size, sizeof bits);
    unsigned shift = 1075 - (unsigned)(bits >> 52); /* bits below the binary point: 3 to 66 */
    uint64_t mantissa = (bits & ((UINT64_C(1) << 52) - 1)) | UINT64_C(1) << 52;
    unsigned __int128 one = (unsigned __int128)1 << shift, rest = mantissa & (one - 1);
    uint64_t number = shift < 64 ? mantissa >> shift : 0;
    unsigned places = 0; /* digits behind the point */
    while (number < UINT64_C(10000000000000000)) {
        rest *= 10;
        number = number * 10 + (uint64_t)(rest >> shift);
        rest &= one - 1;
        places++;
    }
    uint64_t kept = 0;
    unsigned digits = 15;
    for (; digits <= 17; digits++) { /* of 17, the last two or one are cut off, rounding to even */
        uint64_t cut = digits == 15 ? 100 : digits == 16 ? 10 : 1, below = number % cut;
        bool above_half = 2 * below > cut || (2 * below == cut && rest > 0),
             half = 2 * below == cut && rest == 0;
        if (digits == 17) {
            above_half = rest > one / 2;
            half = rest == one / 2;
        }
        kept = number / cut;
        kept += above_half || (half && (kept & 1) != 0);
        if (digits == 17 || (kept <= UINT64_C(1) << 53 &&
                             (double)kept / exact_powers[places - (17 - digits)] == size)) {
            break;
        }
        if (kept > UINT64_C(1) << 53) {
            return false; /* only reading it back tells */
        }
    }
    write_decimal(kept, places - (17 - digits), value < 0, text_out);
    return true;
}

void gk_real_text(double value, char text_out[32])
{
    if (value == 0) { /* many costs and bounds are */
        memcpy(text_out, signbit(value) ? "-0" : "0", signbit(value) ? 3 : 2);
    } else if (!real_text_plain(value, text_out)) {
        gk_real_text_slowly(value, text_out);
    }
}

void gk_real_text_slowly(double value, char text_out[32])
{
    /* A decimal of at most 15 digits survives the way through a normal double, and %g drops
     * trailing zeros: so %.15g is the shortest if it reads back, and 17 digits always do.
     * Subnormals hold fewer digits: there every length is tried. */
    int digits = isnormal(value) ? 15 : 1;
    for (; digits <= 17; digits++) {
        (void)snprintf(text_out, 32, "%.*g", digits, value); /* 24 bytes at most */
        if (strtod(text_out, NULL) == value) {
            return;
        }
    }
}

void gk_json_put_real(struct gk_buf *buf, double value)
{
    char number[32];
    gk_real_text(value, number);
    gk_buf_puts(buf, number);
    if (!strpbrk(number, ".e")) {
        gk_buf_puts(buf, ".0");
    }
}

void gk_json_put_int(struct gk_buf *buf, int64_t value)
{
    char text[24];
    size_t at = sizeof text;
    uint64_t size = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    do {
        text[--at] = (char)('0' + size % 10);
        size /= 10;
    } while (size > 0);
    if (value < 0) {
        text[--at] = '-';
    }
    gk_buf_add(buf, text + at, sizeof text - at);
}

void gk_json_put_string(struct gk_buf *buf, const char *text)
{
    gk_buf_putc(buf, '"');
    const char *start = text;
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c >= 0x20 && c != '"' && c != '\\') {
            continue;
        }
        gk_buf_add(buf, start, (size_t)(text - start));
        start = text + 1;
        static const char plain[] = "\"\\\b\f\n\r\t", letter[] = "\"\\bfnrt";
        const char *found = strchr(plain, c);
        if (found) {
            gk_buf_putc(buf, '\\');
            gk_buf_putc(buf, letter[found - plain]);
        } else {
            gk_buf_printf(buf, "\\u%04x", (unsigned)c);
        }
    }
    gk_buf_add(buf, start, (size_t)(text - start));
    gk_buf_putc(buf, '"');
}

struct writer {
    struct gk_buf *buf;
    bool pretty; /* white space and member order; else canonical */
    struct gk_err *err;
};

static enum gk_status write_value(struct writer *w, const struct gk_json *json, int depth);

static void new_line(struct writer *w, int depth)
{
    if (w->pretty) {
        gk_buf_printf(w->buf, "\n%*s", 2 * depth, "");
    }
}

static enum gk_status write_array(struct writer *w, const struct gk_json *json, int depth)
{
    size_t count = gk_json_count(json);
    enum gk_status status = GK_OK;
    gk_buf_putc(w->buf, '[');
    /* A list of plain values stays on one line: shapes and samples read better so. */
    bool nested = false;
    for (size_t i = 0; w->pretty && i < count && !nested; i++) {
        nested = gk_json_count(gk_json_at(json, i)) > 0;
    }
    for (size_t i = 0; i < count && status == GK_OK; i++) {
        if (i) {
            gk_buf_puts(w->buf, w->pretty && !nested ? ", " : ",");
        }
        if (nested) {
            new_line(w, depth + 1);
        }
        status = write_value(w, gk_json_at(json, i), depth + 1);
    }
    if (nested) {
        new_line(w, depth);
    }
    gk_buf_putc(w->buf, ']');
    return status;
}

struct member {
    const char *key;
    const struct gk_json *value;
};

static int compare_members(const void *a, const void *b)
{
    return strcmp(((const struct member *)a)->key, ((const struct member *)b)->key);
}

/* Most objects are small, and those that came as canonical text are in order already. */
static void sort_members(struct member *members, size_t count)
{
    if (count > MEMBERS_SMALL) {
        qsort(members, count, sizeof *members, compare_members);
        return;
    }
    for (size_t i = 1; i < count; i++) {
        struct member moved = members[i];
        size_t at = i;
        for (; at > 0 && strcmp(members[at - 1].key, moved.key) > 0; at--) {
            members[at] = members[at - 1];
        }
        members[at] = moved;
    }
}

static enum gk_status write_object(struct writer *w, const struct gk_json *json, int depth)
{
    size_t count = gk_json_count(json);
    struct member few[MEMBERS_SMALL];
    if (count == 0) {
        gk_buf_puts(w->buf, "{}");
        return GK_OK;
    }
    struct member *members = count <= MEMBERS_SMALL ? few : calloc(count, sizeof *members);
    if (!members) {
        return gk_fail(w->err, GK_NOMEM, "writing a JSON object of %zu members", count);
    }
    void *cursor = NULL;
    for (size_t i = 0; i < count; i++) {
        members[i].value = gk_json_next(json, &cursor, &members[i].key);
    }
    if (!w->pretty) {
        sort_members(members, count);
    }
    enum gk_status status = GK_OK;
    gk_buf_putc(w->buf, '{');
    for (size_t i = 0; i < count && status == GK_OK; i++) {
        if (i) {
            gk_buf_putc(w->buf, ',');
        }
        new_line(w, depth + 1);
        gk_json_put_string(w->buf, members[i].key);
        gk_buf_puts(w->buf, w->pretty ? ": " : ":");
        status = write_value(w, members[i].value, depth + 1);
    }
    new_line(w, depth);
    gk_buf_putc(w->buf, '}');
    if (members != few) {
        free(members);
    }
    return status;
}

/* depth: levels already open around this value. */
static enum gk_status write_value(struct writer *w, const struct gk_json *json, int depth)
{
    enum gk_json_type type = gk_json_type(json);
    switch (type) {
    case GK_JSON_NULL:
        gk_buf_puts(w->buf, "null");
        break;
    case GK_JSON_BOOL:
        gk_buf_puts(w->buf, gk_json_bool(json, false) ? "true" : "false");
        break;
    case GK_JSON_INT:
        gk_json_put_int(w->buf, gk_json_int(json, 0));
        break;
    case GK_JSON_REAL:
        gk_json_put_real(w->buf, gk_json_real(json, 0));
        break;
    case GK_JSON_STRING:
        gk_json_put_string(w->buf, gk_json_string(json, ""));
        break;
    case GK_JSON_ARRAY:
    case GK_JSON_OBJECT:
        if (depth >= GK_JSON_DEPTH_MAX) {
            return gk_fail(w->err, GK_LIMIT, "JSON nested deeper than %d levels",
                           GK_JSON_DEPTH_MAX);
        }
        return type == GK_JSON_ARRAY ? write_array(w, json, depth) : write_object(w, json, depth);
    }
    return GK_OK;
}

static enum gk_status write_json(const struct gk_json *json, bool pretty, struct gk_buf *buf,
                                 struct gk_err *err)
{
    struct writer w = {.buf = buf, .pretty = pretty, .err = err};
    enum gk_status status = write_value(&w, json, 0);
    return status == GK_OK ? gk_buf_status(buf, err) : status;
}

enum gk_status gk_json_canonical(const struct gk_json *json, struct gk_buf *buf, struct gk_err *err)
{
    return write_json(json, false, buf, err);
}

enum gk_status gk_json_pretty(const struct gk_json *json, struct gk_buf *buf, struct gk_err *err)
{
    return write_json(json, true, buf, err);
}

char *gk_json_text(const struct gk_json *json)
{
    struct gk_buf buf = {0};
    if (gk_json_canonical(json, &buf, NULL) != GK_OK) {
        gk_buf_fini(&buf);
        return NULL;
    }
    return gk_buf_detach(&buf);
}

/* Cuts at a character boundary, so that a message stays UTF-8. */
static void show_cut(char text_out[GK_JSON_SHOW_SIZE], const char *text)
{
    size_t size = strlen(text);
    if (size < GK_JSON_SHOW_SIZE) {
        memcpy(text_out, text, size + 1);
        return;
    }
    size = GK_JSON_SHOW_SIZE - 4;
    while (size > 0 && ((unsigned char)text[size] & 0xC0) == 0x80) {
        size--;
    }
    memcpy(text_out, text, size);
    memcpy(text_out + size, "...", 4);
}

void gk_json_show(const struct gk_json *json, char text_out[GK_JSON_SHOW_SIZE])
{
    char *text = json ? gk_json_text(json) : NULL;
    show_cut(text_out, text ? text : gk_json_type_name(gk_json_type(json)));
    free(text);
}
