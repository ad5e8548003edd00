/* Recordings and tensor maps of the CUDA device, over a double of the driver. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>
#include <cuda.h>

#include "tests/support/check.h"
#include "tests/unit/cuda_rig.h"
#include "worker/cuda/cuda_inside.h"

/* ------------------------------------------------------------------ recordings */

static void a_recording_runs_when_it_is_replayed(void **state)
{
    struct cuda_rig rig;
    struct gk_device_report report = {0};
    struct gk_device_graph *graph = NULL;
    uint64_t address = 0;
    uint32_t value = 10;
    unsigned char out[4] = {0};
    (void)state;
    cuda_rig_open(&rig);
    assert_ok(rig.ops->alloc(rig.device, "a", 4, 0, &address, &rig.err), rig.err);
    assert_ok(rig.ops->fill(rig.device, address, 4, &value, 1, &rig.err), rig.err);
    struct gk_device_kernel *kernel = cuda_rig_find(&rig, "add1");
    struct gk_device_launch launch = cuda_rig_launch(address, 4);
    launch.pdl = true;
    assert_ok(rig.ops->record_begin(rig.device, &rig.err), rig.err);
    assert_ok(rig.ops->launch(rig.device, kernel, &launch, &report, &rig.err), rig.err);
    assert_ok(rig.ops->launch(rig.device, kernel, &launch, &report, &rig.err), rig.err);
    assert_ok(rig.ops->fill(rig.device, address, 1, &value, 1, &rig.err), rig.err);
    assert_ok(rig.ops->launch(rig.device, kernel, &launch, &report, &rig.err), rig.err);
    assert_ok(rig.ops->record_end(rig.device, &graph, &rig.err), rig.err);
    assert_false(rig.fake->launches[0].pdl); /* first */
    assert_true(rig.fake->launches[1].pdl);
    assert_false(rig.fake->launches[2].pdl); /* behind a fill */
    assert_ok(rig.ops->read(rig.device, address, out, 4, &rig.err), rig.err);
    assert_int_equal(out[0], 10); /* nothing has run yet */
    assert_ok(rig.ops->replay(rig.device, graph, &report, &rig.err), rig.err);
    assert_true(report.ns > 2999 && report.ns < 3001);
    assert_ok(rig.ops->replay(rig.device, graph, &report, &rig.err), rig.err);
    assert_ok(rig.ops->read(rig.device, address, out, 4, &rig.err), rig.err);
    assert_int_equal(out[0], 11);
    assert_int_equal(out[3], 16);
    rig.ops->graph_free(rig.device, graph);
    cuda_rig_close(&rig);
    assert_int_equal(rig.fake->execs + rig.fake->graphs, 0);
}

