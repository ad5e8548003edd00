/* The search of one task: its space and strategy, rebuilt from the store when needed; asks and
 * tells. */
#include <math.h>
#include <stdio.h>

#include "daemon/core_internal.h"

#define NEIGHBOURS_MAX   6 /* configs that won for other problems: more would eat small budgets */
#define HINTS_MAX        64
#define TRIALS_A_PAGE    64 /* a row as JSON takes some 10 KB */
#define REUSE_ROUNDS_MAX 64 /* batches that are known already, handled in one step */

void catalog_release(struct gk_core *core, const struct gk_catalog *catalog)
{
    if (catalog && core->files.release) {
        core->files.release(core->files.context, catalog);
    }
}

/* ------------------------------------------------------------------ words */

static void words_free(struct trial *trial)
{
    if (trial->words) {
        free(trial->words->config);
        free(trial->words);
        trial->words = NULL;
    }
}

const struct trial_words *trial_words(const struct search *search, struct trial *trial)
{
    struct gk_config config;
    if (trial->words || trial->index == UINT32_MAX) {
        return trial->words;
    }
    gk_space_config(search->space, trial->index, &config);
    const struct gk_tree *tree = &search->def.trees[gk_space_tree_of(search->space, trial->index)];
    trial->words = calloc(1, sizeof *trial->words);
    if (!trial->words || !(trial->words->config = gk_config_text(tree, &config))) {
        words_free(trial);
        return NULL;
    }
    struct gk_hash id = gk_config_id(&tree->template_hash, trial->words->config);
    gk_hash_hex(&id, trial->words->config_id);
    (void)snprintf(trial->words->template_name, sizeof trial->words->template_name, "%s",
                   tree->template_name);
    return trial->words;
}

/* Of a trial that is over: few of them are spoken of again. */
static void words_drop(struct trial *trial)
{
    if (trial->index != UINT32_MAX && trial->state >= TRIAL_RECORDED) {
        words_free(trial);
    }
}

/* ------------------------------------------------------------------ closing */

static void search_free(struct gk_core *core, struct search *search)
{
    if (!search) {
        return;
    }
    if (search->strategy) {
        search->ops->destroy(search->strategy);
    }
    gk_space_destroy(search->space);
    gk_space_def_fini(&search->def);
    gk_problem_fini(&search->problem);
    for (uint32_t i = 0; i < search->count; i++) {
        words_free(&search->trials[i]);
    }
    free(search->trials);
    catalog_release(core, search->catalog); /* last: op, space and strategy stand on it */
    free(search);
}

void task_close(struct gk_core *core, struct task *task)
{
    if (task->search) {
        core->open_bytes -= gk_space_bytes(task->search->space);
        search_free(core, task->search);
        task->search = NULL;
        core->open_tasks--;
        task->job->share->open_tasks--;
    }
}

struct trial *task_trial(struct task *task, int64_t id)
{
    for (uint32_t i = task->search->count; i-- > 0;) {
        if (task->search->trials[i].id == id) {
            return &task->search->trials[i];
        }
    }
    return NULL;
}

struct trial *task_proposed(struct task *task)
{
    for (uint32_t i = task->search->told; i < task->search->count; i++) {
        if (task->search->trials[i].state == TRIAL_PROPOSED) {
            return &task->search->trials[i];
        }
    }
    return NULL;
}

uint64_t record_rank(const struct gk_record *record)
{
    uint64_t rank = 0;
    for (uint32_t i = 0; i < record->kernel_count; i++) {
        const struct gk_kernel_resources *k = &record->kernels[i];
        int64_t smem =
            (k->static_smem > 0 ? k->static_smem : 0) + (k->dynamic_smem > 0 ? k->dynamic_smem : 0);
        rank +=
            (uint64_t)((k->regs > 0 ? k->regs : 0) * (k->threads > 0 ? k->threads : 1) * 4 + smem);
    }
    return rank;
}

/* ------------------------------------------------------------------ opening */

static enum gk_status open_space(struct gk_core *core, struct task *task, struct search *search,
                                 struct gk_err *err)
{
    const struct gk_catalog *catalog = NULL;
    enum gk_status status = core->files.catalog(core->files.context, task->job->files,
                                                task->job->bundle, &catalog, err);
    if (status != GK_OK) {
        return status;
    }
    search->catalog = catalog;
    search->op = gk_catalog_find(catalog, task->op);
    if (!search->op) {
        return gk_fail(err, GK_NOT_FOUND, "op %s is not in the bundle", task->op);
    }
    status = gk_device_props_from_json(task->props, &search->props, err);
    if (status == GK_OK) {
        status = gk_problem_from_text(&search->op->fields, task->canonical, &search->problem, err);
    }
    if (status == GK_OK) {
        status = gk_catalog_space(search->op, &search->problem, &search->props, &search->def, err);
    }
    if (status == GK_OK) {
        status = gk_catalog_prefer(search->op, &search->problem, &search->def, NULL, NULL, err);
    }
    return status == GK_OK ? gk_space_create(&search->def, &search->space, err) : status;
}

