/* Reading open jobs from the store: at the start, and a job right after it was stored. */
#include <stdio.h>

#include "daemon/core_internal.h"

static char *copy_text(const struct gk_json *row, const char *key, bool *ok)
{
    const char *text = gk_json_get_string(row, key, NULL);
    char *copy = text ? gk_strdup(text) : NULL;
    *ok = *ok && (!text || copy);
    return copy;
}

static struct gk_json *copy_json(const struct gk_json *row, const char *key, bool *ok)
{
    const struct gk_json *value = gk_json_get(row, key);
    struct gk_json *copy = value ? gk_json_copy(value) : NULL;
    *ok = *ok && (!value || copy);
    return copy;
}

static enum gk_status task_from_row(const struct gk_json *row, struct job *job, struct task *task,
                                    struct gk_err *err)
{
    bool ok = true;
    task->job = job;
    task->id = gk_json_get_int(row, "task", 0);
    task->problem_id = gk_json_get_int(row, "problem", 0);
    task->op = copy_text(row, "op", &ok);
    task->canonical = copy_text(row, "canonical", &ok);
    (void)snprintf(task->arch, sizeof task->arch, "%s", gk_json_get_string(row, "arch", ""));
    (void)snprintf(task->gpu, sizeof task->gpu, "%s", gk_json_get_string(row, "gpu", ""));
    task->nvrtc = copy_text(row, "nvrtc", &ok);
    task->props = copy_json(row, "props", &ok);
    task->hints = copy_json(row, "hints", &ok);
    task->round = copy_json(row, "round", &ok);
    task->default_config = copy_text(row, "default_config", &ok);
    task->incumbent = copy_text(row, "incumbent", &ok);
    task->flags = copy_text(row, "flags", &ok);
    task->strategy_version = gk_json_get_int(row, "strategy_version", 0);
    task->trials = gk_json_get_int(row, "trials", 0);
    task->failed = gk_json_get_int(row, "failed", 0);
    task->attempt = gk_json_get_int(row, "attempt", 0);
    task->spent_ns = gk_json_get_real(row, "spent_ns", 0);
    if (!ok) {
        return gk_fail(err, GK_NOMEM, "out of memory for task %" PRId64, task->id);
    }
    if (!task_state_from(gk_json_get_string(row, "state", ""), &task->state)) {
        return gk_fail(err, GK_CORRUPT, "task %" PRId64 " is in no known state", task->id);
    }
    job->done_count += task->state >= TASK_JUDGED;
    return GK_OK;
}

struct job *job_from_row(const struct gk_json *row, struct gk_err *err)
{
    bool ok = true;
    struct job *job = calloc(1, sizeof *job);
    if (!job) {
        (void)gk_fail(err, GK_NOMEM, "out of memory for a job");
        return NULL;
    }
    job->id = gk_json_get_int(row, "job", 0);
    job->private_ok = gk_json_get_bool(row, "private_ok", false);
    job->finishing = gk_json_get_bool(row, "finishing", false);
    job->spread = gk_json_get_bool(row, "spread", false);
    job->fresh = gk_json_get_bool(row, "fresh", false);
    job->budget_trials = gk_json_get_int(row, "budget_trials", 0);
    job->budget_ns = gk_json_get_real(row, "budget_s", 0) * 1e9;
    job->strategy = copy_text(row, "strategy", &ok);
    job->policy = copy_text(row, "policy", &ok);
    job->bundle = copy_text(row, "bundle", &ok);
    job->what = copy_text(row, "what", &ok);
    job->suite = copy_text(row, "suite", &ok);
    job->slot = copy_text(row, "slot", &ok);
    job->night = copy_text(row, "night", &ok);
    job->until_ms = (uint64_t)gk_json_get_int(row, "until_ms", 0);
    job->seed = gk_json_get_int(row, "seed", 0);
    job->priority = job->effective = gk_json_get_int(row, "priority", 0);
    job->incumbents = copy_json(row, "incumbents", &ok);
    if (!ok || !job_state_from(gk_json_get_string(row, "state", ""), &job->state)) {
        (void)gk_fail(err, ok ? GK_CORRUPT : GK_NOMEM, "job %" PRId64 " does not read back",
                      job->id);
        job_free(NULL, job);
        return NULL;
    }
    return job;
}

