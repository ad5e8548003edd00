/*
 * Workers of the simulation: they speak schemas/PROTOCOL.md as worker/session.c does, with a spool
 * that survives them. Trials take time and come out by the config and the token.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/device_props.h"
#include "core/record.h"
#include "tests/sim/sim.h"

#define HEARTBEAT_NS (2 * SECOND_NS)
#define SILENCE_NS   (6 * SECOND_NS)
#define CREDIT       3

static void send(struct sim *sim, struct sim_worker *worker, enum gk_message_type type,
                 int64_t token, struct gk_json *body)
{
    struct gk_message message = {.type = type,
                                 .epoch = worker->epoch,
                                 .session = worker->session,
                                 .token = (uint64_t)token,
                                 .body = body ? body : gk_json_new_object()};
    if (worker->welcome || type == GK_MSG_HELLO) {
        message.seq = ++worker->seq; /* what is not sent leaves no hole */
        sim_send(sim, worker->conn, true, &message);
    } else {
        gk_message_fini(&message);
    }
}

struct sim_lease *worker_lease(struct sim_worker *worker, int64_t token)
{
    for (uint32_t i = 0; i < worker->lease_count; i++) {
        if (worker->leases[i].token == token) {
            return &worker->leases[i];
        }
    }
    return NULL;
}

void worker_forget(struct sim_worker *worker, uint32_t at)
{
    gk_json_free(worker->leases[at].body);
    memmove(&worker->leases[at], &worker->leases[at + 1],
            (worker->lease_count - at - 1) * sizeof worker->leases[0]);
    worker->lease_count--;
}

static void forget_token(struct sim *sim, struct sim_worker *worker, int64_t token)
{
    struct sim_lease *lease = worker_lease(worker, token);
    if (token > 0 && token < SIM_TOKENS_MAX) {
        sim->tokens[token].over = true;
    }
    if (lease) {
        worker_forget(worker, (uint32_t)(lease - worker->leases));
    }
}

/* pass < 0: all of the token. */
static void unspool(struct sim_worker *worker, int64_t token, int64_t pass)
{
    for (uint32_t i = worker->spool_count; i-- > 0;) {
        if (worker->spool[i].token == token && (pass < 0 || worker->spool[i].pass == pass)) {
            gk_json_free(worker->spool[i].body);
            memmove(&worker->spool[i], &worker->spool[i + 1],
                    (worker->spool_count - i - 1) * sizeof worker->spool[0]);
            worker->spool_count--;
        }
    }
}

/* ------------------------------------------------------------------ HELLO */

static bool hold(struct gk_json *list, int64_t token, const char *state)
{
    struct gk_json *item = gk_json_new_object();
    bool ok = gk_json_set_int(item, "token", token) && gk_json_set_string(item, "state", state);
    return gk_json_push(list, item) && ok;
}

static void say_hello(struct sim *sim, struct sim_worker *worker)
{
    struct gk_device_props props;
    struct gk_json *body = gk_json_new_object(), *devices = gk_json_new_array(),
                   *held = gk_json_new_array();
    bool ok = gk_device_props_builtin(worker->device, &props, NULL) == GK_OK &&
              gk_json_push(devices, gk_device_props_to_json(&props));
    int64_t last = 0;
    for (uint32_t i = 0; ok && i < worker->lease_count; i++) {
        ok = hold(held, worker->leases[i].token, worker->leases[i].running ? "running" : "queued");
    }
    for (uint32_t i = 0; ok && i < worker->spool_count; i++) {
        if (worker->spool[i].token != last && !worker_lease(worker, worker->spool[i].token)) {
            last = worker->spool[i].token;
            ok = hold(held, last, "finished");
        }
    }
    ok = gk_json_set(body, "devices", devices) && ok;
    ok = gk_json_set(body, "held", held) && ok;
    GK_ASSERT(ok && gk_json_set_int(body, "version_min", GK_WIRE_VERSION_MIN) &&
              gk_json_set_int(body, "version_max", GK_WIRE_VERSION) &&
              gk_json_set_string(body, "spool_id", worker->spool_id) &&
              gk_json_set_string(body, "host", "host") && gk_json_set_int(body, "pid", 7) &&
              gk_json_set_string(body, "build", "simulated") &&
              gk_json_set_string(body, "boot_id", "boot") &&
              gk_json_set_bool(body, "sandboxed", false) && gk_json_set_int(body, "cores", 2));
    worker->welcome = false;
    worker->session = worker->epoch = worker->seq = 0;
    worker->hello_ns = worker->heard_ns = sim->now_ns;
    send(sim, worker, GK_MSG_HELLO, 0, body);
}

