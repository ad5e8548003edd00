/* The verb `submit`: everything is validated again, then stored in one transaction. */
#include <stdio.h>

#include "core/policy.h"
#include "daemon/core_submit.h"

#define AGE_DAYS_DEFAULT 30
#define AGE_DAYS_MAX     3650
#define WHAT_MAX         1024 /* it may be a path */

void submit_fini(struct gk_core *core, struct submit *s)
{
    catalog_release(core, s->catalog);
    gk_bundle_fini(&s->bundle);
    gk_json_free(s->archs);
    gk_json_free(s->ops);
    gk_json_free(s->templates);
    free(s->left_out);
}

/* When it ends by the clock, and what it need not do again. */
static enum gk_status read_night(const struct gk_core *core, struct submit *s, struct gk_err *err)
{
    int64_t until_ms = gk_json_get_int(s->body, "until_ms", 0);
    s->if_changed = gk_json_get_bool(s->body, "if_changed", false);
    s->max_age_days = AGE_DAYS_DEFAULT;
    if (until_ms != 0 && until_ms <= (int64_t)core->wall_ms) {
        return gk_fail(err, GK_INPUT,
                       "submit: until_ms %" PRId64 " is over: by the daemon's clock it is %" PRIu64,
                       until_ms, core->wall_ms);
    }
    s->until_ms = (uint64_t)until_ms;
    return gk_json_get(s->body, "max_age_days")
               ? gk_json_need_int(s->body, "max_age_days", 0, AGE_DAYS_MAX, &s->max_age_days,
                                  "submit", err)
               : GK_OK;
}

/* What stands in every listing, and what decides who is first: nothing without a bound. */
static enum gk_status read_names(struct submit *s, struct gk_err *err)
{
    enum gk_status status = GK_OK;
    s->what = "";
    if (gk_json_get(s->body, "what")) {
        status = gk_json_need_string(s->body, "what", WHAT_MAX, &s->what, "submit", err);
    }
    if (status == GK_OK && gk_json_get(s->body, "seed")) {
        status = gk_json_need_int(s->body, "seed", 0, INT64_MAX, &s->seed, "submit", err);
    }
    if (status == GK_OK && gk_json_get(s->body, "priority")) {
        status = gk_json_need_int(s->body, "priority", -PRIORITY_MAX, PRIORITY_MAX, &s->priority,
                                  "submit", err);
    }
    return status;
}

static enum gk_status read_limits(struct submit *s, struct gk_err *err)
{
    const struct gk_json *budget = gk_json_get(s->body, "budget");
    s->strategy = gk_json_get_string(s->body, "strategy", gk_strategy_at(0)->name);
    s->policy = gk_json_get_string(s->body, "policy", gk_policy_name(GK_POLICY_COLD_GRAPH));
    enum gk_status status = read_names(s, err);
    if (status != GK_OK) {
        return status;
    }
    if (!gk_strategy_find(s->strategy)) {
        struct gk_buf names = {0};
        for (uint32_t i = 0; gk_strategy_at(i); i++) {
            gk_buf_printf(&names, "%s%s", i ? ", " : "", gk_strategy_at(i)->name);
        }
        status = gk_fail(err, GK_INPUT, "strategy '%.60s': there are %s", s->strategy,
                         gk_buf_text(&names));
        gk_buf_fini(&names);
        return status;
    }
    enum gk_policy policy;
    if (!gk_policy_from_name(s->policy, &policy)) {
        return gk_fail(err, GK_INPUT, "policy '%.60s': there are %s", s->policy, gk_policy_names());
    }
    if (gk_json_get(budget, "seconds")) {
        s->budget_s = gk_json_get_real(budget, "seconds", 0);
        if (!(s->budget_s >= 1 && s->budget_s <= 30.0 * 86400)) {
            return gk_fail(err, GK_INPUT, "budget of %g seconds: 1 to 2592000 are allowed",
                           s->budget_s);
        }
        return GK_OK;
    }
    if (!budget) {
        s->budget_trials = 200;
        return GK_OK;
    }
    return gk_json_need_int(budget, "trials", 1, 1000000, &s->budget_trials, "submit: budget", err);
}

