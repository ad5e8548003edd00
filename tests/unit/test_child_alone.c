/* A process that starts no other: forks and programs are refused, threads and work are not. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "worker/children.h"

static void *work(void *context)
{
    *(int *)context += 1;
    return NULL;
}

/* In a process of its own, since nothing takes the filter off again: 0, or the step that failed. */
static int alone(void)
{
    char name[] = "/bin/true";
    char *const argv[] = {name, NULL}, *const environment[] = {NULL};
    pthread_t thread;
    pid_t pid = -1;
    int done = 0;
    if (!gk_child_alone()) {
        return 77; /* not on this kernel */
    }
    if (fork() != -1 || errno != EPERM) {
        return 1;
    }
    if (syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL) != -1 || errno != EPERM) {
        return 2;
    }
    if (vfork() != -1) {
        _exit(3);
    }
    if (posix_spawn(&pid, name, NULL, NULL, argv, environment) == 0) {
        return 4;
    }
    if (execve(name, argv, environment) != -1 || errno != EPERM) {
        return 5;
    }
    for (int i = 0; i < 3; i++) {
        if (pthread_create(&thread, NULL, work, &done) != 0 || pthread_join(thread, NULL) != 0) {
            return 6;
        }
    }
    return done == 3 ? 0 : 7;
}

static void starts_nobody(void **state)
{
    (void)state;
    int status = 0;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        _exit(alone());
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77) {
        skip();
    }
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(starts_nobody)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
