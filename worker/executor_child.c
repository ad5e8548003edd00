#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "worker/pipe_frame.h"
#include "worker/children.h"
#include "worker/sandbox.h"
#include "worker/trial.h"

#define REFERENCE_BYTES_MAX ((size_t)512 << 20)

struct executor {
    int out;
    struct gk_device *device;     /* NULL: mock */
    struct gk_references *references;
    struct gk_catalog *catalog;   /* of the bundle below */
    char *bundle;
};

static bool send(struct executor *e, const struct gk_json *request, const char *kind,
                 struct gk_json *record, const char *error)
{
    struct gk_json *json = gk_json_new_object();
    bool good = json && gk_json_set_string(json, "kind", kind) &&
                (!request || gk_json_set_int(json, "id", gk_json_get_int(request, "id", 0))) &&
                (!error || gk_json_set_string(json, "error", error));
    if (record) {
        good = json && gk_json_set(json, "record", record) && good;
    }
    good = good && gk_pipe_write(e->out, json, NULL, 0, NULL) == GK_OK;
    gk_json_free(json);
    return good;
}

static bool send_hello(struct executor *e, const char *device, const char *error)
{
    struct gk_json *json = gk_json_new_object();
    bool good = json && gk_json_set_string(json, "kind", "hello") &&
                (error ? gk_json_set_string(json, "error", error)
                       : gk_json_set_string(json, "device", device)) &&
                gk_pipe_write(e->out, json, NULL, 0, NULL) == GK_OK;
    gk_json_free(json);
    return good;
}

/* ------------------------------------------------------------------ a trial */

