/* The cache of compiled code: round trip, damage, bound, two processes that want to build the same key. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "worker/cache.h"

static char folder[64];

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *walk)
{
    (void)info, (void)kind, (void)walk;
    return remove(path);
}

static int set_up(void **state)
{
    (void)state;
    (void)snprintf(folder, sizeof folder, "/tmp/gk-test-cache-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    return nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static struct gk_hash key_of(const char *text)
{
    struct gk_hash module = gk_hash_text(text);
    return gk_cache_key(&module, "sm_80", "13.0");
}

static void put(struct gk_cache *cache, const char *name, size_t ptx_size)
{
    struct gk_cache_entry entry = {.facts = {.found = true, .regs = 40, .spill_bytes = 8}};
    struct gk_hash key = key_of(name);
    entry.log = gk_strdup("fine");
    entry.ptx = calloc(1, ptx_size + 1);
    assert_non_null(entry.ptx);
    memset(entry.ptx, 'p', ptx_size);
    entry.ptx_size = ptx_size;
    entry.cubin = gk_strdup("cubin");
    entry.cubin_size = 5;
    assert_int_equal(gk_cache_put(cache, &key, &entry, NULL), GK_OK);
    gk_cache_entry_fini(&entry);
}

static enum gk_status get(struct gk_cache *cache, const char *name)
{
    struct gk_cache_entry entry = {0};
    struct gk_hash key = key_of(name);
    struct gk_err err = {0};
    enum gk_status status = gk_cache_get(cache, &key, &entry, &err);
    if (status == GK_OK) {
        assert_int_equal(entry.facts.regs, 40);
        assert_int_equal(entry.facts.spill_bytes, 8);
        assert_true(entry.facts.found);
        assert_string_equal(entry.log, "fine");
        assert_memory_equal(entry.cubin, "cubin", 5);
        assert_int_equal(entry.ptx[entry.ptx_size - 1], 'p');
    } else {
        assert_true(err.text[0] != 0);
    }
    gk_cache_entry_fini(&entry);
    return status;
}

static void keys_differ_by_everything(void **state)
{
    (void)state;
    struct gk_hash a = gk_hash_text("a"), b = gk_hash_text("b");
    struct gk_hash base = gk_cache_key(&a, "sm_80", "13.0");
    struct gk_hash others[] = {gk_cache_key(&b, "sm_80", "13.0"), gk_cache_key(&a, "sm_90", "13.0"),
                               gk_cache_key(&a, "sm_80", "13.1")};
    for (size_t i = 0; i < GK_ARRAY_COUNT(others); i++) {
        assert_false(gk_hash_equal(&base, &others[i]));
    }
}

static void every_damage_is_found(void **state)
{
    (void)state;
    struct gk_cache *cache = NULL;
    struct gk_hash key = key_of("x");
    char hex[GK_HASH_TEXT_SIZE], path[256];
    assert_int_equal(gk_cache_open(folder, 1 << 20, &cache, NULL), GK_OK);
    assert_int_equal(get(cache, "x"), GK_NOT_FOUND);
    gk_hash_hex(&key, hex);
    (void)snprintf(path, sizeof path, "%s/%s", folder, hex);
    put(cache, "x", 100);
    char *good = NULL;
    size_t size = 0;
    assert_int_equal(gk_file_load(path, 1 << 20, &good, &size, NULL), GK_OK);
    for (size_t i = 0; i < size; i++) { /* each byte flipped, then each length */
        good[i] = (char)(good[i] ^ 0x20);
        assert_int_equal(gk_file_store(path, good, size, NULL), GK_OK);
        assert_int_equal(get(cache, "x"), GK_CORRUPT);
        assert_int_equal(get(cache, "x"), GK_NOT_FOUND); /* the damaged one is gone */
        good[i] = (char)(good[i] ^ 0x20);
    }
    for (size_t cut = 0; cut < size; cut += 7) {
        assert_int_equal(gk_file_store(path, good, cut, NULL), GK_OK);
        assert_int_equal(get(cache, "x"), GK_CORRUPT);
    }
    put(cache, "x", 100);
    assert_int_equal(get(cache, "x"), GK_OK);
    free(good);
    gk_cache_close(cache);
}

