/* Clients of the simulation. They write down what they were promised: sim->jobs is the truth that
 * the store is held against. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/sim.h"

#define ANSWER_NS (5 * SECOND_NS)

static void transmit(struct sim *sim, struct sim_client *client)
{
    struct gk_message message = {
        .type = GK_MSG_REQUEST, .seq = client->seq, .body = gk_json_copy(client->request)};
    client->asked_ns = sim->now_ns;
    client->next_ns = sim->now_ns + ANSWER_NS + MS_NS;
    sim_send(sim, client->conn, true, &message);
}

/* Takes the body. */
static void ask(struct sim *sim, struct sim_client *client, const char *verb, struct gk_json *body)
{
    GK_ASSERT(gk_json_set_string(body, "verb", verb));
    client->seq++;
    client->request = body;
    transmit(sim, client);
}

static bool push_text(struct gk_json *list, const char *text)
{
    return gk_json_push(list, gk_json_new_string(text));
}

/* The body depends on the job's number alone, so that a repetition is the same submit. */
static struct gk_json *submit_body(struct sim *sim, uint32_t index)
{
    static const char *const problems[] = {"scale{\"N\":4096}", "scale{\"N\":8192}",
                                           "scale{\"N\":16384}"};
    struct gk_prng prng;
    gk_prng_init(&prng, sim->seed, 1000 + index);
    struct gk_json *body = gk_json_new_object(), *list = gk_json_new_array(),
                   *archs = gk_json_new_array(), *budget = gk_json_new_object();
    uint64_t first = gk_prng_below(&prng, 3), count = 1 + gk_prng_below(&prng, 3);
    uint64_t which = gk_prng_below(&prng, 4);
    bool ok = true;
    for (uint64_t i = first; ok && i < first + count && i < 3; i++) {
        ok = push_text(list, problems[i]);
    }
    ok = ok && (which == 1 || push_text(archs, "emu-sm_80")) &&
         (which == 0 || which == 2 || push_text(archs, "mock-sm_90a")) &&
         gk_json_set_int(budget, "trials", 2 + (int64_t)gk_prng_below(&prng, 14));
    ok = gk_json_set(body, "problems", list) && ok;
    ok = gk_json_set(body, "archs", archs) && ok;
    ok = gk_json_set(body, "budget", budget) && ok;
    GK_ASSERT(ok && gk_json_set_string(body, "submit_id", sim->jobs[index].submit_id) &&
              gk_json_set_string(body, "what", "simulated") &&
              gk_json_set_string(body, "strategy", "random") &&
              gk_json_set_int(body, "seed", (int64_t)gk_prng_below(&prng, 3)) &&
              gk_json_set_int(body, "priority", (int64_t)gk_prng_below(&prng, 3)) &&
              gk_json_set_bool(body, "fresh", gk_prng_below(&prng, 2) == 1) &&
              gk_json_set_bool(body, "spread", sim->seed % 4 == 2) &&
              gk_json_set(body, "bundle", gk_json_copy(sim->bundle)));
    return body;
}

static struct gk_json *job_body(int64_t job)
{
    struct gk_json *body = gk_json_new_object();
    GK_ASSERT(gk_json_set_int(body, "job", job));
    return body;
}

static struct job_log *any_job(struct sim *sim)
{
    uint32_t start = sim->job_count ? (uint32_t)sim_below(sim, sim->job_count) : 0;
    for (uint32_t i = 0; i < sim->job_count; i++) {
        struct job_log *log = &sim->jobs[(start + i) % sim->job_count];
        if (log->job != 0) {
            return log;
        }
    }
    return NULL;
}

static void watch(struct sim *sim, struct sim_client *client, const struct job_log *log)
{
    struct gk_json *body = job_body(log->job);
    GK_ASSERT(log->job <= SIM_JOBS_MAX &&
              gk_json_set_int(body, "after_event", client->seen[log->job]));
    ask(sim, client, "watch", body);
}

