/* Words and calls that have no place in the tree, and the width of lines. */
#include <string.h>

#include "tests/tidy/tidy.h"

#define LINE_MAX_COLUMNS 100

static const char *const banned_calls[] = {"strcpy", "strcat", "sprintf",  "vsprintf",
                                           "gets",   "strtok", "atoi",     "gmtime",
                                           "system", "alloca", "localtime"};

/* Written in halves, so that this file does not break its own rule. */
static const char *const unfinished[] = {"TO"
                                         "DO",
                                         "FIX"
                                         "ME",
                                         "X"
                                         "XX",
                                         "HA"
                                         "CK",
                                         "place"
                                         "holder",
                                         "Place"
                                         "holder",
                                         "st"
                                         "ub",
                                         "St"
                                         "ub"};
static const char *const unfinished_phrase = "not "
                                             "implemented";
static const char *const own_paths[] = {"/wo"
                                        "rk/",
                                        "/ho"
                                        "me/",
                                        "/ro"
                                        "ot/"};

static bool is_c(const char *path)
{
    return tidy_ends_with(path, ".c") || tidy_ends_with(path, ".h");
}

static void check_calls(struct tidy_tree *tree, const struct tidy_file *file, uint32_t line,
                        size_t at)
{
    const char *code = file->code;
    for (size_t i = 0; i < GK_ARRAY_COUNT(banned_calls); i++) {
        size_t size = strlen(banned_calls[i]);
        if (is_c(file->path) && tidy_is_word(code, at, banned_calls[i]) &&
            code[at + size + strspn(code + at + size, " ")] == '(') {
            tidy_report(tree, file, line, "banned-call", "%s()", banned_calls[i]);
        }
    }
    bool may = tidy_starts_with(file->path, "kernels/include/gk/") ||
               !(tidy_starts_with(file->path, "kernels/") || is_c(file->path));
    if (!may && (tidy_is_word(code, at, "asm") || tidy_is_word(code, at, "__asm__"))) {
        tidy_report(tree, file, line, "inline-asm",
                    "allowed in kernels/include/gk/ alone");
    }
}

static void check_words(struct tidy_tree *tree, const struct tidy_file *file, uint32_t line,
                        size_t at)
{
    for (size_t i = 0; i < GK_ARRAY_COUNT(unfinished); i++) {
        if (tidy_is_word(file->text, at, unfinished[i])) {
            tidy_report(tree, file, line, "unfinished", "%s", unfinished[i]);
        }
    }
    if (tidy_starts_with(file->text + at, unfinished_phrase)) {
        tidy_report(tree, file, line, "unfinished", "%s", unfinished_phrase);
    }
    for (size_t i = 0; i < GK_ARRAY_COUNT(own_paths); i++) {
        bool starts = at == 0 || strchr(" \t\n\"'=(:,`", file->text[at - 1]) != NULL;
        if (starts && tidy_starts_with(file->text + at, own_paths[i])) {
            tidy_report(tree, file, line, "own-path", "%s: a path of one machine", own_paths[i]);
        }
    }
}

static bool has_width(const char *path)
{
    return is_c(path) || tidy_ends_with(path, ".cu") || tidy_ends_with(path, ".cuh");
}

static void check_width(struct tidy_tree *tree, const struct tidy_file *file, uint32_t line,
                        const char *start)
{
    uint32_t columns = 0;
    for (const char *at = start; *at && *at != '\n'; at++) {
        columns += ((unsigned char)*at & 0xc0) != 0x80; /* characters, not bytes */
    }
    if (columns > LINE_MAX_COLUMNS && has_width(file->path)) {
        tidy_report(tree, file, line, "line-width", "%u columns; allowed: %d", columns,
                    LINE_MAX_COLUMNS);
    }
}

void tidy_check_text(struct tidy_tree *tree)
{
    for (uint32_t i = 0; i < tree->count; i++) {
        const struct tidy_file *file = &tree->files[i];
        uint32_t line = 1;
        for (size_t at = 0; file->text[at]; at++) {
            if (at == 0 || file->text[at - 1] == '\n') {
                line += at != 0;
                check_width(tree, file, line, file->text + at);
            }
            check_words(tree, file, line, at);
            if (file->code) {
                check_calls(tree, file, line, at);
            }
        }
    }
}
