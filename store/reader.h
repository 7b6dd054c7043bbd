/**
 * Reading a run file: finished, being written, or left behind by a crash.
 *
 * Every file is untrusted. A reader writes nothing, creates
 * nothing and maps nothing: its folder stays as it was, and another program
 * that cuts the file or its companions off causes an error of that file.
 * A reader belongs to one thread at a time, and to the process that opened it:
 * in a forked child everything but closing returns ES_EFORK.
 *
 * What a call fills in begins with its size, which the call wants to be set,
 * and which becomes the number of bytes that it has written. In C and C++ a
 * macro of the call's name sets it; who binds another language does.
 *
 * Names and other strings are handed out as the file has them, cut at a NUL
 * byte: control characters and broken UTF-8 are for who prints them to escape.
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
 * The four tables have to be exactly ours, and triggers and further indexes on
 * them are refused; other tables and views are never touched.
 *
 * ES_OK; ES_EIO (no such file, a directory, a FIFO, a symbolic link, no
 * permission, a rollback journal beside it, a log that is no plain file or has
 * a second name); ES_EFORMAT (empty, text, a
 * foreign SQLite file, a schema that differs from ours, damaged, numbers out
 * of bounds); ES_EVERSION; ES_ELOCKED (another program keeps it locked);
 * ES_ENOMEM.
 */
ES_API es_status es_reader_open(es_reader **out, const char *path) ES_MUST_USE;

/**
 * The same; until it is refreshed or closed, no sample that a writer adds from
 * then on is seen. A file that nobody writes stays locked for reading, which
 * saves the locks of every single look-up, half of the time that a short run
 * takes. A file that is being written is not: its log could not shrink.
 */
es_status es_reader_open_held(es_reader **out, const char *path) ES_MUST_USE;

/** NULL is fine. Close its cursors first. */
ES_API void es_reader_close(es_reader *reader);

/**
 * Reads runs, series and events of a growing file again. Everything borrowed
 * is void afterwards, names in an open cursor's series too; indexes of runs
 * stay. On failure the reader keeps what it had. Returns as es_reader_open.
 */
ES_API es_status es_reader_refresh(es_reader *reader) ES_MUST_USE;

/** The path it was opened with; borrowed. */
ES_API const char *es_reader_path(const es_reader *reader);

/** Number of runs in the file, in order of run_id. */
ES_API size_t es_reader_n_runs(const es_reader *reader);

/**
 * Run `index` (0-based); borrowed strings, valid until es_reader_refresh or
 * es_reader_close. ES_OK or ES_EARGUMENT.
 */
ES_API es_status es_reader_run(es_reader *reader, size_t index,
                               es_run_info *out) ES_MUST_USE;
#define es_reader_run(reader, index, out)                                      \
    es_reader_run(reader, index, es_run_info_sized(out))

/** config's "steps"; ES_UNKNOWN if it does not say. ES_OK, ES_EARGUMENT,
 *  ES_ENOMEM. */
ES_API es_status es_reader_planned_steps(es_reader *reader, size_t run,
                                         int64_t *out) ES_MUST_USE;

/** config's "ceiling", nats: the largest mean that a head's entropy can have
 *  where it is not that of a causal one, ln(T!)/T. NaN if config does not say.
 *  ES_OK, ES_EARGUMENT, ES_ENOMEM. */
ES_API es_status es_reader_ceiling(es_reader *reader, size_t run,
                                   double *out) ES_MUST_USE;

/**
 * A run's configuration, to be freed: one JSON object without blanks, whatever
 * stands in the file; *out is NULL if the run has none, or text that is no
 * JSON object. Bytes in its strings may be bad UTF-8.
 *
 * ES_OK, ES_EARGUMENT, ES_ENOMEM.
 */
ES_API es_status es_reader_config(es_reader *reader, size_t run,
                                  char **out) ES_MUST_USE;

typedef enum es_config_kind {
    ES_CONFIG_NULL,
    ES_CONFIG_BOOLEAN,
    ES_CONFIG_NUMBER,
    ES_CONFIG_TEXT,
    ES_CONFIG_NESTED /* an array; an object: empty, or 8 levels down */
} es_config_kind;

