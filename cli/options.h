/*
 * Command-line options: a table of names for each command, and what was met on the line.
 *
 * "--name value", "--name=value", "-h", and "--" before positional arguments that begin with a
 * dash. An unknown option names the nearest known ones. A value is lent from argv.
 */
#ifndef GK_CLI_OPTIONS_H
#define GK_CLI_OPTIONS_H

#include "core/buf.h"
#include "core/status.h"

#define GK_OPTIONS_MET_MAX 64 /* options on one line */
#define GK_OPERANDS_MAX    64

struct gk_option {
    const char *name;  /* "shapes"; NULL ends a table */
    const char *value; /* "FILE" as shown in help; NULL: a switch */
    const char *help;
    bool many; /* may stand more than once */
};

struct gk_options {
    struct {
        const struct gk_option *option;
        const char *value; /* NULL of a switch */
    } met[GK_OPTIONS_MET_MAX];
    uint32_t met_count;
    const char *operands[GK_OPERANDS_MAX];
    uint32_t operand_count;
};

/* Both tables are searched; common may be NULL. GK_USAGE names the word, GK_LIMIT past the maxima.
 */
enum gk_status gk_options_parse(const struct gk_option *own, const struct gk_option *common,
                                int argc, char *const *argv, struct gk_options *options_out,
                                struct gk_err *err);
bool gk_options_has(const struct gk_options *options, const char *name);
/* Value of the option, NULL if it was not met. */
const char *gk_options_get(const struct gk_options *options, const char *name);
/* i-th value of a repeated option, NULL past the end. */
const char *gk_options_at(const struct gk_options *options, const char *name, uint32_t index);

/* Whole decimal number in [min, max]; `what` names it in the error. */
enum gk_status gk_parse_int(const char *text, const char *what, int64_t min, int64_t max,
                            int64_t *value_out, struct gk_err *err);
/* The same of option --name; *value stays as it is where the option was not met. */
enum gk_status gk_options_int(const struct gk_options *options, const char *name, int64_t min,
                              int64_t max, int64_t *value, struct gk_err *err);

/* A budget: "200" trials, or "30s", "10m", "2h" of device and compile time. Exactly one is not 0.
 */
struct gk_budget {
    int64_t trials;
    int64_t seconds;
};
enum gk_status gk_parse_budget(const char *text, struct gk_budget *budget_out, struct gk_err *err);

/* Appends those of the words that are near `word` as "; did you mean 'a' or 'b'?", each behind
 * prefix; nothing if none is. */
void gk_suggest(const char *word, const char *const *words, uint32_t count, const char *prefix,
                struct gk_buf *out);

#endif
