/* The picks of a job: the fixed rule over all its verdicts, and the rows that say what it stands
 * on. */
#include <stdio.h>

#include "daemon/core_internal.h"

/* One tied config of one group: equal keys are counted for popularity. */
static struct gk_hash popular_key(const struct gk_json *task, const char *config)
{
    struct gk_hasher hasher;
    gk_hasher_init(&hasher);
    gk_hasher_text(&hasher, gk_json_get_string(task, "op", ""));
    gk_hasher_text(&hasher, gk_json_get_string(task, "arch", ""));
    gk_hasher_text(&hasher, gk_json_get_string(task, "gpu", ""));
    gk_hasher_text(&hasher, gk_json_get_string(task, "flags", ""));
    gk_hasher_text(&hasher, config);
    return gk_hasher_final(&hasher);
}

static int compare_hashes(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct gk_hash));
}

static bool is_judged(const struct gk_json *task)
{
    return strcmp(gk_json_get_string(task, "state", ""), "judged") == 0;
}

static bool counts_as_tied(const struct gk_json *entry)
{
    return gk_json_get_bool(entry, "tied", false) && gk_json_get_int(entry, "trial", 0) > 0;
}

static struct gk_hash *popular_list(const struct gk_json *tasks, size_t *count_out)
{
    size_t count = 0;
    for (int pass = 0;; pass++) {
        static struct gk_hash *const none = NULL;
        struct gk_hash *list = pass == 0 ? none : calloc(count ? count : 1, sizeof *list);
        size_t n = 0;
        if (pass == 1 && !list) {
            return NULL;
        }
        for (size_t t = 0; t < gk_json_count(tasks); t++) {
            const struct gk_json *task = gk_json_at(tasks, t),
                                 *entries = gk_json_get(gk_json_get(task, "verdict"), "entries");
            for (size_t i = 0; is_judged(task) && i < gk_json_count(entries); i++) {
                const struct gk_json *entry = gk_json_at(entries, i);
                if (counts_as_tied(entry)) {
                    if (list) {
                        list[n] = popular_key(task, gk_json_get_string(entry, "config", ""));
                    }
                    n++;
                }
            }
        }
        count = n;
        if (list) {
            qsort(list, count, sizeof *list, compare_hashes);
            *count_out = count;
            return list;
        }
    }
}

static uint32_t popularity_of(const struct gk_hash *list, size_t count, const struct gk_hash *key)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (memcmp(&list[middle], key, sizeof *key) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    uint32_t n = 0;
    while (low + n < count && memcmp(&list[low + n], key, sizeof *key) == 0) {
        n++;
    }
    return n;
}

/* The entry with this mark (is_default, ...); dropped ones too if they may be. */
static const struct gk_json *find_marked(const struct gk_json *entries, const char *mark,
                                         bool dropped_too)
{
    for (size_t i = 0; i < gk_json_count(entries); i++) {
        const struct gk_json *entry = gk_json_at(entries, i);
        if (gk_json_get_bool(entry, mark, false) &&
            (dropped_too || !gk_json_get_bool(entry, "dropped", false))) {
            return entry;
        }
    }
    return NULL;
}

/* The vendor's time beside the pick's, paired, or why there is none; NULL: none took part. */
static struct gk_json *vendor_json(const struct gk_json *entries, const struct gk_json *entry)
{
    static const char *const ratios[] = {"of_vendor", "of_vendor_low", "of_vendor_high"};
    const struct gk_json *vendor = find_marked(entries, "is_vendor", true);
    if (!vendor) {
        return NULL;
    }
    struct gk_json *out = gk_json_new_object();
    const char *detail = gk_json_get_string(vendor, "detail", NULL);
    (void)gk_json_set_string(out, "template", gk_json_get_string(vendor, "template", ""));
    if (gk_json_get_bool(vendor, "dropped", false)) { /* evidence may lack a member */
        (void)gk_json_set_string(out, "reason", gk_json_get_string(vendor, "reason", ""));
        return out;
    }
    (void)(gk_json_set_real(out, "time_ns", gk_json_get_real(vendor, "median_ns", 0)) &&
           (!detail || gk_json_set_string(out, "detail", detail)));
    for (size_t i = 0; i < GK_ARRAY_COUNT(ratios); i++) {
        (void)gk_json_set_real(out, ratios[i], gk_json_get_real(entry, ratios[i], 0));
    }
    return out;
}

