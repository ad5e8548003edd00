/*
 * Reading PTX: what is refused, and that the message names line and text.
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
#include "worker/emu/ptx_lexer.h"
#include "worker/emu/ptx_table.h"

static void refused(void **state)
{
    static const struct {
        enum gk_status status;
        const char *text, *message;
    } CASES[] = {
        {GK_UNSUPPORTED, ".entry k() {\n .reg .b32 %r<3>;\n frob.x.b32 %r1, %r2;\n}",
         "PTX line 3: instruction 'frob.x.b32' is not in the table: `frob.x.b32 %r1, %r2;`"},
        {GK_UNSUPPORTED, ".entry k() {\n .reg .b32 %r<3>;\n add.wobble.s32 %r1, %r2, %r1;\n}",
         "PTX line 3: this form of instruction 'add.wobble.s32' is not in the table"},
        {GK_UNSUPPORTED, ".entry k() {\n mbarrier.init.shared.b32 [0], 1;\n}", "mbarrier.init"},
        {GK_UNSUPPORTED, ".entry k() {\n .reg .b32 %r<3>;\n mov.u32 %r1, %pm0;\n}",
         "special register or name '%pm0'"},
        {GK_UNSUPPORTED, ".entry k() {\n .reg .b32 %r<3>;\n add.s32 %r1, %r2, %r7;\n}", "'%r7'"},
        {GK_PARSE, ".entry k() {\n .reg .b64 %r<3>;\n add.s32 %r1, %r2, %r1;\n}",
         "register '%r1' has 64 bits, 32 are expected"},
        {GK_PARSE, ".entry k() {\n .reg .b32 %r<3>;\n add.s32 %r1, %r2;\n}", "more are expected"},
        {GK_PARSE, ".entry k() {\n .reg .b32 %r<3>;\n add.s32 %r1, %r2, 1, 2;\n}",
         "4 operands, only 3 are expected"},
        {GK_PARSE, ".entry k() {\n bra nowhere;\n}", "there is no label 'nowhere'"},
        {GK_PARSE, ".entry k() {\n .reg .b32 %r<3>;\n ld.global.u32 %r1, [other];\n}",
         "nothing named 'other'"},
        {GK_PARSE, ".entry k() {\n add.s32", "the brace is never closed"},
        {GK_PARSE, ".entry k() {\n", "never closed"},
        {GK_PARSE, "nonsense", "found 'nonsense' where a PTX directive is expected"},
        {GK_PARSE, ".entry k() {\n `\n}", "unexpected character 0x60"},
        {GK_PARSE, ".global .b32 x = 0f12;", "2 hex digits, needs 8"},
        {GK_UNSUPPORTED,
         ".extern .func vprintf(.param .b64 a, .param .b64 b);\n.entry k() {\n"
         " { .param .b64 p; .param .b64 q; call vprintf, (p, q); }\n}",
         "function 'vprintf' is defined nowhere"},
        {GK_PARSE, ".entry k() {\n .reg .b32 %r<3>;\n ld.global.u64 %r1, [8];\n}",
         "register '%r1' has 32 bits, the type has 64"},
        {GK_UNSUPPORTED,
         ".entry k() {\n .reg .b32 %r<3>; .reg .b64 %d;\n st.v4.b32 [8], {%r1,%r1,%r2,%d};\n}",
         "registers of two widths"},
        {GK_PARSE, ".entry k() {\n .reg .b32 %r<3>; .param .b32 p;\n st.param.b32 [p+-4], %r1;\n}",
         "is outside parameter 'p'"},
        {GK_LIMIT, ".entry k(.param .b8 p[200000000]) { ret; }", "more than 32764 bytes"},
        {GK_UNSUPPORTED, ".address_size 32", ".address_size 32, only 64"},
        {GK_UNSUPPORTED, ".extern .global .b32 x;", "'x' is declared extern"},
        {GK_UNSUPPORTED, ".entry k() {\n .reg .b128 %x;\n}", "registers of this type"},
        {GK_PARSE,
         ".func f(.param .b32 a) { ret; }\n.entry k() {\n { .param .b64 p; call f, (p); }\n}",
         "'p' has 8 bytes, the function's parameter has 4"},
    };

    (void)state;
    for (size_t i = 0; i < GK_ARRAY_COUNT(CASES); i++) {
        struct gk_emu_options options = {0};
        struct gk_emu *emu = NULL;
        struct gk_emu_module *module = NULL;
        struct gk_err err;
        enum gk_status status;

        assert_ok(gk_emu_create(&options, &emu, &err), err);
        status = gk_emu_module_load(emu, CASES[i].text, strlen(CASES[i].text), &module, &err);
        if (status != CASES[i].status || !strstr(err.text, CASES[i].message)) {
            fail_msg("case %zu: %s, '%s', wanted '%s'", i, gk_status_name(status),
                     status == GK_OK ? "" : err.text, CASES[i].message);
        }
        gk_emu_destroy(emu);
    }
}

/* Truncated anywhere, a module is refused or read, and nothing else happens. */
static void truncated_text(void **state)
{
    static const char TEXT[] =
        ".version 8.0\n.target sm_80\n.address_size 64\n.global .align 4 .b8 t[8] = {1, 2, 0xff, "
        "4};\n"
        ".global .u64 q[2] = {generic(t)+4, 7};\n.func (.param .b32 r) f(.param .b32 a)\n{\n"
        " .reg .b32 %r<3>;\n ld.param.b32 %r1, [a];\n st.param.b32 [r+0], %r1;\n ret;\n}\n"
        ".visible .entry k(.param .u64 p, .param .align 8 .b8 s[16]) .maxntid 128, 1, 1\n{\n"
        " .reg .b32 %r<9>; .reg .pred %p<2>; .shared .b8 m[16];\n .loc 1 2 3\n"
        "L: setp.lt.and.s32 %p1|%p0, %r1, %r2, !%p1;\n @!%p1 bra L;\n ts: .branchtargets L, L;\n"
        " brx.idx %r1, ts;\n { .reg .b32 x; .param .b32 a; .param .b32 c; call.uni (c), f, (a); }\n"
        " st.shared.v2.b32 [m+8], {%r1, %r2};\n}\n.file 1 \"a.cu\"\n.section .debug { .b8 1,2 }\n";

    (void)state;
    for (size_t size = 0; size < sizeof(TEXT); size++) {
        struct gk_emu_options options = {0};
        struct gk_emu *emu = NULL;
        struct gk_emu_module *module = NULL;
        struct gk_err err;

        assert_ok(gk_emu_create(&options, &emu, &err), err);
        if (gk_emu_module_load(emu, TEXT, size, &module, &err) == GK_OK) {
            gk_emu_module_unload(module);
        } else {
            assert_null(module);
            assert_true(size < sizeof(TEXT) - 1);
        }
        gk_emu_destroy(emu);
    }
}

