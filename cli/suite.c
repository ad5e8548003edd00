/* Suites: see suite.h. */
#include "cli/suite.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/policy.h"
#include "core/prng.h"
#include "search/strategy.h"

#define SUITE_BYTES_MAX (1u << 20)
#define UNTIL_S_MAX     INT64_C(604800) /* a week */

/* ------------------------------------------------------------------ --until */

static bool clock_time(const char *text, int *hour_out, int *minute_out)
{
    if (strlen(text) != 5 || text[2] != ':') {
        return false;
    }
    for (int i = 0; i < 5; i++) {
        if (i != 2 && !isdigit((unsigned char)text[i])) {
            return false;
        }
    }
    *hour_out = (text[0] - '0') * 10 + text[1] - '0';
    *minute_out = (text[3] - '0') * 10 + text[4] - '0';
    return *hour_out < 24 && *minute_out < 60;
}

/* The next moment at which a clock on the wall shows it. mktime() knows the days that have 23 or 25
 * hours. */
static bool next_time(uint64_t wall_ms, int hour, int minute, uint64_t *until_ms_out)
{
    for (int day = 0; day <= 2; day++) {
        time_t now = (time_t)(wall_ms / 1000);
        struct tm when;
        if (!localtime_r(&now, &when)) {
            return false;
        }
        when.tm_mday += day;
        when.tm_hour = hour;
        when.tm_min = minute;
        when.tm_sec = 0;
        when.tm_isdst = -1;
        time_t then = mktime(&when);
        if (then > now) {
            *until_ms_out = (uint64_t)then * 1000;
            return true;
        }
    }
    return false;
}

enum gk_status gk_parse_until(const char *text, uint64_t wall_ms, uint64_t *until_ms_out,
                              struct gk_err *err)
{
    int hour = 0, minute = 0;
    char *end = NULL;
    if (clock_time(text, &hour, &minute) && next_time(wall_ms, hour, minute, until_ms_out)) {
        return GK_OK;
    }
    size_t digits = strspn(text, "0123456789");
    long long value = digits > 0 && digits < 8 ? strtoll(text, &end, 10) : 0;
    int64_t unit = 0;
    if (end && end[0] != '\0' && end[1] == '\0') {
        unit = end[0] == 's' ? 1 : end[0] == 'm' ? 60 : end[0] == 'h' ? 3600 : 0;
    }
    if (unit == 0 || value < 1 || value > UNTIL_S_MAX / unit) {
        return gk_fail(err, GK_USAGE,
                       "--until '%.40s': allowed are a time of day as 06:30, or 90s, 45m, 8h from "
                       "now, at most a week",
                       text);
    }
    *until_ms_out = wall_ms + (uint64_t)(value * unit) * 1000;
    return GK_OK;
}

/* ------------------------------------------------------------------ the file */

/* What a set may say, as the options that submit has on its line. */
static const struct gk_option set_options[] = {
    {"shapes", "FILE", "", false},   {"arch", "ARCH", "", true},
    {"budget", "BUDGET", "", false}, {"strategy", "NAME", "", false},
    {"policy", "POLICY", "", false}, {"seed", "N", "", false},
    {"priority", "N", "", false},    {"until", "TIME", "", false},
    {"if-changed", NULL, "", false}, {"wait", NULL, "", false},
    {"fresh", NULL, "", false},      {NULL, NULL, NULL, false}};

static const struct gk_option *option_of(const char *name)
{
    for (const struct gk_option *option = set_options; option->name; option++) {
        if (strcmp(option->name, name) == 0) {
            return option;
        }
    }
    return NULL;
}

/* Numbers as text, for as long as the options that point to them. */
struct set_texts {
    char budget[32], seed[32], priority[32];
};

static void give(struct gk_options *options, const char *name, const char *value)
{
    if (options->met_count < GK_OPTIONS_MET_MAX) {
        options->met[options->met_count].option = option_of(name);
        options->met[options->met_count++].value = value;
    }
}

