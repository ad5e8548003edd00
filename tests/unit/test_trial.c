/*
 * Trials on the emulated device: configs that are right, and one of each mistake that must be
 * caught.
 */
#include "worker/trial.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/code_for_tests.h"
#include "tests/unit/pressed.h"
#include "worker/trial_inside.h"

static struct gk_compiler *compiler;
static struct gk_device *device;
static struct gk_references *references;
static struct gk_inspector *inspector;
static struct gk_scenes *scenes; /* lent to a trial: the device compares */
static struct gk_trial_bench bench;
static struct gk_hash keep; /* of the trials that run() makes */
static bool keeps, measure_only;
static enum gk_trial_sets sets;
static enum gk_policy policy;
static struct gk_catalog *added, *gemms;

static void need(enum gk_status status, const struct gk_err *err)
{
    if (status != GK_OK) {
        fail_msg("%s: %s", gk_status_name(status), err->text);
    }
}

static struct gk_catalog *load(const char *root, const char *op)
{
    struct gk_catalog *catalog = NULL;
    struct gk_diag diag;
    struct gk_err err = {0};
    gk_diag_init(&diag);
    if (gk_catalog_load_for(root, op, &catalog, &diag) != GK_OK) {
        (void)gk_diag_status(&diag, &err);
        print_error("%s\n", err.text);
    }
    gk_diag_fini(&diag);
    return catalog;
}

static int set_up(void **state)
{
    struct gk_err err = {0};
    (void)state;
    if (gk_hash_setup(&err) != GK_OK || gk_device_open("emu:sm_80", &device, &err) != GK_OK) {
        print_error("%s\n", err.text);
        return -1;
    }
    references = gk_references_create((size_t)256 << 20);
    bench = (struct gk_trial_bench){.device = device, .references = references};
    added = load(GK_SOURCE_DIR "/tests/data/worker", "add");
    gemms = load(GK_SOURCE_DIR "/kernels", "gemm");
    return references && added && gemms ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    gk_kept_destroy(&bench);
    gk_scenes_destroy(scenes);
    gk_inspector_destroy(inspector);
    gk_references_destroy(references);
    gk_device_close(device);
    gk_catalog_destroy(added);
    gk_catalog_destroy(gemms);
    return 0;
}

static void compile(const struct gk_catalog *catalog, const struct gk_plan *plan, uint32_t launch,
                    struct gk_compile_output *output)
{
    struct gk_compile_job job = {0}, copy = {0};
    struct gk_err err = {0};
    need(gk_compile_job_make(catalog, plan, launch, "sm_80", &job, &err), &err);
    struct gk_json *json = gk_compile_job_to_json(&job); /* as it travels */
    need(gk_compile_job_from_json(json, &copy, &err), &err);
    need(code_for_tests_run(&copy, compiler, output, &err), &err);
    gk_json_free(json);
    gk_compile_job_fini(&job);
    gk_compile_job_fini(&copy);
}

/* Compiles and runs a config given as canonical text. */
static void run(const struct gk_catalog *catalog, const char *problem_text, const char *config_text,
                uint32_t input_set, struct gk_record *record)
{
    struct gk_problem problem = {0};
    struct gk_space_def def = {0};
    struct gk_config config = {0};
    struct gk_plan plan = {0}, reference = {0};
    struct gk_compile_output outputs[GK_LAUNCHES_MAX] = {0}, reference_output = {0};
    struct gk_err err = {0};
    uint32_t tree = 0;
    const struct gk_op *op = gk_catalog_op(catalog, 0);
    need(gk_problem_from_text(&op->fields, problem_text, &problem, &err), &err);
    need(gk_catalog_space(op, &problem, &device->props, &def, &err), &err);
    if (config_text) {
        need(gk_config_from_text(&def, config_text, &config, &tree, &err), &err);
    } else {
        need(gk_catalog_default(op, &problem, &def, &config, &tree, &err), &err);
    }
    struct gk_trial trial = {.op = op,
                             .template_ = &op->templates[0],
                             .problem = &problem,
                             .config = &config,
                             .input_set = input_set,
                             .reference_code = &reference_output};
    for (uint32_t i = 0; i < op->template_count; i++) {
        if (strcmp(op->templates[i].name, config.template_name) == 0) {
            trial.template_ = &op->templates[i];
        }
    }
    need(gk_plan_render(op, trial.template_, &problem, &config, &device->props, &plan, &err), &err);
    need(gk_plan_reference(op, &problem, &device->props, &reference, &err), &err);
    compile(catalog, &reference, 0, &reference_output);
    assert_true(reference_output.compiled);
    for (uint32_t i = 0; i < plan.launch_count; i++) {
        if (plan.launches[i].present) {
            compile(catalog, &plan, i, &outputs[i]);
            if (!outputs[i].compiled) {
                fail_msg("%s", outputs[i].log);
            }
        }
        trial.codes[i] = &outputs[i];
    }
    trial.effort = gk_effort_search();
    trial.keep = keeps ? &keep : NULL;
    trial.measure_only = measure_only;
    trial.sets = sets;
    trial.policy = policy;
    gk_record_init(record);
    need(gk_trial_run(&bench, &trial, record, &err), &err);
    for (uint32_t i = 0; i < GK_LAUNCHES_MAX; i++) {
        gk_compile_output_fini(&outputs[i]);
    }
    gk_compile_output_fini(&reference_output);
    gk_plan_fini(&plan);
    gk_plan_fini(&reference);
    gk_space_def_fini(&def);
    gk_problem_fini(&problem);
}

