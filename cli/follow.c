/* Following a job to its end: see follow.h. */
#include "cli/follow.h"
#include "cli/listing.h"

#include <string.h>

#define TICK_MS 200
#define LOOK_MS 1000

struct look {
    uint64_t due_ms;
    bool ended;
};

static uint64_t now_ms(const struct gk_follow *follow)
{
    const struct gk_clock *clock = &follow->progress->cli->clock;
    return clock->monotonic_ns(clock->context) / 1000000;
}

static bool task_ended(const char *state)
{
    return strcmp(state, "done") == 0 || strcmp(state, "failed") == 0 ||
           strcmp(state, "cancelled") == 0;
}

static void add_task(struct gk_progress_state *state, const struct gk_json *task)
{
    const char *name = gk_json_get_string(task, "state", "");
    double best = gk_json_get_real(task, "best_ns", 0);
    state->tasks++;
    state->tasks_done += task_ended(name);
    state->done += gk_json_get_int(task, "verified", 0) + gk_json_get_int(task, "failed", 0);
    state->verified += gk_json_get_int(task, "verified", 0);
    state->failed += gk_json_get_int(task, "failed", 0);
    if (strcmp(name, "final") == 0 || strcmp(name, "spread") == 0 || strcmp(name, "judged") == 0) {
        state->phase = "final round";
    }
    if (best > 0) {
        state->best_ns = best; /* of the last problem that has one: they are worked on in order */
    }
}

/* The first page is enough: a job of more than 500 tasks shows its first ones in detail, all in the
 * job's counters. */
static enum gk_status look_at(struct gk_follow *follow, struct look *look, struct gk_err *err)
{
    struct gk_json *body = gk_json_new_object(), *reply = NULL;
    (void)gk_json_set_int(body, "job", follow->job);
    enum gk_status status = gk_client_request(follow->client, "show", body, 0, &reply, err);
    if (status != GK_OK) {
        return status;
    }
    const struct gk_json *job = gk_job_of(reply), *tasks = gk_json_get(job, "tasks");
    tasks = gk_json_is(tasks, GK_JSON_ARRAY) ? tasks : gk_json_get(reply, "tasks");
    struct gk_progress_state state = {0};
    for (size_t i = 0; i < gk_json_count(tasks); i++) {
        add_task(&state, gk_json_at(tasks, i));
    }
    const struct gk_json *next = gk_json_get(reply, "next");
    if (next && gk_json_type(next) != GK_JSON_NULL) {
        state.done = gk_json_get_int(job, "trials", state.done);
        state.failed = gk_json_get_int(job, "failed", state.failed);
        state.verified = state.done - state.failed;
        state.tasks_done = gk_json_get_int(job, "done", state.tasks_done);
        state.tasks = gk_json_get_int(reply, "task_count", state.tasks);
    }
    state.verified_per_s = gk_json_get_real(gk_json_get(job, "rates"), "verified_per_s", 0);
    state.total = follow->budget_trials * state.tasks;
    if (state.total < state.done) {
        state.total = state.done;
    }
    state.best_ns = follow->best_ns > 0 ? follow->best_ns : state.best_ns;
    follow->state = state;
    look->ended = gk_job_ended(job);
    gk_json_free(reply);
    gk_progress_show(follow->progress, &follow->state);
    return GK_OK;
}

static enum gk_status watch(struct gk_follow *follow, struct gk_err *err)
{
    struct gk_json *body = gk_json_new_object();
    (void)gk_json_set_int(body, "job", follow->job);
    (void)gk_json_set_int(body, "after_event", follow->after_event > 0 ? follow->after_event : 0);
    return gk_client_request(follow->client, "watch", body, 0, NULL, err);
}

void gk_follow_recorded(struct gk_follow *follow, const struct gk_json *event)
{
    int64_t task = gk_json_get_int(event, "task", 0);
    double ns = gk_json_get_real(event, "time_ns", 0);
    uint64_t at = (uint64_t)task % GK_FOLLOW_BESTS;
    if (strcmp(gk_json_get_string(event, "kind", ""), "recorded") != 0 || !(ns > 0)) {
        return;
    }
    if (follow->bests[at].task != task || follow->bests[at].ns > ns || follow->bests[at].ns <= 0) {
        follow->bests[at].task = task;
        follow->bests[at].ns = ns;
    }
    follow->best_ns = follow->bests[at].ns;
}

/* Events that wait, without waiting for more than the first. */
static enum gk_status take_events(struct gk_follow *follow, struct look *look, struct gk_err *err)
{
    enum gk_status status = GK_OK;
    for (int wait_ms = TICK_MS; status == GK_OK; wait_ms = 0) {
        struct gk_json *event = NULL;
        status = gk_client_event(follow->client, wait_ms, &event, err);
        if (status != GK_OK) {
            break;
        }
        int64_t number = gk_json_get_int(event, "event", 0);
        bool ours = gk_json_get_int(event, "job", follow->job) == follow->job &&
                    (number == 0 || number > follow->after_event);
        if (ours) {
            const char *kind = gk_json_get_string(event, "kind", "");
            gk_follow_recorded(follow, event);
            follow->after_event = number > 0 ? number : follow->after_event;
            if (strcmp(kind, "job_done") == 0 || strcmp(kind, "cancelled") == 0) {
                look->due_ms = 0; /* look at once: it has ended, or is about to */
            }
            status = follow->on_event ? follow->on_event(follow->context, event, err) : GK_OK;
        }
        gk_json_free(event);
    }
    return status == GK_TIMEOUT ? GK_OK : status;
}

enum gk_status gk_follow(struct gk_follow *follow, struct gk_err *err)
{
    struct look look = {0};
    uint32_t generation = gk_client_generation(follow->client);
    enum gk_status status = watch(follow, err);
    while (status == GK_OK) {
        if (now_ms(follow) >= look.due_ms) {
            status = look_at(follow, &look, err);
            look.due_ms = now_ms(follow) + LOOK_MS;
        }
        if (status == GK_OK) {
            status = take_events(follow, &look, err);
        }
        if (status == GK_OK && look.ended) {
            break; /* after its last events were handed on */
        }
        if (status == GK_OK && follow->on_tick) {
            status = follow->on_tick(follow->context, err);
        }
        if (status == GK_OK) {
            status = gk_client_mend(follow->client, err);
        }
        if (status == GK_OK && generation != gk_client_generation(follow->client)) {
            generation = gk_client_generation(follow->client);
            status = watch(follow, err);
        }
    }
    return status;
}
