/* Scopes of expressions: names, their types and slots. See expr.h. One scope one thread while it
 * grows; any number of readers afterwards. */
#include <stdlib.h>
#include <string.h>

#include "core/expr_internal.h"

struct gk_scope {
    uint32_t count;
    /* Pointers, so that a symbol handed out stays where it is while the scope grows. */
    struct gk_symbol *symbols[GK_SCOPE_SYMBOLS_MAX];
};

struct gk_scope *gk_scope_create(void)
{
    return calloc(1, sizeof(struct gk_scope));
}

void gk_scope_destroy(struct gk_scope *scope)
{
    if (!scope) {
        return;
    }
    for (uint32_t i = 0; i < scope->count; i++) {
        free(scope->symbols[i]);
    }
    free(scope);
}

static bool is_word_start(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

bool gk_is_name(const char *text)
{
    size_t i = 0;
    for (int parts = 0; parts < 2; parts++) {
        if (!is_word_start(text[i])) {
            return false;
        }
        while (is_word_start(text[i]) || (text[i] >= '0' && text[i] <= '9')) {
            if (++i >= GK_NAME_MAX) {
                return false;
            }
        }
        if (text[i] == '\0') {
            return i < GK_NAME_MAX;
        }
        if (text[i] != '.' || ++i >= GK_NAME_MAX) {
            return false;
        }
    }
    return false; /* a second dot */
}

enum gk_status gk_scope_add(struct gk_scope *scope, const char *name, enum gk_value_type type,
                            const char *const *enum_values, uint32_t enum_count, uint32_t *slot_out,
                            struct gk_err *err)
{
    if (!gk_is_name(name)) {
        return gk_fail(
            err, GK_INPUT,
            "'%.*s' is not a name: letters, digits and _, not starting with a digit, one "
            "dot at most, under %d bytes",
            GK_NAME_MAX, name, GK_NAME_MAX);
    }
    if (strcmp(name, "true") == 0 || strcmp(name, "false") == 0) {
        return gk_fail(err, GK_INPUT, "'%s' is a literal of expressions and cannot be a name",
                       name);
    }
    if (gk_scope_find(scope, name)) {
        return gk_fail(err, GK_EXISTS, "the name '%s' is taken", name);
    }
    if (scope->count == GK_SCOPE_SYMBOLS_MAX) {
        return gk_fail(err, GK_LIMIT, "name '%s': a scope holds at most %d names", name,
                       GK_SCOPE_SYMBOLS_MAX);
    }
    struct gk_symbol *symbol = calloc(1, sizeof *symbol);
    if (!symbol) {
        return gk_fail(err, GK_NOMEM, "out of memory for the name '%s'", name);
    }
    memcpy(symbol->name, name, strlen(name) + 1);
    symbol->type = type;
    symbol->slot = scope->count;
    symbol->enum_values = enum_values;
    symbol->enum_count = enum_values ? enum_count : 0;
    scope->symbols[scope->count++] = symbol;
    if (slot_out) {
        *slot_out = symbol->slot;
    }
    return GK_OK;
}

const struct gk_symbol *gk_scope_find(const struct gk_scope *scope, const char *name)
{
    for (uint32_t i = 0; i < scope->count; i++) {
        if (strcmp(scope->symbols[i]->name, name) == 0) {
            return scope->symbols[i];
        }
    }
    return NULL;
}

const struct gk_symbol *gk_scope_at(const struct gk_scope *scope, uint32_t slot)
{
    return slot < scope->count ? scope->symbols[slot] : NULL;
}

uint32_t gk_scope_count(const struct gk_scope *scope)
{
    return scope->count;
}

/* ------------------------------------------------------------------ near names */

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* Levenshtein distance without regard to case; both shorter than GK_NAME_MAX. */
static uint32_t edit_distance(const char *a, const char *b)
{
    uint32_t row[GK_NAME_MAX + 1];
    size_t width = strlen(b);
    for (uint32_t j = 0; j <= width; j++) {
        row[j] = j;
    }
    for (uint32_t i = 0; a[i]; i++) {
        uint32_t diagonal = row[0];
        row[0] = i + 1;
        for (size_t j = 0; j < width; j++) {
            uint32_t change = diagonal + (lower(a[i]) != lower(b[j]));
            diagonal = row[j + 1];
            uint32_t skip = (row[j] < diagonal ? row[j] : diagonal) + 1;
            row[j + 1] = change < skip ? change : skip;
        }
    }
    return row[width];
}

void expr_near_names(const struct gk_scope *scope, const char *name, struct gk_buf *buf)
{
    uint32_t limit = (uint32_t)strlen(name) / 3 + 1, best = limit + 1;
    for (uint32_t i = 0; i < scope->count; i++) {
        uint32_t distance = edit_distance(name, scope->symbols[i]->name);
        best = distance < best ? distance : best;
    }
    uint32_t shown = 0;
    for (uint32_t i = 0; best <= limit && i < scope->count && shown < 3; i++) {
        if (edit_distance(name, scope->symbols[i]->name) == best) {
            gk_buf_printf(buf, "%s%s", shown++ ? ", " : "; did you mean ", scope->symbols[i]->name);
        }
    }
    if (shown) {
        gk_buf_putc(buf, '?');
        return;
    }
    for (uint32_t i = 0; i < scope->count && i < 12; i++) {
        gk_buf_printf(buf, "%s%s", i ? ", " : "; names here: ", scope->symbols[i]->name);
    }
    gk_buf_puts(buf, scope->count > 12 ? ", ..." : scope->count ? "" : "; there are no names here");
}
