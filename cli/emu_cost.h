/*
 * What one line of a launch costs by the model: its part of each of the model's terms, and the
 * largest of them. MODELLED, like the terms.
 */
#ifndef GK_CLI_EMU_COST_H
#define GK_CLI_EMU_COST_H

#include "core/json.h"

struct gk_emu_cost {
    const char *term; /* "shared", "tensor", "dram", ...; "" where the line costs nothing */
    double ns;        /* of that term; where the launch has no model: warp instructions */
    double share;     /* of the launch's most expensive term, 0 to 1 */
};

/* `launch` and one of its `lines`. */
struct gk_emu_cost gk_emu_cost_of(const struct gk_json *launch, const struct gk_json *line);

#endif
