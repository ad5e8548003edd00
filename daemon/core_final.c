/* Final rounds: who takes part, what each pass says, when it is enough; and the picks of a job. */
#include <stdio.h>

#include "daemon/core_internal.h"

/* ------------------------------------------------------------------ beginning */

static struct gk_json *entry_of(const struct task *task, const struct trial *trial,
                                bool is_finalist, int64_t twin, bool is_copy)
{
    struct gk_json *entry = gk_json_new_object(), *role = gk_json_new_array();
    bool is_default = task->default_config && strcmp(task->default_config, trial->config) == 0;
    bool is_incumbent = task->incumbent && strcmp(task->incumbent, trial->config) == 0;
    bool ok = true;
    ok = ok && (!is_copy || gk_json_push(role, gk_json_new_string("twin")));
    ok = ok && (!is_finalist || is_copy || gk_json_push(role, gk_json_new_string("finalist")));
    ok = ok && (!is_default || is_copy || gk_json_push(role, gk_json_new_string("default")));
    ok = ok && (!is_incumbent || is_copy || gk_json_push(role, gk_json_new_string("incumbent")));
    ok = gk_json_set(entry, "role", role) && ok &&
         /* A second copy needs a name of its own in the samples: minus the trial's number. */
         gk_json_set_int(entry, "trial", is_copy ? -trial->id : trial->id) &&
         gk_json_set_string(entry, "template", trial->template_name) &&
         gk_json_set_string(entry, "config", trial->config) &&
         gk_json_set_string(entry, "config_id", trial->config_id) &&
         gk_json_set_int(entry, "order", trial->index) &&
         gk_json_set_int(entry, "rank", (int64_t)trial->resource_rank) &&
         gk_json_set_int(entry, "twin", twin) &&
         gk_json_set_bool(entry, "is_default", is_default) &&
         gk_json_set_bool(entry, "is_incumbent", is_incumbent);
    if (!ok) {
        gk_json_free(entry);
        return NULL;
    }
    return entry;
}

static enum gk_status no_config(struct gk_core *core, struct task *task, struct gk_err *err)
{
    uint32_t counts[64] = {0}, most = 0, parked = 0;
    for (uint32_t i = 0; i < task->search->count; i++) {
        const struct trial *trial = &task->search->trials[i];
        parked += trial->state == TRIAL_PARKED;
        counts[(uint32_t)trial->failure % 64]++;
        most = counts[(uint32_t)trial->failure % 64] > counts[most] ? (uint32_t)trial->failure % 64
                                                                    : most;
    }
    char reason[256];
    if (task->search->count == 0) {
        (void)snprintf(reason, sizeof reason, "no config was tried");
    } else {
        (void)snprintf(reason, sizeof reason,
                       "none of %u configs was verified; most often: %s (%u); parked: %u",
                       task->search->count, gk_failure_name((enum gk_failure)most), counts[most],
                       parked);
    }
    return task_move(core, task, TASK_FAILED, reason, err);
}

static uint32_t trial_of_config(const struct search *search, const char *config)
{
    for (uint32_t i = 0; config && i < search->count; i++) {
        if (search->trials[i].ok && strcmp(search->trials[i].config, config) == 0) {
            return i;
        }
    }
    return UINT32_MAX;
}

static bool add_entry(struct gk_json *round, bool *in, const struct task *task, uint32_t at,
                      bool is_finalist)
{
    if (at == UINT32_MAX || in[at] || gk_json_count(round) >= GK_FINALISTS_MAX - 1) {
        return true;
    }
    in[at] = true;
    return gk_json_push(round, entry_of(task, &task->search->trials[at], is_finalist, -1, false));
}

