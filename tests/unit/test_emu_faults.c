/*
 * Each thing that ends a launch, with what its report says. Hand-written PTX: no compiler is
 * needed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "tests/support/check.h"
#include "tests/unit/emu_for_tests.h"

/* A kernel k(p) whose body has %t (thread), %p (parameter), %r<8>, %rd<8>, %q<4>. */
#define KERNEL(body)                                                                               \
    ".const .align 4 .b8 fixed[8] = {1, 2, 3, 4};\n"                                               \
    ".visible .entry k(.param .u64 where) {\n"                                                     \
    "  .reg .b32 %t, %r<8>; .reg .b64 %p, %rd<8>; .reg .pred %q<4>;\n"                             \
    "  .shared .align 16 .b8 tile[256];\n"                                                         \
    "  .local .align 8 .b8 own[32];\n"                                                             \
    "  ld.param.u64 %p, [where]; mov.u32 %t, %tid.x; mov.u32 %r0, 7;\n"                            \
    "  " body "\n  ret;\n}\n"

static void start(struct rig *rig, const char *text)
{
    rig_init(rig, "sm_80");
    rig_ptx(rig, text);
}

static void out_of_bounds_global(void **state)
{
    struct rig rig;
    uint64_t at;

    (void)state;
    start(&rig, KERNEL("mad.wide.u32 %rd0, %t, 4, %p;\n  st.global.u32 [%rd0+8], %r0;"));
    (void)rig_alloc(&rig, "first", 1000);
    at = rig_alloc(&rig, "middle", 40);
    (void)rig_alloc(&rig, "last", 1000);
    RIG_FAULT(&rig, OUT_OF_BOUNDS, "k", at);
    assert_int_equal(rig.report.thread[0], 8);
    assert_int_equal(rig.report.address, at + 40);
    assert_int_equal(rig.report.ptx_line, 11);
    assert_contains(rig.report.text, "write of 4 bytes at global address");
    assert_contains(rig.report.text, "0 bytes past the end of 'middle' (40 bytes");
    assert_contains(rig.report.text, "thread (8,0,0) of block (0,0,0)");
    assert_contains(rig.report.text, "PTX line 11: st.global.u32 [%rd0+8], %r0;");
    assert_string_equal(rig.err.text, rig.report.text);
    rig_fini(&rig);
}

static void before_the_beginning_and_after_free(void **state)
{
    struct rig rig;
    uint64_t at;

    (void)state;
    start(&rig, KERNEL("ld.global.u32 %r0, [%p+-4];"));
    at = rig_upload(&rig, "only", "12345678", 8);
    RIG_FAULT(&rig, OUT_OF_BOUNDS, "k", at);
    assert_contains(rig.report.text, "4 bytes before 'only'");
    assert_ok(gk_emu_free(rig.emu, at, &rig.err), rig.err);
    (void)rig_upload(&rig, "newer", "12345678", 8);
    RIG_FAULT(&rig, OUT_OF_BOUNDS, "k", at + 4);
    assert_int_equal(gk_emu_free(rig.emu, at, &rig.err), GK_NOT_FOUND);
    rig_fini(&rig);
}

static void null_pointer(void **state)
{
    struct rig rig;

    (void)state;
    start(&rig, KERNEL("ld.u32 %r0, [%p+16];"));
    RIG_FAULT(&rig, NULL_POINTER, "k", 0);
    assert_int_equal(rig.report.address, 16);
    rig_fini(&rig);
}

static void misaligned(void **state)
{
    struct rig rig;
    uint64_t at;

    (void)state;
    start(&rig, KERNEL("ld.global.v4.u32 {%r0,%r1,%r2,%r3}, [%p+8];"));
    at = rig_upload(&rig, "v", "0123456789012345678901234567890", 32);
    RIG_FAULT(&rig, MISALIGNED, "k", at);
    assert_contains(rig.report.text, "read of 16 bytes");
    rig_fini(&rig);
}

static void unwritten_global_shared_local(void **state)
{
    static const char *const BODY[] = {
        KERNEL("ld.global.u16 %r0, [%p+2];"),
        KERNEL("mad.lo.u32 %r1, %t, 4, 0; mov.u32 %r2, tile; add.u32 %r1, %r1, %r2;\n"
               "  st.shared.u32 [%r1], %t; ld.shared.u64 %rd0, [tile+128];"),
        KERNEL("st.local.u32 [own], %t; ld.local.u32 %r1, [own]; ld.local.u32 %r1, [own+4];"),
        KERNEL("cvta.local.u64 %rd0, 0; ld.u8 %r1, [%rd0+31];"),
        KERNEL("atom.shared.add.u32 %r1, [tile], 1;"),
    };

    (void)state;
    for (size_t i = 0; i < GK_ARRAY_COUNT(BODY); i++) {
        struct rig rig;
        uint64_t at;

        start(&rig, BODY[i]);
        at = rig_alloc(&rig, "v", 8);
        assert_ok(gk_emu_write(rig.emu, at, "ab", 2, &rig.err), rig.err);
        RIG_FAULT(&rig, UNWRITTEN, "k", at);
        rig_fini(&rig);
    }
}

