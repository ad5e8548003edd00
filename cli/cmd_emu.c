/*
 * gktune emu: what one config of a template does on the emulated device, line by line. The worker
 * compiles, runs and verifies (gktune-worker --emu-report); this asks, and shows the answer.
 */
#include "cli/command.h"
#include "cli/config_option.h"
#include "cli/emu_args.h"
#include "cli/emu_render.h"
#include "cli/programs.h"
#include "cli/shape_option.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define REPORT_BYTES_MAX (64u << 20)
#define TOP_DEFAULT      20
#define STOP_MS          2000

/* What is asked, while it is put together. */
struct question {
    struct gk_catalog *catalog;
    const struct gk_op *op;
    struct gk_problem problem;
    struct gk_device_props dev;
    struct gk_space_def def;
    char *config;
    struct gk_buf note;
};

static void question_fini(struct question *q)
{
    gk_buf_fini(&q->note);
    free(q->config);
    gk_space_def_fini(&q->def);
    gk_problem_fini(&q->problem);
    gk_catalog_destroy(q->catalog);
}

/* ------------------------------------------------------------------ asking */

/* Without --arch: the least target that a template is written for. */
static enum gk_status choose_arch(struct question *q, const char *arch, struct gk_err *err)
{
    static const char *const targets[] = {"sm_80", "sm_90a"};
    char device[64];
    const char *chosen = arch;
    for (size_t i = 0; i < GK_ARRAY_COUNT(targets) && !chosen; i++) {
        for (uint32_t t = 0; t < q->op->template_count && !chosen; t++) {
            chosen = gk_template_runs_on(&q->op->templates[t], targets[i]) ? targets[i] : NULL;
        }
    }
    gk_emu_device_name(chosen ? chosen : targets[0], device);
    if (strncmp(device, "emu", 3) != 0) {
        return gk_fail(err, GK_USAGE, "--arch %s: an emulated target is needed, as sm_80 or sm_90a",
                       arch);
    }
    return gk_device_props_builtin(device, &q->dev, err);
}

static enum gk_status read_shape(struct question *q, const struct gk_cli *cli, struct gk_err *err)
{
    const char *shape = gk_options_get(&cli->options, "shape");
    struct gk_json *fields = NULL;
    struct gk_diag diag;
    if (!shape) {
        return gk_fail(err, GK_USAGE,
                       "--shape FIELD=VALUE,.. is missing, as in --shape M=64,N=64,K=64");
    }
    enum gk_status status = gk_shape_parse(shape, "--shape", &fields, err);
    if (status != GK_OK) {
        return status;
    }
    gk_diag_init(&diag);
    status = gk_problem_from_json(&q->op->fields, fields, "--shape", &q->problem, &diag);
    if (status != GK_OK) {
        (void)gk_diag_status(&diag, err);
    }
    gk_diag_fini(&diag);
    gk_json_free(fields);
    return status;
}

static enum gk_status question_init(struct question *q, struct gk_cli *cli, struct gk_err *err)
{
    const char *what = cli->options.operands[0];
    enum gk_status status = gk_load_catalog(cli, what, &q->catalog, err);
    status = status == GK_OK ? gk_choose_op(q->catalog, what, &q->op, err) : status;
    if (status == GK_OK) {
        status = choose_arch(q, gk_options_get(&cli->options, "arch"), err);
    }
    status = status == GK_OK ? read_shape(q, cli, err) : status;
    if (status == GK_OK) {
        status = gk_catalog_space(q->op, &q->problem, &q->dev, &q->def, err);
    }
    if (status == GK_OK) {
        status =
            gk_config_choose(q->op, &q->problem, &q->def, gk_options_get(&cli->options, "config"),
                             &q->config, &q->note, err);
    }
    return status;
}

/* The schedules of --schedule. `early` is last: its counts are shown, since nobody waits there who
 * would not have to. */
