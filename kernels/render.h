/*
 * From (op, template, problem, config, device) to a plan: every number a worker needs to compile,
 * verify and time one trial. Pure: no files, no device.
 */
#ifndef GK_KERNELS_RENDER_H
#define GK_KERNELS_RENDER_H

#include "kernels/catalog.h"

struct gk_plan_tensor {
    const struct gk_tensor *def;
    bool present;
    enum gk_dtype dtype;
    uint32_t rank;
    int64_t extents[GK_TENSOR_RANK_MAX];
    int64_t strides[GK_TENSOR_RANK_MAX]; /* elements */
    int64_t offset;                      /* elements before the first */
    int64_t span;     /* elements from the buffer's start to one past the last addressed */
    int64_t elements; /* product of extents */
    int64_t align;    /* bytes */
};

struct gk_plan_workspace {
    const struct gk_workspace *def;
    bool present;
    int64_t bytes;
    int64_t align;
};

struct gk_plan_map {
    const struct gk_tensor_map *def;
    bool present;
    int64_t dims[5], box[5], element_strides[5]; /* by dimension, innermost first */
    int64_t strides[5]; /* bytes, by dimension; [0] is the element's size: the driver takes [1].. */
    int64_t offset;     /* elements from the tensor's first element to the view's */
};

struct gk_plan_arg {
    enum gk_arg_kind kind;
    uint32_t index;
    int64_t byte_offset; /* WORKSPACE */
    uint32_t size;       /* bytes in the parameter block: 4, 8 or 128 */
    uint64_t bits;       /* VALUE: little-endian value, `size` bytes of it */
};

struct gk_plan_launch {
    const struct gk_launch_def *def;
    bool present; /* its `when` holds */
    uint32_t grid[3], block[3], cluster[3];
    uint32_t smem_bytes;
    int32_t carveout; /* percent, -1: not set */
    struct gk_plan_arg args[GK_ARGS_MAX];
    uint32_t arg_count;
    char **defines; /* sorted "NAME=VALUE" */
    uint32_t define_count;
    struct gk_hash
        module_key; /* template source tokens + defines + options + target, without toolchain */
};

struct gk_plan {
    const struct gk_op *op;
    const struct gk_template *template_; /* NULL: the plan of the reference */
    struct gk_plan_tensor tensors[GK_TENSORS_MAX];
    struct gk_plan_workspace workspaces[GK_WORKSPACES_MAX];
    struct gk_plan_map maps[GK_TENSOR_MAPS_MAX];
    struct gk_plan_launch launches[8];
    uint32_t launch_count;
    bool needs_k; /* a present launch's grid reads k.*: gk_plan_refine() must follow the compile */
    double flops, bytes;
    union gk_value *slots; /* of the template's scope; owned */
    uint32_t slot_count;
    struct gk_device_props dev; /* what the limits were checked against, and refine checks again */
};

/* Renders everything; k.* count as unknown. GK_INPUT for a broken constraint, GK_RANGE for
 * arithmetic, GK_LIMIT for a grid, block or buffer outside the device's limits (named). */
enum gk_status gk_plan_render(const struct gk_op *op, const struct gk_template *template_,
                              const struct gk_problem *problem, const struct gk_config *config,
                              const struct gk_device_props *dev, struct gk_plan *plan_out,
                              struct gk_err *err);
/* The reference's plan for a problem: one launch whose RESULT args stand for packed (value,
 * magnitude) pairs of doubles. */
enum gk_status gk_plan_reference(const struct gk_op *op, const struct gk_problem *problem,
                                 const struct gk_device_props *dev, struct gk_plan *plan_out,
                                 struct gk_err *err);
void gk_plan_fini(struct gk_plan *plan);

struct gk_kernel_facts { /* k.* of one launch, known after compiling */
    int64_t regs, spill_bytes, static_smem, blocks_per_sm, max_clusters;
};
/* Evaluates after-compile constraints and grids that use k.*; facts has launch_count entries.
 * GK_INPUT names the broken constraint and the launch. */
enum gk_status gk_plan_refine(struct gk_plan *plan, const struct gk_kernel_facts *facts,
                              struct gk_err *err);

/* A matrix of the vendor's call, as it is multiplied: element (i, j) lies at i * row_stride + j *
 * col_stride. */
struct gk_plan_matrix {
    int32_t tensor; /* -1: there is none */
    enum gk_dtype dtype;
    int64_t rows, cols;
    int64_t row_stride, col_stride, batch_stride; /* elements; batch_stride 0: one for all */
    int64_t align; /* bytes: the address of every matrix of the batch is a multiple of it */
};

/* D = act(alpha A B + beta C + bias), `batch` times; the bias has one value a column of D. */
struct gk_plan_matmul {
    enum gk_vendor_library library;
    int64_t batch, m, n, k;
    struct gk_plan_matrix a, b, c, d; /* m x k, k x n, m x n, m x n */
    struct gk_plan_matrix bias;       /* 1 x n, packed */
    double alpha, beta;
    bool relu, gelu_tanh, fast_accum;
};

/* op.json's "vendor" in numbers. GK_UNSUPPORTED: the op has none, or its condition does not hold
 * here; GK_INPUT: the tensors do not fit together; GK_RANGE for arithmetic. */
enum gk_status gk_plan_vendor(const struct gk_plan *plan, struct gk_plan_matmul *matmul_out,
                              struct gk_err *err);

/* Tolerance of an output tensor for this problem: sum of c*u, and the norm bound (-1: none). */
enum gk_status gk_plan_tolerance(const struct gk_plan *plan, uint32_t tensor, double *scale_out,
                                 double *norm_out, struct gk_err *err);
/* Value of a generator's argument for this problem, `fallback` where it is absent (NULL). */
enum gk_status gk_plan_generator_arg(const struct gk_plan *plan, const struct gk_expr *arg,
                                     double fallback, double *value_out, struct gk_err *err);

#endif