static void connect_again(struct sim *sim, uint32_t index)
{
    sim_disconnect(sim, sim->workers[index].conn);
    say_hello(sim, &sim->workers[index]);
}

/* ------------------------------------------------------------------ trials */

static struct gk_json *record_of(struct sim *sim, struct sim_worker *worker,
                                 const struct sim_lease *lease)
{
    struct gk_hash hash = gk_hash_text(gk_json_get_string(lease->body, "config", ""));
    struct token_log *log = &sim->tokens[lease->token];
    struct gk_record record;
    (void)worker;
    gk_record_init(&record);
    record.modelled = true;
    record.compile_ns = record.verify_ns = record.measure_ns = 1e6;
    if (log->infra) {
        gk_record_fail(&record, GK_STAGE_RUN, GK_FAILURE_INFRA, "the simulation says so");
    } else if (hash.bytes[5] % 9 == 0) {
        gk_record_fail(&record, GK_STAGE_VERIFY, GK_FAILURE_WRONG, "token %lld",
                       (long long)lease->token);
    } else if (hash.bytes[5] % 29 == 1) {
        gk_record_fail(&record, GK_STAGE_RUN, GK_FAILURE_CRASH, "token %lld",
                       (long long)lease->token);
    } else {
        record.stage = GK_STAGE_DONE;
        record.time_ns = 1000 + hash.bytes[3] * 4 + (double)(lease->token % 512) / 1024;
        record.samples_ns[0] = record.time_ns;
        record.sample_count = 1;
    }
    log->failed = record.failure != GK_FAILURE_NONE;
    log->time_ns = record.time_ns;
    struct gk_json *json = gk_record_to_json(&record);
    gk_record_fini(&record);
    return json;
}

static struct gk_json *pass_of(const struct sim_lease *lease)
{
    const struct gk_json *configs = gk_json_get(lease->body, "configs");
    struct gk_json *body = gk_json_new_object(), *samples = gk_json_new_array();
    bool ok = true;
    for (size_t i = 0; ok && i < gk_json_count(configs); i++) {
        const struct gk_json *config = gk_json_at(configs, i);
        struct gk_hash hash = gk_hash_text(gk_json_get_string(config, "config", ""));
        struct gk_json *sample = gk_json_new_object(), *ns = gk_json_new_array();
        ok = gk_json_push(ns, gk_json_new_real(1000 + hash.bytes[3] * 4)) &&
             gk_json_set_int(sample, "trial", gk_json_get_int(config, "trial", 0));
        ok = gk_json_set(sample, "ns", ns) && ok;
        ok = gk_json_push(samples, sample) && ok;
    }
    ok = gk_json_set(body, "samples", samples) && ok;
    GK_ASSERT(ok && gk_json_set_int(body, "pass", lease->pass) &&
              gk_json_set_string(body, "record_kind", "pass") &&
              gk_json_set(body, "failed", gk_json_new_array()) &&
              gk_json_set_bool(body, "last", false));
    return body;
}

static void finish(struct sim *sim, struct sim_worker *worker, struct sim_lease *lease)
{
    struct gk_json *body;
    int64_t token = lease->token, pass = 0;
    if (lease->is_final) {
        pass = ++lease->pass;
        body = pass_of(lease);
        lease->waits = true;
    } else {
        body = gk_json_new_object();
        GK_ASSERT(gk_json_set(body, "record", record_of(sim, worker, lease)));
        worker_forget(worker, (uint32_t)(lease - worker->leases));
    }
    GK_ASSERT(worker->spool_count < GK_ARRAY_COUNT(worker->spool));
    worker->spool[worker->spool_count++] =
        (struct spooled){.token = token, .pass = pass, .body = gk_json_copy(body)};
    sim->tokens[token].sent = true;
    sim->results++;
    send(sim, worker, GK_MSG_RESULT, token, body);
}

static uint64_t duration(struct sim *sim)
{
    if (sim_chance(sim, 3)) {
        return 3000 * SECOND_NS; /* never, as far as the daemon waits */
    }
    return 20 * MS_NS + sim_below(sim, sim_below(sim, 20) ? 2 * SECOND_NS : 60 * SECOND_NS);
}

