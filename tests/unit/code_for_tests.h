/*
 * Compiled code that outlives a test program: see $GKTUNE_TEST_CODE in nvrtc_for_tests.h. Here an
 * entry is found by its module key, which holds all that is compiled.
 */
#ifndef GK_TESTS_UNIT_CODE_FOR_TESTS_H
#define GK_TESTS_UNIT_CODE_FOR_TESTS_H

#include "worker/compile_job.h"

/* As gk_compile_job_run, and as fresh where the folder is not named. */
enum gk_status code_for_tests_run(const struct gk_compile_job *job, struct gk_compiler *compiler,
                                  struct gk_compile_output *output_out, struct gk_err *err);

#endif
