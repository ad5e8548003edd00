/*
 * gemm_mma on the emulated device against sums in C doubles.
 *
 * Inputs are multiples of 1/64 of at most 2: exact in bf16 and f16, products are multiples of
 * 2^-12, and sums of the lengths here stay below 2^12, so fp32 holds every partial sum of every
 * order exactly. Without an activation the output must therefore equal the double result rounded
 * once, bit for bit; any lost, doubled or misplaced element shows. Padding between rows is NaN in
 * inputs and must be untouched in C. The built-in reference is checked in the same runs.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>

#include "core/prng.h"
#include "search/space.h"
#include "tests/support/check.h"
#include "tests/unit/nvrtc_for_tests.h"
#include "tests/unit/plan_run.h"

#define FILL 0xff           /* NaN in bf16, f16 and f32 */
#ifdef __SANITIZE_ADDRESS__ /* four times as slow, and finds what one finds */
#define SAMPLED_CONFIGS 1
#else
#define SAMPLED_CONFIGS 4
#endif
#define ACT_NONE       0
#define ACT_GELU       1
#define ACT_SILU       2
#define ACT_SILU_GATE  3
#define SCALE_BLOCK128 2

static struct gk_catalog *catalog;
static const struct gk_op *op;
static struct gk_device_props dev;

static int setup(void **state)
{
    (void)state;
    struct gk_diag diag;
    struct gk_err err = {0};
    gk_diag_init(&diag);
    if (gk_hash_setup(&err) != GK_OK || gk_device_props_builtin("emu:sm_80", &dev, &err) != GK_OK) {
        print_error("%s\n", err.text);
        return -1;
    }
    enum gk_status status = gk_catalog_load_for(GK_SOURCE_DIR "/kernels", "gemm", &catalog, &diag);
    if (status != GK_OK) {
        (void)gk_diag_status(&diag, &err);
        print_error("%s\n", err.text);
    }
    gk_diag_fini(&diag);
    op = status == GK_OK ? gk_catalog_find(catalog, "gemm") : NULL;
    return op ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    gk_catalog_destroy(catalog);
    return 0;
}

/* ------------------------------------------------------------------ numbers, by the definition */

static float float_of_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static double load_number(const unsigned char *at, enum gk_dtype dtype)
{
    uint16_t half;
    float full;
    if (dtype == GK_E4M3) {
        int code = *at & 127;
        double size = code == 127 ? NAN
                      : code < 8  ? ldexp(code, -9)
                                  : ldexp(8 + code % 8, code / 8 - 10);
        return *at & 128 ? -size : size;
    }
    memcpy(&half, at, sizeof half);
    if (dtype == GK_BF16) {
        return (double)float_of_bits((uint32_t)half << 16);
    }
    if (dtype == GK_F32) {
        memcpy(&full, at, sizeof full);
        return (double)full;
    }
    int exponent = half >> 10 & 31;
    double fraction = half & 1023;
    double size = exponent == 31  ? NAN
                  : exponent == 0 ? ldexp(fraction, -24)
                                  : ldexp(1024 + fraction, exponent - 25);
    return half & 0x8000 ? -size : size;
}

/* Only for numbers that the type holds. */
static void store_number(unsigned char *at, enum gk_dtype dtype, double x)
{
    float full = (float)x;
    uint32_t bits;
    memcpy(&bits, &full, sizeof bits);
    uint16_t half = (uint16_t)(bits >> 16);
    if (dtype == GK_F32) {
        memcpy(at, &full, sizeof full);
        return;
    }
    if (dtype == GK_F16) {
        uint16_t sign = (uint16_t)(half & 0x8000);
        half = full == 0 ? sign : (uint16_t)(sign | (((bits >> 13) & 0x3ffff) - (112u << 10)));
    }
    memcpy(at, &half, sizeof half);
}

/* x rounded to the nearest number of the type, ties to even; the sizes here are far from its
 * limits. */
