/* core/expr: scopes, results, every message, bounds, a reference evaluator over random expressions,
 * C text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "core/expr.h"
#include "core/json.h"
#include "core/prng.h"
#include "tests/support/check.h"

static const char *const dtypes[] = {"bf16", "f16", "f32"};
static const char *const outs[] = {"bf16", "f16"};
static const char *const acts[] = {"none", "gelu"};
static const int64_t lengths[] = {17, 0, 4096};
static const struct gk_series kv_len = {lengths, 3};
static const struct gk_series nothing = {NULL, 0};

struct world {
    struct gk_scope *scope;
    union gk_value slots[16];
};

static void add(struct world *w, const char *name, enum gk_value_type type,
                const char *const *values, uint32_t count, union gk_value value)
{
    struct gk_err err;
    uint32_t slot = 0;
    assert_ok(gk_scope_add(w->scope, name, type, values, count, &slot, &err), err);
    w->slots[slot] = value;
}

#define INT_OF(x) ((union gk_value){.i = (x)})

static int setup(void **state)
{
    static struct world w;
    w.scope = gk_scope_create();
    add(&w, "a", GK_VALUE_INT, NULL, 0, INT_OF(7));
    add(&w, "b", GK_VALUE_INT, NULL, 0, INT_OF(-3));
    add(&w, "zero", GK_VALUE_INT, NULL, 0, INT_OF(0));
    add(&w, "big", GK_VALUE_INT, NULL, 0, INT_OF(INT64_MAX));
    add(&w, "small", GK_VALUE_INT, NULL, 0, INT_OF(INT64_MIN));
    add(&w, "dev.sms", GK_VALUE_INT, NULL, 0, INT_OF(132));
    add(&w, "dtype", GK_VALUE_INT, dtypes, 3, INT_OF(1));
    add(&w, "dtype_out", GK_VALUE_INT, outs, 2, INT_OF(1));
    add(&w, "act", GK_VALUE_INT, acts, 2, INT_OF(0));
    add(&w, "x", GK_VALUE_REAL, NULL, 0, (union gk_value){.r = 0.5});
    add(&w, "huge", GK_VALUE_REAL, NULL, 0, (union gk_value){.r = 1e308});
    add(&w, "kv_len", GK_VALUE_SERIES, NULL, 0, (union gk_value){.series = &kv_len});
    add(&w, "none", GK_VALUE_SERIES, NULL, 0, (union gk_value){.series = &nothing});
    *state = &w;
    return 0;
}

static int teardown(void **state)
{
    gk_scope_destroy(((struct world *)*state)->scope);
    return 0;
}

static struct gk_expr *compile(const struct world *w, const char *text)
{
    struct gk_err err;
    struct gk_expr *expr = NULL;
    assert_ok(gk_expr_compile(text, w->scope, &expr, &err), err);
    assert_string_equal(gk_expr_text(expr), text);
    return expr;
}

static const struct {
    const char *text;
    int64_t want;
} int_cases[] = {
    {"12", 12},
    {"0x40", 64},
    {"0XfF", 255},
    {"0", 0},
    {"9223372036854775807", INT64_MAX},
    {"-9223372036854775807 - 1", INT64_MIN},
    {"true", 1},
    {"false", 0},
    {"1 + 2 * 3", 7},
    {"(1 + 2) * 3", 9},
    {"2 - 3 - 4", -5},
    {"100 / 7 / 2", 7},
    {"-7 / 2", -3},
    {"-7 % 3", -1},
    {"7 % -3", 1},
    {"small % -1", 0},
    {"1 << 4 + 1", 32},
    {"-16 >> 2", -4},
    {"-1 >> 62", -1},
    {"small >> 62", -2},
    {"1 << 62", INT64_C(1) << 62},
    {"-1 << 3", -8},
    {"6 & 3 | 8 ^ 12", 6},
    {"1 | 2 ^ 3 & 5", 3},
    {"~5", -6},
    {"!5", 0},
    {"!zero", 1},
    {"- - 3", 3},
    {"-~0", 1},
    {"1 < 2 == true", 1},
    {"3 > 2 > 1", 0},
    {"1 == 1 != 0", 1},
    {"2 && 3", 1},
    {"0 || 5", 1},
    {"0 || 0", 0},
    {"a && zero", 0},
    {"zero ? 1 : a ? 2 : 3", 2},
    {"a ? zero ? 1 : 2 : 3", 2},
    {"zero && 1 / zero", 0},
    {"a || 1 / zero", 1},
    {"a ? 5 : 1 / zero", 5},
    {"true ? 5 : 1 / 0", 5},
    {"false && 1 / 0", 0},
    {"min(3, a, 5)", 3},
    {"max(3, a, 5)", 7},
    {"ceil_div(7, 2)", 4},
    {"ceil_div(8, 2)", 4},
    {"ceil_div(b, 2)", -1},
    {"ceil_div(-7, -2)", 4},
    {"align_up(a, 16)", 16},
    {"align_up(-7, 4)", -4},
    {"align_up(0, 4)", 0},
    {"log2(1)", 0},
    {"log2(9)", 3},
    {"log2(big)", 62},
    {"is_pow2(64)", 1},
    {"is_pow2(0)", 0},
    {"is_pow2(small)", 0},
    {"is_pow2(6)", 0},
    {"abs(b)", 3},
    {"abs(a)", 7},
    {"dev.sms", 132},
    {"dtype == 'f16'", 1},
    {"'bf16' != dtype", 1},
    {"dtype == 'f32'", 0},
    {"dtype == dtype_out", 1},
    {"act == 'none'", 1},
    {"(dtype) == 'f16'", 1},
    {"kv_len.max", 4096},
    {"kv_len.min", 0},
    {"kv_len.sum", 4113},
    {"kv_len.count", 3},
    {"kv_len.blocks(16)", 2 + 256},
    {"none.count", 0},
    {"none.sum", 0},
    {"none.blocks(4)", 0},
    {"none.ramp(none, 1)", 0},
    {"kv_len.ramp(kv_len, big / 4)", 17 * 17 + 4096 * 4096},
    {"kv_len.ramp(kv_len, 1)", 17 * 18 / 2 + 4096 * 4097 / 2},
    {"kv_len.ramp(kv_len, -15)", 1 + 4081 * 4080 / 2},
    {"kv_len.ramp(kv_len, -a * 1000)", 0},
    {"x < 1", 1},
    {"1 < x", 0},
    {"x == 0.5", 1},
    {"a\t+\n1\r", 8},
    {"2 < 3 && x > 0.25", 1},
    {"a - 7 || 0", 0},
    {"10 - a", 3},
    {"2 * (a + 1)", 16},
    {"5 < (a + b)", 0},
    {"5 >= (a + b)", 1},
    {"20 / (a + b)", 5},
    {"(a + b) * (a - b)", 40},
    {"min(4, a + b)", 4},
};

static void integers(void **state)
{
    for (size_t i = 0; i < GK_ARRAY_COUNT(int_cases); i++) {
        struct world *w = *state;
        struct gk_expr *expr = compile(w, int_cases[i].text);
        struct gk_err err;
        int64_t value = 0;
        double real = 0;
        assert_int_equal(gk_expr_type(expr), GK_VALUE_INT);
        assert_ok(gk_expr_eval_int(expr, w->slots, &value, &err), err);
        if (value != int_cases[i].want) {
            fail_msg("%s gives %" PRId64 ", not %" PRId64, int_cases[i].text, value,
                     int_cases[i].want);
        }
        assert_ok(gk_expr_eval_real(expr, w->slots, &real, &err), err);
        assert_true(real == (double)value);
        gk_expr_destroy(expr);
    }
}

static void reals(void **state)
{
    static const struct {
        const char *text;
        double want;
    } cases[] = {
        {"1.5", 1.5},
        {"1e-3", 1e-3},
        {"1.1920929e-07", 1.1920929e-07},
        {"2E+2", 200},
        {"1 / 2.0", 0.5},
        {"real(1) / 2", 0.5},
        {"x + 1", 1.5},
        {"1 - x", 0.5},
        {"-x", -0.5},
        {"abs(-x)", 0.5},
        {"sqrt(64)", 8},
        {"sqrt(2)", 1.4142135623730951},
        {"min(1, x, 0.75)", 0.5},
        {"max(1, x)", 1},
        {"a ? x : 1", 0.5},
        {"zero ? x : 1", 1},
        {"real(big)", 9223372036854775807.},
        {"2 * (x + 1)", 3},
        {"a * x", 3.5},
        {"7 / 2 + x", 3.5},
    };
    for (size_t i = 0; i < GK_ARRAY_COUNT(cases); i++) {
        struct world *w = *state;
        struct gk_expr *expr = compile(w, cases[i].text);
        struct gk_err err;
        double real = 0;
        assert_int_equal(gk_expr_type(expr), GK_VALUE_REAL);
        assert_ok(gk_expr_eval_real(expr, w->slots, &real, &err), err);
        if (real != cases[i].want) {
            fail_msg("%s gives %.17g, not %.17g", cases[i].text, real, cases[i].want);
        }
        int64_t value = 42;
        assert_status(gk_expr_eval_int(expr, w->slots, &value, &err), GK_RANGE, err);
        assert_contains(err.text, "a real number where an integer is needed");
        assert_int_equal(value, 42);
        gk_expr_destroy(expr);
    }
}

static const struct {
    const char *text;
    enum gk_status status;
    int column;
    const char *part;
} compile_cases[] = {
    {"", GK_PARSE, 1, "ends where a value is needed"},
    {"a +", GK_PARSE, 4, "ends where a value is needed"},
    {"a + * 2", GK_PARSE, 5, "'*' where a value is needed"},
    {"(a", GK_PARSE, 3, "')' is missing at the end"},
    {"(a 2)", GK_PARSE, 4, "')' is needed before '2'"},
    {"a b", GK_PARSE, 3, "'b' after the end of the expression"},
    {"a ? 1", GK_PARSE, 6, "':' is missing at the end"},
    {"a = b", GK_PARSE, 3, "'=' means nothing here"},
    {"a; b", GK_PARSE, 2, "';' means nothing here"},
    {"a \xC3\xA9", GK_PARSE, 3, "the byte 0xC3 means nothing here"},
    {"1 + 9223372036854775808", GK_PARSE, 5, "9223372036854775808 does not fit a 64-bit integer"},
    {"0x10000000000000000", GK_PARSE, 1, "does not fit a 64-bit integer"},
    {"0x", GK_PARSE, 1, "'0x' is not a number"},
    {"0b1", GK_PARSE, 1, "'0b1' is not a number"},
    {"12abc", GK_PARSE, 1, "'12abc' is not a number"},
    {"010", GK_PARSE, 1, "'010' begins with 0, which C would read as octal"},
    {"1.", GK_PARSE, 1, "is not a number"},
    {"1.5.2", GK_PARSE, 1, "is not a number"},
    {"1e", GK_PARSE, 1, "is not a number"},
    {"1e999", GK_PARSE, 1, "1e999 is over the largest real"},
    {"c + 1", GK_NOT_FOUND, 1, "there is no name 'c'; did you mean a, b, x?"},
    {"a + dev.smss", GK_NOT_FOUND, 5, "there is no name 'dev.smss'; did you mean dev.sms?"},
    {"DTYPE == 'f16'", GK_NOT_FOUND, 1, "did you mean dtype?"},
    {"quite_another_name", GK_NOT_FOUND, 1, "names here: a, b, zero"},
    {"pow(2, 3)", GK_NOT_FOUND, 1, "there is no function 'pow'; there are min, max, ceil_div"},
    {"min(1)", GK_PARSE, 1, "min takes two or more arguments, not 1"},
    {"ceil_div(1)", GK_PARSE, 1, "ceil_div takes 2 arguments, not 1"},
    {"log2(1, 2)", GK_PARSE, 1, "log2 takes 1 argument, not 2"},
    {"log2()", GK_PARSE, 1, "log2 takes 1 argument, not 0"},
    {"log2 1", GK_NOT_FOUND, 1, "there is no name 'log2'"},
    {"max(1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17)", GK_LIMIT, 44, "more than 16 arguments"},
    {"dtype == 'f17'", GK_NOT_FOUND, 10, "'f17' is not a value of dtype; allowed: bf16, f16, f32"},
    {"dtype == act", GK_PARSE, 1, "dtype and act are enums with different values"},
    {"'bf16'", GK_PARSE, 1, "'bf16' is a value of an enum"},
    {"a == 'bf16'", GK_PARSE, 6, "'bf16' is a value of an enum"},
    {"dtype < 'f16'", GK_PARSE, 9, "'f16' is a value of an enum"},
    {"'f16' == 'f16'", GK_PARSE, 1, "'f16' is a value of an enum"},
    {"a ? 'f16' : 'bf16'", GK_PARSE, 5, "'f16' is a value of an enum"},
    {"dtype == 'f16", GK_PARSE, 10, "the closing ' is missing"},
    {"x % 2", GK_PARSE, 1, "% needs integers; this is a real"},
    {"1 << x", GK_PARSE, 6, "<< needs integers; this is a real"},
    {"x && a", GK_PARSE, 1, "&& needs integers; this is a real"},
    {"!x", GK_PARSE, 2, "! needs integers; this is a real"},
    {"~1.5", GK_PARSE, 2, "~ needs integers; this is a real"},
    {"x ? 1 : 2", GK_PARSE, 1, "?: needs integers; this is a real"},
    {"align_up(x, 2)", GK_PARSE, 10, "align_up needs integers; this is a real"},
    {"kv_len", GK_PARSE, 1, "'kv_len' is a list: use kv_len.max"},
    {"kv_len.median", GK_NOT_FOUND, 1, "'kv_len' is a list and has no 'median'"},
    {"kv_len.blocks", GK_PARSE, 14, "'(' is missing at the end"},
    {"kv_len.blocks()", GK_PARSE, 1, "kv_len.blocks takes 1 argument, not 0"},
    {"kv_len.blocks(x)", GK_PARSE, 15, "blocks needs integers"},
    {"kv_len.ramp(a, 1)", GK_PARSE, 1, "kv_len.ramp takes another list and an integer"},
    {"kv_len.ramp(none)", GK_PARSE, 17, "',' is needed before ')'"},
    {"kv_len.ramp(none, x)", GK_PARSE, 19, "ramp needs integers"},
};

static void compile_errors(void **state)
{
    for (size_t i = 0; i < GK_ARRAY_COUNT(compile_cases); i++) {
        struct world *w = *state;
        struct gk_err err;
        struct gk_expr *expr = NULL;
        char start[128];
        enum gk_status status = gk_expr_compile(compile_cases[i].text, w->scope, &expr, &err);
        if (status != compile_cases[i].status) {
            fail_msg("%s: %s, wanted %s: %s", compile_cases[i].text, gk_status_name(status),
                     gk_status_name(compile_cases[i].status), status ? err.text : "");
        }
        assert_null(expr);
        snprintf(start, sizeof start, "expression '%s', column %d: ", compile_cases[i].text,
                 compile_cases[i].column);
        assert_contains(err.text, start);
        assert_contains(err.text, compile_cases[i].part);
        assert_int_equal(gk_expr_compile(compile_cases[i].text, w->scope, &expr, NULL),
                         compile_cases[i].status);
    }
}

static const struct {
    const char *text, *message;
} eval_cases[] = {
    {"a / zero", "division by zero (a = 7, zero = 0)"},
    {"1 / 0", "division by zero"},
    {"a % zero", "remainder of a division by zero (a = 7, zero = 0)"},
    {"small / -1", "integer overflow (64 bits) (small = -9223372036854775808)"},
    {"small / (a - 8)", "integer overflow (64 bits) (small = -9223372036854775808, a = 7)"},
    {"big + 1", "integer overflow (64 bits) (big = 9223372036854775807)"},
    {"small - 1", "integer overflow (64 bits) (small = -9223372036854775808)"},
    {"big * a", "integer overflow (64 bits) (big = 9223372036854775807, a = 7)"},
    {"-small", "integer overflow (64 bits) (small = -9223372036854775808)"},
    {"abs(small)", "integer overflow (64 bits) (small = -9223372036854775808)"},
    {"1 << 63", "shift by a count outside 0..62"},
    {"a >> b", "shift by a count outside 0..62 (a = 7, b = -3)"},
    {"a << 62", "integer overflow (64 bits) (a = 7)"},
    {"ceil_div(a, zero)", "ceil_div by zero (a = 7, zero = 0)"},
    {"ceil_div(small, -1)", "integer overflow (64 bits) (small = -9223372036854775808)"},
    {"align_up(a, b)", "align_up to a value that is not positive (a = 7, b = -3)"},
    {"align_up(big, 2)", "integer overflow (64 bits) (big = 9223372036854775807)"},
    {"log2(zero)", "log2 of a value that is not positive (zero = 0)"},
    {"huge * 10", "a real result that is not finite (huge = 1e+308)"},
    {"huge + huge", "a real result that is not finite (huge = 1e+308)"},
    {"x / 0.0", "a real result that is not finite (x = 0.5)"},
    {"1 / (x / huge / huge / 1e300)", "a real result that is not finite"},
    {"sqrt(-x)", "a real result that is not finite (x = 0.5)"},
    {"none.max", "minimum or maximum of an empty list (none = 0 values)"},
    {"kv_len.blocks(zero)", "blocks of a size that is not positive (zero = 0, kv_len = 3 values "
                            "from 0 to 4096)"},
    {"1 / (dtype == 'bf16')", "division by zero (dtype = f16)"},
    {"kv_len.ramp(none, 1)", "ramp of lists that are not equally long"},
    {"kv_len.ramp(kv_len, big)", "integer overflow (64 bits)"},
    {"a && 1 / zero", "division by zero (a = 7, zero = 0)"},
};

static void evaluation_errors(void **state)
{
    for (size_t i = 0; i < GK_ARRAY_COUNT(eval_cases); i++) {
        struct world *w = *state;
        struct gk_err err;
        struct gk_expr *expr = compile(w, eval_cases[i].text);
        union gk_value value = INT_OF(42);
        char want[256];
        snprintf(want, sizeof want, "expression '%s': %s", eval_cases[i].text,
                 eval_cases[i].message);
        assert_status(gk_expr_eval(expr, w->slots, &value, &err), GK_RANGE, err);
        if (!strstr(err.text, want)) {
            fail_msg("'%s', wanted '%s'", err.text, want);
        }
        assert_int_equal(value.i, 42);
        assert_int_equal(gk_expr_eval(expr, w->slots, &value, NULL), GK_RANGE);
        gk_expr_destroy(expr);
    }
}

static void nesting_is_bounded(void **state)
{
    struct world *w = *state;
    struct gk_err err;
    struct gk_expr *expr = NULL;
    struct gk_buf buf = {0};
    /* Nesting: 64 levels and no more; the deepest that is allowed needs a small stack. */
    for (int level = 0; level < 2; level++) {
        gk_buf_reset(&buf);
        for (int i = 0; i < GK_EXPR_DEPTH_MAX - 1 + level; i++) {
            gk_buf_putc(&buf, '(');
        }
        gk_buf_putc(&buf, '1');
        for (int i = 0; i < GK_EXPR_DEPTH_MAX - 1 + level; i++) {
            gk_buf_putc(&buf, ')');
        }
        assert_status(gk_expr_compile(buf.data, w->scope, &expr, &err), level ? GK_LIMIT : GK_OK,
                      err);
        gk_expr_destroy(level ? NULL : expr);
    }
    assert_contains(err.text, "nested deeper than 64 levels");
    gk_buf_reset(&buf);
    for (int i = 0; i < 4000; i++) {
        gk_buf_putc(&buf, '-');
    }
    gk_buf_putc(&buf, 'a');
    assert_status(gk_expr_compile(buf.data, w->scope, &expr, &err), GK_LIMIT, err);
    /* Operands alive at once: 1 - (a - (1 - ... keeps every left side waiting. */
    gk_buf_reset(&buf);
    for (int i = 0; i < 40; i++) {
        gk_buf_puts(&buf, "(a*b-(b*a)*");
    }
    gk_buf_puts(&buf, "1");
    for (int i = 0; i < 40; i++) {
        gk_buf_puts(&buf, ")");
    }
    assert_status(gk_expr_compile(buf.data, w->scope, &expr, &err), GK_LIMIT, err);
    assert_contains(err.text, "more than 64 operands at once");
    gk_buf_fini(&buf);
}

