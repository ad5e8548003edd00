/* The daemon's core: from submit to picks, and everything that may go wrong between. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/daemon_rig.h"

static const char *const ONE[] = {"scale{\"N\":4096}", NULL};
static const char *const THREE[] = {"scale{\"N\":4096}", "scale{\"N\":8192}", "scale{\"N\":16384}",
                                    NULL};
static const char TOY[] = "tests/data/kernels/toy";

static bool never(const char *config)
{
    (void)config;
    return false;
}

static bool always(const char *config)
{
    (void)config;
    return true;
}

static void test_happy_path(void **state)
{
    struct rig rig;
    (void)state;
    rig_open(&rig, ":memory:", TOY);
    rig.fails = never;
    struct rig_worker *worker = rig_connect(&rig, "s1", "emu:sm_80", 4);
    int64_t job = rig_submit(&rig, "a", "emu-sm_80", 10, THREE);
    assert_int_equal(worker->granted, 4); /* the credit and no more */
    (void)rig_work(&rig, 1000);
    assert_string_equal(rig_job_state(&rig, job), "done");
    assert_int_equal(gk_json_get_int(rig.reply, "trials", 0), 30);
    assert_int_equal(rig_count(&rig, "trials", "trials", job), 30);
    assert_int_equal(rig_count(&rig, "best", "rows", job), 3);
    const struct gk_json *row = gk_json_at(gk_json_get(rig.reply, "rows"), 0);
    assert_true(gk_json_get_real(row, "time_ns", 0) > 0);
    assert_true(gk_json_get_real(row, "time_ns", 0) <= gk_json_get_real(row, "default_ns", 0));
    assert_false(gk_json_get_bool(row, "stale", true));
    assert_string_equal(rig_request(&rig, "export_data", NULL), "OK");
    assert_int_equal(gk_json_count(gk_json_get(rig.reply, "bundles")), 1);
    rig_close(&rig);
}

/* The same submit_id is the same job; the same spec continues; a finished one starts with its
 * incumbents and measures nothing twice. */
static void test_again(void **state)
{
    struct rig rig;
    (void)state;
    rig_open(&rig, ":memory:", TOY);
    struct rig_worker *worker = rig_connect(&rig, "s1", "emu:sm_80", 4);
    int64_t job = rig_submit(&rig, "a", "emu-sm_80", 12, ONE);
    assert_int_equal(rig_submit(&rig, "a", "emu-sm_80", 12, ONE), job);
    assert_int_equal(rig_submit(&rig, "b", "emu-sm_80", 12, ONE), job);
    (void)rig_work(&rig, 1000);
    assert_string_equal(rig_job_state(&rig, job), "done");
    assert_int_equal(rig_submit(&rig, "b", "emu-sm_80", 12, ONE), job); /* its reply was lost */
    assert_int_equal(rig_count(&rig, "best", "rows", job), 1);
    char *first =
        gk_strdup(gk_json_get_string(gk_json_at(gk_json_get(rig.reply, "rows"), 0), "config", ""));
    uint64_t granted = worker->granted;
    int64_t again = rig_submit(&rig, "c", "emu-sm_80", 12, ONE);
    assert_int_not_equal(again, job);
    (void)rig_work(&rig, 1000);
    assert_string_equal(rig_job_state(&rig, again), "done");
    assert_true(worker->granted - granted < 12); /* what was measured is told, not run */
    assert_int_equal(rig_count(&rig, "best", "rows", again), 1);
    const struct gk_json *row = gk_json_at(gk_json_get(rig.reply, "rows"), 0);
    assert_string_equal(gk_json_get_string(row, "config", ""), first);
    free(first);
    rig_close(&rig);
}

/* A search goes on on no other GPU than it began on: the same product under another power limit is
 * another one. */
static void test_another_gpu_gets_no_lease(void **state)
{
    struct rig rig;
    (void)state;
    rig_open(&rig, ":memory:", TOY);
    rig.fails = never;
    struct rig_worker *first = rig_connect(&rig, "s1", "cuda:0", 2);
    struct gk_json *body = rig_submit_body(&rig, "a", "sm_90a", 14, ONE);
    assert_string_equal(rig_request(&rig, "submit", body), "OK");
    assert_int_equal(first->lease_count, 2);
    struct gk_json *bye = gk_json_new_object();
    assert_true(gk_json_set_string(bye, "reason", "taken out"));
    rig_send(&rig, first, GK_MSG_BYE, 0, bye);
    struct rig_worker *limited = rig_connect(&rig, "s2", "cuda:500w", 4);
    rig_advance(&rig, 1000);
    assert_int_equal(limited->granted, 0);
    struct rig_worker *same = rig_connect(&rig, "s3", "cuda:1", 4);
    assert_int_equal(same->lease_count, 4);
    assert_int_equal(limited->granted, 0);
    rig_close(&rig);
}

