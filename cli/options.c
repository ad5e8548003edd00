/* Command-line options: see options.h. Pure functions over argv. */
#include "cli/options.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORD_MAX 32 /* longer words are not compared: no option is that long */

/* Edit distance of two words (insert, delete, change one letter), by the usual table of one row. */
static uint32_t distance(const char *a, const char *b)
{
    size_t na = strlen(a), nb = strlen(b);
    if (na > WORD_MAX || nb > WORD_MAX) {
        return UINT32_MAX;
    }
    uint32_t row[WORD_MAX + 1];
    for (uint32_t j = 0; j <= nb; j++) {
        row[j] = j;
    }
    for (uint32_t i = 1; i <= na; i++) {
        uint32_t diagonal = row[0];
        row[0] = i;
        for (uint32_t j = 1; j <= nb; j++) {
            uint32_t best = diagonal + (a[i - 1] != b[j - 1]);
            best = row[j] + 1 < best ? row[j] + 1 : best;
            best = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
            diagonal = row[j];
            row[j] = best;
        }
    }
    return row[nb];
}

void gk_suggest(const char *word, const char *const *words, uint32_t count, const char *prefix,
                struct gk_buf *out)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < count && found < 3; i++) {
        bool begins = strlen(word) >= 3 && strncmp(words[i], word, strlen(word)) == 0;
        if (begins || distance(word, words[i]) <= 2) {
            gk_buf_printf(out, "%s'%s%s'", found ? " or " : "; did you mean ", prefix, words[i]);
            found++;
        }
    }
    if (found) {
        gk_buf_putc(out, '?');
    }
}

static const struct gk_option *find(const struct gk_option *table, const char *name, size_t size)
{
    for (; table && table->name; table++) {
        if (strlen(table->name) == size && strncmp(table->name, name, size) == 0) {
            return table;
        }
    }
    return NULL;
}

static enum gk_status fail_unknown(const struct gk_option *own, const struct gk_option *common,
                                   const char *name, struct gk_err *err)
{
    const char *words[128];
    uint32_t count = 0;
    for (int i = 0; i < 2; i++) {
        const struct gk_option *table = i ? common : own;
        for (; table && table->name && count < GK_ARRAY_COUNT(words); table++) {
            words[count++] = table->name;
        }
    }
    struct gk_buf near = {0};
    char *bare = gk_strndup(name, strcspn(name, "="));
    gk_suggest(bare ? bare : name, words, count, "--", &near);
    enum gk_status status =
        gk_fail(err, GK_USAGE, "unknown option '--%s'%s", bare ? bare : name, gk_buf_text(&near));
    free(bare);
    gk_buf_fini(&near);
    return status;
}

/* One "--..." word; *index moves on when its value is the next word. */
static enum gk_status take_option(const struct gk_option *own, const struct gk_option *common,
                                  int argc, char *const *argv, int *index,
                                  struct gk_options *options, struct gk_err *err)
{
    const char *name = argv[*index] + 2;
    size_t size = strcspn(name, "=");
    const struct gk_option *option = find(own, name, size);
    if (!option) {
        option = find(common, name, size);
    }
    if (!option) {
        return fail_unknown(own, common, name, err);
    }
    const char *value = name[size] == '=' ? name + size + 1 : NULL;
    if (!option->value && value) {
        return gk_fail(err, GK_USAGE, "option --%s takes no value, '%s' was given", option->name,
                       value);
    }
    if (option->value && !value) {
        if (*index + 1 >= argc) {
            return gk_fail(err, GK_USAGE, "option --%s needs a value: --%s %s", option->name,
                           option->name, option->value);
        }
        value = argv[++*index];
    }
    if (option->value && *value == '\0') {
        return gk_fail(err, GK_USAGE, "option --%s has an empty value; %s is needed", option->name,
                       option->value);
    }
    if (!option->many && gk_options_has(options, option->name)) {
        return gk_fail(err, GK_USAGE, "option --%s was given twice", option->name);
    }
    if (options->met_count == GK_OPTIONS_MET_MAX) {
        return gk_fail(err, GK_LIMIT, "more than %d options", GK_OPTIONS_MET_MAX);
    }
    options->met[options->met_count].option = option;
    options->met[options->met_count++].value = value;
    return GK_OK;
}

