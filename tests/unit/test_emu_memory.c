/*
 * Memory of the emulated device: state spaces, vectors, atomics, asynchronous copies, ldmatrix,
 * counts of sectors and wavefronts, and the host's side of the allocator.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "tests/support/check.h"
#include "tests/unit/emu_for_tests.h"

#define KERNEL(body)                                                                               \
    ".global .align 8 .b32 counter = 40;\n"                                                        \
    ".const .align 4 .f32 scale[2] = {0f3F000000, 0f40400000};\n"                                  \
    ".global .align 8 .u64 to_counter[2] = {counter, generic(counter)+4};\n"                       \
    ".extern .shared .align 128 .b8 more[];\n"                                                     \
    ".visible .entry k(.param .u64 in, .param .u64 out) {\n"                                       \
    "  .reg .b16 %h<4>; .reg .b32 %t, %r<16>; .reg .b64 %p, %o, %rd<8>; .reg .pred %q<4>;\n"       \
    "  .reg .f32 %f<8>;\n"                                                                         \
    "  .shared .align 128 .b8 tile[4096];\n  .local .align 16 .b8 own[64];\n"                      \
    "  ld.param.u64 %p, [in]; ld.param.u64 %o, [out]; mov.u32 %t, %tid.x;\n"                       \
    "  " body "\n  ret;\n}\n"

/* Runs over 512 input words (word i holds i * 3) and fetches `count` output words. */
static void run(struct rig *rig, const char *text, uint32_t *out, uint32_t count)
{
    uint32_t in[512];
    uint64_t din, dout;

    rig_init(rig, "sm_90");
    rig_ptx(rig, text);
    rig->dynamic_smem_bytes = 1024;
    for (uint32_t i = 0; i < 512; i++) {
        in[i] = i * 3;
    }
    din = rig_upload(rig, "in", in, sizeof(in));
    dout = rig_alloc(rig, "out", count * 4);
    RIG_OK(rig, "k", din, dout);
    rig_download(rig, dout, out, count * 4);
}

static void vectors_and_widths(void **state)
{
    struct rig rig;
    uint32_t out[128];

    (void)state;
    run(&rig,
        KERNEL("mad.wide.u32 %rd0, %t, 16, %p; mad.wide.u32 %rd1, %t, 16, %o;\n"
               " ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%r0,_,%r2,%r3}, [%rd0];\n"
               " ld.global.s16 %r1, [%rd0+4]; neg.s32 %r1, %r1; st.local.u16 [own+2], %r1;\n"
               " ld.local.s16 %rd5, [own+2]; cvt.u32.u64 %r1, %rd5;\n"
               " st.global.cs.v4.b32 [%rd1], {%r3,%r2,%r1,%r0};"),
        out, 128);
    for (uint32_t i = 0; i < 32; i++) {
        assert_int_equal(out[i * 4], (i * 4 + 3) * 3);
        assert_int_equal(out[i * 4 + 1], (i * 4 + 2) * 3);
        assert_int_equal(out[i * 4 + 2], 0u - (i * 4 + 1) * 3);
        assert_int_equal(out[i * 4 + 3], i * 4 * 3);
    }
    assert_int_equal(rig.report.counts.global_load_requests, 2);
    assert_int_equal(rig.report.counts.global_load_sectors, 16 + 16);
    assert_int_equal(rig.report.counts.global_store_sectors, 16);
    rig_fini(&rig);
}

