/*
 * Races: kernels with one missing edge must be rejected, their right twins must not be accused.
 * Each is a body of k(float *g, int *n), run as 2 blocks of 128 threads, in every schedule.
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
#include "tests/unit/emu_for_tests.h"

#define HEAD                                                                                       \
    "#define T ((int)threadIdx.x)\n#define B ((int)blockIdx.x)\n"                                  \
    "__device__ void copy4(void *to, const void *from) {\n"                                        \
    "  asm volatile(\"cp.async.ca.shared.global [%0], [%1], 4;\" :: "                              \
    "\"r\"((unsigned)__cvta_generic_to_shared(to)), \"l\"(from) : \"memory\"); }\n"                \
    "__device__ void commit() { asm volatile(\"cp.async.commit_group;\" ::: \"memory\"); }\n"      \
    "template <int N> __device__ void wait() {\n"                                                  \
    "  asm volatile(\"cp.async.wait_group %0;\" :: \"n\"(N) : \"memory\"); }\n"                    \
    "__device__ unsigned add_release(int *p) { unsigned v; asm volatile("                          \
    "\"atom.release.gpu.add.u32 %0, [%1], 1;\" : \"=r\"(v) : \"l\"(p) : \"memory\"); return v; "   \
    "}\n"                                                                                          \
    "__device__ unsigned add_acq_rel(int *p) { unsigned v; asm volatile("                          \
    "\"atom.acq_rel.gpu.add.u32 %0, [%1], 1;\" : \"=r\"(v) : \"l\"(p) : \"memory\"); return v; "   \
    "}\n"                                                                                          \
    "__device__ unsigned load_acquire(int *p) { unsigned v; asm volatile("                         \
    "\"ld.acquire.gpu.u32 %0, [%1];\" : \"=r\"(v) : \"l\"(p) : \"memory\"); return v; }\n"         \
    "extern \"C\" __global__ void k(float *g, int *n) {\n"                                         \
    "  __shared__ float s[512]; __shared__ int flag;\n"
#define TAIL "\n}\n"

struct kernel {
    const char *name, *body;
    const char *first, *second; /* parts of both lines in the report; NULL: a right kernel */
};

