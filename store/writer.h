/**
 * Writing a run file. Only the recorder process, import and merge do.
 *
 * One writer per file: a lock file beside it (RUN.db-lock, holding the pid)
 * is held from open to close. WAL and synchronous=FULL while open; a clean
 * close leaves one plain file in journal_mode=DELETE. At no moment, not even
 * if the writer is killed, is there a half-made file or a rollback journal.
 *
 * A writer belongs to one thread at a time and to the process that opened it:
 * in a forked child every call returns ES_EFORK, and close and abandon free
 * the child's memory without touching the file.
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
    ES_FAST     /* synchronous=NORMAL: for measuring, and for files that are
                   renamed into place only when complete */
} es_durability;

/**
 * Opens `path` for writing, creating it if absent; a path that ends in ".esf"
 * is a fragment (esf.h), made with the first commit: there a run begins a
 * transaction, its series, samples and events are written before the next one
 * begins, and a transaction has at most 16 MiB. A process of another host that
 * was alive within half a minute is a writer as well (ES_ELOCKED).
 *
 * A symbolic link is refused. A new file appears whole, with no run in it.
 * A file of schema 1 stays one: what is added to it has no checksums either.
 *
 * ES_OK; ES_ELOCKED (names the pid of the other writer); ES_EIO; ES_EFORMAT
 * (not a run file: it is left untouched); ES_EVERSION; ES_ENOMEM.
 */
es_status es_writer_open(es_writer **out, const char *path,
                         es_durability durability) ES_MUST_USE;

/** A JSON object in the environment, whose members a configuration gets where
 *  it lacks them: what a sweep says of its runs. What is no such is ignored. */
#define ES_RUN_CONFIG_VARIABLE "ENTROPY_RUN_CONFIG"

/**
 * Adds a run, or resumes the one with info->uuid: then L and H must be the
 * same, samples and events at steps >= resume_step are deleted, and its
 * status is running again.
 *
 *   run_id       written
 *   info         status, ended_at and last_step are ignored; started_at NULL
 *                is now; name NULL is "run"
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
 * Finds or makes a series of a run that es_writer_run gave.
 *
 *   unit  NULL: the usual one (es_series_standard); ignored if it exists
 *
 * ES_OK; ES_EFORMAT if it exists with another shape; ES_EARGUMENT; ES_EIO.
 */
es_status es_writer_series(es_writer *writer, int64_t *series_id,
                           int64_t run_id, const char *name, es_shape shape,
                           es_phase phase, const char *unit) ES_MUST_USE;

/**
 * What is written between begin and commit lands together or not at all: a
 * commit that fails, or that follows a failed write, rolls back. Runs and
 * series made since begin are gone after a rollback, their ids with them.
 * Without begin each call is a transaction of its own.
 *
 * ES_OK, ES_EARGUMENT (begin twice, commit without begin), ES_EIO, ES_ELOCKED.
 */
es_status es_writer_begin(es_writer *writer) ES_MUST_USE;
es_status es_writer_commit(es_writer *writer) ES_MUST_USE;
void es_writer_rollback(es_writer *writer);

/**
 * One sample: n float32, exactly the series' number of values, kept bit by
 * bit. A second sample of the same step replaces the first.
 *
 *   step  0..ES_MAX_STEP
 *
 * ES_OK; ES_EARGUMENT: nothing is changed, the transaction goes on; ES_EIO.
 */
es_status es_writer_sample(es_writer *writer, int64_t series_id, int64_t step,
                           const float *values, size_t n) ES_MUST_USE;

/** Adds an event. One whose dedupe key the run has already is ignored.
 *  ES_OK, ES_EARGUMENT, ES_EIO. */
es_status es_writer_event(es_writer *writer, int64_t run_id,
                          const es_event *event) ES_MUST_USE;

/** Sets status and, unless it is running, ended_at. */
es_status es_writer_end_run(es_writer *writer, int64_t run_id,
                            es_run_status status) ES_MUST_USE;

/**
 * ES_OK; ES_EIO if the path no longer names the file that is written: somebody
 * removed it, moved it, or put another in its place. Writing goes on into the
 * old one. Two system calls.
 */
es_status es_writer_check_place(const es_writer *writer) ES_MUST_USE;

/**
 * The write-ahead log, for whoever writes for hours beside readers.
 *
 * is_broken: another program truncated or overwrote it. What was committed
 * since es_writer_is_settled was last true is lost; every call fails, and
 * close or abandon leave the run file as it was then. Looks at each frame of
 * the log: to be called after a failure. Keeps es_message unless it is true.
 *
 * is_away: its name is gone, or is another file's. What is in it can still be
 * moved into the run file, by es_writer_settle or close. Two system calls.
 */
bool es_writer_log_is_broken(es_writer *writer);
bool es_writer_log_is_away(const es_writer *writer);
int64_t es_writer_log_bytes(const es_writer *writer);

/** A process of another program that is reading the file at this moment; 0:
 * none is, or /proc/locks does not say. */
pid_t es_writer_log_reader(const es_writer *writer);

/** Whether all that was committed is in the run file itself. */
bool es_writer_is_settled(const es_writer *writer);

/** Moves the log into the run file. ES_OK; ES_ELOCKED: a reader is in the way;
 *  ES_EIO. */
es_status es_writer_settle(es_writer *writer) ES_MUST_USE;

/**
 * Empties a log that has outgrown 8 MiB because there always is a reader: to
 * be called between transactions. Waits for the readers to move on, 500 naps
 * of 1 ms at most and only while has_time says so, and tries again later, at
 * widening intervals. A reader that stays cannot be forced.
 */
void es_writer_tend_log(es_writer *writer, bool (*has_time)(void *user),
                        void *user);

/**
 * A fragment that has nothing to write says that its writer lives: to be called
 * between transactions, at least each es_writer_beat_ms. That is -1 for a run
 * file, where es_writer_beat does nothing.
 */
void es_writer_beat(es_writer *writer);
int64_t es_writer_beat_ms(const es_writer *writer);

/**
 * Commits, checkpoints, switches to journal_mode=DELETE, releases the lock,
 * frees the writer: also when it fails, and as es_writer_check_place does. If
 * readers hold the file so that it stays in WAL mode that is no failure. NULL
 * is fine.
 */
es_status es_writer_close(es_writer *writer) ES_MUST_USE;

/** For error paths: rolls back, closes, frees; removes the file if this writer
 *  made it and committed nothing. Keeps es_message. NULL is fine. */
void es_writer_abandon(es_writer *writer);

#endif
