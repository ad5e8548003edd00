/*
 * Compile tasks and the processes that do them. A module that several units need is one task; the
 * cache is looked at before a process is.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/code_cache.h"
#include "worker/worker_state.h"

/* Bytes of the compiler's log in a failure's message, half of them of its end: errors stand behind
 * the warnings. */
#define LOG_KEPT 3500

static void fail_task(struct compile_task *task, enum gk_failure failure, const char *text)
{
    task->state = TASK_FAILED;
    task->failure = failure;
    free(task->message);
    size_t size = strlen(text);
    task->message = size <= LOG_KEPT
                        ? gk_strdup(text)
                        : gk_asprintf("%.*s\n... %zu bytes left out ...\n%s", LOG_KEPT / 2, text,
                                      size - LOG_KEPT, text + size - LOG_KEPT / 2);
    if (task->message) {
        gk_utf8_clean(task->message);
    }
}

/* ptxas refuses more static shared memory than any target has without a word of error: its log ends
 * after the sizes. 48 KB is the static limit of every target; more has to be dynamic. */
#define STATIC_SMEM_MAX 49152

static bool too_much_static_smem(const char *log, long *bytes_out)
{
    const char *unit = strstr(log, " bytes smem");
    const char *digits = unit;
    while (digits && digits > log && digits[-1] >= '0' && digits[-1] <= '9') {
        digits--;
    }
    *bytes_out = digits && digits < unit ? strtol(digits, NULL, 10) : 0;
    return *bytes_out > STATIC_SMEM_MAX && !strstr(log, "error");
}

static void take_output(struct compile_task *task, const struct gk_compile_output *output)
{
    long smem_bytes = 0;
    if (output->compiled) {
        task->state = TASK_DONE;
    } else if (output->log && too_much_static_smem(output->log, &smem_bytes)) {
        char text[160];
        (void)snprintf(text, sizeof text,
                       "%ld bytes of static shared memory; at most %d are allowed, more has to be "
                       "dynamic (the launch's smem)",
                       smem_bytes, STATIC_SMEM_MAX); /* fits */
        fail_task(task, GK_FAILURE_RESOURCES, text);
    } else {
        fail_task(task, GK_FAILURE_COMPILE_ERROR, output->log);
    }
    gk_json_free(task->job);
    task->job = NULL;
}

static bool from_cache(struct compile_task *task)
{
    struct gk_compile_output output = {0};
    if (gk_code_read(task->path, &output, NULL) != GK_OK) {
        return false;
    }
    task->cached = true;
    take_output(task, &output);
    gk_compile_output_fini(&output);
    return true;
}

