/*
 * The CUDA device over a double of the driver: memory, hiding, launches, how failures are told
 * apart, what is done with a lost device.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <cuda.h>

#include "tests/support/check.h"
#include "tests/unit/cuda_rig.h"

/* ------------------------------------------------------------------ memory */

static void nothing_is_left_behind(void **state)
{
    struct cuda_rig rig;
    uint64_t address = 0;
    (void)state;
    cuda_rig_open(&rig);
    assert_int_equal(rig.fake->contexts, 1);
    assert_ok(rig.ops->alloc(rig.device, "a", 100, 0, &address, &rig.err), rig.err);
    assert_ok(rig.ops->alloc_hidden(rig.device, "h", 100, &address, &rig.err), rig.err);
    assert_ok(rig.ops->hide(rig.device, true, &rig.err), rig.err);
    cuda_rig_close(&rig);
    const struct fake_cuda *fake = rig.fake;
    assert_int_equal(fake->contexts + fake->streams + fake->events + fake->modules, 0);
    assert_int_equal(fake->allocations + fake->pinned + fake->reserved + fake->pieces, 0);
}

static void alloc_gives_what_is_asked_for(void **state)
{
    static const uint64_t aligns[] = {0, 1, 256, 512, 1024, 4096, 1 << 20};
    struct cuda_rig rig;
    uint64_t addresses[7] = {0}, none = 0;
    (void)state;
    cuda_rig_open(&rig);
    for (size_t i = 0; i < 7; i++) {
        assert_ok(rig.ops->alloc(rig.device, "a", i, aligns[i], &addresses[i], &rig.err), rig.err);
        assert_int_equal(addresses[i] % (aligns[i] ? aligns[i] : 256), 0);
    }
    assert_status(rig.ops->alloc(rig.device, "bad", 16, 48, &none, &rig.err), GK_USAGE, rig.err);
    assert_status(rig.ops->alloc(rig.device, "big", UINT64_C(2) << 30, 0, &none, &rig.err),
                  GK_LIMIT, rig.err);
    assert_contains(rig.err.text, "CUDA_ERROR_OUT_OF_MEMORY");
    assert_status(rig.ops->alloc(rig.device, "huge", UINT64_C(1) << 60, 0, &none, &rig.err),
                  GK_LIMIT, rig.err);
    assert_contains(rig.err.text, "150754820096");
    for (size_t i = 0; i < 7; i++) {
        assert_ok(rig.ops->release(rig.device, addresses[i], &rig.err), rig.err);
    }
    assert_status(rig.ops->release(rig.device, addresses[0], &rig.err), GK_NOT_FOUND, rig.err);
    assert_int_equal(rig.fake->allocations, 0);
    cuda_rig_close(&rig);
}

static void ranges_are_checked(void **state)
{
    struct cuda_rig rig;
    uint64_t address = 0;
    char byte = 0;
    (void)state;
    cuda_rig_open(&rig);
    assert_ok(rig.ops->alloc(rig.device, "a", 100, 0, &address, &rig.err), rig.err);
    assert_status(rig.ops->read(rig.device, address + 100, &byte, 1, &rig.err), GK_RANGE, rig.err);
    assert_contains(rig.err.text, "'a', 100 bytes");
    assert_status(rig.ops->write(rig.device, address - 1, &byte, 1, &rig.err), GK_RANGE, rig.err);
    assert_status(rig.ops->fill(rig.device, address, 101, &byte, 1, &rig.err), GK_RANGE, rig.err);
    assert_status(rig.ops->copy(rig.device, address, address + 90, 11, &rig.err), GK_RANGE,
                  rig.err);
    assert_status(rig.ops->read(rig.device, 16, &byte, 1, &rig.err), GK_RANGE, rig.err);
    assert_ok(rig.ops->read(rig.device, address + 100, &byte, 0, &rig.err), rig.err);
    cuda_rig_close(&rig);
}

/* More than two stages, and no multiple of one. */
#define LARGE ((size_t)21 * 1000 * 1000 + 7)

