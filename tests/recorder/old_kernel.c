/*
 * Runs a command under a system call filter that simulates an older kernel or a
 * container:
 *
 *       old_kernel ENOSYS|EPERM [memfd] [wipe] COMMAND...
 *
 * Every system call that is newer than Linux 4.18 fails with the given error,
 * and waitid accepts no pidfd. With memfd, memfd_create fails, too; with wipe,
 * MADV_WIPEONFORK fails. Two calls always fail with ENOSYS, because glibc falls
 * back to older calls only after ENOSYS.
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Number of pidfd_send_signal, which Linux 5.1 added. It is the same on every
 * architecture. */
#define FIRST_NEW 424
#define CLONE3 435
#define FACCESSAT2 439 /* realpath uses this call */
#define ID_PIDFD 3

#define NUMBER offsetof(struct seccomp_data, nr)
#define ARGUMENT(i) (offsetof(struct seccomp_data, args) + 8 * (i))
#define LOAD(at) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, at)
#define ANSWER(code) BPF_STMT(BPF_RET | BPF_K, code)
#define ERROR(code) ANSWER(SECCOMP_RET_ERRNO | (unsigned)(code))
/* Filter instructions that skip the next `n` instructions unless the loaded
 * system call number equals `number` (UNLESS_IS), or is at least `number`
 * (UNLESS_FROM). */
#define UNLESS_IS(number, n) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, n)
#define UNLESS_FROM(number, n) BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, number, 0, n)

int main(int argc, char **argv)
{
    int error = argc > 2 && strcmp(argv[1], "ENOSYS") == 0  ? ENOSYS
                : argc > 2 && strcmp(argv[1], "EPERM") == 0 ? EPERM
                                                            : 0;
    int next = 2;
    bool no_memfd = argc > next && strcmp(argv[next], "memfd") == 0;
    next += no_memfd;
    bool no_wipe = argc > next && strcmp(argv[next], "wipe") == 0;
    next += no_wipe;
    if (!error || next >= argc) {
        fprintf(stderr, "usage: %s ENOSYS|EPERM [memfd] [wipe] COMMAND...\n",
                argv[0]);
        return 2;
    }
    struct sock_filter filter[] = {
        LOAD(NUMBER),
        UNLESS_IS(CLONE3, 1),
        ERROR(ENOSYS),
        UNLESS_IS(FACCESSAT2, 1),
        ERROR(ENOSYS),
        UNLESS_FROM(FIRST_NEW, 1),
        ERROR(error),
        UNLESS_IS(no_memfd ? SYS_memfd_create : UINT32_MAX, 1),
        ERROR(error),
        UNLESS_IS(SYS_waitid, 3),
        LOAD(ARGUMENT(0)),
        UNLESS_IS(ID_PIDFD, 1),
        ERROR(EINVAL),
        LOAD(NUMBER),
        UNLESS_IS(no_wipe ? SYS_madvise : UINT32_MAX, 3),
        LOAD(ARGUMENT(2)),
        UNLESS_IS(MADV_WIPEONFORK, 1),
        ERROR(EINVAL),
        ANSWER(SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        perror("seccomp");
        return 3;
    }
    execvp(argv[next], argv + next);
    perror(argv[next]);
    return 127;
}
