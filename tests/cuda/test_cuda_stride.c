/* Tests rows of logits whose stride is larger than their width on the CUDA
 * back-end. The gaps between rows must not be written and must not affect any
 * result. */
/* needs: nvcc */
#include "tests/support/cmocka_all.h"
#include "tests/support/cuda_bench.h"
#include "tests/support/reference_ops.h"

#include <math.h>

/* Sizes of a matrix (n,width) whose rows are `stride` elements apart. */
typedef struct rows {
    int n, width, stride;
} rows;

/* The cases use the back-end's own stride, a stride that equals the width, and
 * a stride that is not a multiple of 16 bytes. */
static const rows all_rows[] = {
    {1, 1, 64}, {7, 5, 64}, {33, 48, 48}, {50, 131, 192}, {21, 130, 133},
};
#define N_ROWS (sizeof all_rows / sizeof *all_rows)

static const es_extents of_rows = {
    .n_rows = 64, .width = 256, .n_ctx = 16, .n_head = 1, .head_width = 16};

/* --- gaps between rows ---------------------------------------------------- */

/* Returns the value that fills the gap after a row: alternately NaN, which
 * would spoil every sum, and 80, which is larger than any number of a row. */
static float between(int row)
{
    return row % 2 == 0 ? NAN : 80;
}

/* Copies the matrix `values` (n,width) to memory of the back-end, or a matrix
 * of NaN if `values` is NULL, and fills the gaps between its rows. Writes the
 * numbers back to `values` as they were stored (rounded). */
static es_mem *put_rows(es_bench *bench, es_bench_role role, const rows *r,
                        float *values)
{
    const size_t n = (size_t)(r->n * r->stride);
    float *spread = es_bench_draw(n, 1);
    for (int i = 0; i < r->n; i++)
        for (int j = 0; j < r->stride; j++)
            spread[i * r->stride + j] = j >= r->width ? between(i)
                                        : values      ? values[i * r->width + j]
                                                      : NAN;
    es_mem *memory = es_bench_put_acts(bench, role, spread, n);
    for (int i = 0; values && i < r->n; i++)
        memcpy(values + i * r->width, spread + i * r->stride,
               (size_t)r->width * sizeof *values);
    return memory;
}

/* Fails the test unless the rows have the values `want` (n,width) and the gaps
 * are unchanged. */
static void expect_rows(es_bench *bench, const char *what, const es_mem *memory,
                        const rows *r, const double *want)
{
    const size_t width = (size_t)r->width;
    const float *spread = es_bench_get_acts(bench, memory);
    float *got = es_bench_draw((size_t)r->n * width, 1);
    for (int i = 0; i < r->n; i++) {
        const float *row = spread + i * r->stride;
        memcpy(got + (size_t)i * width, row, width * sizeof *got);
        for (int j = r->width; j < r->stride; j++)
            if (!(isnan(between(i)) ? isnan(row[j]) : row[j] == between(i)))
                fail_msg("%s, row %d: the gap after the row was overwritten "
                         "with %.9g",
                         what, i, (double)row[j]);
    }
    es_bench_expect(bench, what, got, want, (size_t)r->n * width, true);
}

static void test_cuda_stride__is_a_whole_number_of_lines(void **state)
{
    (void)state;
    for (ES_EACH_BENCH(bench, ES_BENCH_ACTS, &of_rows)) {
        assert_int_equal(bench->ops->row_stride(50257), 50304);
        assert_int_equal(bench->ops->row_stride(50304), 50304);
        assert_int_equal(bench->ops->row_stride(1), 64);
    }
}

/* --- products ------------------------------------------------------------- */

enum { N_IN = 24 };

typedef struct call {
    es_linear linear;
    int n;
    es_mem *out, *dbias;
    const es_mem *x, *y, *residual;
} call;

/* Draws weights (N_IN,width), as they are stored, that all precisions represent
 * exactly. */
static float *draw_weights(const es_bench *bench, const rows *r)
{
    const size_t n = (size_t)(N_IN * r->width);
    float *out = es_bench_draw(n, 1);
    for (size_t i = 0; i < n; i++)
        out[i] = es_bench_round(bench->precision, out[i]);
    return out;
}

