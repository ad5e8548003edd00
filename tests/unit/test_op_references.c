/*
 * The references of the fused ops against the same formulas in C doubles with the C library's
 * functions: what is right must not hang on one text. Inputs are those of a trial.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>

#include "core/prng.h"
#include "tests/unit/op_trial.h"
#include "worker/generate.h"
#include "worker/numeric.h"

static struct op_trial_rig rig;

/* One problem, its inputs and what the reference says of it. */
struct scene {
    const struct gk_op *op;
    struct gk_problem problem;
    struct gk_plan plan;
    const struct gk_reference *reference;
    const char *text;
};

static uint32_t tensor_of(const struct scene *s, const char *name)
{
    for (uint32_t i = 0; i < s->op->tensor_count; i++) {
        if (strcmp(s->op->tensors[i].name, name) == 0) {
            return i;
        }
    }
    fail_msg("%s: no tensor %s", s->text, name);
    return 0;
}

static bool has(const struct scene *s, const char *name)
{
    return s->plan.tensors[tensor_of(s, name)].present;
}

/* Element `at` in row-major order of the extents. */
static double in(const struct scene *s, const char *name, int64_t at)
{
    uint32_t i = tensor_of(s, name);
    const struct gk_plan_tensor *t = &s->plan.tensors[i];
    assert_true(t->present && at >= 0 && at < t->elements);
    return gk_element_load(t->dtype,
                           s->reference->inputs.tensors[i] +
                               (size_t)gk_tensor_position(t, at) * gk_dtype_bytes(t->dtype));
}

static int64_t whole(const struct scene *s, const char *field)
{
    return s->problem.slots[gk_scope_find(s->op->fields.scope, field)->slot].i;
}

static double real(const struct scene *s, const char *field)
{
    return s->problem.slots[gk_scope_find(s->op->fields.scope, field)->slot].r;
}

static double rounded(const struct scene *s, const char *tensor, double x)
{
    unsigned char bits[8];
    enum gk_dtype dtype = s->plan.tensors[tensor_of(s, tensor)].dtype;
    gk_element_store(dtype, bits, x);
    return gk_element_load(dtype, bits);
}

/* `size`: what rounding in double is measured against. */
static void expect(const struct scene *s, const char *name, int64_t at, double want, double size)
{
    const double *pair = s->reference->pairs[tensor_of(s, name)] + 2 * at;
    if (!(fabs(pair[0] - want) <= 1e-12 * (fabs(want) + size))) {
        fail_msg("%s: %s %lld is %.17g, wanted %.17g", s->text, name, (long long)at, pair[0], want);
    }
    if (!(pair[1] >= 0 && pair[1] * (1 + 1e-9) >= 0.4 * fabs(want) * (size > 0))) {
        fail_msg("%s: %s %lld has magnitude %g beside %g", s->text, name, (long long)at, pair[1],
                 want);
    }
}

/* ------------------------------------------------------------------ norms */

static double weight_of(const struct scene *s, int64_t col)
{
    int64_t kind = whole(s, "weight"); /* none, plain, one_plus */
    return kind == 0 ? 1.0 : in(s, "weight_row", col) + (kind == 2 ? 1.0 : 0.0);
}

static void rmsnorm(const struct scene *s)
{
    int64_t cols = whole(s, "cols");
    for (int64_t row = 0; row < whole(s, "rows"); row++) {
        double *h = calloc((size_t)cols, sizeof *h), squares = 0;
        assert_non_null(h);
        for (int64_t c = 0; c < cols; c++) {
            int64_t at = row * cols + c;
            h[c] = in(s, "x", at);
            if (has(s, "residual_in")) {
                double sum = h[c] + in(s, "residual_in", at);
                expect(s, "residual_out", at, sum, fabs(h[c]) + 1);
                h[c] = rounded(s, "x", sum);
            }
            squares += h[c] * h[c];
        }
        double root = sqrt(squares / (double)cols + real(s, "eps"));
        for (int64_t c = 0; c < cols; c++) {
            expect(s, "y", row * cols + c, h[c] / root * weight_of(s, c), 1);
        }
        free(h);
    }
}

static bool kept(const struct scene *s, int64_t element)
{
    uint64_t seed = (uint64_t)whole(s, "seed"), counter = (uint64_t)element / 8;
    const uint32_t words[4] = {(uint32_t)counter, (uint32_t)(counter >> 32), 0, 0};
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    uint32_t out[4];
    gk_philox(words, key, out);
    uint32_t half = out[element % 8 / 2] >> element % 2 * 16 & 0xffff;
    return (double)half >= floor(real(s, "drop") * 65536 + 0.5);
}

