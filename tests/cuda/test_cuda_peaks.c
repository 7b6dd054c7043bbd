/* Tests range losses (penalties on the largest absolute values of activations
 * and scores) on the CUDA back-end: compares these values and the gradients
 * with plain loops. */
/* needs: nvcc */
#include "tests/support/cmocka_all.h"
#include "tests/support/cuda_bench.h"

#include <math.h>

static const es_extents small = {
    .n_rows = 600, .width = 288, .n_ctx = 200, .n_head = 3, .head_width = 32};

static const es_peak before = {.sum = 5, .largest = 2};

static void expect_peak(const es_peak *peak, double x, uint64_t index)
{
    assert_int_equal(peak->index, index);
    if (isnan(x)) {
        assert_true(isnan(peak->size) && isnan(peak->sign));
        assert_true(isnan(peak->sum) && isnan(peak->largest));
        return;
    }
    assert_true(fabs((double)peak->size - fabs(x)) <= 2e-5 * fabs(x));
    assert_true(fabs(peak->sum - 5 - fabs(x)) <= 2e-5 * fabs(x));
    assert_true(peak->sign == (float)((x > 0) - (x < 0)));
    assert_true(peak->largest == fmaxf(peak->size, 2));
}

/* --- activations ---------------------------------------------------------- */

/* Puts `value`, which is larger than all other numbers, at index `at` and again
 * at the end. The operation must return the first of the two indices. */
static void check_activations(es_bench *bench, size_t n, size_t at, float value)
{
    float *x = es_bench_draw(n, 1), *dx = es_bench_draw(n, 1);
    const es_control control = {.loss_scale = 4};
    x[n - 1] = -value;
    x[at] = value;
    es_mem *of_x = es_bench_put_acts(bench, ES_READ, x, n);
    es_mem *of_dx = es_bench_put_acts(bench, ES_CHANGE, dx, n);
    es_mem *of_peak = es_bench_put(bench, ES_CHANGE, &before, 1, sizeof before);
    es_mem *of_control =
        es_bench_put(bench, ES_READ, &control, 1, sizeof control);
    for (ES_EACH_RUN(on, bench)) {
        bench->ops->find_peak(on, of_peak, of_x, n);
        bench->ops->pull_peak(on, of_dx, of_peak, 0.5f, of_control);
    }
    const es_peak *peak = es_bench_get(bench, of_peak);
    expect_peak(peak, (double)x[at], at);
    double *want = es_bench_widen(dx, n);
    want[at] += 2 * (double)peak->sign;
    es_bench_expect_acts(bench, "pulled", of_dx, want, n);
    es_bench_clear(bench);
}

static void test_cuda_peaks__activations(void **state)
{
    static const size_t sizes[] = {1, 7, 256, 5000, 70001};
    (void)state;
    for (ES_EACH_BENCH(bench, ES_BENCH_ACTS, &small))
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            if (bench->lie == ES_LIE_APART)
                continue;
            check_activations(bench, sizes[i], sizes[i] / 2, -3);
            check_activations(bench, sizes[i], sizes[i] / 3, 3);
            check_activations(bench, sizes[i], sizes[i] / 3, NAN);
        }
}

static void test_cuda_peaks__zeros(void **state)
{
    (void)state;
    for (ES_EACH_BENCH(bench, ES_BENCH_ACTS, &small)) {
        es_mem *of_x =
            es_bench_put_acts(bench, ES_READ, es_bench_draw(300, 0), 300);
        es_mem *of_peak =
            es_bench_put(bench, ES_CHANGE, &before, 1, sizeof before);
        for (ES_EACH_RUN(on, bench))
            bench->ops->find_peak(on, of_peak, of_x, 300);
        expect_peak(es_bench_get(bench, of_peak), 0, 0);
        es_bench_clear(bench);
    }
}

/* --- scores --------------------------------------------------------------- */

typedef struct shape {
    int n_batch, n_ctx, n_head, width; /* width is the width of a head */
    bool has_nan;
} shape;

/* Returns the offset in qkv of the key (if is_key is true) or the query from
 * which the score with the index `score` in (B,H,T,T) is computed. */
static size_t place(const shape *of, int score, bool is_key)
{
    const int T = of->n_ctx, d = of->n_head * of->width;
    const int at = is_key ? score % T : score / T % T;
    const int head = score / T / T;
    return (size_t)((head / of->n_head * T + at) * 3 * d + (is_key ? d : 0) +
                    head % of->n_head * of->width);
}