static void numbers(void **state)
{
    static const struct {
        const char *text;
        enum ptx_token_kind kind;
        uint64_t value;
    } CASES[] = {
        {"42", PTX_TOKEN_INT, 42},
        {"0x1fU", PTX_TOKEN_INT, 31},
        {"0b101", PTX_TOKEN_INT, 5},
        {"017", PTX_TOKEN_INT, 15},
        {"0f3F800000", PTX_TOKEN_F32, 0x3f800000},
        {"0d3FF0000000000000", PTX_TOKEN_F64, 0x3ff0000000000000},
        {"1.5", PTX_TOKEN_F64, 0x3ff8000000000000},
        {"2e1", PTX_TOKEN_F64, 0x4034000000000000},
        {"18446744073709551615", PTX_TOKEN_INT, UINT64_MAX},
    };

    (void)state;
    for (size_t i = 0; i < GK_ARRAY_COUNT(CASES); i++) {
        struct ptx_lexer lexer;
        struct gk_err err;

        assert_ok(ptx_lexer_init(&lexer, CASES[i].text, strlen(CASES[i].text), &err), err);
        assert_int_equal(lexer.token.kind, CASES[i].kind);
        assert_true(lexer.token.value == CASES[i].value);
        assert_ok(ptx_lexer_next(&lexer, &err), err);
        assert_int_equal(lexer.token.kind, PTX_TOKEN_END);
    }
}

