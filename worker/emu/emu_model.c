/*
 * The emulated GPU's limits, and the modelled time of a launch. MODELLED: it ranks variants of one
 * kernel by traffic, tensor work, bank conflicts, tail waves and occupancy; it predicts no device.
 *
 *   compute  = max(tensor, fma + int, fp64, special, issue, shared wavefronts)   of the busiest SM
 *   memory   = max(DRAM bytes / rate, bytes through L2 / rate)
 *   hide     = min(1, warps of an SM / WARPS_TO_HIDE), of the blocks that it really has
 *   latency  = WAVE_LATENCY + MEMORY_LATENCY
 *              + barriers of a warp * BARRIER / blocks an SM
 *              + waits of a warp for cp.async * MEMORY_LATENCY / (1 + groups left in flight)^2
 *                / blocks an SM
 *   cycles   = max(compute, memory) + (1 - hide) * min(compute, memory) + waves * latency
 *   time     = LAUNCH + cycles / clock
 *
 * Counted work is that of the whole launch; the busiest SM has ceil(blocks / SMs) of the blocks, so
 * 9 blocks on 8 SMs cost as much as 16. waves = ceil(blocks / (SMs * blocks an SM)). The footprint
 * is the pages that the launch touched; it comes from DRAM once. What is touched again comes from
 * L2 as far as the footprint fits there, and from DRAM in the same proportion as it does not. So a
 * launch gets faster with larger tiles (less traffic), without bank conflicts, with more blocks an
 * SM, with a deeper ring, and without a ragged last wave.
 */
#include "worker/emu/emu_inside.h"

#include <string.h>

/* Chip. Scaled from an 80-class SM: 8 SMs at 1.4 GHz. */
#define SM_COUNT             8u
#define SM_GROUPS            2u
#define L2_BYTES             (4ull << 20)
#define CLOCK_KHZ            1400000ull
#define DRAM_BYTES_PER_CYCLE 80.0  /* of the whole device: 112 GB/s, as 132 SMs have 1.8 TB/s */
#define L2_BYTES_PER_CYCLE   256.0 /* 32 an SM */
/* An SM's rates, a cycle. */
#define TENSOR_FLOPS_PER_CYCLE  2048.0
#define FMA_LANES_PER_CYCLE     128.0
#define FP64_LANES_PER_CYCLE    32.0
#define SPECIAL_LANES_PER_CYCLE 16.0
#define ISSUE_WARPS_PER_CYCLE   4.0
#define WAVEFRONTS_PER_CYCLE    1.0
/* Latencies. */
#define LAUNCH_NS             2000.0
#define WAVE_LATENCY_CYCLES   1200.0 /* fill and drain of one wave of blocks */
#define BARRIER_CYCLES        30.0   /* of one barrier that no other block hides */
#define MEMORY_LATENCY_CYCLES 500.0
#define WARPS_TO_HIDE         16.0 /* resident warps of an SM that overlap nearly everything */

struct target {
    const char *name;
    uint32_t major, minor, blocks, threads, smem_opt_in, smem_sm;
};

static const struct target TARGETS[] = {
    {"sm_80", 8, 0, 32, 2048, 163 * 1024, 164 * 1024},
    {"sm_86", 8, 6, 16, 1536, 99 * 1024, 100 * 1024},
    {"sm_89", 8, 9, 24, 1536, 99 * 1024, 100 * 1024},
    {"sm_90", 9, 0, 32, 2048, 227 * 1024, 228 * 1024},
    {"sm_90a", 9, 0, 32, 2048, 227 * 1024, 228 * 1024},
};

enum gk_status gk_emu_props(const char *target, struct gk_emu_props *out, struct gk_err *err)
{
    const struct target *found = NULL;
    struct gk_emu_props props = {0};

    target = target ? target : "sm_80";
    for (size_t i = 0; i < GK_ARRAY_COUNT(TARGETS); i++) {
        if (strcmp(TARGETS[i].name, target) == 0) {
            found = &TARGETS[i];
        }
    }
    if (!found) {
        return gk_fail(err, GK_UNSUPPORTED,
                       "emulated target '%s'; there are sm_80, sm_86, sm_89, "
                       "sm_90 and sm_90a",
                       target);
    }
    memcpy(props.target, found->name, strlen(found->name) + 1);
    props.sm_major = found->major;
    props.sm_minor = found->minor;
    props.sm_count = SM_COUNT;
    props.sm_groups = SM_GROUPS;
    props.warp_size = EMU_LANES;
    props.threads_per_block_max = 1024;
    props.threads_per_sm_max = found->threads;
    props.blocks_per_sm_max = found->blocks;
    props.registers_per_sm = props.registers_per_block_max = 65536;
    props.registers_per_thread_max = 255;
    props.smem_per_block_bytes = 48 * 1024;
    props.smem_per_block_opt_in_bytes = found->smem_opt_in;
    props.smem_per_sm_bytes = found->smem_sm;
    props.smem_reserved_per_block_bytes = 1024;
    props.grid_max[0] = 0x7fffffff;
    props.grid_max[1] = props.grid_max[2] = 65535;
    props.block_max[0] = props.block_max[1] = 1024;
    props.block_max[2] = 64;
    props.l2_bytes = L2_BYTES;
    props.clock_khz = CLOCK_KHZ;
    props.memory_bandwidth_bytes_per_s =
        (uint64_t)(DRAM_BYTES_PER_CYCLE * (double)CLOCK_KHZ * 1000.0);
    *out = props;
    return GK_OK;
}

