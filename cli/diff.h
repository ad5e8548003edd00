/*
 * What changed between two exports or stores, row by row.
 *
 *   diff.c         verdicts over two sides: pure
 *   diff_read.c    a side out of an export's folder, an evidence file, what `show --json` printed
 *   diff_store.c   a side out of a store: a state folder, a backup
 *   diff_print.c   as a table, Markdown, JSON
 *
 * A row is a problem on an arch and gpu under a policy. It has what would be shipped (a pick row of
 * `export_data`), what became of it in the last job that asked for it (a task), or both.
 */
#ifndef GK_CLI_DIFF_H
#define GK_CLI_DIFF_H

#include "cli/client.h"

#define GK_DIFF_ROWS_MAX 40000 /* of one side: as many as a job may have tasks */

struct gk_diff_row {
    char *key;            /* problem, arch, gpu, policy, a line each */
    struct gk_json *pick; /* NULL: nothing would be shipped */
    struct gk_json *task; /* {state not_run? reason? incumbent? incumbent_failure? ..}; NULL */
};

struct gk_diff_side {
    char *name;               /* as the command line has it */
    char *store;              /* id of the store, "" if it is not told */
    struct gk_diff_row *rows; /* by key */
    uint32_t count, capacity;
};

/* Names and the order in which they are shown: what needs a look stands first. */
#define GK_DIFF_MAP(X)                                                                             \
    X(WRONG, "WRONG")                                                                              \
    X(SLOWER, "SLOWER")                                                                            \
    X(NOT_RUN, "NOT-RUN")                                                                          \
    X(UNCLEAR, "UNCLEAR")                                                                          \
    X(GONE, "GONE")                                                                                \
    X(FASTER, "FASTER")                                                                            \
    X(NEW, "NEW")                                                                                  \
    X(SAME, "SAME")

enum gk_diff_verdict {
#define GK_DIFF_ENUM(name, text) GK_DIFF_##name,
    GK_DIFF_MAP(GK_DIFF_ENUM)
#undef GK_DIFF_ENUM
        GK_DIFF_VERDICTS
};
const char *gk_diff_verdict_name(enum gk_diff_verdict verdict);

struct gk_diff_line {
    const struct gk_diff_row *a, *b; /* lent; one may be NULL */
    enum gk_diff_verdict verdict;
    bool regressed;    /* it is slower or wrong and was not before */
    double ratio;      /* time of b over time of a; 0: not both are known */
    double limit;      /* how far two times may stand apart and be the same: 0.02 is 2 % */
    bool paired;       /* the ratio is of one round, in which both configs took part */
    struct gk_buf why; /* what differs beside the time, or why nothing was measured */
};

struct gk_diff {
    struct gk_diff_line *lines; /* by verdict, then by key */
    uint32_t count, counts[GK_DIFF_VERDICTS], regressed;
    /* Values that all rows of both sides share, where they are not the same on both; "" if rows of
     * a side differ among themselves, NULL pointers never. */
    struct gk_buf context; /* lines as "nvrtc: 12.8 -> 13.0 in 40 rows" */
};

void gk_diff_side_fini(struct gk_diff_side *side);
/* Takes both, which may be NULL. The pick or task of a key that is there already is replaced; pick
 * rows that stand twice are the reader's to refuse (see has_pick). */
enum gk_status gk_diff_side_add(struct gk_diff_side *side, const char *problem, const char *arch,
                                const char *gpu, const char *policy, struct gk_json *pick,
                                struct gk_json *task, struct gk_err *err);
const struct gk_diff_row *gk_diff_side_find(const struct gk_diff_side *side, const char *problem,
                                            const char *arch, const char *gpu, const char *policy);
/* Both sides must outlive the diff. */
enum gk_status gk_diff_make(const struct gk_diff_side *a, const struct gk_diff_side *b,
                            struct gk_diff *diff_out, struct gk_err *err);
void gk_diff_fini(struct gk_diff *diff);

/* ---- diff_read.c ---- */
/* One evidence file's text, every row of it checked in full; `path` names it in messages. */
enum gk_status gk_diff_evidence(const char *text, size_t size, const char *path,
                                struct gk_diff_side *side, struct gk_diag *diag);
/* {"version":1,"jobs":[{job policy tasks:[..]}]}: what an export says of jobs (jobs.json). */
enum gk_status gk_diff_jobs(const char *text, size_t size, const char *path,
                            struct gk_diff_side *side, struct gk_diag *diag);
/* A file or folder of an export; CHECKSUMS are held against every file that is read. */
enum gk_status gk_diff_read(const char *path, struct gk_diff_side *side, struct gk_diag *diag);
/* What jobs.json holds of a job: of `show` (all pages), its tasks without their verdicts. */
struct gk_json *gk_diff_job_json(const struct gk_json *job, const struct gk_json *tasks);

/* ---- diff_store.c ---- */
/* True for a state folder with a store, and for a backup. */
bool gk_diff_is_store(const char *path);
/* Reads through the folder's daemon, or a private one; a backup through one of its own. */
enum gk_status gk_diff_store(struct gk_cli *cli, const char *path, struct gk_diff_side *side,
                             struct gk_err *err);
/* {"version":1,"jobs":[..]} of these jobs, for an export. */
enum gk_status gk_diff_jobs_of(struct gk_client *client, const int64_t *jobs, uint32_t count,
                               struct gk_json **json_out, struct gk_err *err);

/* ---- diff_print.c ---- */
struct gk_json *gk_diff_json(const struct gk_diff *diff, const struct gk_diff_side *a,
                             const struct gk_diff_side *b);
void gk_diff_table(struct gk_cli *cli, const struct gk_diff *diff, struct gk_buf *out);
void gk_diff_markdown(struct gk_cli *cli, const struct gk_diff *diff, const struct gk_diff_side *a,
                      const struct gk_diff_side *b, struct gk_buf *out);
/* "1 WRONG, 2 SLOWER, 40 SAME" */
void gk_diff_counts(const struct gk_diff *diff, struct gk_buf *out);

#endif
