/* Leases: granted against credit, fairly over tasks; ended by a result, a loss or a deadline. */
#include <stdio.h>

#include "daemon/core_internal.h"

struct lease *lease_find(struct gk_core *core, int64_t token)
{
    uintptr_t place = (uintptr_t)gk_table_get(&core->lease_places, (uint64_t)token);
    return place ? &core->leases[place - 1] : NULL;
}

/* The table says where a token's lease stands; leases move when one before them is removed. */
static bool place_lease(struct gk_core *core, uint32_t at)
{
    return gk_table_put(&core->lease_places, (uint64_t)core->leases[at].token,
                        (void *)((uintptr_t)at + 1));
}

struct lease *lease_add(struct gk_core *core, const struct lease *lease, struct gk_err *err)
{
    if (core->lease_count == core->lease_capacity) {
        uint32_t capacity = core->lease_capacity ? core->lease_capacity * 2 : 64;
        struct lease *leases = realloc(core->leases, capacity * sizeof *leases);
        if (!leases) {
            (void)gk_fail(err, GK_NOMEM, "out of memory for a lease");
            return NULL;
        }
        core->leases = leases;
        core->lease_capacity = capacity;
    }
    core->leases[core->lease_count] = *lease;
    if (!place_lease(core, core->lease_count)) {
        (void)gk_fail(err, GK_NOMEM, "out of memory for a lease");
        return NULL;
    }
    lease->task->leases++;
    lease->job->share->leases++;
    return &core->leases[core->lease_count++];
}

void lease_remove(struct gk_core *core, struct lease *lease)
{
    struct session *session = session_find(core, lease->session);
    if (session) { /* which has the device: settle_held() */
        session->devices[lease->device].leases -= session->devices[lease->device].leases > 0;
        session->devices[lease->device].in_final =
            session->devices[lease->device].in_final && !lease->is_final;
    }
    lease->task->leases--;
    lease->job->share->leases--;
    (void)gk_table_remove(&core->lease_places, (uint64_t)lease->token);
    *lease = core->leases[--core->lease_count];
    if (lease != &core->leases[core->lease_count]) {
        (void)place_lease(core, (uint32_t)(lease - core->leases)); /* replaces: cannot fail */
    }
}

/* ------------------------------------------------------------------ losses */

static enum gk_status park(struct gk_core *core, struct task *task, struct trial *trial,
                           const char *why, struct gk_err *err)
{
    struct gk_record record;
    gk_record_init(&record);
    gk_record_fail(&record, GK_STAGE_RUN, GK_FAILURE_INFRA,
                   "parked after %d attempts; the last one: %s", ATTEMPTS_MAX, why);
    struct gk_json *json = gk_record_to_json(&record);
    gk_record_fini(&record);
    enum gk_status status = json ? trial_recorded(core, task, trial, NULL, "parked", json, 0, err)
                                 : gk_fail(err, GK_NOMEM, "out of memory for a record");
    gk_json_free(json);
    core->counters.parked++;
    struct gk_notice *notice = core_notice(core, GK_EVENT_TRIAL_PARKED, "%s", why);
    notice->job = task->job->id;
    notice->task = task->id;
    notice->trial = trial->id;
    notice->count = ATTEMPTS_MAX;
    return status == GK_OK ? dead_letter(core, task, "parked", trial->id, why, err) : status;
}

static enum gk_status trial_again(struct gk_core *core, struct task *task, struct trial *trial,
                                  bool counts, const char *why, struct gk_err *err)
{
    trial->attempt += counts;
    trial->token = 0;
    trial->state = TRIAL_PROPOSED;
    struct gk_json *changes = gk_json_new_object();
    bool ok = gk_json_set_string(changes, "state", "proposed") &&
              gk_json_set_int(changes, "attempt", trial->attempt);
    enum gk_status status = ok ? gk_db_trial_update(core->db, trial->id, changes, err)
                               : gk_fail(err, GK_NOMEM, "out of memory");
    gk_json_free(changes);
    return status == GK_OK && trial->attempt >= ATTEMPTS_MAX ? park(core, task, trial, why, err)
                                                             : status;
}

