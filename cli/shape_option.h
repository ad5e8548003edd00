/* Words of the command line that describe a problem or an arch. */
#ifndef GK_CLI_SHAPE_OPTION_H
#define GK_CLI_SHAPE_OPTION_H

#include "core/device_props.h"
#include "core/json.h"

/* "M=16,N=64,dtype=f16" as an object; a value is a number, true, false, JSON in brackets, or a
 * word. `option` names it in errors. The caller frees. */
enum gk_status gk_shape_parse(const char *text, const char *option, struct gk_json **fields_out,
                              struct gk_err *err);

/* An arch as the store has it: "emu:sm_80" and "emu" are emu-sm_80, "mock" likewise; other words
 * stay as they are. */
void gk_arch_name(const char *text, char arch_out[64]);
/* The built-in limits of an emulated or mock arch. A GPU's are known to its worker alone: the error
 * says which emulated arch is near. */
enum gk_status gk_arch_limits(const char *arch, struct gk_device_props *props_out,
                              struct gk_err *err);

/* The emulated device of an arch, as it is written anywhere: "sm_80", "emu-sm_80", "emu:sm_80" or
 * "emu" become "emu:sm_80". Other words stay as they are, for an error to name. */
void gk_emu_device_name(const char *arch, char device_out[64]);

#endif