static double score_of(const float *qkv, const shape *of, int score)
{
    const float *q = qkv + place(of, score, false);
    const float *k = qkv + place(of, score, true);
    double sum = 0;
    for (int c = 0; c < of->width; c++)
        sum += (double)q[c] * (double)k[c];
    return sum / sqrt(of->width);
}

static int largest_of(const float *qkv, const shape *of)
{
    const int T = of->n_ctx, n = of->n_batch * of->n_head * T * T;
    int best = 0;
    for (int i = 1; i < n; i++) {
        const double x = fabs(score_of(qkv, of, i));
        const double most = fabs(score_of(qkv, of, best));
        if (i % T <= i / T % T && (x > most || (isnan(x) && !isnan(most))))
            best = i;
    }
    return best;
}

static void check_scores(es_bench *bench, const shape *of)
{
    const size_t n = (size_t)(of->n_batch * of->n_ctx);
    const size_t n_head = (size_t)of->n_head, d = n_head * (size_t)of->width;
    const es_attention attention = {.n_batch = of->n_batch,
                                    .n_ctx = of->n_ctx,
                                    .n_head = of->n_head,
                                    .d_model = (int)d,
                                    .kind = ES_POWER_SOFTMAX,
                                    .power = 4,
                                    .epsilon = 1e-3f};
    float *qkv = es_bench_draw(n * 3 * d, 2);
    float *dqkv = es_bench_draw(n * 3 * d, 1);
    if (of->has_nan) /* puts NaN into q of the last token of the first
                      * sequence */
        qkv[(size_t)(of->n_ctx - 1) * 3 * d] = NAN;
    es_mem *of_y = es_bench_put_acts(bench, ES_WRITE, NULL, n * d);
    es_mem *of_qkv = es_bench_put_acts(bench, ES_READ, qkv, n * 3 * d);
    es_mem *of_dqkv = es_bench_put_acts(bench, ES_CHANGE, dqkv, n * 3 * d);
    es_mem *of_saved =
        es_bench_put_floats(bench, ES_WRITE, NULL, n * n_head * ES_N_SAVED);
    es_mem *of_peak = es_bench_put(bench, ES_CHANGE, &before, 1, sizeof before);
    for (ES_EACH_RUN(on, bench)) {
        bench->ops->attention(on, of_y, of_saved, NULL, of_qkv, &attention);
        bench->ops->find_score_peak(on, of_peak, of_qkv, of_saved, &attention,
                                    &(es_sight){.all = false});
        bench->ops->pull_score_peak(on, of_dqkv, of_qkv, of_peak, &attention,
                                    0.25f, NULL);
    }
    const es_peak *peak = es_bench_get(bench, of_peak);
    const int best = largest_of(qkv, of);
    expect_peak(peak, score_of(qkv, of, best), (uint64_t)best);
    double *want = es_bench_widen(dqkv, n * 3 * d);
    const size_t q = place(of, best, false), k = place(of, best, true);
    const double pull = 0.25 * (double)peak->sign / sqrt(of->width);
    for (size_t c = 0; c < (size_t)of->width; c++) {
        want[q + c] += pull * (double)qkv[k + c];
        want[k + c] += pull * (double)qkv[q + c];
    }
    es_bench_expect_acts(bench, "pulled scores", of_dqkv, want, n * 3 * d);
    es_bench_clear(bench);
}

static void test_cuda_peaks__scores(void **state)
{
    static const shape shapes[] = {{2, 70, 2, 16, false},
                                   {1, 130, 3, 8, false},
                                   {3, 33, 3, 32, false},
                                   {2, 1, 3, 5, false},
                                   {2, 40, 3, 16, true}};
    (void)state;
    /* attention saves its values at an address that must be a multiple of 16
     * bytes */
    for (ES_EACH_BENCH(bench, ES_BENCH_ACTS, &small))
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
            if (bench->lie == ES_LIE_ALIGNED)
                check_scores(bench, &shapes[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cuda_peaks__activations),
        cmocka_unit_test(test_cuda_peaks__zeros),
        cmocka_unit_test(test_cuda_peaks__scores),
    };
    return cmocka_run_group_tests_name("cuda_peaks", tests, NULL, NULL);
}
