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

/*
 * malloc'd PTX of `source` for `arch` ("sm_80"), with -lineinfo; NULL after an error, with the log
 * in *log_out (malloc'd, may be NULL). `options` is a NULL-terminated list, or NULL.
 *
 * With $GKTUNE_TEST_CODE, a folder, what compiled without a word is kept there and taken from
 * there: the sanitized half of a run need not compile again what the release half did, since NVRTC
 * is not ours to look into. Files that `source` includes are not part of what an entry is found by,
 * so the folder must not outlive a change of theirs: scripts/test makes a new one each time.
 */
char *nvrtc_for_tests_compile(const char *source, const char *name, const char *arch,
                              const char *const *options, char **log_out);

#endif
