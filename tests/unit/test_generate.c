/* Inputs: the quantile table against the distribution function, generators by their moments and
 * bounds. */
#include "worker/generate.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "worker/numeric.h"

static void quantiles(void **state)
{
    const float *table = gk_normal_quantiles();
    (void)state;
    for (int i = 0; i < GK_QUANTILES; i++) {
        double p = (i + 0.5) / GK_QUANTILES;
        double got = p < 0.5 ? 0.5 * erfc(-(double)table[i] * M_SQRT1_2)
                             : 1 - 0.5 * erfc((double)table[i] * M_SQRT1_2);
        /* Rounding to float moves the argument by 2^-24 of itself. */
        double slack = exp(-0.5 * (double)table[i] * (double)table[i]) * 0.4 *
                           (fabs((double)table[i]) * 0x1p-23 + 1e-30) +
                       1e-14;
        if (fabs(got - p) > slack) {
            fail_msg("quantile %d: %.9g gives %.15g, want %.15g", i, (double)table[i], got, p);
        }
        assert_true(i == 0 || table[i] > table[i - 1]);
        assert_true(table[i] == -table[GK_QUANTILES - 1 - i]);
    }
}

/* A plan made by hand: one tensor of 100 rows of 50 in rows of 64, behind an offset of 8. */
static void make_plan(struct gk_plan *plan, struct gk_tensor *tensor, struct gk_op *op,
                      enum gk_dtype dtype, enum gk_generator_kind kind)
{
    memset(plan, 0, sizeof *plan);
    memset(tensor, 0, sizeof *tensor);
    memset(op, 0, sizeof *op);
    (void)snprintf(tensor->name, sizeof tensor->name, "A");
    tensor->gen.kind = kind;
    tensor->gen.series_field = -1;
    tensor->rows_owner = tensor->rows_pages = -1;
    op->tensor_count = 1;
    plan->op = op;
    plan->tensors[0] = (struct gk_plan_tensor){.def = tensor,
                                               .present = true,
                                               .dtype = dtype,
                                               .rank = 2,
                                               .extents = {100, 50},
                                               .strides = {64, 1},
                                               .offset = 8,
                                               .span = 8 + 99 * 64 + 50,
                                               .elements = 5000,
                                               .align = 16};
}

/* The same on the heap, with a scope of no names for the expressions of a generator. */
struct made {
    struct gk_plan plan;
    struct gk_tensor tensor;
    struct gk_op op;
    struct gk_scope *scope;
};

static struct made *make(enum gk_dtype dtype, enum gk_generator_kind kind)
{
    struct made *made = calloc(1, sizeof *made);
    assert_non_null(made);
    make_plan(&made->plan, &made->tensor, &made->op, dtype, kind);
    made->scope = gk_scope_create();
    assert_non_null(made->scope);
    return made;
}

static void set_expr(const struct made *made, struct gk_expr **expr, const char *text)
{
    struct gk_err err = {0};
    gk_expr_destroy(*expr);
    *expr = NULL;
    assert_int_equal(gk_expr_compile(text, made->scope, expr, &err), GK_OK);
}

static void unmake(struct made *made)
{
    struct gk_generator *gen = &made->tensor.gen;
    for (size_t i = 0; i < GK_ARRAY_COUNT(gen->args); i++) {
        gk_expr_destroy(gen->args[i]);
    }
    gk_expr_destroy(gen->round);
    gk_expr_destroy(gen->spike.size);
    gk_expr_destroy(gen->spike.share);
    gk_expr_destroy(gen->spike.columns);
    gk_scope_destroy(made->scope);
    free(made);
}

static void generated(enum gk_dtype dtype, enum gk_generator_kind kind, uint64_t seed,
                      unsigned char *bytes)
{
    struct made *made = make(dtype, kind);
    struct gk_err err = {0};
    assert_int_equal(gk_generate(&made->plan, 0, seed, false, bytes, &err), GK_OK);
    unmake(made);
}

static void normal_values(void **state)
{
    float values[8 + 99 * 64 + 50], again[8 + 99 * 64 + 50];
    double sum = 0, squares = 0;
    int64_t nans = 0;
    (void)state;
    generated(GK_F32, GK_GEN_NORMAL, 5, (unsigned char *)values);
    generated(GK_F32, GK_GEN_NORMAL, 5, (unsigned char *)again);
    assert_memory_equal(values, again, sizeof values);
    generated(GK_F32, GK_GEN_NORMAL, 6, (unsigned char *)again);
    assert_memory_not_equal(values, again, sizeof values);
    for (size_t i = 0; i < GK_ARRAY_COUNT(values); i++) {
        bool inside = i >= 8 && (i - 8) % 64 < 50;
        assert_true(isnan(values[i]) == !inside); /* padding is NaN, elements are not */
        nans += isnan(values[i]) ? 1 : 0;
        sum += inside ? (double)values[i] : 0;
        squares += inside ? (double)values[i] * (double)values[i] : 0;
    }
    assert_int_equal(nans, 8 + 99 * 14);
    assert_true(fabs(sum / 5000) < 0.06 && fabs(squares / 5000 - 1) < 0.1);
}