static void spaces_and_generic_addresses(void **state)
{
    struct rig rig;
    uint32_t out[32];

    (void)state;
    /* Lanes below 8 point into global, below 16 into shared, below 24 into local memory, the others
     * at a parameter's twin in constant memory: one generic load serves all. */
    run(&rig,
        KERNEL("mov.u32 %r1, tile; mad.lo.u32 %r1, %t, 4, %r1; add.u32 %r2, %t, 500;\n"
               " st.shared.u32 [%r1], %r2; add.u32 %r2, %t, 900; st.local.u32 [own+8], %r2;\n"
               " mad.wide.u32 %rd0, %t, 4, %p;\n cvt.u64.u32 %rd1, %r1;\n"
               " cvta.shared.u64 %rd1, %rd1;\n cvta.local.u64 %rd2, own;\n"
               " add.u64 %rd2, %rd2, 8;\n mov.u64 %rd3, scale;\n"
               " setp.lt.u32 %q0, %t, 8; setp.lt.u32 %q1, %t, 16; setp.lt.u32 %q2, %t, 24;\n"
               " selp.b64 %rd4, %rd2, %rd3, %q2; selp.b64 %rd4, %rd1, %rd4, %q1;\n"
               " selp.b64 %rd4, %rd0, %rd4, %q0; ld.u32 %r4, [%rd4];\n"
               " isspacep.shared %q3, %rd4; @%q3 add.u32 %r4, %r4, 10000;\n"
               " isspacep.local %q3, %rd4; @%q3 add.u32 %r4, %r4, 20000;\n"
               " mad.wide.u32 %rd5, %t, 4, %o; st.u32 [%rd5], %r4;"),
        out, 32);
    for (uint32_t i = 0; i < 32; i++) {
        assert_int_equal(out[i], i < 8    ? i * 3
                                 : i < 16 ? 10500 + i
                                 : i < 24 ? 20900 + i
                                          : 0x3f000000);
    }
    rig_fini(&rig);
}

static void module_variables(void **state)
{
    struct rig rig;
    uint32_t out[32], value;
    uint64_t address = 0, bytes = 0;

    (void)state;
    run(&rig,
        KERNEL("ld.global.u64 %rd0, [to_counter]; atom.add.u32 %r1, [%rd0], 2;\n"
               " ld.const.f32 %f0, [scale+4]; cvt.rzi.u32.f32 %r2, %f0;\n"
               " mad.lo.u32 %r1, %r2, 1000, %r1; mad.wide.u32 %rd5, %t, 4, %o;\n"
               " st.global.u32 [%rd5], %r1;"),
        out, 32);
    for (uint32_t i = 0; i < 32; i++) {
        assert_int_equal(out[i], 3040 + i * 2);
    }
    assert_ok(gk_emu_symbol_find(rig.module, "counter", &address, &bytes, &rig.err), rig.err);
    assert_int_equal(bytes, 4);
    assert_ok(gk_emu_read(rig.emu, address, &value, 4, &rig.err), rig.err);
    assert_int_equal(value, 104);
    assert_int_equal(gk_emu_symbol_find(rig.module, "nothing", &address, &bytes, &rig.err),
                     GK_NOT_FOUND);
    rig_fini(&rig);
}

