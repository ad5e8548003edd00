/*
 * Counts by source line, of kernels whose counts follow from arithmetic.
 */
#include "worker/emu/emu_lines.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "tests/support/check.h"
#include "tests/unit/emu_for_tests.h"

/* Each of these lines does one thing, and the tests name it by number. */
static const char MEMORY[] =
    "extern \"C\" __global__ void memory(const float *in, float *out) {\n" /* 1 */
    "    __shared__ float s[1024];\n"                                      /* 2 */
    "    volatile float *v = s;\n"                                         /* 3 */
    "    const int t = threadIdx.x;\n"                                     /* 4 */
    "    for (int i = 0; i < 8; ++i) {\n"                                  /* 5 */
    "        v[t + 128 * i] = 1.0f;\n"                                     /* 6 */
    "    }\n"                                                              /* 7 */
    "    __syncthreads();\n"                                               /* 8 */
    "    float x = v[t];\n"                                                /* 9 */
    "    x += v[t % 32 * 8];\n"                                            /* 10 */
    "    x += v[0];\n"                                                     /* 11 */
    "    x += in[t];\n"                                                    /* 12 */
    "    x += in[t * 8];\n"                                                /* 13 */
    "    x += in[t + 1];\n"                                                /* 14 */
    "    if (t < 4) {\n"                                                   /* 15 */
    "        x += in[t + 64];\n"                                           /* 16 */
    "    }\n"                                                              /* 17 */
    "    out[t] = x;\n"                                                    /* 18 */
    "    out[t * 4 + 128] = x;\n"                                          /* 19 */
    "    out[t] = in[t / 8];\n"                                            /* 20 */
    "}\n";

static const char MATRIX[] =
    "extern \"C\" __global__ void matrix(unsigned *out) {\n"         /* 1 */
    "    __shared__ __align__(128) unsigned s[1024];\n"              /* 2 */
    "    const unsigned t = threadIdx.x;\n"                          /* 3 */
    "    for (unsigned i = 0; i < 32; ++i) { s[t + 32 * i] = 0; }\n" /* 4 */
    "    __syncthreads();\n"                                         /* 5 */
    "    unsigned b = (unsigned)__cvta_generic_to_shared(s);\n"      /* 6 */
    "    unsigned a0, a1, a2, a3, c0, c1, c2, c3;\n"                 /* 7 */
    "    asm volatile(\"ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\" "
    ": \"=r\"(a0), \"=r\"(a1), \"=r\"(a2), \"=r\"(a3) : \"r\"(b + t * 16));\n" /* 8 */
    "    asm volatile(\"ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\" "
    ": \"=r\"(c0), \"=r\"(c1), \"=r\"(c2), \"=r\"(c3) : \"r\"(b + t * 128));\n" /* 9 */
    "    float d0 = 0, d1 = 0, d2 = 0, d3 = 0;\n"                               /* 10 */
    "    for (int i = 0; i < 5; ++i) {\n"                                       /* 11 */
    "        asm volatile(\"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
    "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\" : \"+f\"(d0), \"+f\"(d1), "
    "\"+f\"(d2), \"+f\"(d3) : \"r\"(a0), \"r\"(a1), \"r\"(a2), \"r\"(a3), \"r\"(c0), "
    "\"r\"(c1));\n" /* 12 */
    "    }\n"       /* 13 */
    "    out[t] = a0 + a1 + a2 + a3 + c0 + c1 + c2 + c3 + (unsigned)(d0 + d1 + d2 + d3);\n"
    "}\n";

static const char INLINED[] =
    "__device__ __forceinline__ int leaf(const int *p) {\n"                   /* 1 */
    "    int v;\n"                                                            /* 2 */
    "    asm volatile(\"ld.global.s32 %0, [%1];\" : \"=r\"(v) : \"l\"(p));\n" /* 3 */
    "    return v;\n"                                                         /* 4 */
    "}\n"                                                                     /* 5 */
    "__device__ __forceinline__ int role(const int *p) {\n"                   /* 6 */
    "    int a = leaf(p);\n"                                                  /* 7 */
    "    return a + leaf(p + 32);\n"                                          /* 8 */
    "}\n"                                                                     /* 9 */
    "extern \"C\" __global__ void inlined(const int *p, int *o) {\n"          /* 10 */
    "    o[threadIdx.x] = role(p + threadIdx.x) +\n"                          /* 11 */
    "                     role(p + threadIdx.x + 1);\n"                       /* 12 */
    "}\n";

