/**
 * Tests whether a series rises or falls, and estimates how fast. Uses GSL,
 * like analyzer/statistics/inference.h; without it the numbers are NaN with a
 * reason.
 */
#ifndef ES_TREND_H
#define ES_TREND_H

#include "analyzer/base/status.h"
#include "analyzer/statistics/inference.h"

typedef struct es_series_trend {
    size_t n;
    double slope, low, high; /* Theil and Sen's median of the slopes between
                                points, and its 95 % interval (Sen, J. Am.
                                Stat. Assoc. 63 (1968)) */
    double p;    /* of the Mann-Kendall test with ties, by its normal
                    approximation (Kendall, Rank Correlation Methods (1975)).
                    Points that depend on earlier ones make it too small. */
    double x, y; /* medians; the line passes through them */
    es_reason reason;
} es_series_trend;

#define ES_TREND_LEAST 8 /* smallest number of points */

/**
 * Computes the trend of a series.
 *
 *   x      (n) strictly ascending
 *   y      (n) finite
 *   space  (n (n - 1) / 2, and at least n) written
 *
 * Fewer than ES_TREND_LEAST points, or equal y, have no trend. O(n^2 log n).
 */
void es_stats_trend(es_series_trend *out, const double *x, const double *y,
                    size_t n, double *space);

/** A line by Tukey's bisquare: points far from it weigh little or nothing. */
typedef struct es_robust_fit {
    double slope, low, high; /* slope and its 95 % interval, by Student's t;
                                the interval has no width if half of the points
                                lie exactly on the line */
    double x, y;             /* the mean of x, and the line's value there */
    es_reason reason;        /* why the numbers are NaN */
} es_robust_fit;

#define ES_ROBUST_LEAST 4 /* smallest number of points */

/**
 * Fits y by a straight line: iteratively weighted least squares, residuals
 * adjusted for leverage, the constant 4.685 (Street, Carroll and Ruppert, Am.
 * Stat. 42 (1988)). Points that depend on earlier ones make the interval too
 * narrow.
 *
 *   x, y  (n) in any order
 *
 * The numbers are NaN, with a reason, for fewer than ES_ROBUST_LEAST points,
 * values that are not finite, equal x, equal y, or weights that do not
 * converge. Returns ES_OK, or ES_ENOMEM, because it allocates O(n).
 */
es_status es_stats_robust(es_robust_fit *out, const double *x, const double *y,
                          size_t n) ES_MUST_USE;

/**
 * Returns the x at which the line with `slope` through the medians reaches y;
 * infinite if it never does.
 */
double es_trend_reaches(const es_series_trend *trend, double slope, double y);

#endif
