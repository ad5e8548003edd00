/* Compiled code by content: see code_cache.h. */
#include "worker/code_cache.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base64.h"
#include "core/json.h"

#define ENTRY_MAX   (64u << 20)
#define ENTRIES_MAX 65536
static const char magic[] = "gkc1 ";

struct gk_hash gk_code_key(const struct gk_hash *module_key, const char *nvrtc_version,
                           const char *target)
{
    struct gk_hasher hasher;
    gk_hasher_init(&hasher);
    gk_hasher_text(&hasher, "code 1"); /* raised when what an entry holds changes */
    gk_hasher_part(&hasher, module_key->bytes, GK_HASH_SIZE);
    gk_hasher_text(&hasher, nvrtc_version);
    gk_hasher_text(&hasher, target);
    return gk_hasher_final(&hasher);
}

void gk_code_path(const char *folder, const struct gk_hash *key, char *path_out, size_t size)
{
    char hex[GK_HASH_TEXT_SIZE];
    gk_hash_hex(key, hex);
    (void)snprintf(path_out, size, "%s/%.2s/%s", folder, hex, hex);
}

enum gk_status gk_make_folders(const char *path, struct gk_err *err)
{
    char part[PATH_MAX];
    if (snprintf(part, sizeof part, "%s", path) >= (int)sizeof part) {
        return gk_fail(err, GK_LIMIT, "path too long: %.200s...", path);
    }
    for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(part, 0700) != 0 && errno != EEXIST) {
            return gk_fail(err, GK_IO, "mkdir %s: %s", part, strerror(errno));
        }
        *slash = '/';
    }
    return GK_OK;
}

/* ------------------------------------------------------------------ as JSON */

struct gk_json *gk_code_to_json(const struct gk_compile_output *output)
{
    struct gk_json *json = gk_json_new_object();
    struct gk_buf cubin = {0};
    gk_base64_encode(output->cubin, output->cubin_size, &cubin);
    bool good = json && !cubin.failed && gk_json_set_bool(json, "compiled", output->compiled) &&
                gk_json_set_string(json, "ptx", output->ptx ? output->ptx : "") &&
                gk_json_set_string(json, "cubin", gk_buf_text(&cubin)) &&
                gk_json_set_string(json, "log", output->log ? output->log : "");
    gk_buf_fini(&cubin);
    if (!good) {
        gk_json_free(json);
        return NULL;
    }
    return json;
}

enum gk_status gk_code_from_json(const struct gk_json *json, struct gk_compile_output *output_out,
                                 struct gk_err *err)
{
    struct gk_compile_output output = {.compiled = gk_json_get_bool(json, "compiled", false)};
    output.ptx = gk_strdup(gk_json_get_string(json, "ptx", ""));
    output.log = gk_strdup(gk_json_get_string(json, "log", ""));
    enum gk_status status =
        output.ptx && output.log ? GK_OK : gk_fail(err, GK_NOMEM, "out of memory");
    if (status == GK_OK) {
        output.ptx_size = strlen(output.ptx);
        struct gk_buf cubin = {0};
        const char *text = gk_json_get_string(json, "cubin", "");
        status = gk_base64_decode(text, strlen(text), &cubin, err);
        output.cubin_size = cubin.size;
        output.cubin = (unsigned char *)gk_buf_detach(&cubin);
        if (status == GK_OK && !output.cubin) {
            status = gk_fail(err, GK_NOMEM, "out of memory");
        }
    }
    if (status != GK_OK) {
        gk_compile_output_fini(&output);
        return status;
    }
    *output_out = output;
    return GK_OK;
}

/* ------------------------------------------------------------------ files */

static enum gk_status check(const char *path, const char *text, size_t size, size_t *start_out,
                            struct gk_err *err)
{
    const size_t start = sizeof magic - 1 + GK_HASH_TEXT_SIZE; /* magic, 64 digits, new line */
    char hex[GK_HASH_TEXT_SIZE] = {0};
    struct gk_hash want, got;
    if (size > start && memcmp(text, magic, sizeof magic - 1) == 0) {
        memcpy(hex, text + sizeof magic - 1, GK_HASH_TEXT_SIZE - 1);
        got = gk_hash_bytes(text + start, size - start);
        if (gk_hash_from_hex(hex, &want) && gk_hash_equal(&want, &got)) {
            *start_out = start;
            return GK_OK;
        }
    }
    return gk_fail(err, GK_CORRUPT, "%s is damaged: its content does not match its hash", path);
}