uint32_t search_index(const struct search *search, const char *text)
{
    struct gk_config config;
    uint32_t tree, index;
    if (gk_config_from_text(&search->def, text, &config, &tree, NULL) != GK_OK ||
        gk_space_find(search->space, &config, &index, NULL) != GK_OK) {
        return UINT32_MAX;
    }
    return index;
}

static bool push_hint(const struct search *search, struct gk_json *hints, const char *text)
{
    if (!text || search_index(search, text) == UINT32_MAX || gk_json_count(hints) >= HINTS_MAX) {
        return true;
    }
    for (size_t i = 0; i < gk_json_count(hints); i++) {
        if (strcmp(gk_json_string(gk_json_at(hints, i), ""), text) == 0) {
            return true;
        }
    }
    return gk_json_push(hints, gk_json_new_string(text));
}

/* *text_out NULL: there is none. */
static enum gk_status find_incumbent(struct gk_core *core, const struct task *task, char **text_out,
                                     struct gk_err *err)
{
    *text_out = NULL;
    for (size_t i = 0; i < gk_json_count(task->job->incumbents); i++) {
        const struct gk_json *row = gk_json_at(task->job->incumbents, i);
        if (strcmp(gk_json_get_string(row, "problem", ""), task->canonical) == 0 &&
            strcmp(gk_json_get_string(row, "arch", task->arch), task->arch) == 0) {
            *text_out = gk_strdup(gk_json_get_string(row, "config", ""));
            return *text_out ? GK_OK : gk_fail(err, GK_NOMEM, "out of memory");
        }
    }
    struct gk_json *pick = NULL;
    enum gk_status status = gk_db_pick_get(core->db, task->problem_id, task->arch, task->gpu,
                                           task->job->policy, &pick, err);
    if (status == GK_OK && !(*text_out = gk_strdup(gk_json_get_string(pick, "config", "")))) {
        status = gk_fail(err, GK_NOMEM, "out of memory");
    }
    gk_json_free(pick);
    return status == GK_NOT_FOUND ? GK_OK : status;
}

/* Values of the problem's enums, types and truths: problems that share them share popularity. */
static char *flags_of(const struct search *search)
{
    struct gk_buf text = {0};
    for (uint32_t i = 0; i < search->op->fields.field_count; i++) {
        const struct gk_field *field = &search->op->fields.fields[i];
        if (field->type == GK_FIELD_ENUM || field->type == GK_FIELD_BOOL) {
            gk_buf_printf(&text, "%s=%" PRId64 ";", field->name,
                          search->problem.slots[field->slot].i);
        }
    }
    char *flags = gk_strdup(gk_buf_text(&text));
    gk_buf_fini(&text);
    return flags;
}

/* The same command over the same store asks what it asked before, so that its answer stays: the
 * hints of the former job are taken over, and an incumbent that came from elsewhere since is added.
 * Another seed or budget is another command, and goes on searching. */
static bool take_former_hints(struct gk_core *core, const struct task *task,
                              const struct search *search, struct gk_json *hints, bool *found_out)
{
    struct gk_json *former = NULL;
    bool ok = true, asked = false;
    *found_out = gk_db_task_former(core->db, task->job->id, task->problem_id, task->arch, task->gpu,
                                   task->nvrtc ? task->nvrtc : "", &former, NULL) == GK_OK &&
                 gk_json_get_int(former, "strategy_version", 0) == (int64_t)search->ops->version;
    if (*found_out) {
        const struct gk_json *list = gk_json_get(former, "hints");
        for (size_t i = 0; ok && i < gk_json_count(list); i++) {
            ok = push_hint(search, hints, gk_json_string(gk_json_at(list, i), NULL));
        }
        if (ok && task->incumbent &&
            gk_db_task_asked(core->db, gk_json_get_int(former, "task", 0), task->incumbent, &asked,
                             NULL) == GK_OK &&
            !asked) {
            ok = push_hint(search, hints, task->incumbent);
        }
    }
    gk_json_free(former);
    return ok;
}

/* Default, incumbent, winners of neighbours: fixed once, stored with the first ask, so that a
 * restart asks the same. */
