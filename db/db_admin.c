/* check, backup, restore, prune. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "db/db_internal.h"

#define CHECK_PROBLEMS_MAX 100

static void report(struct gk_json *problems, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void report(struct gk_json *problems, const char *format, ...)
{
    struct gk_err text = {0};
    va_list ap;
    va_start(ap, format);
    (void)gk_vfail(&text, GK_CORRUPT, format, ap); /* the box is a bounded buffer here */
    va_end(ap);
    if (gk_json_count(problems) < CHECK_PROBLEMS_MAX) {
        (void)gk_json_push(problems,
                           gk_json_new_string(text.text)); /* one message less when out of memory */
    }
}

static enum gk_status check_pragma(struct gk_db *db, const char *sql, const char *good,
                                   struct gk_json *problems, struct gk_err *err)
{
    sqlite3_stmt *statement = NULL;
    int rc = sqlite3_prepare_v2(db->handle, sql, -1, &statement, NULL);
    while (rc == SQLITE_OK || rc == SQLITE_ROW) {
        rc = sqlite3_step(statement);
        if (rc == SQLITE_ROW) {
            const char *text = (const char *)sqlite3_column_text(statement, 0);
            if (!text || strcmp(text, good) != 0) {
                report(problems, "%s: %s", sql, text ? text : "");
            }
        } else {
            break;
        }
    }
    (void)sqlite3_finalize(statement); /* its error is in rc */
    if (rc != SQLITE_DONE && (rc & 0xff) != SQLITE_CORRUPT) {
        return db_fail(db, rc, sql, err);
    }
    if (rc != SQLITE_DONE) {
        report(problems, "%s: %s", sql, sqlite3_errmsg(db->handle));
    }
    return GK_OK;
}

static enum gk_status check_hashes(struct gk_db *db, struct gk_json *problems, int64_t *count_out,
                                   struct gk_err *err)
{
    int64_t cursor = 0;
    *count_out = 0;
    for (;;) {
        struct gk_json *rows = NULL;
        enum gk_status status = db_rows(
            db, err, &rows,
            "SELECT trial,task,config_id,state,stage,failure,time_ns,record,row_hash FROM trials"
            " WHERE trial>?1 AND state='recorded' ORDER BY trial LIMIT 500",
            "i", cursor);
        if (status != GK_OK) {
            return status;
        }
        size_t count = gk_json_count(rows);
        for (size_t i = 0; i < count; i++) {
            const struct gk_json *row = gk_json_at(rows, i);
            char hash[GK_HASH_TEXT_SIZE];
            db_trial_hash(row, hash);
            cursor = gk_json_get_int(row, "trial", cursor);
            if (strcmp(hash, gk_json_get_string(row, "row_hash", "")) != 0) {
                report(problems, "trial %" PRId64 ": its row does not match its hash", cursor);
            }
        }
        *count_out += (int64_t)count;
        gk_json_free(rows);
        if (count < 500) {
            return GK_OK;
        }
    }
}

static enum gk_status check_counters(struct gk_db *db, struct gk_json *problems, struct gk_err *err)
{
    struct gk_json *rows = NULL;
    enum gk_status status =
        db_rows(db, err, &rows,
                "SELECT j.job AS job, j.trials AS trials, j.failed AS failed, j.pruned AS pruned, "
                "r.n AS n, r.bad AS bad"
                " FROM (SELECT *, (SELECT count(*) FROM events e WHERE e.job=jobs.job AND "
                "e.kind='pruned') AS pruned FROM jobs) j"
                " LEFT JOIN (SELECT job, count(*) AS n, sum(failure<>'none') AS bad FROM trials"
                " WHERE state='recorded' GROUP BY job) r USING(job) WHERE j.pruned=0 AND"
                " (j.trials<>coalesce(r.n,0) OR j.failed<>coalesce(r.bad,0))",
                "");
    for (size_t i = 0; status == GK_OK && i < gk_json_count(rows); i++) {
        const struct gk_json *row = gk_json_at(rows, i);
        report(problems,
               "job %" PRId64 ": counts %" PRId64 " trials, %" PRId64
               " failed; the table holds %" PRId64 " and %" PRId64,
               gk_json_get_int(row, "job", 0), gk_json_get_int(row, "trials", 0),
               gk_json_get_int(row, "failed", 0), gk_json_get_int(row, "n", 0),
               gk_json_get_int(row, "bad", 0));
    }
    gk_json_free(rows);
    return status;
}

