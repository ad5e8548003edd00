/* A double of the CUDA driver: see fake_cuda.h. */
#include "tests/support/fake_cuda.h"
#include "tests/support/fake_gpus.h"

#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define GRANULARITY ((size_t)2 << 20)
#define KERNELS_MAX 16
#define PARAMS_MAX  48
#define OPS_MAX     256
#define OWNED_MAX   4096
#define KERNEL_NS   1000

#define FRESH                                                                                      \
    {                                                                                              \
        .device_count = 1, .name = "NVIDIA H200", .major = 9, .sms = 132,                          \
        .mem_bytes = UINT64_C(150754820096), .alloc_limit = UINT64_C(1) << 30                      \
    }
static const struct fake_cuda fresh = FRESH;
struct fake_cuda fake_cuda = FRESH;

struct CUfunc_st {
    char name[32];
    uint32_t params[PARAMS_MAX], param_count;
};

struct CUmod_st {
    bool any; /* a cubin: it has every kernel that is asked for, and none does anything */
    struct CUfunc_st kernels[KERNELS_MAX];
    uint32_t count;
};

struct op { /* one piece of work in a stream */
    enum { OP_KERNEL, OP_COPY, OP_SET, OP_SET_STRIDED } kind;
    const struct CUfunc_st *function;
    unsigned char params[PARAMS_MAX][128];
    unsigned char *to;
    const unsigned char *from;
    size_t size, pitch;
    uint32_t unit, value;
};

struct CUgraph_st {
    struct op *ops[OPS_MAX];
    uint32_t count;
};

struct CUgraphExec_st {
    struct CUgraph_st graph;
};

struct CUevent_st {
    uint64_t ns;
    bool recorded, late; /* late: behind what never ends */
};

static struct CUstream_st {
    struct CUgraph_st *capture;
} the_stream;

static CUresult sticky;
static bool hanging;
static uint64_t now_ns = 1;

/* What the driver's user does not give back, as of a lost device, ends with its context. */
static void *owned[OWNED_MAX];
static uint32_t owned_count;

static void *own(void *block)
{
    if (owned_count == OWNED_MAX) {
        free(block);
        return NULL;
    }
    if (block) {
        owned[owned_count++] = block;
    }
    return block;
}

static void disown(void *block)
{
    for (uint32_t i = 0; i < owned_count; i++) {
        if (owned[i] == block) {
            owned[i] = owned[--owned_count];
            free(block);
            return;
        }
    }
    abort(); /* freed twice, or never allocated */
}

void fake_cuda_reset(void)
{
    while (owned_count > 0) {
        free(owned[--owned_count]);
    }
    the_stream.capture = NULL;
    sticky = CUDA_SUCCESS;
    hanging = false;
    fake_cuda = fresh;
}

/* Every function begins with this. */
static CUresult enter(void)
{
    fake_cuda.calls++;
    if (fake_cuda.fail_in > 0 && --fake_cuda.fail_in == 0) {
        return (CUresult)fake_cuda.fail_with;
    }
    return sticky;
}

#define ENTER()                                                                                    \
    do {                                                                                           \
        CUresult entered = enter();                                                                \
        if (entered != CUDA_SUCCESS) {                                                             \
            return entered;                                                                        \
        }                                                                                          \
    } while (0)

/* ------------------------------------------------------------------ work */

static void run_kernel(const struct op *op)
{
    static const struct {
        const char *name;
        CUresult result;
    } ends[] = {
        {"oob", CUDA_ERROR_ILLEGAL_ADDRESS},         {"misaligned", CUDA_ERROR_MISALIGNED_ADDRESS},
        {"trap", CUDA_ERROR_LAUNCH_FAILED},          {"assert", CUDA_ERROR_ASSERT},
        {"illegal", CUDA_ERROR_ILLEGAL_INSTRUCTION}, {"ecc", CUDA_ERROR_ECC_UNCORRECTABLE},
    };
    unsigned char *at = NULL;
    memcpy(&at, op->params[0], sizeof at);
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        if (strcmp(op->function->name, ends[i].name) == 0) {
            sticky = ends[i].result;
        }
    }
    hanging = hanging || strcmp(op->function->name, "hang") == 0;
    if (strcmp(op->function->name, "add1") == 0) {
        uint32_t count = 0;
        memcpy(&count, op->params[1], sizeof count);
        for (uint32_t i = 0; i < count; i++) {
            at[i]++;
        }
    }
    if (strcmp(op->function->name, "touch") == 0) {
        (void)*(volatile unsigned char *)at;
    }
    now_ns += KERNEL_NS;
}

