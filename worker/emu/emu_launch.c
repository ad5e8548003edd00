/*
 * The device: modules, launches, resident blocks.
 *
 * As many blocks are resident as the model of the small GPU allows; a freed place takes the next
 * block in order. Blocks take long turns and the warps of a block short ones: long turns keep a
 * block's registers in the host's cache, and nothing may depend on the length. A launch ends when
 * all blocks are done, at the first fault, at the work limit, or when in one round over all
 * resident blocks no warp can step.
 */
#include "worker/emu/emu_inside.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/buf.h"
#include "worker/emu/ptx_decode.h"

#define WORK_LIMIT_DEFAULT   2000000000ull
#define MEMORY_LIMIT_DEFAULT (2ull << 30)
#define WARP_TURN            1024u /* instructions */
#define TURN_RANDOM_MAX      256u
#define BLOCK_WORK           256 /* warp instructions */
#define BLOCK_TURN                                                                                 \
    20000u /* of all its warps: what a spinning block burns while it waits for another */
/* Host memory of registers, shared and local memory of the resident blocks. */
#define RESIDENT_BYTES_MAX (1ull << 30)
#define WAITERS_LISTED     12
#define IDLE_TURNS_MAX     2u /* of a block that runs on while its copies are in flight */
#define CLUSTER_MAX        16u

/* ------------------------------------------------------------------ the device */

enum gk_status gk_emu_create(const struct gk_emu_options *options, struct gk_emu **emu_out,
                             struct gk_err *err)
{
    struct gk_emu *emu = calloc(1, sizeof(*emu));
    enum gk_status status;

    if (!emu) {
        return gk_fail(err, GK_NOMEM, "emulated device");
    }
    status = gk_emu_props(options->target, &emu->props, err);
    status =
        status == GK_OK ? ptx_index_create(options->instruction_set, &emu->index, err) : status;
    if (status != GK_OK) {
        gk_emu_destroy(emu);
        return status;
    }
    emu->seed = options->seed;
    emu->schedule = options->schedule;
    emu->no_races = options->no_races;
    gk_emu_set_work_limit(emu, options->work_limit_warp_instructions);
    emu->memory.limit_bytes =
        options->memory_limit_bytes ? options->memory_limit_bytes : MEMORY_LIMIT_DEFAULT;
    *emu_out = emu;
    return GK_OK;
}

void gk_emu_destroy(struct gk_emu *emu)
{
    if (!emu) {
        return;
    }
    emu_memory_fini(&emu->memory);
    ptx_index_destroy(emu->index);
    emu_lines_destroy(emu->lines);
    free(emu);
}

const struct gk_emu_props *gk_emu_device_props(const struct gk_emu *emu)
{
    return &emu->props;
}

void gk_emu_set_schedule(struct gk_emu *emu, enum gk_emu_schedule schedule)
{
    emu->schedule = schedule;
}

void gk_emu_set_work_limit(struct gk_emu *emu, uint64_t warp_instructions)
{
    emu->work_limit = warp_instructions ? warp_instructions : WORK_LIMIT_DEFAULT;
}

/* ------------------------------------------------------------------ modules */

static enum gk_status split_lines(struct gk_emu_module *module, struct gk_err *err)
{
    uint32_t count = 1;

    for (const char *at = module->text; (at = strchr(at, '\n')) != NULL; at++) {
        count++;
    }
    module->lines = calloc(count, sizeof(*module->lines));
    if (!module->lines) {
        return gk_fail(err, GK_NOMEM, "%u PTX lines", count);
    }
    module->lines[module->line_count++] = module->text;
    for (const char *at = module->text; (at = strchr(at, '\n')) != NULL; at++) {
        module->lines[module->line_count++] = at + 1;
    }
    return GK_OK;
}

enum gk_status gk_emu_module_load(struct gk_emu *emu, const char *ptx, size_t size,
                                  struct gk_emu_module **module_out, struct gk_err *err)
{
    struct gk_emu_module *module = calloc(1, sizeof(*module));
    enum gk_status status = GK_OK;

    if (!module) {
        return gk_fail(err, GK_NOMEM, "PTX module");
    }
    module->emu = emu;
    module->text = gk_strndup(ptx, size);
    module->locs = calloc(16, sizeof(*module->locs));
    module->loc_capacity = 16;
    module->loc_count = 1;
    if (!module->text || !module->locs) {
        status = gk_fail(err, GK_NOMEM, "PTX module of %zu bytes", size);
    }
    status = status == GK_OK ? split_lines(module, err) : status;
    status = status == GK_OK ? ptx_module_decode(module, err) : status;
    if (status != GK_OK) {
        gk_emu_module_unload(module);
        return status;
    }
    *module_out = module;
    return GK_OK;
}

