/* The daemon's core with a device that measures: the vendor's entry, regimes, few passes, rates. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/record.h"
#include "tests/unit/daemon_rig.h"

static const char *const ONE[] = {"scale{\"N\":4096}", NULL};
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

/* Within 2 % of each other: all that the search finds are finalists. */
static double close_times(const char *config)
{
    struct gk_hash hash = gk_hash_text(config);
    return 10000 + hash.bytes[3] % 200;
}

static void open_rig(struct rig *rig, bool has_vendor)
{
    rig_open(rig, ":memory:", TOY);
    rig->fails = never;
    rig->measured.noise = 0.004;
    /* The toy names no vendor; what op.json would say is said here. */
    ((struct gk_op *)(uintptr_t)gk_catalog_find(rig->catalog, "scale"))->vendor.present =
        has_vendor;
}

/* All answers, 10 ms apart; stops before answering a final round when `until_final`. */
static struct gk_json *work(struct rig *rig, bool until_final)
{
    struct rig_worker *worker = &rig->workers[0];
    for (int i = 0; i < 5000; i++) {
        const struct gk_json *lease = worker->lease_count ? worker->leases[0] : NULL;
        if (until_final && lease && strcmp(gk_json_get_string(lease, "kind", ""), "final") == 0) {
            return worker->leases[0];
        }
        rig->now_ns += 10000000u;
        if (rig_work(rig, 1) == 0) {
            return NULL;
        }
    }
    fail_msg("the job never ends");
    return NULL;
}

static const struct gk_json *pick_of(struct rig *rig, int64_t job)
{
    assert_string_equal(rig_job_state(rig, job), "done");
    assert_int_equal(rig_count(rig, "best", "rows", job), 1);
    return gk_json_at(gk_json_get(rig->reply, "rows"), 0);
}

static const struct gk_json *vendor_entry(const struct gk_json *list)
{
    for (size_t i = 0; i < gk_json_count(list); i++) {
        if (gk_json_get_int(gk_json_at(list, i), "trial", -1) == 0) {
            return gk_json_at(list, i);
        }
    }
    return NULL;
}

static const struct gk_json *verdict_of(struct rig *rig, int64_t job)
{
    (void)rig_job_state(rig, job);
    return gk_json_get(gk_json_at(gk_json_get(rig->reply, "tasks"), 0), "verdict");
}

static void the_vendor_takes_part(void **state)
{
    struct rig rig;
    (void)state;
    open_rig(&rig, true);
    rig.measured.vendor_ns = 500; /* far ahead: it must not be picked */
    rig.measured.time_of = close_times;
    (void)rig_connect(&rig, "s1", "cuda:0", 4);
    int64_t job = rig_submit(&rig, "a", "sm_90a", 12, ONE);
    const struct gk_json *lease = work(&rig, true), *entry;
    assert_non_null(lease);
    entry = vendor_entry(gk_json_get(lease, "configs"));
    assert_non_null(entry);
    assert_string_equal(gk_json_get_string(entry, "template", ""), "vendor:cublaslt");
    assert_null(gk_json_get(entry, "config"));
    assert_string_equal(gk_json_string(gk_json_at(gk_json_get(entry, "role"), 0), ""), "vendor");
    (void)work(&rig, false);
    const struct gk_json *pick = pick_of(&rig, job), *vendor = gk_json_get(pick, "vendor");
    assert_true(gk_json_get_real(pick, "time_ns", 0) > 9000);
    assert_true(gk_json_get_real(vendor, "time_ns", 0) < 510);
    double ratio = gk_json_get_real(vendor, "of_vendor", 0);
    assert_true(ratio > 0.048 && ratio < 0.051);
    assert_true(gk_json_get_real(vendor, "of_vendor_low", 0) <= ratio);
    assert_true(gk_json_get_real(vendor, "of_vendor_high", 0) >= ratio);
    assert_string_equal(gk_json_get_string(vendor, "detail", ""), "algo 66, 3 of 8");
    assert_string_equal(gk_json_get_string(pick, "regime", ""), "burst");
    entry = vendor_entry(gk_json_get(verdict_of(&rig, job), "entries"));
    assert_false(gk_json_get_bool(entry, "tied", true));
    assert_false(gk_json_get_bool(entry, "dropped", true));
    rig_close(&rig);
}

