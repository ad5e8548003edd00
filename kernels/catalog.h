/*
 * The catalog: op.json and kernel.json, loaded, validated, compiled.
 *
 * docs/formats.md is the reference of both files. A catalog is loaded from a folder of ops
 * (kernels/: built-in families), from one kernel.json (a user's), or from an unpacked bundle;
 * built-in families have no privilege. Loading reports every mistake of every file in one pass. A
 * loaded catalog is immutable: any thread may read it.
 *
 * A bundle is everything that an op needs, by hash: sources, headers, op.json, kernel.json. The one
 * who submits packs it; the daemon stores the blobs; the worker unpacks it to a folder and loads a
 * catalog from there, so that all three read the very same bytes.
 */
#ifndef GK_KERNELS_CATALOG_H
#define GK_KERNELS_CATALOG_H

#include "core/config.h"
#include "core/device_props.h"
#include "core/problem.h"
#include "core/shapes.h"

#define GK_TENSORS_MAX       32
#define GK_WORKSPACES_MAX    8
#define GK_TENSOR_MAPS_MAX   16
#define GK_TENSOR_RANK_MAX   6
#define GK_ARGS_MAX          48
#define GK_TERMS_MAX         8
#define GK_PREFERENCES_MAX   16
#define GK_AVOIDED_MAX       4
#define GK_SOURCE_MAX        (256u << 10) /* bytes of one source file */
#define GK_BUNDLE_FILES_MAX  256
#define GK_BUNDLE_MAX        (8u << 20) /* bytes of all files of a bundle */
#define GK_AFTER_COMPILE_MAX 16

enum gk_dtype {
    GK_BF16,
    GK_F16,
    GK_E4M3,
    GK_F32,
    GK_F64,
    GK_I8,
    GK_I32,
    GK_I64,
    GK_U8,
    GK_U32,
    GK_DTYPE_COUNT
};
const char *gk_dtype_name(enum gk_dtype dtype); /* "bf16" */
bool gk_dtype_from_name(const char *name, enum gk_dtype *dtype_out);
uint32_t gk_dtype_bytes(enum gk_dtype dtype);
double gk_dtype_roundoff(enum gk_dtype dtype); /* unit roundoff; 0 for integers */

enum gk_tensor_role { GK_TENSOR_IN, GK_TENSOR_OUT, GK_TENSOR_INOUT };

enum gk_generator_kind {
    GK_GEN_NONE, /* an `out` tensor */
    GK_GEN_NORMAL,
    GK_GEN_UNIFORM,
    GK_GEN_TERNARY,
    GK_GEN_SMALL_INT,
    GK_GEN_CONSTANT,
    GK_GEN_OFFSETS,
    GK_GEN_SERIES,
    GK_GEN_PAGE_TABLE,
    GK_GEN_CLASS_INDEX,
    GK_GEN_BYTES
};

/* One element of a row that stands out: of a generator of reals. */
struct gk_spike {
    struct gk_expr *size;    /* NULL: no spike */
    struct gk_expr *share;   /* of rows that have one; NULL: all */
    struct gk_expr *columns; /* how many may be it, evenly spread; NULL: all */
};

struct gk_generator {
    enum gk_generator_kind kind;
    struct gk_expr *args[3]; /* by kind, in the order of docs/formats.md; NULL: the default */
    int32_t series_field;    /* index of the ints field, or -1 */
    struct gk_expr *round;   /* reals are rounded to multiples of it; NULL, or 0: they are not */
    struct gk_spike spike;
};

/* A dtype that is fixed, or named by a dtype field of the problem. */
struct gk_dtype_ref {
    bool from_field;
    enum gk_dtype dtype;
    uint32_t field; /* index into fields */
};