static struct gk_json *ties_json(const struct gk_json *entries)
{
    struct gk_json *ties = gk_json_new_array();
    for (size_t i = 0; i < gk_json_count(entries); i++) {
        const struct gk_json *entry = gk_json_at(entries, i);
        if (counts_as_tied(entry)) {
            struct gk_json *item = gk_json_new_object();
            (void)(gk_json_set_string(
                       item, "config",
                       gk_json_get_string(entry, "config", "")) && /* evidence only */
                   gk_json_set_real(item, "median_ns", gk_json_get_real(entry, "median_ns", 0)) &&
                   gk_json_set_real(item, "ratio", gk_json_get_real(entry, "ratio", 1)));
            (void)gk_json_push(ties, item);
        }
    }
    return ties;
}

/* How the final round verified it: on all input sets, where a trial of the search has one of them,
 * and on the emulated device. NULL: its worker did not say, as older ones do not. */
static const struct gk_json *final_rungs(const struct gk_json *first_passes, int64_t trial)
{
    const struct gk_json *rungs = NULL;
    for (size_t i = 0; !rungs && i < gk_json_count(first_passes); i++) {
        rungs = gk_json_get(pass_sample(first_passes, i, trial), "rungs");
    }
    return rungs;
}

/* Columns of the pick that say where it stands and how it was found. */
static bool pick_row(struct gk_json *pick, struct gk_core *core, const struct job *job,
                     const struct gk_json *task, const struct gk_json *entry,
                     const struct gk_json *trial, const struct gk_json *first_passes,
                     const char *reason)
{
    const struct gk_json *verdict = gk_json_get(task, "verdict"),
                         *entries = gk_json_get(verdict, "entries");
    const struct gk_json *record = gk_json_get(trial, "record"),
                         *standard = find_marked(entries, "is_default", false),
                         *former = find_marked(entries, "is_incumbent", false);
    struct gk_json *vendor = vendor_json(entries, entry);
    static const char *const from_task[] = {"problem", "op",   "arch",          "gpu",
                                            "nvrtc",   "task", "default_config"};
    static const char *const from_trial[] = {"template",  "template_hash", "config",
                                             "config_id", "environment",   "trial"};
    static const char *const from_verdict[] = {"regime", "conditions"};
    bool ok = !vendor || gk_json_set(pick, "vendor", vendor);
    for (size_t i = 0; ok && i < GK_ARRAY_COUNT(from_verdict); i++) {
        const struct gk_json *value = gk_json_get(verdict, from_verdict[i]);
        ok = !value || gk_json_set(pick, from_verdict[i], gk_json_copy(value));
    }
    for (size_t i = 0; ok && i < GK_ARRAY_COUNT(from_task); i++) {
        const struct gk_json *value = gk_json_get(task, from_task[i]);
        ok = !value || gk_json_set(pick, from_task[i], gk_json_copy(value));
    }
    for (size_t i = 0; ok && i < GK_ARRAY_COUNT(from_trial); i++) {
        const struct gk_json *value = gk_json_get(trial, from_trial[i]);
        ok = !value || gk_json_set(pick, from_trial[i], gk_json_copy(value));
    }
    const struct gk_json *marks = gk_json_get(entry, "marks"),
                         *rungs = final_rungs(first_passes, gk_json_get_int(trial, "trial", 0));
    rungs = rungs ? rungs : gk_json_get(record, "rungs");
    ok = ok && (!marks || gk_json_set(pick, "marks", gk_json_copy(marks)));
    return ok && gk_json_set_string(pick, "policy", job->policy) &&
           gk_json_set_string(pick, "kind",
                              gk_json_get_bool(entry, "is_default", false) ? "default" : "tuned") &&
           gk_json_set_real(pick, "time_ns", gk_json_get_real(entry, "median_ns", 0)) &&
           (!standard ||
            gk_json_set_real(pick, "default_ns", gk_json_get_real(standard, "median_ns", 0))) &&
           (!former ||
            gk_json_set_real(pick, "incumbent_ns", gk_json_get_real(former, "median_ns", 0))) &&
           gk_json_set_real(pick, "margin", gk_json_get_real(verdict, "margin", 0)) &&
           gk_json_set_real(pick, "noise_floor", gk_json_get_real(verdict, "noise_floor", 0)) &&
           gk_json_set(pick, "ties", ties_json(entries)) &&
           gk_json_set_string(pick, "reason", reason) &&
           gk_json_set(pick, "ladder", rungs ? gk_json_copy(rungs) : gk_json_new_array()) &&
           gk_json_set(pick, "record", gk_json_copy(record)) &&
           gk_json_set_bool(pick, "modelled", gk_json_get_bool(record, "modelled", false)) &&
           gk_json_set_string(pick, "bundle", job->bundle) &&
           gk_json_set_int(pick, "job", job->id) &&
           gk_json_set_int(pick, "passes", gk_json_get_int(verdict, "passes", 0)) &&
           gk_json_set_int(pick, "confirmed_ms", (int64_t)core->wall_ms);
}

