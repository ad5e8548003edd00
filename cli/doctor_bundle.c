/*
 * gktune doctor --bundle FILE: what an operator attaches to a report, one JSON file of mode 0600.
 *
 * Everything in it is bounded, and what could not be had says why instead. It holds names of hosts,
 * jobs and shapes, which is what a report is about; it holds no key: settings that sound like one
 * are left out, and whatever secret this folder or command knows is struck out of the finished
 * text, wherever it came from.
 */
#include "cli/client.h"
#include "cli/doctor.h"
#include "core/state_dir.h"
#include "core/wire.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/utsname.h>
#include <unistd.h>

#define BUNDLE_VERSION 1
#define LOG_BYTES      (UINT64_C(1) << 20) /* of the end of a log: about 6,000 lines */
#define LOG_LINES      10000
#define PAGE_BYTES     (UINT64_C(1) << 20) /* a page of metrics takes 30 KB */
#define HTTP_S         5
#define CHECK_MS       600000 /* the store is read whole, beside the daemon's work */
#define CONFIG_BYTES   (UINT64_C(1) << 20)
#define KEY_BYTES      4096
#define CONFIG_USUAL   "/etc/gktune/gktuned.json"
#define PRIVATE_LOG    "gktuned.log" /* of a private daemon */

/* {"absent": why}: silence would read as "there is none". */
static struct gk_json *absent(const char *why)
{
    struct gk_json *json = gk_json_new_object();
    (void)gk_json_set_string(json, "absent", why); /* printing says what is missing */
    return json;
}

/* Takes what; NULL is out of memory and becomes one, too. */
static void put(struct gk_json *bundle, const char *name, struct gk_json *what)
{
    (void)gk_json_set(bundle, name, what ? what : absent("out of memory"));
}

static struct gk_json *version(void)
{
    struct gk_json *json = gk_json_new_object();
    (void)gk_json_set_string(json, "version", GKTUNE_VERSION);
    (void)gk_json_set_int(json, "protocol", GK_WIRE_VERSION);
    (void)gk_json_set_int(json, "protocol_min", GK_WIRE_VERSION_MIN);
    return json;
}

static struct gk_json *machine(void)
{
    struct utsname name;
    struct gk_json *json = gk_json_new_object();
    if (uname(&name) == 0) {
        (void)gk_json_set_string(json, "system", name.sysname);
        (void)gk_json_set_string(json, "release", name.release);
        (void)gk_json_set_string(json, "machine", name.machine);
        (void)gk_json_set_string(json, "host", name.nodename);
    }
    (void)gk_json_set_int(json, "processors", sysconf(_SC_NPROCESSORS_ONLN));
    (void)gk_json_set_int(json, "memory_bytes",
                          (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE));
    return json;
}

/* ------------------------------------------------------------------ settings */

static bool sounds_secret(const char *name)
{
    static const char *const words[] = {"key", "secret", "password", "token"};
    for (size_t i = 0; i < GK_ARRAY_COUNT(words); i++) {
        if (strstr(name, words[i])) {
            return true;
        }
    }
    return false;
}

/* The members of the config file; a name that sounds like a secret keeps its name alone. Comments
 * are for those who wrote them. */
static struct gk_json *settings(const char *path, const struct gk_json *config)
{
    struct gk_json *json = gk_json_new_object(), *members = gk_json_new_object();
    for (size_t i = 0; i < gk_json_count(config); i++) {
        const char *name = "";
        const struct gk_json *value = gk_json_member(config, i, &name);
        if (strcmp(name, "note") != 0) {
            (void)(sounds_secret(name) ? gk_json_set_string(members, name, "[left out]")
                                       : gk_json_set(members, name, gk_json_copy(value)));
        }
    }
    (void)gk_json_set_string(json, "file", path);
    (void)gk_json_set(json, "members", members);
    return json;
}

/* ------------------------------------------------------------------ the log */

/* What is no printable ASCII becomes '?': a log of whatever origin is text then. */
static void push_lines(struct gk_json *lines, char *text)
{
    size_t all = 0, skip;
    for (char *p = text; *p; p++) {
        all += *p == '\n';
        *p = (char)(*p == '\n' || (*p >= ' ' && *p <= '~') ? *p : '?');
    }
    skip = all > LOG_LINES ? all - LOG_LINES : 0;
    for (char *line = text, *end; *line; line = end) {
        end = strchr(line, '\n');
        end = end ? end : line + strlen(line);
        char *next = *end ? end + 1 : end;
        *end = '\0';
        if (skip > 0) {
            skip--;
        } else {
            (void)gk_json_push(lines, gk_json_new_string(line));
        }
        end = next;
    }
}

