/* The store's side of operators' work: audit trail, epochs over restores, backups in steps, fences,
 * drains, dead letters, pruning in batches, the scrub. */
#include <dirent.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "db/db.h"
#include "tests/support/sample_trials.h"

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
    (void)snprintf(folder, sizeof folder, "/tmp/gktest_ops_XXXXXX");
    return mkdtemp(folder) && gk_hash_setup(NULL) == GK_OK ? 0 : -1;
}

static int drop_folder(void **state)
{
    (void)state;
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    for (const struct dirent *entry; (entry = readdir(dir));) {
        char *path = path_of(entry->d_name);
        (void)unlink(path); /* not "." and ".." */
        free(path);
    }
    (void)closedir(dir);
    return rmdir(folder);
}

static struct gk_db *open_store(const char *name)
{
    struct gk_db *db = NULL;
    struct gk_err err = {0};
    char *path = path_of(name);
    if (gk_db_open(path, true, &db, &err) != GK_OK) {
        fail_msg("%s", err.text);
    }
    free(path);
    return db;
}

static size_t problems_of(struct gk_db *db, char first_out[512])
{
    struct gk_json *report = NULL;
    struct gk_err err = {0};
    if (gk_db_check(db, &report, &err) != GK_OK) {
        fail_msg("%s", err.text);
    }
    const struct gk_json *problems = gk_json_get(report, "problems");
    size_t count = gk_json_count(problems);
    (void)snprintf(first_out, 512, "%s", gk_json_string(gk_json_at(problems, 0), ""));
    assert_int_equal(gk_json_get_bool(report, "ok", false), count == 0);
    gk_json_free(report);
    return count;
}

static void say(struct gk_db *db, const char *what, const char *reason)
{
    struct gk_db_audit line = {.who = "ann", .what = what, .target = "store", .reason = reason};
    assert_int_equal(gk_db_audit_add(db, 1750000000000, &line, NULL), GK_OK);
}

/* A page is a message: it ends before it is too long for one, whatever stands in its rows, and who
 * follows the cursors sees each row once. */
static void pages_fit_a_message(void **state)
{
    static char reason[3000], huge[500000];
    struct gk_db *db = open_store("pages.db");
    int64_t cursor = 0, next = 1, seen = 0;
    (void)state;
    memset(reason, 'r', sizeof reason - 1);
    memset(huge, 'h', sizeof huge - 1); /* longer than a page by itself */
    for (int i = 0; i < 400; i++) {
        say(db, "note", i == 200 ? huge : reason);
    }
    for (int page = 0; next != 0; page++, cursor = next) {
        struct gk_json *rows = NULL;
        struct gk_buf text = {0};
        assert_true(page < 20);
        assert_int_equal(gk_db_list_audit(db, cursor, &rows, NULL), GK_OK);
        const struct gk_json *lines = gk_json_get(rows, "lines");
        assert_int_equal(gk_json_canonical(rows, &text, NULL), GK_OK);
        assert_true(gk_json_count(lines) > 0);
        assert_true(gk_json_count(lines) == 1 || text.size < 400000);
        for (size_t i = 0; i < gk_json_count(lines); i++) {
            assert_int_equal(gk_json_get_int(gk_json_at(lines, i), "line", 0), ++seen);
        }
        next = gk_json_get_int(rows, "next", 0);
        gk_buf_fini(&text);
        gk_json_free(rows);
    }
    assert_int_equal(seen, 400);
    gk_db_close(db);
}

/* Changes one occurrence of a text in a closed store, keeping its length. */
static void change_bytes(const char *name, const char *from, const char *to)
{
    char *path = path_of(name), *bytes = NULL;
    size_t size = 0, found = 0;
    assert_int_equal(strlen(from), strlen(to));
    assert_int_equal(gk_file_load(path, 64 << 20, &bytes, &size, NULL), GK_OK);
    for (size_t i = 0; i + strlen(from) <= size; i++) {
        if (memcmp(bytes + i, from, strlen(from)) == 0) {
            memcpy(bytes + i, to, strlen(to));
            found++;
        }
    }
    assert_true(found > 0);
    assert_int_equal(gk_file_store(path, bytes, size, NULL), GK_OK);
    free(bytes);
    free(path);
}

