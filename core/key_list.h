/*
 * The keys that a daemon admits: `keys.json` in its state folder. Public halves alone; written by
 * `gktune keys`, read by the daemon at its start and whenever it is told to.
 *
 * A name is never given twice, also not after a revocation: logs and jobs carry names.
 */
#ifndef GK_CORE_KEY_LIST_H
#define GK_CORE_KEY_LIST_H

#include "core/json.h"
#include "core/keys.h"

#define GK_STATE_KEYS        "keys.json"
#define GK_KEY_LIST_MAX      10000
#define GK_KEY_HOSTS_MAX     1024 /* bytes of a list of addresses */
#define GK_KEY_LIST_SIZE_MAX (16u << 20)

struct gk_admitted {
    char name[GK_KEY_NAME_MAX];
    char public_key[GK_KEY_TEXT_SIZE];
    uint8_t roles;
    bool is_pool;       /* many hosts may use it at once */
    char *hosts;        /* "10.0.0.0/8,192.168.1.7": addresses that may use it; NULL: all */
    int64_t added_ms;   /* wall clock */
    int64_t revoked_ms; /* 0: it is valid */
    char *reason;       /* of the revocation; NULL */
};

struct gk_key_list {
    struct gk_admitted *keys; /* in the order in which they were added */
    uint32_t count, capacity;
};

void gk_key_list_fini(struct gk_key_list *list);
/* A missing file is an empty list. A file that others may write is refused: GK_DENIED. */
enum gk_status gk_key_list_load(const char *state_dir, struct gk_key_list *list_out,
                                struct gk_err *err);
/* The mains have a umask of 077, so that a new file is theirs alone. */
enum gk_status gk_key_list_save(const char *state_dir, const struct gk_key_list *list,
                                struct gk_err *err);
/* Holds the list against other writers until it is closed: a descriptor. */
enum gk_status gk_key_list_lock(const char *state_dir, int *fd_out, struct gk_err *err);

/* Copies what `key` points to. GK_EXISTS names whose name or public key it is. */
enum gk_status gk_key_list_add(struct gk_key_list *list, const struct gk_admitted *key,
                               struct gk_err *err);
/* GK_NOT_FOUND; GK_CONFLICT when it was revoked before. */
enum gk_status gk_key_list_revoke(struct gk_key_list *list, const char *name, int64_t now_ms,
                                  const char *reason, struct gk_err *err);
const struct gk_admitted *gk_key_list_named(const struct gk_key_list *list, const char *name);
const struct gk_admitted *gk_key_list_find(const struct gk_key_list *list, const char *public_key);

/* {name public roles:[..] pool hosts? added_ms revoked_ms? reason?}; NULL when out of memory. */
struct gk_json *gk_admitted_json(const struct gk_admitted *key);

/* Whether the text is a list of IPv4 or IPv6 addresses and networks. */
enum gk_status gk_hosts_check(const char *hosts, struct gk_err *err);
/* Whether `address` is in the list (NULL: yes). */
bool gk_hosts_match(const char *hosts, const char *address);

#endif
