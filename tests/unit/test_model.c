/* search/neighbours, gauss, pool, model, guide: what is near, what is believed, what is next. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "search/guide.h"
#include "search/neighbours.h"
#include "tests/support/check.h"
#include "tests/support/sample_space.h"

static const int64_t base[3] = {100, 4096, 4096};

struct scene {
    struct gk_space_def def;
    struct gk_space *space;
    struct gk_strategy strategy;
    struct model *model;
};

/* A tree of three parameters and a rule; 8 x 6 x 3 points, those with A * B <= 24 legal. */
static void open_scene(struct scene *scene, const uint32_t *hints, uint32_t hint_count)
{
    static const struct sample_param params[] = {
        {"A", "1 2 3 4 5 6 7 8"}, {"B", "1 2 3 4 5 6"}, {"C", "0 1 2"}, {NULL, NULL}};
    static const struct sample_rule rules[] = {{"area", "A * B <= 24", true, NULL},
                                               {NULL, NULL, false, NULL}};
    struct gk_err err;
    memset(scene, 0, sizeof *scene);
    sample_space_add(&scene->def, "one", base, params, rules);
    assert_ok(gk_space_create(&scene->def, &scene->space, &err), err);
    struct gk_strategy_setup setup = {
        .space = scene->space, .seed = 5, .hints = hints, .hint_count = hint_count};
    assert_ok(strategy_init(&scene->strategy, &setup, &err), err);
    assert_ok(model_create(&scene->strategy, 0, MODEL_POOL_MAX, &scene->model, &err), err);
}

static void close_scene(struct scene *scene)
{
    model_destroy(scene->model);
    strategy_fini(&scene->strategy);
    gk_space_destroy(scene->space);
    sample_space_fini(&scene->def);
}

static uint32_t at(const struct scene *scene, uint8_t a, uint8_t b, uint8_t c)
{
    uint8_t digits[GK_PARAMS_MAX] = {a, b, c};
    uint32_t index;
    assert_true(gk_space_find_digits(scene->space, 0, digits, &index));
    return index;
}

static bool holds(const uint32_t *list, uint32_t count, uint32_t index)
{
    for (uint32_t i = 0; i < count; i++) {
        if (list[i] == index) {
            return true;
        }
    }
    return false;
}

static void neighbourhoods_are_what_they_say(void **state)
{
    (void)state;
    struct scene scene;
    uint32_t list[NEIGHBOURS_LIST_MAX], hamming[NEIGHBOURS_LIST_MAX];
    open_scene(&scene, NULL, 0);
    uint32_t middle = at(&scene, 5, 3, 1); /* A = 6, B = 4: on the edge of A * B <= 24 */
    uint32_t near = neighbours_list(scene.space, 0, middle, NEIGHBOURS_ADJACENT, list);
    assert_int_equal(near, 4); /* A down, B down, C down and up */
    assert_true(holds(list, near, at(&scene, 4, 3, 1)) && holds(list, near, at(&scene, 5, 2, 1)));
    assert_true(holds(list, near, at(&scene, 5, 3, 0)) && holds(list, near, at(&scene, 5, 3, 2)));
    uint32_t all = neighbours_list(scene.space, 0, middle, NEIGHBOURS_HAMMING, hamming);
    uint32_t other = neighbours_list(scene.space, 0, middle, NEIGHBOURS_OTHER, list);
    assert_int_equal(all, near + other);
    for (uint32_t i = 0; i < other; i++) {
        assert_true(holds(hamming, all, list[i]));
    }
    assert_false(holds(hamming, all, middle));
    /* A up is illegal alone, with B down it is not; B up with A down: 5 * 5 = 25 is too much */
    uint32_t along = neighbours_list(scene.space, 0, middle, NEIGHBOURS_ALONG, list);
    assert_true(holds(list, along, at(&scene, 6, 2, 1)));
    for (uint32_t i = 0; i < along; i++) {
        assert_false(holds(hamming, all, list[i]));
    }
    /* inside, where both steps are free, there is nothing to slip along */
    assert_int_equal(neighbours_list(scene.space, 0, at(&scene, 2, 2, 1), NEIGHBOURS_ALONG, list),
                     0);
    close_scene(&scene);
}

static double truth(const struct scene *scene, uint32_t index)
{
    uint8_t digits[GK_PARAMS_MAX];
    gk_space_digits(scene->space, index, digits);
    return 1000 * (1 + 0.2 * (digits[0] - 4.0) * (digits[0] - 4.0) +
                   0.05 * (digits[1] - 2.0) * (digits[1] - 2.0));
}

