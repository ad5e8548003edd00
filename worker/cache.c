#include "worker/cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC      "GKC1"
#define MAGIC_SIZE 4
#define PATH_SIZE  4096 /* of an entry: the folder takes all but 300 bytes, a name at most 255 */

struct gk_cache {
    char folder[PATH_SIZE - 300];
    uint64_t size_max, bytes;
};

/* ------------------------------------------------------------------ folder */

/* One walk: sums the sizes, and finds the entry used longest ago. */
static void survey(struct gk_cache *cache, uint64_t *bytes_out, char oldest_out[PATH_SIZE])
{
    DIR *dir = opendir(cache->folder);
    struct timespec oldest = {0};
    *bytes_out = 0;
    oldest_out[0] = 0;
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        char path[PATH_SIZE];
        struct stat info;
        if (strlen(entry->d_name) != GK_HASH_TEXT_SIZE - 1) {
            continue;
        }
        (void)snprintf(path, sizeof path, "%s/%s", cache->folder, entry->d_name);
        if (stat(path, &info) != 0 || !S_ISREG(info.st_mode)) {
            continue;
        }
        *bytes_out += (uint64_t)info.st_size;
        if (!oldest_out[0] || info.st_mtim.tv_sec < oldest.tv_sec ||
            (info.st_mtim.tv_sec == oldest.tv_sec && info.st_mtim.tv_nsec < oldest.tv_nsec)) {
            oldest = info.st_mtim;
            memcpy(oldest_out, path, sizeof path);
        }
    }
    if (dir) {
        (void)closedir(dir);
    }
}

