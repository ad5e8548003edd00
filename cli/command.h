/*
 * A command of gktune: its row in the table of commands.c, and what every command is given.
 *
 * One table makes dispatch, --help, the manual pages and the shell completion, so that they cannot
 * part.
 */
#ifndef GK_CLI_COMMAND_H
#define GK_CLI_COMMAND_H

#include "cli/options.h"
#include "core/clock.h"
#include "core/json.h"
#include "kernels/catalog.h"

/* Read once by main; nothing below it looks at the environment. */
struct gk_cli {
    struct gk_options options;
    const struct gk_command *command;
    char *exe_dir;   /* folder of the own executable: gktuned and gktune-worker stand beside it */
    char *state_dir; /* resolved; not created yet. NULL when nothing names one: state_error says why
                      */
    struct gk_err state_error;
    char *kernels_dir; /* root of the catalog */
    /* What labels of problems are made with: the request's catalog (borrowed), else the whole one,
     * loaded when the first label is made. NULL: labels stand as they are stored. */
    const struct gk_catalog *catalog;
    struct gk_catalog *owned_catalog;
    bool catalog_tried;
    const char *connect;  /* --connect or $GKTUNE_CONNECT; NULL */
    const char *key_file; /* --key or $GKTUNE_KEY: a path, never the key itself; NULL */
    const char *bwrap;    /* $GKTUNE_BWRAP, as workers take it; "": no sandbox; NULL: not set */
    struct gk_clock clock;
    bool json;
    bool color;        /* stderr is a terminal and NO_COLOR is not set */
    bool progress_tty; /* stderr is a terminal that moves its cursor */
    int columns;       /* of the terminal; 0: not one */
};

struct gk_command {
    const char *name;
    enum gk_status (*run)(struct gk_cli *cli, struct gk_err *err);
    const char *summary;  /* one line */
    const char *usage;    /* operands and options after the name */
    const char *about;    /* paragraphs of the help */
    const char *examples; /* lines "command  # what it does" */
    const struct gk_option *options;
    uint32_t operands_min, operands_max;
};

const struct gk_command *gk_command_find(const char *name);
const struct gk_command *gk_command_at(uint32_t index); /* NULL past the end */
extern const struct gk_option gk_common_options[];

enum gk_status gk_cmd_run(struct gk_cli *cli, struct gk_err *err);
enum gk_status gk_cmd_submit(struct gk_cli *cli, struct gk_err *err);
enum gk_status gk_cmd_jobs(struct gk_cli *cli, struct gk_err *err);
enum gk_status gk_cmd_show(struct gk_cli *cli, struct gk_err *err);
enum gk_status gk_cmd_watch(struct gk_cli *cli, struct gk_err *err);
enum gk_status gk_cmd_control(struct gk_cli *cli,
                              struct gk_err *err); /* cancel pause resume retry */
enum gk_status gk_cmd_dead(struct gk_cli *cli, struct gk_err *err);
enum gk_status gk_cmd_drain(struct gk_cli *cli, struct gk_err *err);
enum gk_status gk_cmd_audit(struct gk_cli *cli, struct gk_err *err);
enum gk_status gk_cmd_best(struct gk_cli *cli, struct gk_err *err);
enum gk_status gk_cmd_trials(struct gk_cli *cli, struct gk_err *err);
enum gk_status gk_cmd_export(struct gk_cli *cli, struct gk_err *err);
enum gk_status gk_cmd_space(struct gk_cli *cli, struct gk_err *err);
enum gk_status gk_cmd_replay(struct gk_cli *cli, struct gk_err *err);
enum gk_status gk_cmd_kernels(struct gk_cli *cli, struct gk_err *err);
enum gk_status gk_cmd_workers(struct gk_cli *cli, struct gk_err *err);
enum gk_status gk_cmd_doctor(struct gk_cli *cli, struct gk_err *err);
enum gk_status gk_cmd_keys(struct gk_cli *cli, struct gk_err *err);
enum gk_status gk_cmd_db(struct gk_cli *cli, struct gk_err *err);
enum gk_status gk_cmd_emu(struct gk_cli *cli, struct gk_err *err);
enum gk_status gk_cmd_version(struct gk_cli *cli, struct gk_err *err);
enum gk_status gk_cmd_diff(struct gk_cli *cli, struct gk_err *err);

/* ---- shared by commands (report.c) ---- */

/* Prints a JSON value to stdout, for people if stdout is a terminal, else canonical; takes nothing.
 */
enum gk_status gk_print_json(const struct gk_cli *cli, const struct gk_json *json,
                             struct gk_err *err);
/* The kernels folder of the source tree that this was built from. */
const char *gk_source_kernels(void);
/* Flushes stdout: a full disk or a closed pipe is an error of the command, never silence. */
enum gk_status gk_finish_output(struct gk_err *err);
/* Loads the catalog of an op, family or kernel.json; all mistakes in err. */
enum gk_status gk_load_catalog(const struct gk_cli *cli, const char *what,
                               struct gk_catalog **catalog_out, struct gk_err *err);
/* The op of that name, or the only one of a kernel.json or a family. GK_USAGE names those there
 * are.
 */
enum gk_status gk_choose_op(const struct gk_catalog *catalog, const char *what,
                            const struct gk_op **op_out, struct gk_err *err);
/* Appends the text with control characters as \xNN: a name in a message must not move the cursor or
 * set colors. keep_lines leaves line ends and tabs as they are. */
void gk_put_plain(const char *text, bool keep_lines, struct gk_buf *out);
/* "12.3 us", "4.56 ms": a time for people; "-" for one that is not positive. */
void gk_time_text(double time_ns, char text_out[32]);
/* "2 m", "3 h", "5 d" between two wall times. */
void gk_age_text(int64_t then_ms, int64_t now_ms, char text_out[32]);
/* Copies a file, fsyncs; `to` must not exist yet. A failed copy is removed. */
enum gk_status gk_copy_file(const char *from, const char *to, struct gk_err *err);
/* Number of a job, "12" or "job12". */
enum gk_status gk_parse_job(const char *text, int64_t *job_out, struct gk_err *err);

#endif
