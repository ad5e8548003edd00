/*
 * Plans over the fixtures: the numbers of a TMA + cluster GEMM and of a paged split-KV pipeline,
 * the hardware's rules for tensor maps by name, and every edge of the renderer.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "kernels/render.h"
#include "tests/support/check.h"

#define DATA GK_SOURCE_DIR "/tests/data/kernels/"

/* A catalog of one op, a problem, a device and the space: what each test starts from. */
struct bench {
    struct gk_catalog *catalog;
    const struct gk_op *op;
    const struct gk_template *t;
    struct gk_problem problem;
    struct gk_device_props dev;
    struct gk_space_def def;
    struct gk_plan plan;
    struct gk_err err;
};

static void bench_init(struct bench *b, const char *root, const char *what, const char *device,
                       const char *problem)
{
    struct gk_diag diag;
    memset(b, 0, sizeof *b);
    gk_diag_init(&diag);
    (void)gk_catalog_load_for(root, what, &b->catalog, &diag);
    for (uint32_t i = 0; i < diag.kept; i++) {
        print_error("%s\n", diag.texts[i]);
    }
    gk_diag_fini(&diag);
    assert_non_null(b->catalog);
    b->op = gk_catalog_op(b->catalog, 0);
    b->t = &b->op->templates[0];
    assert_ok(gk_device_props_builtin(device, &b->dev, &b->err), b->err);
    assert_ok(gk_problem_from_text(&b->op->fields, problem, &b->problem, &b->err), b->err);
    assert_ok(gk_catalog_space(b->op, &b->problem, &b->dev, &b->def, &b->err), b->err);
}

static void bench_problem(struct bench *b, const char *problem)
{
    gk_plan_fini(&b->plan);
    gk_space_def_fini(&b->def);
    gk_problem_fini(&b->problem);
    assert_ok(gk_problem_from_text(&b->op->fields, problem, &b->problem, &b->err), b->err);
    assert_ok(gk_catalog_space(b->op, &b->problem, &b->dev, &b->def, &b->err), b->err);
}

static void bench_fini(struct bench *b)
{
    gk_plan_fini(&b->plan);
    gk_space_def_fini(&b->def);
    gk_problem_fini(&b->problem);
    gk_catalog_destroy(b->catalog);
}

static struct gk_config config_of(struct bench *b, const char *text)
{
    struct gk_config config = {0};
    uint32_t tree = 0;
    assert_ok(gk_config_from_text(&b->def, text, &config, &tree, &b->err), b->err);
    return config;
}

static enum gk_status render(struct bench *b, const struct gk_config *config)
{
    gk_plan_fini(&b->plan);
    return gk_plan_render(b->op, b->t, &b->problem, config, &b->dev, &b->plan, &b->err);
}

static const char *define_of(const struct gk_plan_launch *launch, const char *name)
{
    size_t size = strlen(name);
    for (uint32_t i = 0; i < launch->define_count; i++) {
        if (strncmp(launch->defines[i], name, size) == 0 && launch->defines[i][size] == '=') {
            return launch->defines[i] + size + 1;
        }
    }
    return NULL;
}

#define assert_three(got, x, y, z)                                                                 \
    do {                                                                                           \
        assert_int_equal((got)[0], x);                                                             \
        assert_int_equal((got)[1], y);                                                             \
        assert_int_equal((got)[2], z);                                                             \
    } while (0)

/* ------------------------------------------------------------------ TMA + cluster GEMM */

#define HOPPER(BM, BK, CLUSTER)                                                                    \
    "gemm_tma{\"BK\":" BK ",\"BM\":" BM ",\"BN\":128,\"CLUSTER\":" CLUSTER                         \
    ",\"CONSUMERS\":2,\"GROUP\":4,\"REGISTERS\":\"r40_232\",\"STAGES\":4}"

