/* A job with its tasks and picks: see winners.h. */
#include "cli/winners.h"
#include "cli/listing.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct gather {
    struct gk_json *into;
};

static enum gk_status gather_row(void *context, const struct gk_json *row, struct gk_err *err)
{
    struct gather *gather = context;
    return gk_json_push(gather->into, gk_json_copy(row)) ? GK_OK
                                                         : gk_fail(err, GK_NOMEM, "out of memory");
}

/* `show` is paged by tasks; the job's object stands in every page. */
static enum gk_status load_tasks(struct gk_client *client, int64_t job, struct gk_winners *winners,
                                 struct gk_err *err)
{
    enum gk_status status = GK_OK;
    struct gk_json *cursor = NULL;
    do {
        struct gk_json *body = gk_json_new_object(), *reply = NULL;
        (void)gk_json_set_int(body, "job", job);
        if (cursor) {
            (void)gk_json_set(body, "cursor", cursor);
            cursor = NULL;
        }
        status = gk_client_request(client, "show", body, 0, &reply, err);
        const struct gk_json *rows = gk_json_get(gk_job_of(reply), "tasks");
        rows = gk_json_is(rows, GK_JSON_ARRAY) ? rows : gk_json_get(reply, "tasks");
        struct gather gather = {winners->tasks};
        for (size_t i = 0; status == GK_OK && i < gk_json_count(rows); i++) {
            status = gather_row(&gather, gk_json_at(rows, i), err);
        }
        if (status == GK_OK && !winners->job) {
            winners->job = gk_json_copy(gk_job_of(reply));
        }
        const struct gk_json *next = gk_json_get(reply, "next");
        if (status == GK_OK && next && gk_json_type(next) != GK_JSON_NULL) {
            cursor = gk_json_copy(next);
        }
        gk_json_free(reply);
    } while (status == GK_OK && cursor);
    gk_json_free(cursor);
    return status;
}

enum gk_status gk_winners_load(struct gk_client *client, int64_t job,
                               struct gk_winners *winners_out, struct gk_err *err)
{
    struct gk_winners winners = {.tasks = gk_json_new_array(), .picks = gk_json_new_array()};
    enum gk_status status = load_tasks(client, job, &winners, err);
    if (status == GK_OK) {
        struct gk_json *body = gk_json_new_object();
        struct gather gather = {winners.picks};
        (void)gk_json_set_int(body, "job", job);
        status = gk_client_pages(client, "best", body, "rows", gather_row, &gather, err);
    }
    if (status != GK_OK) {
        gk_winners_fini(&winners);
        return status;
    }
    *winners_out = winners;
    return GK_OK;
}

void gk_winners_fini(struct gk_winners *winners)
{
    gk_json_free(winners->job);
    gk_json_free(winners->tasks);
    gk_json_free(winners->picks);
    *winners = (struct gk_winners){0};
}

static bool same(const struct gk_json *a, const struct gk_json *b, const char *key)
{
    return strcmp(gk_json_get_string(a, key, ""), gk_json_get_string(b, key, "")) == 0;
}

const struct gk_json *gk_winners_pick(const struct gk_winners *winners, const struct gk_json *task)
{
    /* The store may keep a pick of an earlier job, even of an earlier kernel: it is not this job's.
     */
    const char *state = gk_json_get_string(task, "state", "");
    if (strcmp(state, "failed") == 0 || strcmp(state, "cancelled") == 0) {
        return NULL;
    }
    for (size_t i = 0; i < gk_json_count(winners->picks); i++) {
        const struct gk_json *pick = gk_json_at(winners->picks, i);
        if (same(pick, task, "problem") && same(pick, task, "arch") && same(pick, task, "gpu")) {
            return pick;
        }
    }
    return NULL;
}

uint32_t gk_winners_without(const struct gk_winners *winners)
{
    uint32_t without = 0;
    for (size_t i = 0; i < gk_json_count(winners->tasks); i++) {
        without += gk_winners_pick(winners, gk_json_at(winners->tasks, i)) == NULL;
    }
    return without;
}

/* Tasks that ended without a round of their own: the pick of today stands. */
static uint32_t standing(const struct gk_winners *winners)
{
    uint32_t count = 0;
    for (size_t i = 0; i < gk_json_count(winners->tasks); i++) {
        const struct gk_json *task = gk_json_at(winners->tasks, i);
        count += strcmp(gk_json_get_string(task, "state", ""), "done") == 0 &&
                 !gk_json_is(gk_json_get(task, "verdict"), GK_JSON_OBJECT);
    }
    return count;
}

void gk_winners_summary(const struct gk_winners *winners, struct gk_buf *out)
{
    uint32_t stand = standing(winners);
    gk_buf_printf(out,
                  "job %" PRId64 ": %s, %s; %zu problem%s x device%s, %" PRId64 " trials, %" PRId64
                  " failed\n",
                  gk_json_get_int(winners->job, "job", gk_json_get_int(winners->job, "id", 0)),
                  gk_json_get_string(winners->job, "what", "?"),
                  gk_json_get_string(winners->job, "state", "?"), gk_json_count(winners->tasks),
                  gk_json_count(winners->tasks) == 1 ? "" : "s",
                  gk_json_count(winners->tasks) == 1 ? "" : "s",
                  gk_json_get_int(winners->job, "trials", 0),
                  gk_json_get_int(winners->job, "failed", 0));
    if (stand > 0) {
        gk_buf_printf(out,
                      "%u pick%s stand%s: all that a final round would compare was compared "
                      "before (--fresh compares it again)\n",
                      stand, stand == 1 ? "" : "s", stand == 1 ? "s" : "");
    }
}

