/*
 * Macros: what a launch's source is compiled with, and that no two of them collide.
 *
 * One walk (`walk_macros`) names every macro; the defines of a problem and the check at load time
 * both follow it, so that what was checked is what is defined.
 */
#include "kernels/catalog_internal.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

const char *gk_dtype_cpp(enum gk_dtype dtype)
{
    static const char *const types[GK_DTYPE_COUNT] = {
        [GK_BF16] = "gk::bf16",   [GK_F16] = "gk::f16",   [GK_E4M3] = "gk::e4m3",
        [GK_F32] = "float",       [GK_F64] = "double",    [GK_I8] = "signed char",
        [GK_I32] = "int",         [GK_I64] = "long long", [GK_U8] = "unsigned char",
        [GK_U32] = "unsigned int"};
    return types[dtype];
}

void gk_macro_word(const char *name, struct gk_buf *buf)
{
    for (; *name; name++) {
        unsigned char c = (unsigned char)*name;
        gk_buf_putc(buf, isalnum(c) ? (char)toupper(c) : '_');
    }
}

/* ------------------------------------------------------------------ the list of defines */

struct defines {
    char **texts;
    uint32_t count;
    uint32_t capacity;
    bool failed;
};

/* Takes the text. */
static void defines_add(struct defines *list, char *text)
{
    if (text && list->count == list->capacity) {
        uint32_t capacity = list->capacity ? 2 * list->capacity : 32;
        char **texts = realloc(list->texts, capacity * sizeof *texts);
        if (texts) {
            list->texts = texts;
            list->capacity = capacity;
        }
    }
    if (!text || list->count == list->capacity) {
        free(text);
        list->failed = true;
        return;
    }
    list->texts[list->count++] = text;
}

/* NAME, NAME_WORD=value: `value` NULL leaves the define away but keeps the name for the check. */
static void add_word(struct defines *list, const char *macro, const char *word, const char *value)
{
    struct gk_buf buf = {0};
    gk_buf_puts(&buf, macro);
    if (word) {
        gk_buf_putc(&buf, '_');
        gk_macro_word(word, &buf);
    }
    gk_buf_printf(&buf, "=%s", value);
    defines_add(list, gk_buf_detach(&buf));
}

static void add_int(struct defines *list, const char *macro, const char *word, int64_t value)
{
    char *text = value < 0 ? gk_asprintf("(%" PRId64 ")", value) : gk_asprintf("%" PRId64, value);
    if (value == INT64_MIN) { /* its digits alone do not fit a C++ literal */
        free(text);
        text = gk_strdup("(-9223372036854775807-1)");
    }
    if (text) {
        add_word(list, macro, word, text);
    } else {
        list->failed = true;
    }
    free(text);
}

static void add_real(struct defines *list, const char *macro, double value)
{
    char digits[32];
    gk_real_text(value, digits);
    const char *tail = strpbrk(digits, ".e") ? "" : ".0"; /* a double in C++ too */
    char *text = gk_asprintf(value < 0 ? "(%s%s)" : "%s%s", digits, tail);
    if (text) {
        add_word(list, macro, NULL, text);
    } else {
        list->failed = true;
    }
    free(text);
}

/* ------------------------------------------------------------------ one walk over all macros */

/* With a problem: its defines. Without: every name that any problem may define. */
struct walk {
    const struct gk_op *op;
    const struct gk_template *t;  /* NULL: the reference */
    const union gk_value *fields; /* NULL: names only */
    const int64_t *params;        /* NULL: names only */
    uint32_t param_mask;
    uint32_t arch;
    struct defines *list;
};

static void walk_dtype(const struct walk *w, const struct gk_field *field, const char *macro)
{
    for (uint32_t i = 0; i < field->value_count; i++) {
        bool chosen = w->fields && w->fields[field->slot].i == (int64_t)i;
        enum gk_dtype dtype = GK_BF16;
        if (w->fields && !chosen) {
            continue;
        }
        (void)gk_dtype_from_name(field->values[i], &dtype); /* checked when the field was read */
        add_word(w->list, macro, field->values[i], "1");
        if (chosen) {
            add_word(w->list, macro, NULL, w->t ? w->t->dtype_macros[dtype] : gk_dtype_cpp(dtype));
        }
    }
    if (!w->fields) {
        add_word(w->list, macro, NULL, "");
    }
}

static void walk_field(const struct walk *w, uint32_t index)
{
    const struct gk_field *field = &w->op->fields.fields[index];
    bool baked = w->t && (w->t->bake_mask >> index & 1) != 0;
    const union gk_value zero = {.i = 0};
    const union gk_value *value = w->fields ? &w->fields[field->slot] : &zero;
    struct gk_buf macro = {0};
    gk_buf_puts(&macro, w->t ? w->t->macro_prefix : "GK_");
    gk_macro_word(field->name, &macro);
    const char *name = gk_buf_text(&macro);
    if (field->is_dtype) {
        walk_dtype(w, field, name);
    } else if (field->type == GK_FIELD_ENUM) {
        add_int(w->list, name, NULL, value->i);
        for (uint32_t i = 0; i < field->value_count; i++) {
            add_int(w->list, name, field->values[i], i);
        }
    } else if (field->type == GK_FIELD_BOOL || (field->type == GK_FIELD_INT && baked)) {
        add_int(w->list, name, NULL, value->i);
    } else if (field->type == GK_FIELD_REAL && baked) {
        add_real(w->list, name, w->fields ? value->r : 0);
    }
    w->list->failed = w->list->failed || macro.failed;
    gk_buf_fini(&macro);
}

