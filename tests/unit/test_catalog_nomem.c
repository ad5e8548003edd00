/*
 * Every allocation of the catalog and the renderer fails once: loading, a space, a default, a plan
 * and a bundle must each say so, and, under the sanitizer, leak and touch nothing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "kernels/render.h"
#include "tests/support/check.h"
#include "tests/support/fail_alloc.h"

#define DATA GK_SOURCE_DIR "/tests/data/kernels/"

static struct gk_catalog *catalog;
static struct gk_problem problem;
static struct gk_device_props dev;

static enum gk_status load(const char *root, const char *what)
{
    struct gk_catalog *loaded = NULL;
    struct gk_diag diag;
    gk_diag_init(&diag);
    enum gk_status status = gk_catalog_load_for(root, what, &loaded, &diag);
    assert_true((status == GK_OK) == (loaded != NULL));
    assert_true((status == GK_OK) == (diag.count == 0));
    gk_catalog_destroy(loaded);
    gk_diag_fini(&diag);
    return status;
}

static enum gk_status load_family(void)
{
    return load(DATA "ops", "attention");
}

static enum gk_status load_user(void)
{
    return load(DATA "toy", DATA "edges/edges.kernel.json");
}

static enum gk_status make_plan(void)
{
    const struct gk_op *op = gk_catalog_op(catalog, 0);
    struct gk_space_def def = {0};
    struct gk_config config = {0};
    struct gk_plan plan = {0};
    uint32_t tree = 0;
    enum gk_status status = gk_catalog_serves(op, &problem, NULL);
    if (status == GK_OK) {
        status = gk_catalog_space(op, &problem, &dev, &def, NULL);
    }
    if (status == GK_OK) {
        status = gk_catalog_default(op, &problem, &def, &config, &tree, NULL);
    }
    if (status == GK_OK) {
        status = gk_plan_render(op, &op->templates[0], &problem, &config, &dev, &plan, NULL);
    }
    gk_plan_fini(&plan);
    if (status == GK_OK) {
        status = gk_plan_reference(op, &problem, &dev, &plan, NULL);
    }
    gk_plan_fini(&plan);
    gk_space_def_fini(&def);
    return status;
}

static enum gk_status make_bundle(void)
{
    struct gk_bundle bundle = {0}, back = {0};
    char *text = NULL;
    size_t size = 0;
    enum gk_status status = gk_catalog_bundle(catalog, &bundle, NULL);
    struct gk_json *json = status == GK_OK ? gk_bundle_to_json(&bundle) : NULL;
    if (status == GK_OK) {
        status = json ? gk_bundle_from_json(json, &back, NULL) : GK_NOMEM;
    }
    if (status == GK_OK) {
        status = gk_catalog_file(catalog, bundle.files[0].path, &text, &size, NULL);
    }
    free(text);
    gk_json_free(json);
    gk_bundle_fini(&back);
    gk_bundle_fini(&bundle);
    return status;
}

/* Runs the operation with each allocation failing; returns how many there are. */
static int exhaust(const char *name, enum gk_status (*operation)(void))
{
    for (int n = 0, silent = 0;; n++) {
        calls_left = n;
        has_failed = false;
        enum gk_status status = operation();
        calls_left = -1;
        if (!has_failed) {
            assert_int_equal(status, GK_OK);
            assert_int_equal(silent, 0);
            return n;
        }
        if (status == GK_OK) {
            print_error("%s: allocation %d failed and nobody said so\n", name, n);
            silent++;
        }
    }
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    assert_true(exhaust("load a family", load_family) > 100);
    assert_true(exhaust("load a user's kernel", load_user) > 100);
    assert_true(exhaust("plan", make_plan) > 10);
    assert_true(exhaust("bundle", make_bundle) > 10);
}

static int setup(void **state)
{
    (void)state;
    struct gk_diag diag;
    gk_diag_init(&diag);
    bool good = gk_hash_setup(NULL) == GK_OK &&
                gk_device_props_builtin("emu:sm_80", &dev, NULL) == GK_OK &&
                gk_catalog_load_for(DATA "toy", "scale", &catalog, &diag) == GK_OK &&
                gk_problem_from_text(&gk_catalog_op(catalog, 0)->fields, "scale{\"N\":5000}",
                                     &problem, NULL) == GK_OK;
    gk_diag_fini(&diag);
    return good ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    gk_problem_fini(&problem);
    gk_catalog_destroy(catalog);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_allocation_may_fail)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
