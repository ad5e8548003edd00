/*
 * The n-th allocation fails. For one file of a test program that is linked with --wrap=malloc,
 * --wrap=calloc and --wrap=realloc: sets calls_left, runs something, sets it to -1 again.
 */
#ifndef GK_TESTS_FAIL_ALLOC_H
#define GK_TESTS_FAIL_ALLOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);

static int64_t calls_left = -1; /* before the one that fails; negative: none fails */
static bool has_failed;

static bool fails_now(void)
{
    if (calls_left < 0) {
        return false;
    }
    has_failed = has_failed || calls_left == 0;
    return calls_left-- == 0;
}

void *__wrap_malloc(size_t size)
{
    return fails_now() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails_now() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *memory, size_t size)
{
    return fails_now() ? NULL : __real_realloc(memory, size);
}

#endif
