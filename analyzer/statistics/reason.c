/* Implements the functions of inference.h and trend.h that do not need GSL. One
   describes why a statistic is unknown, the other returns the point at which a
   trend line reaches a value. */
#include "analyzer/statistics/trend.h"

#include <math.h>

const char *es_reason_text(es_reason reason)
{
    static const char *const texts[ES_N_REASONS] = {
        [ES_REASON_FEW] = "few values",
        [ES_REASON_CONSTANT] = "equal values",
        [ES_REASON_NO_GSL] = "built without GSL",
        [ES_REASON_NONFINITE] = "values that are not finite",
        [ES_REASON_NO_FIT] = "the fit did not converge"};
    return texts[reason];
}

double es_trend_reaches(const es_series_trend *trend, double slope, double y)
{
    return slope == 0 ? (double)INFINITY : trend->x + (y - trend->y) / slope;
}
