/*
 * A job with its tasks and picks: what `show` prints and `run` ends with.
 */
#ifndef GK_CLI_WINNERS_H
#define GK_CLI_WINNERS_H

#include "cli/client.h"

struct gk_winners {
    struct gk_json *job;   /* object of the job */
    struct gk_json *tasks; /* array of tasks */
    struct gk_json *picks; /* array of pick rows of the job's problems, archs and gpus */
};

enum gk_status gk_winners_load(struct gk_client *client, int64_t job,
                               struct gk_winners *winners_out, struct gk_err *err);
void gk_winners_fini(struct gk_winners *winners);
/* The pick of a task; NULL if it has none. */
const struct gk_json *gk_winners_pick(const struct gk_winners *winners, const struct gk_json *task);
/* What it did in which time: two lines; nothing for a job that nothing was counted of. */
void gk_winners_rates(const struct gk_winners *winners, struct gk_buf *out);
/* Tasks without a pick. */
uint32_t gk_winners_without(const struct gk_winners *winners);
void gk_winners_summary(const struct gk_winners *winners, struct gk_buf *out); /* a line or two */
void gk_winners_table(struct gk_cli *cli, const struct gk_winners *winners, struct gk_buf *out);
struct gk_json *gk_winners_json(const struct gk_winners *winners); /* NULL when out of memory */

#endif
