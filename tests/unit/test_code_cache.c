/* The code cache: what goes in comes out, a damaged entry is gone, the oldest are pruned first. */
#include "worker/code_cache.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[] = "/tmp/gk-test-code-XXXXXX";

static void path_of(const char *name, char *path, size_t size)
{
    struct gk_hash module = gk_hash_text(name), key = gk_code_key(&module, "13.0", "sm_80");
    gk_code_path(folder, &key, path, size);
}

static void write_entry(const char *name)
{
    char path[256];
    struct gk_compile_output output = {.compiled = true,
                                       .ptx = (char *)".version 8.0",
                                       .ptx_size = 12,
                                       .cubin = (unsigned char *)"\0\1\2\377",
                                       .cubin_size = 4,
                                       .log = (char *)"fine"};
    struct gk_err err = {0};
    path_of(name, path, sizeof path);
    assert_int_equal(gk_code_write(path, &output, &err), GK_OK);
}

static void round_trip(void **state)
{
    char path[256];
    struct gk_compile_output output = {0};
    struct gk_err err = {0};
    (void)state;
    path_of("a", path, sizeof path);
    assert_int_equal(gk_code_read(path, &output, &err), GK_NOT_FOUND);
    write_entry("a");
    assert_int_equal(gk_code_read(path, &output, &err), GK_OK);
    assert_true(output.compiled);
    assert_string_equal(output.ptx, ".version 8.0");
    assert_int_equal(output.cubin_size, 4);
    assert_memory_equal(output.cubin, "\0\1\2\377", 4);
    gk_compile_output_fini(&output);
}

/* An entry whose hash is right and whose parts do not fill it: made by another program. */
static void parts_that_do_not_fit(void **state)
{
    static const char *const bodies[] = {"1 3 4 2\nptx", "1 3 4 1\nptx....xy",
                                         "1 99999999 0 0\nptx", "", "1 3 4 2 ptx....xy"};
    (void)state;
    for (size_t i = 0; i < GK_ARRAY_COUNT(bodies); i++) {
        char path[256], hex[GK_HASH_TEXT_SIZE];
        struct gk_compile_output output = {0};
        struct gk_err err = {0};
        struct gk_hash hash = gk_hash_bytes(bodies[i], strlen(bodies[i]));
        write_entry("p");
        path_of("p", path, sizeof path);
        gk_hash_hex(&hash, hex);
        FILE *file = fopen(path, "w");
        assert_non_null(file);
        assert_true(fprintf(file, "gkc2 %s\n%s", hex, bodies[i]) > 0);
        assert_int_equal(fclose(file), 0);
        assert_int_equal(gk_code_read(path, &output, &err), GK_CORRUPT);
        assert_int_equal(gk_code_read(path, &output, &err), GK_NOT_FOUND); /* removed */
    }
}

static void damaged(void **state)
{
    char path[256];
    struct gk_compile_output output = {0};
    struct gk_err err = {0};
    (void)state;
    write_entry("b");
    path_of("b", path, sizeof path);
    FILE *file = fopen(path, "r+");
    assert_non_null(file);
    assert_int_equal(fseek(file, -3, SEEK_END), 0);
    assert_int_equal(fputc('x', file), 'x');
    assert_int_equal(fclose(file), 0);
    assert_int_equal(gk_code_read(path, &output, &err), GK_CORRUPT);
    assert_int_equal(gk_code_read(path, &output, &err), GK_NOT_FOUND); /* removed */
    assert_int_equal(truncate(path, 0), -1);
}

static void keys(void **state)
{
    struct gk_hash module = gk_hash_text("m");
    struct gk_hash a = gk_code_key(&module, "13.0", "sm_80");
    struct gk_hash b = gk_code_key(&module, "13.1", "sm_80"),
                   c = gk_code_key(&module, "13.0", "sm_90");
    (void)state;
    assert_false(gk_hash_equal(&a, &b) || gk_hash_equal(&a, &c) || gk_hash_equal(&b, &c));
}

static void prunes_oldest(void **state)
{
    char first[256], second[256];
    struct stat info;
    struct gk_err err = {0};
    struct timespec old[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    (void)state;
    write_entry("old");
    write_entry("new");
    path_of("old", first, sizeof first);
    path_of("new", second, sizeof second);
    assert_int_equal(utimensat(0, first, old, 0), 0);
    assert_int_equal(stat(second, &info), 0);
    assert_int_equal(gk_code_prune(folder, 1u << 30, &err), GK_OK);
    assert_int_equal(access(first, F_OK), 0);
    assert_int_equal(gk_code_prune(folder, (uint64_t)info.st_size * 2, &err), GK_OK);
    assert_int_equal(access(first, F_OK), -1);
    assert_int_equal(gk_code_prune(folder, 0, &err), GK_OK);
    assert_int_equal(access(second, F_OK), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(round_trip), cmocka_unit_test(damaged),
                                       cmocka_unit_test(parts_that_do_not_fit),
                                       cmocka_unit_test(keys), cmocka_unit_test(prunes_oldest)};
    struct gk_err err = {0};
    if (gk_hash_setup(&err) != GK_OK || !mkdtemp(folder)) {
        return 1;
    }
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    (void)gk_code_prune(folder, 0, NULL);
    return failed; /* empty folders stay in /tmp */
}