enum gk_status job_load(struct gk_core *core, const struct gk_json *row, struct gk_err *err)
{
    struct gk_json *tasks = NULL, *bundle = NULL;
    struct job *job = job_from_row(row, err);
    if (!job) {
        return err ? err->status : GK_NOMEM;
    }
    enum gk_status status = gk_db_bundle_get(core->db, job->bundle, &bundle, err);
    if (status == GK_OK) {
        status = share_join(core, job, gk_json_get_string(row, "key", ""), err);
    }
    if (status == GK_OK) {
        job->files = gk_json_copy(gk_json_get(bundle, "files"));
        status = gk_db_tasks_of(core->db, job->id, &tasks, err);
    }
    if (status == GK_OK) {
        size_t count = gk_json_count(tasks);
        job->tasks = calloc(count ? count : 1, sizeof *job->tasks);
        if (!job->tasks || !job->files) {
            status = gk_fail(err, GK_NOMEM, "out of memory for the tasks of job %" PRId64, job->id);
        }
        for (size_t i = 0; status == GK_OK && i < count; i++) {
            job->task_count = (uint32_t)i + 1;
            status = task_from_row(gk_json_at(tasks, i), job, &job->tasks[i], err);
            if (status == GK_OK && job->tasks[i].state == TASK_SPREAD) {
                status = spread_load(core, &job->tasks[i], err);
            }
        }
    }
    if (status == GK_OK) {
        status = job_add(core, job, err);
    }
    if (status != GK_OK) {
        job_free(core, job);
    }
    gk_json_free(tasks);
    gk_json_free(bundle);
    return status;
}

static struct task *task_of(struct job *job, int64_t id)
{
    for (uint32_t i = 0; job && i < job->task_count; i++) {
        if (job->tasks[i].id == id) {
            return &job->tasks[i];
        }
    }
    return NULL;
}

static enum gk_status load_leases(struct gk_core *core, struct gk_err *err)
{
    struct gk_json *rows = NULL;
    enum gk_status status = gk_db_leases(core->db, &rows, err);
    for (size_t i = 0; status == GK_OK && i < gk_json_count(rows); i++) {
        const struct gk_json *row = gk_json_at(rows, i);
        struct job *job = job_find(core, gk_json_get_int(row, "job", 0));
        struct task *task = task_of(job, gk_json_get_int(row, "task", 0));
        struct lease lease = {.token = gk_json_get_int(row, "token", 0),
                              .trial = gk_json_get_int(row, "trial", 0),
                              .attempt = gk_json_get_int(row, "attempt", 0),
                              .worker = gk_json_get_int(row, "worker", 0),
                              .is_final = strcmp(gk_json_get_string(row, "kind", ""), "trial") != 0,
                              .is_spread =
                                  strcmp(gk_json_get_string(row, "kind", ""), "spread") == 0,
                              .started = gk_json_get_bool(row, "started", false),
                              .job = job,
                              .task = task,
                              .device = (uint32_t)gk_json_get_int(row, "device", 0),
                              .deadline_ns = core->now_ns + GRACE_NS};
        (void)snprintf(lease.device_key, sizeof lease.device_key, "%s",
                       gk_json_get_string(row, "device_key", ""));
        if (lease.is_spread && task && task->state == TASK_SPREAD) {
            status = spread_note(task, lease.device_key, err);
        }
        if (status != GK_OK) {
            break;
        }
        if (!task) { /* its job has ended: nobody waits for it */
            status = gk_db_lease_delete(core->db, lease.token, err);
        } else if (!lease_add(core, &lease, err)) {
            status = GK_NOMEM;
        }
    }
    gk_json_free(rows);
    return status;
}

enum gk_status core_load(struct gk_core *core, struct gk_err *err)
{
    struct gk_json *jobs = NULL;
    enum gk_status status = operators_load(core, err);
    if (status == GK_OK) {
        status = gk_db_backup_last(core->db, &core->counters.backup_wall_ms, err);
    }
    if (status == GK_OK) {
        status = gk_db_jobs_last_done(core->db, &core->counters.job_done_ms,
                                      &core->counters.night_done_ms, err);
    }
    if (status == GK_OK) {
        status = gk_db_jobs_open(core->db, &jobs, err);
    }
    for (size_t i = 0; status == GK_OK && i < gk_json_count(jobs); i++) {
        status = job_load(core, gk_json_at(jobs, i), err);
    }
    if (status == GK_OK) {
        status = load_leases(core, err);
    }
    for (uint32_t i = 0; status == GK_OK && i < core->lease_count; i++) {
        if (core->leases[i].is_final) {
            struct gk_json *passes = NULL;
            status = gk_db_passes_of(core->db, core->leases[i].token, &passes, err);
            core->leases[i].passes = (int64_t)gk_json_count(passes);
            gk_json_free(passes);
        }
    }
    gk_json_free(jobs);
    return status;
}
