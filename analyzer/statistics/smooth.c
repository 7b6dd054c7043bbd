/* A Gaussian filter of stretches of finite values, for lines of figures. GSL's
   would bring a BLAS, whose start takes longer than a table. */
#include "analyzer/statistics/smooth.h"

#include <math.h>
#include <string.h>

#define DEVIATIONS 2.5 /* on either side of the window's middle */

/* The mean about x[at] (n, all finite), of what is there: beyond an end there
   is nothing, and not its last value once more. */
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