enum gk_status lease_lost(struct gk_core *core, struct lease *lease, bool counts, const char *why,
                          struct gk_err *err)
{
    struct lease gone = *lease;
    struct gk_notice *notice = core_notice(core, GK_EVENT_LEASE_LOST, "%s", why);
    notice_lease(notice, lease);
    notice_name(notice, counts ? "counts" : "free");
    notice->count = gone.attempt + 1;
    gone.job->served_ns = core->now_ns;
    enum gk_status status = gk_db_lease_delete(core->db, gone.token, err);
    if (status == GK_OK && !gone.is_final) {
        /* While it is still among the leases, which say what is out. A task that does not open has
         * ended, and its leases with it. */
        status = task_open(core, gone.task, err);
        lease = lease_find(core, gone.token);
    }
    if (lease) {
        lease_remove(core, lease);
    }
    if (status != GK_OK) {
        return status;
    }
    if (gone.is_spread) {
        return spread_lost(core, &gone, why, err);
    }
    if (gone.is_final) {
        /* The round starts anew: passes of two leases are never paired. */
        gone.task->attempt += counts;
        gone.task->reserved_session = 0;
        struct gk_json *changes = gk_json_new_object();
        status = gk_json_set_int(changes, "attempt", gone.task->attempt)
                     ? gk_db_task_update(core->db, gone.task->id, changes, err)
                     : gk_fail(err, GK_NOMEM, "out of memory");
        gk_json_free(changes);
        if (status == GK_OK && gone.task->attempt >= ATTEMPTS_MAX) {
            char reason[256];
            (void)snprintf(reason, sizeof reason,
                           "the final round was lost %d times; the last time: %.150s", ATTEMPTS_MAX,
                           why);
            status = task_move(core, gone.task, TASK_FAILED, reason, err);
        }
        return status;
    }
    struct trial *trial = gone.task->search ? task_trial(gone.task, gone.trial) : NULL;
    return trial && trial->state <= TRIAL_LEASED && trial->token == gone.token
               ? trial_again(core, gone.task, trial, counts, why, err)
               : GK_OK;
}

void lease_cancel(struct gk_core *core, const struct lease *lease)
{
    struct session *session = session_find(core, lease->session);
    if (!session) {
        return;
    }
    struct gk_json *body = gk_json_new_object(), *tokens = gk_json_new_array();
    bool ok = gk_json_push(tokens, gk_json_new_int(lease->token));
    if (gk_json_set(body, "tokens", tokens) && ok) {
        core_send_session(core, session, GK_MSG_CANCEL, 0, body);
    } else { /* its result will be stale, and change nothing */
        gk_json_free(body);
    }
}

enum gk_status leases_step(struct gk_core *core, struct gk_err *err)
{
    for (uint32_t i = core->lease_count; i-- > 0;) {
        struct lease *lease = &core->leases[i];
        if (i >= core->lease_count || lease->deadline_ns > core->now_ns) {
            continue;
        }
        const struct session *session = session_find(core, lease->session);
        lease_cancel(core, lease);
        core->counters.expired++;
        core->counters.expired_silent += !session;
        enum gk_status status =
            lease_lost(core, lease, lease->started,
                       session ? "its deadline passed" : "its worker is gone", err);
        if (status != GK_OK) {
            return status;
        }
    }
    return GK_OK;
}

/* ------------------------------------------------------------------ granting */

/* Of a budget in seconds a fifth is kept back for the final round. */
static int64_t final_budget_s(const struct job *job)
{
    int64_t kept = (int64_t)(job->budget_ns * 0.2 / 1e9);
    return job->budget_ns <= 0        ? FINAL_BUDGET_S
           : kept < FINAL_SECONDS_MIN ? FINAL_SECONDS_MIN
           : kept > FINAL_BUDGET_S    ? FINAL_BUDGET_S
                                      : kept;
}

/* Files of the job's bundle as text: every LEASE of the job carries them. */
static const char *files_text(struct job *job)
{
    job->files_text = job->files_text ? job->files_text : gk_json_text(job->files);
    return job->files_text ? job->files_text : "[]"; /* of no memory: the worker gives it back */
}

static void put_text(struct gk_buf *text, const char *key, const char *value)
{
    gk_buf_puts(text, key);
    gk_json_put_string(text, value);
}

static void put_int(struct gk_buf *text, const char *key, int64_t value)
{
    gk_buf_puts(text, key);
    gk_json_put_int(text, value);
}

/* What a LEASE says of a trial or (trial NULL) of a final round, as canonical text: keys in order.
 * Written by hand, since thousands of them leave a second. The files of a bundle are said once to a
 * worker that keeps them: they are most of the message. */
