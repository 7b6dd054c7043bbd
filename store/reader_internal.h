/**
 * Internal declarations of the reader, shared by reader*.c, cursor.c and
 * damage.c.
 */
#ifndef ES_READER_INTERNAL_H
#define ES_READER_INTERNAL_H

#include "store/reader.h"
#include "store/store_internal.h"

/* Limits of a run file. They are needed because a damaged B-tree can seem to
   have endless rows. */
/* Maximum number of rows of the table run, series or event. */
#define ES_MAX_ROWS 4000000
/* Maximum number of bytes of all strings in a file. */
#define ES_MAX_ALL_TEXT (256 << 20)

/** A pool of strings that are freed together. */
typedef struct es_strings {
    struct es_strings_block *blocks;
    size_t total;
} es_strings;

/** One run and its range in the arrays of es_contents and es_stored_events. */
typedef struct es_stored_run {
    int64_t id;
    es_run_info info;
    size_t first_series, n_series;
    size_t first_event, n_events;
} es_stored_run;

/**
 * List of damaged samples and rows without duplicates, in order of (run, step,
 * table, id).
 */
typedef struct es_damage {
    struct es_damage_place {
        size_t run;
        int64_t step;
        es_row_table table;
        int64_t id;        /* id of the damaged row; for a sample the id of its
                              series */
        uint64_t n_frames; /* number of damaged frames (id is then 0); 0 for a
                              sample or a row */
        bool is_lost;      /* true if the frames were lost during the
                              recording */
    } * places;
    size_t n;
    es_event *events; /* events of the run that was read last: those in the file
                         and one for each damaged place */
    struct es_damage_texts *texts;
} es_damage;

/** List of the rows that differ from the recorded rows. */
typedef struct es_changed_rows {
    struct es_changed_row {
        es_row_table table;
        size_t run;
        int64_t id, step;
    } * list;
    size_t n;
} es_changed_rows;

/** The contents of the tables run and series. */
typedef struct es_contents {
    es_strings strings;
    es_changed_rows changed;
    es_stored_run *runs;
    size_t n_runs;
    es_series *series; /* in order of run, name, phase; first_step and last_step
                          are not set */
    size_t n_series;
} es_contents;

typedef struct es_stored_events {
    es_strings strings;
    es_changed_rows changed;
    es_event *events; /* in order of run, step, event_id */
    size_t n_events;
    bool loaded;
} es_stored_events;

enum {
    ES_SQL_STEP_UP,   /* first step of series ?1 in [?2, ?3] */
    ES_SQL_STEP_DOWN, /* last step of series ?1 in [?2, ?3] */
    ES_SQL_ALL_STEPS, /* all steps of series ?1 in [?2, ?3] */
    ES_N_READER_SQL
};

/* Maximum number of idle sample queries that are kept for reuse. */
#define ES_SPARE_QUERIES 8

struct es_reader {
    es_database database;
    es_run_source source;
    es_contents contents;
    es_stored_events events;
    es_damage damage;
    bool held;  /* true while a transaction is open, because es_reader_open_held
                   found no writer */
    bool grows; /* true if the file has a writer, so that no statement may stay
                   open between two calls */
    bool frozen; /* true if es_reader_open_held found a writer, so that samples
                    which are added later are hidden */
    sqlite3_stmt *statements[ES_N_READER_SQL]; /* each statement is NULL before
                                                  its first use */
    sqlite3_stmt *spare[ES_SPARE_QUERIES];
    size_t n_spare;
};

/**
 * Same as es_reader_open, but `tails` contains the state of an earlier search
 * for frames in the fragment.
 */
es_status es_reader_open_with(es_reader **out, const char *path,
                              const es_tails *tails) ES_MUST_USE;

/**
 * Returns the run with index `run`. If the index is too large, sets the error
 * message and returns NULL.
 */
const es_stored_run *es_reader_find_run(const es_reader *reader, size_t run);

/**
 * Queries the samples of a series with steps from..to, in order. The rows
 * contain step, value and, unless the schema is 1, crc. The caller must end the
 * query with es_reader_end_query. Returns ES_OK; the errors of
 * es_database_status.
 */