static void expect_done(struct gk_record *record, uint32_t rungs)
{
    if (record->failure != GK_FAILURE_NONE) {
        fail_msg("%s at %s: %s", gk_failure_name(record->failure), gk_stage_name(record->stage),
                 record->message);
    }
    assert_int_equal(record->stage, GK_STAGE_DONE);
    assert_true(record->time_ns > 0);
    assert_true(record->modelled);
    assert_int_equal(record->rung_count, rungs);
    for (uint32_t i = 0; i < rungs; i++) {
        assert_true(record->rungs[i].passed);
        assert_true(record->rungs[i].compared > 0);
    }
    gk_record_fini(record);
}

static void right_vector_add(void **state)
{
    struct gk_record record;
    (void)state;
    run(added, "add{\"n\":1000}", "add_some{\"BLOCK\":128,\"BUG\":\"none\"}", 1, &record);
    assert_true(record.kernels[0].regs > 0);
    expect_done(&record, 2);
    run(added, "add{\"dtype\":\"bf16\",\"n\":777}", "add_some{\"BLOCK\":32,\"BUG\":\"none\"}", 0,
        &record);
    expect_done(&record, 2);
    run(added, "add{\"n\":1}", NULL, GK_INPUT_SETS_ALL, &record);
    expect_done(&record, 5);
}

static void right_gemm(void **state)
{
    struct gk_record record;
    (void)state;
    run(gemms, "gemm{\"K\":256,\"M\":64,\"N\":128}", NULL, 2, &record);
    expect_done(&record, 2);
    run(gemms, "gemm{\"K\":520,\"M\":5,\"N\":72,\"act\":\"gelu\",\"bias\":true}", NULL, 0, &record);
    expect_done(&record, 1);
}

struct mistake {
    const char *bug;
    enum gk_failure failure;
    const char *text; /* part of the message */
};

/* Each mistake gets its name, and the config behind it meets a clean device. */
static void expect_mistakes(const struct mistake *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct gk_record record;
        char text[128];
        (void)snprintf(text, sizeof text, "add_some{\"BLOCK\":128,\"BUG\":\"%s\"}", cases[i].bug);
        run(added, "add{\"n\":500}", text, 0, &record);
        print_message("%s: %s: %s\n", cases[i].bug, gk_failure_name(record.failure),
                      record.message ? record.message : "-");
        assert_int_equal(record.failure, cases[i].failure);
        assert_non_null(strstr(record.message, cases[i].text));
        gk_record_fini(&record);
        run(added, "add{\"n\":500}", "add_some{\"BLOCK\":128,\"BUG\":\"none\"}", 0, &record);
        expect_done(&record, 2);
    }
}

static void mistakes(void **state)
{
    static const struct mistake cases[] = {
        {"off_by_one", GK_FAILURE_WRONG, "1 of 500 elements are outside the bound"},
        {"wrong_place", GK_FAILURE_WRONG, "at [1]"},
        {"never_written", GK_FAILURE_NEVER_WRITTEN, "first at [499]"},
        {"nan", GK_FAILURE_NONFINITE, "first at [5]"},
        {"beyond", GK_FAILURE_OUT_OF_BOUNDS, "add_some.cu"},
        {"misaligned", GK_FAILURE_MISALIGNED, "add_some.cu"},
        {"unwritten", GK_FAILURE_UNWRITTEN_READ, "scratch"},
        {"input", GK_FAILURE_INPUT_CHANGED, "input a changed, first at byte 1"},
        {"dirty", GK_FAILURE_WORKSPACE, "flags"},
        {"trap", GK_FAILURE_TRAP, "add_some"},
    };
    (void)state;
    expect_mistakes(cases, GK_ARRAY_COUNT(cases));
}

