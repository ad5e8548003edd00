/* ptxas's report: logs as NVRTC 12 and 13 write them. */
#include "worker/compile_log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const char two_kernels[] =
    "ptxas info    : 0 bytes gmem\n"
    "ptxas info    : Compiling entry function 'first' for 'sm_80'\n"
    "ptxas info    : Function properties for first\n"
    "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
    "ptxas info    : Used 12 registers, used 0 barriers, 380 bytes cmem[0]\n"
    "ptxas info    : Compile time = 5.1 ms\n"
    "ptxas info    : Compiling entry function 'first_long' for 'sm_80'\n"
    "ptxas info    : Function properties for first_long\n"
    "    48 bytes stack frame, 40 bytes spill stores, 24 bytes spill loads\n"
    "ptxas info    : Used 255 registers, used 1 barriers, 48 bytes cumulative stack size, 1024 "
    "bytes "
    "smem, 380 bytes cmem[0]\n";

static void reads_each(void **state)
{
    struct gk_compile_facts facts;
    (void)state;
    gk_compile_log_read(two_kernels, "first", &facts);
    assert_true(facts.found);
    assert_int_equal(facts.regs, 12);
    assert_int_equal(facts.spill_bytes, 0);
    assert_int_equal(facts.static_smem, 0);
    gk_compile_log_read(two_kernels, "first_long", &facts);
    assert_int_equal(facts.regs, 255);
    assert_int_equal(facts.spill_bytes, 64);
    assert_int_equal(facts.stack_bytes, 48);
    assert_int_equal(facts.static_smem, 1024);
}

static void unknown_stays_unknown(void **state)
{
    struct gk_compile_facts facts;
    (void)state;
    gk_compile_log_read(two_kernels, "rst", &facts); /* part of a name is no name */
    assert_false(facts.found);
    assert_int_equal(facts.regs, -1);
    assert_int_equal(facts.spill_bytes, -1);
    gk_compile_log_read("", "first", &facts);
    assert_false(facts.found);
}

static void warnings(void **state)
{
    struct gk_compile_facts facts;
    (void)state;
    gk_compile_log_read("ptxas info    : (C7508) setmaxnreg ignored\n"
                        "ptxas info    : (C7510) wgmma serialized in function 'k'",
                        "k", &facts);
    assert_true(facts.setmaxnreg_ignored && facts.wgmma_serialized);
    gk_compile_log_read(two_kernels, "first", &facts);
    assert_false(facts.setmaxnreg_ignored || facts.wgmma_serialized);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(reads_each),
                                       cmocka_unit_test(unknown_stays_unknown),
                                       cmocka_unit_test(warnings)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