static double round_to(enum gk_dtype dtype, double x)
{
    int digits = dtype == GK_BF16 ? 8 : dtype == GK_F16 ? 11 : 24;
    int least = dtype == GK_F16 ? -24 : -133;
    int exponent;
    if (x == 0) {
        return x;
    }
    (void)frexp(x, &exponent);
    int last = exponent - digits > least ? exponent - digits : least;
    return ldexp(nearbyint(ldexp(x, -last)), last);
}

/* ------------------------------------------------------------------ problems */

static int64_t field(const struct gk_problem *problem, const char *name)
{
    return problem->slots[gk_scope_find(op->fields.scope, name)->slot].i;
}

static double real_field(const struct gk_problem *problem, const char *name)
{
    return problem->slots[gk_scope_find(op->fields.scope, name)->slot].r;
}

static uint32_t tensor_index(const char *name)
{
    for (uint32_t i = 0; i < op->tensor_count; i++) {
        if (strcmp(op->tensors[i].name, name) == 0) {
            return i;
        }
    }
    fail_msg("no tensor %s", name);
    return 0;
}

struct view {
    const struct gk_plan_tensor *tensor;
    unsigned char *bytes;
};

static struct view view_of(const struct gk_plan *plan, const struct plan_run *run, const char *name)
{
    uint32_t i = tensor_index(name);
    return (struct view){plan->tensors[i].present ? &plan->tensors[i] : NULL, run->host[i]};
}

static unsigned char *place(struct view view, int64_t batch, int64_t row, int64_t col)
{
    const int64_t *s = view.tensor->strides;
    int64_t element = view.tensor->offset + batch * s[0] + row * s[1] + col * s[2];
    return view.bytes + (size_t)element * gk_dtype_bytes(view.tensor->dtype);
}

static double at(struct view view, int64_t batch, int64_t row, int64_t col)
{
    return load_number(place(view, batch, row, col), view.tensor->dtype);
}

static void fill_inputs(const struct gk_plan *plan, struct plan_run *run, uint64_t seed)
{
    struct gk_prng prng;
    for (uint32_t i = 0; i < op->tensor_count; i++) {
        const struct gk_plan_tensor *t = &plan->tensors[i];
        if (!t->present || t->def->role != GK_TENSOR_IN) {
            continue;
        }
        gk_prng_init(&prng, seed, i);
        int64_t batches = t->rank == 3 ? t->extents[0] : 1;
        int64_t rows = t->extents[t->rank - 2], cols = t->extents[t->rank - 1];
        for (int64_t e = 0; e < batches * rows * cols; e++) {
            int64_t element = t->offset + e % cols * t->strides[t->rank - 1] +
                              e / cols % rows * t->strides[t->rank - 2] +
                              (t->rank == 3 ? e / cols / rows * t->strides[0] : 0);
            double x = ((double)gk_prng_below(&prng, 257) - 128) / 64;
            if (t->dtype == GK_E4M3) { /* any code but the two NaN */
                unsigned code = (unsigned)gk_prng_below(&prng, 254);
                run->host[i][element] = (unsigned char)(code < 127 ? code : code + 1);
                continue;
            }
            store_number(run->host[i] + (size_t)element * gk_dtype_bytes(t->dtype), t->dtype, x);
        }
    }
}

/* Factor of the product at k that the scale tensors give. */
static double scale_of(struct view a, struct view b, bool blocks, int64_t batch, int64_t matrix,
                       int64_t m, int64_t n, int64_t k)
{
    return !a.tensor ? 1
           : blocks  ? at(a, batch, m, k / 128) * at(b, matrix, n / 128, k / 128)
                     : at(a, batch, 0, 0) * at(b, matrix, 0, 0);
}

/* alpha A B + bias at one column of the product, before beta and activation. What is looked up by
 * its name is looked up ahead of the loop: inside, lookups took a tenth of the sanitized test. */
