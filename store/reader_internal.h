/** The reader's inside, for reader*.c and cursor.c. */
#ifndef ES_READER_INTERNAL_H
#define ES_READER_INTERNAL_H

#include "store/reader.h"
#include "store/store_internal.h"

/* More than this is no run file, whatever made it: a damaged tree of pages
 * can pretend to have rows without end. */
#define ES_MAX_ROWS 4000000         /* of run, of series, of event */
#define ES_MAX_ALL_TEXT (256 << 20) /* bytes of all strings together */

/** Strings that live and die together. */
typedef struct es_strings {
    struct es_strings_block *blocks;
    size_t total;
} es_strings;

/** One run and its part of the arrays below. */
typedef struct es_stored_run {
    int64_t id;
    es_run_info info;
    size_t first_series, n_series;
    size_t first_event, n_events;
} es_stored_run;

/** Damaged samples and rows, each once, by (run, step, table, id). */
typedef struct es_damage {
    struct es_damage_place {
        size_t run;
        int64_t step;
        es_row_table table;
        int64_t id;        /* of the row; of a sample its series_id */
        uint64_t n_frames; /* 0: a sample or a row; else id is 0 */
        bool is_lost;      /* the frames */
    } * places;
    size_t n;
    es_event *events; /* of one run, its own and of damage */
    struct es_damage_texts *texts;
} es_damage;

/** The rows that are not as they were recorded. */
typedef struct es_changed_rows {
    struct es_changed_row {
        es_row_table table;
        size_t run;
        int64_t id, step;
    } * list;
    size_t n;
} es_changed_rows;

/** What the small tables hold. */
typedef struct es_contents {
    es_strings strings;
    es_changed_rows changed;
    es_stored_run *runs;
    size_t n_runs;
    es_series *series; /* by run, name, phase; their steps are not set */
    size_t n_series;
} es_contents;

typedef struct es_stored_events {
    es_strings strings;
    es_changed_rows changed;
    es_event *events; /* by run, step, event_id */
    size_t n_events;
    bool loaded;
} es_stored_events;

enum {
    ES_SQL_STEP_UP,   /* first step of series ?1 in [?2, ?3] */
    ES_SQL_STEP_DOWN, /* last */
    ES_SQL_ALL_STEPS, /* of series ?1 */
    ES_N_READER_SQL
};

#define ES_SPARE_QUERIES 8 /* of samples, kept for the next ones */

struct es_reader {
    es_database database;
    es_run_source source;
    es_contents contents;
    es_stored_events events;
    es_damage damage;
    bool held;   /* in a transaction: es_reader_open_held of a file at rest */
    bool grows;  /* somebody writes it: no statement may wait for the caller */
    bool frozen; /* es_reader_open_held of a file that grows */
    sqlite3_stmt *statements[ES_N_READER_SQL]; /* NULL before their first use */
    sqlite3_stmt *spare[ES_SPARE_QUERIES];
    size_t n_spare;
};

/** es_reader_open; what is known of a fragment's tails. */
es_status es_reader_open_with(es_reader **out, const char *path,
                              const es_tails *tails) ES_MUST_USE;

/** The run; NULL, and the message set, if there is no such index. */
const es_stored_run *es_reader_find_run(const es_reader *reader, size_t run);

/**
 * The samples of a series from step to step, in order: rows of step, value and,
 * unless the schema is 1, crc. es_reader_end_query it. ES_OK;
 * es_database_status's errors.
 */
es_status es_reader_query(sqlite3_stmt **out, es_reader *reader,
                          int64_t series_id, int64_t from,
                          int64_t to) ES_MUST_USE;

/** NULL is fine. Not in a forked child. */
void es_reader_end_query(es_reader *reader, sqlite3_stmt *query);

/** Fills in zeroed contents. ES_OK, ES_EFORMAT, ES_EIO, ES_ENOMEM. */
es_status es_contents_load(es_contents *contents,
                           const es_database *database) ES_MUST_USE;
void es_contents_free(es_contents *contents);

/** The series of that id, and the index of its run; NULL, and *run as it was:
 *  there is none. */
const es_series *
es_contents_find_series(size_t *run, const es_contents *contents, int64_t id);

/** Fills in zeroed events and each run's part of them. */
es_status es_events_load(es_stored_events *events, es_contents *contents,
                         const es_database *database) ES_MUST_USE;
void es_events_free(es_stored_events *events);

/** `to`, or the last step that a frozen reader sees of the series. */
int64_t es_reader_newest(const es_reader *reader, int64_t series_id,
                         int64_t to);

/** The first (ES_SQL_STEP_UP) or last (ES_SQL_STEP_DOWN) step of a series
 *  within [from, to]; ES_UNKNOWN if there is none. */
es_status es_reader_find_step(es_reader *reader, int sql, int64_t series_id,
                              int64_t from, int64_t to,
                              int64_t *step) ES_MUST_USE;

/**
 * The value of a sample, in a row's `column`, its checksum in the next. It may
 * lie at any address, and lasts as long as the row; NULL, and noted: the
 * sample is damaged.
 *
 * ES_OK; ES_EFORMAT: no checksum, and not a BLOB of the series' values;
 * ES_ENOMEM.
 */
es_status es_value_find(const void **bytes, es_reader *reader,
                        sqlite3_stmt *statement, int column,
                        const es_series *series, int64_t step) ES_MUST_USE;

/** Notes the damaged frames of the reader's fragment; its runs are loaded.
 * ES_OK, ES_ENOMEM. */
es_status es_damage_note_frames(es_reader *reader) ES_MUST_USE;

/** Notes rows that are not as they were recorded. ES_OK, ES_ENOMEM. */
es_status es_damage_note_rows(es_reader *reader,
                              const es_changed_rows *rows) ES_MUST_USE;

/** Notes the frames that were lost while the runs were recorded; their events
 *  are loaded. ES_OK, ES_ENOMEM. */
es_status es_damage_note_lost(es_reader *reader) ES_MUST_USE;

/** values (n): what es_value_find found; missing values for NULL. */
void es_value_copy(float *values, const void *bytes, size_t n);

/** Replaces the events (n) of a run by those and one for each of its damaged
 *  samples, in order of step. ES_OK, ES_ENOMEM. */
es_status es_damage_add_events(es_reader *reader, size_t run,
                               const es_event **events, size_t *n) ES_MUST_USE;
void es_damage_free(es_damage *damage);

/* --- postgres_where.c ----------------------------------------------------- */

/** True if where= has conditions by members of the configuration, which
 *  es_remote_leave_out applies. */
bool es_remote_reads_config(const es_remote *remote);

/**
 * Leaves out, of the private database, those of a reader's runs for which the
 * conditions by members of the configuration do not hold.
 *
 *   n   how many: what the reader has of runs is void then
 *
 * ES_OK; ES_EUSAGE: no run has such a member; as es_reader_config_each.
 */
es_status es_remote_leave_out(size_t *n, es_remote *remote,
                              es_reader *reader) ES_MUST_USE;

#endif
