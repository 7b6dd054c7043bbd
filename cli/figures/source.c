/*
 * Reads series of a run for figures: a sample of one, or all its steps joined
 * to lines, heads reduced to a number a layer where that is requested.
 */
#include "cli/figures/source.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/text.h"
#include "analyzer/base/value.h"
#include "analyzer/statistics/stats.h"
#include "cli/runs/damage.h"
#include "cli/runs/trace.h"

#include <math.h>
#include <string.h>

/* A run file opened at one series. */
typedef struct source {
    es_reader *reader;
    es_series series;
} source;

static es_status find(source *from, const es_run_summary *run, const char *name,
                      es_phase phase)
{
    es_status status = es_reader_find(from->reader, run->number - 1, name,
                                      phase, &from->series);
    if (status == ES_OK && from->series.last_step == ES_UNKNOWN)
        status = es_fail(ES_ENOTFOUND, "%s: series %s has no sample yet",
                         run->path, name);
    return status;
}

es_status es_source_open(es_reader **out, const es_run_summary *run)
{
    es_status status = es_reader_open(out, run->path);
    if (status == ES_OK && es_reader_n_runs(*out) < run->number)
        status = es_fail(ES_EIO, "%s: changed while it was read", run->path);
    return status;
}

static es_status open_source(source *from, const es_run_summary *run,
                             const char *name, es_phase phase)
{
    *from = (source){0};
    es_status status = es_source_open(&from->reader, run);
    return status == ES_OK ? find(from, run, name, phase) : status;
}

/* In the other phase where the series is only there. */
static es_status open_either(source *from, const es_run_summary *run,
                             const char *name, es_phase phase)
{
    es_status status = open_source(from, run, name, phase);
    if (status == ES_ENOTFOUND && from->reader)
        status = find(from, run, name,
                      phase == ES_PHASE_TRAIN ? ES_PHASE_EVAL : ES_PHASE_TRAIN);
    return status;
}

/* --- one sample -----------------------------------------------------------*/

static void shape_slice(es_slice *out, const es_run_summary *run,
                        const es_series *series)
{
    out->shape = series->shape;
    out->n_rows = series->shape == ES_SHAPE_RUN ? 1 : (size_t)run->n_layer;
    out->n_columns = series->n_values / out->n_rows;
}

/* The newest sample up to `step`, by reading those before it. */
static es_status read_newest(es_slice *out, source *from, int64_t step)
{
    es_cursor *cursor = NULL;
    const float *values;
    bool found = false;
    es_status status = es_cursor_open(&cursor, from->reader, &from->series,
                                      ES_STEP_FIRST, step);
    while (status == ES_OK &&
           (status = es_cursor_next(cursor, &out->step, &values)) == ES_OK) {
        memcpy(out->values, values, from->series.n_values * sizeof *values);
        found = true;
    }
    es_cursor_close(cursor);
    if (status != ES_DONE)
        return status;
    return found ? ES_OK
                 : es_fail(ES_ENOTFOUND, "%s: series %s begins after step %lld",
                           es_reader_path(from->reader), from->series.name,
                           (long long)step);
}

es_status es_slice_read(es_slice *out, const es_run_summary *run,
                        const char *series, es_phase phase, int64_t step)
{
    source from;
    *out = (es_slice){0};
    es_status status = open_either(&from, run, series, phase);
    if (status < 0)
        goto done;
    size_t n = from.series.n_values;
    shape_slice(out, run, &from.series);
    if ((status = es_alloc(&out->values, n, sizeof *out->values, "a sample")) <
        0)
        goto done;
    status = es_reader_sample(from.reader, &from.series, step, out->values, n,
                              &out->step);
    if (status == ES_ENOTFOUND)
        status = read_newest(out, &from, step);
done:
    es_damage_close(from.reader);
    return status;
}

void es_slice_clear(es_slice *slice)
{
    free(slice->values);
    slice->values = NULL;
}

/* --- over the steps -------------------------------------------------------*/

static double quartile(const float *heads, size_t n, float *scratch, double p)
{
    es_distribution sorted;
    es_stats_distribution(&sorted, scratch, heads, n);
    return es_stats_quantile(&sorted, p);
}