static void act(struct sim *sim, struct sim_client *client)
{
    static const char *const verbs[] = {"show",   "trials", "pause", "resume", "retry",
                                        "finish", "cancel", "jobs",  "best",   "workers"};
    if (sim->job_count < sim->jobs_max && sim_below(sim, 3) == 0) {
        struct job_log *log = &sim->jobs[sim->job_count];
        (void)snprintf(log->submit_id, sizeof log->submit_id, "job-%u", sim->job_count);
        ask(sim, client, "submit", submit_body(sim, sim->job_count++));
        return;
    }
    struct job_log *log = any_job(sim);
    if (!log) {
        client->next_ns = sim->now_ns + sim_below(sim, SECOND_NS);
        return;
    }
    if (sim_below(sim, 8) == 0) { /* the same submit again */
        ask(sim, client, "submit", submit_body(sim, (uint32_t)(log - sim->jobs)));
        return;
    }
    if (sim_below(sim, 4) == 0) {
        watch(sim, client, log);
        return;
    }
    const char *verb = verbs[sim_below(sim, GK_ARRAY_COUNT(verbs))];
    if (strcmp(verb, "cancel") == 0 && sim_below(sim, 3)) {
        verb = "show"; /* or there would be nothing left to look at */
    }
    log->retried = log->retried || strcmp(verb, "retry") == 0;
    ask(sim, client, verb, job_body(log->job));
}

void client_step(struct sim *sim, uint32_t index)
{
    struct sim_client *client = &sim->clients[index];
    if (client->request) {
        if (sim->now_ns - client->asked_ns < ANSWER_NS) {
            client->next_ns = client->asked_ns + ANSWER_NS + MS_NS;
            return;
        }
        sim_disconnect(sim, client->conn); /* another connection, the same request */
        transmit(sim, client);
        return;
    }
    client->next_ns = sim->now_ns + 1 + sim_below(sim, 4 * SECOND_NS);
    if (!sim->healing) {
        act(sim, client);
        return;
    }
    /* Nobody leaves a job paused for ever. */
    client->next_ns = sim->now_ns + SECOND_NS;
    struct job_log *log = any_job(sim);
    if (log) {
        ask(sim, client, "resume", job_body(log->job));
    }
}

static void submitted(struct sim *sim, const struct gk_json *request, const struct gk_json *reply)
{
    const char *id = gk_json_get_string(request, "submit_id", "");
    int64_t job = gk_json_get_int(reply, "job", 0);
    for (uint32_t i = 0; i < sim->job_count; i++) {
        struct job_log *log = &sim->jobs[i];
        if (strcmp(log->submit_id, id) != 0) {
            continue;
        }
        if (job <= 0 || (log->job != 0 && log->job != job)) {
            sim_red(sim, "submit %s is job %lld, was job %lld", id, (long long)job,
                    (long long)log->job);
        }
        log->job = job;
    }
}

static void take_reply(struct sim *sim, struct sim_client *client, const struct gk_json *reply)
{
    const char *verb = gk_json_get_string(client->request, "verb", "");
    bool ok = strcmp(gk_json_get_string(reply, "status", ""), "OK") == 0;
    int64_t job = gk_json_get_int(client->request, "job", 0);
    if (ok && strcmp(verb, "submit") == 0) {
        submitted(sim, client->request, reply);
    }
    for (uint32_t i = 0; ok && strcmp(verb, "cancel") == 0 && i < sim->job_count; i++) {
        sim->jobs[i].cancel_acked = sim->jobs[i].cancel_acked || sim->jobs[i].job == job;
    }
    if (!ok) {
        sim_say(sim, "client: %s: %s: %s", verb, gk_json_get_string(reply, "status", ""),
                gk_json_get_string(reply, "text", ""));
    }
}

static void take_event(struct sim *sim, struct sim_client *client, const struct gk_json *body)
{
    int64_t event = gk_json_get_int(body, "event", 0), job = gk_json_get_int(body, "job", 0);
    if (job <= 0 || job > SIM_JOBS_MAX || event <= client->seen[job]) {
        return; /* twice: an earlier watch of the same job goes on */
    }
    if (event != client->seen[job] + 1) {
        sim_red(sim, "watch of job %lld: event %lld after %lld", (long long)job, (long long)event,
                (long long)client->seen[job]);
    }
    client->seen[job] = event;
    for (uint32_t i = 0; i < sim->job_count; i++) {
        if (sim->jobs[i].job == job && sim->jobs[i].events_seen < event) {
            sim->jobs[i].events_seen = event;
        }
    }
}

void client_message(struct sim *sim, uint32_t index, const struct gk_message *message)
{
    struct sim_client *client = &sim->clients[index];
    if (message->type == GK_MSG_EVENT) {
        take_event(sim, client, message->body);
        return;
    }
    if (message->type != GK_MSG_REPLY || !client->request || message->reply_to != client->seq) {
        return;
    }
    take_reply(sim, client, message->body);
    gk_json_free(client->request);
    client->request = NULL;
    client->next_ns = sim->now_ns + 1 + sim_below(sim, 3 * SECOND_NS);
}