static void run(const struct op *op)
{
    if (op->kind == OP_KERNEL) {
        run_kernel(op);
    } else if (op->kind == OP_COPY) {
        memcpy(op->to, op->from, op->size);
    } else {
        size_t step = op->kind == OP_SET ? op->unit : op->pitch;
        for (size_t i = 0; i < op->size; i++) {
            memcpy(op->to + i * step, &op->value, op->unit);
        }
    }
}

static CUresult put(const struct op *op)
{
    struct CUgraph_st *graph = the_stream.capture;
    if (!graph) {
        run(op);
        return CUDA_SUCCESS; /* what went wrong is told by the next call, as the driver does */
    }
    struct op *copy = graph->count < OPS_MAX ? own(malloc(sizeof *copy)) : NULL;
    if (!copy) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *copy = *op;
    graph->ops[graph->count++] = copy;
    return CUDA_SUCCESS;
}

static void free_ops(struct CUgraph_st *graph)
{
    for (uint32_t i = 0; i < graph->count; i++) {
        disown(graph->ops[i]);
    }
}

/* ------------------------------------------------------------------ start and devices */

/* What the environment says that there is; tests in one process say it in fake_cuda instead. */
static struct fake_gpu gpus[FAKE_GPUS_MAX];
static bool mapped;

CUresult cuInit(unsigned flags)
{
    (void)flags;
    ENTER();
    mapped =
        getenv("FAKE_CUDA_DEVICES") || getenv("FAKE_CUDA_MIG") || getenv("CUDA_VISIBLE_DEVICES");
    if (mapped) {
        fake_cuda.device_count = (int)fake_gpus_visible(gpus);
    }
    return fake_cuda.device_count > 0 ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}

CUresult cuDriverGetVersion(int *version)
{
    *version = 13000;
    return enter();
}

