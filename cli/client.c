/* The command line's side of the protocol: see client.h. One thread. */
#include "cli/client.h"
#include "core/keys.h"
#include "core/state_dir.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define START_MS                                                                                   \
    120000 /* ready within 1 s as a rule; a packed backup of 100,000 trials takes 16 s to unpack   \
            */
#define RACE_MS          5000  /* how long the loser of a race for the lock looks for the winner */
#define SLICE_MS         100   /* between two looks at a private daemon while a reply is awaited */
#define EVENTS_MAX       10000 /* kept while nobody asks for them; the oldest go first */
#define RESTARTS_MAX     50    /* of one command: more is not a crash but a broken installation */
#define PRIVATE_REPLY_MS 60000

struct event_node {
    struct gk_json *event;
    struct event_node *next;
};

struct gk_client {
    struct gk_cli *cli;
    struct gk_link *link;
    char *endpoint;
    bool is_private;
    bool is_named; /* by --connect: never replaced */
    struct gk_child daemon;
    uint64_t seq;
    uint32_t generation, restarts;
    struct event_node *first, **last;
    uint32_t event_count;
};

static int64_t now_ms(const struct gk_client *client)
{
    return (int64_t)(client->cli->clock.monotonic_ns(client->cli->clock.context) / 1000000);
}

/* ------------------------------------------------------------------ finding a daemon */

/* True if somebody accepts at the endpoint. A tcp one is believed: asking it is what comes next
 * anyway. */
static bool answers(const char *endpoint)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strncmp(endpoint, "ipc://", 6) != 0) {
        return true;
    }
    size_t size = strlen(endpoint + 6);
    if (size >= sizeof address.sun_path) {
        return false;
    }
    memcpy(address.sun_path, endpoint + 6, size);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return false;
    }
    int rc = connect(fd, (const struct sockaddr *)&address,
                     (socklen_t)(offsetof(struct sockaddr_un, sun_path) + size + 1));
    bool open = rc == 0 || errno == EAGAIN;
    (void)close(fd); /* nothing was written */
    return open;
}

/* The endpoint that the lock file of the state folder names, if its daemon lives. The lock itself
 * is not tried: taking it for a moment could make a daemon that starts now believe that it is the
 * second one. */
static char *holder_endpoint(const char *state_dir)
{
    char *path = gk_asprintf("%s/%s", state_dir, GK_STATE_LOCK), *text = NULL, *found = NULL;
    size_t size = 0;
    struct gk_json *json = NULL;
    if (path && gk_file_load(path, 4096, &text, &size, NULL) == GK_OK &&
        gk_json_parse(text, size, path, &json, NULL) == GK_OK) {
        const char *endpoint = gk_json_get_string(json, "endpoint", NULL);
        found = endpoint ? gk_strdup(endpoint) : NULL;
    }
    gk_json_free(json);
    free(text);
    free(path);
    if (found && !answers(found)) {
        free(found);
        found = NULL;
    }
    return found;
}

/* The key for this endpoint; key_out stays empty where none is needed. */
static enum gk_status find_key(const struct gk_cli *cli, const char *endpoint,
                               struct gk_key *key_out, struct gk_err *err)
{
    if (strncmp(endpoint, "tcp://", 6) != 0) {
        /* The local socket: whoever reaches it may use it. Of whoever may not, libzmq would try for
         * ever and say nothing. */
        const char *path = strncmp(endpoint, "ipc://", 6) == 0 ? endpoint + 6 : NULL;
        return path && access(path, W_OK) != 0 && errno == EACCES
                   ? gk_fail(err, GK_DENIED,
                             "%s: %s: a local socket is its daemon's user's alone. Other users "
                             "connect over tcp with a key (gktune keys new)",
                             path, strerror(EACCES))
                   : GK_OK;
    }
    if (!cli->key_file) {
        return gk_fail(err, GK_USAGE,
                       "%s: tcp needs a key: --key FILE or $GKTUNE_KEY. gktune keys new on the "
                       "daemon's host makes one",
                       endpoint);
    }
    enum gk_status status = gk_key_load(cli->key_file, key_out, err);
    if (status == GK_OK && (!key_out->secret_key[0] || !key_out->server_key[0])) {
        status = gk_fail(err, GK_INPUT, "%s: lacks the line '%s'", cli->key_file,
                         key_out->secret_key[0] ? "server" : "secret");
    }
    if (status == GK_OK && !key_out->name[0]) {
        (void)snprintf(key_out->name, sizeof key_out->name, "unnamed");
    }
    return status;
}

