/*
 * The machine of expressions. See expr_internal.h.
 *
 * A stack machine over typed instructions: no types are looked at and nothing is allocated while it
 * runs. Spaces of a million points are enumerated through expr_run, so an instruction is a few
 * nanoseconds; a switch is used and not a table of labels because the compilers at hand make the
 * same code of both.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/expr_internal.h"
#include "core/json.h"

/* ------------------------------------------------------------------ arithmetic with checks */

/* Rounds towards plus infinity for every sign. b is not zero; INT64_MIN / -1 was excluded. */
static int64_t ceil_div(int64_t a, int64_t b)
{
    int64_t quotient = a / b;
    return a % b != 0 && (a < 0) == (b < 0) ? quotient + 1 : quotient;
}

static enum expr_fault divide(int64_t a, int64_t b, int64_t *out)
{
    if (b == 0) {
        return FAULT_DIVIDE;
    }
    if (a == INT64_MIN && b == -1) {
        return FAULT_OVERFLOW;
    }
    *out = a / b;
    return FAULT_NONE;
}

static enum expr_fault modulo(int64_t a, int64_t b, int64_t *out)
{
    if (b == 0) {
        return FAULT_MODULO;
    }
    *out = b == -1 ? 0 : a % b; /* INT64_MIN % -1 traps on some machines */
    return FAULT_NONE;
}

static enum expr_fault divide_up(int64_t a, int64_t b, int64_t *out)
{
    if (b == 0) {
        return FAULT_CEIL_DIV;
    }
    if (a == INT64_MIN && b == -1) {
        return FAULT_OVERFLOW;
    }
    *out = ceil_div(a, b);
    return FAULT_NONE;
}

static enum expr_fault align_up(int64_t a, int64_t b, int64_t *out)
{
    if (b <= 0) {
        return FAULT_ALIGN_UP;
    }
    return __builtin_mul_overflow(ceil_div(a, b), b, out) ? FAULT_OVERFLOW : FAULT_NONE;
}

static enum expr_fault shift_left(int64_t a, int64_t b, int64_t *out)
{
    if (b < 0 || b > 62) {
        return FAULT_SHIFT;
    }
    return __builtin_mul_overflow(a, INT64_C(1) << b, out) ? FAULT_OVERFLOW : FAULT_NONE;
}

static enum expr_fault shift_right(int64_t a, int64_t b, int64_t *out)
{
    if (b < 0 || b > 62) {
        return FAULT_SHIFT;
    }
    *out = a >= 0 ? a >> b : ~(~a >> b); /* arithmetic on every compiler */
    return FAULT_NONE;
}

static enum expr_fault aggregate(enum expr_op op, const struct gk_series *series, int64_t *out)
{
    if (op == OP_S_COUNT) {
        *out = series->count;
        return FAULT_NONE;
    }
    if (op != OP_S_SUM && series->count == 0) {
        return FAULT_EMPTY;
    }
    int64_t result = op == OP_S_SUM ? 0 : series->values[0];
    for (uint32_t i = 0; i < series->count; i++) {
        int64_t value = series->values[i];
        if (op == OP_S_MAX) {
            result = value > result ? value : result;
        } else if (op == OP_S_MIN) {
            result = value < result ? value : result;
        } else if (__builtin_add_overflow(result, value, &result)) {
            return FAULT_OVERFLOW;
        }
    }
    *out = result;
    return FAULT_NONE;
}

static enum expr_fault blocks(const struct gk_series *series, int64_t size, int64_t *out)
{
    if (size <= 0) {
        return FAULT_BLOCKS;
    }
    int64_t sum = 0;
    for (uint32_t i = 0; i < series->count; i++) {
        if (__builtin_add_overflow(sum, ceil_div(series->values[i], size), &sum)) {
            return FAULT_OVERFLOW;
        }
    }
    *out = sum;
    return FAULT_NONE;
}

