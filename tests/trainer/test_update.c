/* Compares the statistics and the optimiser update of the CPU back-end with
 * plain loops in double, with every variant of the kernels that this machine
 * can run. */
#include "tests/support/arrays.h"
#include "tests/support/reference_ops.h"
#include "tests/support/test.h"
#include "tests/support/variants.h"

static const es_ops *const ops = &es_cpu_ops;
VARIANT_TEST(squares_and_nonfinite_are_counted)
{
    enum { N = 100003 };
    float *x = array(N, 3);
    double want = 0, squares = 7;
    es_layer_sums sums = {.nonfinite = 9, .squares = 5};
    for (int i = 0; i < N; i++)
        want += (double)x[i] * (double)x[i];
    ops->sum_squares(the_cpu, mem(&squares), mem(x), N);
    assert_true(fabs(squares - want) <= 1e-6 * want);
    ops->activation_stats(the_cpu, mem(&sums), mem(x), N);
    assert_int_equal(sums.nonfinite, 9);
    assert_true(fabs(sums.squares - 5 - want) <= 1e-6 * want);
    x[7] = 1e30f; /* the square of this value is infinite in float */
    ops->activation_stats(the_cpu, mem(&sums), mem(x), N);
    assert_int_equal(sums.nonfinite, 9);
    assert_true(fabs(sums.squares - 1e60) <= 1e-6 * 1e60);
    x[0] = -INFINITY;
    x[N - 1] = x[50000] = NAN;
    ops->activation_stats(the_cpu, mem(&sums), mem(x), N);
    assert_int_equal(sums.nonfinite, 12);
    assert_true(isnan(sums.squares));
}

VARIANT_TEST(a_mean_is_added_to_the_sum)
{
    enum { N = 1001 };
    float *x = array(N, 3);
    double want = 2, sum = 2;
    for (int i = 0; i < N; i++)
        want += (double)x[i] / N;
    ops->add_mean(the_cpu, mem(&sum), mem(x), N);
    assert_true(fabs(sum - want) <= 1e-12);
    x[N - 1] = NAN;
    ops->add_mean(the_cpu, mem(&sum), mem(x), N);
    assert_true(isnan(sum));
}

typedef struct expected {
    es_head_series series;
    double value;
} expected;

static void expect_values(const es_head_sums *sums, const expected *want,
                          size_t n)
{
    for (size_t i = 0; i < n; i++)
        assert_true(es_head_value(sums, want[i].series) == want[i].value);
}

/* The data are two passes with two heads. The second head has a row that is not
 * finite and, in the second pass, no finite row at all. */
VARIANT_TEST(rows_become_sums_of_heads)
{
    enum { B = 2, H = 2, T = 3 };
    float entropy[B][H][T] = {{{1, 2, 3}, {4, NAN, 6}}, {{5, 6, 7}, {1, 1, 1}}};
    float logit[B][H][T] = {{{1, 9, 3}, {4, 99, 6}}, {{5, 6, 7}, {-1, -1, -1}}};
    float sink[B][H][T], missing[B][H][T];
    float nonfinite[B][H][T] = {{{0}, {0, 2, 0}}};
    es_head_sums sums[H];
    for (int h = 0; h < H; h++)
        sums[h] = es_head_sums_start();
    for (int i = 0; i < B * H * T; i++) {
        (&sink[0][0][0])[i] = 0.5f;
        (&missing[0][0][0])[i] = 0.25f;
    }
    const es_row_mem rows = {.array = {[ES_ROW_ENTROPY] = mem(entropy),
                                       [ES_ROW_MAX_LOGIT] = mem(logit),
                                       [ES_ROW_SINK] = mem(sink),
                                       [ES_ROW_NONFINITE] = mem(nonfinite),
                                       [ES_ROW_MISSING] = mem(missing)}};
    ops->measure_rows(the_cpu, mem(sums), &rows, 1, B, H, T);
    expect_values(&sums[0],
                  (const expected[]){{ES_HEAD_ENTROPY, 4},
                                     {ES_HEAD_ENTROPY_MIN, 2},
                                     {ES_HEAD_ENTROPY_MAX, 6},
                                     {ES_HEAD_MAX_LOGIT, 9},
                                     {ES_HEAD_SINK, 0.5}},
                  5);
    expect_values(&sums[1],
                  (const expected[]){{ES_HEAD_ENTROPY, 13 / 5.0},
                                     {ES_HEAD_ENTROPY_MIN, 1},
                                     {ES_HEAD_ENTROPY_MAX, 5},
                                     {ES_HEAD_MAX_LOGIT, 6},
                                     {ES_HEAD_MISSING_MASS, 0.25},
                                     {ES_HEAD_NONFINITE_ROWS, 1},
                                     {ES_HEAD_NONFINITE_WEIGHTS, 2}},
                  7);
    assert_true(sums[1].finite_rows == 5);
    for (int b = 0; b < B; b++)
        for (int i = 0; i < T; i++)
            entropy[b][1][i] = INFINITY;
    ops->measure_rows(the_cpu, mem(sums), &rows, 1, B, H, T);
    assert_true(sums[0].finite_rows == 12 && sums[1].finite_rows == 5);
    expect_values(&sums[0], (const expected[]){{ES_HEAD_ENTROPY, 4}}, 1);
    expect_values(&sums[1],
                  (const expected[]){{ES_HEAD_ENTROPY, 13 / 5.0},
                                     {ES_HEAD_ENTROPY_MIN, 1},
                                     {ES_HEAD_MAX_LOGIT, 6},
                                     {ES_HEAD_NONFINITE_ROWS, 7}},
                  4);
}

