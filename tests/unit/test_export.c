/*
 * Exported headers: golden text, compiled as C11 and C++17 with every warning an error, alone and
 * two together, and used by tests/data/export/use.c. GKTUNE_UPDATE_GOLDEN=1 writes the golden text
 * anew.
 */
#include "cli/export.h"

#include <ftw.h>
#include <setjmp.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define DATA GK_SOURCE_DIR "/tests/data/export"

extern char **environ;

static char folder[] = "/tmp/gk-test-export-XXXXXX";
static struct gk_json *data;
static struct gk_catalog *catalog;

static int setup(void **state)
{
    (void)state;
    struct gk_err err = {0};
    struct gk_diag diag;
    gk_diag_init(&diag);
    if (gk_hash_setup(&err) != GK_OK || !mkdtemp(folder) ||
        gk_json_load(DATA "/data.json", 1 << 20, &data, &err) != GK_OK) {
        (void)fprintf(stderr, "%s\n", err.text);
        return -1;
    }
    if (gk_catalog_load(DATA "/kernels", &catalog, &diag) != GK_OK) {
        (void)gk_diag_status(&diag, &err);
        (void)fprintf(stderr, "%s\n", err.text);
    }
    gk_diag_fini(&diag);
    return catalog ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *info, int type, struct FTW *where)
{
    (void)info;
    (void)type;
    (void)where;
    return remove(path);
}

