/* What operators do to a daemon, over the core with scripted workers and a time of our own. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/record.h"
#include "tests/support/parsed.h"
#include "tests/unit/daemon_rig.h"

static const char *const ONE[] = {"scale{\"N\":4096}", NULL};
static const char *const TWO[] = {"scale{\"N\":8192}", NULL};
static const char *const MANY[] = {"scale{\"N\":1024}",  "scale{\"N\":2048}",  "scale{\"N\":3072}",
                                   "scale{\"N\":5120}",  "scale{\"N\":6144}",  "scale{\"N\":7168}",
                                   "scale{\"N\":9216}",  "scale{\"N\":10240}", "scale{\"N\":11264}",
                                   "scale{\"N\":12288}", "scale{\"N\":13312}", NULL};
static const char TOY[] = "tests/data/kernels/toy";

static bool never(const char *config)
{
    (void)config;
    return false;
}

/* A request as text: ask(&rig, "cancel", "{\"job\":%d}", 3). */
static const char *ask(struct rig *rig, const char *verb, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static const char *ask(struct rig *rig, const char *verb, const char *format, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, format);
    (void)vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    return rig_request(rig, verb, parsed(text));
}

#define OK(...) assert_string_equal(ask(__VA_ARGS__), "OK")

static const struct gk_json *row_of(struct rig *rig, const char *list, const char *key, int64_t id)
{
    const struct gk_json *rows = gk_json_get(rig->reply, list);
    for (size_t i = 0; i < gk_json_count(rows); i++) {
        if (gk_json_get_int(gk_json_at(rows, i), key, 0) == id) {
            return gk_json_at(rows, i);
        }
    }
    fail_msg("no row of %s with %s %" PRId64, list, key, id);
    return NULL;
}

/* The invariants that a store can show hold; `audit_out` gets the number of lines. */
static void assert_whole(struct rig *rig, int64_t *audit_out)
{
    struct gk_json *report = NULL;
    struct gk_err err = {0};
    if (gk_db_check(rig->db, &report, &err) != GK_OK) {
        fail_msg("%s", err.text);
    }
    if (!gk_json_get_bool(report, "ok", false)) {
        fail_msg("%s", gk_json_string(gk_json_at(gk_json_get(report, "problems"), 0), "?"));
    }
    if (audit_out) {
        *audit_out = gk_json_get_int(report, "audit_lines", -1);
    }
    gk_json_free(report);
}

static int64_t submit_at(struct rig *rig, const char *id, int64_t priority, int64_t trials,
                         const char *const *problems)
{
    struct gk_json *body = rig_submit_body(rig, id, "emu-sm_80", trials, problems);
    assert_true(gk_json_set_int(body, "priority", priority));
    assert_string_equal(rig_request(rig, "submit", body), "OK");
    return gk_json_get_int(rig->reply, "job", 0);
}

/* Seconds pass; the worker says that it lives. */
static void pass_time(struct rig *rig, uint64_t seconds)
{
    for (uint64_t s = 0; s < seconds; s += 2) {
        rig_advance(rig, 2000);
        for (uint32_t w = 0; w < rig->worker_count; w++) {
            if (rig->workers[w].session != 0) {
                rig_send(rig, &rig->workers[w], GK_MSG_PING, 0, gk_json_new_object());
            }
        }
    }
}

static double oldest_ready(struct rig *rig)
{
    OK(rig, "status", "{}");
    return gk_json_get_real(rig->reply, "oldest_ready_s", -1);
}

/* ------------------------------------------------------------------ ageing */

/* One device, always wanted by more urgent work: the other job gets its first lease when its
 * waiting has made up the difference, and from then on one a minute. */
static void waiting_makes_urgent(void **state)
{
    struct rig rig;
    (void)state;
    rig_open(&rig, ":memory:", TOY);
    rig.fails = never;
    struct rig_worker *worker = rig_connect(&rig, "s1", "emu:sm_80", 0);
    int64_t urgent = submit_at(&rig, "u", 3, 12, MANY), patient = submit_at(&rig, "p", 0, 12, ONE);
    rig_ready(&rig, worker, 1);
    uint64_t seconds = 0, first = 0, second = 0;
    while (seconds < 1000 && !second) {
        assert_int_equal(worker->lease_count, 1);
        int64_t job = gk_json_get_int(worker->leases[0], "job", 0);
        assert_true(job == urgent || job == patient);
        if (job == patient && !first) {
            first = seconds;
        } else if (job == patient) {
            second = seconds;
        }
        (void)rig_answer(&rig, worker, 0);
        pass_time(&rig, 10);
        seconds += 10;
        rig_ready(&rig, worker, 1);
    }
    assert_in_range(first, 180, 260); /* three points and the one that puts it ahead */
    assert_in_range(second - first, 30, 90);
    rig_close(&rig);
}

/* Nobody is there: the age of what waits is told, and no priority is beyond reach or bound. */
static void waiting_is_told_and_bounded(void **state)
{
    struct rig rig;
    (void)state;
    rig_open(&rig, ":memory:", TOY);
    (void)rig_connect(&rig, "s1", "emu:sm_80", 0);
    int64_t low = submit_at(&rig, "l", -100, 8, ONE), high = submit_at(&rig, "h", 100, 8, TWO);
    pass_time(&rig, 600);
    OK(&rig, "jobs", "{}");
    const struct gk_json *row = row_of(&rig, "jobs", "job", low);
    assert_in_range(gk_json_get_int(row, "effective_priority", 0) + 100, 9, 10);
    assert_true(gk_json_get_real(row, "waiting_s", 0) > 590);
    assert_true(oldest_ready(&rig) > 590);
    pass_time(&rig, 4 * 3600);
    OK(&rig, "jobs", "{}");
    assert_int_equal(gk_json_get_int(row_of(&rig, "jobs", "job", low), "effective_priority", 0),
                     101); /* over any job that comes now */
    assert_int_equal(gk_json_get_int(row_of(&rig, "jobs", "job", high), "effective_priority", 0),
                     301);
    OK(&rig, "pause", "{\"jobs\":[%" PRId64 ",%" PRId64 "]}", low, high);
    pass_time(&rig, 4);
    assert_true(oldest_ready(&rig) < 1); /* nobody waits for a turn */
    rig_close(&rig);
}

