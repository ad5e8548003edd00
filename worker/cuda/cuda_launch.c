/*
 * Launches on the CUDA device: what can be known to be impossible is refused with its numbers
 * before the driver is asked, which says no more than "invalid value".
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "worker/cuda/cuda_kernel.h"

#define SMEM_UNASKED     49152u /* dynamic shared memory that needs no permission */
#define CLUSTER_PORTABLE 8u
#define CLUSTER_MAX      16u
#define GRID_X_MAX       0x7fffffffu
#define GRID_YZ_MAX      65535u
#define ATTRIBUTES_MAX   4

static uint64_t volume(const uint32_t sizes[3])
{
    return (uint64_t)sizes[0] * sizes[1] * sizes[2];
}

/* "kernel gemm, grid 4x2x1, block 256x1x1, cluster .., 1024 + 65536 bytes of shared memory" */
static void describe(const struct cuda_kernel *kernel, const struct gk_device_launch *launch,
                     char text[512])
{
    (void)snprintf(text, 512,
                   "kernel %s, grid %" PRIu32 "x%" PRIu32 "x%" PRIu32 ", block %" PRIu32 "x%" PRIu32
                   "x%" PRIu32 ", cluster %" PRIu32 "x%" PRIu32 "x%" PRIu32 ", %d + %" PRIu32
                   " bytes of shared memory, %d registers%s",
                   kernel->name, launch->grid[0], launch->grid[1], launch->grid[2],
                   launch->block[0], launch->block[1], launch->block[2], launch->cluster[0],
                   launch->cluster[1], launch->cluster[2], kernel->static_smem, launch->smem_bytes,
                   kernel->regs, launch->cooperative ? ", cooperative" : "");
}

static bool has_cluster(const struct gk_device_launch *launch)
{
    return volume(launch->cluster) > 1;
}

static enum gk_status check_args(const struct cuda_kernel *kernel,
                                 const struct gk_device_launch *launch, struct gk_err *err)
{
    if (launch->arg_count > GK_LAUNCH_ARGS_MAX) {
        return gk_fail(err, GK_LIMIT, "kernel %s: %" PRIu32 " arguments; %d are allowed",
                       kernel->name, launch->arg_count, GK_LAUNCH_ARGS_MAX);
    }
    if (!kernel->params_known) {
        return GK_OK;
    }
    if (kernel->param_count != launch->arg_count) {
        return gk_fail(err, GK_INPUT, "kernel %s has %" PRIu32 " parameters, args lists %" PRIu32,
                       kernel->name, kernel->param_count, launch->arg_count);
    }
    for (uint32_t i = 0; i < launch->arg_count; i++) {
        if (kernel->param_bytes[i] != launch->args[i].size) {
            return gk_fail(err, GK_INPUT,
                           "kernel %s: parameter %" PRIu32 " has %" PRIu32
                           " bytes, args gives %" PRIu32,
                           kernel->name, i, kernel->param_bytes[i], launch->args[i].size);
        }
    }
    return GK_OK;
}

static enum gk_status check_shape(const struct gk_device_props *props,
                                  const struct cuda_kernel *kernel,
                                  const struct gk_device_launch *launch, const char *what,
                                  struct gk_err *err)
{
    if (volume(launch->grid) == 0 || volume(launch->block) == 0) {
        return gk_fail(err, GK_INPUT, "launch not possible: %s: a size is 0", what);
    }
    if (launch->grid[0] > GRID_X_MAX || launch->grid[1] > GRID_YZ_MAX ||
        launch->grid[2] > GRID_YZ_MAX) {
        return gk_fail(err, GK_LIMIT, "launch not possible: %s: a grid has at most %ux%ux%u blocks",
                       what, GRID_X_MAX, GRID_YZ_MAX, GRID_YZ_MAX);
    }
    if (volume(launch->block) > (uint64_t)kernel->threads_max) {
        return gk_fail(err, GK_LIMIT,
                       "launch not possible: %s: a block of this kernel has at most %d threads",
                       what, kernel->threads_max);
    }
    int64_t smem = (int64_t)kernel->static_smem + launch->smem_bytes;
    if (smem > props->smem_block_max) {
        return gk_fail(err, GK_LIMIT,
                       "launch not possible: %s: a block has at most %" PRId64
                       " bytes of shared memory",
                       what, props->smem_block_max);
    }
    for (uint32_t i = 0; has_cluster(launch) && i < 3; i++) {
        if (launch->grid[i] % launch->cluster[i] != 0) {
            return gk_fail(err, GK_INPUT,
                           "launch not possible: %s: the grid is no multiple of the cluster", what);
        }
    }
    uint32_t blocks_max = props->sm < 90                ? 1
                          : launch->nonportable_cluster ? CLUSTER_MAX
                                                        : CLUSTER_PORTABLE;
    if (volume(launch->cluster) > blocks_max) {
        return gk_fail(err, GK_LIMIT,
                       "launch not possible: %s: a cluster has at most %" PRIu32 " blocks here",
                       what, blocks_max);
    }
    return GK_OK;
}