CUresult cuGetErrorName(CUresult error, const char **text)
{
    static const struct {
        CUresult result;
        const char *name;
    } names[] = {
        {CUDA_ERROR_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS"},
        {CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"},
        {CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE"},
        {CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND"},
        {CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"},
    };
    *text = "CUDA_ERROR_OTHER";
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        *text = names[i].result == error ? names[i].name : *text;
    }
    return CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult error, const char **text)
{
    (void)error;
    *text = "the fake's text";
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *count)
{
    ENTER();
    *count = fake_cuda.device_count;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    ENTER();
    *device = ordinal;
    return ordinal < fake_cuda.device_count ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceGetName(char *name, int size, CUdevice device)
{
    ENTER();
    bool part = mapped && gpus[device].part >= 0;
    (void)snprintf(name, (size_t)size, "%s%s%s", fake_cuda.name, part ? " MIG " : "",
                   part ? gpus[device].profile : "");
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
    ENTER();
    for (int i = 0; i < 16; i++) {
        uuid->bytes[i] = (char)(i * 17);
    }
    uuid->bytes[15] = (char)(mapped ? gpus[device].last : device);
    return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem(size_t *bytes, CUdevice device)
{
    (void)device;
    ENTER();
    *bytes = fake_cuda.mem_bytes;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    const struct {
        CUdevice_attribute attribute;
        int value;
    } values[] = {
        {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, fake_cuda.major},
        {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0},
        {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
         mapped && gpus[device].part >= 0 ? 16 * (gpus[device].profile[0] - '0') : fake_cuda.sms},
        {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 232448},
        {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 233472},
        {CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK, 1024},
        {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, 65536},
        {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 65536},
        {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 2048},
        {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
        {CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, 32},
        {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 62914560},
        {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1980000},
        {CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 3201000},
        {CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 6144},
        {CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE, 1 << 20},
        {CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE, 1 << 19},
    };
    ENTER();
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        if (values[i].attribute == attribute) {
            *value = values[i].value;
            return CUDA_SUCCESS;
        }
    }
    return CUDA_ERROR_INVALID_VALUE;
}

/* ------------------------------------------------------------------ context, stream, events */

/* Whether the digit of the device, by the last byte of its UUID, stands in the file that
 * FAKE_CUDA_BROKEN names, now. */
static bool is_broken(CUdevice device)
{
    const char *path = getenv("FAKE_CUDA_BROKEN");
    FILE *file = path ? fopen(path, "re") : NULL;
    bool broken = false;
    for (int c; file && (c = getc(file)) != EOF;) {
        broken = broken || c == '0' + (mapped ? gpus[device].last : device);
    }
    if (file) {
        (void)fclose(file); /* it was only read */
    }
    return broken;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    ENTER();
    if (is_broken(device)) {
        return CUDA_ERROR_ECC_UNCORRECTABLE;
    }
    *context = (CUcontext)(void *)&the_stream;
    fake_cuda.contexts++;
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device)
{
    (void)device;
    ENTER();
    fake_cuda.contexts--;
    return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context)
{
    (void)context;
    return enter();
}

CUresult cuCtxSetLimit(CUlimit limit, size_t value)
{
    ENTER();
    fake_cuda.l2_share = limit == CU_LIMIT_PERSISTING_L2_CACHE_SIZE ? value : fake_cuda.l2_share;
    return CUDA_SUCCESS;
}

CUresult cuCtxResetPersistingL2Cache(void)
{
    ENTER();
    fake_cuda.l2_resets++;
    return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream *stream, unsigned flags)
{
    ENTER();
    *stream = &the_stream;
    fake_cuda.streams++;
    return flags == CU_STREAM_NON_BLOCKING ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuStreamDestroy(CUstream stream)
{
    (void)stream;
    ENTER();
    fake_cuda.streams--;
    return CUDA_SUCCESS;
}

CUresult cuStreamQuery(CUstream stream)
{
    (void)stream;
    ENTER();
    return hanging ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

CUresult cuEventCreate(CUevent *event, unsigned flags)
{
    (void)flags;
    ENTER();
    *event = own(calloc(1, sizeof **event));
    fake_cuda.events++;
    return *event ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuEventDestroy(CUevent event)
{
    ENTER();
    disown(event);
    fake_cuda.events--;
    return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent event, CUstream stream)
{
    (void)stream;
    ENTER();
    if (the_stream.capture) {
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED; /* nobody may ask for that while recording */
    }
    *event = (struct CUevent_st){.ns = now_ns, .recorded = true, .late = hanging};
    return CUDA_SUCCESS;
}

CUresult cuEventQuery(CUevent event)
{
    ENTER();
    return event->late ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

#undef cuEventElapsedTime /* the first version, which the header no longer names */
CUresult cuEventElapsedTime(float *ms, CUevent begin, CUevent end);

CUresult cuEventElapsedTime(float *ms, CUevent begin, CUevent end)
{
    ENTER();
    *ms = (float)(end->ns - begin->ns) / 1e6f;
    return begin->recorded && end->recorded ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

/* ------------------------------------------------------------------ memory */

CUresult cuMemAlloc(CUdeviceptr *address, size_t bytes)
{
    ENTER();
    if (bytes == 0 || bytes > fake_cuda.alloc_limit) {
        return bytes ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
    }
    /* An odd multiple of 256, so that whoever wants more has to see to it. */
    unsigned char *block = own(aligned_alloc(512, (bytes + 256 + 511) / 512 * 512));
    *address = block ? (CUdeviceptr)(uintptr_t)(block + 256) : 0;
    fake_cuda.allocations++;
    return block ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemFree(CUdeviceptr address)
{
    ENTER();
    disown((unsigned char *)(uintptr_t)address - 256);
    fake_cuda.allocations--;
    return CUDA_SUCCESS;
}

CUresult cuMemAllocHost(void **address, size_t bytes)
{
    ENTER();
    *address = own(malloc(bytes));
    fake_cuda.pinned++;
    return *address ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemFreeHost(void *address)
{
    ENTER();
    disown(address);
    fake_cuda.pinned--;
    return CUDA_SUCCESS;
}

static CUresult put_copy(void *to, const void *from, size_t size)
{
    ENTER();
    fake_cuda.copies++;
    struct op op = {.kind = OP_COPY, .to = to, .from = from, .size = size};
    return put(&op);
}

CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t size, CUstream stream)
{
    (void)stream;
    return put_copy((void *)(uintptr_t)to, from, size);
}

CUresult cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t size, CUstream stream)
{
    (void)stream;
    return put_copy(to, (const void *)(uintptr_t)from, size);
}

CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream)
{
    (void)stream;
    return put_copy((void *)(uintptr_t)to, (const void *)(uintptr_t)from, size);
}

static CUresult put_set(CUdeviceptr to, size_t pitch, uint32_t unit, uint32_t value, size_t count)
{
    ENTER();
    if (count == 0 || to % unit != 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    fake_cuda.sets++;
    struct op op = {.kind = pitch ? OP_SET_STRIDED : OP_SET,
                    .to = (unsigned char *)(uintptr_t)to,
                    .size = count,
                    .pitch = pitch,
                    .unit = unit,
                    .value = value};
    return put(&op);
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream)
{
    (void)stream;
    return put_set(to, 0, 1, value, count);
}

CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count, CUstream stream)
{
    (void)stream;
    return put_set(to, 0, 2, value, count);
}

CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream stream)
{
    (void)stream;
    return put_set(to, 0, 4, value, count);
}

CUresult cuMemsetD2D32Async(CUdeviceptr to, size_t pitch, unsigned value, size_t width,
                            size_t height, CUstream stream)
{
    (void)stream;
    return width == 1 && pitch >= 4 ? put_set(to, pitch, 4, value, height)
                                    : CUDA_ERROR_INVALID_VALUE;
}

/* ------------------------------------------------------------------ memory in pieces */

CUresult cuMemGetAllocationGranularity(size_t *unit, const CUmemAllocationProp *props,
                                       CUmemAllocationGranularity_flags flags)
{
    (void)flags;
    ENTER();
    *unit = GRANULARITY;
    return props->type == CU_MEM_ALLOCATION_TYPE_PINNED ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemAddressReserve(CUdeviceptr *address, size_t size, size_t align, CUdeviceptr wish,
                             unsigned long long flags)
{
    (void)align;
    (void)wish;
    (void)flags;
    ENTER();
    void *range = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (size % GRANULARITY != 0 || range == MAP_FAILED) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *address = (CUdeviceptr)(uintptr_t)range;
    fake_cuda.reserved++;
    return CUDA_SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr address, size_t size)
{
    ENTER();
    fake_cuda.reserved--;
    return munmap((void *)(uintptr_t)address, size) == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *piece, size_t size,
                     const CUmemAllocationProp *props, unsigned long long flags)
{
    (void)props;
    (void)flags;
    ENTER();
    int fd = memfd_create("fake_cuda", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t)size) != 0) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *piece = (CUmemGenericAllocationHandle)fd;
    fake_cuda.pieces++;
    return CUDA_SUCCESS;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle piece)
{
    ENTER();
    fake_cuda.pieces--;
    return close((int)piece) == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemMap(CUdeviceptr address, size_t size, size_t offset,
                  CUmemGenericAllocationHandle piece, unsigned long long flags)
{
    (void)flags;
    ENTER();
    void *range = mmap((void *)(uintptr_t)address, size, PROT_NONE, MAP_SHARED | MAP_FIXED,
                       (int)piece, (off_t)offset);
    return range == MAP_FAILED ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuMemUnmap(CUdeviceptr address, size_t size)
{
    ENTER();
    void *range = mmap((void *)(uintptr_t)address, size, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    return range == MAP_FAILED ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuMemSetAccess(CUdeviceptr address, size_t size, const CUmemAccessDesc *access,
                        size_t count)
{
    ENTER();
    bool right = count == 1 && access->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    return right && mprotect((void *)(uintptr_t)address, size, PROT_READ | PROT_WRITE) == 0
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
}

/* ------------------------------------------------------------------ modules */

static const char *read_kernel(const char *at, struct CUfunc_st *function)
{
    size_t size = strcspn(at, "(");
    if (at[size] != '(' || size >= sizeof function->name) {
        return NULL;
    }
    memcpy(function->name, at, size);
    at += size + 1;
    while (*at && *at != ')' && function->param_count < PARAMS_MAX) {
        char *end = NULL;
        function->params[function->param_count++] = (uint32_t)strtoul(at, &end, 10);
        at = *end == ',' ? end + 1 : end;
    }
    return *at == ')' ? at + 1 : NULL;
}

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned count,
                            CUjit_option *options, void **values)
{
    const char *at = image;
    ENTER();
    bool any = getenv("FAKE_CUDA_BROKEN") && memcmp(at, "\177ELF", 4) == 0;
    if (!any && strncmp(at, "fake", 4) != 0) {
        if (count == 2 && options[0] == CU_JIT_ERROR_LOG_BUFFER) {
            (void)snprintf(values[0], (size_t)(uintptr_t)values[1], "line 1 is not fake");
        }
        return strncmp(at, "old", 3) == 0 ? CUDA_ERROR_NO_BINARY_FOR_GPU : CUDA_ERROR_INVALID_IMAGE;
    }
    struct CUmod_st *made = own(calloc(1, sizeof *made));
    at += 4;
    if (made) {
        made->any = any;
    }
    while (made && !any && *at == ' ' && made->count < KERNELS_MAX) {
        at = read_kernel(at + 1, &made->kernels[made->count++]);
        if (!at) {
            disown(made);
            return CUDA_ERROR_INVALID_IMAGE;
        }
    }
    *module = made;
    fake_cuda.modules++;
    return made ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuModuleUnload(CUmodule module)
{
    ENTER();
    disown(module);
    fake_cuda.modules--;
    return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    ENTER();
    for (uint32_t i = 0; i < module->count; i++) {
        if (strcmp(module->kernels[i].name, name) == 0) {
            *function = &module->kernels[i];
            return CUDA_SUCCESS;
        }
    }
    if (module->any && module->count < KERNELS_MAX) {
        *function = &module->kernels[module->count++];
        (void)snprintf((*function)->name, sizeof(*function)->name, "noop");
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_NOT_FOUND;
}

CUresult cuFuncLoad(CUfunction function)
{
    (void)function;
    return enter();
}

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction function)
{
    (void)function;
    ENTER();
    *value = attribute == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? 1024
             : attribute == CU_FUNC_ATTRIBUTE_NUM_REGS            ? 32
                                                                  : 16;
    return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value)
{
    (void)function;
    ENTER();
    fake_cuda.function_attributes[attribute] = value;
    return CUDA_SUCCESS;
}

CUresult cuFuncGetParamInfo(CUfunction function, size_t index, size_t *offset, size_t *size)
{
    ENTER();
    if (index >= function->param_count) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *offset = 0;
    *size = function->params[index];
    return CUDA_SUCCESS;
}

/* ------------------------------------------------------------------ launches */

static void note(const CUlaunchConfig *config, CUfunction function)
{
    if (fake_cuda.launch_count == FAKE_LAUNCHES_MAX) {
        return;
    }
    struct fake_launch *launch = &fake_cuda.launches[fake_cuda.launch_count++];
    *launch = (struct fake_launch){
        .grid = {config->gridDimX, config->gridDimY, config->gridDimZ},
        .block = {config->blockDimX, config->blockDimY, config->blockDimZ},
        .smem_bytes = config->sharedMemBytes,
        .attribute_count = config->numAttrs,
        .recorded = the_stream.capture != NULL,
    };
    memcpy(launch->kernel, function->name, sizeof launch->kernel);
    for (unsigned i = 0; i < config->numAttrs; i++) {
        const CUlaunchAttributeValue *value = &config->attrs[i].value;
        switch ((int)config->attrs[i].id) {
        case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
            launch->cluster[0] = value->clusterDim.x;
            launch->cluster[1] = value->clusterDim.y;
            launch->cluster[2] = value->clusterDim.z;
            break;
        case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
            launch->cooperative = value->cooperative != 0;
            break;
        case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
            launch->pdl = value->programmaticStreamSerializationAllowed != 0;
            break;
        case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
            launch->window_bytes = value->accessPolicyWindow.num_bytes;
            launch->window_hit = (int)value->accessPolicyWindow.hitProp;
            launch->window_miss = (int)value->accessPolicyWindow.missProp;
            break;
        default:
            break;
        }
    }
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **params,
                          void **extra)
{
    struct op op = {.kind = OP_KERNEL, .function = function};
    (void)extra;
    ENTER();
    note(config, function);
    if (strcmp(function->name, "greedy") == 0) {
        return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    }
    for (uint32_t i = 0; i < function->param_count; i++) {
        memcpy(op.params[i], params[i], function->params[i]);
    }
    return put(&op);
}

/* ------------------------------------------------------------------ graphs */

CUresult cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode mode)
{
    (void)mode;
    ENTER();
    stream->capture = own(calloc(1, sizeof *stream->capture));
    fake_cuda.graphs++;
    return stream->capture ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
    ENTER();
    *graph = stream->capture;
    stream->capture = NULL;
    return *graph ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
    (void)flags;
    ENTER();
    *exec = own(calloc(1, sizeof **exec));
    if (!*exec) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    for (uint32_t i = 0; i < graph->count; i++) {
        struct op *copy = own(malloc(sizeof *copy));
        if (!copy) {
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
        *copy = *graph->ops[i];
        (*exec)->graph.ops[(*exec)->graph.count++] = copy;
    }
    fake_cuda.execs++;
    return CUDA_SUCCESS;
}

CUresult cuGraphUpload(CUgraphExec exec, CUstream stream)
{
    (void)exec;
    (void)stream;
    return enter();
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
    (void)stream;
    ENTER();
    for (uint32_t i = 0; i < exec->graph.count; i++) {
        run(exec->graph.ops[i]);
    }
    return CUDA_SUCCESS;
}

CUresult cuGraphDestroy(CUgraph graph)
{
    ENTER();
    free_ops(graph);
    disown(graph);
    fake_cuda.graphs--;
    return CUDA_SUCCESS;
}

CUresult cuGraphExecDestroy(CUgraphExec exec)
{
    ENTER();
    free_ops(&exec->graph);
    disown(exec);
    fake_cuda.execs--;
    return CUDA_SUCCESS;
}

/* ------------------------------------------------------------------ tensor maps */

CUresult cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank,
                                void *address, const cuuint64_t *dims, const cuuint64_t *strides,
                                const cuuint32_t *box, const cuuint32_t *element_strides,
                                CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill)
{
    ENTER();
    memset(map, 0, sizeof *map);
    map->opaque[0] = (cuuint64_t)(uintptr_t)address;
    map->opaque[1] = (cuuint64_t)type << 32 | rank;
    map->opaque[2] = dims[rank - 1];
    map->opaque[3] = rank > 1 ? strides[rank - 2] : 0;
    map->opaque[4] = (cuuint64_t)box[rank - 1] << 32 | element_strides[rank - 1];
    map->opaque[5] = (cuuint64_t)swizzle << 32 | (cuuint64_t)interleave;
    map->opaque[6] = (cuuint64_t)promotion << 32 | (cuuint64_t)fill;
    fake_cuda.maps_encoded++;
    return CUDA_SUCCESS;
}
