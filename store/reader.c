/* Implements readers of run files: runs, events, series, single samples,
   cursors over samples, and attention maps. The small tables are kept in memory
   (reader_load.c); samples are read on request. reader.h describes the
   functions.

   A damaged sample is returned as missing values, and a damaged row is used;
   both are remembered: es_reader_damaged lists them, and an event of the kind
   "damaged" reports each of them.

   A cursor reads samples in order of step: one series with one query, or a
   whole run with one query per series, merged with a heap. While a file grows,
   its samples are copied in batches, and the cursor holds no read transaction
   between two batches. Otherwise a slow reader, such as a program whose output
   is shown in a pager, would keep the writer from emptying its log. */
#include "store/reader_internal.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/sized.h"
#include "analyzer/base/text.h"
#include "analyzer/base/value.h"
#include "store/map.h"

#include <inttypes.h>
#include <math.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Removes the macros that set a size, so that the functions themselves can be
 * defined below. */
#undef es_cursor_next_of_run
#undef es_reader_damaged
#undef es_reader_find
#undef es_reader_run
#undef es_reader_series

/* Maximum size in bytes of all rows that a cursor has copied. */
#define BATCHES_BYTES (1 << 20)
#define BATCH_ROWS 1024

typedef struct es_damage_place es_damage_place;

/* --- list of damaged places ----------------------------------------------- */

static int compare_places(const es_damage_place *a, const es_damage_place *b)
{
    if (a->run != b->run)
        return a->run < b->run ? -1 : 1;
    if (a->step != b->step)
        return a->step < b->step ? -1 : 1;
    if (a->table != b->table)
        return a->table < b->table ? -1 : 1;
    if (a->is_lost != b->is_lost)
        return a->is_lost ? 1 : -1;
    return (a->id > b->id) - (a->id < b->id);
}

static es_status add_place(es_damage *damage, es_damage_place place)
{
    size_t at = damage->n;
    es_status status;
    while (at > 0 && compare_places(&damage->places[at - 1], &place) > 0)
        at--;
    if (at > 0 && compare_places(&damage->places[at - 1], &place) == 0) {
        damage->places[at - 1].n_frames = place.n_frames;
        return ES_OK;
    }
    if (damage->n == ES_MAX_DAMAGED)
        return ES_OK;
    if (!damage->places &&
        (status = es_alloc(&damage->places, ES_MAX_DAMAGED, sizeof place,
                           "damaged samples")) < 0)
        return status;
    memmove(damage->places + at + 1, damage->places + at,
            (damage->n - at) * sizeof place);
    damage->places[at] = place;
    damage->n++;
    return ES_OK;
}

static es_status note_sample(es_reader *reader, const es_series *series,
                             int64_t step)
{
    es_damage_place place = {.step = step, .id = series->id};
    (void)es_contents_find_series(&place.run, &reader->contents, series->id);
    return add_place(&reader->damage, place);
}

/**
 * Adds rows that were changed after the recording to the list of damage.
 */
static es_status note_rows(es_reader *reader, const es_changed_rows *rows)
{
    es_status status = ES_OK;
    for (size_t i = 0; i < rows->n && status == ES_OK; i++) {
        const struct es_changed_row *row = &rows->list[i];
        const es_damage_place place = {.run = row->run,
                                       .step = row->step,
                                       .table = row->table,
                                       .id = row->id};
        if (row->run < reader->contents.n_runs)
            status = add_place(&reader->damage, place);
    }
    return status;
}

/**
 * Adds the frames that the recorder lost after it had committed them. The
 * recorder (hooks/recorder/process/session.c) has counted them in events of the
 * kind "log". The events must already be loaded.
 */
static es_status note_lost(es_reader *reader)
{
    es_status status = ES_OK;
    for (size_t run = 0; run < reader->contents.n_runs; run++) {
        const es_stored_run *r = &reader->contents.runs[run];
        for (size_t i = 0; i < r->n_events && status == ES_OK; i++) {
            const es_event *e = &reader->events.events[r->first_event + i];
            es_damage_place place = {
                .run = run, .step = e->step, .is_lost = true};
            if (e->severity >= ES_SEVERITY_ERROR &&
                strcmp(e->kind, "log") == 0 && e->data &&
                sscanf(e->data, "{\"lost\":%" SCNu64, &place.n_frames) == 1 &&
                place.n_frames)
                status = add_place(&reader->damage, place);
        }
    }
    return status;
}

/** Adds damaged frames to the list of damage. The runs must be loaded. */
static es_status note_frames(es_reader *reader)
{
    const es_contents *contents = &reader->contents;
    es_status status = ES_OK;
    size_t n = 0;
    const es_run_source_loss *losses =
        es_run_source_losses(&reader->source, &n);
    for (size_t i = 0; i < n && status == ES_OK; i++) {
        es_damage_place place = {.step = losses[i].step,
                                 .n_frames = losses[i].n_frames};
        while (place.run < contents->n_runs &&
               contents->runs[place.run].id != losses[i].run_id)
            place.run++;
        if (place.run < contents->n_runs)
            status = add_place(&reader->damage, place);
    }
    return status;
}

/* --- values --------------------------------------------------------------- */

/**
 * Finds a sample's values in a file of schema 1. Such a file has no checksums,
 * so only type and size are checked.
 */
