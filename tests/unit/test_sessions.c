/* Who a worker is, and what happens to one that is not who it says or does not behave. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/daemon_rig.h"

static const char *const ONE[] = {"scale{\"N\":4096}", NULL};
static const char TOY[] = "tests/data/kernels/toy";

static bool never(const char *config)
{
    (void)config;
    return false;
}

/* A worker that is about to say HELLO over tcp. */
static struct rig_worker *stranger(struct rig *rig, const char *spool, const char *key,
                                   const char *address)
{
    struct rig_worker *worker = &rig->workers[rig->worker_count++];
    *worker = (struct rig_worker){
        .spool = spool, .device = "emu:sm_80", .peer = {.size = 1, .roles = GK_ROLE_WORK}};
    worker->peer.bytes[0] = (unsigned char)('0' + rig->worker_count);
    (void)snprintf(worker->peer.key, sizeof worker->peer.key, "%s", key);
    (void)snprintf(worker->peer.host, sizeof worker->peer.host, "%s", address);
    return worker;
}

static void test_single_key(void **state)
{
    struct rig rig;
    (void)state;
    rig_open(&rig, ":memory:", TOY);
    struct rig_worker *first = stranger(&rig, "s1", "k", "10.0.0.1");
    first->host = "one";
    rig_hello(&rig, first);
    assert_true(first->session != 0);
    /* A second worker of that host is fine: one a GPU. */
    struct rig_worker *beside = stranger(&rig, "s2", "k", "10.0.0.1");
    beside->host = "one";
    rig_hello(&rig, beside);
    assert_true(beside->session != 0);
    /* Another host with the same key is not, whichever of the three gives it away. */
    struct rig_worker *second = stranger(&rig, "s3", "k", "10.0.0.2");
    second->host = "one";
    rig_hello(&rig, second);
    assert_int_equal(second->session, 0);
    assert_int_equal(second->rejects, 1);
    assert_true(second->retry_after_ms > 6000); /* longer than the first one may be silent */
    (void)snprintf(second->peer.host, sizeof second->peer.host, "10.0.0.1");
    second->host = "two";
    rig_hello(&rig, second);
    assert_int_equal(second->session, 0);
    second->host = "one";
    second->boot = "other";
    rig_hello(&rig, second);
    assert_int_equal(second->session, 0);
    /* Nobody is cut off for ever: once the first ones are gone it may come. */
    rig_advance(&rig, 7000);
    rig_hello(&rig, second);
    assert_true(second->session != 0);
    rig_close(&rig);
}

static void test_pool_key(void **state)
{
    struct rig rig;
    (void)state;
    rig_open(&rig, ":memory:", TOY);
    for (int i = 0; i < 3; i++) {
        static const char *const spools[] = {"s1", "s2", "s3"}, *const hosts[] = {"10.0.0.1",
                                                                                  "10.0.0.2",
                                                                                  "10.0.0.3"};
        struct rig_worker *worker = stranger(&rig, spools[i], "pool", hosts[i]);
        worker->host = hosts[i];
        worker->peer.is_pool = true;
        rig_hello(&rig, worker);
        assert_true(worker->session != 0);
    }
    rig_close(&rig);
}

/* It comes back with another address, as after a change of networks, before it was missed. */
static void test_same_worker_moves(void **state)
{
    struct rig rig;
    (void)state;
    rig_open(&rig, ":memory:", TOY);
    struct rig_worker *worker = stranger(&rig, "s1", "k", "10.0.0.1");
    rig_hello(&rig, worker);
    uint64_t session = worker->session;
    assert_true(session != 0);
    (void)snprintf(worker->peer.host, sizeof worker->peer.host, "10.0.0.9");
    worker->peer.bytes[0] = 'z';
    rig_hello(&rig, worker);
    assert_int_equal(worker->rejects, 0);
    assert_int_equal(gk_core_counters(rig.core).sessions, 1);
    rig_close(&rig);
}