static void tell_time(struct scene *scene, uint32_t index, double time_ns, uint32_t samples)
{
    struct gk_tell tell = {
        .index = index, .ok = true, .time_ns = time_ns, .cost_ns = 1e9, .samples = samples};
    (void)strategy_take(&scene->strategy, index);
    model_tell(scene->model, &tell);
}

static void tell_failed(struct scene *scene, uint32_t index)
{
    struct gk_tell tell = {.index = index, .ok = false, .cost_ns = 1e9};
    (void)strategy_take(&scene->strategy, index);
    model_tell(scene->model, &tell);
}

static struct model_aim prepare(struct scene *scene, uint32_t n)
{
    struct gk_err err;
    struct model_aim aim = {.best_log = model_learn(scene->model, n)};
    assert_ok(model_prepare(scene->model, n, &aim, &err), err);
    return aim;
}

/* Scales are learnt: a parameter that matters reaches less far than one that does not. */
static void likeness_follows_what_matters(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene, NULL, 0);
    for (uint32_t i = 0; i < gk_space_count(scene.space); i += 4) {
        tell_time(&scene, i, truth(&scene, i), 0);
    }
    (void)prepare(&scene, 1);
    const struct gauss *gauss = &scene.model->gauss;
    struct gauss_point start = {.digits = {4, 2, 1}}, a = {.digits = {5, 2, 1}},
                       c = {.digits = {4, 2, 2}};
    assert_true(fabs(gauss_likeness(gauss, &start, &start) - 1) < 1e-6);
    assert_true(fabs(gauss_likeness(gauss, &start, &a) - gauss_likeness(gauss, &a, &start)) < 1e-9);
    assert_true(gauss_likeness(gauss, &start, &c) > gauss_likeness(gauss, &start, &a));
    close_scene(&scene);
}

/* One point more, row by row, is the same as everything solved anew. */
static void steps_equal_solutions(void **state)
{
    (void)state;
    struct scene scene;
    uint32_t hint = 3; /* with a hint the points have extras too */
    open_scene(&scene, &hint, 1);
    for (uint32_t i = 0; i < 20; i++) {
        tell_time(&scene, i * 4 + 1, truth(&scene, i * 4 + 1), 0);
    }
    (void)prepare(&scene, 1);
    struct model *model = scene.model;
    struct pool *pool = &model->pool;
    for (uint32_t i = 0; i < 12; i++) { /* on their way: rows are added */
        (void)strategy_take(&scene.strategy, i * 4 + 2);
        model_expect(model, i * 4 + 2);
    }
    assert_int_equal(pool->rows, 32);
    float left[MODEL_POOL_MAX], mean[MODEL_POOL_MAX];
    memcpy(left, pool->left, pool->count * sizeof left[0]);
    memcpy(mean, pool->mean, pool->count * sizeof mean[0]);
    gauss_factor(&model->gauss, model->points, model->weight, 32);
    struct pool_source source = {
        .points = model->points, .ok = model->is_ok, .x = model->x, .cost = model->cost_x};
    pool_solve_all(pool, &model->gauss, &source);
    for (uint32_t i = 0; i < pool->count; i++) {
        if (pool->index[i] != POOL_NONE) {
            assert_true(fabs((double)(left[i] - pool->left[i])) < 2e-3);
            assert_true(fabs((double)(mean[i] - pool->mean[i])) < 2e-3);
        }
    }
    close_scene(&scene);
}

/* Axes taken together say what they say one by one, and the greatest score is found whichever
 * changed. */
static void groups_and_tops_are_exact(void **state)
{
    (void)state;
    struct scene scene;
    uint32_t hint = 3;
    open_scene(&scene, &hint, 1);
    for (uint32_t i = 0; i < 20; i++) {
        tell_time(&scene, i * 4 + 1, truth(&scene, i * 4 + 1), 0);
    }
    (void)prepare(&scene, 1);
    struct model *model = scene.model;
    struct pool *pool = &model->pool;
    assert_true(model->gauss.groups.count < model->gauss.axes.count);
    for (uint32_t i = 0; i < pool->count; i++) {
        double kernel = gauss_kernel(&model->gauss, &model->points[0], &pool->points[i]);
        double left = gauss_kernel(&model->gauss, &pool->points[i], &pool->points[i]);
        if (pool->index[i] != POOL_NONE) {
            assert_true(fabs((double)pool->v[i] * model->gauss.upper[0] - kernel) < 1e-5);
            for (uint32_t k = 0; k < pool->rows; k++) {
                double v = (double)pool->v[(size_t)k * pool->stride + i];
                left -= v * v;
            }
            assert_true(fabs((double)pool->left[i] - left) < 1e-4);
        }
    }
    for (uint32_t i = 0; i < 400; i++) {
        uint32_t slot = i * 37 % pool->count, best = 0;
        pool_score(pool, slot, i % 3 ? i : -(double)i);
        for (uint32_t k = 1; k < pool->count; k++) {
            best = pool->score[k] > pool->score[best] ? k : best;
        }
        assert_int_equal(pool_top(pool), best);
    }
    close_scene(&scene);
}

