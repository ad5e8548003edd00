/*
 * Right templates are not accused: every case of template_cases.h, each of its problems, under 200
 * random schedules where GKTUNE_TEST_ALL is set, else under a few by
 * GKTUNE_TEST_SEED.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/check.h"
#include "tests/support/exhaustive.h"
#include "tests/unit/nvrtc_for_tests.h"
#include "tests/unit/template_cases.h"

#define CASES_MAX 40u
#define SEEDS_ALL 200u
#ifdef __SANITIZE_ADDRESS__ /* costs ten times as much, and finds what few seeds find */
#define SEEDS_FEW 1u
#else
#define SEEDS_FEW 4u
#endif

static uint64_t runs;

static uint32_t seeds(void)
{
    return test_takes_all() ? SEEDS_ALL : SEEDS_FEW;
}

static void right_under_all(void **state)
{
    const struct template_case *one = *state;
    const char *text = getenv("GKTUNE_TEST_SEED");
    uint64_t first = text ? strtoull(text, NULL, 10) * SEEDS_ALL : 0;
    char *texts[TEMPLATE_LAUNCHES_MAX] = {NULL, NULL};

    if (!nvrtc_for_tests_available()) {
        skip();
    }
    for (uint32_t launch = 0; launch < template_launches(one); launch++) {
        texts[launch] = template_compile(one, launch, NULL);
    }
    for (uint32_t shape = 0; shape < template_shapes(one); shape++) {
        for (uint64_t i = 0; i < seeds(); i++, runs++) {
            struct template_end end;

            template_run(one, shape, texts, GK_EMU_RANDOM, first + i, 0, &end);
            if (!end.right) {
                fail_msg("%s, %s, problem %u, seed %u: %s", one->template_, one->what, shape,
                         (unsigned)(first + i), end.why);
            }
        }
    }
    free(texts[0]);
    free(texts[1]);
}

int main(void)
{
    static struct CMUnitTest tests[CASES_MAX];
    static char names[CASES_MAX][160];
    uint32_t count = template_case_count();
    int failed;

    if (count > CASES_MAX) {
        (void)fprintf(stderr, "%u cases, room for %u\n", count, CASES_MAX);
        return 1;
    }
    for (uint32_t i = 0; i < count; i++) {
        const struct template_case *one = template_case_at(i);

        (void)snprintf(names[i], sizeof(names[i]), "%s: %s", one->template_, one->what);
        tests[i] = (struct CMUnitTest){.name = names[i],
                                       .test_func = right_under_all,
                                       .initial_state = (void *)(uintptr_t)one};
    }
    failed = _cmocka_run_group_tests("seeds", tests, count, NULL, NULL);
    if (!failed) {
        (void)printf("seeds: no false alarm in %u runs of %u cases under %u random schedules\n",
                     (unsigned)runs, count, seeds());
    }
    return failed;
}