static void layernorm(const struct scene *s)
{
    int64_t cols = whole(s, "cols");
    for (int64_t row = 0; row < whole(s, "rows"); row++) {
        double *h = calloc((size_t)cols, sizeof *h), mean = 0, variance = 0;
        assert_non_null(h);
        for (int64_t c = 0; c < cols; c++) {
            int64_t at = row * cols + c;
            bool keep = !whole(s, "dropout") || kept(s, at);
            double scale = whole(s, "dropout") ? 1 / (1 - real(s, "drop")) : 1;
            h[c] = (keep ? in(s, "x", at) * scale : 0) + in(s, "residual_in", at);
            expect(s, "residual_out", at, h[c], 4);
            if (has(s, "mask_out")) {
                expect(s, "mask_out", at, keep, 1);
            }
            mean += h[c] / (double)cols;
        }
        for (int64_t c = 0; c < cols; c++) {
            variance += (h[c] - mean) * (h[c] - mean) / (double)cols;
        }
        for (int64_t c = 0; c < cols; c++) {
            double y = (h[c] - mean) / sqrt(variance + real(s, "eps"));
            expect(s, "y", row * cols + c, y * in(s, "weight_row", c) + in(s, "bias_row", c), 30);
        }
        free(h);
    }
}

/* ------------------------------------------------------------------ gated */

static void gated(const struct scene *s)
{
    int64_t cols = whole(s, "cols");
    bool is_gelu = strcmp(s->op->fields.op, "gelu_mul") == 0;
    for (int64_t at = 0; at < whole(s, "rows") * cols; at++) {
        int64_t row = at / cols, c = at % cols;
        bool packed = has(s, "x");
        double g = packed ? in(s, "x", row * 2 * cols + c) : in(s, "gate", at);
        double u = packed ? in(s, "x", row * 2 * cols + cols + c) : in(s, "up", at);
        double act = !is_gelu ? g / (1 + exp(-g))
                     : whole(s, "approx")
                         ? 0.5 * g * (1 + tanh(sqrt(2 / acos(-1.0)) * (g + 0.044715 * g * g * g)))
                         : 0.5 * g * erfc(-g / sqrt(2.0));
        expect(s, "out", at, act * u, fabs(u) * (1 + fabs(g)));
    }
}

static void swiglu(const struct scene *s)
{
    int64_t n = whole(s, "N"), depth = whole(s, "K");
    bool packed = has(s, "W");
    for (int64_t at = 0; at < whole(s, "M") * n; at++) {
        int64_t row = at / n, col = at % n;
        double g = 0, u = 0, sizes = 0;
        for (int64_t k = 0; k < depth; k++) {
            double x = in(s, "X", row * depth + k);
            double wg = in(s, packed ? "W" : "Wg", col * depth + k);
            double wu = in(s, packed ? "W" : "Wu", (packed ? n + col : col) * depth + k);
            g += x * wg;
            u += x * wu;
            sizes += fabs(x * wg) + fabs(x * wu);
        }
        expect(s, "out", at, g / (1 + exp(-g)) * u, sizes * sizes);
    }
}

/* ------------------------------------------------------------------ rows of logits */

static void softmax(const struct scene *s)
{
    int64_t cols = whole(s, "cols");
    for (int64_t row = 0; row < whole(s, "rows"); row++) {
        double most = -INFINITY, sum = 0, scale = real(s, "scale");
        for (int64_t c = 0; c < cols; c++) {
            most = fmax(most, in(s, "x", row * cols + c));
        }
        for (int64_t c = 0; c < cols; c++) {
            sum += exp(scale * (in(s, "x", row * cols + c) - most));
        }
        for (int64_t c = 0; c < cols; c++) {
            int64_t at = row * cols + c;
            expect(s, "y", at, exp(scale * (in(s, "x", at) - most)) / sum, 1);
        }
    }
}

