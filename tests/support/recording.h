/**
 * Shared by the tests of the recorder: a folder, values that are all different,
 * and functions that inspect the resulting file.
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
 * Makes a separate folder for this test program and sets $ENTROPY_RECORDER; for
 * cmocka's group setup, returns 0 on success. The second function removes the
 * folder.
 */
int recording_setup(void **state);
int recording_teardown(void **state);

/** Returns folder/name, in one of a few static buffers. */
const char *recording_path(const char *name);

/** Removes a run file and its companions. */
void recording_remove(const char *path);

/** Returns a run of LAYERS x HEADS, which the caller may change. */
es_run_info recording_run(void);

/**
 * Returns options to record that run into `path`, with a small ring and the
 * patience of es_await.
 */
es_recorder_options recording_options(const char *path, const es_run_info *run);

/** Calls es_recorder_open with these options; fails the test if it fails. */
es_recorder *recording_open(const char *path);

/**
 * Does the same with other options; the recorder's standard error is kept for
 * recording_has_said. Only one recording at a time.
 */
es_recorder *recording_open_heard(const es_recorder_options *options);
bool recording_has_said(const char *words);

/**
 * Fills in the values of one sample, with different bits for each series, step
 * and index, including NaNs, infinities, missing values and zeros of both
 * signs.
 */
void recording_fill(float *values, size_t n, uint32_t series, int64_t step);

/** Declares the series entropy (0), beta (1), loss (2) and eval entropy (3). */
void recording_declare(es_recorder *recorder, int series[4]);

/** Returns the number of values per sample of one of these series. */
size_t recording_values(int series);

/** Pushes the sample of `step` to one of these series. */
es_status recording_push(es_recorder *recorder, const int series[4], int which,
                         int64_t step);

/**
 * Fails the test unless the file contains, for one of these series, samples
 * with the right bits at the steps first, first + 1, ...
 *
 * Returns their number, 0 if there is no such series.
 */
int64_t recording_check(const char *path, int which, int64_t first);

/** Fails the test unless SQLite's integrity check succeeds. */
void recording_check_integrity(const char *path);

/**
 * The first returns the number of committed frames, the second waits until
 * there are n.
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

/** Returns true if a writer holds the file. */
bool recording_is_written(const char *path);

/**
 * Finds an event of this kind in the file's first run and copies its message
 * and data (256 bytes each, may be NULL); returns false if there is none.
 */
bool recording_event(const char *path, const char *kind, char *message,
                     char *data);

/**
 * Reaps all processes that this one still has to reap, including children of
 * dead children. Fails the test unless each exited with code 0 or was killed.
 * Returns their number.
 */
int recording_reap_all(void);

#endif
