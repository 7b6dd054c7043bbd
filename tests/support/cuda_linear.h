/**
 * Single calls of the CUDA back-end's matrix products on the bench of
 * cuda_bench.h, for tests of products and of fused activations.
 */
#ifndef ES_TESTS_CUDA_LINEAR_H
#define ES_TESTS_CUDA_LINEAR_H

#include "tests/support/cuda_bench.h"

/** Number of rows, width of the input and width of the output. */
typedef struct es_linear_sizes {
    int n, n_in, n_out;
    bool transposed;
    int trained; /* biases */
} es_linear_sizes;

/** Arguments of any of the linear operations. Weights and biases are one array,
 *  as in a model. */
typedef struct es_linear_call {
    es_linear_sizes s;
    es_linear linear;
    es_mem *y, *post, *dslope, *dweight, *dbias;
    const es_mem *x, *residual, *pre;
    const es_act *act;
} es_linear_call;

/** Sizes that are sufficient for all calls. */
extern const es_extents es_linear_extents;

/** Returns the offset of the biases in the array of weights and biases, aligned
 *  as in a model. */
size_t es_linear_bias_at(const es_linear_sizes *s);
/** Returns random weights, followed by biases, which the precision represents
 *  exactly. Owned like the result of es_bench_draw. */
float *es_linear_draw(const es_bench *bench, const es_linear_sizes *s);
/** Puts weights and biases on the bench and sets them in the call. Products
 *  keep copies of the weights and, with `keeps_bias`, of the biases. */
void es_linear_put(es_bench *bench, es_linear_call *c, const float *weights,
                   bool keeps_bias);
/** Puts a non-finite number in each of rows 1, 4 and 6, if n is at least 7. */
void es_linear_spoil(float *x, int n, int width);

/** Returns the maximum relative change of a value by rounding; 0 for f32. */
double es_linear_unit(const es_bench *bench);
/** Same as es_bench_expect, for values that were rounded once more at an
 *  earlier stage, when their size was larger (n). If `larger` is NULL, the size
 *  was that of `want`. */
void es_linear_expect_twice(es_bench *bench, const char *what, const float *got,
                            const double *want, const double *larger, size_t n);

#endif
