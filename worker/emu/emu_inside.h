/*
 * What the files of the emulated device share: memory, decoded instructions, warps and blocks.
 *
 * Registers are arrays over the 32 lanes of a warp ("structure of arrays"): register r of lane l is
 * element l of a small array, so one instruction is one loop that the compiler turns into vector
 * code. A predicate is one 32-bit word, a bit a lane. An operand is a byte offset into one of two
 * blocks: the warp's registers, or the kernel's pool of constants, where every immediate stands 32
 * times; bit 0 of the offset says which (all offsets are multiples of 4).
 */
#ifndef GK_WORKER_EMU_EMU_INSIDE_H
#define GK_WORKER_EMU_EMU_INSIDE_H

#include "worker/emu/emu.h"
#include "worker/emu/emu_ahead.h"
#include "worker/emu/emu_flight.h"
#include "worker/emu/emu_lines.h"
#include "worker/emu/emu_order.h"

#define EMU_LANES              32
#define EMU_FULL               0xffffffffu
#define EMU_OPERANDS_MAX       32
#define EMU_CALL_DEPTH_MAX     24
#define EMU_BARRIERS           16
#define EMU_MBARRIERS_MAX      256 /* of a block */
#define EMU_MBARRIER_COUNT_MAX ((1u << 20) - 1)
/* A shared address of a cluster: 1 + rank of the block above these bits; 0 there is the block
 * itself. */
#define EMU_CTA_SHIFT 24
#define EMU_CTA_MASK  ((1u << EMU_CTA_SHIFT) - 1)
/* Slots of asynchronous agents, behind the threads of a block. */
#define EMU_SLOT_WGMMA 0u  /* one a warp */
#define EMU_SLOT_STORE 32u /* two a thread that stores in bulk: its reads, its writes */
#define EMU_SLOT_LOAD  64u /* one a load in flight, used in turn */
#define EMU_SLOT_LOADS 64u
#define EMU_SLOT_COPY  128u /* one a warp: its cp.async that an mbarrier counts */
#define EMU_GROUPS_MAX 33   /* one a lane, and one while a group is being split */

/* Windows of the generic address space. Allocations get addresses from EMU_GLOBAL_BASE up. */
#define EMU_GLOBAL_BASE  0x0000000200000000ull
#define EMU_SHARED_BASE  0x0000700000000000ull
#define EMU_LOCAL_BASE   0x0000710000000000ull
#define EMU_PARAM_BASE   0x0000720000000000ull
#define EMU_WINDOW_BYTES 0x0000000100000000ull

enum emu_space {
    EMU_GENERIC,
    EMU_GLOBAL,
    EMU_SHARED,
    EMU_LOCAL,
    EMU_CONST,
    EMU_PARAM,      /* parameters of the kernel */
    EMU_PARAM_LOCAL /* .param variables of device functions: lane-private, addressed statically */
};

/* ------------------------------------------------------------------ memory */

#define EMU_NAME_MAX   64
#define EMU_PAGE_BYTES 4096u

struct emu_alloc {
    char name[EMU_NAME_MAX];
    uint64_t address, size;
    unsigned char *bytes;
    unsigned char *written; /* a bit a byte */
    bool all_written;       /* then `written` need not be looked at */
    unsigned char *touched; /* a bit a page of EMU_PAGE_BYTES, valid for launch `touched_in` */
    uint64_t touched_in;
    bool is_const;
    struct emu_shadow shadow; /* of the launch that its stamp names */
    struct emu_shadow ahead[EMU_AHEAD_LEVELS]; /* of launches that the running one may overlap */
};

struct emu_memory {
    struct emu_alloc **allocs; /* ascending addresses: they only grow */
    size_t count, capacity;
    size_t last; /* index of the last hit */
    uint64_t next_address;
    uint64_t used_bytes, limit_bytes;
};

enum gk_status emu_memory_alloc(struct emu_memory *memory, const char *name, uint64_t bytes,
                                uint64_t align, struct emu_alloc **out, struct gk_err *err);
