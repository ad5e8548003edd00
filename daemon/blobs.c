/* See blobs.h. A blob is gathered in memory until it is whole and its hash is right, then stored at
 * once. */
#include "daemon/blobs.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PIECE_MAX    (256u << 10)
#define UPLOADS_MAX  8  /* blobs that are being sent at the same time */
#define CATALOGS_MAX 64 /* in memory at a time, some 100 KB each; more than tasks that are open */

struct upload {
    struct gk_hash hash;
    struct gk_buf bytes;
    int64_t size;
    uint64_t used; /* the oldest makes room */
    bool open;
};

struct gk_blobs {
    char *root;
    struct upload uploads[UPLOADS_MAX];
    uint64_t clock;
    struct {
        char id[GK_HASH_TEXT_SIZE];
        struct gk_catalog *catalog;
        uint64_t used; /* the least lately used one that nobody holds makes room */
        uint32_t holders;
    } catalogs[CATALOGS_MAX];
    uint32_t catalog_count;
};

static enum gk_status make_folder(const char *path, struct gk_err *err)
{
    if (mkdir(path, 0700) != 0 && errno != EEXIST) {
        return gk_fail(err, errno == ENOSPC ? GK_LIMIT : GK_INPUT, "folder %s: %s", path,
                       strerror(errno));
    }
    return GK_OK;
}

enum gk_status gk_blobs_create(const char *state_dir, struct gk_blobs **blobs_out,
                               struct gk_err *err)
{
    struct gk_blobs *blobs = calloc(1, sizeof *blobs);
    char *files = gk_asprintf("%s/blobs", state_dir),
         *bundles = gk_asprintf("%s/bundles", state_dir);
    enum gk_status status = GK_OK;
    if (!blobs || !files || !bundles || !(blobs->root = gk_strdup(state_dir))) {
        status = gk_fail(err, GK_NOMEM, "out of memory for blobs");
    }
    if (status == GK_OK) {
        status = make_folder(files, err);
    }
    if (status == GK_OK) {
        status = make_folder(bundles, err);
    }
    free(files);
    free(bundles);
    if (status != GK_OK) {
        gk_blobs_destroy(blobs);
        return status;
    }
    *blobs_out = blobs;
    return GK_OK;
}

void gk_blobs_destroy(struct gk_blobs *blobs)
{
    if (!blobs) {
        return;
    }
    for (uint32_t i = 0; i < blobs->catalog_count; i++) {
        gk_catalog_destroy(blobs->catalogs[i].catalog);
    }
    for (uint32_t i = 0; i < UPLOADS_MAX; i++) {
        gk_buf_fini(&blobs->uploads[i].bytes);
    }
    free(blobs->root);
    free(blobs);
}

static char *blob_path(const struct gk_blobs *blobs, const struct gk_hash *hash)
{
    char hex[GK_HASH_TEXT_SIZE];
    gk_hash_hex(hash, hex);
    return gk_asprintf("%s/blobs/%s", blobs->root, hex);
}

static bool blobs_has(void *context, const struct gk_hash *hash)
{
    char *path = blob_path(context, hash);
    struct stat info;
    bool has = path && stat(path, &info) == 0 && S_ISREG(info.st_mode);
    free(path);
    return has;
}

static struct upload *find_upload(struct gk_blobs *blobs, const struct gk_hash *hash)
{
    struct upload *oldest = &blobs->uploads[0];
    for (uint32_t i = 0; i < UPLOADS_MAX; i++) {
        struct upload *upload = &blobs->uploads[i];
        if (upload->open && gk_hash_equal(&upload->hash, hash)) {
            return upload;
        }
        if (!upload->open || (oldest->open && upload->used < oldest->used)) {
            oldest = upload->open || oldest->open ? upload : oldest;
        }
    }
    gk_buf_reset(&oldest->bytes);
    oldest->open = true;
    oldest->hash = *hash;
    return oldest;
}

