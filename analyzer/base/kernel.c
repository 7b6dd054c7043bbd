/* Wraps raw system calls and provides fallbacks. The fallbacks are needed
   because binaries linked for glibc 2.28 also run on Linux 4.18, and in
   containers whose system-call filter answers unknown calls with EPERM. */
#include "analyzer/base/kernel.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* System call numbers that old headers lack. These calls have the same number
   on every architecture. */
#ifndef SYS_pidfd_send_signal
#define SYS_pidfd_send_signal 424
#endif
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_close_range
#define SYS_close_range 436
#endif

int es_kernel_pidfd(pid_t pid)
{
    return (int)syscall(SYS_pidfd_open, pid, 0);
}

int es_kernel_signal(int pidfd, int number)
{
    return (int)syscall(SYS_pidfd_send_signal, pidfd, number, NULL, 0);
}

pid_t es_kernel_thread(void)
{
    return (pid_t)syscall(SYS_gettid);
}

/* --- descriptors ---------------------------------------------------------- */

/* A directory entry in the format of getdents64. */
struct entry {
    uint64_t inode;
    int64_t next;
    unsigned short size;
    unsigned char type;
    char name[];
};

/* Closes the descriptors >= `first` that one block of a listing of
   /proc/self/fd contains, except `folder`, the descriptor of the listing
   itself. Returns true if it closed any descriptor. */
static bool close_listed(const char *block, long n, int first, int folder)
{
    bool closed = false;
    for (long at = 0; at < n;) {
        const struct entry *entry = (const void *)(block + at);
        /* Parse the descriptor number by hand, because a child of vfork may not
         * call library functions that use the locale. The entries "." and ".."
         * get the number -1. */
        const char *name = entry->name;
        int number = 0;
        for (; *name >= '0' && *name <= '9'; name++)
            number = number * 10 + (*name - '0');
        int fd = *name ? -1 : number;
        if (fd >= first && fd != folder && close(fd) == 0)
            closed = true;
        at += entry->size;
    }
    return closed;
}

/* Closes the descriptors >= `first` that /proc/self/fd lists. Repeats the
   listing until it closes no more descriptors, because closing descriptors
   changes the listing. */
static bool close_by_listing(int first)
{
    _Alignas(struct entry) char block[4096];
    int folder = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        return false;
    bool closed = true;
    long n = 0;
    while (closed && n >= 0) {
        closed = false;
        lseek(folder, 0, SEEK_SET);
        while ((n = syscall(SYS_getdents64, folder, block, sizeof block)) > 0)
            closed |= close_listed(block, n, first, folder);
    }
    close(folder);
    return n == 0;
}

void es_kernel_close_from(int first)
{
    struct rlimit limit;
    if (syscall(SYS_close_range, (unsigned)first, UINT_MAX, 0) == 0 ||
        close_by_listing(first))
        return;
    /* If the limit on open files was lowered, descriptors may be open above it,
       so try at least the first 64 Ki descriptor numbers. */
    int end = 1 << 16;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_max < INT_MAX &&
        (int)limit.rlim_max > end)
        end = (int)limit.rlim_max;
    for (int fd = first; fd < end; fd++)
        close(fd);
}

/* --- processes ------------------------------------------------------------ */

/* Number of the field in /proc/PID/stat that contains the start time. */
#define START_TIME 22

uint64_t es_kernel_start_time(pid_t pid)
{
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    /* Skip the process name, which may contain blanks. */
    const char *field = strrchr(text, ')');
    for (int i = 2; field && i < START_TIME; i++)
        field = strchr(field + 1, ' ');
    return field ? strtoull(field, NULL, 10) : 0;
}

/* --- memory --------------------------------------------------------------- */

static int unlinked_file(const char *folder)
{
    char path[64];
    int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0)
        return fd;
    snprintf(path, sizeof path, "%s/entropy-XXXXXX", folder);
    fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0)
        unlink(path);
    return fd;
}

/* Sets the size of a new file and, if `reserve`, allocates its pages with
   posix_fallocate. An unreserved page would raise SIGBUS when memory runs out
   later. */
static int sized_file(int fd, off_t bytes, bool reserve)
{
    int error = ftruncate(fd, bytes) == 0 ? 0 : errno;
    if (!error && reserve && bytes > 0)
        error = posix_fallocate(fd, 0, bytes);
    if (!error)
        return fd;
    close(fd);
    errno = error;
    return -1;
}

int es_kernel_memory_file(const char *name, off_t bytes)
{
    static const char *const folders[] = {"/dev/shm", "/tmp"};
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd >= 0)
        return sized_file(fd, bytes, false);
    if (errno != ENOSYS && errno != EPERM && errno != EACCES)
        return -1;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        fd = unlinked_file(folders[i]);
        if (fd >= 0)
            fd = sized_file(fd, bytes, true);
        if (fd >= 0)
            return fd;
    }
    return -1;
}

int64_t es_now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000;
}