/* One failure more, for which nothing is solved anew, is known to the candidates with the next
 * ask. */
static void a_failure_is_heard_of(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene, NULL, 0);
    for (uint32_t i = 0; i < 20; i++) {
        tell_time(&scene, i * 4 + 1, truth(&scene, i * 4 + 1), 0);
    }
    (void)prepare(&scene, 1);
    const struct pool *pool = &scene.model->pool;
    float most = 0;
    tell_failed(&scene, at(&scene, 4, 2, 1));
    (void)prepare(&scene, 1);
    for (uint32_t i = 0; i < pool->count; i++) {
        most = pool->index[i] != POOL_NONE && pool->failed[i] > most ? pool->failed[i] : most;
    }
    assert_true(most > 0.1F && most <= 1); /* of one failure, counted once */
    close_scene(&scene);
}

/* From a third of the space the best of the rest is known, and asked for first. */
static void the_pick_is_near_the_optimum(void **state)
{
    (void)state;
    struct scene scene;
    uint32_t index = 0, optimum;
    double score;
    open_scene(&scene, NULL, 0);
    optimum = at(&scene, 4, 2, 1);
    for (uint32_t i = 0; i < gk_space_count(scene.space); i += 4) {
        if (truth(&scene, i) > 1.1 * truth(&scene, optimum)) {
            tell_time(&scene, i, truth(&scene, i), 0);
        }
    }
    struct model_aim aim = prepare(&scene, 8);
    assert_true(model_pick(scene.model, &aim, &index, &score));
    assert_true(truth(&scene, index) <= 1.05 * truth(&scene, optimum));
    /* a batch spreads: what is on its way is worth less, and is never given twice */
    uint32_t given[8];
    for (uint32_t i = 0; i < 8; i++) {
        assert_true(model_pick(scene.model, &aim, &given[i], &score));
        assert_false(holds(given, i, given[i]));
        assert_true(strategy_take(&scene.strategy, given[i]));
        model_expect(scene.model, given[i]);
    }
    close_scene(&scene);
}

/* Where everything failed nothing more is asked while there is another place. */
static void failures_are_learnt(void **state)
{
    (void)state;
    struct scene scene;
    uint32_t in_failed = 0;
    open_scene(&scene, NULL, 0);
    for (uint32_t i = 0; i < gk_space_count(scene.space); i += 4) {
        uint8_t digits[GK_PARAMS_MAX];
        gk_space_digits(scene.space, i, digits);
        if (digits[2] == 1) { /* a value of C never works, though A and B look as good */
            tell_failed(&scene, i);
        } else {
            double rough = 1 + 0.2 * ((double)(i * 2654435761u >> 20) / 4096 - 0.5);
            tell_time(&scene, i, truth(&scene, i) * rough, 0);
        }
    }
    struct model_aim aim = prepare(&scene, 12);
    for (uint32_t i = 0; i < 12; i++) {
        uint8_t digits[GK_PARAMS_MAX];
        uint32_t index;
        double score;
        assert_true(model_pick(scene.model, &aim, &index, &score));
        gk_space_digits(scene.space, index, digits);
        in_failed += digits[2] == 1;
        (void)strategy_take(&scene.strategy, index);
        model_expect(scene.model, index);
    }
    assert_true(in_failed <= 2); /* 4 by chance, and 4 of a model that sees no failures */
    close_scene(&scene);
}

