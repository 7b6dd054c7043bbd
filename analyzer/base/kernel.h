/**
 * System calls that not every Linux from 4.18 on has, or that a container's
 * filter refuses, without a symbol newer than glibc 2.28. Each either falls
 * back by itself, or fails in a way that its caller has to expect.
 */
#ifndef ES_KERNEL_H
#define ES_KERNEL_H

#include <stdint.h>
#include <sys/types.h>

/** The pidfd of a process, close-on-exec; -1 and errno if there is none, as
 *  before Linux 5.3. */
int es_kernel_pidfd(pid_t pid);

/** Signals a process by its pidfd; 0, or -1 and errno (before Linux 5.1). */
int es_kernel_signal(int pidfd, int number);

/** Milliseconds on the clock that only goes forward, whatever is done to the
 *  time of day: for every deadline. */
int64_t es_now_ms(void);

/** The number of the calling thread. */
pid_t es_kernel_thread(void);

/** Closes every descriptor from `first` on. Allocates nothing and takes no
 *  lock: fit for a child of vfork. */
void es_kernel_close_from(int first);

/**
 * When a process started, in clock ticks since boot: with its number this
 * identifies it, also if it has ended and was not reaped. 0: there is no such
 * process, or /proc does not say.
 */
uint64_t es_kernel_start_time(pid_t pid);

/**
 * A file in memory without a name, close-on-exec, of `bytes` zeros. Where
 * there is no memfd, or a filter refuses it, an unlinked file in /dev/shm or,
 * failing that, in /tmp, which cannot be sealed, but whose space is reserved.
 *
 * The descriptor, or -1 and errno.
 */
int es_kernel_memory_file(const char *name, off_t bytes);

#endif
