/* Who may connect: see zap.h. */
#include "core/zap.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>
#include <zmq.h>

#define ENDPOINT "inproc://zeromq.zap.01"
#define DOMAIN   "gktune"
/* ZMQ_ZAP_ENFORCE_DOMAIN: the header shows it with the draft API alone, the library has it. */
#define OPTION_ENFORCE_DOMAIN 93
#define FRAMES_MAX            8 /* version, id, domain, address, identity, mechanism, key */
#define FRAME_MAX             255
#define TURN_MS               200 /* how often the number of descriptors is looked at */
#define CROWDED_TURN_MS       20
#define DESCRIPTORS_KEPT      32                     /* for the store, files and the local socket */
#define DESCRIPTORS_RESUME    (3 * DESCRIPTORS_KEPT) /* or holding them again would stop it anew */
#define DESCRIPTORS_LOOKED    1024 /* for the one that libzmq waits with: it was opened early */

struct listener {
    int fd, epoll_fd; /* -1: not found yet */
    uint64_t data;    /* what libzmq keeps with it */
    uint32_t events;
    bool paused;
};

struct gk_zap {
    void *socket, *control, *control_far; /* `control` is the thread's end */
    pthread_t thread;
    bool started;
    atomic_bool alive;
    pthread_mutex_t mutex; /* over what follows */
    struct gk_key_list list;
    const struct gk_admitted **sorted; /* by public key */
    struct gk_link_refusals refusals;
    struct listener listeners[GK_LINK_ENDPOINTS_MAX];
    uint32_t listener_count;
    int kept[DESCRIPTORS_KEPT]; /* held open, to be given back where a burst took all others */
    uint32_t kept_count;
};

/* ------------------------------------------------------------------ the list */

static int by_public(const void *a, const void *b)
{
    const struct gk_admitted *const *left = a, *const *right = b;
    return strcmp((*left)->public_key, (*right)->public_key);
}

static const struct gk_admitted *find(const struct gk_zap *zap, const char *public_key)
{
    uint32_t low = 0, high = zap->list.count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        int order = strcmp(zap->sorted[middle]->public_key, public_key);
        if (order == 0) {
            return zap->sorted[middle];
        }
        low = order < 0 ? middle + 1 : low;
        high = order < 0 ? high : middle;
    }
    return NULL;
}

enum gk_status gk_zap_set_keys(struct gk_zap *zap, struct gk_key_list *list, struct gk_err *err)
{
    const struct gk_admitted **sorted = calloc(list->count + 1u, sizeof *sorted), **old;
    if (!sorted) {
        return gk_fail(err, GK_NOMEM, "out of memory for keys");
    }
    for (uint32_t i = 0; i < list->count; i++) {
        sorted[i] = &list->keys[i];
    }
    qsort(sorted, list->count, sizeof *sorted, by_public);
    (void)pthread_mutex_lock(&zap->mutex); /* fails only for what is no mutex */
    struct gk_key_list before = zap->list;
    old = zap->sorted;
    zap->list = *list;
    zap->sorted = sorted;
    (void)pthread_mutex_unlock(&zap->mutex);
    *list = (struct gk_key_list){0};
    gk_key_list_fini(&before);
    free(old);
    return GK_OK;
}

/* Under the mutex. GK_OK fills *key_out. */
static enum gk_status judge(const struct gk_zap *zap, const char *public_key, const char *address,
                            const struct gk_admitted **key_out, enum gk_refusal *why_out,
                            struct gk_err *err)
{
    const struct gk_admitted *key = find(zap, public_key);
    if (!key) {
        *why_out = GK_REFUSED_UNKNOWN;
        return gk_fail(err, GK_DENIED, "%s: unknown key %.8s...", address, public_key);
    }
    if (key->revoked_ms) {
        *why_out = GK_REFUSED_REVOKED;
        return gk_fail(err, GK_DENIED, "%s: key %s was revoked: %s", address, key->name,
                       key->reason ? key->reason : "no reason was given");
    }
    if (!gk_hosts_match(key->hosts, address)) {
        *why_out = GK_REFUSED_HOST;
        return gk_fail(err, GK_DENIED, "%s: key %s may be used from %s only", address, key->name,
                       key->hosts);
    }
    *key_out = key;
    return GK_OK;
}

static void note(struct gk_zap *zap, enum gk_refusal why, const char *text)
{
    struct gk_link_refusals *r = &zap->refusals;
    r->counts[why]++;
    if (r->line_count < GK_REFUSALS_KEPT) {
        (void)snprintf(r->lines[r->line_count++], sizeof r->lines[0], "%.239s", text);
    }
}