void emu_memory_free(struct emu_memory *memory, struct emu_alloc *alloc);
void emu_memory_fini(struct emu_memory *memory);
/* The allocation that holds [address, address + size), or NULL. */
struct emu_alloc *emu_memory_find(struct emu_memory *memory, uint64_t address, uint64_t size);
/* The live allocation closest to the address, or NULL when there is none. */
const struct emu_alloc *emu_memory_nearest(const struct emu_memory *memory, uint64_t address);
void emu_bits_set(unsigned char *bits, uint64_t first, uint64_t count);
void emu_bits_clear(unsigned char *bits, uint64_t first, uint64_t count);
uint64_t emu_bits_count(const unsigned char *bits, uint64_t first, uint64_t count);

/* ------------------------------------------------------------------ instructions */

struct emu_warp;
struct emu_insn;

/* What the run loop does after an instruction. */
enum emu_step {
    EMU_NEXT = 0, /* go on behind it */
    EMU_JUMP,     /* the handler set warp->pc; groups may have changed */
    EMU_BLOCK,    /* the running group waits; pc stays */
    EMU_YIELD,    /* go on behind it, but let others run first */
    EMU_STOP      /* a fault was recorded */
};

typedef int emu_exec(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask);

/* For counting; the run loop counts executions per instruction and sums them at the end. */
enum emu_class {
    EMU_CLASS_OTHER,
    EMU_CLASS_INT,
    EMU_CLASS_FMA,
    EMU_CLASS_FP64,
    EMU_CLASS_SPECIAL,
    EMU_CLASS_TENSOR,
    EMU_CLASS_CONTROL,
    EMU_CLASS_MEMORY
};

struct emu_insn {
    emu_exec *exec;
    int32_t op[EMU_OPERANDS_MAX]; /* destinations first; -1: not there, or the sink "_" */
    int64_t imm;                  /* address offset, branch target, call index ... */
    uint64_t mods;                /* PTX_M_* bits that were written */
    int32_t guard;                /* predicate offset, -1: none */
    uint32_t line;                /* of the PTX text */
    uint32_t loc;                 /* index of the module's .loc table, 0: none */
    uint32_t work;                /* tensor FLOPs of one execution */
    emu_exec *inner;              /* of emu_exec_guarded */
    int64_t imm3;                 /* offset of the third address */
    int16_t address3;             /* index in op[], -1: none */
    uint8_t address3_width;
    bool is_wide; /* its sums are in kernel->wide */
    uint8_t guard_negated;
    uint8_t op_count;
    uint8_t class;
    uint8_t type, type2, type3; /* enum ptx_type, as written */
    uint8_t vec;                /* elements of a vector access */
    uint8_t space;              /* enum emu_space */
    uint8_t round;              /* enum ptx_round */
    uint8_t cmp, boolean;       /* enum ptx_cmp, enum ptx_bool */
    uint8_t atom;               /* enum ptx_atom */
    uint8_t sem;                /* enum ptx_sem: how a strong access orders; 0: a weak one */
    uint8_t scope;              /* enum emu_scope of a strong access, fence or barrier */
    uint8_t sub;                /* small variant numbers of one family */
    uint8_t width[4];           /* bytes of a lane of op[0..3] where the type does not say */
    int16_t address, address2;  /* index in op[] of address registers, -1: none */
    uint8_t address_width, address2_width; /* 4 or 8 bytes */
    int64_t imm2; /* offset of the second address; lane stride of a function's .param */
};

struct emu_loc {
    uint32_t file, line;             /* where the code stands */
    uint32_t outer_file, outer_line; /* where it was inlined, 0: not inlined */
    uint32_t parent;                 /* index of the place where it was inlined, 0: not inlined */
    uint32_t column;
};

/* A call site: what is copied in and out. */
struct emu_copy {
    int32_t from, to; /* offsets of lane-private parameter arrays */
    uint32_t bytes;   /* a lane */
};