static enum gk_status make_hints(struct gk_core *core, struct task *task, struct search *search,
                                 struct gk_err *err)
{
    struct gk_config config;
    uint32_t tree;
    struct gk_json *rows = NULL;
    struct gk_json *hints = gk_json_new_array();
    bool former = false;
    enum gk_status status = find_incumbent(core, task, &task->incumbent, err);
    task->flags = flags_of(search);
    bool ok = hints && task->flags && take_former_hints(core, task, search, hints, &former);
    if (gk_catalog_default(search->op, &search->problem, &search->def, &config, &tree, NULL) ==
        GK_OK) {
        task->default_config = gk_config_text(&search->def.trees[tree], &config);
        ok = ok && task->default_config && push_hint(search, hints, task->default_config);
    }
    if (status == GK_OK && !former) {
        ok = ok && push_hint(search, hints, task->incumbent);
        status = gk_db_pick_neighbours(core->db, task->op, task->arch, task->gpu, task->job->policy,
                                       NEIGHBOURS_MAX, &rows, err);
    }
    for (size_t i = 0; status == GK_OK && ok && i < gk_json_count(rows); i++) {
        ok = push_hint(search, hints, gk_json_get_string(gk_json_at(rows, i), "config", NULL));
    }
    gk_json_free(rows);
    struct gk_json *changes = gk_json_new_object();
    task->strategy_version = search->ops->version;
    ok = ok && gk_json_set(changes, "hints", gk_json_copy(hints)) &&
         gk_json_set_int(changes, "strategy_version", task->strategy_version) &&
         gk_json_set_string(changes, "flags", task->flags) &&
         (!task->default_config ||
          gk_json_set_string(changes, "default_config", task->default_config)) &&
         (!task->incumbent || gk_json_set_string(changes, "incumbent", task->incumbent));
    if (status == GK_OK) {
        status = ok ? gk_db_task_update(core->db, task->id, changes, err)
                    : gk_fail(err, GK_NOMEM, "out of memory for hints");
    }
    gk_json_free(changes);
    task->hints = hints;
    if (status == GK_OK && task->incumbent && task->incumbent[0] &&
        search_index(search, task->incumbent) == UINT32_MAX) {
        struct gk_json *body = gk_json_new_object();
        (void)(gk_json_set_int(body, "task", task->id) &&
               gk_json_set_string(body, "config", task->incumbent) && /* as it is */
               gk_json_set_string(
                   body, "text",
                   "the incumbent is not legal in today's space and cannot be compared"));
        status = core_event(core, task->job->id, "note", body, err);
    }
    return status;
}

/* A config that a prior cannot be worked out for is one it says nothing of. */
static double prior_of(void *context, uint32_t index)
{
    const struct search *search = context;
    struct gk_config config;
    double seconds = 0;
    gk_space_config(search->space, index, &config);
    enum gk_status status =
        gk_catalog_prior(search->op, &search->def.trees[gk_space_tree_of(search->space, index)],
                         &config, &seconds, NULL);
    return status == GK_OK ? seconds : 0;
}

static bool has_prior(const struct search *search)
{
    for (uint32_t i = 0; i < search->def.tree_count; i++) {
        const struct gk_template *t =
            gk_op_template(search->op, search->def.trees[i].template_name);
        if (t && t->prior.seconds) {
            return true;
        }
    }
    return false;
}

static enum gk_status make_strategy(struct task *task, struct search *search, struct gk_err *err)
{
    uint32_t hints[HINTS_MAX], count = 0;
    for (size_t i = 0; i < gk_json_count(task->hints) && count < HINTS_MAX; i++) {
        uint32_t index = search_index(search, gk_json_string(gk_json_at(task->hints, i), ""));
        if (index != UINT32_MAX) {
            hints[count++] = index;
        }
    }
    struct gk_hash id = gk_hash_text(task->canonical); /* tasks of one job do not walk in step */
    uint64_t salt = 0;
    memcpy(&salt, id.bytes, sizeof salt);
    struct gk_strategy_setup setup = {.space = search->space,
                                      .seed = (uint64_t)task->job->seed ^ salt,
                                      .budget_trials = (uint64_t)task->job->budget_trials,
                                      .budget_ns = task->job->budget_ns,
                                      .hints = hints,
                                      .hint_count = count,
                                      .prior = has_prior(search) ? prior_of : NULL,
                                      .prior_context = search};
    return search->ops->create(&setup, &search->strategy, err);
}

static struct trial *push_trial(struct search *search)
{
    if (search->count == search->capacity) {
        uint32_t capacity = search->capacity ? search->capacity * 2 : 32;
        struct trial *trials = realloc(search->trials, capacity * sizeof *trials);
        if (!trials) {
            return NULL;
        }
        search->trials = trials;
        search->capacity = capacity;
    }
    search->trials[search->count] = (struct trial){0};
    return &search->trials[search->count++];
}