static const char *submit_with(struct rig *rig, const char *id, int64_t trials,
                               const char *const *problems, int64_t priority)
{
    struct gk_json *body = rig_submit_body(rig, id, "emu-sm_80", trials, problems);
    assert_true(gk_json_set_int(body, "priority", priority));
    return rig_request(rig, "submit", body);
}

/* The same submit_id with other content is a mistake of the sender, whichever member differs and
 * whether the id began a job or went on with one; also after a restart. */
static void test_same_id_other_content(void **state)
{
    static const char *const two[] = {"scale{\"N\":4096}", "scale{\"N\":8192}", NULL};
    struct rig rig;
    char named[32];
    (void)state;
    rig_open(&rig, ":memory:", TOY);
    (void)rig_connect(&rig, "s1", "emu:sm_80", 4);
    int64_t job = rig_submit(&rig, "a", "emu-sm_80", 12, ONE);
    assert_int_equal(rig_submit(&rig, "b", "emu-sm_80", 12, ONE), job);
    (void)snprintf(named, sizeof named, "job %" PRId64 "'s", job);
    for (int turn = 0; turn < 2; turn++) {
        const char *const id = turn ? "b" : "a";
        assert_string_equal(submit_with(&rig, id, 13, ONE, 0), "CONFLICT");
        assert_non_null(strstr(gk_json_get_string(rig.reply, "text", ""), named));
        assert_string_equal(submit_with(&rig, id, 12, two, 0), "CONFLICT");
        assert_string_equal(submit_with(&rig, id, 12, ONE, 7), "CONFLICT"); /* no part of a spec */
        assert_int_equal(rig_submit(&rig, id, "emu-sm_80", 12, ONE), job);
    }
    rig_restart(&rig);
    assert_string_equal(submit_with(&rig, "a", 13, ONE, 0), "CONFLICT");
    assert_int_equal(rig_submit(&rig, "a", "emu-sm_80", 12, ONE), job);
    assert_int_equal(rig_count(&rig, "jobs", "jobs", 0), 1);
    /* Who has another key did not send the first one. */
    rig.client.roles = GK_ROLE_SUBMIT;
    (void)snprintf(rig.client.key, sizeof rig.client.key, "somebody");
    assert_string_equal(
        rig_request(&rig, "submit", rig_submit_body(&rig, "a", "emu-sm_80", 12, ONE)), "CONFLICT");
    rig_close(&rig);
}

static void test_watch(void **state)
{
    struct rig rig;
    (void)state;
    rig_open(&rig, ":memory:", TOY);
    (void)rig_connect(&rig, "s1", "emu:sm_80", 4);
    int64_t job = rig_submit(&rig, "a", "emu-sm_80", 8, ONE);
    struct gk_json *body = gk_json_new_object();
    assert_true(gk_json_set_int(body, "job", job));
    assert_string_equal(rig_request(&rig, "watch", body), "OK");
    (void)rig_work(&rig, 1000);
    size_t count = gk_json_count(rig.events);
    assert_true(count > 10);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(gk_json_get_int(gk_json_at(rig.events, i), "event", 0), (int64_t)i + 1);
    }
    assert_string_equal(gk_json_get_string(gk_json_at(rig.events, 0), "kind", ""), "submitted");
    assert_string_equal(gk_json_get_string(gk_json_at(rig.events, count - 1), "kind", ""),
                        "job_done");
    assert_int_equal(gk_core_counters(rig.core).watchers, 0);
    rig_close(&rig);
}

static void test_nothing_verified(void **state)
{
    struct rig rig;
    (void)state;
    rig_open(&rig, ":memory:", TOY);
    rig.fails = always;
    (void)rig_connect(&rig, "s1", "emu:sm_80", 4);
    int64_t job = rig_submit(&rig, "a", "emu-sm_80", 8, ONE);
    (void)rig_work(&rig, 1000);
    assert_string_equal(rig_job_state(&rig, job), "failed");
    const struct gk_json *task = gk_json_at(gk_json_get(rig.reply, "tasks"), 0);
    assert_non_null(strstr(gk_json_get_string(task, "reason", ""), "wrong_result"));
    assert_int_equal(rig_count(&rig, "best", "rows", job), 0);
    rig_close(&rig);
}

