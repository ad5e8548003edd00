/* What the core does while the disk is low or full, and the notices it leaves for the log. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/check.h"
#include "tests/unit/daemon_rig.h"

#define TOY "tests/data/kernels/toy"

static const char *const ONE[] = {"scale{\"N\":4096}", NULL};

/* Takes all notices; how many of the event there were, the last of them in *last_out. */
static uint32_t notices(struct rig *rig, enum gk_event event, struct gk_notice *last_out)
{
    struct gk_notice notice;
    uint32_t count = 0;
    while (gk_core_take_notice(rig->core, &notice)) {
        if (notice.event == event) {
            count++;
            *last_out = notice;
        }
    }
    return count;
}

/* Below the low mark nothing new goes out; what is out may still be stored. */
static void test_low(void **state)
{
    struct rig rig;
    (void)state;
    rig_open(&rig, ":memory:", TOY);
    struct rig_worker *worker = rig_connect(&rig, "s1", "emu:sm_80", 2);
    int64_t job = rig_submit(&rig, "a", "emu-sm_80", 8, ONE);
    rig_pump(&rig);
    assert_int_equal(worker->lease_count, 2);
    gk_core_set_disk(rig.core, GK_CORE_DISK_LOW, 1000, 100000);
    assert_string_equal(
        rig_request(&rig, "submit", rig_submit_body(&rig, "b", "emu-sm_80", 9, ONE)), "LIMIT");
    assert_string_equal(rig_request(&rig, "status", NULL), "OK");
    assert_string_equal(gk_json_get_string(rig.reply, "state", ""), "low");
    uint64_t granted = worker->granted;
    while (worker->lease_count > 0) {
        assert_true(rig_answer(&rig, worker, 0));
    }
    rig_ready(&rig, worker, 2);
    rig_pump(&rig);
    assert_int_equal(worker->acks_stored, 2);
    assert_int_equal(worker->granted, granted);
    gk_core_set_disk(rig.core, GK_CORE_DISK_OK, 1000000, 100000);
    rig_pump(&rig);
    assert_true(worker->granted > granted);
    (void)rig_work(&rig, 1000);
    assert_string_equal(rig_job_state(&rig, job), "done");
    rig_close(&rig);
}

/* A full disk: reads are answered, nothing is written, nothing expires, workers are told when to
 * come back; afterwards what they kept is taken. */
static void test_full(void **state)
{
    struct rig rig;
    struct gk_notice last = {0};
    (void)state;
    rig_open(&rig, ":memory:", TOY);
    struct rig_worker *worker = rig_connect(&rig, "s1", "emu:sm_80", 2);
    int64_t job = rig_submit(&rig, "a", "emu-sm_80", 8, ONE);
    rig_pump(&rig);
    assert_int_equal(worker->lease_count, 2);
    gk_core_set_disk(rig.core, GK_CORE_DISK_FULL, 0, 100000);
    assert_false(gk_db_is_dirty(rig.db));
    assert_string_equal(rig_request(&rig, "jobs", NULL), "OK");
    assert_string_equal(rig_request(&rig, "status", NULL), "OK");
    assert_string_equal(gk_json_get_string(rig.reply, "state", ""), "full");
    static const char *const changes[] = {"submit", "cancel", "pause",
                                          "finish", "retry",  "blob_put"};
    for (size_t i = 0; i < GK_ARRAY_COUNT(changes); i++) {
        assert_string_equal(rig_request(&rig, changes[i], NULL), "FULL");
        assert_contains(gk_json_get_string(rig.reply, "text", ""), "full");
    }
    uint64_t errors = worker->errors;
    rig_send(&rig, worker, GK_MSG_READY, 0, gk_json_new_object());
    rig_pump(&rig);
    assert_true(worker->errors > errors); /* STALE: it says HELLO, and is refused for a while */
    (void)notices(&rig, GK_EVENT_START, &last);
    rig_hello(&rig, worker);
    rig_pump(&rig);
    assert_int_equal(notices(&rig, GK_EVENT_WORKER_REJECTED, &last), 1);
    assert_string_equal(last.name, "FULL");
    rig_advance(&rig, 3600000);
    rig_pump(&rig);
    assert_false(gk_db_is_dirty(rig.db));
    assert_int_equal(gk_core_counters(rig.core).held_leases, 2); /* nothing has expired */
    assert_int_equal(gk_core_counters(rig.core).refusals[4], GK_ARRAY_COUNT(changes));
    /* There is room: a new core over the same store, as the shell makes one. */
    rig_restart(&rig);
    rig_hello(&rig, worker);
    rig_pump(&rig);
    assert_int_equal(worker->kept, 2);
    rig_ready(&rig, worker, 2);
    (void)rig_work(&rig, 1000);
    assert_string_equal(rig_job_state(&rig, job), "done");
    rig_close(&rig);
}

