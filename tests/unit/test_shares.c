/* Who submits much does not push others aside: turns of keys, places for searches, the quota. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/daemon_rig.h"

static const char *const MANY[] = {"scale{\"N\":1024}", "scale{\"N\":2048}", "scale{\"N\":3072}",
                                   "scale{\"N\":5120}", "scale{\"N\":6144}", NULL};
static const char *const ONE[] = {"scale{\"N\":4096}", NULL};
static const char TOY[] = "tests/data/kernels/toy";

static bool never(const char *config)
{
    (void)config;
    return false;
}

static const char *submit_as(struct rig *rig, const char *key, uint8_t roles, int64_t number,
                             int64_t priority, const char *const *problems)
{
    char id[32];
    (void)snprintf(id, sizeof id, "%s-%" PRId64, key, number);
    (void)snprintf(rig->client.key, sizeof rig->client.key, "%s", key);
    rig->client.roles = roles;
    struct gk_json *body = rig_submit_body(rig, id, "emu-sm_80", 12, problems);
    assert_true(gk_json_set_int(body, "priority", priority) &&
                gk_json_set_int(body, "seed", number));
    return rig_request(rig, "submit", body);
}

static int64_t job_as(struct rig *rig, const char *key, int64_t number, int64_t priority,
                      const char *const *problems)
{
    assert_string_equal(submit_as(rig, key, GK_ROLE_SUBMIT, number, priority, problems), "OK");
    return gk_json_get_int(rig->reply, "job", 0);
}

/* Answers what the worker holds, one lease a turn, and counts those that were of the job. */
static uint32_t leases_of(struct rig *rig, struct rig_worker *worker, int64_t job, uint32_t turns)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < turns; i++) {
        rig_ready(rig, worker, 1);
        assert_int_equal(worker->lease_count, 1);
        count += gk_json_get_int(worker->leases[0], "job", 0) == job;
        while (!rig_answer(rig, worker, 0)) { /* a final round has several passes */
        }
    }
    return count;
}

/* A worker without credit, and twenty jobs of one key. */
static struct rig_worker *open_flooded(struct rig *rig)
{
    rig_open(rig, ":memory:", TOY);
    rig->fails = never;
    struct rig_worker *worker = rig_connect(rig, "s1", "emu:sm_80", 0);
    for (int64_t i = 1; i <= 20; i++) {
        (void)job_as(rig, "flood", i, 0, MANY);
    }
    return worker;
}

/* Twenty jobs of one key have taken all places for searches and wait with many trials; one job of
 * another key gets every second lease from the first on. */
static void a_flood_leaves_every_second_turn(void **state)
{
    struct rig rig;
    (void)state;
    struct rig_worker *worker = open_flooded(&rig);
    assert_int_equal(leases_of(&rig, worker, 0, 8), 0); /* nobody else is there */
    int64_t job = job_as(&rig, "alone", 1, 0, ONE);
    assert_int_equal(leases_of(&rig, worker, job, 10), 5);
    rig_close(&rig);
}

static uint32_t held_of(const struct rig_worker *worker, int64_t job)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < worker->lease_count; i++) {
        count += gk_json_get_int(worker->leases[i], "job", 0) == job;
    }
    return count;
}

/* Searches that are open are few. With all of them taken, and all that they asked for out, another
 * key still opens one; the flood does not. */
static void a_key_without_a_search_has_a_place(void **state)
{
    struct rig rig;
    (void)state;
    rig_open(&rig, ":memory:", TOY);
    struct rig_worker *worker = rig_connect(&rig, "s1", "emu:sm_80", 0);
    for (int64_t i = 1; i <= 20; i++) {
        (void)job_as(&rig, "flood", i, 0, MANY);
    }
    rig_ready(&rig, worker, 1000);
    uint32_t out = worker->lease_count;
    int64_t more = job_as(&rig, "flood", 21, 0, ONE), job = job_as(&rig, "alone", 1, 0, ONE);
    rig_ready(&rig, worker, 1000);
    assert_true(out > 100); /* of many searches */
    assert_int_equal(held_of(worker, more), 0);
    assert_true(held_of(worker, job) > 0);
    assert_int_equal(worker->lease_count, out + held_of(worker, job));
    rig_close(&rig);
}

