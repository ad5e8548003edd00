/*
 * gpu_device KERNELS.cu [DEVICE]: the table of operations on a real GPU (default cuda:0).
 *
 * Each case runs in a process of its own, since some lose the device: that the next case works
 * shows that nothing outlives the process. Prints what each case cost. Exits with 77 where the
 * device cannot be opened for want of a driver or a GPU.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/buf.h"
#include "core/clock.h"
#include "core/json.h"
#include "worker/compiler.h"
#include "worker/device.h"

#define SKIPPED     77
#define CASE_S_MAX  60
#define KERNELS_MAX (64u << 10)

struct stage {
    struct gk_device *device;
    const struct gk_device_ops *ops;
    struct gk_device_module *module;
    struct gk_err err;
    struct gk_device_report report;
};

#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            (void)printf("    line %d: %s: %s | %s\n", __LINE__, #condition, stage->err.text,      \
                         stage->report.text);                                                      \
            return 1;                                                                              \
        }                                                                                          \
    } while (0)

/* ------------------------------------------------------------------ the stage */

static enum gk_status compile(const char *path, const char *target,
                              struct gk_compile_output *output, struct gk_err *err)
{
    struct gk_compiler_places places = {getenv("GKTUNE_NVRTC"), getenv("CUDA_HOME"),
                                        getenv("VIRTUAL_ENV"), getenv("HOME")};
    struct gk_compiler *compiler = NULL;
    char *text = NULL;
    size_t size = 0;
    enum gk_status status = gk_file_load(path, KERNELS_MAX, &text, &size, err);
    status = status == GK_OK ? gk_compiler_open(&places, &compiler, err) : status;
    if (status == GK_OK) {
        struct gk_compile_input input = {.name = "gpu_kernels.cu", .text = text, .target = target};
        status = gk_compiler_run(compiler, &input, output, err);
    }
    if (status == GK_OK && !output->compiled) {
        status = gk_fail(err, GK_INPUT, "%.900s", output->log);
    }
    gk_compiler_close(compiler);
    free(text);
    return status;
}

static enum gk_status set_up(struct stage *stage, const char *kernels, const char *name)
{
    struct gk_compile_output output = {0};
    struct gk_err *err = &stage->err;
    enum gk_status status = gk_device_open(name, &stage->device, err);
    if (status != GK_OK) {
        bool absent = status == GK_MISSING || status == GK_UNSUPPORTED; /* no driver, no GPU */
        return absent ? GK_MISSING : GK_INTERNAL;
    }
    stage->ops = stage->device->ops;
    status = compile(kernels, stage->device->props.target, &output, err);
    if (status == GK_OK) {
        struct gk_device_code code = {output.ptx, output.ptx_size, output.cubin, output.cubin_size};
        status = stage->ops->load(stage->device, &code, &stage->module, err);
    }
    gk_compile_output_fini(&output);
    return status;
}

static void add_arg(struct gk_device_launch *launch, const void *bytes, uint32_t size)
{
    launch->args[launch->arg_count].size = size;
    memcpy(launch->args[launch->arg_count++].bytes, bytes, size);
}

static struct gk_device_launch one_block(uint64_t address, uint32_t count)
{
    struct gk_device_launch launch = {
        .grid = {1, 1, 1}, .block = {64, 1, 1}, .cluster = {1, 1, 1}, .carveout = -1};
    add_arg(&launch, &address, sizeof address);
    add_arg(&launch, &count, sizeof count);
    return launch;
}

static struct gk_device_kernel *find(struct stage *stage, const char *name)
{
    struct gk_device_kernel *kernel = NULL;
    return stage->ops->find(stage->device, stage->module, name, &kernel, &stage->err) == GK_OK
               ? kernel
               : NULL;
}

static enum gk_status run(struct stage *stage, const char *name,
                          const struct gk_device_launch *launch)
{
    struct gk_device_kernel *kernel = find(stage, name);
    return kernel ? stage->ops->launch(stage->device, kernel, launch, &stage->report, &stage->err)
                  : GK_NOT_FOUND;
}

static uint64_t make(struct stage *stage, uint64_t bytes, unsigned char value)
{
    uint64_t address = 0;
    return stage->ops->alloc(stage->device, "buffer", bytes, 512, &address, &stage->err) == GK_OK &&
                   stage->ops->fill(stage->device, address, bytes, &value, 1, &stage->err) == GK_OK
               ? address
               : 0;
}

/* ------------------------------------------------------------------ what works */

