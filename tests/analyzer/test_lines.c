/* Tests the detection of spikes in lines and the evaluation of lines at other
   steps. Compares both with plain implementations of the definitions. */
#include "analyzer/base/value.h"
#include "analyzer/statistics/inference.h"
#include "analyzer/statistics/smooth.h"
#include "tests/support/test.h"

#include <stdlib.h>

enum { N = 60, W = 11 };

/* Returns a number in [-1,1). The sequence is the same in every run. */
static double noise(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(int32_t)(*seed >> 32) / 2147483648.0;
}

/* --- spikes ---------------------------------------------------------------*/

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *x, size_t n)
{
    qsort(x, n, sizeof *x, by_value);
    return n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
}

/* Returns the distance of x[at] from the median of its window, in robust
   standard deviations of the window. */
static double deviation(const float *x, size_t at, size_t n)
{
    double window[W], distance[W];
    size_t n_here = 0;
    for (size_t i = at < W / 2 ? 0 : at - W / 2; i < n && i <= at + W / 2; i++)
        window[n_here++] = (double)x[i];
    const double middle = median(window, n_here);
    for (size_t i = 0; i < n_here; i++)
        distance[i] = fabs(window[i] - middle);
    return fabs((double)x[at] - middle) / (1.4826 * median(distance, n_here));
}

static bool is_top(const float *x, size_t at, size_t n)
{
    return at > 0 && at + 1 < n &&
           ((x[at] > x[at - 1] && x[at] > x[at + 1]) ||
            (x[at] < x[at - 1] && x[at] < x[at + 1]));
}

TEST(spikes_are_those_of_the_definition)
{
    uint64_t seed = 7;
    size_t n_found = 0, n_tops = 0;
    if (!es_stats_gsl())
        es_skip("built without GSL");
    for (int round = 0; round < 20; round++) {
        float x[N], spikes[N];
        for (size_t i = 0; i < N; i++)
            x[i] = (float)(5 - 0.05 * (double)i + 0.2 * noise(&seed) +
                           (i % 13 == 5 ? 2 * noise(&seed) : 0));
        es_assert_ok(es_stats_spikes(spikes, x, N, W));
        for (size_t i = 0; i < N; i++) {
            const double far = deviation(x, i, N);
            if (fabs(far - ES_SPIKE_DEVIATIONS) < 1e-6)
                continue; /* rounding decides */
            const bool wanted = far > ES_SPIKE_DEVIATIONS && is_top(x, i, N);
            assert_int_equal(wanted, !es_is_missing(spikes[i]));
            if (wanted)
                assert_true(spikes[i] == x[i]);
            n_found += wanted;
            n_tops += is_top(x, i, N);
        }
    }
    assert_in_range(n_found, 20, n_tops / 2);
}

TEST(a_step_a_steep_start_and_an_end_are_no_spikes)
{
    float x[N], spikes[N];
    if (!es_stats_gsl())
        es_skip("built without GSL");
    for (size_t i = 0; i < N; i++)
        x[i] = (float)(i < 30 ? 10 * exp(-1.5 * (double)i) : 7) +
               0.001f * (float)(i % 3);
    x[N - 1] = 20;
    es_assert_ok(es_stats_spikes(spikes, x, N, W));
    for (size_t i = 0; i < N; i++)
        assert_true(es_is_missing(spikes[i]));
}

TEST(a_spike_needs_no_noise_but_a_visible_height)
{
    float x[N] = {0}, spikes[N];
    if (!es_stats_gsl())
        es_skip("built without GSL");
    x[20] = 1;
    x[40] = 0.005f;
    es_assert_ok(es_stats_spikes(spikes, x, N, W));
    for (size_t i = 0; i < N; i++)
        assert_int_equal(i == 20, !es_is_missing(spikes[i]));
}

TEST(spikes_next_to_nan_are_found_and_nan_is_no_spike)
{
    float x[N], spikes[N];
    if (!es_stats_gsl())
        es_skip("built without GSL");
    for (size_t i = 0; i < N; i++)
        x[i] = 1 + 0.01f * (float)(i * i % 7);
    x[10] = NAN;
    x[12] = 5;
    x[30] = INFINITY;
    x[50] = es_missing();
    x[51] = 9; /* the first value after a gap cannot be a spike */
    es_assert_ok(es_stats_spikes(spikes, x, N, W));
    for (size_t i = 0; i < N; i++)
        assert_int_equal(i == 12, !es_is_missing(spikes[i]));
}

