/**
 * Compares rank correlations, associations with groups, and the p-values of
 * both with scipy 1.17.1.
 */
#include "analyzer/statistics/inference.h"
#include "tests/support/test.h"

#define N 8

static const double x[N] = {1e-4, 3e-4, 1e-3, 1e-3, 3e-3, 1e-4, 1e-2, 3e-4};
static const double y[N] = {8.5, 9.25, 11, 10.5, 30, 8.75, INFINITY, 8.5};
static const size_t group[N] = {0, 1, 0, 2, 1, 2, 0, 1};
static double space[3 * N];
static size_t order[N];

static void need_gsl(void)
{
    if (es_stats_gsl())
        return;
    es_skip("built without GSL");
}

/* Asserts that p differs from the expected value by at most three standard
   errors of 10,000 permutations. */
static void assert_p(double p, double expected)
{
    assert_true(fabs(p - expected) <=
                3 * sqrt(expected * (1 - expected) / 10000));
}

/* The expected correlation was computed by scipy's spearmanr; the p-value over
   all 40,320 pairings is 0.0031746. */
TEST(a_rank_correlation_agrees_with_scipy)
{
    need_gsl();
    es_association found;
    es_stats_rank_correlation(&found, x, y, N, space, order);
    assert_true(near(found.strength, 0.9147021665807528, 1e-14));
    assert_p(found.p, 0.0031746031746);
    assert_int_equal(found.reason, ES_REASON_NONE);
    double down[N];
    for (int i = 0; i < N; i++)
        down[i] = -x[i];
    es_stats_rank_correlation(&found, down, y, N, space, order);
    assert_true(near(found.strength, -0.9147021665807528, 1e-14));
    assert_p(found.p, 0.0031746031746);
}

/* The expected strength is the statistic of scipy's kruskal divided by n - 1;
   the p-value over 40,000 permutations is 0.87835. */
TEST(groups_agree_with_kruskal)
{
    need_gsl();
    es_association found;
    es_stats_rank_groups(&found, group, 3, y, N, space, order);
    assert_true(near(found.strength, 0.05220883534136489, 1e-14));
    assert_p(found.p, 0.87835);
    const double by_group[N] = {1, 5, 2, 9, 6, 9, 2, 7};
    es_stats_rank_groups(&found, group, 3, by_group, N, space, order);
    assert_true(found.strength > 0.9 && found.strength < 1 && found.p < 0.01);
    const size_t each[N] = {0, 1, 2, 3, 4,
                            5, 6, 7}; /* if every value is a separate group, the
                                         groups give no information */
    es_stats_rank_groups(&found, each, N, y, N, space, order);
    assert_true(near(found.strength, 1, 1e-14) && found.p == 1);
}

TEST(constant_values_have_no_association)
{
    need_gsl();
    es_association found;
    const double same[N] = {INFINITY, INFINITY, INFINITY, INFINITY};
    const size_t one[N] = {0};
    es_stats_rank_correlation(&found, x, same, 4, space, order);
    assert_int_equal(found.reason, ES_REASON_CONSTANT);
    assert_true(isnan(found.strength) && isnan(found.p) && found.n == 4);
    es_stats_rank_groups(&found, one, 3, y, N, space, order);
    assert_int_equal(found.reason, ES_REASON_CONSTANT);
    es_stats_rank_groups(&found, group, 3, same, 4, space, order);
    assert_int_equal(found.reason, ES_REASON_CONSTANT);
    es_stats_rank_correlation(&found, x, y, 2, space, order);
    assert_int_equal(found.reason, ES_REASON_FEW);
    es_stats_rank_groups(&found, group, 3, y, 0, space, order);
    assert_int_equal(found.reason, ES_REASON_FEW);
}

TEST(p_is_never_0)
{
    need_gsl();
    double up[400], wide[800];
    size_t places[400];
    es_association found;
    for (int i = 0; i < 400; i++)
        up[i] = i;
    es_stats_rank_correlation(&found, up, up, 400, wide, places);
    assert_true(found.strength == 1 && found.p == 1e-4);
}
