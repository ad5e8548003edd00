/* T4: writer and rules. See replay_t4.h. */
#include "search/replay_t4.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "search/replay_internal.h"

/* ------------------------------------------------------------------ writing */

static double to_ms(double ns)
{
    return ns / 1e6; /* not times 1e-6, which is no binary number: 40258 ns is 0.040258 ms */
}

/* A member, if the value is one; {"a": NaN} is no JSON. */
static void set_real(struct gk_json *object, const char *key, double value)
{
    (void)gk_json_set(object, key, gk_json_new_real(isfinite(value) ? value : 0));
}

static struct gk_json *measurement(const char *name, double value, const char *unit)
{
    struct gk_json *json = gk_json_new_object();
    (void)gk_json_set_string(json, "name", name);
    set_real(json, "value", value);
    (void)gk_json_set_string(json, "unit", unit);
    return json;
}

static struct gk_json *times_json(const struct gk_t4_result *result)
{
    struct gk_json *times = gk_json_new_object(), *runtimes = gk_json_new_array();
    set_real(times, "compilation", to_ms(result->compile_ns));
    set_real(times, "compilation_time", to_ms(result->compile_ns));
    set_real(times, "benchmark", to_ms(result->run_ns));
    set_real(times, "validation", to_ms(result->verify_ns));
    set_real(times, "framework", to_ms(result->overhead_ns));
    set_real(times, "search_algorithm", 0);
    for (uint32_t i = 0; i < result->sample_count; i++) {
        (void)gk_json_push(runtimes, gk_json_new_real(to_ms(result->samples_ns[i])));
    }
    if (result->outcome == GK_REPLAY_OK && !result->sample_count) {
        (void)gk_json_push(runtimes, gk_json_new_real(to_ms(result->time_ns)));
    }
    if (result->outcome == GK_REPLAY_OK) {
        (void)gk_json_set(times, "runtimes", runtimes);
    } else {
        gk_json_free(runtimes);
    }
    return times;
}

static struct gk_json *measurements_json(const struct gk_t4_result *result)
{
    struct gk_json *list = gk_json_new_array(), *time = gk_json_new_object();
    if (result->outcome == GK_REPLAY_OK) {
        gk_json_free(time);
        time = measurement("time", to_ms(result->time_ns), "ms");
    } else {
        (void)gk_json_set_string(time, "name", "time");
        (void)gk_json_set_string(time, "value", result->failure ? result->failure : "failed");
        (void)gk_json_set_string(time, "unit", "");
    }
    (void)gk_json_push(list, time);
    for (uint32_t i = 0; i < result->measurement_count; i++) {
        const struct gk_t4_measurement *one = &result->measurements[i];
        (void)gk_json_push(list, measurement(one->name, one->value, one->unit));
    }
    return list;
}

void gk_t4_begin(const struct gk_t4_head *head, struct gk_buf *out)
{
    struct gk_json *metadata = gk_json_new_object();
    struct gk_err err;
    (void)gk_json_set_string(metadata, "timeunit", "milliseconds");
    (void)gk_json_set_string(metadata, "autotuner", "gktune");
    (void)gk_json_set_string(metadata, "autotuner_version", head->version);
    (void)gk_json_set_string(metadata, "compute_api", "CUDA");
    (void)gk_json_set_string(metadata, "device", head->device);
    (void)gk_json_set_string(metadata, "kernel", head->kernel);
    (void)gk_json_set_string(metadata, "problem", head->problem);
    gk_buf_puts(out, "{\"schema_version\":\"1.0.0\",\n\"metadata\":");
    if (gk_json_canonical(metadata, out, &err) != GK_OK) {
        out->failed = true;
    }
    gk_json_free(metadata);
    gk_buf_puts(out, ",\n\"results\":[\n");
}

enum gk_status gk_t4_add(const struct gk_t4_result *result, bool first, struct gk_buf *out,
                         struct gk_err *err)
{
    char when[32];
    struct tm utc;
    time_t seconds = (time_t)(result->recorded_ms / 1000);
    struct gk_json *row = gk_json_new_object(), *objectives = gk_json_new_array();
    bool ok = result->outcome == GK_REPLAY_OK;
    if (!gmtime_r(&seconds, &utc) ||
        strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%S+00:00", &utc) == 0) {
        when[0] = '\0'; /* a year that has more digits than anybody writes */
    }
    (void)gk_json_set_string(row, "timestamp", when);
    (void)gk_json_set(row, "configuration", gk_json_copy(result->configuration));
    (void)gk_json_set(row, "times", times_json(result));
    (void)gk_json_set_string(row, "invalidity", gk_replay_outcome_word(result->outcome));
    (void)gk_json_set_int(row, "correctness", ok);
    (void)gk_json_set(row, "measurements", measurements_json(result));
    (void)gk_json_push(objectives, gk_json_new_string("time"));
    (void)gk_json_set(row, "objectives", objectives);
    gk_buf_puts(out, first ? "" : ",\n");
    enum gk_status status = gk_json_canonical(row, out, err);
    gk_json_free(row);
    return status;
}