enum gk_status gk_cache_open(const char *folder, uint64_t size_max_bytes,
                             struct gk_cache **cache_out, struct gk_err *err)
{
    struct gk_cache *cache = calloc(1, sizeof *cache);
    char oldest[PATH_SIZE];
    if (!cache) {
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    if (strlen(folder) >= sizeof cache->folder) {
        free(cache);
        return gk_fail(err, GK_LIMIT, "path of the cache is longer than %zu bytes: %s",
                       sizeof cache->folder - 1, folder);
    }
    memcpy(cache->folder, folder, strlen(folder) + 1);
    if (mkdir(folder, 0700) != 0 && errno != EEXIST) {
        enum gk_status status = gk_fail(err, GK_IO, "%s: %s", folder, strerror(errno));
        free(cache);
        return status;
    }
    cache->size_max = size_max_bytes;
    survey(cache, &cache->bytes, oldest);
    *cache_out = cache;
    return GK_OK;
}

void gk_cache_close(struct gk_cache *cache)
{
    free(cache);
}

uint64_t gk_cache_bytes(const struct gk_cache *cache)
{
    return cache->bytes;
}

struct gk_hash gk_cache_key(const struct gk_hash *module_key, const char *target, const char *nvrtc_version)
{
    struct gk_hasher hasher;
    gk_hasher_init(&hasher);
    gk_hasher_text(&hasher, MAGIC);
    gk_hasher_part(&hasher, module_key->bytes, GK_HASH_SIZE);
    gk_hasher_text(&hasher, target);
    gk_hasher_text(&hasher, nvrtc_version);
    return gk_hasher_final(&hasher);
}

static void path_of(const struct gk_cache *cache, const struct gk_hash *key,
                    char path_out[PATH_SIZE])
{
    char hex[GK_HASH_TEXT_SIZE];
    gk_hash_hex(key, hex);
    (void)snprintf(path_out, PATH_SIZE, "%s/%s", cache->folder, hex);
}

/* ------------------------------------------------------------------ one entry
 * magic, hash of the rest, head size u32, head (JSON: facts and sizes), log, ptx, cubin */

void gk_cache_entry_fini(struct gk_cache_entry *entry)
{
    if (entry) {
        free(entry->log);
        free(entry->ptx);
        free(entry->cubin);
        *entry = (struct gk_cache_entry){0};
    }
}

static struct gk_json *facts_to_json(const struct gk_compile_facts *facts)
{
    struct gk_json *json = gk_json_new_object();
    if (!json || !gk_json_set_bool(json, "found", facts->found) ||
        !gk_json_set_int(json, "regs", facts->regs) ||
        !gk_json_set_int(json, "spill_bytes", facts->spill_bytes) ||
        !gk_json_set_int(json, "stack_bytes", facts->stack_bytes) ||
        !gk_json_set_int(json, "static_smem", facts->static_smem) ||
        !gk_json_set_bool(json, "setmaxnreg_ignored", facts->setmaxnreg_ignored) ||
        !gk_json_set_bool(json, "wgmma_serialized", facts->wgmma_serialized)) {
        gk_json_free(json);
        return NULL;
    }
    return json;
}

static void facts_from_json(const struct gk_json *json, struct gk_compile_facts *facts_out)
{
    facts_out->found = gk_json_get_bool(json, "found", false);
    facts_out->regs = gk_json_get_int(json, "regs", -1);
    facts_out->spill_bytes = gk_json_get_int(json, "spill_bytes", -1);
    facts_out->stack_bytes = gk_json_get_int(json, "stack_bytes", -1);
    facts_out->static_smem = gk_json_get_int(json, "static_smem", -1);
    facts_out->setmaxnreg_ignored = gk_json_get_bool(json, "setmaxnreg_ignored", false);
    facts_out->wgmma_serialized = gk_json_get_bool(json, "wgmma_serialized", false);
}

static char *take(const char **at, size_t size)
{
    char *text = malloc(size + 1);
    if (text) {
        memcpy(text, *at, size);
        text[size] = 0;
        *at += size;
    }
    return text;
}

static enum gk_status parse_entry(const char *bytes, size_t size, struct gk_cache_entry *entry_out,
                                  struct gk_err *err)
{
    const size_t fixed = MAGIC_SIZE + GK_HASH_SIZE + 4;
    struct gk_cache_entry entry = {0};
    struct gk_json *head = NULL;
    uint32_t head_size = 0;
    enum gk_status status = GK_CORRUPT;
    if (size < fixed || memcmp(bytes, MAGIC, MAGIC_SIZE) != 0) {
        return gk_fail(err, GK_CORRUPT, "cache entry is cut short or of another kind");
    }
    struct gk_hash hash =
        gk_hash_bytes(bytes + MAGIC_SIZE + GK_HASH_SIZE, size - MAGIC_SIZE - GK_HASH_SIZE);
    if (memcmp(hash.bytes, bytes + MAGIC_SIZE, GK_HASH_SIZE) != 0) {
        return gk_fail(err, GK_CORRUPT, "cache entry does not match its own hash");
    }
    memcpy(&head_size, bytes + MAGIC_SIZE + GK_HASH_SIZE, 4);
    if (head_size > size - fixed ||
        gk_json_parse(bytes + fixed, head_size, "cache entry", &head, err) != GK_OK) {
        return gk_fail(err, GK_CORRUPT, "cache entry has no readable head");
    }
    const int64_t log_size = gk_json_get_int(head, "log", -1);
    const int64_t ptx_size = gk_json_get_int(head, "ptx", -1);
    const int64_t cubin_size = gk_json_get_int(head, "cubin", -1);
    const int64_t rest = (int64_t)(size - fixed - head_size);
    if (log_size < 0 || ptx_size < 0 || cubin_size < 0 || log_size > rest || ptx_size > rest ||
        cubin_size > rest || log_size + ptx_size + cubin_size != rest) {
        (void)gk_fail(err, GK_CORRUPT, "cache entry: its parts do not add up to its size");
        goto out;
    }
    facts_from_json(gk_json_get(head, "facts"), &entry.facts);
    const char *at = bytes + fixed + head_size;
    entry.log = take(&at, (size_t)log_size);
    entry.ptx = entry.log ? take(&at, (size_t)ptx_size) : NULL;
    entry.cubin = entry.ptx ? take(&at, (size_t)cubin_size) : NULL;
    entry.ptx_size = (size_t)ptx_size;
    entry.cubin_size = (size_t)cubin_size;
    if (!entry.cubin) {
        gk_cache_entry_fini(&entry);
        status = gk_fail(err, GK_NOMEM, "out of memory for a cache entry");
        goto out;
    }
    *entry_out = entry;
    status = GK_OK;
out:
    gk_json_free(head);
    return status;
}

enum gk_status gk_cache_get(struct gk_cache *cache, const struct gk_hash *key,
                            struct gk_cache_entry *entry_out, struct gk_err *err)
{
    char path[PATH_SIZE], *bytes = NULL;
    size_t size = 0;
    path_of(cache, key, path);
    if (access(path, F_OK) != 0) {
        return gk_fail(err, GK_NOT_FOUND, "%s is not in the cache", path);
    }
    enum gk_status status = gk_file_load(path, GK_CACHE_ENTRY_MAX, &bytes, &size, err);
    if (status == GK_OK) {
        status = parse_entry(bytes, size, entry_out, err);
    }
    free(bytes);
    if (status == GK_OK) {
        (void)utimensat(AT_FDCWD, path, NULL, 0); /* the prune's order; a read-only cache still hits */
    } else if (status != GK_NOMEM) {
        (void)unlink(path);
        (void)gk_fail_in(err, GK_CORRUPT, "%s", path);
        status = GK_CORRUPT;
    }
    return status;
}

static void prune(struct gk_cache *cache)
{
    char oldest[PATH_SIZE];
    for (;;) {
        survey(cache, &cache->bytes, oldest);
        if (cache->bytes <= cache->size_max || !oldest[0] || unlink(oldest) != 0) {
            return;
        }
    }
}

static enum gk_status encode_entry(const struct gk_cache_entry *entry, struct gk_buf *out,
                                   struct gk_err *err)
{
    struct gk_buf head = {0}, rest = {0};
    struct gk_json *json = gk_json_new_object();
    const size_t log_size = strlen(entry->log);
    enum gk_status status = GK_NOMEM;
    if (!json || !gk_json_set(json, "facts", facts_to_json(&entry->facts)) ||
        !gk_json_set_int(json, "log", (int64_t)log_size) ||
        !gk_json_set_int(json, "ptx", (int64_t)entry->ptx_size) ||
        !gk_json_set_int(json, "cubin", (int64_t)entry->cubin_size)) {
        (void)gk_fail(err, GK_NOMEM, "out of memory");
        goto out;
    }
    status = gk_json_canonical(json, &head, err);
    if (status != GK_OK) {
        goto out;
    }
    const uint32_t head_size = (uint32_t)head.size;
    gk_buf_add(&rest, &head_size, sizeof head_size);
    gk_buf_add(&rest, head.data, head.size);
    gk_buf_add(&rest, entry->log, log_size);
    gk_buf_add(&rest, entry->ptx, entry->ptx_size);
    gk_buf_add(&rest, entry->cubin, entry->cubin_size);
    status = gk_buf_status(&rest, err);
    if (status == GK_OK) {
        const struct gk_hash hash = gk_hash_bytes(rest.data, rest.size);
        gk_buf_add(out, MAGIC, MAGIC_SIZE);
        gk_buf_add(out, hash.bytes, GK_HASH_SIZE);
        gk_buf_add(out, rest.data, rest.size);
        status = gk_buf_status(out, err);
    }
out:
    gk_json_free(json);
    gk_buf_fini(&head);
    gk_buf_fini(&rest);
    return status;
}

enum gk_status gk_cache_put(struct gk_cache *cache, const struct gk_hash *key,
                            const struct gk_cache_entry *entry, struct gk_err *err)
{
    struct gk_buf bytes = {0};
    char path[PATH_SIZE];
    enum gk_status status = encode_entry(entry, &bytes, err);
    if (status == GK_OK && bytes.size > GK_CACHE_ENTRY_MAX) {
        status = gk_fail(err, GK_LIMIT, "cache entry of %zu bytes; %u are allowed", bytes.size,
                         GK_CACHE_ENTRY_MAX);
    }
    if (status == GK_OK) {
        path_of(cache, key, path);
        status = gk_file_store(path, bytes.data, bytes.size, err);
    }
    if (status == GK_OK) {
        cache->bytes += bytes.size;
        if (cache->bytes > cache->size_max) {
            prune(cache);
        }
    }
    gk_buf_fini(&bytes);
    return status;
}

/* ------------------------------------------------------------------ locks */

/* 2^62 places: two keys share one only by a rare accident, which costs a wait and nothing else. */
static off_t start_of(const struct gk_hash *key)
{
    uint64_t place;
    memcpy(&place, key->bytes, sizeof place);
    return (off_t)(place >> 2);
}

enum gk_status gk_cache_lock(struct gk_cache *cache, const struct gk_hash *key, int *lock_out,
                             struct gk_err *err)
{
    char path[PATH_SIZE];
    (void)snprintf(path, sizeof path, "%s/lock", cache->folder);
    /* One file for all keys, a byte range each: no files to remove, and the lock dies with its holder. */
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) {
        return gk_fail(err, GK_IO, "%s: %s", path, strerror(errno));
    }
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = start_of(key), .l_len = 1};
    if (fcntl(fd, F_OFD_SETLK, &whole) != 0) {
        (void)close(fd);
        return gk_fail(err, GK_BUSY, "the key is being built by another process (%s)", path);
    }
    *lock_out = fd;
    return GK_OK;
}

void gk_cache_unlock(int lock)
{
    if (lock >= 0) {
        (void)close(lock);
    }
}
