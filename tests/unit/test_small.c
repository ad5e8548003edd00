/*
 * Small problems of ops (op.json "small"), and what a worker with a checker does with them: for the
 * example of every op, and for the shapes of models, each default is legal on a small problem, with
 * the code that it has there; a finalist that races is rejected by rung "emulated".
 *
 * GKTUNE_TEST_SEED chooses one faulty finalist in five; GKTUNE_TEST_ALL=1 takes all.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/shapes.h"
#include "tests/support/exhaustive.h"
#include "tests/unit/bad_op.h"
#include "tests/unit/mistake_folder.h"
#include "worker/inspect/inspect.h"
#include "worker/scene.h"
#include "worker/trial_inside.h"

#define KERNELS GK_SOURCE_DIR "/kernels"
#define SAMPLE  5u /* one in so many */

/* A device, and the emulated one beside it, as a GPU's worker has. */
static struct place {
    const char *device, *target;
    struct op_trial_rig rig;
    struct gk_trial_bench checker;
} on_80 = {.device = "emu:sm_80", .target = "sm_80"},
  on_90 = {.device = "emu:sm_90a", .target = "sm_90a"};

/* ------------------------------------------------------------------ every op has some */

static const char *const EXAMPLES[] = {
    "gemm{\"K\":4096,\"M\":4096,\"N\":4096}",
    "gemm{\"K\":4096,\"M\":1,\"N\":28672}",
    "gemm{\"K\":7168,\"M\":16,\"N\":576}",
    "gemm{\"K\":513,\"M\":129,\"N\":255,\"dtype_out\":\"f32\",\"trans\":\"TN\"}",
    "gemm{\"K\":64,\"M\":4096,\"N\":4096,\"batch\":8}",
    "swiglu_gateup{\"K\":4096,\"M\":2048,\"N\":14336}",
    "linear_cross_entropy{\"K\":4096,\"cols\":128256,\"rows\":4096}",
    "rope{\"head_dim\":128,\"kv_heads\":8,\"q_heads\":32,\"tokens\":32768}",
    "rmsnorm_residual{\"cols\":8192,\"rows\":8192}",
    "rmsnorm_residual{\"cols\":4096,\"rows\":1}",
    "layernorm_dropout_residual{\"cols\":12288,\"mask\":true,\"rows\":2048}",
    "softmax{\"cols\":128256,\"dtype\":\"f32\",\"rows\":64}",
    "cross_entropy{\"cols\":128256,\"grad\":true,\"rows\":8192}",
    "silu_mul{\"cols\":28672,\"rows\":8192}",
    "gelu_mul{\"cols\":28672,\"rows\":8192}",
    "attention{\"kv_heads\":8,\"q_heads\":32,\"seq_q\":4096}",
    "attention{\"batch\":2,\"head_dim\":64,\"mask\":\"window\",\"q_heads\":8,\"seq_q\":4096,"
    "\"window_left\":1000}",
    "attention{\"batch\":3,\"kv_len\":{\"each\":[700,0,9000]},\"q_heads\":8,\"q_len\":{\"each\":"
    "[500,3,9000]}}",
    "attention_decode{\"batch\":1,\"kv_heads\":8,\"kv_len\":16384,\"q_heads\":32}",
    "attention_decode{\"batch\":64,\"kv_heads\":8,\"kv_len\":8192,\"page_size\":16,\"q_heads\":64}",
    "attention_decode{\"batch\":2,\"kv_heads\":8,\"kv_len\":4096,\"kv_lens\":{\"each\":[17,4096]},"
    "\"prefix_len\":512,\"q_heads\":32}",
    "mla_decode{\"batch\":128,\"kv_len\":4096,\"q_heads\":16}",
    "mla_decode{\"batch\":1,\"kv_len\":32768,\"q_heads\":128}",
};