static const struct kernel KERNELS[] = {
    {"barrier", "s[T] = T; __syncthreads(); g[B * 128 + T] = s[127 - T];", NULL, NULL},
    {"no barrier", "s[T] = T;\n g[B * 128 + T] = s[127 - T];", "st.shared", "ld.shared"},
    {"two rounds",
     "for (int i = 0; i < 4; i++) { s[T] = T + i; __syncthreads();\n"
     " g[B * 128 + T] = s[127 - T]; __syncthreads(); }",
     NULL, NULL},
    {"second barrier missing",
     "#pragma unroll 1\nfor (int i = 0; i < 4; i++) { s[T] = T + i; __syncthreads();\n"
     " g[B * 128 + T] = s[127 - T]; }",
     "ld.shared", "st.shared"},
    {"warp sync", "s[T] = T; __syncwarp(); g[B * 128 + T] = s[T ^ 1];", NULL, NULL},
    {"no warp sync", "s[T] = T; g[B * 128 + T] = s[T ^ 1];", "st.shared", "ld.shared"},
    {"a shuffle is no warp sync",
     "s[T] = T; float x = __shfl_xor_sync(~0u, (float)T, 1); g[B * 128 + T] = x + s[T ^ 1];",
     "st.shared", "ld.shared"},
    {"warp sync of others only",
     "s[T] = T; __syncwarp(T & 16 ? 0xffff0000u : 0xffffu); g[B * 128 + T] = s[T ^ 16];",
     "st.shared", "ld.shared"},
    {"warp sync of halves",
     "s[T] = T; __syncwarp(T & 16 ? 0xffff0000u : 0xffffu); g[B * 128 + T] = s[T ^ 1];", NULL,
     NULL},
    {"warp sync is for one warp", "s[T] = T; __syncwarp(); g[B * 128 + T] = s[T ^ 32];",
     "st.shared", "ld.shared"},
    {"named barriers",
     "if (T < 64) { s[T] = T; asm volatile(\"bar.arrive 1, 128;\" ::: \"memory\"); }\n"
     "else { asm volatile(\"bar.sync 1, 128;\" ::: \"memory\"); g[B * 64 + T - 64] = s[T - 64]; }",
     NULL, NULL},
    {"arriving is not waiting",
     "if (T >= 64) { s[T - 64] = T; asm volatile(\"bar.sync 1, 128;\" ::: \"memory\"); }\n"
     "else { asm volatile(\"bar.arrive 1, 128;\" ::: \"memory\"); g[B * 64 + T] = s[T]; }",
     "shared", "shared"},
    {"ring of copies",
     "float x = 0; copy4(&s[T], &g[T]); commit(); copy4(&s[128 + T], &g[T]); commit();\n"
     "#pragma unroll 1\nfor (int i = 0; i < 6; i++) { wait<1>(); __syncthreads();\n"
     " x += s[i % 3 * 128 + (T ^ 65)];\n"
     " copy4(&s[(i + 2) % 3 * 128 + T], &g[T]); commit(); }\n wait<0>(); n[8 + B * 128 + T] = x;",
     NULL, NULL},
    {"ring, wait off by one",
     "float x = 0; copy4(&s[T], &g[T]); commit(); copy4(&s[128 + T], &g[T]); commit();\n"
     "#pragma unroll 1\nfor (int i = 0; i < 6; i++) { wait<2>(); __syncthreads();\n"
     " x += s[i % 3 * 128 + (T ^ 65)];\n"
     " copy4(&s[(i + 2) % 3 * 128 + T], &g[T]); commit(); }\n wait<0>(); n[8 + B * 128 + T] = x;",
     "", "ld.shared"},
    {"ring, one stage too few",
     "float x = 0; copy4(&s[T], &g[T]); commit(); copy4(&s[128 + T], &g[T]); commit();\n"
     "#pragma unroll 1\nfor (int i = 0; i < 6; i++) { wait<1>(); __syncthreads();\n"
     " x += s[i % 2 * 128 + (T ^ 65)];\n"
     " copy4(&s[i % 2 * 128 + T], &g[T]); commit(); }\n wait<0>(); n[8 + B * 128 + T] = x;",
     "ld.shared", "cp.async"},
    {"ring, barrier before the wait",
     "float x = 0; copy4(&s[T], &g[T]); commit(); copy4(&s[128 + T], &g[T]); commit();\n"
     "#pragma unroll 1\nfor (int i = 0; i < 6; i++) { __syncthreads(); wait<1>();\n"
     " x += s[i % 3 * 128 + (T ^ 65)];\n"
     " copy4(&s[(i + 2) % 3 * 128 + T], &g[T]); commit(); }\n wait<0>(); n[8 + B * 128 + T] = x;",
     "", "ld.shared"},
    {"blocks write apart", "g[B * 128 + T] = T;", NULL, NULL},
    {"blocks overlap", "g[B * 127 + T] = T;", "st.global", "st.global"},
    {"a block reads what another writes", "g[B * 128 + T] = g[(1 - B) * 128 + T] + 1;", "ld.global",
     "st.global"},
    {"all read, then one writes",
     "float x = g[5]; if (B == 1 && T == 9) g[5] = 3;\n"
     " n[8 + B * 128 + T] = x;",
     "ld.global", "st.global"},
    {"all read all",
     "float x = 0; for (int i = 0; i < 256; i++) x += g[i];\n"
     " n[8 + B * 128 + T] = x;",
     NULL, NULL},
    {"last block adds up",
     "g[B * 128 + T] = T; __threadfence(); __syncthreads();\n"
     "if (T == 0) flag = atomicAdd(n, 1) == gridDim.x - 1; __syncthreads();\n"
     "if (flag) { __threadfence(); n[8 + T] = g[T] + g[128 + T]; }",
     NULL, NULL},
    {"last block, one fence by one thread",
     "g[B * 128 + T] = T; __syncthreads();\n"
     "if (T == 0) { __threadfence(); flag = atomicAdd(n, 1) == gridDim.x - 1; __threadfence(); }\n"
     "__syncthreads(); if (flag) { n[8 + T] = g[T] + g[128 + T]; }",
     NULL, NULL},
    {"last block, no fence before",
     "g[B * 128 + T] = T; __syncthreads();\n"
     "if (T == 0) flag = atomicAdd(n, 1) == gridDim.x - 1; __syncthreads();\n"
     "if (flag) { __threadfence(); n[8 + T] = g[T] + g[128 + T]; }",
     "st.global", "ld.global"},
    {"last block, no fence behind",
     "g[B * 128 + T] = T; __threadfence(); __syncthreads();\n"
     "if (T == 0) flag = atomicAdd(n, 1) == gridDim.x - 1; __syncthreads();\n"
     "if (flag) { n[8 + T] = g[T] + g[128 + T]; }",
     "st.global", "ld.global"},
    {"last block, fence of the block only",
     "g[B * 128 + T] = T; __threadfence_block(); __syncthreads();\n"
     "if (T == 0) flag = atomicAdd(n, 1) == gridDim.x - 1; __syncthreads();\n"
     "if (flag) { __threadfence(); n[8 + T] = g[T] + g[128 + T]; }",
     "st.global", "ld.global"},
    {"last block, acq_rel",
     "g[B * 128 + T] = T; __syncthreads();\n"
     "if (T == 0) flag = add_acq_rel(n) == gridDim.x - 1; __syncthreads();\n"
     "if (flag) { n[8 + T] = g[T] + g[128 + T]; }",
     NULL, NULL},
    {"last block, release only",
     "g[B * 128 + T] = T; __syncthreads();\n"
     "if (T == 0) flag = add_release(n) == gridDim.x - 1; __syncthreads();\n"
     "if (flag) { n[8 + T] = g[T] + g[128 + T]; }",
     "st.global", "ld.global"},
    {"barrier of the grid",
     "float x = g[(B ^ 1) * 128 + T]; __syncthreads();\n"
     "if (T == 0) { add_release(n); while (load_acquire(n) != gridDim.x) { } } __syncthreads();\n"
     "g[B * 128 + T] = x;",
     NULL, NULL},
    {"barrier of the grid, polled without acquire",
     "float x = g[(B ^ 1) * 128 + T]; __syncthreads();\n"
     "if (T == 0) { add_release(n); while (*(volatile int *)n != gridDim.x) { } } "
     "__syncthreads();\n"
     "g[B * 128 + T] = x;",
     "ld.global", "st.global"},
    {"a flag that is polled plainly",
     "if (B == 0 && T == 0) { atomicExch(n, 7); } if (B == 1 && T == 0) { g[0] = *n; }", "", ""},
    {"atomics do not race",
     "if (T == 0) flag = 0; __syncthreads(); atomicAdd(&flag, 1); atomicAdd(n, 1); __syncthreads();"
     " g[B * 128 + T] = flag;",
     NULL, NULL},
    {"atomics and a plain read",
     "if (T == 0) flag = 0; __syncthreads(); atomicAdd(&flag, 1);\n g[B * 128 + T] = flag;", "",
     "ld.shared"},
    {"atomics before the zero is there",
     "if (T == 64) flag = 0; atomicAdd(&flag, 1); __syncthreads(); g[B * 128 + T] = flag;", "", ""},
    {"bytes and halves of neighbours",
     "char *c = (char *)s; short *h = (short *)(s + 128); c[T] = T; h[T] = T; __syncthreads();\n"
     "g[B * 128 + T] = c[T ^ 64] + h[T ^ 64] + ((int *)c)[T & 31];",
     NULL, NULL},
    {"a half of a neighbour's word",
     "short *h = (short *)s; h[T] = T; if (T < 64) ((int *)s)[T] = 5;\n"
     "__syncthreads(); g[B * 128 + T] = s[T & 63];",
     "st.shared", "st.shared"},
    {"all lanes write one word together",
     "s[T / 32] = T / 32; __syncthreads(); g[B * 128 + T] = s[T & 3];", NULL, NULL},
    {"all warps write one word",
     "s[T >> 9] = 7; __syncthreads(); g[B * 128 + T] = s[B & 1 ? 0 : 0];", "st.shared",
     "st.shared"},
    {"lanes write one word with values of their own",
     "s[T / 2] = T; __syncthreads(); g[B * 128 + T] = s[T / 2];", "st.shared",
     "which of them stays is not defined"},
    {"lanes write overlapping vectors",
     "if (T < 32) ((float4 *)s)[T / 2] = make_float4(1, 2, 3, T); __syncthreads();\n"
     "g[B * 128 + T] = s[T & 63];",
     "st.shared", "which of them stays is not defined"},
    {"lanes set a flag", "s[3] = 1; n[8 + B] = 1; g[B * 128 + T] = 0;", "st.", "write"},
    {"lanes of one warp set a flag",
     "if (T < 32) { s[3] = 1; n[8 + B] = 1; } __syncthreads(); g[B * 128 + T] = s[3];", NULL, NULL},
    {"a strong write does not hide another",
     "if (T == 0) { *(volatile int *)(n + 1) = B; if (B == 1) n[9] = n[1 + (int)g[300]]; }", "",
     ""},
    {"a strong write does not hide a strong read",
     "if (T == 0 && B == 0) n[9] = *(volatile int *)(n + 1);\n"
     "if (T == 0 && B == 1) { *(volatile int *)(n + 1) = 1; n[1] = 2; }",
     "", ""},
    {"a flag that was seen is plain memory",
     "if (T == 0 && B == 0) *(volatile int *)(n + 1) = 1;\n"
     "if (T == 0 && B == 1) { while (*(volatile int *)(n + 1) == 0) { } n[1] = 0; }",
     NULL, NULL},
    {"a flag that was seen, and who saw it hands it on",
     "if (T == 0 && B == 0) *(volatile int *)(n + 1) = 1;\n"
     "if (B == 1) { if (T == 0) while (*(volatile int *)(n + 1) == 0) { } __syncthreads();\n"
     " float x = n[1]; __syncthreads(); if (T == 99) n[1] = 0; g[T] = x; }",
     NULL, NULL},
    {"a flag that was seen says nothing of the data",
     "if (T == 0 && B == 0) { g[0] = 1; *(volatile int *)(n + 1) = 1; }\n"
     "if (T == 0 && B == 1) { while (*(volatile int *)(n + 1) == 0) { } g[1] = g[0]; }",
     "st.global", "ld.global"},
    {"the last resets the counter", "if (T == 0 && atomicAdd(n, 1) == 1) *n = 0;", NULL, NULL},
    {"a counter is reset while others poll it",
     "if (T == 0) { add_release(n); while (load_acquire(n) < 2) { } if (B == 0) *n = 0; }", "", ""},
    {"what many have read is written behind one of them",
     "float x = 0; if (B == 0 || T == 0) x = g[5];\n"
     "if (B == 0 && T == 0) add_release(n);\n"
     "if (B == 1 && T == 0) { while (load_acquire(n) == 0) { } g[5] = 1; } n[8 + B * 128 + T] = x;",
     "ld.global", "st.global"},
    {"what many have read is written behind all of them",
     "float x = 0; if (B == 0 || T == 0) x = g[5]; __syncthreads();\n"
     "if (B == 0 && T == 0) add_release(n);\n"
     "if (B == 1 && T == 0) { while (load_acquire(n) == 0) { } g[5] = 1; } n[8 + B * 128 + T] = x;",
     NULL, NULL},
};