struct gk_tensor {
    char name[GK_NAME_MAX];
    enum gk_tensor_role role;
    struct gk_dtype_ref dtype;
    uint32_t rank;
    struct gk_expr *extents[GK_TENSOR_RANK_MAX];
    struct gk_expr *strides[GK_TENSOR_RANK_MAX]; /* all NULL: packed */
    struct gk_expr *offset;                      /* NULL: 0 */
    struct gk_expr *align; /* NULL: 256; of the first element's address, after the offset */
    struct gk_expr *when;  /* NULL: always */
    struct gk_generator gen;
    struct gk_generator exact, extreme; /* of those rungs; kind NONE: as gen */
    int32_t rows_owner;                 /* index of the ints field, or -1 */
    uint32_t rows_axis;                 /* 0: rows of all requests lie behind one another */
    int32_t rows_pages;                 /* tensor that says which request has a page, or -1 */
};

enum gk_arg_kind {
    GK_ARG_TENSOR,
    GK_ARG_WORKSPACE,
    GK_ARG_VALUE,
    GK_ARG_TENSOR_MAP,
    GK_ARG_RESULT
};
enum gk_scalar {
    GK_SCALAR_I32,
    GK_SCALAR_U32,
    GK_SCALAR_I64,
    GK_SCALAR_U64,
    GK_SCALAR_F32,
    GK_SCALAR_F64
};

struct gk_arg {
    enum gk_arg_kind kind;
    uint32_t index;       /* tensor, workspace, tensor map */
    struct gk_expr *expr; /* VALUE: the value; WORKSPACE: byte offset or NULL */
    enum gk_scalar scalar;
};

struct gk_workspace {
    char name[GK_NAME_MAX];
    enum gk_dtype dtype;
    struct gk_expr *extent; /* elements */
    struct gk_expr *align;  /* NULL: 256 */
    struct gk_expr *when;
    enum gk_workspace_init { GK_WS_ANY, GK_WS_ZERO, GK_WS_ZERO_KEPT } init;
};

struct gk_tensor_map {
    char name[GK_NAME_MAX];
    uint32_t tensor;
    uint32_t rank;
    struct gk_expr *dims[5], *box[5];
    struct gk_expr *strides[5]; /* bytes, by dimension; [0] is NULL: packed; all NULL: packed */
    struct gk_expr *element_strides[5]; /* NULL: 1 */
    struct gk_expr *offset;
    struct gk_expr *when;
    uint32_t swizzle;      /* bytes: 0, 32, 64, 128 */
    uint32_t l2_promotion; /* bytes: 0, 64, 128, 256 */
    bool fill_nan;
};

enum gk_l2_policy { GK_L2_PERSISTING, GK_L2_STREAMING, GK_L2_NORMAL };

struct gk_launch_def {
    char name[GK_NAME_MAX];
    char kernel[GK_NAME_MAX];
    char *source;          /* path relative to the catalog's root */
    struct gk_hash tokens; /* of the source and all that it includes */
    uint32_t param_mask;   /* bit i: parameter i is a macro of this launch */
    struct gk_expr *grid[3], *block[3], *cluster[3]; /* NULL: 1 */
    struct gk_expr *smem;                            /* NULL: 0 */
    struct gk_expr *when;
    bool is_plan;
    struct gk_arg args[GK_ARGS_MAX];
    uint32_t arg_count;
    bool cooperative, pdl, nonportable_cluster;
    struct gk_expr *carveout;
    int32_t l2_window_tensor; /* -1: none */
    double l2_window_hit_ratio;
    enum gk_l2_policy l2_window_policy;
};

struct gk_after_rule {
    struct gk_rule rule; /* over everything before, and k.* */
    int32_t launch;      /* -1: every launch */
};

struct gk_default_def {
    uint32_t template_index;
    struct gk_expr *values[GK_PARAMS_MAX]; /* by parameter, over the op's scope */
    struct gk_expr *when;
};

/* Of two templates that serve a problem the one whose speed nobody needs to measure again. */
struct gk_preference {
    uint32_t winner;      /* template */
    uint64_t over;        /* bit i: template i is not searched where the winner serves */
    struct gk_expr *when; /* over the op's scope; NULL: always */
    char *why;            /* NULL: not said */
};