static enum gk_status read_bundle(struct gk_core *core, struct submit *s, struct gk_err *err)
{
    const struct gk_json *bundle = gk_json_get(s->body, "bundle");
    const struct gk_json *files = gk_json_get(bundle, "files");
    enum gk_status status = gk_bundle_from_json(bundle, &s->bundle, err);
    if (status != GK_OK) {
        return gk_fail_in(err, status, "submit: bundle");
    }
    gk_hash_hex(&s->bundle.id, s->bundle_id);
    for (uint32_t i = 0; i < s->bundle.count; i++) {
        if (!core->files.has(core->files.context, &s->bundle.files[i].hash)) {
            return gk_fail(
                err, GK_MISSING,
                "submit: file %s of the bundle is not stored here: send it by blob_put first",
                s->bundle.files[i].path);
        }
    }
    struct gk_err why = {0};
    status = core->files.catalog(core->files.context, files, s->bundle_id, &s->catalog, &why);
    return status == GK_OK ? GK_OK
                           : gk_fail(err, status == GK_NOMEM ? GK_NOMEM : GK_INPUT,
                                     "submit: bundle: %s", why.text);
}

static enum gk_status read_problems(struct submit *s, struct gk_err *err)
{
    const struct gk_json *problems;
    struct gk_diag diag;
    enum gk_status status =
        gk_json_need(s->body, "problems", GK_JSON_ARRAY, &problems, "submit", err);
    if (status != GK_OK) {
        return status;
    }
    size_t count = gk_json_count(problems);
    if (count == 0 || count > GK_PROBLEMS_MAX) {
        return gk_fail(err, GK_INPUT, "submit: %zu problems, 1 to %d are allowed", count,
                       GK_PROBLEMS_MAX);
    }
    gk_diag_init(&diag);
    s->ops = gk_json_new_array();
    for (size_t i = 0; i < count; i++) {
        const char *text = gk_json_string(gk_json_at(problems, i), "");
        char op[GK_NAME_MAX];
        struct gk_err why = {0};
        struct gk_problem problem;
        status = gk_problem_op_of(text, op, &why);
        const struct gk_op *found = status == GK_OK ? gk_catalog_find(s->catalog, op) : NULL;
        if (status == GK_OK && !found) {
            status = gk_fail(&why, GK_INPUT, "op '%s' is not in the bundle", op);
        }
        if (status == GK_OK) {
            status = gk_problem_from_text(&found->fields, text, &problem, &why);
        }
        if (status == GK_OK) {
            if (strcmp(problem.canonical, text) != 0) {
                status =
                    gk_fail(&why, GK_INPUT, "is not canonical; canonical is %s", problem.canonical);
            } else {
                status = gk_catalog_serves(found, &problem, &why);
            }
            gk_problem_fini(&problem);
        }
        if (status != GK_OK) {
            (void)gk_diag_add(&diag, GK_INPUT, "problem %zu (%.100s): %s", i, text, why.text);
            continue;
        }
        bool known = false;
        for (size_t k = 0; k < gk_json_count(s->ops); k++) {
            known = known || strcmp(gk_json_string(gk_json_at(s->ops, k), ""), op) == 0;
        }
        if (!known && !gk_json_push(s->ops, gk_json_new_string(op))) {
            (void)gk_diag_add(&diag, GK_NOMEM, "out of memory");
        }
    }
    status = gk_diag_status(&diag, err);
    gk_diag_fini(&diag);
    return status;
}

static bool add_arch(struct gk_json *archs, const char *arch, const char *gpu)
{
    for (size_t i = 0; i < gk_json_count(archs); i++) {
        const struct gk_json *have = gk_json_at(archs, i);
        if (strcmp(gk_json_get_string(have, "arch", ""), arch) == 0 &&
            strcmp(gk_json_get_string(have, "gpu", ""), gpu ? gpu : "") == 0) {
            return true;
        }
    }
    struct gk_json *item = gk_json_new_object();
    bool ok =
        gk_json_set_string(item, "arch", arch) && (!gpu || gk_json_set_string(item, "gpu", gpu));
    return gk_json_push(archs, item) && ok;
}

/* "emu-sm_80" -> "sm_80": what a template is written for. */
static const char *target_of(const char *arch)
{
    const char *dash = strrchr(arch, '-');
    return dash ? dash + 1 : arch;
}

/* "emu-sm_80": times come from a model that knows neither graphs nor what is left in L2. */
static bool is_modelled(const char *arch)
{
    return target_of(arch) != arch;
}

