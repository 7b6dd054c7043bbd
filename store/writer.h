/**
 * Writes a run file. Only the recorder process, import and merge use a writer.
 *
 * A file has at most one writer, which from open to close holds a lock on the
 * file RUN.db-lock, which contains its pid. While the file is open, it is in
 * WAL mode with synchronous=FULL; a successful close leaves one plain file in
 * journal_mode=DELETE. At no time, not even if the writer is killed, does an
 * incomplete file or a rollback journal exist.
 *
 * A writer belongs to one thread at a time and to the process that opened it:
 * in a forked child every call returns ES_EFORK, and close and abandon free the
 * child's memory without touching the file.
 */
#ifndef ES_WRITER_H
#define ES_WRITER_H

#include "analyzer/base/status.h"
#include "store/run.h"
#include <stdbool.h>
#include <sys/types.h>

typedef struct es_writer es_writer;

typedef enum es_durability {
    ES_DURABLE, /* synchronous=FULL */
    ES_FAST /* synchronous=NORMAL, for benchmarks and for files that get their
               names only when they are complete */
} es_durability;

/**
 * Opens `path` for writing. Creates the file if it does not exist.
 *
 * A path that ends in ".esf" is a fragment (esf.h), which is created by the
 * first commit. In a fragment, es_writer_run must be the first call of a
 * transaction, all data of a run must be written before the next run, and a
 * transaction has at most 16 MiB. A writer on another host counts as alive for
 * half a minute after its last heartbeat (ES_ELOCKED).
 *
 * A symbolic link is refused. A new file appears completely, but contains no
 * runs yet. A file of schema 1 keeps its schema: data added to it has no
 * checksums.
 *
 * Returns ES_OK; ES_ELOCKED, with the pid of the other writer in the message;
 * ES_EIO; ES_EFORMAT (not a run file; the file is left untouched); ES_EVERSION;
 * ES_ENOMEM.
 */
es_status es_writer_open(es_writer **out, const char *path,
                         es_durability durability) ES_MUST_USE;

/**
 * Environment variable that may contain a JSON object. Its members are added to
 * a run's configuration unless the configuration already has them; a sweep uses
 * the variable to describe its runs. A value that is not a JSON object is
 * ignored.
 */
#define ES_RUN_CONFIG_VARIABLE "ENTROPY_RUN_CONFIG"

/**
 * Adds a run, or resumes the run with the uuid info->uuid. A resumed run must
 * have the same L and H; its samples and events at steps >= resume_step are
 * deleted, and its status becomes running again.
 *
 *   run_id       output: id of the run
 *   info         status, ended_at and last_step are ignored; started_at NULL
 *                means now; name NULL means "run"
 *   resume_step  first step that will be written again; ignored for a new run
 *
 * A resumed run keeps its name, its start time, and numbers such as d_model and
 * seed; config, program and host replace the old values unless they are NULL.
 *
 * Returns ES_OK; ES_EFORMAT if the resumed run has another shape; ES_EARGUMENT
 * if numbers are out of bounds or config is not JSON; ES_EIO, ES_ELOCKED.
 */
es_status es_writer_run(es_writer *writer, int64_t *run_id,
                        const es_run_info *info,
                        int64_t resume_step) ES_MUST_USE;

/**
 * Finds or creates a series of a run that es_writer_run returned.
 *
 *   unit  NULL means the unit of es_series_standard; ignored if the series
 *         exists
 *
 * Returns ES_OK; ES_EFORMAT if the series exists with another shape;
 * ES_EARGUMENT; ES_EIO.
 */
es_status es_writer_series(es_writer *writer, int64_t *series_id,
                           int64_t run_id, const char *name, es_shape shape,
                           es_phase phase, const char *unit) ES_MUST_USE;

/**
 * Begin, commit and roll back a transaction. Everything written between begin
 * and commit is stored together or not at all. A commit that fails, or that
 * follows a failed write, rolls back. A rollback also discards the runs and
 * series that were created since begin, together with their ids. Without begin,
 * each call is a separate transaction.
 *
 * Returns ES_OK, ES_EARGUMENT (begin twice, commit without begin), ES_EIO,
 * ES_ELOCKED.
 */
es_status es_writer_begin(es_writer *writer) ES_MUST_USE;
es_status es_writer_commit(es_writer *writer) ES_MUST_USE;
void es_writer_rollback(es_writer *writer);

