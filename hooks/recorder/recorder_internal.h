/** The training process's side, shared between the files of this folder. */
#ifndef ES_RECORDER_INTERNAL_H
#define ES_RECORDER_INTERNAL_H

#include "analyzer/base/process.h"
#include "hooks/recorder/recorder.h"
#include "hooks/recorder/ring.h"
#include "hooks/recorder/wire.h"

/**
 * Starts the recorder program in a session of its own, with default signals
 * and no descriptor but 0 to 2 and `fds`, which become ES_FD_RING and
 * following.
 *
 *   program  as es_recorder_options.program
 *   path     the run file, for those who look at the list of processes
 *
 * ES_OK or ES_EBROKEN.
 */
es_status es_recorder_start(es_process *out, const char *program,
                            const char *path,
                            const int fds[ES_FD_END - ES_FD_RING]) ES_MUST_USE;

/**
 * Waits for its end, at most `ms` milliseconds, and leaves no zombie.
 *
 *   out  (size) written: "was killed by signal 9", "ended with exit code 3",
 *        "is gone: no exit code" if the host program reaped it before us,
 *        "does not answer" if it still runs
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
    uint32_t owner;      /* what words->owner holds while the recorder lives */
    unsigned char *mine; /* a page with a 1, which a forked child finds as 0 */
    pid_t opener;        /* 0, unless the kernel cannot wipe that page */
    es_held control;     /* socket; after opening only its end says something */
    es_process child;
    char *path;
    int64_t n_layer, n_head;
    int64_t wait_ms, answer_ms;
    es_declared *declared; /* (n_declared) */
    size_t n_declared;
    _Atomic bool busy; /* a thread is inside a call */
    bool stalled;      /* the last frame did not fit, or was lost */
    bool replied;      /* reply holds the recorder's last words */
    es_reply reply;
    uint64_t pushed, dropped, missed; /* missed: after the recorder's end */
};

typedef enum es_answer {
    ES_ANSWERED, /* recorder->reply is set */
    ES_HUNG_UP,  /* the recorder is gone without a word */
    ES_SILENT    /* nothing yet */
} es_answer;

/** Whether the recorder has said its last words, which are in
 *  recorder->reply then. Waits at most `ms` milliseconds, or until a bell. */
bool es_recorder_hear(es_recorder *recorder, int64_t ms);

/** Whether the recorder is dead, or has let go of the file. */
bool es_recorder_is_gone(es_recorder *recorder);

/** False in a forked child. */
bool es_recorder_is_mine(const es_recorder *recorder);

#endif
