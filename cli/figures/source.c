/*
 * Reads a series of a run for figures: one sample, or all samples as lines over
 * the steps. If requested, the values of a layer's heads are reduced to one
 * number. Merges the lines of a configuration's seeds: computes their mean and
 * range at each step (interpolating runs that lack the step), and makes labels
 * with the number of seeds.
 */
#include "cli/figures/source.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/text.h"
#include "analyzer/base/value.h"
#include "analyzer/statistics/smooth.h"
#include "analyzer/statistics/stats.h"
#include "cli/runs/damage.h"
#include "cli/runs/trace.h"
#include "store/run.h"

#include <math.h>
#include <string.h>

/* An open run file and one of its series. */
typedef struct source {
    es_reader *reader;
    es_series series;
} source;

static es_status find_series(source *from, const es_run_summary *run,
                             const char *name, es_phase phase)
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
        status =
            es_fail(ES_EIO, "%s: the file changed during the read", run->path);
    return status;
}

es_status es_source_scan(es_cursor **out, es_reader *reader,
                         const es_series *series, const es_step_range *steps)
{
    return es_cursor_open(out, reader, series,
                          steps->given ? steps->first : ES_STEP_FIRST,
                          steps->given ? steps->last : ES_STEP_LAST);
}

es_status es_source_empty(es_reader *reader, const es_series *series,
                          const es_step_range *steps)
{
    if (!steps->given)
        return es_fail(ES_ENOTFOUND, "%s: series %s has no sample yet",
                       es_reader_path(reader), series->name);
    char range[ES_STEP_RANGE_MAX];
    return es_fail(ES_ENOTFOUND, "%s: series %s has no sample %s",
                   es_reader_path(reader), series->name,
                   es_step_range_print(range, steps));
}

/* Opens a series of a run. If `either` is true and the series exists only in
 * the other phase, opens it in that phase. The caller closes from->reader, also
 * after an error. */
static es_status open_source(source *from, const es_run_summary *run,
                             const char *name, es_phase phase, bool either)
{
    *from = (source){0};
    es_status status = es_source_open(&from->reader, run);
    if (status < 0)
        return status;
    status = find_series(from, run, name, phase);
    if (status == ES_ENOTFOUND && either)
        status = find_series(from, run, name,
                             phase == ES_PHASE_TRAIN ? ES_PHASE_EVAL
                                                     : ES_PHASE_TRAIN);
    return status;
}

static size_t n_rows_of(const source *from, const es_run_summary *run)
{
    return from->series.shape == ES_SHAPE_RUN ? 1 : (size_t)run->n_layer;
}

/* --- one sample -----------------------------------------------------------*/

/* Finds the newest sample at or before `step` by reading all samples up to
 * `step`. */
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
                 : es_fail(ES_ENOTFOUND,
                           "%s: series %s has no sample up to step %lld",
                           es_reader_path(from->reader), from->series.name,
                           (long long)step);
}

es_status es_slice_read(es_slice *out, es_drawing *drawing,
                        const es_run_summary *run, const char *series,
                        es_phase phase, int64_t step)
{
    source from;
    size_t n;
    *out = (es_slice){0};
    es_status status = open_source(&from, run, series, phase, true);
    if (status < 0)
        goto done;
    n = from.series.n_values;
    out->n_rows = n_rows_of(&from, run);
    out->n_columns = n / out->n_rows;
    if ((status = es_drawing_array(drawing, &out->values, n)) < 0)
        goto done;
    status = es_reader_sample(from.reader, &from.series, step, out->values, n,
                              &out->step);
    if (status == ES_ENOTFOUND)
        status = read_newest(out, &from, step);
done:
    es_damage_close(from.reader);
    return status;
}

/* --- over the steps -------------------------------------------------------*/

/* Returns the sum of the n values of x, which is finite only if all values are
 * finite. The loop has no branch per value, because figures read very many
 * values and nearly all are finite. */
static double sum_of(const float *x, size_t n)
{
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (size_t i = 0; i < n; i++)
        sum += (double)x[i];
    return sum;
}

/* Reduces the values of n heads to one number, which is missing if all heads
 * are missing. `scratch` (n) is workspace. */
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
    es_distribution sorted;
    switch (reduction) {
    case ES_REDUCE_LEAST:
        return least;
    case ES_REDUCE_MOST:
        return most;
    case ES_REDUCE_LOWER:
    case ES_REDUCE_UPPER:
        es_stats_distribution(&sorted, scratch, heads, n);
        return (float)es_stats_quantile(
            &sorted, reduction == ES_REDUCE_LOWER ? 0.25 : 0.75);
    case ES_REDUCE_SUM:
        return (float)sum;
    default:
        return (float)(sum / (double)n_finite);
    }
}

