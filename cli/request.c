/* What run and submit ask for: see request.h. */
#include "cli/request.h"
#include "cli/suite.h"
#include "cli/incumbents.h"
#include "cli/gpus.h"
#include "search/space.h"
#include "core/policy.h"
#include "search/strategy.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BUDGET_DEFAULT 200

enum gk_status gk_policy_option(const struct gk_cli *cli, const char **policy_out,
                                struct gk_err *err)
{
    enum gk_policy policy = GK_POLICY_COLD_GRAPH;
    const char *name = gk_options_get(&cli->options, "policy");
    if (name && !gk_policy_from_name(name, &policy)) {
        return gk_fail(err, GK_USAGE, "--policy '%s': allowed are %s", name, gk_policy_names());
    }
    *policy_out = gk_policy_name(policy);
    return GK_OK;
}

static enum gk_status read_strategy(struct gk_request *request, const struct gk_cli *cli,
                                    struct gk_err *err)
{
    const char *name = gk_options_get(&cli->options, "strategy");
    const struct gk_strategy_ops *ops = name ? gk_strategy_find(name) : gk_strategy_at(0);
    if (!ops) {
        struct gk_buf names = {0};
        for (uint32_t i = 0; gk_strategy_at(i); i++) {
            gk_buf_printf(&names, "%s%s", i ? ", " : "", gk_strategy_at(i)->name);
        }
        enum gk_status status = gk_fail(err, GK_USAGE, "--strategy '%s': allowed are %s",
                                        name ? name : "", gk_buf_text(&names));
        gk_buf_fini(&names);
        return status;
    }
    request->strategy = ops->name;
    return GK_OK;
}

static enum gk_status read_numbers(struct gk_request *request, const struct gk_cli *cli,
                                   struct gk_err *err)
{
    const char *budget = gk_options_get(&cli->options, "budget");
    const char *seed = gk_options_get(&cli->options, "seed");
    const char *priority = gk_options_get(&cli->options, "priority");
    request->budget = (struct gk_budget){.trials = BUDGET_DEFAULT};
    request->seed = 1;
    enum gk_status status = budget ? gk_parse_budget(budget, &request->budget, err) : GK_OK;
    if (status == GK_OK && seed) {
        status = gk_parse_int(seed, "--seed", 0, INT64_MAX, &request->seed, err);
    }
    if (status == GK_OK && priority) {
        status = gk_parse_int(priority, "--priority", -100, 100, &request->priority, err);
    }
    return status;
}

/* What a night has beside its problems. */
static enum gk_status read_night(struct gk_request *request, const struct gk_cli *cli,
                                 struct gk_err *err)
{
    const char *until = gk_options_get(&cli->options, "until");
    request->if_changed = gk_options_has(&cli->options, "if-changed");
    request->spread = gk_options_has(&cli->options, "spread");
    request->max_age_days = -1;
    return until ? gk_parse_until(until, cli->clock.wall_ms(cli->clock.context), &request->until_ms,
                                  err)
                 : GK_OK;
}

static void count_kinds(struct gk_request *request, const struct gk_cli *cli)
{
    char kinds[GK_DEVICES_MAX][128];
    for (uint32_t i = 0; i < request->device_count; i++) {
        struct gk_device_props dev;
        uint32_t same = 0;
        char *kind = kinds[request->kind_count];
        if (gk_device_props_builtin(request->devices[i], &dev, NULL) == GK_OK) {
            (void)snprintf(kind, sizeof kinds[0], "%s %s", dev.arch, dev.gpu);
        } else {
            gk_gpus_kind(cli->exe_dir, request->devices[i], kind);
        }
        while (same < request->kind_count && strcmp(kinds[same], kind) != 0) {
            same++;
        }
        request->kind_count += same == request->kind_count;
    }
}

