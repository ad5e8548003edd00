/* The inspector's making and launching: see inspect.h. */
#include "worker/inspect/inspect.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/code_cache.h"
#include "worker/inspect/inspect_inside.h"

#define COPY_ALIGN 256

/* blocks_per_sm: of 256 threads, with the registers that ptxas gives the kernel (sm_80 and sm_90a
 * agree): a grid of as many has all its blocks at work from the start to the end. */
static const struct {
    const char *name;
    uint32_t blocks_per_sm;
} kernels[GK_INSPECT_KERNELS] = {
    [GK_INSPECT_AUDIT] = {"gk_audit_segments", 4},    [GK_INSPECT_PAINT] = {"gk_paint_segments", 4},
    [GK_INSPECT_GENERATE] = {"gk_generate_input", 5}, [GK_INSPECT_SPIKE] = {"gk_write_spikes", 5},
    [GK_INSPECT_CHECK] = {"gk_check_output", 3},      [GK_INSPECT_MARK] = {"gk_mark_elements", 8},
    [GK_INSPECT_PADDING] = {"gk_count_padding", 8}};

static const char *const options[] = {"-fmad=false"};

/* inspect.cu knows these by number. */
_Static_assert(GK_BF16 == 0 && GK_F16 == 1 && GK_E4M3 == 2 && GK_F32 == 3 && GK_F64 == 4 &&
                   GK_I8 == 5 && GK_I32 == 6 && GK_I64 == 7 && GK_U8 == 8 && GK_U32 == 9 &&
                   GK_DTYPE_COUNT == 10,
               "element types of inspect.cu");
_Static_assert(GK_GEN_NORMAL == 1 && GK_GEN_UNIFORM == 2 && GK_GEN_TERNARY == 3 &&
                   GK_GEN_SMALL_INT == 4 && GK_GEN_CONSTANT == 5 && GK_GEN_CLASS_INDEX == 9 &&
                   GK_GEN_BYTES == 10,
               "generators of inspect.cu");
_Static_assert(GK_TENSOR_RANK_MAX == 6, "kRankMax of inspect.cu");

/* ------------------------------------------------------------------ code */

static struct gk_hash code_key(const struct gk_compiler *compiler, const char *target)
{
    struct gk_hasher hasher;
    struct gk_hash module;
    gk_hasher_init(&hasher);
    gk_hasher_text(&hasher, "inspector 1");
    gk_hasher_text(&hasher, gk_inspect_cu_text);
    gk_hasher_text(&hasher, gk_accept_rule_text);
    gk_hasher_text(&hasher, options[0]);
    module = gk_hasher_final(&hasher);
    return gk_code_key(&module, gk_compiler_version(compiler), target);
}

static enum gk_status compile(struct gk_compiler *compiler, const char *target,
                              struct gk_compile_output *output_out, struct gk_err *err)
{
    const struct gk_compiler_header header = {"worker/inspect/accept_rule.h", gk_accept_rule_text};
    const struct gk_compile_input input = {.name = "inspect.cu",
                                           .text = gk_inspect_cu_text,
                                           .headers = &header,
                                           .header_count = 1,
                                           .options = options,
                                           .option_count = (uint32_t)GK_ARRAY_COUNT(options),
                                           .target = target};
    enum gk_status status = gk_compiler_run(compiler, &input, output_out, err);
    if (status == GK_OK && !output_out->compiled) {
        status = gk_fail(err, GK_INTERNAL, "inspect.cu does not compile for %s: %.600s", target,
                         output_out->log);
    }
    return status;
}

/* From the cache, or compiled and put there. */
static enum gk_status obtain(struct gk_inspector *inspector,
                             const struct gk_compiler_places *places, const char *cache_folder,
                             struct gk_compile_output *output_out, struct gk_err *err)
{
    const char *target = inspector->device->props.target;
    char path[PATH_MAX] = "";
    struct gk_compiler *compiler = NULL;
    enum gk_status status = gk_compiler_open(places, &compiler, err);
    if (status != GK_OK) {
        return status;
    }
    if (cache_folder) {
        const struct gk_hash key = code_key(compiler, target);
        gk_code_path(cache_folder, &key, path, sizeof path);
        inspector->cached = gk_code_read(path, output_out, NULL) == GK_OK && output_out->compiled;
    }
    if (!inspector->cached) {
        gk_compile_output_fini(output_out);
        status = compile(compiler, target, output_out, err);
        if (status == GK_OK && cache_folder) {
            (void)gk_code_write(path, output_out, NULL); /* then the next process compiles again */
        }
    }
    gk_compiler_close(compiler);
    return status;
}

static enum gk_status load(struct gk_inspector *inspector, const struct gk_compile_output *output,
                           struct gk_err *err)
{
    struct gk_device *device = inspector->device;
    const struct gk_device_code code = {.ptx = output->ptx,
                                        .ptx_size = output->ptx_size,
                                        .cubin = output->cubin,
                                        .cubin_size = output->cubin_size};
    enum gk_status status = device->ops->load(device, &code, &inspector->module, err);
    for (uint32_t i = 0; i < GK_INSPECT_KERNELS && status == GK_OK; i++) {
        status = device->ops->find(device, inspector->module, kernels[i].name,
                                   &inspector->kernels[i], err);
    }
    return status == GK_OK ? GK_OK : gk_fail_in(err, status, "inspector");
}