static void pass_minutes(struct rig *rig, struct rig_worker *worker, int minutes)
{
    for (int s = 0; s < 30 * minutes; s++) {
        rig_advance(rig, 2000);
        rig_send(rig, worker, GK_MSG_PING, 0, gk_json_new_object());
    }
}

/* A flood that waits does not become more urgent by its number: the waiting of a key is one. */
static void waiting_does_not_add_up(void **state)
{
    struct rig rig;
    (void)state;
    struct rig_worker *worker = open_flooded(&rig);
    for (int minutes = 0; minutes < 30; minutes++) { /* its first jobs are served all the time */
        (void)leases_of(&rig, worker, 0, 1);
        pass_minutes(&rig, worker, 1);
    }
    int64_t job = job_as(&rig, "alone", 1, 0, ONE);
    assert_in_range(leases_of(&rig, worker, job, 10), 4, 6);
    rig_close(&rig);
}

static int64_t urgency_of(struct rig *rig, int64_t job)
{
    assert_string_equal(rig_request(rig, "jobs", gk_json_new_object()), "OK");
    const struct gk_json *jobs = gk_json_get(rig->reply, "jobs");
    for (size_t i = 0; i < gk_json_count(jobs); i++) {
        if (gk_json_get_int(gk_json_at(jobs, i), "job", 0) == job) {
            return gk_json_get_int(gk_json_at(jobs, i), "effective_priority", INT64_MIN);
        }
    }
    fail_msg("job %d is not open", (int)job);
    return 0;
}

/* What waiting has added is spent by being served: a point a lease. */
static void waiting_is_spent(void **state)
{
    struct rig rig;
    (void)state;
    rig_open(&rig, ":memory:", TOY);
    rig.fails = never;
    struct rig_worker *worker = rig_connect(&rig, "s1", "emu:sm_80", 0);
    int64_t job = job_as(&rig, "one", 1, 0, MANY);
    pass_minutes(&rig, worker, 5);
    int64_t waited = urgency_of(&rig, job);
    assert_in_range(waited, 4, 5);
    assert_int_equal(leases_of(&rig, worker, job, 3), 3);
    assert_int_equal(urgency_of(&rig, job), waited - 3);
    rig_close(&rig);
}

/* Both have waited for as long, since no device was free: who has twenty jobs is not ahead. */
static void a_crowd_has_waited_once(void **state)
{
    struct rig rig;
    (void)state;
    struct rig_worker *worker = open_flooded(&rig);
    int64_t job = job_as(&rig, "alone", 1, 0, ONE);
    pass_minutes(&rig, worker, 10);
    assert_int_equal(leases_of(&rig, worker, job, 8), 4);
    rig_close(&rig);
}

/* Priorities stand above turns. */
static void urgent_work_comes_first(void **state)
{
    struct rig rig;
    (void)state;
    rig_open(&rig, ":memory:", TOY);
    rig.fails = never;
    struct rig_worker *worker = rig_connect(&rig, "s1", "emu:sm_80", 0);
    (void)job_as(&rig, "flood", 1, 0, MANY);
    int64_t job = job_as(&rig, "urgent", 1, 5, ONE);
    assert_int_equal(leases_of(&rig, worker, job, 6), 6);
    rig_close(&rig);
}

