/** What the tests of the recorder share: a folder, values that differ
 *  from all others, and a look into the file that came out. */
#ifndef ES_TESTS_RECORDING_H
#define ES_TESTS_RECORDING_H

#include "hooks/recorder/recorder_internal.h"
#include "store/reader.h"
#include "tests/support/await.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LAYERS = 5, HEADS = 7, CELLS = LAYERS * HEADS };

/** Before each test: one that hangs ends the program after five minutes. */
int recording_begin(void **state);

/** After each test: kills the processes that it left behind by failing. The
 *  next one would wait for them. */
int recording_end(void **state);

/** A folder of its own for this test program, and $ENTROPY_RECORDER. Returns
 *  0 on success, for cmocka's group setup; the other removes the folder. */
int recording_setup(void **state);
int recording_teardown(void **state);

/** folder/name; one of a few static buffers. */
const char *recording_path(const char *name);

/** Removes a run file and everything beside it. */
void recording_remove(const char *path);

/** A run of LAYERS x HEADS; the caller may change it. */
es_run_info recording_run(void);

/** Options to record that run into `path`, with a small ring and the patience
 * of es_await. */
es_recorder_options recording_options(const char *path, const es_run_info *run);

/** es_recorder_open with them; fails the test if it fails. */
es_recorder *recording_open(const char *path);

/** The same with other options; what the recorder says on stderr is kept for
 *  recording_has_said. One at a time. */
es_recorder *recording_open_heard(const es_recorder_options *options);
bool recording_has_said(const char *words);

/** Values of one sample: other bits for each series, step and index, with
 *  NaNs, infinities, missing values and zeros of both signs among them. */
void recording_fill(float *values, size_t n, uint32_t series, int64_t step);

/** Declares entropy (0), beta (1), loss (2) and eval entropy (3). */
void recording_declare(es_recorder *recorder, int series[4]);

/** Number of values of one sample of recording_declare's series. */
size_t recording_values(int series);

/** Pushes the sample of `step` to one of them. */
es_status recording_push(es_recorder *recorder, const int series[4], int which,
                         int64_t step);

/**
 * Fails the test unless the file holds, for one of recording_declare's
 * series, samples with the right bits at the steps first, first + 1, ...
 *
 * Returns how many, 0 if there is no such series.
 */
int64_t recording_check(const char *path, int which, int64_t first);

/** Fails the test unless SQLite finds the file sound. */
void recording_check_integrity(const char *path);

/** Frames that are committed, and waiting until there are n. */
uint64_t recording_committed(const es_recorder *recorder);
void recording_await_committed(const es_recorder *recorder, uint64_t n);

/** Waits until the recorder has taken all that is in the ring, and sleeps until
 *  there is more. */
void recording_await_rest(const es_recorder *recorder);

/** Stops the recorder and waits until it stands still. */
void recording_stop(const es_recorder *recorder);

/** Status of the file's first run. */
es_run_status recording_status(const char *path);

/** Whether a writer holds the file. */
bool recording_is_written(const char *path);

/** Event of this kind of the file's first run: copies its message and data
 *  (256 bytes each, may be NULL); false if there is none. */
bool recording_event(const char *path, const char *kind, char *message,
                     char *data);

/** All processes that this one still has to reap, children of dead children
 *  included; fails the test unless each ended by itself with code 0 or was
 *  killed. Returns their number. */
int recording_reap_all(void);

#endif