void gk_emu_module_unload(struct gk_emu_module *module)
{
    if (!module) {
        return;
    }
    emu_ahead_unload(module->emu, module);
    for (uint32_t i = 0; i < module->kernel_count; i++) {
        ptx_kernel_destroy(module->kernels[i]);
    }
    for (uint32_t i = 0; i < module->symbol_count; i++) {
        emu_memory_free(&module->emu->memory, module->symbols[i].alloc);
        free(module->symbols[i].name);
    }
    for (uint32_t i = 0; i < module->file_count; i++) {
        free(module->files[i]);
    }
    free(module->kernels);
    free(module->symbols);
    free(module->files);
    free(module->locs);
    free(module->lines);
    free(module->text);
    free(module);
}

enum gk_status gk_emu_kernel_find(struct gk_emu_module *module, const char *name,
                                  struct gk_emu_kernel **kernel_out, struct gk_err *err)
{
    struct gk_buf names = {0};

    for (uint32_t i = 0; i < module->kernel_count; i++) {
        if (strcmp(module->kernels[i]->name, name) == 0) {
            *kernel_out = module->kernels[i];
            gk_buf_fini(&names);
            return GK_OK;
        }
        gk_buf_printf(&names, "%s%s", i ? ", " : "", module->kernels[i]->name);
    }
    (void)gk_fail(err, GK_NOT_FOUND, "kernel '%s' is not in the module; it holds: %s", name,
                  names.size ? gk_buf_text(&names) : "none");
    gk_buf_fini(&names);
    return GK_NOT_FOUND;
}

void gk_emu_kernel_info(const struct gk_emu_kernel *kernel, struct gk_emu_kernel_info *out)
{
    *out = (struct gk_emu_kernel_info){.name = kernel->name,
                                       .param_count = kernel->param_count,
                                       .params = kernel->params,
                                       .params_size = kernel->params_size,
                                       .static_smem_bytes = kernel->static_smem_bytes,
                                       .local_bytes = kernel->local_bytes,
                                       .instruction_count = kernel->code_count};
    memcpy(out->maxntid, kernel->maxntid, sizeof(out->maxntid));
    memcpy(out->reqntid, kernel->reqntid, sizeof(out->reqntid));
}

enum gk_status gk_emu_symbol_find(struct gk_emu_module *module, const char *name,
                                  uint64_t *address_out, uint64_t *bytes_out, struct gk_err *err)
{
    for (uint32_t i = 0; i < module->symbol_count; i++) {
        if (strcmp(module->symbols[i].name, name) == 0) {
            *address_out = module->symbols[i].alloc->address;
            *bytes_out = module->symbols[i].bytes;
            return GK_OK;
        }
    }
    return gk_fail(err, GK_NOT_FOUND, "variable '%s' is not in the module", name);
}

/* ------------------------------------------------------------------ blocks */

static void put_special(struct emu_warp *warp, enum ptx_special special, uint32_t value)
{
    uint32_t *lanes = (uint32_t *)(void *)warp->base[0] + special * EMU_LANES;

    for (unsigned l = 0; l < EMU_LANES; l++) {
        lanes[l] = value;
    }
}

static void fill_lane_specials(struct emu_warp *warp)
{
    const uint32_t *dim = warp->run->launch->block;
    uint32_t *lanes = (uint32_t *)(void *)warp->base[0];

    for (uint32_t l = 0; l < EMU_LANES; l++) {
        uint32_t thread = warp->index * EMU_LANES + l;

        lanes[PTX_SP_TID_X * EMU_LANES + l] = thread % dim[0];
        lanes[PTX_SP_TID_Y * EMU_LANES + l] = thread / dim[0] % dim[1];
        lanes[PTX_SP_TID_Z * EMU_LANES + l] = thread / dim[0] / dim[1];
        lanes[PTX_SP_LANEID * EMU_LANES + l] = l;
        lanes[PTX_SP_LANEMASK_EQ * EMU_LANES + l] = 1u << l;
        lanes[PTX_SP_LANEMASK_LT * EMU_LANES + l] = (1u << l) - 1;
        lanes[PTX_SP_LANEMASK_LE * EMU_LANES + l] = ((1u << l) - 1) | 1u << l;
        lanes[PTX_SP_LANEMASK_GT * EMU_LANES + l] = ~(((1u << l) - 1) | 1u << l);
        lanes[PTX_SP_LANEMASK_GE * EMU_LANES + l] = ~((1u << l) - 1);
    }
}