/* Sums over all places whose innermost frame is the line. */
static struct gk_emu_line at_line(const struct rig *rig, uint32_t line)
{
    const struct gk_emu_line *lines = NULL;
    struct gk_emu_line sum = {0};
    uint32_t count = gk_emu_lines(rig->emu, &lines);

    for (uint32_t i = 0; i < count; i++) {
        if (!lines[i].frame_count || lines[i].frames[0].line != line) {
            continue;
        }
        for (size_t w = 0; w < sizeof(sum.counts) / 8; w++) {
            ((uint64_t *)&sum.counts)[w] += ((const uint64_t *)&lines[i].counts)[w];
        }
        for (size_t w = 0; w < sizeof(sum.ideal) / 8; w++) {
            ((uint64_t *)&sum.ideal)[w] += ((const uint64_t *)&lines[i].ideal)[w];
        }
        sum.waits += lines[i].waits;
        sum.frame_count = lines[i].frame_count;
    }
    return sum;
}

/* What the lines did is what the launch did, count by count. */
static void check_sum(const struct rig *rig)
{
    const struct gk_emu_line *lines = NULL;
    uint32_t count = gk_emu_lines(rig->emu, &lines);
    struct gk_emu_counts sum = {0}, want = rig->report.counts;

    assert_true(count > 0);
    for (uint32_t i = 0; i < count; i++) {
        for (size_t w = 0; w < sizeof(sum) / 8; w++) {
            ((uint64_t *)&sum)[w] += ((const uint64_t *)&lines[i].counts)[w];
        }
    }
    want.blocks = want.warps = want.blocks_per_sm = want.waves = 0;
    assert_memory_equal(&sum, &want, sizeof(sum));
}

static void counted(struct rig *rig, const char *target, const char *source)
{
    rig_init(rig, target);
    rig_cuda(rig, source);
    assert_ok(gk_emu_count_lines(rig->emu, true, &rig->err), rig->err);
}

#define SHARED(line, requests, wavefronts, best)                                                   \
    do {                                                                                           \
        struct gk_emu_line met = at_line(&rig, line);                                              \
        assert_int_equal(met.counts.shared_requests, requests);                                    \
        assert_int_equal(met.counts.shared_wavefronts, wavefronts);                                \
        assert_int_equal(met.ideal.shared_wavefronts, best);                                       \
    } while (0)

#define LOADS(line, requests, sectors, best)                                                       \
    do {                                                                                           \
        struct gk_emu_line met = at_line(&rig, line);                                              \
        assert_int_equal(met.counts.global_load_requests, requests);                               \
        assert_int_equal(met.counts.global_load_sectors, sectors);                                 \
        assert_int_equal(met.ideal.global_load_sectors, best);                                     \
    } while (0)

static void memory(void **state)
{
    static const float ONES[2048] = {1};
    struct rig rig;
    struct gk_emu_line stores;
    uint64_t in, out;

    (void)state;
    counted(&rig, "sm_80", MEMORY);
    rig.block[0] = 128; /* four warps: every request is met four times */
    in = rig_upload(&rig, "in", ONES, sizeof(ONES));
    out = rig_alloc(&rig, "out", 4096);
    RIG_OK(&rig, "memory", in, out);
    SHARED(6, 32, 32, 32); /* eight stores of four warps, no conflict */
    SHARED(9, 4, 4, 4);
    SHARED(10, 4, 32, 4); /* every eighth word: four banks, eight lanes each */
    SHARED(11, 4, 4, 4);  /* one word for all */
    LOADS(12, 4, 16, 16);
    LOADS(13, 4, 128, 16); /* a sector a lane */
    LOADS(14, 4, 20, 16);  /* 128 bytes that begin 4 bytes behind a sector */
    LOADS(16, 1, 1, 1);    /* four lanes of one warp */
    LOADS(20, 4, 4, 4);    /* four words for 32 lanes */
    stores = at_line(&rig, 18);
    assert_int_equal(stores.counts.global_store_requests, 4);
    assert_int_equal(stores.counts.global_store_sectors, 16);
    assert_int_equal(stores.ideal.global_store_sectors, 16);
    stores = at_line(&rig, 19);
    assert_int_equal(stores.counts.global_store_sectors, 64);
    assert_int_equal(stores.ideal.global_store_sectors, 16);
    assert_int_equal(at_line(&rig, 8).waits, 4); /* each warp, once */
    assert_int_equal(at_line(&rig, 8).counts.barrier_waits, 4);
    check_sum(&rig);
    rig_fini(&rig);
}

