/*
 * The emulated device: runs the PTX text that NVRTC makes for the real target.
 *
 * A struct gk_emu is one small GPU (8 SMs, 4 MB of L2, per-block limits as on the target) with
 * memory of its own: kernels see a 64-bit device address space in which nothing of the process can
 * be reached. A module is PTX text decoded to a table; an instruction or modifier that the table
 * lacks is an error when the module is loaded, with the PTX line, never a skipped line. A launch
 * runs to its end, or ends at the first thing a correct kernel never does (an access out of
 * bounds, a read of bytes nobody wrote, a barrier that cannot be met ...) with a report that names
 * instruction, source line, thread and allocation.
 *
 * Everything is deterministic: the same module, memory content, launch and options give the same
 * bytes, counts and modelled time. Single-threaded, no globals, reads no clock; a gk_emu may be
 * used by one thread at a time, several gk_emu by several threads.
 *
 * Accesses are checked against the happens-before order of PTX (emu_order.h): a race ends the
 * launch even when the value came out right. Asynchronous operations are agents of their own.
 *
 * What is left out on purpose: im2col and gather modes of tensor copies, clusters in two or three
 * dimensions, base offsets of wgmma descriptors, sparse wgmma. Such code is refused by name.
 */
#ifndef GK_WORKER_EMU_EMU_H
#define GK_WORKER_EMU_EMU_H

#include "core/status.h"

struct gk_emu;
struct gk_emu_module;
struct gk_emu_kernel; /* owned by its module */

/* When the bytes of asynchronous copies move (cp.async, bulk and tensor copies, both directions:
 * emu_flight.h), and in which order warps run and blocks are started: in order (EARLY), in reverse
 * (LATE), or as the seed and the number of the launch say (RANDOM), in turns of random length. */
enum gk_emu_schedule {
    GK_EMU_LATE = 0,  /* when they are waited for, or nothing else can run */
    GK_EMU_EARLY = 1, /* at issue */
    GK_EMU_RANDOM = 2 /* at any time between */
};

struct gk_emu_options {
    const char *target; /* "sm_80", "sm_86", "sm_89", "sm_90", "sm_90a"; NULL means "sm_80" */
    uint64_t seed;      /* first value of clocks and of the random schedule */
    uint64_t work_limit_warp_instructions; /* a launch over it ends; 0 means the default, 2e9 */
    enum gk_emu_schedule schedule;
    uint64_t memory_limit_bytes; /* of all allocations together; 0 means the default, 2 GiB */
    /* Of the host: "base", "avx2", "avx512"; NULL means the best one it has. Results are the same
     * bits with each; tests ask for all of them. */
    const char *instruction_set;
    bool no_races; /* data races are not looked for: for speed, where they were before */
};

/* The emulated GPU; per-block limits are those of the target. */
struct gk_emu_props {
    char target[16];
    uint32_t sm_major, sm_minor;
    uint32_t sm_count, sm_groups;
    uint32_t warp_size;
    uint32_t threads_per_block_max;
    uint32_t threads_per_sm_max;
    uint32_t blocks_per_sm_max;
    uint32_t registers_per_sm, registers_per_block_max, registers_per_thread_max;
    uint32_t smem_per_block_bytes;        /* without opt-in: 48 KB */
    uint32_t smem_per_block_opt_in_bytes; /* the most a block may have */
    uint32_t smem_per_sm_bytes;
    uint32_t smem_reserved_per_block_bytes;
    uint32_t grid_max[3], block_max[3];
    uint64_t l2_bytes;
    uint64_t clock_khz;                    /* modelled */
    uint64_t memory_bandwidth_bytes_per_s; /* modelled */
};

