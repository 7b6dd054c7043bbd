/**
 * Recording from a training process, which never touches SQLite: frames go
 * through a ring in shared memory to the process entropy-recorder, which owns
 * the run file.
 *
 *     es_recorder *recorder = NULL;
 *     int entropy;
 *     es_run_info info = {.size = sizeof info, .n_layer = L, .n_head = H};
 *     es_recorder_options options = {.size = sizeof options,
 *                                    .path = "run.db", .run = &info};
 *     if (es_recorder_open(&recorder, &options) < 0) complain(es_message());
 *     es_recorder_series(recorder, &entropy, "entropy", ES_SHAPE_HEAD,
 *                        ES_PHASE_TRAIN, "nats");
 *     for (step ...) es_recorder_push(recorder, entropy, step, values, L * H);
 *     es_recorder_close(recorder, ES_RUN_FINISHED, &report);
 *
 * Nothing here ever stops or crashes the training: a failing call returns its
 * code at once, also on a NULL recorder, and the loss is counted. No signal
 * handler is installed. The recorder process ends by itself when the run is
 * closed or the training process dies, whatever it dies of; what was pushed
 * until then is in the file, and a run that nobody closed is `failed`.
 *
 * After es_recorder_open no descriptor of the training process is needed: it
 * may close any number that it does not know (closefrom), and a number that it
 * uses again for a file of its own is left alone. The memory shared with the
 * recorder is not trusted: a bug that overwrites it costs frames at most, and
 * es_recorder_close counts them.
 *
 * A recorder belongs to the process that opened it: in a forked child every
 * call but close returns ES_EFORK and does nothing. One thread at a time; a
 * second one inside a call gets ES_EARGUMENT.
 */
#ifndef ES_RECORDER_H
#define ES_RECORDER_H

#include "analyzer/base/severity.h"
#include "analyzer/base/status.h"
#include "store/run.h"
#include <stdbool.h>

typedef struct es_recorder es_recorder;

typedef struct es_recorder_options {
    size_t size;      /* sizeof (es_recorder_options) */
    const char *path; /* the run file */
    const es_run_info *
        run; /* copied, with its size set; a uuid that is in the file resumes */
    int64_t resume_step; /* first step that will be pushed again */
    const char *program; /* entropy-recorder; NULL: $ENTROPY_RECORDER, then
                            beside this executable, then the one installed
                            with this library, then PATH */
    size_t ring_bytes;   /* 0: 8 MiB; rounded up to a power of two */
    int wait_ms;         /* longest wait on a full ring; 0: 100, < 0: none */
    int answer_ms;       /* longest wait for a recorder that gets nothing
                            done, at open and close; 0: 30000 */
    int store;           /* es_store; 0: by the file system. Not in the run file
                            but in RUN.esf, what is recorded on nfs and others
                            that hosts share */
} es_recorder_options;

/**
 * Starts the recorder process and waits until it has opened the file.
 *
 * A file that another recorder is just closing is waited for, 2 s at most:
 * so a trainer that was killed can be started again at once.
 *
 * ES_OK; ES_EARGUMENT (also if options or run have no size, or members set that
 * this library is too old for); ES_ENOMEM; ES_ELOCKED, ES_EIO, ES_EFORMAT,
 * ES_EVERSION as the store says of the file (the recorder's own message);
 * ES_EBROKEN if entropy-recorder cannot be started or does not answer. *out is
 * NULL then.
 */
ES_API es_status es_recorder_open(
    es_recorder **out, const es_recorder_options *options) ES_MUST_USE;

/**
 * Declares a series; *series is its number for es_recorder_push, -1 on
 * failure. Declaring the same (name, phase) again gives the same number.
 *
 *   unit  may be NULL
 *
 * A series that a resumed file has with another shape is found out by the
 * recorder: its samples are refused, and es_recorder_close says so.
 *
 * ES_OK; ES_EARGUMENT (too long a name, another shape than before); ES_EFORK,
 * ES_EBROKEN, ES_EFULL, ES_ENOMEM.
 */
