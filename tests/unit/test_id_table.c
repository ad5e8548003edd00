/* The hash table against a plain array, through growth, collisions and removals. */
#include "core/id_table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define KEYS 512

static void test_empty(void **state)
{
    (void)state;
    struct gk_table table = {0};
    assert_null(gk_table_get(&table, 7));
    assert_null(gk_table_remove(&table, 7));
    gk_table_fini(&table);
    gk_table_fini(NULL);
}

static void test_put_replaces(void **state)
{
    (void)state;
    struct gk_table table = {0};
    int a = 1, b = 2;
    assert_true(gk_table_put(&table, 0, &a));
    assert_true(gk_table_put(&table, 0, &b));
    assert_int_equal(table.count, 1);
    assert_ptr_equal(gk_table_get(&table, 0), &b);
    assert_ptr_equal(gk_table_remove(&table, 0), &b);
    assert_null(gk_table_get(&table, 0));
    assert_int_equal(table.count, 0);
    gk_table_fini(&table);
}

/* Few keys over many steps: slots are taken, left and taken again, in runs that wrap around. */
static void test_like_an_array(void **state)
{
    (void)state;
    struct gk_table table = {0};
    int values[KEYS], *there[KEYS] = {NULL};
    uint64_t seed = 1;
    for (int i = 0; i < 200000; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        uint32_t at = (uint32_t)(seed >> 40) % KEYS;
        uint64_t key = (uint64_t)at << (at % 3 * 20); /* neighbours, and numbers far apart */
        if ((seed >> 33) % 5 < 2) {
            assert_true(gk_table_put(&table, key, &values[at]));
            there[at] = &values[at];
        } else {
            assert_ptr_equal(gk_table_remove(&table, key), there[at]);
            there[at] = NULL;
        }
        uint32_t look = (uint32_t)(seed >> 20) % KEYS;
        assert_ptr_equal(gk_table_get(&table, (uint64_t)look << (look % 3 * 20)), there[look]);
    }
    size_t count = 0;
    for (uint32_t i = 0; i < KEYS; i++) {
        count += there[i] != NULL;
        assert_ptr_equal(gk_table_get(&table, (uint64_t)i << (i % 3 * 20)), there[i]);
    }
    assert_int_equal(table.count, count);
    assert_true(table.capacity >= 2 * count);
    gk_table_fini(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_put_replaces),
        cmocka_unit_test(test_like_an_array),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
