/*
 * The score of the emulated device: mutants of the templates' PTX that it rejects.
 *
 * A mutant is rejected when one of three schedules ends in a fault or in a wrong result. What
 * survives must stand in tests/data/mutants/equivalent.txt with the reason why it changes nothing;
 * a survivor without an entry fails the test, and so does an entry that no longer survives, or, if
 * all mutants run, that meets none. A text that the decoder refuses is a mistake of the tool, no
 * rejection.
 *
 * All run with GKTUNE_TEST_ALL set, else a sample by GKTUNE_TEST_SEED. Arguments
 * are templates to which the run is confined.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/prng.h"
#include "tests/support/check.h"
#include "tests/support/exhaustive.h"
#include "tests/unit/mutant_table.h"
#include "tests/unit/nvrtc_for_tests.h"
#include "tests/unit/template_cases.h"

#define TABLE GK_SOURCE_DIR "/tests/data/mutants/equivalent.txt"

/* Mutants of a template that a sample takes: some twenty seconds on one core in all. Sanitizers
 * cost ten times as much. */
#ifdef __SANITIZE_ADDRESS__
#define SAMPLE 8u
#else
#define SAMPLE 40u
#endif

/* Work of a mutant, times that of the original: it may go astray for long. */
#define WORK_FACTOR 10u
#define WORK_LEAST  100000u

/* ------------------------------------------------------------------ running mutants */

struct score {
    const char *source;
    uint32_t rejected, equivalent, wrong; /* wrong: against the table */
    uint32_t survived, left_out;          /* without an entry; not in the sample */
    uint32_t by_value, by_race, by_deadlock, by_other;
};

/* Whether a schedule ends otherwise than right; `end` is then how. */
static bool rejected(const struct template_case *one, char *const *texts, uint64_t limit,
                     struct template_end *end)
{
    static const enum gk_emu_schedule SCHEDULES[] = {GK_EMU_LATE, GK_EMU_EARLY, GK_EMU_RANDOM};

    for (uint32_t shape = 0; shape < template_shapes(one); shape++) {
        for (size_t s = 0; s < GK_ARRAY_COUNT(SCHEDULES); s++) {
            template_run(one, shape, texts, SCHEDULES[s], 1, limit, end);
            if (!end->right) {
                return true;
            }
        }
    }
    return false;
}

static void count_kind(struct score *score, const struct template_end *end)
{
    score->rejected++;
    score->by_value += end->fault == GK_EMU_FAULT_NONE;
    score->by_race += end->fault == GK_EMU_FAULT_RACE;
    score->by_deadlock += end->fault == GK_EMU_FAULT_DEADLOCK;
    score->by_other += end->fault != GK_EMU_FAULT_NONE && end->fault != GK_EMU_FAULT_RACE &&
                       end->fault != GK_EMU_FAULT_DEADLOCK;
}

static void try_mutant(const struct template_case *one, uint32_t launch, char *const *originals,
                       uint32_t index, uint64_t limit, struct score *score)
{
    char *texts[TEMPLATE_LAUNCHES_MAX] = {originals[0], originals[1]}, place[400];
    struct template_end end;
    struct ptx_mutant mutant;
    struct mutant_entry *entry;
    bool dead;

    assert_true(ptx_mutant_make(originals[launch], launch != 0, index, &mutant));
    texts[launch] = mutant.text;
    dead = rejected(one, texts, limit, &end);
    if (dead && !end.loaded) {
        fail_msg("%s, PTX line %u, %s: the changed text is not PTX: %s", score->source, mutant.line,
                 mutant.what, end.why);
    }
    mutant_place("gemm", &mutant, place, sizeof(place));
    entry = mutant_table_find(score->source, &mutant, place);
    if (entry) {
        entry->met++;
    }
    if (dead) {
        count_kind(score, &end);
    } else if (entry) {
        score->equivalent++;
    }
    if (dead == (entry != NULL)) {
        score->wrong++;
        score->survived += !dead;
        (void)printf("%s: %s | %s | %s | %s (%s, PTX line %u)\n  %s\n",
                     dead ? "no longer survives" : "survives without an entry", score->source,
                     mutant.what, mutant.opcode, place, one->what, mutant.line,
                     dead ? end.why : mutant.code);
    } else if (getenv("GK_MUTANTS_SHOW")) {
        (void)printf("%s | %s | %s | %s | %s\n", score->source, mutant.what, mutant.opcode, place,
                     dead ? end.why : "equivalent");
    }
    free(mutant.text);
}

