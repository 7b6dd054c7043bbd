/**
 * Internals of writers, for writer*.c and for the modules that change a file
 * through an open writer: esf_replay.c, merge.c, run_row.c and join/.
 */
#ifndef ES_WRITER_INTERNAL_H
#define ES_WRITER_INTERNAL_H

#include "store/esf_out.h"
#include "store/store_internal.h"
#include "store/writer.h"

enum {
    ES_SQL_BEGIN,
    ES_SQL_COMMIT,
    ES_SQL_ROLLBACK,
    ES_SQL_SAMPLE,
    ES_SQL_LAST_STEP,
    ES_SQL_EVENT,
    ES_SQL_FIND_RUN,
    ES_SQL_ADD_RUN,
    ES_SQL_RESUME_RUN,
    ES_SQL_RESUME_SAMPLES,
    ES_SQL_RESUME_EVENTS,
    ES_SQL_FIND_LAST_STEP,
    ES_SQL_END_RUN,
    ES_SQL_FIND_SERIES,
    ES_SQL_ADD_SERIES,
    ES_SQL_COUNT_SERIES,
    ES_SQL_IS_JSON,
    /* Statements for the table row_checksum; NULL in a file without this
     * table. */
    ES_SQL_RUN_ROW,
    ES_SQL_SERIES_ROW,
    ES_SQL_EVENT_ROW,
    ES_SQL_CHECKSUM,
    ES_SQL_RESUME_CHECKSUMS,
    ES_N_SQL
};

/** A run that this writer has added or resumed. */
typedef struct es_written_run {
    char uuid[ES_UUID_SIZE]; /* for checksums */
    int64_t id, n_layer, n_head;
    int64_t last_step;  /* last step, including samples of the current
                           transaction */
    int64_t saved_step; /* last step that is stored in the file */
    bool has_ended;     /* true if the run's status is not "running" */
    bool pending;       /* true if the run was added since begin, so that a
                           rollback discards it */
} es_written_run;

typedef struct es_written_series {
    int64_t id;
    size_t run; /* index of the series' run */
    size_t n_values;
    uint32_t crc; /* result of es_checksum_of_series */
    bool pending;
} es_written_series;

/* Maximum wait in ms for a lock while the file is being closed. The wait is
   short, because a reader may keep the file locked for hours. */
#define ES_CLOSING_BUSY_MS 100

/** The state of the write-ahead log. */
typedef struct es_log {
    bool none;     /* true for the private database of a fragment, which only
                      this process can open and which has no log; the other
                      members are then zero */
    bool is_known; /* true once device and inode are set, after the first
                      commit */
    dev_t device;  /* device of the file FILE-wal at the first commit; 0 if the
                      file did not exist */
    ino_t inode;
    int n_frames;  /* number of frames after the last commit */
    int next;      /* number of frames at which the next checkpoint is due */
    uint32_t salt; /* salt of the log whose frames were checked */
    uint32_t n_checked; /* number of checked frames */
    bool settled;       /* true if all committed data is in the run file
                           itself */
    bool broken;        /* true if the log has lost frames that were
                           committed */
    bool stuck;         /* true if SQLite could not release one of its own
                           locks, so that the connection blocks itself */
    int64_t retry;      /* earliest time of the next attempt to empty the log,
                           in ms of a monotonic clock */
    int64_t pause;      /* current pause between two attempts to empty the log,
                           in ms */
} es_log;

struct es_writer {
    es_database database;
    es_log log;
    es_lock lock;
    es_esf_out *out; /* the fragment that is being written, or NULL; the runs,
                        series and events of a fragment are also in
                        `database` */
    sqlite3_stmt *statements[ES_N_SQL];
    es_written_run *runs;
    size_t n_runs;
    es_written_series *series; /* in ascending order of their ids */
    size_t n_series;
    bool ready;          /* completely open */
    bool in_transaction; /* true between begin and commit or rollback */
    bool spoilt; /* true if a call has failed since the transaction began, so
                    its commit will fail */
    bool fresh;  /* true if this writer created the file and has committed
                    nothing yet */
};

/* --- writer_log.c -------------------------------------------------------- */

