/*
 * The reference of op attention against C of its own, in double, on inputs that the reference read:
 * every mask, flag and layout, ragged requests and empty ones. Values must agree to the last digits
 * of a double; magnitudes are bounds, and must be at least the value. And the shapes files of
 * models: each problem has a legal default on the least and on the newest target.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/shapes.h"
#include "tests/unit/op_trial.h"
#include "worker/numeric.h"

#define DIM_MAX 256
#define KEY_MAX 256

static const char *const PROBLEMS[] = {
    "{\"q_heads\":6,\"kv_heads\":2,\"head_dim\":32,\"seq_q\":9,\"seq_kv\":20,\"alibi\":true,"
    "\"lse\":true}",
    "{\"batch\":4,\"q_heads\":2,\"head_dim\":16,\"q_len\":{\"each\":[3,0,9,4]},\"kv_len\":{"
    "\"each\":"
    "[5,7,2,0]},\"lse\":true,\"layout\":\"bhsd\",\"dtype\":\"f16\"}",
    "{\"q_heads\":2,\"kv_heads\":1,\"head_dim\":32,\"head_dim_v\":16,\"seq_q\":11,\"seq_kv\":7,"
    "\"mask\":\"full\",\"softcap\":1.5,\"sink\":true,\"lse\":true,\"q_ld\":72,\"v_ld\":24}",
    "{\"q_heads\":1,\"head_dim\":48,\"seq_q\":20,\"seq_kv\":30,\"mask\":\"window\",\"window_left\":"
    "4,"
    "\"window_right\":2,\"sink_tokens\":3,\"lse\":true,\"scale\":2.0}",
    "{\"q_heads\":2,\"head_dim\":64,\"seq_q\":5,\"seq_kv\":12,\"rope\":\"neox\",\"rotary_dim\":32}",
    "{\"q_heads\":2,\"head_dim\":32,\"seq_q\":12,\"seq_kv\":5,\"rope\":\"gptj\",\"dtype\":\"f16\","
    "\"lse\":true,\"layout\":\"bhsd\"}",
};

static struct op_trial_rig rig;

/* One problem as the test sees it. */
struct view {
    const struct gk_op *op;
    const struct gk_plan *plan;
    const struct gk_reference *reference;
    int64_t batch, q_heads, kv_heads, dim, dim_v, rotary;
    const int64_t *q_len, *kv_len;
    bool bhsd;
};

static const struct gk_field *field_of(const struct view *view, const char *name)
{
    for (uint32_t i = 0; i < view->op->fields.field_count; i++) {
        if (strcmp(view->op->fields.fields[i].name, name) == 0) {
            return &view->op->fields.fields[i];
        }
    }
    fail_msg("no field %s", name);
    return NULL;
}

static uint32_t tensor_of(const struct view *view, const char *name)
{
    for (uint32_t i = 0; i < view->op->tensor_count; i++) {
        if (strcmp(view->op->tensors[i].name, name) == 0) {
            return i;
        }
    }
    fail_msg("no tensor %s", name);
    return 0;
}

static union gk_value field(const struct view *view, const char *name)
{
    return view->plan->slots[field_of(view, name)->slot];
}

static bool field_is(const struct view *view, const char *name, const char *value)
{
    return strcmp(field_of(view, name)->values[field(view, name).i], value) == 0;
}

/* An element of a tensor whose rows are tokens of [heads, dim], or heads of each request. */
static double element(const struct view *view, const char *name, const int64_t *lengths,
                      int64_t heads, int64_t request, int64_t head, int64_t token, int64_t c)
{
    uint32_t index = tensor_of(view, name);
    int64_t before = 0;
    const struct gk_plan_tensor *tensor = &view->plan->tensors[index];
    for (int64_t b = 0; b < request; b++) {
        before += lengths[b];
    }
    int64_t row = view->bhsd ? before * heads + head * lengths[request] + token : before + token;
    int64_t place = tensor->offset + row * tensor->strides[0] +
                    (view->bhsd ? 0 : head * tensor->strides[1]) + c * tensor->strides[2];
    return gk_element_load(tensor->dtype, view->reference->inputs.tensors[index] +
                                              (size_t)place * gk_dtype_bytes(tensor->dtype));
}

static double f32_of(const struct view *view, const char *name, int64_t i)
{
    const unsigned char *bytes = view->reference->inputs.tensors[tensor_of(view, name)];
    return gk_element_load(GK_F32, bytes + 4 * i);
}

