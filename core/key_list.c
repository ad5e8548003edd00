/* The admitted keys: see key_list.h. */
#include "core/key_list.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/buf.h"

#define LIST_VERSION 1
#define REASON_MAX   256

/* ------------------------------------------------------------------ addresses */

struct network {
    unsigned char bytes[16]; /* IPv4 as ::ffff:a.b.c.d */
    unsigned prefix;         /* bits of it that count */
};

static bool read_address(const char *text, unsigned char bytes_out[16], bool *is_v4_out)
{
    struct in_addr v4;
    if (inet_pton(AF_INET, text, &v4) == 1) {
        memset(bytes_out, 0, 10);
        memset(bytes_out + 10, 0xff, 2);
        memcpy(bytes_out + 12, &v4, 4);
        *is_v4_out = true;
        return true;
    }
    *is_v4_out = false;
    return inet_pton(AF_INET6, text, bytes_out) == 1;
}

static bool read_network(const char *word, size_t size, struct network *out)
{
    char text[64];
    bool is_v4;
    if (size == 0 || size >= sizeof text) {
        return false;
    }
    memcpy(text, word, size);
    text[size] = '\0';
    char *slash = strchr(text, '/');
    if (slash) {
        *slash++ = '\0';
    }
    if (!read_address(text, out->bytes, &is_v4)) {
        return false;
    }
    unsigned most = is_v4 ? 32 : 128, prefix = most;
    if (slash) {
        char *end = NULL;
        unsigned long value = strtoul(slash, &end, 10);
        if (*slash < '0' || *slash > '9' || *end != '\0' || value > most) {
            return false;
        }
        prefix = (unsigned)value;
    }
    out->prefix = prefix + (is_v4 ? 96 : 0);
    return true;
}

enum gk_status gk_hosts_check(const char *hosts, struct gk_err *err)
{
    if (strlen(hosts) >= GK_KEY_HOSTS_MAX) {
        return gk_fail(err, GK_LIMIT, "hosts: %zu bytes, at most %d are kept", strlen(hosts),
                       GK_KEY_HOSTS_MAX - 1);
    }
    for (const char *word = hosts;; word++) {
        struct network network;
        size_t size = strcspn(word, ",");
        if (!read_network(word, size, &network)) {
            return gk_fail(err, GK_USAGE,
                           "hosts '%.100s': '%.*s' is no address; allowed are IP addresses and "
                           "networks, as 10.1.0.0/16,192.168.1.7",
                           hosts, (int)(size < 60 ? size : 60), word);
        }
        word += size;
        if (*word == '\0') {
            return GK_OK;
        }
    }
}

bool gk_hosts_match(const char *hosts, const char *address)
{
    unsigned char bytes[16];
    bool is_v4;
    if (!hosts) {
        return true;
    }
    if (!read_address(address, bytes, &is_v4)) {
        return false;
    }
    for (const char *word = hosts;; word++) {
        struct network network;
        size_t size = strcspn(word, ",");
        if (read_network(word, size, &network)) {
            bool equal = true;
            for (unsigned bit = 0; equal && bit < network.prefix; bit++) {
                unsigned shift = 7 - bit % 8;
                equal = ((unsigned)(bytes[bit / 8] ^ network.bytes[bit / 8]) >> shift & 1u) == 0;
            }
            if (equal) {
                return true;
            }
        }
        word += size;
        if (*word == '\0') {
            return false;
        }
    }
}

/* ------------------------------------------------------------------ the list */

static void fini_one(struct gk_admitted *key)
{
    free(key->hosts);
    free(key->reason);
}

void gk_key_list_fini(struct gk_key_list *list)
{
    for (uint32_t i = 0; list && i < list->count; i++) {
        fini_one(&list->keys[i]);
    }
    if (list) {
        free(list->keys);
        *list = (struct gk_key_list){0};
    }
}

const struct gk_admitted *gk_key_list_named(const struct gk_key_list *list, const char *name)
{
    for (uint32_t i = 0; i < list->count; i++) {
        if (strcmp(list->keys[i].name, name) == 0) {
            return &list->keys[i];
        }
    }
    return NULL;
}

const struct gk_admitted *gk_key_list_find(const struct gk_key_list *list, const char *public_key)
{
    for (uint32_t i = 0; i < list->count; i++) {
        if (strcmp(list->keys[i].public_key, public_key) == 0) {
            return &list->keys[i];
        }
    }
    return NULL;
}

