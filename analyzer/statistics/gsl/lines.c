/* Finds spikes of a line with GSL's impulse filter, and evaluates a line at
   other steps with GSL's interpolation. Both functions process one group of
   consecutive finite values at a time. */
#include "analyzer/base/checked.h"
#include "analyzer/base/value.h"
#include "analyzer/statistics/smooth.h"

#include <gsl/gsl_errno.h>
#include <gsl/gsl_filter.h>
#include <gsl/gsl_interp.h>
#include <math.h>

/* Returns the index after the last of the consecutive finite values that begin
   at `from`. */
static size_t end_of(const float *values, size_t from, size_t n)
{
    while (from < n && isfinite(values[from]))
        from++;
    return from;
}

/* --- spikes ---------------------------------------------------------------*/

/* GSL's workspace for filtering consecutive finite samples. */
typedef struct impulses {
    gsl_filter_impulse_workspace *filter;
    gsl_vector *x, *y, *medians, *spreads;
    gsl_vector_int *found;
} impulses;

static bool impulses_new(impulses *out, size_t n, size_t window)
{
    out->filter = gsl_filter_impulse_alloc(window);
    out->x = gsl_vector_alloc(n);
    out->y = gsl_vector_alloc(n);
    out->medians = gsl_vector_alloc(n);
    out->spreads = gsl_vector_alloc(n);
    out->found = gsl_vector_int_alloc(n);
    return out->filter && out->x && out->y && out->medians && out->spreads &&
           out->found;
}

static void impulses_free(impulses *space)
{
    if (space->filter)
        gsl_filter_impulse_free(space->filter);
    gsl_vector_free(space->x);
    gsl_vector_free(space->y);
    gsl_vector_free(space->medians);
    gsl_vector_free(space->spreads);
    gsl_vector_int_free(space->found);
}

/* Finds the spikes among n consecutive finite values x, and writes them to
   `out`. A spike differs by at least `least` from the median of its window. */
static es_status find_spikes(float *out, const float *x, size_t n,
                             size_t window, double least)
{
    impulses space = {.filter = NULL};
    size_t n_found;
    es_status status = ES_OK;
    if (!impulses_new(&space, n, window)) {
        status = es_fail(ES_ENOMEM, "no memory for the spikes of a line");
        goto done;
    }
    for (size_t i = 0; i < n; i++)
        gsl_vector_set(space.x, i, (double)x[i]);
    gsl_filter_impulse(GSL_FILTER_END_TRUNCATE, GSL_FILTER_SCALE_MAD,
                       ES_SPIKE_DEVIATIONS, space.x, space.y, space.medians,
                       space.spreads, &n_found, space.found, space.filter);
    for (size_t i = 1; i + 1 < n; i++)
        if (gsl_vector_int_get(space.found, i) &&
            fabs((double)x[i] - gsl_vector_get(space.medians, i)) >= least &&
            ((x[i] > x[i - 1] && x[i] > x[i + 1]) ||
             (x[i] < x[i - 1] && x[i] < x[i + 1])))
            out[i] = x[i];
done:
    impulses_free(&space);
    return status;
}

es_status es_stats_spikes(float *out, const float *values, size_t n,
                          size_t window)
{
    double low = INFINITY, high = -INFINITY;
    es_status status = ES_OK;
    for (size_t i = 0; i < n; i++) {
        out[i] = es_missing();
        if (isfinite(values[i])) {
            low = fmin(low, (double)values[i]);
            high = fmax(high, (double)values[i]);
        }
    }
    gsl_set_error_handler_off();
    for (size_t i = 0, end; i < n && status == ES_OK; i = end + 1) {
        end = end_of(values, i, n);
        if (end - i > 2)
            status = find_spikes(out + i, values + i, end - i, window | 1,
                                 ES_SPIKE_LEAST * (high - low));
    }
    return status;
}

/* --- alignment ------------------------------------------------------------*/

/* Consecutive finite samples, and their interpolation by GSL. */
typedef struct stretch {
    double *x, *y; /* (n) */
    gsl_interp *line;
} stretch;

/* Prepares the interpolation of n consecutive samples. Two samples are joined
 * by a straight line, because Steffen's method needs three samples. */
static es_status stretch_new(stretch *out, const int64_t *x,
                             const float *values, size_t n)
{
    const gsl_interp_type *type =
        n > 2 ? gsl_interp_steffen : gsl_interp_linear;
    es_status status;
    if ((status = es_alloc(&out->x, n, sizeof *out->x, "a line")) < 0 ||
        (status = es_alloc(&out->y, n, sizeof *out->y, "a line")) < 0)
        return status;
    for (size_t i = 0; i < n; i++) {
        out->x[i] = (double)x[i];
        out->y[i] = (double)values[i];
    }
    out->line = gsl_interp_alloc(type, n);
    if (!out->line)
        return es_fail(ES_ENOMEM, "no memory to align lines");
    gsl_interp_init(out->line, out->x, out->y, n);
    return ES_OK;
}

/* Interpolates between consecutive finite samples. *next is the index in `at`
   of the first step to evaluate; on return, that of the first step after the
   last of these samples. */
static es_status fill_stretch(float *out, size_t *next, const int64_t *at,
                              size_t n_at, const int64_t *x,
                              const float *values, size_t n)
{
    stretch between = {.line = NULL};
    es_status status = stretch_new(&between, x, values, n);
    while (*next < n_at && at[*next] < x[0])
        ++*next;
    for (; status == ES_OK && *next < n_at && at[*next] <= x[n - 1]; ++*next)
        out[*next] = (float)gsl_interp_eval(between.line, between.x, between.y,
                                            (double)at[*next], NULL);
    gsl_interp_free(between.line);
    free(between.x);
    free(between.y);
    return status;
}

es_status es_stats_interpolate(float *out, const int64_t *at, size_t n_at,
                               const int64_t *x, const float *values, size_t n)
{
    es_status status = ES_OK;
    size_t next = 0;
    gsl_set_error_handler_off();
    for (size_t i = 0, end; i < n && status == ES_OK; i = end + 1) {
        end = end_of(values, i, n);
        if (end - i > 1)
            status =
                fill_stretch(out, &next, at, n_at, x + i, values + i, end - i);
    }
    return status;
}