/* A worker is cut off and comes back with what it holds: nothing is leased twice. */
static void test_reconnect_keeps(void **state)
{
    struct rig rig;
    (void)state;
    rig_open(&rig, ":memory:", TOY);
    struct rig_worker *worker = rig_connect(&rig, "s1", "emu:sm_80", 4);
    int64_t job = rig_submit(&rig, "a", "emu-sm_80", 8, ONE);
    assert_int_equal(worker->lease_count, 4);
    rig_advance(&rig, 7000); /* silent for longer than three heartbeats */
    assert_int_equal(gk_core_counters(rig.core).sessions, 0);
    assert_int_equal(gk_core_counters(rig.core).held_leases, 4);
    rig_hello(&rig, worker);
    assert_int_equal(worker->kept, 4);
    assert_int_equal(worker->dropped, 0);
    for (int second = 0; second < 2000; second += 2) { /* queued: as long as the worker lives */
        rig_advance(&rig, 2000);
        rig_send(&rig, worker, GK_MSG_PING, 0, gk_json_new_object());
    }
    assert_int_equal(gk_core_counters(rig.core).expired, 0);
    (void)rig_work(&rig, 1000);
    assert_string_equal(rig_job_state(&rig, job), "done");
    assert_int_equal(worker->granted, 8 + 1);
    rig_close(&rig);
}

/* It never comes back: after the grace its leases go to another worker; then its late results are
 * stale. */
static void test_lost_worker_and_stale(void **state)
{
    struct rig rig;
    (void)state;
    rig_open(&rig, ":memory:", TOY);
    struct rig_worker *first = rig_connect(&rig, "s1", "emu:sm_80", 4);
    int64_t job = rig_submit(&rig, "a", "emu-sm_80", 8, ONE);
    rig_advance(&rig, 7000);
    rig_advance(&rig, 16000);
    assert_int_equal(gk_core_counters(rig.core).held_leases, 0);
    assert_int_equal(gk_core_counters(rig.core).expired, 4);
    struct rig_worker *second = rig_connect(&rig, "s2", "emu:sm_80", 4);
    rig_hello(&rig, first);
    assert_int_equal(first->dropped, 4);
    (void)rig_answer(&rig, first, 0); /* as if WELCOME had not arrived in time */
    assert_int_equal(first->acks_stale, 1);
    while (first->lease_count > 0) {
        rig_forget(first, 0);
    }
    (void)rig_work(&rig, 1000);
    assert_string_equal(rig_job_state(&rig, job), "done");
    assert_int_equal(gk_json_get_int(rig.reply, "trials", 0), 8);
    assert_true(second->granted >= 4);
    rig_close(&rig);
}

static void test_duplicate(void **state)
{
    struct rig rig;
    (void)state;
    rig_open(&rig, ":memory:", TOY);
    struct rig_worker *worker = rig_connect(&rig, "s1", "emu:sm_80", 2);
    int64_t job = rig_submit(&rig, "a", "emu-sm_80", 8, ONE);
    struct gk_json *lease = gk_json_copy(worker->leases[0]);
    (void)rig_answer(&rig, worker, 0);
    worker->leases[worker->lease_count++] = lease;
    (void)rig_answer(&rig, worker, worker->lease_count - 1);
    assert_int_equal(worker->acks_stored, 1);
    assert_int_equal(worker->acks_duplicate, 1);
    assert_string_equal(rig_job_state(&rig, job), "searching");
    assert_int_equal(gk_json_get_int(rig.reply, "trials", 0), 1);
    rig_close(&rig);
}

