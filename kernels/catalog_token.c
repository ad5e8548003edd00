/*
 * Tokens and #include lines of one source file.
 *
 * Two files with the same tokens compile to the same code, so identity is a hash over tokens:
 * comments, white space and line continuations do not count, while strings, character constants and
 * raw strings count byte by byte. Where the preprocessor does see white space, so do we: the end of
 * a directive is a token of its own, and `#define F(x)` differs from `#define F (x)`. (What a
 * macro's # operator makes of white space, and __LINE__, are the known exceptions; docs/formats.md
 * says so.)
 *
 * Works on any bytes, always ends, and never reads past the text.
 */
#include "kernels/catalog_internal.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define INCLUDES_MAX 128 /* #include lines of one file */

/* A directive's state: what has been seen of "# define NAME" or "# include <...>". */
enum directive { NONE, HASH, DEFINE, DEFINE_NAME, INCLUDE, OTHER };

struct scanner {
    struct gk_source *source;
    const char *at, *end;
    uint32_t line;
    bool line_start; /* only white space and comments since the last new line */
    enum directive directive;
    struct gk_buf token;
    struct gk_hasher hasher;
    struct gk_err *err;
    enum gk_status status;
};

/* Bytes of a line continuation at p: a backslash and the end of its line; else 0. */
static size_t splice(const char *p, const char *end)
{
    if (p >= end || *p != '\\') {
        return 0;
    }
    if (p + 1 < end && p[1] == '\n') {
        return 2;
    }
    return p + 2 < end && p[1] == '\r' && p[2] == '\n' ? 3 : 0;
}

static void skip_splices(struct scanner *s)
{
    for (size_t size = 0; (size = splice(s->at, s->end)) > 0; s->at += size) {
        s->line++;
    }
}

/* The character after the present one, continuations taken out; 0 at the end. */
static char peek_second(const struct scanner *s)
{
    const char *p = s->at + 1;
    for (size_t size = 0; p < s->end && (size = splice(p, s->end)) > 0;) {
        p += size;
    }
    return p < s->end ? *p : '\0';
}

static char peek(struct scanner *s)
{
    skip_splices(s);
    return s->at < s->end ? *s->at : '\0';
}

static void take(struct scanner *s)
{
    gk_buf_putc(&s->token, *s->at);
    s->at++;
}

static void emit_text(struct scanner *s, const char *text, size_t size)
{
    gk_hasher_part(&s->hasher, text, size);
}

static void emit(struct scanner *s)
{
    emit_text(s, gk_buf_text(&s->token), s->token.size);
    if (s->token.failed) { /* before the reset forgets it */
        s->status = gk_buf_status(&s->token, s->err);
    }
    gk_buf_reset(&s->token);
}

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '$' || (unsigned char)c >= 0x80;
}

/* ------------------------------------------------------------------ pieces */

static void skip_line_comment(struct scanner *s)
{
    while (s->at < s->end && peek(s) != '\n' && s->at < s->end) {
        s->at++;
    }
}

static void skip_block_comment(struct scanner *s)
{
    s->at++; /* the '/', then the '*' with what lies between them */
    skip_splices(s);
    s->at++;
    while (s->at < s->end) {
        if (peek(s) == '*' && peek_second(s) == '/') {
            s->at++;
            skip_splices(s);
            s->at++;
            return;
        }
        if (s->at < s->end) {
            s->line += *s->at == '\n';
            s->at++;
        }
    }
}

/* "..." or '...': up to the closing quote or the end of the line. */
static void take_quoted(struct scanner *s, char quote)
{
    take(s);
    while (s->at < s->end) {
        char c = peek(s);
        if (s->at >= s->end || c == '\n') {
            return; /* unterminated: the compiler will say so */
        }
        take(s);
        if (c == quote) {
            return;
        }
        if (c == '\\' && s->at < s->end && peek(s) != '\n' && s->at < s->end) {
            take(s);
        }
    }
}

/* R"delimiter( ... )delimiter": continuations and comments mean nothing inside. */
static void take_raw_string(struct scanner *s)
{
    const char *open = memchr(s->at, '(', (size_t)(s->end - s->at));
    size_t delimiter = open ? (size_t)(open - s->at) - 1 : 0; /* after the quote */
    if (!open || delimiter > 16) {
        take_quoted(s, '"');
        return;
    }
    const char *name = s->at + 1, *p = open + 1;
    for (; p < s->end; p++) {
        if (*p == ')' && (size_t)(s->end - p) > delimiter + 1 &&
            memcmp(p + 1, name, delimiter) == 0 && p[1 + delimiter] == '"') {
            p += delimiter + 2;
            break;
        }
    }
    for (const char *q = s->at; q < p; q++) {
        s->line += *q == '\n';
    }
    gk_buf_add(&s->token, s->at, (size_t)(p - s->at));
    s->at = p;
}

/* A number by the preprocessor's rule: digits, letters, '.', ' between digits, exponents with
 * signs. */
static void take_number(struct scanner *s)
{
    char last = '\0';
    while (s->at < s->end) {
        char c = peek(s);
        bool exponent = (c == '+' || c == '-') && last != '\0' && strchr("eEpP", last);
        bool separator = c == '\'' && is_word(peek_second(s));
        if (s->at >= s->end || !(is_word(c) || c == '.' || exponent || separator)) {
            return;
        }
        take(s);
        last = c;
    }
}

static void take_word(struct scanner *s)
{
    while (s->at < s->end && is_word(peek(s)) && s->at < s->end) {
        take(s);
    }
}

