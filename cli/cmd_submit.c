/* gktune submit: stores a job, or those of a suite; with --wait stays until they end. */
#include "cli/ending.h"
#include "cli/follow.h"
#include "cli/suite.h"
#include "cli/table.h"
#include "cli/winners.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void warn_private(const struct gk_client *client)
{
    if (gk_client_is_private(client)) {
        (void)fprintf(stderr,
                      "no gktuned is running: nothing is worked on until one starts on this "
                      "state folder\n");
    }
}

static enum gk_status print_stored(struct gk_cli *cli, const struct gk_client *client, int64_t job,
                                   int64_t unchanged, bool if_changed, struct gk_err *err)
{
    if (job > 0) {
        warn_private(client);
    }
    if (!cli->json) {
        if (if_changed) {
            (void)printf("%" PRId64 " problems have not changed since their picks\n", unchanged);
        }
        if (job > 0) {
            (void)printf("job %" PRId64 " stored\n", job);
        }
        return GK_OK;
    }
    struct gk_json *json = gk_json_new_object();
    (void)gk_json_set_int(json, "job", job);
    (void)gk_json_set_bool(json, "daemon", !gk_client_is_private(client));
    if (if_changed) {
        (void)gk_json_set_int(json, "unchanged", unchanged);
    }
    enum gk_status status = gk_print_json(cli, json, err);
    gk_json_free(json);
    return status;
}

/* To the job's end. */
static enum gk_status wait_for(struct gk_cli *cli, struct gk_client *client, int64_t job,
                               int64_t budget_trials, struct gk_err *err)
{
    struct gk_progress progress;
    gk_progress_init(&progress, cli);
    gk_progress_note(&progress, "job %" PRId64 " stored; waiting for its end", job);
    struct gk_follow follow = {
        .client = client, .job = job, .progress = &progress, .budget_trials = budget_trials};
    enum gk_status status = gk_follow(&follow, err);
    gk_progress_end(&progress);
    return status;
}

static enum gk_status submit_one(struct gk_cli *cli, struct gk_err *err)
{
    struct gk_request request;
    struct gk_client *client = NULL;
    int64_t job = 0, unchanged = 0;
    enum gk_status status = gk_request_init(&request, cli, false, err);
    if (status != GK_OK) {
        return status;
    }
    struct gk_buf text = {0};
    gk_request_budget_text(&request, &text);
    (void)fprintf(stderr, "%s\n", gk_buf_text(&text));
    gk_buf_fini(&text);
    status = gk_client_open(cli, &client, err);
    if (status == GK_OK) {
        status = gk_request_submit(&request, client, &job, &unchanged, err);
    }
    if (status == GK_OK && (!request.wait || job == 0)) {
        status = print_stored(cli, client, job, unchanged, request.if_changed, err);
    } else if (status == GK_OK) {
        status = wait_for(cli, client, job, request.budget.trials, err);
        if (status == GK_OK) {
            cli->catalog = request.catalog;
            status = gk_ending(cli, client, job, NULL, NULL, err);
            cli->catalog = NULL;
        }
    }
    gk_client_close(client);
    gk_request_fini(&request);
    return status;
}

/* ------------------------------------------------------------------ suites */

static enum gk_status print_suite(struct gk_cli *cli, const struct gk_client *client,
                                  struct gk_json *reply, struct gk_err *err)
{
    const struct gk_json *jobs = gk_json_get(reply, "jobs");
    warn_private(client);
    for (size_t i = 0; i < gk_json_count(jobs); i++) {
        const struct gk_json *warnings = gk_json_get(gk_json_at(jobs, i), "warnings");
        for (size_t w = 0; w < gk_json_count(warnings); w++) {
            (void)fprintf(stderr, "set '%s': %s\n",
                          gk_json_get_string(gk_json_at(jobs, i), "set", ""),
                          gk_json_string(gk_json_at(warnings, w), ""));
        }
    }
    if (cli->json) {
        return gk_json_set_bool(reply, "daemon", !gk_client_is_private(client))
                   ? gk_print_json(cli, reply, err)
                   : gk_fail(err, GK_NOMEM, "out of memory");
    }
    struct gk_table table;
    struct gk_buf out = {0};
    gk_buf_printf(&out, "suite %s, slot %s, night %s\n", gk_json_get_string(reply, "suite", ""),
                  gk_json_get_string(reply, "slot", ""), gk_json_get_string(reply, "night", ""));
    gk_table_init(&table, "set|>job|>problems x archs|>unchanged");
    for (size_t i = 0; i < gk_json_count(jobs); i++) {
        const struct gk_json *job = gk_json_at(jobs, i);
        int64_t number = gk_json_get_int(job, "job", 0);
        gk_table_cell(&table, "%s", gk_json_get_string(job, "set", ""));
        if (number > 0) {
            gk_table_cell(&table, "%" PRId64, number);
        } else {
            gk_table_cell(&table, "-");
        }
        gk_table_cell(&table, "%" PRId64, gk_json_get_int(job, "tasks", 0));
        gk_table_cell(&table, "%" PRId64, gk_json_get_int(job, "unchanged", 0));
    }
    gk_table_render(&table, &out);
    gk_table_fini(&table);
    (void)fputs(gk_buf_text(&out), stdout);
    gk_buf_fini(&out);
    return GK_OK;
}

