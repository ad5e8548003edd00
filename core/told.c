/* See told.h. What is checked here and what it allows is what record.c checks and allows: whatever
 * it would refuse, or say no word about, is left to it. */
#include "core/told.h"

#include <string.h>

#include "core/json_view.h"

#define VALUES_MAX 1024

struct source {
    const struct gk_view *view;
    const struct gk_view_value *object;
    uint32_t taken; /* members asked for that were there */
};

void gk_told_fini(struct gk_told *told)
{
    if (told) {
        gk_record_fini(&told->record);
        gk_buf_fini(&told->kept);
        gk_buf_fini(&told->samples);
        gk_buf_fini(&told->environment);
    }
}

static void begin(struct gk_told *told)
{
    gk_record_fini(&told->record); /* also sets it to nothing known */
    gk_buf_reset(&told->kept);
    gk_buf_reset(&told->samples);
    gk_buf_reset(&told->environment);
}

/* ------------------------------------------------------------------ members */

static const struct gk_view_value *take(struct source *s, const char *key)
{
    const struct gk_view_value *value = gk_view_get(s->view, s->object, key);
    s->taken += value != NULL;
    return value;
}

static bool number_of(const struct gk_view_value *value, double *out)
{
    if (!value || (value->type != GK_JSON_REAL && value->type != GK_JSON_INT)) {
        return false;
    }
    *out = value->type == GK_JSON_REAL ? value->real : (double)value->integer;
    return true;
}

static bool take_time(struct source *s, const char *key, double *out)
{
    return number_of(take(s, key), out) && *out >= 0;
}

static bool take_int(struct source *s, const char *key, int64_t min, int64_t *out)
{
    const struct gk_view_value *value = take(s, key);
    if (!value || value->type != GK_JSON_INT || value->integer < min) {
        return false;
    }
    *out = value->integer;
    return true;
}

static bool take_bool(struct source *s, const char *key, bool *out)
{
    const struct gk_view_value *value = take(s, key);
    if (!value || value->type != GK_JSON_BOOL) {
        return false;
    }
    *out = value->integer != 0;
    return true;
}

static bool text_of(const struct source *s, const struct gk_view_value *value, char *out,
                    size_t size)
{
    if (!value || value->type != GK_JSON_STRING || value->escaped || value->size >= size) {
        return false;
    }
    memcpy(out, s->view->text + value->at, value->size);
    out[value->size] = '\0';
    return true;
}

static bool take_text(struct source *s, const char *key, char *out, size_t size)
{
    return text_of(s, take(s, key), out, size);
}

static bool take_list(struct source *s, const char *key, const struct gk_view_value **out)
{
    *out = take(s, key);
    return *out && (*out)->type == GK_JSON_ARRAY;
}

/* No member of the object is left that nobody asked for. */
static bool all_taken(const struct source *s)
{
    uint32_t cursor = 0, members = 0;
    while (gk_view_next(s->view, s->object, &cursor)) {
        members++;
    }
    return members == 2 * s->taken; /* keys and values */
}

/* ------------------------------------------------------------------ parts of a record */

static bool read_kernel(struct source s, struct gk_kernel_resources *k)
{
    return take_text(&s, "kernel", k->kernel, sizeof k->kernel) &&
           take_int(&s, "regs", -1, &k->regs) && take_int(&s, "spill_bytes", -1, &k->spill_bytes) &&
           take_int(&s, "static_smem", -1, &k->static_smem) &&
           take_int(&s, "dynamic_smem", -1, &k->dynamic_smem) &&
           take_int(&s, "blocks_per_sm", -1, &k->blocks_per_sm) &&
           take_int(&s, "threads", -1, &k->threads) && all_taken(&s);
}

static bool read_rung(struct source s, struct gk_rung *rung)
{
    return take_text(&s, "name", rung->name, sizeof rung->name) &&
           take_bool(&s, "passed", &rung->passed) && take_int(&s, "compared", 0, &rung->compared) &&
           take_int(&s, "failed", 0, &rung->failed) &&
           take_int(&s, "worst_index", -1, &rung->worst_index) &&
           number_of(take(&s, "worst_got"), &rung->worst_got) &&
           number_of(take(&s, "worst_want"), &rung->worst_want) &&
           number_of(take(&s, "worst_bound"), &rung->worst_bound) &&
           number_of(take(&s, "norm_error"), &rung->norm_error) &&
           take_text(&s, "tensor", rung->tensor, sizeof rung->tensor) && all_taken(&s);
}

