/* core/hash: known answers of BLAKE2b-256, hex, streaming. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "core/hash.h"
#include "core/json.h"
#include "tests/support/check.h"

/* From the reference program (b2sum -l 256). */
#define HASH_EMPTY "0e5751c026e543b2e8ab2eb06099daa1d1e5df47778f7787faab45cdf12fe3a8"
#define HASH_ABC   "bddd813c634239723171ef3fee98579b94964e3bb1cb3e427262c8c068d52319"

static void known_answers(void **state)
{
    (void)state;
    char hex[GK_HASH_TEXT_SIZE];
    struct gk_hash hash = gk_hash_bytes(NULL, 0);
    gk_hash_hex(&hash, hex);
    assert_string_equal(hex, HASH_EMPTY);
    hash = gk_hash_text("abc");
    gk_hash_hex(&hash, hex);
    assert_string_equal(hex, HASH_ABC);
}

static void hex_is_strict(void **state)
{
    (void)state;
    struct gk_hash hash = {{0}}, back = gk_hash_text("abc");
    assert_true(gk_hash_is_zero(&hash));
    assert_true(gk_hash_from_hex(HASH_ABC, &hash));
    assert_true(gk_hash_equal(&hash, &back));
    assert_false(gk_hash_is_zero(&hash));
    assert_false(gk_hash_from_hex(NULL, &hash));
    assert_false(gk_hash_from_hex("", &hash));
    assert_false(gk_hash_from_hex(HASH_ABC "0", &hash));
    assert_false(gk_hash_from_hex(&HASH_ABC[1], &hash));
    char bad[] = HASH_ABC;
    bad[5] = 'g';
    assert_false(gk_hash_from_hex(bad, &hash));
    assert_true(gk_hash_equal(&hash, &back)); /* nothing is written on failure */
}

static struct gk_hash of_parts(const char *a, const char *b)
{
    struct gk_hasher hasher;
    gk_hasher_init(&hasher);
    gk_hasher_text(&hasher, a);
    gk_hasher_part(&hasher, b, strlen(b));
    return gk_hasher_final(&hasher);
}

static void parts_do_not_run_together(void **state)
{
    (void)state;
    struct gk_hash a = of_parts("ab", "c"), b = of_parts("a", "bc"), c = of_parts("ab", "c");
    struct gk_hash d = of_parts("abc", ""), whole = gk_hash_text("abc");
    assert_true(gk_hash_equal(&a, &c));
    assert_false(gk_hash_equal(&a, &b));
    assert_false(gk_hash_equal(&a, &d));
    assert_false(gk_hash_equal(&d, &whole));
}

static void files(void **state)
{
    (void)state;
    struct gk_hash hash, want = gk_hash_text("a\0b");
    struct gk_err err;
    assert_ok(gk_file_store("test_hash.tmp", "a\0b", 3, &err), err);
    assert_ok(gk_hash_file("test_hash.tmp", 3, &hash, &err), err);
    assert_false(gk_hash_equal(&hash, &want)); /* the bytes after the NUL count */
    want = gk_hash_bytes("a\0b", 3);
    assert_true(gk_hash_equal(&hash, &want));
    assert_int_equal(gk_hash_file("test_hash.tmp", 2, &hash, &err), GK_LIMIT);
    assert_int_equal(gk_hash_file("no/such", 2, &hash, &err), GK_NOT_FOUND);
    assert_int_equal(remove("test_hash.tmp"), 0);
}

static void random_bytes_differ(void **state)
{
    (void)state;
    uint8_t a[16] = {0}, b[16] = {0};
    gk_random_bytes(a, sizeof a);
    gk_random_bytes(b, sizeof b);
    assert_memory_not_equal(a, b, sizeof a);
}

static int setup(void **state)
{
    (void)state;
    return gk_hash_setup(NULL) == GK_OK ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_answers),
        cmocka_unit_test(hex_is_strict),
        cmocka_unit_test(parts_do_not_run_together),
        cmocka_unit_test(files),
        cmocka_unit_test(random_bytes_differ),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