static const char *fastest; /* of the first round that a test looked at */

static double one_is_fastest(const char *config)
{
    return fastest && strcmp(config, fastest) == 0 ? 5000 : close_times(config);
}

static bool is_fastest(const char *config)
{
    return fastest && strcmp(config, fastest) == 0;
}

/* A mark of the winner's samples stands in the verdict, with the pick, and in what is exported; the
 * others have none. */
static void marks_go_with_the_pick(void **state)
{
    struct rig rig;
    char winner[256];
    (void)state;
    open_rig(&rig, false);
    rig.measured.time_of = close_times;
    (void)rig_connect(&rig, "s1", "cuda:0", 4);
    (void)rig_submit(&rig, "a", "sm_90a", 12, ONE);
    const struct gk_json *lease = work(&rig, true);
    (void)snprintf(winner, sizeof winner, "%s",
                   gk_json_get_string(gk_json_at(gk_json_get(lease, "configs"), 0), "config", ""));
    rig_close(&rig);
    fastest = winner;
    open_rig(&rig, false);
    rig.measured.time_of = one_is_fastest;
    rig.measured.carries = is_fastest;
    (void)rig_connect(&rig, "s1", "cuda:0", 4);
    int64_t job = rig_submit(&rig, "a", "sm_90a", 12, ONE);
    (void)work(&rig, false);
    const struct gk_json *pick = pick_of(&rig, job), *marks = gk_json_get(pick, "marks");
    assert_string_equal(gk_json_get_string(pick, "config", ""), winner);
    assert_int_equal(gk_json_count(marks), 1);
    assert_string_equal(gk_json_string(gk_json_at(marks, 0), ""), "l2_carried");
    const struct gk_json *entries = gk_json_get(verdict_of(&rig, job), "entries");
    for (size_t i = 0; i < gk_json_count(entries); i++) {
        const struct gk_json *entry = gk_json_at(entries, i);
        bool is = strcmp(gk_json_get_string(entry, "config", ""), winner) == 0;
        assert_int_equal(gk_json_count(gk_json_get(entry, "marks")), is ? 1 : 0);
        assert_true(gk_json_get_real(entry, "twice_ratio", 0) == (is ? 1.25 : 0));
    }
    assert_string_equal(rig_request(&rig, "export_data", NULL), "OK");
    marks = gk_json_get(gk_json_at(gk_json_get(rig.reply, "rows"), 0), "marks");
    assert_int_equal(gk_json_count(marks), 1);
    fastest = NULL;
    rig_close(&rig);
}

/* A pick stands on what its final round verified: all input sets, and the emulated device where the
 * worker looks there. A worker that does not tell leaves it to the search's own ladder. */
static void the_ladder_is_the_final_rounds(void **state)
{
    (void)state;
    for (int tells = 0; tells < 2; tells++) {
        struct rig rig;
        open_rig(&rig, false);
        rig.measured.tells_rungs = tells;
        (void)rig_connect(&rig, "s1", "cuda:0", 4);
        int64_t job = rig_submit(&rig, "a", "sm_90a", 12, ONE);
        (void)work(&rig, false);
        const struct gk_json *pick = pick_of(&rig, job), *ladder = gk_json_get(pick, "ladder");
        size_t searched = gk_json_count(gk_json_get(gk_json_get(pick, "record"), "rungs"));
        assert_int_equal(searched, 2);
        assert_int_equal(gk_json_count(ladder), tells ? 4 : 2);
        if (tells) {
            assert_string_equal(gk_json_get_string(gk_json_at(ladder, 3), "name", ""), "emulated");
        }
        rig_close(&rig);
    }
}

static const char *submit_as(struct rig *rig, const char *id, const char *arch, const char *policy)
{
    struct gk_json *body = rig_submit_body(rig, id, arch, 8, ONE);
    assert_true(gk_json_set_string(body, "policy", policy));
    return rig_request(rig, "submit", body);
}

