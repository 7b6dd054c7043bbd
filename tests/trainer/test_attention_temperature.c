/* Tests softmax with temperatures, for every variant of the kernels that this
 * machine can run. */
#include "tests/support/attention_problem.h"
#include "tests/support/test.h"

static attention_problem open_tempered(int n_batch, int n_ctx, int n_head,
                                       int width)
{
    attention_problem p = attention_open(n_batch, n_ctx, n_head, width);
    attention_add_temperatures(&p);
    return p;
}

static void check_shape(int n_batch, int n_ctx, int n_head, int width)
{
    for (int entropy = 0; entropy < 2; entropy++)
        EACH_ATTENTION(p, kernels, open_tempered(n_batch, n_ctx, n_head, width))
        {
            attention_run(&p, *kernels, 2, entropy);
            attention_check(&p, entropy);
        }
}

TEST(every_shape_matches_plain_loops)
{
    check_shape(1, 1, 1, 1);
    check_shape(3, 7, 2, 2);
    check_shape(2, 33, 3, 5);
    check_shape(1, 71, 1, 16);
    /* the kernels process several of these narrow heads together */
    check_shape(3, 20, 5, 4);
    check_shape(2, 9, 5, 8);
}

TEST(no_temperature_is_too_small_to_learn)
{
    for (int entropy = 0; entropy < 2; entropy++)
        EACH_ATTENTION(p, kernels, attention_open_cold())
        {
            attention_run(&p, *kernels, 1, entropy);
            attention_check(&p, entropy);
            attention_expect_pulled(&p);
        }
}

/* The temperature of query 3 of head 1 is NaN. It must affect the query's row
 * in both sequences and, in the backward pass, everything that depends on the
 * row's weights, but no other row and no other head. */
TEST(a_nan_temperature_spoils_only_its_query)
{
    EACH_ATTENTION(p, kernels, open_tempered(2, 7, 3, 2))
    {
        attention_problem spoilt = open_tempered(2, 7, 3, 2);
        spoilt.log_t[7 + 3] = NAN;
        attention_run(&p, *kernels, 1, true);
        attention_run(&spoilt, *kernels, 1, true);
        attention_expect_nan_temperature(&spoilt, 1, 3);
        for (int i = 0; i < 3 * 7; i++)
            assert_true(i == 10 || spoilt.dlog_t[i] == p.dlog_t[i]);
        for (int i = 0; i < 2 * 7 * 18; i++)
            assert_true(isnan(spoilt.dqkv[i]) || spoilt.dqkv[i] == p.dqkv[i]);
        attention_close(&spoilt);
    }
}

/* An infinite temperature makes every score 0, so the row is uniform and has no
 * gradient. */
TEST(an_infinite_temperature_makes_a_uniform_row)
{
    EACH_ATTENTION(p, kernels, open_tempered(1, 20, 1, 4))
    {
        p.log_t[16] = INFINITY;
        attention_run(&p, *kernels, 1, true);
        assert_true(fabs((double)p.rows[16] - log(17)) <= 1e-6);
        assert_true(p.dlog_t[16] == 0 && p.dlog_t[15] != 0);
        for (int c = 0; c < 4; c++)
            assert_true(p.dqkv[16 * 12 + c] == 0);
    }
}