static enum gk_status read_devices(struct gk_request *request, const struct gk_cli *cli,
                                   struct gk_err *err)
{
    const char *device = NULL;
    for (uint32_t i = 0; (device = gk_options_at(&cli->options, "device", i)) != NULL; i++) {
        if (i == GK_DEVICES_MAX) {
            return gk_fail(err, GK_LIMIT, "more than %d devices", GK_DEVICES_MAX);
        }
        struct gk_device_props dev = {0};
        enum gk_status status = strncmp(device, "cuda", 4) == 0
                                    ? gk_gpus_find(cli->exe_dir, device, dev.device, err)
                                    : gk_device_props_builtin(device, &dev, err);
        if (status != GK_OK) {
            return gk_fail_in(err, status, "--device");
        }
        (void)snprintf(request->devices[request->device_count++], sizeof request->devices[0], "%s",
                       dev.device);
    }
    if (request->device_count == 0) {
        char why[256];
        request->device_count = gk_gpus_all(cli->exe_dir, request->devices, GK_DEVICES_MAX, why);
        if (request->device_count == 0) {
            (void)snprintf(request->devices[request->device_count++], sizeof request->devices[0],
                           "emu:sm_80");
            (void)fprintf(stderr,
                          "%s: using the emulated device emu:sm_80; its times are modelled\n", why);
        }
    }
    count_kinds(request, cli);
    return GK_OK;
}

enum gk_status gk_arch_option(const char *arch, char arch_out[32], struct gk_err *err)
{
    struct gk_device_props dev;
    if (strncmp(arch, "emu", 3) == 0 || strncmp(arch, "mock", 4) == 0) {
        enum gk_status status = gk_device_props_builtin(arch, &dev, err);
        if (status != GK_OK) {
            return gk_fail_in(err, status, "--arch");
        }
        arch = dev.arch;
    } else if (strncmp(arch, "sm_", 3) != 0 || strlen(arch) > 8) {
        return gk_fail(err, GK_USAGE, "--arch '%s': allowed are sm_XX, emu-sm_XX and all", arch);
    }
    (void)snprintf(arch_out, 32, "%s", arch);
    return GK_OK;
}

static enum gk_status read_archs(struct gk_request *request, const struct gk_cli *cli,
                                 struct gk_err *err)
{
    const char *arch = gk_options_get(&cli->options, "arch");
    if (!arch || strcmp(arch, "all") == 0) {
        request->archs = gk_json_new_string("all");
        return GK_OK;
    }
    request->archs = gk_json_new_array();
    for (uint32_t i = 0; (arch = gk_options_at(&cli->options, "arch", i)) != NULL; i++) {
        char name[32];
        enum gk_status status = gk_arch_option(arch, name, err);
        if (status != GK_OK) {
            return status;
        }
        (void)gk_json_push(request->archs, gk_json_new_string(name));
    }
    return GK_OK;
}

/* ------------------------------------------------------------------ is every problem served? */

/* The files whose expressions or constraints an error of the search is about. */
static void put_files(const struct gk_op *op, const struct gk_space_def *def, struct gk_err *err)
{
    struct gk_err why = *err;
    struct gk_buf files = {0};
    for (uint32_t i = 0; i < op->template_count; i++) {
        bool searched = false;
        for (uint32_t k = 0; k < def->tree_count; k++) {
            searched |= strcmp(def->trees[k].template_name, op->templates[i].name) == 0;
        }
        if (searched) {
            gk_buf_printf(&files, "%s%s", files.size ? ", " : "", op->templates[i].file);
        }
    }
    (void)gk_fail(err, why.status, "%s: %s", gk_buf_text(&files), why.text);
    gk_buf_fini(&files);
}

/* GK_OK if the problem has a legal config on this device: the default answers fast, else the space
 * is counted. */
