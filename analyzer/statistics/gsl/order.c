/* Sorts finite values and computes their quantiles with GSL. */
#include "analyzer/statistics/stats.h"

#include <gsl/gsl_sort_float.h>
#include <gsl/gsl_statistics_float.h>

void es_stats_sort(float *x, size_t n)
{
    gsl_sort_float(x, 1, n);
}

double es_sorted_quantile(const float *x, size_t n, double p)
{
    return gsl_stats_float_quantile_from_sorted_data(x, 1, n, p);
}