/* ------------------------------------------------------------------ jobs */

static void control_is_idempotent(void **state)
{
    struct rig rig;
    (void)state;
    rig_open(&rig, ":memory:", TOY);
    (void)rig_connect(&rig, "s1", "emu:sm_80", 4);
    int64_t a = rig_submit(&rig, "a", "emu-sm_80", 14, ONE),
            b = rig_submit(&rig, "b", "emu-sm_80", 14, TWO);
    OK(&rig, "pause", "{\"jobs\":[%" PRId64 ",%" PRId64 "],\"reason\":\"maintenance\"}", a, b);
    assert_int_equal(gk_json_count(gk_json_get(rig.reply, "jobs")), 2);
    assert_true(gk_json_get_bool(row_of(&rig, "jobs", "job", b), "changed", false));
    OK(&rig, "pause", "{\"job\":%" PRId64 "}", a);
    assert_false(gk_json_get_bool(row_of(&rig, "jobs", "job", a), "changed", true));
    OK(&rig, "show", "{\"job\":%" PRId64 "}", a);
    assert_string_equal(gk_json_get_string(rig.reply, "reason", ""), "maintenance");
    OK(&rig, "resume", "{\"job\":%" PRId64 "}", a);
    OK(&rig, "resume", "{\"job\":%" PRId64 "}", a);
    OK(&rig, "show", "{\"job\":%" PRId64 "}", a);
    assert_null(gk_json_get(rig.reply, "reason"));
    /* All or none: one of them does not exist, is named twice, has ended. */
    assert_string_equal(ask(&rig, "cancel", "{\"jobs\":[%" PRId64 ",99]}", a), "NOT_FOUND");
    assert_string_equal(ask(&rig, "cancel", "{\"jobs\":[%" PRId64 ",%" PRId64 "]}", a, a), "INPUT");
    assert_string_equal(ask(&rig, "cancel", "{\"jobs\":[]}"), "INPUT");
    assert_string_equal(ask(&rig, "cancel", "{\"job\":%" PRId64 ",\"reason\":7}", a), "INPUT");
    assert_string_not_equal(rig_job_state(&rig, a), "cancelled");
    OK(&rig, "cancel", "{\"job\":%" PRId64 ",\"reason\":\"wrong shapes\"}", a);
    OK(&rig, "cancel", "{\"job\":%" PRId64 "}", a);
    assert_false(gk_json_get_bool(row_of(&rig, "jobs", "job", a), "changed", true));
    assert_string_equal(ask(&rig, "pause", "{\"jobs\":[%" PRId64 ",%" PRId64 "]}", b, a),
                        "CONFLICT");
    assert_non_null(strstr(gk_json_get_string(rig.reply, "text", ""), "has ended"));
    assert_string_equal(ask(&rig, "retry", "{\"job\":%" PRId64 "}", a), "CONFLICT");
    assert_string_equal(rig_job_state(&rig, b), "paused");
    /* All of it is in the trail, in order, also what was refused. */
    OK(&rig, "audit", "{}");
    const struct gk_json *lines = gk_json_get(rig.reply, "lines");
    size_t cancels = 0, refusals = 0;
    for (size_t i = 0; i < gk_json_count(lines); i++) {
        const struct gk_json *line = gk_json_at(lines, i);
        cancels += strcmp(gk_json_get_string(line, "what", ""), "cancel") == 0 &&
                   strcmp(gk_json_get_string(line, "reason", ""), "wrong shapes") == 0 &&
                   strcmp(gk_json_get_string(line, "outcome", ""), "cancelled") == 0;
        refusals += strncmp(gk_json_get_string(line, "outcome", ""), "refused", 7) == 0;
    }
    assert_int_equal(cancels, 1);
    assert_true(refusals >= 2);
    OK(&rig, "audit", "{\"verify\":true}");
    assert_true(gk_json_get_bool(rig.reply, "ok", false));
    assert_whole(&rig, NULL);
    rig_close(&rig);
}

/* A result and a cancel meet: whichever is stored first is true, and both are told so. */
static void cancel_races_with_results(void **state)
{
    for (int first = 0; first < 2; first++) {
        struct rig rig;
        (void)state;
        rig_open(&rig, ":memory:", TOY);
        rig.fails = never;
        struct rig_worker *worker = rig_connect(&rig, "s1", "emu:sm_80", 1);
        int64_t job = rig_submit(&rig, "a", "emu-sm_80", 14, ONE);
        struct gk_json *lease = gk_json_copy(worker->leases[0]);
        if (first == 0) { /* CANCEL is on its way when the worker sends its result */
            OK(&rig, "cancel", "{\"job\":%" PRId64 "}", job);
            assert_int_equal(worker->lease_count, 0);
            worker->leases[worker->lease_count++] = gk_json_copy(lease);
            (void)rig_answer(&rig, worker, 0);
            assert_int_equal(worker->acks_stale, 1);
            assert_int_equal(worker->acks_stored, 0);
        } else {
            (void)rig_answer(&rig, worker, 0);
            assert_int_equal(worker->acks_stored, 1);
            OK(&rig, "cancel", "{\"job\":%" PRId64 "}", job);
        }
        /* Sent again it is what it was. */
        worker->leases[worker->lease_count++] = lease;
        (void)rig_answer(&rig, worker, worker->lease_count - 1);
        assert_int_equal(worker->acks_stale, first == 0 ? 2 : 0);
        assert_int_equal(worker->acks_duplicate, first);
        assert_string_equal(rig_job_state(&rig, job), "cancelled");
        assert_int_equal(gk_json_get_int(rig.reply, "trials", -1), first);
        rig_restart(&rig);
        assert_string_equal(rig_job_state(&rig, job), "cancelled");
        assert_int_equal(gk_core_counters(rig.core).held_leases, 0);
        assert_whole(&rig, NULL);
        rig_close(&rig);
    }
}

