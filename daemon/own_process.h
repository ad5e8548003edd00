/*
 * What this process may use and what it uses: descriptors, core dumps, memory, time.
 */
#ifndef GK_DAEMON_OWN_PROCESS_H
#define GK_DAEMON_OWN_PROCESS_H

#include "core/status.h"

/* Descriptors for everything but peers: the store, blobs that are read, the HTTP server, ZeroMQ's
 * own. */
#define GK_FDS_RESERVED 64
#define GK_FDS_LEAST    128

struct gk_own_limits {
    uint64_t fds_before, fds; /* the limit of descriptors as found, and as raised */
    bool dumps_off;           /* keys in memory must not become a file */
};

/* Raises the limit of descriptors to the hard one and switches core dumps off. GK_LIMIT when so few
 * descriptors are allowed that no peer would fit. */
enum gk_status gk_own_limits(struct gk_own_limits *limits_out, struct gk_err *err);

struct gk_own_stats {
    double cpu_s, start_s; /* start: seconds since 1970; 0: not known */
    uint64_t resident_bytes, virtual_bytes, open_fds, max_fds;
};

/* Members that cannot be found out are 0. */
void gk_own_stats(struct gk_own_stats *stats_out);

#endif
