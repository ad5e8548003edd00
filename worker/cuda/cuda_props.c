/*
 * Properties of CUDA devices: from the driver's attributes, and from NVML where that is there.
 */
#include "worker/cuda/cuda_props.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/cuda/device_cuda.h"

/*
 * Dense bf16 operations a clock and SM, and the fastest memory of a product of the family, in MB/s.
 * Rates are the makers' peaks divided by SMs and boost clock (2 operations a multiply-add):
 *     8.0  A100      312 TFLOP/s / 108 / 1.41 GHz = 2048      8.9  L40S  362 / 142 / 2.52 = 1024
 *     8.6  A10       125 TFLOP/s /  72 / 1.70 GHz = 1024      9.0  H100  989 / 132 / 1.83 = 4096
 *     10.x B200     2250 TFLOP/s / 148 / 1.85 GHz = 8192      12.x RTX PRO 6000  504 / 188 / 2.62 =
 * 1024 They are upper bounds of what is possible (a GeForce does half): a time below them is
 * refused.
 */
struct family {
    int64_t sm, tensor_flops, memory_rate;
};

static const struct family families[] = {
    {80, 2048, 2039000}, {86, 1024, 1008000},  {87, 2048, 205000},   {89, 1024, 1008000},
    {90, 4096, 4900000}, {100, 8192, 8000000}, {103, 8192, 8000000}, {120, 1024, 1792000},
};

static const struct family newest = {0, 8192, 8000000}; /* of what is not in the list */

static const struct family *family_of(int64_t sm)
{
    for (size_t i = 0; i < GK_ARRAY_COUNT(families); i++) {
        if (families[i].sm == sm) {
            return &families[i];
        }
    }
    return &newest;
}

/* ------------------------------------------------------------------ one device */

static enum gk_status read_attributes(const struct gk_cuda_driver *driver, CUdevice device,
                                      struct gk_device_props *props, struct gk_err *err)
{
    int64_t major = 0, minor = 0;
    const struct {
        CUdevice_attribute attribute;
        int64_t *value;
    } wanted[] = {
        {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &major},
        {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &minor},
        {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &props->sms},
        {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, &props->smem_block_max},
        {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, &props->smem_sm},
        {CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK, &props->smem_block_reserved},
        {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, &props->regs_sm},
        {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, &props->regs_block_max},
        {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, &props->threads_sm},
        {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, &props->threads_block_max},
        {CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, &props->blocks_sm},
        {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, &props->l2_bytes},
        {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, &props->clock_khz},
    };
    for (size_t i = 0; i < GK_ARRAY_COUNT(wanted); i++) {
        int value = 0;
        CUresult result = driver->device_attribute(&value, wanted[i].attribute, device);
        if (result != CUDA_SUCCESS) {
            return gk_cuda_fail(driver, GK_UNSUPPORTED, result, "cuDeviceGetAttribute", err,
                                "attribute %d of device %d", (int)wanted[i].attribute, device);
        }
        *wanted[i].value = value;
    }
    props->sm = 10 * major + minor;
    props->cluster_max = major >= 9 ? 8 : 1; /* portable; more needs the kernel's permission */
    return GK_OK;
}

static void set_uuid(const struct gk_cuda_driver *driver, CUdevice device, bool is_mig,
                     struct gk_device_props *props)
{
    CUuuid uuid;
    char hex[33];
    if (driver->device_uuid(&uuid, device) != CUDA_SUCCESS) {
        return;
    }
    for (size_t i = 0; i < 16; i++) {
        (void)snprintf(hex + 2 * i, 3, "%02x", (unsigned)(unsigned char)uuid.bytes[i]);
    }
    (void)snprintf(props->uuid, sizeof props->uuid, "%s-%.8s-%.4s-%.4s-%.4s-%.12s",
                   is_mig ? "MIG" : "GPU", hex, hex + 8, hex + 12, hex + 16, hex + 20);
}