static void large_transfers_keep_every_byte(void **state)
{
    struct cuda_rig rig;
    uint64_t from = 0, to = 0;
    unsigned char *in = malloc(LARGE), *out = calloc(1, LARGE);
    (void)state;
    assert_non_null(in);
    assert_non_null(out);
    for (size_t i = 0; i < LARGE; i++) {
        in[i] = (unsigned char)(i * 2654435761u >> 13);
    }
    cuda_rig_open(&rig);
    assert_ok(rig.ops->alloc(rig.device, "from", LARGE, 512, &from, &rig.err), rig.err);
    assert_ok(rig.ops->alloc(rig.device, "to", LARGE, 512, &to, &rig.err), rig.err);
    assert_ok(rig.ops->write(rig.device, from, in, LARGE, &rig.err), rig.err);
    assert_ok(rig.ops->copy(rig.device, to, from, LARGE, &rig.err), rig.err);
    assert_ok(rig.ops->read(rig.device, to, out, LARGE, &rig.err), rig.err);
    assert_memory_equal(in, out, LARGE);
    cuda_rig_close(&rig);
    free(in);
    free(out);
}

#define FILL_MAX 200000

/* Every period, at every alignment, around the sizes where the ways to do it change. */
static void fill_repeats_the_pattern(void **state)
{
    static const unsigned char patterns[][8] = {{7, 7, 7, 7, 7, 7, 7, 7},
                                                {1, 2, 1, 2, 1, 2, 1, 2},
                                                {1, 2, 3, 4, 1, 2, 3, 4},
                                                {1, 2, 3, 4, 5, 6, 7, 8},
                                                {0, 0, 0, 0, 0, 0, 0xf0, 0x7f}};
    static const uint64_t sizes[] = {0, 1, 3, 7, 8, 9, 63, 65536, 65537, 65551, FILL_MAX - 8};
    struct cuda_rig rig;
    uint64_t base = 0;
    unsigned char *out = malloc(FILL_MAX);
    (void)state;
    assert_non_null(out);
    cuda_rig_open(&rig);
    assert_ok(rig.ops->alloc(rig.device, "a", FILL_MAX, 512, &base, &rig.err), rig.err);
    for (uint32_t c = 0; c < 5 * 4 * 8 * GK_ARRAY_COUNT(sizes); c++) {
        const unsigned char *pattern = patterns[c % 5], mark = 0xee;
        uint32_t period = 1u << (c / 5 % 4);
        uint64_t at = base + c / 20 % 8, size = sizes[c / 160];
        assert_ok(rig.ops->fill(rig.device, base, FILL_MAX, &mark, 1, &rig.err), rig.err);
        assert_ok(rig.ops->fill(rig.device, at, size, pattern, period, &rig.err), rig.err);
        assert_ok(rig.ops->read(rig.device, base, out, FILL_MAX, &rig.err), rig.err);
        for (uint64_t i = 0; i < FILL_MAX; i++) {
            bool inside = base + i >= at && base + i < at + size;
            unsigned char want = inside ? pattern[(base + i - at) % period] : mark;
            if (out[i] != want) {
                fail_msg("period %u, address +%u, size %u: byte %u is %u, wanted %u", period,
                         (unsigned)(at - base), (unsigned)size, (unsigned)i, out[i], want);
            }
        }
    }
    assert_status(rig.ops->fill(rig.device, base, 9, patterns[0], 3, &rig.err), GK_USAGE, rig.err);
    cuda_rig_close(&rig);
    free(out);
}

/* ------------------------------------------------------------------ hiding */

/* True if reading a byte there ends the process. */
static bool faults(uint64_t address)
{
    int how = 0;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)signal(SIGSEGV, SIG_DFL);
        (void)*(volatile unsigned char *)(uintptr_t)address;
        _exit(0);
    }
    assert_int_equal(waitpid(child, &how, 0), child);
    return WIFSIGNALED(how) && WTERMSIG(how) == SIGSEGV;
}

static void hidden_memory_faults_and_keeps_its_bytes(void **state)
{
    struct cuda_rig rig;
    uint64_t one = 0, two = 0;
    char out[6] = "";
    (void)state;
    cuda_rig_open(&rig);
    assert_ok(rig.ops->alloc_hidden(rig.device, "one", 6, &one, &rig.err), rig.err);
    assert_ok(rig.ops->alloc_hidden(rig.device, "two", (UINT64_C(2) << 20) + 1, &two, &rig.err),
              rig.err);
    assert_ok(rig.ops->write(rig.device, one, "hello", 6, &rig.err), rig.err);
    assert_false(faults(one));
    assert_ok(rig.ops->hide(rig.device, true, &rig.err), rig.err);
    assert_true(faults(one));
    assert_true(faults(two + (UINT64_C(2) << 20)));
    assert_status(rig.ops->read(rig.device, one, out, 6, &rig.err), GK_RANGE, rig.err);
    assert_contains(rig.err.text, "'one' is hidden");
    assert_ok(rig.ops->hide(rig.device, true, &rig.err), rig.err); /* twice is once */
    assert_ok(rig.ops->hide(rig.device, false, &rig.err), rig.err);
    assert_ok(rig.ops->read(rig.device, one, out, 6, &rig.err), rig.err);
    assert_string_equal(out, "hello");
    assert_ok(rig.ops->hide(rig.device, true, &rig.err), rig.err);
    assert_ok(rig.ops->release(rig.device, one, &rig.err), rig.err);
    assert_ok(rig.ops->release(rig.device, two, &rig.err), rig.err);
    assert_int_equal(rig.fake->pieces + rig.fake->reserved, 0);
    cuda_rig_close(&rig);
}

