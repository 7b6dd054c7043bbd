/* Rows of logits that lie further apart than they are wide, on the CUDA
 * back-end: what is between them is not written, and nothing depends on it. */
#include "tests/support/cmocka_all.h"
#include "tests/support/cuda_bench.h"
#include "tests/support/reference_ops.h"

#include <math.h>
#include <stdlib.h>

/* Rows (n,width) and how far apart they are. */
typedef struct rows {
    int n, width, stride;
} rows;

/* The stride of the back-end, none, and one that no pack of 16 bytes divides.
 */
static const rows all_rows[] = {
    {1, 1, 64}, {7, 5, 64}, {33, 48, 48}, {50, 131, 192}, {21, 130, 133},
};
#define N_ROWS (sizeof all_rows / sizeof *all_rows)

static const es_extents of_rows = {
    .n_rows = 64, .width = 256, .n_ctx = 16, .n_head = 1, .head_width = 16};

/* --- what lies between ---------------------------------------------------- */

/* By turns what spoils every sum, and what would be the largest of a row. */
static float between(int row)
{
    return row % 2 == 0 ? NAN : 80;
}

/* values (n,width), NULL: NaN, put as they lie; rounded as they were put. */
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
    free(spread);
    return memory;
}

/* Fails the test unless the rows hold what is wanted (n,width), and what lies
 * between is as it was. */
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
                fail_msg("%s, row %d: %.9g is written behind it", what, i,
                         (double)row[j]);
    }
    es_bench_expect(bench, what, got, want, (size_t)r->n * width, true);
    free(got);
}

static void each_rows(es_bench *bench, void (*check)(es_bench *, const rows *))
{
    for (size_t i = 0; i < N_ROWS; i++) {
        check(bench, &all_rows[i]);
        es_bench_clear(bench);
    }
}

static void check_stride(es_bench *bench)
{
    assert_int_equal(bench->ops->row_stride(50257), 50304);
    assert_int_equal(bench->ops->row_stride(50304), 50304);
    assert_int_equal(bench->ops->row_stride(1), 64);
}

static void test_cuda_stride__is_a_whole_number_of_lines(void **state)
{
    (void)state;
    es_bench_each(check_stride, &of_rows);
}

/* --- products ------------------------------------------------------------- */

enum { N_IN = 24 };

typedef struct call {
    es_linear linear;
    int n;
    es_mem *out, *dbias;
    const es_mem *x, *y, *residual;
    size_t n_kept;
} call;

/* keeps: as the weights are, or nothing any more. */
static void keep(const es_ops *ops, es_backend *backend, const call *c,
                 bool keeps)
{
    if (ops->keep)
        assert_int_equal(
            ops->keep(backend, c->linear.weight, keeps ? c->n_kept : 0), ES_OK);
}

static void call_linear(const es_ops *ops, es_backend *backend, void *context)
{
    const call *c = context;
    keep(ops, backend, c, true);
    ops->linear(backend, c->out, c->residual, c->x, &c->linear, c->n);
    keep(ops, backend, c, false);
}

static void call_input(const es_ops *ops, es_backend *backend, void *context)
{
    const call *c = context;
    keep(ops, backend, c, true);
    ops->linear_backward_input(backend, c->out, c->y, &c->linear, c->n, false);
    keep(ops, backend, c, false);
}

static void call_weight(const es_ops *ops, es_backend *backend, void *context)
{
    const call *c = context;
    ops->linear_backward_weight(backend, c->out, c->dbias, c->x, c->y,
                                &c->linear, c->n);
}

/* Weights (N_IN,width), as laid out, that every precision holds. */
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
    return (call){.linear = {.weight = weight,
                             .n_in = N_IN,
                             .n_out = r->width,
                             .n_bias_trained = r->width,
                             .transposed = transposed,
                             .y_stride = r->stride},
                  .n = r->n,
                  .n_kept = n};
}

/* `kind` 0: y = x W, 1: + b, 2: y = y + x W + b. A bias is not kept, so that
 * y begins with it where activations are narrow; it is small enough for that
 * to round nothing. */
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
    es_bench_run(bench, call_linear, &c);
    expect_rows(bench, "linear", c.out, r, want);
    es_bench_clear(bench);
    free(x), free(y), free(w), free(b), free(want);
}

