/* core/record: names, life, exact JSON over random records, every refusal. Writes
 * test_record.jsonl, which another case validates against schemas/record.schema.json. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/prng.h"
#include "core/record.h"
#include "tests/support/check.h"

static void names_are_inverse(void **state)
{
    (void)state;
    int stages = 0, failures = 0;
#define CHECK_STAGE(name, text)                                                                    \
    {                                                                                              \
        enum gk_stage stage = GK_STAGE_DONE;                                                       \
        assert_string_equal(gk_stage_name(GK_STAGE_##name), text);                                 \
        assert_true(gk_stage_from_name(text, &stage));                                             \
        assert_int_equal(stage, GK_STAGE_##name);                                                  \
        assert_int_equal(stage, stages++);                                                         \
    }
    GK_STAGE_MAP(CHECK_STAGE)
#define CHECK_FAILURE(name, text)                                                                  \
    {                                                                                              \
        enum gk_failure failure = GK_FAILURE_NONE;                                                 \
        assert_string_equal(gk_failure_name(GK_FAILURE_##name), text);                             \
        assert_true(gk_failure_from_name(text, &failure));                                         \
        assert_int_equal(failure, GK_FAILURE_##name);                                              \
        assert_int_equal(failure, failures++);                                                     \
    }
    GK_FAILURE_MAP(CHECK_FAILURE)
    enum gk_stage stage = GK_STAGE_RUN;
    enum gk_failure failure = GK_FAILURE_RACE;
    assert_false(gk_stage_from_name("Render", &stage));
    assert_false(gk_failure_from_name("", &failure));
    assert_int_equal(stage, GK_STAGE_RUN);
    assert_int_equal(failure, GK_FAILURE_RACE);
    assert_string_equal(gk_stage_name((enum gk_stage)99), "unknown_stage");
    assert_string_equal(gk_failure_name((enum gk_failure)99), "unknown_failure");
}

static void fail_bounds_and_cleans_its_message(void **state)
{
    (void)state;
    struct gk_record record;
    gk_record_init(&record);
    record.time_ns = 5;
    gk_record_fail(&record, GK_STAGE_RUN, GK_FAILURE_RACE, "line %d", 7);
    assert_string_equal(record.message, "line 7");
    assert_int_equal(record.stage, GK_STAGE_RUN);
    assert_int_equal(record.failure, GK_FAILURE_RACE);
    assert_true(record.time_ns == 0);
    gk_record_fail(&record, GK_STAGE_LOAD, GK_FAILURE_LOAD_ERROR, "bad \xff byte");
    assert_string_equal(record.message, "bad ? byte");
    struct gk_buf buf = {0};
    for (int i = 0; i < 5000; i++) {
        gk_buf_puts(&buf, "\xC3\xA9");
    }
    gk_record_fail(&record, GK_STAGE_COMPILE, GK_FAILURE_COMPILE_ERROR, "x%s", gk_buf_text(&buf));
    size_t length = strlen(record.message), bad = 0;
    assert_in_range(length, GK_RECORD_MESSAGE_MAX - 2, GK_RECORD_MESSAGE_MAX);
    assert_true(gk_utf8_check(record.message, length, &bad));
    assert_string_equal(record.message + length - 3, "...");
    assert_int_equal(record.message[length - 4], '\xA9');
    gk_buf_fini(&buf);
    gk_record_fini(&record);
    gk_record_fini(&record);
    gk_record_fini(NULL);
    assert_int_equal(record.stage, GK_STAGE_RENDER);
}

static double any_time(struct gk_prng *prng)
{
    return gk_prng_unit(prng) * 1e9;
}

static double any_value(struct gk_prng *prng)
{
    switch (gk_prng_below(prng, 8)) {
    case 0:
        return (double)NAN;
    case 1:
        return (double)INFINITY;
    case 2:
        return -(double)INFINITY;
    case 3:
        return -1;
    default:
        return (gk_prng_unit(prng) - 0.5) * exp2((double)gk_prng_below(prng, 200) - 100);
    }
}

static void random_rungs(struct gk_prng *prng, struct gk_record *r)
{
    r->rung_count = (uint32_t)gk_prng_below(prng, GK_RUNGS_MAX + 1);
    for (uint32_t i = 0; i < r->rung_count; i++) {
        struct gk_rung *rung = &r->rungs[i];
        snprintf(rung->name, sizeof rung->name, "rung%d", (int)i);
        snprintf(rung->tensor, sizeof rung->tensor, "%s", gk_prng_below(prng, 2) ? "C" : "");
        rung->passed = gk_prng_below(prng, 2);
        rung->compared = (int64_t)(gk_prng_u64(prng) >> 1);
        rung->failed = (int64_t)gk_prng_below(prng, 1000);
        rung->worst_index = (int64_t)gk_prng_below(prng, 1000) - 1;
        rung->worst_got = any_value(prng);
        rung->worst_want = any_value(prng);
        rung->worst_bound = any_value(prng);
        rung->norm_error = any_value(prng);
    }
}

static void random_record(struct gk_prng *prng, struct gk_record *r)
{
    gk_record_init(r);
    r->failure = (enum gk_failure)gk_prng_below(prng, GK_FAILURE_INFRA + 1);
    r->stage = (enum gk_stage)gk_prng_below(prng, r->failure ? GK_STAGE_DONE : GK_STAGE_DONE + 1);
    if (gk_prng_below(prng, 2)) {
        r->message = gk_strdup("line 3: \"C[7]\" is wrong\n\tand caf\xC3\xA9");
    }
    r->modelled = gk_prng_below(prng, 2);
    r->time_ns = gk_prng_below(prng, 2) ? any_time(prng) : 100; /* 100.0 stays a real */
    r->plan_ns = any_time(prng);
    r->sample_count = (uint32_t)gk_prng_below(prng, GK_SAMPLES_MAX + 1);
    for (uint32_t i = 0; i < r->sample_count; i++) {
        r->samples_ns[i] = any_time(prng);
    }
    r->kernel_count = (uint32_t)gk_prng_below(prng, GK_LAUNCHES_MAX + 1);
    for (uint32_t i = 0; i < r->kernel_count; i++) {
        struct gk_kernel_resources *k = &r->kernels[i];
        snprintf(k->kernel, sizeof k->kernel, "kernel_%d", (int)i);
        k->regs = (int64_t)gk_prng_below(prng, 256) - 1;
        k->spill_bytes = (int64_t)gk_prng_below(prng, 256) - 1;
        k->static_smem = (int64_t)gk_prng_below(prng, 1 << 20) - 1;
        k->dynamic_smem = (int64_t)gk_prng_below(prng, 1 << 20) - 1;
        k->blocks_per_sm = (int64_t)gk_prng_below(prng, 32) - 1;
        k->threads = (int64_t)gk_prng_below(prng, 1024) - 1;
    }
    random_rungs(prng, r);
    r->input_set = (uint32_t)gk_prng_below(prng, 4);
    r->compile_cached = gk_prng_below(prng, 2);
    r->compile_ns = any_time(prng);
    r->verify_ns = any_time(prng);
    r->measure_ns = any_time(prng);
    r->gpu_verify_ns = gk_prng_below(prng, 2) ? any_time(prng) : -1;
    r->gpu_measure_ns = gk_prng_below(prng, 2) ? any_time(prng) : -1;
    r->marks = (uint32_t)gk_prng_below(prng, 1u << GK_MARK_COUNT);
    if (gk_prng_below(prng, 2)) {
        for (int i = 0; i < GK_HASH_SIZE; i++) {
            r->code_id.bytes[i] = (uint8_t)gk_prng_u32(prng);
        }
    }
    if (gk_prng_below(prng, 2)) {
        r->counts = gk_json_new_object();
        assert_true(gk_json_set_int(r->counts, "sectors", (int64_t)gk_prng_below(prng, 1000)));
        r->environment = gk_json_new_object();
        assert_true(gk_json_set_string(r->environment, "host", "one"));
    }
}

