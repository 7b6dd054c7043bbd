/**
 * One recording: moves frames from the ring into the run file.
 *
 * A batch of frames is one transaction, which is committed at most a second
 * after its first frame arrived, or when it holds 1 MiB. Only then is its space
 * in the ring released, so that a failed transaction can be read again.
 */
#ifndef ES_SESSION_H
#define ES_SESSION_H

#include "hooks/recorder/process/alert.h"
#include "hooks/recorder/process/watch.h"
#include "hooks/recorder/wire.h"
#include "store/place.h"
#include "store/writer.h"

/** Counts that a failed transaction restores. */
typedef struct es_session_tally {
    uint64_t committed; /* samples, maps and events */
    uint64_t refused;   /* frames that the store refused */
    int64_t last_step;
    size_t n_series;
} es_session_tally;

typedef struct es_recorded {
    int64_t id; /* from es_writer_series */
    char *name, *unit;
    es_shape shape;
    es_phase phase;
    size_t n_values;
    es_judge_series role; /* ES_JUDGE_OTHER: not judged */
    bool refused;
} es_recorded;

typedef struct es_session {
    es_ring ring;
    es_watch watch;
    es_hello hello;    /* strings borrowed from the caller; its path is
                          place.path */
    const char *given; /* path that the training process gave */
    es_place place;
    es_writer *writer; /* NULL: it could not be opened again */
    char uuid[ES_UUID_SIZE];
    int64_t run_id;
    es_session_tally tally;
    uint64_t safe; /* tally.committed when the whole log was last moved into
                      the file */
    int n_opened;  /* how often the file was opened again */
    es_alerts alerts;
    es_recorded series[ES_MAX_SERIES];
    unsigned char *payload; /* (payload_size) */
    size_t payload_size;
    uint64_t until;    /* latest end of the batch being written */
    uint64_t reached;  /* end of the last batch, whether or not it was
                          written */
    es_reply trouble;  /* first problem; code ES_OK: no problem */
    bool corrupt;      /* the ring cannot be read any further */
    bool complained;   /* the problem was printed on standard error */
    int late_tries;    /* failures since the trainer's end */
    bool stop_passed;  /* a stop request was passed on */
    bool log_reported; /* a log that keeps growing was reported */
    int64_t look;      /* time of the last look_around */
} es_session;

/**
 * Opens the file and the run; ring, watch and hello must be set. Waits a little
 * for another writer to end: if a trainer was killed and restarted at once, its
 * old recorder is still closing the file.
 */
es_status es_session_open(es_session *session) ES_MUST_USE;

/**
 * Records until the trainer closes the run or dies. Errors are in
 * session->trouble.
 */
void es_session_serve(es_session *session);

/**
 * Writes how the run ended and closes the file. Result and message are in
 * session->trouble.
 */
void es_session_finish(es_session *session);

/**
 * Makes SIGBUS end the process with last words and exit code 3. Must be called
 * once, after the file has been opened.
 */
void es_session_catch_bus(es_session *session);

/**
 * Frees the memory that es_session_open and the recording allocated; the writer
 * must be closed.
 */
void es_session_free(es_session *session);

/** Calls es_writer_open, and waits a little if another writer is ending. */
es_status es_session_open_file(es_session *session) ES_MUST_USE;

/** Returns true if the trainer has closed the run or has died. */
bool es_session_has_ended(const es_session *session);

/** Stores es_message if this is the first problem. */
void es_session_keep_trouble(es_session *session, es_status code);

/** Writes an event of the run at its last step; data may be NULL. */
es_status es_session_note(es_session *session, const char *kind,
                          es_severity severity, const char *message,
                          const char *data) ES_MUST_USE;

/** Writes an event with the data {"NAME":NUMBER}. */
es_status es_session_note_number(es_session *session, const char *kind,
                                 es_severity severity, const char *message,
                                 const char *name, int64_t number) ES_MUST_USE;

/**
 * Recovers from es_writer_log_is_broken: counts the contents of the log as lost
 * and opens the file again. ES_OK; otherwise session->writer is NULL.
 */
es_status es_session_replace_log(es_session *session) ES_MUST_USE;

/**
 * Checks for a log whose name is gone, or that keeps growing. Must be called
 * between transactions; may leave session->writer NULL.
 */
void es_session_look_at_log(es_session *session);

/** Empties a log that readers keep from restarting, if the ring has time. */
void es_session_tend_log(es_session *session);

/**
 * Reads the next frame and writes it into the file, in the current transaction
 * or, without one, in a separate transaction.
 *
 *   frame  written: the frame's header
 *
 * ES_OK; ES_DONE (no frame); ES_EFORMAT, with session->corrupt set; the status
 * of the store.
 */
es_status es_session_record(es_session *session, es_frame *frame) ES_MUST_USE;

/**
 * Returns true if a stop of the run in `path` was requested by a file with that
 * name plus ".stop", and removes the file.
 *
 *   line  (size) written: its first line, printable ASCII, may be empty
 */
bool es_stop_requested(char *line, size_t size, const char *path);

#endif
