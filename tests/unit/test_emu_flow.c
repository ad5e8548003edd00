/*
 * Control flow: divergence and where lanes meet again, loops of unequal length, calls, indexed
 * branches, barriers with counts, communication inside parts of a warp.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "tests/support/check.h"
#include "tests/unit/emu_for_tests.h"

#define KERNEL(body)                                                                               \
    ".visible .entry k(.param .u64 where) {\n"                                                     \
    "  .reg .b32 %t, %r<16>; .reg .b64 %p, %rd<8>; .reg .pred %q<4>;\n"                            \
    "  .shared .align 16 .b8 tile[1024];\n"                                                        \
    "  ld.param.u64 %p, [where]; mov.u32 %t, %tid.x; mad.wide.u32 %p, %t, 4, %p;\n"                \
    "  mov.u32 %r0, 0;\n  " body "\n  st.global.u32 [%p], %r0;\n  ret;\n}\n"

/* Runs a kernel of `threads` threads and fetches r0 of each. */
static void run(struct rig *rig, const char *text, uint32_t threads, uint32_t *out)
{
    uint64_t at;

    rig_init(rig, "sm_80");
    rig_ptx(rig, text);
    rig->block[0] = threads;
    at = rig_alloc(rig, "out", threads * 4);
    RIG_OK(rig, "k", at);
    rig_download(rig, at, out, threads * 4);
}

static void lanes_meet_again(void **state)
{
    struct rig rig;
    uint32_t out[32];

    (void)state;
    /* Odd lanes take another way; behind it a vote by all must see all. */
    run(&rig,
        KERNEL("and.b32 %r1, %t, 1; setp.eq.u32 %q0, %r1, 0;\n @%q0 bra EVEN;\n"
               " mul.lo.u32 %r0, %t, 3;\n bra JOIN;\nEVEN: add.u32 %r0, %t, 100;\n"
               "JOIN: activemask.b32 %r2;\n setp.ne.u32 %q1, %r2, -1;\n"
               " @%q1 add.u32 %r0, %r0, 1000;"),
        32, out);
    for (uint32_t i = 0; i < 32; i++) {
        assert_int_equal(out[i], i % 2 ? i * 3 : i + 100);
    }
    assert_int_equal(rig.report.counts.divergent_branches, 1);
    rig_fini(&rig);
}

static void loops_of_unequal_length(void **state)
{
    struct rig rig;
    uint32_t out[64];

    (void)state;
    run(&rig,
        KERNEL("mov.u32 %r1, 0;\nLOOP: setp.gt.u32 %q0, %r1, %t;\n @%q0 bra DONE;\n"
               " add.u32 %r0, %r0, %r1;\n add.u32 %r1, %r1, 1;\n bra LOOP;\nDONE:\n"
               " shfl.sync.idx.b32 %r3, %r0, 31, 31, -1;\n add.u32 %r0, %r0, %r3;"),
        64, out);
    for (uint32_t i = 0; i < 64; i++) {
        uint32_t last = i / 32 * 32 + 31;

        assert_int_equal(out[i], i * (i + 1) / 2 + last * (last + 1) / 2);
    }
    rig_fini(&rig);
}

static void indexed_branches(void **state)
{
    struct rig rig;
    uint32_t out[32];

    (void)state;
    run(&rig,
        KERNEL("and.b32 %r1, %t, 3;\n ts: .branchtargets A, B, C, B;\n brx.idx %r1, ts;\n"
               "A: mov.u32 %r0, 10;\n bra E;\nB: mov.u32 %r0, 20;\n bra E;\n"
               "C: mov.u32 %r0, 30;\nE: add.u32 %r0, %r0, %t;"),
        32, out);
    for (uint32_t i = 0; i < 32; i++) {
        static const uint32_t BASE[] = {10, 20, 30, 20};

        assert_int_equal(out[i], BASE[i % 4] + i);
    }
    rig_fini(&rig);
}

