/**
 * Compares intervals, tests of means and permutation tests with the results of
 * scipy and with enumeration.
 */
#include "analyzer/statistics/inference.h"
#include "analyzer/statistics/stats.h"
#include "tests/support/chance.h"
#include "tests/support/test.h"

#define MOST 32

#define NEEDS_GSL()                                                            \
    do {                                                                       \
        if (!es_stats_gsl()) {                                                 \
            es_skip("built without GSL");                                      \
        }                                                                      \
    } while (0)

static const double a[] = {5.75, 3.5, 4.25, 6.0, 5.5}, b[] = {7.375, 6.5, 8.25};
static const double same[] = {2, 2, 2};

static void compare(es_means_test *out, const double *x, size_t n,
                    const double *y, size_t m)
{
    double space[MOST];
    size_t chosen[MOST];
    es_stats_compare_means(out, x, n, y, m, space, chosen);
}

static void assert_near(double value, double expected)
{
    if (!(fabs(value - expected) <= 1e-11 * fmax(1, fabs(expected))))
        fail_msg("%.17g, not %.17g", value, expected);
}

/* The expected values were computed by scipy.stats.t.interval(0.95, n - 1,
   mean, sem). */
TEST(an_interval_agrees_with_scipy)
{
    NEEDS_GSL();
    static const struct {
        const double *x;
        size_t n;
        double mean, low, high;
    } cases[] = {{a, 5, 5, 3.6648503018843237, 6.335149698115677},
                 {b, 3, 7.375, 5.201379502218462, 9.548620497781538},
                 {a, 2, 4.625, -9.669480328196531, 18.91948032819653}};
    for (size_t i = 0; i < 3; i++) {
        es_mean mean;
        es_stats_mean(&mean, cases[i].x, cases[i].n);
        assert_near(mean.mean, cases[i].mean);
        assert_near(mean.low, cases[i].low);
        assert_near(mean.high, cases[i].high);
        assert_int_equal(mean.reason, ES_REASON_NONE);
    }
}

TEST(a_missing_interval_has_a_reason)
{
    NEEDS_GSL();
    es_mean mean;
    es_stats_mean(&mean, a, 0);
    assert_true(isnan(mean.mean) && isnan(mean.low) && isnan(mean.high));
    assert_int_equal(mean.reason, ES_REASON_FEW);
    es_stats_mean(&mean, a, 1);
    assert_true(mean.mean == 5.75 && isnan(mean.low) && isnan(mean.high));
    assert_int_equal(mean.reason, ES_REASON_FEW);
    es_stats_mean(&mean, same, 3);
    assert_true(mean.mean == 2 && isnan(mean.low) && isnan(mean.high));
    assert_int_equal(mean.reason, ES_REASON_CONSTANT);
    assert_string_equal(es_reason_text(mean.reason), "equal values");
}

/* The expected values were computed by scipy.stats.ttest_ind(a, b,
   equal_var=False) and its confidence_interval(), and by
   permutation_test(n_resamples=inf, alternative="greater") of the |difference|;
   Hedges' g was computed by its definition. */
TEST(a_test_of_means_agrees_with_scipy)
{
    NEEDS_GSL();
    es_means_test test;
    compare(&test, a, 5, b, 3);
    assert_near(test.difference, 5 - 7.375);
    assert_near(test.t, -3.4051856159729565);
    assert_near(test.freedom, 5.15168837917961);
    assert_near(test.p, 0.01826791847435646);
    assert_near(test.low, -4.15213006030354);
    assert_near(test.high, -0.59786993969646);
    assert_near(test.g, -2.038840607739758);
    assert_near(test.permuted, 1.0 / 56);
    assert_int_equal(test.reason, ES_REASON_NONE);
    compare(&test, a, 5, same, 3);
    assert_near(test.t, 6.238502938920436);
    assert_near(test.freedom, 4);
    assert_near(test.p, 0.0033641196367149876);
}

/* scipy gives p = 0.13888 from 200,000 permutations; three standard errors of
   10,000 permutations are 0.0104. */
