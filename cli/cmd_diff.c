/* gktune diff: what got faster, slower, wrong, or was not measured, between two exports or stores.
 */
#include "cli/diff.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum format { TABLE, MARKDOWN, JSON };

static enum gk_status read_format(const struct gk_cli *cli, enum format *format_out,
                                  struct gk_err *err)
{
    const char *text = gk_options_get(&cli->options, "format");
    *format_out = cli->json ? JSON : TABLE;
    if (!text) {
        return GK_OK;
    }
    if (cli->json && strcmp(text, "json") != 0) {
        return gk_fail(err, GK_USAGE, "--format %.40s beside --json", text);
    }
    static const char *const names[] = {"table", "md", "json"};
    for (size_t i = 0; i < GK_ARRAY_COUNT(names); i++) {
        if (strcmp(text, names[i]) == 0) {
            *format_out = (enum format)i;
            return GK_OK;
        }
    }
    return gk_fail(err, GK_USAGE, "--format '%.40s': allowed are table, md and json", text);
}

/* "-" is a side without rows: the first night has nothing before it. */
static enum gk_status read_side(struct gk_cli *cli, const char *path, struct gk_diff_side *side,
                                struct gk_err *err)
{
    struct gk_diag diag;
    *side = (struct gk_diff_side){.name = gk_strdup(path)};
    if (!side->name) {
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    if (strcmp(path, "-") == 0) {
        return GK_OK;
    }
    if (gk_diff_is_store(path)) {
        enum gk_status status = gk_diff_store(cli, path, side, err);
        return status == GK_OK ? GK_OK : gk_fail_in(err, status, "%s", path);
    }
    gk_diag_init(&diag);
    enum gk_status status = gk_diff_read(path, side, &diag);
    for (uint32_t i = 0; i < diag.kept && diag.count > 1; i++) {
        struct gk_buf plain = {0};
        gk_put_plain(diag.texts[i], true, &plain);
        (void)fprintf(stderr, "%s\n", gk_buf_text(&plain));
        gk_buf_fini(&plain);
    }
    if (status != GK_OK && diag.count == 1) {
        status = gk_fail(err, status, "%s", diag.texts[0]);
    } else if (status != GK_OK) {
        status = gk_fail(err, status, "'%s': %" PRIu32 " mistakes, nothing was compared", path,
                         diag.count);
    }
    gk_diag_fini(&diag);
    /* What is damaged was handed in: that is bad input of this command. */
    return status == GK_CORRUPT ? gk_fail_in(err, GK_INPUT, "diff") : status;
}

static enum gk_status print(struct gk_cli *cli, enum format format, const struct gk_diff *diff,
                            const struct gk_diff_side *a, const struct gk_diff_side *b,
                            struct gk_err *err)
{
    struct gk_buf out = {0};
    if (format == JSON) {
        struct gk_json *json = gk_diff_json(diff, a, b);
        enum gk_status status =
            json ? gk_print_json(cli, json, err) : gk_fail(err, GK_NOMEM, "out of memory");
        gk_json_free(json);
        return status;
    }
    if (format == MARKDOWN) {
        gk_diff_markdown(cli, diff, a, b, &out);
    } else {
        gk_diff_table(cli, diff, &out);
    }
    enum gk_status status = gk_buf_status(&out, err);
    struct gk_buf plain = {0};
    gk_put_plain(gk_buf_text(&out), true, &plain);
    (void)fputs(gk_buf_text(&plain), stdout);
    gk_buf_fini(&plain);
    gk_buf_fini(&out);
    return status;
}

static uint32_t regressed(const struct gk_diff *diff, enum gk_diff_verdict verdict)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < diff->count; i++) {
        count += diff->lines[i].regressed && diff->lines[i].verdict == verdict;
    }
    return count;
}

enum gk_status gk_cmd_diff(struct gk_cli *cli, struct gk_err *err)
{
    struct gk_diff_side a = {0}, b = {0};
    struct gk_diff diff = {0};
    enum format format = TABLE;
    enum gk_status status = read_format(cli, &format, err);
    if (status == GK_OK && cli->connect) {
        status =
            gk_fail(err, GK_USAGE,
                    "--connect: diff compares folders and files; export from the daemon first");
    }
    if (status == GK_OK) {
        status = read_side(cli, cli->options.operands[0], &a, err);
    }
    if (status == GK_OK) {
        status = read_side(cli, cli->options.operands[1], &b, err);
    }
    if (status == GK_OK) {
        status = gk_diff_make(&a, &b, &diff, err);
    }
    if (status == GK_OK) {
        status = print(cli, format, &diff, &a, &b, err);
    }
    if (status == GK_OK && diff.regressed > 0) {
        status = gk_fail(err, GK_NO_PICK, "%" PRIu32 " slower, %" PRIu32 " wrong",
                         regressed(&diff, GK_DIFF_SLOWER), regressed(&diff, GK_DIFF_WRONG));
    }
    gk_diff_fini(&diff);
    gk_diff_side_fini(&a);
    gk_diff_side_fini(&b);
    return status;
}
