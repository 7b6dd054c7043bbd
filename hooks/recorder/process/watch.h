/**
 * Informs the recorder of the trainer's death and the trainer of the recorder's
 * death, and lets signals reach a sleeping recorder.
 */
#ifndef ES_WATCH_H
#define ES_WATCH_H

#include "hooks/recorder/ring.h"
#include <pthread.h>
#include <stdbool.h>

/**
 * Makes the calling thread the owner of the ring. The kernel changes the word
 * `owner` as soon as the thread dies for any reason, and the training process
 * sees the change without a system call. Must be called once per process.
 */
void es_watch_own(es_ring *ring);

/**
 * The state of the watching thread. The thread is needed because the recording
 * sleeps on a futex and cannot wait for anything else.
 */
typedef struct es_watch {
    es_ring *ring; /* ring whose bell the thread rings */
    pid_t trainer;
    bool is_child; /* true if the recorder is a child of the trainer; it then
                      gets a new parent when the trainer dies */
    int signals;   /* signalfd */
    int end;       /* eventfd, set by es_watch_stop to end the thread */
    pthread_t thread;
    _Atomic bool orphaned; /* true once the trainer has died or has unmapped
                              the ring */
    _Atomic bool hurried;  /* true once a signal has announced that little
                              time remains */
} es_watch;

/**
 * Blocks SIGTERM, SIGINT and SIGHUP and starts the thread, which watches
 * ES_FD_TRAINER and ES_FD_CONTROL.
 *
 * If the socket ends, the trainer may merely have closed every descriptor that
 * it did not know. Recording therefore continues as long as the trainer lives
 * and maps the ring; a program that replaces the trainer by exec does not map
 * the ring.
 *
 * If ES_FD_TRAINER is not a pidfd, the trainer's death is noticed within a
 * second instead of at once.
 *
 * Returns ES_OK; ES_EIO.
 */
es_status es_watch_start(es_watch *watch, es_ring *ring,
                         pid_t trainer) ES_MUST_USE;

/** Ends the thread. Does nothing if *watch is all zeros. */
void es_watch_stop(es_watch *watch);

#endif
