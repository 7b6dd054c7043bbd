/**
 * System calls that some Linux versions since 4.18 lack or that a container's
 * filter refuses. They need no symbol newer than glibc 2.28. Each either falls
 * back by itself, or fails in a way that its caller must expect.
 */
#ifndef ES_KERNEL_H
#define ES_KERNEL_H

#include <stdint.h>
#include <sys/types.h>

/**
 * Opens a close-on-exec pidfd for a process. Returns -1 with errno set on
 * failure, as on every Linux before 5.3.
 */
int es_kernel_pidfd(pid_t pid);

/**
 * Signals a process by its pidfd. Returns 0, or -1 with errno set, as on every
 * Linux before 5.1.
 */
int es_kernel_signal(int pidfd, int number);

/**
 * Returns milliseconds of the monotonic clock, which changes of the time of
 * day do not affect. Every deadline uses it.
 */
int64_t es_now_ms(void);

/** Returns the system's number of the calling thread. */
pid_t es_kernel_thread(void);

/**
 * Closes every descriptor from `first` on. Allocates nothing and takes no
 * lock, so a child of vfork may call it.
 */
void es_kernel_close_from(int first);

/**
 * Returns the start time of a process, in clock ticks since boot. Together
 * with the process number it identifies the process, even after it ended and
 * before it is reaped. Returns 0 if there is no such process or /proc is not
 * readable.
 */
uint64_t es_kernel_start_time(pid_t pid);

/**
 * Creates a nameless, close-on-exec file in memory with `bytes` zeros. If
 * memfd is missing or refused, it is an unlinked file in /dev/shm or else in
 * /tmp; such a file cannot be sealed, but its space is reserved.
 *
 * Returns the descriptor, or -1 with errno set.
 */
int es_kernel_memory_file(const char *name, off_t bytes);

#endif