static es_status find_unchecked(const void **bytes, const es_reader *reader,
                                sqlite3_stmt *statement, int column,
                                const es_series *series, int64_t step)
{
    const char *path = reader->database.path;
    const size_t wanted = series->n_values * sizeof(float);
    if (sqlite3_column_type(statement, column) != SQLITE_BLOB)
        return es_fail(ES_EFORMAT,
                       "%s: damaged: %s, step %lld: not a BLOB: restore a copy",
                       path, series->name, (long long)step);
    *bytes = sqlite3_column_blob(statement, column);
    size_t size = (size_t)sqlite3_column_bytes(statement, column);
    if (size != wanted)
        return es_fail(
            ES_EFORMAT,
            "%s: damaged: %s, step %lld has %zu bytes, not %zu: restore a copy",
            path, series->name, (long long)step, size, wanted);
    return *bytes ? ES_OK : es_fail(ES_ENOMEM, "%s: out of memory", path);
}

/**
 * Finds the values of a sample in `column` of the statement's current row; the
 * next column must be the checksum. *bytes may be unaligned and is valid as
 * long as the row. If the sample is damaged, adds it to the list of damage and
 * sets *bytes to NULL. Returns ES_OK; ES_EFORMAT if the file has no checksums
 * and the value is not a BLOB of the series' size; ES_ENOMEM.
 *
 * Uses sqlite3_column_value, because the other column functions take locks and
 * check for errors at every call, which costs as much as the checksum itself.
 * No lock is needed, because a connection belongs to one thread.
 */
static es_status find_value(const void **bytes, es_reader *reader,
                            sqlite3_stmt *statement, int column,
                            const es_series *series, int64_t step)
{
    const size_t wanted = series->n_values * sizeof(float);
    if (!es_reader_has_checksums(reader))
        return find_unchecked(bytes, reader, statement, column, series, step);
    sqlite3_value *value = sqlite3_column_value(statement, column);
    *bytes = sqlite3_value_blob(value);
    if (*bytes && (size_t)sqlite3_value_bytes(value) == wanted &&
        sqlite3_value_int64(sqlite3_column_value(statement, column + 1)) ==
            es_checksum_of_sample(series->crc, step, *bytes, wanted))
        return ES_OK;
    if (sqlite3_errcode(reader->database.handle) == SQLITE_NOMEM)
        return es_fail(ES_ENOMEM, "%s: out of memory", reader->database.path);
    *bytes = NULL;
    return note_sample(reader, series, step);
}

/**
 * Copies the bytes that find_value has found to `values` (n). If `bytes` is
 * NULL, all values are set to missing.
 */
static void copy_value(float *values, const void *bytes, size_t n)
{
    if (bytes)
        memcpy(values, bytes, n * sizeof *values);
    for (size_t i = 0; !bytes && i < n; i++)
        values[i] = es_missing();
}

bool es_reader_has_checksums(const es_reader *reader)
{
    return reader->database.schema > 1;
}

/* --- reports of damage ---------------------------------------------------- */

size_t es_reader_n_damaged(const es_reader *reader)
{
    return reader->damage.n;
}

es_status es_reader_damaged(const es_reader *reader, size_t index,
                            es_damaged *out)
{
    size_t run;
    if (index >= reader->damage.n)
        return es_fail(ES_EARGUMENT, "%s: no damaged sample with index %zu",
                       reader->database.path, index);
    const es_damage_place *place = &reader->damage.places[index];
    es_damaged found = {.run = place->run,
                        .step = place->step,
                        .series = place->n_frames || place->table ? "" : "?",
                        .n_frames = place->n_frames,
                        .is_lost = place->is_lost,
                        .table = place->table,
                        .row = place->table ? place->id : 0};
    const es_series *series =
        place->table
            ? NULL
            : es_contents_find_series(&run, &reader->contents, place->id);
    if (series) {
        found.series = series->name;
        found.phase = series->phase;
    }
    return es_sized_give(out, &found, sizeof found, "es_damaged");
}

typedef struct es_damage_texts {
    char message[ES_MAX_NAME + 80], dedupe[ES_MAX_NAME + 80];
} es_damage_texts;

static es_status make_event(es_event *out, es_damage_texts *texts,
                            const es_reader *reader, size_t index)
{
    es_damaged sample;
    es_status status =
        es_reader_damaged(reader, index, es_damaged_sized(&sample));
    if (status < 0)
        return status;
    if (sample.table) {
        snprintf(texts->message, sizeof texts->message,
                 "%s %lld differs from the recorded row: edited or damaged",
                 es_row_table_name(sample.table), (long long)sample.row);
        snprintf(texts->dedupe, sizeof texts->dedupe, "damaged/%s/%lld",
                 es_row_table_name(sample.table), (long long)sample.row);
    } else {
        snprintf(texts->message, sizeof texts->message,
                 "the sample of %.*s (%s) is damaged: shown as missing",
                 ES_MAX_NAME, sample.series, es_phase_name(sample.phase));
        snprintf(texts->dedupe, sizeof texts->dedupe, "damaged/%s/%lld/%.*s",
                 es_phase_name(sample.phase), (long long)sample.step,
                 ES_MAX_NAME, sample.series);
    }
    *out = (es_event){.step = sample.step,
                      .kind = "damaged",
                      .severity = ES_SEVERITY_ERROR,
                      .layer = ES_UNKNOWN,
                      .head = ES_UNKNOWN,
                      .message = texts->message,
                      .dedupe = texts->dedupe};
    return ES_OK;
}

/**
 * Replaces the n events of a run by a list that also contains an event for each
 * damaged or lost item of the run (es_damaged), in order of step.
 */
