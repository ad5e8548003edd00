/* Paged listings and blobs over a client: the parts of client.h that are made of requests. */
#include "cli/client.h"
#include "core/base64.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define BLOB_CHUNK (256u << 10) /* bytes of one message; the protocol's bound */

enum gk_status gk_client_pages(struct gk_client *client, const char *verb, struct gk_json *body,
                               const char *list, gk_client_row row, void *context,
                               struct gk_err *err)
{
    enum gk_status status = GK_OK;
    bool more = true;
    while (status == GK_OK && more) {
        struct gk_json *reply = NULL;
        struct gk_json *page = gk_json_copy(body);
        status = page ? gk_client_request(client, verb, page, 0, &reply, err)
                      : gk_fail(err, GK_NOMEM, "out of memory");
        const struct gk_json *rows = gk_json_get(reply, list);
        for (size_t i = 0; status == GK_OK && i < gk_json_count(rows); i++) {
            status = row(context, gk_json_at(rows, i), err);
        }
        const struct gk_json *next = gk_json_get(reply, "next");
        more = next && gk_json_type(next) != GK_JSON_NULL;
        if (status == GK_OK && more && !gk_json_set(body, "cursor", gk_json_copy(next))) {
            status = gk_fail(err, GK_NOMEM, "out of memory");
        }
        gk_json_free(reply);
    }
    gk_json_free(body);
    return status;
}

static enum gk_status put_blob(struct gk_client *client, const char *hash, const char *bytes,
                               size_t size, struct gk_err *err)
{
    enum gk_status status = GK_OK;
    size_t offset = 0;
    do {
        size_t left = size - offset, part = left < BLOB_CHUNK ? left : BLOB_CHUNK;
        struct gk_buf text = {0};
        gk_base64_encode(bytes + offset, part, &text);
        struct gk_json *body = gk_json_new_object();
        (void)gk_json_set_string(body, "hash", hash);
        (void)gk_json_set_int(body, "offset", (int64_t)offset);
        (void)gk_json_set_int(body, "size", (int64_t)size);
        (void)gk_json_set_string(body, "data", gk_buf_text(&text));
        status = gk_buf_status(&text, err);
        gk_buf_fini(&text);
        if (status == GK_OK) {
            status = gk_client_request(client, "blob_put", body, 0, NULL, err);
        } else {
            gk_json_free(body);
        }
        offset += part;
    } while (status == GK_OK && offset < size);
    return status;
}

static const struct gk_bundle_file *file_of(const struct gk_bundle *bundle, const char *hex)
{
    struct gk_hash hash;
    if (!gk_hash_from_hex(hex, &hash)) {
        return NULL;
    }
    for (uint32_t i = 0; i < bundle->count; i++) {
        if (gk_hash_equal(&bundle->files[i].hash, &hash)) {
            return &bundle->files[i];
        }
    }
    return NULL;
}

enum gk_status gk_client_put_bundle(struct gk_client *client, const struct gk_catalog *catalog,
                                    const struct gk_bundle *bundle, struct gk_err *err)
{
    struct gk_json *body = gk_json_new_object(), *hashes = gk_json_new_array(), *reply = NULL;
    for (uint32_t i = 0; i < bundle->count; i++) {
        char hex[GK_HASH_TEXT_SIZE];
        gk_hash_hex(&bundle->files[i].hash, hex);
        (void)gk_json_push(hashes, gk_json_new_string(hex));
    }
    (void)gk_json_set(body, "hashes", hashes);
    enum gk_status status = gk_client_request(client, "blob_have", body, 0, &reply, err);
    const struct gk_json *missing = gk_json_get(reply, "missing");
    for (size_t i = 0; status == GK_OK && i < gk_json_count(missing); i++) {
        const char *hex = gk_json_string(gk_json_at(missing, i), "");
        const struct gk_bundle_file *file = file_of(bundle, hex);
        char *text = NULL;
        size_t size = 0;
        if (!file) {
            status =
                gk_fail(err, GK_PROTOCOL, "the daemon asks for a blob %.16s that is not ours", hex);
            break;
        }
        status = gk_catalog_file(catalog, file->path, &text, &size, err);
        if (status == GK_OK) {
            status = put_blob(client, hex, text, size, err);
        }
        free(text);
    }
    gk_json_free(reply);
    return status;
}

enum gk_status gk_client_get_blob(struct gk_client *client, const struct gk_hash *hash,
                                  char **bytes_out, size_t *size_out, struct gk_err *err)
{
    char hex[GK_HASH_TEXT_SIZE];
    gk_hash_hex(hash, hex);
    struct gk_buf bytes = {0};
    enum gk_status status = GK_OK;
    int64_t size = 0;
    do {
        struct gk_json *body = gk_json_new_object(), *reply = NULL;
        (void)gk_json_set_string(body, "hash", hex);
        (void)gk_json_set_int(body, "offset", (int64_t)bytes.size);
        size_t before = bytes.size;
        status = gk_client_request(client, "blob_get", body, 0, &reply, err);
        const char *data = gk_json_get_string(reply, "data", "");
        size = gk_json_get_int(reply, "size", 0);
        if (status == GK_OK) {
            status = gk_base64_decode(data, strlen(data), &bytes, err);
        }
        gk_json_free(reply);
        if (status == GK_OK && (size > (int64_t)GK_BUNDLE_MAX ||
                                (bytes.size == before && (int64_t)bytes.size < size))) {
            status = gk_fail(err, GK_PROTOCOL, "blob %s: %" PRId64 " bytes promised, %zu came", hex,
                             size, bytes.size);
        }
    } while (status == GK_OK && (int64_t)bytes.size < size);
    struct gk_hash met = gk_hash_bytes(gk_buf_text(&bytes), bytes.size);
    if (status == GK_OK && !gk_hash_equal(&met, hash)) {
        status = gk_fail(err, GK_CORRUPT, "blob %s: its bytes have another hash", hex);
    }
    if (status == GK_OK) {
        *size_out = bytes.size;
        gk_buf_putc(&bytes, '\0');
        *bytes_out = gk_buf_detach(&bytes);
        status = *bytes_out ? GK_OK : gk_fail(err, GK_NOMEM, "out of memory");
    }
    gk_buf_fini(&bytes);
    return status;
}
