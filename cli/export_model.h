/*
 * What one header is made of: the rows of one op on one arch, with the templates that they use.
 * Internal to the export files.
 */
#ifndef GK_CLI_EXPORT_MODEL_H
#define GK_CLI_EXPORT_MODEL_H

#include "cli/export.h"

#include "core/record.h"

#define EXPORT_UNITS_MAX   32
#define EXPORT_GPUS_MAX    16
#define EXPORT_BUNDLES_MAX 64

/* A bundle's catalog, loaded. */
struct export_bundle {
    struct gk_hash id;
    const struct gk_catalog *catalog;
    struct gk_catalog *owned; /* the same, when it was unpacked for this export */
    char folder[24];          /* "src", or "src_0a1b2c3d" of a second bundle */
};

/* A template of a bundle: its code in the header stands once, however many rows use it. */
struct export_unit {
    const struct export_bundle *bundle;
    const struct gk_op *op; /* of that bundle */
    const struct gk_template *t;
    char name[GK_NAME_MAX + 8]; /* "gemm_mma"; "gemm_mma_2" of a second version */
};

struct export_gpu {
    char name[64];
    struct gk_device_props dev;
};

struct export_row {
    const struct gk_json *json; /* of export_data: lent */
    struct gk_problem problem;  /* by the unit's op */
    struct gk_problem shown;    /* by the set's op, which may have more fields */
    struct gk_config config;
    uint32_t unit, gpu;
    bool is_default;
};

struct export_set {
    char op_name[GK_NAME_MAX];
    char arch[32];   /* "emu-sm_80" */
    char ident[96];  /* "gk_gemm_emu_sm_80" */
    char target[32]; /* "sm_80" */
    bool modelled;
    char policy[32];
    const struct gk_op *op;             /* fields of the problem struct, defaults */
    const struct export_bundle *bundle; /* of op */
    struct export_unit units[EXPORT_UNITS_MAX];
    uint32_t unit_count;
    struct export_gpu gpus[EXPORT_GPUS_MAX];
    uint32_t gpu_count;
    struct export_row *rows; /* in the order of the header */
    uint32_t row_count;
};

/* Whether a row is of the ops, the arch and the gpu that were asked for, whatever its policy. */
bool export_wants(const struct gk_export_ask *ask, const struct gk_json *row);
/* The policy that was asked for, by name. */
const char *export_policy(const struct gk_export_ask *ask);

/* Rows of `rows` (array of export_data) for op and arch. */
enum gk_status export_set_init(struct export_set *set, const char *op, const char *arch,
                               const struct gk_json *rows, const struct export_bundle *bundles,
                               uint32_t bundle_count, struct gk_err *err);
void export_set_fini(struct export_set *set);

/* ---- text ---- */
enum gk_status export_header_text(const struct export_set *set, struct gk_buf *out,
                                  struct gk_err *err);
enum gk_status export_evidence_json(const struct export_set *set, const char *store,
                                    struct gk_json **json_out, struct gk_err *err);
enum gk_status export_rows_json(const struct export_set *set, struct gk_json **json_out,
                                struct gk_err *err);

/* Pieces of the header (export_code.c, export_shared.c, export_select.c). */
enum gk_status export_shared_types(struct gk_buf *out);
enum gk_status export_problem_types(const struct export_set *set, struct gk_buf *out,
                                    struct gk_err *err);
enum gk_status export_unit_code(const struct export_set *set, uint32_t unit, struct gk_buf *out,
                                struct gk_err *err);
enum gk_status export_default_code(const struct export_set *set, struct gk_buf *out,
                                   struct gk_err *err);
void export_select_code(const struct export_set *set, struct gk_buf *out);
void export_dispatch_code(const struct export_set *set, struct gk_buf *out);

/* C text of an expression; scope is that of op or template. `unit` NULL: only fields and derived
 * names of op. */
enum gk_status export_expr(const struct gk_op *op, const struct gk_template *t,
                           const struct gk_expr *expr, const struct gk_scope *scope,
                           struct gk_buf *out, struct gk_err *err);
/* Whether C can have the derived name of the op in this slot. */
bool export_has(const struct gk_op *op, uint32_t slot);
/* A name that is no word of C or C++. */
void export_name(const char *name, struct gk_buf *out);
/* "BF16" of "bf16": upper case, anything else '_'. */
void export_upper(const char *name, struct gk_buf *out);
void export_quoted(const char *text, struct gk_buf *out); /* a C string literal */

/* ---- files ---- */
struct export_files {
    const char *dir;
    struct gk_json *paths; /* written so far, relative */
    struct gk_buf sums;    /* CHECKSUMS */
};
enum gk_status export_files_init(struct export_files *files, const char *dir, struct gk_err *err);
void export_files_fini(struct export_files *files);
/* Makes folders on the way; a file with these bytes is left as it is. */
enum gk_status export_files_put(struct export_files *files, const char *path, const void *bytes,
                                size_t size, struct gk_err *err);
enum gk_status export_files_finish(struct export_files *files, struct gk_err *err);
/* Sources of a unit and all that they reach. */
enum gk_status export_files_sources(struct export_files *files, const struct export_unit *unit,
                                    struct gk_err *err);

#endif
