/* Words of the command line that describe a problem or an arch. */
#ifndef GK_CLI_SHAPE_OPTION_H
#define GK_CLI_SHAPE_OPTION_H

#include "core/json.h"

/* "M=16,N=64,dtype=f16" as an object; a value is a number, true, false, JSON in brackets, or a
 * word. `option` names it in errors. The caller frees. */
enum gk_status gk_shape_parse(const char *text, const char *option, struct gk_json **fields_out,
                              struct gk_err *err);

/* The emulated device of an arch, as it is written anywhere: "sm_80", "emu-sm_80", "emu:sm_80" or
 * "emu" become "emu:sm_80". Other words stay as they are, for an error to name. */
void gk_emu_device_name(const char *arch, char device_out[64]);

#endif
