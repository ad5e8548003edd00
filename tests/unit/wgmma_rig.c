/*
 * See wgmma_rig.h.
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

static uint32_t up(uint32_t x, uint32_t y)
{
    return (x + y - 1) / y;
}

static uint16_t bf16_of(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof(bits));
    return (uint16_t)(bits >> 16); /* exact inputs only */
}

static float float_of(uint16_t x)
{
    uint32_t bits = (uint32_t)x << 16;
    float y;

    memcpy(&y, &bits, sizeof(y));
    return y;
}

char *wgmma_compile_text(const struct wgmma_config *config, const char *source, const char *overlay)
{
    static char text[20][600];
    const char *options[24] = {0};
    char *log = NULL, *ptx;
    uint32_t count = 0;

#define OPTION(...) (void)snprintf(text[count], sizeof(text[0]), __VA_ARGS__), count++
    OPTION("-DGK_SCHEDULE=%s", config->schedule);
    OPTION("-DGK_SCHEDULE_COOPERATIVE=0");
    OPTION("-DGK_SCHEDULE_PINGPONG=1");
    OPTION("-DGK_DTYPE=bf16");
    OPTION("-DGK_DTYPE_OUT=bf16");
    OPTION("-DGK_BIAS=0");
    OPTION("-DGK_ACT=0");
    OPTION("-DGK_SPLITK=%u", config->splits);
    OPTION("-DGK_BM=%u", config->bm);
    OPTION("-DGK_BN=%u", config->bn);
    OPTION("-DGK_CONSUMERS=%u", config->consumers);
    OPTION("-DGK_STAGES=%u", config->stages);
    OPTION("-DGK_STAGING=%u", config->staging);
    OPTION("-DGK_CLUSTER_M=%u", config->cluster_m);
    OPTION("-DGK_CLUSTER_N=%u", config->cluster_n);
    if (overlay) {
        OPTION("-I%.500s", overlay);
    }
    OPTION("-I" GK_SOURCE_DIR "/kernels/include");
    OPTION("-std=c++17");
    OPTION("-default-device");
#undef OPTION
    for (uint32_t i = 0; i < count; i++) {
        options[i] = text[i];
    }
    ptx = nvrtc_for_tests_compile(source, "gemm_wgmma.cuh", "compute_90a", options, &log);
    if (!ptx) {
        fail_msg("NVRTC: %s", log ? log : "no log");
    }
    free(log);
    return ptx;
}

char *wgmma_compile(const struct wgmma_config *config)
{
    char *source = calloc(1, 1 << 17), *ptx;
    FILE *file = fopen(GK_SOURCE_DIR "/kernels/gemm/gemm_wgmma.cuh", "rb");

    assert_non_null(file);
    assert_non_null(source);
    assert_true(fread(source, 1, (1 << 17) - 1, file) > 0);
    (void)fclose(file);
    ptx = wgmma_compile_text(config, source, NULL);
    free(source);
    return ptx;
}

static void encode(struct rig *rig, unsigned char *to, uint64_t address, uint32_t inner,
                   uint32_t rows, uint32_t pitch, uint32_t box0, uint32_t box1, uint32_t swizzle)
{
    struct gk_emu_map map = {.element = GK_EMU_ELEMENT_BF16,
                             .rank = 3,
                             .address = address,
                             .dims = {inner, rows, 1},
                             .strides = {2, pitch * 2, (uint64_t)pitch * rows * 2},
                             .box = {box0, box1, 1},
                             .element_strides = {1, 1, 1},
                             .swizzle = swizzle};

    assert_ok(gk_emu_map_encode(rig->emu, &map, to, &rig->err), rig->err);
}

void wgmma_make(struct rig *rig, const struct wgmma_config *config, struct wgmma_problem *problem)
{
    uint32_t state = 1;

    memset(problem, 0, sizeof(*problem));
    problem->tiles = up(config->m, config->bm * config->cluster_m) *
                     up(config->n, config->bn * config->cluster_n);
    problem->arrivals = problem->tiles * config->cluster_m * config->cluster_n * config->consumers;
    problem->pitch_c = (config->n + 7) / 8 * 8;
    problem->a = calloc((size_t)config->m * config->k, 2);
    problem->b = calloc((size_t)config->n * config->k, 2);
    problem->c = calloc((size_t)config->m * problem->pitch_c, 2);
    assert_true(problem->a && problem->b && problem->c);
    for (uint32_t i = 0; i < config->m * config->k; i++) {
        state = state * 1664525u + 1013904223u;
        problem->a[i] = bf16_of((float)((int)(state >> 28) % 3 - 1));
    }
    for (uint32_t i = 0; i < config->n * config->k; i++) {
        state = state * 1664525u + 1013904223u;
        problem->b[i] = bf16_of((float)((int)(state >> 28) % 3 - 1));
    }
    problem->da = rig_upload(rig, "A", problem->a, (uint64_t)config->m * config->k * 2);
    problem->db = rig_upload(rig, "B", problem->b, (uint64_t)config->n * config->k * 2);
    problem->dc = rig_alloc(rig, "C", (uint64_t)config->m * problem->pitch_c * 2);
    if (config->splits > 1) {
        static const uint32_t ZERO[64];

        assert_in_range(problem->arrivals, 1, GK_ARRAY_COUNT(ZERO));
        problem->dpartial =
            rig_alloc(rig, "partial",
                      (uint64_t)problem->tiles * config->cluster_m * config->cluster_n *
                          config->splits * config->bm * config->bn * 4);
        problem->darrivals = rig_upload(rig, "arrivals", ZERO, problem->arrivals * 4);
    }
}