static bool same_real(double a, double b)
{
    return isnan(a) ? isnan(b) : a == b;
}

static void assert_same(const struct gk_record *a, const struct gk_record *b)
{
    assert_int_equal(a->stage, b->stage);
    assert_int_equal(a->failure, b->failure);
    assert_int_equal(a->message == NULL, b->message == NULL);
    if (a->message) {
        assert_string_equal(a->message, b->message);
    }
    assert_int_equal(a->modelled, b->modelled);
    assert_true(a->time_ns == b->time_ns && a->plan_ns == b->plan_ns);
    assert_int_equal(a->sample_count, b->sample_count);
    assert_memory_equal(a->samples_ns, b->samples_ns, sizeof a->samples_ns);
    assert_int_equal(a->kernel_count, b->kernel_count);
    assert_memory_equal(a->kernels, b->kernels, sizeof a->kernels);
    assert_int_equal(a->rung_count, b->rung_count);
    for (uint32_t i = 0; i < a->rung_count; i++) {
        const struct gk_rung *x = &a->rungs[i], *y = &b->rungs[i];
        assert_string_equal(x->name, y->name);
        assert_string_equal(x->tensor, y->tensor);
        assert_int_equal(x->passed, y->passed);
        assert_true(x->compared == y->compared && x->failed == y->failed &&
                    x->worst_index == y->worst_index);
        assert_true(
            same_real(x->worst_got, y->worst_got) && same_real(x->worst_want, y->worst_want) &&
            same_real(x->worst_bound, y->worst_bound) && same_real(x->norm_error, y->norm_error));
    }
    assert_int_equal(a->input_set, b->input_set);
    assert_int_equal(a->compile_cached, b->compile_cached);
    assert_true(a->compile_ns == b->compile_ns && a->verify_ns == b->verify_ns &&
                a->measure_ns == b->measure_ns);
    assert_true(a->gpu_verify_ns == b->gpu_verify_ns && a->gpu_measure_ns == b->gpu_measure_ns);
    assert_int_equal(a->marks, b->marks);
    assert_true(gk_hash_equal(&a->code_id, &b->code_id));
    assert_int_equal(a->counts == NULL, b->counts == NULL);
    assert_true(!a->counts || gk_json_equal(a->counts, b->counts));
    assert_true(!a->environment || gk_json_equal(a->environment, b->environment));
}