enum gk_status gk_inspector_create(struct gk_device *device,
                                   const struct gk_compiler_places *places,
                                   const char *cache_folder, struct gk_inspector **inspector_out,
                                   struct gk_err *err)
{
    struct gk_compile_output output = {0};
    struct gk_inspector *inspector = calloc(1, sizeof *inspector);
    if (!inspector) {
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    inspector->device = device;
    enum gk_status status = obtain(inspector, places, cache_folder, &output, err);
    if (status == GK_OK) {
        status = load(inspector, &output, err);
    }
    if (status == GK_OK) {
        *inspector_out = inspector;
        inspector = NULL;
    }
    gk_compile_output_fini(&output);
    gk_inspector_destroy(inspector);
    return status;
}

void gk_inspector_destroy(struct gk_inspector *inspector)
{
    if (!inspector) {
        return;
    }
    struct gk_device *device = inspector->device;
    const uint64_t addresses[] = {inspector->quantiles, inspector->table.address,
                                  inspector->used.address};
    for (size_t i = 0; i < GK_ARRAY_COUNT(addresses); i++) {
        if (addresses[i]) {
            (void)device->ops->release(device, addresses[i],
                                       NULL); /* a lost device frees nothing */
        }
    }
    if (inspector->module) {
        device->ops->unload(device, inspector->module);
    }
    free(inspector);
}

bool gk_inspector_cached(const struct gk_inspector *inspector)
{
    return inspector->cached;
}

/* ------------------------------------------------------------------ launching */

struct gk_inspect_view gk_inspect_view_of(const struct gk_plan_tensor *tensor)
{
    struct gk_inspect_view view = {.offset = tensor->offset,
                                   .narrow = tensor->elements <= UINT32_MAX};
    for (uint32_t d = 0; d < tensor->rank; d++) {
        const int64_t extent = tensor->extents[d], stride = tensor->strides[d];
        const int32_t last = view.rank - 1;
        if (extent == 1) {
            continue;
        }
        if (last >= 0 && view.strides[last] == extent * stride) {
            view.extents[last] *= extent;
            view.strides[last] = stride;
        } else {
            view.extents[view.rank] = extent;
            view.strides[view.rank++] = stride;
        }
    }
    return view;
}

uint32_t gk_inspect_blocks(const struct gk_inspector *inspector, enum gk_inspect_kernel kernel,
                           uint64_t items)
{
    const uint64_t most = (uint64_t)inspector->device->props.sms * kernels[kernel].blocks_per_sm;
    const uint64_t blocks = (items + GK_INSPECT_THREADS - 1) / GK_INSPECT_THREADS;
    return (uint32_t)(blocks < 1 ? 1 : blocks < most ? blocks : most);
}

enum gk_status gk_inspect_launch(struct gk_inspector *inspector, enum gk_inspect_kernel kernel,
                                 uint32_t blocks, const struct gk_inspect_arg *args, uint32_t count,
                                 struct gk_err *err)
{
    struct gk_device *device = inspector->device;
    struct gk_device_report report;
    struct gk_device_launch launch = {.grid = {blocks, 1, 1},
                                      .block = {GK_INSPECT_THREADS, 1, 1},
                                      .cluster = {1, 1, 1},
                                      .carveout = -1,
                                      .arg_count = count};
    for (uint32_t i = 0; i < count; i++) {
        GK_ASSERT(args[i].size <= sizeof launch.args[i].bytes);
        launch.args[i].size = args[i].size;
        memcpy(launch.args[i].bytes, args[i].bytes, args[i].size);
    }
    /* A limit is there for what strangers wrote. */
    if (device->ops->limit) {
        device->ops->limit(device, INT64_MAX);
    }
    enum gk_status status =
        device->ops->launch(device, inspector->kernels[kernel], &launch, &report, err);
    if (device->ops->limit) {
        device->ops->limit(device, device->props.work_limit);
    }
    if (status == GK_TRIAL) {
        return gk_fail(err, GK_INTERNAL, "inspector: %s: %.800s", kernels[kernel].name,
                       report.text);
    }
    return status == GK_OK ? GK_OK : gk_fail_in(err, status, "inspector: %s", kernels[kernel].name);
}

enum gk_status gk_inspect_reserve(struct gk_inspector *inspector, struct gk_inspect_store *store,
                                  const char *name, uint64_t bytes, struct gk_err *err)
{
    struct gk_device *device = inspector->device;
    if (store->bytes >= bytes) {
        return GK_OK;
    }
    if (store->address) {
        (void)device->ops->release(device, store->address, NULL); /* as in destroy */
        *store = (struct gk_inspect_store){0};
    }
    enum gk_status status =
        device->ops->alloc(device, name, bytes, COPY_ALIGN, &store->address, err);
    store->bytes = status == GK_OK ? bytes : 0;
    return status;
}

enum gk_status gk_inspect_readable(struct gk_inspector *inspector, uint64_t address, uint64_t bytes,
                                   uint64_t *address_out, uint64_t *base_out, struct gk_err *err)
{
    struct gk_device *device = inspector->device;
    uint64_t unwritten = 0, base = 0;
    const uint64_t shift = address % COPY_ALIGN;
    *address_out = address;
    *base_out = 0;
    if (!device->ops->unwritten || bytes == 0) {
        return GK_OK;
    }
    enum gk_status status = device->ops->unwritten(device, address, bytes, &unwritten, err);
    if (status != GK_OK || unwritten == 0) {
        return status;
    }
    if (!device->ops->copy) {
        return gk_fail(err, GK_UNSUPPORTED,
                       "inspector: device %s tells unwritten bytes but does not copy",
                       device->props.device);
    }
    status = device->ops->alloc(device, "inspector: copy", bytes + shift, COPY_ALIGN, &base, err);
    if (status == GK_OK) {
        status = device->ops->copy(device, base + shift, address, bytes, err);
        if (status != GK_OK) {
            (void)device->ops->release(device, base, NULL); /* the copy's error is the news */
            return status;
        }
        *address_out = base + shift;
        *base_out = base;
    }
    return status;
}