struct emu_call {
    uint32_t target;   /* first instruction of the function */
    uint32_t function; /* index, for names and the recursion check */
    struct emu_copy *in;
    uint32_t in_count;
    struct emu_copy out;
    bool has_out;
};

struct emu_table { /* of brx.idx and indirect calls */
    uint32_t *targets;
    uint32_t count;
};

/* One entry with its own copy of every function it reaches. */
struct gk_emu_kernel {
    struct gk_emu_module *module;
    char *name;
    struct emu_insn *code;
    uint32_t code_count, code_capacity;
    struct emu_call *calls;
    uint32_t call_count;
    struct emu_table *tables;
    uint32_t table_count;
    uint32_t *function_entry; /* first instruction of each function in `code` */
    char **function_name;
    uint32_t function_count;
    unsigned char *pool; /* constants, 32 lanes each; pool_bytes multiple of 64 */
    uint32_t pool_bytes, pool_capacity;
    uint32_t register_bytes; /* of a warp, special registers included */
    struct gk_emu_param params[GK_EMU_PARAMS_MAX];
    uint32_t param_count, params_size;
    int32_t sink;               /* registers that "_" writes to */
    uint32_t static_smem_bytes; /* rounded up so that dynamic memory is aligned */
    uint32_t local_bytes;
    uint32_t maxntid[3], reqntid[3];
    uint32_t maxnreg, minnctapersm; /* 0: not given */
    int32_t *wide; /* registers of wgmma: sums, one list an instruction (insn->imm, insn->vec) */
    uint32_t wide_count, wide_capacity;
    uint32_t special_used; /* bit per enum ptx_special: which lane arrays a warp must be given */
};

struct emu_symbol {
    char *name;
    struct emu_alloc *alloc; /* .global and .const */
    uint64_t bytes;
};

struct gk_emu_module {
    struct gk_emu *emu;
    char *text;         /* copy of the PTX, NUL-terminated */
    const char **lines; /* start of each line */
    uint32_t line_count;
    struct emu_loc *locs; /* [0] is "unknown" */
    uint32_t loc_count, loc_capacity;
    char **files;
    uint32_t file_count;
    struct emu_symbol *symbols;
    uint32_t symbol_count;
    struct gk_emu_kernel **kernels;
    uint32_t kernel_count;
};

struct gk_emu {
    struct gk_emu_props props;
    struct emu_memory memory;
    uint64_t seed, work_limit;
    enum gk_emu_schedule schedule;
    bool no_races;           /* not looked for */
    struct emu_lines *lines; /* NULL: not counted */
    uint64_t launches;
    struct emu_ahead ahead;
    struct ptx_index *index; /* instruction rows by opcode */
};

/* ------------------------------------------------------------------ warps and blocks */

enum emu_wait {
    EMU_READY = 0,
    EMU_WAIT_BARRIER,  /* arrived at barrier `barrier`, waits for its completion */
    EMU_WAIT_MBARRIER, /* stands at a try_wait, until a phase ends */
    EMU_WAIT_CLUSTER,  /* waits for the barrier of the cluster */
    EMU_WAIT_POOL,     /* stands at a setmaxnreg.inc, until the block's pool has registers */
    EMU_WAIT_WARP      /* stands before a warp-wide instruction, waits for other lanes */
};

/* Lanes that stand at one instruction with one call stack. */
struct emu_group {
    uint32_t pc, mask;
    uint8_t wait;    /* enum emu_wait */
    uint8_t barrier; /* id */
    uint8_t depth;
    uint64_t last_run;                  /* for fairness */
    uint32_t stack[EMU_CALL_DEPTH_MAX]; /* instruction index of each open call */
};

