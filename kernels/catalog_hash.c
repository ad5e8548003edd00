/*
 * Identity of a template: docs/formats.md, section "Identity".
 *
 * What changes the numbers a config computes, how it is launched, or what "verified" meant (the
 * op's tensors, reference and tolerance) is inside; what only widens, narrows or explains the space
 * is outside, so that adding a value makes no stored result stale.
 */
#include "kernels/catalog_internal.h"

#include <string.h>

/* A deep copy without "doc" and "why". */
static struct gk_json *without_words(const struct gk_json *json)
{
    if (gk_json_is(json, GK_JSON_ARRAY)) {
        struct gk_json *list = gk_json_new_array();
        for (size_t i = 0; list && i < gk_json_count(json); i++) {
            if (!gk_json_push(list, without_words(gk_json_at(json, i)))) {
                gk_json_free(list);
                return NULL;
            }
        }
        return list;
    }
    if (!gk_json_is(json, GK_JSON_OBJECT)) {
        return gk_json_copy(json);
    }
    struct gk_json *object = gk_json_new_object();
    void *cursor = NULL;
    const char *key = NULL;
    for (const struct gk_json *value = NULL;
         object && (value = gk_json_next(json, &cursor, &key));) {
        bool words = strcmp(key, "doc") == 0 || strcmp(key, "why") == 0;
        if (!words && !gk_json_set(object, key, without_words(value))) {
            gk_json_free(object);
            return NULL;
        }
    }
    return object;
}

static bool add_params(struct gk_json *object, const struct gk_template *t)
{
    struct gk_json *list = gk_json_new_array();
    bool good = list != NULL;
    for (uint32_t i = 0; good && i < t->param_count; i++) {
        struct gk_json *param = gk_json_new_object();
        good = param && gk_json_set_string(param, "name", t->params[i].name) &&
               gk_json_set_string(param, "macro", t->params[i].macro);
        if (good) {
            good = gk_json_push(list, param);
        } else {
            gk_json_free(param);
        }
    }
    if (!good) {
        gk_json_free(list);
        return false;
    }
    return gk_json_set(object, "params", list);
}

/* Canonical text of some sections of a file, without words; NULL-safe towards absent ones. */
static enum gk_status add_sections(struct gk_json *object, const struct gk_json *json,
                                   const char *const *sections, size_t count, struct gk_buf *text,
                                   struct gk_err *err)
{
    bool good = object != NULL;
    for (size_t i = 0; good && i < count; i++) {
        const struct gk_json *section = gk_json_get(json, sections[i]);
        good = !section || gk_json_set(object, sections[i], without_words(section));
    }
    return good ? gk_json_canonical(object, text, err) : gk_fail(err, GK_NOMEM, "out of memory");
}

enum gk_status gk_op_hash(const struct gk_json *json, const struct gk_op *op,
                          struct gk_hash *hash_out, struct gk_err *err)
{
    static const char *const inside[] = {"tensors", "reference", "tolerance", "exact", "extreme"};
    struct gk_buf text = {0};
    struct gk_json *object = gk_json_new_object();
    enum gk_status status = add_sections(object, json, inside, GK_ARRAY_COUNT(inside), &text, err);
    if (status == GK_OK) {
        struct gk_hasher hasher;
        gk_hasher_init(&hasher);
        gk_hasher_text(&hasher, "op 1");
        gk_hasher_part(&hasher, text.data, text.size);
        gk_hasher_part(&hasher, op->reference.tokens.bytes, GK_HASH_SIZE);
        *hash_out = gk_hasher_final(&hasher);
    }
    gk_json_free(object);
    gk_buf_fini(&text);
    return status;
}

enum gk_status gk_template_hash(const struct gk_json *json, const struct gk_op *op,
                                const struct gk_template *t, struct gk_hash *hash_out,
                                struct gk_err *err)
{
    static const char *const inside[] = {"template",     "op",          "launches", "workspaces",
                                         "tensor_maps",  "derived",     "bake",     "options",
                                         "dtype_macros", "macro_prefix"};
    struct gk_buf text = {0};
    struct gk_json *object = gk_json_new_object();
    enum gk_status status =
        object && add_params(object, t) ? GK_OK : gk_fail(err, GK_NOMEM, "out of memory");
    if (status == GK_OK) {
        status = add_sections(object, json, inside, GK_ARRAY_COUNT(inside), &text, err);
    }
    if (status != GK_OK) {
        goto out;
    }
    struct gk_hasher hasher;
    gk_hasher_init(&hasher);
    gk_hasher_text(&hasher, "template 1"); /* another way of hashing gets another word here */
    gk_hasher_part(&hasher, text.data, text.size);
    gk_hasher_part(&hasher, op->meaning.bytes, GK_HASH_SIZE);
    for (uint32_t i = 0; i < t->launch_count; i++) {
        gk_hasher_part(&hasher, t->launches[i].tokens.bytes, GK_HASH_SIZE);
    }
    *hash_out = gk_hasher_final(&hasher);
out:
    gk_json_free(object);
    gk_buf_fini(&text);
    return status;
}
