/* Listings of the daemon as a table or as JSON: what jobs, trials, best and workers share. */
#ifndef GK_CLI_LISTING_H
#define GK_CLI_LISTING_H

#include "cli/client.h"
#include "cli/table.h"

/* Adds one row's cells to the table. */
typedef void (*gk_listing_cells)(struct gk_cli *cli, struct gk_table *table,
                                 const struct gk_json *row);

/* Asks `verb` with body (taken), prints all pages. With --json {list: [rows]}; else a table with
 * `head`, or the text `none` on stderr when there is no row. */
enum gk_status gk_listing(struct gk_cli *cli, struct gk_client *client, const char *verb,
                          struct gk_json *body, const char *list, const char *head,
                          gk_listing_cells cells, const char *none, struct gk_err *err);

/* A member as text for a cell: "-" when absent or null. */
void gk_cell_text(struct gk_table *table, const struct gk_json *row, const char *key);
void gk_cell_int(struct gk_table *table, const struct gk_json *row, const char *key);
void gk_cell_time(struct gk_table *table, const struct gk_json *row, const char *key);
/* What the fields of problems are looked up in: the request's catalog, else the whole one, loaded
 * at the first call; NULL if there is none that loads. Owned by cli. */
const struct gk_catalog *gk_label_catalog(struct gk_cli *cli);
/* Problem without its op and braces, for a column that stands beside the op's: fields in declared
 * order if the catalog knows the op as it was stored, else as in the stored text. */
void gk_cell_problem(struct gk_cli *cli, struct gk_table *table, const struct gk_json *row);
/* "1.32x" of two times; "-" when one is missing. */
void gk_cell_ratio(struct gk_table *table, double over, double under);

/* Two cells of a pick: the vendor's time, and how many times as fast the pick is; or why there is
 * no vendor's time. "-" where none takes part. */
void gk_cell_vendor(struct gk_table *table, const struct gk_json *pick);

/* What a reader of a time has to know, as "l2_carried, near_floor"; "-": nothing. */
void gk_cell_marks(struct gk_table *table, const struct gk_json *marks);

/* The job's object of a reply of `show` or `jobs`. */
const struct gk_json *gk_job_of(const struct gk_json *reply);
/* True for a trial that was parked without a failure: the job was asked to finish before it ran. */
bool gk_trial_unrun(const struct gk_json *trial);
/* True for done, failed and cancelled. */
bool gk_job_ended(const struct gk_json *job);

#endif