/* A time of one policy is none of another: both are measured, both have a pick, a job shows its
 * own. */
static void policies_have_picks_of_their_own(void **state)
{
    struct rig rig;
    (void)state;
    open_rig(&rig, false);
    (void)rig_connect(&rig, "s1", "cuda:0", 4);
    int64_t cold = rig_submit(&rig, "a", "sm_90a", 8, ONE);
    (void)work(&rig, false);
    assert_string_equal(gk_json_get_string(pick_of(&rig, cold), "policy", ""), "cold-graph");
    assert_string_equal(submit_as(&rig, "b", "sm_90a", "warm"), "OK");
    int64_t warm = gk_json_get_int(rig.reply, "job", 0);
    assert_int_not_equal(warm, cold);
    const struct gk_json *lease = work(&rig, true);
    assert_non_null(lease);
    assert_string_equal(gk_json_get_string(lease, "policy", ""), "warm");
    (void)work(&rig, false);
    assert_string_equal(gk_json_get_string(pick_of(&rig, warm), "policy", ""), "warm");
    assert_string_equal(gk_json_get_string(pick_of(&rig, cold), "policy", ""), "cold-graph");
    (void)rig_job_state(&rig, warm);
    const struct gk_json *rates = gk_json_get(rig.reply, "rates");
    assert_int_equal(gk_json_get_int(rates, "duplicates", -1), 0);
    assert_int_equal(rig_count(&rig, "best", "rows", 0), 2);
    rig_close(&rig);
}

static void policies_are_refused_by_name(void **state)
{
    struct rig rig;
    (void)state;
    open_rig(&rig, false);
    (void)rig_connect(&rig, "s1", "cuda:0", 4);
    assert_string_equal(submit_as(&rig, "a", "sm_90a", "hot"), "INPUT");
    assert_non_null(strstr(gk_json_get_string(rig.reply, "text", ""), "eager"));
    assert_string_equal(submit_as(&rig, "b", "emu-sm_90a", "warm"), "INPUT");
    assert_non_null(strstr(gk_json_get_string(rig.reply, "text", ""), "modelled"));
    assert_string_equal(submit_as(&rig, "c", "emu-sm_90a", "cold-graph"), "OK");
    rig_close(&rig);
}

static void no_vendor_has_a_reason(void **state)
{
    struct rig rig;
    (void)state;
    open_rig(&rig, true);
    (void)rig_connect(&rig, "s1", "cuda:0", 4);
    int64_t job = rig_submit(&rig, "a", "sm_90a", 12, ONE);
    (void)work(&rig, false);
    const struct gk_json *vendor = gk_json_get(pick_of(&rig, job), "vendor");
    assert_string_equal(gk_json_get_string(vendor, "reason", ""), "libcublasLt.so: not found");
    assert_null(gk_json_get(vendor, "time_ns"));
    assert_null(gk_json_get(vendor, "of_vendor"));
    const struct gk_json *verdict = verdict_of(&rig, job);
    assert_true(gk_json_get_int(verdict, "passes", 0) >= 3);
    assert_true(gk_json_get_bool(vendor_entry(gk_json_get(verdict, "entries")), "dropped", false));
    rig_close(&rig);
}

/* A model has no vendor, and an op that names none has none. */
static void nobody_asks_a_vendor_without_need(void **state)
{
    struct rig rig;
    (void)state;
    for (int modelled = 0; modelled < 2; modelled++) {
        open_rig(&rig, modelled == 1);
        (void)rig_connect(&rig, "s1", modelled ? "emu:sm_90a" : "cuda:0", 4);
        int64_t job = rig_submit(&rig, "a", modelled ? "emu-sm_90a" : "sm_90a", 8, ONE);
        const struct gk_json *lease = work(&rig, true);
        assert_null(vendor_entry(gk_json_get(lease, "configs")));
        (void)work(&rig, false);
        assert_null(gk_json_get(pick_of(&rig, job), "vendor"));
        rig_close(&rig);
    }
}

/* From the fourth pass on the chip is at its power limit: only what was measured there counts, and
 * the number says so. */
