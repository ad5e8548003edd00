/* Key files, the list of admitted keys, roles and networks: what is read is written back the same;
 * nothing of a file that was refused is left behind. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/key_list.h"
#include "core/keys.h"
#include "tests/fuzz/fuzz_folder.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void as_key(const uint8_t *data, size_t size)
{
    struct gk_key key, again;
    struct gk_err err = {0};
    if (gk_key_load(fuzz_write("a.key", data, size), &key, &err) != GK_OK) {
        return;
    }
    if (!key.name[0] || !key.public_key[0] || !key.secret_key[0]) {
        return; /* a file that only says who somebody else is is never written by us */
    }
    const char *path = fuzz_write("b.key", data, 0);
    GK_ASSERT(unlink(path) == 0 && gk_key_save(path, &key, &err) == GK_OK);
    GK_ASSERT(gk_key_load(path, &again, &err) == GK_OK);
    GK_ASSERT(strcmp(key.public_key, again.public_key) == 0 &&
              strcmp(key.secret_key, again.secret_key) == 0 &&
              strcmp(key.server_key, again.server_key) == 0 && strcmp(key.name, again.name) == 0);
    gk_key_wipe(&key);
    gk_key_wipe(&again);
}

static void as_list(const uint8_t *data, size_t size)
{
    struct gk_key_list list = {0}, again = {0};
    struct gk_err err = {0};
    (void)fuzz_write(GK_STATE_KEYS, data, size);
    if (gk_key_list_load(fuzz_folder(), &list, &err) != GK_OK) {
        return;
    }
    GK_ASSERT(gk_key_list_save(fuzz_folder(), &list, &err) == GK_OK);
    GK_ASSERT(gk_key_list_load(fuzz_folder(), &again, &err) == GK_OK && again.count == list.count);
    for (uint32_t i = 0; i < list.count; i++) {
        GK_ASSERT(strcmp(list.keys[i].name, again.keys[i].name) == 0);
        GK_ASSERT(list.keys[i].roles == again.keys[i].roles);
        GK_ASSERT((list.keys[i].revoked_ms != 0) == (again.keys[i].revoked_ms != 0));
        GK_ASSERT(gk_key_list_find(&list, list.keys[i].public_key) == &list.keys[i]);
    }
    gk_key_list_fini(&list);
    gk_key_list_fini(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gk_err err = {0};
    uint8_t roles = 0;
    as_key(data, size);
    as_list(data, size);
    char *text = malloc(size + 1);
    GK_ASSERT(text);
    if (size) {
        memcpy(text, data, size);
    }
    text[size] = '\0';
    if (gk_roles_parse(text, &roles, &err) == GK_OK) {
        char words[32];
        uint8_t back = 0;
        gk_roles_text(roles, words);
        GK_ASSERT(roles == 0 || (gk_roles_parse(words, &back, &err) == GK_OK && back == roles));
    }
    if (gk_hosts_check(text, &err) == GK_OK) {
        (void)gk_hosts_match(text, "10.1.2.3"); /* either answer is right here */
        (void)gk_hosts_match(text, "fe80::1");
        GK_ASSERT(!gk_hosts_match(text, "no address"));
    }
    free(text);
    return 0;
}