static int moves_bytes(struct stage *stage)
{
    static const unsigned char pattern[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    const uint64_t size = (UINT64_C(20) << 20) + 5;
    struct gk_device *device = stage->device;
    uint64_t from = make(stage, size, 0), to = make(stage, size, 0);
    unsigned char *in = malloc(size), *out = calloc(1, size);
    EXPECT(from && to && in && out);
    for (uint64_t i = 0; i < size; i++) {
        in[i] = (unsigned char)(i * 2654435761u >> 11);
    }
    EXPECT(stage->ops->write(device, from, in, size, &stage->err) == GK_OK);
    if (stage->ops->copy) {
        EXPECT(stage->ops->copy(device, to, from, size, &stage->err) == GK_OK);
        EXPECT(stage->ops->read(device, to, out, size, &stage->err) == GK_OK);
        EXPECT(memcmp(in, out, size) == 0);
    }
    for (uint32_t period = 1; period <= 8; period *= 2) {
        EXPECT(stage->ops->fill(device, to + 4, size - 4, pattern, period, &stage->err) == GK_OK);
        EXPECT(stage->ops->read(device, to + 4, out, size - 4, &stage->err) == GK_OK);
        for (uint64_t i = 0; i < size - 4; i++) {
            EXPECT(out[i] == pattern[i % period]);
        }
    }
    free(in);
    free(out);
    return 0;
}

static int runs_and_times(struct stage *stage)
{
    uint64_t address = make(stage, 4096, 7);
    unsigned char out[4096];
    struct gk_device_launch launch = one_block(address, 4000);
    launch.grid[0] = 8;
    EXPECT(run(stage, "add1", &launch) == GK_OK);
    EXPECT(stage->report.ns > 0 && stage->report.ns < 1e8);
    EXPECT(stage->ops->read(stage->device, address, out, sizeof out, &stage->err) == GK_OK);
    EXPECT(out[0] == 8 && out[3999] == 8 && out[4000] == 7);
    launch.arg_count = 1;
    EXPECT(run(stage, "add1", &launch) == GK_INPUT); /* the driver tells what a kernel takes */
    EXPECT(stage->ops->health(stage->device, &stage->err) == GK_OK);
    return 0;
}

static int shares_much(struct stage *stage)
{
    const uint32_t words = 25000;
    uint32_t sum = 0;
    uint64_t out = make(stage, 4, 0);
    struct gk_device_launch launch = one_block(out, words);
    launch.smem_bytes = words * 4;
    EXPECT(run(stage, "shared_sum", &launch) == GK_OK);
    EXPECT(stage->ops->read(stage->device, out, &sum, 4, &stage->err) == GK_OK);
    EXPECT(sum == words * (words - 1) / 2);
    launch.smem_bytes = (uint32_t)stage->device->props.smem_block_max + 4;
    EXPECT(run(stage, "shared_sum", &launch) != GK_OK); /* refused, and the device goes on */
    EXPECT(stage->ops->health(stage->device, &stage->err) == GK_OK);
    return 0;
}

static int clusters(struct stage *stage)
{
    uint32_t sizes[16] = {0};
    uint64_t out = make(stage, sizeof sizes, 0);
    struct gk_device_launch launch = {
        .grid = {16, 1, 1}, .block = {32, 1, 1}, .cluster = {4, 1, 1}, .carveout = -1};
    if (stage->device->props.cluster_max < 2) {
        return SKIPPED;
    }
    add_arg(&launch, &out, sizeof out);
    for (uint32_t size = 4; size <= 16; size *= 2) {
        launch.cluster[0] = size;
        launch.nonportable_cluster = size > 8;
        EXPECT(run(stage, "cluster_size", &launch) == GK_OK);
        EXPECT(stage->ops->read(stage->device, out, sizes, sizeof sizes, &stage->err) == GK_OK);
        EXPECT(sizes[0] == size && sizes[15] == size);
    }
    return 0;
}

static int records(struct stage *stage)
{
    struct gk_device_graph *graph = NULL;
    uint64_t address = make(stage, 4096, 1);
    const uint32_t zero = 0;
    unsigned char out[4096];
    struct gk_device_kernel *kernel = find(stage, "add1");
    struct gk_device_launch launch = one_block(address, 4096);
    if (!stage->ops->record_begin) {
        return SKIPPED;
    }
    launch.pdl = stage->device->props.sm >= 90;
    EXPECT(kernel && stage->ops->record_begin(stage->device, &stage->err) == GK_OK);
    for (int i = 0; i < 10; i++) {
        EXPECT(stage->ops->launch(stage->device, kernel, &launch, &stage->report, &stage->err) ==
               GK_OK);
    }
    EXPECT(stage->ops->fill(stage->device, address, 16, &zero, 4, &stage->err) == GK_OK);
    EXPECT(stage->ops->launch(stage->device, kernel, &launch, &stage->report, &stage->err) ==
           GK_OK);
    EXPECT(stage->ops->record_end(stage->device, &graph, &stage->err) == GK_OK);
    for (int i = 0; i < 3; i++) {
        EXPECT(stage->ops->replay(stage->device, graph, &stage->report, &stage->err) == GK_OK);
        (void)printf("    replay of 12 pieces: %.1f us\n", stage->report.ns / 1000);
    }
    EXPECT(stage->ops->read(stage->device, address, out, sizeof out, &stage->err) == GK_OK);
    EXPECT(out[0] == 1 && out[4095] == 34);
    stage->ops->graph_free(stage->device, graph);
    return 0;
}

static int loads_tensors(struct stage *stage)
{
    uint16_t in[10][96], out[8][64];
    const int32_t x = 40, y = 4;
    struct gk_device_map map = {.dtype = GK_BF16,
                                .rank = 2,
                                .dims = {96, 10},
                                .strides = {2, 192},
                                .box = {64, 8},
                                .element_strides = {1, 1},
                                .l2_promotion = 128};
    unsigned char encoded[128];
    struct gk_device_launch launch = {
        .grid = {1, 1, 1}, .block = {64, 1, 1}, .cluster = {1, 1, 1}, .carveout = -1};
    if (!stage->ops->encode || stage->device->props.sm < 90) {
        return SKIPPED;
    }
    uint64_t to = make(stage, sizeof out, 0xff);
    map.address = make(stage, sizeof in, 0);
    for (uint16_t i = 0; i < 960; i++) {
        in[i / 96][i % 96] = (uint16_t)(i + 1);
    }
    EXPECT(stage->ops->write(stage->device, map.address, in, sizeof in, &stage->err) == GK_OK);
    EXPECT(stage->ops->encode(stage->device, &map, encoded, &stage->err) == GK_OK);
    add_arg(&launch, encoded, sizeof encoded);
    add_arg(&launch, &to, sizeof to);
    add_arg(&launch, &x, sizeof x);
    add_arg(&launch, &y, sizeof y);
    EXPECT(run(stage, "tensor_load", &launch) == GK_OK);
    EXPECT(stage->ops->read(stage->device, to, out, sizeof out, &stage->err) == GK_OK);
    for (int row = 0; row < 8; row++) {
        for (int column = 0; column < 64; column++) {
            bool inside = row + y < 10 && column + x < 96;
            EXPECT(out[row][column] == (inside ? in[row + y][column + x] : 0));
        }
    }
    return 0;
}

static int tells_how_it_is(struct stage *stage)
{
    struct gk_device_vitals now = {0};
    const struct gk_device_props *props = &stage->device->props;
    if (!stage->ops->vitals) {
        return SKIPPED;
    }
    EXPECT(stage->ops->vitals(stage->device, &now, &stage->err) == GK_OK);
    (void)printf("    %s, %s, %s: %d SMs, %.1f GB, %.0f GB/s, L2 %.0f MB, %.0f MHz\n", props->name,
                 props->gpu, props->device, (int)props->sms, (double)props->mem_bytes / 1e9,
                 (double)props->mem_bytes_per_us / 1e3, (double)props->l2_bytes / (1 << 20),
                 (double)props->clock_khz / 1e3);
    (void)printf("    now: SM %.0f MHz, memory %.0f MHz, %d C, %.0f of %.0f W, reasons 0x%llx\n",
                 (double)now.sm_clock_khz / 1e3, (double)now.memory_clock_khz / 1e3,
                 (int)now.temperature_c, (double)now.power_mw / 1e3,
                 (double)now.power_limit_mw / 1e3, (unsigned long long)now.throttle);
    return 0;
}

/* ------------------------------------------------------------------ what goes wrong */

static int fails_as(struct stage *stage, const char *kernel, enum gk_failure failure)
{
    uint64_t address = make(stage, 64, 0);
    struct gk_device_launch launch = one_block(address, 5);
    if (stage->ops->patience) {
        stage->ops->patience(stage->device, 500);
    }
    stage->ops->limit(stage->device, 100000000);
    EXPECT(run(stage, kernel, &launch) == GK_TRIAL);
    EXPECT(stage->report.failure == failure);
    (void)printf("    %s\n", stage->report.text);
    if (!stage->ops->exact_bounds) {
        uint64_t other = 0;
        EXPECT(stage->ops->health(stage->device, &stage->err) != GK_OK);
        EXPECT(stage->ops->alloc(stage->device, "b", 8, 0, &other, &stage->err) != GK_OK);
    }
    return 0;
}

static int outside(struct stage *stage)
{
    return fails_as(stage, "outside", GK_FAILURE_OUT_OF_BOUNDS);
}

static int misaligned(struct stage *stage)
{
    return fails_as(stage, "misaligned", GK_FAILURE_MISALIGNED);
}

static int trapped(struct stage *stage)
{
    return fails_as(stage, "trapped", GK_FAILURE_TRAP);
}

static int endless(struct stage *stage)
{
    return fails_as(stage, "endless", GK_FAILURE_TIMEOUT);
}

static int hides(struct stage *stage)
{
    uint64_t hidden = 0, out = make(stage, 1, 0);
    const unsigned char value = 42;
    unsigned char seen = 0;
    struct gk_device_launch launch = {
        .grid = {1, 1, 1}, .block = {1, 1, 1}, .cluster = {1, 1, 1}, .carveout = -1};
    if (!stage->ops->hide) {
        return SKIPPED;
    }
    EXPECT(stage->ops->alloc_hidden(stage->device, "reference", UINT64_C(300) << 20, &hidden,
                                    &stage->err) == GK_OK);
    EXPECT(stage->ops->fill(stage->device, hidden, UINT64_C(300) << 20, &value, 1, &stage->err) ==
           GK_OK);
    struct gk_clock clock = gk_clock_real();
    uint64_t begin = clock.monotonic_ns(clock.context);
    EXPECT(stage->ops->hide(stage->device, true, &stage->err) == GK_OK);
    EXPECT(stage->ops->hide(stage->device, false, &stage->err) == GK_OK);
    (void)printf("    300 MB hidden and shown in %.3f ms\n",
                 (double)(clock.monotonic_ns(clock.context) - begin) / 1e6);
    add_arg(&launch, &hidden, sizeof hidden);
    add_arg(&launch, &out, sizeof out);
    EXPECT(run(stage, "look", &launch) == GK_OK);
    EXPECT(stage->ops->read(stage->device, out, &seen, 1, &stage->err) == GK_OK && seen == 42);
    EXPECT(stage->ops->hide(stage->device, true, &stage->err) == GK_OK);
    EXPECT(run(stage, "look", &launch) == GK_TRIAL);
    EXPECT(stage->report.failure == GK_FAILURE_OUT_OF_BOUNDS);
    return 0;
}

/* ------------------------------------------------------------------ one process a case */

static const struct one {
    const char *name;
    int (*run)(struct stage *stage);
} cases[] = {
    {"tells how it is", tells_how_it_is},
    {"moves bytes", moves_bytes},
    {"runs and times", runs_and_times},
    {"much shared memory", shares_much},
    {"clusters", clusters},
    {"recordings", records},
    {"tensor maps", loads_tensors},
    {"out of bounds", outside},
    {"misaligned", misaligned},
    {"trap", trapped},
    {"endless", endless},
    {"hidden memory", hides},
    {"clean afterwards", runs_and_times},
};

static int run_one(const struct one *one, const char *kernels, const char *device)
{
    struct stage stage = {0};
    (void)alarm(CASE_S_MAX); /* its default action ends the process */
    enum gk_status status = set_up(&stage, kernels, device);
    if (status == GK_MISSING) { /* or no NVRTC */
        (void)printf("    %s\n", stage.err.text);
        return SKIPPED;
    }
    if (status != GK_OK) {
        (void)printf("    set up: %s\n", stage.err.text);
        return 1;
    }
    int result = one->run(&stage);
    stage.ops->unload(stage.device, stage.module);
    gk_device_close(stage.device);
    return result;
}

int main(int argc, char **argv)
{
    const struct gk_device_places places = {.cuda = getenv("GKTUNE_CUDA"),
                                            .nvml = getenv("GKTUNE_NVML")};
    struct gk_clock clock = gk_clock_real();
    uint32_t failed = 0, skipped = 0;
    if (argc < 2) {
        (void)fprintf(stderr, "usage: gpu_device KERNELS.cu [DEVICE]\n");
        return 2;
    }
    gk_device_set_places(&places);
    for (size_t i = 0; i < GK_ARRAY_COUNT(cases); i++) {
        int how = 0;
        uint64_t begin = clock.monotonic_ns(clock.context);
        (void)fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            int result = run_one(&cases[i], argv[1], argc > 2 ? argv[2] : "cuda:0");
            (void)fflush(stdout);
            _exit(result); /* a driver's handlers at exit may wait for a kernel that does not end */
        }
        if (child < 0 || waitpid(child, &how, 0) != child) {
            return 4;
        }
        double ms = (double)(clock.monotonic_ns(clock.context) - begin) / 1e6;
        int result = WIFEXITED(how) ? WEXITSTATUS(how) : 1;
        failed += result != 0 && result != SKIPPED;
        skipped += result == SKIPPED;
        (void)printf("%-8s %-20s %8.0f ms%s\n",
                     result == 0         ? "ok"
                     : result == SKIPPED ? "skipped"
                                         : "FAILED",
                     cases[i].name, ms, WIFSIGNALED(how) ? " (ended by a signal)" : "");
    }
    (void)printf("%zu cases, %u skipped, %u failed\n", GK_ARRAY_COUNT(cases), skipped, failed);
    return failed ? 1 : skipped == GK_ARRAY_COUNT(cases) ? SKIPPED : 0;
}
