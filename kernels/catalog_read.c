/*
 * The reader: JSON members to C fields, every mistake into one gk_diag with file and place.
 *
 * Each function reports what it does not like and returns something harmless, so that one pass
 * finds all mistakes of a file. Called while a catalog loads; no state of its own.
 */
#include "kernels/catalog_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void gk_reader_init(struct gk_reader *r, const char *file, struct gk_diag *diag)
{
    memset(r, 0, sizeof *r);
    r->file = file;
    r->diag = diag;
}

size_t gk_reader_enter(struct gk_reader *r, const char *format, ...)
{
    size_t mark = r->place_size;
    size_t at = mark;
    bool joined = format[0] == '[' || format[0] == '(';
    if (at > 0 && !joined && at + 1 < sizeof r->place) {
        r->place[at++] = '.';
    }
    va_list ap;
    va_start(ap, format);
    int length = vsnprintf(r->place + at, sizeof r->place - at, format, ap);
    va_end(ap);
    size_t end = at + (length > 0 ? (size_t)length : 0);
    r->place_size = end < sizeof r->place ? end : sizeof r->place - 1; /* a cut place still helps */
    return mark;
}

void gk_reader_leave(struct gk_reader *r, size_t mark)
{
    r->place_size = mark;
    r->place[mark] = '\0';
}

enum gk_status gk_reader_fail(struct gk_reader *r, const char *key, enum gk_status status,
                              const char *format, ...)
{
    struct gk_err box;
    va_list ap;
    va_start(ap, format);
    (void)gk_vfail(&box, status, format, ap); /* returns what it was given */
    va_end(ap);
    const char *place = r->place_size ? r->place : key ? "" : "top level";
    r->errors++;
    return gk_diag_add(r->diag, status, "%s: %s%s%s: %s", r->file, place,
                       r->place_size && key ? "." : "", key ? key : "", box.text);
}

static void list_words(const char *const *words, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; words[i] && used < size; i++) {
        int length = snprintf(text + used, size - used, "%s%s", i ? ", " : "", words[i]);
        used += length > 0 ? (size_t)length : 0;
    }
}

bool gk_read_keys(struct gk_reader *r, const struct gk_json *json, const char *const *allowed)
{
    if (!gk_json_is(json, GK_JSON_OBJECT)) {
        char shown[GK_JSON_SHOW_SIZE];
        gk_json_show(json, shown);
        gk_reader_fail(r, NULL, GK_INPUT, "%s; an object is allowed", shown);
        return false;
    }
    void *cursor = NULL;
    const char *key = NULL;
    for (const struct gk_json *value = NULL; (value = gk_json_next(json, &cursor, &key));) {
        bool is_text = strcmp(key, "doc") == 0 || strcmp(key, "why") == 0;
        bool known = is_text;
        for (size_t i = 0; !known && allowed[i]; i++) {
            known = strcmp(allowed[i], key) == 0;
        }
        if (!known) {
            char words[512];
            list_words(allowed, words, sizeof words);
            gk_reader_fail(r, NULL, GK_INPUT, "unknown key \"%.60s\"; allowed: %s, doc, why", key,
                           words);
        } else if (is_text && !gk_json_is(value, GK_JSON_STRING)) {
            gk_reader_fail(r, key, GK_INPUT, "%s; text is allowed",
                           gk_json_type_name(gk_json_type(value)));
        }
    }
    return true;
}

/* Reports a member that is missing or of another type than the one allowed. */
static void report_member(struct gk_reader *r, const struct gk_json *value, const char *key,
                          const char *allowed)
{
    if (!value) {
        gk_reader_fail(r, NULL, GK_INPUT, "\"%s\" is missing; %s is needed", key, allowed);
        return;
    }
    char shown[GK_JSON_SHOW_SIZE];
    gk_json_show(value, shown);
    gk_reader_fail(r, key, GK_INPUT, "%s; %s is allowed", shown, allowed);
}