TEST(many_values_are_permuted_at_random)
{
    NEEDS_GSL();
    double x[15], y[15];
    es_means_test test, again;
    for (int i = 0; i < 15; i++) {
        x[i] = 2 * sin(i);
        y[i] = x[i] + 0.8 + 0.1 * cos(3 * i);
    }
    compare(&test, x, 15, y, 15);
    assert_true(fabs(test.permuted - 0.13888) < 0.0104);
    compare(&again, x, 15, y, 15);
    assert_true(test.permuted == again.permuted);
    for (int i = 0; i < 15; i++)
        y[i] += 100;
    compare(&test, x, 15, y, 15);
    assert_true(test.permuted == 1.0 / ES_PERMUTATIONS); /* never 0 */
}

TEST(a_test_without_result_has_a_reason)
{
    NEEDS_GSL();
    es_means_test test;
    compare(&test, a, 5, b, 1);
    assert_int_equal(test.reason, ES_REASON_FEW);
    assert_true(isnan(test.p) && isnan(test.g) && isnan(test.permuted));
    compare(&test, same, 3, same, 2);
    assert_int_equal(test.reason, ES_REASON_CONSTANT);
    assert_true(test.difference == 0 && isnan(test.p) && isnan(test.t));
    assert_true(isnan(test.g) && isnan(test.permuted) && isnan(test.low));
}

/* --- Holm -----------------------------------------------------------------*/

/* The expected values were computed by hand: the p-values in ascending order
   are multiplied by 5, 4, 3 and 2, and no value may be below its
   predecessor. */
TEST(several_tests_are_adjusted)
{
    NEEDS_GSL();
    const double p[] = {0.04, NAN, 0.01, 0.03, 0.005, 0.9};
    const double expected[] = {0.09, NAN, 0.04, 0.09, 0.025, 0.9};
    double out[6];
    size_t order[6];
    es_stats_holm(out, p, 6, order);
    for (size_t i = 0; i < 6; i++)
        if (isnan(p[i]))
            assert_true(isnan(out[i]));
        else
            assert_near(out[i], expected[i]);
    es_stats_holm(out, (double[]){0.6, 0.7}, 2, order);
    assert_true(out[0] == 1 && out[1] == 1);
}

/* --- exchanges of layers -------------------------------------------------- */

#define HEADS 5
#define LAYERS 13

typedef struct pair {
    float values[2 * LAYERS * HEADS];
    uint32_t block[2 * LAYERS * HEADS], stratum[2 * LAYERS];
    bool first[2 * LAYERS];
    es_blocks blocks;
} pair;

/* Creates the head values of two runs, layer by layer. In the first n_moved
   layers the values of the two runs differ by `apart`. */
static void make_pair(pair *out, size_t n_layers, size_t n_moved, float apart)
{
    uint32_t random = 12;
    *out = (pair){.blocks = {out->values, out->block, 0, out->stratum,
                             out->first, 2 * n_layers}};
    for (uint32_t i = 0; i < 2 * n_layers; i++) {
        out->stratum[i] = i / 2;
        out->first[i] = i % 2 == 0;
        for (size_t head = 0; head < HEADS; head++) {
            size_t n = out->blocks.n++;
            out->values[n] = (float)congruence_below(&random, 97) / 16 +
                             (float)(i / 2) +
                             (i % 2 && i / 2 < n_moved ? apart : 0);
            out->block[n] = i;
        }
    }
}

/* Returns the mid-rank of the value within its stratum, divided by the number
 * of values in the stratum. */
static float rank_of(const pair *of, size_t at)
{
    double n = 0, twice = 0;
    for (size_t i = 0; i < of->blocks.n; i++)
        if (of->stratum[of->block[i]] == of->stratum[of->block[at]]) {
            twice += (of->values[i] < of->values[at]) +
                     (of->values[i] <= of->values[at]);
            n++;
        }
    return (float)(twice / (2 * n));
}

