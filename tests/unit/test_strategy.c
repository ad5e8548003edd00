/* search/strategies: nothing twice, nothing left out, replay, failures, and better than chance. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "search/strategy.h"
#include "tests/support/check.h"
#include "tests/support/sample_space.h"

static const int64_t base[3] = {100, 4096, 4096};
static struct gk_space_def def;
static struct gk_space *forest; /* three trees of 60, 1 and 300 configs, an empty one between */

static int setup(void **state)
{
    (void)state;
    static const struct sample_param first[] = {
        {"A", "1 2 3 4 5"}, {"B", "1 2 3 4 5 6"}, {"C", "0 1"}, {NULL, NULL}};
    static const struct sample_param one[] = {{"X", "9"}, {NULL, NULL}};
    static const struct sample_param second[] = {
        {"P", "1 2 4 8 16"}, {"Q", "1 2 3 4 5 6"}, {"R", "0 1 2 3 4 5 6 7 8 9"}, {NULL, NULL}};
    static const struct sample_rule any[] = {{NULL, NULL, false, NULL}};
    static const struct sample_rule never[] = {{"never", "M < 0", true, NULL},
                                               {NULL, NULL, false, NULL}};
    struct gk_err err;
    sample_space_add(&def, "first", base, first, any);
    sample_space_add(&def, "never", base, first, never);
    sample_space_add(&def, "one", base, one, any);
    sample_space_add(&def, "second", base, second, any);
    return gk_space_create(&def, &forest, &err) == GK_OK ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    gk_space_destroy(forest);
    sample_space_fini(&def);
    return 0;
}

/* A bowl with a cliff: every fifth config fails. */
static struct gk_tell outcome(uint32_t index)
{
    uint8_t digits[GK_PARAMS_MAX];
    gk_space_digits(forest, index, digits);
    double ns = 1000;
    for (int i = 0; i < 3; i++) {
        ns += 100 * (digits[i] - 1.0 - i) * (digits[i] - 1.0 - i);
    }
    return (struct gk_tell){.index = index, .ok = index % 5 != 0, .time_ns = ns, .cost_ns = 1};
}

static struct gk_strategy *start(const struct gk_strategy_ops *ops, const struct gk_space *space,
                                 uint64_t seed, const uint32_t *hints, uint32_t hint_count)
{
    struct gk_strategy_setup plan = {
        .space = space, .seed = seed, .hints = hints, .hint_count = hint_count};
    struct gk_strategy *self = NULL;
    struct gk_err err;
    assert_ok(ops->create(&plan, &self, &err), err);
    return self;
}

/* Asks in batches of `batch`, tells each batch backwards; all indices in order. */
static uint32_t run_all(const struct gk_strategy_ops *ops, uint64_t seed, uint32_t batch,
                        const uint32_t *hints, uint32_t hint_count, uint32_t *order)
{
    struct gk_strategy *self = start(ops, forest, seed, hints, hint_count);
    uint32_t total = 0, count = 0;
    struct gk_err err;
    for (;;) {
        enum gk_status status = ops->ask(self, batch, order + total, &count, &err);
        if (status == GK_END) {
            assert_int_equal(count, 0);
            break;
        }
        assert_ok(status, err);
        assert_true(count >= 1 && count <= batch);
        for (uint32_t i = count; i-- > 0;) {
            struct gk_tell tell = outcome(order[total + i]);
            ops->tell(self, &tell);
        }
        total += count;
        assert_true(total <= gk_space_count(forest));
    }
    ops->destroy(self);
    return total;
}

