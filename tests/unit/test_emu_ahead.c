/*
 * Programmatic dependent launch on the emulated device: what a launch may touch before it has
 * waited for the one ahead. Each case is a chain of launches over buffers a and b; all but the
 * first may begin early.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "tests/support/check.h"
#include "tests/unit/emu_for_tests.h"

#define N 256

static const char SOURCE[] =
    "#define I (blockIdx.x * 128 + threadIdx.x)\n"
    "#define WAIT() asm volatile(\"griddepcontrol.wait;\" ::: \"memory\")\n"
    "#define GO() asm volatile(\"griddepcontrol.launch_dependents;\" ::: \"memory\")\n"
    "#define K(name) extern \"C\" __global__ void name(float *a, float *b)\n"
    "K(fill) { GO(); b[I] = I; }\n"
    "K(uses) { WAIT(); a[I] = b[I ^ 1]; }\n"
    "K(hurries) {\n  a[I] = b[I ^ 1]; WAIT(); }\n"
    "K(late_half) { if (threadIdx.x < 64) { WAIT(); } a[I] = b[I]; }\n"
    "K(behind_barrier) { if (threadIdx.x == 0) { WAIT(); } __syncthreads(); a[I] = b[I]; }\n"
    "K(overwrites) { b[I] = 1; WAIT(); }\n"
    "K(own) { a[I] = I; WAIT(); a[I] += b[I]; }\n"
    "K(idle) { if (a == nullptr) { b[I] = 0; } }\n"
    "K(reads) { if (b[I] == -1) { a[I] = 0; } }\n"
    "K(tail) { __shared__ float s[128]; if (threadIdx.x == 64) { WAIT(); }\n"
    "  __syncthreads(); if (threadIdx.x < 32) {\n"
    "    asm volatile(\"cp.async.ca.shared.global [%0], [%1], 4;\" ::\n"
    "      \"r\"((unsigned)__cvta_generic_to_shared(&s[threadIdx.x])), \"l\"(b + I) : "
    "\"memory\");\n"
    "    asm volatile(\"cp.async.wait_all;\" ::: \"memory\"); a[I] = s[threadIdx.x]; } }\n";

struct chain {
    const char *kernels[4];
    const char *report[3]; /* parts of the race of the last launch; NULL: none */
};

static void chain(struct rig *rig, const struct chain *chain, const uint64_t *buffers)
{
    uint32_t count = 0;
    while (count < 4 && chain->kernels[count]) {
        count++;
    }
    gk_emu_write(rig->emu, buffers[0], "\0\0\0\0", 4, &rig->err); /* nothing lies ahead */
    for (uint32_t i = 0; i < count; i++) {
        rig->overlaps = i > 0;
        enum gk_status status = rig_run(rig, chain->kernels[i], 2, buffers);
        bool races = chain->report[0] && i + 1 == count;
        if (status != (races ? GK_TRIAL : GK_OK)) {
            fail_msg("%s, launch %u: %s", chain->kernels[i], i, rig->err.text);
        }
        for (uint32_t k = 0; races && k < 3 && chain->report[k]; k++) {
            assert_int_equal(rig->report.kind, GK_EMU_FAULT_RACE);
            if (!strstr(rig->report.text, chain->report[k])) {
                fail_msg("'%s' is not in: %s", chain->report[k], rig->report.text);
            }
        }
    }
}

static void chains(void **state)
{
    static const struct chain cases[] = {
        {{"fill", "uses"}, {NULL}},
        {{"fill", "uses", "fill"}, {"write of 4", "behind the read", "kernel uses"}},
        {{"fill", "hurries"}, {"read of 4", "behind the write by the launch ahead, kernel fill"}},
        {{"fill", "late_half"}, {"read of 4", "thread is behind no griddepcontrol.wait"}},
        {{"fill", "behind_barrier"}, {NULL}},
        {{"fill", "tail"}, {NULL}},
        {{"fill", "overwrites"}, {"write of 4", "behind the write"}},
        {{"reads", "overwrites"}, {"write of 4", "behind the read by the launch ahead"}},
        {{"reads", "reads"}, {NULL}},
        {{"fill", "own"}, {NULL}},
        {{"fill", "uses", "own"}, {"write of 4", "'a'", "kernel uses"}},
        /* Nobody in between waited: the wait of the last says nothing of the first. */
        {{"fill", "idle", "uses"}, {"the launch two ahead, kernel fill", "waited for nothing"}},
        {{"fill", "behind_barrier", "uses"}, {NULL}},
    };
    (void)state;
    for (uint32_t schedule = 0; schedule < 3; schedule++) {
        struct rig rig;
        rig_init(&rig, "sm_90a");
        gk_emu_set_schedule(rig.emu, (enum gk_emu_schedule)schedule);
        rig_cuda(&rig, SOURCE);
        rig.grid[0] = 2;
        rig.block[0] = 128;
        float zero[N] = {0};
        uint64_t buffers[2] = {rig_upload(&rig, "a", zero, sizeof zero),
                               rig_upload(&rig, "b", zero, sizeof zero)};
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
            chain(&rig, &cases[i], buffers);
        }
        rig_fini(&rig);
    }
}

static void in_order_without_the_attribute(void **state)
{
    struct rig rig;
    float zero[N] = {0};
    (void)state;
    rig_init(&rig, "sm_90a");
    rig_cuda(&rig, SOURCE);
    rig.grid[0] = 2;
    rig.block[0] = 128;
    uint64_t a = rig_upload(&rig, "a", zero, sizeof zero);
    uint64_t b = rig_upload(&rig, "b", zero, sizeof zero);
    RIG_OK(&rig, "fill", a, b);
    RIG_OK(&rig, "hurries", a, b);
    /* A copy in the stream lies between: it waits for what is ahead, and the launch for it. */
    rig.overlaps = true;
    (void)gk_emu_write(rig.emu, a, zero, 4, &rig.err);
    RIG_OK(&rig, "hurries", a, b);
    rig_fini(&rig);
}

static void too_many_that_wait_for_nothing(void **state)
{
    struct rig rig;
    float zero[N] = {0};
    (void)state;
    rig_init(&rig, "sm_90a");
    rig_cuda(&rig, SOURCE);
    rig.grid[0] = 2;
    rig.block[0] = 128;
    uint64_t a = rig_upload(&rig, "a", zero, sizeof zero);
    uint64_t b = rig_upload(&rig, "b", zero, sizeof zero);
    RIG_OK(&rig, "fill", a, b);
    rig.overlaps = true;
    RIG_OK(&rig, "idle", a, b);
    RIG_OK(&rig, "idle", a, b);
    assert_int_equal(RIG_RUN(&rig, "idle", a, b), GK_UNSUPPORTED);
    assert_non_null(strstr(rig.err.text, "waited for nothing"));
    rig_fini(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chains),
        cmocka_unit_test(in_order_without_the_attribute),
        cmocka_unit_test(too_many_that_wait_for_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
