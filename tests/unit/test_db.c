/* The store: what goes in comes out, what is damaged is seen, what is old is migrated. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "db/db.h"
#include "tests/support/parsed.h"

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
    (void)snprintf(folder, sizeof folder, "/tmp/gktest_db_XXXXXX");
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

/* A job with one task and one recorded trial. */
static int64_t fill(struct gk_db *db)
{
    int64_t job = 0, task = 0, trial = 0, problem = 0, event = 0;
    struct gk_json *row = parsed("{}");
    assert_int_equal(gk_db_bundle_put(db, "b1", row, row, 5, NULL), GK_OK);
    gk_json_free(row);
    row = parsed("{\"submit_id\":\"s\",\"spec_key\":\"k\",\"what\":\"w\",\"ops\":[\"op\"],"
                 "\"bundle\":\"b1\",\"archs\":[],"
                 "\"private_ok\":true,\"budget_trials\":4,\"budget_s\":0.0,\"strategy\":\"random\","
                 "\"seed\":1,\"priority\":0,"
                 "\"policy\":\"cold-graph\",\"state\":\"searching\",\"finishing\":false,\"created_"
                 "ms\":9,\"problems\":1,"
                 "\"tasks\":1,\"done\":0,\"trials\":0,\"failed\":0}");
    assert_int_equal(gk_db_job_insert(db, row, &job, NULL), GK_OK);
    gk_json_free(row);
    assert_int_equal(gk_db_problem_put(db, "op", "op{\"N\":1}", &problem, NULL), GK_OK);
    char text[256];
    (void)snprintf(text, sizeof text,
                   "{\"job\":%d,\"problem\":%d,\"arch\":\"sm_80\",\"gpu\":\"g\",\"nvrtc\":\"13\","
                   "\"state\":\"searching\","
                   "\"trials\":0,\"verified\":0,\"failed\":0,\"spent_ns\":0.0,\"attempt\":0}",
                   (int)job, (int)problem);
    row = parsed(text);
    assert_int_equal(gk_db_task_insert(db, row, &task, NULL), GK_OK);
    gk_json_free(row);
    (void)snprintf(text, sizeof text,
                   "{\"job\":%d,\"task\":%d,\"seq\":0,\"batch\":0,\"template\":\"t\",\"template_"
                   "hash\":\"h\",\"config\":\"t{}\","
                   "\"config_id\":\"c1\",\"state\":\"proposed\",\"attempt\":0,\"input_set\":0,"
                   "\"created_ms\":9}",
                   (int)job, (int)task);
    row = parsed(text);
    assert_int_equal(gk_db_trial_insert(db, row, &trial, NULL), GK_OK);
    gk_json_free(row);
    row = parsed("{\"stage\":\"done\",\"failure\":\"none\",\"time_ns\":1234.5,\"compile_ns\":1.0,"
                 "\"verify_ns\":2.0,\"measure_ns\":3.0,"
                 "\"samples_ns\":[1.0,2.0],\"environment\":{\"driver\":\"x\"}}");
    assert_int_equal(gk_db_trial_record(db, trial, 0, 11, "recorded", row, NULL), GK_OK);
    gk_json_free(row);
    assert_int_equal(gk_db_count(db, job, task, 1, 0, 6.0, NULL), GK_OK);
    assert_int_equal(
        gk_db_event_add(db, job, 12, "note", row = parsed("{\"text\":\"x\"}"), &event, NULL),
        GK_OK);
    gk_json_free(row);
    assert_int_equal(event, 1);
    assert_int_equal(gk_db_commit(db, NULL), GK_OK);
    return job;
}

