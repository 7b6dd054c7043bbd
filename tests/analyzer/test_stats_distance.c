/**
 * Tests distributions of samples: sorting, quantiles, and distances between two
 * samples.
 */
#include "analyzer/statistics/stats.h"
#include "tests/support/chance.h"
#include "tests/support/test.h"

#define MOST 400

/* A sample and the memory for its sorted values. */
typedef struct sample {
    float sorted[MOST];
    es_distribution is;
} sample;

static void take(sample *out, const float *x, size_t n)
{
    assert_true(n <= MOST);
    es_stats_distribution(&out->is, out->sorted, x, n);
}

static uint32_t state_of_random = 77;

static uint32_t next_random(uint32_t below)
{
    return congruence_below(&state_of_random, below);
}

/* Draws n random values from a grid, so that some are equal. */
static void take_random(sample *out, size_t n)
{
    float x[MOST];
    for (size_t i = 0; i < n; i++)
        x[i] = (float)next_random(97) / 16 - 2;
    take(out, x, n);
}

/* --- oracles --------------------------------------------------------------*/

static double share_at_most(const es_distribution *of, double x)
{
    size_t n = 0;
    for (size_t i = 0; i < of->n_finite; i++)
        n += of->sorted[i] <= x;
    return (double)n / (double)of->n_finite;
}

static double slow_ks(const es_distribution *a, const es_distribution *b)
{
    double largest = 0;
    for (size_t i = 0; i < a->n_finite + b->n_finite; i++) {
        double x = i < a->n_finite ? a->sorted[i] : b->sorted[i - a->n_finite];
        double gap = fabs(share_at_most(a, x) - share_at_most(b, x));
        largest = gap > largest ? gap : largest;
    }
    return largest;
}

/* Computes the distance by definition: repeats the values of both samples until
   the samples have the same size, and pairs the values in order. */
static double slow_wasserstein(const es_distribution *a,
                               const es_distribution *b)
{
    size_t n = a->n_finite * b->n_finite;
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += fabs((double)a->sorted[i / b->n_finite] -
                    (double)b->sorted[i / a->n_finite]);
    return sum / (double)n;
}

/* --- order ----------------------------------------------------------------*/

TEST(a_distribution_is_sorted_and_counted)
{
    const float x[] = {3, NAN, -1, INFINITY, 7, es_missing(), -0.5F, -INFINITY};
    sample s;
    take(&s, x, 8);
    assert_int_equal(s.is.n_finite, 4);
    assert_int_equal(s.is.nonfinite, 3);
    assert_int_equal(s.is.missing, 1);
    const float sorted[] = {-1, -0.5F, 3, 7};
    for (size_t i = 0; i < 4; i++)
        assert_true(s.is.sorted[i] == sorted[i]);
}

