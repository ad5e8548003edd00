/*
 * How fast the emulated device interprets: a bf16 mma.sync GEMM (128x128x32 tiles, cp.async ring)
 * and the plain double-precision reference kernel, on one core. The GEMM's result is compared with
 * the reference kernel's, and a sample of that with sums made here.
 *
 *   bench_emu [--size N] [--repeat N] [--json]
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/unit/nvrtc_for_tests.h"
#include "worker/emu/emu.h"

struct bench {
    struct gk_emu *emu;
    uint64_t a, b, c, value, magnitude;
    uint32_t size, repeat;
    bool json;
    bool first;
    double total_s;
};

static double now_s(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void stop(const char *what, const char *why)
{
    (void)fprintf(stderr, "bench_emu: %s: %s\n", what, why);
    exit(1);
}

static char *read_text(const char *name)
{
    char path[1024];
    FILE *file;
    char *text = calloc(1, 65536);

    (void)snprintf(path, sizeof(path), "%s/%s", GK_BENCH_DIR, name);
    file = fopen(path, "rb");
    if (!file || !text) {
        stop(path, "cannot be read");
    }
    if (fread(text, 1, 65535, file) == 0) {
        stop(path, "is empty");
    }
    (void)fclose(file);
    return text;
}

static struct gk_emu_module *load(struct bench *bench, const char *name, const char *const *options,
                                  double *decode_s)
{
    char *source = read_text(name), *log = NULL;
    char *ptx = nvrtc_for_tests_compile(source, name, "sm_80", options, &log);
    struct gk_emu_module *module = NULL;
    struct gk_err err;
    double start;

    if (!ptx) {
        stop(name, log ? log : "NVRTC is not available");
    }
    start = now_s();
    if (gk_emu_module_load(bench->emu, ptx, strlen(ptx), &module, &err) != GK_OK) {
        stop(name, err.text);
    }
    *decode_s = now_s() - start;
    free(ptx);
    free(log);
    free(source);
    return module;
}

static void print_row(struct bench *bench, const char *name, double best_s, double decode_s,
                      const struct gk_emu_report *report)
{
    const struct gk_emu_counts *counts = &report->counts;
    double rate = (double)counts->warp_instructions / best_s * 1e-6;

    if (bench->json) {
        printf("%s{\"name\":\"%s\",\"size\":%u,\"seconds\":%.6f,\"decode_seconds\":%.6f,"
               "\"warp_instructions\":%" PRIu64 ",\"million_per_second\":%.2f,\"modelled_ns\":%.1f,"
               "\"shared_wavefronts\":%" PRIu64 ",\"global_sectors\":%" PRIu64 "}",
               bench->first ? "" : ",", name, bench->size, best_s, decode_s,
               counts->warp_instructions, rate, report->modelled_ns, counts->shared_wavefronts,
               counts->global_load_sectors + counts->global_store_sectors);
        bench->first = false;
        return;
    }
    printf("%-28s %5u %10.1f %9.2f %12" PRIu64 " %9.1f %12.1f %10" PRIu64 "\n", name, bench->size,
           best_s * 1e3, decode_s * 1e3, counts->warp_instructions, rate,
           report->modelled_ns * 1e-3, counts->shared_wavefronts);
}

static double run(struct bench *bench, const char *name, struct gk_emu_module *module,
                  const char *kernel_name, struct gk_emu_launch *launch, double decode_s)
{
    struct gk_emu_kernel *kernel = NULL;
    struct gk_emu_report report;
    struct gk_err err;
    double best = 1e30;

    if (gk_emu_kernel_find(module, kernel_name, &kernel, &err) != GK_OK) {
        stop(name, err.text);
    }
    for (uint32_t i = 0; i < bench->repeat; i++) {
        double start = now_s(), took;

        if (gk_emu_launch(bench->emu, kernel, launch, &report, &err) != GK_OK) {
            stop(name, err.text);
        }
        took = now_s() - start;
        best = took < best ? took : best;
    }
    print_row(bench, name, best, decode_s, &report);
    return best;
}

static void fill(struct bench *bench, uint64_t address, uint32_t seed)
{
    uint64_t count = (uint64_t)bench->size * bench->size;
    uint16_t *values = calloc(count, sizeof(*values));
    struct gk_err err;

    for (uint64_t i = 0; values && i < count; i++) {
        float x;
        uint32_t bits;

        seed = seed * 1664525u + 1013904223u;
        x = (float)((int32_t)(seed >> 8) - (1 << 23)) * 0x1p-23f;
        memcpy(&bits, &x, sizeof(bits));
        values[i] = (uint16_t)(bits >> 16);
    }
    if (!values || gk_emu_write(bench->emu, address, values, count * 2, &err) != GK_OK) {
        stop("input", "cannot be written");
    }
    free(values);
}

static void bench_gemm(struct bench *bench, const char *name, const char *stages,
                       const char *swizzle, uint32_t stage_count)
{
    const char *options[] = {stages, swizzle, NULL};
    struct {
        uint64_t a, b, c;
        int32_t m, n, k;
        int32_t pad;
    } params = {bench->a,
                bench->b,
                bench->c,
                (int32_t)bench->size,
                (int32_t)bench->size,
                (int32_t)bench->size,
                0};
    struct gk_emu_launch launch = {.grid = {bench->size / 128, bench->size / 128, 1},
                                   .block = {256, 1, 1},
                                   .dynamic_smem_bytes = stage_count * 16384,
                                   .params = &params,
                                   .params_size = 36,
                                   .registers_per_thread = 128};
    double decode_s = 0;
    struct gk_emu_module *module = load(bench, "bench_gemm.cu", options, &decode_s);
    double took = run(bench, name, module, "bench_gemm", &launch, decode_s);

    if (bench->total_s == 0) {
        bench->total_s = took; /* the first form is the one of the figure */
    }
    gk_emu_module_unload(module);
}