/* loss, lse, and the gradient where there is one, of a row of logits. */
static void row_loss(const struct scene *s, int64_t row, const double *x, const char *gradient)
{
    int64_t cols = whole(s, "cols"), label = (int64_t)in(s, "labels", row);
    double most = -INFINITY, sum = 0, mean = 0, sizes = 4;
    double smoothing = real(s, "smoothing"), z = real(s, "z_loss");
    bool ignored = label == whole(s, "ignore_index");
    for (int64_t c = 0; c < cols; c++) {
        most = fmax(most, x[c]);
        mean += x[c] / (double)cols;
        sizes = fmax(sizes, fabs(x[c]));
    }
    for (int64_t c = 0; c < cols; c++) {
        sum += exp(x[c] - most);
    }
    double lse = most + log(sum), target = ignored ? 0 : x[label];
    double loss = (1 - smoothing) * (lse - target) + smoothing * (lse - mean) + z * lse * lse;
    expect(s, "lse", row, lse, 100 * sizes);
    expect(s, "loss", row, ignored ? 0 : loss, ignored ? 0 : 100 * sizes);
    for (int64_t c = 0; gradient && c < cols; c++) {
        double p = exp(x[c] - most) / sum, part = smoothing / (double)cols;
        double want = p * (1 + 2 * z * lse) - part - (c == label ? 1 - smoothing : 0);
        expect(s, gradient, row * cols + c, ignored ? 0 : want * real(s, "grad_scale"),
               ignored ? 0 : real(s, "grad_scale"));
    }
}

static void cross_entropy(const struct scene *s)
{
    int64_t cols = whole(s, "cols");
    const char *logits = has(s, "logits_grad") ? "logits_grad" : "logits";
    double *x = calloc((size_t)cols, sizeof *x);
    assert_non_null(x);
    for (int64_t row = 0; row < whole(s, "rows"); row++) {
        for (int64_t c = 0; c < cols; c++) {
            x[c] = in(s, logits, row * cols + c);
        }
        row_loss(s, row, x, has(s, "logits_grad") ? "logits_grad" : NULL);
    }
    free(x);
}

static void linear_cross_entropy(const struct scene *s)
{
    int64_t cols = whole(s, "cols"), depth = whole(s, "K");
    double *x = calloc((size_t)cols, sizeof *x);
    assert_non_null(x);
    for (int64_t row = 0; row < whole(s, "rows"); row++) {
        for (int64_t c = 0; c < cols; c++) {
            x[c] = 0;
            for (int64_t k = 0; k < depth; k++) {
                x[c] += in(s, "X", row * depth + k) * in(s, "W", c * depth + k);
            }
        }
        row_loss(s, row, x, NULL);
    }
    free(x);
}

/* ------------------------------------------------------------------ rope */

static void rope_heads(const struct scene *s, const char *from, const char *to, int64_t heads)
{
    int64_t dim = whole(s, "head_dim"), turns = whole(s, "rotary_dim"), half = turns / 2;
    for (int64_t at = 0; at < whole(s, "tokens") * heads * dim; at++) {
        int64_t c = at % dim, token = at / dim / heads, pair, other;
        double want = in(s, from, at), sign;
        if (c < turns) {
            if (whole(s, "style") == 0) { /* neox */
                pair = c % half;
                other = c < half ? at + half : at - half;
                sign = c < half ? -1 : 1;
            } else {
                pair = c / 2;
                other = c % 2 ? at - 1 : at + 1;
                sign = c % 2 ? 1 : -1;
            }
            int64_t row = (int64_t)in(s, "position", token) * turns;
            want = want * in(s, "cos_sin", row + pair) +
                   sign * in(s, from, other) * in(s, "cos_sin", row + half + pair);
        }
        expect(s, to, at, want, 1);
    }
}

static void rope(const struct scene *s)
{
    bool place = whole(s, "in_place");
    rope_heads(s, place ? "q_place" : "q", place ? "q_place" : "q_out", whole(s, "q_heads"));
    rope_heads(s, place ? "k_place" : "k", place ? "k_place" : "k_out", whole(s, "kv_heads"));
}

/* ------------------------------------------------------------------ the problems */

struct entry {
    const char *op, *problem;
    void (*check)(const struct scene *s);
};

