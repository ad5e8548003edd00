/* A double of NVML: one GPU that draws 350 of 700 W. FAKE_NVML_LIMIT_MW is another limit. */
#include <stdlib.h>
#include <string.h>

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

static int the_gpu;

int nvmlInit_v2(void)
{
    return 0;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, void **device)
{
    *device = &the_gpu;
    return strncmp(uuid, "GPU-", 4) == 0 ? 0 : 6; /* NVML_ERROR_NOT_FOUND */
}

int nvmlDeviceGetClockInfo(void *device, int type, unsigned *mhz)
{
    (void)device;
    *mhz = type == 1 ? 1755 : 3201;
    return 0;
}

int nvmlDeviceGetMaxClockInfo(void *device, int type, unsigned *mhz)
{
    (void)device;
    *mhz = type == 1 ? 1980 : 3201;
    return 0;
}

int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *celsius)
{
    (void)device;
    (void)sensor;
    *celsius = 0; /* a GPU on ice: zero is a temperature, not "unknown" */
    return 0;
}

int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts)
{
    (void)device;
    *milliwatts = 100000;
    return 0;
}

int nvmlDeviceGetEnforcedPowerLimit(void *device, unsigned *milliwatts)
{
    const char *given = getenv("FAKE_NVML_LIMIT_MW");
    (void)device;
    *milliwatts = given ? (unsigned)strtoul(given, NULL, 10) : 700000;
    return 0;
}

int nvmlDeviceGetPowerManagementDefaultLimit(void *device, unsigned *milliwatts)
{
    (void)device;
    *milliwatts = 700000;
    return 0;
}

int nvmlDeviceGetFieldValues(void *device, int count, struct field *fields)
{
    (void)device;
    for (int i = 0; i < count; i++) {
        fields[i].result = fields[i].id == 186 ? 0 : 3; /* NVML_ERROR_NOT_SUPPORTED */
        fields[i].type = 3;                             /* unsigned long long */
        fields[i].value.ull = 350000;
    }
    return 0;
}

int nvmlDeviceGetCurrentClocksEventReasons(void *device, unsigned long long *reasons)
{
    (void)device;
    *reasons = 4; /* the software power cap */
    return 0;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, struct process *list)
{
    (void)device;
    list[0].pid = 4242;
    *count = 1;
    return 0;
}

static int text_out(char *text, unsigned size, const char *value)
{
    if (strlen(value) >= size) {
        return 7; /* NVML_ERROR_INSUFFICIENT_SIZE */
    }
    memcpy(text, value, strlen(value) + 1);
    return 0;
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
