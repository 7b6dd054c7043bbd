/**
 * Statistics of the finite values of an array, and distances between two such
 * samples; analyzer/statistics/inference.h tests them. Linked only into
 * programs, never into libraries.
 */
#ifndef ES_STATS_H
#define ES_STATS_H

#include <stddef.h>

typedef struct es_summary {
    size_t n_finite, nonfinite, missing;
    double mean, min, max; /* of the finite values; NaN if there are none */
    double std;            /* sample standard deviation (n - 1); NaN for fewer
                              than two */
} es_summary;

/** Summarises x[0], x[stride], ... (n values), in double, with two passes. */
void es_stats_summary(es_summary *out, const float *x, size_t n, size_t stride);

/** A sample as its empirical distribution. */
typedef struct es_distribution {
    const float *sorted; /* (n_finite) ascending; owned by the caller */
    size_t n_finite, nonfinite, missing;
} es_distribution;

/**
 * Sorts the finite values of x and counts the others.
 *
 *   sorted  (n) written; `out` refers to it; must not overlap x
 *   x       (n)
 *
 * O(n log n), no allocation, any thread.
 */
void es_stats_distribution(es_distribution *out, float *sorted, const float *x,
                           size_t n);

/**
 * Returns the value below which a share p of the sample lies, p in [0,1]:
 * linear between the order statistics, p = 0 the smallest and p = 1 the
 * largest. NaN for an empty sample. Hyndman and Fan, Sample quantiles in
 * statistical packages, The American Statistician 50 (1996), definition 7.
 */
double es_stats_quantile(const es_distribution *sample, double p);

/**
 * The quantile of x (n) ascending, finite, n >= 1, p in [0,1]; and the sort
 * that must precede it. They use GSL, or plain C if built without it:
 * analyzer/statistics/without_gsl.c.
 */
double es_sorted_quantile(const float *x, size_t n, double p);
void es_stats_sort(float *x, size_t n);

/**
 * Returns the two-sample Kolmogorov-Smirnov statistic: the largest distance
 * between the empirical distribution functions, in [0,1]. Ties count once. NaN
 * if either sample is empty. O(n_a + n_b). Smirnov, Table for estimating the
 * goodness of fit of empirical distributions, Ann. Math. Statist. 19 (1948).
 */
double es_stats_ks(const es_distribution *a, const es_distribution *b);

/**
 * Returns the 1-Wasserstein distance, in the unit of the values: the integral
 * of the distance between the distribution functions, which in one dimension
 * is the smallest mean distance that mass must move (Vallender, Theory Probab.
 * Appl. 18 (1974)). NaN if either sample is empty. O(n_a + n_b).
 */
double es_stats_wasserstein(const es_distribution *a, const es_distribution *b);

#endif
