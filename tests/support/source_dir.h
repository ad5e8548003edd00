/* The tree that a test reads its data from. */
#ifndef GK_TESTS_SOURCE_DIR_H
#define GK_TESTS_SOURCE_DIR_H

#include <stdlib.h>

/* That of the build, or $GKTUNE_SOURCE where the program was carried elsewhere (scripts/bundle
 * --tests). */
static inline const char *test_source_dir(void)
{
    const char *moved = getenv("GKTUNE_SOURCE");
    return moved ? moved : GK_SOURCE_DIR;
}

#endif
