/*
 * Problems whose last rows lie more than 2^31 elements, and 2^32 bytes, behind the first: a stride
 * or a request's room makes them so, and memory that nobody touches costs nothing. The same config
 * on the same numbers with rows side by side must give the same bits.
 * tests/data/bad_kernels/far.txt has the problems, and for each a change of the sources that
 * computes an offset in 32 bits, and how it must end: a fault of the emulated device, or
 * other_bits. One without a near problem is for a GPU alone (tests/gpu/gpu_twins.c).
 *
 * GKTUNE_TEST_SEED chooses one in three (one in all with the sanitizers); GKTUNE_TEST_ALL=1 takes
 * all. An argument confines the run to those with it in their name. GK_TWINS_SHOW=1 prints how each
 * ended.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <ctype.h>

#include "tests/support/check.h"
#include "tests/support/exhaustive.h"
#include "tests/unit/mistake_folder.h"
#include "tests/unit/op_trial.h"
#include "tests/unit/plan_run.h"
#include "worker/generate.h"

#define KERNELS GK_SOURCE_DIR "/kernels"
#define LIST    GK_SOURCE_DIR "/tests/data/bad_kernels/far.txt"
#define FAR_MAX 40u
#ifdef __SANITIZE_ADDRESS__ /* marks all of the memory, touched or not */
#define SAMPLE 18u
#else
#define SAMPLE 3u
#endif
#define MEMORY    (UINT64_C(1) << 36) /* addresses: pages that are not touched are not there */
#define FAR_LEAST (INT64_C(1) << 31)  /* elements before the last one */

struct far {
    struct mistake_change change;
    char op[40];
    char near[200], far[300]; /* canonical texts without the op's name */
    char config[160];         /* as in ops.txt */
};

static struct far entries[FAR_MAX];
static uint32_t entry_count;
static struct op_trial_rig rig;
static struct gk_err err;

/* ------------------------------------------------------------------ the list */

static struct mistake_change *next(void)
{
    assert_true(entry_count < FAR_MAX);
    return &entries[entry_count++].change;
}

static bool read_field(const char *key, const char *value)
{
    struct far *entry = &entries[entry_count - 1];
    if (strcmp(key, "op") == 0) {
        mistake_take(entry->op, sizeof entry->op, value);
    } else if (strcmp(key, "near") == 0) {
        mistake_take(entry->near, sizeof entry->near, value);
    } else if (strcmp(key, "far") == 0) {
        mistake_take(entry->far, sizeof entry->far, value);
    } else if (strcmp(key, "config") == 0) {
        mistake_take(entry->config, sizeof entry->config, value);
    } else {
        return false;
    }
    return true;
}

/* ------------------------------------------------------------------ one run */

struct sight {
    struct gk_catalog *catalog;
    const struct gk_op *op;
    struct gk_problem problems[2]; /* near, far */
    struct gk_plan plans[2];
    struct gk_compile_output codes[GK_LAUNCHES_MAX];
    unsigned char
        *near[GK_TENSORS_MAX]; /* buffers with rows side by side; outputs are the result */
};

static const struct gk_template *template_of(const struct gk_op *op, const char *name)
{
    const struct gk_template *found = NULL;
    for (uint32_t i = 0; i < op->template_count; i++) {
        found = strcmp(op->templates[i].name, name) == 0 ? &op->templates[i] : found;
    }
    assert_non_null(found);
    return found;
}

static void open_sight(struct sight *s, const struct far *entry, const char *root)
{
    const char *const texts[] = {entry->near, entry->far};
    struct gk_device_props props = rig.device->props;
    struct gk_space_def def = {0};
    struct gk_config config = {0};
    memset(s, 0, sizeof *s);
    props.mem_bytes = INT64_C(1) << 40;
    s->catalog = op_trial_catalog(root, entry->op);
    s->op = gk_catalog_find(s->catalog, entry->op);
    for (size_t i = 0; i < GK_ARRAY_COUNT(texts); i++) {
        char text[400];
        (void)snprintf(text, sizeof text, "%s%s", entry->op, texts[i]);
        op_trial_need(gk_problem_from_text(&s->op->fields, text, &s->problems[i], &err), &err);
    }
    op_trial_need(gk_catalog_space(s->op, &s->problems[0], &props, &def, &err), &err);
    (void)op_trial_config(s->op, &s->problems[0], &def, entry->config, &config);
    gk_space_def_fini(&def);
    for (size_t i = 0; i < GK_ARRAY_COUNT(s->plans); i++) {
        op_trial_need(gk_plan_render(s->op, template_of(s->op, config.template_name),
                                     &s->problems[i], &config, &props, &s->plans[i], &err),
                      &err);
    }
    for (uint32_t i = 0; i < s->plans[0].launch_count; i++) {
        if (s->plans[0].launches[i].present) {
            op_trial_compile(&rig, s->catalog, &s->plans[0], i, &s->codes[i]);
        }
    }
}

