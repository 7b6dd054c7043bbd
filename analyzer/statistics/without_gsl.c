/* Replaces analyzer/statistics/gsl under `make GSL=0`: functions that need GSL
   return NaN with a reason. Sorting and quantiles are implemented in plain C.
 */
#include "analyzer/statistics/smooth.h"
#include "analyzer/statistics/stats.h"
#include "analyzer/statistics/trend.h"

#include <math.h>
#include <stdlib.h>

const char *es_stats_gsl(void)
{
    return NULL;
}

void es_stats_mean(es_mean *out, const double *x, size_t n)
{
    (void)x, (void)n;
    *out = (es_mean){NAN, NAN, NAN, ES_REASON_NO_GSL};
}

void es_stats_compare_means(es_means_test *out, const double *a, size_t n_a,
                            const double *b, size_t n_b, double *space,
                            size_t *chosen)
{
    (void)a, (void)n_a, (void)b, (void)n_b, (void)space, (void)chosen;
    *out = (es_means_test){
        NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, ES_REASON_NO_GSL};
}

double es_stats_exchange_p(double *distance, const es_blocks *blocks,
                           const es_exchange_space *space)
{
    (void)blocks, (void)space;
    if (distance)
        *distance = NAN;
    return NAN;
}

void es_stats_holm(double *out, const double *p, size_t n, size_t *order)
{
    (void)p, (void)order;
    for (size_t i = 0; i < n; i++)
        out[i] = NAN;
}

void es_stats_rank_correlation(es_association *out, const double *x,
                               const double *y, size_t n, double *space,
                               size_t *order)
{
    (void)x, (void)y, (void)space, (void)order;
    *out = (es_association){n, NAN, NAN, ES_REASON_NO_GSL};
}

void es_stats_rank_groups(es_association *out, const size_t *group,
                          size_t n_groups, const double *y, size_t n,
                          double *space, size_t *order)
{
    (void)group, (void)n_groups, (void)y, (void)space, (void)order;
    *out = (es_association){n, NAN, NAN, ES_REASON_NO_GSL};
}

void es_stats_trend(es_series_trend *out, const double *x, const double *y,
                    size_t n, double *space)
{
    (void)x, (void)y, (void)space;
    *out = (es_series_trend){n, NAN, NAN, NAN, NAN, NAN, NAN, ES_REASON_NO_GSL};
}

es_status es_stats_robust(es_robust_fit *out, const double *x, const double *y,
                          size_t n)
{
    (void)x, (void)y, (void)n;
    *out = (es_robust_fit){NAN, NAN, NAN, NAN, NAN, ES_REASON_NO_GSL};
    return ES_OK;
}

es_status es_stats_spikes(float *out, const float *values, size_t n,
                          size_t window)
{
    (void)out, (void)values, (void)n, (void)window;
    return es_fail(ES_EUSAGE, "--spikes: this program is built without GSL: "
                              "build it with libgsl-dev");
}

es_status es_stats_interpolate(float *out, const int64_t *at, size_t n_at,
                               const int64_t *x, const float *values, size_t n)
{
    (void)out, (void)at, (void)n_at, (void)x, (void)values, (void)n;
    return ES_OK;
}

static int by_value(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

void es_stats_sort(float *x, size_t n)
{
    qsort(x, n, sizeof *x, by_value);
}

double es_sorted_quantile(const float *x, size_t n, double p)
{
    const double at = p * (double)(n - 1);
    const size_t below = (size_t)at;
    const double low = (double)x[below];
    if (below + 1 == n)
        return low;
    return low + (at - (double)below) * ((double)x[below + 1] - low);
}