void gk_t4_end(struct gk_buf *out)
{
    gk_buf_puts(out, "\n]}\n");
}

/* ------------------------------------------------------------------ rules */

static bool is_number(const struct gk_json *json)
{
    return gk_json_is(json, GK_JSON_INT) || gk_json_is(json, GK_JSON_REAL);
}

static bool is_one_of(const char *text, const char *const *words, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(text, words[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* YYYY-MM-DD, T or a blank, hh:mm:ss, then a fraction, and nothing, Z or an offset. */
static bool is_timestamp(const char *text)
{
    static const char form[] = "0000-00-00T00:00:00";
    for (size_t i = 0; form[i]; i++) {
        bool fits = form[i] == '0'   ? isdigit((uint8_t)text[i]) != 0
                    : form[i] == 'T' ? text[i] == 'T' || text[i] == ' '
                                     : text[i] == form[i];
        if (!fits) {
            return false;
        }
    }
    text += sizeof form - 1;
    if (*text == '.') {
        for (text++; isdigit((uint8_t)*text); text++) {
        }
    }
    if (*text == '\0' || strcmp(text, "Z") == 0) {
        return true;
    }
    bool sign = *text == '+' || *text == '-';
    return sign && strlen(text) == 6 && isdigit((uint8_t)text[1]) && isdigit((uint8_t)text[2]) &&
           text[3] == ':' && isdigit((uint8_t)text[4]) && isdigit((uint8_t)text[5]);
}

static void check_times(const struct gk_json *times, bool correct, const char *where,
                        struct gk_diag *diag)
{
    void *cursor = NULL;
    const char *key = NULL;
    const struct gk_json *value, *runtimes = gk_json_get(times, "runtimes"),
                                 *one = gk_json_get(times, "compilation"),
                                 *other = gk_json_get(times, "compilation_time");
    if (!gk_json_is(times, GK_JSON_OBJECT)) {
        (void)gk_diag_add(diag, GK_INPUT, "%s: times is %s; it must be an object", where,
                          times ? gk_json_type_name(gk_json_type(times)) : "missing");
        return;
    }
    while ((value = gk_json_next(times, &cursor, &key))) {
        bool list = strcmp(key, "runtimes") == 0;
        if (list ? !gk_json_is(value, GK_JSON_ARRAY)
                 : !is_number(value) || gk_json_real(value, -1) < 0) {
            (void)gk_diag_add(diag, GK_INPUT, "%s: times.%.40s must be %s", where, key,
                              list ? "a list of numbers" : "a number that is not negative");
        }
    }
    for (size_t i = 0; i < gk_json_count(runtimes); i++) {
        if (!is_number(gk_json_at(runtimes, i))) {
            (void)gk_diag_add(diag, GK_INPUT, "%s: times.runtimes[%zu] is %s; it must be a number",
                              where, i, gk_json_type_name(gk_json_type(gk_json_at(runtimes, i))));
            break;
        }
    }
    if (!one && !other) {
        (void)gk_diag_add(diag, GK_INPUT, "%s: times has neither compilation nor compilation_time",
                          where);
    } else if (one && other && gk_json_real(one, -1) != gk_json_real(other, -2)) {
        (void)gk_diag_add(diag, GK_INPUT, "%s: compilation and compilation_time differ", where);
    }
    if (correct && gk_json_count(runtimes) == 0 &&
        (!runtimes || gk_json_is(runtimes, GK_JSON_ARRAY))) {
        (void)gk_diag_add(diag, GK_INPUT, "%s: a correct result has no runtimes", where);
    }
}

static void check_measurements(const struct gk_json *row, bool correct, const char *where,
                               struct gk_diag *diag)
{
    const struct gk_json *list = gk_json_get(row, "measurements"),
                         *objectives = gk_json_get(row, "objectives"), *objective = NULL;
    const char *name = gk_json_string(gk_json_at(objectives, 0), NULL);
    if (objectives && (gk_json_count(objectives) != 1 || !name)) {
        (void)gk_diag_add(diag, GK_INPUT, "%s: objectives must be a list of exactly one name",
                          where);
    }
    for (size_t i = 0; i < gk_json_count(list); i++) {
        const struct gk_json *one = gk_json_at(list, i), *value = gk_json_get(one, "value"),
                             *unit = gk_json_get(one, "unit");
        const char *of = gk_json_get_string(one, "name", NULL);
        bool is_value = is_number(value) || gk_json_is(value, GK_JSON_STRING) ||
                        gk_json_is(value, GK_JSON_ARRAY);
        if (!of || !is_value || (unit && !gk_json_is(unit, GK_JSON_STRING))) {
            (void)gk_diag_add(diag, GK_INPUT,
                              "%s: measurements[%zu] must have a name, a value that is a number, a "
                              "text or a list, and a unit that is a text",
                              where, i);
        }
        if (of && name && strcmp(of, name) == 0) {
            objective = value;
        }
    }
    if (list && !gk_json_is(list, GK_JSON_ARRAY)) {
        (void)gk_diag_add(diag, GK_INPUT, "%s: measurements must be a list", where);
    } else if (name && !objective) {
        (void)gk_diag_add(diag, GK_INPUT, "%s: no measurement has the objective's name '%.40s'",
                          where, name);
    } else if (name && correct && gk_json_is(objective, GK_JSON_STRING)) {
        (void)gk_diag_add(diag, GK_INPUT, "%s: '%.40s' of a correct result must be a number", where,
                          name);
    }
}

void gk_t4_check_row(const struct gk_json *row, const char *where, struct gk_diag *diag)
{
    static const char *const words[] = {"timeout",     "compile",     "runtime",
                                        "correctness", "constraints", "correct"};
    const struct gk_json *configuration = gk_json_get(row, "configuration"),
                         *correctness = gk_json_get(row, "correctness"),
                         *when = gk_json_get(row, "timestamp");
    const char *word = gk_json_get_string(row, "invalidity", "");
    bool correct = strcmp(word, "correct") == 0;
    if (!gk_json_is(configuration, GK_JSON_OBJECT) || gk_json_count(configuration) == 0) {
        (void)gk_diag_add(diag, GK_INPUT, "%s: configuration must be an object with parameters",
                          where);
    }
    bool known = is_one_of(word, words, GK_ARRAY_COUNT(words));
    if (!known) {
        (void)gk_diag_add(diag, GK_INPUT,
                          "%s: invalidity '%.40s'; allowed are timeout, compile, runtime, "
                          "correctness, constraints and correct",
                          where, word);
    }
    double said = gk_json_real(correctness, -1);
    if (!is_number(correctness) || (said != 0 && said != 1)) {
        (void)gk_diag_add(diag, GK_INPUT, "%s: correctness must be 0 or 1", where);
    } else if (known && (said == 1) != correct) {
        (void)gk_diag_add(diag, GK_INPUT, "%s: correctness %g with invalidity '%.40s'", where, said,
                          word);
    }
    if (when && !is_timestamp(gk_json_string(when, ""))) {
        (void)gk_diag_add(diag, GK_INPUT, "%s: timestamp '%.40s' is not ISO 8601", where,
                          gk_json_string(when, "?"));
    }
    check_times(gk_json_get(row, "times"), correct, where, diag);
    check_measurements(row, correct, where, diag);
}

/* Three numbers with points between them. */
static bool is_version(const char *text)
{
    for (int part = 0; part < 3; part++) {
        size_t digits = strspn(text, "0123456789");
        if (!digits || text[digits] != (part < 2 ? '.' : '\0')) {
            return false;
        }
        text += digits + 1;
    }
    return true;
}

void gk_t4_check_head(const char *key, const struct gk_json *value, struct gk_diag *diag)
{
    static const char *const units[] = {"nanoseconds", "microseconds", "milliseconds", "seconds"};
    if (strcmp(key, "schema_version") == 0) {
        if (!is_version(gk_json_string(value, ""))) {
            (void)gk_diag_add(diag, GK_INPUT,
                              "schema_version '%.40s' is not three numbers as 1.0.0",
                              gk_json_string(value, "?"));
        }
    } else if (strcmp(key, "metadata") == 0) {
        const char *unit = gk_json_get_string(value, "timeunit", NULL);
        if (!gk_json_is(value, GK_JSON_OBJECT)) {
            (void)gk_diag_add(diag, GK_INPUT, "metadata must be an object");
        } else if (unit && !is_one_of(unit, units, GK_ARRAY_COUNT(units))) {
            (void)gk_diag_add(diag, GK_INPUT,
                              "metadata.timeunit '%.40s'; allowed are nanoseconds, microseconds, "
                              "milliseconds and seconds",
                              unit);
        }
    }
}

void gk_replay_reader_check(struct gk_replay_reader *reader, struct gk_diag *diag)
{
    reader->rows.check = diag;
}