static bool name_is_good(const char *name)
{
    size_t size = strlen(name);
    return size > 0 && size <= GK_SUITE_NAME_MAX &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") ==
               size;
}

/* Appends to diag what is wrong with a name; true if nothing is. */
static bool check_name(const struct gk_json *json, const char *key, bool required,
                       const char *where, struct gk_diag *diag)
{
    const struct gk_json *value = gk_json_get(json, key);
    if (!value && !required) {
        return true;
    }
    const char *text = gk_json_string(value, NULL);
    if (text && name_is_good(text)) {
        return true;
    }
    char met[GK_JSON_SHOW_SIZE] = "nothing";
    if (value) {
        gk_json_show(value, met);
    }
    (void)gk_diag_add(
        diag, GK_INPUT,
        "%s: \"%s\" is %s; allowed is a text of 1 to %d letters, digits, '_', '-' and "
        "'.'",
        where, key, met, GK_SUITE_NAME_MAX);
    return false;
}

static void check_keys(const struct gk_json *json, const char *const *known, size_t count,
                       const char *where, struct gk_diag *diag)
{
    void *cursor = NULL;
    const char *key = NULL;
    while (gk_json_next(json, &cursor, &key)) {
        bool is_known = false;
        for (size_t i = 0; i < count; i++) {
            is_known = is_known || strcmp(known[i], key) == 0;
        }
        if (!is_known) {
            struct gk_buf near = {0};
            gk_suggest(key, known, (uint32_t)count, "", &near);
            (void)gk_diag_add(diag, GK_INPUT, "%s: unknown key \"%.60s\"%s", where, key,
                              gk_buf_text(&near));
            gk_buf_fini(&near);
        }
    }
}

/* A path is relative to the folder of the suite. */
static char *path_beside(const char *suite_path, const char *path)
{
    const char *slash = strrchr(suite_path, '/');
    return path[0] == '/' || !slash
               ? gk_strdup(path)
               : gk_asprintf("%.*s/%s", (int)(slash - suite_path), suite_path, path);
}

/* What the line's own reader says of a value; "--budget" is "budget" in a file. */
static void add_why(struct gk_diag *diag, const char *where, const struct gk_err *err)
{
    (void)gk_diag_add(diag, err->status == GK_USAGE ? GK_INPUT : err->status, "%s: %s", where,
                      strncmp(err->text, "--", 2) == 0 ? err->text + 2 : err->text);
}

static void add_type(struct gk_diag *diag, const char *where, const char *key,
                     const struct gk_json *value, const char *allowed)
{
    char met[GK_JSON_SHOW_SIZE];
    gk_json_show(value, met);
    (void)gk_diag_add(diag, GK_INPUT, "%s: \"%s\" is %s; allowed is %s", where, key, met, allowed);
}

/* Numbers of the set that the line would take too; what is wrong is said and left out. */
static void give_numbers(const struct gk_json *json, struct set_texts *texts,
                         struct gk_options *options, const char *where, struct gk_diag *diag)
{
    const struct {
        const char *key;
        char *text;
        int64_t min, max;
    } numbers[] = {{"budget", texts->budget, 1, 1000000},
                   {"seed", texts->seed, 0, INT64_MAX},
                   {"priority", texts->priority, -100, 100}};
    for (size_t i = 0; i < GK_ARRAY_COUNT(numbers); i++) {
        const struct gk_json *value = gk_json_get(json, numbers[i].key);
        bool is_budget = i == 0;
        struct gk_budget budget;
        struct gk_err err = {0};
        int64_t number = 0;
        if (!value) {
            continue;
        }
        if (gk_json_is(value, GK_JSON_INT)) {
            (void)snprintf(numbers[i].text, 32, "%" PRId64, gk_json_int(value, 0));
        } else if (is_budget && strlen(gk_json_string(value, "")) < 32 &&
                   gk_json_is(value, GK_JSON_STRING)) {
            (void)snprintf(numbers[i].text, 32, "%s", gk_json_string(value, ""));
        } else {
            add_type(diag, where, numbers[i].key, value,
                     is_budget ? "a number of trials, or a time as \"30s\", \"10m\""
                               : "a whole number");
            continue;
        }
        enum gk_status status = is_budget
                                    ? gk_parse_budget(numbers[i].text, &budget, &err)
                                    : gk_parse_int(numbers[i].text, numbers[i].key, numbers[i].min,
                                                   numbers[i].max, &number, &err);
        if (status == GK_OK) {
            give(options, numbers[i].key, numbers[i].text);
        } else {
            add_why(diag, where, &err);
        }
    }
}