/* An unlucky worker, as the log tells of it. */
static void test_notices(void **state)
{
    struct rig rig;
    struct gk_notice last = {0};
    (void)state;
    rig_open(&rig, ":memory:", TOY);
    struct rig_worker *worker = rig_connect(&rig, "s1", "emu:sm_80", 2);
    rig_pump(&rig);
    assert_int_equal(notices(&rig, GK_EVENT_WORKER_CAME, &last), 1);
    assert_int_equal(last.count, 1);
    int64_t id = last.worker;
    assert_true(id > 0);
    int64_t job = rig_submit(&rig, "a", "emu-sm_80", 8, ONE);
    rig_pump(&rig);
    assert_int_equal(notices(&rig, GK_EVENT_REQUEST, &last), 1);
    assert_string_equal(last.name, "submit");
    assert_int_equal(last.job, job);
    struct gk_json *body = gk_json_new_object();
    assert_true(gk_json_set_bool(body, "on", true) &&
                gk_json_set_string(body, "reason", "new racks"));
    assert_string_equal(rig_request(&rig, "drain", body), "OK");
    assert_int_equal(notices(&rig, GK_EVENT_DRAIN, &last), 1);
    assert_string_equal(last.text, "begun: new racks");
    assert_string_equal(rig_request(&rig, "workers", NULL), "OK"); /* a look is not told */
    assert_int_equal(notices(&rig, GK_EVENT_REQUEST, &last), 0);
    rig_started(&rig, worker, (int64_t)gk_json_get_int(worker->leases[0], "token", 0));
    rig_pump(&rig);
    rig_advance(&rig, 30000);
    rig_pump(&rig);
    assert_int_equal(notices(&rig, GK_EVENT_WORKER_LOST, &last), 1);
    assert_int_equal(last.worker, id);
    assert_int_equal(last.count, 2);
    assert_contains(last.text, "no word");
    rig_advance(&rig, 30000);
    rig_pump(&rig);
    assert_int_equal(notices(&rig, GK_EVENT_LEASE_LOST, &last), 2);
    assert_int_equal(last.job, job);
    assert_int_equal(last.worker, id);
    struct gk_core_counters counters = gk_core_counters(rig.core);
    assert_int_equal(counters.workers_lost, 1);
    assert_int_equal(counters.expired, 2);
    assert_int_equal(counters.expired_silent, 2);
    assert_true(counters.oldest_ready_s[GK_PRIORITY_NORMAL] < 1); /* since the loss */
    rig_advance(&rig, 7000);
    rig_pump(&rig);
    assert_true(gk_core_counters(rig.core).oldest_ready_s[GK_PRIORITY_NORMAL] >= 7);
    rig_close(&rig);
}

/* More at once than is told of: counted, and the ring goes on. */
static void test_bounded(void **state)
{
    struct rig rig;
    struct gk_notice last = {0};
    struct gk_err why = {.status = GK_PROTOCOL, .text = "rubbish"};
    (void)state;
    rig_open(&rig, ":memory:", TOY);
    (void)notices(&rig, GK_EVENT_MALFORMED, &last);
    for (int i = 0; i < 1000; i++) {
        (void)gk_core_malformed(rig.core, &rig.client, &why, rig.now_ns, NULL);
    }
    assert_true(gk_core_counters(rig.core).notices_lost >= 1000 - GK_CORE_NOTICES);
    assert_int_equal(gk_core_counters(rig.core).malformed, 1000);
    assert_true(notices(&rig, GK_EVENT_MALFORMED, &last) <= GK_CORE_NOTICES);
    assert_string_equal(last.text, "rubbish");
    (void)gk_core_malformed(rig.core, &rig.client, &why, rig.now_ns, NULL);
    assert_int_equal(notices(&rig, GK_EVENT_MALFORMED, &last), 1);
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_low), cmocka_unit_test(test_full),
                                       cmocka_unit_test(test_notices),
                                       cmocka_unit_test(test_bounded)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
