/*
 * What adds up within a transaction is written once, at its end: counters of jobs and tasks, rates,
 * the next token; and the number of a job's last event is remembered. A tick under load records
 * hundreds of results, mostly of a few tasks.
 *
 * Nothing of it is seen too late: whoever reads rows (db_rows, db_row, db_int) writes it first, and
 * gk_db_commit() writes what is left. After a rollback it is forgotten.
 */
#include <stdlib.h>
#include <string.h>

#include "db/db_internal.h"

static enum gk_status write_task(struct gk_db *db, struct db_pending_task *slot, struct gk_err *err)
{
    struct db_pending_task sum = *slot;
    *slot = (struct db_pending_task){0};
    if (sum.task == 0) {
        return GK_OK;
    }
    enum gk_status status =
        db_run(db, err, "UPDATE jobs SET trials=trials+?2, failed=failed+?3 WHERE job=?1", "iii",
               sum.job, sum.trials, sum.failed);
    return status == GK_OK ? db_run(db, err,
                                    "UPDATE tasks SET trials=trials+?2, failed=failed+?3,"
                                    " verified=verified+?4, spent_ns=spent_ns+?5 WHERE task=?1",
                                    "iiiir", sum.task, sum.trials, sum.failed,
                                    sum.trials - sum.failed, sum.spent_ns)
                           : status;
}

static enum gk_status write_rates(struct gk_db *db, struct db_pending_rates *slot,
                                  struct gk_err *err)
{
    struct db_pending_rates sum = *slot;
    const struct gk_db_rates *delta = &sum.delta;
    *slot = (struct db_pending_rates){0};
    if (sum.job == 0) {
        return GK_OK;
    }
    return db_run(
        db, err,
        "INSERT INTO rates(job,verified,failed,duplicates,cold,warm,told,final_told,search_ns,"
        "device_ns,final_ns,gpu_verify_ns,gpu_measure_ns,gpu_final_ns) VALUES(?1,?2,?3,?4,?5,?6,?7,"
        "?8,?9,?10,?11,?12,?13,?14) ON CONFLICT(job) DO UPDATE SET verified=verified+?2,"
        "failed=failed+?3,duplicates=duplicates+?4,cold=cold+?5,warm=warm+?6,told=told+?7,"
        "final_told=final_told+?8,search_ns=search_ns+?9,device_ns=device_ns+?10,"
        "final_ns=final_ns+?11,gpu_verify_ns=gpu_verify_ns+?12,gpu_measure_ns=gpu_measure_ns+?13,"
        "gpu_final_ns=gpu_final_ns+?14",
        "iiiiiiiirrrrrr", sum.job, delta->verified, delta->failed, delta->duplicates, delta->cold,
        delta->warm, delta->told, delta->final_told, delta->search_ns, delta->device_ns,
        delta->final_ns, delta->gpu_verify_ns, delta->gpu_measure_ns, delta->gpu_final_ns);
}

enum gk_status db_flush(struct gk_db *db, struct gk_err *err)
{
    struct db_pending *pending = &db->pending;
    enum gk_status status = GK_OK;
    if (!pending->any) {
        return GK_OK;
    }
    pending->any = false; /* first: the writes below read nothing */
    for (uint32_t i = 0; status == GK_OK && i < DB_PENDING_TASKS; i++) {
        status = write_task(db, &pending->tasks[i], err);
    }
    for (uint32_t i = 0; status == GK_OK && i < DB_PENDING_JOBS; i++) {
        status = write_rates(db, &pending->rates[i], err);
    }
    if (status == GK_OK && pending->tokens_taken) {
        status = db_run(db, err, "UPDATE meta SET value=?1 WHERE key='next_token'", "i",
                        pending->next_token);
        pending->tokens_taken = false;
    }
    return status;
}

void db_forget_pending(struct gk_db *db)
{
    memset(&db->pending, 0, sizeof db->pending);
}

