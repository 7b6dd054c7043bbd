/**
 * Statistics of the finite values of an array, and how far two such samples
 * lie apart. Files named stats*.c are linked into programs only, never into
 * libentropyrecord.
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

/**
 * Two-sample Kolmogorov-Smirnov statistic: the largest distance between the
 * empirical distribution functions, in [0,1]. Ties count once. NaN if either
 * sample is empty. O(n_a + n_b). Smirnov, Table for estimating the goodness
 * of fit of empirical distributions, Ann. Math. Statist. 19 (1948).
 */
double es_stats_ks(const es_distribution *a, const es_distribution *b);

/**
 * Probability that two samples of one continuous distribution, of n_a and n_b
 * independent values, lie at least `distance` apart: Kolmogorov's limiting
 * distribution at distance * (r + 0.12 + 0.11 / r), r = sqrt(n_a n_b / (n_a +
 * n_b)) (Stephens, J. R. Statist. Soc. B 32 (1970)). Of the exact probability
 * it is within 0.02 for 144 against 144 values, within 0.06 for 10 against 10
 * where that is below 0.2. NaN if distance is, or for an empty sample.
 *
 * Heads of one model are not independent: between models it ranks distances,
 * and is no proof.
 */
double es_stats_ks_p(double distance, size_t n_a, size_t n_b);

/**
 * 1-Wasserstein distance, in the unit of the values: the integral of the
 * distance between the distribution functions, which in one dimension is the
 * least mean way that mass has to go (Vallender, Theory Probab. Appl. 18
 * (1974)). NaN if either sample is empty. O(n_a + n_b).
 */
double es_stats_wasserstein(const es_distribution *a, const es_distribution *b);

#endif
