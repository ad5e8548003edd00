/* One config on the emulated device, line by line: see emu_report.h. */
#include "worker/emu_report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/compile_job.h"
#include "worker/emu_plain.h"
#include "worker/emu_report_lines.h"
#include "worker/generate.h"
#include "worker/trial.h"

#define REFERENCES_BYTES ((size_t)512 << 20)

/* All that one report needs; owned pieces. */
struct report {
    const struct gk_json *request;
    struct gk_compiler *compiler;
    bool innermost;
    struct gk_catalog *catalog;
    const struct gk_op *op;
    const struct gk_template *template_;
    struct gk_problem problem;
    struct gk_space_def def;
    struct gk_config config;
    struct gk_device *device;
    struct gk_references *references;
    struct gk_plan plan, reference_plan;
    struct gk_compile_output codes[GK_LAUNCHES_MAX], reference;
    struct gk_emu_sources sources;
    /* What the device showed: the module of each launch, and the launch's last run. */
    const struct gk_emu_module *modules[GK_LAUNCHES_MAX];
    struct gk_json *launches[GK_LAUNCHES_MAX];
    bool failed; /* out of memory in a call that cannot say so */
    struct gk_json *json;
};

static void drop_launches(struct report *report)
{
    for (uint32_t i = 0; i < GK_LAUNCHES_MAX; i++) {
        gk_json_free(report->launches[i]);
        report->launches[i] = NULL;
    }
}

static void report_fini(struct report *report)
{
    drop_launches(report);
    gk_plan_fini(&report->plan);
    gk_plan_fini(&report->reference_plan);
    for (uint32_t i = 0; i < GK_LAUNCHES_MAX; i++) {
        gk_compile_output_fini(&report->codes[i]);
    }
    gk_compile_output_fini(&report->reference);
    gk_emu_sources_fini(&report->sources);
    gk_references_destroy(report->references);
    gk_device_close(report->device);
    gk_space_def_fini(&report->def);
    gk_problem_fini(&report->problem);
    gk_catalog_destroy(report->catalog);
    gk_json_free(report->json);
    free(report);
}

/* ------------------------------------------------------------------ what the device shows */

/* The text tells candidates from the reference: each launch has a copy of its own. */
static void watch_loaded(void *context, const char *ptx, const struct gk_emu_module *module)
{
    struct report *report = context;
    for (uint32_t i = 0; i < GK_LAUNCHES_MAX; i++) {
        if (report->codes[i].ptx == ptx) {
            report->modules[i] = module;
        } else if (report->modules[i] == module) {
            report->modules[i] = NULL; /* that one was unloaded, and its memory used again */
        }
    }
}

static void watch_launched(void *context, const struct gk_emu_launched *launched)
{
    struct report *report = context;
    for (uint32_t i = 0; i < GK_LAUNCHES_MAX; i++) {
        if (report->modules[i] == launched->module) {
            gk_json_free(report->launches[i]);
            report->launches[i] =
                gk_emu_launch_to_json(&report->sources, launched, report->innermost);
            report->failed = report->failed || !report->launches[i];
        }
    }
}

/* ------------------------------------------------------------------ the request */

static enum gk_status load_catalog(struct report *report, struct gk_err *err)
{
    const char *what = gk_json_get_string(report->request, "what", "");
    const char *problem = gk_json_get_string(report->request, "problem", "");
    char op[GK_NAME_MAX];
    struct gk_diag diag;
    gk_diag_init(&diag);
    enum gk_status status = gk_catalog_load_for(gk_json_get_string(report->request, "kernels", ""),
                                                what, &report->catalog, &diag);
    if (status != GK_OK) {
        (void)gk_diag_status(&diag, err);
    }
    gk_diag_fini(&diag);
    status = status == GK_OK ? gk_problem_op_of(problem, op, err) : status;
    if (status == GK_OK) {
        report->op = gk_catalog_find(report->catalog, op);
        status = report->op ? GK_OK : gk_fail(err, GK_NOT_FOUND, "%s has no op '%s'", what, op);
    }
    return status;
}

static enum gk_status open_device(struct report *report, struct gk_err *err)
{
    const struct gk_emu_watch watch = {watch_loaded, watch_launched, report};
    int64_t seed = gk_json_get_int(report->request, "seed", 1);
    enum gk_status status =
        gk_device_emu_open_watched(gk_json_get_string(report->request, "device", ""),
                                   (uint64_t)seed, &watch, &report->device, err);
    if (status == GK_OK) {
        report->references = gk_references_create(REFERENCES_BYTES);
        status = report->references ? GK_OK : gk_fail(err, GK_NOMEM, "out of memory");
    }
    return status;
}

