/*
 * CURVE keys: pairs, the files that carry them, and names of keys.
 *
 * A key is 32 bytes, written as 40 characters of Z85. Its secret half lies in a file of mode 0600
 * and nowhere else: never in an argument, the environment or a log. A key file is lines of a word
 * and a value:
 *
 *     # gktune key ...
 *     name   worker-7
 *     public ...40 characters...
 *     secret ...40 characters...
 *     server ...40 characters...     the daemon's public key; not in the daemon's own file
 *
 * Blocking file work; any thread. gk_hash_setup() comes first.
 */
#ifndef GK_CORE_KEYS_H
#define GK_CORE_KEYS_H

#include "core/link.h"
#include "core/status.h"

#define GK_KEY_FILE_MAX 4096

struct gk_key {
    char name[GK_KEY_NAME_MAX];
    char public_key[GK_KEY_TEXT_SIZE];
    char secret_key[GK_KEY_TEXT_SIZE]; /* "": the file says only who somebody else is */
    char server_key[GK_KEY_TEXT_SIZE]; /* "": not said */
};

/* A fresh pair under this name; server_key is left empty. GK_USAGE for a name that is none. */
enum gk_status gk_key_make(const char *name, struct gk_key *key_out, struct gk_err *err);
/* Overwrites the secret. Whoever has a key wipes it before its memory is given up. */
void gk_key_wipe(struct gk_key *key);

/* Letters, digits and . _ - ; 1 to 64 of them, no dot or dash first. Names stand in logs, listings
 * and file names. */
enum gk_status gk_key_name_check(const char *name, struct gk_err *err);
/* Whether this is the text of a key: 40 characters of Z85. */
enum gk_status gk_key_text_check(const char *text, const char *what, struct gk_err *err);
/* "submit,work" to bits of enum gk_role. GK_USAGE names what is allowed. */
enum gk_status gk_roles_parse(const char *text, uint8_t *roles_out, struct gk_err *err);
/* "submit" of one bit of enum gk_role; NULL for anything else. */
const char *gk_role_name(uint8_t role);
/* "submit,work" of bits; "none". text_out holds 32 bytes. */
void gk_roles_text(uint8_t roles, char text_out[32]);

/* Makes the file, mode 0600, durable before it returns. GK_EXISTS: nothing is overwritten. */
enum gk_status gk_key_save(const char *path, const struct gk_key *key, struct gk_err *err);
/* GK_DENIED: others than its owner may read or write the file, or it is somebody else's. A file
 * without a secret (of the server's public key) may be readable by all. The caller wipes the key.
 */
enum gk_status gk_key_load(const char *path, struct gk_key *key_out, struct gk_err *err);
/* The daemon's own pair in `state_dir`, made when there is none. */
enum gk_status gk_key_server(const char *state_dir, struct gk_key *key_out, struct gk_err *err);

/* What 32 bytes of a key look like as text. */
void gk_key_encode(const unsigned char bytes[32], char text_out[GK_KEY_TEXT_SIZE]);

#define GK_STATE_SERVER_KEY "server.key"

#endif