static void take_told(struct trial *trial, const struct gk_record *record)
{
    trial->failure = record->failure;
    trial->ok = record->failure == GK_FAILURE_NONE && record->stage == GK_STAGE_DONE;
    trial->time_ns = record->time_ns;
    trial->sample_count = record->sample_count ? record->sample_count : record->samples_taken;
    trial->cost_ns = record->compile_ns + record->verify_ns + record->measure_ns;
    trial->resource_rank = record_rank(record);
}

static void take_record(struct trial *trial, const struct gk_json *json)
{
    struct gk_record record;
    if (json && gk_record_from_json(json, &record, NULL) == GK_OK) {
        take_told(trial, &record);
        gk_record_fini(&record);
    } else {
        trial->ok = false;
    }
}

/* Which trials are out is what the leases say. */
static void mark_leased(const struct gk_core *core, const struct task *task, struct search *search)
{
    for (uint32_t l = 0; l < core->lease_count; l++) {
        const struct lease *lease = &core->leases[l];
        for (uint32_t i = search->count; lease->task == task && !lease->is_final && i-- > 0;) {
            if (search->trials[i].id == lease->trial && search->trials[i].state < TRIAL_RECORDED) {
                search->trials[i].state = TRIAL_LEASED;
                search->trials[i].token = lease->token;
                break;
            }
        }
    }
}

static bool read_trial(struct search *search, const struct gk_json *row)
{
    const char *state = gk_json_get_string(row, "state", "");
    struct trial_words *words = calloc(1, sizeof *words);
    struct trial *trial = words ? push_trial(search) : NULL;
    if (!trial) {
        free(words);
        return false;
    }
    trial->words = words;
    if (!(words->config = gk_strdup(gk_json_get_string(row, "config", "")))) {
        return false;
    }
    (void)snprintf(words->config_id, sizeof words->config_id, "%s",
                   gk_json_get_string(row, "config_id", ""));
    (void)snprintf(words->template_name, sizeof words->template_name, "%s",
                   gk_json_get_string(row, "template", ""));
    trial->id = gk_json_get_int(row, "trial", 0);
    trial->seq = (uint32_t)gk_json_get_int(row, "seq", 0);
    trial->batch = (uint32_t)gk_json_get_int(row, "batch", 0);
    trial->attempt = gk_json_get_int(row, "attempt", 0);
    trial->token = gk_json_get_int(row, "token", 0);
    trial->index = search_index(search, words->config);
    trial->state = strcmp(state, "recorded") == 0 ? TRIAL_RECORDED
                   : strcmp(state, "parked") == 0 ? TRIAL_PARKED
                                                  : TRIAL_PROPOSED;
    take_record(trial, gk_json_get(row, "record"));
    words_drop(trial);
    search->batches = trial->batch + 1;
    return true;
}

static enum gk_status read_trials(struct gk_core *core, struct task *task, struct search *search,
                                  struct gk_err *err)
{
    enum gk_status status = GK_OK;
    size_t count = TRIALS_A_PAGE;
    while (status == GK_OK && count == TRIALS_A_PAGE) {
        struct gk_json *rows = NULL;
        int64_t from = search->count ? (int64_t)search->trials[search->count - 1].seq + 1 : 0;
        status = gk_db_trials_of(core->db, task->id, from, TRIALS_A_PAGE, &rows, err);
        count = gk_json_count(rows);
        for (size_t i = 0; status == GK_OK && i < count; i++) {
            if (!read_trial(search, gk_json_at(rows, i))) {
                status = gk_fail(err, GK_NOMEM, "out of memory for trials");
            }
        }
        gk_json_free(rows);
    }
    mark_leased(core, task, search);
    return status;
}

/* ------------------------------------------------------------------ asks and tells */

static void tell(struct search *search, const struct trial *trial)
{
    if (trial->index != UINT32_MAX) {
        /* A modelled time has no spread, however few its samples. Of a measured one from a store
         * that did not count them nobody knows more than that there was one. */
        uint32_t samples = trial->sample_count > 0 ? trial->sample_count : 1;
        struct gk_tell told = {.index = trial->index,
                               .ok = trial->ok,
                               .time_ns = trial->time_ns,
                               .cost_ns = trial->cost_ns,
                               .samples = search->props.modelled ? 0 : samples};
        search->ops->tell(search->strategy, &told);
    }
    if (trial->ok && (search->best_ns <= 0 || trial->time_ns < search->best_ns)) {
        search->best_ns = trial->time_ns;
    }
}