static enum gk_status check_new(const struct gk_key_list *list, const struct gk_admitted *key,
                                struct gk_err *err)
{
    enum gk_status status = gk_key_name_check(key->name, err);
    if (status == GK_OK) {
        status = gk_key_text_check(key->public_key, "public key", err);
    }
    if (status == GK_OK && key->hosts) {
        status = gk_hosts_check(key->hosts, err);
    }
    if (status != GK_OK) {
        return status;
    }
    if (key->roles == 0 || key->roles > GK_ROLES_ALL) {
        return gk_fail(err, GK_USAGE, "key %s: at least one role is needed: submit, work, admin",
                       key->name);
    }
    const struct gk_admitted *other = gk_key_list_named(list, key->name);
    if (other) {
        return gk_fail(err, GK_EXISTS, "key %s: %s; a name is never used twice", key->name,
                       other->revoked_ms ? "was revoked" : "is admitted already");
    }
    other = gk_key_list_find(list, key->public_key);
    if (other) {
        return gk_fail(err, GK_EXISTS, "key %s: its public key is that of %s%s", key->name,
                       other->name, other->revoked_ms ? ", which was revoked" : "");
    }
    if (list->count >= GK_KEY_LIST_MAX) {
        return gk_fail(err, GK_LIMIT, "%d keys are kept, no more", GK_KEY_LIST_MAX);
    }
    return GK_OK;
}

enum gk_status gk_key_list_add(struct gk_key_list *list, const struct gk_admitted *key,
                               struct gk_err *err)
{
    enum gk_status status = check_new(list, key, err);
    if (status != GK_OK) {
        return status;
    }
    if (list->count == list->capacity) {
        uint32_t capacity = list->capacity ? list->capacity * 2 : 8;
        struct gk_admitted *keys = realloc(list->keys, capacity * sizeof *keys);
        if (!keys) {
            return gk_fail(err, GK_NOMEM, "out of memory for keys");
        }
        list->keys = keys;
        list->capacity = capacity;
    }
    struct gk_admitted copy = *key;
    copy.hosts = key->hosts ? gk_strdup(key->hosts) : NULL;
    copy.reason = key->reason ? gk_strdup(key->reason) : NULL;
    if ((key->hosts && !copy.hosts) || (key->reason && !copy.reason)) {
        fini_one(&copy);
        return gk_fail(err, GK_NOMEM, "out of memory for a key");
    }
    list->keys[list->count++] = copy;
    return GK_OK;
}

enum gk_status gk_key_list_revoke(struct gk_key_list *list, const char *name, int64_t now_ms,
                                  const char *reason, struct gk_err *err)
{
    for (uint32_t i = 0; i < list->count; i++) {
        struct gk_admitted *key = &list->keys[i];
        if (strcmp(key->name, name) != 0) {
            continue;
        }
        if (key->revoked_ms) {
            return gk_fail(err, GK_CONFLICT, "key %s was revoked before: %s", name,
                           key->reason ? key->reason : "no reason was given");
        }
        if (strlen(reason) >= REASON_MAX) {
            return gk_fail(err, GK_LIMIT, "a reason has at most %d bytes", REASON_MAX - 1);
        }
        char *copy = gk_strdup(reason);
        if (!copy) {
            return gk_fail(err, GK_NOMEM, "out of memory");
        }
        key->reason = copy;
        key->revoked_ms = now_ms;
        return GK_OK;
    }
    return gk_fail(err, GK_NOT_FOUND, "there is no key named '%.80s'; gktune keys list shows them",
                   name);
}

/* ------------------------------------------------------------------ the file */

struct gk_json *gk_admitted_json(const struct gk_admitted *key)
{
    struct gk_json *json = gk_json_new_object(), *roles = gk_json_new_array();
    bool good = json && roles;
    for (unsigned role = 1; good && role < GK_ROLES_ALL; role <<= 1) {
        good = !(key->roles & role) ||
               gk_json_push(roles, gk_json_new_string(gk_role_name((uint8_t)role)));
    }
    good = gk_json_set(json, "roles", roles) && good;
    good = good && gk_json_set_string(json, "name", key->name) &&
           gk_json_set_string(json, "public", key->public_key) &&
           gk_json_set_bool(json, "pool", key->is_pool) &&
           gk_json_set_int(json, "added_ms", key->added_ms) &&
           (!key->hosts || gk_json_set_string(json, "hosts", key->hosts)) &&
           (!key->revoked_ms || gk_json_set_int(json, "revoked_ms", key->revoked_ms)) &&
           (!key->reason || gk_json_set_string(json, "reason", key->reason));
    if (!good) {
        gk_json_free(json);
        return NULL;
    }
    return json;
}

static enum gk_status read_roles(const struct gk_json *json, uint8_t *roles_out, struct gk_err *err)
{
    const struct gk_json *roles;
    enum gk_status status = gk_json_need(json, "roles", GK_JSON_ARRAY, &roles, "key", err);
    *roles_out = 0;
    for (size_t i = 0; status == GK_OK && i < gk_json_count(roles); i++) {
        uint8_t bit = 0;
        status = gk_roles_parse(gk_json_string(gk_json_at(roles, i), ""), &bit, err);
        *roles_out = (uint8_t)(*roles_out | bit);
    }
    return status;
}

