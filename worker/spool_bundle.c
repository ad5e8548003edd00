/* Blobs and bundles of the spool: see spool.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "worker/spool_internal.h"

static enum gk_status blob_path(const struct gk_spool *spool, const struct gk_hash *hash,
                                char path_out[GK_SPOOL_PATH_MAX], struct gk_err *err)
{
    char hex[GK_HASH_TEXT_SIZE];
    gk_hash_hex(hash, hex);
    return gk_spool_path(spool, path_out, err, "blobs/%s", hex);
}

bool gk_spool_has_blob(const struct gk_spool *spool, const struct gk_hash *hash)
{
    char path[GK_SPOOL_PATH_MAX];
    return blob_path(spool, hash, path, NULL) == GK_OK && access(path, F_OK) == 0;
}

enum gk_status gk_spool_put_blob(struct gk_spool *spool, const struct gk_hash *hash,
                                 const void *bytes, size_t size, struct gk_err *err)
{
    char path[GK_SPOOL_PATH_MAX], hex[GK_HASH_TEXT_SIZE];
    const struct gk_hash met = gk_hash_bytes(bytes, size);
    if (!gk_hash_equal(&met, hash)) {
        gk_hash_hex(hash, hex);
        return gk_fail(err, GK_CORRUPT, "blob %s: its %zu bytes have another hash", hex, size);
    }
    enum gk_status status = blob_path(spool, hash, path, err);
    return status == GK_OK ? gk_file_store(path, bytes, size, err) : status;
}

/* Relative, plain names, no "." or "..": the only paths that a bundle may write. */
static bool is_plain_path(const char *path)
{
    if (!*path || strlen(path) > 512) {
        return false;
    }
    for (const char *part = path;;) {
        const size_t size = strcspn(part, "/");
        if (size == 0 || size > 255 || part[0] == '.') {
            return false;
        }
        for (size_t i = 0; i < size; i++) {
            const unsigned char c = (unsigned char)part[i];
            if (c < 0x20 || c == 0x7f || c == '\\') {
                return false;
            }
        }
        if (!part[size]) {
            return true;
        }
        part += size + 1;
    }
}

static enum gk_status make_parents(const char *path, size_t root_size, struct gk_err *err)
{
    char folder[GK_SPOOL_PATH_MAX];
    for (const char *slash = strchr(path + root_size + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        memcpy(folder, path, (size_t)(slash - path));
        folder[slash - path] = 0;
        enum gk_status status = gk_spool_folder_make(folder, err);
        if (status != GK_OK) {
            return status;
        }
    }
    return GK_OK;
}

static enum gk_status unpack_file(struct gk_spool *spool, const struct gk_bundle_file *file,
                                  const char *root, struct gk_err *err)
{
    char from[GK_SPOOL_PATH_MAX], to[GK_SPOOL_PATH_MAX], *bytes = NULL;
    size_t size = 0;
    if (!is_plain_path(file->path)) {
        return gk_fail(err, GK_INPUT, "path in a bundle is not relative and plain: %.200s", file->path);
    }
    enum gk_status status = blob_path(spool, &file->hash, from, err);
    if (status != GK_OK) {
        return status;
    }
    if (access(from, F_OK) != 0) {
        return gk_fail(err, GK_NOT_FOUND, "blob of %s is not in the spool", file->path);
    }
    int used = snprintf(to, sizeof to, "%s/%s", root, file->path);
    if (used < 0 || used >= (int)sizeof to) {
        return gk_fail(err, GK_LIMIT, "path in the spool is too long: %s/%s", root, file->path);
    }
    status = gk_file_load(from, GK_BUNDLE_MAX, &bytes, &size, err);
    if (status == GK_OK) {
        const struct gk_hash met = gk_hash_bytes(bytes, size);
        if (!gk_hash_equal(&met, &file->hash)) {
            (void)unlink(from);
            status = gk_fail(err, GK_CORRUPT, "blob of %s was damaged on disk", file->path);
        }
    }
    if (status == GK_OK) {
        status = make_parents(to, strlen(root), err);
    }
    if (status == GK_OK) {
        FILE *out = fopen(to, "wbe");
        bool good = out && fwrite(bytes, 1, size, out) == size;
        good = out && fclose(out) == 0 && good;
        if (!good) {
            status = gk_fail(err, errno == ENOSPC ? GK_FULL : GK_IO, "%s: %s", to, strerror(errno));
        }
    }
    free(bytes);
    return status;
}

/* What an unpacking that was cut short left behind: files of the same names are overwritten, so the folder need
 * not be emptied, and only a rename makes it a bundle. */
enum gk_status gk_spool_unpack(struct gk_spool *spool, const struct gk_bundle *bundle,
                               char path_out[GK_SPOOL_PATH_MAX], struct gk_err *err)
{
    char hex[GK_HASH_TEXT_SIZE], aside[GK_SPOOL_PATH_MAX], path[GK_SPOOL_PATH_MAX];
    gk_hash_hex(&bundle->id, hex);
    enum gk_status status = gk_spool_path(spool, path, err, "bundles/%s", hex);
    if (status == GK_OK) {
        status = gk_spool_path(spool, aside, err, "bundles/%s.part", hex);
    }
    if (status != GK_OK) {
        return status;
    }
    if (access(path, F_OK) != 0) {
        status = gk_spool_folder_make(aside, err);
        for (uint32_t i = 0; status == GK_OK && i < bundle->count; i++) {
            status = unpack_file(spool, &bundle->files[i], aside, err);
        }
        if (status == GK_OK && rename(aside, path) != 0) {
            status = gk_fail(err, GK_IO, "%s: %s", path, strerror(errno));
        }
    }
    if (status == GK_OK) {
        memcpy(path_out, path, sizeof path);
    }
    return status;
}
