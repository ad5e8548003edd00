/* The page of /metrics, written for the checker (tests/support/exposition.py) to read, and what the
 * endpoints answer over a real socket. */
#include <arpa/inet.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/json.h"
#include "daemon/http.h"
#include "daemon/metrics.h"
#include "tests/support/check.h"

static uint64_t now_ns = UINT64_C(1000000000000);

static uint64_t monotonic(void *context)
{
    (void)context;
    return __atomic_load_n(&now_ns, __ATOMIC_RELAXED);
}

static uint64_t wall(void *context)
{
    (void)context;
    return 0;
}

static const struct gk_clock test_clock = {monotonic, wall, NULL};

static void test_histogram(void **state)
{
    struct gk_histogram histogram = {0};
    size_t count = 0;
    const double *bounds = gk_histogram_bounds(&count);
    (void)state;
    assert_int_equal(count + 1, GK_HISTOGRAM_BUCKETS);
    gk_histogram_observe(&histogram, bounds[0]); /* a bound belongs to its own bucket */
    gk_histogram_observe(&histogram, 0);
    gk_histogram_observe(&histogram, bounds[count - 1] * 2);
    gk_histogram_observe(&histogram, -1);
    gk_histogram_observe(&histogram, (double)NAN);
    assert_int_equal(histogram.counts[0], 2);
    assert_int_equal(histogram.counts[count], 1);
    assert_true(histogram.sum_s == bounds[0] + bounds[count - 1] * 2);
}

static const struct gk_link_refusals refusals = {.counts[GK_REFUSED_REVOKED] = 5};

static void fill(struct gk_metrics *metrics, struct gk_core_counters *core,
                 struct gk_shell_stats *shell)
{
    *core = (struct gk_core_counters){.messages = 12,
                                      .results = 5,
                                      .expired = 3,
                                      .expired_silent = 1,
                                      .sessions = 4,
                                      .workers_quiet = 1,
                                      .oldest_ready_s = {0, 12.5, 0}};
    *shell = (struct gk_shell_stats){.commits = 2, .send_again = 1, .busy_s = 0.25};
    core->verdicts[GK_FAILURE_NONE] = 7;
    core->verdicts[GK_FAILURE_WRONG] = 1;
    core->job_done_ms = 1500;
    core->night_done_ms = 2500000;
    core->throttled[GK_CORE_THROTTLE_HW_THERMAL] = 6;
    core->shared = 8;
    core->child_exits[GK_CORE_COMPILER_MEMORY] = 9;
    gk_histogram_observe_count(&shell->batch_rows, 3);
    gk_histogram_observe_count(&shell->batch_rows, 4);
    gk_histogram_observe_count(&shell->batch_rows, 20000);
    gk_histogram_observe(&core->compile_s, 0.13);
    gk_histogram_observe(&core->verify_s, 1.5);
    gk_histogram_observe(&shell->commit_s, 0.0003);
    gk_histogram_observe(&shell->lag_s, 700);
    *metrics = (struct gk_metrics){.version = "0.1.0",
                                   .epoch = 3,
                                   .core = core,
                                   .shell = shell,
                                   .refusals = &refusals,
                                   .disk_free_bytes = 1 << 30,
                                   .store_bytes = 4096,
                                   .backup_wall_ms = UINT64_C(1700000000000)};
    gk_own_stats(&metrics->own);
}

static void test_page(void **state)
{
    struct gk_core_counters core;
    struct gk_shell_stats shell;
    struct gk_metrics metrics;
    struct gk_buf page = {0};
    (void)state;
    fill(&metrics, &core, &shell);
    metrics.degraded[GK_DEGRADED_DISK_LOW] = true;
    gk_metrics_render(&metrics, &page);
    assert_contains(gk_buf_text(&page), "\ngktune_ready 0\n");
    assert_contains(gk_buf_text(&page), "\ngktune_degraded{reason=\"disk_low\"} 1\n");
    assert_contains(gk_buf_text(&page), "\ngktune_results_total{verdict=\"verified\"} 7\n");
    assert_contains(gk_buf_text(&page), "\ngktune_leases_expired_total{cause=\"deadline\"} 2\n");
    assert_contains(gk_buf_text(&page), "\ngktune_workers{state=\"active\"} 3\n");
    assert_contains(gk_buf_text(&page), "\ngktune_auth_failures_total{reason=\"revoked\"} 5\n");
    assert_contains(gk_buf_text(&page), "\ngktune_oldest_ready_seconds{class=\"normal\"} 12.5\n");
    assert_contains(gk_buf_text(&page),
                    "\ngktune_store_commit_duration_seconds_bucket{le=\"0.0005\"} 1\n");
    assert_contains(gk_buf_text(&page),
                    "\ngktune_trial_duration_seconds_count{phase=\"verify\"} 1\n");
    assert_contains(gk_buf_text(&page), "\ngktune_store_batch_rows_bucket{le=\"3\"} 1\n");
    assert_contains(gk_buf_text(&page), "\ngktune_store_batch_rows_bucket{le=\"5\"} 2\n");
    assert_contains(gk_buf_text(&page), "\ngktune_store_batch_rows_bucket{le=\"10000\"} 2\n");
    assert_contains(gk_buf_text(&page), "\ngktune_store_batch_rows_sum 20007\n");
    assert_contains(gk_buf_text(&page),
                    "\ngktune_run_last_success_timestamp_seconds{kind=\"job\"} 1.5\n");
    assert_contains(gk_buf_text(&page),
                    "\ngktune_run_last_success_timestamp_seconds{kind=\"suite\"} 2500\n");
    assert_contains(gk_buf_text(&page),
                    "\ngktune_gpu_throttled_samples_total{reason=\"hw_thermal\"} 6\n");
    assert_contains(gk_buf_text(&page), "\ngktune_gpu_shared_samples_total 8\n");
    assert_contains(gk_buf_text(&page), "\ngktune_child_exits_total{how=\"compiler_memory\"} 9\n");
    assert_true(metrics.own.open_fds >= 3);
    assert_true(metrics.own.resident_bytes > 100000);
    assert_true(metrics.own.start_s > 1e9);
    assert_int_equal(gk_file_store("test_metrics.txt", page.data, page.size, NULL), GK_OK);
    /* What is not known is not there. */
    gk_buf_reset(&page);
    metrics.backup_wall_ms = 0;
    metrics.disk_free_bytes = UINT64_MAX;
    core.job_done_ms = core.night_done_ms = 0;
    gk_metrics_render(&metrics, &page);
    assert_null(strstr(gk_buf_text(&page), "gktune_backup_last_success"));
    assert_null(strstr(gk_buf_text(&page), "gktune_disk_free_bytes"));
    assert_null(strstr(gk_buf_text(&page), "gktune_run_last_success"));
    gk_buf_fini(&page);
}

