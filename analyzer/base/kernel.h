/**
 * Wraps system calls that some Linux versions since 4.18 lack or that a
 * container's filter refuses. The functions need no symbol newer than glibc
 * 2.28. Each either falls back by itself or reports a failure that its caller
 * must handle.
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
 * Returns the time of the monotonic clock in milliseconds. Setting the time of
 * day does not affect it. All deadlines use this clock.
 */
int64_t es_now_ms(void);

/** Returns the kernel's ID of the calling thread. */
pid_t es_kernel_thread(void);

/**
 * Closes every descriptor >= `first`. Allocates nothing and takes no lock, so a
 * child of vfork may call it.
 */
void es_kernel_close_from(int first);

/**
 * Returns the start time of a process, in clock ticks since boot. Process
 * number and start time together identify a process, also between its end and
 * the moment it is reaped. Returns 0 if there is no such process or /proc is
 * not readable.
 */
uint64_t es_kernel_start_time(pid_t pid);

/**
 * Creates a nameless, close-on-exec file in memory with `bytes` zeros. If
 * memfd_create is missing or refused, creates an unlinked file in /dev/shm or,
 * failing that, in /tmp; such a file cannot be sealed, but its space is
 * reserved.
 *
 * Returns the descriptor, or -1 with errno set.
 */
int es_kernel_memory_file(const char *name, off_t bytes);

#endif
