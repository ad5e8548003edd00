/* Final rounds: who takes part, what each pass says, when it is enough. */
#include <stdio.h>

#include "daemon/core_internal.h"

/* ------------------------------------------------------------------ beginning */

static struct gk_json *entry_of(const struct task *task, struct trial *trial, bool is_finalist,
                                int64_t twin, bool is_copy)
{
    const struct trial_words *words = trial_words(task->search, trial);
    if (!words) {
        return NULL;
    }
    struct gk_json *entry = gk_json_new_object(), *role = gk_json_new_array();
    bool is_default = task->default_config && strcmp(task->default_config, words->config) == 0;
    bool is_incumbent = task->incumbent && strcmp(task->incumbent, words->config) == 0;
    bool ok = true;
    ok = ok && (!is_copy || gk_json_push(role, gk_json_new_string("twin")));
    ok = ok && (!is_finalist || is_copy || gk_json_push(role, gk_json_new_string("finalist")));
    ok = ok && (!is_default || is_copy || gk_json_push(role, gk_json_new_string("default")));
    ok = ok && (!is_incumbent || is_copy || gk_json_push(role, gk_json_new_string("incumbent")));
    ok = gk_json_set(entry, "role", role) && ok &&
         /* A second copy needs a name of its own in the samples: minus the trial's number. */
         gk_json_set_int(entry, "trial", is_copy ? -trial->id : trial->id) &&
         gk_json_set_string(entry, "template", words->template_name) &&
         gk_json_set_string(entry, "config", words->config) &&
         gk_json_set_string(entry, "config_id", words->config_id) &&
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
    bool late = job_out_of_time(core, task->job);
    if (parked == task->search->count && (task->job->finishing || parked > 0)) {
        (void)snprintf(reason, sizeof reason, "%s before a config was tried",
                       late                   ? "out of time"
                       : task->job->finishing ? "the job was asked to finish"
                                              : "every trial was lost with its worker");
        return task_unrun(core, task,
                          late                   ? "out_of_time"
                          : task->job->finishing ? "stopped"
                                                 : "lost",
                          reason, err);
    }
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
    uint32_t index = config ? search_index(search, config) : UINT32_MAX;
    for (uint32_t i = 0; i < search->count; i++) {
        const struct trial *trial = &search->trials[i];
        if (trial->ok && (index != UINT32_MAX ? trial->index == index
                                              : config && trial->index == UINT32_MAX &&
                                                    strcmp(trial->words->config, config) == 0)) {
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

/* Whether the op names a vendor's library: then it takes part on a measured device. Whether that
 * library is there and can do this problem is the worker's to say. */
static bool has_vendor(const struct search *search)
{
    return search->op->vendor.present && !search->props.modelled;
}

static bool add_vendor(struct gk_json *round)
{
    struct gk_json *entry = gk_json_new_object(), *role = gk_json_new_array();
    bool ok = gk_json_push(role, gk_json_new_string("vendor"));
    ok = gk_json_set(entry, "role", role) && ok && gk_json_set_int(entry, "trial", 0) &&
         gk_json_set_string(entry, "template", "vendor:cublaslt") &&
         gk_json_set_bool(entry, "is_vendor", true) && gk_json_set_int(entry, "twin", -1);
    return gk_json_push(round, entry) && ok;
}

/* A single trial of a measured device has few samples: more of them may be the best, so that more
 * take part. */
static uint32_t finalists(const struct search *search, const double *times, const uint32_t *order,
                          uint32_t count, uint32_t *chosen_out)
{
    return search->props.modelled ? gk_judge_finalists(times, order, count, 1, FINALISTS_MODELLED,
                                                       WITHIN_MODELLED, chosen_out)
                                  : gk_judge_finalists(times, order, count, FINALISTS_LEAST,
                                                       FINALISTS_MOST, WITHIN_MEASURED, chosen_out);
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
    uint32_t count = ok ? finalists(search, times, order, n, chosen) : 0;
    uint32_t best = UINT32_MAX;
    for (uint32_t i = 0; ok && i < count; i++) {
        uint32_t trial = at[chosen[i]];
        ok = add_entry(round, in, task, trial, true);
        best = best == UINT32_MAX || search->trials[trial].time_ns < search->trials[best].time_ns
                   ? trial
                   : best;
    }
    ok = ok && add_entry(round, in, task, trial_of_config(search, task->default_config), false) &&
         add_entry(round, in, task, trial_of_config(search, task->incumbent), false) &&
         (!has_vendor(search) || add_vendor(round));
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
    bool stands = false;
    enum gk_status status = final_stands(core, task, &stands, err);
    if (status != GK_OK) {
        return status;
    }
    struct gk_json *changes = gk_json_new_object();
    const struct trial_words *words = trial_words(task->search, &task->search->trials[best]);
    bool ok = words && gk_json_set(changes, "round", gk_json_copy(task->round)) &&
              gk_json_set_int(changes, "attempt", 0) &&
              gk_json_set_real(changes, "best_ns", best_ns) &&
              gk_json_set_string(changes, "best_config", words->config);
    status = ok ? gk_db_task_update(core->db, task->id, changes, err)
                : gk_fail(err, GK_NOMEM, "out of memory");
    gk_json_free(changes);
    task->attempt = 0;
    if (status == GK_OK) {
        status = stands ? task_move(core, task, TASK_DONE,
                                    "its finalists were compared before and the pick stands; "
                                    "--fresh compares them again",
                                    err)
                        : task_move(core, task, TASK_FINAL, NULL, err);
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
            const struct gk_json *value =
                gk_json_get(entry, members[m]); /* a vendor has no config */
            ok = !value || gk_json_set(item, members[m], gk_json_copy(value));
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
        if (gk_json_get_int(gk_json_at(round, i), "trial", INT64_MIN) == trial) {
            return i;
        }
    }
    return SIZE_MAX;
}

void round_entries(const struct gk_json *round, struct gk_round_entry *entries)
{
    for (size_t i = 0; i < gk_json_count(round) && i < GK_FINALISTS_MAX; i++) {
        const struct gk_json *entry = gk_json_at(round, i);
        entries[i].twin = (int32_t)gk_json_get_int(entry, "twin", -1);
        entries[i].is_default = gk_json_get_bool(entry, "is_default", false);
        entries[i].is_incumbent = gk_json_get_bool(entry, "is_incumbent", false);
        entries[i].is_vendor = gk_json_get_bool(entry, "is_vendor", false);
        entries[i].resource_rank = (uint64_t)gk_json_get_int(entry, "rank", 0);
        entries[i].order = (uint32_t)gk_json_get_int(entry, "order", 0);
        entries[i].dropped = gk_json_get_bool(entry, "dropped", false);
    }
}

/* Median of each entry's samples of one pass, the `at`-th that counts. An entry that lacks an
 * earlier one gets no later one: pairs need both. */
static void take_samples(const struct gk_json *round, const struct gk_json *pass,
                         struct gk_round_entry *entries, uint32_t at)
{
    const struct gk_json *samples = gk_json_get(pass, "samples");
    for (size_t i = 0; i < gk_json_count(samples); i++) {
        const struct gk_json *sample = gk_json_at(samples, i), *ns = gk_json_get(sample, "ns");
        size_t entry = entry_at(round, gk_json_get_int(sample, "trial", INT64_MAX));
        double values[GK_SAMPLES_MAX];
        uint32_t count = 0;
        for (size_t s = 0; s < gk_json_count(ns) && count < GK_SAMPLES_MAX; s++) {
            values[count++] = gk_json_real(gk_json_at(ns, s), 0); /* above 0: final_pass() */
        }
        if (entry != SIZE_MAX && count > 0 && entries[entry].pass_count == at) {
            entries[entry].pass_ns[at] = gk_median(values, count);
            entries[entry].pass_count = at + 1;
        }
    }
}

const char *pass_regime(const struct gk_json *pass)
{
    return gk_json_get_string(gk_json_get(pass, "environment"), "regime", "");
}

/* The passes that count: those of the newest one's regime. Times of a rested chip and of one at its
 * power limit are never paired. Returns how many; entries that lack one of them, or that failed in
 * any pass at all, are dropped. */
uint32_t round_passes(const struct gk_json *round, const struct gk_json *passes,
                      struct gk_round_entry *entries)
{
    size_t all = gk_json_count(passes);
    const char *regime = all > 0 ? pass_regime(gk_json_at(passes, all - 1)) : "";
    uint32_t used = 0;
    for (size_t i = 0; i < all; i++) {
        const struct gk_json *pass = gk_json_at(passes, i), *failed = gk_json_get(pass, "failed");
        if (strcmp(pass_regime(pass), regime) == 0 && used < GK_PASSES_MAX) {
            take_samples(round, pass, entries, used++);
        }
        for (size_t f = 0; f < gk_json_count(failed); f++) {
            size_t entry =
                entry_at(round, gk_json_get_int(gk_json_at(failed, f), "trial", INT64_MAX));
            if (entry != SIZE_MAX) {
                entries[entry].dropped = true;
            }
        }
    }
    for (size_t i = 0; i < gk_json_count(round); i++) {
        entries[i].dropped |= entries[i].pass_count != used || used == 0;
    }
    return used;
}

const char *round_failure(const struct gk_json *passes, int64_t trial)
{
    for (size_t i = 0; i < gk_json_count(passes); i++) {
        const struct gk_json *failed = gk_json_get(gk_json_at(passes, i), "failed");
        for (size_t f = 0; f < gk_json_count(failed); f++) {
            const struct gk_json *item = gk_json_at(failed, f),
                                 *record = gk_json_get(item, "record");
            if (trial == INT64_MIN || gk_json_get_int(item, "trial", INT64_MAX) == trial) {
                return gk_json_get_string(record, "message",
                                          gk_json_get_string(record, "failure", "no message"));
            }
        }
    }
    return trial == INT64_MIN ? "no samples came" : "behind, and left out of later passes";
}

const struct gk_json *pass_sample(const struct gk_json *passes, size_t i, int64_t trial)
{
    const struct gk_json *samples = gk_json_get(gk_json_at(passes, i), "samples");
    for (size_t s = 0; s < gk_json_count(samples); s++) {
        const struct gk_json *sample = gk_json_at(samples, s);
        if (gk_json_get_int(sample, "trial", INT64_MAX) == trial) {
            return sample;
        }
    }
    return NULL;
}

/* Sets the entry's marks, what a reader of its time has to know: those that its samples had in any
 * pass, in the order of their declaration. No member where there are none. */
static bool set_marks(struct gk_json *entry, const struct gk_json *passes, int64_t trial)
{
    bool has[GK_MARK_COUNT] = {false}, ok = true;
    struct gk_json *list = NULL;
    for (size_t i = 0; i < gk_json_count(passes); i++) {
        const struct gk_json *marks = gk_json_get(pass_sample(passes, i, trial), "marks");
        for (size_t m = 0; m < gk_json_count(marks); m++) {
            const char *name = gk_json_string(gk_json_at(marks, m), "");
            for (uint32_t k = 0; k < GK_MARK_COUNT; k++) {
                has[k] = has[k] || strcmp(gk_mark_name((enum gk_mark)k), name) == 0;
            }
        }
    }
    for (uint32_t k = 0; k < GK_MARK_COUNT; k++) {
        if (has[k]) {
            list = list ? list : gk_json_new_array();
            ok = gk_json_push(list, gk_json_new_string(gk_mark_name((enum gk_mark)k))) && ok;
        }
    }
    return (!list || gk_json_set(entry, "marks", list)) && ok;
}

/* The newest words of a worker about the entry, and its time over twice the sets as a part of that
 * over the plain ones: each where there is one. */
static bool set_said(struct gk_json *entry, const struct gk_json *passes, int64_t trial)
{
    const char *detail = NULL;
    double twice = 0; /* nobody looked */
    for (size_t i = 0; i < gk_json_count(passes); i++) {
        const struct gk_json *sample = pass_sample(passes, i, trial);
        detail = gk_json_get_string(sample, "detail", detail);
        twice = gk_json_get_real(sample, "twice_ratio", twice);
    }
    return set_marks(entry, passes, trial) &&
           (!detail || gk_json_set_string(entry, "detail", detail)) &&
           (!(twice > 0) || gk_json_set_real(entry, "twice_ratio", twice));
}

static bool set_judged(struct gk_json *entry, const struct gk_round_verdict_entry *v)
{
    bool ok = gk_json_set_real(entry, "median_ns", v->median_ns) &&
              gk_json_set_real(entry, "ratio", v->ratio) &&
              gk_json_set_real(entry, "low", v->low) && gk_json_set_real(entry, "high", v->high);
    if (ok && v->tied) {
        ok = gk_json_set_bool(entry, "beats_default", v->beats_default) &&
             gk_json_set_bool(entry, "beats_incumbent", v->beats_incumbent);
    }
    if (ok && v->of_vendor > 0) {
        ok = gk_json_set_real(entry, "of_vendor", v->of_vendor) &&
             gk_json_set_real(entry, "of_vendor_low", v->of_vendor_low) &&
             gk_json_set_real(entry, "of_vendor_high", v->of_vendor_high);
    }
    return ok;
}

static struct gk_json *verdict_json(const struct gk_json *round, const struct gk_json *passes,
                                    const struct gk_round_entry *entries,
                                    const struct gk_round_verdict *verdict, int64_t used)
{
    struct gk_json *out = gk_json_new_object(), *list = gk_json_new_array();
    const char *regime = pass_regime(gk_json_at(passes, gk_json_count(passes) - 1));
    bool ok = out && list;
    for (size_t i = 0; ok && i < gk_json_count(round); i++) {
        struct gk_json *entry = gk_json_copy(gk_json_at(round, i));
        int64_t trial = gk_json_get_int(entry, "trial", 0);
        const struct gk_round_verdict_entry *v = &verdict->entries[i];
        ok = gk_json_set_bool(entry, "dropped", entries[i].dropped) &&
             gk_json_set_bool(entry, "tied", v->tied && !entries[i].dropped) &&
             set_said(entry, passes, trial) &&
             (entries[i].dropped ? gk_json_set_string(entry, "reason", round_failure(passes, trial))
                                 : set_judged(entry, v));
        ok = gk_json_push(list, entry) && ok;
    }
    ok = gk_json_set(out, "entries", list) && ok && gk_json_set_int(out, "best", verdict->best) &&
         gk_json_set_real(out, "noise_floor", verdict->noise_floor) &&
         gk_json_set_real(out, "margin", verdict->margin) &&
         gk_json_set_int(out, "tie_count", verdict->tie_count) &&
         gk_json_set_int(out, "passes", used) &&
         gk_json_set_int(out, "passes_all", (int64_t)gk_json_count(passes)) &&
         gk_json_set_bool(out, "settled", verdict->settled) &&
         (!regime[0] || (gk_json_set_string(out, "regime", regime) &&
                         gk_json_set(out, "conditions", round_conditions(passes, regime))));
    if (!ok) {
        gk_json_free(out);
        return NULL;
    }
    return out;
}

/* A job that was asked to finish still waits for what a verdict needs. */
static bool is_sustained(const struct gk_json *passes)
{
    size_t count = gk_json_count(passes);
    return count > 0 && strcmp(pass_regime(gk_json_at(passes, count - 1)), "sustained") == 0;
}

static bool enough_to_finish(const struct task *task, int64_t used, bool measured)
{
    return task->job->finishing && (!measured || used >= GK_PASSES_MEASURED_MIN);
}

static enum gk_status store_verdict(struct gk_core *core, struct task *task,
                                    const struct gk_json *text, struct gk_err *err)
{
    struct gk_json *changes = gk_json_new_object();
    const struct gk_json *best =
        gk_json_at(gk_json_get(text, "entries"), (size_t)gk_json_get_int(text, "best", 0));
    bool ok = text && gk_json_set(changes, "verdict", gk_json_copy(text)) &&
              gk_json_set_real(changes, "best_ns", gk_json_get_real(best, "median_ns", 0));
    enum gk_status status = ok ? gk_db_task_update(core->db, task->id, changes, err)
                               : gk_fail(err, GK_NOMEM, "out of memory for a verdict");
    gk_json_free(changes);
    if (status == GK_OK) {
        struct gk_json *body = gk_json_new_object();
        const char *regime = gk_json_get_string(text, "regime", NULL);
        (void)(gk_json_set_int(body, "task", task->id) && /* may lack one */
               gk_json_set_int(body, "ties", gk_json_get_int(text, "tie_count", 0)) &&
               gk_json_set_int(body, "passes", gk_json_get_int(text, "passes", 0)) &&
               gk_json_set_real(body, "margin", gk_json_get_real(text, "margin", 0)) &&
               (!regime || gk_json_set_string(body, "regime", regime)));
        status = core_event(core, task->job->id, "final_done", body, err);
    }
    return status == GK_OK ? spread_begin(core, task, best, err) : status;
}

/* Slower than the best by this factor, interval and all: more passes buy nothing. */
#define BEHIND 1.03

/* How many others were faster than entry i: ties by place. */
static uint32_t place_of(const struct gk_json *round, const struct gk_round_entry *entries,
                         const struct gk_round_verdict *verdict, size_t i)
{
    uint32_t place = 0;
    for (size_t k = 0; k < gk_json_count(round); k++) {
        double other = verdict->entries[k].ratio, own = verdict->entries[i].ratio;
        bool counts = !entries[k].dropped && !entries[k].is_vendor &&
                      gk_json_get_int(gk_json_at(round, k), "trial", 0) > 0;
        place += counts && (other < own || (other <= own && k < i));
    }
    return place;
}

/* Trials that the next pass goes without: clearly behind, and nobody's yardstick. In the sustained
 * regime each entry costs a third of a second a pass, so that there all but the fastest few go as
 * soon as they are behind at all. Bursts say nothing about who is fast at the power limit: the
 * first passes there are taken of all. `used`: passes that the verdict stands on. */
static struct gk_json *left_behind(const struct gk_json *round, const struct gk_json *passes,
                                   const struct gk_round_entry *entries,
                                   const struct gk_round_verdict *verdict, int64_t used)
{
    struct gk_json *list = gk_json_new_array();
    bool ok = list != NULL, sustained = is_sustained(passes);
    bool few = sustained && used >= SUSTAINED_ALL;
    for (size_t i = 0; ok && i < gk_json_count(round); i++) {
        bool yardstick = entries[i].is_default || entries[i].is_incumbent || entries[i].is_vendor ||
                         entries[i].twin >= 0;
        int64_t trial = gk_json_get_int(gk_json_at(round, i), "trial", 0);
        double low = verdict->entries[i].low;
        if (entries[i].dropped || yardstick || trial <= 0 || (sustained && !few)) {
            continue;
        }
        if (low > BEHIND || (few && low > 1 + verdict->margin &&
                             place_of(round, entries, verdict, i) >= ENTRIES_SUSTAINED)) {
            ok = gk_json_push(list, gk_json_new_int(trial));
        }
    }
    if (!ok) {
        gk_json_free(list);
        return NULL;
    }
    return list;
}

/* Judges all passes of the round. *drop_out: another pass is wanted, without these trials; NULL:
 * none is. */
static enum gk_status judge(struct gk_core *core, struct task *task, int64_t token, bool last,
                            bool measured, struct gk_json **drop_out, struct gk_err *err)
{
    struct gk_json *passes = NULL, *text = NULL;
    struct gk_round_entry *entries = calloc(GK_FINALISTS_MAX, sizeof *entries);
    struct gk_round_verdict *verdict = calloc(1, sizeof *verdict);
    uint32_t count = (uint32_t)gk_json_count(task->round);
    enum gk_status status = entries && verdict
                                ? gk_db_passes_of(core->db, token, &passes, err)
                                : gk_fail(err, GK_NOMEM, "out of memory for a verdict");
    if (status != GK_OK) {
        goto out;
    }
    double spread = 0;
    status = gk_db_spread_half(core->db, task->op, task->arch, task->gpu, task->job->policy,
                               SPREAD_PROBLEMS, &spread, err);
    if (status != GK_OK) {
        goto out;
    }
    spread = spread < SPREAD_MOST ? spread : SPREAD_MOST;
    round_entries(task->round, entries);
    int64_t used = round_passes(task->round, passes, entries);
    enum gk_status judged =
        gk_judge_round(entries, count, (uint64_t)task->job->seed, measured, spread, verdict, NULL);
    bool go_on = judged == GK_OK && !last && !verdict->settled &&
                 (int64_t)gk_json_count(passes) < (measured ? PASSES_REAL : PASSES_MODELLED) &&
                 !(is_sustained(passes) && used >= PASSES_SUSTAINED) &&
                 !enough_to_finish(task, used, measured);
    if (go_on) {
        *drop_out = measured ? left_behind(task->round, passes, entries, verdict, used)
                             : gk_json_new_array();
        status = *drop_out ? GK_OK : gk_fail(err, GK_NOMEM, "out of memory for a verdict");
        goto out;
    }
    if (judged != GK_OK) {
        char reason[512];
        (void)snprintf(reason, sizeof reason,
                       "every finalist failed in the final round; the first: %.400s",
                       round_failure(passes, INT64_MIN));
        status = task_move(core, task, TASK_FAILED, reason, err);
        goto out;
    }
    text = verdict_json(task->round, passes, entries, verdict, used);
    if (text && spread > 0 && !gk_json_set_real(text, "spread", spread)) {
        gk_json_free(text);
        text = NULL;
    }
    status = store_verdict(core, task, text, err);
out:
    gk_json_free(passes);
    gk_json_free(text);
    free(entries);
    free(verdict);
    return status;
}

/* Nobody can use it and nobody may send it again: the lease has failed. */
static enum gk_status refuse_pass(struct gk_core *core, struct session *session,
                                  struct lease *lease, const struct gk_message *message,
                                  const char *why, struct gk_err *err)
{
    struct gk_json *ack =
        ack_body(lease->token, gk_json_get_int(message->body, "pass", 0), "dropped");
    core->counters.malformed++;
    core_error(core, &session->peer, message->seq, message->token, GK_PROTOCOL, "%s", why);
    if (ack) {
        (void)gk_json_set_bool(ack, "go_on", false); /* a missing one reads as false */
    }
    core_send_session(core, session, GK_MSG_ACK, message->token, ack);
    return lease_lost(core, lease, true, "its result was malformed", err);
}

static enum gk_status store_pass(struct gk_core *core, struct lease *lease, int64_t pass,
                                 const struct gk_json *body, bool modelled, struct gk_err *err)
{
    const struct gk_json *failed = gk_json_get(body, "failed"),
                         *environment = gk_json_get(body, "environment");
    struct gk_json *none = gk_json_new_array();
    enum gk_status status =
        gk_db_pass_insert(core->db, lease->task->id, lease->token, pass, core->wall_ms,
                          gk_json_get(body, "samples"), failed ? failed : none, environment, err);
    gk_json_free(none);
    count_dropped(core, environment);
    for (size_t i = 0; i < gk_json_count(failed); i++) {
        const struct gk_json *record = gk_json_get(gk_json_at(failed, i), "record");
        enum gk_failure failure = GK_FAILURE_NONE;
        if (gk_failure_from_name(gk_json_get_string(record, "failure", ""), &failure)) {
            count_child_exit(core, failure);
        }
    }
    lease->passes = pass;
    uint64_t run_s = modelled ? RUN_MODELLED_S : RUN_S;
    lease->deadline_ns = core->now_ns + 2 * (FINAL_BUDGET_S + run_s) * SECOND_NS;
    if (status == GK_OK) {
        status = rates_clock(core, lease, gk_json_get_real(environment, "gpu_ns", -1), err);
    }
    if (status == GK_OK) {
        struct gk_json *event = gk_json_new_object();
        (void)(gk_json_set_int(event, "task", lease->task->id) &&
               gk_json_set_int(event, "pass", pass)); /* may lack a member */
        status = core_event(core, lease->job->id, "pass", event, err);
    }
    return status;
}

/* A time of nothing is one that nobody took: what is not known has no sample at all. Rungs become
 * evidence, so they are those of a record. */
static enum gk_status check_samples(const struct gk_json *samples, struct gk_err *err)
{
    for (size_t i = 0; i < gk_json_count(samples); i++) {
        const struct gk_json *sample = gk_json_at(samples, i), *ns = gk_json_get(sample, "ns"),
                             *rungs = gk_json_get(sample, "rungs");
        struct gk_err why = {0};
        if (rungs && gk_rungs_check(rungs, &why) != GK_OK) {
            return gk_fail(err, GK_PROTOCOL, "RESULT of a final round: trial %" PRId64 ": %s",
                           gk_json_get_int(sample, "trial", 0), why.text);
        }
        for (size_t s = 0; s < gk_json_count(ns); s++) {
            double value = gk_json_real(gk_json_at(ns, s), 0);
            if (!(value > 0)) {
                return gk_fail(err, GK_PROTOCOL,
                               "RESULT of a final round: sample %zu of trial %" PRId64
                               " is %g ns, more than 0 is allowed",
                               s, gk_json_get_int(sample, "trial", 0), value);
            }
        }
    }
    return GK_OK;
}

enum gk_status final_pass(struct gk_core *core, struct session *session, struct lease *lease,
                          const struct gk_message *message, struct gk_err *err)
{
    struct gk_err why = {0};
    const struct gk_json *samples;
    int64_t pass = 0, token = lease->token;
    bool modelled = session->devices[lease->device].props.modelled;
    enum gk_status status = gk_json_need_int(message->body, "pass", 1, GK_PASSES_MAX, &pass,
                                             "RESULT of a final round", &why);
    if (status == GK_OK) {
        status = gk_json_need(message->body, "samples", GK_JSON_ARRAY, &samples,
                              "RESULT of a final round", &why);
    }
    if (status == GK_OK) {
        status = check_samples(samples, &why);
    }
    if (status == GK_OK) {
        status =
            gk_record_check_extra(message->body, "environment", "RESULT of a final round", &why);
    }
    if (status != GK_OK) {
        return refuse_pass(core, session, lease, message, why.text, err);
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
    struct gk_json *drop = NULL;
    bool last = gk_json_get_bool(message->body, "last", false), done = false;
    status = store_pass(core, lease, pass, message->body, modelled, err);
    if (status == GK_OK && lease->is_spread) {
        status = spread_pass(core, lease, last, !modelled, &done, err);
    } else if (status == GK_OK) {
        status = judge(core, lease->task, token, last, !modelled, &drop, err);
    }
    bool go_on = lease->is_spread ? !done : drop != NULL;
    if (status == GK_OK && !go_on) {
        status = gk_db_lease_delete(core->db, token, err);
        lease_remove(core, lease_find(core, token));
    }
    struct gk_json *body = ack_body(token, pass, "stored");
    bool ok = body && gk_json_set_bool(body, "go_on", go_on);
    if (gk_json_count(drop) > 0) {
        ok = gk_json_set(body, "drop", drop) && ok;
    } else {
        gk_json_free(drop);
    }
    if (status != GK_OK || !ok) {
        gk_json_free(body);
        return status;
    }
    core_send_session(core, session, GK_MSG_ACK, message->token, body);
    return GK_OK;
}