static void work(struct sim *sim, struct sim_worker *worker)
{
    struct sim_lease *running = NULL;
    for (uint32_t i = 0; i < worker->lease_count && !running; i++) {
        running = worker->leases[i].running ? &worker->leases[i] : NULL;
    }
    if (running && !running->waits && running->done_ns <= sim->now_ns) {
        bool is_final = running->is_final;
        finish(sim, worker, running);
        running = is_final ? running : NULL;
    }
    /* A worker that is cut off goes on with what it has. */
    if (!running && worker->lease_count > 0) {
        struct gk_json *body = gk_json_new_object();
        running = &worker->leases[0];
        running->running = true;
        running->done_ns = sim->now_ns + duration(sim);
        GK_ASSERT(gk_json_set_string(body, "phase", "run"));
        send(sim, worker, GK_MSG_STARTED, running->token, body);
    }
    if (running && !running->waits && running->done_ns < worker->wake_ns) {
        worker->wake_ns = running->done_ns;
    }
}

static void say_ready(struct sim *sim, struct sim_worker *worker)
{
    int64_t credit = CREDIT;
    for (uint32_t i = 0; i < worker->lease_count; i++) {
        credit -= !worker->leases[i].running;
    }
    credit = credit > 0 && !worker->quiet ? credit : 0;
    if (worker->welcome && credit != worker->credit_sent) {
        struct gk_json *body = gk_json_new_object();
        GK_ASSERT(gk_json_set_int(body, "device", 0) && gk_json_set_int(body, "credit", credit));
        worker->credit_sent = credit;
        send(sim, worker, GK_MSG_READY, 0, body);
    }
}

void worker_step(struct sim *sim, uint32_t index)
{
    struct sim_worker *worker = &sim->workers[index];
    worker->wake_ns = sim->now_ns + SECOND_NS + sim_below(sim, SECOND_NS);
    if (worker->state != WORKER_UP) {
        if (worker->back_ns > sim->now_ns) {
            worker->wake_ns = worker->back_ns;
            return;
        }
        bool was_down = worker->state == WORKER_DOWN;
        worker->state = WORKER_UP;
        if (was_down) {
            worker->quiet = false;
            connect_again(sim, index);
        }
    }
    if (!worker->welcome && sim->now_ns - worker->hello_ns >= HEARTBEAT_NS) {
        connect_again(sim, index);
    } else if (worker->welcome && sim->now_ns - worker->heard_ns > SILENCE_NS) {
        connect_again(sim, index);
    } else if (worker->welcome && sim->now_ns - worker->pinged_ns >= HEARTBEAT_NS) {
        worker->pinged_ns = sim->now_ns;
        send(sim, worker, GK_MSG_PING, 0, NULL);
    }
    work(sim, worker);
    say_ready(sim, worker);
}

/* ------------------------------------------------------------------ messages */

static void take_welcome(struct sim *sim, struct sim_worker *worker,
                         const struct gk_message *message)
{
    const struct gk_json *drop = gk_json_get(message->body, "drop");
    worker->epoch = message->epoch;
    worker->session = message->session;
    worker->welcome = true;
    worker->credit_sent = -1;
    /* With that canary the worker is broken as well: it sends what it was told to forget. */
    bool obeys = sim->canary != CANARY_STALE_TOKEN;
    for (size_t i = 0; obeys && i < gk_json_count(drop); i++) {
        int64_t token = gk_json_int(gk_json_at(drop, i), 0);
        forget_token(sim, worker, token);
        unspool(worker, token, -1);
    }
    for (uint32_t i = 0; i < worker->spool_count; i++) {
        send(sim, worker, GK_MSG_RESULT, worker->spool[i].token,
             gk_json_copy(worker->spool[i].body));
    }
    if (worker->told_fence) { /* a fence stays until its worker says that the device is well */
        worker_fence(sim, (uint32_t)(worker - sim->workers), worker->fenced);
    }
    say_ready(sim, worker);
}

static void take_leases(struct sim *sim, struct sim_worker *worker,
                        const struct gk_message *message)
{
    const struct gk_json *leases = gk_json_get(message->body, "leases");
    for (size_t i = 0; i < gk_json_count(leases); i++) {
        const struct gk_json *json = gk_json_at(leases, i);
        struct sim_lease lease = {.token = gk_json_get_int(json, "token", 0),
                                  .trial = gk_json_get_int(json, "trial", 0),
                                  .task = gk_json_get_int(json, "task", 0),
                                  .is_final =
                                      strcmp(gk_json_get_string(json, "kind", ""), "final") == 0};
        if (lease.token <= 0 || lease.token >= SIM_TOKENS_MAX ||
            worker->lease_count == SIM_LEASES_MAX) {
            sim_red(sim, "lease %lld: worker %s has %u leases, its credit is %d",
                    (long long)lease.token, worker->spool_id, worker->lease_count, CREDIT);
            return;
        }
        if (worker_lease(worker, lease.token) || sim->tokens[lease.token].sent) {
            continue; /* the same message again */
        }
        check_grant(sim, (uint32_t)(worker - sim->workers), json, message->epoch);
        lease.body = gk_json_copy(json);
        worker->leases[worker->lease_count++] = lease;
    }
    worker->credit_sent = -1;
    work(sim, worker);
    say_ready(sim, worker);
}