/* Whoever learns the id of a spool cannot take over its leases with another key. */
static void test_spool_of_another_key(void **state)
{
    struct rig rig;
    (void)state;
    rig_open(&rig, ":memory:", TOY);
    struct rig_worker *owner = stranger(&rig, "s1", "owner", "10.0.0.1");
    rig_hello(&rig, owner);
    rig_ready(&rig, owner, 2);
    (void)rig_submit(&rig, "a", "emu-sm_80", 8, ONE);
    assert_int_equal(owner->lease_count, 2);
    struct rig_worker *thief = stranger(&rig, "s1", "thief", "10.0.0.1");
    rig_hello(&rig, thief);
    assert_int_equal(thief->session, 0);
    assert_int_equal(thief->rejects, 1);
    assert_int_equal(thief->retry_after_ms, 0);
    assert_int_equal(gk_core_counters(rig.core).sessions, 1);
    assert_int_equal(gk_core_counters(rig.core).held_leases, 2);
    (void)rig_work(&rig, 1000);
    assert_true(owner->acks_stored > 0);
    rig_close(&rig);
}

/* Two would time each other's kernels. The lock beside the GPU does not reach over the border of a
 * namespace, so the daemon looks as well. */
static void test_one_worker_a_gpu(void **state)
{
    struct rig rig;
    (void)state;
    rig_open(&rig, ":memory:", TOY);
    struct rig_worker *first = stranger(&rig, "s1", "k", "10.0.0.1"),
                      *second = stranger(&rig, "s2", "k", "10.0.0.1"),
                      *beside = stranger(&rig, "s3", "k", "10.0.0.1");
    first->device = second->device = "cuda:0";
    beside->device = "cuda:1";
    rig_hello(&rig, first);
    assert_true(first->session != 0);
    uint64_t session = first->session;
    rig_hello(&rig, second);
    assert_int_equal(second->session, 0);
    assert_int_equal(second->rejects, 1);
    assert_true(second->retry_after_ms > 6000); /* longer than the first one may be silent */
    assert_int_equal(gk_core_counters(rig.core).suspended, 0);
    rig_hello(&rig, beside); /* another GPU of that host */
    assert_true(beside->session != 0);
    /* The first one comes back over another connection, before it was missed. */
    first->peer.bytes[0] = 'z';
    rig_hello(&rig, first);
    assert_int_equal(first->rejects, 0);
    assert_true(first->session != session);
    assert_int_equal(gk_core_counters(rig.core).sessions, 2);
    /* Nobody is kept out for ever. */
    rig_advance(&rig, 7000);
    rig_hello(&rig, second);
    assert_true(second->session != 0);
    rig_close(&rig);
}

/* Devices that are programs have no UUID: as many as there are workers. */
static void test_emulated_devices_are_many(void **state)
{
    struct rig rig;
    (void)state;
    rig_open(&rig, ":memory:", TOY);
    struct rig_worker *first = stranger(&rig, "s1", "k", "10.0.0.1"),
                      *second = stranger(&rig, "s2", "k", "10.0.0.1");
    rig_hello(&rig, first);
    rig_hello(&rig, second);
    assert_true(first->session != 0 && second->session != 0);
    rig_close(&rig);
}

static void test_versions(void **state)
{
    struct rig rig;
    (void)state;
    rig_open(&rig, ":memory:", TOY);
    struct rig_worker *newer = stranger(&rig, "s1", "k", "10.0.0.1");
    newer->version = GK_WIRE_VERSION + 1;
    rig_hello(&rig, newer);
    assert_int_equal(newer->session, 0);
    assert_int_equal(newer->retry_after_ms, 60000); /* daemons are upgraded first */
    assert_string_equal(newer->told, "VERSION the worker speaks protocol 2 to 2, this daemon 1 to "
                                     "1: upgrade the daemon");
    newer->version = 0;
    rig_hello(&rig, newer);
    assert_true(newer->session != 0);
    rig_close(&rig);
}

/* ------------------------------------------------------------------ penalties */