static void test_round_trip(void **state)
{
    (void)state;
    struct gk_db *db = open_store("a.db");
    int64_t epoch = 0, again = 0;
    assert_int_equal(gk_db_start(db, &epoch, NULL), GK_OK);
    int64_t job = fill(db);
    gk_db_close(db);
    db = open_store("a.db");
    assert_int_equal(gk_db_start(db, &again, NULL), GK_OK);
    assert_int_equal(again, epoch + 1);
    struct gk_json *rows = NULL;
    assert_int_equal(gk_db_jobs_open(db, &rows, NULL), GK_OK);
    assert_int_equal(gk_json_count(rows), 1);
    assert_true(gk_json_get_bool(gk_json_at(rows, 0), "private_ok",
                                 false)); /* BOOL and JSON come back as such */
    assert_true(gk_json_is(gk_json_get(gk_json_at(rows, 0), "ops"), GK_JSON_ARRAY));
    gk_json_free(rows);
    assert_int_equal(gk_db_list_trials(db, job, false, 0, &rows, NULL), GK_OK);
    const struct gk_json *trial = gk_json_at(gk_json_get(rows, "trials"), 0);
    assert_true(gk_json_get_real(trial, "time_ns", 0) == 1234.5);
    gk_json_free(rows);
    assert_int_equal(gk_db_list_measured(db, job, 0, &rows, NULL), GK_OK);
    trial = gk_json_at(gk_json_get(rows, "trials"), 0);
    assert_true(gk_json_get_real(trial, "compile_ns", 0) == 1.0);
    assert_true(gk_json_get_real(trial, "verify_ns", 0) == 2.0);
    assert_true(gk_json_get_real(trial, "measure_ns", 0) == 3.0);
    assert_int_equal(gk_json_count(gk_json_get(trial, "samples")), 2);
    assert_string_equal(gk_json_get_string(trial, "arch", ""), "sm_80");
    gk_json_free(rows);
    struct gk_json *same = NULL;
    assert_int_equal(
        gk_db_trial_same(db, 0, "c1", 1, "sm_80", "g", "cold-graph", "13", &same, NULL), GK_OK);
    gk_json_free(same);
    /* Any part of the identity that differs forbids reuse. */
    assert_int_equal(
        gk_db_trial_same(db, 0, "c2", 1, "sm_80", "g", "cold-graph", "13", &same, NULL),
        GK_NOT_FOUND);
    assert_int_equal(
        gk_db_trial_same(db, 0, "c1", 2, "sm_80", "g", "cold-graph", "13", &same, NULL),
        GK_NOT_FOUND);
    assert_int_equal(
        gk_db_trial_same(db, 0, "c1", 1, "sm_90a", "g", "cold-graph", "13", &same, NULL),
        GK_NOT_FOUND);
    assert_int_equal(
        gk_db_trial_same(db, 0, "c1", 1, "sm_80", "h", "cold-graph", "13", &same, NULL),
        GK_NOT_FOUND);
    assert_int_equal(gk_db_trial_same(db, 0, "c1", 1, "sm_80", "g", "warm", "13", &same, NULL),
                     GK_NOT_FOUND);
    assert_int_equal(
        gk_db_trial_same(db, 0, "c1", 1, "sm_80", "g", "cold-graph", "12", &same, NULL),
        GK_NOT_FOUND);
    gk_db_close(db);
}

/* Trials with their samples come in pages that fit a message; a trial that only repeats another's
 * result, and one without a result, are not among them. */
static void test_measured_pages(void **state)
{
    (void)state;
    enum { TRIALS = 250 };
    struct gk_db *db = open_store("a.db");
    struct gk_json *record = parsed("{\"stage\":\"done\",\"failure\":\"none\",\"time_ns\":7.0,"
                                    "\"compile_ns\":1.0,\"verify_ns\":2.0,\"measure_ns\":3.0,"
                                    "\"samples_ns\":[1.0]}");
    int64_t cursor = 0, seen = 0, last = 0;
    for (int i = 1; i <= TRIALS + 2; i++) {
        char text[256];
        int64_t trial = 0;
        (void)snprintf(text, sizeof text,
                       "{\"job\":1,\"task\":1,\"seq\":%d,\"batch\":0,\"template\":\"t\","
                       "\"template_hash\":\"h\",\"config\":\"t{}\",\"config_id\":\"d%d\","
                       "\"state\":\"proposed\",\"attempt\":0,\"input_set\":0,\"created_ms\":9%s}",
                       i, i, i == TRIALS + 1 ? ",\"reused\":1" : "");
        struct gk_json *row = parsed(text);
        assert_int_equal(gk_db_trial_insert(db, row, &trial, NULL), GK_OK);
        gk_json_free(row);
        if (i != TRIALS + 2) {
            assert_int_equal(gk_db_trial_record(db, trial, 0, 11, "recorded", record, NULL), GK_OK);
        }
    }
    for (int page = 0; page < 5 && (page == 0 || cursor); page++) {
        struct gk_json *rows = NULL;
        assert_int_equal(gk_db_list_measured(db, 1, cursor, &rows, NULL), GK_OK);
        const struct gk_json *list = gk_json_get(rows, "trials");
        for (size_t i = 0; i < gk_json_count(list); i++, seen++) {
            int64_t trial = gk_json_get_int(gk_json_at(list, i), "trial", 0);
            assert_true(trial > last);
            last = trial;
        }
        assert_true(gk_json_count(list) <= 100);
        cursor = gk_json_get_int(rows, "next", 0);
        gk_json_free(rows);
    }
    assert_int_equal(seen, TRIALS + 1); /* and the one of the first test */
    gk_json_free(record);
    gk_db_rollback(db);
    gk_db_close(db);
}

