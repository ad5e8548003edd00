/* The daemon's core with several GPUs of one key: where rounds run, what a config's spread is. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/daemon_rig.h"

static const char *const ONE[] = {"scale{\"N\":4096}", NULL};
static const char *const TWO[] = {"scale{\"N\":4096}", "scale{\"N\":8192}", NULL};
static const char TOY[] = "tests/data/kernels/toy";

static bool never(const char *config)
{
    (void)config;
    return false;
}

static double times(const char *config)
{
    struct gk_hash hash = gk_hash_text(config);
    return 10000 + hash.bytes[3] * 40;
}

/* `count` GPUs, each the only one of a worker: as fast as they are given. */
static void open_rig(struct rig *rig, const double *skews, uint32_t count)
{
    static const char *const spools[] = {"s1", "s2", "s3"}, *const devices[] = {"cuda:0", "cuda:1",
                                                                                "cuda:2"};
    rig_open(rig, ":memory:", TOY);
    rig->fails = never;
    rig->measured.time_of = times;
    for (uint32_t i = 0; i < count; i++) {
        rig_connect(rig, spools[i], devices[i], 4)->skew = skews[i];
    }
}

static int64_t submit(struct rig *rig, const char *id, const char *const *problems)
{
    struct gk_json *body = rig_submit_body(rig, id, "sm_90a", 12, problems);
    assert_true(gk_json_set_bool(body, "spread", true) && gk_json_set_bool(body, "fresh", true));
    assert_string_equal(rig_request(rig, "submit", body), "OK");
    return gk_json_get_int(rig->reply, "job", 0);
}

static const struct gk_json *spreads(struct rig *rig, size_t count)
{
    assert_string_equal(rig_request(rig, "spread", NULL), "OK");
    const struct gk_json *rows = gk_json_get(rig->reply, "spreads");
    assert_int_equal(gk_json_count(rows), count);
    return rows;
}

static const struct gk_json *row_of(const struct gk_json *rows, const char *device)
{
    for (size_t i = 0; i < gk_json_count(rows); i++) {
        if (strcmp(gk_json_get_string(gk_json_at(rows, i), "device_key", ""), device) == 0) {
            return gk_json_at(rows, i);
        }
    }
    fail_msg("no row of %s", device);
    return NULL;
}

static const struct gk_json *verdict_of(struct rig *rig, int64_t job)
{
    (void)rig_job_state(rig, job);
    return gk_json_get(gk_json_at(gk_json_get(rig->reply, "tasks"), 0), "verdict");
}

static const char *state_of(struct rig *rig, int64_t job)
{
    (void)rig_job_state(rig, job);
    return gk_json_get_string(gk_json_at(gk_json_get(rig->reply, "tasks"), 0), "state", "");
}

static bool is_near(double value, double wanted)
{
    return fabs(value - wanted) < 1e-6;
}

/* All answers but those of leases of kind final; false when nothing moves any more. */
static void search(struct rig *rig)
{
    for (bool moved = true; moved;) {
        moved = false;
        for (uint32_t w = 0; w < rig->worker_count; w++) {
            struct rig_worker *worker = &rig->workers[w];
            if (worker->session != 0 && worker->credit < 2) {
                rig_ready(rig, worker, 4);
            }
            for (uint32_t i = 0; i < worker->lease_count; i++) {
                if (strcmp(gk_json_get_string(worker->leases[i], "kind", ""), "final") != 0) {
                    moved = rig_answer(rig, worker, i);
                    break;
                }
            }
        }
    }
}

static uint32_t finals_at(const struct rig_worker *worker)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < worker->lease_count; i++) {
        count += strcmp(gk_json_get_string(worker->leases[i], "kind", ""), "final") == 0;
    }
    return count;
}

static void answer_all(struct rig *rig, struct rig_worker *worker)
{
    while (worker->lease_count > 0 && !rig_answer(rig, worker, 0)) {
    }
}

/* Every GPU of the key runs the winner, that of the round too; what they part by is a floor under
 * the noise of the next round, and of that op alone. */
