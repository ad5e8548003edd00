/*
 * Trial records: names, life, JSON. See record.h; schemas/record.schema.json is the form. Pure.
 *
 * What is empty is left out of the JSON and read back as empty; everything else is written in full,
 * so that to_json and from_json are exact inverses.
 */
#include "core/record.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------ names */

static const char *const stage_names[] = {
#define STAGE_NAME(name, text) text,
    GK_STAGE_MAP(STAGE_NAME)
#undef STAGE_NAME
};

static const char *const failure_names[] = {
#define FAILURE_NAME(name, text) text,
    GK_FAILURE_MAP(FAILURE_NAME)
#undef FAILURE_NAME
};

static const char *const mark_names[] = {
#define MARK_NAME(name, text) text,
    GK_MARK_MAP(MARK_NAME)
#undef MARK_NAME
};

const char *gk_mark_name(enum gk_mark mark)
{
    return (size_t)mark < GK_ARRAY_COUNT(mark_names) ? mark_names[mark] : "unknown_mark";
}

const char *gk_stage_name(enum gk_stage stage)
{
    return (size_t)stage < GK_ARRAY_COUNT(stage_names) ? stage_names[stage] : "unknown_stage";
}

const char *gk_failure_name(enum gk_failure failure)
{
    return (size_t)failure < GK_ARRAY_COUNT(failure_names) ? failure_names[failure]
                                                           : "unknown_failure";
}

bool gk_stage_from_name(const char *name, enum gk_stage *stage_out)
{
    for (size_t i = 0; i < GK_ARRAY_COUNT(stage_names); i++) {
        if (strcmp(stage_names[i], name) == 0) {
            *stage_out = (enum gk_stage)i;
            return true;
        }
    }
    return false;
}

bool gk_failure_from_name(const char *name, enum gk_failure *failure_out)
{
    for (size_t i = 0; i < GK_ARRAY_COUNT(failure_names); i++) {
        if (strcmp(failure_names[i], name) == 0) {
            *failure_out = (enum gk_failure)i;
            return true;
        }
    }
    return false;
}

/* ------------------------------------------------------------------ life */

void gk_record_init(struct gk_record *record)
{
    memset(record, 0, sizeof *record);
    record->stage = GK_STAGE_RENDER;
    record->failure = GK_FAILURE_NONE;
    record->gpu_verify_ns = record->gpu_measure_ns = -1;
}

void gk_record_fini(struct gk_record *record)
{
    if (!record) {
        return;
    }
    free(record->message);
    gk_json_free(record->counts);
    gk_json_free(record->environment);
    gk_record_init(record);
}

void gk_record_fail(struct gk_record *record, enum gk_stage stage, enum gk_failure failure,
                    const char *format, ...)
{
    char text[GK_RECORD_MESSAGE_MAX + 1];
    va_list ap;
    va_start(ap, format);
    int length = vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    if (length < 0) {
        text[0] = '\0';
    } else if ((size_t)length >= sizeof text) {
        size_t end = sizeof text - 4; /* cut between characters, so that the text stays UTF-8 */
        while (end > 0 && ((unsigned char)text[end] & 0xC0) == 0x80) {
            end--;
        }
        memcpy(text + end, "...", 4);
    }
    gk_utf8_clean(text); /* compiler logs quote source bytes, and the wire is UTF-8 */
    free(record->message);
    record->message = gk_strdup(text); /* without memory the failure is told without its message */
    record->stage = stage;
    record->failure = failure;
    record->time_ns = 0;
}

/* ------------------------------------------------------------------ to JSON */

static struct gk_json *samples_to_json(const struct gk_record *record)
{
    struct gk_json *list = gk_json_new_array();
    for (uint32_t i = 0; i < record->sample_count; i++) {
        if (!list || !gk_json_push(list, gk_json_new_real(record->samples_ns[i]))) {
            gk_json_free(list);
            return NULL;
        }
    }
    return list;
}