enum gk_status gk_db_count(struct gk_db *db, int64_t job, int64_t task, int64_t trials,
                           int64_t failed, double spent_ns, struct gk_err *err)
{
    struct db_pending_task *slot = &db->pending.tasks[(uint64_t)task % DB_PENDING_TASKS];
    enum gk_status status = db_begin(db, err);
    if (status == GK_OK && slot->task != task) {
        status = write_task(db, slot, err);
    }
    if (status == GK_OK) {
        db->pending.any = true;
        slot->job = job;
        slot->task = task;
        slot->trials += trials;
        slot->failed += failed;
        slot->spent_ns += spent_ns;
    }
    return status;
}

enum gk_status gk_db_rates_add(struct gk_db *db, int64_t job, const struct gk_db_rates *delta,
                               struct gk_err *err)
{
    struct db_pending_rates *slot = &db->pending.rates[(uint64_t)job % DB_PENDING_JOBS];
    enum gk_status status = db_begin(db, err);
    if (status == GK_OK && slot->job != job) {
        status = write_rates(db, slot, err);
    }
    if (status != GK_OK) {
        return status;
    }
    struct gk_db_rates *sum = &slot->delta;
    db->pending.any = true;
    slot->job = job;
    sum->verified += delta->verified;
    sum->failed += delta->failed;
    sum->duplicates += delta->duplicates;
    sum->cold += delta->cold;
    sum->warm += delta->warm;
    sum->told += delta->told;
    sum->final_told += delta->final_told;
    sum->search_ns += delta->search_ns;
    sum->device_ns += delta->device_ns;
    sum->final_ns += delta->final_ns;
    sum->gpu_verify_ns += delta->gpu_verify_ns;
    sum->gpu_measure_ns += delta->gpu_measure_ns;
    sum->gpu_final_ns += delta->gpu_final_ns;
    return GK_OK;
}

enum gk_status gk_db_take_tokens(struct gk_db *db, int64_t count, int64_t *first_out,
                                 struct gk_err *err)
{
    struct db_pending *pending = &db->pending;
    enum gk_status status = db_begin(db, err);
    if (status == GK_OK && !pending->tokens_known) {
        status = db_int(db, err, &pending->next_token,
                        "SELECT value FROM meta WHERE key='next_token'", "");
        pending->tokens_known = status == GK_OK;
    }
    if (status == GK_OK) {
        *first_out = pending->next_token;
        pending->next_token += count;
        pending->any = pending->tokens_taken = true;
    }
    return status;
}

enum gk_status gk_db_event_add(struct gk_db *db, int64_t job, uint64_t wall_ms, const char *kind,
                               const struct gk_json *body, int64_t *event_out, struct gk_err *err)
{
    char *text = gk_json_text(body);
    enum gk_status status = text ? gk_db_event_put(db, job, wall_ms, kind, text, event_out, err)
                                 : gk_fail(err, GK_NOMEM, "out of memory for an event");
    free(text);
    return status;
}

enum gk_status gk_db_event_put(struct gk_db *db, int64_t job, uint64_t wall_ms, const char *kind,
                               const char *body, int64_t *event_out, struct gk_err *err)
{
    struct db_last_event *last = &db->pending.events[(uint64_t)job % DB_PENDING_JOBS];
    enum gk_status status = db_begin(db, err);
    if (status == GK_OK && last->job != job) {
        *last = (struct db_last_event){0};
        status = db_int(db, err, &last->event,
                        "SELECT coalesce(max(event),0) FROM events WHERE job=?1", "i", job);
        last->job = status == GK_OK ? job : 0;
    }
    if (status == GK_OK) {
        status =
            db_run(db, err, "INSERT INTO events(job,event,at_ms,kind,body) VALUES(?1,?2,?3,?4,?5)",
                   "iiiss", job, last->event + 1, (int64_t)wall_ms, kind, body);
    }
    if (status == GK_OK) {
        *event_out = ++last->event;
    }
    return status;
}