const char *gk_read_text(struct gk_reader *r, const struct gk_json *object, const char *key,
                         size_t max, bool required)
{
    const struct gk_json *value = gk_json_get(object, key);
    if (!value && !required) {
        return NULL;
    }
    if (!gk_json_is(value, GK_JSON_STRING)) {
        report_member(r, value, key, "text");
        return NULL;
    }
    const char *text = gk_json_string(value, "");
    if (text[0] == '\0' || strlen(text) > max) {
        gk_reader_fail(r, key, GK_LIMIT, "text of %zu bytes; 1 to %zu are allowed", strlen(text),
                       max);
        return NULL;
    }
    return text;
}

char *gk_read_doc(struct gk_reader *r, const struct gk_json *object)
{
    const char *text = gk_json_get_string(object, "why", NULL);
    text = text ? text : gk_json_get_string(object, "doc", NULL);
    if (!text) {
        return NULL;
    }
    char *copy = gk_strdup(text);
    if (!copy) {
        gk_reader_fail(r, NULL, GK_NOMEM, "out of memory");
    }
    return copy;
}

bool gk_plain_name(const char *text)
{
    return gk_is_name(text) && !strchr(text, '.');
}

bool gk_read_name(struct gk_reader *r, const struct gk_json *object, const char *key, size_t max,
                  char *name_out)
{
    const struct gk_json *value = gk_json_get(object, key);
    if (!gk_json_is(value, GK_JSON_STRING)) {
        report_member(r, value, key, "a name");
        return false;
    }
    const char *text = gk_json_string(value, "");
    if (!gk_plain_name(text) || strlen(text) >= max) {
        gk_reader_fail(r, key, GK_INPUT,
                       "\"%.80s\" is no name; letters, digits and '_', not beginning with a digit, "
                       "of 1 to %zu bytes are allowed",
                       text, max - 1);
        return false;
    }
    memcpy(name_out, text, strlen(text) + 1);
    return true;
}

bool gk_read_bool(struct gk_reader *r, const struct gk_json *object, const char *key, bool fallback)
{
    const struct gk_json *value = gk_json_get(object, key);
    if (value && !gk_json_is(value, GK_JSON_BOOL)) {
        report_member(r, value, key, "true or false");
    }
    return gk_json_bool(value, fallback);
}

const struct gk_json *gk_read_list(struct gk_reader *r, const struct gk_json *object,
                                   const char *key, size_t min, size_t max, bool required)
{
    const struct gk_json *value = gk_json_get(object, key);
    if (!value && !required) {
        return NULL;
    }
    if (!gk_json_is(value, GK_JSON_ARRAY)) {
        report_member(r, value, key, "a list");
        return NULL;
    }
    size_t count = gk_json_count(value);
    if (count < min || count > max) {
        if (min == max) {
            gk_reader_fail(r, key, GK_LIMIT, "a list of %zu; exactly %zu are allowed", count, min);
        } else {
            gk_reader_fail(r, key, GK_LIMIT, "a list of %zu; %zu to %zu entries are allowed", count,
                           min, max);
        }
        return NULL;
    }
    return value;
}

int gk_read_choice(struct gk_reader *r, const struct gk_json *object, const char *key,
                   const char *const *choices, int fallback)
{
    const struct gk_json *value = gk_json_get(object, key);
    if (!value && fallback >= 0) {
        return fallback;
    }
    const char *text = gk_json_string(value, NULL);
    for (int i = 0; text && choices[i]; i++) {
        if (strcmp(choices[i], text) == 0) {
            return i;
        }
    }
    char words[512], allowed[560];
    list_words(choices, words, sizeof words);
    (void)snprintf(allowed, sizeof allowed, "one of %s", words); /* fits: 8 + 512 */
    report_member(r, value, key, allowed);
    return fallback;
}

/* ------------------------------------------------------------------ expressions */

