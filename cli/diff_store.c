/* A side of a diff out of a store: see diff.h. Only a daemon opens a store, so one is asked. */
#include "cli/diff.h"
#include "cli/winners.h"
#include "core/policy.h"
#include "core/state_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char SQLITE_MAGIC[16] = "SQLite format 3";

static bool is_backup(const char *path)
{
    char head[sizeof SQLITE_MAGIC] = "";
    struct stat info;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    bool good = fd >= 0 && fstat(fd, &info) == 0 && S_ISREG(info.st_mode) &&
                read(fd, head, sizeof head) == (ssize_t)sizeof head &&
                memcmp(head, SQLITE_MAGIC, sizeof head) == 0;
    if (fd >= 0) {
        (void)close(fd); /* it was only read */
    }
    return good;
}

bool gk_diff_is_store(const char *path)
{
    char *store = gk_asprintf("%s/%s", path, GK_STATE_STORE);
    bool found = store && access(store, F_OK) == 0;
    free(store);
    return found || is_backup(path);
}

/* ------------------------------------------------------------------ rows */

static enum gk_status take_pick(void *context, const struct gk_json *row, struct gk_err *err)
{
    struct gk_json *copy = gk_json_copy(row);
    return copy ? gk_diff_side_add(context, gk_json_get_string(row, "problem", ""),
                                   gk_json_get_string(row, "arch", ""),
                                   gk_json_get_string(row, "gpu", ""),
                                   gk_json_get_string(row, "policy", ""), copy, NULL, err)
                : gk_fail(err, GK_NOMEM, "out of memory");
}

static enum gk_status take_tasks(struct gk_client *client, int64_t number,
                                 struct gk_diff_side *side, struct gk_err *err)
{
    struct gk_winners winners = {0};
    enum gk_status status = gk_winners_load(client, number, &winners, err);
    struct gk_json *job = status == GK_OK ? gk_diff_job_json(winners.job, winners.tasks) : NULL;
    const struct gk_json *tasks = gk_json_get(job, "tasks");
    for (size_t i = 0; status == GK_OK && i < gk_json_count(tasks); i++) {
        const struct gk_json *task = gk_json_at(tasks, i);
        struct gk_json *copy = gk_json_copy(task);
        const char *problem = gk_json_get_string(task, "problem", ""),
                   *arch = gk_json_get_string(task, "arch", ""),
                   *gpu = gk_json_get_string(task, "gpu", ""),
                   *policy =
                       gk_json_get_string(job, "policy", gk_policy_name(GK_POLICY_COLD_GRAPH));
        status = gk_json_set_int(copy, "job", number)
                     ? gk_diff_side_add(side, problem, arch, gpu, policy, NULL, copy, err)
                     : gk_fail(err, GK_NOMEM, "out of memory");
    }
    if (status == GK_OK && !job) {
        status = gk_fail(err, GK_NOMEM, "out of memory");
    }
    gk_json_free(job);
    gk_winners_fini(&winners);
    return status;
}

struct job_list {
    int64_t *jobs;
    uint32_t count, capacity;
};

static enum gk_status note_job(void *context, const struct gk_json *row, struct gk_err *err)
{
    struct job_list *list = context;
    if (list->count == list->capacity) {
        uint32_t capacity = list->capacity ? list->capacity * 2 : 64;
        int64_t *jobs = realloc(list->jobs, capacity * sizeof *jobs);
        if (!jobs) {
            return gk_fail(err, GK_NOMEM, "out of memory");
        }
        list->jobs = jobs;
        list->capacity = capacity;
    }
    list->jobs[list->count++] = gk_json_get_int(row, "job", 0);
    return GK_OK;
}

static enum gk_status read_rows(struct gk_client *client, struct gk_diff_side *side,
                                struct gk_err *err)
{
    struct job_list list = {0};
    enum gk_status status =
        gk_client_pages(client, "best", gk_json_new_object(), "rows", take_pick, side, err);
    if (status == GK_OK) {
        status =
            gk_client_pages(client, "jobs", gk_json_new_object(), "jobs", note_job, &list, err);
    }
    for (uint32_t i = 0; status == GK_OK && i < list.count; i++) {
        status =
            take_tasks(client, list.jobs[i], side, err); /* a later job replaces a former one */
    }
    free(list.jobs);
    return status;
}

/* ------------------------------------------------------------------ opening */

static int remove_one(const char *path, const struct stat *info, int type, struct FTW *where)
{
    (void)info;
    (void)type;
    (void)where;
    (void)remove(path); /* what cannot be removed stays in the temporary folder */
    return 0;
}

/* Through a copy of the command line that knows another state folder, and no named daemon. */
static enum gk_status read_state(const struct gk_cli *cli, char *state_dir,
                                 struct gk_diff_side *side, struct gk_err *err)
{
    struct gk_cli other = *cli;
    struct gk_client *client = NULL;
    other.state_dir = state_dir;
    other.connect = NULL;
    enum gk_status status = gk_client_open(&other, &client, err);
    if (status == GK_OK) {
        status = read_rows(client, side, err);
    }
    gk_client_close(client);
    return status;
}

enum gk_status gk_diff_store(struct gk_cli *cli, const char *path, struct gk_diff_side *side,
                             struct gk_err *err)
{
    char folder[] = "/tmp/gktune-diff-XXXXXX", *copy = NULL;
    enum gk_status status = GK_OK;
    if (!is_backup(path)) {
        char *state_dir = gk_strdup(path);
        status = state_dir ? read_state(cli, state_dir, side, err)
                           : gk_fail(err, GK_NOMEM, "out of memory");
        free(state_dir);
        return status;
    }
    if (!mkdtemp(folder)) {
        return gk_fail(err, GK_IO, "cannot make a folder in /tmp: %s", strerror(errno));
    }
    copy = gk_asprintf("%s/%s", folder, GK_STATE_STORE);
    status = copy ? gk_copy_file(path, copy, err) : gk_fail(err, GK_NOMEM, "out of memory");
    if (status == GK_OK) {
        status = read_state(cli, folder, side, err);
    }
    free(copy);
    (void)nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    return status;
}

enum gk_status gk_diff_jobs_of(struct gk_client *client, const int64_t *jobs, uint32_t count,
                               struct gk_json **json_out, struct gk_err *err)
{
    struct gk_json *json = gk_json_new_object(), *list = gk_json_new_array();
    enum gk_status status = GK_OK;
    bool ok = gk_json_set_int(json, "version", 1);
    for (uint32_t i = 0; status == GK_OK && i < count; i++) {
        struct gk_winners winners = {0};
        status = gk_winners_load(client, jobs[i], &winners, err);
        if (status == GK_OK) {
            ok = gk_json_push(list, gk_diff_job_json(winners.job, winners.tasks)) && ok;
        }
        gk_winners_fini(&winners);
    }
    ok = gk_json_set(json, "jobs", list) && ok;
    if (status == GK_OK && !ok) {
        status = gk_fail(err, GK_NOMEM, "out of memory");
    }
    if (status != GK_OK) {
        gk_json_free(json);
        return status;
    }
    *json_out = json;
    return GK_OK;
}
