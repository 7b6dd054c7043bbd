/**
 * Inference from a few runs: intervals of means, tests of differences, effect
 * sizes. Uses GSL, which is under GPL-3, so only programs link it and never
 * the libraries.
 *
 * A number that cannot be computed is NaN, never 0, and a reason is given. A
 * program without GSL (`make GSL=0`) computes none of these numbers.
 *
 * All p are two-sided. Nothing here allocates; any thread. Random permutations
 * are the same on every run.
 */
#ifndef ES_INFERENCE_H
#define ES_INFERENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum es_reason {
    ES_REASON_NONE,      /* the number exists */
    ES_REASON_FEW,       /* too few finite values */
    ES_REASON_CONSTANT,  /* the values do not vary */
    ES_REASON_NO_GSL,    /* built without GSL */
    ES_REASON_NONFINITE, /* a value is NaN or infinite */
    ES_REASON_NO_FIT,    /* the fit did not converge */
    ES_N_REASONS
} es_reason;

/**
 * Returns the reason in words, such as "few values"; NULL for ES_REASON_NONE.
 */
const char *es_reason_text(es_reason reason);

/** Returns the version of GSL, such as "2.7.1"; NULL if built without it. */
const char *es_stats_gsl(void);

/** A mean and its 95 % interval, by Student's t. */
typedef struct es_mean {
    double mean, low, high; /* mean: NaN if there is no value; low, high: NaN
                               if there are fewer than two values or all are
                               equal */
    es_reason reason;       /* why there is no interval */
} es_mean;

/** Computes the mean of x (n), all finite, and its interval. */
void es_stats_mean(es_mean *out, const double *x, size_t n);

/** The test of the mean of a minus the mean of b. */
typedef struct es_means_test {
    double difference, low, high; /* 95 % interval */
    double t, freedom, p;         /* Welch's test, Biometrika 34 (1947) */
    double g; /* Hedges' g (J. Educ. Stat. 6 (1981)), with the approximation of
                 his correction, 1 - 3 / (4 (n_a + n_b) - 9) */
    double permuted;  /* p of |difference| under exchanges of values between a
                         and b: all exchanges if there are at most
                         ES_PERMUTATIONS, otherwise that many at random */
    es_reason reason; /* why the numbers are NaN */
} es_means_test;

#define ES_PERMUTATIONS 10000

/**
 * Compares the means of two samples of at least two finite values each.
 *
 *   a, b    (n_a), (n_b)
 *   space   (n_a + n_b) written
 *   chosen  (n_a) written
 *
 * If neither sample varies, only the difference is set.
 */
void es_stats_compare_means(es_means_test *out, const double *a, size_t n_a,
                            const double *b, size_t n_b, double *space,
                            size_t *chosen);

/**
 * Values of two samples in blocks that are exchanged as a whole, because the
 * heads of one layer of one run are not independent of each other.
 */
typedef struct es_blocks {
    const float *values;   /* (n) finite */
    const uint32_t *block; /* (n) the block of each value, ascending */
    size_t n;
    const uint32_t *stratum; /* (n_blocks) ascending; blocks are exchanged only
                                within a stratum, for example all layers 3 */
    const bool *first;       /* (n_blocks) true: in the first sample */
    size_t n_blocks;
} es_blocks;

/** Scratch memory that es_stats_exchange_p writes. */
typedef struct es_exchange_space {
    size_t *order;   /* (2 n) */
    float *ranks;    /* (n) */
    bool *labels;    /* (n_blocks) */
    double *weights; /* (n_blocks) */
} es_exchange_space;

/**
 * Returns p of the distance between two samples: the share of exchanges of
 * blocks, within strata, that put them at least as far apart. The distance is
 * the sum of two Kolmogorov-Smirnov distances: that of the values, and that of
 * each value's rank within its stratum, which detects a difference common to
 * all strata even if the strata lie far from each other. Exact for up to 13
 * strata with one block of each sample, otherwise from ES_EXCHANGES random
 * exchanges.
 *
 *   distance  receives the distance of the values; may be NULL
 *
 * Both are NaN if either sample has no value. With few layers p cannot be
 * small: 2 layers give at least 0.5, 6 layers 1/32. O(ES_EXCHANGES n).
 */
double es_stats_exchange_p(double *distance, const es_blocks *blocks,
                           const es_exchange_space *space);

#define ES_EXCHANGES 4096

/** How strongly y is associated with x, by ranks. */
typedef struct es_association {
    size_t n;        /* pairs */
    double strength; /* for numbers Spearman's rank correlation, in [-1,1]; for
                        groups eta squared of ranks, in [0,1]: the share of
                        their variance that lies between groups, which is
                        Kruskal and Wallis's H / (n - 1) */
    double p;        /* probability of at least this strength, in either
                        direction, if y is permuted; from 999 to 9,999 random
                        permutations, so at least 1/1,000 to 1/10,000 */
    es_reason reason;
} es_association;

/**
 * Computes the association of numbers.
 *
 *   x, y   (n) no NaN; infinities rank as the largest and smallest; equal
 *          values share their middle rank
 *   space  (2 n) written
 *   order  (n) written
 */
void es_stats_rank_correlation(es_association *out, const double *x,
                               const double *y, size_t n, double *space,
                               size_t *order);

/**
 * Computes the association of y with groups.
 *
 *   group     (n) below n_groups <= n
 *   y, order  as above
 *   space     (3 n) written
 */
void es_stats_rank_groups(es_association *out, const size_t *group,
                          size_t n_groups, const double *y, size_t n,
                          double *space, size_t *order);

/**
 * Adjusts n p-values for multiple testing by Holm's method (Scand. J. Stat. 6
 * (1979)).
 *
 *   out    (n) must not overlap p
 *   p      (n) a NaN is not a test and stays NaN
 *   order  (n) written
 */
void es_stats_holm(double *out, const double *p, size_t n, size_t *order);

#endif
