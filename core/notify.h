/*
 * What a program tells the service manager that started it (systemd's notify protocol): a datagram
 * of lines NAME=VALUE to a socket whose name it found in its environment. Written here, since it is
 * one sendto(): libsystemd would be a library in every process for that.
 */
#ifndef GK_CORE_NOTIFY_H
#define GK_CORE_NOTIFY_H

#include "core/status.h"

struct gk_notify {
    int fd;               /* -1: nobody wants to know */
    uint64_t watchdog_us; /* the manager's patience; 0: it has no watchdog */
    unsigned char address[128];
    uint32_t address_size;
};

/* socket, watchdog_usec, watchdog_pid: the values of NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID,
 * each may be NULL. A watchdog that is meant for another process is none. GK_USAGE for a name that
 * is no socket's. */
enum gk_status gk_notify_init(struct gk_notify *notify_out, const char *socket,
                              const char *watchdog_usec, const char *watchdog_pid, int64_t pid,
                              struct gk_err *err);
void gk_notify_fini(struct gk_notify *notify); /* NULL and zero are fine */

/* "READY=1\nSTATUS=..."; never blocks. False when it was not taken: the manager finds out by itself
 * that we live, or does not. */
bool gk_notify_send(const struct gk_notify *notify, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