/* Each atomic on one shared word, 32 lanes in order, from the start value 5. */
static void atomics(void **state)
{
    static const struct {
        const char *text;
        uint32_t last_old, end;
    } CASES[] = {
        {"atom.shared.add.u32 %r1, [tile], %t;", 5 + 465, 5 + 496},
        {"atom.shared.min.s32 %r1, [tile], %t;", 0, 0},
        {"atom.shared.max.u32 %r1, [tile], %t;", 30, 31},
        {"atom.shared.inc.u32 %r1, [tile], 6;", 1, 2},
        {"atom.shared.dec.u32 %r1, [tile], 9;", 4, 3},
        {"atom.shared.and.b32 %r1, [tile], 4;", 4, 4},
        {"atom.shared.or.b32 %r1, [tile], %t;", 31, 31},
        {"atom.shared.xor.b32 %r1, [tile], 1;", 4, 5},
        {"atom.shared.exch.b32 %r1, [tile], %t;", 30, 31},
        {"atom.shared.cas.b32 %r1, [tile], 5, 99;", 99, 99},
        {"mov.u32 %r1, 0; red.shared.add.u32 [tile], 2;", 0, 69},
        {"atom.relaxed.cta.shared::cta.add.s32 %r1, [tile], -1;", 5u - 31u, 5u - 32u},
        {"st.shared.f32 [tile], 0f40A00000; bar.warp.sync -1; atom.shared.add.f32 %r1, [tile], "
         "0f3F800000;",
         0x42100000, 0x42140000},
        {"st.shared.u32 [tile], 0; bar.warp.sync -1; atom.shared.add.noftz.f16x2 %r1, [tile], "
         "0x3C004000;",
         0x4fc053c0, 0x50005400},
        {"st.shared.u32 [tile], 0; bar.warp.sync -1; atom.shared.add.noftz.bf16x2 %r1, [tile], "
         "0x3F804000;",
         0x41f84278, 0x42004280},
    };

    (void)state;
    for (size_t i = 0; i < GK_ARRAY_COUNT(CASES); i++) {
        struct rig rig;
        uint32_t out[33];
        char whole[3000];

        (void)snprintf(
            whole, sizeof(whole), "%s%s%s",
            ".visible .entry k(.param .u64 in, .param .u64 out) {\n .reg .b32 %t, "
            "%r<16>; .reg .b64 %p, %o, %rd<8>;\n .shared .align 16 .b8 tile[64];\n"
            " ld.param.u64 %o, [out]; mov.u32 %t, %tid.x; st.shared.u32 [tile], 5;\n"
            " bar.warp.sync -1; ",
            CASES[i].text,
            "\n bar.warp.sync -1; ld.shared.u32 %r3, [tile]; mad.wide.u32 %rd5, %t, 4, %o;\n"
            " st.global.u32 [%rd5], %r1; st.global.u32 [%o+128], %r3;\n}\n");
        run(&rig, whole, out, 33);
        if (out[31] != CASES[i].last_old || out[32] != CASES[i].end) {
            fail_msg("%s: old 0x%x, end 0x%x, wanted 0x%x, 0x%x", CASES[i].text, out[31], out[32],
                     CASES[i].last_old, CASES[i].end);
        }
        rig_fini(&rig);
    }
}

static void wide_atomics(void **state)
{
    struct rig rig;
    uint64_t words[3] = {10, 0, 0}, at;
    double sum;

    (void)state;
    rig_init(&rig, "sm_80");
    rig_ptx(&rig, ".entry k(.param .u64 where) { .reg .b64 %p, %rd<4>; .reg .b32 %t;\n"
                  " ld.param.u64 %p, [where]; mov.u32 %t, %tid.x; cvt.u64.u32 %rd1, %t;\n"
                  " red.global.add.u64 [%p], %rd1; atom.add.f64 %rd2, [%p+8], 0d3FE0000000000000;\n"
                  " atom.global.max.s64 %rd2, [%p+16], %rd1; }");
    at = rig_upload(&rig, "words", words, sizeof(words));
    RIG_OK(&rig, "k", at);
    rig_download(&rig, at, words, sizeof(words));
    memcpy(&sum, &words[1], sizeof(sum));
    assert_int_equal(words[0], 506);
    assert_true(sum == 16.0);
    assert_int_equal(words[2], 31);
    rig_fini(&rig);
}

/* ------------------------------------------------------------------ cp.async */

#define COPY_ALL                                                                                   \
    "mov.u32 %r1, tile; mad.lo.u32 %r1, %t, 16, %r1; mad.wide.u32 %rd0, %t, 16, %p;\n"             \
    " mad.wide.u32 %rd5, %t, 4, %o;\n"                                                             \
    " cp.async.cg.shared.global.L2::128B [%r1], [%rd0], 16;\n cp.async.commit_group;\n"            \
    " cp.async.ca.shared.global [%r1+1024], [%rd0+4], 4;\n cp.async.commit_group;\n"

static void copies_arrive_at_their_wait(void **state)
{
    struct rig rig;
    uint32_t out[32];

    (void)state;
    run(&rig,
        KERNEL(COPY_ALL "cp.async.wait_group 1;\n ld.shared.u32 %r2, [%r1+12];\n"
                        " cp.async.wait_group 0;\n ld.shared.u32 %r3, [%r1+1024];\n"
                        " mad.lo.u32 %r2, %r3, 10000, %r2; st.global.u32 [%rd5], %r2;"),
        out, 32);
    for (uint32_t i = 0; i < 32; i++) {
        assert_int_equal(out[i], (i * 4 + 3) * 3 + (i * 4 + 1) * 3 * 10000);
    }
    assert_int_equal(rig.report.counts.cp_async_bytes, 32 * 20);
    rig_fini(&rig);
}

