/** Run files for tests, in a folder that goes away. */
#ifndef ES_TESTS_RUN_FILES_H
#define ES_TESTS_RUN_FILES_H

#include "store/reader.h"
#include "store/writer.h"
#include "tests/support/auto.h"

AUTO_OF(es_reader, es_reader_close)
AUTO_OF(es_cursor, es_cursor_close)

/** cmocka's setup and teardown: *state is a new folder's path. */
int es_folder_make(void **state);
int es_folder_remove(void **state);

/** folder/run.db: the file that most tests are about. */
extern char run_db[];

/** folder/name; borrowed, valid for the next seven calls. */
char *es_folder_file(void **state, const char *name);

/** Fails the test, with the message, unless expr gives ES_OK. */
#define es_assert_ok(expr) es_assert_status(ES_OK, "", expr)

/** Fails the test unless expr gives `code` and the message has `words`. */
#define es_assert_status(code, words, expr)                                    \
    es_assert_status_at(code, words, expr, #expr, __FILE__, __LINE__)

void es_assert_status_at(es_status code, const char *words, es_status status,
                         const char *expr, const char *file, int line);

/** Fails the test unless a (n) and b (n) are the same bit by bit. */
void es_assert_bits(const float *a, const float *b, size_t n);

bool es_file_exists(const char *path);

/** `path` followed by `suffix`: "run.db" "-wal". */
bool es_file_exists_beside(const char *path, const char *suffix);

void es_file_write(const char *path, const void *bytes, size_t n);

/** malloc'd; *n its size. */
unsigned char *es_file_read(const char *path, size_t *n);

/** Bytes that this process has read from files until now. */
long long es_bytes_read(void);

/** Runs SQL on a file with the program sqlite3, outside of our own code;
 *  returns what it printed, valid until the next call. */
const char *es_sqlite(const char *path, const char *sql);

/** A run of L = 3 layers of H = 2 heads that knows nothing else. */
es_run_info es_run_of(int64_t n_layer, int64_t n_head);

/** The file opened, or the test fails. */
es_reader *es_open_reader(const char *path);
es_writer *es_open_writer(const char *path); /* ES_FAST */

/** A cursor over all samples. */
es_cursor *es_open_cursor(es_reader *reader, const es_series *series);

/** The same, and a series of the first run's training. */
es_reader *es_open_series(const char *path, const char *name, es_series *out);

/** What the reader says of its file and of a run, or the test fails. */
bool es_is_written(const es_reader *reader);
int64_t es_planned_steps(es_reader *reader, size_t run);

/** Value i of a sample: never zero, and NaN now and then. */
float es_value_of(int64_t series_id, int64_t step, size_t i);

/** Writes that sample. */
es_status es_write_values(es_writer *writer, int64_t series_id, int64_t step,
                          size_t n) ES_MUST_USE;

/** Fails the test unless values (n) is that sample. */
void es_assert_values(const float *values, int64_t series_id, int64_t step,
                      size_t n);

/**
 * A finished run of L = 3, H = 2 with n_steps samples at 0, 2, 4, ... of each
 * of "entropy" (head), "alpha" (layer), "loss" (run), and of eval "loss" at
 * every tenth of them; an event in the middle.
 */
void es_write_run(const char *path, const char *name, int64_t n_steps);

/** Makes a file of schema 1, without checksums, of one of schema 2. */
void es_make_schema_1(const char *path);

#endif