/* The sum of min(max(i + shift, 0), top) over i from 0 to count - 1: zeros, a slope, then `top`. */
static bool ramp_of(int64_t count, int64_t shift, int64_t top, int64_t *out)
{
    const int64_t zeros = shift < 0 ? (shift < -count ? count : -shift) : 0;
    const int64_t first = shift > 0 ? shift : 0; /* of the slope */
    const int64_t rest = count - zeros;
    const int64_t slope = first >= top ? 0 : top - first < rest ? top - first : rest;
    int64_t twice = 0, flat = 0;
    return !__builtin_mul_overflow(slope, 2 * first + slope - 1, &twice) &&
           !__builtin_mul_overflow(rest - slope, top, &flat) &&
           !__builtin_add_overflow(twice / 2, flat, out);
}

static enum expr_fault ramp(const struct gk_series *rows, const struct gk_series *columns,
                            int64_t shift, int64_t *out)
{
    int64_t sum = 0;
    if (rows->count != columns->count) {
        return FAULT_RAMP;
    }
    for (uint32_t i = 0; i < rows->count; i++) {
        int64_t part = 0, place = 0;
        if (rows->values[i] < 0 || columns->values[i] < 0) {
            return FAULT_RAMP;
        }
        if (__builtin_add_overflow(columns->values[i] - rows->values[i], shift, &place) ||
            place < -INT64_MAX / 2 || place > INT64_MAX / 4 ||
            !ramp_of(rows->values[i], place, columns->values[i], &part) ||
            __builtin_add_overflow(sum, part, &sum)) {
            return FAULT_OVERFLOW;
        }
    }
    *out = sum;
    return FAULT_NONE;
}

/* The argument of blocks and ramp is in *top. */
static enum expr_fault of_series(const struct expr_ins *at, const union gk_value *slots,
                                 int64_t *top)
{
    const struct gk_series *series = slots[at->arg].series;
    if (at->op == OP_S_BLOCKS) {
        return blocks(series, *top, top);
    }
    return at->op == OP_S_RAMP ? ramp(series, slots[at->value.i].series, *top, top)
                               : aggregate((enum expr_op)at->op, series, top);
}

/* ------------------------------------------------------------------ the machine */

/* clang-format off: tables of one line an operation */

/* One binary operation in its three forms; `statement` reads a and b and writes *top. */
#define BINARY(name, ctype, member, statement)                                                     \
    case OP_##name: {                                                                              \
        ctype b = top->member;                                                                     \
        top--;                                                                                     \
        ctype a = top->member;                                                                     \
        statement;                                                                                 \
        break;                                                                                     \
    }                                                                                              \
    case OP_##name##_SLOT: {                                                                       \
        ctype b = slots[at->arg].member;                                                           \
        ctype a = top->member;                                                                     \
        statement;                                                                                 \
        break;                                                                                     \
    }                                                                                              \
    case OP_##name##_CONST: {                                                                      \
        ctype b = at->value.member;                                                                \
        ctype a = top->member;                                                                     \
        statement;                                                                                 \
        break;                                                                                     \
    }
#define INT(name, expression) BINARY(name, int64_t, i, top->i = (expression))
#define INT_OVERFLOW(name, builtin)                                                                \
    BINARY(                                                                                        \
        name, int64_t, i, if (builtin(a, b, &top->i)) { return FAULT_OVERFLOW; })
#define INT_CHECKED(name, function)                                                                \
    BINARY(                                                                                        \
        name, int64_t, i, fault = function(a, b, &top->i); if (fault) { return fault; })
#define REAL_TEST(name, operator) BINARY(name, double, r, top->i = a operator b)
#define REAL(name, expression)                                                                     \
    BINARY(                                                                                        \
        name, double, r, top->r = (expression);                                                    \
        if (!isfinite(top->r)) { return FAULT_NOT_FINITE; })