static void reading_before_the_wait_is_a_fault(void **state)
{
    static const char *const BODY[] = {
        KERNEL(COPY_ALL "ld.shared.u32 %r2, [%r1];\n st.global.u32 [%rd5], %r2;"),
        KERNEL(COPY_ALL "cp.async.wait_group 1;\n ld.shared.u32 %r2, [%r1+1024];\n"
                        " st.global.u32 [%rd5], %r2;"),
        KERNEL(COPY_ALL "st.shared.u32 [%r1+8], %t;\n cp.async.wait_all;"),
    };

    (void)state;
    for (size_t i = 0; i < GK_ARRAY_COUNT(BODY); i++) {
        struct rig rig;
        uint64_t in, out;

        rig_init(&rig, "sm_80");
        rig_ptx(&rig, BODY[i]);
        in = rig_upload(&rig, "in", (char[1024]){1}, 1024);
        out = rig_alloc(&rig, "out", 128);
        RIG_FAULT(&rig, PENDING, "k", in, out);
        /* Early, the data is there at once, and looking is no better for it. */
        gk_emu_set_schedule(rig.emu, GK_EMU_EARLY);
        RIG_FAULT(&rig, PENDING, "k", in, out);
        rig_fini(&rig);
    }
}

/* As on a GPU: see is_miscompiled. */
static void a_policy_of_a_copy_ends_sm_90(void **state)
{
    static const char BODY[] =
        KERNEL("mov.u32 %r1, tile; mad.lo.u32 %r1, %t, 16, %r1; mad.wide.u32 %rd0, %t, 16, %p;\n"
               " createpolicy.fractional.L2::evict_first.b64 %rd5, 1.0;\n"
               " cp.async.cg.shared.global.L2::cache_hint [%r1], [%rd0], 16, %rd5;\n"
               " cp.async.wait_all;");
    static const char *const TARGETS[] = {"sm_80", "sm_90", "sm_90a"};

    (void)state;
    for (size_t i = 0; i < GK_ARRAY_COUNT(TARGETS); i++) {
        struct rig rig;
        uint64_t in, out;

        rig_init(&rig, TARGETS[i]);
        rig_ptx(&rig, BODY);
        in = rig_upload(&rig, "in", (char[1024]){1}, 1024);
        out = rig_alloc(&rig, "out", 128);
        if (i == 0) {
            RIG_OK(&rig, "k", in, out);
        } else {
            RIG_FAULT(&rig, TRAP, "k", in, out);
        }
        rig_fini(&rig);
    }
}

static void copies_fill_with_zeros(void **state)
{
    struct rig rig;
    uint32_t out[128];

    (void)state;
    /* Lane t reads t % 17 of 16 bytes... the rest is zero; lane 31 ignores a source out of bounds.
     */
    run(&rig,
        KERNEL("mov.u32 %r1, tile; mad.lo.u32 %r1, %t, 16, %r1; mad.wide.u32 %rd0, %t, 16, %p;\n"
               " rem.u32 %r2, %t, 17; cp.async.cg.shared.global [%r1], [%rd0], 16, %r2;\n"
               " setp.eq.u32 %q0, %t, 31; selp.b64 %rd0, 0, %rd0, %q0;\n"
               " @%q0 cp.async.cg.shared.global [%r1+512], [%rd0], 16, %q0;\n"
               " cp.async.wait_all;\n ld.shared.v4.u32 {%r4,%r5,%r6,%r7}, [%r1];\n"
               " mad.wide.u32 %rd5, %t, 16, %o; st.global.v4.u32 [%rd5], {%r4,%r5,%r6,%r7};\n"
               " @%q0 ld.shared.u32 %r4, [%r1+512];\n @%q0 st.global.u32 [%rd5], %r4;"),
        out, 128);
    for (uint32_t i = 0; i < 31; i++) {
        for (uint32_t w = 0; w < 4; w++) {
            uint32_t value = (i * 4 + w) * 3, have = i % 17 > w * 4 ? i % 17 - w * 4 : 0;

            assert_int_equal(out[i * 4 + w], have >= 4 ? value : value & ((1ull << have * 8) - 1));
        }
    }
    assert_int_equal(out[124], 0);
    rig_fini(&rig);
}