struct emu_warp {
    unsigned char *base[2]; /* registers, pool */
    struct emu_block *block;
    struct emu_run *run;
    uint32_t pc;      /* of the running group */
    uint32_t active;  /* lanes of the running group */
    uint32_t alive;   /* lanes that have not exited */
    uint32_t started; /* lanes that exist: the last warp of a block may be partial */
    uint32_t index;   /* in its block */
    uint32_t limit;   /* pc at which the running group must look for others */
    struct emu_group groups[EMU_GROUPS_MAX];
    uint32_t group_count, current;
    uint32_t back_branches; /* taken since the last change of group, while others were ready */
    bool fair;              /* the running group was chosen by age, not by pc */
    bool finished;
    uint64_t steps;
    uint32_t carry; /* condition code of the .cc instructions, a bit a lane */
    unsigned char *local, *local_written;
    struct emu_flights flights;  /* cp.async and stores in bulk that its lanes started */
    uint32_t batches[EMU_LANES]; /* groups of cp.async closed by each lane */
    /* cp.async started; tick of the agent of those that an mbarrier counts, and of each lane the
     * one at which the last of its own landed; the lane's tick when it last waited for some. */
    uint32_t copies, copies_ended, copies_landed[EMU_LANES], copies_waited[EMU_LANES];
    struct emu_lane_order order;
    /* wgmma: groups closed, groups waited for, fences so far; and of each register slot of 64 bytes
     * the group that used it last (+ 1) and the fence behind which it was touched last (+ 1). */
    uint32_t wgmma_batch, wgmma_done, wgmma_fences;
    uint32_t *wgmma_used, *wgmma_touched;
    uint32_t bulk_batch[EMU_LANES]; /* groups of bulk stores closed by each lane */
    /* Of these: 1 + number of the last that has a store, and up to which it waited for reads. */
    uint32_t bulk_used[EMU_LANES], bulk_waited[EMU_LANES];
    uint32_t tried;          /* 1 + place of the try_wait that came back without an answer */
    uint32_t cluster_phase;  /* of the cluster's barrier, at which the warp has arrived */
    uint32_t registers;      /* a thread, by setmaxnreg; 0: as launched */
    uint32_t register_moves; /* setmaxnreg so far */
};

struct emu_mbarrier {
    uint32_t offset; /* in the block's shared memory */
    uint32_t count, pending;
    int64_t bytes;             /* still to land in this phase; below 0 when they came early */
    uint32_t phase;            /* ended ones */
    uint32_t maker;            /* thread that made it */
    bool shown;                /* to other blocks and to asynchronous operations */
    uint32_t polls;            /* looks in vain since a copy landed */
    struct emu_gate now, done; /* of this phase, of the last one */
};

struct emu_barrier {
    uint32_t expected; /* threads; 0: all that are alive */
    uint32_t arrived;  /* threads (whole warps count 32 when a count was given) */
    uint32_t popc;
    bool all, any, used;
    struct emu_gate gate; /* what those that arrived know */
};

/* Four warps that move registers together. */
struct emu_warpgroup {
    uint32_t moves;              /* of the warp that has come furthest */
    const struct emu_insn *insn; /* its last one */
};

#define EMU_WARPGROUP      4u
#define EMU_WARPGROUPS_MAX 8u