static void hopper_gemm_has_the_right_numbers(void **state)
{
    (void)state;
    struct bench b;
    bench_init(&b, GK_SOURCE_DIR "/kernels", DATA "hopper_gemm/gemm_tma.kernel.json", "emu:sm_90a",
               "gemm{\"K\":256,\"M\":1000,\"N\":512,\"alpha\":0.5}");
    struct gk_config config = config_of(&b, HOPPER("128", "64", "2"));
    assert_ok(render(&b, &config), b.err);
    const struct gk_plan_launch *launch = &b.plan.launches[0];
    assert_int_equal(b.plan.launch_count, 1);
    assert_false(b.plan.needs_k);
    assert_three(launch->grid, 8, 1, 1); /* 16 clusters of tiles, 8 SMs: 4 clusters of 2 */
    assert_three(launch->block, 384, 1, 1);
    assert_three(launch->cluster, 2, 1, 1);
    assert_int_equal(launch->smem_bytes, 1024 + 4 * (128 + 128) * 64 * 2 + 128 * 128 * 2);
    assert_int_equal(launch->carveout, 100);
    assert_true(launch->def->nonportable_cluster);
    assert_int_equal(launch->def->l2_window_tensor, 1);
    assert_int_equal(launch->arg_count, 10);
    assert_int_equal(launch->args[0].kind, GK_ARG_TENSOR_MAP);
    assert_int_equal(launch->args[0].size, 128);
    assert_int_equal(launch->args[2].index, 2);
    assert_int_equal(launch->args[3].bits, 1000);
    assert_int_equal(launch->args[8].bits, 32);
    assert_int_equal(launch->args[9].bits, 0x3F000000); /* 0.5f */
    const struct gk_plan_map *a = &b.plan.maps[0], *c = &b.plan.maps[2];
    assert_three(a->dims, 256, 1000, 1);
    assert_three(a->strides, 2, 512, 512000);
    assert_three(a->box, 64, 128, 1);
    assert_three(a->element_strides, 1, 1, 1);
    assert_int_equal(a->def->swizzle, 128);
    assert_int_equal(a->def->l2_promotion, 256);
    assert_three(c->dims, 512, 1000, 1);
    assert_three(c->strides, 2, 1024, 1024000);
    assert_three(c->box, 64, 128, 1);
    assert_string_equal(define_of(launch, "GK_REGISTERS"), "1");
    assert_string_equal(define_of(launch, "GK_REGISTERS_R24_240"), "2");
    assert_string_equal(define_of(launch, "GK_ARCH"), "900");

    struct gk_kernel_facts facts = {.regs = 168, .blocks_per_sm = 1, .max_clusters = 4};
    assert_ok(gk_plan_refine(&b.plan, &facts, &b.err), b.err);
    facts.max_clusters = 3;
    assert_status(gk_plan_refine(&b.plan, &facts, &b.err), GK_INPUT, b.err);
    assert_contains(b.err.text, "launch gemm_tma: constraint clusters_resident");
    facts = (struct gk_kernel_facts){.spill_bytes = 4, .max_clusters = 4};
    assert_status(gk_plan_refine(&b.plan, &facts, &b.err), GK_INPUT, b.err);
    assert_contains(b.err.text, "no_spills");
    bench_fini(&b);
}

static void hopper_space_names_the_rule(const char *problem, const char *message)
{
    struct bench b;
    bench_init(&b, GK_SOURCE_DIR "/kernels", DATA "hopper_gemm/gemm_tma.kernel.json", "emu:sm_90a",
               "gemm{\"K\":256,\"M\":1000,\"N\":512}");
    struct gk_problem other = {0};
    struct gk_space_def def = {0};
    assert_ok(gk_problem_from_text(&b.op->fields, problem, &other, &b.err), b.err);
    assert_status(gk_catalog_space(b.op, &other, &b.dev, &def, &b.err), GK_INPUT, b.err);
    assert_contains(b.err.text, message);
    gk_problem_fini(&other);
    bench_fini(&b);
}