static void close_sight(struct sight *s)
{
    for (uint32_t i = 0; i < GK_TENSORS_MAX; i++) {
        free(s->near[i]);
    }
    for (uint32_t i = 0; i < GK_LAUNCHES_MAX; i++) {
        gk_compile_output_fini(&s->codes[i]);
    }
    for (size_t i = 0; i < GK_ARRAY_COUNT(s->plans); i++) {
        gk_plan_fini(&s->plans[i]);
        gk_problem_fini(&s->problems[i]);
    }
    gk_catalog_destroy(s->catalog);
}

/* Elements behind one another of a tensor whose last dimension is dense. */
static int64_t run_of(const struct gk_plan_tensor *tensor)
{
    return tensor->strides[tensor->rank - 1] == 1 ? tensor->extents[tensor->rank - 1] : 1;
}

/* Calls move(near bytes, address of the same elements, size) for all elements of the near tensor;
 * false as soon as move() says so. */
static bool for_rows(struct gk_emu *emu, const struct sight *s, size_t which, uint32_t tensor,
                     uint64_t base, unsigned char *bytes,
                     bool (*move)(struct gk_emu *emu, unsigned char *at, uint64_t address,
                                  size_t size))
{
    const struct gk_plan_tensor *near = &s->plans[0].tensors[tensor];
    const struct gk_plan_tensor *far = &s->plans[which].tensors[tensor];
    size_t element = gk_dtype_bytes(near->dtype);
    int64_t run = run_of(near), index[GK_TENSOR_RANK_MAX] = {0};
    for (int64_t i = 0; i < near->elements; i++) {
        if (i % run == 0 &&
            !move(emu, bytes + (size_t)gk_tensor_place(near, index) * element,
                  base + (uint64_t)gk_tensor_place(far, index) * element, (size_t)run * element)) {
            return false;
        }
        (void)gk_tensor_step(near, index);
    }
    return true;
}

static bool write_row(struct gk_emu *emu, unsigned char *at, uint64_t address, size_t size)
{
    op_trial_need(gk_emu_write(emu, address, at, size, &err), &err);
    return true;
}

static bool read_row(struct gk_emu *emu, unsigned char *at, uint64_t address, size_t size)
{
    op_trial_need(gk_emu_read(emu, address, at, size, &err), &err);
    return true;
}

static bool same_row(struct gk_emu *emu, unsigned char *at, uint64_t address, size_t size)
{
    const unsigned char *bytes = gk_emu_host_pointer(emu, address, size);
    uint64_t unwritten = 0;
    assert_non_null(bytes);
    op_trial_need(gk_emu_unwritten(emu, address, size, &unwritten, &err), &err);
    return unwritten == 0 && memcmp(bytes, at, size) == 0;
}

static uint64_t allocate(struct gk_emu *emu, const char *name, int64_t bytes)
{
    uint64_t address = 0;
    op_trial_need(gk_emu_alloc(emu, name, (uint64_t)bytes, 256, &address, &err), &err);
    return address;
}

/* All launches; what ended them in `ending`, "none" if nothing did. */
static void launch_all(struct gk_emu *emu, const struct sight *s, size_t which,
                       const uint64_t *tensors, char *ending, size_t size)
{
    const struct gk_plan *plan = &s->plans[which];
    uint64_t workspaces[GK_WORKSPACES_MAX] = {0};
    const struct plan_addresses at = {tensors, NULL, workspaces};
    enum gk_status status = GK_OK;
    (void)snprintf(ending, size, "none");
    for (uint32_t i = 0; i < plan->template_->workspace_count; i++) {
        if (plan->workspaces[i].present) {
            workspaces[i] = allocate(emu, plan->workspaces[i].def->name, plan->workspaces[i].bytes);
        }
    }
    for (uint32_t i = 0; i < plan->launch_count && status == GK_OK; i++) {
        struct gk_emu_module *module = NULL;
        static struct gk_emu_report report;
        if (!plan->launches[i].present) {
            continue;
        }
        op_trial_need(gk_emu_module_load(emu, s->codes[i].ptx, s->codes[i].ptx_size, &module, &err),
                      &err);
        memset(&report, 0, sizeof report);
        status = plan_launch(emu, module, &plan->launches[i], &at, &report, &err);
        if (status != GK_OK) {
            (void)snprintf(ending, size, "%s", gk_emu_fault_name(report.kind));
        }
        gk_emu_module_unload(module);
    }
    for (char *c = ending; *c; c++) {
        *c = (char)tolower((unsigned char)*c);
    }
}

static struct gk_emu *make_emu(void)
{
    const struct gk_emu_options options = {.target = "sm_80", .memory_limit_bytes = MEMORY};
    struct gk_emu *emu = NULL;
    op_trial_need(gk_emu_create(&options, &emu, &err), &err);
    return emu;
}

