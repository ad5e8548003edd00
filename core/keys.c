/* Keys and their files: see keys.h. */
#include "core/keys.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/buf.h"
#include "core/json.h"

_Static_assert(crypto_box_PUBLICKEYBYTES == 32, "a CURVE key has 32 bytes");
_Static_assert(crypto_box_SECRETKEYBYTES == 32, "a CURVE key has 32 bytes");

/* ------------------------------------------------------------------ text */

/* ZeroMQ's RFC 32: five characters carry four bytes, most significant first. */
static const char Z85[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/"
                          "*?&<>()[]{}@%$#";

void gk_key_encode(const unsigned char bytes[32], char text_out[GK_KEY_TEXT_SIZE])
{
    for (unsigned group = 0; group < 8; group++) {
        const unsigned char *at = bytes + 4 * (size_t)group;
        uint32_t value =
            (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | (uint32_t)at[3];
        for (unsigned i = 5; i-- > 0; value /= 85) {
            text_out[group * 5 + i] = Z85[value % 85];
        }
    }
    text_out[GK_KEY_TEXT_SIZE - 1] = '\0';
}

enum gk_status gk_key_text_check(const char *text, const char *what, struct gk_err *err)
{
    size_t size = strlen(text);
    bool good = size == GK_KEY_TEXT_SIZE - 1 && strspn(text, Z85) == size;
    for (size_t group = 0; good && group < 8; group++) {
        uint64_t value = 0;
        for (size_t i = 0; i < 5; i++) {
            value = value * 85 + (uint64_t)(strchr(Z85, text[group * 5 + i]) - Z85);
        }
        good = value <= UINT32_MAX;
    }
    return good ? GK_OK
                : gk_fail(err, GK_INPUT,
                          "%s: a key has 40 characters of Z85; %zu characters were given%s", what,
                          size, size == GK_KEY_TEXT_SIZE - 1 ? ", which are no key" : "");
}

/* The secret half says what the public one is. text: checked by gk_key_text_check(). */
static bool halves_match(const char *secret, const char *public_key)
{
    unsigned char bytes[32], derived[32];
    char text[GK_KEY_TEXT_SIZE];
    for (size_t group = 0; group < 8; group++) {
        uint32_t value = 0;
        for (size_t i = 0; i < 5; i++) {
            value = value * 85 + (uint32_t)(strchr(Z85, secret[group * 5 + i]) - Z85);
        }
        for (size_t i = 0; i < 4; i++) {
            bytes[4 * group + i] = (unsigned char)(value >> (24 - 8 * i));
        }
    }
    bool good = crypto_scalarmult_base(derived, bytes) == 0;
    gk_key_encode(derived, text);
    sodium_memzero(bytes, sizeof bytes);
    return good && strcmp(text, public_key) == 0;
}

enum gk_status gk_key_name_check(const char *name, struct gk_err *err)
{
    size_t size = strlen(name);
    bool good = size >= 1 && size < GK_KEY_NAME_MAX && name[0] != '.' && name[0] != '-';
    for (size_t i = 0; good && i < size; i++) {
        unsigned char c = (unsigned char)name[i];
        good = (c < 128 && isalnum(c)) || c == '.' || c == '_' || c == '-';
    }
    return good ? GK_OK
                : gk_fail(err, GK_USAGE,
                          "key name '%.80s': allowed are 1 to %d letters, digits, dots, dashes and "
                          "underscores, no dot or dash first",
                          name, GK_KEY_NAME_MAX - 1);
}

static const struct {
    uint8_t bit;
    const char *name;
} ROLES[] = {{GK_ROLE_SUBMIT, "submit"}, {GK_ROLE_WORK, "work"}, {GK_ROLE_ADMIN, "admin"}};

enum gk_status gk_roles_parse(const char *text, uint8_t *roles_out, struct gk_err *err)
{
    uint8_t roles = 0;
    for (const char *word = text;;) {
        size_t size = strcspn(word, ",");
        uint8_t bit = 0;
        for (size_t i = 0; i < GK_ARRAY_COUNT(ROLES); i++) {
            if (strlen(ROLES[i].name) == size && strncmp(ROLES[i].name, word, size) == 0) {
                bit = ROLES[i].bit;
            }
        }
        if (!bit) {
            return gk_fail(err, GK_USAGE,
                           "roles '%.80s': '%.*s' is none; allowed are submit, work and admin, "
                           "separated by commas",
                           text, (int)(size < 40 ? size : 40), word);
        }
        roles = (uint8_t)(roles | bit);
        if (word[size] == '\0') {
            break;
        }
        word += size + 1;
    }
    *roles_out = roles;
    return GK_OK;
}

const char *gk_role_name(uint8_t role)
{
    for (size_t i = 0; i < GK_ARRAY_COUNT(ROLES); i++) {
        if (ROLES[i].bit == role) {
            return ROLES[i].name;
        }
    }
    return NULL;
}

void gk_roles_text(uint8_t roles, char text_out[32])
{
    size_t used = 0;
    text_out[0] = '\0';
    for (size_t i = 0; i < GK_ARRAY_COUNT(ROLES); i++) {
        if (roles & ROLES[i].bit) {
            used += (size_t)snprintf(text_out + used, 32 - used, "%s%s", used ? "," : "",
                                     ROLES[i].name);
        }
    }
    if (used == 0) {
        (void)snprintf(text_out, 32, "none");
    }
}

/* ------------------------------------------------------------------ pairs */

enum gk_status gk_key_make(const char *name, struct gk_key *key_out, struct gk_err *err)
{
    enum gk_status status = gk_key_name_check(name, err);
    if (status != GK_OK) {
        return status;
    }
    unsigned char public_key[32], secret_key[32];
    if (crypto_box_keypair(public_key, secret_key) != 0) {
        return gk_fail(err, GK_INTERNAL, "no key pair can be made");
    }
    struct gk_key key = {0};
    (void)snprintf(key.name, sizeof key.name, "%s", name);
    gk_key_encode(public_key, key.public_key);
    gk_key_encode(secret_key, key.secret_key);
    sodium_memzero(secret_key, sizeof secret_key);
    *key_out = key;
    gk_key_wipe(&key);
    return GK_OK;
}

void gk_key_wipe(struct gk_key *key)
{
    if (key) {
        sodium_memzero(key, sizeof *key);
    }
}

/* ------------------------------------------------------------------ files */

enum gk_status gk_key_save(const char *path, const struct gk_key *key, struct gk_err *err)
{
    char text[512];
    int size =
        snprintf(text, sizeof text,
                 "# gktune key: whoever has this file has its rights. Keep it at mode 0600, "
                 "never commit or mail it.\n"
                 "name %s\npublic %s\nsecret %s\n%s%s%s",
                 key->name, key->public_key, key->secret_key, key->server_key[0] ? "server " : "",
                 key->server_key, key->server_key[0] ? "\n" : "");
    GK_ASSERT(size > 0 && (size_t)size < sizeof text);
    enum gk_status status = gk_file_store_new(path, text, (size_t)size, err);
    if (status == GK_EXISTS) {
        status =
            gk_fail(err, GK_EXISTS, "%s: exists already; a key file is never overwritten", path);
    }
    sodium_memzero(text, sizeof text);
    return status;
}

/* One "word value" line into the member of that name. */
static enum gk_status take_line(const char *path, unsigned number, char *line, struct gk_key *key,
                                struct gk_err *err)
{
    char *value = line + strcspn(line, " \t");
    if (*value) {
        *value++ = '\0';
        value += strspn(value, " \t");
        char *rest = value + strcspn(value, " \t\r");
        if (rest[strspn(rest, " \t\r")] != '\0') {
            return gk_fail(err, GK_INPUT, "%s: line %u: more than one value of '%.20s'", path,
                           number, line);
        }
        *rest = '\0';
    }
    const struct {
        const char *word;
        char *member;
    } members[] = {
        {"public", key->public_key}, {"secret", key->secret_key}, {"server", key->server_key}};
    if (strcmp(line, "name") == 0 && !key->name[0]) {
        enum gk_status status = gk_key_name_check(value, err);
        if (status != GK_OK) {
            return gk_fail_in(err, status, "%s: line %u", path, number);
        }
        (void)snprintf(key->name, sizeof key->name, "%s", value);
        return GK_OK;
    }
    for (size_t i = 0; i < GK_ARRAY_COUNT(members); i++) {
        if (strcmp(line, members[i].word) != 0 || members[i].member[0]) {
            continue;
        }
        enum gk_status status = gk_key_text_check(value, members[i].word, err);
        if (status != GK_OK) {
            return gk_fail_in(err, status, "%s: line %u", path, number);
        }
        memcpy(members[i].member, value, GK_KEY_TEXT_SIZE);
        return GK_OK;
    }
    return gk_fail(err, GK_INPUT,
                   "%s: line %u: allowed are lines that begin with name, public, secret, server, "
                   "each once, or #; is this a key file of gktune?",
                   path, number);
}

static enum gk_status read_lines(const char *path, char *text, struct gk_key *key,
                                 struct gk_err *err)
{
    unsigned number = 0;
    for (char *line = text; line && *line;) {
        char *end = strchr(line, '\n');
        if (end) {
            *end++ = '\0';
        }
        number++;
        enum gk_status status =
            line[0] == '#' || line[0] == '\0' ? GK_OK : take_line(path, number, line, key, err);
        if (status != GK_OK) {
            return status;
        }
        line = end;
    }
    if (key->public_key[0] && key->secret_key[0] &&
        !halves_match(key->secret_key, key->public_key)) {
        return gk_fail(err, GK_INPUT, "%s: 'public' and 'secret' are not of one pair", path);
    }
    if (!key->public_key[0] && !key->server_key[0]) {
        return gk_fail(err, GK_INPUT, "%s: no line 'public' or 'server'; is this a key file?",
                       path);
    }
    return GK_OK;
}

/* Asked of the open descriptor, so that nothing can be put in its place meanwhile. A link is
 * followed: that is how clusters mount secrets. */
static enum gk_status check_owner(int fd, const char *path, struct gk_err *err)
{
    struct stat info;
    if (fstat(fd, &info) != 0) {
        return gk_fail(err, GK_IO, "%s: %s", path, strerror(errno));
    }
    if ((info.st_mode & 077) != 0) {
        return gk_fail(
            err, GK_DENIED,
            "%s: mode %04o lets others than its owner at the secret; make it 0600 (chmod "
            "600), and if somebody may have read it: revoke the key, make a new one",
            path, (unsigned)(info.st_mode & 07777));
    }
    if (info.st_uid != geteuid() && info.st_uid != 0) {
        return gk_fail(err, GK_DENIED, "%s: belongs to user %u, not to this one (%u) or root", path,
                       (unsigned)info.st_uid, (unsigned)geteuid());
    }
    return GK_OK;
}

static enum gk_status open_file(const char *path, int *fd_out, struct gk_err *err)
{
    struct stat info;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) {
        return gk_fail(err, errno == ENOENT || errno == ENOTDIR ? GK_NOT_FOUND : GK_IO,
                       "%s: cannot open the key file: %s", path, strerror(errno));
    }
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) || info.st_size >= GK_KEY_FILE_MAX) {
        (void)close(fd); /* nothing was read */
        return gk_fail(err, GK_INPUT, "%s: is no regular file of less than %d bytes", path,
                       GK_KEY_FILE_MAX);
    }
    *fd_out = fd;
    return GK_OK;
}

