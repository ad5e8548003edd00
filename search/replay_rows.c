/*
 * From a row's text to its config and its result. See replay_internal.h.
 *
 * Values of parameters are kept as they are met, one list a parameter, and a row as the numbers of
 * its values: 200 bytes and its samples, whatever the row's text was.
 */
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "search/replay_internal.h"

#define FAILED_TIME 1e20 /* old caches give a failed config this time */

enum gk_status replay_rows_init(struct replay_rows *rows, struct gk_err *err)
{
    rows->unit_ns = 1e6;
    rows->params = calloc(GK_PARAMS_MAX, sizeof rows->params[0]);
    return rows->params ? GK_OK : gk_fail(err, GK_NOMEM, "no memory for a recorded space");
}

void replay_rows_fini(struct replay_rows *rows)
{
    free(rows->params);
    free(rows->raws);
    free(rows->samples);
    gk_json_free(rows->outvoted);
    memset(rows, 0, sizeof *rows);
}

void replay_drop(struct replay_rows *rows, enum gk_replay_drop_kind kind,
                 const struct replay_mark *mark)
{
    struct gk_replay_drop *drop = &rows->drops[kind];
    if (!drop->count++) {
        drop->first_offset = mark->offset;
        drop->first_line = mark->line;
    }
}

void replay_check_end(struct replay_rows *rows)
{
    if (rows->is_t4 && !rows->has_version) {
        (void)gk_diag_add(rows->check, GK_INPUT, "schema_version is missing");
    }
    for (int i = 0; i < GK_REPLAY_DROPS; i++) {
        const struct gk_replay_drop *drop = &rows->drops[i];
        if (drop->count) {
            (void)gk_diag_add(rows->check, GK_INPUT, "line %" PRIu64 ": %s: %" PRIu64,
                              drop->first_line, gk_replay_drop_text((enum gk_replay_drop_kind)i),
                              drop->count);
        }
    }
    for (int i = 0; i < GK_REPLAY_ODDITIES; i++) {
        bool unit = i == GK_REPLAY_UNIT || i == GK_REPLAY_UNIT_OTHER; /* gk_t4_check_head says so */
        if (rows->oddities[i] && !unit) {
            (void)gk_diag_add(rows->check, GK_INPUT, "%s: %" PRIu64,
                              gk_replay_oddity_text((enum gk_replay_oddity)i), rows->oddities[i]);
        }
    }
}

/* ------------------------------------------------------------------ Python's words */

/* What JSON has instead of a word of Python; NULL: nothing. */
static const char *json_word(const char *word, size_t size, bool *is_number)
{
    static const struct {
        const char *word;
        const char *json;
        bool is_number;
    } words[] = {{"NaN", "null", true},      {"nan", "null", true},   {"Infinity", "null", true},
                 {"infinity", "null", true}, {"inf", "null", true},   {"Inf", "null", true},
                 {"None", "null", false},    {"True", "true", false}, {"False", "false", false}};
    for (size_t i = 0; i < GK_ARRAY_COUNT(words); i++) {
        if (strlen(words[i].word) == size && memcmp(words[i].word, word, size) == 0) {
            *is_number = words[i].is_number;
            return words[i].json;
        }
    }
    return NULL;
}

/* Copies the text with Python's words replaced. */
static uint32_t plain_json(const char *text, size_t size, struct gk_buf *out)
{
    bool in_string = false;
    uint32_t numbers = 0;
    size_t copied = 0;
    for (size_t i = 0; i < size; i++) {
        if (text[i] == '"') {
            in_string = !in_string;
        } else if (in_string) {
            i += text[i] == '\\';
        } else if (isalpha((uint8_t)text[i]) && (i == 0 || !isalnum((uint8_t)text[i - 1]))) {
            size_t end = i;
            bool is_number = false;
            while (end < size && isalpha((uint8_t)text[end])) {
                end++;
            }
            const char *word = json_word(text + i, end - i, &is_number);
            if (word) {
                bool sign = is_number && i > copied && (text[i - 1] == '-' || text[i - 1] == '+');
                gk_buf_add(out, text + copied, i - copied - sign);
                gk_buf_puts(out, word);
                copied = end;
                numbers += is_number;
            }
            i = end - 1;
        }
    }
    gk_buf_add(out, text + copied, size - copied);
    return numbers;
}