es_status es_reader_query(sqlite3_stmt **out, es_reader *reader,
                          int64_t series_id, int64_t from,
                          int64_t to) ES_MUST_USE;

/** Ends a query, which may be NULL. Must not be called in a forked child. */
void es_reader_end_query(es_reader *reader, sqlite3_stmt *query);

/**
 * Loads the tables run and series into `contents`, which must be zeroed.
 * Returns ES_OK, ES_EFORMAT, ES_EIO, ES_ENOMEM.
 */
es_status es_contents_load(es_contents *contents,
                           const es_database *database) ES_MUST_USE;
void es_contents_free(es_contents *contents);

/**
 * Finds a series by its id and sets *run to the index of its run. If no series
 * has this id, returns NULL and does not change *run.
 */
const es_series *
es_contents_find_series(size_t *run, const es_contents *contents, int64_t id);

/**
 * Loads the events into `events`, which must be zeroed, and sets the range of
 * events of each run.
 */
es_status es_events_load(es_stored_events *events, es_contents *contents,
                         const es_database *database) ES_MUST_USE;
void es_events_free(es_stored_events *events);

/**
 * Returns the smaller of `to` and the last visible step of the series. In a
 * reader that is not frozen all steps are visible.
 */
int64_t es_reader_newest(const es_reader *reader, int64_t series_id,
                         int64_t to);

/**
 * Finds the first (ES_SQL_STEP_UP) or last (ES_SQL_STEP_DOWN) step of a series
 * within [from, to]. Sets *step to ES_UNKNOWN if the range contains no step.
 */
es_status es_reader_find_step(es_reader *reader, int sql, int64_t series_id,
                              int64_t from, int64_t to,
                              int64_t *step) ES_MUST_USE;

/**
 * Finds the values of a sample in `column` of the statement's current row; the
 * next column must be the checksum. *bytes may be unaligned and is valid as
 * long as the row. If the sample is damaged, adds it to the list of damage and
 * sets *bytes to NULL.
 *
 * Returns ES_OK; ES_EFORMAT if the file has no checksums and the value is not a
 * BLOB of the series' size; ES_ENOMEM.
 */
es_status es_value_find(const void **bytes, es_reader *reader,
                        sqlite3_stmt *statement, int column,
                        const es_series *series, int64_t step) ES_MUST_USE;

/** Adds the damaged frames of the reader's fragment to the list of damage. The
 *  runs must be loaded. Returns ES_OK, ES_ENOMEM. */
es_status es_damage_note_frames(es_reader *reader) ES_MUST_USE;

/**
 * Adds rows that differ from the recorded rows to the list of damage. Returns
 * ES_OK, ES_ENOMEM.
 */
es_status es_damage_note_rows(es_reader *reader,
                              const es_changed_rows *rows) ES_MUST_USE;

/**
 * Adds the frames that were lost during the recording to the list of damage.
 * The events must be loaded. Returns ES_OK, ES_ENOMEM.
 */
es_status es_damage_note_lost(es_reader *reader) ES_MUST_USE;

/**
 * Copies the bytes that es_value_find has found to `values` (n). If `bytes` is
 * NULL, all values are set to missing.
 */
void es_value_copy(float *values, const void *bytes, size_t n);

/**
 * Replaces the n events of a run by a list that also contains an event for each
 * damaged place of the run, in order of step. Returns ES_OK, ES_ENOMEM.
 */
es_status es_damage_add_events(es_reader *reader, size_t run,
                               const es_event **events, size_t *n) ES_MUST_USE;
void es_damage_free(es_damage *damage);

/* --- postgres_where.c ----------------------------------------------------- */

/**
 * Returns true if the parameter where= of the URL has conditions on members of
 * the configuration, which es_remote_leave_out evaluates.
 */
bool es_remote_reads_config(const es_remote *remote);

/**
 * Deletes from the private database the runs that do not meet the conditions on
 * members of the configuration.
 *
 *   n   number of deleted runs; if it is not 0, the reader has to load its
 *       contents again
 *
 * Returns ES_OK; ES_EUSAGE if a condition names a member that no run has; the
 * errors of es_reader_config_each.
 */
es_status es_remote_leave_out(size_t *n, es_remote *remote,
                              es_reader *reader) ES_MUST_USE;

#endif
