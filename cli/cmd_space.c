/*
 * gktune space: how many configs a problem has, which, and why a config is not among them. No
 * daemon, no device: the built-in description of the emulated device answers, or that of --arch.
 */
#include "cli/command.h"
#include "cli/shape_option.h"
#include "cli/table.h"
#include "search/space.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What --shape, --arch and the operand describe, ready to be asked. */
struct question {
    struct gk_catalog *catalog;
    const struct gk_op *op;
    struct gk_problem problem;
    struct gk_device_props dev;
    struct gk_space_def def;
    struct gk_passed_over passed[GK_TREES_MAX]; /* not in def: nobody searches them here */
    uint32_t passed_count;
};

static void question_fini(struct question *q)
{
    gk_space_def_fini(&q->def);
    gk_problem_fini(&q->problem);
    gk_catalog_destroy(q->catalog);
}

static enum gk_status question_init(struct question *q, struct gk_cli *cli, struct gk_err *err)
{
    const char *what = cli->options.operands[0], *arch = gk_options_get(&cli->options, "arch"),
               *shape = gk_options_get(&cli->options, "shape");
    struct gk_json *fields = NULL;
    struct gk_diag diag;
    gk_diag_init(&diag);
    enum gk_status status = gk_arch_limits(arch ? arch : "emu-sm_80", &q->dev, err);
    if (status != GK_OK) {
        goto out;
    }
    if (!shape) {
        status = gk_fail(err, GK_USAGE,
                         "--shape FIELD=VALUE,.. is missing, as in --shape "
                         "M=16,N=4096,K=4096");
        goto out;
    }
    status = gk_load_catalog(cli, what, &q->catalog, err);
    if (status == GK_OK) {
        status = gk_choose_op(q->catalog, what, &q->op, err);
    }
    if (status == GK_OK) {
        status = gk_shape_parse(shape, "--shape", &fields, err);
    }
    if (status != GK_OK) {
        goto out;
    }
    status = gk_problem_from_json(&q->op->fields, fields, "--shape", &q->problem, &diag);
    if (status != GK_OK) {
        (void)gk_diag_status(&diag, err);
        goto out;
    }
    status = gk_catalog_space(q->op, &q->problem, &q->dev, &q->def, err);
    if (status == GK_OK && !gk_options_get(&cli->options, "why")) {
        /* --why answers for any template: a config that is passed over is legal all the same */
        status = gk_catalog_prefer(q->op, &q->problem, &q->def, q->passed, &q->passed_count, err);
    }
out:
    gk_json_free(fields);
    gk_diag_fini(&diag);
    return status;
}

static struct gk_json *head_json(const struct question *q)
{
    struct gk_json *json = gk_json_new_object();
    (void)gk_json_set_string(json, "op", q->op->fields.op);
    (void)gk_json_set_string(json, "problem", q->problem.canonical);
    (void)gk_json_set_string(json, "arch", q->dev.arch);
    return json;
}

static struct gk_json *passed_json(const struct question *q)
{
    struct gk_json *list = gk_json_new_array();
    for (uint32_t i = 0; i < q->passed_count; i++) {
        struct gk_json *one = gk_json_new_object();
        (void)gk_json_set_string(one, "template", q->passed[i].name);
        (void)gk_json_set_string(one, "winner", q->passed[i].winner);
        if (q->passed[i].why) {
            (void)gk_json_set_string(one, "why", q->passed[i].why);
        }
        (void)gk_json_push(list, one);
    }
    return list;
}

#define REJECTS_MAX 64

static enum gk_status print_count(struct gk_cli *cli, const struct question *q, struct gk_err *err)
{
    struct gk_space_reject rejects[REJECTS_MAX];
    uint64_t legal = 0, raw = 0;
    uint32_t count = 0;
    enum gk_status status =
        gk_space_tally(&q->def, &legal, &raw, rejects, REJECTS_MAX, &count, err);
    if (status != GK_OK) {
        return status;
    }
    if (cli->json) {
        struct gk_json *json = head_json(q), *list = gk_json_new_array();
        (void)gk_json_set_int(json, "legal", (int64_t)legal);
        (void)gk_json_set_int(json, "raw", (int64_t)raw);
        for (uint32_t i = 0; i < count; i++) {
            struct gk_json *one = gk_json_new_object();
            (void)gk_json_set_string(one, "template", rejects[i].template_name);
            (void)gk_json_set_string(one, "constraint", rejects[i].constraint);
            (void)gk_json_set_int(one, "cut", (int64_t)rejects[i].cut);
            (void)gk_json_push(list, one);
        }
        (void)gk_json_set(json, "rejects", list);
        (void)gk_json_set(json, "passed_over", passed_json(q));
        status = gk_print_json(cli, json, err);
        gk_json_free(json);
        return status;
    }
    struct gk_table table;
    struct gk_buf out = {0};
    gk_buf_printf(&out, "%" PRIu64 " legal configs of %" PRIu64 " points: %s on %s\n", legal, raw,
                  q->problem.canonical, q->dev.arch);
    if (count > 0) {
        gk_table_init(&table, "cut by|>points|template");
        for (uint32_t i = 0; i < count; i++) {
            gk_table_cell(&table, "  %s", rejects[i].constraint);
            gk_table_cell(&table, "%" PRIu64, rejects[i].cut);
            gk_table_cell(&table, "%s", rejects[i].template_name);
        }
        gk_table_render(&table, &out);
        gk_table_fini(&table);
    }
    for (uint32_t i = 0; i < q->passed_count; i++) {
        const struct gk_passed_over *passed = &q->passed[i];
        gk_buf_printf(&out, "not searched: %s, since %s serves%s%s\n", passed->name, passed->winner,
                      passed->why ? ": " : "", passed->why ? passed->why : "");
    }
    (void)fputs(gk_buf_text(&out), stdout);
    gk_buf_fini(&out);
    return GK_OK;
}