/* Right at small shapes and wrong at others: what another problem's verification said is no answer,
 * each is verified at its own full size. */
static void right_at_some_shapes_only(void **state)
{
    static const struct {
        const char *bug, *right, *wrong;
        enum gk_failure failure;
    } cases[] = {
        {"nan", "add{\"n\":5}", "add{\"n\":6}", GK_FAILURE_NONFINITE},
        {"wrong_place", "add{\"n\":1}", "add{\"n\":500}", GK_FAILURE_WRONG},
    };
    (void)state;
    for (size_t i = 0; i < GK_ARRAY_COUNT(cases); i++) {
        struct gk_record record;
        char text[128];
        (void)snprintf(text, sizeof text, "add_some{\"BLOCK\":128,\"BUG\":\"%s\"}", cases[i].bug);
        run(added, cases[i].right, text, GK_INPUT_SETS_ALL, &record);
        expect_done(&record, 5);
        run(added, cases[i].wrong, text, GK_INPUT_SETS_ALL, &record);
        assert_int_equal(record.failure, cases[i].failure);
        gk_record_fini(&record);
    }
}

static void endless_loops(void **state)
{
    static const char *const bugs[] = {"endless", "deadlock"};
    int64_t limit = device->props.work_limit;
    (void)state;
    device->props.work_limit = 50000000;
    for (size_t i = 0; i < GK_ARRAY_COUNT(bugs); i++) {
        struct gk_record record;
        char text[128];
        (void)snprintf(text, sizeof text, "add_some{\"BLOCK\":128,\"BUG\":\"%s\"}", bugs[i]);
        run(added, "add{\"n\":500}", text, 0, &record);
        print_message("%s: %s: %s\n", bugs[i], gk_failure_name(record.failure), record.message);
        assert_true(record.failure == GK_FAILURE_TIMEOUT || record.failure == GK_FAILURE_DEADLOCK);
        gk_record_fini(&record);
    }
    device->props.work_limit = limit;
}

static void too_much_work(void **state)
{
    struct gk_record record;
    int64_t limit = device->props.work_limit;
    (void)state;
    device->props.work_limit = 1000;
    run(added, "add{\"n\":500}", NULL, 0, &record);
    assert_int_equal(record.failure, GK_FAILURE_WORK_LIMIT);
    assert_non_null(strstr(record.message, "1000"));
    gk_record_fini(&record);
    device->props.work_limit = limit;
}

/* ------------------------------------------------------------------ the device compares */

/* As a GPU would do it: scenes, recordings, comparisons by kernels. With a small L2 the sets are
 * few. */
static int set_up_scenes(void **state)
{
    struct gk_err err = {0};
    struct gk_compiler_places places = {.file = getenv("GKTUNE_NVRTC"),
                                        .cuda_home = getenv("CUDA_HOME")};
    if (set_up(state) != 0) {
        return -1;
    }
    device->props.l2_bytes = 4096;
    if (gk_inspector_create(device, &places, NULL, &inspector, &err) != GK_OK) {
        print_error("%s\n", err.text);
        return -1;
    }
    scenes = gk_scenes_create(device, inspector, (uint64_t)256 << 20);
    bench.inspector = inspector;
    bench.scenes = scenes;
    bench.kept = gk_kept_create();
    return scenes && bench.kept ? 0 : -1;
}

static void right_on_device(void **state)
{
    struct gk_record record;
    (void)state;
    run(added, "add{\"n\":1000}", "add_some{\"BLOCK\":128,\"BUG\":\"none\"}", 1, &record);
    assert_true(record.gpu_verify_ns > 0);
    assert_true(record.gpu_measure_ns >= record.time_ns * 50);
    assert_int_equal(gk_json_get_int(record.environment, "launches", 0) % 4, 0);
    assert_string_equal(gk_json_get_string(record.environment, "regime", ""), "burst");
    expect_done(&record, 2);
    run(added, "add{\"dtype\":\"bf16\",\"n\":777}", "add_some{\"BLOCK\":32,\"BUG\":\"none\"}", 0,
        &record);
    expect_done(&record, 2);
    /* All sets, and once more after timing. */
    run(added, "add{\"n\":1}", NULL, GK_INPUT_SETS_ALL, &record);
    assert_string_equal(record.rungs[5].name, "after_timing");
    expect_done(&record, 6);
    run(gemms, "gemm{\"K\":64,\"M\":16,\"N\":40,\"ldc\":48}", NULL, 2, &record);
    expect_done(&record, 2);
}

