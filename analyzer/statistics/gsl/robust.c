/* Fits a straight line that is robust against outliers, with GSL's iteratively
   reweighted least squares. */
#include "analyzer/statistics/trend.h"

#include <gsl/gsl_cdf.h>
#include <gsl/gsl_errno.h>
#include <gsl/gsl_multifit.h>
#include <gsl/gsl_statistics.h>
#include <math.h>

enum { PARAMETERS = 2, ITERATIONS = 200 };

static es_reason why_not(const double *x, const double *y, size_t n)
{
    if (n < ES_ROBUST_LEAST)
        return ES_REASON_FEW;
    for (size_t i = 0; i < n; i++)
        if (!isfinite(x[i]) || !isfinite(y[i]))
            return ES_REASON_NONFINITE;
    double least, most, low, high;
    gsl_stats_minmax(&least, &most, x, 1, n);
    gsl_stats_minmax(&low, &high, y, 1, n);
    return least < most && low < high ? ES_REASON_NONE : ES_REASON_CONSTANT;
}

/* Workspace of GSL for a fit. */
typedef struct workspace {
    gsl_multifit_robust_workspace *fit;
    gsl_matrix *design, *covariance;
    gsl_vector *values, *line;
} workspace;

static bool workspace_new(workspace *out, size_t n)
{
    out->fit =
        gsl_multifit_robust_alloc(gsl_multifit_robust_bisquare, n, PARAMETERS);
    out->design = gsl_matrix_alloc(n, PARAMETERS);
    out->covariance = gsl_matrix_alloc(PARAMETERS, PARAMETERS);
    out->values = gsl_vector_alloc(n);
    out->line = gsl_vector_alloc(PARAMETERS);
    return out->fit && out->design && out->covariance && out->values &&
           out->line;
}

static void workspace_free(workspace *space)
{
    if (space->fit)
        gsl_multifit_robust_free(space->fit);
    gsl_matrix_free(space->design);
    gsl_matrix_free(space->covariance);
    gsl_vector_free(space->values);
    gsl_vector_free(space->line);
}

/* Fits the line. Uses x minus its mean, divided by its spread, because steps
   may be large numbers. If half of the points lie exactly on the line, GSL
   estimates a spread of 0 around the line and returns NaN for the error. */
static void fit_line(es_robust_fit *out, workspace *space, const double *x,
                     const double *y, size_t n)
{
    const double spread = gsl_stats_sd(x, 1, n);
    out->x = gsl_stats_mean(x, 1, n);
    for (size_t i = 0; i < n; i++) {
        gsl_matrix_set(space->design, i, 0, 1);
        gsl_matrix_set(space->design, i, 1, (x[i] - out->x) / spread);
        gsl_vector_set(space->values, i, y[i]);
    }
    gsl_multifit_robust_maxiter(ITERATIONS, space->fit);
    const int code =
        gsl_multifit_robust(space->design, space->values, space->line,
                            space->covariance, space->fit);
    const double slope = gsl_vector_get(space->line, 1) / spread;
    const double error = sqrt(gsl_matrix_get(space->covariance, 1, 1)) / spread;
    if (code != GSL_SUCCESS || !isfinite(slope)) {
        out->reason = ES_REASON_NO_FIT;
        return;
    }
    const double half =
        isnan(error)
            ? 0
            : gsl_cdf_tdist_Pinv(0.975, (double)(n - PARAMETERS)) * error;
    out->y = gsl_vector_get(space->line, 0);
    out->slope = slope;
    out->low = slope - half;
    out->high = slope + half;
}

es_status es_stats_robust(es_robust_fit *out, const double *x, const double *y,
                          size_t n)
{
    workspace space = {.design = NULL};
    *out = (es_robust_fit){NAN, NAN, NAN, NAN, NAN, why_not(x, y, n)};
    if (out->reason)
        return ES_OK;
    gsl_set_error_handler_off();
    const bool done = workspace_new(&space, n);
    if (done)
        fit_line(out, &space, x, y, n);
    workspace_free(&space);
    return done ? ES_OK : es_fail(ES_ENOMEM, "no memory for a robust fit");
}
