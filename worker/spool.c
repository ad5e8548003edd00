/* The spool: see spool.h. */
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

#include "core/hash.h"
#include "worker/code_cache.h"

#define RESULT_MAX  (4u << 20)
#define RESULTS_MAX 16384

struct gk_spool {
    char *folder;
    char id[GK_SPOOL_ID_MAX];
    int lock;
};

static enum gk_status take_lock(struct gk_spool *spool, struct gk_err *err)
{
    char *path = gk_asprintf("%s/lock", spool->folder);
    spool->lock = path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
    free(path);
    if (spool->lock < 0) {
        return gk_fail(err, GK_IO, "%s/lock: %s", spool->folder, strerror(errno));
    }
    if (flock(spool->lock, LOCK_EX | LOCK_NB) != 0) {
        return gk_fail(err, GK_BUSY, "spool %s is held by another worker; --spool names another",
                       spool->folder);
    }
    return GK_OK;
}

static enum gk_status find_id(struct gk_spool *spool, struct gk_err *err)
{
    char *text = NULL;
    size_t size = 0;
    unsigned char random[16];
    enum gk_status status = GK_OK;
    char *path = gk_asprintf("%s/spool_id", spool->folder);
    if (!path) {
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    if (access(path, F_OK) == 0) {
        status = gk_file_load(path, GK_SPOOL_ID_MAX - 1, &text, &size, err);
        if (status == GK_OK && strspn(text, "0123456789abcdef") == size && size == 32) {
            (void)snprintf(spool->id, sizeof spool->id, "%s", text);
            goto out;
        }
        status = GK_OK; /* damaged: a new one makes this a new worker, which is what it is */
    }
    gk_random_bytes(random, sizeof random);
    for (size_t i = 0; i < sizeof random; i++) {
        (void)snprintf(spool->id + 2 * i, 3, "%02x", random[i]);
    }
    status = gk_file_store(path, spool->id, strlen(spool->id), err);
out:
    free(text);
    free(path);
    return status;
}

enum gk_status gk_spool_open(const char *folder, struct gk_spool **spool_out, struct gk_err *err)
{
    static const char *const parts[] = {"results", "bundles", "code"};
    struct gk_spool *spool = calloc(1, sizeof *spool);
    if (!spool) {
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    spool->lock = -1;
    spool->folder = gk_strdup(folder);
    enum gk_status status = spool->folder ? GK_OK : gk_fail(err, GK_NOMEM, "out of memory");
    for (size_t i = 0; i < GK_ARRAY_COUNT(parts) && status == GK_OK; i++) {
        char *path = gk_asprintf("%s/%s/", folder, parts[i]);
        status = path ? gk_make_folders(path, err) : gk_fail(err, GK_NOMEM, "out of memory");
        free(path);
    }
    if (status == GK_OK) {
        status = take_lock(spool, err);
    }
    if (status == GK_OK) {
        status = find_id(spool, err);
    }
    if (status != GK_OK) {
        gk_spool_close(spool);
        return status;
    }
    *spool_out = spool;
    return GK_OK;
}

void gk_spool_close(struct gk_spool *spool)
{
    if (!spool) {
        return;
    }
    if (spool->lock >= 0) {
        (void)close(spool->lock);
    }
    free(spool->folder);
    free(spool);
}

const char *gk_spool_folder(const struct gk_spool *spool)
{
    return spool->folder;
}

const char *gk_spool_id(const struct gk_spool *spool)
{
    return spool->id;
}

static char *path_of(const struct gk_spool *spool, int64_t token, int64_t pass)
{
    return gk_asprintf("%s/results/%" PRId64 "-%" PRId64 ".json", spool->folder, token, pass);
}

enum gk_status gk_spool_put(struct gk_spool *spool, int64_t token, int64_t pass,
                            const struct gk_json *body, struct gk_err *err)
{
    struct gk_buf buf = {0};
    char *path = path_of(spool, token, pass);
    enum gk_status status =
        path ? gk_json_canonical(body, &buf, err) : gk_fail(err, GK_NOMEM, "out of memory");
    if (status == GK_OK) {
        status = gk_buf_status(&buf, err);
    }
    if (status == GK_OK) {
        status = gk_file_store(path, buf.data, buf.size, err);
    }
    gk_buf_fini(&buf);
    free(path);
    return status;
}

void gk_spool_remove(struct gk_spool *spool, int64_t token, int64_t pass)
{
    char *path = path_of(spool, token, pass);
    if (path) {
        (void)unlink(path); /* what stays is sent again and acknowledged as a duplicate */
    }
    free(path);
}

struct found {
    int64_t token, pass;
};

static int by_token(const void *a, const void *b)
{
    const struct found *x = a, *y = b;
    if (x->token != y->token) {
        return x->token < y->token ? -1 : 1;
    }
    return x->pass < y->pass ? -1 : x->pass > y->pass;
}

static struct found *list_results(struct gk_spool *spool, size_t *count_out)
{
    char *folder = gk_asprintf("%s/results", spool->folder);
    struct found *list = calloc(RESULTS_MAX, sizeof *list);
    DIR *dir = folder ? opendir(folder) : NULL;
    struct dirent *entry;
    size_t count = 0;
    while (list && dir && count < RESULTS_MAX && (entry = readdir(dir)) != NULL) {
        int end = 0;
        if (sscanf(entry->d_name, "%" SCNd64 "-%" SCNd64 ".json%n", &list[count].token,
                   &list[count].pass, &end) == 2 &&
            end > 0 && entry->d_name[end] == '\0') {
            count++;
        }
    }
    if (dir) {
        (void)closedir(dir);
    }
    free(folder);
    if (list) {
        qsort(list, count, sizeof *list, by_token);
    }
    *count_out = count;
    return list;
}

void gk_spool_forget(struct gk_spool *spool, int64_t token)
{
    size_t count = 0;
    struct found *list = list_results(spool, &count);
    for (size_t i = 0; list && i < count; i++) {
        if (list[i].token == token) {
            gk_spool_remove(spool, token, list[i].pass);
        }
    }
    free(list);
}

enum gk_status gk_spool_each(struct gk_spool *spool, gk_spool_each_cb each, void *context,
                             uint32_t *damaged_out, struct gk_err *err)
{
    size_t count = 0;
    struct found *list = list_results(spool, &count);
    *damaged_out = 0;
    if (!list) {
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    for (size_t i = 0; i < count; i++) {
        struct gk_json *body = NULL;
        char *path = path_of(spool, list[i].token, list[i].pass);
        if (path && gk_json_load(path, RESULT_MAX, &body, NULL) == GK_OK) {
            each(context, list[i].token, list[i].pass, body);
        } else if (path) {
            (void)unlink(path); /* its trial is run again */
            (*damaged_out)++;
        }
        gk_json_free(body);
        free(path);
    }
    free(list);
    return GK_OK;
}