static void walk_macros(const struct walk *w)
{
    struct gk_buf arch = {0};
    gk_buf_printf(&arch, "%sARCH", w->t ? w->t->macro_prefix : "GK_");
    add_int(w->list, gk_buf_text(&arch), NULL, w->arch);
    w->list->failed = w->list->failed || arch.failed;
    gk_buf_fini(&arch);
    for (uint32_t i = 0; i < w->op->fields.field_count; i++) {
        walk_field(w, i);
    }
    for (uint32_t i = 0; w->t && i < w->t->param_count; i++) {
        const struct gk_param *param = &w->t->params[i];
        if ((w->param_mask >> i & 1) == 0) {
            continue;
        }
        add_int(w->list, param->macro, NULL, w->params ? w->params[i] : 0);
        for (uint32_t k = 0; param->names && k < param->value_count; k++) {
            add_int(w->list, param->macro, param->names[k], k);
        }
    }
}

static int compare_texts(const void *a, const void *b)
{
    const char *const *x = a, *const *y = b;
    return strcmp(*x, *y);
}

/* ------------------------------------------------------------------ at load time */

static bool is_cpp_word(const char *name)
{
    static const char *const words[] = {
        "alignas",  "alignof",  "asm",      "auto",    "bool",      "break",     "case",
        "catch",    "char",     "class",    "const",   "constexpr", "continue",  "decltype",
        "default",  "defined",  "delete",   "do",      "double",    "else",      "enum",
        "explicit", "extern",   "false",    "float",   "for",       "friend",    "goto",
        "if",       "inline",   "int",      "long",    "mutable",   "namespace", "new",
        "noexcept", "nullptr",  "operator", "private", "protected", "public",    "register",
        "return",   "short",    "signed",   "sizeof",  "static",    "struct",    "switch",
        "template", "this",     "throw",    "true",    "try",       "typedef",   "typename",
        "union",    "unsigned", "using",    "virtual", "void",      "volatile",  "while"};
    for (size_t i = 0; i < GK_ARRAY_COUNT(words); i++) {
        if (strcmp(words[i], name) == 0) {
            return true;
        }
    }
    return false;
}

static int compare_macros(const char *a, const char *b)
{
    size_t x = strcspn(a, "="), y = strcspn(b, "=");
    int order = memcmp(a, b, x < y ? x : y);
    return order ? order : (x > y) - (x < y);
}

static int compare_names(const void *a, const void *b)
{
    return compare_macros(*(const char *const *)a, *(const char *const *)b);
}

void gk_macros_check(struct gk_reader *r, const struct gk_op *op, const struct gk_template *t)
{
    struct defines list = {0};
    const struct walk w = {.op = op, .t = t, .param_mask = UINT32_MAX, .list = &list};
    walk_macros(&w);
    if (list.count > 0) {
        qsort(list.texts, list.count, sizeof *list.texts, compare_names);
    }
    for (uint32_t i = 0; i < list.count; i++) {
        int size = (int)strcspn(list.texts[i], "=");
        list.texts[i][size] = '\0'; /* the name alone; compare_macros() takes both forms */
        if (is_cpp_word(list.texts[i])) {
            gk_reader_fail(r, NULL, GK_INPUT,
                           "macro \"%s\" is a word of C++; give the parameter another \"macro\"",
                           list.texts[i]);
        }
        bool first = i + 1 < list.count && compare_macros(list.texts[i], list.texts[i + 1]) == 0;
        bool told = i > 0 && compare_macros(list.texts[i - 1], list.texts[i]) == 0;
        if (first && !told) {
            gk_reader_fail(
                r, NULL, GK_EXISTS,
                "macro \"%s\" would be defined twice; fields, parameters and their values "
                "need macros of their own",
                list.texts[i]);
        }
    }
    if (list.failed) {
        gk_reader_fail(r, NULL, GK_NOMEM, "out of memory");
    }
    gk_defines_free(list.texts, list.count);
}

/* ------------------------------------------------------------------ for a trial */

enum gk_status gk_catalog_defines(const struct gk_op *op, const struct gk_template *template_,
                                  uint32_t launch_index, const struct gk_problem *problem,
                                  const struct gk_config *config, const char *target,
                                  char ***defines_out, uint32_t *count_out, struct gk_err *err)
{
    uint32_t arch = gk_target_arch(target);
    if (arch == 0) {
        return gk_fail(err, GK_INPUT, "\"%s\" is no target; sm_80, sm_90a, ... are", target);
    }
    if (template_ && launch_index >= template_->launch_count) {
        return gk_fail(err, GK_INPUT, "template \"%s\" has no launch %" PRIu32, template_->name,
                       launch_index);
    }
    struct defines list = {0};
    const struct walk w = {.op = op,
                           .t = template_,
                           .fields = problem->slots,
                           .params = config ? config->values : NULL,
                           .param_mask =
                               template_ ? template_->launches[launch_index].param_mask : 0,
                           .arch = arch,
                           .list = &list};
    walk_macros(&w);
    if (list.failed) {
        gk_defines_free(list.texts, list.count);
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    qsort(list.texts, list.count, sizeof *list.texts, compare_texts);
    *defines_out = list.texts;
    *count_out = list.count;
    return GK_OK;
}

void gk_defines_free(char **defines, uint32_t count)
{
    for (uint32_t i = 0; defines && i < count; i++) {
        free(defines[i]);
    }
    free(defines);
}
