/* Smooths lines of figures with a Gaussian filter. Values that are not finite
   divide a line into segments, which are smoothed separately. GSL 2.7's filter
   is not used, because it does not renormalise the weights at the ends, which
   makes its first and last values too small. */
#include "analyzer/statistics/smooth.h"

#include "analyzer/base/value.h"
#include <math.h>
#include <string.h>

#define DEVIATIONS 2.5 /* half width of the window in standard deviations */

/* Returns the weighted mean of the values around x[at]; x has n finite values.
   Positions beyond the ends have no weight; the end values are not repeated. */
static float mean_about(const float *x, size_t at, size_t n,
                        const double *weights, size_t half)
{
    double sum = weights[0] * x[at], weight = weights[0];
    for (size_t k = 1; k <= half; k++) {
        if (k <= at) {
            sum += weights[k] * x[at - k];
            weight += weights[k];
        }
        if (k < n - at) {
            sum += weights[k] * x[at + k];
            weight += weights[k];
        }
    }
    return (float)(sum / weight);
}

void es_stats_smooth(float *values, size_t n, size_t window, double *weights,
                     float *space)
{
    const size_t half = window / 2;
    for (size_t i = 0; i <= half; i++) {
        const double at = DEVIATIONS * (double)i / (double)(half ? half : 1);
        weights[i] = exp(-at * at / 2);
    }
    if (n > 0)
        memcpy(space, values, n * sizeof *space);
    for (size_t i = 0, end; i < n; i = end + 1) {
        for (end = i; end < n && isfinite(space[end]);)
            end++;
        for (size_t k = i; k < end; k++)
            values[k] = mean_about(space + i, k - i, end - i, weights, half);
    }
}

es_status es_stats_align(float *out, const int64_t *at, size_t n_at,
                         const int64_t *x, const float *values, size_t n)
{
    for (size_t k = 0; k < n_at; k++)
        out[k] = es_missing();
    es_status status = es_stats_interpolate(out, at, n_at, x, values, n);
    for (size_t k = 0, i = 0; k < n_at && i < n;) {
        if (at[k] == x[i])
            out[k] = values[i];
        if (at[k] < x[i])
            k++;
        else
            i++;
    }
    return status;
}
