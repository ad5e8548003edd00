/*
 * A GPU's memory and company: what is hidden, what gives way, who stays.
 *
 * While a candidate runs, nothing of what it is compared with is mapped: neither references nor
 * pristine inputs, neither when it is verified nor when it is timed. On a real GPU an access faults
 * then (test_device_cuda); here a device that hides nothing notes what it was asked to hide.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/op_trial.h"
#include "worker/inspect/inspect.h"
#include "worker/scene.h"

#define ROOMS_MAX 64

static struct op_trial_rig rig;
static const struct gk_device_ops *true_ops;

/* Launches of tens of milliseconds: a sample is one of each set, not five milliseconds of an
 * interpreter's microseconds. What is looked at here does not depend on the time. */
#define SLOWER 10000
static const struct gk_device_ops *model_ops;
static struct gk_device_ops slow_ops; /* behind true_ops */

static enum gk_status slow_launch(struct gk_device *of, struct gk_device_kernel *kernel,
                                  const struct gk_device_launch *launch,
                                  struct gk_device_report *report_out, struct gk_err *err)
{
    enum gk_status status = model_ops->launch(of, kernel, launch, report_out, err);
    report_out->ns *= SLOWER;
    return status;
}

static enum gk_status slow_replay(struct gk_device *of, struct gk_device_graph *graph,
                                  struct gk_device_report *report_out, struct gk_err *err)
{
    enum gk_status status = model_ops->replay(of, graph, report_out, err);
    report_out->ns *= SLOWER;
    return status;
}

static struct {
    struct {
        uint64_t address;
        bool shown;
    } rooms[ROOMS_MAX]; /* hidden memory */
    uint32_t count;
    const struct gk_device_kernel *candidates[ROOMS_MAX];
    uint32_t candidate_count;
    uint32_t launches, seen, replays;
} watch;

static uint32_t shown(void)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < watch.count; i++) {
        count += watch.rooms[i].shown;
    }
    return count;
}

static enum gk_status watch_alloc_hidden(struct gk_device *of, const char *name, uint64_t bytes,
                                         uint64_t *address_out, struct gk_err *err)
{
    enum gk_status status = true_ops->alloc(of, name, bytes, 256, address_out, err);
    assert_true(watch.count < ROOMS_MAX);
    watch.rooms[watch.count].address = *address_out;
    watch.rooms[watch.count++].shown = true; /* as the table of operations says */
    return status;
}

static enum gk_status watch_hide(struct gk_device *of, bool hidden, struct gk_err *err)
{
    (void)of;
    (void)err;
    for (uint32_t i = 0; i < watch.count; i++) {
        watch.rooms[i].shown = !hidden;
    }
    return GK_OK;
}

static enum gk_status watch_show(struct gk_device *of, uint64_t address, struct gk_err *err)
{
    (void)of;
    for (uint32_t i = 0; i < watch.count; i++) {
        if (watch.rooms[i].address == address) {
            watch.rooms[i].shown = true;
            return GK_OK;
        }
    }
    return gk_fail(err, GK_RANGE, "shown is what was never hidden");
}

static enum gk_status watch_release(struct gk_device *of, uint64_t address, struct gk_err *err)
{
    for (uint32_t i = 0; i < watch.count; i++) {
        if (watch.rooms[i].address == address) {
            watch.rooms[i] = watch.rooms[--watch.count];
        }
    }
    return true_ops->release(of, address, err);
}

static enum gk_status watch_find(struct gk_device *of, struct gk_device_module *module,
                                 const char *name, struct gk_device_kernel **kernel_out,
                                 struct gk_err *err)
{
    enum gk_status status = true_ops->find(of, module, name, kernel_out, err);
    for (uint32_t i = 0; status == GK_OK && i < watch.candidate_count; i++) {
        if (watch.candidates[i] == *kernel_out) { /* that one is gone, and its place taken */
            watch.candidates[i--] = watch.candidates[--watch.candidate_count];
        }
    }
    if (status == GK_OK && strcmp(name, "add_some") == 0) {
        assert_true(watch.candidate_count < ROOMS_MAX);
        watch.candidates[watch.candidate_count++] = *kernel_out;
    }
    return status;
}

static enum gk_status watch_launch(struct gk_device *of, struct gk_device_kernel *kernel,
                                   const struct gk_device_launch *launch,
                                   struct gk_device_report *report_out, struct gk_err *err)
{
    for (uint32_t i = 0; i < watch.candidate_count; i++) {
        if (watch.candidates[i] == kernel) {
            watch.launches++;
            watch.seen += shown();
            break;
        }
    }
    return true_ops->launch(of, kernel, launch, report_out, err);
}

static enum gk_status watch_replay(struct gk_device *of, struct gk_device_graph *graph,
                                   struct gk_device_report *report_out, struct gk_err *err)
{
    watch.replays++;
    watch.seen += shown();
    return true_ops->replay(of, graph, report_out, err);
}