static void product_at(const struct gk_problem *problem, const struct gk_plan *plan,
                       const struct plan_run *run, int64_t batch, int64_t m, int64_t n,
                       double pair[2])
{
    struct view a = view_of(plan, run, "A"), b = view_of(plan, run, "B");
    struct view a_scale = view_of(plan, run, "A_scale"), b_scale = view_of(plan, run, "B_scale");
    struct view bias = view_of(plan, run, "bias_row");
    bool a_along_k = field(problem, "a_along_k"), b_along_k = field(problem, "b_along_k");
    bool blocks = field(problem, "scale") == SCALE_BLOCK128;
    double alpha = real_field(problem, "alpha");
    int64_t groups = field(problem, "groups"), group = m / (field(problem, "M") / groups);
    int64_t matrix = batch * groups + group, depth = field(problem, "K");
    pair[0] = pair[1] = 0;
    for (int64_t k = 0; k < depth; k++) {
        double x = a_along_k ? at(a, batch, m, k) : at(a, batch, k, m);
        double y = b_along_k ? at(b, matrix, n, k) : at(b, matrix, k, n);
        double term = alpha * x * y * scale_of(a_scale, b_scale, blocks, batch, matrix, m, n, k);
        pair[0] += term;
        pair[1] += fabs(term);
    }
    if (bias.tensor) {
        int64_t element = group * field(problem, "N") + n;
        double x = load_number(bias.bytes + (size_t)element * gk_dtype_bytes(bias.tensor->dtype),
                               bias.tensor->dtype);
        pair[0] += x;
        pair[1] += fabs(x);
    }
}

/* Value and magnitude of one element by the formula. */
static void expected(const struct gk_problem *problem, const struct gk_plan *plan,
                     const struct plan_run *run, int64_t batch, int64_t m, int64_t n,
                     double pair[2])
{
    struct view c_in = view_of(plan, run, "C_in");
    int64_t act = field(problem, "act");
    double other[2];
    product_at(problem, plan, run, batch, m, n, pair);
    if (c_in.tensor) {
        double x = real_field(problem, "beta") * at(c_in, batch, m, n);
        pair[0] += x;
        pair[1] += fabs(x);
    }
    double sum = pair[0], silu = sum / (1 + exp(-sum));
    if (act == ACT_GELU) {
        pair[0] = 0.5 * sum * erfc(-sum / sqrt(2.0));
        pair[1] *= 1.13;
    } else if (act == ACT_SILU) {
        pair[0] = silu;
        pair[1] *= 1.10;
    } else if (act == ACT_SILU_GATE) {
        product_at(problem, plan, run, batch, m, n + field(problem, "n_out"), other);
        pair[0] = silu * other[0];
        pair[1] = 1.10 * pair[1] * fabs(other[0]) + fabs(silu) * other[1];
    }
}

static void check_output(const struct gk_problem *problem, const struct gk_plan *plan,
                         const struct plan_run *run, const double *pairs, const char *what)
{
    uint32_t index = tensor_index("C");
    const struct gk_plan_tensor *t = &plan->tensors[index];
    struct view c = view_of(plan, run, "C");
    double slack = 0, norm = 0, unit = gk_dtype_roundoff(t->dtype);
    struct gk_err err;
    assert_ok(gk_plan_tolerance(plan, index, &slack, &norm, &err), err);
    int64_t rows = t->extents[1], cols = t->extents[2], element = 0;
    for (int64_t e = 0; e < t->elements; e++) {
        int64_t col = e % cols, row = e / cols % rows, batch = e / cols / rows;
        const double *want = &pairs[2 * e];
        double got = at(c, batch, row, col);
        bool good = field(problem, "act") == ACT_NONE
                        ? got == round_to(t->dtype, want[0])
                        : fabs(got - want[0]) <= unit * fabs(want[0]) + slack * want[1] + 3e-8;
        if (!good) {
            fail_msg("%s: C[%lld, %lld, %lld] is %.9g, wanted %.9g", what, (long long)batch,
                     (long long)row, (long long)col, got, want[0]);
        }
        memset(place(c, batch, row, col), FILL, gk_dtype_bytes(t->dtype));
    }
    for (size_t size = plan_run_bytes(plan, index); (size_t)element < size; element++) {
        if (c.bytes[element] != FILL) {
            fail_msg("%s: padding of C was written, byte %lld", what, (long long)element);
        }
    }
}