static void ternary_values(void **state)
{
    uint16_t values[8 + 99 * 64 + 50];
    int counts[3] = {0};
    (void)state;
    generated(GK_BF16, GK_GEN_TERNARY, 1, (unsigned char *)values);
    for (size_t i = 8; i < GK_ARRAY_COUNT(values); i++) {
        if ((i - 8) % 64 < 50) {
            double value = gk_element_load(GK_BF16, &values[i]);
            assert_true(value == -1 || value == 0 || value == 1);
            counts[(int)value + 1]++;
        }
    }
    for (int i = 0; i < 3; i++) {
        assert_true(counts[i] > 1500 && counts[i] < 1850); /* a third each */
    }
}

/* Arguments of a generator: a twentieth of the elements, each 128 or -128. */
static void ternary_of_scale(void **state)
{
    static const char *const TEXTS[] = {"0.075", "128.0"};
    struct made *made = make(GK_F32, GK_GEN_TERNARY);
    float values[8 + 99 * 64 + 50];
    struct gk_err err = {0};
    int counts[2] = {0};
    (void)state;
    for (int i = 0; i < 2; i++) {
        set_expr(made, &made->tensor.gen.args[i], TEXTS[i]);
    }
    assert_int_equal(gk_generate(&made->plan, 0, 1, false, (unsigned char *)values, &err), GK_OK);
    for (size_t i = 8; i < GK_ARRAY_COUNT(values); i++) {
        if ((i - 8) % 64 < 50 && values[i] != 0) {
            assert_true(values[i] == 128 || values[i] == -128);
            counts[values[i] > 0]++;
        }
    }
    assert_true(counts[0] > 80 && counts[0] < 170 && counts[1] > 80 && counts[1] < 170);
    unmake(made);
}

/* Of labels in a large vocabulary: each set's first ones are the last class, the first one and one
 * that is ignored, beginning with another of them, so that even one row meets each in some set. */
static void class_edges(void **state)
{
    static const char *const TEXTS[] = {"100000.0", "-100.0", "0.1"};
    struct made *made = make(GK_I64, GK_GEN_CLASS_INDEX);
    int64_t labels[8 + 99 * 64 + 50];
    struct gk_err err = {0};
    uint32_t first = 0;
    (void)state;
    for (int i = 0; i < 3; i++) {
        set_expr(made, &made->tensor.gen.args[i], TEXTS[i]);
    }
    for (uint32_t set = 0; set < GK_INPUT_SETS; set++) {
        uint32_t met = 0;
        assert_int_equal(gk_generate(&made->plan, 0, gk_input_seed(set, GK_INPUTS_DRAWN),
                                     GK_INPUTS_DRAWN, (unsigned char *)labels, &err),
                         GK_OK);
        for (uint32_t i = 0; i < GK_CLASS_EDGES; i++) {
            int64_t label = labels[8 + i];
            uint32_t edge = label == 99999 ? 1 : label == 0 ? 2 : label == -100 ? 4 : 0;
            met |= edge;
            first |= i == 0 ? edge : 0;
            assert_true(label == -100 || (label >= 0 && label < 100000));
        }
        assert_int_equal(met, 7);
    }
    assert_int_equal(first, 7);
    unmake(made);
}

/* Rungs with inputs of their own have generators of their own: with the wrong one sums would not be
 * exact, or inputs not extreme. */
static void rungs_have_their_own(void **state)
{
    struct made *made = make(GK_F32, GK_GEN_NORMAL);
    float values[8 + 99 * 64 + 50];
    struct gk_err err = {0};
    (void)state;
    made->tensor.exact.kind = GK_GEN_TERNARY;
    made->tensor.extreme.kind = GK_GEN_CONSTANT;
    made->tensor.exact.series_field = made->tensor.extreme.series_field = -1;
    for (int kind = GK_INPUTS_DRAWN; kind <= GK_INPUTS_EXTREME; kind++) {
        int whole = 0, ones = 0;
        assert_int_equal(
            gk_generate(&made->plan, 0, 1, (enum gk_input_kind)kind, (unsigned char *)values, &err),
            GK_OK);
        for (size_t i = 8; i < GK_ARRAY_COUNT(values); i++) {
            bool inside = (i - 8) % 64 < 50;
            whole += inside && (values[i] == -1 || values[i] == 0 || values[i] == 1) ? 1 : 0;
            ones += inside && values[i] == 1 ? 1 : 0;
        }
        assert_int_equal(whole, kind == GK_INPUTS_DRAWN ? 0 : 5000);
        assert_true((ones == 5000) == (kind == GK_INPUTS_EXTREME));
        assert_true(gk_input_seed(2, GK_INPUTS_EXACT) != gk_input_seed(2, GK_INPUTS_EXTREME));
    }
    unmake(made);
}

