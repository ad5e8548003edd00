/* Small pieces of C text for headers: names, literals, expressions. */
#include "cli/export_model.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static bool is_word(const char *name)
{
    static const char *const words[] = {
        "alignas",   "alignof",  "and",      "asm",      "auto",     "bool",      "break",
        "case",      "catch",    "char",     "class",    "const",    "constexpr", "continue",
        "decltype",  "default",  "delete",   "do",       "double",   "else",      "enum",
        "explicit",  "export",   "extern",   "false",    "float",    "for",       "friend",
        "goto",      "if",       "inline",   "int",      "long",     "mutable",   "namespace",
        "new",       "noexcept", "not",      "nullptr",  "operator", "or",        "private",
        "protected", "public",   "register", "restrict", "return",   "short",     "signed",
        "sizeof",    "static",   "struct",   "switch",   "template", "this",      "throw",
        "true",      "try",      "typedef",  "typeid",   "typename", "union",     "unsigned",
        "using",     "virtual",  "void",     "volatile", "while",    "xor"};
    for (size_t i = 0; i < GK_ARRAY_COUNT(words); i++) {
        if (strcmp(words[i], name) == 0) {
            return true;
        }
    }
    return false;
}

void export_name(const char *name, struct gk_buf *out)
{
    for (const char *p = name; *p; p++) {
        gk_buf_putc(out, isalnum((unsigned char)*p) ? *p : '_');
    }
    if (is_word(name)) {
        gk_buf_putc(out, '_');
    }
}

void export_upper(const char *name, struct gk_buf *out)
{
    for (const char *p = name; *p; p++) {
        gk_buf_putc(out, isalnum((unsigned char)*p) ? (char)toupper((unsigned char)*p) : '_');
    }
}

void export_quoted(const char *text, struct gk_buf *out)
{
    gk_buf_putc(out, '"');
    for (const char *p = text; *p; p++) {
        if (*p == '\n') {
            gk_buf_puts(out, "\\n");
        } else if (*p == '"' || *p == '\\') {
            gk_buf_printf(out, "\\%c", *p);
        } else if (*p == '?') {
            gk_buf_puts(out, "\\?"); /* never a trigraph */
        } else if ((unsigned char)*p < 0x20) {
            gk_buf_printf(out, "\\%03o", (unsigned)(unsigned char)*p);
        } else {
            gk_buf_putc(out, *p);
        }
    }
    gk_buf_putc(out, '"');
}

/* ------------------------------------------------------------------ expressions */

/* Where a name's value stands in the generated functions: p problem, o derived of the op, d device,
 * c config, v derived of the template, k facts known after compiling. */
struct names {
    const struct gk_op *op;
    const struct gk_template *t;
    struct gk_buf text;
    const char *left_out; /* a name that C cannot have; NULL: none was met */
};

static const struct gk_field *field_of(const struct gk_op *op, const char *name)
{
    size_t size = strcspn(name, "."); /* kv_len.max is an aggregate of field kv_len */
    for (uint32_t i = 0; i < op->fields.field_count; i++) {
        const char *field = op->fields.fields[i].name;
        if (strlen(field) == size && strncmp(field, name, size) == 0) {
            return &op->fields.fields[i];
        }
    }
    return NULL;
}

static void field_text(struct names *names, const struct gk_field *field, const char *name)
{
    struct gk_buf *out = &names->text;
    bool cast = field->type == GK_FIELD_ENUM || field->type == GK_FIELD_BOOL;
    gk_buf_puts(out, cast ? "(int64_t)p->" : "p->");
    export_name(field->name, out);
    if (field->type == GK_FIELD_INTS) {
        const char *dot = strchr(name, '.');
        gk_buf_puts(out, dot ? dot : ".count");
    }
}

static const char *symbol_text(void *context, const struct gk_symbol *symbol)
{
    struct names *names = context;
    struct gk_buf *out = &names->text;
    gk_buf_reset(out);
    const struct gk_field *field = field_of(names->op, symbol->name);
    const struct gk_symbol *of_op = gk_scope_find(names->op->fields.scope, symbol->name);
    if (field) {
        field_text(names, field, symbol->name);
    } else if (strncmp(symbol->name, "dev.", 4) == 0) {
        gk_buf_printf(out, "d->%s", symbol->name + 4);
    } else if (strncmp(symbol->name, "k.", 2) == 0) {
        gk_buf_printf(out, "k->%s", symbol->name + 2);
    } else if (of_op) {
        if (!export_has(names->op, of_op->slot)) {
            names->left_out = symbol->name;
            return NULL;
        }
        gk_buf_puts(out, "o->");
        export_name(symbol->name, out);
    } else {
        bool param = false;
        for (uint32_t i = 0; names->t && i < names->t->param_count; i++) {
            param |= strcmp(names->t->params[i].name, symbol->name) == 0;
        }
        gk_buf_puts(out, param ? "(int64_t)c->" : "v->");
        export_name(symbol->name, out);
    }
    return out->failed ? NULL : gk_buf_text(out);
}

enum gk_status export_expr(const struct gk_op *op, const struct gk_template *t,
                           const struct gk_expr *expr, const struct gk_scope *scope,
                           struct gk_buf *out, struct gk_err *err)
{
    struct names names = {.op = op, .t = t};
    const struct gk_expr_c c = {symbol_text, &names};
    enum gk_status status = gk_expr_render_c(expr, scope, &c, out, err);
    if (names.left_out) {
        status = gk_fail(err, GK_UNSUPPORTED,
                         "%s is made of single values of a list, which an engine's C has not: what "
                         "is exported may not depend on it",
                         names.left_out);
    }
    gk_buf_fini(&names.text);
    return status;
}

/* Sums over a list's single values serve flops and priors, which are not exported. Rules depend on
 * those before them alone, so this ends. */
bool export_has(const struct gk_op *op, uint32_t slot)
{
    for (uint32_t i = 0; i < op->fields.rule_count; i++) {
        const struct gk_rule *rule = &op->fields.rules[i];
        if (!rule->is_constraint && rule->slot == slot) {
            struct gk_buf text = {0};
            enum gk_status status =
                export_expr(op, NULL, rule->expr, op->fields.scope, &text, NULL);
            gk_buf_fini(&text);
            return status != GK_UNSUPPORTED;
        }
    }
    return true;
}