/* Property: through JSON, through text and back, nothing changes. */
static void json_is_exact(void **state)
{
    (void)state;
    static struct gk_record record, back;
    struct gk_prng prng;
    struct gk_buf lines = {0};
    struct gk_err err;
    gk_prng_init(&prng, 4, 0);
    for (int i = 0; i < 300; i++) {
        if (i) {
            random_record(&prng, &record);
        }
        if (i > 0 && i <= GK_FAILURE_INFRA) { /* every failure at least once, for the schema */
            record.failure = (enum gk_failure)i;
            record.stage = (enum gk_stage)(i % GK_STAGE_DONE);
        }
        if (i == 0) {
            gk_record_init(&record); /* an empty one too */
        }
        struct gk_json *json = gk_record_to_json(&record), *parsed = NULL;
        char *text = gk_json_text(json);
        assert_ok(gk_json_parse(text, strlen(text), "record", &parsed, &err), err);
        assert_ok(gk_record_from_json(parsed, &back, &err), err);
        assert_same(&record, &back);
        struct gk_json *again = gk_record_to_json(&back);
        assert_true(gk_json_equal(json, again));
        if (i < 40) {
            gk_buf_puts(&lines, text);
            gk_buf_putc(&lines, '\n');
        }
        gk_json_free(json);
        gk_json_free(parsed);
        gk_json_free(again);
        free(text);
        gk_record_fini(&record);
        gk_record_fini(&back);
    }
    assert_ok(gk_file_store("test_record.jsonl", lines.data, lines.size, &err), err);
    gk_buf_fini(&lines);
}

/* Replaces the member `key` by the JSON text (or takes `text` as the member of rungs[0] or
 * kernels[0]) and demands the message. */
