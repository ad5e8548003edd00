/*
 * NVRTC, where the driver's cache could stand between it and us: without a driver only what is asked
 * of it can be seen (tests/gpu/gpu_twins compiles every unchanged source many times beside one).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "worker/compile_log.h"
#include "worker/compiler.h"

static struct gk_compiler *compiler;

static void no_cache_between(void **state)
{
    (void)state;
    assert_string_equal(getenv("CUDA_CACHE_DISABLE"), "1");
}

static void says_registers_each_time(void **state)
{
    static const struct gk_compile_input INPUT = {
        .name = "store.cu",
        .text = "extern \"C\" __global__ void store(float *out) { out[threadIdx.x] = 1.0f; }",
        .target = "sm_80"};
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct gk_compile_output output = {0};
        struct gk_compile_facts facts;
        struct gk_err err = {0};
        assert_int_equal(gk_compiler_run(compiler, &INPUT, &output, &err), GK_OK);
        assert_true(output.compiled);
        gk_compile_log_read(output.log, "store", &facts);
        assert_true(facts.found && facts.regs > 0);
        assert_int_equal(facts.spill_bytes, 0);
        gk_compile_output_fini(&output);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(no_cache_between),
                                       cmocka_unit_test(says_registers_each_time)};
    const struct gk_compiler_places places = {.file = getenv("GKTUNE_NVRTC"),
                                              .cuda_home = getenv("CUDA_HOME")};
    struct gk_err err = {0};
    (void)setenv("CUDA_CACHE_DISABLE", "0", 1); /* as somebody may have it */
    if (gk_compiler_open(&places, &compiler, &err) != GK_OK) {
        (void)fprintf(stderr, "skipped: %s\n", err.text);
        return 77;
    }
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    gk_compiler_close(compiler);
    return failed;
}
