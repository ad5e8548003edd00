/*
 * See template_rig.h.
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
#include "tests/unit/template_rig.h"

#define OPTIONS_MAX  40
#define OPTION_SIZE  80
#define ARGS_MAX     20
#define COUNTERS_MAX 64
#define SOURCE_MAX   (1u << 17)

/* Names that the templates compare with, and fields that these problems leave at their defaults. */
static const char *const COMMON[] = {
    "-DGK_DTYPE=bf16",
    "-DGK_DTYPE_OUT=bf16",
    "-DGK_BIAS=0",
    "-DGK_ACT=0",
    "-DGK_TRANS=0",
    "-DGK_TRANS_NT=0",
    "-DGK_TRANS_NN=1",
    "-DGK_TRANS_TN=2",
    "-DGK_TRANS_TT=3",
    "-DGK_EPILOGUE_DIRECT=0",
    "-DGK_EPILOGUE_STAGED=1",
    "-DGK_HINT_NONE=0",
    "-DGK_HINT_DROP_FIRST=1",
    "-I" GK_SOURCE_DIR "/kernels/include",
    "-I" GK_SOURCE_DIR "/kernels/gemm",
    "-std=c++17",
    "-default-device",
};

struct problem {
    uint16_t *a, *b, *c;
    uint16_t *c_in; /* added where there is a second launch, else NULL */
    uint64_t da, db, dc, dc_in, dpartial, darrivals;
    uint32_t counters;
};

/* The arguments of a launch in order: 8 bytes, of which the parameter takes what it needs, or a
 * tensor map. */
struct args {
    uint64_t word[ARGS_MAX];
    unsigned char map[2][128];
    uint32_t count, maps;
};

static uint32_t up(uint32_t x, uint32_t y)
{
    return (x + y - 1) / y;
}

static float float_of(uint16_t x)
{
    uint32_t bits = (uint32_t)x << 16;
    float y;

    memcpy(&y, &bits, sizeof(y));
    return y;
}

/* Elements of a row of C: 16 bytes more or less, so that any width of access is aligned. */
static uint32_t pitch_of(const struct template_case *one)
{
    return up(one->n, 8) * 8;
}

uint32_t template_shapes(const struct template_case *one)
{
    uint32_t count = 1;

    while (count <= GK_ARRAY_COUNT(one->more) && one->more[count - 1].n) {
        count++;
    }
    return count;
}

uint32_t template_launches(const struct template_case *one)
{
    return one->splits > 1 && !one->last ? 2 : 1;
}

const char *template_source(const struct template_case *one, uint32_t launch)
{
    return launch ? "gemm_splitk_reduce" : one->template_;
}

static bool is_wgmma(const struct template_case *one)
{
    return strcmp(one->template_, "gemm_wgmma") == 0;
}

static bool is(const struct template_case *one, const char *name)
{
    return strcmp(one->template_, name) == 0;
}

/* From the overlay, if it is there. */
static char *source_of(const char *name, const char *overlay)
{
    char path[600];
    char *text = calloc(1, SOURCE_MAX);
    FILE *file = NULL;

    if (overlay) {
        (void)snprintf(path, sizeof(path), "%.400s/gemm/%s.cuh", overlay, name);
        file = fopen(path, "rb");
    }
    if (!file) {
        (void)snprintf(path, sizeof(path), "%s/kernels/gemm/%s.cuh", GK_SOURCE_DIR, name);
        file = fopen(path, "rb");
    }
    assert_non_null(file);
    assert_non_null(text);
    assert_in_range(fread(text, 1, SOURCE_MAX - 1, file), 1, SOURCE_MAX - 2);
    (void)fclose(file);
    return text;
}

/* Whether the defines of a case give a value to what "-DGK_NAME=value" does. */
static bool is_set(const char *defines, const char *option)
{
    char name[OPTION_SIZE];
    const char *at = defines;

    if (strncmp(option, "-DGK_", 5) != 0) {
        return false;
    }
    (void)snprintf(name, sizeof(name), "%.*s=", (int)strcspn(option + 5, "="), option + 5);
    while ((at = strstr(at, name)) != NULL) {
        if (at == defines || at[-1] == ' ') {
            return true;
        }
        at++;
    }
    return false;
}

