/* Identity hashes over libsodium's BLAKE2b: see hash.h. */
#include "core/hash.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "core/json.h"

_Static_assert(sizeof(crypto_generichash_state) <= sizeof(((struct gk_hasher *)0)->state),
               "gk_hasher must hold libsodium's state");

enum gk_status gk_hash_setup(struct gk_err *err)
{
    return sodium_init() < 0 ? gk_fail(err, GK_INTERNAL, "libsodium does not start") : GK_OK;
}

struct gk_hash gk_hash_bytes(const void *bytes, size_t size)
{
    struct gk_hash hash;
    static const unsigned char nothing = 0;
    crypto_generichash(hash.bytes, sizeof hash.bytes, size ? bytes : &nothing, size, NULL, 0);
    return hash;
}

struct gk_hash gk_hash_text(const char *text)
{
    return gk_hash_bytes(text, strlen(text));
}

bool gk_hash_equal(const struct gk_hash *a, const struct gk_hash *b)
{
    return memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0;
}

bool gk_hash_is_zero(const struct gk_hash *hash)
{
    static const struct gk_hash zero;
    return gk_hash_equal(hash, &zero);
}

void gk_hash_hex(const struct gk_hash *hash, char text_out[GK_HASH_TEXT_SIZE])
{
    (void)sodium_bin2hex(text_out, GK_HASH_TEXT_SIZE, hash->bytes, sizeof hash->bytes);
}

bool gk_hash_from_hex(const char *text, struct gk_hash *hash_out)
{
    struct gk_hash hash;
    size_t size = 0;
    if (!text || strlen(text) != 2 * sizeof hash.bytes ||
        sodium_hex2bin(hash.bytes, sizeof hash.bytes, text, 2 * sizeof hash.bytes, NULL, &size,
                       NULL) != 0 ||
        size != sizeof hash.bytes) {
        return false;
    }
    *hash_out = hash;
    return true;
}

enum gk_status gk_hash_file(const char *path, size_t size_max, struct gk_hash *hash_out,
                            struct gk_err *err)
{
    char *text = NULL;
    size_t size = 0;
    enum gk_status status = gk_file_load(path, size_max, &text, &size, err);
    if (status == GK_OK) {
        *hash_out = gk_hash_bytes(text, size);
    }
    free(text);
    return status;
}

static crypto_generichash_state *state_of(struct gk_hasher *hasher)
{
    return (crypto_generichash_state *)(void *)hasher->state;
}

void gk_hasher_init(struct gk_hasher *hasher)
{
    crypto_generichash_init(state_of(hasher), NULL, 0, GK_HASH_SIZE);
}

void gk_hasher_part(struct gk_hasher *hasher, const void *bytes, size_t size)
{
    unsigned char prefix[8];
    for (int i = 0; i < 8; i++) {
        prefix[i] = (unsigned char)((uint64_t)size >> (8 * i));
    }
    crypto_generichash_update(state_of(hasher), prefix, sizeof prefix);
    if (size) {
        crypto_generichash_update(state_of(hasher), bytes, size);
    }
}

void gk_hasher_text(struct gk_hasher *hasher, const char *text)
{
    gk_hasher_part(hasher, text, strlen(text));
}

struct gk_hash gk_hasher_final(struct gk_hasher *hasher)
{
    struct gk_hash hash;
    crypto_generichash_final(state_of(hasher), hash.bytes, sizeof hash.bytes);
    return hash;
}

void gk_random_bytes(void *out, size_t size)
{
    randombytes_buf(out, size);
}
