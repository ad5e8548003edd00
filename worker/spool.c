#include "worker/spool.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "worker/spool_internal.h"

#define RESULT_MAX (4u << 20)

/* ------------------------------------------------------------------ the folder */

enum gk_status gk_spool_folder_make(const char *path, struct gk_err *err)
{
    if (mkdir(path, 0700) == 0 || errno == EEXIST) {
        return GK_OK;
    }
    return gk_fail(err, errno == ENOSPC ? GK_FULL : GK_IO, "%s: %s", path, strerror(errno));
}

enum gk_status gk_spool_path(const struct gk_spool *spool, char path_out[GK_SPOOL_PATH_MAX],
                             struct gk_err *err, const char *format, ...)
{
    va_list ap;
    int used = snprintf(path_out, GK_SPOOL_PATH_MAX, "%s/", spool->folder), more = 0;
    va_start(ap, format);
    if (used > 0 && used < GK_SPOOL_PATH_MAX) {
        more = vsnprintf(path_out + used, (size_t)(GK_SPOOL_PATH_MAX - used), format, ap);
    }
    va_end(ap);
    if (used <= 0 || used >= GK_SPOOL_PATH_MAX || more < 0 || more >= GK_SPOOL_PATH_MAX - used) {
        return gk_fail(err, GK_LIMIT, "path in the spool is longer than %d bytes: %s",
                       GK_SPOOL_PATH_MAX - 1, spool->folder);
    }
    return GK_OK;
}

static enum gk_status take_lock(struct gk_spool *spool, struct gk_err *err)
{
    char path[GK_SPOOL_PATH_MAX];
    enum gk_status status = gk_spool_path(spool, path, err, "lock");
    if (status != GK_OK) {
        return status;
    }
    spool->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (spool->lock < 0) {
        return gk_fail(err, GK_IO, "%s: %s", path, strerror(errno));
    }
    if (flock(spool->lock, LOCK_EX | LOCK_NB) != 0) {
        return gk_fail(err, GK_BUSY,
                       "%s is used by another worker; give each worker a --spool of its own",
                       spool->folder);
    }
    return GK_OK;
}

static enum gk_status take_id(struct gk_spool *spool, struct gk_err *err)
{
    char path[GK_SPOOL_PATH_MAX], *text = NULL;
    unsigned char bytes[16];
    size_t size = 0;
    enum gk_status status = gk_spool_path(spool, path, err, "spool_id");
    if (status != GK_OK) {
        return status;
    }
    if (access(path, F_OK) == 0) {
        status = gk_file_load(path, 64, &text, &size, err);
        if (status == GK_OK && (size != GK_SPOOL_ID_SIZE - 1 ||
                                strspn(text, "0123456789abcdef") != GK_SPOOL_ID_SIZE - 1)) {
            status = gk_fail(err, GK_CORRUPT, "%s holds no id of 32 hex digits", path);
        }
        if (status == GK_OK) {
            memcpy(spool->id, text, GK_SPOOL_ID_SIZE);
        }
        free(text);
        return status;
    }
    gk_random_bytes(bytes, sizeof bytes);
    for (size_t i = 0; i < sizeof bytes; i++) {
        (void)snprintf(spool->id + 2 * i, 3, "%02x", bytes[i]);
    }
    return gk_file_store(path, spool->id, GK_SPOOL_ID_SIZE - 1, err);
}