/* Describes how a sample is reduced to n_lines numbers: each is computed from
 * n_columns consecutive values of the sample. The first of these values has the
 * index `first`. */
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

static es_status push_all(es_trace *trace, es_drawing *drawing, source *from,
                          const picking *picks, const es_step_range *steps)
{
    es_cursor *cursor = NULL;
    int64_t step;
    const float *values;
    float *line, *scratch;
    es_status status;
    if ((status = es_drawing_array(drawing, &line, picks->n_lines)) < 0 ||
        (status = es_drawing_array(drawing, &scratch, picks->n_columns)) < 0)
        return status;
    status = es_source_scan(&cursor, from->reader, &from->series, steps);
    while (status == ES_OK &&
           (status = es_cursor_next(cursor, &step, &values)) == ES_OK) {
        for (size_t i = 0; i < picks->n_lines; i++)
            line[i] = reduce_row(values + picks->first + i * picks->n_columns,
                                 picks, scratch);
        es_trace_push(trace, step, line);
    }
    es_cursor_close(cursor);
    return status == ES_DONE ? ES_OK : status;
}

/* Replaces each of the n values in `best` by the value in `line` if that is
 * smaller (`least` is true) or larger (`least` is false). NaN takes precedence
 * over any number. */
static void fold_line(float *best, const float *line, size_t n, bool least)
{
    for (size_t i = 0; i < n; i++) {
        float value = line[i];
        if (es_is_missing(value) || (isnan(best[i]) && !es_is_missing(best[i])))
            continue;
        if (isnan(value) || es_is_missing(best[i]) ||
            (least ? value < best[i] : value > best[i]))
            best[i] = value;
    }
}

static es_status read_lines(es_run_lines *out, es_drawing *drawing,
                            source *from, const es_lines_query *query,
                            const picking *picks)
{
    const es_step_range all = {.given = false};
    const es_step_range *steps =
        query->every_step ? &all : &drawing->options->steps;
    es_trace *trace = NULL;
    float *line;
    es_status status;
    out->shape = from->series.shape;
    if ((status = es_trace_new(&trace, picks->n_lines)) < 0 ||
        (status = push_all(trace, drawing, from, picks, steps)) < 0)
        goto done;
    out->n_lines = query->fold ? 1 : picks->n_lines;
    out->n = es_trace_n_points(trace);
    if (out->n == 0 && steps->given) {
        status = es_source_empty(from->reader, &from->series, steps);
        goto done;
    }
    if ((status = es_drawing_array(drawing, &out->steps, out->n)) < 0 ||
        (status = es_drawing_alloc(drawing, &out->values, out->n,
                                   out->n_lines * sizeof *out->values)) < 0 ||
        (query->fold &&
         (status = es_drawing_array(drawing, &line, out->n)) < 0))
        goto done;
    es_trace_steps(trace, out->steps);
    for (size_t i = 0; i < out->n_lines; i++)
        es_trace_line(trace, i, out->values + i * out->n);
    for (size_t i = 1; query->fold && i < picks->n_lines; i++) {
        es_trace_line(trace, i, line);
        fold_line(out->values, line, out->n, query->fold == ES_FOLD_LEAST);
    }
done:
    es_trace_free(trace);
    return status;
}

static es_status pick_heads(picking *out, const es_run_summary *run,
                            const es_series *series, int64_t layer)
{
    if (series->shape != ES_SHAPE_HEAD)
        return es_fail(
            ES_ENOTFOUND,
            "%s: series %s has one value per %s, so its heads cannot "
            "be drawn",
            run->path, series->name, es_shape_name(series->shape));
    if (layer < 0 || layer >= run->n_layer)
        return es_fail(ES_ENOTFOUND,
                       "%s: no layer %lld: the last layer is %lld", run->path,
                       (long long)layer, (long long)run->n_layer - 1);
    size_t n = (size_t)run->n_head;
    *out = (picking){ES_REDUCE_NONE, (size_t)layer * n, n, 1};
    return ES_OK;
}

es_status es_lines_smooth(es_run_lines *lines, es_drawing *drawing)
{
    const size_t window = (size_t)drawing->options->smooth;
    double *weights;
    float *space;
    es_status status;
    if (window == 0)
        return ES_OK;
    if ((status = es_drawing_array(drawing, &weights, window / 2 + 1)) < 0 ||
        (status = es_drawing_array(drawing, &space, lines->n)) < 0)
        return status;
    for (size_t i = 0; i < lines->n_lines; i++)
        es_stats_smooth(lines->values + i * lines->n, lines->n, window, weights,
                        space);
    return ES_OK;
}