static void log_ack(struct sim *sim, struct sim_worker *worker, int64_t token, int64_t pass,
                    const char *status)
{
    bool known = token > 0 && token < SIM_TOKENS_MAX && sim->tokens[token].sent;
    bool kept = strcmp(status, "stored") == 0 || strcmp(status, "duplicate") == 0;
    if (!known) {
        if (kept) {
            sim_red(sim, "ACK %s for token %lld, for which %s never sent a result", status,
                    (long long)token, worker->spool_id);
        }
        return;
    }
    struct token_log *log = &sim->tokens[token];
    if (kept && pass > 0) {
        log->passes_acked = pass > log->passes_acked ? pass : log->passes_acked;
    } else if (kept) {
        log->acked = true;
    } else {
        log->dropped = true;
    }
    log->over = log->over || pass == 0;
}

static void take_ack(struct sim *sim, struct sim_worker *worker, const struct gk_json *body)
{
    const struct gk_json *results = gk_json_get(body, "results");
    bool go_on = gk_json_get_bool(body, "go_on", false);
    for (size_t i = 0; i < gk_json_count(results); i++) {
        const struct gk_json *result = gk_json_at(results, i);
        int64_t token = gk_json_get_int(result, "token", 0);
        int64_t pass = gk_json_get_int(result, "pass", 0);
        const char *status = gk_json_get_string(result, "status", "");
        log_ack(sim, worker, token, pass, status);
        unspool(worker, token, pass);
        struct sim_lease *lease = worker_lease(worker, token);
        if (lease && lease->is_final && lease->waits && lease->pass == pass) {
            lease->waits = false;
            lease->done_ns = sim->now_ns + duration(sim);
            if (!go_on || strcmp(status, "stale") == 0) {
                forget_token(sim, worker, token);
            }
        } else if (!lease && pass > 0 && go_on) {
            struct gk_json *release = gk_json_new_object(), *tokens = gk_json_new_array();
            GK_ASSERT(gk_json_push(tokens, gk_json_new_int(token)) &&
                      gk_json_set(release, "tokens", tokens) &&
                      gk_json_set_string(release, "reason", "the worker was restarted"));
            send(sim, worker, GK_MSG_RELEASE, token, release);
        }
    }
    work(sim, worker);
    say_ready(sim, worker);
}

static void take_error(struct sim *sim, struct sim_worker *worker, const struct gk_json *body)
{
    if (strcmp(gk_json_get_string(body, "status", ""), gk_status_name(GK_STALE)) == 0 &&
        worker->welcome) {
        say_hello(sim, worker); /* the connection is good: on it at once */
    }
}

void worker_message(struct sim *sim, uint32_t index, const struct gk_message *message)
{
    struct sim_worker *worker = &sim->workers[index];
    const struct gk_json *tokens = gk_json_get(message->body, "tokens");
    bool ends = message->type == GK_MSG_ERROR || message->type == GK_MSG_REJECT ||
                message->type == GK_MSG_BYE;
    bool begins = message->type == GK_MSG_WELCOME && !worker->welcome;
    bool ours = worker->welcome && message->session == worker->session;
    if (worker->state == WORKER_DOWN) {
        return;
    }
    worker->heard_ns = sim->now_ns;
    if (!ours && !ends && !begins) {
        return;
    }
    switch (message->type) {
    case GK_MSG_WELCOME:
        take_welcome(sim, worker, message);
        break;
    case GK_MSG_LEASE:
        take_leases(sim, worker, message);
        break;
    case GK_MSG_ACK:
        take_ack(sim, worker, message->body);
        break;
    case GK_MSG_CANCEL:
        for (size_t i = 0; i < gk_json_count(tokens); i++) {
            forget_token(sim, worker, gk_json_int(gk_json_at(tokens, i), 0));
            unspool(worker, gk_json_int(gk_json_at(tokens, i), 0), -1);
        }
        say_ready(sim, worker);
        break;
    case GK_MSG_PING:
        send(sim, worker, GK_MSG_PONG, 0, NULL);
        break;
    case GK_MSG_ERROR:
        take_error(sim, worker, message->body);
        break;
    case GK_MSG_REJECT:
        worker->hello_ns = sim->now_ns; /* its service manager starts it again */
        break;
    default:
        break;
    }
}

