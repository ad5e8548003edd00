/* What happens to a store from outside: damage, copies, folders, a log that grows, odd names. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/state_dir.h"
#include "db/db_internal.h"
#include "tests/support/check.h"

static char folder[64];

static char *path_of(const char *name)
{
    char *path = gk_asprintf("%s/%s", folder, name);
    assert_non_null(path);
    return path;
}

static int make_folder(void **state)
{
    (void)state;
    (void)snprintf(folder, sizeof folder, "/tmp/gk-store-XXXXXX");
    return mkdtemp(folder) && gk_hash_setup(NULL) == GK_OK ? 0 : -1;
}

static int drop_folder(void **state)
{
    char *command[] = {gk_strdup("store"), gk_strdup("copy"), gk_strdup("new"),
                       gk_strdup("backup")};
    (void)state;
    for (size_t i = 0; i < GK_ARRAY_COUNT(command); i++) {
        static const char *const ends[] = {"", "-wal", "-journal"};
        for (size_t k = 0; k < GK_ARRAY_COUNT(ends); k++) {
            char *path = gk_asprintf("%s/%s%s", folder, command[i], ends[k]);
            (void)unlink(path); /* most are not there */
            free(path);
        }
        free(command[i]);
    }
    return rmdir(folder);
}

static struct gk_db *open_store(const char *path)
{
    struct gk_db *db = NULL;
    struct gk_err err = {0};
    assert_ok(gk_db_open(path, true, &db, &err), err);
    return db;
}

static void fill(struct gk_db *db, int64_t rows)
{
    struct gk_err err = {0};
    int64_t problem = 0;
    for (int64_t i = 0; i < rows; i++) {
        char text[64];
        (void)snprintf(text, sizeof text, "scale{\"N\":%lld}", (long long)i);
        assert_ok(gk_db_problem_put(db, "scale", text, &problem, &err), err);
    }
    assert_ok(gk_db_commit(db, &err), err);
}

static void put_byte(const char *path, off_t at, unsigned char byte)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    assert_int_equal(close(fd), 0);
}

static void copy_file(const char *from, const char *to)
{
    char *bytes = NULL;
    size_t size = 0;
    struct gk_err err = {0};
    assert_ok(gk_file_load(from, 64u << 20, &bytes, &size, &err), err);
    assert_ok(gk_file_store(to, bytes, size, &err), err);
    free(bytes);
}

/* Each damage is refused, and the file is left as it is: nothing is begun anew in its place. */
static void damage_is_refused_at_the_start(void **state)
{
    static const struct {
        off_t at;
        unsigned char byte;
    } damages[] = {{0, 'X'}, {16, 0x7f}, {19, 9}, {60, 0xff}, {68, 0}, {100, 0xee}};
    char *store = path_of("store"), *copy = path_of("copy");
    (void)state;
    struct gk_db *db = open_store(store);
    fill(db, 300);
    gk_db_close(db);
    for (size_t i = 0; i < GK_ARRAY_COUNT(damages); i++) {
        struct gk_err err = {0};
        struct stat before, after;
        copy_file(store, copy);
        put_byte(copy, damages[i].at, damages[i].byte);
        assert_int_equal(stat(copy, &before), 0);
        db = NULL;
        enum gk_status status = gk_db_open(copy, true, &db, &err);
        if (status == GK_OK || err.text[0] == '\0') {
            fail_msg("byte %ld: %s %s", (long)damages[i].at, gk_status_name(status), err.text);
        }
        assert_contains(err.text, copy);
        assert_int_equal(stat(copy, &after), 0);
        assert_int_equal(before.st_size, after.st_size);
        assert_int_equal(unlink(copy), 0);
    }
    free(store);
    free(copy);
}

/* Without its log a copy is whole in form and lacks what was stored last. */
static void a_copy_of_a_live_store_is_no_backup(void **state)
{
    char *store = path_of("store"), *copy = path_of("copy"), *fresh = path_of("new"),
         *backup = path_of("backup");
    struct gk_err err = {0};
    (void)state;
    struct gk_db *db = open_store(store);
    fill(db, 20);
    copy_file(store, copy);
    assert_ok(gk_db_backup(db, backup, false, &err), err);
    gk_db_close(db);
    assert_status(gk_db_restore(copy, fresh, &err), GK_INPUT, err);
    assert_contains(err.text, "gktune db backup");
    assert_int_equal(access(fresh, F_OK), -1);
    assert_ok(gk_db_restore(backup, fresh, &err), err);
    free(store);
    free(copy);
    free(fresh);
    free(backup);
}