static void regimes_are_never_paired(void **state)
{
    struct rig rig;
    (void)state;
    open_rig(&rig, true);
    rig.measured.vendor_ns = 9000;
    rig.measured.time_of = close_times;
    rig.measured.sustained_from = 4;
    struct rig_worker *worker = rig_connect(&rig, "s1", "cuda:0", 4);
    int64_t job = rig_submit(&rig, "a", "sm_90a", 12, ONE);
    (void)work(&rig, false);
    /* Eight finalists, of whom four go on, and the default whatever its place. */
    assert_true(worker->left_out >= 3);
    const struct gk_json *pick = pick_of(&rig, job), *conditions = gk_json_get(pick, "conditions");
    assert_string_equal(gk_json_get_string(pick, "regime", ""), "sustained");
    assert_true(gk_json_get_real(pick, "time_ns", 0) > 12900);
    int64_t passes = gk_json_get_int(pick, "passes", 0);
    assert_true(passes >= 3);
    assert_int_equal(gk_json_get_int(conditions, "dropped", 0), passes);
    const struct gk_json *clock = gk_json_get(conditions, "sm_clock_khz");
    assert_int_equal(gk_json_int(gk_json_at(clock, 0), 0), 1500000);
    assert_int_equal(gk_json_int(gk_json_at(clock, 1), 0), 1500000);
    const struct gk_json *verdict = verdict_of(&rig, job);
    assert_int_equal(gk_json_get_int(verdict, "passes_all", 0),
                     gk_json_get_int(verdict, "passes", 0) + 3);
    assert_int_equal(gk_json_get_int(verdict, "passes", 0), passes);
    rig_close(&rig);
}

/* Of six problems four are searched at a time: the first verdicts come long before the last search
 * begins, so that a run that is stopped has picks. */
static void searches_come_four_at_a_time(void **state)
{
    static const char *const SIX[] = {"scale{\"N\":4096}",
                                      "scale{\"N\":4160}",
                                      "scale{\"N\":4224}",
                                      "scale{\"N\":4288}",
                                      "scale{\"N\":4352}",
                                      "scale{\"N\":4416}",
                                      NULL};
    struct rig rig;
    (void)state;
    open_rig(&rig, false);
    struct rig_worker *worker = rig_connect(&rig, "s1", "cuda:0", 48);
    int64_t job = rig_submit(&rig, "a", "sm_90a", 8, SIX);
    const char *seen[8];
    uint32_t problems = 0;
    for (uint32_t i = 0; i < worker->lease_count; i++) {
        const char *problem = gk_json_get_string(worker->leases[i], "problem", "");
        uint32_t at = 0;
        while (at < problems && strcmp(seen[at], problem) != 0) {
            at++;
        }
        seen[at] = problem;
        problems += at == problems;
    }
    assert_int_equal(problems, 4);
    (void)work(&rig, false);
    assert_string_equal(rig_job_state(&rig, job), "done");
    assert_int_equal(rig_count(&rig, "best", "rows", job), 6);
    rig_close(&rig);
}

static void finishing_waits_for_three_passes(void **state)
{
    struct rig rig;
    (void)state;
    open_rig(&rig, false);
    rig.measured.noise = 0.2; /* nothing would settle before the last pass */
    rig.measured.time_of = close_times;
    (void)rig_connect(&rig, "s1", "cuda:0", 4);
    int64_t job = rig_submit(&rig, "a", "sm_90a", 18, ONE);
    (void)rig_work(&rig, 6);
    struct gk_json *body = gk_json_new_object();
    assert_true(gk_json_set_int(body, "job", job));
    assert_string_equal(rig_request(&rig, "finish", body), "OK");
    (void)work(&rig, false);
    assert_int_equal(gk_json_get_int(pick_of(&rig, job), "passes", 0), 3);
    rig_close(&rig);
}