/** One member of a configuration; it grows at its end only. Strings are
 * borrowed, valid during the call, and may be bad UTF-8. */
typedef struct es_config_member {
    const char *key; /* of one inside an object "optimizer.lr" */
    es_config_kind kind;
    const char *text; /* a text itself; of the others a spelling: JSON, but of
                         a number too large for a double "Inf" or "-Inf" */
    double number;    /* of ES_CONFIG_NUMBER; NaN for the other kinds */
} es_config_member;

/** Must not call the reader. What it returns ends the walk if it is not
 *  ES_OK. */
typedef es_status es_config_handler(void *user, const es_config_member *member);

/**
 * Calls `handler` for each member of a run's configuration, in its order;
 * objects in it are taken apart, and their members follow the others. A key may
 * come twice. No call if the run has no configuration, or text that
 * is no JSON object.
 *
 * ES_OK, ES_EARGUMENT, ES_ENOMEM; what the handler returned.
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
    size_t n_values;               /* of one sample */
    uint32_t crc;                  /* the reader's own: for checksums */
    int64_t first_step, last_step; /* ES_UNKNOWN: no sample yet */
} es_series;

static inline es_series *es_series_sized(es_series *out)
{
    out->size = sizeof *out;
    return out;
}

/** Number of series of a run, by name and phase (train first). */
ES_API size_t es_reader_n_series(const es_reader *reader, size_t run);

/** Borrowed as for es_reader_run. The steps are those of now; finding them
 *  costs two look-ups, whatever the number of samples. */
ES_API es_status es_reader_series(es_reader *reader, size_t run, size_t index,
                                  es_series *out) ES_MUST_USE;
#define es_reader_series(reader, run, index, out)                              \
    es_reader_series(reader, run, index, es_series_sized(out))

/** By name. ES_ENOTFOUND: the message names the series that are there. */
ES_API es_status es_reader_find(es_reader *reader, size_t run, const char *name,
                                es_phase phase, es_series *out) ES_MUST_USE;
#define es_reader_find(reader, run, name, phase, out)                          \
    es_reader_find(reader, run, name, phase, es_series_sized(out))

/** Number of samples of a series: reads through all of them. */
ES_API es_status es_reader_count(es_reader *reader, const es_series *series,
                                 int64_t *n_samples) ES_MUST_USE;

#define ES_STEP_FIRST INT64_MIN
#define ES_STEP_LAST INT64_MAX

/**
 * The sample of a series at a step, at the first or at the last one.
 *
 *   values  (n) written; n is the series' n_values
 *   found   the step it belongs to
 *
 * ES_OK, also if the sample is damaged: see below; ES_ENOTFOUND (the message
 * names the steps there are: first, last, nearest); ES_EFORMAT if the BLOB has
 * another length than it must, and no checksum.
 */
ES_API es_status es_reader_sample(es_reader *reader, const es_series *series,
                                  int64_t step, float *values, size_t n,
                                  int64_t *found) ES_MUST_USE;

/**
 * Streams the samples of a series, steps from..to inclusive, in order of
 * step, without loading them; ES_STEP_FIRST and ES_STEP_LAST are fine.
 *
 * A cursor sees the file as it was at its first sample, and keeps a writer
 * from shrinking its log: do not keep one open for long. In a forked child it
 * may only be closed; this alone is not checked, for speed.
 */
ES_API es_status es_cursor_open(es_cursor **out, es_reader *reader,
                                const es_series *series, int64_t from,
                                int64_t to) ES_MUST_USE;

/**
 * The next sample. *values: the series' n_values floats, aligned, borrowed
 * until the next call. ES_OK, ES_DONE, ES_EFORMAT, ES_EIO; after anything but
 * ES_OK the cursor is at its end.
 */
ES_API es_status es_cursor_next(es_cursor *cursor, int64_t *step,
                                const float **values) ES_MUST_USE;

/** NULL is fine. */
ES_API void es_cursor_close(es_cursor *cursor);

/**
 * Streams all samples of a run in the order of (step, series), series in the
 * order of their index: what a judge and an export need. Memory grows with
 * the number of series, not of steps. `series` is written with the sample's
 * series.
 */
