/**
 * Reads a run file: a finished one, one that is being written, or one that a
 * crash has left.
 *
 * Every file is untrusted. A reader writes, creates and memory-maps nothing:
 * its folder does not change, and if another program truncates the file or its
 * companions, the call returns an error. A reader belongs to one thread at a
 * time, and to the process that opened it: in a forked child everything but
 * closing returns ES_EFORK.
 *
 * Structures that a call fills in begin with their size: the caller sets it,
 * and the call changes it to the number of bytes written. In C and C++ a macro
 * with the name of the call sets the size; bindings for other languages set it
 * themselves.
 *
 * Names and other strings are returned as the file has them, cut at a NUL byte:
 * a program that prints them must escape control characters and broken UTF-8.
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
 * further indexes on them are refused. Other tables and views are never
 * touched.
 *
 * Returns ES_OK; ES_EIO (no such file, a directory, a FIFO, a symbolic link, no
 * permission, a rollback journal exists, the log is not a plain file or has a
 * second name); ES_EFORMAT (empty, text, a foreign SQLite file, a schema that
 * differs from ours, damaged, numbers out of bounds); ES_EVERSION; ES_ELOCKED
 * (another program keeps it locked); ES_ENOMEM.
 */
ES_API es_status es_reader_open(es_reader **out, const char *path) ES_MUST_USE;

/**
 * Same as es_reader_open, but samples that a writer adds later are not visible
 * until the reader is refreshed. A file without a writer stays locked for
 * reading, which saves taking the lock for every query and halves the time of
 * reading a short run. A file that is being written is not locked, because its
 * log could not shrink.
 */
es_status es_reader_open_held(es_reader **out, const char *path) ES_MUST_USE;

/** Closes a reader, which may be NULL. Close its cursors first. */
ES_API void es_reader_close(es_reader *reader);

/**
 * Reads the runs, series and events of a growing file again. Everything
 * borrowed becomes invalid, including the names in an open cursor's series; the
 * indexes of runs stay the same. On failure the reader is unchanged. Same
 * statuses as es_reader_open.
 */
ES_API es_status es_reader_refresh(es_reader *reader) ES_MUST_USE;

/** Returns the path that the reader was opened with; borrowed. */
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

/** Returns the member "steps" of the configuration; ES_UNKNOWN if it is
 * missing. Returns ES_OK, ES_EARGUMENT, ES_ENOMEM. */
ES_API es_status es_reader_planned_steps(es_reader *reader, size_t run,
                                         int64_t *out) ES_MUST_USE;

/**
 * Returns the member "ceiling" of the configuration in nats: the largest
 * possible mean entropy of a head. Returns NaN if it is missing, which stands
 * for the value of causal attention, ln(T!)/T. Returns ES_OK, ES_EARGUMENT,
 * ES_ENOMEM.
 */
ES_API es_status es_reader_ceiling(es_reader *reader, size_t run,
                                   double *out) ES_MUST_USE;

/**
 * Returns a run's configuration as one JSON object without blanks, however the
 * file spells it; to be freed. *out is NULL if the run has no configuration, or
 * text that is not a JSON object. Its strings may be invalid UTF-8.
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
    ES_CONFIG_NESTED /* an array; or an object that is empty or 8 levels deep */
} es_config_kind;

/** One member of a configuration. New fields are only added at the end.
 *  Strings are borrowed, valid during the call, and may be invalid UTF-8. */
typedef struct es_config_member {
    const char *key; /* full path, such as "optimizer.lr" */
    es_config_kind kind;
    const char *text; /* a string without quotes; other values as JSON, but
                         "Inf" or "-Inf" for a number too large for a double */
    double number;    /* value of an ES_CONFIG_NUMBER; NaN for other kinds */
} es_config_member;

/** Receives each member. Must not call the reader. A return value other than
 * ES_OK ends the iteration. */
typedef es_status es_config_handler(void *user, const es_config_member *member);

/**
 * Calls `handler` for each member of a run's configuration, in its order.
 * Nested objects are flattened, and their members come last. A key may occur
 * twice. `handler` is not called if the run has no configuration, or if its
 * text is not a JSON object.
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
    uint32_t crc;    /* seed of the series' checksums, private to the reader */
    int64_t first_step, last_step; /* both ES_UNKNOWN without samples */
} es_series;

static inline es_series *es_series_sized(es_series *out)
{
    out->size = sizeof *out;
    return out;
}

/** Returns the number of a run's series, which are in order of name and phase
 *  (train first). */
ES_API size_t es_reader_n_series(const es_reader *reader, size_t run);

/**
 * Returns series `index` of a run; strings are borrowed as for es_reader_run.
 * The first and last step are current; finding them costs two queries,
 * independent of the number of samples.
 */
ES_API es_status es_reader_series(es_reader *reader, size_t run, size_t index,
                                  es_series *out) ES_MUST_USE;
#define es_reader_series(reader, run, index, out)                              \
    es_reader_series(reader, run, index, es_series_sized(out))

/** Finds a series by its name. If no series has this name, returns ES_ENOTFOUND
 *  with a message that lists the existing series. */
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
 *   values  (n) written; n is the series' n_values
 *   found   set to the sample's step
 *
 * Returns ES_OK, also if the sample is damaged (see es_damaged); ES_ENOTFOUND
 * (the message names the first, last and nearest step); ES_EFORMAT if the BLOB
 * has the wrong length in a file without checksums.
 */
ES_API es_status es_reader_sample(es_reader *reader, const es_series *series,
                                  int64_t step, float *values, size_t n,
                                  int64_t *found) ES_MUST_USE;