static enum gk_status check_arch(const struct submit *s, const char *arch, struct gk_err *err)
{
    if (is_modelled(arch) && strcmp(s->policy, gk_policy_name(GK_POLICY_COLD_GRAPH)) != 0) {
        return gk_fail(err, GK_INPUT,
                       "policy '%s' on arch '%s': its times are modelled, and the model knows "
                       "cold-graph alone; name an arch of a GPU, or leave the policy out",
                       s->policy, arch);
    }
    for (size_t o = 0; o < gk_json_count(s->ops); o++) {
        const struct gk_op *op =
            gk_catalog_find(s->catalog, gk_json_string(gk_json_at(s->ops, o), ""));
        bool runs = false;
        for (uint32_t t = 0; op && t < op->template_count; t++) {
            runs = runs || gk_template_runs_on(&op->templates[t], target_of(arch));
        }
        if (!runs) {
            return gk_fail(err, GK_INPUT,
                           "arch '%s': no template of %s runs there (an arch is written like "
                           "sm_90a or emu-sm_80)",
                           arch, gk_json_string(gk_json_at(s->ops, o), ""));
        }
    }
    return GK_OK;
}

static enum gk_status archs_of_devices(struct gk_core *core, struct submit *s,
                                       const struct gk_json *devices, struct gk_err *err)
{
    for (size_t i = 0; i < gk_json_count(devices); i++) {
        const char *name = gk_json_string(gk_json_at(devices, i), "");
        struct gk_device_props props;
        bool found = false;
        if (strncmp(name, "emu:", 4) == 0 || strncmp(name, "mock:", 5) == 0) {
            enum gk_status status = gk_device_props_builtin(name, &props, err);
            if (status != GK_OK) {
                return status;
            }
            found = add_arch(s->archs, props.arch, NULL);
        }
        for (uint32_t w = 0; !found && w < core->session_count; w++) {
            for (uint32_t d = 0; d < core->sessions[w]->device_count; d++) {
                const struct gk_device_props *have = &core->sessions[w]->devices[d].props;
                if (strcmp(have->device, name) == 0) {
                    found = add_arch(s->archs, have->arch, have->gpu);
                }
            }
        }
        if (!found) {
            return gk_fail(err, GK_NOT_FOUND, "device '%s': no connected worker has it", name);
        }
    }
    return GK_OK;
}

static enum gk_status archs_of_all(struct gk_core *core, struct submit *s, struct gk_err *err)
{
    struct gk_json *rows = NULL;
    enum gk_status status = gk_db_archs(
        core->db, core->wall_ms > ARCHS_SEEN_MS ? core->wall_ms - ARCHS_SEEN_MS : 0, &rows, err);
    for (size_t i = 0; status == GK_OK && i < gk_json_count(rows); i++) {
        const struct gk_json *row = gk_json_at(rows, i);
        const char *arch = gk_json_get_string(row, "arch", "");
        if (check_arch(s, arch, NULL) == GK_OK &&
            !add_arch(s->archs, arch, gk_json_get_string(row, "gpu", ""))) {
            status = gk_fail(err, GK_NOMEM, "out of memory");
        }
    }
    gk_json_free(rows);
    if (status == GK_OK && gk_json_count(s->archs) == 0) {
        status = gk_fail(
            err, GK_NOT_FOUND,
            "archs 'all': no worker has reported a device for this op in the last 30 days; start "
            "gktune-worker once, or name an arch (--arch sm_90a)");
    }
    return status;
}

static enum gk_status read_archs(struct gk_core *core, struct submit *s, struct gk_err *err)
{
    const struct gk_json *archs = gk_json_get(s->body, "archs"),
                         *devices = gk_json_get(s->body, "devices");
    enum gk_status status = GK_OK;
    s->archs = gk_json_new_array();
    if (gk_json_is(archs, GK_JSON_STRING) && strcmp(gk_json_string(archs, ""), "all") == 0) {
        return archs_of_all(core, s, err);
    }
    if (gk_json_count(archs) == 0 && gk_json_count(devices) > 0) {
        status = archs_of_devices(core, s, devices, err);
    }
    for (size_t i = 0; status == GK_OK && i < gk_json_count(archs); i++) {
        const char *arch = gk_json_string(gk_json_at(archs, i), "");
        if (strlen(arch) == 0 || strlen(arch) > 31) {
            return gk_fail(err, GK_INPUT, "submit: arch '%.40s' has %zu bytes, 1 to 31 are allowed",
                           arch, strlen(arch));
        }
        if (!add_arch(s->archs, arch, NULL)) {
            return gk_fail(err, GK_NOMEM, "out of memory");
        }
    }
    for (size_t i = 0; status == GK_OK && i < gk_json_count(s->archs); i++) {
        status = check_arch(s, gk_json_get_string(gk_json_at(s->archs, i), "arch", ""), err);
    }
    if (status == GK_OK && gk_json_count(s->archs) == 0) {
        status = gk_fail(err, GK_INPUT,
                         "submit: archs or devices must name at least one (a list, or \"all\")");
    }
    return status;
}

