/*
 * Hopper's asynchronous operations on the emulated device: kernels with one thing missing must be
 * rejected, by order in every schedule and by value where the schedule is late; their right twins
 * must not be accused. Each is a body of k(const u32 *in, u32 *out), one block of 256 threads.
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
#include "tests/unit/nvrtc_for_tests.h"

#define WORDS 1024u

/* s: 512 words; full: counted by copies; two: a second barrier, for 256 arrivals. */
#define HEAD                                                                                       \
    "#include <gk/cluster.cuh>\n#include <gk/hopper.cuh>\n#include <gk/tma.cuh>\n#include "        \
    "<gk/wgmma.cuh>\n"                                                                             \
    "using namespace gk;\n#define T (threadIdx.x)\n"                                               \
    "#define LOAD(word, from, words) (full.arrive_expect_bytes((words) * 4), \\\n"                 \
    "  bulk_load(ptx::shared_address(s + (word)), (from), (words) * 4, full))\n"                   \
    "#define STORE(to, word, words) (bulk_store((to), ptx::shared_address(s + (word)), "           \
    "(words) * 4), \\\n  commit_stores())\n"                                                       \
    "extern \"C\" __global__ void __launch_bounds__(256, 2) k(const u32 *in, u32 *out) {\n"        \
    "  __shared__ __align__(1024) u32 s[512]; __shared__ Barrier full, two;\n"                     \
    "  if (T == 0) { full.init(1); two.init(256); fence_barrier_init(); } __syncthreads();\n"
#define TAIL "\n}\n"

struct kernel {
    const char *name, *body;
    enum gk_emu_fault want; /* in every schedule; NONE: a right kernel */
    bool only_late;         /* the fault is met in the late schedule, and need not be in others */
    /* Without a look at order: words of `out` that differ from those of the early schedule when
     * everything is late. */
    bool late_differs;
};