static void audit_is_a_chain(void **state)
{
    (void)state;
    char text[512];
    struct gk_json *page = NULL;
    struct gk_db *db = open_store("audit.db");
    int64_t epoch = 0;
    assert_int_equal(gk_db_start(db, &epoch, NULL), GK_OK);
    say(db, "drain", "first reason");
    say(db, "fence", "second reason");
    gk_db_rollback(db); /* lines are of the transaction: nothing of it stays */
    say(db, "drain", "third reason");
    say(db, "fence", "fourth reason");
    say(db, "unfence", NULL);
    assert_int_equal(gk_db_commit(db, NULL), GK_OK);
    assert_int_equal(gk_db_list_audit(db, 0, &page, NULL), GK_OK);
    const struct gk_json *lines = gk_json_get(page, "lines");
    assert_int_equal(gk_json_count(lines), 3);
    assert_string_equal(gk_json_get_string(gk_json_at(lines, 0), "reason", ""), "third reason");
    assert_string_equal(gk_json_get_string(gk_json_at(lines, 2), "outcome", ""), "done");
    assert_int_equal(gk_json_get_int(gk_json_at(lines, 2), "line", 0), 3);
    gk_json_free(page);
    assert_int_equal(problems_of(db, text), 0);
    gk_db_close(db);
    change_bytes("audit.db", "fourth reason", "nobody's idea");
    db = open_store("audit.db");
    assert_int_equal(problems_of(db, text), 1);
    assert_non_null(strstr(text, "audit line 2"));
    /* A hash that fits its own line alone would break the next one. */
    assert_int_equal(gk_db_list_audit(db, 0, &page, NULL), GK_OK);
    char hash[GK_HASH_TEXT_SIZE], other[GK_HASH_TEXT_SIZE];
    (void)snprintf(hash, sizeof hash, "%s",
                   gk_json_get_string(gk_json_at(gk_json_get(page, "lines"), 1), "hash", ""));
    memcpy(other, hash, sizeof other);
    other[0] = hash[0] == '0' ? '1' : '0';
    gk_json_free(page);
    gk_db_close(db);
    change_bytes("audit.db", hash, other);
    db = open_store("audit.db");
    assert_int_equal(problems_of(db, text), 2);
    gk_db_close(db);
}

/* A store that comes back from a backup, by whatever way, is ahead of all that it ever said. */
static void epochs_only_rise(void **state)
{
    (void)state;
    char text[512];
    struct gk_db *db = open_store("epoch.db");
    struct gk_json *page = NULL;
    int64_t epoch = 0, token = 0, later = 0;
    bool jumped = true;
    struct gk_db_past past = {.wall_ms = 5};
    assert_int_equal(gk_db_start_at(db, &past, &epoch, &jumped, NULL), GK_OK);
    assert_int_equal(epoch, 1);
    assert_false(jumped);
    assert_int_equal(gk_db_take_tokens(db, 100, &token, NULL), GK_OK);
    past.epoch = 1; /* what the folder knows is what the store knows */
    assert_int_equal(gk_db_start_at(db, &past, &epoch, &jumped, NULL), GK_OK);
    assert_int_equal(epoch, 2);
    assert_false(jumped);
    past.epoch = 40; /* somebody put an old copy there */
    assert_int_equal(gk_db_start_at(db, &past, &epoch, &jumped, NULL), GK_OK);
    assert_true(jumped);
    assert_int_equal(epoch, 40 + GK_DB_EPOCH_JUMP);
    assert_int_equal(gk_db_take_tokens(db, 1, &later, NULL), GK_OK);
    assert_true(later > token + (INT64_C(1) << 40));
    past = (struct gk_db_past){.restored = true}; /* into a new folder, which knows nothing */
    assert_int_equal(gk_db_start_at(db, &past, &epoch, &jumped, NULL), GK_OK);
    assert_true(jumped);
    assert_int_equal(epoch, 40 + 2 * GK_DB_EPOCH_JUMP);
    assert_int_equal(gk_db_take_tokens(db, 1, &token, NULL), GK_OK);
    assert_true(token > later + (INT64_C(1) << 40));
    assert_int_equal(gk_db_list_audit(db, 0, &page, NULL), GK_OK);
    assert_int_equal(gk_json_count(gk_json_get(page, "lines")), 2); /* each is told */
    gk_json_free(page);
    assert_int_equal(problems_of(db, text), 0);
    gk_db_close(db);
}