/* What ended a launch. Numbers travel into the store: append, never renumber. */
#define GK_EMU_FAULT_MAP(X)                                                                        \
    X(NONE, 0, "none")                                                                             \
    X(OUT_OF_BOUNDS, 1, "out-of-bounds access")                                                    \
    X(NULL_POINTER, 2, "null pointer access")                                                      \
    X(MISALIGNED, 3, "misaligned access")                                                          \
    X(UNWRITTEN, 4, "read of memory that nobody wrote")                                            \
    X(PENDING, 5, "access to bytes of an asynchronous copy in flight")                             \
    X(CONST_WRITE, 6, "write to constant memory")                                                  \
    X(DEADLOCK, 7, "no thread can step")                                                           \
    X(DIVERGENT, 8, "warp-wide instruction reached by part of its threads")                        \
    X(WORK_LIMIT, 9, "work limit reached")                                                         \
    X(TRAP, 10, "trap")                                                                            \
    X(ASSERT, 11, "device assertion failed")                                                       \
    X(BAD_OPERAND, 12, "operand value not allowed")                                                \
    X(UNSUPPORTED, 13, "not supported by the emulated device")                                     \
    X(CALL_DEPTH, 14, "recursive or too deep device call")                                         \
    X(RACE, 15, "data race")

enum gk_emu_fault {
#define GK_EMU_FAULT_ENUM(name, number, text) GK_EMU_FAULT_##name = number,
    GK_EMU_FAULT_MAP(GK_EMU_FAULT_ENUM)
#undef GK_EMU_FAULT_ENUM
};

/* "OUT_OF_BOUNDS", and its sentence. Never NULL. */
const char *gk_emu_fault_name(enum gk_emu_fault fault);
const char *gk_emu_fault_text(enum gk_emu_fault fault);

/* What a launch did. One request is one warp instruction that touched the memory. */
struct gk_emu_counts {
    uint64_t warp_instructions;
    uint64_t global_load_requests, global_load_sectors;   /* sectors of 32 bytes */
    uint64_t global_store_requests, global_store_sectors; /* atomics count as stores */
    uint64_t global_atomics;                              /* thread operations */
    uint64_t cp_async_bytes;
    uint64_t cp_async_waits; /* of warps */
    uint64_t cp_async_left;  /* groups still in flight behind each wait, summed */
    /* Bulk and tensor copies: into each block's shared memory, out of it, and what of both crosses
     * the L2, where a multicast counts once. */
    uint64_t bulk_load_bytes, bulk_store_bytes, bulk_global_bytes;
    uint64_t shared_requests;
    uint64_t shared_wavefronts; /* one a request without bank conflicts (2 for 8, 4 for 16 bytes) */
    uint64_t shared_atomics;
    uint64_t local_requests;
    uint64_t tensor_flops;
    uint64_t fma_ops;  /* thread operations of fp32/fp16 add, mul, fma in issue slots (32 a warp) */
    uint64_t fp64_ops; /* the same for doubles */
    uint64_t int_ops;
    uint64_t special_ops; /* ex2, lg2, sin, cos, rcp, rsqrt, sqrt, tanh, division */
    uint64_t barrier_waits;
    uint64_t divergent_branches;
    uint64_t blocks, warps;
    uint64_t blocks_per_sm; /* occupancy that the model used */
    uint64_t waves;         /* of resident blocks over the whole emulated GPU, rounded up */
};

/* What the modelled time is made of, in ns of the busiest SM, each as if it were alone (emu_model.c
 * says how they combine). MODELLED. */
struct gk_emu_terms {
    double tensor_ns;
    double fma_ns; /* with integer operations */
    double fp64_ns, special_ns;
    double issue_ns;  /* warp instructions */
    double shared_ns; /* wavefronts */
    double dram_ns, l2_ns;
    double latency_ns; /* of all waves: fill and drain, barriers, waits for copies */
    double launch_ns;
    double hidden; /* 0 to 1: which part of the smaller one of compute and memory overlaps */
};

#define GK_EMU_TEXT_MAX 4096 /* a deadlock lists a dozen waiters */
#define GK_EMU_PATH_MAX 256

