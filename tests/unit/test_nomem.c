/*
 * Every allocation of core fails once: the n-th call of malloc, calloc or realloc returns NULL, for
 * n = 1, 2,
 * .. until an operation gets through. Each time the operation must say so (GK_NOMEM, or a NULL that
 * is documented), write nothing, and, under the sanitizer, leak and touch nothing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "core/config.h"
#include "core/record.h"
#include "core/shapes.h"
#include "tests/support/check.h"
#include "tests/support/fail_alloc.h"
#include "tests/support/sample_op.h"

static struct sample_ops ops;

/* Runs the operation with each allocation failing; returns how many there are. */
static int exhaust(const char *name, enum gk_status (*operation)(void))
{
    for (int n = 0;; n++) {
        calls_left = n;
        has_failed = false;
        enum gk_status status = operation();
        calls_left = -1;
        if (!has_failed) {
            assert_int_equal(status, GK_OK);
            return n;
        }
        if (status != GK_NOMEM) {
            fail_msg("%s: allocation %d failed and the status is %s", name, n,
                     gk_status_name(status));
        }
        assert_true(n < 10000);
    }
}

static enum gk_status compile_expression(void)
{
    struct gk_expr *expr = NULL;
    struct gk_err err;
    enum gk_status status = gk_expr_compile(
        "M * N + ceil_div(K, 16) <= 1 << 20 && dtype == 'f16' || min(M, N, K) > 3 ? M + 1 : K",
        ops.gemm.scope, &expr, &err);
    assert_int_equal(expr != NULL, status == GK_OK);
    gk_expr_destroy(expr);
    return status;
}

static enum gk_status render_expression(void)
{
    struct gk_json *json = NULL;
    struct gk_buf buf = {0};
    struct gk_err err;
    static const char text[] = "{\"a\":[1,2.5,{\"b\":\"text\"}],\"c\":{\"d\":null}}";
    enum gk_status status = gk_json_parse(text, sizeof text - 1, "x", &json, &err);
    if (status == GK_OK) {
        status = gk_json_canonical(json, &buf, &err);
    }
    if (status == GK_OK) {
        status = gk_json_pretty(json, &buf, &err);
    }
    gk_json_free(json);
    gk_buf_fini(&buf);
    return status;
}

static enum gk_status parse(const char *text, bool is_csv, const char *wanted)
{
    struct gk_shapes shapes = {0};
    struct gk_diag diag;
    gk_diag_init(&diag);
    enum gk_status status =
        gk_shapes_parse(text, strlen(text), is_csv, "shapes", wanted, &ops.lookup, &shapes, &diag);
    assert_int_equal(shapes.problems != NULL, status == GK_OK);
    gk_shapes_fini(&shapes);
    gk_diag_fini(&diag);
    return status;
}

static enum gk_status parse_shapes(void)
{
    return parse("[{\"M\":[1,2],\"N\":[3,4],\"K\":5,\"act\":\"gelu\",\"alpha\":0.5},"
                 "{\"M\":1,\"N\":3,\"K\":5}]",
                 false, "gemm");
}

static enum gk_status parse_series(void)
{
    return parse("[{\"op\":\"attn\",\"batch\":2,\"kv_len\":[1,2]},{\"op\":\"attn\",\"batch\":3,"
                 "\"kv_len\":{\"draw\":\"uniform\",\"min\":1,\"max\":9,\"seed\":1}}]",
                 false, "attention");
}

static enum gk_status parse_csv(void)
{
    return parse("M,N,K,act\n1,2,3,gelu\n1,2,\"3\",\n", true, "gemm");
}

static enum gk_status problem_text(void)
{
    struct gk_problem problem = {0};
    struct gk_err err;
    enum gk_status status = gk_problem_from_text(
        &ops.attn, "attn{\"batch\":2,\"kv_len\":{\"each\":[1,2]}}", &problem, &err);
    assert_int_equal(problem.slots != NULL, status == GK_OK);
    gk_problem_fini(&problem);
    return status;
}

static enum gk_status load_file(void)
{
    char *text = NULL;
    size_t size = 0;
    struct gk_err err;
    enum gk_status status = gk_file_load("/proc/self/status", 1 << 20, &text, &size, &err);
    assert_int_equal(text != NULL, status == GK_OK);
    free(text);
    return status;
}

static enum gk_status record_json(void)
{
    static struct gk_record record, back;
    struct gk_err err;
    gk_record_init(&record);
    int64_t left = calls_left;
    calls_left = -1; /* without memory a failure is told without its message: not what is tested */
    gk_record_fail(&record, GK_STAGE_RUN, GK_FAILURE_RACE, "line 3");
    calls_left = left;
    struct gk_json *json = gk_record_to_json(&record);
    enum gk_status status = json ? gk_record_from_json(json, &back, &err) : GK_NOMEM;
    if (status == GK_OK) {
        gk_record_fini(&back);
    }
    gk_json_free(json);
    gk_record_fini(&record);
    return status;
}

static enum gk_status config_text(void)
{
    static const struct gk_param param = {.name = "BM", .values = {64}, .value_count = 1};
    static const struct gk_tree tree = {.template_name = "t", .params = &param, .param_count = 1};
    struct gk_config config = {.count = 1, .values = {64}};
    char *text = gk_config_text(&tree, &config);
    enum gk_status status = text ? GK_OK : GK_NOMEM;
    free(text);
    return status;
}

static void all_operations(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        enum gk_status (*operation)(void);
        int least; /* allocations of ours that it makes */
    } cases[] = {
        {"compile_expression", compile_expression, 5},
        {"render_expression", render_expression, 3},
        {"parse_shapes", parse_shapes, 20},
        {"parse_series", parse_series, 10},
        {"parse_csv", parse_csv, 10},
        {"problem_text", problem_text, 5},
        {"load_file", load_file, 3},
        {"record_json", record_json, 2},
        {"config_text", config_text, 1},
    };
    for (size_t i = 0; i < GK_ARRAY_COUNT(cases); i++) {
        int count = exhaust(cases[i].name, cases[i].operation);
        if (count < cases[i].least) {
            fail_msg("%s makes %d allocations: the injector does not reach it", cases[i].name,
                     count);
        }
    }
}

static int setup(void **state)
{
    (void)state;
    sample_ops_init(&ops);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    sample_ops_fini(&ops);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_operations)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