static const struct entry ENTRIES[] = {
    {"rmsnorm_residual", "{\"cols\":77,\"rows\":3,\"ld\":80}", rmsnorm},
    {"rmsnorm_residual", "{\"cols\":300,\"rows\":2,\"weight\":\"one_plus\",\"dtype\":\"f16\"}",
     rmsnorm},
    {"rmsnorm_residual",
     "{\"cols\":1,\"rows\":3,\"residual\":false,\"weight\":\"none\",\"dtype\":\"f32\"}", rmsnorm},
    {"layernorm_dropout_residual", "{\"cols\":77,\"rows\":3,\"mask\":true,\"seed\":987654321987}",
     layernorm},
    {"layernorm_dropout_residual", "{\"cols\":300,\"rows\":2,\"dropout\":false,\"dtype\":\"f32\"}",
     layernorm},
    {"silu_mul", "{\"cols\":77,\"rows\":5,\"ld\":160}", gated},
    {"gelu_mul", "{\"cols\":77,\"rows\":5}", gated},
    {"gelu_mul", "{\"cols\":77,\"rows\":5,\"approx\":\"tanh\",\"packed\":false,\"dtype\":\"f32\"}",
     gated},
    {"swiglu_gateup", "{\"K\":70,\"M\":5,\"N\":19,\"ldx\":72}", swiglu},
    {"swiglu_gateup", "{\"K\":33,\"M\":18,\"N\":17,\"packed\":true,\"dtype\":\"f16\"}", swiglu},
    {"softmax", "{\"cols\":77,\"rows\":5,\"scale\":3.5}", softmax},
    {"cross_entropy", "{\"cols\":77,\"rows\":20}", cross_entropy},
    {"cross_entropy",
     "{\"cols\":77,\"rows\":20,\"grad\":true,\"smoothing\":0.2,\"z_loss\":0.01,\"grad_scale\":3.0}",
     cross_entropy},
    {"linear_cross_entropy", "{\"K\":40,\"cols\":77,\"rows\":20}", linear_cross_entropy},
    {"linear_cross_entropy", "{\"K\":33,\"cols\":5,\"rows\":17,\"smoothing\":0.2,\"z_loss\":0.01}",
     linear_cross_entropy},
    {"rope", "{\"head_dim\":20,\"kv_heads\":1,\"q_heads\":3,\"rotary_dim\":12,\"tokens\":5}", rope},
    {"rope",
     "{\"head_dim\":16,\"in_place\":true,\"kv_heads\":2,\"q_heads\":3,\"style\":\"gptj\","
     "\"tokens\":4}",
     rope},
};

static void check_entry(const struct entry *entry)
{
    struct gk_catalog *catalog = op_trial_catalog(GK_SOURCE_DIR "/kernels", entry->op);
    struct scene s = {.op = gk_catalog_find(catalog, entry->op), .text = entry->problem};
    struct gk_space_def def = {0};
    struct gk_config config = {0};
    struct gk_plan reference = {0};
    struct gk_compile_output code = {0};
    struct gk_err err = {0};
    char text[300];
    uint32_t tree = 0;
    const struct gk_device_props *props = &rig.device->props;
    (void)snprintf(text, sizeof text, "%s%s", entry->op, entry->problem);
    op_trial_need(gk_problem_from_text(&s.op->fields, text, &s.problem, &err), &err);
    op_trial_need(gk_catalog_space(s.op, &s.problem, props, &def, &err), &err);
    op_trial_need(gk_catalog_default(s.op, &s.problem, &def, &config, &tree, &err), &err);
    op_trial_need(gk_plan_render(s.op, gk_op_template(s.op, config.template_name), &s.problem,
                                 &config, props, &s.plan, &err),
                  &err);
    op_trial_need(gk_plan_reference(s.op, &s.problem, props, &reference, &err), &err);
    op_trial_compile(&rig, catalog, &reference, 0, &code);
    op_trial_need(gk_reference_get(rig.references, rig.device, &s.plan, &s.problem, &code, 1, false,
                                   &s.reference, &err),
                  &err);
    entry->check(&s);
    gk_compile_output_fini(&code);
    gk_plan_fini(&s.plan);
    gk_plan_fini(&reference);
    gk_space_def_fini(&def);
    gk_problem_fini(&s.problem);
    gk_catalog_destroy(catalog);
}

static void references_are_right(void **state)
{
    (void)state;
    for (size_t i = 0; i < GK_ARRAY_COUNT(ENTRIES); i++) {
        check_entry(&ENTRIES[i]);
    }
    print_message("%zu problems\n", GK_ARRAY_COUNT(ENTRIES));
}

static int set_up(void **state)
{
    (void)state;
    return op_trial_open(&rig, "emu:sm_80");
}

static int tear_down(void **state)
{
    (void)state;
    op_trial_close(&rig);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(references_are_right)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