char *template_compile(const struct template_case *one, uint32_t launch, const char *overlay)
{
    char stored[OPTIONS_MAX][OPTION_SIZE], name[80], folder[2][600];
    const char *options[OPTIONS_MAX + GK_ARRAY_COUNT(COMMON) + 3] = {0};
    const char *at = launch ? "STORE_BYTES=4" : one->defines;
    char *source, *log = NULL, *ptx;
    uint32_t count = 0, own = 0;

    if (is_wgmma(one)) {
        char *text = source_of(one->template_, overlay);

        ptx = wgmma_compile_text(&one->wgmma, text, overlay);
        free(text);
        return ptx;
    }
    if (overlay) {
        (void)snprintf(folder[0], sizeof(folder[0]), "-I%.500s", overlay);
        (void)snprintf(folder[1], sizeof(folder[1]), "-I%.500s/gemm", overlay);
        options[count++] = folder[0];
        options[count++] = folder[1];
    }
    for (size_t i = 0; i < GK_ARRAY_COUNT(COMMON); i++) {
        if (launch || !is_set(one->defines, COMMON[i])) {
            options[count++] = COMMON[i];
        }
    }
    for (; *at && own < OPTIONS_MAX - 1; at += strcspn(at, " "), at += strspn(at, " ")) {
        (void)snprintf(stored[own], OPTION_SIZE, "-DGK_%.*s", (int)strcspn(at, " "), at);
        options[count++] = stored[own++];
    }
    (void)snprintf(stored[own], OPTION_SIZE, "-DGK_SPLITK=%u", one->splits);
    options[count] = stored[own];
    (void)snprintf(name, sizeof(name), "%s.cuh", template_source(one, launch));
    source = source_of(template_source(one, launch), overlay);
    ptx = nvrtc_for_tests_compile(source, name, is(one, "gemv_tma") ? "compute_90a" : "compute_80",
                                  options, &log);
    if (!ptx) {
        fail_msg("%s: %s", name, log ? log : "no log");
    }
    free(log);
    free(source);
    return ptx;
}

/* ------------------------------------------------------------------ one problem */

static uint64_t filled(struct rig *rig, const char *name, uint16_t **to, uint32_t count)
{
    static const uint16_t VALUES[] = {0xbf80, 0, 0x3f80}; /* -1, 0, 1 */
    uint32_t state = count;

    *to = calloc(count, 2);
    assert_non_null(*to);
    for (uint32_t i = 0; i < count; i++) {
        state = state * 1664525u + 1013904223u;
        (*to)[i] = VALUES[(state >> 28) % 3];
    }
    return rig_upload(rig, name, *to, (uint64_t)count * 2);
}

/* What lies between the rows of C_in nobody wrote. */
static void make_c_in(struct rig *rig, const struct template_case *one, struct problem *problem)
{
    uint32_t pitch = pitch_of(one), gap = (pitch - one->n) * 2;

    problem->dc_in = filled(rig, "C_in", &problem->c_in, one->m * pitch);
    for (uint32_t row = 0; row < one->m && gap; row++) {
        uint64_t at = problem->dc_in + ((uint64_t)row * pitch + one->n) * 2;

        assert_ok(gk_emu_mark_unwritten(rig->emu, at, gap, &rig->err), rig->err);
    }
}

static void make(struct rig *rig, const struct template_case *one, struct problem *problem)
{
    static const uint32_t ZERO[COUNTERS_MAX];

    *problem = (struct problem){.counters = up(one->n, one->tile_n)};
    problem->da = filled(rig, "A", &problem->a, one->m * one->k);
    problem->db = filled(rig, "B", &problem->b, one->n * one->k);
    problem->c = calloc((size_t)one->m * pitch_of(one), 2);
    assert_non_null(problem->c);
    problem->dc = rig_alloc(rig, "C", (uint64_t)one->m * pitch_of(one) * 2);
    if (one->splits > 1) {
        problem->dpartial =
            rig_alloc(rig, "partial", (uint64_t)one->splits * one->m * up(one->n, 4) * 16);
    }
    if (template_launches(one) > 1) {
        make_c_in(rig, one, problem);
    }
    if (one->splits > 1 && one->last) {
        assert_in_range(problem->counters, 1, COUNTERS_MAX);
        problem->darrivals = rig_upload(rig, "arrivals", ZERO, problem->counters * 4);
    }
}

static void unmake(struct problem *problem)
{
    free(problem->a);
    free(problem->b);
    free(problem->c);
    free(problem->c_in);
}

