/* Jobs, tasks, problems, events, meta, workers, devices, bundles. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "db/db_internal.h"

static const char JOB_COLUMNS[] =
    "submit_id spec_key what ops bundle archs private_ok "
    "budget_trials budget_s strategy seed priority "
    "policy incumbents state finishing created_ms ended_ms problems "
    "tasks done trials failed reason suite slot night until_ms key spread fresh";
static const char TASK_COLUMNS[] =
    "job problem arch gpu state props nvrtc hints strategy_version trials verified failed spent_ns "
    "best_ns best_config default_config incumbent round attempt verdict reason flags not_run";
#define TASK_SELECT                                                                                \
    "SELECT t.*, p.op AS op, p.canonical AS canonical FROM tasks t JOIN problems p "               \
    "USING(problem) "

/* The first start: a store without an epoch has no id either. */
static enum gk_status make_meta(struct gk_db *db, struct gk_err *err)
{
    struct gk_hash id = {0};
    char text[GK_HASH_TEXT_SIZE];
    gk_random_bytes(id.bytes, sizeof id.bytes);
    gk_hash_hex(&id, text);
    text[32] = '\0';
    return db_run(db, err, "INSERT INTO meta(key,value) VALUES('store_id',?1),('next_token',1)",
                  "s", text);
}

/* An older copy than the one that gave out tokens: what it believes to be out is not, and what it
 * would give next was given before. Tokens go on where no epoch before could get to: two restores
 * lie GK_DB_EPOCH_JUMP epochs apart, so 2^44 tokens. */
static enum gk_status leave_behind(struct gk_db *db, int64_t epoch, struct gk_err *err)
{
    enum gk_status status = db_run(db, err, "DELETE FROM leases", "");
    if (status == GK_OK) {
        status = db_run(db, err, "UPDATE meta SET value=max(value,?1) WHERE key='next_token'", "i",
                        epoch << 24);
    }
    db->pending.tokens_known = false; /* read anew */
    return status;
}

enum gk_status gk_db_start_at(struct gk_db *db, const struct gk_db_past *past, int64_t *epoch_out,
                              bool *jumped_out, struct gk_err *err)
{
    int64_t epoch = 0;
    enum gk_status status = db_int(db, err, &epoch, "SELECT value FROM meta WHERE key='epoch'", "");
    if (status == GK_NOT_FOUND) {
        status = make_meta(db, err);
    }
    bool jump = past->restored || past->epoch > epoch;
    epoch = past->epoch > epoch ? past->epoch : epoch;
    epoch += jump ? GK_DB_EPOCH_JUMP : 1;
    if (status == GK_OK && jump) {
        status = leave_behind(db, epoch, err);
    }
    if (status == GK_OK) {
        status = db_run(db, err,
                        "INSERT INTO meta(key,value) VALUES('epoch',?1) "
                        "ON CONFLICT(key) DO UPDATE SET value=?1",
                        "i", epoch);
    }
    if (status == GK_OK && jump) {
        char outcome[64];
        (void)snprintf(outcome, sizeof outcome, "epoch %" PRId64, epoch);
        struct gk_db_audit line = {.who = "gktuned",
                                   .what = "restore",
                                   .target = "store",
                                   .reason = past->restored ? "db restore"
                                                            : "the store is older than its folder",
                                   .outcome = outcome};
        status = gk_db_audit_add(db, past->wall_ms, &line, err);
    }
    if (status == GK_OK) {
        status = gk_db_commit(db, err);
    }
    if (status == GK_OK) {
        *epoch_out = epoch;
        *jumped_out = jump;
    }
    return status;
}

enum gk_status gk_db_start(struct gk_db *db, int64_t *epoch_out, struct gk_err *err)
{
    struct gk_db_past none = {0};
    bool jumped;
    return gk_db_start_at(db, &none, epoch_out, &jumped, err);
}

