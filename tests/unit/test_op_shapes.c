/*
 * The shapes files of models (examples/shapes): each loads for the op that it names, and every
 * problem of it has a default that is legal, on the oldest target and on the newest.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <dirent.h>

#include "core/shapes.h"
#include "kernels/catalog.h"
#include "tests/support/check.h"

#define FOLDER GK_SOURCE_DIR "/examples/shapes"

static struct gk_catalog *catalog;

static int set_up(void **state)
{
    struct gk_diag diag;
    struct gk_err err = {0};
    (void)state;
    gk_diag_init(&diag);
    if (gk_hash_setup(&err) != GK_OK ||
        gk_catalog_load(GK_SOURCE_DIR "/kernels", &catalog, &diag) != GK_OK) {
        (void)gk_diag_status(&diag, &err); /* fills err; the failure is known */
        print_error("%s\n", err.text);
        return -1;
    }
    gk_diag_fini(&diag);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    gk_catalog_destroy(catalog);
    return 0;
}

static void default_is_legal(const struct gk_problem *problem, const struct gk_op *op,
                             const char *device, const char *file)
{
    struct gk_space_def def = {0};
    struct gk_device_props props;
    struct gk_config config;
    struct gk_err err = {0};
    uint32_t tree = 0;
    assert_ok(gk_device_props_builtin(device, &props, &err), err);
    if (gk_catalog_space(op, problem, &props, &def, &err) != GK_OK ||
        gk_catalog_default(op, problem, &def, &config, &tree, &err) != GK_OK) {
        fail_msg("%s: %s on %s: %s", file, problem->canonical, device, err.text);
    }
    gk_space_def_fini(&def);
}

static uint32_t check_file(const char *file)
{
    struct gk_op_lookup lookup = gk_catalog_lookup(catalog);
    struct gk_shapes shapes = {0};
    struct gk_diag diag;
    struct gk_err err = {0};
    char path[600], *text = NULL;
    size_t size = 0;
    struct gk_json *json = NULL;
    (void)snprintf(path, sizeof path, "%s/%.250s", FOLDER, file);
    assert_ok(gk_file_load(path, 1 << 20, &text, &size, &err), err);
    assert_ok(gk_json_parse(text, size, file, &json, &err), err);
    gk_diag_init(&diag);
    if (gk_shapes_load(path, gk_json_get_string(json, "op", ""), &lookup, &shapes, &diag) !=
        GK_OK) {
        (void)gk_diag_status(&diag, &err); /* fills err; the failure is known */
        fail_msg("%s: %s", file, err.text);
    }
    assert_int_equal(shapes.duplicates, 0);
    for (uint32_t i = 0; i < shapes.count; i++) {
        const struct gk_op *op = gk_catalog_find(catalog, shapes.problems[i].op->op);
        assert_non_null(op);
        default_is_legal(&shapes.problems[i], op, "emu:sm_80", file);
        default_is_legal(&shapes.problems[i], op, "emu:sm_90a", file);
    }
    uint32_t count = shapes.count;
    gk_shapes_fini(&shapes);
    gk_diag_fini(&diag);
    gk_json_free(json);
    free(text);
    return count;
}

static void models(void **state)
{
    uint32_t files = 0, problems = 0;
    DIR *dir = opendir(FOLDER);
    (void)state;
    assert_non_null(dir);
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        size_t size = strlen(entry->d_name);
        if (size > 5 && strcmp(entry->d_name + size - 5, ".json") == 0) {
            problems += check_file(entry->d_name);
            files++;
        }
    }
    (void)closedir(dir);
    print_message("%u problems of %u files\n", problems, files);
    assert_true(files >= 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(models)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
