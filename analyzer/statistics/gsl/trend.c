/* Computes trends that are robust against outliers: the Mann-Kendall test and
   the Theil-Sen slope. */
#include "analyzer/statistics/trend.h"

#include <gsl/gsl_cdf.h>
#include <gsl/gsl_math.h>
#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics.h>
#include <math.h>
#include <string.h>

/* Returns 18 times the variance of Kendall's rank statistic S for n distinct
   values. Each group of equal values reduces this number by the function's
   value for the size of the group. */
static double spread_of(double n)
{
    return n * (n - 1) * (2 * n + 5);
}

/* Returns the variance of Kendall's rank statistic S for the values y, some of
   which may be equal. Sorts y. */
static double variance_of(double *y, size_t n)
{
    double sum = spread_of((double)n);
    gsl_sort(y, 1, n);
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && y[end] == y[i];)
            end++;
        sum -= spread_of((double)(end - i));
    }
    return sum / 18;
}

void es_stats_trend(es_series_trend *out, const double *x, const double *y,
                    size_t n, double *space)
{
    *out = (es_series_trend){n, NAN, NAN, NAN, NAN, NAN, NAN, ES_REASON_FEW};
    if (n < ES_TREND_LEAST)
        return;
    memcpy(space, y, n * sizeof *y);
    const double sigma = sqrt(variance_of(space, n));
    out->x = gsl_stats_median_from_sorted_data(x, 1, n);
    out->y = gsl_stats_median_from_sorted_data(space, 1, n);
    out->reason = sigma > 0 ? ES_REASON_NONE : ES_REASON_CONSTANT;
    if (out->reason)
        return;
    double kendall = 0;
    size_t n_slopes = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < i; k++) {
            space[n_slopes++] = (y[i] - y[k]) / (x[i] - x[k]);
            kendall += GSL_SIGN(y[i] - y[k]) * (y[i] != y[k]);
        }
    gsl_sort(space, 1, n_slopes);
    const double half = gsl_cdf_ugaussian_Pinv(0.975) * sigma;
    const double low = rint(((double)n_slopes - half) / 2) - 1;
    const double high = rint(((double)n_slopes + half) / 2);
    out->slope = gsl_stats_median_from_sorted_data(space, 1, n_slopes);
    out->low = space[(size_t)GSL_MAX_DBL(low, 0)];
    out->high = space[(size_t)GSL_MIN_DBL(high, (double)n_slopes - 1)];
    out->p = 2 * gsl_cdf_ugaussian_Q(fabs(kendall) / sigma);
}