es_status es_lines_spikes(float **out, const es_run_lines *lines,
                          es_drawing *drawing)
{
    const size_t window = (size_t)drawing->options->spikes;
    *out = NULL;
    if (window == 0 || lines->n == 0)
        return ES_OK;
    es_status status =
        es_drawing_array(drawing, out, lines->n_lines * lines->n);
    for (size_t i = 0; i < lines->n_lines && status == ES_OK; i++)
        status =
            es_stats_spikes(*out + i * lines->n, lines->values + i * lines->n,
                            lines->n, window);
    return status;
}

es_status es_lines_read(es_run_lines *out, es_drawing *drawing,
                        const es_run_summary *run, const es_lines_query *query)
{
    source from;
    picking picks = {.reduction = query->reduction};
    *out = (es_run_lines){0};
    es_status status =
        open_source(&from, run, query->series, query->phase, query->either);
    if (status < 0)
        goto done;
    size_t n = from.series.n_values / n_rows_of(&from, run);
    picks.n_columns = query->reduction == ES_REDUCE_NONE ? 1 : n;
    picks.n_lines = from.series.n_values / picks.n_columns;
    if (!query->by_head ||
        (status = pick_heads(&picks, run, &from.series, query->layer)) == ES_OK)
        status = read_lines(out, drawing, &from, query, &picks);
done:
    es_damage_close(from.reader);
    return status;
}

/* --- seeds of a configuration --------------------------------------------- */

/* The lines of n runs that are being merged into one set of lines. */
typedef struct bundle {
    es_run_lines *runs; /* (n) */
    /* For each of the n runs, the index of its first point that is not merged
     * yet. */
    size_t *next;
    size_t n;
} bundle;

/* Returns true if the last recorded sample of any line is NaN or infinite. */
static bool ends_nonfinite(const es_run_lines *lines)
{
    for (size_t line = 0; line < lines->n_lines; line++)
        for (size_t k = lines->n; k-- > 0;) {
            float value = lines->values[line * lines->n + k];
            if (es_is_missing(value))
                continue;
            if (!isfinite(value))
                return true;
            break;
        }
    return false;
}

/* Finds the smallest step that is not merged yet; returns false if no step
 * remains. */
static bool next_step(int64_t *step, const bundle *b)
{
    bool any = false;
    for (size_t r = 0; r < b->n; r++) {
        const es_run_lines *lines = &b->runs[r];
        if (b->next[r] < lines->n &&
            (!any || lines->steps[b->next[r]] < *step)) {
            *step = lines->steps[b->next[r]];
            any = true;
        }
    }
    return any;
}

/* Computes point k of a merged line from the runs that have a sample at its
 * step. */
static void join_point(es_group_lines *out, const bundle *b, size_t line,
                       size_t k)
{
    const size_t at = line * out->mean.n + k;
    double sum = 0;
    size_t n_finite = 0;
    float low = INFINITY, high = -INFINITY, other = es_missing();
    for (size_t r = 0; r < b->n; r++) {
        const es_run_lines *lines = &b->runs[r];
        size_t i = b->next[r];
        if (i >= lines->n || lines->steps[i] != out->mean.steps[k])
            continue;
        float value = lines->values[line * lines->n + i];
        if (isfinite(value)) {
            sum += (double)value;
            low = fminf(low, value);
            high = fmaxf(high, value);
            n_finite++;
        } else if (!es_is_missing(value)) {
            other = value;
        }
    }
    out->mean.values[at] = n_finite ? (float)(sum / (double)n_finite) : other;
    out->low.values[at] = n_finite ? low : other;
    out->high.values[at] = n_finite ? high : other;
}

/* Interpolates the lines of a run at n given steps. */
static es_status align_lines(es_run_lines *lines, es_drawing *drawing,
                             int64_t *steps, size_t n)
{
    float *values;
    es_status status = es_drawing_array(drawing, &values, lines->n_lines * n);
    for (size_t i = 0; i < lines->n_lines && status == ES_OK; i++)
        status = es_stats_align(values + i * n, steps, n, lines->steps,
                                lines->values + i * lines->n, lines->n);
    lines->values = values;
    lines->steps = steps;
    lines->n = n;
    return status;
}