/* A row in five has a spike, in one of five columns, and so have the first and the last row; what
 * is no spike is a multiple of a half. */
static void spikes_and_rounding(void **state)
{
    struct made *made = make(GK_F32, GK_GEN_NORMAL);
    float values[8 + 99 * 64 + 50];
    struct gk_err err = {0};
    int spiked = 0, signs[2] = {0}, edges[2] = {0};
    (void)state;
    set_expr(made, &made->tensor.gen.round, "0.5");
    set_expr(made, &made->tensor.gen.spike.size, "99.0");
    set_expr(made, &made->tensor.gen.spike.share, "0.2");
    set_expr(made, &made->tensor.gen.spike.columns, "5");
    assert_int_equal(gk_generate(&made->plan, 0, 3, GK_INPUTS_DRAWN, (unsigned char *)values, &err),
                     GK_OK);
    for (int row = 0; row < 100; row++) {
        int here = 0;
        for (int column = 0; column < 50; column++) {
            const float value = values[8 + row * 64 + column];
            const bool spike = fabsf(value) == 99.0F;
            here += spike ? 1 : 0;
            signs[value > 0] += spike ? 1 : 0;
            edges[0] += spike && column == 0 ? 1 : 0;
            edges[1] += spike && column == 40 ? 1 : 0;
            assert_true(!spike || column % 10 == 0);
            assert_true(2 * value == rintf(2 * value));
        }
        assert_true(here <= 1 && ((row != 0 && row != 99) || here == 1));
        spiked += here;
    }
    assert_true(spiked > 10 && spiked < 40 && signs[0] > 3 && signs[1] > 3);
    assert_true(edges[0] > 2 && edges[1] > 2);
    unmake(made);
}

/* Spikes that cannot be are told with the tensor and what is allowed. */
static void impossible_spikes(void **state)
{
    static const struct {
        const char *share, *columns, *want;
    } CASES[] = {{"1.5", "5", "tensor A: generator: spike: share is 1.5; 0 to 1 is allowed"},
                 {"1.0", "0", "tensor A: generator: spike: columns is 0; 1 to 50 is allowed"},
                 {"1.0", "51", "tensor A: generator: spike: columns is 51; 1 to 50 is allowed"}};
    struct made *made = make(GK_F32, GK_GEN_NORMAL);
    (void)state;
    struct gk_spike *spike = &made->tensor.gen.spike;
    for (size_t i = 0; i < GK_ARRAY_COUNT(CASES); i++) {
        struct gk_generator_use use;
        struct gk_err err = {0};
        set_expr(made, &spike->size, "99.0");
        set_expr(made, &spike->share, CASES[i].share);
        set_expr(made, &spike->columns, CASES[i].columns);
        assert_int_equal(gk_generator_resolve(&made->plan, 0, GK_INPUTS_DRAWN, &use, &err),
                         GK_RANGE);
        assert_string_equal(err.text, CASES[i].want);
    }
    unmake(made);
}

static void places(void **state)
{
    struct gk_plan_tensor tensor = {
        .rank = 3, .extents = {2, 3, 4}, .strides = {100, 10, 2}, .offset = 7};
    char text[64];
    (void)state;
    assert_int_equal(gk_tensor_position(&tensor, 0), 7);
    assert_int_equal(gk_tensor_position(&tensor, 23), 7 + 100 + 20 + 6);
    gk_tensor_coordinates(&tensor, 23, text, sizeof text);
    assert_string_equal(text, "[1, 2, 3]");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(quantiles),
                                       cmocka_unit_test(normal_values),
                                       cmocka_unit_test(ternary_values),
                                       cmocka_unit_test(ternary_of_scale),
                                       cmocka_unit_test(rungs_have_their_own),
                                       cmocka_unit_test(class_edges),
                                       cmocka_unit_test(spikes_and_rounding),
                                       cmocka_unit_test(impossible_spikes),
                                       cmocka_unit_test(places)};
    struct gk_err err = {0};
    return gk_hash_setup(&err) == GK_OK ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
}