static void turn(const struct view *view, double *x, int64_t position)
{
    const enum gk_dtype dtype = view->plan->tensors[0].dtype;
    bool neox = field_is(view, "rope", "neox");
    int64_t half = view->rotary / 2;
    if (field_is(view, "rope", "none")) {
        return;
    }
    for (int64_t i = 0; i < half; i++) {
        double *a = &x[neox ? i : 2 * i], *b = &x[neox ? i + half : 2 * i + 1];
        double c = f32_of(view, "cos_sin", position * view->rotary + i);
        double s = f32_of(view, "cos_sin", position * view->rotary + half + i);
        double first = *a * c - *b * s, second = *b * c + *a * s;
        *a = gk_element_round(dtype, first);
        *b = gk_element_round(dtype, second);
    }
}

static double slope_of(int64_t head, int64_t heads)
{
    double n = pow(2.0, floor(log2((double)heads)));
    return (double)head < n ? pow(2.0, -8.0 * (double)(head + 1) / n)
                            : pow(2.0, -4.0 * (2.0 * ((double)head - n) + 1.0) / n);
}

static bool sees(const struct view *view, int64_t place, int64_t j)
{
    if (field_is(view, "mask", "full")) {
        return true;
    }
    if (field_is(view, "mask", "causal")) {
        return j <= place;
    }
    return j <= place + field(view, "window_right").i &&
           (j >= place - field(view, "window_left").i || j < field(view, "sink_tokens").i);
}

/* Scores of one query, -inf where it sees nothing. */
static void scores_of(const struct view *view, int64_t request, int64_t head, int64_t i,
                      double *scores)
{
    int64_t q_len = view->q_len[request], kv_len = view->kv_len[request];
    int64_t kv_head = head / (view->q_heads / view->kv_heads), place = i + kv_len - q_len;
    double q[DIM_MAX], k[DIM_MAX], cap = field(view, "softcap").r;
    for (int64_t c = 0; c < view->dim; c++) {
        q[c] = element(view, "Q", view->q_len, view->q_heads, request, head, i, c);
    }
    turn(view, q, kv_len > q_len ? place : i);
    for (int64_t j = 0; j < kv_len; j++) {
        double sum = 0;
        for (int64_t c = 0; c < view->dim; c++) {
            k[c] = element(view, "K", view->kv_len, view->kv_heads, request, kv_head, j, c);
        }
        turn(view, k, j);
        for (int64_t c = 0; c < view->dim; c++) {
            sum += q[c] * k[c];
        }
        sum *= field(view, "scale").r;
        sum = cap > 0 ? cap * tanh(sum / cap) : sum;
        if (field(view, "alibi").i) {
            sum -= slope_of(head, view->q_heads) * fabs((double)(j - place));
        }
        scores[j] = sees(view, place, j) ? sum : -INFINITY;
    }
}

static void near(const struct view *view, const char *name, int64_t at, double want)
{
    const double *pair = view->reference->pairs[tensor_of(view, name)] + 2 * at;
    double slack = 1e-11 * (fabs(pair[1]) + 1.0);
    if (!(pair[0] == want || fabs(pair[0] - want) <= slack)) {
        fail_msg("%s[%d]: the reference has %.17g, C has %.17g", name, (int)at, pair[0], want);
    }
    if (isfinite(want) && !(pair[1] * 1.000001 >= fabs(want))) {
        fail_msg("%s[%d]: magnitude %.9g of %.9g", name, (int)at, pair[1], want);
    }
}

static void check_query(const struct view *view, int64_t before, int64_t request, int64_t head,
                        int64_t i)
{
    double scores[KEY_MAX], most = -INFINITY, sum = 0;
    int64_t q_len = view->q_len[request], kv_len = view->kv_len[request];
    scores_of(view, request, head, i, scores);
    for (int64_t j = 0; j < kv_len; j++) {
        most = fmax(most, scores[j]);
    }
    if (field(view, "sink").i) {
        most = fmax(most, f32_of(view, "sinks", head));
        sum = exp(f32_of(view, "sinks", head) - most);
    }
    for (int64_t j = 0; j < kv_len; j++) {
        scores[j] = most > -INFINITY ? exp(scores[j] - most) : 0;
        sum += scores[j];
    }
    for (int64_t c = 0; c < view->dim_v; c++) {
        double o = 0;
        for (int64_t j = 0; j < kv_len; j++) {
            o += scores[j] * element(view, "V", view->kv_len, view->kv_heads, request,
                                     head / (view->q_heads / view->kv_heads), j, c);
        }
        int64_t row = view->bhsd ? before * view->q_heads + head * q_len + i
                                 : (before + i) * view->q_heads + head;
        near(view, "O", row * view->dim_v + c, sum > 0 ? o / sum : 0);
    }
    if (field(view, "lse").i) {
        near(view, "LSE", before * view->q_heads + head * q_len + i,
             sum > 0 ? most + log(sum) : -INFINITY);
    }
}

