/* See emu_ahead.h. */
#include "worker/emu/emu_ahead.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "worker/emu/emu_touch.h"

/* ------------------------------------------------------------------ between launches */

/* The shadow of the launch ahead moves down one level; what was there has been waited for. */
static void keep_shadows(struct gk_emu *emu, uint64_t launch, bool deeper)
{
    for (size_t i = 0; i < emu->memory.count; i++) {
        struct emu_alloc *alloc = emu->memory.allocs[i];

        if (deeper) {
            emu_shadow_fini(&alloc->ahead[1]);
            alloc->ahead[1] = alloc->ahead[0];
            alloc->ahead[0] = (struct emu_shadow){0};
        }
        if (alloc->shadow.stamp == launch) {
            emu_shadow_fini(&alloc->ahead[0]);
            alloc->ahead[0] = alloc->shadow;
            alloc->shadow = (struct emu_shadow){0};
        }
    }
}

enum gk_status emu_ahead_begin(struct emu_run *run, struct gk_err *err)
{
    struct emu_ahead *ahead = &run->emu->ahead;

    if (!run->launch->overlaps || run->order.off || !ahead->count) {
        ahead->count = 0;
        return GK_OK;
    }
    if (ahead->count > EMU_AHEAD_LEVELS) {
        return gk_fail(err, GK_UNSUPPORTED,
                       "kernel %s: %u launches ahead of it began early and waited for nothing (%s "
                       "the last); the emulated device follows %u",
                       run->kernel->name, ahead->count, ahead->at[0].name, EMU_AHEAD_LEVELS);
    }
    keep_shadows(run->emu, ahead->at[0].launch, ahead->count > 1);
    run->ahead = ahead->count;
    return GK_OK;
}

void emu_ahead_end(struct emu_run *run)
{
    struct emu_ahead *ahead = &run->emu->ahead;

    /* One thread's wait is enough: the launch does not end before it, nor what it waited for. */
    ahead->count = run->ahead && !run->waited_ahead ? run->ahead : 0;
    memmove(&ahead->at[1], &ahead->at[0], sizeof(ahead->at) - sizeof(ahead->at[0]));
    ahead->at[0].launch = run->emu->launches;
    ahead->at[0].kernel = run->kernel;
    (void)snprintf(ahead->at[0].name, sizeof(ahead->at[0].name), "%s", run->kernel->name);
    ahead->count++;
}

void emu_ahead_forget(struct gk_emu *emu)
{
    emu->ahead.count = 0;
}

void emu_ahead_unload(struct gk_emu *emu, const struct gk_emu_module *module)
{
    for (uint32_t i = 0; i < GK_ARRAY_COUNT(emu->ahead.at); i++) {
        if (emu->ahead.at[i].kernel && emu->ahead.at[i].kernel->module == module) {
            emu->ahead.at[i].kernel = NULL;
        }
    }
}

/* ------------------------------------------------------------------ while a launch runs */

void emu_ahead_wait(struct emu_warp *warp, uint32_t mask)
{
    struct emu_run *run = warp->run;

    run->waited_ahead = true;
    if (run->ahead) {
        emu_order_ahead(warp, mask);
    }
}

/* What the thread knows of the launch ahead is all of it or nothing. */
static bool has_waited(const struct touch *touch)
{
    const struct emu_far *far = touch->warp->order.known[touch->lane].all.far;

    return far && far->part[far->count - 1]->block == EMU_AHEAD_BLOCK;
}

static int report(const struct touch *touch, uint32_t level, const struct emu_alloc *alloc,
                  bool wrote, uint32_t pc)
{
    const struct emu_ahead *ahead = &touch->warp->run->emu->ahead;
    const struct gk_emu_kernel *kernel = ahead->at[level].kernel;
    char where[500] = "a place whose module is gone";

    if (kernel && pc < kernel->code_count) {
        emu_describe(kernel->module, &kernel->code[pc], where, sizeof(where));
    }
    return emu_fault(
        touch->warp, touch->insn, touch->lane, GK_EMU_FAULT_RACE, touch->address,
        "%s of %u bytes at global address 0x%" PRIx64 " (offset %" PRIu64
        " of '%s') is not ordered behind the %s by the launch %s, kernel %s, at %s: %s",
        touch->write ? "write" : "read", touch->bytes, touch->address,
        touch->address - alloc->address, alloc->name, wrote ? "write" : "read",
        level ? "two ahead" : "ahead", ahead->at[level].name, where,
        level ? "the launch between them waited for nothing (griddepcontrol.wait)"
              : "the thread is behind no griddepcontrol.wait");
}

static int touch_level(const struct touch *touch, uint32_t level, const struct emu_alloc *alloc)
{
    const struct emu_shadow *shadow = &alloc->ahead[level];
    uint64_t first = touch->address - alloc->address, last = first + touch->bytes - 1;
    const struct emu_shadow_page *page;

    if (!shadow->pages || shadow->stamp != touch->warp->run->emu->ahead.at[level].launch) {
        return EMU_NEXT;
    }
    page = &shadow->pages[first / EMU_SHADOW_BYTES]; /* an access is aligned: it lies in one page */
    if (!page->cells || page->stamp != shadow->stamp) {
        return EMU_NEXT;
    }
    for (uint64_t i = first % EMU_SHADOW_BYTES >> page->shift;
         i <= last % EMU_SHADOW_BYTES >> page->shift; i++) {
        const struct emu_cell *cell = &page->cells[i];

        if (cell->writer) {
            return report(touch, level, alloc, true, cell->writer_pc);
        }
        if (cell->reader && touch->write) {
            return report(touch, level, alloc, false, cell->reader_pc);
        }
    }
    return EMU_NEXT;
}

int emu_ahead_touch(const struct touch *touch)
{
    struct emu_run *run = touch->warp->run;
    const struct emu_alloc *alloc =
        emu_memory_find(&run->emu->memory, touch->address, touch->bytes);

    for (uint32_t level = has_waited(touch) ? 1 : 0; alloc && level < run->ahead; level++) {
        if (touch_level(touch, level, alloc) != EMU_NEXT) {
            return EMU_STOP;
        }
    }
    return EMU_NEXT;
}
