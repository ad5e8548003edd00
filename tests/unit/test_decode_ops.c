/*
 * attention_decode and mla_decode: their references against the definition in C doubles, element by
 * element; launches that begin early (emu:sm_90a); and the shapes files of models, whose rows must
 * all have a default, on a GPU of 132 SMs as op.json's first entry says.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>

#include "search/space.h"
#include "tests/support/check.h"
#include "tests/unit/code_for_tests.h"
#include "tests/unit/op_trial.h"
#include "worker/generate.h"
#include "worker/numeric.h"

#define KEYS_MAX 400

static struct op_trial_rig rig;
static struct gk_catalog *attention, *mla;
static struct gk_err err;

static int set_up(void **state)
{
    (void)state;
    if (op_trial_open(&rig, "emu:sm_90a") != 0) {
        return -1;
    }
    attention = op_trial_catalog(GK_SOURCE_DIR "/kernels", "attention_decode");
    mla = op_trial_catalog(GK_SOURCE_DIR "/kernels", "mla_decode");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    gk_catalog_destroy(attention);
    gk_catalog_destroy(mla);
    op_trial_close(&rig);
    return 0;
}

/* ------------------------------------------------------------------ the definition */

struct sight {
    const struct gk_op *op;
    struct gk_problem problem;
    struct gk_plan plan;
    const struct gk_reference *reference; /* lent by the rig */
};

static int64_t tensor_of(const struct gk_op *op, const char *name)
{
    for (uint32_t i = 0; i < op->tensor_count; i++) {
        if (strcmp(op->tensors[i].name, name) == 0) {
            return i;
        }
    }
    fail_msg("%s has no tensor %s", op->fields.op, name);
    return -1;
}

static bool exists(const struct sight *s, const char *name)
{
    return s->plan.tensors[tensor_of(s->op, name)].present;
}

/* The element of a tensor at the coordinates, as many as it has dimensions. */
static double at(const struct sight *s, const char *name, int64_t a, int64_t b, int64_t c,
                 int64_t d)
{
    const int64_t index = tensor_of(s->op, name), place[GK_TENSOR_RANK_MAX] = {a, b, c, d};
    const struct gk_plan_tensor *tensor = &s->plan.tensors[index];
    return gk_element_load(tensor->dtype,
                           s->reference->inputs.tensors[index] +
                               gk_tensor_place(tensor, place) * gk_dtype_bytes(tensor->dtype));
}

static int64_t field(const struct sight *s, const char *name)
{
    const union gk_value *value = NULL;
    for (uint32_t i = 0; i < s->op->fields.field_count; i++) {
        const struct gk_field *one = &s->op->fields.fields[i];
        value = strcmp(one->name, name) == 0 ? &s->problem.slots[one->slot] : value;
    }
    assert_non_null(value);
    return value->i;
}

static double real_field(const struct sight *s, const char *name)
{
    for (uint32_t i = 0; i < s->op->fields.field_count; i++) {
        const struct gk_field *one = &s->op->fields.fields[i];
        if (strcmp(one->name, name) == 0) {
            return s->problem.slots[one->slot].r;
        }
    }
    fail_msg("no field %s", name);
    return 0;
}

static void open_sight(struct sight *s, const struct gk_catalog *catalog, const char *text)
{
    struct gk_compile_job job = {0};
    struct gk_compile_output code = {0};
    char name[GK_NAME_MAX];
    memset(s, 0, sizeof *s);
    op_trial_need(gk_problem_op_of(text, name, &err), &err);
    s->op = gk_catalog_find(catalog, name);
    assert_non_null(s->op);
    op_trial_need(gk_problem_from_text(&s->op->fields, text, &s->problem, &err), &err);
    op_trial_need(gk_plan_reference(s->op, &s->problem, &rig.device->props, &s->plan, &err), &err);
    op_trial_need(gk_compile_job_make(catalog, &s->plan, 0, rig.device->props.target, &job, &err),
                  &err);
    op_trial_need(code_for_tests_run(&job, rig.compiler, &code, &err), &err);
    if (!code.compiled) {
        fail_msg("%s", code.log);
    }
    op_trial_need(gk_reference_get(rig.references, rig.device, &s->plan, &s->problem, &code, 1,
                                   false, &s->reference, &err),
                  &err);
    gk_compile_output_fini(&code);
    gk_compile_job_fini(&job);
}

static void close_sight(struct sight *s)
{
    gk_plan_fini(&s->plan);
    gk_problem_fini(&s->problem);
}