static bool put_lease(struct gk_buf *text, struct session *session, const struct lease *lease,
                      const struct trial *trial, bool pardoned, const struct gk_json *configs)
{
    const struct task *task = lease->task;
    bool modelled = session->devices[lease->device].props.modelled;
    put_int(text, "{\"attempt\":", lease->attempt);
    if (trial && task->search->best_ns > 0) {
        gk_buf_puts(text, ",\"best_ns\":");
        gk_json_put_real(text, task->search->best_ns);
    } else if (!trial) {
        put_int(text,
                ",\"budget_s\":", lease->is_spread ? SPREAD_BUDGET_S : final_budget_s(task->job));
    }
    gk_buf_puts(text, ",\"bundle\":{");
    if (!session->keeps_bundle || strcmp(session->last_bundle, task->job->bundle) != 0) {
        gk_buf_puts(text, "\"files\":");
        gk_buf_puts(text, files_text(task->job));
        gk_buf_putc(text, ',');
        (void)snprintf(session->last_bundle, sizeof session->last_bundle, "%s", task->job->bundle);
    }
    put_text(text, "\"id\":", task->job->bundle);
    put_int(text, "},\"compile_s\":", COMPILE_S);
    if (trial) {
        put_text(text, ",\"config\":", trial->words->config);
        put_text(text, ",\"config_id\":", trial->words->config_id);
    } else {
        gk_buf_puts(text, ",\"configs\":");
        if (!configs || gk_json_canonical(configs, text, NULL) != GK_OK) {
            return false;
        }
    }
    put_int(text, ",\"device\":", lease->device);
    if (trial) {
        put_int(text, ",\"input_set\":", trial->seq % 4);
    }
    put_int(text, ",\"job\":", task->job->id);
    put_text(text, ",\"kind\":", trial ? "trial" : "final");
    put_text(text, ",\"op\":", task->op);
    if (pardoned) {
        gk_buf_puts(text, ",\"pardoned\":true");
    }
    if (!trial) {
        put_int(text, ",\"passes_max\":",
                modelled           ? PASSES_MODELLED
                : lease->is_spread ? SPREAD_PASSES
                                   : PASSES_REAL);
    }
    put_text(text, ",\"policy\":", task->job->policy);
    put_text(text, ",\"problem\":", task->canonical);
    put_int(text, ",\"run_s\":", modelled ? RUN_MODELLED_S : RUN_S);
    if (!trial) {
        put_int(text, ",\"seed\":", task->job->seed);
    }
    put_int(text, ",\"task\":", task->id);
    if (trial) {
        put_text(text, ",\"template\":", trial->words->template_name);
    }
    put_int(text, ",\"token\":", lease->token);
    if (trial) {
        put_int(text, ",\"trial\":", trial->id);
    }
    gk_buf_putc(text, '}');
    return gk_buf_status(text, NULL) == GK_OK;
}

static enum gk_status store_lease(struct gk_core *core, const struct lease *lease,
                                  struct gk_err *err)
{
    struct gk_db_lease row = {.token = lease->token,
                              .job = lease->job->id,
                              .task = lease->task->id,
                              .trial = lease->trial,
                              .worker = lease->worker,
                              .device = lease->device,
                              .attempt = lease->attempt,
                              .epoch = core->epoch,
                              .granted_ms = (int64_t)lease->granted_ms,
                              .device_key = lease->device_key,
                              .is_spread = lease->is_spread};
    return gk_db_lease_add(core->db, &row, err);
}

/* A worker that saw the config kill executors must forget it where an operator has. */
static bool is_pardoned(struct gk_core *core, const struct task *task, const struct trial *trial)
{
    bool pardoned = false;
    return core->any_pardons &&
           gk_db_pardoned(core->db, trial->words->config_id, task->arch, &pardoned, NULL) ==
               GK_OK &&
           pardoned; /* not known: it is refused once more, and that is told */
}

/* Stores and books a lease, and appends what the LEASE message says of it. A trial's row stays
 * "proposed": that it is out is what the lease's own row says. */
static enum gk_status grant(struct gk_core *core, struct session *session, uint32_t device,
                            struct task *task, struct trial *trial, struct gk_buf *text,
                            struct gk_err *err)
{
    struct lease lease = {.is_final = !trial,
                          .is_spread = !trial && task->state == TASK_SPREAD,
                          .trial = trial ? trial->id : 0,
                          .attempt = trial ? trial->attempt : task->attempt,
                          .worker = session->worker,
                          .job = task->job,
                          .task = task,
                          .session = session->id,
                          .device = device,
                          .granted_ms = core->wall_ms,
                          .deadline_ns = UINT64_MAX};
    GK_ASSERT(!session->devices[device].fenced && !session->drained && core->drain_ms == 0);
    (void)snprintf(lease.device_key, sizeof lease.device_key, "%s", session->devices[device].key);
    if (trial && !trial_words(task->search, trial)) {
        return gk_fail(err, GK_NOMEM, "out of memory for a lease");
    }
    enum gk_status status = gk_db_take_tokens(core->db, 1, &lease.token, err);
    if (status == GK_OK) {
        status = store_lease(core, &lease, err);
    }
    if (status == GK_OK && lease.is_spread) {
        status = spread_note(task, lease.device_key, err);
    }
    if (status != GK_OK) {
        return status;
    }
    struct gk_json *configs = trial ? NULL : final_lease_configs(task);
    bool ok =
        put_lease(text, session, &lease, trial, trial && is_pardoned(core, task, trial), configs);
    gk_json_free(configs);
    if (!ok || !lease_add(core, &lease, err)) {
        return gk_fail(err, GK_NOMEM, "out of memory for a lease");
    }
    if (trial) {
        trial->state = TRIAL_LEASED;
        trial->token = lease.token;
    }
    session->devices[device].leases++;
    session->devices[device].in_final |= !trial;
    task->job->served_ns = core->now_ns;
    rates_granted(core, task->job, session->worker, device);
    age_served(core, task->job);
    core->counters.leases++;
    return GK_OK;
}