/* One job after the other; each line says how it ended. */
static enum gk_status wait_suite(struct gk_cli *cli, struct gk_client *client,
                                 const struct gk_json *reply, struct gk_err *err)
{
    const struct gk_json *jobs = gk_json_get(reply, "jobs");
    enum gk_status status = GK_OK;
    uint32_t without = 0;
    for (size_t i = 0; status == GK_OK && i < gk_json_count(jobs); i++) {
        int64_t job = gk_json_get_int(gk_json_at(jobs, i), "job", 0);
        struct gk_winners winners = {0};
        struct gk_buf line = {0};
        if (job == 0) {
            continue;
        }
        status = wait_for(cli, client, job, 0, err);
        if (status == GK_OK) {
            status = gk_winners_load(client, job, &winners, err);
        }
        if (status == GK_OK) {
            gk_winners_summary(&winners, &line);
            (void)fputs(gk_buf_text(&line), cli->json ? stderr : stdout);
            without += gk_winners_without(&winners);
        }
        gk_buf_fini(&line);
        gk_winners_fini(&winners);
    }
    return status == GK_OK && without > 0
               ? gk_fail(err, GK_NO_PICK, "%" PRIu32 " problems have no verified pick", without)
               : status;
}

static enum gk_status check_line(const struct gk_cli *cli, struct gk_err *err)
{
    static const char *const of_sets[] = {"shapes", "arch", "budget",  "strategy",
                                          "policy", "seed", "priority"};
    for (size_t i = 0; i < GK_ARRAY_COUNT(of_sets); i++) {
        if (gk_options_has(&cli->options, of_sets[i])) {
            return gk_fail(err, GK_USAGE, "--%s stands in the sets of a suite, not beside --suite",
                           of_sets[i]);
        }
    }
    const char *until = gk_options_get(&cli->options, "until");
    uint64_t until_ms = 0;
    enum gk_status status =
        until ? gk_parse_until(until, cli->clock.wall_ms(cli->clock.context), &until_ms, err)
              : GK_OK; /* once, not in every set */
    if (status != GK_OK) {
        return status;
    }
    return cli->options.operand_count == 0
               ? GK_OK
               : gk_fail(err, GK_USAGE, "'%s' beside --suite: its sets say what is tuned",
                         cli->options.operands[0]);
}

static enum gk_status submit_suite(struct gk_cli *cli, const char *path, struct gk_err *err)
{
    struct gk_suite suite;
    struct gk_client *client = NULL;
    struct gk_json *reply = NULL;
    struct gk_diag diag;
    enum gk_status status = check_line(cli, err);
    if (status != GK_OK) {
        return status;
    }
    gk_diag_init(&diag);
    status = gk_suite_init(&suite, cli, path, &diag);
    if (status != GK_OK) {
        for (uint32_t i = 0; i < diag.kept; i++) {
            struct gk_buf plain = {0};
            gk_put_plain(diag.texts[i], true, &plain);
            (void)fprintf(stderr, "%s\n", gk_buf_text(&plain));
            gk_buf_fini(&plain);
        }
        status = gk_fail(err, status == GK_USAGE ? GK_INPUT : status,
                         "suite '%s': %" PRIu32 " mistake%s, nothing was stored", path, diag.count,
                         diag.count == 1 ? "" : "s");
        gk_diag_fini(&diag);
        return status;
    }
    gk_diag_fini(&diag);
    status = gk_client_open(cli, &client, err);
    if (status == GK_OK) {
        status =
            gk_suite_submit(&suite, client, cli->clock.wall_ms(cli->clock.context), &reply, err);
    }
    if (status == GK_OK) {
        status = print_suite(cli, client, reply, err);
    }
    if (status == GK_OK && gk_options_has(&cli->options, "wait")) {
        status = wait_suite(cli, client, reply, err);
    }
    gk_json_free(reply);
    gk_client_close(client);
    gk_suite_fini(&suite);
    return status;
}

enum gk_status gk_cmd_submit(struct gk_cli *cli, struct gk_err *err)
{
    const char *suite = gk_options_get(&cli->options, "suite");
    if (suite) {
        return submit_suite(cli, suite, err);
    }
    if (gk_options_has(&cli->options, "slot")) {
        return gk_fail(err, GK_USAGE, "--slot belongs to --suite");
    }
    if (cli->options.operand_count == 0) {
        return gk_fail(err, GK_USAGE, "an op, a family, a kernel.json or --suite FILE is needed");
    }
    return submit_one(cli, err);
}