static void chains_are_bounded(void **state)
{
    struct world *w = *state;
    struct gk_err err;
    struct gk_expr *expr = NULL;
    struct gk_buf buf = {0};
    /* A long chain does not nest, and is bounded by itself. */
    gk_buf_reset(&buf);
    gk_buf_puts(&buf, "a");
    for (int i = 0; i < 500; i++) {
        gk_buf_puts(&buf, "+a");
    }
    assert_ok(gk_expr_compile(buf.data, w->scope, &expr, &err), err);
    int64_t value = 0;
    assert_ok(gk_expr_eval_int(expr, w->slots, &value, &err), err);
    assert_int_equal(value, 7 * 501);
    gk_expr_destroy(expr);
    for (int i = 0; i < 100; i++) {
        gk_buf_puts(&buf, "+a");
    }
    assert_status(gk_expr_compile(buf.data, w->scope, &expr, &err), GK_LIMIT, err);
    assert_contains(err.text, "more than 512 operators in one chain");
    assert_true(strlen(err.text) < GK_ERR_TEXT_MAX);
    /* Instructions. */
    gk_buf_reset(&buf);
    for (int k = 0; k < 5; k++) {
        gk_buf_puts(&buf, k ? "+(a" : "(a");
        for (int i = 0; i < 250; i++) {
            gk_buf_puts(&buf, "-a");
        }
        gk_buf_puts(&buf, ")");
    }
    assert_status(gk_expr_compile(buf.data, w->scope, &expr, &err), GK_LIMIT, err);
    assert_contains(err.text, "longer than 1024 instructions");
    gk_buf_fini(&buf);
}

