/* Listings: one page each, the cursor is the key of the last row of the page before. */
#include <string.h>

#include "db/db_internal.h"

static enum gk_status page(enum gk_status status, struct gk_json *rows, const char *name,
                           const char *key, struct gk_json **page_out, struct gk_err *err)
{
    if (status != GK_OK) {
        return status;
    }
    struct gk_json *page_ = db_page(rows, name, key);
    if (!page_) {
        return gk_fail(err, GK_NOMEM, "out of memory for a page");
    }
    *page_out = page_;
    return GK_OK;
}

enum gk_status gk_db_list_jobs(struct gk_db *db, int64_t cursor, const char *state,
                               struct gk_json **page_out, struct gk_err *err)
{
    struct gk_json *rows = NULL;
    enum gk_status status = db_rows(
        db, err, &rows,
        "SELECT job,state,what,ops,archs,strategy,seed,budget_trials,budget_s,priority,policy,"
        "private_ok,finishing,created_ms,ended_ms,problems,tasks,done,trials,failed,reason,key,"
        "suite,slot,night,until_ms,spread FROM jobs"
        " WHERE job>?1 AND (?2 IS NULL OR state=?2) ORDER BY job LIMIT 501",
        "is", cursor, state);
    return page(status, rows, "jobs", "job", page_out, err);
}

/* A computed column has no declared type: its text is made a list here. */
static enum gk_status parse_marks(struct gk_json *row, struct gk_err *err)
{
    const char *text = gk_json_get_string(row, "marks", NULL);
    struct gk_json *list = NULL;
    if (!text) {
        return GK_OK;
    }
    enum gk_status status = gk_json_parse(text, strlen(text), "marks", &list, err);
    return status == GK_OK && !gk_json_set(row, "marks", list)
               ? gk_fail(err, GK_NOMEM, "out of memory")
               : status;
}

enum gk_status gk_db_list_trials(struct gk_db *db, int64_t job, bool failed_only, int64_t cursor,
                                 struct gk_json **page_out, struct gk_err *err)
{
    struct gk_json *rows = NULL;
    enum gk_status status = db_rows(
        db, err, &rows,
        "SELECT r.trial,r.job,r.task,r.seq,p.op,p.canonical AS "
        "problem,k.arch,k.gpu,r.template,r.config,"
        "r.config_id,r.state,r.attempt,r.reused,r.stage,r.failure,r.message,r.time_ns,r.cost_ns,"
        "r.worker,r.recorded_ms,json_extract(r.record,'$.marks') AS marks FROM trials r JOIN tasks "
        "k ON k.task=r.task JOIN problems p"
        " ON p.problem=k.problem WHERE r.job=?1 AND r.trial>?2 AND (?3=0 OR r.state='parked'"
        " OR (r.state='recorded' AND r.failure<>'none')) ORDER BY r.trial LIMIT 501",
        "iii", job, cursor, (int64_t)failed_only);
    for (size_t i = 0; status == GK_OK && i < gk_json_count(rows); i++) {
        status = parse_marks((struct gk_json *)(uintptr_t)gk_json_at(rows, i), err); /* ours */
    }
    if (status != GK_OK) {
        gk_json_free(rows);
        return status;
    }
    return page(status, rows, "trials", "trial", page_out, err);
}

#define MEASURED_ROWS 100 /* 256 samples each fit a message of 1 MiB */

enum gk_status gk_db_list_measured(struct gk_db *db, int64_t job, int64_t cursor,
                                   struct gk_json **page_out, struct gk_err *err)
{
    struct gk_json *rows = NULL;
    enum gk_status status = db_rows(
        db, err, &rows,
        "SELECT r.trial,p.op,p.canonical AS problem,k.arch,k.gpu,r.template,r.config,r.failure,"
        "r.time_ns,r.recorded_ms,json_extract(r.record,'$.compile_ns') AS compile_ns,"
        "json_extract(r.record,'$.verify_ns') AS verify_ns,"
        "json_extract(r.record,'$.measure_ns') AS measure_ns,"
        "json_extract(r.record,'$.kernels[0].regs') AS regs,"
        "json_extract(r.record,'$.kernels[0].spill_bytes') AS spill_bytes,"
        "json_extract(r.record,'$.kernels[0].dynamic_smem') AS dynamic_smem,s.samples"
        " FROM trials r JOIN tasks k ON k.task=r.task JOIN problems p ON p.problem=k.problem"
        " LEFT JOIN samples s ON s.trial=r.trial"
        " WHERE r.job=?1 AND r.trial>?2 AND r.state='recorded' AND r.reused IS NULL"
        " ORDER BY r.trial LIMIT ?3",
        "iii", job, cursor, (int64_t)MEASURED_ROWS + 1);
    if (status == GK_OK && !(*page_out = db_page_of(rows, "trials", "trial", MEASURED_ROWS))) {
        status = gk_fail(err, GK_NOMEM, "out of memory for a page");
    }
    return status;
}