static struct gk_json *log_of(const char *path)
{
    struct stat info;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    char *text = fd >= 0 && fstat(fd, &info) == 0 && S_ISREG(info.st_mode) ? malloc(LOG_BYTES + 1)
                                                                          : NULL;
    struct gk_json *json = gk_json_new_object(), *lines = gk_json_new_array();
    (void)gk_json_set_string(json, "file", path);
    if (text) {
        off_t from = (uint64_t)info.st_size > LOG_BYTES ? info.st_size - (off_t)LOG_BYTES : 0;
        ssize_t got = pread(fd, text, LOG_BYTES, from);
        text[got > 0 ? got : 0] = '\0';
        char *whole = from > 0 ? strchr(text, '\n') : NULL; /* the first line is cut in two */
        push_lines(lines, whole ? whole + 1 : text);
    } else {
        (void)gk_json_set_string(json, "absent", fd < 0 ? strerror(errno) : "no regular file");
    }
    (void)gk_json_set(json, "lines", lines);
    if (fd >= 0) {
        (void)close(fd); /* it was only read */
    }
    free(text);
    return json;
}

static struct gk_json *logs(const struct gk_cli *cli)
{
    struct gk_json *list = gk_json_new_array();
    uint32_t count = 0;
    for (const char *path; (path = gk_options_at(&cli->options, "log", count)); count++) {
        (void)gk_json_push(list, log_of(path));
    }
    char *own = cli->state_dir ? gk_asprintf("%s/" PRIVATE_LOG, cli->state_dir) : NULL;
    if (own && access(own, F_OK) == 0) {
        (void)gk_json_push(list, log_of(own));
    }
    free(own);
    return list;
}

/* ------------------------------------------------------------------ metrics */

static int connect_to(const char *address, char why_out[256])
{
    char host[128];
    const char *colon = strrchr(address, ':');
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV}, *found = NULL;
    const struct timeval patience = {.tv_sec = HTTP_S};
    bool v6 = address[0] == '[' && colon && colon > address + 1 && colon[-1] == ']';
    size_t size = colon ? (size_t)(colon - address) - (v6 ? 2 : 0) : 0;
    if (!colon || size >= sizeof host) {
        (void)snprintf(why_out, 256, "'%.100s' is no ADDR:PORT", address);
        return -1;
    }
    memcpy(host, address + (v6 ? 1 : 0), size);
    host[size] = '\0';
    int rc = getaddrinfo(host, colon + 1, &hints, &found);
    int fd = rc == 0 ? socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0) : -1;
    if (fd >= 0 && (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) != 0 ||
                    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience) != 0 ||
                    connect(fd, found->ai_addr, found->ai_addrlen) != 0)) {
        rc = errno;
        (void)close(fd); /* nothing was sent */
        fd = -1;
        (void)snprintf(why_out, 256, "%.100s: %s", address, strerror(rc));
    } else if (fd < 0) {
        (void)snprintf(why_out, 256, "%.100s: %s", address, rc ? gai_strerror(rc) : "no socket");
    }
    if (found) {
        freeaddrinfo(found);
    }
    return fd;
}

static struct gk_json *metrics(const char *address)
{
    static const char request[] = "GET /metrics HTTP/1.0\r\nHost: gktuned\r\n\r\n";
    char why[256] = "", *answer = malloc(PAGE_BYTES + 1);
    size_t size = 0;
    ssize_t got = 0;
    int fd = connect_to(address, why);
    if (fd < 0 || !answer ||
        send(fd, request, sizeof request - 1, MSG_NOSIGNAL) != (ssize_t)sizeof request - 1) {
        struct gk_json *json = absent(*why ? why : "nothing could be sent");
        free(answer);
        if (fd >= 0) {
            (void)close(fd); /* nobody listens */
        }
        return json;
    }
    while (size < PAGE_BYTES && (got = recv(fd, answer + size, PAGE_BYTES - size, 0)) > 0) {
        size += (size_t)got;
    }
    answer[size] = '\0';
    (void)close(fd); /* it was only read */
    const char *body = strstr(answer, "\r\n\r\n");
    bool good = strncmp(answer, "HTTP/1.", 7) == 0 && strncmp(answer + 8, " 200 ", 5) == 0 && body;
    struct gk_json *json = gk_json_new_object();
    (void)gk_json_set_string(json, "from", address);
    if (good) {
        (void)gk_json_set_string(json, "page", body + 4);
    } else {
        (void)gk_json_set_string(json, "absent", "the answer is no page of metrics");
    }
    free(answer);
    return json;
}

/* ------------------------------------------------------------------ the daemon */

static struct gk_json *asked(struct gk_client *client, const char *verb, const char *action,
                             int timeout_ms)
{
    struct gk_json *body = gk_json_new_object(), *reply = NULL;
    struct gk_err err = {0};
    if (action) {
        (void)gk_json_set_string(body, "action", action);
    }
    if (strcmp(verb, "audit") == 0) {
        (void)gk_json_set_bool(body, "verify", true);
    }
    enum gk_status status = gk_client_request(client, verb, body, timeout_ms, &reply, &err);
    return status == GK_OK ? reply : absent(err.text);
}