static void test_tokens_never_repeat(void **state)
{
    (void)state;
    struct gk_db *db = open_store("a.db");
    int64_t first = 0, second = 0;
    assert_int_equal(gk_db_take_tokens(db, 10, &first, NULL), GK_OK);
    assert_int_equal(gk_db_commit(db, NULL), GK_OK);
    gk_db_close(db);
    db = open_store("a.db");
    assert_int_equal(gk_db_take_tokens(db, 1, &second, NULL), GK_OK);
    assert_int_equal(second, first + 10);
    gk_db_rollback(db);
    assert_int_equal(gk_db_take_tokens(db, 1, &second, NULL), GK_OK); /* never sent: may be given */
    assert_int_equal(second, first + 10);
    gk_db_close(db);
}

static void test_uncommitted_is_gone(void **state)
{
    (void)state;
    struct gk_db *db = open_store("a.db");
    struct gk_json *body = parsed("{}"), *rows = NULL;
    int64_t event;
    assert_int_equal(gk_db_event_add(db, 1, 1, "note", body, &event, NULL), GK_OK);
    assert_true(gk_db_is_dirty(db));
    gk_db_close(db);
    db = open_store("a.db");
    assert_int_equal(gk_db_events(db, 1, 0, &rows, NULL), GK_OK);
    assert_int_equal(gk_json_count(rows), 1);
    gk_json_free(rows);
    gk_json_free(body);
    gk_db_close(db);
}

static void test_second_opener_is_refused(void **state)
{
    (void)state;
    struct gk_db *db = open_store("a.db"), *other = NULL;
    struct gk_err err = {0};
    char *path = path_of("a.db");
    assert_int_equal(gk_db_open(path, true, &other, &err), GK_BUSY);
    free(path);
    gk_db_close(db);
}

static bool check_ok(struct gk_db *db, char *first, size_t size)
{
    struct gk_json *report = NULL;
    struct gk_err err = {0};
    if (gk_db_check(db, &report, &err) != GK_OK) {
        fail_msg("%s", err.text);
    }
    bool ok = gk_json_get_bool(report, "ok", false);
    (void)snprintf(first, size, "%s",
                   gk_json_string(gk_json_at(gk_json_get(report, "problems"), 0), ""));
    gk_json_free(report);
    return ok;
}

static void test_check_sees_damage(void **state)
{
    (void)state;
    char text[256];
    struct gk_db *db = open_store("a.db");
    assert_true(check_ok(db, text, sizeof text));
    struct gk_json *changes = parsed("{\"time_ns\":1.5}");
    assert_int_equal(gk_db_trial_update(db, 1, changes, NULL),
                     GK_OK); /* a row that says other than its hash */
    gk_json_free(changes);
    assert_false(check_ok(db, text, sizeof text));
    assert_non_null(strstr(text, "trial 1"));
    gk_db_rollback(db);
    assert_true(check_ok(db, text, sizeof text));
    assert_int_equal(gk_db_count(db, 1, 1, 1, 0, 0, NULL), GK_OK); /* a counter without its trial */
    assert_false(check_ok(db, text, sizeof text));
    assert_non_null(strstr(text, "counts"));
    gk_db_rollback(db);
    gk_db_close(db);
}