static struct gk_json *schedules_of(const char *word, struct gk_err *err)
{
    static const char *const names[] = {"late", "random", "early"};
    struct gk_json *list = gk_json_new_array();
    for (size_t i = 0; i < GK_ARRAY_COUNT(names); i++) {
        if (!word || strcmp(word, "all") == 0 || strcmp(word, names[i]) == 0) {
            (void)gk_json_push(list, gk_json_new_string(names[i]));
        }
    }
    if (gk_json_count(list) == 0) {
        (void)gk_fail(err, GK_USAGE, "--schedule %s: late, early, random and all are allowed",
                      word);
        gk_json_free(list);
        return NULL;
    }
    return list;
}

/* Everything that does not depend on what is run. */
static enum gk_status request_init(const struct gk_cli *cli, struct gk_json **request_out,
                                   struct gk_err *err)
{
    int64_t seed = 1, inputs = 0;
    enum gk_status status = gk_options_int(&cli->options, "seed", 0, INT64_MAX, &seed, err);
    if (status == GK_OK) {
        status = gk_options_int(&cli->options, "inputs", 0, 3, &inputs, err);
    }
    struct gk_json *schedules =
        status == GK_OK ? schedules_of(gk_options_get(&cli->options, "schedule"), err) : NULL;
    if (!schedules) {
        return status == GK_OK ? GK_USAGE : status;
    }
    struct gk_json *json = gk_json_new_object();
    bool good = gk_json_set(json, "schedules", schedules);
    good = good && gk_json_set_string(json, "kernels", cli->kernels_dir ? cli->kernels_dir : "") &&
           gk_json_set_string(json, "what", cli->options.operands[0]) &&
           gk_json_set_int(json, "seed", seed) && gk_json_set_int(json, "input_set", inputs) &&
           gk_json_set_bool(json, "innermost", gk_options_has(&cli->options, "innermost")) &&
           gk_json_set_bool(json, "sources", gk_options_has(&cli->options, "source"));
    if (!good) {
        gk_json_free(json);
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    *request_out = json;
    return GK_OK;
}

static enum gk_status template_request(struct gk_cli *cli, struct gk_json *request,
                                       struct gk_err *err)
{
    struct question q = {0};
    enum gk_status status = question_init(&q, cli, err);
    if (status == GK_OK && q.note.size > 0) {
        (void)fprintf(stderr, "gktune: %s\n", gk_buf_text(&q.note));
    }
    if (status == GK_OK && !(gk_json_set_string(request, "problem", q.problem.canonical) &&
                             gk_json_set_string(request, "config", q.config) &&
                             gk_json_set_string(request, "device", q.dev.device))) {
        status = gk_fail(err, GK_NOMEM, "out of memory");
    }
    question_fini(&q);
    return status;
}

static bool is_plain(const struct gk_cli *cli)
{
    const char *what = cli->options.operands[0];
    size_t size = strlen(what);
    return size > 3 && strcmp(what + size - 3, ".cu") == 0;
}

/* Options of the other kind of run would be ignored in silence. */
static enum gk_status refuse_others(const struct gk_cli *cli, struct gk_err *err)
{
    static const char *const of_template[] = {"shape", "config", "inputs"};
    static const char *const of_plain[] = {"entry", "grid", "block", "cluster",
                                           "smem",  "arg",  "option"};
    bool plain = is_plain(cli);
    const char *const *names = plain ? of_template : of_plain;
    size_t count = plain ? GK_ARRAY_COUNT(of_template) : GK_ARRAY_COUNT(of_plain);
    for (size_t i = 0; i < count; i++) {
        if (gk_options_has(&cli->options, names[i])) {
            return gk_fail(err, GK_USAGE, "--%s is for %s", names[i],
                           plain ? "templates, and this is a plain .cu file" : "plain .cu files");
        }
    }
    return GK_OK;
}

static enum gk_status plain_request(const struct gk_cli *cli, struct gk_json *request,
                                    struct gk_err *err)
{
    const char *arch = gk_options_get(&cli->options, "arch");
    struct gk_device_props props;
    char device[64];
    gk_emu_device_name(arch ? arch : "sm_80", device);
    enum gk_status status = gk_device_props_builtin(device, &props, err);
    if (status == GK_OK && !gk_json_set_string(request, "device", device)) {
        status = gk_fail(err, GK_NOMEM, "out of memory");
    }
    return status == GK_OK ? gk_emu_plain_request(&cli->options, request, err) : status;
}

/* ------------------------------------------------------------------ the worker */

static enum gk_status run_worker(const struct gk_cli *cli, const struct gk_json *request,
                                 struct gk_json **report_out, struct gk_err *err)
{
    char *text = gk_json_text(request);
    const char *argv[] = {"gktune-worker", "--private", "--emu-report", text, NULL};
    struct gk_child child = {.in_fd = -1, .out_fd = -1};
    struct gk_buf answer = {0};
    char ending[64];
    if (!text) {
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    const char *log = access("/dev/stderr", W_OK) == 0 ? "/dev/stderr" : "/dev/null";
    enum gk_status status = gk_child_start(cli->exe_dir, argv, log, true, &child, err);
    if (status != GK_OK) {
        free(text);
        return status;
    }
    status = gk_child_output(&child, REPORT_BYTES_MAX, &answer, err);
    if (status == GK_OK && !gk_child_ended(&child, STOP_MS)) {
        status = gk_fail(err, GK_INTERNAL, "gktune-worker --emu-report does not end");
    }
    if (status == GK_OK && answer.size == 0) {
        gk_child_ending(&child, ending);
        status = gk_fail(err, GK_INTERNAL, "gktune-worker --emu-report said nothing: %s", ending);
    }
    if (status == GK_OK) {
        status = gk_json_parse(gk_buf_text(&answer), answer.size, "the worker's report", report_out,
                               err);
    }
    gk_child_stop(&child, STOP_MS);
    gk_buf_fini(&answer);
    free(text);
    return status;
}

/* An error that the worker told: its words, and the exit status of its kind. */
static enum gk_status told_error(const struct gk_json *report, struct gk_err *err)
{
    const char *text = gk_json_get_string(report, "error", NULL);
    enum gk_status status = (enum gk_status)gk_json_get_int(report, "status", GK_INTERNAL);
    return text ? gk_fail(err, status == GK_OK ? GK_INTERNAL : status, "%s", text) : GK_OK;
}

static enum gk_status show(const struct gk_cli *cli, const struct gk_json *report,
                           struct gk_err *err)
{
    int64_t top = TOP_DEFAULT;
    struct gk_buf out = {0};
    if (cli->json) {
        return gk_print_json(cli, report, err);
    }
    enum gk_status status = gk_options_int(&cli->options, "top", 0, UINT32_MAX, &top, err);
    struct gk_emu_look look = {.top = (uint32_t)top,
                               .source = gk_options_has(&cli->options, "source"),
                               .color = cli->color && isatty(STDOUT_FILENO)};
    if (status == GK_OK) {
        gk_emu_render(report, &look, &out);
        status = gk_buf_status(&out, err);
    }
    if (status == GK_OK) {
        (void)fputs(gk_buf_text(&out), stdout);
    }
    gk_buf_fini(&out);
    return status;
}

enum gk_status gk_cmd_emu(struct gk_cli *cli, struct gk_err *err)
{
    struct gk_json *request = NULL, *report = NULL;
    int64_t top = 0;
    enum gk_status status = gk_options_int(&cli->options, "top", 0, UINT32_MAX, &top, err);
    status = status == GK_OK ? request_init(cli, &request, err) : status;
    status = status == GK_OK ? refuse_others(cli, err) : status;
    if (status == GK_OK) {
        status =
            is_plain(cli) ? plain_request(cli, request, err) : template_request(cli, request, err);
    }
    status = status == GK_OK ? run_worker(cli, request, &report, err) : status;
    status = status == GK_OK ? told_error(report, err) : status;
    status = status == GK_OK ? show(cli, report, err) : status;
    if (status == GK_OK && !gk_json_get_bool(report, is_plain(cli) ? "ran" : "verified", false)) {
        status = gk_fail(err, GK_NO_PICK, "%s: %s", is_plain(cli) ? "it failed" : "not verified",
                         gk_json_get_string(gk_json_get(report, "failure"), "kind", "?"));
    }
    gk_json_free(request);
    gk_json_free(report);
    return status;
}