static call call_of(es_bench *bench, const rows *r, const float *weights,
                    bool transposed)
{
    const size_t n = (size_t)(N_IN * r->width);
    const es_mem *weight =
        weights ? es_bench_put_floats(bench, ES_READ, weights, n) : NULL;
    if (weight)
        es_bench_keep(bench, weight, n);
    return (call){.linear = {.weight = weight,
                             .n_in = N_IN,
                             .n_out = r->width,
                             .n_bias_trained = r->width,
                             .transposed = transposed,
                             .y_stride = r->stride},
                  .n = r->n};
}

/* Checks y = x * W (`kind` = 0), y = x * W + b (1), or y = y + x * W + b (2).
 * The back-end keeps no copy of the bias here, so it first stores the bias in y
 * in 16 bits. The bias is small enough to be represented exactly. */
static void check_linear_of(es_bench *bench, const rows *r, int kind,
                            bool transposed)
{
    const size_t n_y = (size_t)(r->n * r->width), n_x = (size_t)(r->n * N_IN);
    float *x = es_bench_draw(n_x, 1), *y = es_bench_draw(n_y, 0);
    float *w = draw_weights(bench, r), *b = es_bench_draw((size_t)r->width, 0);
    double *want = es_bench_doubles(n_y);
    for (size_t i = 0; i < n_y; i++)
        y[i] = (float)(i % 7) * 0.25f;
    for (int j = 0; j < r->width; j++)
        b[j] = (float)(j % 5) - 2;
    call c = call_of(bench, r, w, transposed);
    if (kind > 0)
        c.linear.bias =
            es_bench_put_floats(bench, ES_READ, b, (size_t)r->width);
    c.x = es_bench_put_acts(bench, ES_READ, x, n_x);
    c.out = put_rows(bench, ES_CHANGE, r, kind == 2 ? y : NULL);
    c.residual = kind == 2 ? c.out : NULL;
    es_ref_linear(want, x, w, kind > 0 ? b : NULL, r->n, N_IN, r->width,
                  transposed);
    for (size_t i = 0; kind == 2 && i < n_y; i++)
        want[i] += (double)y[i];
    for (ES_EACH_RUN(on, bench))
        bench->ops->linear(on, c.out, c.residual, c.x, &c.linear, c.n);
    expect_rows(bench, "linear", c.out, r, want);
    es_bench_clear(bench);
}

static void test_cuda_stride__linear(void **state)
{
    (void)state;
    for (ES_EACH_BENCH(bench, ES_BENCH_ACTS, &of_rows))
        for (size_t i = 0; i < 6 * N_ROWS; i++)
            check_linear_of(bench, &all_rows[i / 6], (int)i % 3, i / 3 % 2);
}

static void check_input_of(es_bench *bench, const rows *r, bool transposed)
{
    const size_t n_y = (size_t)(r->n * r->width), n_x = (size_t)(r->n * N_IN);
    float *dy = es_bench_draw(n_y, 1), *w = draw_weights(bench, r);
    double *want = es_bench_doubles(n_x);
    call c = call_of(bench, r, w, transposed);
    c.y = put_rows(bench, ES_READ, r, dy);
    c.out = es_bench_put_acts(bench, ES_WRITE, NULL, n_x);
    es_ref_linear(want, dy, w, NULL, r->n, r->width, N_IN, !transposed);
    for (ES_EACH_RUN(on, bench))
        bench->ops->linear_backward_input(on, c.out, c.y, &c.linear, c.n,
                                          false);
    es_bench_expect_acts(bench, "dx", c.out, want, n_x);
    es_bench_clear(bench);
}