static void calls_from_parts_of_a_warp(void **state)
{
    struct rig rig;
    uint32_t out[32];

    (void)state;
    run(&rig,
        ".func (.param .b32 out) triple(.param .b32 in, .param .b32 more)\n{\n"
        " .reg .b32 %r<4>; .reg .pred %q;\n ld.param.b32 %r1, [in]; ld.param.b32 %r3, [more];\n"
        " setp.gt.u32 %q, %r1, 20;\n @%q bra BIG;\n mad.lo.u32 %r2, %r1, 3, %r3;\n"
        " st.param.b32 [out], %r2;\n ret;\nBIG: st.param.b32 [out], 7;\n ret;\n}\n" KERNEL(
            "setp.lt.u32 %q0, %t, 8;\n @%q0 bra OTHER;\n"
            " { .param .b32 a; .param .b32 b; .param .b32 c; st.param.b32 [a], %t;\n"
            " st.param.b32 [b], 1; call (c), triple, (a, b); ld.param.b32 %r0, [c]; }\n"
            " bra E;\nOTHER: { .param .b32 a; .param .b32 b; .param .b32 c;\n"
            " add.u32 %r1, %t, 1; st.param.b32 [a], %r1; st.param.b32 [b], 5;\n"
            " call.uni (c), triple, (a, b); ld.param.b32 %r0, [c]; }\nE:"),
        32, out);
    for (uint32_t i = 0; i < 32; i++) {
        assert_int_equal(out[i], i < 8 ? (i + 1) * 3 + 5 : i > 20 ? 7 : i * 3 + 1);
    }
    rig_fini(&rig);
}

static void producers_and_consumers(void **state)
{
    struct rig rig;
    uint32_t out[128];

    (void)state;
    /* Warps 0-2 write and arrive, warp 3 waits for all 128 and reads what they wrote. */
    run(&rig,
        KERNEL("mov.u32 %r1, tile; mad.lo.u32 %r1, %t, 4, %r1;\n setp.gt.u32 %q0, %t, 95;\n"
               " @%q0 bra WAIT;\n st.shared.u32 [%r1], %t;\n bar.arrive 3, 128;\n bra E;\n"
               "WAIT: bar.sync 3, 128;\n ld.shared.u32 %r0, [%r1+-384];\n"
               " ld.shared.u32 %r2, [%r1+-128];\n mad.lo.u32 %r0, %r2, 1000, %r0;\nE:"),
        128, out);
    for (uint32_t i = 0; i < 128; i++) {
        assert_int_equal(out[i], i < 96 ? 0 : (i - 32) * 1000 + i - 96);
    }
    rig_fini(&rig);
}

static void exited_threads_do_not_hold_a_barrier(void **state)
{
    struct rig rig;
    uint32_t out[96];
    uint64_t at;

    (void)state;
    rig_init(&rig, "sm_80");
    rig_ptx(&rig, KERNEL("setp.gt.u32 %q0, %t, 31;\n setp.lt.and.u32 %q1, %t, 64, %q0;\n"
                         " st.global.u32 [%p], %r0;\n @%q1 exit;\n bar.sync 0;\n mov.u32 %r0, 5;"));
    rig.block[0] = 96;
    at = rig_alloc(&rig, "out", sizeof(out));
    RIG_OK(&rig, "k", at);
    rig_download(&rig, at, out, sizeof(out));
    for (uint32_t i = 0; i < 96; i++) {
        assert_int_equal(out[i], i / 32 == 1 ? 0 : 5);
    }
    rig_fini(&rig);
}

static void parts_of_a_warp_talk(void **state)
{
    struct rig rig;
    uint32_t out[32];

    (void)state;
    /* Two halves, each with its own member mask, at different instructions. */
    run(&rig,
        KERNEL("setp.gt.u32 %q0, %t, 15;\n @%q0 bra HIGH;\n"
               " shfl.sync.bfly.b32 %r0, %t, 1, 31, 0x0000ffff;\n bra E;\n"
               "HIGH: redux.sync.add.u32 %r0, %t, 0xffff0000;\n"
               " bar.warp.sync 0xffff0000;\nE:"),
        32, out);
    for (uint32_t i = 0; i < 32; i++) {
        assert_int_equal(out[i], i < 16 ? (i ^ 1) : (16 + 31) * 8);
    }
    rig_fini(&rig);
    /* bar.warp.sync of one mask met at two instructions, ordering a shared write before a read. */
    run(&rig,
        KERNEL("mov.u32 %r1, tile; setp.gt.u32 %q0, %t, 15;\n @%q0 bra HIGH;\n"
               " mad.lo.u32 %r1, %t, 4, %r1; st.shared.u32 [%r1], %t; bar.warp.sync -1;\n"
               " bra E;\nHIGH: bar.warp.sync -1;\n mad.lo.u32 %r1, %t, 4, %r1;\n"
               " ld.shared.u32 %r0, [%r1+-64];\nE:"),
        32, out);
    for (uint32_t i = 0; i < 32; i++) {
        assert_int_equal(out[i], i < 16 ? 0 : i - 16);
    }
    rig_fini(&rig);
}