static es_status add_damage_events(es_reader *reader, size_t run,
                                   const es_event **events, size_t *n)
{
    es_damage *damage = &reader->damage;
    size_t first = 0, end, n_merged = 0, own = 0;
    while (first < damage->n && damage->places[first].run < run)
        first++;
    for (end = first; end < damage->n && damage->places[end].run == run;)
        end++;
    if (first == end)
        return ES_OK;
    es_status status;
    if ((status = es_grow(&damage->events, *n + end - first,
                          sizeof *damage->events, "damaged samples")) < 0 ||
        (status = es_grow(&damage->texts, end - first, sizeof *damage->texts,
                          "damaged samples")) < 0)
        return status;
    for (size_t i = first; i < end; i++) {
        if (damage->places[i].n_frames)
            continue; /* the file already contains an event about lost frames */
        while (own < *n && (*events)[own].step <= damage->places[i].step)
            damage->events[n_merged++] = (*events)[own++];
        if ((status = make_event(&damage->events[n_merged++],
                                 &damage->texts[i - first], reader, i)) < 0)
            return status;
    }
    while (own < *n)
        damage->events[n_merged++] = (*events)[own++];
    *events = damage->events;
    *n = n_merged;
    return ES_OK;
}

static void free_damage(es_damage *damage)
{
    free(damage->places);
    free(damage->events);
    free(damage->texts);
    *damage = (es_damage){0};
}

/* --- queries -------------------------------------------------------------- */

/* The unary + before a column makes reading faster; ES_RUN_COLUMNS in
 * store_internal.h explains why. */
static const char *const sql_text[ES_N_READER_SQL] = {
    [ES_SQL_STEP_UP] = "SELECT +step FROM sample WHERE series_id = ?1"
                       " AND step BETWEEN ?2 AND ?3 ORDER BY step LIMIT 1",
    [ES_SQL_STEP_DOWN] =
        "SELECT +step FROM sample WHERE series_id = ?1"
        " AND step BETWEEN ?2 AND ?3 ORDER BY step DESC LIMIT 1",
    [ES_SQL_ALL_STEPS] = "SELECT +step FROM sample WHERE series_id = ?1"
                         " AND step BETWEEN ?2 AND ?3 ORDER BY step",
};

/**
 * Returns the prepared statement number `sql`, which is prepared at its first
 * use.
 */
static es_status find_statement(sqlite3_stmt **out, es_reader *reader, int sql)
{
    es_status status = ES_OK;
    if (!reader->statements[sql])
        status = es_database_prepare(&reader->database,
                                     &reader->statements[sql], sql_text[sql]);
    *out = reader->statements[sql];
    return status;
}

/**
 * Returns the smaller of `to` and the last step of the series that the reader
 * may return. Only a frozen reader hides later steps.
 */
static int64_t find_newest(const es_reader *reader, int64_t series_id,
                           int64_t to)
{
    const es_contents *contents = &reader->contents;
    for (size_t i = contents->n_runs; reader->frozen && i-- > 0;) {
        const es_stored_run *run = &contents->runs[i];
        if (run->info.status !=
            ES_RUN_RUNNING) /* a run that has ended has no newer samples */
            continue;
        for (size_t k = 0; k < run->n_series; k++)
            if (contents->series[run->first_series + k].id == series_id)
                return to < run->info.last_step ? to : run->info.last_step;
    }
    return to;
}

/**
 * Queries the samples of a series with steps from..to, in ascending order of
 * steps. Each row contains step, value and, unless the schema is 1, crc. The
 * caller must end the query with end_query.
 */
static es_status begin_query(sqlite3_stmt **out, es_reader *reader,
                             int64_t series_id, int64_t from, int64_t to)
{
    to = find_newest(reader, series_id, to);
    es_status status = ES_OK;
    if (reader->n_spare > 0)
        *out = reader->spare[--reader->n_spare];
    else
        status = es_database_prepare(
            &reader->database, out,
            reader->database.schema == 1
                ? "SELECT step, value FROM sample WHERE series_id = ?1"
                  " AND step BETWEEN ?2 AND ?3 ORDER BY step"
                : "SELECT +step, +value, +crc FROM sample WHERE series_id = ?1"
                  " AND step BETWEEN ?2 AND ?3 ORDER BY step");
    if (status < 0)
        return status;
    sqlite3_bind_int64(*out, 1, series_id);
    sqlite3_bind_int64(*out, 2, from);
    sqlite3_bind_int64(*out, 3, to);
    return ES_OK;
}

/** Ends a query, which may be NULL. Must not be called in a forked child. */
static void end_query(es_reader *reader, sqlite3_stmt *query)
{
    sqlite3_reset(query);
    if (query && reader->n_spare < ES_SPARE_QUERIES)
        reader->spare[reader->n_spare++] = query;
    else
        sqlite3_finalize(query);
}

/**
 * Finds the first (ES_SQL_STEP_UP) or last (ES_SQL_STEP_DOWN) step of a series
 * within [from, to]. Sets *step to ES_UNKNOWN if the range contains no step.
 */
static es_status find_step(es_reader *reader, int sql, int64_t series_id,
                           int64_t from, int64_t to, int64_t *step)
{
    sqlite3_stmt *s;
    es_status status = find_statement(&s, reader, sql);
    *step = ES_UNKNOWN;
    if (status < 0)
        return status;
    to = find_newest(reader, series_id, to);
    sqlite3_bind_int64(s, 1, series_id);
    sqlite3_bind_int64(s, 2, from);
    sqlite3_bind_int64(s, 3, to);
    int rc = sqlite3_step(s);
    int64_t found = sqlite3_column_int64(s, 0);
    status = es_database_status(&reader->database, rc);
    sqlite3_reset(s);
    if (rc != SQLITE_ROW)
        return status;
    if (found < from || found > to)
        return es_fail(ES_EFORMAT,
                       "%s: damaged: steps out of order: restore a copy",
                       reader->database.path);
    *step = found;
    return status;
}