static enum gk_status check_on(const struct gk_problem *problem, const struct gk_op *op,
                               const struct gk_device_props *dev, struct gk_err *err)
{
    struct gk_space_def def = {0};
    struct gk_config config;
    uint32_t tree = 0;
    uint64_t legal = 0, raw = 0;
    enum gk_status status = gk_catalog_space(op, problem, dev, &def, err);
    if (status == GK_OK) {
        status = gk_catalog_prefer(op, problem, &def, NULL, NULL, err);
    }
    if (status == GK_OK && gk_catalog_default(op, problem, &def, &config, &tree, NULL) != GK_OK) {
        status = gk_space_tally(&def, &legal, &raw, NULL, 0, NULL, err);
        if (status == GK_OK && legal == 0) {
            struct gk_space *space = NULL; /* its error says which constraint cuts all */
            status = gk_space_create(&def, &space, err);
            gk_space_destroy(space);
        }
        if (status != GK_OK && def.tree_count > 0) {
            put_files(op, &def, err);
        }
    }
    gk_space_def_fini(&def);
    return status;
}

static void check_problem(const struct gk_request *request, const struct gk_problem *problem,
                          const char *path, struct gk_diag *diag)
{
    const struct gk_op *op = gk_catalog_find(request->catalog, problem->op->op);
    struct gk_err err = {0};
    enum gk_status status = gk_catalog_serves(op, problem, &err);
    size_t archs = gk_json_count(request->archs), count = archs + request->device_count;
    for (size_t i = 0; i < count && status == GK_OK; i++) {
        const char *name = i < archs ? gk_json_string(gk_json_at(request->archs, i), "")
                                     : request->devices[i - archs];
        struct gk_device_props dev;
        if (gk_device_props_builtin(name, &dev, NULL) == GK_OK) {
            status = check_on(problem, op, &dev, &err);
        }
    }
    if (status != GK_OK) {
        (void)gk_diag_add(diag, status, "%s: %s: %s", path, problem->canonical, err.text);
    }
}

static enum gk_status read_shapes(struct gk_request *request, const struct gk_cli *cli,
                                  struct gk_err *err)
{
    const char *path = gk_options_get(&cli->options, "shapes");
    if (!path) {
        return gk_fail(err, GK_USAGE, "--shapes FILE is missing");
    }
    enum gk_status status = gk_load_catalog(cli, request->what, &request->catalog, err);
    if (status != GK_OK) {
        return status;
    }
    struct gk_op_lookup lookup = gk_catalog_lookup(request->catalog);
    struct gk_diag diag;
    gk_diag_init(&diag);
    /* Of a user's kernel.json its op is what is wanted. */
    const char *wanted = request->what;
    if (strchr(wanted, '.') || strchr(wanted, '/')) {
        wanted = gk_catalog_op(request->catalog, 0)->fields.op;
    }
    status = gk_shapes_load(path, wanted, &lookup, &request->shapes, &diag);
    for (uint32_t i = 0; status == GK_OK && i < request->shapes.count; i++) {
        check_problem(request, &request->shapes.problems[i], path, &diag);
    }
    if (status != GK_OK || diag.count > 0) {
        enum gk_status told = gk_diag_status(&diag, err);
        status = told != GK_OK ? told : gk_fail(err, status, "%s: cannot be read", path);
    } else if (request->shapes.duplicates > 0) {
        (void)fprintf(stderr, "%s: %" PRIu32 " rows that repeat an earlier one were merged\n", path,
                      request->shapes.duplicates);
    }
    gk_diag_fini(&diag);
    return status;
}

/* The daemon says it too; here it is said before anything is started. */
static enum gk_status check_policy(const struct gk_request *request, struct gk_err *err)
{
    const char *modelled = NULL;
    for (uint32_t i = 0; i < request->device_count; i++) {
        const char *device = request->devices[i];
        bool is = strncmp(device, "emu", 3) == 0 || strncmp(device, "mock", 4) == 0;
        modelled = is ? device : modelled;
    }
    if (modelled && strcmp(request->policy, gk_policy_name(GK_POLICY_COLD_GRAPH)) != 0) {
        return gk_fail(err, GK_USAGE,
                       "--policy %s: times of device %s are modelled, and the model knows "
                       "cold-graph alone",
                       request->policy, modelled);
    }
    return GK_OK;
}