ES_API es_status es_cursor_open_run(es_cursor **out, es_reader *reader,
                                    size_t run) ES_MUST_USE;
ES_API es_status es_cursor_next_of_run(es_cursor *cursor, int64_t *step,
                                       const float **values,
                                       es_series *series) ES_MUST_USE;
#define es_cursor_next_of_run(cursor, step, values, series)                    \
    es_cursor_next_of_run(cursor, step, values, es_series_sized(series))

/**
 * Whether the file has a checksum for each sample: from schema 2 on. Without
 * them a flipped bit in a value goes unseen.
 */
ES_API bool es_reader_has_checksums(const es_reader *reader);

/** The small tables, whose rows have checksums of their own. */
typedef enum es_row_table {
    ES_ROW_NONE,
    ES_ROW_RUN,
    ES_ROW_SERIES,
    ES_ROW_EVENT
} es_row_table;

/** "run", "series", "event"; "" of ES_ROW_NONE. */
ES_API const char *es_row_table_name(es_row_table table);

/**
 * A sample whose bytes, step or series are not those that were written, as its
 * checksum says. Whoever reads it gets missing values. Or damaged frames of a
 * fragment: what samples they held is not known, and none of them is there. Or
 * a row of run, series or event that is not as it was recorded: damaged, gone,
 * or edited by hand, which no checksum distinguishes. Readers use what it says.
 * Or frames that the recorder wrote, and that somebody took away.
 */
typedef struct es_damaged {
    size_t size;
    size_t run; /* index */
    int64_t step;
    const char *series; /* borrowed as for es_reader_run */
    es_phase phase;
    uint64_t n_frames;  /* 0: a sample; else so many frames: step is the highest
                           before them, the series is "" */
    es_row_table table; /* ES_ROW_NONE; else it is the row of this table: series
                           is "", step ES_UNKNOWN but of an event */
    int64_t row;        /* run_id, series_id or event_id of that row */
    bool is_lost; /* n_frames were committed, and lost while they were recorded:
                     the file, or its log, was removed or cut. step is the
                     highest of them */
} es_damaged;

static inline es_damaged *es_damaged_sized(es_damaged *out)
{
    out->size = sizeof *out;
    return out;
}

#define ES_MAX_DAMAGED 4096 /* this many are remembered */

/** Number of damaged samples and rows among those read since the reader was
 *  opened, and of places where frames are damaged or lost, at most
 *  ES_MAX_DAMAGED; one that was read twice counts once. es_reader_events reads
 *  rows of events, and what was lost. */
ES_API size_t es_reader_n_damaged(const es_reader *reader);

/** They are in the order of (run, step). ES_OK, ES_EARGUMENT. */
ES_API es_status es_reader_damaged(const es_reader *reader, size_t index,
                                   es_damaged *out) ES_MUST_USE;
#define es_reader_damaged(reader, index, out)                                  \
    es_reader_damaged(reader, index, es_damaged_sized(out))

/**
 * The events of a run in order of (step, event_id), without a step first. For
 * each damaged sample or row that was read there is one of the kind "damaged",
 * which the file does not have.
 *
 *   events  (n) borrowed as for es_reader_run, and until the next call
 *
 * ES_OK, ES_EARGUMENT, ES_EFORMAT, ES_EIO, ES_ENOMEM.
 */
ES_API es_status es_reader_events(es_reader *reader, size_t run,
                                  const es_event **events,
                                  size_t *n) ES_MUST_USE;

/** Whether a live process holds the file's writer lock. ES_OK; ES_EIO: that
 *  cannot be known; ES_ENOMEM. */
ES_API es_status es_reader_is_written(const es_reader *reader,
                                      bool *out) ES_MUST_USE;

/**
 * For programs, not for libraries: caps what SQLite may allocate in this
 * whole process, so that no file, however made, can use up the memory; beyond
 * it calls fail with ES_ENOMEM. A reader takes about 1 MiB, whatever the
 * number of steps, and a few times one sample; a writer 3 MiB. 0: no cap.
 */
ES_API void es_reader_cap_memory(size_t bytes);

#endif
