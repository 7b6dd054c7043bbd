/**
 * Records a run from a training process. The training process never uses
 * SQLite: frames go through a ring buffer in shared memory to the process
 * entropy-recorder, which owns the run file.
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
 * No call ever stops or crashes the training. A call that fails, including a
 * call with a NULL recorder, returns a status at once, and the lost frame is
 * counted. No signal handler is installed. The recorder process ends by itself
 * when the run is closed or the training process dies, whatever the cause. All
 * frames pushed before are then in the file, and a run that was not closed has
 * the status `failed`.
 *
 * After es_recorder_open the library needs no descriptor of the training
 * process: the process may close any descriptor that it does not know
 * (closefrom), and if it then reuses the number for another file, that file is
 * left alone. The memory shared with the recorder is not trusted: a bug that
 * overwrites it can only cause frames to be lost, which es_recorder_close
 * counts.
 *
 * A recorder belongs to the process that opened it: in a forked child every
 * call but close returns ES_EFORK and does nothing. Only one thread may use it
 * at a time; a second thread inside a call gets ES_EARGUMENT.
 */
#ifndef ES_RECORDER_H
#define ES_RECORDER_H

#include "analyzer/base/severity.h"
#include "analyzer/base/status.h"
#include "store/run.h"
#include <stdbool.h>

typedef struct es_recorder es_recorder;

typedef struct es_recorder_options {
    size_t size;            /* size of this struct: sizeof
                               (es_recorder_options) */
    const char *path;       /* path of the run file */
    const es_run_info *run; /* description of the run, which is copied; its
                               member `size` must be set; if its uuid is that of
                               a run in the file, that run is resumed */
    int64_t resume_step;    /* first step that will be pushed again, if a run is
                               resumed */
    const char *program;    /* path of the program entropy-recorder; if NULL,
                               the program is searched for in $ENTROPY_RECORDER,
                               the folder of this executable, the installation
                               of this library, and PATH */
    size_t ring_bytes;      /* size of the ring buffer in bytes, rounded up to a
                               power of two; 0 means 8 MiB */
    int wait_ms;            /* maximum wait of a push for space in the ring
                               buffer, in milliseconds; 0 means 100; a negative
                               value means no wait */
    int answer_ms;          /* maximum wait at open and close for a recorder
                               that makes no progress, in milliseconds; 0 means
                               30000 */
    int store;              /* an es_store; 0 means that the file system
                               decides: on NFS and other file systems that hosts
                               share, the run is recorded into the fragment
                               RUN.esf instead of the run file */
} es_recorder_options;

/**
 * Starts the recorder process and waits until it has opened the file.
 *
 * If another recorder is still closing the file, waits for it up to 2 s, so
 * that a trainer that was killed can be restarted at once.
 *
 * Returns ES_OK or ES_ENOMEM. Returns ES_EARGUMENT if an argument is invalid,
 * for example if options or run have no size or set members that this older
 * library does not know. Returns ES_ELOCKED, ES_EIO, ES_EFORMAT or ES_EVERSION,
 * with the recorder's message, if the recorder cannot open the file. Returns
 * ES_EBROKEN if entropy-recorder cannot be started or does not answer. On
 * failure *out is NULL.
 */
ES_API es_status es_recorder_open(
    es_recorder **out, const es_recorder_options *options) ES_MUST_USE;

/**
 * Declares a series and sets *series to its number for es_recorder_push, or to
 * -1 on failure. Declaring the same (name, phase) again yields the same number.
 *
 *   unit  may be NULL
 *
 * If a resumed file contains the series with another shape, only the recorder
 * notices: it refuses the samples, and es_recorder_close reports them.
 *
 * Returns ES_OK, ES_EFORK, ES_EBROKEN, ES_EFULL or ES_ENOMEM. Returns
 * ES_EARGUMENT if the name is too long or the shape differs from an earlier
 * declaration.
 */
ES_API es_status es_recorder_series(es_recorder *recorder, int *series,
                                    const char *name, es_shape shape,
                                    es_phase phase, const char *unit);