enum gk_status gk_db_list_tasks(struct gk_db *db, int64_t job, int64_t cursor,
                                struct gk_json **page_out, struct gk_err *err)
{
    struct gk_json *rows = NULL;
    enum gk_status status = db_rows(db, err, &rows,
                                    "SELECT k.task,p.op,p.canonical AS "
                                    "problem,k.arch,k.gpu,k.state,k.trials,k.verified,k.failed,"
                                    "k.spent_ns,k.best_ns,k.best_config,k.default_config,k."
                                    "incumbent,k.attempt,k.verdict,k.reason,k.not_run,k.nvrtc,"
                                    "(SELECT r.failure FROM trials r WHERE r.task=k.task AND "
                                    "r.config=k.incumbent AND r.state='recorded' ORDER BY r.trial "
                                    "DESC LIMIT 1) AS incumbent_failure"
                                    " FROM tasks k JOIN problems p USING(problem) WHERE k.job=?1 "
                                    "AND k.task>?2 ORDER BY k.task LIMIT 501",
                                    "ii", job, cursor);
    return page(status, rows, "tasks", "task", page_out, err);
}

enum gk_status gk_db_list_picks(struct gk_db *db, const char *op, const char *arch, const char *gpu,
                                int64_t job, int64_t cursor, struct gk_json **page_out,
                                struct gk_err *err)
{
    struct gk_json *rows = NULL;
    enum gk_status status = db_rows(
        db, err, &rows,
        "SELECT k.pick,k.op,p.canonical AS problem,p.id AS problem_id,k.arch,k.gpu,k.policy,k.kind,"
        "k.template,k.template_hash,k.config,k.config_id,k.time_ns,k.default_ns,k.default_config,"
        "k.margin,k.noise_floor,k.ties,k.reason,k.ladder,k.record,k.modelled,k.nvrtc,k.environment,"
        "k.bundle,k.job,k.task,k.trial,k.passes,k.created_ms,k.confirmed_ms,k.incumbent_ns,"
        "k.vendor,k.regime,k.conditions,k.marks,"
        "(SELECT json_extract(t.props,'$.driver') FROM tasks t WHERE t.task=k.task) AS driver"
        " FROM picks k JOIN "
        "problems p"
        " USING(problem) WHERE k.pick>?1 AND (?2 IS NULL OR k.op=?2) AND (?3 IS NULL OR k.arch=?3)"
        " AND (?4 IS NULL OR k.gpu=?4) AND (?5=0 OR EXISTS(SELECT 1 FROM tasks t JOIN jobs j"
        " USING(job) WHERE t.job=?5 AND j.policy=k.policy AND t.problem=k.problem AND"
        " t.arch=k.arch AND t.gpu=k.gpu)) ORDER BY k.pick LIMIT 501",
        "isssi", cursor, op, arch, gpu, job);
    return page(status, rows, "rows", "pick", page_out, err);
}

enum gk_status gk_db_list_workers(struct gk_db *db, int64_t cursor, struct gk_json **page_out,
                                  struct gk_err *err)
{
    struct gk_json *rows = NULL, *devices = NULL;
    enum gk_status status = db_rows(
        db, err, &rows,
        "SELECT "
        "worker,drain_ms,drain_reason,host,pid,build,cores,state,first_seen_ms,last_seen_ms,job,"
        "(SELECT count(*) FROM leases l WHERE l.worker=w.worker) AS leases FROM workers w"
        " WHERE worker>?1 ORDER BY worker LIMIT 501",
        "i", cursor);
    for (size_t i = 0; status == GK_OK && i < gk_json_count(rows); i++) {
        struct gk_json *row = (struct gk_json *)(uintptr_t)gk_json_at(rows, i); /* ours, not lent */
        status = db_rows(
            db, err, &devices,
            "SELECT device,arch,gpu,uuid,name,nvrtc,last_seen_ms FROM devices WHERE worker=?1"
            " ORDER BY device",
            "i", gk_json_get_int(row, "worker", 0));
        if (status == GK_OK && !gk_json_set(row, "devices", devices)) {
            status = gk_fail(err, GK_NOMEM, "out of memory for devices");
        }
    }
    if (status != GK_OK) {
        gk_json_free(rows);
        return status;
    }
    return page(status, rows, "workers", "worker", page_out, err);
}
