/* Scripted outcomes: see device_mock.h. */
#include "worker/device_mock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/json.h"

#define SCRIPT_MAX  (1u << 20)
#define WAIT_MS_MAX 3600000

static const char *const outcome_names[GK_MOCK_OUTCOME_COUNT] = {
    "ok",   "compile_error", "wrong", "nan", "hang",  "die",
    "slow", "out_of_bounds", "lose",  "ecc", "hungry"};

static enum gk_status read_outcome(const char *text, enum gk_mock_outcome *outcome_out,
                                   struct gk_err *err)
{
    for (int i = 0; i < GK_MOCK_OUTCOME_COUNT; i++) {
        if (strcmp(text, outcome_names[i]) == 0) {
            *outcome_out = (enum gk_mock_outcome)i;
            return GK_OK;
        }
    }
    return gk_fail(
        err, GK_INPUT,
        "outcome \"%.60s\"; ok, compile_error, wrong, nan, hang, die, slow, out_of_bounds, lose, "
        "ecc and hungry are allowed",
        text);
}

/* An expression given as text, or a number as it stands. */
static enum gk_status evaluate(const struct gk_json *json, const struct gk_plan *plan,
                               double *value_out, struct gk_err *err)
{
    struct gk_expr *expr = NULL;
    if (!gk_json_is(json, GK_JSON_STRING)) {
        *value_out = gk_json_real(json, gk_json_bool(json, false) ? 1 : 0);
        return GK_OK;
    }
    enum gk_status status =
        gk_expr_compile(gk_json_string(json, ""), plan->template_->scope, &expr, err);
    if (status == GK_OK) {
        status = gk_expr_eval_real(expr, plan->slots, value_out, err);
    }
    gk_expr_destroy(expr);
    return status;
}

static enum gk_status apply_rule(const struct gk_json *rule, const struct gk_plan *plan,
                                 bool *holds_out, struct gk_mock_decision *decision,
                                 struct gk_err *err)
{
    const struct gk_json *when = gk_json_get(rule, "when");
    const struct gk_json *time = gk_json_get(rule, "time_ns");
    double holds = 1;
    enum gk_status status = when ? evaluate(when, plan, &holds, err) : GK_OK;
    if (status == GK_OK && holds != 0) {
        status = read_outcome(gk_json_get_string(rule, "outcome", "ok"), &decision->outcome, err);
        if (status == GK_OK && time) {
            status = evaluate(time, plan, &decision->time_ns, err);
        }
        const struct gk_json *twice = gk_json_get(rule, "twice_ns");
        if (status == GK_OK && twice) {
            status = evaluate(twice, plan, &decision->twice_ns, err);
        }
        if (status == GK_OK && !(decision->time_ns > 0)) {
            status =
                gk_fail(err, GK_RANGE, "time_ns is %g; more than 0 is allowed", decision->time_ns);
        }
    }
    *holds_out = holds != 0;
    return status;
}

static enum gk_status read_wait(const struct gk_json *json, const char *key, int64_t *value_out,
                                const char *where, struct gk_err *err)
{
    *value_out = 0;
    return gk_json_get(json, key)
               ? gk_json_need_int(json, key, 0, WAIT_MS_MAX, value_out, where, err)
               : GK_OK;
}

/* 10 to 100 us, by the config's text alone. */
static double pseudo_time(const char *config_text)
{
    uint32_t word = 0;
    struct gk_hash hash = gk_hash_text(config_text);
    memcpy(&word, hash.bytes, sizeof word);
    return 10000.0 + (double)(word % 90000);
}

enum gk_status gk_mock_decide(const char *root, const struct gk_plan *plan, const char *config_text,
                              struct gk_mock_decision *decision_out, struct gk_err *err)
{
    struct gk_mock_decision decision = {.outcome = GK_MOCK_OK, .time_ns = pseudo_time(config_text)};
    struct gk_json *script = NULL;
    enum gk_status status = GK_OK;
    char *path = gk_asprintf("%s/%s/mock.json", root, plan->op->fields.op);
    if (!path) {
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    if (access(path, F_OK) != 0) {
        goto out; /* no script: everything succeeds */
    }
    status = gk_json_load(path, SCRIPT_MAX, &script, err);
    if (status == GK_OK) {
        status = read_wait(script, "compile_ms", &decision.compile_ms, path, err);
    }
    if (status == GK_OK) {
        status = read_wait(script, "run_ms", &decision.run_ms, path, err);
    }
    const struct gk_json *rules = gk_json_get(script, "rules");
    bool holds = false;
    for (size_t i = 0; status == GK_OK && !holds && i < gk_json_count(rules); i++) {
        status = apply_rule(gk_json_at(rules, i), plan, &holds, &decision, err);
        if (status != GK_OK) {
            status = gk_fail_in(err, status, "%s: rule %zu", path, i);
        }
    }
out:
    if (status == GK_OK) {
        *decision_out = decision;
    }
    gk_json_free(script);
    free(path);
    return status;
}

void gk_mock_record(const struct gk_mock_decision *decision, uint32_t input_set, bool twice,
                    struct gk_record *record)
{
    record->input_set = input_set;
    switch (decision->outcome) {
    case GK_MOCK_COMPILE_ERROR:
        gk_record_fail(record, GK_STAGE_COMPILE, GK_FAILURE_COMPILE_ERROR,
                       "scripted: compile error");
        return;
    case GK_MOCK_WRONG:
        gk_record_fail(record, GK_STAGE_VERIFY, GK_FAILURE_WRONG, "scripted: wrong result");
        return;
    case GK_MOCK_NAN:
        gk_record_fail(record, GK_STAGE_VERIFY, GK_FAILURE_NONFINITE, "scripted: NaN");
        return;
    case GK_MOCK_OUT_OF_BOUNDS:
        gk_record_fail(record, GK_STAGE_RUN, GK_FAILURE_OUT_OF_BOUNDS, "scripted: out of bounds");
        return;
    case GK_MOCK_LOSE:
        gk_record_fail(record, GK_STAGE_RUN, GK_FAILURE_TRAP, "scripted: a trap");
        return;
    case GK_MOCK_ECC:
        gk_record_fail(record, GK_STAGE_RUN, GK_FAILURE_INFRA, "scripted: an ECC error");
        return;
    default:
        break;
    }
    record->stage = GK_STAGE_DONE;
    record->modelled = true;
    record->time_ns =
        decision->outcome == GK_MOCK_SLOW ? decision->time_ns * 100 : decision->time_ns;
    if (twice && decision->twice_ns > 0) {
        record->time_ns = decision->twice_ns;
        record->marks |= 1u << GK_MARK_L2_CARRIED;
    }
    record->samples_ns[0] = record->time_ns;
    record->sample_count = 1;
    struct gk_rung *rung = &record->rungs[record->rung_count++];
    *rung = (struct gk_rung){.passed = true, .worst_index = -1, .norm_error = -1};
    (void)snprintf(rung->name, sizeof rung->name, "reference");
}
