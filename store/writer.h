/**
 * Writes a run file. Only the recorder process, import and merge use a writer.
 *
 * One writer per file: a lock file next to it (RUN.db-lock, containing the pid)
 * is held from open to close. WAL and synchronous=FULL while open; a clean
 * close leaves one plain file in journal_mode=DELETE. At no moment, not even if
 * the writer is killed, is there a half-made file or a rollback journal.
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
    ES_FAST     /* synchronous=NORMAL: for measurements, and for files that are
                   renamed into place only when complete */
} es_durability;

/**
 * Opens `path` for writing; creates it if it does not exist.
 *
 * A path that ends in ".esf" is a fragment (esf.h), which is created by the
 * first commit. In a fragment a run begins a transaction; its series, samples
 * and events are written before the next run begins, and a transaction has at
 * most 16 MiB. A writer on another host counts as alive for half a minute after
 * its last heartbeat (ES_ELOCKED).
 *
 * A symbolic link is refused. A new file appears whole, with no run in it. A
 * file of schema 1 stays one: data added to it has no checksums either.
 *
 * ES_OK; ES_ELOCKED (names the pid of the other writer); ES_EIO; ES_EFORMAT
 * (not a run file: it is left untouched); ES_EVERSION; ES_ENOMEM.
 */
es_status es_writer_open(es_writer **out, const char *path,
                         es_durability durability) ES_MUST_USE;

/**
 * Environment variable with a JSON object. Its members are added to a run's
 * configuration unless they are there already; a sweep describes its runs with
 * it. A value that is not a JSON object is ignored.
 */
#define ES_RUN_CONFIG_VARIABLE "ENTROPY_RUN_CONFIG"

/**
 * Adds a run, or resumes the run with info->uuid. In a resumed run L and H must
 * be the same; samples and events at steps >= resume_step are deleted, and the
 * status is running again.
 *
 *   run_id       written
 *   info         status, ended_at and last_step are ignored; started_at NULL
 *                means now; name NULL means "run"
 *   resume_step  first step that will be written again; ignored for a new run
 *
 * A resumed run keeps its name, its start and its other numbers; config,
 * program and host replace the old ones unless NULL.
 *
 * ES_OK; ES_EFORMAT (shape differs); ES_EARGUMENT (bounds, config not JSON);
 * ES_EIO, ES_ELOCKED.
 */
es_status es_writer_run(es_writer *writer, int64_t *run_id,
                        const es_run_info *info,
                        int64_t resume_step) ES_MUST_USE;

/**
 * Finds or creates a series of a run that es_writer_run returned.
 *
 *   unit  NULL: the usual unit (es_series_standard); ignored if the series
 *         exists
 *
 * ES_OK; ES_EFORMAT if it exists with another shape; ES_EARGUMENT; ES_EIO.
 */
es_status es_writer_series(es_writer *writer, int64_t *series_id,
                           int64_t run_id, const char *name, es_shape shape,
                           es_phase phase, const char *unit) ES_MUST_USE;

/**
 * Everything written between begin and commit is stored together or not at all:
 * a commit that fails, or that follows a failed write, rolls back. A rollback
 * also discards the runs and series created since begin, with their ids.
 * Without begin, each call is a separate transaction.
 *
 * ES_OK, ES_EARGUMENT (begin twice, commit without begin), ES_EIO, ES_ELOCKED.
 */
es_status es_writer_begin(es_writer *writer) ES_MUST_USE;
es_status es_writer_commit(es_writer *writer) ES_MUST_USE;
void es_writer_rollback(es_writer *writer);

/**
 * Writes one sample: n float32, exactly the series' number of values, kept bit
 * by bit. A second sample of the same step replaces the first.
 *
 *   step  0..ES_MAX_STEP
 *
 * ES_OK; ES_EARGUMENT: nothing is changed, the transaction continues; ES_EIO.
 */
es_status es_writer_sample(es_writer *writer, int64_t series_id, int64_t step,
                           const float *values, size_t n) ES_MUST_USE;

/** Adds an event. It is ignored if the run already has an event with its
 *  dedupe key. ES_OK, ES_EARGUMENT, ES_EIO. */
es_status es_writer_event(es_writer *writer, int64_t run_id,
                          const es_event *event) ES_MUST_USE;

/** Sets the status and, unless it is running, ended_at. */
es_status es_writer_end_run(es_writer *writer, int64_t run_id,
                            es_run_status status) ES_MUST_USE;

/**
 * ES_OK; ES_EIO if the path no longer names the file that is being written,
 * because it was removed, moved or replaced. Writing continues in the old file.
 * Two system calls.
 */
es_status es_writer_check_place(const es_writer *writer) ES_MUST_USE;

/**
 * State of the write-ahead log, for programs that write for hours alongside
 * readers.
 *
 * is_broken: another program truncated or overwrote the log. Everything
 * committed since es_writer_is_settled was last true is lost; every call fails,
 * and close or abandon leave the run file as it was then. Reads every frame of
 * the log: call it after a failure. Keeps es_message unless it returns true.
 *
 * is_away: the log's name is gone, or names another file. es_writer_settle or
 * close can still move the log's contents into the run file. Two system calls.
 */
bool es_writer_log_is_broken(es_writer *writer);
bool es_writer_log_is_away(const es_writer *writer);
int64_t es_writer_log_bytes(const es_writer *writer);

/** Returns a process of another program that is reading the file at this
 *  moment; 0 if there is none, or /proc/locks does not show it. */
pid_t es_writer_log_reader(const es_writer *writer);

/** Returns true if everything committed is in the run file itself. */
bool es_writer_is_settled(const es_writer *writer);

/** Moves the log into the run file. ES_OK; ES_ELOCKED: a reader prevents it;
 *  ES_EIO. */
es_status es_writer_settle(es_writer *writer) ES_MUST_USE;

/**
 * Empties a log that has outgrown 8 MiB because there always is a reader; call
 * it between transactions. Waits for readers to finish, at most 500 naps of 1
 * ms and only while has_time returns true, and retries later, at increasing
 * intervals. A reader that never finishes cannot be forced.
 */
void es_writer_tend_log(es_writer *writer, bool (*has_time)(void *user),
                        void *user);

/**
 * Appends a heartbeat to an idle fragment, as a sign that its writer is alive.
 * Call it between transactions, at least every es_writer_beat_ms. For a run
 * file, es_writer_beat_ms is -1 and es_writer_beat does nothing.
 */
void es_writer_beat(es_writer *writer);
int64_t es_writer_beat_ms(const es_writer *writer);

/**
 * Commits, checkpoints, switches to journal_mode=DELETE, releases the lock and
 * frees the writer, even if it fails. Fails as es_writer_check_place does. If
 * readers hold the file so that it stays in WAL mode, that is not a failure.
 * NULL is fine.
 */
es_status es_writer_close(es_writer *writer) ES_MUST_USE;

/** For error paths: rolls back, closes, frees; removes the file if this
 *  writer created it and committed nothing. Keeps es_message. NULL is fine. */
void es_writer_abandon(es_writer *writer);

#endif