bool device_fits(const struct session *session, uint32_t device, const struct task *task)
{
    const struct gk_device_props *props = &session->devices[device].props;
    return strcmp(props->arch, task->arch) == 0 && strcmp(props->gpu, task->gpu) == 0 &&
           (!task->nvrtc || strcmp(task->nvrtc, session->nvrtc) == 0);
}

/* A task whose final round this device should take: the one it is being emptied for, or one that
 * nobody has. */
static struct task *final_for(struct gk_core *core, struct session *session, uint32_t device)
{
    struct task *found = NULL;
    for (uint32_t j = 0; core->finals_maybe && j < core->job_count; j++) {
        struct job *job = core->jobs[j];
        for (uint32_t t = 0; job_runs(core, job) && t < job->task_count; t++) {
            struct task *task = &job->tasks[t];
            if (task->state != TASK_FINAL || task->leases > 0 ||
                !device_fits(session, device, task)) {
                continue;
            }
            if (task->reserved_session == session->id && task->reserved_device == device) {
                return task;
            }
            found = found || task->reserved_session ? found : task;
        }
    }
    return found;
}

uint32_t devices_for(const struct gk_core *core, const struct task *task)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < core->session_count; i++) {
        const struct session *session = core->sessions[i];
        for (uint32_t d = 0; d < session->device_count; d++) {
            count += session->devices[d].ok && !session->devices[d].fenced &&
                     device_fits(session, d, task);
        }
    }
    return count;
}

/* May this problem be searched too? Those of its job that run on the same devices count, but for
 * those that wait for their final round or are in it. */
static bool may_open(const struct gk_core *core, struct job *job, const struct task *task)
{
    uint32_t searches = 0;
    bool has_room = core->open_tasks < OPEN_TASKS_LEAST ||
                    (core->open_tasks < OPEN_TASKS_MOST && core->open_bytes < OPEN_BYTES_MAX) ||
                    (core->open_bytes < OPEN_BYTES_MAX && share_has_none_open(core, job->share));
    if (!has_room || (job->full_tick == core->tick && strcmp(job->full_arch, task->arch) == 0 &&
                      strcmp(job->full_gpu, task->gpu) == 0)) {
        return false;
    }
    for (uint32_t t = 0; t < job->task_count; t++) {
        const struct task *other = &job->tasks[t];
        searches += other->search && other->state == TASK_SEARCHING &&
                    strcmp(other->arch, task->arch) == 0 && strcmp(other->gpu, task->gpu) == 0;
    }
    if (searches < SEARCHES_A_DEVICE * devices_for(core, task)) {
        return true;
    }
    job->full_tick = core->tick; /* no search ends while leases are granted */
    job->full_arch = task->arch;
    job->full_gpu = task->gpu;
    return false;
}

/* A device of the same kind found nothing in this tick, and nothing has come since: a thousand
 * workers that wait need not look through all jobs each. */
static bool is_starved(const struct gk_core *core, const struct session *session, uint32_t device)
{
    const struct gk_device_props *props = &session->devices[device].props;
    return core->starved.tick == core->tick && strcmp(core->starved.arch, props->arch) == 0 &&
           strcmp(core->starved.gpu, props->gpu) == 0 &&
           strcmp(core->starved.nvrtc, session->nvrtc) == 0;
}

static void note_starved(struct gk_core *core, const struct session *session, uint32_t device)
{
    const struct gk_device_props *props = &session->devices[device].props;
    core->starved.tick = core->tick;
    (void)snprintf(core->starved.arch, sizeof core->starved.arch, "%s", props->arch);
    (void)snprintf(core->starved.gpu, sizeof core->starved.gpu, "%s", props->gpu);
    (void)snprintf(core->starved.nvrtc, sizeof core->starved.nvrtc, "%s", session->nvrtc);
}

/* Of one job, its tasks in turn. */
/* The task whose trial the device was given last, if it has another one: a device lays a problem's
 * inputs and references out before its first trial, which of two devices each would do for every
 * problem of the job. A device that is alone takes tasks in turn. NULL: there is none. */
