/* Outputs against the reference on the device: see inspect.h. */
#include "worker/inspect/inspect.h"

#include <float.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "worker/generate.h"
#include "worker/inspect/inspect_inside.h"
#include "worker/numeric.h"

#define UNROLL 4 /* kUnroll of inspect.cu */
/* Sums come out the same on every device, so the grid hangs on the number of elements alone. This
 * is two rounds of an H200: 132 SMs with room for three blocks of some 80 registers a thread (a
 * bound of four blocks made ptxas spill). */
#define BLOCKS_MAX 792

/* As inspect.cu lays them out. */
struct device_output {
    struct gk_accept_rule rule;
    uint64_t poison;
    int32_t dtype;
};

struct partial {
    uint32_t failed, nonfinite, poisoned, too_large; /* of one block */
    double error_squares, want_squares, excess;
    uint64_t worst; /* UINT64_MAX: no element */
};

/* All blocks together. */
struct total {
    int64_t failed, nonfinite, poisoned, too_large;
    double error_squares, want_squares, excess;
    uint64_t worst;
};

static uint64_t poison_bits(enum gk_dtype dtype)
{
    uint64_t bits = 0;
    gk_element_poison(dtype, &bits); /* little-endian on both sides */
    return bits;
}

static uint32_t blocks_for(int64_t elements)
{
    const int64_t blocks =
        (elements + GK_INSPECT_THREADS * UNROLL - 1) / (GK_INSPECT_THREADS * UNROLL);
    return (uint32_t)(blocks < BLOCKS_MAX ? blocks : BLOCKS_MAX);
}

static void fold(struct total *sum, const struct partial *partials, uint32_t count)
{
    *sum = (struct total){.worst = UINT64_MAX};
    for (uint32_t i = 0; i < count; i++) {
        const struct partial *one = &partials[i];
        sum->failed += one->failed;
        sum->nonfinite += one->nonfinite;
        sum->poisoned += one->poisoned;
        sum->too_large += one->too_large;
        sum->error_squares += one->error_squares;
        sum->want_squares += one->want_squares;
        if (one->worst != UINT64_MAX && (sum->worst == UINT64_MAX || one->excess > sum->excess ||
                                         (one->excess == sum->excess && one->worst < sum->worst))) {
            sum->excess = one->excess;
            sum->worst = one->worst;
        }
    }
}

/* All elements judged and summed. */
static enum gk_status judge_all(struct gk_inspector *inspector, const struct gk_verify_input *input,
                                uint64_t got_address, uint64_t pairs_address, struct total *sum_out,
                                struct gk_err *err)
{
    struct gk_device *device = inspector->device;
    struct partial partials[BLOCKS_MAX];
    const uint64_t count = (uint64_t)input->compare;
    const uint32_t blocks = blocks_for(input->compare);
    const struct gk_inspect_view view = gk_inspect_view_of(input->tensor);
    struct device_output output = {.rule = gk_verify_rule(input),
                                   .poison = poison_bits(input->tensor->dtype),
                                   .dtype = (int32_t)input->tensor->dtype};
    if (count == 0) {
        fold(sum_out, NULL, 0);
        return GK_OK;
    }
    enum gk_status status =
        gk_inspect_reserve(inspector, &inspector->table, "inspector: table", sizeof partials, err);
    if (status != GK_OK) {
        return status;
    }
    const struct gk_inspect_arg args[] = {
        {&output, sizeof output},
        {&view, sizeof view},
        {&got_address, sizeof got_address},
        {&pairs_address, sizeof pairs_address},
        {&count, sizeof count},
        {&inspector->table.address, sizeof inspector->table.address}};
    status = gk_inspect_launch(inspector, GK_INSPECT_CHECK, blocks, args,
                               (uint32_t)GK_ARRAY_COUNT(args), err);
    if (status == GK_OK) {
        status = device->ops->read(device, inspector->table.address, partials,
                                   blocks * sizeof partials[0], err);
    }
    if (status == GK_OK) {
        fold(sum_out, partials, blocks);
    }
    return status;
}

/* The worst element once more, on the host: gives the rung its numbers, and the proof that both
 * sides compute alike. */
static enum gk_status judge_worst(struct gk_inspector *inspector,
                                  const struct gk_verify_input *input, uint64_t got_address,
                                  uint64_t pairs_address, const struct total *sum,
                                  struct gk_rung *rung, struct gk_err *err)
{
    struct gk_device *device = inspector->device;
    const struct gk_plan_tensor *tensor = input->tensor;
    const struct gk_accept_rule rule = gk_verify_rule(input);
    const uint32_t size = gk_dtype_bytes(tensor->dtype);
    unsigned char got[8] = {0};
    double pair[2] = {0};
    struct gk_accept_element element;
    if (sum->worst == UINT64_MAX) {
        return GK_OK;
    }
    const int64_t index = (int64_t)sum->worst;
    const uint64_t place = (uint64_t)gk_tensor_position(tensor, index);
    enum gk_status status = device->ops->read(device, got_address + place * size, got, size, err);
    if (status == GK_OK) {
        status = device->ops->read(device, pairs_address + sum->worst * sizeof pair, pair,
                                   sizeof pair, err);
    }
    if (status != GK_OK) {
        return status;
    }
    const struct gk_judgement it = gk_verify_element(&rule, tensor->dtype, got, pair, &element);
    if (memcmp(&it.excess, &sum->excess, sizeof it.excess) != 0 || (!it.good && !sum->failed)) {
        return gk_fail(err, GK_INTERNAL,
                       "inspector: %s: element %" PRId64
                       " is %.17g times its bound on the device, %.17g times on the host",
                       tensor->def->name, index, sum->excess, it.excess);
    }
    rung->worst_index = index;
    rung->worst_got = element.got;
    rung->worst_want = element.want;
    rung->worst_bound = it.bound;
    return GK_OK;
}