enum gk_status gk_request_init(struct gk_request *request, struct gk_cli *cli, bool is_run,
                               struct gk_err *err)
{
    *request = (struct gk_request){.what = cli->options.operands[0]};
    request->fresh = gk_options_has(&cli->options, "fresh");
    request->wait = is_run || gk_options_has(&cli->options, "wait");
    const char *from = gk_options_get(&cli->options, "from");
    enum gk_status status = read_night(request, cli, err);
    if (status == GK_OK) {
        status = read_numbers(request, cli, err);
    }
    if (status == GK_OK) {
        status = read_strategy(request, cli, err);
    }
    if (status == GK_OK) {
        status = gk_policy_option(cli, &request->policy, err);
    }
    if (status == GK_OK) {
        status = is_run ? read_devices(request, cli, err) : read_archs(request, cli, err);
    }
    if (status == GK_OK) {
        status = check_policy(request, err);
    }
    if (status == GK_OK) {
        status = read_shapes(request, cli, err);
    }
    if (status == GK_OK && from) {
        status = gk_incumbents_load(from, &request->incumbents, err);
    }
    if (status == GK_OK) {
        status = gk_catalog_bundle(request->catalog, &request->bundle, err);
    }
    if (status != GK_OK) {
        gk_request_fini(request);
    }
    return status;
}

void gk_request_fini(struct gk_request *request)
{
    gk_json_free(request->archs);
    gk_json_free(request->incumbents);
    gk_bundle_fini(&request->bundle);
    gk_shapes_fini(&request->shapes);
    gk_catalog_destroy(request->catalog);
    *request = (struct gk_request){0};
}

void gk_request_budget_text(const struct gk_request *request, struct gk_buf *out)
{
    size_t places = request->device_count ? request->kind_count : gk_json_count(request->archs);
    const char *place = request->device_count ? "device" : "arch";
    gk_buf_printf(out, "%" PRIu32 " problem%s", request->shapes.count,
                  request->shapes.count == 1 ? "" : "s");
    if (request->device_count > places && places > 0) { /* devices of one kind share the work */
        gk_buf_printf(out, " on %" PRIu32 " devices x %zu kind%s", request->device_count, places,
                      places == 1 ? "" : "s");
    } else if (places > 0) {
        gk_buf_printf(out, " x %zu %s%s", places, place, places == 1 ? "" : "s");
    } else {
        gk_buf_puts(out, " x every arch seen");
        places = 1;
    }
    int64_t tasks = (int64_t)request->shapes.count * (int64_t)places;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    if (request->budget.trials > 0) {
        /* About a second of one core to compile a config, half of one to verify it where a problem
         * is small. */
        int64_t trials = tasks * request->budget.trials;
        int64_t seconds = trials * 3 / 2 / (cores > 0 ? cores : 1);
        gk_buf_printf(out,
                      " x %" PRId64 " trials = at most %" PRId64 " trials, very roughly %" PRId64
                      " min on %ld cores",
                      request->budget.trials, trials, seconds / 60 + 1, cores);
    } else {
        gk_buf_printf(out, " x %" PRId64 " s = at most %" PRId64 " min of compile and device time",
                      request->budget.seconds, tasks * request->budget.seconds / 60 + 1);
    }
}

/* ------------------------------------------------------------------ submitting */

static struct gk_json *op_names(const struct gk_request *request)
{
    struct gk_json *names = gk_json_new_array();
    for (uint32_t i = 0; i < request->shapes.count; i++) {
        const char *op = request->shapes.problems[i].op->op;
        bool known = false;
        for (size_t j = 0; j < gk_json_count(names) && !known; j++) {
            known = strcmp(gk_json_string(gk_json_at(names, j), ""), op) == 0;
        }
        if (!known) {
            (void)gk_json_push(names, gk_json_new_string(op));
        }
    }
    return names;
}