static struct gk_json *parse(struct replay_rows *rows, const char *text, size_t size,
                             bool *no_memory)
{
    struct gk_json *json = NULL;
    struct gk_err err = {0};
    struct gk_buf plain = {0};
    uint32_t numbers = plain_json(text, size, &plain);
    enum gk_status status = gk_buf_status(&plain, &err);
    if (status == GK_OK) {
        status = gk_json_parse(plain.data ? plain.data : "", plain.size, "row", &json, &err);
    }
    *no_memory = status == GK_NOMEM;
    rows->oddities[GK_REPLAY_NOT_NUMBER] += json ? numbers : 0;
    gk_buf_fini(&plain);
    return json;
}

/* ------------------------------------------------------------------ numbers and words */

/* A number, also in quotes. */
static bool number_of(struct replay_rows *rows, const struct gk_json *json, double *out)
{
    switch (gk_json_type(json)) {
    case GK_JSON_INT:
    case GK_JSON_REAL:
        *out = gk_json_real(json, 0);
        return true;
    case GK_JSON_STRING: {
        const char *text = gk_json_string(json, "");
        char *end = NULL;
        double value = strtod(text, &end);
        if (end == text || *end != '\0' || !isfinite(value)) {
            return false;
        }
        rows->oddities[GK_REPLAY_TEXT_NUMBER]++;
        *out = value;
        return true;
    }
    default:
        return false;
    }
}

/* A part of the cost: not negative, 0 when it is missing or so large that sums would overflow. */
static double cost_of(struct replay_rows *rows, const struct gk_json *object, const char *key)
{
    double value = 0;
    bool good = number_of(rows, gk_json_get(object, key), &value) && value < FAILED_TIME;
    return good && value > 0 ? value : 0;
}

static bool has_word(const char *text, const char *word)
{
    return strcasestr(text, word) != NULL;
}

/* From a class name such as RuntimeFailedConfig, or from T4's word. */
static enum gk_replay_outcome outcome_of(const char *text)
{
    if (has_word(text, "compil")) {
        return GK_REPLAY_COMPILE;
    }
    if (has_word(text, "timeout") || has_word(text, "timed")) {
        return GK_REPLAY_TIMEOUT;
    }
    if (has_word(text, "constraint") || has_word(text, "invalid")) {
        return GK_REPLAY_CONSTRAINTS;
    }
    if (has_word(text, "correct") || has_word(text, "verif") || has_word(text, "valid")) {
        return GK_REPLAY_CORRECTNESS;
    }
    return GK_REPLAY_RUNTIME;
}

/* ------------------------------------------------------------------ header */

static double unit_ns(const char *text, bool *misspelt)
{
    static const struct {
        const char *name;
        double ns;
        bool misspelt;
    } units[] = {{"milliseconds", 1e6, false},
                 {"ms", 1e6, false},
                 {"s", 1e9, false},
                 {"seconds", 1e9, false},
                 {"microseconds", 1e3, false},
                 {"us", 1e3, false},
                 {"nanoseconds", 1, false},
                 {"ns", 1, false},
                 {"miliseconds", 1e6, true},
                 {"millisecond", 1e6, true},
                 {"milisecond", 1e6, true},
                 {"second", 1e9, true},
                 {"microsecond", 1e3, true},
                 {"nanosecond", 1, true}};
    for (size_t i = 0; i < GK_ARRAY_COUNT(units); i++) {
        if (strcasecmp(units[i].name, text) == 0) {
            *misspelt = units[i].misspelt;
            return units[i].ns;
        }
    }
    return 0;
}

static void copy_text(char *out, size_t size, const char *text)
{
    size_t length = strlen(text);
    length = length < size ? length : size - 1;
    while (length && length == size - 1 && ((uint8_t)text[length] & 0xC0) == 0x80) {
        length--; /* not in the middle of a character */
    }
    memcpy(out, text, length);
    out[length] = '\0';
}

static void take_param_names(struct replay_rows *rows, const struct gk_json *names)
{
    size_t count = gk_json_count(names);
    rows->too_many = count > GK_PARAMS_MAX ? count : rows->too_many;
    if (!gk_json_is(names, GK_JSON_ARRAY) || rows->have_params || !count || count > GK_PARAMS_MAX) {
        return; /* the first row will tell, or say why it cannot */
    }
    for (size_t i = 0; i < count; i++) {
        const char *name = gk_json_string(gk_json_at(names, i), NULL);
        if (!name || strlen(name) >= GK_NAME_MAX) {
            return;
        }
        copy_text(rows->params[i].name, GK_NAME_MAX, name);
    }
    rows->param_count = (uint32_t)count;
    rows->have_params = true;
}