static void the_winner_goes_round(void **state)
{
    static const double skews[] = {1.0, 1.03, 0.99};
    struct rig rig;
    (void)state;
    open_rig(&rig, skews, 3);
    rig.written = gk_json_new_array();
    int64_t first = submit(&rig, "a", TWO);
    (void)rig_work(&rig, 5000);
    assert_string_equal(rig_job_state(&rig, first), "done");
    const struct gk_json *rows = spreads(&rig, 6);
    double fastest = gk_json_get_real(row_of(rows, "GPU-cuda:2"), "time_ns", 0);
    assert_true(fastest > 0);
    assert_true(
        is_near(gk_json_get_real(row_of(rows, "GPU-cuda:1"), "time_ns", 0) / fastest, 1.03 / 0.99));
    for (size_t i = 0; i < 6; i++) {
        const struct gk_json *row = gk_json_at(rows, i), *one = gk_json_at(rows, i / 3 * 3);
        assert_string_equal(gk_json_get_string(row, "config", "?"),
                            gk_json_get_string(one, "config", ""));
        assert_int_equal(gk_json_get_int(row, "task", -1), gk_json_get_int(one, "task", 0));
        assert_int_equal(gk_json_get_int(row, "passes", 0), 4);
        assert_string_equal(gk_json_get_string(row, "regime", ""), "burst");
    }
    assert_null(gk_json_get(verdict_of(&rig, first), "spread")); /* it was judged before */
    int64_t second = submit(&rig, "b", ONE);
    (void)rig_work(&rig, 5000);
    const struct gk_json *verdict = verdict_of(&rig, second);
    double half = (1.03 - 0.99) / (1.03 + 0.99);
    assert_true(is_near(gk_json_get_real(verdict, "spread", 0), half));
    assert_true(is_near(gk_json_get_real(verdict, "noise_floor", 0), half));
    assert_true(is_near(gk_json_get_real(verdict, "margin", 0), half));
    (void)spreads(&rig, 9);
    struct gk_json *other = gk_json_new_object();
    assert_true(gk_json_set_string(other, "op", "gemm"));
    assert_string_equal(rig_request(&rig, "spread", other), "OK");
    assert_int_equal(gk_json_count(gk_json_get(rig.reply, "spreads")), 0);
    rig_write(&rig, "test_spread.jsonl");
    rig_close(&rig);
}

/* A GPU that is ill does not make everything a tie. */
static void the_floor_has_an_end(void **state)
{
    static const double skews[] = {1.0, 1.6};
    struct rig rig;
    (void)state;
    open_rig(&rig, skews, 2);
    (void)submit(&rig, "a", ONE);
    (void)rig_work(&rig, 5000);
    int64_t second = submit(&rig, "b", ONE);
    (void)rig_work(&rig, 5000);
    assert_true(is_near(gk_json_get_real(verdict_of(&rig, second), "spread", 0), 0.05));
    rig_close(&rig);
}

/* One round, one GPU; the other one takes no part in it and no share of it. */
static void rounds_stay_on_one_gpu(void **state)
{
    static const double skews[] = {1.0, 1.0};
    struct rig rig;
    (void)state;
    open_rig(&rig, skews, 2);
    int64_t job = rig_submit(&rig, "a", "sm_90a", 12, TWO);
    search(&rig);
    struct rig_worker *a = &rig.workers[0], *b = &rig.workers[1];
    assert_true(a->granted > 4 && b->granted > 4); /* both searched */
    assert_int_equal(finals_at(a), 1);
    assert_int_equal(finals_at(b), 1);
    assert_int_not_equal(gk_json_get_int(a->leases[0], "task", 0),
                         gk_json_get_int(b->leases[0], "task", 0));
    while (a->lease_count > 0) {
        (void)rig_answer(&rig, a, 0);
        assert_int_equal(finals_at(a) + finals_at(b), 1 + a->lease_count);
    }
    assert_int_equal(finals_at(b), 1); /* not begun, and still its own */
    answer_all(&rig, b);
    assert_string_equal(rig_job_state(&rig, job), "done");
    (void)spreads(&rig, 0); /* nobody asked for it */
    rig_close(&rig);
}