/* One problem: the definition in doubles once, the built-in reference against it, and any number of
 * configs. */
struct bench {
    struct gk_problem problem;
    struct gk_space_def def;
    double *pairs;
    int64_t elements;
};

static void bench_init(struct bench *bench, const char *text)
{
    struct gk_err err;
    *bench = (struct bench){0};
    assert_ok(gk_problem_from_text(&op->fields, text, &bench->problem, &err), err);
    assert_ok(gk_catalog_space(op, &bench->problem, &dev, &bench->def, &err), err);
}

static void bench_fini(struct bench *bench)
{
    free(bench->pairs);
    gk_space_def_fini(&bench->def);
    gk_problem_fini(&bench->problem);
}

static void make_pairs(struct bench *bench, const struct gk_plan *plan, struct plan_run *run,
                       const char *what)
{
    uint32_t index = tensor_index("C");
    const struct gk_plan_tensor *t = &plan->tensors[index];
    struct gk_plan reference;
    struct gk_err err;
    bench->elements = t->elements;
    bench->pairs = calloc((size_t)t->elements * 2, sizeof(double));
    double *claimed = calloc((size_t)t->elements * 2, sizeof(double));
    assert_non_null(bench->pairs);
    assert_non_null(claimed);
    assert_ok(gk_plan_reference(op, &bench->problem, &dev, &reference, &err), err);
    plan_run_reference(run, &reference, index, claimed, what);
    for (int64_t e = 0; e < t->elements; e++) {
        int64_t col = e % t->extents[2], rest = e / t->extents[2];
        double *want = &bench->pairs[2 * e], *got = &claimed[2 * e];
        expected(&bench->problem, plan, run, rest / t->extents[1], rest % t->extents[1], col, want);
        for (int i = 0; i < 2; i++) {
            if (!(fabs(got[i] - want[i]) <= 1e-12 * want[1])) {
                fail_msg("%s: the reference's element %lld has %.17g at %d, wanted %.17g", what,
                         (long long)e, got[i], i, want[i]);
            }
        }
    }
    gk_plan_fini(&reference);
    free(claimed);
}

static const struct gk_template *template_of(const struct gk_config *config)
{
    for (uint32_t i = 0; i < op->template_count; i++) {
        if (strcmp(op->templates[i].name, config->template_name) == 0) {
            return &op->templates[i];
        }
    }
    fail_msg("no template %s", config->template_name);
    return NULL;
}

static void run_config(struct bench *bench, const struct gk_config *config, uint32_t tree,
                       enum gk_emu_schedule schedule)
{
    struct gk_emu_options options = {.target = "sm_80", .schedule = schedule};
    struct gk_emu *emu = NULL;
    struct gk_plan plan;
    struct plan_run run;
    struct gk_err err;
    char what[600];
    char *shown = gk_config_text(&bench->def.trees[tree], config);
    (void)snprintf(what, sizeof what, "%s %s", bench->problem.canonical, shown); /* cut is fine */
    free(shown);
    if (gk_plan_render(op, template_of(config), &bench->problem, config, &dev, &plan, &err) !=
        GK_OK) {
        fail_msg("%s: %s", what, err.text);
    }
    assert_ok(gk_emu_create(&options, &emu, &err), err);
    plan_run_init(&run, emu, catalog, &plan, FILL);
    fill_inputs(&plan, &run, 7);
    plan_run_launches(&run, &plan, what);
    if (!bench->pairs) {
        make_pairs(bench, &plan, &run, what);
    }
    check_output(&bench->problem, &plan, &run, bench->pairs, what);
    plan_run_fini(&run);
    gk_emu_destroy(emu);
    gk_plan_fini(&plan);
}

/* ------------------------------------------------------------------ tests */

/* Every layout, type, alignment class and epilogue; the default and a seeded sample of the space
 * each. */
