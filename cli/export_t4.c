/*
 * Every trial of the store as T4 results: what others' tools and gktune replay read.
 *
 * T4 knows neither problems nor templates, and one file is one space: so there is a file for each
 * problem, device and template. A trial that the infrastructure lost says nothing about its config
 * and is left out; a result that answered several asks stands once.
 */
#include <stdlib.h>
#include <string.h>

#include "cli/export_model.h"
#include "core/policy.h"
#include "search/replay_t4.h"

#define FILES_MAX 4096u
#define TEXT_MAX  ((size_t)1 << 30) /* of all files together: some 500,000 trials */

struct t4_file {
    char *key, *name;
    struct gk_buf text;
    uint32_t rows;
};

struct t4_export {
    const struct gk_export_ask *ask;
    int64_t *jobs;
    uint32_t job_count;
    struct t4_file *files;
    uint32_t file_count;
    size_t text_size;
};

static void t4_fini(struct t4_export *self)
{
    for (uint32_t i = 0; i < self->file_count; i++) {
        free(self->files[i].key);
        free(self->files[i].name);
        gk_buf_fini(&self->files[i].text);
    }
    free(self->files);
    free(self->jobs);
}

static enum gk_status take_job(void *context, const struct gk_json *row, struct gk_err *err)
{
    struct t4_export *self = context;
    const char *policy = export_policy(self->ask);
    if (strcmp(gk_json_get_string(row, "policy", gk_policy_name(GK_POLICY_COLD_GRAPH)), policy) !=
        0) {
        return GK_OK; /* its times are of another kind */
    }
    int64_t *jobs = realloc(self->jobs, (self->job_count + 1u) * sizeof jobs[0]);
    if (!jobs) {
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    self->jobs = jobs;
    self->jobs[self->job_count++] = gk_json_get_int(row, "job", 0);
    return GK_OK;
}

/* False for what says nothing about the config. */
static bool outcome_of(const char *name, enum gk_replay_outcome *outcome_out)
{
    enum gk_failure failure;
    if (!gk_failure_from_name(name, &failure)) {
        return false;
    }
    switch (failure) {
    case GK_FAILURE_NONE:
        *outcome_out = GK_REPLAY_OK;
        return true;
    case GK_FAILURE_REFERENCE:
    case GK_FAILURE_INFRA:
        return false;
    case GK_FAILURE_ILLEGAL:
    case GK_FAILURE_RESOURCES:
        *outcome_out = GK_REPLAY_CONSTRAINTS;
        return true;
    case GK_FAILURE_COMPILE_ERROR:
    case GK_FAILURE_COMPILE_MEMORY:
    case GK_FAILURE_COMPILE_CRASH:
        *outcome_out = GK_REPLAY_COMPILE;
        return true;
    case GK_FAILURE_COMPILE_TIMEOUT:
    case GK_FAILURE_TIMEOUT:
    case GK_FAILURE_DEADLOCK:
    case GK_FAILURE_WORK_LIMIT:
        *outcome_out = GK_REPLAY_TIMEOUT;
        return true;
    case GK_FAILURE_UNWRITTEN_READ:
    case GK_FAILURE_RACE:
    case GK_FAILURE_BAD_OPERAND:
    case GK_FAILURE_WRONG:
    case GK_FAILURE_NONFINITE:
    case GK_FAILURE_NEVER_WRITTEN:
    case GK_FAILURE_CANARY:
    case GK_FAILURE_INPUT_CHANGED:
    case GK_FAILURE_WORKSPACE:
    case GK_FAILURE_FLOOR:
        *outcome_out = GK_REPLAY_CORRECTNESS;
        return true;
    case GK_FAILURE_LOAD_ERROR:
    case GK_FAILURE_LAUNCH_ERROR:
    case GK_FAILURE_OUT_OF_BOUNDS:
    case GK_FAILURE_MISALIGNED:
    case GK_FAILURE_TRAP:
    case GK_FAILURE_UNSUPPORTED:
    case GK_FAILURE_CRASH:
    case GK_FAILURE_MEMORY:
    case GK_FAILURE_UNSTABLE:
    case GK_FAILURE_QUARANTINED:
        *outcome_out = GK_REPLAY_RUNTIME;
        return true;
    }
    return false; /* a kind that this version does not know */
}

/* "gk_gemm_sm_90a_h200-132sm_gemm_mma_1a2b3c4d.t4.json": letters that a file system minds are '_',
 * and the hash keeps apart what the letters do not. */
static char *file_name(const struct gk_json *row, const char *key)
{
    char hex[GK_HASH_TEXT_SIZE];
    struct gk_hash hash = gk_hash_text(key);
    gk_hash_hex(&hash, hex);
    char *name =
        gk_asprintf("gk_%s_%s_%s_%s_%.8s.t4.json", gk_json_get_string(row, "op", "op"),
                    gk_json_get_string(row, "arch", "arch"), gk_json_get_string(row, "gpu", "gpu"),
                    gk_json_get_string(row, "template", "template"), hex);
    for (char *p = name; p && *p; p++) {
        bool plain = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') ||
                     (*p >= '0' && *p <= '9') || *p == '.' || *p == '-';
        *p = plain ? *p : '_';
    }
    return name;
}

static enum gk_status begin_file(struct t4_export *self, const struct gk_json *row, char *key,
                                 struct t4_file **file_out, struct gk_err *err)
{
    char *device = gk_asprintf("%s (%s)", gk_json_get_string(row, "gpu", "?"),
                               gk_json_get_string(row, "arch", "?"));
    char *name = file_name(row, key);
    struct t4_file *files = realloc(self->files, (self->file_count + 1u) * sizeof self->files[0]);
    if (files) {
        self->files = files;
    }
    if (!device || !name || !files) {
        free(device);
        free(name);
        free(key);
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    struct t4_file *file = &self->files[self->file_count++];
    *file = (struct t4_file){.key = key, .name = name};
    const struct gk_t4_head head = {.device = device,
                                    .kernel = gk_json_get_string(row, "template", "?"),
                                    .problem = gk_json_get_string(row, "problem", "?"),
                                    .version = GKTUNE_VERSION};
    gk_t4_begin(&head, &file->text);
    free(device);
    *file_out = file;
    return GK_OK;
}

static enum gk_status file_of(struct t4_export *self, const struct gk_json *row,
                              struct t4_file **file_out, struct gk_err *err)
{
    char *key = gk_asprintf("%s %s %s %s", gk_json_get_string(row, "problem", ""),
                            gk_json_get_string(row, "arch", ""), gk_json_get_string(row, "gpu", ""),
                            gk_json_get_string(row, "template", ""));
    if (!key) {
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    for (uint32_t i = self->file_count; i > 0; i--) { /* rows of a task follow each other */
        if (strcmp(self->files[i - 1].key, key) == 0) {
            free(key);
            *file_out = &self->files[i - 1];
            return GK_OK;
        }
    }
    if (self->file_count == FILES_MAX) {
        free(key);
        return gk_fail(err, GK_LIMIT,
                       "more than %u pairs of problem and template; name an op, --arch or --gpu",
                       FILES_MAX);
    }
    return begin_file(self, row, key, file_out, err);
}

static uint32_t extras_of(const struct gk_json *row, struct gk_t4_measurement extras[3])
{
    static const struct {
        const char *key, *name, *unit;
    } known[3] = {{"regs", "registers", ""},
                  {"spill_bytes", "spill", "bytes"},
                  {"dynamic_smem", "dynamic shared memory", "bytes"}};
    uint32_t count = 0;
    for (size_t i = 0; i < GK_ARRAY_COUNT(known); i++) {
        int64_t value = gk_json_get_int(row, known[i].key, -1);
        if (value >= 0) {
            extras[count++] =
                (struct gk_t4_measurement){known[i].name, (double)value, known[i].unit};
        }
    }
    return count;
}

static enum gk_status take_trial(void *context, const struct gk_json *row, struct gk_err *err)
{
    struct t4_export *self = context;
    struct t4_file *file = NULL;
    struct gk_json *configuration = NULL;
    struct gk_t4_measurement extras[3];
    double samples[GK_SAMPLES_MAX];
    struct gk_t4_result result = {.samples_ns = samples, .measurements = extras};
    const char *failure = gk_json_get_string(row, "failure", ""),
               *config = strchr(gk_json_get_string(row, "config", ""), '{');
    if (!export_wants(self->ask, row) || !config || !outcome_of(failure, &result.outcome)) {
        return GK_OK;
    }
    const struct gk_json *list = gk_json_get(row, "samples");
    for (size_t i = 0; i < gk_json_count(list) && i < GK_SAMPLES_MAX; i++) {
        samples[result.sample_count++] = gk_json_real(gk_json_at(list, i), 0);
    }
    enum gk_status status = gk_json_parse(config, strlen(config), "config", &configuration, err);
    if (status == GK_OK) {
        status = file_of(self, row, &file, err);
    }
    if (status == GK_OK) {
        result.configuration = configuration;
        result.failure = failure;
        result.recorded_ms = gk_json_get_int(row, "recorded_ms", 0);
        result.compile_ns = gk_json_get_real(row, "compile_ns", 0);
        result.run_ns = gk_json_get_real(row, "measure_ns", 0);
        result.verify_ns = gk_json_get_real(row, "verify_ns", 0);
        result.time_ns = gk_json_get_real(row, "time_ns", 0);
        result.measurement_count = extras_of(row, extras);
        self->text_size -= file->text.size;
        status = gk_t4_add(&result, file->rows++ == 0, &file->text, err);
        self->text_size += file->text.size;
    }
    if (status == GK_OK && self->text_size > TEXT_MAX) {
        status = gk_fail(err, GK_LIMIT,
                         "more than %zu bytes of trials; name an op, --arch or --gpu", TEXT_MAX);
    }
    gk_json_free(configuration);
    return status;
}

static enum gk_status write_files(struct t4_export *self, struct gk_json **files_out,
                                  struct gk_err *err)
{
    const struct gk_export_ask *ask = self->ask;
    struct export_files files = {0};
    if (!self->file_count) {
        return gk_fail(err, GK_NOT_FOUND,
                       "the store has no recorded trial%s%s%s%s: nothing to "
                       "export",
                       ask->arch ? " on arch " : "", ask->arch ? ask->arch : "",
                       ask->gpu ? " and gpu " : "", ask->gpu ? ask->gpu : "");
    }
    enum gk_status status = export_files_init(&files, ask->out_dir, err);
    for (uint32_t i = 0; status == GK_OK && i < self->file_count; i++) {
        struct t4_file *file = &self->files[i];
        gk_t4_end(&file->text);
        status = gk_buf_status(&file->text, err);
        if (status == GK_OK) {
            status = export_files_put(&files, file->name, file->text.data, file->text.size, err);
        }
    }
    if (status == GK_OK) {
        status = export_files_finish(&files, err);
    }
    if (status == GK_OK && files_out) {
        *files_out = files.paths;
        files.paths = NULL;
    }
    export_files_fini(&files);
    return status;
}

enum gk_status gk_export_trials(struct gk_client *client, const struct gk_export_ask *ask,
                                struct gk_json **files_out, struct gk_err *err)
{
    struct t4_export self = {.ask = ask};
    enum gk_status status =
        gk_client_pages(client, "jobs", gk_json_new_object(), "jobs", take_job, &self, err);
    for (uint32_t i = 0; status == GK_OK && i < self.job_count; i++) {
        struct gk_json *body = gk_json_new_object();
        (void)gk_json_set_int(body, "job", self.jobs[i]);
        (void)gk_json_set_bool(body, "measured", true);
        status = gk_client_pages(client, "trials", body, "trials", take_trial, &self, err);
    }
    if (status == GK_OK) {
        status = write_files(&self, files_out, err);
    }
    t4_fini(&self);
    return status;
}