enum gk_status gk_spool_open(const char *folder, struct gk_spool **spool_out, struct gk_err *err)
{
    static const char *const PARTS[] = {"results", "blobs", "bundles"};
    char path[GK_SPOOL_PATH_MAX];
    struct gk_spool_key *keys = NULL;
    struct gk_spool *spool = calloc(1, sizeof *spool);
    enum gk_status status = GK_OK;
    if (!spool || !(spool->folder = gk_strdup(folder))) {
        free(spool);
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    spool->lock = -1;
    status = gk_spool_folder_make(folder, err);
    if (status == GK_OK) {
        status = take_lock(spool, err);
    }
    for (size_t i = 0; status == GK_OK && i < GK_ARRAY_COUNT(PARTS); i++) {
        status = gk_spool_path(spool, path, err, "%s", PARTS[i]);
        if (status == GK_OK) {
            status = gk_spool_folder_make(path, err);
        }
    }
    if (status == GK_OK) {
        status = take_id(spool, err);
    }
    if (status == GK_OK) {
        status = gk_spool_list(spool, &keys, &spool->count, err);
        free(keys);
    }
    if (status != GK_OK) {
        gk_spool_close(spool);
        return gk_fail_in(err, status, "spool");
    }
    *spool_out = spool;
    return GK_OK;
}

void gk_spool_close(struct gk_spool *spool)
{
    if (spool) {
        if (spool->lock >= 0) {
            (void)close(spool->lock);
        }
        free(spool->folder);
        free(spool);
    }
}

const char *gk_spool_id(const struct gk_spool *spool)
{
    return spool->id;
}

const char *gk_spool_folder(const struct gk_spool *spool)
{
    return spool->folder;
}

uint32_t gk_spool_count(const struct gk_spool *spool)
{
    return spool->count;
}

/* ------------------------------------------------------------------ results */

static enum gk_status result_path(const struct gk_spool *spool, uint64_t token, uint32_t pass,
                                  char path_out[GK_SPOOL_PATH_MAX], struct gk_err *err)
{
    return gk_spool_path(spool, path_out, err, "results/%016" PRIx64 "-%08" PRIx32 ".json", token,
                         pass);
}

enum gk_status gk_spool_put(struct gk_spool *spool, uint64_t token, uint32_t pass,
                            const struct gk_json *body, struct gk_err *err)
{
    struct gk_buf text = {0};
    char path[GK_SPOOL_PATH_MAX];
    enum gk_status status = result_path(spool, token, pass, path, err);
    if (status != GK_OK) {
        return status;
    }
    const bool is_new = access(path, F_OK) != 0;
    if (is_new && spool->count >= GK_SPOOL_RESULTS_MAX) {
        return gk_fail(err, GK_FULL, "%u results wait for the daemon's acknowledgement; %u are allowed",
                       spool->count, GK_SPOOL_RESULTS_MAX);
    }
    status = gk_json_canonical(body, &text, err);
    if (status == GK_OK) {
        status = gk_file_store(path, text.data, text.size, err);
    }
    if (status == GK_OK && is_new) {
        spool->count++;
    }
    gk_buf_fini(&text);
    return status;
}

enum gk_status gk_spool_remove(struct gk_spool *spool, uint64_t token, uint32_t pass,
                               struct gk_err *err)
{
    char path[GK_SPOOL_PATH_MAX];
    enum gk_status status = result_path(spool, token, pass, path, err);
    if (status != GK_OK) {
        return status;
    }
    if (unlink(path) == 0) {
        spool->count--;
        return GK_OK;
    }
    return errno == ENOENT ? GK_OK : gk_fail(err, GK_IO, "%s: %s", path, strerror(errno));
}

static int compare_keys(const void *a, const void *b)
{
    const struct gk_spool_key *x = a, *y = b;
    if (x->token != y->token) {
        return x->token < y->token ? -1 : 1;
    }
    return x->pass < y->pass ? -1 : x->pass > y->pass;
}

/* "0123456789abcdef-00000000.json", and nothing else: a file written aside and torn has another name. */
static bool parse_name(const char *name, struct gk_spool_key *key_out)
{
    int end = 0;
    if (strlen(name) != 16 + 1 + 8 + 5 ||
        sscanf(name, "%16" SCNx64 "-%8" SCNx32 ".json%n", &key_out->token, &key_out->pass, &end) != 2) {
        return false;
    }
    return end == 30;
}

enum gk_status gk_spool_list(const struct gk_spool *spool, struct gk_spool_key **keys_out,
                             uint32_t *count_out, struct gk_err *err)
{
    char path[GK_SPOOL_PATH_MAX];
    enum gk_status status = gk_spool_path(spool, path, err, "results");
    if (status != GK_OK) {
        return status;
    }
    struct gk_spool_key *keys = calloc(GK_SPOOL_RESULTS_MAX, sizeof *keys);
    DIR *dir = keys ? opendir(path) : NULL;
    uint32_t count = 0;
    if (!dir) {
        status = keys ? gk_fail(err, GK_IO, "%s: %s", path, strerror(errno))
                      : gk_fail(err, GK_NOMEM, "out of memory");
        free(keys);
        return status;
    }
    for (struct dirent *entry; count < GK_SPOOL_RESULTS_MAX && (entry = readdir(dir));) {
        if (parse_name(entry->d_name, &keys[count])) {
            count++;
        }
    }
    (void)closedir(dir);
    qsort(keys, count, sizeof *keys, compare_keys);
    *keys_out = keys;
    *count_out = count;
    return GK_OK;
}

enum gk_status gk_spool_remove_token(struct gk_spool *spool, uint64_t token, struct gk_err *err)
{
    struct gk_spool_key *keys = NULL;
    uint32_t count = 0;
    enum gk_status status = gk_spool_list(spool, &keys, &count, err);
    for (uint32_t i = 0; status == GK_OK && i < count; i++) {
        if (keys[i].token == token) {
            status = gk_spool_remove(spool, token, keys[i].pass, err);
        }
    }
    free(keys);
    return status;
}

enum gk_status gk_spool_get(struct gk_spool *spool, const struct gk_spool_key *key,
                            struct gk_json **body_out, struct gk_err *err)
{
    char path[GK_SPOOL_PATH_MAX];
    struct gk_json *body = NULL;
    enum gk_status status = result_path(spool, key->token, key->pass, path, err);
    if (status != GK_OK) {
        return status;
    }
    status = gk_json_load(path, RESULT_MAX, &body, err);
    if (status == GK_OK && !gk_json_is(body, GK_JSON_OBJECT)) {
        status = gk_fail(err, GK_CORRUPT, "%s is not a JSON object", path);
    }
    if (status == GK_OK) {
        *body_out = body;
        return GK_OK;
    }
    gk_json_free(body);
    if (status == GK_NOMEM || status == GK_IO) {
        return status;
    }
    (void)gk_spool_remove(spool, key->token, key->pass, NULL);
    (void)gk_fail_in(err, GK_CORRUPT, "damaged result removed");
    return GK_CORRUPT;
}