static const char *const PROBLEMS[] = {
    "gemm{\"K\":64,\"M\":64,\"N\":64}",
    "gemm{\"K\":96,\"M\":80,\"N\":72,\"trans\":\"NN\"}",
    "gemm{\"K\":72,\"M\":136,\"N\":88,\"trans\":\"TN\"}",
    "gemm{\"K\":80,\"M\":72,\"N\":200,\"trans\":\"TT\"}",
    "gemm{\"K\":104,\"M\":96,\"N\":96,\"dtype\":\"f16\"}",
    "gemm{\"K\":64,\"M\":40,\"N\":136,\"dtype\":\"f16\",\"dtype_out\":\"f32\",\"trans\":\"TN\"}",
    "gemm{\"K\":52,\"M\":60,\"N\":36,\"trans\":\"NN\"}",
    "gemm{\"K\":66,\"M\":34,\"N\":130,\"trans\":\"TT\"}",
    "gemm{\"K\":33,\"M\":37,\"N\":41}",
    "gemm{\"K\":33,\"M\":37,\"N\":41,\"dtype\":\"f16\",\"dtype_out\":\"f32\",\"trans\":\"TT\"}",
    "gemm{\"K\":35,\"M\":65,\"N\":19,\"lda\":72,\"ldb\":40,\"ldc\":24,\"trans\":\"TN\"}",
    "gemm{\"K\":48,\"M\":33,\"N\":47,\"ldc\":48}",
    "gemm{\"K\":64,\"M\":48,\"N\":64,\"align\":4}",
    "gemm{\"K\":64,\"M\":48,\"N\":64,\"align\":2,\"dtype_out\":\"f32\"}",
    "gemm{\"K\":1,\"M\":1,\"N\":1}",
    "gemm{\"K\":16,\"M\":129,\"N\":16}",
    "gemm{\"K\":520,\"M\":16,\"N\":64}",
    "gemm{\"K\":264,\"M\":5,\"N\":30,\"beta\":-0.5,\"bias\":true,\"dtype\":\"f16\"}",
    "gemm{\"K\":40,\"M\":50,\"N\":56,\"alpha\":0.5,\"batch\":3,\"beta\":2,\"bias\":true}",
    "gemm{\"K\":40,\"M\":50,\"N\":55,\"batch\":2,\"beta\":1,\"dtype_out\":\"f32\",\"ldc\":60,"
    "\"trans\":\"NN\"}",
    "gemm{\"K\":64,\"M\":48,\"N\":64,\"act\":\"gelu\",\"bias\":true}",
    "gemm{\"K\":200,\"M\":24,\"N\":40,\"act\":\"silu\",\"alpha\":0.125,\"beta\":1,"
    "\"dtype_out\":\"f32\"}",
};

static void sampled_configs(void **state)
{
    uint32_t index = (uint32_t)(uintptr_t)*state;
    const char *text = getenv("GKTUNE_TEST_SEED"), *more = getenv("GKTUNE_TEST_CONFIGS");
    uint64_t seed = text ? strtoull(text, NULL, 10) : 1;
    uint64_t configs = more ? strtoull(more, NULL, 10) : SAMPLED_CONFIGS;
    struct bench bench;
    struct gk_space *space = NULL;
    struct gk_config config;
    struct gk_prng prng;
    struct gk_err err;
    uint32_t tree = 0;
    if (!nvrtc_for_tests_available()) {
        skip();
    }
    bench_init(&bench, PROBLEMS[index]);
    assert_ok(gk_space_create(&bench.def, &space, &err), err);
    assert_ok(gk_catalog_default(op, &bench.problem, &bench.def, &config, &tree, &err), err);
    run_config(&bench, &config, tree, GK_EMU_LATE);
    gk_prng_init(&prng, seed, index);
    for (uint64_t i = 0; i < configs; i++) {
        uint32_t chosen = (uint32_t)gk_prng_below(&prng, gk_space_count(space));
        gk_space_config(space, chosen, &config);
        run_config(&bench, &config, (uint32_t)gk_space_tree_of(space, chosen),
                   i % 2 ? GK_EMU_EARLY : GK_EMU_LATE);
    }
    gk_space_destroy(space);
    bench_fini(&bench);
}