struct gk_tolerance {
    bool present;
    struct {
        char name[GK_NAME_MAX];
        struct gk_expr *c;
        double u;
    } terms[GK_TERMS_MAX];
    uint32_t term_count;
    struct gk_expr *norm; /* NULL: no norm bound */
};

/* The call of a vendor's library that does what the op does. No part of any identity. */
struct gk_vendor_def {
    bool present;
    enum gk_vendor_library { GK_VENDOR_CUBLASLT } library;
    uint32_t a, b, d;             /* tensors: D = alpha op(A) op(B) + beta C + bias */
    int32_t c, bias;              /* tensors, or -1 */
    struct gk_expr *when;         /* NULL: always */
    struct gk_expr *a_transposed; /* the tensor holds op(A)'s transpose; NULL: no */
    struct gk_expr *b_transposed; /* the same of B */
    struct gk_expr *alpha, *beta; /* NULL: 1, 0 */
    struct gk_expr *relu;         /* of the result; NULL: no */
    struct gk_expr *gelu_tanh;    /* the tanh form of gelu; NULL: no */
    struct gk_expr *fast_accum;   /* sums of 8-bit inputs may keep fewer bits; NULL: no */
};

/* What a composition of plain ops would have in memory between them, and this op has not. */
struct gk_avoided {
    char name[GK_NAME_MAX];
    struct gk_expr *bytes; /* over the op's scope */
};

/* How long a config is expected to take, from what is known before it is compiled. It orders a
 * search and nothing else: no part of any identity. */
struct gk_prior {
    struct gk_scope *scope; /* the template's without k.*, then names; NULL: there is no prior */
    struct gk_rule *names;  /* derived names of its own, in order */
    uint32_t name_count;
    struct gk_expr *seconds;
};

struct gk_template {
    char name[GK_NAME_MAX];
    char *doc;
    char *file; /* the kernel.json that it was read from, for messages; not part of its identity */
    struct gk_hash hash;
    char **archs; /* as written: "sm_90a", "sm_80+" */
    uint32_t arch_count;
    struct gk_scope *scope; /* op's symbols first (same slots), then dev.*, params, derived, k.* */
    uint32_t dev_slot, k_slot; /* first slots of dev.* and k.* */
    struct gk_param params[GK_PARAMS_MAX];
    uint32_t param_count;
    struct gk_rule *rules; /* derived and before-compile constraints in evaluation order; the
                              tensor maps' own rules are among them */
    uint32_t rule_count;
    struct gk_after_rule after[GK_AFTER_COMPILE_MAX];
    uint32_t after_count;
    uint64_t bake_mask; /* bit i: field i is a macro though it is int or real */
    struct gk_workspace workspaces[GK_WORKSPACES_MAX];
    uint32_t workspace_count;
    struct gk_tensor_map maps[GK_TENSOR_MAPS_MAX];
    uint32_t map_count;
    struct gk_launch_def launches[8];
    uint32_t launch_count;
    char **options;
    uint32_t option_count;
    char **include_dirs; /* relative to the catalog's root */
    uint32_t include_dir_count;
    char *dtype_macros[GK_DTYPE_COUNT]; /* C++ type of each element type */
    char macro_prefix[GK_NAME_MAX];
    struct gk_prior prior;
};

#define GK_SMALL_MAX        8
#define GK_SMALL_FIELDS_MAX 16

#define GK_SMALL_LIST_MAX 8

/* A field of a smaller problem: what it becomes, over the larger problem's fields. */
struct gk_small_field {
    uint32_t field;
    struct gk_expr *values[GK_SMALL_LIST_MAX]; /* one; of a field of type ints one a request */
    uint32_t value_count;                      /* 0: left out, as its default */
};

/* A smaller problem: fields that become others. */
struct gk_small_def {
    struct gk_small_field fields[GK_SMALL_FIELDS_MAX];
    uint32_t count;
};

