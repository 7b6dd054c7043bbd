/* Tests QK-Clip on the CUDA back-end: compares the largest logits, found among
 * the values that attention saves, with logits that the test computes, and
 * checks the factors and the scaled columns. */
/* needs: nvcc */
#include "tests/support/cmocka_all.h"
#include "tests/support/cuda_bench.h"

#include <math.h>

static const es_extents small = {
    .n_rows = 600, .width = 288, .n_ctx = 200, .n_head = 3, .head_width = 32};

/* --- the largest logit ---------------------------------------------------- */

typedef struct shape {
    int n_batch, n_ctx, n_head, width; /* width is the width of a head */
    bool has_temperatures, measures, has_nan;
} shape;

static es_attention attention_of(const shape *of, const es_mem *log_t)
{
    return (es_attention){.n_batch = of->n_batch,
                          .n_ctx = of->n_ctx,
                          .n_head = of->n_head,
                          .d_model = of->n_head * of->width,
                          .log_t = of->has_temperatures ? log_t : NULL};
}

/* Returns the largest of `before` and the logits of head h; `rows` (B,H,T)
 * contains the largest logit of each row. */
static double largest_of(const float *rows, const shape *of, int h,
                         float before)
{
    double largest = (double)before;
    for (int i = 0; i < of->n_batch * of->n_ctx; i++) {
        const int b = i / of->n_ctx, t = i % of->n_ctx;
        const double x = (double)rows[(b * of->n_head + h) * of->n_ctx + t];
        if (isnan(x) || isnan(largest))
            largest = (double)NAN;
        else
            largest = fmax(largest, x);
    }
    return largest;
}

static void check_largest_of(es_bench *bench, const shape *of)
{
    const size_t n = (size_t)(of->n_batch * of->n_ctx);
    const size_t n_head = (size_t)of->n_head, d = n_head * (size_t)of->width;
    const size_t n_log_t = n_head * (size_t)of->n_ctx;
    float before[] = {-INFINITY, 1e4f, NAN};
    float *qkv = es_bench_draw(n * 3 * d, 2);
    double want[3];
    /* puts NaN into q of head 0 of the last token of the first sequence */
    if (of->has_nan)
        qkv[(size_t)(of->n_ctx - 1) * 3 * d] = NAN;
    es_mem *of_y = es_bench_put_acts(bench, ES_WRITE, NULL, n * d);
    es_mem *of_qkv = es_bench_put_acts(bench, ES_READ, qkv, n * 3 * d);
    es_mem *of_saved =
        es_bench_put_floats(bench, ES_WRITE, NULL, n * n_head * ES_N_SAVED);
    es_mem *of_rows = es_bench_put_floats(bench, ES_WRITE, NULL, n * n_head);
    es_mem *of_log_t =
        es_bench_put_floats(bench, ES_READ, es_bench_draw(n_log_t, 1), n_log_t);
    es_mem *of_entropy = es_bench_put_floats(bench, ES_WRITE, NULL, n * n_head);
    const es_row_mem rows = {
        .array = {[ES_ROW_ENTROPY] = of_entropy, [ES_ROW_MAX_LOGIT] = of_rows}};
    const es_attention attention = attention_of(of, of_log_t);
    /* The values that attention saves must not depend on the statistics that
     * are requested. */
    es_mem *of_bare =
        es_bench_put_floats(bench, ES_WRITE, NULL, n * n_head * ES_N_SAVED);
    es_mem *of_out = es_bench_put_floats(bench, ES_CHANGE, before, n_head);
    for (ES_EACH_RUN(on, bench)) {
        bench->ops->attention(on, of_y, of_saved, &rows, of_qkv, &attention);
        bench->ops->attention(on, of_y, of_bare, NULL, of_qkv, &attention);
        bench->ops->largest_logits(
            on, of_out, of->measures ? of_saved : of_bare, &attention);
    }
    const float *measured = es_bench_get(bench, of_rows);
    for (int h = 0; h < of->n_head; h++)
        want[h] = largest_of(measured, of, h, before[h]);
    es_bench_expect_floats(bench, "largest logits", of_out, want, n_head);
    assert_true(isnan(want[0]) == of->has_nan);
    es_bench_clear(bench);
}

static void test_cuda_clip__largest_logits(void **state)
{
    static const shape shapes[] = {
        {2, 70, 2, 16, false, true, false}, {2, 70, 2, 16, false, false, false},
        {1, 200, 3, 8, true, true, false},  {3, 33, 3, 32, true, false, false},
        {2, 1, 3, 5, false, true, false},   {2, 40, 3, 32, false, true, true},
        {2, 40, 3, 16, true, false, true}};
    (void)state;
    /* attention saves its values at an address that must be a multiple of 16
     * bytes */
    for (ES_EACH_BENCH(bench, ES_BENCH_ACTS, &small))
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
            if (bench->lie == ES_LIE_ALIGNED)
                check_largest_of(bench, &shapes[i]);
}

/* --- factors and columns -------------------------------------------------- */

static void check_factors_of(es_bench *bench, float skips)
{
    const float inf = INFINITY;
    const float largest[] = {-inf, -9, 0,     8,   nextafterf(8, 9),
                             32,   18, 3e38f, inf, NAN};
    enum { N = sizeof largest / sizeof *largest };
    const es_control control = {.skips = skips};
    double want[N];
    for (int i = 0; i < N; i++)
        want[i] = skips == 0 && isfinite(largest[i]) && largest[i] > 8
                      ? sqrt(8 / (double)largest[i])
                      : 1;
    es_mem *of_factors = es_bench_put_floats(bench, ES_WRITE, NULL, N);
    es_mem *of_largest = es_bench_put_floats(bench, ES_READ, largest, N);
    es_mem *of_control =
        es_bench_put(bench, ES_READ, &control, sizeof control / 4, 4);
    for (ES_EACH_RUN(on, bench))
        bench->ops->qk_factors(on, of_factors, of_largest, 8, N, of_control);
    es_bench_expect_floats(bench, "factors", of_factors, want, N);
    es_bench_clear(bench);
}

static void check_columns_of(es_bench *bench, int n_in, int n_head, int width)
{
    const float factors[] = {0.5f, 1, 0.75f};
    const size_t d = (size_t)(n_head * width), n = (size_t)n_in * 3 * d;
    float *x = es_bench_draw(n, 2);
    x[n / 2] = NAN;
    double *want = es_bench_widen(x, n);
    for (size_t i = 0; i < n; i++)
        if (i % (3 * d) < 2 * d)
            want[i] *= (double)factors[i % d / (size_t)width];
    es_mem *of_x = es_bench_put_floats(bench, ES_CHANGE, x, n);
    es_mem *of_factors =
        es_bench_put_floats(bench, ES_READ, factors, (size_t)n_head);
    for (ES_EACH_RUN(on, bench))
        bench->ops->scale_heads(on, of_x, of_factors, n_in, n_head, (int)d);
    es_bench_expect_floats(bench, "columns", of_x, want, n);
    es_bench_clear(bench);
}

static void test_cuda_clip__factors_and_columns(void **state)
{
    (void)state;
    for (ES_EACH_BENCH(bench, ES_BENCH_FP32, &small)) {
        check_factors_of(bench, 0);
        check_factors_of(bench, 1);
        check_columns_of(bench, 1, 3, 4);
        check_columns_of(bench, 15, 3, 5);
        check_columns_of(bench, 96, 2, 48);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cuda_clip__largest_logits),
        cmocka_unit_test(test_cuda_clip__factors_and_columns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
