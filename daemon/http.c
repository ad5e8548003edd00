/* See http.h. */
#include "daemon/http.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <microhttpd.h>

#include "core/buf.h"
#include "core/json.h"

struct gk_http {
    struct MHD_Daemon *server;
    const char *version;
    struct gk_clock clock;
    _Atomic uint64_t alive_ns;
    pthread_mutex_t lock; /* of what follows */
    bool published, degraded[GK_DEGRADED_COUNT];
    char *page;
};

static const char TEXT[] = "text/plain; version=0.0.4; charset=utf-8";
static const char JSON[] = "application/json";

/* For people who read /readyz: what it means, and what is still done. */
static const char *const reasons[GK_DEGRADED_COUNT] = {
    [GK_DEGRADED_DISK_LOW] = "the disk of the state folder is low: no new jobs and no leases, "
                             "results are stored",
    [GK_DEGRADED_DISK_FULL] = "the disk of the state folder is full: nothing is written, results "
                              "stay with their workers",
    [GK_DEGRADED_DRAINING] = "the daemon ends or is drained: no new jobs",
    [GK_DEGRADED_FDS] = "descriptors are nearly used up: nobody new is let in",
};

static enum MHD_Result send_copy(struct MHD_Connection *connection, unsigned code, const char *type,
                                 const char *text)
{
    struct MHD_Response *response = MHD_create_response_from_buffer(
        strlen(text), (void *)(uintptr_t)text, MHD_RESPMEM_MUST_COPY);
    if (!response) {
        return MHD_NO;
    }
    (void)MHD_add_response_header(response, "Content-Type", type); /* only a hint */
    (void)MHD_add_response_header(response, "Cache-Control", "no-store");
    enum MHD_Result result = MHD_queue_response(connection, code, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result answer_health(struct gk_http *http, struct MHD_Connection *connection)
{
    char text[128], age[32];
    uint64_t now = http->clock.monotonic_ns(http->clock.context);
    uint64_t alive = atomic_load_explicit(&http->alive_ns, memory_order_relaxed);
    uint64_t away = now > alive ? now - alive : 0;
    bool turns = away < GK_HTTP_STANDS_NS;
    gk_real_text((double)(away / 1000000) / 1e3, age);
    (void)snprintf(text, sizeof text, "{\"healthy\":%s,\"loop_turned_seconds_ago\":%s}\n",
                   turns ? "true" : "false", age);
    return send_copy(connection, turns ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE, JSON, text);
}

static enum MHD_Result answer_ready(struct gk_http *http, struct MHD_Connection *connection)
{
    struct gk_buf text = {0};
    uint32_t count = 0;
    (void)pthread_mutex_lock(&http->lock); /* made by init, destroyed when the thread has ended */
    bool published = http->published;
    for (size_t i = 0; published && i < GK_DEGRADED_COUNT; i++) {
        if (http->degraded[i]) {
            gk_buf_printf(&text, "%s{\"reason\":\"%s\",\"text\":\"%s\"}", count++ ? "," : "",
                          gk_degraded_name((enum gk_degraded)i), reasons[i]);
        }
    }
    (void)pthread_mutex_unlock(&http->lock);
    if (!published) {
        gk_buf_puts(&text, "{\"reason\":\"starting\",\"text\":\"the store is being opened\"}");
        count++;
    }
    struct gk_buf whole = {0};
    gk_buf_printf(&whole, "{\"ready\":%s,\"reasons\":[%s]}\n", count ? "false" : "true",
                  gk_buf_text(&text));
    enum MHD_Result result =
        gk_buf_status(&whole, NULL) == GK_OK && gk_buf_status(&text, NULL) == GK_OK
            ? send_copy(connection, count ? MHD_HTTP_SERVICE_UNAVAILABLE : MHD_HTTP_OK, JSON,
                        gk_buf_text(&whole))
            : MHD_NO;
    gk_buf_fini(&text);
    gk_buf_fini(&whole);
    return result;
}

static enum MHD_Result answer_metrics(struct gk_http *http, struct MHD_Connection *connection)
{
    (void)pthread_mutex_lock(&http->lock); /* see answer_ready() */
    enum MHD_Result result =
        http->page ? send_copy(connection, MHD_HTTP_OK, TEXT, http->page)
                   : send_copy(connection, MHD_HTTP_SERVICE_UNAVAILABLE, TEXT, "starting\n");
    (void)pthread_mutex_unlock(&http->lock);
    return result;
}

static enum MHD_Result answer(void *context, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *upload,
                              size_t *upload_size, void **state)
{
    struct gk_http *http = context;
    (void)version;
    (void)upload;
    (void)upload_size;
    (void)state;
    if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0) {
        return send_copy(connection, MHD_HTTP_METHOD_NOT_ALLOWED, TEXT, "only GET\n");
    }
    if (strcmp(url, "/healthz") == 0) {
        return answer_health(http, connection);
    }
    if (strcmp(url, "/readyz") == 0) {
        return answer_ready(http, connection);
    }
    if (strcmp(url, "/metrics") == 0) {
        return answer_metrics(http, connection);
    }
    if (strcmp(url, "/version") == 0) {
        char text[128];
        (void)snprintf(text, sizeof text,
                       "{\"version\":\"%s\",\"protocol\":%d,\"protocol_min\":%d}\n", http->version,
                       GK_WIRE_VERSION, GK_WIRE_VERSION_MIN);
        return send_copy(connection, MHD_HTTP_OK, JSON, text);
    }
    return send_copy(connection, MHD_HTTP_NOT_FOUND, TEXT,
                     "there are /healthz /readyz /version /metrics\n");
}

static enum gk_status parse_address(const char *address, struct sockaddr_storage *out,
                                    bool *is_v6_out, struct gk_err *err)
{
    char host[128];
    const char *colon = strrchr(address, ':');
    size_t digits = colon ? strspn(colon + 1, "0123456789") : 0;
    bool whole = digits > 0 && digits <= 5 && colon[1 + digits] == '\0';
    long port = whole ? strtol(colon + 1, NULL, 10) : 0;
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
    return gk_fail(err, GK_USAGE,
                   "'%s': an address and a port are needed, like 127.0.0.1:9090 or [::1]:9090",
                   address);
}

enum gk_status gk_http_check(const char *address, struct gk_err *err)
{
    struct sockaddr_storage where = {0};
    bool is_v6 = false;
    return parse_address(address, &where, &is_v6, err);
}

enum gk_status gk_http_start(const char *address, const char *version, const struct gk_clock *clock,
                             struct gk_http **http_out, struct gk_err *err)
{
    struct sockaddr_storage where = {0};
    bool is_v6 = false;
    enum gk_status status = parse_address(address, &where, &is_v6, err);
    if (status != GK_OK) {
        return gk_fail_in(err, status, "--http");
    }
    struct gk_http *http = calloc(1, sizeof *http);
    if (!http || pthread_mutex_init(&http->lock, NULL) != 0) {
        free(http);
        return gk_fail(err, GK_NOMEM, "out of memory for the http server");
    }
    http->version = version;
    http->clock = *clock;
    atomic_store(&http->alive_ns, clock->monotonic_ns(clock->context));
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
        free(http->page);
        free(http);
    }
}

void gk_http_alive(struct gk_http *http, uint64_t now_ns)
{
    if (http) {
        atomic_store_explicit(&http->alive_ns, now_ns, memory_order_relaxed);
    }
}

void gk_http_publish(struct gk_http *http, const bool degraded[GK_DEGRADED_COUNT], char *page)
{
    char *former = page;
    if (http && page) {
        (void)pthread_mutex_lock(&http->lock); /* see answer_ready() */
        former = http->page;
        http->page = page;
        http->published = true;
        memcpy(http->degraded, degraded, sizeof http->degraded);
        (void)pthread_mutex_unlock(&http->lock);
    }
    free(former);
}
