/*
 * Executors, one a device: the next ready unit goes to it, its record comes back, and when it dies
 * or hangs the unit it was running gets the blame and a fresh one is started.
 */
#include <stdlib.h>
#include <string.h>

#include "worker/worker_state.h"

#define QUICK_DEATHS_MAX                                                                           \
    5 /* starts in a row without one answer: the machine is broken, not the configs */

#define STUCK "its executor was killed and has not ended: it holds the device"

static void restart(struct bench *bench);
static void fence(struct bench *bench, const char *cause);

static struct gk_hash kill_key(const char *config_id)
{
    return gk_hash_text(config_id);
}

static uint32_t kills_add(struct worker *worker, const char *config_id)
{
    struct gk_hash key = kill_key(config_id);
    for (uint32_t i = 0; i < KILLS_MAX; i++) {
        if (worker->kills[i].count && gk_hash_equal(&worker->kills[i].key, &key)) {
            return ++worker->kills[i].count;
        }
    }
    uint32_t slot = worker->kill_next++ % KILLS_MAX;
    worker->kills[slot].key = key;
    worker->kills[slot].count = 1;
    return 1;
}

void kills_forget(struct worker *worker, const char *config_id)
{
    struct gk_hash key = kill_key(config_id);
    for (uint32_t i = 0; i < KILLS_MAX; i++) {
        if (worker->kills[i].count && gk_hash_equal(&worker->kills[i].key, &key)) {
            worker->kills[i].count = 0;
        }
    }
}

bool kills_reached(struct worker *worker, const char *config_id, uint32_t limit)
{
    struct gk_hash key = kill_key(config_id);
    for (uint32_t i = 0; i < KILLS_MAX; i++) {
        if (worker->kills[i].count >= limit && gk_hash_equal(&worker->kills[i].key, &key)) {
            return true;
        }
    }
    return false;
}

static void say_started(struct worker *worker, struct lease *lease)
{
    struct gk_json *body = gk_json_new_object();
    if (body && gk_json_set_string(body, "phase", "run")) {
        session_send(worker, GK_MSG_STARTED, lease->token, body);
    } else {
        gk_json_free(body);
    }
}

void bench_discard(struct bench *bench)
{
    bench->lease = NULL;
    bench->ready = false;
    if (bench->process) {
        bench->leaving = true;
        gk_process_kill(bench->process);
    }
}

/* From here on the time is the unit's. */
static void begin_unit(struct bench *bench)
{
    struct lease *lease = bench->lease;
    gk_process_deadline(bench->process, (uint64_t)lease->run_s * 1000);
    if (!lease->started) {
        lease->started = true;
        say_started(bench->worker, lease);
    }
}

/* Whether what it ran may have cost the device. What the hardware or the worker failed of is held
 * against no config. */
static bool is_its_doing(const struct gk_json *record)
{
    const char *infra = gk_failure_name(GK_FAILURE_INFRA);
    return record && strcmp(gk_json_get_string(record, "failure", infra), infra) != 0;
}

static void executor_frame(void *context, const struct gk_json *json)
{
    struct bench *bench = context;
    struct lease *lease = bench->lease;
    uint32_t unit = bench->unit;
    if (!bench->ready && gk_json_get_bool(json, "ready", false)) {
        bench->ready = true;
        bench->quick_deaths = 0;
        if (bench->testing) {
            bench->testing = bench->fenced = false;
            gk_process_deadline(bench->process, 0);
            session_device(bench->worker, bench->index, "ok",
                           "self-test: its executor opened the device");
            session_credit(bench->worker);
        }
        if (lease) { /* opening a device is no candidate's time */
            begin_unit(bench);
        }
        return;
    }
    if (!lease) {
        bench_discard(bench); /* an answer that nobody asked for */
        return;
    }
    gk_process_deadline(bench->process, 0);
    bench->lease = NULL;
    const struct gk_json *record = gk_json_get(json, "record");
    if (gk_json_get_bool(json, "lost", false)) {
        if (is_its_doing(record)) { /* it cost an executor, as if the process had died of it */
            (void)kills_add(bench->worker, lease->units[unit].config_id);
        }
        bench_discard(bench);
    }
    if (!lease->is_final) {
        bench_advance(bench); /* the device works on while the result is spooled and sent */
    }
    if (record) {
        lease_recorded(bench->worker, lease, unit, record);
    } else {
        struct gk_json *failure = record_json(GK_STAGE_RUN, GK_FAILURE_INFRA, "executor: %s: %s",
                                              gk_json_get_string(json, "status", "?"),
                                              gk_json_get_string(json, "error", "no record"));
        lease_recorded(bench->worker, lease, unit, failure);
        gk_json_free(failure);
    }
    bench_advance(bench);
}

