/*
 * Inside the renderer: the limits that a plan is held against. Nothing outside kernels/ includes
 * this.
 */
#ifndef GK_KERNELS_RENDER_INTERNAL_H
#define GK_KERNELS_RENDER_INTERNAL_H

#include "kernels/render.h"

/* Grid, block, cluster and shared memory of a launch against what the hardware and the device take;
 * each message names the launch, the dimension, the value and the limit. */
enum gk_status gk_launch_check(const struct gk_plan_launch *launch,
                               const struct gk_device_props *dev, struct gk_err *err);
/* One dimension of grid, block or cluster: 1 to limit. */
enum gk_status gk_dimension_check(const struct gk_launch_def *launch, const char *what,
                                  uint32_t axis, int64_t value, int64_t limit, struct gk_err *err);
/* An argument's bits from a value: i32 and u32 must hold it. */
enum gk_status gk_scalar_encode(enum gk_scalar scalar, bool is_real, union gk_value value,
                                const char *where, struct gk_plan_arg *arg, struct gk_err *err);

/* The value of an expression, `fallback` where it is absent; an error names what it was for. */
enum gk_status gk_render_eval(const struct gk_plan *plan, struct gk_err *err,
                              const struct gk_expr *expr, int64_t fallback, int64_t *value_out,
                              const char *format, ...) __attribute__((format(printf, 6, 7)));
/* Whether something exists: its `when`, true if it has none. False also on an error, in *status. */
bool gk_render_truth(const struct gk_plan *plan, struct gk_err *err, const struct gk_expr *when,
                     enum gk_status *status, const char *kind, const char *name);

enum gk_status gk_render_tensor(const struct gk_plan *plan, const struct gk_tensor *def,
                                struct gk_plan_tensor *tensor, struct gk_err *err);
/* After the tensors: a view must lie inside its tensor. */
enum gk_status gk_render_map(const struct gk_plan *plan, const struct gk_tensor_map *def,
                             struct gk_plan_map *map, struct gk_err *err);
enum gk_status gk_render_workspace(const struct gk_plan *plan, const struct gk_workspace *def,
                                   struct gk_plan_workspace *workspace, struct gk_err *err);
/* After tensors, maps and workspaces. config is NULL for the reference. */
enum gk_status gk_render_launch(struct gk_plan *plan, uint32_t index,
                                const struct gk_launch_def *def, const struct gk_problem *problem,
                                const struct gk_config *config, struct gk_err *err);
/* True if the launch's grid waits for k.*. */
bool gk_render_reads_k(const struct gk_plan *plan, const struct gk_launch_def *def);
enum gk_status gk_render_grid(const struct gk_plan *plan, struct gk_plan_launch *launch,
                              struct gk_err *err);

#endif
