/* Implements readers of run files: runs, configurations, series and single
   samples. The small tables are kept in memory (reader_load.c); samples are
   read on request. reader.h describes the functions. */
#include "store/reader_internal.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/sized.h"
#include "analyzer/base/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Removes the macros that set a size, so that the functions themselves can be
 * defined below. */
#undef es_reader_run
#undef es_reader_series
#undef es_reader_find

/* --- opening and closing ------------------------------------------------- */

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

int64_t es_reader_newest(const es_reader *reader, int64_t series_id, int64_t to)
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

es_status es_reader_query(sqlite3_stmt **out, es_reader *reader,
                          int64_t series_id, int64_t from, int64_t to)
{
    to = es_reader_newest(reader, series_id, to);
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

void es_reader_end_query(es_reader *reader, sqlite3_stmt *query)
{
    sqlite3_reset(query);
    if (query && reader->n_spare < ES_SPARE_QUERIES)
        reader->spare[reader->n_spare++] = query;
    else
        sqlite3_finalize(query);
}

/**
 * Loads the small tables. If the parameter where= of a PostgreSQL URL has
 * conditions on the configuration, removes the runs that do not meet them and
 * loads the tables again.
 */
static es_status load_contents(es_contents *contents, es_reader *reader)
{
    es_remote *remote = reader->source.remote;
    size_t n = 0;
    es_status status = es_contents_load(contents, &reader->database);
    if (status < 0 || !remote || !es_remote_reads_config(remote))
        return status;
    const es_contents before = reader->contents;
    reader->contents = *contents;
    status = es_remote_leave_out(&n, remote, reader);
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

/**
 * Sets reader->grows to true if the file is a run file that is being written.
 * It stays false for fragments and PostgreSQL databases, which are read from a
 * private database that grows only when the reader is refreshed.
 */
static es_status find_growth(es_reader *reader)
{
    const es_run_source *source = &reader->source;
    reader->grows = false;
    return source->remote || source->fragment
               ? ES_OK
               : es_run_file_is_written(&reader->database, source,
                                        &reader->grows);
}

static es_status note_damage(es_reader *reader)
{
    es_status status = es_damage_note_rows(reader, &reader->contents.changed);
    return status < 0 ? status : es_damage_note_frames(reader);
}

static es_status open_reader(es_reader *reader, const char *path)
{
    es_database *database = &reader->database;
    es_status status = es_run_file_open(database, &reader->source, path);
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
    es_run_file_close(&reader->database, &reader->source);
    es_contents_free(&reader->contents);
    es_events_free(&reader->events);
    es_damage_free(&reader->damage);
    free(reader);
}

es_status es_reader_refresh(es_reader *reader)
{
    es_contents fresh = {0};
    es_status status;
    if ((status = es_database_check_owner(&reader->database)) < 0 ||
        (status = let_go(reader)) < 0 ||
        (status = es_run_file_refresh(&reader->database, &reader->source)) <
            0 ||
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
    return es_run_file_is_written(&reader->database, &reader->source, out);
}

void es_reader_cap_memory(size_t bytes)
{
    sqlite3_hard_heap_limit64((sqlite3_int64)bytes);
}

/* --- runs ---------------------------------------------------------------- */

const es_stored_run *es_reader_find_run(const es_reader *reader, size_t run)
{
    if (run < reader->contents.n_runs)
        return &reader->contents.runs[run];
    es_fail(ES_EARGUMENT, "%s: no run with index %zu: it has %zu",
            reader->database.path, run, reader->contents.n_runs);
    return NULL;
}

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
        (void)!es_damage_note_rows(reader, &(es_changed_rows){&unknown, 1});
    if (status < 0 ||
        (status = es_damage_note_rows(reader, &reader->events.changed)) < 0)
        return status;
    return es_damage_note_lost(reader);
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
    return es_damage_add_events(reader, index, events, n);
}

/* --- series -------------------------------------------------------------- */

es_status es_reader_find_step(es_reader *reader, int sql, int64_t series_id,
                              int64_t from, int64_t to, int64_t *step)
{
    sqlite3_stmt *s;
    es_status status = find_statement(&s, reader, sql);
    *step = ES_UNKNOWN;
    if (status < 0)
        return status;
    to = es_reader_newest(reader, series_id, to);
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

/**
 * Finds the first and the last step of a series. Sets both to ES_UNKNOWN if the
 * series has no samples.
 */
static es_status find_ends(es_reader *reader, int64_t series_id, int64_t *first,
                           int64_t *last)
{
    es_status status;
    if ((status = es_reader_find_step(reader, ES_SQL_STEP_UP, series_id, 0,
                                      ES_MAX_STEP, first)) < 0 ||
        (status = es_reader_find_step(reader, ES_SQL_STEP_DOWN, series_id, 0,
                                      ES_MAX_STEP, last)) < 0)
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
    sqlite3_bind_int64(s, 3, es_reader_newest(reader, ours.id, ES_MAX_STEP));
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
        (is_step &&
         ((status = es_reader_find_step(reader, ES_SQL_STEP_UP, series->id,
                                        step, ES_MAX_STEP, &above)) < 0 ||
          (status = es_reader_find_step(reader, ES_SQL_STEP_DOWN, series->id, 0,
                                        step, &below)) < 0)))
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
    es_status status = es_reader_query(&s, reader, series->id, step, step);
    if (status < 0)
        return status;
    int rc = sqlite3_step(s);
    status = es_database_status(&reader->database, rc);
    if (rc == SQLITE_ROW &&
        (status = es_value_find(&bytes, reader, s, 1, series, step)) == ES_OK)
        es_value_copy(values, bytes, n);
    es_reader_end_query(reader, s);
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
        status = es_reader_find_step(
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
