/**
 * Reads a run file, whether it is finished, is being written, or was left by a
 * crash.
 *
 * Every file is untrusted. A reader writes, creates and memory-maps nothing:
 * the folder of the file does not change, and if another program truncates the
 * file or its companions, the call returns an error. A reader belongs to one
 * thread at a time, and to the process that opened it: in a forked child every
 * function except closing returns ES_EFORK.
 *
 * Structures that a call fills in begin with their size: the caller sets it,
 * and the call changes it to the number of bytes written. In C and C++ a macro
 * with the name of the call sets the size; bindings for other languages must
 * set it themselves.
 *
 * Names and other strings are returned as they are in the file, truncated at
 * the first NUL byte. A program that prints them must escape control characters
 * and invalid UTF-8.
 */
#ifndef ES_READER_H
#define ES_READER_H

#include "analyzer/base/status.h"
#include "store/run.h"
#include <stdbool.h>

static inline es_run_info *es_run_info_sized(es_run_info *out)
{
    out->size = sizeof *out;
    return out;
}

typedef struct es_reader es_reader;
typedef struct es_cursor es_cursor;

/**
 * Opens a run file. Its four tables must match our schema exactly; triggers and
 * further indexes on these tables are refused. Other tables and views are
 * ignored.
 *
 * Returns ES_OK; ES_EIO (no such file, a directory, a FIFO, a symbolic link, no
 * permission, a rollback journal exists, the log is not a plain file or has
 * several hard links); ES_EFORMAT (empty, text, an SQLite file of another
 * program, a schema that differs from ours, damaged, numbers out of bounds);
 * ES_EVERSION; ES_ELOCKED (another program keeps it locked); ES_ENOMEM.
 */
ES_API es_status es_reader_open(es_reader **out, const char *path) ES_MUST_USE;

/**
 * Same as es_reader_open, but samples that a writer adds later are not visible
 * until the reader is refreshed. If no writer has the file open, it stays
 * locked for reading, so that single queries need not lock it; this halves the
 * time for reading a short run. A file that is being written is not locked,
 * because its writer could then not empty the log.
 */
es_status es_reader_open_held(es_reader **out, const char *path) ES_MUST_USE;

/** Closes a reader, which may be NULL. Its cursors must have been closed. */
ES_API void es_reader_close(es_reader *reader);

/**
 * Reads the runs, series and events of a growing file again. All borrowed data
 * becomes invalid, including the names in an open cursor's series; the indexes
 * of runs stay the same. On failure the reader is unchanged. Returns the same
 * statuses as es_reader_open.
 */
ES_API es_status es_reader_refresh(es_reader *reader) ES_MUST_USE;

/** Returns the path with which the reader was opened; borrowed. */
ES_API const char *es_reader_path(const es_reader *reader);

/** Returns the number of runs in the file. Their indexes are in order of
 * run_id. */
ES_API size_t es_reader_n_runs(const es_reader *reader);

/** Returns run `index` (0-based). Strings are borrowed and valid until
 *  es_reader_refresh or es_reader_close. Returns ES_OK or ES_EARGUMENT. */
ES_API es_status es_reader_run(es_reader *reader, size_t index,
                               es_run_info *out) ES_MUST_USE;
#define es_reader_run(reader, index, out)                                      \
    es_reader_run(reader, index, es_run_info_sized(out))

/**
 * Sets *out to the member "steps" of the run's configuration, which is the
 * planned number of steps, or to ES_UNKNOWN if it is missing. Returns ES_OK,
 * ES_EARGUMENT, ES_ENOMEM.
 */
ES_API es_status es_reader_planned_steps(es_reader *reader, size_t run,
                                         int64_t *out) ES_MUST_USE;

/**
 * Sets *out to the member "ceiling" of the run's configuration, which is the
 * largest possible mean entropy of a head in nats, or to NaN if it is missing.
 * A missing ceiling means that of causal attention, ln(T!)/T. Returns ES_OK,
 * ES_EARGUMENT, ES_ENOMEM.
 */
ES_API es_status es_reader_ceiling(es_reader *reader, size_t run,
                                   double *out) ES_MUST_USE;

/**
 * Returns a run's configuration as one JSON object without blanks, regardless
 * of how it is formatted in the file. The caller must free *out, which is NULL
 * if the run has no configuration, or text that is not a JSON object. Strings
 * of the JSON may be invalid UTF-8.
 *
 * Returns ES_OK, ES_EARGUMENT, ES_ENOMEM.
 */
ES_API es_status es_reader_config(es_reader *reader, size_t run,
                                  char **out) ES_MUST_USE;

