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

/* More than any file of ours; less than what fills the disk under a spool. */
#define FILE_BYTES (UINT64_C(1) << 30)

#define DESCRIPTORS_MAX 1024 /* closed one by one where the kernel knows no close_range() */

/* The parent opens its own with CLOEXEC. What it was given itself, and what a library of it opened
 * without, would else reach a process in which sources of others are compiled or their kernels are
 * driven: a store, a key file, a socket, the lock of a GPU that then outlives its holder. */
static void close_all_but_three(void)
{
    if (close_range(STDERR_FILENO + 1, ~0u, 0) != 0) {
        for (int fd = STDERR_FILENO + 1; fd < DESCRIPTORS_MAX; fd++) {
            (void)close(fd);
        }
    }
}

/* Not limited, and why: processes, since the kernel counts all of the user's, so that a number that
 * stops a fork bomb stops the driver's own threads on a busy host (compilers start none at all: see
 * gk_child_alone()); descriptors and locked memory, of which a driver takes what it needs. */
void gk_child_limits(uint64_t cpu_s, uint64_t memory_bytes)
{
    close_all_but_three();
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGINT, SIG_IGN); /* Ctrl-C goes to the whole group; the supervisor decides */
    /* A scheduler signals every process of a job: the trial that runs is to end by itself. */
    (void)signal(SIGTERM, SIG_IGN);
    (void)signal(SIGUSR1, SIG_IGN);
    (void)signal(SIGXFSZ, SIG_IGN); /* a write that is too much fails, and says so */
    limit(RLIMIT_CORE, 0);
    limit(RLIMIT_FSIZE, FILE_BYTES);
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