static void check_linear_rows(es_bench *bench, const rows *r)
{
    for (int kind = 0; kind < 3; kind++) {
        check_linear_of(bench, r, kind, false);
        check_linear_of(bench, r, kind, true);
    }
}

static void check_linear(es_bench *bench)
{
    each_rows(bench, check_linear_rows);
}

static void test_cuda_stride__linear(void **state)
{
    (void)state;
    es_bench_each(check_linear, &of_rows);
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
    es_bench_run(bench, call_input, &c);
    es_bench_expect(bench, "dx", es_bench_get_acts(bench, c.out), want, n_x,
                    true);
    es_bench_clear(bench);
    free(dy), free(w), free(want);
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
    es_bench_run(bench, call_weight, &c);
    es_bench_expect(bench, "dw", es_bench_get(bench, c.out), want, n_w, false);
    es_bench_expect(bench, "db", es_bench_get(bench, c.dbias), sums, width,
                    false);
    es_bench_clear(bench);
    free(dy), free(x), free(dw), free(db), free(want), free(sums);
}

static void check_back_rows(es_bench *bench, const rows *r)
{
    for (int transposed = 0; transposed < 2; transposed++) {
        check_input_of(bench, r, transposed);
        check_weight_of(bench, r, transposed);
    }
}

static void check_back(es_bench *bench)
{
    each_rows(bench, check_back_rows);
}

static void test_cuda_stride__linear_backward(void **state)
{
    (void)state;
    es_bench_each(check_back, &of_rows);
}

/* --- loss ----------------------------------------------------------------- */

typedef struct loss {
    const rows *rows;
    es_mem *row_loss, *lse, *logits;
    const es_mem *targets;
} loss;

/* There and back. */
static void call_loss(const es_ops *ops, es_backend *backend, void *context)
{
    const loss *l = context;
    const rows *r = l->rows;
    ops->cross_entropy(backend, l->row_loss, l->lse, l->logits, l->targets,
                       r->n, r->width, r->stride);
    ops->cross_entropy_backward(backend, l->logits, l->lse, l->targets, 0.5f,
                                NULL, r->n, r->width, r->stride);
}

static void expect_loss(es_bench *bench, const loss *l, const float *x,
                        const int32_t *targets)
{
    const rows *r = l->rows;
    const size_t n = (size_t)r->n;
    double *want = es_bench_doubles(n);
    double *gradient = es_bench_doubles(n * (size_t)r->width);
    for (int i = 0; i < r->n; i++) {
        const float *row = x + i * r->width;
        want[i] = es_ref_cross_entropy(row, targets[i], r->width);
        for (int j = 0; j < r->width; j++) {
            /* -log softmax of j, by that of the target */
            const double of_j =
                want[i] + (double)row[targets[i]] - (double)row[j];
            gradient[i * r->width + j] =
                0.5 * (exp(-of_j) - (j == targets[i] ? 1 : 0));
        }
    }
    es_bench_expect(bench, "loss", es_bench_get(bench, l->row_loss), want, n,
                    false);
    expect_rows(bench, "dlogits", l->logits, r, gradient);
    free(want), free(gradient);
}

static void check_loss_rows(es_bench *bench, const rows *r)
{
    const size_t n = (size_t)r->n;
    float *x = es_bench_draw(n * (size_t)r->width, 5);
    int32_t *targets = malloc(n * sizeof *targets);
    assert_non_null(targets);
    for (int i = 0; i < r->n; i++)
        targets[i] = (i * 7 + r->width - 1) % r->width;
    loss l = {.rows = r};
    l.row_loss = es_bench_put_floats(bench, ES_WRITE, NULL, n);
    l.logits = put_rows(bench, ES_CHANGE, r, x);
    l.lse = es_bench_put_floats(bench, ES_WRITE, NULL, n);
    l.targets = es_bench_put(bench, ES_READ, targets, n, sizeof *targets);
    es_bench_run(bench, call_loss, &l);
    expect_loss(bench, &l, x, targets);
    free(x), free(targets);
}

static void check_loss(es_bench *bench)
{
    static const rows large = {3, 50257, 50304};
    each_rows(bench, check_loss_rows);
    check_loss_rows(bench, &large);
}

static void test_cuda_stride__cross_entropy(void **state)
{
    (void)state;
    es_bench_each(check_loss, &of_rows);
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