static void rules_over_fields_refuse_the_template(void **state)
{
    (void)state;
    hopper_space_names_the_rule("gemm{\"K\":256,\"M\":64,\"N\":512,\"lda\":260}",
                                "gemm_tma: constraint tensor_map.a_map.stride_16");
    hopper_space_names_the_rule("gemm{\"K\":256,\"M\":64,\"N\":512,\"align\":8}",
                                "gemm_tma: constraint tensor_map.a_map.address_16");
    hopper_space_names_the_rule("gemm{\"K\":256,\"M\":64,\"N\":510}",
                                "gemm_tma: constraint tensor_map.c_map.stride_16");
    hopper_space_names_the_rule("gemm{\"K\":256,\"M\":64,\"N\":512,\"trans\":\"NN\"}",
                                "gemm_tma: constraint layout_nt: trans == 'NT': both operands run "
                                "along K (trans = NN)");
}

static void rules_over_parameters_refuse_the_config(void **state)
{
    (void)state;
    struct bench b;
    bench_init(&b, GK_SOURCE_DIR "/kernels", DATA "hopper_gemm/gemm_tma.kernel.json", "emu:sm_90a",
               "gemm{\"K\":256,\"M\":1000,\"N\":512}");
    struct gk_config config = config_of(&b, HOPPER("128", "128", "2"));
    config.values[3] = 2; /* STAGES: within shared memory */
    assert_status(render(&b, &config), GK_INPUT, b.err);
    assert_contains(b.err.text, "constraint tensor_map.a_map.inner_box_swizzle");
    config = config_of(&b, HOPPER("64", "64", "2"));
    assert_status(render(&b, &config), GK_INPUT, b.err);
    assert_contains(b.err.text, "constraint consumer_rows");
    assert_contains(b.err.text, "BM = 64, CONSUMERS = 2");
    struct gk_space_def def = {0};
    assert_ok(gk_device_props_builtin("emu:sm_80", &b.dev, &b.err), b.err);
    assert_status(gk_catalog_space(b.op, &b.problem, &b.dev, &def, &b.err), GK_INPUT, b.err);
    assert_contains(b.err.text, "gemm_tma: is written for sm_90a, not for sm_80");
    assert_ok(gk_catalog_serves(b.op, &b.problem, &b.err), b.err);
    bench_fini(&b);
}

/* ------------------------------------------------------------------ paged split-KV decode */

#define DECODE "\"batch\":3,\"kv_heads\":8,\"kv_len\":[0,17,4096]"
#define SPLIT  "paged_split{\"BN\":16,\"LOAD\":\"cp_async\",\"WARPS\":4,\"WAVES\":1}"