/* One request over a real socket; the whole answer. */
static char *fetch(unsigned port, const char *method, const char *path)
{
    static char answer[65536];
    char request[256];
    size_t size = 0;
    ssize_t got;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    int count = snprintf(request, sizeof request,
                         "%s %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", method, path);
    assert_int_equal(write(fd, request, (size_t)count), count);
    while ((got = read(fd, answer + size, sizeof answer - 1 - size)) > 0) {
        size += (size_t)got;
    }
    answer[size] = '\0';
    (void)close(fd);
    return answer;
}

static unsigned free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t size = sizeof address;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    (void)close(fd);
    return ntohs(address.sin_port);
}

static void test_endpoints(void **state)
{
    struct gk_http *http = NULL;
    struct gk_err err = {0};
    char address[64];
    unsigned port = free_port();
    bool degraded[GK_DEGRADED_COUNT] = {false};
    (void)state;
    (void)snprintf(address, sizeof address, "127.0.0.1:%u", port);
    assert_ok(gk_http_start(address, "9.9", &test_clock, &http, &err), err);
    assert_contains(fetch(port, "GET", "/readyz"), " 503 ");
    assert_contains(fetch(port, "GET", "/readyz"), "\"starting\"");
    assert_contains(fetch(port, "GET", "/metrics"), " 503 ");
    gk_http_publish(http, degraded, gk_strdup("page 1\n"));
    assert_contains(fetch(port, "GET", "/readyz"), "{\"ready\":true,\"reasons\":[]}");
    assert_contains(fetch(port, "GET", "/metrics"), "page 1\n");
    assert_contains(fetch(port, "GET", "/metrics"), "text/plain; version=0.0.4");
    degraded[GK_DEGRADED_DISK_FULL] = degraded[GK_DEGRADED_DRAINING] = true;
    gk_http_publish(http, degraded, gk_strdup("page 2\n"));
    const char *answer = fetch(port, "GET", "/readyz");
    assert_contains(answer, " 503 ");
    assert_contains(answer, "{\"ready\":false,\"reasons\":[{\"reason\":\"disk_full\",");
    assert_contains(answer, "},{\"reason\":\"draining\",");
    gk_http_publish(http, degraded, NULL); /* out of memory: the former page stays */
    assert_contains(fetch(port, "GET", "/metrics"), "page 2\n");
    assert_contains(fetch(port, "GET", "/version"), "{\"version\":\"9.9\",\"protocol\":");
    assert_contains(fetch(port, "GET", "/other"), " 404 ");
    assert_contains(fetch(port, "POST", "/metrics"), " 405 ");
    /* Alive until the loop has not been seen for five seconds, and again when it was. */
    gk_http_alive(http, monotonic(NULL));
    assert_contains(fetch(port, "GET", "/healthz"), "{\"healthy\":true,");
    __atomic_add_fetch(&now_ns, UINT64_C(4999000000), __ATOMIC_RELAXED);
    assert_contains(fetch(port, "GET", "/healthz"), " 200 ");
    __atomic_add_fetch(&now_ns, UINT64_C(2000000), __ATOMIC_RELAXED);
    assert_contains(fetch(port, "GET", "/healthz"), " 503 ");
    assert_contains(fetch(port, "GET", "/healthz"),
                    "{\"healthy\":false,\"loop_turned_seconds_ago\":5.001}");
    gk_http_alive(http, monotonic(NULL));
    assert_contains(fetch(port, "GET", "/healthz"), " 200 ");
    struct gk_http *second = NULL;
    assert_status(gk_http_start(address, "9.9", &test_clock, &second, &err), GK_USAGE, err);
    gk_http_stop(http);
    gk_http_stop(NULL);
    gk_http_publish(NULL, degraded, gk_strdup("nobody"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_histogram),
                                       cmocka_unit_test(test_page),
                                       cmocka_unit_test(test_endpoints)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