static const struct kernel KERNELS[] = {
    {"load", "if (T == 0) LOAD(0, in, 256); full.wait(0); out[T] = s[T];", GK_EMU_FAULT_NONE, false,
     false},
    {"load, no wait", "s[T] = T; if (T == 0) LOAD(256, in, 256); out[T] = s[T + 256];",
     GK_EMU_FAULT_RACE, false, false},
    {"second load, no wait",
     "if (T == 0) LOAD(0, in, 256); full.wait(0); out[T] = s[T]; __syncthreads();\n"
     "if (T == 0) LOAD(0, in + 256, 256); __syncthreads(); out[256 + T] = s[T]; full.wait(1);",
     GK_EMU_FAULT_RACE, false, true},
    {"second load, phase flipped",
     "if (T == 0) { LOAD(0, in, 256); full.wait(0); out[0] = s[0];\n"
     "LOAD(0, in + 256, 256); full.wait(full.try_wait(1) ? 1 : 0); out[1] = s[0]; full.wait(1); }",
     GK_EMU_FAULT_RACE, true, true},
    {"two loads",
     "if (T == 0) LOAD(0, in, 256); full.wait(0); out[T] = s[T]; __syncthreads();\n"
     "if (T == 0) LOAD(0, in + 256, 256); full.wait(1); out[256 + T] = s[T];",
     GK_EMU_FAULT_NONE, false, false},
    {"a wait that does not look again",
     "if (T == 0) LOAD(0, in, 256); full.wait(0); out[T] = s[T]; __syncthreads();\n"
     "if (T == 0) LOAD(0, in + 256, 256); full.try_wait(1); out[256 + T] = s[T]; full.wait(1);",
     GK_EMU_FAULT_RACE, true, true},
    {"polling",
     "if (T == 0) LOAD(0, in, 256);\n"
     "u32 ended = 0; while (!ended) asm volatile(\"{ .reg .pred p; "
     "mbarrier.test_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }\" : "
     "\"=r\"(ended) : \"r\"(full.address()) : \"memory\"); out[T] = s[T];",
     GK_EMU_FAULT_NONE, false, false},
    {"nobody waits for a load", "if (T == 0) LOAD(0, in, 256); out[T] = T;", GK_EMU_FAULT_RACE,
     true, false},
    {"store",
     "s[T] = in[T]; fence_async_shared(); __syncthreads();\n"
     "if (T == 0) { STORE(out, 0, 256); wait_for_stores<0>(); }",
     GK_EMU_FAULT_NONE, false, false},
    {"store, no proxy fence",
     "s[T] = in[T]; __syncthreads();\n"
     "if (T == 0) { STORE(out, 0, 256); wait_for_stores<0>(); }",
     GK_EMU_FAULT_RACE, false, false},
    {"store, proxy fence behind the barrier by another thread",
     "s[T] = in[T]; __syncthreads(); if (T == 1) fence_async_shared();\n"
     "if (T == 0) { STORE(out, 0, 256); wait_for_stores<0>(); }",
     GK_EMU_FAULT_RACE, false, false},
    {"store, then its staging is written again",
     "s[T] = in[T]; fence_async_shared(); __syncthreads();\n"
     "if (T == 0) { STORE(out, 0, 256); wait_for_store_reads<0>(); }\n"
     "__syncthreads(); s[T] = 7; fence_async_shared(); __syncthreads();\n"
     "if (T == 0) { STORE(out + 256, 0, 256); wait_for_stores<0>(); }",
     GK_EMU_FAULT_NONE, false, false},
    {"store, its staging is written before it is read",
     "s[T] = in[T]; fence_async_shared(); __syncthreads(); if (T == 0) STORE(out, 0, 256);\n"
     "__syncthreads(); s[T] = 7; fence_async_shared(); __syncthreads();\n"
     "if (T == 0) { STORE(out + 256, 0, 256); wait_for_stores<0>(); }",
     GK_EMU_FAULT_RACE, false, true},
    {"store, one group too many is left",
     "s[T] = in[T]; s[T + 256] = 5; fence_async_shared(); __syncthreads();\n"
     "if (T == 0) { STORE(out, 0, 256); STORE(out + 256, 256, 256); wait_for_store_reads<1>(); }\n"
     "__syncthreads(); s[T] = 7; s[T + 256] = 9; fence_async_shared(); __syncthreads();\n"
     "if (T == 0) { STORE(out + 512, 0, 256); wait_for_stores<0>(); }",
     GK_EMU_FAULT_RACE, false, true},
    {"a store is read back",
     "out[T] = 3; s[T] = in[T]; fence_async(); __syncthreads();\n"
     "if (T == 0) { STORE(out, 0, 256); wait_for_stores<0>(); }\n"
     "__syncthreads(); out[256 + T] = out[T];",
     GK_EMU_FAULT_NONE, false, false},
    {"a store is read back when only its reads are done",
     "out[T] = 3; s[T] = in[T]; fence_async(); __syncthreads();\n"
     "if (T == 0) { STORE(out, 0, 256); wait_for_store_reads<0>(); }\n"
     "__syncthreads(); out[256 + T] = out[T];",
     GK_EMU_FAULT_RACE, false, true},
    {"a thread that ends before its store has read",
     "s[T] = in[T]; fence_async_shared(); __syncthreads(); if (T == 0) STORE(out, 0, 256);",
     GK_EMU_FAULT_RACE, false, false},
    {"load of what the launch wrote",
     "out[T] = T; fence_async(); __syncthreads(); if (T == 0) LOAD(0, out, 256); full.wait(0);\n"
     "out[256 + T] = s[T];",
     GK_EMU_FAULT_NONE, false, false},
    {"load of what the launch wrote, no proxy fence",
     "out[T] = T; __syncthreads(); if (T == 0) LOAD(0, out, 256); full.wait(0);\n"
     "out[256 + T] = s[T];",
     GK_EMU_FAULT_RACE, false, false},
    {"load of what the launch wrote, proxy fence of shared memory",
     "out[T] = T; fence_async_shared(); __syncthreads(); if (T == 0) LOAD(0, out, 256);\n"
     "full.wait(0); out[256 + T] = s[T];",
     GK_EMU_FAULT_RACE, false, false},
    {"load, its source is written behind it",
     "if (T == 0) { LOAD(0, in, 256); full.wait(0); ((u32 *)in)[9] = 5; } full.wait(0);\n"
     "out[T] = s[T];",
     GK_EMU_FAULT_NONE, false, false},
    {"load, its source is written before it lands",
     "if (T == 0) { LOAD(0, in, 256); ((u32 *)in)[9] = 5; } full.wait(0); out[T] = s[T];",
     GK_EMU_FAULT_RACE, false, true},
    {"load over what threads wrote",
     "s[T] = T; out[T] = s[T]; fence_async_shared(); __syncthreads();\n"
     "if (T == 0) LOAD(0, in, 256); full.wait(0); out[256 + T] = s[T];",
     GK_EMU_FAULT_NONE, false, false},
    {"load over what threads wrote, no proxy fence",
     "s[T] = T; __syncthreads(); if (T == 0) LOAD(0, in, 256); full.wait(0); out[256 + T] = s[T];",
     GK_EMU_FAULT_RACE, false, false},
    {"load over what threads have read",
     "if (T == 0) LOAD(0, in, 256); full.wait(0); out[T] = s[255 - T]; two.arrive();\n"
     "if (T == 0) { two.wait(0); LOAD(0, in + 256, 256); } full.wait(1); out[256 + T] = s[T];",
     GK_EMU_FAULT_NONE, false, false},
    {"load over what threads still read",
     "if (T == 0) LOAD(0, in, 256); full.wait(0); out[T] = s[255 - T];\n"
     "if (T == 0) LOAD(0, in + 256, 256); full.wait(1); out[256 + T] = s[T];",
     GK_EMU_FAULT_RACE, false, false},
    {"sums",
     "out[T] = 0; s[T] = __float_as_uint(1.0f); fence_async(); __syncthreads();\n"
     "if (T < 2) { bulk_reduce_add_f32((float *)out, ptx::shared_address(s), 1024);\n"
     " commit_stores(); wait_for_stores<0>(); } __syncthreads(); out[256 + T] = out[T];",
     GK_EMU_FAULT_NONE, false, false},
    {"sums that nobody waited for",
     "out[T] = 0; s[T] = __float_as_uint(1.0f); fence_async(); __syncthreads();\n"
     "if (T < 2) { bulk_reduce_add_f32((float *)out, ptx::shared_address(s), 1024);\n"
     " commit_stores(); wait_for_store_reads<0>(); } __syncthreads(); out[256 + T] = out[T];",
     GK_EMU_FAULT_RACE, false, true},
    {"sent from shared memory to shared memory",
     "s[T] = in[T]; fence_async_shared(); __syncthreads();\n"
     "if (T == 0) { full.arrive_expect_bytes(1024);\n"
     " bulk_send(cluster_address(ptx::shared_address(s + 256), 0), ptx::shared_address(s), 1024,\n"
     "  cluster_address(full.address(), 0)); }\n"
     "full.wait(0); out[T] = s[256 + T]; s[T] = 5;",
     GK_EMU_FAULT_NONE, false, false},
    {"sent, and the source is written before it has gone",
     "s[T] = in[T]; fence_async_shared(); __syncthreads();\n"
     "if (T == 0) { full.arrive_expect_bytes(1024);\n"
     " bulk_send(cluster_address(ptx::shared_address(s + 256), 0), ptx::shared_address(s), 1024,\n"
     "  cluster_address(full.address(), 0)); }\n"
     "__syncthreads(); s[T] = 5; full.wait(0); out[T] = s[256 + T];",
     GK_EMU_FAULT_RACE, false, true},
    {"registers move",
     "if (T < 128) release_registers<24>(); else acquire_registers<232>(); out[T] = T;",
     GK_EMU_FAULT_NONE, false, false},
    {"registers come before they go",
     "if (T < 128) acquire_registers<176>(); else { for (u32 i = 0; i < 20; ++i) out[T] = i;\n"
     "release_registers<80>(); }",
     GK_EMU_FAULT_NONE, false, false},
    {"registers that nobody gives", "if (T >= 128) acquire_registers<136>();",
     GK_EMU_FAULT_DEADLOCK, false, false},
    {"more registers than there are",
     "if (T < 128) release_registers<24>(); else acquire_registers<240>();",
     GK_EMU_FAULT_BAD_OPERAND, false, false},
    {"a warp that keeps its registers", "if (T < 96) release_registers<24>();",
     GK_EMU_FAULT_DIVERGENT, false, false},
    {"warps that give different registers",
     "if (T < 64) release_registers<24>(); else if (T < 128) release_registers<40>();",
     GK_EMU_FAULT_DIVERGENT, false, false},
    {"ring of loads and stores",
     "if (T == 0) LOAD(0, in, 256);\n"
     "#pragma unroll 1\nfor (u32 i = 0; i < 4; ++i) { full.wait(i & 1); u32 x = s[T] + i;\n"
     "  two.arrive(); if (T == 0 && i < 3) { two.wait(i & 1); LOAD(0, in + 256 * i, 256); }\n"
     "  if (T == 0) wait_for_store_reads<0>(); __syncthreads(); s[256 + T] = x;\n"
     "  fence_async_shared(); __syncthreads(); if (T == 0) STORE(out + 256 * i, 256, 256); }\n"
     "if (T == 0) wait_for_stores<0>();",
     GK_EMU_FAULT_NONE, false, false},
};

