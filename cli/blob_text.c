/* Base64: see blob_text.h. */
#include "cli/blob_text.h"

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void gk_blob_text(const void *bytes, size_t size, struct gk_buf *out)
{
    const unsigned char *p = bytes;
    for (size_t i = 0; i < size; i += 3) {
        size_t left = size - i;
        uint32_t word = (uint32_t)p[i] << 16 | (left > 1 ? (uint32_t)p[i + 1] << 8 : 0) |
                        (left > 2 ? p[i + 2] : 0);
        char four[4] = {digits[word >> 18], digits[word >> 12 & 63],
                        left > 1 ? digits[word >> 6 & 63] : '=', left > 2 ? digits[word & 63] : '='};
        gk_buf_add(out, four, 4);
    }
}

static int digit_value(char c)
{
    return c >= 'A' && c <= 'Z'   ? c - 'A'
           : c >= 'a' && c <= 'z' ? c - 'a' + 26
           : c >= '0' && c <= '9' ? c - '0' + 52
           : c == '+'             ? 62
           : c == '/'             ? 63
                                  : -1;
}

enum gk_status gk_blob_bytes(const char *text, size_t size, struct gk_buf *out,
                                struct gk_err *err)
{
    size_t start = out->size;
    if (size % 4 != 0) {
        return gk_fail(err, GK_PARSE, "base64: %zu characters are not a multiple of 4", size);
    }
    for (size_t i = 0; i < size; i += 4) {
        bool last = i + 4 == size;
        unsigned pad = last && text[i + 3] == '=' ? (text[i + 2] == '=' ? 2 : 1) : 0;
        uint32_t word = 0;
        for (unsigned j = 0; j < 4; j++) {
            int value = j >= 4 - pad ? 0 : digit_value(text[i + j]);
            if (value < 0) {
                out->size = start;
                return gk_fail(err, GK_PARSE, "base64: byte 0x%02X at offset %zu is no digit",
                               (unsigned)(unsigned char)text[i + j], i + j);
            }
            word = word << 6 | (uint32_t)value;
        }
        if ((pad == 1 && (word & 0xFF) != 0) || (pad == 2 && (word & 0xFFFF) != 0)) {
            out->size = start;
            return gk_fail(err, GK_PARSE, "base64: bits are set behind the last byte");
        }
        unsigned char three[3] = {(unsigned char)(word >> 16), (unsigned char)(word >> 8),
                                  (unsigned char)word};
        gk_buf_add(out, three, 3 - pad);
    }
    return gk_buf_status(out, err);
}