static struct gk_json *make_round(const struct task *task, double *best_out, uint32_t *best_at_out)
{
    const struct search *search = task->search;
    uint32_t n = 0, chosen[GK_FINALISTS_MAX], *at = calloc(search->count, sizeof *at);
    uint32_t *order = calloc(search->count, sizeof *order);
    double *times = calloc(search->count, sizeof *times);
    bool *in = calloc(search->count, sizeof *in);
    struct gk_json *round = gk_json_new_array();
    bool ok = at && order && times && in && round;
    for (uint32_t i = 0; ok && i < search->count; i++) {
        if (search->trials[i].ok) {
            at[n] = i;
            order[n] = search->trials[i].index;
            times[n++] = search->trials[i].time_ns;
        }
    }
    uint32_t count =
        ok ? gk_judge_finalists(times, order, n, FINALISTS_WANTED, FINALISTS_WITHIN, chosen) : 0;
    uint32_t best = UINT32_MAX;
    for (uint32_t i = 0; ok && i < count; i++) {
        uint32_t trial = at[chosen[i]];
        ok = add_entry(round, in, task, trial, true);
        best = best == UINT32_MAX || search->trials[trial].time_ns < search->trials[best].time_ns
                   ? trial
                   : best;
    }
    ok = ok && add_entry(round, in, task, trial_of_config(search, task->default_config), false) &&
         add_entry(round, in, task, trial_of_config(search, task->incumbent), false);
    if (ok && best != UINT32_MAX) {
        /* The copy of the best says how far two measurements of one config part. */
        for (size_t i = 0; i < gk_json_count(round); i++) {
            struct gk_json *entry =
                (struct gk_json *)(uintptr_t)gk_json_at(round, i); /* ours, not lent */
            if (gk_json_get_int(entry, "trial", 0) == search->trials[best].id) {
                ok = ok && gk_json_set_int(entry, "twin", (int64_t)gk_json_count(round));
            }
        }
        ok = ok && gk_json_push(round, entry_of(task, &search->trials[best], false, -1, true));
        *best_out = search->trials[best].time_ns;
        *best_at_out = best;
    }
    free(at);
    free(order);
    free(times);
    free(in);
    if (!ok) {
        gk_json_free(round);
        return NULL;
    }
    return round;
}

enum gk_status final_begin(struct gk_core *core, struct task *task, struct gk_err *err)
{
    double best_ns = 0;
    uint32_t best = UINT32_MAX;
    bool any = false;
    for (uint32_t i = 0; i < task->search->count && !any; i++) {
        any = task->search->trials[i].ok;
    }
    if (!any) {
        return no_config(core, task, err);
    }
    gk_json_free(task->round);
    task->round = make_round(task, &best_ns, &best);
    if (!task->round || best == UINT32_MAX) {
        return gk_fail(err, GK_NOMEM, "out of memory for a final round");
    }
    struct gk_json *changes = gk_json_new_object();
    bool ok = gk_json_set(changes, "round", gk_json_copy(task->round)) &&
              gk_json_set_int(changes, "attempt", 0) &&
              gk_json_set_real(changes, "best_ns", best_ns) &&
              gk_json_set_string(changes, "best_config", task->search->trials[best].config);
    enum gk_status status = ok ? gk_db_task_update(core->db, task->id, changes, err)
                               : gk_fail(err, GK_NOMEM, "out of memory");
    gk_json_free(changes);
    task->attempt = 0;
    if (status == GK_OK) {
        status = task_move(core, task, TASK_FINAL, NULL, err);
    }
    task_close(core, task); /* all that the round needs stands in it */
    return status;
}

struct gk_json *final_lease_configs(const struct task *task)
{
    struct gk_json *list = gk_json_new_array();
    for (size_t i = 0; list && i < gk_json_count(task->round); i++) {
        const struct gk_json *entry = gk_json_at(task->round, i);
        static const char *const members[] = {"trial", "template", "config", "config_id", "role"};
        struct gk_json *item = gk_json_new_object();
        bool ok = item != NULL;
        for (size_t m = 0; ok && m < GK_ARRAY_COUNT(members); m++) {
            ok = gk_json_set(item, members[m], gk_json_copy(gk_json_get(entry, members[m])));
        }
        if (!gk_json_push(list, item) || !ok) {
            gk_json_free(list);
            return NULL;
        }
    }
    return list;
}

/* ------------------------------------------------------------------ judging */

static size_t entry_at(const struct gk_json *round, int64_t trial)
{
    for (size_t i = 0; i < gk_json_count(round); i++) {
        if (gk_json_get_int(gk_json_at(round, i), "trial", 0) == trial) {
            return i;
        }
    }
    return SIZE_MAX;
}

static void fill_entries(const struct gk_json *round, struct gk_round_entry *entries)
{
    for (size_t i = 0; i < gk_json_count(round); i++) {
        const struct gk_json *entry = gk_json_at(round, i);
        entries[i].twin = (int32_t)gk_json_get_int(entry, "twin", -1);
        entries[i].is_default = gk_json_get_bool(entry, "is_default", false);
        entries[i].is_incumbent = gk_json_get_bool(entry, "is_incumbent", false);
        entries[i].resource_rank = (uint64_t)gk_json_get_int(entry, "rank", 0);
        entries[i].order = (uint32_t)gk_json_get_int(entry, "order", 0);
        entries[i].dropped = gk_json_get_bool(entry, "dropped", false);
    }
}

/* Median of each entry's samples of one pass. An entry without a sample has failed: pairs need
 * both. */