static char *compile_text(const char *text)
{
    const char *options[] = {"-I" GK_SOURCE_DIR "/kernels/include", "-std=c++17", "-default-device",
                             NULL};
    char *log = NULL, *ptx = nvrtc_for_tests_compile(text, "kernel.cu", "sm_90a", options, &log);

    if (!ptx) {
        fail_msg("NVRTC: %s: %s", text, log ? log : "no log");
    }
    free(log);
    return ptx;
}

static char *compile(const char *body)
{
    char text[8000];

    assert_true((size_t)snprintf(text, sizeof(text), "%s%s%s", HEAD, body, TAIL) < sizeof(text));
    return compile_text(text);
}

static void set_up(struct rig *rig, const char *ptx, bool no_races)
{
    const struct gk_emu_options options = {.target = "sm_90a", .no_races = no_races};

    rig_init_with(rig, &options);
    rig_ptx(rig, ptx);
    rig->block[0] = 256;
}

static enum gk_status run_once(struct rig *rig, uint32_t out[WORDS])
{
    uint32_t in[WORDS];
    uint64_t from, to;
    enum gk_status status;

    for (uint32_t i = 0; i < WORDS; i++) {
        in[i] = 1000 + i;
    }
    from = rig_upload(rig, "in", in, sizeof(in));
    to = rig_alloc(rig, "out", sizeof(in));
    status = RIG_RUN(rig, "k", from, to);
    { /* words that nobody wrote are zero */
        struct gk_err err;

        assert_ok(gk_emu_read(rig->emu, to, out, sizeof(in), &err), err);
    }
    return status;
}