static enum gk_status use_bundle(struct executor *e, const char *bundle, struct gk_err *err)
{
    struct gk_diag diag;
    if (e->bundle && strcmp(e->bundle, bundle) == 0) {
        return GK_OK;
    }
    gk_references_destroy(e->references); /* entries are keyed by problem: another bundle, another meaning */
    e->references = gk_references_create(REFERENCE_BYTES_MAX);
    gk_catalog_destroy(e->catalog);
    e->catalog = NULL;
    free(e->bundle);
    e->bundle = gk_strdup(bundle);
    if (!e->bundle || !e->references) {
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    gk_diag_init(&diag);
    enum gk_status status = gk_catalog_load(bundle, &e->catalog, &diag);
    if (status != GK_OK) {
        (void)gk_diag_status(&diag, err);
        free(e->bundle);
        e->bundle = NULL;
    }
    gk_diag_fini(&diag);
    return status;
}

/* Codes point into the payload, which ends with a NUL; outputs own nothing here. */
static enum gk_status read_codes(const struct gk_pipe *frame, struct gk_compile_output *codes,
                                 struct gk_trial *trial, struct gk_err *err)
{
    const struct gk_json *list = gk_json_get(frame->json, "codes");
    size_t at = 0;
    for (size_t i = 0; i < gk_json_count(list); i++) {
        const struct gk_json *item = gk_json_at(list, i);
        const int64_t launch = gk_json_get_int(item, "launch", -2);
        const int64_t ptx = gk_json_get_int(item, "ptx", -1), cubin = gk_json_get_int(item, "cubin", -1);
        if (i > GK_LAUNCHES_MAX || launch < -1 || launch >= GK_LAUNCHES_MAX || ptx < 0 || cubin < 0 ||
            (size_t)ptx > frame->payload_size - at ||
            (size_t)cubin > frame->payload_size - at - (size_t)ptx) {
            return gk_fail(err, GK_PROTOCOL, "trial: code %zu does not fit the payload", i);
        }
        struct gk_compile_output *code = &codes[i];
        code->compiled = true;
        code->ptx = gk_strndup(frame->payload + at, (size_t)ptx);
        code->ptx_size = (size_t)ptx;
        at += (size_t)ptx;
        code->cubin = malloc((size_t)cubin + 1);
        code->log = gk_strdup(gk_json_get_string(item, "log", ""));
        if (!code->ptx || !code->cubin || !code->log) {
            return gk_fail(err, GK_NOMEM, "out of memory for code");
        }
        memcpy(code->cubin, frame->payload + at, (size_t)cubin);
        code->cubin_size = (size_t)cubin;
        at += (size_t)cubin;
        if (launch < 0) {
            trial->reference_code = code;
        } else {
            trial->codes[launch] = code;
        }
    }
    return GK_OK;
}

static const struct gk_template *find_template(const struct gk_op *op, const char *name)
{
    for (uint32_t i = 0; i < op->template_count; i++) {
        if (strcmp(op->templates[i].name, name) == 0) {
            return &op->templates[i];
        }
    }
    return NULL;
}

static enum gk_status run_trial(struct executor *e, const struct gk_pipe *frame,
                                struct gk_record *record, struct gk_err *err)
{
    const struct gk_json *json = frame->json;
    struct gk_compile_output codes[GK_LAUNCHES_MAX + 1] = {0};
    struct gk_trial trial = {0};
    struct gk_problem problem = {0};
    struct gk_space_def def = {0};
    struct gk_config config;
    uint32_t tree = 0;
    enum gk_status status = use_bundle(e, gk_json_get_string(json, "bundle", ""), err);
    if (status != GK_OK) {
        return status;
    }
    trial.op = gk_catalog_find(e->catalog, gk_json_get_string(json, "op", ""));
    if (!trial.op) {
        return gk_fail(err, GK_NOT_FOUND, "op %s is not in the bundle", gk_json_get_string(json, "op", ""));
    }
    status = gk_problem_from_text(&trial.op->fields, gk_json_get_string(json, "problem", ""), &problem, err);
    if (status == GK_OK) {
        status = gk_catalog_space(trial.op, &problem, &e->device->props, &def, err);
    }
    if (status == GK_OK) {
        status = gk_config_from_text(&def, gk_json_get_string(json, "config", ""), &config, &tree, err);
    }
    if (status == GK_OK) {
        status = read_codes(frame, codes, &trial, err);
    }
    if (status == GK_OK) {
        const struct gk_trial_bench bench = {e->device, e->references};
        trial.template_ = find_template(trial.op, config.template_name);
        trial.problem = &problem;
        trial.config = &config;
        const int64_t set = gk_json_get_int(json, "input_set", 0);
        trial.input_set = set < 0 ? GK_INPUT_SETS_ALL : (uint32_t)set;
        trial.measure_only = gk_json_get_bool(json, "measure_only", false);
        status = gk_trial_run(&bench, &trial, record, err);
    }
    for (size_t i = 0; i < GK_ARRAY_COUNT(codes); i++) {
        gk_compile_output_fini(&codes[i]);
    }
    gk_space_def_fini(&def);
    gk_problem_fini(&problem);
    return status;
}

/* ------------------------------------------------------------------ scripted outcomes */

static void wait_ms(int64_t ms)
{
    struct timespec left = {ms / 1000, ms % 1000 * 1000000};
    while (nanosleep(&left, &left) != 0) {
    }
}

static void run_mock(const struct gk_json *json, struct gk_record *record)
{
    static const struct {
        const char *outcome;
        enum gk_stage stage;
        enum gk_failure failure;
    } OUTCOMES[] = {{"wrong", GK_STAGE_VERIFY, GK_FAILURE_WRONG},
                    {"nan", GK_STAGE_VERIFY, GK_FAILURE_NONFINITE},
                    {"out_of_bounds", GK_STAGE_RUN, GK_FAILURE_OUT_OF_BOUNDS}};
    const char *outcome = gk_json_get_string(json, "outcome", "ok");
    wait_ms(gk_json_get_int(json, "ms", 0));
    if (strcmp(outcome, "die") == 0) {
        (void)raise(SIGKILL);
    }
    if (strcmp(outcome, "hang") == 0) {
        for (;;) {
            (void)pause();
        }
    }
    for (size_t i = 0; i < GK_ARRAY_COUNT(OUTCOMES); i++) {
        if (strcmp(outcome, OUTCOMES[i].outcome) == 0) {
            gk_record_fail(record, OUTCOMES[i].stage, OUTCOMES[i].failure, "mock: scripted outcome %s",
                           outcome);
            return;
        }
    }
    record->stage = GK_STAGE_DONE;
    record->modelled = true;
    record->time_ns = gk_json_get_real(json, "ns", 1000.0);
    record->samples_ns[0] = record->time_ns;
    record->sample_count = 1;
    record->rung_count = 1;
    record->rungs[0] = (struct gk_rung){.name = "reference", .passed = true, .worst_index = -1,
                                        .norm_error = -1.0};
}

/* ------------------------------------------------------------------ the loop */

static bool serve(struct executor *e, const struct gk_pipe *frame)
{
    struct gk_record record;
    struct gk_err err = {0};
    enum gk_status status = GK_OK;
    gk_record_init(&record);
    bool good = send(e, frame->json, "started", NULL, NULL);
    if (strcmp(gk_json_get_string(frame->json, "kind", ""), "mock") == 0) {
        run_mock(frame->json, &record);
    } else if (!e->device) {
        status = gk_fail(&err, GK_INTERNAL, "a mock executor was given a real trial");
    } else {
        status = run_trial(e, frame, &record, &err);
    }
    record.input_set = (uint32_t)gk_json_get_int(frame->json, "input_set", 0) & 3;
    if (good) {
        struct gk_json *json = status == GK_OK ? gk_record_to_json(&record) : NULL;
        good = json ? send(e, frame->json, "record", json, NULL)
                    : send(e, frame->json, "record", NULL, err.text[0] ? err.text : "out of memory");
    }
    gk_record_fini(&record);
    return good;
}

int gk_executor_child(const struct gk_children_streams *streams, const char *device)
{
    struct executor e = {.out = streams->out};
    struct gk_err err = {0};
    enum gk_status status = gk_child_confine(streams->parent, false, &err);
    if (status == GK_OK && strncmp(device, "mock", 4) != 0) {
        status = gk_device_open(device, &e.device, &err);
    }
    if (!send_hello(&e, device, status == GK_OK ? NULL : err.text)) {
        status = GK_CLOSED;
    }
    while (status == GK_OK) {
        struct gk_pipe frame = {0};
        status = gk_pipe_read(streams->in, &frame, &err);
        if (status == GK_OK && !serve(&e, &frame)) {
            status = GK_CLOSED;
        }
        gk_pipe_fini(&frame);
    }
    gk_references_destroy(e.references);
    gk_catalog_destroy(e.catalog);
    gk_device_close(e.device);
    free(e.bundle);
    return status == GK_CLOSED ? 0 : 1;
}