static struct gk_json *kernel_to_json(const struct gk_kernel_resources *k)
{
    struct gk_json *json = gk_json_new_object();
    if (json && gk_json_set_string(json, "kernel", k->kernel) &&
        gk_json_set_int(json, "regs", k->regs) &&
        gk_json_set_int(json, "spill_bytes", k->spill_bytes) &&
        gk_json_set_int(json, "static_smem", k->static_smem) &&
        gk_json_set_int(json, "dynamic_smem", k->dynamic_smem) &&
        gk_json_set_int(json, "blocks_per_sm", k->blocks_per_sm) &&
        gk_json_set_int(json, "threads", k->threads)) {
        return json;
    }
    gk_json_free(json);
    return NULL;
}

/* JSON has no infinities and no NaN, and a wrong result often is one: they travel as text. */
static struct gk_json *any_real(double value)
{
    if (isnan(value)) {
        return gk_json_new_string("nan");
    }
    return isinf(value) ? gk_json_new_string(value > 0 ? "inf" : "-inf") : gk_json_new_real(value);
}

static struct gk_json *rung_to_json(const struct gk_rung *rung)
{
    struct gk_json *json = gk_json_new_object();
    if (json && gk_json_set_string(json, "name", rung->name) &&
        gk_json_set_bool(json, "passed", rung->passed) &&
        gk_json_set_int(json, "compared", rung->compared) &&
        gk_json_set_int(json, "failed", rung->failed) &&
        gk_json_set_int(json, "worst_index", rung->worst_index) &&
        gk_json_set(json, "worst_got", any_real(rung->worst_got)) &&
        gk_json_set(json, "worst_want", any_real(rung->worst_want)) &&
        gk_json_set(json, "worst_bound", any_real(rung->worst_bound)) &&
        gk_json_set(json, "norm_error", any_real(rung->norm_error)) &&
        gk_json_set_string(json, "tensor", rung->tensor)) {
        return json;
    }
    gk_json_free(json);
    return NULL;
}

static bool set_lists(struct gk_json *json, const struct gk_record *record)
{
    if (!gk_json_set(json, "samples_ns", samples_to_json(record)) ||
        !gk_json_set(json, "kernels", gk_json_new_array()) ||
        !gk_json_set(json, "rungs", gk_json_new_array())) {
        return false;
    }
    for (uint32_t i = 0; i < record->kernel_count; i++) {
        if (!gk_json_push(gk_json_get_mutable(json, "kernels"),
                          kernel_to_json(&record->kernels[i]))) {
            return false;
        }
    }
    for (uint32_t i = 0; i < record->rung_count; i++) {
        if (!gk_json_push(gk_json_get_mutable(json, "rungs"), rung_to_json(&record->rungs[i]))) {
            return false;
        }
    }
    return true;
}

static struct gk_json *marks_to_json(uint32_t marks)
{
    struct gk_json *list = gk_json_new_array();
    bool good = list != NULL;
    for (uint32_t i = 0; i < GK_MARK_COUNT; i++) {
        if (marks >> i & 1) {
            good = good && gk_json_push(list, gk_json_new_string(mark_names[i]));
        }
    }
    if (!good) {
        gk_json_free(list);
        return NULL;
    }
    return list;
}

struct gk_json *gk_record_to_json(const struct gk_record *record)
{
    char code_id[GK_HASH_TEXT_SIZE];
    gk_hash_hex(&record->code_id, code_id);
    struct gk_json *json = gk_json_new_object();
    bool good =
        json && gk_json_set_string(json, "stage", gk_stage_name(record->stage)) &&
        gk_json_set_string(json, "failure", gk_failure_name(record->failure)) &&
        (!record->message || gk_json_set_string(json, "message", record->message)) &&
        gk_json_set_bool(json, "modelled", record->modelled) &&
        gk_json_set_real(json, "time_ns", record->time_ns) &&
        gk_json_set_real(json, "plan_ns", record->plan_ns) && set_lists(json, record) &&
        gk_json_set_int(json, "input_set", record->input_set) &&
        gk_json_set_bool(json, "compile_cached", record->compile_cached) &&
        gk_json_set_real(json, "compile_ns", record->compile_ns) &&
        gk_json_set_real(json, "verify_ns", record->verify_ns) &&
        gk_json_set_real(json, "measure_ns", record->measure_ns) &&
        (record->gpu_verify_ns < 0 ||
         gk_json_set_real(json, "gpu_verify_ns", record->gpu_verify_ns)) &&
        (record->gpu_measure_ns < 0 ||
         gk_json_set_real(json, "gpu_measure_ns", record->gpu_measure_ns)) &&
        (record->marks == 0 || gk_json_set(json, "marks", marks_to_json(record->marks))) &&
        (gk_hash_is_zero(&record->code_id) || gk_json_set_string(json, "code_id", code_id)) &&
        (!record->counts || gk_json_set(json, "counts", gk_json_copy(record->counts))) &&
        (!record->environment ||
         gk_json_set(json, "environment", gk_json_copy(record->environment)));
    if (!good) {
        gk_json_free(json);
        return NULL;
    }
    return json;
}