/* Launches without a graph: nobody waits between them, and the events stand around all. */
static void a_stream_of_launches(void **state)
{
    struct cuda_rig rig;
    struct gk_device_report report = {0};
    struct gk_device_graph *graph = NULL;
    uint64_t address = 0;
    unsigned char value = 10, out[4] = {0};
    (void)state;
    cuda_rig_open(&rig);
    assert_ok(rig.ops->alloc(rig.device, "a", 4, 0, &address, &rig.err), rig.err);
    struct gk_device_kernel *kernel = cuda_rig_find(&rig, "add1");
    struct gk_device_launch launch = cuda_rig_launch(address, 4);
    launch.pdl = true;
    assert_status(rig.ops->stream_end(rig.device, &report, &rig.err), GK_USAGE, rig.err);
    assert_ok(rig.ops->stream_begin(rig.device, &rig.err), rig.err);
    assert_status(rig.ops->stream_begin(rig.device, &rig.err), GK_USAGE, rig.err);
    assert_status(rig.ops->record_begin(rig.device, &rig.err), GK_USAGE, rig.err);
    assert_status(rig.ops->record_end(rig.device, &graph, &rig.err), GK_USAGE, rig.err);
    assert_status(rig.ops->read(rig.device, address, out, 4, &rig.err), GK_USAGE, rig.err);
    assert_ok(rig.ops->fill(rig.device, address, 4, &value, 1, &rig.err), rig.err);
    uint64_t calls = rig.fake->calls;
    for (int i = 0; i < 3; i++) {
        assert_ok(rig.ops->launch(rig.device, kernel, &launch, &report, &rig.err), rig.err);
        assert_true(report.ns == 0);
    }
    assert_int_equal(rig.fake->calls, calls + 3); /* the launches, and no event */
    assert_false(rig.fake->launches[0].pdl);      /* behind a fill */
    assert_true(rig.fake->launches[1].pdl && !rig.fake->launches[1].recorded);
    assert_ok(rig.ops->stream_end(rig.device, &report, &rig.err), rig.err);
    assert_true(report.ns > 2999 && report.ns < 3001);
    assert_ok(rig.ops->read(rig.device, address, out, 4, &rig.err), rig.err);
    assert_int_equal(out[3], 13);
    /* What goes wrong is told at the end, and costs the device. */
    assert_ok(rig.ops->stream_begin(rig.device, &rig.err), rig.err);
    launch = cuda_rig_launch(address, 1);
    (void)rig.ops->launch(rig.device, cuda_rig_find(&rig, "trap"), &launch, &report, &rig.err);
    assert_status(rig.ops->stream_end(rig.device, &report, &rig.err), GK_TRIAL, rig.err);
    assert_int_equal(report.failure, GK_FAILURE_TRAP);
    assert_int_not_equal(rig.ops->health(rig.device, NULL), GK_OK);
    cuda_rig_close(&rig);
}

/* What a window keeps in L2 is given back before whoever is timed next, whose code knows of no
 * window; where there never was one, nothing is asked. */
static void nothing_is_kept_for_the_next(void **state)
{
    struct cuda_rig rig;
    struct gk_device_report report = {0};
    struct gk_device_graph *plain = NULL;
    uint64_t address = 0;
    (void)state;
    cuda_rig_open(&rig);
    assert_ok(rig.ops->alloc(rig.device, "a", 4096, 0, &address, &rig.err), rig.err);
    struct gk_device_kernel *kernel = cuda_rig_find(&rig, "add1");
    struct gk_device_launch launch = cuda_rig_launch(address, 4);
    assert_ok(rig.ops->record_begin(rig.device, &rig.err), rig.err);
    assert_ok(rig.ops->launch(rig.device, kernel, &launch, &report, &rig.err), rig.err);
    assert_ok(rig.ops->record_end(rig.device, &plain, &rig.err), rig.err);
    assert_ok(rig.ops->replay(rig.device, plain, &report, &rig.err), rig.err);
    assert_int_equal(rig.fake->l2_resets, 0);
    launch.l2_window.address = address;
    launch.l2_window.bytes = 4096;
    launch.l2_window.hit_ratio = 1;
    launch.l2_window.policy = GK_DEVICE_L2_PERSISTING;
    assert_ok(rig.ops->launch(rig.device, kernel, &launch, &report, &rig.err), rig.err);
    assert_ok(rig.ops->replay(rig.device, plain, &report, &rig.err), rig.err);
    assert_int_equal(rig.fake->l2_resets, 1);
    assert_true(report.ns > 999 && report.ns < 1001);
    assert_ok(rig.ops->stream_begin(rig.device, &rig.err), rig.err);
    assert_int_equal(rig.fake->l2_resets, 2);
    assert_ok(rig.ops->stream_end(rig.device, &report, &rig.err), rig.err);
    rig.ops->graph_free(rig.device, plain);
    cuda_rig_close(&rig);
}

/* A kernel whose attributes no recording takes says what it cannot have; the machine is in order.
 */