enum gk_status gk_db_check(struct gk_db *db, struct gk_json **report_out, struct gk_err *err)
{
    struct gk_json *problems = gk_json_new_array(), *out = gk_json_new_object();
    int64_t count = 0;
    bool was_broken = db->broken;
    enum gk_status status = problems && out ? GK_OK : gk_fail(err, GK_NOMEM, "out of memory");
    if (status == GK_OK) {
        status = check_pragma(db, "PRAGMA integrity_check(100)", "ok", problems, err);
    }
    if (status == GK_OK) {
        status = check_pragma(db, "PRAGMA foreign_key_check", "", problems, err);
    }
    if (status == GK_OK) {
        status = check_hashes(db, problems, &count, err);
    }
    if (status == GK_OK) {
        status = check_counters(db, problems, err);
    }
    if (status == GK_CORRUPT && err) {
        report(problems, "%s", err->text);
        db->broken = was_broken;
        status = GK_OK;
    }
    bool good = gk_json_count(problems) == 0;
    if (status == GK_OK &&
        (!gk_json_set_bool(out, "ok", good) || !gk_json_set_int(out, "trials_checked", count) ||
         !gk_json_set(out, "problems", gk_json_copy(problems)))) {
        status = gk_fail(err, GK_NOMEM, "out of memory");
    }
    gk_json_free(problems);
    if (status != GK_OK) {
        gk_json_free(out);
        return status;
    }
    *report_out = out;
    return GK_OK;
}

static enum gk_status refuse_existing(const char *path, struct gk_err *err)
{
    struct stat info;
    if (lstat(path, &info) == 0) {
        return gk_fail(err, GK_EXISTS, "%s exists already; nothing is overwritten", path);
    }
    return errno == ENOENT ? GK_OK : gk_fail(err, GK_IO, "%s: %s", path, strerror(errno));
}

/* Copies the whole of `from` into a new file and makes it durable. */
static enum gk_status copy_to(struct gk_db *db, const char *path, bool no_samples,
                              struct gk_err *err)
{
    sqlite3 *target = NULL;
    int rc = sqlite3_open_v2(
        path, &target, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOFOLLOW, NULL);
    if (rc == SQLITE_OK) {
        sqlite3_backup *backup = sqlite3_backup_init(target, "main", db->handle, "main");
        if (backup) {
            (void)sqlite3_backup_step(backup, -1); /* finish() repeats its error */
            rc = sqlite3_backup_finish(backup);
        } else {
            rc = sqlite3_errcode(target);
        }
    }
    if (rc == SQLITE_OK) {
        rc = sqlite3_exec(target, "PRAGMA journal_mode=DELETE", NULL, NULL, NULL);
    }
    enum gk_status status = GK_OK;
    if (rc == SQLITE_OK && no_samples) {
        status = db_pack(db, target, err);
    } else if (rc != SQLITE_OK) {
        status = gk_fail(err, (rc & 0xff) == SQLITE_FULL ? GK_FULL : GK_IO, "backup to %s: %s",
                         path, target ? sqlite3_errmsg(target) : sqlite3_errstr(rc));
    }
    (void)sqlite3_close(target); /* no statement is open */
    if (status != GK_OK) {
        (void)unlink(path); /* a torn backup is worse than none */
    } else if (chmod(path, 0600) != 0) {
        status = gk_fail(err, GK_IO, "%s: %s", path, strerror(errno));
    }
    return status;
}

enum gk_status gk_db_backup(struct gk_db *db, const char *path, bool no_samples, struct gk_err *err)
{
    enum gk_status status = refuse_existing(path, err);
    if (status == GK_OK) {
        status = gk_db_commit(db, err); /* what was written in this tick belongs to it */
    }
    return status == GK_OK ? copy_to(db, path, no_samples, err) : status;
}

/* A backup is whole without a log beside it, and says so in its header; a store does not. */
static enum gk_status refuse_store(const char *path, struct gk_err *err)
{
    unsigned char head[20] = {0};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t size = fd >= 0 ? read(fd, head, sizeof head) : -1;
    if (fd >= 0) {
        (void)close(fd); /* it was read only */
    }
    return size == (ssize_t)sizeof head && memcmp(head, "SQLite format 3", 16) == 0 && head[18] == 2
               ? gk_fail(err, GK_INPUT,
                         "%s is a copy of a store and no backup: what stood in its log is not in "
                         "it; make one with gktune db backup",
                         path)
               : GK_OK;
}