static void take_unit(struct replay_rows *rows, const struct gk_json *metadata)
{
    const char *unit = gk_json_get_string(metadata, "timeunit", NULL);
    bool misspelt = false;
    if (unit) {
        double ns = unit_ns(unit, &misspelt);
        rows->unit_ns = ns > 0 ? ns : 1e6;
        rows->oddities[ns > 0 ? GK_REPLAY_UNIT : GK_REPLAY_UNIT_OTHER] += misspelt || ns <= 0;
    }
}

void replay_rows_header(struct replay_rows *rows, const char *key, const char *text, size_t size)
{
    bool no_memory = false;
    struct gk_json *json = parse(rows, text, size, &no_memory);
    if (strcmp(key, "device_name") == 0) {
        copy_text(rows->device, sizeof rows->device, gk_json_string(json, ""));
    } else if (strcmp(key, "kernel_name") == 0) {
        copy_text(rows->kernel, sizeof rows->kernel, gk_json_string(json, ""));
    } else if (strcmp(key, "tune_params_keys") == 0) {
        take_param_names(rows, json);
    } else if (strcmp(key, "metadata") == 0) {
        copy_text(rows->device, sizeof rows->device, gk_json_get_string(json, "device", ""));
        copy_text(rows->kernel, sizeof rows->kernel, gk_json_get_string(json, "kernel", ""));
        take_unit(rows, json);
    }
    if (rows->check && json) {
        gk_t4_check_head(key, json, rows->check);
    }
    rows->has_version |= strcmp(key, "schema_version") == 0;
    gk_json_free(json);
}

/* ------------------------------------------------------------------ config */

/* Values in a row's key: commas outside of brackets part them. */
static uint32_t key_parts(const char *key, size_t size)
{
    uint32_t count = 1, depth = 0;
    for (size_t i = 0; i < size; i++) {
        depth += key[i] == '(' || key[i] == '[';
        depth -= depth && (key[i] == ')' || key[i] == ']');
        count += !depth && key[i] == ',';
    }
    return count;
}

bool replay_rows_is_key(const struct replay_rows *rows, const char *text, size_t size)
{
    /* A row of one parameter has a key like any member's: not told apart. */
    return size && rows->param_count > 1 && key_parts(text, size) == rows->param_count;
}

/* The i-th value of a key; false if it does not fit. */
static bool key_part(const char *key, uint32_t wanted, char out[GK_NAME_MAX])
{
    uint32_t part = 0, depth = 0;
    size_t used = 0;
    for (; *key; key++) {
        depth += *key == '(' || *key == '[';
        depth -= depth && (*key == ')' || *key == ']');
        if (!depth && *key == ',') {
            part++;
        } else if (part == wanted) {
            if (used == GK_NAME_MAX - 1) {
                return false;
            }
            out[used++] = *key;
        }
    }
    out[used] = '\0';
    return used > 0;
}

static void number_text(double number, char out[GK_NAME_MAX])
{
    if (fabs(number) < REPLAY_WHOLE_MAX && number == floor(number)) {
        (void)snprintf(out, GK_NAME_MAX, "%.0f", number + 0.0);
        return;
    }
    for (int digits = 1; digits <= 17; digits++) { /* the shortest that reads back */
        (void)snprintf(out, GK_NAME_MAX, "%.*g", digits, number);
        if (strtod(out, NULL) == number) {
            return;
        }
    }
}

static bool value_of_text(const char *text, struct replay_value *value)
{
    char *end = NULL;
    double number = strtod(text, &end);
    memset(value, 0, sizeof *value);
    if (end != text && *end == '\0' && isfinite(number)) {
        value->is_number = true;
        value->number = number == 0 ? 0 : number;
        number_text(value->number, value->text);
        return true;
    }
    if (strcmp(text, "True") == 0 || strcmp(text, "False") == 0) {
        return value_of_text(text[0] == 'T' ? "1" : "0", value);
    }
    if (!*text || strlen(text) >= GK_NAME_MAX) {
        return false;
    }
    copy_text(value->text, sizeof value->text, text);
    return true;
}

static bool value_of(struct replay_rows *rows, const struct gk_json *json,
                     struct replay_value *value)
{
    memset(value, 0, sizeof *value);
    switch (gk_json_type(json)) {
    case GK_JSON_BOOL:
        return value_of_text(gk_json_bool(json, false) ? "1" : "0", value);
    case GK_JSON_INT:
    case GK_JSON_REAL:
        value->is_number = true;
        value->number = gk_json_real(json, 0);
        value->number = value->number == 0 ? 0 : value->number; /* no -0 */
        number_text(value->number, value->text);
        return true;
    case GK_JSON_STRING: {
        bool fits = value_of_text(gk_json_string(json, ""), value);
        rows->oddities[GK_REPLAY_TEXT_NUMBER] += fits && value->is_number;
        return fits;
    }
    default:
        return false;
    }
}

