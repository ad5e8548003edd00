/*
 * What must hold: the invariants of the service against the store and against what its parties were
 * promised. Moves that must never happen are caught by temporary triggers at the write itself; the
 * rest is asked after each commit, and what was acknowledged after each start and at the end.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "db/db_internal.h"
#include "tests/sim/sim.h"

#define ALIVE_NS (40 * SECOND_NS) /* nothing was wrong with a worker for so long */

static const char TRIGGERS[] =
    "CREATE TEMP TABLE red(text TEXT);"
    "CREATE TEMP TRIGGER t1 AFTER UPDATE ON main.jobs WHEN OLD.state IN ('done','cancelled')"
    " AND NEW.state<>OLD.state BEGIN INSERT INTO red VALUES("
    " 'job '||OLD.job||' went from '||OLD.state||' to '||NEW.state); END;"
    "CREATE TEMP TRIGGER t2 AFTER UPDATE ON main.tasks WHEN OLD.state IN ('done','cancelled')"
    " AND NEW.state<>OLD.state BEGIN INSERT INTO red VALUES("
    " 'task '||OLD.task||' went from '||OLD.state||' to '||NEW.state); END;"
    "CREATE TEMP TRIGGER t3 AFTER UPDATE ON main.trials WHEN OLD.state='recorded' AND"
    " (NEW.state<>OLD.state OR NEW.record IS NOT OLD.record OR NEW.token IS NOT OLD.token)"
    " BEGIN INSERT INTO red VALUES('recorded trial '||OLD.trial||' was changed'); END;"
    "CREATE TEMP TRIGGER t4 AFTER INSERT ON main.leases WHEN EXISTS(SELECT 1 FROM main.leases l"
    " WHERE l.token<>NEW.token AND (l.token>NEW.token OR l.trial=NEW.trial OR"
    " (l.task=NEW.task AND l.kind='final' AND NEW.kind='final')))"
    " BEGIN INSERT INTO red VALUES('token '||NEW.token||': a second one is current, or a higher one"
    " was given'); END;"
    "CREATE TEMP TRIGGER t5 AFTER UPDATE ON main.trials WHEN NEW.attempt>3"
    " BEGIN INSERT INTO red VALUES('trial '||NEW.trial||' has attempt '||NEW.attempt); END;"
    "CREATE TEMP TRIGGER t6 AFTER DELETE ON main.trials BEGIN INSERT INTO red VALUES("
    " 'trial '||OLD.trial||' was deleted'); END;"
    "CREATE TEMP TRIGGER t7 AFTER DELETE ON main.jobs BEGIN INSERT INTO red VALUES("
    " 'job '||OLD.job||' was deleted'); END;"
    "CREATE TEMP TRIGGER t8 AFTER INSERT ON main.events WHEN NEW.event<>1+coalesce((SELECT"
    " max(event) FROM main.events e WHERE e.job=NEW.job AND e.event<>NEW.event),0)"
    " BEGIN INSERT INTO red VALUES('event '||NEW.event||' of job '||NEW.job||' is out of order');"
    " END;";

void check_open(struct sim *sim)
{
    struct gk_err err = {0};
    if (db_exec(sim->db, TRIGGERS, &err) != GK_OK) {
        sim_red(sim, "the triggers of the check: %s", err.text);
    }
}

/* The query gives rows only if something is wrong; each has a column `text`. */
static void must_be_empty(struct sim *sim, const char *what, const char *sql)
{
    struct gk_json *rows = NULL;
    struct gk_err err = {0};
    enum gk_status status = db_rows(sim->db, &err, &rows, sql, "");
    if (status != GK_OK && !disk_is_dead() && !disk_fault_hit()) {
        sim_red(sim, "%s: %s", what, err.text);
    } else if (gk_json_count(rows) > 0) {
        sim_red(sim, "%s: %s (%zu rows)", what,
                gk_json_get_string(gk_json_at(rows, 0), "text", "?"), gk_json_count(rows));
    }
    gk_json_free(rows);
}

void check_commit(struct sim *sim)
{
    must_be_empty(sim, "a forbidden move", "SELECT text FROM temp.red");
    must_be_empty(sim, "counters of a job",
                  "SELECT 'job '||j.job||' counts '||j.trials||', '||j.failed AS text FROM jobs j"
                  " WHERE j.trials<>(SELECT count(*) FROM trials t WHERE t.job=j.job AND"
                  " t.state='recorded') OR j.failed<>(SELECT count(*) FROM trials t WHERE"
                  " t.job=j.job AND t.state='recorded' AND t.failure<>'none')");
    must_be_empty(sim, "a lease of a fenced device",
                  "SELECT 'token '||l.token||', '||f.device AS text FROM leases l JOIN devices d ON"
                  " d.worker=l.worker JOIN fences f ON f.device=l.worker||'/'||d.device");
    must_be_empty(sim, "a lease of a trial that has ended",
                  "SELECT 'token '||l.token||': trial '||t.trial||' is '||t.state AS text FROM"
                  " leases l JOIN trials t ON t.trial=l.trial WHERE t.state IN"
                  " ('recorded','parked')");
}