static void has_small(const struct gk_catalog *catalog, const char *text, const char *device)
{
    const char *brace = strchr(text, '{');
    char name[40];
    struct op_trial_asked asked;
    struct gk_device_props props, emulated;
    struct gk_plan plan = {0};
    struct gk_err err = {0};
    bool found = false;
    (void)snprintf(name, sizeof name, "%.*s", (int)(brace - text), text);
    const struct gk_op *op = gk_catalog_find(catalog, name);
    op_trial_need(gk_device_props_builtin(device, &props, &err), &err);
    op_trial_need(
        gk_device_props_builtin(strcmp(props.target, "sm_90a") == 0 ? "emu:sm_90a" : "emu:sm_80",
                                &emulated, &err),
        &err);
    op_trial_ask(op, text, &props, "", &asked);
    const struct gk_template *template_ = gk_op_template(op, asked.config.template_name);
    op_trial_need(gk_plan_render(op, template_, &asked.problem, &asked.config, &props, &plan, &err),
                  &err);
    const int64_t sms[] = {1, 8, props.sms}; /* as a checker has */
    for (size_t i = 0; i < GK_ARRAY_COUNT(sms); i++) {
        emulated.sms = sms[i];
        for (uint32_t which = 0;; which++) { /* each is a problem, whichever serves */
            struct gk_problem small = {0};
            struct gk_plan other = {0};
            enum gk_status status = gk_problem_small(op, &asked.problem, which, &small, &err);
            if (status == GK_END) {
                break;
            }
            op_trial_need(status, &err);
            status = gk_plan_render(op, template_, &small, &asked.config, &emulated, &other, &err);
            found = found || (status == GK_OK && trial_is_same_code(&plan, &other));
            gk_plan_fini(&other);
            gk_problem_fini(&small);
        }
    }
    if (!found) {
        fail_msg("%s on %s: the default is legal on no small problem: %s", text, device, err.text);
    }
    gk_plan_fini(&plan);
    op_trial_asked_fini(&asked);
}

static void defaults_have_small_problems(void **state)
{
    struct gk_diag diag;
    struct gk_catalog *catalog = NULL;
    (void)state;
    gk_diag_init(&diag);
    assert_int_equal(gk_catalog_load(KERNELS, &catalog, &diag), GK_OK);
    for (size_t i = 0; i < GK_ARRAY_COUNT(EXAMPLES); i++) {
        has_small(catalog, EXAMPLES[i], "mock:sm_90a");
        has_small(catalog, EXAMPLES[i], "mock:sm_80");
    }
    gk_catalog_destroy(catalog);
    gk_diag_fini(&diag);
}

/* Requests of the first small problem: a short one, an empty one, a short one, one that fills its
 * room; the larger problem's own lengths are gone. */
static void lengths_are_each_requests_own(void **state)
{
    static const char *const TEXTS[] = {
        "attention_decode{\"batch\":1,\"kv_len\":16384,\"q_heads\":8}",
        "attention_decode{\"batch\":2,\"kv_len\":4096,\"kv_lens\":{\"each\":[17,4096]},\"q_heads\":"
        "8}"};
    struct gk_catalog *catalog = op_trial_catalog(KERNELS, "attention_decode");
    const struct gk_op *op = gk_catalog_find(catalog, "attention_decode");
    (void)state;
    for (size_t i = 0; i < GK_ARRAY_COUNT(TEXTS); i++) {
        struct gk_problem problem = {0}, small = {0};
        struct gk_err err = {0};
        op_trial_need(gk_problem_from_text(&op->fields, TEXTS[i], &problem, &err), &err);
        op_trial_need(gk_problem_small(op, &problem, 0, &small, &err), &err);
        assert_non_null(strstr(small.canonical, "\"batch\":4,"));
        assert_non_null(strstr(small.canonical, "\"kv_lens\":{\"each\":[161,0,161,200]}"));
        gk_problem_fini(&small);
        gk_problem_fini(&problem);
    }
    gk_catalog_destroy(catalog);
}