static bool is_raw_prefix(const char *word)
{
    return strcmp(word, "R") == 0 || strcmp(word, "u8R") == 0 || strcmp(word, "uR") == 0 ||
           strcmp(word, "UR") == 0 || strcmp(word, "LR") == 0;
}

/* ------------------------------------------------------------------ includes */

static void add_include(struct scanner *s, const char *name, size_t size, bool quoted)
{
    struct gk_source *source = s->source;
    if (source->include_count >= INCLUDES_MAX) {
        s->status = gk_fail(s->err, GK_LIMIT, "line %u: more than %d #include lines", s->line,
                            INCLUDES_MAX);
        return;
    }
    struct gk_include *grown =
        realloc(source->includes, (source->include_count + 1) * sizeof *grown);
    char *copy = grown ? gk_strndup(name, size) : NULL;
    source->includes = grown ? grown : source->includes;
    if (!copy) {
        s->status = gk_fail(s->err, GK_NOMEM, "out of memory");
        return;
    }
    source->includes[source->include_count++] =
        (struct gk_include){.name = copy, .quoted = quoted, .line = s->line};
}

/* After "#include": a name in quotes or angle brackets; a macro cannot be followed. */
static void scan_include(struct scanner *s)
{
    char open = peek(s);
    char close = open == '<' ? '>' : '"';
    if (s->at >= s->end || (open != '<' && open != '"')) {
        s->status =
            gk_fail(s->err, GK_INPUT,
                    "line %u: #include of a macro; a name in \"\" or <> is allowed, so that "
                    "the file can travel with the source",
                    s->line);
        return;
    }
    take(s);
    while (s->at < s->end && peek(s) != close && s->at < s->end && *s->at != '\n') {
        take(s);
    }
    if (s->at < s->end && *s->at == close) {
        take(s);
        add_include(s, gk_buf_text(&s->token) + 1, s->token.size - 2, open == '"');
    }
    emit(s);
    s->directive = OTHER;
}

/* ------------------------------------------------------------------ the walk */

static void end_line(struct scanner *s)
{
    if (s->directive != NONE) {
        emit_text(s, "\n", 1);
    }
    s->directive = NONE;
    s->line_start = true;
}

static void scan_word(struct scanner *s)
{
    take_word(s);
    const char *word = gk_buf_text(&s->token);
    if (s->at < s->end && *s->at == '"' && is_raw_prefix(word)) {
        take_raw_string(s);
        emit(s);
        return;
    }
    bool includes =
        s->directive == HASH && (strcmp(word, "include") == 0 ||
                                 strcmp(word, "include_next") == 0 || strcmp(word, "import") == 0);
    bool defines = s->directive == HASH && strcmp(word, "define") == 0;
    bool named = s->directive == DEFINE;
    emit(s);
    if (includes) {
        s->directive = INCLUDE;
    } else if (defines) {
        s->directive = DEFINE;
    } else if (named) {
        /* A '(' that touches the name makes a macro with arguments. */
        emit_text(s, peek(s) == '(' && s->at < s->end ? "\x01" : "\x02", 1);
        s->directive = OTHER;
    } else if (s->directive == HASH) {
        s->directive = OTHER;
    }
}

static void scan_punctuation(struct scanner *s)
{
    /* One character a token would let "+ +" pass for "++": longest match over the pairs that exist,
     * and runs of the same token are told apart by their parts. */
    static const char *const pairs[] = {
        "++", "--", "->", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "+=", "-=", "*=",
        "/=", "%=", "&=", "|=", "^=", "::", "##", ".*", "<:", ":>", "<%", "%>", "%:"};
    char c = *s->at, next = peek_second(s);
    take(s);
    for (size_t i = 0; i < GK_ARRAY_COUNT(pairs); i++) {
        if (pairs[i][0] == c && pairs[i][1] == next) {
            skip_splices(s);
            take(s);
            break;
        }
    }
    if (c == '#' && s->line_start && s->token.size == 1) {
        s->directive = HASH;
    }
    emit(s);
}

static void scan_one(struct scanner *s)
{
    char c = peek(s);
    if (s->at >= s->end) {
        return;
    }
    char next = peek_second(s);
    if (c == '\n') {
        end_line(s);
        s->line++;
        s->at++;
    } else if (isspace((unsigned char)c)) {
        s->at++;
    } else if (c == '/' && next == '/') {
        skip_line_comment(s);
    } else if (c == '/' && next == '*') {
        skip_block_comment(s);
    } else if (s->directive == INCLUDE) {
        scan_include(s);
    } else {
        if (isdigit((unsigned char)c) || (c == '.' && isdigit((unsigned char)next))) {
            take_number(s);
            emit(s);
        } else if (is_word(c)) {
            scan_word(s);
        } else if (c == '"' || c == '\'') {
            take_quoted(s, c);
            emit(s);
        } else {
            scan_punctuation(s);
        }
        s->line_start = false;
    }
}

enum gk_status gk_source_scan(struct gk_source *source, struct gk_err *err)
{
    if (source->scanned) {
        return GK_OK;
    }
    struct scanner s = {.source = source,
                        .at = source->text,
                        .end = source->text + source->size,
                        .line = 1,
                        .line_start = true,
                        .err = err};
    gk_hasher_init(&s.hasher);
    while (s.at < s.end && s.status == GK_OK) {
        scan_one(&s);
    }
    end_line(&s);
    gk_buf_fini(&s.token);
    source->tokens = gk_hasher_final(&s.hasher);
    source->scanned = s.status == GK_OK;
    return s.status;
}
