/* The spread of a config over the GPUs of one key. */
#include <inttypes.h>
#include <stdlib.h>

#include "db/db_internal.h"

#define HALVES_MAX 64

static const char SPREAD_COLUMNS[] =
    "spread task job trial problem op arch gpu policy template config config_id device_key worker "
    "time_ns passes regime reason at_ms";

enum gk_status gk_db_spread_put(struct gk_db *db, const struct gk_json *row, struct gk_err *err)
{
    int64_t task = gk_json_get_int(row, "task", 0), count = 0;
    enum gk_status status =
        db_int(db, err, &count, "SELECT count(*) FROM spreads WHERE task=?1", "i", task);
    if (status == GK_OK && count >= GK_DB_SPREADS_A_TASK) {
        return gk_fail(err, GK_LIMIT, "task %" PRId64 " was measured on %d devices already", task,
                       GK_DB_SPREADS_A_TASK);
    }
    struct gk_json *numbered = status == GK_OK ? gk_json_copy(row) : NULL;
    if (status == GK_OK) {
        status = gk_json_set_int(numbered, "spread", task * GK_DB_SPREADS_A_TASK + count)
                     ? db_insert(db, "spreads", SPREAD_COLUMNS, numbered, NULL, err)
                     : gk_fail(err, GK_NOMEM, "out of memory for a spread");
    }
    gk_json_free(numbered);
    return status;
}

enum gk_status gk_db_spreads_of(struct gk_db *db, int64_t task, struct gk_json **rows_out,
                                struct gk_err *err)
{
    return db_rows(db, err, rows_out, "SELECT * FROM spreads WHERE task=?1 ORDER BY spread", "i",
                   task);
}

static int compare_reals(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

enum gk_status gk_db_spread_half(struct gk_db *db, const char *op, const char *arch,
                                 const char *gpu, const char *policy, int64_t most,
                                 double *half_out, struct gk_err *err)
{
    double halves[HALVES_MAX];
    size_t count = 0;
    struct gk_json *rows = NULL;
    enum gk_status status = db_rows(
        db, err, &rows,
        "SELECT min(time_ns) AS fastest, max(time_ns) AS slowest FROM spreads WHERE op=?1 AND"
        " arch=?2 AND gpu=?3 AND policy=?4 AND time_ns>0 GROUP BY task, regime HAVING count(*)>1"
        " ORDER BY task DESC LIMIT ?5",
        "ssssi", op, arch, gpu, policy, most < HALVES_MAX ? most : HALVES_MAX);
    for (size_t i = 0; status == GK_OK && i < gk_json_count(rows) && count < HALVES_MAX; i++) {
        const struct gk_json *row = gk_json_at(rows, i);
        double fastest = gk_json_get_real(row, "fastest", 0),
               slowest = gk_json_get_real(row, "slowest", 0);
        halves[count++] = (slowest - fastest) / (slowest + fastest);
    }
    gk_json_free(rows);
    if (status != GK_OK) {
        return status;
    }
    qsort(halves, count, sizeof halves[0], compare_reals);
    *half_out = count == 0  ? 0
                : count % 2 ? halves[count / 2]
                            : (halves[count / 2 - 1] + halves[count / 2]) / 2;
    return GK_OK;
}

enum gk_status gk_db_list_spreads(struct gk_db *db, const char *op, int64_t cursor,
                                  struct gk_json **page_out, struct gk_err *err)
{
    struct gk_json *rows = NULL;
    enum gk_status status =
        db_rows(db, err, &rows,
                "SELECT s.spread,s.task,s.job,s.trial,s.op,p.canonical AS problem,s.arch,s.gpu,"
                "s.policy,s.template,s.config,s.device_key,s.worker,w.host,s.time_ns,s.passes,"
                "s.regime,s.reason,s.at_ms FROM spreads s JOIN problems p USING(problem)"
                " LEFT JOIN workers w ON w.worker=s.worker"
                " WHERE s.spread>?1 AND (?2 IS NULL OR s.op=?2) ORDER BY s.spread LIMIT 501",
                "is", cursor, op);
    if (status == GK_OK && !(*page_out = db_page(rows, "spreads", "spread"))) {
        status = gk_fail(err, GK_NOMEM, "out of memory for a page");
    }
    return status;
}