static void rubbish(struct rig *rig, struct rig_worker *worker, enum gk_status status)
{
    struct gk_err why = {.status = status, .text = "rubbish"};
    assert_int_equal(gk_core_malformed(rig->core, &worker->peer, &why, rig->now_ns, NULL), GK_OK);
    rig_pump(rig);
}

/* What this build does not know may be of a newer one: it is answered, and costs neither the
 * session nor what the worker holds, however often it comes. */
static void unknown_words_cost_no_session(void **state)
{
    struct rig rig;
    (void)state;
    rig_open(&rig, ":memory:", TOY);
    rig.fails = never;
    struct rig_worker *worker = stranger(&rig, "s1", "k", "10.0.0.1");
    rig_hello(&rig, worker);
    rig_ready(&rig, worker, 2);
    int64_t job = rig_submit(&rig, "a", "emu-sm_80", 8, ONE);
    assert_int_equal(worker->lease_count, 2);
    for (uint64_t i = 1; i <= 20; i++) {
        rubbish(&rig, worker, GK_VERSION);
        assert_int_equal(worker->errors, i);
    }
    for (uint64_t i = 1; i <= 4; i++) { /* and a few of a type that is none */
        rubbish(&rig, worker, GK_PROTOCOL);
        assert_int_equal(worker->errors, 20 + i);
    }
    assert_non_null(strstr(worker->told, "rubbish"));
    struct gk_core_counters counters = gk_core_counters(rig.core);
    assert_int_equal(counters.malformed, 24);
    assert_int_equal(counters.suspended, 0);
    assert_int_equal(counters.sessions, 1);
    assert_int_equal(counters.held_leases, 2);
    (void)rig_work(&rig, 1000);
    assert_string_equal(rig_job_state(&rig, job), "done");
    rig_close(&rig);
}

/* The only line of the event, and it names key and address. */
static void expect_told(struct rig *rig, enum gk_event event, const char *key, const char *from)
{
    struct gk_notice notice = {0}, found = {0};
    uint32_t others = 0, count = 0;
    while (gk_core_take_notice(rig->core, &notice)) {
        found = notice.event == event ? notice : found;
        count += notice.event == event;
        others += notice.event == GK_EVENT_REFUSED || notice.event == GK_EVENT_MALFORMED;
    }
    assert_int_equal(count, 1);
    assert_int_equal(others, event == GK_EVENT_REFUSED || event == GK_EVENT_MALFORMED);
    assert_string_equal(found.key, key);
    assert_string_equal(found.from, from);
}

/* Whoever reads the log after a bad night has to know whom to ask, or which key to revoke. */
static void lines_say_whose_doing_it_is(void **state)
{
    struct rig rig;
    struct gk_notice notice;
    (void)state;
    rig_open(&rig, ":memory:", TOY);
    struct rig_worker *worker = stranger(&rig, "s1", "k", "10.0.0.1"),
                      *second = stranger(&rig, "s2", "k", "10.0.0.2");
    rig_hello(&rig, worker);
    expect_told(&rig, GK_EVENT_WORKER_CAME, "k", "10.0.0.1");
    rubbish(&rig, worker, GK_PROTOCOL);
    expect_told(&rig, GK_EVENT_MALFORMED, "k", "10.0.0.1");
    rig_advance(&rig, 7000);
    expect_told(&rig, GK_EVENT_WORKER_LOST, "k", "10.0.0.1");
    rig_hello(&rig, worker);
    expect_told(&rig, GK_EVENT_WORKER_CAME, "k", "10.0.0.1");
    rig_hello(&rig, second);
    expect_told(&rig, GK_EVENT_WORKER_REJECTED, "k", "10.0.0.2");
    rig_send(&rig, second, GK_MSG_READY, 0, gk_json_new_object());
    rig_pump(&rig);
    expect_told(&rig, GK_EVENT_REFUSED, "k", "10.0.0.2");
    for (int i = 0; i < 4; i++) {
        rubbish(&rig, worker, GK_PROTOCOL);
    }
    while (gk_core_take_notice(rig.core, &notice) && notice.event != GK_EVENT_KEY_SUSPENDED) {
    }
    assert_int_equal(notice.event, GK_EVENT_KEY_SUSPENDED);
    assert_string_equal(notice.key, "k");
    while (gk_core_take_notice(rig.core, &notice)) {
    }
    (void)snprintf(rig.client.key, sizeof rig.client.key, "boss");
    (void)snprintf(rig.client.host, sizeof rig.client.host, "10.0.0.3");
    assert_string_equal(rig_request(&rig, "drain", NULL), "OK");
    expect_told(&rig, GK_EVENT_DRAIN, "boss", "10.0.0.3");
    assert_string_equal(rig_request(&rig, "cancel", NULL), "INPUT");
    expect_told(&rig, GK_EVENT_REFUSED, "boss", "10.0.0.3");
    rig_close(&rig);
}