static bool has_nvrtc_source(const struct kernel *kernel, char *text, size_t size)
{
    return (size_t)snprintf(text, size, "%s%s%s", HEAD, kernel->body, TAIL) < size;
}

static enum gk_status run_once(struct rig *rig, uint64_t g, uint64_t n)
{
    static float zeros[512];

    assert_ok(gk_emu_write(rig->emu, g, zeros, sizeof(zeros), &rig->err), rig->err);
    assert_ok(gk_emu_write(rig->emu, n, zeros, sizeof(zeros), &rig->err), rig->err);
    return RIG_RUN(rig, "k", g, n);
}

static void judge(const struct kernel *kernel, struct rig *rig, enum gk_status status)
{
    bool fault = status == GK_TRIAL && (rig->report.kind == GK_EMU_FAULT_RACE ||
                                        rig->report.kind == GK_EMU_FAULT_PENDING ||
                                        rig->report.kind == GK_EMU_FAULT_UNWRITTEN);

    if (!kernel->first && status != GK_OK) {
        fail_msg("%s: a right kernel is accused: %s", kernel->name, rig->report.text);
    }
    if (kernel->first && !fault) {
        fail_msg("%s: passed, or something else: %s", kernel->name, rig->report.text);
    }
    if (kernel->first && rig->report.kind == GK_EMU_FAULT_RACE) {
        assert_contains(rig->report.text, kernel->first);
        assert_contains(rig->report.text, kernel->second);
        assert_true(strstr(rig->report.text, "by thread") || strstr(rig->report.text, "lanes "));
        assert_true(rig->report.source_line > 0);
    }
}