/* The device is broken, not what runs on it: the daemon writes that down and gives its leases to
 * others, and the other devices go on. Without any left there is nothing to do here. */
static void fence(struct bench *bench, const char *cause)
{
    struct worker *worker = bench->worker;
    bool any = false;
    bench->fenced = true;
    bench->testing = false;
    bench->lease = NULL; /* the daemon takes it back */
    session_device(worker, bench->index, "fenced", cause);
    for (uint32_t i = 0; i < worker->bench_count; i++) {
        any = any || !worker->benches[i].fenced;
    }
    if (!any) {
        worker_end(worker, GK_INTERNAL, cause);
        return;
    }
    worker_log(worker, GK_WORKER_DEVICE, "device %s is fenced: %s", bench->props.device, cause);
    session_credit(worker);
}

/* One that was given up has ended, or does not. */
static void executor_left(struct bench *bench, bool stuck)
{
    bench->leaving = false;
    if (stuck) {
        fence(bench, STUCK);
    } else if (bench->testing) {
        bench_test(bench);
    } else {
        bench_advance(bench);
    }
}

static void executor_ended(void *context, bool late, int64_t exit_status, int signal_number)
{
    struct bench *bench = context;
    struct worker *worker = bench->worker;
    struct lease *lease = bench->lease;
    uint32_t index = bench->unit;
    struct gk_json *record = NULL;
    bool was_ready = bench->ready;
    char about[96];
    bool for_memory = worker_memory_kill(worker, exit_status, signal_number, about);
    bool stuck = exit_status == GK_PROCESS_STUCK;
    bench->process = NULL;
    bench->ready = false;
    if (bench->leaving) {
        executor_left(bench, stuck);
        return;
    }
    if (!was_ready && ++bench->quick_deaths >= QUICK_DEATHS_MAX) {
        fence(bench, "its executor could not open the device five times in a row");
        return;
    }
    if (stuck && (!lease || !was_ready)) {
        fence(bench, STUCK);
        return;
    }
    if (!was_ready && !lease && bench->testing) {
        bench_test(bench);
        return;
    }
    if (lease && !was_ready) { /* the unit never ran: the next executor gets it */
        restart(bench);
        return;
    }
    bench->lease = NULL;
    if (!lease) {
        bench_advance(bench);
        return;
    }
    const struct unit *unit = &lease->units[index];
    uint32_t kills = for_memory ? 0 : kills_add(worker, unit->config_id);
    if (for_memory && !late) { /* the host's doing: it is tried again, and held against nobody */
        record =
            record_json(GK_STAGE_RUN, GK_FAILURE_INFRA,
                        "the kernel killed the executor for the memory of the worker's control "
                        "group%s",
                        about);
    } else if (late) {
        record = record_json(
            GK_STAGE_RUN, GK_FAILURE_TIMEOUT, "did not end within run_s = %lld s and was killed%s",
            (long long)lease->run_s, stuck ? "; its executor has not ended of it" : "");
    } else {
        record = record_json(
            GK_STAGE_RUN, GK_FAILURE_CRASH,
            "the executor died (signal %d, exit status %lld) while running it, %u. time",
            signal_number, (long long)exit_status, kills);
    }
    bench->fenced = bench->fenced || stuck; /* before anything else is handed to the device */
    lease_recorded(worker, lease, index, record);
    gk_json_free(record);
    if (stuck) {
        fence(bench, STUCK);
    } else {
        bench_advance(bench);
    }
}

static enum gk_status start_executor(struct bench *bench, struct gk_err *err)
{
    struct worker *worker = bench->worker;
    char *argv[] = {(char *)worker->options->program,
                    (char *)"--child=executor",
                    (char *)"--device",
                    bench->props.device,
                    (char *)"--nvrtc",
                    worker->nvrtc_path,
                    (char *)"--spool",
                    (char *)(uintptr_t)worker->options->spool,
                    worker->options->checks ? (char *)"--check" : NULL,
                    NULL};
    bench->ready = false;
    struct gk_process_events events = {executor_frame, executor_ended, bench, 0};
    return gk_process_start(&worker->loop, argv, NULL, &events, &bench->process, err);
}