/* Number of the value in its parameter's list; GK_PARAM_VALUES_MAX: it is new and does not fit. */
static uint32_t intern(struct replay_param *param, const struct replay_value *value)
{
    uint32_t i = 0;
    while (i < param->count && strcmp(param->values[i].text, value->text) != 0) {
        i++;
    }
    if (i == param->count && i < GK_PARAM_VALUES_MAX) {
        param->values[param->count++] = *value;
    }
    return i;
}

/* Names from the first row, where no header gave them. */
static bool names_of_row(struct replay_rows *rows, const char *key, const struct gk_json *config)
{
    size_t count = key ? key_parts(key, strlen(key)) : gk_json_count(config);
    rows->too_many = count > GK_PARAMS_MAX ? count : rows->too_many;
    if (!count || count > GK_PARAMS_MAX || count > gk_json_count(config)) {
        return false;
    }
    void *cursor = NULL;
    for (size_t i = 0; i < count; i++) {
        const char *name = "";
        (void)gk_json_next(config, &cursor, &name);
        if (strlen(name) >= GK_NAME_MAX) {
            return false;
        }
        copy_text(rows->params[i].name, GK_NAME_MAX, name);
    }
    rows->param_count = (uint32_t)count;
    rows->have_params = true;
    return true;
}

/* The row's config as digits; why not in *kind_out. */
static bool read_config(struct replay_rows *rows, const char *key, const struct gk_json *config,
                        uint8_t digits[GK_PARAMS_MAX], enum gk_replay_drop_kind *kind_out)
{
    struct replay_value values[GK_PARAMS_MAX];
    *kind_out = GK_REPLAY_NO_CONFIG;
    if (!gk_json_is(config, GK_JSON_OBJECT) ||
        (!rows->have_params && !names_of_row(rows, key, config)) ||
        (!key && gk_json_count(config) != rows->param_count)) {
        return false;
    }
    bool key_counts = key && key_parts(key, strlen(key)) == rows->param_count;
    for (uint32_t i = 0; i < rows->param_count; i++) {
        const struct gk_json *value = gk_json_get(config, rows->params[i].name);
        if (value && value_of(rows, value, &values[i])) {
            continue;
        }
        char part[GK_NAME_MAX] = "";
        if (!key_counts || !key_part(key, i, part) || !value_of_text(part, &values[i])) {
            *kind_out = value ? GK_REPLAY_BAD_VALUE : GK_REPLAY_NO_CONFIG;
            return false;
        }
        rows->oddities[GK_REPLAY_KEY_CONFIG]++;
    }
    for (uint32_t i = 0; i < rows->param_count; i++) {
        uint32_t digit = intern(&rows->params[i], &values[i]);
        if (digit == GK_PARAM_VALUES_MAX) {
            *kind_out = GK_REPLAY_MANY;
            return false;
        }
        digits[i] = (uint8_t)digit;
    }
    return true;
}

/* ------------------------------------------------------------------ result */

static enum gk_status read_samples(struct replay_rows *rows, const struct gk_json *list,
                                   struct replay_raw *raw, struct gk_err *err)
{
    struct replay_mark mark = {raw->offset, raw->line};
    size_t count = gk_json_is(list, GK_JSON_ARRAY) ? gk_json_count(list) : 0;
    count = count < GK_REPLAY_SAMPLES_MAX ? count : GK_REPLAY_SAMPLES_MAX;
    raw->row.sample_first = rows->sample_count;
    if (rows->sample_count + count > rows->sample_capacity) {
        size_t capacity = rows->sample_capacity * 2 + 4096 + count;
        double *samples = realloc(rows->samples, capacity * sizeof samples[0]);
        if (!samples) {
            return gk_fail(err, GK_NOMEM, "no memory for %zu samples", capacity);
        }
        rows->samples = samples;
        rows->sample_capacity = capacity;
    }
    for (size_t i = 0; i < count; i++) {
        double value = 0;
        if (number_of(rows, gk_json_at(list, i), &value) && value > 0 && value < FAILED_TIME) {
            rows->samples[rows->sample_count++] = value;
            raw->row.sample_count++;
        } else {
            replay_drop(rows, GK_REPLAY_SAMPLE, &mark);
        }
    }
    return GK_OK;
}

