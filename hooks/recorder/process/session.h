/**
 * One recording: frames out of the ring, into the run file.
 *
 * A batch of frames is one transaction, committed at most a second after its
 * first frame came, or when it holds 1 MiB. Only then is its space in the ring
 * given back, so that a transaction that failed is read again.
 */
#ifndef ES_SESSION_H
#define ES_SESSION_H

#include "hooks/recorder/process/alert.h"
#include "hooks/recorder/process/watch.h"
#include "hooks/recorder/wire.h"
#include "store/place.h"
#include "store/writer.h"

/** What a failed transaction undoes. */
typedef struct es_session_tally {
    uint64_t committed; /* samples and events */
    uint64_t refused;   /* those that the store does not want */
    int64_t last_step;
    size_t n_series;
} es_session_tally;

typedef struct es_recorded {
    int64_t id; /* es_writer_series */
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
    es_hello hello;    /* strings borrowed from the caller; its path is that of
                          the place */
    const char *given; /* the path that the training gave */
    es_place place;
    es_writer *writer; /* NULL: it could not be opened again */
    char uuid[ES_UUID_SIZE];
    int64_t run_id;
    es_session_tally tally;
    uint64_t safe; /* tally.committed when the log was last moved into the
                      file as a whole */
    int n_opened;  /* how often the file was opened again */
    es_alerts alerts;
    es_recorded series[ES_MAX_SERIES];
    unsigned char *payload; /* (payload_size) */
    size_t payload_size;
    uint64_t until;    /* where the batch being written ends at the latest */
    uint64_t reached;  /* where the last batch did end, written or not */
    es_reply trouble;  /* the first; code ES_OK: none */
    bool corrupt;      /* the ring cannot be read any further */
    bool complained;   /* standard error has the trouble */
    int late_tries;    /* failures since the trainer's end */
    bool stop_passed;  /* a stop request was passed on */
    bool log_reported; /* a log that grows and grows was reported */
    int64_t look;      /* time of the last look around */
} es_session;

/**
 * Opens the file and the run. ring, watch and hello are set. Waits a little
 * for another writer's end: the recorder of a trainer that was killed and
 * started again at once is still closing the file.
 */
es_status es_session_open(es_session *session) ES_MUST_USE;

/** Records until the trainer closes the run or dies. What went wrong is in
 *  session->trouble. */
void es_session_serve(es_session *session);

/** Writes how it ended, closes the file. Result and message are in
 *  session->trouble. */
void es_session_finish(es_session *session);

/** From now on SIGBUS ends the process with last words and exit code 3. Once
 *  in a process, which has opened the file. */
void es_session_catch_bus(es_session *session);

/** Frees what es_session_open and the recording allocated; the writer is
 *  closed. */
void es_session_free(es_session *session);

/** es_writer_open, which waits a little for another writer's end. */
es_status es_session_open_file(es_session *session) ES_MUST_USE;

/** True when the trainer closed the run, or is gone. */
bool es_session_has_ended(const es_session *session);

/** Keeps es_message if this is the first trouble. */
void es_session_keep_trouble(es_session *session, es_status code);

/** An event of the run, at its last step; data may be NULL. */
es_status es_session_note(es_session *session, const char *kind,
                          es_severity severity, const char *message,
                          const char *data) ES_MUST_USE;

/** The same with the data {"NAME":NUMBER}. */
es_status es_session_note_number(es_session *session, const char *kind,
                                 es_severity severity, const char *message,
                                 const char *name, int64_t number) ES_MUST_USE;

/**
 * When es_writer_log_is_broken: counts what was in the log as lost, opens the
 * file again as it was before, and goes on. ES_OK; else session->writer is
 * NULL.
 */
es_status es_session_replace_log(es_session *session) ES_MUST_USE;

/** A log whose name is gone, or that grows beyond bounds; between
 *  transactions. session->writer may be NULL after it. */
void es_session_look_at_log(es_session *session);

/** Empties a log that readers keep from restarting, if the ring has time. */
void es_session_tend_log(es_session *session);

/**
 * Reads the next frame and writes it into the file: in the transaction under
 * way, else in one of its own.
 *
 *   frame  written: its header
 *
 * ES_OK; ES_DONE (there is none); session->corrupt set and ES_EFORMAT; what
 * the store says.
 */
es_status es_session_record(es_session *session, es_frame *frame) ES_MUST_USE;

/**
 * Whether a stop of the run in `path` was requested: a file of the
 * same name with ".stop" behind it. Removes it.
 *
 *   line  (size) written: its first line, printable ASCII, may be empty
 */
bool es_stop_requested(char *line, size_t size, const char *path);

#endif
