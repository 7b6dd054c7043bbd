/* Compares the CUDA back-end's matrix products with plain loops in double. */
/* needs: nvcc */
#include "tests/support/cmocka_all.h"
#include "tests/support/cuda_linear.h"
#include "tests/support/reference_ops.h"

#include <math.h>

static const es_linear_sizes all_sizes[] = {
    {1, 1, 1, false, 1},      {1, 1, 1, true, 1},     {7, 3, 5, false, 4},
    {33, 20, 48, true, 32},   {129, 17, 1, false, 1}, {50, 64, 131, false, 88},
    {50, 64, 136, true, 136}, {1, 24, 8, false, 8},
};
#define N_SIZES (sizeof all_sizes / sizeof *all_sizes)

/* --- y = r + x W + b -------------------------------------------------------
 */

static void add(double *to, const float *from, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] += (double)from[i];
}

static void check_linear_of(es_bench *bench, const es_linear_sizes *s,
                            bool residual, bool in_place, bool keeps_bias)
{
    const size_t n_y = (size_t)(s->n * s->n_out);
    es_linear_call c = {.s = *s};
    float *x = es_bench_draw((size_t)(s->n * s->n_in), 1);
    float *r = es_bench_draw(n_y, 1), *w = es_linear_draw(bench, s);
    double *want = es_bench_doubles(n_y), *larger = es_bench_doubles(n_y);
    es_linear_spoil(x, s->n, s->n_in);
    c.x = es_bench_put_acts(bench, ES_READ, x, (size_t)(s->n * s->n_in));
    c.y = es_bench_put_acts(bench, in_place ? ES_CHANGE : ES_WRITE,
                            in_place ? r : NULL, n_y);
    c.residual = in_place   ? c.y
                 : residual ? es_bench_put_acts(bench, ES_READ, r, n_y)
                            : NULL;
    es_linear_put(bench, &c, w, keeps_bias);
    es_ref_linear(want, x, w, w + es_linear_bias_at(s), s->n, s->n_in, s->n_out,
                  s->transposed);
    if (c.residual)
        add(want, r, n_y);
    for (size_t i = 0; i < n_y; i++)
        /* the sum of residual and bias has a magnitude of up to 2 */
        larger[i] = 2;
    for (ES_EACH_RUN(on, bench))
        bench->ops->linear(on, c.y, c.residual, c.x, &c.linear, s->n);
    if (keeps_bias)
        es_bench_expect_acts(bench, "linear", c.y, want, n_y);
    else
        es_linear_expect_twice(bench, "linear with a separate bias",
                               es_bench_get_acts(bench, c.y), want, larger,
                               n_y);
    es_bench_clear(bench);
}

static void test_cuda_linear__forward(void **state)
{
    (void)state;
    for (ES_EACH_BENCH(bench, ES_BENCH_ACTS, &es_linear_extents))
        for (size_t i = 0; i < N_SIZES; i++)
            for (int kind = 0; kind < 6; kind++)
                check_linear_of(bench, &all_sizes[i], kind % 3 == 1,
                                kind % 3 == 2, kind < 3);
}

/* --- dx = dy W^T ---------------------------------------------------------- */

static void check_input_of(es_bench *bench, const es_linear_sizes *s, bool adds)
{
    const size_t n_dx = (size_t)(s->n * s->n_in);
    es_linear_call c = {.s = *s};
    float *dy = es_bench_draw((size_t)(s->n * s->n_out), 1);
    float *dx = es_bench_draw(n_dx, 1), *w = es_linear_draw(bench, s);
    double *want = es_bench_doubles(n_dx);
    es_linear_spoil(dy, s->n, s->n_out);
    c.x = es_bench_put_acts(bench, ES_READ, dy, (size_t)(s->n * s->n_out));
    c.y = es_bench_put_acts(bench, adds ? ES_CHANGE : ES_WRITE,
                            adds ? dx : NULL, n_dx);
    es_linear_put(bench, &c, w, true);
    es_ref_linear(want, dy, w, NULL, s->n, s->n_out, s->n_in, !s->transposed);
    if (adds)
        add(want, dx, n_dx);
    for (ES_EACH_RUN(on, bench))
        bench->ops->linear_backward_input(on, c.y, c.x, &c.linear, s->n, adds);
    es_bench_expect_acts(bench, adds ? "dx +=" : "dx =", c.y, want, n_dx);
    es_bench_clear(bench);
}