/* ------------------------------------------------------------------ what goes wrong */

void worker_crash(struct sim *sim, uint32_t index, uint64_t back_ns)
{
    struct sim_worker *worker = &sim->workers[index];
    if (worker->state == WORKER_DOWN) {
        return;
    }
    while (worker->lease_count > 0) {
        forget_token(sim, worker, worker->leases[0].token);
    }
    worker->state = WORKER_DOWN;
    worker->welcome = false;
    worker->back_ns = worker->wake_ns = worker->trouble_ns = back_ns;
    sim_disconnect(sim, worker->conn);
}

void worker_drain(struct sim *sim, uint32_t index)
{
    struct sim_worker *worker = &sim->workers[index];
    struct gk_json *body = gk_json_new_object(), *tokens = gk_json_new_array();
    if (worker->state != WORKER_UP || !worker->welcome) {
        gk_json_free(body);
        gk_json_free(tokens);
        return;
    }
    for (uint32_t i = 0; i < worker->lease_count; i++) {
        GK_ASSERT(gk_json_push(tokens, gk_json_new_int(worker->leases[i].token)));
    }
    GK_ASSERT(gk_json_set(body, "tokens", tokens) && gk_json_set_string(body, "reason", "drain"));
    send(sim, worker, GK_MSG_RELEASE, 0, body);
    if (sim_below(sim, 2)) {
        body = gk_json_new_object();
        GK_ASSERT(gk_json_set_string(body, "reason", "drained"));
        send(sim, worker, GK_MSG_BYE, 0, body);
    }
    while (worker->lease_count > 0) {
        forget_token(sim, worker, worker->leases[0].token);
    }
    worker->state = WORKER_DOWN;
    worker->welcome = false;
    worker->back_ns = worker->wake_ns = worker->trouble_ns =
        sim->now_ns + SECOND_NS + sim_below(sim, 20 * SECOND_NS);
}

void worker_fence(struct sim *sim, uint32_t index, bool fenced)
{
    struct sim_worker *worker = &sim->workers[index];
    struct gk_json *body = gk_json_new_object();
    worker->fenced = fenced;
    worker->told_fence = true;
    worker->trouble_ns = worker->trouble_ns > sim->now_ns ? worker->trouble_ns : sim->now_ns;
    GK_ASSERT(gk_json_set_int(body, "device", 0) &&
              gk_json_set_string(body, "state", fenced ? "fenced" : "ok") &&
              gk_json_set_string(body, "cause", fenced ? "Xid 79, simulated" : "self-test passed"));
    send(sim, worker, GK_MSG_DEVICE_EVENT, 0, body);
}

/* A worker that sends what it must not: tokens of others, records that are none, odd numbers. */
void worker_rogue(struct sim *sim, uint32_t index)
{
    struct sim_worker *worker = &sim->workers[index];
    struct gk_json *body = gk_json_new_object();
    int64_t token = sim->token_max > 0 ? 1 + (int64_t)sim_below(sim, (uint64_t)sim->token_max) : 1;
    /* Never its own tokens, also those that are still on their way: such words count. */
    if (sim->tokens[token].granted_ns == 0 || sim->tokens[token].worker == index) {
        gk_json_free(body);
        return;
    }
    switch (sim_below(sim, 5)) {
    case 0:
        send(sim, worker, GK_MSG_RESULT, token, body);
        return;
    case 1:
        GK_ASSERT(gk_json_set_int(body, "pass", (int64_t)sim_below(sim, 100)));
        send(sim, worker, GK_MSG_RESULT, token, body);
        return;
    case 2:
        GK_ASSERT(gk_json_set_int(body, "device", 99) && gk_json_set_int(body, "credit", -1));
        send(sim, worker, GK_MSG_READY, 0, body);
        return;
    case 3:
        GK_ASSERT(gk_json_set_string(body, "phase", "run"));
        send(sim, worker, GK_MSG_STARTED, token, body);
        return;
    default:
        GK_ASSERT(gk_json_set(body, "tokens", gk_json_new_array()) &&
                  gk_json_push(gk_json_get_mutable(body, "tokens"), gk_json_new_int(token)));
        send(sim, worker, GK_MSG_RELEASE, token, body);
        return;
    }
}