static void fill_specials(struct emu_warp *warp)
{
    const struct emu_run *run = warp->run;
    const struct gk_emu_launch *launch = run->launch;

    fill_lane_specials(warp);
    for (unsigned i = 0; i < 3; i++) {
        put_special(warp, (enum ptx_special)(PTX_SP_NTID_X + i), launch->block[i]);
        put_special(warp, (enum ptx_special)(PTX_SP_CTAID_X + i), warp->block->ctaid[i]);
        put_special(warp, (enum ptx_special)(PTX_SP_NCTAID_X + i), launch->grid[i]);
    }
    put_special(warp, PTX_SP_WARPID, warp->index);
    put_special(warp, PTX_SP_NWARPID, run->emu->props.threads_per_sm_max / EMU_LANES);
    put_special(warp, PTX_SP_SMID, warp->block->sm);
    put_special(warp, PTX_SP_NSMID, run->emu->props.sm_count);
    put_special(warp, PTX_SP_GRIDID, 0);
    put_special(warp, PTX_SP_DYNAMIC_SMEM, launch->dynamic_smem_bytes);
    put_special(warp, PTX_SP_TOTAL_SMEM, run->shared_bytes);
    put_special(warp, PTX_SP_ONE, 1);
    put_special(warp, PTX_SP_ZERO, 0);
    put_special(warp, PTX_SP_CLUSTER_RANK, warp->block->rank);
    put_special(warp, PTX_SP_CLUSTER_SIZE, run->cluster_blocks);
    put_special(warp, PTX_SP_CLUSTER_ID, warp->block->ctaid[0] / run->cluster_blocks);
    put_special(warp, PTX_SP_CLUSTERS, launch->grid[0] / run->cluster_blocks);
}

static void *aligned_zero(size_t bytes)
{
    size_t size = (bytes + 63) / 64 * 64 + 64;
    void *memory = aligned_alloc(64, size);

    if (memory) {
        memset(memory, 0, size);
    }
    return memory;
}

/* One number for each 64 bytes of a warp's registers. */
static size_t watch_bytes(const struct gk_emu_kernel *kernel)
{
    return ((size_t)kernel->register_bytes / 64 + 1) * sizeof(uint32_t);
}

static bool block_allocate(struct emu_run *run, struct emu_block *block)
{
    size_t local = (size_t)(run->local_stride * EMU_LANES * run->warps);

    block->warp_count = run->warps;
    block->agents = run->warps * EMU_LANES + EMU_ASYNC_AGENTS;
    block->shadow.bytes = run->shared_bytes;
    block->shadow.reused = true;
    block->warps = calloc(run->warps, sizeof(*block->warps));
    block->registers = aligned_zero((size_t)run->kernel->register_bytes * run->warps);
    block->shared = aligned_zero(run->shared_bytes);
    block->shared_written = calloc(1, run->shared_bytes / 8 + 16);
    block->shared_pending = calloc(1, run->shared_bytes / 8 + 16);
    block->locals = aligned_zero(local + local / 8 + 64);
    if (run->kernel->wide_count) {
        block->watched = calloc(run->warps, 2 * watch_bytes(run->kernel));
        if (!block->watched) {
            return false;
        }
    }
    return block->warps && block->registers && block->shared && block->shared_written &&
           block->shared_pending && block->locals;
}

static void block_free(struct emu_block *block)
{
    for (uint32_t w = 0; block->warps && w < block->warp_count; w++) {
        emu_flights_fini(&block->warps[w].flights);
    }
    emu_flights_fini(&block->flights);
    emu_block_order_reset(block);
    emu_shadow_fini(&block->shadow);
    free(block->mbarriers);
    free(block->watched);
    free(block->warps);
    free(block->registers);
    free(block->shared);
    free(block->shared_written);
    free(block->shared_pending);
    free(block->locals);
}