static enum gk_status count_padding(struct gk_inspector *inspector,
                                    const struct gk_plan_tensor *tensor, uint64_t got_address,
                                    int64_t *changed_out, struct gk_err *err)
{
    static const unsigned char zero = 0;
    struct gk_device *device = inspector->device;
    const struct gk_inspect_view view = gk_inspect_view_of(tensor);
    const uint64_t count = (uint64_t)tensor->elements, span = (uint64_t)tensor->span;
    const uint64_t counter_at = (span + 7) / 8 * 8; /* of the scratch: behind the marks */
    const uint64_t poison = poison_bits(tensor->dtype);
    const uint32_t size = gk_dtype_bytes(tensor->dtype);
    uint64_t changed = 0;
    enum gk_status status = gk_inspect_reserve(inspector, &inspector->used, "inspector: padding",
                                               counter_at + sizeof changed, err);
    if (status != GK_OK) {
        return status;
    }
    const uint64_t used = inspector->used.address, counter = used + counter_at;
    const struct gk_inspect_arg mark[] = {
        {&view, sizeof view}, {&count, sizeof count}, {&used, sizeof used}};
    const struct gk_inspect_arg look[] = {{&got_address, sizeof got_address},
                                          {&size, sizeof size},
                                          {&poison, sizeof poison},
                                          {&span, sizeof span},
                                          {&used, sizeof used},
                                          {&counter, sizeof counter}};
    status = device->ops->fill(device, used, counter_at + sizeof changed, &zero, 1, err);
    if (status == GK_OK && count > 0) {
        status = gk_inspect_launch(inspector, GK_INSPECT_MARK,
                                   gk_inspect_blocks(inspector, GK_INSPECT_MARK, count), mark,
                                   (uint32_t)GK_ARRAY_COUNT(mark), err);
    }
    if (status == GK_OK) {
        status = gk_inspect_launch(inspector, GK_INSPECT_PADDING,
                                   gk_inspect_blocks(inspector, GK_INSPECT_PADDING, span), look,
                                   (uint32_t)GK_ARRAY_COUNT(look), err);
    }
    if (status == GK_OK) {
        status = device->ops->read(device, counter, &changed, sizeof changed, err);
    }
    if (status == GK_OK) {
        *changed_out = (int64_t)changed;
    }
    return status;
}

/* Surely under the bound in whatever order the squares are summed: n additions move a sum of
 * squares by less than n * 2^-53 of itself, here and on the host, and the root halves that; the 64
 * are for everything else. A quotient that is not normal is left to the host. */
static bool norm_passes(const struct gk_verify_input *input, const struct total *sum,
                        double norm_error)
{
    const double slack = ((double)input->compare + 64) * 0x1p-52;
    if (input->exact || !(input->norm >= 0)) {
        return true;
    }
    const bool normal =
        sum->error_squares == 0 || (sum->want_squares > 0 && sum->error_squares >= DBL_MIN &&
                                    sum->error_squares / sum->want_squares >= DBL_MIN);
    return normal && norm_error * (1 + slack) <= input->norm;
}

static enum gk_status check_readable(struct gk_inspector *inspector,
                                     const struct gk_verify_input *input, uint64_t got_address,
                                     uint64_t pairs_address, struct gk_verdict_sum *sum_out,
                                     struct gk_err *err)
{
    const struct gk_plan_tensor *tensor = input->tensor;
    struct gk_verdict_sum sum = {.rung = {.worst_index = -1, .norm_error = -1}};
    struct total total;
    enum gk_status status = judge_all(inspector, input, got_address, pairs_address, &total, err);
    if (status == GK_OK) {
        status = judge_worst(inspector, input, got_address, pairs_address, &total, &sum.rung, err);
    }
    if (status == GK_OK && tensor->span > tensor->elements) {
        status = count_padding(inspector, tensor, got_address, &sum.padding_changed, err);
    }
    if (status != GK_OK) {
        return status;
    }
    (void)snprintf(sum.rung.tensor, sizeof sum.rung.tensor, "%s", tensor->def->name);
    sum.nonfinite = total.nonfinite;
    sum.poisoned = total.poisoned;
    sum.too_large = total.too_large;
    sum.rung.compared = input->compare;
    sum.rung.failed = total.failed;
    sum.rung.norm_error = gk_verify_norm(total.error_squares, total.want_squares);
    sum.rung.passed = sum.padding_changed == 0 && sum.too_large == 0 && sum.rung.failed == 0 &&
                      norm_passes(input, &total, sum.rung.norm_error);
    *sum_out = sum;
    return GK_OK;
}

enum gk_status gk_inspector_check(struct gk_inspector *inspector,
                                  const struct gk_verify_input *input, uint64_t got_address,
                                  uint64_t pairs_address, struct gk_verdict_sum *sum_out,
                                  struct gk_err *err)
{
    const struct gk_plan_tensor *tensor = input->tensor;
    struct gk_device *device = inspector->device;
    uint64_t base = 0, address = 0;
    if (input->compare < 0 || input->compare > tensor->elements) {
        return gk_fail(err, GK_INPUT,
                       "inspector: %s: %" PRId64 " elements to compare; it has %" PRId64,
                       tensor->def->name, input->compare, tensor->elements);
    }
    enum gk_status status = gk_inspect_readable(
        inspector, got_address, (uint64_t)tensor->span * gk_dtype_bytes(tensor->dtype), &address,
        &base, err);
    if (status != GK_OK) {
        return status;
    }
    status = check_readable(inspector, input, address, pairs_address, sum_out, err);
    if (base) {
        (void)device->ops->release(device, base, NULL); /* nothing hangs on it */
    }
    return status;
}
