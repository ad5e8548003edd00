/* gktune dead: what is not tried again unless somebody says so: list, show, retry, forget. */
#include "cli/listing.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void cells(struct gk_cli *cli, struct gk_table *table, const struct gk_json *row)
{
    char age[32];
    int64_t now = (int64_t)cli->clock.wall_ms(cli->clock.context);
    gk_age_text(gk_json_get_int(row, "at_ms", 0), now, age);
    gk_cell_int(table, row, "dead");
    gk_cell_text(table, row, "kind");
    gk_cell_text(table, row, "state");
    gk_cell_int(table, row, "job");
    gk_cell_int(table, row, "trial");
    gk_cell_problem(cli, table, row);
    gk_cell_text(table, row, "arch");
    gk_cell_text(table, row, "config");
    gk_table_cell(table, "%s", age);
    gk_cell_text(table, row, "cause");
}

static enum gk_status list(struct gk_cli *cli, struct gk_client *client, struct gk_err *err)
{
    bool all = gk_options_has(&cli->options, "all");
    struct gk_json *body = gk_json_new_object();
    (void)gk_json_set_string(body, "action", "list");
    (void)gk_json_set_bool(body, "settled", all);
    return gk_listing(
        cli, client, "dead", body, "letters",
        ">letter|kind|state|>job|>trial|problem|arch|config|>age|cause", cells,
        all ? "no dead letters" : "no dead letters; settled ones: gktune dead list --all", err);
}

static void print_letter(struct gk_cli *cli, const struct gk_json *letter)
{
    static const char *const members[] = {"kind", "state",  "problem", "arch",
                                          "gpu",  "config", "cause"};
    char age[32];
    struct gk_buf text = {0};
    gk_age_text(gk_json_get_int(letter, "at_ms", 0),
                (int64_t)cli->clock.wall_ms(cli->clock.context), age);
    gk_buf_printf(&text,
                  "letter   %" PRId64 ", %s old\ntrial    %" PRId64 " of job %" PRId64
                  ", after %" PRId64 " attempts\n",
                  gk_json_get_int(letter, "dead", 0), age, gk_json_get_int(letter, "trial", 0),
                  gk_json_get_int(letter, "job", 0), gk_json_get_int(letter, "attempts", 0));
    for (size_t i = 0; i < GK_ARRAY_COUNT(members); i++) {
        gk_buf_printf(&text, "%-8s ", members[i]);
        gk_put_plain(gk_json_get_string(letter, members[i], "-"), false, &text);
        gk_buf_putc(&text, '\n');
    }
    (void)fputs(gk_buf_text(&text), stdout);
    gk_buf_fini(&text);
}

static enum gk_status show(struct gk_cli *cli, struct gk_client *client, int64_t id,
                           struct gk_err *err)
{
    struct gk_json *body = gk_json_new_object(), *reply = NULL;
    (void)gk_json_set_string(body, "action", "show");
    (void)gk_json_set_int(body, "dead", id);
    enum gk_status status = gk_client_request(client, "dead", body, 0, &reply, err);
    const struct gk_json *letter = gk_json_get(reply, "letter");
    if (status == GK_OK && cli->json) {
        status = gk_print_json(cli, letter, err);
    } else if (status == GK_OK) {
        print_letter(cli, letter);
    }
    gk_json_free(reply);
    return status;
}

/* One letter, or (id 0) all of them, some hundred a request. */
static enum gk_status settle(struct gk_cli *cli, struct gk_client *client, const char *action,
                             int64_t id, struct gk_err *err)
{
    const char *reason = gk_options_get(&cli->options, "reason");
    struct gk_json *done = gk_json_new_array();
    enum gk_status status = done ? GK_OK : gk_fail(err, GK_NOMEM, "out of memory");
    for (bool more = true; status == GK_OK && more;) {
        struct gk_json *body = gk_json_new_object(), *reply = NULL;
        (void)gk_json_set_string(body, "action", action);
        (void)(id ? gk_json_set_int(body, "dead", id) : gk_json_set_bool(body, "all", true));
        (void)(!reason || gk_json_set_string(body, "reason", reason));
        status = gk_client_request(client, "dead", body, 0, &reply, err);
        const struct gk_json *letters = gk_json_get(reply, "letters");
        for (size_t i = 0; status == GK_OK && i < gk_json_count(letters); i++) {
            const struct gk_json *letter = gk_json_at(letters, i);
            (void)gk_json_push(done, gk_json_copy(letter));
            if (!cli->json) {
                (void)fprintf(stderr, "letter %" PRId64 ": %s\n",
                              gk_json_get_int(letter, "dead", 0),
                              gk_json_get_string(letter, "outcome", "?"));
            }
        }
        more = gk_json_get_bool(reply, "more", false);
        gk_json_free(reply);
    }
    if (status == GK_OK && cli->json) {
        struct gk_json *json = gk_json_new_object();
        (void)gk_json_set(json, "letters", done);
        done = NULL;
        status = gk_print_json(cli, json, err);
        gk_json_free(json);
    } else if (status == GK_OK && gk_json_count(done) == 0) {
        (void)fprintf(stderr, "nothing to do\n");
    }
    gk_json_free(done);
    return status;
}

enum gk_status gk_cmd_dead(struct gk_cli *cli, struct gk_err *err)
{
    struct gk_client *client = NULL;
    const struct gk_options *options = &cli->options;
    const char *action = options->operand_count > 0 ? options->operands[0] : "list",
               *letter = options->operand_count > 1 ? options->operands[1] : NULL;
    bool lists = strcmp(action, "list") == 0, shows = strcmp(action, "show") == 0,
         settles = strcmp(action, "retry") == 0 || strcmp(action, "forget") == 0,
         all = gk_options_has(options, "all");
    int64_t id = 0;
    enum gk_status status = GK_OK;
    if (!lists && !shows && !settles) {
        return gk_fail(err, GK_USAGE, "dead '%s': allowed are list, show, retry and forget",
                       action);
    }
    if (lists ? letter != NULL : (letter != NULL) == (settles && all)) {
        return gk_fail(err, GK_USAGE, "dead %s %s", action,
                       lists   ? "takes no LETTER"
                       : shows ? "needs a LETTER"
                               : "needs a LETTER, or --all");
    }
    if (letter) {
        status = gk_parse_int(letter, "LETTER", 1, INT64_MAX, &id, err);
    }
    if (status == GK_OK) {
        status = gk_client_open(cli, &client, err);
    }
    if (status == GK_OK) {
        status = lists   ? list(cli, client, err)
                 : shows ? show(cli, client, id, err)
                         : settle(cli, client, action, id, err);
    }
    gk_client_close(client);
    return status;
}