enum gk_status gk_db_meta(struct gk_db *db, struct gk_json **meta_out, struct gk_err *err)
{
    struct gk_json *meta = NULL;
    enum gk_status status = db_row(db, err, &meta,
                                   "SELECT (SELECT value FROM meta WHERE key='epoch') AS epoch,"
                                   " (SELECT value FROM meta WHERE key='next_token') AS next_token,"
                                   " (SELECT value FROM meta WHERE key='store_id') AS store_id",
                                   "");
    if (status != GK_OK) {
        return status;
    }
    if (!gk_json_set_int(meta, "schema", gk_db_schema(db)) ||
        !gk_json_set_string(meta, "path", db->path)) {
        gk_json_free(meta);
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    *meta_out = meta;
    return GK_OK;
}

enum gk_status gk_db_problem_put(struct gk_db *db, const char *op, const char *canonical,
                                 int64_t *problem_out, struct gk_err *err)
{
    struct gk_hash hash = gk_hash_text(canonical);
    char id[GK_HASH_TEXT_SIZE];
    gk_hash_hex(&hash, id);
    enum gk_status status =
        db_run(db, err,
               "INSERT INTO problems(id,op,canonical) VALUES(?1,?2,?3) ON CONFLICT(id) DO NOTHING",
               "sss", id, op, canonical);
    return status == GK_OK
               ? db_int(db, err, problem_out, "SELECT problem FROM problems WHERE id=?1", "s", id)
               : status;
}

enum gk_status gk_db_job_insert(struct gk_db *db, const struct gk_json *job, int64_t *job_out,
                                struct gk_err *err)
{
    return db_insert(db, "jobs", JOB_COLUMNS, job, job_out, err);
}

enum gk_status gk_db_job_update(struct gk_db *db, int64_t job, const struct gk_json *changes,
                                struct gk_err *err)
{
    return db_update(db, "jobs", JOB_COLUMNS, "job", job, changes, err);
}

enum gk_status gk_db_rates(struct gk_db *db, int64_t job, struct gk_json **rates_out,
                           struct gk_err *err)
{
    return db_row(db, err, rates_out, "SELECT * FROM rates WHERE job=?1", "i", job);
}

enum gk_status gk_db_job_get(struct gk_db *db, int64_t job, struct gk_json **job_out,
                             struct gk_err *err)
{
    return db_row(db, err, job_out, "SELECT * FROM jobs WHERE job=?1", "i", job);
}

enum gk_status gk_db_job_by_submit(struct gk_db *db, const char *submit_id,
                                   struct gk_json **job_out, struct gk_err *err)
{
    return db_row(db, err, job_out,
                  "SELECT *, (SELECT hash FROM submits WHERE submit_id=?1) AS submit_hash"
                  " FROM jobs WHERE job=coalesce((SELECT job FROM submits WHERE submit_id=?1),"
                  " (SELECT job FROM jobs WHERE submit_id=?1))",
                  "s", submit_id);
}

enum gk_status gk_db_submit_put(struct gk_db *db, const char *submit_id, int64_t job,
                                const char *hash, struct gk_err *err)
{
    return db_run(db, err, "INSERT INTO submits(submit_id,job,hash) VALUES(?1,?2,?3)", "sis",
                  submit_id, job, hash);
}

enum gk_status gk_db_job_by_spec(struct gk_db *db, const char *spec_key, bool open_only,
                                 struct gk_json **job_out, struct gk_err *err)
{
    return db_row(db, err, job_out,
                  "SELECT * FROM jobs WHERE spec_key=?1 AND (?2=0 OR ended_ms IS NULL)"
                  " ORDER BY job DESC LIMIT 1",
                  "si", spec_key, (int64_t)open_only);
}

enum gk_status gk_db_jobs_open(struct gk_db *db, struct gk_json **rows_out, struct gk_err *err)
{
    return db_rows(db, err, rows_out, "SELECT * FROM jobs WHERE ended_ms IS NULL ORDER BY job", "");
}

enum gk_status gk_db_jobs_last_done(struct gk_db *db, uint64_t *job_ms_out, uint64_t *night_ms_out,
                                    struct gk_err *err)
{
    int64_t job_ms = 0, night_ms = 0;
    enum gk_status status = db_int(db, err, &job_ms,
                                   "SELECT ifnull(max(ended_ms),0) FROM jobs"
                                   " WHERE state='done' AND suite IS NULL",
                                   "");
    if (status == GK_OK) {
        status = db_int(db, err, &night_ms,
                        "SELECT ifnull(max(ended_ms),0) FROM jobs"
                        " WHERE state='done' AND suite IS NOT NULL",
                        "");
    }
    if (status == GK_OK) {
        *job_ms_out = job_ms > 0 ? (uint64_t)job_ms : 0;
        *night_ms_out = night_ms > 0 ? (uint64_t)night_ms : 0;
    }
    return status;
}

enum gk_status gk_db_task_insert(struct gk_db *db, const struct gk_json *task, int64_t *task_out,
                                 struct gk_err *err)
{
    return db_insert(db, "tasks", TASK_COLUMNS, task, task_out, err);
}

enum gk_status gk_db_task_update(struct gk_db *db, int64_t task, const struct gk_json *changes,
                                 struct gk_err *err)
{
    return db_update(db, "tasks", TASK_COLUMNS, "task", task, changes, err);
}

enum gk_status gk_db_tasks_of(struct gk_db *db, int64_t job, struct gk_json **rows_out,
                              struct gk_err *err)
{
    return db_rows(db, err, rows_out, TASK_SELECT "WHERE t.job=?1 ORDER BY t.task", "i", job);
}

enum gk_status gk_db_task_former(struct gk_db *db, int64_t job, int64_t problem, const char *arch,
                                 const char *gpu, const char *nvrtc, struct gk_json **task_out,
                                 struct gk_err *err)
{
    return db_row(db, err, task_out,
                  "SELECT t.* FROM tasks t JOIN jobs j USING(job) WHERE t.problem=?2 AND t.arch=?3"
                  " AND t.gpu=?4 AND t.nvrtc=?5 AND t.state='done' AND j.job<>?1 AND j.spec_key="
                  "(SELECT spec_key FROM jobs WHERE job=?1) ORDER BY t.task DESC LIMIT 1",
                  "iisss", job, problem, arch, gpu, nvrtc);
}

enum gk_status gk_db_task_verdict(struct gk_db *db, int64_t task, struct gk_json **verdict_out,
                                  struct gk_err *err)
{
    struct gk_json *row = NULL;
    enum gk_status status =
        db_row(db, err, &row, "SELECT verdict FROM tasks WHERE task=?1", "i", task);
    const struct gk_json *verdict = gk_json_get(row, "verdict");
    *verdict_out = verdict ? gk_json_copy(verdict) : NULL;
    if (status == GK_OK && verdict && !*verdict_out) {
        status = gk_fail(err, GK_NOMEM, "out of memory");
    }
    gk_json_free(row);
    return status;
}

enum gk_status gk_db_task_has_twins(struct gk_db *db, int64_t task, int64_t problem,
                                    const char *arch, const char *gpu, bool *has_out,
                                    struct gk_err *err)
{
    int64_t has = 0;
    enum gk_status status = db_peek(
        db, err, &has,
        "SELECT EXISTS(SELECT 1 FROM tasks WHERE problem=?1 AND arch=?2 AND gpu=?3 AND task<>?4)",
        "issi", problem, arch, gpu, task);
    if (status == GK_OK) {
        *has_out = has != 0;
    }
    return status;
}

enum gk_status gk_db_task_asked(struct gk_db *db, int64_t task, const char *config, bool *asked_out,
                                struct gk_err *err)
{
    int64_t count = 0;
    enum gk_status status =
        db_int(db, err, &count, "SELECT count(*) FROM trials WHERE task=?1 AND config=?2", "is",
               task, config);
    if (status == GK_OK) {
        *asked_out = count > 0;
    }
    return status;
}

enum gk_status gk_db_events(struct gk_db *db, int64_t job, int64_t after, struct gk_json **rows_out,
                            struct gk_err *err)
{
    return db_rows(db, err, rows_out,
                   "SELECT job,event,kind,at_ms,body FROM events WHERE job=?1 AND event>?2"
                   " ORDER BY event LIMIT 500",
                   "ii", job, after);
}

enum gk_status gk_db_worker_get(struct gk_db *db, const char *spool, struct gk_json **worker_out,
                                struct gk_err *err)
{
    return db_row(db, err, worker_out, "SELECT worker,key FROM workers WHERE spool_id=?1", "s",
                  spool);
}

enum gk_status gk_db_worker_put(struct gk_db *db, const struct gk_json *hello, const char *key,
                                uint64_t wall_ms, int64_t *worker_out, struct gk_err *err)
{
    const char *spool = gk_json_get_string(hello, "spool_id", "");
    enum gk_status status =
        db_run(db, err,
               "INSERT INTO "
               "workers(spool_id,host,pid,build,boot_id,cores,state,first_seen_ms,last_seen_ms,job,"
               "key)"
               " VALUES(?1,?2,?3,?4,?5,?6,'connected',?7,?7,?8,?9)"
               " ON CONFLICT(spool_id) DO UPDATE SET"
               " host=?2,pid=?3,build=?4,boot_id=?5,cores=?6,state='connected',last_seen_ms=?7,"
               "job=?8",
               "sjjjjjijs", spool, gk_json_get(hello, "host"), gk_json_get(hello, "pid"),
               gk_json_get(hello, "build"), gk_json_get(hello, "boot_id"),
               gk_json_get(hello, "cores"), (int64_t)wall_ms, gk_json_get(hello, "job"), key);
    return status == GK_OK ? db_int(db, err, worker_out,
                                    "SELECT worker FROM workers WHERE spool_id=?1", "s", spool)
                           : status;
}

enum gk_status gk_db_worker_seen(struct gk_db *db, int64_t worker, uint64_t wall_ms,
                                 const char *state, struct gk_err *err)
{
    return db_run(db, err, "UPDATE workers SET state=?2, last_seen_ms=?3 WHERE worker=?1", "isi",
                  worker, state, (int64_t)wall_ms);
}

enum gk_status gk_db_device_put(struct gk_db *db, int64_t worker, const struct gk_json *props,
                                const char *nvrtc, uint64_t wall_ms, struct gk_err *err)
{
    return db_run(db, err,
                  "INSERT INTO devices(worker,device,arch,gpu,uuid,name,nvrtc,props,last_seen_ms)"
                  " VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9) ON CONFLICT(worker,device) DO UPDATE SET "
                  "arch=?3,gpu=?4,"
                  "uuid=?5,name=?6,nvrtc=?7,props=?8,last_seen_ms=?9",
                  "ijjjjjsji", worker, gk_json_get(props, "device"), gk_json_get(props, "arch"),
                  gk_json_get(props, "gpu"), gk_json_get(props, "uuid"), gk_json_get(props, "name"),
                  nvrtc, props, (int64_t)wall_ms);
}

enum gk_status gk_db_archs(struct gk_db *db, uint64_t since_ms, struct gk_json **rows_out,
                           struct gk_err *err)
{
    return db_rows(db, err, rows_out,
                   "SELECT arch, gpu, props, nvrtc, max(last_seen_ms) AS last_seen_ms FROM devices"
                   " WHERE last_seen_ms>=?1 GROUP BY arch, gpu ORDER BY arch, gpu",
                   "i", (int64_t)since_ms);
}

enum gk_status gk_db_device_of(struct gk_db *db, int64_t task, const char *arch, const char *gpu,
                               struct gk_json **props_out, struct gk_err *err)
{
    struct gk_json *row = NULL;
    enum gk_status status = db_row(
        db, err, &row, "SELECT props FROM tasks WHERE task=?1 AND props IS NOT NULL", "i", task);
    if (status == GK_NOT_FOUND) {
        status = db_row(db, err, &row,
                        "SELECT props FROM devices WHERE arch=?1 AND gpu=?2"
                        " ORDER BY last_seen_ms DESC LIMIT 1",
                        "ss", arch, gpu);
    }
    if (status == GK_OK && !(*props_out = gk_json_copy(gk_json_get(row, "props")))) {
        status = gk_fail(err, GK_NOMEM, "out of memory");
    }
    gk_json_free(row);
    return status;
}

enum gk_status gk_db_bundle_put(struct gk_db *db, const char *id, const struct gk_json *files,
                                const struct gk_json *templates, uint64_t wall_ms,
                                struct gk_err *err)
{
    return db_run(db, err,
                  "INSERT INTO bundles(id,files,templates,created_ms) VALUES(?1,?2,?3,?4)"
                  " ON CONFLICT(id) DO UPDATE SET created_ms=?4",
                  "sjji", id, files, templates, (int64_t)wall_ms);
}

enum gk_status gk_db_bundle_get(struct gk_db *db, const char *id, struct gk_json **bundle_out,
                                struct gk_err *err)
{
    return db_row(db, err, bundle_out, "SELECT * FROM bundles WHERE id=?1", "s", id);
}

enum gk_status gk_db_template_hash(struct gk_db *db, const char *op, const char *template_name,
                                   char hash_out[GK_HASH_TEXT_SIZE], struct gk_err *err)
{
    struct gk_json *rows = NULL;
    enum gk_status status =
        db_rows(db, err, &rows,
                "SELECT templates FROM bundles ORDER BY created_ms DESC, rowid DESC LIMIT 64", "");
    if (status != GK_OK) {
        return status;
    }
    status = GK_NOT_FOUND;
    for (size_t i = 0; i < gk_json_count(rows) && status != GK_OK; i++) {
        const struct gk_json *templates =
            gk_json_get(gk_json_get(gk_json_at(rows, i), "templates"), op);
        struct gk_hash hash;
        if (gk_hash_from_hex(gk_json_get_string(templates, template_name, ""), &hash)) {
            gk_hash_hex(&hash, hash_out);
            status = GK_OK;
        }
    }
    gk_json_free(rows);
    return status == GK_OK
               ? GK_OK
               : gk_fail(err, GK_NOT_FOUND, "template %s of %s is in no bundle", template_name, op);
}