struct gk_emu_report {
    enum gk_emu_fault kind;
    char text[GK_EMU_TEXT_MAX];        /* the whole story; empty when kind is NONE */
    char source_file[GK_EMU_PATH_MAX]; /* from .loc, outermost inlined position; empty: no -lineinfo
                                        */
    uint32_t source_line;
    uint32_t ptx_line; /* 1-based line of the PTX text; 0 when no instruction is to blame */
    uint32_t thread[3], block[3];
    uint64_t address; /* of a memory fault, else 0 */
    struct gk_emu_counts counts;
    double modelled_ns; /* MODELLED, no accuracy claimed; set only when the launch ran to its end */
    struct gk_emu_terms terms; /* as modelled_ns */
};

/* Limits of a target before anything is created. GK_UNSUPPORTED names the targets there are. */
enum gk_status gk_emu_props(const char *target, struct gk_emu_props *out, struct gk_err *err);

/* The caller owns the device and destroys it after all its modules. */
enum gk_status gk_emu_create(const struct gk_emu_options *options, struct gk_emu **emu_out,
                             struct gk_err *err);
void gk_emu_destroy(struct gk_emu *emu);
const struct gk_emu_props *gk_emu_device_props(const struct gk_emu *emu);
void gk_emu_set_schedule(struct gk_emu *emu, enum gk_emu_schedule schedule);
void gk_emu_set_work_limit(struct gk_emu *emu, uint64_t warp_instructions);

/* ------------------------------------------------------------------ memory */

/* Device memory of `bytes` (0 is allowed: any access to it is out of bounds), content unwritten.
 * `align` is a power of two, 0 means 256. Addresses are never used twice, so a use after free is
 * an out-of-bounds access. `name` is copied, and shown in reports. GK_LIMIT names the limit. */
enum gk_status gk_emu_alloc(struct gk_emu *emu, const char *name, uint64_t bytes, uint64_t align,
                            uint64_t *address_out, struct gk_err *err);
enum gk_status gk_emu_free(struct gk_emu *emu, uint64_t address, struct gk_err *err);

/* Each range must lie in one live allocation, else GK_RANGE names the nearest one. Writing and
 * filling mark the bytes written; reading reads unwritten bytes as the zeros they hold. fill
 * repeats the `pattern_bytes` (1..16) bytes of `pattern`. */
enum gk_status gk_emu_write(struct gk_emu *emu, uint64_t address, const void *bytes, uint64_t size,
                            struct gk_err *err);
enum gk_status gk_emu_read(struct gk_emu *emu, uint64_t address, void *bytes, uint64_t size,
                           struct gk_err *err);
enum gk_status gk_emu_fill(struct gk_emu *emu, uint64_t address, uint64_t size, const void *pattern,
                           uint32_t pattern_bytes, struct gk_err *err);
/* Host address of the bytes, valid until the free; NULL if the range is not in one allocation.
 * Writes through it do not mark bytes: follow them with gk_emu_mark_written. */
void *gk_emu_host_pointer(struct gk_emu *emu, uint64_t address, uint64_t size);
enum gk_status gk_emu_mark_written(struct gk_emu *emu, uint64_t address, uint64_t size,
                                   struct gk_err *err);
enum gk_status gk_emu_mark_unwritten(struct gk_emu *emu, uint64_t address, uint64_t size,
                                     struct gk_err *err);
enum gk_status gk_emu_unwritten(struct gk_emu *emu, uint64_t address, uint64_t size,
                                uint64_t *unwritten_bytes_out, struct gk_err *err);
uint64_t gk_emu_memory_used(const struct gk_emu *emu);

/* A tensor before it is encoded; arrays by dimension, innermost first. */
enum gk_emu_element {
    GK_EMU_ELEMENT_U8,
    GK_EMU_ELEMENT_U16,
    GK_EMU_ELEMENT_U32,
    GK_EMU_ELEMENT_I32,
    GK_EMU_ELEMENT_U64,
    GK_EMU_ELEMENT_F16,
    GK_EMU_ELEMENT_F32,
    GK_EMU_ELEMENT_BF16,
    GK_EMU_ELEMENT_F64
};

