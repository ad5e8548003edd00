/* Pieces of blobs as they come in messages: base64 from strangers is bytes or refused, in whatever
 * pieces they come the file is stored only if its hash is right, and it comes back as it was. */
#include <stdlib.h>
#include <string.h>

#include "core/base64.h"
#include "daemon/blobs.h"
#include "tests/fuzz/fuzz_folder.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct gk_blobs *blobs;

static void as_base64(const uint8_t *data, size_t size)
{
    struct gk_buf bytes = {0}, text = {0};
    struct gk_err err = {0};
    char *copy = gk_strndup((const char *)data, size);
    GK_ASSERT(copy);
    if (gk_base64_decode(copy, strlen(copy), &bytes, &err) == GK_OK) {
        gk_base64_encode(bytes.data, bytes.size, &text);
        GK_ASSERT(strcmp(gk_buf_text(&text), copy) == 0);
    }
    free(copy);
    gk_buf_fini(&bytes);
    gk_buf_fini(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gk_err err = {0};
    as_base64(data, size);
    if (!blobs) {
        GK_ASSERT(gk_hash_setup(&err) == GK_OK &&
                  gk_blobs_create(fuzz_folder(), &blobs, &err) == GK_OK);
    }
    struct gk_core_files files = gk_blobs_files(blobs);
    struct gk_hash hash = gk_hash_bytes(data, size), other = hash;
    other.bytes[0] ^= 1;
    /* The first byte says in which pieces, and whether an offset is wrong. */
    size_t piece = 1 + (size ? data[0] % 61u : 0u) * 7u;
    int64_t slip = size > 1 && data[1] % 5 == 0 ? (int64_t)data[1] - 100 : 0;
    enum gk_status status = GK_OK;
    for (size_t at = 0; status == GK_OK && (at < size || at == 0); at += piece) {
        size_t count = size - at < piece ? size - at : piece;
        status =
            files.put(files.context, &other, (int64_t)at, (int64_t)size, data + at, count, &err);
        status = status == GK_OK && at + count == size ? GK_INPUT : status;
    }
    GK_ASSERT(!files.has(files.context, &other)); /* the hash is another one */
    for (size_t at = 0, count = 0; at < size || at == 0; at += piece) {
        count = size - at < piece ? size - at : piece;
        status = files.put(files.context, &hash, (int64_t)at + slip, (int64_t)size, data + at,
                           count, &err);
        if (status != GK_OK) {
            break;
        }
    }
    if (files.has(files.context, &hash)) {
        char *back = NULL;
        size_t count = 0;
        int64_t whole = 0;
        GK_ASSERT(files.get(files.context, &hash, 0, &back, &count, &whole, &err) == GK_OK);
        GK_ASSERT((size_t)whole == size && memcmp(back, data, count) == 0);
        free(back);
    } else {
        GK_ASSERT(slip != 0 || status != GK_OK);
    }
    return 0;
}
