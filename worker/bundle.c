/*
 * Bundles: fetched from the daemon blob by blob, each checked against its hash, unpacked aside and
 * renamed, loaded. A bundle that is on disk from before is loaded without asking.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base64.h"
#include "worker/code_cache.h"
#include "worker/worker_state.h"

#define BUNDLES_KEPT 16 /* loaded catalogs that nobody uses at the moment */

static void destroy(struct bundle *bundle)
{
    gk_catalog_destroy(bundle->catalog);
    gk_bundle_fini(&bundle->files);
    gk_buf_fini(&bundle->data);
    free(bundle->root);
    free(bundle);
}

void bundle_note(struct worker *worker, const struct gk_json *said)
{
    if (gk_json_get(said, "files")) {
        struct gk_json *copy = gk_json_copy(said); /* without memory the next lease is given back */
        gk_json_free(worker->last_bundle);
        worker->last_bundle = copy;
    }
}

const struct gk_json *bundle_said(const struct worker *worker, const struct gk_json *said)
{
    const char *id = gk_json_get_string(said, "id", "");
    bool is_last =
        worker->last_bundle && strcmp(gk_json_get_string(worker->last_bundle, "id", ""), id) == 0;
    return !gk_json_get(said, "files") && is_last ? worker->last_bundle : said;
}

void bundles_destroy(struct worker *worker)
{
    gk_json_free(worker->last_bundle);
    worker->last_bundle = NULL;
    while (worker->bundles) {
        struct bundle *next = worker->bundles->next;
        destroy(worker->bundles);
        worker->bundles = next;
    }
}

static void load(struct worker *worker, struct bundle *bundle)
{
    struct gk_diag diag;
    struct gk_err err = {0};
    gk_diag_init(&diag);
    if (gk_catalog_load(bundle->root, &bundle->catalog, &diag) != GK_OK) {
        (void)gk_diag_status(&diag, &err);
        worker_log(worker, GK_WORKER_BUNDLE, "bundle %s: %s", bundle->root, err.text);
        bundle->failed = true;
    }
    gk_diag_fini(&diag);
}