/* Row `row` of an output against what it ought to be. */
static void compare(const struct sight *s, const char *name, int64_t first, int64_t count,
                    const double *want)
{
    const double *pairs = s->reference->pairs[tensor_of(s->op, name)];
    for (int64_t i = 0; i < count; i++) {
        const double got = pairs[2 * (first + i)], size = pairs[2 * (first + i) + 1];
        const bool same = got == want[i] || fabs(got - want[i]) <= 1e-11 * (1 + fabs(want[i]));
        if (!same || !(size >= fabs(want[i]) * (1 - 1e-9) || isinf(want[i])) || isinf(size)) {
            fail_msg("%s, %s: element %d: the reference has %.17g of size %g, the definition %.17g",
                     s->op->fields.op, name, (int)(first + i), got, size, want[i]);
        }
    }
}

/* Softmax of scores, then the mean of values by it; value(j, c) comes from `load`. */
struct row {
    double scores[KEYS_MAX];
    int64_t count;
    double lse;
};

static void normalize(struct row *row)
{
    double top = -INFINITY, sum = 0;
    for (int64_t j = 0; j < row->count; j++) {
        top = row->scores[j] > top ? row->scores[j] : top;
    }
    for (int64_t j = 0; j < row->count; j++) {
        row->scores[j] = exp(row->scores[j] - top);
        sum += row->scores[j];
    }
    for (int64_t j = 0; j < row->count; j++) {
        row->scores[j] /= sum;
    }
    row->lse = row->count > 0 ? top + log(sum) : -INFINITY;
}

/* ------------------------------------------------------------------ attention_decode */

/* Column c of key j (prefix first) or value j of a request. */
static double cached(const struct sight *s, bool is_key, int64_t request, int64_t head, int64_t j,
                     int64_t c)
{
    const int64_t prefix = field(s, "prefix_len"), page = field(s, "page_size");
    if (j < prefix) {
        return at(s, is_key ? "k_prefix" : "v_prefix", j, head, c, 0);
    }
    j -= prefix;
    if (page == 0) {
        return at(s, is_key ? "k" : "v", request, j, head, c);
    }
    const int64_t number = (int64_t)at(s, "page_table", request, j / page, 0, 0);
    return at(s, is_key ? "k" : "v", number, j % page, head, c);
}

static double query(const struct sight *s, int64_t request, int64_t i, int64_t head, int64_t c)
{
    return at(s, "q", request, i, head, c);
}

/* rope: 0 none, 1 neox, 2 gptj. */
static int64_t partner_of(const struct sight *s, int64_t c)
{
    const int64_t rotary = field(s, "rotary_dim"), half = rotary / 2;
    return c >= rotary             ? c
           : field(s, "rope") == 1 ? (c < half ? c + half : c - half)
           : field(s, "rope") == 2 ? c ^ 1
                                   : c;
}

static double turned(const struct sight *s, int64_t position, int64_t c, double own, double other)
{
    const int64_t rotary = field(s, "rotary_dim"), half = rotary / 2;
    const int64_t rope = field(s, "rope");
    if (rope == 0 || c >= rotary) {
        return own;
    }
    const int64_t pair = rope == 1 ? c % half : c / 2;
    const bool first = rope == 1 ? c < half : c % 2 == 0;
    const double cosine = at(s, "cos_sin", position, pair, 0, 0);
    const double sine = at(s, "cos_sin", position, half + pair, 0, 0);
    return own * cosine + (first ? -other : other) * sine;
}

static void attention_row(const struct sight *s, int64_t request, int64_t i, int64_t head)
{
    static struct row row;
    double want[512];
    const int64_t heads = field(s, "q_heads"), ratio = heads / field(s, "kv_heads");
    const int64_t dim = field(s, "head_dim"), queries = field(s, "q_len"), shared = head / ratio;
    const int64_t all = field(s, "prefix_len") + (int64_t)at(s, "lengths", request, 0, 0, 0);
    const int64_t last = all - queries + i, position = last > 0 ? last : 0;
    const bool scaled = exists(s, "k_scale");
    row.count = field(s, "causal") ? (last >= 0 ? last + 1 : 0) : all;
    assert_true(row.count <= KEYS_MAX);
    for (int64_t j = 0; j < row.count; j++) {
        double sum = 0;
        for (int64_t c = 0; c < dim; c++) {
            const int64_t other = partner_of(s, c);
            sum += turned(s, position, c, query(s, request, i, head, c),
                          query(s, request, i, head, other)) *
                   turned(s, j, c, cached(s, true, request, shared, j, c),
                          cached(s, true, request, shared, j, other));
        }
        row.scores[j] = sum * real_field(s, "softmax_scale") *
                        (scaled ? at(s, "k_scale", shared, 0, 0, 0) : 1.0);
    }
    normalize(&row);
    for (int64_t c = 0; c < dim; c++) {
        want[c] = 0;
        for (int64_t j = 0; j < row.count; j++) {
            want[c] += row.scores[j] * cached(s, false, request, shared, j, c);
        }
        want[c] *= scaled ? at(s, "v_scale", shared, 0, 0, 0) : 1.0;
    }
    const int64_t number = (request * queries + i) * heads + head;
    compare(s, "out", number * dim, dim, want);
    if (exists(s, "lse_out")) {
        compare(s, "lse_out", number, 1, &row.lse);
    }
}

