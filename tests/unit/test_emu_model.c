/*
 * The limits of the emulated GPU, occupancy, and what the modelled time reacts to.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "tests/support/check.h"
#include "tests/unit/emu_for_tests.h"
#include "worker/emu/emu_inside.h"

static struct gk_emu_props props_of(const char *target)
{
    struct gk_emu_props props;
    struct gk_err err;

    assert_ok(gk_emu_props(target, &props, &err), err);
    return props;
}

static void limits_are_those_of_the_target(void **state)
{
    struct gk_emu_props props = props_of("sm_80");
    struct gk_err err;

    (void)state;
    assert_int_equal(props.sm_count, 8);
    assert_int_equal(props.sm_groups, 2);
    assert_int_equal(props.l2_bytes, 4 << 20);
    assert_int_equal(props.smem_per_block_opt_in_bytes, 163 * 1024);
    assert_int_equal(props.smem_per_sm_bytes, 164 * 1024);
    assert_int_equal(props.sm_major, 8);
    props = props_of("sm_90a");
    assert_int_equal(props.smem_per_block_opt_in_bytes, 232448);
    assert_int_equal(props.smem_per_sm_bytes, 228 * 1024);
    assert_int_equal(gk_emu_props("sm_10", &props, &err), GK_UNSUPPORTED);
    assert_contains(err.text, "'sm_10'; there are sm_80");
}

static void occupancy(void **state)
{
    struct gk_emu_props props = props_of("sm_80");

    (void)state;
    assert_int_equal(gk_emu_occupancy(&props, 256, 128, 0), 2);
    assert_int_equal(gk_emu_occupancy(&props, 256, 32, 0), 8);
    assert_int_equal(gk_emu_occupancy(&props, 32, 16, 0), 32);
    assert_int_equal(gk_emu_occupancy(&props, 128, 32, 50 * 1024), 3);
    assert_int_equal(gk_emu_occupancy(&props, 128, 32, 163 * 1024), 1);
    assert_int_equal(gk_emu_occupancy(&props, 128, 32, 164 * 1024), 0);
    assert_int_equal(gk_emu_occupancy(&props, 1024, 64, 0), 1);
    assert_int_equal(gk_emu_occupancy(&props, 1024, 72, 0), 0);
    assert_int_equal(gk_emu_occupancy(&props, 1025, 16, 0), 0);
}

/* A GEMM-like launch; each change must cost or save time. */
static void time_reacts(void **state)
{
    const struct gk_emu_counts base = {.warp_instructions = 400000,
                                       .global_load_sectors = 200000,
                                       .global_store_sectors = 20000,
                                       .shared_wavefronts = 150000,
                                       .tensor_flops = 1u << 31,
                                       .barrier_waits = 4096,
                                       .cp_async_waits = 4096,
                                       .cp_async_left = 4096,
                                       .blocks = 64,
                                       .warps = 256,
                                       .blocks_per_sm = 2,
                                       .waves = 4};
    struct gk_emu_props props = props_of("sm_80");
    struct gk_emu_counts counts = base;
    double time = emu_model_ns(&props, &counts, 128, 2 << 20, NULL);

    (void)state;
    assert_true(time > 2000.0);
    assert_true(emu_model_ns(&props, &counts, 128, 2 << 20, NULL) == time);
    counts.shared_wavefronts = 3000000; /* bank conflicts */
    assert_true(emu_model_ns(&props, &counts, 128, 2 << 20, NULL) > time * 1.5);
    counts = base;
    counts.global_load_sectors *= 8; /* smaller tiles */
    assert_true(emu_model_ns(&props, &counts, 128, 2 << 20, NULL) > time);
    assert_true(emu_model_ns(&props, &base, 128, 64 << 20, NULL) > time); /* beyond the L2 */
    counts = base;
    counts.cp_async_left = 8192; /* a deeper ring */
    assert_true(emu_model_ns(&props, &counts, 128, 2 << 20, NULL) < time);
    counts = base;
    counts.blocks_per_sm = 4; /* better occupancy */
    counts.waves = 2;
    assert_true(emu_model_ns(&props, &counts, 128, 2 << 20, NULL) < time);
    counts = base;
    counts.blocks = 65; /* one block over: the busiest SM has nine instead of eight */
    counts.waves = 5;
    assert_true(emu_model_ns(&props, &counts, 128, 2 << 20, NULL) > time * 1.05);
}

static const char CONFLICT_KERNEL[] =
    ".entry k(.param .u64 out, .param .u32 stride) {\n .reg .b32 %t, %r<8>; .reg .b64 %p; .reg "
    ".pred %q;\n"
    " .shared .align 16 .b8 tile[8192];\n ld.param.u64 %p, [out]; ld.param.u32 %r0, [stride];\n"
    " mov.u32 %t, %tid.x; mad.lo.u32 %r1, %t, %r0, 0; mov.u32 %r2, tile; add.u32 %r1, %r1, %r2;\n"
    " mov.u32 %r3, 0;\nL: st.shared.u32 [%r1], %r3; ld.shared.u32 %r4, [%r1]; add.u32 %r3, %r4, "
    "1;\n"
    " setp.lt.u32 %q, %r3, 500;\n @%q bra L;\n mad.wide.u32 %p, %t, 4, %p; st.global.u32 [%p], "
    "%r3;\n}\n";

static void conflicts_cost_time_and_runs_repeat(void **state)
{
    struct rig rig;
    struct gk_emu_report first;
    uint64_t at;
    double plain;

    (void)state;
    rig_init(&rig, "sm_80");
    rig_ptx(&rig, CONFLICT_KERNEL);
    at = rig_alloc(&rig, "out", 128);
    RIG_OK(&rig, "k", at, 4);
    plain = rig.report.modelled_ns;
    assert_int_equal(rig.report.counts.shared_wavefronts, 1000);
    RIG_OK(&rig, "k", at, 128);
    assert_int_equal(rig.report.counts.shared_wavefronts, 32000);
    assert_true(rig.report.modelled_ns > plain * 2);
    first = rig.report;
    /* Other allocations change nothing. */
    (void)rig_alloc(&rig, "elsewhere", 50 << 20);
    RIG_OK(&rig, "k", at, 128);
    assert_memory_equal(&first.counts, &rig.report.counts, sizeof(first.counts));
    assert_true(first.modelled_ns == rig.report.modelled_ns);
    rig_fini(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limits_are_those_of_the_target),
        cmocka_unit_test(occupancy),
        cmocka_unit_test(time_reacts),
        cmocka_unit_test(conflicts_cost_time_and_runs_repeat),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
