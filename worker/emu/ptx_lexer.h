/*
 * Tokens of PTX text. Words keep their dots and double colons ("ld.global.L1::no_allocate.v4.u32",
 * "%tid.x"): the decoder splits opcodes itself.
 */
#ifndef GK_WORKER_EMU_PTX_LEXER_H
#define GK_WORKER_EMU_PTX_LEXER_H

#include "core/status.h"

/* Longest word: mangled C++ names of deeply templated kernels reach some 2 KB. */
#define PTX_WORD_MAX 4096

enum ptx_token_kind {
    PTX_TOKEN_END,
    PTX_TOKEN_WORD,   /* identifiers, opcodes, directives (begin with '.') */
    PTX_TOKEN_INT,    /* value */
    PTX_TOKEN_F32,    /* 0f...: value holds the 32 bits */
    PTX_TOKEN_F64,    /* 0d... or a decimal real: value holds the 64 bits */
    PTX_TOKEN_STRING, /* text without quotes */
    PTX_TOKEN_PUNCT   /* text[0] */
};

struct ptx_token {
    enum ptx_token_kind kind;
    const char *text; /* into the source; not terminated */
    size_t size;
    uint64_t value;
    uint32_t line; /* 1-based */
};

struct ptx_lexer {
    const char *at, *end;
    uint32_t line;
    struct ptx_token token; /* the current one */
};

/* `text` must stay alive, and text[size] must be 0. Reads the first token. */
enum gk_status ptx_lexer_init(struct ptx_lexer *lexer, const char *text, size_t size,
                              struct gk_err *err);
/* Moves to the next token. GK_PARSE names the line of a character or number that PTX lacks. */
enum gk_status ptx_lexer_next(struct ptx_lexer *lexer, struct gk_err *err);
bool ptx_token_is(const struct ptx_token *token, const char *text);

#endif