struct gk_expr *gk_read_expr_value(struct gk_reader *r, const struct gk_json *value,
                                   const char *key, const struct gk_scope *scope,
                                   enum gk_wanted wanted)
{
    char number[40];
    const char *text = gk_json_string(value, NULL);
    if (gk_json_is(value, GK_JSON_INT)) {
        (void)snprintf(number, sizeof number, "%" PRId64, gk_json_int(value, 0)); /* 20 bytes */
        text = number;
    } else if (gk_json_is(value, GK_JSON_REAL)) {
        char real[32];
        gk_real_text(gk_json_real(value, 0), real);
        (void)snprintf(number, sizeof number, "real(%s)",
                       real); /* 2.0 is a real, though shown "2" */
        text = number;
    } else if (gk_json_is(value, GK_JSON_BOOL)) {
        text = gk_json_bool(value, false) ? "1" : "0";
    } else if (!text) {
        report_member(r, value, key, "an expression (text or a number)");
        return NULL;
    }
    struct gk_expr *expr = NULL;
    struct gk_err err = {0};
    enum gk_status status = gk_expr_compile(text, scope, &expr, &err);
    if (status != GK_OK) {
        bool asks_k = strstr(text, "k.") && !gk_scope_find(scope, "k.regs");
        gk_reader_fail(r, key, status, "%s%s", err.text,
                       asks_k ? " (k.* is known in after_compile and grids only)" : "");
        return NULL;
    }
    if (wanted == GK_WANT_INT && gk_expr_type(expr) != GK_VALUE_INT) {
        gk_reader_fail(r, key, GK_INPUT, "\"%.200s\" is real; an integer expression is allowed",
                       text);
        gk_expr_destroy(expr);
        return NULL;
    }
    return expr;
}

struct gk_expr *gk_read_expr(struct gk_reader *r, const struct gk_json *object, const char *key,
                             const struct gk_scope *scope, enum gk_wanted wanted, bool required)
{
    const struct gk_json *value = gk_json_get(object, key);
    if (!value && !required) {
        return NULL;
    }
    if (!value) {
        report_member(r, value, key, "an expression");
        return NULL;
    }
    return gk_read_expr_value(r, value, key, scope, wanted);
}

uint32_t gk_read_exprs(struct gk_reader *r, const struct gk_json *object, const char *key,
                       const struct gk_scope *scope, uint32_t min, uint32_t max, bool required,
                       struct gk_expr **out)
{
    const struct gk_json *list = gk_read_list(r, object, key, min, max, required);
    uint32_t count = (uint32_t)gk_json_count(list);
    for (uint32_t i = 0; i < count; i++) {
        size_t mark = gk_reader_enter(r, "%s[%" PRIu32 "]", key, i);
        out[i] = gk_read_expr_value(r, gk_json_at(list, i), NULL, scope, GK_WANT_INT);
        gk_reader_leave(r, mark);
    }
    return count;
}

/* ------------------------------------------------------------------ rules */

void gk_rules_add(struct gk_reader *r, struct gk_rule_list *list, const char *name, char *doc,
                  struct gk_expr *expr, bool is_constraint, uint32_t slot)
{
    struct gk_rule *rules = NULL;
    if (list->count >= GK_RULES_MAX) {
        gk_reader_fail(r, NULL, GK_LIMIT, "more than %d derived names and constraints",
                       GK_RULES_MAX);
    } else if (!(rules = realloc(list->rules, (list->count + 1) * sizeof *rules))) {
        gk_reader_fail(r, NULL, GK_NOMEM, "out of memory");
    }
    if (!rules) {
        gk_expr_destroy(expr);
        free(doc);
        return;
    }
    list->rules = rules;
    struct gk_rule *rule = &rules[list->count++];
    memset(rule, 0, sizeof *rule);
    (void)snprintf(rule->name, sizeof rule->name, "%s", name); /* names are checked before */
    rule->doc = doc;
    rule->expr = expr;
    rule->is_constraint = is_constraint;
    rule->slot = slot;
}

void gk_rules_free(struct gk_rule *rules, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        gk_expr_destroy(rules[i].expr);
        free(rules[i].doc);
    }
    free(rules);
}