/* ------------------------------------------------------------------ from JSON */

static enum gk_status need_real(const struct gk_json *json, const char *key, double min,
                                double *out, const char *where, struct gk_err *err)
{
    const struct gk_json *value = gk_json_get(json, key);
    char shown[GK_JSON_SHOW_SIZE];
    if (!value) {
        return gk_fail(err, GK_INPUT, "%s: \"%s\" is missing; a number is needed", where, key);
    }
    bool is_number = gk_json_is(value, GK_JSON_REAL) || gk_json_is(value, GK_JSON_INT);
    if (is_number && gk_json_real(value, 0) >= min) {
        *out = gk_json_real(value, 0);
        return GK_OK;
    }
    gk_json_show(value, shown);
    if (is_number) {
        return gk_fail(err, GK_INPUT, "%s: \"%s\" is %s; at least %g is allowed", where, key, shown,
                       min);
    }
    return gk_fail(err, GK_INPUT, "%s: \"%s\" is %s; a number is needed", where, key, shown);
}

/* The inverse of any_real(). */
static enum gk_status need_any_real(const struct gk_json *json, const char *key, double *out,
                                    const char *where, struct gk_err *err)
{
    const char *text = gk_json_get_string(json, key, "");
    if (strcmp(text, "nan") == 0) {
        *out = (double)NAN;
    } else if (strcmp(text, "inf") == 0) {
        *out = (double)INFINITY;
    } else if (strcmp(text, "-inf") == 0) {
        *out = -(double)INFINITY;
    } else {
        return need_real(json, key, -(double)INFINITY, out, where, err);
    }
    return GK_OK;
}

static enum gk_status need_text(const struct gk_json *json, const char *key, char *out, size_t size,
                                const char *where, struct gk_err *err)
{
    const char *text = NULL;
    enum gk_status status = gk_json_need_string(json, key, size - 1, &text, where, err);
    if (status == GK_OK) {
        memcpy(out, text, strlen(text) + 1);
    }
    return status;
}

static enum gk_status need_bool(const struct gk_json *json, const char *key, bool *out,
                                const char *where, struct gk_err *err)
{
    const struct gk_json *value = NULL;
    enum gk_status status = gk_json_need(json, key, GK_JSON_BOOL, &value, where, err);
    if (status == GK_OK) {
        *out = gk_json_bool(value, false);
    }
    return status;
}

static enum gk_status need_list(const struct gk_json *json, const char *key, size_t max,
                                const struct gk_json **out, uint32_t *count_out, struct gk_err *err)
{
    enum gk_status status = gk_json_need(json, key, GK_JSON_ARRAY, out, "record", err);
    if (status == GK_OK && gk_json_count(*out) > max) {
        return gk_fail(err, GK_LIMIT, "record: \"%s\" has %zu entries; at most %zu are allowed",
                       key, gk_json_count(*out), max);
    }
    if (status == GK_OK) {
        *count_out = (uint32_t)gk_json_count(*out);
    }
    return status;
}

/* What of an object no reader knows came from a newer writer, or is a slip: named either way. */
static enum gk_status refuse_others(const struct gk_json *json, const char *const *known,
                                    size_t count, const char *where, struct gk_err *err)
{
    void *cursor = NULL;
    const char *key = NULL;
    while (gk_json_next(json, &cursor, &key)) {
        bool found = false;
        for (size_t i = 0; i < count && !found; i++) {
            found = strcmp(known[i], key) == 0;
        }
        if (!found) {
            return gk_fail(err, GK_INPUT, "%s: \"%.64s\" is not a member of it", where, key);
        }
    }
    return GK_OK;
}