ES_API es_status es_recorder_series(es_recorder *recorder, int *series,
                                    const char *name, es_shape shape,
                                    es_phase phase, const char *unit);

/**
 * Copies one sample into the ring: no system call unless the recorder sleeps
 * or the ring is full.
 *
 *   step    0..ES_MAX_STEP
 *   values  (n) float32, n exactly the series' number of values
 *
 * A full ring is waited for once: after a drop, frames are dropped without
 * waiting until one has fitted again.
 *
 * ES_OK; ES_EFULL (dropped after wait_ms, counted); ES_EBROKEN (the recorder
 * is gone, counted; the message is its own if it had one); ES_EFORK;
 * ES_EARGUMENT (not counted).
 */
ES_API es_status es_recorder_push(es_recorder *recorder, int series,
                                  int64_t step, const float *values, size_t n);

/**
 * An attention map: mean weights of blocks of queries by blocks of keys, at a
 * few steps. What it costs is its bytes, 4 size^2, in the ring and in the file.
 *
 *   head    0..H-1, or ES_MAP_MEAN: the mean over the layer's heads
 *   values  (size, size), row-major; NaN and es_missing() as store/map.h says
 *   size    1..ES_MAP_MAX
 *   n_ctx   tokens a side, at least size
 *
 * Returns as push does.
 */
ES_API es_status es_recorder_map(es_recorder *recorder, es_phase phase,
                                 int64_t step, int64_t layer, int64_t head,
                                 const float *values, int64_t size,
                                 int64_t n_ctx);

/** An event of the run; step may be ES_UNKNOWN, message NULL; strings up to
 *  4 KiB in all. Returns as push does. */
ES_API es_status es_recorder_event(es_recorder *recorder, int64_t step,
                                   const char *kind, es_severity severity,
                                   const char *message);

/**
 * True once somebody requested that training stop, by making a file RUN.db.stop
 * beside the run (its first line becomes an event). The recorder looks for it
 * once a second while frames come, and removes it. One that es_recorder_open
 * finds was meant for another training: it is removed, and not followed.
 */
ES_API bool es_recorder_stop_requested(const es_recorder *recorder);

/** Counts of frames (samples and events) since es_recorder_open. */
typedef struct es_recorder_report {
    size_t size;        /* set before the call; then the bytes written */
    uint64_t pushed;    /* accepted into the ring */
    uint64_t committed; /* known to be in the file; maybe more are */
    uint64_t dropped;   /* ring full */
    uint64_t lost;      /* pushed but not committed, or pushed after the
                           recorder was gone */
} es_recorder_report;

static inline es_recorder_report *
es_recorder_report_sized(es_recorder_report *out)
{
    if (out)
        out->size = sizeof *out;
    return out;
}

/**
 * Drains the ring, ends the run with `status` (as failed, unless that is
 * finished or stopped), waits for the recorder to close the file, frees the
 * handle (also on failure). NULL is fine: ES_OK, a report of zeros.
 *
 *   report  written, may be NULL; its size is set by the macro of the same
 *           name, or by who binds another language: without it the run is
 *           ended all the same, the report is left alone, and ES_OK becomes
 *           ES_EARGUMENT
 *
 * ES_OK: every frame that was not counted as dropped is in the file.
 * ES_EBROKEN: the recorder died, or does not answer, or does not account for
 * every frame; the message says how many frames are lost.
 * ES_EIO: the file could not be written, or was removed, moved or replaced; or
 * another program truncated its -wal, which costs what was in it, or its -shm,
 * which ends the recording. The file is whole in either case.
 * ES_EFORMAT, ES_EARGUMENT: the store refused some frames, which count as
 * lost. The message is the recorder's, with the count of what is lost.
 * In a forked child: frees the child's copy and returns ES_EFORK.
 */
ES_API es_status es_recorder_close(es_recorder *recorder, es_run_status status,
                                   es_recorder_report *report);
#define es_recorder_close(recorder, status, report)                            \
    es_recorder_close(recorder, status, es_recorder_report_sized(report))

#endif