static void set_rates(const struct gk_cuda_driver *driver, CUdevice device,
                      const struct gk_nvml_about *about, struct gk_device_props *props)
{
    const struct family *family = family_of(props->sm);
    int clock_khz = 0, width_bits = 0;
    (void)driver->device_attribute(&clock_khz, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, device);
    (void)driver->device_attribute(&width_bits, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH,
                                   device);
    int64_t memory_khz = clock_khz > 0 ? clock_khz : about->memory_clock_max_khz;
    int64_t bus_bits = width_bits > 0 ? width_bits : about->bus_width_bits;
    /* Both edges of the clock; a driver that does not tell (some virtual GPUs) gets the family's
     * fastest, so that no honest time is refused. */
    props->mem_bytes_per_us = memory_khz > 0 && bus_bits > 0
                                  ? 2 * memory_khz * (bus_bits / 8) / 1000
                                  : family->memory_rate;
    props->tensor_flops_per_clk_sm = family->tensor_flops;
    if (about->sm_clock_max_khz > props->clock_khz) {
        props->clock_khz = about->sm_clock_max_khz;
    }
    if (props->clock_khz <= 0) {
        props->clock_khz = 3000000; /* above all so far, for the same reason */
    }
}

static enum gk_status describe(const struct gk_cuda_driver *driver,
                               const struct gk_device_places *places, CUdevice device,
                               struct gk_device_props *props_out, struct gk_err *err)
{
    struct gk_device_props props = {.work_limit = INT64_MAX};
    struct gk_nvml *nvml = NULL;
    struct gk_nvml_about about;
    size_t bytes = 0;
    enum gk_status status = read_attributes(driver, device, &props, err);
    CUresult result = CUDA_SUCCESS;
    if (status == GK_OK) {
        result = driver->device_name(props.name, (int)sizeof props.name, device);
    }
    if (status == GK_OK && result == CUDA_SUCCESS) {
        result = driver->device_memory(&bytes, device);
    }
    if (status == GK_OK && result != CUDA_SUCCESS) {
        status = gk_cuda_fail(driver, GK_UNSUPPORTED, result, "cuDeviceTotalMem", err, "device %d",
                              device);
    }
    if (status != GK_OK) {
        return status;
    }
    props.mem_bytes = (int64_t)bytes;
    set_uuid(driver, device, strstr(props.name, " MIG ") != NULL, &props);
    (void)gk_nvml_open(places->nvml, props.uuid, &nvml, NULL); /* without it less is known */
    gk_nvml_about(nvml, &about);
    gk_nvml_close(nvml);
    set_rates(driver, device, &about, &props);
    (void)snprintf(props.device, sizeof props.device, "cuda:%.58s", props.uuid);
    (void)snprintf(props.target, sizeof props.target, "sm_%" PRId64 "%s", props.sm,
                   props.sm >= 90 ? "a" : "");
    (void)snprintf(props.arch, sizeof props.arch, "%s", props.target);
    gk_cuda_gpu_key(props.name, props.sms, props.mem_bytes, about.power_limit_mw,
                    about.power_default_mw, props.gpu);
    *props_out = props;
    return GK_OK;
}

/* ------------------------------------------------------------------ which one */

static enum gk_status read_index(const char *text, int count, int *index_out, struct gk_err *err)
{
    char *end = NULL;
    long index = strtol(text, &end, 10);
    if (end == text || *end != '\0' || index < 0 || index >= count) {
        return gk_fail(err, GK_NOT_FOUND, "device cuda:%s: this machine has cuda:0 to cuda:%d",
                       text, count - 1);
    }
    *index_out = (int)index;
    return GK_OK;
}

