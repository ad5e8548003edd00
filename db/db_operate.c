/* What operators decide and what waits for them: fences, drains, dead letters and pardons. */
#include <inttypes.h>
#include <string.h>

#include "db/db_internal.h"

/* ------------------------------------------------------------------ fences */

enum gk_status gk_db_fence_put(struct gk_db *db, const struct gk_db_fence *fence, uint64_t wall_ms,
                               struct gk_err *err)
{
    return db_run(db, err,
                  "INSERT INTO fences(device,since_ms,origin,cause,who) VALUES(?1,?2,?3,?4,?5)"
                  " ON CONFLICT(device) DO UPDATE SET origin=?3,cause=?4,who=?5",
                  "sisss", fence->device, (int64_t)wall_ms, fence->origin, fence->cause,
                  fence->who);
}

enum gk_status gk_db_fence_drop(struct gk_db *db, const char *device, struct gk_err *err)
{
    return db_run(db, err, "DELETE FROM fences WHERE device=?1", "s", device);
}

enum gk_status gk_db_fences(struct gk_db *db, struct gk_json **rows_out, struct gk_err *err)
{
    return db_rows(db, err, rows_out, "SELECT * FROM fences ORDER BY device", "");
}

enum gk_status gk_db_device_at(struct gk_db *db, int64_t worker, const char *device,
                               struct gk_json **row_out, struct gk_err *err)
{
    return db_row(db, err, row_out,
                  "SELECT worker,device,arch,gpu,uuid FROM devices WHERE worker=?1 AND device=?2",
                  "is", worker, device);
}

enum gk_status gk_db_device_by_uuid(struct gk_db *db, const char *uuid, struct gk_json **row_out,
                                    struct gk_err *err)
{
    return db_row(db, err, row_out,
                  "SELECT worker,device,arch,gpu,uuid FROM devices WHERE uuid=?1"
                  " ORDER BY last_seen_ms DESC LIMIT 1",
                  "s", uuid);
}

/* ------------------------------------------------------------------ drains */

enum gk_status gk_db_drain_put(struct gk_db *db, bool on, uint64_t wall_ms, const char *reason,
                               struct gk_err *err)
{
    enum gk_status status =
        db_run(db, err, "DELETE FROM meta WHERE key IN ('drain_ms','drain_reason')", "");
    if (status == GK_OK && on) {
        status =
            db_run(db, err, "INSERT INTO meta(key,value) VALUES('drain_ms',?1),('drain_reason',?2)",
                   "is", (int64_t)wall_ms, reason);
    }
    return status;
}

enum gk_status gk_db_drain_get(struct gk_db *db, struct gk_json **drain_out, struct gk_err *err)
{
    return db_row(db, err, drain_out,
                  "SELECT (SELECT value FROM meta WHERE key='drain_ms') AS since_ms,"
                  " (SELECT value FROM meta WHERE key='drain_reason') AS reason",
                  "");
}

enum gk_status gk_db_worker_drain(struct gk_db *db, int64_t worker, bool on, uint64_t wall_ms,
                                  const char *reason, struct gk_err *err)
{
    return on ? db_run(db, err, "UPDATE workers SET drain_ms=?2, drain_reason=?3 WHERE worker=?1",
                       "iis", worker, (int64_t)wall_ms, reason)
              : db_run(db, err,
                       "UPDATE workers SET drain_ms=NULL, drain_reason=NULL WHERE worker=?1", "i",
                       worker);
}

enum gk_status gk_db_worker_row(struct gk_db *db, int64_t worker, struct gk_json **row_out,
                                struct gk_err *err)
{
    return db_row(db, err, row_out, "SELECT * FROM workers WHERE worker=?1", "i", worker);
}

/* ------------------------------------------------------------------ dead letters */

enum gk_status gk_db_dead_put(struct gk_db *db, const char *kind, int64_t trial, const char *arch,
                              const char *cause, uint64_t wall_ms, struct gk_err *err)
{
    /* One open letter a trial, or a config and arch: two partial indices see to it. Of a config
     * that an operator wants to hear no more of there is none. */
    return db_run(
        db, err,
        "INSERT INTO dead(kind,job,task,trial,template,config,config_id,arch,attempts,"
        "cause,state,at_ms) SELECT ?1,job,task,trial,template,config,config_id,?3,attempt,"
        "?4,'dead',?5 FROM trials t WHERE trial=?2 AND NOT (?1='quarantined' AND EXISTS(SELECT 1"
        " FROM dead d WHERE d.kind='quarantined' AND d.config_id=t.config_id AND"
        " d.arch=?3 AND d.state='forgotten')) ON CONFLICT DO NOTHING",
        "sissi", kind, trial, arch, cause, (int64_t)wall_ms);
}

