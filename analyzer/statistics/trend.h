/**
 * Tests whether a series rises or falls, and estimates how fast. Uses GSL, like
 * analyzer/statistics/inference.h; without GSL all results are NaN, with a
 * reason.
 */
#ifndef ES_TREND_H
#define ES_TREND_H

#include "analyzer/base/status.h"
#include "analyzer/statistics/inference.h"

typedef struct es_series_trend {
    size_t n;
    double slope, low, high; /* Theil-Sen slope, the median of the slopes
                                between all pairs of points, and its 95 %
                                interval (Sen, J. Am. Stat. Assoc. 63 (1968)) */
    /* p-value of the Mann-Kendall test with ties, by its normal approximation
     * (Kendall, Rank Correlation Methods (1975)); the p-value is too small if
     * points depend on earlier points. */
    double p;
    double x, y; /* medians of x and y; the trend line passes through this
                    point */
    es_reason reason;
} es_series_trend;

#define ES_TREND_LEAST 8 /* smallest number of points for es_stats_trend */

/**
 * Computes the trend of a series.
 *
 *   x      (n) strictly ascending
 *   y      (n) finite
 *   space  (max(n, n * (n - 1) / 2)) scratch, overwritten
 *
 * For fewer than ES_TREND_LEAST points, or if all y are equal, the results are
 * NaN. Costs O(n^2 log n).
 */
void es_stats_trend(es_series_trend *out, const double *x, const double *y,
                    size_t n, double *space);

/**
 * A line fitted with Tukey's bisquare weights: points far from the line have
 * little or no weight.
 */
typedef struct es_robust_fit {
    double slope, low, high; /* slope and its 95 % interval by Student's t
                                distribution; low = high if half of the
                                points lie exactly on the line */
    double x, y;      /* mean of x, and the value of the line at this mean */
    es_reason reason; /* the reason why results are NaN */
} es_robust_fit;

#define ES_ROBUST_LEAST 4 /* smallest number of points for es_stats_robust */

/**
 * Fits a straight line to y by iteratively reweighted least squares, with
 * residuals adjusted for leverage and the tuning constant 4.685 (Street,
 * Carroll and Ruppert, Am. Stat. 42 (1988)). If points depend on earlier
 * points, the interval is too narrow.
 *
 *   x, y  (n) in any order
 *
 * The results are NaN, with a reason, if there are fewer than ES_ROBUST_LEAST
 * points, if a value is not finite, if all x or all y are equal, or if the fit
 * does not converge. Allocates O(n) bytes. Returns ES_OK or ES_ENOMEM.
 */
es_status es_stats_robust(es_robust_fit *out, const double *x, const double *y,
                          size_t n) ES_MUST_USE;

/**
 * Returns the x at which the line with slope `slope` through the medians
 * (trend->x, trend->y) reaches the value y; infinite if the line never reaches
 * y.
 */
double es_trend_reaches(const es_series_trend *trend, double slope, double y);

#endif
