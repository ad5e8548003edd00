/*
 * The PTX lexer: comments are skipped, numbers are turned into bits.
 */
#include "worker/emu/ptx_lexer.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static bool is_word_start(char c)
{
    return isalpha((unsigned char)c) || c == '_' || c == '$' || c == '%' || c == '.';
}

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '$' || c == '.' || c == '%';
}

static void skip_blanks(struct ptx_lexer *lexer)
{
    while (lexer->at < lexer->end) {
        if (*lexer->at == '\n') {
            lexer->line++;
            lexer->at++;
        } else if (isspace((unsigned char)*lexer->at)) {
            lexer->at++;
        } else if (lexer->at[0] == '/' && lexer->at[1] == '/') {
            while (lexer->at < lexer->end && *lexer->at != '\n') {
                lexer->at++;
            }
        } else if (lexer->at[0] == '/' && lexer->at[1] == '*') {
            lexer->at += 2;
            while (lexer->at < lexer->end && !(lexer->at[0] == '*' && lexer->at[1] == '/')) {
                lexer->line += *lexer->at == '\n';
                lexer->at++;
            }
            lexer->at += lexer->at < lexer->end ? 2 : 0;
        } else {
            return;
        }
    }
}

static enum gk_status read_hex_float(struct ptx_lexer *lexer, size_t digits, struct gk_err *err)
{
    uint64_t value = 0;
    size_t count = 0;

    lexer->at += 2;
    while (count < digits && isxdigit((unsigned char)*lexer->at)) {
        char c = *lexer->at;
        uint64_t digit =
            (uint64_t)(isdigit((unsigned char)c) ? c - '0' : tolower((unsigned char)c) - 'a' + 10);

        value = value << 4 | digit;
        lexer->at++;
        count++;
    }
    if (count != digits) {
        return gk_fail(err, GK_PARSE, "PTX line %u: a float constant has %zu hex digits, needs %zu",
                       lexer->line, count, digits);
    }
    lexer->token.value = value;
    lexer->token.kind = digits == 8 ? PTX_TOKEN_F32 : PTX_TOKEN_F64;
    return GK_OK;
}

static enum gk_status read_number(struct ptx_lexer *lexer, struct gk_err *err)
{
    const char *start = lexer->at;
    char *stop = NULL;
    size_t digits;

    if (start[0] == '0' && (start[1] == 'f' || start[1] == 'F')) {
        return read_hex_float(lexer, 8, err);
    }
    if (start[0] == '0' && (start[1] == 'd' || start[1] == 'D')) {
        return read_hex_float(lexer, 16, err);
    }
    digits = strspn(start, "0123456789");
    if (start[digits] == '.' || ((start[digits] | 32) == 'e' && start[1] != 'x')) {
        double real = strtod(start, &stop);

        memcpy(&lexer->token.value, &real, sizeof(real));
        lexer->token.kind = PTX_TOKEN_F64;
        lexer->at = stop;
        return GK_OK;
    }
    if (start[0] == '0' && (start[1] == 'b' || start[1] == 'B')) {
        lexer->token.value = strtoull(start + 2, &stop, 2);
    } else {
        lexer->token.value = strtoull(start, &stop, 0);
    }
    if (*stop == 'U') {
        stop++;
    }
    if (stop == start || is_word(*stop)) {
        return gk_fail(err, GK_PARSE, "PTX line %u: '%.16s' is not a number", lexer->line, start);
    }
    lexer->token.kind = PTX_TOKEN_INT;
    lexer->at = stop;
    return GK_OK;
}

static void read_word(struct ptx_lexer *lexer)
{
    bool directive = *lexer->at == '.';

    lexer->at++;
    while (lexer->at < lexer->end && !(directive && *lexer->at == '.')) { /* ".reg.b16" is two */
        if (is_word(*lexer->at)) {
            lexer->at++;
        } else if (lexer->at[0] == ':' && lexer->at[1] == ':') {
            lexer->at += 2;
        } else {
            break;
        }
    }
    lexer->token.kind = PTX_TOKEN_WORD;
}

enum gk_status ptx_lexer_next(struct ptx_lexer *lexer, struct gk_err *err)
{
    struct ptx_token *token = &lexer->token;
    enum gk_status status = GK_OK;

    skip_blanks(lexer);
    token->line = lexer->line;
    token->text = lexer->at;
    token->value = 0;
    if (lexer->at >= lexer->end) {
        token->kind = PTX_TOKEN_END;
        token->size = 0;
        return GK_OK;
    }
    if (isdigit((unsigned char)*lexer->at)) {
        status = read_number(lexer, err);
    } else if (is_word_start(*lexer->at)) {
        read_word(lexer);
    } else if (*lexer->at == '"') {
        const char *close = memchr(lexer->at + 1, '"', (size_t)(lexer->end - lexer->at) - 1);

        if (!close) {
            return gk_fail(err, GK_PARSE, "PTX line %u: a string does not end", lexer->line);
        }
        token->kind = PTX_TOKEN_STRING;
        token->text = lexer->at + 1;
        token->size = (size_t)(close - token->text);
        lexer->at = close + 1;
        return GK_OK;
    } else if (strchr("{}[]()<>,;:=+-!|@*~&^?/", *lexer->at)) {
        token->kind = PTX_TOKEN_PUNCT;
        lexer->at++;
    } else {
        return gk_fail(err, GK_PARSE, "PTX line %u: unexpected character 0x%02x", lexer->line,
                       (unsigned)(unsigned char)*lexer->at);
    }
    token->size = (size_t)(lexer->at - token->text);
    if (status == GK_OK && token->kind == PTX_TOKEN_WORD && token->size >= PTX_WORD_MAX) {
        return gk_fail(err, GK_LIMIT, "PTX line %u: a name of %zu characters, at most %d are read",
                       lexer->line, token->size, PTX_WORD_MAX - 1);
    }
    return status;
}

enum gk_status ptx_lexer_init(struct ptx_lexer *lexer, const char *text, size_t size,
                              struct gk_err *err)
{
    *lexer = (struct ptx_lexer){.at = text, .end = text + size, .line = 1};
    return ptx_lexer_next(lexer, err);
}

bool ptx_token_is(const struct ptx_token *token, const char *text)
{
    return (token->kind == PTX_TOKEN_WORD || token->kind == PTX_TOKEN_PUNCT) &&
           strlen(text) == token->size && memcmp(token->text, text, token->size) == 0;
}