/* ------------------------------------------------------------------ dead letters */

/* Three times a worker dies of the lease in its hands. */
static void park_first(struct rig *rig, struct rig_worker *worker)
{
    for (int attempt = 0; attempt < 3; attempt++) {
        assert_int_equal(worker->lease_count, 1);
        rig_started(rig, worker, gk_json_get_int(worker->leases[0], "token", 0));
        rig_forget(worker, 0);
        rig_hello(rig, worker);
        rig_ready(rig, worker, 1);
    }
}

static void parked_trials_are_letters(void **state)
{
    for (int way = 0; way < 3; way++) { /* retry of the letter, of the job, or none */
        struct rig rig;
        (void)state;
        rig_open(&rig, ":memory:", TOY);
        rig.fails = never;
        struct rig_worker *worker = rig_connect(&rig, "s1", "emu:sm_80", 1);
        int64_t job = rig_submit(&rig, "a", "emu-sm_80", 8, ONE);
        park_first(&rig, worker);
        OK(&rig, "dead", "{\"action\":\"list\"}");
        assert_int_equal(gk_json_count(gk_json_get(rig.reply, "letters")), 1);
        const struct gk_json *letter = gk_json_at(gk_json_get(rig.reply, "letters"), 0);
        assert_string_equal(gk_json_get_string(letter, "kind", ""), "parked");
        assert_string_equal(gk_json_get_string(letter, "problem", ""), ONE[0]);
        assert_int_equal(gk_json_get_int(letter, "attempts", 0), 3);
        assert_non_null(strstr(gk_json_get_string(letter, "cause", ""), "without it"));
        assert_int_equal(gk_core_counters(rig.core).dead_letters, 1);
        assert_whole(&rig, NULL);
        int64_t dead = gk_json_get_int(letter, "dead", 0);
        if (way == 0) {
            OK(&rig, "dead", "{\"action\":\"retry\",\"dead\":%" PRId64 ",\"reason\":\"new PSU\"}",
               dead);
            const struct gk_json *item = gk_json_at(gk_json_get(rig.reply, "letters"), 0);
            assert_string_equal(gk_json_get_string(item, "outcome", ""), "requeued");
            OK(&rig, "dead", "{\"action\":\"retry\",\"dead\":%" PRId64 "}", dead); /* once more */
            assert_int_equal(gk_json_count(gk_json_get(rig.reply, "letters")), 0);
        } else if (way == 1) {
            OK(&rig, "retry", "{\"job\":%" PRId64 "}", job);
        } else {
            OK(&rig, "dead", "{\"action\":\"forget\",\"all\":true}");
        }
        assert_int_equal(gk_core_counters(rig.core).dead_letters, 0);
        assert_whole(&rig, NULL);
        rig_restart(&rig);
        rig_hello(&rig, worker);
        (void)rig_work(&rig, 1000);
        assert_string_equal(rig_job_state(&rig, job), "done");
        assert_int_equal(gk_json_get_int(rig.reply, "trials", 0), way == 2 ? 7 : 8);
        OK(&rig, "dead", "{\"action\":\"list\",\"settled\":true}");
        letter = gk_json_at(gk_json_get(rig.reply, "letters"), 0);
        assert_string_equal(gk_json_get_string(letter, "state", ""),
                            way == 2 ? "forgotten" : "retried");
        assert_string_equal(ask(&rig, "dead", "{\"action\":\"show\",\"dead\":77}"), "NOT_FOUND");
        assert_whole(&rig, NULL);
        rig_close(&rig);
    }
}

/* conditions: JSON; NULL: none. */
static void answer_under(struct rig *rig, struct rig_worker *worker, enum gk_failure failure,
                         const char *conditions)
{
    struct gk_record record;
    int64_t token = gk_json_get_int(worker->leases[0], "token", 0);
    gk_record_init(&record);
    gk_record_fail(&record, GK_STAGE_RUN, failure, "as the test wants it");
    record.environment = conditions ? parsed(conditions) : NULL;
    struct gk_json *body = gk_json_new_object();
    assert_true(gk_json_set(body, "record", gk_record_to_json(&record)));
    gk_record_fini(&record);
    rig_forget(worker, 0);
    rig_send(rig, worker, GK_MSG_RESULT, token, body);
}

static void answer_with(struct rig *rig, struct rig_worker *worker, enum gk_failure failure)
{
    answer_under(rig, worker, failure, NULL);
}

