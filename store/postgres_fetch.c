/* Fetches samples from PostgreSQL with one query: all samples of several small
   runs, or a part of one series. This process sorts the samples by series and
   step, because the server might sort them on its disk. */
#include "store/postgres_in_internal.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/text_stream.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Number of runs per query for first and last steps. */
#define STEPS_OF 64
/* Maximum number of runs in one query for samples. */
#define BLOCK_RUNS_MOST 256
#define FROM_SAMPLE                                                            \
    " FROM entropy_scan.sample WHERE run_id = %" PRId64                        \
    " AND series = %" PRId64 " AND month = '%s' AND step BETWEEN %" PRId64     \
    " AND %" PRId64

/* --- fetched rows --------------------------------------------------------- */

void es_remote_rows_release(es_remote_rows *rows)
{
    if (!rows || --rows->n_uses > 0)
        return;
    free(rows->rows);
    free(rows->data);
    free(rows->has_kind);
    free(rows);
}

static int by_place(const void *a, const void *b)
{
    const es_remote_row *x = a, *y = b;
    if (x->series != y->series)
        return x->series < y->series ? -1 : 1;
    return (x->step > y->step) - (x->step < y->step);
}

static void sort(es_remote_rows *rows)
{
    for (size_t i = 1; i < rows->n; i++)
        if (by_place(&rows->rows[i - 1], &rows->rows[i]) > 0) {
            qsort(rows->rows, rows->n, sizeof *rows->rows, by_place);
            return;
        }
}

/** Grows the data buffer so that n more bytes fit. */
static es_status reserve(es_remote_rows *rows, size_t *capacity, size_t n)
{
    if (rows->n_data + n <= *capacity)
        return ES_OK;
    const size_t size =
        *capacity * 2 > rows->n_data + n ? *capacity * 2 : rows->n_data + n;
    es_status status = es_grow(&rows->data, size, 1, "samples");
    if (status == ES_OK)
        *capacity = size;
    return status;
}

/**
 * Finds a series of a run by its number in PostgreSQL. Returns its index, or
 * (size_t)-1 if the series was added after the runs were loaded.
 */
