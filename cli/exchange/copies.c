/* Finds runs that several input files of a merge contain. All files are opened
   one after another to list their runs. The files that contain a copy of a run
   are then opened again to count the samples of the copies. No file stays open,
   because a merge may have thousands of inputs. */
#include "cli/exchange/copies.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/value.h"
#include "store/join/fragment.h"

#include <stdlib.h>
#include <string.h>

/* --- samples of a run
   ------------------------------------------------------ */

static es_status count_series(int64_t *n, es_reader *reader,
                              const es_series *series)
{
    es_cursor *cursor = NULL;
    int64_t step;
    const float *values;
    es_status status =
        es_cursor_open(&cursor, reader, series, ES_STEP_FIRST, ES_STEP_LAST);
    while (status == ES_OK &&
           (status = es_cursor_next(cursor, &step, &values)) == ES_OK)
        *n += es_is_measured(values, series->n_values);
    es_cursor_close(cursor);
    return status == ES_DONE ? ES_OK : status;
}

/** Sets *n to the number of samples of a run. If `readable` is true, counts
 *  only samples that can be read and are not entirely missing; otherwise counts
 *  all samples, without reading their values. */
static es_status count_samples(int64_t *n, es_reader *reader, size_t run,
                               bool readable)
{
    const size_t n_series = es_reader_n_series(reader, run);
    es_status status = ES_OK;
    *n = 0;
    for (size_t i = 0; i < n_series && status == ES_OK; i++) {
        es_series series;
        int64_t all = 0;
        status = es_reader_series(reader, run, i, &series);
        if (status == ES_OK && readable)
            status = count_series(n, reader, &series);
        else if (status == ES_OK)
            status = es_reader_count(reader, &series, &all);
        *n += all;
    }
    return status;
}

static es_status has_damage(bool *out, es_reader *reader, size_t run)
{
    const es_event *events = NULL;
    size_t n = 0;
    es_status status = es_reader_events(reader, run, &events, &n);
    *out = false;
    for (size_t i = 0; i < n && status == ES_OK; i++)
        *out = *out || strcmp(events[i].kind, "damaged") == 0;
    return status;
}

es_status es_copy_has_more(bool *out, es_reader *reader, size_t run,
                           es_reader *other, size_t other_run)
{
    int64_t n, n_other;
    bool damaged;
    es_status status;
    *out = false;
    if ((status = has_damage(&damaged, other, other_run)) != ES_OK ||
        (status = count_samples(&n, reader, run, false)) != ES_OK ||
        (status = count_samples(&n_other, other, other_run, damaged)) !=
            ES_OK ||
        n <= n_other)
        return status;
    if ((status = count_samples(&n, reader, run, true)) != ES_OK ||
        (status = count_samples(&n_other, other, other_run, true)) != ES_OK)
        return status;
    *out = n > n_other;
    return ES_OK;
}

es_status es_copy_goes_on(bool *out, es_reader *reader, size_t run,
                          es_reader *other, size_t other_run)
{
    const size_t n = es_reader_n_series(reader, run);
    *out = false;
    for (size_t i = 0; i < n && !*out; i++) {
        es_series series, found;
        es_status status = es_reader_series(reader, run, i, &series);
        if (status == ES_OK)
            status = es_reader_find(other, other_run, series.name, series.phase,
                                    &found);
        if (status != ES_OK && status != ES_ENOTFOUND)
            return status;
        *out = series.last_step != ES_UNKNOWN &&
               (status == ES_ENOTFOUND || found.last_step == ES_UNKNOWN ||
                found.last_step < series.last_step);
    }
    return ES_OK;
}

/* --- runs by uuid --------------------------------------------------------- */

typedef struct indexed_run {
    char uuid[ES_UUID_SIZE];
    size_t path, run;  /* indices */
    int64_t n_samples; /* number of readable samples; counted only if the run
                          has copies */
    bool has_copies, is_left_out;
} indexed_run;

struct es_run_index {
    indexed_run *runs; /* (n) runs, sorted by uuid */
    size_t n;
};

static int compare_uuid(const void *a, const void *b)
{
    const indexed_run *x = a, *y = b;
    return strcmp(x->uuid, y->uuid);
}

/**
 * Appends the runs of a file to the index. `reader` reads this file; `path` is
 * the index of the file among all inputs.
 */
static es_status append_runs(es_run_index *index, es_reader *reader,
                             size_t path)
{
    const size_t n = es_reader_n_runs(reader);
    es_status status = es_grow(&index->runs, index->n + n, sizeof *index->runs,
                               "the runs of all files");
    for (size_t run = 0; run < n && status == ES_OK; run++) {
        es_run_info info;
        if ((status = es_reader_run(reader, run, &info)) != ES_OK)
            return status;
        indexed_run *place = &index->runs[index->n++];
        *place = (indexed_run){.path = path, .run = run};
        memcpy(place->uuid, info.uuid, ES_UUID_SIZE);
    }
    return status;
}

es_status es_run_index_make(es_run_index **out, es_reader *reader)
{
    es_status status = es_alloc(out, 1, sizeof **out, "the runs of a file");
    if (status == ES_OK)
        status = append_runs(*out, reader, 0);
    if (status == ES_OK)
        qsort((*out)->runs, (*out)->n, sizeof *(*out)->runs, compare_uuid);
    return status;
}