static void candidates_see_nothing_of_it(void **state)
{
    struct gk_device_ops ops = *true_ops;
    struct gk_catalog *catalog = op_trial_catalog(GK_SOURCE_DIR "/tests/data/worker", "add");
    const struct gk_op *op = gk_catalog_op(catalog, 0);
    struct op_trial_asked asked;
    (void)state;
    ops.alloc_hidden = watch_alloc_hidden;
    ops.hide = watch_hide;
    ops.show = watch_show;
    ops.release = watch_release;
    ops.find = watch_find;
    ops.launch = watch_launch;
    ops.replay = watch_replay;
    rig.device->ops = &ops;
    op_trial_ask(op, "add{\"n\":500}", &rig.device->props, "BLOCK=128,BUG=none", &asked);
    for (uint32_t set = 0; set < 2; set++) { /* the second finds the scene laid out */
        struct gk_record record;
        watch.launches = watch.replays = 0;
        op_trial_run(&rig, catalog, op, &asked.problem, &asked.config, set ? GK_INPUT_SETS_ALL : 1,
                     &record);
        if (record.failure != GK_FAILURE_NONE) {
            fail_msg("%s", record.message);
        }
        gk_record_fini(&record);
        assert_true(watch.launches > 1 && watch.replays > 0);
        assert_true(watch.count >= 2); /* inputs and a reference */
        assert_int_equal(watch.seen, 0);
    }
    gk_scenes_destroy(rig.bench.scenes);
    rig.bench.scenes = NULL;
    rig.device->ops = true_ops;
    op_trial_asked_fini(&asked);
    gk_catalog_destroy(catalog);
}

/* ------------------------------------------------------------------ what gives way */

static struct {
    struct {
        uint64_t address, bytes;
    } blocks[2 * ROOMS_MAX];
    uint64_t used, room; /* room 0: all that there is */
    uint64_t arena;      /* the one that was made last */
} memory;

static enum gk_status count_alloc(struct gk_device *of, const char *name, uint64_t bytes,
                                  uint64_t align, uint64_t *address_out, struct gk_err *err)
{
    if (memory.room > 0 && memory.used + bytes > memory.room) {
        return gk_fail(err, GK_LIMIT, "somebody else has it: %s", name);
    }
    enum gk_status status = true_ops->alloc(of, name, bytes, align, address_out, err);
    memory.arena = status == GK_OK && strcmp(name, "arena") == 0 ? *address_out : memory.arena;
    for (uint32_t i = 0; status == GK_OK; i++) {
        assert_true(i < GK_ARRAY_COUNT(memory.blocks));
        if (memory.blocks[i].address == 0) {
            memory.blocks[i].address = *address_out;
            memory.blocks[i].bytes = bytes;
            memory.used += bytes;
            break;
        }
    }
    return status;
}

static enum gk_status count_release(struct gk_device *of, uint64_t address, struct gk_err *err)
{
    for (uint32_t i = 0; i < GK_ARRAY_COUNT(memory.blocks); i++) {
        if (memory.blocks[i].address == address) {
            memory.used -= memory.blocks[i].bytes;
            memory.blocks[i].address = 0;
        }
    }
    return true_ops->release(of, address, err);
}

static void run_problem(const struct gk_catalog *catalog, const char *text,
                        struct gk_record *record)
{
    const struct gk_op *op = gk_catalog_op(catalog, 0);
    struct op_trial_asked asked;
    op_trial_ask(op, text, &rig.device->props, "BLOCK=128,BUG=none", &asked);
    op_trial_run(&rig, catalog, op, &asked.problem, &asked.config, 1, record);
    op_trial_asked_fini(&asked);
}

static enum gk_failure failure_of(const struct gk_catalog *catalog, const char *text)
{
    struct gk_record record;
    run_problem(catalog, text, &record);
    enum gk_failure failure = record.failure;
    gk_record_fini(&record);
    return failure;
}

/* What is laid out of other problems fails nobody's trial, where another process has taken the
 * memory that there was for both. A problem that does not fit alone is told so. */
static void others_give_way(void **state)
{
    struct gk_device_ops ops = *true_ops;
    struct gk_catalog *catalog = op_trial_catalog(GK_SOURCE_DIR "/tests/data/worker", "add");
    (void)state;
    ops.alloc = count_alloc;
    ops.release = count_release;
    rig.device->ops = &ops;
    assert_int_equal(failure_of(catalog, "add{\"n\":500}"), GK_FAILURE_NONE);
    memory.room = memory.used + memory.used / 2;
    assert_int_equal(failure_of(catalog, "add{\"n\":501}"), GK_FAILURE_NONE);
    assert_int_equal(failure_of(catalog, "add{\"n\":502}"), GK_FAILURE_NONE);
    assert_true(memory.used <= memory.room);
    memory.room = memory.used / 4;
    assert_int_equal(failure_of(catalog, "add{\"n\":503}"), GK_FAILURE_MEMORY);
    gk_scenes_destroy(rig.bench.scenes);
    rig.bench.scenes = NULL;
    rig.device->ops = true_ops;
    gk_catalog_destroy(catalog);
}

