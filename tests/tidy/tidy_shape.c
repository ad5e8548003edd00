/* Lengths of functions and files, names that are met twice, sources that no target builds. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/tidy/tidy.h"

#define FUNCTION_LINES_MAX 70
#define FILE_LINES_MAX     1000
#define EXCEPTIONS_FILE    "tests/tidy/long_functions.txt"
#define EXCEPTIONS_MAX     64

/* A line of the exceptions file: path function lines reason. It may shrink and must go when it is
 * not needed. */
struct exception {
    char path[128];
    char function[128];
    unsigned lines;
    uint32_t at_line;
    bool is_used;
};

struct exceptions {
    const struct tidy_file *file;
    struct exception items[EXCEPTIONS_MAX];
    uint32_t count;
};

static void read_exceptions(struct tidy_tree *tree, struct exceptions *all)
{
    uint32_t line = 1;
    for (uint32_t i = 0; i < tree->count; i++) {
        if (strcmp(tree->files[i].path, EXCEPTIONS_FILE) == 0) {
            all->file = &tree->files[i];
        }
    }
    for (const char *at = all->file ? all->file->text : NULL; at && *at; line++) {
        struct exception *item = &all->items[all->count];
        char reason[8];
        if (*at != '#' && *at != '\n') {
            if (all->count < EXCEPTIONS_MAX && sscanf(at, "%127s %127s %u %7s", item->path,
                                                      item->function, &item->lines, reason) == 4) {
                item->at_line = line;
                all->count++;
            } else {
                tidy_report(tree, all->file, line, "exception",
                            "path function lines reason, at most %d", EXCEPTIONS_MAX);
            }
        }
        at = strchr(at, '\n');
        at = at ? at + 1 : NULL;
    }
}

static void check_function(struct tidy_tree *tree, const struct tidy_file *file, uint32_t line,
                           const char *name, uint32_t lines, struct exceptions *all)
{
    uint32_t allowed = FUNCTION_LINES_MAX;
    if (lines <= FUNCTION_LINES_MAX) {
        return;
    }
    for (uint32_t i = 0; i < all->count; i++) {
        struct exception *item = &all->items[i];
        if (strcmp(item->path, file->path) == 0 && strcmp(item->function, name) == 0) {
            item->is_used = true;
            allowed = item->lines;
        }
    }
    if (lines > allowed) {
        tidy_report(tree, file, line, "function-length", "%s has %u lines; allowed: %u", name,
                    lines, allowed);
    }
}

/* The last word before the first '(' of the text. */
static void function_name(const char *text, char name_out[128])
{
    const char *open = strchr(text, '(');
    const char *end = open ? open : text;
    while (end > text && end[-1] == ' ') {
        end--;
    }
    const char *start = end;
    while (start > text && strchr(" *\n", start[-1]) == NULL) {
        start--;
    }
    snprintf(name_out, 128, "%.*s", (int)(end - start), start);
}

/* The house style puts the braces of a function, and of nothing else with a body, in the first
 * column. */
static void check_functions(struct tidy_tree *tree, const struct tidy_file *file,
                            struct exceptions *all)
{
    const char *head = NULL; /* first line of what may be a function */
    uint32_t line = 1, opened = 0;
    char name[128] = "";
    for (const char *at = file->code; at; line++) {
        if (*at == '{' && head) {
            function_name(head, name);
            opened = line;
        } else if (*at == '}' && opened) {
            check_function(tree, file, opened, name, line - opened + 1, all);
            opened = 0;
            head = NULL;
        } else if (!opened && *at != ' ' && *at != '\n' && *at != '#' && *at != '}') {
            head = at;
        }
        at = strchr(at, '\n');
        at = at ? at + 1 : NULL;
    }
}

static void check_names(struct tidy_tree *tree, uint32_t number)
{
    const struct tidy_file *file = &tree->files[number];
    for (uint32_t i = 0; i < number; i++) {
        if (tree->files[i].code &&
            strcmp(tidy_base_name(tree->files[i].path), tidy_base_name(file->path)) == 0) {
            tidy_report(tree, file, 1, "file-name", "the name is taken by %s", tree->files[i].path);
            return;
        }
    }
}

static bool has_word(const char *text, const char *word)
{
    for (const char *at = text; (at = strstr(at, word)) != NULL; at++) {
        if (tidy_is_word(text, (size_t)(at - text), word)) {
            return true;
        }
    }
    return false;
}

/* "fuzz_${name}" in a list of names: the file fuzz_json.c is built if the word json is there. */
static bool is_in_loop(const char *list, const char *stem)
{
    for (const char *at = list; (at = strstr(at, "_${")) != NULL; at++) {
        const char *start = at;
        while (start > list && strchr(" \n/(\"", start[-1]) == NULL) {
            start--;
        }
        size_t size = (size_t)(at + 1 - start);
        if (strncmp(stem, start, size) == 0 && has_word(list, stem + size)) {
            return true;
        }
    }
    return false;
}

/* A target names the file, or the test of that name, or takes all of the file's folder. */
static bool is_built(const struct tidy_tree *tree, const struct tidy_file *file)
{
    const char *name = tidy_base_name(file->path);
    size_t folder = (size_t)(name - file->path);
    char stem[128];
    snprintf(stem, sizeof stem, "%.*s", (int)strlen(name) - 2, name);
    for (uint32_t i = 0; i < tree->count; i++) {
        const struct tidy_file *list = &tree->files[i];
        bool is_list =
            tidy_ends_with(list->path, "CMakeLists.txt") || tidy_ends_with(list->path, ".cmake") ||
            tidy_ends_with(list->path, ".sh"); /* an e2e script may compile what users would */
        size_t list_folder = (size_t)(tidy_base_name(list->path) - list->path);
        if (!is_list) {
            continue;
        }
        bool is_own = list_folder == folder && strncmp(list->path, file->path, folder) == 0;
        if ((is_own && (strstr(list->text, "/*.c") || is_in_loop(list->text, stem))) ||
            has_word(list->text, name) || has_word(list->text, stem)) {
            return true;
        }
    }
    return false;
}

void tidy_check_shape(struct tidy_tree *tree)
{
    static struct exceptions all;
    read_exceptions(tree, &all);
    for (uint32_t i = 0; i < tree->count; i++) {
        const struct tidy_file *file = &tree->files[i];
        bool is_source = tidy_ends_with(file->path, ".c");
        if (!file->code) {
            continue;
        }
        if (file->line_count > FILE_LINES_MAX) {
            tidy_report(tree, file, 1, "file-length", "%u lines; allowed: %d", file->line_count,
                        FILE_LINES_MAX);
        }
        if (is_source || tidy_ends_with(file->path, ".h")) {
            check_names(tree, i);
        }
        if (is_source) {
            check_functions(tree, file, &all);
            if (!is_built(tree, file)) {
                tidy_report(tree, file, 1, "not-built", "no CMake target has this file");
            }
        }
    }
    for (uint32_t i = 0; i < all.count; i++) {
        if (!all.items[i].is_used) {
            tidy_report(tree, all.file, all.items[i].at_line, "exception",
                        "%s of %s is not over %d lines any more: take the line out",
                        all.items[i].function, all.items[i].path, FUNCTION_LINES_MAX);
        }
    }
}