static void mistakes_on_device(void **state)
{
    static const struct mistake cases[] = {
        {"off_by_one", GK_FAILURE_WRONG, "1 of 500 elements are outside the bound"},
        {"wrong_place", GK_FAILURE_WRONG, "at [1]"},
        {"never_written", GK_FAILURE_NEVER_WRITTEN, "first at [499]"},
        {"nan", GK_FAILURE_NONFINITE, "first at [5]"},
        {"beyond", GK_FAILURE_CANARY, "around the buffer changed, first at byte 2000"},
        {"misaligned", GK_FAILURE_MISALIGNED, "add_some.cu"},
        {"input", GK_FAILURE_INPUT_CHANGED, "input a changed: 4 bytes, first at byte"},
        {"dirty", GK_FAILURE_WORKSPACE, "flags"},
        /* Told by the workspace, before anybody looks at the inputs. */
        {"dirty_input", GK_FAILURE_WORKSPACE, "flags"},
        {"trap", GK_FAILURE_TRAP, "add_some"},
        /* Right while it is verified: only timing launches it often enough. */
        {"late_input", GK_FAILURE_INPUT_CHANGED, "while it was timed: input a changed"},
        {"late_guard", GK_FAILURE_CANARY, "while it was timed: y: "},
    };
    (void)state;
    expect_mistakes(cases, GK_ARRAY_COUNT(cases));
}

/* A pass of a final round is looked at as well, and one that fails for its time is cleaned after.
 */
static void late_damage_in_passes(void **state)
{
    struct gk_record record;
    const char *late = "add_some{\"BLOCK\":128,\"BUG\":\"late_guard\"}";
    (void)state;
    keep = gk_hash_text("one that goes wrong late");
    keeps = true;
    run(added, "add{\"n\":500}", late, GK_INPUT_SETS_ALL, &record);
    assert_int_equal(record.failure, GK_FAILURE_CANARY);
    assert_int_equal(record.stage, GK_STAGE_VERIFY);
    gk_record_fini(&record);
    measure_only = true;
    run(added, "add{\"n\":500}", late, 0, &record);
    assert_int_equal(record.failure, GK_FAILURE_CANARY);
    assert_int_equal(record.stage, GK_STAGE_MEASURE);
    gk_record_fini(&record);
    keeps = measure_only = false;
    int64_t rate = device->props.mem_bytes_per_us;
    device->props.mem_bytes_per_us = 1; /* everything is faster than that */
    run(added, "add{\"n\":500}", late, 0, &record);
    device->props.mem_bytes_per_us = rate;
    assert_int_equal(record.failure, GK_FAILURE_FLOOR);
    gk_record_fini(&record);
    run(added, "add{\"n\":500}", NULL, 0, &record);
    expect_done(&record, 2);
}

/* Timed where an allocator puts tensors; verified once at the alignment that was promised, no
 * better. */
static void alignment_of_slots(void **state)
{
    struct gk_problem problem = {0};
    struct gk_plan plan = {0};
    struct gk_memory memory = {0};
    struct gk_scene *scene = NULL;
    struct gk_err err = {0};
    const struct gk_op *op = gk_catalog_op(gemms, 0);
    (void)state;
    need(gk_problem_from_text(&op->fields, "gemm{\"K\":64,\"M\":8,\"N\":32}", &problem, &err),
         &err);
    need(gk_plan_reference(op, &problem, &device->props, &plan, &err), &err);
    const struct gk_besides both = {{GK_INPUTS_EXACT, GK_INPUTS_EXTREME}, GK_BESIDES_MAX};
    need(gk_scene_get(scenes, &plan, &problem, &both, &scene, &err), &err);
    assert_int_equal(gk_scene_slots_beside(scene), GK_BESIDES_MAX);
    for (uint32_t slot = 0; slot < gk_scene_slots(scene) + GK_BESIDES_MAX; slot++) {
        bool beside = slot >= gk_scene_slot_beside(scene, 0);
        gk_scene_memory(scene, slot, &memory);
        for (uint32_t i = 0; i < op->tensor_count; i++) {
            if (plan.tensors[i].present) {
                assert_int_equal(memory.tensors[i].address % 256 == 0, !beside);
                assert_int_equal(memory.tensors[i].address % 16, 0);
                assert_int_equal(memory.tensors[i].address % 32, beside ? 16 : 0);
            }
        }
    }
    gk_plan_fini(&plan);
    gk_problem_fini(&problem);
}

