/*
 * What NVRTC is asked for, by one that only notes it (tests/support/fake_nvrtc.c): the driver's
 * cache must not stand between it and its log, and a log without registers is an error.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "worker/compiler.h"

static enum gk_status ask(const char *minor, struct gk_compile_output *output_out,
                          struct gk_err *err)
{
    static const struct gk_compiler_places PLACES = {.file = GK_FAKE_NVRTC};
    static const struct gk_compile_input INPUT = {
        .name = "store.cu", .text = "", .target = "sm_90a"};
    struct gk_compiler *compiler = NULL;
    (void)setenv("FAKE_NVRTC_MINOR", minor, 1);
    enum gk_status status = gk_compiler_open(&PLACES, &compiler, err);
    if (status == GK_OK) {
        status = gk_compiler_run(compiler, &INPUT, output_out, err);
    }
    gk_compiler_close(compiler);
    return status;
}

static void no_cache_where_there_is_one(void **state)
{
    static const struct {
        const char *minor;
        bool caches;
    } VERSIONS[] = {{"0", false}, {"8", false}, {"9", true}, {"10", true}};
    (void)state;
    for (size_t i = 0; i < GK_ARRAY_COUNT(VERSIONS); i++) {
        struct gk_compile_output output = {0};
        struct gk_err err = {0};
        if (ask(VERSIONS[i].minor, &output, &err) != GK_OK) {
            fail_msg("%s", err.text);
        }
        assert_true(output.compiled);
        assert_non_null(strstr(output.log, "-arch=sm_90a\n"));
        assert_non_null(strstr(output.log, "--ptxas-options=-v\n"));
        assert_int_equal(strstr(output.log, "--no-cache\n") != NULL, VERSIONS[i].caches);
        gk_compile_output_fini(&output);
    }
}

static void silence_is_an_error(void **state)
{
    struct gk_compile_output output = {0};
    struct gk_err err = {0};
    (void)state;
    (void)setenv("FAKE_NVRTC_SILENT", "1", 1);
    assert_int_equal(ask("9", &output, &err), GK_MISSING);
    (void)unsetenv("FAKE_NVRTC_SILENT");
    assert_non_null(strstr(err.text, "did not say how many registers"));
    assert_false(output.compiled);
    assert_null(output.log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(no_cache_where_there_is_one),
                                       cmocka_unit_test(silence_is_an_error)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