static void take_pass(const struct gk_json *round, const struct gk_json *pass,
                      struct gk_round_entry *entries, uint32_t at)
{
    const struct gk_json *samples = gk_json_get(pass, "samples");
    for (size_t i = 0; i < gk_json_count(samples); i++) {
        const struct gk_json *sample = gk_json_at(samples, i), *ns = gk_json_get(sample, "ns");
        size_t entry = entry_at(round, gk_json_get_int(sample, "trial", 0));
        double values[GK_SAMPLES_MAX];
        uint32_t count = 0;
        for (size_t s = 0; s < gk_json_count(ns) && count < GK_SAMPLES_MAX; s++) {
            double value = gk_json_real(gk_json_at(ns, s), 0);
            if (value > 0) {
                values[count++] = value;
            }
        }
        if (entry != SIZE_MAX && count > 0 && entries[entry].pass_count == at) {
            entries[entry].pass_ns[at] = gk_median(values, count);
            entries[entry].pass_count = at + 1;
        }
    }
    const struct gk_json *failed = gk_json_get(pass, "failed");
    for (size_t i = 0; i < gk_json_count(failed); i++) {
        size_t entry = entry_at(round, gk_json_get_int(gk_json_at(failed, i), "trial", 0));
        if (entry != SIZE_MAX) {
            entries[entry].dropped = true;
        }
    }
    for (size_t i = 0; i < gk_json_count(round); i++) {
        entries[i].dropped |= entries[i].pass_count != at + 1;
    }
}

static struct gk_json *verdict_json(const struct gk_json *round,
                                    const struct gk_round_entry *entries,
                                    const struct gk_round_verdict *verdict, int64_t passes)
{
    struct gk_json *out = gk_json_new_object(), *list = gk_json_new_array();
    bool ok = out && list;
    for (size_t i = 0; ok && i < gk_json_count(round); i++) {
        struct gk_json *entry = gk_json_copy(gk_json_at(round, i));
        const struct gk_round_verdict_entry *v = &verdict->entries[i];
        ok = gk_json_set_bool(entry, "dropped", entries[i].dropped) &&
             gk_json_set_bool(entry, "tied", v->tied && !entries[i].dropped) &&
             (entries[i].dropped ||
              (gk_json_set_real(entry, "median_ns", v->median_ns) &&
               gk_json_set_real(entry, "ratio", v->ratio) &&
               gk_json_set_real(entry, "low", v->low) && gk_json_set_real(entry, "high", v->high)));
        ok = gk_json_push(list, entry) && ok;
    }
    ok = gk_json_set(out, "entries", list) && ok && gk_json_set_int(out, "best", verdict->best) &&
         gk_json_set_real(out, "noise_floor", verdict->noise_floor) &&
         gk_json_set_real(out, "margin", verdict->margin) &&
         gk_json_set_int(out, "tie_count", verdict->tie_count) &&
         gk_json_set_int(out, "passes", passes) &&
         gk_json_set_bool(out, "settled", verdict->settled);
    if (!ok) {
        gk_json_free(out);
        return NULL;
    }
    return out;
}

static const char *first_failure(const struct gk_json *passes)
{
    for (size_t i = 0; i < gk_json_count(passes); i++) {
        const struct gk_json *failed = gk_json_get(gk_json_at(passes, i), "failed");
        if (gk_json_count(failed) > 0) {
            const struct gk_json *record = gk_json_get(gk_json_at(failed, 0), "record");
            return gk_json_get_string(record, "message",
                                      gk_json_get_string(record, "failure", "no message"));
        }
    }
    return "no samples came";
}