struct gk_op {
    struct gk_op_fields fields; /* name, family, fields, rules, scope */
    char *doc;
    struct gk_json *example; /* fields of a problem for people to look at; NULL */
    struct gk_tensor tensors[GK_TENSORS_MAX];
    uint32_t tensor_count;
    struct gk_expr *flops, *bytes;
    struct gk_launch_def reference; /* its args may be RESULT */
    bool has_reference;
    struct gk_hash
        meaning; /* of what a verified result stands for; part of every template's hash */
    uint32_t exact_outputs; /* bit i: tensor i is compared bit for bit */
    uint32_t exact_bounded; /* bit i: tensor i is held to its tolerance by the exact rung too */
    struct gk_tolerance tolerance[GK_TENSORS_MAX];
    struct gk_expr *exact_when, *extreme_when; /* NULL: no such rung */
    struct gk_vendor_def vendor;
    struct gk_template
        *templates; /* declared order: file names sorted, or op.json's "templates" list */
    uint32_t template_count;
    struct gk_default_def *defaults;
    uint32_t default_count;
    struct gk_preference preferences[GK_PREFERENCES_MAX];
    uint32_t preference_count;
    struct gk_avoided avoided[GK_AVOIDED_MAX];
    uint32_t avoided_count;
    struct gk_small_def small[GK_SMALL_MAX]; /* in the order in which they are tried */
    uint32_t small_count;
};

struct gk_bundle_file {
    char *path; /* relative, '/' separated, no "..", no leading '/' */
    struct gk_hash hash;
    size_t size;
};

struct gk_bundle {
    struct gk_bundle_file *files; /* sorted by path */
    uint32_t count;
    struct gk_hash id; /* over paths and hashes */
};

struct gk_catalog;

/* Loads every op below root (root/<op>/op.json) with include path root/include. */
enum gk_status gk_catalog_load(const char *root, struct gk_catalog **catalog_out,
                               struct gk_diag *diag);
/* Loads one op: `what` is an op or family of `root` (only that family is read), or the path of a
 * user's
 * *.kernel.json, whose op.json is looked for beside it and then in root/<its op>. */
enum gk_status gk_catalog_load_for(const char *root, const char *what,
                                   struct gk_catalog **catalog_out, struct gk_diag *diag);
void gk_catalog_destroy(struct gk_catalog *catalog);

uint32_t gk_catalog_op_count(const struct gk_catalog *catalog);
const struct gk_op *gk_catalog_op(const struct gk_catalog *catalog, uint32_t index);
const struct gk_op *gk_catalog_find(const struct gk_catalog *catalog, const char *op);
/* For gk_shapes_load. */
struct gk_op_lookup gk_catalog_lookup(const struct gk_catalog *catalog);

/* Files of the whole catalog (a catalog loaded for one op or family: of that alone). */
enum gk_status gk_catalog_bundle(const struct gk_catalog *catalog, struct gk_bundle *bundle_out,
                                 struct gk_err *err);
void gk_bundle_fini(struct gk_bundle *bundle);
/* Reads one file of the bundle from the catalog; malloc'd. */
enum gk_status gk_catalog_file(const struct gk_catalog *catalog, const char *path, char **text_out,
                               size_t *size_out, struct gk_err *err);
struct gk_json *gk_bundle_to_json(const struct gk_bundle *bundle);
enum gk_status gk_bundle_from_json(const struct gk_json *json, struct gk_bundle *bundle_out,
                                   struct gk_err *err);

/* NULL: the op has none of that name. */
const struct gk_template *gk_op_template(const struct gk_op *op, const char *name);
/* True if the template is written for this target ("sm_90a"). */
bool gk_template_runs_on(const struct gk_template *template_, const char *target);

/* The space of a problem on a device: every template that runs on dev->target. GK_INPUT when none
 * serves the problem: names each template and the constraint over fields that refuses it. `problem`
 * and the catalog must outlive the definition. */