/* Permissions and preferences that belong to the kernel, not to the launch. */
static CUresult prepare(struct cuda_device *device, struct cuda_kernel *kernel,
                        const struct gk_device_launch *launch)
{
    const struct gk_cuda_driver *driver = device->driver;
    CUresult result = CUDA_SUCCESS;
    if (launch->smem_bytes > SMEM_UNASKED && launch->smem_bytes > kernel->smem_allowed) {
        result =
            driver->function_set(kernel->function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                 (int)launch->smem_bytes);
        kernel->smem_allowed = result == CUDA_SUCCESS ? launch->smem_bytes : kernel->smem_allowed;
    }
    if (result == CUDA_SUCCESS && launch->carveout != kernel->carveout) {
        result = driver->function_set(
            kernel->function, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, launch->carveout);
        kernel->carveout = launch->carveout;
    }
    if (result == CUDA_SUCCESS && launch->nonportable_cluster && !kernel->nonportable) {
        result = driver->function_set(kernel->function,
                                      CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1);
        kernel->nonportable = result == CUDA_SUCCESS;
    }
    return result;
}

/* A window that persists needs a share of the L2; it is taken when the first one comes, since it
 * is lost to everything else from then on. */
static enum gk_status set_window(struct cuda_device *device, const struct gk_device_launch *launch,
                                 CUaccessPolicyWindow *window_out, struct gk_err *err)
{
    static const CUaccessProperty properties[] = {
        [GK_DEVICE_L2_PERSISTING] = CU_ACCESS_PROPERTY_PERSISTING,
        [GK_DEVICE_L2_STREAMING] = CU_ACCESS_PROPERTY_STREAMING,
        [GK_DEVICE_L2_NORMAL] = CU_ACCESS_PROPERTY_NORMAL,
    };
    const struct gk_cuda_driver *driver = device->driver;
    int bytes_max = 0, share = 0;
    (void)driver->device_attribute(&bytes_max, CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE,
                                   device->device);
    if (launch->l2_window.bytes > (uint64_t)bytes_max) {
        return gk_fail(err, GK_LIMIT,
                       "launch not possible: an L2 window of %" PRIu64
                       " bytes; device %s allows %d",
                       launch->l2_window.bytes, device->base.props.device, bytes_max);
    }
    bool persists = launch->l2_window.policy == GK_DEVICE_L2_PERSISTING;
    if (persists && !device->has_l2_share) {
        (void)driver->device_attribute(&share, CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE,
                                       device->device);
        CUresult result = driver->context_limit(CU_LIMIT_PERSISTING_L2_CACHE_SIZE, (size_t)share);
        if (result != CUDA_SUCCESS) {
            return cuda_result(device, result, "cuCtxSetLimit", err, "%d bytes of the L2 aside",
                               share);
        }
        device->has_l2_share = true;
    }
    *window_out = (CUaccessPolicyWindow){
        .base_ptr = (void *)(uintptr_t)launch->l2_window.address,
        .num_bytes = (size_t)launch->l2_window.bytes,
        .hitRatio = (float)launch->l2_window.hit_ratio,
        .hitProp = properties[launch->l2_window.policy],
        .missProp = persists ? CU_ACCESS_PROPERTY_STREAMING : CU_ACCESS_PROPERTY_NORMAL,
    };
    return GK_OK;
}

static enum gk_status set_attributes(struct cuda_device *device,
                                     const struct gk_device_launch *launch,
                                     CUlaunchAttribute attributes[ATTRIBUTES_MAX],
                                     CUlaunchConfig *config, struct gk_err *err)
{
    uint32_t count = 0;
    if (has_cluster(launch)) {
        CUlaunchAttribute *cluster = &attributes[count++];
        cluster->id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
        cluster->value.clusterDim.x = launch->cluster[0];
        cluster->value.clusterDim.y = launch->cluster[1];
        cluster->value.clusterDim.z = launch->cluster[2];
    }
    if (launch->cooperative) {
        attributes[count].id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
        attributes[count++].value.cooperative = 1;
    }
    /* With no kernel ahead there is nothing that the start could overlap. */
    bool follows = device->record == CUDA_RECORD_OPEN || device->record == CUDA_RECORD_STREAM;
    if (launch->pdl && follows && device->after_kernel) {
        attributes[count].id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
        attributes[count++].value.programmaticStreamSerializationAllowed = 1;
    }
    if (launch->l2_window.bytes > 0) {
        attributes[count].id = CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW;
        enum gk_status status =
            set_window(device, launch, &attributes[count++].value.accessPolicyWindow, err);
        if (status != GK_OK) {
            return status;
        }
    }
    config->attrs = attributes;
    config->numAttrs = count;
    return GK_OK;
}