static void test_suspended(void **state)
{
    struct rig rig;
    (void)state;
    rig_open(&rig, ":memory:", TOY);
    struct rig_worker *bad = stranger(&rig, "s1", "pool", "10.0.0.1"),
                      *good = stranger(&rig, "s2", "pool", "10.0.0.2");
    bad->peer.is_pool = good->peer.is_pool = true;
    rig_hello(&rig, bad);
    rig_hello(&rig, good);
    for (int i = 0; i < 4; i++) {
        rubbish(&rig, bad, GK_PROTOCOL);
        rubbish(&rig, good, GK_VERSION); /* an honest one of another version */
    }
    rig_advance(&rig, 61000); /* both are silent so long that they are gone */
    bad->session = good->session = 0;
    rig_hello(&rig, bad);
    rig_hello(&rig, good);
    rubbish(&rig, bad, GK_PROTOCOL); /* the first of a new minute */
    assert_int_equal(gk_core_counters(rig.core).suspended, 0);
    for (int i = 0; i < 4; i++) {
        rubbish(&rig, bad, GK_PROTOCOL);
    }
    assert_int_equal(gk_core_counters(rig.core).suspended, 1);
    assert_int_equal(bad->rejects, 1);
    assert_true(bad->retry_after_ms > 0);
    assert_int_equal(gk_core_counters(rig.core).sessions, 1); /* the same key on another host */
    /* It comes back at once: refused, whatever it says. */
    bad->session = 0;
    rig_hello(&rig, bad);
    assert_int_equal(bad->session, 0);
    rubbish(&rig, bad, GK_PROTOCOL);
    assert_int_equal(gk_core_counters(rig.core).suspended, 1);
    rig_advance(&rig, 61000);
    rig_hello(&rig, bad);
    assert_true(bad->session != 0);
    /* The local socket is never suspended: a bug in one command must not lock all others out. */
    for (int i = 0; i < 20; i++) {
        struct gk_err why = {.status = GK_PROTOCOL, .text = "rubbish"};
        assert_int_equal(gk_core_malformed(rig.core, &rig.client, &why, rig.now_ns, NULL), GK_OK);
    }
    assert_string_equal(rig_request(&rig, "status", NULL), "OK");
    rig_close(&rig);
}

/* Leases of others: refused, and five of them are no accident. */
static void test_not_owner(void **state)
{
    struct rig rig;
    (void)state;
    rig_open(&rig, ":memory:", TOY);
    struct rig_worker *owner = stranger(&rig, "s1", "owner", "10.0.0.1"),
                      *thief = stranger(&rig, "s2", "thief", "10.0.0.2");
    thief->device = "emu:sm_90a";
    rig_hello(&rig, owner);
    rig_hello(&rig, thief);
    rig_ready(&rig, owner, 4);
    (void)rig_submit(&rig, "a", "emu-sm_80", 8, ONE);
    assert_int_equal(owner->lease_count, 4);
    int64_t token = gk_json_get_int(owner->leases[0], "token", 0);
    struct gk_json *body = gk_json_new_object(), *tokens = gk_json_new_array();
    assert_true(gk_json_push(tokens, gk_json_new_int(token)) &&
                gk_json_set(body, "tokens", tokens) &&
                gk_json_set_string(body, "reason", "mine now"));
    rig_send(&rig, thief, GK_MSG_RELEASE, token, body);
    rig_started(&rig, thief, token);
    for (int i = 0; i < 3; i++) {
        rig_send(&rig, thief, GK_MSG_RESULT, token, gk_json_new_object());
    }
    assert_int_equal(thief->acks_not_owner, 3);
    struct gk_core_counters counters = gk_core_counters(rig.core);
    assert_int_equal(counters.not_owner, 5);
    assert_int_equal(counters.suspended, 1);
    assert_int_equal(counters.held_leases, 4);
    assert_int_equal(counters.sessions, 1);
    rig_close(&rig);
}

