/* Limits of child processes: see children.h. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "worker/children.h"

#if defined(__SANITIZE_ADDRESS__)
#define HAS_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HAS_ASAN 1
#endif
#endif

static void limit(__rlimit_resource_t resource, rlim_t value)
{
    struct rlimit now;
    if (getrlimit(resource, &now) == 0) {
        rlim_t most = now.rlim_max != RLIM_INFINITY && now.rlim_max < value ? now.rlim_max : value;
        struct rlimit next = {.rlim_cur = most, .rlim_max = most};
        (void)setrlimit(resource, &next); /* lowering cannot fail */
    }
}

void gk_child_limits(uint64_t cpu_s, uint64_t memory_bytes)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGINT, SIG_IGN); /* Ctrl-C goes to the whole group; the supervisor decides */
    /* A scheduler signals every process of a job: the trial that runs is to end by itself. */
    (void)signal(SIGTERM, SIG_IGN);
    (void)signal(SIGUSR1, SIG_IGN);
    limit(RLIMIT_CORE, 0);
    if (cpu_s) {
        limit(RLIMIT_CPU, cpu_s);
    }
#ifndef HAS_ASAN /* its shadow alone is 16 TB of address space */
    if (memory_bytes) {
        limit(RLIMIT_AS, memory_bytes);
    }
#else
    (void)memory_bytes;
#endif
}