/* Each would take more than there are: nobody has them all, also not of those that come later. */
static void few_leases_are_shared_out(void **state)
{
    static const double skews[] = {1.0, 1.0, 1.0};
    struct rig rig;
    (void)state;
    open_rig(&rig, skews, 3);
    for (uint32_t w = 0; w < 3; w++) {
        rig_ready(&rig, &rig.workers[w], 100);
    }
    int64_t job = rig_submit(&rig, "a", "sm_90a", 40, ONE);
    for (int answers = 0; answers < 20; answers++) {
        uint32_t most = 0, fewest = UINT32_MAX, all = 0;
        for (uint32_t w = 0; w < 3; w++) {
            uint32_t count = rig.workers[w].lease_count;
            most = count > most ? count : most;
            fewest = count < fewest ? count : fewest;
            all += count;
        }
        if ((fewest == 0 && all > 5) || most - fewest > 3) {
            fail_msg("%d answers: %u leases, %u and %u", answers, all, most, fewest);
        }
        if (rig.workers[answers % 3].lease_count > 0) {
            (void)rig_answer(&rig, &rig.workers[answers % 3], 0);
        }
    }
    while (rig_work(&rig, 5000) > 0) {
    }
    assert_string_equal(rig_job_state(&rig, job), "done");
    rig_close(&rig);
}

static uint32_t of_task(const struct rig_worker *worker, int64_t task)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < worker->lease_count; i++) {
        count += gk_json_get_int(worker->leases[i], "task", 0) == task;
    }
    return count;
}

/* Two problems, two GPUs: each lays out one of them. Where its own has nothing, it helps. */
static void gpus_keep_to_their_problems(void **state)
{
    static const double skews[] = {1.0, 1.0};
    struct rig rig;
    (void)state;
    open_rig(&rig, skews, 2);
    int64_t job = rig_submit(&rig, "a", "sm_90a", 40, TWO);
    struct rig_worker *a = &rig.workers[0], *b = &rig.workers[1];
    assert_int_equal(a->lease_count, 4); /* of 32 that there are */
    assert_int_equal(b->lease_count, 4);
    int64_t own = gk_json_get_int(a->leases[0], "task", 0),
            other = gk_json_get_int(b->leases[0], "task", 0);
    assert_int_not_equal(own, other);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(of_task(a, own), a->lease_count);
        assert_int_equal(of_task(b, other), b->lease_count);
        (void)rig_answer(&rig, a, 0);
        (void)rig_answer(&rig, b, 0);
        rig_ready(&rig, a, 1);
        rig_ready(&rig, b, 1);
    }
    rig_ready(&rig, b, 0);
    while (of_task(a, other) == 0) { /* its own waits for its batch, or has ended */
        assert_true(a->lease_count > 0);
        (void)rig_answer(&rig, a, 0);
        rig_ready(&rig, a, 40);
    }
    while (rig_work(&rig, 5000) > 0) {
    }
    assert_string_equal(rig_job_state(&rig, job), "done");
    rig_close(&rig);
}

/* One GPU has no spread, and nothing waits for a second. */
static void one_gpu_has_none(void **state)
{
    static const double skews[] = {1.0};
    struct rig rig;
    (void)state;
    open_rig(&rig, skews, 1);
    int64_t job = submit(&rig, "a", ONE);
    (void)rig_work(&rig, 5000);
    assert_string_equal(rig_job_state(&rig, job), "done");
    (void)spreads(&rig, 0);
    rig_close(&rig);
}

static void work_to_spread(struct rig *rig, int64_t job)
{
    search(rig);
    for (uint32_t w = 0; w < rig->worker_count; w++) {
        struct rig_worker *worker = &rig->workers[w];
        while (worker->lease_count > 0 && strcmp(state_of(rig, job), "final") == 0) {
            (void)rig_answer(rig, worker, 0);
        }
    }
    assert_string_equal(state_of(rig, job), "spread");
}

