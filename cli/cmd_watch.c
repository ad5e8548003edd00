/* gktune watch: the events of a job, a line each, to its end. */
#include "cli/follow.h"
#include "cli/listing.h"
#include "cli/winners.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print_value(const char *key, const struct gk_json *value)
{
    char time[32];
    if (gk_json_is(value, GK_JSON_STRING)) {
        (void)printf(" %s=%s", key, gk_json_string(value, ""));
    } else if (strlen(key) > 3 && strcmp(key + strlen(key) - 3, "_ns") == 0) {
        gk_time_text(gk_json_real(value, 0), time);
        (void)printf(" %.*s=%s", (int)strlen(key) - 3, key, time);
    } else {
        char shown[GK_JSON_SHOW_SIZE];
        gk_json_show(value, shown);
        (void)printf(" %s=%s", key, shown);
    }
}

static enum gk_status print_event(void *context, const struct gk_json *event, struct gk_err *err)
{
    struct gk_cli *cli = context;
    if (cli->json) {
        char *text = gk_json_text(event); /* one line an event, also on a terminal */
        if (!text) {
            return gk_fail(err, GK_NOMEM, "out of memory");
        }
        (void)puts(text);
        free(text);
        return gk_finish_output(err);
    }
    (void)printf("%6" PRId64 " %-14s", gk_json_get_int(event, "event", 0),
                 gk_json_get_string(event, "kind", "?"));
    void *cursor = NULL;
    const char *key = NULL;
    const struct gk_json *value;
    while ((value = gk_json_next(event, &cursor, &key)) != NULL) {
        if (strcmp(key, "event") != 0 && strcmp(key, "kind") != 0 && strcmp(key, "job") != 0 &&
            strcmp(key, "at_ms") != 0) {
            print_value(key, value);
        }
    }
    (void)putchar('\n');
    return gk_finish_output(err);
}

enum gk_status gk_cmd_watch(struct gk_cli *cli, struct gk_err *err)
{
    struct gk_client *client = NULL;
    struct gk_progress progress;
    struct gk_winners winners = {0};
    int64_t job = 0, after = 0;
    const char *after_text = gk_options_get(&cli->options, "after");
    gk_progress_init(&progress, cli);
    enum gk_status status = gk_parse_job(cli->options.operands[0], &job, err);
    if (status == GK_OK && after_text) {
        status = gk_parse_int(after_text, "--after", 0, INT64_MAX, &after, err);
    }
    if (status == GK_OK) {
        status = gk_client_open(cli, &client, err);
    }
    if (status == GK_OK && gk_client_is_private(client)) {
        (void)fprintf(stderr,
                      "no gktuned is running on this state folder: nothing will happen until "
                      "one starts\n");
    }
    if (status == GK_OK) {
        struct gk_follow follow = {.client = client,
                                   .job = job,
                                   .after_event = after,
                                   .progress = &progress,
                                   .on_event = print_event,
                                   .context = cli};
        status = gk_follow(&follow, err);
        gk_progress_end(&progress);
    }
    if (status == GK_OK) {
        status = gk_winners_load(client, job, &winners, err);
    }
    uint32_t without = status == GK_OK ? gk_winners_without(&winners) : 0;
    if (without > 0) {
        status =
            gk_fail(err, GK_NO_PICK, "%" PRIu32 " of %zu problems ended without a verified pick",
                    without, gk_json_count(winners.tasks));
    }
    gk_winners_fini(&winners);
    gk_client_close(client);
    return status;
}