static void test_cuda_linear__input_gradient(void **state)
{
    (void)state;
    for (ES_EACH_BENCH(bench, ES_BENCH_ACTS, &es_linear_extents))
        for (size_t i = 0; i < N_SIZES; i++) {
            check_input_of(bench, &all_sizes[i], false);
            check_input_of(bench, &all_sizes[i], true);
        }
}

/* --- dW += x^T dy, db += the sums of dy ------------------------------------
 */

/* Adds the gradient of the weights, in the layout of the stored weights, to
 * dweight, and the sums of the first `trained` columns of dy to dbias. */
static void add_weight_gradient(double *dweight, double *dbias, const float *x,
                                const float *dy, const es_linear_sizes *s)
{
    for (int i = 0; i < s->n; i++)
        for (int b = 0; b < s->n_out; b++) {
            const double d = (double)dy[i * s->n_out + b];
            dbias[b] += b < s->trained ? d : 0;
            for (int a = 0; a < s->n_in; a++)
                dweight[s->transposed ? b * s->n_in + a : a * s->n_out + b] +=
                    (double)x[i * s->n_in + a] * d;
        }
}

static void check_weight_of(es_bench *bench, const es_linear_sizes *s,
                            bool bias, bool add)
{
    const size_t n_w = (size_t)(s->n_in * s->n_out), n_b = (size_t)s->n_out;
    const size_t n_x = (size_t)(s->n * s->n_in), n_y = (size_t)s->n * n_b;
    es_linear_call c = {.s = *s};
    float *x = es_bench_draw(n_x, 1), *dy = es_bench_draw(n_y, 1);
    float *dw = es_bench_draw(n_w, 1), *db = es_bench_draw(n_b, 1);
    double *want_b = es_bench_widen(db, n_b);
    if (!add) /* fill dw with NaN, which would appear in the result if the
                 earlier contents were read */
        memset(dw, 0xff, n_w * sizeof *dw);
    double *want_w = es_bench_widen(dw, n_w);
    if (!add)
        memset(want_w, 0, n_w * sizeof *want_w);
    if (s->n_out > 5)
        dy[5] = INFINITY; /* makes one column of the results infinite */
    c.linear = (es_linear){NULL,       NULL,          s->n_in, s->n_out,
                           s->trained, s->transposed, 0};
    c.x = es_bench_put_acts(bench, ES_READ, x, n_x);
    c.pre = es_bench_put_acts(bench, ES_READ, dy, n_y);
    c.dweight = es_bench_put_floats(bench, ES_CHANGE, dw, n_w);
    c.dbias = bias ? es_bench_put_floats(bench, ES_CHANGE, db, n_b) : NULL;
    add_weight_gradient(want_w, want_b, x, dy, s);
    for (ES_EACH_RUN(on, bench))
        bench->ops->linear_backward_weight(on, c.dweight, c.dbias, c.x, c.pre,
                                           &c.linear, s->n, add);
    es_bench_expect_floats(bench, "dw", c.dweight, want_w, n_w);
    if (bias)
        es_bench_expect_floats(bench, "db", c.dbias, want_b, n_b);
    es_bench_clear(bench);
}