static enum gk_status put_pick(struct gk_core *core, struct job *job, const struct gk_json *task,
                               const struct gk_json *entry, const char *reason, struct gk_err *err)
{
    struct gk_json *trial = NULL, *old = NULL, *first_passes = NULL, *pick = gk_json_new_object();
    int64_t id = gk_json_get_int(entry, "trial", 0), created = (int64_t)core->wall_ms;
    enum gk_status status = gk_db_trial_get(core->db, id < 0 ? -id : id, &trial, err);
    if (status == GK_OK) {
        status = gk_db_first_passes(core->db, gk_json_get_int(task, "task", 0), &first_passes, err);
    }
    if (status == GK_OK) {
        status = gk_db_pick_get(core->db, gk_json_get_int(task, "problem", 0),
                                gk_json_get_string(task, "arch", ""),
                                gk_json_get_string(task, "gpu", ""), job->policy, &old, err);
        status = status == GK_NOT_FOUND ? GK_OK : status;
    }
    if (status == GK_OK && old &&
        strcmp(gk_json_get_string(old, "config_id", ""),
               gk_json_get_string(trial, "config_id", "?")) == 0) {
        created = gk_json_get_int(old, "created_ms", created); /* confirmed, not new */
    }
    if (status == GK_OK && (!pick_row(pick, core, job, task, entry, trial, first_passes, reason) ||
                            !gk_json_set_int(pick, "created_ms", created))) {
        status = gk_fail(err, GK_NOMEM, "out of memory for a pick");
    }
    if (status == GK_OK) {
        status = gk_db_pick_put(core->db, pick, err);
    }
    if (status == GK_OK) {
        struct gk_json *body = gk_json_new_object();
        static const char *const members[] = {"task",   "arch",    "gpu",        "kind",
                                              "config", "time_ns", "default_ns", "reason",
                                              "vendor", "regime",  "marks"};
        for (size_t i = 0; i < GK_ARRAY_COUNT(members); i++) {
            const struct gk_json *value = gk_json_get(pick, members[i]);
            (void)(value && gk_json_set(body, members[i],
                                        gk_json_copy(value))); /* an event may lack a member */
        }
        (void)gk_json_set_string(body, "problem", gk_json_get_string(task, "canonical", ""));
        status = core_event(core, job->id, "picked", body, err);
        core->counters.picks++;
    }
    gk_json_free(trial);
    gk_json_free(old);
    gk_json_free(first_passes);
    gk_json_free(pick);
    return status;
}