static uint32_t batch_size(const struct task *task, const struct search *search, uint32_t asked)
{
    uint32_t size = search->props.modelled ? BATCH_MODELLED : BATCH_REAL;
    if (task->job->budget_trials > 0) {
        int64_t left = task->job->budget_trials - (int64_t)asked;
        size = left <= 0 ? 0 : left < (int64_t)size ? (uint32_t)left : size;
    }
    return size;
}

static bool batch_done(const struct search *search, uint32_t end)
{
    for (uint32_t i = search->told; i < end; i++) {
        if (search->trials[i].state < TRIAL_RECORDED) {
            return false;
        }
    }
    return true;
}

static uint32_t batch_end(const struct search *search, uint32_t start)
{
    uint32_t end = start;
    while (end < search->count && search->trials[end].batch == search->trials[start].batch) {
        end++;
    }
    return end;
}

static void tell_batch(struct search *search)
{
    for (uint32_t end = batch_end(search, search->told); search->told < end; search->told++) {
        tell(search, &search->trials[search->told]);
    }
}

#define AHEAD_MOST                                                                                 \
    5 /* 40 trials and 8 more: two thirds of a second of a GPU, as long as a compile */
#define AHEAD_BUDGET 32 /* trials of budget for each batch ahead: a small search must learn too */

/* How many batches may be on their way when the next is asked for. On a real device some: while
 * trials run, those of the next batches are compiled, or the device would wait for compilers; small
 * batches, so that one slow compile holds up few tells. The number depends on the job alone, never
 * on who happens to be quick: so asks and tells have one order, and a restart asks again what was
 * asked. */
static uint32_t batches_ahead(const struct task *task, const struct search *search)
{
    int64_t ahead = task->job->budget_trials > 0 ? task->job->budget_trials / AHEAD_BUDGET : 3;
    ahead = ahead < 1 ? 1 : ahead > AHEAD_MOST ? AHEAD_MOST : ahead;
    return search->props.modelled ? 0 : (uint32_t)ahead;
}

static uint32_t batches_untold(const struct search *search)
{
    return search->told < search->count ? search->batches - search->trials[search->told].batch : 0;
}

/* Asks again what the log says was asked, and tells what had been told in between. False on the
 * first difference. */
static bool replay(const struct task *task, struct search *search)
{
    uint32_t indices[BATCH_REAL], at = 0;
    while (at < search->count) {
        uint32_t end = batch_end(search, at), got = 0;
        uint32_t want = batch_size(task, search, at);
        uint32_t untold = search->trials[at].batch - search->trials[search->told].batch;
        if (search->told < at && untold > batches_ahead(task, search)) {
            if (!batch_done(search, batch_end(search, search->told))) {
                return false;
            }
            tell_batch(search);
            continue;
        }
        if (want < end - at ||
            search->ops->ask(search->strategy, want, indices, &got, NULL) != GK_OK ||
            got != end - at) {
            return false;
        }
        for (uint32_t i = 0; i < got; i++) {
            if (indices[i] != search->trials[at + i].index) {
                return false;
            }
        }
        at = end;
    }
    return true; /* what is recorded but untold is told by the next step */
}

static enum gk_status rebuild(struct gk_core *core, struct task *task, struct search *search,
                              struct gk_err *err)
{
    if (search->count == 0) {
        return GK_OK;
    }
    if (task->strategy_version == (int64_t)search->ops->version && replay(task, search)) {
        return GK_OK;
    }
    /* Another version, or an ask that differs: a new instance that knows all that happened. */
    search->ops->destroy(search->strategy);
    search->strategy = NULL;
    search->told = 0;
    search->best_ns = 0;
    enum gk_status status = make_strategy(task, search, err);
    while (status == GK_OK && search->told < search->count) {
        uint32_t end = batch_end(search, search->told);
        if (!batch_done(search, end)) {
            break;
        }
        for (; search->told < end; search->told++) {
            tell(search, &search->trials[search->told]);
        }
    }
    struct gk_json *body = gk_json_new_object();
    (void)(gk_json_set_int(body, "task", task->id) && /* an event may lack a member */
           gk_json_set_string(body, "text",
                              "the strategy would ask otherwise than it did: it was told all "
                              "records and goes on from there"));
    if (status != GK_OK) {
        gk_json_free(body);
        return status;
    }
    return core_event(core, task->job->id, "note", body, err);
}