enum gk_status gk_record_drop_samples(struct gk_json *json, const struct gk_json *samples,
                                      struct gk_err *err)
{
    size_t count = gk_json_count(samples);
    bool good = gk_json_set(json, "samples_ns", gk_json_new_array()) &&
                (count == 0 || gk_json_set_int(json, "samples_taken", (int64_t)count));
    return good ? GK_OK : gk_fail(err, GK_NOMEM, "out of memory for a record");
}

static enum gk_status kernel_from_json(const struct gk_json *json, struct gk_kernel_resources *k,
                                       struct gk_err *err)
{
    static const char where[] = "record: kernels";
    static const char *const known[] = {
        "kernel", "regs", "spill_bytes", "static_smem", "dynamic_smem", "blocks_per_sm", "threads"};
    const struct {
        const char *key;
        int64_t *out;
    } numbers[] = {{"regs", &k->regs},
                   {"spill_bytes", &k->spill_bytes},
                   {"static_smem", &k->static_smem},
                   {"dynamic_smem", &k->dynamic_smem},
                   {"blocks_per_sm", &k->blocks_per_sm},
                   {"threads", &k->threads}};
    enum gk_status status = need_text(json, "kernel", k->kernel, sizeof k->kernel, where, err);
    for (size_t i = 0; i < GK_ARRAY_COUNT(numbers) && status == GK_OK; i++) {
        status = gk_json_need_int(json, numbers[i].key, -1, INT64_MAX, numbers[i].out, where, err);
    }
    return status == GK_OK ? refuse_others(json, known, GK_ARRAY_COUNT(known), where, err) : status;
}

static enum gk_status rung_from_json(const struct gk_json *json, struct gk_rung *rung,
                                     struct gk_err *err)
{
    static const char where[] = "record: rungs";
    static const char *const known[] = {"name",        "passed",    "compared",   "failed",
                                        "worst_index", "worst_got", "worst_want", "worst_bound",
                                        "norm_error",  "tensor"};
    enum gk_status status = GK_OK;
    if ((status = need_text(json, "name", rung->name, sizeof rung->name, where, err)) ||
        (status = need_bool(json, "passed", &rung->passed, where, err)) ||
        (status = gk_json_need_int(json, "compared", 0, INT64_MAX, &rung->compared, where, err)) ||
        (status = gk_json_need_int(json, "failed", 0, INT64_MAX, &rung->failed, where, err)) ||
        (status = gk_json_need_int(json, "worst_index", -1, INT64_MAX, &rung->worst_index, where,
                                   err)) ||
        (status = need_any_real(json, "worst_got", &rung->worst_got, where, err)) ||
        (status = need_any_real(json, "worst_want", &rung->worst_want, where, err)) ||
        (status = need_any_real(json, "worst_bound", &rung->worst_bound, where, err)) ||
        (status = need_any_real(json, "norm_error", &rung->norm_error, where, err)) ||
        (status = need_text(json, "tensor", rung->tensor, sizeof rung->tensor, where, err))) {
        return status;
    }
    return refuse_others(json, known, GK_ARRAY_COUNT(known), where, err);
}

enum gk_status gk_rungs_check(const struct gk_json *list, struct gk_err *err)
{
    struct gk_rung rung;
    size_t count = gk_json_count(list);
    if (!gk_json_is(list, GK_JSON_ARRAY) || count > GK_RUNGS_MAX) {
        return gk_fail(err, GK_INPUT, "rungs: a list of at most %d is needed", GK_RUNGS_MAX);
    }
    enum gk_status status = GK_OK;
    for (size_t i = 0; status == GK_OK && i < count; i++) {
        status = rung_from_json(gk_json_at(list, i), &rung, err);
    }
    return status;
}