bool es_run_index_find(size_t *run, const es_run_index *index, const char *uuid)
{
    indexed_run wanted = {.path = 0};
    memcpy(wanted.uuid, uuid, ES_UUID_SIZE);
    const indexed_run *found = bsearch(&wanted, index->runs, index->n,
                                       sizeof *index->runs, compare_uuid);
    if (found)
        *run = found->run;
    return found != NULL;
}

void es_run_index_free(es_run_index *index)
{
    if (!index)
        return;
    free(index->runs);
    free(index);
}

/* --- choice --------------------------------------------------------------- */

struct es_copies {
    es_run_index all;    /* all runs, in the order of the files */
    size_t *first;       /* (n_paths + 1) index of each file's first run */
    indexed_run **order; /* (all.n) pointers to all runs, sorted by uuid,
                            then by file */
    size_t n_paths;
};

static int compare_order(const void *a, const void *b)
{
    const indexed_run *const *x = a, *const *y = b;
    const int order = compare_uuid(*x, *y);
    return order ? order : (*x > *y) - (*x < *y);
}

/** Lists the runs of all files. A file that cannot be read is skipped here, and
 *  reported when it is merged. */
static es_status list_runs(es_copies *copies, char *const *paths)
{
    for (size_t i = 0; i < copies->n_paths; i++) {
        es_reader *reader = NULL;
        es_status status = es_reader_open(&reader, paths[i]);
        if (status == ES_OK)
            status = append_runs(&copies->all, reader, i);
        es_reader_close(reader);
        if (status == ES_ENOMEM)
            return status;
        copies->first[i + 1] = copies->all.n;
    }
    return ES_OK;
}

/** Marks runs that have copies. Runs with the same uuid are neighbours in the
 *  sorted order. */
static void mark_copies(es_copies *copies)
{
    indexed_run **order = copies->order;
    for (size_t i = 1; i < copies->all.n; i++)
        if (compare_uuid(order[i - 1], order[i]) == 0)
            order[i - 1]->has_copies = order[i]->has_copies = true;
}

/** Counts the readable samples of a run that has copies. If the run is a
 *  fragment of a distributed run, clears has_copies instead, because fragments
 *  share their uuid without being copies. */
static es_status count_one(indexed_run *one, es_reader *reader)
{
    es_fragment fragment = {0};
    es_status status = es_fragment_read(&fragment, reader, one->run);
    if (status == ES_OK)
        one->has_copies = false;
    es_fragment_free(&fragment);
    if (status != ES_OK && status != ES_ENOMEM)
        status = count_samples(&one->n_samples, reader, one->run, true);
    return status;
}

static es_status count_copies(es_copies *copies, char *const *paths)
{
    for (size_t i = 0; i < copies->n_paths; i++) {
        es_reader *reader = NULL;
        es_status status = ES_OK;
        for (size_t at = copies->first[i]; at < copies->first[i + 1]; at++) {
            indexed_run *one = &copies->all.runs[at];
            if (!one->has_copies)
                continue;
            if (!reader && es_reader_open(&reader, paths[i]) != ES_OK)
                break;
            if (one->run < es_reader_n_runs(reader))
                status = count_one(one, reader);
            if (status == ES_ENOMEM)
                break;
        }
        es_reader_close(reader);
        if (status == ES_ENOMEM)
            return status;
    }
    return ES_OK;
}

static void choose_copies(es_copies *copies)
{
    indexed_run *best = NULL; /* the best copy of the current uuid so far */
    for (size_t i = 0; i < copies->all.n; i++) {
        indexed_run *one = copies->order[i];
        if (!one->has_copies)
            continue;
        if (!best || compare_uuid(best, one) != 0) {
            best = one;
            continue;
        }
        indexed_run *worse = one->n_samples > best->n_samples ? best : one;
        worse->is_left_out = true;
        best = worse == best ? one : best;
    }
}

es_status es_copies_find(es_copies **out, char *const *paths, size_t n)
{
    es_status status = es_alloc(out, 1, sizeof **out, "the copies of runs");
    if (status != ES_OK)
        return status;
    es_copies *copies = *out;
    copies->n_paths = n;
    if ((status = es_alloc(&copies->first, n + 1, sizeof *copies->first,
                           "the copies of runs")) != ES_OK ||
        (status = list_runs(copies, paths)) != ES_OK ||
        (status = es_alloc(&copies->order, copies->all.n, sizeof(indexed_run *),
                           "the copies of runs")) != ES_OK)
        return status;
    for (size_t i = 0; i < copies->all.n; i++)
        copies->order[i] = &copies->all.runs[i];
    qsort(copies->order, copies->all.n, sizeof(indexed_run *), compare_order);
    mark_copies(copies);
    status = count_copies(copies, paths);
    choose_copies(copies);
    return status;
}

bool es_copies_leave_out(const es_copies *copies, size_t path, size_t run)
{
    const size_t at = copies->first[path] + run;
    return at < copies->first[path + 1] && copies->all.runs[at].is_left_out;
}

void es_copies_free(es_copies *copies)
{
    if (!copies)
        return;
    free(copies->all.runs);
    free(copies->first);
    free(copies->order);
    free(copies);
}
