/*
 * The executor process: see children.h. It owns the device. Whatever a candidate does to it costs
 * that trial and no other: the supervisor starts a fresh one.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "worker/child_frame.h"
#include "worker/children.h"
#include "worker/code_cache.h"
#include "worker/device_mock.h"
#include "worker/generate.h"
#include "worker/scene.h"
#include "worker/trial.h"

#define REFERENCES_BYTES ((size_t)512 << 20)
#define CATALOGS_MAX     4
#define TIMES_MAX        256

struct loaded_catalog {
    char *root;
    struct gk_catalog *catalog;
};

struct executor {
    const struct gk_executor_options *options;
    struct gk_trial_bench bench;   /* device NULL: mock */
    struct gk_trial_bench checker; /* the bench's, where it has one */
    char no_checker[200];          /* why it has none */
    struct gk_device_props props;
    struct loaded_catalog catalogs[CATALOGS_MAX]; /* the one used last is first */
    /* Modelled times are the same in every pass of a final round: what was verified and timed is
     * not run again. */
    struct {
        struct gk_hash key;
        double run_ns, plan_ns;
    } times[TIMES_MAX];
    uint32_t time_next;
    int frames;       /* descriptor that answers are written to */
    bool lost;        /* the device: this process has said so and ends */
    bool never_alone; /* the bench's */
};

struct request { /* of one trial; owned pieces */
    const struct gk_op *op;
    const struct gk_template *template_;
    struct gk_problem problem;
    struct gk_space_def def;
    struct gk_config config;
    struct gk_compile_output codes[GK_LAUNCHES_MAX], reference;
    bool has_problem, has_def;
};

static uint64_t now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void request_fini(struct request *request)
{
    for (uint32_t i = 0; i < GK_LAUNCHES_MAX; i++) {
        gk_compile_output_fini(&request->codes[i]);
    }
    gk_compile_output_fini(&request->reference);
    if (request->has_def) {
        gk_space_def_fini(&request->def);
    }
    if (request->has_problem) {
        gk_problem_fini(&request->problem);
    }
}

/* ------------------------------------------------------------------ reading a request */

static enum gk_status find_catalog(struct executor *executor, const char *root,
                                   const struct gk_catalog **catalog_out, struct gk_err *err)
{
    struct gk_catalog *catalog = NULL;
    struct gk_diag diag;
    for (uint32_t i = 0; i < CATALOGS_MAX; i++) {
        if (executor->catalogs[i].root && strcmp(executor->catalogs[i].root, root) == 0) {
            struct loaded_catalog found = executor->catalogs[i];
            memmove(&executor->catalogs[1], &executor->catalogs[0], i * sizeof found);
            executor->catalogs[0] = found;
            *catalog_out = found.catalog;
            return GK_OK;
        }
    }
    gk_diag_init(&diag);
    enum gk_status status = gk_catalog_load(root, &catalog, &diag);
    if (status != GK_OK) {
        (void)gk_diag_status(&diag, err);
    }
    gk_diag_fini(&diag);
    char *copy = status == GK_OK ? gk_strdup(root) : NULL;
    if (!copy) {
        gk_catalog_destroy(catalog);
        return status == GK_OK ? gk_fail(err, GK_NOMEM, "out of memory") : status;
    }
    const uint32_t last = CATALOGS_MAX - 1;
    if (executor->catalogs[last].catalog) {
        gk_kept_clear(&executor->bench); /* what is kept knows its op */
    }
    free(executor->catalogs[last].root);
    gk_catalog_destroy(executor->catalogs[last].catalog);
    memmove(&executor->catalogs[1], &executor->catalogs[0], last * sizeof executor->catalogs[0]);
    executor->catalogs[0].root = copy;
    executor->catalogs[0].catalog = catalog;
    *catalog_out = catalog;
    return GK_OK;
}

static enum gk_status read_codes(struct request *request, const struct gk_json *json,
                                 struct gk_err *err)
{
    const struct gk_json *codes = gk_json_get(json, "codes");
    const char *reference = gk_json_get_string(json, "reference", "");
    enum gk_status status = GK_OK;
    for (uint32_t i = 0; i < GK_LAUNCHES_MAX && status == GK_OK; i++) {
        const char *path = gk_json_string(gk_json_at(codes, i), "");
        if (*path) {
            status = gk_code_read(path, &request->codes[i], err);
        }
    }
    return status == GK_OK && *reference ? gk_code_read(reference, &request->reference, err)
                                         : status;
}

