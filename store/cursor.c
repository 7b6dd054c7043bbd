/* Reads samples in order of step: one series with one query, or a whole run
   with one query per series, merged with a heap. A damaged sample is returned
   as missing values or is an error. While a file grows, its samples are copied
   in batches, and the cursor holds no read transaction between two batches.
   Otherwise a slow reader, such as a program whose output is shown in a pager,
   would keep the writer from emptying its log. */
#include "store/reader_internal.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/sized.h"

#include <stdalign.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Removes the macro that sets a size, so that the function itself can be
 * defined below. */
#undef es_cursor_next_of_run

/* Maximum size in bytes of all rows that a cursor has copied. */
#define BATCHES_BYTES (1 << 20)
#define BATCH_ROWS 1024

/** The read position in one series. */
typedef struct lane {
    es_series series;
    sqlite3_stmt *statement;
    int64_t step; /* step of the current row; before the first row: the first
                     requested step - 1 */
    int64_t to;
    int64_t last; /* last step of the series when the cursor was opened */
    const float *values;
    float *copy; /* copied rows: (capacity, n_values) in a file that grows, else
                    (n_values) for a row that is not aligned */
    int64_t *steps; /* (capacity) steps of the copied rows; NULL if rows are not
                       copied */
    size_t capacity, n_copied, at; /* capacity and used rows of `copy`, and
                                      index of the next row to return */
} lane;

/**
 * Reads several series, each by one lane, and merges the lanes by step. The
 * heap contains the lanes that have a current row, with the lowest (step,
 * index) on top. A cursor over one series has one lane.
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

/* --- heap ---------------------------------------------------------------- */

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

/* --- lanes --------------------------------------------------------------- */

/** Sets l->values to the current row's values; the values of a damaged
 *  sample are missing. */
static es_status take_values(lane *l, es_reader *reader)
{
    const void *bytes = NULL;
    size_t n = l->series.n_values;
    es_status status =
        es_value_find(&bytes, reader, l->statement, 1, &l->series, l->step);
    if (status < 0)
        return status;
    if (bytes && (uintptr_t)bytes % alignof(float) == 0) {
        l->values = bytes;
        return ES_OK;
    }
    if (!l->copy &&
        (status = es_alloc(&l->copy, n, sizeof *l->copy, "a sample")) < 0)
        return status;
    es_value_copy(l->copy, bytes, n);
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
        l->copy = copy + l->n_copied * n; /* copy of this row */
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
 * Advances the lane in a file that grows. The row at step l->last may have been
 * deleted meanwhile, because the run may have been resumed at an earlier step.
 */
static es_status advance_copy(lane *l, es_reader *reader)
{
    es_status status = ES_OK;
    if (l->at == l->n_copied)
        status = copy_rows(l, reader);
    if (status == ES_DONE && l->last != ES_UNKNOWN && l->step < l->last) {
        status = es_reader_find_step(reader, ES_SQL_STEP_DOWN, l->series.id,
                                     l->step + 1, l->to, &l->last);
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

/** Advances the lane to its next row. Returns ES_DONE if there are no more
 *  rows. */
static es_status advance(lane *l, es_reader *reader)
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
 * Prepares a lane to read the samples of a series from step `from` to step
 * `to`; `bytes` limits the memory for copied rows.
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
        es_reader_query(&l->statement, reader, series->id, from, l->to);
    if (status < 0)
        return status;
    if (reader->grows) {
        if ((status = reserve_copies(l, bytes)) < 0 ||
            (status = es_reader_find_step(reader, ES_SQL_STEP_DOWN, series->id,
                                          from, l->to, &l->last)) < 0)
            return status;
        if (l->last == ES_UNKNOWN)
            return ES_DONE;
        l->to = l->last; /* ignore rows that are added later */
        sqlite3_bind_int64(l->statement, 3, l->to);
        return advance(l, reader);
    }
    status = advance(l, reader);
    return status == ES_OK
               ? es_reader_find_step(reader, ES_SQL_STEP_DOWN, series->id, from,
                                     l->to, &l->last)
               : status;
}

/* --- cursors ------------------------------------------------------------- */

static es_status create(es_cursor **out, es_reader *reader, size_t n_lanes)
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
        (status = create(out, reader, 1)) < 0 ||
        (status = add_lane(*out, &ours, from, to, BATCHES_BYTES)) < 0) {
        es_cursor_close(*out);
        *out = NULL;
    }
    return status;
}

/**
 * Adds a lane for each of the run's n series. Each lane ends at the current
 * last step of its series.
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
        status = es_reader_series(reader, run, i, &series[i]);
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
    if ((status = create(out, reader, n)) < 0 ||
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

/** Advances the top lane after the caller has received its row. */
static es_status pass_top(es_cursor *cursor)
{
    es_status status = advance(cursor->heap[0], cursor->reader);
    if (status == ES_DONE)
        cursor->heap[0] = cursor->heap[--cursor->n_heap];
    if (status >= ES_OK && cursor->n_heap > 0)
        sift_down(cursor, 0);
    return status < 0 ? status : ES_OK;
}

/** Ends the cursor's read transactions. */
static es_status end(es_cursor *cursor, es_status status)
{
    for (size_t i = 0; i < cursor->n_lanes; i++)
        sqlite3_reset(cursor->lanes[i].statement);
    cursor->n_heap = 0;
    cursor->top_used = false;
    return status;
}

static es_status next(es_cursor *cursor, int64_t *step, const float **values)
{
    if (cursor->top_used) {
        es_status status = pass_top(cursor);
        if (status < 0)
            return end(cursor, status);
    }
    if (cursor->n_heap == 0)
        return end(cursor, ES_DONE);
    cursor->top_used = true;
    *step = cursor->heap[0]->step;
    *values = cursor->heap[0]->values;
    return ES_OK;
}

es_status es_cursor_next(es_cursor *cursor, int64_t *step, const float **values)
{
    if (cursor->of_run)
        return es_fail(ES_EARGUMENT, "the cursor runs over several series");
    return next(cursor, step, values);
}

es_status es_cursor_next_of_run(es_cursor *cursor, int64_t *step,
                                const float **values, es_series *series)
{
    es_status status = next(cursor, step, values);
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
            es_reader_end_query(cursor->reader, cursor->lanes[i].statement);
        free(cursor->lanes[i].copy);
        free(cursor->lanes[i].steps);
    }
    free(cursor->lanes);
    free(cursor->heap);
    free(cursor);
}