static void block_start(struct emu_run *run, struct emu_block *block, uint64_t index)
{
    const uint32_t *grid = run->launch->grid;
    size_t local = (size_t)(run->local_stride * EMU_LANES);
    unsigned char *written = block->locals + local * run->warps;

    block->index = index;
    block->ctaid[0] = (uint32_t)(index % grid[0]);
    block->ctaid[1] = (uint32_t)(index / grid[0] % grid[1]);
    block->ctaid[2] = (uint32_t)(index / grid[0] / grid[1]);
    block->live = true;
    block->warps_finished = 0;
    block->alive_threads = run->threads;
    block->any_pending = false;
    block->next_due = UINT64_MAX;
    block->turns = 0;
    emu_block_order_reset(block);
    block->shadow.stamp = ++run->shadow_stamp;
    block->far_acquired = 0;
    block->register_pool = 0;
    memset(block->warpgroups, 0, sizeof(block->warpgroups));
    block->store_thread_count = 0;
    block->cluster_arrived = block->cluster_phase = 0;
    if (block->watched) {
        memset(block->watched, 0, 2 * watch_bytes(run->kernel) * run->warps);
    }
    memset(block->barriers, 0, sizeof(block->barriers));
    memset(block->shared_written, 0, run->shared_bytes / 8 + 16);
    memset(block->shared_pending, 0, run->shared_bytes / 8 + 16);
    memset(written, 0, local / 8 * run->warps);
    for (uint32_t w = 0; w < run->warps; w++) {
        struct emu_warp *warp = &block->warps[w];
        uint32_t left = run->threads - w * EMU_LANES;

        warp->run = run;
        warp->block = block;
        warp->index = w;
        warp->base[0] = block->registers + (size_t)run->kernel->register_bytes * w;
        warp->base[1] = run->kernel->pool;
        warp->local = block->locals + local * w;
        warp->local_written = written + local / 8 * w;
        if (block->watched) {
            uint32_t *watched = block->watched + 2 * watch_bytes(run->kernel) / 4 * w;

            warp->wgmma_used = watched;
            warp->wgmma_touched = watched + watch_bytes(run->kernel) / 4;
        }
        emu_warp_start(warp, left >= EMU_LANES ? EMU_FULL : (1u << left) - 1);
        fill_specials(warp);
    }
    run->report->counts.blocks++;
    run->report->counts.warps += run->warps;
}

/* ------------------------------------------------------------------ running */

/* Early, warps and blocks run in order; late, in reverse; else as the seed says, in turns of other
 * lengths. */
static uint32_t warp_in_order(const struct emu_run *run, const struct emu_block *block,
                              uint32_t first, uint32_t i)
{
    return run->emu->schedule == GK_EMU_EARLY    ? i
           : run->emu->schedule == GK_EMU_RANDOM ? (first + i) % block->warp_count
                                                 : block->warp_count - 1 - i;
}

static uint32_t turn_of(struct emu_run *run)
{
    return run->emu->schedule == GK_EMU_RANDOM ? 1 + emu_random(run) % TURN_RANDOM_MAX : WARP_TURN;
}

/* The number of the block (or the cluster) that is started as the i-th. */
static uint64_t unit_in_order(const struct emu_run *run, uint64_t i)
{
    uint64_t units = run->total_blocks / run->cluster_blocks;

    return run->emu->schedule == GK_EMU_EARLY    ? i
           : run->emu->schedule == GK_EMU_RANDOM ? (i * run->unit_step + run->unit_first) % units
                                                 : units - 1 - i;
}

/* To begin a block takes the host as long as some hundred instructions: a grid of two thousand
 * million empty blocks is no small launch. */
static bool over_limit(const struct emu_run *run)
{
    return run->executed + run->report->counts.blocks * BLOCK_WORK > run->limit;
}

/* One turn of a block. false: a fault. *stepped_out: some warp could run. */
static bool block_turn(struct emu_run *run, struct emu_block *block, bool *stepped_out)
{
    uint64_t end = run->executed + BLOCK_TURN;
    bool any = true;

    while (any && run->executed < end && block->warps_finished < block->warp_count) {
        uint32_t first = emu_random(run) % block->warp_count;

        any = false;
        for (uint32_t i = 0; i < block->warp_count; i++) {
            struct emu_warp *warp = &block->warps[warp_in_order(run, block, first, i)];

            if (warp->finished || !emu_warp_can_run(warp)) {
                continue;
            }
            any = *stepped_out = true;
            if (run->executed >= block->next_due && !emu_flights_due(block)) {
                return false;
            }
            if (!emu_warp_run(warp, turn_of(run))) {
                return false;
            }
        }
        if (over_limit(run)) {
            return true;
        }
    }
    return true;
}