static enum gk_status outcome_from_json(const struct gk_json *json, struct gk_record *record,
                                        struct gk_err *err)
{
    const char *stage = NULL, *failure = NULL, *message = NULL;
    enum gk_status status = GK_OK;
    if ((status = gk_json_need_string(json, "stage", GK_NAME_MAX, &stage, "record", err)) ||
        (status = gk_json_need_string(json, "failure", GK_NAME_MAX, &failure, "record", err))) {
        return status;
    }
    if (!gk_stage_from_name(stage, &record->stage)) {
        return gk_fail(err, GK_INPUT, "record: stage '%s' is not known", stage);
    }
    if (!gk_failure_from_name(failure, &record->failure)) {
        return gk_fail(err, GK_INPUT, "record: failure '%s' is not known", failure);
    }
    if (record->stage == GK_STAGE_DONE && record->failure != GK_FAILURE_NONE) {
        return gk_fail(err, GK_INPUT, "record: stage 'done' contradicts failure '%s'", failure);
    }
    if (gk_json_get(json, "message")) {
        status =
            gk_json_need_string(json, "message", GK_RECORD_MESSAGE_MAX, &message, "record", err);
        if (status != GK_OK) {
            return status;
        }
        record->message = gk_strdup(message);
        if (!record->message) {
            return gk_fail(err, GK_NOMEM, "record: out of memory");
        }
    }
    return GK_OK;
}

static enum gk_status lists_from_json(const struct gk_json *json, struct gk_record *record,
                                      struct gk_err *err)
{
    const struct gk_json *list = NULL;
    enum gk_status status =
        need_list(json, "samples_ns", GK_SAMPLES_MAX, &list, &record->sample_count, err);
    for (uint32_t i = 0; status == GK_OK && i < record->sample_count; i++) {
        const struct gk_json *sample = gk_json_at(list, i);
        char shown[GK_JSON_SHOW_SIZE];
        if ((!gk_json_is(sample, GK_JSON_REAL) && !gk_json_is(sample, GK_JSON_INT)) ||
            gk_json_real(sample, 0) < 0) {
            gk_json_show(sample, shown);
            return gk_fail(err, GK_INPUT,
                           "record: samples_ns[%" PRIu32 "] is %s; a time in ns is needed", i,
                           shown);
        }
        record->samples_ns[i] = gk_json_real(sample, 0);
    }
    if (status == GK_OK && gk_json_get(json, "samples_taken")) {
        int64_t taken = 0;
        status = gk_json_need_int(json, "samples_taken", 1, GK_SAMPLES_MAX, &taken, "record", err);
        record->samples_taken = (uint32_t)taken;
    }
    if (status == GK_OK) {
        status = need_list(json, "kernels", GK_LAUNCHES_MAX, &list, &record->kernel_count, err);
    }
    for (uint32_t i = 0; status == GK_OK && i < record->kernel_count; i++) {
        status = kernel_from_json(gk_json_at(list, i), &record->kernels[i], err);
    }
    if (status == GK_OK) {
        status = need_list(json, "rungs", GK_RUNGS_MAX, &list, &record->rung_count, err);
    }
    for (uint32_t i = 0; status == GK_OK && i < record->rung_count; i++) {
        status = rung_from_json(gk_json_at(list, i), &record->rungs[i], err);
    }
    return status;
}

static enum gk_status marks_from_json(const struct gk_json *list, uint32_t *marks_out,
                                      struct gk_err *err)
{
    uint32_t marks = 0;
    for (size_t i = 0; i < gk_json_count(list); i++) {
        const char *name = gk_json_string(gk_json_at(list, i), "");
        uint32_t mark = 0;
        while (mark < GK_MARK_COUNT && strcmp(mark_names[mark], name) != 0) {
            mark++;
        }
        if (mark == GK_MARK_COUNT) {
            return gk_fail(err, GK_INPUT, "record: no such mark: '%s'", name);
        }
        marks |= 1u << mark;
    }
    *marks_out = marks;
    return GK_OK;
}