static bool read_lists(struct source *s, struct gk_record *record)
{
    const struct gk_view_value *list, *item;
    uint32_t cursor = 0;
    if (!take_list(s, "samples_ns", &list)) {
        return false;
    }
    while ((item = gk_view_next(s->view, list, &cursor))) {
        if (record->sample_count == GK_SAMPLES_MAX ||
            !number_of(item, &record->samples_ns[record->sample_count]) ||
            record->samples_ns[record->sample_count++] < 0) {
            return false;
        }
    }
    if (!take_list(s, "kernels", &list)) {
        return false;
    }
    for (cursor = 0; (item = gk_view_next(s->view, list, &cursor));) {
        struct source part = {s->view, item, 0};
        if (record->kernel_count == GK_LAUNCHES_MAX ||
            !read_kernel(part, &record->kernels[record->kernel_count++])) {
            return false;
        }
    }
    if (!take_list(s, "rungs", &list)) {
        return false;
    }
    for (cursor = 0; (item = gk_view_next(s->view, list, &cursor));) {
        struct source part = {s->view, item, 0};
        if (record->rung_count == GK_RUNGS_MAX ||
            !read_rung(part, &record->rungs[record->rung_count++])) {
            return false;
        }
    }
    return true;
}

static bool read_outcome(struct source *s, struct gk_record *record)
{
    char stage[GK_NAME_MAX + 1], failure[GK_NAME_MAX + 1];
    const struct gk_view_value *message = take(s, "message");
    if (!take_text(s, "stage", stage, sizeof stage) ||
        !take_text(s, "failure", failure, sizeof failure) ||
        !gk_stage_from_name(stage, &record->stage) ||
        !gk_failure_from_name(failure, &record->failure) ||
        (record->stage == GK_STAGE_DONE && record->failure != GK_FAILURE_NONE)) {
        return false;
    }
    if (message) {
        if (message->type != GK_JSON_STRING || message->escaped ||
            message->size > GK_RECORD_MESSAGE_MAX) {
            return false;
        }
        record->message = gk_strndup(s->view->text + message->at, message->size);
    }
    return !message || record->message;
}

static bool read_marks(struct source *s, uint32_t *marks_out)
{
    const struct gk_view_value *list = take(s, "marks"), *item;
    uint32_t cursor = 0;
    if (list && list->type != GK_JSON_ARRAY) {
        return false;
    }
    while (list && (item = gk_view_next(s->view, list, &cursor))) {
        uint32_t mark = 0;
        while (mark < GK_MARK_COUNT && !gk_view_is(s->view, item, gk_mark_name(mark))) {
            mark++;
        }
        if (mark == GK_MARK_COUNT || item->type != GK_JSON_STRING) {
            return false;
        }
        *marks_out |= 1u << mark;
    }
    return true;
}

static bool read_costs(struct source *s, struct gk_record *record)
{
    int64_t input_set = 0;
    char code_id[GK_HASH_TEXT_SIZE];
    if (!take_bool(s, "modelled", &record->modelled) ||
        !take_time(s, "time_ns", &record->time_ns) || !take_time(s, "plan_ns", &record->plan_ns) ||
        !take_int(s, "input_set", 0, &input_set) || input_set > UINT32_MAX ||
        !take_bool(s, "compile_cached", &record->compile_cached) ||
        !take_time(s, "compile_ns", &record->compile_ns) ||
        !take_time(s, "verify_ns", &record->verify_ns) ||
        !take_time(s, "measure_ns", &record->measure_ns) || !read_marks(s, &record->marks)) {
        return false;
    }
    record->input_set = (uint32_t)input_set;
    const struct gk_view_value *verify = take(s, "gpu_verify_ns"),
                               *measure = take(s, "gpu_measure_ns"), *code = take(s, "code_id");
    return (!verify || (number_of(verify, &record->gpu_verify_ns) && record->gpu_verify_ns >= 0)) &&
           (!measure ||
            (number_of(measure, &record->gpu_measure_ns) && record->gpu_measure_ns >= 0)) &&
           (!code || (text_of(s, code, code_id, sizeof code_id) &&
                      gk_hash_from_hex(code_id, &record->code_id)));
}