static void a_noisy_round_ends_with_its_passes(void **state)
{
    struct rig rig;
    (void)state;
    open_rig(&rig, false);
    rig.measured.noise = 0.05;
    rig.measured.time_of = close_times;
    (void)rig_connect(&rig, "s1", "cuda:0", 4);
    int64_t job = rig_submit(&rig, "a", "sm_90a", 18, ONE);
    const struct gk_json *lease = work(&rig, true);
    size_t configs = gk_json_count(gk_json_get(lease, "configs"));
    assert_true(configs >= 6 && configs <= 18);
    (void)work(&rig, false);
    const struct gk_json *pick = pick_of(&rig, job);
    assert_true(gk_json_get_int(pick, "passes", 0) >= 5);
    assert_true(gk_json_get_real(pick, "noise_floor", 0) > 0);
    /* Nobody beats the default by noise of 5 %. */
    assert_string_equal(gk_json_get_string(pick, "kind", ""), "default");
    rig_close(&rig);
}

static void rates_count_what_was_new(void **state)
{
    struct rig rig;
    (void)state;
    open_rig(&rig, false);
    rig.fails = NULL;
    (void)rig_connect(&rig, "s1", "cuda:0", 4);
    int64_t job = rig_submit(&rig, "a", "sm_90a", 12, ONE);
    (void)work(&rig, false);
    assert_string_equal(rig_job_state(&rig, job), "done");
    const struct gk_json *rates = gk_json_get(rig.reply, "rates");
    int64_t verified = gk_json_get_int(rates, "verified", -1),
            failed = gk_json_get_int(rates, "failed", -1);
    assert_int_equal(verified + failed, 12);
    assert_int_equal(failed, gk_json_get_int(rig.reply, "failed", -2));
    assert_int_equal(gk_json_get_int(rates, "duplicates", -1), 0);
    assert_int_equal(gk_json_get_int(rates, "cold", -1), 12);
    /* 12 results 10 ms apart, the first of them 10 ms after its lease. */
    double search = gk_json_get_real(rates, "search_s", 0);
    assert_true(search > 0.1199 && search < 0.1201);
    assert_true(gk_json_get_real(rates, "final_s", 0) > 0.0299);
    double per_s = gk_json_get_real(rates, "verified_per_s", 0);
    assert_true(per_s > (double)verified / 0.1201 && per_s < (double)verified / 0.1199);
    double busy = gk_json_get_real(rates, "gpu_busy", 0);
    assert_true(busy > 0.0799 && busy < 0.0801); /* 0.8 of 10 ms each */
    assert_true(gk_json_get_real(rates, "gpu_busy_verify", 0) > 0.0199);
    assert_true(gk_json_get_real(rates, "gpu_busy_final", 0) > 0.29); /* 3 of 10 ms */
    assert_int_equal(rig_count(&rig, "trials", "trials", job), 12);
    const struct gk_json *trials = gk_json_get(rig.reply, "trials"), *marks = NULL;
    for (size_t i = 0; i < 12 && !marks; i++) {
        marks = gk_json_get(gk_json_at(trials, i), "marks");
    }
    assert_string_equal(gk_json_string(gk_json_at(marks, 0), ""), "unstable");
    rig.wall_ms += 3600000; /* an hour later */
    rig.now_ns += UINT64_C(3600) * 1000000000u;
    rig_hello(&rig, &rig.workers[0]);
    rig_ready(&rig, &rig.workers[0], 4);
    int64_t again = rig_submit(&rig, "b", "sm_90a", 12, ONE);
    (void)work(&rig, false);
    assert_string_equal(rig_job_state(&rig, again), "done");
    rates = gk_json_get(rig.reply, "rates");
    assert_int_equal(gk_json_get_int(rates, "verified", -1), 0);
    assert_int_equal(gk_json_get_int(rates, "duplicates", -1), 12);
    assert_true(gk_json_get_real(rates, "search_s", 9) < 0.001);
    assert_null(gk_json_get(rates, "gpu_busy")); /* nothing ran: not nought per cent */
    rig_close(&rig);
}

/* What a store answers is worth what it was worth when it was measured: the same command asks the
 * same, in the same order, and its answer stays. */
