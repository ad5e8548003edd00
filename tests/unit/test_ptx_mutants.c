/*
 * The mutation tool itself: which statements it changes, how, and where it says they come from.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/status.h"
#include "tests/support/check.h"
#include "tests/unit/ptx_mutants.h"

static const char PTX[] = "\t.loc\t1 30 5\n"
                          "\tbar.sync \t0;\n"
                          "\tadd.s32 \t%r1, %r2, %r3;\n"
                          "\t@%p1 bar.sync \t%r4, %r5;\n"
                          "\t.loc\t1 40 2, function_name $L__info_string0, inlined_at 1 50 3\n"
                          "\t.loc\t2 7 9, function_name $L__info_string1, inlined_at 1 40 2\n"
                          "\t@!%p2 mbarrier.arrive.shared::cta.b64 _, [%r6];\n"
                          "\tmbarrier.try_wait.parity.shared::cta.b64 ended, [%r7], %r8;\n"
                          "\tcp.async.wait_group 2;\n"
                          "\tsetp.lt.s32 \t%p3, %r9, 4;\n"
                          "\tst.global.u32 \t[%rd1], %r1;\n"
                          "\n"
                          "\t.file\t1 \"/any/where/kernel.cuh\"\n"
                          "\t.file\t2 \"/any/include/gk/mbarrier.cuh\"\n";

struct expected {
    uint32_t line, in_file;
    const char *what, *text; /* text: what stands on that line; "" if nothing */
};

static void line_of(const char *text, uint32_t number, char *out, size_t room)
{
    for (uint32_t i = 1; i < number; i++) {
        text = strchr(text, '\n') + 1;
    }
    text += strspn(text, "\t");
    (void)snprintf(out, room, "%.*s", (int)strcspn(text, "\n"), text);
}

static void check_all(bool edges, const struct expected *expected, uint32_t count)
{
    assert_int_equal(ptx_mutant_count(PTX, edges), count);
    for (uint32_t i = 0; i < count; i++) {
        struct ptx_mutant mutant;
        char line[300];

        assert_true(ptx_mutant_make(PTX, edges, i, &mutant));
        assert_int_equal(mutant.line, expected[i].line);
        assert_string_equal(mutant.what, expected[i].what);
        assert_string_equal(mutant.file, "kernel.cuh");
        assert_int_equal(mutant.in_file, expected[i].in_file);
        line_of(mutant.text, mutant.line, line, sizeof(line));
        assert_string_equal(line, expected[i].text);
        free(mutant.text);
    }
}

static void orders(void **state)
{
    static const struct expected EXPECTED[] = {
        {2, 30, "removed", ""},
        {4, 30, "removed", ""},
        {4, 30, "one warp more",
         "{ .reg .b32 mutated; add.u32 mutated, %r5, 32; @%p1 bar.sync \t%r4,  mutated; }"},
        {4, 30, "one warp less",
         "{ .reg .b32 mutated; sub.u32 mutated, %r5, 32; @%p1 bar.sync \t%r4,  mutated; }"},
        {7, 40, "removed", ""},
        {7, 40, "twice",
         "@!%p2 mbarrier.arrive.shared::cta.b64 _, [%r6]; @!%p2 mbarrier.arrive.shared::cta.b64 _, "
         "[%r6];"},
        {8, 40, "passes", " setp.eq.u32 ended, 0, 0;"},
        {8, 40, "parity flipped",
         "{ .reg .b32 mutated; xor.b32 mutated, %r8, 1; mbarrier.try_wait.parity.shared::cta.b64 "
         "ended, [%r7],  mutated; }"},
        {9, 40, "removed", ""},
        {9, 40, "number + 1", "cp.async.wait_group  3;"},
    };

    (void)state;
    check_all(false, EXPECTED, GK_ARRAY_COUNT(EXPECTED));
}

static void edges(void **state)
{
    static const struct expected EXPECTED[] = {
        {10, 40, "one more", "setp.le.s32 \t%p3, %r9, 4;"},
        {11, 40, "removed", ""},
    };

    (void)state;
    check_all(true, EXPECTED, GK_ARRAY_COUNT(EXPECTED));
}

static void no_more(void **state)
{
    struct ptx_mutant mutant;

    (void)state;
    assert_false(ptx_mutant_make(PTX, false, ptx_mutant_count(PTX, false), &mutant));
    assert_false(ptx_mutant_make("", true, 0, &mutant));
    assert_int_equal(ptx_mutant_count("", false), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(orders),
        cmocka_unit_test(edges),
        cmocka_unit_test(no_more),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
