/* See own_process.h. */
#include "daemon/own_process.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include "core/json.h"

/* More would only make what walks all possible descriptors slow. */
#define FDS_MOST 1048576

static bool dumps_off(void)
{
    const struct rlimit none = {0, 0};
    bool off = setrlimit(RLIMIT_CORE, &none) == 0;
    /* The check for leaks of a sanitized build attaches to the process, as a debugger would. */
#ifndef __SANITIZE_ADDRESS__
    off = prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0 && off;
#endif
    return off;
}

enum gk_status gk_own_limits(struct gk_own_limits *limits_out, struct gk_err *err)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0) {
        return gk_fail(err, GK_INTERNAL, "limit of descriptors: %s", strerror(errno));
    }
    struct gk_own_limits limits = {.fds_before = files.rlim_cur};
    files.rlim_cur = files.rlim_max < FDS_MOST ? files.rlim_max : FDS_MOST;
    if (files.rlim_cur > limits.fds_before && setrlimit(RLIMIT_NOFILE, &files) != 0) {
        files.rlim_cur = limits.fds_before; /* said by the numbers */
    }
    limits.fds = files.rlim_cur;
    if (limits.fds < GK_FDS_LEAST) {
        return gk_fail(err, GK_LIMIT,
                       "%" PRIu64 " descriptors are allowed, %d are needed, of which %d are for "
                       "the daemon itself: raise the limit (ulimit -Hn, LimitNOFILE=)",
                       limits.fds, GK_FDS_LEAST, GK_FDS_RESERVED);
    }
    limits.dumps_off = dumps_off();
    *limits_out = limits;
    return GK_OK;
}

static uint64_t count_fds(void)
{
    DIR *folder = opendir("/proc/self/fd");
    uint64_t count = 0;
    if (!folder) {
        return 0;
    }
    for (const struct dirent *entry; (entry = readdir(folder));) {
        count += entry->d_name[0] != '.';
    }
    (void)closedir(folder);
    return count > 0 ? count - 1 : 0; /* the folder's own */
}

/* Field 22 of /proc/self/stat: ticks from boot to our start. The name in field 2 may hold spaces
 * and brackets, so it is counted from its end. */
static double start_seconds(void)
{
    char *text = NULL;
    size_t size = 0;
    uint64_t ticks = 0, boot_s = 0;
    long per_second = sysconf(_SC_CLK_TCK);
    if (gk_file_load("/proc/self/stat", 4096, &text, &size, NULL) == GK_OK) {
        const char *at = strrchr(text, ')');
        for (int field = 2; at && field < 22; field++) {
            at = strchr(at + 1, ' ');
        }
        ticks = at ? strtoull(at + 1, NULL, 10) : 0;
    }
    free(text);
    text = NULL;
    if (gk_file_load("/proc/stat", 1 << 20, &text, &size, NULL) == GK_OK) {
        const char *at = strstr(text, "\nbtime ");
        boot_s = at ? strtoull(at + 7, NULL, 10) : 0;
    }
    free(text);
    return ticks > 0 && boot_s > 0 && per_second > 0
               ? (double)boot_s + (double)ticks / (double)per_second
               : 0;
}

void gk_own_stats(struct gk_own_stats *stats_out)
{
    static double start_s; /* does not change; two loads a second for nothing otherwise */
    struct gk_own_stats stats = {0};
    struct rusage usage;
    struct rlimit files;
    char *text = NULL;
    size_t size = 0;
    if (getrusage(RUSAGE_SELF, &usage) == 0) {
        stats.cpu_s = (double)usage.ru_utime.tv_sec + (double)usage.ru_stime.tv_sec +
                      (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
    }
    if (gk_file_load("/proc/self/statm", 4096, &text, &size, NULL) == GK_OK) {
        uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), pages = 0, resident = 0;
        if (sscanf(text, "%" SCNu64 " %" SCNu64, &pages, &resident) == 2) {
            stats.virtual_bytes = pages * page;
            stats.resident_bytes = resident * page;
        }
    }
    free(text);
    start_s = start_s > 0 ? start_s : start_seconds();
    stats.start_s = start_s;
    stats.open_fds = count_fds();
    stats.max_fds = getrlimit(RLIMIT_NOFILE, &files) == 0 ? files.rlim_cur : 0;
    *stats_out = stats;
}
