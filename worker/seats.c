/* Seats: see seats.h. */
#include "worker/seats.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define CORES_MAX  1024
#define ASKERS_MAX 16 /* that wait unheard on one seat; more need not say it again */

struct gk_seats {
    char prefix[32];
    uint32_t count, turn; /* turn: whose holder is asked next */
    uint32_t cores[CORES_MAX];
};

/* ------------------------------------------------------------------ cores */

static uint32_t read_affinity(uint32_t cores_out[CORES_MAX])
{
    cpu_set_t set;
    uint32_t count = 0;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) == 0) {
        for (uint32_t core = 0; core < CORES_MAX && core < CPU_SETSIZE; core++) {
            if (CPU_ISSET(core, &set)) {
                cores_out[count++] = core;
            }
        }
    }
    if (count == 0) { /* more cores than the set has room for: those that are there */
        long online = sysconf(_SC_NPROCESSORS_ONLN);
        for (count = 0; count < CORES_MAX && (long)count < online; count++) {
            cores_out[count] = count;
        }
    }
    if (count == 0) {
        cores_out[count++] = 0;
    }
    return count;
}

/* Cores that the quota of one control group comes to, rounded up; UINT32_MAX: it has none. */
static uint32_t quota_at(const char *folder)
{
    char path[4200], text[64] = "";
    (void)snprintf(path, sizeof path, "%s/cpu.max", folder);
    FILE *file = fopen(path, "re");
    bool read = file && fgets(text, sizeof text, file);
    if (file) {
        (void)fclose(file);
    }
    char *end = NULL;
    long long quota = read ? strtoll(text, &end, 10) : 0;
    long long period = read && end != text ? strtoll(end, NULL, 10) : 0;
    return quota > 0 && period > 0 && quota / period < CORES_MAX
               ? (uint32_t)((quota + period - 1) / period)
               : UINT32_MAX;
}

/* The least quota of our group and all above it. Only the unified hierarchy is looked at; without
 * it nothing is known. */
static uint32_t read_quota(void)
{
    char line[4096] = "", folder[4150];
    uint32_t least = UINT32_MAX;
    FILE *file = fopen("/proc/self/cgroup", "re");
    while (file && fgets(line, sizeof line, file) && strncmp(line, "0::", 3) != 0) {
        line[0] = '\0';
    }
    if (file) {
        (void)fclose(file);
    }
    line[strcspn(line, "\n")] = '\0';
    (void)snprintf(folder, sizeof folder, "/sys/fs/cgroup%s",
                   strncmp(line, "0::/", 4) == 0 ? line + 3 : "");
    for (char *slash = folder; slash && strlen(folder) >= strlen("/sys/fs/cgroup");) {
        uint32_t quota = quota_at(folder);
        least = quota < least ? quota : least;
        slash = strrchr(folder, '/');
        *slash = '\0';
    }
    return least;
}

uint32_t gk_cores_allowed(void)
{
    uint32_t cores[CORES_MAX];
    uint32_t count = read_affinity(cores), quota = read_quota();
    count = quota < count ? quota : count;
    return count > 0 ? count : 1;
}

/* ------------------------------------------------------------------ seats */

static socklen_t name_of(const struct gk_seats *seats, uint32_t core, struct sockaddr_un *address)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    int size = snprintf(address->sun_path + 1, sizeof address->sun_path - 1, "%.31s-%" PRIu32,
                        seats->prefix, core);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)size);
}

enum gk_status gk_seats_create(const char *prefix, struct gk_seats **seats_out, struct gk_err *err)
{
    struct gk_seats *seats = calloc(1, sizeof *seats);
    if (!seats) {
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    (void)snprintf(seats->prefix, sizeof seats->prefix, "%s", prefix);
    seats->count = read_affinity(seats->cores);
    *seats_out = seats;
    return GK_OK;
}

void gk_seats_destroy(struct gk_seats *seats)
{
    free(seats);
}

uint32_t gk_seats_count(const struct gk_seats *seats)
{
    return seats->count;
}

/* A connection that waits unaccepted at the holder's is what it finds: it outlives our end. */
static void ask(struct gk_seats *seats)
{
    struct sockaddr_un address;
    uint32_t core = seats->cores[seats->turn++ % seats->count];
    socklen_t size = name_of(seats, core, &address);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0) {
        (void)connect(fd, (struct sockaddr *)&address, size); /* gone, or asked often: the same */
        (void)close(fd);
    }
}

int gk_seat_take(struct gk_seats *seats)
{
    struct sockaddr_un address;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    for (uint32_t i = 0; fd >= 0 && i < seats->count; i++) {
        socklen_t size = name_of(seats, seats->cores[i], &address);
        if (bind(fd, (struct sockaddr *)&address, size) != 0) {
            continue;
        }
        if (listen(fd, ASKERS_MAX) != 0) {
            break;
        }
        return fd;
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    ask(seats);
    return GK_SEAT_NONE;
}

bool gk_seat_give(int seat)
{
    if (seat < 0) {
        return false;
    }
    int asker = accept4(seat, NULL, NULL, SOCK_CLOEXEC);
    if (asker >= 0) {
        (void)close(asker);
    }
    (void)close(seat);
    return asker >= 0;
}