/* ------------------------------------------------------------------ mla_decode */

static double latent(const struct sight *s, int64_t request, int64_t j, int64_t c)
{
    const int64_t page = field(s, "page_size"), columns = field(s, "latent_dim");
    const int64_t outer = page ? (int64_t)at(s, "page_table", request, j / page, 0, 0) : request;
    const int64_t inner = page ? j % page : j;
    if (exists(s, "kv")) {
        return at(s, "kv", outer, inner, c, 0);
    }
    return c < columns
               ? at(s, "latents", outer, inner, c, 0) * at(s, "scales", outer, inner, c / 128, 0)
               : at(s, "ropes", outer, inner, c - columns, 0);
}

static void mla_row(const struct sight *s, int64_t request, int64_t i, int64_t head)
{
    static struct row row;
    double want[1024];
    const int64_t heads = field(s, "q_heads"), queries = field(s, "q_len");
    const int64_t columns = field(s, "latent_dim"), dim = columns + field(s, "rope_dim");
    const int64_t all = (int64_t)at(s, "lengths", request, 0, 0, 0), seen = all - queries + 1 + i;
    row.count = field(s, "causal") ? (seen > 0 ? seen : 0) : all;
    assert_true(row.count <= KEYS_MAX);
    for (int64_t j = 0; j < row.count; j++) {
        row.scores[j] = 0;
        for (int64_t c = 0; c < dim; c++) {
            row.scores[j] += query(s, request, i, head, c) * latent(s, request, j, c);
        }
        row.scores[j] *= real_field(s, "softmax_scale");
    }
    normalize(&row);
    for (int64_t c = 0; c < columns; c++) {
        want[c] = 0;
        for (int64_t j = 0; j < row.count; j++) {
            want[c] += row.scores[j] * latent(s, request, j, c);
        }
    }
    const int64_t number = (request * queries + i) * heads + head;
    compare(s, "out", number * columns, columns, want);
    if (exists(s, "lse_out")) {
        compare(s, "lse_out", number, 1, &row.lse);
    }
}

static void references(void **state)
{
    static const char *const PROBLEMS[] = {
        "attention_decode{\"batch\":1,\"head_dim\":64,\"kv_heads\":1,\"kv_len\":200,\"lse\":true,"
        "\"q_heads\":2}",
        "attention_decode{\"batch\":3,\"head_dim\":32,\"kv_heads\":2,\"kv_len\":40,\"kv_lens\":{"
        "\"each\":[40,0,2]},\"kv_layout\":\"HND\",\"lse\":true,\"page_size\":16,\"q_heads\":4,"
        "\"q_len\":3}",
        "attention_decode{\"batch\":2,\"dtype\":\"f16\",\"head_dim\":32,\"kv_dtype\":\"e4m3\","
        "\"kv_heads\":2,\"kv_len\":20,\"lse\":true,\"prefix_len\":30,\"q_heads\":2,\"q_len\":2,"
        "\"rope\":\"neox\",\"rotary_dim\":16}",
        "attention_decode{\"batch\":1,\"causal\":false,\"head_dim\":48,\"kv_heads\":1,\"kv_len\":"
        "33,"
        "\"q_heads\":1,\"q_len\":2,\"rope\":\"gptj\"}",
        "mla_decode{\"batch\":2,\"kv_len\":70,\"kv_lens\":{\"each\":[70,1]},\"latent_dim\":128,"
        "\"lse\":true,\"q_heads\":2,\"q_len\":2,\"rope_dim\":16}",
        "mla_decode{\"batch\":1,\"causal\":false,\"dtype\":\"f16\",\"kv_dtype\":\"e4m3\",\"kv_"
        "len\":"
        "40,\"latent_dim\":256,\"page_size\":0,\"q_heads\":3,\"q_len\":2,\"rope_dim\":32}",
    };
    (void)state;
    for (size_t p = 0; p < GK_ARRAY_COUNT(PROBLEMS); p++) {
        struct sight s;
        const bool is_mla = strncmp(PROBLEMS[p], "mla", 3) == 0;
        open_sight(&s, is_mla ? mla : attention, PROBLEMS[p]);
        for (int64_t row = 0; row < field(&s, "batch") * field(&s, "q_len") * field(&s, "q_heads");
             row++) {
            const int64_t heads = field(&s, "q_heads"), queries = field(&s, "q_len");
            (is_mla ? mla_row : attention_row)(&s, row / heads / queries, row / heads % queries,
                                               row % heads);
        }
        close_sight(&s);
    }
}