static void check_problem(const struct gk_catalog *catalog, const struct gk_op *op,
                          const char *text)
{
    struct gk_problem problem = {0};
    struct gk_plan plan = {0};
    struct gk_compile_output code = {0};
    struct view view = {.op = op, .plan = &plan};
    struct gk_err err = {0};
    int64_t before = 0;
    op_trial_need(gk_problem_from_text(&op->fields, text, &problem, &err), &err);
    op_trial_need(gk_plan_reference(op, &problem, &rig.device->props, &plan, &err), &err);
    op_trial_compile(&rig, catalog, &plan, 0, &code);
    op_trial_need(gk_reference_get(rig.references, rig.device, &plan, &problem, &code, 0, false,
                                   &view.reference, &err),
                  &err);
    view.batch = field(&view, "batch").i;
    view.q_heads = field(&view, "q_heads").i;
    view.kv_heads = field(&view, "kv_heads").i;
    view.dim = field(&view, "head_dim").i;
    view.dim_v = field(&view, "head_dim_v").i;
    view.rotary = field(&view, "rotary_dim").i;
    view.q_len = field(&view, "q_len").series->values;
    view.kv_len = field(&view, "kv_len").series->values;
    view.bhsd = field_is(&view, "layout", "bhsd");
    for (int64_t b = 0; b < view.batch; b++) {
        assert_in_range(view.kv_len[b], 0, KEY_MAX);
        for (int64_t row = 0; row < view.q_heads * view.q_len[b]; row++) {
            check_query(&view, before, b, row / view.q_len[b], row % view.q_len[b]);
        }
        before += view.q_len[b];
    }
    gk_compile_output_fini(&code);
    gk_plan_fini(&plan);
    gk_problem_fini(&problem);
}

static void agrees_with_c(void **state)
{
    struct gk_catalog *catalog = op_trial_catalog(GK_SOURCE_DIR "/kernels", "attention");
    char text[400];
    (void)state;
    for (size_t i = 0; i < GK_ARRAY_COUNT(PROBLEMS); i++) {
        (void)snprintf(text, sizeof text, "attention%s", PROBLEMS[i]); /* short ones */
        check_problem(catalog, gk_catalog_find(catalog, "attention"), text);
    }
    gk_catalog_destroy(catalog);
}

static void default_is_legal(const struct gk_catalog *catalog, const struct gk_problem *problem,
                             const char *device)
{
    const struct gk_op *op = gk_catalog_find(catalog, "attention");
    struct gk_device_props props;
    struct gk_space_def def = {0};
    struct gk_config config = {0};
    struct gk_err err = {0};
    uint32_t tree = 0;
    op_trial_need(gk_device_props_builtin(device, &props, &err), &err);
    op_trial_need(gk_catalog_space(op, problem, &props, &def, &err), &err);
    op_trial_need(gk_catalog_default(op, problem, &def, &config, &tree, &err), &err);
    gk_space_def_fini(&def);
}

static void shapes_of_models_load(void **state)
{
    static const struct {
        const char *path;
        uint32_t problems;
    } FILES[] = {
        {GK_SOURCE_DIR "/examples/shapes/llama3_8b_attention.json", 10},
        {GK_SOURCE_DIR "/examples/shapes/llama3_70b_attention.json", 7},
        {GK_SOURCE_DIR "/examples/shapes/qwen3_attention.json", 10},
        {GK_SOURCE_DIR "/examples/shapes/deepseek_v3_attention.json", 7},
    };
    struct gk_catalog *catalog = op_trial_catalog(GK_SOURCE_DIR "/kernels", "attention");
    struct gk_op_lookup lookup = gk_catalog_lookup(catalog);
    (void)state;
    for (size_t i = 0; i < GK_ARRAY_COUNT(FILES); i++) {
        struct gk_shapes shapes;
        struct gk_diag diag;
        struct gk_err err = {0};
        gk_diag_init(&diag);
        if (gk_shapes_load(FILES[i].path, "attention", &lookup, &shapes, &diag) != GK_OK) {
            (void)gk_diag_status(&diag, &err); /* fills err; the failure is known */
            fail_msg("%s", err.text);
        }
        assert_int_equal(shapes.count, FILES[i].problems);
        for (uint32_t j = 0; j < shapes.count; j++) {
            default_is_legal(catalog, &shapes.problems[j], "emu:sm_80");
            default_is_legal(catalog, &shapes.problems[j], "emu:sm_90a");
        }
        gk_shapes_fini(&shapes);
        gk_diag_fini(&diag);
    }
    gk_catalog_destroy(catalog);
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(agrees_with_c),
                                       cmocka_unit_test(shapes_of_models_load)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