enum gk_status gk_options_parse(const struct gk_option *own, const struct gk_option *common,
                                int argc, char *const *argv, struct gk_options *options_out,
                                struct gk_err *err)
{
    static const struct gk_option help = {"help", NULL, "", false};
    struct gk_options options = {0};
    bool only_operands = false;
    for (int i = 0; i < argc; i++) {
        const char *word = argv[i];
        enum gk_status status = GK_OK;
        if (!only_operands && strcmp(word, "--") == 0) {
            only_operands = true;
        } else if (!only_operands && (strcmp(word, "-h") == 0 || strcmp(word, "--help") == 0)) {
            if (!gk_options_has(&options, "help") && options.met_count < GK_OPTIONS_MET_MAX) {
                options.met[options.met_count++].option = &help;
            }
        } else if (!only_operands && strncmp(word, "--", 2) == 0) {
            status = take_option(own, common, argc, argv, &i, &options, err);
        } else if (!only_operands && word[0] == '-' && word[1] != '\0') {
            status =
                gk_fail(err, GK_USAGE, "unknown option '%s': options are written --name", word);
        } else if (options.operand_count == GK_OPERANDS_MAX) {
            status = gk_fail(err, GK_LIMIT, "more than %d arguments", GK_OPERANDS_MAX);
        } else {
            options.operands[options.operand_count++] = word;
        }
        if (status != GK_OK) {
            return status;
        }
    }
    *options_out = options;
    return GK_OK;
}

const char *gk_options_at(const struct gk_options *options, const char *name, uint32_t index)
{
    for (uint32_t i = 0; i < options->met_count; i++) {
        if (strcmp(options->met[i].option->name, name) == 0 && index-- == 0) {
            return options->met[i].value ? options->met[i].value : "";
        }
    }
    return NULL;
}

const char *gk_options_get(const struct gk_options *options, const char *name)
{
    return gk_options_at(options, name, 0);
}

bool gk_options_has(const struct gk_options *options, const char *name)
{
    return gk_options_at(options, name, 0) != NULL;
}

enum gk_status gk_parse_int(const char *text, const char *what, int64_t min, int64_t max,
                            int64_t *value_out, struct gk_err *err)
{
    char *end = NULL;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    bool begins =
        isdigit((unsigned char)text[0]) || (text[0] == '-' && isdigit((unsigned char)text[1]));
    if (!begins || *end != '\0' || errno == ERANGE || value < min || value > max) {
        return gk_fail(err, GK_USAGE, "%s: '%s' is not a whole number from %" PRId64 " to %" PRId64,
                       what, text, min, max);
    }
    *value_out = value;
    return GK_OK;
}

enum gk_status gk_options_int(const struct gk_options *options, const char *name, int64_t min,
                              int64_t max, int64_t *value, struct gk_err *err)
{
    const char *text = gk_options_get(options, name);
    char what[32];
    (void)snprintf(what, sizeof what, "--%s", name);
    return text ? gk_parse_int(text, what, min, max, value, err) : GK_OK;
}

#define BUDGET_TRIALS_MAX  INT64_C(1000000)
#define BUDGET_SECONDS_MAX INT64_C(604800) /* a week */

enum gk_status gk_parse_budget(const char *text, struct gk_budget *budget_out, struct gk_err *err)
{
    char *end = NULL;
    errno = 0;
    long long value = isdigit((unsigned char)text[0]) ? strtoll(text, &end, 10) : 0;
    int64_t unit = 0;
    if (end && end[0] != '\0' && end[1] == '\0') {
        unit = end[0] == 's' ? 1 : end[0] == 'm' ? 60 : end[0] == 'h' ? 3600 : 0;
    }
    bool is_trials = end && *end == '\0';
    int64_t max = is_trials ? BUDGET_TRIALS_MAX : unit ? BUDGET_SECONDS_MAX / unit : 0;
    if (errno == ERANGE || value < 1 || value > max) {
        return gk_fail(err, GK_USAGE,
                       "--budget: '%s'; allowed are a number of trials a problem, 1 to %" PRId64
                       ", or a time as 30s, 10m, 2h, at most a week",
                       text, BUDGET_TRIALS_MAX);
    }
    *budget_out = is_trials ? (struct gk_budget){.trials = value}
                            : (struct gk_budget){.seconds = value * unit};
    return GK_OK;
}