static int teardown(void **state)
{
    (void)state;
    gk_json_free(data);
    gk_catalog_destroy(catalog);
    return nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void export_to(const char *dir, enum gk_export_format format, const char *arch,
                      struct gk_json **files)
{
    struct gk_export_ask ask = {.out_dir = dir, .format = format, .arch = arch};
    struct gk_err err = {0};
    if (gk_export_data(data, catalog, &ask, files, &err) != GK_OK) {
        fail_msg("%s", err.text);
    }
}

static char *load(const char *dir, const char *name)
{
    char *path = gk_asprintf("%s/%s", dir, name), *text = NULL;
    size_t size = 0;
    struct gk_err err = {0};
    assert_non_null(path);
    if (gk_file_load(path, 1 << 20, &text, &size, &err) != GK_OK) {
        fail_msg("%s", err.text);
    }
    free(path);
    return text;
}

static int run(const char *const *argv)
{
    pid_t pid = 0;
    int status = 0;
    assert_int_equal(
        posix_spawnp(&pid, argv[0], NULL, NULL, (char *const *)(uintptr_t)argv, environ), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

static void test_golden(void **state)
{
    (void)state;
    static const char *const names[] = {"gk_pick_emu_sm_90a.h", "gk_pick_emu_sm_80.h"};
    export_to(folder, GK_EXPORT_HEADER, NULL, NULL);
    for (size_t i = 0; i < GK_ARRAY_COUNT(names); i++) {
        char *text = load(folder, names[i]);
        if (getenv("GKTUNE_UPDATE_GOLDEN")) {
            char *path = gk_asprintf(DATA "/golden/%s", names[i]);
            assert_int_equal(gk_file_store(path, text, strlen(text), NULL), GK_OK);
            free(path);
        }
        char *golden = load(DATA "/golden", names[i]);
        if (strcmp(text, golden) != 0) {
            size_t at = 0;
            while (text[at] && text[at] == golden[at]) {
                at++;
            }
            fail_msg("%s differs from its golden text at byte %zu: '%.60s' for '%.60s'", names[i],
                     at, text + at, golden + at);
        }
        free(text);
        free(golden);
    }
}

/* Times and dates are evidence: the header does not know them. */
static void test_bytes_depend_on_picks_alone(void **state)
{
    (void)state;
    char *before = load(folder, "gk_pick_emu_sm_90a.h");
    struct gk_json *changed = gk_json_copy(data), *rows = gk_json_get_mutable(changed, "rows");
    for (size_t i = 0; i < gk_json_count(rows); i++) {
        struct gk_json *row = (struct gk_json *)(uintptr_t)gk_json_at(rows, i);
        assert_true(gk_json_set_real(row, "time_ns", 5.0 + (double)i));
        assert_true(gk_json_set_int(row, "picked_ms", 123456789));
        assert_true(gk_json_set_string(row, "reason", "another"));
    }
    char *other = gk_asprintf("%s/other", folder);
    struct gk_export_ask ask = {.out_dir = other, .format = GK_EXPORT_HEADER, .arch = "emu-sm_90a"};
    assert_int_equal(gk_export_data(changed, catalog, &ask, NULL, NULL), GK_OK);
    char *after = load(other, "gk_pick_emu_sm_90a.h");
    assert_string_equal(before, after);
    char *evidence = load(other, "gk_pick_emu_sm_90a.evidence.json");
    assert_non_null(strstr(evidence, "123456789"));
    free(evidence);
    free(after);
    free(other);
    free(before);
    gk_json_free(changed);
}

static void test_files(void **state)
{
    (void)state;
    struct gk_json *files = NULL;
    char *dir = gk_asprintf("%s/files", folder);
    export_to(dir, GK_EXPORT_HEADER, "emu-sm_90a", &files);
    static const char *const wanted[] = {
        "gk_pick_emu_sm_90a.h",    "gk_pick_emu_sm_90a.evidence.json",
        "src/pick/pick_vec.cuh",   "src/pick/helper.cuh",
        "src/include/gk/tiny.cuh", "src/pick/pick_reduce.cuh",
        "src/pick/pick_map.cuh",   "CHECKSUMS"};
    assert_int_equal(gk_json_count(files), GK_ARRAY_COUNT(wanted));
    char *sums = load(dir, "CHECKSUMS");
    for (size_t i = 0; i < GK_ARRAY_COUNT(wanted); i++) {
        bool found = false;
        for (size_t j = 0; j < gk_json_count(files); j++) {
            found |= strcmp(gk_json_string(gk_json_at(files, j), ""), wanted[i]) == 0;
        }
        if (!found) {
            fail_msg("%s is missing", wanted[i]);
        }
        if (strcmp(wanted[i], "CHECKSUMS") != 0) {
            struct gk_hash hash;
            char hex[GK_HASH_TEXT_SIZE], *path = gk_asprintf("%s/%s", dir, wanted[i]);
            assert_int_equal(gk_hash_file(path, 1 << 20, &hash, NULL), GK_OK);
            gk_hash_hex(&hash, hex);
            const char *line = strstr(sums, wanted[i]);
            assert_non_null(line);
            assert_memory_equal(line - 66, hex, 64);
            free(path);
        }
    }
    free(sums);
    free(dir);
    gk_json_free(files);
}

static void test_json_format(void **state)
{
    (void)state;
    char *dir = gk_asprintf("%s/json", folder);
    export_to(dir, GK_EXPORT_JSON, "emu-sm_90a", NULL);
    char *text = load(dir, "gk_pick_emu_sm_90a.json");
    struct gk_json *json = NULL;
    assert_int_equal(gk_json_parse(text, strlen(text), "export", &json, NULL), GK_OK);
    const struct gk_json *rows = gk_json_get(json, "rows");
    assert_int_equal(gk_json_count(rows), 4);
    const struct gk_json *first = gk_json_at(rows, 0);
    assert_string_equal(gk_json_get_string(first, "problem", ""), "pick{\"alpha\":0.5,\"n\":1000}");
    assert_int_equal(gk_json_get_int(gk_json_get(first, "params"), "BLOCK", 0), 128);
    assert_string_equal(gk_json_get_string(gk_json_get(first, "params"), "WAY", ""), "flat");
    assert_null(gk_json_get(first, "time_ns"));
    assert_true(gk_json_get_bool(json, "modelled", false));
    gk_json_free(json);
    free(text);
    free(dir);
}

static void test_nothing_to_export(void **state)
{
    (void)state;
    struct gk_export_ask ask = {.out_dir = folder, .format = GK_EXPORT_HEADER, .arch = "sm_90a"};
    struct gk_err err = {0};
    assert_int_equal(gk_export_data(data, catalog, &ask, NULL, &err), GK_NOT_FOUND);
    assert_non_null(strstr(err.text, "sm_90a"));
    ask.arch = "emu-sm_90a"; /* has rows, of another policy */
    ask.policy = "warm";
    assert_int_equal(gk_export_data(data, catalog, &ask, NULL, &err), GK_NOT_FOUND);
    assert_non_null(strstr(err.text, "policy warm"));
}

static void compile(const char *compiler, const char *standard, const char *language,
                    const char *source, const char *program)
{
    char *include = gk_asprintf("-I%s", folder);
    const char *argv[] = {
        compiler, standard, "-Wall",  "-Wextra", "-Werror", "-Wconversion", "-pedantic",
        include,  "-x",     language, source,    "-o",      program,        program ? NULL : "-c",
        NULL};
    if (!program) {
        argv[11] = "-fsyntax-only";
        argv[12] = NULL;
    }
    if (run(argv) != 0) {
        fail_msg("%s %s refuses %s", compiler, standard, source);
    }
    free(include);
}

static void test_compiles_alone(void **state)
{
    (void)state;
    char *source = gk_asprintf("%s/alone.c", folder);
    static const char *const headers[] = {"gk_pick_emu_sm_90a.h", "gk_pick_emu_sm_80.h"};
    for (size_t i = 0; i < GK_ARRAY_COUNT(headers); i++) {
        char *text = gk_asprintf("#include \"%s\"\n", headers[i]);
        assert_int_equal(gk_file_store(source, text, strlen(text), NULL), GK_OK);
        compile("cc", "-std=c11", "c", source, NULL);
        compile("c++", "-std=c++17", "c++", source, NULL);
        free(text);
    }
    free(source);
}

static void test_two_together_answer_right(void **state)
{
    (void)state;
    char *program = gk_asprintf("%s/use", folder);
    compile("cc", "-std=c11", "c", DATA "/use.c", program);
    assert_int_equal(run((const char *const[]){program, NULL}), 0);
    compile("c++", "-std=c++17", "c++", DATA "/use.c", program);
    assert_int_equal(run((const char *const[]){program, NULL}), 0);
    free(program);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),
        cmocka_unit_test(test_bytes_depend_on_picks_alone),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_json_format),
        cmocka_unit_test(test_nothing_to_export),
        cmocka_unit_test(test_compiles_alone),
        cmocka_unit_test(test_two_together_answer_right),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
