/* Compares PowerSoftmax with plain loops in double, for every variant of the
 * kernels that this machine can run. */
#include "tests/support/attention_problem.h"
#include "tests/support/test.h"

static attention_problem open_power(int n_batch, int n_ctx, int n_head,
                                    int width, int power, double epsilon)
{
    attention_problem p = attention_open(n_batch, n_ctx, n_head, width);
    p.power = power;
    p.epsilon = (float)epsilon;
    return p;
}

TEST(the_plain_loops_match_finite_differences)
{
    attention_check_reference(2, 1e-3, false);
    attention_check_reference(4, 0, false);
    attention_check_reference(6, 0.3, false);
}

/* --- rows and gradients --------------------------------------------------- */

static void check_shape(int n_batch, int n_ctx, int n_head, int width,
                        int power, double epsilon)
{
    for (int entropy = 0; entropy < 2; entropy++)
        EACH_ATTENTION(
            p, kernels,
            open_power(n_batch, n_ctx, n_head, width, power, epsilon))
        {
            attention_run(&p, *kernels, 2, entropy);
            attention_check(&p, entropy);
        }
}

TEST(every_shape_matches_plain_loops)
{
    check_shape(1, 1, 1, 1, 2, 1e-3);
    check_shape(2, 1, 3, 4, 8, 0);
    check_shape(1, 2, 1, 3, 4, 0.5);
    check_shape(3, 5, 2, 1, 2, 0);
    check_shape(1, 31, 1, 17, 16, 1e-3);
    check_shape(1, 32, 2, 16, 4, 1e-3);
    check_shape(2, 33, 3, 5, 8, 1e-3);
    check_shape(1, 71, 2, 2, 6, 1e-3);
    check_shape(1, 100, 1, 64, 10, 20);
    check_shape(1, 37, 2, 8, ES_POWER_MAX, 1e-3);
    /* the kernels process several heads as narrow as these at a time */
    check_shape(3, 21, 5, 4, 4, 1e-3);
    check_shape(2, 9, 5, 8, 6, 0);
}

/* Compares the recorded entropy with the formula of the kernels. The reference
 * has 1e-9 inside the logarithm, so its entropy differs by up to 1e-9 per
 * key. */
static void expect_entropy(const attention_problem *p, int i)
{
    const double width = p->width;
    double s[128], c = 0, sum = 0, want = 0;
    for (int j = 0; j <= i; j++) {
        s[j] = 0;
        for (int k = 0; k < p->width; k++)
            s[j] += (double)p->qkv[i * 3 * p->width + k] *
                    (double)p->qkv[(j * 3 + 1) * p->width + k] / sqrt(width);
        c = fmax(c, fabs(s[j]));
    }
    for (int j = 0; j <= i; j++)
        sum += pow(s[j] / (c + 1e-6), p->power);
    for (int j = 0; j <= i; j++) {
        double a = pow(s[j] / (c + 1e-6), p->power) / sum;
        want -= a * log(a + 1e-9);
    }
    assert_true(fabs((double)p->rows[i] - want) <=
                1e-9 * (i + 1) + 1e-6 * p->power * (1 + want));
}

TEST(the_entropy_is_that_of_its_definition)
{
    const int powers[] = {2, 4, 8, 16};
    for (size_t n = 0; n < 4; n++)
        EACH_ATTENTION(p, kernels,
                       open_power(1, 101, 1, 7, powers[n], n % 2 ? 0 : 1e-3))
        {
            attention_run(&p, *kernels, 1, false);
            for (int i = 0; i < p.n_ctx; i++)
                expect_entropy(&p, i);
        }
}

/* Some of the scores are small compared with the constant 1e-6 in the divisor
 * c, and some are near the limits of float32. */
TEST(scores_of_any_size_have_weights)
{
    const float factors[] = {1e-4f, 1e-7f, 1e-12f, 1e-20f, 1e9f, 1e30f};
    const int powers[] = {2, 16};
    for (int n = 0; n < 24; n++)
        EACH_ATTENTION(
            p, kernels,
            open_power(1, 35, 2, 3, powers[n % 2], n / 2 % 2 ? 1e-3 : 0))
        {
            attention_scale_queries(&p, factors[n / 4]);
            attention_run(&p, *kernels, 1, true);
            attention_check(&p, true);
        }
}

TEST(any_number_of_threads_gives_the_same_bits)
{
    EACH_ATTENTION(p, kernels, open_power(2, 45, 3, 5, 4, 1e-3))
    {
        attention_run(&p, *kernels, 1, true);
        AUTO_FREE float *y = attention_floats(p.n_values);
        AUTO_FREE float *dqkv = attention_floats(3 * p.n_values);
        memcpy(y, p.y, p.n_values * sizeof *y);
        memcpy(dqkv, p.dqkv, 3 * p.n_values * sizeof *dqkv);
        for (int n_threads = 2; n_threads <= 7; n_threads += 5) {
            attention_run(&p, *kernels, n_threads, true);
            assert_memory_equal(y, p.y, p.n_values * sizeof *y);
            assert_memory_equal(dqkv, p.dqkv, 3 * p.n_values * sizeof *dqkv);
        }
    }
}