static void make_key(struct submit *s)
{
    struct gk_hasher hasher;
    char number[96];
    gk_hasher_init(&hasher);
    static const char *const parts[] = {"problems", "incumbents"};
    for (size_t i = 0; i < GK_ARRAY_COUNT(parts); i++) {
        char *text = gk_json_text(gk_json_get(s->body, parts[i]));
        gk_hasher_text(&hasher, text ? text : "");
        free(text);
    }
    char *archs = gk_json_text(s->archs);
    (void)snprintf(number, sizeof number, "%" PRId64 " %" PRId64 " %.3f", s->seed, s->budget_trials,
                   s->budget_s);
    gk_hasher_text(&hasher, archs ? archs : "");
    gk_hasher_text(&hasher, number);
    gk_hasher_text(&hasher, s->strategy);
    gk_hasher_text(&hasher, s->policy);
    gk_hasher_text(&hasher, s->bundle_id);
    free(archs);
    struct gk_hash key = gk_hasher_final(&hasher);
    gk_hash_hex(&key, s->spec_key);
}

static bool hash_of(const struct submit *s, char hex_out[GK_HASH_TEXT_SIZE])
{
    const char *const parts[] = {s->key, s->suite, s->slot, s->night};
    char *text = gk_json_text(s->body);
    struct gk_hasher hasher;
    gk_hasher_init(&hasher);
    gk_hasher_text(&hasher, text ? text : "");
    for (size_t i = 0; i < GK_ARRAY_COUNT(parts); i++) {
        gk_hasher_text(&hasher, parts[i] ? parts[i] : "");
    }
    struct gk_hash hash = gk_hasher_final(&hasher);
    gk_hash_hex(&hash, hex_out);
    bool ok = text != NULL;
    free(text);
    return ok;
}

/* {op: {template: hash}} of the bundle: later tells which picks are stale. */
static struct gk_json *template_hashes(const struct gk_catalog *catalog)
{
    struct gk_json *all = gk_json_new_object();
    for (uint32_t o = 0; all && o < gk_catalog_op_count(catalog); o++) {
        const struct gk_op *op = gk_catalog_op(catalog, o);
        struct gk_json *templates = gk_json_new_object();
        bool ok = true;
        for (uint32_t t = 0; ok && t < op->template_count; t++) {
            char hex[GK_HASH_TEXT_SIZE];
            gk_hash_hex(&op->templates[t].hash, hex);
            ok = gk_json_set_string(templates, op->templates[t].name, hex);
        }
        if (!gk_json_set(all, op->fields.op, templates) || !ok) {
            gk_json_free(all);
            return NULL;
        }
    }
    return all;
}

static enum gk_status store_job(struct gk_core *core, const struct submit *s, int64_t problems,
                                int64_t tasks, int64_t *job_out, struct gk_err *err)
{
    struct gk_json *row = gk_json_new_object();
    const struct gk_json *incumbents = gk_json_get(s->body, "incumbents");
    enum gk_status status = gk_db_bundle_put(core->db, s->bundle_id,
                                             gk_json_get(gk_json_get(s->body, "bundle"), "files"),
                                             s->templates, core->wall_ms, err);
    bool ok =
        gk_json_set_string(row, "submit_id", s->submit_id) &&
        gk_json_set_string(row, "key", s->key) &&
        gk_json_set_string(row, "spec_key", s->spec_key) &&
        gk_json_set_string(row, "what", s->what) && gk_json_set(row, "ops", gk_json_copy(s->ops)) &&
        gk_json_set_string(row, "bundle", s->bundle_id) &&
        gk_json_set(row, "archs", gk_json_copy(s->archs)) &&
        gk_json_set_bool(row, "private_ok", gk_json_get_bool(s->body, "private_ok", false)) &&
        gk_json_set_bool(row, "spread", gk_json_get_bool(s->body, "spread", false)) &&
        gk_json_set_bool(row, "fresh", gk_json_get_bool(s->body, "fresh", false)) &&
        gk_json_set_int(row, "budget_trials", s->budget_trials) &&
        gk_json_set_real(row, "budget_s", s->budget_s) &&
        gk_json_set_string(row, "strategy", s->strategy) && gk_json_set_int(row, "seed", s->seed) &&
        gk_json_set_int(row, "priority", s->priority) &&
        gk_json_set_string(row, "policy", s->policy) &&
        (!incumbents || gk_json_set(row, "incumbents", gk_json_copy(incumbents))) &&
        (!s->suite ||
         (gk_json_set_string(row, "suite", s->suite) && gk_json_set_string(row, "slot", s->slot) &&
          gk_json_set_string(row, "night", s->night))) &&
        (s->until_ms == 0 || gk_json_set_int(row, "until_ms", (int64_t)s->until_ms)) &&
        gk_json_set_string(row, "state", "submitted") &&
        gk_json_set_bool(row, "finishing", false) &&
        gk_json_set_int(row, "created_ms", (int64_t)core->wall_ms) &&
        gk_json_set_int(row, "problems", problems) && gk_json_set_int(row, "tasks", tasks) &&
        gk_json_set_int(row, "done", 0) && gk_json_set_int(row, "trials", 0) &&
        gk_json_set_int(row, "failed", 0);
    if (status == GK_OK) {
        status = ok ? gk_db_job_insert(core->db, row, job_out, err)
                    : gk_fail(err, GK_NOMEM, "out of memory");
    }
    if (status == GK_OK) {
        status = gk_db_submit_put(core->db, s->submit_id, *job_out, s->hash, err);
    }
    gk_json_free(row);
    return status;
}