typedef enum es_config_kind {
    ES_CONFIG_NULL,
    ES_CONFIG_BOOLEAN,
    ES_CONFIG_NUMBER,
    ES_CONFIG_TEXT,
    ES_CONFIG_NESTED /* an array, an empty object, or an object at the 8th
                        level */
} es_config_kind;

/**
 * One member of a configuration. Future versions add fields only at the end.
 * Strings are borrowed, valid during the call, and may be invalid UTF-8.
 */
typedef struct es_config_member {
    const char *key; /* full path of the member, such as "optimizer.lr" */
    es_config_kind kind;
    const char *text; /* value of a string without quotes; other values as JSON.
                         A number that is too large for a double is "Inf" or
                         "-Inf" */
    double number;    /* value of an ES_CONFIG_NUMBER; NaN for other kinds */
} es_config_member;

/**
 * Receives one member of a configuration. Must not call functions of the
 * reader. A return value other than ES_OK ends the iteration.
 */
typedef es_status es_config_handler(void *user, const es_config_member *member);

/**
 * Calls `handler` for each member of a run's configuration, in the order of the
 * configuration. The members of nested objects follow last, with names such as
 * "optimizer.lr". A key may occur twice. `handler` is not called if the run has
 * no configuration, or if its text is not a JSON object.
 *
 * Returns ES_OK, ES_EARGUMENT, ES_ENOMEM; the handler's return value.
 */
ES_API es_status es_reader_config_each(es_reader *reader, size_t run,
                                       es_config_handler *handler,
                                       void *user) ES_MUST_USE;

typedef struct es_series {
    size_t size;
    int64_t id;
    const char *name, *unit; /* never NULL */
    es_shape shape;
    es_phase phase;
    size_t n_values; /* number of values in one sample */
    uint32_t crc;    /* start value of the checksums of the series, private to
                        the reader */
    int64_t first_step, last_step; /* ES_UNKNOWN if the series has no samples */
} es_series;

static inline es_series *es_series_sized(es_series *out)
{
    out->size = sizeof *out;
    return out;
}

/**
 * Returns the number of series of a run, which are in order of name and phase
 * (train first).
 */
ES_API size_t es_reader_n_series(const es_reader *reader, size_t run);

/**
 * Returns the series with index `index` of a run; strings are borrowed as for
 * es_reader_run. The first and last step are those at the time of the call.
 * Finding them takes two queries, independent of the number of samples.
 */
ES_API es_status es_reader_series(es_reader *reader, size_t run, size_t index,
                                  es_series *out) ES_MUST_USE;
#define es_reader_series(reader, run, index, out)                              \
    es_reader_series(reader, run, index, es_series_sized(out))

/**
 * Finds a series by its name. If no series has this name, returns ES_ENOTFOUND
 * with a message that lists the existing series.
 */
ES_API es_status es_reader_find(es_reader *reader, size_t run, const char *name,
                                es_phase phase, es_series *out) ES_MUST_USE;
#define es_reader_find(reader, run, name, phase, out)                          \
    es_reader_find(reader, run, name, phase, es_series_sized(out))

/** Counts the samples of a series by reading all of its steps. */
ES_API es_status es_reader_count(es_reader *reader, const es_series *series,
                                 int64_t *n_samples) ES_MUST_USE;

#define ES_STEP_FIRST INT64_MIN
#define ES_STEP_LAST INT64_MAX

/**
 * Reads the sample of a series at a step, or at its first or last step.
 *
 *   values  (n) written; n must be the n_values of the series
 *   found   set to the sample's step
 *
 * Returns ES_OK, even if the sample is damaged (see es_damaged); ES_ENOTFOUND
 * if there is no such sample, with a message that gives the first, last and
 * nearest step; ES_EFORMAT if the BLOB has the wrong length in a file without
 * checksums.
 */
ES_API es_status es_reader_sample(es_reader *reader, const es_series *series,
                                  int64_t step, float *values, size_t n,
                                  int64_t *found) ES_MUST_USE;

/**
 * Starts to read the samples of a series with steps from..to, inclusive, in
 * order of step, without loading them all. ES_STEP_FIRST and ES_STEP_LAST are
 * allowed.
 *
 * A cursor sees the file as it was when the first sample was read, and keeps a
 * writer from emptying its log; therefore a cursor should not stay open for
 * long. In a forked child a cursor may only be closed; for speed, other calls
 * in a child are not detected.
 */
ES_API es_status es_cursor_open(es_cursor **out, es_reader *reader,
                                const es_series *series, int64_t from,
                                int64_t to) ES_MUST_USE;

/**
 * Returns the next sample. *values points to the n_values aligned floats of the
 * sample, which are valid until the next call. Returns ES_OK, ES_DONE,
 * ES_EFORMAT, ES_EIO. After any return value except ES_OK the cursor is at its
 * end.
 */