static void test_backup_restore_prune(void **state)
{
    (void)state;
    char text[256];
    struct gk_err err = {0};
    struct gk_db *db = open_store("a.db");
    char *backup = path_of("b.db"), *back = path_of("c.db");
    assert_int_equal(gk_db_backup(db, backup, true, &err), GK_OK);
    assert_int_equal(gk_db_backup(db, backup, false, &err), GK_EXISTS); /* nothing is overwritten */
    struct gk_json *changes = parsed("{\"state\":\"done\",\"ended_ms\":20}"), *report = NULL,
                   *rows = NULL;
    assert_int_equal(gk_db_job_update(db, 1, changes, NULL), GK_OK);
    assert_int_equal(gk_db_prune(db, 20, &report, NULL), GK_OK);
    assert_int_equal(gk_json_get_int(report, "trials_deleted", -1), 0); /* not older than that */
    gk_json_free(report);
    assert_int_equal(gk_db_prune(db, 21, &report, NULL), GK_OK);
    assert_int_equal(gk_json_get_int(report, "trials_deleted", -1), 1);
    gk_json_free(report);
    gk_json_free(changes);
    assert_int_equal(gk_db_commit(db, NULL), GK_OK);
    assert_true(check_ok(db, text, sizeof text));
    gk_db_close(db);
    if (gk_db_restore(backup, back, &err) != GK_OK) {
        fail_msg("%s", err.text);
    }
    db = open_store("c.db");
    assert_int_equal(gk_db_list_trials(db, 1, false, 0, &rows, NULL), GK_OK);
    assert_int_equal(gk_json_count(gk_json_get(rows, "trials")), 1);
    gk_json_free(rows);
    gk_db_close(db);
    free(backup);
    free(back);
}

static void add_trial(struct gk_db *db, int64_t job, int64_t seq, const char *config_id)
{
    int64_t trial = 0;
    struct gk_db_trial row = {.job = job,
                              .task = 1,
                              .seq = seq,
                              .template_name = "t",
                              .template_hash = "h",
                              .config = "t{}",
                              .config_id = config_id};
    assert_int_equal(gk_db_trial_add(db, &row, &trial, NULL), GK_OK);
    struct gk_json *record = parsed("{\"stage\":\"done\",\"failure\":\"none\",\"time_ns\":2.5}");
    assert_int_equal(gk_db_trial_record(db, trial, 0, 11, "recorded", record, NULL), GK_OK);
    assert_int_equal(gk_db_count(db, job, 1, 1, 0, 0, NULL), GK_OK);
    gk_json_free(record);
}

/* The trial of the config that another task than `task` finds; 0: none. */
static int64_t known_as(struct gk_db *db, int64_t task, const char *config_id)
{
    struct gk_json *same = NULL;
    struct gk_err err = {0};
    enum gk_status status =
        gk_db_trial_same(db, task, config_id, 1, "sm_80", "g", "cold-graph", "13", &same, &err);
    if (status != GK_OK && status != GK_NOT_FOUND) {
        fail_msg("%s", err.text);
    }
    int64_t trial = gk_json_get_int(same, "trial", 0);
    gk_json_free(same);
    return trial;
}

/* What a task asked for before another one looked, and what it asked for since, is found; not by
 * itself; nothing of it outlives its trials. */
static void test_known(void **state)
{
    (void)state;
    char text[256];
    struct gk_db *db = open_store("k.db");
    struct gk_json *changes = parsed("{\"state\":\"done\",\"ended_ms\":20}"), *report = NULL;
    int64_t job = fill(db);
    assert_int_equal(known_as(db, 1, "c1"), 0);
    add_trial(db, job, 1, "c2");
    assert_int_equal(known_as(db, 2, "c1"), 1);
    assert_int_equal(known_as(db, 2, "c2"), 2);
    assert_int_equal(gk_db_commit(db, NULL), GK_OK);
    add_trial(db, job, 2, "c3");
    assert_int_equal(known_as(db, 2, "c3"), 3);
    gk_db_rollback(db); /* and with it that c3 is written down */
    add_trial(db, job, 2, "c4");
    assert_int_equal(known_as(db, 2, "c3"), 0);
    assert_int_equal(known_as(db, 2, "c4"), 3);
    assert_true(check_ok(db, text, sizeof text));
    assert_int_equal(gk_db_job_update(db, job, changes, NULL), GK_OK);
    assert_int_equal(gk_db_prune(db, 21, &report, NULL), GK_OK);
    assert_int_equal(gk_json_get_int(report, "trials_deleted", -1), 3);
    assert_int_equal(known_as(db, 2, "c4"), 0);
    if (!check_ok(db, text, sizeof text)) {
        fail_msg("%s", text);
    }
    gk_json_free(report);
    gk_json_free(changes);
    gk_db_close(db);
}