static enum gk_status pick_task(struct gk_core *core, struct job *job, const struct gk_json *task,
                                const struct gk_hash *popular, size_t popular_count,
                                struct gk_round_entry *entries, struct gk_round_verdict *verdict,
                                struct gk_err *err)
{
    const struct gk_json *judged = gk_json_get(task, "verdict"),
                         *list = gk_json_get(judged, "entries");
    uint32_t count = (uint32_t)gk_json_count(list), popularity[GK_FINALISTS_MAX] = {0};
    const char *reason = "";
    memset(entries, 0, GK_FINALISTS_MAX * sizeof *entries);
    memset(verdict, 0, sizeof *verdict);
    round_entries(list, entries);
    verdict->best = (uint32_t)gk_json_get_int(judged, "best", 0);
    verdict->noise_floor = gk_json_get_real(judged, "noise_floor", 0);
    verdict->margin = gk_json_get_real(judged, "margin", 0);
    verdict->tie_count = (uint32_t)gk_json_get_int(judged, "tie_count", 0);
    for (uint32_t i = 0; i < count && i < GK_FINALISTS_MAX; i++) {
        const struct gk_json *entry = gk_json_at(list, i);
        struct gk_hash key = popular_key(task, gk_json_get_string(entry, "config", ""));
        popularity[i] = popularity_of(popular, popular_count, &key);
        verdict->entries[i].tied = gk_json_get_bool(entry, "tied", false);
        /* Verdicts of an older gktune do not say it: then all that is tied may be picked, as then.
         */
        verdict->entries[i].beats_default = gk_json_get_bool(entry, "beats_default", true);
        verdict->entries[i].beats_incumbent = gk_json_get_bool(entry, "beats_incumbent", true);
        verdict->entries[i].median_ns = gk_json_get_real(entry, "median_ns", 0);
        verdict->entries[i].ratio = gk_json_get_real(entry, "ratio", 1);
        verdict->entries[i].low = gk_json_get_real(entry, "low", 1);
        verdict->entries[i].high = gk_json_get_real(entry, "high", 1);
        entries[i].pass_count = (uint32_t)gk_json_get_int(judged, "passes", 0);
    }
    uint32_t chosen = gk_judge_pick(entries, verdict, count, popularity, &reason);
    return put_pick(core, job, task, gk_json_at(list, chosen), reason, err);
}

enum gk_status final_picks(struct gk_core *core, struct job *job, uint32_t *picked_out,
                           struct gk_err *err)
{
    struct gk_json *tasks = NULL;
    size_t popular_count = 0;
    struct gk_hash *popular = NULL;
    struct gk_round_entry *entries = calloc(GK_FINALISTS_MAX, sizeof *entries);
    struct gk_round_verdict *verdict = calloc(1, sizeof *verdict);
    uint32_t picked = 0;
    enum gk_status status = gk_db_tasks_of(core->db, job->id, &tasks, err);
    if (status == GK_OK &&
        (!entries || !verdict || !(popular = popular_list(tasks, &popular_count)))) {
        status = gk_fail(err, GK_NOMEM, "out of memory for picks");
    }
    for (size_t t = 0; status == GK_OK && t < gk_json_count(tasks) && t < job->task_count; t++) {
        if (is_judged(gk_json_at(tasks, t))) {
            status = pick_task(core, job, gk_json_at(tasks, t), popular, popular_count, entries,
                               verdict, err);
            if (status == GK_OK) {
                status = task_move(core, &job->tasks[t], TASK_DONE, NULL, err);
                picked++;
            }
        } else if (strcmp(gk_json_get_string(gk_json_at(tasks, t), "state", ""), "done") == 0) {
            picked++; /* of an earlier end, before a retry */
        }
    }
    gk_json_free(tasks);
    free(popular);
    free(entries);
    free(verdict);
    *picked_out = picked;
    return status;
}