/* What is wrong is told at once. */
static void bad_ones_are_told(void **state)
{
    static const struct mistake_change CHANGE = {
        .name = "small of nothing",
        .file = "softmax/op.json",
        .old = "\"small\": [",
        .new = "\"small\": [{\"nothing\": \"1\", \"dtype\": \"2\", \"rows\": \"row\", \"cols\": "
               "[\"1\"]}, 5,"};
    static const char *const TOLD[] = {"small[0].nothing: is no field of the op", "small[0].cols: ",
                                       "small[0].dtype: only whole numbers become smaller",
                                       "small[0].rows: ", "small[1]: an object from field"};
    char root[] = "/tmp/gktune-small-XXXXXX";
    struct gk_catalog *catalog = NULL;
    struct gk_diag diag;
    struct gk_err err = {0};
    (void)state;
    gk_diag_init(&diag);
    mistake_folder_make(&CHANGE, "softmax", root);
    assert_int_not_equal(gk_catalog_load_for(root, "softmax", &catalog, &diag), GK_OK);
    mistake_folder_remove(root);
    (void)gk_diag_status(&diag, &err); /* fills err; the failure is known */
    for (size_t i = 0; i < GK_ARRAY_COUNT(TOLD); i++) {
        if (!strstr(err.text, TOLD[i])) {
            fail_msg("'%s' is not in: %s", TOLD[i], err.text);
        }
    }
    gk_diag_fini(&diag);
}

/* ------------------------------------------------------------------ the rung */

static const char *no_checker; /* why there is none; NULL: the place's */

/* What the check says of the twin's trial with the sources under `root`, whatever another device
 * said before. */
static void check(const struct place *place, const struct bad_op *twin, const char *root,
                  struct gk_record *record)
{
    const struct op_trial_rig *rig = &place->rig;
    struct gk_catalog *catalog = op_trial_catalog(root, twin->op);
    const struct gk_op *op = gk_catalog_find(catalog, twin->op);
    struct op_trial_asked asked;
    struct op_trial_built built;
    struct gk_err err = {0};
    bad_op_ask(twin, op, &rig->device->props, &asked);
    op_trial_build(rig, catalog, op, &asked.problem, &asked.config, &built);
    struct gk_trial trial = {.op = op,
                             .template_ = built.template_,
                             .problem = &asked.problem,
                             .config = &asked.config,
                             .input_set = GK_INPUT_SETS_ALL,
                             .reference_code = &built.reference,
                             .effort = gk_effort_search()};
    for (uint32_t i = 0; i < built.plan.launch_count; i++) {
        trial.codes[i] = &built.codes[i];
    }
    const struct gk_trial_bench bench = {.device = rig->device,
                                         .checker = no_checker ? NULL : &place->checker,
                                         .no_checker = no_checker};
    struct work *work = calloc(1, sizeof *work);
    assert_non_null(work);
    work->bench = &bench;
    work->trial = &trial;
    work->record = record;
    op_trial_need(gk_plan_render(op, built.template_, &asked.problem, &asked.config,
                                 &rig->device->props, &work->plan, &err),
                  &err);
    gk_record_init(record);
    record->environment = gk_json_new_object();
    op_trial_need(trial_device_check(work, &err), &err);
    gk_plan_fini(&work->plan);
    free(work);
    op_trial_unbuild(&built);
    op_trial_asked_fini(&asked);
    gk_catalog_destroy(catalog);
}

static const struct bad_op *twin_named(const char *name)
{
    uint32_t count = 0;
    const struct bad_op *twins = bad_ops(&count);
    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(twins[i].change.name, name) == 0) {
            return &twins[i];
        }
    }
    fail_msg("no twin is named %s", name);
    return NULL;
}