struct emu_block {
    uint32_t ctaid[3];
    uint64_t index; /* linear */
    uint32_t sm, slot;
    bool live;
    struct emu_warp *warps;
    uint32_t warp_count, warps_finished, alive_threads;
    unsigned char *shared, *shared_written, *shared_pending;
    unsigned char *registers; /* of all warps */
    unsigned char *locals;
    struct emu_barrier barriers[EMU_BARRIERS];
    bool any_pending;         /* cp.async bytes in flight somewhere in the block */
    uint32_t agents;          /* threads in whole warps, and slots for asynchronous operations */
    struct emu_shadow shadow; /* of shared memory */
    struct emu_releases releases; /* at addresses of shared memory */
    uint32_t far_acquired;        /* number of its last acquire from another block */
    uint32_t register_pool;       /* registers that no warp holds */
    struct emu_warpgroup warpgroups[EMU_WARPGROUPS_MAX];
    uint32_t rank;     /* in its cluster */
    uint32_t *watched; /* of all warps: wgmma_used and wgmma_touched */
    struct emu_mbarrier *mbarriers;
    uint32_t mbarrier_count;
    uint32_t store_threads[16], store_thread_count; /* who holds slots of bulk stores */
    uint32_t load_next, load_tick[EMU_SLOT_LOADS];
    struct emu_flights flights; /* loads in bulk that go to its shared memory */
    uint64_t next_due;          /* of all flights of the block (RANDOM) */
    uint32_t turns;             /* since something landed, while flights wait */
    /* Of the block with rank 0: the cluster's barrier. */
    uint32_t cluster_arrived, cluster_phase;
    struct emu_gate cluster_gate, cluster_done;
};

/* A launch while it runs. */
struct emu_run {
    struct gk_emu *emu;
    struct gk_emu_kernel *kernel;
    const struct gk_emu_launch *launch;
    struct gk_emu_report *report;
    unsigned char *params;
    uint64_t *hits;          /* executions of each instruction, a warp counts once */
    struct emu_lines *lines; /* NULL: not counted */
    uint64_t executed, limit;
    uint64_t stamp; /* grows with each choice of a group */
    uint32_t shared_bytes, local_bytes, threads, warps;
    uint64_t local_stride; /* of a lane */
    struct emu_block *blocks;
    uint32_t block_count; /* resident */
    uint64_t next_block, total_blocks;
    uint64_t pages_touched; /* different ones of global memory */
    uint32_t blocks_per_sm;
    struct emu_order order;
    uint64_t shadow_stamp; /* of shared memory, a new one each block */
    uint32_t ahead;        /* launches that this one may overlap; 0: it began when all had ended */
    bool waited_ahead;     /* by any thread */
    uint32_t cluster_blocks;
    uint64_t random;                /* state of the generator of the random schedule */
    uint64_t unit_first, unit_step; /* its order of blocks */
};

static inline uint32_t emu_copies_agent(const struct emu_warp *warp)
{
    return warp->run->warps * EMU_LANES + EMU_SLOT_COPY + warp->index;
}

/* The next number of the launch. */
static inline uint32_t emu_random(struct emu_run *run)
{
    run->random = run->random * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)(run->random >> 33);
}

/* Blocks of one cluster have one number. Clusters lie along x. */
static inline uint64_t emu_cluster_of(const struct emu_run *run, uint64_t block)
{
    return block / run->cluster_blocks;
}

/* The block whose shared memory the address lies in. Addresses were checked by emu_access() or
 * emu_block_find(). */
static inline struct emu_block *emu_block_at(const struct emu_warp *warp, uint64_t address)
{
    uint32_t rank = (uint32_t)(address >> EMU_CTA_SHIFT);

    return rank ? warp->block - warp->block->rank + (rank - 1) : warp->block;
}

static inline void *emu_operand(struct emu_warp *warp, const struct emu_insn *insn, unsigned index)
{
    int32_t offset = insn->op[index];
    return warp->base[offset & 1] + (offset & ~1);
}

/* ------------------------------------------------------------------ faults (emu_fault.c) */

/* Records the fault of `lane` (the lowest of a mask in most callers) and returns EMU_STOP. */
int emu_fault(struct emu_warp *warp, const struct emu_insn *insn, unsigned lane,
              enum gk_emu_fault kind, uint64_t address, const char *format, ...)
    __attribute__((format(printf, 6, 7)));
/* A fault of the whole launch (deadlock, work limit), text only. */
void emu_fault_launch(struct emu_run *run, enum gk_emu_fault kind, const char *text);
/* "file:line (inlined at file:line), PTX line n: text" of an instruction. */
void emu_describe(const struct gk_emu_module *module, const struct emu_insn *insn, char *text,
                  size_t size);