/* --- opening and closing -------------------------------------------------- */

/**
 * Loads the small tables. If the path has conditions on the configuration,
 * removes the runs that do not meet them and loads the tables again.
 */
static es_status load_contents(es_contents *contents, es_reader *reader)
{
    const es_run_source *source = &reader->source;
    size_t n = 0;
    es_status status = es_contents_load(contents, &reader->database);
    if (status < 0 || !es_run_source_reads_config(source))
        return status;
    const es_contents before = reader->contents;
    reader->contents = *contents;
    status = source->backend->leave_out(&n, source, reader);
    reader->contents = before;
    if (status < 0 || !n)
        return status;
    es_contents_free(contents);
    return es_contents_load(contents, &reader->database);
}

static es_status let_go(es_reader *reader)
{
    if (!reader->held)
        return ES_OK;
    reader->held = false;
    return es_database_execute(&reader->database, "ROLLBACK");
}

static es_status find_growth(es_reader *reader)
{
    reader->grows = false;
    return reader->source.backend->grows
               ? es_reader_is_written(reader, &reader->grows)
               : ES_OK;
}

static es_status note_damage(es_reader *reader)
{
    es_status status = note_rows(reader, &reader->contents.changed);
    return status < 0 ? status : note_frames(reader);
}

static es_status open_reader(es_reader *reader, const char *path)
{
    es_database *database = &reader->database;
    es_status status = es_run_source_open(&reader->source, database, path);
    if (status < 0)
        return status;
    reader->held = !sqlite3_get_autocommit(database->handle);
    if ((status = load_contents(&reader->contents, reader)) < 0 ||
        (status = find_growth(reader)) < 0)
        return status;
    reader->frozen = reader->held && reader->grows;
    if (reader->frozen && (status = let_go(reader)) < 0)
        return status;
    return note_damage(reader);
}

static es_status open_held(es_reader **out, const char *path,
                           const es_tails *tails)
{
    es_status status = es_alloc(out, 1, sizeof **out, "a reader");
    if (status < 0)
        return status;
    (*out)->database.tails = *tails;
    if ((status = open_reader(*out, path)) < 0) {
        es_reader_close(*out);
        *out = NULL;
    }
    return status;
}

es_status es_reader_open_held(es_reader **out, const char *path)
{
    return open_held(out, path, &(es_tails){.n = 0});
}

es_status es_reader_open(es_reader **out, const char *path)
{
    return es_reader_open_with(out, path, &(es_tails){.n = 0});
}

es_status es_reader_open_with(es_reader **out, const char *path,
                              const es_tails *tails)
{
    es_status status = open_held(out, path, tails);
    if (status < 0)
        return status;
    (*out)->frozen = false;
    if ((status = let_go(*out)) < 0) {
        es_reader_close(*out);
        *out = NULL;
    }
    return status;
}

void es_reader_close(es_reader *reader)
{
    if (!reader)
        return;
    es_database_finalise_all(&reader->database, reader->statements,
                             ES_N_READER_SQL);
    es_database_finalise_all(&reader->database, reader->spare, reader->n_spare);
    es_run_source_close(&reader->source, &reader->database);
    es_contents_free(&reader->contents);
    es_events_free(&reader->events);
    free_damage(&reader->damage);
    free(reader);
}

es_status es_reader_refresh(es_reader *reader)
{
    es_contents fresh = {0};
    es_status status;
    if ((status = es_database_check_owner(&reader->database)) < 0 ||
        (status = let_go(reader)) < 0 ||
        (status = reader->source.backend->refresh(&reader->source)) < 0 ||
        (status = find_growth(reader)) < 0 ||
        (status = load_contents(&fresh, reader)) < 0) {
        es_contents_free(&fresh);
        return status;
    }
    reader->frozen = false;
    es_contents_free(&reader->contents);
    es_events_free(&reader->events);
    reader->contents = fresh;
    return note_damage(reader);
}

const char *es_reader_path(const es_reader *reader)
{
    return reader->database.path;
}

es_status es_reader_is_written(const es_reader *reader, bool *out)
{
    return reader->source.backend->is_written(&reader->source, out);
}

void es_reader_cap_memory(size_t bytes)
{
    sqlite3_hard_heap_limit64((sqlite3_int64)bytes);
}

/* --- runs ---------------------------------------------------------------- */

size_t es_reader_n_runs(const es_reader *reader)
{
    return reader->contents.n_runs;
}

es_status es_reader_run(es_reader *reader, size_t index, es_run_info *out)
{
    const es_stored_run *run = es_reader_find_run(reader, index);
    if (!run)
        return ES_EARGUMENT;
    return es_sized_give(out, &run->info, sizeof run->info, "es_run_info");
}

/**
 * Loads the events. If the events cannot be read, all of them count as one
 * damaged row whose id is unknown.
 */
static es_status load_events(es_reader *reader)
{
    struct es_changed_row unknown = {ES_ROW_EVENT, 0, 0, ES_UNKNOWN};
    es_status status =
        es_events_load(&reader->events, &reader->contents, &reader->database);
    if (status == ES_EFORMAT)
        (void)!note_rows(reader, &(es_changed_rows){&unknown, 1});
    if (status < 0 || (status = note_rows(reader, &reader->events.changed)) < 0)
        return status;
    return note_lost(reader);
}

