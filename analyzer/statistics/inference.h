/**
 * Statistical inference from a few runs: intervals of means, tests of
 * differences, effect sizes. Uses GSL, which is under GPL-3, so only the
 * programs link GSL, never the libraries.
 *
 * A result that cannot be computed is NaN, never 0, and comes with a reason. A
 * program built without GSL (`make GSL=0`) does not compute these results.
 *
 * All p-values are two-sided. The functions do not allocate memory and may be
 * called from any thread. Random permutations are the same in every call.
 */
#ifndef ES_INFERENCE_H
#define ES_INFERENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum es_reason {
    ES_REASON_NONE,      /* the result could be computed */
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

/** A mean and its 95 % interval by Student's t distribution. */
typedef struct es_mean {
    /* mean: NaN if there are no values; low, high: the interval, NaN if there
     * are fewer than two values or all are equal. */
    double mean, low, high;
    es_reason reason; /* the reason why the interval is NaN */
} es_mean;

/** Computes the mean of x (n), which must be finite, and its interval. */
void es_stats_mean(es_mean *out, const double *x, size_t n);

/** Results of comparing two samples a and b by their means. */
typedef struct es_means_test {
    double difference, low, high; /* 95 % interval */
    double t, freedom, p; /* Welch's test (Biometrika 34 (1947)): statistic,
                             degrees of freedom, p-value */
    double g; /* Hedges' g, with the approximate correction 1 - 3 / (4 * (n_a
                 + n_b) - 9) (J. Educ. Stat. 6 (1981)) */
    double permuted;  /* p-value of |difference| by permutation: the share of
                         exchanges of values between a and b after which the
                         difference is at least as large. Uses all exchanges if
                         there are at most ES_PERMUTATIONS, otherwise
                         ES_PERMUTATIONS random exchanges */
    es_reason reason; /* the reason why results are NaN */
} es_means_test;

#define ES_PERMUTATIONS 10000

/**
 * Compares the means of two samples of at least two finite values each.
 *
 *   a, b    (n_a), (n_b)
 *   space   (n_a + n_b) scratch, overwritten
 *   chosen  (n_a) scratch, overwritten
 *
 * If neither sample varies, only the difference is computed.
 */
void es_stats_compare_means(es_means_test *out, const double *a, size_t n_a,
                            const double *b, size_t n_b, double *space,
                            size_t *chosen);

/**
 * Two samples whose values are grouped in blocks. Permutations exchange whole
 * blocks, because values of the same block, such as the heads of one layer of
 * one run, are not independent of each other.
 */
typedef struct es_blocks {
    const float *values;   /* (n) finite */
    const uint32_t *block; /* (n) index of the block of each value, ascending */
    size_t n;
    /* (n_blocks) stratum of each block, ascending. Blocks are exchanged only
     * within a stratum, for example only among the third layers of all runs. */
    const uint32_t *stratum;
    const bool *first; /* (n_blocks) true if the block belongs to the
                          first sample */
    size_t n_blocks;
} es_blocks;

/** Scratch memory of es_stats_exchange_p. */
typedef struct es_exchange_space {
    size_t *order;   /* (2 n) */
    float *ranks;    /* (n) */
    bool *labels;    /* (n_blocks) */
    double *weights; /* (n_blocks) */
} es_exchange_space;

/**
 * Returns the p-value of the distance between two samples: the share of
 * exchanges of blocks within strata after which the samples are at least as far
 * apart as observed. The distance is the sum of two Kolmogorov-Smirnov
 * distances: one between the values, and one between the ranks of the values
 * within their strata. The ranks detect a difference common to all strata even
 * if the strata lie far from each other. The p-value is exact for up to 13
 * strata with one block of each sample; otherwise it is estimated from
 * ES_EXCHANGES random exchanges.
 *
 *   distance  receives the Kolmogorov-Smirnov distance of the values; may be
 *             NULL
 *
 * Both results are NaN if either sample is empty. With few layers p cannot be
 * small: it is at least 0.5 with 2 layers and at least 1/32 with 6 layers.
 * Costs O(ES_EXCHANGES * n).
 */
double es_stats_exchange_p(double *distance, const es_blocks *blocks,
                           const es_exchange_space *space);

#define ES_EXCHANGES 4096

/** The strength of the association between y and x, measured by ranks. */
typedef struct es_association {
    size_t n;        /* pairs */
    double strength; /* for numbers: Spearman's rank correlation, in [-1,1]; for
                        groups: eta squared of the ranks, in [0,1]. This is the
                        share of the ranks' variance that lies between groups,
                        and equals Kruskal and Wallis's H / (n - 1) */
    double p; /* p-value: probability of an association at least this strong,
                 in either direction, if y is randomly permuted. Estimated
                 from 999 to 9,999 permutations, so p is at least 1/1,000 to
                 1/10,000 */
    es_reason reason;
} es_association;

/**
 * Computes the association of y with the numbers x.
 *
 *   x, y   (n) values without NaN; infinities rank as the largest and smallest;
 *          equal values share their middle rank
 *   space  (2 * n) scratch, overwritten
 *   order  (n) scratch, overwritten
 */
void es_stats_rank_correlation(es_association *out, const double *x,
                               const double *y, size_t n, double *space,
                               size_t *order);

/**
 * Computes the association of y with groups.
 *
 *   group     (n) index of each value's group, below n_groups <= n
 *   y, order  same as in es_stats_rank_correlation
 *   space     (3 * n) scratch, overwritten
 */
void es_stats_rank_groups(es_association *out, const size_t *group,
                          size_t n_groups, const double *y, size_t n,
                          double *space, size_t *order);

/**
 * Adjusts n p-values for multiple testing by Holm's method (Scand. J. Stat. 6
 * (1979)).
 *
 *   out    (n) must not overlap p
 *   p      (n) p-values; a NaN is not counted as a test and stays NaN
 *   order  (n) scratch, overwritten
 */
void es_stats_holm(double *out, const double *p, size_t n, size_t *order);

#endif
