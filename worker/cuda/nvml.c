/* NVML by dlopen: see nvml.h. */
#include "worker/cuda/nvml.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NVML_FILE "libnvidia-ml.so.1"

/* What of NVML's interface is used, in our own words; numbers are its ABI. */
typedef int nvml_result; /* 0: success */
typedef void *nvml_device;

enum { NVML_SUCCESS = 0, NVML_INSUFFICIENT_SIZE = 7 };
enum { NVML_CLOCK_SM = 1, NVML_CLOCK_MEM = 2 };
enum { NVML_TEMPERATURE_GPU = 0 };
enum { NVML_FI_DEV_POWER_INSTANT = 186 };
enum { VALUE_DOUBLE, VALUE_UINT, VALUE_ULONG, VALUE_ULONGLONG, VALUE_SLONGLONG, VALUE_INT };

struct nvml_field {
    unsigned field, scope;
    long long timestamp, latency_us;
    int value_type;
    nvml_result result;
    union {
        double d;
        int i;
        unsigned u;
        unsigned long ul;
        unsigned long long ull;
        long long sll;
    } value;
};

struct nvml_process { /* of the third version of the call */
    unsigned pid;
    unsigned long long used_bytes;
    unsigned gpu_instance, compute_instance;
};

struct api {
    nvml_result (*init)(void);
    nvml_result (*by_uuid)(const char *, nvml_device *);
    /* the rest may be NULL */
    nvml_result (*parent)(nvml_device, nvml_device *);
    nvml_result (*clock)(nvml_device, int, unsigned *);
    nvml_result (*clock_max)(nvml_device, int, unsigned *);
    nvml_result (*bus_width)(nvml_device, unsigned *);
    nvml_result (*temperature)(nvml_device, int, unsigned *);
    nvml_result (*power)(nvml_device, unsigned *);
    nvml_result (*power_enforced)(nvml_device, unsigned *);
    nvml_result (*power_default)(nvml_device, unsigned *);
    nvml_result (*fields)(nvml_device, int, struct nvml_field *);
    nvml_result (*throttle)(nvml_device, unsigned long long *);
    nvml_result (*processes)(nvml_device, unsigned *, struct nvml_process *);
    nvml_result (*driver_version)(char *, unsigned);
    nvml_result (*vbios)(nvml_device, char *, unsigned);
    nvml_result (*count)(unsigned *);
    nvml_result (*by_index)(unsigned, nvml_device *);
    nvml_result (*uuid)(nvml_device, char *, unsigned);
    nvml_result (*mig_mode)(nvml_device, unsigned *, unsigned *);
    nvml_result (*mig_most)(nvml_device, unsigned *);
    nvml_result (*mig_by_index)(nvml_device, unsigned, nvml_device *);
};

struct gk_nvml {
    struct api api;
    nvml_device device;
    nvml_device gpu; /* of a MIG device the GPU it is part of; else the same */
    bool silent;     /* a thread is in there, and may be for ever */
};

/* ISO C knows no conversion from an object pointer to a function pointer; POSIX has one. */
static bool resolve(void *library, const char *name, void *function_pointer)
{
    void *symbol = dlsym(library, name);
    memcpy(function_pointer, &symbol, sizeof symbol);
    return symbol != NULL;
}

