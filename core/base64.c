/* Base64 over libsodium: see base64.h. */
#include "core/base64.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

/* Multiples of 3 and 4, so that pieces join without padding between them. */
#define PIECE_BYTES 3072
#define PIECE_TEXT  (PIECE_BYTES / 3 * 4)

void gk_base64_encode(const void *bytes, size_t size, struct gk_buf *out)
{
    char text[PIECE_TEXT + 1];
    for (size_t at = 0; at < size; at += PIECE_BYTES) {
        size_t piece = size - at < PIECE_BYTES ? size - at : PIECE_BYTES;
        gk_buf_puts(out, sodium_bin2base64(text, sizeof text, (const unsigned char *)bytes + at,
                                           piece, sodium_base64_VARIANT_ORIGINAL));
    }
}

/* libsodium 1.0.18 takes some bytes of 0x80 and more for characters of the alphabet (0xe4 for '/',
 * found by fuzz_blob). */
static bool is_ascii(const char *text, size_t size)
{
    unsigned char all = 0;
    for (size_t i = 0; i < size; i++) {
        all |= (unsigned char)text[i];
    }
    return all < 0x80;
}

enum gk_status gk_base64_decode(const char *text, size_t size, struct gk_buf *out,
                                struct gk_err *err)
{
    unsigned char bytes[PIECE_BYTES];
    size_t start = out->size;
    if (size % 4 != 0) {
        return gk_fail(err, GK_PARSE, "base64: %zu characters are not a multiple of 4", size);
    }
    for (size_t at = 0; at < size; at += PIECE_TEXT) {
        size_t piece = size - at < PIECE_TEXT ? size - at : PIECE_TEXT, count = 0;
        const char *end = NULL;
        if (!is_ascii(text + at, piece) ||
            sodium_base642bin(bytes, sizeof bytes, text + at, piece, NULL, &count, &end,
                              sodium_base64_VARIANT_ORIGINAL) != 0 ||
            end != text + at + piece || (at + piece < size && count != PIECE_BYTES)) {
            if (out->data) {
                out->size = start;
                out->data[start] = '\0';
            }
            return gk_fail(err, GK_PARSE, "base64: no canonical text at or behind offset %zu", at);
        }
        gk_buf_add(out, bytes, count);
    }
    return gk_buf_status(out, err);
}