static void add_map(struct rig *rig, struct args *args, uint64_t address, uint32_t inner,
                    uint32_t rows, uint32_t box)
{
    struct gk_emu_map map = {.element = GK_EMU_ELEMENT_BF16,
                             .rank = 3,
                             .address = address,
                             .dims = {inner, rows, 1},
                             .strides = {2, (uint64_t)inner * 2, (uint64_t)inner * rows * 2},
                             .box = {64, box, 1},
                             .element_strides = {1, 1, 1},
                             .swizzle = 128};

    assert_ok(gk_emu_map_encode(rig->emu, &map, args->map[args->maps++], &rig->err), rig->err);
    args->count++;
}

static void add(struct args *args, uint64_t word)
{
    args->word[args->count++] = word;
}

static uint64_t bits_of(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

static void main_args(struct rig *rig, const struct template_case *one,
                      const struct problem *problem, struct args *args)
{
    uint32_t parts = up(up(one->k, one->tile_k), one->splits);

    if (is(one, "gemv_tma")) {
        add_map(rig, args, problem->da, one->k, one->m, 8);
        add_map(rig, args, problem->db, one->k, one->n, one->tile_n);
    } else {
        add(args, problem->da);
        add(args, problem->db);
    }
    add(args, 0); /* C_in */
    add(args, 0); /* bias */
    add(args, problem->dc);
    add(args, problem->dpartial);
    if (!is(one, "gemm_mma")) {
        add(args, problem->darrivals);
    }
    add(args, one->m);
    add(args, one->n);
    add(args, one->k);
    if (is(one, "gemv_tma")) {
        add(args, 1); /* batch */
    } else {
        add(args, one->k);
        add(args, one->k);
    }
    add(args, pitch_of(one));
    add(args, bits_of(1.0f));
    add(args, bits_of(0.0f));
    if (is(one, "gemm_mma")) {
        add(args, 2); /* tile rows walked together */
    }
    add(args, parts);
    if (is(one, "gemv_tma")) {
        add(args, 2); /* parts of K that neighbours begin with */
    }
}

static void second_args(const struct template_case *one, const struct problem *problem,
                        struct args *args)
{
    add(args, problem->dpartial);
    add(args, problem->dc_in);
    add(args, 0);
    add(args, problem->dc);
    add(args, one->m);
    add(args, one->n);
    add(args, pitch_of(one));
    add(args, bits_of(1.0f));
    add(args, bits_of(1.0f));
}

static enum gk_status launch(struct rig *rig, const struct template_case *one,
                             const struct args *args, uint32_t number)
{
    struct gk_emu_kernel *kernel = NULL;
    struct gk_emu_kernel_info info;
    unsigned char params[4096] = {0};
    struct gk_emu_launch how = {.params = params, .registers_per_thread = 64};
    char name[80];
    uint32_t maps = 0;

    (void)snprintf(name, sizeof(name), "gk_%s", template_source(one, number));
    assert_ok(gk_emu_kernel_find(rig->module, name, &kernel, &rig->err), rig->err);
    gk_emu_kernel_info(kernel, &info);
    assert_int_equal(info.param_count, args->count);
    for (uint32_t i = 0; i < args->count; i++) {
        if (info.params[i].size == 128) {
            memcpy(params + info.params[i].offset, args->map[maps++], 128);
        } else {
            memcpy(params + info.params[i].offset, &args->word[i], info.params[i].size);
        }
    }
    how.params_size = info.params_size;
    how.grid[0] = number        ? up(one->m * up(one->n, 4), 256)
                  : one->blocks ? one->blocks
                                : up(one->m, one->tile_m) * up(one->n, one->tile_n);
    how.grid[1] = number ? 1 : one->splits;
    how.grid[2] = 1;
    how.block[0] = number ? 256 : one->threads;
    how.block[1] = how.block[2] = 1;
    how.dynamic_smem_bytes = number ? 0 : one->smem;
    memset(&rig->report, 0, sizeof(rig->report));
    return gk_emu_launch(rig->emu, kernel, &how, &rig->report, &rig->err);
}

/* ------------------------------------------------------------------ judging */

static bool product_right(struct rig *rig, const struct template_case *one,
                          const struct problem *problem, struct template_end *end)
{
    uint32_t pitch = pitch_of(one), padding = (pitch - one->n) * 2 * one->m;
    uint64_t bytes = (uint64_t)one->m * pitch * 2, unwritten = 0;

    assert_ok(gk_emu_unwritten(rig->emu, problem->dc, bytes, &unwritten, &rig->err), rig->err);
    assert_ok(gk_emu_read(rig->emu, problem->dc, problem->c, bytes, &rig->err), rig->err);
    if (unwritten != padding) {
        (void)snprintf(end->why, sizeof(end->why), "%u bytes of C are not written, %u are padding",
                       (unsigned)unwritten, padding);
        return false;
    }
    for (uint32_t row = 0; row < one->m; row++) {
        for (uint32_t col = 0; col < one->n; col++) {
            float sum = problem->c_in ? float_of(problem->c_in[row * pitch + col]) : 0.0f;
            float got = float_of(problem->c[row * pitch + col]);

            for (uint32_t k = 0; k < one->k; k++) {
                sum +=
                    float_of(problem->a[row * one->k + k]) * float_of(problem->b[col * one->k + k]);
            }
            if (got != sum) {
                (void)snprintf(end->why, sizeof(end->why), "C(%u,%u) is %g, wanted %g", row, col,
                               (double)got, (double)sum);
                return false;
            }
        }
    }
    return true;
}

/* The next launch counts from there. */
static bool counters_zero(struct rig *rig, uint64_t address, uint32_t count,
                          struct template_end *end)
{
    uint32_t left[COUNTERS_MAX] = {0};

    if (address) {
        assert_ok(gk_emu_read(rig->emu, address, left, count * 4, &rig->err), rig->err);
    }
    for (uint32_t i = 0; i < count && address; i++) {
        if (left[i]) {
            (void)snprintf(end->why, sizeof(end->why), "counter %u is left at %u", i, left[i]);
            return false;
        }
    }
    return true;
}

static bool load(struct rig *rig, const char *text, struct template_end *end)
{
    gk_emu_module_unload(rig->module);
    rig->module = NULL;
    if (gk_emu_module_load(rig->emu, text, strlen(text), &rig->module, &rig->err) != GK_OK) {
        end->loaded = false;
        (void)snprintf(end->why, sizeof(end->why), "%s", rig->err.text);
        return false;
    }
    return true;
}

static bool ended(const struct rig *rig, enum gk_status status, struct template_end *end)
{
    end->loaded = true;
    end->work += rig->report.counts.warp_instructions;
    if (status != GK_OK) {
        end->fault = rig->report.kind;
        (void)snprintf(end->why, sizeof(end->why), "%s", rig->err.text);
    }
    return status == GK_OK;
}

static void run_wgmma(struct rig *rig, const struct template_case *one, const char *text,
                      struct template_end *end)
{
    struct wgmma_problem problem;

    wgmma_make(rig, &one->wgmma, &problem);
    end->right = load(rig, text, end) &&
                 ended(rig, wgmma_launch(rig, &one->wgmma, &problem), end) &&
                 counters_zero(rig, problem.darrivals, problem.arrivals, end);
    if (end->right && !wgmma_right(rig, &one->wgmma, &problem)) {
        end->right = false;
        (void)snprintf(end->why, sizeof(end->why), "%s", rig->err.text);
    }
    wgmma_free(&problem);
}

static void run_other(struct rig *rig, const struct template_case *one, char *const *texts,
                      struct template_end *end)
{
    struct problem problem;
    bool good = true;

    make(rig, one, &problem);
    for (uint32_t number = 0; good && number < template_launches(one); number++) {
        struct args args = {0};

        if (number) {
            second_args(one, &problem, &args);
        } else {
            main_args(rig, one, &problem, &args);
        }
        good = load(rig, texts[number], end) && ended(rig, launch(rig, one, &args, number), end);
    }
    end->right = good && counters_zero(rig, problem.darrivals, problem.counters, end) &&
                 product_right(rig, one, &problem, end);
    unmake(&problem);
}

void template_run(const struct template_case *one, uint32_t shape,
                  char *const texts[TEMPLATE_LAUNCHES_MAX], enum gk_emu_schedule schedule,
                  uint64_t seed, uint64_t work_limit, struct template_end *end)
{
    struct gk_emu_options options = {.target =
                                         is_wgmma(one) || is(one, "gemv_tma") ? "sm_90a" : "sm_80",
                                     .seed = seed,
                                     .work_limit_warp_instructions = work_limit,
                                     .schedule = schedule};
    struct template_case shaped = *one;
    struct rig rig = {0};

    if (shape) {
        shaped.n = one->more[shape - 1].n;
        shaped.k = one->more[shape - 1].k;
        shaped.splits = one->more[shape - 1].splits;
    }
    *end = (struct template_end){0};
    assert_ok(gk_emu_create(&options, &rig.emu, &rig.err), rig.err);
    if (is_wgmma(one)) {
        run_wgmma(&rig, one, texts[0], end);
    } else {
        run_other(&rig, &shaped, texts, end);
    }
    rig_fini(&rig);
}
