/*
 * Looking at a store: `db check` in steps, so that a daemon serves between two of them, and the
 * scrub, which looks at a few rows now and then for ever. What the tables must agree on stands in
 * `rules`: docs/DESIGN.md section 4, as far as a store can show it.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

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

#define HASH_ROWS    250 /* a step: some 20 ms */
#define ATTEMPTS_MAX "3" /* as the daemon's; more is a trial that went round for ever */

enum stage {
    STAGE_PAGES,
    STAGE_KEYS,
    STAGE_HASHES,
    STAGE_COUNTERS,
    STAGE_RULES,
    STAGE_AUDIT,
    STAGE_END
};

struct gk_db_check {
    struct gk_db *db;
    struct gk_json *problems;
    enum stage stage;
    int64_t cursor, trials, lines;
    size_t rule;
};

/* Each gives a text a row for what breaks it; twenty of a kind tell enough. */
static const char *const rules[] = {
    "SELECT 'trial '||trial||' is '||state||', which no trial can be' AS text FROM trials"
    " WHERE state NOT IN ('proposed','recorded','parked','damaged') LIMIT 20",
    "SELECT 'lease '||l.token||': its trial '||l.trial||' is '||r.state AS text FROM leases l"
    " JOIN trials r ON r.trial=l.trial WHERE r.state<>'proposed' LIMIT 20",
    "SELECT 'trial '||trial||' has '||count(*)||' leases' AS text FROM leases"
    " WHERE trial IS NOT NULL GROUP BY trial HAVING count(*)>1 LIMIT 20",
    "SELECT 'lease '||l.token||': its job '||l.job||' has ended' AS text FROM leases l"
    " JOIN jobs j ON j.job=l.job WHERE j.ended_ms IS NOT NULL LIMIT 20",
    "SELECT 'lease '||l.token||' is out to device '||l.device_key||', which is fenced: '||f.cause"
    " AS text FROM leases l JOIN fences f ON f.device=l.device_key LIMIT 20",
    "SELECT 'lease '||token||' is of epoch '||epoch||', which there was not yet' AS text"
    " FROM leases WHERE epoch>(SELECT value FROM meta WHERE key='epoch') LIMIT 20",
    "SELECT 'token '||token||' was never given' AS text FROM (SELECT token FROM leases UNION ALL"
    " SELECT max(token) FROM trials WHERE token IS NOT NULL)"
    " WHERE token>=(SELECT value FROM meta WHERE key='next_token') LIMIT 20",
    "SELECT 'token '||token||' recorded '||count(*)||' trials' AS text FROM trials"
    " WHERE token IS NOT NULL AND state='recorded' GROUP BY token HAVING count(*)>1 LIMIT 20",
    "SELECT 'trial '||trial||' has a token and no worker' AS text FROM trials"
    " WHERE token IS NOT NULL AND worker IS NULL LIMIT 20",
    "SELECT 'trial '||trial||' is at attempt '||attempt||', " ATTEMPTS_MAX " are allowed' AS text"
    " FROM trials WHERE attempt>" ATTEMPTS_MAX " LIMIT 20",
    "SELECT 'job '||job||' is '||state||CASE WHEN ended_ms IS NULL THEN ' and has no end'"
    " ELSE ' and has an end' END AS text FROM jobs WHERE (ended_ms IS NULL)="
    "(state IN ('done','failed','cancelled')) LIMIT 20",
    "SELECT 'task '||k.task||' counts '||k.trials||' trials, '||k.failed||' failed; the table holds"
    " '||coalesce(r.n,0)||' and '||coalesce(r.bad,0) AS text FROM tasks k LEFT JOIN (SELECT task,"
    " count(*) AS n, sum(failure<>'none') AS bad FROM trials WHERE state='recorded' GROUP BY task)"
    " r ON r.task=k.task WHERE (k.trials<>coalesce(r.n,0) OR k.failed<>coalesce(r.bad,0)) AND NOT"
    " EXISTS(SELECT 1 FROM events e WHERE e.job=k.job AND e.kind='pruned') LIMIT 20",
    "SELECT 'dead letter '||d.dead||': its trial '||d.trial||' is '||r.state AS text FROM dead d"
    " JOIN trials r ON r.trial=d.trial WHERE d.kind='parked' AND d.state='dead' AND"
    " r.state<>'parked' LIMIT 20",
    "SELECT 'trial '||n.trial||' is not what `known` says of task '||n.task AS text FROM known n"
    " LEFT JOIN trials r ON r.trial=n.trial WHERE r.trial IS NULL OR r.task<>n.task OR"
    " r.config_id<>n.config_id LIMIT 20",
    "SELECT 'trial '||r.trial||' is missing in `known`' AS text FROM known_to n JOIN trials r ON"
    " r.task=n.task AND r.seq<n.seq WHERE NOT EXISTS(SELECT 1 FROM known k WHERE k.task=r.task AND"
    " k.config_id=r.config_id AND k.trial=r.trial) LIMIT 20",
    "SELECT 'audit line '||line||' tells of '||target||', which there is not' AS text FROM audit"
    " WHERE target LIKE 'job %' AND outcome NOT LIKE 'refused%' AND CAST(substr(target,5) AS"
    " INTEGER) NOT IN (SELECT job FROM jobs) LIMIT 20",
};

