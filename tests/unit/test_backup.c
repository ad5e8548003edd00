/* Small backups: what comes back is what was there, 100,000 trials fit in 16 MiB, damage is seen.
 */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/config.h"
#include "db/db.h"
#include "tests/support/sample_trials.h"

#define TRIALS 4000

static char folder[64];

static int make_folder(void **state)
{
    (void)state;
    (void)snprintf(folder, sizeof folder, "/tmp/gktest_backup_XXXXXX");
    return mkdtemp(folder) && gk_hash_setup(NULL) == GK_OK ? 0 : -1;
}

static void drop(const char *name)
{
    static const char *const tails[] = {"", "-wal", "-journal"};
    for (size_t i = 0; i < GK_ARRAY_COUNT(tails); i++) {
        char *path = gk_asprintf("%s/%s%s", folder, name, tails[i]);
        (void)unlink(path); /* most do not exist */
        free(path);
    }
}

static int drop_folder(void **state)
{
    static const char *const names[] = {"a.db", "b.db", "c.db"};
    (void)state;
    for (size_t i = 0; i < GK_ARRAY_COUNT(names); i++) {
        drop(names[i]);
    }
    return rmdir(folder);
}

static struct gk_db *open_store(const char *name)
{
    struct gk_db *db = NULL;
    struct gk_err err = {0};
    char *path = gk_asprintf("%s/%s", folder, name);
    if (gk_db_open(path, false, &db, &err) != GK_OK) {
        fail_msg("%s", err.text);
    }
    free(path);
    return db;
}

/* Rows of both stores, without what a small backup gives up. */
static void assert_same_rows(struct gk_json *a, struct gk_json *b, const char *const *lost)
{
    assert_int_equal(gk_json_count(a), gk_json_count(b));
    for (size_t i = 0; i < gk_json_count(a); i++) {
        struct gk_json *x = (struct gk_json *)(uintptr_t)gk_json_at(a, i), /* ours, not lent */
            *y = (struct gk_json *)(uintptr_t)gk_json_at(b, i);
        for (size_t k = 0; lost[k]; k++) {
            assert_true(gk_json_set(x, lost[k], gk_json_new_null()) &&
                        gk_json_set(y, lost[k], gk_json_new_null()));
        }
        char *left = gk_json_text(x), *right = gk_json_text(y);
        assert_string_equal(left, right);
        free(left);
        free(right);
    }
}

static void what_comes_back_is_what_was_there(void **state)
{
    static const char *const lost[] = {"token", "leased_ms", "created_ms", NULL};
    static const char *const lost_task[] = {"round", NULL};
    struct gk_err err = {0};
    struct gk_json *a = NULL, *b = NULL, *report = NULL;
    struct stat info;
    (void)state;
    struct gk_db *db = open_store("a.db");
    sample_trials(db, TRIALS);
    /* Rows that say something else than what would follow. */
    struct gk_json *odd = gk_json_new_object();
    assert_true(gk_json_set_string(odd, "message", "another") &&
                gk_json_set_int(odd, "input_set", 3) && gk_json_set_real(odd, "time_ns", 1.5));
    assert_int_equal(gk_db_trial_update(db, 7, odd, &err), GK_OK);
    gk_json_free(odd);
    odd = gk_json_new_object();
    assert_true(gk_json_set_int(odd, "input_set", 3));
    assert_int_equal(gk_db_trial_update(db, 9, odd, &err), GK_OK);
    gk_json_free(odd);
    char *path = gk_asprintf("%s/b.db", folder);
    if (gk_db_backup(db, path, true, &err) != GK_OK) {
        fail_msg("%s", err.text);
    }
    assert_int_equal(stat(path, &info), 0);
    int64_t fixed = 160 << 10, per_100000 = (info.st_size - fixed) * (100000 / TRIALS) + fixed;
    print_message("%" PRId64 " bytes for %d trials\n", (int64_t)info.st_size, TRIALS);
    assert_true(per_100000 < INT64_C(15) << 20); /* a store of 100,000 may take 16 MiB */
    struct gk_db *back = open_store("b.db");     /* unpacks */
    assert_int_equal(gk_db_check(back, &report, &err), GK_OK);
    assert_int_equal(gk_json_count(gk_json_get(report, "problems")),
                     1); /* as before: the odd one */
    assert_int_equal(gk_json_get_int(report, "trials_checked", 0), TRIALS);
    gk_json_free(report);
    for (int64_t task = 1; task <= TRIALS / SAMPLE_TRIALS_A_TASK; task++) {
        assert_int_equal(gk_db_trials_of(db, task, 0, SAMPLE_TRIALS_A_TASK, &a, NULL), GK_OK);
        assert_int_equal(gk_db_trials_of(back, task, 0, SAMPLE_TRIALS_A_TASK, &b, NULL), GK_OK);
        assert_same_rows(a, b, lost);
        gk_json_free(a);
        gk_json_free(b);
    }
    assert_int_equal(gk_db_tasks_of(db, 1, &a, NULL), GK_OK);
    assert_int_equal(gk_db_tasks_of(back, 1, &b, NULL), GK_OK);
    assert_same_rows(a, b, lost_task);
    gk_json_free(a);
    gk_json_free(b);
    gk_db_close(back);
    back = open_store("b.db"); /* once is enough: it is a store like any other now */
    assert_int_equal(gk_db_list_trials(back, 1, false, 0, &a, NULL), GK_OK);
    assert_int_equal(gk_json_count(gk_json_get(a, "trials")), 500);
    gk_json_free(a);
    gk_db_close(back);
    gk_db_close(db);
    free(path);
    drop("b.db");
}

/* Any byte of a part that changed is told by name, and nothing is half there. */
static void damage_is_seen(void **state)
{
    struct gk_err err = {0};
    char *bytes = NULL, *path = gk_asprintf("%s/c.db", folder);
    size_t size = 0;
    struct gk_db *db = open_store("a.db"), *back = NULL;
    (void)state;
    assert_int_equal(gk_db_backup(db, path, true, &err), GK_OK);
    gk_db_close(db);
    assert_int_equal(gk_file_load(path, 64 << 20, &bytes, &size, &err), GK_OK);
    bytes[size / 2] ^= 0x20; /* in the middle of the trials' parts */
    assert_int_equal(gk_file_store(path, bytes, size, &err), GK_OK);
    assert_int_equal(gk_db_open(path, false, &back, &err), GK_CORRUPT);
    assert_non_null(strstr(err.text, "part"));
    free(bytes);
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_comes_back_is_what_was_there),
        cmocka_unit_test(damage_is_seen),
    };
    return cmocka_run_group_tests(tests, make_folder, drop_folder);
}
