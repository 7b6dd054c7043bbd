/**
 * Runs one recording, which moves frames from the ring into the run file.
 *
 * A batch of frames is written in one transaction, which is committed at most a
 * second after the batch's first frame arrived, or when the batch contains 1
 * MiB. The batch's space in the ring is released only after the commit, so that
 * the frames of a failed transaction can be read again.
 */
#ifndef ES_SESSION_H
#define ES_SESSION_H

#include "hooks/recorder/process/watch.h"
#include "hooks/recorder/wire.h"
#include "store/place.h"
#include "store/writer.h"

/** Counters that are reset to their earlier values if a transaction fails. */
typedef struct es_session_tally {
    uint64_t committed; /* number of samples, maps and events written */
    uint64_t refused;   /* number of frames that the store refused */
    int64_t last_step;
    size_t n_series;
} es_session_tally;

typedef struct es_recorded {
    int64_t id; /* id of the series, from es_writer_series */
    char *name, *unit;
    es_shape shape;
    es_phase phase;
    size_t n_values;
    bool refused;
} es_recorded;

typedef struct es_session {
    es_ring ring;
    es_watch watch;
    es_hello hello;    /* greeting, with strings borrowed from the caller;
                          hello.path is place.path */
    const char *given; /* path of the run file that the training process gave */
    es_place place;
    es_writer *writer; /* writer of the file; NULL if the file could not be
                          opened again */
    char uuid[ES_UUID_SIZE];
    int64_t run_id;
    es_session_tally tally;
    uint64_t safe; /* value of tally.committed when all of the log was last
                      moved into the file */
    int n_opened;  /* number of times that the file was opened again */
    es_recorded series[ES_MAX_SERIES];
    unsigned char *payload; /* (payload_size) */
    size_t payload_size;
    uint64_t until;    /* ring position at which the current batch must end */
    uint64_t reached;  /* ring position of the end of the last batch, including
                          a batch whose transaction failed */
    es_reply trouble;  /* first problem of the recording; code ES_OK if there
                          was no problem */
    bool corrupt;      /* true once the ring is corrupt and cannot be read
                          further */
    bool complained;   /* true if the current failure has already been printed
                          on standard error */
    int late_tries;    /* number of failures since the trainer ended */
    bool stop_passed;  /* true once a stop request was passed to the trainer */
    bool log_reported; /* true once a log that keeps growing was reported */
    int64_t look;      /* time of the last call of look_around */
} es_session;

/**
 * Opens the file and the run. The members ring, watch and hello must be set. If
 * another writer has locked the file, waits a little for its end, because the
 * earlier recorder of a trainer that was killed and restarted at once may still
 * be closing the file.
 */
es_status es_session_open(es_session *session) ES_MUST_USE;

/**
 * Records until the trainer closes the run or dies. On return, session->trouble
 * contains the first failure.
 */
void es_session_serve(es_session *session);

/**
 * Writes the run's status and closes the file. On return, session->trouble
 * contains the first failure of the recording, with its message.
 */
void es_session_finish(es_session *session);

/**
 * Installs a handler for SIGBUS that leaves a last message for the trainer in
 * the ring and ends the process with exit code 3. Must be called once, after
 * the file has been opened.
 */
void es_session_catch_bus(es_session *session);

/**
 * Frees the session and the memory that the recording allocated. The writer
 * must be closed.
 */
void es_session_free(es_session *session);

/**
 * Opens the file with es_writer_open. If another writer has locked the file,
 * waits a little for its end.
 */
es_status es_session_open_file(es_session *session) ES_MUST_USE;

/** Returns true if the trainer has closed the run or has died. */
bool es_session_has_ended(const es_session *session);

/**
 * Stores `code` and es_message() in session->trouble if this is the first
 * problem.
 */
void es_session_keep_trouble(es_session *session, es_status code);

/** Writes an event at the highest step recorded so far. `data` may be NULL. */
es_status es_session_note(es_session *session, const char *kind,
                          es_severity severity, const char *message,
                          const char *data) ES_MUST_USE;

/**
 * Writes an event at the highest step recorded so far with the data
 * {"NAME":NUMBER}.
 */
es_status es_session_note_number(es_session *session, const char *kind,
                                 es_severity severity, const char *message,
                                 const char *name, int64_t number) ES_MUST_USE;

/**
 * Recovers after es_writer_log_is_broken has returned true: counts the contents
 * of the log as lost and opens the file again. Returns ES_OK; on failure
 * session->writer is NULL.
 */
es_status es_session_replace_log(es_session *session) ES_MUST_USE;

/**
 * Checks whether the log was removed or renamed, or keeps growing. Must be
 * called between transactions; may set session->writer to NULL.
 */
void es_session_look_at_log(es_session *session);

/**
 * Empties a write-ahead log that has become large because readers always keep
 * it in use. Does nothing if the ring is filling up, because it may have to
 * wait for readers.
 */
void es_session_tend_log(es_session *session);

/**
 * Reads the next frame and writes it into the file, in the current transaction
 * or, if none is open, in a separate transaction.
 *
 *   frame  output: header of the frame
 *
 * Returns ES_OK; ES_DONE if the ring has no unread frame; ES_EFORMAT if the
 * ring is corrupt, with session->corrupt set; or a status of the store.
 */
es_status es_session_record(es_session *session, es_frame *frame) ES_MUST_USE;

/**
 * Checks for the file PATH.stop, by which a user requests that the training of
 * the run in `path` stop. Removes the file and returns true if it exists.
 *
 *   line  (size bytes) output: first line of the file, reduced to printable
 *         ASCII; may be empty
 */
bool es_stop_requested(char *line, size_t size, const char *path);

#endif
