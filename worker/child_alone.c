/*
 * A process that starts no other: a filter of system calls for compilers. See children.h.
 *
 * Whoever takes over a compiler by its source would run on the host, and the first thing that such
 * code does is to start something, or to fork until nothing else gets a turn. A limit of processes
 * is no answer (it counts all of a user's, and holds nobody who is root); a compiler needs none, so
 * it has none. Threads are its own business.
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "worker/children.h"

#if defined(__x86_64__)
#define OWN_ARCH      AUDIT_ARCH_X86_64
#define FOREIGN_CALLS 0x40000000 /* and above: x32, the same calls under other numbers */
#elif defined(__aarch64__)
#define OWN_ARCH      AUDIT_ARCH_AARCH64
#define FOREIGN_CALLS 0x40000000 /* there are none */
#endif

#if defined(OWN_ARCH)
#define LOAD(field)                                                                                \
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offsetof(struct seccomp_data, field))
#define RETURN(value) BPF_STMT(BPF_RET | BPF_K, (value))
#define REFUSE(error) RETURN(SECCOMP_RET_ERRNO | (error))
/* If the call is `number`, the next instruction, else the one behind it. */
#define IF_CALL(number) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (number), 0, 1)

bool gk_child_alone(void)
{
    static struct sock_filter code[] = {
        LOAD(arch),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, OWN_ARCH, 1, 0),
        REFUSE(EPERM),
        LOAD(nr),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, FOREIGN_CALLS, 0, 1),
        REFUSE(EPERM),
        IF_CALL(__NR_execve),
        REFUSE(EPERM),
        IF_CALL(__NR_execveat),
        REFUSE(EPERM),
#ifdef __NR_fork
        IF_CALL(__NR_fork),
        REFUSE(EPERM),
        IF_CALL(__NR_vfork),
        REFUSE(EPERM),
#endif
        IF_CALL(__NR_clone3), /* its flags lie in memory: who hears ENOSYS takes clone */
        REFUSE(ENOSYS),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_clone, 1, 0),
        RETURN(SECCOMP_RET_ALLOW),
        LOAD(args[0]), /* the lower half, on these little-endian machines */
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 0x00010000 /* CLONE_THREAD */, 0, 1),
        RETURN(SECCOMP_RET_ALLOW),
        REFUSE(EPERM),
    };
    const struct sock_fprog program = {.len = sizeof code / sizeof code[0], .filter = code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}
#else
bool gk_child_alone(void)
{
    return false; /* the numbers of its system calls are not known here */
}
#endif
