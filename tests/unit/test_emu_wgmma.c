/*
 * gemm_wgmma as it ships, on the emulated device: TMA, mbarriers, wgmma, clusters, stores. Small
 * problems with ragged edges, corner configs, every schedule; results bit-equal to sums in double
 * of inputs that are exact in every order.
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
#include "tests/unit/wgmma_rig.h"
#include "tests/unit/nvrtc_for_tests.h"

#define SMALL_K 128

static const struct wgmma_config CONFIGS[] = {
    {"0", 1, 64, 64, 2, 1, 1, 1, 1, 100, 72, SMALL_K},
    {"0", 2, 128, 128, 4, 2, 1, 1, 1, 256, 256, 256},
    {"0", 2, 128, 128, 3, 2, 2, 1, 1, 256, 200, 192},
    {"0", 2, 256, 64, 2, 1, 1, 2, 1, 300, 160, SMALL_K},
    {"1", 2, 64, 96, 4, 2, 1, 1, 1, 200, 200, 200},
    {"1", 2, 64, 256, 3, 1, 1, 1, 1, 256, 512, SMALL_K},
    {"0", 2, 128, 128, 2, 1, 2, 1, 2, 200, 136, 320},
    {"0", 1, 64, 64, 2, 1, 1, 1, 3, 70, 72, 320},
};

/* The counters of parts are zero between launches: the next one counts from there. */
static void compare_arrivals(struct rig *rig, const struct wgmma_problem *problem)
{
    uint32_t left[64] = {0};

    if (problem->darrivals) {
        rig_download(rig, problem->darrivals, left, problem->arrivals * 4);
        for (uint32_t i = 0; i < problem->arrivals; i++) {
            assert_int_equal(left[i], 0);
        }
    }
}

static void gemms(void **state)
{
    static const enum gk_emu_schedule SCHEDULES[] = {GK_EMU_LATE, GK_EMU_EARLY, GK_EMU_RANDOM};

    (void)state;
    if (!nvrtc_for_tests_available()) {
        skip();
    }
    for (size_t i = 0; i < GK_ARRAY_COUNT(CONFIGS); i++) {
        struct rig rig;
        struct wgmma_problem problem;
        char *ptx = wgmma_compile(&CONFIGS[i]);

        rig_init(&rig, "sm_90a");
        rig_ptx(&rig, ptx);
        wgmma_make(&rig, &CONFIGS[i], &problem);
        for (size_t s = 0; s < GK_ARRAY_COUNT(SCHEDULES); s++) {
            gk_emu_set_schedule(rig.emu, SCHEDULES[s]);
            if (wgmma_launch(&rig, &CONFIGS[i], &problem) != GK_OK) {
                fail_msg("config %zu, schedule %zu: %s", i, s, rig.err.text);
            }
            if (!wgmma_right(&rig, &CONFIGS[i], &problem)) {
                fail_msg("config %zu, schedule %zu: %s", i, s, rig.err.text);
            }
            compare_arrivals(&rig, &problem);
        }
        wgmma_free(&problem);
        free(ptx);
        rig_fini(&rig);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gemms),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