enum gk_status task_open(struct gk_core *core, struct task *task, struct gk_err *err)
{
    if (task->search || task->state >= TASK_JUDGED) {
        return GK_OK;
    }
    struct gk_err why = {0};
    struct search *search = calloc(1, sizeof *search);
    if (!search) {
        return gk_fail(err, GK_NOMEM, "out of memory for a search");
    }
    enum gk_status status = open_space(core, task, search, &why);
    if (status == GK_OK && !(search->ops = gk_strategy_find(task->job->strategy))) {
        status =
            gk_fail(&why, GK_NOT_FOUND, "strategy %s is not in this build", task->job->strategy);
    }
    if (status != GK_OK) { /* a wrong bundle, no legal config: the task's end, not the daemon's */
        search_free(core, search);
        if (status == GK_NOMEM) {
            return gk_fail(err, GK_NOMEM, "%s", why.text);
        }
        enum gk_status moved = GK_OK;
        for (uint32_t i = core->lease_count; moved == GK_OK && i-- > 0;) {
            if (core->leases[i].task == task) {
                moved = gk_db_lease_delete(core->db, core->leases[i].token, err);
                lease_remove(core, &core->leases[i]);
            }
        }
        return moved == GK_OK ? task_move(core, task, TASK_FAILED, why.text, err) : moved;
    }
    if (task->strategy_version == 0) {
        status = make_hints(core, task, search, err);
    }
    if (status == GK_OK) {
        status = make_strategy(task, search, err);
    }
    if (status == GK_OK) {
        status = read_trials(core, task, search, err);
    }
    if (status == GK_OK) {
        status = rebuild(core, task, search, err);
    }
    if (status != GK_OK) {
        search_free(core, search);
        return status;
    }
    task->search = search;
    core->open_tasks++;
    task->job->share->open_tasks++;
    core->open_bytes += gk_space_bytes(search->space);
    return GK_OK;
}

/* ------------------------------------------------------------------ recording */

static const char *text_or_null(const struct gk_buf *buf)
{
    return buf->size > 0 ? gk_buf_text(buf) : NULL;
}

static enum gk_status store_told(struct gk_core *core, const struct task *task,
                                 const struct trial *trial, const struct lease *lease,
                                 const char *state, int64_t reused, struct gk_err *err)
{
    const struct gk_told *told = &core->told;
    const struct gk_record *record = &told->record;
    char code_id[GK_HASH_TEXT_SIZE];
    gk_hash_hex(&record->code_id, code_id);
    struct gk_db_outcome outcome = {
        .trial = trial->id,
        .task = task->id,
        .token = lease ? lease->token : 0,
        .worker = lease ? lease->worker : 0,
        .leased_ms = lease ? (int64_t)lease->granted_ms : 0,
        .reused = reused,
        .wall_ms = (int64_t)core->wall_ms,
        .config_id = trial->words->config_id,
        .state = state,
        .stage = gk_stage_name(record->stage),
        .failure = gk_failure_name(record->failure),
        .message = record->message,
        .code_id = gk_hash_is_zero(&record->code_id) ? NULL : code_id,
        .time_ns = record->failure == GK_FAILURE_NONE ? record->time_ns : (double)NAN,
        .cost_ns = record->compile_ns + record->verify_ns + record->measure_ns,
        .record = gk_buf_text(&told->kept),
        .samples = text_or_null(&told->samples),
        .environment = text_or_null(&told->environment)};
    return gk_db_trial_done(core->db, &outcome, err);
}

/* The event "recorded" of a trial. */
static enum gk_status log_told(struct gk_core *core, const struct task *task,
                               const struct trial *trial, const char *state, int64_t reused,
                               struct gk_err *err)
{
    struct gk_buf *text = &core->event_text;
    gk_buf_reset(text);
    gk_buf_puts(text, "{\"failure\":");
    gk_json_put_string(text, gk_failure_name(trial->failure));
    gk_buf_puts(text, trial->ok ? ",\"ok\":true" : ",\"ok\":false");
    if (reused) {
        gk_buf_puts(text, ",\"reused\":");
        gk_json_put_int(text, reused);
    }
    gk_buf_puts(text, ",\"seq\":");
    gk_json_put_int(text, trial->seq);
    gk_buf_puts(text, ",\"stage\":");
    gk_json_put_string(text, gk_stage_name(core->told.record.stage));
    gk_buf_puts(text, ",\"state\":");
    gk_json_put_string(text, state);
    gk_buf_puts(text, ",\"task\":");
    gk_json_put_int(text, task->id);
    if (trial->ok) {
        gk_buf_puts(text, ",\"time_ns\":");
        gk_json_put_real(text, trial->time_ns);
    }
    gk_buf_puts(text, ",\"trial\":");
    gk_json_put_int(text, trial->id);
    gk_buf_putc(text, '}');
    return core_event_text(core, task->job->id, "recorded", text, err);
}

/* A config that killed its last executor, or that a worker or we refuse to run, is a dead letter.
 */