/* A config that takes three workers with it is parked with the reason, and the job goes on. */
static void test_attempt_cap(void **state)
{
    struct rig rig;
    (void)state;
    rig_open(&rig, ":memory:", TOY);
    rig.fails = never;
    struct rig_worker *worker = rig_connect(&rig, "s1", "emu:sm_80", 1);
    int64_t job = rig_submit(&rig, "a", "emu-sm_80", 8, ONE);
    for (int attempt = 0; attempt < 3; attempt++) {
        assert_int_equal(worker->lease_count, 1);
        assert_int_equal(gk_json_get_int(worker->leases[0], "attempt", -1), attempt);
        rig_started(&rig, worker, gk_json_get_int(worker->leases[0], "token", 0));
        rig_forget(worker, 0); /* died, and comes back without it */
        rig_hello(&rig, worker);
        rig_ready(&rig, worker, 1);
    }
    assert_int_equal(gk_core_counters(rig.core).parked, 1);
    (void)rig_work(&rig, 1000);
    assert_string_equal(rig_job_state(&rig, job), "done");
    assert_int_equal(gk_json_get_int(rig.reply, "trials", 0), 7);
    struct gk_json *body = gk_json_new_object();
    assert_true(gk_json_set_int(body, "job", job) && gk_json_set_bool(body, "failed", true));
    assert_string_equal(rig_request(&rig, "trials", body), "OK");
    const struct gk_json *trial = gk_json_at(gk_json_get(rig.reply, "trials"), 0);
    assert_string_equal(gk_json_get_string(trial, "state", ""), "parked");
    assert_non_null(strstr(gk_json_get_string(trial, "message", ""), "3 attempts"));
    rig_close(&rig);
}

/* A worker that only had it queued is not the config's fault: any number of such losses counts
 * nothing. */
static void test_queued_losses_do_not_count(void **state)
{
    struct rig rig;
    (void)state;
    rig_open(&rig, ":memory:", TOY);
    struct rig_worker *worker = rig_connect(&rig, "s1", "emu:sm_80", 1);
    (void)rig_submit(&rig, "a", "emu-sm_80", 8, ONE);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(worker->lease_count, 1);
        assert_int_equal(gk_json_get_int(worker->leases[0], "attempt", -1), 0);
        rig_forget(worker, 0);
        rig_hello(&rig, worker);
        rig_ready(&rig, worker, 1);
    }
    assert_int_equal(gk_core_counters(rig.core).parked, 0);
    rig_close(&rig);
}

static void test_deadline(void **state)
{
    struct rig rig;
    (void)state;
    rig_open(&rig, ":memory:", TOY);
    struct rig_worker *worker = rig_connect(&rig, "s1", "emu:sm_80", 1);
    (void)rig_submit(&rig, "a", "emu-sm_80", 8, ONE);
    rig_started(&rig, worker, gk_json_get_int(worker->leases[0], "token", 0));
    for (int second = 0; second < 1300 && worker->cancelled == 0; second += 2) {
        rig_advance(&rig, 2000);
        rig_send(&rig, worker, GK_MSG_PING, 0, gk_json_new_object());
    }
    assert_int_equal(worker->cancelled, 1); /* told to stop; the trial is to be leased again */
    assert_int_equal(gk_core_counters(rig.core).expired, 1);
    rig_close(&rig);
}

static int64_t submit_and_run(struct rig *rig, const char *store, uint32_t crash_every)
{
    rig_open(rig, store, TOY);
    struct rig_worker *worker = rig_connect(rig, "s1", "emu:sm_80", 4);
    int64_t job = rig_submit(rig, "a", "emu-sm_80", 14, THREE);
    uint32_t done = 0;
    while (true) {
        uint32_t answers = rig_work(rig, crash_every ? crash_every : 1000);
        done += answers;
        if (strcmp(rig_job_state(rig, job), "searching") != 0 &&
            strcmp(rig_job_state(rig, job), "confirming") != 0) {
            break;
        }
        assert_true(answers > 0);
        if (crash_every) {
            rig_restart(rig);
            rig_hello(rig, worker);
            worker->credit = 0;
        }
    }
    return done > 0 ? job : 0;
}

/* A daemon that dies after every third result asks, leases and picks exactly what one that never
 * dies does. */
static void test_restart_is_invisible(void **state)
{
    struct rig calm, rough;
    (void)state;
    int64_t a = submit_and_run(&calm, ":memory:", 0), b = submit_and_run(&rough, ":memory:", 3);
    assert_string_equal(rig_job_state(&calm, a), "done");
    assert_string_equal(rig_job_state(&rough, b), "done");
    assert_int_equal(calm.workers[0].granted, rough.workers[0].granted); /* nothing ran twice */
    assert_int_equal(rig_count(&calm, "best", "rows", a), 3);
    assert_int_equal(rig_count(&rough, "best", "rows", b), 3);
    for (size_t i = 0; i < 3; i++) {
        const struct gk_json *x = gk_json_at(gk_json_get(calm.reply, "rows"), i),
                             *y = gk_json_at(gk_json_get(rough.reply, "rows"), i);
        assert_string_equal(gk_json_get_string(x, "config", "x"),
                            gk_json_get_string(y, "config", "y"));
    }
    assert_int_equal(rig_count(&calm, "trials", "trials", a),
                     rig_count(&rough, "trials", "trials", b));
    assert_int_equal(rough.epoch > 5, 1);
    rig_close(&calm);
    rig_close(&rough);
}

