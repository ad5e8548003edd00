/*
 * tidy: the test over the source text. It reads a tree, applies the rules of docs/DESIGN.md section
 * 3 and of CONTRIBUTING.md, and prints every violation as path:line: rule: what was met and what is
 * allowed.
 */
#ifndef GK_TESTS_TIDY_TIDY_H
#define GK_TESTS_TIDY_TIDY_H

#include "core/buf.h"

#define TIDY_FILES_MAX 4096

struct tidy_file {
    char *path; /* from the root, '/' between parts */
    char *text; /* as it is */
    char *code; /* the same length; comments, strings and character constants blanked. NULL unless C
                   or CUDA */
    uint32_t line_count;
};

struct tidy_tree {
    struct tidy_file files[TIDY_FILES_MAX];
    uint32_t count;
    struct gk_buf found; /* the violations, one a line */
    uint32_t found_count;
};

/* Reads every text file under root except build folders, recorded data and dot files. */
enum gk_status tidy_read(struct tidy_tree *tree, const char *root, struct gk_err *err);
void tidy_fini(struct tidy_tree *tree);

bool tidy_ends_with(const char *text, const char *end);
bool tidy_starts_with(const char *text, const char *start);
/* The file name after the last '/'. */
const char *tidy_base_name(const char *path);
/* True if `text` at `at` is the word, with no letter, digit or underscore on either side. */
bool tidy_is_word(const char *text, size_t at, const char *word);

void tidy_report(struct tidy_tree *tree, const struct tidy_file *file, uint32_t line,
                 const char *rule, const char *format, ...) __attribute__((format(printf, 5, 6)));

/* The rules. */
void tidy_check_includes(struct tidy_tree *tree);
void tidy_check_text(struct tidy_tree *tree);
void tidy_check_shape(struct tidy_tree *tree); /* lengths, names, files that no target builds */

#endif