static void out_of_bounds_shared_local_param(void **state)
{
    static const char *const BODY[] = {
        KERNEL("mov.u32 %r1, tile; mad.lo.u32 %r1, %t, 16, %r1; st.shared.u64 [%r1], %p;"),
        KERNEL("mov.u64 %rd1, own; st.local.u32 [%rd1+32], %t;"),
        KERNEL("mov.u64 %rd1, tile; cvta.shared.u64 %rd1, %rd1; st.u32 [%rd1+256], %t;"),
        KERNEL("mov.u64 %rd1, 8; ld.param.u32 %r1, [%rd1];"),
    };

    (void)state;
    for (size_t i = 0; i < GK_ARRAY_COUNT(BODY); i++) {
        struct rig rig;

        start(&rig, BODY[i]);
        RIG_FAULT(&rig, OUT_OF_BOUNDS, "k", 0);
        assert_int_equal(rig.report.thread[0], i == 0 ? 16 : 0);
        rig_fini(&rig);
    }
}

static void constants_are_not_written(void **state)
{
    struct rig rig;

    (void)state;
    start(&rig, KERNEL("mov.u64 %rd1, fixed; cvta.const.u64 %rd1, %rd1; st.u32 [%rd1], %t;"));
    RIG_FAULT(&rig, CONST_WRITE, "k", 0);
    assert_contains(rig.report.text, "'fixed'");
    rig_fini(&rig);
}

static void traps_and_limits(void **state)
{
    struct rig rig;

    (void)state;
    start(&rig, KERNEL("setp.gt.u32 %q0, %t, 4;\n  @%q0 trap;"));
    RIG_FAULT(&rig, TRAP, "k", 0);
    assert_int_equal(rig.report.thread[0], 5);
    rig_fini(&rig);

    start(&rig, KERNEL("again: add.u32 %r0, %r0, 1;\n  bra again;"));
    gk_emu_set_work_limit(rig.emu, 50000);
    RIG_FAULT(&rig, WORK_LIMIT, "k", 0);
    assert_contains(rig.report.text, "the limit is 50000");
    assert_true(rig.report.counts.warp_instructions > 50000);
    rig_fini(&rig);

    /* Blocks that do nothing take the host's time too. */
    start(&rig, KERNEL("ret;"));
    rig.grid[0] = 2147483647;
    gk_emu_set_work_limit(rig.emu, 500000);
    RIG_FAULT(&rig, WORK_LIMIT, "k", 0);
    assert_contains(rig.report.text, "where a block counts as 256");
    assert_true(rig.report.counts.blocks < 3000);
    rig_fini(&rig);
}

static void deadlock_lists_who_waits(void **state)
{
    struct rig rig;

    (void)state;
    start(&rig, KERNEL("setp.gt.u32 %q0, %t, 31;\n  @%q0 bra L;\n  bar.sync 1, 64;\n  bra E;\n"
                       "L: bar.sync 2, 64;\nE:"));
    rig.block[0] = 64;
    RIG_FAULT(&rig, DEADLOCK, "k", 0);
    assert_contains(rig.report.text, "warp 0 lanes 0xffffffff: at barrier 1, where 32 of 64");
    assert_contains(rig.report.text, "warp 1 lanes 0xffffffff: at barrier 2, where 32 of 64");
    assert_contains(rig.report.text, "bar.sync 2, 64;");
    rig_fini(&rig);
}

static void divergent_warp_instructions(void **state)
{
    static const char *const BODY[] = {
        /* a barrier in both branches */
        KERNEL("setp.gt.u32 %q0, %t, 9;\n @%q0 bra L;\n bar.sync 0;\n bra E;\nL: bar.sync 0;\nE:"),
        /* a guarded barrier */
        KERNEL("setp.gt.u32 %q0, %t, 9;\n @%q0 bar.sync 0;"),
        /* a shuffle that names lanes which never come */
        KERNEL("setp.gt.u32 %q0, %t, 9;\n @%q0 bra L;\n shfl.sync.idx.b32 %r1, %t, 0, 31, -1;\n"
               " bra E;\nL: shfl.sync.idx.b32 %r1, %t, 0, 31, -1;\nE:"),
        /* lanes that have exited */
        KERNEL("setp.gt.u32 %q0, %t, 9;\n @%q0 exit;\n"
               " mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%r0,%r1,%r2,%r3}, {%r0,%r1}, "
               "{%r2}, {%r0,%r1,%r2,%r3};"),
    };

    (void)state;
    for (size_t i = 0; i < GK_ARRAY_COUNT(BODY); i++) {
        struct rig rig;

        start(&rig, BODY[i]);
        RIG_FAULT(&rig, DIVERGENT, "k", 0);
        rig_fini(&rig);
    }
}