static void test_two_workers_one_result(void **state)
{
    struct rig one, two;
    (void)state;
    rig_open(&one, ":memory:", TOY);
    (void)rig_connect(&one, "s1", "emu:sm_80", 4);
    int64_t a = rig_submit(&one, "a", "emu-sm_80", 14, THREE);
    (void)rig_work(&one, 1000);
    rig_open(&two, ":memory:", TOY);
    (void)rig_connect(&two, "s1", "emu:sm_80", 1);
    (void)rig_connect(&two, "s2", "emu:sm_80", 3);
    int64_t b = rig_submit(&two, "a", "emu-sm_80", 14, THREE);
    (void)rig_work(&two, 1000);
    assert_int_equal(rig_count(&one, "best", "rows", a), 3);
    assert_int_equal(rig_count(&two, "best", "rows", b), 3);
    for (size_t i = 0; i < 3; i++) {
        assert_string_equal(
            gk_json_get_string(gk_json_at(gk_json_get(one.reply, "rows"), i), "config", "x"),
            gk_json_get_string(gk_json_at(gk_json_get(two.reply, "rows"), i), "config", "y"));
    }
    rig_close(&one);
    rig_close(&two);
}

/* The fence: a live lease is its holder's alone. What another session says of it changes nothing.
 */
static void test_result_of_another(void **state)
{
    struct rig rig;
    (void)state;
    rig_open(&rig, ":memory:", TOY);
    struct rig_worker *holder = rig_connect(&rig, "s1", "emu:sm_80", 4);
    int64_t job = rig_submit(&rig, "a", "emu-sm_80", 8, ONE);
    struct rig_worker *thief = rig_connect(&rig, "s2", "emu:sm_90a", 4);
    assert_true(holder->lease_count > 0);
    uint32_t held = gk_core_counters(rig.core).held_leases;
    thief->leases[0] = gk_json_copy(holder->leases[0]);
    thief->lease_count = 1;
    (void)rig_answer(&rig, thief, 0);
    assert_int_equal(thief->acks_not_owner, 1);
    assert_int_equal(gk_core_counters(rig.core).not_owner, 1);
    assert_int_equal(gk_core_counters(rig.core).held_leases, held);
    while (thief->lease_count > 0) {
        rig_forget(thief, 0);
    }
    (void)rig_work(&rig, 1000);
    assert_string_equal(rig_job_state(&rig, job), "done");
    assert_int_equal(holder->acks_stale, 0);
    rig_close(&rig);
}

static const char *job_verb(struct rig *rig, const char *verb, int64_t job)
{
    struct gk_json *body = gk_json_new_object();
    assert_true(gk_json_set_int(body, "job", job));
    return rig_request(rig, verb, body);
}

static void test_cancel_pause_finish(void **state)
{
    struct rig rig;
    (void)state;
    rig_open(&rig, ":memory:", TOY);
    rig.fails = never;
    struct rig_worker *worker = rig_connect(&rig, "s1", "emu:sm_80", 4);
    int64_t job = rig_submit(&rig, "a", "emu-sm_80", 14, ONE);
    assert_string_equal(job_verb(&rig, "cancel", job), "OK");
    assert_int_equal(worker->cancelled, 4);
    assert_string_equal(rig_job_state(&rig, job), "cancelled");
    assert_string_equal(job_verb(&rig, "cancel", job), "OK"); /* it is */
    assert_string_equal(job_verb(&rig, "pause", job), "CONFLICT");
    assert_string_equal(job_verb(&rig, "cancel", 99), "NOT_FOUND");

    job = rig_submit(&rig, "b", "emu-sm_80", 18, ONE);
    (void)rig_work(&rig, 2);
    assert_string_equal(job_verb(&rig, "pause", job), "OK");
    uint64_t granted = worker->granted;
    (void)rig_work(&rig, 1000);
    assert_int_equal(worker->granted, granted); /* what was out is stored, nothing new goes out */
    assert_string_equal(job_verb(&rig, "resume", job), "OK");
    (void)rig_work(&rig, 1);
    assert_string_equal(job_verb(&rig, "finish", job), "OK");
    (void)rig_work(&rig, 1000);
    assert_string_equal(rig_job_state(&rig, job), "done");
    assert_true(gk_json_get_int(rig.reply, "trials", 0) < 18);
    assert_int_equal(rig_count(&rig, "best", "rows", job), 1);
    rig_close(&rig);
}

