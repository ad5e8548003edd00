/*
 * Exports: one read of the store, one set of files an op and arch. See export.h.
 *
 * Catalogs come from the bundles that the rows name: the local kernels folder when it is that very
 * bundle, else the daemon's blobs, unpacked into a folder of ours that is removed at the end.
 */
#include "cli/export.h"
#include "cli/export_model.h"
#include "core/policy.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ------------------------------------------------------------------ files of one op and arch */

static enum gk_status put_json(struct export_files *files, const struct export_set *set,
                               const char *suffix, const struct gk_json *json, struct gk_err *err)
{
    struct gk_buf text = {0};
    char *path = gk_asprintf("%s%s", set->ident, suffix);
    enum gk_status status =
        path ? gk_json_pretty(json, &text, err) : gk_fail(err, GK_NOMEM, "out of memory");
    gk_buf_putc(&text, '\n');
    if (status == GK_OK) {
        status = gk_buf_status(&text, err);
    }
    if (status == GK_OK) {
        status = export_files_put(files, path, gk_buf_text(&text), text.size, err);
    }
    free(path);
    gk_buf_fini(&text);
    return status;
}

static enum gk_status put_header(struct export_files *files, const struct export_set *set,
                                 struct gk_err *err)
{
    struct gk_buf text = {0};
    char *path = gk_asprintf("%s.h", set->ident);
    enum gk_status status =
        path ? export_header_text(set, &text, err) : gk_fail(err, GK_NOMEM, "out of memory");
    if (status == GK_OK) {
        status = export_files_put(files, path, gk_buf_text(&text), text.size, err);
    }
    free(path);
    gk_buf_fini(&text);
    return status;
}

static enum gk_status put_set(struct export_files *files, const struct export_set *set,
                              enum gk_export_format format, const char *store, struct gk_err *err)
{
    struct gk_json *json = NULL;
    enum gk_status status = GK_OK;
    if (format == GK_EXPORT_HEADER) {
        status = put_header(files, set, err);
    } else {
        status = export_rows_json(set, &json, err);
        if (status == GK_OK) {
            status = put_json(files, set, ".json", json, err);
        }
        gk_json_free(json);
        json = NULL;
    }
    if (status == GK_OK) {
        status = export_evidence_json(set, store, &json, err);
    }
    if (status == GK_OK) {
        status = put_json(files, set, ".evidence.json", json, err);
    }
    gk_json_free(json);
    for (uint32_t i = 0; i < set->unit_count && status == GK_OK; i++) {
        status = export_files_sources(files, &set->units[i], err);
    }
    return status;
}

/* ------------------------------------------------------------------ all ops and archs of the rows
 */

const char *export_policy(const struct gk_export_ask *ask)
{
    return ask->policy ? ask->policy : gk_policy_name(GK_POLICY_COLD_GRAPH);
}

bool export_wants(const struct gk_export_ask *ask, const struct gk_json *row)
{
    bool op = ask->op_count == 0;
    for (uint32_t i = 0; i < ask->op_count; i++) {
        op |= strcmp(ask->ops[i], gk_json_get_string(row, "op", "")) == 0;
    }
    return op && (!ask->arch || strcmp(ask->arch, gk_json_get_string(row, "arch", "")) == 0) &&
           (!ask->gpu || strcmp(ask->gpu, gk_json_get_string(row, "gpu", "")) == 0);
}

/* Times of two policies are no rows of one header. */
static bool wanted(const struct gk_export_ask *ask, const struct gk_json *row)
{
    const char *policy = export_policy(ask);
    return export_wants(ask, row) && strcmp(policy, gk_json_get_string(row, "policy", policy)) == 0;
}

/* True if an earlier row has the same op and arch: one set serves both. */
static bool seen_before(const struct gk_json *rows, size_t index)
{
    const struct gk_json *row = gk_json_at(rows, index);
    for (size_t i = 0; i < index; i++) {
        const struct gk_json *other = gk_json_at(rows, i);
        if (strcmp(gk_json_get_string(row, "op", ""), gk_json_get_string(other, "op", "")) == 0 &&
            strcmp(gk_json_get_string(row, "arch", ""), gk_json_get_string(other, "arch", "")) ==
                0) {
            return true;
        }
    }
    return false;
}

static struct gk_json *filter(const struct gk_json *rows, const struct gk_export_ask *ask)
{
    struct gk_json *kept = gk_json_new_array();
    for (size_t i = 0; i < gk_json_count(rows); i++) {
        if (wanted(ask, gk_json_at(rows, i))) {
            (void)gk_json_push(kept, gk_json_copy(gk_json_at(rows, i)));
        }
    }
    return kept;
}