static void what_cannot_be_recorded_is_unsupported(void **state)
{
    static const CUresult results[] = {
        CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
        CUDA_ERROR_STREAM_CAPTURE_UNJOINED, CUDA_ERROR_NOT_PERMITTED};
    (void)state;
    for (size_t i = 0; i < GK_ARRAY_COUNT(results); i++) {
        for (int at = 0; at < 2; at++) { /* told by the launch, and by the recording's end */
            struct cuda_rig rig;
            struct gk_device_report report = {0};
            struct gk_device_graph *graph = NULL;
            cuda_rig_open(&rig);
            struct gk_device_launch launch = cuda_rig_launch(0, 0);
            struct gk_device_kernel *kernel = cuda_rig_find(&rig, "add1");
            assert_ok(rig.ops->record_begin(rig.device, &rig.err), rig.err);
            rig.fake->fail_in = 1 + at;
            rig.fake->fail_with = (int)results[i];
            assert_int_equal(rig.ops->launch(rig.device, kernel, &launch, &report, &rig.err),
                             at ? GK_OK : GK_UNSUPPORTED);
            assert_status(rig.ops->record_end(rig.device, &graph, &rig.err), GK_UNSUPPORTED,
                          rig.err);
            if (at == 0) { /* the double's stream does not leave a capture whose end failed */
                assert_ok(rig.ops->health(rig.device, &rig.err), rig.err);
            }
            cuda_rig_close(&rig);
        }
    }
}

/* The driver tells what a kernel did at any later call: here at the next launch, and at the next
 * memset. It is the kernel's doing all the same. */
static void a_stream_hears_early(void **state)
{
    (void)state;
    for (int fills = 0; fills < 2; fills++) {
        struct cuda_rig rig;
        struct gk_device_report report = {0};
        uint64_t address = 0;
        const unsigned char value = 1;
        cuda_rig_open(&rig);
        assert_ok(rig.ops->alloc(rig.device, "a", 4, 0, &address, &rig.err), rig.err);
        struct gk_device_launch launch = cuda_rig_launch(address, 1);
        struct gk_device_kernel *good = cuda_rig_find(&rig, "add1"),
                                *bad = cuda_rig_find(&rig, "oob");
        assert_ok(rig.ops->stream_begin(rig.device, &rig.err), rig.err);
        assert_ok(rig.ops->launch(rig.device, bad, &launch, &report, &rig.err), rig.err);
        assert_status(fills ? rig.ops->fill(rig.device, address, 4, &value, 1, &rig.err)
                            : rig.ops->launch(rig.device, good, &launch, &report, &rig.err),
                      GK_IO, rig.err);
        assert_status(rig.ops->launch(rig.device, good, &launch, &report, &rig.err), GK_IO,
                      rig.err);
        assert_status(rig.ops->stream_end(rig.device, &report, &rig.err), GK_TRIAL, rig.err);
        assert_int_equal(report.failure, GK_FAILURE_OUT_OF_BOUNDS);
        assert_contains(report.text, "CUDA_ERROR_ILLEGAL_ADDRESS");
        assert_int_not_equal(rig.ops->health(rig.device, NULL), GK_OK);
        cuda_rig_close(&rig);
    }
}

static void a_recording_allows_nothing_else(void **state)
{
    struct cuda_rig rig;
    struct gk_device_report report = {0};
    struct gk_device_graph *graph = NULL;
    uint64_t address = 0;
    char byte = 0;
    (void)state;
    cuda_rig_open(&rig);
    assert_status(rig.ops->record_end(rig.device, &graph, &rig.err), GK_USAGE, rig.err);
    assert_ok(rig.ops->alloc(rig.device, "a", 4, 0, &address, &rig.err), rig.err);
    assert_ok(rig.ops->record_begin(rig.device, &rig.err), rig.err);
    assert_status(rig.ops->record_begin(rig.device, &rig.err), GK_USAGE, rig.err);
    assert_status(rig.ops->read(rig.device, address, &byte, 1, &rig.err), GK_USAGE, rig.err);
    assert_status(rig.ops->release(rig.device, address, &rig.err), GK_USAGE, rig.err);
    assert_status(rig.ops->replay(rig.device, graph, &report, &rig.err), GK_USAGE, rig.err);
    assert_ok(rig.ops->health(rig.device, &rig.err), rig.err);
    cuda_rig_close(&rig); /* with the recording open */
    assert_int_equal(rig.fake->execs + rig.fake->graphs + rig.fake->streams, 0);
}