/* ------------------------------------------------------------------ launches that begin early */

static void overlapping(void **state)
{
    static const struct {
        const char *text, *op;
    } PROBLEMS[] = {
        {"attention_decode{\"batch\":2,\"head_dim\":64,\"kv_heads\":1,\"kv_len\":300,\"kv_lens\":{"
         "\"each\":[300,40]},\"prefix_len\":100,\"q_heads\":4}",
         "attention_decode"},
        {"mla_decode{\"batch\":2,\"kv_len\":300,\"kv_lens\":{\"each\":[300,64]},\"q_heads\":16}",
         "mla_decode"},
    };
    (void)state;
    for (size_t p = 0; p < GK_ARRAY_COUNT(PROBLEMS); p++) {
        const struct gk_catalog *catalog = p ? mla : attention;
        const struct gk_op *op = gk_catalog_find(catalog, PROBLEMS[p].op);
        struct op_trial_asked asked;
        struct gk_record record;
        op_trial_ask(op, PROBLEMS[p].text, &rig.device->props, "", &asked);
        op_trial_run(&rig, catalog, op, &asked.problem, &asked.config, 0, &record);
        if (record.failure != GK_FAILURE_NONE) {
            fail_msg("%s: %s: %s", PROBLEMS[p].text, gk_failure_name(record.failure),
                     record.message);
        }
        gk_record_fini(&record);
        op_trial_asked_fini(&asked);
    }
}

/* ------------------------------------------------------------------ shapes of models */

static void default_of(const struct gk_op *op, const struct gk_problem *problem,
                       const struct gk_device_props *props)
{
    struct gk_space_def def = {0};
    struct gk_config config = {0};
    struct gk_plan plan = {0};
    uint32_t tree = 0;
    op_trial_need(gk_catalog_space(op, problem, props, &def, &err), &err);
    op_trial_need(gk_catalog_default(op, problem, &def, &config, &tree, &err), &err);
    op_trial_need(gk_plan_render(op, &op->templates[0], problem, &config, props, &plan, &err),
                  &err);
    if (getenv("GK_DEFAULTS_SHOW")) {
        char *text = gk_config_text(&def.trees[tree], &config);
        print_message("%s: %s\n", "default", text);
        free(text);
    }
    gk_plan_fini(&plan);
    gk_space_def_fini(&def);
}

static void shapes_of_models(void **state)
{
    static const struct {
        const char *path, *op;
        uint32_t problems;
    } FILES[] = {
        {GK_SOURCE_DIR "/examples/shapes/llama3_8b_decode.json", "attention_decode", 13},
        {GK_SOURCE_DIR "/examples/shapes/llama3_70b_decode.json", "attention_decode", 8},
        {GK_SOURCE_DIR "/examples/shapes/qwen3_decode.json", "attention_decode", 11},
        {GK_SOURCE_DIR "/examples/shapes/deepseek_v3_mla.json", "mla_decode", 14},
    };
    struct gk_device_props props = rig.device->props;
    (void)state;
    props.sms = 132;
    props.mem_bytes = INT64_C(140) << 30;
    props.l2_bytes = INT64_C(50) << 20;
    for (size_t i = 0; i < GK_ARRAY_COUNT(FILES); i++) {
        struct gk_op_lookup lookup =
            gk_catalog_lookup(strcmp(FILES[i].op, "mla_decode") == 0 ? mla : attention);
        struct gk_shapes shapes;
        struct gk_diag diag;
        gk_diag_init(&diag);
        if (gk_shapes_load(FILES[i].path, FILES[i].op, &lookup, &shapes, &diag) != GK_OK) {
            (void)gk_diag_status(&diag, &err);
            fail_msg("%s", err.text);
        }
        assert_int_equal(shapes.count, FILES[i].problems);
        for (uint32_t j = 0; j < shapes.count; j++) {
            const struct gk_catalog *catalog =
                strcmp(FILES[i].op, "mla_decode") == 0 ? mla : attention;
            default_of(gk_catalog_find(catalog, FILES[i].op), &shapes.problems[j], &props);
        }
        gk_shapes_fini(&shapes);
        gk_diag_fini(&diag);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(references), cmocka_unit_test(overlapping),
                                       cmocka_unit_test(shapes_of_models)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