/* Of two configs that promise the same, the one that costs less is next, if cost counts at all. */
static void cost_decides_between_equals(void **state)
{
    (void)state;
    for (int power = 0; power < 2; power++) {
        struct scene scene;
        uint32_t cheap = 0;
        open_scene(&scene, NULL, 0);
        for (uint32_t i = 0; i < gk_space_count(scene.space); i += 4) {
            uint8_t digits[GK_PARAMS_MAX];
            gk_space_digits(scene.space, i, digits);
            struct gk_tell tell = {.index = i,
                                   .ok = true,
                                   .time_ns = truth(&scene, i),
                                   .cost_ns = digits[2] == 2 ? 1e8 : 1e10};
            (void)strategy_take(&scene.strategy, i);
            model_tell(scene.model, &tell);
        }
        struct model_aim aim = {.best_log = model_learn(scene.model, 6), .cost_power = power};
        assert_int_equal(model_prepare(scene.model, 6, &aim, NULL), GK_OK);
        for (uint32_t i = 0; i < 6; i++) {
            uint8_t digits[GK_PARAMS_MAX];
            uint32_t index;
            double score;
            assert_true(model_pick(scene.model, &aim, &index, &score));
            gk_space_digits(scene.space, index, digits);
            cheap += digits[2] == 2;
            (void)strategy_take(&scene.strategy, index);
            model_expect(scene.model, index);
        }
        assert_true(power ? cheap >= 4 : cheap <= 3);
        close_scene(&scene);
    }
}

/* A lucky sample is no best config; a whole measurement of the same time is. */
static void one_sample_is_doubted(void **state)
{
    (void)state;
    for (uint32_t samples = 1; samples <= 4; samples += 3) {
        struct scene scene;
        uint32_t best[1];
        double value[1];
        open_scene(&scene, NULL, 0);
        for (uint32_t i = 0; i < gk_space_count(scene.space); i += 2) {
            double noise = 1 + 0.03 * ((double)(i * 2654435761u >> 20) / 4096 - 0.5);
            tell_time(&scene, i, truth(&scene, i) * noise, 4);
        }
        uint32_t lucky = at(&scene, 4, 3, 2); /* one of about 1050 */
        tell_time(&scene, lucky, 960, samples);
        (void)prepare(&scene, 1);
        assert_int_equal(model_best(scene.model, 1, best, value), 1);
        if (samples == 1) {
            assert_true(value[0] > log(965));
        } else {
            assert_true(best[0] == lucky && fabs(value[0] - log(960)) < 1e-6);
        }
        close_scene(&scene);
    }
}

/* More results than a model holds: the best is among its points whenever it was told. */
static void the_best_is_never_lost(void **state)
{
    (void)state;
    struct gk_space_def def = {0};
    struct gk_space *space = NULL;
    struct gk_strategy strategy = {0};
    struct guide guide;
    struct gk_err err;
    sample_space_gemm(&def, base);
    assert_ok(gk_space_create(&def, &space, &err), err);
    struct gk_strategy_setup setup = {.space = space, .seed = 2};
    assert_ok(strategy_init(&strategy, &setup, &err), err);
    assert_ok(guide_init(&guide, &strategy, &err), err);
    double least = 1e30;
    uint32_t best = 0;
    for (uint32_t i = 0; i < 900; i++) {
        uint32_t index = i * 7 + 3, found;
        double ns = 1000 + (index * 2654435761u >> 12) % 100000;
        struct gk_tell tell = {.index = index, .ok = i % 9 != 4, .time_ns = ns, .cost_ns = 1};
        if (tell.ok && ns < least) {
            least = ns;
            best = index;
        }
        (void)strategy_take(&strategy, index);
        guide_tell(&guide, &tell);
        if (i % 16 == 15) {
            assert_ok(guide_prepare(&guide, 16, &err), err);
            assert_int_equal(guide_best(&guide, 1, &found), 1);
            assert_int_equal(found, best);
        }
    }
    assert_true(guide.models[0]->gauss.count <= GAUSS_POINTS_MAX);
    assert_true(guide_bytes(&guide) < 4u << 20);
    guide_fini(&guide);
    strategy_fini(&strategy);
    gk_space_destroy(space);
    sample_space_fini(&def);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(neighbourhoods_are_what_they_say),
        cmocka_unit_test(likeness_follows_what_matters),
        cmocka_unit_test(steps_equal_solutions),
        cmocka_unit_test(groups_and_tops_are_exact),
        cmocka_unit_test(a_failure_is_heard_of),
        cmocka_unit_test(the_pick_is_near_the_optimum),
        cmocka_unit_test(failures_are_learnt),
        cmocka_unit_test(cost_decides_between_equals),
        cmocka_unit_test(one_sample_is_doubted),
        cmocka_unit_test(the_best_is_never_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
