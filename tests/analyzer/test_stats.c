/** Tests summary statistics: closed forms, non-finite values, strides. */
#include "analyzer/statistics/stats.h"
#include "tests/support/test.h"

TEST(an_arithmetic_series_has_its_closed_form)
{
    float x[101];
    es_summary summary;
    for (int i = 0; i < 101; i++)
        x[i] = (float)(i - 20) / 4;
    es_stats_summary(&summary, x, 101, 1);
    assert_int_equal(summary.n_finite, 101);
    assert_true(near(summary.mean, 7.5, 1e-13));
    assert_true(near(summary.min, -5, 0));
    assert_true(near(summary.max, 20, 0));
    /* the variance of 0..n-1, with the divisor n - 1, is n * (n + 1) / 12 */
    assert_true(near(summary.std, sqrt(101.0 * 102 / 12) / 4, 1e-12));
}

TEST(nonfinite_and_missing_are_left_out)
{
    const float x[] = {NAN, 1.0F, INFINITY, es_missing(), 4.0F, -INFINITY};
    es_summary summary;
    es_stats_summary(&summary, x, 6, 1);
    assert_int_equal(summary.n_finite, 2);
    assert_int_equal(summary.nonfinite, 3);
    assert_int_equal(summary.missing, 1);
    assert_true(near(summary.mean, 2.5, 0));
    assert_true(near(summary.std, sqrt(4.5), 1e-15));
}

TEST(one_value_has_no_spread)
{
    const float x[] = {-3.5F};
    es_summary summary;
    es_stats_summary(&summary, x, 1, 1);
    assert_true(near(summary.mean, -3.5, 0) && near(summary.max, -3.5, 0));
    assert_true(isnan(summary.std));
}

TEST(nothing_finite_is_nan)
{
    const float x[] = {NAN, es_missing()};
    for (size_t n = 0; n <= 2; n++) {
        es_summary summary;
        es_stats_summary(&summary, x, n, 1);
        assert_int_equal(summary.n_finite, 0);
        assert_int_equal(summary.nonfinite, n > 0);
        assert_int_equal(summary.missing, n > 1);
        assert_true(isnan(summary.mean) && isnan(summary.min));
        assert_true(isnan(summary.max) && isnan(summary.std));
    }
}

TEST(a_stride_selects_one_column)
{
    const float x[] = {1, 10, 100, 3, 30, 300, 8, 80, 800};
    es_summary summary;
    es_stats_summary(&summary, x + 1, 3, 3);
    assert_true(near(summary.mean, 40, 1e-14));
    assert_true(near(summary.std, sqrt(1300), 1e-12));
    assert_int_equal(summary.n_finite, 3);
}

/* Two passes over the values make the standard deviation exact, even if the
 * values are far from zero. */
TEST(a_spread_about_a_large_mean_is_exact)
{
    const float x[] = {16777210.0F, 16777211.0F, 16777212.0F};
    es_summary summary;
    es_stats_summary(&summary, x, 3, 1);
    assert_true(near(summary.std, 1, 1e-12));
}