static enum gk_status note_kill(struct gk_core *core, const struct task *task,
                                const struct trial *trial, struct gk_err *err)
{
    const char *message = core->told.record.message;
    int64_t kills = trial->failure == GK_FAILURE_QUARANTINED ? KILLS_MAX : 0;
    enum gk_status status = GK_OK;
    if (trial->failure == GK_FAILURE_CRASH || trial->failure == GK_FAILURE_TIMEOUT) {
        status = gk_db_kills(core->db, trial->words->config_id, task->arch, &kills, err);
    }
    return status == GK_OK && kills >= KILLS_MAX
               ? dead_letter(core, task, "quarantined", trial->id, message ? message : "", err)
               : status;
}

enum gk_status trial_told(struct gk_core *core, struct task *task, struct trial *trial,
                          const struct lease *lease, const char *state, int64_t reused,
                          struct gk_err *err)
{
    bool parked = strcmp(state, "parked") == 0;
    if (!trial_words(task->search, trial)) {
        return gk_fail(err, GK_NOMEM, "out of memory for a trial");
    }
    enum gk_status status = store_told(core, task, trial, lease, state, reused, err);
    take_told(trial, &core->told.record);
    trial->state = parked ? TRIAL_PARKED : TRIAL_RECORDED;
    double cost = reused ? 0 : trial->cost_ns;
    if (status == GK_OK && !parked) {
        status = rates_recorded(core, task->job, &core->told.record, trial->ok, reused != 0, err);
    }
    if (status == GK_OK && !reused) {
        status = note_kill(core, task, trial, err);
    }
    if (status == GK_OK && !parked) {
        status = gk_db_count(core->db, task->job->id, task->id, 1, !trial->ok, cost, err);
        task->trials++;
        task->failed += !trial->ok;
        task->spent_ns += cost;
    }
    words_drop(trial);
    return status == GK_OK ? log_told(core, task, trial, state, reused, err) : status;
}

enum gk_status trial_recorded(struct gk_core *core, struct task *task, struct trial *trial,
                              const struct lease *lease, const char *state,
                              const struct gk_json *json, int64_t reused, struct gk_err *err)
{
    enum gk_status status = gk_told_from_json(json, &core->told, err);
    return status == GK_OK ? trial_told(core, task, trial, lease, state, reused, err) : status;
}

/* A trial of the same identity in this store answers; a config that kills executors is not run
 * again. */
static enum gk_status answer_known(struct gk_core *core, struct task *task, struct trial *trial,
                                   struct gk_err *err)
{
    struct gk_json *same = NULL, *json = NULL;
    int64_t kills = 0;
    enum gk_status status =
        !task->search->has_twins
            ? GK_NOT_FOUND
            : gk_db_trial_same(core->db, task->id, trial->words->config_id, task->problem_id,
                               task->arch, task->gpu, task->job->policy,
                               task->nvrtc ? task->nvrtc : "", &same, err);
    if (status == GK_OK) {
        status = trial_recorded(core, task, trial, NULL, "recorded", gk_json_get(same, "record"),
                                gk_json_get_int(same, "trial", 0), err);
    } else if (status == GK_NOT_FOUND) {
        status = gk_db_kills(core->db, trial->words->config_id, task->arch, &kills, err);
        if (status == GK_OK && kills >= KILLS_MAX) {
            struct gk_record record;
            gk_record_init(&record);
            gk_record_fail(&record, GK_STAGE_RUN, GK_FAILURE_QUARANTINED,
                           "this config killed %" PRId64 " executors before; it is not run again",
                           kills);
            json = gk_record_to_json(&record);
            gk_record_fini(&record);
            status = json ? trial_recorded(core, task, trial, NULL, "recorded", json, 0, err)
                          : gk_fail(err, GK_NOMEM, "out of memory");
        }
    }
    gk_json_free(same);
    gk_json_free(json);
    return status;
}

static enum gk_status propose(struct gk_core *core, struct task *task, uint32_t index,
                              struct gk_err *err)
{
    struct search *search = task->search;
    char hash[GK_HASH_TEXT_SIZE];
    const struct gk_tree *tree = &search->def.trees[gk_space_tree_of(search->space, index)];
    struct trial *trial = push_trial(search);
    if (!trial) {
        return gk_fail(err, GK_NOMEM, "out of memory for a trial");
    }
    gk_hash_hex(&tree->template_hash, hash);
    trial->index = index;
    trial->seq = search->count - 1;
    trial->batch = search->batches;
    const struct trial_words *words = trial_words(search, trial);
    if (!words) {
        return gk_fail(err, GK_NOMEM, "out of memory for a trial");
    }
    struct gk_db_trial row = {.job = task->job->id,
                              .task = task->id,
                              .seq = trial->seq,
                              .batch = trial->batch,
                              .input_set = trial->seq % 4,
                              .created_ms = (int64_t)core->wall_ms,
                              .template_name = words->template_name,
                              .template_hash = hash,
                              .config = words->config,
                              .config_id = words->config_id};
    enum gk_status status = gk_db_trial_add(core->db, &row, &trial->id, err);
    return status == GK_OK ? answer_known(core, task, trial, err) : status;
}