/* What metrics tell of a night that nobody watched. */
static void ends_are_counted(void **state)
{
    struct rig rig;
    (void)state;
    rig_open(&rig, ":memory:", TOY);
    rig.fails = never;
    struct rig_worker *worker = rig_connect(&rig, "s1", "emu:sm_80", 1);
    int64_t job = rig_submit(&rig, "a", "emu-sm_80", 8, ONE);
    answer_under(&rig, worker, GK_FAILURE_CRASH, "{\"dropped\":2,\"dropped_throttle\":72}");
    rig_ready(&rig, worker, 1);
    answer_under(&rig, worker, GK_FAILURE_COMPILE_MEMORY, "{\"dropped\":70,\"throttle\":0}");
    rig_ready(&rig, worker, 1);
    answer_under(&rig, worker, GK_FAILURE_WRONG,
                 "{\"dropped\":0,\"dropped_shared\":3,\"dropped_throttle\":8}");
    struct gk_core_counters counters = gk_core_counters(rig.core);
    assert_int_equal(counters.child_exits[GK_CORE_EXECUTOR_CRASH], 1);
    assert_int_equal(counters.child_exits[GK_CORE_COMPILER_MEMORY], 1);
    assert_int_equal(counters.child_exits[GK_CORE_EXECUTOR_TIMEOUT], 0);
    assert_int_equal(counters.throttled[GK_CORE_THROTTLE_HW_THERMAL], 2); /* the gravest of two */
    assert_int_equal(counters.throttled[GK_CORE_THROTTLE_HW_SLOWDOWN], 0);
    assert_int_equal(counters.throttled[GK_CORE_THROTTLE_OTHER], 64); /* bounded */
    assert_int_equal(counters.shared, 3);
    assert_true(counters.job_done_ms == 0 && counters.night_done_ms == 0);
    rig_ready(&rig, worker, 1);
    (void)rig_work(&rig, 1000);
    assert_string_equal(rig_job_state(&rig, job), "done");
    uint64_t done_ms = gk_core_counters(rig.core).job_done_ms;
    assert_true(done_ms > 0 && done_ms <= rig.wall_ms);
    rig_restart(&rig);
    counters = gk_core_counters(rig.core);
    assert_true(counters.job_done_ms == done_ms && counters.night_done_ms == 0);
    rig_close(&rig);
}

/* A job whose trials were all lost fails; its letters bring it back. */
static void a_failed_job_is_reopened(void **state)
{
    struct rig rig;
    (void)state;
    rig_open(&rig, ":memory:", TOY);
    rig.fails = never;
    struct rig_worker *worker = rig_connect(&rig, "s1", "emu:sm_80", 1);
    int64_t job = rig_submit(&rig, "a", "emu-sm_80", 2, ONE);
    park_first(&rig, worker);
    park_first(&rig, worker);
    assert_string_equal(rig_job_state(&rig, job), "failed");
    assert_int_equal(gk_core_counters(rig.core).dead_letters, 2);
    OK(&rig, "dead", "{\"action\":\"retry\",\"all\":true}");
    assert_int_equal(gk_core_counters(rig.core).dead_letters, 0);
    (void)rig_work(&rig, 1000);
    assert_string_equal(rig_job_state(&rig, job), "done");
    assert_int_equal(gk_json_get_int(rig.reply, "trials", 0), 2);
    assert_whole(&rig, NULL);
    rig_close(&rig);
}

/* Two executors dead of one config: nobody runs it again, until an operator lets it off. */
static void quarantine_and_pardon(void **state)
{
    struct rig rig;
    char config[256] = "";
    (void)state;
    rig_open(&rig, ":memory:", TOY);
    rig.fails = never;
    struct rig_worker *worker = rig_connect(&rig, "s1", "emu:sm_80", 1);
    for (int round = 0; round < 3;
         round++) { /* all configs of a problem, each time of another one */
        char name[16];
        (void)snprintf(name, sizeof name, "j%d", round);
        const char *problems[] = {MANY[round], NULL};
        int64_t job = rig_submit(&rig, name, "emu-sm_80", 18, problems);
        uint64_t asked = 0;
        for (int i = 0; i < 60 && strcmp(rig_job_state(&rig, job), "done") != 0; i++) {
            rig_ready(&rig, worker, 1);
            if (worker->lease_count == 0) {
                continue;
            }
            const char *text = gk_json_get_string(worker->leases[0], "config", "");
            if (*text && !*config) {
                (void)snprintf(config, sizeof config, "%s", text);
            }
            if (*text && strcmp(text, config) == 0) {
                asked++;
                answer_with(&rig, worker, GK_FAILURE_CRASH);
            } else {
                while (!rig_answer(&rig, worker, 0)) {
                }
            }
        }
        assert_int_equal(asked, round < 2);
        assert_int_equal(gk_core_counters(rig.core).dead_letters, round > 0);
    }
    OK(&rig, "dead", "{}");
    const struct gk_json *letter = gk_json_at(gk_json_get(rig.reply, "letters"), 0);
    assert_string_equal(gk_json_get_string(letter, "kind", ""), "quarantined");
    assert_string_equal(gk_json_get_string(letter, "config", ""), config);
    OK(&rig, "dead", "{\"action\":\"retry\",\"dead\":%" PRId64 "}",
       gk_json_get_int(letter, "dead", 0));
    assert_int_equal(gk_core_counters(rig.core).dead_letters, 0);
    rig_restart(&rig);
    rig_hello(&rig, worker);
    /* Its crash on the first problem is no answer any more either. */
    const char *again[] = {MANY[0], NULL};
    int64_t job = rig_submit(&rig, "again", "emu-sm_80", 18, again);
    bool pardoned = false;
    for (int i = 0; i < 60 && strcmp(rig_job_state(&rig, job), "done") != 0; i++) {
        rig_ready(&rig, worker, 1);
        if (worker->lease_count > 0) {
            bool its = strcmp(gk_json_get_string(worker->leases[0], "config", ""), config) == 0;
            assert_int_equal(gk_json_get_bool(worker->leases[0], "pardoned", false), its);
            pardoned = pardoned || its;
            while (!rig_answer(&rig, worker, 0)) {
            }
        }
    }
    assert_true(pardoned);
    assert_whole(&rig, NULL);
    rig_close(&rig);
}

/* ------------------------------------------------------------------ drains */

