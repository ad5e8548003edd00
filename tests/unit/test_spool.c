/* The spool: results survive restarts and damage, the id stays, one worker a folder, bundles of strangers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "worker/spool.h"

static char folder[64];

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *walk)
{
    (void)info, (void)kind, (void)walk;
    return remove(path);
}

static int set_up(void **state)
{
    (void)state;
    (void)snprintf(folder, sizeof folder, "/tmp/gk-test-spool-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    return nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void put(struct gk_spool *spool, uint64_t token, uint32_t pass, int64_t value)
{
    struct gk_json *body = gk_json_new_object();
    assert_true(gk_json_set_int(body, "value", value));
    assert_int_equal(gk_spool_put(spool, token, pass, body, NULL), GK_OK);
    gk_json_free(body);
}

static int64_t value_of(struct gk_spool *spool, uint64_t token, uint32_t pass)
{
    struct gk_spool_key key = {token, pass};
    struct gk_json *body = NULL;
    assert_int_equal(gk_spool_get(spool, &key, &body, NULL), GK_OK);
    int64_t value = gk_json_get_int(body, "value", -1);
    gk_json_free(body);
    return value;
}

static void results_survive_a_restart(void **state)
{
    (void)state;
    struct gk_spool *spool = NULL, *second = NULL;
    struct gk_spool_key *keys = NULL;
    struct gk_err err = {0};
    char id[GK_SPOOL_ID_SIZE];
    uint32_t count = 0;
    assert_int_equal(gk_spool_open(folder, &spool, NULL), GK_OK);
    assert_int_equal(gk_spool_open(folder, &second, &err), GK_BUSY);
    assert_non_null(strstr(err.text, "--spool"));
    memcpy(id, gk_spool_id(spool), sizeof id);
    put(spool, UINT64_C(0xffffffffffffffff), 0, 1);
    put(spool, 7, 2, 2);
    put(spool, 7, 1, 3);
    put(spool, 7, 1, 4); /* replaces */
    assert_int_equal(gk_spool_count(spool), 3);
    gk_spool_close(spool);
    assert_int_equal(gk_spool_open(folder, &spool, NULL), GK_OK);
    assert_string_equal(gk_spool_id(spool), id);
    assert_int_equal(gk_spool_count(spool), 3);
    assert_int_equal(gk_spool_list(spool, &keys, &count, NULL), GK_OK);
    assert_int_equal(count, 3);
    assert_true(keys[0].token == 7 && keys[0].pass == 1 && keys[1].pass == 2);
    assert_true(keys[2].token == UINT64_C(0xffffffffffffffff));
    free(keys);
    assert_int_equal(value_of(spool, 7, 1), 4);
    assert_int_equal(gk_spool_remove_token(spool, 7, NULL), GK_OK);
    assert_int_equal(gk_spool_count(spool), 1);
    assert_int_equal(gk_spool_remove(spool, 7, 1, NULL), GK_OK); /* a late ACK */
    assert_int_equal(gk_spool_count(spool), 1);
    gk_spool_close(spool);
}

static void damage_is_said_and_removed(void **state)
{
    (void)state;
    struct gk_spool *spool = NULL;
    struct gk_spool_key key = {9, 0};
    struct gk_json *body = NULL;
    struct gk_err err = {0};
    char path[256];
    assert_int_equal(gk_spool_open(folder, &spool, NULL), GK_OK);
    put(spool, 9, 0, 1);
    (void)snprintf(path, sizeof path, "%s/results/0000000000000009-00000000.json", folder);
    assert_int_equal(truncate(path, 5), 0);
    assert_int_equal(gk_spool_get(spool, &key, &body, &err), GK_CORRUPT);
    assert_non_null(strstr(err.text, "damaged"));
    assert_int_equal(gk_spool_count(spool), 0);
    gk_spool_close(spool);
}

static struct gk_bundle bundle_of(char *path, const char *content)
{
    static struct gk_bundle_file file;
    file = (struct gk_bundle_file){path, gk_hash_text(content), strlen(content)};
    return (struct gk_bundle){&file, 1, gk_hash_text(path)};
}

static void a_bundle_is_whole_or_absent(void **state)
{
    (void)state;
    struct gk_spool *spool = NULL;
    struct gk_err err = {0};
    char path[GK_SPOOL_PATH_MAX], file[GK_SPOOL_PATH_MAX + 64], *text = NULL;
    size_t size = 0;
    char name[] = "op/deep/x.cuh";
    struct gk_bundle bundle = bundle_of(name, "text");
    const struct gk_hash *hash = &bundle.files[0].hash;
    assert_int_equal(gk_spool_open(folder, &spool, NULL), GK_OK);
    assert_false(gk_spool_has_blob(spool, hash));
    assert_int_equal(gk_spool_unpack(spool, &bundle, path, &err), GK_NOT_FOUND);
    assert_int_equal(gk_spool_put_blob(spool, hash, "other", 5, &err), GK_CORRUPT);
    assert_int_equal(gk_spool_put_blob(spool, hash, "text", 4, NULL), GK_OK);
    assert_true(gk_spool_has_blob(spool, hash));
    assert_int_equal(gk_spool_unpack(spool, &bundle, path, &err), GK_OK);
    (void)snprintf(file, sizeof file, "%s/op/deep/x.cuh", path);
    assert_int_equal(gk_file_load(file, 100, &text, &size, NULL), GK_OK);
    assert_string_equal(text, "text");
    free(text);
    assert_int_equal(gk_spool_unpack(spool, &bundle, path, &err), GK_OK); /* again: nothing to do */
    gk_spool_close(spool);
}

static void paths_of_strangers_stay_inside(void **state)
{
    (void)state;
    static const char *const BAD[] = {"/etc/x", "../x", "a/../x", "a//b", "", "a/", ".x", "a/./b", "a\nb"};
    struct gk_spool *spool = NULL;
    assert_int_equal(gk_spool_open(folder, &spool, NULL), GK_OK);
    for (size_t i = 0; i < GK_ARRAY_COUNT(BAD); i++) {
        char path[GK_SPOOL_PATH_MAX], name[32];
        struct gk_err err = {0};
        (void)snprintf(name, sizeof name, "%s", BAD[i]);
        struct gk_bundle bundle = bundle_of(name, "text");
        assert_int_equal(gk_spool_put_blob(spool, &bundle.files[0].hash, "text", 4, NULL), GK_OK);
        assert_int_equal(gk_spool_unpack(spool, &bundle, path, &err), GK_INPUT);
    }
    gk_spool_close(spool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(results_survive_a_restart, set_up, tear_down),
        cmocka_unit_test_setup_teardown(damage_is_said_and_removed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_bundle_is_whole_or_absent, set_up, tear_down),
        cmocka_unit_test_setup_teardown(paths_of_strangers_stay_inside, set_up, tear_down),
    };
    if (gk_hash_setup(NULL) != GK_OK) {
        return 1;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