static void the_log_is_bounded(void **state)
{
    char *store = path_of("store"), *log = path_of("store-wal");
    struct gk_err err = {0};
    struct stat info;
    off_t most = 0;
    (void)state;
    struct gk_db *db = open_store(store);
    for (int64_t i = 0; i < 60; i++) { /* some 60 MB in all */
        char *text = calloc(1, 1u << 20);
        assert_non_null(text);
        memset(text, 'x', (1u << 20) - 1);
        int size = snprintf(text, 32, "%lld", (long long)i);
        text[size] = 'x';
        int64_t problem = 0;
        assert_ok(gk_db_problem_put(db, "scale", text, &problem, &err), err);
        assert_ok(gk_db_commit(db, &err), err);
        assert_ok(gk_db_checkpoint(db, false, &err), err);
        free(text);
        if (stat(log, &info) == 0 && info.st_size > most) {
            most = info.st_size;
        }
    }
    assert_true(most > 1 << 20);
    assert_true(most < 20 << 20);
    assert_ok(gk_db_checkpoint(db, true, &err), err); /* as when nothing happens */
    assert_true(stat(log, &info) != 0 || info.st_size == 0);
    gk_db_close(db);
    free(store);
    free(log);
}

static void put_megabytes(struct gk_db *db, int64_t from, int64_t count)
{
    char *text = calloc(1, 1u << 20);
    struct gk_err err = {0};
    int64_t problem = 0;
    assert_non_null(text);
    for (int64_t i = from; i < from + count; i++) {
        memset(text, 'x', (1u << 20) - 1);
        int size = snprintf(text, 32, "%lld", (long long)i);
        text[size] = 'x';
        assert_ok(gk_db_problem_put(db, "scale", text, &problem, &err), err);
    }
    free(text);
}

static void sync_log(struct gk_db *db)
{
    struct gk_db_sync sync = {0};
    struct gk_err err = {0};
    assert_ok(gk_db_sync_begin(db, &sync, &err), err);
    gk_db_sync_run(&sync);
    assert_ok(gk_db_sync_end(db, &sync, &err), err);
}

/* The first bytes of the log, which change when it is written over, and its length. */
static uint64_t beginning(const char *log)
{
    unsigned char bytes[32];
    struct stat info;
    FILE *file = fopen(log, "rb");
    assert_non_null(file);
    assert_int_equal(fread(bytes, 1, sizeof bytes, file), sizeof bytes);
    assert_int_equal(fstat(fileno(file), &info), 0);
    assert_int_equal(fclose(file), 0);
    struct gk_hash hash = gk_hash_bytes(bytes, sizeof bytes);
    uint64_t sum = 0;
    memcpy(&sum, &hash, sizeof sum);
    return sum + (uint64_t)info.st_size;
}

/* Until the sync of the file has ended, the log is all that is safe: neither a transaction that is
 * larger than the cache, nor a checkpoint, nor closing writes over it. */
static void a_log_is_kept_until_its_copy_is_synced(void **state)
{
    char *store = path_of("store"), *log = path_of("store-wal");
    struct gk_db_sync sync = {0};
    struct gk_err err = {0};
    struct gk_json *rows = NULL;
    bool copied = true;
    (void)state;
    struct gk_db *db = open_store(store);
    assert_ok(gk_db_sync_apart(db, &err), err);
    put_megabytes(db, 0, 18);
    assert_ok(gk_db_copy_log(db, &sync, &copied, &err), err);
    assert_false(copied); /* a transaction is open */
    assert_false(gk_db_log_is_long(db));
    assert_ok(gk_db_commit(db, &err), err);
    assert_true(gk_db_log_is_long(db));
    assert_ok(gk_db_copy_log(db, &sync, &copied, &err), err);
    assert_false(copied); /* what was committed is not synced */
    sync_log(db);
    assert_ok(gk_db_copy_log(db, &sync, &copied, &err), err);
    assert_true(copied);
    assert_false(gk_db_log_is_long(db));
    uint64_t before = beginning(log);
    put_megabytes(db, 18, 24);
    assert_int_equal(beginning(log), before);
    gk_db_sync_run(&sync);
    assert_ok(gk_db_sync_end(db, &sync, &err), err);
    assert_ok(gk_db_commit(db, &err), err);
    assert_true(beginning(log) != before);
    sync_log(db);
    assert_ok(gk_db_copy_log(db, &sync, &copied, &err), err);
    assert_true(copied);
    before = beginning(log);
    assert_ok(gk_db_checkpoint(db, true, &err), err);
    assert_int_equal(beginning(log), before);
    gk_db_close(db);
    assert_int_equal(beginning(log), before);
    db = open_store(store);
    assert_ok(gk_db_check(db, &rows, &err), err);
    assert_true(gk_json_get_bool(rows, "ok", false));
    int64_t last = 0, again = 0;
    assert_ok(gk_db_problem_put(db, "scale", "new", &last, &err), err);
    put_megabytes(db, 0, 42); /* all of them are there */
    assert_ok(gk_db_problem_put(db, "scale", "newer", &again, &err), err);
    assert_int_equal(again, last + 1);
    gk_json_free(rows);
    gk_db_close(db);
    free(store);
    free(log);
}