static void the_same_command_asks_the_same(void **state)
{
    struct rig rig;
    char *asked[2] = {0};
    (void)state;
    static const char *const GEMM[] = {"gemm{\"K\":2048,\"M\":2048,\"N\":2048}", NULL};
    rig_open(&rig, ":memory:", "kernels");
    rig.measured.noise = 0.004;
    (void)rig_connect(&rig, "s1", "cuda:0", 4);
    for (int turn = 0; turn < 2; turn++) {
        struct gk_json *body = rig_submit_body(&rig, turn ? "b" : "a", "sm_90a", 96, GEMM);
        assert_true(gk_json_set_string(body, "strategy", "portfolio"));
        assert_string_equal(rig_request(&rig, "submit", body), "OK");
        int64_t job = gk_json_get_int(rig.reply, "job", 0);
        (void)work(&rig, false);
        struct gk_buf text = {0};
        assert_int_equal(rig_count(&rig, "trials", "trials", job), 96);
        const struct gk_json *trials = gk_json_get(rig.reply, "trials");
        for (size_t i = 0; i < 96; i++) {
            const struct gk_json *trial = gk_json_at(trials, i);
            assert_int_equal(gk_json_get_int(trial, "reused", 0) != 0, turn);
            gk_buf_printf(&text, "%s\n", gk_json_get_string(trial, "config", ""));
        }
        asked[turn] = gk_strdup(gk_buf_text(&text));
        gk_buf_fini(&text);
    }
    assert_string_equal(asked[0], asked[1]);
    free(asked[0]);
    free(asked[1]);
    rig_close(&rig);
}

/* A submission of one problem, with one more member; returns whether a final round is held. */
static bool holds_a_round(struct rig *rig, const char *id, int64_t budget, const char *member,
                          int64_t *job_out)
{
    struct gk_json *body = rig_submit_body(rig, id, "sm_90a", budget, ONE);
    assert_true(!member || gk_json_set_bool(body, member, true));
    assert_string_equal(rig_request(rig, "submit", body), "OK");
    *job_out = gk_json_get_int(rig->reply, "job", 0);
    bool held = work(rig, true) != NULL;
    (void)work(rig, false);
    return held;
}

/* A round over the same finalists would be another draw of the same dice: the pick stands, its row
 * as it is, unless somebody asks for a fresh one or there is something new to compare. */
static void a_pick_stands(void **state)
{
    struct rig rig;
    int64_t job = 0;
    (void)state;
    open_rig(&rig, true);
    rig.measured.vendor_ns = 9000;
    rig.measured.time_of = close_times;
    (void)rig_connect(&rig, "s1", "cuda:0", 4);
    assert_true(holds_a_round(&rig, "a", 6, NULL, &job));
    struct gk_json *first = gk_json_copy(pick_of(&rig, job));
    rig.wall_ms += 5000;
    assert_false(holds_a_round(&rig, "b", 6, NULL, &job));
    struct gk_json *second = gk_json_copy(pick_of(&rig, job));
    assert_int_equal(gk_json_get_int(second, "age_ms", 0) - gk_json_get_int(first, "age_ms", 0),
                     5000);
    assert_true(gk_json_set_int(second, "age_ms", gk_json_get_int(first, "age_ms", 0)));
    assert_true(gk_json_equal(first, second));
    (void)rig_job_state(&rig, job);
    const struct gk_json *task = gk_json_at(gk_json_get(rig.reply, "tasks"), 0);
    assert_string_equal(gk_json_get_string(task, "state", ""), "done");
    assert_non_null(strstr(gk_json_get_string(task, "reason", ""), "--fresh"));
    /* an earlier one stands still when the one between measured nothing */
    assert_false(holds_a_round(&rig, "c", 6, NULL, &job));
    assert_true(holds_a_round(&rig, "d", 6, "spread", &job));
    rig.wall_ms += 5000;
    assert_true(holds_a_round(&rig, "e", 6, "fresh", &job));
    const struct gk_json *pick = pick_of(&rig, job);
    assert_int_equal(gk_json_get_int(pick, "job", 0), job);
    assert_true(gk_json_get_int(pick, "confirmed_ms", 0) >
                gk_json_get_int(first, "confirmed_ms", 0));
    assert_true(holds_a_round(&rig, "f", 12, NULL, &job)); /* more finalists than then */
    assert_false(holds_a_round(&rig, "g", 12, NULL, &job));
    rig.driver = "600.1";
    rig_hello(&rig, &rig.workers[0]);
    rig_ready(&rig, &rig.workers[0], 4);
    assert_true(holds_a_round(&rig, "h", 12, NULL, &job));
    gk_json_free(first);
    gk_json_free(second);
    rig_close(&rig);
}

