/**
 * How the recorder learns that the trainer has died and vice versa, and how
 * signals reach a sleeping recorder.
 */
#ifndef ES_WATCH_H
#define ES_WATCH_H

#include "hooks/recorder/ring.h"
#include <pthread.h>
#include <stdbool.h>

/**
 * Makes the calling thread the owner of the ring: the kernel changes the word
 * `owner` the moment the thread dies, whatever the cause, and the training
 * process sees the change without a system call. Must be called once per
 * process.
 */
void es_watch_own(es_ring *ring);

/**
 * Runs in a separate thread, because the recording sleeps on a futex and cannot
 * wait for anything else.
 */
typedef struct es_watch {
    es_ring *ring; /* the ring whose bell it rings */
    pid_t trainer;
    bool is_child; /* true if the recorder is a child of the trainer, whose
                      death then shows as a new parent */
    int signals;   /* signalfd */
    int end;       /* eventfd, set by es_watch_stop */
    pthread_t thread;
    _Atomic bool orphaned; /* the trainer has died, or has unmapped the ring */
    _Atomic bool hurried;  /* a signal said that little time is left */
} es_watch;

/**
 * Blocks SIGTERM, SIGINT and SIGHUP and starts the thread, which watches
 * ES_FD_TRAINER and ES_FD_CONTROL.
 *
 * If the socket ends, the trainer may merely have closed every descriptor that
 * it did not know. Recording therefore continues as long as the trainer lives
 * and maps the ring; a program that replaces the trainer by exec does not map
 * it.
 *
 * If ES_FD_TRAINER is not a pidfd, the trainer's death is noticed within a
 * second instead of at once.
 *
 * ES_OK; ES_EIO.
 */
es_status es_watch_start(es_watch *watch, es_ring *ring,
                         pid_t trainer) ES_MUST_USE;

/** Ends the thread. A watch of zeros is allowed. */
void es_watch_stop(es_watch *watch);

#endif
