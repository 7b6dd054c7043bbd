/* Compares the fused attention with plain loops in double, for every variant of
 * the kernels that this machine can run. */
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

/* The kernels process narrow heads in bundles of 16, 8 or 4 heads, if there are
 * at least half as many heads as vector lanes. These shapes fill the bundles
 * completely or partly. */
TEST(bundled_narrow_heads_match_plain_loops)
{
    check_shape(3, 32, 6, 4, true);
    check_shape(2, 37, 5, 4, false);
    check_shape(5, 1, 3, 4, true);
    check_shape(3, 18, 7, 8, true);
    check_shape(1, 256, 9, 4, false);
    check_shape(2, 33, 8, 4, true); /* a bundle of four heads in one vector */
    check_shape(3, 6, 8, 4, false);
}

/* Returns head h of sequence b as a separate problem. */
static attention_problem extract_head(const attention_problem *p, int b, int h)
{
    attention_problem one = attention_open(1, p->n_ctx, 1, p->width);
    const int d = p->n_head * p->width;
    one.half = p->half;
    for (int i = 0; i < p->n_ctx; i++)
        for (int part = 0; part < 3; part++)
            memcpy(one.qkv + (3 * i + part) * p->width,
                   p->qkv + (3 * (b * p->n_ctx + i) + part) * d + h * p->width,
                   (size_t)p->width * sizeof *p->qkv);
    return one;
}

/* Operands are rounded to fp16. The outputs of bundled heads may differ from
 * those of single heads by one unit in the last place. */
TEST(bundled_emulated_heads_match_single_heads)
{
    EACH_ATTENTION(p, kernels, attention_open(3, 21, 5, 4))
    {
        p.half = true;
        attention_run(&p, *kernels, 1, false);
        for (int index = 0; index < 15; index++) {
            attention_problem one = extract_head(&p, index / 5, index % 5);
            attention_run(&one, *kernels, 1, false);
            for (int i = 0; i < 21 * 4; i++) {
                const int row = index / 5 * 21 + i / 4;
                const float want = one.y[i];
                const float got = p.y[row * 20 + index % 5 * 4 + i % 4];
                assert_true(fabsf(got - want) <= 0x1p-10f * fabsf(want));
            }
            for (int i = 0; i < 21; i++)
                assert_true(fabsf(p.rows[index * 21 + i] - one.rows[i]) <=
                            1e-5f);
            attention_close(&one);
        }
    }
}

/* Attention that also computes statistics must give the same bits of y and of
 * the gradients. */
TEST(statistics_change_no_bit_of_the_outputs)
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

/* The scores are in the thousands. If the kernels did not subtract the largest
 * score, the entropy, which is lse minus the weighted mean of the scores, would
 * be wrong by 1e-3. */
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

TEST(the_plain_loops_match_finite_differences)
{
    attention_check_reference(0, 0, true);
}

/* --- values that are not finite ------------------------------------------ */

static void run_spoilt(attention_problem *p, const es_cpu_kernels *kernels,
                       int column, int position, float value)
{
    const int d = p->n_head * p->width;
    p->qkv[position * 3 * d + column] = value;
    attention_run(p, kernels, 1, false);
}

TEST(a_nan_key_spoils_only_later_rows)
{
    EACH_ATTENTION(p, kernels, attention_open(1, 45, 1, 5))
    {
        run_spoilt(&p, *kernels, 5 + 2, 37, NAN); /* a NaN in k */
        attention_expect_nan_from(&p, 37);
    }
}

/* A NaN among the values reaches the outputs but no statistic. */
TEST(a_nan_value_reaches_only_outputs)
{
    EACH_ATTENTION(p, kernels, attention_open(1, 45, 1, 5))
    {
        run_spoilt(&p, *kernels, 10 + 2, 37, NAN); /* a NaN in v */
        attention_expect_nan_value(&p, 37, 2);
        /* Gradients of keys that the queries with a NaN do not see must be
         * finite, too. */
        for (int j = 38; j < p.n_ctx; j++)
            assert_true(isnan(p.dqkv[j * 15 + 1]));
        for (int j = 0; j < 37; j++)
            assert_true(isfinite(p.dqkv[j * 15 + 1]));
    }
}

/* An infinity in a query makes the scores of the query's row infinite or NaN,
 * and affects no other row. */
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

/* An infinite query and a NaN value in one head change no bit of the results of
 * other heads, even of heads in the same bundle. */
TEST(a_broken_narrow_head_does_not_affect_others)
{
    EACH_VARIANT(kernels)
    {
        attention_problem p = attention_open(3, 19, 5, 4);
        attention_problem broken = attention_open(3, 19, 5, 4);
        broken.qkv[30 * 60 + 9] = INFINITY; /* q of head 2 */
        broken.qkv[33 * 60 + 40 + 8] = NAN; /* v of head 2 */
        attention_run(&p, *kernels, 1, true);
        attention_run(&broken, *kernels, 1, true);
        for (int i = 0; i < 57 * 60; i++)
            if (i / 60 / 19 != 1 || i % 20 / 4 != 2)
                assert_true(broken.dqkv[i] == p.dqkv[i]);
        for (int i = 0; i < 57 * 20; i++)
            if (i / 20 / 19 != 1 || i % 20 / 4 != 2)
                assert_true(broken.y[i] == p.y[i]);
        for (int i = 0; i < 15 * 19; i++)
            assert_int_equal(broken.rows[i] == p.rows[i], i != 7 * 19 + 11);
        assert_true(attention_rows(&broken, ES_ROW_NONFINITE)[7 * 19 + 11] > 0);
        /* A NaN value affects only queries at its own and later positions. */
        assert_true(isfinite(broken.y[32 * 20 + 8]));
        assert_true(isnan(broken.y[33 * 20 + 8]));
        attention_close(&p);
        attention_close(&broken);
    }
}

/* A single score of -inf gives its key the weight 0, but the row is counted as
 * not finite. */
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

/* If all queries are 0, all visible keys have the same weight. */
TEST(a_uniform_row_has_the_mean_distance)
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

/* If each value is the position of its key, the output is the weighted mean of
 * the positions, from which the mean distance follows. */
TEST(values_equal_to_positions_give_the_distance)
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