/* Of a budget in seconds: a fifth is kept for the final round. */
static bool seconds_left(const struct task *task)
{
    return task->spent_ns < task->job->budget_ns * 0.8;
}

static bool budget_left(const struct task *task)
{
    const struct job *job = task->job;
    if (job->finishing || task->search->used_up) {
        return false;
    }
    if (job->budget_trials > 0) {
        return (int64_t)task->search->count < job->budget_trials;
    }
    return seconds_left(task);
}

static enum gk_status ask_batch(struct gk_core *core, struct task *task, struct gk_err *err)
{
    struct search *search = task->search;
    uint32_t indices[BATCH_REAL], count = 0;
    struct gk_err why = {0};
    enum gk_status status = gk_db_task_has_twins(core->db, task->id, task->problem_id, task->arch,
                                                 task->gpu, &search->has_twins, err);
    if (status != GK_OK) {
        return status;
    }
    status = search->ops->ask(search->strategy, batch_size(task, search, search->count), indices,
                              &count, &why);
    if (status == GK_END || (status == GK_OK && count == 0)) {
        search->used_up = true;
        return GK_OK;
    }
    for (uint32_t i = 0; status == GK_OK && i < count; i++) {
        status = propose(core, task, indices[i], err);
    }
    if (status != GK_OK) {
        return err && err->status == status ? status : gk_fail(err, status, "%s", why.text);
    }
    search->batches++;
    struct gk_json *body = gk_json_new_object();
    (void)(gk_json_set_int(body, "task", task->id) &&
           gk_json_set_int(body, "batch", search->batches - 1) &&
           gk_json_set_int(body, "count", count)); /* an event may lack a member */
    return core_event(core, task->job->id, "asked", body, err);
}

/* A budget in seconds that is spent. Batches ahead were asked before anybody knew what a trial
 * costs: where one takes seconds the others would cost their multiple. A search goes on until
 * something is verified, as far as it has asked. */
static bool is_spent(const struct task *task)
{
    return task->job->budget_ns > 0 && !seconds_left(task) && task->trials > task->failed;
}

/* A job that is finishing, or has spent its seconds, takes back what nobody has begun. */
static enum gk_status drop_proposed(struct gk_core *core, struct task *task, struct gk_err *err)
{
    struct search *search = task->search;
    enum gk_status status = GK_OK;
    for (uint32_t i = search->told; status == GK_OK && i < search->count; i++) {
        if (search->trials[i].state == TRIAL_PROPOSED) {
            struct gk_json *changes = gk_json_new_object();
            status = gk_json_set_string(changes, "state", "parked") &&
                             gk_json_set_string(changes, "message",
                                                task->job->finishing
                                                    ? "the job was asked to finish before it ran"
                                                    : "the budget was spent before it ran")
                         ? gk_db_trial_update(core->db, search->trials[i].id, changes, err)
                         : gk_fail(err, GK_NOMEM, "out of memory");
            gk_json_free(changes);
            search->trials[i].state = TRIAL_PARKED;
        }
    }
    return status;
}

enum gk_status task_step(struct gk_core *core, struct task *task, struct gk_err *err)
{
    if (task->state == TASK_WAITING && task->job->finishing) {
        bool late = job_out_of_time(core, task->job);
        return task_unrun(core, task, "no_worker",
                          late ? "no worker: none with a device of this arch was there in time"
                               : "the job was asked to finish before any device of this arch was "
                                 "there",
                          err);
    }
    if (task->state != TASK_SEARCHING) {
        return GK_OK;
    }
    enum gk_status status = task_open(core, task, err);
    for (int round = 0; status == GK_OK && task->search && round < REUSE_ROUNDS_MAX; round++) {
        struct search *search = task->search;
        if (task->job->finishing || is_spent(task)) {
            status = drop_proposed(core, task, err);
        }
        if (status == GK_OK && budget_left(task) &&
            batches_untold(search) <= batches_ahead(task, search)) {
            status = ask_batch(core, task, err);
            continue;
        }
        if (status == GK_OK && search->told == search->count) {
            return final_begin(core, task, err);
        }
        if (status != GK_OK || !batch_done(search, batch_end(search, search->told))) {
            return status;
        }
        tell_batch(search);
    }
    return status;
}
