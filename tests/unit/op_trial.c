/*
 * See op_trial.h.
 */
#include "tests/unit/op_trial.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/status.h"
#include "search/space.h"
#include "tests/unit/code_for_tests.h"
#include "worker/device_emu.h"

void op_trial_need(enum gk_status status, const struct gk_err *err)
{
    if (status != GK_OK) {
        fail_msg("%s: %s", gk_status_name(status), err->text);
    }
}

int op_trial_open(struct op_trial_rig *rig, const char *device)
{
    struct gk_err err = {0};
    struct gk_compiler_places places = {.file = getenv("GKTUNE_NVRTC"),
                                        .cuda_home = getenv("CUDA_HOME")};
    if (gk_compiler_open(&places, &rig->compiler, &err) != GK_OK) {
        print_message("skipped: %s\n", err.text);
        exit(77);
    }
    if (gk_hash_setup(&err) != GK_OK || gk_device_open(device, &rig->device, &err) != GK_OK) {
        print_error("%s\n", err.text);
        return -1;
    }
    rig->references = gk_references_create((size_t)256 << 20);
    rig->bench = (struct gk_trial_bench){.device = rig->device, .references = rig->references};
    return rig->references ? 0 : -1;
}

void op_trial_close(struct op_trial_rig *rig)
{
    gk_references_destroy(rig->references);
    gk_device_close(rig->device);
    gk_compiler_close(rig->compiler);
}

struct gk_catalog *op_trial_catalog(const char *root, const char *op)
{
    struct gk_catalog *catalog = NULL;
    struct gk_diag diag;
    struct gk_err err = {0};
    gk_diag_init(&diag);
    if (gk_catalog_load_for(root, op, &catalog, &diag) != GK_OK) {
        (void)gk_diag_status(&diag, &err);
        fail_msg("%s", err.text);
    }
    gk_diag_fini(&diag);
    return catalog;
}

/* Whether the config has all of "NAME=VALUE,NAME=VALUE" as canonical text writes them. */
static bool has_values(const struct gk_tree *tree, const struct gk_config *config, const char *list)
{
    char *text = gk_config_text(tree, config);
    bool all = true;
    assert_non_null(text);
    while (*list && all) {
        char pair[80];
        size_t size = strcspn(list, ","), name = strcspn(list, "=");
        const char *value = list + name + 1;
        bool number = (*value >= '0' && *value <= '9');
        (void)snprintf(pair, sizeof pair, number ? "\"%.*s\":%.*s" : "\"%.*s\":\"%.*s\"", (int)name,
                       list, (int)(size - name - 1), value);
        const char *at = strstr(text, pair);
        all = at && (at[strlen(pair)] == ',' || at[strlen(pair)] == '}');
        list += size + (list[size] == ',');
    }
    free(text);
    return all;
}

uint32_t op_trial_config(const struct gk_op *op, const struct gk_problem *problem,
                         const struct gk_space_def *def, const char *values,
                         struct gk_config *config)
{
    struct gk_space *space = NULL;
    struct gk_err err = {0};
    uint32_t tree = 0;
    bool found = false;
    op_trial_need(gk_catalog_default(op, problem, def, config, &tree, &err), &err);
    if (!values[0]) {
        return tree;
    }
    op_trial_need(gk_space_create(def, &space, &err), &err);
    for (uint32_t i = 0; i < gk_space_count(space) && !found; i++) {
        gk_space_config(space, i, config);
        tree = gk_space_tree_of(space, i);
        found = has_values(&def->trees[tree], config, values);
    }
    gk_space_destroy(space);
    if (!found) {
        fail_msg("%s: no legal config has %s", op->fields.op, values);
    }
    return tree;
}

void op_trial_ask(const struct gk_op *op, const char *text, const struct gk_device_props *props,
                  const char *values, struct op_trial_asked *asked_out)
{
    struct gk_err err = {0};
    memset(asked_out, 0, sizeof *asked_out);
    op_trial_need(gk_problem_from_text(&op->fields, text, &asked_out->problem, &err), &err);
    op_trial_need(gk_catalog_space(op, &asked_out->problem, props, &asked_out->def, &err), &err);
    asked_out->tree =
        op_trial_config(op, &asked_out->problem, &asked_out->def, values, &asked_out->config);
}

void op_trial_asked_fini(struct op_trial_asked *asked)
{
    gk_space_def_fini(&asked->def);
    gk_problem_fini(&asked->problem);
}