/* --- rows without scores -------------------------------------------------- */

/* If all scores are 0, the divisor c is 1e-6 and no key has any weight. */
TEST(scores_of_zero_have_no_weight)
{
    EACH_ATTENTION(p, kernels, open_power(1, 37, 1, 3, 2, 1e-3))
    {
        attention_scale_queries(&p, 0);
        attention_run(&p, *kernels, 1, true);
        attention_expect_no_weight(&p);
    }
}

/* The query of row 5 is 0, so without an epsilon all weights of this row are 0
 * / 0. */
TEST(without_epsilon_a_row_of_zeros_is_nan)
{
    EACH_ATTENTION(p, kernels, open_power(1, 7, 1, 2, 4, 0))
    {
        p.qkv[5 * 6] = p.qkv[5 * 6 + 1] = 0;
        attention_run(&p, *kernels, 1, false);
        attention_expect_nan_at(&p, 5);
        for (int i = 0; i < 7; i++)
            assert_int_equal(isnan(p.y[2 * i]) != 0, i == 5);
    }
}

/* --- values that are not finite ------------------------------------------ */

TEST(a_nan_key_spoils_only_later_rows)
{
    EACH_ATTENTION(p, kernels, open_power(1, 45, 1, 5, 4, 1e-3))
    {
        p.qkv[37 * 15 + 5 + 2] = NAN;
        attention_run(&p, *kernels, 1, true);
        attention_expect_nan_from(&p, 37);
    }
}

/* Row 11 has infinite scores, so the divisor c is infinite and all weights of
 * the row are NaN. */
TEST(an_infinite_query_spoils_its_row)
{
    for (int sign = -1; sign <= 1; sign += 2)
        EACH_ATTENTION(p, kernels, open_power(1, 20, 1, 4, 2, 1e-3))
        {
            p.qkv[11 * 12 + 1] = (float)sign * INFINITY;
            attention_run(&p, *kernels, 1, false);
            attention_expect_nan_at(&p, 11);
        }
}

/* In fp16 a product beyond 65504 becomes infinite, with either sign, so all of
 * row 5 is NaN. Softmax would give a key with a score of -inf no weight. */
TEST(a_product_beyond_fp16_spoils_its_row)
{
    for (int sign = -1; sign <= 1; sign += 2)
        EACH_ATTENTION(p, kernels, open_power(1, 7, 1, 2, 4, 1e-3))
        {
            p.half = true;
            for (int j = 0; j < 7; j++)
                p.qkv[j * 6 + 2] = p.qkv[j * 6 + 3] = (float)(sign * (j + 1));
            p.qkv[5 * 6] = 12000;
            p.qkv[5 * 6 + 1] = 0;
            attention_run(&p, *kernels, 1, false);
            for (int i = 0; i < 7; i++) {
                assert_int_equal(isnan(p.rows[i]) != 0, i == 5);
                assert_int_equal(attention_rows(&p, ES_ROW_NONFINITE)[i],
                                 i == 5 ? 6 : 0);
                assert_int_equal(isnan(p.y[2 * i]) != 0, i == 5);
                assert_int_equal(isnan(p.dqkv[6 * i]) != 0, i == 5);
            }
        }
}

/* A NaN among the values reaches the outputs but no statistic. */
TEST(a_nan_value_reaches_only_outputs)
{
    EACH_ATTENTION(p, kernels, open_power(1, 45, 1, 5, 8, 1e-3))
    {
        p.qkv[37 * 15 + 10 + 2] = NAN;
        attention_run(&p, *kernels, 1, false);
        attention_expect_nan_value(&p, 37, 2);
        for (int j = 0; j < 37; j++)
            assert_true(isfinite(p.dqkv[j * 15 + 1]));
    }
}

/* If q, k and v of one head are NaN, all other heads keep their bits. */
TEST(a_broken_head_does_not_affect_others)
{
    EACH_VARIANT(kernels)
    {
        attention_problem p = open_power(2, 19, 3, 5, 4, 1e-3);
        attention_problem broken = open_power(2, 19, 3, 5, 4, 1e-3);
        for (int i = 19; i < 38; i++)
            for (int part = 0; part < 3; part++)
                broken.qkv[i * 45 + part * 15 + 5 + i % 5] = NAN;
        attention_run(&p, *kernels, 1, true);
        attention_run(&broken, *kernels, 1, true);
        for (int i = 0; i < 38 * 45; i++)
            if (i / 45 < 19 || i % 15 / 5 != 1)
                assert_true(broken.dqkv[i] == p.dqkv[i]);
        for (int i = 0; i < 38 * 15; i++)
            assert_int_equal(broken.y[i] == p.y[i],
                             i / 15 < 19 || i % 15 / 5 != 1);
        for (int i = 0; i < 6 * 19; i++)
            assert_int_equal(broken.rows[i] == p.rows[i], i / 19 != 4);
        attention_close(&p);
        attention_close(&broken);
    }
}
