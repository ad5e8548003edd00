/* The list of CUDA devices: see list_devices.h. */
#include "worker/list_devices.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/buf.h"
#include "worker/cuda/device_cuda.h"
#include "worker/cuda/gpu_lock.h"
#include "worker/gpu_list.h"

static bool set_text(struct gk_json *json, const char *name, const char *text)
{
    return *text ? gk_json_set_string(json, name, text)
                 : gk_json_set(json, name, gk_json_new_null());
}

static struct gk_json *list_processes(struct gk_nvml *nvml)
{
    int64_t pids[GK_NVML_PROCESSES_MAX];
    int64_t count = gk_nvml_processes(nvml, pids, GK_NVML_PROCESSES_MAX);
    if (count < 0) {
        return gk_json_new_null();
    }
    struct gk_json *list = gk_json_new_array();
    for (int64_t i = 0; list && i < count && i < GK_NVML_PROCESSES_MAX; i++) {
        if (!gk_json_push(list, gk_json_new_int(pids[i]))) {
            gk_json_free(list);
            return NULL;
        }
    }
    return list;
}

static struct gk_json *describe(const struct gk_device_props *props, char nvml_driver[80])
{
    struct gk_nvml *nvml = NULL;
    struct gk_nvml_about about;
    (void)gk_nvml_open(gk_device_places()->nvml, props->uuid, &nvml, NULL); /* less is known then */
    gk_nvml_about(nvml, &about);
    (void)snprintf(nvml_driver, 80, "%s", about.driver);
    struct gk_json *json = gk_device_props_to_json(props);
    const int64_t limit = about.power_limit_mw, usual = about.power_default_mw;
    bool good = json && set_text(json, "vbios", about.vbios) &&
                gk_json_set_int(json, "power_limit_w", limit < 0 ? -1 : limit / 1000) &&
                gk_json_set_int(json, "power_default_w", usual < 0 ? -1 : usual / 1000) &&
                gk_json_set(json, "processes", list_processes(nvml)) &&
                gk_json_set_int(json, "holder", gk_gpu_lock_holder(props->uuid));
    gk_nvml_close(nvml);
    if (!good) {
        gk_json_free(json);
        return NULL;
    }
    return json;
}

static struct gk_json *describe_compiler(const struct gk_compiler_places *places)
{
    struct gk_json *json = gk_json_new_object();
    struct gk_compiler *compiler = NULL;
    struct gk_err err = {0};
    bool good = json != NULL;
    if (good && gk_compiler_open(places, &compiler, &err) == GK_OK) {
        good = gk_json_set_string(json, "version", gk_compiler_version(compiler)) &&
               gk_json_set_string(json, "file", gk_compiler_path(compiler));
        gk_compiler_close(compiler);
    } else if (good) {
        good = gk_json_set_string(json, "why", err.text);
    }
    if (!good) {
        gk_json_free(json);
        return NULL;
    }
    return json;
}

struct gk_json *gk_list_devices(const struct gk_compiler_places *compilers)
{
    struct gk_device_props *all = calloc(GK_CUDA_GPUS_MAX, sizeof *all);
    struct gk_json *json = gk_json_new_object(), *devices = gk_json_new_array();
    char path[4096] = "", version_text[32] = "", nvml_driver[80] = "";
    struct gk_err err = {0};
    uint32_t count = 0;
    int64_t version = 0;
    bool good = all && json && devices;
    if (good && gk_device_cuda_driver_about(gk_device_places(), &version, path, &err) == GK_OK) {
        (void)snprintf(version_text, sizeof version_text, "%d.%d", (int)(version / 1000),
                       (int)(version % 1000 / 10));
        if (gk_gpu_list(all, GK_CUDA_GPUS_MAX, &count, &err) != GK_OK) {
            count = 0;
        }
    }
    for (uint32_t i = 0; good && i < count; i++) {
        good = gk_json_push(devices, describe(&all[i], nvml_driver));
    }
    good = good && set_text(json, "cuda", version_text) && set_text(json, "file", path) &&
           set_text(json, "why", count > 0 ? "" : err.text) &&
           set_text(json, "nvml", nvml_driver) &&
           gk_json_set(json, "nvrtc", describe_compiler(compilers));
    if (good) {
        good = gk_json_set(json, "devices", devices);
        devices = NULL;
    }
    gk_json_free(devices);
    free(all);
    if (!good) {
        gk_json_free(json);
        return NULL;
    }
    return json;
}
