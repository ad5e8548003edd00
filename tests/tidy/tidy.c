/* Reads the tree, runs the rules, prints what they found. See tidy.h. */
#include "tests/tidy/tidy.h"

#include <dirent.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define FILE_BYTES_MAX (4u << 20)
#define DEPTH_MAX      16

bool tidy_ends_with(const char *text, const char *end)
{
    size_t size = strlen(text), tail = strlen(end);
    return size >= tail && strcmp(text + size - tail, end) == 0;
}

bool tidy_starts_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

const char *tidy_base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static bool is_word_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

bool tidy_is_word(const char *text, size_t at, const char *word)
{
    size_t size = strlen(word);
    return strncmp(text + at, word, size) == 0 && !(at > 0 && is_word_char(text[at - 1])) &&
           !is_word_char(text[at + size]);
}

void tidy_report(struct tidy_tree *tree, const struct tidy_file *file, uint32_t line,
                 const char *rule, const char *format, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    gk_buf_printf(&tree->found, "%s:%u: %s: %s\n", file->path, line, rule, text);
    tree->found_count++;
}

/* ------------------------------------------------------------------ reading */

/* Blanks comments, strings and character constants; new lines stay, so offsets and lines are the
 * same. */
static char *strip(const char *text)
{
    char *code = gk_strdup(text);
    enum { CODE, LINE, BLOCK, STRING, CHARACTER } in = CODE;
    for (size_t i = 0; code && text[i]; i++) {
        char c = text[i], next = text[i + 1];
        bool blank = in != CODE;
        bool opens = in == CODE && c == '/' && (next == '/' || next == '*');
        if (opens) {
            in = next == '/' ? LINE : BLOCK;
            blank = true;
        } else if (in == CODE && c == '"') {
            in = STRING;
        } else if (in == CODE && c == '\'' && !(i > 0 && is_word_char(text[i - 1]))) {
            in = CHARACTER; /* not the separator of a CUDA number */
        } else if (in == LINE && c == '\n') {
            in = CODE;
        } else if (in == BLOCK && c == '/' && text[i - 1] == '*' && code[i - 1] == ' ') {
            in = CODE;
        } else if ((in == STRING && c == '"') || (in == CHARACTER && c == '\'')) {
            in = CODE;
        } else if ((in == STRING || in == CHARACTER) && c == '\\' && next) {
            code[i++] = ' ';
        }
        if (blank && text[i] != '\n') {
            code[i] = ' ';
        }
        if (opens && next == '*') { /* the star of an opening is not the star of an end */
            i++;
            code[i] = '.';
        }
    }
    return code;
}

static bool is_c_like(const char *path)
{
    return tidy_ends_with(path, ".c") || tidy_ends_with(path, ".h") ||
           tidy_ends_with(path, ".cu") || tidy_ends_with(path, ".cuh");
}

static enum gk_status read_file(struct tidy_tree *tree, const char *full, const char *path,
                                struct gk_err *err)
{
    FILE *stream = fopen(full, "rb");
    if (!stream) {
        return gk_fail(err, GK_IO, "%s does not open", full);
    }
    char *text = calloc(FILE_BYTES_MAX + 1, 1);
    size_t size = text ? fread(text, 1, FILE_BYTES_MAX, stream) : 0;
    fclose(stream);
    if (!text || tree->count == TIDY_FILES_MAX || size == FILE_BYTES_MAX) {
        free(text);
        return gk_fail(err, GK_LIMIT, "%s: too many files, or a file of 4 MB and more", full);
    }
    if (memchr(text, 0, size)) { /* not text */
        free(text);
        return GK_OK;
    }
    struct tidy_file *file = &tree->files[tree->count++];
    file->text = gk_strdup(text);
    free(text);
    file->path = gk_strdup(path);
    if (!file->text || !file->path) {
        return gk_fail(err, GK_NOMEM, "no memory for %s", full);
    }
    file->code = is_c_like(path) ? strip(file->text) : NULL;
    for (const char *at = file->text; *at; at++) {
        file->line_count += *at == '\n';
    }
    return GK_OK;
}

static bool is_skipped(const char *path)
{
    /* Recorded data and miniatures that break the rules on purpose; the licence is not ours to
     * wrap. */
    static const char *const skipped[] = {"tests/data", "tests/fuzz/corpus", "LICENSE"};
    for (size_t i = 0; i < GK_ARRAY_COUNT(skipped); i++) {
        if (strcmp(path, skipped[i]) == 0) {
            return true;
        }
    }
    const char *name = tidy_base_name(path);
    return name[0] == '.' || strcmp(path, "build") == 0 || tidy_starts_with(path, "build-");
}

static enum gk_status walk(struct tidy_tree *tree, const char *root, const char *folder, int depth,
                           struct gk_err *err)
{
    struct dirent **entries = NULL;
    enum gk_status status = GK_OK;
    char *full = gk_asprintf("%s/%s", root, folder);
    int count = full ? scandir(full, &entries, NULL, alphasort) : -1;
    free(full);
    if (count < 0) {
        return gk_fail(err, GK_IO, "%s/%s does not open", root, folder);
    }
    for (int i = 0; i < count; i++) {
        char *path = gk_asprintf("%s%s%s", folder, *folder ? "/" : "", entries[i]->d_name);
        char *entry = gk_asprintf("%s/%s", root, path ? path : "");
        struct stat about;
        if (status == GK_OK && path && entry && !is_skipped(path) && lstat(entry, &about) == 0) {
            if (S_ISDIR(about.st_mode) && depth < DEPTH_MAX) {
                status = walk(tree, root, path, depth + 1, err);
            } else if (S_ISREG(about.st_mode)) {
                status = read_file(tree, entry, path, err);
            }
        }
        free(path);
        free(entry);
        free(entries[i]);
    }
    free(entries);
    return status;
}

enum gk_status tidy_read(struct tidy_tree *tree, const char *root, struct gk_err *err)
{
    return walk(tree, root, "", 0, err);
}

void tidy_fini(struct tidy_tree *tree)
{
    for (uint32_t i = 0; i < tree->count; i++) {
        free(tree->files[i].path);
        free(tree->files[i].text);
        free(tree->files[i].code);
    }
    gk_buf_fini(&tree->found);
}

/* ------------------------------------------------------------------ main */

/* tidy ROOT: fails on any violation. tidy ROOT EXPECTED: fails unless what is found is that file's
 * text. */
int main(int argc, char **argv)
{
    static struct tidy_tree tree;
    struct gk_err err;
    if (argc != 2 && argc != 3) {
        fprintf(stderr, "usage: tidy ROOT [EXPECTED]\n");
        return 2;
    }
    if (tidy_read(&tree, argv[1], &err) != GK_OK) {
        fprintf(stderr, "tidy: %s\n", err.text);
        tidy_fini(&tree);
        return 2;
    }
    tidy_check_includes(&tree);
    tidy_check_text(&tree);
    tidy_check_shape(&tree);
    fputs(gk_buf_text(&tree.found), stdout);
    printf("%u files, %u violations\n", tree.count, tree.found_count);
    bool good = tree.found_count == 0 && tree.count > 0;
    if (argc == 3) {
        static char expected[65536];
        FILE *stream = fopen(argv[2], "rb");
        size_t size = stream ? fread(expected, 1, sizeof expected - 1, stream) : 0;
        if (stream) {
            fclose(stream);
        }
        good = size > 0 && strcmp(expected, gk_buf_text(&tree.found)) == 0;
        printf("%s %s\n", good ? "as expected in" : "differs from", argv[2]);
    }
    tidy_fini(&tree);
    return good ? 0 : 1;
}
