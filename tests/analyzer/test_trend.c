/** Trends and smooth lines: scipy 1.17.1's theilslopes and
 * kendalltau(method="asymptotic"). */
#include "analyzer/statistics/inference.h"
#include "analyzer/statistics/smooth.h"
#include "analyzer/statistics/trend.h"
#include "tests/support/test.h"

#define N 10

static const double x[N] = {0, 10, 20, 40, 50, 60, 70, 90, 100, 130};
static double space[N * N];

TEST(a_trend_is_scipys)
{
    static const struct {
        double y[N], slope, low, high, p;
    } cases[] = {{{3.5, 3.25, 3.5, 2.75, 3.0, 2.5, 2.5, 2.75, 2.0, 1.5},
                  -0.014583333333333334,
                  -0.01875,
                  -0.008333333333333333,
                  0.002082443580837364},
                 {{1, 2, 1, 2, 1.5, 1, 2, 1.75, 1.25, 1.5},
                  0,
                  -0.008333333333333333,
                  0.008333333333333333,
                  0.8531003889790088}};
    if (!es_stats_gsl())
        skip();
    for (size_t i = 0; i < 2; i++) {
        es_series_trend trend;
        es_stats_trend(&trend, x, cases[i].y, N, space);
        assert_true(near(trend.slope, cases[i].slope, 1e-15));
        assert_true(near(trend.low, cases[i].low, 1e-15));
        assert_true(near(trend.high, cases[i].high, 1e-15));
        assert_true(near(trend.p, cases[i].p, 1e-12));
        assert_int_equal(trend.reason, ES_REASON_NONE);
    }
}

TEST(a_line_is_found_exactly_and_where_it_goes)
{
    double y[N];
    es_series_trend trend;
    if (!es_stats_gsl())
        skip();
    for (int i = 0; i < N; i++)
        y[i] = 4 - 0.5 * x[i];
    es_stats_trend(&trend, x, y, N, space);
    assert_true(trend.slope == -0.5 && trend.low == -0.5 && trend.high == -0.5);
    assert_true(near(es_trend_reaches(&trend, trend.slope, -96), 200, 1e-12));
    assert_true(isinf(es_trend_reaches(&trend, 0, 1)));
    y[4] = 1000; /* does not bend it */
    es_stats_trend(&trend, x, y, N, space);
    assert_true(trend.slope == -0.5 && trend.p < 0.02);
}

TEST(no_trend_has_a_reason)
{
    const double same[N] = {0};
    es_series_trend trend;
    if (!es_stats_gsl())
        skip();
    es_stats_trend(&trend, x, same, N, space);
    assert_int_equal(trend.reason, ES_REASON_CONSTANT);
    assert_true(isnan(trend.slope) && isnan(trend.p) && isnan(trend.low));
    es_stats_trend(&trend, x, x, ES_TREND_LEAST - 1, space);
    assert_int_equal(trend.reason, ES_REASON_FEW);
    assert_true(isnan(trend.slope) && isnan(trend.p));
    es_stats_trend(&trend, x, x, 0, space);
    assert_int_equal(trend.reason, ES_REASON_FEW);
}

/* gaussian_filter1d(sigma=1.2, truncate=2.5, mode="nearest"), of each stretch
 */
TEST(a_smooth_line_is_scipys_and_stops_at_gaps)
{
    float y[] = {3.5F, 3.25F, 9,   2.75F, 3,     2.5F,     2.5F, 2.75F,
                 2,    1.5F,  NAN, 3.5F,  3.25F, INFINITY, 7};
    const double expected[] = {4.08092937, 4.76638625, 5.06455881, 4.30923849,
                               3.28049535, 2.7472176,  2.54790512, 2.38812083,
                               2.11945184, 1.85448676, NAN,        3.39648595,
                               3.35351405, INFINITY,   7};
    double weights[501];
    float copy[15];
    es_stats_smooth(y, 15, 7, weights, copy);
    for (size_t i = 0; i < 15; i++)
        assert_true(expected[i] == y[i] || near(y[i], expected[i], 1e-6));
    float constant[] = {2, 2, 2};
    es_stats_smooth(constant, 3, 1000, weights, copy);
    for (size_t i = 0; i < 3; i++)
        assert_true(near(constant[i], 2, 1e-6));
    es_stats_smooth(y, 0, 7, weights, copy);
}