static enum gk_status by_uuid(const struct gk_cuda_driver *driver,
                              const struct gk_device_places *places, const char *uuid, int count,
                              CUdevice *device_out, struct gk_device_props *props_out,
                              struct gk_err *err)
{
    for (int i = 0; i < count; i++) {
        struct gk_device_props props = {0};
        CUdevice device = 0;
        char name[sizeof props.name] = "";
        if (driver->device_get(&device, i) != CUDA_SUCCESS ||
            driver->device_name(name, (int)sizeof name, device) != CUDA_SUCCESS) {
            continue;
        }
        set_uuid(driver, device, strstr(name, " MIG ") != NULL, &props);
        if (strcmp(props.uuid, uuid) == 0) {
            *device_out = device;
            return describe(driver, places, device, props_out, err);
        }
    }
    return gk_fail(err, GK_NOT_FOUND,
                   "device cuda:%s: none of this machine's %d CUDA device%s has that UUID", uuid,
                   count, count == 1 ? "" : "s");
}

enum gk_status cuda_props_find(const struct gk_cuda_driver *driver,
                               const struct gk_device_places *places, const char *name,
                               CUdevice *device_out, struct gk_device_props *props_out,
                               struct gk_err *err)
{
    const char *which = strchr(name, ':');
    int count = 0, index = 0;
    CUdevice device = 0;
    CUresult result = driver->device_count(&count);
    if (result != CUDA_SUCCESS) {
        return gk_cuda_fail(driver, GK_UNSUPPORTED, result, "cuDeviceGetCount", err, "device %s",
                            name);
    }
    which = which ? which + 1 : "0";
    if (strncmp(which, "GPU-", 4) == 0 || strncmp(which, "MIG-", 4) == 0) {
        return by_uuid(driver, places, which, count, device_out, props_out, err);
    }
    enum gk_status status = read_index(which, count, &index, err);
    if (status != GK_OK) {
        return status;
    }
    result = driver->device_get(&device, index);
    if (result != CUDA_SUCCESS) {
        return gk_cuda_fail(driver, GK_UNSUPPORTED, result, "cuDeviceGet", err, "device %s", name);
    }
    *device_out = device;
    return describe(driver, places, device, props_out, err);
}

/* ------------------------------------------------------------------ for the rest of the worker */

enum gk_status gk_device_cuda_describe(const struct gk_device_places *places, const char *name,
                                       struct gk_device_props *props_out, struct gk_err *err)
{
    const struct gk_cuda_driver *driver = NULL;
    CUdevice device = 0;
    enum gk_status status = gk_cuda_driver_open(places->cuda, &driver, err);
    return status == GK_OK ? cuda_props_find(driver, places, name, &device, props_out, err)
                           : gk_fail_in(err, status, "device %s", name);
}

enum gk_status gk_device_cuda_list(const struct gk_device_places *places,
                                   struct gk_device_props *props_out, uint32_t max,
                                   uint32_t *count_out, struct gk_err *err)
{
    const struct gk_cuda_driver *driver = NULL;
    int count = 0;
    enum gk_status status = gk_cuda_driver_open(places->cuda, &driver, err);
    if (status != GK_OK) {
        return status;
    }
    (void)driver->device_count(&count); /* opening has asked it already */
    uint32_t written = 0;
    for (int i = 0; i < count && written < max && status == GK_OK; i++) {
        CUdevice device = 0;
        char name[24];
        (void)snprintf(name, sizeof name, "cuda:%d", i);
        status = cuda_props_find(driver, places, name, &device, &props_out[written++], err);
    }
    if (status == GK_OK) {
        *count_out = written;
    }
    return status;
}

enum gk_status gk_device_cuda_driver_about(const struct gk_device_places *places,
                                           int64_t *version_out, char path_out[4096],
                                           struct gk_err *err)
{
    const struct gk_cuda_driver *driver = NULL;
    enum gk_status status = gk_cuda_driver_open(places->cuda, &driver, err);
    if (status == GK_OK) {
        *version_out = driver->version;
        memcpy(path_out, driver->path, sizeof driver->path);
    }
    return status;
}