static void check_weight_of(es_bench *bench, const rows *r, bool transposed)
{
    const size_t n_y = (size_t)(r->n * r->width), n_x = (size_t)(r->n * N_IN);
    const size_t width = (size_t)r->width, n_w = width * N_IN;
    float *dy = es_bench_draw(n_y, 1), *x = es_bench_draw(n_x, 1);
    float *dw = es_bench_draw(n_w, 1), *db = es_bench_draw(width, 1);
    double *want = es_bench_widen(dw, n_w), *sums = es_bench_widen(db, width);
    call c = call_of(bench, r, NULL, transposed);
    c.x = es_bench_put_acts(bench, ES_READ, x, n_x);
    c.y = put_rows(bench, ES_READ, r, dy);
    c.out = es_bench_put_floats(bench, ES_CHANGE, dw, n_w);
    c.dbias = es_bench_put_floats(bench, ES_CHANGE, db, width);
    for (int i = 0; i < r->n; i++)
        for (int j = 0; j < r->width; j++) {
            const double d = (double)dy[i * r->width + j];
            sums[j] += d;
            for (int k = 0; k < N_IN; k++)
                want[transposed ? j * N_IN + k : k * r->width + j] +=
                    (double)x[i * N_IN + k] * d;
        }
    for (ES_EACH_RUN(on, bench))
        bench->ops->linear_backward_weight(on, c.out, c.dbias, c.x, c.y,
                                           &c.linear, c.n, true);
    es_bench_expect_floats(bench, "dw", c.out, want, n_w);
    es_bench_expect_floats(bench, "db", c.dbias, sums, width);
    es_bench_clear(bench);
}

static void test_cuda_stride__linear_backward(void **state)
{
    (void)state;
    for (ES_EACH_BENCH(bench, ES_BENCH_ACTS, &of_rows))
        for (size_t i = 0; i < 2 * N_ROWS; i++) {
            check_input_of(bench, &all_rows[i / 2], i % 2);
            check_weight_of(bench, &all_rows[i / 2], i % 2);
        }
}

/* --- loss ----------------------------------------------------------------- */

static void check_loss(es_bench *bench, const rows *r, bool both)
{
    const size_t n = (size_t)r->n, n_x = n * (size_t)r->width;
    float *x = es_bench_draw(n_x, 5);
    int32_t *targets = es_bench_tokens(n, r->width);
    double *want = es_bench_doubles(n), *gradient = es_bench_doubles(n_x);
    for (int i = 0; i < r->n; i++)
        targets[i] = (i * 7 + r->width - 1) % r->width;
    es_mem *row_loss = es_bench_put_floats(bench, ES_WRITE, NULL, n);
    es_mem *logits = put_rows(bench, ES_CHANGE, r, x);
    es_mem *lse = both ? NULL : es_bench_put_floats(bench, ES_WRITE, NULL, n);
    es_mem *of_targets = es_bench_put(bench, ES_READ, targets, n, 4);
    for (ES_EACH_RUN(on, bench)) { /* runs the forward and the backward pass */
        if (both) {
            bench->ops->cross_entropy_both(on, row_loss, logits, of_targets,
                                           0.5f, NULL, r->n, r->width,
                                           r->stride);
            continue;
        }
        bench->ops->cross_entropy(on, row_loss, lse, logits, of_targets, r->n,
                                  r->width, r->stride);
        bench->ops->cross_entropy_backward(on, logits, lse, of_targets, 0.5f,
                                           NULL, r->n, r->width, r->stride);
    }
    for (int i = 0; i < r->n; i++) {
        const float *row = x + i * r->width;
        want[i] = es_ref_cross_entropy(row, targets[i], r->width);
        for (int j = 0; j < r->width; j++) {
            /* -ln softmax of column j, computed from the loss, which is -ln
             * softmax of the target column */
            const double of_j =
                want[i] + (double)row[targets[i]] - (double)row[j];
            gradient[i * r->width + j] =
                0.5 * (exp(-of_j) - (j == targets[i] ? 1 : 0));
        }
    }
    es_bench_expect_floats(bench, "loss", row_loss, want, n);
    expect_rows(bench, "dlogits", logits, r, gradient);
    es_bench_clear(bench);
}

static void test_cuda_stride__cross_entropy(void **state)
{
    static const rows large = {3, 50257, 50304};
    (void)state;
    for (ES_EACH_BENCH(bench, ES_BENCH_ACTS, &of_rows)) {
        for (size_t i = 0; i < N_ROWS; i++)
            check_loss(bench, &all_rows[i], false),
                check_loss(bench, &all_rows[i], true);
        check_loss(bench, &large, false);
        check_loss(bench, &large, true);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cuda_stride__is_a_whole_number_of_lines),
        cmocka_unit_test(test_cuda_stride__linear),
        cmocka_unit_test(test_cuda_stride__linear_backward),
        cmocka_unit_test(test_cuda_stride__cross_entropy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