/* What a candidate of one problem writes into the scene of another is not the next candidate's
 * doing there; what is found where the same problem ran before is taken for its own. */
static void others_damage_is_not_ones_own(void **state)
{
    const uint32_t junk = 42;
    struct gk_device_ops ops = *true_ops;
    struct gk_catalog *catalog = op_trial_catalog(GK_SOURCE_DIR "/tests/data/worker", "add");
    struct gk_err err = {0};
    (void)state;
    memset(&memory, 0, sizeof memory);
    ops.alloc = count_alloc;
    ops.release = count_release;
    rig.device->ops = &ops;
    assert_int_equal(failure_of(catalog, "add{\"n\":500}"), GK_FAILURE_NONE);
    const uint64_t arena = memory.arena;
    for (int other = 1; other >= 0; other--) {
        if (other) {
            assert_int_equal(failure_of(catalog, "add{\"n\":501}"), GK_FAILURE_NONE);
            assert_true(memory.arena != arena);
        }
        op_trial_need(true_ops->write(rig.device, arena + 16, &junk, sizeof junk, &err), &err);
        assert_int_equal(failure_of(catalog, "add{\"n\":500}"),
                         other ? GK_FAILURE_NONE : GK_FAILURE_CANARY);
    }
    gk_scenes_destroy(rig.bench.scenes);
    rig.bench.scenes = NULL;
    rig.device->ops = true_ops;
    gk_catalog_destroy(catalog);
}

/* ------------------------------------------------------------------ who stays */

static int64_t company;

static enum gk_status tell_company(struct gk_device *of, struct gk_device_vitals *now_out,
                                   struct gk_err *err)
{
    (void)of;
    (void)err;
    *now_out = (struct gk_device_vitals){-1, -1, -1, -1, -1, 0, company};
    return GK_OK;
}

/* Who is there for good costs the first trial its batches again, and the others nothing but their
 * mark; when the GPU was alone in between, whoever comes is waited for anew. */
static void who_stays_costs_once(void **state)
{
    static const struct {
        int64_t company, dropped;
    } trials[] = {{1, 3}, {1, 0}, {2, 0}, {0, 0}, {1, 3}, {-1, 0}};
    struct gk_device_ops ops = *true_ops;
    struct gk_catalog *catalog = op_trial_catalog(GK_SOURCE_DIR "/tests/data/worker", "add");
    bool never_alone = false;
    (void)state;
    ops.vitals = tell_company;
    rig.device->ops = &ops;
    rig.bench.never_alone = &never_alone;
    for (size_t i = 0; i < GK_ARRAY_COUNT(trials); i++) {
        struct gk_record record;
        company = trials[i].company;
        run_problem(catalog, "add{\"n\":500}", &record);
        assert_int_equal(record.failure, GK_FAILURE_NONE);
        assert_int_equal(gk_json_get_int(record.environment, "dropped_shared", 0),
                         trials[i].dropped);
        assert_int_equal(record.marks >> GK_MARK_SHARED & 1, company > 0);
        gk_record_fini(&record);
    }
    rig.bench.never_alone = NULL;
    gk_scenes_destroy(rig.bench.scenes);
    rig.bench.scenes = NULL;
    rig.device->ops = true_ops;
    gk_catalog_destroy(catalog);
}

static int make_scenes(void **state)
{
    (void)state;
    rig.bench.scenes = gk_scenes_create(rig.device, rig.bench.inspector, (uint64_t)64 << 20);
    return rig.bench.scenes ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(candidates_see_nothing_of_it, make_scenes),
        cmocka_unit_test_setup(others_give_way, make_scenes),
        cmocka_unit_test_setup(others_damage_is_not_ones_own, make_scenes),
        cmocka_unit_test_setup(who_stays_costs_once, make_scenes),
    };
    const struct gk_compiler_places places = {.file = getenv("GKTUNE_NVRTC"),
                                              .cuda_home = getenv("CUDA_HOME"),
                                              .virtual_env = getenv("VIRTUAL_ENV"),
                                              .home = getenv("HOME")};
    struct gk_err err = {0};
    if (op_trial_open(&rig, "emu:sm_80") != 0) {
        return 1;
    }
    model_ops = rig.device->ops;
    slow_ops = *model_ops;
    slow_ops.launch = slow_launch;
    slow_ops.replay = slow_replay;
    rig.device->ops = true_ops = &slow_ops;
    rig.device->props.l2_bytes = 4096; /* so that a scene has few slots */
    if (gk_inspector_create(rig.device, &places, NULL, &rig.bench.inspector, &err) != GK_OK) {
        (void)fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    rig.bench.kept = gk_kept_create();
    int failed = rig.bench.kept ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
    gk_kept_destroy(&rig.bench);
    gk_inspector_destroy(rig.bench.inspector);
    op_trial_close(&rig);
    return failed;
}
