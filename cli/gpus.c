/* CUDA devices of this machine: see gpus.h. */
#include "cli/gpus.h"
#include "cli/programs.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIST_MS 30000 /* a driver that has to load itself takes seconds */
#define STOP_MS 2000

enum gk_status gk_gpus_list(const char *exe_dir, struct gk_json **list_out, struct gk_err *err)
{
    static const char *const argv[] = {"gktune-worker", "--list-devices", NULL};
    struct gk_child child = {.in_fd = -1, .out_fd = -1};
    struct gk_buf line = {0};
    enum gk_status status = gk_child_start(exe_dir, argv, "/dev/null", true, &child, err);
    if (status != GK_OK) {
        return status;
    }
    status = gk_child_line(&child, LIST_MS, &line, err);
    if (status == GK_OK) {
        status = gk_json_parse(gk_buf_text(&line), line.size, "the list of devices", list_out, err);
    }
    gk_child_stop(&child, STOP_MS);
    gk_buf_fini(&line);
    return status == GK_OK ? GK_OK : gk_fail_in(err, status, "gktune-worker --list-devices");
}

static const char *name_at(const struct gk_json *devices, size_t index)
{
    return gk_json_get_string(gk_json_at(devices, index), "device", "");
}

/* The list of devices, empty with the reason where there is none; lent. Asked for once a command: a
 * driver needs a second to start, and no GPU comes or goes meanwhile that a worker would not
 * notice.
 */
static const struct gk_json *list_devices(const char *exe_dir, char why[256])
{
    static struct gk_json *list;
    struct gk_err err = {0};
    if (!list && gk_gpus_list(exe_dir, &list, &err) != GK_OK) {
        (void)snprintf(why, 256, "%.250s", err.text);
        return NULL;
    }
    (void)snprintf(why, 256, "%.250s", gk_json_get_string(list, "why", "no CUDA device"));
    return gk_json_get(list, "devices");
}

uint32_t gk_gpus_all(const char *exe_dir, char names_out[][64], uint32_t max, char why_out[256])
{
    const struct gk_json *devices = list_devices(exe_dir, why_out);
    uint32_t count = 0;
    while (count < max && count < gk_json_count(devices)) {
        (void)snprintf(names_out[count], 64, "%s", name_at(devices, count));
        count++;
    }
    return count;
}

/* Index of the device that is meant, or the count of devices. */
static size_t index_of(const struct gk_json *devices, const char *device)
{
    const char *which = strchr(device, ':');
    size_t count = gk_json_count(devices), index = 0;
    char *end = NULL;
    which = which ? which + 1 : "0";
    unsigned long number = strtoul(which, &end, 10);
    if (*which >= '0' && *which <= '9' && *end == '\0') {
        return number < count ? number : count;
    }
    while (index < count && strcmp(name_at(devices, index), device) != 0) {
        index++;
    }
    return index;
}

enum gk_status gk_gpus_find(const char *exe_dir, const char *device, char name_out[64],
                            struct gk_err *err)
{
    char why[256] = "";
    const struct gk_json *devices = list_devices(exe_dir, why);
    size_t count = gk_json_count(devices), index = index_of(devices, device);
    enum gk_status status = GK_OK;
    if (index < count) {
        (void)snprintf(name_out, 64, "%s", name_at(devices, index));
    } else if (count > 0) {
        status = gk_fail(err, GK_USAGE,
                         "device '%s': this machine has cuda:0 to cuda:%zu (cuda:0 is %s)", device,
                         count - 1, name_at(devices, 0));
    } else {
        status =
            gk_fail(err, GK_UNSUPPORTED, "device '%s': %s; emu and mock need none", device, why);
    }
    return status;
}

void gk_gpus_kind(const char *exe_dir, const char *name, char kind_out[128])
{
    char why[256];
    const struct gk_json *devices = list_devices(exe_dir, why);
    size_t index = index_of(devices, name);
    const struct gk_json *device = gk_json_at(devices, index);
    (void)snprintf(kind_out, 128, "%s%s%s", device ? gk_json_get_string(device, "arch", "") : name,
                   device ? " " : "", device ? gk_json_get_string(device, "gpu", "") : "");
}
