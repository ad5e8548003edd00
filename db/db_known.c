/*
 * What a store knows already: configs of tasks, for those who ask about the same problem.
 *
 * A config's id is a hash, so an index over the ids of all trials is written somewhere else with
 * every trial: half of the pages that commits and checkpoints wrote were its own. Yet most tasks
 * are never looked at by another one. So a task's configs are written down when a task of its
 * problem asks for the first time, in one go, and what was added since whenever one asks again.
 * How far they are written down says `known_to`; they follow from the trials, so a row too few
 * would cost a measurement, and one too many is not believed: the trial's own row decides.
 */
#include "db/db_internal.h"

/* Tasks of the same identity, but for the one that asks. */
#define TWINS "k.problem=?1 AND k.arch=?2 AND k.gpu=?3 AND k.nvrtc=?4 AND k.task<>?5"

static enum gk_status note(struct gk_db *db, int64_t task, struct gk_err *err)
{
    enum gk_status status = db_run(
        db, err,
        "INSERT OR IGNORE INTO known(task,config_id,trial) SELECT task,config_id,trial FROM trials"
        " WHERE task=?1 AND seq>=coalesce((SELECT seq FROM known_to WHERE task=?1),0)"
        " ORDER BY config_id",
        "i", task);
    return status == GK_OK
               ? db_run(db, err,
                        "INSERT INTO known_to(task,seq) SELECT ?1,max(seq)+1 FROM trials"
                        " WHERE task=?1 ON CONFLICT(task) DO UPDATE SET seq=excluded.seq",
                        "i", task)
               : status;
}

static enum gk_status note_twins(struct gk_db *db, int64_t task, int64_t problem, const char *arch,
                                 const char *gpu, const char *nvrtc, struct gk_err *err)
{
    enum gk_status status = GK_OK;
    while (status == GK_OK) {
        int64_t twin = 0;
        status = db_peek(db, err, &twin,
                         "SELECT k.task FROM tasks k WHERE " TWINS
                         " AND EXISTS(SELECT 1 FROM trials r WHERE r.task=k.task AND r.seq>="
                         "coalesce((SELECT n.seq FROM known_to n WHERE n.task=k.task),0)) LIMIT 1",
                         "isssi", problem, arch, gpu, nvrtc, task);
        if (status == GK_OK) {
            status = note(db, twin, err);
        }
    }
    return status == GK_NOT_FOUND ? GK_OK : status;
}

enum gk_status gk_db_trial_same(struct gk_db *db, int64_t task, const char *config_id,
                                int64_t problem, const char *arch, const char *gpu,
                                const char *policy, const char *nvrtc, struct gk_json **trial_out,
                                struct gk_err *err)
{
    int64_t trial = 0;
    enum gk_status status = note_twins(db, task, problem, arch, gpu, nvrtc, err);
    if (status == GK_OK) {
        status = db_peek(
            db, err, &trial,
            "SELECT r.trial FROM tasks k CROSS JOIN known n ON n.task=k.task AND n.config_id=?6"
            " CROSS JOIN trials r ON r.trial=n.trial CROSS JOIN jobs j ON j.job=k.job WHERE " TWINS
            " AND r.task=k.task AND r.config_id=?6 AND j.policy=?7 AND r.state='recorded'"
            " AND r.record IS NOT NULL"
            " AND r.failure NOT IN ('infrastructure','quarantined','reference_failed')"
            " AND r.reused IS NULL AND NOT (r.failure IN ('crash','timeout') AND EXISTS(SELECT 1"
            " FROM pardons p WHERE p.config_id=r.config_id AND p.arch=k.arch AND"
            " p.trial>=r.trial)) ORDER BY r.trial LIMIT 1",
            "isssiss", problem, arch, gpu, nvrtc, task, config_id, policy);
    }
    return status == GK_OK ? db_row(db, err, trial_out,
                                    "SELECT trial, record FROM trials WHERE trial=?1", "i", trial)
                           : status;
}