/* ------------------------------------------------------------------ ldmatrix and counts */

static void matrices_in_shared_memory(void **state)
{
    struct rig rig;
    uint32_t out[32 * 9];

    (void)state;
    /* Element (row, column) of matrix m holds 256 m + 16 row + column. */
    run(&rig,
        KERNEL("mov.u32 %r1, tile; mov.u32 %r2, %t;\nFILL: shr.u32 %r3, %r2, 6;\n"
               " shr.u32 %r4, %r2, 3; and.b32 %r4, %r4, 7; and.b32 %r5, %r2, 7;\n"
               " mad.lo.u32 %r6, %r3, 16, %r4; mad.lo.u32 %r6, %r6, 16, %r5;\n"
               " cvt.u16.u32 %h0, %r6; mad.lo.u32 %r7, %r2, 2, %r1; st.shared.u16 [%r7], %h0;\n"
               " add.u32 %r2, %r2, 32; setp.lt.u32 %q0, %r2, 256;\n @%q0 bra FILL;\n bar.warp.sync "
               "-1;\n"
               " mad.lo.u32 %r8, %t, 16, %r1; mad.wide.u32 %rd5, %t, 36, %o;\n"
               " ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r2,%r3,%r4,%r5}, [%r8];\n"
               " st.global.u32 [%rd5], %r2; st.global.u32 [%rd5+4], %r3;\n"
               " st.global.u32 [%rd5+8], %r4; st.global.u32 [%rd5+12], %r5;\n"
               " ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%r2,%r3}, [%r8];\n"
               " st.global.u32 [%rd5+16], %r2; st.global.u32 [%rd5+20], %r3;\n"
               " ldmatrix.sync.aligned.m8n8.x1.shared::cta.b16 {%r2}, [%r8];\n"
               " st.global.u32 [%rd5+24], %r2;\n"
               " bar.warp.sync -1; stmatrix.sync.aligned.m8n8.x1.trans.shared.b16 [%r8], {%r2};\n"
               " ldmatrix.sync.aligned.m8n8.x1.shared.b16 %r3, [%r8];\n"
               " st.global.u32 [%rd5+28], %r3; st.global.u32 [%rd5+32], %t;"),
        out, 32 * 9);
    for (uint32_t i = 0; i < 32; i++) {
        uint32_t g = i / 4, t = i % 4;
        const uint32_t *lane = &out[i * 9];

        for (uint32_t m = 0; m < 4; m++) {
            uint32_t low = 256 * m + 16 * g + 2 * t;

            assert_int_equal(lane[m], low | (low + 1) << 16);
        }
        for (uint32_t m = 0; m < 2; m++) {
            assert_int_equal(lane[4 + m], (256 * m + 32 * t + g) | (256 * m + 32 * t + 16 + g)
                                                                       << 16);
        }
        assert_int_equal(lane[6], lane[0]);
        assert_int_equal(lane[7], (32 * t + g) | (32 * t + 16 + g) << 16);
    }
    rig_fini(&rig);
}

