/*
 * Pruning: trials of jobs that ended long ago go, in small batches, each in the transaction of its
 * tick, so that nobody waits for it. What a pick came from stays. The event `pruned` comes first:
 * it says why a job's counters are larger than what the tables hold, also when a batch was the
 * last one before the daemon ended.
 */
#include <inttypes.h>
#include <string.h>

#include "db/db_internal.h"

#define BATCH        "500" /* trials: some 20 ms with their samples */
#define LETTERS_DAYS 90    /* dead letters are kept at least so long */
#define ROW_BYTES    "400" /* of a trial beside its texts: names, hashes, numbers, indices */

#define DOOMED " FROM trials WHERE job=?1 AND trial NOT IN (SELECT trial FROM picks) ORDER BY trial"

static enum gk_status add(struct gk_db *db, const char *sql, int64_t job, int64_t *sum,
                          struct gk_err *err)
{
    int64_t value = 0;
    enum gk_status status = db_int(db, err, &value, sql, "i", job);
    *sum += status == GK_OK ? value : 0;
    return status;
}

/* What the next batch of a job, or all of it, would free. */
static enum gk_status weigh(struct gk_db *db, struct gk_db_prune *prune, int64_t *trials_out,
                            struct gk_err *err)
{
    static const char count[] = "SELECT count(*) FROM (SELECT trial" DOOMED " LIMIT " BATCH ")",
                      count_all[] = "SELECT count(*) FROM (SELECT trial" DOOMED ")";
    static const char rows[] =
        "SELECT coalesce(sum(n),0) FROM (SELECT " ROW_BYTES "+length(config)+"
        "coalesce(length(record),0)+coalesce(length(message),0) AS n" DOOMED " LIMIT " BATCH ")",
                      rows_all[] = "SELECT coalesce(sum(n),0) FROM (SELECT " ROW_BYTES
                                   "+length(config)+coalesce(length(record),0)+"
                                   "coalesce(length(message),0) AS n" DOOMED ")";
    static const char samples[] =
        "SELECT coalesce(sum(length(samples)),0) FROM samples WHERE trial IN (SELECT trial" DOOMED
        " LIMIT " BATCH ")",
                      samples_all[] =
                          "SELECT coalesce(sum(length(samples)),0) FROM samples WHERE trial IN"
                          " (SELECT trial" DOOMED ")";
    bool all = prune->dry_run;
    *trials_out = 0;
    enum gk_status status = add(db, all ? count_all : count, prune->job, trials_out, err);
    if (status == GK_OK) {
        status = add(db, all ? rows_all : rows, prune->job, &prune->bytes, err);
    }
    return status == GK_OK ? add(db, all ? samples_all : samples, prune->job, &prune->bytes, err)
                           : status;
}

static enum gk_status weigh_passes(struct gk_db *db, struct gk_db_prune *prune, struct gk_err *err)
{
    int64_t passes = 0;
    enum gk_status status =
        add(db, "SELECT count(*) FROM passes WHERE task IN (SELECT task FROM tasks WHERE job=?1)",
            prune->job, &passes, err);
    prune->passes += passes;
    return status == GK_OK
               ? add(db,
                     "SELECT coalesce(sum(length(samples)+length(failed)),0) FROM passes"
                     " WHERE task IN (SELECT task FROM tasks WHERE job=?1)",
                     prune->job, &prune->bytes, err)
               : status;
}

static enum gk_status say_pruned(struct gk_db *db, const struct gk_db_prune *prune,
                                 struct gk_err *err)
{
    memset(db->pending.events, 0, sizeof db->pending.events); /* the log grows behind its back */
    return db_run(
        db, err,
        "INSERT INTO events(job,event,at_ms,kind,body) SELECT ?1, 1+(SELECT coalesce(max(event),0)"
        " FROM events WHERE job=?1), ?2, 'pruned', '{}' WHERE NOT EXISTS(SELECT 1 FROM events"
        " WHERE job=?1 AND kind='pruned')",
        "ii", prune->job, (int64_t)prune->now_ms);
}

