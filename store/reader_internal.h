/**
 * Internals of readers, for reader*.c and for the modules that use a reader's
 * connection or its source.
 */
#ifndef ES_READER_INTERNAL_H
#define ES_READER_INTERNAL_H

#include "store/reader.h"
#include "store/source.h"

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
    es_event *events; /* events of the run that was read last: those in the
                         file, and one for each damaged or lost item */
    struct es_damage_texts *texts;
} es_damage;

/** List of the rows that were changed after the recording. */
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

/* --- reader.c ------------------------------------------------------------ */

/**
 * Same as es_reader_open, but `tails` contains the state of an earlier search
 * for frames in the fragment.
 */
es_status es_reader_open_with(es_reader **out, const char *path,
                              const es_tails *tails) ES_MUST_USE;

/* --- reader_load.c ------------------------------------------------------- */

/**
 * Returns the run with index `run`. If the index is too large, sets the error
 * message and returns NULL.
 */
const es_stored_run *es_reader_find_run(const es_reader *reader, size_t run);

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

#endif
