/*
 * Programmatic dependent launch: a launch that may begin before the one ahead of it has ended.
 *
 * Launches run one after another here, so the values are always those of a late begin. What the
 * kernel did not wait for is found by order: while such a launch runs, the shadow memory of the
 * launch ahead is kept, and an access that conflicts with it is a race unless the thread comes
 * behind a griddepcontrol.wait, its own or one that a barrier or another edge leads to.
 * griddepcontrol.launch_dependents only says when the next launch may begin at the earliest, and
 * none promises that memory can be seen without the wait (PTX ISA, griddepcontrol), so it makes no
 * difference here whether the launch ahead has one.
 *
 * A wait ends when the launch ahead has ended. That launch may itself have begun early and waited
 * for nothing; then the one before it may still run, and no wait of this launch says anything of
 * it. A third such launch in a row is refused by name.
 */
#ifndef GK_WORKER_EMU_EMU_AHEAD_H
#define GK_WORKER_EMU_EMU_AHEAD_H

#include <stdbool.h>
#include <stdint.h>

#include "core/status.h"

#define EMU_AHEAD_LEVELS 2u /* the launch ahead, and the one before it that nobody waited for */
/* Stands for the launch ahead where blocks of this one stand: behind all of them. */
#define EMU_AHEAD_BLOCK UINT64_MAX

struct emu_run;
struct emu_warp;
struct touch;
struct gk_emu;
struct gk_emu_kernel;
struct gk_emu_module;

/* Of the device, between launches. */
struct emu_ahead {
    struct {
        uint64_t launch;                    /* number; 0: nothing lies ahead */
        const struct gk_emu_kernel *kernel; /* NULL: its module is gone */
        char name[64];
    } at[EMU_AHEAD_LEVELS + 1];
    uint32_t count; /* of `at`: launches that the next one may overlap */
};

/* Before the blocks run. GK_UNSUPPORTED: too many launches in a row that wait for nothing. */
enum gk_status emu_ahead_begin(struct emu_run *run, struct gk_err *err);
/* After the launch: it is what lies ahead of the next one. */
void emu_ahead_end(struct emu_run *run);
/* The host or a copy in the stream has waited for everything: nothing lies ahead. */
void emu_ahead_forget(struct gk_emu *emu);
void emu_ahead_unload(struct gk_emu *emu, const struct gk_emu_module *module);

/* griddepcontrol.wait of these lanes. */
void emu_ahead_wait(struct emu_warp *warp, uint32_t mask);
/* An access to global memory against what lies ahead. EMU_NEXT or EMU_STOP. */
int emu_ahead_touch(const struct touch *touch);

#endif
