/* gktune export: winners of the store as a header or JSON. */
#include "cli/diff.h"
#include "cli/export.h"
#include "cli/request.h"
#include "cli/shape_option.h"

#include <stdio.h>
#include <string.h>

static enum gk_status read_format(const char *text, enum gk_export_format *format_out,
                                  struct gk_err *err)
{
    if (!text || strcmp(text, "header") == 0) {
        *format_out = GK_EXPORT_HEADER;
        return GK_OK;
    }
    if (strcmp(text, "json") == 0) {
        *format_out = GK_EXPORT_JSON;
        return GK_OK;
    }
    if (strcmp(text, "t4") == 0) {
        *format_out = GK_EXPORT_T4;
        return GK_OK;
    }
    if (strcmp(text, "library") == 0) {
        return gk_fail(err, GK_UNSUPPORTED,
                       "--format library is not in this version; header, json and t4 are");
    }
    return gk_fail(err, GK_USAGE, "--format '%s': allowed are header, json and t4", text);
}

static enum gk_status print_files(struct gk_cli *cli, const struct gk_json *files, const char *dir,
                                  struct gk_err *err)
{
    if (!cli->json) {
        (void)printf("%zu files in %s\n", gk_json_count(files), dir);
        for (size_t i = 0; i < gk_json_count(files); i++) {
            (void)printf("  %s\n", gk_json_string(gk_json_at(files, i), ""));
        }
        return GK_OK;
    }
    struct gk_json *json = gk_json_new_object();
    (void)gk_json_set_string(json, "export", dir);
    (void)gk_json_set(json, "files", gk_json_copy(files));
    enum gk_status status = gk_print_json(cli, json, err);
    gk_json_free(json);
    return status;
}

/* What became of the jobs that --job names. */
static enum gk_status read_jobs(const struct gk_cli *cli, struct gk_client *client,
                                struct gk_json **json_out, struct gk_err *err)
{
    int64_t jobs[GK_OPTIONS_MET_MAX];
    uint32_t count = 0;
    const char *text = NULL;
    enum gk_status status = GK_OK;
    while (status == GK_OK && (text = gk_options_at(&cli->options, "job", count)) != NULL) {
        status = gk_parse_job(text, &jobs[count++], err);
    }
    return status == GK_OK ? gk_diff_jobs_of(client, jobs, count, json_out, err) : status;
}

enum gk_status gk_cmd_export(struct gk_cli *cli, struct gk_err *err)
{
    struct gk_client *client = NULL;
    struct gk_json *files = NULL, *told = NULL;
    const char *gpu = gk_options_get(&cli->options, "gpu");
    const char *given = gk_options_get(&cli->options, "arch");
    char arch[64] = "";
    given = given && strcmp(given, "all") == 0 ? NULL : given;
    gk_arch_name(given ? given : "", arch);
    struct gk_export_ask ask = {.ops = cli->options.operands,
                                .op_count = cli->options.operand_count,
                                .arch = given ? arch : NULL,
                                .gpu = gpu && strcmp(gpu, "all") != 0 ? gpu : NULL,
                                .out_dir = gk_options_get(&cli->options, "out")};
    enum gk_status status = read_format(gk_options_get(&cli->options, "format"), &ask.format, err);
    if (status == GK_OK) {
        status = gk_policy_option(cli, &ask.policy, err);
    }
    if (status == GK_OK && (!gk_options_has(&cli->options, "arch") || !ask.out_dir)) {
        status = gk_fail(err, GK_USAGE, "%s is missing", ask.out_dir ? "--arch ARCH" : "--out DIR");
    }
    if (status == GK_OK) {
        status = gk_client_open(cli, &client, err);
    }
    if (status == GK_OK && gk_options_has(&cli->options, "job")) {
        status = read_jobs(cli, client, &told, err);
        ask.jobs_json = told;
    }
    if (status == GK_OK) {
        status = ask.format == GK_EXPORT_T4 ? gk_export_trials(client, &ask, &files, err)
                                            : gk_export(client, &ask, &files, err);
    }
    if (status == GK_OK) {
        status = print_files(cli, files, ask.out_dir, err);
    }
    gk_json_free(files);
    gk_json_free(told);
    gk_client_close(client);
    return status;
}