/* Runs one of the plans over the near inputs. The near one leaves its outputs in s->near; those of
 * the far one are compared with them. */
static void run(struct sight *s, size_t which, char *ending, size_t size)
{
    const struct gk_plan *plan = &s->plans[which];
    struct gk_emu *emu = make_emu();
    uint64_t tensors[GK_TENSORS_MAX] = {0};
    for (uint32_t i = 0; i < s->op->tensor_count; i++) {
        const struct gk_plan_tensor *t = &plan->tensors[i];
        if (!t->present) {
            continue;
        }
        size_t bytes = (size_t)s->plans[0].tensors[i].span * gk_dtype_bytes(t->dtype);
        tensors[i] = allocate(emu, t->def->name, t->span * gk_dtype_bytes(t->dtype));
        if (t->def->role != GK_TENSOR_OUT) {
            unsigned char *inputs = malloc(bytes + 1);
            assert_non_null(inputs);
            op_trial_need(
                gk_generate(&s->plans[0], i, gk_input_seed(0, false), false, inputs, &err), &err);
            (void)for_rows(emu, s, which, i, tensors[i], inputs, write_row);
            free(inputs);
        }
    }
    launch_all(emu, s, which, tensors, ending, size);
    for (uint32_t i = 0; i < s->op->tensor_count && strcmp(ending, "none") == 0; i++) {
        const struct gk_plan_tensor *t = &plan->tensors[i];
        if (!t->present || t->def->role == GK_TENSOR_IN) {
            continue;
        }
        if (which == 0) {
            s->near[i] = malloc((size_t)t->span * gk_dtype_bytes(t->dtype) + 1);
            assert_non_null(s->near[i]);
            (void)for_rows(emu, s, 0, i, tensors[i], s->near[i], read_row);
        } else if (!for_rows(emu, s, which, i, tensors[i], s->near[i], same_row)) {
            (void)snprintf(ending, size, "other_bits");
        }
    }
    gk_emu_destroy(emu);
}

/* The farthest element of all tensors. */
static int64_t reach_of(const struct gk_plan *plan)
{
    int64_t most = 0;
    for (uint32_t i = 0; i < plan->op->tensor_count; i++) {
        most =
            plan->tensors[i].present && plan->tensors[i].span > most ? plan->tensors[i].span : most;
    }
    return most;
}

static void end_of(const struct far *entry, const char *root, char *ending, size_t size)
{
    struct sight s;
    open_sight(&s, entry, root);
    assert_true(reach_of(&s.plans[1]) > FAR_LEAST);
    run(&s, 0, ending, size);
    if (strcmp(ending, "none") != 0) {
        fail_msg("%s: near: ends as %s: %s", entry->change.name, ending, err.text);
    }
    run(&s, 1, ending, size);
    close_sight(&s);
}

static void far_as_near(void **state)
{
    const struct far *entry = *state;
    char root[] = "/tmp/gktune-far-XXXXXX", ending[80];
    end_of(entry, KERNELS, ending, sizeof ending);
    if (strcmp(ending, "none") != 0) {
        fail_msg("%s: the unchanged sources end as %s: %s", entry->change.name, ending, err.text);
    }
    mistake_folder_make(&entry->change, entry->op, root);
    end_of(entry, root, ending, sizeof ending);
    mistake_folder_remove(root);
    if (!mistake_wants(&entry->change, ending)) {
        fail_msg("%s: ends as %s, wants %s: %s", entry->change.name, ending, entry->change.wants,
                 err.text);
    }
    if (getenv("GK_TWINS_SHOW")) {
        (void)printf("%s: %s\n", entry->change.name, ending);
    }
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

int main(int argc, char **argv)
{
    static struct CMUnitTest tests[FAR_MAX];
    const char *text = getenv("GKTUNE_TEST_SEED");
    uint32_t chosen = 0, for_a_gpu = 0, seed = text ? (uint32_t)strtoul(text, NULL, 10) : 1;
    uint32_t every = test_takes_all() ? 1 : SAMPLE;
    int failed;
    mistake_list_read(LIST, next, read_field);
    for (uint32_t i = 0; i < entry_count; i++) {
        const char *name = entries[i].change.name;
        if (!entries[i].near[0]) {
            for_a_gpu++;
        } else if (argc == 1 ? (i + seed) % every == 0 : strstr(name, argv[1]) != NULL) {
            tests[chosen++] = (struct CMUnitTest){
                .name = name, .test_func = far_as_near, .initial_state = &entries[i]};
        }
    }
    failed = _cmocka_run_group_tests("far", tests, chosen, set_up, tear_down);
    if (!failed) {
        (void)printf("twins: %u of %u ops right beyond 2^31 elements, their 32-bit offsets "
                     "rejected; %u are left to a GPU\n",
                     chosen, entry_count, for_a_gpu);
    }
    return failed;
}
