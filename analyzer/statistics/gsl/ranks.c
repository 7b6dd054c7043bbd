/* Measures how settings are associated with outcomes: rank correlation for
   numeric settings, variance of ranks between groups for other settings, and
   p-values by permutation. Ranks suit outcomes of any distribution; an outcome
   that does not exist, such as a NaN loss, ranks last. */
#include "analyzer/statistics/gsl/gsl_internal.h"
#include "analyzer/statistics/inference.h"

#include <gsl/gsl_randist.h>
#include <gsl/gsl_sort.h>
#include <math.h>

/* Computes the mid-ranks of x (equal values get their mean rank), minus the
   mean of all ranks. Returns the sum of their squares. */
static double centre_ranks(double *ranks, const double *x, size_t n,
                           size_t *order)
{
    double squares = 0;
    gsl_sort_index(order, x, 1, n);
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && x[order[end]] == x[order[i]];)
            end++;
        const double rank = ((double)(i + end) - (double)n) / 2;
        for (size_t k = i; k < end; k++)
            ranks[order[k]] = rank;
        squares += (double)(end - i) * rank * rank;
    }
    return squares;
}

/* The data of one association: the ranks y of the outcomes, which the test
   permutes, and the setting, either as ranks x or as groups. */
typedef struct pairs {
    const double *x; /* the n ranks of a numeric setting; NULL if the setting
                        has groups */
    const size_t *group; /* (n) */
    const double *sizes; /* (n_groups) */
    double *sums;        /* (n_groups) scratch */
    double *y;           /* the n ranks of the outcomes; the test permutes
                            them */
    size_t n, n_groups;
} pairs;

/* Returns the sum of the products of x and y; if the setting has groups, the
   sum of squares of y between groups. */
static double measure_pairs(const pairs *of)
{
    double sum = 0;
    if (of->x) {
        for (size_t i = 0; i < of->n; i++)
            sum += of->x[i] * of->y[i];
        return sum;
    }
    for (size_t i = 0; i < of->n_groups; i++)
        of->sums[i] = 0;
    for (size_t i = 0; i < of->n; i++)
        of->sums[of->group[i]] += of->y[i];
    for (size_t i = 0; i < of->n_groups; i++)
        if (of->sizes[i] > 0)
            sum += of->sums[i] * of->sums[i] / of->sizes[i];
    return sum;
}

static double permuted_p(const pairs *of, double observed)
{
    const size_t affordable = ((size_t)1 << 24) / of->n;
    const size_t n = affordable < 1000    ? 1000
                     : affordable > 10000 ? 10000
                                          : affordable;
    const double least = fabs(observed) * (1 - 1e-9);
    size_t n_extreme = 1; /* number of permutations with a result at least as
                             extreme as the observed one, which is counted
                             too */
    es_generator generator;
    const gsl_rng *rng = es_generator_begin(&generator);
    for (size_t i = 1; i < n; i++) {
        gsl_ran_shuffle(rng, of->y, of->n, sizeof *of->y);
        n_extreme += fabs(measure_pairs(of)) >= least;
    }
    return (double)n_extreme / (double)n;
}

void es_stats_rank_correlation(es_association *out, const double *x,
                               const double *y, size_t n, double *space,
                               size_t *order)
{
    const pairs of = {.x = space, .y = space + n, .n = n};
    *out = (es_association){n, NAN, NAN, ES_REASON_FEW};
    if (n < 3)
        return;
    const double of_x = centre_ranks(space, x, n, order);
    const double of_y = centre_ranks(space + n, y, n, order);
    out->reason = of_x > 0 && of_y > 0 ? ES_REASON_NONE : ES_REASON_CONSTANT;
    if (out->reason)
        return;
    const double products = measure_pairs(&of);
    out->strength = products / sqrt(of_x * of_y);
    out->p = permuted_p(&of, products);
}

void es_stats_rank_groups(es_association *out, const size_t *group,
                          size_t n_groups, const double *y, size_t n,
                          double *space, size_t *order)
{
    double *sizes = space + n;
    const pairs of = {.group = group,
                      .sizes = sizes,
                      .sums = space + 2 * n,
                      .y = space,
                      .n = n,
                      .n_groups = n_groups};
    *out = (es_association){n, NAN, NAN, ES_REASON_FEW};
    if (n < 3)
        return;
    for (size_t i = 0; i < n_groups; i++)
        sizes[i] = 0;
    for (size_t i = 0; i < n; i++)
        sizes[group[i]]++;
    const double squares = centre_ranks(space, y, n, order);
    const bool varies = squares > 0 && sizes[group[0]] < (double)n;
    out->reason = varies ? ES_REASON_NONE : ES_REASON_CONSTANT;
    if (out->reason)
        return;
    const double between = measure_pairs(&of);
    out->strength = between / squares;
    out->p = permuted_p(&of, between);
}