struct gk_json *gk_request_body(const struct gk_request *request)
{
    struct gk_json *body = gk_json_new_object(), *problems = gk_json_new_array(),
                   *budget = gk_json_new_object(), *devices = gk_json_new_array();
    unsigned char random[16];
    char id[2 * sizeof random + 1];
    gk_random_bytes(random, sizeof random);
    for (size_t i = 0; i < sizeof random; i++) {
        (void)snprintf(id + 2 * i, 3, "%02x", random[i]);
    }
    for (uint32_t i = 0; i < request->shapes.count; i++) {
        (void)gk_json_push(problems, gk_json_new_string(request->shapes.problems[i].canonical));
    }
    for (uint32_t i = 0; i < request->device_count; i++) {
        (void)gk_json_push(devices, gk_json_new_string(request->devices[i]));
    }
    (void)(request->budget.trials ? gk_json_set_int(budget, "trials", request->budget.trials)
                                  : gk_json_set_int(budget, "seconds", request->budget.seconds));
    (void)gk_json_set_string(body, "submit_id", id);
    (void)gk_json_set_string(body, "what", request->what);
    (void)gk_json_set(body, "op_names", op_names(request));
    (void)gk_json_set(body, "problems", problems);
    (void)gk_json_set(body, "bundle", gk_bundle_to_json(&request->bundle));
    (void)gk_json_set(body, "budget", budget);
    (void)gk_json_set_string(body, "strategy", request->strategy);
    (void)gk_json_set_int(body, "seed", request->seed);
    (void)gk_json_set_int(body, "priority", request->priority);
    (void)gk_json_set_string(body, "policy", request->policy);
    (void)gk_json_set_bool(body, "fresh", request->fresh);
    (void)gk_json_set_bool(body, "private_ok", request->wait);
    if (request->spread) {
        (void)gk_json_set_bool(body, "spread", true);
    }
    if (request->until_ms > 0) {
        (void)gk_json_set_int(body, "until_ms", (int64_t)request->until_ms);
    }
    if (request->if_changed) {
        (void)gk_json_set_bool(body, "if_changed", true);
    }
    if (request->max_age_days >= 0) {
        (void)gk_json_set_int(body, "max_age_days", request->max_age_days);
    }
    if (request->archs) {
        (void)gk_json_set(body, "archs", gk_json_copy(request->archs));
    }
    if (request->incumbents) {
        (void)gk_json_set(body, "incumbents", gk_json_copy(request->incumbents));
    }
    if (request->device_count) {
        (void)gk_json_set(body, "devices", devices);
    } else {
        gk_json_free(devices);
    }
    return body;
}

enum gk_status gk_request_submit(const struct gk_request *request, struct gk_client *client,
                                 int64_t *job_out, int64_t *unchanged_out, struct gk_err *err)
{
    struct gk_json *reply = NULL;
    enum gk_status status = gk_client_put_bundle(client, request->catalog, &request->bundle, err);
    if (status == GK_OK) {
        status = gk_client_request(client, "submit", gk_request_body(request), 0, &reply, err);
    }
    if (status != GK_OK) {
        return status;
    }
    int64_t job = gk_json_get_int(reply, "job", 0),
            unchanged = gk_json_get_int(reply, "unchanged", 0);
    const struct gk_json *warnings = gk_json_get(reply, "warnings");
    /* A run starts its own workers in a moment: that none is there yet is no news. */
    for (size_t i = 0; !request->device_count && i < gk_json_count(warnings); i++) {
        (void)fprintf(stderr, "%s\n", gk_json_string(gk_json_at(warnings, i), ""));
    }
    gk_json_free(reply);
    if (unchanged_out) {
        *unchanged_out = unchanged;
    }
    if (job <= 0 && unchanged == 0) {
        return gk_fail(err, GK_PROTOCOL, "the daemon's reply to submit names no job");
    }
    *job_out = job;
    return GK_OK;
}
