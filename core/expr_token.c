/*
 * Words of expressions: names, numbers, 'enum values', signs; and how a mistake is told. See
 * expr_internal.h.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/expr_internal.h"

int32_t expr_fail_at(struct expr_parser *p, enum gk_status status, uint32_t column,
                     const char *format, ...)
{
    if (p->status == GK_OK) {
        va_list ap;
        va_start(ap, format);
        p->status = gk_vfail(p->err, status, format, ap);
        va_end(ap);
        bool cut = strlen(p->text) > 400; /* leaves room for the reason in struct gk_err */
        p->status = p->err ? gk_fail_in(p->err, status, "expression '%.400s%s', column %" PRIu32,
                                        p->text, cut ? "..." : "", column)
                           : status;
    }
    return NO_NODE;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_word(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static void scan_real(struct expr_parser *p)
{
    struct expr_token *t = &p->token;
    const char *end = t->start;
    bool good = true;
    while (is_digit(*end)) {
        end++;
    }
    if (*end == '.') {
        good = is_digit(*++end);
        while (is_digit(*end)) {
            end++;
        }
    }
    if (*end == 'e' || *end == 'E') {
        end += end[1] == '+' || end[1] == '-' ? 2 : 1;
        good = good && is_digit(*end);
        while (is_digit(*end)) {
            end++;
        }
    }
    t->kind = TOKEN_REAL;
    t->length = (uint32_t)(end - t->start);
    p->at = end;
    if (!good || is_word(*end) || *end == '.') {
        expr_fail_at(p, GK_PARSE, t->column, "'%.*s' is not a number", (int)t->length + 1,
                     t->start);
        return;
    }
    t->value.r = strtod(t->start, NULL);
    if (!isfinite(t->value.r)) {
        expr_fail_at(p, GK_PARSE, t->column, "%.*s is over the largest real", (int)t->length,
                     t->start);
    }
}

static void scan_number(struct expr_parser *p)
{
    struct expr_token *t = &p->token;
    bool hex = t->start[0] == '0' && (t->start[1] == 'x' || t->start[1] == 'X');
    const char *end = t->start;
    while (is_word(*end)) {
        end++;
    }
    size_t digits = strspn(t->start, "0123456789");
    char after = t->start[digits];
    if (!hex && (after == '.' || after == 'e' || after == 'E')) {
        scan_real(p);
        return;
    }
    t->kind = TOKEN_INT;
    t->length = (uint32_t)(end - t->start);
    p->at = end;
    char *stop = NULL;
    errno = 0;
    t->value.i = strtoll(t->start, &stop, hex ? 16 : 10);
    if (stop != end) {
        expr_fail_at(p, GK_PARSE, t->column, "'%.*s' is not a number", (int)t->length, t->start);
    } else if (errno == ERANGE) {
        expr_fail_at(p, GK_PARSE, t->column, "%.*s does not fit a 64-bit integer", (int)t->length,
                     t->start);
    } else if (!hex && t->length > 1 && t->start[0] == '0') {
        expr_fail_at(p, GK_PARSE, t->column, "'%.*s' begins with 0, which C would read as octal",
                     (int)t->length, t->start);
    }
}

static void scan_name(struct expr_parser *p)
{
    struct expr_token *t = &p->token;
    const char *end = t->start;
    while (is_word(*end)) {
        end++;
    }
    if (*end == '.' && is_word(end[1]) && !is_digit(end[1])) {
        end++;
        while (is_word(*end)) {
            end++;
        }
    }
    t->kind = TOKEN_NAME;
    t->length = (uint32_t)(end - t->start);
    p->at = end;
    if (t->length >= GK_NAME_MAX) {
        expr_fail_at(p, GK_LIMIT, t->column, "a name of %" PRIu32 " bytes; at most %d are allowed",
                     t->length, GK_NAME_MAX - 1);
    }
}

static void scan_text(struct expr_parser *p)
{
    struct expr_token *t = &p->token;
    const char *end = strchr(t->start + 1, '\'');
    if (!end) {
        p->at = t->start + strlen(t->start);
        expr_fail_at(p, GK_PARSE, t->column, "the closing ' is missing");
        return;
    }
    t->kind = TOKEN_TEXT;
    t->start++;
    t->length = (uint32_t)(end - t->start);
    p->at = end + 1;
}

static void scan_sign(struct expr_parser *p)
{
    static const char *const twos[] = {"||", "&&", "==", "!=", "<=", ">=", "<<", ">>"};
    struct expr_token *t = &p->token;
    t->kind = TOKEN_SIGN;
    t->length = 1;
    for (size_t i = 0; i < GK_ARRAY_COUNT(twos); i++) {
        if (strncmp(t->start, twos[i], 2) == 0) {
            t->length = 2;
        }
    }
    memcpy(t->sign, t->start, t->length);
    t->sign[t->length] = '\0';
    p->at = t->start + t->length;
    if (t->length == 1 && !strchr("?:|^&<>+-*/%!~(),", t->start[0])) {
        unsigned c = (unsigned char)t->start[0];
        if (c > ' ' && c < 0x7F) {
            expr_fail_at(p, GK_PARSE, t->column, "'%c' means nothing here", (int)c);
        } else {
            expr_fail_at(p, GK_PARSE, t->column, "the byte 0x%02X means nothing here", c);
        }
    }
}

void expr_advance(struct expr_parser *p)
{
    while (*p->at == ' ' || *p->at == '\t' || *p->at == '\n' || *p->at == '\r') {
        p->at++;
    }
    p->token = (struct expr_token){.start = p->at, .column = (uint32_t)(p->at - p->text) + 1};
    if (*p->at == '\0' || p->status != GK_OK) {
        p->token.kind = TOKEN_END;
    } else if (is_digit(*p->at)) {
        scan_number(p);
    } else if (is_word(*p->at)) {
        scan_name(p);
    } else if (*p->at == '\'') {
        scan_text(p);
    } else {
        scan_sign(p);
    }
}

bool expr_is_sign(const struct expr_parser *p, const char *sign)
{
    return p->token.kind == TOKEN_SIGN && strcmp(p->token.sign, sign) == 0;
}

bool expr_take(struct expr_parser *p, const char *sign)
{
    if (p->status != GK_OK || !expr_is_sign(p, sign)) {
        return false;
    }
    expr_advance(p);
    return true;
}

bool expr_demand(struct expr_parser *p, const char *sign)
{
    if (expr_take(p, sign)) {
        return true;
    }
    if (p->token.kind == TOKEN_END) {
        expr_fail_at(p, GK_PARSE, p->token.column, "'%s' is missing at the end", sign);
    } else {
        expr_fail_at(p, GK_PARSE, p->token.column, "'%s' is needed before '%.*s'", sign,
                     (int)p->token.length, p->token.start);
    }
    return false;
}