static bool row_is_damaged(const struct gk_json *row)
{
    char hash[GK_HASH_TEXT_SIZE];
    db_trial_hash(row, hash);
    return strcmp(hash, gk_json_get_string(row, "row_hash", "")) != 0;
}

#define HASHED                                                                                     \
    "SELECT trial,job,task,config_id,state,stage,failure,time_ns,record,row_hash FROM trials"      \
    " WHERE trial>?1 AND state='recorded' ORDER BY trial LIMIT ?2"

static enum gk_status check_hashes(struct gk_db_check *check, bool *ends_out, struct gk_err *err)
{
    struct gk_json *rows = NULL;
    enum gk_status status =
        db_rows(check->db, err, &rows, HASHED, "ii", check->cursor, (int64_t)HASH_ROWS);
    size_t count = status == GK_OK ? gk_json_count(rows) : 0;
    for (size_t i = 0; i < count; i++) {
        const struct gk_json *row = gk_json_at(rows, i);
        check->cursor = gk_json_get_int(row, "trial", check->cursor);
        if (row_is_damaged(row)) {
            report(check->problems, "trial %" PRId64 ": its row does not match its hash",
                   check->cursor);
        }
    }
    check->trials += (int64_t)count;
    *ends_out = count < HASH_ROWS;
    gk_json_free(rows);
    return status;
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

static enum gk_status check_rule(struct gk_db_check *check, struct gk_err *err)
{
    struct gk_json *rows = NULL;
    enum gk_status status = db_rows(check->db, err, &rows, rules[check->rule], "");
    for (size_t i = 0; status == GK_OK && i < gk_json_count(rows); i++) {
        report(check->problems, "%s", gk_json_get_string(gk_json_at(rows, i), "text", ""));
    }
    gk_json_free(rows);
    return status;
}

enum gk_status gk_db_check_begin(struct gk_db *db, struct gk_db_check **check_out,
                                 struct gk_err *err)
{
    struct gk_db_check *check = calloc(1, sizeof *check);
    if (!check || !(check->problems = gk_json_new_array())) {
        free(check);
        return gk_fail(err, GK_NOMEM, "out of memory for a check");
    }
    check->db = db;
    *check_out = check;
    return GK_OK;
}

static enum gk_status check_stage(struct gk_db_check *check, struct gk_err *err)
{
    enum gk_status status = GK_OK;
    bool ends = true;
    switch (check->stage) {
    case STAGE_PAGES:
        status = check_pragma(check->db, "PRAGMA integrity_check(100)", "ok", check->problems, err);
        break;
    case STAGE_KEYS:
        status = check_pragma(check->db, "PRAGMA foreign_key_check", "", check->problems, err);
        break;
    case STAGE_HASHES:
        status = check_hashes(check, &ends, err);
        break;
    case STAGE_COUNTERS:
        status = check_counters(check->db, check->problems, err);
        break;
    case STAGE_RULES:
        status = check_rule(check, err);
        ends = ++check->rule == GK_ARRAY_COUNT(rules);
        break;
    case STAGE_AUDIT:
        status = gk_db_audit_verify(check->db, &check->lines, check->problems, err);
        break;
    case STAGE_END:
        break;
    }
    if (status == GK_OK && ends) {
        check->stage++;
    }
    return status;
}

enum gk_status gk_db_check_step(struct gk_db_check *check, bool *done_out, struct gk_err *err)
{
    struct gk_err why = {0};
    bool was_broken = check->db->broken;
    enum gk_status status = check_stage(check, &why);
    if (status == GK_CORRUPT) { /* a finding, and what comes behind it cannot be read */
        report(check->problems, "%s", why.text);
        check->db->broken = was_broken;
        check->stage = STAGE_END;
        status = GK_OK;
    }
    if (status != GK_OK) {
        return gk_fail(err, status, "%s", why.text);
    }
    *done_out = check->stage == STAGE_END;
    return GK_OK;
}

enum gk_status gk_db_check_report(const struct gk_db_check *check, struct gk_json **report_out,
                                  struct gk_err *err)
{
    struct gk_json *out = gk_json_new_object();
    bool ok = gk_json_set_bool(out, "ok", gk_json_count(check->problems) == 0) &&
              gk_json_set_int(out, "trials_checked", check->trials) &&
              gk_json_set_int(out, "audit_lines", check->lines) &&
              gk_json_set(out, "problems", gk_json_copy(check->problems));
    if (!ok) {
        gk_json_free(out);
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    *report_out = out;
    return GK_OK;
}

void gk_db_check_end(struct gk_db_check *check)
{
    if (check) {
        gk_json_free(check->problems);
        free(check);
    }
}

enum gk_status gk_db_check(struct gk_db *db, struct gk_json **report_out, struct gk_err *err)
{
    struct gk_db_check *check = NULL;
    bool done = false;
    enum gk_status status = gk_db_check_begin(db, &check, err);
    while (status == GK_OK && !done) {
        status = gk_db_check_step(check, &done, err);
    }
    if (status == GK_OK) {
        status = gk_db_check_report(check, report_out, err);
    }
    gk_db_check_end(check);
    return status;
}

/* ------------------------------------------------------------------ scrub */

/* A damaged row answers nobody any more: it counts as if it had not been recorded. */
static enum gk_status put_aside(struct gk_db *db, const struct gk_json *row, struct gk_err *err)
{
    bool failed = strcmp(gk_json_get_string(row, "failure", ""), "none") != 0;
    enum gk_status status = db_run(db, err, "UPDATE trials SET state='damaged' WHERE trial=?1", "i",
                                   gk_json_get_int(row, "trial", 0));
    return status == GK_OK
               ? gk_db_count(db, gk_json_get_int(row, "job", 0), gk_json_get_int(row, "task", 0),
                             -1, -(int64_t)failed, 0, err)
               : status;
}

enum gk_status gk_db_scrub_step(struct gk_db *db, int64_t rows_max, int64_t *cursor,
                                struct gk_json **damaged_out, struct gk_err *err)
{
    struct gk_json *rows = NULL, *damaged = gk_json_new_array();
    enum gk_status status = damaged ? db_rows(db, err, &rows, HASHED, "ii", *cursor, rows_max)
                                    : gk_fail(err, GK_NOMEM, "out of memory for a scrub");
    size_t count = status == GK_OK ? gk_json_count(rows) : 0;
    for (size_t i = 0; status == GK_OK && i < count; i++) {
        const struct gk_json *row = gk_json_at(rows, i);
        *cursor = gk_json_get_int(row, "trial", *cursor);
        if (row_is_damaged(row)) {
            status = put_aside(db, row, err);
            if (status == GK_OK && !gk_json_push(damaged, gk_json_copy(row))) {
                status = gk_fail(err, GK_NOMEM, "out of memory for a scrub");
            }
        }
    }
    *cursor = (int64_t)count < rows_max ? 0 : *cursor; /* from the start again */
    gk_json_free(rows);
    if (status != GK_OK) {
        gk_json_free(damaged);
        return status;
    }
    *damaged_out = damaged;
    return GK_OK;
}

enum gk_status gk_db_trial_last(struct gk_db *db, int64_t *trial_out, struct gk_err *err)
{
    return db_int(db, err, trial_out, "SELECT coalesce(max(trial),0) FROM trials", "");
}