static void each_config_once_and_replayed(void **state)
{
    (void)state;
    uint32_t count = gk_space_count(forest);
    const uint32_t hints[] = {5, 70, 5, count - 1};
    for (uint32_t s = 0; gk_strategy_at(s); s++) {
        const struct gk_strategy_ops *ops = gk_strategy_at(s);
        assert_ptr_equal(gk_strategy_find(ops->name), ops);
        assert_true(ops->version > 0 && ops->doc[0]);
        for (uint32_t batch = 1; batch <= 64; batch = batch * 3 + 1) {
            uint32_t *first = calloc(count + 64, sizeof *first);
            uint32_t *again = calloc(count + 64, sizeof *again);
            uint8_t *seen = calloc(count, 1);
            assert_int_equal(run_all(ops, 7, batch, hints, 4, first), count);
            assert_int_equal(run_all(ops, 7, batch, hints, 4, again), count);
            assert_memory_equal(first, again, count * sizeof first[0]);
            assert_true(first[0] == 5 && first[1] == 70 && first[2] == count - 1);
            for (uint32_t i = 0; i < count; i++) {
                assert_false(seen[first[i]]);
                seen[first[i]] = 1;
            }
            assert_int_equal(run_all(ops, 8, batch, hints, 4, again), count);
            bool same = memcmp(first, again, count * sizeof first[0]) == 0;
            assert_true(same == (strcmp(ops->name, "exhaustive") == 0));
            free(first);
            free(again);
            free(seen);
        }
    }
    assert_null(gk_strategy_find("annealing"));
    assert_string_equal(gk_strategy_at(0)->name, "portfolio");
}

static void told_configs_are_not_asked(void **state)
{
    (void)state;
    uint32_t count = gk_space_count(forest);
    for (uint32_t s = 0; gk_strategy_at(s); s++) {
        const struct gk_strategy_ops *ops = gk_strategy_at(s);
        struct gk_strategy *self = start(ops, forest, 3, NULL, 0);
        uint32_t asked = 0, got = 0, indices[16];
        for (uint32_t i = 0; i < count; i += 2) {
            struct gk_tell tell = outcome(i);
            ops->tell(self, &tell);
            ops->tell(self, &tell); /* a duplicate changes nothing */
        }
        while (ops->ask(self, 16, indices, &got, NULL) == GK_OK) {
            for (uint32_t i = 0; i < got; i++) {
                assert_int_equal(indices[i] % 2, 1); /* and nothing is told back: lost trials */
            }
            asked += got;
        }
        assert_int_equal(asked, count / 2);
        ops->destroy(self);
    }
}

static void a_space_of_one_and_bad_hints(void **state)
{
    (void)state;
    static const struct sample_param one[] = {{"X", "9"}, {NULL, NULL}};
    static const struct sample_rule any[] = {{NULL, NULL, false, NULL}};
    struct gk_space_def small = {0};
    struct gk_space *space = NULL;
    struct gk_err err;
    sample_space_add(&small, "one", base, one, any);
    assert_ok(gk_space_create(&small, &space, &err), err);
    for (uint32_t s = 0; gk_strategy_at(s); s++) {
        const struct gk_strategy_ops *ops = gk_strategy_at(s);
        struct gk_strategy *self = start(ops, space, 3, NULL, 0);
        uint32_t got = 9, index[4];
        assert_ok(ops->ask(self, 4, index, &got, &err), err);
        assert_true(got == 1 && index[0] == 0);
        assert_status(ops->ask(self, 4, index, &got, &err), GK_END, err);
        ops->destroy(self);
        ops->destroy(NULL);
        uint32_t hint = 1;
        struct gk_strategy_setup plan = {.space = space, .hints = &hint, .hint_count = 1};
        assert_status(ops->create(&plan, &self, &err), GK_INPUT, err);
        assert_contains(err.text, "hint 0 is index 1; the space has 1 configs");
    }
    gk_space_destroy(space);
    sample_space_fini(&small);
}

static void exhaustive_is_declared_order(void **state)
{
    (void)state;
    uint32_t order[512], count = run_all(gk_strategy_find("exhaustive"), 1, 7, NULL, 0, order);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(order[i], i);
    }
}

/* ------------------------------------------------------------------ quality */

/* A smooth time over the GEMM-like space with one best point; 30 % of the configs fail, by a hash.
 */
