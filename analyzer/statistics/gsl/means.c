/* Compares means of a few values, such as results of runs that differ only in
   the seed: Student's interval, Welch's test, Hedges' g, a permutation test,
   and Holm's adjustment of several p-values. */
#include "analyzer/statistics/gsl/gsl_internal.h"
#include "analyzer/statistics/inference.h"

#include <gsl/gsl_cdf.h>
#include <gsl/gsl_combination.h>
#include <gsl/gsl_math.h>
#include <gsl/gsl_randist.h>
#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics.h>
#include <gsl/gsl_version.h>
#include <math.h>
#include <string.h>

const char *es_stats_gsl(void)
{
    return gsl_version;
}

void es_stats_mean(es_mean *out, const double *x, size_t n)
{
    *out = (es_mean){.mean = n ? gsl_stats_mean(x, 1, n) : NAN,
                     .low = NAN,
                     .high = NAN,
                     .reason = ES_REASON_FEW};
    if (n < 2)
        return;
    double std = gsl_stats_sd(x, 1, n);
    out->reason = std > 0 ? ES_REASON_NONE : ES_REASON_CONSTANT;
    if (out->reason)
        return;
    double half =
        gsl_cdf_tdist_Pinv(0.975, (double)n - 1) * std / sqrt((double)n);
    out->low = out->mean - half;
    out->high = out->mean + half;
}

/* --- two samples ----------------------------------------------------------*/

/* Counts of the ways to divide all values into two samples. `n_extreme`
   counts the divisions whose means are at least as far apart as observed;
   the comparison has a tolerance, because rounding may make equal distances
   differ. */
typedef struct divisions {
    double total, observed;
    size_t n_a, n, n_seen, n_extreme;
} divisions;

static double apart(const divisions *all, double sum)
{
    return fabs(sum / (double)all->n_a -
                (all->total - sum) / (double)(all->n - all->n_a));
}

static void count_division(divisions *all, double sum)
{
    all->n_seen++;
    all->n_extreme += apart(all, sum) >= all->observed * (1 - 1e-9);
}

static double permuted_p(double *values, size_t n_a, size_t n, size_t *chosen)
{
    double first = 0;
    divisions all = {.n_a = n_a, .n = n};
    for (size_t i = 0; i < n; i++) {
        all.total += values[i];
        first += i < n_a ? values[i] : 0;
    }
    all.observed = apart(&all, first);
    /* Number of ways to divide the values into two samples, which is the
     * binomial coefficient n over n_a; if this is above ES_PERMUTATIONS, any
     * number above ES_PERMUTATIONS. */
    double n_divisions = 1;
    for (size_t i = 0; i < n_a && n_divisions <= ES_PERMUTATIONS; i++)
        n_divisions *= (double)(n - i) / (double)(i + 1);
    if (n_divisions < ES_PERMUTATIONS + 0.5) {
        gsl_combination division = {n, n_a, chosen};
        gsl_combination_init_first(&division);
        do {
            double sum = 0;
            for (size_t i = 0; i < n_a; i++)
                sum += values[chosen[i]];
            count_division(&all, sum);
        } while (gsl_combination_next(&division) == GSL_SUCCESS);
        return (double)all.n_extreme / (double)all.n_seen;
    }
    es_generator generator;
    gsl_rng *rng = es_generator_begin(&generator);
    /* The observed division is one of all possible divisions, so it is counted
     * too. */
    count_division(&all, first);
    while (all.n_seen < ES_PERMUTATIONS) {
        double sum = 0;
        gsl_ran_shuffle(rng, values, n, sizeof *values);
        for (size_t i = 0; i < n_a; i++)
            sum += values[i];
        count_division(&all, sum);
    }
    return (double)all.n_extreme / (double)all.n_seen;
}

void es_stats_compare_means(es_means_test *out, const double *a, size_t n_a,
                            const double *b, size_t n_b, double *space,
                            size_t *chosen)
{
    *out =
        (es_means_test){NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, ES_REASON_FEW};
    if (n_a < 2 || n_b < 2)
        return;
    gsl_set_error_handler_off();
    const double a_free = (double)n_a - 1, b_free = (double)n_b - 1;
    double a_variance = gsl_stats_variance(a, 1, n_a);
    double b_variance = gsl_stats_variance(b, 1, n_b);
    double of_a = a_variance / (double)n_a, of_b = b_variance / (double)n_b;
    double error = sqrt(of_a + of_b);
    out->difference = gsl_stats_mean(a, 1, n_a) - gsl_stats_mean(b, 1, n_b);
    out->reason = error > 0 ? ES_REASON_NONE : ES_REASON_CONSTANT;
    if (out->reason)
        return;

    /* Compute Welch's degrees of freedom from the two samples' shares of the
     * squared error, because the squares of small variances could underflow. */
    double share = of_a / (of_a + of_b);
    out->t = out->difference / error;
    out->freedom =
        1 / (share * share / a_free + (1 - share) * (1 - share) / b_free);
    out->p = 2 * gsl_cdf_tdist_Q(fabs(out->t), out->freedom);
    double half = gsl_cdf_tdist_Pinv(0.975, out->freedom) * error;
    out->low = out->difference - half;
    out->high = out->difference + half;
    double pooled =
        sqrt((a_free * a_variance + b_free * b_variance) / (a_free + b_free));
    out->g = out->difference / pooled * (1 - 3 / (4 * (double)(n_a + n_b) - 9));
    memcpy(space, a, n_a * sizeof *a);
    memcpy(space + n_a, b, n_b * sizeof *b);
    out->permuted = permuted_p(space, n_a, n_a + n_b, chosen);
}

/* --- several tests --------------------------------------------------------*/

void es_stats_holm(double *out, const double *p, size_t n, size_t *order)
{
    double least = 0; /* largest adjusted p-value so far, because adjusted
                         p-values must not decrease */
    size_t n_tests = 0;
    for (size_t i = 0; i < n; i++) {
        n_tests += isnan(p[i]) ? 0 : 1;
        out[i] = isnan(p[i]) ? INFINITY : p[i]; /* NaN sorts last */
    }
    gsl_sort_index(order, out, 1, n);
    for (size_t i = 0; i < n; i++) {
        double value = p[order[i]];
        if (!isnan(value))
            least = GSL_MAX_DBL(least,
                                GSL_MIN_DBL(1, (double)(n_tests - i) * value));
        out[order[i]] = isnan(value) ? NAN : least;
    }
}
