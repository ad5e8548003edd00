/*
 * /healthz (alive), /readyz (ready: 200, else 503), /metrics (Prometheus text). Its own thread by
 * libmicrohttpd reads a page that the loop renders: it never touches the core or the store.
 */
#ifndef GK_DAEMON_HTTP_H
#define GK_DAEMON_HTTP_H

#include "core/status.h"

struct gk_http;

/* "127.0.0.1:9090" or "[::1]:9090". */
enum gk_status gk_http_start(const char *address, struct gk_http **http_out, struct gk_err *err);
void gk_http_stop(struct gk_http *http);
/* Copies the text: what /metrics answers from now on. */
void gk_http_publish(struct gk_http *http, bool ready, const char *metrics);

#endif
