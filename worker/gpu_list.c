/* Every CUDA device that a worker may have: see gpu_list.h. */
#include "worker/gpu_list.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/buf.h"
#include "core/json.h"
#include "worker/children.h"
#include "worker/cuda/device_cuda.h"

#define DESCRIBE_MS 30000 /* a driver that has to load itself takes seconds */

const char *gk_gpu_uuid(const char *name)
{
    const char *uuid = strncmp(name, "cuda:", 5) == 0 ? name + 5 : "";
    return strncmp(uuid, "GPU-", 4) == 0 || strncmp(uuid, "MIG-", 4) == 0 ? uuid : NULL;
}

/* ------------------------------------------------------------------ a process for each */

int gk_child_describe(const char *name)
{
    struct gk_device_props props;
    struct gk_err err = {0};
    gk_child_limits(0, 0);
    enum gk_status status = gk_device_describe(name, &props, &err);
    struct gk_json *json = status == GK_OK ? gk_device_props_to_json(&props) : NULL;
    char *text = json ? gk_json_text(json) : NULL;
    bool said = text && printf("%s\n", text) > 0 && fflush(stdout) == 0;
    if (status != GK_OK) {
        (void)fprintf(stderr, "gktune-worker: %s\n", err.text);
    }
    free(text);
    gk_json_free(json);
    return said ? 0 : 4;
}

/* Everything that it says until it closes its output, for DESCRIBE_MS at most between two pieces.
 */
static bool read_all(int fd, struct gk_buf *text)
{
    char piece[4096];
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    for (;;) {
        int rc = poll(&wait, 1, DESCRIBE_MS);
        ssize_t got = rc > 0 ? read(fd, piece, sizeof piece) : -1;
        if (got == 0) {
            return true;
        }
        if (got > 0) {
            gk_buf_add(text, piece, (size_t)got);
        } else if (rc == 0 || errno != EINTR) {
            return false;
        }
    }
}

static enum gk_status run_alone(const char *name, struct gk_buf *text, struct gk_err *err)
{
    int out[2];
    char *argv[] = {(char *)"gktune-worker", (char *)"--child=describe", (char *)"--device",
                    (char *)(uintptr_t)name, NULL};
    if (pipe2(out, O_CLOEXEC) != 0) {
        return gk_fail(err, GK_IO, "pipe: %s", strerror(errno));
    }
    pid_t pid = fork();
    if (pid == 0) {
        (void)dup2(out[1], STDOUT_FILENO);
        (void)execv("/proc/self/exe", argv);
        _exit(127);
    }
    (void)close(out[1]);
    bool whole = pid > 0 && read_all(out[0], text);
    (void)close(out[0]);
    int ending = 0;
    if (pid > 0 && !whole) {
        (void)kill(pid, SIGKILL);
    }
    while (pid > 0 && waitpid(pid, &ending, 0) < 0 && errno == EINTR) {
    }
    return whole && text->size > 0
               ? GK_OK
               : gk_fail(err, GK_UNSUPPORTED,
                         "device %s: the process that describes it %s; its words are above", name,
                         whole ? "says nothing" : "does not end");
}

static enum gk_status describe_alone(const char *uuid, struct gk_device_props *props_out,
                                     struct gk_err *err)
{
    char name[72];
    struct gk_buf text = {0};
    struct gk_json *json = NULL;
    (void)snprintf(name, sizeof name, "cuda:%.63s", uuid);
    enum gk_status status = run_alone(name, &text, err);
    if (status == GK_OK) {
        status = gk_json_parse(gk_buf_text(&text), text.size, name, &json, err);
    }
    if (status == GK_OK) {
        status = gk_device_props_from_json(json, props_out, err);
    }
    gk_json_free(json);
    gk_buf_fini(&text);
    return status;
}

/* ------------------------------------------------------------------ the list */

/* Whether one entry of CUDA_VISIBLE_DEVICES means the device. UUIDs may be cut short; a number is
 * taken for NVML's, and of a GPU in parts means the first part, as the driver takes it. */