enum gk_status gk_zap_who(struct gk_zap *zap, const char *public_key, const char *address,
                          struct gk_peer *peer, struct gk_err *err)
{
    const struct gk_admitted *key = NULL;
    enum gk_refusal why = GK_REFUSED_UNKNOWN;
    struct gk_err text = {0};
    (void)pthread_mutex_lock(&zap->mutex);
    enum gk_status status = judge(zap, public_key, address, &key, &why, &text);
    if (status == GK_OK) {
        peer->roles = key->roles;
        peer->is_pool = key->is_pool;
        (void)snprintf(peer->key, sizeof peer->key, "%s", key->name);
    } else {
        note(zap, why, text.text);
    }
    (void)pthread_mutex_unlock(&zap->mutex);
    return status == GK_OK ? GK_OK : gk_fail(err, status, "%s", text.text);
}

uint32_t gk_zap_refusals(struct gk_zap *zap, struct gk_link_refusals *out)
{
    (void)pthread_mutex_lock(&zap->mutex);
    *out = zap->refusals;
    zap->refusals.line_count = 0;
    (void)pthread_mutex_unlock(&zap->mutex);
    return out->line_count;
}

/* ------------------------------------------------------------------ one question */

struct question {
    char frames[FRAMES_MAX][FRAME_MAX + 1];
    size_t sizes[FRAMES_MAX];
    uint32_t count;
};

/* False when the socket is at its end. */
static bool read_question(void *socket, struct question *question)
{
    bool more = true;
    *question = (struct question){0};
    while (more) {
        zmq_msg_t frame;
        (void)zmq_msg_init(&frame); /* cannot fail */
        int got = zmq_msg_recv(&frame, socket, 0);
        if (got < 0 && zmq_errno() == EINTR) {
            continue;
        }
        if (got < 0) {
            return false;
        }
        size_t size = zmq_msg_size(&frame);
        if (question->count < FRAMES_MAX && size <= FRAME_MAX) {
            memcpy(question->frames[question->count], zmq_msg_data(&frame), size);
            question->sizes[question->count] = size;
        }
        question->count++;
        more = zmq_msg_more(&frame) != 0;
        (void)zmq_msg_close(&frame);
    }
    return true;
}

static bool say(void *socket, const char *text, size_t size, bool more)
{
    int rc;
    do {
        rc = zmq_send(socket, text, size, more ? ZMQ_SNDMORE : 0);
    } while (rc < 0 && zmq_errno() == EINTR);
    return rc >= 0;
}

static bool answer(void *socket, const struct question *question, bool admits, const char *user)
{
    const char *code = admits ? "200" : "400", *text = admits ? "OK" : "this key is not admitted";
    return say(socket, "1.0", 3, true) &&
           say(socket, question->frames[1], question->sizes[1], true) &&
           say(socket, code, 3, true) && say(socket, text, strlen(text), true) &&
           say(socket, user, strlen(user), true) && say(socket, "", 0, false);
}

/* The peer hears no reason: whoever tries keys learns nothing from the answer. */
static bool decide(struct gk_zap *zap)
{
    struct question question;
    char public_key[GK_KEY_TEXT_SIZE] = "";
    const struct gk_admitted *key = NULL;
    enum gk_refusal why = GK_REFUSED_MALFORMED;
    struct gk_err text = {0};
    if (!read_question(zap->socket, &question)) {
        return false;
    }
    const char *address = question.frames[3];
    bool is_curve = question.count == 7 && strcmp(question.frames[0], "1.0") == 0 &&
                    strcmp(question.frames[2], DOMAIN) == 0 &&
                    strcmp(question.frames[5], "CURVE") == 0 && question.sizes[6] == 32;
    (void)pthread_mutex_lock(&zap->mutex);
    enum gk_status status;
    if (is_curve) {
        gk_key_encode((const unsigned char *)question.frames[6], public_key);
        status = judge(zap, public_key, address, &key, &why, &text);
    } else {
        status = gk_fail(&text, GK_DENIED, "%s: no CURVE handshake", address);
    }
    if (status != GK_OK) {
        note(zap, why, text.text);
    }
    (void)pthread_mutex_unlock(&zap->mutex);
    return answer(zap->socket, &question, status == GK_OK, status == GK_OK ? public_key : "");
}

/* ------------------------------------------------------------------ descriptors */

/* The lowest free number is about the count of those in use: they are given lowest first. */
static uint64_t descriptors_left(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        return UINT64_MAX;
    }
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return errno == EMFILE || errno == ENFILE ? 0 : UINT64_MAX;
    }
    (void)close(fd); /* was only counted */
    return limit.rlim_cur > (rlim_t)fd ? limit.rlim_cur - (rlim_t)fd : 0;
}