/* ------------------------------------------------------------------ what a worker claims */

/* It stands in listings, in the audit trail and in names of exports for ever after, so it is
 * bounded; and a model that says of itself that it is a GPU is no worker. */
static void what_a_worker_claims_is_checked(void **state)
{
    static const struct {
        const char *member, *text, *part; /* a member of the device, or of HELLO */
        bool of_device;
    } rows[] = {
        {"host", NULL, "LIMIT HELLO: \"host\"", false},
        {"boot_id", NULL, "LIMIT HELLO: \"boot_id\"", false},
        {"build", NULL, "LIMIT HELLO: \"build\"", false},
        {"job", NULL, "LIMIT HELLO: \"job\"", false},
        {"nvrtc", NULL, "LIMIT HELLO: \"nvrtc\"", false},
        {"spool_id", "", "INPUT HELLO: \"spool_id\" is empty", false},
        {"arch", "../../x-sm_80", "is no name", true},
        {"gpu", "a\nb", "is no name", true},
        {"arch", "sm_80", "whose times are modelled", true},
        {"target", "sm_90a", "arch 'emu-sm_80' of target 'sm_90a'", true},
        {"driver", NULL, "at most 4096 are allowed", true},
    };
    static char longest[5000];
    struct rig rig;
    (void)state;
    memset(longest, 'x', sizeof longest - 1);
    rig_open(&rig, ":memory:", TOY);
    for (size_t i = 0; i < GK_ARRAY_COUNT(rows); i++) {
        rig.worker_count = 0;
        char key[8]; /* the fifth such error of a key would suspend it */
        (void)snprintf(key, sizeof key, "k%zu", i);
        struct rig_worker *worker = stranger(&rig, "s1", key, "10.0.0.1");
        struct gk_json *body = rig_hello_body(&rig, worker);
        struct gk_json *devices = gk_json_get_mutable(body, "devices");
        struct gk_json *of = rows[i].of_device
                                 ? (struct gk_json *)(uintptr_t)gk_json_at(devices, 0) /* ours */
                                 : body;
        assert_true(gk_json_set_string(of, rows[i].member, rows[i].text ? rows[i].text : longest));
        rig_send(&rig, worker, GK_MSG_HELLO, 0, body);
        assert_true(worker->session == 0);
        if (worker->rejects != 1 || !strstr(worker->told, rows[i].part)) {
            fail_msg("%s: %s", rows[i].member, worker->told);
        }
    }
    assert_int_equal(rig_count(&rig, "workers", "workers", 0), 0);
    /* The cause of a fence is cut, at a whole character: the device is fenced all the same. */
    rig.worker_count = 0;
    struct rig_worker *worker = stranger(&rig, "s1", "k", "10.0.0.1");
    rig_hello(&rig, worker);
    struct gk_json *body = gk_json_new_object();
    for (size_t i = 0; i + 2 < sizeof longest; i += 2) {
        memcpy(longest + i, "\xc3\xa9", 2);
    }
    assert_true(gk_json_set_int(body, "device", 0) && gk_json_set_string(body, "state", "fenced") &&
                gk_json_set_string(body, "cause", longest));
    rig_send(&rig, worker, GK_MSG_DEVICE_EVENT, 0, body);
    assert_int_equal(gk_core_counters(rig.core).fences, 1);
    assert_int_equal(rig_count(&rig, "workers", "workers", 0), 1);
    const struct gk_json *row = gk_json_at(gk_json_get(rig.reply, "workers"), 0),
                         *device = gk_json_at(gk_json_get(row, "devices"), 0);
    size_t size = strlen(gk_json_get_string(gk_json_get(device, "fenced"), "cause", ""));
    assert_in_range(size, 200, 260);
    rig_close(&rig);
}