static struct gk_json *request_of(const struct bench *bench, const struct lease *lease,
                                  const struct unit *unit)
{
    struct gk_json *json = gk_json_new_object(), *codes = gk_json_new_array();
    bool good = json && codes;
    for (uint32_t i = 0; good && i < GK_LAUNCHES_MAX; i++) {
        good = gk_json_push(codes, gk_json_new_string(unit->tasks[i] ? unit->tasks[i]->path : ""));
    }
    good = gk_json_set(json, "codes", codes) && good;
    good = good && gk_json_set_string(json, "root", lease->bundle->root) &&
           gk_json_set_string(json, "op", lease->op) &&
           gk_json_set_string(json, "problem", lease->problem) &&
           gk_json_set_string(json, "policy", gk_policy_name(lease->policy)) &&
           gk_json_set_string(json, "config", unit->config ? unit->config : "vendor") &&
           gk_json_set_string(json, "reference", lease->reference ? lease->reference->path : "") &&
           gk_json_set_int(json, "input_set",
                           lease->is_final ? (lease->pass == 1 ? -1 : 0) : lease->input_set) &&
           gk_json_set_real(json, "best_ns", lease->best_ns) &&
           gk_json_set_bool(json, "final", lease->is_final) &&
           gk_json_set_bool(json, "sustained", lease->sustained) &&
           gk_json_set_bool(json, "vendor", unit->is_vendor) &&
           gk_json_set_bool(json, "twice", unit->carried) &&
           gk_json_set_bool(json, "measure_only", lease->is_final && lease->pass > 1);
    (void)bench;
    if (!good) {
        gk_json_free(json);
        return NULL;
    }
    return json;
}

/* A final round has its device to itself: while one is held, nothing else is taken from the queue.
 */
static struct lease *next_lease(struct bench *bench)
{
    struct lease *found = NULL;
    for (struct lease *lease = bench->worker->leases; lease; lease = lease->next) {
        if (lease->device != bench->index) {
            continue;
        }
        if (lease->is_final && (lease->state == LEASE_RUN || lease->state == LEASE_WAIT_ACK)) {
            return lease->state == LEASE_RUN ? lease : NULL;
        }
        if (!found && lease->state == LEASE_READY) {
            found = lease;
        }
    }
    return found;
}

#define OPEN_MS 60000 /* to open a device: a driver that has to load itself takes seconds */

/* Gives the bench's unit to its executor, which is started if there is none. */
static enum gk_status hand_over(struct bench *bench, struct gk_err *err)
{
    const struct lease *lease = bench->lease;
    enum gk_status status = bench->process ? GK_OK : start_executor(bench, err);
    struct gk_json *request =
        status == GK_OK ? request_of(bench, lease, &lease->units[bench->unit]) : NULL;
    if (status == GK_OK) {
        status = request ? gk_process_send(bench->process, request, err) : GK_NOMEM;
    }
    gk_json_free(request);
    if (status == GK_OK && bench->ready) {
        begin_unit(bench);
    } else if (status == GK_OK) {
        gk_process_deadline(bench->process, OPEN_MS);
    }
    return status;
}

static void restart(struct bench *bench)
{
    struct gk_err err = {0};
    enum gk_status status = hand_over(bench, &err);
    if (status != GK_OK) {
        worker_end(bench->worker, status, err.text);
    }
}

void bench_advance(struct bench *bench)
{
    struct worker *worker = bench->worker;
    struct gk_err err = {0};
    if (bench->lease || bench->leaving || worker->ending || bench->fenced) {
        return;
    }
    struct lease *lease = next_lease(bench);
    uint32_t index = lease ? lease_next_unit(lease) : UINT32_MAX;
    if (index == UINT32_MAX) {
        return;
    }
    bench->lease = lease;
    bench->unit = index;
    enum gk_status status = hand_over(bench, &err);
    if (status != GK_OK) {
        bench->lease = NULL;
        worker_end(worker, status, err.text);
        return;
    }
    if (lease->state == LEASE_READY) {
        lease->state = LEASE_RUN;
        lease->begun_ms = uv_now(&worker->loop);
    }
    session_credit(worker);
}

void bench_unfence(struct bench *bench)
{
    bench->quick_deaths = 0;
    bench->fenced = bench->testing; /* a test that runs says how it ends */
    bench_advance(bench);
}

void bench_test(struct bench *bench)
{
    struct gk_err err = {0};
    if (bench->lease || bench->worker->ending) {
        return; /* what runs there is a better test, and no lease will follow it */
    }
    bench->testing = true;
    if (bench->leaving) {
        return; /* its end goes on with the test */
    }
    if (bench->ready) { /* it has the device already */
        bench->testing = bench->fenced = false;
        session_device(bench->worker, bench->index, "ok", "self-test: its executor has the device");
        return;
    }
    enum gk_status status = bench->process ? GK_OK : start_executor(bench, &err);
    if (status != GK_OK) {
        worker_end(bench->worker, status, err.text);
        return;
    }
    gk_process_deadline(bench->process, OPEN_MS);
}

void benches_stop(struct worker *worker)
{
    for (uint32_t i = 0; i < worker->bench_count; i++) {
        if (worker->benches[i].process) {
            gk_process_abandon(worker->benches[i].process);
            worker->benches[i].process = NULL;
        }
        worker->benches[i].lease = NULL;
    }
}