/* One "tfd: 15 events: 19 data: 7f..." line of what the kernel says of an epoll descriptor. */
static bool read_entry(const char *line, struct listener *listener)
{
    char *end = NULL;
    if (strncmp(line, "tfd:", 4) != 0 || strtol(line + 4, &end, 10) != listener->fd) {
        return false;
    }
    const char *events = strstr(end, "events:"), *data = strstr(end, "data:");
    if (!events || !data) {
        return false;
    }
    listener->events = (uint32_t)strtoul(events + 7, NULL, 16);
    listener->data = strtoull(data + 5, NULL, 16);
    return true;
}

/* Finds the epoll descriptor in which libzmq waits for connections, and what it keeps there. Early,
 * while there are descriptors to look with. */
static bool find_epoll(struct listener *listener)
{
    char path[64], text[4096];
    for (int fd = 0; fd < DESCRIPTORS_LOOKED; fd++) {
        (void)snprintf(path, sizeof path, "/proc/self/fdinfo/%d", fd);
        int info = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t size = info >= 0 ? read(info, text, sizeof text - 1) : -1;
        if (info >= 0) {
            (void)close(info); /* was only read */
        }
        text[size > 0 ? size : 0] = '\0';
        for (const char *line = strstr(text, "tfd:"); line; line = strstr(line + 4, "tfd:")) {
            if (read_entry(line, listener)) {
                listener->epoll_fd = fd;
                return true;
            }
        }
    }
    return false;
}

/* With no events asked for, connections wait in the kernel's queue; libzmq knows nothing of it. */
static void set_accepting(struct listener *listener, bool accepts)
{
    struct epoll_event event = {.events = accepts ? listener->events : 0,
                                .data.u64 = listener->data};
    if (epoll_ctl(listener->epoll_fd, EPOLL_CTL_MOD, listener->fd, &event) == 0) {
        listener->paused = !accepts;
    }
}

/* A burst between two looks takes every descriptor that is free. So some are held, and given back
 * when accepting stops: then they are the process's own. */
static void hold_descriptors(struct gk_zap *zap)
{
    while (zap->kept_count < DESCRIPTORS_KEPT) {
        int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        if (fd < 0) {
            break; /* fewer are held; tried again at the next look */
        }
        zap->kept[zap->kept_count++] = fd;
    }
}

static void give_descriptors(struct gk_zap *zap)
{
    while (zap->kept_count > 0) {
        (void)close(zap->kept[--zap->kept_count]); /* was never used */
    }
}

/* Under the mutex. Returns how soon to look again. */
static int tend_listeners(struct gk_zap *zap)
{
    bool any_paused = false;
    if (zap->listener_count == 0) {
        return TURN_MS;
    }
    uint64_t left = descriptors_left();
    for (uint32_t i = 0; i < zap->listener_count; i++) {
        struct listener *listener = &zap->listeners[i];
        if (listener->epoll_fd < 0 && !find_epoll(listener)) {
            continue; /* the I/O thread has not begun with it */
        }
        if (!listener->paused && left < DESCRIPTORS_KEPT) {
            char text[160];
            set_accepting(listener, false);
            (void)snprintf(text, sizeof text,
                           "%llu file descriptors are left: no new connections until there are %d "
                           "(raise LimitNOFILE)",
                           (unsigned long long)left, DESCRIPTORS_RESUME);
            note(zap, GK_REFUSED_CROWDED, text);
        } else if (listener->paused && left >= DESCRIPTORS_RESUME) {
            set_accepting(listener, true);
        }
        any_paused |= listener->paused;
    }
    if (any_paused) {
        give_descriptors(zap);
    } else {
        hold_descriptors(zap);
    }
    return left < 8 * DESCRIPTORS_KEPT ? CROWDED_TURN_MS : TURN_MS;
}

/* ------------------------------------------------------------------ the thread */

static void *run(void *context)
{
    struct gk_zap *zap = context;
    zmq_pollitem_t items[] = {
        {.socket = zap->socket, .events = ZMQ_POLLIN},
        {.socket = zap->control, .events = ZMQ_POLLIN},
    };
    int wait_ms = CROWDED_TURN_MS;
    for (;;) {
        int rc = zmq_poll(items, GK_ARRAY_COUNT(items), wait_ms);
        if (rc < 0 && zmq_errno() != EINTR) {
            break;
        }
        if (rc > 0 && (items[1].revents & ZMQ_POLLIN)) {
            break;
        }
        if (rc > 0 && (items[0].revents & ZMQ_POLLIN) && !decide(zap)) {
            break;
        }
        (void)pthread_mutex_lock(&zap->mutex);
        wait_ms = tend_listeners(zap);
        (void)pthread_mutex_unlock(&zap->mutex);
    }
    (void)zmq_close(zap->socket);
    (void)zmq_close(zap->control);
    atomic_store(&zap->alive, false);
    return NULL;
}

