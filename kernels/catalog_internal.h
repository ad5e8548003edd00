/*
 * Inside kernels/: what the files of the catalog share. Nothing outside kernels/ includes this.
 *
 * Three things: the reader (JSON to fields, every mistake into one gk_diag with file and place),
 * the source table (each file read once, kept in memory with its hash and its #include lines), and
 * the sections of the two formats, one function each.
 */
#ifndef GK_KERNELS_CATALOG_INTERNAL_H
#define GK_KERNELS_CATALOG_INTERNAL_H

#include "kernels/catalog.h"

#define GK_RULES_MAX        256 /* derived names and constraints of one file: far over any real */
#define GK_OPS_MAX          64
#define GK_TEMPLATES_MAX    GK_TREES_MAX
#define GK_DEFAULTS_MAX     64
#define GK_OPTIONS_MAX      16
#define GK_ARCHS_MAX        16
#define GK_INCLUDE_DIRS_MAX 8
#define GK_PATH_MAX         256  /* bytes of a path inside a catalog, with its NUL */
#define GK_MAP_NAME_MAX     32   /* "tensor_map.<name>.inner_box_swizzle" must fit GK_NAME_MAX */
#define GK_PARAM_BYTES_MAX  4096 /* of a kernel's arguments: what every driver takes */

/* ------------------------------------------------------------------ reader (catalog_read.c) */

/* Where we are in which file. Every mistake becomes "<file>: <place>: <met>; <allowed>". */
struct gk_reader {
    struct gk_diag *diag;
    const char *file;
    char place[256]; /* "launches[2].args[0]", "" at the top */
    size_t place_size;
    uint32_t errors; /* added through this reader */
};