/* A lease of the store that was backed up is out no more: its trial is proposed again. */
static void a_restore_voids_leases(void **state)
{
    (void)state;
    char text[512], *path = path_of("void.db");
    char *bytes = NULL;
    size_t size = 0;
    int64_t epoch = 0;
    bool jumped = false;
    struct gk_json *rows = NULL;
    assert_int_equal(
        gk_file_load(GK_SOURCE_DIR "/tests/data/store/v4.db", 64 << 20, &bytes, &size, NULL),
        GK_OK);
    assert_int_equal(gk_file_store(path, bytes, size, NULL), GK_OK);
    struct gk_db *db = open_store("void.db");
    assert_int_equal(gk_db_leases(db, &rows, NULL), GK_OK);
    assert_int_equal(gk_json_count(rows), 1);
    int64_t trial = gk_json_get_int(gk_json_at(rows, 0), "trial", 0);
    gk_json_free(rows);
    struct gk_db_past past = {.restored = true};
    assert_int_equal(gk_db_start_at(db, &past, &epoch, &jumped, NULL), GK_OK);
    assert_int_equal(gk_db_leases(db, &rows, NULL), GK_OK);
    assert_int_equal(gk_json_count(rows), 0);
    gk_json_free(rows);
    assert_int_equal(gk_db_trial_get(db, trial, &rows, NULL), GK_OK);
    assert_string_equal(gk_json_get_string(rows, "state", ""), "proposed");
    assert_int_equal(gk_json_get_int(rows, "attempt", -1), 0); /* not the config's doing */
    gk_json_free(rows);
    assert_int_equal(problems_of(db, text), 0);
    gk_db_close(db);
    free(bytes);
    free(path);
}

/* Between two steps the store is written; the copy is whole, and nothing has its name before. */
static void backups_go_in_steps(void **state)
{
    (void)state;
    for (int small = 0; small < 2; small++) {
        char text[512], *path = path_of(small ? "small.db" : "whole.db");
        struct gk_err err = {0};
        struct gk_db_backup *backup = NULL;
        struct stat info;
        bool done = false;
        int steps = 0;
        struct gk_db *db = open_store("steps.db");
        if (!small) {
            sample_trials(db, 3000);
        }
        assert_int_equal(gk_db_backup_begin(db, path, small, &backup, &err), GK_OK);
        for (; !done; steps++) {
            if (gk_db_backup_step(backup, &done, &err) != GK_OK) {
                fail_msg("%s", err.text);
            }
            assert_int_not_equal(stat(path, &info), 0);
            if (steps < 4) {
                say(db, "note", "while it is copied");
                assert_int_equal(gk_db_commit(db, NULL), GK_OK);
            }
        }
        assert_true(steps > 4);
        assert_int_equal(gk_db_backup_file(backup, "abc", 3, &err), GK_OK);
        if (gk_db_backup_finish(backup, &err) != GK_OK) {
            fail_msg("%s", err.text);
        }
        assert_int_equal(stat(path, &info), 0);
        assert_int_equal(info.st_mode & 0777, 0600);
        assert_int_equal(gk_db_backup_begin(db, path, small, &backup, &err), GK_EXISTS);
        /* One that is given up leaves nothing. */
        char *other = path_of("other.db"), *partial = path_of("other.db.partial");
        assert_int_equal(gk_db_backup_begin(db, other, small, &backup, &err), GK_OK);
        assert_int_equal(gk_db_backup_step(backup, &done, &err), GK_OK);
        assert_int_equal(stat(partial, &info), 0);
        gk_db_backup_end(backup);
        assert_int_not_equal(stat(other, &info), 0);
        assert_int_not_equal(stat(partial, &info), 0);
        gk_db_close(db);
        db = open_store(small ? "small.db" : "whole.db");
        if (problems_of(db, text) != 0) {
            fail_msg("%s", text);
        }
        struct gk_json *page = NULL;
        assert_int_equal(gk_db_list_audit(db, 0, &page, NULL), GK_OK); /* it travels along */
        assert_int_equal(gk_json_count(gk_json_get(page, "lines")), small ? 8 : 4);
        gk_json_free(page);
        gk_db_close(db);
        free(path);
        free(other);
        free(partial);
    }
}