static void judge(const struct kernel *kernel, struct rig *rig, enum gk_emu_schedule schedule)
{
    static const char *const NAMES[] = {"late", "early", "random"};
    uint32_t out[WORDS];
    enum gk_status status;
    bool met;

    gk_emu_set_schedule(rig->emu, schedule);
    status = run_once(rig, out);
    /* A reader that comes before the writer meets bytes that nobody wrote. */
    met = status == GK_TRIAL &&
          (rig->report.kind == kernel->want ||
           (kernel->want == GK_EMU_FAULT_RACE && rig->report.kind == GK_EMU_FAULT_UNWRITTEN));
    if (kernel->want == GK_EMU_FAULT_NONE && status != GK_OK) {
        fail_msg("%s (%s): a right kernel is accused: %s", kernel->name, NAMES[schedule],
                 rig->report.text);
    }
    if (kernel->want != GK_EMU_FAULT_NONE && (!kernel->only_late || schedule == GK_EMU_LATE) &&
        !met) {
        fail_msg("%s (%s): passed, or something else: %s", kernel->name, NAMES[schedule],
                 rig->report.text);
    }
}

static void by_order(void **state)
{
    (void)state;
    if (!nvrtc_for_tests_available()) {
        skip();
    }
    for (size_t i = 0; i < GK_ARRAY_COUNT(KERNELS); i++) {
        char *ptx = compile(KERNELS[i].body);
        struct rig rig;

        set_up(&rig, ptx, false);
        judge(&KERNELS[i], &rig, GK_EMU_LATE);
        judge(&KERNELS[i], &rig, GK_EMU_EARLY);
        for (uint32_t launch = 0; launch < 20; launch++) { /* each another schedule */
            judge(&KERNELS[i], &rig, GK_EMU_RANDOM);
        }
        rig_fini(&rig);
        free(ptx);
    }
}

static void by_value(void **state)
{
    (void)state;
    if (!nvrtc_for_tests_available()) {
        skip();
    }
    for (size_t i = 0; i < GK_ARRAY_COUNT(KERNELS); i++) {
        const struct kernel *kernel = &KERNELS[i];
        uint32_t early[WORDS], late[WORDS];
        struct rig rig;
        char *ptx;

        if (kernel->want != GK_EMU_FAULT_NONE && !kernel->late_differs) {
            continue;
        }
        ptx = compile(kernel->body);
        set_up(&rig, ptx, true);
        gk_emu_set_schedule(rig.emu, GK_EMU_EARLY);
        assert_ok(run_once(&rig, early), rig.err);
        gk_emu_set_schedule(rig.emu, GK_EMU_LATE);
        assert_ok(run_once(&rig, late), rig.err);
        if ((memcmp(early, late, sizeof(early)) != 0) != kernel->late_differs) {
            fail_msg("%s: early and late schedules give %s results", kernel->name,
                     kernel->late_differs ? "equal" : "different");
        }
        rig_fini(&rig);
        free(ptx);
    }
}