enum gk_status gk_code_read(const char *path, struct gk_compile_output *output_out,
                            struct gk_err *err)
{
    char *text = NULL;
    size_t size = 0, start = 0;
    struct gk_json *json = NULL;
    enum gk_status status = GK_OK;
    if (access(path, F_OK) != 0) {
        return gk_fail(err, GK_NOT_FOUND, "%s is not there", path);
    }
    status = gk_file_load(path, ENTRY_MAX, &text, &size, err);
    if (status == GK_OK) {
        status = check(path, text, size, &start, err);
    }
    if (status == GK_OK) {
        status = gk_json_parse(text + start, size - start, path, &json, err);
    }
    if (status == GK_OK) {
        status = gk_code_from_json(json, output_out, err);
    }
    if (status == GK_CORRUPT || status == GK_PARSE) {
        (void)unlink(path); /* if it cannot be removed, the rewrite replaces it */
        status = GK_CORRUPT;
    }
    gk_json_free(json);
    free(text);
    return status;
}

enum gk_status gk_code_write(const char *path, const struct gk_compile_output *output,
                             struct gk_err *err)
{
    struct gk_buf body = {0}, whole = {0};
    char hex[GK_HASH_TEXT_SIZE];
    struct gk_json *json = gk_code_to_json(output);
    enum gk_status status =
        json ? gk_json_canonical(json, &body, err) : gk_fail(err, GK_NOMEM, "out of memory");
    if (status == GK_OK) {
        struct gk_hash hash = gk_hash_bytes(body.data, body.size);
        gk_hash_hex(&hash, hex);
        gk_buf_printf(&whole, "%s%s\n", magic, hex);
        gk_buf_add(&whole, body.data, body.size);
        status = gk_buf_status(&whole, err);
    }
    if (status == GK_OK) {
        status = gk_make_folders(path, err);
    }
    if (status == GK_OK) {
        status = gk_file_store(path, whole.data, whole.size, err);
    }
    gk_json_free(json);
    gk_buf_fini(&body);
    gk_buf_fini(&whole);
    return status;
}

/* ------------------------------------------------------------------ pruning */

struct entry {
    char *path;
    int64_t used_s; /* when it was last written */
    uint64_t bytes;
};

struct listing {
    struct entry *entries;
    uint32_t count;
    uint64_t bytes;
};

static int older_first(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    return x->used_s < y->used_s ? -1 : x->used_s > y->used_s;
}

static void list_folder(struct listing *listing, const char *folder, int depth)
{
    DIR *dir = opendir(folder);
    struct dirent *found;
    while (dir && (found = readdir(dir)) != NULL && listing->count < ENTRIES_MAX) {
        struct stat info;
        char *path = found->d_name[0] == '.' ? NULL : gk_asprintf("%s/%s", folder, found->d_name);
        if (!path || lstat(path, &info) != 0) {
            free(path);
            continue;
        }
        if (S_ISDIR(info.st_mode) && depth > 0) {
            list_folder(listing, path, depth - 1);
        }
        if (!S_ISREG(info.st_mode)) {
            free(path);
            continue;
        }
        listing->bytes += (uint64_t)info.st_size;
        listing->entries[listing->count++] =
            (struct entry){path, (int64_t)info.st_mtime, (uint64_t)info.st_size};
    }
    if (dir) {
        (void)closedir(dir);
    }
}

enum gk_status gk_code_prune(const char *folder, uint64_t bytes_max, struct gk_err *err)
{
    struct listing listing = {.entries = calloc(ENTRIES_MAX, sizeof *listing.entries)};
    if (!listing.entries) {
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    list_folder(&listing, folder, 1);
    qsort(listing.entries, listing.count, sizeof *listing.entries, older_first);
    for (uint32_t i = 0; i < listing.count; i++) {
        if (listing.bytes > bytes_max && unlink(listing.entries[i].path) == 0) {
            listing.bytes -= listing.entries[i].bytes;
        }
        free(listing.entries[i].path);
    }
    free(listing.entries);
    return GK_OK;
}
