/*
 * A relay between two ends of a stream that does what networks do, by a seed:
 *
 *     chaos_proxy unix:PATH|tcp:PORT unix:PATH|tcp:PORT [--seed N] [--faults N] [--delay-ms N]
 *                 [--rate BYTES] [--only KIND]
 *
 * The first is listened on, the second connected to, once for each connection that comes. Faults,
 * one in some dozen pieces until `--faults` of them happened: a piece is held up, cut short with
 * the connection, one direction is closed, both are reset, bytes of before are sent again, random
 * bytes are put in, a connection falls silent for a second without being closed. `--only` names one
 * of delay truncate half reset replay garbage silence. Says "ready" when it listens, and on SIGTERM
 * how many faults of each kind there were.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "core/prng.h"
#include "core/status.h"

#define PAIRS_MAX  256
#define PIECE      4096
#define HELD_BYTES (4u << 20) /* waiting in one direction */
#define OLD_BYTES  512        /* of what went by, for sending it again */
#define ONE_IN     24         /* pieces a fault */

enum kind { DELAY, TRUNCATE, HALF, RESET, REPLAY, GARBAGE, SILENCE, KINDS };
static const char *const KIND_NAMES[] = {"delay",  "truncate", "half",   "reset",
                                         "replay", "garbage",  "silence"};

struct way { /* one direction: read from `from`, held, written to `to` */
    unsigned char *held;
    size_t size;
    uint64_t not_before_ms; /* held until then */
    bool ended;             /* no more comes */
    unsigned char old[OLD_BYTES];
    size_t old_size;
};

struct pair {
    int fds[2]; /* the one that came, the one to the target */
    struct way ways[2];
};

static struct {
    struct pair pairs[PAIRS_MAX];
    uint32_t count;
    struct gk_prng prng;
    const char *target;
    uint64_t faults_left, delay_ms, rate, counts[KINDS], connections;
    int only; /* -1: all kinds */
} proxy;

static volatile sig_atomic_t stopping;

static void on_term(int number)
{
    (void)number;
    stopping = 1;
}

static uint64_t now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t); /* a known clock */
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* ------------------------------------------------------------------ sockets */

static int open_socket(const char *address, bool listens)
{
    struct sockaddr_un local = {.sun_family = AF_UNIX};
    struct sockaddr_in net = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    bool is_unix = strncmp(address, "unix:", 5) == 0, is_tcp = strncmp(address, "tcp:", 4) == 0;
    const struct sockaddr *to = is_unix ? (const void *)&local : (const void *)&net;
    socklen_t size = is_unix ? sizeof local : sizeof net;
    int fd =
        is_unix || is_tcp ? socket(is_unix ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) : -1;
    if (fd < 0 || (is_unix && strlen(address + 5) >= sizeof local.sun_path)) {
        return -1;
    }
    if (is_unix) {
        memcpy(local.sun_path, address + 5, strlen(address + 5) + 1);
    } else {
        int one = 1;
        net.sin_port = htons((uint16_t)strtoul(address + 4, NULL, 10));
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one); /* or bind() says it */
    }
    bool good =
        listens ? bind(fd, to, size) == 0 && listen(fd, 128) == 0 : connect(fd, to, size) == 0;
    if (!good || fcntl(fd, F_SETFL, O_NONBLOCK) != 0) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