static struct trial *one_more(const struct gk_core *core, const struct session *session,
                              uint32_t device, struct job *job, struct task **task_out)
{
    uint32_t at = session->devices[device].last_task;
    bool alone = core->session_count == 1 && session->device_count == 1;
    if (alone || session->devices[device].last_job != job->id || at >= job->task_count ||
        !job_runs(core, job)) {
        return NULL;
    }
    *task_out = &job->tasks[at];
    return (*task_out)->state == TASK_SEARCHING && (*task_out)->search &&
                   device_fits(session, device, *task_out)
               ? task_proposed(*task_out)
               : NULL;
}

static enum gk_status next_of_job(struct gk_core *core, struct session *session, uint32_t device,
                                  struct job *job, struct task **task_out, struct trial **trial_out,
                                  struct gk_err *err)
{
    *trial_out = one_more(core, session, device, job, task_out);
    if (*trial_out) {
        return GK_OK;
    }
    for (uint32_t n = 0; job_runs(core, job) && n < job->task_count; n++) {
        struct task *task = &job->tasks[(job->cursor + n) % job->task_count];
        if (task->state != TASK_SEARCHING || !device_fits(session, device, task) ||
            (!task->search && !may_open(core, job, task))) {
            continue;
        }
        if (!task->search) {
            enum gk_status status = task_step(core, task, err);
            if (status != GK_OK) {
                return status;
            }
        }
        struct trial *trial = task->search ? task_proposed(task) : NULL;
        if (trial) {
            job->cursor = (uint32_t)(task - job->tasks + 1) % job->task_count;
            session->devices[device].last_job = job->id;
            session->devices[device].last_task = (uint32_t)(task - job->tasks);
            *task_out = task;
            *trial_out = trial;
            return GK_OK;
        }
    }
    return GK_OK;
}

/* The next trial of the tasks that this device serves: shares in turn, in each its jobs by priority
 * and age. */
static enum gk_status next_trial(struct gk_core *core, struct session *session, uint32_t device,
                                 struct task **task_out, struct trial **trial_out,
                                 struct gk_err *err)
{
    struct share *share;
    enum gk_status status = GK_OK;
    uint64_t pass = ++core->share_pass;
    *trial_out = NULL;
    if (is_starved(core, session, device)) {
        return GK_OK;
    }
    while ((share = share_next(core, pass))) {
        for (uint32_t j = 0; j < core->job_count; j++) {
            if (core->jobs[j]->share != share) {
                continue;
            }
            status = next_of_job(core, session, device, core->jobs[j], task_out, trial_out, err);
            if (status != GK_OK || *trial_out) {
                return status;
            }
        }
    }
    note_starved(core, session, device);
    return GK_OK;
}

/* Takes the text of `count` leases, written one behind the other. */
static void send_leases(struct gk_core *core, struct session *session, struct gk_buf *text,
                        uint32_t *count)
{
    if (*count > 0) {
        gk_buf_puts(text, "]}");
        core_send_text(core, &session->peer, GK_MSG_LEASE, session->id, 0, text);
    }
    *count = 0;
}

/* What to give next: a task with its trial, or with none for its final round. *task_out NULL:
 * nothing. */
static enum gk_status next_for(struct gk_core *core, struct session *session, uint32_t device,
                               struct task **task_out, struct trial **trial_out, struct gk_err *err)
{
    *trial_out = NULL;
    *task_out = final_for(core, session, device);
    *task_out = *task_out ? *task_out : spread_for(core, session, device);
    if (!*task_out) {
        enum gk_status status = next_trial(core, session, device, task_out, trial_out, err);
        if (status != GK_OK || *trial_out) {
            return status;
        }
        *task_out =
            final_for(core, session, device); /* stepping a task may have brought it there */
    }
    if (*task_out) {
        if ((*task_out)->state == TASK_FINAL) { /* a spread waits for each of its devices */
            (*task_out)->reserved_session = session->id;
            (*task_out)->reserved_device = device;
        }
        if (session->devices[device].leases > 0) {
            *task_out = NULL; /* it is being emptied: a final round has its device alone */
        }
    }
    return GK_OK;
}

#define LEASE_TEXT_USUAL 900 /* bytes */

