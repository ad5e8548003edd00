/* op.json, kernel.json and sources from strangers. What is refused says why and where; what is
 * accepted makes a space, and a plan or a named reason against one. */
#include <stdlib.h>
#include <string.h>

#include "kernels/catalog_internal.h"
#include "kernels/render.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct gk_catalog *toy; /* made once: a target has no tear-down */

static void try_plan(const struct gk_op *op, const struct gk_template *t)
{
    static const char *const problems[] = {"scale{\"N\":1000}",
                                           "scale{\"N\":0,\"dtype\":\"bf16\"}"};
    struct gk_device_props dev;
    struct gk_err err = {0};
    GK_ASSERT(gk_device_props_builtin("emu:sm_90a", &dev, &err) == GK_OK);
    for (size_t i = 0; i < GK_ARRAY_COUNT(problems); i++) {
        struct gk_problem problem = {0};
        struct gk_plan plan = {0};
        struct gk_config config = {.count = t->param_count};
        GK_ASSERT(gk_problem_from_text(&op->fields, problems[i], &problem, &err) == GK_OK);
        for (uint32_t k = 0; k < t->param_count; k++) {
            config.values[k] = t->params[k].values[i % t->params[k].value_count];
        }
        err.text[0] = '\0';
        if (gk_plan_render(op, t, &problem, &config, &dev, &plan, &err) == GK_OK) {
            struct gk_kernel_facts facts[8] = {{.blocks_per_sm = 1, .max_clusters = 1}};
            double seconds = -1;
            enum gk_status status = gk_template_prior(t, plan.slots, &seconds, &err);
            GK_ASSERT((status == GK_OK) == (seconds > 0));
            (void)gk_plan_refine(&plan, facts, &err); /* any answer */
        } else {
            GK_ASSERT(err.text[0] != '\0');
        }
        gk_plan_fini(&plan);
        gk_problem_fini(&problem);
    }
}

static void try_template(const struct gk_json *json, struct gk_diag *diag)
{
    const struct gk_op *op = gk_catalog_op(toy, 0);
    const struct gk_reach reach = {.catalog = toy, .folder = 0, .include_folder = -1};
    struct gk_template *t = calloc(1, sizeof *t);
    struct gk_reader r;
    GK_ASSERT(t != NULL);
    gk_reader_init(&r, "input", diag);
    gk_template_read(&r, json, op, &reach, t);
    GK_ASSERT(r.errors == diag->count);
    if (r.errors == 0) {
        try_plan(op, t);
    }
    gk_template_fini(t);
    free(t);
}

static void try_op(const struct gk_json *json, struct gk_diag *diag)
{
    const struct gk_reach reach = {.catalog = toy, .folder = 0, .include_folder = -1};
    struct gk_op *op = calloc(1, sizeof *op);
    struct gk_reader r;
    GK_ASSERT(op != NULL);
    gk_reader_init(&r, "input", diag);
    gk_op_read(&r, json, op);
    gk_op_read_checks(&r, json, &reach, op);
    gk_op_read_defaults(&r, json, op);
    gk_op_free(op);
}

static void try_source(const uint8_t *data, size_t size)
{
    struct gk_source *source = calloc(1, sizeof *source);
    GK_ASSERT(source != NULL);
    source->text = gk_strndup((const char *)data, size);
    source->size = size;
    GK_ASSERT(source->text != NULL);
    (void)gk_source_scan(source, NULL); /* any answer; it must come */
    gk_source_free(source);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gk_json *json = NULL;
    struct gk_diag diag;
    gk_diag_init(&diag);
    if (!toy) {
        GK_ASSERT(gk_hash_setup(NULL) == GK_OK);
        GK_ASSERT(gk_catalog_load(GK_SOURCE_DIR "/tests/data/kernels/toy", &toy, &diag) == GK_OK);
    }
    try_source(data, size);
    if (gk_json_parse((const char *)data, size, "input", &json, NULL) == GK_OK) {
        if (gk_json_get(json, "fields")) {
            try_op(json, &diag);
        } else {
            try_template(json, &diag);
        }
    }
    for (uint32_t i = 0; i < diag.kept; i++) {
        GK_ASSERT(strncmp(diag.texts[i], "input: ", 7) == 0);
    }
    gk_json_free(json);
    gk_diag_fini(&diag);
    return 0;
}