/* All mutants of a launch, or `take` of them by the seed. */
static void try_launch(const struct template_case *one, uint32_t launch, char *const *originals,
                       uint64_t limit, uint32_t take, struct score *score)
{
    const char *text = getenv("GKTUNE_TEST_SEED");
    uint32_t count = ptx_mutant_count(originals[launch], launch != 0),
             left = take < count ? take : count;
    struct gk_prng prng;

    score->left_out += count - left;
    gk_prng_init(&prng, text ? strtoull(text, NULL, 10) : 1, count);
    for (uint32_t i = 0; i < count && left; i++) { /* each one with equal chance */
        if (gk_prng_below(&prng, count - i) < left) {
            left--;
            try_mutant(one, launch, originals, i, limit, score);
        }
    }
}

/* The launch of a case that this source is; template_launches() if it is none. */
static uint32_t launch_of(const struct template_case *one, const char *source)
{
    uint32_t launch = 0;

    while (launch < template_launches(one) && strcmp(template_source(one, launch), source) != 0) {
        launch++;
    }
    return launch;
}

static uint32_t cases_of(const char *source)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < template_case_count(); i++) {
        const struct template_case *one = template_case_at(i);

        count += launch_of(one, source) < template_launches(one);
    }
    return count;
}

static void print_score(const struct score *score)
{
    (void)printf(
        "mutants: %s: %u of %u rejected (%u races, %u deadlocks, %u other faults, %u wrong "
        "values), %u equivalent",
        score->source, score->rejected, score->rejected + score->survived, score->by_race,
        score->by_deadlock, score->by_other, score->by_value, score->equivalent);
    (void)(score->left_out ? printf("; %u not in this sample\n", score->left_out) : printf("\n"));
}

static void mutants_of(void **state)
{
    struct score score = {.source = *state};
    uint32_t take = test_takes_all() ? UINT32_MAX : SAMPLE / cases_of(score.source);

    if (!nvrtc_for_tests_available()) {
        skip();
    }
    for (uint32_t i = 0; i < template_case_count(); i++) {
        const struct template_case *one = template_case_at(i);
        uint32_t chosen = launch_of(one, score.source);
        char *texts[TEMPLATE_LAUNCHES_MAX] = {NULL, NULL};
        struct template_end end;

        if (chosen == template_launches(one)) {
            continue;
        }
        for (uint32_t launch = 0; launch < template_launches(one); launch++) {
            texts[launch] = template_compile(one, launch, NULL);
        }
        if (rejected(one, texts, 0, &end)) {
            fail_msg("%s, %s, as it is: %s", score.source, one->what, end.why);
        }
        try_launch(one, chosen, texts, end.work * WORK_FACTOR + WORK_LEAST, take, &score);
        free(texts[0]);
        free(texts[1]);
    }
    print_score(&score);
    assert_true(score.rejected > 0);
    assert_int_equal(score.wrong, 0);
}

/* After all the others. */
static void no_entry_is_stale(void **state)
{
    uint32_t stale = test_takes_all() ? mutant_table_stale() : 0;

    (void)state;
    assert_int_equal(stale, 0);
}

int main(int argc, char **argv)
{
    static const char *const SOURCES[] = {"gemm_mma", "gemm_splitk_reduce", "gemm_wgmma",
                                          "gemv_mma", "gemv_tma"};
    struct CMUnitTest tests[GK_ARRAY_COUNT(SOURCES) + 1];
    size_t count = 0;
    int failed;

    mutant_table_load(TABLE);
    for (size_t i = 0; i < GK_ARRAY_COUNT(SOURCES); i++) {
        bool chosen = argc == 1;

        for (int a = 1; a < argc; a++) {
            chosen = chosen || strcmp(argv[a], SOURCES[i]) == 0;
        }
        if (chosen) {
            tests[count++] = (struct CMUnitTest){.name = SOURCES[i],
                                                 .test_func = mutants_of,
                                                 .initial_state = (void *)(uintptr_t)SOURCES[i]};
        }
    }
    if (argc == 1) {
        tests[count++] = (struct CMUnitTest)cmocka_unit_test(no_entry_is_stale);
    }
    failed = _cmocka_run_group_tests("mutants", tests, count, NULL, NULL);
    mutant_table_free();
    return failed;
}
