/* Shared by the files of this folder: the inspector's state and how its kernels are launched. */
#ifndef GK_WORKER_INSPECT_INSPECT_INSIDE_H
#define GK_WORKER_INSPECT_INSPECT_INSIDE_H

#include "worker/inspect/inspect.h"

#define GK_INSPECT_THREADS 256 /* a block, as in inspect.cu */

enum gk_inspect_kernel {
    GK_INSPECT_AUDIT,
    GK_INSPECT_PAINT,
    GK_INSPECT_GENERATE,
    GK_INSPECT_SPIKE,
    GK_INSPECT_CHECK,
    GK_INSPECT_MARK,
    GK_INSPECT_PADDING,
    GK_INSPECT_KERNELS
};

/* Device memory that grows to the largest need; what it holds does not outlive a call. */
struct gk_inspect_store {
    uint64_t address, bytes;
};

struct gk_inspector {
    struct gk_device *device; /* borrowed */
    struct gk_device_module *module;
    struct gk_device_kernel *kernels[GK_INSPECT_KERNELS];
    bool cached;
    uint64_t quantiles; /* address of the normal table; 0: not needed so far */
    struct gk_inspect_store table, used;
};

/* A kernel's arguments, as structs of inspect.cu. */
struct gk_inspect_arg {
    const void *bytes;
    uint32_t size;
};

/* A tensor as place_of() of inspect.cu takes it. */
struct gk_inspect_view {
    int64_t offset;
    int64_t extents[GK_TENSOR_RANK_MAX], strides[GK_TENSOR_RANK_MAX];
    int32_t rank;
    int32_t narrow;
};

/* Joins dimensions without a gap between them. */
struct gk_inspect_view gk_inspect_view_of(const struct gk_plan_tensor *tensor);

/* Blocks enough for `items` threads, at most as many as the device holds of this kernel at once. */
uint32_t gk_inspect_blocks(const struct gk_inspector *inspector, enum gk_inspect_kernel kernel,
                           uint64_t items);

/* Runs one of the kernels to its end. GK_INTERNAL with the device's report if it did not get
 * there: our kernels have no right to fail. */
enum gk_status gk_inspect_launch(struct gk_inspector *inspector, enum gk_inspect_kernel kernel,
                                 uint32_t blocks, const struct gk_inspect_arg *args, uint32_t count,
                                 struct gk_err *err);

enum gk_status gk_inspect_reserve(struct gk_inspector *inspector, struct gk_inspect_store *store,
                                  const char *name, uint64_t bytes, struct gk_err *err);

/* The range, or a copy of it where the device would fault on bytes that nobody wrote: looking at
 * them is our job. A copy keeps the address modulo 256. *base_out: what to release when done, 0 if
 * nothing was copied. */
enum gk_status gk_inspect_readable(struct gk_inspector *inspector, uint64_t address, uint64_t bytes,
                                   uint64_t *address_out, uint64_t *base_out, struct gk_err *err);

/* Texts of the sources, made by the build. NUL-terminated. */
extern const char gk_inspect_cu_text[];
extern const char gk_accept_rule_text[];

#endif