static void a_failed_launch_ends_the_recording(void **state)
{
    struct cuda_rig rig;
    struct gk_device_report report = {0};
    struct gk_device_graph *graph = NULL;
    (void)state;
    cuda_rig_open(&rig);
    struct gk_device_kernel *good = cuda_rig_find(&rig, "add1"),
                            *bad = cuda_rig_find(&rig, "greedy");
    struct gk_device_launch launch = cuda_rig_launch(0, 0);
    assert_ok(rig.ops->record_begin(rig.device, &rig.err), rig.err);
    assert_ok(rig.ops->launch(rig.device, good, &launch, &report, &rig.err), rig.err);
    assert_status(rig.ops->launch(rig.device, bad, &launch, &report, &rig.err), GK_LIMIT, rig.err);
    assert_status(rig.ops->launch(rig.device, good, &launch, &report, &rig.err), GK_USAGE, rig.err);
    assert_status(rig.ops->record_end(rig.device, &graph, &rig.err), GK_LIMIT, rig.err);
    assert_contains(rig.err.text, "greedy");
    /* The device is as good as before. */
    assert_ok(rig.ops->record_begin(rig.device, &rig.err), rig.err);
    assert_ok(rig.ops->launch(rig.device, good, &launch, &report, &rig.err), rig.err);
    assert_ok(rig.ops->record_end(rig.device, &graph, &rig.err), rig.err);
    rig.ops->graph_free(rig.device, graph);
    cuda_rig_close(&rig);
    assert_int_equal(rig.fake->execs + rig.fake->graphs, 0);
}

static void a_replay_fails_as_a_launch_does(void **state)
{
    static const struct {
        const char *kernel;
        enum gk_failure failure;
    } cases[] = {{"oob", GK_FAILURE_OUT_OF_BOUNDS}, {"hang", GK_FAILURE_TIMEOUT}};
    (void)state;
    for (size_t i = 0; i < GK_ARRAY_COUNT(cases); i++) {
        struct cuda_rig rig;
        struct gk_device_report report = {0};
        struct gk_device_graph *graph = NULL;
        cuda_rig_open(&rig);
        rig.ops->patience(rig.device, 20);
        struct gk_device_launch launch = cuda_rig_launch(0, 0);
        struct gk_device_kernel *kernel = cuda_rig_find(&rig, cases[i].kernel);
        assert_ok(rig.ops->record_begin(rig.device, &rig.err), rig.err);
        assert_ok(rig.ops->launch(rig.device, kernel, &launch, &report, &rig.err), rig.err);
        assert_ok(rig.ops->record_end(rig.device, &graph, &rig.err), rig.err);
        assert_status(rig.ops->replay(rig.device, graph, &report, &rig.err), GK_TRIAL, rig.err);
        assert_int_equal(report.failure, cases[i].failure);
        assert_status(rig.ops->health(rig.device, &rig.err), GK_IO, rig.err);
        rig.ops->graph_free(rig.device, graph);
        cuda_rig_close(&rig);
    }
}

static void the_stream_is_lent(void **state)
{
    struct cuda_rig rig;
    struct gk_device_report report = {.ns = 1};
    struct gk_device other = {0};
    (void)state;
    cuda_rig_open(&rig);
    assert_non_null(gk_device_cuda_stream(rig.device));
    assert_non_null(gk_device_cuda_driver(rig.device));
    assert_null(gk_device_cuda_stream(&other));
    assert_ok(gk_device_cuda_settle(rig.device, "vendor", &report, &rig.err), rig.err);
    assert_true(report.ns == 0);
    cuda_rig_close(&rig);
}

/* ------------------------------------------------------------------ tensor maps */

static struct gk_device_map good_map(void)
{
    return (struct gk_device_map){
        .dtype = GK_BF16,
        .rank = 2,
        .address = 4096,
        .dims = {1000, 50},
        .strides = {2, 2048},
        .box = {64, 128},
        .element_strides = {1, 1},
        .swizzle = 128,
        .l2_promotion = 256,
    };
}

