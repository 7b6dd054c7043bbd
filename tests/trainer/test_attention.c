/* The fused attention against plain loops in double, every variant of the
 * kernels that this machine can run. */
#include "tests/support/attention_problem.h"
#include "tests/support/test.h"

static void check_shape(int n_batch, int n_ctx, int n_head, int width,
                        bool entropy)
{
    EACH_ATTENTION(p, kernels, attention_open(n_batch, n_ctx, n_head, width))
    {
        attention_run(&p, *kernels, 2, entropy);
        attention_check(&p, entropy);
    }
}

TEST(every_shape_matches_plain_loops)
{
    check_shape(1, 1, 1, 1, false);
    check_shape(2, 1, 3, 4, true);
    check_shape(1, 2, 1, 3, true);
    check_shape(3, 5, 2, 1, false);
    check_shape(1, 31, 1, 17, true);
    check_shape(1, 32, 2, 16, false);
    check_shape(2, 33, 3, 5, true);
    check_shape(1, 71, 2, 32, true);
    check_shape(1, 100, 1, 64, false);
}

/* y and the gradients with no statistics requested: the same bits. */
TEST(measuring_changes_nothing)
{
    const es_ops *ops = &es_cpu_ops;
    attention_problem p = attention_open(2, 37, 3, 7);
    const es_attention shape = attention_shape(&p);
    attention_run(&p, &es_cpu_kernels_plain, 1, false);
    AUTO_FREE float *y = attention_floats(p.n_values);
    memcpy(y, p.y, p.n_values * sizeof *y);
    es_backend *cpu = attention_backend(&es_cpu_kernels_plain, &p, 2);
    memset(p.y, 0, p.n_values * sizeof *p.y);
    ops->attention(cpu, attention_mem(p.y), attention_mem(p.saved), NULL,
                   attention_mem(p.qkv), &shape);
    assert_memory_equal(y, p.y, p.n_values * sizeof *y);
    ops->close(cpu);
    attention_close(&p);
}

/* Scores of thousands: the unshifted lse - sum a s would be off by 1e-3. */
TEST(peaked_rows_keep_their_entropy)
{
    EACH_ATTENTION(p, kernels, attention_open(1, 40, 1, 8))
    {
        for (size_t j = 0; j < 3 * p.n_values; j++)
            p.qkv[j] = roundf(p.qkv[j] * 8);
        attention_run(&p, *kernels, 1, false);
        attention_check(&p, false);
    }
}

TEST(the_plain_loops_match_differences)
{
    attention_check_reference(0, 0, true);
}

/* --- what is not finite --------------------------------------------------- */

static void run_spoilt(attention_problem *p, const es_cpu_kernels *kernels,
                       int column, int position, float value)
{
    const int d = p->n_head * p->width;
    p->qkv[position * 3 * d + column] = value;
    attention_run(p, kernels, 1, false);
}

TEST(a_nan_key_spoils_later_rows_alone)
{
    EACH_ATTENTION(p, kernels, attention_open(1, 45, 1, 5))
    {
        run_spoilt(&p, *kernels, 5 + 2, 37, NAN); /* k */
        attention_expect_nan_from(&p, 37);
    }
}

/* A NaN among the values reaches the outputs, and no statistic. */
TEST(a_nan_value_reaches_outputs_alone)
{
    EACH_ATTENTION(p, kernels, attention_open(1, 45, 1, 5))
    {
        run_spoilt(&p, *kernels, 10 + 2, 37, NAN); /* v */
        attention_expect_nan_value(&p, 37, 2);
        /* Nor does it reach gradients of what never met it. */
        for (int j = 38; j < p.n_ctx; j++)
            assert_true(isnan(p.dqkv[j * 15 + 1]));
        for (int j = 0; j < 37; j++)
            assert_true(isfinite(p.dqkv[j * 15 + 1]));
    }
}

/* A query with an infinity: its scores are infinite or NaN, no other row's. */
TEST(an_infinite_query_spoils_its_row)
{
    EACH_ATTENTION(p, kernels, attention_open(1, 20, 1, 4))
    {
        run_spoilt(&p, *kernels, 1, 11, INFINITY);
        for (int row = 0; row < p.n_ctx; row++) {
            assert_int_equal(isnan(p.rows[row]) != 0, row == 11);
            assert_int_equal(attention_rows(&p, ES_ROW_NONFINITE)[row] > 0,
                             row == 11);
        }
    }
}

/* One score of -inf: a weight of 0 like any other, but the row is marked. */
TEST(a_score_of_minus_infinity_has_no_weight)
{
    EACH_ATTENTION(p, kernels, attention_open(1, 6, 1, 1))
    {
        for (int j = 0; j < 6; j++) {
            p.qkv[3 * j] = 2;
            p.qkv[3 * j + 1] = j == 3 ? -INFINITY : 1;
        }
        attention_run(&p, *kernels, 1, false);
        for (int row = 0; row < 6; row++) {
            assert_int_equal(isnan(p.rows[row]) != 0, row >= 3);
            assert_int_equal(attention_rows(&p, ES_ROW_NONFINITE)[row], 0);
            assert_true(isfinite(p.y[row]));
        }
    }
}

/* Queries of 0: every key has the same weight. */
TEST(a_flat_row_looks_halfway_back)
{
    EACH_ATTENTION(p, kernels, attention_open(2, 41, 3, 5))
    {
        attention_scale_queries(&p, 0);
        attention_run(&p, *kernels, 1, false);
        for (size_t row = 0; row < p.n_rows; row++) {
            const double i = (double)(row % 41);
            const double top = (double)attention_rows(&p, ES_ROW_TOP)[row];
            const double away =
                (double)attention_rows(&p, ES_ROW_DISTANCE)[row];
            assert_true(fabs(away - i / 2) <= 1e-6 * (1 + i));
            assert_true(fabs(top - 1 / (i + 1)) <= 1e-6);
        }
    }
}

/* Values that distinguish the keys: the output is the distance itself. */
TEST(outputs_of_positions_are_distances)
{
    EACH_ATTENTION(p, kernels, attention_open(1, 300, 1, 4))
    {
        for (int j = 0; j < 300; j++)
            p.qkv[12 * j + 8] = (float)j;
        attention_run(&p, *kernels, 1, false);
        for (int i = 0; i < 300; i++) {
            const double want = i - (double)p.y[4 * i];
            const double got = (double)attention_rows(&p, ES_ROW_DISTANCE)[i];
            assert_true(fabs(got - want) <= 2e-6 * (1 + i));
        }
    }
}