static void give_texts(const struct gk_json *json, struct gk_options *options, const char *where,
                       struct gk_diag *diag)
{
    const struct gk_json *strategy = gk_json_get(json, "strategy"),
                         *policy = gk_json_get(json, "policy");
    enum gk_policy known;
    if (strategy && gk_strategy_find(gk_json_string(strategy, ""))) {
        give(options, "strategy", gk_json_string(strategy, ""));
    } else if (strategy) {
        struct gk_buf names = {0};
        for (uint32_t i = 0; gk_strategy_at(i); i++) {
            gk_buf_printf(&names, "%s\"%s\"", i ? ", " : "one of ", gk_strategy_at(i)->name);
        }
        add_type(diag, where, "strategy", strategy, gk_buf_text(&names));
        gk_buf_fini(&names);
    }
    if (policy && gk_policy_from_name(gk_json_string(policy, ""), &known)) {
        give(options, "policy", gk_json_string(policy, ""));
    } else if (policy) {
        add_type(diag, where, "policy", policy, gk_policy_names());
    }
}

static void give_archs(const struct gk_json *json, struct gk_options *options, const char *where,
                       struct gk_diag *diag)
{
    const struct gk_json *archs = gk_json_get(json, "archs");
    if (!archs ||
        (gk_json_is(archs, GK_JSON_STRING) && strcmp(gk_json_string(archs, ""), "all") == 0)) {
        give(options, "arch", "all");
        return;
    }
    if (!gk_json_is(archs, GK_JSON_ARRAY) || gk_json_count(archs) == 0 ||
        gk_json_count(archs) > 16) {
        add_type(diag, where, "archs", archs,
                 "\"all\" or a list of 1 to 16 as [\"sm_90a\", \"emu-sm_80\"]");
        give(options, "arch", "all");
        return;
    }
    for (size_t i = 0; i < gk_json_count(archs); i++) {
        const char *arch = gk_json_string(gk_json_at(archs, i), "");
        char name[32];
        struct gk_err err = {0};
        if (gk_arch_option(arch, name, &err) == GK_OK) {
            give(options, "arch", arch);
        } else {
            add_why(diag, where, &err);
        }
    }
}

/* What the set is about: exactly one of "op" and "kernel". */
static bool take_what(const struct gk_json *json, const char *path, struct gk_suite_set *set,
                      const char *where, struct gk_diag *diag)
{
    const struct gk_json *op = gk_json_get(json, "op"), *kernel = gk_json_get(json, "kernel"),
                         *shapes = gk_json_get(json, "shapes");
    bool one = (op != NULL) != (kernel != NULL);
    const char *text = gk_json_string(op ? op : kernel, NULL);
    if (!one || !text || !*text) {
        (void)gk_diag_add(diag, GK_INPUT,
                          "%s: exactly one of \"op\" (a name) and \"kernel\" (a path of a "
                          "kernel.json) is needed",
                          where);
    }
    if (!gk_json_is(shapes, GK_JSON_STRING) || !*gk_json_string(shapes, "")) {
        (void)gk_diag_add(diag, GK_INPUT, "%s: \"shapes\" (a path of a shapes file) is needed",
                          where);
        return false;
    }
    if (!one || !text || !*text) {
        return false;
    }
    set->what = op ? gk_strdup(text) : path_beside(path, text);
    set->shapes = path_beside(path, gk_json_string(shapes, ""));
    return set->what && set->shapes;
}