static enum gk_status read_one(const struct gk_json *json, struct gk_key_list *list,
                               struct gk_err *err)
{
    struct gk_admitted key = {0};
    const char *name, *public_key;
    enum gk_status status =
        gk_json_need_string(json, "name", GK_KEY_NAME_MAX - 1, &name, "key", err);
    if (status == GK_OK) {
        status = gk_json_need_string(json, "public", GK_KEY_TEXT_SIZE - 1, &public_key, "key", err);
    }
    if (status == GK_OK) {
        status = read_roles(json, &key.roles, err);
    }
    if (status != GK_OK) {
        return status;
    }
    (void)snprintf(key.name, sizeof key.name, "%s", name);
    (void)snprintf(key.public_key, sizeof key.public_key, "%s", public_key);
    key.is_pool = gk_json_get_bool(json, "pool", false);
    key.added_ms = gk_json_get_int(json, "added_ms", 0);
    key.revoked_ms = gk_json_get_int(json, "revoked_ms", 0);
    const char *hosts = gk_json_get_string(json, "hosts", NULL),
               *reason = gk_json_get_string(json, "reason", NULL);
    key.hosts = hosts ? gk_strdup(hosts) : NULL;
    key.reason = reason ? gk_strdup(reason) : NULL;
    status = (hosts && !key.hosts) || (reason && !key.reason)
                 ? gk_fail(err, GK_NOMEM, "out of memory for a key")
                 : gk_key_list_add(list, &key, err);
    fini_one(&key);
    return status;
}

static enum gk_status check_mode(const char *path, struct gk_err *err)
{
    struct stat info;
    if (stat(path, &info) == 0 && (info.st_mode & 022) != 0) {
        return gk_fail(err, GK_DENIED,
                       "%s: mode %04o lets others than its owner admit keys; make it 0600", path,
                       (unsigned)(info.st_mode & 07777));
    }
    return GK_OK;
}

static enum gk_status read_list(const char *path, struct gk_key_list *list, struct gk_err *err)
{
    struct gk_json *json = NULL;
    const struct gk_json *keys;
    int64_t version = 0;
    enum gk_status status = gk_json_load(path, GK_KEY_LIST_SIZE_MAX, &json, err);
    if (status != GK_OK) {
        return status == GK_NOT_FOUND ? GK_OK : status;
    }
    status = gk_json_need_int(json, "gktune_keys", 1, INT64_MAX, &version, path, err);
    if (status == GK_OK && version != LIST_VERSION) {
        status = gk_fail(err, GK_VERSION, "%s: version %" PRId64 ", this gktune knows %d", path,
                         version, LIST_VERSION);
    }
    if (status == GK_OK) {
        status = gk_json_need(json, "keys", GK_JSON_ARRAY, &keys, path, err);
    }
    for (size_t i = 0; status == GK_OK && i < gk_json_count(keys); i++) {
        status = read_one(gk_json_at(keys, i), list, err);
        if (status != GK_OK) {
            status = gk_fail_in(err, status, "%s: key %zu", path, i);
        }
    }
    gk_json_free(json);
    return status;
}

enum gk_status gk_key_list_load(const char *state_dir, struct gk_key_list *list_out,
                                struct gk_err *err)
{
    struct gk_key_list list = {0};
    char *path = gk_asprintf("%s/%s", state_dir, GK_STATE_KEYS);
    enum gk_status status = path ? check_mode(path, err) : gk_fail(err, GK_NOMEM, "out of memory");
    if (status == GK_OK) {
        status = read_list(path, &list, err);
    }
    free(path);
    if (status != GK_OK) {
        gk_key_list_fini(&list);
        return status;
    }
    *list_out = list;
    return GK_OK;
}

enum gk_status gk_key_list_save(const char *state_dir, const struct gk_key_list *list,
                                struct gk_err *err)
{
    char *path = gk_asprintf("%s/%s", state_dir, GK_STATE_KEYS), *text = NULL;
    struct gk_json *json = gk_json_new_object(), *keys = gk_json_new_array();
    bool good = path && gk_json_set_int(json, "gktune_keys", LIST_VERSION);
    for (uint32_t i = 0; good && i < list->count; i++) {
        good = gk_json_push(keys, gk_admitted_json(&list->keys[i]));
    }
    good = gk_json_set(json, "keys", keys) && good;
    text = good ? gk_json_text(json) : NULL;
    gk_json_free(json);
    enum gk_status status = text ? GK_OK : gk_fail(err, GK_NOMEM, "out of memory for keys");
    if (status == GK_OK) {
        status = gk_file_store(path, text, strlen(text), err);
    }
    free(text);
    free(path);
    return status;
}

enum gk_status gk_key_list_lock(const char *state_dir, int *fd_out, struct gk_err *err)
{
    int fd = open(state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc = -1;
    if (fd < 0) {
        return gk_fail(err, GK_IO, "state folder '%s': %s", state_dir, strerror(errno));
    }
    do {
        rc = flock(fd, LOCK_EX);
    } while (rc != 0 && errno == EINTR);
    if (rc != 0) {
        enum gk_status status =
            gk_fail(err, GK_IO, "state folder '%s': lock: %s", state_dir, strerror(errno));
        (void)close(fd); /* nothing was written */
        return status;
    }
    *fd_out = fd;
    return GK_OK;
}
