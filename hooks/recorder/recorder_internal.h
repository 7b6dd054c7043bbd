/**
 * Internal declarations of the code that runs in the training process, shared
 * by recorder.c, push.c and child.c.
 */
#ifndef ES_RECORDER_INTERNAL_H
#define ES_RECORDER_INTERNAL_H

#include "analyzer/base/process.h"
#include "hooks/recorder/recorder.h"
#include "hooks/recorder/ring.h"
#include "hooks/recorder/wire.h"

/**
 * Starts the recorder program in a separate session, with default signals and
 * only the descriptors 0 to 2 and `fds`, which become ES_FD_RING and the
 * following numbers.
 *
 *   program  like es_recorder_options.program
 *   path     path of the run file, shown in the list of processes
 *
 * Returns ES_OK or ES_EBROKEN.
 */
es_status es_recorder_start(es_process *out, const char *program,
                            const char *path,
                            const int fds[ES_FD_END - ES_FD_RING]) ES_MUST_USE;

/**
 * Waits at most `ms` milliseconds until the recorder ends, collects its exit
 * status, and describes its end.
 *
 *   out  (size bytes) output: "was killed by signal 9", "ended with exit code
 *        3", "is gone: no exit code" if the host program has already collected
 *        it, "does not answer" if it still runs
 */
void es_recorder_reap(char *out, size_t size, es_process *process, int64_t ms);

typedef struct es_declared {
    char *name;
    es_phase phase;
    es_shape shape;
    size_t n_values;
} es_declared;

struct es_recorder {
    es_ring ring;
    uint32_t owner;      /* value that words->owner has while the recorder
                            lives */
    unsigned char *mine; /* page that begins with a 1 and that the kernel
                            clears in a forked child */
    pid_t opener; /* pid of the process that opened the recorder, if the kernel
                     cannot clear the page `mine` on fork; else 0 */
    es_held control; /* socket to the recorder; after the recorder's reply
                        only the end of the connection is of interest */
    es_process child;
    char *path;
    int64_t n_layer, n_head;
    int64_t wait_ms, answer_ms;
    es_declared *declared; /* (n_declared) */
    size_t n_declared;
    _Atomic bool busy; /* true while a thread is inside a function of
                          recorder.h */
    bool stalled;      /* true if the last frame did not fit or was lost */
    bool replied;      /* true if `reply` contains the recorder's last
                          message */
    es_reply reply;
    uint64_t pushed, dropped, missed; /* numbers of frames accepted, dropped
                                         because the ring was full, and pushed
                                         after the recorder had ended */
};

typedef enum es_answer {
    ES_ANSWERED, /* a reply has arrived and is in recorder->reply */
    ES_HUNG_UP,  /* the recorder ended without a reply */
    ES_SILENT    /* the recorder has sent no reply yet */
} es_answer;

/**
 * Waits at most `ms` milliseconds, or until the recorder wakes this process,
 * for the recorder's last message. Returns true if the message has arrived and
 * was copied to recorder->reply.
 */
bool es_recorder_hear(es_recorder *recorder, int64_t ms);

/** Returns true if the recorder has died or has released the file. */
bool es_recorder_is_gone(es_recorder *recorder);

/**
 * Returns true in the process that opened the recorder, false in a forked
 * child.
 */
bool es_recorder_is_mine(const es_recorder *recorder);

#endif