/* A pass whose conditions are longer than a page of the store. */
static struct gk_json *crowded_pass(void)
{
    struct gk_json *body = gk_json_new_object(), *environment = gk_json_new_object();
    char *word = calloc(1, GK_RECORD_EXTRA_MAX + 1);
    assert_non_null(word);
    memset(word, 'x', GK_RECORD_EXTRA_MAX);
    assert_true(gk_json_set_string(environment, "regime", word));
    assert_true(gk_json_set_int(body, "pass", 1) &&
                gk_json_set(body, "samples", gk_json_new_array()) &&
                gk_json_set(body, "environment", environment));
    free(word);
    return body;
}

static void a_malformed_pass_is_never_sent_again(void **state)
{
    static const struct {
        const char *pass, *part; /* NULL: a crowded one */
    } rows[] = {
        {"{\"pass\":1,\"samples\":\"none\"}", "samples"},
        {"{\"pass\":1,\"samples\":[{\"trial\":1,\"ns\":[10.5,0]}]}", "is 0 ns, more than 0"},
        {"{\"pass\":1,\"samples\":[{\"trial\":1,\"ns\":[10.5],\"rungs\":\"all\"}]}",
         "rungs: a list of at most 24"},
        {"{\"pass\":1,\"samples\":[{\"trial\":1,\"ns\":[10.5],\"rungs\":[{\"name\":\"exact\"}]}]}",
         "passed"},
        {"{\"pass\":1,\"samples\":[],\"environment\":[7]}", "\"environment\" is [7]; an object is"},
        {NULL, "at most 16384 are allowed"},
    };
    (void)state;
    for (size_t i = 0; i < GK_ARRAY_COUNT(rows); i++) {
        struct rig rig;
        open_rig(&rig, false);
        struct rig_worker *worker = rig_connect(&rig, "s1", "cuda:0", 4);
        int64_t job = rig_submit(&rig, "a", "sm_90a", 8, ONE);
        const struct gk_json *lease = work(&rig, true);
        struct gk_json *body = rows[i].pass ? NULL : crowded_pass();
        if (rows[i].pass) {
            assert_int_equal(gk_json_parse(rows[i].pass, strlen(rows[i].pass), "test", &body, NULL),
                             GK_OK);
        }
        rig_send(&rig, worker, GK_MSG_RESULT, gk_json_get_int(lease, "token", 0), body);
        assert_int_equal(worker->acks_dropped, 1);
        assert_int_equal(worker->errors, 1);
        assert_non_null(strstr(worker->told, rows[i].part));
        rig_forget(worker, 0);
        (void)work(&rig, false); /* the round begins anew, under another token */
        (void)pick_of(&rig, job);
        rig_close(&rig);
    }
}

/* Whose turn it was is known after a restart: three workers lost to a config end it. */
static void begun_leases_are_known_after_a_restart(void **state)
{
    struct rig rig;
    (void)state;
    open_rig(&rig, false);
    struct rig_worker *worker = rig_connect(&rig, "s1", "cuda:0", 1);
    (void)rig_submit(&rig, "a", "sm_90a", 8, ONE);
    for (int attempt = 0; attempt < 3; attempt++) {
        assert_int_equal(gk_json_get_int(worker->leases[0], "attempt", -1), attempt);
        rig_started(&rig, worker, gk_json_get_int(worker->leases[0], "token", 0));
        rig_restart(&rig);
        rig_forget(worker, 0);
        rig_hello(&rig, worker);
        rig_ready(&rig, worker, 1);
    }
    assert_int_equal(gk_core_counters(rig.core).parked, 1);
    rig_close(&rig);
}

