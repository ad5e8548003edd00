/*
 * Tuned configs of pick for emu-sm_90a. Written by `gktune export`: do not edit.
 *
 * EMULATED: rows were chosen by modelled times of an emulated device, not measured on a GPU. They are
 * verified results of the same code, but not a statement about any GPU's speed.
 *
 * Policy cold-graph. 4 rows of emu-8sm. Templates: pick_map (73b829cd6398), pick_vec (66d24bc13f3f).
 * What was measured stands in gk_pick_emu_sm_90a.evidence.json, sources in src/.
 *
 *   struct gk_pick_problem p;
 *   enum gk_match why;
 *   gk_pick_problem_init(&p, ...);
 *   row = gk_pick_emu_sm_90a_select(&p, &why);            exact, near or default; NULL: none
 *   gk_pick_emu_sm_90a_defines(&p, row, i, text, size);   -D options of launch i
 *   gk_pick_emu_sm_90a_launch(&p, row, NULL, &plan);      grid, block, arguments, workspaces
 *
 * Compile plan.launches[i].source with NVRTC or nvcc for sm_90a, launch what is present in order.
 */
#ifndef GK_PICK_EMU_SM_90A_H
#define GK_PICK_EMU_SM_90A_H

#include <stddef.h>
#include <stdint.h>

#ifndef GK_EXPORT_TYPES
#define GK_EXPORT_TYPES 1
/* Shared by all exported headers. */
enum gk_match {
    GK_MATCH_NONE,    /* no row, and no default is legal: run your own kernel */
    GK_MATCH_DEFAULT, /* not tuned: what a careful engineer would ship for this problem */
    GK_MATCH_NEAR,    /* tuned for a neighbouring problem; legal for this one */
    GK_MATCH_EXACT    /* tuned and verified for this very problem and gpu */
};
enum gk_origin { GK_ORIGIN_TUNED, GK_ORIGIN_DEFAULT };
enum gk_argument_kind {
    GK_ARGUMENT_TENSOR,     /* address of the tensor `name`; null if it does not exist */
    GK_ARGUMENT_WORKSPACE,  /* address of the workspace `name` plus value.u64 bytes */
    GK_ARGUMENT_VALUE,      /* `size` bytes of value */
    GK_ARGUMENT_TENSOR_MAP  /* 128 bytes by value, encoded from maps[index] */
};
struct gk_argument {
    enum gk_argument_kind kind;
    const char *name;
    uint32_t index; /* of a workspace in workspaces[], of a map in maps[] */
    uint32_t size;  /* bytes in the kernel's parameters */
    union {
        uint64_t u64;
        int64_t i64;
        uint32_t u32;
        int32_t i32;
        float f32;
        double f64;
    } value;
};
#define GK_ARGUMENTS_MAX 48
#define GK_LAUNCHES_MAX 8
#define GK_WORKSPACES_MAX 8
#define GK_MAPS_MAX 16
struct gk_launch {
    int present; /* 0: this problem and config do without it */
    int is_plan; /* once for a set of lengths, not with every run */
    const char *kernel; /* extern "C" name in the module */
    const char *source; /* path in this folder */
    const char *const *include_dirs; /* in this folder; NULL ends */
    const char *const *options;      /* of the compiler, beside -arch and -D; NULL ends */
    uint32_t grid[3], block[3], cluster[3];
    uint32_t smem_bytes; /* dynamic */
    int cooperative, pdl, nonportable_cluster;
    int32_t carveout_percent; /* -1: not set */
    uint32_t argument_count;  /* in the kernel's order */
    struct gk_argument arguments[GK_ARGUMENTS_MAX];
};
enum gk_workspace_init {
    GK_WORKSPACE_ANY,      /* no value is needed */
    GK_WORKSPACE_ZERO,     /* zero before every run */
    GK_WORKSPACE_ZERO_KEPT /* zero once: the kernels leave it so */
};
struct gk_workspace {
    const char *name;
    uint64_t bytes; /* 0: not needed */
    uint64_t align;
    enum gk_workspace_init init;
};
struct gk_map {
    int present;
    const char *name, *tensor;
    uint32_t rank;
    int64_t dims[5], strides[5], box[5], element_strides[5]; /* innermost first; strides in bytes, from 1 */
    int64_t offset; /* elements */
    uint32_t swizzle_bytes, l2_promotion_bytes;
    int fill_nan;
};
struct gk_plan { /* about 15 KB */
    uint32_t launch_count, workspace_count, map_count;
    struct gk_launch launches[GK_LAUNCHES_MAX];
    struct gk_workspace workspaces[GK_WORKSPACES_MAX];
    struct gk_map maps[GK_MAPS_MAX];
};
/* What is known of a compiled kernel; some grids ask for it. */
struct gk_facts {
    int64_t regs, spill_bytes, static_smem, blocks_per_sm, max_clusters;
};
/* Per-request values: selection sees these. */
struct gk_series {
    int64_t count, min, max, sum;
};
#ifdef __cplusplus
#define GK_THREAD_LOCAL thread_local
#else
#define GK_THREAD_LOCAL _Thread_local
#endif
struct gk_device {
    const char *gpu;
    int64_t sm, sms, smem_block_max, smem_sm, smem_block_reserved, regs_sm, regs_block_max, threads_sm, threads_block_max, blocks_sm, cluster_max, l2_bytes, mem_bytes, clock_khz, mem_bytes_per_us, tensor_flops_per_clk_sm, work_limit;
};
/* Bounded text, as snprintf counts: *at is what would have been written. */
static inline void gk_x_put(char *text, size_t size, size_t *at, const char *more)
{
    for (; *more; more++, (*at)++) {
        if (*at + 1 < size) {
            text[*at] = *more;
            text[*at + 1] = 0;
        }
    }
}
static inline void gk_x_put_int(char *text, size_t size, size_t *at, int64_t value)
{
    char digits[24];
    int n = 23;
    uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    digits[n] = 0;
    do {
        digits[--n] = (char)('0' + (int)(rest % 10));
        rest /= 10;
    } while (rest > 0);
    gk_x_put(text, size, at, value < 0 ? "(-" : "");
    gk_x_put(text, size, at, digits + n);
    gk_x_put(text, size, at, value < 0 ? ")" : "");
}
static inline int gk_x_same(const char *a, const char *b)
{
    while (*a && *a == *b) {
        a++;
        b++;
    }
    return *a == *b;
}
/* |log2(a / b)| of positive numbers, to 2^-20: how far two extents are apart. */
static inline double gk_x_apart(int64_t a, int64_t b)
{
    double x, sum = 0.0, bit = 1.0;
    int i;
    if (a <= 0 || b <= 0) {
        return a == b ? 0.0 : 64.0;
    }
    x = a > b ? (double)a / (double)b : (double)b / (double)a;
    while (x >= 2.0) {
        x *= 0.5;
        sum += 1.0;
    }
    for (i = 0; i < 20; i++) {
        x *= x;
        bit *= 0.5;
        if (x >= 2.0) {
            x *= 0.5;
            sum += bit;
        }
    }
    return sum;
}
static inline int gk_x_extent(int64_t value, uint32_t *out)
{
    *out = value < 1 || value > INT64_C(2147483647) ? 0 : (uint32_t)value;
    return *out > 0;
}
#endif