/* Every lane stores a word `stride` bytes apart: how many passes that takes. */
static void bank_conflicts_are_counted(void **state)
{
    static const struct {
        const char *text;
        uint32_t wavefronts;
    } CASES[] = {
        {"mad.lo.u32 %r1, %t, 4, %r1; st.shared.u32 [%r1], %t;", 1},
        {"mad.lo.u32 %r1, %t, 8, %r1; st.shared.u32 [%r1], %t;", 2},
        {"mad.lo.u32 %r1, %t, 128, %r1; st.shared.u32 [%r1], %t;", 32},
        {"mad.lo.u32 %r1, %t, 132, %r1; st.shared.u32 [%r1], %t;", 1},
        {"st.shared.u32 [%r1], 7;", 1},
        {"mad.lo.u32 %r1, %t, 8, %r1; st.shared.u64 [%r1], %p;", 2},
        {"mad.lo.u32 %r1, %t, 16, %r1; st.shared.v4.u32 [%r1], {%t,%t,%t,%t};", 4},
        {"mad.lo.u32 %r1, %t, 64, %r1; st.shared.v4.u32 [%r1], {%t,%t,%t,%t};", 16},
        {"mad.lo.u32 %r1, %t, 2, %r1; cvt.u16.u32 %h0, %t; st.shared.u16 [%r1], %h0;", 1},
    };

    (void)state;
    for (size_t i = 0; i < GK_ARRAY_COUNT(CASES); i++) {
        struct rig rig;
        uint32_t out[1];
        char whole[2000];

        (void)snprintf(
            whole, sizeof(whole), "%s%s%s",
            ".visible .entry k(.param .u64 in, .param .u64 out) {\n .reg .b16 %h<4>;"
            " .reg .b32 %t, %r<16>; .reg .b64 %p, %o;\n .shared .align 16 .b8 tile[5000];\n"
            " ld.param.u64 %o, [out]; mov.u32 %t, %tid.x; mov.u32 %r1, tile;\n"
            " st.global.u32 [%o], 1;\n mov.u64 %p, 7;\n ",
            CASES[i].text, "\n}\n");
        run(&rig, whole, out, 1);
        if (rig.report.counts.shared_wavefronts != CASES[i].wavefronts) {
            fail_msg("%s: %u wavefronts, wanted %u", CASES[i].text,
                     (unsigned)rig.report.counts.shared_wavefronts, CASES[i].wavefronts);
        }
        rig_fini(&rig);
    }
}

static void sectors_are_counted(void **state)
{
    static const struct {
        const char *text;
        uint32_t sectors;
    } CASES[] = {
        {"mad.wide.u32 %rd0, %t, 4, %p; ld.global.u32 %r0, [%rd0];", 4},
        {"mad.wide.u32 %rd0, %t, 4, %p; ld.global.u32 %r0, [%rd0+16];", 5},
        {"mad.wide.u32 %rd0, %t, 32, %p; ld.global.u32 %r0, [%rd0];", 32},
        {"ld.global.u32 %r0, [%p];", 1},
        {"sub.u32 %r1, 31, %t; mad.wide.u32 %rd0, %r1, 8, %p; ld.global.u64 %rd1, [%rd0];", 8},
        {"and.b32 %r1, %t, 1; mad.wide.u32 %rd0, %r1, 64, %p; ld.global.u32 %r0, [%rd0];", 2},
        {"setp.gt.u32 %q, %t, 15; mad.wide.u32 %rd0, %t, 4, %p; @%q ld.global.u32 %r0, [%rd0];", 2},
    };

    (void)state;
    for (size_t i = 0; i < GK_ARRAY_COUNT(CASES); i++) {
        struct rig rig;
        uint32_t out[1];
        char whole[2000];

        (void)snprintf(whole, sizeof(whole), "%s%s%s",
                       ".visible .entry k(.param .u64 in, .param .u64 out) {\n .reg .pred %q;"
                       " .reg .b32 %t, %r<16>; .reg .b64 %p, %o, %rd<4>;\n ld.param.u64 %p, [in];"
                       " ld.param.u64 %o, [out]; mov.u32 %t, %tid.x; st.global.u32 [%o], 1;\n ",
                       CASES[i].text, "\n}\n");
        run(&rig, whole, out, 1);
        if (rig.report.counts.global_load_sectors != CASES[i].sectors) {
            fail_msg("%s: %u sectors, wanted %u", CASES[i].text,
                     (unsigned)rig.report.counts.global_load_sectors, CASES[i].sectors);
        }
        rig_fini(&rig);
    }
}