enum gk_status gk_db_restore(const char *backup, const char *path, struct gk_err *err)
{
    struct gk_db *db = NULL;
    struct gk_json *found = NULL;
    struct stat info;
    enum gk_status status = refuse_existing(path, err);
    if (status == GK_OK && (stat(backup, &info) != 0 || !S_ISREG(info.st_mode))) {
        status = gk_fail(err, GK_NOT_FOUND, "%s: no such backup file", backup);
    }
    if (status == GK_OK) {
        status = refuse_store(backup, err);
    }
    if (status == GK_OK) {
        status = gk_db_open(backup, false, &db, err);
    }
    if (status == GK_OK) {
        status = gk_db_check(db, &found, err);
    }
    if (status == GK_OK && !gk_json_get_bool(found, "ok", false)) {
        status = gk_fail(err, GK_CORRUPT, "%s is damaged: %s", backup,
                         gk_json_string(gk_json_at(gk_json_get(found, "problems"), 0), ""));
    }
    if (status == GK_OK) {
        status = copy_to(db, path, false, err);
    }
    gk_json_free(found);
    gk_db_close(db);
    return status;
}

enum gk_status gk_db_prune(struct gk_db *db, uint64_t before_ms, struct gk_json **report_out,
                           struct gk_err *err)
{
    /* Trials of ended jobs that no pick came from; a mark in the job's events says why its counters
     * are larger. */
    static const char doomed[] =
        "job IN (SELECT job FROM jobs WHERE ended_ms IS NOT NULL AND ended_ms<?1)"
        " AND trial NOT IN (SELECT trial FROM picks)";
    struct gk_buf sql = {0};
    int64_t count = 0;
    enum gk_status status;
    gk_buf_printf(&sql, "SELECT count(*) FROM trials WHERE %s", doomed);
    status = db_int(db, err, &count, gk_buf_text(&sql), "i", (int64_t)before_ms);
    if (status == GK_OK) {
        status = db_run(
            db, err,
            "INSERT INTO events(job,event,at_ms,kind,body) SELECT job, 1+(SELECT "
            "coalesce(max(event),0)"
            " FROM events e WHERE e.job=jobs.job), ?1, 'pruned', '{}' FROM jobs WHERE ended_ms<?1"
            " AND NOT EXISTS(SELECT 1 FROM events e WHERE e.job=jobs.job AND e.kind='pruned')",
            "i", (int64_t)before_ms);
    }
    for (size_t i = 0; status == GK_OK && i < 2; i++) {
        gk_buf_reset(&sql);
        gk_buf_puts(&sql,
                    i == 0 ? "DELETE FROM samples WHERE trial IN (SELECT trial FROM trials WHERE "
                           : "DELETE FROM trials WHERE ");
        gk_buf_puts(&sql, doomed);
        gk_buf_puts(&sql, i == 0 ? ")" : "");
        status = db_run(db, err, gk_buf_text(&sql), "i", (int64_t)before_ms);
    }
    if (status == GK_OK) {
        status = db_run(db, err,
                        "DELETE FROM passes WHERE task IN (SELECT task FROM tasks WHERE job IN"
                        " (SELECT job FROM jobs WHERE ended_ms<?1))",
                        "i", (int64_t)before_ms);
    }
    if (status == GK_OK) { /* on a GPU nearly every trial has conditions of its own */
        status = db_run(db, err,
                        "DELETE FROM environments WHERE environment NOT IN (SELECT environment FROM"
                        " trials WHERE environment IS NOT NULL UNION SELECT environment FROM picks"
                        " WHERE environment IS NOT NULL)",
                        "");
    }
    gk_buf_fini(&sql);
    memset(db->pending.events, 0, sizeof db->pending.events); /* logs have grown behind its back */
    struct gk_json *out = status == GK_OK ? gk_json_new_object() : NULL;
    if (status == GK_OK && (!out || !gk_json_set_int(out, "trials_deleted", count))) {
        status = gk_fail(err, GK_NOMEM, "out of memory");
    }
    if (status != GK_OK) {
        gk_json_free(out);
        return status;
    }
    *report_out = out;
    return GK_OK;
}
