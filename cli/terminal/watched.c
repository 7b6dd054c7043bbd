/* Reads a run for the terminal: its summary, and the samples of its sparklines.
   Later reads continue after the last sample that was read. */
#include "cli/terminal/watched.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/value.h"
#include "analyzer/heads/heads.h"
#include "cli/runs/settings.h"

#include <math.h>
#include <string.h>

/* Returns the name of the series that a sparkline shows. A series with one
 * value per head, such as the largest logit, is reduced to the largest value of
 * all heads. */
const char *es_watched_line_name(int line)
{
    return line == 0 ? "loss" : es_head_statistics[ES_HEAD_MAX_LOGIT].name;
}

/* --- lines ----------------------------------------------------------------*/

/* Reduces a sample of n values to one value per sparkline. */
typedef void reduction(float *lines, size_t n_lines, const float *values,
                       size_t n);

/* Computes the mean of each layer. If a head is NaN or infinite, the mean is
 * NaN, because a mean of the finite heads would hide the problem. */
static void means(float *lines, size_t n_lines, const float *values, size_t n)
{
    const size_t n_columns = n / n_lines;
    for (size_t i = 0; i < n_lines; i++) {
        es_summary row;
        es_stats_summary(&row, values + i * n_columns, n_columns, 1);
        lines[i] = row.nonfinite  ? NAN
                   : row.n_finite ? (float)row.mean
                                  : es_missing();
    }
}

static void largest(float *lines, size_t n_lines, const float *values, size_t n)
{
    es_summary all;
    (void)n_lines;
    es_stats_summary(&all, values, n, 1);
    if (n == 1)
        *lines = *values;
    else if (all.nonfinite > 0)
        *lines = NAN;
    else
        *lines = all.n_finite > 0 ? (float)all.max : es_missing();
}

static void free_lines(es_watched_lines *lines)
{
    es_trace_free(lines->trace);
    free(lines->newest);
    *lines = (es_watched_lines){0};
}

/* Reads the sample at a step and reduces it to n_lines values, one per
 * sparkline. */
static es_status reduce_sample(float *lines, size_t n_lines, es_reader *reader,
                               const es_series *series, int64_t step,
                               reduction *reduce)
{
    const size_t n = series->n_values;
    float *values;
    int64_t found;
    es_status status = es_alloc(&values, n, sizeof *values, "a sample");
    if (status < 0)
        return status;
    if ((status = es_reader_sample(reader, series, step, values, n, &found)) ==
        ES_OK)
        reduce(lines, n_lines, values, n);
    free(values);
    return status;
}

/* Reads the samples after the step `last`, up to which samples have been read
 * before. If the sample at this step has changed, for example because a resumed
 * training run replaced it, reads all samples again. */
static es_status read_lines(es_watched_lines *lines, es_reader *reader,
                            const es_series *series, size_t n,
                            reduction *reduce)
{
    bool continued = false;
    es_cursor *cursor;
    int64_t step;
    const float *values;
    es_status status;
    if (lines->trace && lines->n == n && lines->last >= 0) {
        float *now = lines->newest + n;
        status = reduce_sample(now, n, reader, series, lines->last, reduce);
        if (status < 0 && status != ES_ENOTFOUND)
            return status;
        continued =
            status == ES_OK && memcmp(now, lines->newest, n * sizeof *now) == 0;
    }
    if (!continued) {
        free_lines(lines);
        if ((status = es_alloc(&lines->newest, n, 2 * sizeof *lines->newest,
                               "lines")) < 0)
            return status;
        lines->n = n;
        lines->last = -1;
        if ((status = es_trace_new(&lines->trace, n)) < 0)
            return status;
    }
    if ((status = es_cursor_open(&cursor, reader, series, lines->last + 1,
                                 ES_STEP_LAST)) < 0)
        return status;
    while ((status = es_cursor_next(cursor, &step, &values)) == ES_OK) {
        reduce(lines->newest, n, values, series->n_values);
        es_trace_push(lines->trace, step, lines->newest);
        lines->last = step;
    }
    es_cursor_close(cursor);
    return status == ES_DONE ? ES_OK : status;
}

static es_status read_all_lines(es_watched *run, es_reader *reader)
{
    const es_run_summary *judged = run->judged;
    es_series series;
    es_status status;
    if ((status = es_reader_find(reader, run->index, judged->series,
                                 judged->phase, &series)) < 0 ||
        (status = read_lines(&run->layers, reader, &series, judged->n_rows,
                             means)) < 0)
        return status;
    for (int i = 0; i < ES_WATCHED_LINES; i++) {
        status = es_reader_find(reader, run->index, es_watched_line_name(i),
                                judged->phase, &series);
        if (status == ES_OK)
            status = read_lines(&run->lines[i], reader, &series, 1, largest);
        if (status < 0 && status != ES_ENOTFOUND)
            return status;
    }
    return ES_OK;
}

/* Reads, from each series with a sparkline, the values at the step that is
 * shown. */
