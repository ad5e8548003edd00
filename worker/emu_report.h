/*
 * What one config of a template does on the emulated device, line by line, as JSON: the worker's
 * half of `gktune emu`, which starts `gktune-worker --emu-report REQUEST` and renders what comes
 * back.
 *
 * Everything is that of a trial: the renderer, NVRTC, the ladder, the bounds. Only the schedules of
 * launches are chosen, and the counts are kept by source line.
 */
#ifndef GK_WORKER_EMU_REPORT_H
#define GK_WORKER_EMU_REPORT_H

#include "core/json.h"
#include "worker/compiler.h"

/* Runs the request, an object:
 *     kernels    folder of ops and templates
 *     what       op, family, or path of a kernel.json
 *     problem, config   canonical texts
 *     device     "emu:sm_80"
 *     schedules  list of "late", "early", "random", at least one: a trial each, until one fails
 *     seed       of the random schedule
 *     input_set  0 to 3
 *     sources    true: the texts too
 *     innermost  true: counts stand at the innermost line, also inside of <gk/...>
 * or, for a plain source, what worker/emu_plain.h says. GK_OK whether the kernel is right or not:
 * the report (definition "emu" of schemas/cli.schema.json) says so. The caller frees it. */
enum gk_status gk_emu_report(const struct gk_json *request, struct gk_compiler *compiler,
                             struct gk_json **report_out, struct gk_err *err);

#endif