/**
 * Copies one sample into the ring buffer. Makes no system call unless the
 * recorder sleeps or the buffer is full.
 *
 *   step    0..ES_MAX_STEP
 *   values  (n) float32; n must equal the number of values of the series
 *
 * If the buffer is full, waits up to wait_ms, then drops the frame. After a
 * dropped frame, further frames are dropped without waiting until a frame fits
 * again.
 *
 * Returns ES_OK. Returns ES_EFULL if the sample was dropped; the sample is then
 * counted as dropped. Returns ES_EBROKEN, with the recorder's last message if
 * there is one, if the recorder has ended; the sample is then counted as lost.
 * Returns ES_EFORK or ES_EARGUMENT without counting the sample.
 */
ES_API es_status es_recorder_push(es_recorder *recorder, int series,
                                  int64_t step, const float *values, size_t n);

/**
 * Records an attention map, whose cells are mean attention weights of a block
 * of queries to a block of keys. Maps should be recorded at a few steps only,
 * because each map takes 4 * size^2 bytes in the ring buffer and in the file.
 *
 *   head    0..H-1, or ES_MAP_MEAN: the mean over the layer's heads
 *   values  (size, size), row-major; NaN and es_missing() as in store/map.h
 *   size    1..ES_MAP_MAX
 *   n_ctx   tokens per side, at least size
 *
 * Returns the same statuses as es_recorder_push.
 */
ES_API es_status es_recorder_map(es_recorder *recorder, es_phase phase,
                                 int64_t step, int64_t layer, int64_t head,
                                 const float *values, int64_t size,
                                 int64_t n_ctx);

/**
 * Records an event of the run. `step` may be ES_UNKNOWN, and `message` may be
 * NULL. All strings together must not exceed 4 KiB. Returns the same statuses
 * as es_recorder_push.
 */
ES_API es_status es_recorder_event(es_recorder *recorder, int64_t step,
                                   const char *kind, es_severity severity,
                                   const char *message);

/**
 * Returns true once a user has requested that the training stop, by creating a
 * file RUN.db.stop next to the run file. The recorder checks for the file once
 * a second while frames arrive, stores its first line as an event, and removes
 * it. A file that already exists when es_recorder_open is called was meant for
 * an earlier training run; it is removed and ignored.
 */
ES_API bool es_recorder_stop_requested(const es_recorder *recorder);

/** Numbers of frames (samples, maps and events) since es_recorder_open. */
typedef struct es_recorder_report {
    size_t size;        /* size of the struct, set by the caller; on return
                           the number of bytes written */
    uint64_t pushed;    /* frames accepted by the ring buffer */
    uint64_t committed; /* frames known to be in the file, which may contain
                           more frames */
    uint64_t dropped;   /* frames refused because the ring buffer was full */
    uint64_t lost;      /* frames pushed but not committed, or pushed after
                           the recorder had ended */
} es_recorder_report;

static inline es_recorder_report *
es_recorder_report_sized(es_recorder_report *out)
{
    if (out)
        out->size = sizeof *out;
    return out;
}

/**
 * Waits until the recorder has written all frames, ended the run with `status`
 * (finished or stopped; any other value counts as failed) and closed the file.
 * Then frees the recorder, even on failure. If recorder is NULL, returns ES_OK
 * and a report of zeros.
 *
 *   report  output, may be NULL. The macro es_recorder_close sets the report's
 *           size; bindings for other languages must set it themselves. Without
 *           a size the run is ended all the same, the report is left untouched,
 *           and ES_EARGUMENT is returned instead of ES_OK
 *
 * ES_OK: every frame that was not counted as dropped is in the file.
 * ES_EBROKEN: the recorder died, does not answer, or does not account for every
 * frame; the message gives the number of lost frames.
 *
 * ES_EIO: the file could not be written, or was removed, moved or replaced; or
 * another program truncated its -wal, which loses the contents of that log, or
 * its -shm, which ends the recording. The file is intact in either case.
 *
 * ES_EFORMAT, ES_EARGUMENT: the store refused some frames, which count as lost.
 * The message is the recorder's, with the number of lost frames.
 *
 * In a forked child this function frees the child's copy and returns ES_EFORK.
 */
ES_API es_status es_recorder_close(es_recorder *recorder, es_run_status status,
                                   es_recorder_report *report);
#define es_recorder_close(recorder, status, report)                            \
    es_recorder_close(recorder, status, es_recorder_report_sized(report))

#endif