static struct gk_tell gemm_outcome(const struct gk_space *space, uint32_t index)
{
    static const double best[9] = {3, 4, 2, 1, 1, 2, 1, 2, 1};
    uint8_t digits[GK_PARAMS_MAX];
    double ns = 1000;
    gk_space_digits(space, index, digits);
    for (int i = 0; i < 9; i++) {
        ns *= 1 + 0.08 * (digits[i] - best[i]) * (digits[i] - best[i]);
    }
    ns *= 1 + 0.1 * ((digits[0] + digits[2]) % 2); /* a ridge: two parameters that go together */
    return (struct gk_tell){
        .index = index, .ok = index * 2654435761u >> 24 >= 77, .time_ns = ns, .cost_ns = 1};
}

static double best_after(const struct gk_strategy_ops *ops, const struct gk_space *space,
                         uint64_t seed, uint32_t batch, uint32_t trials)
{
    struct gk_strategy *self = start(ops, space, seed, NULL, 0);
    double best = 1e30;
    for (uint32_t done = 0; done < trials;) {
        uint32_t got = 0, indices[32];
        assert_int_equal(ops->ask(self, batch, indices, &got, NULL), GK_OK);
        for (uint32_t i = 0; i < got; i++) {
            struct gk_tell tell = gemm_outcome(space, indices[i]);
            ops->tell(self, &tell);
            best = tell.ok && tell.time_ns < best ? tell.time_ns : best;
        }
        done += got;
    }
    ops->destroy(self);
    return best;
}

/* Means over seeds of the best time after `trials`, by name of the strategy. */
static double mean_after(const char *name, const struct gk_space *space, uint32_t batch,
                         uint32_t trials, uint64_t seeds)
{
    double sum = 0;
    for (uint64_t seed = 0; seed < seeds; seed++) {
        sum += best_after(gk_strategy_find(name), space, seed, batch, trials);
    }
    return sum / (double)seeds;
}

static void searches_beat_random_with_failures_about(void **state)
{
    (void)state;
    static const char *const names[] = {"local", "multistart", "evolve", "surrogate", "portfolio"};
    struct gk_space_def gemm = {0};
    struct gk_space *space = NULL;
    struct gk_err err;
    sample_space_gemm(&gemm, base);
    assert_ok(gk_space_create(&gemm, &space, &err), err);
    double chance = mean_after("random", space, 16, 160, 6), local = 0, portfolio = 0;
    for (uint32_t i = 0; i < GK_ARRAY_COUNT(names); i++) {
        double mean = mean_after(names[i], space, 16, 160, 6);
        print_message("best after 160 trials in batches of 16, mean of 6 seeds: %s %.0f, random "
                      "%.0f ns\n",
                      names[i], mean, chance);
        assert_true(mean < 0.9 * chance);
        local = i == 0 ? mean : local;
        portfolio = mean;
    }
    assert_true(portfolio <= local);
    gk_space_destroy(space);
    sample_space_fini(&gemm);
}

/* 32 in flight: each ask knows 31 results less, and may not lose more than a little by that. */
static void large_batches_cost_little(void **state)
{
    (void)state;
    struct gk_space_def gemm = {0};
    struct gk_space *space = NULL;
    struct gk_err err;
    sample_space_gemm(&gemm, base);
    assert_ok(gk_space_create(&gemm, &space, &err), err);
    double alone = mean_after("portfolio", space, 1, 160, 4);
    double batch = mean_after("portfolio", space, 32, 160, 4);
    double local = mean_after("local", space, 32, 160, 4);
    print_message("best after 160 trials: one at a time %.0f, 32 at a time %.0f, local %.0f ns\n",
                  alone, batch, local);
    assert_true(batch < 1.06 * alone);
    assert_true(batch < local);
    gk_space_destroy(space);
    sample_space_fini(&gemm);
}

static double perfect_prior(void *context, uint32_t index)
{
    return gemm_outcome(context, index).time_ns * 3;
}