/* The table itself: every row has a handler, and codes that the binder knows. */
static void the_table_is_sound(void **state)
{
    struct ptx_index *index = NULL;
    struct gk_err err;

    (void)state;
    assert_ok(ptx_index_create(NULL, &index, &err), err);
    assert_true(ptx_index_count(index) > 350);
    for (uint32_t i = 0; i < ptx_index_count(index); i++) {
        const struct ptx_row *row = ptx_index_at(index, i);
        const char *code = row->operands;

        assert_non_null(row->exec);
        while (*code) {
            assert_non_null(strchr("DSRPQGAVWMNICXTZE", *code));
            code += strcspn(code, " ");
            code += strspn(code, " ");
        }
    }
    assert_int_equal(ptx_index_create("sse9", &index, &err), GK_UNSUPPORTED);
    assert_contains(err.text, "'sse9'");
    ptx_index_destroy(index);
}

/* Registers of a conversion may be wider than its types: what lies above the source's is dropped,
 * the result is extended. */
static void wide_conversions(void **state)
{
    static const char *const CASES[] = {"cvt.s64.s32 %rd2, %rd1;", "cvt.u64.u32 %rd2, %rd1;",
                                        "cvt.s32.s16 %rd2, %rd1;", "cvt.u32.s64 %rd2, %rd1;",
                                        "cvt.s16.s32 %rd2, %rd1;", "cvt.u64.u8 %rd2, %rd1;"};
    static const uint64_t WANTED[] = {0xffffffff89abcdef, 0x89abcdef,         0xffffffffffffcdef,
                                      0x89abcdef,         0xffffffffffffcdef, 0xef};

    (void)state;
    for (size_t i = 0; i < GK_ARRAY_COUNT(CASES); i++) {
        struct rig rig;
        char text[400];
        uint64_t out = 0, address;

        rig_init(&rig, "sm_80");
        (void)snprintf(text, sizeof text,
                       ".entry k(.param .b64 out, .param .b64 in)\n{\n .reg .b64 %%rd<4>;\n"
                       " ld.param.u64 %%rd3, [out];\n ld.param.u64 %%rd1, [in];\n %s\n"
                       " st.global.u64 [%%rd3], %%rd2;\n ret;\n}\n",
                       CASES[i]);
        rig.block[0] = 1;
        rig_ptx(&rig, text);
        address = rig_alloc(&rig, "out", sizeof out);
        RIG_OK(&rig, "k", address, 0x0123456789abcdef);
        rig_download(&rig, address, &out, sizeof out);
        if (out != WANTED[i]) {
            fail_msg("%s: %llx, wanted %llx", CASES[i], (unsigned long long)out,
                     (unsigned long long)WANTED[i]);
        }
        rig_fini(&rig);
    }
}

static void what_a_module_tells(void **state)
{
    struct rig rig;
    struct gk_emu_kernel *kernel = NULL;
    struct gk_emu_kernel_info info;

    (void)state;
    rig_init(&rig, "sm_80");
    rig_ptx(&rig,
            ".entry one(.param .u8 a, .param .u64 b, .param .align 16 .b8 c[20], .param .u16 d)\n"
            ".reqntid 64, 2\n.maxntid 128, 1, 1\n{ ret; }\n.entry two() { ret; }\n");
    assert_ok(gk_emu_kernel_find(rig.module, "one", &kernel, &rig.err), rig.err);
    gk_emu_kernel_info(kernel, &info);
    assert_string_equal(info.name, "one");
    assert_int_equal(info.param_count, 4);
    assert_int_equal(info.params[1].offset, 8);
    assert_int_equal(info.params[2].offset, 16);
    assert_int_equal(info.params[3].offset, 36);
    assert_int_equal(info.params_size, 38);
    assert_int_equal(info.reqntid[0], 64);
    assert_int_equal(info.reqntid[1], 2);
    assert_int_equal(info.maxntid[0], 128);
    assert_int_equal(gk_emu_kernel_find(rig.module, "three", &kernel, &rig.err), GK_NOT_FOUND);
    assert_contains(rig.err.text, "it holds: one, two");
    rig_fini(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refused),          cmocka_unit_test(truncated_text),
        cmocka_unit_test(numbers),          cmocka_unit_test(the_table_is_sound),
        cmocka_unit_test(wide_conversions), cmocka_unit_test(what_a_module_tells),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