static void decode_pipeline_has_the_right_numbers(void **state)
{
    (void)state;
    struct bench b;
    bench_init(&b, DATA "ops", "attention_decode", "emu:sm_80",
               "attention_decode{" DECODE ",\"lse\":true,\"sink\":true}");
    struct gk_config config = {0};
    uint32_t tree = 9;
    assert_ok(gk_catalog_default(b.op, &b.problem, &b.def, &config, &tree, &b.err), b.err);
    char *text = gk_config_text(&b.def.trees[tree], &config);
    assert_string_equal(text, SPLIT);
    free(text);
    assert_ok(render(&b, &config), b.err);
    const struct gk_plan *plan = &b.plan;
    assert_int_equal(plan->launch_count, 3);
    assert_true(plan->needs_k);
    /* 3 x 8 rows, and two pieces for each of 8 SMs: 40 pieces of at most 256 steps. */
    assert_int_equal(plan->workspaces[0].bytes, (4 * 40 + 3 + 1) * 4);
    assert_int_equal(plan->workspaces[0].def->init, GK_WS_ANY);
    assert_int_equal(plan->workspaces[1].bytes, 40 * 4 * 128 * 4);
    assert_int_equal(plan->workspaces[2].bytes, 40 * 4 * 4);
    assert_int_equal(plan->workspaces[2].align, 16);
    assert_int_equal(plan->workspaces[2].def->init, GK_WS_ZERO);
    assert_int_equal(plan->workspaces[3].bytes, 24 * 4);
    assert_int_equal(plan->workspaces[3].def->init, GK_WS_ZERO_KEPT);

    const struct gk_plan_launch *schedule = &plan->launches[0], *split = &plan->launches[1],
                                *combine = &plan->launches[2];
    assert_true(schedule->def->is_plan);
    assert_false(split->def->is_plan);
    assert_three(schedule->grid, 1, 1, 1);
    assert_three(split->grid, 0, 0, 0); /* known after compiling */
    assert_three(split->block, 32, 4, 1);
    assert_int_equal(split->smem_bytes, 2 * 2 * 16 * 128 * 2);
    assert_true(split->def->pdl);
    assert_three(combine->grid, 3, 32, 1);
    assert_three(combine->block, 128, 1, 1);
    assert_int_equal(combine->args[2].kind, GK_ARG_WORKSPACE);
    assert_int_equal(combine->args[2].byte_offset, 16 * 40);
    assert_int_equal(split->arg_count, 19);
    assert_int_equal(split->args[18].size, 8);
    assert_int_equal(split->args[18].bits, 4113); /* tokens */
    float scale = 0;
    memcpy(&scale, &split->args[17].bits, sizeof scale);
    assert_true(scale > 0.1275f && scale < 0.1276f); /* log2(e) / sqrt(128) */
    assert_true(plan->flops == 4.0 * 4113 * 32 * 128);

    assert_int_equal(plan->tensors[1].extents[0], 294); /* 258 pages needed, and a pool beyond */
    assert_int_equal(plan->tensors[1].span, 294 * 16 * 8 * 128);
    assert_int_equal(plan->tensors[1].def->rows_owner, 4);
    assert_int_equal(plan->tensors[3].extents[1], 256);
    assert_int_equal(plan->tensors[5].extents[0], 4);
    assert_true(plan->tensors[6].present && plan->tensors[8].present);
    double value = 0;
    assert_ok(gk_plan_generator_arg(plan, plan->tensors[3].def->gen.args[0], -1, &value, &b.err),
              b.err);
    assert_true(value == 294);
    assert_ok(gk_plan_generator_arg(plan, plan->tensors[3].def->gen.args[1], -1, &value, &b.err),
              b.err);
    assert_true(value == 16);
    assert_ok(gk_plan_generator_arg(plan, plan->tensors[0].def->gen.args[0], 1.0, &value, &b.err),
              b.err);
    assert_true(value == 1.0);

    assert_string_equal(define_of(split, "N_WARPS"), "4");
    assert_string_equal(define_of(split, "DEC_LOAD"), "1");
    assert_string_equal(define_of(split, "DEC_LOAD_CP_ASYNC"), "1");
    assert_string_equal(define_of(split, "DEC_HEAD_DIM"), "128");
    assert_string_equal(define_of(split, "DEC_DTYPE"), "unsigned short");
    assert_string_equal(define_of(split, "DEC_SINK"), "1");
    assert_string_equal(define_of(split, "DEC_KV_LAYOUT_HND"), "1");
    assert_null(define_of(split, "DEC_PAGE_SIZE"));
    assert_null(define_of(schedule, "N_WARPS"));
    assert_string_equal(define_of(schedule, "DEC_BN"), "16");
    assert_null(define_of(combine, "DEC_BN"));

    struct gk_kernel_facts facts[3] = {
        {.blocks_per_sm = 8}, {.blocks_per_sm = 3}, {.blocks_per_sm = 8}};
    assert_ok(gk_plan_refine(&b.plan, facts, &b.err), b.err);
    assert_three(split->grid, 24, 1, 1);
    assert_false(plan->needs_k);
    facts[1].blocks_per_sm = 16;
    assert_ok(gk_plan_refine(&b.plan, facts, &b.err), b.err);
    assert_three(split->grid, 40, 1, 1);
    facts[0].spill_bytes = 8; /* the rule names another launch */
    assert_ok(gk_plan_refine(&b.plan, facts, &b.err), b.err);
    facts[1].spill_bytes = 8;
    assert_status(gk_plan_refine(&b.plan, facts, &b.err), GK_INPUT, b.err);
    assert_contains(b.err.text, "launch split: constraint no_spills");
    facts[1] = (struct gk_kernel_facts){0};
    assert_status(gk_plan_refine(&b.plan, facts, &b.err), GK_INPUT, b.err);
    assert_contains(b.err.text, "constraint resident");
    bench_fini(&b);
}

