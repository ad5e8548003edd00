/*
 * A user's own CUDA C++ on the emulated device, without a template: one kernel, one launch, buffers
 * that are filled as asked. No reference, so nothing is verified: that it runs, and under which
 * schedules to the same bytes, is what can be said.
 */
#ifndef GK_WORKER_EMU_PLAIN_H
#define GK_WORKER_EMU_PLAIN_H

#include "core/json.h"
#include "worker/compiler.h"

/* The request of worker/emu_report.h without problem, config and input_set, with
 *     what     path of a .cu file; files beside it and <gk/...> may be included
 *     entry    the kernel's name, as written in C++; absent: the only one there is
 *     grid, block, cluster   lists of up to three numbers
 *     smem     bytes of dynamic shared memory
 *     args     list of {dtype, elements, fill} (a buffer; fill is normal, uniform, iota, none, or a
 *              number; `none` is memory that nobody wrote) and {dtype, value} (a scalar)
 *     options  further options of NVRTC
 * The report is "emu" of schemas/cli.schema.json, its plain form. Errors as of gk_emu_report(). */
enum gk_status gk_emu_plain(const struct gk_json *request, struct gk_compiler *compiler,
                            struct gk_json **report_out, struct gk_err *err);

#endif