static int ascending(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

TEST(any_number_of_values_is_sorted)
{
    for (size_t n = 0; n <= 130; n++) {
        float x[MOST];
        sample s;
        for (size_t i = 0; i < n; i++)
            x[i] = (float)next_random(61) - 30;
        take(&s, x, n);
        if (n > 0)
            qsort(x, n, sizeof *x, ascending);
        assert_int_equal(s.is.n_finite, n);
        for (size_t i = 0; i < n; i++)
            assert_true(s.is.sorted[i] == x[i]);
    }
}

TEST(quantiles_lie_between_finite_values)
{
    const float x[] = {40, 10, NAN, 20, 30};
    sample s;
    take(&s, x, 5);
    assert_true(near(es_stats_quantile(&s.is, 0), 10, 0));
    assert_true(near(es_stats_quantile(&s.is, 1), 40, 0));
    assert_true(near(es_stats_quantile(&s.is, 0.5), 25, 0));
    assert_true(near(es_stats_quantile(&s.is, 0.25), 17.5, 0));
    assert_true(near(es_stats_quantile(&s.is, 0.9), 37, 1e-13));
    assert_true(near(es_stats_quantile(&s.is, 7), 40, 0));
    assert_true(isnan(es_stats_quantile(&s.is, NAN)));
    take(&s, x, 1);
    assert_true(near(es_stats_quantile(&s.is, 0.3), 40, 0));
    take(&s, x + 2, 1);
    assert_true(isnan(es_stats_quantile(&s.is, 0.5)));
}

/* --- distances ------------------------------------------------------------*/

TEST(closed_forms_are_met)
{
    float near_by[12], shifted[12], doubled[12];
    sample a, b, c;
    for (int i = 0; i < 12; i++) {
        near_by[i] = (float)i;
        shifted[i] = (float)i + 2.5F;
        doubled[i] = (float)(2 * i);
    }
    take(&a, near_by, 12);
    take(&b, shifted, 12);
    take(&c, doubled, 12);
    assert_true(near(es_stats_wasserstein(&a.is, &b.is), 2.5, 1e-14));
    assert_true(near(es_stats_ks(&a.is, &b.is), 3.0 / 12, 1e-15));
    /* The Wasserstein distance is the mean of 0..11. The Kolmogorov-Smirnov
     * distance is reached at x = 11, where all values of a, but only six values
     * of c, are at or below x. */
    assert_true(near(es_stats_wasserstein(&a.is, &c.is), 5.5, 1e-14));
    assert_true(near(es_stats_ks(&a.is, &c.is), 0.5, 1e-15));
}

TEST(samples_may_differ_in_size)
{
    const float one[] = {0}, three[] = {0, 1, 3}, far[] = {-8, -6};
    sample a, b, c;
    take(&a, one, 1);
    take(&b, three, 3);
    take(&c, far, 2);
    assert_true(near(es_stats_wasserstein(&a.is, &b.is), 4.0 / 3, 1e-15));
    assert_true(near(es_stats_ks(&a.is, &b.is), 2.0 / 3, 1e-15));
    assert_true(near(es_stats_wasserstein(&c.is, &b.is), 7 + 4.0 / 3, 1e-14));
    assert_true(near(es_stats_ks(&c.is, &b.is), 1, 0));
}

TEST(a_repeated_sample_has_no_distance)
{
    const float x[] = {1.1F, 2.3F, -0.7F};
    const float twice[] = {2.3F, 1.1F, -0.7F, 1.1F, -0.7F, 2.3F};
    sample a, b;
    take(&a, x, 3);
    take(&b, twice, 6);
    assert_true(near(es_stats_ks(&a.is, &b.is), 0, 0));
    assert_true(near(es_stats_wasserstein(&a.is, &b.is), 0, 0));
}

TEST(nothing_finite_is_nan)
{
    const float none[] = {NAN, es_missing()}, one[] = {2};
    sample a, b;
    take(&a, none, 2);
    take(&b, one, 1);
    assert_true(isnan(es_stats_ks(&a.is, &b.is)));
    assert_true(isnan(es_stats_ks(&b.is, &a.is)));
    assert_true(isnan(es_stats_wasserstein(&a.is, &b.is)));
    assert_true(isnan(es_stats_wasserstein(&b.is, &a.is)));
}

TEST(distances_agree_with_brute_force)
{
    for (size_t n = 1; n < 40; n += 3)
        for (size_t m = 1; m < 60; m += 4) {
            sample a, b;
            take_random(&a, n);
            take_random(&b, m);
            double ks = es_stats_ks(&a.is, &b.is);
            double mass = es_stats_wasserstein(&a.is, &b.is);
            assert_true(near(ks, slow_ks(&a.is, &b.is), 1e-15));
            assert_true(near(mass, slow_wasserstein(&a.is, &b.is), 1e-12));
            assert_true(near(es_stats_ks(&b.is, &a.is), ks, 0));
            assert_true(near(es_stats_wasserstein(&b.is, &a.is), mass, 1e-13));
        }
}
