/* Computes the trends of runs: averages each layer over neighbouring steps in
 * the second half of the run, fits slopes to these means, and computes the
 * steps at which the fitted lines would pass a threshold. */
#include "cli/trends/trends_internal.h"

#include "analyzer/base/checked.h"

#include <math.h>
#include <string.h>

#define POINTS_MOST 64
#define SLOPES_MOST (POINTS_MOST * (POINTS_MOST - 1) / 2)

es_status es_trends_new(es_trends **out)
{
    *out = NULL;
    return es_stats_gsl()
               ? es_alloc(out, 1, sizeof **out, "trends")
               : es_fail(ES_EUSAGE, "--trends: this program is built without "
                                    "GSL: build it with libgsl-dev");
}

void es_trends_free(es_trends *trends)
{
    if (!trends)
        return;
    for (size_t i = 0; i < trends->n; i++) {
        free(trends->runs[i].path);
        free(trends->runs[i].name);
        free(trends->runs[i].series);
        free(trends->runs[i].unit);
        free(trends->runs[i].lines);
    }
    free(trends->runs);
    free(trends);
}

/* --- points ---------------------------------------------------------------*/

/* Sums of the steps and values of n neighbouring samples, whose means are a
 * point of the trend. */
typedef struct point {
    double steps, values;
    size_t n;
} point;

/* Reads the series and adds its values to `points` (n_lines, POINTS_MOST),
 * which must be zero initially. */
static es_status read_points(point *points, const es_run_trends *to,
                             es_reader *reader, const es_series *series)
{
    es_cursor *cursor = NULL;
    const float *values;
    int64_t step;
    const size_t n_columns = series->n_values / to->n;
    const double length = (double)(to->last - to->first) + 1;
    es_status status =
        es_cursor_open(&cursor, reader, series, to->first, to->last);
    if (status < 0)
        return status;
    while ((status = es_cursor_next(cursor, &step, &values)) == ES_OK) {
        size_t at = (size_t)((double)(step - to->first) / length * POINTS_MOST);
        at = at < POINTS_MOST ? at : POINTS_MOST - 1;
        for (size_t row = 0; row < to->n; row++) {
            point *here = &points[row * POINTS_MOST + at];
            es_summary of;
            es_stats_summary(&of, values + row * n_columns, n_columns, 1);
            if (of.n_finite == 0)
                continue;
            here->steps += (double)step;
            here->values += of.mean;
            here->n++;
        }
    }
    es_cursor_close(cursor);
    return status == ES_DONE ? ES_OK : status;
}

static es_status find_trend(es_line_trend *out, const point *points,
                            double *space)
{
    double x[POINTS_MOST], y[POINTS_MOST];
    size_t n = 0;
    for (size_t i = 0; i < POINTS_MOST; i++)
        if (points[i].n > 0) {
            x[n] = points[i].steps / (double)points[i].n;
            y[n++] = points[i].values / (double)points[i].n;
        }
    es_stats_trend(&out->trend, x, y, n, space);
    return es_stats_robust(&out->robust, x, y, n);
}

/* --- thresholds -----------------------------------------------------------*/

/* Returns the expected last step of the run, which is the last planned step or,
 * if that is unknown, twice the last recorded step. */
static double horizon_of(const es_run_summary *run)
{
    return run->planned_steps > 0 ? (double)run->planned_steps - 1
                                  : 2 * (double)run->step;
}

/* Computes the step at which a rising or falling line passes the next threshold
 * in its direction, if this happens before the end of the run. */
static void find_passing(es_line_trend *line, const es_run_summary *run,
                         size_t row, const es_flag_rules *flags)
{
    const double last = (double)run->step;
    const es_series_trend *trend = &line->trend;
    const bool falls = trend->slope < 0;
    const double part = falls ? flags->collapse_head : flags->overload_head;
    const double threshold = part * es_summary_layer_ceiling(run, row);
    const double now = trend->y + trend->slope * (last - trend->x);
    line->share = part;
    line->threshold = threshold;
    line->passes = line->earliest = line->latest = NAN;
    if (!(line->p_holm < 0.05) || isnan(threshold) ||
        !(falls ? now > threshold : now < threshold))
        return;
    const double at = es_trend_reaches(trend, trend->slope, threshold);
    if (!(at > last && at <= horizon_of(run)))
        return;
    const double fast = falls ? trend->low : trend->high;
    const double slow = falls ? trend->high : trend->low;
    line->passes = at;
    line->earliest = fmax(es_trend_reaches(trend, fast, threshold), last);
    line->latest = slow * trend->slope > 0
                       ? es_trend_reaches(trend, slow, threshold)
                       : (double)INFINITY;
}