static bool resolve_all(void *library, struct api *api)
{
    bool good = resolve(library, "nvmlInit_v2", &api->init) &&
                resolve(library, "nvmlDeviceGetHandleByUUID", &api->by_uuid);
    (void)resolve(library, "nvmlDeviceGetDeviceHandleFromMigDeviceHandle", &api->parent);
    (void)resolve(library, "nvmlDeviceGetClockInfo", &api->clock);
    (void)resolve(library, "nvmlDeviceGetMaxClockInfo", &api->clock_max);
    (void)resolve(library, "nvmlDeviceGetMemoryBusWidth", &api->bus_width);
    (void)resolve(library, "nvmlDeviceGetTemperature", &api->temperature);
    (void)resolve(library, "nvmlDeviceGetPowerUsage", &api->power);
    (void)resolve(library, "nvmlDeviceGetEnforcedPowerLimit", &api->power_enforced);
    (void)resolve(library, "nvmlDeviceGetPowerManagementDefaultLimit", &api->power_default);
    (void)resolve(library, "nvmlDeviceGetFieldValues", &api->fields);
    if (!resolve(library, "nvmlDeviceGetCurrentClocksEventReasons", &api->throttle)) {
        (void)resolve(library, "nvmlDeviceGetCurrentClocksThrottleReasons", &api->throttle);
    }
    (void)resolve(library, "nvmlDeviceGetComputeRunningProcesses_v3", &api->processes);
    (void)resolve(library, "nvmlSystemGetDriverVersion", &api->driver_version);
    (void)resolve(library, "nvmlDeviceGetVbiosVersion", &api->vbios);
    (void)resolve(library, "nvmlDeviceGetCount_v2", &api->count);
    (void)resolve(library, "nvmlDeviceGetHandleByIndex_v2", &api->by_index);
    (void)resolve(library, "nvmlDeviceGetUUID", &api->uuid);
    (void)resolve(library, "nvmlDeviceGetMigMode", &api->mig_mode);
    (void)resolve(library, "nvmlDeviceGetMaxMigDeviceCount", &api->mig_most);
    (void)resolve(library, "nvmlDeviceGetMigDeviceHandleByIndex", &api->mig_by_index);
    return good;
}

/* The library stays mapped and started, also where this fails: others of this process may use it.
 */
static enum gk_status start(const char *path, struct api *api, struct gk_err *err)
{
    path = path ? path : NVML_FILE;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    nvml_result result = -1;
    if (!library) {
        const char *why = dlerror();
        return gk_fail(err, GK_MISSING, "NVML: %s", why ? why : path);
    }
    if (!resolve_all(library, api)) {
        return gk_fail(err, GK_MISSING, "NVML: %s is too old", path);
    }
    return (result = api->init()) == NVML_SUCCESS
               ? GK_OK
               : gk_fail(err, GK_MISSING, "NVML: nvmlInit: error %d", result);
}