static void describe_waiter(struct gk_buf *text, const struct emu_warp *warp,
                            const struct emu_group *group)
{
    const struct emu_run *run = warp->run;
    const struct emu_block *block = warp->block;
    const struct emu_barrier *barrier = &block->barriers[group->barrier];
    char where[400];

    emu_describe(run->kernel->module, &run->kernel->code[group->pc], where, sizeof(where));
    gk_buf_printf(text, "\n  block (%u,%u,%u) warp %u lanes 0x%08x: ", block->ctaid[0],
                  block->ctaid[1], block->ctaid[2], warp->index, group->mask);
    if (group->wait == EMU_WAIT_BARRIER) {
        gk_buf_printf(text, "at barrier %u, where %u of %u threads arrived, %s", group->barrier,
                      barrier->arrived,
                      barrier->expected ? barrier->expected : block->alive_threads, where);
    } else if (group->wait == EMU_WAIT_MBARRIER) {
        emu_mbarrier_describe(text, warp, group, where);
    } else if (group->wait == EMU_WAIT_POOL) {
        emu_registers_describe(text, warp, group, where);
    } else if (group->wait == EMU_WAIT_CLUSTER) {
        gk_buf_printf(text, "at the cluster's barrier, where %u threads arrived, %s",
                      (block - block->rank)->cluster_arrived, where);
    } else {
        gk_buf_printf(text, "for lanes 0x%08x of the warp, %s", warp->alive & ~group->mask, where);
    }
}

static void report_deadlock(struct emu_run *run)
{
    struct gk_buf text = {0};
    uint32_t listed = 0, waiters = 0;

    for (uint32_t b = 0; b < run->block_count; b++) {
        const struct emu_block *block = &run->blocks[b];

        for (uint32_t w = 0; block->live && w < block->warp_count; w++) {
            waiters += block->warps[w].group_count;
        }
    }
    gk_buf_printf(&text, "%" PRIu64 " of %" PRIu64 " blocks were started, %u groups of lanes wait:",
                  run->report->counts.blocks, run->total_blocks, waiters);
    for (uint32_t b = 0; b < run->block_count; b++) {
        const struct emu_block *block = &run->blocks[b];

        for (uint32_t w = 0; block->live && w < block->warp_count; w++) {
            for (uint32_t g = 0; g < block->warps[w].group_count; g++) {
                if (listed++ < WAITERS_LISTED) {
                    describe_waiter(&text, &block->warps[w], &block->warps[w].groups[g]);
                }
            }
        }
    }
    if (listed > WAITERS_LISTED) {
        gk_buf_printf(&text, "\n  and %u more", listed - WAITERS_LISTED);
    }
    emu_fault_launch(run, GK_EMU_FAULT_DEADLOCK, gk_buf_text(&text));
    gk_buf_fini(&text);
}

static void report_work_limit(struct emu_run *run)
{
    char text[300];

    (void)snprintf(text, sizeof(text),
                   "%" PRIu64 " warp instructions were executed in %" PRIu64 " of %" PRIu64
                   " blocks, the limit is %" PRIu64 ", where a block counts as %d",
                   run->executed, run->report->counts.blocks, run->total_blocks, run->limit,
                   BLOCK_WORK);
    emu_fault_launch(run, GK_EMU_FAULT_WORK_LIMIT, text);
}

/* Starts the next cluster at a place; blocks without clusters are clusters of one. */
static void unit_start(struct emu_run *run, uint32_t unit)
{
    uint64_t index = unit_in_order(run, run->next_block++) * run->cluster_blocks;

    for (uint32_t i = 0; i < run->cluster_blocks; i++) {
        block_start(run, &run->blocks[unit * run->cluster_blocks + i], index + i);
    }
}

/* One turn of all blocks of a place. *done_out: all of them have ended. */
static bool unit_turn(struct emu_run *run, uint32_t unit, bool *stepped, bool *done_out)
{
    *done_out = true;
    for (uint32_t i = 0; i < run->cluster_blocks; i++) {
        struct emu_block *block = &run->blocks[unit * run->cluster_blocks + i];

        if (block->live && !block_turn(run, block, stepped)) {
            return false;
        }
        if (block->live && block->warps_finished == block->warp_count) {
            block->live = false;
            if (!emu_flights_end(block) || !emu_order_end(block) || !emu_registers_end(block)) {
                return false;
            }
        }
        *done_out = *done_out && !block->live;
    }
    return true;
}