/* Returns the step up to which trend lines are drawn: the latest step at which
 * any line may pass its threshold, limited by `horizon`, the expected end of
 * the run. */
static double end_of(const es_run_trends *run, double horizon)
{
    double end = (double)run->last;
    for (size_t i = 0; i < run->n; i++) {
        const es_line_trend *line = &run->lines[i];
        if (!isnan(line->passes))
            end = fmax(end, fmin(line->latest, horizon));
    }
    return end;
}

static es_status find_trends(es_run_trends *to, const point *points,
                             const es_run_summary *run)
{
    es_rules_file rules;
    double *space = NULL, *p = NULL, *adjusted = NULL;
    size_t *order = NULL;
    es_status status;
    es_rules_file_default(&rules);
    const es_flag_rules *flags = run->rules ? &run->rules->flags : &rules.flags;
    if ((status = es_alloc(&space, SLOPES_MOST, sizeof *space, "trends")) < 0 ||
        (status = es_alloc(&p, to->n, sizeof *p, "trends")) < 0 ||
        (status = es_alloc(&adjusted, to->n, sizeof *adjusted, "trends")) < 0 ||
        (status = es_alloc(&order, to->n, sizeof *order, "trends")) < 0)
        goto done;
    for (size_t i = 0; i < to->n; i++) {
        if ((status = find_trend(&to->lines[i], points + i * POINTS_MOST,
                                 space)) < 0)
            goto done;
        p[i] = to->lines[i].trend.p;
    }
    es_stats_holm(adjusted, p, to->n, order);
    for (size_t i = 0; i < to->n; i++) {
        to->lines[i].p_holm = adjusted[i];
        find_passing(&to->lines[i], run, i, flags);
    }
    to->end = end_of(to, horizon_of(run));
done:
    free(space);
    free(p);
    free(adjusted);
    free(order);
    es_rules_file_free(&rules);
    return status;
}

bool es_trend_is_named(const es_line_trend *line)
{
    return line->p_holm < 0.05 && line->trend.slope != 0;
}

bool es_trends_line(es_trend_line *out, const es_trends *trends, size_t run,
                    size_t line)
{
    if (run >= trends->n || line >= trends->runs[run].n ||
        !es_trend_is_named(&trends->runs[run].lines[line]))
        return false;
    const es_run_trends *of = &trends->runs[run];
    const es_series_trend *trend = &of->lines[line].trend;
    *out = (es_trend_line){.x = trend->x,
                           .y = trend->y,
                           .slope = trend->slope,
                           .low = trend->low,
                           .high = trend->high,
                           .first = (double)of->first,
                           .last = of->end};
    return true;
}

es_status es_trends_add(es_trends *trends, es_reader *reader, size_t run,
                        const es_run_summary *summary)
{
    point *points = NULL;
    es_series series;
    es_status status =
        es_reader_find(reader, run, summary->series, summary->phase, &series);
    if (status < 0 || (status = es_grow(&trends->runs, trends->n + 1,
                                        sizeof *trends->runs, "trends")) < 0)
        return status;
    es_run_trends *to = &trends->runs[trends->n++];
    *to = (es_run_trends){.shape = summary->shape, .n = summary->n_rows};
    to->number = summary->n_in_file > 1 ? summary->number : 0;
    to->last = summary->step;
    to->first = series.first_step +
                (int64_t)((uint64_t)(to->last - series.first_step) / 2);
    if ((status = es_copy_text(&to->path, summary->path)) < 0 ||
        (status = es_copy_text(&to->name, summary->name)) < 0 ||
        (status = es_copy_text(&to->series, summary->series)) < 0 ||
        (status = es_copy_text(&to->unit, summary->unit)) < 0 ||
        (status = es_alloc(&to->lines, to->n, sizeof *to->lines, "trends")) <
            0 ||
        (status = es_alloc(&points, to->n, POINTS_MOST * sizeof *points,
                           "trends")) < 0)
        goto done;
    if ((status = read_points(points, to, reader, &series)) == ES_OK)
        status = find_trends(to, points, summary);
done:
    free(points);
    if (status < 0)
        to->n = 0; /* if reading failed, no trends are printed for the run */
    return status;
}
