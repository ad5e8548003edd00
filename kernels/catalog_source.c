/*
 * The source table of a catalog: files by their path inside it, each read once and kept.
 *
 * The bytes that were validated are the bytes that are hashed, packed and compiled: nothing is read
 * a second time, so an edit during a run cannot mix two versions. A file outlives its folder on
 * disk.
 */
#include "kernels/catalog_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

bool gk_path_is_legal(const char *path)
{
    size_t size = strlen(path);
    if (size == 0 || size >= GK_PATH_MAX || path[0] == '/') {
        return false;
    }
    for (const char *part = path; part;) {
        const char *slash = strchr(part, '/');
        size_t length = slash ? (size_t)(slash - part) : strlen(part);
        if (length == 0 || (length == 1 && part[0] == '.') ||
            (length == 2 && part[0] == '.' && part[1] == '.')) {
            return false;
        }
        for (size_t i = 0; i < length; i++) {
            unsigned char c = (unsigned char)part[i];
            if (c <= 0x20 || c == 0x7F || c == '\\' || c == '"') {
                return false;
            }
        }
        part = slash ? slash + 1 : NULL;
    }
    return true;
}

enum gk_status gk_folder_add(struct gk_catalog *catalog, const char *prefix, const char *real,
                             uint32_t *index_out, struct gk_err *err)
{
    if (catalog->folder_count >= GK_ARRAY_COUNT(catalog->folders)) {
        return gk_fail(err, GK_LIMIT, "%s: more than %zu folders in a catalog", real,
                       GK_ARRAY_COUNT(catalog->folders));
    }
    struct gk_folder *folder = &catalog->folders[catalog->folder_count];
    folder->real = realpath(real, NULL);
    if (!folder->real) {
        return gk_fail(err, errno == ENOENT ? GK_NOT_FOUND : GK_IO, "%s: %s", real,
                       strerror(errno));
    }
    folder->prefix = gk_strdup(prefix);
    if (!folder->prefix) {
        free(folder->real);
        folder->real = NULL;
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    *index_out = catalog->folder_count++;
    return GK_OK;
}

void gk_source_free(struct gk_source *source)
{
    if (!source) {
        return;
    }
    for (uint32_t i = 0; i < source->include_count; i++) {
        free(source->includes[i].name);
    }
    free(source->includes);
    free(source->path);
    free(source->real);
    free(source->text);
    free(source);
}

struct gk_source *gk_source_find(const struct gk_catalog *catalog, const char *path)
{
    for (uint32_t i = 0; i < catalog->source_count; i++) {
        if (strcmp(catalog->sources[i]->path, path) == 0) {
            return catalog->sources[i];
        }
    }
    return NULL;
}

static enum gk_status fail_path(const char *name, struct gk_err *err)
{
    return gk_fail(err, GK_DENIED,
                   "\"%.200s\" is no path inside the folder; a relative path without \".\" and "
                   "\"..\" parts, blanks and '\\' is allowed",
                   name);
}

/* The resolved path of a file that lies inside the folder, also after symbolic links. */
static enum gk_status resolve(const struct gk_folder *folder, const char *name, char **real_out,
                              struct gk_err *err)
{
    if (!gk_path_is_legal(name)) {
        return fail_path(name, err);
    }
    char *path = gk_asprintf("%s/%s", folder->real, name);
    if (!path) {
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    char *real = realpath(path, NULL);
    int saved = errno;
    free(path);
    if (!real) {
        bool absent = saved == ENOENT || saved == ENOTDIR;
        return gk_fail(err, absent ? GK_NOT_FOUND : GK_IO, "\"%s\": %s in %s", name,
                       absent ? "no such file" : strerror(saved), folder->real);
    }
    size_t border = strlen(folder->real);
    if (strncmp(real, folder->real, border) != 0 || real[border] != '/') {
        free(real);
        return gk_fail(err, GK_DENIED, "\"%s\" leads out of %s by a symbolic link", name,
                       folder->real);
    }
    *real_out = real;
    return GK_OK;
}

static enum gk_status read_source(struct gk_catalog *catalog, struct gk_source *source,
                                  struct gk_err *err)
{
    enum gk_status status =
        gk_file_load(source->real, GK_SOURCE_MAX, &source->text, &source->size, err);
    if (status != GK_OK) {
        return status;
    }
    if (memchr(source->text, '\0', source->size)) {
        return gk_fail(err, GK_INPUT, "%s: holds a NUL byte; text is allowed", source->real);
    }
    if (catalog->source_count >= GK_BUNDLE_FILES_MAX ||
        source->size > GK_BUNDLE_MAX - catalog->source_bytes) {
        return gk_fail(err, GK_LIMIT, "%s: over %d files or %u bytes in one catalog", source->real,
                       GK_BUNDLE_FILES_MAX, GK_BUNDLE_MAX);
    }
    source->hash = gk_hash_bytes(source->text, source->size);
    catalog->source_bytes += source->size;
    catalog->sources[catalog->source_count++] = source;
    return GK_OK;
}

enum gk_status gk_source_open(struct gk_catalog *catalog, uint32_t folder_index, const char *name,
                              struct gk_source **source_out, struct gk_err *err)
{
    const struct gk_folder *folder = &catalog->folders[folder_index];
    struct gk_source *source = NULL;
    char *real = NULL;
    enum gk_status status = resolve(folder, name, &real, err);
    if (status != GK_OK) {
        return status;
    }
    char *path = gk_asprintf("%s/%s", folder->prefix, name);
    if (!path) {
        status = gk_fail(err, GK_NOMEM, "out of memory");
        goto out;
    }
    struct gk_source *known = gk_source_find(catalog, path);
    if (known) {
        if (strcmp(known->real, real) != 0) {
            status =
                gk_fail(err, GK_CONFLICT, "%s and %s would both be %s in the bundle; rename one",
                        known->real, real, path);
            goto out;
        }
        *source_out = known;
        goto out;
    }
    source = calloc(1, sizeof *source);
    if (!source) {
        status = gk_fail(err, GK_NOMEM, "out of memory");
        goto out;
    }
    source->path = path;
    source->real = real;
    source->folder = folder_index;
    path = real = NULL;
    status = read_source(catalog, source, err);
    if (status == GK_OK) {
        *source_out = source; /* the catalog owns it */
        source = NULL;
    }
out:
    gk_source_free(source);
    free(path);
    free(real);
    return status;
}

/* ------------------------------------------------------------------ what a source reaches */

struct walk {
    const struct gk_reach *reach;
    struct gk_reader *r;
    const char *key;
    struct gk_source *seen[GK_BUNDLE_FILES_MAX]; /* in the order of first mention */
    uint32_t seen_count;
};

/* Tries folder/dir/name. GK_NOT_FOUND is no mistake. */
static enum gk_status try_open(struct walk *w, uint32_t folder, const char *dir, size_t dir_size,
                               const char *name, struct gk_source **source_out, struct gk_err *err)
{
    char path[2 * GK_PATH_MAX];
    int length =
        snprintf(path, sizeof path, "%.*s%s%s", (int)dir_size, dir, dir_size ? "/" : "", name);
    if (length < 0 || (size_t)length >= GK_PATH_MAX) {
        return gk_fail(err, GK_LIMIT, "\"%.100s\": a path of more than %d bytes", name,
                       GK_PATH_MAX - 1);
    }
    return gk_source_open(w->reach->catalog, folder, path, source_out, err);
}

/* Beside the file that includes it (quotes only), in include_dirs, among the gk headers. */
static enum gk_status find_include(struct walk *w, const struct gk_source *from,
                                   const struct gk_include *include, struct gk_source **source_out,
                                   struct gk_err *err)
{
    const struct gk_reach *reach = w->reach;
    enum gk_status status = GK_NOT_FOUND;
    if (!gk_path_is_legal(include->name)) { /* not one to be left to the compiler either */
        return fail_path(include->name, err);
    }
    if (include->quoted) {
        const char *prefix = reach->catalog->folders[from->folder].prefix;
        const char *inside = from->path + strlen(prefix) + 1;
        const char *slash = strrchr(inside, '/');
        status = try_open(w, from->folder, inside, slash ? (size_t)(slash - inside) : 0,
                          include->name, source_out, err);
    }
    for (uint32_t i = 0; status == GK_NOT_FOUND && i < reach->include_dir_count; i++) {
        const char *dir = reach->include_dirs[i];
        status = try_open(w, reach->folder, dir, strlen(dir), include->name, source_out, err);
    }
    if (status == GK_NOT_FOUND && reach->include_folder >= 0) {
        status =
            try_open(w, (uint32_t)reach->include_folder, "", 0, include->name, source_out, err);
    }
    return status;
}

static void visit(struct walk *w, struct gk_source *source)
{
    for (uint32_t i = 0; i < w->seen_count; i++) {
        if (w->seen[i] == source) {
            return;
        }
    }
    struct gk_err err = {0};
    if (w->seen_count >= GK_BUNDLE_FILES_MAX) {
        return; /* cannot be: the catalog holds no more files */
    }
    w->seen[w->seen_count++] = source;
    enum gk_status status = gk_source_scan(source, &err);
    if (status != GK_OK) {
        gk_reader_fail(w->r, w->key, status, "%s: %s", source->path, err.text);
    }
}

void gk_reach_tokens(const struct gk_reach *reach, struct gk_reader *r, const char *key,
                     const char *start, char **path_out, struct gk_hash *tokens_out)
{
    struct walk w = {.reach = reach, .r = r, .key = key};
    struct gk_source *source = NULL;
    struct gk_err err = {0};
    enum gk_status status = gk_source_open(reach->catalog, reach->folder, start, &source, &err);
    if (status != GK_OK) {
        gk_reader_fail(r, key, status, "%s", err.text);
        return;
    }
    char *path = gk_strdup(source->path);
    if (!path) {
        gk_reader_fail(r, key, GK_NOMEM, "out of memory");
        return;
    }
    free(*path_out);
    *path_out = path;
    visit(&w, source);
    /* A queue, not recursion: a chain of includes from a stranger costs no stack. */
    for (uint32_t i = 0; i < w.seen_count; i++) {
        for (uint32_t k = 0; k < w.seen[i]->include_count; k++) {
            const struct gk_include *include = &w.seen[i]->includes[k];
            struct gk_source *next = NULL;
            status = find_include(&w, w.seen[i], include, &next, &err);
            if (status == GK_OK) {
                visit(&w, next);
            } else if (status != GK_NOT_FOUND) {
                /* Not found is left to the compiler: <cuda_fp16.h> is no file of ours. */
                gk_reader_fail(r, key, status, "%s: line %u: #include %s", w.seen[i]->path,
                               include->line, err.text);
            }
        }
    }
    struct gk_hasher hasher;
    gk_hasher_init(&hasher);
    for (uint32_t i = 0; i < w.seen_count; i++) {
        gk_hasher_part(&hasher, w.seen[i]->tokens.bytes, GK_HASH_SIZE);
    }
    *tokens_out = gk_hasher_final(&hasher);
}