static enum gk_status store_task(struct gk_core *core, int64_t job, int64_t problem,
                                 const struct gk_json *arch, struct gk_err *err)
{
    struct gk_json *row = gk_json_new_object();
    const char *gpu = gk_json_get_string(arch, "gpu", NULL);
    int64_t task;
    bool ok = gk_json_set_int(row, "job", job) && gk_json_set_int(row, "problem", problem) &&
              gk_json_set_string(row, "arch", gk_json_get_string(arch, "arch", "")) &&
              (!gpu || gk_json_set_string(row, "gpu", gpu)) &&
              gk_json_set_string(row, "state", "waiting") && gk_json_set_int(row, "trials", 0) &&
              gk_json_set_int(row, "verified", 0) && gk_json_set_int(row, "failed", 0) &&
              gk_json_set_real(row, "spent_ns", 0) && gk_json_set_int(row, "attempt", 0);
    enum gk_status status =
        ok ? gk_db_task_insert(core->db, row, &task, err) : gk_fail(err, GK_NOMEM, "out of memory");
    gk_json_free(row);
    return status;
}

/* Numbers of the problems, and which of them need not be measured again where. *tasks_out: how many
 * tasks are left, of *problems_out problems. */
static enum gk_status number_problems(struct gk_core *core, struct submit *s, int64_t *numbers,
                                      int64_t *tasks_out, int64_t *problems_out, struct gk_err *err)
{
    const struct gk_json *problems = gk_json_get(s->body, "problems");
    size_t count = gk_json_count(problems), archs = gk_json_count(s->archs);
    enum gk_status status = GK_OK;
    int64_t tasks = 0, kept = 0;
    for (size_t i = 0; status == GK_OK && i < count; i++) {
        const char *text = gk_json_string(gk_json_at(problems, i), "");
        char op[GK_NAME_MAX];
        int64_t before = tasks;
        status = gk_problem_op_of(text, op, err);
        if (status == GK_OK) {
            status = gk_db_problem_put(core->db, op, text, &numbers[i], err);
        }
        for (size_t a = 0; status == GK_OK && a < archs; a++) {
            bool same = false;
            if (s->if_changed) {
                status =
                    suite_unchanged(core, s, numbers[i], op, gk_json_at(s->archs, a), &same, err);
            }
            s->left_out[i * archs + a] = same;
            s->left_out_count += same;
            tasks += !same;
        }
        kept += tasks > before;
    }
    *tasks_out = tasks;
    *problems_out = kept;
    return status;
}

static enum gk_status say_submitted(struct gk_core *core, const struct submit *s, int64_t job,
                                    int64_t problems, int64_t tasks, struct gk_err *err)
{
    struct gk_json *body = gk_json_new_object();
    (void)(gk_json_set_int(body, "problems", problems) && gk_json_set_int(body, "tasks", tasks) &&
           gk_json_set(body, "archs", gk_json_copy(s->archs)) &&
           (!s->if_changed || gk_json_set_int(body, "unchanged", s->left_out_count)) &&
           (!s->suite || (gk_json_set_string(body, "suite", s->suite) &&
                          gk_json_set_string(body, "slot", s->slot)))); /* may lack a member */
    return core_event(core, job, "submitted", body, err);
}