static void fences_and_drains_are_kept(void **state)
{
    (void)state;
    struct gk_json *rows = NULL;
    struct gk_db *db = open_store("fence.db");
    struct gk_db_fence fence = {.device = "GPU-1", .origin = "worker", .cause = "lost", .who = ""};
    assert_int_equal(gk_db_fence_put(db, &fence, 7, NULL), GK_OK);
    fence.cause = "lost again";
    assert_int_equal(gk_db_fence_put(db, &fence, 9, NULL), GK_OK); /* since the first time */
    assert_int_equal(gk_db_drain_put(db, true, 3, "upgrade", NULL), GK_OK);
    assert_int_equal(gk_db_commit(db, NULL), GK_OK);
    gk_db_close(db);
    db = open_store("fence.db");
    assert_int_equal(gk_db_fences(db, &rows, NULL), GK_OK);
    assert_int_equal(gk_json_count(rows), 1);
    assert_string_equal(gk_json_get_string(gk_json_at(rows, 0), "cause", ""), "lost again");
    assert_int_equal(gk_json_get_int(gk_json_at(rows, 0), "since_ms", 0), 7);
    gk_json_free(rows);
    assert_int_equal(gk_db_drain_get(db, &rows, NULL), GK_OK);
    assert_string_equal(gk_json_get_string(rows, "reason", ""), "upgrade");
    gk_json_free(rows);
    assert_int_equal(gk_db_drain_put(db, false, 4, "", NULL), GK_OK);
    assert_int_equal(gk_db_drain_get(db, &rows, NULL), GK_OK);
    assert_null(gk_json_get(rows, "reason"));
    gk_json_free(rows);
    gk_db_close(db);
}

/* Letters are one a trial; a pardon takes back what a config did, and no more. */
static void letters_and_pardons(void **state)
{
    (void)state;
    struct gk_db *db = open_store("dead.db");
    struct gk_json *page = NULL, *record = gk_json_new_object();
    int64_t count = 0;
    sample_trials(db, 200);
    struct gk_json *row = NULL;
    assert_int_equal(gk_db_trial_get(db, 5, &row, NULL), GK_OK);
    const char *config = gk_json_get_string(row, "config_id", "");
    assert_true(gk_json_set_string(record, "failure", "crash") &&
                gk_json_set_string(record, "stage", "run"));
    assert_int_equal(gk_db_kills(db, config, "sm_90a", &count, NULL), GK_OK);
    int64_t before = count;
    assert_int_equal(gk_db_trial_record(db, 5, 0, 9, "recorded", record, NULL), GK_OK);
    assert_int_equal(gk_db_kills(db, config, "sm_90a", &count, NULL), GK_OK);
    assert_int_equal(count, before + 1);
    for (int again = 0; again < 2; again++) {
        assert_int_equal(gk_db_dead_put(db, "quarantined", 5, "sm_90a", "it kills", 9, NULL),
                         GK_OK);
        assert_int_equal(gk_db_dead_count(db, &count, NULL), GK_OK);
        assert_int_equal(count, 1);
    }
    assert_int_equal(gk_db_pardon(db, config, "sm_90a", NULL), GK_OK);
    assert_int_equal(gk_db_kills(db, config, "sm_90a", &count, NULL), GK_OK);
    assert_int_equal(count, 0);
    bool pardoned = true;
    assert_int_equal(gk_db_pardoned(db, config, "sm_80", &pardoned, NULL), GK_OK);
    assert_false(pardoned);
    assert_int_equal(gk_db_list_dead(db, 0, false, &page, NULL), GK_OK);
    int64_t dead = gk_json_get_int(gk_json_at(gk_json_get(page, "letters"), 0), "dead", 0);
    gk_json_free(page);
    assert_int_equal(gk_db_dead_settle(db, dead, "retried", 10, NULL), GK_OK);
    assert_int_equal(gk_db_dead_count(db, &count, NULL), GK_OK);
    assert_int_equal(count, 0);
    assert_int_equal(gk_db_dead_put(db, "quarantined", 5, "sm_90a", "again", 11, NULL), GK_OK);
    assert_int_equal(gk_db_dead_count(db, &count, NULL), GK_OK);
    assert_int_equal(count, 1);
    gk_json_free(record);
    gk_json_free(row);
    gk_db_rollback(db);
    gk_db_close(db);
}

