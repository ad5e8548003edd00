/* A compilation as data: see compile_job.h. */
#include "worker/compile_job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEADERS_MAX 1024

void gk_compile_job_fini(struct gk_compile_job *job)
{
    if (!job) {
        return;
    }
    for (uint32_t i = 0; i < job->header_count; i++) {
        free((char *)job->headers[i].name);
        free((char *)job->headers[i].text);
    }
    for (uint32_t i = 0; i < job->define_count; i++) {
        free(job->defines[i]);
    }
    for (uint32_t i = 0; i < job->option_count; i++) {
        free(job->options[i]);
    }
    free(job->headers);
    free(job->defines);
    free(job->options);
    free(job->kernel);
    free(job->name);
    free(job->text);
    memset(job, 0, sizeof *job);
}

/* ------------------------------------------------------------------ from a plan */

static enum gk_status add_header(struct gk_compile_job *job, const char *name, const char *text,
                                 struct gk_err *err)
{
    for (uint32_t i = 0; i < job->header_count; i++) {
        if (strcmp(job->headers[i].name, name) == 0) {
            return GK_OK; /* the first place wins, as it does for the catalog's own search */
        }
    }
    if (job->header_count == HEADERS_MAX) {
        return gk_fail(err, GK_LIMIT, "more than %d headers", HEADERS_MAX);
    }
    char *name_copy = gk_strdup(name), *text_copy = gk_strdup(text);
    if (!name_copy || !text_copy) {
        free(name_copy);
        free(text_copy);
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    job->headers[job->header_count].name = name_copy;
    job->headers[job->header_count++].text = text_copy;
    return GK_OK;
}

/* The rest of path below folder, or NULL: ("gemm/a.cuh", "gemm") is "a.cuh". */
static const char *below(const char *path, const char *folder, size_t length)
{
    if (length == 0) {
        return path;
    }
    return strncmp(path, folder, length) == 0 && path[length] == '/' ? path + length + 1 : NULL;
}

static enum gk_status add_names(struct gk_compile_job *job, const struct gk_plan *plan,
                                const char *source, const char *path, const char *text,
                                struct gk_err *err)
{
    const char *slash = strrchr(source, '/');
    const char *name = below(path, source, slash ? (size_t)(slash - source) : 0);
    enum gk_status status = name ? add_header(job, name, text, err) : GK_OK;
    uint32_t dirs = plan->template_ ? plan->template_->include_dir_count : 0;
    for (uint32_t i = 0; i < dirs && status == GK_OK; i++) {
        const char *dir = plan->template_->include_dirs[i];
        name = below(path, dir, strlen(dir));
        status = name ? add_header(job, name, text, err) : GK_OK;
    }
    name = below(path, "include", strlen("include"));
    return status == GK_OK && name ? add_header(job, name, text, err) : status;
}

static bool is_description(const char *path)
{
    size_t size = strlen(path);
    return size >= 5 && strcmp(path + size - 5, ".json") == 0;
}

static enum gk_status add_files(struct gk_compile_job *job, const struct gk_catalog *catalog,
                                const struct gk_plan *plan, const char *source, struct gk_err *err)
{
    struct gk_bundle bundle = {0};
    enum gk_status status = gk_catalog_bundle(catalog, &bundle, err);
    for (uint32_t i = 0; status == GK_OK && i < bundle.count; i++) {
        char *text = NULL;
        size_t size = 0;
        if (is_description(bundle.files[i].path)) {
            continue;
        }
        status = gk_catalog_file(catalog, bundle.files[i].path, &text, &size, err);
        if (status == GK_OK) {
            status = add_names(job, plan, source, bundle.files[i].path, text, err);
        }
        free(text);
    }
    gk_bundle_fini(&bundle);
    return status;
}

static enum gk_status copy_list(char *const *from, uint32_t count, char ***list_out,
                                uint32_t *count_out, struct gk_err *err)
{
    *list_out = calloc((size_t)count + 1, sizeof **list_out);
    if (!*list_out) {
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    for (uint32_t i = 0; i < count; i++) {
        (*list_out)[i] = gk_strdup(from[i]);
        if (!(*list_out)[i]) {
            return gk_fail(err, GK_NOMEM, "out of memory");
        }
        (*count_out)++;
    }
    return GK_OK;
}

enum gk_status gk_compile_job_make(const struct gk_catalog *catalog, const struct gk_plan *plan,
                                   uint32_t launch, const char *target,
                                   struct gk_compile_job *job_out, struct gk_err *err)
{
    const struct gk_plan_launch *planned = &plan->launches[launch];
    struct gk_compile_job job = {.module_key = planned->module_key};
    size_t size = 0;
    (void)snprintf(job.target, sizeof job.target, "%s", target);
    job.kernel = gk_strdup(planned->def->kernel);
    job.name = gk_strdup(planned->def->source);
    job.headers = calloc(HEADERS_MAX, sizeof *job.headers);
    enum gk_status status =
        job.kernel && job.name && job.headers ? GK_OK : gk_fail(err, GK_NOMEM, "out of memory");
    if (status == GK_OK) {
        status = gk_catalog_file(catalog, planned->def->source, &job.text, &size, err);
    }
    if (status == GK_OK) {
        status = add_files(&job, catalog, plan, planned->def->source, err);
    }
    if (status == GK_OK) {
        status = copy_list(planned->defines, planned->define_count, &job.defines, &job.define_count,
                           err);
    }
    if (status == GK_OK) {
        bool own = plan->template_ != NULL;
        status = copy_list(own ? plan->template_->options : NULL,
                           own ? plan->template_->option_count : 0, &job.options, &job.option_count,
                           err);
    }
    if (status != GK_OK) {
        gk_compile_job_fini(&job);
        return gk_fail_in(err, status, "launch %s", planned->def->name);
    }
    *job_out = job;
    return GK_OK;
}

/* ------------------------------------------------------------------ as JSON */

static struct gk_json *list_to_json(char *const *list, uint32_t count)
{
    struct gk_json *json = gk_json_new_array();
    bool good = json != NULL;
    for (uint32_t i = 0; i < count; i++) {
        good = good && gk_json_push(json, gk_json_new_string(list[i]));
    }
    if (!good) {
        gk_json_free(json);
        return NULL;
    }
    return json;
}

struct gk_json *gk_compile_job_to_json(const struct gk_compile_job *job)
{
    char hex[GK_HASH_TEXT_SIZE];
    struct gk_json *json = gk_json_new_object(), *headers = gk_json_new_object();
    gk_hash_hex(&job->module_key, hex);
    bool good = json && headers;
    for (uint32_t i = 0; i < job->header_count; i++) {
        good = good && gk_json_set_string(headers, job->headers[i].name, job->headers[i].text);
    }
    good = good && gk_json_set_string(json, "module_key", hex) &&
           gk_json_set_string(json, "target", job->target) &&
           gk_json_set_string(json, "kernel", job->kernel) &&
           gk_json_set_string(json, "name", job->name) &&
           gk_json_set_string(json, "text", job->text);
    good = good && gk_json_set(json, "defines", list_to_json(job->defines, job->define_count));
    good = good && gk_json_set(json, "options", list_to_json(job->options, job->option_count));
    if (!good) {
        gk_json_free(json);
        gk_json_free(headers);
        return NULL;
    }
    if (!gk_json_set(json, "headers", headers)) {
        gk_json_free(json);
        return NULL;
    }
    return json;
}

static enum gk_status list_from_json(const struct gk_json *json, char ***list_out,
                                     uint32_t *count_out, struct gk_err *err)
{
    size_t count = gk_json_count(json);
    *list_out = calloc(count + 1, sizeof **list_out);
    if (!*list_out) {
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    for (size_t i = 0; i < count; i++) {
        (*list_out)[i] = gk_strdup(gk_json_string(gk_json_at(json, i), ""));
        if (!(*list_out)[i]) {
            return gk_fail(err, GK_NOMEM, "out of memory");
        }
        (*count_out)++;
    }
    return GK_OK;
}

static enum gk_status headers_from_json(const struct gk_json *json, struct gk_compile_job *job,
                                        struct gk_err *err)
{
    void *cursor = NULL;
    const char *name = NULL;
    const struct gk_json *text;
    job->headers = calloc(HEADERS_MAX, sizeof *job->headers);
    if (!job->headers) {
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    while ((text = gk_json_next(json, &cursor, &name)) != NULL) {
        enum gk_status status = add_header(job, name, gk_json_string(text, ""), err);
        if (status != GK_OK) {
            return status;
        }
    }
    return GK_OK;
}

enum gk_status gk_compile_job_from_json(const struct gk_json *json, struct gk_compile_job *job_out,
                                        struct gk_err *err)
{
    struct gk_compile_job job = {0};
    (void)gk_hash_from_hex(gk_json_get_string(json, "module_key", ""), &job.module_key);
    (void)snprintf(job.target, sizeof job.target, "%s", gk_json_get_string(json, "target", ""));
    job.kernel = gk_strdup(gk_json_get_string(json, "kernel", ""));
    job.name = gk_strdup(gk_json_get_string(json, "name", ""));
    job.text = gk_strdup(gk_json_get_string(json, "text", ""));
    enum gk_status status =
        job.kernel && job.name && job.text ? GK_OK : gk_fail(err, GK_NOMEM, "out of memory");
    if (status == GK_OK) {
        status = headers_from_json(gk_json_get(json, "headers"), &job, err);
    }
    if (status == GK_OK) {
        status = list_from_json(gk_json_get(json, "defines"), &job.defines, &job.define_count, err);
    }
    if (status == GK_OK) {
        status = list_from_json(gk_json_get(json, "options"), &job.options, &job.option_count, err);
    }
    if (status != GK_OK) {
        gk_compile_job_fini(&job);
        return status;
    }
    *job_out = job;
    return GK_OK;
}

enum gk_status gk_compile_job_run(const struct gk_compile_job *job, struct gk_compiler *compiler,
                                  struct gk_compile_output *output_out, struct gk_err *err)
{
    struct gk_compile_input input = {
        .name = job->name,
        .text = job->text,
        .headers = job->headers,
        .header_count = job->header_count,
        .defines = (const char *const *)job->defines,
        .define_count = job->define_count,
        .options = (const char *const *)job->options,
        .option_count = job->option_count,
        .target = job->target,
    };
    return gk_compiler_run(compiler, &input, output_out, err);
}