#ifndef GK_X_HELPERS
#define GK_X_HELPERS
/* Arithmetic of tuning expressions on 64-bit integers; 0 where there is no result. */
static inline int64_t gk_x_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t gk_x_max(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t gk_x_abs(int64_t a)
{
    return a >= 0 ? a : a == INT64_MIN ? 0 : -a;
}
static inline int64_t gk_x_and(int64_t a, int64_t b) { return a & b; }
static inline int64_t gk_x_or(int64_t a, int64_t b) { return a | b; }
static inline int64_t gk_x_div(int64_t a, int64_t b)
{
    return b == 0 || (a == INT64_MIN && b == -1) ? 0 : a / b;
}
static inline int64_t gk_x_mod(int64_t a, int64_t b)
{
    return b == 0 || b == -1 ? 0 : a % b;
}
static inline int64_t gk_x_ceil_div(int64_t a, int64_t b)
{
    int64_t q = gk_x_div(a, b);
    return gk_x_mod(a, b) != 0 && (a < 0) == (b < 0) ? q + 1 : q;
}
static inline int64_t gk_x_align_up(int64_t a, int64_t b)
{
    return b <= 0 ? 0 : gk_x_ceil_div(a, b) * b;
}
static inline int64_t gk_x_shl(int64_t a, int64_t n)
{
    return n < 0 || n > 62 ? 0 : a * (INT64_C(1) << n);
}
static inline int64_t gk_x_shr(int64_t a, int64_t n)
{
    return n < 0 || n > 62 ? 0 : a >= 0 ? a >> n : ~(~a >> n);
}
static inline int64_t gk_x_log2(int64_t a)
{
    int64_t n = 0;
    while (a > 1) {
        a >>= 1;
        n++;
    }
    return n;
}
static inline int64_t gk_x_is_pow2(int64_t a)
{
    return a > 0 && (a & (a - 1)) == 0 ? 1 : 0;
}
static inline double gk_x_min_real(double a, double b) { return a < b ? a : b; }
static inline double gk_x_max_real(double a, double b) { return a > b ? a : b; }
static inline double gk_x_abs_real(double a) { return a < 0 ? -a : a == 0 ? 0 : a; }
/* Heron's steps on a value scaled into [1, 4), then one with the exact remainder, which
 * leaves the nearest double; no library is needed. */
static inline double gk_x_sqrt(double a)
{
    double scale = 1.0, y, high, low, remainder;
    int i;
    if (!(a > 0)) {
        return 0;
    }
    while (a >= 4.0) {
        a *= 0.25;
        scale *= 2.0;
    }
    while (a < 1.0) {
        a *= 4.0;
        scale *= 0.5;
    }
    y = 0.5 * (a + 1.0);
    for (i = 0; i < 6; i++) {
        y = 0.5 * (y + a / y);
    }
    high = y * 134217729.0; /* 2^27 + 1 splits y in two halves of 26 bits */
    high = high - (high - y);
    low = y - high;
    remainder = ((a - high * high) - 2.0 * high * low) - low * low;
    return scale * (y + remainder / (2.0 * y));
}
#endif

#if defined(GK_PICK_PROBLEM) && GK_PICK_PROBLEM != 0x0cb97e48
#error "two exported headers describe pick problems differently: export both with one version"
#endif
#ifndef GK_PICK_PROBLEM
#define GK_PICK_PROBLEM 0x0cb97e48
enum gk_pick_dtype { GK_PICK_DTYPE_BF16, GK_PICK_DTYPE_F32 };
enum gk_pick_mode { GK_PICK_MODE_SUM, GK_PICK_MODE_MAX };
struct gk_pick_problem {
    int64_t n; /* elements */
    int64_t rows;
    enum gk_pick_dtype dtype;
    enum gk_pick_mode mode;
    int fast;
    double alpha;
    int64_t stride; /* elements between rows */
};
/* Sets every field whose default follows from other fields; call it after changing those. */
static inline void gk_pick_problem_derive(struct gk_pick_problem *p)
{
    (void)p;
    p->stride = (int64_t)p->n;
}
/* Required fields as given, all others at their default. */
static inline void gk_pick_problem_init(struct gk_pick_problem *p, int64_t n)
{
    p->n = n;
    p->rows = (int64_t)INT64_C(1);
    p->dtype = (enum gk_pick_dtype)INT64_C(0);
    p->mode = (enum gk_pick_mode)INT64_C(0);
    p->fast = (int)INT64_C(0);
    p->alpha = (double)(1.0);
    gk_pick_problem_derive(p);
}
struct gk_pick_derived {
    int64_t elem;
    int64_t wide;
};
/* 1 if the problem is legal; then o is filled. */
static inline int gk_pick_derive(const struct gk_pick_problem *p, struct gk_pick_derived *o)
{
    (void)p;
    (void)o;
    if (p->n < INT64_C(1) || p->n > INT64_C(1073741824)) {
        return 0;
    }
    if (p->rows < INT64_C(1) || p->rows > INT64_C(65535)) {
        return 0;
    }
    if (p->stride < INT64_C(1) || p->stride > INT64_C(1073741824)) {
        return 0;
    }
    o->elem = (((int64_t)p->dtype == INT64_C(0)) ? INT64_C(2) : INT64_C(4));
    o->wide = (((gk_x_mod((p->stride * o->elem), INT64_C(16)) == INT64_C(0)) && (gk_x_mod((p->n * o->elem), INT64_C(16)) == INT64_C(0))) ? INT64_C(1) : INT64_C(0));
    if ((((p->stride >= p->n) ? INT64_C(1) : INT64_C(0))) == 0) {
        return 0; /* stride_covers */
    }
    return 1;
}
#endif

/* ---- template pick_map ---- */
struct gk_pick_emu_sm_90a_pick_map {
    int32_t BOX;
};
struct gk_pick_emu_sm_90a_pick_map_derived {
    int64_t none_;
};
/* 1 if the template runs this problem with this config on this device; then v is filled. */
static inline int gk_pick_emu_sm_90a_pick_map_legal(const struct gk_pick_problem *p,
    const struct gk_pick_derived *o, const struct gk_device *d,
    const struct gk_pick_emu_sm_90a_pick_map *c, struct gk_pick_emu_sm_90a_pick_map_derived *v)
{
    (void)p;
    (void)o;
    (void)d;
    (void)c;
    (void)v;
    if (((((int64_t)p->dtype == INT64_C(0)) ? INT64_C(1) : INT64_C(0))) == 0) {
        return 0; /* bf16_alone */
    }
    if ((o->wide) == 0) {
        return 0; /* rows_wide */
    }
    if (((((INT64_C(1) != INT64_C(0)) && (gk_x_mod((INT64_C(0) * (((int64_t)p->dtype == INT64_C(0)) ? INT64_C(2) : INT64_C(4))), INT64_C(16)) == INT64_C(0))) ? INT64_C(1) : INT64_C(0))) == 0) {
        return 0; /* tensor_map.x_map.address_16 */
    }
    if ((((gk_x_mod((p->stride * o->elem), INT64_C(16)) == INT64_C(0)) ? INT64_C(1) : INT64_C(0))) == 0) {
        return 0; /* tensor_map.x_map.stride_16 */
    }
    if ((((((p->stride * o->elem) >= INT64_C(0)) && ((p->stride * o->elem) < INT64_C(1099511627776))) ? INT64_C(1) : INT64_C(0))) == 0) {
        return 0; /* tensor_map.x_map.stride_2_40 */
    }
    if (((((p->n >= INT64_C(1)) && (p->n <= INT64_C(4294967296))) ? INT64_C(1) : INT64_C(0))) == 0) {
        return 0; /* tensor_map.x_map.dim_2_32 */
    }
    if ((((((int64_t)c->BOX >= INT64_C(1)) && ((int64_t)c->BOX <= INT64_C(256))) ? INT64_C(1) : INT64_C(0))) == 0) {
        return 0; /* tensor_map.x_map.box_256 */
    }
    if (((((p->rows >= INT64_C(1)) && (p->rows <= INT64_C(4294967296))) ? INT64_C(1) : INT64_C(0))) == 0) {
        return 0; /* tensor_map.x_map.dim_2_32 */
    }
    if ((INT64_C(1)) == 0) {
        return 0; /* tensor_map.x_map.box_256 */
    }
    if ((((gk_x_mod(((int64_t)c->BOX * (((int64_t)p->dtype == INT64_C(0)) ? INT64_C(2) : INT64_C(4))), INT64_C(16)) == INT64_C(0)) ? INT64_C(1) : INT64_C(0))) == 0) {
        return 0; /* tensor_map.x_map.inner_box_16 */
    }
    return 1;
}
static inline int gk_pick_emu_sm_90a_pick_map_plan(const struct gk_pick_problem *p,
    const struct gk_pick_derived *o, const struct gk_device *d,
    const struct gk_pick_emu_sm_90a_pick_map *c, const struct gk_facts *facts, struct gk_plan *plan)
{
    static const char *const options[] = {NULL};
    static const char *const include_dirs[] = {"src/pick", "src/include", NULL};
    struct gk_facts no_facts;
    struct gk_launch *l;
    struct gk_argument *a;
    struct gk_pick_emu_sm_90a_pick_map_derived derived, *v = &derived;
    struct gk_map *m;
    no_facts.regs = no_facts.spill_bytes = no_facts.static_smem = 0;
    no_facts.blocks_per_sm = no_facts.max_clusters = 0;
    (void)a;
    if (!facts) {
        return 0; /* a grid asks for what is known after compiling */
    }
    if (!gk_pick_emu_sm_90a_pick_map_legal(p, o, d, c, v)) {
        return 0;
    }
    a = NULL;
    plan->launch_count = 1;
    plan->workspace_count = 0;
    plan->map_count = 1;
    l = &plan->launches[0];
    l->kernel = "pick_map";
    l->source = "src/pick/pick_map.cuh";
    l->include_dirs = include_dirs;
    l->options = options;
    l->is_plan = 0;
    l->cooperative = 0;
    l->pdl = 0;
    l->nonportable_cluster = 0;
    l->carveout_percent = -1;
    l->argument_count = 3;
    l->present = 1;
    if (l->present) {
        const struct gk_facts *k = facts ? &facts[0] : &no_facts;
        (void)k;
        if (!gk_x_extent(gk_x_min(gk_x_ceil_div(p->n, (int64_t)c->BOX), (k->blocks_per_sm * d->sms)), &l->grid[0])) {
            return 0;
        }
        if (!gk_x_extent(p->rows, &l->grid[1])) {
            return 0;
        }
        l->grid[2] = 1;
        if (!gk_x_extent(INT64_C(128), &l->block[0])) {
            return 0;
        }
        l->block[1] = 1;
        l->block[2] = 1;
        if (!gk_x_extent(INT64_C(1), &l->cluster[0])) {
            return 0;
        }
        l->cluster[1] = 1;
        l->cluster[2] = 1;
        l->smem_bytes = (uint32_t)0;
        l->carveout_percent = (int32_t)INT64_C(50);
        a = &l->arguments[0];
        a->kind = GK_ARGUMENT_TENSOR;
        a->name = "y";
        a->index = 1;
        a->size = 8;
        a->value.u64 = 0;
        a = &l->arguments[1];
        a->kind = GK_ARGUMENT_TENSOR_MAP;
        a->name = "x_map";
        a->index = 0;
        a->size = 128;
        a->value.u64 = 0;
        a = &l->arguments[2];
        a->kind = GK_ARGUMENT_VALUE;
        a->name = NULL;
        a->index = 0;
        a->size = 4;
        a->value.u64 = 0;
        a->value.u32 = (uint32_t)p->n;
        if ((int64_t)a->value.u32 != p->n) {
            return 0; /* does not fit */
        }
    }
    m = &plan->maps[0];
    m->name = "x_map";
    m->tensor = "x";
    m->rank = 2;
    m->swizzle_bytes = 0;
    m->l2_promotion_bytes = 128;
    m->fill_nan = 0;
    m->present = 1;
    if (m->present) {
        m->offset = 0;
        m->dims[0] = p->n;
        m->dims[1] = p->rows;
        m->dims[2] = 1;
        m->dims[3] = 1;
        m->dims[4] = 1;
        m->strides[0] = 0;
        m->strides[1] = (p->stride * o->elem);
        m->strides[2] = 0;
        m->strides[3] = 0;
        m->strides[4] = 0;
        m->box[0] = (int64_t)c->BOX;
        m->box[1] = INT64_C(1);
        m->box[2] = 1;
        m->box[3] = 1;
        m->box[4] = 1;
        m->element_strides[0] = 1;
        m->element_strides[1] = 1;
        m->element_strides[2] = 1;
        m->element_strides[3] = 1;
        m->element_strides[4] = 1;
    }
    return 1;
}
static inline size_t gk_pick_emu_sm_90a_pick_map_defines(const struct gk_pick_problem *p,
    const struct gk_pick_emu_sm_90a_pick_map *c, uint32_t launch, char *text, size_t size)
{
    size_t at = 0;
    (void)p;
    (void)c;
    (void)launch;
    if (size > 0) {
        text[0] = 0;
    }
    if (launch == 0) {
        gk_x_put(text, size, &at, "GK_ARCH=");
        gk_x_put(text, size, &at, "900");
        gk_x_put(text, size, &at, "\n");
        if ((int64_t)p->dtype == 0) {
            gk_x_put(text, size, &at, "GK_DTYPE=");
            gk_x_put(text, size, &at, "gk::bf16");
            gk_x_put(text, size, &at, "\n");
        }
        if ((int64_t)p->dtype == 1) {
            gk_x_put(text, size, &at, "GK_DTYPE=");
            gk_x_put(text, size, &at, "float");
            gk_x_put(text, size, &at, "\n");
        }
        if ((int64_t)p->dtype == 0) {
            gk_x_put(text, size, &at, "GK_DTYPE_BF16=");
            gk_x_put(text, size, &at, "1");
            gk_x_put(text, size, &at, "\n");
        }
        if ((int64_t)p->dtype == 1) {
            gk_x_put(text, size, &at, "GK_DTYPE_F32=");
            gk_x_put(text, size, &at, "1");
            gk_x_put(text, size, &at, "\n");
        }
        gk_x_put(text, size, &at, "GK_FAST=");
        gk_x_put_int(text, size, &at, (int64_t)p->fast);
        gk_x_put(text, size, &at, "\n");
        gk_x_put(text, size, &at, "GK_MODE=");
        gk_x_put_int(text, size, &at, (int64_t)p->mode);
        gk_x_put(text, size, &at, "\n");
        gk_x_put(text, size, &at, "GK_MODE_MAX=");
        gk_x_put(text, size, &at, "1");
        gk_x_put(text, size, &at, "\n");
        gk_x_put(text, size, &at, "GK_MODE_SUM=");
        gk_x_put(text, size, &at, "0");
        gk_x_put(text, size, &at, "\n");
        gk_x_put(text, size, &at, "box_width=");
        gk_x_put_int(text, size, &at, (int64_t)c->BOX);
        gk_x_put(text, size, &at, "\n");
    }
    return at;
}

/* ---- template pick_vec ---- */
struct gk_pick_emu_sm_90a_pick_vec {
    int32_t BLOCK;
    int32_t VEC;
    int32_t WAY; /* 0 flat 1 tiled */
    int32_t SPLIT;
};
struct gk_pick_emu_sm_90a_pick_vec_derived {
    int64_t per_block;
    int64_t blocks;
    double load;
};
/* 1 if the template runs this problem with this config on this device; then v is filled. */
static inline int gk_pick_emu_sm_90a_pick_vec_legal(const struct gk_pick_problem *p,
    const struct gk_pick_derived *o, const struct gk_device *d,
    const struct gk_pick_emu_sm_90a_pick_vec *c, struct gk_pick_emu_sm_90a_pick_vec_derived *v)
{
    (void)p;
    (void)o;
    (void)d;
    (void)c;
    (void)v;
    v->per_block = ((int64_t)c->BLOCK * (int64_t)c->VEC);
    v->blocks = gk_x_ceil_div(p->n, (v->per_block * (int64_t)c->SPLIT));
    v->load = ((p->alpha * ((double)p->n)) / ((double)d->sms));
    if ((((((int64_t)c->VEC == INT64_C(1)) || (o->wide != INT64_C(0))) ? INT64_C(1) : INT64_C(0))) == 0) {
        return 0; /* vec_wide */
    }
    if (((((int64_t)c->BLOCK <= d->threads_block_max) ? INT64_C(1) : INT64_C(0))) == 0) {
        return 0; /* block_fits */
    }
    if ((((((int64_t)c->WAY == INT64_C(0)) || (p->n >= INT64_C(1024))) ? INT64_C(1) : INT64_C(0))) == 0) {
        return 0; /* tiled_large */
    }
    if ((((((int64_t)c->SPLIT == INT64_C(1)) || ((p->n >= INT64_C(2048)) && (v->load >= (0.0)))) ? INT64_C(1) : INT64_C(0))) == 0) {
        return 0; /* split_used */
    }
    return 1;
}
static inline int gk_pick_emu_sm_90a_pick_vec_plan(const struct gk_pick_problem *p,
    const struct gk_pick_derived *o, const struct gk_device *d,
    const struct gk_pick_emu_sm_90a_pick_vec *c, const struct gk_facts *facts, struct gk_plan *plan)
{
    static const char *const options[] = {"-use_fast_math", NULL};
    static const char *const include_dirs[] = {"src/pick", "src/include", NULL};
    struct gk_facts no_facts;
    struct gk_launch *l;
    struct gk_argument *a;
    struct gk_pick_emu_sm_90a_pick_vec_derived derived, *v = &derived;
    struct gk_workspace *w;
    no_facts.regs = no_facts.spill_bytes = no_facts.static_smem = 0;
    no_facts.blocks_per_sm = no_facts.max_clusters = 0;
    (void)a;
    if (!gk_pick_emu_sm_90a_pick_vec_legal(p, o, d, c, v)) {
        return 0;
    }
    a = NULL;
    plan->launch_count = 2;
    plan->workspace_count = 2;
    plan->map_count = 0;
    l = &plan->launches[0];
    l->kernel = "pick_vec";
    l->source = "src/pick/pick_vec.cuh";
    l->include_dirs = include_dirs;
    l->options = options;
    l->is_plan = 0;
    l->cooperative = 0;
    l->pdl = 0;
    l->nonportable_cluster = 0;
    l->carveout_percent = -1;
    l->argument_count = 5;
    l->present = 1;
    if (l->present) {
        const struct gk_facts *k = facts ? &facts[0] : &no_facts;
        (void)k;
        if (!gk_x_extent(v->blocks, &l->grid[0])) {
            return 0;
        }
        if (!gk_x_extent((int64_t)c->SPLIT, &l->grid[1])) {
            return 0;
        }
        if (!gk_x_extent(p->rows, &l->grid[2])) {
            return 0;
        }
        if (!gk_x_extent((int64_t)c->BLOCK, &l->block[0])) {
            return 0;
        }
        l->block[1] = 1;
        l->block[2] = 1;
        l->cluster[0] = 1;
        l->cluster[1] = 1;
        l->cluster[2] = 1;
        l->smem_bytes = (uint32_t)(((int64_t)c->WAY == INT64_C(1)) ? (v->per_block * INT64_C(4)) : INT64_C(0));
        a = &l->arguments[0];
        a->kind = GK_ARGUMENT_TENSOR;
        a->name = "x";
        a->index = 0;
        a->size = 8;
        a->value.u64 = 0;
        a = &l->arguments[1];
        a->kind = GK_ARGUMENT_TENSOR;
        a->name = "y";
        a->index = 1;
        a->size = 8;
        a->value.u64 = 0;
        a = &l->arguments[2];
        a->kind = GK_ARGUMENT_WORKSPACE;
        a->name = "partial";
        a->index = 0;
        a->size = 8;
        a->value.u64 = 0;
        a->value.u64 = (uint64_t)(p->rows * INT64_C(4));
        a = &l->arguments[3];
        a->kind = GK_ARGUMENT_VALUE;
        a->name = NULL;
        a->index = 0;
        a->size = 4;
        a->value.u64 = 0;
        a->value.i32 = (int32_t)p->n;
        if ((int64_t)a->value.i32 != p->n) {
            return 0; /* does not fit */
        }
        a = &l->arguments[4];
        a->kind = GK_ARGUMENT_VALUE;
        a->name = NULL;
        a->index = 0;
        a->size = 4;
        a->value.u64 = 0;
        a->value.f32 = (float)p->alpha;
    }
    l = &plan->launches[1];
    l->kernel = "pick_reduce";
    l->source = "src/pick/pick_reduce.cuh";
    l->include_dirs = include_dirs;
    l->options = options;
    l->is_plan = 0;
    l->cooperative = 0;
    l->pdl = 1;
    l->nonportable_cluster = 0;
    l->carveout_percent = -1;
    l->argument_count = 3;
    l->present = ((((int64_t)c->SPLIT > INT64_C(1)) ? INT64_C(1) : INT64_C(0))) != 0;
    if (l->present) {
        const struct gk_facts *k = facts ? &facts[1] : &no_facts;
        (void)k;
        if (!gk_x_extent(gk_x_ceil_div(p->n, INT64_C(256)), &l->grid[0])) {
            return 0;
        }
        if (!gk_x_extent(p->rows, &l->grid[1])) {
            return 0;
        }
        l->grid[2] = 1;
        if (!gk_x_extent(INT64_C(256), &l->block[0])) {
            return 0;
        }
        l->block[1] = 1;
        l->block[2] = 1;
        l->cluster[0] = 1;
        l->cluster[1] = 1;
        l->cluster[2] = 1;
        l->smem_bytes = (uint32_t)0;
        a = &l->arguments[0];
        a->kind = GK_ARGUMENT_WORKSPACE;
        a->name = "partial";
        a->index = 0;
        a->size = 8;
        a->value.u64 = 0;
        a = &l->arguments[1];
        a->kind = GK_ARGUMENT_TENSOR;
        a->name = "y";
        a->index = 1;
        a->size = 8;
        a->value.u64 = 0;
        a = &l->arguments[2];
        a->kind = GK_ARGUMENT_VALUE;
        a->name = NULL;
        a->index = 0;
        a->size = 8;
        a->value.u64 = 0;
        a->value.i64 = (int64_t)(p->n * (int64_t)c->SPLIT);
    }
    w = &plan->workspaces[0];
    w->name = "partial";
    w->init = GK_WORKSPACE_ANY;
    w->align = 256;
    w->bytes = ((((int64_t)c->SPLIT > INT64_C(1)) ? INT64_C(1) : INT64_C(0))) == 0 ? 0 : (uint64_t)(((p->rows * p->n) * (int64_t)c->SPLIT)) * 4;
    w = &plan->workspaces[1];
    w->name = "counters";
    w->init = GK_WORKSPACE_ZERO_KEPT;
    w->align = (uint64_t)INT64_C(16);
    w->bytes = (uint64_t)(p->rows) * 4;
    return 1;
}
static inline size_t gk_pick_emu_sm_90a_pick_vec_defines(const struct gk_pick_problem *p,
    const struct gk_pick_emu_sm_90a_pick_vec *c, uint32_t launch, char *text, size_t size)
{
    size_t at = 0;
    (void)p;
    (void)c;
    (void)launch;
    if (size > 0) {
        text[0] = 0;
    }
    if (launch == 0) {
        gk_x_put(text, size, &at, "GK_ARCH=");
        gk_x_put(text, size, &at, "900");
        gk_x_put(text, size, &at, "\n");
        gk_x_put(text, size, &at, "GK_BLOCK=");
        gk_x_put_int(text, size, &at, (int64_t)c->BLOCK);
        gk_x_put(text, size, &at, "\n");
        if ((int64_t)p->dtype == 0) {
            gk_x_put(text, size, &at, "GK_DTYPE=");
            gk_x_put(text, size, &at, "gk::bf16");
            gk_x_put(text, size, &at, "\n");
        }
        if ((int64_t)p->dtype == 1) {
            gk_x_put(text, size, &at, "GK_DTYPE=");
            gk_x_put(text, size, &at, "float");
            gk_x_put(text, size, &at, "\n");
        }
        if ((int64_t)p->dtype == 0) {
            gk_x_put(text, size, &at, "GK_DTYPE_BF16=");
            gk_x_put(text, size, &at, "1");
            gk_x_put(text, size, &at, "\n");
        }
        if ((int64_t)p->dtype == 1) {
            gk_x_put(text, size, &at, "GK_DTYPE_F32=");
            gk_x_put(text, size, &at, "1");
            gk_x_put(text, size, &at, "\n");
        }
        gk_x_put(text, size, &at, "GK_FAST=");
        gk_x_put_int(text, size, &at, (int64_t)p->fast);
        gk_x_put(text, size, &at, "\n");
        gk_x_put(text, size, &at, "GK_MODE=");
        gk_x_put_int(text, size, &at, (int64_t)p->mode);
        gk_x_put(text, size, &at, "\n");
        gk_x_put(text, size, &at, "GK_MODE_MAX=");
        gk_x_put(text, size, &at, "1");
        gk_x_put(text, size, &at, "\n");
        gk_x_put(text, size, &at, "GK_MODE_SUM=");
        gk_x_put(text, size, &at, "0");
        gk_x_put(text, size, &at, "\n");
        gk_x_put(text, size, &at, "GK_ROWS=");
        gk_x_put_int(text, size, &at, (int64_t)p->rows);
        gk_x_put(text, size, &at, "\n");
        gk_x_put(text, size, &at, "GK_VEC=");
        gk_x_put_int(text, size, &at, (int64_t)c->VEC);
        gk_x_put(text, size, &at, "\n");
        gk_x_put(text, size, &at, "GK_WAY=");
        gk_x_put_int(text, size, &at, (int64_t)c->WAY);
        gk_x_put(text, size, &at, "\n");
        gk_x_put(text, size, &at, "GK_WAY_FLAT=");
        gk_x_put(text, size, &at, "0");
        gk_x_put(text, size, &at, "\n");
        gk_x_put(text, size, &at, "GK_WAY_TILED=");
        gk_x_put(text, size, &at, "1");
        gk_x_put(text, size, &at, "\n");
    }
    if (launch == 1) {
        gk_x_put(text, size, &at, "GK_ARCH=");
        gk_x_put(text, size, &at, "900");
        gk_x_put(text, size, &at, "\n");
        if ((int64_t)p->dtype == 0) {
            gk_x_put(text, size, &at, "GK_DTYPE=");
            gk_x_put(text, size, &at, "gk::bf16");
            gk_x_put(text, size, &at, "\n");
        }
        if ((int64_t)p->dtype == 1) {
            gk_x_put(text, size, &at, "GK_DTYPE=");
            gk_x_put(text, size, &at, "float");
            gk_x_put(text, size, &at, "\n");
        }
        if ((int64_t)p->dtype == 0) {
            gk_x_put(text, size, &at, "GK_DTYPE_BF16=");
            gk_x_put(text, size, &at, "1");
            gk_x_put(text, size, &at, "\n");
        }
        if ((int64_t)p->dtype == 1) {
            gk_x_put(text, size, &at, "GK_DTYPE_F32=");
            gk_x_put(text, size, &at, "1");
            gk_x_put(text, size, &at, "\n");
        }
        gk_x_put(text, size, &at, "GK_FAST=");
        gk_x_put_int(text, size, &at, (int64_t)p->fast);
        gk_x_put(text, size, &at, "\n");
        gk_x_put(text, size, &at, "GK_MODE=");
        gk_x_put_int(text, size, &at, (int64_t)p->mode);
        gk_x_put(text, size, &at, "\n");
        gk_x_put(text, size, &at, "GK_MODE_MAX=");
        gk_x_put(text, size, &at, "1");
        gk_x_put(text, size, &at, "\n");
        gk_x_put(text, size, &at, "GK_MODE_SUM=");
        gk_x_put(text, size, &at, "0");
        gk_x_put(text, size, &at, "\n");
        gk_x_put(text, size, &at, "GK_ROWS=");
        gk_x_put_int(text, size, &at, (int64_t)p->rows);
        gk_x_put(text, size, &at, "\n");
        gk_x_put(text, size, &at, "GK_SPLIT=");
        gk_x_put_int(text, size, &at, (int64_t)c->SPLIT);
        gk_x_put(text, size, &at, "\n");
    }
    return at;
}

enum gk_pick_emu_sm_90a_template { GK_PICK_EMU_SM_90A_PICK_MAP, GK_PICK_EMU_SM_90A_PICK_VEC };

struct gk_pick_emu_sm_90a_row {
    enum gk_origin origin;
    uint32_t gpu; /* index into gk_pick_emu_sm_90a_gpus */
    enum gk_pick_emu_sm_90a_template template_id;
    union {
        int32_t values[4]; /* in declared order */
        struct gk_pick_emu_sm_90a_pick_map pick_map;
        struct gk_pick_emu_sm_90a_pick_vec pick_vec;
    } config;
    struct gk_pick_problem problem;
    const char *config_text; /* NULL in a default that was not in the table */
    const char *defines[GK_LAUNCHES_MAX]; /* "NAME=VALUE" a line for each launch; NULL past the last */
};

#define gk_pick_emu_sm_90a_GPU_COUNT 1u
static const struct gk_device gk_pick_emu_sm_90a_gpus[] = {
    {"emu-8sm", INT64_C(90), INT64_C(8), INT64_C(232448), INT64_C(233472), INT64_C(1024), INT64_C(65536), INT64_C(65536), INT64_C(2048), INT64_C(1024), INT64_C(32), INT64_C(8), INT64_C(4194304), INT64_C(4294967296), INT64_C(1000000), INT64_C(111000), INT64_C(4096), INT64_C(64000000000)},
};

#define gk_pick_emu_sm_90a_ROW_COUNT 4u
static const struct gk_pick_emu_sm_90a_row gk_pick_emu_sm_90a_rows[] = {
    /* 0: n=1000 alpha=0.5, emu-8sm */
    {GK_ORIGIN_DEFAULT, 0, GK_PICK_EMU_SM_90A_PICK_VEC, {{128, 4, 0, 1}},
     {INT64_C(1000), INT64_C(1), GK_PICK_DTYPE_BF16, GK_PICK_MODE_SUM, 0, 0.5, INT64_C(1000)},
     "pick_vec{\"BLOCK\":128,\"SPLIT\":1,\"VEC\":4,\"WAY\":\"flat\"}",
     {"GK_ARCH=900\nGK_BLOCK=128\nGK_DTYPE=gk::bf16\nGK_DTYPE_BF16=1\nGK_FAST=0\nGK_MODE=0\nGK_MODE_MAX=1\nGK_MODE_SUM=0\nGK_ROWS=1\nGK_VEC=4\nGK_WAY=0\nGK_WAY_FLAT=0\nGK_WAY_TILED=1\n", "GK_ARCH=900\nGK_DTYPE=gk::bf16\nGK_DTYPE_BF16=1\nGK_FAST=0\nGK_MODE=0\nGK_MODE_MAX=1\nGK_MODE_SUM=0\nGK_ROWS=1\nGK_SPLIT=1\n", NULL, NULL, NULL, NULL, NULL, NULL}},
    /* 1: n=4096, emu-8sm, stale */
    {GK_ORIGIN_TUNED, 0, GK_PICK_EMU_SM_90A_PICK_VEC, {{256, 4, 1, 4}},
     {INT64_C(4096), INT64_C(1), GK_PICK_DTYPE_BF16, GK_PICK_MODE_SUM, 0, 1.0, INT64_C(4096)},
     "pick_vec{\"BLOCK\":256,\"SPLIT\":4,\"VEC\":4,\"WAY\":\"tiled\"}",
     {"GK_ARCH=900\nGK_BLOCK=256\nGK_DTYPE=gk::bf16\nGK_DTYPE_BF16=1\nGK_FAST=0\nGK_MODE=0\nGK_MODE_MAX=1\nGK_MODE_SUM=0\nGK_ROWS=1\nGK_VEC=4\nGK_WAY=1\nGK_WAY_FLAT=0\nGK_WAY_TILED=1\n", "GK_ARCH=900\nGK_DTYPE=gk::bf16\nGK_DTYPE_BF16=1\nGK_FAST=0\nGK_MODE=0\nGK_MODE_MAX=1\nGK_MODE_SUM=0\nGK_ROWS=1\nGK_SPLIT=4\n", NULL, NULL, NULL, NULL, NULL, NULL}},
    /* 2: n=65536 rows=3, emu-8sm */
    {GK_ORIGIN_TUNED, 0, GK_PICK_EMU_SM_90A_PICK_MAP, {{64, 0, 0, 0}},
     {INT64_C(65536), INT64_C(3), GK_PICK_DTYPE_BF16, GK_PICK_MODE_SUM, 0, 1.0, INT64_C(65536)},
     "pick_map{\"BOX\":64}",
     {"GK_ARCH=900\nGK_DTYPE=gk::bf16\nGK_DTYPE_BF16=1\nGK_FAST=0\nGK_MODE=0\nGK_MODE_MAX=1\nGK_MODE_SUM=0\nbox_width=64\n", NULL, NULL, NULL, NULL, NULL, NULL, NULL}},
    /* 3: n=100000 f32 mode=max fast, emu-8sm */
    {GK_ORIGIN_TUNED, 0, GK_PICK_EMU_SM_90A_PICK_VEC, {{64, 1, 1, 2}},
     {INT64_C(100000), INT64_C(1), GK_PICK_DTYPE_F32, GK_PICK_MODE_MAX, 1, 1.0, INT64_C(100000)},
     "pick_vec{\"BLOCK\":64,\"SPLIT\":2,\"VEC\":1,\"WAY\":\"tiled\"}",
     {"GK_ARCH=900\nGK_BLOCK=64\nGK_DTYPE=float\nGK_DTYPE_F32=1\nGK_FAST=1\nGK_MODE=1\nGK_MODE_MAX=1\nGK_MODE_SUM=0\nGK_ROWS=1\nGK_VEC=1\nGK_WAY=1\nGK_WAY_FLAT=0\nGK_WAY_TILED=1\n", "GK_ARCH=900\nGK_DTYPE=float\nGK_DTYPE_F32=1\nGK_FAST=1\nGK_MODE=1\nGK_MODE_MAX=1\nGK_MODE_SUM=0\nGK_ROWS=1\nGK_SPLIT=2\n", NULL, NULL, NULL, NULL, NULL, NULL}},
};

/* What an untuned problem gets: the first legal entry of the op's ordered rules. The row is one a thread
 * and is overwritten by the next call. */
static inline const struct gk_pick_emu_sm_90a_row *gk_pick_emu_sm_90a_default(const struct gk_pick_problem *p,
    const struct gk_pick_derived *o, uint32_t gpu)
{
    static GK_THREAD_LOCAL struct gk_pick_emu_sm_90a_row row;
    uint32_t i;
    (void)o;
    row.origin = GK_ORIGIN_DEFAULT;
    row.gpu = gpu;
    row.problem = *p;
    row.config_text = NULL;
    for (i = 0; i < GK_LAUNCHES_MAX; i++) {
        row.defines[i] = NULL;
    }
    if (((((p->n >= INT64_C(65536)) && (o->wide != INT64_C(0))) ? INT64_C(1) : INT64_C(0))) != 0) {
        struct gk_pick_emu_sm_90a_pick_map_derived v;
        int listed = 1;
        int64_t value = 0;
        value = INT64_C(128);
        listed = listed && (value == INT64_C(64) || value == INT64_C(128));
        row.config.values[0] = listed ? (int32_t)value : 0;
        (void)value;
        if (listed && gk_pick_emu_sm_90a_pick_map_legal(p, o, &gk_pick_emu_sm_90a_gpus[gpu], &row.config.pick_map, &v)) {
            row.template_id = GK_PICK_EMU_SM_90A_PICK_MAP;
            return &row;
        }
    }
    {
        struct gk_pick_emu_sm_90a_pick_vec_derived v;
        int listed = 1;
        int64_t value = 0;
        value = INT64_C(128);
        listed = listed && (value == INT64_C(64) || value == INT64_C(128) || value == INT64_C(256));
        row.config.values[0] = listed ? (int32_t)value : 0;
        value = ((o->wide != INT64_C(0)) ? INT64_C(4) : INT64_C(1));
        listed = listed && (value == INT64_C(1) || value == INT64_C(4));
        row.config.values[1] = listed ? (int32_t)value : 0;
        value = INT64_C(0);
        listed = listed && (value == INT64_C(0) || value == INT64_C(1));
        row.config.values[2] = listed ? (int32_t)value : 0;
        value = ((p->n > INT64_C(4096)) ? INT64_C(2) : INT64_C(1));
        listed = listed && (value == INT64_C(1) || value == INT64_C(2) || value == INT64_C(4));
        row.config.values[3] = listed ? (int32_t)value : 0;
        (void)value;
        if (listed && gk_pick_emu_sm_90a_pick_vec_legal(p, o, &gk_pick_emu_sm_90a_gpus[gpu], &row.config.pick_vec, &v)) {
            row.template_id = GK_PICK_EMU_SM_90A_PICK_VEC;
            return &row;
        }
    }
    return NULL;
}

/* 1 if the row's template runs this problem with the row's config on the row's gpu. */
static inline int gk_pick_emu_sm_90a_admits(const struct gk_pick_emu_sm_90a_row *row, const struct gk_pick_problem *p,
    const struct gk_pick_derived *o)
{
    const struct gk_device *d = &gk_pick_emu_sm_90a_gpus[row->gpu];
    switch (row->template_id) {
    case GK_PICK_EMU_SM_90A_PICK_MAP:
    {
        struct gk_pick_emu_sm_90a_pick_map_derived v;
        return gk_pick_emu_sm_90a_pick_map_legal(p, o, d, &row->config.pick_map, &v);
    }
    case GK_PICK_EMU_SM_90A_PICK_VEC:
    {
        struct gk_pick_emu_sm_90a_pick_vec_derived v;
        if (p->rows != row->problem.rows) {
            return 0; /* baked */
        }
        return gk_pick_emu_sm_90a_pick_vec_legal(p, o, d, &row->config.pick_vec, &v);
    }
    }
    return 0;
}

/* Grids, blocks, arguments, shared memory, workspaces and tensor maps of a row for a problem. facts: one entry
 * a launch, or NULL where no grid asks for what is known after compiling. 0: the row does not run it. */
static inline int gk_pick_emu_sm_90a_launch(const struct gk_pick_problem *p, const struct gk_pick_emu_sm_90a_row *row,
    const struct gk_facts *facts, struct gk_plan *plan)
{
    struct gk_pick_derived o;
    const struct gk_device *d = &gk_pick_emu_sm_90a_gpus[row->gpu];
    if (!gk_pick_derive(p, &o)) {
        return 0;
    }
    switch (row->template_id) {
    case GK_PICK_EMU_SM_90A_PICK_MAP:
        return gk_pick_emu_sm_90a_pick_map_plan(p, &o, d, &row->config.pick_map, facts, plan);
    case GK_PICK_EMU_SM_90A_PICK_VEC:
        return gk_pick_emu_sm_90a_pick_vec_plan(p, &o, d, &row->config.pick_vec, facts, plan);
    }
    return 0;
}

/* Defines of a launch, "NAME=VALUE" a line, as snprintf counts. For an exact match the same text stands in
 * row->defines[launch]. */
static inline size_t gk_pick_emu_sm_90a_defines(const struct gk_pick_problem *p, const struct gk_pick_emu_sm_90a_row *row,
    uint32_t launch, char *text, size_t size)
{
    switch (row->template_id) {
    case GK_PICK_EMU_SM_90A_PICK_MAP:
        return gk_pick_emu_sm_90a_pick_map_defines(p, &row->config.pick_map, launch, text, size);
    case GK_PICK_EMU_SM_90A_PICK_VEC:
        return gk_pick_emu_sm_90a_pick_vec_defines(p, &row->config.pick_vec, launch, text, size);
    }
    return 0;
}

static inline int gk_pick_emu_sm_90a_same_flags(const struct gk_pick_problem *a, const struct gk_pick_problem *b)
{
    (void)a;
    (void)b;
    if (a->dtype != b->dtype) {
        return 0;
    }
    if (a->mode != b->mode) {
        return 0;
    }
    if (a->fast != b->fast) {
        return 0;
    }
    if (a->alpha < b->alpha || a->alpha > b->alpha) {
        return 0;
    }
    return 1;
}
static inline double gk_pick_emu_sm_90a_distance(const struct gk_pick_problem *a, const struct gk_pick_problem *b)
{
    double sum = 0.0;
    sum += gk_x_apart(a->n, b->n);
    sum += gk_x_apart(a->rows, b->rows);
    sum += gk_x_apart(a->stride, b->stride);
    return sum;
}
static inline int gk_pick_emu_sm_90a_equal(const struct gk_pick_problem *a, const struct gk_pick_problem *b)
{
    if (!gk_pick_emu_sm_90a_same_flags(a, b)) {
        return 0;
    }
    if (a->n != b->n) {
        return 0;
    }
    if (a->rows != b->rows) {
        return 0;
    }
    if (a->stride != b->stride) {
        return 0;
    }
    return 1;
}

/* The row for a problem on a gpu (a name of gk_pick_emu_sm_90a_gpus; NULL: any), and why. NULL with GK_MATCH_NONE. */
static inline const struct gk_pick_emu_sm_90a_row *gk_pick_emu_sm_90a_select_on(const char *gpu,
    const struct gk_pick_problem *p, enum gk_match *why)
{
    const struct gk_pick_emu_sm_90a_row *near_row = NULL, *row;
    struct gk_pick_derived o;
    double best = 0.0;
    uint32_t i, at = 0;
    enum gk_match match = GK_MATCH_NONE;
    if (!gk_pick_derive(p, &o)) {
        if (why) {
            *why = GK_MATCH_NONE;
        }
        return NULL;
    }
    for (i = 0; gpu && i < gk_pick_emu_sm_90a_GPU_COUNT; i++) {
        at = gk_x_same(gpu, gk_pick_emu_sm_90a_gpus[i].gpu) ? i : at;
    }
    for (i = 0; i < gk_pick_emu_sm_90a_ROW_COUNT; i++) {
        int here;
        double apart;
        row = &gk_pick_emu_sm_90a_rows[i];
        here = !gpu || gk_x_same(gpu, gk_pick_emu_sm_90a_gpus[row->gpu].gpu);
        if (here && gk_pick_emu_sm_90a_equal(p, &row->problem)) {
            if (why) {
                *why = GK_MATCH_EXACT;
            }
            return row;
        }
        if (!gk_pick_emu_sm_90a_same_flags(p, &row->problem) || !gk_pick_emu_sm_90a_admits(row, p, &o)) {
            continue;
        }
        apart = gk_pick_emu_sm_90a_distance(p, &row->problem) + (here ? 0.0 : 0.001);
        if (!near_row || apart < best) {
            near_row = row;
            best = apart;
        }
    }
    if (near_row) {
        match = GK_MATCH_NEAR;
    } else {
        near_row = gk_pick_emu_sm_90a_default(p, &o, at);
        match = near_row ? GK_MATCH_DEFAULT : GK_MATCH_NONE;
    }
    if (why) {
        *why = match;
    }
    return near_row;
}

static inline const struct gk_pick_emu_sm_90a_row *gk_pick_emu_sm_90a_select(const struct gk_pick_problem *p, enum gk_match *why)
{
    return gk_pick_emu_sm_90a_select_on(NULL, p, why);
}

#ifndef gk_pick_select
#define gk_pick_select gk_pick_emu_sm_90a_select
#endif

#endif
