/*
 * T4 results: our own trials written so that others' tools read them, and a check of such files.
 *
 * One file is one space: every configuration has the same parameters. Written rows carry both
 * `compilation` and `compilation_time` (tools read one or the other), times in milliseconds, and
 * what T4 has no place for as measurements.
 */
#ifndef GK_SEARCH_REPLAY_T4_H
#define GK_SEARCH_REPLAY_T4_H

#include "core/json.h"
#include "search/replay.h"

struct gk_t4_measurement {
    const char *name;
    double value;
    const char *unit; /* "" for a count */
};

struct gk_t4_result {
    const struct gk_json *configuration; /* an object: parameter to value; borrowed */
    enum gk_replay_outcome outcome;
    const char *failure; /* of one that is not ok: what exactly, as "race"; borrowed */
    int64_t recorded_ms; /* UTC since 1970 */
    double compile_ns, run_ns, verify_ns, overhead_ns;
    double time_ns; /* of an ok one */
    const double *samples_ns;
    uint32_t sample_count;
    const struct gk_t4_measurement *measurements;
    uint32_t measurement_count;
};

struct gk_t4_head {
    const char *device, *kernel; /* names */
    const char *problem;         /* canonical text */
    const char *version;         /* of the program that writes */
};

/* The text up to the first row; then rows, in the order of the calls; then the end. */
void gk_t4_begin(const struct gk_t4_head *head, struct gk_buf *out);
enum gk_status gk_t4_add(const struct gk_t4_result *result, bool first, struct gk_buf *out,
                         struct gk_err *err);
void gk_t4_end(struct gk_buf *out);

/* What of one row breaks T4's rules, each as a message that begins with `where`. */
void gk_t4_check_row(const struct gk_json *row, const char *where, struct gk_diag *diag);
/* The same of a member of the root. */
void gk_t4_check_head(const char *key, const struct gk_json *value, struct gk_diag *diag);

/* From now on what the reader meets is held to the format's rules: everything that is dropped or
 * oddly spelt, and of T4 what gk_t4_check_* say, goes to diag (borrowed; it must live until
 * finish). What is read stays the same. */
void gk_replay_reader_check(struct gk_replay_reader *reader, struct gk_diag *diag);

#endif