static void a_key_has_a_quota(void **state)
{
    struct rig rig;
    (void)state;
    rig_open(&rig, ":memory:", TOY);
    int64_t last = 0;
    for (int64_t i = 1; i <= 1000; i++) {
        last = job_as(&rig, "flood", i, i % 3, ONE);
    }
    assert_string_equal(submit_as(&rig, "flood", GK_ROLE_SUBMIT, 1001, 0, ONE), "LIMIT");
    assert_non_null(strstr(gk_json_get_string(rig.reply, "text", ""),
                           "key 'flood' has 1000 open jobs, and 1000 are the most"));
    assert_string_equal(submit_as(&rig, "flood", GK_ROLE_SUBMIT, 7, 1, ONE),
                        "OK"); /* job 7 again */
    assert_string_equal(submit_as(&rig, "alone", GK_ROLE_SUBMIT, 1, 0, ONE), "OK");
    assert_string_equal(submit_as(&rig, "flood", GK_ROLES_ALL, 1002, 0, ONE), "OK");
    rig_restart(&rig); /* what counts is what is open, not what was asked */
    assert_string_equal(submit_as(&rig, "flood", GK_ROLE_SUBMIT, 1003, 0, ONE), "LIMIT");
    for (int64_t job = last - 1; job <= last; job++) {
        struct gk_json *body = gk_json_new_object();
        assert_true(gk_json_set_int(body, "job", job));
        assert_string_equal(rig_request(&rig, "cancel", body), "OK");
    }
    assert_string_equal(submit_as(&rig, "flood", GK_ROLE_SUBMIT, 1004, 0, ONE), "OK");
    rig_close(&rig);
}

/* What stands in listings, and who is first: a submitter's word has bounds, or one of them makes
 * `jobs` longer than a message, or is ahead of all others for ever. */
static void a_submission_has_bounds(void **state)
{
    static const struct {
        const char *member, *value, *status;
    } rows[] = {
        {"priority", "101", "INPUT"},   {"priority", "-101", "INPUT"},
        {"priority", "\"x\"", "INPUT"}, {"priority", "4611686018427387904", "INPUT"},
        {"seed", "-1", "INPUT"},        {"seed", "1.5", "INPUT"},
        {"submit_id", "\"\"", "INPUT"}, {"what", "7", "INPUT"},
        {"priority", "-100", "OK"},     {"priority", "100", "OK"},
    };
    static char path[1100];
    struct rig rig;
    (void)state;
    rig_open(&rig, ":memory:", TOY);
    for (size_t i = 0; i <= GK_ARRAY_COUNT(rows); i++) {
        struct gk_json *value = NULL, *body = NULL;
        char id[32];
        (void)snprintf(id, sizeof id, "bounds-%zu", i);
        body = rig_submit_body(&rig, id, "emu-sm_80", 12, ONE);
        if (i == GK_ARRAY_COUNT(rows)) {
            memset(path, 'x', 1025);
            assert_true(gk_json_set_string(body, "what", path));
            assert_string_equal(rig_request(&rig, "submit", body), "LIMIT");
            continue;
        }
        assert_int_equal(gk_json_parse(rows[i].value, strlen(rows[i].value), "value", &value, NULL),
                         GK_OK);
        assert_true(gk_json_set(body, rows[i].member, value));
        const char *got = rig_request(&rig, "submit", body);
        if (strcmp(got, rows[i].status) != 0) {
            fail_msg("%s %s: %s", rows[i].member, rows[i].value, got);
        }
        if (strcmp(got, "OK") != 0) {
            assert_non_null(strstr(gk_json_get_string(rig.reply, "text", ""), rows[i].member));
        }
    }
    assert_int_equal(gk_core_counters(rig.core).open_jobs, 1); /* the second goes on with it */
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_flood_leaves_every_second_turn),
        cmocka_unit_test(a_key_without_a_search_has_a_place),
        cmocka_unit_test(waiting_does_not_add_up),
        cmocka_unit_test(waiting_is_spent),
        cmocka_unit_test(a_crowd_has_waited_once),
        cmocka_unit_test(urgent_work_comes_first),
        cmocka_unit_test(a_key_has_a_quota),
        cmocka_unit_test(a_submission_has_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
