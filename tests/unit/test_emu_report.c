/*
 * The worker's report of one config on the emulated device: verdicts, places, lines, and requests
 * that are none. Needs NVRTC.
 */
#include "worker/emu_report.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/hash.h"
#include "tests/support/check.h"
#include "worker/emu_report_lines.h"

static struct gk_compiler *compiler;

static struct gk_json *request(const char *kernels, const char *what, const char *problem,
                               const char *config, const char *device)
{
    struct gk_json *json = gk_json_new_object(), *schedules = gk_json_new_array();
    assert_true(gk_json_push(schedules, gk_json_new_string("late")) &&
                gk_json_push(schedules, gk_json_new_string("early")));
    assert_true(gk_json_set(json, "schedules", schedules));
    assert_true(gk_json_set_string(json, "kernels", kernels));
    assert_true(gk_json_set_string(json, "what", what));
    assert_true(gk_json_set_string(json, "problem", problem));
    assert_true(gk_json_set_string(json, "config", config));
    assert_true(gk_json_set_string(json, "device", device));
    return json;
}

static struct gk_json *add(const char *bug)
{
    char config[80];
    (void)snprintf(config, sizeof config, "add_some{\"BLOCK\":32,\"BUG\":\"%s\"}", bug);
    return request(GK_SOURCE_DIR "/tests/data/worker", "add", "add{\"n\":64}", config, "emu:sm_80");
}

/* Takes the request. */
static struct gk_json *report_of(struct gk_json *json)
{
    struct gk_json *report = NULL;
    struct gk_err err = {0};
    assert_ok(gk_emu_report(json, compiler, &report, &err), err);
    gk_json_free(json);
    return report;
}

static const struct gk_json *launch_at(const struct gk_json *report, size_t index)
{
    return gk_json_at(gk_json_get(report, "launches"), index);
}

/* The line of the launch whose text begins so; NULL. */
static const struct gk_json *line_of(const struct gk_json *launch, const char *text)
{
    const struct gk_json *lines = gk_json_get(launch, "lines");
    for (size_t i = 0; i < gk_json_count(lines); i++) {
        const struct gk_json *line = gk_json_at(lines, i);
        if (strncmp(gk_json_get_string(line, "text", ""), text, strlen(text)) == 0) {
            return line;
        }
    }
    return NULL;
}

static int64_t count(const struct gk_json *json, const char *name)
{
    return gk_json_get_int(gk_json_get(json, "counts"), name, 0);
}

static void right(void **state)
{
    struct gk_json *report = report_of(add("none"));
    const struct gk_json *runs = gk_json_get(report, "runs"), *line;
    (void)state;
    assert_true(gk_json_get_bool(report, "verified", false));
    assert_null(gk_json_get(report, "failure"));
    assert_null(gk_json_get(report, "sources"));
    assert_int_equal(gk_json_count(runs), 2);
    assert_string_equal(gk_json_get_string(gk_json_at(runs, 1), "schedule", ""), "early");
    assert_int_equal(gk_json_count(gk_json_get(gk_json_at(runs, 0), "rungs")), 2);
    /* The reference runs on the same device, and is not shown. */
    assert_int_equal(gk_json_count(gk_json_get(report, "launches")), 1);
    line = line_of(launch_at(report, 0), "float sum = number(a[i]) + number(b[i]);");
    assert_int_equal(count(line, "global_load_requests"), 4); /* two warps, a and b */
    assert_string_equal(gk_json_get_string(line, "file", ""), "add/add_some.cu");
    assert_true(count(launch_at(report, 0), "warp_instructions") > 0);
    assert_non_null(gk_json_get(launch_at(report, 0), "model"));
    gk_json_free(report);
}

static void wrong(void **state)
{
    static const struct {
        const char *bug, *kind, *stage, *text;
        size_t runs; /* it ends at the first schedule that fails */
    } bugs[] = {
        {"beyond", "out_of_bounds", "run", "y[n] = element(1.0f);", 1},
        {"trap", "trap", "run", "__trap();", 1},
        {"never_written", "never_written", "verify", NULL, 1},
        {"syntax", "compile_error", "compile", NULL, 0},
    };
    (void)state;
    for (size_t i = 0; i < GK_ARRAY_COUNT(bugs); i++) {
        struct gk_json *report = report_of(add(bugs[i].bug));
        const struct gk_json *failure = gk_json_get(report, "failure");
        const struct gk_json *place = gk_json_at(gk_json_get(failure, "places"), 0);
        assert_false(gk_json_get_bool(report, "verified", true));
        assert_string_equal(gk_json_get_string(failure, "kind", ""), bugs[i].kind);
        assert_string_equal(gk_json_get_string(failure, "stage", ""), bugs[i].stage);
        assert_int_equal(gk_json_count(gk_json_get(report, "runs")), bugs[i].runs);
        if (bugs[i].text) {
            assert_string_equal(gk_json_get_string(place, "text", ""), bugs[i].text);
            assert_false(gk_json_get_bool(launch_at(report, 0), "ended", true));
            assert_null(gk_json_get(launch_at(report, 0), "model"));
        }
        gk_json_free(report);
    }
}

