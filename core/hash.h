/*
 * Identity: BLAKE2b-256 of canonical bytes (libsodium). Ids of problems, configs, templates, blobs
 * and cache entries are all of this type; they are printed in full or as their first 12 digits.
 */
#ifndef GK_CORE_HASH_H
#define GK_CORE_HASH_H

#include "core/status.h"

#define GK_HASH_SIZE      32
#define GK_HASH_TEXT_SIZE 65 /* 64 hex digits and the NUL */

struct gk_hash {
    uint8_t bytes[GK_HASH_SIZE];
};

/* Must be called once by each main before anything else of this header. */
enum gk_status gk_hash_setup(struct gk_err *err);

struct gk_hash gk_hash_bytes(const void *bytes, size_t size);
struct gk_hash gk_hash_text(const char *text);
bool gk_hash_equal(const struct gk_hash *a, const struct gk_hash *b);
bool gk_hash_is_zero(const struct gk_hash *hash);
void gk_hash_hex(const struct gk_hash *hash, char text_out[GK_HASH_TEXT_SIZE]);
bool gk_hash_from_hex(const char *text, struct gk_hash *hash_out); /* 64 hex digits exactly */
enum gk_status gk_hash_file(const char *path, size_t size_max, struct gk_hash *hash_out,
                            struct gk_err *err);

/* Streaming: parts are length-prefixed, so ("ab","c") and ("a","bc") differ. */
struct gk_hasher {
    _Alignas(64) unsigned char state[512]; /* holds crypto_generichash_state; checked in hash.c */
};
void gk_hasher_init(struct gk_hasher *hasher);
void gk_hasher_part(struct gk_hasher *hasher, const void *bytes, size_t size);
void gk_hasher_text(struct gk_hasher *hasher, const char *text);
struct gk_hash gk_hasher_final(struct gk_hasher *hasher);

/* Cryptographic randomness for session ids and submit ids only; never for search or inputs. */
void gk_random_bytes(void *out, size_t size);

#endif
