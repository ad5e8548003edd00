/* The example of a user's own kernel: loads like any other, and every config of it is right. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/prng.h"
#include "search/space.h"
#include "tests/support/check.h"
#include "tests/unit/nvrtc_for_tests.h"
#include "tests/unit/plan_run.h"

#define FILL 0xff
#ifdef __SANITIZE_ADDRESS__ /* three times as slow; elements beyond a few blocks bring it nothing */
#define MANY 7001
#else
#define MANY 70001
#endif

static struct gk_catalog *catalog;
static const struct gk_op *op;
static struct gk_device_props dev;

static int setup(void **state)
{
    (void)state;
    struct gk_diag diag;
    struct gk_err err = {0};
    gk_diag_init(&diag);
    if (gk_hash_setup(&err) != GK_OK || gk_device_props_builtin("emu:sm_80", &dev, &err) != GK_OK) {
        print_error("%s\n", err.text);
        return -1;
    }
    enum gk_status status = gk_catalog_load_for(
        GK_SOURCE_DIR "/kernels", GK_SOURCE_DIR "/examples/vector_add/vector_add.kernel.json",
        &catalog, &diag);
    if (status != GK_OK) {
        (void)gk_diag_status(&diag, &err);
        print_error("%s\n", err.text);
    }
    gk_diag_fini(&diag);
    op = status == GK_OK ? gk_catalog_find(catalog, "vector_add") : NULL;
    return op ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    gk_catalog_destroy(catalog);
    return 0;
}

/* Tensors 0, 1, 2 are a, b, c; small integers, so that sums are exact. */
static void run_config(const struct gk_problem *problem, const struct gk_config *config, int64_t n)
{
    struct gk_emu_options options = {.target = "sm_80"};
    struct gk_emu *emu = NULL;
    struct gk_plan plan, reference;
    struct plan_run run;
    struct gk_prng prng;
    struct gk_err err;
    double *pairs = calloc((size_t)n * 2, sizeof *pairs);
    assert_non_null(pairs);
    assert_ok(gk_plan_render(op, &op->templates[0], problem, config, &dev, &plan, &err), err);
    assert_ok(gk_plan_reference(op, problem, &dev, &reference, &err), err);
    assert_ok(gk_emu_create(&options, &emu, &err), err);
    plan_run_init(&run, emu, catalog, &plan, FILL);
    float *a = (float *)(void *)run.host[0], *b = (float *)(void *)run.host[1];
    float *c = (float *)(void *)run.host[2];
    gk_prng_init(&prng, 1, 0);
    for (int64_t i = 0; i < n; i++) {
        a[i] = (float)gk_prng_below(&prng, 2001) - 1000.0f;
        b[i] = (float)gk_prng_below(&prng, 2001) - 1000.0f;
    }
    plan_run_launches(&run, &plan, "vector_add");
    plan_run_reference(&run, &reference, 2, pairs, "reference");
    for (int64_t i = 0; i < n; i++) {
        float sum = a[i] + b[i], size = (a[i] < 0 ? -a[i] : a[i]) + (b[i] < 0 ? -b[i] : b[i]);
        if (!(c[i] == sum && pairs[2 * i] == (double)sum && pairs[2 * i + 1] == (double)size)) {
            fail_msg("element %lld of %lld: %g, reference %g of %g, wanted %g of %g", (long long)i,
                     (long long)n, (double)c[i], pairs[2 * i], pairs[2 * i + 1], (double)sum,
                     (double)size);
        }
    }
    plan_run_fini(&run);
    gk_emu_destroy(emu);
    gk_plan_fini(&reference);
    gk_plan_fini(&plan);
    free(pairs);
}

static void every_config(void **state)
{
    static const int64_t SIZES[] = {1, 255, 1001, MANY};
    (void)state;
    if (!nvrtc_for_tests_available()) {
        skip();
    }
    for (size_t s = 0; s < GK_ARRAY_COUNT(SIZES); s++) {
        struct gk_problem problem;
        struct gk_space_def def;
        struct gk_space *space = NULL;
        struct gk_config config;
        struct gk_err err;
        uint32_t tree = 0;
        char text[64];
        (void)snprintf(text, sizeof text, "vector_add{\"n\":%lld}", (long long)SIZES[s]); /* fits */
        assert_ok(gk_problem_from_text(&op->fields, text, &problem, &err), err);
        assert_ok(gk_catalog_space(op, &problem, &dev, &def, &err), err);
        assert_ok(gk_catalog_default(op, &problem, &def, &config, &tree, &err), err);
        assert_ok(gk_space_create(&def, &space, &err), err);
        for (uint32_t i = 0; i < gk_space_count(space); i++) {
            gk_space_config(space, i, &config);
            run_config(&problem, &config, SIZES[s]);
        }
        gk_space_destroy(space);
        gk_space_def_fini(&def);
        gk_problem_fini(&problem);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_config)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