static size_t find_series(const es_remote *remote, const es_remote_run *run,
                          int64_t number)
{
    size_t low = run->first_series, high = low + run->n_series;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (remote->series[middle].number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low < run->first_series + run->n_series &&
                   remote->series[low].number == number
               ? low
               : (size_t)-1;
}

/**
 * Adds a row with run_id, series, step, crc and, if requested, value to the
 * fetched samples.
 */
static es_status take_row(es_remote_rows *rows, size_t *capacity,
                          const es_remote *remote, es_remote_copy *copy,
                          bool with_values)
{
    const es_remote_run *run =
        es_remote_find_run(remote, es_remote_copy_integer(copy));
    const int64_t number = es_remote_copy_integer(copy);
    const size_t series = run ? find_series(remote, run, number) : (size_t)-1;
    if (series == (size_t)-1)
        return ES_OK;
    const size_t n = remote->series[series].n_values;
    es_status status;
    if ((status = es_reserve_next(&rows->rows, rows->n, sizeof *rows->rows)) <
            0 ||
        (with_values &&
         (status = reserve(rows, capacity, n * sizeof(float))) < 0))
        return status;
    es_remote_row *row = &rows->rows[rows->n++];
    *row = (es_remote_row){.series = (uint32_t)series, .at = rows->n_data};
    row->step = es_remote_copy_integer(copy);
    row->crc = (int32_t)es_remote_copy_integer(copy);
    if (with_values &&
        es_remote_copy_array(copy, rows->data + rows->n_data, n)) {
        row->n = n * sizeof(float);
        rows->n_data += row->n;
    }
    return ES_OK;
}

/** Receives all rows of a running query. */
static es_status take_rows(es_remote_rows **out, const es_remote *remote,
                           es_remote_copy *copy, bool with_values)
{
    size_t capacity = 0;
    es_status status = es_alloc(out, 1, sizeof **out, "samples");
    if (status < 0)
        return status;
    (*out)->n_uses = 1;
    while (status == ES_OK &&
           (status = es_remote_copy_next(copy, with_values ? 5 : 4)) == ES_OK)
        status = take_row(*out, &capacity, remote, copy, with_values);
    if (status == ES_DONE) {
        sort(*out);
        return ES_OK;
    }
    es_remote_rows_release(*out);
    *out = NULL;
    return status;
}

/* --- queries -------------------------------------------------------------- */

/**
 * Writes two SQL lists for the runs [first, end): the list of their months, and
 * a list of their ids or, if `with_series` is set, of (run, series) pairs of
 * the wanted series, such as (1,2).
 */
static es_status list_runs(char **ids, char **months, const es_remote *remote,
                           size_t first, size_t end, bool with_series)
{
    const char *last = "";
    size_t n;
    FILE *id = es_text_stream(ids, &n);
    FILE *month = es_text_stream(months, &n);
    for (size_t i = first; i < end && id && month; i++) {
        const es_remote_run *run = &remote->runs[i];
        if (run->left_out)
            continue;
        if (!with_series)
            fprintf(id, "%s%" PRId64, ftell(id) ? "," : "", run->id);
        for (size_t k = 0; with_series && k < run->n_series; k++) {
            const es_remote_series *s = &remote->series[run->first_series + k];
            if (remote->kinds[s->kind].is_wanted)
                fprintf(id, "%s(%" PRId64 ",%" PRId64 ")", ftell(id) ? "," : "",
                        run->id, s->number);
        }
        if (strcmp(run->month, last) != 0)
            fprintf(month, "%s'%s'", ftell(month) ? "," : "", run->month);
        last = run->month;
    }
    if (id && fclose(id) == 0 && month && fclose(month) == 0)
        return ES_OK;
    return es_fail(ES_ENOMEM, "out of memory for a query");
}

size_t es_remote_series_bytes(const es_remote_series *series)
{
    if (series->n_samples < 0 || series->n_samples > ES_REMOTE_BLOCK_BYTES)
        return ES_REMOTE_BLOCK_BYTES;
    return (size_t)series->n_samples *
           (series->n_values * sizeof(float) + sizeof(es_remote_row));
}

size_t es_remote_run_bytes(const es_remote *remote, size_t run)
{
    const es_remote_run *r = &remote->runs[run];
    size_t bytes = 0;
    for (size_t i = 0; i < r->n_series; i++) {
        const es_remote_series *s = &remote->series[r->first_series + i];
        if (remote->kinds[s->kind].is_wanted)
            bytes += es_remote_series_bytes(s);
    }
    return bytes;
}

/**
 * Returns the end of the block of runs that begins with `run`. The first block
 * has only one run, because it is not known yet which kinds of series are
 * wanted.
 */
static size_t end_of_block(const es_remote *remote, size_t run)
{
    size_t end = run + 1, bytes = es_remote_run_bytes(remote, run);
    while (remote->block && end < remote->n_runs &&
           end - run < BLOCK_RUNS_MOST) {
        bytes += es_remote_run_bytes(remote, end);
        if (bytes > ES_REMOTE_BLOCK_BYTES)
            break;
        end++;
    }
    return end;
}

static es_status note_kinds(es_remote_rows *rows, const es_remote *remote)
{
    es_status status = es_alloc(&rows->has_kind, remote->n_kinds,
                                sizeof *rows->has_kind, "samples");
    for (size_t i = 0; i < remote->n_kinds && status == ES_OK; i++)
        rows->has_kind[i] = remote->kinds[i].is_wanted;
    return status;
}

es_status es_remote_fetch_runs(es_remote *remote, size_t run)
{
    es_remote_copy copy = {.postgres = NULL};
    es_remote_rows *rows = NULL;
    char *ids = NULL, *months = NULL;
    const size_t end = end_of_block(remote, run);
    es_status status = list_runs(&ids, &months, remote, run, end, true);
    if (status == ES_OK)
        status = es_remote_copy_begin(
            &copy, remote->postgres,
            "SELECT run_id, series, step, crc, value FROM (VALUES %s)"
            " AS wanted(run_id, series) JOIN entropy_scan.sample"
            " USING (run_id, series) WHERE month IN (%s)",
            ids, months);
    if (status == ES_OK)
        status = take_rows(&rows, remote, &copy, true);
    es_remote_copy_end(&copy);
    free(ids);
    free(months);
    if (status < 0)
        return status;
    if ((status = note_kinds(rows, remote)) < 0) {
        es_remote_rows_release(rows);
        return status;
    }
    rows->first_run = run;
    rows->end_run = end;
    es_remote_rows_release(remote->block);
    remote->block = rows;
    return ES_OK;
}

es_status es_remote_fetch_piece(es_remote_rows **out, es_remote *remote,
                                size_t series, int64_t from, int64_t to,
                                size_t most, bool falling, bool with_values)
{
    const es_remote_series *s = &remote->series[series];
    const es_remote_run *run = &remote->runs[s->run];
    es_remote_copy copy = {.postgres = NULL};
    *out = NULL;
    es_status status =
        es_remote_copy_begin(&copy, remote->postgres,
                             "SELECT run_id, series, step, crc%s" FROM_SAMPLE
                             " ORDER BY step %s LIMIT %zu",
                             with_values ? ", value" : "", run->id, s->number,
                             run->month, from, to, falling ? "DESC" : "", most);
    if (status == ES_OK)
        status = take_rows(out, remote, &copy, with_values);
    es_remote_copy_end(&copy);
    return status;
}

static void take_steps(es_remote *remote, es_remote_copy *copy)
{
    const es_remote_run *run =
        es_remote_find_run(remote, es_remote_copy_integer(copy));
    const int64_t number = es_remote_copy_integer(copy);
    const size_t series = run ? find_series(remote, run, number) : (size_t)-1;
    if (series == (size_t)-1)
        return;
    remote->series[series].first = es_remote_copy_integer(copy);
    remote->series[series].last = es_remote_copy_integer(copy);
}

es_status es_remote_find_steps(es_remote *remote, size_t run)
{
    es_remote_copy copy = {.postgres = NULL};
    char *ids = NULL, *months = NULL;
    const size_t end =
        remote->n_runs - run < STEPS_OF ? remote->n_runs : run + STEPS_OF;
#define ONE_STEP(order)                                                        \
    "(SELECT step FROM entropy_scan.sample a WHERE a.run_id = series.run_id"   \
    " AND a.series = series.series AND a.month = run.month"                    \
    " ORDER BY step " order " LIMIT 1)"
    es_status status = list_runs(&ids, &months, remote, run, end, false);
    if (status == ES_OK)
        status = es_remote_copy_begin(
            &copy, remote->postgres,
            "SELECT series.run_id, series, " ONE_STEP("") ", " ONE_STEP(
                "DESC") " FROM entropy_scan.series JOIN entropy_scan.run USING "
                        "(run_id)"
                        " WHERE series.run_id IN (%s)",
            ids);
    while (status == ES_OK && (status = es_remote_copy_next(&copy, 4)) == ES_OK)
        take_steps(remote, &copy);
    es_remote_copy_end(&copy);
    free(ids);
    free(months);
    if (status < 0)
        return status;
    for (size_t i = run; i < end; i++)
        for (size_t k = 0; k < remote->runs[i].n_series; k++)
            remote->series[remote->runs[i].first_series + k].has_steps = true;
    return ES_OK;
}