static void bad_operands(void **state)
{
    static const char *const BODY[] = {
        KERNEL("bar.sync 16;"),
        KERNEL("bar.sync 1, 33;"),
        KERNEL("setp.eq.u32 %q0, %t, 3; selp.b32 %r1, 0xf0, -1, %q0; bar.warp.sync %r1;"),
        KERNEL("mov.u32 %r1, 9;\n ts: .branchtargets A, B;\n brx.idx %r1, ts;\nA:\nB:"),
        KERNEL("cp.async.ca.shared.global [tile], [%p], 4, 5;"),
    };

    (void)state;
    for (size_t i = 0; i < GK_ARRAY_COUNT(BODY); i++) {
        struct rig rig;

        start(&rig, BODY[i]);
        RIG_FAULT(&rig, BAD_OPERAND, "k", 0);
        rig_fini(&rig);
    }
}

static void recursion_is_reported(void **state)
{
    struct rig rig;

    (void)state;
    start(&rig,
          ".func (.param .b32 out) f(.param .b32 in)\n{\n .reg .b32 %r<4>;\n"
          " ld.param.b32 %r1, [in];\n { .param .b32 a; .param .b32 b; st.param.b32 [a], %r1;\n"
          " call (b), f, (a); ld.param.b32 %r2, [b]; }\n st.param.b32 [out], %r2;\n ret;\n}\n"
          ".entry k() {\n .reg .b32 %r<4>; mov.u32 %r1, 3;\n"
          " { .param .b32 a; .param .b32 b; st.param.b32 [a], %r1; call (b), f, (a); }\n ret;\n}");
    RIG_FAULT(&rig, CALL_DEPTH, "k", 0);
    assert_contains(rig.report.text, "function f");
    rig_fini(&rig);
}

static void launches_that_are_not_possible(void **state)
{
    struct rig rig;

    (void)state;
    start(&rig, KERNEL(""));
    rig.block[0] = 2000;
    assert_int_equal(RIG_RUN(&rig, "k", 0), GK_INPUT);
    assert_contains(rig.err.text, "block.x is 2000, 1 to 1024 are allowed");
    rig.block[0] = 32;
    rig.grid[1] = 0;
    assert_int_equal(RIG_RUN(&rig, "k", 0), GK_INPUT);
    rig.grid[1] = 1;
    rig.dynamic_smem_bytes = 163 * 1024;
    assert_int_equal(RIG_RUN(&rig, "k", 0), GK_INPUT);
    assert_contains(rig.err.text, "a block may have 166912");
    rig.dynamic_smem_bytes = 0;
    rig.registers = 0;
    assert_int_equal(RIG_RUN(&rig, "k", 0), GK_INPUT);
    rig.registers = 128;
    rig.block[0] = 1024;
    assert_int_equal(RIG_RUN(&rig, "k", 0), GK_INPUT);
    assert_contains(rig.err.text, "does not fit an SM");
    rig_fini(&rig);
}

static void every_fault_has_a_name(void **state)
{
    (void)state;
    assert_string_equal(gk_emu_fault_name(GK_EMU_FAULT_OUT_OF_BOUNDS), "OUT_OF_BOUNDS");
    assert_string_equal(gk_emu_fault_text(GK_EMU_FAULT_TRAP), "trap");
    assert_string_equal(gk_emu_fault_name((enum gk_emu_fault)999), "unknown fault");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(out_of_bounds_global),
        cmocka_unit_test(before_the_beginning_and_after_free),
        cmocka_unit_test(null_pointer),
        cmocka_unit_test(misaligned),
        cmocka_unit_test(unwritten_global_shared_local),
        cmocka_unit_test(out_of_bounds_shared_local_param),
        cmocka_unit_test(constants_are_not_written),
        cmocka_unit_test(traps_and_limits),
        cmocka_unit_test(deadlock_lists_who_waits),
        cmocka_unit_test(divergent_warp_instructions),
        cmocka_unit_test(bad_operands),
        cmocka_unit_test(recursion_is_reported),
        cmocka_unit_test(launches_that_are_not_possible),
        cmocka_unit_test(every_fault_has_a_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
