/*
 * What the renderer is made of: expressions with a name, limits of launches, argument bits. Pure.
 */
#include "kernels/render_internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* The same on every GPU that NVRTC compiles for; dev.* carries what differs. */
static const int64_t block_max[3] = {1024, 1024, 64};
#define CLUSTER_PORTABLE_MAX 8
#define CLUSTER_MAX          16

enum gk_status gk_dimension_check(const struct gk_launch_def *launch, const char *what,
                                  uint32_t axis, int64_t value, int64_t limit, struct gk_err *err)
{
    if (value >= 1 && value <= limit) {
        return GK_OK;
    }
    return gk_fail(err, GK_LIMIT, "launch %s: %s.%c is %" PRId64 "; 1 to %" PRId64 " is allowed",
                   launch->name, what, (char)('x' + axis), value, limit);
}

static enum gk_status check_cluster(const struct gk_plan_launch *launch,
                                    const struct gk_device_props *dev, struct gk_err *err)
{
    const char *name = launch->def->name;
    int64_t blocks = (int64_t)launch->cluster[0] * launch->cluster[1] * launch->cluster[2];
    if (blocks <= 1) {
        return GK_OK;
    }
    bool portable = !launch->def->nonportable_cluster;
    int64_t limit = dev->cluster_max; /* that a device takes from anybody */
    if (limit >= CLUSTER_PORTABLE_MAX) {
        limit = portable ? CLUSTER_PORTABLE_MAX : CLUSTER_MAX; /* of more the driver decides */
    }
    if (blocks > limit) {
        return gk_fail(err, GK_LIMIT,
                       "launch %s: a cluster of %" PRId64 " blocks; at most %" PRId64 " on %s%s",
                       name, blocks, limit, dev->target,
                       portable && limit == CLUSTER_PORTABLE_MAX
                           ? " without the attribute nonportable_cluster"
                           : "");
    }
    for (uint32_t i = 0; i < 3; i++) {
        if (launch->grid[i] % launch->cluster[i] != 0) {
            return gk_fail(err, GK_LIMIT,
                           "launch %s: grid.%c is %" PRIu32 "; a multiple of cluster.%c = %" PRIu32
                           " is allowed",
                           name, (char)('x' + i), launch->grid[i], (char)('x' + i),
                           launch->cluster[i]);
        }
    }
    return GK_OK;
}

enum gk_status gk_launch_check(const struct gk_plan_launch *launch,
                               const struct gk_device_props *dev, struct gk_err *err)
{
    const struct gk_launch_def *def = launch->def;
    int64_t threads = (int64_t)launch->block[0] * launch->block[1] * launch->block[2];
    for (uint32_t i = 0; i < 3; i++) {
        enum gk_status status =
            gk_dimension_check(def, "block", i, launch->block[i], block_max[i], err);
        if (status != GK_OK) {
            return status;
        }
    }
    if (threads > dev->threads_block_max) {
        return gk_fail(err, GK_LIMIT,
                       "launch %s: a block of %" PRId64 " threads; at most %" PRId64 " on %s",
                       def->name, threads, dev->threads_block_max, dev->target);
    }
    if (launch->smem_bytes > dev->smem_block_max) {
        return gk_fail(err, GK_LIMIT,
                       "launch %s: %" PRIu32 " bytes of shared memory; at most %" PRId64 " on %s",
                       def->name, launch->smem_bytes, dev->smem_block_max, dev->target);
    }
    return check_cluster(launch, dev, err);
}

/* ------------------------------------------------------------------ expressions with a name */

/* `fallback` when the expression is absent; an error names what it was for. */
enum gk_status gk_render_eval(const struct gk_plan *plan, struct gk_err *err,
                              const struct gk_expr *expr, int64_t fallback, int64_t *value_out,
                              const char *format, ...)
{
    struct gk_err inner = {0};
    *value_out = fallback;
    if (!expr) {
        return GK_OK;
    }
    enum gk_status status = gk_expr_eval_int(expr, plan->slots, value_out, &inner);
    if (status == GK_OK) {
        return GK_OK;
    }
    char what[160];
    va_list ap;
    va_start(ap, format);
    (void)vsnprintf(what, sizeof what, format, ap); /* a cut name still helps */
    va_end(ap);
    return gk_fail(err, status, "%s: %s", what, inner.text);
}

bool gk_render_truth(const struct gk_plan *plan, struct gk_err *err, const struct gk_expr *when,
                     enum gk_status *status, const char *kind, const char *name)
{
    int64_t holds = 1;
    *status = gk_render_eval(plan, err, when, 1, &holds, "%s %s: when", kind, name);
    return *status == GK_OK && holds != 0;
}

/* ------------------------------------------------------------------ arguments */

static enum gk_status encode_integer(enum gk_scalar scalar, int64_t value, const char *where,
                                     struct gk_plan_arg *arg, struct gk_err *err)
{
    bool is_i32 = scalar == GK_SCALAR_I32, is_u32 = scalar == GK_SCALAR_U32;
    if ((is_i32 && (value < INT32_MIN || value > INT32_MAX)) ||
        (is_u32 && (value < 0 || value > UINT32_MAX)) || (scalar == GK_SCALAR_U64 && value < 0)) {
        return gk_fail(err, GK_RANGE, "%s: %" PRId64 " does not fit %s", where, value,
                       is_i32   ? "i32"
                       : is_u32 ? "u32"
                                : "u64");
    }
    arg->size = is_i32 || is_u32 ? 4 : 8;
    arg->bits = (uint64_t)value;
    if (arg->size == 4) {
        arg->bits &= UINT32_MAX;
    }
    return GK_OK;
}

enum gk_status gk_scalar_encode(enum gk_scalar scalar, bool is_real, union gk_value value,
                                const char *where, struct gk_plan_arg *arg, struct gk_err *err)
{
    if (scalar != GK_SCALAR_F32 && scalar != GK_SCALAR_F64) {
        return encode_integer(scalar, value.i, where, arg, err); /* reals were refused at load */
    }
    double number = is_real ? value.r : (double)value.i;
    if (scalar == GK_SCALAR_F64) {
        arg->size = 8;
        memcpy(&arg->bits, &number, sizeof number);
        return GK_OK;
    }
    float narrow = (float)number;
    if (!isfinite(narrow)) {
        return gk_fail(err, GK_RANGE, "%s: %g does not fit f32", where, number);
    }
    uint32_t bits = 0;
    memcpy(&bits, &narrow, sizeof bits);
    arg->size = 4;
    arg->bits = bits;
    return GK_OK;
}