/* ------------------------------------------------------------------ modules and launches */

static void code_is_told_from_no_code(void **state)
{
    struct cuda_rig rig;
    struct gk_device_module *module = NULL;
    struct gk_device_kernel *kernel = NULL;
    static const char bad[] = "rubbish", old[] = "old";
    struct gk_device_code none = {0}, rubbish = {.cubin = bad, .cubin_size = sizeof bad},
                          wrong = {.ptx = old, .ptx_size = 3};
    (void)state;
    cuda_rig_open(&rig);
    assert_status(rig.ops->load(rig.device, &none, &module, &rig.err), GK_PARSE, rig.err);
    assert_status(rig.ops->load(rig.device, &rubbish, &module, &rig.err), GK_PARSE, rig.err);
    assert_contains(rig.err.text, "line 1 is not fake");
    assert_status(rig.ops->load(rig.device, &wrong, &module, &rig.err), GK_UNSUPPORTED, rig.err);
    assert_status(rig.ops->find(rig.device, rig.module, "nobody", &kernel, &rig.err), GK_NOT_FOUND,
                  rig.err);
    assert_contains(rig.err.text, "nobody");
    assert_ok(rig.ops->health(rig.device, &rig.err), rig.err);
    cuda_rig_close(&rig);
}

static void a_launch_runs_and_is_timed(void **state)
{
    struct cuda_rig rig;
    struct gk_device_report report = {0};
    uint64_t address = 0;
    unsigned char out[3] = {1, 2, 3};
    (void)state;
    cuda_rig_open(&rig);
    assert_ok(rig.ops->alloc(rig.device, "a", 3, 0, &address, &rig.err), rig.err);
    assert_ok(rig.ops->write(rig.device, address, out, 3, &rig.err), rig.err);
    struct gk_device_launch launch = cuda_rig_launch(address, 2);
    assert_ok(rig.ops->launch(rig.device, cuda_rig_find(&rig, "add1"), &launch, &report, &rig.err),
              rig.err);
    assert_true(report.ns > 999 && report.ns < 1001);
    assert_int_equal(report.failure, GK_FAILURE_NONE);
    assert_ok(rig.ops->read(rig.device, address, out, 3, &rig.err), rig.err);
    assert_true(out[0] == 2 && out[1] == 3 && out[2] == 3);
    assert_int_equal(rig.fake->launches[0].attribute_count, 0);
    cuda_rig_close(&rig);
}

static void attributes_reach_the_driver(void **state)
{
    struct cuda_rig rig;
    struct gk_device_report report = {0};
    (void)state;
    cuda_rig_open(&rig);
    struct gk_device_kernel *kernel = cuda_rig_find(&rig, "add1");
    struct gk_device_launch launch = cuda_rig_launch(0, 0);
    launch.grid[0] = 32;
    launch.cluster[0] = 16;
    launch.nonportable_cluster = launch.cooperative = launch.pdl = true;
    launch.smem_bytes = 100000;
    launch.carveout = 50;
    launch.l2_window.address = 4096;
    launch.l2_window.bytes = 8192;
    launch.l2_window.hit_ratio = 0.5;
    launch.l2_window.policy = GK_DEVICE_L2_PERSISTING;
    assert_ok(rig.ops->launch(rig.device, kernel, &launch, &report, &rig.err), rig.err);
    const struct fake_launch *seen = &rig.fake->launches[0];
    assert_int_equal(seen->cluster[0], 16);
    assert_true(seen->cooperative);
    assert_false(seen->pdl); /* nothing runs ahead of it */
    assert_int_equal(seen->window_bytes, 8192);
    assert_int_equal(seen->window_hit, CU_ACCESS_PROPERTY_PERSISTING);
    assert_int_equal(rig.fake->l2_share, 1 << 19);
    const int *set = rig.fake->function_attributes;
    assert_int_equal(set[CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES], 100000);
    assert_int_equal(set[CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT], 50);
    assert_int_equal(set[CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED], 1);
    launch.l2_window.bytes = UINT64_C(2) << 20;
    assert_status(rig.ops->launch(rig.device, kernel, &launch, &report, &rig.err), GK_LIMIT,
                  rig.err);
    assert_contains(rig.err.text, "1048576");
    cuda_rig_close(&rig);
}