static enum gk_status blobs_put(void *context, const struct gk_hash *hash, int64_t offset,
                                int64_t size, const void *bytes, size_t count, struct gk_err *err)
{
    struct gk_blobs *blobs = context;
    if (size > (int64_t)GK_BUNDLE_MAX || count > PIECE_MAX) {
        return gk_fail(err, GK_LIMIT,
                       "blob of %" PRId64 " bytes in a piece of %zu: at most %u in pieces of %u",
                       size, count, GK_BUNDLE_MAX, PIECE_MAX);
    }
    if (blobs_has(blobs, hash)) {
        return GK_OK; /* a piece that was sent again */
    }
    struct upload *upload = find_upload(blobs, hash);
    upload->used = ++blobs->clock;
    if (offset == 0) {
        gk_buf_reset(&upload->bytes);
        upload->size = size;
    }
    if (offset != (int64_t)upload->bytes.size || size != upload->size ||
        offset + (int64_t)count > size) {
        int64_t wanted = (int64_t)upload->bytes.size;
        gk_buf_reset(&upload->bytes);
        upload->open = false;
        return gk_fail(err, GK_INPUT,
                       "blob piece at %" PRId64 ": the next one is at %" PRId64
                       "; begin again at 0",
                       offset, wanted);
    }
    gk_buf_add(&upload->bytes, bytes, count);
    if (gk_buf_status(&upload->bytes, err) != GK_OK) {
        return GK_NOMEM;
    }
    if ((int64_t)upload->bytes.size < size) {
        return GK_OK;
    }
    struct gk_hash got = gk_hash_bytes(gk_buf_text(&upload->bytes), upload->bytes.size);
    enum gk_status status;
    if (!gk_hash_equal(&got, hash)) {
        status = gk_fail(err, GK_INPUT,
                         "blob of %" PRId64 " bytes has another hash than was promised", size);
    } else {
        char *path = blob_path(blobs, hash);
        struct gk_err why = {0};
        status = path ? gk_file_store(path, gk_buf_text(&upload->bytes), upload->bytes.size, &why)
                      : GK_NOMEM;
        if (status != GK_OK) { /* the client sends it again: nothing was acknowledged */
            status = gk_fail(err, status == GK_NOMEM ? GK_NOMEM : GK_LIMIT, "%s", why.text);
        }
        free(path);
    }
    upload->open = false;
    gk_buf_fini(&upload->bytes);
    return status;
}

static enum gk_status blobs_get(void *context, const struct gk_hash *hash, int64_t offset,
                                char **bytes_out, size_t *count_out, int64_t *size_out,
                                struct gk_err *err)
{
    struct gk_blobs *blobs = context;
    char hex[GK_HASH_TEXT_SIZE];
    gk_hash_hex(hash, hex);
    char *path = blob_path(blobs, hash), *text = NULL;
    size_t size = 0;
    if (!path) {
        return gk_fail(err, GK_NOMEM, "out of memory for a blob");
    }
    if (!blobs_has(blobs, hash)) {
        free(path);
        return gk_fail(err, GK_NOT_FOUND, "blob %s is not stored here", hex);
    }
    struct gk_err why = {0};
    enum gk_status status = gk_file_load(path, GK_BUNDLE_MAX, &text, &size, &why);
    free(path);
    if (status != GK_OK) {
        return gk_fail(err, GK_NOT_FOUND, "blob %s: %s", hex, why.text);
    }
    if (offset > (int64_t)size) {
        free(text);
        return gk_fail(err, GK_INPUT, "blob %s has %zu bytes; offset %" PRId64 " is past its end",
                       hex, size, offset);
    }
    size_t count = size - (size_t)offset < PIECE_MAX ? size - (size_t)offset : PIECE_MAX;
    memmove(text, text + offset, count);
    *bytes_out = text;
    *count_out = count;
    *size_out = (int64_t)size;
    return GK_OK;
}

/* ------------------------------------------------------------------ bundles */

/* Makes the folders of a relative path below root. */
static enum gk_status make_parents(const char *root, const char *path, struct gk_err *err)
{
    enum gk_status status = GK_OK;
    for (const char *slash = strchr(path, '/'); status == GK_OK && slash;
         slash = strchr(slash + 1, '/')) {
        char *part = gk_asprintf("%s/%.*s", root, (int)(slash - path), path);
        status = part ? make_folder(part, err) : gk_fail(err, GK_NOMEM, "out of memory");
        free(part);
    }
    return status;
}

static enum gk_status unpack_file(struct gk_blobs *blobs, const char *root,
                                  const struct gk_bundle_file *file, struct gk_err *err)
{
    char *to = gk_asprintf("%s/%s", root, file->path), *from = blob_path(blobs, &file->hash),
         *text = NULL;
    size_t size = 0;
    struct gk_hash got;
    enum gk_status status =
        to && from ? make_parents(root, file->path, err) : gk_fail(err, GK_NOMEM, "out of memory");
    if (status == GK_OK) {
        status = gk_file_load(from, GK_BUNDLE_MAX, &text, &size, err);
    }
    if (status == GK_OK) {
        got = gk_hash_bytes(text, size);
        status =
            gk_hash_equal(&got, &file->hash)
                ? gk_file_store(to, text, size, err)
                : gk_fail(err, GK_CORRUPT, "blob of %s is damaged: its hash differs", file->path);
    }
    free(text);
    free(to);
    free(from);
    return status;
}