enum gk_status bundle_need(struct worker *worker, const struct gk_json *files,
                           struct bundle **bundle_out, struct gk_err *err)
{
    struct gk_bundle list = {0};
    char hex[GK_HASH_TEXT_SIZE];
    enum gk_status status = gk_bundle_from_json(files, &list, err);
    if (status == GK_OK && list.count == 0) {
        gk_bundle_fini(&list);
        status = gk_fail(err, GK_INPUT, "a bundle without files");
    }
    if (status != GK_OK) {
        return status;
    }
    for (struct bundle *bundle = worker->bundles; bundle; bundle = bundle->next) {
        if (!bundle->failed && gk_hash_equal(&bundle->id, &list.id)) {
            gk_bundle_fini(&list);
            bundle->references++;
            bundle->used = ++worker->use_count;
            *bundle_out = bundle;
            return GK_OK;
        }
    }
    struct bundle *bundle = calloc(1, sizeof *bundle);
    gk_hash_hex(&list.id, hex);
    char *root = gk_asprintf("%s/bundles/%s", gk_spool_folder(worker->spool), hex);
    if (!bundle || !root) {
        gk_bundle_fini(&list);
        free(bundle);
        free(root);
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    bundle->id = list.id;
    bundle->files = list;
    bundle->root = root;
    bundle->references = 1;
    bundle->used = ++worker->use_count;
    bundle->next = worker->bundles;
    worker->bundles = bundle;
    if (access(root, F_OK) == 0) { /* renamed into place: whole */
        load(worker, bundle);
    }
    *bundle_out = bundle;
    return GK_OK;
}

void bundle_release(struct worker *worker, struct bundle *bundle)
{
    uint32_t idle = 0;
    struct bundle **oldest = NULL;
    if (!bundle) {
        return;
    }
    bundle->references--;
    for (struct bundle **at = &worker->bundles; *at; at = &(*at)->next) {
        if ((*at)->references == 0) {
            idle++;
            oldest = !oldest || (*at)->used < (*oldest)->used ? at : oldest;
        }
    }
    if (idle > BUNDLES_KEPT && oldest) {
        bundle = *oldest;
        *oldest = bundle->next;
        destroy(bundle);
    }
}

/* ------------------------------------------------------------------ fetching */

/* The one that is being fetched: bundles come one after another. */
static struct bundle *fetching(struct worker *worker)
{
    struct bundle *found = NULL;
    for (struct bundle *bundle = worker->bundles; bundle; bundle = bundle->next) {
        if (!bundle->catalog && !bundle->failed && bundle->references > 0) {
            found = bundle; /* the oldest: the list grows at its head */
        }
    }
    return found;
}

static char *path_aside(const struct bundle *bundle, const char *file)
{
    return gk_asprintf("%s.part/%s", bundle->root, file);
}

static enum gk_status store_file(struct bundle *bundle, struct gk_err *err)
{
    const struct gk_bundle_file *file = &bundle->files.files[bundle->at];
    struct gk_hash hash =
        gk_hash_bytes(bundle->data.data ? bundle->data.data : "", bundle->data.size);
    if (!gk_hash_equal(&hash, &file->hash)) {
        return gk_fail(err, GK_CORRUPT, "%s does not match its hash", file->path);
    }
    char *path = path_aside(bundle, file->path);
    enum gk_status status =
        path ? gk_make_folders(path, err) : gk_fail(err, GK_NOMEM, "out of memory");
    if (status == GK_OK) {
        status =
            gk_file_store(path, bundle->data.data ? bundle->data.data : "", bundle->data.size, err);
    }
    free(path);
    return status;
}

static enum gk_status finish(struct bundle *bundle, struct gk_err *err)
{
    char *aside = gk_asprintf("%s.part", bundle->root);
    enum gk_status status = aside ? GK_OK : gk_fail(err, GK_NOMEM, "out of memory");
    if (status == GK_OK && rename(aside, bundle->root) != 0) {
        status = gk_fail(err, GK_IO, "rename %s: %s", aside, strerror(errno));
    }
    free(aside);
    return status;
}

static void give_up(struct worker *worker, struct bundle *bundle, const char *text)
{
    worker_log(worker, GK_WORKER_BUNDLE, "bundle: %s", text);
    bundle->failed = true;
    leases_advance(worker);
}

void bundle_ask(struct worker *worker, struct bundle *bundle)
{
    char hex[GK_HASH_TEXT_SIZE];
    if (bundle != fetching(worker) || !worker->welcome || bundle->asked == worker->welcome_at) {
        return;
    }
    gk_hash_hex(&bundle->files.files[bundle->at].hash, hex);
    struct gk_json *body = gk_json_new_object();
    if (!body || !gk_json_set_string(body, "hash", hex) ||
        !gk_json_set_int(body, "offset", (int64_t)bundle->data.size)) {
        gk_json_free(body);
        return; /* out of memory: asked again when something else moves */
    }
    bundle->asked = worker->welcome_at;
    session_send(worker, GK_MSG_BLOB_GET, 0, body);
}

static enum gk_status take_piece(struct bundle *bundle, const struct gk_json *body, bool *whole_out,
                                 struct gk_err *err)
{
    size_t before = bundle->data.size;
    const char *text = gk_json_get_string(body, "data", "");
    int64_t total = gk_json_get_int(body, "size", -1);
    if (total < 0 || total > GK_BUNDLE_MAX) {
        return gk_fail(err, GK_LIMIT, "a blob of %lld bytes; 0 to %u are allowed", (long long)total,
                       GK_BUNDLE_MAX);
    }
    enum gk_status status = gk_base64_decode(text, strlen(text), &bundle->data, err);
    size_t size = bundle->data.size - before;
    if (status == GK_OK && (bundle->data.size > (size_t)total || (size == 0 && total > 0))) {
        status = gk_fail(err, GK_CORRUPT, "a blob of another size than said");
    }
    *whole_out = bundle->data.size == (size_t)total;
    return status;
}

void bundle_blob(struct worker *worker, const struct gk_json *body)
{
    struct bundle *bundle = fetching(worker);
    struct gk_hash hash;
    struct gk_err err = {0};
    bool whole = false;
    if (!bundle || !gk_hash_from_hex(gk_json_get_string(body, "hash", ""), &hash) ||
        !gk_hash_equal(&hash, &bundle->files.files[bundle->at].hash) ||
        gk_json_get_int(body, "offset", -1) != (int64_t)bundle->data.size) {
        return; /* an answer to a question of before a reconnect */
    }
    bundle->asked = 0;
    enum gk_status status = take_piece(bundle, body, &whole, &err);
    if (status == GK_OK && whole) {
        status = store_file(bundle, &err);
        gk_buf_reset(&bundle->data);
        bundle->at++;
        if (status == GK_OK && bundle->at == bundle->files.count) {
            status = finish(bundle, &err);
            if (status == GK_OK) {
                load(worker, bundle);
                leases_advance(worker);
                return;
            }
        }
    }
    if (status != GK_OK) {
        give_up(worker, bundle, err.text);
        return;
    }
    bundle_ask(worker, bundle);
}

void bundle_error(struct worker *worker, const char *text)
{
    struct bundle *bundle = fetching(worker);
    if (bundle) {
        give_up(worker, bundle, text);
    }
}