/* The time of an ok row: as recorded, else the mean of its samples. False if there is neither. */
static bool settle_time(struct replay_rows *rows, struct replay_raw *raw, double time)
{
    if (time > 0 && time < FAILED_TIME) {
        raw->row.time_ns = time;
        return true;
    }
    double sum = 0;
    for (uint32_t i = 0; i < raw->row.sample_count; i++) {
        sum += rows->samples[raw->row.sample_first + i];
    }
    raw->row.time_ns = raw->row.sample_count ? sum / raw->row.sample_count : 0;
    raw->time_in_ns = false;
    return raw->row.sample_count > 0;
}

static enum gk_status read_cache_row(struct replay_rows *rows, const struct gk_json *row,
                                     struct replay_raw *raw, bool *result_out, struct gk_err *err)
{
    const struct gk_json *time_json = gk_json_get(row, "time");
    const char *error = gk_json_get_string(row, "__error__", NULL);
    double time = 0;
    bool is_time = number_of(rows, time_json, &time);
    if (!error && !is_time) {
        error = gk_json_string(time_json, NULL);
    }
    if (!error && is_time && time >= FAILED_TIME) {
        error = "InvalidConfig";
    }
    raw->row.compile_ns = cost_of(rows, row, "compile_time");
    raw->row.run_ns = cost_of(rows, row, "benchmark_time");
    raw->row.verify_ns = cost_of(rows, row, "verification_time");
    raw->row.overhead_ns = cost_of(rows, row, "framework_time");
    *result_out = true;
    if (error) {
        raw->row.outcome = outcome_of(error);
        return GK_OK;
    }
    enum gk_status status = read_samples(rows, gk_json_get(row, "times"), raw, err);
    *result_out = settle_time(rows, raw, time);
    return status;
}

/* The measurement that the first objective names, "time" where none is named. */
static const struct gk_json *measurement_of(const struct gk_json *row)
{
    const struct gk_json *list = gk_json_get(row, "measurements"), *time = NULL;
    const char *objective = gk_json_string(gk_json_at(gk_json_get(row, "objectives"), 0), "time");
    for (size_t i = 0; i < gk_json_count(list); i++) {
        const struct gk_json *one = gk_json_at(list, i);
        const char *name = gk_json_get_string(one, "name", "");
        if (strcmp(name, "time") == 0) {
            return one;
        }
        if (strcmp(name, objective) == 0 && has_word(name, "time")) {
            time = one;
        }
    }
    return time;
}

static enum gk_status read_result(struct replay_rows *rows, const struct gk_json *row,
                                  struct replay_raw *raw, bool *result_out, struct gk_err *err)
{
    const struct gk_json *times = gk_json_get(row, "times"), *one = measurement_of(row),
                         *value = gk_json_get(one, "value");
    const char *word = gk_json_get_string(row, "invalidity", NULL);
    const char *failure = word && strcmp(word, "correct") != 0 ? word : NULL;
    double time = 0;
    bool misspelt = false, is_time = number_of(rows, value, &time);
    if (!failure && !is_time) {
        failure = gk_json_string(value, NULL);
    }
    raw->row.compile_ns = cost_of(rows, times, "compilation");
    if (raw->row.compile_ns <= 0) {
        raw->row.compile_ns = cost_of(rows, times, "compilation_time");
    }
    raw->row.run_ns = cost_of(rows, times, "benchmark");
    raw->row.verify_ns = cost_of(rows, times, "validation");
    raw->row.overhead_ns = cost_of(rows, times, "framework");
    *result_out = true;
    if (failure) {
        raw->row.outcome = outcome_of(failure);
        return GK_OK;
    }
    double own_ns = unit_ns(gk_json_get_string(one, "unit", ""), &misspelt);
    if (is_time && own_ns > 0) {
        time *= own_ns;
        raw->time_in_ns = true;
        rows->oddities[GK_REPLAY_UNIT] += misspelt;
    }
    enum gk_status status = read_samples(rows, gk_json_get(times, "runtimes"), raw, err);
    *result_out = settle_time(rows, raw, time);
    return status;
}

