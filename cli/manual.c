/* Help, manual pages and completion: see manual.h. */
#include "cli/manual.h"

#include <stdlib.h>
#include <string.h>

void gk_manual_overview(struct gk_buf *out)
{
    gk_buf_puts(out,
                "gktune tunes GPU kernels: it compiles, verifies and times their configs, keeps "
                "what\nhappened, and exports the winners as headers.\n\nusage: gktune COMMAND "
                "...\n\n");
    const struct gk_command *command;
    for (uint32_t i = 0; (command = gk_command_at(i)) != NULL; i++) {
        gk_buf_printf(out, "  %-9s %s\n", command->name, command->summary);
    }
    gk_buf_puts(
        out, "\nEvery command: --help, and [--state DIR] [--connect ENDPOINT] [--kernels DIR]\n"
             "($GKTUNE_STATE, $GKTUNE_CONNECT). gktune --completion bash|zsh prints a completion\n"
             "script, gktune --man [COMMAND] a manual page, gktune --version the version.\n\n"
             "Exit status: 0 done; 1 the job ended without a verified pick for some problem; 2 "
             "bad\nusage or input; 3 a named daemon does not answer; 4 internal error.\n");
}

static void help_options(const struct gk_option *table, struct gk_buf *out)
{
    for (; table && table->name; table++) {
        char *left = gk_asprintf("--%s%s%s", table->name, table->value ? " " : "",
                                 table->value ? table->value : "");
        gk_buf_printf(out, "  %-24s %s\n", left ? left : table->name, table->help);
        free(left);
    }
}

void gk_manual_help(const struct gk_command *command, struct gk_buf *out)
{
    gk_buf_printf(out, "gktune %s: %s\n\nusage: gktune %s %s\n\n%s\n", command->name,
                  command->summary, command->name, command->usage, command->about);
    gk_buf_puts(out, "\noptions:\n");
    help_options(command->options, out);
    help_options(gk_common_options, out);
    gk_buf_printf(out, "\nexamples:\n%s", command->examples);
}

/* ------------------------------------------------------------------ manual pages */

/* roff: a backslash and a leading dot or quote would be commands. */
static void roff(const char *text, struct gk_buf *out)
{
    for (bool start = true; *text; text++) {
        if (start && (*text == '.' || *text == '\'')) {
            gk_buf_puts(out, "\\&");
        }
        if (*text == '\\') {
            gk_buf_puts(out, "\\e");
        } else if (*text == '-') {
            gk_buf_puts(out, "\\-");
        } else {
            gk_buf_putc(out, *text);
        }
        start = *text == '\n';
    }
}

static void roff_options(const struct gk_option *table, struct gk_buf *out)
{
    for (; table && table->name; table++) {
        gk_buf_printf(out, ".TP\n.B \\-\\-%s%s%s\n", table->name, table->value ? " " : "",
                      table->value ? table->value : "");
        roff(table->help, out);
        gk_buf_putc(out, '\n');
    }
}

static void roff_examples(const char *text, struct gk_buf *out)
{
    gk_buf_puts(out, ".SH EXAMPLES\n.nf\n");
    roff(text, out);
    gk_buf_puts(out, ".fi\n");
}

void gk_manual_page(const struct gk_command *command, struct gk_buf *out)
{
    if (command) {
        gk_buf_printf(out, ".TH GKTUNE-%s 1 \"\" gktune gktune\n.SH NAME\ngktune\\-%s \\- ",
                      command->name, command->name);
        roff(command->summary, out);
        gk_buf_printf(out, "\n.SH SYNOPSIS\n.B gktune %s\n", command->name);
        roff(command->usage, out);
        gk_buf_puts(out, "\n.SH DESCRIPTION\n");
        roff(command->about, out);
        gk_buf_puts(out, "\n.SH OPTIONS\n");
        roff_options(command->options, out);
        roff_options(gk_common_options, out);
        roff_examples(command->examples, out);
    } else {
        gk_buf_puts(out,
                    ".TH GKTUNE 1 \"\" gktune gktune\n.SH NAME\ngktune \\- tune GPU kernels and "
                    "prove it\n.SH SYNOPSIS\n.B gktune\nCOMMAND ...\n.SH COMMANDS\n");
        for (uint32_t i = 0; (command = gk_command_at(i)) != NULL; i++) {
            gk_buf_printf(out, ".TP\n.B %s\n", command->name);
            roff(command->summary, out);
            gk_buf_puts(out, "\n");
        }
    }
    gk_buf_puts(out,
                ".SH EXIT STATUS\n0 done; 1 the job ended without a verified pick for some "
                "problem; 2 bad usage or bad input;\n3 a named daemon does not answer within 5 "
                "s; 4 internal error.\n");
}

/* ------------------------------------------------------------------ completion */

static void option_words(const struct gk_option *table, struct gk_buf *out)
{
    for (; table && table->name; table++) {
        gk_buf_printf(out, " --%s", table->name);
    }
}

static void bash_completion(struct gk_buf *out)
{
    const struct gk_command *command;
    gk_buf_puts(out, "_gktune() {\n    local word=${COMP_WORDS[COMP_CWORD]} words=''\n"
                     "    if [ \"$COMP_CWORD\" = 1 ]; then\n        words='");
    for (uint32_t i = 0; (command = gk_command_at(i)) != NULL; i++) {
        gk_buf_printf(out, "%s%s", i ? " " : "", command->name);
    }
    gk_buf_puts(out, "'\n    else\n        case ${COMP_WORDS[1]} in\n");
    for (uint32_t i = 0; (command = gk_command_at(i)) != NULL; i++) {
        gk_buf_printf(out, "        %s) words='--help", command->name);
        option_words(command->options, out);
        option_words(gk_common_options, out);
        gk_buf_puts(out, "' ;;\n");
    }
    gk_buf_puts(out, "        esac\n    fi\n    case $word in\n"
                     "        -*) COMPREPLY=($(compgen -W \"$words\" -- \"$word\")) ;;\n"
                     "        *) if [ \"$COMP_CWORD\" = 1 ]; then\n"
                     "               COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
                     "           else\n               COMPREPLY=($(compgen -f -- \"$word\"))\n"
                     "           fi ;;\n    esac\n}\ncomplete -o filenames -F _gktune gktune\n");
}

enum gk_status gk_manual_completion(const char *shell, struct gk_buf *out, struct gk_err *err)
{
    if (strcmp(shell, "zsh") == 0) {
        gk_buf_puts(out, "autoload -U +X bashcompinit && bashcompinit\n");
    } else if (strcmp(shell, "bash") != 0) {
        return gk_fail(err, GK_USAGE, "--completion '%s': allowed are bash and zsh", shell);
    }
    bash_completion(out);
    return GK_OK;
}