/* Registers are given out to warps in units of 256. */
uint32_t gk_emu_occupancy(const struct gk_emu_props *props, uint32_t threads,
                          uint32_t registers_per_thread, uint32_t smem_bytes)
{
    uint32_t warps = (threads + EMU_LANES - 1) / EMU_LANES, blocks = props->blocks_per_sm_max;
    uint32_t registers = (registers_per_thread * EMU_LANES + 255) / 256 * 256 * warps;
    uint32_t smem = (smem_bytes + props->smem_reserved_per_block_bytes + 127) / 128 * 128;

    if (!warps || threads > props->threads_per_block_max ||
        smem_bytes > props->smem_per_block_opt_in_bytes) {
        return 0;
    }
    if (props->threads_per_sm_max / (warps * EMU_LANES) < blocks) {
        blocks = props->threads_per_sm_max / (warps * EMU_LANES);
    }
    if (registers && props->registers_per_sm / registers < blocks) {
        blocks = props->registers_per_sm / registers;
    }
    if (props->smem_per_sm_bytes / smem < blocks) {
        blocks = props->smem_per_sm_bytes / smem;
    }
    return blocks;
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

/* Cycles of latency of one wave: fill and drain, barriers, waits for copies in flight. */
static double wave_latency(const struct gk_emu_counts *counts, double resident)
{
    double barriers = (double)counts->barrier_waits / larger(1.0, (double)counts->warps);
    double left = counts->cp_async_waits
                      ? (double)counts->cp_async_left / (double)counts->cp_async_waits
                      : 0.0;
    double waits = (double)counts->cp_async_waits / larger(1.0, (double)counts->warps);

    return WAVE_LATENCY_CYCLES + MEMORY_LATENCY_CYCLES +
           (barriers * BARRIER_CYCLES +
            waits * MEMORY_LATENCY_CYCLES / ((1.0 + left) * (1.0 + left))) /
               larger(1.0, resident);
}

/* Each term in cycles still, whatever its name says (to_ns() is the caller's): `share` is the
 * busiest SM's part of the work. */
static struct gk_emu_terms terms_of(const struct gk_emu_props *props,
                                    const struct gk_emu_counts *counts, double share,
                                    uint64_t footprint_bytes)
{
    double touched = (double)(counts->global_load_sectors + counts->global_store_sectors) * 32.0 +
                     (double)counts->bulk_global_bytes;
    double first = (double)footprint_bytes < touched ? (double)footprint_bytes : touched;
    double kept = (double)footprint_bytes <= (double)props->l2_bytes
                      ? 1.0
                      : (double)props->l2_bytes / (double)footprint_bytes;
    double dram = first + (touched - first) * (1.0 - kept);

    return (struct gk_emu_terms){
        .tensor_ns = (double)counts->tensor_flops / TENSOR_FLOPS_PER_CYCLE * share,
        .fma_ns = (double)(counts->fma_ops + counts->int_ops) / FMA_LANES_PER_CYCLE * share,
        .fp64_ns = (double)counts->fp64_ops / FP64_LANES_PER_CYCLE * share,
        .special_ns = (double)counts->special_ops / SPECIAL_LANES_PER_CYCLE * share,
        .issue_ns = (double)counts->warp_instructions / ISSUE_WARPS_PER_CYCLE * share,
        .shared_ns = (double)counts->shared_wavefronts / WAVEFRONTS_PER_CYCLE * share,
        .dram_ns = dram / DRAM_BYTES_PER_CYCLE,
        .l2_ns = touched / L2_BYTES_PER_CYCLE,
    };
}

static void to_ns(struct gk_emu_terms *terms, double ns_a_cycle)
{
    double *const all[] = {&terms->tensor_ns,  &terms->fma_ns,   &terms->fp64_ns,
                           &terms->special_ns, &terms->issue_ns, &terms->shared_ns,
                           &terms->dram_ns,    &terms->l2_ns,    &terms->latency_ns};

    for (size_t i = 0; i < GK_ARRAY_COUNT(all); i++) {
        *all[i] *= ns_a_cycle;
    }
}

double emu_model_ns(const struct gk_emu_props *props, const struct gk_emu_counts *counts,
                    uint32_t threads, uint64_t footprint_bytes, struct gk_emu_terms *terms_out)
{
    /* A launch with fewer blocks than places leaves places empty. */
    uint64_t most = (counts->blocks + props->sm_count - 1) / props->sm_count;
    double resident = (double)(most < counts->blocks_per_sm ? most : counts->blocks_per_sm);
    double warps = (double)((threads + EMU_LANES - 1) / EMU_LANES) * resident;
    double share = (double)most / (double)counts->blocks;
    struct gk_emu_terms terms = terms_of(props, counts, share, footprint_bytes);
    double compute = larger(larger(terms.tensor_ns, larger(terms.fma_ns, terms.fp64_ns)),
                            larger(terms.special_ns, larger(terms.issue_ns, terms.shared_ns)));
    double memory = larger(terms.dram_ns, terms.l2_ns), cycles;

    terms.hidden = warps / WARPS_TO_HIDE;
    terms.hidden = terms.hidden > 1.0 ? 1.0 : terms.hidden;
    terms.latency_ns = (double)counts->waves * wave_latency(counts, resident);
    terms.launch_ns = LAUNCH_NS;
    cycles = larger(compute, memory) +
             (1.0 - terms.hidden) * (compute < memory ? compute : memory) + terms.latency_ns;
    to_ns(&terms, 1e6 / (double)props->clock_khz);
    if (terms_out) {
        *terms_out = terms;
    }
    return LAUNCH_NS + cycles * 1e6 / (double)props->clock_khz;
}