static es_status join_lines(es_group_lines *out, es_drawing *drawing, bundle *b)
{
    size_t n = 0, n_lines = b->runs[0].n_lines;
    int64_t step = 0;
    es_status status;
    for (size_t r = 0; r < b->n; r++)
        n += b->runs[r].n;
    es_run_lines all = {.n_lines = n_lines, .shape = b->runs[0].shape};
    if ((status = es_drawing_array(drawing, &all.steps, n)) < 0)
        return status;
    while (next_step(&step, b)) {
        all.steps[all.n++] = step;
        for (size_t r = 0; r < b->n; r++)
            while (b->next[r] < b->runs[r].n &&
                   b->runs[r].steps[b->next[r]] <= step)
                b->next[r]++;
    }
    out->mean = out->low = out->high = all;
    size_t size = n_lines * all.n;
    if ((status = es_drawing_array(drawing, &out->mean.values, size)) < 0 ||
        (status = es_drawing_array(drawing, &out->low.values, size)) < 0 ||
        (status = es_drawing_array(drawing, &out->high.values, size)) < 0)
        return status;
    for (size_t r = 0; r < b->n; r++)
        if (b->runs[r].n < all.n &&
            (status = align_lines(&b->runs[r], drawing, all.steps, all.n)) < 0)
            return status;
    memset(b->next, 0, b->n * sizeof *b->next);
    for (size_t k = 0; k < all.n; k++) {
        for (size_t r = 0; r < b->n; r++)
            while (b->next[r] < b->runs[r].n &&
                   b->runs[r].steps[b->next[r]] < all.steps[k])
                b->next[r]++;
        for (size_t line = 0; line < n_lines; line++)
            join_point(out, b, line, k);
    }
    return ES_OK;
}

es_status es_group_lines_read(es_group_lines *out, es_drawing *drawing,
                              size_t i, const es_lines_query *query,
                              bool exponential)
{
    const es_run_summary *const *members;
    const size_t n = es_drawing_members(&members, drawing, i);
    bundle b = {.n = 0};
    es_status status = ES_OK;
    *out = (es_group_lines){.n_runs = 0};
    if ((status = es_drawing_array(drawing, &b.runs, n)) < 0 ||
        (status = es_drawing_array(drawing, &b.next, n)) < 0)
        return status;
    for (size_t r = 0; r < n; r++) {
        es_run_lines *lines = &b.runs[b.n];
        status = es_lines_read(lines, drawing, members[r], query);
        if (status == ES_ENOTFOUND && (b.n || r + 1 < n))
            continue;
        if (status < 0)
            return status;
        if (b.n && lines->n_lines != b.runs[0].n_lines)
            continue; /* the file has been replaced by a run with another number
                         of layers or heads */
        for (size_t k = 0; exponential && k < lines->n_lines * lines->n; k++)
            if (!es_is_missing(lines->values[k]))
                lines->values[k] = expf(lines->values[k]);
        out->n_nonfinite += ends_nonfinite(lines);
        b.n++;
    }
    out->n_runs = b.n;
    if (b.n > 1)
        return join_lines(out, drawing, &b);
    out->mean = b.runs[0];
    return ES_OK;
}

char *es_group_label(char out[ES_GROUP_TEXT_MAX], const es_drawing *drawing,
                     size_t i, const es_group_lines *lines)
{
    size_t n_all = drawing->members ? drawing->n_of_all[i] : 1;
    const char *title = es_drawing_title(drawing, i);
    char nan[32] = "";
    if (lines->n_nonfinite)
        snprintf(nan, sizeof nan, ", %zu NaN", lines->n_nonfinite);
    if (n_all < 2)
        snprintf(out, ES_GROUP_TEXT_MAX, "%s", title);
    else if (lines->n_runs < n_all)
        snprintf(out, ES_GROUP_TEXT_MAX, "%s (%zu of %zu seeds%s)", title,
                 lines->n_runs, n_all, nan);
    else
        snprintf(out, ES_GROUP_TEXT_MAX, "%s (%zu seeds%s)", title, n_all, nan);
    return out;
}

/* --- list of series -------------------------------------------------------*/

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
            !es_series_is_member(series.name) &&
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
    es_status status = open_source(&from, run, series, ES_PHASE_TRAIN, true);
    if (status == ES_ENOTFOUND && from.reader &&
        (status = es_source_list(names, sizeof names, from.reader, run,
                                 false)) == ES_OK)
        status = es_fail(
            ES_ENOTFOUND, "%s: %s needs the series %s: the run has %s",
            run->path, label, series, *names ? names : "no samples yet");
    es_damage_close(from.reader);
    return status;
}