/* Reads one set through the very code that reads the line of `submit`. */
static void take_set(struct gk_suite_set *set, struct gk_cli *cli, const struct gk_json *json,
                     const char *path, const char *where, struct gk_diag *diag)
{
    static const char *const known[] = {"name",  "op",       "kernel",   "shapes",
                                        "archs", "budget",   "strategy", "policy",
                                        "seed",  "priority", "doc"};
    static const char *const switches[] = {"if-changed", "wait", "fresh"};
    const struct gk_options line = cli->options;
    struct gk_options options = {0};
    struct set_texts texts;
    struct gk_err err = {0};
    check_keys(json, known, GK_ARRAY_COUNT(known), where, diag);
    bool good = take_what(json, path, set, where, diag);
    give_numbers(json, &texts, &options, where, diag);
    give_texts(json, &options, where, diag);
    give_archs(json, &options, where, diag);
    if (!good) {
        return;
    }
    give(&options, "shapes", set->shapes);
    for (size_t i = 0; i < GK_ARRAY_COUNT(switches); i++) {
        if (gk_options_has(&line, switches[i])) {
            give(&options, switches[i], NULL);
        }
    }
    if (gk_options_get(&line, "until")) {
        give(&options, "until", gk_options_get(&line, "until"));
    }
    options.operands[options.operand_count++] = set->what;
    cli->options = options;
    enum gk_status status = gk_request_init(&set->request, cli, false, &err);
    cli->options = line;
    if (status != GK_OK) {
        add_why(diag, where, &err);
    }
}

static void take_sets(struct gk_suite *suite, struct gk_cli *cli, const struct gk_json *sets,
                      const char *path, struct gk_diag *diag)
{
    for (size_t i = 0; i < gk_json_count(sets); i++) {
        const struct gk_json *json = gk_json_at(sets, i);
        struct gk_suite_set *set = &suite->sets[suite->count++];
        char number[32], where[4200];
        (void)snprintf(number, sizeof number, "%zu", i);
        const char *name = gk_json_get_string(json, "name", number);
        (void)snprintf(where, sizeof where, "%.3900s: set '%.63s'", path, name);
        if (!gk_json_is(json, GK_JSON_OBJECT)) {
            (void)gk_diag_add(diag, GK_INPUT, "%s: is no object", where);
            continue;
        }
        (void)check_name(json, "name", true, where, diag);
        for (uint32_t k = 0; k + 1 < suite->count; k++) {
            if (suite->sets[k].name && strcmp(suite->sets[k].name, name) == 0) {
                (void)gk_diag_add(diag, GK_INPUT, "%s: the name stands twice", where);
            }
        }
        set->name = gk_strdup(name);
        take_set(set, cli, json, path, where, diag);
    }
}

static void take_file(struct gk_suite *suite, struct gk_cli *cli, const struct gk_json *json,
                      const char *path, struct gk_diag *diag)
{
    static const char *const known[] = {"suite", "slot", "sets", "max_age_days", "doc"};
    const struct gk_json *sets = gk_json_get(json, "sets");
    const char *slot = gk_options_get(&cli->options, "slot");
    size_t count = gk_json_count(sets);
    check_keys(json, known, GK_ARRAY_COUNT(known), path, diag);
    if (check_name(json, "suite", true, path, diag)) {
        suite->name = gk_strdup(gk_json_get_string(json, "suite", ""));
    }
    if (check_name(json, "slot", false, path, diag)) {
        suite->slot = gk_strdup(slot ? slot : gk_json_get_string(json, "slot", "night"));
    }
    if (slot && !name_is_good(slot)) {
        (void)gk_diag_add(diag, GK_USAGE,
                          "--slot '%.80s': allowed are 1 to %d letters, digits, '_', '-' and '.'",
                          slot, GK_SUITE_NAME_MAX);
    }
    const struct gk_json *age = gk_json_get(json, "max_age_days");
    if (age && (!gk_json_is(age, GK_JSON_INT) || gk_json_int(age, -1) < 0 ||
                gk_json_int(age, -1) > 3650)) {
        char met[GK_JSON_SHOW_SIZE];
        gk_json_show(age, met);
        (void)gk_diag_add(diag, GK_INPUT, "%s: \"max_age_days\" is %s; allowed is 0 to 3650", path,
                          met);
    }
    if (!gk_json_is(sets, GK_JSON_ARRAY) || count == 0 || count > GK_SUITE_SETS_MAX) {
        (void)gk_diag_add(diag, GK_INPUT, "%s: \"sets\" must be a list of 1 to %d sets", path,
                          GK_SUITE_SETS_MAX);
        return;
    }
    suite->sets = calloc(count, sizeof *suite->sets);
    if (!suite->sets) {
        (void)gk_diag_add(diag, GK_NOMEM, "out of memory");
        return;
    }
    take_sets(suite, cli, sets, path, diag);
    for (uint32_t i = 0; i < suite->count; i++) {
        suite->sets[i].request.max_age_days = age ? gk_json_int(age, 0) : -1;
    }
}