static enum gk_status read_request(struct executor *executor, const struct gk_json *json,
                                   struct request *request, struct gk_err *err)
{
    const struct gk_catalog *catalog = NULL;
    uint32_t tree = 0;
    enum gk_status status =
        find_catalog(executor, gk_json_get_string(json, "root", ""), &catalog, err);
    if (status != GK_OK) {
        return status;
    }
    request->op = gk_catalog_find(catalog, gk_json_get_string(json, "op", ""));
    if (!request->op) {
        return gk_fail(err, GK_NOT_FOUND, "no such op: %s", gk_json_get_string(json, "op", ""));
    }
    status = gk_problem_from_text(&request->op->fields, gk_json_get_string(json, "problem", ""),
                                  &request->problem, err);
    request->has_problem = status == GK_OK;
    if (status == GK_OK) {
        status =
            gk_catalog_space(request->op, &request->problem, &executor->props, &request->def, err);
        request->has_def = status == GK_OK;
    }
    if (status == GK_OK && gk_json_get_bool(json, "vendor", false)) {
        return read_codes(request, json, err);
    }
    if (status == GK_OK) {
        status = gk_config_from_text(&request->def, gk_json_get_string(json, "config", ""),
                                     &request->config, &tree, err);
    }
    if (status == GK_OK) {
        request->template_ = gk_op_template(request->op, request->config.template_name);
    }
    return status == GK_OK ? read_codes(request, json, err) : status;
}

/* ------------------------------------------------------------------ running it */

static void wait_ms(int64_t ms)
{
    struct timespec span = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};
    while (nanosleep(&span, &span) != 0) {
    }
}

/* The outcome of a mock device whose executor meets the memory limit of its control group. */
static void eat(void)
{
    const size_t size = (size_t)1 << 30, page = 4096;
    volatile char *bytes = malloc(size);
    for (size_t at = 0; bytes && at < size; at += page) {
        bytes[at] = 1; /* only a page that was written takes memory */
    }
    abort(); /* nobody has stopped it */
}