static void the_daemon_drains(void **state)
{
    struct rig rig;
    (void)state;
    rig_open(&rig, ":memory:", TOY);
    rig.fails = never;
    struct rig_worker *worker = rig_connect(&rig, "s1", "emu:sm_80", 2);
    int64_t job = rig_submit(&rig, "a", "emu-sm_80", 14, ONE);
    OK(&rig, "drain", "{\"reason\":\"upgrade\"}");
    assert_int_equal(gk_json_get_int(rig.reply, "leases", 0), 2);
    OK(&rig, "status", "{}");
    assert_string_equal(gk_json_get_string(rig.reply, "state", ""), "draining");
    assert_string_equal(gk_json_get_string(rig.reply, "drain_reason", ""), "upgrade");
    assert_string_equal(
        rig_request(&rig, "submit", rig_submit_body(&rig, "b", "emu-sm_80", 8, TWO)), "CONFLICT");
    assert_non_null(strstr(gk_json_get_string(rig.reply, "text", ""), "upgrade"));
    assert_int_equal(rig_submit(&rig, "a", "emu-sm_80", 14, ONE), job); /* its answer was lost */
    uint64_t granted = worker->granted;
    (void)rig_work(&rig, 1000);
    assert_int_equal(worker->granted, granted);
    assert_int_equal(worker->acks_stored, 2); /* what was out is stored */
    OK(&rig, "status", "{}");
    assert_string_equal(gk_json_get_string(rig.reply, "state", ""), "drained");
    rig_restart(&rig); /* an upgrade */
    rig_hello(&rig, worker);
    worker->credit = 0; /* of the new session */
    (void)rig_work(&rig, 1000);
    assert_int_equal(worker->granted, granted);
    assert_int_equal(gk_core_counters(rig.core).draining, 1);
    OK(&rig, "drain", "{\"on\":false}");
    OK(&rig, "drain", "{\"on\":false}");
    assert_false(gk_json_get_bool(rig.reply, "changed", true));
    (void)rig_work(&rig, 1000);
    assert_string_equal(rig_job_state(&rig, job), "done");
    assert_whole(&rig, NULL);
    rig_close(&rig);
}

static const char *worker_state(struct rig *rig, int64_t worker)
{
    OK(rig, "workers", "{}");
    return gk_json_get_string(row_of(rig, "workers", "worker", worker), "state", "");
}

static void a_worker_drains(void **state)
{
    struct rig rig;
    (void)state;
    rig_open(&rig, ":memory:", TOY);
    rig.fails = never;
    struct rig_worker *first = rig_connect(&rig, "s1", "emu:sm_80", 2);
    int64_t job = rig_submit(&rig, "a", "emu-sm_80", 14, ONE);
    assert_int_equal(first->lease_count, 2);
    OK(&rig, "workers", "{\"action\":\"drain\",\"worker\":1,\"reason\":\"fan\"}");
    assert_string_equal(worker_state(&rig, 1), "draining");
    while (first->lease_count > 0) {
        (void)rig_answer(&rig, first, 0);
        rig_ready(&rig, first, 4);
    }
    assert_int_equal(first->granted, 2);
    assert_string_equal(worker_state(&rig, 1), "drained");
    rig_hello(&rig, first); /* it restarts, and so does the daemon */
    rig_ready(&rig, first, 4);
    rig_restart(&rig);
    rig_hello(&rig, first);
    rig_ready(&rig, first, 4);
    assert_int_equal(first->granted, 2);
    struct rig_worker *second = rig_connect(&rig, "s2", "emu:sm_80", 4);
    (void)rig_work(&rig, 1000);
    assert_int_equal(first->granted, 2);
    assert_true(second->granted > 6);
    assert_string_equal(rig_job_state(&rig, job), "done");
    OK(&rig, "workers", "{\"action\":\"resume\",\"worker\":1}");
    assert_string_equal(worker_state(&rig, 1), "connected");
    (void)rig_submit(&rig, "b", "emu-sm_80", 14, TWO);
    assert_true(first->granted > 2);
    rig_restart(&rig); /* who has not come back to the new daemon is not there */
    assert_string_equal(worker_state(&rig, 1), "lost");
    rig_hello(&rig, first);
    assert_string_equal(worker_state(&rig, 1), "connected");
    assert_string_equal(ask(&rig, "workers", "{\"action\":\"drain\",\"worker\":9}"), "NOT_FOUND");
    assert_whole(&rig, NULL);
    rig_close(&rig);
}

/* A final round for which the device was being emptied goes to another one. */
static void a_drain_frees_the_final_round(void **state)
{
    struct rig rig;
    (void)state;
    rig_open(&rig, ":memory:", TOY);
    rig.fails = never;
    struct rig_worker *first = rig_connect(&rig, "s1", "emu:sm_80", 4);
    int64_t a = rig_submit(&rig, "a", "emu-sm_80", 4, ONE),
            b = rig_submit(&rig, "b", "emu-sm_80", 14, TWO);
    while (first->lease_count > 0 && gk_json_get_int(first->leases[0], "job", 0) == a) {
        (void)rig_answer(&rig, first, 0); /* the rest of what it holds is of job b */
        rig_ready(&rig, first, 4);
    }
    assert_true(first->lease_count > 0);
    OK(&rig, "workers", "{\"action\":\"drain\",\"worker\":1}");
    struct rig_worker *second = rig_connect(&rig, "s2", "emu:sm_80", 4);
    for (int i = 0; i < 100 && second->lease_count > 0; i++) {
        (void)rig_answer(&rig, second, 0);
        rig_ready(&rig, second, 4);
    }
    assert_string_equal(rig_job_state(&rig, a), "done");
    (void)rig_work(&rig, 1000);
    assert_string_equal(rig_job_state(&rig, b), "done");
    rig_close(&rig);
}

/* ------------------------------------------------------------------ fences */

static void device_event(struct rig *rig, struct rig_worker *worker, const char *state,
                         const char *cause)
{
    struct gk_json *body = gk_json_new_object();
    assert_true(gk_json_set_int(body, "device", 0) && gk_json_set_string(body, "state", state) &&
                gk_json_set_string(body, "cause", cause));
    rig_send(rig, worker, GK_MSG_DEVICE_EVENT, 0, body);
}

/* What the worker says of its device: leases come back at once and cost no attempt, the fence
 * outlives everybody, and its own test lifts it. */