TEST(lines_without_spikes_may_be_short)
{
    const float x[3] = {1, 9, 1};
    float spikes[3];
    if (!es_stats_gsl())
        es_skip("built without GSL");
    for (size_t n = 0; n < 3; n++)
        es_assert_ok(es_stats_spikes(spikes, x, n, W));
    es_assert_ok(es_stats_spikes(spikes, x, 3, W));
    assert_true(spikes[1] == 9);
}

/* --- alignment ------------------------------------------------------------*/

static double sign(double x)
{
    return (x > 0) - (x < 0);
}

static double secant(const int64_t *x, const float *y, size_t i)
{
    return ((double)y[i + 1] - (double)y[i]) / (double)(x[i + 1] - x[i]);
}

/* Returns Steffen's slope at sample i of n, eq. 11. At either end it is the
   slope of the line to the adjacent sample, which is the simplest choice in
   section 2.2 of Steffen's paper. */
static double slope_at(const int64_t *x, const float *y, size_t i, size_t n)
{
    if (i == 0 || i == n - 1)
        return secant(x, y, i ? n - 2 : 0);
    const double h0 = (double)(x[i] - x[i - 1]);
    const double h1 = (double)(x[i + 1] - x[i]);
    const double s0 = secant(x, y, i - 1), s1 = secant(x, y, i);
    const double parabola = (s0 * h1 + s1 * h0) / (h0 + h1);
    return (sign(s0) + sign(s1)) *
           fmin(fmin(fabs(s0), fabs(s1)), fabs(parabola) / 2);
}

/* Evaluates, at a step between x[i] and x[i + 1], the cubic with Steffen's
   slopes. */
static double cubic(const int64_t *x, const float *y, size_t i, size_t n,
                    int64_t step)
{
    const double h = (double)(x[i + 1] - x[i]);
    const double s = secant(x, y, i);
    const double a = slope_at(x, y, i, n), b = slope_at(x, y, i + 1, n);
    const double d = (double)(step - x[i]);
    return (double)y[i] + d * (a + d * ((3 * s - 2 * a - b) / h +
                                        d * (a + b - 2 * s) / (h * h)));
}

TEST(lines_are_aligned_by_steffens_cubics)
{
    uint64_t seed = 11;
    if (!es_stats_gsl())
        es_skip("built without GSL");
    for (int round = 0; round < 50; round++) {
        int64_t x[N], at[8 * N];
        float y[N], out[8 * N];
        size_t n_at = 0;
        for (size_t i = 0; i < N; i++) {
            x[i] = (i ? x[i - 1] : 5) + 1 + (int64_t)(3 + 3 * noise(&seed));
            y[i] = (float)noise(&seed);
        }
        for (int64_t step = 0; step < x[N - 1] + 3 && n_at < 8 * N; step++)
            at[n_at++] = step;
        es_assert_ok(es_stats_align(out, at, n_at, x, y, N));
        for (size_t k = 0, i = 0; k < n_at; k++) {
            while (i + 2 < N && at[k] >= x[i + 1])
                i++;
            if (at[k] < x[0] || at[k] > x[N - 1])
                assert_true(es_is_missing(out[k]));
            else
                assert_true(
                    near((double)out[k], cubic(x, y, i, N, at[k]), 1e-6));
        }
    }
}

TEST(nothing_is_interpolated_next_to_non_finite_values)
{
    static const int64_t x[] = {0, 10, 20, 30, 40, 50};
    const float y[] = {1, 2, NAN, INFINITY, 4, es_missing()};
    static const int64_t at[] = {-5, 0, 5, 10, 15, 20, 25, 30, 35, 40, 50, 60};
    const float M = es_missing();
    const float line = es_stats_gsl() ? 1.5f : M;
    const float wanted[] = {M, 1, line, 2, M, NAN, M, INFINITY, M, 4, M, M};
    float out[12];
    es_assert_ok(es_stats_align(out, at, 12, x, y, 6));
    for (size_t i = 0; i < 12; i++) {
        assert_int_equal(es_is_missing(wanted[i]), es_is_missing(out[i]));
        assert_true(isnan(wanted[i]) ? isnan(out[i]) : out[i] == wanted[i]);
    }
    es_assert_ok(es_stats_align(out, at, 12, x, y, 0));
    for (size_t i = 0; i < 12; i++)
        assert_true(es_is_missing(out[i]));
}
