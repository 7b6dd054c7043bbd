/**
 * Statistics of the finite values of an array, and how far two such samples
 * lie apart; what that proves is analyzer/statistics/inference.h. Linked into
 * programs only, never into libraries.
 */
#ifndef ES_STATS_H
#define ES_STATS_H

#include <stddef.h>

typedef struct es_summary {
    size_t n_finite, nonfinite, missing;
    double mean, min, max; /* of the finite values; NaN if there are none */
    double std;            /* of a sample (n - 1); NaN for fewer than two */
} es_summary;

/** Summary of x[0], x[stride], ... (n values). In double, two passes. */
void es_stats_summary(es_summary *out, const float *x, size_t n, size_t stride);

/** A sample as its empirical distribution. */
typedef struct es_distribution {
    const float *sorted; /* (n_finite) ascending; the caller's */
    size_t n_finite, nonfinite, missing;
} es_distribution;

/**
 * Sorts the finite values of x and counts the others.
 *
 *   sorted  (n) written, and kept by out; must not overlap x
 *   x       (n)
 *
 * O(n log n), no allocation, any thread.
 */
void es_stats_distribution(es_distribution *out, float *sorted, const float *x,
                           size_t n);

/**
 * The value below which a share p of the sample lies, p in [0,1]: linear
 * between the order statistics, p = 0 the smallest and p = 1 the largest.
 * NaN for an empty sample. Hyndman and Fan, Sample quantiles in statistical
 * packages, The American Statistician 50 (1996), definition 7.
 */
double es_stats_quantile(const es_distribution *sample, double p);

/** Of x (n) ascending, finite, n >= 1, p in [0,1]; the sort before it. By GSL,
 *  or, built without it, in C: analyzer/statistics/without_gsl.c. */
double es_sorted_quantile(const float *x, size_t n, double p);
void es_stats_sort(float *x, size_t n);

/**
 * Two-sample Kolmogorov-Smirnov statistic: the largest distance between the
 * empirical distribution functions, in [0,1]. Ties count once. NaN if either
 * sample is empty. O(n_a + n_b). Smirnov, Table for estimating the goodness
 * of fit of empirical distributions, Ann. Math. Statist. 19 (1948).
 */
double es_stats_ks(const es_distribution *a, const es_distribution *b);

/**
 * 1-Wasserstein distance, in the unit of the values: the integral of the
 * distance between the distribution functions, which in one dimension is the
 * least mean way that mass has to go (Vallender, Theory Probab. Appl. 18
 * (1974)). NaN if either sample is empty. O(n_a + n_b).
 */
double es_stats_wasserstein(const es_distribution *a, const es_distribution *b);

#endif
