/*
 * Bundles: the files of a catalog by path and content hash.
 *
 * Unpacked into an empty folder, a bundle is a folder that gk_catalog_load() reads to the same
 * catalog: <op>/op.json, <op>/<template>.kernel.json, <op>/<sources>, include/gk/<headers>.
 */
#include "kernels/catalog_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int compare_files(const void *a, const void *b)
{
    const struct gk_bundle_file *x = a, *y = b;
    return strcmp(x->path, y->path);
}

static struct gk_hash bundle_id(const struct gk_bundle *bundle)
{
    struct gk_hasher hasher;
    gk_hasher_init(&hasher);
    for (uint32_t i = 0; i < bundle->count; i++) {
        gk_hasher_text(&hasher, bundle->files[i].path);
        gk_hasher_part(&hasher, bundle->files[i].hash.bytes, GK_HASH_SIZE);
    }
    return gk_hasher_final(&hasher);
}

enum gk_status gk_catalog_bundle(const struct gk_catalog *catalog, struct gk_bundle *bundle_out,
                                 struct gk_err *err)
{
    struct gk_bundle bundle = {0};
    bundle.files = calloc(catalog->source_count + 1, sizeof *bundle.files);
    if (!bundle.files) {
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    for (uint32_t i = 0; i < catalog->source_count; i++) {
        const struct gk_source *source = catalog->sources[i];
        struct gk_bundle_file *file = &bundle.files[bundle.count];
        file->path = gk_strdup(source->path);
        if (!file->path) {
            gk_bundle_fini(&bundle);
            return gk_fail(err, GK_NOMEM, "out of memory");
        }
        file->hash = source->hash;
        file->size = source->size;
        bundle.count++;
    }
    if (bundle.count > 0) {
        qsort(bundle.files, bundle.count, sizeof *bundle.files, compare_files);
    }
    bundle.id = bundle_id(&bundle);
    *bundle_out = bundle;
    return GK_OK;
}

void gk_bundle_fini(struct gk_bundle *bundle)
{
    if (!bundle) {
        return;
    }
    for (uint32_t i = 0; i < bundle->count; i++) {
        free(bundle->files[i].path);
    }
    free(bundle->files);
    memset(bundle, 0, sizeof *bundle);
}

enum gk_status gk_catalog_file(const struct gk_catalog *catalog, const char *path, char **text_out,
                               size_t *size_out, struct gk_err *err)
{
    const struct gk_source *source = gk_source_find(catalog, path);
    if (!source) {
        return gk_fail(err, GK_NOT_FOUND, "\"%.200s\" is no file of this catalog", path);
    }
    char *text = gk_strndup(source->text, source->size);
    if (!text) {
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    *text_out = text;
    *size_out = source->size;
    return GK_OK;
}

struct gk_json *gk_bundle_to_json(const struct gk_bundle *bundle)
{
    struct gk_json *object = gk_json_new_object();
    struct gk_json *files = gk_json_new_array();
    char hex[GK_HASH_TEXT_SIZE];
    bool good = object && files;
    for (uint32_t i = 0; good && i < bundle->count; i++) {
        struct gk_json *file = gk_json_new_object();
        gk_hash_hex(&bundle->files[i].hash, hex);
        good = file && gk_json_set_string(file, "path", bundle->files[i].path) &&
               gk_json_set_string(file, "hash", hex) &&
               gk_json_set_int(file, "size", (int64_t)bundle->files[i].size);
        if (good) {
            good = gk_json_push(files, file);
        } else {
            gk_json_free(file);
        }
    }
    gk_hash_hex(&bundle->id, hex);
    good = good && gk_json_set_string(object, "id", hex);
    if (!good) {
        gk_json_free(files);
    } else if (gk_json_set(object, "files", files)) {
        return object;
    }
    gk_json_free(object);
    return NULL;
}

static enum gk_status read_file(const struct gk_json *json, uint32_t index,
                                struct gk_bundle_file *file_out, struct gk_err *err)
{
    char where[48];
    const char *path = NULL, *hex = NULL;
    int64_t size = 0;
    (void)snprintf(where, sizeof where, "bundle: files[%" PRIu32 "]", index); /* 25 bytes */
    enum gk_status status = gk_json_need_string(json, "path", GK_PATH_MAX - 1, &path, where, err);
    if (status == GK_OK) {
        status = gk_json_need_string(json, "hash", GK_HASH_TEXT_SIZE, &hex, where, err);
    }
    if (status == GK_OK) {
        status = gk_json_need_int(json, "size", 0, GK_SOURCE_MAX, &size, where, err);
    }
    if (status != GK_OK) {
        return status;
    }
    if (!gk_path_is_legal(path)) {
        return gk_fail(err, GK_DENIED, "%s: \"%.200s\" is no path inside a folder", where, path);
    }
    if (!gk_hash_from_hex(hex, &file_out->hash)) {
        return gk_fail(err, GK_INPUT, "%s: \"%.70s\" is no hash; 64 hex digits are", where, hex);
    }
    file_out->path = gk_strdup(path);
    file_out->size = (size_t)size;
    return file_out->path ? GK_OK : gk_fail(err, GK_NOMEM, "out of memory");
}

enum gk_status gk_bundle_from_json(const struct gk_json *json, struct gk_bundle *bundle_out,
                                   struct gk_err *err)
{
    struct gk_bundle bundle = {0};
    const struct gk_json *files = NULL;
    const char *hex = NULL;
    struct gk_hash id;
    size_t bytes = 0;
    enum gk_status status = gk_json_need(json, "files", GK_JSON_ARRAY, &files, "bundle", err);
    if (status == GK_OK) {
        status = gk_json_need_string(json, "id", GK_HASH_TEXT_SIZE, &hex, "bundle", err);
    }
    if (status != GK_OK) {
        return status;
    }
    size_t count = gk_json_count(files);
    if (count == 0 || count > GK_BUNDLE_FILES_MAX) {
        return gk_fail(err, GK_LIMIT, "bundle: %zu files; 1 to %d are allowed", count,
                       GK_BUNDLE_FILES_MAX);
    }
    bundle.files = calloc(count, sizeof *bundle.files);
    if (!bundle.files) {
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    for (uint32_t i = 0; i < count && status == GK_OK; i++) {
        status = read_file(gk_json_at(files, i), i, &bundle.files[i], err);
        if (status != GK_OK) {
            break;
        }
        bundle.count++;
        bytes += bundle.files[i].size;
        if (i > 0 && strcmp(bundle.files[i - 1].path, bundle.files[i].path) >= 0) {
            status = gk_fail(err, GK_INPUT,
                             "bundle: files[%" PRIu32 "]: paths are sorted and unique", i);
        }
    }
    if (status == GK_OK && bytes > GK_BUNDLE_MAX) {
        status = gk_fail(err, GK_LIMIT, "bundle: %zu bytes; at most %u", bytes, GK_BUNDLE_MAX);
    }
    if (status == GK_OK) {
        bundle.id = bundle_id(&bundle);
        if (!gk_hash_from_hex(hex, &id) || !gk_hash_equal(&id, &bundle.id)) {
            status = gk_fail(err, GK_CONFLICT, "bundle: \"id\" is not the hash of its files");
        }
    }
    if (status != GK_OK) {
        gk_bundle_fini(&bundle);
        return status;
    }
    *bundle_out = bundle;
    return GK_OK;
}