es_status es_reader_events(es_reader *reader, size_t index,
                           const es_event **events, size_t *n)
{
    const es_stored_run *run = es_reader_find_run(reader, index);
    if (!run)
        return ES_EARGUMENT;
    es_status status;
    if ((status = es_database_check_owner(&reader->database)) < 0 ||
        (!reader->events.loaded && (status = load_events(reader)) < 0))
        return status;
    *n = run->n_events;
    *events = run->n_events ? reader->events.events + run->first_event : NULL;
    return add_damage_events(reader, index, events, n);
}

/* --- series -------------------------------------------------------------- */

/**
 * Finds the first and the last step of a series. Sets both to ES_UNKNOWN if the
 * series has no samples.
 */
static es_status find_ends(es_reader *reader, int64_t series_id, int64_t *first,
                           int64_t *last)
{
    es_status status;
    if ((status = find_step(reader, ES_SQL_STEP_UP, series_id, 0, ES_MAX_STEP,
                            first)) < 0 ||
        (status = find_step(reader, ES_SQL_STEP_DOWN, series_id, 0, ES_MAX_STEP,
                            last)) < 0)
        return status;
    if (*first > *last || (*first == ES_UNKNOWN && *last != ES_UNKNOWN))
        return es_fail(ES_EFORMAT,
                       "%s: damaged: steps out of order: restore a copy",
                       reader->database.path);
    return ES_OK;
}

size_t es_reader_n_series(const es_reader *reader, size_t run)
{
    return run < reader->contents.n_runs ? reader->contents.runs[run].n_series
                                         : 0;
}

es_status es_reader_series(es_reader *reader, size_t index, size_t series,
                           es_series *out)
{
    const es_stored_run *run = es_reader_find_run(reader, index);
    if (!run)
        return ES_EARGUMENT;
    if (series >= run->n_series)
        return es_fail(ES_EARGUMENT, "%s: no series with index %zu: it has %zu",
                       reader->database.path, series, run->n_series);
    es_status status = es_database_check_owner(&reader->database);
    if (status < 0)
        return status;
    es_series found = reader->contents.series[run->first_series + series];
    /* The other members are returned first, because they are valid even if the
     * steps cannot be found. */
    if ((status = es_sized_give(out, &found, sizeof found, "es_series")) < 0 ||
        (status = find_ends(reader, found.id, &found.first_step,
                            &found.last_step)) < 0)
        return status;
    return es_sized_give(out, &found, sizeof found, "es_series");
}

es_status es_reader_find(es_reader *reader, size_t index, const char *name,
                         es_phase phase, es_series *out)
{
    const es_stored_run *run = es_reader_find_run(reader, index);
    if (!run)
        return ES_EARGUMENT;
    for (size_t i = 0; i < run->n_series; i++) {
        const es_series *series =
            &reader->contents.series[run->first_series + i];
        if (series->phase == phase && strcmp(series->name, name) == 0)
            return es_reader_series(reader, index, i, out);
    }
    /* The message lists as many of the run's series as fit into the message
     * buffer. */
    char wanted[ES_MAX_NAME + 1], list[ES_MESSAGE_MAX / 2] = "none";
    size_t used = 0;
    es_text_escape(wanted, sizeof wanted, name, ES_ESCAPE_TERMINAL);
    for (size_t i = 0; i < run->n_series && used < sizeof list; i++) {
        const es_series *series =
            &reader->contents.series[run->first_series + i];
        char text[ES_MAX_NAME + 1];
        es_text_escape(text, sizeof text, series->name, ES_ESCAPE_TERMINAL);
        used +=
            (size_t)snprintf(list + used, sizeof list - used, "%s%s (%s)",
                             i ? ", " : "", text, es_phase_name(series->phase));
    }
    return es_fail(ES_ENOTFOUND, "%s: no series %s (%s); available: %s%s",
                   reader->database.path, wanted, es_phase_name(phase), list,
                   used < sizeof list ? "" : "...");
}

es_status es_reader_count(es_reader *reader, const es_series *series,
                          int64_t *n_samples)
{
    es_series ours;
    sqlite3_stmt *s;
    es_status status;
    if ((status = es_database_check_owner(&reader->database)) < 0 ||
        (status = es_sized_take(&ours, sizeof ours, series, "es_series")) < 0 ||
        (status = find_statement(&s, reader, ES_SQL_ALL_STEPS)) < 0)
        return status;
    sqlite3_bind_int64(s, 1, ours.id);
    sqlite3_bind_int64(s, 2, 0);
    sqlite3_bind_int64(s, 3, find_newest(reader, ours.id, ES_MAX_STEP));
    int64_t n = 0, last = -1;
    int rc;
    while ((rc = sqlite3_step(s)) == SQLITE_ROW) {
        int64_t step = sqlite3_column_int64(s, 0);
        if (step <= last)
            break; /* in a damaged file, pages that refer to each other would
                      make this loop endless */
        last = step;
        n++;
    }
    status = rc == SQLITE_ROW
                 ? es_fail(ES_EFORMAT,
                           "%s: damaged: steps out of order: restore a copy",
                           reader->database.path)
                 : es_database_status(&reader->database, rc);
    sqlite3_reset(s);
    *n_samples = n;
    return status;
}

/* --- one sample ---------------------------------------------------------- */

/**
 * Fails because a step does not exist. The message gives the first, the last
 * and the nearest step.
 */
