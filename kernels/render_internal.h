/*
 * Inside the renderer: the limits that a plan is held against. Nothing outside kernels/ includes this.
 */
#ifndef GK_KERNELS_RENDER_INTERNAL_H
#define GK_KERNELS_RENDER_INTERNAL_H

#include "kernels/render.h"

/* Grid, block, cluster and shared memory of a launch against what the hardware and the device take; each
 * message names the launch, the dimension, the value and the limit. */
enum gk_status gk_launch_check(const struct gk_plan_launch *launch,
                               const struct gk_device_props *dev, struct gk_err *err);
/* One dimension of grid, block or cluster: 1 to limit. */
enum gk_status gk_dimension_check(const struct gk_launch_def *launch, const char *what, uint32_t axis,
                                  int64_t value, int64_t limit, struct gk_err *err);
/* An argument's bits from a value: i32 and u32 must hold it. */
enum gk_status gk_scalar_encode(enum gk_scalar scalar, bool is_real, union gk_value value,
                                const char *where, struct gk_plan_arg *arg, struct gk_err *err);

#endif
