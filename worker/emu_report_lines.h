/*
 * Launches of the emulated device as JSON: totals, the model's terms, and the lines of the source
 * that made them. Also finds the lines that a message names.
 */
#ifndef GK_WORKER_EMU_REPORT_LINES_H
#define GK_WORKER_EMU_REPORT_LINES_H

#include "core/json.h"
#include "worker/compile_job.h"
#include "worker/device_emu.h"

#define GK_EMU_SOURCES_MAX 1024
#define GK_EMU_PLACES_MAX  32 /* lines of a message that are shown */

/* Texts that were compiled, under the names that they were compiled by. */
struct gk_emu_sources {
    struct {
        char *name, *text;
    } files[GK_EMU_SOURCES_MAX];
    uint32_t count;
};

void gk_emu_sources_fini(struct gk_emu_sources *sources);
/* Copies; a name that is there already stays as it is. GK_LIMIT past the maximum. */
enum gk_status gk_emu_sources_add(struct gk_emu_sources *sources, const char *name,
                                  const char *text, struct gk_err *err);
/* Name of the source that the PTX calls `path`: the longest that its end is. NULL: none. */
const char *gk_emu_sources_name(const struct gk_emu_sources *sources, const char *path);

/* {name: text}. NULL when out of memory. */
struct gk_json *gk_emu_sources_to_json(const struct gk_emu_sources *sources);

/* One launch. `innermost`: lines are where an instruction stands; else in the innermost file that
 * is no header of <gk/...>. NULL when out of memory. */
struct gk_json *gk_emu_launch_to_json(const struct gk_emu_sources *sources,
                                      const struct gk_emu_launched *launched, bool innermost);
/* {schedule, stage, kind, message, places} of what went wrong; `schedule` may be NULL. NULL when
 * out of memory. */
struct gk_json *gk_emu_failure_to_json(const struct gk_emu_sources *sources, const char *schedule,
                                       const char *stage, const char *kind, const char *text);
/* The message with sources by their names, without the folder that NVRTC ran in. The caller frees;
 * NULL when out of memory. */
char *gk_emu_message(const struct gk_emu_sources *sources, const char *message);
/* [{file, line, text}] of every "file:line" in the message, in its order, each once. NULL when out
 * of memory. */
struct gk_json *gk_emu_places_to_json(const struct gk_emu_sources *sources, const char *message);

#endif
