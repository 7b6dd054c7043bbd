/**
 * Helper functions for the tests of the recorder: a folder for run files,
 * sample values that are all different, and functions that inspect the
 * resulting file.
 */
#ifndef ES_TESTS_RECORDING_H
#define ES_TESTS_RECORDING_H

#include "hooks/recorder/recorder_internal.h"
#include "store/reader.h"
#include "tests/support/await.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LAYERS = 5, HEADS = 7, CELLS = LAYERS * HEADS };

/**
 * Called before each test. A test that hangs ends the program after five
 * minutes.
 */
int recording_begin(void **state);

/**
 * Called after each test. Kills the processes that a failed test left behind,
 * because the next test would wait for them.
 */
int recording_end(void **state);

/**
 * Setup and teardown functions of a cmocka group. recording_setup creates a
 * folder for this test program, sets $ENTROPY_RECORDER, and returns 0 on
 * success; recording_teardown removes the folder.
 */
int recording_setup(void **state);
int recording_teardown(void **state);

/** Returns the path of file `name` in the folder, in one of a few static
 *  buffers. */
const char *recording_path(const char *name);

/** Removes a run file, its write-ahead log and the log's index (-shm). */
void recording_remove(const char *path);

/** Returns a description of a run with LAYERS layers of HEADS heads. The caller
 *  may change the description. */
es_run_info recording_run(void);

/**
 * Returns options for recording `run` into `path`, with a small ring and the
 * timeout of es_await.
 */
es_recorder_options recording_options(const char *path, const es_run_info *run);

/** Opens a recorder with recording_options for `path` and recording_run; fails
 *  the test on an error. */
es_recorder *recording_open(const char *path);

/**
 * Same as recording_open, but with the given options. The recorder's standard
 * error is stored for recording_has_said, so only one such recorder can be open
 * at a time.
 */
es_recorder *recording_open_heard(const es_recorder_options *options);
bool recording_has_said(const char *words);

/**
 * Fills in the values of one sample, with different bits for each series, step
 * and index, including NaNs, infinities, missing values and zeros of both
 * signs.
 */
void recording_fill(float *values, size_t n, uint32_t series, int64_t step);

/** Declares four series: entropy (0), beta (1), loss (2) and eval entropy
 *  (3). */
void recording_declare(es_recorder *recorder, int series[4]);

/** Returns the number of values in each sample of a series, which is given by
 *  its index (0 to 3) in the list of recording_declare. */
size_t recording_values(int series);

/** Pushes the sample of `step` to the series with index `which`. */
es_status recording_push(es_recorder *recorder, const int series[4], int which,
                         int64_t step);

/**
 * Fails the test unless the file contains samples with the right bits at the
 * steps first, first + 1, ... of series `which`.
 *
 * Returns the number of samples; 0 if the series does not exist.
 */
int64_t recording_check(const char *path, int which, int64_t first);

/** Fails the test unless SQLite's integrity check succeeds. */
void recording_check_integrity(const char *path);

/**
 * recording_committed returns the number of committed frames;
 * recording_await_committed waits until n frames are committed.
 */
uint64_t recording_committed(const es_recorder *recorder);
void recording_await_committed(const es_recorder *recorder, uint64_t n);

/**
 * Waits until the recorder has read all frames in the ring and sleeps until
 * more arrive.
 */
void recording_await_rest(const es_recorder *recorder);

/** Stops the recorder with SIGSTOP and waits until it has stopped. */
void recording_stop(const es_recorder *recorder);

/** Returns the status of the file's first run. */
es_run_status recording_status(const char *path);

/** Returns true if a writer has the file open. */
bool recording_is_written(const char *path);

/**
 * Finds an event of this kind in the file's first run and copies its message
 * and data (256 bytes each, may be NULL); returns false if there is no such
 * event.
 */
bool recording_event(const char *path, const char *kind, char *message,
                     char *data);

/**
 * Reaps all children of this process, including orphaned grandchildren. Fails
 * the test unless each of them exited with code 0 or was killed. Returns their
 * number.
 */
int recording_reap_all(void);

#endif