static enum gk_status costs_from_json(const struct gk_json *json, struct gk_record *record,
                                      struct gk_err *err)
{
    static const char where[] = "record";
    int64_t input_set = 0;
    enum gk_status status = GK_OK;
    if ((status = need_bool(json, "modelled", &record->modelled, where, err)) ||
        (status = need_real(json, "time_ns", 0, &record->time_ns, where, err)) ||
        (status = need_real(json, "plan_ns", 0, &record->plan_ns, where, err)) ||
        (status = gk_json_need_int(json, "input_set", 0, UINT32_MAX, &input_set, where, err)) ||
        (status = need_bool(json, "compile_cached", &record->compile_cached, where, err)) ||
        (status = need_real(json, "compile_ns", 0, &record->compile_ns, where, err)) ||
        (status = need_real(json, "verify_ns", 0, &record->verify_ns, where, err)) ||
        (status = need_real(json, "measure_ns", 0, &record->measure_ns, where, err))) {
        return status;
    }
    record->input_set = (uint32_t)input_set;
    if (gk_json_get(json, "gpu_verify_ns")) {
        status = need_real(json, "gpu_verify_ns", 0, &record->gpu_verify_ns, where, err);
    }
    if (status == GK_OK && gk_json_get(json, "gpu_measure_ns")) {
        status = need_real(json, "gpu_measure_ns", 0, &record->gpu_measure_ns, where, err);
    }
    if (status == GK_OK) {
        status = marks_from_json(gk_json_get(json, "marks"), &record->marks, err);
    }
    if (status != GK_OK) {
        return status;
    }
    if (gk_json_get(json, "code_id")) {
        const char *hex = NULL;
        status = gk_json_need_string(json, "code_id", GK_HASH_TEXT_SIZE - 1, &hex, where, err);
        if (status == GK_OK && !gk_hash_from_hex(hex, &record->code_id)) {
            return gk_fail(err, GK_INPUT, "record: code_id '%s' is not 64 hex digits", hex);
        }
    }
    return status;
}

enum gk_status gk_record_check_extra(const struct gk_json *holder, const char *key,
                                     const char *where, struct gk_err *err)
{
    const struct gk_json *extra = NULL;
    struct gk_buf text = {0};
    if (!gk_json_get(holder, key)) {
        return GK_OK;
    }
    enum gk_status status = gk_json_need(holder, key, GK_JSON_OBJECT, &extra, where, err);
    if (status == GK_OK) {
        status = gk_json_canonical(extra, &text, err);
    }
    if (status == GK_OK && text.size > GK_RECORD_EXTRA_MAX) {
        status = gk_fail(err, GK_LIMIT, "%s: %s has %zu bytes, at most %d are allowed", where, key,
                         text.size, GK_RECORD_EXTRA_MAX);
    }
    gk_buf_fini(&text);
    return status;
}

static enum gk_status extras_from_json(const struct gk_json *json, struct gk_record *record,
                                       struct gk_err *err)
{
    const struct {
        const char *key;
        struct gk_json **out;
    } extras[] = {{"counts", &record->counts}, {"environment", &record->environment}};
    for (size_t i = 0; i < GK_ARRAY_COUNT(extras); i++) {
        enum gk_status status = gk_record_check_extra(json, extras[i].key, "record", err);
        if (status != GK_OK) {
            return status;
        }
        const struct gk_json *object = gk_json_get(json, extras[i].key);
        *extras[i].out = object ? gk_json_copy(object) : NULL;
        if (object && !*extras[i].out) {
            return gk_fail(err, GK_NOMEM, "record: out of memory");
        }
    }
    return GK_OK;
}

enum gk_status gk_record_from_json(const struct gk_json *json, struct gk_record *record_out,
                                   struct gk_err *err)
{
    static const char *const known[] = {
        "stage",          "failure",     "message",       "modelled",       "time_ns",
        "plan_ns",        "samples_ns",  "kernels",       "rungs",          "input_set",
        "compile_cached", "compile_ns",  "verify_ns",     "measure_ns",     "code_id",
        "counts",         "environment", "gpu_verify_ns", "gpu_measure_ns", "marks",
        "samples_taken"};
    struct gk_record *record = malloc(sizeof *record); /* 10 KB: kept off small stacks */
    enum gk_status status = GK_OK;
    if (!record) {
        return gk_fail(err, GK_NOMEM, "record: out of memory");
    }
    gk_record_init(record);
    if ((status = outcome_from_json(json, record, err)) ||
        (status = costs_from_json(json, record, err)) ||
        (status = lists_from_json(json, record, err)) ||
        (status = extras_from_json(json, record, err)) ||
        (status = refuse_others(json, known, GK_ARRAY_COUNT(known), "record", err))) {
        gk_record_fini(record);
    } else {
        *record_out = *record; /* with what it owns */
    }
    free(record);
    return status;
}