static double floor_of(const char *problem_text)
{
    struct gk_problem problem = {0};
    struct gk_err err = {0};
    const struct gk_op *op = gk_catalog_op(gemms, 0);
    struct work *work = calloc(1, sizeof *work);
    assert_non_null(work);
    work->bench = &bench;
    need(gk_problem_from_text(&op->fields, problem_text, &problem, &err), &err);
    need(gk_plan_reference(op, &problem, &device->props, &work->plan, &err), &err);
    double ns = trial_floor_ns(work);
    gk_plan_fini(&work->plan);
    gk_problem_fini(&problem);
    free(work);
    return ns;
}

/* A good kernel of 8-bit operands must not count as faster than possible. */
static void floor_of_eight_bits(void **state)
{
    double wide = floor_of("gemm{\"K\":512,\"M\":512,\"N\":512}");
    double narrow = floor_of("gemm{\"K\":512,\"M\":512,\"N\":512,\"dtype\":\"e4m3\"}");
    (void)state;
    assert_true(wide > 0);
    assert_true(fabs(narrow / wide - 0.5) < 1e-9);
}

/* What was loaded and recorded for a final round's first pass serves the next. */
static void passes_on_device(void **state)
{
    (void)state;
    keep = gk_hash_text("one config of a final round");
    keeps = true;
    for (int pass = 1; pass <= 3; pass++) {
        struct gk_record record;
        measure_only = pass > 1;
        run(added, "add{\"n\":500}", NULL, GK_INPUT_SETS_ALL, &record);
        assert_true(record.gpu_measure_ns > 0);
        assert_true((record.gpu_verify_ns > 0) == (pass == 1));
        expect_done(&record, pass == 1 ? 6 : 0);
    }
    keeps = measure_only = false;
}

/* ------------------------------------------------------------------ a device that is pressed */

static int press(void **state)
{
    (void)state;
    gk_kept_clear(&bench);
    pressed_begin(device);
    return 0;
}

/* A tenth of a millisecond a launch: a sample is fifty launches, not five milliseconds of an
 * interpreter's microseconds. What these cases look at does not depend on the time. */
static int press_briefly(void **state)
{
    int result = press(state);
    pressed.launch_ns = 1e5;
    return result;
}

/* So slow that a sample is one launch of each set. */
static int press_slowly(void **state)
{
    int result = press(state);
    pressed.launch_ns = 3e7;
    return result;
}

static int release_pressure(void **state)
{
    (void)state;
    gk_kept_clear(&bench);
    bench.scenes = scenes;
    keeps = measure_only = false;
    sets = GK_TRIAL_SETS_PLAIN;
    policy = GK_POLICY_COLD_GRAPH;
    device->ops = pressed.real;
    return 0;
}

/* Memory that is kept for passes to come fails nobody's trial. */
static void kept_makes_room(void **state)
{
    struct gk_record record;
    (void)state;
    keep = gk_hash_text("a config of the round before");
    keeps = true;
    run(added, "add{\"n\":500}", NULL, GK_INPUT_SETS_ALL, &record);
    expect_done(&record, 6);
    assert_int_equal(pressed.graphs, 1);
    keeps = false;
    pressed.tight = true;
    run(added, "add{\"n\":501}", NULL, 0, &record);
    expect_done(&record, 2);
    assert_int_equal(pressed.graphs, 0);
}

/* Scenes stay within their bound with the references that come after they were made, and what was
 * recorded over one that had to go goes with it. */
static void scenes_stay_within_their_bound(void **state)
{
    const uint64_t bound = 1750000; /* two of 0.73 MB; the third has to push one out */
    char problem[64];
    struct gk_record record;
    (void)state;
    bench.scenes = gk_scenes_create(device, inspector, bound);
    assert_non_null(bench.scenes);
    keeps = true;
    for (int i = 0; i < 3; i++) {
        (void)snprintf(problem, sizeof problem, "add{\"n\":%d}", 4000 + i);
        keep = gk_hash_text(problem);
        run(added, problem, NULL, GK_INPUT_SETS_ALL, &record);
        expect_done(&record, 6);
    }
    print_message("%llu bytes at most\n", (unsigned long long)pressed.most);
    assert_true(pressed.most > bound / 2 && pressed.most < bound + 40000);
    assert_int_equal(pressed.graphs, 2);
    gk_kept_clear(&bench);
    gk_scenes_destroy(bench.scenes);
}

