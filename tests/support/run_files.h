/** Makes and checks run files for tests, in a folder that is removed when the
 *  test ends. */
#ifndef ES_TESTS_RUN_FILES_H
#define ES_TESTS_RUN_FILES_H

#include "store/reader.h"
#include "store/writer.h"
#include "tests/support/auto.h"

AUTO_OF(es_reader, es_reader_close)
AUTO_OF(es_cursor, es_cursor_close)

/** Setup and teardown functions for cmocka: make a new folder, whose path is
 *  *state, and remove it. */
int es_folder_make(void **state);
int es_folder_remove(void **state);

/** Path of the file run.db in the test's folder, which most tests use. */
extern char run_db[];

/** Returns the path of a file in the test's folder; borrowed, valid for the
 *  next seven calls. */
char *es_folder_file(void **state, const char *name);

/** Fails the test and prints the error message unless expr returns ES_OK. */
#define es_assert_ok(expr) es_assert_status(ES_OK, "", expr)

/** Fails the test unless expr returns `code` and the message contains
 *  `words`. */
#define es_assert_status(code, words, expr)                                    \
    es_assert_status_at(code, words, expr, #expr, __FILE__, __LINE__)

void es_assert_status_at(es_status code, const char *words, es_status status,
                         const char *expr, const char *file, int line);

/** Fails the test unless a (n) and b (n) are equal bit for bit. */
void es_assert_bits(const float *a, const float *b, size_t n);

bool es_file_exists(const char *path);

/** Returns true if the file `path` with `suffix` exists, for example "run.db"
 *  "-wal". */
bool es_file_exists_beside(const char *path, const char *suffix);

void es_file_write(const char *path, const void *bytes, size_t n);

/** Returns the n bytes of a file, which the caller frees. */
unsigned char *es_file_read(const char *path, size_t *n);

/** Returns the number of bytes that this process has read from files so far. */
long long es_bytes_read(void);

/** Runs SQL on a file with the program sqlite3, which does not use this
 *  project's code; returns its output, valid until the next call. */
const char *es_sqlite(const char *path, const char *sql);

/** Returns the description of a run with n_layer layers of n_head heads; all
 *  other members are unknown. */
es_run_info es_run_of(int64_t n_layer, int64_t n_head);

/** Opens a reader of the file; fails the test if that fails. */
es_reader *es_open_reader(const char *path);
es_writer *es_open_writer(const char *path); /* with ES_FAST */

/** Opens a cursor over all samples of a series. */
es_cursor *es_open_cursor(es_reader *reader, const es_series *series);

/** Opens the file, and finds a training series of its first run. */
es_reader *es_open_series(const char *path, const char *name, es_series *out);

/** Return a property that the reader reports about its file or about a run;
 *  fail the test if the call fails. */
bool es_is_written(const es_reader *reader);
int64_t es_planned_steps(es_reader *reader, size_t run);

/** Returns value i of a test sample: a number other than 0 that is sometimes
 *  NaN or missing. */
float es_value_of(int64_t series_id, int64_t step, size_t i);

/** Writes a sample with the values of es_value_of. */
es_status es_write_values(es_writer *writer, int64_t series_id, int64_t step,
                          size_t n) ES_MUST_USE;

/** Fails the test unless values (n) are the values of es_value_of for this
 *  sample. */
void es_assert_values(const float *values, int64_t series_id, int64_t step,
                      size_t n);

/**
 * Writes a finished run with L = 3 and H = 2 and an event in the middle. The
 * series "entropy" (head), "alpha" (layer) and "loss" (run) have n_steps
 * samples at steps 0, 2, 4, ...; "loss" also has a sample in the eval phase at
 * every tenth of these steps.
 */
void es_write_run(const char *path, const char *name, int64_t n_steps);

/** Converts a file of schema 2 to schema 1, without checksums. */
void es_make_schema_1(const char *path);

#endif
