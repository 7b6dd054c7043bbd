/* Samples in order of step: of one series by a query, of a whole run by as many
   queries merged with a heap. What is damaged is handed out as missing values
   or is an error. */
#include "store/reader_internal.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/sized.h"

#include <stdalign.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Defined here without the macros that set a size. */
#undef es_cursor_next_of_run

/** One series under way. */
typedef struct lane {
    es_series series;
    sqlite3_stmt *statement;
    int64_t step; /* of the row it stands on; before the first: from - 1 */
    int64_t to;
    int64_t last; /* as a search from the end finds it */
    const float *values;
    float *copy; /* (n_values) only if a row came unaligned */
} lane;

/**
 * Lanes merged by step: the heap holds those that stand on a row, the lowest
 * (step, index) on top. A cursor over one series has one lane.
 */
struct es_cursor {
    es_reader *reader;
    bool of_run;
    bool top_used; /* the caller has the top's row: step it first */
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

/** A damaged sample's are missing. */
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

/** The lane's next row. ES_DONE: it has no more. */
static es_status advance(lane *l, es_reader *reader)
{
    const es_database *database = &reader->database;
    int rc = sqlite3_step(l->statement);
    if (rc == SQLITE_DONE && l->last != ES_UNKNOWN && l->step < l->last)
        return es_fail(ES_EFORMAT,
                       "%s: damaged: %s: samples from step %lld to %lld are "
                       "lost",
                       database->path, l->series.name, (long long)l->step + 1,
                       (long long)l->last);
    if (rc == SQLITE_DONE)
        return ES_DONE;
    if (rc != SQLITE_ROW)
        return es_database_fail(database, rc);
    int64_t step = sqlite3_column_int64(l->statement, 0);
    if (step <= l->step || step > l->to)
        return es_fail(ES_EFORMAT, "%s: damaged: %s: steps out of order",
                       database->path, l->series.name);
    l->step = step;
    return take_values(l, reader);
}

static es_status start_lane(lane *l, es_reader *reader, const es_series *series,
                            int64_t from, int64_t to)
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
                          int64_t from, int64_t to)
{
    lane *l = &cursor->lanes[cursor->n_lanes++];
    es_status status = start_lane(l, cursor->reader, series, from, to);
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
        (status = add_lane(*out, &ours, from, to)) < 0) {
        es_cursor_close(*out);
        *out = NULL;
    }
    return status;
}

es_status es_cursor_open_run(es_cursor **out, es_reader *reader, size_t run)
{
    es_series series;
    size_t n = es_reader_n_series(reader, run);
    es_status status;
    *out = NULL;
    if (run >= es_reader_n_runs(reader))
        return es_fail(ES_EARGUMENT, "%s: no run of index %zu",
                       es_reader_path(reader), run);
    if ((status = create(out, reader, n)) < 0)
        goto failed;
    for (size_t i = 0; i < n; i++)
        if ((status = es_reader_series(reader, run, i, &series)) < 0 ||
            (status = add_lane(*out, &series, 0, ES_MAX_STEP)) < 0)
            goto failed;
    es_cursor *cursor = *out;
    cursor->of_run = true;
    for (size_t i = cursor->n_heap / 2; i-- > 0;)
        sift_down(cursor, i);
    return ES_OK;
failed:
    es_cursor_close(*out);
    *out = NULL;
    return status;
}

/** Moves the top, whose row the caller has had. */
static es_status pass_top(es_cursor *cursor)
{
    es_status status = advance(cursor->heap[0], cursor->reader);
    if (status == ES_DONE)
        cursor->heap[0] = cursor->heap[--cursor->n_heap];
    if (status >= ES_OK && cursor->n_heap > 0)
        sift_down(cursor, 0);
    return status < 0 ? status : ES_OK;
}

/** Lets go of the file's state. */
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
    }
    free(cursor->lanes);
    free(cursor->heap);
    free(cursor);
}