/**
 * Replaces SQLite's automatic checkpoints by checkpoints that depend on the
 * number of frames in the log.
 */
es_status es_log_open(es_writer *writer) ES_MUST_USE;

/**
 * Begins a write transaction, in a fragment's private database as well. Sets
 * log.stuck if SQLite could not release one of its own locks. Returns ES_OK; a
 * status of es_database_status.
 */
es_status es_log_begin(es_writer *writer) ES_MUST_USE;

/**
 * Checks, within a write transaction, that the log is still long enough for all
 * committed frames. Must be called when a transaction begins, and before the
 * log grows, because growth would hide a truncation. Takes one system call.
 *
 * Returns ES_OK; ES_EIO if another program truncated or overwrote the log.
 * log.broken is then set, and nothing may be read from the log or copied out of
 * it any more.
 */
es_status es_log_check(es_writer *writer) ES_MUST_USE;

/**
 * Checks every frame of the log, then moves the frames that no reader needs
 * into the run file. Must be called outside a transaction. `mode` is
 * SQLITE_CHECKPOINT_PASSIVE or another mode of SQLite. Returns ES_OK,
 * ES_ELOCKED, ES_EIO.
 */
es_status es_log_checkpoint(es_writer *writer, int mode) ES_MUST_USE;

/** Makes a checkpoint if the log has enough frames. */
void es_log_after_commit(es_writer *writer);

/* --- writer.c ------------------------------------------------------------ */

/** Prepares the writer's statements. */
es_status es_writer_prepare(es_writer *writer) ES_MUST_USE;

/**
 * Begin and end the database work of a public function. es_writer_enter begins
 * a transaction unless one is open, and sets *own to true if it began one.
 * After it has returned ES_OK, the function must call es_writer_leave with the
 * status of its work. es_writer_leave ends the transaction if `own` is true,
 * and returns the status, or the failure of the commit.
 */
es_status es_writer_enter(es_writer *writer, bool *own) ES_MUST_USE;
es_status es_writer_leave(es_writer *writer, bool own,
                          es_status status) ES_MUST_USE;

/**
 * Adds a run exactly as `info` describes it, including its times and its
 * status.
 */
es_status es_writer_add_run(es_writer *writer, int64_t *run_id,
                            const es_run_info *info) ES_MUST_USE;

/** Resumes a run; `info` must have the run's numbers of layers and heads.
 *  Otherwise like es_writer_run, but ignores ENTROPY_RUN_CONFIG. */
es_status es_writer_resume_run(es_writer *writer, int64_t run_id,
                               const es_run_info *info,
                               int64_t step) ES_MUST_USE;

/** Deletes a run's data at `step` and above. */
es_status es_writer_cut_run(es_writer *writer, int64_t run_id,
                            int64_t step) ES_MUST_USE;

/**
 * Same as es_writer_end_run, but the run ended at the time `at`, which is NULL
 * if the run is running.
 */
es_status es_writer_set_end(es_writer *writer, int64_t run_id,
                            es_run_status status, const char *at) ES_MUST_USE;

/**
 * Adds a sample of a fragment to the private database that a reader fills from
 * the fragment. Only the offset of the sample's values in the fragment,
 * `place`, is stored.
 */
es_status es_writer_place(es_writer *writer, int64_t series_id, int64_t step,
                          int64_t place) ES_MUST_USE;

/** Creates a writer for a private database, the database that a reader of a
 *  fragment fills with the fragment's records. */
es_status es_writer_attach(es_writer **out,
                           const es_database *database) ES_MUST_USE;
void es_writer_detach(es_writer *writer);

/**
 * Deletes all rows of the private database that a reader fills from a fragment.
 * Must be called within a transaction.
 */
es_status es_writer_forget(es_writer *writer) ES_MUST_USE;

/** Finds the run with this uuid. Sets *run_id to 0 if there is none. */
es_status es_writer_find_run(es_writer *writer, int64_t *run_id,
                             int64_t *n_layer, int64_t *n_head,
                             const char *uuid) ES_MUST_USE;

/**
 * Finds a run by its id. If this writer has not added or resumed the run, sets
 * the error message and returns NULL.
 */
es_written_run *es_writer_known_run(es_writer *writer, int64_t run_id);

#endif