void op_trial_compile(const struct op_trial_rig *rig, const struct gk_catalog *catalog,
                      const struct gk_plan *plan, uint32_t launch, struct gk_compile_output *output)
{
    struct gk_compile_job job = {0};
    struct gk_err err = {0};
    op_trial_need(gk_compile_job_make(catalog, plan, launch, rig->device->props.target, &job, &err),
                  &err);
    op_trial_need(code_for_tests_run(&job, rig->compiler, output, &err), &err);
    gk_compile_job_fini(&job);
    if (!output->compiled) {
        fail_msg("%s", output->log);
    }
}

void op_trial_build(const struct op_trial_rig *rig, const struct gk_catalog *catalog,
                    const struct gk_op *op, const struct gk_problem *problem,
                    const struct gk_config *config, struct op_trial_built *built)
{
    const struct gk_device_props *props = &rig->device->props;
    struct gk_plan reference = {0};
    struct gk_err err = {0};
    memset(built, 0, sizeof *built);
    built->op = op;
    built->problem = problem;
    built->config = config;
    for (uint32_t i = 0; i < op->template_count; i++) {
        if (strcmp(op->templates[i].name, config->template_name) == 0) {
            built->template_ = &op->templates[i];
        }
    }
    assert_non_null(built->template_);
    op_trial_need(gk_plan_render(op, built->template_, problem, config, props, &built->plan, &err),
                  &err);
    op_trial_need(gk_plan_reference(op, problem, props, &reference, &err), &err);
    op_trial_compile(rig, catalog, &reference, 0, &built->reference);
    for (uint32_t i = 0; i < built->plan.launch_count; i++) {
        if (built->plan.launches[i].present) {
            op_trial_compile(rig, catalog, &built->plan, i, &built->codes[i]);
        }
    }
    gk_plan_fini(&reference);
}

void op_trial_unbuild(struct op_trial_built *built)
{
    for (uint32_t i = 0; i < GK_LAUNCHES_MAX; i++) {
        gk_compile_output_fini(&built->codes[i]);
    }
    gk_compile_output_fini(&built->reference);
    gk_plan_fini(&built->plan);
}

void op_trial_run_built(const struct op_trial_rig *rig, const struct op_trial_built *built,
                        uint32_t set, struct gk_record *record)
{
    struct gk_err err = {0};
    struct gk_trial trial = {.op = built->op,
                             .template_ = built->template_,
                             .problem = built->problem,
                             .config = built->config,
                             .input_set = set,
                             .reference_code = &built->reference,
                             .effort = gk_effort_search()};
    for (uint32_t i = 0; i < built->plan.launch_count; i++) {
        trial.codes[i] = &built->codes[i];
    }
    gk_record_init(record);
    op_trial_need(gk_trial_run(&rig->bench, &trial, record, &err), &err);
}

void op_trial_run(const struct op_trial_rig *rig, const struct gk_catalog *catalog,
                  const struct gk_op *op, const struct gk_problem *problem,
                  const struct gk_config *config, uint32_t set, struct gk_record *record)
{
    struct op_trial_built built;
    op_trial_build(rig, catalog, op, problem, config, &built);
    op_trial_run_built(rig, &built, set, record);
    op_trial_unbuild(&built);
}

void op_trial_schedules(const struct op_trial_rig *rig, const struct gk_catalog *catalog,
                        const struct gk_op *op, const char *fields, const char *values)
{
    static const enum gk_emu_schedule SCHEDULES[] = {GK_EMU_LATE, GK_EMU_RANDOM, GK_EMU_EARLY};
    struct op_trial_asked asked;
    char text[400];
    (void)snprintf(text, sizeof text, "%s%s", op->fields.op, fields);
    op_trial_ask(op, text, &rig->device->props, values, &asked);
    for (uint32_t i = 0; i < GK_ARRAY_COUNT(SCHEDULES); i++) {
        struct gk_record record;
        gk_device_emu_schedule(rig->device, SCHEDULES[i]);
        op_trial_run(rig, catalog, op, &asked.problem, &asked.config, i, &record);
        if (record.failure != GK_FAILURE_NONE) {
            fail_msg("%s %s, schedule %u: %s at %s: %s", text, values, i,
                     gk_failure_name(record.failure), gk_stage_name(record.stage), record.message);
        }
        gk_record_fini(&record);
    }
    op_trial_asked_fini(&asked);
}
