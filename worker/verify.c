/* Outputs against the reference: see verify.h. */
#include "worker/verify.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/generate.h"
#include "worker/numeric.h"

/* Counts of one pass over the elements. */
struct tally {
    int64_t failed, nonfinite, poisoned, too_large;
    int64_t first_nonfinite, first_poisoned, first_too_large;
    double worst_excess; /* err / bound of the worst element */
    double error_squares, want_squares;
};

struct gk_accept_rule gk_verify_rule(const struct gk_verify_input *input)
{
    enum gk_dtype dtype = input->tensor->dtype;
    return (struct gk_accept_rule){.roundoff = gk_dtype_roundoff(dtype),
                                   .scale = input->scale,
                                   .tiny = gk_dtype_tiny(dtype),
                                   .exact_max = gk_dtype_exact_max(dtype),
                                   .is_float = gk_dtype_is_float(dtype),
                                   .exact = input->exact,
                                   .check_magnitude = input->check_magnitude};
}

struct gk_judgement gk_verify_element(const struct gk_accept_rule *rule, enum gk_dtype dtype,
                                      const unsigned char *at, const double *pair,
                                      struct gk_accept_element *element_out)
{
    unsigned char poison[8], want_bits[8] = {0};
    uint32_t size = gk_dtype_bytes(dtype);
    gk_element_poison(dtype, poison);
    gk_element_store(dtype, want_bits, pair[0]);
    *element_out = (struct gk_accept_element){.got = gk_element_load(dtype, at),
                                              .want = pair[0],
                                              .magnitude = pair[1],
                                              .rounded = gk_element_load(dtype, want_bits),
                                              .same_bits = memcmp(at, want_bits, size) == 0,
                                              .is_poison = memcmp(at, poison, size) == 0};
    return gk_accept_judge(rule, element_out);
}

static void note_worst(struct gk_rung *rung, struct tally *tally, int64_t index,
                       const struct gk_accept_element *element, const struct gk_judgement *it)
{
    if (rung->worst_index < 0 || it->excess > tally->worst_excess) {
        tally->worst_excess = it->excess;
        rung->worst_index = index;
        rung->worst_got = element->got;
        rung->worst_want = element->want;
        rung->worst_bound = it->bound;
    }
}

static void count(struct tally *tally, int64_t index, double want, const struct gk_judgement *it)
{
    tally->failed += it->good ? 0 : 1;
    if (it->nonfinite && tally->nonfinite++ == 0) {
        tally->first_nonfinite = index;
    }
    if (it->poisoned && tally->poisoned++ == 0) {
        tally->first_poisoned = index;
    }
    if (it->too_large && tally->too_large++ == 0) {
        tally->first_too_large = index;
    }
    if (it->summed) {
        tally->error_squares += it->norm_error * it->norm_error;
        tally->want_squares += want * want;
    }
}

double gk_verify_norm(double error_squares, double want_squares)
{
    return want_squares > 0 ? sqrt(error_squares / want_squares) : error_squares > 0 ? INFINITY : 0;
}

static void walk(const struct gk_verify_input *input, struct gk_rung *rung, struct tally *tally)
{
    const struct gk_plan_tensor *tensor = input->tensor;
    uint32_t size = gk_dtype_bytes(tensor->dtype);
    const struct gk_accept_rule rule = gk_verify_rule(input);
    for (int64_t i = 0; i < input->compare; i++) {
        struct gk_accept_element element;
        const unsigned char *at = input->got + (size_t)gk_tensor_position(tensor, i) * size;
        struct gk_judgement it =
            gk_verify_element(&rule, tensor->dtype, at, input->pairs + 2 * i, &element);
        count(tally, i, element.want, &it);
        note_worst(rung, tally, i, &element, &it);
    }
    rung->compared = input->compare;
    rung->failed = tally->failed;
    rung->norm_error = gk_verify_norm(tally->error_squares, tally->want_squares);
}