static void drop_pair(uint32_t at, bool reset)
{
    struct pair *pair = &proxy.pairs[at];
    for (int i = 0; i < 2; i++) {
        struct linger hard = {.l_onoff = 1, .l_linger = 0};
        if (reset) {
            (void)setsockopt(pair->fds[i], SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
        }
        (void)close(pair->fds[i]); /* it was open */
        free(pair->ways[i].held);
    }
    *pair = proxy.pairs[--proxy.count];
}

static void accept_one(int listener)
{
    int from = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    int to = from >= 0 && proxy.count < PAIRS_MAX ? open_socket(proxy.target, false) : -1;
    if (to < 0) {
        if (from >= 0) {
            (void)close(from); /* the target is away: so is this end */
        }
        return;
    }
    proxy.pairs[proxy.count++] = (struct pair){.fds = {from, to}};
    proxy.connections++;
}

/* ------------------------------------------------------------------ pieces */

static bool hold(struct way *way, const unsigned char *bytes, size_t size)
{
    unsigned char *held =
        way->size + size <= HELD_BYTES ? realloc(way->held, way->size + size) : NULL;
    if (!held) {
        return false;
    }
    memcpy(held + way->size, bytes, size);
    way->held = held;
    way->size += size;
    return true;
}

static void remember(struct way *way, const unsigned char *bytes, size_t size)
{
    way->old_size = size < OLD_BYTES ? size : OLD_BYTES;
    memcpy(way->old, bytes, way->old_size);
}

/* What happens to this piece; KINDS: nothing. */
static enum kind draw(void)
{
    if (proxy.faults_left == 0 || gk_prng_below(&proxy.prng, ONE_IN) != 0) {
        return KINDS;
    }
    enum kind kind =
        proxy.only >= 0 ? (enum kind)proxy.only : (enum kind)gk_prng_below(&proxy.prng, KINDS);
    proxy.faults_left--;
    proxy.counts[kind]++;
    return kind;
}

/* False: the pair is to be dropped; *reset_out says how. */
static bool take_piece(struct pair *pair, int side, const unsigned char *bytes, size_t size,
                       bool *reset_out)
{
    struct way *way = &pair->ways[side];
    unsigned char noise[64];
    switch (draw()) {
    case DELAY:
        way->not_before_ms = now_ms() + 1 + gk_prng_below(&proxy.prng, proxy.delay_ms);
        break;
    case TRUNCATE:
        (void)!write(pair->fds[!side], bytes, (size_t)gk_prng_below(&proxy.prng, size));
        return false;
    case HALF:
        way->ended = true;
        (void)shutdown(pair->fds[side], SHUT_RD); /* what comes now is lost */
        return hold(way, bytes, size);
    case RESET:
        *reset_out = true;
        return false;
    case REPLAY:
        if (!hold(way, way->old, way->old_size)) {
            return false;
        }
        break;
    case GARBAGE:
        for (size_t i = 0; i < sizeof noise; i++) {
            noise[i] = (unsigned char)gk_prng_below(&proxy.prng, 256);
        }
        if (!hold(way, noise, 1 + (size_t)gk_prng_below(&proxy.prng, sizeof noise))) {
            return false;
        }
        break;
    case SILENCE: /* half-open: both ends think that the other one lives */
        pair->ways[0].not_before_ms = pair->ways[1].not_before_ms = now_ms() + 1000;
        break;
    default:
        break;
    }
    remember(way, bytes, size);
    return hold(way, bytes, size);
}

static bool read_side(struct pair *pair, int side, bool *reset_out)
{
    unsigned char bytes[PIECE];
    ssize_t size = read(pair->fds[side], bytes, sizeof bytes);
    if (size < 0) {
        return errno == EAGAIN || errno == EINTR;
    }
    if (size == 0) {
        pair->ways[side].ended = true;
        return true;
    }
    return take_piece(pair, side, bytes, (size_t)size, reset_out);
}

/* Writes what may be written of one direction. */
static bool write_side(struct pair *pair, int side, uint64_t now)
{
    struct way *way = &pair->ways[side];
    if (way->size > 0 && now >= way->not_before_ms) {
        size_t most =
            proxy.rate && way->size > proxy.rate / 50 + 1 ? (size_t)proxy.rate / 50 + 1 : way->size;
        ssize_t size = send(pair->fds[!side], way->held, most, MSG_NOSIGNAL);
        if (size < 0) {
            return errno == EAGAIN || errno == EINTR;
        }
        way->size -= (size_t)size;
        memmove(way->held, way->held + size, way->size);
        way->not_before_ms = proxy.rate ? now + 20 : way->not_before_ms;
    }
    if (way->size == 0 && way->ended) {
        (void)shutdown(pair->fds[!side], SHUT_WR); /* again does no harm */
    }
    return !(pair->ways[0].ended && pair->ways[1].ended && pair->ways[0].size == 0 &&
             pair->ways[1].size == 0);
}

static void turn(int listener)
{
    static struct pollfd fds[1 + 2 * PAIRS_MAX];
    bool waits = false;
    fds[0] = (struct pollfd){.fd = listener, .events = POLLIN};
    for (uint32_t i = 0; i < proxy.count; i++) {
        for (int side = 0; side < 2; side++) {
            const struct way *way = &proxy.pairs[i].ways[side];
            bool full = way->size > HELD_BYTES / 2;
            fds[1 + 2 * i + (uint32_t)side] = (struct pollfd){
                .fd = way->ended || full ? -1 : proxy.pairs[i].fds[side], .events = POLLIN};
            waits = waits || way->size > 0;
        }
    }
    uint32_t count = proxy.count;
    (void)poll(fds, 1 + 2 * count, waits ? 2 : 200); /* what failed shows at the reads */
    for (uint32_t i = count; i-- > 0;) {
        bool good = true, reset = false;
        for (int side = 0; good && side < 2; side++) {
            if (fds[1 + 2 * i + (uint32_t)side].revents != 0) {
                good = read_side(&proxy.pairs[i], side, &reset);
            }
        }
        uint64_t now = now_ms();
        for (int side = 0; good && side < 2; side++) {
            good = write_side(&proxy.pairs[i], side, now);
        }
        if (!good) {
            drop_pair(i, reset);
        }
    }
    if (fds[0].revents & POLLIN) {
        accept_one(listener);
    }
}

static bool read_option(const char *name, const char *value)
{
    if (strcmp(name, "--only") == 0) {
        for (int i = 0; i < KINDS; i++) {
            if (strcmp(KIND_NAMES[i], value) == 0) {
                proxy.only = i;
                return true;
            }
        }
        return false;
    }
    uint64_t number = strtoull(value, NULL, 10);
    if (strcmp(name, "--seed") == 0) {
        gk_prng_init(&proxy.prng, number, 3);
    } else if (strcmp(name, "--faults") == 0) {
        proxy.faults_left = number;
    } else if (strcmp(name, "--delay-ms") == 0) {
        proxy.delay_ms = number > 0 ? number : 1;
    } else if (strcmp(name, "--rate") == 0) {
        proxy.rate = number;
    } else {
        return false;
    }
    return true;
}

int main(int argc, char **argv)
{
    struct sigaction action = {.sa_handler = on_term};
    bool good = argc >= 3 && argc % 2 == 1;
    proxy.only = -1;
    proxy.delay_ms = 300;
    gk_prng_init(&proxy.prng, 1, 3);
    for (int i = 3; good && i + 1 < argc; i += 2) {
        good = read_option(argv[i], argv[i + 1]);
    }
    int listener = good ? open_socket(argv[1], true) : -1;
    if (listener < 0 || sigaction(SIGTERM, &action, NULL) != 0) {
        (void)fprintf(stderr,
                      "chaos_proxy: %s\nusage: chaos_proxy unix:PATH|tcp:PORT "
                      "unix:PATH|tcp:PORT [--seed N] [--faults N] [--delay-ms N] "
                      "[--rate BYTES] [--only KIND]\n",
                      good ? strerror(errno) : "wrong options");
        return 2;
    }
    proxy.target = argv[2];
    (void)signal(SIGPIPE, SIG_IGN); /* a known signal */
    if (printf("ready\n") < 0 || fflush(stdout) != 0) {
        return 2;
    }
    while (!stopping) {
        turn(listener);
    }
    (void)printf("%" PRIu64 " connections", proxy.connections);
    for (int i = 0; i < KINDS; i++) {
        (void)printf(", %" PRIu64 " %s", proxy.counts[i], KIND_NAMES[i]);
    }
    (void)printf("\n");
    while (proxy.count > 0) {
        drop_pair(0, false);
    }
    return 0;
}