/* "81.2 %" of a share, or "unknown" where no device told it. */
static void share_text(const struct gk_json *rates, const char *key, char text_out[32])
{
    const struct gk_json *share = gk_json_get(rates, key);
    if (share) {
        (void)snprintf(text_out, 32, "%.1f %%", 100 * gk_json_real(share, 0));
    } else {
        (void)snprintf(text_out, 32, "unknown");
    }
}

void gk_winners_rates(const struct gk_winners *winners, struct gk_buf *out)
{
    const struct gk_json *rates = gk_json_get(winners->job, "rates");
    char busy[32], verify[32], measure[32], final[32];
    if (!rates) {
        return;
    }
    gk_buf_printf(out,
                  "verified configs: %" PRId64 " new in %.1f s (%.2f/s), %" PRId64
                  " failed, %" PRId64 " known before; compiled: %" PRId64 " cold, %" PRId64
                  " from the cache; final rounds: %.1f s\n",
                  gk_json_get_int(rates, "verified", 0), gk_json_get_real(rates, "search_s", 0),
                  gk_json_get_real(rates, "verified_per_s", 0), gk_json_get_int(rates, "failed", 0),
                  gk_json_get_int(rates, "duplicates", 0), gk_json_get_int(rates, "cold", 0),
                  gk_json_get_int(rates, "warm", 0), gk_json_get_real(rates, "final_s", 0));
    if (!gk_json_get(rates, "gpu_busy") && !gk_json_get(rates, "gpu_busy_final")) {
        return; /* an emulated device runs no kernels on a GPU */
    }
    share_text(rates, "gpu_busy", busy);
    share_text(rates, "gpu_busy_verify", verify);
    share_text(rates, "gpu_busy_measure", measure);
    share_text(rates, "gpu_busy_final", final);
    gk_buf_printf(out, "GPU busy: %s (verification %s, timing %s); in final rounds %s\n", busy,
                  verify, measure, final);
}

/* Whether a pick says this: a column that nobody fills is left out. */
static bool any_says(const struct gk_winners *winners, const char *key)
{
    bool any = false;
    for (size_t i = 0; i < gk_json_count(winners->picks); i++) {
        any = any || gk_json_get(gk_json_at(winners->picks, i), key);
    }
    return any;
}

static const char *outcome(const struct gk_json *task, const struct gk_json *pick)
{
    if (pick) {
        return gk_json_get_string(pick, "kind", "tuned");
    }
    return gk_json_get_string(task, "state", "-");
}

/* The parameters alone: the template stands in its own column. */
static void config_cell(struct gk_table *table, const struct gk_json *pick,
                        const struct gk_json *task)
{
    const char *config =
        pick ? gk_json_get_string(pick, "config", "-") : gk_json_get_string(task, "reason", "");
    gk_table_cell(table, "%s", config);
}

void gk_winners_table(struct gk_cli *cli, const struct gk_winners *winners, struct gk_buf *out)
{
    struct gk_table table;
    bool modelled = false, vendor = any_says(winners, "vendor"),
         regime = any_says(winners, "regime"), marks = any_says(winners, "marks");
    char head[192];
    (void)snprintf(head, sizeof head,
                   "problem|gpu|outcome|>time|>vs default|%s%s%s>ties|>verified|>failed|config",
                   vendor ? ">vendor|>x of vendor|" : "", regime ? "regime|" : "",
                   marks ? "marks|" : "");
    gk_table_init(&table, head);
    for (size_t i = 0; i < gk_json_count(winners->tasks); i++) {
        const struct gk_json *task = gk_json_at(winners->tasks, i);
        const struct gk_json *pick = gk_winners_pick(winners, task);
        const struct gk_json *ties = gk_json_get(pick, "ties");
        const char *arch = gk_json_get_string(task, "arch", "-");
        modelled |= strncmp(arch, "emu", 3) == 0 || strncmp(arch, "mock", 4) == 0;
        gk_cell_problem(cli, &table, task);
        gk_table_cell(&table, "%s", gk_json_get_string(task, "gpu", arch));
        gk_table_cell(&table, "%s", outcome(task, pick));
        gk_cell_time(&table, pick, "time_ns");
        gk_cell_ratio(&table, gk_json_get_real(pick, "default_ns", 0),
                      gk_json_get_real(pick, "time_ns", 0));
        if (vendor) {
            gk_cell_vendor(&table, pick);
        }
        if (regime) {
            gk_cell_text(&table, pick, "regime");
        }
        if (marks) {
            gk_cell_marks(&table, gk_json_get(pick, "marks"));
        }
        gk_table_cell(&table, "%" PRId64,
                      gk_json_is(ties, GK_JSON_ARRAY) ? (int64_t)gk_json_count(ties)
                                                      : gk_json_int(ties, 0));
        gk_cell_int(&table, task, "verified");
        gk_cell_int(&table, task, "failed");
        config_cell(&table, pick, task);
    }
    gk_table_render(&table, out);
    gk_table_fini(&table);
    if (modelled) {
        gk_buf_puts(out, "times are modelled (emulated device): they rank configs, they are not "
                         "those of a GPU\n");
    }
}

struct gk_json *gk_winners_json(const struct gk_winners *winners)
{
    struct gk_json *json = gk_json_new_object();
    if (!json || !gk_json_set(json, "job", gk_json_copy(winners->job)) ||
        !gk_json_set(json, "tasks", gk_json_copy(winners->tasks)) ||
        !gk_json_set(json, "picks", gk_json_copy(winners->picks))) {
        gk_json_free(json);
        return NULL;
    }
    return json;
}