/* Up to `most` leases of the device in all, and no more than it has credit for. */
static enum gk_status grant_device(struct gk_core *core, struct session *session, uint32_t device,
                                   uint32_t most, struct gk_err *err)
{
    struct gk_buf text = {0};
    uint32_t count = 0;
    enum gk_status status = GK_OK;
    while (status == GK_OK && session->devices[device].credit > 0 &&
           session->devices[device].leases < most && !session->devices[device].in_final) {
        struct trial *trial = NULL;
        struct task *task = NULL;
        status = next_for(core, session, device, &task, &trial, err);
        if (status != GK_OK || !task) {
            break;
        }
        gk_buf_expect(&text, LEASE_TEXT_USUAL);
        gk_buf_puts(&text, count > 0 ? "," : "{\"leases\":[");
        status = grant(core, session, device, task, trial, &text, err);
        count++;
        session->devices[device].credit--;
        if (status == GK_OK && !trial) {
            bool spread = task->state == TASK_SPREAD;
            struct gk_json *event = gk_json_new_object();
            (void)(gk_json_set_int(event, "task", task->id) && /* an event may lack a member */
                   (spread
                        ? gk_json_set_string(event, "device", session->devices[device].key)
                        : gk_json_set_int(event, "configs", (int64_t)gk_json_count(task->round))));
            status = core_event(core, task->job->id, spread ? "spread_started" : "final_started",
                                event, err);
        }
        if (status == GK_OK &&
            (count >= LEASES_A_MESSAGE || gk_json_count(task->job->files) > 64)) {
            send_leases(core, session, &text, &count);
        }
    }
    if (status == GK_OK) {
        send_leases(core, session, &text, &count);
    }
    gk_buf_fini(&text);
    return status;
}

static bool has_finals(const struct gk_core *core)
{
    for (uint32_t j = 0; j < core->job_count; j++) {
        for (uint32_t t = 0; t < core->jobs[j]->task_count; t++) {
            if (core->jobs[j]->tasks[t].state == TASK_FINAL) {
                return true;
            }
        }
    }
    return false;
}

static bool takes_leases(const struct session *session, uint32_t device)
{
    return session->devices[device].ok && !session->devices[device].fenced &&
           session->devices[device].credit > 0 && !session->devices[device].in_final;
}

/* Leases of the device that has the fewest of those that take more; *count_out: how many do. */
static uint32_t fewest_leases(const struct gk_core *core, uint32_t *count_out)
{
    uint32_t fewest = UINT32_MAX;
    *count_out = 0;
    for (uint32_t i = 0; i < core->session_count; i++) {
        const struct session *session = core->sessions[i];
        for (uint32_t d = 0; !session->quiet && !session->drained && d < session->device_count;
             d++) {
            if (takes_leases(session, d)) {
                (*count_out)++;
                fewest = session->devices[d].leases < fewest ? session->devices[d].leases : fewest;
            }
        }
    }
    return fewest;
}

/* Every device in turn, each up to `most` leases in all. *more_out: one of them has as many, and
 * would take more. */
static enum gk_status grant_up_to(struct gk_core *core, uint32_t from, uint32_t most,
                                  bool *more_out, struct gk_err *err)
{
    uint32_t count = core->session_count, waits = UINT32_MAX;
    *more_out = false;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = (from + i) % count;
        struct session *session = core->sessions[at];
        for (uint32_t d = 0; !session->quiet && !session->drained && d < session->device_count;
             d++) {
            if (!takes_leases(session, d)) {
                continue;
            }
            enum gk_status status = grant_device(core, session, d, most, err);
            if (status != GK_OK) {
                return status;
            }
            bool left = session->devices[d].credit > 0 && !session->devices[d].in_final;
            waits = left && waits == UINT32_MAX ? at : waits;
            *more_out = *more_out || (left && session->devices[d].leases >= most &&
                                      !is_starved(core, session, d));
        }
    }
    /* Where there is less work than workers, those that came last are not always the last. */
    core->grant_from = waits == UINT32_MAX ? 0 : waits;
    return GK_OK;
}

/* A device takes many more leases than it runs, so that its worker can compile ahead. Where there
 * are fewer than all would take, the first one must not have them all while the others wait: they
 * rise together, step by step; a large fleet, whose workers take few each, in growing steps. */
enum gk_status leases_grant(struct gk_core *core, struct gk_err *err)
{
    if (core->disk != GK_CORE_DISK_OK || core->drain_ms != 0) {
        return GK_OK; /* what is out may still be stored; nothing more goes out */
    }
    uint32_t from = core->grant_from < core->session_count ? core->grant_from : 0, count = 0,
             fewest = fewest_leases(core, &count);
    core->finals_maybe = has_finals(core);
    bool more = count > 0;
    enum gk_status status = GK_OK;
    for (uint32_t step = GRANT_STEP; status == GK_OK && more;
         step = count <= GRANT_EVENLY ? step + GRANT_STEP : step * 4) {
        uint32_t most = step < CREDIT_MAX ? fewest + step : UINT32_MAX;
        status = grant_up_to(core, from, most, &more, err);
    }
    return status;
}