int64_t check_open_jobs(struct sim *sim)
{
    int64_t count = -1;
    if (db_int(sim->db, NULL, &count, "SELECT count(*) FROM jobs WHERE ended_ms IS NULL", "") !=
        GK_OK) {
        return -1;
    }
    /* A client that has not heard of its submit goes on asking. */
    for (uint32_t i = 0; i < sim->client_count; i++) {
        const struct gk_json *request = sim->clients[i].request;
        count += strcmp(gk_json_get_string(request, "verb", ""), "submit") == 0;
    }
    return count;
}

void check_miscount(struct sim *sim)
{
    if (gk_db_is_dirty(sim->db) && sim->results % 16 == 7) {
        (void)db_run(sim->db, NULL, "UPDATE jobs SET trials=trials+1 WHERE trials>3", "");
    }
}

void check_forget_leases(struct sim *sim)
{
    (void)db_run(sim->db, NULL, "DELETE FROM leases", ""); /* it is a bug on purpose */
}

/* ------------------------------------------------------------------ promises */

static void check_result(struct sim *sim, int64_t token, const struct token_log *log)
{
    struct gk_json *row = NULL;
    int64_t count = 0;
    struct gk_err err = {0};
    if (log->passes_acked > 0) {
        if (db_int(sim->db, &err, &count, "SELECT count(*) FROM passes WHERE token=?1 AND pass<=?2",
                   "ii", token, log->passes_acked) != GK_OK ||
            count != log->passes_acked) {
            sim_red(sim,
                    "token %" PRId64 ": %" PRId64 " passes were acknowledged, %" PRId64
                    " are stored",
                    token, log->passes_acked, count);
        }
        return;
    }
    if (!log->acked || log->infra) {
        return; /* an infrastructure failure is no result: the trial is run again */
    }
    enum gk_status status =
        db_row(sim->db, &err, &row,
               "SELECT t.trial AS trial, t.time_ns AS time_ns, t.failure AS failure, w.spool_id AS"
               " spool, (SELECT count(*) FROM trials u WHERE u.token=t.token) AS n FROM trials t"
               " JOIN workers w ON w.worker=t.worker WHERE t.token=?1 AND t.state='recorded'",
               "i", token);
    if (status != GK_OK) {
        sim_red(sim,
                "token %" PRId64 " of trial %" PRId64 ": its result was acknowledged and is"
                " not stored (%s)",
                token, log->trial, err.text);
        return;
    }
    bool failed = strcmp(gk_json_get_string(row, "failure", ""), "none") != 0;
    double time_ns = gk_json_get_real(row, "time_ns", 0);
    bool same =
        failed == log->failed && (failed || (time_ns <= log->time_ns && time_ns >= log->time_ns));
    if (!same || gk_json_get_int(row, "n", 0) != 1 ||
        gk_json_get_int(row, "trial", 0) != log->trial ||
        strcmp(gk_json_get_string(row, "spool", ""), sim->workers[log->worker].spool_id) != 0) {
        sim_red(sim, "token %" PRId64 ": what is stored is not what worker %u was told is stored",
                token, log->worker);
    }
    gk_json_free(row);
}

static void check_job(struct sim *sim, const struct job_log *log)
{
    struct gk_json *row = NULL;
    int64_t events = 0;
    if (log->job == 0) {
        return;
    }
    if (db_row(sim->db, NULL, &row, "SELECT state FROM jobs WHERE job=?1", "i", log->job) !=
        GK_OK) {
        sim_red(sim, "submit %s was acknowledged as job %" PRId64 ", which is not there",
                log->submit_id, log->job);
        return;
    }
    if (log->cancel_acked && strcmp(gk_json_get_string(row, "state", ""), "cancelled") != 0) {
        sim_red(sim, "job %" PRId64 " was cancelled, and is %s", log->job,
                gk_json_get_string(row, "state", ""));
    }
    gk_json_free(row);
    if (db_int(sim->db, NULL, &events, "SELECT coalesce(max(event),0) FROM events WHERE job=?1",
               "i", log->job) == GK_OK &&
        events < log->events_seen) {
        sim_red(sim, "job %" PRId64 ": event %" PRId64 " was shown, %" PRId64 " are stored",
                log->job, log->events_seen, events);
    }
}

void check_promises(struct sim *sim)
{
    for (int64_t token = 1; token <= sim->token_max && !sim->red[0]; token++) {
        check_result(sim, token, &sim->tokens[token]);
    }
    for (uint32_t i = 0; i < sim->job_count && !sim->red[0]; i++) {
        check_job(sim, &sim->jobs[i]);
    }
}

/* ------------------------------------------------------------------ leases */

