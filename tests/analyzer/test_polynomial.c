/* Compares the costs of polynomial approximations with published tables, and
   their errors with those of actual iterations at the ends of the interval. */
#include "analyzer/polynomial/approximation.h"
#include "analyzer/polynomial/polynomial.h"
#include "tests/support/test.h"

static const double errors[] = {1e-2, 1e-3, 1e-4, 1e-6};

TEST(factors_of_an_inverse_follow_from_range_and_error)
{
    static const struct {
        double k;
        int n[4];
    } rows[] = {{10, {5, 6, 6, 7}},      {100, {8, 9, 9, 10}},
                {512, {11, 11, 12, 12}}, {1e3, {12, 12, 13, 13}},
                {1e4, {15, 16, 16, 17}}, {1e6, {22, 22, 23, 23}}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int k = 0; k < 4; k++) {
            const es_polynomial_cost cost =
                es_polynomial_inverse(rows[i].k, errors[k]);
            assert_int_equal(cost.iterations, rows[i].n[k]);
            assert_int_equal(cost.levels, rows[i].n[k]);
        }
}

/* Computes 1 / x at the two ends of the range with a product of `factors`
   factors (Goldschmidt's method), and returns the larger of the two errors. */
static double iterate_inverse(double k, int factors)
{
    double largest = 0;
    for (int end = 0; end < 2; end++) {
        const double x = end ? k : 1, s = 2 / (1 + k);
        double e = 1 - s * x, y = s;
        for (int i = 0; i < factors; i++, e *= e)
            y *= 1 + e;
        largest = fmax(largest, fabs(y * x - 1));
    }
    return largest;
}

TEST(the_factors_suffice_and_one_less_does_not)
{
    for (double k = 3; k < 1e5; k *= 2.7) {
        const int n = es_polynomial_inverse(k, 1e-3).iterations;
        assert_true(iterate_inverse(k, n) <= 1e-3 * (1 + 1e-9));
        assert_true(iterate_inverse(k, n - 1) > 1e-3);
    }
}

/* The expected values are from figure 7 of the PowerSoftmax paper, for 8, 10
   and 12 iterations. */
TEST(errors_of_an_inverse_are_the_published_ones)
{
    static const struct {
        double epsilon;
        int factors;
        double error;
    } rows[] = {{1e-4, 8, 9.5e3}, {1e-4, 10, 8.2e3}, {1e-4, 12, 4.4e3},
                {1e-3, 8, 6.0e2}, {1e-3, 10, 1.3e2}, {1e-3, 12, 0.28},
                {1e-2, 8, 0.63},  {1e-2, 10, 1.6e-7}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_true(
            near(es_polynomial_inverse_error(rows[i].epsilon, rows[i].factors) /
                     rows[i].error,
                 1, 0.03));
}

TEST(steps_of_an_inverse_square_root_follow_from_range_and_error)
{
    static const struct {
        double k;
        int n[3];
    } rows[] = {{67, {7, 8, 9}},
                {750, {10, 11, 12}},
                {1e3, {11, 11, 13}},
                {1e4, {14, 14, 15}}};
    static const double of[] = {1e-2, 1e-3, 1e-6};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int k = 0; k < 3; k++) {
            const es_polynomial_cost cost =
                es_polynomial_rsqrt(rows[i].k, of[k]);
            assert_int_equal(cost.iterations, rows[i].n[k]);
            assert_int_equal(cost.levels, 2 * rows[i].n[k]);
        }
}

TEST(a_gelu_has_the_error_of_its_sigmoid)
{
    static const struct {
        double range;
        int degree;
        double error;
    } rows[] = {{8, 7, 9.5e-2},   {8, 15, 4.4e-3},  {16, 7, 0.48},
                {16, 15, 0.10},   {16, 31, 4.4e-3}, {16, 63, 9e-6},
                {32, 7, 1.1},     {32, 15, 0.49},   {32, 31, 0.10},
                {32, 63, 4.4e-3}, {8, 31, 1e-5}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const double error =
            es_polynomial_gelu_error(rows[i].degree, rows[i].range);
        if (!near(error / rows[i].error, 1, 0.06))
            fail_msg("R = %g, degree %d: %g", rows[i].range, rows[i].degree,
                     error);
    }
    assert_int_equal(es_polynomial_levels(7), 4);
    assert_int_equal(es_polynomial_levels(8), 5);
    assert_int_equal(es_polynomial_levels(63), 7);
}

TEST(invalid_arguments_are_refused)
{
    static const double ranges[] = {0.5, -1, INFINITY, NAN};
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        assert_int_equal(es_polynomial_inverse(ranges[i], 1e-2).iterations, -1);
        assert_int_equal(es_polynomial_rsqrt(ranges[i], 1e-2).iterations, -1);
    }
    assert_int_equal(es_polynomial_inverse(7, 0).iterations, -1);
    assert_int_equal(es_polynomial_rsqrt(7, 1).iterations, -1);
    assert_int_equal(es_polynomial_inverse(1, 1e-2).iterations, 0);
    assert_int_equal(es_polynomial_rsqrt(1, 1e-2).iterations, 0);
    assert_true(isnan(es_polynomial_inverse_error(0, 8)));
    assert_true(isnan(es_polynomial_inverse_error(NAN, 8)));
    assert_true(isnan(es_polynomial_gelu_error(8, 8)));
    assert_true(isnan(es_polynomial_gelu_error(129, 8)));
    assert_true(isnan(es_polynomial_gelu_error(7, NAN)));
}