/* Finite exactly when all of x are: no branch for each value, because a figure
 * reads very many and nearly all of them are finite. */
static double sum_of(const float *x, size_t n)
{
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (size_t i = 0; i < n; i++)
        sum += (double)x[i];
    return sum;
}

/* One number for heads (n); missing if all of them are. scratch (n). */
static float reduce(const float *heads, size_t n, es_reduction reduction,
                    float *scratch)
{
    double sum = 0;
    float least = INFINITY, most = -INFINITY;
    size_t n_finite = 0, n_missing = 0;
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(heads[i])) {
            n_missing += es_is_missing(heads[i]);
            continue;
        }
        sum += (double)heads[i];
        least = heads[i] < least ? heads[i] : least;
        most = heads[i] > most ? heads[i] : most;
        n_finite++;
    }
    if (!n_finite)
        return n_missing == n ? es_missing() : NAN;
    switch (reduction) {
    case ES_REDUCE_LEAST:
        return least;
    case ES_REDUCE_MOST:
        return most;
    case ES_REDUCE_LOWER:
        return (float)quartile(heads, n, scratch, 0.25);
    case ES_REDUCE_UPPER:
        return (float)quartile(heads, n, scratch, 0.75);
    case ES_REDUCE_SUM:
        return (float)sum;
    default:
        return (float)(sum / (double)n_finite);
    }
}

/* What becomes of a sample: n_lines numbers, each of n_columns values from
 * `first` on. */
typedef struct picking {
    es_reduction reduction;
    size_t first, n_lines, n_columns;
} picking;

static float reduce_row(const float *row, const picking *picks, float *scratch)
{
    size_t n = picks->n_columns;
    if (n == 1)
        return *row;
    double sum = picks->reduction == ES_REDUCE_MEAN ? sum_of(row, n) : NAN;
    return isfinite(sum) ? (float)(sum / (double)n)
                         : reduce(row, n, picks->reduction, scratch);
}

static void pick(float *line, const picking *picks, const float *values,
                 float *scratch)
{
    for (size_t i = 0; i < picks->n_lines; i++)
        line[i] = reduce_row(values + picks->first + i * picks->n_columns,
                             picks, scratch);
}

static es_status push_all(es_trace *trace, es_cursor *cursor,
                          const picking *picks)
{
    int64_t step;
    const float *values;
    float *line = NULL, *scratch = NULL;
    es_status status;
    if ((status = es_alloc(&line, picks->n_lines, sizeof *line, "lines")) < 0 ||
        (status = es_alloc(&scratch, picks->n_columns, sizeof *scratch,
                           "lines")) < 0)
        goto done;
    while ((status = es_cursor_next(cursor, &step, &values)) == ES_OK) {
        pick(line, picks, values, scratch);
        es_trace_push(trace, step, line);
    }
done:
    free(line);
    free(scratch);
    return status == ES_DONE ? ES_OK : status;
}

static es_status unfold(es_run_lines *out, const es_trace *trace)
{
    es_status status;
    out->n = es_trace_n_points(trace);
    if ((status = es_alloc(&out->steps, out->n, sizeof *out->steps, "lines")) <
            0 ||
        (status = es_alloc(&out->values, out->n,
                           out->n_lines * sizeof *out->values, "lines")) < 0)
        return status;
    es_trace_steps(trace, out->steps);
    for (size_t i = 0; i < out->n_lines; i++)
        es_trace_line(trace, i, out->values + i * out->n);
    return ES_OK;
}

static es_status read_lines(es_run_lines *out, source *from,
                            const picking *picks)
{
    es_trace *trace = NULL;
    es_cursor *cursor = NULL;
    es_status status;
    out->shape = from->series.shape;
    out->n_lines = picks->n_lines;
    if ((status = es_trace_new(&trace, out->n_lines)) == ES_OK &&
        (status = es_cursor_open(&cursor, from->reader, &from->series,
                                 ES_STEP_FIRST, ES_STEP_LAST)) == ES_OK &&
        (status = push_all(trace, cursor, picks)) == ES_OK)
        status = unfold(out, trace);
    es_cursor_close(cursor);
    es_trace_free(trace);
    return status;
}

