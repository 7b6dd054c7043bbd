/**
 * Deaths: how the recorder learns of the trainer's, and the trainer of the
 * recorder's. And signals, which a sleeping recorder must not miss.
 */
#ifndef ES_WATCH_H
#define ES_WATCH_H

#include "hooks/recorder/ring.h"
#include <pthread.h>
#include <stdbool.h>

/**
 * Makes the calling thread the owner of the ring: from now on the kernel
 * changes the word `owner` the moment the thread dies, however it dies, and
 * the training process sees it without a system call. Once in a process.
 */
void es_watch_own(es_ring *ring);

/** Runs beside the recording, in a thread of its own: the recording sleeps on
 *  a futex and can wait for nothing else. */
typedef struct es_watch {
    es_ring *ring; /* whose bell it rings */
    pid_t trainer;
    bool is_child; /* of the trainer: then a new parent is its death */
    int signals;   /* signalfd */
    int end;       /* eventfd: es_watch_stop */
    pthread_t thread;
    _Atomic bool orphaned; /* the trainer is dead, or let go of the ring */
    _Atomic bool hurried;  /* a signal said that time is short */
} es_watch;

/**
 * Blocks SIGTERM, SIGINT and SIGHUP and starts the thread, which looks at
 * ES_FD_TRAINER and ES_FD_CONTROL.
 *
 * A socket that ends does not mean that the trainer let go of the ring: it may
 * just have closed every descriptor that it did not know. It records on while
 * it lives and maps the ring; another program in its place does not.
 *
 * Where ES_FD_TRAINER is no pidfd, the trainer's death is noticed within a
 * second instead of at once.
 *
 * ES_OK; ES_EIO.
 */
es_status es_watch_start(es_watch *watch, es_ring *ring,
                         pid_t trainer) ES_MUST_USE;

/** Ends the thread. A watch of zeros is fine. */
void es_watch_stop(es_watch *watch);

#endif