/* A GPU that goes away during it leaves a reason, and the job ends with the others. */
static void a_lost_gpu_holds_nobody_up(void **state)
{
    static const double skews[] = {1.0, 1.0, 1.01};
    struct rig rig;
    (void)state;
    open_rig(&rig, skews, 3);
    int64_t job = submit(&rig, "a", ONE);
    work_to_spread(&rig, job);
    struct rig_worker *gone = &rig.workers[1];
    assert_int_equal(finals_at(gone), 1);
    answer_all(&rig, &rig.workers[0]);
    answer_all(&rig, &rig.workers[2]);
    assert_string_equal(state_of(&rig, job), "spread");
    struct gk_json *bye = gk_json_new_object();
    assert_true(gk_json_set_string(bye, "reason", "killed"));
    rig_send(&rig, gone, GK_MSG_BYE, 0, bye);
    rig_advance(&rig, 1000);
    assert_string_equal(rig_job_state(&rig, job), "done");
    const struct gk_json *row = row_of(spreads(&rig, 3), "GPU-cuda:1");
    assert_null(gk_json_get(row, "time_ns"));
    assert_true(strlen(gk_json_get_string(row, "reason", "")) > 0);
    rig_close(&rig);
}

/* The daemon stops in the middle, whichever GPU was first: what is out is kept, no GPU gets the
 * config twice. */
static void it_outlives_a_restart(void **state)
{
    static const double skews[] = {1.0, 1.02};
    struct rig rig;
    (void)state;
    for (uint32_t first = 0; first < 2; first++) {
        open_rig(&rig, skews, 2);
        int64_t job = submit(&rig, "a", ONE);
        work_to_spread(&rig, job);
        answer_all(&rig, &rig.workers[first]);
        assert_int_equal(finals_at(&rig.workers[!first]), 1);
        uint64_t granted = rig.workers[0].granted + rig.workers[1].granted;
        rig_restart(&rig);
        for (uint32_t w = 0; w < 2; w++) {
            rig_hello(&rig, &rig.workers[w]);
            rig_ready(&rig, &rig.workers[w], 4);
        }
        assert_string_equal(state_of(&rig, job), "spread");
        answer_all(&rig, &rig.workers[!first]);
        assert_string_equal(rig_job_state(&rig, job), "done");
        assert_int_equal(rig.workers[0].granted + rig.workers[1].granted, granted);
        (void)spreads(&rig, 2);
        rig_close(&rig);
    }
}

static void live(struct rig *rig, struct rig_worker *busy, int seconds)
{
    for (int i = 0; i < seconds; i++) {
        for (uint32_t w = 0; w < rig->worker_count; w++) {
            rig_ready(rig, &rig->workers[w], &rig->workers[w] == busy ? 0 : 4);
        }
        rig_advance(rig, 1000);
    }
}

/* Whoever wants an end gets it; nobody waits for a GPU that is busy for ever. */
static void it_ends_when_asked_or_late(void **state)
{
    static const double skews[] = {1.0, 1.0};
    struct rig rig;
    (void)state;
    for (int late = 0; late < 2; late++) {
        open_rig(&rig, skews, 2);
        int64_t job = submit(&rig, "a", ONE);
        search(&rig);
        struct rig_worker *free_ = &rig.workers[finals_at(&rig.workers[1])],
                          *busy = &rig.workers[!finals_at(&rig.workers[1])];
        rig_ready(&rig, busy, 0);
        answer_all(&rig, free_); /* the round */
        assert_string_equal(state_of(&rig, job), "spread");
        answer_all(&rig, free_);
        live(&rig, busy, 100);
        assert_string_equal(state_of(&rig, job), "spread");
        assert_int_equal(free_->lease_count + busy->lease_count, 0);
        if (late == 0) {
            struct gk_json *body = gk_json_new_object();
            assert_true(gk_json_set_int(body, "job", job));
            assert_string_equal(rig_request(&rig, "finish", body), "OK");
        }
        live(&rig, busy, late ? 21 : 1);
        assert_string_equal(rig_job_state(&rig, job), "done");
        (void)spreads(&rig, 1);
        rig_close(&rig);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_winner_goes_round),      cmocka_unit_test(the_floor_has_an_end),
        cmocka_unit_test(few_leases_are_shared_out),  cmocka_unit_test(gpus_keep_to_their_problems),
        cmocka_unit_test(rounds_stay_on_one_gpu),     cmocka_unit_test(one_gpu_has_none),
        cmocka_unit_test(a_lost_gpu_holds_nobody_up), cmocka_unit_test(it_outlives_a_restart),
        cmocka_unit_test(it_ends_when_asked_or_late),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