static enum gk_status read_request(struct report *report, struct gk_err *err)
{
    const struct gk_json *request = report->request;
    uint32_t tree = 0;
    report->innermost = gk_json_get_bool(request, "innermost", false);
    enum gk_status status = load_catalog(report, err);
    if (status == GK_OK) {
        status = gk_problem_from_text(
            &report->op->fields, gk_json_get_string(request, "problem", ""), &report->problem, err);
    }
    status = status == GK_OK ? open_device(report, err) : status;
    if (status == GK_OK) {
        status = gk_catalog_space(report->op, &report->problem, &report->device->props,
                                  &report->def, err);
    }
    if (status == GK_OK) {
        status = gk_config_from_text(&report->def, gk_json_get_string(request, "config", ""),
                                     &report->config, &tree, err);
    }
    if (status == GK_OK) {
        report->template_ = gk_op_template(report->op, report->config.template_name);
        status = gk_plan_render(report->op, report->template_, &report->problem, &report->config,
                                &report->device->props, &report->plan, err);
    }
    if (status == GK_OK) {
        status = gk_plan_reference(report->op, &report->problem, &report->device->props,
                                   &report->reference_plan, err);
    }
    return status;
}

/* ------------------------------------------------------------------ compiling */

static enum gk_status keep_sources(struct report *report, const struct gk_compile_job *job,
                                   struct gk_err *err)
{
    enum gk_status status = gk_emu_sources_add(&report->sources, job->name, job->text, err);
    for (uint32_t i = 0; i < job->header_count && status == GK_OK; i++) {
        status =
            gk_emu_sources_add(&report->sources, job->headers[i].name, job->headers[i].text, err);
    }
    return status;
}

static enum gk_status compile(struct report *report, const struct gk_plan *plan, uint32_t launch,
                              struct gk_compile_output *output, struct gk_err *err)
{
    struct gk_compile_job job = {0};
    enum gk_status status =
        gk_compile_job_make(report->catalog, plan, launch, report->device->props.target, &job, err);
    if (status == GK_OK) {
        status = keep_sources(report, &job, err);
    }
    if (status == GK_OK) {
        status = gk_compile_job_run(&job, report->compiler, output, err);
    }
    gk_compile_job_fini(&job);
    return status;
}

/* Sets the report's failure; the message's lines stand beside it. */
static enum gk_status set_failure(struct report *report, const char *schedule, const char *stage,
                                  const char *kind, const char *text, struct gk_err *err)
{
    struct gk_json *json = gk_emu_failure_to_json(&report->sources, schedule, stage, kind, text);
    return gk_json_set(report->json, "failure", json) ? GK_OK
                                                      : gk_fail(err, GK_NOMEM, "out of memory");
}

/* *compiled_out false: the failure is in the report. */
static enum gk_status compile_all(struct report *report, bool *compiled_out, struct gk_err *err)
{
    enum gk_status status = GK_OK;
    *compiled_out = true;
    for (uint32_t i = 0; i < report->plan.launch_count && status == GK_OK && *compiled_out; i++) {
        if (report->plan.launches[i].present) {
            status = compile(report, &report->plan, i, &report->codes[i], err);
            *compiled_out = status == GK_OK && report->codes[i].compiled;
            if (status == GK_OK && !*compiled_out) {
                status = set_failure(report, NULL, "compile", "compile_error", report->codes[i].log,
                                     err);
            }
        }
    }
    if (status == GK_OK && *compiled_out) {
        status = compile(report, &report->reference_plan, 0, &report->reference, err);
        if (status == GK_OK && !report->reference.compiled) {
            *compiled_out = false;
            status = set_failure(report, NULL, "compile", "reference_failed", report->reference.log,
                                 err);
        }
    }
    return status;
}

/* ------------------------------------------------------------------ running */

static bool copy_member(struct gk_json *to, const struct gk_json *from, const char *name)
{
    const struct gk_json *member = gk_json_get(from, name);
    return !member || gk_json_set(to, name, gk_json_copy(member));
}

/* What the record says of one trial. */
static struct gk_json *run_to_json(const struct gk_record *record, const char *schedule)
{
    struct gk_json *json = gk_json_new_object(), *whole = gk_record_to_json(record);
    bool verified = record->failure == GK_FAILURE_NONE;
    bool good = json && whole && gk_json_set_string(json, "schedule", schedule) &&
                gk_json_set_bool(json, "verified", verified) && copy_member(json, whole, "stage") &&
                copy_member(json, whole, "failure") && copy_member(json, whole, "rungs") &&
                (!verified || gk_json_set_real(json, "modelled_ns", record->time_ns));
    gk_json_free(whole);
    if (!good) {
        gk_json_free(json);
        return NULL;
    }
    return json;
}

/* Registers and spills, for the launches that were compiled. */
static bool add_resources(struct report *report, const struct gk_record *record)
{
    uint32_t kernel = 0;
    bool good = true;
    for (uint32_t i = 0; i < report->plan.launch_count && good; i++) {
        if (!report->plan.launches[i].present || kernel == record->kernel_count) {
            continue;
        }
        const struct gk_kernel_resources *from = &record->kernels[kernel++];
        struct gk_json *json = report->launches[i];
        good = !json || (gk_json_set_string(json, "launch", report->plan.launches[i].def->name) &&
                         gk_json_set_string(json, "kernel", from->kernel) &&
                         gk_json_set_int(json, "regs", from->regs) &&
                         gk_json_set_int(json, "spill_bytes", from->spill_bytes) &&
                         gk_json_set_int(json, "static_smem", from->static_smem));
    }
    return good;
}