static enum gk_status fail_zmq(const char *doing, struct gk_err *err)
{
    return gk_fail(err, GK_INTERNAL, "authentication handler: %s: %s", doing,
                   zmq_strerror(zmq_errno()));
}

static enum gk_status open_sockets(struct gk_zap *zap, void *context, struct gk_err *err)
{
    static const char control[] = "inproc://gk.zap.control";
    int linger = 0;
    zap->socket = zmq_socket(context, ZMQ_REP);
    zap->control = zmq_socket(context, ZMQ_PAIR);
    zap->control_far = zmq_socket(context, ZMQ_PAIR);
    if (!zap->socket || !zap->control || !zap->control_far) {
        return fail_zmq("socket", err);
    }
    (void)zmq_setsockopt(zap->socket, ZMQ_LINGER, &linger, sizeof linger); /* a known option */
    if (zmq_bind(zap->socket, ENDPOINT) != 0) {
        return fail_zmq(ENDPOINT, err);
    }
    if (zmq_bind(zap->control, control) != 0 || zmq_connect(zap->control_far, control) != 0) {
        return fail_zmq("control", err);
    }
    return GK_OK;
}

/* The thread takes no signals: those are the loop's. */
static enum gk_status start_thread(struct gk_zap *zap, struct gk_err *err)
{
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before); /* fails only for an unknown `how` */
    atomic_store(&zap->alive, true);
    int rc = pthread_create(&zap->thread, NULL, run, zap);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    zap->started = rc == 0;
    atomic_store(&zap->alive, rc == 0);
    return rc == 0 ? GK_OK
                   : gk_fail(err, GK_INTERNAL, "authentication handler: thread: %s", strerror(rc));
}

enum gk_status gk_zap_start(void *context, struct gk_zap **zap_out, struct gk_err *err)
{
    struct gk_zap *zap = calloc(1, sizeof *zap);
    if (!zap) {
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    (void)pthread_mutex_init(&zap->mutex, NULL); /* cannot fail without attributes */
    enum gk_status status = open_sockets(zap, context, err);
    if (status == GK_OK) {
        status = start_thread(zap, err);
    }
    if (status != GK_OK) {
        gk_zap_destroy(zap);
        return status;
    }
    *zap_out = zap;
    return GK_OK;
}

void gk_zap_stop(struct gk_zap *zap)
{
    if (zap->started) {
        (void)say(zap->control_far, "", 0, false); /* fails if the thread has ended by itself */
        (void)pthread_join(zap->thread, NULL);     /* it was started */
        zap->started = false;
        zap->socket = zap->control = NULL; /* closed by the thread */
    }
}

bool gk_zap_alive(const struct gk_zap *zap)
{
    return atomic_load(&zap->alive);
}

void gk_zap_destroy(struct gk_zap *zap)
{
    if (!zap) {
        return;
    }
    gk_zap_stop(zap);
    void *const sockets[] = {zap->socket, zap->control, zap->control_far};
    for (size_t i = 0; i < GK_ARRAY_COUNT(sockets); i++) {
        if (sockets[i]) {
            (void)zmq_close(sockets[i]); /* fails only for what is no socket */
        }
    }
    give_descriptors(zap);
    gk_key_list_fini(&zap->list);
    free(zap->sorted);
    (void)pthread_mutex_destroy(&zap->mutex); /* nobody holds it */
    free(zap);
}

void gk_zap_tend(struct gk_zap *zap, int listening_fd)
{
    (void)pthread_mutex_lock(&zap->mutex);
    if (zap->listener_count < GK_LINK_ENDPOINTS_MAX) {
        zap->listeners[zap->listener_count++] =
            (struct listener){.fd = listening_fd, .epoll_fd = -1};
    }
    (void)pthread_mutex_unlock(&zap->mutex);
}

enum gk_status gk_zap_guard(void *socket, const struct gk_key *key, struct gk_err *err)
{
    int one = 1;
    /* The domain makes libzmq ask at all; the enforcement makes it refuse when nobody answers. */
    if (zmq_setsockopt(socket, ZMQ_CURVE_SERVER, &one, sizeof one) != 0 ||
        zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, key->secret_key, GK_KEY_TEXT_SIZE) != 0 ||
        zmq_setsockopt(socket, ZMQ_ZAP_DOMAIN, DOMAIN, strlen(DOMAIN)) != 0 ||
        zmq_setsockopt(socket, OPTION_ENFORCE_DOMAIN, &one, sizeof one) != 0) {
        return gk_fail(err, GK_INTERNAL,
                       "CURVE cannot be enforced: %s; libzmq 4.3 with libsodium is needed",
                       zmq_strerror(zmq_errno()));
    }
    return GK_OK;
}
