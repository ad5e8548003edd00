/*
 * Final rounds that need not be held.
 *
 * Who gives a command again over the same store asks for the same configs and is answered by the
 * store. A round over the same finalists would be another draw of the same dice: on a GPU one of
 * twelve problems then changed its pick, between configs that the first round had called equal, and
 * with it the header that somebody has checked in. So the pick stands, and nothing is measured.
 * Nights do measure: finding out that something became slower is what they are for.
 */
#include "daemon/core_internal.h"

static bool was_compared(const struct gk_json *verdict, const char *config_id)
{
    const struct gk_json *entries = gk_json_get(verdict, "entries");
    for (size_t i = 0; i < gk_json_count(entries); i++) {
        if (strcmp(gk_json_get_string(gk_json_at(entries, i), "config_id", ""), config_id) == 0) {
            return true;
        }
    }
    return false;
}

/* Everything of the round that has a config: the vendor has none, and is compared with no tie. */
static bool all_compared(const struct gk_json *verdict, const struct gk_json *round)
{
    for (size_t i = 0; i < gk_json_count(round); i++) {
        const char *id = gk_json_get_string(gk_json_at(round, i), "config_id", NULL);
        if (id && !was_compared(verdict, id)) {
            return false;
        }
    }
    return true;
}

/* A config's id holds its template's hash: a template that has changed is no longer the same. */
static bool is_of_today(const struct task *task, const struct gk_json *pick,
                        const struct gk_json *device)
{
    return strcmp(gk_json_get_string(pick, "config", ""), task->incumbent) == 0 &&
           strcmp(gk_json_get_string(pick, "nvrtc", ""), task->nvrtc ? task->nvrtc : "") == 0 &&
           same_context(device, task->props);
}

enum gk_status final_stands(struct gk_core *core, const struct task *task, bool *stands_out,
                            struct gk_err *err)
{
    struct gk_json *pick = NULL, *device = NULL, *verdict = NULL;
    *stands_out = false;
    if (task->job->suite || task->job->fresh || task->job->spread || !task->incumbent) {
        return GK_OK;
    }
    enum gk_status status = gk_db_pick_get(core->db, task->problem_id, task->arch, task->gpu,
                                           task->job->policy, &pick, err);
    int64_t then = gk_json_get_int(pick, "task", 0);
    if (status == GK_OK) {
        status = gk_db_device_of(core->db, then, task->arch, task->gpu, &device, err);
    }
    if (status == GK_OK) {
        status = gk_db_task_verdict(core->db, then, &verdict, err);
    }
    *stands_out = status == GK_OK && verdict && is_of_today(task, pick, device) &&
                  all_compared(verdict, task->round);
    gk_json_free(pick);
    gk_json_free(device);
    gk_json_free(verdict);
    return status == GK_NOT_FOUND ? GK_OK : status; /* no pick yet: there is nothing to stand */
}