static void a_device_is_fenced(void **state)
{
    struct rig rig;
    (void)state;
    rig_open(&rig, ":memory:", TOY);
    rig.fails = never;
    struct rig_worker *first = rig_connect(&rig, "s1", "cuda:0", 3);
    struct gk_json *body = rig_submit_body(&rig, "a", "sm_90a", 14, ONE);
    assert_string_equal(rig_request(&rig, "submit", body), "OK");
    int64_t job = gk_json_get_int(rig.reply, "job", 0);
    assert_int_equal(first->lease_count, 3);
    rig_started(&rig, first, gk_json_get_int(first->leases[0], "token", 0));
    device_event(&rig, first, "fenced", "fell off the bus");
    assert_int_equal(first->cancelled, 3);
    assert_int_equal(gk_core_counters(rig.core).held_leases, 0);
    assert_int_equal(gk_core_counters(rig.core).fences, 1);
    OK(&rig, "workers", "{}");
    const struct gk_json *row = row_of(&rig, "workers", "worker", 1),
                         *device = gk_json_at(gk_json_get(row, "devices"), 0);
    assert_string_equal(gk_json_get_string(device, "key", ""), "GPU-cuda:0");
    assert_string_equal(gk_json_get_string(gk_json_get(device, "fenced"), "cause", ""),
                        "fell off the bus");
    rig_ready(&rig, first, 4);
    rig_hello(&rig, first);
    rig_ready(&rig, first, 4);
    rig_restart(&rig);
    rig_hello(&rig, first);
    rig_ready(&rig, first, 4);
    /* The same GPU behind another spool is the same GPU, once the first worker has gone. */
    struct gk_json *bye = gk_json_new_object();
    assert_true(gk_json_set_string(bye, "reason", "another spool"));
    rig_send(&rig, first, GK_MSG_BYE, 0, bye);
    struct rig_worker *second = rig_connect(&rig, "s2", "cuda:0", 4);
    assert_int_equal(first->granted + second->granted, 3);
    /* A second one is not. */
    struct rig_worker *third = rig_connect(&rig, "s3", "cuda:1", 1);
    assert_int_equal(third->lease_count, 1);
    assert_int_equal(gk_json_get_int(third->leases[0], "attempt", -1), 0);
    assert_whole(&rig, NULL);
    device_event(&rig, second, "ok", "self-test passed");
    assert_int_equal(gk_core_counters(rig.core).fences, 0);
    assert_true(second->granted + first->granted > 3);
    (void)rig_work(&rig, 1000);
    assert_string_equal(rig_job_state(&rig, job), "done");
    assert_whole(&rig, NULL);
    rig_close(&rig);
}

static void an_operators_fence_stands(void **state)
{
    struct rig rig;
    (void)state;
    rig_open(&rig, ":memory:", TOY);
    rig.fails = never;
    struct rig_worker *worker = rig_connect(&rig, "s1", "emu:sm_80", 2);
    int64_t job = rig_submit(&rig, "a", "emu-sm_80", 14, ONE);
    assert_string_equal(ask(&rig, "workers", "{\"action\":\"fence\",\"device\":\"1/emu:sm_80\"}"),
                        "INPUT");
    assert_string_equal(
        ask(&rig, "workers", "{\"action\":\"fence\",\"device\":\"GPU-9\",\"reason\":\"x\"}"),
        "NOT_FOUND");
    OK(&rig, "workers",
       "{\"action\":\"fence\",\"device\":\"1/emu:sm_80\",\"reason\":\"it smells\"}");
    assert_int_equal(worker->cancelled, 2);
    uint64_t granted = worker->granted;
    device_event(&rig, worker, "ok", "self-test passed"); /* not its to lift */
    device_event(&rig, worker, "fenced", "lost too");     /* nor to make its own */
    device_event(&rig, worker, "ok", "self-test passed");
    rig_ready(&rig, worker, 4);
    assert_int_equal(worker->granted, granted);
    OK(&rig, "workers",
       "{\"action\":\"unfence\",\"device\":\"1/emu:sm_80\",\"reason\":\"cleaned\"}");
    OK(&rig, "workers",
       "{\"action\":\"unfence\",\"device\":\"1/emu:sm_80\",\"reason\":\"cleaned\"}");
    assert_false(gk_json_get_bool(rig.reply, "changed", true));
    (void)rig_work(&rig, 1000);
    assert_string_equal(rig_job_state(&rig, job), "done");
    assert_whole(&rig, NULL);
    rig_close(&rig);
}

/* A device on which every trial fails for reasons of its own is fenced before it has used up the
 * attempts of all of them. */
static void broken_devices_are_noticed(void **state)
{
    struct rig rig;
    (void)state;
    rig_open(&rig, ":memory:", TOY);
    rig.fails = never;
    struct rig_worker *worker = rig_connect(&rig, "s1", "emu:sm_80", 1);
    int64_t job = rig_submit(&rig, "a", "emu-sm_80", 14, ONE);
    for (int i = 0; i < 4; i++) {
        answer_with(&rig, worker, GK_FAILURE_INFRA);
        rig_ready(&rig, worker, 1);
    }
    (void)rig_answer(&rig, worker, 0); /* one that works: the count begins anew */
    rig_ready(&rig, worker, 1);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(gk_core_counters(rig.core).fences, 0);
        answer_with(&rig, worker, GK_FAILURE_INFRA);
        rig_ready(&rig, worker, 1);
    }
    assert_int_equal(gk_core_counters(rig.core).fences, 1);
    assert_int_equal(worker->lease_count, 0);
    device_event(&rig, worker, "ok", "self-test passed");
    (void)rig_work(&rig, 1000);
    assert_string_equal(rig_job_state(&rig, job), "done");
    assert_whole(&rig, NULL);
    rig_close(&rig);
}

/* ------------------------------------------------------------------ time */

