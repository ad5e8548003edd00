/*
 * /healthz (200 while the loop turns), /readyz (200 while everything is done that a daemon does),
 * both as JSON that says why not; /version; /metrics as Prometheus text.
 *
 * Its own thread by libmicrohttpd answers from a page that the loop leaves here: it never touches
 * the core or the store, and it answers while the loop stands, which is what /healthz is for.
 */
#ifndef GK_DAEMON_HTTP_H
#define GK_DAEMON_HTTP_H

#include "core/clock.h"
#include "daemon/metrics.h"

struct gk_http;

#define GK_HTTP_STANDS_NS UINT64_C(5000000000) /* the loop has not been seen for so long */

/* Whether it is an address and a port, "127.0.0.1:9090" or "[::1]:9090"; GK_USAGE if not. */
enum gk_status gk_http_check(const char *address, struct gk_err *err);
/* address: as gk_http_check() takes it. version and clock are lent; the clock must be safe to read
 * in another thread. */
enum gk_status gk_http_start(const char *address, const char *version, const struct gk_clock *clock,
                             struct gk_http **http_out, struct gk_err *err);
void gk_http_stop(struct gk_http *http);
/* The loop turned at this time of the clock. NULL is fine. */
void gk_http_alive(struct gk_http *http, uint64_t now_ns);
/* Takes the page (malloc'd, NULL: the former one stays): what /metrics and /readyz answer from now
 * on. NULL for http is fine. Before the first one /readyz says no. */
void gk_http_publish(struct gk_http *http, const bool degraded[GK_DEGRADED_COUNT], char *page);

#endif