static es_status fail_no_step(es_reader *reader, const es_series *series,
                              int64_t step)
{
    const char *path = reader->database.path;
    int64_t first, last, above = ES_UNKNOWN, below = ES_UNKNOWN;
    bool is_step = step >= 0 && step <= ES_MAX_STEP;
    es_status status;
    if ((status = find_ends(reader, series->id, &first, &last)) < 0 ||
        (is_step && ((status = find_step(reader, ES_SQL_STEP_UP, series->id,
                                         step, ES_MAX_STEP, &above)) < 0 ||
                     (status = find_step(reader, ES_SQL_STEP_DOWN, series->id,
                                         0, step, &below)) < 0)))
        return status;
    if (first == ES_UNKNOWN)
        return es_fail(ES_ENOTFOUND, "%s: %s has no samples", path,
                       series->name);
    if (below == ES_UNKNOWN)
        below = first;
    if (above == ES_UNKNOWN)
        above = last;
    int64_t nearest =
        step > below && step - below <= above - step ? below : above;
    if (step < first)
        nearest = first;
    return es_fail(ES_ENOTFOUND,
                   "%s: %s has no step %lld: it has %lld to %lld, nearest %lld",
                   path, series->name, (long long)step, (long long)first,
                   (long long)last, (long long)nearest);
}

static es_status read_sample(es_reader *reader, const es_series *series,
                             int64_t step, float *values, size_t n)
{
    const void *bytes = NULL;
    sqlite3_stmt *s;
    es_status status = begin_query(&s, reader, series->id, step, step);
    if (status < 0)
        return status;
    int rc = sqlite3_step(s);
    status = es_database_status(&reader->database, rc);
    if (rc == SQLITE_ROW &&
        (status = find_value(&bytes, reader, s, 1, series, step)) == ES_OK)
        copy_value(values, bytes, n);
    end_query(reader, s);
    return rc == SQLITE_DONE ? fail_no_step(reader, series, step) : status;
}

es_status es_reader_sample(es_reader *reader, const es_series *series,
                           int64_t step, float *values, size_t n,
                           int64_t *found)
{
    es_series ours;
    es_status status;
    if ((status = es_database_check_owner(&reader->database)) < 0 ||
        (status = es_sized_take(&ours, sizeof ours, series, "es_series")) < 0)
        return status;
    series = &ours;
    if (n != series->n_values)
        return es_fail(ES_EARGUMENT,
                       "%s: a sample of %s has %zu values, not "
                       "%zu",
                       reader->database.path, series->name, series->n_values,
                       n);
    int64_t place = step;
    if (step == ES_STEP_FIRST || step == ES_STEP_LAST)
        status = find_step(
            reader, step == ES_STEP_FIRST ? ES_SQL_STEP_UP : ES_SQL_STEP_DOWN,
            series->id, 0, ES_MAX_STEP, &place);
    if (status < 0)
        return status;
    if (place < 0 || place > ES_MAX_STEP)
        return fail_no_step(reader, series, place);
    status = read_sample(reader, series, place, values, n);
    if (status == ES_OK)
        *found = place;
    return status;
}

/* --- attention maps ------------------------------------------------------- */

es_status es_reader_maps(es_reader *reader, size_t run, es_map_handler *handler,
                         void *user)
{
    const es_database *database = &reader->database;
    es_status status = es_database_check_owner(database);
    if (status < 0)
        return status;
    if (run >= reader->contents.n_runs)
        return es_fail(ES_EARGUMENT, "%s: has no run %zu", database->path, run);
    const es_stored_run *stored = &reader->contents.runs[run];
    status =
        es_run_source_load_maps(&reader->source, stored->id, stored->info.uuid);
    return status < 0 ? status
                      : es_map_each(database, stored->id, &stored->info,
                                    handler, user);
}

/* --- lanes of a cursor ---------------------------------------------------- */

/** The read position in one series. */
typedef struct lane {
    es_series series;
    sqlite3_stmt *statement;
    int64_t step; /* step of the current row; before the first row: the first
                     requested step - 1 */
    int64_t to;
    int64_t last; /* last step of the series when the cursor was opened */
    const float *values;
    float *copy;    /* copied rows: (capacity, n_values) if the file grows,
                       otherwise (n_values), used for a row whose values are not
                       aligned in memory */
    int64_t *steps; /* (capacity) steps of the copied rows; NULL if rows are not
                       copied */
    size_t capacity, n_copied, at; /* capacity and used rows of `copy`, and
                                      index of the next row to return */
} lane;

/**
 * Reads several series, each with one lane (a read position), and merges the
 * lanes by step. The heap contains the lanes that have a current row, with the
 * lowest (step, index) on top. A cursor over one series has one lane.
 */
struct es_cursor {
    es_reader *reader;
    bool of_run;
    bool top_used; /* true if the caller has received the top lane's row, so
                      that this lane must advance before the next row is
                      returned */
    lane *lanes;
    size_t n_lanes;
    lane **heap;
    size_t n_heap;
};

static bool before(const lane *a, const lane *b)
{
    return a->step != b->step ? a->step < b->step : a < b;
}

static void sift_down(es_cursor *cursor, size_t place)
{
    lane **heap = cursor->heap, *moving = heap[place];
    for (;;) {
        size_t child = 2 * place + 1;
        if (child >= cursor->n_heap)
            break;
        if (child + 1 < cursor->n_heap && before(heap[child + 1], heap[child]))
            child++;
        if (!before(heap[child], moving))
            break;
        heap[place] = heap[child];
        place = child;
    }
    heap[place] = moving;
}

/** Sets l->values to the current row's values; the values of a damaged
 *  sample are missing. */
static es_status take_values(lane *l, es_reader *reader)
{
    const void *bytes = NULL;
    size_t n = l->series.n_values;
    es_status status =
        find_value(&bytes, reader, l->statement, 1, &l->series, l->step);
    if (status < 0)
        return status;
    if (bytes && (uintptr_t)bytes % alignof(float) == 0) {
        l->values = bytes;
        return ES_OK;
    }
    if (!l->copy &&
        (status = es_alloc(&l->copy, n, sizeof *l->copy, "a sample")) < 0)
        return status;
    copy_value(l->copy, bytes, n);
    l->values = l->copy;
    return ES_OK;
}