/* Judges all passes of the round; *go_on_out tells whether another one is wanted. */
static enum gk_status judge(struct gk_core *core, struct task *task, int64_t token, bool last,
                            int64_t passes_max, bool *go_on_out, struct gk_err *err)
{
    struct gk_json *passes = NULL, *verdict_text = NULL;
    struct gk_round_entry *entries = calloc(GK_FINALISTS_MAX, sizeof *entries);
    struct gk_round_verdict *verdict = calloc(1, sizeof *verdict);
    char reason[512];
    uint32_t count = (uint32_t)gk_json_count(task->round);
    enum gk_status status = entries && verdict
                                ? gk_db_passes_of(core->db, token, &passes, err)
                                : gk_fail(err, GK_NOMEM, "out of memory for a verdict");
    if (status != GK_OK) {
        goto out;
    }
    fill_entries(task->round, entries);
    int64_t pass_count = (int64_t)gk_json_count(passes);
    for (uint32_t i = 0; i < (uint32_t)pass_count && i < GK_PASSES_MAX; i++) {
        take_pass(task->round, gk_json_at(passes, i), entries, i);
    }
    enum gk_status judged =
        gk_judge_round(entries, count, (uint64_t)task->job->seed, verdict, NULL);
    *go_on_out = judged == GK_OK && !last && !verdict->settled && pass_count < passes_max &&
                 !task->job->finishing;
    if (*go_on_out) {
        goto out;
    }
    if (judged != GK_OK) {
        (void)snprintf(reason, sizeof reason,
                       "every finalist failed in the final round; the first: %.400s",
                       first_failure(passes));
        status = task_move(core, task, TASK_FAILED, reason, err);
        goto out;
    }
    verdict_text = verdict_json(task->round, entries, verdict, pass_count);
    struct gk_json *changes = gk_json_new_object();
    bool ok = verdict_text && gk_json_set(changes, "verdict", gk_json_copy(verdict_text)) &&
              gk_json_set_real(changes, "best_ns", verdict->entries[verdict->best].median_ns);
    status = ok ? gk_db_task_update(core->db, task->id, changes, err)
                : gk_fail(err, GK_NOMEM, "out of memory for a verdict");
    gk_json_free(changes);
    if (status == GK_OK) {
        struct gk_json *body = gk_json_new_object();
        (void)(gk_json_set_int(body, "task", task->id) &&
               gk_json_set_int(body, "ties", verdict->tie_count) && /* may lack one */
               gk_json_set_int(body, "passes", pass_count) &&
               gk_json_set_real(body, "margin", verdict->margin));
        status = core_event(core, task->job->id, "final_done", body, err);
    }
    if (status == GK_OK) {
        status = task_move(core, task, TASK_JUDGED, NULL, err);
    }
out:
    gk_json_free(passes);
    gk_json_free(verdict_text);
    free(entries);
    free(verdict);
    return status;
}

enum gk_status final_pass(struct gk_core *core, struct session *session, struct lease *lease,
                          const struct gk_message *message, struct gk_err *err)
{
    struct gk_err why = {0};
    const struct gk_json *samples;
    int64_t pass = 0, token = lease->token;
    bool modelled =
        lease->device < session->device_count && session->devices[lease->device].props.modelled;
    int64_t passes_max = modelled ? PASSES_MODELLED : PASSES_REAL;
    enum gk_status status = gk_json_need_int(message->body, "pass", 1, GK_PASSES_MAX, &pass,
                                             "RESULT of a final round", &why);
    if (status == GK_OK) {
        status = gk_json_need(message->body, "samples", GK_JSON_ARRAY, &samples,
                              "RESULT of a final round", &why);
    }
    if (status != GK_OK) {
        core->counters.malformed++;
        core_error(core, &session->peer, message->seq, message->token, GK_PROTOCOL, "%s", why.text);
        return lease_lost(core, lease, true, "its result was malformed", err);
    }
    if (pass <= lease->passes) {
        core->counters.duplicates++;
        struct gk_json *again = ack_body(token, pass, "duplicate");
        (void)(again &&
               gk_json_set_bool(
                   again, "go_on",
                   true)); /* a missing one reads as false: the lease ends by its deadline */
        core_send_session(core, session, GK_MSG_ACK, message->token, again);
        return GK_OK;
    }
    const struct gk_json *failed = gk_json_get(message->body, "failed");
    struct gk_json *none = gk_json_new_array();
    struct task *task = lease->task;
    bool go_on = false;
    status = gk_db_pass_insert(core->db, task->id, token, pass, core->wall_ms, samples,
                               failed ? failed : none, err);
    gk_json_free(none);
    lease->passes = pass;
    uint64_t run_s = modelled ? RUN_MODELLED_S : RUN_S;
    lease->deadline_ns = core->now_ns + 2 * (FINAL_BUDGET_S + run_s) * SECOND_NS;
    if (status == GK_OK) {
        struct gk_json *body = gk_json_new_object();
        (void)(gk_json_set_int(body, "task", task->id) &&
               gk_json_set_int(body, "pass", pass)); /* may lack a member */
        status = core_event(core, task->job->id, "pass", body, err);
    }
    if (status == GK_OK) {
        status = judge(core, task, token, gk_json_get_bool(message->body, "last", false),
                       passes_max, &go_on, err);
    }
    if (status == GK_OK && !go_on) {
        status = gk_db_lease_delete(core->db, token, err);
        lease_remove(core, lease_find(core, token));
    }
    struct gk_json *body = ack_body(token, pass, "stored");
    if (status != GK_OK || !body || !gk_json_set_bool(body, "go_on", go_on)) {
        gk_json_free(body);
        return status;
    }
    core_send_session(core, session, GK_MSG_ACK, message->token, body);
    return GK_OK;
}