enum expr_fault expr_run(const struct expr_ins *code, const union gk_value *slots,
                         union gk_value *value_out)
{
    union gk_value stack[GK_EXPR_STACK_MAX + 1];
    union gk_value *top = stack; /* the newest operand; stack[0] is below the first */
    enum expr_fault fault;
    for (const struct expr_ins *at = code;; at++) {
        switch ((enum expr_op)at->op) {
        case OP_END:
            *value_out = *top;
            return FAULT_NONE;
        case OP_SLOT:
            *++top = slots[at->arg];
            break;
        case OP_CONST:
            *++top = at->value;
            break;
        case OP_JUMP:
            at = code + at->arg - 1;
            break;
        case OP_JUMP_ZERO:
            if ((top--)->i == 0) {
                at = code + at->arg - 1;
            }
            break;
        case OP_AND_THEN:
            if (top->i == 0) {
                at = code + at->arg - 1;
            } else {
                top--;
            }
            break;
        case OP_OR_ELSE:
            if (top->i != 0) {
                top->i = 1;
                at = code + at->arg - 1;
            } else {
                top--;
            }
            break;
        case OP_TRUTH:
            top->i = top->i != 0;
            break;
        case OP_TO_REAL:
            top->r = (double)top->i;
            break;
        case OP_I_NEG:
            if (__builtin_sub_overflow(INT64_C(0), top->i, &top->i)) {
                return FAULT_OVERFLOW;
            }
            break;
        case OP_I_NOT:
            top->i = top->i == 0;
            break;
        case OP_I_INVERT:
            top->i = ~top->i;
            break;
        case OP_I_LOG2:
            if (top->i <= 0) {
                return FAULT_LOG2;
            }
            top->i = 63 - __builtin_clzll((unsigned long long)top->i);
            break;
        case OP_I_IS_POW2:
            top->i = top->i > 0 && (top->i & (top->i - 1)) == 0;
            break;
        case OP_I_ABS:
            if (top->i == INT64_MIN) {
                return FAULT_OVERFLOW;
            }
            top->i = top->i < 0 ? -top->i : top->i;
            break;
        case OP_R_NEG:
            top->r = -top->r;
            break;
        case OP_R_ABS:
            top->r = fabs(top->r);
            break;
        case OP_R_SQRT:
            top->r = sqrt(top->r);
            if (!isfinite(top->r)) {
                return FAULT_NOT_FINITE;
            }
            break;
        case OP_S_MAX:
        case OP_S_MIN:
        case OP_S_SUM:
        case OP_S_COUNT:
            top++;
            /* fall through */
        case OP_S_BLOCKS:
        case OP_S_RAMP:
            fault = of_series(at, slots, &top->i);
            if (fault) {
                return fault;
            }
            break;
            INT_OVERFLOW(I_ADD, __builtin_add_overflow)
            INT_OVERFLOW(I_SUB, __builtin_sub_overflow)
            INT_OVERFLOW(I_MUL, __builtin_mul_overflow)
            INT_CHECKED(I_DIV, divide)
            INT_CHECKED(I_MOD, modulo)
            INT_CHECKED(I_SHL, shift_left)
            INT_CHECKED(I_SHR, shift_right)
            INT(I_AND, a & b)
            INT(I_OR, a | b)
            INT(I_XOR, a ^ b)
            INT(I_LT, a < b)
            INT(I_LE, a <= b)
            INT(I_GT, a > b)
            INT(I_GE, a >= b)
            INT(I_EQ, a == b)
            INT(I_NE, a != b)
            INT(I_MIN, a < b ? a : b)
            INT(I_MAX, a > b ? a : b)
            INT_CHECKED(I_CEIL_DIV, divide_up)
            INT_CHECKED(I_ALIGN_UP, align_up)
            REAL(R_ADD, a + b)
            REAL(R_SUB, a - b)
            REAL(R_MUL, a * b)
            REAL(R_DIV, a / b)
            REAL_TEST(R_LT, <)
            REAL_TEST(R_LE, <=)
            REAL_TEST(R_GT, >)
            REAL_TEST(R_GE, >=)
            REAL_TEST(R_EQ, ==)
            REAL_TEST(R_NE, !=)
            REAL(R_MIN, a < b ? a : b)
            REAL(R_MAX, a > b ? a : b)
        }
    }
}

/* clang-format on */

/* ------------------------------------------------------------------ evaluation */

static const char *fault_text(enum expr_fault fault)
{
    switch (fault) {
    case FAULT_NONE:
        return "no fault";
    case FAULT_OVERFLOW:
        return "integer overflow (64 bits)";
    case FAULT_DIVIDE:
        return "division by zero";
    case FAULT_MODULO:
        return "remainder of a division by zero";
    case FAULT_CEIL_DIV:
        return "ceil_div by zero";
    case FAULT_ALIGN_UP:
        return "align_up to a value that is not positive";
    case FAULT_LOG2:
        return "log2 of a value that is not positive";
    case FAULT_SHIFT:
        return "shift by a count outside 0..62";
    case FAULT_NOT_FINITE:
        return "a real result that is not finite";
    case FAULT_EMPTY:
        return "minimum or maximum of an empty list";
    case FAULT_BLOCKS:
        return "blocks of a size that is not positive";
    case FAULT_RAMP:
        return "ramp of lists that are not equally long, or of a negative length";
    }
    return "unknown fault";
}