static bool block_can_run(const struct emu_block *block)
{
    for (uint32_t w = 0; w < block->warp_count; w++) {
        if (!block->warps[w].finished && emu_warp_can_run(&block->warps[w])) {
            return true;
        }
    }
    return false;
}

/* All blocks have had a turn: copies land in those that have nothing else to run, or that turn
 * round and round. `idle`: nothing ran at all. *stepped: something landed. false: a fault. */
static bool land_late(struct emu_run *run, bool idle, bool *stepped)
{
    for (uint32_t b = 0; b < run->block_count; b++) {
        struct emu_block *block = &run->blocks[b];

        if (!block->live || !block->flights.count) {
            continue;
        }
        if (!block_can_run(block) || ++block->turns > IDLE_TURNS_MAX) {
            block->turns = 0;
            if (!emu_flights_force(block, false, stepped)) {
                return false;
            }
        }
    }
    for (uint32_t b = 0; idle && !*stepped && b < run->block_count; b++) {
        if (run->blocks[b].live && !emu_flights_force(&run->blocks[b], true, stepped)) {
            return false;
        }
    }
    return true;
}

/* Runs all blocks. true: to the end. */
static bool run_blocks(struct emu_run *run)
{
    uint32_t places = run->block_count / run->cluster_blocks, live = 0;
    uint64_t units = run->total_blocks / run->cluster_blocks;

    for (uint32_t u = 0; u < places && run->next_block < units; u++) {
        unit_start(run, u);
        live++;
    }
    while (live) {
        bool stepped = false;

        for (uint32_t u = 0; u < places; u++) {
            bool was = false, done;

            for (uint32_t i = 0; i < run->cluster_blocks; i++) {
                was = was || run->blocks[u * run->cluster_blocks + i].live;
            }
            while (was) {
                if (!unit_turn(run, u, &stepped, &done)) {
                    return false;
                }
                if (over_limit(run)) {
                    report_work_limit(run);
                    return false;
                }
                if (!done) {
                    break;
                }
                stepped = true;
                if (run->next_block == units) {
                    live--;
                    break;
                }
                unit_start(run, u);
            }
        }
        if (!land_late(run, !stepped, &stepped)) {
            return false;
        }
        if (!stepped) {
            report_deadlock(run);
            return false;
        }
    }
    return true;
}

/* ------------------------------------------------------------------ the launch */

static enum gk_status check_dims(const struct gk_emu *emu, const struct gk_emu_kernel *kernel,
                                 const struct gk_emu_launch *launch, struct gk_err *err)
{
    static const char AXIS[] = "xyz";
    uint64_t threads = 1;

    for (unsigned i = 0; i < 3; i++) {
        if (launch->grid[i] < 1 || launch->grid[i] > emu->props.grid_max[i]) {
            return gk_fail(err, GK_INPUT, "kernel %s: grid.%c is %u, 1 to %u are allowed",
                           kernel->name, AXIS[i], launch->grid[i], emu->props.grid_max[i]);
        }
        if (launch->block[i] < 1 || launch->block[i] > emu->props.block_max[i]) {
            return gk_fail(err, GK_INPUT, "kernel %s: block.%c is %u, 1 to %u are allowed",
                           kernel->name, AXIS[i], launch->block[i], emu->props.block_max[i]);
        }
        if (launch->cluster[i] > (i ? 1u : CLUSTER_MAX) ||
            (launch->cluster[i] > 1 && emu->props.sm_major < 9)) {
            return gk_fail(err, GK_UNSUPPORTED,
                           "kernel %s: cluster.%c is %u; clusters lie along x, of 1 to %u blocks, "
                           "on sm_90",
                           kernel->name, AXIS[i], launch->cluster[i], CLUSTER_MAX);
        }
        if (launch->cluster[i] > 1 && launch->grid[i] % launch->cluster[i]) {
            return gk_fail(err, GK_INPUT,
                           "kernel %s: grid.%c is %u, a multiple of the cluster's %u is needed",
                           kernel->name, AXIS[i], launch->grid[i], launch->cluster[i]);
        }
        if (kernel->reqntid[0] && launch->block[i] != kernel->reqntid[i]) {
            return gk_fail(err, GK_INPUT, "kernel %s: block.%c is %u, the kernel requires %u",
                           kernel->name, AXIS[i], launch->block[i], kernel->reqntid[i]);
        }
        threads *= launch->block[i];
    }
    if (threads > emu->props.threads_per_block_max) {
        return gk_fail(err, GK_INPUT, "kernel %s: %" PRIu64 " threads a block, %u are allowed",
                       kernel->name, threads, emu->props.threads_per_block_max);
    }
    if (kernel->maxntid[0] &&
        threads > (uint64_t)kernel->maxntid[0] * kernel->maxntid[1] * kernel->maxntid[2]) {
        return gk_fail(err, GK_INPUT,
                       "kernel %s: %" PRIu64 " threads a block, its launch bounds "
                       "allow %u",
                       kernel->name, threads,
                       kernel->maxntid[0] * kernel->maxntid[1] * kernel->maxntid[2]);
    }
    return GK_OK;
}