/* *job_out 0: nothing is left to do, and nothing was stored. */
static enum gk_status store_all(struct gk_core *core, struct submit *s, int64_t *job_out,
                                struct gk_err *err)
{
    size_t count = gk_json_count(gk_json_get(s->body, "problems")), archs = gk_json_count(s->archs);
    int64_t *numbers = calloc(count, sizeof *numbers), tasks = 0, problems = 0;
    s->left_out = calloc(count * archs, sizeof *s->left_out);
    enum gk_status status =
        numbers && s->left_out ? GK_OK : gk_fail(err, GK_NOMEM, "out of memory");
    if (status == GK_OK) {
        status = number_problems(core, s, numbers, &tasks, &problems, err);
    }
    *job_out = 0;
    if (status == GK_OK && tasks > 0) {
        status = store_job(core, s, problems, tasks, job_out, err);
    }
    for (size_t i = 0; status == GK_OK && tasks > 0 && i < count; i++) {
        for (size_t a = 0; status == GK_OK && a < archs; a++) {
            if (!s->left_out[i * archs + a]) {
                status = store_task(core, *job_out, numbers[i], gk_json_at(s->archs, a), err);
            }
        }
    }
    free(numbers);
    return status == GK_OK && tasks > 0 ? say_submitted(core, s, *job_out, problems, tasks, err)
                                        : status;
}

enum gk_status submit_answer(struct gk_json *reply, const struct gk_json *row, bool continued,
                             struct gk_err *err)
{
    bool ok = gk_json_set_int(reply, "job", gk_json_get_int(row, "job", 0)) &&
              gk_json_set_int(reply, "tasks", gk_json_get_int(row, "tasks", 0)) &&
              gk_json_set(reply, "archs", gk_json_copy(gk_json_get(row, "archs"))) &&
              gk_json_set_string(reply, "state", gk_json_get_string(row, "state", "")) &&
              gk_json_set_bool(reply, "continued", continued);
    return ok ? GK_OK : gk_fail(err, GK_NOMEM, "out of memory");
}

/* How many devices of the arch are connected, and how many of them get leases; why not, of one that
 * gets none. */
static void count_devices(const struct gk_core *core, const char *arch, uint32_t *there,
                          uint32_t *usable, char why_out[CAUSE_SIZE])
{
    for (uint32_t w = 0; w < core->session_count; w++) {
        const struct session *session = core->sessions[w];
        for (uint32_t d = 0; d < session->device_count; d++) {
            if (strcmp(session->devices[d].props.arch, arch) != 0) {
                continue;
            }
            const struct fence *fence = fence_find(core, session->devices[d].key);
            ++*there;
            *usable += !fence && !session->drained;
            if (fence) {
                (void)snprintf(why_out, CAUSE_SIZE, "%.80s is fenced (%.140s)", fence->key,
                               fence->cause);
            } else if (session->drained) {
                (void)snprintf(why_out, CAUSE_SIZE, "worker %" PRId64 " drains", session->worker);
            }
        }
    }
}

/* A job that waits for nobody yet is told so. */
static bool add_warnings(struct gk_core *core, struct gk_json *reply, const struct submit *s)
{
    struct gk_json *warnings = gk_json_new_array();
    for (size_t i = 0; i < gk_json_count(s->archs); i++) {
        const char *arch = gk_json_get_string(gk_json_at(s->archs, i), "arch", "");
        char text[512], why[CAUSE_SIZE] = "";
        uint32_t there = 0, usable = 0;
        count_devices(core, arch, &there, &usable, why);
        if (there == 0) {
            (void)snprintf(text, sizeof text,
                           "no connected worker has a device of arch %s: its tasks wait for one",
                           arch);
        } else {
            (void)snprintf(text, sizeof text,
                           "no device of arch %s gets work now: %s; `gktune workers` shows them",
                           arch, why);
        }
        if (usable == 0) {
            (void)gk_json_push(warnings, gk_json_new_string(text)); /* a warning may be missing */
        }
    }
    return gk_json_set(reply, "warnings", warnings);
}

/* The unfinished job of the same key, unless the submission wants a fresh one. *row_out NULL: there
 * is none to go on with; a store that does not answer is no such answer. A job that was asked to
 * stop early is none: only its final rounds are left, and who asks again wants the whole budget; a
 * new job takes over every record of it. */
