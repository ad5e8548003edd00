/* Files of an export: written aside and renamed, listed with their hashes. */
#include "cli/export_model.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static enum gk_status make_folders(const char *path, struct gk_err *err)
{
    char *copy = gk_strdup(path);
    enum gk_status status = copy ? GK_OK : gk_fail(err, GK_NOMEM, "out of memory");
    for (char *slash = copy ? strchr(copy + 1, '/') : NULL; slash && status == GK_OK;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(copy, 0777) != 0 && errno != EEXIST) {
            status = gk_fail(err, GK_IO, "cannot make folder '%s': %s", copy, strerror(errno));
        }
        *slash = '/';
    }
    free(copy);
    return status;
}

/* By writing a file: the rights of a folder say little about a read-only or a special file system.
 */
static enum gk_status probe_folder(const char *dir, struct gk_err *err)
{
    char *probe = gk_asprintf("%s/.gktune-XXXXXX", dir);
    if (!probe) {
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    int fd = mkstemp(probe);
    enum gk_status status =
        fd >= 0 ? GK_OK
                : gk_fail(err, GK_INPUT, "'%s' cannot be written: %s", dir, strerror(errno));
    if (fd >= 0) {
        (void)close(fd); /* nothing was written */
        (void)unlink(probe);
    }
    free(probe);
    return status;
}

enum gk_status gk_export_folder(const char *dir, struct gk_err *err)
{
    struct stat info;
    char *inside = gk_asprintf("%s/", dir);
    enum gk_status status =
        inside ? make_folders(inside, err) : gk_fail(err, GK_NOMEM, "out of memory");
    free(inside);
    if (status == GK_IO) {
        struct gk_err why = err ? *err : (struct gk_err){0};
        return gk_fail(err, GK_INPUT, "%s", why.text); /* the folder was named by the user */
    }
    if (status == GK_OK && (stat(dir, &info) != 0 || !S_ISDIR(info.st_mode))) {
        return gk_fail(err, GK_INPUT, "'%s' is not a folder; files are exported into one", dir);
    }
    return status == GK_OK ? probe_folder(dir, err) : status;
}

enum gk_status export_files_init(struct export_files *files, const char *dir, struct gk_err *err)
{
    *files = (struct export_files){.dir = dir, .paths = gk_json_new_array()};
    if (!files->paths) {
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    char *inside = gk_asprintf("%s/", dir);
    enum gk_status status =
        inside ? make_folders(inside, err) : gk_fail(err, GK_NOMEM, "out of memory");
    free(inside);
    return status;
}

void export_files_fini(struct export_files *files)
{
    gk_json_free(files->paths);
    gk_buf_fini(&files->sums);
    *files = (struct export_files){0};
}

static bool was_written(const struct export_files *files, const char *path)
{
    for (size_t i = 0; i < gk_json_count(files->paths); i++) {
        if (strcmp(gk_json_string(gk_json_at(files->paths, i), ""), path) == 0) {
            return true;
        }
    }
    return false;
}

static bool has_these_bytes(const char *path, const void *bytes, size_t size)
{
    char *text = NULL;
    size_t met = 0;
    bool same = gk_file_load(path, size + 1, &text, &met, NULL) == GK_OK && met == size &&
                memcmp(text, bytes, size) == 0;
    free(text);
    return same;
}

enum gk_status export_files_put(struct export_files *files, const char *path, const void *bytes,
                                size_t size, struct gk_err *err)
{
    if (was_written(files, path)) {
        return GK_OK; /* shared by several units */
    }
    char *whole = gk_asprintf("%s/%s", files->dir, path);
    if (!whole) {
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    enum gk_status status = make_folders(whole, err);
    if (status == GK_OK && !has_these_bytes(whole, bytes, size)) {
        status = gk_file_store(whole, bytes, size, err);
    }
    free(whole);
    if (status == GK_OK) {
        char hex[GK_HASH_TEXT_SIZE];
        struct gk_hash hash = gk_hash_bytes(bytes, size);
        gk_hash_hex(&hash, hex);
        gk_buf_printf(&files->sums, "%s  %s\n", hex, path);
        if (!gk_json_push(files->paths, gk_json_new_string(path))) {
            status = gk_fail(err, GK_NOMEM, "out of memory");
        }
    }
    return status;
}

/* The form of b2sum's output with 256 bits: `b2sum -l 256 -c CHECKSUMS` checks a folder. */
enum gk_status export_files_finish(struct export_files *files, struct gk_err *err)
{
    struct gk_buf sums = files->sums;
    files->sums = (struct gk_buf){0};
    enum gk_status status = gk_buf_status(&sums, err);
    if (status == GK_OK) {
        status = export_files_put(files, "CHECKSUMS", gk_buf_text(&sums), sums.size, err);
    }
    gk_buf_fini(&sums);
    return status;
}

/* ------------------------------------------------------------------ sources */

#define REACH_DEPTH_MAX                                                                            \
    32 /* of includes: a cycle ends because a written file is not walked again */

struct reach {
    struct export_files *files;
    const struct export_unit *unit;
    unsigned depth;
};

static enum gk_status put_source(struct reach *reach, const char *path, struct gk_err *err);

/* Candidates of an include in the bundle: beside the file, in the template's include folders, in
 * include/. */
static char *resolve(const struct reach *reach, const char *from, const char *name, size_t size,
                     bool quoted)
{
    const struct gk_template *t = reach->unit->t;
    for (uint32_t i = 0; i < t->include_dir_count + 2; i++) {
        char *path = NULL;
        const char *slash = strrchr(from, '/');
        if (i == 0 && quoted) {
            path =
                gk_asprintf("%.*s%.*s", slash ? (int)(slash - from + 1) : 0, from, (int)size, name);
        } else if (i > 0 && i <= t->include_dir_count) {
            path = gk_asprintf("%s/%.*s", t->include_dirs[i - 1], (int)size, name);
        } else if (i == t->include_dir_count + 1) {
            path = gk_asprintf("include/%.*s", (int)size, name);
        }
        char *text = NULL;
        size_t length = 0;
        bool found = path && gk_catalog_file(reach->unit->bundle->catalog, path, &text, &length,
                                             NULL) == GK_OK;
        free(text);
        if (found) {
            return path;
        }
        free(path);
    }
    return NULL;
}

static enum gk_status walk_includes(struct reach *reach, const char *path, const char *text,
                                    struct gk_err *err)
{
    enum gk_status status = GK_OK;
    for (const char *line = text; line && *line && status == GK_OK;
         line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        const char *p = line + strspn(line, " \t");
        if (*p != '#') {
            continue;
        }
        p += 1 + strspn(p + 1, " \t");
        if (strncmp(p, "include", 7) != 0) {
            continue;
        }
        p += 7 + strspn(p + 7, " \t");
        size_t size = *p == '<' ? strcspn(p + 1, ">\n") : *p == '"' ? strcspn(p + 1, "\"\n") : 0;
        char *found = size ? resolve(reach, path, p + 1, size, *p == '"') : NULL;
        if (found) { /* what is not in the bundle is the toolkit's */
            status = put_source(reach, found, err);
        }
        free(found);
    }
    return status;
}

static enum gk_status put_source(struct reach *reach, const char *path, struct gk_err *err)
{
    char *text = NULL, *inside = gk_asprintf("%s/%s", reach->unit->bundle->folder, path);
    size_t size = 0;
    enum gk_status status = inside ? GK_OK : gk_fail(err, GK_NOMEM, "out of memory");
    if (status != GK_OK || was_written(reach->files, inside) || reach->depth >= REACH_DEPTH_MAX) {
        free(inside);
        return status;
    }
    reach->depth++;
    status = gk_catalog_file(reach->unit->bundle->catalog, path, &text, &size, err);
    if (status == GK_OK) {
        status = export_files_put(reach->files, inside, text, size, err);
    }
    if (status == GK_OK) {
        status = walk_includes(reach, path, text, err);
    }
    reach->depth--;
    free(text);
    free(inside);
    return status;
}

enum gk_status export_files_sources(struct export_files *files, const struct export_unit *unit,
                                    struct gk_err *err)
{
    struct reach reach = {.files = files, .unit = unit};
    enum gk_status status = GK_OK;
    for (uint32_t i = 0; i < unit->t->launch_count && status == GK_OK; i++) {
        status = put_source(&reach, unit->t->launches[i].source, err);
    }
    return status;
}