enum gk_status pool_need(struct worker *worker, const struct gk_compile_job *job, int64_t compile_s,
                         struct compile_task **task_out, struct gk_err *err)
{
    struct gk_hash key = gk_code_key(&job->module_key, worker->nvrtc_version, job->target);
    char folder[4096], path[4200];
    for (struct compile_task *task = worker->tasks; task; task = task->next) {
        if (gk_hash_equal(&task->key, &key)) {
            task->references++;
            *task_out = task;
            return GK_OK;
        }
    }
    (void)snprintf(folder, sizeof folder, "%s/code", gk_spool_folder(worker->spool));
    gk_code_path(folder, &key, path, sizeof path);
    struct compile_task *task = calloc(1, sizeof *task);
    if (!task) {
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    task->key = key;
    task->references = 1;
    task->compile_s = compile_s;
    task->path = gk_strdup(path);
    task->job = gk_compile_job_to_json(job);
    if (!task->path || !task->job) {
        gk_json_free(task->job);
        free(task->path);
        free(task);
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    (void)from_cache(task);
    *worker->tasks_end = task;
    worker->tasks_end = &task->next;
    *task_out = task;
    return GK_OK;
}

void pool_release(struct worker *worker, struct compile_task *task)
{
    if (!task || --task->references > 0 || task->state == TASK_RUNNING) {
        return; /* a running one is freed when its process has answered */
    }
    for (struct compile_task **at = &worker->tasks; *at; at = &(*at)->next) {
        if (*at == task) {
            *at = task->next;
            break;
        }
    }
    worker->tasks_end = &worker->tasks;
    while (*worker->tasks_end) {
        worker->tasks_end = &(*worker->tasks_end)->next;
    }
    gk_json_free(task->job);
    free(task->path);
    free(task->message);
    free(task);
}

/* ------------------------------------------------------------------ processes */

/* Somebody who has asked for the seat gets it before we look for one again. */
static void leave_seat(struct compile_slot *slot)
{
    struct worker *worker = slot->worker;
    if (gk_seat_give(slot->seat) && !uv_is_active((uv_handle_t *)&worker->seat_again)) {
        (void)uv_timer_start(&worker->seat_again, pool_seat_again, 2 * GK_SEAT_AGAIN_MS, 0);
    }
    slot->seat = GK_SEAT_NONE;
}

static void finish_task(struct worker *worker, struct compile_task *task)
{
    task->compile_ns = (double)(uv_now(&worker->loop) - task->started_ms) * 1e6;
    task->references++; /* leases_advance may let go of it */
    leases_advance(worker);
    pool_release(worker, task);
    pool_advance(worker);
}

static enum gk_failure failure_of(const char *status)
{
    return strcmp(status, gk_status_name(GK_NOMEM)) == 0     ? GK_FAILURE_COMPILE_MEMORY
           : strcmp(status, gk_status_name(GK_MISSING)) == 0 ? GK_FAILURE_INFRA /* of NVRTC's */
                                                             : GK_FAILURE_COMPILE_ERROR;
}

static void slot_frame(void *context, const struct gk_json *json)
{
    struct compile_slot *slot = context;
    struct compile_task *task = slot->task;
    struct gk_compile_output output = {0};
    struct gk_err err = {0};
    if (!task) {
        gk_process_abandon(slot->process); /* an answer that nobody asked for */
        slot->process = NULL;
        return;
    }
    gk_process_deadline(slot->process, 0);
    leave_seat(slot);
    slot->task = NULL;
    task->state = TASK_QUEUED;
    const char *error = gk_json_get_string(json, "error", NULL);
    if (error) {
        fail_task(task, failure_of(gk_json_get_string(json, "status", "")), error);
    } else if (gk_code_from_json(json, &output, &err) != GK_OK) {
        fail_task(task, GK_FAILURE_COMPILE_CRASH, err.text);
    } else if (gk_code_write(task->path, &output, &err) != GK_OK) {
        worker_log(slot->worker, GK_WORKER_CACHE, "code cache: %s", err.text);
        fail_task(task, GK_FAILURE_INFRA, err.text); /* executors read the file */
    } else {
        take_output(task, &output);
    }
    gk_compile_output_fini(&output);
    finish_task(slot->worker, task);
}

static void slot_ended(void *context, bool late, int64_t exit_status, int signal_number)
{
    struct compile_slot *slot = context;
    struct compile_task *task = slot->task;
    char text[240], about[96];
    bool for_memory = worker_memory_kill(slot->worker, exit_status, signal_number, about);
    leave_seat(slot);
    slot->process = NULL;
    slot->task = NULL;
    if (!task) {
        pool_advance(slot->worker);
        return;
    }
    task->state = TASK_QUEUED;
    if (late) {
        (void)snprintf(text, sizeof text, "the compiler did not finish within %lld s",
                       (long long)task->compile_s);
        fail_task(task, GK_FAILURE_COMPILE_TIMEOUT, text);
    } else if (++task->crashes >= 2) { /* once may be an accident; twice is the source's doing */
        if (for_memory) {
            (void)snprintf(text, sizeof text,
                           "the compile process ended twice; this time the kernel killed it for "
                           "the memory of the worker's control group%s",
                           about);
        } else {
            (void)snprintf(text, sizeof text,
                           "the compile process ended twice: signal %d, exit status %lld",
                           signal_number, (long long)exit_status);
        }
        fail_task(task, for_memory ? GK_FAILURE_COMPILE_MEMORY : GK_FAILURE_COMPILE_CRASH, text);
    }
    finish_task(slot->worker, task);
}

static enum gk_status start_slot(struct compile_slot *slot, struct gk_err *err)
{
    struct worker *worker = slot->worker;
    const char *args[] = {"--child=compile", "--nvrtc", worker->nvrtc_path, NULL};
    struct gk_sandbox_command command = {0};
    struct gk_process_events events = {slot_frame, slot_ended, slot, 0};
    const char *bwrap = worker->sandboxed ? worker->options->bwrap : NULL;
    enum gk_status status = gk_sandbox_command(bwrap, worker->options->program, worker->nvrtc_path,
                                               args, &command, err);
    if (status == GK_OK) {
        status = gk_process_start(&worker->loop, command.argv, NULL, &events, &slot->process, err);
    }
    gk_sandbox_command_fini(&command);
    return status;
}

static struct compile_task *next_queued(struct worker *worker)
{
    struct compile_task *task = worker->tasks;
    while (task && task->state != TASK_QUEUED) {
        task = task->next;
    }
    return task;
}

static bool in_final(const struct worker *worker, uint32_t device)
{
    for (const struct lease *lease = worker->leases; lease; lease = lease->next) {
        bool runs = lease->state == LEASE_RUN || lease->state == LEASE_WAIT_ACK;
        if (lease->device == device && lease->is_final && runs) {
            return true;
        }
    }
    return false;
}

uint32_t pool_most(const struct worker *worker)
{
    uint32_t all = 0, quiet = 0;
    for (uint32_t i = 0; i < worker->bench_count; i++) {
        const struct bench *bench = &worker->benches[i];
        if (!bench->props.modelled && !bench->fenced) {
            all++;
            quiet += in_final(worker, i);
        }
    }
    return quiet == 0 ? worker->slot_count : worker->slot_count * (all - quiet) / all;
}

/* One process compiles without a seat: nobody waits for other workers. */
static bool find_seat(struct compile_slot *slot, uint32_t running)
{
    struct worker *worker = slot->worker;
    if (!worker->seats || running == 0) {
        return true;
    }
    if (uv_is_active((uv_handle_t *)&worker->seat_again)) {
        return false;
    }
    slot->seat = gk_seat_take(worker->seats);
    if (slot->seat == GK_SEAT_NONE) {
        (void)uv_timer_start(&worker->seat_again, pool_seat_again, GK_SEAT_AGAIN_MS, 0);
    }
    return slot->seat != GK_SEAT_NONE;
}

void pool_seat_again(uv_timer_t *timer)
{
    pool_advance(timer->data);
}

void pool_advance(struct worker *worker)
{
    uint32_t most = pool_most(worker), running = 0;
    for (uint32_t i = 0; i < worker->slot_count; i++) {
        running += worker->slots[i].task != NULL;
    }
    for (uint32_t i = 0; i < worker->slot_count && !worker->ending; i++) {
        struct compile_slot *slot = &worker->slots[i];
        struct compile_task *task = slot->task ? NULL : next_queued(worker);
        struct gk_err err = {0};
        if (!task) {
            continue;
        }
        if (running >= most || !find_seat(slot, running)) {
            return;
        }
        enum gk_status status = slot->process ? GK_OK : start_slot(slot, &err);
        if (status == GK_OK) {
            status = gk_process_send(slot->process, task->job, &err);
        }
        if (status != GK_OK) {
            worker_end(worker, status, err.text);
            return;
        }
        running++;
        slot->task = task;
        task->state = TASK_RUNNING;
        task->started_ms = uv_now(&worker->loop);
        gk_process_deadline(slot->process, (uint64_t)task->compile_s * 1000);
    }
}

void pool_stop(struct worker *worker)
{
    for (uint32_t i = 0; i < worker->slot_count; i++) {
        if (worker->slots[i].process) {
            gk_process_abandon(worker->slots[i].process);
            worker->slots[i].process = NULL;
        }
        (void)gk_seat_give(worker->slots[i].seat);
        worker->slots[i].seat = GK_SEAT_NONE;
        worker->slots[i].task = NULL;
    }
    while (worker->tasks) {
        worker->tasks->state = TASK_DONE;
        worker->tasks->references = 1;
        pool_release(worker, worker->tasks);
    }
}