static void text_is_bounded(void **state)
{
    struct world *w = *state;
    struct gk_err err;
    struct gk_expr *expr = NULL;
    struct gk_buf buf = {0};
    /* Bytes. */
    gk_buf_reset(&buf);
    for (int i = 0; i < GK_EXPR_TEXT_MAX; i++) {
        gk_buf_putc(&buf, ' ');
    }
    gk_buf_putc(&buf, '1');
    assert_status(gk_expr_compile(buf.data, w->scope, &expr, &err), GK_LIMIT, err);
    assert_contains(err.text, "longer than 4096 bytes");
    assert_ok(gk_expr_compile(buf.data + 1, w->scope, &expr, &err), err);
    gk_expr_destroy(expr);
    /* Names. */
    gk_buf_reset(&buf);
    for (int i = 0; i < GK_NAME_MAX; i++) {
        gk_buf_putc(&buf, 'n');
    }
    assert_status(gk_expr_compile(buf.data, w->scope, &expr, &err), GK_LIMIT, err);
    assert_contains(err.text, "a name of 64 bytes; at most 63 are allowed");
    gk_buf_fini(&buf);
    gk_expr_destroy(NULL);
}

static void uses_are_known(void **state)
{
    struct world *w = *state;
    struct gk_expr *expr = compile(w, "b + (zero ? x : kv_len.max)");
    const bool want[] = {false, true,  true,  false, false, false,
                         false, false, false, true,  false, true};
    for (uint32_t i = 0; i < GK_ARRAY_COUNT(want); i++) {
        assert_int_equal(gk_expr_uses(expr, i), want[i]);
    }
    assert_false(gk_expr_uses(expr, 100000));
    assert_int_equal(gk_expr_slot_max(expr), 11);
    gk_expr_destroy(expr);
    expr = compile(w, "1 + 2");
    assert_int_equal(gk_expr_slot_max(expr), -1);
    struct gk_buf buf = {0};
    gk_expr_show_values(expr, w->slots, &buf);
    assert_string_equal(gk_buf_text(&buf), "");
    gk_expr_destroy(expr);
    gk_buf_fini(&buf);
}