static void test_two_archs(void **state)
{
    struct rig rig;
    (void)state;
    rig_open(&rig, ":memory:", TOY);
    rig.fails = never;
    struct gk_json *body = rig_submit_body(&rig, "a", "emu-sm_80", 8, ONE);
    struct gk_json *archs = gk_json_get_mutable(body, "archs");
    assert_true(gk_json_push(archs, gk_json_new_string("emu-sm_90a")));
    assert_string_equal(rig_request(&rig, "submit", body), "OK");
    assert_int_equal(gk_json_count(gk_json_get(rig.reply, "warnings")),
                     2); /* nobody is there yet */
    int64_t job = gk_json_get_int(rig.reply, "job", 0);
    (void)rig_connect(&rig, "s1", "emu:sm_80", 4);
    (void)rig_work(&rig, 1000);
    assert_string_equal(rig_job_state(&rig, job), "searching"); /* the other arch waits */
    (void)rig_connect(&rig, "s2", "emu:sm_90a", 4);
    (void)rig_work(&rig, 1000);
    assert_string_equal(rig_job_state(&rig, job), "done");
    assert_int_equal(rig_count(&rig, "best", "rows", job), 2);
    body = rig_submit_body(&rig, "all", "x", 8, THREE);
    assert_true(gk_json_set_string(body, "archs", "all"));
    assert_string_equal(rig_request(&rig, "submit", body), "OK");
    assert_int_equal(gk_json_get_int(rig.reply, "tasks", 0), 6);
    rig_close(&rig);
}

static void expect_refused(struct rig *rig, struct gk_json *body, const char *status,
                           const char *part)
{
    assert_string_equal(rig_request(rig, "submit", body), status);
    const char *text = gk_json_get_string(rig->reply, "text", "");
    if (!strstr(text, part)) {
        fail_msg("'%s' is not in '%s'", part, text);
    }
}

static void test_bad_submits(void **state)
{
    struct rig rig;
    static const char *const wrong_op[] = {"nope{\"N\":1}", "scale{\"N\":-4}", NULL},
                             *const none[] = {NULL};
    static const char *const sloppy[] = {"scale{\"N\":4096,\"a\":2.0}", NULL};
    (void)state;
    rig_open(&rig, ":memory:", TOY);
    expect_refused(&rig, rig_submit_body(&rig, "a", "emu-sm_80", 8, wrong_op), "INPUT",
                   "problem 1");
    expect_refused(&rig, rig_submit_body(&rig, "a", "emu-sm_80", 8, none), "INPUT", "0 problems");
    expect_refused(&rig, rig_submit_body(&rig, "a", "emu-sm_80", 8, sloppy), "INPUT",
                   "canonical is");
    expect_refused(&rig, rig_submit_body(&rig, "a", "sm_10", 8, ONE), "INPUT", "sm_10");
    struct gk_json *body = rig_submit_body(&rig, "a", "emu-sm_80", 0, ONE);
    assert_string_equal(rig_request(&rig, "submit", body), "INPUT");
    body = rig_submit_body(&rig, "a", "emu-sm_80", 8, ONE);
    assert_true(gk_json_set_string(body, "strategy", "magic"));
    expect_refused(&rig, body, "INPUT", "random");
    body = rig_submit_body(&rig, "a", "emu-sm_80", 8, ONE);
    assert_true(gk_json_set_string(body, "archs", "all"));
    expect_refused(&rig, body, "NOT_FOUND", "gktune-worker");
    gk_core_set_disk(rig.core, GK_CORE_DISK_LOW, 1000, 100000);
    expect_refused(&rig, rig_submit_body(&rig, "a", "emu-sm_80", 8, ONE), "LIMIT", "free");
    assert_int_equal(rig_count(&rig, "jobs", "jobs", 0),
                     0); /* nothing of a refused one is stored */
    assert_string_equal(rig_request(&rig, "frobnicate", NULL), "PROTOCOL");
    assert_non_null(strstr(gk_json_get_string(rig.reply, "text", ""), "export_data"));
    rig_close(&rig);
}

