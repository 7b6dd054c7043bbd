/* Summarises values of which some may be missing or not finite: computes the
   moments of the finite values. */
#include "analyzer/statistics/stats.h"

#include "analyzer/base/value.h"
#include <math.h>

static double squares_about(double mean, const float *x, size_t n,
                            size_t stride)
{
    double squares = 0;
    for (size_t i = 0; i < n; i++) {
        double distance = x[i * stride] - mean;
        if (isfinite(x[i * stride]))
            squares += distance * distance;
    }
    return squares;
}

void es_stats_summary(es_summary *out, const float *x, size_t n, size_t stride)
{
    *out = (es_summary){.mean = NAN, .min = NAN, .max = NAN, .std = NAN};
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        float value = x[i * stride];
        if (es_is_missing(value)) {
            out->missing++;
        } else if (!isfinite(value)) {
            out->nonfinite++;
        } else {
            out->n_finite++;
            sum += value;
            out->min = fmin(out->min, value); /* fmin and fmax replace the
                                                 initial NaN by the first
                                                 value */
            out->max = fmax(out->max, value);
        }
    }
    if (out->n_finite > 0)
        out->mean = sum / (double)out->n_finite;
    if (out->n_finite > 1)
        out->std = sqrt(squares_about(out->mean, x, n, stride) /
                        (double)(out->n_finite - 1));
}