/* A time of nothing would win every search, and one that a model made is none of a GPU: refused,
 * whichever way the record is read, and the lease has failed. */
static void impossible_times_are_refused(void **state)
{
    static const struct {
        const char *device, *part;
        bool modelled;
        double time_ns;
    } rows[] = {
        {"emu:sm_80", "a time of 0 ns", true, 0},
        {"emu:sm_80", "a measured time of device 0, whose times are modelled", false, 1500},
        {"cuda:0", "a modelled time of device 0, whose times are measured", true, 1500},
    };
    (void)state;
    for (size_t i = 0; i < GK_ARRAY_COUNT(rows); i++) {
        struct rig rig;
        struct gk_record record;
        rig_open(&rig, ":memory:", TOY);
        rig.fails = never;
        struct rig_worker *worker = rig_connect(&rig, "s1", rows[i].device, 1);
        struct gk_json *body = rig_submit_body(
            &rig, "a", strcmp(rows[i].device, "cuda:0") == 0 ? "sm_90a" : "emu-sm_80", 8, ONE);
        assert_string_equal(rig_request(&rig, "submit", body), "OK");
        assert_int_equal(worker->lease_count, 1);
        gk_record_init(&record);
        record.stage = GK_STAGE_DONE;
        record.modelled = rows[i].modelled;
        record.time_ns = rows[i].time_ns;
        body = gk_json_new_object();
        assert_true(gk_json_set(body, "record", gk_record_to_json(&record)));
        gk_record_fini(&record);
        int64_t token = gk_json_get_int(worker->leases[0], "token", 0);
        rig_forget(worker, 0);
        rig_send(&rig, worker, GK_MSG_RESULT, token, body);
        assert_int_equal(worker->acks_stored, 0);
        assert_int_equal(worker->acks_dropped, 1);
        assert_non_null(strstr(worker->told, rows[i].part));
        assert_int_equal(gk_core_counters(rig.core).verdicts[GK_FAILURE_NONE], 0);
        rig_close(&rig);
    }
}

/* ------------------------------------------------------------------ the same result again */

static void test_conflict(void **state)
{
    struct rig rig;
    (void)state;
    rig_open(&rig, ":memory:", TOY);
    rig.fails = never;
    struct rig_worker *worker = stranger(&rig, "s1", "k", "10.0.0.1"),
                      *other = stranger(&rig, "s2", "l", "10.0.0.2");
    other->device = "emu:sm_90a";
    rig_hello(&rig, worker);
    rig_hello(&rig, other);
    rig_ready(&rig, worker, 2);
    (void)rig_submit(&rig, "a", "emu-sm_80", 8, ONE);
    int64_t token = gk_json_get_int(worker->leases[0], "token", 0);
    rig.record_seen = NULL;
    (void)rig_answer(&rig, worker, 0);
    assert_int_equal(worker->acks_stored, 1);
    assert_non_null(rig.record_seen);
    /* Byte for byte: a resend whose ACK was lost. */
    struct gk_json *body = gk_json_new_object();
    assert_true(gk_json_set(body, "record", gk_json_copy(rig.record_seen)));
    rig_send(&rig, worker, GK_MSG_RESULT, token, gk_json_copy(body));
    assert_int_equal(worker->acks_duplicate, 1);
    assert_int_equal(gk_core_counters(rig.core).conflicts, 0);
    /* The same key of the result, another time: the first one stays. */
    struct gk_json *record = gk_json_get_mutable(body, "record");
    assert_true(gk_json_set_real(record, "time_ns", 1.5));
    rig_send(&rig, worker, GK_MSG_RESULT, token, gk_json_copy(body));
    assert_int_equal(worker->acks_conflict, 1);
    assert_int_equal(gk_core_counters(rig.core).conflicts, 1);
    /* From somebody who never had the lease it is neither. */
    rig_send(&rig, other, GK_MSG_RESULT, token, body);
    assert_int_equal(other->acks_not_owner, 1);
    rig_close(&rig);
}