static void pruning_goes_in_batches(void **state)
{
    (void)state;
    char text[512];
    struct gk_db *db = open_store("prune.db");
    struct gk_err err = {0};
    sample_trials(db, 1200);
    struct gk_db_prune plan = {.before_ms = 10, .now_ms = 10, .dry_run = true},
                       prune = {.before_ms = 10, .now_ms = 10};
    bool done = false;
    while (!done) {
        assert_int_equal(gk_db_prune_step(db, &plan, &done, &err), GK_OK);
        assert_false(gk_db_is_dirty(db)); /* it only looks */
    }
    assert_true(plan.trials > 1000);
    assert_true(plan.bytes > plan.trials * 400);
    int steps = 0;
    for (done = false; !done; steps++) {
        int64_t before = prune.trials;
        if (gk_db_prune_step(db, &prune, &done, &err) != GK_OK || gk_db_commit(db, &err) != GK_OK) {
            fail_msg("%s", err.text);
        }
        assert_true(prune.trials - before <= 500);
        assert_int_equal(problems_of(db, text), 0); /* after every batch */
    }
    assert_true(steps >= 4);
    assert_int_equal(prune.trials, plan.trials);
    assert_int_equal(prune.bytes, plan.bytes);
    prune = (struct gk_db_prune){.before_ms = 10, .now_ms = 10};
    for (done = false; !done;) {
        assert_int_equal(gk_db_prune_step(db, &prune, &done, &err), GK_OK);
    }
    assert_int_equal(prune.trials, 0);
    gk_db_close(db);
}

static void the_scrub_finds_damage(void **state)
{
    (void)state;
    char text[512];
    struct gk_db *db = open_store("scrub.db");
    struct gk_json *damaged = NULL, *odd = gk_json_new_object();
    int64_t cursor = 0, found = 0, wraps = 0;
    sample_trials(db, 300);
    assert_true(gk_json_set_real(odd, "time_ns", 1.5));
    assert_int_equal(gk_db_trial_update(db, 123, odd, NULL), GK_OK);
    gk_json_free(odd);
    assert_int_equal(problems_of(db, text), 1);
    for (int step = 0; step < 12; step++) {
        assert_int_equal(gk_db_scrub_step(db, 50, &cursor, &damaged, NULL), GK_OK);
        found += (int64_t)gk_json_count(damaged);
        wraps += cursor == 0;
        gk_json_free(damaged);
    }
    assert_int_equal(found, 1); /* it is put aside, and not found again */
    assert_true(wraps >= 1);
    if (problems_of(db, text) != 0) {
        fail_msg("%s", text);
    }
    gk_db_close(db);
}

static void a_lost_store_is_not_made_anew(void **state)
{
    (void)state;
    struct gk_db *db = NULL;
    struct gk_err err = {0};
    struct gk_db_options options = {.may_migrate = true, .must_exist = true};
    char *path = path_of("gone.db");
    struct stat info;
    assert_int_equal(gk_db_open_as(path, &options, &db, &err), GK_MISSING);
    assert_non_null(strstr(err.text, "restore"));
    assert_int_not_equal(stat(path, &info), 0);
    assert_int_equal(gk_file_store(path, "", 0, &err), GK_OK);
    assert_int_equal(gk_db_open_as(path, &options, &db, &err), GK_MISSING);
    assert_int_equal(gk_file_store(path, "no store at all", 15, &err), GK_OK);
    assert_int_equal(gk_db_open_as(path, &options, &db, &err), GK_CORRUPT);
    assert_non_null(strstr(err.text, ".recover"));
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(audit_is_a_chain),
        cmocka_unit_test(epochs_only_rise),
        cmocka_unit_test(a_restore_voids_leases),
        cmocka_unit_test(backups_go_in_steps),
        cmocka_unit_test(fences_and_drains_are_kept),
        cmocka_unit_test(letters_and_pardons),
        cmocka_unit_test(pruning_goes_in_batches),
        cmocka_unit_test(the_scrub_finds_damage),
        cmocka_unit_test(pages_fit_a_message),
        cmocka_unit_test(a_lost_store_is_not_made_anew),
    };
    return cmocka_run_group_tests(tests, make_folder, drop_folder);
}