static enum gk_status delete_batch(struct gk_db *db, struct gk_db_prune *prune, struct gk_err *err)
{
    enum gk_status status = say_pruned(db, prune, err);
    if (status == GK_OK) {
        status = db_run(
            db, err, "DELETE FROM samples WHERE trial IN (SELECT trial" DOOMED " LIMIT " BATCH ")",
            "i", prune->job);
    }
    if (status == GK_OK) { /* in this order SQLite's planner takes the whole key, not the task */
        status = db_run(db, err,
                        "DELETE FROM known WHERE (config_id,task,trial) IN (SELECT"
                        " config_id,task,trial" DOOMED " LIMIT " BATCH ")",
                        "i", prune->job);
    }
    return status == GK_OK ? db_run(db, err,
                                    "DELETE FROM trials WHERE trial IN (SELECT trial" DOOMED
                                    " LIMIT " BATCH ")",
                                    "i", prune->job)
                           : status;
}

/* The job has no doomed trial left: its passes, then the next job. */
static enum gk_status end_job(struct gk_db *db, struct gk_db_prune *prune, struct gk_err *err)
{
    int64_t before = prune->passes;
    enum gk_status status = weigh_passes(db, prune, err);
    if (status == GK_OK && !prune->dry_run && prune->passes > before) {
        status = say_pruned(db, prune, err);
        status = status == GK_OK ? db_run(db, err,
                                          "DELETE FROM passes WHERE task IN (SELECT task FROM tasks"
                                          " WHERE job=?1)",
                                          "i", prune->job)
                                 : status;
    }
    prune->in_job = false;
    return status;
}

static enum gk_status end_all(struct gk_db *db, struct gk_db_prune *prune, struct gk_err *err)
{
    uint64_t kept_ms = UINT64_C(86400000) * LETTERS_DAYS;
    uint64_t before_ms = prune->now_ms > kept_ms ? prune->now_ms - kept_ms : 0;
    if (prune->dry_run) {
        return db_int(db, err, &prune->letters, "SELECT count(*) FROM dead WHERE at_ms<?1", "i",
                      (int64_t)before_ms);
    }
    enum gk_status status = gk_db_dead_expire(db, before_ms, &prune->letters, err);
    if (status == GK_OK && prune->trials > 0) { /* on a GPU nearly every trial has its own */
        status = db_run(db, err,
                        "DELETE FROM environments WHERE environment NOT IN (SELECT environment FROM"
                        " trials WHERE environment IS NOT NULL UNION SELECT environment FROM picks"
                        " WHERE environment IS NOT NULL)",
                        "");
    }
    return status;
}

enum gk_status gk_db_prune_step(struct gk_db *db, struct gk_db_prune *prune, bool *done_out,
                                struct gk_err *err)
{
    int64_t trials = 0;
    if (!prune->in_job) {
        enum gk_status found = db_int(db, err, &prune->job,
                                      "SELECT job FROM jobs WHERE job>?1 AND ended_ms IS NOT NULL"
                                      " AND ended_ms<?2 ORDER BY job LIMIT 1",
                                      "ii", prune->job, (int64_t)prune->before_ms);
        if (found == GK_NOT_FOUND) {
            *done_out = true;
            return end_all(db, prune, err);
        }
        if (found != GK_OK) {
            return found;
        }
        prune->in_job = true;
    }
    enum gk_status status = weigh(db, prune, &trials, err);
    prune->trials += trials;
    if (status == GK_OK && trials > 0 && !prune->dry_run) {
        status = delete_batch(db, prune, err);
    }
    if (status == GK_OK && (trials == 0 || prune->dry_run)) {
        status = end_job(db, prune, err);
    }
    if (status == GK_OK) {
        *done_out = false;
    }
    return status;
}

enum gk_status gk_db_prune_report(const struct gk_db_prune *prune, struct gk_json **report_out,
                                  struct gk_err *err)
{
    struct gk_json *out = gk_json_new_object();
    bool ok = gk_json_set_bool(out, "dry_run", prune->dry_run) &&
              gk_json_set_int(out, "trials_deleted", prune->trials) &&
              gk_json_set_int(out, "passes_deleted", prune->passes) &&
              gk_json_set_int(out, "letters_deleted", prune->letters) &&
              gk_json_set_int(out, "bytes", prune->bytes);
    if (!ok) {
        gk_json_free(out);
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    *report_out = out;
    return GK_OK;
}

enum gk_status gk_db_prune(struct gk_db *db, uint64_t before_ms, struct gk_json **report_out,
                           struct gk_err *err)
{
    struct gk_db_prune prune = {.before_ms = before_ms, .now_ms = before_ms};
    enum gk_status status = GK_OK;
    for (bool done = false; status == GK_OK && !done;) {
        status = gk_db_prune_step(db, &prune, &done, err);
    }
    return status == GK_OK ? gk_db_prune_report(&prune, report_out, err) : status;
}
