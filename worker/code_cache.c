/* Compiled code by content: see code_cache.h. */
#include "worker/code_cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
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
#define PART_MAX    (32u << 20)
static const char magic[] = "gkc2 ";

struct gk_hash gk_code_key(const struct gk_hash *module_key, const char *nvrtc_version,
                           const char *target)
{
    struct gk_hasher hasher;
    gk_hasher_init(&hasher);
    gk_hasher_text(&hasher, "code 3"); /* raised when what an entry holds changes */
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
    if (size > start && memcmp(text, magic, sizeof magic - 1) == 0 && text[start - 1] == '\n') {
        memcpy(hex, text + sizeof magic - 1, GK_HASH_TEXT_SIZE - 1);
        got = gk_hash_bytes(text + start, size - start);
        if (gk_hash_from_hex(hex, &want) && gk_hash_equal(&want, &got)) {
            *start_out = start;
            return GK_OK;
        }
    }
    return gk_fail(err, GK_CORRUPT, "%s is damaged: its content does not match its hash", path);
}

/* Behind the hash: "<compiled> <bytes of PTX> <of cubin> <of log>\n", then these bytes. Not JSON:
 * an executor reads one for every trial, and parsing half a megabyte of text took longer than
 * verifying the kernel. */
static enum gk_status unpack(const char *path, const char *text, size_t size,
                             struct gk_compile_output *output_out, struct gk_err *err)
{
    struct gk_compile_output output = {0};
    unsigned compiled = 0;
    size_t ptx = 0, cubin = 0, log = 0;
    int head = 0;
    bool sane = sscanf(text, "%1u %9zu %9zu %9zu%n", &compiled, &ptx, &cubin, &log, &head) == 4 &&
                text[head] == '\n' && ptx <= PART_MAX && cubin <= PART_MAX && log <= PART_MAX &&
                (size_t)head + 1 + ptx + cubin + log == size;
    if (!sane) {
        return gk_fail(err, GK_CORRUPT, "%s is damaged: its parts do not fill it", path);
    }
    const char *at = text + head + 1;
    output.compiled = compiled == 1;
    output.ptx = gk_strndup(at, ptx);
    output.ptx_size = ptx;
    output.cubin = malloc(cubin + 1);
    output.cubin_size = cubin;
    output.log = gk_strndup(at + ptx + cubin, log);
    if (!output.ptx || !output.cubin || !output.log) {
        gk_compile_output_fini(&output);
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    memcpy(output.cubin, at + ptx, cubin);
    *output_out = output;
    return GK_OK;
}

enum gk_status gk_code_read(const char *path, struct gk_compile_output *output_out,
                            struct gk_err *err)
{
    char *text = NULL;
    size_t size = 0, start = 0;
    enum gk_status status = GK_OK;
    if (access(path, F_OK) != 0) {
        return gk_fail(err, GK_NOT_FOUND, "%s is not there", path);
    }
    status = gk_file_load(path, ENTRY_MAX, &text, &size, err);
    if (status == GK_OK) {
        status = check(path, text, size, &start, err);
    }
    if (status == GK_OK) {
        status = unpack(path, text + start, size - start, output_out, err);
    }
    if (status == GK_CORRUPT) {
        (void)unlink(path); /* if it cannot be removed, the rewrite replaces it */
    }
    free(text);
    return status;
}

/* Written aside and renamed, not synced: an entry that a power cut tears fails its hash and is made
 * again, and the supervisor has more to do than to wait for disks. */
static enum gk_status store(const char *path, const struct gk_buf *whole, struct gk_err *err)
{
    /* Not named by the process: workers of two containers that share a folder have equal ids. */
    char *aside = gk_asprintf("%s.XXXXXX", path);
    int fd = aside ? mkostemp(aside, O_CLOEXEC) : -1;
    FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (fd >= 0 && !file) {
        (void)close(fd);
    }
    bool good = file && fwrite(whole->data, 1, whole->size, file) == whole->size;
    good = file && fclose(file) == 0 && good;
    good = good && rename(aside, path) == 0;
    enum gk_status status =
        good ? GK_OK
             : gk_fail(err, errno == ENOSPC ? GK_FULL : GK_IO, "%s: %s", path, strerror(errno));
    if (!good && fd >= 0) {
        (void)unlink(aside);
    }
    free(aside);
    return status;
}

enum gk_status gk_code_write(const char *path, const struct gk_compile_output *output,
                             struct gk_err *err)
{
    struct gk_buf body = {0}, whole = {0};
    char hex[GK_HASH_TEXT_SIZE];
    size_t log = output->log ? strlen(output->log) : 0;
    if (output->ptx_size > PART_MAX || output->cubin_size > PART_MAX || log > PART_MAX) {
        return gk_fail(err, GK_LIMIT,
                       "%s: %zu bytes of PTX, %zu of a cubin, %zu of a log; %u each are allowed",
                       path, output->ptx_size, output->cubin_size, log, PART_MAX);
    }
    gk_buf_printf(&body, "%u %zu %zu %zu\n", output->compiled ? 1u : 0u, output->ptx_size,
                  output->cubin_size, log);
    gk_buf_add(&body, output->ptx ? output->ptx : "", output->ptx_size);
    gk_buf_add(&body, output->cubin ? (const char *)output->cubin : "", output->cubin_size);
    gk_buf_add(&body, output->log ? output->log : "", log);
    enum gk_status status = gk_buf_status(&body, err);
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
        status = store(path, &whole, err);
    }
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