/* ------------------------------------------------------------------ the texts */

static void add_span(struct gk_buf *buf, const struct gk_view *view, uint32_t from, uint32_t to)
{
    gk_buf_add(buf, view->text + from, to - from);
}

/* Keeps the object's text as it stands, but for two of its members. */
static bool cut_texts(const struct gk_view *view, const struct gk_view_value *object,
                      struct gk_told *told)
{
    uint32_t cursor = 0, from = object->at;
    bool any = false; /* a member is kept */
    const struct gk_view_value *key;
    while ((key = gk_view_next(view, object, &cursor))) {
        const struct gk_view_value *value = gk_view_next(view, object, &cursor);
        uint32_t end = value->at + value->size;     /* of a list or object */
        if (gk_view_is(view, key, "environment")) { /* with the comma on one side of it */
            add_span(&told->environment, view, value->at, end);
            add_span(&told->kept, view, from, key->at - 1 - any);
            from = end + (!any && view->text[end] == ',');
            continue;
        }
        any = true;
        if (gk_view_is(view, key, "samples_ns")) { /* see gk_record_drop_samples */
            add_span(&told->kept, view, from, value->at);
            gk_buf_puts(&told->kept, "[]");
            from = end;
            if (told->record.sample_count > 0) {
                gk_buf_puts(&told->kept, ",\"samples_taken\":");
                gk_json_put_int(&told->kept, told->record.sample_count);
                add_span(&told->samples, view, value->at, end);
            }
        }
    }
    add_span(&told->kept, view, from, object->at + object->size);
    return gk_buf_status(&told->kept, NULL) == GK_OK &&
           gk_buf_status(&told->samples, NULL) == GK_OK &&
           gk_buf_status(&told->environment, NULL) == GK_OK;
}

/* What is longer than allowed goes the other way, which says so. */
static bool is_extra(const struct gk_view_value *value)
{
    return !value || (value->type == GK_JSON_OBJECT && value->size <= GK_RECORD_EXTRA_MAX);
}

bool gk_told_from_body(const char *body, size_t size, struct gk_told *told)
{
    struct gk_view_value values[VALUES_MAX];
    struct gk_view view = {.values = values, .capacity = VALUES_MAX};
    if (!gk_view_parse(&view, body, size)) {
        return false;
    }
    struct source s = {&view, gk_view_get(&view, values, "record"), 0};
    if (!s.object || s.object->type != GK_JSON_OBJECT) {
        return false;
    }
    begin(told);
    bool good = read_outcome(&s, &told->record) && read_lists(&s, &told->record) &&
                read_costs(&s, &told->record);
    const struct gk_view_value *counts = take(&s, "counts"), *environment = take(&s, "environment");
    return good && is_extra(counts) && is_extra(environment) && all_taken(&s) &&
           cut_texts(&view, s.object, told);
}

enum gk_status gk_told_from_json(const struct gk_json *json, struct gk_told *told,
                                 struct gk_err *err)
{
    begin(told);
    enum gk_status status = gk_record_from_json(json, &told->record, err);
    if (status != GK_OK) {
        return status;
    }
    struct gk_json *kept = gk_json_new_object();
    const struct gk_json *samples = gk_json_get(json, "samples_ns"),
                         *environment = gk_json_get(json, "environment"), *value;
    void *cursor = NULL;
    const char *key;
    bool good = kept != NULL;
    while (good && (value = gk_json_next(json, &cursor, &key))) {
        good = strcmp(key, "environment") == 0 || strcmp(key, "samples_ns") == 0 ||
               gk_json_set(kept, key, gk_json_share(value));
    }
    good = good && gk_record_drop_samples(kept, samples, NULL) == GK_OK &&
           gk_json_canonical(kept, &told->kept, NULL) == GK_OK &&
           (gk_json_count(samples) == 0 ||
            gk_json_canonical(samples, &told->samples, NULL) == GK_OK) &&
           (!environment || gk_json_canonical(environment, &told->environment, NULL) == GK_OK);
    gk_json_free(kept);
    return good ? GK_OK : gk_fail(err, GK_NOMEM, "out of memory for a record");
}