int emu_fault_memory(struct emu_warp *warp, const struct emu_insn *insn, unsigned lane,
                     enum gk_emu_fault kind, enum emu_space space, uint64_t address, uint32_t bytes,
                     const char *verb);

/* ------------------------------------------------------------------ groups (emu_warp.c) */

void emu_warp_start(struct emu_warp *warp, uint32_t lanes);
/* Splits `mask` off the running group into a new one that stands at pc in the given state. */
void emu_warp_split(struct emu_warp *warp, uint32_t mask, uint32_t pc, enum emu_wait wait);
/* The running group waits at its instruction; the caller returns EMU_BLOCK. */
void emu_warp_block(struct emu_warp *warp, enum emu_wait wait);
/* Adds groups that wait at this very instruction with this very stack to the running group. */
bool emu_warp_gather(struct emu_warp *warp);
/* Warp-wide instruction: EMU_NEXT when all alive lanes stand here, else EMU_BLOCK or EMU_STOP. */
/* The same, and all 32 lanes must be there. */
int emu_warp_whole(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask);
int emu_warp_converge(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask);
/* Runs up to `quantum` instructions. false: a fault was recorded. */
bool emu_warp_run(struct emu_warp *warp, uint32_t quantum);
bool emu_warp_can_run(const struct emu_warp *warp);
void emu_barrier_check(struct emu_block *block, unsigned id);
void emu_warp_exit(struct emu_warp *warp, uint32_t mask);

/* ------------------------------------------------------------------ sm_90 (emu_hopper.c) */

/* The block of a shared address of the cluster, or NULL if there is none (any more). */
struct emu_block *emu_block_find(const struct emu_warp *warp, uint64_t address);
struct emu_mbarrier *emu_mbarrier_find(struct emu_block *block, uint32_t offset);
/* The barrier at the address; NULL after a fault was recorded. */
struct emu_mbarrier *emu_mbarrier_at(struct emu_warp *warp, const struct emu_insn *insn,
                                     unsigned lane, uint64_t address, struct emu_block **owner_out);
/* `bytes` have landed; `arrivals` have come. */
int emu_mbarrier_add(struct emu_warp *warp, const struct emu_insn *insn, unsigned lane,
                     struct emu_block *owner, struct emu_mbarrier *barrier, uint32_t arrivals,
                     int64_t bytes);
void emu_cluster_check(struct emu_block *block);
/* Offset of the mbarrier that the group's lowest lane waits for; the group stands at a try_wait. */
uint32_t emu_mbarrier_waited(const struct emu_warp *warp, const struct emu_group *group);
struct gk_buf;
/* What the group waits for, for the report of a deadlock. */
void emu_mbarrier_describe(struct gk_buf *text, const struct emu_warp *warp,
                           const struct emu_group *group, const char *where);
emu_exec emu_exec_guarded;

/* ------------------------------------------------------------------ registers (emu_registers.c) */

emu_exec emu_exec_registers;
/* All warps of the block have ended. false: a fault. */
bool emu_registers_end(struct emu_block *block);
void emu_registers_describe(struct gk_buf *text, const struct emu_warp *warp,
                            const struct emu_group *group, const char *where);

/* ------------------------------------------------------------------ counts (emu_launch.c) */

/* `hits` executions of the instruction, by its class. */
void emu_count_class(struct gk_emu_counts *counts, const struct emu_insn *insn, uint64_t hits);

/* ------------------------------------------------------------------ model (emu_model.c) */

/* `threads` of a block; `footprint_bytes`: what the launch may touch at most once. terms_out may be
 * NULL. */
double emu_model_ns(const struct gk_emu_props *props, const struct gk_emu_counts *counts,
                    uint32_t threads, uint64_t footprint_bytes, struct gk_emu_terms *terms_out);

/* ------------------------------------------------------------------ decoder (ptx_module.c) */

enum gk_status ptx_module_decode(struct gk_emu_module *module, struct gk_err *err);

#endif