static void short_requests_need_no_combine(void **state)
{
    (void)state;
    struct bench b;
    bench_init(&b, DATA "ops", "attention_decode", "emu:sm_80",
               "attention_decode{\"batch\":2,\"kv_heads\":8,\"kv_len\":[1,16]}");
    struct gk_config config = config_of(&b, SPLIT);
    assert_ok(render(&b, &config), b.err);
    assert_false(b.plan.launches[2].present);
    assert_false(b.plan.workspaces[1].present);
    assert_true(b.plan.workspaces[3].present);
    assert_false(b.plan.tensors[6].present); /* sinks */
    assert_false(b.plan.tensors[8].present); /* LSE */
    struct gk_plan reference = {0};
    assert_ok(gk_plan_reference(b.op, &b.problem, &b.dev, &reference, &b.err), b.err);
    assert_three(reference.launches[0].grid, 2, 32, 1);
    assert_int_equal(reference.launches[0].args[7].kind, GK_ARG_RESULT);
    assert_int_equal(reference.launches[0].smem_bytes, 1024);
    assert_null(define_of(&reference.launches[0], "GK_HEAD_DIM"));
    assert_string_equal(define_of(&reference.launches[0], "GK_DTYPE"), "gk::bf16");
    double scale = 0, norm = 0;
    assert_ok(gk_plan_tolerance(&reference, 7, &scale, &norm, &b.err), b.err);
    assert_true(scale == 16 * 1.1920928955078125e-07 + 0.001953125 + 4 * 1.1920928955078125e-07);
    assert_true(norm == 0.01);
    assert_ok(gk_plan_tolerance(&reference, 8, &scale, &norm, &b.err), b.err);
    assert_true(norm == -1);
    gk_plan_fini(&reference);
    bench_fini(&b);
}

static void equal_code_has_equal_keys(void **state)
{
    (void)state;
    struct bench b;
    bench_init(&b, DATA "ops", "attention_decode", "emu:sm_80", "attention_decode{" DECODE "}");
    struct gk_config config = config_of(&b, SPLIT);
    struct gk_hash keys[3];
    assert_ok(render(&b, &config), b.err);
    for (int i = 0; i < 3; i++) {
        keys[i] = b.plan.launches[i].module_key;
    }
    assert_false(gk_hash_equal(&keys[0], &keys[1])); /* one source, two kernels */
    bench_problem(
        &b, "attention_decode{\"batch\":1,\"kv_heads\":8,\"kv_len\":[9000],\"page_size\":32}");
    assert_ok(render(&b, &config), b.err);
    for (int i = 0; i < 3; i++) {
        assert_true(gk_hash_equal(&keys[i], &b.plan.launches[i].module_key));
    }
    bench_problem(&b, "attention_decode{" DECODE ",\"head_dim\":64}"); /* baked */
    assert_ok(render(&b, &config), b.err);
    assert_false(gk_hash_equal(&keys[1], &b.plan.launches[1].module_key));
    bench_problem(&b, "attention_decode{" DECODE "}");
    config.values[1] = 8; /* WARPS, which only the split pass sees */
    assert_ok(render(&b, &config), b.err);
    assert_true(gk_hash_equal(&keys[0], &b.plan.launches[0].module_key));
    assert_false(gk_hash_equal(&keys[1], &b.plan.launches[1].module_key));
    assert_true(gk_hash_equal(&keys[2], &b.plan.launches[2].module_key));
    bench_fini(&b);
}

/* ------------------------------------------------------------------ edges */

struct edge {
    const char *param;
    int64_t value;
    enum gk_status status;
    const char *message;
};