static void rows_carry_their_device(void **state)
{
    struct rig rig;
    struct gk_device_props props, want;
    (void)state;
    open_rig(&rig, true);
    rig.written = gk_json_new_array();
    (void)rig_connect(&rig, "s1", "cuda:0", 4);
    (void)rig_submit(&rig, "a", "sm_90a", 8, ONE);
    (void)work(&rig, false);
    assert_string_equal(rig_request(&rig, "export_data", NULL), "OK");
    const struct gk_json *row = gk_json_at(gk_json_get(rig.reply, "rows"), 0);
    assert_int_equal(gk_device_props_from_json(gk_json_get(row, "device"), &props, NULL), GK_OK);
    rig_props("cuda:0", &want);
    assert_string_equal(props.gpu, "h200-132sm");
    assert_int_equal(props.sms, want.sms);
    assert_int_equal(props.l2_bytes, want.l2_bytes);
    rig_write(&rig, "test_measured.jsonl");
    rig_close(&rig);
}

/* All answers of a worker that takes two leases at most. */
static void work_by_twos(struct rig *rig, struct rig_worker *worker)
{
    for (int i = 0; i < 5000; i++) {
        if (worker->lease_count == 0) {
            rig_ready(rig, worker, 2);
        }
        worker->credit = 2; /* it asks for no more by itself */
        rig->now_ns += 10000000u;
        if (rig_work(rig, 1) == 0) {
            return;
        }
    }
    fail_msg("the job never ends");
}

/* What a job of five seconds runs of trials that cost so much. */
static int64_t trials_of_five_seconds(double trial_ns, bool (*fails)(const char *config))
{
    struct rig rig;
    open_rig(&rig, false);
    rig.trial_ns = trial_ns;
    rig.fails = fails;
    struct rig_worker *worker = rig_connect(&rig, "s1", "cuda:0", 2);
    struct gk_json *body = rig_submit_body(&rig, "a", "sm_90a", 1, ONE);
    struct gk_json *budget = gk_json_new_object();
    assert_true(gk_json_set_int(budget, "seconds", 5) && gk_json_set(body, "budget", budget));
    assert_string_equal(rig_request(&rig, "submit", body), "OK");
    int64_t job = gk_json_get_int(rig.reply, "job", 0);
    work_by_twos(&rig, worker);
    if (fails == never) {
        (void)pick_of(&rig, job);
    }
    (void)rig_job_state(&rig, job);
    int64_t trials = gk_json_get_int(rig.reply, "trials", 0);
    rig_close(&rig);
    return trials;
}

/* What was asked ahead is not run on and on where a trial costs a second: four are the search's,
 * and one was on its way. As long as nothing is verified it is; and a space that has been asked for
 * whole is run whole while there is time. */
static void seconds_are_not_overrun(void **state)
{
    (void)state;
    int64_t all = trials_of_five_seconds(1e6, never);
    assert_true(all > 8);
    assert_in_range(trials_of_five_seconds(1e9, never), 4, 6);
    assert_true(trials_of_five_seconds(1e9, always) > 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_vendor_takes_part),
        cmocka_unit_test(marks_go_with_the_pick),
        cmocka_unit_test(the_ladder_is_the_final_rounds),
        cmocka_unit_test(policies_have_picks_of_their_own),
        cmocka_unit_test(policies_are_refused_by_name),
        cmocka_unit_test(no_vendor_has_a_reason),
        cmocka_unit_test(nobody_asks_a_vendor_without_need),
        cmocka_unit_test(regimes_are_never_paired),
        cmocka_unit_test(searches_come_four_at_a_time),
        cmocka_unit_test(finishing_waits_for_three_passes),
        cmocka_unit_test(a_noisy_round_ends_with_its_passes),
        cmocka_unit_test(rates_count_what_was_new),
        cmocka_unit_test(the_same_command_asks_the_same),
        cmocka_unit_test(a_pick_stands),
        cmocka_unit_test(a_malformed_pass_is_never_sent_again),
        cmocka_unit_test(begun_leases_are_known_after_a_restart),
        cmocka_unit_test(rows_carry_their_device),
        cmocka_unit_test(seconds_are_not_overrun),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