static void a_map_reaches_the_driver(void **state)
{
    struct cuda_rig rig;
    struct gk_device_map map = good_map();
    unsigned char bytes[128];
    uint64_t words[16];
    (void)state;
    cuda_rig_open(&rig);
    map.fill_nan = true;
    assert_ok(rig.ops->encode(rig.device, &map, bytes, &rig.err), rig.err);
    memcpy(words, bytes, sizeof words);
    assert_int_equal(words[0], 4096);
    assert_int_equal(words[1], (uint64_t)CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 << 32 | 2);
    assert_int_equal(words[2], 50);
    assert_int_equal(words[3], 2048); /* the innermost stride is left out */
    assert_int_equal(words[4], (uint64_t)128 << 32 | 1);
    assert_int_equal(words[5], (uint64_t)CU_TENSOR_MAP_SWIZZLE_128B << 32);
    assert_int_equal(words[6], (uint64_t)CU_TENSOR_MAP_L2_PROMOTION_L2_256B << 32 | 1);
    cuda_rig_close(&rig);
}

static void refuse(struct cuda_rig *rig, const struct gk_device_map *map, const char *part)
{
    unsigned char bytes[128];
    int before = rig->fake->maps_encoded;
    assert_status(rig->ops->encode(rig->device, map, bytes, &rig->err), GK_INPUT, rig->err);
    assert_contains(rig->err.text, part);
    assert_int_equal(rig->fake->maps_encoded, before);
}

static void broken_rules_are_named(void **state)
{
    struct cuda_rig rig;
    struct gk_device_map map;
    (void)state;
    cuda_rig_open(&rig);
#define REFUSE(change, part)                                                                       \
    map = good_map();                                                                              \
    change;                                                                                        \
    refuse(&rig, &map, part)
    REFUSE(map.rank = 0, "rank 0; 1 to 5");
    REFUSE(map.rank = 6, "rank 6");
    REFUSE(map.address = 4104, "address 0x1008");
    REFUSE(map.dims[1] = 0, "dimension 1 has 0 elements");
    REFUSE(map.dims[0] = (UINT64_C(1) << 32) + 1, "4294967297 elements");
    REFUSE(map.strides[1] = 2056, "stride of 2056 bytes");
    REFUSE(map.strides[1] = UINT64_C(1) << 40, "below 2^40");
    REFUSE(map.box[1] = 257, "box of 257");
    REFUSE(map.box[0] = 0, "box of 0");
    REFUSE(map.element_strides[0] = 9, "element stride of 9");
    REFUSE(map.element_strides[1] = 0, "element stride of 0");
    REFUSE(map.box[0] = 65, "inner box has 130 bytes; multiples of 16");
    REFUSE(map.box[0] = 128, "inner box has 256 bytes, more than the 128");
    REFUSE(map.swizzle = 16, "swizzle of 16");
    REFUSE(map.l2_promotion = 32, "promotion of 32");
    REFUSE((map.dtype = GK_I32, map.fill_nan = true), "i32 has no NaN");
#undef REFUSE
    map = good_map();
    map.dims[0] = UINT64_C(1) << 32; /* the largest of each */
    map.strides[1] = (UINT64_C(1) << 40) - 16;
    map.box[1] = 256;
    map.element_strides[1] = 8;
    unsigned char bytes[128];
    assert_ok(rig.ops->encode(rig.device, &map, bytes, &rig.err), rig.err);
    cuda_rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_recording_runs_when_it_is_replayed),
        cmocka_unit_test(a_stream_of_launches),
        cmocka_unit_test(a_stream_hears_early),
        cmocka_unit_test(nothing_is_kept_for_the_next),
        cmocka_unit_test(what_cannot_be_recorded_is_unsupported),
        cmocka_unit_test(a_recording_allows_nothing_else),
        cmocka_unit_test(a_failed_launch_ends_the_recording),
        cmocka_unit_test(a_replay_fails_as_a_launch_does),
        cmocka_unit_test(the_stream_is_lent),
        cmocka_unit_test(a_map_reaches_the_driver),
        cmocka_unit_test(broken_rules_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, cuda_rig_teardown);
}