static enum gk_status put_jobs(struct export_files *files, const struct gk_json *jobs,
                               struct gk_err *err)
{
    struct gk_buf text = {0};
    enum gk_status status = gk_json_pretty(jobs, &text, err);
    gk_buf_putc(&text, '\n');
    status = status == GK_OK ? gk_buf_status(&text, err) : status;
    if (status == GK_OK) {
        status = export_files_put(files, "jobs.json", gk_buf_text(&text), text.size, err);
    }
    gk_buf_fini(&text);
    return status;
}

static enum gk_status write_all(const struct gk_json *rows, const char *store,
                                const struct export_bundle *bundles, uint32_t bundle_count,
                                const struct gk_export_ask *ask, struct gk_json **files_out,
                                struct gk_err *err)
{
    struct export_files files = {0};
    enum gk_status status = GK_OK;
    if (gk_json_count(rows) == 0 && !ask->jobs_json) {
        return gk_fail(err, GK_NOT_FOUND,
                       "the store has no pick of policy %s%s%s%s%s: nothing to export",
                       export_policy(ask), ask->arch ? " on arch " : "", ask->arch ? ask->arch : "",
                       ask->gpu ? " and gpu " : "", ask->gpu ? ask->gpu : "");
    }
    status = export_files_init(&files, ask->out_dir, err);
    for (size_t i = 0; i < gk_json_count(rows) && status == GK_OK; i++) {
        const struct gk_json *row = gk_json_at(rows, i);
        struct export_set *set = seen_before(rows, i) ? NULL : calloc(1, sizeof *set);
        if (!set) {
            continue;
        }
        status =
            export_set_init(set, gk_json_get_string(row, "op", ""),
                            gk_json_get_string(row, "arch", ""), rows, bundles, bundle_count, err);
        if (status == GK_OK) {
            status = put_set(&files, set, ask->format, store, err);
            export_set_fini(set);
        }
        free(set);
    }
    if (status == GK_OK && ask->jobs_json) {
        status = put_jobs(&files, ask->jobs_json, err);
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

enum gk_status gk_export_data(const struct gk_json *data, const struct gk_catalog *catalog,
                              const struct gk_export_ask *ask, struct gk_json **files_out,
                              struct gk_err *err)
{
    struct export_bundle bundles[EXPORT_BUNDLES_MAX];
    uint32_t count = 0;
    const struct gk_json *list = gk_json_get(data, "bundles");
    for (size_t i = 0; i < gk_json_count(list) && count < EXPORT_BUNDLES_MAX; i++) {
        struct export_bundle *bundle = &bundles[count];
        *bundle = (struct export_bundle){.catalog = catalog, .folder = "src"};
        count += gk_hash_from_hex(gk_json_get_string(gk_json_at(list, i), "id", ""), &bundle->id);
    }
    struct gk_json *rows = filter(gk_json_get(data, "rows"), ask);
    enum gk_status status = write_all(rows, gk_json_get_string(data, "store", NULL), bundles, count,
                                      ask, files_out, err);
    gk_json_free(rows);
    return status;
}

/* ------------------------------------------------------------------ reading the store */

struct reading {
    struct gk_json *rows, *bundles; /* bundles: of all pages, each id once */
    char store[80];
};

static bool has_bundle(const struct reading *reading, const char *id)
{
    for (size_t i = 0; i < gk_json_count(reading->bundles); i++) {
        if (strcmp(gk_json_get_string(gk_json_at(reading->bundles, i), "id", ""), id) == 0) {
            return true;
        }
    }
    return false;
}

static enum gk_status take_page(struct reading *reading, const struct gk_json *reply,
                                struct gk_err *err)
{
    const struct gk_json *rows = gk_json_get(reply, "rows"),
                         *bundles = gk_json_get(reply, "bundles");
    bool ok = true;
    for (size_t i = 0; i < gk_json_count(rows); i++) {
        ok = gk_json_push(reading->rows, gk_json_copy(gk_json_at(rows, i))) && ok;
    }
    void *cursor = NULL;
    const char *id = NULL;
    const struct gk_json *bundle;
    while ((bundle = gk_json_next(bundles, &cursor, &id)) != NULL) {
        if (!has_bundle(reading, id)) {
            struct gk_json *one = gk_json_new_object();
            ok = gk_json_set_string(one, "id", id) && ok;
            ok = gk_json_set(one, "files", gk_json_copy(gk_json_get(bundle, "files"))) && ok;
            ok = gk_json_push(reading->bundles, one) && ok;
        }
    }
    (void)snprintf(reading->store, sizeof reading->store, "%s",
                   gk_json_get_string(gk_json_get(reply, "store"), "store_id", ""));
    return ok ? GK_OK : gk_fail(err, GK_NOMEM, "out of memory");
}

static struct gk_json *request_body(const struct gk_export_ask *ask, const char *op)
{
    struct gk_json *body = gk_json_new_object();
    if (op) {
        struct gk_json *ops = gk_json_new_array();
        (void)gk_json_push(ops, gk_json_new_string(op));
        (void)gk_json_set(body, "ops", ops);
    }
    if (ask->arch) {
        (void)gk_json_set_string(body, "arch", ask->arch);
    }
    if (ask->gpu) {
        (void)gk_json_set_string(body, "gpu", ask->gpu);
    }
    return body;
}

/* Rows of one op, or of all (op NULL). */
static enum gk_status read_op(struct gk_client *client, const struct gk_export_ask *ask,
                              const char *op, struct reading *reading, struct gk_err *err)
{
    enum gk_status status = GK_OK;
    struct gk_json *cursor = NULL;
    do {
        struct gk_json *body = request_body(ask, op), *reply = NULL;
        if (cursor) {
            (void)gk_json_set(body, "cursor", cursor);
            cursor = NULL;
        }
        status = gk_client_request(client, "export_data", body, 0, &reply, err);
        if (status == GK_OK) {
            status = take_page(reading, reply, err);
        }
        const struct gk_json *next = gk_json_get(reply, "next");
        if (status == GK_OK && next && gk_json_type(next) != GK_JSON_NULL) {
            cursor = gk_json_copy(next);
        }
        gk_json_free(reply);
    } while (status == GK_OK && cursor);
    gk_json_free(cursor);
    return status;
}

static enum gk_status read_store(struct gk_client *client, const struct gk_export_ask *ask,
                                 struct reading *reading, struct gk_err *err)
{
    enum gk_status status = ask->op_count ? GK_OK : read_op(client, ask, NULL, reading, err);
    for (uint32_t i = 0; i < ask->op_count && status == GK_OK; i++) {
        status = read_op(client, ask, ask->ops[i], reading, err);
    }
    return status;
}

struct job_keys {
    struct gk_json *keys; /* "op arch" of the job's tasks as keys of an object */
};

static enum gk_status note_key(void *context, const struct gk_json *row, struct gk_err *err)
{
    struct job_keys *keys = context;
    char *key = gk_asprintf("%s %s", gk_json_get_string(row, "op", ""),
                            gk_json_get_string(row, "arch", ""));
    bool ok = key && gk_json_set_bool(keys->keys, key, true);
    free(key);
    return ok ? GK_OK : gk_fail(err, GK_NOMEM, "out of memory");
}

/* Leaves the rows of the ops and archs that the job has picks for: the whole header of each, not
 * the job's rows alone. */
static enum gk_status keep_job(struct gk_client *client, int64_t job, struct reading *reading,
                               struct gk_err *err)
{
    struct job_keys keys = {gk_json_new_object()};
    struct gk_json *body = gk_json_new_object(), *kept = gk_json_new_array();
    (void)gk_json_set_int(body, "job", job);
    enum gk_status status = gk_client_pages(client, "best", body, "rows", note_key, &keys, err);
    for (size_t i = 0; i < gk_json_count(reading->rows) && status == GK_OK; i++) {
        const struct gk_json *row = gk_json_at(reading->rows, i);
        char *key = gk_asprintf("%s %s", gk_json_get_string(row, "op", ""),
                                gk_json_get_string(row, "arch", ""));
        if (key && gk_json_get(keys.keys, key) && !gk_json_push(kept, gk_json_copy(row))) {
            status = gk_fail(err, GK_NOMEM, "out of memory");
        }
        free(key);
    }
    gk_json_free(keys.keys);
    gk_json_free(reading->rows);
    reading->rows = kept;
    return status;
}

/* ------------------------------------------------------------------ bundles to catalogs */

static enum gk_status unpack(struct gk_client *client, const struct gk_bundle *bundle,
                             const char *folder, struct gk_err *err)
{
    enum gk_status status = GK_OK;
    for (uint32_t i = 0; i < bundle->count && status == GK_OK; i++) {
        char *bytes = NULL, *path = gk_asprintf("%s/%s", folder, bundle->files[i].path);
        size_t size = 0;
        for (char *slash = path ? strchr(path + strlen(folder) + 1, '/') : NULL; slash;
             slash = strchr(slash + 1, '/')) {
            *slash = '\0';
            (void)mkdir(path, 0700); /* exists, or the store below fails */
            *slash = '/';
        }
        status = path ? gk_client_get_blob(client, &bundle->files[i].hash, &bytes, &size, err)
                      : gk_fail(err, GK_NOMEM, "out of memory");
        if (status == GK_OK) {
            status = gk_file_store(path, bytes, size, err);
        }
        free(bytes);
        free(path);
    }
    return status;
}

static enum gk_status load_bundle(struct gk_client *client, const struct gk_json *json,
                                  const struct gk_export_ask *ask, const char *folder,
                                  struct export_bundle *out, struct gk_err *err)
{
    struct gk_bundle bundle = {0}, local = {0};
    struct gk_diag diag;
    gk_diag_init(&diag);
    char hex[GK_HASH_TEXT_SIZE], *path = NULL;
    enum gk_status status = GK_OK;
    if (!gk_hash_from_hex(gk_json_get_string(json, "id", ""), &out->id)) {
        status = gk_fail(err, GK_PROTOCOL, "a bundle of the export has no id");
    }
    if (status == GK_OK && ask->kernels && gk_catalog_bundle(ask->kernels, &local, NULL) == GK_OK &&
        gk_hash_equal(&local.id, &out->id)) {
        out->catalog = ask->kernels;
        goto out;
    }
    if (status == GK_OK) {
        status = gk_bundle_from_json(json, &bundle, err);
    }
    gk_hash_hex(&out->id, hex);
    path = gk_asprintf("%s/%.12s", folder, hex);
    if (status == GK_OK && (!path || mkdir(path, 0700) != 0)) {
        status = gk_fail(err, GK_IO, "cannot make a folder for sources below '%s': %s", folder,
                         strerror(errno));
    }
    if (status == GK_OK) {
        status = unpack(client, &bundle, path, err);
    }
    if (status == GK_OK && gk_catalog_load(path, &out->owned, &diag) != GK_OK) {
        status = gk_diag_status(&diag, err);
    }
    out->catalog = out->owned;
out:
    free(path);
    gk_diag_fini(&diag);
    gk_bundle_fini(&bundle);
    gk_bundle_fini(&local);
    return status;
}

static int remove_one(const char *path, const struct stat *info, int type, struct FTW *where)
{
    (void)info;
    (void)type;
    (void)where;
    (void)remove(path); /* what cannot be removed stays in the temporary folder */
    return 0;
}

static enum gk_status export_reading(struct gk_client *client, const struct gk_export_ask *ask,
                                     const struct reading *reading, struct gk_json **files_out,
                                     struct gk_err *err)
{
    struct export_bundle *bundles = calloc(EXPORT_BUNDLES_MAX, sizeof *bundles);
    uint32_t count = 0;
    char folder[] = "/tmp/gktune-export-XXXXXX";
    enum gk_status status = GK_OK;
    if (!bundles) {
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    if (!mkdtemp(folder)) {
        free(bundles);
        return gk_fail(err, GK_IO, "cannot make a folder in /tmp: %s", strerror(errno));
    }
    for (size_t i = 0; i < gk_json_count(reading->bundles) && status == GK_OK; i++) {
        if (count == EXPORT_BUNDLES_MAX) {
            status = gk_fail(err, GK_LIMIT, "rows of more than %d bundles; choose an op",
                             EXPORT_BUNDLES_MAX);
            break;
        }
        struct export_bundle *bundle = &bundles[count++];
        status = load_bundle(client, gk_json_at(reading->bundles, i), ask, folder, bundle, err);
        char hex[GK_HASH_TEXT_SIZE];
        gk_hash_hex(&bundle->id, hex);
        (void)snprintf(bundle->folder, sizeof bundle->folder, count == 1 ? "src" : "src_%.8s", hex);
    }
    if (status == GK_OK) {
        status = write_all(reading->rows, reading->store, bundles, count, ask, files_out, err);
    }
    for (uint32_t i = 0; i < count; i++) {
        gk_catalog_destroy(bundles[i].owned);
    }
    free(bundles);
    (void)nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    return status;
}

enum gk_status gk_export(struct gk_client *client, const struct gk_export_ask *ask,
                         struct gk_json **files_out, struct gk_err *err)
{
    struct reading reading = {.rows = gk_json_new_array(), .bundles = gk_json_new_array()};
    enum gk_status status = read_store(client, ask, &reading, err);
    if (status == GK_OK && ask->job) {
        status = keep_job(client, ask->job, &reading, err);
    }
    if (status == GK_OK) {
        status = export_reading(client, ask, &reading, files_out, err);
    }
    gk_json_free(reading.rows);
    gk_json_free(reading.bundles);
    return status;
}
