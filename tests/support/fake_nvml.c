/* A double of NVML: one GPU that draws 350 of 700 W. FAKE_NVML_LIMIT_MW is another limit;
 * FAKE_NVML_PROCESSES is how many processes compute there (1: the one that asks);
 * FAKE_NVML_RESULT is the error that every call about the GPU returns; with FAKE_NVML_HANG the
 * first call never returns, as with a driver that waits for a GPU that is gone;
 * FAKE_NVML_SILENT: the call for clocks, where it was well when it was opened. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/fake_gpus.h"

struct field { /* nvmlFieldValue_t */
    unsigned id, scope;
    long long timestamp, latency;
    int type, result;
    union {
        double d;
        unsigned long long ull;
    } value;
};

struct process { /* nvmlProcessInfo_t, third version of the call */
    unsigned pid;
    unsigned long long bytes;
    unsigned gpu_instance, compute_instance;
};

int nvmlInit_v2(void);
int nvmlDeviceGetHandleByUUID(const char *uuid, void **device);
int nvmlDeviceGetClockInfo(void *device, int type, unsigned *mhz);
int nvmlDeviceGetMaxClockInfo(void *device, int type, unsigned *mhz);
int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *celsius);
int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts);
int nvmlDeviceGetEnforcedPowerLimit(void *device, unsigned *milliwatts);
int nvmlDeviceGetPowerManagementDefaultLimit(void *device, unsigned *milliwatts);
int nvmlDeviceGetFieldValues(void *device, int count, struct field *fields);
int nvmlDeviceGetCurrentClocksEventReasons(void *device, unsigned long long *reasons);
int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, struct process *list);
int nvmlSystemGetDriverVersion(char *text, unsigned size);
int nvmlDeviceGetVbiosVersion(void *device, char *text, unsigned size);
int nvmlDeviceGetCount_v2(unsigned *count);
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device);
int nvmlDeviceGetUUID(void *device, char *text, unsigned size);
int nvmlDeviceGetMigMode(void *device, unsigned *now, unsigned *pending);
int nvmlDeviceGetMaxMigDeviceCount(void *device, unsigned *count);
int nvmlDeviceGetMigDeviceHandleByIndex(void *device, unsigned index, void **part);
int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(void *part, void **device);

static int the_gpu;

/* 0, or what the GPU is said to be: 15 is NVML_ERROR_GPU_IS_LOST. */
static int result(void)
{
    const char *given = getenv("FAKE_NVML_RESULT");
    return given ? (int)strtol(given, NULL, 10) : 0;
}

int nvmlInit_v2(void)
{
    while (getenv("FAKE_NVML_HANG")) {
        (void)pause();
    }
    return 0;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, void **device)
{
    *device = &the_gpu;
    return strncmp(uuid, "GPU-", 4) == 0 || strncmp(uuid, "MIG-", 4) == 0
               ? 0
               : 6; /* NVML_ERROR_NOT_FOUND */
}

int nvmlDeviceGetClockInfo(void *device, int type, unsigned *mhz)
{
    while (getenv("FAKE_NVML_SILENT")) {
        (void)pause();
    }
    (void)device;
    *mhz = type == 1 ? 1755 : 3201;
    return result();
}

int nvmlDeviceGetMaxClockInfo(void *device, int type, unsigned *mhz)
{
    (void)device;
    *mhz = type == 1 ? 1980 : 3201;
    return result();
}

int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *celsius)
{
    (void)device;
    (void)sensor;
    *celsius = 0; /* a GPU on ice: zero is a temperature, not "unknown" */
    return result();
}

int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts)
{
    (void)device;
    *milliwatts = 100000;
    return result();
}

int nvmlDeviceGetEnforcedPowerLimit(void *device, unsigned *milliwatts)
{
    const char *given = getenv("FAKE_NVML_LIMIT_MW");
    (void)device;
    *milliwatts = given ? (unsigned)strtoul(given, NULL, 10) : 700000;
    return result();
}

int nvmlDeviceGetPowerManagementDefaultLimit(void *device, unsigned *milliwatts)
{
    (void)device;
    *milliwatts = 700000;
    return result();
}

int nvmlDeviceGetFieldValues(void *device, int count, struct field *fields)
{
    (void)device;
    for (int i = 0; i < count; i++) {
        fields[i].result = fields[i].id == 186 ? 0 : 3; /* NVML_ERROR_NOT_SUPPORTED */
        fields[i].type = 3;                             /* unsigned long long */
        fields[i].value.ull = 350000;
    }
    return result();
}

int nvmlDeviceGetCurrentClocksEventReasons(void *device, unsigned long long *reasons)
{
    (void)device;
    *reasons = 4; /* the software power cap */
    return result();
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, struct process *list)
{
    const char *given = getenv("FAKE_NVML_PROCESSES");
    unsigned all = given ? (unsigned)strtoul(given, NULL, 10) : 1, room = *count;
    (void)device;
    for (unsigned i = 0; i < all && i < room; i++) {
        list[i].pid = 4242 + i;
    }
    *count = all;
    return all > room ? 7 : result(); /* NVML_ERROR_INSUFFICIENT_SIZE */
}

static int text_out(char *text, unsigned size, const char *value)
{
    if (strlen(value) >= size) {
        return 7; /* NVML_ERROR_INSUFFICIENT_SIZE */
    }
    memcpy(text, value, strlen(value) + 1);
    return result();
}

int nvmlSystemGetDriverVersion(char *text, unsigned size)
{
    return text_out(text, size, "580.65.06");
}

int nvmlDeviceGetVbiosVersion(void *device, char *text, unsigned size)
{
    (void)device;
    return text_out(text, size, "96.00.B1.00.01");
}

/* ------------------------------------------------------------------ which there are */

/* Whole ones, also that in parts; then the parts. */
static struct fake_gpu whole[FAKE_GPUS_MAX], parts[FAKE_GPUS_MAX];

static unsigned part_count(void)
{
    unsigned count = 0, all = fake_gpus_all(parts);
    while (count < all && parts[count].part >= 0) {
        count++;
    }
    return count;
}

int nvmlDeviceGetCount_v2(unsigned *count)
{
    const char *devices = getenv("FAKE_CUDA_DEVICES");
    *count = devices ? (unsigned)strtoul(devices, NULL, 10) : 1;
    return result();
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device)
{
    whole[index] = (struct fake_gpu){.gpu = index, .part = -1, .last = (unsigned char)index};
    *device = &whole[index];
    return result();
}

int nvmlDeviceGetUUID(void *device, char *text, unsigned size)
{
    char uuid[48];
    fake_gpu_uuid(device, uuid);
    return text_out(text, size, uuid);
}

int nvmlDeviceGetMigMode(void *device, unsigned *now, unsigned *pending)
{
    *now = *pending = device == &whole[0] && part_count() > 0;
    return result();
}

int nvmlDeviceGetMaxMigDeviceCount(void *device, unsigned *count)
{
    (void)device;
    *count = 7;
    return result();
}

int nvmlDeviceGetMigDeviceHandleByIndex(void *device, unsigned index, void **part)
{
    (void)device;
    *part = &parts[index];
    return index < part_count() ? result() : 6; /* NVML_ERROR_NOT_FOUND */
}

int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(void *part, void **device)
{
    (void)part;
    *device = &the_gpu;
    return result();
}
