/* Files by hash: pieces, damage, and catalogs that make room for others unless somebody holds them.
 */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/blobs.h"

#define BUNDLES 70 /* more than are kept in memory */

extern char **environ;

static char folder[64];
static struct gk_catalog *toy;

static int make_folder(void **state)
{
    struct gk_diag diag;
    (void)state;
    (void)snprintf(folder, sizeof folder, "/tmp/gktest_blobs_XXXXXX");
    gk_diag_init(&diag);
    bool ok = mkdtemp(folder) && gk_hash_setup(NULL) == GK_OK &&
              gk_catalog_load(GK_SOURCE_DIR "/tests/data/kernels/toy", &toy, &diag) == GK_OK;
    gk_diag_fini(&diag);
    return ok ? 0 : -1;
}

static int drop_folder(void **state)
{
    (void)state;
    gk_catalog_destroy(toy);
    char program[] = "/bin/rm", flags[] = "-rf";
    char *argv[] = {program, flags, folder, NULL};
    pid_t pid;
    int status = 0;
    return posix_spawn(&pid, program, NULL, NULL, argv, environ) == 0 &&
                   waitpid(pid, &status, 0) == pid
               ? status
               : -1;
}

/* The toy's bundle with one more file, stored; its description is the caller's. */
static struct gk_json *bundle_of(const struct gk_core_files *files, int number)
{
    struct gk_bundle bundle = {0};
    struct gk_json *json, *list;
    char note[64], hex[GK_HASH_TEXT_SIZE];
    assert_int_equal(gk_catalog_bundle(toy, &bundle, NULL), GK_OK);
    for (uint32_t i = 0; i < bundle.count; i++) {
        char *text = NULL;
        size_t size = 0;
        assert_int_equal(gk_catalog_file(toy, bundle.files[i].path, &text, &size, NULL), GK_OK);
        assert_int_equal(
            files->put(files->context, &bundle.files[i].hash, 0, (int64_t)size, text, size, NULL),
            GK_OK);
        free(text);
    }
    json = gk_bundle_to_json(&bundle);
    gk_bundle_fini(&bundle);
    (void)snprintf(note, sizeof note, "// %d\n", number);
    struct gk_hash hash = gk_hash_bytes(note, strlen(note));
    gk_hash_hex(&hash, hex);
    assert_int_equal(
        files->put(files->context, &hash, 0, (int64_t)strlen(note), note, strlen(note), NULL),
        GK_OK);
    struct gk_json *file = gk_json_new_object();
    assert_true(gk_json_set_string(file, "path", "scale/zz_note.cuh") &&
                gk_json_set_string(file, "hash", hex) &&
                gk_json_set_int(file, "size", (int64_t)strlen(note)));
    list = gk_json_get_mutable(json, "files");
    assert_true(gk_json_push(list, file));
    return json;
}

/* The id of a bundle is the hash of its paths and their hashes, in order. */
static void set_id(struct gk_json *json)
{
    const struct gk_json *list = gk_json_get(json, "files");
    char hex[GK_HASH_TEXT_SIZE];
    struct gk_hasher hasher;
    gk_hasher_init(&hasher);
    for (size_t i = 0; i < gk_json_count(list); i++) {
        const struct gk_json *file = gk_json_at(list, i);
        struct gk_hash hash;
        assert_true(gk_hash_from_hex(gk_json_get_string(file, "hash", ""), &hash));
        gk_hasher_text(&hasher, gk_json_get_string(file, "path", ""));
        gk_hasher_part(&hasher, hash.bytes, GK_HASH_SIZE);
    }
    struct gk_hash id = gk_hasher_final(&hasher);
    gk_hash_hex(&id, hex);
    assert_true(gk_json_set_string(json, "id", hex));
}

static enum gk_status get(const struct gk_core_files *files, const struct gk_json *json,
                          const struct gk_catalog **catalog_out, struct gk_err *err)
{
    return files->catalog(files->context, gk_json_get(json, "files"),
                          gk_json_get_string(json, "id", ""), catalog_out, err);
}

static void catalogs_make_room(void **state)
{
    struct gk_blobs *blobs = NULL;
    struct gk_err err = {0};
    const struct gk_catalog *held = NULL, *again = NULL, *taken[BUNDLES] = {0};
    struct gk_json *bundles[BUNDLES];
    (void)state;
    assert_int_equal(gk_blobs_create(folder, &blobs, &err), GK_OK);
    struct gk_core_files files = gk_blobs_files(blobs);
    for (int i = 0; i < BUNDLES; i++) {
        bundles[i] = bundle_of(&files, i);
        set_id(bundles[i]);
    }
    assert_int_equal(get(&files, bundles[0], &held, &err), GK_OK); /* held all the time */
    for (int i = 1; i < BUNDLES; i++) {
        if (get(&files, bundles[i], &again, &err) != GK_OK) {
            fail_msg("bundle %d: %s", i, err.text);
        }
        assert_non_null(gk_catalog_find(again, "scale"));
        files.release(files.context, again);
    }
    assert_non_null(gk_catalog_find(held, "scale")); /* the sanitizer would tell */
    assert_int_equal(get(&files, bundles[0], &again, &err), GK_OK);
    assert_ptr_equal(again, held);
    files.release(files.context, again);
    files.release(files.context, held);
    uint32_t count = 0;
    while (count < BUNDLES && get(&files, bundles[count], &taken[count], &err) == GK_OK) {
        count++;
    }
    assert_true(count > 16 && count < BUNDLES); /* all are held: no room, and said so */
    assert_int_equal(err.status, GK_LIMIT);
    files.release(files.context, taken[0]);
    assert_int_equal(get(&files, bundles[count], &again, &err), GK_OK);
    for (int i = 0; i < BUNDLES; i++) {
        gk_json_free(bundles[i]);
    }
    gk_blobs_destroy(blobs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(catalogs_make_room)};
    return cmocka_run_group_tests(tests, make_folder, drop_folder);
}
