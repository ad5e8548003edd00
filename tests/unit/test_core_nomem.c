/*
 * Memory runs out in the daemon's core: the n-th allocation of a message and its tick fails, for
 * n = 1, 2, .. until all get through. The call says so or does without; then, as the shell does,
 * the transaction is rolled back and a core is made anew, and nothing is half there.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/check.h"
#include "tests/support/fail_alloc.h"
#include "tests/unit/daemon_rig.h"

static const char *const ONE[] = {"scale{\"N\":4096}", NULL};

/* Jobs that came through nevertheless: with each one a tick would allocate more. */
static void cancel_open(struct rig *rig)
{
    struct gk_json *rows = NULL;
    struct gk_err err = {0};
    assert_ok(gk_db_jobs_open(rig->db, &rows, &err), err);
    for (size_t i = 0; i < gk_json_count(rows); i++) {
        struct gk_json *body = gk_json_new_object();
        assert_true(gk_json_set_int(body, "job", gk_json_get_int(gk_json_at(rows, i), "job", 0)));
        assert_string_equal(rig_request(rig, "cancel", body), "OK");
    }
    gk_json_free(rows);
}

/* One request and its tick with the n-th allocation failing. True: none failed. */
static bool attempt(struct rig *rig, const char *verb, struct gk_json *body, int64_t n)
{
    struct gk_err err = {0};
    struct gk_peer peer;
    struct gk_message out;
    uint64_t next = 0;
    assert_true(gk_json_set_string(body, "verb", verb));
    struct gk_message message = {.type = GK_MSG_REQUEST, .seq = ++rig->seq, .body = body};
    has_failed = false;
    calls_left = n;
    enum gk_status status =
        gk_core_message(rig->core, &rig->client, &message, rig->now_ns, rig->wall_ms, &err);
    if (status == GK_OK) {
        status = gk_core_tick(rig->core, rig->now_ns, rig->wall_ms, &next, &err);
    }
    calls_left = -1;
    if (status == GK_OK) {
        status = gk_db_commit(rig->db, &err);
    }
    while (gk_core_take(rig->core, &peer, &out)) {
        gk_message_fini(&out);
    }
    gk_message_fini(&message);
    assert_true(status == GK_OK || has_failed);
    if (has_failed) {
        rig_restart(rig);
        cancel_open(rig);
        return false;
    }
    return true;
}

static void memory_runs_out_in_the_core(void **state)
{
    static struct rig rig; /* large */
    struct gk_err err = {0};
    struct gk_json *report = NULL;
    char id[32];
    int64_t n = 0;
    (void)state;
    rig_open(&rig, ":memory:", "tests/data/kernels/toy");
    for (bool through = false; !through; n++) {
        (void)snprintf(id, sizeof id, "submit-%lld", (long long)n);
        struct gk_json *body = rig_submit_body(&rig, id, "emu-sm_80", 4, ONE);
        assert_true(gk_json_set_bool(body, "fresh", true));
        through = attempt(&rig, "submit", body, n);
        assert_true(n < 20000);
    }
    assert_true(n > 20);
    cancel_open(&rig);
    /* And it works: what is there is done, with a worker that leases, answers and is judged. */
    (void)rig_connect(&rig, "s1", "emu:sm_80", 4);
    int64_t job = rig_submit(&rig, "last", "emu-sm_80", 4, ONE);
    (void)rig_work(&rig, 20000);
    assert_string_equal(rig_job_state(&rig, job), "done");
    static const char *const verbs[] = {"status", "jobs",        "show",   "trials",
                                        "best",   "export_data", "workers"};
    for (size_t v = 0; v < GK_ARRAY_COUNT(verbs); v++) {
        bool through = false;
        for (n = 0; !through; n++) {
            struct gk_json *body = gk_json_new_object();
            assert_true(gk_json_set_int(body, "job", job));
            through = attempt(&rig, verbs[v], body, n);
            assert_true(n < 20000);
        }
    }
    assert_string_equal(rig_job_state(&rig, job), "done");
    assert_ok(gk_db_check(rig.db, &report, &err), err);
    if (!gk_json_get_bool(report, "ok", false)) {
        fail_msg("%s", gk_json_string(gk_json_at(gk_json_get(report, "problems"), 0), ""));
    }
    gk_json_free(report);
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(memory_runs_out_in_the_core)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