static enum gk_status find_unfinished(struct gk_core *core, const struct submit *s,
                                      struct gk_json **row_out, struct gk_err *err)
{
    struct gk_json *row = NULL;
    *row_out = NULL;
    if (gk_json_get_bool(s->body, "fresh", false)) {
        return GK_OK;
    }
    enum gk_status status = gk_db_job_by_spec(core->db, s->spec_key, true, &row, err);
    if (status != GK_OK) {
        return status == GK_NOT_FOUND ? GK_OK : status;
    }
    if (gk_json_get_bool(row, "finishing", false)) {
        gk_json_free(row);
        row = NULL;
    }
    *row_out = row;
    return GK_OK;
}

/* The job now is one that a private daemon may work on, or ends at another time. */
static enum gk_status change_open(struct gk_core *core, const struct submit *s, struct job *open,
                                  struct gk_err *err)
{
    struct gk_json *changes = gk_json_new_object();
    bool private_ok = gk_json_get_bool(s->body, "private_ok", false), ok = changes != NULL;
    if (private_ok && !open->private_ok) {
        open->private_ok = true;
        ok = ok && gk_json_set_bool(changes, "private_ok", true);
    }
    if (gk_json_get_bool(s->body, "spread", false) && !open->spread) {
        open->spread = true;
        ok = ok && gk_json_set_bool(changes, "spread", true);
    }
    if (s->until_ms != 0 && s->until_ms != open->until_ms) {
        open->until_ms = s->until_ms;
        ok = ok && gk_json_set_int(changes, "until_ms", (int64_t)s->until_ms);
    }
    enum gk_status status = !ok ? gk_fail(err, GK_NOMEM, "out of memory")
                            : gk_json_count(changes) > 0
                                ? gk_db_job_update(core->db, open->id, changes, err)
                                : GK_OK;
    gk_json_free(changes);
    return status;
}

static enum gk_status go_on_with(struct gk_core *core, const struct submit *s,
                                 const struct gk_json *row, struct gk_json *reply,
                                 struct gk_err *err)
{
    struct job *open = job_find(core, gk_json_get_int(row, "job", 0));
    enum gk_status status = open ? change_open(core, s, open, err) : GK_OK;
    if (status == GK_OK) {
        status =
            gk_db_submit_put(core->db, s->submit_id, gk_json_get_int(row, "job", 0), s->hash, err);
    }
    if (status == GK_OK) {
        status = submit_answer(reply, row, true, err);
    }
    return status == GK_OK && open ? job_bind(core, open, err) : status;
}

static bool add_unchanged(const struct submit *s, struct gk_json *reply)
{
    return !s->if_changed || gk_json_set_int(reply, "unchanged", s->left_out_count);
}

enum gk_status submit_begin(struct gk_core *core, struct submit *s, struct gk_json *reply,
                            struct gk_err *err)
{
    struct gk_json *row = NULL;
    int64_t job = 0;
    enum gk_status status = store_all(core, s, &job, err);
    if (status == GK_OK && job == 0) {
        bool ok = gk_json_set_int(reply, "job", 0) && gk_json_set_int(reply, "tasks", 0) &&
                  gk_json_set(reply, "archs", gk_json_copy(s->archs)) &&
                  gk_json_set_bool(reply, "continued", false) && add_unchanged(s, reply);
        return ok ? GK_OK : gk_fail(err, GK_NOMEM, "out of memory");
    }
    if (status == GK_OK) {
        status = gk_db_job_get(core->db, job, &row, err);
    }
    if (status == GK_OK) {
        status = job_load(core, row, err);
    }
    if (status == GK_OK) {
        status = submit_answer(reply, row, false, err);
    }
    if (status == GK_OK && !(add_warnings(core, reply, s) && add_unchanged(s, reply))) {
        status = gk_fail(err, GK_NOMEM, "out of memory");
    }
    if (status == GK_OK) {
        status = job_bind(core, job_find(core, job), err);
    }
    if (status == GK_OK) {
        char target[40];
        (void)snprintf(target, sizeof target, "job %" PRId64, job);
        status = core_audit(core, s->key, "submit", target, NULL, "stored", err);
    }
    gk_json_free(row);
    return status;
}