/* Paths of the copies that a migration kept, pushed onto list. */
static size_t copies_of(const char *name, struct gk_json *list)
{
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    char *begin = gk_asprintf("%s.schema", name);
    for (const struct dirent *entry; (entry = readdir(dir));) {
        if (strncmp(entry->d_name, begin, strlen(begin)) == 0 && !strstr(entry->d_name, "-wal")) {
            char *path = path_of(entry->d_name);
            assert_true(gk_json_push(list, gk_json_new_string(path)));
            free(path);
        }
    }
    free(begin);
    (void)closedir(dir);
    return gk_json_count(list);
}

static void copy_file(const char *from, const char *to)
{
    char *text = NULL;
    size_t size = 0;
    struct gk_err err = {0};
    if (gk_file_load(from, 64 << 20, &text, &size, &err) != GK_OK ||
        gk_file_store(to, text, size, &err) != GK_OK) {
        fail_msg("%s", err.text);
    }
    free(text);
}

/* Stores that older schemas wrote: of 1 to 3 a finished job of three problems with its picks; of 4
 * one of two, and a paused job with a parked trial and a lease that is out; of 5 and 6 a job of
 * two; of 7 such a job twice, the second time with half of its trials answered by the first. */
static void test_old_stores(void **state)
{
    (void)state;
    for (int schema = 1; schema <= 7; schema++) {
        char text[256], name[32];
        struct gk_db *db = NULL;
        struct gk_err err = {0};
        struct gk_json *rows = NULL;
        (void)snprintf(name, sizeof name, "old%d.db", schema);
        char *path = path_of(name),
             *from = gk_asprintf("%s/tests/data/store/v%d.db", GK_SOURCE_DIR, schema);
        copy_file(from, path);
        assert_int_equal(gk_db_open(path, false, &db, &err), GK_VERSION);
        (void)snprintf(text, sizeof text, "schema %d", schema);
        assert_non_null(strstr(err.text, text));
        db = open_store(name);
        assert_int_equal(gk_db_schema(db), 8);
        if (!check_ok(db, text, sizeof text)) {
            fail_msg("schema %d: %s", schema, text);
        }
        assert_int_equal(gk_db_list_picks(db, NULL, NULL, NULL, 0, 0, &rows, NULL), GK_OK);
        assert_int_equal(gk_json_count(gk_json_get(rows, "rows")), schema < 4 ? 3 : 2);
        gk_json_free(rows);
        assert_int_equal(gk_db_list_dead(db, 0, false, &rows, NULL), GK_OK);
        assert_int_equal(gk_json_count(gk_json_get(rows, "letters")), schema == 4 ? 1 : 0);
        gk_json_free(rows);
        if (schema == 7) { /* asked for before there was `known` */
            static const char config[] =
                "203156f44ac02b5b22fda60064ebdb9895664eca116d8ad0de42dcf22e2873d3";
            assert_int_equal(gk_db_trial_same(db, 1, config, 1, "mock-sm_80", "mock-8sm",
                                              "cold-graph", "13.0", &rows, NULL),
                             GK_OK);
            assert_int_equal(gk_json_get_int(rows, "trial", 0), 12);
            gk_json_free(rows);
        }
        gk_db_close(db);
        /* What it was lies beside it, and is of the old schema still. */
        struct gk_json *list = gk_json_new_array();
        assert_int_equal(copies_of(name, list), 1);
        assert_int_equal(gk_db_open(gk_json_string(gk_json_at(list, 0), ""), false, &db, &err),
                         GK_VERSION);
        gk_json_free(list);
        free(path);
        free(from);
    }
}