static void races(void **state)
{
    (void)state;
    for (size_t i = 0; i < GK_ARRAY_COUNT(KERNELS); i++) {
        struct rig rig;
        char text[6000];
        uint64_t g, n;

        assert_true(has_nvrtc_source(&KERNELS[i], text, sizeof(text)));
        rig_init(&rig, "sm_80");
        rig_cuda(&rig, text);
        rig.grid[0] = 2;
        rig.block[0] = 128;
        g = rig_alloc(&rig, "g", 512 * 4);
        n = rig_alloc(&rig, "n", 512 * 4);
        judge(&KERNELS[i], &rig, run_once(&rig, g, n));
        gk_emu_set_schedule(rig.emu, GK_EMU_EARLY);
        judge(&KERNELS[i], &rig, run_once(&rig, g, n));
        gk_emu_set_schedule(rig.emu, GK_EMU_RANDOM);
        judge(&KERNELS[i], &rig, run_once(&rig, g, n));
        rig_fini(&rig);
    }
}

/* 200 schedules of each right kernel: none is accused. */
static void no_false_alarm(void **state)
{
    (void)state;
    for (size_t i = 0; i < GK_ARRAY_COUNT(KERNELS); i++) {
        struct rig rig;
        char text[6000];
        uint64_t g, n;

        if (KERNELS[i].first) {
            continue;
        }
        assert_true(has_nvrtc_source(&KERNELS[i], text, sizeof(text)));
        rig_init(&rig, "sm_80");
        rig_cuda(&rig, text);
        rig.grid[0] = 2;
        rig.block[0] = 128;
        g = rig_alloc(&rig, "g", 512 * 4);
        n = rig_alloc(&rig, "n", 512 * 4);
        gk_emu_set_schedule(rig.emu, GK_EMU_RANDOM); /* each launch another one */
        for (uint32_t launch = 0; launch < 200; launch++) {
            judge(&KERNELS[i], &rig, run_once(&rig, g, n));
        }
        rig_fini(&rig);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(races),
        cmocka_unit_test(no_false_alarm),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