/**
 * Writes one sample of n float32 values, where n must be the series' number of
 * values. The values are stored bit for bit. A second sample of the same step
 * replaces the first.
 *
 *   step  0..ES_MAX_STEP
 *
 * Returns ES_OK, ES_EARGUMENT if an argument is invalid, or ES_EIO. After
 * ES_EARGUMENT nothing is changed, and the transaction can continue.
 */
es_status es_writer_sample(es_writer *writer, int64_t series_id, int64_t step,
                           const float *values, size_t n) ES_MUST_USE;

/** Adds an event. Does nothing if the run already has an event with the same
 *  dedupe key. Returns ES_OK, ES_EARGUMENT, ES_EIO. */
es_status es_writer_event(es_writer *writer, int64_t run_id,
                          const es_event *event) ES_MUST_USE;

/**
 * Sets the run's status. Unless the status is running, also sets ended_at to
 * the current time.
 */
es_status es_writer_end_run(es_writer *writer, int64_t run_id,
                            es_run_status status) ES_MUST_USE;

/**
 * Checks that the path still names the file that is being written. Returns
 * ES_EIO if the file was removed, moved or replaced; writing then continues in
 * the old file. Takes two system calls.
 */
es_status es_writer_check_place(const es_writer *writer) ES_MUST_USE;

/**
 * Check the write-ahead log, for programs that write for hours while readers
 * are active.
 *
 * es_writer_log_is_broken returns true if another program truncated or
 * overwrote the write-ahead log. Everything that was committed after
 * es_writer_is_settled last returned true is then lost. Every further call
 * fails, and es_writer_close or es_writer_abandon leaves the run file in the
 * state of that time. The check reads every frame of the log, so it should be
 * called only after a failure. It changes es_message only if it returns true.
 *
 * es_writer_is_stuck returns true if SQLite could not release one of its own
 * locks, so that the connection blocks itself and every call fails with
 * ES_ELOCKED. Nothing is lost; es_writer_abandon followed by es_writer_open
 * ends this state.
 *
 * es_writer_log_is_away returns true if the log was removed or renamed, or if
 * its name now belongs to another file. es_writer_settle or es_writer_close can
 * still move the log's contents into the run file. Takes two system calls.
 */
bool es_writer_log_is_broken(es_writer *writer);
bool es_writer_is_stuck(const es_writer *writer);
bool es_writer_log_is_away(const es_writer *writer);
int64_t es_writer_log_bytes(const es_writer *writer);

/**
 * Returns the pid of another process that is reading the file at this moment.
 * Returns 0 if no process is reading, or if /proc/locks does not list it.
 */
pid_t es_writer_log_reader(const es_writer *writer);

/** Returns true if all committed data is in the run file itself, so that
 *  nothing is only in the write-ahead log. */
bool es_writer_is_settled(const es_writer *writer);

/**
 * Moves the contents of the write-ahead log into the run file. Returns ES_OK;
 * ES_ELOCKED if a reader prevents it; ES_EIO.
 */
es_status es_writer_settle(es_writer *writer) ES_MUST_USE;

/**
 * Empties a write-ahead log that has grown beyond 8 MiB because some reader was
 * always using it. Must be called between transactions. Waits for readers to
 * finish, at most 500 times 1 ms and only while has_time returns true; later
 * calls retry at increasing intervals. If a reader never finishes, the log
 * cannot be emptied.
 */
void es_writer_tend_log(es_writer *writer, bool (*has_time)(void *user),
                        void *user);

/**
 * Appends a heartbeat to an idle fragment, as a sign that its writer is alive.
 * Must be called between transactions, at least every es_writer_beat_ms. For a
 * run file, es_writer_beat_ms returns -1 and es_writer_beat does nothing.
 */
void es_writer_beat(es_writer *writer);
int64_t es_writer_beat_ms(const es_writer *writer);

/**
 * Commits, checkpoints, switches to journal_mode=DELETE, releases the lock and
 * frees the writer, also on failure. Fails if es_writer_check_place fails. Does
 * not fail if readers keep the file in WAL mode. `writer` may be NULL.
 */
es_status es_writer_close(es_writer *writer) ES_MUST_USE;

/**
 * Ends writing after an error: rolls back, closes the file and frees the
 * writer. Removes the file if this writer created it and committed nothing.
 * Does not change es_message. `writer` may be NULL.
 */
void es_writer_abandon(es_writer *writer);

#endif
