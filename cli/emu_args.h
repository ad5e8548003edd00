/*
 * The launch of a plain kernel as the command line describes it (gktune emu FILE.cu).
 */
#ifndef GK_CLI_EMU_ARGS_H
#define GK_CLI_EMU_ARGS_H

#include "cli/options.h"
#include "core/json.h"

/* "4", "4,2", "4,2,1" as a list of three. GK_USAGE names the option. */
enum gk_status gk_emu_triple(const char *text, const char *option, struct gk_json **list_out,
                             struct gk_err *err);
/* "f32[1024]=normal" is {dtype, elements, fill}, "i32=5" {dtype, value}. */
enum gk_status gk_emu_argument(const char *text, struct gk_json **argument_out, struct gk_err *err);
/* Sets entry, grid, block, cluster, smem, args and options of the request (worker/emu_plain.h). */
enum gk_status gk_emu_plain_request(const struct gk_options *options, struct gk_json *request,
                                    struct gk_err *err);

#endif