static enum gk_status run_mock(struct executor *executor, const struct gk_json *json,
                               const struct request *request, struct gk_record *record,
                               struct gk_err *err)
{
    struct gk_plan *plan = calloc(1, sizeof *plan);
    struct gk_mock_decision decision;
    if (!plan) {
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    enum gk_status status = gk_plan_render(request->op, request->template_, &request->problem,
                                           &request->config, &executor->props, plan, err);
    if (status != GK_OK) {
        gk_record_fail(record, GK_STAGE_RENDER, GK_FAILURE_ILLEGAL, "%s", err->text);
        free(plan);
        return GK_OK;
    }
    status = gk_mock_decide(gk_json_get_string(json, "root", ""), plan,
                            gk_json_get_string(json, "config", ""), &decision, err);
    gk_plan_fini(plan);
    free(plan);
    if (status != GK_OK) {
        return status;
    }
    wait_ms(decision.compile_ms + decision.run_ms);
    if (decision.outcome == GK_MOCK_DIE) {
        abort();
    }
    if (decision.outcome == GK_MOCK_HUNGRY) {
        eat();
    }
    while (decision.outcome == GK_MOCK_HANG) {
        wait_ms(1000000);
    }
    executor->lost = decision.outcome == GK_MOCK_LOSE || decision.outcome == GK_MOCK_ECC;
    decision.time_ns *= gk_device_skew(executor->options->device);
    decision.twice_ns *= gk_device_skew(executor->options->device);
    int64_t set = gk_json_get_int(json, "input_set", 0);
    bool compares =
        gk_json_get_bool(json, "final", false) && !gk_json_get_bool(json, "measure_only", false);
    gk_mock_record(&decision, set < 0 ? 0 : (uint32_t)set,
                   compares || gk_json_get_bool(json, "twice", false), record);
    return GK_OK;
}

static struct gk_hash time_key(const struct gk_json *json)
{
    struct gk_hasher hasher;
    gk_hasher_init(&hasher);
    gk_hasher_text(&hasher, gk_json_get_string(json, "root", ""));
    gk_hasher_text(&hasher, gk_json_get_string(json, "op", ""));
    gk_hasher_text(&hasher, gk_json_get_string(json, "problem", ""));
    gk_hasher_text(&hasher, gk_json_get_string(json, "config", ""));
    gk_hasher_text(&hasher, gk_json_get_string(json, "policy", ""));
    return gk_hasher_final(&hasher);
}

static bool known_time(struct executor *executor, const struct gk_hash *key,
                       struct gk_record *record)
{
    for (uint32_t i = 0; i < TIMES_MAX; i++) {
        if (executor->times[i].run_ns > 0 && gk_hash_equal(&executor->times[i].key, key)) {
            record->stage = GK_STAGE_DONE;
            record->modelled = true;
            record->time_ns = record->samples_ns[0] = executor->times[i].run_ns;
            record->plan_ns = executor->times[i].plan_ns;
            record->sample_count = 1;
            return true;
        }
    }
    return false;
}

static enum gk_status run_trial(struct executor *executor, const struct gk_json *json,
                                const struct request *request, struct gk_record *record,
                                struct gk_err *err)
{
    int64_t set = gk_json_get_int(json, "input_set", 0);
    bool is_final = gk_json_get_bool(json, "final", false);
    bool measure_only = gk_json_get_bool(json, "measure_only", false);
    bool compares = is_final && !measure_only && request->template_; /* the vendor's is nobody's */
    struct gk_hash key = time_key(json);
    struct gk_trial trial = {
        .op = request->op,
        .template_ = request->template_,
        .problem = &request->problem,
        .config = &request->config,
        .reference_code = &request->reference,
        .input_set = set < 0 ? GK_INPUT_SETS_ALL : (uint32_t)set % GK_INPUT_SETS,
        .best_ns = gk_json_get_real(json, "best_ns", 0),
        .measure_only = measure_only,
        .effort = is_final ? gk_effort_pass(gk_json_get_bool(json, "sustained", false))
                           : gk_effort_search(),
        .sets = gk_json_get_bool(json, "twice", false) ? GK_TRIAL_SETS_TWICE
                : compares                             ? GK_TRIAL_SETS_COMPARE
                                                       : GK_TRIAL_SETS_PLAIN,
        .vendor_places = executor->options->vendor,
        .keep = is_final ? &key : NULL,
    };
    const char *policy = gk_json_get_string(json, "policy", gk_policy_name(GK_POLICY_COLD_GRAPH));
    if (!gk_policy_from_name(policy, &trial.policy)) {
        return gk_fail(err, GK_INPUT, "policy '%s': there are %s", policy, gk_policy_names());
    }
    if (trial.measure_only && executor->props.modelled && known_time(executor, &key, record)) {
        return GK_OK;
    }
    for (uint32_t i = 0; i < GK_LAUNCHES_MAX; i++) {
        trial.codes[i] = &request->codes[i];
    }
    enum gk_status status = gk_trial_run(&executor->bench, &trial, record, err);
    if (status == GK_OK && record->stage == GK_STAGE_DONE) {
        uint32_t slot = executor->time_next++ % TIMES_MAX;
        executor->times[slot].key = key;
        executor->times[slot].run_ns = record->time_ns;
        executor->times[slot].plan_ns = record->plan_ns;
    }
    return status;
}

static bool is_lost(struct gk_device *device)
{
    return device->ops->health(device, NULL) != GK_OK;
}

static struct gk_json *answer(struct executor *executor, const struct gk_json *json)
{
    struct request *request = calloc(1, sizeof *request);
    struct gk_record *record = calloc(1, sizeof *record);
    struct gk_json *reply = gk_json_new_object();
    struct gk_err err = {0};
    uint64_t start = now_ns();
    bool good = false;
    if (!request || !record || !reply) {
        goto out;
    }
    gk_record_init(record);
    enum gk_status status = read_request(executor, json, request, &err);
    if (status == GK_OK) {
        status = executor->bench.device ? run_trial(executor, json, request, record, &err)
                                        : run_mock(executor, json, request, record, &err);
    }
    double spent = (double)(now_ns() - start);
    record->verify_ns = spent > record->measure_ns ? spent - record->measure_ns : 0;
    executor->lost = executor->bench.device ? is_lost(executor->bench.device) : executor->lost;
    good = status == GK_OK ? gk_json_set(reply, "record", gk_record_to_json(record))
                           : gk_json_set_string(reply, "error", err.text) &&
                                 gk_json_set_string(reply, "status", gk_status_name(status));
    good = good && (!executor->lost || gk_json_set_bool(reply, "lost", true));
out:
    if (record) {
        gk_record_fini(record);
    }
    if (request) {
        request_fini(request);
    }
    free(record);
    free(request);
    if (!good) {
        gk_json_free(reply);
        return NULL;
    }
    return reply;
}

#define CACHE_PATH_MAX 4096
/* Scenes take at most this part of the device's memory; one of them may take half of it. */
#define SCENES_SHARE 0.7

/* A device that is large or does not see every access itself compares on its own, with kernels of
 * ours. */
static enum gk_status open_scenes(struct executor *executor, struct gk_err *err)
{
    struct gk_trial_bench *bench = &executor->bench;
    const struct gk_compiler_places places = {.file = executor->options->nvrtc};
    char cache[CACHE_PATH_MAX];
    (void)snprintf(cache, sizeof cache, "%s/code", executor->options->spool);
    enum gk_status status = gk_inspector_create(
        bench->device, &places, *executor->options->spool ? cache : NULL, &bench->inspector, err);
    if (status != GK_OK) {
        return status;
    }
    bench->scenes = gk_scenes_create(bench->device, bench->inspector,
                                     (uint64_t)((double)executor->props.mem_bytes * SCENES_SHARE));
    bench->kept = gk_kept_create();
    if (!bench->scenes || !bench->kept) {
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    if (executor->options->checks) { /* a target that is not emulated is no reason to end */
        struct gk_err why = {0};
        bool opened = gk_checker_open(executor->props.target, &executor->checker, &why) == GK_OK;
        (void)snprintf(executor->no_checker, sizeof executor->no_checker, "%.199s", why.text);
        bench->checker = opened ? &executor->checker : NULL;
        bench->no_checker = opened ? NULL : executor->no_checker;
    }
    return GK_OK;
}

static enum gk_status open_device(struct executor *executor, struct gk_err *err)
{
    const char *name = executor->options->device;
    if (strncmp(name, "mock", 4) == 0) {
        return gk_device_props_builtin(name, &executor->props, err);
    }
    enum gk_status status = gk_device_open(name, &executor->bench.device, err);
    if (status != GK_OK) {
        return status;
    }
    executor->props = executor->bench.device->props;
    executor->bench.references = gk_references_create(REFERENCES_BYTES);
    if (!executor->bench.references) {
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    return executor->props.modelled ? GK_OK : open_scenes(executor, err);
}

static void executor_close(struct executor *executor)
{
    struct gk_trial_bench *bench = &executor->bench;
    if (bench->checker) {
        gk_checker_close(&executor->checker);
    }
    gk_kept_destroy(bench);
    gk_scenes_destroy(bench->scenes);
    gk_inspector_destroy(bench->inspector);
    gk_references_destroy(bench->references);
    gk_device_close(bench->device);
    for (uint32_t i = 0; i < CATALOGS_MAX; i++) {
        free(executor->catalogs[i].root);
        gk_catalog_destroy(executor->catalogs[i].catalog);
    }
    free(executor);
}

/* What a candidate prints, or the driver or a library on its behalf, goes to descriptor 1 and must
 * not look like an answer: that one becomes standard error, and answers go to a copy. */
static enum gk_status take_frames(struct executor *executor, struct gk_err *err)
{
    executor->frames = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (executor->frames < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0) {
        return gk_fail(err, GK_IO, "standard output is set aside: %s", strerror(errno));
    }
    return GK_OK;
}

static enum gk_status say_ready(const struct executor *executor, struct gk_err *err)
{
    struct gk_json *json = gk_json_new_object();
    enum gk_status status = json && gk_json_set_bool(json, "ready", true)
                                ? gk_frame_write(executor->frames, json, err)
                                : gk_fail(err, GK_NOMEM, "out of memory");
    gk_json_free(json);
    return status;
}

/* One request and its answer. GK_END: no more, or the device is lost. */
static enum gk_status serve(struct executor *executor, struct gk_err *err)
{
    struct gk_json *request = NULL;
    enum gk_status status = gk_frame_read(STDIN_FILENO, &request, err);
    if (status == GK_OK) {
        struct gk_json *reply = answer(executor, request);
        status = reply ? gk_frame_write(executor->frames, reply, err)
                       : gk_fail(err, GK_NOMEM, "out of memory");
        gk_json_free(reply);
    }
    gk_json_free(request);
    if (status == GK_OK && executor->lost) {
        _exit(0); /* nothing of a lost device is released in order: its driver may not return */
    }
    return status;
}

int gk_child_executor(const struct gk_executor_options *options)
{
    struct executor *executor = calloc(1, sizeof *executor);
    struct gk_err err = {0};
    /* Its time is the supervisor's to watch, trial by trial. CUDA reserves as much address space as
     * host and GPUs have memory together, several times over: any limit of it is one of CUDA. */
    gk_child_limits(0, 0);
    if (executor) {
        executor->options = options;
        executor->bench.now_ns = now_ns;
        executor->bench.never_alone = &executor->never_alone;
    }
    enum gk_status status =
        executor ? take_frames(executor, &err) : gk_fail(&err, GK_NOMEM, "out of memory");
    if (status == GK_OK) {
        status = open_device(executor, &err);
    }
    if (status == GK_OK) {
        status = say_ready(executor, &err);
    }
    while (status == GK_OK) {
        status = serve(executor, &err);
    }
    if (executor) {
        executor_close(executor);
    }
    if (status != GK_END) {
        (void)fprintf(stderr, "gktune-worker: executor: %s\n", err.text);
    }
    return status == GK_END ? 0 : gk_status_exit(status);
}