/* A tenth of a second a launch: slow, but not hung. One of each set is a sample: nobody waits for
 * fifty. */
static void slow_is_not_hung(void **state)
{
    struct gk_record record;
    (void)state;
    pressed.launch_ns = 1e8;
    run(added, "add{\"n\":502}", NULL, 0, &record);
    assert_true(record.time_ns > 0.99e8 && record.time_ns < 1.01e8);
    assert_int_equal(gk_json_get_int(record.environment, "launches", 0), 7); /* one of each set */
    assert_false(record.marks >> GK_MARK_FEW_LAUNCHES & 1);
    expect_done(&record, 2);
    assert_false(pressed.impatient);
    pressed.launch_ns = 4e6; /* of shorter ones as many as take a tenth of a second */
    run(added, "add{\"n\":502}", NULL, 0, &record);
    assert_int_equal(gk_json_get_int(record.environment, "launches", 0), 28);
    assert_false(record.marks >> GK_MARK_FEW_LAUNCHES & 1);
    expect_done(&record, 2);
    pressed.launch_ns = 1.9e9; /* one of each set would be longer than the longest patience */
    sets = GK_TRIAL_SETS_COMPARE;
    run(added, "add{\"n\":400}", NULL, 0, &record);
    assert_true(record.time_ns > 1.89e9 && record.time_ns < 1.91e9);
    assert_int_equal(gk_json_get_int(record.environment, "launches", 0), 7); /* of 9 */
    assert_true(record.marks >> GK_MARK_FEW_LAUNCHES & 1);
    assert_non_null(gk_json_get(record.environment, "twice_not"));
    expect_done(&record, 2);
    assert_false(pressed.impatient);
}

/* Samples taken while the clock was throttled are taken again, three times at most: a GPU that
 * always is has a time all the same, and a mark beside it. */
static void throttled_samples_are_taken_again(void **state)
{
    static const struct {
        int64_t throttle;
        uint32_t looks, dropped;
        bool marked;
    } cases[] = {
        {0x40, 0, 0, false}, /* hardware's thermal slowdown */
        {0x40, 2, 2, false}, {0x40, 3, 3, false}, {0x40, 9, 3, true},
        {0x20, 1, 1, false}, {0x4, 9, 0, false}, /* the power cap is how a busy GPU is */
        {0x1, 9, 0, false},                      /* idle */
    };
    (void)state;
    pressed.ops.vitals = pressed_vitals;
    for (size_t i = 0; i < GK_ARRAY_COUNT(cases); i++) {
        struct gk_record record;
        pressed.throttle = cases[i].throttle;
        pressed.throttled_looks = cases[i].looks > 0 ? cases[i].looks + 1 : 0; /* one is before */
        run(added, "add{\"n\":500}", NULL, 0, &record);
        assert_int_equal(gk_json_get_int(record.environment, "dropped", -1), cases[i].dropped);
        assert_int_equal(gk_json_get_int(record.environment, "dropped_throttle", 0),
                         cases[i].dropped > 0 ? cases[i].throttle : 0);
        assert_int_equal(gk_json_get_int(record.environment, "throttle", -1),
                         cases[i].looks > cases[i].dropped ? cases[i].throttle : 0);
        assert_int_equal(record.marks >> GK_MARK_THROTTLED & 1, cases[i].marked);
        expect_done(&record, 2);
    }
}

/* Whoever is on the GPU before or behind a batch is in its time; never alone: a mark beside it. */
static void samples_beside_another_process_are_taken_again(void **state)
{
    static const struct {
        int64_t others[8], dropped, told; /* before the first batch, behind it, behind the second */
    } cases[] = {
        {{-1, -1}, 0, -1}, {{1, 0}, 1, 0},
        {{0, 1, 0}, 2, 0},                       /* not told; it went; it came too */
        {{0, 0, 9}, 0, 0}, {{2, 2, 2, 1}, 3, 1}, /* nobody looks for longer than needed */
    };
    (void)state;
    pressed.ops.vitals = pressed_vitals;
    for (size_t i = 0; i < GK_ARRAY_COUNT(cases); i++) {
        struct gk_record record;
        pressed.others = cases[i].others;
        run(added, "add{\"n\":500}", NULL, 0, &record);
        assert_int_equal(gk_json_get_int(record.environment, "dropped_shared", 0),
                         cases[i].dropped);
        assert_int_equal(gk_json_get_int(record.environment, "others", -1), cases[i].told);
        assert_int_equal(record.marks >> GK_MARK_SHARED & 1, cases[i].told > 0);
        expect_done(&record, 2);
    }
}

