/*
 * NVRTC for tests: CUDA text to PTX. The library is opened at run time; where there is none, tests
 * that need it are skipped.
 */
#ifndef GK_TESTS_UNIT_NVRTC_FOR_TESTS_H
#define GK_TESTS_UNIT_NVRTC_FOR_TESTS_H

#include <stdbool.h>
#include <stddef.h>

/* Looks in $CUDA_HOME/lib64, the loader's path and /usr/local/cuda/lib64. */
bool nvrtc_for_tests_available(void);

/* malloc'd PTX of `source` for `arch` ("sm_80"), with -lineinfo; NULL after an error, with the log
 * in *log_out (malloc'd, may be NULL). `options` is a NULL-terminated list, or NULL. */
char *nvrtc_for_tests_compile(const char *source, const char *name, const char *arch,
                              const char *const *options, char **log_out);

#endif