static void special_registers(void **state)
{
    struct rig rig;
    uint32_t out[48];
    uint64_t at;

    (void)state;
    rig_init(&rig, "sm_90a");
    rig_ptx(&rig, ".entry k(.param .u64 where) {\n .reg .b32 %r<20>; .reg .b64 %p; .reg .pred %q;\n"
                  " ld.param.u64 %p, [where];\n mov.u32 %r0, %tid.x; mov.u32 %r1, %tid.y;\n"
                  " mov.u32 %r2, %ntid.x; mad.lo.u32 %r3, %r1, %r2, %r0; mov.u32 %r4, %ctaid.x;\n"
                  " mov.u32 %r5, %nctaid.x; mov.u32 %r6, %warpid; mov.u32 %r7, %laneid;\n"
                  " mad.lo.u32 %r8, %r6, 32, %r7; setp.ne.u32 %q, %r8, %r3;\n @%q trap;\n"
                  " mov.u32 %r9, %clock; mov.u32 %r10, %clock; setp.eq.u32 %q, %r9, %r10;\n"
                  " @%q trap;\n mad.lo.u32 %r3, %r4, 24, %r3; mad.wide.u32 %p, %r3, 4, %p;\n"
                  " mad.lo.u32 %r5, %r5, 1000, %r4; mov.u32 %r11, %dynamic_smem_size;\n"
                  " add.u32 %r5, %r5, %r11;\n st.global.u32 [%p], %r5;\n}");
    rig.block[0] = 6;
    rig.block[1] = 4;
    rig.grid[0] = 2;
    rig.dynamic_smem_bytes = 100000;
    at = rig_alloc(&rig, "out", sizeof(out));
    RIG_OK(&rig, "k", at);
    rig_download(&rig, at, out, sizeof(out));
    for (uint32_t i = 0; i < 48; i++) {
        assert_int_equal(out[i], 102000 + i / 24);
    }
    rig_fini(&rig);
}

static void many_blocks_take_turns(void **state)
{
    struct rig rig;
    uint32_t out[1];
    uint64_t at;

    (void)state;
    rig_init(&rig, "sm_80");
    rig_ptx(&rig, ".entry k(.param .u64 where) { .reg .b64 %p; ld.param.u64 %p, [where];\n"
                  " red.global.add.u32 [%p], 1; }");
    rig.grid[0] = 100;
    rig.grid[1] = 7;
    rig.grid[2] = 3;
    rig.block[0] = 50;
    at = rig_upload(&rig, "out", "\0\0\0\0", 4);
    RIG_OK(&rig, "k", at);
    rig_download(&rig, at, out, 4);
    assert_int_equal(out[0], 100 * 7 * 3 * 50);
    assert_int_equal(rig.report.counts.global_atomics, 100 * 7 * 3 * 50);
    assert_int_equal(rig.report.counts.blocks, 2100);
    assert_int_equal(rig.report.counts.waves, (2100 + 8 * 32 - 1) / (8 * 32));
    rig_fini(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lanes_meet_again),
        cmocka_unit_test(loops_of_unequal_length),
        cmocka_unit_test(indexed_branches),
        cmocka_unit_test(calls_from_parts_of_a_warp),
        cmocka_unit_test(producers_and_consumers),
        cmocka_unit_test(exited_threads_do_not_hold_a_barrier),
        cmocka_unit_test(parts_of_a_warp_talk),
        cmocka_unit_test(special_registers),
        cmocka_unit_test(many_blocks_take_turns),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