static void read_derived(struct gk_reader *r, const struct gk_json *object, struct gk_scope *scope,
                         struct gk_rule_list *list)
{
    static const char *const keys[] = {"name", "expr", NULL};
    const struct gk_json *entries = gk_read_list(r, object, "derived", 0, GK_RULES_MAX, false);
    for (uint32_t i = 0; i < gk_json_count(entries); i++) {
        const struct gk_json *entry = gk_json_at(entries, i);
        size_t mark = gk_reader_enter(r, "derived[%" PRIu32 "]", i);
        char name[GK_NAME_MAX];
        if (gk_read_keys(r, entry, keys) && gk_read_name(r, entry, "name", sizeof name, name)) {
            (void)gk_reader_enter(r, "(%s)", name);
            struct gk_expr *expr = gk_read_expr(r, entry, "expr", scope, GK_WANT_REAL, true);
            /* A name whose expression is wrong still exists, so that one mistake is one message. */
            enum gk_value_type type = expr ? gk_expr_type(expr) : GK_VALUE_INT;
            uint32_t slot = 0;
            struct gk_err err = {0};
            enum gk_status status = gk_scope_add(scope, name, type, NULL, 0, &slot, &err);
            if (status != GK_OK) {
                gk_reader_fail(r, "name", status, "%s", err.text);
                gk_expr_destroy(expr);
            } else if (expr) {
                gk_rules_add(r, list, name, gk_read_doc(r, entry), expr, false, slot);
            }
        }
        gk_reader_leave(r, mark);
    }
}

static bool has_constraint(const struct gk_rule_list *list, const char *name)
{
    for (uint32_t i = 0; i < list->count; i++) {
        if (list->rules[i].is_constraint && strcmp(list->rules[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

static void read_constraint(struct gk_reader *r, const struct gk_json *entry,
                            const struct gk_scope *scope, struct gk_rule_list *list)
{
    char name[GK_NAME_MAX];
    if (!gk_read_name(r, entry, "name", sizeof name, name)) {
        return;
    }
    (void)gk_reader_enter(r, "(%s)", name); /* the caller leaves */
    if (has_constraint(list, name)) {
        gk_reader_fail(r, "name", GK_EXISTS, "a second constraint \"%s\"; names are unique", name);
        return;
    }
    if (!gk_json_get(entry, "why")) {
        gk_reader_fail(r, NULL, GK_INPUT,
                       "\"why\" is missing; a reason people can act on is needed");
    }
    struct gk_expr *expr = gk_read_expr(r, entry, "expr", scope, GK_WANT_INT, true);
    if (expr) {
        gk_rules_add(r, list, name, gk_read_doc(r, entry), expr, true, 0);
    }
}

/* The constraints that carry "early": true, or those that do not. */
static void read_constraints(struct gk_reader *r, const struct gk_json *object,
                             const struct gk_scope *scope, bool early, struct gk_rule_list *list)
{
    static const char *const keys[] = {"name", "expr", "early", NULL};
    const struct gk_json *entries = gk_json_get(object, "constraints");
    if (early) { /* reported in the first pass only */
        entries = gk_read_list(r, object, "constraints", 0, GK_RULES_MAX, false);
    }
    for (uint32_t i = 0; gk_json_is(entries, GK_JSON_ARRAY) && i < gk_json_count(entries); i++) {
        const struct gk_json *entry = gk_json_at(entries, i);
        size_t mark = gk_reader_enter(r, "constraints[%" PRIu32 "]", i);
        bool is_early = gk_json_get_bool(entry, "early", false);
        bool usable = gk_json_is(entry, GK_JSON_OBJECT);
        if (early) {
            usable = gk_read_keys(r, entry, keys);
            (void)gk_read_bool(r, entry, "early", false); /* for its message */
        }
        if (usable && is_early == early) {
            read_constraint(r, entry, scope, list);
        }
        gk_reader_leave(r, mark);
    }
}

void gk_read_rules(struct gk_reader *r, const struct gk_json *object, struct gk_scope *scope,
                   struct gk_rule_list *list)
{
    read_constraints(r, object, scope, true, list);
    read_derived(r, object, scope, list);
    read_constraints(r, object, scope, false, list);
}