static enum gk_status unpack(struct gk_blobs *blobs, const struct gk_bundle *bundle,
                             const char *root, struct gk_err *err)
{
    char *mark = gk_asprintf("%s/.complete", root);
    struct stat info;
    enum gk_status status = mark ? make_folder(root, err) : gk_fail(err, GK_NOMEM, "out of memory");
    if (status == GK_OK &&
        stat(mark, &info) != 0) { /* written last: a torn unpacking is done again */
        for (uint32_t i = 0; status == GK_OK && i < bundle->count; i++) {
            status = unpack_file(blobs, root, &bundle->files[i], err);
        }
        if (status == GK_OK) {
            status = gk_file_store(mark, "", 0, err);
        }
    }
    free(mark);
    return status;
}

/* A place for one more catalog. A dropped one leaves its place marked as nobody's until it is
 * filled. */
static enum gk_status make_room(struct gk_blobs *blobs, uint32_t *place_out, struct gk_err *err)
{
    uint32_t oldest = UINT32_MAX;
    if (blobs->catalog_count < CATALOGS_MAX) {
        *place_out = blobs->catalog_count;
        return GK_OK;
    }
    for (uint32_t i = 0; i < blobs->catalog_count; i++) {
        if (blobs->catalogs[i].holders == 0 &&
            (oldest == UINT32_MAX || blobs->catalogs[i].used < blobs->catalogs[oldest].used)) {
            oldest = i;
        }
    }
    if (oldest == UINT32_MAX) {
        return gk_fail(err, GK_LIMIT, "%d bundles are in use; no more at a time", CATALOGS_MAX);
    }
    gk_catalog_destroy(blobs->catalogs[oldest].catalog);
    blobs->catalogs[oldest].catalog = NULL;
    blobs->catalogs[oldest].id[0] = '\0';
    *place_out = oldest;
    return GK_OK;
}

static void blobs_release(void *context, const struct gk_catalog *catalog)
{
    struct gk_blobs *blobs = context;
    for (uint32_t i = 0; i < blobs->catalog_count; i++) {
        if (blobs->catalogs[i].catalog == catalog) {
            GK_ASSERT(blobs->catalogs[i].holders > 0);
            blobs->catalogs[i].holders--;
        }
    }
}

static enum gk_status blobs_catalog(void *context, const struct gk_json *files,
                                    const char *bundle_id, const struct gk_catalog **catalog_out,
                                    struct gk_err *err)
{
    struct gk_blobs *blobs = context;
    for (uint32_t i = 0; i < blobs->catalog_count; i++) {
        if (strcmp(blobs->catalogs[i].id, bundle_id) == 0) {
            blobs->catalogs[i].used = ++blobs->clock;
            blobs->catalogs[i].holders++;
            *catalog_out = blobs->catalogs[i].catalog;
            return GK_OK;
        }
    }
    uint32_t place = 0;
    enum gk_status status = make_room(blobs, &place, err);
    if (status != GK_OK) {
        return status;
    }
    struct gk_bundle bundle = {0};
    struct gk_catalog *catalog = NULL;
    struct gk_diag diag;
    struct gk_json *json = gk_json_new_object();
    char *root = gk_asprintf("%s/bundles/%s", blobs->root, bundle_id);
    gk_diag_init(&diag);
    status = root && gk_json_set(json, "files", gk_json_copy(files)) &&
                     gk_json_set_string(json, "id", bundle_id)
                 ? gk_bundle_from_json(json, &bundle, err)
                 : gk_fail(err, GK_NOMEM, "out of memory");
    if (status == GK_OK) {
        status = unpack(blobs, &bundle, root, err);
    }
    if (status == GK_OK && gk_catalog_load(root, &catalog, &diag) != GK_OK) {
        status = gk_diag_status(&diag, err);
    }
    if (status == GK_OK) {
        (void)snprintf(blobs->catalogs[place].id, GK_HASH_TEXT_SIZE, "%s", bundle_id);
        blobs->catalogs[place].catalog = catalog;
        blobs->catalogs[place].used = ++blobs->clock;
        blobs->catalogs[place].holders = 1;
        blobs->catalog_count += place == blobs->catalog_count;
        *catalog_out = catalog;
    }
    gk_diag_fini(&diag);
    gk_bundle_fini(&bundle);
    gk_json_free(json);
    free(root);
    return status;
}

struct gk_core_files gk_blobs_files(struct gk_blobs *blobs)
{
    return (struct gk_core_files){.has = blobs_has,
                                  .put = blobs_put,
                                  .get = blobs_get,
                                  .catalog = blobs_catalog,
                                  .release = blobs_release,
                                  .context = blobs};
}
