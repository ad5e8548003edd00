/*
 * beanstalkd under the same load: so many connections, each does put, reserve, delete in turn,
 * every write synced. A client of its text protocol without a library.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/service/load.h"

#define JOB_BYTES 256
#define PORT      21300

struct client {
    int fd;
    enum { PUT, RESERVE, DELETE } step;
    uint64_t begun_ns, id;
    char text[1024];
    size_t used;
};

static void write_all(const struct client *client, const char *text, size_t size)
{
    /* Less than a socket's buffer, and the answer to the one before has come: never short. */
    if (write(client->fd, text, size) != (ssize_t)size) {
        load_die("beanstalkd: write: %s", strerror(errno));
    }
}

static void begin(struct client *client)
{
    char text[JOB_BYTES + 64];
    int size = snprintf(text, sizeof text, "put 0 0 120 %d\r\n", JOB_BYTES);
    memset(text + size, 'x', JOB_BYTES);
    memcpy(text + size + JOB_BYTES, "\r\n", 2);
    client->step = PUT;
    client->begun_ns = load_now_ns();
    write_all(client, text, (size_t)size + JOB_BYTES + 2);
}

/* True when an answer is whole; it is taken off. */
static bool advance(struct client *client)
{
    char text[64];
    client->text[client->used] = '\0';
    char *end = strstr(client->text, "\r\n");
    size_t size = end ? (size_t)(end + 2 - client->text) : 0;
    if (!end) {
        return false;
    }
    if (client->step == PUT && strncmp(client->text, "INSERTED ", 9) == 0) {
        client->step = RESERVE;
        write_all(client, "reserve\r\n", 9);
    } else if (client->step == RESERVE && strncmp(client->text, "RESERVED ", 9) == 0) {
        if (client->used < size + JOB_BYTES + 2) {
            return false;
        }
        size += JOB_BYTES + 2;
        int length =
            snprintf(text, sizeof text, "delete %llu\r\n", strtoull(client->text + 9, NULL, 10));
        client->step = DELETE;
        write_all(client, text, (size_t)length);
    } else if (client->step == DELETE && strncmp(client->text, "DELETED", 7) == 0) {
        client->step = PUT;
    } else {
        load_die("beanstalkd said '%.40s'", client->text);
    }
    memmove(client->text, client->text + size, client->used - size);
    client->used -= size;
    return true;
}

static int connect_one(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(PORT),
                                  .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    for (int i = 0; i < 200; i++) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd >= 0 && connect(fd, (const struct sockaddr *)&address, sizeof address) == 0) {
            return fd;
        }
        (void)close(fd);     /* nothing was written to it */
        (void)usleep(20000); /* it has just been started */
    }
    load_die("beanstalkd does not listen: %s", strerror(errno));
}

static uint64_t work(struct client *clients, uint32_t count, double seconds,
                     struct load_histogram *cycles)
{
    struct epoll_event events[256];
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    uint64_t done = 0, until = load_now_ns() + (uint64_t)(seconds * 1e9);
    for (uint32_t i = 0; i < count; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data = {.u32 = i}};
        clients[i].fd = connect_one();
        if (epoll_ctl(epoll, EPOLL_CTL_ADD, clients[i].fd, &event) != 0) {
            load_die("epoll: %s", strerror(errno));
        }
        begin(&clients[i]);
    }
    while (load_now_ns() < until) {
        int ready = epoll_wait(epoll, events, 256, 100);
        for (int e = 0; e < ready; e++) {
            struct client *client = &clients[events[e].data.u32];
            ssize_t got = read(client->fd, client->text + client->used,
                               sizeof client->text - 1 - client->used);
            if (got <= 0) {
                load_die("beanstalkd closed a connection");
            }
            client->used += (size_t)got;
            while (advance(client)) {
                if (client->step == PUT) {
                    load_histogram_add(cycles, load_now_ns() - client->begun_ns);
                    done++;
                    begin(client);
                }
            }
        }
    }
    (void)close(epoll); /* nothing is kept in it */
    return done;
}

double load_beanstalk(uint32_t connections, double seconds, struct load_histogram *cycles)
{
    static const char program[] = "/usr/bin/beanstalkd";
    char folder[64], port[16];
    if (access(program, X_OK) != 0) {
        return -1;
    }
    load_folder_make(folder);
    (void)snprintf(port, sizeof port, "%d", PORT);
    const char *argv[] = {program, "-l", "127.0.0.1", "-p", port, "-b", folder, "-f", "0", NULL};
    pid_t pid = load_spawn(argv, NULL);
    struct client *clients = calloc(connections, sizeof *clients);
    if (!clients) {
        load_die("out of memory");
    }
    uint64_t start = load_now_ns();
    uint64_t done = work(clients, connections, seconds, cycles);
    double rate = (double)done * 1e9 / (double)(load_now_ns() - start);
    for (uint32_t i = 0; i < connections; i++) {
        (void)close(clients[i].fd); /* what is under way does not count */
    }
    (void)kill(pid, SIGTERM); /* ours */
    (void)waitpid(pid, NULL, 0);
    free(clients);
    load_folder_remove(folder);
    return rate;
}