/* The driver's refusal of a launch: nothing ran, the context goes on. */
static enum gk_status refused(struct cuda_device *device, CUresult result, const char *function,
                              const char *what, struct gk_err *err)
{
    switch (result) {
    case CUDA_ERROR_INVALID_VALUE:
    case CUDA_ERROR_INVALID_HANDLE:
        return gk_cuda_fail(device->driver, GK_INPUT, result, function, err,
                            "launch not possible: %s", what);
    case CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES:
    case CUDA_ERROR_INVALID_CLUSTER_SIZE:
    case CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE:
    case CUDA_ERROR_NOT_SUPPORTED:
    case CUDA_ERROR_OUT_OF_MEMORY:
        return gk_cuda_fail(device->driver, GK_LIMIT, result, function, err,
                            "launch not possible: %s", what);
    default:
        return cuda_result(device, result, function, err, "launch of %s", what);
    }
}

static enum gk_status put(struct cuda_device *device, struct cuda_kernel *kernel,
                          const struct gk_device_launch *launch, const char *what,
                          struct gk_err *err)
{
    const struct gk_cuda_driver *driver = device->driver;
    CUlaunchAttribute attributes[ATTRIBUTES_MAX] = {0};
    CUlaunchConfig config = {
        .gridDimX = launch->grid[0],
        .gridDimY = launch->grid[1],
        .gridDimZ = launch->grid[2],
        .blockDimX = launch->block[0],
        .blockDimY = launch->block[1],
        .blockDimZ = launch->block[2],
        .sharedMemBytes = launch->smem_bytes,
        .hStream = device->stream,
    };
    /* Tensor maps want 64 bytes of alignment wherever they are read from. */
    _Alignas(64) unsigned char values[GK_LAUNCH_ARGS_MAX][sizeof launch->args[0].bytes];
    void *params[GK_LAUNCH_ARGS_MAX + 1] = {0};
    for (uint32_t i = 0; i < launch->arg_count; i++) {
        memcpy(values[i], launch->args[i].bytes, sizeof values[i]);
        params[i] = values[i];
    }
    enum gk_status status = set_attributes(device, launch, attributes, &config, err);
    if (status != GK_OK) {
        return status;
    }
    CUresult result = prepare(device, kernel, launch);
    if (result != CUDA_SUCCESS) {
        return refused(device, result, "cuFuncSetAttribute", what, err);
    }
    if (device->record == CUDA_RECORD_NONE) {
        result = driver->event_record(device->begin, device->stream);
    }
    if (result == CUDA_SUCCESS) {
        result = driver->launch(&config, kernel->function, params, NULL);
    }
    return result == CUDA_SUCCESS ? GK_OK : refused(device, result, "cuLaunchKernelEx", what, err);
}

enum gk_status cuda_launch(struct gk_device *base, struct gk_device_kernel *opaque,
                           const struct gk_device_launch *launch,
                           struct gk_device_report *report_out, struct gk_err *err)
{
    struct cuda_device *device = cuda_of(base);
    struct cuda_kernel *kernel = (struct cuda_kernel *)opaque;
    struct gk_err own = {0};
    char what[512];
    if (device->record == CUDA_RECORD_STREAM) { /* where every microsecond counts */
        (void)snprintf(what, sizeof what, "kernel %s", kernel->name);
    } else {
        describe(kernel, launch, what);
    }
    enum gk_status status = cuda_ready(device, "launch", &own);
    if (status == GK_OK && device->record == CUDA_RECORD_FAILED) {
        status = gk_fail(&own, GK_USAGE, "launch: the recording has failed: %s",
                         device->record_err.text);
    }
    status = status == GK_OK ? check_args(kernel, launch, &own) : status;
    status = status == GK_OK ? check_shape(&base->props, kernel, launch, what, &own) : status;
    status = status == GK_OK ? put(device, kernel, launch, what, &own) : status;
    if (status != GK_OK) {
        cuda_record_fail(device, &own);
        if (err) {
            *err = own;
        }
        return status;
    }
    if (device->record != CUDA_RECORD_NONE) {
        device->after_kernel = true;
        memset(report_out, 0, sizeof *report_out);
        return GK_OK;
    }
    return cuda_report(device, cuda_wait_end(device), what, report_out, err);
}
