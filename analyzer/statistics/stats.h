/**
 * Computes statistics of the finite values of an array, and distances between
 * the distributions of two arrays; analyzer/statistics/inference.h has the
 * significance tests. Linked only into programs, never into the libraries.
 */
#ifndef ES_STATS_H
#define ES_STATS_H

#include <stddef.h>

typedef struct es_summary {
    size_t n_finite, nonfinite, missing;
    double mean, min, max; /* mean, smallest and largest of the finite values;
                              NaN if no value is finite */
    double std;            /* sample standard deviation (n - 1) of the finite
                              values; NaN if there are fewer than two */
} es_summary;

/** Summarises the n values x[0], x[stride], ... in double, in two passes. */
void es_stats_summary(es_summary *out, const float *x, size_t n, size_t stride);

/** The empirical distribution of a sample. */
typedef struct es_distribution {
    const float *sorted; /* the n_finite finite values in ascending order; owned
                            by the caller */
    size_t n_finite, nonfinite, missing;
} es_distribution;

/**
 * Sorts the finite values of x and counts the values that are not finite.
 *
 *   sorted  (n) receives the finite values; `out` refers to this array; must
 *           not overlap x
 *   x       (n)
 *
 * Costs O(n log n), does not allocate memory, and may be called from any
 * thread.
 */
void es_stats_distribution(es_distribution *out, float *sorted, const float *x,
                           size_t n);

/**
 * Returns the p quantile of the sample, p in [0,1], interpolated linearly
 * between its sorted values; p = 0 gives the smallest value and p = 1 the
 * largest. NaN for an empty sample. Source: Hyndman and Fan, Sample quantiles
 * in statistical packages, The American Statistician 50 (1996), definition 7.
 */
double es_stats_quantile(const es_distribution *sample, double p);

/**
 * Returns the p quantile of x (n >= 1 finite values in ascending order), p in
 * [0,1]; es_stats_sort sorts x. Both functions use GSL, or plain C if built
 * without GSL (analyzer/statistics/without_gsl.c).
 */
double es_sorted_quantile(const float *x, size_t n, double p);
void es_stats_sort(float *x, size_t n);

/**
 * Returns the two-sample Kolmogorov-Smirnov statistic: the largest distance
 * between the empirical distribution functions, in [0,1]. Equal values form a
 * single step of a distribution function. NaN if either sample is empty. Costs
 * O(n_a + n_b). Source: Smirnov, Table for estimating the goodness of fit of
 * empirical distributions, Ann. Math. Statist. 19 (1948).
 */
double es_stats_ks(const es_distribution *a, const es_distribution *b);

/**
 * Returns the 1-Wasserstein distance, in the unit of the values: the area
 * between the two distribution functions. In one dimension this is the smallest
 * mean distance by which mass must move to turn one sample into the other
 * (Vallender, Theory Probab. Appl. 18 (1974)). NaN if either sample is empty.
 * Costs O(n_a + n_b).
 */
double es_stats_wasserstein(const es_distribution *a, const es_distribution *b);

#endif
