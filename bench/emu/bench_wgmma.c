/*
 * How long the emulated device takes to verify one config of gemm_wgmma: three schedules with
 * races looked for, each result compared with sums made here. Compiling is not counted.
 *
 *   bench_wgmma [--size N] [--json]
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/unit/nvrtc_for_tests.h"
#include "tests/unit/wgmma_rig.h"

static double now_s(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double verify(const struct wgmma_config *config, const char *ptx,
                     enum gk_emu_schedule schedule, double *compare_s)
{
    struct wgmma_problem problem;
    struct rig rig;
    double begin, end;

    rig_init(&rig, "sm_90a");
    rig_ptx(&rig, ptx);
    wgmma_make(&rig, config, &problem);
    gk_emu_set_schedule(rig.emu, schedule);
    begin = now_s();
    if (wgmma_launch(&rig, config, &problem) != GK_OK) {
        (void)fprintf(stderr, "bench_wgmma: %s\n", rig.err.text);
        exit(1);
    }
    end = now_s();
    if (!wgmma_right(&rig, config, &problem)) {
        exit(1);
    }
    *compare_s += now_s() - end;
    wgmma_free(&problem);
    rig_fini(&rig);
    return end - begin;
}

int main(int argc, char **argv)
{
    struct wgmma_config configs[] = {
        {"0", 2, 128, 128, 4, 2, 1, 1, 1, 256, 256, 256},
        {"0", 2, 128, 128, 4, 2, 2, 1, 1, 256, 256, 256},
        {"1", 2, 64, 128, 4, 2, 1, 1, 1, 256, 256, 256},
        {"0", 1, 64, 64, 4, 2, 1, 1, 1, 256, 256, 256},
    };
    bool json = false;
    uint32_t size = 256;

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0) {
            json = true;
        } else if (strcmp(argv[i], "--size") == 0 && i + 1 < argc) {
            size = (uint32_t)strtoul(argv[++i], NULL, 10);
        } else {
            (void)fprintf(stderr, "bench_wgmma: %s is no option; allowed: --size N, --json\n",
                          argv[i]);
            return 2;
        }
    }
    if (!nvrtc_for_tests_available()) {
        (void)fprintf(stderr, "bench_wgmma: there is no NVRTC here\n");
        return 1;
    }
    for (size_t c = 0; c < sizeof(configs) / sizeof(configs[0]); c++) {
        double late, early, random, compare = 0;
        char *ptx;

        configs[c].m = configs[c].n = configs[c].k = size;
        ptx = wgmma_compile(&configs[c]);
        late = verify(&configs[c], ptx, GK_EMU_LATE, &compare);
        early = verify(&configs[c], ptx, GK_EMU_EARLY, &compare);
        random = verify(&configs[c], ptx, GK_EMU_RANDOM, &compare);
        printf(json ? "{\"config\": %zu, \"size\": %u, \"late_s\": %.3f, \"early_s\": %.3f, "
                      "\"random_s\": %.3f, \"compare_s\": %.3f}\n"
                    : "config %zu, %u^3: late %.3f s, early %.3f s, random %.3f s, comparing %.3f "
                      "s\n",
               c, size, late, early, random, compare);
        free(ptx);
    }
    return 0;
}