/* Elements of the buffer that are no logical element must still be poison. */
static enum gk_status padding_changed(const struct gk_plan_tensor *tensor, const unsigned char *got,
                                      int64_t *changed_out, int64_t *first_out, struct gk_err *err)
{
    uint32_t size = gk_dtype_bytes(tensor->dtype);
    unsigned char poison[8];
    *changed_out = 0;
    if (tensor->span <= tensor->elements) {
        return GK_OK;
    }
    unsigned char *used = calloc(1, (size_t)tensor->span);
    if (!used) {
        return gk_fail(err, GK_NOMEM, "out of memory for the padding of %s", tensor->def->name);
    }
    gk_element_poison(tensor->dtype, poison);
    for (int64_t i = 0; i < tensor->elements; i++) {
        used[gk_tensor_position(tensor, i)] = 1;
    }
    for (int64_t i = 0; i < tensor->span; i++) {
        if (!used[i] && memcmp(got + (size_t)i * size, poison, size) != 0 &&
            (*changed_out)++ == 0) {
            *first_out = i;
        }
    }
    free(used);
    return GK_OK;
}

static void fail_at(struct gk_verdict *verdict, enum gk_failure failure,
                    const struct gk_verify_input *input, int64_t count_failed, int64_t index,
                    const char *what)
{
    char place[160];
    const struct gk_plan_tensor *tensor = input->tensor;
    uint32_t size = gk_dtype_bytes(tensor->dtype);
    double got = gk_element_load(tensor->dtype,
                                 input->got + (size_t)gk_tensor_position(tensor, index) * size);
    gk_tensor_coordinates(tensor, index, place, sizeof place);
    verdict->failure = failure;
    (void)snprintf(verdict->text, sizeof verdict->text,
                   "%s: %" PRId64 " of %" PRId64 " elements %s, %s%s: got %.9g, want %.9g",
                   tensor->def->name, count_failed, input->compare, what,
                   failure == GK_FAILURE_WRONG ? "worst at " : "first at ", place, got,
                   input->pairs[2 * index]);
}

static void conclude(const struct gk_verify_input *input, const struct tally *tally,
                     struct gk_verdict *verdict)
{
    struct gk_rung *rung = &verdict->rung;
    if (tally->too_large) {
        fail_at(
            verdict, GK_FAILURE_REFERENCE, input, tally->too_large, tally->first_too_large,
            "have a magnitude that the type does not hold exactly (a mistake of op.json's exact)");
    } else if (tally->poisoned) {
        fail_at(verdict, GK_FAILURE_NEVER_WRITTEN, input, tally->poisoned, tally->first_poisoned,
                "were never written");
    } else if (tally->nonfinite) {
        fail_at(verdict, GK_FAILURE_NONFINITE, input, tally->nonfinite, tally->first_nonfinite,
                "differ in being finite");
    } else if (tally->failed) {
        char what[96];
        (void)snprintf(what, sizeof what, "are outside the bound (%.3g there)", rung->worst_bound);
        fail_at(verdict, GK_FAILURE_WRONG, input, tally->failed, rung->worst_index, what);
    } else if (!input->exact && input->norm >= 0 && !(rung->norm_error <= input->norm)) {
        verdict->failure = GK_FAILURE_WRONG;
        (void)snprintf(verdict->text, sizeof verdict->text,
                       "%s: relative error of the whole is %.3g, %.3g is allowed",
                       input->tensor->def->name, rung->norm_error, input->norm);
    }
}

enum gk_status gk_verify(const struct gk_verify_input *input, struct gk_verdict *verdict_out,
                         struct gk_err *err)
{
    struct gk_verdict verdict = {.rung = {.worst_index = -1, .norm_error = -1}};
    struct tally tally = {0};
    int64_t changed = 0, first = 0;
    (void)snprintf(verdict.rung.tensor, sizeof verdict.rung.tensor, "%s", input->tensor->def->name);
    enum gk_status status = padding_changed(input->tensor, input->got, &changed, &first, err);
    if (status != GK_OK) {
        return status;
    }
    walk(input, &verdict.rung, &tally);
    if (changed) {
        verdict.failure = GK_FAILURE_CANARY;
        (void)snprintf(verdict.text, sizeof verdict.text,
                       "%s: %" PRId64 " elements of padding changed, first at element %" PRId64
                       " of the buffer",
                       input->tensor->def->name, changed, first);
    } else {
        conclude(input, &tally, &verdict);
    }
    verdict.rung.passed = verdict.failure == GK_FAILURE_NONE;
    *verdict_out = verdict;
    return GK_OK;
}

int64_t gk_first_difference(const void *a, const void *b, size_t size)
{
    const unsigned char *x = a, *y = b;
    if (memcmp(x, y, size) == 0) {
        return -1;
    }
    size_t i = 0;
    while (x[i] == y[i]) {
        i++;
    }
    return (int64_t)i;
}