static void test_foreign_files(void **state)
{
    (void)state;
    struct gk_db *db = NULL;
    struct gk_err err = {0};
    char *path = path_of("text.db");
    assert_int_equal(
        gk_file_store(path, "this is no store at all, but a longer piece of text", 51, NULL),
        GK_OK);
    assert_int_equal(gk_db_open(path, true, &db, &err), GK_CORRUPT);
    free(path);
    path = path_of("missing/x.db");
    assert_int_equal(gk_db_open(path, true, &db, &err), GK_IO);
    free(path);
}

static void test_unknown_columns_are_refused(void **state)
{
    (void)state;
    struct gk_db *db = open_store("c.db");
    struct gk_json *changes = parsed("{\"state=1;DROP TABLE jobs;--\":1}");
    assert_int_equal(gk_db_job_update(db, 1, changes, NULL), GK_INTERNAL);
    gk_json_free(changes);
    gk_db_close(db);
}

static int64_t trials_of_job(struct gk_db *db, int64_t job)
{
    struct gk_json *row = NULL;
    assert_int_equal(gk_db_job_get(db, job, &row, NULL), GK_OK);
    int64_t trials = gk_json_get_int(row, "trials", -1);
    gk_json_free(row);
    return trials;
}

/* Counters, tokens and numbers of events are kept until the end of a transaction: whoever reads
 * sees them, what shares a slot loses nothing, and a rollback forgets them. */
static void test_what_adds_up(void **state)
{
    (void)state;
    struct gk_db *db = NULL;
    int64_t token = 0, again = 0, event = 0, epoch = 0;
    struct gk_json *body = parsed("{}");
    assert_int_equal(gk_db_open(":memory:", true, &db, NULL), GK_OK);
    assert_int_equal(gk_db_start(db, &epoch, NULL), GK_OK);
    int64_t job = fill(db);
    for (int64_t task = 1; task <= 600; task++) { /* more tasks than slots; only one is there */
        assert_int_equal(gk_db_count(db, job, task, 1, 0, 1.0, NULL), GK_OK);
        assert_int_equal(gk_db_count(db, job, 1, 1, 0, 1.0, NULL), GK_OK);
    }
    assert_int_equal(trials_of_job(db, job), 1201);
    assert_int_equal(gk_db_commit(db, NULL), GK_OK);
    assert_int_equal(trials_of_job(db, job), 1201);
    assert_int_equal(gk_db_take_tokens(db, 3, &token, NULL), GK_OK);
    assert_int_equal(gk_db_event_add(db, job, 1, "note", body, &event, NULL), GK_OK);
    assert_int_equal(event, 2);
    assert_int_equal(gk_db_count(db, job, 1, 5, 0, 1.0, NULL), GK_OK);
    gk_db_rollback(db);
    assert_int_equal(trials_of_job(db, job), 1201);
    assert_int_equal(gk_db_take_tokens(db, 1, &again, NULL), GK_OK);
    assert_int_equal(again, token); /* nobody has seen the first ones */
    assert_int_equal(gk_db_event_add(db, job, 1, "note", body, &event, NULL), GK_OK);
    assert_int_equal(event, 2);
    assert_int_equal(gk_db_commit(db, NULL), GK_OK);
    assert_int_equal(gk_db_take_tokens(db, 1, &again, NULL), GK_OK);
    assert_int_equal(again, token + 1);
    gk_json_free(body);
    gk_db_close(db);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_measured_pages),
        cmocka_unit_test(test_tokens_never_repeat),
        cmocka_unit_test(test_what_adds_up),
        cmocka_unit_test(test_uncommitted_is_gone),
        cmocka_unit_test(test_second_opener_is_refused),
        cmocka_unit_test(test_check_sees_damage),
        cmocka_unit_test(test_backup_restore_prune),
        cmocka_unit_test(test_known),
        cmocka_unit_test(test_old_stores),
        cmocka_unit_test(test_foreign_files),
        cmocka_unit_test(test_unknown_columns_are_refused),
    };
    return cmocka_run_group_tests(tests, make_folder, drop_folder);
}
