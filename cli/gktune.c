/*
 * gktune: the command line. Reads the environment, finds the command in the table, prints help and
 * errors.
 *
 * Results go to stdout, progress and messages to stderr. Exit status: gk_status_exit().
 */
#include "cli/command.h"
#include "cli/manual.h"
#include "core/hash.h"
#include "core/state_dir.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *env(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

static char *folder_of_executable(void)
{
    char path[PATH_MAX];
    ssize_t size = readlink("/proc/self/exe", path, sizeof path - 1);
    if (size <= 0) {
        return NULL;
    }
    path[size] = '\0';
    char *slash = strrchr(path, '/');
    if (slash) {
        *slash = '\0';
    }
    return gk_strdup(path);
}

static bool is_folder(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

/* --kernels; else what was installed with the executable; else the source tree that it was built
 * from. */
static char *find_kernels(const struct gk_cli *cli)
{
    const char *option = gk_options_get(&cli->options, "kernels");
    if (option) {
        return gk_strdup(option);
    }
    char *installed = gk_asprintf("%s/../share/gktune/kernels", cli->exe_dir ? cli->exe_dir : ".");
    if (installed && is_folder(installed)) {
        return installed;
    }
    free(installed);
    return is_folder(gk_source_kernels()) ? gk_strdup(gk_source_kernels()) : NULL;
}

static void find_terminal(struct gk_cli *cli)
{
    const char *term = env("TERM");
    bool dumb = !term || strcmp(term, "dumb") == 0;
    struct winsize size;
    cli->color = isatty(STDERR_FILENO) && !dumb && !env("NO_COLOR");
    cli->progress_tty = isatty(STDERR_FILENO) && !dumb;
    if (cli->progress_tty) {
        cli->columns =
            ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col ? size.ws_col : 80;
    }
}

static enum gk_status prepare(struct gk_cli *cli, struct gk_err *err)
{
    struct gk_buf state = {0};
    enum gk_status status = gk_hash_setup(err);
    if (status != GK_OK) {
        return status;
    }
    cli->exe_dir = folder_of_executable();
    cli->clock = gk_clock_real();
    cli->json = gk_options_has(&cli->options, "json");
    cli->connect = gk_options_get(&cli->options, "connect");
    if (!cli->connect) {
        cli->connect = env("GKTUNE_CONNECT");
    }
    cli->key_file = gk_options_get(&cli->options, "key");
    if (!cli->key_file) {
        cli->key_file = env("GKTUNE_KEY");
    }
    cli->bwrap = getenv("GKTUNE_BWRAP"); /* empty is a word, too: none */
    find_terminal(cli);
    if (gk_state_dir(gk_options_get(&cli->options, "state"), env("GKTUNE_STATE"),
                     env("XDG_STATE_HOME"), env("HOME"), &state, &cli->state_error) == GK_OK) {
        cli->state_dir = gk_buf_detach(&state);
    }
    gk_buf_fini(&state);
    cli->kernels_dir = find_kernels(cli);
    return GK_OK;
}

static enum gk_status unknown_command(const char *word, struct gk_err *err)
{
    const char *words[64];
    uint32_t count = 0;
    for (const struct gk_command *c; count < GK_ARRAY_COUNT(words) && (c = gk_command_at(count));) {
        words[count++] = c->name;
    }
    struct gk_buf near = {0};
    gk_suggest(word, words, count, "", &near);
    enum gk_status status = gk_fail(err, GK_USAGE,
                                    "unknown command '%s'%s\nRun `gktune --help` for "
                                    "the list.",
                                    word, gk_buf_text(&near));
    gk_buf_fini(&near);
    return status;
}

static enum gk_status print_text(struct gk_buf *text, struct gk_err *err)
{
    enum gk_status status = gk_buf_status(text, err);
    (void)fputs(gk_buf_text(text), stdout);
    gk_buf_fini(text);
    return status == GK_OK ? gk_finish_output(err) : status;
}

/* What stands before or instead of a command. */
static enum gk_status top_level(int argc, char **argv, struct gk_err *err)
{
    struct gk_buf text = {0};
    const char *word = argc > 1 ? argv[1] : "--help";
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0) {
        const struct gk_command *command = argc > 2 ? gk_command_find(argv[2]) : NULL;
        if (argc > 2 && !command) {
            return unknown_command(argv[2], err);
        }
        if (command) {
            gk_manual_help(command, &text);
        } else {
            gk_manual_overview(&text);
        }
        return print_text(&text, err);
    }
    if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0) {
        struct gk_cli cli = {0};
        return gk_cmd_version(&cli, err);
    }
    if (strcmp(word, "--completion") == 0) {
        enum gk_status status = gk_manual_completion(argc > 2 ? argv[2] : "", &text, err);
        return status == GK_OK ? print_text(&text, err) : status;
    }
    if (strcmp(word, "--man") == 0) {
        const struct gk_command *command = argc > 2 ? gk_command_find(argv[2]) : NULL;
        if (argc > 2 && !command) {
            return unknown_command(argv[2], err);
        }
        gk_manual_page(command, &text);
        return print_text(&text, err);
    }
    if (word[0] == '-') {
        return gk_fail(err, GK_USAGE,
                       "unknown option '%s': the command stands first, as in `gktune run gemm "
                       "--shapes FILE`",
                       word);
    }
    return unknown_command(word, err);
}

static enum gk_status run_command(const struct gk_command *command, int argc, char **argv,
                                  struct gk_cli *cli, struct gk_err *err)
{
    cli->command = command;
    enum gk_status status =
        gk_options_parse(command->options, gk_common_options, argc, argv, &cli->options, err);
    if (status == GK_OK && gk_options_has(&cli->options, "help")) {
        struct gk_buf text = {0};
        gk_manual_help(command, &text);
        return print_text(&text, err);
    }
    uint32_t count = cli->options.operand_count;
    if (status == GK_OK && (count < command->operands_min || count > command->operands_max)) {
        const char *extra =
            count > command->operands_max ? cli->options.operands[command->operands_max] : NULL;
        status = gk_fail(err, GK_USAGE, "%s%s%s", extra ? "unexpected argument '" : "",
                         extra ? extra : "an argument is missing", extra ? "'" : "");
    }
    if (status != GK_OK) {
        return gk_fail_in(err, status, "gktune %s", command->name);
    }
    status = prepare(cli, err);
    if (status == GK_OK) {
        status = command->run(cli, err);
    }
    struct gk_err output = {0};
    if (gk_finish_output(&output) != GK_OK && status == GK_OK) {
        status = gk_fail(err, output.status, "%s", output.text);
    }
    return status;
}

int main(int argc, char **argv)
{
    (void)signal(SIGPIPE, SIG_IGN); /* a closed pipe is an error of a write, told by name */
    struct gk_cli cli = {0};
    struct gk_err err = {0};
    const struct gk_command *command = argc > 1 ? gk_command_find(argv[1]) : NULL;
    enum gk_status status = command ? run_command(command, argc - 2, argv + 2, &cli, &err)
                                    : top_level(argc, argv, &err);
    if (status != GK_OK && err.text[0] != '\0') {
        struct gk_buf text = {0};
        gk_put_plain(err.text, true, &text);
        (void)fprintf(stderr, "gktune: %s\n", gk_buf_text(&text));
        gk_buf_fini(&text);
        if (status == GK_USAGE && command) {
            (void)fprintf(stderr, "usage: gktune %s %s\n", command->name, command->usage);
        }
    }
    gk_catalog_destroy(cli.owned_catalog);
    free(cli.exe_dir);
    free(cli.state_dir);
    free(cli.kernels_dir);
    return gk_status_exit(status);
}
