/*
 * Counts by place in the source: see emu_lines.h.
 */
#include "worker/emu/emu_lines.h"
#include "worker/emu/emu_inside.h"

#include <stdlib.h>
#include <string.h>

/* Of one instruction. */
struct sums {
    struct gk_emu_counts counts;
    struct gk_emu_ideal ideal;
    uint64_t waits;
};

struct emu_lines {
    struct sums *sums; /* by instruction of the kernel that runs */
    uint32_t sum_count;
    struct gk_emu_ideal now; /* of the launch so far */
    struct gk_emu_line *lines;
    uint32_t line_count;
};

_Static_assert(sizeof(struct gk_emu_counts) % sizeof(uint64_t) == 0, "counts are 64-bit words");
_Static_assert(sizeof(struct gk_emu_ideal) % sizeof(uint64_t) == 0, "ideals are 64-bit words");

enum gk_status gk_emu_count_lines(struct gk_emu *emu, bool on, struct gk_err *err)
{
    emu_lines_destroy(emu->lines);
    emu->lines = on ? calloc(1, sizeof(*emu->lines)) : NULL;
    return !on || emu->lines ? GK_OK : gk_fail(err, GK_NOMEM, "counts by line");
}

uint32_t gk_emu_lines(const struct gk_emu *emu, const struct gk_emu_line **lines_out)
{
    *lines_out = emu->lines ? emu->lines->lines : NULL;
    return emu->lines ? emu->lines->line_count : 0;
}

const struct gk_emu_module *gk_emu_kernel_module(const struct gk_emu_kernel *kernel)
{
    return kernel->module;
}

void emu_lines_destroy(struct emu_lines *lines)
{
    if (lines) {
        free(lines->sums);
        free(lines->lines);
        free(lines);
    }
}

/* ------------------------------------------------------------------ while a launch runs */

enum gk_status emu_lines_begin(struct emu_run *run, struct gk_err *err)
{
    struct emu_lines *lines = run->emu->lines;

    if (!lines) {
        return GK_OK;
    }
    free(lines->sums);
    free(lines->lines);
    *lines = (struct emu_lines){.sum_count = run->kernel->code_count};
    lines->sums = calloc((size_t)lines->sum_count + 1, sizeof(*lines->sums));
    if (!lines->sums) {
        return gk_fail(err, GK_NOMEM, "counts of %u instructions", lines->sum_count);
    }
    run->lines = lines;
    return GK_OK;
}

/* to += now - before, word by word. */
static void add_growth(void *to, const void *now, const void *before, size_t bytes)
{
    uint64_t *sum = to;
    const uint64_t *a = now, *b = before;

    for (size_t i = 0; i < bytes / sizeof(uint64_t); i++) {
        sum[i] += a[i] - b[i];
    }
}

/* An instruction that waits (EMU_BLOCK) or looked in vain (EMU_YIELD) is met again: each time is a
 * wait. Waiting for other lanes of the warp is none: barrier_waits does not grow then. */
int emu_lines_exec(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)
{
    struct emu_lines *lines = warp->run->lines;
    const struct gk_emu_counts *counts = &warp->run->report->counts;
    struct sums *sums = &lines->sums[insn - warp->run->kernel->code];
    const struct gk_emu_counts before = *counts;
    const struct gk_emu_ideal ideal = lines->now;
    int step = insn->exec(warp, insn, mask);

    add_growth(&sums->counts, counts, &before, sizeof(before));
    add_growth(&sums->ideal, &lines->now, &ideal, sizeof(ideal));
    sums->waits += counts->barrier_waits - before.barrier_waits + (step == EMU_YIELD);
    return step;
}

/* Different words of `bytes` that the lanes ask for. */
static uint32_t distinct(const uint64_t *address, uint32_t mask)
{
    uint32_t count = 0;

    for (uint32_t left = mask; left; left &= left - 1) {
        unsigned l = (unsigned)__builtin_ctz(left);
        uint32_t before = mask & ((1u << l) - 1);
        bool found = false;

        for (; before && !found; before &= before - 1) {
            found = address[__builtin_ctz(before)] == address[l];
        }
        count += !found;
    }
    return count;
}

/* 4 bytes a lane are one pass of the banks, 8 are one for each half of the warp that takes part, 16
 * one for each quarter. */
static uint32_t ideal_wavefronts(uint32_t mask, uint32_t bytes, bool uniform)
{
    uint32_t lanes = bytes <= 4 ? 32 : bytes == 8 ? 16 : 8, count = 0;

    if (uniform || lanes == EMU_LANES) {
        return 1;
    }
    for (uint32_t first = 0; first < EMU_LANES; first += lanes) {
        count += (mask >> first & ((1u << lanes) - 1)) != 0;
    }
    return count;
}

void emu_lines_request(struct emu_lines *lines, const uint64_t *address, uint32_t mask,
                       uint32_t bytes, bool is_shared, bool is_store)
{
    uint32_t words = distinct(address, mask);

    if (is_shared) {
        lines->now.shared_wavefronts += ideal_wavefronts(mask, bytes, words == 1);
    } else if (is_store) {
        lines->now.global_store_sectors += (words * bytes + 31) / 32;
    } else {
        lines->now.global_load_sectors += (words * bytes + 31) / 32;
    }
}

/* ------------------------------------------------------------------ after it */

/* Line 0 is what the compiler made up inside of a call: the call's own line stands for it. */
static void set_frames(struct gk_emu_line *line, const struct gk_emu_module *module, uint32_t loc)
{
    for (; loc && line->frame_count < GK_EMU_FRAMES_MAX; loc = module->locs[loc].parent) {
        const struct emu_loc *at = &module->locs[loc];

        if (at->line && at->file && at->file <= module->file_count && module->files[at->file - 1]) {
            line->frames[line->frame_count++] =
                (struct gk_emu_frame){.file = module->files[at->file - 1], .line = at->line};
        }
    }
}

enum gk_status emu_lines_end(struct emu_run *run, struct gk_err *err)
{
    static const struct sums none;
    struct emu_lines *lines = run->lines;
    const struct gk_emu_kernel *kernel = run->kernel;
    const struct gk_emu_module *module = kernel->module;
    uint32_t *place; /* 1 + line of each .loc */

    if (!lines) {
        return GK_OK;
    }
    place = calloc((size_t)module->loc_count + 1, sizeof(*place));
    lines->lines = calloc((size_t)module->loc_count + 1, sizeof(*lines->lines));
    if (!place || !lines->lines) {
        free(place);
        return gk_fail(err, GK_NOMEM, "counts of %u places", module->loc_count);
    }
    for (uint32_t i = 0; i < kernel->code_count; i++) {
        const struct emu_insn *insn = &kernel->code[i];
        struct gk_emu_line *line;

        if (!run->hits[i]) {
            continue;
        }
        if (!place[insn->loc]) {
            place[insn->loc] = ++lines->line_count;
            line = &lines->lines[lines->line_count - 1];
            line->ptx_line = insn->line;
            set_frames(line, module, insn->loc);
        }
        line = &lines->lines[place[insn->loc] - 1];
        add_growth(&line->counts, &lines->sums[i].counts, &none.counts, sizeof(none.counts));
        add_growth(&line->ideal, &lines->sums[i].ideal, &none.ideal, sizeof(none.ideal));
        line->waits += lines->sums[i].waits;
        emu_count_class(&line->counts, insn, run->hits[i]);
    }
    free(place);
    return GK_OK;
}