static void faults_are_found_beside_a_gpu(void **state)
{
    static const struct {
        const char *twin;
        const struct place *place;
        const char *failure;
    } FOUND[] = {
        {"rmsnorm uses one set of sums for all turns", &on_80, "race"},
        {"swiglu refills the stage that it multiplies", &on_80, "race"},
        {"swiglu picks results up before they are down", &on_80, "race"},
        {"swiglu stages results over tiles that are read", &on_80, "race"},
        {"lce puts results over tiles that are read", &on_80, "race"},
        {"lce reads the results of warps too early", &on_80, "race"},
        /* on lengths below the room for keys, on blocks that take several requests, on clusters */
        {"decode_tma learns the length too late", &on_90, "race"},
        {"decode_tma copies over what it cleared without a fence", &on_90, "race"},
        {"decode's part without keys is no part of its cluster", &on_90, "out_of_bounds"},
        {"decode sends to mailboxes that nobody has opened yet", &on_90, "bad_operand"},
    };
    const char *text = getenv("GKTUNE_TEST_SEED");
    uint64_t seed = text ? strtoull(text, NULL, 10) : 1, every = test_takes_all() ? 1 : SAMPLE;
    (void)state;
    for (size_t n = 0; n < GK_ARRAY_COUNT(FOUND); n++) {
        if ((n + seed) % every != 0) {
            continue;
        }
        const struct bad_op *twin = twin_named(FOUND[n].twin);
        char root[] = "/tmp/gktune-small-XXXXXX";
        struct gk_record record;
        check(FOUND[n].place, twin, KERNELS, &record);
        if (record.failure != GK_FAILURE_NONE) {
            fail_msg("%s: %s", FOUND[n].twin, record.message);
        }
        assert_int_equal(record.rung_count, 1);
        assert_string_equal(record.rungs[0].name, "emulated");
        assert_true(record.rungs[0].passed);
        assert_null(gk_json_get(record.environment, "emulated_not"));
        gk_record_fini(&record);
        mistake_folder_make(&twin->change, twin->op, root);
        check(FOUND[n].place, twin, root, &record);
        mistake_folder_remove(root);
        if (strcmp(gk_failure_name(record.failure), FOUND[n].failure) != 0) {
            fail_msg("%s: %s: %s", FOUND[n].twin, gk_failure_name(record.failure),
                     record.message ? record.message : "");
        }
        assert_int_equal(record.rung_count, 1);
        assert_false(record.rungs[0].passed);
        assert_non_null(strstr(record.message, "on the emulated device, "));
        gk_record_fini(&record);
    }
}

static const struct gk_device_ops *inner_ops; /* of the device that stands for the GPU */
static uint32_t gpu_launches;

static enum gk_status counted_launch(struct gk_device *device, struct gk_device_kernel *kernel,
                                     const struct gk_device_launch *launch,
                                     struct gk_device_report *report_out, struct gk_err *err)
{
    gpu_launches++;
    return inner_ops->launch(device, kernel, launch, report_out, err);
}

/* What is right is computed where it costs nothing; the config itself runs on the checker. */
static void references_come_from_the_gpu(void **state)
{
    struct gk_device *gpu = on_80.rig.device;
    struct gk_device_ops ops = *gpu->ops;
    struct gk_record record;
    (void)state;
    inner_ops = gpu->ops;
    ops.launch = counted_launch;
    gpu->ops = &ops;
    check(&on_80, twin_named("rmsnorm divides by the padded row"), KERNELS, &record);
    gpu->ops = inner_ops;
    assert_string_equal(gk_failure_name(record.failure), "none");
    assert_int_equal(record.rung_count, 1);
    assert_int_equal(gpu_launches, 1); /* three schedules, one set of inputs, one reference */
    gk_record_fini(&record);
}