enum gk_status gk_db_dead_get(struct gk_db *db, int64_t dead, struct gk_json **row_out,
                              struct gk_err *err)
{
    return db_row(db, err, row_out,
                  "SELECT d.*, p.op AS op, p.canonical AS problem, k.gpu AS gpu FROM dead d"
                  " LEFT JOIN tasks k ON k.task=d.task LEFT JOIN problems p USING(problem)"
                  " WHERE d.dead=?1",
                  "i", dead);
}

enum gk_status gk_db_dead_settle(struct gk_db *db, int64_t dead, const char *state,
                                 uint64_t wall_ms, struct gk_err *err)
{
    return db_run(db, err, "UPDATE dead SET state=?2, settled_ms=?3 WHERE dead=?1", "isi", dead,
                  state, (int64_t)wall_ms);
}

enum gk_status gk_db_dead_settle_task(struct gk_db *db, int64_t task, uint64_t wall_ms,
                                      struct gk_err *err)
{
    return db_run(db, err,
                  "UPDATE dead SET state='retried', settled_ms=?2 WHERE task=?1 AND kind='parked'"
                  " AND state='dead'",
                  "ii", task, (int64_t)wall_ms);
}

enum gk_status gk_db_dead_count(struct gk_db *db, int64_t *count_out, struct gk_err *err)
{
    return db_int(db, err, count_out, "SELECT count(*) FROM dead WHERE state='dead'", "");
}

enum gk_status gk_db_list_dead(struct gk_db *db, int64_t cursor, bool settled_too,
                               struct gk_json **page_out, struct gk_err *err)
{
    struct gk_json *rows = NULL;
    enum gk_status status =
        db_rows(db, err, &rows,
                "SELECT d.*, p.op AS op, p.canonical AS problem, k.gpu AS gpu FROM dead d"
                " LEFT JOIN tasks k ON k.task=d.task LEFT JOIN problems p USING(problem)"
                " WHERE d.dead>?1 AND (?2 OR d.state='dead') ORDER BY d.dead LIMIT 501",
                "ii", cursor, (int64_t)settled_too);
    if (status == GK_OK && !(*page_out = db_page(rows, "letters", "dead"))) {
        status = gk_fail(err, GK_NOMEM, "out of memory for a page");
    }
    return status;
}

enum gk_status gk_db_dead_expire(struct gk_db *db, uint64_t before_ms, int64_t *count_out,
                                 struct gk_err *err)
{
    enum gk_status status = db_int(db, err, count_out, "SELECT count(*) FROM dead WHERE at_ms<?1",
                                   "i", (int64_t)before_ms);
    return status == GK_OK && *count_out > 0
               ? db_run(db, err, "DELETE FROM dead WHERE at_ms<?1", "i", (int64_t)before_ms)
               : status;
}

enum gk_status gk_db_pardon(struct gk_db *db, const char *config_id, const char *arch,
                            struct gk_err *err)
{
    return db_run(db, err,
                  "INSERT INTO pardons(config_id,arch,trial) VALUES(?1,?2,"
                  "(SELECT coalesce(max(trial),0) FROM trials)) ON CONFLICT(config_id,arch)"
                  " DO UPDATE SET trial=excluded.trial",
                  "ss", config_id, arch);
}

enum gk_status gk_db_any_pardons(struct gk_db *db, bool *any_out, struct gk_err *err)
{
    int64_t any = 0;
    enum gk_status status = db_int(db, err, &any, "SELECT EXISTS(SELECT 1 FROM pardons)", "");
    if (status == GK_OK) {
        *any_out = any != 0;
    }
    return status;
}

enum gk_status gk_db_pardoned(struct gk_db *db, const char *config_id, const char *arch,
                              bool *pardoned_out, struct gk_err *err)
{
    int64_t count = 0;
    enum gk_status status =
        db_int(db, err, &count, "SELECT count(*) FROM pardons WHERE config_id=?1 AND arch=?2", "ss",
               config_id, arch);
    if (status == GK_OK) {
        *pardoned_out = count > 0;
    }
    return status;
}