static void state_folders(void **state)
{
    char *nested = path_of("a/b/c"), *file = path_of("store"), *inside = path_of("store/state");
    struct gk_err err = {0};
    struct stat info;
    (void)state;
    assert_ok(gk_state_dir_make(nested, &err), err);
    assert_int_equal(stat(nested, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0700);
    assert_ok(gk_file_store(file, "x", 1, &err), err);
    assert_true(gk_state_dir_make(file, &err) != GK_OK); /* a file stands there */
    assert_contains(err.text, file);
    assert_true(gk_state_dir_make(inside, &err) != GK_OK);
    if (geteuid() == 0) { /* somebody else's folder */
        assert_int_equal(chown(nested, 65534, 65534), 0);
        assert_true(gk_state_dir_make(nested, &err) != GK_OK);
        assert_contains(err.text, nested);
    }
    char *parts[] = {nested, path_of("a/b"), path_of("a")};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(rmdir(parts[i]), 0);
        free(parts[i]);
    }
    free(file);
    free(inside);
}

/* Somebody clears the folder, or puts another file there, while the store is open: what is stored
 * then would be found by nobody. The log is left as it is for whoever puts the file back. */
static void a_store_that_was_taken_away_is_noticed(void **state)
{
    char *store = path_of("store"), *log = path_of("store-wal"), *aside = path_of("aside");
    struct gk_err err = {0};
    struct stat info;
    (void)state;
    for (int way = 0; way < 3; way++) { /* moved, replaced, without its log */
        struct gk_db *db = open_store(store);
        fill(db, 20);
        assert_ok(gk_db_in_place(db, &err), err);
        assert_ok(gk_db_in_place(db, &err), err);
        assert_int_equal(rename(way == 2 ? log : store, aside), 0);
        if (way == 1) {
            assert_ok(gk_file_store(store, "another", 7, &err), err);
        }
        assert_status(gk_db_in_place(db, &err), GK_IO, err);
        assert_contains(err.text, way == 2 ? log : store);
        assert_contains(err.text, way == 1 ? "was replaced" : "was removed or moved");
        gk_db_close(db);
        assert_int_equal(rename(aside, way == 2 ? log : store), 0);
        assert_int_equal(stat(log, &info), 0);
        assert_true(info.st_size > 0);
        db = open_store(store);
        int64_t count = 0;
        assert_ok(db_int(db, &err, &count, "SELECT count(*) FROM problems", ""), err);
        assert_int_equal(count, 20);
        gk_db_close(db);
        assert_int_equal(unlink(store), 0);
    }
    struct gk_db *db = NULL;
    assert_ok(gk_db_open(":memory:", true, &db, &err), err);
    assert_ok(gk_db_in_place(db, &err), err);
    gk_db_close(db);
    free(store);
    free(log);
    free(aside);
}

static void names_are_only_names(void **state)
{
    static const char *const names[] = {
        "'; DROP TABLE jobs; --",         "\" OR 1=1 --", "%", "_", "a\\'b",
        "x') UNION SELECT * FROM meta --"};
    char *store = path_of("store");
    struct gk_err err = {0};
    (void)state;
    struct gk_db *db = open_store(store);
    for (size_t i = 0; i < GK_ARRAY_COUNT(names); i++) {
        int64_t first = 0, second = 0, count = 0;
        struct gk_json *page = NULL, *row = NULL;
        assert_ok(gk_db_problem_put(db, names[i], names[i], &first, &err), err);
        assert_ok(gk_db_problem_put(db, names[i], names[i], &second, &err), err);
        assert_int_equal(first, second);
        assert_ok(gk_db_list_jobs(db, 0, names[i], &page, &err), err);
        assert_int_equal(gk_json_count(gk_json_get(page, "jobs")), 0);
        gk_json_free(page);
        assert_status(gk_db_job_by_submit(db, names[i], &row, &err), GK_NOT_FOUND, err);
        assert_ok(db_int(db, &err, &count, "SELECT count(*) FROM jobs", ""), err);
        assert_int_equal(count, 0);
    }
    assert_ok(gk_db_commit(db, &err), err);
    gk_db_close(db);
    free(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(damage_is_refused_at_the_start, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(a_copy_of_a_live_store_is_no_backup, make_folder,
                                        drop_folder),
        cmocka_unit_test_setup_teardown(the_log_is_bounded, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(a_log_is_kept_until_its_copy_is_synced, make_folder,
                                        drop_folder),
        cmocka_unit_test_setup_teardown(state_folders, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(names_are_only_names, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(a_store_that_was_taken_away_is_noticed, make_folder,
                                        drop_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
