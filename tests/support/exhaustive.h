/* Whether a test takes everything or its sample. */
#ifndef GK_TESTS_EXHAUSTIVE_H
#define GK_TESTS_EXHAUSTIVE_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* GKTUNE_TEST_ALL=1 asks for everything. Not of sanitizers: they watch the interpreter, which a
 * sample of kernels exercises as well as all of them do, and they cost ten times as much. */
static inline bool test_takes_all(void)
{
#ifdef __SANITIZE_ADDRESS__
    return false;
#else
    const char *all = getenv("GKTUNE_TEST_ALL");
    return all && strcmp(all, "1") == 0;
#endif
}

#endif
