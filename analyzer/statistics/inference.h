/**
 * What a few runs prove: intervals of means, tests of differences, effect
 * sizes. By GSL, which is under GPL-3: programs link it, libraries never do.
 *
 * Where there is no number it is NaN and a reason is given, never 0. A program
 * without GSL (`make GSL=0`) has no number at all.
 *
 * p are two-sided. Nothing here allocates; any thread. Random permutations are
 * the same on every run.
 */
#ifndef ES_INFERENCE_H
#define ES_INFERENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum es_reason {
    ES_REASON_NONE,      /* there is a number */
    ES_REASON_FEW,       /* too few finite values */
    ES_REASON_CONSTANT,  /* the values do not vary */
    ES_REASON_NO_GSL,    /* built without it */
    ES_REASON_NONFINITE, /* a value is NaN or infinite */
    ES_REASON_NO_FIT,    /* it did not settle */
    ES_N_REASONS
} es_reason;

/** "few values"; NULL for ES_REASON_NONE. */
const char *es_reason_text(es_reason reason);

/** The version of GSL, "2.7.1"; NULL: built without it. */
const char *es_stats_gsl(void);

/** A mean and its interval of 95 %, by Student's t. */
typedef struct es_mean {
    double mean, low, high; /* mean: NaN of none; low, high: and of one value,
                               or of equal ones */
    es_reason reason;       /* why there is no interval */
} es_mean;

/** x: (n) finite. */
void es_stats_mean(es_mean *out, const double *x, size_t n);

/** The mean of a less the mean of b. */
typedef struct es_means_test {
    double difference, low, high; /* interval of 95 % */
    double t, freedom, p;         /* Welch, Biometrika 34 (1947) */
    double g; /* Hedges (J. Educ. Stat. 6 (1981)), with the approximation of
                 his correction, 1 - 3 / (4 (n_a + n_b) - 9) */
    double permuted;  /* p of |difference| where values of a and b exchange:
                         all ways up to ES_PERMUTATIONS, else so many */
    es_reason reason; /* why there is none of them */
} es_means_test;

#define ES_PERMUTATIONS 10000

/**
 * Of two samples of two finite values or more.
 *
 *   a, b   (n_a), (n_b)
 *   space  (n_a + n_b) written
 *   chosen (n_a) written
 *
 * If neither varies there is the difference alone.
 */
void es_stats_compare_means(es_means_test *out, const double *a, size_t n_a,
                            const double *b, size_t n_b, double *space,
                            size_t *chosen);

/** Values of two samples in blocks that exchange as a whole: the heads of one
 *  layer of one run are not independent of each other. */
typedef struct es_blocks {
    const float *values;   /* (n) finite */
    const uint32_t *block; /* (n) of each value, ascending */
    size_t n;
    const uint32_t *stratum; /* (n_blocks) ascending: within one of them, all
                                layers 3 say, blocks exchange */
    const bool *first;       /* (n_blocks) of the first sample */
    size_t n_blocks;
} es_blocks;

/** Written by es_stats_exchange_p. */
typedef struct es_exchange_space {
    size_t *order;   /* (2 n) */
    float *ranks;    /* (n) */
    bool *labels;    /* (n_blocks) */
    double *weights; /* (n_blocks) */
} es_exchange_space;

/**
 * p of how far two samples lie apart: the share of exchanges of blocks, within
 * strata, that put them as far apart or farther. How far is the sum of two
 * Kolmogorov-Smirnov distances: of the values, and of each one's rank within
 * its stratum, which sees what strata have in common where they lie far from
 * each other. Exact for up to 13 strata of one block of each sample, else of
 * ES_EXCHANGES at random.
 *
 *   distance  the one of the values; may be NULL
 *
 * Both NaN if either sample has no value. With few layers p cannot be small: 2
 * layers give 0.5 at least, 6 layers 1/32. O(ES_EXCHANGES n).
 */
double es_stats_exchange_p(double *distance, const es_blocks *blocks,
                           const es_exchange_space *space);

#define ES_EXCHANGES 4096

/** How much of the order of y goes with x. */
typedef struct es_association {
    size_t n;        /* pairs */
    double strength; /* of numbers Spearman's rank correlation, in [-1,1]; of
                        groups eta squared of ranks, in [0,1]: the share of
                        their variance that lies between groups, which is
                        Kruskal and Wallis's H / (n - 1) */
    double p;        /* of as much either way if y is permuted; at random, at
                        least 999 times and at most 9,999, the least p is
                        1/1,000 to 1/10,000 */
    es_reason reason;
} es_association;

/**
 * Of numbers.
 *
 *   x, y   (n) no NaN; infinities are the largest and smallest; equal ones
 *          share their middle rank
 *   space  (2 n) written
 *   order  (n) written
 */
void es_stats_rank_correlation(es_association *out, const double *x,
                               const double *y, size_t n, double *space,
                               size_t *order);

/**
 * Of groups.
 *
 *   group     (n) below n_groups <= n
 *   y, order  as above
 *   space     (3 n) written
 */
void es_stats_rank_groups(es_association *out, const size_t *group,
                          size_t n_groups, const double *y, size_t n,
                          double *space, size_t *order);

/**
 * Holm's adjustment of n p-values for that there are several (Scand. J. Stat. 6
 * (1979)).
 *
 *   out    (n) must not overlap p
 *   p      (n) a NaN is no test, and stays
 *   order  (n) written
 */
void es_stats_holm(double *out, const double *p, size_t n, size_t *order);

#endif
