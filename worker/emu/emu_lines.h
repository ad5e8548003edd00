/*
 * Counts by place in the source: which line made the sectors, the bank conflicts, the waits.
 *
 * Off by default, and then nothing but a null pointer is looked at. While on, a launch keeps a set
 * of counts for each instruction: what the launch's own counts grew by while it executed, so that
 * the lines of a launch add up to its report. Beside them stands what the same requests would need
 * at best, which only this tool wants to know.
 */
#ifndef GK_WORKER_EMU_EMU_LINES_H
#define GK_WORKER_EMU_EMU_LINES_H

#include "worker/emu/emu.h"

#define GK_EMU_FRAMES_MAX 12 /* deeper inlining keeps its innermost frames */

struct gk_emu_frame {
    const char *file; /* as the PTX names it; lent by the module */
    uint32_t line;
};

/* What the requests of the counts would need without a conflict and with every byte of a sector in
 * use: lanes that ask for one word count once. */
struct gk_emu_ideal {
    uint64_t global_load_sectors, global_store_sectors;
    uint64_t shared_wavefronts;
};

/* One place: a source line, through the calls that were inlined there. */
struct gk_emu_line {
    struct gk_emu_frame frames[GK_EMU_FRAMES_MAX]; /* innermost first */
    uint32_t frame_count;                          /* 0: the PTX says nothing of it */
    uint32_t ptx_line;                             /* of its first instruction that ran */
    /* As of the launch; blocks, warps, blocks_per_sm and waves stay 0. */
    struct gk_emu_counts counts;
    struct gk_emu_ideal ideal;
    uint64_t waits; /* times a warp stood still here: barriers, mbarrier phases not ended yet */
};

/* Turns counting on or off for the launches that follow. GK_NOMEM. */
enum gk_status gk_emu_count_lines(struct gk_emu *emu, bool on, struct gk_err *err);
/* Places of the last launch that ran, in the order of its code; lent until the next launch, the
 * unloading of its module or the end of counting. 0 while counting is off. */
uint32_t gk_emu_lines(const struct gk_emu *emu, const struct gk_emu_line **lines_out);

/* The module that a kernel stands in. */
const struct gk_emu_module *gk_emu_kernel_module(const struct gk_emu_kernel *kernel);

/* ------------------------------------------------------------------ for the emulator's files */

struct emu_warp;
struct emu_insn;
struct emu_run;
struct emu_reach;
struct emu_lines;

void emu_lines_destroy(struct emu_lines *lines);
/* Before a launch's first instruction, and after its last. */
enum gk_status emu_lines_begin(struct emu_run *run, struct gk_err *err);
enum gk_status emu_lines_end(struct emu_run *run, struct gk_err *err);
/* Executes the instruction and keeps what it did. */
int emu_lines_exec(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask);
/* A request of `bytes` a lane; `is_shared`: of shared memory, else global. */
void emu_lines_request(struct emu_lines *lines, const uint64_t *address, uint32_t mask,
                       uint32_t bytes, bool is_shared, bool is_store);

#endif