/** Steps to the statement's next row. Returns ES_DONE if there are no more
 *  rows. */
static es_status step_row(lane *l, es_reader *reader)
{
    const es_database *database = &reader->database;
    int rc = sqlite3_step(l->statement);
    if (rc == SQLITE_DONE)
        return ES_DONE;
    if (rc != SQLITE_ROW)
        return es_database_fail(database, rc);
    int64_t step = sqlite3_column_int64(l->statement, 0);
    if (step <= l->step || step > l->to)
        return es_fail(ES_EFORMAT,
                       "%s: damaged: %s: steps out of order: restore a copy",
                       database->path, l->series.name);
    l->step = step;
    return take_values(l, reader);
}

static es_status fail_lost(const lane *l, const es_reader *reader)
{
    return es_fail(ES_EFORMAT,
                   "%s: damaged: %s: samples from step %lld to %lld are "
                   "lost: restore a copy",
                   reader->database.path, l->series.name,
                   (long long)l->step + 1, (long long)l->last);
}

/**
 * Copies at most l->capacity rows after l->step. Returns an error only if it
 * occurs at the first row. If it occurs later, the rows before it are returned,
 * and the error recurs in the next batch.
 */
static es_status copy_rows(lane *l, es_reader *reader)
{
    const size_t n = l->series.n_values;
    const int64_t stands_on = l->step;
    float *const copy = l->copy;
    es_status status = ES_OK;
    l->n_copied = l->at = 0;
    sqlite3_bind_int64(l->statement, 2, l->step + 1);
    while (l->n_copied < l->capacity && status == ES_OK) {
        l->copy = copy + l->n_copied * n; /* memory for the values of this
                                             row */
        if ((status = step_row(l, reader)) != ES_OK)
            break;
        if (l->values != l->copy)
            memcpy(l->copy, l->values, n * sizeof *copy);
        l->steps[l->n_copied++] = l->step;
    }
    sqlite3_reset(l->statement);
    l->copy = copy;
    l->step = stands_on;
    return l->n_copied ? ES_OK : status;
}

/**
 * Advances the lane (the read position in one series) in a file that grows. The
 * row at step l->last may have been deleted in the meantime, because the run
 * may have been resumed at an earlier step.
 */
static es_status advance_copy(lane *l, es_reader *reader)
{
    es_status status = ES_OK;
    if (l->at == l->n_copied)
        status = copy_rows(l, reader);
    if (status == ES_DONE && l->last != ES_UNKNOWN && l->step < l->last) {
        status = find_step(reader, ES_SQL_STEP_DOWN, l->series.id, l->step + 1,
                           l->to, &l->last);
        if (status == ES_OK && (status = copy_rows(l, reader)) == ES_DONE &&
            l->last != ES_UNKNOWN)
            return fail_lost(l, reader);
    }
    if (status != ES_OK)
        return status;
    l->step = l->steps[l->at];
    l->values = l->copy + l->at++ * l->series.n_values;
    return ES_OK;
}

/** Advances the lane (the read position in one series) to its next row. Returns
 *  ES_DONE if there are no more rows. */
static es_status advance_lane(lane *l, es_reader *reader)
{
    if (l->steps)
        return advance_copy(l, reader);
    es_status status = step_row(l, reader);
    return status == ES_DONE && l->last != ES_UNKNOWN && l->step < l->last
               ? fail_lost(l, reader)
               : status;
}

static es_status reserve_copies(lane *l, size_t bytes)
{
    const size_t n = l->series.n_values;
    es_status status;
    l->capacity = bytes / (n * sizeof *l->copy);
    l->capacity = l->capacity < 1            ? 1
                  : l->capacity > BATCH_ROWS ? BATCH_ROWS
                                             : l->capacity;
    if ((status = es_alloc(&l->copy, l->capacity * n, sizeof *l->copy,
                           "samples")) < 0)
        return status;
    return es_alloc(&l->steps, l->capacity, sizeof *l->steps, "samples");
}

/**
 * Prepares a lane (a read position) for the samples of a series from step
 * `from` to step `to`. `bytes` limits the memory for copied rows.
 */
static es_status start_lane(lane *l, es_reader *reader, const es_series *series,
                            int64_t from, int64_t to, size_t bytes)
{
    l->series = *series;
    if (from < 0)
        from = 0;
    l->to = to > ES_MAX_STEP ? ES_MAX_STEP : to;
    l->step = from - 1;
    l->last = ES_UNKNOWN;
    es_status status =
        begin_query(&l->statement, reader, series->id, from, l->to);
    if (status < 0)
        return status;
    if (reader->grows) {
        if ((status = reserve_copies(l, bytes)) < 0 ||
            (status = find_step(reader, ES_SQL_STEP_DOWN, series->id, from,
                                l->to, &l->last)) < 0)
            return status;
        if (l->last == ES_UNKNOWN)
            return ES_DONE;
        l->to = l->last; /* ignore rows that are added later */
        sqlite3_bind_int64(l->statement, 3, l->to);
        return advance_lane(l, reader);
    }
    status = advance_lane(l, reader);
    return status == ES_OK ? find_step(reader, ES_SQL_STEP_DOWN, series->id,
                                       from, l->to, &l->last)
                           : status;
}

/* --- cursors ------------------------------------------------------------- */

