/**
 * Compares trends and smoothed lines with theilslopes and
 * kendalltau(method="asymptotic") of scipy 1.17.1, and the robust line with
 * make_trend_references.py.
 */
#include "analyzer/statistics/inference.h"
#include "analyzer/statistics/smooth.h"
#include "analyzer/statistics/trend.h"
#include "tests/support/test.h"

#define N 10

static const double x[N] = {0, 10, 20, 40, 50, 60, 70, 90, 100, 130};
static double space[N * N];

TEST(a_trend_agrees_with_scipy)
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
        es_skip("built without GSL");
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

TEST(a_line_is_found_exactly_and_reaches_a_value)
{
    double y[N];
    es_series_trend trend;
    if (!es_stats_gsl())
        es_skip("built without GSL");
    for (int i = 0; i < N; i++)
        y[i] = 4 - 0.5 * x[i];
    es_stats_trend(&trend, x, y, N, space);
    assert_true(trend.slope == -0.5 && trend.low == -0.5 && trend.high == -0.5);
    assert_true(near(es_trend_reaches(&trend, trend.slope, -96), 200, 1e-12));
    assert_true(isinf(es_trend_reaches(&trend, 0, 1)));
    y[4] = 1000; /* an outlier, which must not change the line */
    es_stats_trend(&trend, x, y, N, space);
    assert_true(trend.slope == -0.5 && trend.p < 0.02);
}

TEST(a_missing_trend_has_a_reason)
{
    const double same[N] = {0};
    es_series_trend trend;
    if (!es_stats_gsl())
        es_skip("built without GSL");
    es_stats_trend(&trend, x, same, N, space);
    assert_int_equal(trend.reason, ES_REASON_CONSTANT);
    assert_true(isnan(trend.slope) && isnan(trend.p) && isnan(trend.low));
    es_stats_trend(&trend, x, x, ES_TREND_LEAST - 1, space);
    assert_int_equal(trend.reason, ES_REASON_FEW);
    assert_true(isnan(trend.slope) && isnan(trend.p));
    es_stats_trend(&trend, x, x, 0, space);
    assert_int_equal(trend.reason, ES_REASON_FEW);
}

/* The tolerances allow for errors of GSL, which iterates to 1e-8 and computes
 * derivatives with steps of 1e-4. */
TEST(a_robust_line_agrees_with_its_formulas)
{
    static const struct {
        double y[N], slope, low, high, at_mean;
    } cases[] = {{{3.5, 3.25, 3.5, 2.75, 3.0, 2.5, 2.5, 2.75, 2.0, 1.5},
                  -0.014764354585064796,
                  -0.0194613253559613,
                  -0.01006738381416829,
                  2.6984948834457367},
                 {{3.5, 3.25, 3.5, 2.75, 9.0, 2.5, 2.5, 2.75, 2.0, 1.5},
                  -0.015197315597687328,
                  -0.03594038645140465,
                  0.005545755256029992,
                  2.6220695229327773},
                 {{1, 2, 1, 2, 1.5, 1, 2, 1.75, 1.25, 1.5},
                  0.0011422171001943336,
                  -0.007905408677859776,
                  0.010189842878248445,
                  1.4981886240903957}};
    if (!es_stats_gsl())
        es_skip("built without GSL");
    for (size_t i = 0; i < 3; i++) {
        es_robust_fit fit;
        assert_int_equal(es_stats_robust(&fit, x, cases[i].y, N), ES_OK);
        assert_int_equal(fit.reason, ES_REASON_NONE);
        assert_true(near(fit.slope, cases[i].slope, 1e-7));
        assert_true(near(fit.low, cases[i].low, 1e-6));
        assert_true(near(fit.high, cases[i].high, 1e-6));
        assert_true(near(fit.x, 57, 1e-14));
        assert_true(near(fit.y, cases[i].at_mean, 1e-7));
    }
}

TEST(an_exact_line_is_fitted_whatever_its_scale)
{
    double y[N], far[N];
    es_robust_fit fit;
    if (!es_stats_gsl())
        es_skip("built without GSL");
    for (int i = 0; i < N; i++) {
        far[i] = 1e9 + x[i];
        y[i] = 1e-6 * x[i];
    }
    assert_int_equal(es_stats_robust(&fit, far, y, N), ES_OK);
    assert_int_equal(fit.reason, ES_REASON_NONE);
    assert_true(near(fit.slope, 1e-6, 1e-15));
    assert_true(near(fit.low, 1e-6, 1e-12) && near(fit.high, 1e-6, 1e-12));
    y[3] = 1; /* an outlier, which must get no weight */
    assert_int_equal(es_stats_robust(&fit, far, y, N), ES_OK);
    assert_true(near(fit.slope, 1e-6, 1e-12));
    for (int i = 0; i < N; i++)
        y[i] = i == 4;
    assert_int_equal(es_stats_robust(&fit, x, y, N), ES_OK);
    assert_true(fit.slope == 0 && fit.low == 0 && fit.high == 0);
}

TEST(a_missing_robust_line_has_a_reason)
{
    const double same[N] = {0};
    double broken[N];
    es_robust_fit fit;
    if (!es_stats_gsl())
        es_skip("built without GSL");
    memcpy(broken, x, sizeof x);
    broken[6] = NAN;
    const struct {
        const double *x, *y;
        size_t n;
        es_reason reason;
    } cases[] = {{x, x, ES_ROBUST_LEAST - 1, ES_REASON_FEW},
                 {NULL, NULL, 0, ES_REASON_FEW},
                 {x, same, N, ES_REASON_CONSTANT},
                 {same, x, N, ES_REASON_CONSTANT},
                 {x, broken, N, ES_REASON_NONFINITE},
                 {broken, x, N, ES_REASON_NONFINITE}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(
            es_stats_robust(&fit, cases[i].x, cases[i].y, cases[i].n), ES_OK);
        assert_int_equal(fit.reason, cases[i].reason);
        assert_true(isnan(fit.slope) && isnan(fit.low) && isnan(fit.high) &&
                    isnan(fit.y));
        assert_non_null(es_reason_text(fit.reason));
    }
}

/* The expected values were computed by scipy's gaussian_filter1d(sigma=1.2,
 * truncate=2.5, mode="nearest") for each part between gaps. */
TEST(a_smooth_line_agrees_with_scipy_and_stops_at_gaps)
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