/* Started again without the device that its leases are for, or with another one in its place: they
 * go to others, and a result that comes all the same changes nothing. */
static void leases_stay_with_their_device(void **state)
{
    static const char *const RETURNS[] = {"emu:sm_80", "mock:sm_80"};
    (void)state;
    for (uint32_t at = 0; at < 2; at++) { /* the device that has leases: the first, the second */
        struct rig rig;
        struct gk_device_props props;
        rig_open(&rig, ":memory:", TOY);
        rig.fails = never;
        struct rig_worker *worker = rig_connect(&rig, "s1", "emu:sm_80", 0);
        struct gk_json *hello = rig_hello_body(&rig, worker), *ready = gk_json_new_object();
        rig_props("emu:sm_90a", &props);
        assert_true(
            gk_json_push(gk_json_get_mutable(hello, "devices"), gk_device_props_to_json(&props)));
        rig_send(&rig, worker, GK_MSG_HELLO, 0, hello);
        assert_true(gk_json_set_int(ready, "device", at) && gk_json_set_int(ready, "credit", 2));
        rig_send(&rig, worker, GK_MSG_READY, 0, ready);
        (void)rig_submit(&rig, "a", at ? "emu-sm_90a" : "emu-sm_80", 8, ONE);
        assert_int_equal(worker->lease_count, 2);
        int64_t token = gk_json_get_int(worker->leases[0], "token", 0);
        struct gk_json *late = gk_json_new_object();
        worker->device = RETURNS[!at]; /* the first alone; another one */
        rig_hello(&rig, worker);
        assert_int_equal(worker->kept, 0);
        assert_int_equal(worker->dropped, 2);
        assert_true(gk_json_set(late, "record", gk_json_new_object()));
        rig_send(&rig, worker, GK_MSG_RESULT, token, late);
        assert_int_equal(worker->acks_stored, 0);
        rig_close(&rig);
    }
}

/* A capture that is played again, and messages that never came. */
static void test_numbered(void **state)
{
    struct rig rig;
    (void)state;
    rig_open(&rig, ":memory:", TOY);
    rig.fails = never;
    struct rig_worker *worker = stranger(&rig, "s1", "k", "10.0.0.1");
    rig_hello(&rig, worker);
    rig_ready(&rig, worker, 2);
    (void)rig_submit(&rig, "a", "emu-sm_80", 8, ONE);
    assert_int_equal(worker->lease_count, 2);
    worker->seq--; /* the same number again */
    rig_ready(&rig, worker, 100);
    assert_int_equal(gk_core_counters(rig.core).replayed, 1);
    assert_int_equal(worker->lease_count, 2); /* no credit came of it */
    (void)rig_answer(&rig, worker, 0);
    assert_int_equal(worker->acks_stored, 1);
    worker->seq += 3; /* three were lost */
    uint64_t errors = worker->errors;
    rig_ready(&rig, worker, 100);
    assert_int_equal(gk_core_counters(rig.core).gaps, 1);
    assert_int_equal(worker->errors, errors + 1);
    assert_int_equal(worker->lease_count, 1);
    rig_hello(&rig, worker); /* as a worker does when it is told STALE */
    rig_ready(&rig, worker, 2);
    (void)rig_work(&rig, 1000);
    assert_true(worker->acks_stored > 1);
    rig_close(&rig);
}

/* ------------------------------------------------------------------ revocation */

struct door {
    const char *revoked; /* name of a key */
    uint8_t roles;       /* of all others */
    bool is_broken;
};