static enum gk_status push(struct replay_rows *rows, const struct replay_raw *raw,
                           struct gk_err *err)
{
    if (rows->count == GK_SPACE_CONFIGS_MAX) {
        return gk_fail(err, GK_LIMIT, "more than %u rows", GK_SPACE_CONFIGS_MAX);
    }
    if (rows->count == rows->capacity) {
        size_t capacity = rows->capacity * 2 + 1024;
        struct replay_raw *raws = realloc(rows->raws, capacity * sizeof raws[0]);
        if (!raws) {
            return gk_fail(err, GK_NOMEM, "no memory for %zu rows", capacity);
        }
        rows->raws = raws;
        rows->capacity = capacity;
    }
    rows->raws[rows->count++] = *raw;
    return GK_OK;
}

static bool has_params(const struct replay_rows *rows, const struct gk_json *config)
{
    bool has = gk_json_count(config) == rows->param_count;
    for (uint32_t i = 0; has && i < rows->param_count; i++) {
        has = gk_json_get(config, rows->params[i].name) != NULL;
    }
    return has;
}

static bool same_names(const struct gk_json *a, const struct gk_json *b)
{
    void *cursor = NULL;
    const char *name = NULL;
    bool same = gk_json_count(a) == gk_json_count(b);
    while (same && gk_json_next(a, &cursor, &name)) {
        same = gk_json_get(b, name) != NULL;
    }
    return same;
}

/* T4 names parameters in each row alone, and the first row may be the damaged one: when the two
 * rows behind it agree with each other and not with it, it goes. True: look at both again. */
static bool outvote_first(struct replay_rows *rows, const struct gk_json *json,
                          const struct replay_mark *mark)
{
    const struct gk_json *config = gk_json_get(json, "configuration");
    if (!rows->is_t4 || !rows->have_params || rows->count > 1 || !gk_json_count(config) ||
        has_params(rows, config)) {
        return false;
    }
    const struct gk_json *other = gk_json_get(rows->outvoted, "configuration");
    if (other && same_names(other, config)) {
        rows->drops[GK_REPLAY_NO_CONFIG].count--; /* the other was dropped when it was met */
        for (size_t i = 0; i < rows->count; i++) {
            struct replay_mark first = {rows->raws[i].offset, rows->raws[i].line};
            replay_drop(rows, GK_REPLAY_NO_CONFIG, &first);
        }
        memset(rows->params, 0, GK_PARAMS_MAX * sizeof rows->params[0]);
        rows->have_params = false;
        rows->count = 0;
        return true;
    }
    gk_json_free(rows->outvoted);
    rows->outvoted = gk_json_copy(json); /* without memory the first row stays right */
    rows->outvoted_mark = *mark;
    return false;
}

static enum gk_status add_parsed(struct replay_rows *rows, const char *key,
                                 const struct gk_json *json, const struct replay_mark *mark,
                                 struct gk_err *err)
{
    struct replay_raw raw = {.offset = mark->offset, .line = mark->line};
    enum gk_replay_drop_kind kind = GK_REPLAY_NO_RESULT;
    enum gk_status status = GK_OK;
    bool result = false;
    const struct gk_json *config = rows->is_t4 ? gk_json_get(json, "configuration") : json;
    if (read_config(rows, key, config, raw.digits, &kind)) {
        kind = GK_REPLAY_NO_RESULT;
        status = rows->is_t4 ? read_result(rows, json, &raw, &result, err)
                             : read_cache_row(rows, json, &raw, &result, err);
    }
    if (status == GK_OK && result) {
        return push(rows, &raw, err);
    }
    if (status == GK_OK) {
        replay_drop(rows, kind, mark);
    }
    return status;
}

enum gk_status replay_rows_add(struct replay_rows *rows, const char *key, const char *text,
                               size_t size, const struct replay_mark *mark, bool *parsed_out,
                               struct gk_err *err)
{
    bool no_memory = false;
    enum gk_status status = GK_OK;
    struct gk_json *json = parse(rows, text, size, &no_memory);
    *parsed_out = json != NULL;
    if (!json) {
        return no_memory ? gk_fail(err, GK_NOMEM, "no memory for a row") : GK_OK;
    }
    if (rows->check && rows->is_t4) {
        char where[48];
        (void)snprintf(where, sizeof where, "line %" PRIu64, mark->line);
        gk_t4_check_row(json, where, rows->check);
    }
    if (outvote_first(rows, json, mark)) {
        struct gk_json *before = rows->outvoted;
        rows->outvoted = NULL;
        status = add_parsed(rows, key, before, &rows->outvoted_mark, err);
        gk_json_free(before);
    }
    if (status == GK_OK) {
        status = add_parsed(rows, key, json, mark, err);
    }
    gk_json_free(json);
    return status;
}
