/* Marks with hysteresis, and the ballast. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/state_dir.h"
#include "daemon/disk.h"

static void test_marks(void **state)
{
    const struct gk_disk_marks marks = {100, 150};
    static const struct {
        enum gk_core_disk now;
        uint64_t free;
        enum gk_core_disk next;
    } rows[] = {
        {GK_CORE_DISK_OK, 100, GK_CORE_DISK_OK},        {GK_CORE_DISK_OK, 99, GK_CORE_DISK_LOW},
        {GK_CORE_DISK_OK, 0, GK_CORE_DISK_LOW},         {GK_CORE_DISK_LOW, 100, GK_CORE_DISK_LOW},
        {GK_CORE_DISK_LOW, 149, GK_CORE_DISK_LOW},      {GK_CORE_DISK_LOW, 150, GK_CORE_DISK_OK},
        {GK_CORE_DISK_FULL, 49, GK_CORE_DISK_FULL},     {GK_CORE_DISK_FULL, 50, GK_CORE_DISK_LOW},
        {GK_CORE_DISK_FULL, 149, GK_CORE_DISK_LOW},     {GK_CORE_DISK_FULL, 150, GK_CORE_DISK_OK},
        {GK_CORE_DISK_OK, UINT64_MAX, GK_CORE_DISK_OK},
    };
    (void)state;
    for (size_t i = 0; i < GK_ARRAY_COUNT(rows); i++) {
        assert_int_equal(gk_disk_next(rows[i].now, rows[i].free, &marks), rows[i].next);
    }
}

static void test_ballast(void **state)
{
    const struct gk_disk_marks marks = {1 << 20, 2 << 20};
    char folder[] = "/tmp/gk-disk-XXXXXX", path[64];
    struct gk_err err = {0};
    struct stat info;
    bool made = true;
    (void)state;
    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof path, "%s/" GK_STATE_BALLAST, folder);
    /* With it the disk would be under the mark: not made. */
    assert_int_equal(gk_ballast_keep(folder, 65536, (2 << 20) + 65535, &marks, &made, &err), GK_OK);
    assert_false(made);
    assert_int_not_equal(stat(path, &info), 0);
    assert_int_equal(gk_ballast_keep(folder, 65536, (2 << 20) + 65536, &marks, &made, &err), GK_OK);
    assert_true(made);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_size, 65536);
    assert_true(info.st_blocks * 512 >= 65536); /* room, not a hole */
    assert_int_equal(info.st_mode & 077, 0);
    assert_int_equal(gk_ballast_keep(folder, 65536, UINT64_MAX, &marks, &made, &err), GK_OK);
    assert_false(made);
    assert_int_equal(gk_ballast_keep(folder, 0, 0, &marks, &made, &err), GK_OK);
    assert_true(made);
    assert_int_not_equal(stat(path, &info), 0);
    assert_int_equal(rmdir(folder), 0);
    assert_int_equal(gk_ballast_keep(folder, 65536, UINT64_MAX, &marks, &made, &err), GK_IO);
    assert_non_null(strstr(err.text, folder));
    uint64_t bytes = 0;
    assert_int_equal(gk_disk_free(folder, &bytes, &err), GK_IO);
    assert_int_equal(gk_disk_free("/tmp", &bytes, &err), GK_OK);
    assert_true(bytes > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_marks),
                                       cmocka_unit_test(test_ballast)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
