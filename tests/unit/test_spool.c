/* The spool: results survive, in order; identity stays; one worker a folder. */
#include "worker/spool.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/hash.h"

static char folder[] = "/tmp/gk-test-spool-XXXXXX";

struct seen {
    int count;
    int64_t tokens[16], passes[16];
};

static void note(void *context, int64_t token, int64_t pass, const struct gk_json *body)
{
    struct seen *seen = context;
    assert_int_equal(gk_json_get_int(body, "token", 0), token);
    seen->tokens[seen->count] = token;
    seen->passes[seen->count++] = pass;
}

static void put(struct gk_spool *spool, int64_t token, int64_t pass)
{
    struct gk_json *body = gk_json_new_object();
    struct gk_err err = {0};
    assert_true(gk_json_set_int(body, "token", token));
    assert_int_equal(gk_spool_put(spool, token, pass, body, &err), GK_OK);
    gk_json_free(body);
}

static void survives(void **state)
{
    struct gk_spool *spool = NULL, *second = NULL;
    struct gk_err err = {0};
    struct seen seen = {0};
    uint32_t damaged = 0;
    char id[GK_SPOOL_ID_MAX], path[128];
    (void)state;
    assert_int_equal(gk_spool_open(folder, &spool, &err), GK_OK);
    assert_int_equal(gk_spool_open(folder, &second, &err), GK_BUSY);
    (void)snprintf(id, sizeof id, "%s", gk_spool_id(spool));
    assert_int_equal(strlen(id), 32);
    put(spool, 12, 0);
    put(spool, 7, 2);
    put(spool, 7, 1);
    put(spool, 9, 0);
    put(spool, 9, 0); /* again: replaces */
    gk_spool_close(spool);
    (void)snprintf(path, sizeof path, "%s/results/8-0.json", folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs("{\"token\":", file) >= 0);
    assert_int_equal(fclose(file), 0);

    assert_int_equal(gk_spool_open(folder, &spool, &err), GK_OK);
    assert_string_equal(gk_spool_id(spool), id);
    assert_int_equal(gk_spool_each(spool, note, &seen, &damaged, &err), GK_OK);
    assert_int_equal(damaged, 1);
    assert_int_equal(seen.count, 4);
    static const int64_t want[4][2] = {{7, 1}, {7, 2}, {9, 0}, {12, 0}};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(seen.tokens[i], want[i][0]);
        assert_int_equal(seen.passes[i], want[i][1]);
    }
    gk_spool_remove(spool, 9, 0);
    gk_spool_remove(spool, 9, 0);
    gk_spool_forget(spool, 7);
    memset(&seen, 0, sizeof seen);
    assert_int_equal(gk_spool_each(spool, note, &seen, &damaged, &err), GK_OK);
    assert_int_equal(damaged, 0);
    assert_int_equal(seen.count, 1);
    assert_int_equal(seen.tokens[0], 12);
    gk_spool_remove(spool, 12, 0);
    gk_spool_close(spool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(survives)};
    struct gk_err err = {0};
    if (gk_hash_setup(&err) != GK_OK || !mkdtemp(folder)) {
        return 1;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