static void every_edge_is_refused_by_name(void **state)
{
    (void)state;
    static const struct edge edges[] = {
        {"PITCH", 40, GK_INPUT, "constraint tensor_map.x_map.stride_16: "},
        {"PITCH", INT64_C(2199023255552), GK_INPUT, "constraint tensor_map.x_map.stride_2_40: "},
        {"BOX", 512, GK_INPUT, "constraint tensor_map.x_map.box_256: "},
        {"BOX", 3, GK_INPUT, "constraint tensor_map.x_map.inner_box_16: "},
        {"BOX", 32, GK_INPUT, "constraint tensor_map.x_map.inner_box_swizzle: "},
        {"STEP", 9, GK_INPUT, "constraint tensor_map.x_map.element_stride_8: "},
        {"ROWS", 0, GK_INPUT, "constraint tensor_map.x_map.dim_2_32: "},
        {"ROWS", 200, GK_INPUT,
         "constraint tensor_map.x_map.inside: the view ends at byte 12800 of "
         "tensor x, which has 4000"},
        {"START", 2, GK_INPUT, "constraint tensor_map.x_map.address_16: "},
        {"DIV", 0, GK_RANGE, "derived name quotient: "},
        {"SCALE", INT64_C(3037000500), GK_RANGE, "derived name square: "},
        {"SMEM", 1000000, GK_LIMIT, "launch edges: 1000000 bytes of shared memory; at most 232448"},
        {"SMEM", -1, GK_LIMIT, "launch edges: -1 bytes of shared memory"},
        {"BLOCK", 2048, GK_LIMIT, "launch edges: block.x is 2048; 1 to 1024 is allowed"},
        {"BLOCK", 0, GK_LIMIT, "launch edges: block.x is 0; "},
        {"BLOCK_Z", 65, GK_LIMIT, "launch edges: block.z is 65; 1 to 64 is allowed"},
        {"CLUSTER", 16, GK_LIMIT,
         "launch edges: a cluster of 16 blocks; at most 8 on sm_90a without the attribute "
         "nonportable_cluster"},
        {"GRID_Y", 65536, GK_LIMIT, "launch edges: grid.y is 65536; 1 to 65535 is allowed"},
        {"OFFSET", 4096, GK_RANGE,
         "launch edges: argument 1: offset is 4096; workspace scratch has "
         "1024 bytes"},
        {"EXTENT", -1, GK_LIMIT, "workspace scratch: -1 elements of f32; 0 to 1073741824"},
        {"EXTENT", INT64_C(4611686018427387904), GK_LIMIT,
         "workspace scratch: 4611686018427387904"},
        {"CARVEOUT", 101, GK_RANGE, "launch edges: carveout is 101; 0 to 100 percent"},
        {"WITH_MAP", 1, GK_INPUT, "launch edges: argument 0: tensor map x_map does not exist"},
    };
    struct bench b;
    bench_init(&b, DATA "toy", DATA "edges/edges.kernel.json", "emu:sm_90a",
               "scale{\"N\":1000,\"a\":1.5,\"check\":true,\"mode\":\"twice\"}");
    struct gk_config right = {.count = b.t->param_count};
    for (uint32_t i = 0; i < b.t->param_count; i++) {
        right.values[i] = b.t->params[i].values[0];
    }
    assert_ok(render(&b, &right), b.err);
    const struct gk_plan_launch *launch = &b.plan.launches[0];
    assert_int_equal(launch->args[6].bits, 1); /* check */
    assert_int_equal(launch->args[7].bits, 1); /* mode: twice */
    double difference = 0;
    memcpy(&difference, &launch->args[5].bits, sizeof difference);
    assert_true(difference == 999.0);
    for (size_t i = 0; i < GK_ARRAY_COUNT(edges); i++) {
        struct gk_config config = right;
        uint32_t k = 0;
        while (strcmp(b.t->params[k].name, edges[i].param) != 0) {
            k++;
            assert_true(k < b.t->param_count);
        }
        config.values[k] = edges[i].value;
        enum gk_status status = render(&b, &config);
        if (status != edges[i].status || !strstr(b.err.text, edges[i].message)) {
            fail_msg("%s = %lld: %s: %s; wanted %s: %s", edges[i].param, (long long)edges[i].value,
                     gk_status_name(status), status == GK_OK ? "" : b.err.text,
                     gk_status_name(edges[i].status), edges[i].message);
        }
    }
    bench_fini(&b);
}