static void matrix(void **state)
{
    struct rig rig;
    uint64_t out;

    (void)state;
    counted(&rig, "sm_80", MATRIX);
    out = rig_alloc(&rig, "out", 128);
    RIG_OK(&rig, "matrix", out);
    SHARED(8, 1, 4, 4);  /* 32 rows of 16 bytes, one behind the other */
    SHARED(9, 1, 32, 4); /* 128 bytes apart: the eight rows of each matrix in one set of banks */
    assert_int_equal(at_line(&rig, 12).counts.tensor_flops, 5 * 2 * 16 * 8 * 16);
    assert_int_equal(at_line(&rig, 8).counts.tensor_flops, 0);
    check_sum(&rig);
    rig_fini(&rig);
}

/* A place is the whole chain of calls: leaf's load is met four times, by way of lines 7 and 8, and
 * of 11 and 12. */
static void inlined(void **state)
{
    static const int ZEROS[128];
    const struct gk_emu_line *lines = NULL;
    uint32_t count, found = 0;
    struct rig rig;
    uint64_t in, out;

    (void)state;
    counted(&rig, "sm_80", INLINED);
    in = rig_upload(&rig, "in", ZEROS, sizeof(ZEROS));
    out = rig_alloc(&rig, "out", 128);
    RIG_OK(&rig, "inlined", in, out);
    count = gk_emu_lines(rig.emu, &lines);
    for (uint32_t i = 0; i < count; i++) {
        if (lines[i].counts.global_load_requests) {
            assert_int_equal(lines[i].counts.global_load_requests, 1);
            assert_int_equal(lines[i].frame_count, 3);
            assert_int_equal(lines[i].frames[0].line, 3);
            assert_in_range(lines[i].frames[1].line, 7, 8);
            assert_in_range(lines[i].frames[2].line, 11, 12);
            found |= 1u << (2 * lines[i].frames[2].line + lines[i].frames[1].line - 29);
            assert_contains(lines[i].frames[2].file, "kernel.cu");
        }
    }
    assert_int_equal(found, 15);
    check_sum(&rig);
    rig_fini(&rig);
}

/* Blocks, and copies that the threads do not make: one of 1 KB into shared memory, one out of it.
 */
static void copies(void **state)
{
    static const char SOURCE[] =
        "extern \"C\" __global__ void copies(const char *in, char *out) {\n"
        "    __shared__ __align__(128) char s[1024];\n"
        "    __shared__ __align__(8) unsigned long long full;\n"
        "    unsigned b = (unsigned)__cvta_generic_to_shared(&full);\n"
        "    unsigned d = (unsigned)__cvta_generic_to_shared(s);\n"
        "    if (threadIdx.x == 0) {\n"
        "        asm volatile(\"mbarrier.init.shared::cta.b64 [%0], 1;\" :: \"r\"(b) : "
        "\"memory\");\n"
        "        asm volatile(\"fence.mbarrier_init.release.cluster;\" ::: \"memory\");\n"
        "        asm volatile(\"mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 1024;\" :: "
        "\"r\"(b) : \"memory\");\n"
        "        asm volatile(\"cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
        "[%0], [%1], 1024, [%2];\" :: \"r\"(d), \"l\"(in), \"r\"(b) : \"memory\");\n" /* 10 */
        "    }\n"
        "    __syncthreads();\n" /* 12 */
        "    asm volatile(\"{.reg .pred p;\\nL: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], "
        "0;\\n@!p bra L;\\n}\" :: \"r\"(b) : \"memory\");\n" /* 13 */
        "    if (threadIdx.x == 0) {\n"
        "        asm volatile(\"cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 1024;\" :: "
        "\"l\"(out), \"r\"(d) : \"memory\");\n" /* 15 */
        "        asm volatile(\"cp.async.bulk.commit_group;\\ncp.async.bulk.wait_group 0;\" ::: "
        "\"memory\");\n"
        "    }\n"
        "}\n";
    static const char BYTES[1024] = {7};
    struct rig rig;
    struct gk_emu_line load, wait;
    uint64_t in, out;

    (void)state;
    counted(&rig, "sm_90a", SOURCE);
    gk_emu_set_schedule(rig.emu, GK_EMU_LATE);
    rig.grid[0] = 3;
    in = rig_upload(&rig, "in", BYTES, sizeof(BYTES));
    out = rig_alloc(&rig, "out", 1024 * 3);
    rig.grid[0] = 1;
    RIG_OK(&rig, "copies", in, out);
    load = at_line(&rig, 10);
    assert_int_equal(load.counts.bulk_load_bytes, 1024);
    assert_int_equal(load.counts.bulk_global_bytes, 1024);
    assert_int_equal(at_line(&rig, 15).counts.bulk_store_bytes, 1024);
    assert_int_equal(rig.report.counts.bulk_global_bytes, 2048);
    wait = at_line(&rig, 13);
    assert_true(wait.waits >= 1); /* the copy lands no earlier than it must */
    assert_int_equal(at_line(&rig, 12).waits, 1);
    check_sum(&rig);
    assert_true(rig.report.terms.l2_ns > 0); /* bulk copies are traffic of the model */
    rig_fini(&rig);
}