void gk_reader_init(struct gk_reader *r, const char *file, struct gk_diag *diag);
/* Goes down one step; the mark returned brings gk_reader_leave() back up. */
size_t gk_reader_enter(struct gk_reader *r, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void gk_reader_leave(struct gk_reader *r, size_t mark);
/* Adds a message at the place (and `key` in it, unless NULL). */
enum gk_status gk_reader_fail(struct gk_reader *r, const char *key, enum gk_status status,
                              const char *format, ...) __attribute__((format(printf, 4, 5)));
/* True if json is an object all of whose keys are in the NULL-terminated list (or "doc", "why").
 * Not an object: false. Unknown keys are reported and the answer stays true, so that reading goes
 * on. */
bool gk_read_keys(struct gk_reader *r, const struct gk_json *json, const char *const *allowed);
/* Text member of at most max bytes: lent; NULL if absent (reported when required) or wrong. */
const char *gk_read_text(struct gk_reader *r, const struct gk_json *object, const char *key,
                         size_t max, bool required);
/* A copy of "doc" or "why"; NULL if there is none. */
char *gk_read_doc(struct gk_reader *r, const struct gk_json *object);
/* A name: [A-Za-z_][A-Za-z0-9_]*, no dot, of at most max - 1 bytes. */
bool gk_read_name(struct gk_reader *r, const struct gk_json *object, const char *key, size_t max,
                  char *name_out);
bool gk_read_bool(struct gk_reader *r, const struct gk_json *object, const char *key,
                  bool fallback);
/* A list of min..max entries; NULL if absent (reported when required) or wrong. */
const struct gk_json *gk_read_list(struct gk_reader *r, const struct gk_json *object,
                                   const char *key, size_t min, size_t max, bool required);
/* Index of a text member in a NULL-terminated list of choices, fallback if absent (-1 and a message
 * when fallback is -1). A wrong value is reported and gives the fallback. */
int gk_read_choice(struct gk_reader *r, const struct gk_json *object, const char *key,
                   const char *const *choices, int fallback);
bool gk_plain_name(const char *text); /* a name without a dot */

enum gk_wanted { GK_WANT_INT, GK_WANT_REAL };
/* Compiles a JSON text, number or truth value as an expression; NULL and a message if it is none.
 */
struct gk_expr *gk_read_expr_value(struct gk_reader *r, const struct gk_json *value,
                                   const char *key, const struct gk_scope *scope,
                                   enum gk_wanted wanted);
/* The same for a member; NULL if absent (reported when required) or wrong. */
struct gk_expr *gk_read_expr(struct gk_reader *r, const struct gk_json *object, const char *key,
                             const struct gk_scope *scope, enum gk_wanted wanted, bool required);
/* A list of min..max integer expressions into out[]; the count (0 if absent or wrong). */
uint32_t gk_read_exprs(struct gk_reader *r, const struct gk_json *object, const char *key,
                       const struct gk_scope *scope, uint32_t min, uint32_t max, bool required,
                       struct gk_expr **out);

/* Rules of a file in evaluation order: early constraints, derived names (each added to the scope),
 * constraints. */
struct gk_rule_list {
    struct gk_rule *rules;
    uint32_t count;
};
void gk_read_rules(struct gk_reader *r, const struct gk_json *object, struct gk_scope *scope,
                   struct gk_rule_list *list);
/* Takes expr and doc, also when it fails. */
void gk_rules_add(struct gk_reader *r, struct gk_rule_list *list, const char *name, char *doc,
                  struct gk_expr *expr, bool is_constraint, uint32_t slot);
void gk_rules_free(struct gk_rule *rules, uint32_t count);

/* ------------------------------------------------------------------ sources (catalog_source.c) */

struct gk_include {
    char *name;
    bool quoted;
    uint32_t line;
};

/* One file of the catalog: read once, kept as it was read. */
struct gk_source {
    char *path; /* in the catalog: "gemm/gemm_mma.cuh", "include/gk/base.cuh" */
    char *real; /* where it was read */
    uint32_t folder;
    char *text;
    size_t size;
    struct gk_hash hash;   /* of its bytes */
    struct gk_hash tokens; /* of its tokens */
    bool scanned;          /* tokens and includes are set: JSON files are not scanned */
    struct gk_include *includes;
    uint32_t include_count;
};

/* A real folder and the prefix it has in the catalog. Two may share a prefix: a user's folder and
 * the built-in op's. */
struct gk_folder {
    char *prefix; /* "gemm", "include" */
    char *real;   /* resolved: the border that no file may lie beyond */
};

struct gk_catalog {
    char *root;
    struct gk_op *ops[GK_OPS_MAX];
    uint32_t op_count;
    char *names; /* "attention, gemm" */
    struct gk_source *sources[GK_BUNDLE_FILES_MAX];
    uint32_t source_count;
    size_t source_bytes;
    struct gk_folder folders[2 * GK_OPS_MAX + 1];
    uint32_t folder_count;
};

/* A path that may stand in a catalog: relative, '/' between plain parts, no "." and "..",
 * printable. */
bool gk_path_is_legal(const char *path);
/* Adds a folder, resolving it; *index_out. */
enum gk_status gk_folder_add(struct gk_catalog *catalog, const char *prefix, const char *real,
                             uint32_t *index_out, struct gk_err *err);
/* Reads `name` (relative to the folder) unless it was read before. GK_NOT_FOUND if there is no such
 * file, GK_DENIED if it lies outside the folder, GK_CONFLICT if another file holds its path. */
enum gk_status gk_source_open(struct gk_catalog *catalog, uint32_t folder, const char *name,
                              struct gk_source **source_out, struct gk_err *err);
struct gk_source *gk_source_find(const struct gk_catalog *catalog, const char *path);
/* Tokens and #include lines (catalog_token.c). */
enum gk_status gk_source_scan(struct gk_source *source, struct gk_err *err);
void gk_source_free(struct gk_source *source);

/* Reads everything that `start` includes, directly or not, and gives the hash over the tokens of
 * all of it in the order of first mention. Mistakes go to the reader. */
struct gk_reach {
    struct gk_catalog *catalog;
    uint32_t folder;                 /* of the template or op */
    const char *const *include_dirs; /* relative to that folder */
    uint32_t include_dir_count;
    int64_t include_folder; /* of gk headers, -1 if there is none */
};
void gk_reach_tokens(const struct gk_reach *reach, struct gk_reader *r, const char *key,
                     const char *start, char **path_out, struct gk_hash *tokens_out);

/* ------------------------------------------------------------------ sections of the formats */

/* Texts of an enum's or a parameter's values; NULL when out of memory. */
char **gk_read_values(struct gk_reader *r, const struct gk_json *list, uint32_t *count_out);
void gk_free_values(char **values, uint32_t count);

/* Fields, rules, tensors, traffic; then reference, tolerance and exact rung; defaults when the
 * templates are known. */
void gk_op_read(struct gk_reader *r, const struct gk_json *json, struct gk_op *op);
void gk_op_read_checks(struct gk_reader *r, const struct gk_json *json,
                       const struct gk_reach *reach, struct gk_op *op);
void gk_op_read_reference(struct gk_reader *r, const struct gk_json *json,
                          const struct gk_reach *reach, struct gk_op *op);
/* Reads one field and adds it to the op's scope; goes one place deeper, which the caller leaves. */
void gk_op_read_field(struct gk_reader *r, const struct gk_json *json, struct gk_op *op);
/* A list of names of output tensors: bit i for tensor i. */
uint32_t gk_op_read_outputs(struct gk_reader *r, const struct gk_json *json, const char *key,
                            const struct gk_op *op);
/* The rungs with inputs of their own: exact, extreme. */
void gk_op_read_special(struct gk_reader *r, const struct gk_json *json, struct gk_op *op);
void gk_tensor_fini(struct gk_tensor *tensor);
/* After the tensors. */
void gk_op_read_vendor(struct gk_reader *r, const struct gk_json *json, struct gk_op *op);
void gk_vendor_def_fini(struct gk_vendor_def *vendor);
void gk_op_read_avoided(struct gk_reader *r, const struct gk_json *json, struct gk_op *op);
void gk_avoided_fini(struct gk_avoided *avoided);
void gk_op_read_small(struct gk_reader *r, const struct gk_json *json, struct gk_op *op);
void gk_small_fini(struct gk_small_def *small);
/* Values of all names of a legal config of a space: fields, parameters, derived names. `slots` has
 * GK_SCOPE_SYMBOLS_MAX of them. */
enum gk_status gk_tree_slots(const struct gk_tree *tree, const struct gk_config *config,
                             union gk_value *slots, struct gk_err *err);
void gk_op_read_defaults(struct gk_reader *r, const struct gk_json *json, struct gk_op *op);
/* The template named by `text`, or NULL: none of that name is here. It is reported under `key`
 * unless op.json's "templates" lists it or a template had no name to compare. */
const struct gk_template *gk_op_named_template(struct gk_reader *r, const char *key,
                                               const char *text, const struct gk_json *json,
                                               const struct gk_op *op);
void gk_op_read_preferences(struct gk_reader *r, const struct gk_json *json, struct gk_op *op);
void gk_preference_fini(struct gk_preference *preference);
void gk_op_read_tensors(struct gk_reader *r, const struct gk_json *json, struct gk_op *op);
int64_t gk_op_field_index(const struct gk_op *op, const char *name); /* -1: none */
int64_t gk_op_tensor_index(const struct gk_op *op, const char *name);
/* "A, B, C" of an op's tensors, for messages. */
void gk_op_tensor_names(const struct gk_op *op, struct gk_buf *buf);
void gk_op_free(struct gk_op *op);

void gk_template_read(struct gk_reader *r, const struct gk_json *json, const struct gk_op *op,
                      const struct gk_reach *reach, struct gk_template *t);
void gk_template_fini(struct gk_template *t);
/* Identity: see docs/formats.md. `tokens` are those of each launch. */
enum gk_status gk_template_hash(const struct gk_json *json, const struct gk_op *op,
                                const struct gk_template *t, struct gk_hash *hash_out,
                                struct gk_err *err);
/* What "verified" means for this op: tensors, reference with its tokens, tolerance, exact rung. */
enum gk_status gk_op_hash(const struct gk_json *json, const struct gk_op *op,
                          struct gk_hash *hash_out, struct gk_err *err);

/* After the rules and before k.*: what a prior reads is known before a config is compiled. */
void gk_prior_read(struct gk_reader *r, const struct gk_json *json, struct gk_template *t);
void gk_prior_fini(struct gk_prior *prior);

void gk_map_fini(struct gk_tensor_map *map);
void gk_maps_read(struct gk_reader *r, const struct gk_json *json, const struct gk_op *op,
                  struct gk_template *t, struct gk_rule_list *rules);

/* Launches in two passes: everything but the grids, in a scope without k.*; then the grids with it.
 * For the reference t is NULL. */
void gk_launch_read(struct gk_reader *r, const struct gk_json *json, const struct gk_op *op,
                    const struct gk_template *t, const struct gk_scope *scope,
                    struct gk_launch_def *launch);
void gk_launch_read_grid(struct gk_reader *r, const struct gk_json *json,
                         const struct gk_scope *scope, struct gk_launch_def *launch);
void gk_launch_fini(struct gk_launch_def *launch);

/* Every macro that a launch of the template may get, checked for collisions and words of C++. */
void gk_macros_check(struct gk_reader *r, const struct gk_op *op, const struct gk_template *t);
/* Upper case, other characters '_': what stands after the prefix. */
void gk_macro_word(const char *name, struct gk_buf *buf);
/* C++ type of an element type unless the template says otherwise. */
const char *gk_dtype_cpp(enum gk_dtype dtype);
/* 800, 900, ... of "sm_80", "sm_90a"; 0 if it is no target. */
uint32_t gk_target_arch(const char *target);

/* Evaluates one rule over slots: fills a derived name, or fails with the constraint's name, text,
 * reason and the values it met. */
enum gk_status gk_rule_apply(const struct gk_rule *rule, const struct gk_scope *scope,
                             union gk_value *slots, struct gk_err *err);

#endif