static enum gk_status check_launch(struct emu_run *run, struct gk_err *err)
{
    const struct gk_emu_launch *launch = run->launch;
    const struct gk_emu_kernel *kernel = run->kernel;
    const struct gk_emu_props *props = &run->emu->props;
    enum gk_status status = check_dims(run->emu, kernel, launch, err);
    uint64_t shared = (uint64_t)kernel->static_smem_bytes + launch->dynamic_smem_bytes;

    if (status != GK_OK) {
        return status;
    }
    if (launch->params_size != kernel->params_size) {
        return gk_fail(err, GK_INPUT, "kernel %s: %u bytes of parameters are given, it takes %u",
                       kernel->name, launch->params_size, kernel->params_size);
    }
    if (shared > props->smem_per_block_opt_in_bytes) {
        return gk_fail(err, GK_INPUT,
                       "kernel %s: %" PRIu64 " bytes of shared memory (%u static, %u "
                       "dynamic), a block may have %u",
                       kernel->name, shared, kernel->static_smem_bytes, launch->dynamic_smem_bytes,
                       props->smem_per_block_opt_in_bytes);
    }
    if (!launch->registers_per_thread ||
        launch->registers_per_thread > props->registers_per_thread_max) {
        return gk_fail(err, GK_INPUT, "kernel %s: %u registers a thread, 1 to %u are allowed",
                       kernel->name, launch->registers_per_thread, props->registers_per_thread_max);
    }
    run->threads = launch->block[0] * launch->block[1] * launch->block[2];
    run->warps = (run->threads + EMU_LANES - 1) / EMU_LANES;
    run->shared_bytes = (uint32_t)shared;
    run->blocks_per_sm =
        gk_emu_occupancy(props, run->threads, launch->registers_per_thread, (uint32_t)shared);
    if (!run->blocks_per_sm) {
        return gk_fail(err, GK_INPUT,
                       "kernel %s: a block of %u threads with %u registers each and "
                       "%" PRIu64 " bytes of shared memory does not fit an SM",
                       kernel->name, run->threads, launch->registers_per_thread, shared);
    }
    return GK_OK;
}

static uint64_t step_coprime(struct emu_run *run, uint64_t count)
{
    for (;;) {
        uint64_t step = 1 + emu_random(run) % count, a = step, b = count;

        while (b) {
            uint64_t rest = a % b;

            a = b;
            b = rest;
        }
        if (a == 1) {
            return step;
        }
    }
}

static enum gk_status run_prepare(struct emu_run *run, struct gk_err *err)
{
    const struct gk_emu_launch *launch = run->launch;
    const struct gk_emu_kernel *kernel = run->kernel;
    uint64_t each, resident;

