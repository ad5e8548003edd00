/*
 * A folder of ops with one mistake in it: an op of kernels/ and the headers of gk, copied.
 */
#ifndef GK_TESTS_UNIT_MISTAKE_FOLDER_H
#define GK_TESTS_UNIT_MISTAKE_FOLDER_H

#include "tests/unit/mistake_list.h"

/* `root`: a template as mkdtemp() takes it. Fails the test unless one file was changed. */
void mistake_folder_make(const struct mistake_change *change, const char *op, char *root);
void mistake_folder_remove(const char *root);

#endif
