/**
 * Runs one recording, which moves frames from the ring into the run file.
 *
 * A batch of frames is written in one transaction, which is committed at most a
 * second after the batch's first frame arrived, or when the batch contains 1
 * MiB. Space in the ring is released only after the commit, so that the frames
 * of a failed transaction can be read again.
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
    uint64_t safe; /* value of tally.committed when the write-ahead log was last
                      moved completely into the file */
    int n_opened;  /* number of times that the file was opened again */
    es_recorded series[ES_MAX_SERIES];
    unsigned char *payload; /* (payload_size) */
    size_t payload_size;
    uint64_t until;    /* ring position at which the current batch must end */
    uint64_t reached;  /* ring position of the end of the last batch, including
                          a batch whose transaction failed */
    es_reply trouble;  /* first problem of the recording; its code is ES_OK if
                          there was no problem */
    bool corrupt;      /* true once the ring buffer is corrupt, so that nothing
                          more can be read from it */
    bool complained;   /* true if the current failure has already been printed
                          on standard error */
    int late_tries;    /* number of failures since the trainer ended */
    bool stop_passed;  /* true once a stop request was passed to the trainer */
    bool log_reported; /* true once a write-ahead log that keeps growing was
                          reported */
    int64_t look;      /* time in milliseconds of the last call of
                          look_around */
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
 * Installs a handler for SIGBUS that leaves a message for the trainer in the
 * ring and ends the process with exit code 3. Must be called once, after the
 * file has been opened.
 */
void es_session_catch_bus(es_session *session);

/**
 * Frees the session and the memory that the recording allocated. The writer
 * must be closed.
 */
void es_session_free(es_session *session);

/**
 * Checks for the file PATH.stop, by which a user requests that the training of
 * the run in `path` stop. Removes the file and returns true if it exists.
 *
 *   line  (size bytes) output: first line of the file, reduced to printable
 *         ASCII; may be empty
 */
bool es_stop_requested(char *line, size_t size, const char *path);

#endif