static void bench_reference(struct bench *bench)
{
    struct {
        uint64_t a, b, value, magnitude;
        int32_t m, n, k;
        int32_t pad;
    } params = {bench->a,
                bench->b,
                bench->value,
                bench->magnitude,
                (int32_t)bench->size,
                (int32_t)bench->size,
                (int32_t)bench->size,
                0};
    struct gk_emu_launch launch = {.grid = {(bench->size + 31) / 32, (bench->size + 7) / 8, 1},
                                   .block = {32, 8, 1},
                                   .params = &params,
                                   .params_size = 44,
                                   .registers_per_thread = 40};
    double decode_s = 0;
    struct gk_emu_module *module = load(bench, "bench_reference.cu", NULL, &decode_s);

    bench->total_s +=
        run(bench, "reference, two fp64 sums", module, "bench_reference", &launch, decode_s);
    gk_emu_module_unload(module);
}

/* The GEMM against the reference, and the reference against sums made here. */
static void check(struct bench *bench)
{
    uint64_t size = bench->size, count = size * size;
    const uint16_t *a = gk_emu_host_pointer(bench->emu, bench->a, count * 2);
    const uint16_t *b = gk_emu_host_pointer(bench->emu, bench->b, count * 2);
    const float *c = gk_emu_host_pointer(bench->emu, bench->c, count * 4);
    const double *value = gk_emu_host_pointer(bench->emu, bench->value, count * 8);
    const double *magnitude = gk_emu_host_pointer(bench->emu, bench->magnitude, count * 8);

    for (uint64_t i = 0; i < count; i++) {
        if (!(fabs((double)c[i] - value[i]) <= magnitude[i] * 0x1p-20)) {
            stop("check", "the GEMM and the reference disagree");
        }
    }
    for (uint64_t i = 0; i < count; i += 997) {
        double sum = 0;

        for (uint64_t k = 0; k < size; k++) {
            uint32_t bits_a = (uint32_t)a[i / size * size + k] << 16;
            uint32_t bits_b = (uint32_t)b[i % size * size + k] << 16;
            float x, y;

            memcpy(&x, &bits_a, sizeof(x));
            memcpy(&y, &bits_b, sizeof(y));
            sum += (double)x * (double)y;
        }
        if (fabs(sum - value[i]) > 1e-12 * magnitude[i]) {
            stop("check", "the reference kernel disagrees with the host");
        }
    }
}

static void allocate(struct bench *bench)
{
    uint64_t count = (uint64_t)bench->size * bench->size;
    struct gk_emu_options options = {.target = "sm_80"};
    struct gk_err err;

    if (gk_emu_create(&options, &bench->emu, &err) != GK_OK ||
        gk_emu_alloc(bench->emu, "A", count * 2, 0, &bench->a, &err) != GK_OK ||
        gk_emu_alloc(bench->emu, "B", count * 2, 0, &bench->b, &err) != GK_OK ||
        gk_emu_alloc(bench->emu, "C", count * 4, 0, &bench->c, &err) != GK_OK ||
        gk_emu_alloc(bench->emu, "value", count * 8, 0, &bench->value, &err) != GK_OK ||
        gk_emu_alloc(bench->emu, "magnitude", count * 8, 0, &bench->magnitude, &err) != GK_OK) {
        stop("device", err.text);
    }
    fill(bench, bench->a, 1);
    fill(bench, bench->b, 2);
}

int main(int argc, char **argv)
{
    struct bench bench = {.size = 256, .repeat = 3, .first = true};

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0) {
            bench.json = true;
        } else if (strcmp(argv[i], "--size") == 0 && i + 1 < argc) {
            bench.size = (uint32_t)strtoul(argv[++i], NULL, 10);
        } else if (strcmp(argv[i], "--repeat") == 0 && i + 1 < argc) {
            bench.repeat = (uint32_t)strtoul(argv[++i], NULL, 10);
        } else {
            stop(argv[i], "unknown option; --size N (a multiple of 128), --repeat N, --json");
        }
    }
    if (!bench.size || bench.size % 128 || !bench.repeat) {
        stop("--size or --repeat", "a multiple of 128, and at least one, are needed");
    }
    allocate(&bench);
    if (bench.json) {
        printf("{\"results\":[");
    } else {
        printf("%-28s %5s %10s %9s %12s %9s %12s %10s\n", "kernel", "size", "run ms", "decode ms",
               "warp insns", "M insn/s", "modelled us", "wavefronts");
    }
    bench_gemm(&bench, "gemm 128x128x32, 3 stages", "-DGK_STAGES=3", "-DGK_SWIZZLE=1", 3);
    bench_reference(&bench);
    check(&bench);
    bench_gemm(&bench, "gemm, 2 stages", "-DGK_STAGES=2", "-DGK_SWIZZLE=1", 2);
    bench_gemm(&bench, "gemm, 4 stages", "-DGK_STAGES=4", "-DGK_SWIZZLE=1", 4);
    bench_gemm(&bench, "gemm, 3 stages, no swizzle", "-DGK_STAGES=3", "-DGK_SWIZZLE=0", 3);
    if (bench.json) {
        printf("],\"gemm_and_reference_seconds\":%.6f}\n", bench.total_s);
    } else {
        printf("gemm and reference together: %.3f s\n", bench.total_s);
    }
    gk_emu_destroy(bench.emu);
    return 0;
}
