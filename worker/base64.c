/* Bytes in JSON: see base64.h. */
#include "worker/base64.h"

#include <stdlib.h>
#include <string.h>

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

char *gk_base64_encode(const void *bytes, size_t size)
{
    const unsigned char *from = bytes;
    if (size > SIZE_MAX / 2) {
        return NULL;
    }
    char *text = malloc((size + 2) / 3 * 4 + 1);
    char *to = text;
    for (size_t i = 0; text && i < size; i += 3) {
        size_t left = size - i;
        uint32_t word = (uint32_t)from[i] << 16 | (left > 1 ? (uint32_t)from[i + 1] << 8 : 0) |
                        (left > 2 ? from[i + 2] : 0u);
        *to++ = digits[word >> 18];
        *to++ = digits[word >> 12 & 63];
        *to++ = left > 1 ? digits[word >> 6 & 63] : '=';
        *to++ = left > 2 ? digits[word & 63] : '=';
    }
    if (text) {
        *to = '\0';
    }
    return text;
}

static int value_of(char c)
{
    const char *at = c ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) : -1;
}

enum gk_status gk_base64_decode(const char *text, unsigned char **bytes_out, size_t *size_out,
                                struct gk_err *err)
{
    size_t length = strlen(text), size = 0;
    size_t padding =
        length >= 2 ? (size_t)(text[length - 1] == '=') + (text[length - 2] == '=') : 0;
    if (length % 4 != 0) {
        return gk_fail(err, GK_PARSE, "base64 of %zu characters; a multiple of 4 is allowed",
                       length);
    }
    unsigned char *bytes = malloc(length / 4 * 3 + 1);
    if (!bytes) {
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    for (size_t i = 0; i < length; i += 4) {
        uint32_t word = 0;
        size_t known = i + 4 == length ? 4 - padding : 4;
        for (size_t k = 0; k < 4; k++) {
            int value = k < known ? value_of(text[i + k]) : 0;
            if (value < 0) {
                free(bytes);
                return gk_fail(err, GK_PARSE, "base64: character %zu is not a digit of it", i + k);
            }
            word = word << 6 | (uint32_t)value;
        }
        bytes[size++] = (unsigned char)(word >> 16);
        if (known > 2) {
            bytes[size++] = (unsigned char)(word >> 8);
        }
        if (known > 3) {
            bytes[size++] = (unsigned char)word;
        }
    }
    *bytes_out = bytes;
    *size_out = size;
    return GK_OK;
}