static void test_cuda_linear__weight_gradient(void **state)
{
    (void)state;
    for (ES_EACH_BENCH(bench, ES_BENCH_ACTS, &es_linear_extents)) {
        /* Has more rows than one block of threads sums, so the last chunk of
         * rows is incomplete. */
        static const es_linear_sizes tall = {4301, 2, 140, false, 133};
        for (size_t i = 0; i < N_SIZES; i++) {
            check_weight_of(bench, &all_sizes[i], true, i % 2);
            check_weight_of(bench, &all_sizes[i], false, i % 2 == 0);
        }
        check_weight_of(bench, &tall, true, false);
    }
}

/* --- tf32 ----------------------------------------------------------------- */

static es_mem *stored(const es_ops *ops, es_backend *backend, const float *x,
                      size_t n)
{
    es_mem *memory;
    assert_int_equal(ops->reserve(backend, &memory, n * sizeof *x), ES_OK);
    ops->store(backend, memory, x, n * sizeof *x);
    return memory;
}

/* Computes y (n,out) = x W with the back-end's operations for `precision`. */
static void product_by(es_precision precision, float *y, const float *x,
                       const float *w, const es_linear_sizes *s)
{
    const es_ops *ops;
    es_backend *backend;
    const size_t n_y = (size_t)(s->n * s->n_out);
    assert_int_equal(es_ops_find(&ops, "cuda", precision), ES_OK);
    assert_int_equal(ops->open(&backend, 0), ES_OK);
    assert_int_equal(ops->prepare(backend, &es_linear_extents), ES_OK);
    es_mem *of_x = stored(ops, backend, x, (size_t)(s->n * s->n_in));
    es_mem *of_w = stored(ops, backend, w, (size_t)(s->n_in * s->n_out));
    es_mem *of_y = stored(ops, backend, y, n_y);
    const es_linear linear = {of_w, NULL,          s->n_in, s->n_out,
                              0,    s->transposed, 0};
    ops->linear(backend, of_y, NULL, of_x, &linear, s->n);
    ops->load(backend, y, of_y, n_y * sizeof *y);
    assert_int_equal(ops->status(backend), ES_OK);
    ops->release(backend, of_x);
    ops->release(backend, of_w);
    ops->release(backend, of_y);
    ops->close(backend);
}

/* tf32 drops 13 bits of both inputs, so each product has a relative error of up
 * to 2^-10. To show that tf32 is used, the error of the sum must be at least a
 * hundredth of this. */
static void test_cuda_linear__tf32(void **state)
{
    (void)state;
    for (ES_EACH_BENCH(bench, ES_BENCH_FP32, &es_linear_extents)) {
        static const es_linear_sizes s = {24, 40, 56, false, 0};
        enum { N = 24 * 56 };
        float *x = es_bench_draw(24 * 40, 1), *w = es_bench_draw(40 * 56, 1);
        float y[N];
        double want[N], most[N], off = 0, bound = 0;
        if (bench->lie != ES_LIE_ALIGNED)
            continue;
        es_test_fill(y, N, 1, &(uint64_t){5});
        es_ref_linear(want, x, w, NULL, s.n, s.n_in, s.n_out, s.transposed);
        product_by(ES_TF32, y, x, w, &s);
        for (size_t i = 0; i < 24 * 40; i++)
            x[i] = fabsf(x[i]);
        for (size_t i = 0; i < 40 * 56; i++)
            w[i] = fabsf(w[i]);
        es_ref_linear(most, x, w, NULL, s.n, s.n_in, s.n_out, s.transposed);
        for (int i = 0; i < N; i++) {
            assert_true(fabs((double)y[i] - want[i]) <= 0x1.01p-10 * most[i]);
            off += fabs((double)y[i] - want[i]);
            bound += 0x1p-10 * most[i];
        }
        assert_true(off >= bound / 100);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cuda_linear__forward),
        cmocka_unit_test(test_cuda_linear__input_gradient),
        cmocka_unit_test(test_cuda_linear__weight_gradient),
        cmocka_unit_test(test_cuda_linear__tf32),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