/* Without launch bounds ptxas ignores setmaxnreg. */
static void registers_at_entry(void **state)
{
    static const char *const BOUNDS[] = {"", ".maxntid 128", ".maxnreg 128", ".reqntid 128"};

    (void)state;
    for (size_t i = 0; i < GK_ARRAY_COUNT(BOUNDS); i++) {
        struct rig rig;
        char text[500];

        (void)snprintf(text, sizeof(text),
                       ".version 8.4\n.target sm_90a\n.address_size 64\n"
                       ".visible .entry k() %s {\n setmaxnreg.dec.sync.aligned.u32 40;\n ret;\n}\n",
                       BOUNDS[i]);
        rig_init(&rig, "sm_90a");
        rig_ptx(&rig, text);
        rig.block[0] = 128;
        if (i) {
            assert_ok(rig_run(&rig, "k", 0, NULL), rig.err);
        } else {
            assert_int_equal(rig_run(&rig, "k", 0, NULL), GK_TRIAL);
            assert_int_equal(rig.report.kind, GK_EMU_FAULT_BAD_OPERAND);
            assert_contains(rig.report.text, "C7508");
        }
        rig.block[0] = 96;
        if (i == 1 || i == 2) { /* three warps are no warpgroup */
            assert_int_equal(rig_run(&rig, "k", 0, NULL), GK_TRIAL);
            assert_contains(rig.report.text, "warpgroup of 3 warps");
        }
        rig_fini(&rig);
    }
}

/* Where a box may begin, and what of it is written: as an H200 has it. */
static void boxes(void **state)
{
    static const char source[] =
        "#include <gk/hopper.cuh>\n#include <gk/tma.cuh>\nusing namespace gk;\n"
        "extern \"C\" __global__ void k(const TensorMap *map, i32 x, i32 y, u32 stores) {\n"
        "  __shared__ __align__(128) u32 s[64]; __shared__ Barrier full;\n"
        "  if (threadIdx.x == 0) { full.init(1); fence_barrier_init(); }\n"
        "  s[threadIdx.x] = 0x10001u; s[32 + threadIdx.x] = 0x10001u; fence_async(); "
        "__syncthreads();\n"
        "  const i32 at[2] = {x, y};\n"
        "  if (threadIdx.x == 0 && stores) { tma_store(*map, at, ptx::shared_address(s)); "
        "commit_stores(); wait_for_stores<0>(); }\n"
        "  if (threadIdx.x == 0 && !stores) { full.arrive_expect_bytes(256); "
        "tma_load(ptx::shared_address(s), *map, at, full); full.wait(0); }\n}\n";
    static const uint16_t zeros[4 * 24];
    uint16_t got[4 * 24];
    unsigned char text[128];
    struct rig rig;

    (void)state;
    if (!nvrtc_for_tests_available()) {
        skip();
    }
    char *ptx = compile_text(source);
    rig_init(&rig, "sm_90a");
    rig_ptx(&rig, ptx);
    free(ptx);
    uint64_t tensor = rig_upload(&rig, "tensor", zeros, sizeof zeros);
    /* Rows of 20 elements, 24 apart: the last piece of 16 bytes of a row is half its own. */
    struct gk_emu_map map = {.element = GK_EMU_ELEMENT_BF16,
                             .rank = 2,
                             .address = tensor,
                             .dims = {20, 4},
                             .strides = {2, 48},
                             .box = {32, 4},
                             .element_strides = {1, 1}};
    assert_ok(gk_emu_map_encode(rig.emu, &map, text, &rig.err), rig.err);
    uint64_t at = rig_upload(&rig, "map", text, sizeof text);
    RIG_FAULT(&rig, MISALIGNED, "k", at, 4, 0, 0);
    RIG_FAULT(&rig, MISALIGNED, "k", at, 12, 0, 1);
    RIG_FAULT(&rig, BAD_OPERAND, "k", at, 0, (uint32_t)-1, 1);
    RIG_FAULT(&rig, BAD_OPERAND, "k", at, (uint32_t)-8, 0, 1);
    RIG_OK(&rig, "k", at, (uint32_t)-8, (uint32_t)-1, 0);
    RIG_OK(&rig, "k", at, 16, 3, 1);
    rig_download(&rig, tensor, got, sizeof got);
    for (size_t i = 0; i < GK_ARRAY_COUNT(got); i++) {
        assert_int_equal(got[i], i >= 3 * 24 + 16 ? 1 : 0);
    }
    rig_fini(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_order),
        cmocka_unit_test(by_value),
        cmocka_unit_test(registers_at_entry),
        cmocka_unit_test(boxes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