enum gk_status submit_again(struct gk_core *core, struct submit *s, struct gk_json **row_out,
                            struct gk_err *err)
{
    struct gk_json *row = NULL;
    enum gk_status status =
        gk_json_need_string(s->body, "submit_id", 128, &s->submit_id, "submit", err);
    *row_out = NULL;
    if (status == GK_OK && s->submit_id[0] == '\0') {
        status = gk_fail(err, GK_INPUT, "submit: \"submit_id\" is empty");
    }
    if (status == GK_OK && !hash_of(s, s->hash)) {
        status = gk_fail(err, GK_NOMEM, "out of memory");
    }
    if (status == GK_OK) {
        status = gk_db_job_by_submit(core->db, s->submit_id, &row, err);
    }
    if (status != GK_OK) {
        return status == GK_NOT_FOUND ? GK_OK : status;
    }
    /* A job of an older store has no hash: what was asked is not known, so it is believed. */
    if (strcmp(gk_json_get_string(row, "submit_hash", s->hash), s->hash) != 0) {
        status = gk_fail(err, GK_CONFLICT,
                         "submit_id '%.128s' is job %" PRId64
                         "'s, and asked for something else then: give each submission an id of "
                         "its own, and send an id again with the very same content",
                         s->submit_id, gk_json_get_int(row, "job", 0));
        gk_json_free(row);
        return status;
    }
    *row_out = row;
    return GK_OK;
}

/* A key that submits without end would fill memory and listings for all. */
static enum gk_status check_quota(const struct gk_core *core, const struct gk_peer *peer,
                                  struct gk_err *err)
{
    uint32_t jobs = share_jobs(core, peer->key);
    return jobs < KEY_JOBS_MAX || !peer->key[0] || (peer->roles & GK_ROLE_ADMIN)
               ? GK_OK
               : gk_fail(err, GK_LIMIT,
                         "key '%s' has %u open jobs, and %d are the most: wait until some have "
                         "ended, or cancel them",
                         peer->key, jobs, KEY_JOBS_MAX);
}

enum gk_status submit_room(const struct gk_core *core, const struct gk_peer *peer,
                           struct gk_err *err)
{
    if (core->drain_ms != 0) {
        return gk_fail(
            err, GK_CONFLICT,
            "the daemon drains and takes no new work%s%s; `gktune drain --off` ends that",
            core->drain_reason[0] ? ": " : "", core->drain_reason);
    }
    return core->disk == GK_CORE_DISK_OK
               ? check_quota(core, peer, err)
               : gk_fail(err, GK_LIMIT,
                         "the disk of the state folder has %" PRIu64 " KiB free, %" PRIu64
                         " KiB are needed for new work: free some space",
                         core->free_bytes >> 10, core->resume_bytes >> 10);
}

static enum gk_status check_size(const struct submit *s, struct gk_err *err)
{
    size_t count = gk_json_count(gk_json_get(s->body, "problems")), archs = gk_json_count(s->archs);
    return count * archs <= TASKS_MAX
               ? GK_OK
               : gk_fail(err, GK_LIMIT,
                         "%zu problems on %zu archs are %zu tasks; a job may have %d", count, archs,
                         count * archs, TASKS_MAX);
}

enum gk_status submit_read(struct gk_core *core, struct submit *s, struct gk_err *err)
{
    enum gk_status status = read_limits(s, err);
    if (status == GK_OK) {
        status = read_night(core, s, err);
    }
    if (status == GK_OK) {
        status = read_bundle(core, s, err);
    }
    if (status == GK_OK) {
        status = read_problems(s, err);
    }
    if (status == GK_OK) {
        status = read_archs(core, s, err);
    }
    if (status == GK_OK) {
        status = check_size(s, err);
    }
    if (status == GK_OK && !(s->templates = template_hashes(s->catalog))) {
        status = gk_fail(err, GK_NOMEM, "out of memory");
    }
    if (status == GK_OK) {
        make_key(s);
    }
    return status;
}

enum gk_status request_submit(struct gk_core *core, const struct gk_peer *peer,
                              const struct gk_json *body, struct gk_json *reply, struct gk_err *err)
{
    struct submit s = {.body = body, .key = peer->key};
    struct gk_json *row = NULL;
    enum gk_status status = submit_again(core, &s, &row, err);
    if (status != GK_OK || row) {
        status = status == GK_OK ? submit_answer(reply, row, true, err) : status;
        gk_json_free(row);
        return status;
    }
    status = submit_room(core, peer, err);
    if (status == GK_OK) {
        status = submit_read(core, &s, err);
    }
    if (status == GK_OK) {
        status = find_unfinished(core, &s, &row, err);
    }
    if (status == GK_OK) {
        status = row ? go_on_with(core, &s, row, reply, err) : submit_begin(core, &s, reply, err);
    }
    gk_json_free(row);
    submit_fini(core, &s);
    return status;
}