static void ask_daemon(struct gk_cli *cli, struct gk_json *bundle)
{
    static const struct {
        const char *name, *verb, *action;
        int timeout_ms;
    } questions[] = {{"status", "status", NULL, 0},       {"workers", "workers", NULL, 0},
                     {"jobs", "jobs", NULL, 0},           {"dead", "dead", "list", 0},
                     {"audit", "audit", NULL, 0},         {"store", "db", "check", CHECK_MS}};
    struct gk_client *client = NULL;
    struct gk_err err = {0};
    const char *why = "no daemon serves this folder";
    if (gk_client_is_served(cli) && gk_client_open(cli, &client, &err) != GK_OK) {
        why = err.text;
    }
    for (size_t i = 0; i < GK_ARRAY_COUNT(questions); i++) {
        put(bundle, questions[i].name,
            client ? asked(client, questions[i].verb, questions[i].action, questions[i].timeout_ms)
                   : absent(why));
    }
    gk_client_close(client);
}

/* ------------------------------------------------------------------ secrets */

/* Strikes out every secret of a key file wherever it stands in the text. */
static void strike(const char *path, char *text)
{
    char *file = NULL, *rest = NULL;
    size_t size = 0;
    if (gk_file_load(path, KEY_BYTES, &file, &size, NULL) != GK_OK) {
        return; /* none, or none that this user can read */
    }
    for (char *line = strtok_r(file, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        char *secret = strncmp(line, "secret", 6) == 0 ? line + 6 : NULL;
        secret = secret ? secret + strspn(secret, " \t") : NULL;
        size_t length = secret ? strcspn(secret, " \t\r") : 0;
        if (length >= 16) {
            secret[length] = '\0';
            for (char *at = text; (at = strstr(at, secret)); at += length) {
                memset(at, '#', length);
            }
        }
    }
    explicit_bzero(file, size);
    free(file);
}

static void strike_all(const struct gk_cli *cli, char *text)
{
    DIR *folder = cli->state_dir ? opendir(cli->state_dir) : NULL;
    if (cli->key_file) {
        strike(cli->key_file, text);
    }
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        size_t size = strlen(entry->d_name);
        char *path = size > 4 && strcmp(entry->d_name + size - 4, ".key") == 0
                         ? gk_asprintf("%s/%s", cli->state_dir, entry->d_name)
                         : NULL;
        if (path) {
            strike(path, text);
        }
        free(path);
    }
    if (folder) {
        (void)closedir(folder); /* it was only read */
    }
}

/* ------------------------------------------------------------------ all of it */

static void put_config(struct gk_cli *cli, struct gk_json *bundle)
{
    const char *given = gk_options_get(&cli->options, "config"),
               *path = given ? given : CONFIG_USUAL;
    const char *http = gk_options_get(&cli->options, "http");
    struct gk_json *config = NULL;
    struct gk_err err = {0};
    bool found = gk_json_load(path, CONFIG_BYTES, &config, &err) == GK_OK &&
                 gk_json_is(config, GK_JSON_OBJECT);
    put(bundle, "settings",
        found ? settings(path, config) : absent(*err.text ? err.text : "no JSON object"));
    http = http ? http : gk_json_get_string(found ? config : NULL, "http", NULL);
    put(bundle, "metrics",
        http ? metrics(http) : absent("no address is known: --http ADDR:PORT, or --config FILE"));
    gk_json_free(config);
}

enum gk_status gk_doctor_bundle(struct gk_doctor *doctor, const char *path, struct gk_err *err)
{
    struct gk_cli *cli = doctor->cli;
    struct gk_json *bundle = gk_json_new_object();
    (void)gk_json_set_string(bundle, "format", "gktune-bundle");
    (void)gk_json_set_int(bundle, "format_version", BUNDLE_VERSION);
    (void)gk_json_set_int(bundle, "made_ms",
                          (int64_t)cli->clock.wall_ms(cli->clock.context));
    put(bundle, "version", version());
    put(bundle, "machine", machine());
    put(bundle, "checks", doctor->lines);
    doctor->lines = NULL;
    put(bundle, "logs", logs(cli));
    put_config(cli, bundle);
    ask_daemon(cli, bundle);
    char *text = gk_json_text(bundle);
    gk_json_free(bundle);
    if (!text) {
        return gk_fail(err, GK_NOMEM, "out of memory for the bundle");
    }
    strike_all(cli, text);
    size_t size = strlen(text);
    enum gk_status status = gk_file_store_new(path, text, size, err);
    free(text);
    if (status == GK_OK && cli->json) {
        struct gk_json *json = gk_json_new_object();
        (void)gk_json_set_string(json, "bundle", path);
        (void)gk_json_set_int(json, "bytes", (int64_t)size); /* printing says what is missing */
        status = gk_print_json(cli, json, err);
        gk_json_free(json);
    } else if (status == GK_OK) {
        (void)printf("%s: %zu bytes, mode 0600, without keys; it names hosts, jobs and shapes\n",
                     path, size);
    }
    return status;
}
