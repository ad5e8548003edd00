/* A folder of its own for targets whose decoder reads files. */
#ifndef GK_TESTS_FUZZ_FOLDER_H
#define GK_TESTS_FUZZ_FOLDER_H

#include <stddef.h>
#include <stdint.h>

/* Made at the first call, removed when the program ends. */
const char *fuzz_folder(void);
/* Writes folder/name (mode 0600) anew; returns its path, lent until the next call. */
const char *fuzz_write(const char *name, const uint8_t *data, size_t size);

#endif
