/* gktune trials: every trial of a job, and why it failed. */
#include "cli/listing.h"

#include <string.h>

/* A row is a line for whoever filters them: the lines of a message are joined. */
static void message_cell(struct gk_table *table, const char *message)
{
    struct gk_buf text = {0};
    while (*message) {
        size_t size = strcspn(message, "\n");
        gk_buf_printf(&text, "%s%.*s", text.size > 0 && size > 0 ? "; " : "", (int)size, message);
        message += size;
        message += strspn(message, "\n\t ");
    }
    gk_table_cell(table, "%s", gk_buf_text(&text));
    gk_buf_fini(&text);
}

static void cells(struct gk_cli *cli, struct gk_table *table, const struct gk_json *row)
{
    if (gk_options_has(&cli->options, "failed") && gk_trial_unrun(row)) {
        return; /* the list without --failed has it, as parked */
    }
    const char *failure = gk_json_get_string(row, "failure", "-");
    const char *message = gk_json_get_string(row, "message", "");
    gk_cell_int(table, row, "trial");
    gk_cell_int(table, row, "task");
    gk_cell_text(table, row, "state");
    gk_cell_time(table, row, "time_ns");
    gk_cell_text(table, row, "stage");
    gk_table_cell(table, "%s", failure);
    gk_cell_text(table, row, "config");
    const struct gk_json *marks = gk_json_get(row, "marks");
    if (gk_json_count(marks) > 0 && message[0] == '\0') {
        gk_cell_marks(table, marks);
    } else {
        message_cell(table, message);
    }
}

enum gk_status gk_cmd_trials(struct gk_cli *cli, struct gk_err *err)
{
    struct gk_client *client = NULL;
    int64_t job = 0;
    enum gk_status status = gk_parse_job(cli->options.operands[0], &job, err);
    if (status == GK_OK) {
        status = gk_client_open(cli, &client, err);
    }
    if (status == GK_OK) {
        bool failed = gk_options_has(&cli->options, "failed");
        struct gk_json *body = gk_json_new_object();
        (void)gk_json_set_int(body, "job", job);
        (void)gk_json_set_bool(body, "failed", failed);
        status = gk_listing(cli, client, "trials", body, "trials",
                            ">trial|>task|state|>time|stage|failure|config|message", cells,
                            failed ? "no failed trials" : "no trials yet", err);
    }
    gk_client_close(client);
    return status;
}