static void impossible_launches_are_refused_with_numbers(void **state)
{
    static const struct {
        uint32_t grid, block, cluster, smem, args;
        enum gk_status status;
        const char *part;
    } cases[] = {
        {0, 32, 1, 0, 2, GK_INPUT, "a size is 0"},
        {1, 1025, 1, 0, 2, GK_LIMIT, "at most 1024 threads"},
        {1, 32, 1, 232448, 2, GK_LIMIT, "at most 232448 bytes"},
        {3, 32, 2, 0, 2, GK_INPUT, "no multiple of the cluster"},
        {16, 32, 16, 0, 2, GK_LIMIT, "at most 8 blocks"},
        {1, 32, 1, 0, 1, GK_INPUT, "has 2 parameters, args lists 1"},
    };
    struct cuda_rig rig;
    struct gk_device_report report = {0};
    (void)state;
    cuda_rig_open(&rig);
    struct gk_device_kernel *kernel = cuda_rig_find(&rig, "add1");
    for (size_t i = 0; i < GK_ARRAY_COUNT(cases); i++) {
        struct gk_device_launch launch = cuda_rig_launch(0, 0);
        launch.grid[0] = cases[i].grid;
        launch.block[0] = cases[i].block;
        launch.cluster[0] = cases[i].cluster;
        launch.smem_bytes = cases[i].smem;
        launch.arg_count = cases[i].args;
        assert_status(rig.ops->launch(rig.device, kernel, &launch, &report, &rig.err),
                      cases[i].status, rig.err);
        assert_contains(rig.err.text, cases[i].part);
    }
    struct gk_device_launch launch = cuda_rig_launch(0, 0);
    launch.args[1].size = 8;
    assert_status(rig.ops->launch(rig.device, kernel, &launch, &report, &rig.err), GK_INPUT,
                  rig.err);
    assert_contains(rig.err.text, "parameter 1 has 4 bytes, args gives 8");
    assert_int_equal(rig.fake->launch_count, 0);
    launch = cuda_rig_launch(0, 0);
    assert_status(
        rig.ops->launch(rig.device, cuda_rig_find(&rig, "greedy"), &launch, &report, &rig.err),
        GK_LIMIT, rig.err);
    assert_contains(rig.err.text, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES");
    assert_contains(rig.err.text, "32 registers");
    assert_ok(rig.ops->health(rig.device, &rig.err), rig.err);
    cuda_rig_close(&rig);
}

/* ------------------------------------------------------------------ failures */

static void every_operation_fails(struct cuda_rig *rig, uint64_t address)
{
    struct gk_device *device = rig->device;
    const struct gk_device_ops *ops = rig->ops;
    struct gk_device_report report = {0};
    struct gk_device_graph *graph = NULL;
    struct gk_device_module *module = NULL;
    struct gk_device_map map = {.rank = 1};
    struct gk_device_code code = {.ptx = "fake", .ptx_size = 4};
    unsigned char bytes[128] = {0};
    uint64_t calls = rig->fake->calls, other = 0;
    assert_status(ops->health(device, &rig->err), GK_IO, rig->err);
    assert_contains(rig->err.text, "lost since");
    assert_int_not_equal(ops->alloc(device, "b", 1, 0, &other, NULL), GK_OK);
    assert_int_not_equal(ops->alloc_hidden(device, "b", 1, &other, NULL), GK_OK);
    assert_int_not_equal(ops->release(device, address, NULL), GK_OK);
    assert_int_not_equal(ops->hide(device, true, NULL), GK_OK);
    assert_int_not_equal(ops->read(device, address, bytes, 1, NULL), GK_OK);
    assert_int_not_equal(ops->write(device, address, bytes, 1, NULL), GK_OK);
    assert_int_not_equal(ops->fill(device, address, 1, bytes, 1, NULL), GK_OK);
    assert_int_not_equal(ops->copy(device, address, address, 1, NULL), GK_OK);
    assert_int_not_equal(ops->load(device, &code, &module, NULL), GK_OK);
    assert_int_not_equal(ops->encode(device, &map, bytes, NULL), GK_OK);
    assert_int_not_equal(ops->record_begin(device, NULL), GK_OK);
    assert_int_not_equal(ops->replay(device, graph, &report, NULL), GK_OK);
    assert_int_equal(rig->fake->calls, calls); /* the driver is left alone */
}

static void errors_are_told_apart_and_lose_the_device(void **state)
{
    static const struct {
        const char *kernel;
        enum gk_failure failure;
    } cases[] = {
        {"oob", GK_FAILURE_OUT_OF_BOUNDS}, {"misaligned", GK_FAILURE_MISALIGNED},
        {"trap", GK_FAILURE_TRAP},         {"assert", GK_FAILURE_TRAP},
        {"illegal", GK_FAILURE_TRAP},      {"ecc", GK_FAILURE_INFRA},
        {"hang", GK_FAILURE_TIMEOUT},
    };
    (void)state;
    for (size_t i = 0; i < GK_ARRAY_COUNT(cases); i++) {
        struct cuda_rig rig;
        struct gk_device_report report = {0};
        uint64_t address = 0;
        cuda_rig_open(&rig);
        rig.ops->patience(rig.device, 20);
        assert_ok(rig.ops->alloc(rig.device, "a", 8, 0, &address, &rig.err), rig.err);
        struct gk_device_launch launch = cuda_rig_launch(address, 1);
        struct gk_device_kernel *kernel = cuda_rig_find(&rig, cases[i].kernel);
        assert_status(rig.ops->launch(rig.device, kernel, &launch, &report, &rig.err), GK_TRIAL,
                      rig.err);
        assert_int_equal(report.failure, cases[i].failure);
        assert_contains(report.text, cases[i].kernel);
        assert_true(report.ns == 0);
        every_operation_fails(&rig, address);
        uint64_t calls = rig.fake->calls;
        cuda_rig_close(&rig);
        assert_int_equal(rig.fake->calls, calls); /* it might wait for ever */
    }
}

/* Every call of the driver fails once: an error with a text each time, and nothing leaks (the
 * sanitizer says). */
static void each_call_may_fail(void **state)
{
    static const char text[] = "fake add1(8,4)";
    struct gk_device_code code = {.cubin = text, .cubin_size = sizeof text};
    uint32_t refused = 0;
    (void)state;
    for (int n = 1; n < 200; n++) {
        struct cuda_rig rig;
        struct gk_device_report report = {0};
        struct gk_device_kernel *kernel = NULL;
        uint64_t address = 0, hidden = 0;
        cuda_rig_init(&rig);
        rig.fake->fail_in = n;
        rig.fake->fail_with = CUDA_ERROR_OPERATING_SYSTEM;
        enum gk_status status = gk_device_cuda_open(&rig.places, "cuda:0", &rig.device, &rig.err);
        if (status != GK_OK) {
            refused++;
            assert_true(rig.err.text[0] != '\0');
            continue;
        }
        rig.ops = rig.device->ops;
        struct gk_device_launch launch = cuda_rig_launch(0, 0);
        status = rig.ops->load(rig.device, &code, &rig.module, &rig.err);
        if (status == GK_OK) {
            status = rig.ops->find(rig.device, rig.module, "add1", &kernel, &rig.err);
        }
        status = status ? status : rig.ops->alloc(rig.device, "a", 9, 0, &address, &rig.err);
        status = status ? status : rig.ops->alloc_hidden(rig.device, "h", 9, &hidden, &rig.err);
        status = status ? status : rig.ops->hide(rig.device, true, &rig.err);
        status = status ? status : rig.ops->write(rig.device, address, "abc", 3, &rig.err);
        status = status ? status : rig.ops->fill(rig.device, address, 9, "ab", 2, &rig.err);
        status = status ? status : rig.ops->launch(rig.device, kernel, &launch, &report, &rig.err);
        refused += status != GK_OK;
        assert_true(status == GK_OK || rig.err.text[0] != '\0');
        rig.fake->fail_in = 0;
        cuda_rig_close(&rig);
    }
    assert_in_range(refused, 50, 199);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_left_behind),
        cmocka_unit_test(alloc_gives_what_is_asked_for),
        cmocka_unit_test(ranges_are_checked),
        cmocka_unit_test(large_transfers_keep_every_byte),
        cmocka_unit_test(fill_repeats_the_pattern),
        cmocka_unit_test(hidden_memory_faults_and_keeps_its_bytes),
        cmocka_unit_test(code_is_told_from_no_code),
        cmocka_unit_test(a_launch_runs_and_is_timed),
        cmocka_unit_test(attributes_reach_the_driver),
        cmocka_unit_test(impossible_launches_are_refused_with_numbers),
        cmocka_unit_test(errors_are_told_apart_and_lose_the_device),
        cmocka_unit_test(each_call_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, cuda_rig_teardown);
}