static void assert_refused(const char *list, const char *key, const char *text, const char *want,
                           struct gk_buf *invalid)
{
    static struct gk_record record, back;
    struct gk_err err;
    gk_record_init(&record);
    record.rung_count = record.kernel_count = record.sample_count = 1;
    snprintf(record.rungs[0].name, sizeof record.rungs[0].name, "exact");
    struct gk_json *json = gk_record_to_json(&record), *value = NULL;
    assert_ok(gk_json_parse(text, strlen(text), "value", &value, &err), err);
    struct gk_json *object = json;
    if (list) { /* lent as const; the record is ours */
        object = (struct gk_json *)(uintptr_t)gk_json_at(gk_json_get(json, list), 0);
    }
    assert_true(gk_json_set(object, key, value));
    enum gk_status status = gk_record_from_json(json, &back, &err);
    assert_int_not_equal(status, GK_OK);
    assert_contains(err.text, want);
    assert_ok(gk_json_canonical(json, invalid, &err), err);
    gk_buf_putc(invalid, '\n');
    gk_json_free(json);
    gk_record_fini(&record);
}

static void refusals_name_the_member(void **state)
{
    (void)state;
    struct gk_buf bad = {0};
    struct gk_err err;
    assert_refused(NULL, "stage", "\"linking\"", "record: stage 'linking' is not known", &bad);
    assert_refused(NULL, "failure", "\"bad\"", "record: failure 'bad' is not known", &bad);
    assert_refused(NULL, "failure", "7", "record: \"failure\" is 7; a string is needed", &bad);
    assert_refused(NULL, "message", "7", "record: \"message\" is 7; a string is needed", &bad);
    assert_refused(NULL, "modelled", "1", "record: \"modelled\" is 1; true or false is needed",
                   &bad);
    assert_refused(NULL, "time_ns", "-1", "record: \"time_ns\" is -1; at least 0 is allowed", &bad);
    assert_refused(NULL, "plan_ns", "\"1\"", "record: \"plan_ns\" is \"1\"; a number is needed",
                   &bad);
    assert_refused(NULL, "samples_ns", "[1.5,null]",
                   "record: samples_ns[1] is null; a time in ns is needed", &bad);
    assert_refused(NULL, "samples_ns", "{}", "record: \"samples_ns\" is {}; a list is needed",
                   &bad);
    assert_refused(NULL, "kernels", "[0,0,0,0,0,0,0,0,0]",
                   "record: \"kernels\" has 9 entries; at most 8", &bad);
    assert_refused(NULL, "kernels", "[0]", "record: kernels: an integer where an object is needed",
                   &bad);
    assert_refused(NULL, "input_set", "-1", "record: \"input_set\" is -1; 0 to", &bad);
    assert_refused(NULL, "code_id", "\"abc\"", "record: code_id 'abc' is not 64 hex digits", &bad);
    assert_refused(NULL, "counts", "[]", "record: \"counts\" is []; an object is needed", &bad);
    assert_refused(NULL, "time", "1", "record: \"time\" is not a member of it", &bad);
    assert_refused("kernels", "regs", "-2", "record: kernels: \"regs\" is -2; -1 to", &bad);
    assert_refused("kernels", "spills", "1", "record: kernels: \"spills\" is not a member of it",
                   &bad);
    assert_refused("rungs", "worst_got", "\"NaN\"",
                   "record: rungs: \"worst_got\" is \"NaN\"; a number is needed", &bad);
    assert_refused("rungs", "worst_index", "-2", "record: rungs: \"worst_index\" is -2; -1 to",
                   &bad);
    assert_refused("rungs", "name", "\"a name that is longer than thirty-one\"",
                   "at most 31 are allowed", &bad);
    assert_refused("rungs", "bound", "1", "record: rungs: \"bound\" is not a member of it", &bad);
    assert_ok(gk_file_store("test_record_bad.jsonl", bad.data, bad.size, &err), err);
    gk_buf_fini(&bad);
    static struct gk_record back;
    struct gk_json *json = gk_json_new_object();
    assert_status(gk_record_from_json(json, &back, &err), GK_INPUT, err);
    assert_string_equal(err.text, "record: \"stage\" is missing; a string is needed");
    assert_true(gk_json_set_string(json, "stage", "done") &&
                gk_json_set_string(json, "failure", "race"));
    assert_status(gk_record_from_json(json, &back, &err), GK_INPUT, err);
    assert_string_equal(err.text, "record: stage 'done' contradicts failure 'race'");
    gk_json_free(json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_inverse),
        cmocka_unit_test(fail_bounds_and_cleans_its_message),
        cmocka_unit_test(json_is_exact),
        cmocka_unit_test(refusals_name_the_member),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