/* ------------------------------------------------------------------ picks */

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

static const struct gk_json *find_default(const struct gk_json *entries)
{
    for (size_t i = 0; i < gk_json_count(entries); i++) {
        const struct gk_json *entry = gk_json_at(entries, i);
        if (gk_json_get_bool(entry, "is_default", false) &&
            !gk_json_get_bool(entry, "dropped", false)) {
            return entry;
        }
    }
    return NULL;
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

/* Columns of the pick that say where it stands and how it was found. */
static bool pick_row(struct gk_json *pick, struct gk_core *core, const struct job *job,
                     const struct gk_json *task, const struct gk_json *entry,
                     const struct gk_json *trial, const char *reason)
{
    const struct gk_json *verdict = gk_json_get(task, "verdict"),
                         *entries = gk_json_get(verdict, "entries");
    const struct gk_json *record = gk_json_get(trial, "record"), *standard = find_default(entries);
    static const char *const from_task[] = {"problem", "op",   "arch",          "gpu",
                                            "nvrtc",   "task", "default_config"};
    static const char *const from_trial[] = {"template",  "template_hash", "config",
                                             "config_id", "environment",   "trial"};
    bool ok = true;
    for (size_t i = 0; ok && i < GK_ARRAY_COUNT(from_task); i++) {
        const struct gk_json *value = gk_json_get(task, from_task[i]);
        ok = !value || gk_json_set(pick, from_task[i], gk_json_copy(value));
    }
    for (size_t i = 0; ok && i < GK_ARRAY_COUNT(from_trial); i++) {
        const struct gk_json *value = gk_json_get(trial, from_trial[i]);
        ok = !value || gk_json_set(pick, from_trial[i], gk_json_copy(value));
    }
    const struct gk_json *rungs = gk_json_get(record, "rungs");
    return ok && gk_json_set_string(pick, "policy", job->policy) &&
           gk_json_set_string(pick, "kind",
                              gk_json_get_bool(entry, "is_default", false) ? "default" : "tuned") &&
           gk_json_set_real(pick, "time_ns", gk_json_get_real(entry, "median_ns", 0)) &&
           (!standard ||
            gk_json_set_real(pick, "default_ns", gk_json_get_real(standard, "median_ns", 0))) &&
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
    struct gk_json *trial = NULL, *old = NULL, *pick = gk_json_new_object();
    int64_t id = gk_json_get_int(entry, "trial", 0), created = (int64_t)core->wall_ms;
    enum gk_status status = gk_db_trial_get(core->db, id < 0 ? -id : id, &trial, err);
    if (status == GK_OK &&
        gk_db_pick_get(core->db, gk_json_get_int(task, "problem", 0),
                       gk_json_get_string(task, "arch", ""), gk_json_get_string(task, "gpu", ""),
                       job->policy, &old, NULL) == GK_OK &&
        strcmp(gk_json_get_string(old, "config_id", ""),
               gk_json_get_string(trial, "config_id", "?")) == 0) {
        created = gk_json_get_int(old, "created_ms", created); /* confirmed, not new */
    }
    if (status == GK_OK && (!pick_row(pick, core, job, task, entry, trial, reason) ||
                            !gk_json_set_int(pick, "created_ms", created))) {
        status = gk_fail(err, GK_NOMEM, "out of memory for a pick");
    }
    if (status == GK_OK) {
        status = gk_db_pick_put(core->db, pick, err);
    }
    if (status == GK_OK) {
        struct gk_json *body = gk_json_new_object();
        static const char *const members[] = {"task",   "arch",    "gpu",        "kind",
                                              "config", "time_ns", "default_ns", "reason"};
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
    fill_entries(list, entries);
    verdict->best = (uint32_t)gk_json_get_int(judged, "best", 0);
    verdict->noise_floor = gk_json_get_real(judged, "noise_floor", 0);
    verdict->margin = gk_json_get_real(judged, "margin", 0);
    verdict->tie_count = (uint32_t)gk_json_get_int(judged, "tie_count", 0);
    for (uint32_t i = 0; i < count && i < GK_FINALISTS_MAX; i++) {
        const struct gk_json *entry = gk_json_at(list, i);
        struct gk_hash key = popular_key(task, gk_json_get_string(entry, "config", ""));
        popularity[i] = popularity_of(popular, popular_count, &key);
        verdict->entries[i].tied = gk_json_get_bool(entry, "tied", false);
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