/* Messages that wait unread may be heartbeats. */
static void unread_messages_come_first(void **state)
{
    struct rig rig;
    (void)state;
    rig_open(&rig, ":memory:", TOY);
    (void)rig_connect(&rig, "s1", "emu:sm_80", 4);
    rig_advance(&rig, 5000);
    gk_core_set_backlog(rig.core, true);
    rig_advance(&rig, 3000);
    assert_int_equal(gk_core_counters(rig.core).sessions, 1);
    gk_core_set_backlog(rig.core, false);
    rig_advance(&rig, 1000);
    assert_int_equal(gk_core_counters(rig.core).sessions, 0);
    /* A flood that does not end keeps nobody alive for ever. */
    (void)rig_connect(&rig, "s2", "emu:sm_80", 4);
    for (int i = 0; i < 14; i++) {
        gk_core_set_backlog(rig.core, true);
        rig_advance(&rig, 1000);
    }
    assert_int_equal(gk_core_counters(rig.core).sessions, 0);
    rig_close(&rig);
}

static void the_wall_clock_decides_nothing(void **state)
{
    static const int64_t jumps_ms[] = {86400000, -2 * 86400000, 400 * INT64_C(86400000)};
    struct rig rig;
    (void)state;
    rig_open(&rig, ":memory:", TOY);
    rig.fails = never;
    struct rig_worker *worker = rig_connect(&rig, "s1", "emu:sm_80", 4);
    int64_t job = rig_submit(&rig, "a", "emu-sm_80", 14, ONE);
    rig_started(&rig, worker, gk_json_get_int(worker->leases[0], "token", 0));
    for (size_t i = 0; i < GK_ARRAY_COUNT(jumps_ms); i++) {
        rig.wall_ms = (uint64_t)((int64_t)rig.wall_ms + jumps_ms[i]);
        pass_time(&rig, 4);
        assert_int_equal(gk_core_counters(rig.core).sessions, 1);
        assert_int_equal(gk_core_counters(rig.core).expired, 0);
        assert_true(oldest_ready(&rig) < 60);
    }
    (void)rig_work(&rig, 1000);
    assert_string_equal(rig_job_state(&rig, job), "done");
    rig_close(&rig);
}

/* ------------------------------------------------------------------ care */

/* A backup goes on between results; its reply comes when it is whole; what was refused or given up
 * is answered too. */
static void backups_wait_for_nobody(void **state)
{
    struct rig rig;
    struct stat info;
    char folder[] = "/tmp/gktest_care_XXXXXX";
    (void)state;
    assert_non_null(mkdtemp(folder));
    char *store = gk_asprintf("%s/a.db", folder), *path = gk_asprintf("%s/b.db", folder);
    rig_open(&rig, store, TOY);
    rig.fails = never;
    rig.no_care = true;
    (void)rig_connect(&rig, "s1", "emu:sm_80", 4);
    int64_t job = rig_submit(&rig, "a", "emu-sm_80", 14, ONE);
    (void)rig_work(&rig, 4);
    gk_json_free(rig.reply);
    rig.reply = gk_json_new_object();
    assert_string_equal(ask(&rig, "db", "{\"action\":\"backup\",\"path\":\"%s\"}", path),
                        ""); /* not yet */
    assert_string_equal(ask(&rig, "db", "{\"action\":\"check\"}"), "");
    (void)rig_work(&rig, 4); /* it serves meanwhile */
    assert_true(gk_core_has_care(rig.core));
    rig.no_care = false;
    rig.written = gk_json_new_array();
    rig_pump(&rig);
    char *first = gk_json_text(rig.written);
    gk_json_free(rig.written);
    rig.written = NULL;
    assert_string_equal(gk_json_get_string(rig.reply, "status", ""), "OK");
    assert_true(gk_json_get_bool(rig.reply, "ok", false)); /* the check came last */
    if (stat(path, &info) != 0) {
        fail_msg("%s: %s", path, first);
    }
    assert_string_equal(ask(&rig, "db", "{\"action\":\"backup\",\"path\":\"%s\"}", path), "EXISTS");
    assert_string_equal(ask(&rig, "db", "{\"action\":\"backup\",\"path\":\"x\"}"), "INPUT");
    assert_string_equal(ask(&rig, "db", "{\"action\":\"backup\",\"path\":\"/nowhere/x\"}"),
                        "INPUT");
    OK(&rig, "db", "{\"action\":\"prune\",\"days\":0,\"dry_run\":true}");
    assert_true(gk_json_get_bool(rig.reply, "dry_run", false));
    rig.no_care = true;
    gk_json_free(rig.reply);
    rig.reply = gk_json_new_object();
    assert_string_equal(ask(&rig, "db", "{\"action\":\"check\"}"), "");
    gk_core_say_bye(rig.core);
    rig_pump(&rig);
    assert_string_equal(gk_json_get_string(rig.reply, "status", ""), "CLOSED");
    (void)rig_work(&rig, 1000);
    assert_string_equal(rig_job_state(&rig, job), "done");
    /* Its age is known after a restart too. */
    uint64_t made_ms = gk_core_counters(rig.core).backup_wall_ms;
    assert_true(made_ms > 0 && made_ms <= rig.wall_ms);
    rig_restart(&rig);
    assert_int_equal(gk_core_counters(rig.core).backup_wall_ms, made_ms);
    rig_close(&rig);
    static const char *const names[] = {"a.db", "b.db"};
    for (size_t i = 0; i < GK_ARRAY_COUNT(names); i++) {
        char *file = gk_asprintf("%s/%s", folder, names[i]);
        (void)unlink(file);
        free(file);
    }
    (void)rmdir(folder);
    free(first);
    free(store);
    free(path);
}