/* What no template computes yet, the reference does. */
static void reference_alone(void **state)
{
    static const char *const TEXTS[] = {
        "gemm{\"K\":70,\"M\":20,\"N\":24,\"act\":\"silu_gate\",\"bias\":true}",
        "gemm{\"K\":40,\"M\":24,\"N\":18,\"batch\":2,\"bias\":true,\"groups\":3,\"trans\":\"NN\"}",
        "gemm{\"K\":64,\"M\":17,\"N\":33,\"dtype\":\"e4m3\"}",
        "gemm{\"K\":64,\"M\":16,\"N\":19,\"batch\":2,\"dtype\":\"e4m3\",\"groups\":2,"
        "\"scale\":\"tensor\"}",
        "gemm{\"K\":300,\"M\":9,\"N\":140,\"batch\":2,\"dtype\":\"e4m3\",\"dtype_out\":\"f32\","
        "\"scale\":\"block128\"}",
    };
    (void)state;
    if (!nvrtc_for_tests_available()) {
        skip();
    }
    for (size_t i = 0; i < GK_ARRAY_COUNT(TEXTS); i++) {
        struct gk_emu_options options = {.target = "sm_80"};
        struct bench bench = {0};
        struct gk_emu *emu = NULL;
        struct gk_plan plan;
        struct plan_run run;
        struct gk_err err;
        assert_ok(gk_problem_from_text(&op->fields, TEXTS[i], &bench.problem, &err), err);
        assert_ok(gk_plan_reference(op, &bench.problem, &dev, &plan, &err), err);
        assert_ok(gk_emu_create(&options, &emu, &err), err);
        plan_run_init(&run, emu, catalog, &plan, FILL);
        fill_inputs(&plan, &run, i);
        plan_run_upload(&run, &plan);
        make_pairs(&bench, &plan, &run, TEXTS[i]);
        plan_run_fini(&run);
        gk_emu_destroy(emu);
        gk_plan_fini(&plan);
        bench_fini(&bench);
    }
}

/* What the problem's fields may ask for and this template cannot do is refused by a name. */
static void refusals_are_named(void **state)
{
    static const struct {
        const char *text, *name;
    } CASES[] = {
        {"gemm{\"K\":64,\"M\":64,\"N\":64,\"dtype\":\"e4m3\"}", "dtype_16_bit"},
        {"gemm{\"K\":64,\"M\":64,\"N\":64,\"accum\":\"fast\"}", "accum_full"},
        {"gemm{\"K\":64,\"M\":64,\"N\":64,\"scale\":\"tensor\"}", "scale_none"},
        {"gemm{\"K\":64,\"M\":64,\"N\":64,\"scale\":\"block128\"}", "scale_none"},
        {"gemm{\"K\":64,\"M\":64,\"N\":64,\"groups\":4}", "groups_one"},
        {"gemm{\"K\":64,\"M\":64,\"N\":64,\"act\":\"silu_gate\"}", "act_not_gated"},
        {"gemm{\"K\":64,\"M\":64,\"N\":64,\"align\":2,\"batch\":65536}", "batch_grid"},
    };
    (void)state;
    for (size_t i = 0; i < GK_ARRAY_COUNT(CASES); i++) {
        struct gk_problem problem;
        struct gk_err err;
        assert_ok(gk_problem_from_text(&op->fields, CASES[i].text, &problem, &err), err);
        assert_status(gk_catalog_serves(op, &problem, &err), GK_INPUT, err);
        assert_contains(err.text, CASES[i].name);
        gk_problem_fini(&problem);
    }
}

