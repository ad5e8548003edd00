/*
 * The CUDA driver, opened at run time: a table of its functions.
 *
 * The same binary runs on a machine without a driver and says so. Each entry is looked up under
 * the name that cuda.h gives it (cuMemAlloc is cuMemAlloc_v2), so that the type of the header and
 * the function of the library cannot part. Needs cuda.h: files of this folder alone include it.
 */
#ifndef GK_WORKER_CUDA_DRIVER_H
#define GK_WORKER_CUDA_DRIVER_H

#include <cuda.h>

#include "core/status.h"

/* Without one of these nothing works. The newest is of CUDA 12.0 (tensor maps).
 * cuEventElapsedTime is looked up apart: its second version does the same and came with 12.8. */
#define GK_CUDA_NEEDED(X)                                                                          \
    X(init, cuInit)                                                                                \
    X(driver_version, cuDriverGetVersion)                                                          \
    X(error_name, cuGetErrorName)                                                                  \
    X(error_text, cuGetErrorString)                                                                \
    X(device_count, cuDeviceGetCount)                                                              \
    X(device_get, cuDeviceGet)                                                                     \
    X(device_name, cuDeviceGetName)                                                                \
    X(device_uuid, cuDeviceGetUuid)                                                                \
    X(device_attribute, cuDeviceGetAttribute)                                                      \
    X(device_memory, cuDeviceTotalMem)                                                             \
    X(context_retain, cuDevicePrimaryCtxRetain)                                                    \
    X(context_release, cuDevicePrimaryCtxRelease)                                                  \
    X(context_set, cuCtxSetCurrent)                                                                \
    X(context_limit, cuCtxSetLimit)                                                                \
    X(l2_reset, cuCtxResetPersistingL2Cache)                                                       \
    X(stream_create, cuStreamCreate)                                                               \
    X(stream_destroy, cuStreamDestroy)                                                             \
    X(stream_query, cuStreamQuery)                                                                 \
    X(capture_begin, cuStreamBeginCapture)                                                         \
    X(capture_end, cuStreamEndCapture)                                                             \
    X(event_create, cuEventCreate)                                                                 \
    X(event_destroy, cuEventDestroy)                                                               \
    X(event_record, cuEventRecord)                                                                 \
    X(event_query, cuEventQuery)                                                                   \
    X(alloc, cuMemAlloc)                                                                           \
    X(release, cuMemFree)                                                                          \
    X(host_alloc, cuMemAllocHost)                                                                  \
    X(host_release, cuMemFreeHost)                                                                 \
    X(copy_in, cuMemcpyHtoDAsync)                                                                  \
    X(copy_out, cuMemcpyDtoHAsync)                                                                 \
    X(copy_within, cuMemcpyDtoDAsync)                                                              \
    X(set8, cuMemsetD8Async)                                                                       \
    X(set16, cuMemsetD16Async)                                                                     \
    X(set32, cuMemsetD32Async)                                                                     \
    X(set32_strided, cuMemsetD2D32Async)                                                           \
    X(range_reserve, cuMemAddressReserve)                                                          \
    X(range_free, cuMemAddressFree)                                                                \
    X(piece_create, cuMemCreate)                                                                   \
    X(piece_release, cuMemRelease)                                                                 \
    X(piece_map, cuMemMap)                                                                         \
    X(piece_unmap, cuMemUnmap)                                                                     \
    X(piece_access, cuMemSetAccess)                                                                \
    X(piece_granularity, cuMemGetAllocationGranularity)                                            \
    X(module_load, cuModuleLoadDataEx)                                                             \
    X(module_unload, cuModuleUnload)                                                               \
    X(module_function, cuModuleGetFunction)                                                        \
    X(function_set, cuFuncSetAttribute)                                                            \
    X(function_get, cuFuncGetAttribute)                                                            \
    X(launch, cuLaunchKernelEx)                                                                    \
    X(graph_instantiate, cuGraphInstantiateWithFlags)                                              \
    X(graph_upload, cuGraphUpload)                                                                 \
    X(graph_launch, cuGraphLaunch)                                                                 \
    X(graph_destroy, cuGraphDestroy)                                                               \
    X(graph_exec_destroy, cuGraphExecDestroy)                                                      \
    X(tensor_map, cuTensorMapEncodeTiled)

/* NULL with an older driver. */
#define GK_CUDA_OPTIONAL(X)                                                                        \
    X(param_info, cuFuncGetParamInfo) /* 12.4 */                                                   \
    X(function_load, cuFuncLoad)      /* 12.4 */

struct gk_cuda_driver {
    void *library;
    int version; /* 1000 * major + 10 * minor of the newest CUDA it knows */
    char path[4096];
#define GK_CUDA_MEMBER(member, symbol) __typeof__(symbol) *member;
    GK_CUDA_NEEDED(GK_CUDA_MEMBER)
    GK_CUDA_OPTIONAL(GK_CUDA_MEMBER)
#undef GK_CUDA_MEMBER
    CUresult (*event_elapsed)(float *ms, CUevent begin, CUevent end);
};

/* Opens path (NULL: libcuda.so.1) and calls cuInit, which makes no context. The table lives as
 * long as the process: the library cannot be closed safely. GK_MISSING: there is no driver;
 * GK_UNSUPPORTED: it lacks a function (named), or has no usable device. */
enum gk_status gk_cuda_driver_open(const char *path, const struct gk_cuda_driver **driver_out,
                                   struct gk_err *err);

/* Fills err with "what: cuFunction: CUDA_ERROR_X: text" and returns status. */
enum gk_status gk_cuda_fail(const struct gk_cuda_driver *driver, enum gk_status status,
                            CUresult result, const char *function, struct gk_err *err,
                            const char *format, ...) __attribute__((format(printf, 6, 7)));

#endif