static enum gk_status door_reload(void *context, uint32_t *valid_out, struct gk_err *err)
{
    const struct door *door = context;
    *valid_out = 7;
    return door->is_broken ? gk_fail(err, GK_IO, "keys.json: torn") : GK_OK;
}

static enum gk_status door_look(void *context, struct gk_peer *peer, struct gk_err *err)
{
    const struct door *door = context;
    if (peer->key[0] && door->revoked && strcmp(peer->key, door->revoked) == 0) {
        return gk_fail(err, GK_DENIED, "key %s was revoked: stolen", peer->key);
    }
    peer->roles = peer->key[0] ? door->roles : GK_ROLES_ALL;
    return GK_OK;
}

static const char *reload(struct rig *rig)
{
    struct gk_json *body = gk_json_new_object();
    assert_true(gk_json_set_string(body, "action", "reload"));
    return rig_request(rig, "keys", body);
}

static void test_revoked(void **state)
{
    struct rig rig;
    struct door door = {.roles = GK_ROLE_WORK};
    (void)state;
    rig_open(&rig, ":memory:", TOY);
    rig.keys = (struct gk_core_keys){door_reload, door_look, NULL, &door};
    rig_restart(&rig);
    struct rig_worker *stolen = stranger(&rig, "s1", "stolen", "10.0.0.1"),
                      *kept = stranger(&rig, "s2", "kept", "10.0.0.2");
    rig_hello(&rig, stolen);
    rig_hello(&rig, kept);
    rig_ready(&rig, stolen, 2);
    int64_t job = rig_submit(&rig, "a", "emu-sm_80", 8, ONE);
    assert_int_equal(stolen->lease_count, 2);
    /* Nothing changed: nothing happens. */
    assert_string_equal(reload(&rig), "OK");
    assert_int_equal(gk_json_get_int(rig.reply, "valid", 0), 7);
    assert_int_equal(gk_core_counters(rig.core).sessions, 2);
    /* A bad file keeps what was. */
    door.is_broken = true;
    door.revoked = "stolen";
    assert_string_equal(reload(&rig), "INPUT");
    assert_int_equal(gk_core_counters(rig.core).sessions, 2);
    door.is_broken = false;
    assert_string_equal(reload(&rig), "OK");
    assert_int_equal(stolen->rejects, 1);
    assert_int_equal(stolen->retry_after_ms, 0);
    assert_int_equal(gk_core_counters(rig.core).sessions, 1);
    assert_int_equal(gk_core_counters(rig.core).held_leases, 0);
    /* Its leases are free at once, and cost the configs nothing. */
    rig_ready(&rig, kept, 2);
    assert_int_equal(kept->lease_count, 2);
    assert_int_equal(gk_json_get_int(kept->leases[0], "attempt", -1), 0);
    (void)rig_work(&rig, 1000);
    assert_string_equal(rig_job_state(&rig, job), "done");
    /* A key that keeps its place in the list and loses the role. */
    door.roles = GK_ROLE_SUBMIT;
    assert_string_equal(reload(&rig), "OK");
    assert_int_equal(kept->rejects, 1);
    assert_int_equal(gk_core_counters(rig.core).sessions, 0);
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_single_key),
        cmocka_unit_test(test_pool_key),
        cmocka_unit_test(test_same_worker_moves),
        cmocka_unit_test(test_spool_of_another_key),
        cmocka_unit_test(test_one_worker_a_gpu),
        cmocka_unit_test(test_emulated_devices_are_many),
        cmocka_unit_test(test_versions),
        cmocka_unit_test(unknown_words_cost_no_session),
        cmocka_unit_test(lines_say_whose_doing_it_is),
        cmocka_unit_test(what_a_worker_claims_is_checked),
        cmocka_unit_test(impossible_times_are_refused),
        cmocka_unit_test(test_suspended),
        cmocka_unit_test(test_not_owner),
        cmocka_unit_test(test_conflict),
        cmocka_unit_test(leases_stay_with_their_device),
        cmocka_unit_test(test_numbered),
        cmocka_unit_test(test_revoked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