/**
 * Streams the samples of a series, steps from..to inclusive, in order of step,
 * without loading them all; ES_STEP_FIRST and ES_STEP_LAST are fine.
 *
 * A cursor sees the file as it was when the first sample was read, and keeps a
 * writer from shrinking its log: do not keep a cursor open for long. In a
 * forked child a cursor may only be closed; for speed, other calls are not
 * detected.
 */
ES_API es_status es_cursor_open(es_cursor **out, es_reader *reader,
                                const es_series *series, int64_t from,
                                int64_t to) ES_MUST_USE;

/**
 * Returns the next sample. *values points to the series' n_values floats,
 * aligned, borrowed until the next call. Returns ES_OK, ES_DONE, ES_EFORMAT,
 * ES_EIO; after any return value but ES_OK the cursor is at its end.
 */
ES_API es_status es_cursor_next(es_cursor *cursor, int64_t *step,
                                const float **values) ES_MUST_USE;

/** Closes a cursor; `cursor` may be NULL. */
ES_API void es_cursor_close(es_cursor *cursor);

/**
 * Streams all samples of a run in order of (step, series), series in order of
 * their index, as es_judge and exports need them. Memory grows with the number
 * of series, not of steps. Each call of es_cursor_next sets `series` to the
 * sample's series.
 */
ES_API es_status es_cursor_open_run(es_cursor **out, es_reader *reader,
                                    size_t run) ES_MUST_USE;
ES_API es_status es_cursor_next_of_run(es_cursor *cursor, int64_t *step,
                                       const float **values,
                                       es_series *series) ES_MUST_USE;
#define es_cursor_next_of_run(cursor, step, values, series)                    \
    es_cursor_next_of_run(cursor, step, values, es_series_sized(series))

/** Returns true if the file has a checksum for each sample: from schema 2
 *  on. Without checksums a flipped bit in a value is not detected. */
ES_API bool es_reader_has_checksums(const es_reader *reader);

/** The small tables of a run file, whose rows have checksums. */
typedef enum es_row_table {
    ES_ROW_NONE,
    ES_ROW_RUN,
    ES_ROW_SERIES,
    ES_ROW_EVENT
} es_row_table;

/** "run", "series", "event"; "" for ES_ROW_NONE. */
ES_API const char *es_row_table_name(es_row_table table);

/**
 * One place of damage in the file. It is one of:
 *
 *   - a sample whose values, step or series do not match its checksum; readers
 *     return missing values for it
 *   - damaged frames of a fragment, whose samples are unknown and missing
 *   - a row of run, series or event that differs from what was recorded:
 *     damaged, deleted, or edited by hand, which a checksum cannot
 *     distinguish; readers use the row as it is
 *   - frames that the recorder committed, but that are no longer in the file
 */
typedef struct es_damaged {
    size_t size;
    size_t run; /* index of the run */
    int64_t step;
    const char *series; /* borrowed as for es_reader_run */
    es_phase phase;
    uint64_t
        n_frames; /* number of damaged frames; 0 for a sample or a row. `step`
                     is the highest step before them, `series` is "" */
    es_row_table
        table;   /* table of a damaged row, else ES_ROW_NONE. For a row `series`
                    is "" and `step` is ES_UNKNOWN except for an event */
    int64_t row; /* run_id, series_id or event_id of the row */
    bool is_lost; /* n_frames were committed but lost during the recording,
                     because the file or its log was removed or truncated.
                     `step` is the highest step in them */
} es_damaged;

static inline es_damaged *es_damaged_sized(es_damaged *out)
{
    out->size = sizeof *out;
    return out;
}

#define ES_MAX_DAMAGED                                                         \
    4096 /* most places of damage that a reader remembers                      \
          */

/**
 * Returns the number of damaged samples and rows read since the reader was
 * opened, plus the places with damaged or lost frames; at most ES_MAX_DAMAGED.
 * A sample that was read twice counts once. Rows of events and lost frames
 * count after es_reader_events has read them.
 */
ES_API size_t es_reader_n_damaged(const es_reader *reader);

/** Gets place of damage `index`, in order of (run, step). Returns ES_OK,
 *  ES_EARGUMENT. */
ES_API es_status es_reader_damaged(const es_reader *reader, size_t index,
                                   es_damaged *out) ES_MUST_USE;
#define es_reader_damaged(reader, index, out)                                  \
    es_reader_damaged(reader, index, es_damaged_sized(out))

/**
 * Returns the events of a run in order of (step, event_id), events without a
 * step first. Each damaged sample or row that was read adds an event of the
 * kind "damaged", which is not in the file.
 *
 *   events  (n) borrowed as for es_reader_run, at most until the next call
 *
 * Returns ES_OK, ES_EARGUMENT, ES_EFORMAT, ES_EIO, ES_ENOMEM.
 */
ES_API es_status es_reader_events(es_reader *reader, size_t run,
                                  const es_event **events,
                                  size_t *n) ES_MUST_USE;

/** Sets *out to true if a live process holds the file's writer lock. Returns
 *  ES_OK; ES_EIO: the state of the lock cannot be read; ES_ENOMEM. */
ES_API es_status es_reader_is_written(const es_reader *reader,
                                      bool *out) ES_MUST_USE;

/**
 * Limits the memory that SQLite may allocate in the whole process, so that no
 * crafted file can exhaust the memory; 0 means no limit. Programs may call
 * this, libraries should not. Calls that would exceed the limit fail with
 * ES_ENOMEM. A reader needs about 1 MiB, independent of the number of steps,
 * plus a few times the size of a sample; a writer needs 3 MiB.
 */
ES_API void es_reader_cap_memory(size_t bytes);

#endif
