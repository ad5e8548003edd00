/*
 * See code_for_tests.h.
 */
#include "tests/unit/code_for_tests.h"

#include <stdlib.h>

#include "worker/code_cache.h"

enum gk_status code_for_tests_run(const struct gk_compile_job *job, struct gk_compiler *compiler,
                                  struct gk_compile_output *output_out, struct gk_err *err)
{
    const char *folder = getenv("GKTUNE_TEST_CODE");
    char path[600];
    if (!folder) {
        return gk_compile_job_run(job, compiler, output_out, err);
    }
    struct gk_hash key = gk_code_key(&job->module_key, gk_compiler_version(compiler), job->target);
    gk_code_path(folder, &key, path, sizeof path);
    if (gk_code_read(path, output_out, NULL) == GK_OK) {
        return GK_OK;
    }
    enum gk_status status = gk_compile_job_run(job, compiler, output_out, err);
    if (status == GK_OK && output_out->compiled) {
        (void)gk_code_write(path, output_out, NULL); /* then it is compiled once more */
    }
    return status;
}