/* The first pass of a final round at a device where a launch takes plain_ns over the plain sets and
 * twice_ns over twice as many, of which there are `places`. */
static void first_pass(double plain_ns, double twice_ns, struct gk_record *record)
{
    keep = gk_hash_text("a finalist");
    keeps = true;
    sets = GK_TRIAL_SETS_COMPARE;
    pressed.carried_places = 4; /* as many as the scene of this problem has */
    pressed.carried_ns = plain_ns;
    pressed.launch_ns = twice_ns;
    pressed.most_places = 0;
    run(added, "add{\"n\":1000}", NULL, GK_INPUT_SETS_ALL, record);
    if (record->failure != GK_FAILURE_NONE) {
        fail_msg("%s", record->message);
    }
}

static bool is_carried(const struct gk_record *record)
{
    return record->marks >> GK_MARK_L2_CARRIED & 1;
}

/* Slower by a tenth over twice the sets: that time counts, and all passes to come go that way. */
static void carried_data_is_found(void **state)
{
    struct gk_record record;
    (void)state;
    first_pass(1e8, 1.1e8, &record);
    assert_true(is_carried(&record));
    assert_int_equal(pressed.most_places, 8);
    assert_true(fabs(record.time_ns / 1.1e8 - 1) < 1e-9);
    assert_true(fabs(record.samples_ns[0] / 1.1e8 - 1) < 1e-9);
    assert_int_equal(gk_json_get_int(record.environment, "sets", 0), 8);
    assert_true(fabs(gk_json_get_real(record.environment, "twice_ratio", 0) - 1.1) < 1e-9);
    expect_done(&record, 6);
    assert_int_equal(pressed.graphs, 1); /* the plain recording is gone */
    sets = GK_TRIAL_SETS_TWICE;
    measure_only = true;
    for (int fresh = 0; fresh < 2; fresh++) { /* kept, and after an executor was lost */
        if (fresh) {
            gk_kept_clear(&bench);
        }
        pressed.most_places = 0;
        run(added, "add{\"n\":1000}", NULL, 0, &record);
        assert_int_equal(pressed.most_places, fresh ? 8 : 0);
        assert_true(is_carried(&record));
        assert_true(fabs(record.time_ns / 1.1e8 - 1) < 1e-9);
        expect_done(&record, fresh ? 2 : 0);
    }
}

/* One look where the sets make no difference; three turns where noise may be all there is. */
static void nothing_carried_no_mark(void **state)
{
    struct gk_record record;
    (void)state;
    first_pass(1e8, 1.005e8, &record);
    uint32_t short_way = pressed.replays;
    assert_false(is_carried(&record));
    assert_true(fabs(record.time_ns / 1e8 - 1) < 1e-9);
    assert_int_equal(gk_json_get_int(record.environment, "sets", 0), 4);
    assert_true(fabs(gk_json_get_real(record.environment, "twice_ratio", 0) - 1.005) < 1e-9);
    expect_done(&record, 6);
    pressed.replays = 0;
    first_pass(1e8, 1.015e8, &record); /* under two percent */
    assert_int_equal(pressed.replays, short_way + 6);
    assert_false(is_carried(&record));
    expect_done(&record, 6);
    bool turned = false;
    pressed.jitter = 0.1; /* wider than what is found */
    for (uint32_t phase = 0; phase < 3; phase++) {
        pressed.replays = phase;
        first_pass(1e8, 1.06e8, &record);
        assert_false(is_carried(&record));
        double ratio = gk_json_get_real(record.environment, "twice_ratio", 0);
        turned = turned || fabs(ratio - 1.06) < 1e-9;
        expect_done(&record, 6);
    }
    assert_true(turned);
}

/* Without room for twice the sets the row says so, and what must have them is not timed. */
static void no_room_for_twice_the_sets(void **state)
{
    struct gk_record record;
    (void)state;
    bench.scenes = gk_scenes_create(device, inspector, 210000);
    assert_non_null(bench.scenes);
    first_pass(1e8, 1.1e8, &record);
    assert_false(is_carried(&record));
    assert_non_null(
        strstr(gk_json_get_string(record.environment, "twice_not", ""), "scenes may take 210000"));
    assert_null(gk_json_get(record.environment, "twice_ratio"));
    expect_done(&record, 6);
    sets = GK_TRIAL_SETS_TWICE;
    measure_only = true;
    run(added, "add{\"n\":1000}", NULL, 0, &record);
    assert_int_equal(record.failure, GK_FAILURE_MEMORY);
    gk_record_fini(&record);
    gk_kept_clear(&bench);
    gk_scenes_destroy(bench.scenes);
}