/* A pipeline of two launches, in two files; primitives count where they are used, or inside. */
static void pipeline(void **state)
{
    static const char config[] =
        "gemm_mma{\"BK\":16,\"BM\":16,\"BN\":16,\"EPILOGUE\":\"direct\",\"GROUP\":1,"
        "\"LOAD_BYTES\":16,\"SPLITK\":2,\"STAGES\":2,\"STORE_BYTES\":16,\"WM\":1,\"WN\":1}";
    (void)state;
    for (int innermost = 0; innermost < 2; innermost++) {
        struct gk_json *json = request(GK_SOURCE_DIR "/kernels", "gemm",
                                       "gemm{\"K\":64,\"M\":16,\"N\":16}", config, "emu:sm_80");
        assert_true(gk_json_set_bool(json, "innermost", innermost));
        assert_true(gk_json_set_bool(json, "sources", true));
        struct gk_json *report = report_of(json);
        const struct gk_json *lines = gk_json_get(launch_at(report, 0), "lines");
        uint32_t inside = 0;
        assert_true(gk_json_get_bool(report, "verified", false));
        assert_int_equal(gk_json_count(gk_json_get(report, "launches")), 2);
        assert_int_equal(count(launch_at(report, 0), "tensor_flops"), 2 * 16 * 16 * 64);
        assert_int_equal(count(launch_at(report, 1), "tensor_flops"), 0);
        for (size_t i = 0; i < gk_json_count(lines); i++) {
            const char *file = gk_json_get_string(gk_json_at(lines, i), "file", "");
            inside += strncmp(file, "gk/", 3) == 0;
        }
        assert_int_equal(inside > 0, innermost);
        assert_non_null(gk_json_get(gk_json_get(report, "sources"), "gk/ptx.cuh"));
        gk_json_free(report);
    }
}

static void requests_that_are_none(void **state)
{
    static const struct {
        const char *member, *value, *part;
    } bad[] = {
        {"config", "add_some{\"BLOCK\":33,\"BUG\":\"none\"}", "33"},
        {"problem", "mul{\"n\":64}", "'mul'"},
        {"problem", "add{\"m\":64}", "m"},
        {"what", "nothing", "nothing"},
        {"device", "emu:sm_10", "sm_10"},
    };
    (void)state;
    for (size_t i = 0; i < GK_ARRAY_COUNT(bad); i++) {
        struct gk_json *json = add("none"), *report = NULL;
        struct gk_err err = {0};
        assert_true(gk_json_set_string(json, bad[i].member, bad[i].value));
        assert_int_equal(gk_status_exit(gk_emu_report(json, compiler, &report, &err)), 2);
        assert_contains(err.text, bad[i].part);
        assert_null(report);
        gk_json_free(json);
    }
}

static void messages(void **state)
{
    struct gk_emu_sources sources = {0};
    struct gk_err err = {0};
    (void)state;
    assert_ok(gk_emu_sources_add(&sources, "b.cuh", "one\n  two  \n", &err), err);
    assert_ok(gk_emu_sources_add(&sources, "a/b.cuh", "first\nsecond", &err), err);
    assert_ok(gk_emu_sources_add(&sources, "a/b.cuh", "ignored", &err), err);
    char *text =
        gk_emu_message(&sources, "at /x/a/b.cuh:2 (inlined at /x/b.cuh:2, at q.cu:1): 3:4");
    assert_string_equal(text, "at a/b.cuh:2 (inlined at b.cuh:2, at q.cu:1): 3:4");
    struct gk_json *places = gk_emu_places_to_json(&sources, text);
    char *json = gk_json_text(places);
    assert_string_equal(json, "[{\"file\":\"a/b.cuh\",\"line\":2,\"text\":\"second\"},"
                              "{\"file\":\"b.cuh\",\"line\":2,\"text\":\"two\"}]");
    assert_null(gk_emu_sources_name(&sources, "/x/ab.cuh"));
    free(json);
    free(text);
    gk_json_free(places);
    gk_emu_sources_fini(&sources);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right),    cmocka_unit_test(wrong),
        cmocka_unit_test(pipeline), cmocka_unit_test(requests_that_are_none),
        cmocka_unit_test(messages),
    };
    const struct gk_compiler_places places = {getenv("GKTUNE_NVRTC"), getenv("CUDA_HOME"),
                                              getenv("VIRTUAL_ENV"), getenv("HOME")};
    struct gk_err err = {0};
    if (gk_hash_setup(&err) != GK_OK || gk_compiler_open(&places, &compiler, &err) != GK_OK) {
        print_message("skipped: %s\n", err.text);
        return 77;
    }
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    gk_compiler_close(compiler);
    return failed;
}
