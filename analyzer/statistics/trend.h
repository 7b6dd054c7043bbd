/**
 * Does a series rise or fall, and how fast? By GSL, as
 * analyzer/statistics/inference.h; without it there is the reason alone.
 */
#ifndef ES_TREND_H
#define ES_TREND_H

#include "analyzer/base/status.h"
#include "analyzer/statistics/inference.h"

typedef struct es_series_trend {
    size_t n;
    double slope, low, high; /* Theil and Sen's median of slopes between points,
                                and its interval of 95 % (Sen, J. Am. Stat.
                                Assoc. 63 (1968)) */
    double p; /* Mann-Kendall's, for ties, by its normal approximation (Kendall,
                 Rank Correlation Methods (1975)). Points that depend on those
                 before them make it too small. */
    double x, y; /* medians: the line goes through them */
    es_reason reason;
} es_series_trend;

#define ES_TREND_LEAST 8 /* points */

/**
 *   x      (n) ascending, no two equal
 *   y      (n) finite
 *   space  (n (n - 1) / 2, and n at least) written
 *
 * Fewer than ES_TREND_LEAST points, or equal y, have no trend. O(n^2 log n).
 */
void es_stats_trend(es_series_trend *out, const double *x, const double *y,
                    size_t n, double *space);

/** A line by Tukey's bisquare: points far from it weigh little or nothing. */
typedef struct es_robust_fit {
    double slope, low, high; /* and its interval of 95 %, by Student's t; of
                                no width where half of the points lie on the
                                line exactly */
    double x, y;             /* the mean of x, and the line there */
    es_reason reason;        /* why there is none of them */
} es_robust_fit;

#define ES_ROBUST_LEAST 4 /* points */

/**
 * Fits y by a straight line: least squares iterated with weights, residuals
 * adjusted for leverage, the constant 4.685 (Street, Carroll and Ruppert, Am.
 * Stat. 42 (1988)). Points that depend on those before them make the interval
 * too narrow.
 *
 *   x, y  (n) in any order
 *
 * Fewer than ES_ROBUST_LEAST points, a value that is not finite, equal x, equal
 * y and weights that do not settle give a reason, and NaN. ES_OK, or ES_ENOMEM:
 * it allocates O(n).
 */
es_status es_stats_robust(es_robust_fit *out, const double *x, const double *y,
                          size_t n) ES_MUST_USE;

/** The x at which the line with `slope` through the medians has y; infinite if
 *  it never has. */
double es_trend_reaches(const es_series_trend *trend, double slope, double y);

#endif