void wgmma_free(struct wgmma_problem *problem)
{
    free(problem->a);
    free(problem->b);
    free(problem->c);
}

enum gk_status wgmma_launch(struct rig *rig, const struct wgmma_config *config,
                            const struct wgmma_problem *problem)
{
    struct gk_emu_kernel *kernel = NULL;
    struct gk_emu_kernel_info info;
    unsigned char params[4096] = {0};
    const uint32_t cluster = config->cluster_m * config->cluster_n;
    const uint32_t tiles = problem->tiles * config->splits;
    uint32_t ints[4] = {config->m, config->n, config->k, 1}, group = 2;
    uint32_t smem = config->stages * (config->bm + config->bn) * 128 +
                    config->consumers * config->staging * 8192 + config->stages * 16 + 24;
    struct gk_emu_launch launch = {
        .grid = {(tiles < 8 / cluster ? tiles : 8 / cluster) * cluster, 1, 1},
        .block = {128 * config->consumers + (config->consumers > 1 ? 128u : 32u), 1, 1},
        .cluster = {cluster, 1, 1},
        .dynamic_smem_bytes = up(smem, 1024) * 1024,
        .params = params,
        .registers_per_thread = config->consumers > 1 ? 168 : 255};
    float alpha = 1.0f;

    assert_ok(gk_emu_kernel_find(rig->module, "gk_gemm_wgmma", &kernel, &rig->err), rig->err);
    gk_emu_kernel_info(kernel, &info);
    assert_int_equal(info.param_count, 13);
    encode(rig, params + info.params[0].offset, problem->da, config->k, config->m, config->k, 64,
           config->bm / config->cluster_n, 128);
    encode(rig, params + info.params[1].offset, problem->db, config->k, config->n, config->k, 64,
           config->bn / config->cluster_m, 128);
    encode(rig, params + info.params[2].offset, problem->dc, config->n, config->m, problem->pitch_c,
           64, 64, 128);
    encode(rig, params + info.params[3].offset, problem->dc, config->n, config->m, problem->pitch_c,
           32, 64, 64);
    memcpy(params + info.params[5].offset, &problem->dpartial, 8);
    memcpy(params + info.params[6].offset, &problem->darrivals, 8);
    for (unsigned i = 0; i < 4; i++) {
        memcpy(params + info.params[7 + i].offset, &ints[i], 4);
    }
    memcpy(params + info.params[11].offset, &alpha, 4);
    memcpy(params + info.params[12].offset, &group, 4);
    launch.params_size = info.params_size;
    memset(&rig->report, 0, sizeof(rig->report));
    return gk_emu_launch(rig->emu, kernel, &launch, &rig->report, &rig->err);
}

bool wgmma_right(struct rig *rig, const struct wgmma_config *config, struct wgmma_problem *problem)
{
    assert_ok(gk_emu_read(rig->emu, problem->dc, problem->c,
                          (uint64_t)config->m * problem->pitch_c * 2, &rig->err),
              rig->err);
    for (uint32_t row = 0; row < config->m; row++) {
        for (uint32_t col = 0; col < config->n; col++) {
            float sum = 0;

            for (uint32_t k = 0; k < config->k; k++) {
                sum += float_of(problem->a[row * config->k + k]) *
                       float_of(problem->b[col * config->k + k]);
            }
            if (float_of(problem->c[row * problem->pitch_c + col]) != sum) {
                (void)gk_fail(&rig->err, GK_TRIAL, "C(%u,%u) is %g, wanted %g", row, col,
                              (double)float_of(problem->c[row * problem->pitch_c + col]),
                              (double)sum);
                return false;
            }
        }
    }
    return true;
}
