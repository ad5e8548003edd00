/*
 * The score of the emulated device: mutants of gemm_wgmma's PTX that it rejects. A mutant is
 * rejected when one of three schedules ends in a fault, or in a wrong result. Survivors are
 * printed. One kind is equivalent here: a bar.warp.sync that orders no memory, only brings lanes
 * together before an instruction that takes whole warps; there lanes wait for one another anyway.
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
#include "tests/unit/nvrtc_for_tests.h"
#include "tests/unit/ptx_mutants.h"
#include "tests/unit/wgmma_rig.h"

#define SAMPLE     4        /* one in so many, unless GK_MUTANTS_ALL is set */
#define WORK_LIMIT 3000000u /* warp instructions: ten times what a run takes */

static const struct wgmma_config CONFIGS[] = {
    {"0", 2, 128, 128, 2, 1, 2, 1, 1, 512, 512, 192},
    {"1", 2, 64, 96, 2, 1, 1, 1, 1, 1536, 288, 128},
};

static bool rejected(const struct wgmma_config *config, const char *text, char *why, size_t size)
{
    static const enum gk_emu_schedule SCHEDULES[] = {GK_EMU_LATE, GK_EMU_EARLY, GK_EMU_RANDOM};
    struct rig rig;
    bool found = false;

    rig_init(&rig, "sm_90a");
    gk_emu_set_work_limit(rig.emu, WORK_LIMIT);
    rig_ptx(&rig, text);
    for (size_t s = 0; s < GK_ARRAY_COUNT(SCHEDULES) && !found; s++) {
        struct wgmma_problem problem;

        wgmma_make(&rig, config, &problem);
        gk_emu_set_schedule(rig.emu, SCHEDULES[s]);
        if (wgmma_launch(&rig, config, &problem) != GK_OK) {
            found = true;
            (void)snprintf(why, size, "%s", gk_emu_fault_name(rig.report.kind));
        } else if (!wgmma_right(&rig, config, &problem)) {
            found = true;
            (void)snprintf(why, size, "wrong result");
        }
        wgmma_free(&problem);
    }
    rig_fini(&rig);
    return found;
}

static void mutants_of_gemm_wgmma(void **state)
{
    uint32_t total = 0, killed = 0, step = getenv("GK_MUTANTS_ALL") ? 1 : SAMPLE;

    (void)state;
    if (!nvrtc_for_tests_available()) {
        skip();
    }
    for (size_t c = 0; c < GK_ARRAY_COUNT(CONFIGS); c++) {
        char *ptx = wgmma_compile(&CONFIGS[c]);
        struct ptx_mutant mutant;
        char why[100];

        assert_false(rejected(&CONFIGS[c], ptx, why, sizeof(why)));
        for (uint32_t i = 0; ptx_mutant_make(ptx, i, &mutant); i += step) {
            bool dead = rejected(&CONFIGS[c], mutant.text, why, sizeof(why));

            bool equivalent = strncmp(mutant.code, "bar.warp.sync", 13) == 0 && !dead;

            total += !equivalent;
            killed += dead;
            if (!dead && !equivalent) {
                (void)printf("survives: config %zu, PTX line %u, %s: %s\n", c, mutant.line,
                             mutant.what, mutant.code);
            }
            free(mutant.text);
        }
        free(ptx);
    }
    (void)printf("%u of %u mutants rejected\n", killed, total);
    assert_true(total > 0);
    assert_true(killed * 100 >= total * 90);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mutants_of_gemm_wgmma),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