static void default_is_legal(const char *device, const struct gk_problem *problem)
{
    struct gk_device_props props;
    struct gk_space_def def;
    struct gk_config config;
    struct gk_err err;
    uint32_t tree = 0;
    assert_ok(gk_device_props_builtin(device, &props, &err), err);
    assert_ok(gk_catalog_space(op, problem, &props, &def, &err), err);
    if (gk_catalog_default(op, problem, &def, &config, &tree, &err) != GK_OK) {
        fail_msg("%s on %s: %s", problem->canonical, device, err.text);
    }
    gk_space_def_fini(&def);
}

/* Whatever is asked, there is something to ship untuned, on the smallest device too. */
static void every_problem_has_a_default(void **state)
{
    static const int SIZES[] = {1, 2, 16, 17, 31, 32, 33, 64, 65, 128, 129, 1000, 4096, 30000};
    static const char *const FLAGS[] = {"", ",\"trans\":\"NN\"", ",\"trans\":\"TN\"",
                                        ",\"dtype_out\":\"f32\",\"trans\":\"TT\""};
    (void)state;
    size_t count = GK_ARRAY_COUNT(SIZES);
    for (size_t i = 0; i < count * count * count; i++) {
        struct gk_problem problem;
        struct gk_err err;
        char text[200];
        (void)snprintf(text, sizeof text, "gemm{\"K\":%d,\"M\":%d,\"N\":%d%s}", SIZES[i % count],
                       SIZES[i / count % count], SIZES[i / count / count],
                       FLAGS[i % GK_ARRAY_COUNT(FLAGS)]); /* fits */
        assert_ok(gk_problem_from_text(&op->fields, text, &problem, &err), err);
        default_is_legal("emu:sm_86", &problem);
        default_is_legal("emu:sm_90a", &problem);
        gk_problem_fini(&problem);
    }
}

static void example_shapes_load(void **state)
{
    static const struct {
        const char *path;
        uint32_t problems;
    } FILES[] = {
        {GK_SOURCE_DIR "/examples/quickstart.json", 4},
        {GK_SOURCE_DIR "/examples/shapes/llama3_8b.json", 31},
        {GK_SOURCE_DIR "/examples/shapes/llama3_70b.json", 31},
        {GK_SOURCE_DIR "/examples/shapes/deepseek_v3.json", 35},
        {GK_SOURCE_DIR "/examples/shapes/deepseek_v3_other.json", 14},
        {GK_SOURCE_DIR "/examples/shapes/decode_gemm.json", 72},
        {GK_SOURCE_DIR "/examples/shapes/twelve.json", 12},
    };
    struct gk_op_lookup lookup = gk_catalog_lookup(catalog);
    (void)state;
    for (size_t i = 0; i < GK_ARRAY_COUNT(FILES); i++) {
        struct gk_shapes shapes;
        struct gk_diag diag;
        struct gk_err err;
        gk_diag_init(&diag);
        if (gk_shapes_load(FILES[i].path, "gemm", &lookup, &shapes, &diag) != GK_OK) {
            (void)gk_diag_status(&diag, &err); /* fills err; the failure is known */
            fail_msg("%s", err.text);
        }
        assert_int_equal(shapes.count, FILES[i].problems);
        for (uint32_t j = 0; j < shapes.count; j++) {
            default_is_legal("emu:sm_80", &shapes.problems[j]);
        }
        gk_shapes_fini(&shapes);
        gk_diag_fini(&diag);
    }
}

#define OTHER_TESTS 4

int main(void)
{
    struct CMUnitTest tests[GK_ARRAY_COUNT(PROBLEMS) + OTHER_TESTS] = {
        cmocka_unit_test(refusals_are_named),
        cmocka_unit_test(every_problem_has_a_default),
        cmocka_unit_test(example_shapes_load),
        cmocka_unit_test(reference_alone),
    };
    for (size_t i = 0; i < GK_ARRAY_COUNT(PROBLEMS); i++) {
        tests[i + OTHER_TESTS] = (struct CMUnitTest){.name = PROBLEMS[i],
                                                     .test_func = sampled_configs,
                                                     .initial_state = (void *)(uintptr_t)i};
    }
    return cmocka_run_group_tests(tests, setup, teardown);
}