/* ------------------------------------------------------------------ results */

struct gk_json *ack_body(int64_t token, int64_t pass, const char *status)
{
    struct gk_json *body = gk_json_new_object(), *results = gk_json_new_array(),
                   *item = gk_json_new_object();
    bool ok = gk_json_set_int(item, "token", token) && gk_json_set_string(item, "status", status) &&
              (pass <= 0 || gk_json_set_int(item, "pass", pass));
    ok = gk_json_push(results, item) && ok;
    ok = gk_json_set(body, "results", results) && ok;
    if (!ok) {
        gk_json_free(body);
        return NULL;
    }
    return body;
}

static enum gk_status late_result(struct gk_core *core, struct session *session,
                                  const struct lease *lease, const struct gk_message *message,
                                  int64_t pass, struct gk_err *err)
{
    int64_t token = (int64_t)message->token;
    struct gk_err why = {0};
    enum gk_status status =
        gk_db_result_look(core->db, token, pass, session->worker, message->body, &why);
    if (is_store_failure(status)) {
        return gk_fail(err, status, "token %" PRId64 ": %s", token, why.text);
    }
    bool foreign = status == GK_DENIED || (lease && lease->worker != session->worker);
    const char *word = foreign                 ? "not_owner"
                       : status == GK_OK       ? "duplicate"
                       : status == GK_CONFLICT ? "conflict"
                                               : "stale";
    core->counters.not_owner += foreign;
    core->counters.conflicts += !foreign && status == GK_CONFLICT;
    core->counters.duplicates += !foreign && status == GK_OK;
    core->counters.stale += !foreign && status == GK_NOT_FOUND;
    struct gk_notice *notice = core_notice(
        core,
        strcmp(word, "duplicate") == 0 ? GK_EVENT_RESULT_DUPLICATE
        : foreign                      ? GK_EVENT_RESULT_NOT_OWNER
        : status == GK_CONFLICT        ? GK_EVENT_RESULT_CONFLICT
                                       : GK_EVENT_RESULT_STALE,
        status == GK_OK && !foreign ? NULL : "%s",
        status == GK_NOT_FOUND && !foreign ? "its lease is over: it changes nothing" : why.text);
    notice_peer(notice, &session->peer);
    notice->worker = session->worker;
    notice->token = token;
    struct gk_json *body = ack_body(token, pass, word);
    if (body && pass > 0) {
        (void)gk_json_set_bool(body, "go_on", false); /* the worker treats a missing one as false */
    }
    core_send_session(core, session, GK_MSG_ACK, (uint64_t)token, body);
    /* An honest worker sends the bytes that it spooled, about tokens that were its own. */
    if (!foreign && status != GK_CONFLICT) {
        return GK_OK;
    }
    char who[GK_KEY_NAME_MAX + 32], target[40];
    (void)snprintf(who, sizeof who, "worker %" PRId64 " %s", session->worker, session->peer.key);
    (void)snprintf(target, sizeof target, "token %" PRId64, token);
    status = core_audit(core, who, "result", target, why.text, word, err);
    return status == GK_OK ? key_erred(core, &session->peer, word, err) : status;
}

static void send_ack(struct gk_core *core, struct session *session, int64_t token,
                     const char *status)
{
    struct gk_buf text = {0};
    put_text(&text, "{\"results\":[{\"status\":", status);
    put_int(&text, ",\"token\":", token);
    gk_buf_puts(&text, "}]}");
    core_send_text(core, &session->peer, GK_MSG_ACK, session->id, (uint64_t)token, &text);
}

/* What a kill and its counts leave behind, whatever becomes of the trial. */
static void note_record(struct gk_core *core, const struct lease *lease,
                        const struct gk_record *record)
{
    count_record(core, record);
    count_conditions(core, &core->told.environment);
    if (record->failure == GK_FAILURE_CRASH || record->failure == GK_FAILURE_TIMEOUT ||
        record->failure == GK_FAILURE_COMPILE_CRASH) {
        struct gk_notice *notice =
            core_notice(core, GK_EVENT_TRIAL_KILLED, "%s", record->message ? record->message : "");
        notice_lease(notice, lease);
        notice_name(notice, gk_failure_name(record->failure));
    }
}

/* The trial is tried again, here or elsewhere. A device on which nothing but that happens would
 * use up every trial's attempts: it is fenced. */
