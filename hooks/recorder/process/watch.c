/* Runs a thread that waits for the events which must wake the recorder: a
 * signal, or the trainer's death. The thread detects the trainer's death by the
 * pidfd, by the socket, and by checking whether the trainer still maps the
 * ring. It only sets flags and wakes the recorder. */
#include "hooks/recorder/process/watch.h"
#include "analyzer/base/kernel.h"
#include "hooks/recorder/wire.h"

#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* Milliseconds between two checks that the trainer is alive. The checks are
 * needed if the trainer passed no pidfd or its socket was closed. */
#define REVISIT_MS 1000

/*
 * The thread's list of robust futexes, with one entry. If the thread dies while
 * the ring's word `owner` contains the thread's id, the kernel replaces the id
 * by FUTEX_OWNER_DIED. The list is in private memory; only the word `owner` is
 * in memory that the trainer might overwrite.
 */
static struct robust_list entry;
static struct robust_list_head list;

void es_watch_own(es_ring *ring)
{
    _Atomic uint32_t *owner = &ring->words->owner;
    list.list.next = &entry;
    entry.next = &list.list;
    list.futex_offset = (long)((intptr_t)owner - (intptr_t)&entry);
    /* If this call fails, the training process notices the death of this
     * process only when the ring is full. */
    syscall(SYS_set_robust_list, &list, sizeof list);
    atomic_store(owner, (uint32_t)es_kernel_thread());
}

/* Returns true if the trainer has mapped the ring into its memory. Compares
 * device and inode, because the ring is not a memfd on every kernel. Also
 * returns true if the trainer's maps cannot be read; the trainer's death is
 * then noticed by the pidfd or the pid. */
static bool trainer_maps_ring(pid_t trainer)
{
    char path[64], line[512];
    struct stat ring;
    bool found = false;
    snprintf(path, sizeof path, "/proc/%d/maps", (int)trainer);
    FILE *maps = fopen(path, "re");
    if (!maps || fstat(ES_FD_RING, &ring) != 0)
        found = true;
    while (!found && fgets(line, sizeof line, maps)) {
        unsigned major, minor;
        unsigned long inode;
        found = sscanf(line, "%*s %*s %*s %x:%x %lu", &major, &minor, &inode) ==
                    3 &&
                inode == (unsigned long)ring.st_ino &&
                makedev(major, minor) == ring.st_dev;
    }
    if (maps)
        fclose(maps);
    return found;
}

/* Detects the trainer's death without a pidfd. If the trainer is our parent, we
 * get a new parent as soon as it dies, even before it is reaped; otherwise the
 * trainer is dead once its pid no longer exists. */
static bool trainer_is_dead(const es_watch *watch)
{
    if (watch->is_child)
        return getppid() != watch->trainer;
    return kill(watch->trainer, 0) != 0 && errno == ESRCH;
}

/* Returns false if the trainer has passed /dev/null instead of a pidfd. */
static bool is_pidfd(int fd)
{
    struct stat file;
    return fstat(fd, &file) == 0 && !S_ISCHR(file.st_mode);
}

static void *watch_thread(void *argument)
{
    es_watch *watch = argument;
    bool looks = !is_pidfd(ES_FD_TRAINER);
    struct pollfd fds[] = {
        {.fd = looks ? -1 : ES_FD_TRAINER, .events = POLLIN},
        {.fd = ES_FD_CONTROL, .events = 0}, /* waits only for POLLHUP */
        {.fd = watch->signals, .events = POLLIN},
        {.fd = watch->end, .events = POLLIN}};
    bool detached = false;
    for (;;) {
        int n = poll(fds, sizeof fds / sizeof *fds,
                     detached || looks ? REVISIT_MS : -1);
        if (n < 0 && errno != EINTR)
            return NULL;
        if (fds[3].revents)
            return NULL;
        if (fds[1].revents) {
            detached = true;
            fds[1].fd = -1;
        }
        if (fds[2].revents) {
            atomic_store(&watch->hurried, true);
            fds[2].fd = -1;
        }
        if (fds[0].revents || (looks && trainer_is_dead(watch)) ||
            (detached && !trainer_maps_ring(watch->trainer))) {
            atomic_store(&watch->orphaned, true);
            detached = looks = false;
            fds[0].fd = fds[1].fd = -1;
        }
        if (n > 0 || atomic_load(&watch->orphaned))
            es_ring_wake(watch->ring);
    }
}

es_status es_watch_start(es_watch *watch, es_ring *ring, pid_t trainer)
{
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    *watch = (es_watch){.ring = ring,
                        .trainer = trainer,
                        .is_child = getppid() == trainer,
                        .signals = signalfd(-1, &signals, SFD_CLOEXEC),
                        .end = eventfd(0, EFD_CLOEXEC)};
    int error = watch->signals < 0 || watch->end < 0
                    ? errno
                    : pthread_create(&watch->thread, NULL, watch_thread, watch);
    if (!error)
        return ES_OK;
    if (watch->signals >= 0)
        close(watch->signals);
    if (watch->end >= 0)
        close(watch->end);
    watch->ring = NULL;
    return es_fail(ES_EIO, "cannot watch the training process: %s",
                   strerror(error));
}

bool es_watch_stop(es_watch *watch)
{
    if (!watch->ring)
        return true;
    if (eventfd_write(watch->end, 1) != 0)
        return false;
    pthread_join(watch->thread, NULL);
    close(watch->end);
    close(watch->signals);
    watch->ring = NULL;
    return true;
}