static double distance_of(const pair *of, bool ranks, unsigned code)
{
    float x[2][LAYERS * HEADS], sorted[2][LAYERS * HEADS];
    size_t n[2] = {0, 0};
    es_distribution is[2];
    for (size_t i = 0; i < of->blocks.n; i++) {
        uint32_t block = of->block[i];
        int to = of->first[block] != ((code >> (block / 2)) & 1) ? 0 : 1;
        x[to][n[to]++] = ranks ? rank_of(of, i) : of->values[i];
    }
    for (int to = 0; to < 2; to++)
        es_stats_distribution(&is[to], sorted[to], x[to], n[to]);
    return es_stats_ks(&is[0], &is[1]);
}

static double counted_p(const pair *of, size_t n_layers)
{
    unsigned n = 1u << n_layers, extreme = 0;
    double observed = distance_of(of, true, 0) + distance_of(of, false, 0);
    for (unsigned code = 0; code < n; code++)
        extreme += distance_of(of, true, code) + distance_of(of, false, code) >=
                   observed - 1e-9;
    return (double)extreme / n;
}

static double farthest;

static double exchange(const es_blocks *blocks)
{
    size_t order[4 * LAYERS * HEADS];
    float ranks[2 * LAYERS * HEADS];
    bool labels[2 * LAYERS];
    double weights[2 * LAYERS];
    const es_exchange_space space = {order, ranks, labels, weights};
    return es_stats_exchange_p(&farthest, blocks, &space);
}

TEST(p_of_a_distance_counts_exchanges_of_layers)
{
    NEEDS_GSL();
    pair of;
    for (size_t n_layers = 1; n_layers <= 9; n_layers += 2)
        for (int moved = 0; moved < 3; moved++) {
            make_pair(&of, n_layers, n_layers - (size_t)moved % n_layers,
                      0.7F * (float)moved);
            assert_near(exchange(&of.blocks), counted_p(&of, n_layers));
            assert_near(farthest, distance_of(&of, false, 0));
        }
    make_pair(&of, 6, 6, 50); /* the two runs are as far apart as possible */
    assert_near(exchange(&of.blocks), 1.0 / 32);
    make_pair(&of, 6, 6, 7);
    /* Adds a large offset to the values of each layer, different for every
     * layer. */
    for (size_t i = 0; i < of.blocks.n; i++)
        of.values[i] += (float)(of.block[i] / 2 * 100);
    assert_near(exchange(&of.blocks), 1.0 / 32);
    make_pair(&of, 1, 1, 50);
    assert_near(exchange(&of.blocks), 1);
}

/* Compares two p-values of the same data. The first is exact, because it is
   computed from all exchanges of layers between the two runs. The second is
   computed from random exchanges, because a third block in one stratum (layer)
   makes an enumeration impossible. It must be within three standard errors of
   the first. */
TEST(p_of_random_exchanges_is_near_the_exact_one)
{
    NEEDS_GSL();
    pair of;
    make_pair(&of, 12, 12, 0.4F);
    double exact = exchange(&of.blocks);
    assert_true(exact > 0.01 && exact < 0.5);
    of.blocks.n_blocks++; /* add a layer without values */
    of.stratum[24] = 12;
    of.first[24] = true;
    double random = exchange(&of.blocks);
    assert_true(random != exact &&
                fabs(random - exact) < 3 * sqrt(exact / 4096));
}

TEST(a_sample_without_a_value_has_no_p)
{
    NEEDS_GSL();
    pair of;
    make_pair(&of, 3, 0, 0);
    for (int i = 0; i < 6; i++)
        of.first[i] = true;
    assert_true(isnan(exchange(&of.blocks)) && isnan(farthest));
    of.blocks.n = 0;
    assert_true(isnan(exchange(&of.blocks)) && isnan(farthest));
}

TEST(the_reason_is_gsl_only_if_built_without_it)
{
    const bool gsl = es_stats_gsl();
    es_mean mean;
    es_means_test test;
    es_stats_mean(&mean, a, 5);
    compare(&test, a, 5, b, 3);
    assert_int_equal(mean.reason == ES_REASON_NO_GSL, !gsl);
    assert_int_equal(test.reason == ES_REASON_NO_GSL, !gsl);
    assert_int_equal(isnan(mean.low) || isnan(test.p), !gsl);
}
