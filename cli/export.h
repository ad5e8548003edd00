/*
 * Exports: one consistent read of the store, rendered and written as a whole.
 *
 *   gk_<op>_<arch>.h               what equal picks share: rows, selection, launches
 *   gk_<op>_<arch>.evidence.json   everything measured: times, margins, ties, rungs, dates,
 * environment gk_<op>_<arch>.json            (format json) the rows with their picks src/<path>
 * template sources that rows use and the headers that these reach CHECKSUMS BLAKE2b-256 of every
 * file, one a line
 *
 * Files are written aside and renamed, the checksums last. Header bytes depend on picks alone.
 */
#ifndef GK_CLI_EXPORT_H
#define GK_CLI_EXPORT_H

#include "cli/client.h"

enum gk_export_format { GK_EXPORT_HEADER, GK_EXPORT_JSON, GK_EXPORT_T4 };

struct gk_export_ask {
    const char *const *ops; /* NULL: every op that has rows */
    uint32_t op_count;
    const char *arch;   /* NULL: every arch that has rows */
    const char *gpu;    /* NULL: every gpu */
    const char *policy; /* NULL: cold-graph */
    int64_t job;        /* 0: the whole store; else the ops and archs of this job */
    enum gk_export_format format;
    const char *out_dir;
    /* Written as jobs.json beside the rows; then an export without a row is one too. NULL: none. */
    const struct gk_json *jobs_json;
    const struct gk_catalog
        *kernels; /* where files are looked for by hash before the daemon is asked; may be NULL */
};

/* Makes the folder if it is missing and tries whether files can be written there. GK_INPUT names
 * it. For commands that export only after hours of work. */
enum gk_status gk_export_folder(const char *dir, struct gk_err *err);

/* files_out (may be NULL) gets the paths written, an array of strings. GK_NOT_FOUND when no row
 * fits. */
enum gk_status gk_export(struct gk_client *client, const struct gk_export_ask *ask,
                         struct gk_json **files_out, struct gk_err *err);

/* Every trial as T4 results, one file a problem, device and template; picks have no part in it. */
enum gk_status gk_export_trials(struct gk_client *client, const struct gk_export_ask *ask,
                                struct gk_json **files_out, struct gk_err *err);

/* The same from data at hand: reply of export_data (all pages' rows in one), and a catalog that
 * holds the templates. For tests; `sources` of each bundle come from the catalog. */
enum gk_status gk_export_data(const struct gk_json *data, const struct gk_catalog *catalog,
                              const struct gk_export_ask *ask, struct gk_json **files_out,
                              struct gk_err *err);

#endif