static void show_series(const struct gk_series *series, struct gk_buf *buf)
{
    int64_t least = INT64_MAX, most = INT64_MIN;
    for (uint32_t i = 0; i < series->count; i++) {
        least = series->values[i] < least ? series->values[i] : least;
        most = series->values[i] > most ? series->values[i] : most;
    }
    gk_buf_printf(buf, "%" PRIu32 " values", series->count);
    if (series->count > 0) {
        gk_buf_printf(buf, " from %" PRId64 " to %" PRId64, least, most);
    }
}

static void show_value(const struct expr_use *use, const union gk_value *value, struct gk_buf *buf)
{
    char number[32];
    switch (use->type) {
    case GK_VALUE_INT:
        if (use->enum_values && value->i >= 0 && value->i < use->enum_count) {
            gk_buf_printf(buf, "%s = %s", use->name, use->enum_values[value->i]);
        } else {
            gk_buf_printf(buf, "%s = %" PRId64, use->name, value->i);
        }
        break;
    case GK_VALUE_REAL:
        gk_real_text(value->r, number);
        gk_buf_printf(buf, "%s = %s", use->name, number);
        break;
    case GK_VALUE_SERIES:
        gk_buf_printf(buf, "%s = ", use->name);
        show_series(value->series, buf);
        break;
    }
}

void gk_expr_show_values(const struct gk_expr *expr, const union gk_value *slots,
                         struct gk_buf *buf)
{
    for (uint32_t i = 0; i < expr->use_count; i++) {
        gk_buf_puts(buf, i ? ", " : " (");
        show_value(&expr->uses[i], &slots[expr->uses[i].slot], buf);
    }
    gk_buf_puts(buf, expr->use_count ? ")" : "");
}

static enum gk_status fail_eval(const struct gk_expr *expr, const union gk_value *slots,
                                const char *what, struct gk_err *err)
{
    if (!err) {
        return GK_RANGE; /* an enumeration that only wants to know: no text is made */
    }
    struct gk_buf values = {0};
    gk_expr_show_values(expr, slots, &values);
    bool cut = strlen(expr->text) > 400; /* leaves room for the values in struct gk_err */
    enum gk_status status = gk_fail(err, GK_RANGE, "expression '%.400s%s': %s%s", expr->text,
                                    cut ? "..." : "", what, gk_buf_text(&values));
    gk_buf_fini(&values);
    return status;
}

enum gk_status gk_expr_eval(const struct gk_expr *expr, const union gk_value *slots,
                            union gk_value *value_out, struct gk_err *err)
{
    union gk_value value;
    enum expr_fault fault = expr_run(expr->code, slots, &value);
    if (fault != FAULT_NONE) {
        return fail_eval(expr, slots, fault_text(fault), err);
    }
    *value_out = value;
    return GK_OK;
}

enum gk_status gk_expr_eval_int(const struct gk_expr *expr, const union gk_value *slots,
                                int64_t *value_out, struct gk_err *err)
{
    if (gk_expr_type(expr) != GK_VALUE_INT) {
        return fail_eval(expr, slots, "a real number where an integer is needed", err);
    }
    union gk_value value;
    enum gk_status status = gk_expr_eval(expr, slots, &value, err);
    if (status == GK_OK) {
        *value_out = value.i;
    }
    return status;
}

enum gk_status gk_expr_eval_real(const struct gk_expr *expr, const union gk_value *slots,
                                 double *value_out, struct gk_err *err)
{
    union gk_value value;
    enum gk_status status = gk_expr_eval(expr, slots, &value, err);
    if (status == GK_OK) {
        *value_out = gk_expr_type(expr) == GK_VALUE_INT ? (double)value.i : value.r;
    }
    return status;
}