static enum gk_status read_text(int fd, const char *path, char *text, size_t capacity,
                                struct gk_err *err)
{
    size_t used = 0;
    ssize_t got = 1;
    while (got != 0 && used < capacity - 1) {
        got = read(fd, text + used, capacity - 1 - used);
        if (got < 0 && errno != EINTR) {
            return gk_fail(err, GK_IO, "%s: cannot be read: %s", path, strerror(errno));
        }
        used += got > 0 ? (size_t)got : 0;
    }
    text[used] = '\0';
    return strlen(text) == used
               ? GK_OK
               : gk_fail(err, GK_INPUT, "%s: has a NUL byte; is this a key file?", path);
}

enum gk_status gk_key_load(const char *path, struct gk_key *key_out, struct gk_err *err)
{
    char text[GK_KEY_FILE_MAX] = {0};
    struct gk_key key = {0};
    int fd = -1;
    enum gk_status status = open_file(path, &fd, err);
    if (status != GK_OK) {
        return status;
    }
    status = read_text(fd, path, text, sizeof text, err);
    if (status == GK_OK) {
        status = read_lines(path, text, &key, err);
    }
    if (status == GK_OK && key.secret_key[0]) {
        status = check_owner(fd, path, err);
    }
    (void)close(fd); /* was only read */
    sodium_memzero(text, sizeof text);
    if (status == GK_OK) {
        *key_out = key;
    }
    gk_key_wipe(&key);
    return status;
}

enum gk_status gk_key_server(const char *state_dir, struct gk_key *key_out, struct gk_err *err)
{
    char *path = gk_asprintf("%s/%s", state_dir, GK_STATE_SERVER_KEY);
    if (!path) {
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    struct gk_key key = {0};
    enum gk_status status = gk_key_load(path, &key, err);
    if (status == GK_NOT_FOUND) {
        status = gk_key_make("gktuned", &key, err);
        if (status == GK_OK) {
            status = gk_key_save(path, &key, err);
        }
        if (status == GK_EXISTS) { /* somebody else made it just now */
            status = gk_key_load(path, &key, err);
        }
    }
    if (status == GK_OK && (!key.secret_key[0] || !key.public_key[0])) {
        status = gk_fail(err, GK_INPUT, "%s: the daemon's key file lacks its public or secret half",
                         path);
    }
    if (status == GK_OK) {
        *key_out = key;
    }
    gk_key_wipe(&key);
    free(path);
    return status;
}