static es_status read_values(es_watched *run, es_reader *reader)
{
    const es_run_summary *shown = es_watched_shown(run);
    for (int i = 0; i < ES_WATCHED_LINES; i++) {
        es_series series;
        run->values[i] = es_missing();
        es_status status = es_reader_find(
            reader, run->index, es_watched_line_name(i), shown->phase, &series);
        if (status == ES_OK)
            status = reduce_sample(&run->values[i], 1, reader, &series,
                                   shown->step, largest);
        if (status < 0 && status != ES_ENOTFOUND)
            return status;
    }
    return ES_OK;
}

/* --- runs -----------------------------------------------------------------*/

es_run_summary *es_watched_shown(const es_watched *run)
{
    return run->moment ? run->moment : run->judged;
}

static es_status read_name(es_watched *run, es_reader *reader)
{
    es_run_info info;
    char *name;
    bool written;
    es_status status;
    if ((status = es_reader_run(reader, run->index, &info)) < 0 ||
        (status = es_copy_text(&name, info.name)) < 0)
        return status;
    free(run->name);
    run->name = name;
    status = es_reader_is_written(reader, &written);
    run->running = info.status == ES_RUN_RUNNING && status == ES_OK && written;
    return status;
}

static es_status keep_problem(es_watched *run, es_status status)
{
    free(run->problem);
    run->problem = status == ES_OK ? NULL : strdup(es_message());
    return status;
}

/* Loads the summary of a run together with the run's settings, from which
 * labels are made. */
static es_status load_summary(es_run_summary **out, const es_watched *run,
                              es_reader *reader,
                              const es_summary_options *options)
{
    es_run_summary *summary = NULL;
    es_status status = es_summary_load(&summary, reader, run->index, options);
    if (status == ES_OK &&
        (status = es_run_settings_read(summary, reader, run->index)) == ES_OK)
        *out = summary;
    else
        es_summary_free(summary);
    return status;
}

es_status es_watched_read(es_watched *run, es_reader *reader,
                          const es_summary_options *options)
{
    es_run_summary *judged = NULL;
    es_status status;
    if ((status = read_name(run, reader)) < 0 ||
        (status = load_summary(&judged, run, reader, options)) < 0)
        return keep_problem(run, status);
    es_summary_free(run->judged);
    run->judged = judged;
    run->running = strcmp(judged->status, "running") == 0;
    if ((status = read_all_lines(run, reader)) == ES_OK)
        status = read_values(run, reader);
    return keep_problem(run, status);
}

int64_t es_watched_step(const es_watched *run, int64_t step, int64_t by)
{
    const es_trace *trace = run->layers.trace;
    const size_t n = trace ? es_trace_n_points(trace) : 0;
    size_t now = 0;
    int64_t *steps;
    if (!n || es_alloc(&steps, n, sizeof *steps, "steps") < 0)
        return step;
    es_trace_steps(trace, steps);
    while (now + 1 < n && steps[now + 1] <= step)
        now++;
    int64_t to = (int64_t)now + by;
    if (to >= (int64_t)n)
        to = (int64_t)n - 1;
    step = steps[to > 0 ? to : 0];
    free(steps);
    return step;
}

es_status es_watched_move(es_watched *run, es_reader *reader, int64_t step,
                          const es_summary_options *options)
{
    es_summary_options at = *options;
    es_run_summary *moment = NULL;
    es_status status = ES_OK;
    if (!run->judged)
        return ES_OK;
    if (step != ES_STEP_LAST) {
        at.step = es_watched_step(run, step, 0);
        at.without_flags = true;
        status = load_summary(&moment, run, reader, &at);
    }
    if (status == ES_OK) {
        es_summary_free(run->moment);
        run->moment = moment;
        status = read_values(run, reader);
    }
    return keep_problem(run, status);
}

int es_watched_n_lines(const es_watched *run)
{
    int n = 0;
    for (int i = 0; i < ES_WATCHED_LINES; i++)
        n += run->lines[i].trace && es_trace_n_points(run->lines[i].trace) > 0;
    return n;
}

void es_watched_set_max(es_watched *runs, size_t n)
{
    double observed = NAN;
    for (size_t i = 0; i < n; i++)
        if (es_watched_shown(&runs[i]))
            observed = es_peak_of(observed, es_watched_shown(&runs[i])->peak);
    for (size_t i = 0; i < n; i++)
        if (es_watched_shown(&runs[i]))
            es_summary_set_max(es_watched_shown(&runs[i]), observed);
}

void es_watched_forget(es_watched *run)
{
    es_summary_free(run->judged);
    es_summary_free(run->moment);
    free_lines(&run->layers);
    for (int i = 0; i < ES_WATCHED_LINES; i++)
        free_lines(&run->lines[i]);
    free(run->name);
    free(run->problem);
    *run = (es_watched){.path = run->path, .index = run->index};
}

es_status es_watch_list_add(es_watch_list *to, const char *path, size_t index)
{
    es_status status = es_grow(&to->list, to->n + 1, sizeof *to->list, "runs");
    if (status == ES_OK)
        to->list[to->n++] = (es_watched){.path = path, .index = index};
    return status;
}

void es_watch_list_free(es_watch_list *runs)
{
    for (size_t i = 0; i < runs->n; i++)
        es_watched_forget(&runs->list[i]);
    free(runs->list);
}