struct gk_emu_map {
    enum gk_emu_element element;
    uint32_t rank; /* 1 to 5 */
    uint64_t address;
    uint64_t dims[5];    /* elements */
    uint64_t strides[5]; /* bytes; [0] is not read */
    uint32_t box[5], element_strides[5];
    uint32_t swizzle; /* bytes: 0, 32, 64, 128 */
    bool fill_nan;    /* what lies outside reads as NaN instead of 0 */
};

/* The map as kernels of this device take it. GK_INPUT names the rule of the hardware that it
 * breaks. */
enum gk_status gk_emu_map_encode(const struct gk_emu *emu, const struct gk_emu_map *map,
                                 unsigned char bytes_out[128], struct gk_err *err);

/* ------------------------------------------------------------------ modules and kernels */

struct gk_emu_param {
    uint32_t offset, size, align; /* bytes in the parameter block */
};

#define GK_EMU_PARAMS_MAX 256

struct gk_emu_kernel_info {
    const char *name;
    uint32_t param_count;
    const struct gk_emu_param *params;
    uint32_t params_size;       /* bytes of the parameter block */
    uint32_t static_smem_bytes; /* dynamic shared memory begins behind it, aligned as declared */
    uint32_t local_bytes;       /* a thread */
    uint32_t maxntid[3], reqntid[3]; /* 0: not given */
    uint32_t instruction_count;
};

/* Decodes PTX text (`size` bytes, a terminating NUL is not needed) and places its variables.
 * GK_PARSE and GK_UNSUPPORTED name the PTX line and its text. */
enum gk_status gk_emu_module_load(struct gk_emu *emu, const char *ptx, size_t size,
                                  struct gk_emu_module **module_out, struct gk_err *err);
void gk_emu_module_unload(struct gk_emu_module *module);
/* GK_NOT_FOUND lists the kernels there are. The kernel lives as long as its module. */
enum gk_status gk_emu_kernel_find(struct gk_emu_module *module, const char *name,
                                  struct gk_emu_kernel **kernel_out, struct gk_err *err);
void gk_emu_kernel_info(const struct gk_emu_kernel *kernel, struct gk_emu_kernel_info *out);
/* Address and size of a .global or .const variable of the module. */
enum gk_status gk_emu_symbol_find(struct gk_emu_module *module, const char *name,
                                  uint64_t *address_out, uint64_t *bytes_out, struct gk_err *err);

struct gk_emu_launch {
    uint32_t grid[3], block[3];
    uint32_t cluster[3]; /* 0: 1; clusters lie along x */
    uint32_t dynamic_smem_bytes;
    const void *params; /* params_size bytes, laid out as gk_emu_kernel_info says */
    uint32_t params_size;
    uint32_t registers_per_thread; /* from ptxas, for occupancy; 0 is refused */
    /* May begin before the launch ahead has ended, if nothing but that launch lies between: what it
     * touches before griddepcontrol.wait is a race with that launch's accesses. */
    bool overlaps;
};

/* Runs the launch to its end. GK_OK: ran, counts and modelled_ns are set. GK_TRIAL: the kernel
 * misbehaved, report_out->kind and text say how (err holds the same text), counts hold what was
 * done. GK_INPUT / GK_LIMIT: the launch itself is not possible, report_out is not touched. */
enum gk_status gk_emu_launch(struct gk_emu *emu, struct gk_emu_kernel *kernel,
                             const struct gk_emu_launch *launch, struct gk_emu_report *report_out,
                             struct gk_err *err);

/* Blocks of this shape that one SM holds; 0 when not even one fits. */
uint32_t gk_emu_occupancy(const struct gk_emu_props *props, uint32_t threads,
                          uint32_t registers_per_thread, uint32_t smem_bytes);

#endif