static double timed_by(enum gk_policy by, int64_t sets_wanted)
{
    struct gk_record record;
    policy = by;
    sets = GK_TRIAL_SETS_COMPARE;
    pressed.pdl = pressed.most_places = pressed.place_count = 0;
    run(added, "add{\"n\":1000}", "add_some{\"BLOCK\":32,\"BUG\":\"none\"}", 0, &record);
    double ns = record.time_ns;
    assert_int_equal(gk_json_get_int(record.environment, "sets", 0), sets_wanted);
    assert_true((gk_json_get(record.environment, "twice_ratio") != NULL) == (by != GK_POLICY_WARM));
    expect_done(&record, 2);
    return ns;
}

/* Where the sets are, who launches, and whether a pipeline may begin in the one ahead of it. */
static void policies(void **state)
{
    struct gk_launch_def *def =
        &((struct gk_template *)(uintptr_t)gk_catalog_op(added, 0)->templates)[0].launches[0];
    (void)state;
    def->pdl = true;
    double cold = timed_by(GK_POLICY_COLD_GRAPH, 4);
    assert_int_equal(pressed.pdl, 0);
    assert_int_equal(pressed.most_places, 8);
    assert_int_equal(pressed.streams, 0);
    (void)timed_by(GK_POLICY_COLD_GRAPH_PDL, 4);
    assert_true(pressed.pdl >= 50);
    (void)timed_by(GK_POLICY_WARM, 1);
    assert_int_equal(pressed.pdl, 0);
    assert_int_equal(pressed.most_places, 1);
    assert_int_equal(pressed.streams, 0);
    assert_int_equal(pressed.graphs, 0);
    double eager = timed_by(GK_POLICY_EAGER, 4);
    def->pdl = false;
    assert_int_equal(pressed.pdl, 0);
    assert_int_equal(pressed.most_places, 0); /* no recording at all */
    assert_int_equal(pressed.place_count, 8);
    assert_true(pressed.streams >= 3 && pressed.streamed >= 3 * 50);
    assert_true(fabs(eager / cold - 1) < 1e-9); /* the model knows no host */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right_vector_add), cmocka_unit_test(right_gemm),
        cmocka_unit_test(mistakes),         cmocka_unit_test(endless_loops),
        cmocka_unit_test(too_much_work),    cmocka_unit_test(right_at_some_shapes_only),
    };
    struct gk_err err = {0};
    struct gk_compiler_places places = {.file = getenv("GKTUNE_NVRTC"),
                                        .cuda_home = getenv("CUDA_HOME")};
    if (gk_compiler_open(&places, &compiler, &err) != GK_OK) {
        (void)fprintf(stderr, "skipped: %s\n", err.text);
        return 77;
    }
    const struct CMUnitTest on_device[] = {
        cmocka_unit_test_setup_teardown(right_on_device, press_briefly, release_pressure),
        cmocka_unit_test_setup_teardown(mistakes_on_device, press_slowly, release_pressure),
        cmocka_unit_test_setup_teardown(passes_on_device, press_briefly, release_pressure),
        cmocka_unit_test_setup_teardown(late_damage_in_passes, press_briefly, release_pressure),
        cmocka_unit_test(alignment_of_slots),
        cmocka_unit_test(floor_of_eight_bits),
        cmocka_unit_test_setup_teardown(kept_makes_room, press_slowly, release_pressure),
        cmocka_unit_test_setup_teardown(scenes_stay_within_their_bound, press_slowly,
                                        release_pressure),
        cmocka_unit_test_setup_teardown(slow_is_not_hung, press, release_pressure),
        cmocka_unit_test_setup_teardown(samples_beside_another_process_are_taken_again,
                                        press_slowly, release_pressure),
        cmocka_unit_test_setup_teardown(throttled_samples_are_taken_again, press_slowly,
                                        release_pressure),
        cmocka_unit_test_setup_teardown(carried_data_is_found, press, release_pressure),
        cmocka_unit_test_setup_teardown(nothing_carried_no_mark, press, release_pressure),
        cmocka_unit_test_setup_teardown(no_room_for_twice_the_sets, press, release_pressure),
        cmocka_unit_test_setup_teardown(policies, press_briefly, release_pressure),
    };
    int failed = cmocka_run_group_tests(tests, set_up, tear_down);
    failed += cmocka_run_group_tests(on_device, set_up_scenes, tear_down);
    gk_compiler_close(compiler);
    return failed;
}