static void dynamic_memory_comes_behind_static(void **state)
{
    struct rig rig;
    uint32_t out[32];
    struct gk_emu_kernel *kernel = NULL;
    struct gk_emu_kernel_info info;

    (void)state;
    run(&rig,
        KERNEL("mov.u32 %r1, more; mad.lo.u32 %r2, %t, 4, %r1; st.shared.u32 [%r2+896], %t;\n"
               " st.shared.u32 [tile+4092], %r1; mad.wide.u32 %rd5, %t, 4, %o;\n"
               " st.global.u32 [%rd5], %r1;"),
        out, 32);
    assert_int_equal(out[3], 4096);
    assert_ok(gk_emu_kernel_find(rig.module, "k", &kernel, &rig.err), rig.err);
    gk_emu_kernel_info(kernel, &info);
    assert_int_equal(info.static_smem_bytes, 4096);
    assert_int_equal(info.local_bytes, 64);
    assert_int_equal(info.param_count, 2);
    assert_int_equal(info.params[1].offset, 8);
    rig_fini(&rig);
}

static void the_hosts_side(void **state)
{
    struct gk_emu_options options = {.memory_limit_bytes = 10000};
    struct gk_emu *emu = NULL;
    struct gk_err err;
    uint64_t a = 0, b = 0, unwritten = 0;
    unsigned char bytes[64];

    (void)state;
    assert_ok(gk_emu_create(&options, &emu, &err), err);
    assert_ok(gk_emu_alloc(emu, "a", 6000, 0, &a, &err), err);
    assert_int_equal(a % 256, 0);
    assert_int_equal(gk_emu_alloc(emu, "b", 6000, 0, &b, &err), GK_LIMIT);
    assert_contains(err.text, "'b' of 6000 bytes: 6000 of the emulated device's 10000");
    assert_ok(gk_emu_alloc(emu, "b", 4000, 4096, &b, &err), err);
    assert_int_equal(b % 4096, 0);
    assert_int_equal(gk_emu_memory_used(emu), 10000);
    assert_ok(gk_emu_unwritten(emu, a, 6000, &unwritten, &err), err);
    assert_int_equal(unwritten, 6000);
    assert_ok(gk_emu_fill(emu, a + 3, 50, "\x11\x22\x33", 3, &err), err);
    assert_ok(gk_emu_unwritten(emu, a, 6000, &unwritten, &err), err);
    assert_int_equal(unwritten, 5950);
    assert_ok(gk_emu_read(emu, a, bytes, 64, &err), err);
    assert_int_equal(bytes[2], 0);
    assert_int_equal(bytes[3], 0x11);
    assert_int_equal(bytes[52], 0x22);
    assert_int_equal(bytes[53], 0);
    assert_ok(gk_emu_mark_written(emu, a, 6000, &err), err);
    assert_ok(gk_emu_mark_unwritten(emu, a + 100, 9, &err), err);
    assert_ok(gk_emu_unwritten(emu, a + 90, 100, &unwritten, &err), err);
    assert_int_equal(unwritten, 9);
    assert_non_null(gk_emu_host_pointer(emu, a + 5999, 1));
    assert_null(gk_emu_host_pointer(emu, a + 5999, 2));
    assert_int_equal(gk_emu_write(emu, a + 5990, bytes, 20, &err), GK_RANGE);
    assert_contains(err.text, "the nearest is 'a'");
    assert_ok(gk_emu_free(emu, a, &err), err);
    assert_int_equal(gk_emu_memory_used(emu), 4000);
    assert_int_equal(gk_emu_alloc(emu, "c", 1, 3, &a, &err), GK_USAGE);
    gk_emu_destroy(emu);
    gk_emu_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors_and_widths),
        cmocka_unit_test(spaces_and_generic_addresses),
        cmocka_unit_test(module_variables),
        cmocka_unit_test(atomics),
        cmocka_unit_test(wide_atomics),
        cmocka_unit_test(copies_arrive_at_their_wait),
        cmocka_unit_test(reading_before_the_wait_is_a_fault),
        cmocka_unit_test(a_policy_of_a_copy_ends_sm_90),
        cmocka_unit_test(copies_fill_with_zeros),
        cmocka_unit_test(matrices_in_shared_memory),
        cmocka_unit_test(bank_conflicts_are_counted),
        cmocka_unit_test(sectors_are_counted),
        cmocka_unit_test(dynamic_memory_comes_behind_static),
        cmocka_unit_test(the_hosts_side),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
