/* Passes of final rounds, and picks. */
#include <string.h>

#include "db/db_internal.h"

static const char PICK_COLUMNS[] =
    "problem op arch gpu policy kind template template_hash config config_id time_ns default_ns "
    "default_config margin noise_floor ties reason ladder record modelled nvrtc environment bundle "
    "job task trial passes created_ms confirmed_ms incumbent_ns vendor regime conditions marks";

enum gk_status gk_db_pass_insert(struct gk_db *db, int64_t task, int64_t token, int64_t pass,
                                 uint64_t wall_ms, const struct gk_json *samples,
                                 const struct gk_json *failed, const struct gk_json *environment,
                                 struct gk_err *err)
{
    return db_run(db, err,
                  "INSERT INTO passes(token,pass,task,at_ms,samples,failed,environment)"
                  " VALUES(?1,?2,?3,?4,?5,?6,?7)",
                  "iiiijjj", token, pass, task, (int64_t)wall_ms, samples, failed, environment);
}

enum gk_status gk_db_passes_of(struct gk_db *db, int64_t token, struct gk_json **rows_out,
                               struct gk_err *err)
{
    return db_rows(db, err, rows_out, "SELECT * FROM passes WHERE token=?1 ORDER BY pass", "i",
                   token);
}

enum gk_status gk_db_first_passes(struct gk_db *db, int64_t task, struct gk_json **rows_out,
                                  struct gk_err *err)
{
    return db_rows(db, err, rows_out,
                   "SELECT * FROM passes WHERE task=?1 AND pass=1 ORDER BY at_ms DESC, token DESC",
                   "i", task);
}

enum gk_status gk_db_pick_put(struct gk_db *db, const struct gk_json *pick, struct gk_err *err)
{
    enum gk_status status =
        db_run(db, err, "DELETE FROM picks WHERE problem=?1 AND arch=?2 AND gpu=?3 AND policy=?4",
               "jjjj", gk_json_get(pick, "problem"), gk_json_get(pick, "arch"),
               gk_json_get(pick, "gpu"), gk_json_get(pick, "policy"));
    return status == GK_OK ? db_insert(db, "picks", PICK_COLUMNS, pick, NULL, err) : status;
}

enum gk_status gk_db_pick_get(struct gk_db *db, int64_t problem, const char *arch, const char *gpu,
                              const char *policy, struct gk_json **pick_out, struct gk_err *err)
{
    return db_row(db, err, pick_out,
                  "SELECT * FROM picks WHERE problem=?1 AND arch=?2 AND gpu=?3 AND policy=?4",
                  "isss", problem, arch, gpu, policy);
}

enum gk_status gk_db_pick_neighbours(struct gk_db *db, const char *op, const char *arch,
                                     const char *gpu, const char *policy, int64_t limit,
                                     struct gk_json **rows_out, struct gk_err *err)
{
    return db_rows(
        db, err, rows_out,
        "SELECT p.canonical AS canonical, k.config AS config FROM picks k JOIN problems p"
        " USING(problem) WHERE k.op=?1 AND k.policy=?4"
        " ORDER BY k.gpu=?3 AND k.arch=?2 DESC, k.arch=?2 DESC, k.pick DESC LIMIT ?5",
        "ssssi", op, arch, gpu, policy, limit);
}