/* What a hostile or broken peer may send is answered and counted; the job of others goes on. */
static void test_malformed(void **state)
{
    struct rig rig;
    (void)state;
    rig_open(&rig, ":memory:", TOY);
    struct rig_worker *worker = rig_connect(&rig, "s1", "emu:sm_80", 2);
    int64_t job = rig_submit(&rig, "a", "emu-sm_80", 8, ONE);
    static const enum gk_message_type types[] = {
        GK_MSG_READY, GK_MSG_STARTED, GK_MSG_RELEASE, GK_MSG_DEVICE_EVENT, GK_MSG_BLOB_GET,
        GK_MSG_LEASE, GK_MSG_PONG,    GK_MSG_ERROR,   GK_MSG_EVENT};
    for (size_t i = 0; i < GK_ARRAY_COUNT(types); i++) {
        rig_send(&rig, worker, types[i], 12345, gk_json_new_object());
    }
    int64_t token = gk_json_get_int(worker->leases[0], "token", 0);
    rig_send(&rig, worker, GK_MSG_RESULT, token,
             gk_json_new_object()); /* its own lease, no record */
    assert_int_equal(worker->acks_dropped, 1);
    rig_forget(worker, 0);
    uint64_t session = worker->session;
    worker->session = 999;
    rig_send(&rig, worker, GK_MSG_PING, 0, gk_json_new_object());
    worker->session = session;
    worker->seq--; /* what was of no session took none of this one's numbers */
    assert_true(worker->errors >= 4);
    struct gk_err why = {.status = GK_PROTOCOL, .text = "rubbish"};
    assert_int_equal(gk_core_malformed(rig.core, &rig.client, &why, rig.now_ns, NULL), GK_OK);
    rig_pump(&rig);
    assert_string_equal(gk_json_get_string(rig.reply, "text", ""), "rubbish");
    (void)rig_work(&rig, 1000);
    assert_string_equal(rig_job_state(&rig, job), "done");
    rig_close(&rig);
}

/* All that went over the wire, for schemas/message.schema.json. */
static void test_messages_for_schema(void **state)
{
    struct rig rig;
    (void)state;
    rig_open(&rig, ":memory:", TOY);
    rig.written = gk_json_new_array();
    (void)rig_connect(&rig, "s1", "emu:sm_80", 4);
    int64_t job = rig_submit(&rig, "a", "emu-sm_80", 8, ONE);
    assert_string_equal(job_verb(&rig, "watch", job), "OK");
    (void)rig_work(&rig, 1000);
    static const char *const of_a_job[] = {"show", "trials", "best", "export_data"};
    static const char *const of_all[] = {"status", "jobs", "workers"};
    for (size_t i = 0; i < GK_ARRAY_COUNT(of_a_job); i++) {
        assert_string_equal(job_verb(&rig, of_a_job[i], job), "OK");
    }
    for (size_t i = 0; i < GK_ARRAY_COUNT(of_all); i++) {
        assert_string_equal(rig_request(&rig, of_all[i], gk_json_new_object()), "OK");
    }
    rig_write(&rig, "test_core_path.jsonl");
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_happy_path),
        cmocka_unit_test(test_again),
        cmocka_unit_test(test_another_gpu_gets_no_lease),
        cmocka_unit_test(test_same_id_other_content),
        cmocka_unit_test(test_watch),
        cmocka_unit_test(test_nothing_verified),
        cmocka_unit_test(test_reconnect_keeps),
        cmocka_unit_test(test_lost_worker_and_stale),
        cmocka_unit_test(test_result_of_another),
        cmocka_unit_test(test_duplicate),
        cmocka_unit_test(test_attempt_cap),
        cmocka_unit_test(test_queued_losses_do_not_count),
        cmocka_unit_test(test_deadline),
        cmocka_unit_test(test_restart_is_invisible),
        cmocka_unit_test(test_two_workers_one_result),
        cmocka_unit_test(test_cancel_pause_finish),
        cmocka_unit_test(test_two_archs),
        cmocka_unit_test(test_bad_submits),
        cmocka_unit_test(test_malformed),
        cmocka_unit_test(test_messages_for_schema),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
