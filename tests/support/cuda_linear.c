/* Runs single matrix products of the CUDA back-end, and computes tolerances for
 * their results. */
#include "tests/support/cuda_linear.h"

#include "tests/support/cmocka_all.h"

#include <math.h>

const es_extents es_linear_extents = {
    .n_rows = 5000, .width = 600, .n_ctx = 16, .n_head = 1, .head_width = 16};

size_t es_linear_bias_at(const es_linear_sizes *s)
{
    return ((size_t)(s->n_in * s->n_out) + 15) / 16 * 16;
}

float *es_linear_draw(const es_bench *bench, const es_linear_sizes *s)
{
    const size_t n = es_linear_bias_at(s) + (size_t)s->n_out;
    float *out = es_bench_draw(n, 1);
    for (size_t i = 0; i < n; i++)
        out[i] = es_bench_round(bench->precision, out[i]);
    return out;
}

void es_linear_put(es_bench *bench, es_linear_call *c, const float *weights,
                   bool keeps_bias)
{
    const size_t n = es_linear_bias_at(&c->s), n_bias = (size_t)c->s.n_out;
    es_mem *memory = es_bench_put_floats(bench, ES_READ, weights, n + n_bias);
    c->linear = (es_linear){memory,
                            es_mem_at(memory, n * sizeof *weights),
                            c->s.n_in,
                            c->s.n_out,
                            c->s.trained,
                            c->s.transposed,
                            0};
    es_bench_keep(bench, memory, n + (keeps_bias ? n_bias : 0));
}

double es_linear_unit(const es_bench *bench)
{
    return bench->precision == ES_BF16   ? 0x1p-8
           : bench->precision == ES_FP16 ? 0x1p-11
                                         : 0;
}

void es_linear_expect_twice(es_bench *bench, const char *what, const float *got,
                            const double *want, const double *larger, size_t n)
{
    double *slack = es_bench_doubles(n);
    for (size_t i = 0; i < n; i++)
        slack[i] =
            1.01 * es_linear_unit(bench) * fabs(larger ? larger[i] : want[i]);
    es_bench_expect_within(bench, what, got, want, slack, n, true);
}

void es_linear_spoil(float *x, int n, int width)
{
    if (n < 7)
        return;
    x[1 * width] = NAN;
    x[4 * width + width / 2] = INFINITY;
    x[6 * width + width - 1] = -INFINITY;
}