static enum gk_status print_list(struct gk_cli *cli, const struct question *q, struct gk_err *err)
{
    struct gk_space *space = NULL;
    enum gk_status status = gk_space_create(&q->def, &space, err);
    if (status != GK_OK) {
        return status;
    }
    struct gk_json *json = cli->json ? head_json(q) : NULL;
    struct gk_json *list = cli->json ? gk_json_new_array() : NULL;
    for (uint32_t i = 0; i < gk_space_count(space); i++) {
        struct gk_config config;
        gk_space_config(space, i, &config);
        char *text = gk_config_text(&q->def.trees[gk_space_tree_of(space, i)], &config);
        if (!text) {
            status = gk_fail(err, GK_NOMEM, "out of memory");
            break;
        }
        if (cli->json) {
            (void)gk_json_push(list, gk_json_new_string(text));
        } else {
            (void)puts(text);
        }
        free(text);
    }
    if (cli->json) {
        (void)gk_json_set(json, "configs", list);
        if (status == GK_OK) {
            status = gk_print_json(cli, json, err);
        }
    }
    gk_json_free(json);
    gk_space_destroy(space);
    return status;
}

/* Parameters without a template: what does not even parse is told as that. */
static enum gk_status fail_bare(const struct question *q, const char *text, struct gk_err *err)
{
    struct gk_json *json = NULL;
    enum gk_status status = gk_json_parse(text, strlen(text), "--why", &json, err);
    gk_json_free(json);
    if (status != GK_OK) {
        return status;
    }
    struct gk_buf names = {0};
    for (uint32_t i = 0; i < q->def.tree_count; i++) {
        gk_buf_printf(&names, "%s%s", i ? ", " : "", q->def.trees[i].template_name);
    }
    status =
        gk_fail(err, GK_PARSE, "--why '%.120s': a template's name stands before '{'; there are %s",
                text, gk_buf_text(&names));
    gk_buf_fini(&names);
    return status;
}

/* What the template's prior expects of it, or why it says nothing; *ns_out 0: nothing. */
static void put_prior(const struct question *q, const struct gk_config *config, uint32_t tree,
                      double *ns_out, struct gk_buf *buf)
{
    struct gk_err why = {0};
    double seconds = 0;
    enum gk_status status = gk_catalog_prior(q->op, &q->def.trees[tree], config, &seconds, &why);
    *ns_out = status == GK_OK ? seconds * 1e9 : 0;
    if (status == GK_OK) {
        gk_buf_printf(buf, "prior: %.4g us, to order a search by\n", seconds * 1e6);
    } else if (status != GK_NOT_FOUND) {
        gk_buf_printf(buf, "prior: none: %s\n", why.text);
    }
}

/* 1.05 GB, 2.1 MB, 640 B. */
static void put_bytes(struct gk_buf *buf, double bytes)
{
    static const char *const UNITS[] = {"B", "KB", "MB", "GB", "TB"};
    uint32_t unit = 0;
    while (bytes >= 1000 && unit + 1 < GK_ARRAY_COUNT(UNITS)) {
        bytes /= 1000;
        unit++;
    }
    gk_buf_printf(buf, unit ? "%.3g %s" : "%.0f %s", bytes, UNITS[unit]);
}