static bool entry_means(const char *entry, size_t size, const struct gk_nvml_listed *listed)
{
    char *end = NULL;
    char text[80];
    if (size == 0 || size >= sizeof text) {
        return false;
    }
    memcpy(text, entry, size);
    text[size] = '\0';
    if (strncmp(text, "MIG-", 4) == 0 || strncmp(text, "GPU-", 4) == 0) {
        return strncmp(listed->uuid, text, size) == 0;
    }
    unsigned long number = strtoul(text, &end, 10);
    return text[0] >= '0' && text[0] <= '9' && *end == '\0' && number == listed->gpu &&
           listed->part <= 0;
}

static bool is_visible(const char *visible, const struct gk_nvml_listed *listed)
{
    if (!visible) {
        return true;
    }
    for (const char *at = visible; *at;) {
        at += strspn(at, ", ");
        size_t size = strcspn(at, ", ");
        if (entry_means(at, size, listed)) {
            return true;
        }
        at += size;
    }
    return false;
}

/* Described once a process: each costs the start of a driver. */
static struct gk_device_props *known;
static uint32_t known_count;

static const struct gk_device_props *find_uuid(const struct gk_device_props *list, uint32_t count,
                                               const char *uuid)
{
    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(list[i].uuid, uuid) == 0) {
            return &list[i];
        }
    }
    return NULL;
}

static enum gk_status add(const char *uuid, struct gk_device_props *out, struct gk_err *err)
{
    const struct gk_device_props *found = find_uuid(known, known_count, uuid);
    if (found) {
        *out = *found;
        return GK_OK;
    }
    enum gk_status status = describe_alone(uuid, out, err);
    struct gk_device_props *more =
        status == GK_OK ? realloc(known, (known_count + 1) * sizeof *known) : NULL;
    if (more) {
        known = more;
        known[known_count++] = *out;
    }
    return status;
}

enum gk_status gk_gpu_list(struct gk_device_props *props_out, uint32_t max, uint32_t *count_out,
                           struct gk_err *err)
{
    struct gk_nvml_listed *all = NULL;
    uint32_t count = 0, listed = 0;
    bool parts = false;
    enum gk_status status = gk_device_cuda_list(gk_device_places(), props_out, max, &count, err);
    for (uint32_t i = 0; status == GK_OK && i < count; i++) {
        parts = parts || strncmp(props_out[i].uuid, "MIG-", 4) == 0;
    }
    if (status != GK_OK || !parts) {
        *count_out = count;
        return status;
    }
    all = calloc(GK_CUDA_GPUS_MAX, sizeof *all);
    if (!all) {
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    /* Without NVML there is what the driver shows. */
    if (gk_nvml_list(gk_device_places()->nvml, all, GK_CUDA_GPUS_MAX, &listed, NULL) != GK_OK) {
        listed = 0;
    }
    for (uint32_t i = 0; status == GK_OK && i < listed && count < max; i++) {
        if (is_visible(gk_device_places()->visible, &all[i]) &&
            !find_uuid(props_out, count, all[i].uuid)) {
            status = add(all[i].uuid, &props_out[count], err);
            count += status == GK_OK;
        }
    }
    free(all);
    *count_out = count;
    return status;
}

enum gk_status gk_gpu_describe(const char *name, struct gk_device_props *props_out,
                               struct gk_err *err)
{
    struct gk_err own = {0}, other = {0};
    uint32_t count = 0;
    enum gk_status status = gk_device_describe(name, props_out, &own);
    const char *uuid = gk_gpu_uuid(name);
    if (status != GK_NOT_FOUND || !uuid) {
        return status == GK_OK ? GK_OK : gk_fail(err, status, "%s", own.text);
    }
    struct gk_device_props *all = calloc(GK_CUDA_GPUS_MAX, sizeof *all);
    if (!all) {
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    enum gk_status listed = gk_gpu_list(all, GK_CUDA_GPUS_MAX, &count, &other);
    const struct gk_device_props *found = listed == GK_OK ? find_uuid(all, count, uuid) : NULL;
    if (found) {
        *props_out = *found;
    }
    free(all);
    return found             ? GK_OK
           : listed == GK_OK ? gk_fail(err, status, "%s", own.text)
                             : gk_fail(err, listed, "%s", other.text);
}
