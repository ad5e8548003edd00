/*
 * The emulated device for those who look inside (worker/emu_report.h): a seed, a fixed schedule,
 * and every launch shown as it ends, with its counts by source line.
 */
#ifndef GK_WORKER_DEVICE_EMU_H
#define GK_WORKER_DEVICE_EMU_H

#include "worker/device.h"
#include "worker/emu/emu_lines.h"

struct gk_emu_launched {
    const struct gk_emu_module *module;
    const struct gk_device_launch *launch;
    const struct gk_emu_report *report;
    const struct gk_emu_line *lines; /* as far as the launch came */
    uint32_t line_count;
};

struct gk_emu_watch {
    /* A module was made of this very text. */
    void (*loaded)(void *context, const char *ptx, const struct gk_emu_module *module);
    /* A launch has ended, well or not; everything is lent for the call. */
    void (*launched)(void *context, const struct gk_emu_launched *launched);
    void *context;
};

/* As gk_device_emu_open(). `watch` is copied. The device's launches take the schedules in turn
 * until gk_device_emu_schedule() fixes one. */
enum gk_status gk_device_emu_open_watched(const char *name, uint64_t seed,
                                          const struct gk_emu_watch *watch,
                                          struct gk_device **device_out, struct gk_err *err);
/* For all launches that follow, on a device of this file. */
void gk_device_emu_schedule(struct gk_device *device, enum gk_emu_schedule schedule);
/* By its name. GK_USAGE names those there are. */
enum gk_status gk_device_emu_schedule_find(const char *name, enum gk_emu_schedule *schedule_out,
                                           struct gk_err *err);

#endif