    run->local_bytes = kernel->local_bytes;
    run->local_stride = ((uint64_t)kernel->local_bytes + 63) / 64 * 64;
    run->total_blocks = (uint64_t)launch->grid[0] * launch->grid[1] * launch->grid[2];
    run->cluster_blocks = launch->cluster[0] ? launch->cluster[0] : 1;
    resident = (uint64_t)run->blocks_per_sm * run->emu->props.sm_count;
    resident = resident < run->total_blocks ? resident : run->total_blocks;
    each = (uint64_t)kernel->register_bytes * run->warps + run->shared_bytes +
           run->local_stride * EMU_LANES * run->warps + 4096;
    if (each > RESIDENT_BYTES_MAX) {
        return gk_fail(err, GK_LIMIT,
                       "kernel %s: one block needs %" PRIu64 " bytes of the host, at "
                       "most %" PRIu64 " are used",
                       kernel->name, each, (uint64_t)RESIDENT_BYTES_MAX);
    }
    if (resident > RESIDENT_BYTES_MAX / each) {
        resident = RESIDENT_BYTES_MAX / each; /* fewer places than the GPU has: still correct */
    }
    resident -= resident % run->cluster_blocks; /* a cluster runs as a whole */
    if (!resident) {
        return gk_fail(err, GK_INPUT, "kernel %s: no cluster of %u blocks is resident at once",
                       kernel->name, run->cluster_blocks);
    }
    run->block_count = (uint32_t)resident;
    run->order.off = run->emu->no_races;
    run->random = run->emu->seed * 0x9e3779b97f4a7c15ull + run->emu->launches;
    run->unit_first = emu_random(run) % (run->total_blocks / run->cluster_blocks);
    run->unit_step = step_coprime(run, run->total_blocks / run->cluster_blocks);
    run->blocks = calloc(run->block_count, sizeof(*run->blocks));
    run->hits = calloc(kernel->code_count + 1, sizeof(*run->hits));
    run->params = calloc(1, kernel->params_size + 16);
    if (!run->blocks || !run->hits || !run->params) {
        return gk_fail(err, GK_NOMEM, "launch of kernel %s", kernel->name);
    }
    memcpy(run->params, launch->params ? launch->params : "", kernel->params_size);
    for (uint32_t b = 0; b < run->block_count; b++) {
        run->blocks[b].sm = b % run->emu->props.sm_count;
        run->blocks[b].slot = b / run->emu->props.sm_count;
        run->blocks[b].rank = b % run->cluster_blocks;
        if (!block_allocate(run, &run->blocks[b])) {
            return gk_fail(err, GK_NOMEM, "%u resident blocks of kernel %s", run->block_count,
                           kernel->name);
        }
    }
    return GK_OK;
}

void emu_count_class(struct gk_emu_counts *counts, const struct emu_insn *insn, uint64_t hits)
{
    uint64_t lanes = hits * EMU_LANES;

    counts->warp_instructions += hits;
    switch ((enum emu_class)insn->class) {
    case EMU_CLASS_INT:
        counts->int_ops += lanes;
        break;
    case EMU_CLASS_FMA:
        counts->fma_ops += lanes;
        break;
    case EMU_CLASS_FP64:
        counts->fp64_ops += lanes;
        break;
    case EMU_CLASS_SPECIAL:
        counts->special_ops += lanes;
        break;
    case EMU_CLASS_TENSOR:
        counts->tensor_flops += hits * insn->work;
        break;
    default:
        break;
    }
}

static void sum_counts(struct emu_run *run)
{
    struct gk_emu_counts *counts = &run->report->counts;
    uint64_t places = (uint64_t)run->blocks_per_sm * run->emu->props.sm_count;

    for (uint32_t i = 0; i < run->kernel->code_count; i++) {
        emu_count_class(counts, &run->kernel->code[i], run->hits[i]);
    }
    counts->warp_instructions = run->executed;
    counts->blocks_per_sm = run->blocks_per_sm;
    counts->waves = (run->total_blocks + places - 1) / places;
}

static void run_fini(struct emu_run *run)
{
    for (uint32_t b = 0; run->blocks && b < run->block_count; b++) {
        block_free(&run->blocks[b]);
    }
    free(run->blocks);
    free(run->hits);
    free(run->params);
    emu_order_fini(&run->order);
}

enum gk_status gk_emu_launch(struct gk_emu *emu, struct gk_emu_kernel *kernel,
                             const struct gk_emu_launch *launch, struct gk_emu_report *report_out,
                             struct gk_err *err)
{
    struct gk_emu_report report = {0};
    struct emu_run run = {.emu = emu,
                          .kernel = kernel,
                          .launch = launch,
                          .report = &report,
                          .limit = emu->work_limit};
    enum gk_status status = check_launch(&run, err);

    emu->launches++;
    status = status == GK_OK ? run_prepare(&run, err) : status;
    status = status == GK_OK ? emu_ahead_begin(&run, err) : status;
    status = status == GK_OK ? emu_lines_begin(&run, err) : status;
    if (status != GK_OK) {
        run_fini(&run);
        return status;
    }
    if (!run_blocks(&run)) {
        status = GK_TRIAL;
    }
    sum_counts(&run);
    emu_ahead_end(&run);
    if (status == GK_OK) {
        report.modelled_ns = emu_model_ns(&emu->props, &report.counts, run.threads,
                                          run.pages_touched * EMU_PAGE_BYTES, &report.terms);
    } else {
        (void)gk_fail(err, GK_TRIAL, "%s", report.text);
    }
    *report_out = report;
    if (emu_lines_end(&run, err) != GK_OK) {
        status = GK_NOMEM;
    }
    run_fini(&run);
    return status;
}