/* Where no small problem serves, the record says so, and why. */
static void what_cannot_run_there_is_marked(void **state)
{
    struct gk_device_props *props = &on_80.checker.device->props;
    int64_t threads = props->threads_block_max;
    struct gk_record record;
    (void)state;
    props->threads_block_max = 16;
    check(&on_80, twin_named("rmsnorm uses one set of sums for all turns"), KERNELS, &record);
    props->threads_block_max = threads;
    assert_string_equal(gk_failure_name(record.failure), "none");
    assert_int_equal(record.rung_count, 0);
    assert_true(record.marks >> GK_MARK_NOT_EMULATED & 1);
    assert_non_null(strstr(gk_json_get_string(record.environment, "emulated_not", ""),
                           "legal on no small problem"));
    gk_record_fini(&record);
    no_checker = "no device is named emu:sm_999";
    check(&on_80, twin_named("rmsnorm uses one set of sums for all turns"), KERNELS, &record);
    no_checker = NULL;
    assert_string_equal(gk_failure_name(record.failure), "none");
    assert_true(record.marks >> GK_MARK_NOT_EMULATED & 1);
    assert_non_null(
        strstr(gk_json_get_string(record.environment, "emulated_not", ""), "emu:sm_999"));
    gk_record_fini(&record);
}

/* On a device that compares itself, as a GPU does. */
static void finalists_have_the_rung(void **state)
{
    static const char *const TEXT = "softmax{\"cols\":96,\"rows\":9}";
    const struct gk_compiler_places places = {.file = getenv("GKTUNE_NVRTC"),
                                              .cuda_home = getenv("CUDA_HOME")};
    struct op_trial_rig *rig = &on_80.rig;
    struct gk_trial_bench *bench = &rig->bench;
    struct gk_catalog *catalog = op_trial_catalog(KERNELS, "softmax");
    const struct gk_op *op = gk_catalog_find(catalog, "softmax");
    struct op_trial_asked asked;
    struct gk_err err = {0};
    (void)state;
    rig->device->props.l2_bytes = 4096; /* few sets */
    op_trial_need(gk_inspector_create(rig->device, &places, NULL, &bench->inspector, &err), &err);
    bench->scenes = gk_scenes_create(rig->device, bench->inspector, (uint64_t)64 << 20);
    bench->kept = gk_kept_create();
    bench->checker = &on_80.checker;
    assert_true(bench->scenes && bench->kept);
    op_trial_ask(op, TEXT, &rig->device->props, "", &asked);
    for (int is_finalist = 0; is_finalist < 2; is_finalist++) {
        struct gk_record record;
        op_trial_run(rig, catalog, op, &asked.problem, &asked.config,
                     is_finalist ? GK_INPUT_SETS_ALL : 1, &record);
        if (record.failure != GK_FAILURE_NONE) {
            fail_msg("%s", record.message);
        }
        const struct gk_rung *last = &record.rungs[record.rung_count - 1];
        assert_int_equal(strcmp(last->name, "emulated") == 0, is_finalist);
        gk_record_fini(&record);
    }
    gk_kept_destroy(bench);
    gk_scenes_destroy(bench->scenes);
    gk_inspector_destroy(bench->inspector);
    op_trial_asked_fini(&asked);
    gk_catalog_destroy(catalog);
}

static bool open_place(struct place *place)
{
    struct gk_err err = {0};
    return op_trial_open(&place->rig, place->device) == 0 &&
           gk_checker_open(place->target, &place->checker, &err) == GK_OK;
}

static void close_place(struct place *place)
{
    gk_checker_close(&place->checker);
    op_trial_close(&place->rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(defaults_have_small_problems),
                                       cmocka_unit_test(lengths_are_each_requests_own),
                                       cmocka_unit_test(bad_ones_are_told),
                                       cmocka_unit_test(faults_are_found_beside_a_gpu),
        cmocka_unit_test(references_come_from_the_gpu),
                                       cmocka_unit_test(what_cannot_run_there_is_marked),
                                       cmocka_unit_test(finalists_have_the_rung)};
    if (!open_place(&on_80) || !open_place(&on_90)) {
        return 1;
    }
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    close_place(&on_90);
    close_place(&on_80);
    return failed;
}