static void oldest_leave_first(void **state)
{
    (void)state;
    struct gk_cache *cache = NULL;
    assert_int_equal(gk_cache_open(folder, 10000, &cache, NULL), GK_OK);
    put(cache, "first", 4000);
    put(cache, "second", 4000);
    assert_int_equal(get(cache, "first"), GK_OK); /* now used later than the second */
    put(cache, "third", 4000);
    assert_int_equal(get(cache, "second"), GK_NOT_FOUND);
    assert_int_equal(get(cache, "first"), GK_OK);
    assert_int_equal(get(cache, "third"), GK_OK);
    assert_true(gk_cache_bytes(cache) <= 10000);
    gk_cache_close(cache);
    assert_int_equal(gk_cache_open(folder, 10000, &cache, NULL), GK_OK); /* counted again */
    assert_true(gk_cache_bytes(cache) > 8000);
    gk_cache_close(cache);
}

/* The child takes the lock, says so, and dies when the pipe closes: the lock must die with it. */
static void lock_dies_with_its_holder(void **state)
{
    (void)state;
    struct gk_cache *cache = NULL;
    struct gk_hash key = key_of("x"), other = key_of("y");
    int say[2], hold[2], lock = -1, second = -1;
    char byte = 0;
    assert_int_equal(gk_cache_open(folder, 1 << 20, &cache, NULL), GK_OK);
    assert_int_equal(pipe(say) | pipe(hold), 0);
    pid_t child = fork();
    if (child == 0) {
        (void)close(hold[1]);
        bool held = gk_cache_lock(cache, &key, &lock, NULL) == GK_OK;
        (void)!write(say[1], held ? "y" : "n", 1);
        (void)!read(hold[0], &byte, 1);
        _exit(0);
    }
    assert_int_equal(read(say[0], &byte, 1), 1);
    assert_int_equal(byte, 'y');
    assert_int_equal(gk_cache_lock(cache, &key, &lock, NULL), GK_BUSY);
    assert_int_equal(gk_cache_lock(cache, &other, &second, NULL), GK_OK);
    (void)close(hold[1]);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(gk_cache_lock(cache, &key, &lock, NULL), GK_OK);
    gk_cache_unlock(lock);
    gk_cache_unlock(second);
    gk_cache_close(cache);
}

/* Writers and readers at once: a reader sees a whole entry or none. */
static void races_show_whole_entries(void **state)
{
    (void)state;
    struct gk_cache *cache = NULL;
    assert_int_equal(gk_cache_open(folder, 1 << 20, &cache, NULL), GK_OK);
    pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < 40; i++) {
            put(cache, "x", 3000);
        }
        _exit(0);
    }
    int ended = 0;
    while (waitpid(child, &ended, WNOHANG) == 0) {
        enum gk_status status = get(cache, "x");
        assert_true(status == GK_OK || status == GK_NOT_FOUND);
    }
    assert_true(WIFEXITED(ended) && WEXITSTATUS(ended) == 0);
    assert_int_equal(get(cache, "x"), GK_OK);
    gk_cache_close(cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_differ_by_everything),
        cmocka_unit_test_setup_teardown(every_damage_is_found, set_up, tear_down),
        cmocka_unit_test_setup_teardown(oldest_leave_first, set_up, tear_down),
        cmocka_unit_test_setup_teardown(lock_dies_with_its_holder, set_up, tear_down),
        cmocka_unit_test_setup_teardown(races_show_whole_entries, set_up, tear_down),
    };
    if (gk_hash_setup(NULL) != GK_OK) {
        return 1;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