ES_API es_status es_cursor_next(es_cursor *cursor, int64_t *step,
                                const float **values) ES_MUST_USE;

/** Closes a cursor; `cursor` may be NULL. */
ES_API void es_cursor_close(es_cursor *cursor);

/**
 * Starts to read all samples of a run in order of (step, series), where series
 * are in order of their index. es_judge and exports need this order. Memory
 * grows with the number of series, not of steps. Each call of
 * es_cursor_next_of_run sets `series` to the sample's series.
 */
ES_API es_status es_cursor_open_run(es_cursor **out, es_reader *reader,
                                    size_t run) ES_MUST_USE;
ES_API es_status es_cursor_next_of_run(es_cursor *cursor, int64_t *step,
                                       const float **values,
                                       es_series *series) ES_MUST_USE;
#define es_cursor_next_of_run(cursor, step, values, series)                    \
    es_cursor_next_of_run(cursor, step, values, es_series_sized(series))

/**
 * Returns true if the file has a checksum for each sample, as files have from
 * schema 2 on. Without checksums a flipped bit in a value is not detected.
 */
ES_API bool es_reader_has_checksums(const es_reader *reader);

/**
 * One damaged or lost item of the file, which is one of:
 *
 *   - a sample whose values, step or series do not match its checksum; readers
 *     return missing values for it
 *   - damaged frames of a fragment, whose samples are unknown and missing
 *   - a row of run, series or event that differs from the recorded row because
 *     it was damaged, deleted or edited by hand, which a checksum cannot
 *     distinguish; readers use the row as it is
 *   - frames that the recorder committed, but that are no longer in the file
 */
typedef struct es_damaged {
    size_t size;
    size_t run; /* index of the run */
    int64_t step;
    const char *series; /* borrowed as for es_reader_run */
    es_phase phase;
    uint64_t n_frames; /* number of damaged frames, or 0 for a sample or a row.
                          If it is not 0, `step` is the highest step before
                          these frames and `series` is "" */
    es_row_table
        table;    /* table of a damaged row, or ES_ROW_NONE. For a row, `series`
                     is "", and `step` is valid only for an event */
    int64_t row;  /* run_id, series_id or event_id of the row */
    bool is_lost; /* true if n_frames frames were committed but lost during the
                     recording, because the file or its log was removed or
                     truncated. `step` is then the highest step in these
                     frames */
} es_damaged;

static inline es_damaged *es_damaged_sized(es_damaged *out)
{
    out->size = sizeof *out;
    return out;
}

/* Maximum number of damaged or lost items that a reader remembers. */
#define ES_MAX_DAMAGED 4096

/**
 * Returns the number of damaged samples and rows that were read since the
 * reader was opened, plus the number of gaps with damaged or lost frames; at
 * most ES_MAX_DAMAGED. A sample that was read twice counts once. Rows of events
 * and lost frames are counted only after es_reader_events has read them.
 */
ES_API size_t es_reader_n_damaged(const es_reader *reader);

/**
 * Returns the damaged or lost item with index `index`, in order of (run, step).
 * Returns ES_OK, ES_EARGUMENT.
 */
ES_API es_status es_reader_damaged(const es_reader *reader, size_t index,
                                   es_damaged *out) ES_MUST_USE;
#define es_reader_damaged(reader, index, out)                                  \
    es_reader_damaged(reader, index, es_damaged_sized(out))

/**
 * Returns the events of a run in order of (step, event_id), where events
 * without a step come first. The result also contains an event of the kind
 * "damaged", which is not in the file, for each damaged sample or row that was
 * read.
 *
 *   events  (n) borrowed as for es_reader_run, at most until the next call
 *
 * Returns ES_OK, ES_EARGUMENT, ES_EFORMAT, ES_EIO, ES_ENOMEM.
 */
ES_API es_status es_reader_events(es_reader *reader, size_t run,
                                  const es_event **events,
                                  size_t *n) ES_MUST_USE;

/**
 * Sets *out to true if a live process holds the file's writer lock. Returns
 * ES_OK; ES_EIO if the state of the lock cannot be read; ES_ENOMEM.
 */
ES_API es_status es_reader_is_written(const es_reader *reader,
                                      bool *out) ES_MUST_USE;

/**
 * Limits the memory that SQLite may allocate in the whole process, so that a
 * crafted file cannot exhaust the memory; 0 means no limit. Programs may call
 * this function, but libraries should not. Calls that would exceed the limit
 * fail with ES_ENOMEM. A reader needs about 1 MiB, independent of the number of
 * steps, plus a few times the size of a sample; a writer needs 3 MiB.
 */
ES_API void es_reader_cap_memory(size_t bytes);

#endif