static void off_and_on(void **state)
{
    static const int ZEROS[128];
    const struct gk_emu_line *lines = NULL;
    struct gk_emu_counts counts;
    struct rig rig;
    double ns;
    uint64_t in, out;

    (void)state;
    counted(&rig, "sm_80", INLINED);
    in = rig_upload(&rig, "in", ZEROS, sizeof(ZEROS));
    out = rig_alloc(&rig, "out", 128);
    RIG_OK(&rig, "inlined", in, out);
    counts = rig.report.counts;
    ns = rig.report.modelled_ns;
    assert_ok(gk_emu_count_lines(rig.emu, false, &rig.err), rig.err);
    RIG_OK(&rig, "inlined", in, out);
    assert_int_equal(gk_emu_lines(rig.emu, &lines), 0);
    assert_memory_equal(&counts, &rig.report.counts, sizeof(counts)); /* looking changes nothing */
    assert_true(ns == rig.report.modelled_ns);
    rig_fini(&rig);
}

/* A launch that fails shows what it had done. */
static void until_a_fault(void **state)
{
    static const int ZEROS[128];
    struct rig rig;
    uint64_t in;

    (void)state;
    counted(&rig, "sm_80", INLINED);
    in = rig_upload(&rig, "in", ZEROS, sizeof(ZEROS));
    RIG_FAULT(&rig, OUT_OF_BOUNDS, "inlined", in, rig_alloc(&rig, "out", 64));
    assert_int_equal(at_line(&rig, 3).counts.global_load_requests, 4);
    check_sum(&rig);
    rig_fini(&rig);
}

/* The terms are those of the sum: the largest of compute and memory, what does not overlap, the
 * latency and the launch. */
static void terms(void **state)
{
    static const float ONES[2048] = {1};
    const struct gk_emu_terms *t;
    struct rig rig;
    double compute, memory_ns, more, less;
    uint64_t in, out;

    (void)state;
    counted(&rig, "sm_80", MEMORY);
    rig.block[0] = 128;
    in = rig_upload(&rig, "in", ONES, sizeof(ONES));
    out = rig_alloc(&rig, "out", 4096);
    RIG_OK(&rig, "memory", in, out);
    t = &rig.report.terms;
    compute = t->tensor_ns;
    compute = t->fma_ns > compute ? t->fma_ns : compute;
    compute = t->fp64_ns > compute ? t->fp64_ns : compute;
    compute = t->special_ns > compute ? t->special_ns : compute;
    compute = t->issue_ns > compute ? t->issue_ns : compute;
    compute = t->shared_ns > compute ? t->shared_ns : compute;
    memory_ns = t->dram_ns > t->l2_ns ? t->dram_ns : t->l2_ns;
    more = compute > memory_ns ? compute : memory_ns;
    less = compute > memory_ns ? memory_ns : compute;
    compute = t->launch_ns + t->latency_ns + more + (1 - t->hidden) * less;
    assert_true(compute > rig.report.modelled_ns * 0.999999);
    assert_true(compute < rig.report.modelled_ns * 1.000001);
    /* 72 wavefronts of one block, one a cycle of 1.4 GHz */
    assert_true(t->shared_ns > 51.4 && t->shared_ns < 51.5);
    rig_fini(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory), cmocka_unit_test(matrix),     cmocka_unit_test(inlined),
        cmocka_unit_test(copies), cmocka_unit_test(off_and_on), cmocka_unit_test(until_a_fault),
        cmocka_unit_test(terms),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