static enum gk_status infra_result(struct gk_core *core, struct session *session,
                                   struct lease *lease, const char *why, struct gk_err *err)
{
    uint32_t device = lease->device;
    bool fences = ++session->devices[device].infra_in_row >= INFRA_IN_ROW;
    char text[GK_ERR_TEXT_MAX], cause[CAUSE_SIZE], key[DEVICE_KEY_SIZE];
    (void)snprintf(text, sizeof text, "%s", why); /* parking the trial reads another record */
    (void)snprintf(cause, sizeof cause,
                   "%d failures of the infrastructure in a row; the last: %.180s", INFRA_IN_ROW,
                   why);
    (void)snprintf(key, sizeof key, "%s", session->devices[device].key);
    enum gk_status status = lease_lost(core, lease, true, text, err);
    struct gk_err refused = {0};
    enum gk_status fenced = status == GK_OK && fences
                                ? fence_device(core, key, "daemon", cause, "gktuned", &refused)
                                : GK_OK;
    if (is_store_failure(fenced)) {
        return gk_fail(err, fenced, "%s", refused.text);
    }
    return status;
}

/* Whether the device can have said so. A time of nothing beats all others, and one that a model
 * made is no GPU's: both would be exported. */
static enum gk_status check_told(const struct session *session, const struct lease *lease,
                                 const struct gk_record *record, struct gk_err *err)
{
    bool modelled = session->devices[lease->device].props.modelled;
    if (record->failure != GK_FAILURE_NONE) {
        return GK_OK;
    }
    if (!(record->time_ns > 0)) {
        return gk_fail(err, GK_PROTOCOL, "a verified record with a time of %g ns", record->time_ns);
    }
    return record->modelled == modelled
               ? GK_OK
               : gk_fail(err, GK_PROTOCOL, "a %s time of device %" PRIu32 ", whose times are %s",
                         record->modelled ? "modelled" : "measured", lease->device,
                         modelled ? "modelled" : "measured");
}

/* The lease's trial ends with core->told. */
static enum gk_status result_told(struct gk_core *core, struct session *session,
                                  struct lease *lease, struct gk_err *err)
{
    const struct gk_record *record = &core->told.record;
    struct lease gone = *lease;
    note_record(core, lease, record);
    if (record->failure == GK_FAILURE_INFRA) {
        send_ack(core, session, gone.token, "stored");
        return infra_result(
            core, session, lease,
            record->message ? record->message : "the worker's infrastructure failed", err);
    }
    lease->job->served_ns = core->now_ns;
    session->devices[lease->device].infra_in_row = 0;
    enum gk_status status = rates_clock(core, lease, -1, err);
    lease_remove(core, lease);
    if (status == GK_OK) {
        status = task_open(core, gone.task, err);
    }
    struct trial *trial =
        status == GK_OK && gone.task->search ? task_trial(gone.task, gone.trial) : NULL;
    if (trial) {
        status = trial_told(core, gone.task, trial, &gone, "recorded", 0, err);
    } else if (status == GK_OK) { /* nobody asks for it any more, and nothing was stored */
        status = gk_db_lease_delete(core->db, gone.token, err);
        core->counters.stale++;
    }
    if (status == GK_OK) {
        send_ack(core, session, gone.token, trial ? "stored" : "stale");
    }
    return status;
}

enum gk_status lease_result(struct gk_core *core, struct session *session,
                            const struct gk_message *message, struct gk_err *err)
{
    int64_t token = (int64_t)message->token, pass = gk_json_get_int(message->body, "pass", 0);
    struct lease *lease = lease_find(core, token);
    core->counters.results++;
    if (!lease || lease->session != session->id) {
        return late_result(core, session, lease, message, pass, err);
    }
    if (lease->is_final) {
        return final_pass(core, session, lease, message, err);
    }
    struct gk_err why = {0};
    enum gk_status status =
        gk_told_from_json(gk_json_get(message->body, "record"), &core->told, &why);
    if (status == GK_OK) {
        status = check_told(session, lease, &core->told.record, &why);
    }
    if (status != GK_OK) {
        /* Kept for ever by the worker unless it is acknowledged; the lease has failed. */
        core->counters.malformed++;
        core_error(core, &session->peer, message->seq, message->token, GK_PROTOCOL, "RESULT: %s",
                   why.text);
        send_ack(core, session, token, "dropped");
        return lease_lost(core, lease, true, "its record was malformed", err);
    }
    return result_told(core, session, lease, err);
}

bool lease_result_text(struct gk_core *core, struct session *session,
                       const struct gk_message *message, const char *body, size_t size,
                       enum gk_status *status_out, struct gk_err *err)
{
    struct lease *lease = lease_find(core, (int64_t)message->token);
    if (!lease || lease->session != session->id || lease->is_final ||
        !gk_told_from_body(body, size, &core->told) ||
        check_told(session, lease, &core->told.record, NULL) != GK_OK) {
        return false;
    }
    core->counters.results++;
    *status_out = result_told(core, session, lease, err);
    return true;
}