/* There are more heads than threads, so the heads are distributed unevenly. */
VARIANT_TEST(sums_of_heads_do_not_depend_on_threads)
{
    enum { L = 2, B = 3, H = 7, T = 5 };
    es_row_mem rows = {.array = {NULL}};
    const float *arrays[ES_N_ROW_STATISTICS] = {NULL};
    es_head_sums got[L * H], want[L * H];
    for (int i = 0; i < ES_ROW_SINK + 1; i++) {
        float *x = array(L * B * H * T, 3);
        x[(i + 2) * T] = NAN;
        rows.array[i] = mem(x);
        arrays[i] = x;
    }
    for (int h = 0; h < L * H; h++)
        got[h] = want[h] = es_head_sums_start();
    ops->measure_rows(the_cpu, mem(got), &rows, L, B, H, T);
    for (int l = 0; l < L; l++) {
        es_head_sums_add_rows(want + l * H, arrays, B, H, T);
        for (int i = 0; i < ES_ROW_SINK + 1; i++)
            arrays[i] += B * H * T;
    }
    for (int h = 0; h < L * H; h++) {
        assert_true(got[h].finite_rows == want[h].finite_rows);
        for (int i = 0; i < ES_N_HEAD_SERIES; i++)
            assert_memory_equal(&got[h].values[i], &want[h].values[i],
                                sizeof want[h].values[i]);
    }
}

static es_control clipped(double squares, double loss, float scale, float most,
                          bool may_skip)
{
    es_control control = {.loss_scale = scale, .grad_scale = 7};
    ops->clip(the_cpu, mem(&control), mem(&squares), mem(&loss), most,
              may_skip);
    return control;
}

VARIANT_TEST(gradients_are_clipped_or_skipped)
{
    /* a limit of 0 means no clipping */
    assert_true(clipped(16, 1, 1, 0, true).grad_scale == 1);
    assert_true(clipped(16, 1, 1, 5, true).grad_scale == 1);
    assert_true(clipped(16, 1, 1, 2, true).grad_scale == 0.5f);
    assert_true(clipped(16, 1, 1, 2, true).skips == 0);
    /* The norm without the loss scale of 8 is 4, which is above the limit of 2
     * and equal to the limit of 4. */
    assert_true(clipped(1024, 1, 8, 2, true).grad_scale == 0.0625f);
    assert_true(clipped(1024, 1, 8, 4, true).grad_scale == 0.125f);
    const double bad[] = {(double)NAN, (double)INFINITY};
    for (int i = 0; i < 2; i++) {
        assert_true(clipped(bad[i], 1, 1, 2, true).skips == 1);
        assert_true(clipped(16, bad[i], 1, 2, true).skips == 1);
        assert_true(clipped(bad[i], 1, 8, 2, false).skips == 0);
        assert_true(clipped(bad[i], 1, 8, 2, false).grad_scale == 0.125f);
        assert_true(clipped(16, bad[i], 1, 2, false).grad_scale == 0.5f);
    }
    es_control control = {.loss_scale = 1};
    double squares = 16;
    ops->clip(the_cpu, mem(&control), mem(&squares), NULL, 2, true);
    assert_true(control.skips == 0 && control.grad_scale == 0.5f);
    /* the previous step has set the flag `skips`, but the host has not read it
     * yet */
    control.skips = 1;
    ops->clip(the_cpu, mem(&control), mem(&squares), NULL, 2, true);
    assert_true(control.skips == 1);
}

VARIANT_TEST(adamw_matches_its_formula)
{
    enum { N = 10007 };
    float *p = array(N, 1), *m = array(N, 1), *v = array(N, 1);
    float *g = array(N, 1);
    double *want = doubles(3 * N);
    const es_adamw s = {0.9f, 0.99f, 1e-3f, 0.1f};
    es_control control = {.lr = 0.01f,
                          .correction1 = 0.4f,
                          .correction2 = 0.2f,
                          .grad_scale = 0.5f};
    for (int i = 0; i < N; i++) {
        v[i] = fabsf(v[i]);
        double grad = 0.5 * (double)g[i];
        double m1 =
            (double)s.beta1 * (double)m[i] + (1 - (double)s.beta1) * grad;
        double m2 = (double)s.beta2 * (double)v[i] +
                    (1 - (double)s.beta2) * grad * grad;
        want[i] = (double)p[i] * (1 - 0.01 * 0.1) -
                  0.01 * (m1 / 0.4) / (sqrt(m2 / 0.2) + 1e-3);
        want[N + i] = m1;
        want[2 * N + i] = m2;
    }
    for (int step = 0; step < 2; step++) { /* the second step is skipped */
        ops->adamw(the_cpu, mem(p), mem(m), mem(v), mem(g), N, &s,
                   mem(&control));
        es_test_expect_close("param", p, want, N);
        es_test_expect_close("moment 1", m, want + N, N);
        es_test_expect_close("moment 2", v, want + 2 * N, N);
        control.skips = 1;
    }
}
