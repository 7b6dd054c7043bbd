/**
 * Tells the recorder when the trainer dies and the trainer when the recorder
 * dies, and wakes a sleeping recorder when a signal arrives.
 */
#ifndef ES_WATCH_H
#define ES_WATCH_H

#include "hooks/recorder/ring.h"
#include <pthread.h>
#include <stdbool.h>

/**
 * Makes the calling thread the owner of the ring. The kernel changes the word
 * `owner` in the ring as soon as the thread dies for any reason; the training
 * process reads the word without a system call. Must be called once per
 * process.
 */
void es_watch_own(es_ring *ring);

/**
 * State of the thread that watches the trainer. A separate thread is needed,
 * because the recorder sleeps on a futex and cannot wait for a descriptor at
 * the same time.
 */
typedef struct es_watch {
    es_ring *ring; /* ring whose consumer the thread wakes */
    pid_t trainer;
    bool is_child; /* true if the recorder is a child of the trainer; its parent
                      then changes when the trainer dies */
    int signals;   /* signalfd */
    int end;       /* eventfd, set by es_watch_stop to end the thread */
    pthread_t thread;
    _Atomic bool orphaned; /* true once the trainer has died or has unmapped
                              the ring */
    _Atomic bool hurried;  /* true once SIGTERM, SIGINT or SIGHUP has arrived,
                              so that little time remains */
} es_watch;

/**
 * Blocks SIGTERM, SIGINT and SIGHUP and starts the thread, which watches the
 * descriptors ES_FD_TRAINER and ES_FD_CONTROL.
 *
 * If the socket ES_FD_CONTROL is closed, the trainer may still be alive and may
 * only have closed descriptors that it had not opened itself. Recording
 * therefore continues as long as the trainer lives and has the ring mapped. (A
 * program that has replaced the trainer by exec does not have the ring mapped.)
 *
 * If ES_FD_TRAINER is not a pidfd, the trainer's death is noticed within a
 * second instead of at once.
 *
 * Returns ES_OK; ES_EIO.
 */
es_status es_watch_start(es_watch *watch, es_ring *ring,
                         pid_t trainer) ES_MUST_USE;

/**
 * Ends the thread. Does nothing if *watch is all zeros. Returns false if the
 * thread cannot be ended and still uses `watch` and its ring.
 */
bool es_watch_stop(es_watch *watch) ES_MUST_USE;

#endif