enum gk_status gk_catalog_space(const struct gk_op *op, const struct gk_problem *problem,
                                const struct gk_device_props *dev, struct gk_space_def *def_out,
                                struct gk_err *err);
/* The same question without a space: does any template serve the problem at all (on any arch)? */
enum gk_status gk_catalog_serves(const struct gk_op *op, const struct gk_problem *problem,
                                 struct gk_err *err);
/* A template that op.json's preferences take out of a search, and why; all texts are the op's. */
struct gk_passed_over {
    const char *name, *winner, *why; /* why may be NULL */
};
/* Takes the trees out of `def` that nobody should search because a tree of the definition is
 * preferred to them: what a search space is made of. A definition for rendering or exporting a
 * config that is already known keeps all trees. passed_out (GK_TREES_MAX entries) with count_out,
 * or NULL: what was taken out. */
enum gk_status gk_catalog_prefer(const struct gk_op *op, const struct gk_problem *problem,
                                 struct gk_space_def *def, struct gk_passed_over *passed_out,
                                 uint32_t *count_out, struct gk_err *err);
/* The problem made small as op.json's "small" number `which` says. GK_END: it has no such; GK_INPUT
 * or GK_RANGE: what comes out is no problem of the op (named). */
enum gk_status gk_problem_small(const struct gk_op *op, const struct gk_problem *problem,
                                uint32_t which, struct gk_problem *small_out, struct gk_err *err);

/* The default: first entry of op.json's list whose `when` holds and whose config is legal here.
 * GK_NOT_FOUND if none is. */
enum gk_status gk_catalog_default(const struct gk_op *op, const struct gk_problem *problem,
                                  const struct gk_space_def *def, struct gk_config *config_out,
                                  uint32_t *tree_out, struct gk_err *err);
/* Evaluates a tree's rules for a config: slots_out has tree->slot_count entries, filled with base,
 * parameters and derived names. GK_INPUT names the broken constraint ("constraint smem_fits:
 * <expr>: <why>"). */
enum gk_status gk_tree_evaluate(const struct gk_tree *tree, const struct gk_config *config,
                                union gk_value *slots_out, struct gk_err *err);

/* What the template's prior expects of a legal config. GK_NOT_FOUND: it has none; GK_RANGE: an
 * expression of it fails for this config or gives no time. Good in this tree alone, and only to
 * order configs: nobody should believe the number. */
enum gk_status gk_catalog_prior(const struct gk_op *op, const struct gk_tree *tree,
                                const struct gk_config *config, double *seconds_out,
                                struct gk_err *err);

/* Device memory of one run of a legal config, in bytes. */
struct gk_memory_need {
    double tensor_bytes, workspace_bytes;
    double avoided_bytes[GK_AVOIDED_MAX]; /* by entry of the op's "avoids" */
};
/* Padding between rows counts; what an allocator rounds up does not. */
enum gk_status gk_catalog_memory(const struct gk_op *op, const struct gk_tree *tree,
                                 const struct gk_config *config, struct gk_memory_need *need_out,
                                 struct gk_err *err);

/* The same of slots that are filled up to k.*: fields, dev.*, parameters and derived names. */
enum gk_status gk_template_prior(const struct gk_template *template_, const union gk_value *slots,
                                 double *seconds_out, struct gk_err *err);

/* Defines ("NAME=VALUE") that launch `launch_index` of the template is compiled with: what the
 * compiler gets and what an export writes down. Sorted; the caller frees with gk_defines_free. */
enum gk_status gk_catalog_defines(const struct gk_op *op, const struct gk_template *template_,
                                  uint32_t launch_index, const struct gk_problem *problem,
                                  const struct gk_config *config, const char *target,
                                  char ***defines_out, uint32_t *count_out, struct gk_err *err);
void gk_defines_free(char **defines, uint32_t count);

#endif