static es_status read_reduced(es_run_lines *out, source *from,
                              const es_run_summary *run, es_reduction reduction)
{
    es_slice shape = {0};
    shape_slice(&shape, run, &from->series);
    size_t n = reduction == ES_REDUCE_NONE ? 1 : shape.n_columns;
    return read_lines(out, from,
                      &(picking){.reduction = reduction,
                                 .n_lines = from->series.n_values / n,
                                 .n_columns = n});
}

es_status es_lines_read(es_run_lines *out, const es_run_summary *run,
                        const char *series, es_phase phase,
                        es_reduction reduction)
{
    source from;
    *out = (es_run_lines){0};
    es_status status = open_source(&from, run, series, phase);
    if (status == ES_OK)
        status = read_reduced(out, &from, run, reduction);
    es_damage_close(from.reader);
    return status;
}

es_status es_lines_read_either(es_run_lines *out, const es_run_summary *run,
                               const char *series, es_phase phase,
                               es_reduction reduction)
{
    source from;
    *out = (es_run_lines){0};
    es_status status = open_either(&from, run, series, phase);
    if (status == ES_OK)
        status = read_reduced(out, &from, run, reduction);
    es_damage_close(from.reader);
    return status;
}

static es_status read_heads(es_run_lines *out, source *from,
                            const es_run_summary *run, int64_t layer)
{
    if (from->series.shape != ES_SHAPE_HEAD)
        return es_fail(ES_ENOTFOUND,
                       "%s: series %s has one value a %s: its heads cannot be "
                       "drawn",
                       run->path, from->series.name,
                       es_shape_name(from->series.shape));
    if (layer < 0 || layer >= run->n_layer)
        return es_fail(ES_ENOTFOUND, "%s: has no layer %lld: the last is %lld",
                       run->path, (long long)layer,
                       (long long)run->n_layer - 1);
    size_t n = (size_t)run->n_head;
    return read_lines(out, from,
                      &(picking){.reduction = ES_REDUCE_NONE,
                                 .first = (size_t)layer * n,
                                 .n_lines = n,
                                 .n_columns = 1});
}

es_status es_lines_read_heads(es_run_lines *out, const es_run_summary *run,
                              const char *series, es_phase phase, int64_t layer)
{
    source from;
    *out = (es_run_lines){0};
    es_status status = open_source(&from, run, series, phase);
    if (status == ES_OK)
        status = read_heads(out, &from, run, layer);
    es_damage_close(from.reader);
    return status;
}

void es_lines_clear(es_run_lines *lines)
{
    free(lines->steps);
    free(lines->values);
    *lines = (es_run_lines){0};
}

/* --- what there is --------------------------------------------------------*/

es_status es_source_list(char *out, size_t size, es_reader *reader,
                         const es_run_summary *run, bool heads)
{
    es_text list = es_text_begin(out, size);
    const char *before = "";
    for (size_t i = 0; i < es_reader_n_series(reader, run->number - 1); i++) {
        es_series series;
        es_status status =
            es_reader_series(reader, run->number - 1, i, &series);
        if (status < 0)
            return status;
        bool again = i > 0 && strcmp(series.name, before) == 0;
        before = series.name;
        if (series.last_step != ES_UNKNOWN && !again &&
            (!heads || series.shape == ES_SHAPE_HEAD))
            es_text_append(&list, "%s%s", list.length ? ", " : "", series.name);
    }
    return ES_OK;
}

es_status es_source_has(const es_run_summary *run, const char *series,
                        const char *label)
{
    source from;
    char names[1024];
    es_status status = open_either(&from, run, series, ES_PHASE_TRAIN);
    if (status == ES_ENOTFOUND && from.reader &&
        (status = es_source_list(names, sizeof names, from.reader, run,
                                 false)) == ES_OK)
        status = es_fail(
            ES_ENOTFOUND, "%s: %s needs the series %s: the run has %s",
            run->path, label, series, *names ? names : "none with a sample");
    es_damage_close(from.reader);
    return status;
}
