/*
 * Mistakes as changes of text, of tests/data/bad_kernels: "name: .." begins one, "key: value" lines
 * belong to it, lines of `old:` and of `new:` are each one text together; '#' begins a comment.
 * What does not fit fails the test: a mistake that was cut would be another one.
 */
#ifndef GK_TESTS_UNIT_MISTAKE_LIST_H
#define GK_TESTS_UNIT_MISTAKE_LIST_H

#include <stdbool.h>
#include <stddef.h>

#define MISTAKE_TEXT_SIZE 1200u

/* What every mistake has. */
struct mistake_change {
    char name[120];
    char file[80]; /* "softmax/softmax_rows.cuh", "gk/rows.cuh" */
    char wants[120];
    char old[MISTAKE_TEXT_SIZE], new[MISTAKE_TEXT_SIZE];
};

/* Calls next() for each mistake of the file, which returns where it goes, and field() for each line
 * whose key is none of the members above; false: there is no such key. */
void mistake_list_read(const char *path, struct mistake_change *(*next)(void),
                       bool (*field)(const char *key, const char *value));
/* Copies a value. */
void mistake_take(char *to, size_t size, const char *value);
/* `text` with the mistake in it; the old text must be there exactly once. The caller frees. */
char *mistake_apply(const struct mistake_change *change, const char *text);
/* Whether `ending` is one of those that the mistake may have: "race|wrong_result at exact". */
bool mistake_wants(const struct mistake_change *change, const char *ending);

#endif
