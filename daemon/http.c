/* See http.h. */
#include "daemon/http.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <microhttpd.h>

#include "core/buf.h"

#define METRICS_MAX 8192

struct gk_http {
    struct MHD_Daemon *server;
    pthread_mutex_t lock;
    bool ready;
    char metrics[METRICS_MAX];
};

static enum MHD_Result send_text(struct MHD_Connection *connection, unsigned code, const char *text)
{
    struct MHD_Response *response = MHD_create_response_from_buffer(
        strlen(text), (void *)(uintptr_t)text, MHD_RESPMEM_MUST_COPY);
    if (!response) {
        return MHD_NO;
    }
    (void)MHD_add_response_header(response, "Content-Type",
                                  "text/plain; version=0.0.4; charset=utf-8"); /* only a hint */
    enum MHD_Result result = MHD_queue_response(connection, code, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result answer(void *context, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *upload,
                              size_t *upload_size, void **state)
{
    struct gk_http *http = context;
    char text[METRICS_MAX];
    (void)version;
    (void)upload;
    (void)upload_size;
    (void)state;
    if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0) {
        return send_text(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET\n");
    }
    if (strcmp(url, "/healthz") == 0) {
        return send_text(connection, MHD_HTTP_OK, "ok\n");
    }
    (void)pthread_mutex_lock(
        &http->lock); /* cannot fail: made by init and never destroyed while running */
    bool ready = http->ready;
    memcpy(text, http->metrics, sizeof text);
    (void)pthread_mutex_unlock(&http->lock);
    if (strcmp(url, "/readyz") == 0) {
        return send_text(connection, ready ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE,
                         ready ? "ready\n" : "not ready\n");
    }
    if (strcmp(url, "/metrics") == 0) {
        return send_text(connection, MHD_HTTP_OK, text);
    }
    return send_text(connection, MHD_HTTP_NOT_FOUND, "there are /healthz /readyz /metrics\n");
}

static enum gk_status parse_address(const char *address, struct sockaddr_storage *out,
                                    bool *is_v6_out, struct gk_err *err)
{
    char host[128];
    const char *colon = strrchr(address, ':');
    long port = colon ? strtol(colon + 1, NULL, 10) : 0;
    size_t size = colon ? (size_t)(colon - address) : 0;
    const char *from = address;
    if (size >= 2 && address[0] == '[' && address[size - 1] == ']') {
        from++;
        size -= 2;
    }
    if (size > 0 && size < sizeof host && port > 0 && port < 65536) {
        memcpy(host, from, size);
        host[size] = '\0';
        struct sockaddr_in *v4 = (struct sockaddr_in *)out;
        struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)out;
        if (inet_pton(AF_INET, host, &v4->sin_addr) == 1) {
            v4->sin_family = AF_INET;
            v4->sin_port = htons((uint16_t)port);
            *is_v6_out = false;
            return GK_OK;
        }
        if (inet_pton(AF_INET6, host, &v6->sin6_addr) == 1) {
            v6->sin6_family = AF_INET6;
            v6->sin6_port = htons((uint16_t)port);
            *is_v6_out = true;
            return GK_OK;
        }
    }
    return gk_fail(
        err, GK_USAGE,
        "--http '%s': an address and a port are needed, like 127.0.0.1:9090 or [::1]:9090",
        address);
}

enum gk_status gk_http_start(const char *address, struct gk_http **http_out, struct gk_err *err)
{
    struct sockaddr_storage where = {0};
    bool is_v6 = false;
    enum gk_status status = parse_address(address, &where, &is_v6, err);
    if (status != GK_OK) {
        return status;
    }
    struct gk_http *http = calloc(1, sizeof *http);
    if (!http || pthread_mutex_init(&http->lock, NULL) != 0) {
        free(http);
        return gk_fail(err, GK_NOMEM, "out of memory for the http server");
    }
    unsigned flags = MHD_USE_INTERNAL_POLLING_THREAD | (is_v6 ? MHD_USE_IPv6 : 0);
    http->server = MHD_start_daemon(
        flags, 0, NULL, NULL, answer, http, MHD_OPTION_SOCK_ADDR, (struct sockaddr *)&where,
        MHD_OPTION_CONNECTION_LIMIT, 32u, MHD_OPTION_CONNECTION_TIMEOUT, 10u,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)16384, MHD_OPTION_END);
    if (!http->server) {
        (void)pthread_mutex_destroy(&http->lock); /* nobody holds it */
        free(http);
        return gk_fail(err, GK_USAGE, "--http %s: cannot listen there (is the port taken?)",
                       address);
    }
    *http_out = http;
    return GK_OK;
}

void gk_http_stop(struct gk_http *http)
{
    if (http) {
        MHD_stop_daemon(http->server);
        (void)pthread_mutex_destroy(&http->lock); /* the thread has ended */
        free(http);
    }
}

void gk_http_publish(struct gk_http *http, bool ready, const char *metrics)
{
    if (http) {
        (void)pthread_mutex_lock(&http->lock); /* see answer() */
        http->ready = ready;
        (void)snprintf(http->metrics, sizeof http->metrics, "%s", metrics);
        (void)pthread_mutex_unlock(&http->lock);
    }
}