enum gk_status gk_suite_init(struct gk_suite *suite, struct gk_cli *cli, const char *path,
                             struct gk_diag *diag)
{
    struct gk_json *json = NULL;
    struct gk_err err = {0};
    *suite = (struct gk_suite){0};
    enum gk_status status = gk_json_load(path, SUITE_BYTES_MAX, &json, &err);
    if (status != GK_OK) {
        return gk_diag_add(diag, status, "%s", err.text);
    }
    if (gk_json_is(json, GK_JSON_OBJECT)) {
        take_file(suite, cli, json, path, diag);
    } else {
        (void)gk_diag_add(diag, GK_INPUT, "%s: is no object with \"suite\" and \"sets\"", path);
    }
    gk_json_free(json);
    if (diag->count > 0) {
        gk_suite_fini(suite);
        return diag->status;
    }
    return GK_OK;
}

void gk_suite_fini(struct gk_suite *suite)
{
    for (uint32_t i = 0; i < suite->count; i++) {
        gk_request_fini(&suite->sets[i].request);
        free(suite->sets[i].name);
        free(suite->sets[i].what);
        free(suite->sets[i].shapes);
    }
    free(suite->sets);
    free(suite->name);
    free(suite->slot);
    *suite = (struct gk_suite){0};
}

/* ------------------------------------------------------------------ sending */

/* Names this night: when it was asked for, and something that no other night has. */
static void night_name(uint64_t wall_ms, char text_out[64])
{
    uint32_t random = 0;
    struct tm when = {0};
    time_t now = (time_t)(wall_ms / 1000);
    gk_random_bytes(&random, sizeof random);
    (void)gmtime_r(&now, &when);
    size_t size = strftime(text_out, 40, "%Y%m%dT%H%M%SZ", &when);
    (void)snprintf(text_out + size, 64 - size, "-%08" PRIx32, random);
}

enum gk_status gk_suite_submit(const struct gk_suite *suite, struct gk_client *client,
                               uint64_t wall_ms, struct gk_json **reply_out, struct gk_err *err)
{
    struct gk_json *body = gk_json_new_object(), *sets = gk_json_new_array();
    char night[64];
    enum gk_status status = GK_OK;
    bool ok = body && sets;
    night_name(wall_ms, night);
    for (uint32_t i = 0; status == GK_OK && i < suite->count; i++) {
        const struct gk_suite_set *set = &suite->sets[i];
        status = gk_client_put_bundle(client, set->request.catalog, &set->request.bundle, err);
        struct gk_json *one = gk_request_body(&set->request);
        ok = gk_json_set_string(one, "set", set->name) && ok;
        ok = gk_json_push(sets, one) && ok;
    }
    ok = gk_json_set(body, "sets", sets) && ok && gk_json_set_string(body, "suite", suite->name) &&
         gk_json_set_string(body, "slot", suite->slot) && gk_json_set_string(body, "night", night);
    if (status != GK_OK || !ok) {
        gk_json_free(body);
        return status != GK_OK ? status : gk_fail(err, GK_NOMEM, "out of memory");
    }
    return gk_client_request(client, "submit_suite", body, 0, reply_out, err);
}