static void enum_results(void **state)
{
    struct world *w = *state;
    static const struct {
        const char *text;
        int64_t want;
        const char *error;
    } cases[] = {
        {"'f16'", 1, NULL},
        {"('f32')", 2, NULL},
        {"dtype_out", 1, NULL}, /* its values start the wanted ones */
        {"dtype", 1, NULL},
        {"dtype == 'f16' ? 'bf16' : 'f32'", 0, NULL},
        {"zero ? 'bf16' : (dtype == 'f32' ? dtype : 'f32')", 2, NULL},
        {"act", 0, "the values of 'act' are not those of the enum that is needed"},
        {"1", 0, "gives a number where an enum value is needed"},
        {"a ? 'f16' : 1", 0, "gives a number where an enum value is needed"},
        {"a ? 'f16' : 1.5", 0, "?: gives an enum value or a real"},
        {"'f17'", 0, "'f17' is not a value of the enum; allowed: bf16, f16, f32"},
        {"(a ? 'f16' : 'bf16') == 1", 0, "can only be the whole result"},
        {"'f16' + 1", 0, "is a value of an enum"},
    };
    for (size_t i = 0; i < GK_ARRAY_COUNT(cases); i++) {
        struct gk_err err;
        struct gk_expr *expr = NULL;
        int64_t value = -1;
        enum gk_status status =
            gk_expr_compile_enum(cases[i].text, w->scope, dtypes, 3, &expr, &err);
        if (cases[i].error) {
            assert_int_not_equal(status, GK_OK);
            assert_contains(err.text, cases[i].error);
            continue;
        }
        assert_ok(status, err);
        assert_ok(gk_expr_eval_int(expr, w->slots, &value, &err), err);
        assert_int_equal(value, cases[i].want);
        gk_expr_destroy(expr);
    }
}