static es_status create_cursor(es_cursor **out, es_reader *reader,
                               size_t n_lanes)
{
    *out = NULL;
    es_status status;
    es_cursor *cursor;
    if ((status = es_database_check_owner(&reader->database)) < 0 ||
        (status = es_alloc(out, 1, sizeof **out, "a cursor")) < 0)
        return status;
    cursor = *out;
    cursor->reader = reader;
    if ((status = es_alloc(&cursor->lanes, n_lanes, sizeof *cursor->lanes,
                           "a cursor's series")) < 0)
        return status;
    return es_alloc(&cursor->heap, n_lanes, sizeof *cursor->heap,
                    "a cursor's series");
}

static es_status add_lane(es_cursor *cursor, const es_series *series,
                          int64_t from, int64_t to, size_t bytes)
{
    lane *l = &cursor->lanes[cursor->n_lanes++];
    es_status status = start_lane(l, cursor->reader, series, from, to, bytes);
    if (status == ES_OK)
        cursor->heap[cursor->n_heap++] = l;
    return status == ES_DONE ? ES_OK : status;
}

es_status es_cursor_open(es_cursor **out, es_reader *reader,
                         const es_series *series, int64_t from, int64_t to)
{
    es_series ours;
    es_status status;
    *out = NULL;
    if ((status = es_sized_take(&ours, sizeof ours, series, "es_series")) < 0 ||
        (status = create_cursor(out, reader, 1)) < 0 ||
        (status = add_lane(*out, &ours, from, to, BATCHES_BYTES)) < 0) {
        es_cursor_close(*out);
        *out = NULL;
    }
    return status;
}

/**
 * Adds a lane (a read position) for each of the run's n series. Each lane ends
 * at the current last step of its series.
 */
static es_status add_lanes(es_cursor *cursor, size_t run, size_t n)
{
    es_reader *reader = cursor->reader;
    es_series *series = NULL;
    const bool begins = reader->grows;
    es_status status = es_alloc(&series, n, sizeof *series, "a run's series");
    if (status == ES_OK && begins)
        status = es_database_execute(&reader->database, "BEGIN");
    for (size_t i = 0; i < n && status == ES_OK; i++)
        status = es_reader_series(reader, run, i, es_series_sized(&series[i]));
    if (begins)
        sqlite3_exec(reader->database.handle, "ROLLBACK", NULL, NULL, NULL);
    for (size_t i = 0; i < n && status == ES_OK; i++)
        status = add_lane(cursor, &series[i], 0,
                          begins ? series[i].last_step : ES_MAX_STEP,
                          BATCHES_BYTES / n);
    free(series);
    return status;
}

es_status es_cursor_open_run(es_cursor **out, es_reader *reader, size_t run)
{
    size_t n = es_reader_n_series(reader, run);
    es_status status;
    *out = NULL;
    if (run >= es_reader_n_runs(reader))
        return es_fail(ES_EARGUMENT, "%s: no run with index %zu",
                       es_reader_path(reader), run);
    if ((status = create_cursor(out, reader, n)) < 0 ||
        (status = add_lanes(*out, run, n)) < 0) {
        es_cursor_close(*out);
        *out = NULL;
        return status;
    }
    es_cursor *cursor = *out;
    cursor->of_run = true;
    for (size_t i = cursor->n_heap / 2; i-- > 0;)
        sift_down(cursor, i);
    return ES_OK;
}

/** Advances the series at the top of the cursor's heap to its next row, after
 *  the caller has received its current row. */
static es_status pass_top(es_cursor *cursor)
{
    es_status status = advance_lane(cursor->heap[0], cursor->reader);
    if (status == ES_DONE)
        cursor->heap[0] = cursor->heap[--cursor->n_heap];
    if (status >= ES_OK && cursor->n_heap > 0)
        sift_down(cursor, 0);
    return status < 0 ? status : ES_OK;
}

/** Ends the cursor's read transactions. */
static es_status end_cursor(es_cursor *cursor, es_status status)
{
    for (size_t i = 0; i < cursor->n_lanes; i++)
        sqlite3_reset(cursor->lanes[i].statement);
    cursor->n_heap = 0;
    cursor->top_used = false;
    return status;
}

static es_status next_row(es_cursor *cursor, int64_t *step,
                          const float **values)
{
    if (cursor->top_used) {
        es_status status = pass_top(cursor);
        if (status < 0)
            return end_cursor(cursor, status);
    }
    if (cursor->n_heap == 0)
        return end_cursor(cursor, ES_DONE);
    cursor->top_used = true;
    *step = cursor->heap[0]->step;
    *values = cursor->heap[0]->values;
    return ES_OK;
}

es_status es_cursor_next(es_cursor *cursor, int64_t *step, const float **values)
{
    if (cursor->of_run)
        return es_fail(
            ES_EARGUMENT,
            "the cursor reads all series of a run: use es_cursor_next_of_run");
    return next_row(cursor, step, values);
}

es_status es_cursor_next_of_run(es_cursor *cursor, int64_t *step,
                                const float **values, es_series *series)
{
    es_status status = next_row(cursor, step, values);
    if (status != ES_OK)
        return status;
    return es_sized_give(series, &cursor->heap[0]->series, sizeof *series,
                         "es_series");
}

void es_cursor_close(es_cursor *cursor)
{
    if (!cursor)
        return;
    bool ours = cursor->reader->database.owner == getpid();
    for (size_t i = 0; i < cursor->n_lanes; i++) {
        if (ours)
            end_query(cursor->reader, cursor->lanes[i].statement);
        free(cursor->lanes[i].copy);
        free(cursor->lanes[i].steps);
    }
    free(cursor->lanes);
    free(cursor->heap);
    free(cursor);
}