/* A trial, or a final round, is given out while another worker is at it, alive and well. */
static void check_rerun(struct sim *sim, int64_t token, const struct token_log *log)
{
    for (int64_t t = token - 1; t > 0; t--) {
        const struct token_log *other = &sim->tokens[t];
        /* One config on several GPUs at once: that is what a spread is. */
        bool same = other->granted_ns > 0 && other->is_final == log->is_final && !log->is_spread &&
                    !other->is_spread &&
                    (log->is_final ? other->task == log->task : other->trial == log->trial);
        if (!same) {
            continue;
        }
        struct sim_worker *holder = &sim->workers[other->worker];
        bool well = holder->state == WORKER_UP && holder->trouble_ns + ALIVE_NS < sim->now_ns;
        if (!other->over && well && worker_lease(holder, t) &&
            sim->now_ns - other->granted_ns < 1000 * SECOND_NS) {
            sim_red(sim,
                    "%s %" PRId64 " is given out as token %" PRId64 " while worker %u runs it"
                    " as token %" PRId64,
                    log->is_final ? "the final round of task" : "trial",
                    log->is_final ? log->task : log->trial, token, other->worker, t);
        }
        return;
    }
}

void check_grant(struct sim *sim, uint32_t worker, const struct gk_json *lease, uint64_t epoch)
{
    int64_t token = gk_json_get_int(lease, "token", 0);
    struct token_log *log = &sim->tokens[token];
    if (log->granted_ns != 0) {
        bool same = log->worker == worker && log->trial == gk_json_get_int(lease, "trial", 0);
        if (!same) {
            sim_red(sim, "token %" PRId64 " was given to worker %u and to worker %u", token,
                    log->worker, worker);
        }
        return;
    }
    if ((int64_t)epoch > sim->epoch_seen) {
        sim_red(sim, "lease %" PRId64 " says epoch %" PRIu64 ", the daemon is at %" PRId64, token,
                epoch, sim->epoch_seen);
    }
    *log =
        (struct token_log){.worker = worker,
                           .trial = gk_json_get_int(lease, "trial", 0),
                           .task = gk_json_get_int(lease, "task", 0),
                           .is_final = strcmp(gk_json_get_string(lease, "kind", ""), "final") == 0,
                           .is_spread = gk_json_count(gk_json_get(lease, "configs")) == 1,
                           .granted_ns = sim->now_ns};
    log->infra = !log->is_final && sim_chance(sim, 10);
    sim->token_max = token > sim->token_max ? token : sim->token_max;
    check_rerun(sim, token, log);
}

void check_in(struct sim *sim, uint32_t conn, const struct gk_message *message)
{
    if (message->type == GK_MSG_DEVICE_EVENT && sim->conns[conn].is_worker) {
        struct sim_worker *worker = &sim->workers[sim->conns[conn].party];
        bool fenced = strcmp(gk_json_get_string(message->body, "state", ""), "fenced") == 0;
        if (message->session != 0 && message->session == worker->session) {
            worker->fenced_session = fenced ? message->session : 0;
            worker->fenced_conn = conn;
        }
    }
}

void check_out(struct sim *sim, uint32_t conn, const struct gk_message *message)
{
    if (message->type != GK_MSG_LEASE || !sim->conns[conn].is_worker) {
        return;
    }
    const struct sim_worker *worker = &sim->workers[sim->conns[conn].party];
    if (worker->fenced_session != 0 && worker->fenced_session == message->session &&
        worker->fenced_conn == conn) {
        sim_red(sim, "a lease for %s, whose device is fenced", worker->spool_id);
    }
}

/* ------------------------------------------------------------------ the end */

void check_end(struct sim *sim)
{
    struct gk_json *report = NULL;
    struct gk_err err = {0};
    check_promises(sim);
    check_commit(sim);
    must_be_empty(sim, "a job without an end",
                  "SELECT 'job '||job||' is '||state AS text FROM jobs WHERE ended_ms IS NULL OR"
                  " state NOT IN ('done','failed','cancelled')");
    must_be_empty(sim, "a task without an end",
                  "SELECT 'task '||task||' is '||state AS text FROM tasks WHERE state NOT IN"
                  " ('done','failed','cancelled')");
    must_be_empty(sim, "a config without an end",
                  "SELECT 'trial '||t.trial||' is '||t.state AS text FROM trials t JOIN tasks k"
                  " USING(task) WHERE k.state='done' AND t.state NOT IN ('recorded','parked')");
    must_be_empty(sim, "a lease of nobody", "SELECT 'token '||token AS text FROM leases");
    must_be_empty(sim, "a submit that came out twice",
                  "SELECT submit_id AS text FROM jobs GROUP BY submit_id HAVING count(*)>1");
    for (int64_t token = 1; token <= sim->token_max && !sim->red[0]; token++) {
        int64_t count = 0; /* recorded under a token: that worker held it and sent a result */
        if (sim->tokens[token].granted_ns > 0 && !sim->tokens[token].sent &&
            db_int(sim->db, NULL, &count,
                   "SELECT count(*) FROM trials WHERE token=?1 AND state='recorded'", "i",
                   token) == GK_OK &&
            count > 0) {
            sim_red(sim, "token %" PRId64 " has a result that its worker %u never sent", token,
                    sim->tokens[token].worker);
        }
    }
    if (gk_db_check(sim->db, &report, &err) != GK_OK || !gk_json_get_bool(report, "ok", false)) {
        sim_red(sim, "db check: %s",
                gk_json_string(gk_json_at(gk_json_get(report, "problems"), 0), err.text));
    }
    gk_json_free(report);
}