/* Pruning needs the ended job's age; letters and picks stay. */
static void pruning_keeps_picks(void **state)
{
    struct rig rig;
    (void)state;
    rig_open(&rig, ":memory:", TOY);
    rig.fails = never;
    (void)rig_connect(&rig, "s1", "emu:sm_80", 4);
    int64_t job = rig_submit(&rig, "a", "emu-sm_80", 14, ONE);
    (void)rig_work(&rig, 1000);
    OK(&rig, "db", "{\"action\":\"prune\",\"days\":1}");
    assert_int_equal(gk_json_get_int(rig.reply, "trials_deleted", -1), 0);
    rig.wall_ms += UINT64_C(2) * 86400000;
    OK(&rig, "db", "{\"action\":\"prune\",\"days\":1,\"dry_run\":true}");
    assert_int_equal(gk_json_get_int(rig.reply, "trials_deleted", -1), 13);
    int64_t bytes = gk_json_get_int(rig.reply, "bytes", 0);
    OK(&rig, "db", "{\"action\":\"prune\",\"days\":1}");
    assert_int_equal(gk_json_get_int(rig.reply, "trials_deleted", -1), 13);
    assert_int_equal(gk_json_get_int(rig.reply, "bytes", 0), bytes);
    assert_int_equal(rig_count(&rig, "best", "rows", job), 1);
    assert_whole(&rig, NULL);
    rig_close(&rig);
}

/* Keys that may look may not change. */
static void looking_is_not_changing(void **state)
{
    struct rig rig;
    int64_t before = 0, after = 0;
    (void)state;
    rig_open(&rig, ":memory:", TOY);
    (void)rig_connect(&rig, "s1", "emu:sm_80", 4);
    assert_whole(&rig, &before);
    rig.client.roles = GK_ROLE_SUBMIT | GK_ROLE_WORK;
    OK(&rig, "workers", "{}");
    OK(&rig, "dead", "{}");
    static const char *const workers[] = {"drain", "resume", "fence", "unfence"};
    for (size_t i = 0; i < GK_ARRAY_COUNT(workers); i++) {
        assert_string_equal(ask(&rig, "workers",
                                "{\"action\":\"%s\",\"worker\":1,\"device\":\"1/emu:sm_80\","
                                "\"reason\":\"r\"}",
                                workers[i]),
                            "DENIED");
    }
    assert_string_equal(ask(&rig, "dead", "{\"action\":\"retry\",\"all\":true}"), "DENIED");
    assert_string_equal(ask(&rig, "dead", "{\"action\":\"forget\",\"all\":true}"), "DENIED");
    assert_string_equal(ask(&rig, "drain", "{}"), "DENIED");
    assert_string_equal(ask(&rig, "audit", "{}"), "DENIED");
    rig.client.roles = GK_ROLES_ALL;
    assert_string_equal(ask(&rig, "workers", "{\"action\":\"melt\"}"), "INPUT");
    assert_string_equal(ask(&rig, "dead", "{\"action\":\"bury\"}"), "INPUT");
    assert_whole(&rig, &after);
    assert_int_equal(after, before);
    rig_close(&rig);
}

/* What was said over all verbs, for the schema. */
static void messages_for_schema(void **state)
{
    struct rig rig;
    (void)state;
    rig_open(&rig, ":memory:", TOY);
    rig.written = gk_json_new_array();
    rig.fails = never;
    struct rig_worker *worker = rig_connect(&rig, "s1", "emu:sm_80", 1);
    int64_t job = rig_submit(&rig, "a", "emu-sm_80", 8, ONE);
    park_first(&rig, worker);
    OK(&rig, "pause", "{\"jobs\":[%" PRId64 "],\"reason\":\"r\"}", job);
    OK(&rig, "resume", "{\"job\":%" PRId64 "}", job);
    OK(&rig, "retry", "{\"job\":%" PRId64 ",\"reason\":\"r\"}", job);
    OK(&rig, "dead", "{\"action\":\"list\",\"settled\":true,\"cursor\":0}");
    OK(&rig, "dead", "{\"action\":\"show\",\"dead\":1}");
    OK(&rig, "dead", "{\"action\":\"retry\",\"dead\":1,\"reason\":\"r\"}");
    OK(&rig, "dead", "{\"action\":\"forget\",\"all\":true}");
    OK(&rig, "workers", "{\"action\":\"drain\",\"worker\":1,\"reason\":\"r\"}");
    OK(&rig, "workers", "{\"action\":\"resume\",\"worker\":1}");
    device_event(&rig, worker, "fenced", "c");
    rig_hello(&rig, worker);
    OK(&rig, "workers", "{\"action\":\"unfence\",\"device\":\"1/emu:sm_80\",\"reason\":\"r\"}");
    OK(&rig, "drain", "{\"on\":true,\"reason\":\"r\"}");
    OK(&rig, "status", "{}");
    OK(&rig, "drain", "{\"on\":false}");
    OK(&rig, "audit", "{\"cursor\":0}");
    OK(&rig, "audit", "{\"verify\":true}");
    OK(&rig, "db", "{\"action\":\"prune\",\"days\":3,\"dry_run\":true,\"reason\":\"r\"}");
    rig_write(&rig, "test_operators.jsonl");
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waiting_makes_urgent),
        cmocka_unit_test(waiting_is_told_and_bounded),
        cmocka_unit_test(control_is_idempotent),
        cmocka_unit_test(cancel_races_with_results),
        cmocka_unit_test(parked_trials_are_letters),
        cmocka_unit_test(ends_are_counted),
        cmocka_unit_test(a_failed_job_is_reopened),
        cmocka_unit_test(quarantine_and_pardon),
        cmocka_unit_test(the_daemon_drains),
        cmocka_unit_test(a_worker_drains),
        cmocka_unit_test(a_drain_frees_the_final_round),
        cmocka_unit_test(a_device_is_fenced),
        cmocka_unit_test(an_operators_fence_stands),
        cmocka_unit_test(broken_devices_are_noticed),
        cmocka_unit_test(unread_messages_come_first),
        cmocka_unit_test(the_wall_clock_decides_nothing),
        cmocka_unit_test(backups_wait_for_nobody),
        cmocka_unit_test(pruning_keeps_picks),
        cmocka_unit_test(looking_is_not_changing),
        cmocka_unit_test(messages_for_schema),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