/* The trial under one schedule. *verified_out false: the report has the failure. */
static enum gk_status run_schedule(struct report *report, const char *name, struct gk_json *runs,
                                   bool *verified_out, struct gk_err *err)
{
    struct gk_trial_bench bench = {.device = report->device, .references = report->references};
    struct gk_trial trial = {
        .op = report->op,
        .template_ = report->template_,
        .problem = &report->problem,
        .config = &report->config,
        .reference_code = &report->reference,
        .input_set = (uint32_t)gk_json_get_int(report->request, "input_set", 0) % GK_INPUT_SETS,
    };
    enum gk_emu_schedule schedule = GK_EMU_LATE;
    struct gk_record *record = calloc(1, sizeof *record);
    if (!record) {
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    gk_record_init(record);
    for (uint32_t i = 0; i < GK_LAUNCHES_MAX; i++) {
        trial.codes[i] = &report->codes[i];
    }
    drop_launches(report);
    enum gk_status status = gk_device_emu_schedule_find(name, &schedule, err);
    if (status == GK_OK) {
        gk_device_emu_schedule(report->device, schedule);
        status = gk_trial_run(&bench, &trial, record, err);
    }
    if (status == GK_OK && (report->failed || !add_resources(report, record) ||
                            !gk_json_push(runs, run_to_json(record, name)))) {
        status = gk_fail(err, GK_NOMEM, "out of memory");
    }
    *verified_out = status == GK_OK && record->failure == GK_FAILURE_NONE;
    if (status == GK_OK && !*verified_out) {
        status = set_failure(report, name, gk_stage_name(record->stage),
                             gk_failure_name(record->failure),
                             record->message ? record->message : "", err);
    }
    gk_record_fini(record);
    free(record);
    return status;
}

static enum gk_status run_all(struct report *report, struct gk_err *err)
{
    const struct gk_json *schedules = gk_json_get(report->request, "schedules");
    struct gk_json *runs = gk_json_new_array(), *launches = gk_json_new_array();
    bool verified = false, good = runs && launches;
    enum gk_status status = good ? GK_OK : gk_fail(err, GK_NOMEM, "out of memory");
    for (size_t i = 0; i < gk_json_count(schedules) && status == GK_OK; i++) {
        status = run_schedule(report, gk_json_string(gk_json_at(schedules, i), ""), runs, &verified,
                              err);
        if (!verified) {
            break;
        }
    }
    for (uint32_t i = 0; i < GK_LAUNCHES_MAX && status == GK_OK; i++) {
        if (report->launches[i]) {
            good = gk_json_push(launches, report->launches[i]) && good;
            report->launches[i] = NULL;
        }
    }
    good = gk_json_set(report->json, "runs", runs) && good;
    good = gk_json_set(report->json, "launches", launches) && good;
    good = gk_json_set_bool(report->json, "verified", verified) && good;
    if (gk_json_get_bool(report->request, "sources", false)) {
        good =
            gk_json_set(report->json, "sources", gk_emu_sources_to_json(&report->sources)) && good;
    }
    return status == GK_OK && !good ? gk_fail(err, GK_NOMEM, "out of memory") : status;
}

static enum gk_status set_head(struct report *report, struct gk_err *err)
{
    const struct gk_device_props *props = &report->device->props;
    const struct gk_json *request = report->request;
    report->json = gk_json_new_object();
    bool good = report->json && copy_member(report->json, request, "what") &&
                gk_json_set_string(report->json, "op", report->op->fields.op) &&
                gk_json_set_string(report->json, "problem", report->problem.canonical) &&
                gk_json_set_string(report->json, "template", report->template_->name) &&
                copy_member(report->json, request, "config") &&
                gk_json_set_string(report->json, "arch", props->arch) &&
                copy_member(report->json, request, "seed") &&
                copy_member(report->json, request, "input_set") &&
                gk_json_set_string(report->json, "nvrtc", gk_compiler_version(report->compiler)) &&
                gk_json_set_bool(report->json, "verified", false);
    return good ? GK_OK : gk_fail(err, GK_NOMEM, "out of memory");
}

static bool is_plain(const struct gk_json *request)
{
    const char *what = gk_json_get_string(request, "what", "");
    size_t size = strlen(what);
    return size > 3 && strcmp(what + size - 3, ".cu") == 0;
}

enum gk_status gk_emu_report(const struct gk_json *request, struct gk_compiler *compiler,
                             struct gk_json **report_out, struct gk_err *err)
{
    if (is_plain(request)) {
        return gk_emu_plain(request, compiler, report_out, err);
    }
    struct report *report = calloc(1, sizeof *report);
    bool compiled = false;
    if (!report) {
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    report->request = request;
    report->compiler = compiler;
    enum gk_status status = read_request(report, err);
    status = status == GK_OK ? set_head(report, err) : status;
    status = status == GK_OK ? compile_all(report, &compiled, err) : status;
    if (status == GK_OK && compiled) {
        status = run_all(report, err);
    }
    if (status == GK_OK) {
        *report_out = report->json;
        report->json = NULL;
    }
    report_fini(report);
    return status;
}