/* What the config keeps in device memory, beside what a composition of plain ops would keep. */
static struct gk_json *put_memory(const struct question *q, const struct gk_memory_need *need,
                                  struct gk_buf *buf)
{
    struct gk_json *json = gk_json_new_object(), *list = gk_json_new_array();
    double all = need->tensor_bytes + need->workspace_bytes, plain = need->tensor_bytes;
    gk_buf_printf(buf, "memory: ");
    put_bytes(buf, need->tensor_bytes);
    gk_buf_printf(buf, " of tensors and ");
    put_bytes(buf, need->workspace_bytes);
    gk_buf_printf(buf, " of workspaces");
    for (uint32_t i = 0; i < q->op->avoided_count; i++) {
        struct gk_json *one = gk_json_new_object();
        gk_buf_printf(buf, "; no %s, ", q->op->avoided[i].name);
        put_bytes(buf, need->avoided_bytes[i]);
        plain += need->avoided_bytes[i];
        (void)gk_json_set_string(one, "name", q->op->avoided[i].name);
        (void)gk_json_set(one, "bytes", gk_json_new_real(need->avoided_bytes[i]));
        (void)gk_json_push(list, one);
    }
    if (q->op->avoided_count > 0) {
        gk_buf_printf(buf, ": at most ");
        put_bytes(buf, all);
        gk_buf_printf(buf, " at a time, where plain ops one after another keep ");
        put_bytes(buf, plain);
    }
    gk_buf_printf(buf, "\n");
    (void)gk_json_set(json, "tensor_bytes", gk_json_new_real(need->tensor_bytes));
    (void)gk_json_set(json, "workspace_bytes", gk_json_new_real(need->workspace_bytes));
    (void)gk_json_set(json, "avoids", list);
    return json;
}

/* Exit 0 for a legal config and for one that is explained to be illegal: both are answers. */
static enum gk_status print_why(struct gk_cli *cli, const struct question *q, const char *text,
                                struct gk_err *err)
{
    struct gk_config config = {0};
    uint32_t tree = 0;
    enum gk_status status = text[0] == '{' ? fail_bare(q, text, err) : GK_OK;
    if (status != GK_OK) {
        return status;
    }
    status = gk_config_from_text(&q->def, text, &config, &tree, err);
    if (status != GK_OK) {
        return gk_fail_in(err, status, "--why");
    }
    struct gk_buf derived = {0}, prior = {0};
    struct gk_err why = {0};
    double prior_ns = 0;
    struct gk_json *memory = NULL;
    struct gk_memory_need need;
    enum gk_status legal = gk_space_why(&q->def, &config, &derived, &why);
    if (legal != GK_OK && legal != GK_INPUT && legal != GK_RANGE) {
        gk_buf_fini(&derived);
        return gk_fail(err, legal, "%s", why.text);
    }
    if (legal == GK_OK) {
        put_prior(q, &config, tree, &prior_ns, &prior);
        status = gk_catalog_memory(q->op, &q->def.trees[tree], &config, &need, err);
        memory = status == GK_OK ? put_memory(q, &need, &prior) : NULL;
    }
    if (status != GK_OK) {
        goto out;
    }
    if (cli->json) {
        struct gk_json *json = head_json(q);
        (void)gk_json_set_string(json, "config", text);
        (void)gk_json_set_bool(json, "legal", legal == GK_OK);
        if (legal != GK_OK) {
            (void)gk_json_set_string(json, "why", why.text);
        }
        (void)gk_json_set_string(json, "derived", gk_buf_text(&derived));
        if (prior_ns > 0) {
            (void)gk_json_set(json, "prior_ns", gk_json_new_real(prior_ns));
        }
        if (memory) {
            (void)gk_json_set(json, "memory", memory);
            memory = NULL;
        }
        status = gk_print_json(cli, json, err);
        gk_json_free(json);
    } else {
        char *whole = gk_config_text(&q->def.trees[tree], &config);
        size_t size = whole ? strlen(whole) : 0;
        bool named = size > 0 && strncmp(why.text, whole, size) == 0; /* the reason begins so */
        (void)printf("%s%s%s\n%s%s", named ? "" : text, named ? "" : ": ",
                     legal == GK_OK ? "legal" : why.text, gk_buf_text(&derived),
                     gk_buf_text(&prior));
        free(whole);
    }
out:
    gk_json_free(memory);
    gk_buf_fini(&prior);
    gk_buf_fini(&derived);
    return status;
}

enum gk_status gk_cmd_space(struct gk_cli *cli, struct gk_err *err)
{
    const struct gk_options *options = &cli->options;
    const char *why = gk_options_get(options, "why");
    bool list = gk_options_has(options, "list"), count = gk_options_has(options, "count");
    if ((why != NULL) + list + count > 1) {
        return gk_fail(err, GK_USAGE, "--count, --list and --why: one of them at a time");
    }
    struct question q = {0};
    enum gk_status status = question_init(&q, cli, err);
    if (status == GK_OK) {
        status = why    ? print_why(cli, &q, why, err)
                 : list ? print_list(cli, &q, err)
                        : print_count(cli, &q, err);
    }
    question_fini(&q);
    return status;
}
