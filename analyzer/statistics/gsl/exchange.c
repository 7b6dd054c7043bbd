/* Implements a permutation test. The test exchanges layers between two samples,
   and counts how often the samples are then at least as far apart as observed.
   The measure is the Kolmogorov-Smirnov distance between the heads' values.
   Heads of one layer are not independent and stay together. */
#include "analyzer/statistics/gsl/gsl_internal.h"
#include "analyzer/statistics/inference.h"

#include <gsl/gsl_math.h>
#include <gsl/gsl_randist.h>
#include <gsl/gsl_sort_float.h>
#include <math.h>
#include <string.h>

/* With at most this number of strata all exchanges are enumerated. 13 strata
   have only 2^12 different exchanges, because exchanging all strata gives the
   same distance as exchanging none. */
#define EXACT_STRATA 13

/* Returns the Kolmogorov-Smirnov distance between the two samples of `values`.
   `order` lists the values in ascending order. Each value has a weight: the
   weights of the first sample add up to 1, those of the second to -1. */
static double distance_of(const es_blocks *blocks, const float *values,
                          const size_t *order, const double *weights)
{
    double sum = 0, farthest = 0;
    for (size_t i = 0; i < blocks->n; i++) {
        const size_t at = order[i];
        sum += weights[blocks->block[at]];
        /* Compare the distributions only after the last of several equal
         * values. */
        if (i + 1 == blocks->n || values[order[i + 1]] > values[at])
            farthest = GSL_MAX_DBL(farthest, fabs(sum));
    }
    return farthest;
}

/* Computes the distance between the samples, where labels[i] is true if block i
   belongs to the first sample; the distance is infinite if either sample is
   empty. */
static double apart(double *distance, const es_blocks *blocks,
                    const es_exchange_space *space)
{
    double n_first = 0;
    for (size_t i = 0; i < blocks->n; i++)
        n_first += space->labels[blocks->block[i]];
    double n_second = (double)blocks->n - n_first;
    if (n_first == 0 || n_second == 0)
        return INFINITY;
    for (size_t i = 0; i < blocks->n_blocks; i++)
        space->weights[i] = space->labels[i] ? 1 / n_first : -1 / n_second;
    *distance =
        distance_of(blocks, blocks->values, space->order, space->weights);
    return *distance + distance_of(blocks, space->ranks,
                                   space->order + blocks->n, space->weights);
}

/* Returns true if every stratum (usually a layer index) has one block of each
   sample, and there are few enough strata to enumerate all exchanges. */
static bool is_exact(const es_blocks *blocks)
{
    if (blocks->n_blocks % 2 || blocks->n_blocks > 2 * EXACT_STRATA)
        return false;
    for (size_t i = 0; i < blocks->n_blocks; i += 2)
        if (blocks->stratum[i] != blocks->stratum[i + 1] ||
            blocks->first[i] == blocks->first[i + 1] ||
            (i > 0 && blocks->stratum[i] == blocks->stratum[i - 1]))
            return false;
    return true;
}

static void shuffle(const gsl_rng *rng, const es_blocks *blocks, bool *labels)
{
    for (size_t i = 0, end; i < blocks->n_blocks; i = end) {
        for (end = i + 1; end < blocks->n_blocks &&
                          blocks->stratum[end] == blocks->stratum[i];)
            end++;
        gsl_ran_shuffle(rng, labels + i, end - i, sizeof *labels);
    }
}

/* Computes the mid-rank of each value (equal values get their mean rank) within
   its stratum, divided by the size of the stratum. The values of a stratum are
   adjacent. */
static void rank_values(const es_blocks *blocks, float *ranks, size_t *order)
{
    for (size_t i = 0, end; i < blocks->n; i = end) {
        const float *x = blocks->values + i;
        const uint32_t stratum = blocks->stratum[blocks->block[i]];
        for (end = i + 1;
             end < blocks->n && blocks->stratum[blocks->block[end]] == stratum;)
            end++;
        const size_t n = end - i;
        gsl_sort_float_index(order, x, 1, n);
        for (size_t k = 0, tied; k < n; k = tied) {
            for (tied = k; tied < n && !(x[order[tied]] > x[order[k]]);)
                tied++;
            for (size_t of = k; of < tied; of++)
                ranks[i + order[of]] =
                    (float)((double)(k + tied) / (double)(2 * n));
        }
    }
}

double es_stats_exchange_p(double *distance, const es_blocks *blocks,
                           const es_exchange_space *space)
{
    double unused;
    bool *labels = space->labels;
    rank_values(blocks, space->ranks, space->order);
    gsl_sort_float_index(space->order, blocks->values, 1, blocks->n);
    gsl_sort_float_index(space->order + blocks->n, space->ranks, 1, blocks->n);
    if (blocks->n_blocks > 0)
        memcpy(labels, blocks->first, blocks->n_blocks * sizeof *labels);
    distance = distance ? distance : &unused;
    *distance = NAN;
    double observed = apart(distance, blocks, space);
    if (!isfinite(observed))
        return NAN;
    /* Allow a small difference, because rounding may make equal distances
     * differ. */
    observed -= 1e-9;
    /* Both n and n_extreme include the observed assignment. */
    size_t n = ES_EXCHANGES, n_extreme = 1;
    if (is_exact(blocks)) {
        n = (size_t)1 << (blocks->n_blocks / 2 - 1);
        for (size_t code = 1; code < n; code++) {
            for (size_t i = 0; i < blocks->n_blocks; i++)
                labels[i] = blocks->first[i] != ((code >> (i / 2)) & 1);
            n_extreme += apart(&unused, blocks, space) >= observed;
        }
        return (double)n_extreme / (double)n;
    }
    es_generator generator;
    const gsl_rng *rng = es_generator_begin(&generator);
    for (size_t i = 1; i < n; i++) {
        shuffle(rng, blocks, labels);
        n_extreme += apart(&unused, blocks, space) >= observed;
    }
    return (double)n_extreme / (double)n;
}