static void scopes(void **state)
{
    (void)state;
    struct gk_scope *scope = gk_scope_create();
    struct gk_err err;
    uint32_t slot = 0;
    assert_true(gk_is_name("a") && gk_is_name("_A9.b_") && gk_is_name("dev.sms"));
    static const char *const bad[] = {
        "",
        "9a",
        "a.",
        ".a",
        "a.b.c",
        "a-b",
        "a b",
        "a.9",
        "\xC3\xA9",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.a"};
    for (size_t i = 0; i < GK_ARRAY_COUNT(bad); i++) {
        assert_false(gk_is_name(bad[i]));
        assert_status(gk_scope_add(scope, bad[i], GK_VALUE_INT, NULL, 0, &slot, &err), GK_INPUT,
                      err);
        assert_contains(err.text, "is not a name");
    }
    assert_true(gk_is_name("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"));
    assert_status(gk_scope_add(scope, "true", GK_VALUE_INT, NULL, 0, &slot, &err), GK_INPUT, err);
    for (int i = 0; i < GK_SCOPE_SYMBOLS_MAX; i++) {
        char name[16];
        snprintf(name, sizeof name, "n%d", i);
        assert_ok(gk_scope_add(scope, name, GK_VALUE_INT, NULL, 0, &slot, &err), err);
        assert_int_equal(slot, i);
    }
    assert_status(gk_scope_add(scope, "n7", GK_VALUE_INT, NULL, 0, &slot, &err), GK_EXISTS, err);
    assert_string_equal(err.text, "the name 'n7' is taken");
    assert_status(gk_scope_add(scope, "more", GK_VALUE_INT, NULL, 0, &slot, &err), GK_LIMIT, err);
    assert_int_equal(gk_scope_find(scope, "n500")->slot, 500);
    assert_null(gk_scope_find(scope, "more"));
    assert_string_equal(gk_scope_at(scope, 3)->name, "n3");
    assert_null(gk_scope_at(scope, GK_SCOPE_SYMBOLS_MAX));
    assert_int_equal(gk_scope_count(scope), GK_SCOPE_SYMBOLS_MAX);
    gk_scope_destroy(scope);
    gk_scope_destroy(NULL);
}

/* ------------------------------------------------------------------ random expressions */

/* Text of a random expression over a, b, zero, dev.sms, dtype, x; wants_real says what it gives. */
static void random_text(struct gk_prng *prng, int depth, bool real, struct gk_buf *buf)
{
    static const char *const int_names[] = {"a", "b", "zero", "dev.sms", "dtype"};
    static const char *const ops[] = {"+", "-", "*",  "/", "%",  "<<", ">>", "&",  "|",
                                      "^", "<", "<=", ">", ">=", "==", "!=", "&&", "||"};
    static const char *const two[] = {"min", "max", "ceil_div", "align_up"};
    static const char *const one[] = {"log2", "is_pow2", "abs"};
    static const char *const real_two[] = {"min", "max"};
    if (depth == 0) {
        if (real && gk_prng_below(prng, 2)) {
            gk_buf_puts(buf, gk_prng_below(prng, 2) ? "x" : "2.25");
        } else if (real) {
            gk_buf_printf(buf, "real(%d)", (int)gk_prng_below(prng, 9));
        } else if (gk_prng_below(prng, 3)) {
            gk_buf_puts(buf, int_names[gk_prng_below(prng, GK_ARRAY_COUNT(int_names))]);
        } else {
            gk_buf_printf(buf, "%d", (int)gk_prng_below(prng, 40));
        }
        return;
    }
    gk_buf_putc(buf, '(');
    switch (gk_prng_below(prng, 7)) {
    case 0:
        gk_buf_puts(buf, real                          ? "-"
                         : gk_prng_below(prng, 3) == 0 ? "~"
                         : gk_prng_below(prng, 2)      ? "!"
                                                       : "-");
        random_text(prng, depth - 1, real, buf);
        break;
    case 1:
        gk_buf_printf(buf, "%s(",
                      real ? real_two[gk_prng_below(prng, 2)] : two[gk_prng_below(prng, 4)]);
        random_text(prng, depth - 1, real, buf);
        gk_buf_puts(buf, ", ");
        random_text(prng, depth - 1, real, buf);
        gk_buf_putc(buf, ')');
        break;
    case 2:
        gk_buf_printf(buf, "%s(",
                      real ? (gk_prng_below(prng, 2) ? "sqrt" : "abs")
                           : one[gk_prng_below(prng, 3)]);
        random_text(prng, depth - 1, real, buf);
        gk_buf_putc(buf, ')');
        break;
    case 3:
        random_text(prng, depth - 1, false, buf);
        gk_buf_puts(buf, " ? ");
        random_text(prng, depth - 1, real, buf);
        gk_buf_puts(buf, " : ");
        random_text(prng, depth - 1, real && gk_prng_below(prng, 2), buf);
        break;
    case 4:
        if (!real) { /* a comparison of reals is an integer */
            random_text(prng, depth - 1, true, buf);
            gk_buf_printf(buf, " %s ", ops[10 + gk_prng_below(prng, 6)]);
            random_text(prng, depth - 1, gk_prng_below(prng, 2), buf);
            break;
        } /* fall through */
    default:
        random_text(prng, depth - 1, real, buf);
        gk_buf_printf(buf, " %s ", ops[gk_prng_below(prng, real ? 4 : GK_ARRAY_COUNT(ops))]);
        random_text(prng, depth - 1, real && gk_prng_below(prng, 2), buf);
        break;
    }
    gk_buf_putc(buf, ')');
}

static const char *c_name(void *context, const struct gk_symbol *symbol)
{
    (void)context;
    static char text[GK_NAME_MAX + 2];
    snprintf(text, sizeof text, "p_%s", symbol->name);
    if (strcmp(symbol->name, "dev.sms") == 0) {
        return "p_sms";
    }
    return symbol->name[0] == 'h' ? NULL : text;
}

#define RANDOM_COUNT 1500

static int run_command(const char *const *argv)
{
    pid_t pid = fork();
    if (pid == 0) {
        execvp(argv[0], (char *const *)(uintptr_t)argv);
        _exit(127);
    }
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Compiles test_expr_c.c with every warning an error and runs it; 0 is its answer if all values
 * agree. */
static void compile_and_run(void)
{
    static const char *const levels[] = {"-O0", "-O2"};
    for (size_t i = 0; i < GK_ARRAY_COUNT(levels); i++) {
        const char *const c[] = {"cc",      "-std=c11", "-Wall",       "-Wextra",       "-Werror",
                                 levels[i], "-o",       "test_expr_c", "test_expr_c.c", "-lm",
                                 NULL};
        assert_int_equal(run_command(c), 0);
        const char *const run[] = {"./test_expr_c", NULL};
        assert_int_equal(run_command(run), 0);
    }
    const char *const cpp[] = {"c++",           "-x",      "c++", "-std=c++17", "-Wall",
                               "-Wextra",       "-Werror", "-O0", "-o",         "test_expr_c",
                               "test_expr_c.c", "-lm",     NULL};
    assert_int_equal(run_command(cpp), 0);
    const char *const clang[] = {"clang",   "-std=c11",      "-Wall",         "-Wextra",
                                 "-Werror", "-fsyntax-only", "test_expr_c.c", NULL};
    int clang_status = run_command(clang);
    assert_true(clang_status == 0 || clang_status == 127); /* 127: there is none here */
    const char *const run[] = {"./test_expr_c", NULL};
    assert_int_equal(run_command(run), 0);
}

/* Property: what evaluates without error gives the same value when compiled as C11 and as C++17
 * with every warning an error, optimised and not. */
static void rendered_c_agrees(void **state)
{
    struct world *w = *state;
    struct gk_prng prng;
    struct gk_buf text = {0}, source = {0};
    const struct gk_expr_c names = {c_name, NULL};
    struct gk_err err;
    gk_prng_init(&prng, 11, 0);
    gk_buf_puts(
        &source,
        "#include <math.h>\n#include <stdint.h>\n#include <stdio.h>\n#include <string.h>\n");
    gk_buf_puts(&source, gk_expr_c_helpers());
    gk_buf_puts(&source, gk_expr_c_helpers()); /* guarded */
    gk_buf_puts(&source,
                "static int same(double a, double b) { return memcmp(&a, &b, sizeof a) == 0; }\n"
                "static int check(int64_t p_a, int64_t p_b, int64_t p_zero, int64_t p_sms,\n"
                "                 int64_t p_dtype, double p_x)\n{\n    int bad = 0;\n"
                "    (void)p_a; (void)p_b; (void)p_zero; (void)p_sms; (void)p_dtype; (void)p_x;\n");
    int kept = 0, faulted = 0;
    while (kept < RANDOM_COUNT) {
        struct gk_expr *expr = NULL;
        union gk_value value;
        gk_buf_reset(&text);
        random_text(&prng, 1 + (int)gk_prng_below(&prng, 4), gk_prng_below(&prng, 3) == 0, &text);
        assert_ok(gk_expr_compile(gk_buf_text(&text), w->scope, &expr, &err), err);
        if (gk_expr_eval(expr, w->slots, &value, NULL) != GK_OK) {
            faulted++;
            gk_expr_destroy(expr);
            continue;
        }
        bool real = gk_expr_type(expr) == GK_VALUE_REAL;
        char number[32];
        gk_buf_puts(&source, real ? "    if (!same(" : "    if (");
        assert_ok(gk_expr_render_c(expr, w->scope, &names, &source, &err), err);
        if (real) {
            gk_real_text(value.r + 0.0, number);
            gk_buf_printf(&source, " + 0.0, %s%s", number, strpbrk(number, ".e") ? "" : ".0");
            gk_buf_puts(&source, "))");
        } else if (value.i == INT64_MIN) {
            gk_buf_puts(&source, " != INT64_MIN)");
        } else {
            gk_buf_printf(&source, " - INT64_C(%" PRId64 ") != 0)", value.i);
        }
        gk_buf_printf(&source, " { printf(\"%%s\\n\", \"%s\"); bad++; }\n", gk_buf_text(&text));
        gk_expr_destroy(expr);
        kept++;
    }
    assert_true(faulted > 20); /* the generator does reach errors */
    /* The square root without a library is the nearest double, as the library's is. */
    gk_buf_puts(
        &source,
        "    return bad;\n}\nstatic int check_roots(void)\n{\n"
        "    uint64_t bits = 88172645463325252u;\n    int bad = 0, i;\n"
        "    for (i = 0; i < 200000; i++) {\n        double a;\n"
        "        bits ^= bits << 13; bits ^= bits >> 7; bits ^= bits << 17;\n"
        "        uint64_t real = bits & 0x7fdfffffffffffffu;\n"
        "        memcpy(&a, &real, sizeof a);\n"
        "        if (a >= 2.3e-308) { bad += !same(gk_x_sqrt(a), sqrt(a)); }\n    }\n"
        "    if (bad) { printf(\"%d roots\\n\", bad); }\n    return bad;\n}\n"
        "int main(int argc, char **argv)\n{\n    (void)argv;\n    if (check_roots()) { return 1; "
        "}\n"
        "    return check(6 + argc, -4 + argc, argc - 1, 131 + argc, argc, 0.5 * argc) != 0;\n}\n");
    assert_ok(gk_file_store("test_expr_c.c", source.data, source.size, &err), err);
    compile_and_run();
    unlink("test_expr_c.c");
    unlink("test_expr_c");
    gk_buf_fini(&text);
    gk_buf_fini(&source);
}

static void assert_renders(struct world *w, const char *text, const char *want)
{
    struct gk_expr *expr = compile(w, text);
    const struct gk_expr_c names = {c_name, NULL};
    struct gk_buf buf = {0};
    struct gk_err err;
    gk_buf_puts(&buf, "x=");
    assert_ok(gk_expr_render_c(expr, w->scope, &names, &buf, &err), err);
    assert_string_equal(gk_buf_text(&buf) + 2, want);
    gk_buf_fini(&buf);
    gk_expr_destroy(expr);
}

static void rendered_text(void **state)
{
    struct world *w = *state;
    assert_renders(w, "ceil_div(a, 16) * b", "(gk_x_ceil_div(p_a, INT64_C(16)) * p_b)");
    assert_renders(w, "dtype == 'f16' && a % 2 == 0",
                   "(((p_dtype == INT64_C(1)) && (gk_x_mod(p_a, INT64_C(2)) == INT64_C(0))) ? "
                   "INT64_C(1) : INT64_C(0))");
    assert_renders(w, "a == a", "INT64_C(1)");
    assert_renders(w, "a ? 1 / 0 : 2 * 1024", "((p_a != INT64_C(0)) ? INT64_C(0) : INT64_C(2048))");
    assert_renders(w, "kv_len.max + kv_len.count", "(p_kv_len.max + p_kv_len.count)");
    assert_renders(w, "x + 1", "(p_x + (1.0))");
    const struct gk_expr_c names = {c_name, NULL};
    struct gk_buf buf = {0};
    struct gk_err err;
    gk_buf_puts(&buf, "kept");
    struct gk_expr *expr = compile(w, "a + kv_len.blocks(4)");
    assert_status(gk_expr_render_c(expr, w->scope, &names, &buf, &err), GK_UNSUPPORTED, err);
    assert_contains(err.text, "'kv_len'");
    gk_expr_destroy(expr);
    expr = compile(w, "a + huge");
    assert_status(gk_expr_render_c(expr, w->scope, &names, &buf, &err), GK_UNSUPPORTED, err);
    assert_contains(err.text, "there is no C text for 'huge'");
    assert_string_equal(gk_buf_text(&buf), "kept");
    struct gk_scope *other = gk_scope_create();
    assert_status(gk_expr_render_c(expr, other, &names, &buf, &err), GK_INTERNAL, err);
    gk_scope_destroy(other);
    gk_expr_destroy(expr);
    gk_buf_fini(&buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers),           cmocka_unit_test(reals),
        cmocka_unit_test(compile_errors),     cmocka_unit_test(evaluation_errors),
        cmocka_unit_test(nesting_is_bounded), cmocka_unit_test(chains_are_bounded),
        cmocka_unit_test(text_is_bounded),    cmocka_unit_test(uses_are_known),
        cmocka_unit_test(enum_results),       cmocka_unit_test(scopes),
        cmocka_unit_test(rendered_c_agrees),  cmocka_unit_test(rendered_text),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