/* What an analytic model knows is used: configs it ranks first are met early. */
static void a_prior_leads(void **state)
{
    (void)state;
    struct gk_space_def gemm = {0};
    struct gk_space *space = NULL;
    struct gk_err err;
    double best[2] = {1e30, 1e30};
    sample_space_gemm(&gemm, base);
    assert_ok(gk_space_create(&gemm, &space, &err), err);
    for (uint32_t with = 0; with < 2; with++) {
        struct gk_strategy_setup plan = {.space = space,
                                         .seed = 9,
                                         .prior = with ? perfect_prior : NULL,
                                         .prior_context = space};
        const struct gk_strategy_ops *ops = gk_strategy_find("portfolio");
        struct gk_strategy *self = NULL;
        assert_ok(ops->create(&plan, &self, &err), err);
        for (uint32_t i = 0; i < 30; i++) {
            uint32_t got, index;
            assert_ok(ops->ask(self, 1, &index, &got, &err), err);
            struct gk_tell tell = gemm_outcome(space, index);
            ops->tell(self, &tell);
            best[with] = tell.ok && tell.time_ns < best[with] ? tell.time_ns : best[with];
        }
        ops->destroy(self);
    }
    print_message("best after 30 trials: %.0f, with a prior %.0f ns\n", best[0], best[1]);
    assert_true(best[1] < 0.95 * best[0]);
    gk_space_destroy(space);
    sample_space_fini(&gemm);
}

/* Where nothing works there is nothing to climb: asks stay as far apart as chance puts them. */
static void failures_are_not_climbed_from(void **state)
{
    (void)state;
    struct gk_space_def gemm = {0};
    struct gk_space *space = NULL;
    struct gk_err err;
    uint8_t met[200][GK_PARAMS_MAX];
    uint32_t near = 0;
    sample_space_gemm(&gemm, base);
    assert_ok(gk_space_create(&gemm, &space, &err), err);
    const struct gk_strategy_ops *ops = gk_strategy_find("local");
    struct gk_strategy *self = start(ops, space, 6, NULL, 0);
    for (uint32_t i = 0; i < 200; i++) {
        uint32_t got, index, differ = 0;
        assert_int_equal(ops->ask(self, 1, &index, &got, NULL), GK_OK);
        gk_space_digits(space, index, met[i]);
        for (uint32_t k = 0; i >= 2 && k < 9; k++) { /* two climbs take turns */
            differ += met[i][k] != met[i - 2][k];
        }
        near += i >= 2 && differ <= 2;
        struct gk_tell tell = {.index = index, .ok = false};
        ops->tell(self, &tell);
    }
    assert_true(near < 10);
    ops->destroy(self);
    gk_space_destroy(space);
    sample_space_fini(&gemm);
}

/* The tree that holds the better configs gets most trials, the others some. */
static void budget_follows_the_better_tree(void **state)
{
    (void)state;
    const struct gk_strategy_ops *ops = gk_strategy_find("local");
    struct gk_strategy *self = start(ops, forest, 4, NULL, 0);
    uint32_t by_tree[4] = {0};
    for (uint32_t i = 0; i < 120; i++) {
        uint32_t got, index;
        assert_int_equal(ops->ask(self, 1, &index, &got, NULL), GK_OK);
        uint32_t tree = gk_space_tree_of(forest, index);
        by_tree[tree]++;
        struct gk_tell tell = outcome(index);
        tell.time_ns *= tree == 3 ? 1 : 3;
        ops->tell(self, &tell);
    }
    assert_int_equal(by_tree[1], 0);
    assert_int_equal(by_tree[2], 1);
    assert_true(by_tree[3] > 80);
    assert_true(by_tree[0] >= 10);
    ops->destroy(self);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_config_once_and_replayed),
        cmocka_unit_test(told_configs_are_not_asked),
        cmocka_unit_test(a_space_of_one_and_bad_hints),
        cmocka_unit_test(exhaustive_is_declared_order),
        cmocka_unit_test(searches_beat_random_with_failures_about),
        cmocka_unit_test(large_batches_cost_little),
        cmocka_unit_test(a_prior_leads),
        cmocka_unit_test(failures_are_not_climbed_from),
        cmocka_unit_test(budget_follows_the_better_tree),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
