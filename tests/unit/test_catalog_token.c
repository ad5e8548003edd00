/* Tokens of sources: what makes two texts the same code, and which #include lines count. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "kernels/catalog_internal.h"
#include "tests/support/check.h"

static struct gk_source *scan(const char *text, enum gk_status want, struct gk_err *err)
{
    struct gk_source *source = calloc(1, sizeof *source);
    assert_non_null(source);
    source->text = gk_strdup(text);
    source->size = strlen(text);
    assert_non_null(source->text);
    assert_status(gk_source_scan(source, err), want, *err);
    return source;
}

static bool same_code(const char *a, const char *b)
{
    struct gk_err err = {0};
    struct gk_source *x = scan(a, GK_OK, &err), *y = scan(b, GK_OK, &err);
    bool same = gk_hash_equal(&x->tokens, &y->tokens);
    gk_source_free(x);
    gk_source_free(y);
    return same;
}

static void equal_code(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {
        {"int a;", "int  /* x */\n\ta ;// end"},
        {"int a;", "int a; // a comment \\\n that goes on"},
        {"int a;", "int a; /* \" */"},
        {"int a;", "in\\\nt a;"},
        {"int a;", "int a;\r\n"},
        {"a = b / c;", "a = b /* * / */ / c;"},
        {"#define A 1\nint x;", "#  define A /* two\nlines */ 1\n\n\nint x;"},
        {"#define F(x) x\n", "#define F( x )   x\n"},
        {"f(\"a // b\")", "f( \"a // b\" ) // b"},
        {"R\"(a)\"", "  R\"(a)\" /* b */"},
        {"", "/* nothing */ // at all"},
        {"", "/* not closed"},
        {"1'000", " 1'000 "},
        {"1.e+5f", " 1.e+5f "},
    };
    for (size_t i = 0; i < GK_ARRAY_COUNT(pairs); i++) {
        if (!same_code(pairs[i][0], pairs[i][1])) {
            fail_msg("'%s' and '%s' are the same code", pairs[i][0], pairs[i][1]);
        }
    }
}

static void other_code(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {
        {"int a;", "inta;"},
        {"a + +b", "a ++b"},
        {"a - -b", "a --b"},
        {"a > > b", "a >> b"},
        {"1 .5", "1.5"},
        {"\"a b\"", "\"ab\""},
        {"\"a // b\"", "\"a \""},
        {"'a'", "'b'"},
        {"\"\\\"\" /* a */ x", "\"\\\"\" /* a */ y"},
        {"#define A\nB", "#define A B"},
        {"#define F(x) x\n", "#define F (x) x\n"},
        {"R\"(a // b)\"", "R\"(a )\""},
        {"R\"(a\\\nb)\"", "R\"(ab)\""},
        {"R\"x()\" )x\"", "R\"x()\")x\""},
        {"u8R\"(/*)\" a /* */", "u8R\"(/*)\" b /* */"},
        {"#if 1\n1\n#endif", "#if 1 1\n#endif"},
        {"0x1p-3", "0x1p - 3"},
        {"#include <a.h>", "#include \"a.h\""},
        {"#include <a b.h>", "#include <ab.h>"},
    };
    for (size_t i = 0; i < GK_ARRAY_COUNT(pairs); i++) {
        if (same_code(pairs[i][0], pairs[i][1])) {
            fail_msg("'%s' and '%s' are not the same code", pairs[i][0], pairs[i][1]);
        }
    }
}

static void includes_are_found(void **state)
{
    (void)state;
    struct gk_err err = {0};
    struct gk_source *source = scan("#include \"a.cuh\"\n"
                                    "// #include \"not.cuh\"\n"
                                    "/* #include \"not.cuh\" */\n"
                                    "  #  include <gk/b.cuh> // why\n"
                                    "const char *s = \"\\\n#include \\\"not.cuh\\\"\";\n"
                                    "const char *r = R\"(\n#include \"not.cuh\"\n)\";\n"
                                    "#inc\\\nlude \"c\\\n.cuh\"\n"
                                    "int include; x # include \"not.cuh\"\n"
                                    "#/**/include/**/<d.cuh>\n"
                                    "#if 0\n#include \"e.cuh\"\n#endif\n",
                                    GK_OK, &err);
    static const char *const names[] = {"a.cuh", "gk/b.cuh", "c.cuh", "d.cuh", "e.cuh"};
    static const uint32_t lines[] = {1, 4, 12, 14, 16};
    assert_int_equal(source->include_count, GK_ARRAY_COUNT(names));
    for (size_t i = 0; i < GK_ARRAY_COUNT(names); i++) {
        assert_string_equal(source->includes[i].name, names[i]);
        assert_int_equal(source->includes[i].line, lines[i]);
    }
    assert_true(source->includes[0].quoted);
    assert_false(source->includes[1].quoted);
    gk_source_free(source);
    source = scan("\n#include HEADER\n", GK_INPUT, &err);
    assert_contains(err.text, "line 2: #include of a macro");
    gk_source_free(source);
}

static void ends_of_text_are_safe(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "\"",      "'",         "\"\\", "R\"", "R\"(",     "R\"(a)",    "/",          "/*",
        "/**",     "\\",        "\\\n", "#",   "#include", "#include ", "#include <", "#include \"",
        "#define", "#define A", "1'",   "1e+", ".",        "$"};
    for (size_t i = 0; i < GK_ARRAY_COUNT(texts); i++) {
        struct gk_source *source = calloc(1, sizeof *source);
        assert_non_null(source);
        source->size = strlen(texts[i]);
        source->text = malloc(source->size); /* no NUL: a read past the end is seen */
        assert_non_null(source->text);
        memcpy(source->text, texts[i], source->size);
        struct gk_err err = {0};
        (void)gk_source_scan(source, &err); /* any answer; it must come */
        gk_source_free(source);
    }
}

static int setup(void **state)
{
    (void)state;
    return gk_hash_setup(NULL) == GK_OK ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_code),
        cmocka_unit_test(other_code),
        cmocka_unit_test(includes_are_found),
        cmocka_unit_test(ends_of_text_are_safe),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