static enum gk_status connect_to(struct gk_client *client, const char *endpoint, struct gk_err *err)
{
    char *copy = gk_strdup(endpoint);
    if (!copy) {
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    gk_link_destroy(client->link);
    client->link = NULL;
    struct gk_key key = {0};
    enum gk_status status = find_key(client->cli, endpoint, &key, err);
    if (status == GK_OK) {
        status = gk_link_connect_as(endpoint, key.name[0] ? &key : NULL, NULL, &client->link, err);
    }
    gk_key_wipe(&key);
    if (status != GK_OK) {
        free(copy);
        return status;
    }
    free(client->endpoint);
    client->endpoint = copy;
    client->generation++;
    return GK_OK;
}

/* What a private daemon that did not come up said, as the command's own error. */
static enum gk_status fail_start(struct gk_client *client, const struct gk_err *why,
                                 struct gk_err *err)
{
    struct gk_buf words = {0};
    char ending[64] = "it does not answer";
    bool ended = gk_child_ended(&client->daemon, why->status == GK_CLOSED ? 2000 : 0);
    int exit_status = ended && WIFEXITED(client->daemon.wait_status)
                          ? WEXITSTATUS(client->daemon.wait_status)
                          : 4;
    if (ended) {
        gk_child_ending(&client->daemon, ending);
    }
    gk_child_last_words(&client->daemon, &words);
    enum gk_status status = exit_status == 2 ? GK_INPUT : GK_INTERNAL;
    bool spoke = ended && words.size > 0; /* its log says more than that the pipe was closed */
    (void)gk_fail(err, status, "gktuned did not start (%s%s%s)%s%s", ending, spoke ? "" : "; ",
                  spoke ? "" : why->text, words.size ? ":\n" : "", gk_buf_text(&words));
    gk_buf_fini(&words);
    return status;
}

static void pause_ms(int ms)
{
    struct timespec step = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
    (void)nanosleep(&step, NULL); /* between two looks at a file that another process writes */
}

static enum gk_status start_private(struct gk_client *client, struct gk_err *err)
{
    struct gk_cli *cli = client->cli;
    const char *argv[] = {"gktuned", "--private", "--state", cli->state_dir, NULL};
    struct gk_buf line = {0};
    struct gk_err why = {0};
    enum gk_status status = gk_state_dir_make(cli->state_dir, err);
    if (status != GK_OK) {
        return status;
    }
    char *log = gk_asprintf("%s/gktuned.log", cli->state_dir);
    gk_child_stop(&client->daemon, 2000);
    status =
        gk_child_start(cli->exe_dir, argv, log ? log : "/dev/null", true, &client->daemon, err);
    free(log);
    if (status != GK_OK) {
        return status;
    }
    int64_t end = now_ms(client) + RACE_MS;
    status = gk_child_line(&client->daemon, START_MS, &line, &why);
    if (status == GK_OK && strncmp(gk_buf_text(&line), "ready ", 6) == 0) {
        client->is_private = true;
        status = connect_to(client, gk_buf_text(&line) + 6, err);
        gk_buf_fini(&line);
        return status;
    }
    if (status == GK_OK) {
        (void)gk_fail(&why, GK_PROTOCOL, "its first line is '%s'", gk_buf_text(&line));
    }
    gk_buf_fini(&line);
    /* The loser of a race: the winner writes its endpoint into the lock file in a moment. Only
     * worth waiting for when the lock was the reason. */
    struct gk_buf words = {0};
    gk_child_last_words(&client->daemon, &words);
    bool raced = strstr(gk_buf_text(&words), "belongs to") != NULL;
    gk_buf_fini(&words);
    char *holder = NULL;
    while (raced && !(holder = holder_endpoint(cli->state_dir)) && now_ms(client) < end) {
        pause_ms(20);
    }
    if (holder) {
        client->is_private = false;
        gk_child_stop(&client->daemon, 1000);
        status = connect_to(client, holder, err);
        free(holder);
        return status;
    }
    status = fail_start(client, &why, err);
    gk_child_stop(&client->daemon, 1000);
    return status;
}

static enum gk_status find_daemon(struct gk_client *client, struct gk_err *err)
{
    struct gk_cli *cli = client->cli;
    if (cli->connect) {
        client->is_named = true;
        return connect_to(client, cli->connect, err);
    }
    if (!cli->state_dir) {
        return gk_fail(err, cli->state_error.status, "%s", cli->state_error.text);
    }
    char *holder = holder_endpoint(cli->state_dir);
    if (!holder) {
        return start_private(client, err);
    }
    client->is_private = false;
    enum gk_status status = connect_to(client, holder, err);
    free(holder);
    return status;
}

bool gk_client_is_served(const struct gk_cli *cli)
{
    char *holder = !cli->connect && cli->state_dir ? holder_endpoint(cli->state_dir) : NULL;
    bool served = cli->connect || holder;
    free(holder);
    return served;
}

enum gk_status gk_client_open(struct gk_cli *cli, struct gk_client **client_out, struct gk_err *err)
{
    struct gk_client *client = calloc(1, sizeof *client);
    if (!client) {
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    client->cli = cli;
    client->daemon = (struct gk_child){.in_fd = -1, .out_fd = -1};
    client->last = &client->first;
    enum gk_status status = find_daemon(client, err);
    if (status == GK_OK) {
        /* Asked at once, so that a daemon that does not answer is told before anything is done. */
        status = gk_client_request(client, "status", gk_json_new_object(), 0, NULL, err);
    }
    if (status != GK_OK) {
        gk_client_close(client);
        return status;
    }
    *client_out = client;
    return GK_OK;
}

enum gk_status gk_client_tell(struct gk_cli *cli, const char *verb, struct gk_json *body,
                              bool *told_out, struct gk_err *err)
{
    struct gk_client *client = NULL;
    char *holder = cli->state_dir ? holder_endpoint(cli->state_dir) : NULL;
    bool there = holder != NULL;
    free(holder);
    if (!there) {
        gk_json_free(body);
        *told_out = false;
        return GK_OK;
    }
    enum gk_status status = gk_client_open(cli, &client, err);
    if (status == GK_OK) {
        status = gk_client_request(client, verb, body, 0, NULL, err);
    } else {
        gk_json_free(body);
    }
    gk_client_close(client);
    if (status == GK_OK) {
        *told_out = true;
    }
    return status;
}

void gk_client_close(struct gk_client *client)
{
    if (!client) {
        return;
    }
    gk_link_destroy(client->link);
    gk_child_stop(&client->daemon, 10000);
    while (client->first) {
        struct event_node *node = client->first;
        client->first = node->next;
        gk_json_free(node->event);
        free(node);
    }
    free(client->endpoint);
    free(client);
}

bool gk_client_is_private(const struct gk_client *client)
{
    return client->is_private;
}

const char *gk_client_endpoint(const struct gk_client *client)
{
    return client->endpoint;
}

uint32_t gk_client_generation(const struct gk_client *client)
{
    return client->generation;
}

static bool daemon_is_gone(struct gk_client *client)
{
    if (client->is_named) {
        return false;
    }
    return client->is_private ? !gk_child_alive(&client->daemon) : !answers(client->endpoint);
}

enum gk_status gk_client_mend(struct gk_client *client, struct gk_err *err)
{
    if (!daemon_is_gone(client)) {
        return GK_OK;
    }
    if (++client->restarts > RESTARTS_MAX) {
        return gk_fail(err, GK_INTERNAL, "gktuned ended %d times; see %s/gktuned.log", RESTARTS_MAX,
                       client->cli->state_dir);
    }
    return find_daemon(client, err);
}

/* ------------------------------------------------------------------ messages */

static void keep_event(struct gk_client *client, struct gk_message *message)
{
    struct event_node *node = calloc(1, sizeof *node);
    if (!node) {
        gk_message_fini(message); /* watch resumes after the last event that was seen */
        return;
    }
    node->event = message->body;
    message->body = NULL;
    *client->last = node;
    client->last = &node->next;
    if (++client->event_count > EVENTS_MAX) {
        struct event_node *oldest = client->first;
        client->first = oldest->next;
        client->event_count--;
        gk_json_free(oldest->event);
        free(oldest);
    }
}

/* Takes what is there: events are kept, the reply to `seq` is handed out. GK_AGAIN when nothing is
 * left. */
static enum gk_status take_messages(struct gk_client *client, uint64_t seq,
                                    struct gk_json **reply_out, struct gk_err *err)
{
    for (;;) {
        struct gk_message message = {0};
        enum gk_status status = gk_link_receive(client->link, NULL, &message, err);
        if (status == GK_PROTOCOL) {
            continue; /* one malformed message was dropped; its request will time out */
        }
        if (status != GK_OK) {
            return status;
        }
        if (message.type == GK_MSG_EVENT) {
            keep_event(client, &message);
        } else if ((message.type == GK_MSG_REPLY || message.type == GK_MSG_ERROR) && seq != 0 &&
                   message.reply_to == seq) {
            *reply_out = message.body;
            return GK_OK;
        }
        gk_message_fini(&message);
    }
}

static enum gk_status send_request(struct gk_client *client, struct gk_json *body,
                                   struct gk_err *err)
{
    struct gk_message message = {.type = GK_MSG_REQUEST, .seq = ++client->seq, .body = body};
    return gk_link_send(client->link, NULL, &message, err);
}

static enum gk_status status_by_name(const char *name)
{
    for (int i = 0; i <= GK_INTERNAL; i++) {
        if (strcmp(gk_status_name((enum gk_status)i), name) == 0) {
            return (enum gk_status)i;
        }
    }
    return GK_PROTOCOL;
}

/* Waits for the reply, looking after the daemon meanwhile; a daemon that was replaced is asked
 * again. */
static enum gk_status await_reply(struct gk_client *client, struct gk_json *body, int timeout_ms,
                                  struct gk_json **reply_out, struct gk_err *err)
{
    int limit = timeout_ms ? timeout_ms : client->is_private ? PRIVATE_REPLY_MS : GK_REPLY_MS;
    int64_t end = now_ms(client) + limit;
    uint32_t generation = client->generation;
    for (;;) {
        enum gk_status status = take_messages(client, client->seq, reply_out, err);
        if (status != GK_AGAIN) {
            return status;
        }
        status = gk_link_refused(client->link, err);
        if (status != GK_OK) {
            return status;
        }
        int64_t left = end - now_ms(client);
        if (left <= 0) {
            return gk_fail(err, GK_UNREACHABLE, "the daemon at %s does not answer within %d s%s",
                           client->endpoint, limit / 1000,
                           strncmp(client->endpoint, "tcp://", 6) == 0
                               ? "; nor does one that has another key than the key file's 'server'"
                               : "");
        }
        status = gk_link_wait(client->link, left < SLICE_MS ? (int)left : SLICE_MS, NULL);
        if (status == GK_OK) {
            continue;
        }
        status = gk_client_mend(client, err);
        if (status == GK_OK && client->generation != generation) {
            generation = client->generation;
            end = now_ms(client) + limit;
            status = send_request(client, body, err);
        }
        if (status != GK_OK) {
            return status;
        }
    }
}

enum gk_status gk_client_request(struct gk_client *client, const char *verb, struct gk_json *body,
                                 int timeout_ms, struct gk_json **reply_out, struct gk_err *err)
{
    struct gk_json *reply = NULL;
    enum gk_status status = GK_OK;
    if (!gk_json_set_string(body, "verb", verb)) {
        status = gk_fail(err, GK_NOMEM, "out of memory");
        goto out;
    }
    status = send_request(client, body, err);
    if (status == GK_OK) {
        status = await_reply(client, body, timeout_ms, &reply, err);
    }
    if (status != GK_OK) {
        goto out;
    }
    const char *name = gk_json_get_string(reply, "status", "PROTOCOL");
    if (strcmp(name, "OK") != 0) {
        status = gk_fail(err, status_by_name(name), "%s",
                         gk_json_get_string(reply, "text", "the daemon gave no reason"));
    } else if (reply_out) {
        *reply_out = reply;
        reply = NULL;
    }
out:
    gk_json_free(reply);
    gk_json_free(body);
    return status;
}

enum gk_status gk_client_event(struct gk_client *client, int timeout_ms, struct gk_json **event_out,
                               struct gk_err *err)
{
    enum gk_status status = take_messages(client, 0, NULL, err);
    if (!client->first && (status == GK_AGAIN || status == GK_OK)) {
        (void)gk_link_wait(client->link, timeout_ms, NULL);
        status = take_messages(client, 0, NULL, err);
    }
    struct event_node *node = client->first;
    if (!node) {
        return status == GK_AGAIN ? gk_fail(err, GK_TIMEOUT, "no event") : status;
    }
    client->first = node->next;
    if (!client->first) {
        client->last = &client->first;
    }
    client->event_count--;
    *event_out = node->event;
    free(node);
    return GK_OK;
}