enum gk_status gk_nvml_open(const char *path, const char *uuid, struct gk_nvml **nvml_out,
                            struct gk_err *err)
{
    struct gk_nvml *nvml = calloc(1, sizeof *nvml);
    if (!nvml) {
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    enum gk_status status = start(path, &nvml->api, err);
    nvml_result result = status == GK_OK ? nvml->api.by_uuid(uuid, &nvml->device) : NVML_SUCCESS;
    if (result != NVML_SUCCESS) {
        status = gk_fail(err, GK_NOT_FOUND, "NVML: device %s: error %d", uuid, result);
    }
    if (status != GK_OK) {
        free(nvml);
        return status;
    }
    nvml->gpu = nvml->device;
    if (strncmp(uuid, "MIG-", 4) == 0 &&
        (!nvml->api.parent || nvml->api.parent(nvml->device, &nvml->gpu) != NVML_SUCCESS)) {
        nvml->gpu = nvml->device;
    }
    *nvml_out = nvml;
    return GK_OK;
}

void gk_nvml_close(struct gk_nvml *nvml)
{
    if (nvml && !nvml->silent) {
        free(nvml); /* NVML counts its users by itself until the process ends */
    }
}

/* ------------------------------------------------------------------ which there are */

struct list {
    const struct api *api;
    struct gk_nvml_listed *out;
    uint32_t max, count;
};

static void put(struct list *list, nvml_device device, uint32_t gpu, int32_t part)
{
    struct gk_nvml_listed *listed = &list->out[list->count];
    if (list->count < list->max &&
        list->api->uuid(device, listed->uuid, sizeof listed->uuid) == NVML_SUCCESS) {
        listed->gpu = gpu;
        listed->part = part;
        list->count++;
    }
}

static bool in_parts(const struct api *api, nvml_device device)
{
    unsigned now = 0, pending = 0;
    return api->mig_mode && api->mig_most && api->mig_by_index &&
           api->mig_mode(device, &now, &pending) == NVML_SUCCESS && now != 0;
}

enum gk_status gk_nvml_list(const char *path, struct gk_nvml_listed *listed_out, uint32_t max,
                            uint32_t *count_out, struct gk_err *err)
{
    struct api api = {0};
    struct list list = {.api = &api, .out = listed_out, .max = max};
    unsigned count = 0;
    enum gk_status status = start(path, &api, err);
    if (status == GK_OK &&
        (!api.count || !api.by_index || !api.uuid || api.count(&count) != NVML_SUCCESS)) {
        status = gk_fail(err, GK_MISSING, "NVML does not count its devices");
    }
    for (unsigned i = 0; status == GK_OK && i < count; i++) {
        nvml_device device = NULL, part = NULL;
        unsigned most = 0;
        if (api.by_index(i, &device) != NVML_SUCCESS) {
            continue; /* not ours to see */
        }
        if (!in_parts(&api, device)) {
            put(&list, device, i, -1);
        } else if (api.mig_most(device, &most) == NVML_SUCCESS) {
            int32_t number = 0;
            for (unsigned k = 0; k < most; k++) { /* places may be empty */
                if (api.mig_by_index(device, k, &part) == NVML_SUCCESS) {
                    put(&list, part, i, number++);
                }
            }
        }
    }
    if (status == GK_OK) {
        *count_out = list.count;
    }
    return status;
}

/* ------------------------------------------------------------------ numbers */

static int64_t number(nvml_result (*get)(nvml_device, unsigned *), nvml_device device)
{
    unsigned value = 0;
    return get && get(device, &value) == NVML_SUCCESS ? (int64_t)value : -1;
}

static int64_t number_of(nvml_result (*get)(nvml_device, int, unsigned *), nvml_device device,
                         int which)
{
    unsigned value = 0;
    return get && get(device, which, &value) == NVML_SUCCESS ? (int64_t)value : -1;
}

static int64_t khz(int64_t mhz)
{
    return mhz < 0 ? -1 : mhz * 1000;
}

static int64_t field_number(const struct nvml_field *field)
{
    switch (field->value_type) {
    case VALUE_UINT:
        return (int64_t)field->value.u;
    case VALUE_ULONG:
        return (int64_t)field->value.ul;
    case VALUE_ULONGLONG:
    case VALUE_SLONGLONG:
        return field->value.sll;
    case VALUE_INT:
        return field->value.i;
    default:
        return -1;
    }
}

/* The usage call averages over a second on recent GPUs; the field is of this moment. */
static int64_t power(const struct gk_nvml *nvml)
{
    struct nvml_field field = {.field = NVML_FI_DEV_POWER_INSTANT};
    if (nvml->api.fields && nvml->api.fields(nvml->gpu, 1, &field) == NVML_SUCCESS &&
        field.result == NVML_SUCCESS) {
        int64_t value = field_number(&field);
        if (value > 0) {
            return value;
        }
    }
    return number(nvml->api.power, nvml->gpu);
}

void gk_nvml_look(struct gk_nvml *nvml, struct gk_nvml_now *now_out)
{
    unsigned long long reasons = 0;
    *now_out = (struct gk_nvml_now){-1, -1, -1, -1, -1, -1};
    if (!nvml) {
        return;
    }
    now_out->sm_clock_khz = khz(number_of(nvml->api.clock, nvml->gpu, NVML_CLOCK_SM));
    now_out->memory_clock_khz = khz(number_of(nvml->api.clock, nvml->gpu, NVML_CLOCK_MEM));
    now_out->temperature_c = number_of(nvml->api.temperature, nvml->gpu, NVML_TEMPERATURE_GPU);
    now_out->power_mw = power(nvml);
    now_out->power_limit_mw = number(nvml->api.power_enforced, nvml->gpu);
    if (nvml->api.throttle && nvml->api.throttle(nvml->gpu, &reasons) == NVML_SUCCESS) {
        now_out->throttle = (int64_t)reasons;
    }
}

void gk_nvml_about(struct gk_nvml *nvml, struct gk_nvml_about *about_out)
{
    *about_out = (struct gk_nvml_about){-1, -1, -1, -1, -1, "", ""};
    if (!nvml) {
        return;
    }
    about_out->power_default_mw = number(nvml->api.power_default, nvml->gpu);
    about_out->power_limit_mw = number(nvml->api.power_enforced, nvml->gpu);
    about_out->sm_clock_max_khz = khz(number_of(nvml->api.clock_max, nvml->gpu, NVML_CLOCK_SM));
    about_out->memory_clock_max_khz =
        khz(number_of(nvml->api.clock_max, nvml->gpu, NVML_CLOCK_MEM));
    about_out->bus_width_bits = number(nvml->api.bus_width, nvml->gpu);
    if (!nvml->api.driver_version ||
        nvml->api.driver_version(about_out->driver, sizeof about_out->driver) != NVML_SUCCESS) {
        about_out->driver[0] = '\0';
    }
    if (!nvml->api.vbios ||
        nvml->api.vbios(nvml->gpu, about_out->vbios, sizeof about_out->vbios) != NVML_SUCCESS) {
        about_out->vbios[0] = '\0';
    }
}

int64_t gk_nvml_processes(struct gk_nvml *nvml, int64_t *pids_out, uint32_t max)
{
    struct nvml_process list[GK_NVML_PROCESSES_MAX];
    unsigned count = GK_NVML_PROCESSES_MAX;
    if (!nvml || !nvml->api.processes) {
        return -1;
    }
    memset(list, 0, sizeof list);
    nvml_result result = nvml->api.processes(nvml->device, &count, list);
    if (result == NVML_INSUFFICIENT_SIZE) { /* so many that nobody reads their numbers */
        for (uint32_t i = 0; i < max; i++) {
            pids_out[i] = -1;
        }
        return (int64_t)count;
    }
    if (result != NVML_SUCCESS) {
        return -1;
    }
    for (uint32_t i = 0; i < count && i < max; i++) {
        pids_out[i] = list[i].pid;
    }
    return (int64_t)count;
}

/* One that is listed is we, under whatever number: in a container it may be one of the host. */
static int64_t count_others(struct gk_nvml *nvml)
{
    int64_t count = gk_nvml_processes(nvml, NULL, 0);
    return count > 0 ? count - 1 : -1; /* a list that does not even have us tells nothing */
}

/* ------------------------------------------------------------------ within a time */

/* Belongs to the thread once nobody waits for it any more. */
struct look {
    struct gk_nvml *nvml;
    struct gk_nvml_now now;
    int64_t others;
    sem_t done;
};

static void *look_run(void *context)
{
    struct look *look = context;
    gk_nvml_look(look->nvml, &look->now);
    look->others = count_others(look->nvml);
    (void)sem_post(&look->done); /* it counts to one */
    return NULL;
}

static bool wait_for(sem_t *done, uint64_t ms)
{
    struct timespec end;
    (void)clock_gettime(CLOCK_MONOTONIC, &end); /* a known clock */
    uint64_t ns = (uint64_t)end.tv_nsec + ms % 1000 * 1000000;
    end.tv_sec += (time_t)(ms / 1000 + ns / 1000000000);
    end.tv_nsec = (long)(ns % 1000000000);
    int result;
    do {
        result = sem_clockwait(done, CLOCK_MONOTONIC, &end);
    } while (result != 0 && errno == EINTR);
    return result == 0;
}

void gk_nvml_look_within(struct gk_nvml *nvml, uint64_t ms, struct gk_nvml_now *now_out,
                         int64_t *others_out)
{
    pthread_t thread;
    gk_nvml_look(NULL, now_out);
    *others_out = -1;
    struct look *look = nvml && !nvml->silent ? calloc(1, sizeof *look) : NULL;
    if (!look) {
        return;
    }
    look->nvml = nvml;
    if (sem_init(&look->done, 0, 0) != 0 || pthread_create(&thread, NULL, look_run, look) != 0) {
        free(look);
        return;
    }
    if (!wait_for(&look->done, ms)) {
        nvml->silent = true;
        (void)pthread_detach(thread); /* it is nobody's from here on, and ends with the process */
        return;
    }
    (void)pthread_join(thread, NULL); /* it has said that it is done */
    *now_out = look->now;
    *others_out = look->others;
    (void)sem_destroy(&look->done);
    free(look);
}