static void every_problem_edge_is_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *problem;
        enum gk_status status;
        const char *message;
    } edges[] = {
        {"scale{\"N\":2147483648,\"dtype\":\"bf16\"}", GK_RANGE,
         "launch edges: argument 2 (N): 2147483648 does not fit i32"},
        {"scale{\"N\":2147483649,\"dtype\":\"bf16\"}", GK_LIMIT,
         "tensor x: 4294967298 bytes; the device has 4294967296"},
        {"scale{\"N\":1099511627776}", GK_LIMIT, "tensor x: 4398046511104 bytes; the device has"},
        {"scale{\"N\":1000,\"a\":1e300}", GK_RANGE,
         "launch edges: argument 3 (a): 1e+300 does not fit f32"},
        {"scale{\"N\":999}", GK_RANGE, "launch edges: argument 4 (N - 1000): -1 does not fit u32"},
    };
    struct bench b;
    bench_init(&b, DATA "toy", DATA "edges/edges.kernel.json", "emu:sm_90a", "scale{\"N\":1000}");
    struct gk_config right = {.count = b.t->param_count};
    for (uint32_t i = 0; i < b.t->param_count; i++) {
        right.values[i] = b.t->params[i].values[0];
    }
    for (size_t i = 0; i < GK_ARRAY_COUNT(edges); i++) {
        struct gk_config config = right;
        bench_problem(&b, edges[i].problem);
        if (strstr(edges[i].problem, "bf16")) {
            config.values[1] = 8; /* 16 bytes of bf16 */
        }
        assert_status(render(&b, &config), edges[i].status, b.err);
        assert_contains(b.err.text, edges[i].message);
    }
    bench_problem(&b, "scale{\"N\":40,\"shift\":3}");
    right.values[0] = 64;
    assert_status(render(&b, &right), GK_INPUT,
                  b.err); /* align is an element here: no tensor map */
    assert_contains(b.err.text, "tensor_map.x_map.");
    bench_fini(&b);
}

static void spans_count_offsets_and_emptiness(void **state)
{
    (void)state;
    struct bench b;
    bench_init(&b, DATA "toy", "scale", "emu:sm_80", "scale{\"N\":40,\"shift\":3}");
    struct gk_config config =
        config_of(&b, "scale_plain{\"KIND\":\"vec-4\",\"THREADS\":64,\"UNROLL\":1}");
    assert_ok(render(&b, &config), b.err);
    assert_int_equal(b.plan.tensors[0].offset, 3);
    assert_int_equal(b.plan.tensors[0].span, 43);
    assert_int_equal(b.plan.tensors[0].elements, 40);
    assert_int_equal(b.plan.tensors[0].align, 4);
    assert_int_equal(b.plan.tensors[1].align, 256);
    assert_string_equal(define_of(&b.plan.launches[0], "GK_KIND_VEC_4"), "1");
    bench_problem(&b, "scale{\"N\":0}");
    assert_ok(render(&b, &config), b.err);
    assert_int_equal(b.plan.tensors[0].span, 0);
    assert_int_equal(b.plan.tensors[0].elements, 0);
    assert_three(b.plan.launches[0].grid, 1, 1, 1);
    bench_fini(&b);
}

static int setup(void **state)
{
    (void)state;
    return gk_hash_setup(NULL) == GK_OK ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hopper_gemm_has_the_right_numbers),
        cmocka_unit_test(rules_over_fields_refuse_the_template),
        cmocka_unit_test(rules_over_parameters_refuse_the_config),
        cmocka_unit_test(decode_pipeline_has_the_right_numbers),
        cmocka_unit_test(short_requests_need_no_combine),
        cmocka_unit_test(equal_code_has_equal_keys),
        cmocka_unit_test(every_edge_is_refused_by_name),
        cmocka_unit_test(every_problem_edge_is_refused_by_name),
        cmocka_unit_test(spans_count_offsets_and_emptiness),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
