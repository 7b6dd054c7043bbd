/**
 * Runs single matrix products of the CUDA back-end on the arrays of
 * cuda_bench.h, for tests of products and of fused activations.
 */
#ifndef ES_TESTS_CUDA_LINEAR_H
#define ES_TESTS_CUDA_LINEAR_H

#include "tests/support/cuda_bench.h"

/** Number of rows, width of the input and width of the output. */
typedef struct es_linear_sizes {
    int n, n_in, n_out;
    bool transposed;
    int trained; /* number of trained biases */
} es_linear_sizes;

/** Arguments of any of the linear operations. Weights and biases are parts of
 *  one array, as in a model. */
typedef struct es_linear_call {
    es_linear_sizes s;
    es_linear linear;
    es_mem *y, *post, *dslope, *dweight, *dbias;
    const es_mem *x, *residual, *pre;
    const es_act *act;
} es_linear_call;

/** Sizes that are sufficient for all calls in tests. */
extern const es_extents es_linear_extents;

/** Returns the offset of the biases in the array of weights and biases; the
 *  biases are aligned as in a model. */
size_t es_linear_bias_at(const es_linear_sizes *s);
/** Returns random weights followed by random biases, all of which the precision
 *  represents exactly. es_bench_clear frees the memory. */
float *es_linear_draw(const es_bench *bench, const es_linear_sizes *s);
/** Adds the weights and biases to the bench and sets the pointers in the call.
 *  The back-end keeps copies of the weights and, with `keeps_bias`, of the
 *  biases. */
void es_linear_put(es_bench *bench, es_linear_call *c, const float *weights,
                   bool keeps_bias);
/** Writes one non-finite number to each of rows 1, 4 and 6 of x (n,width), if n
 *  is at least 7. */
void es_linear_spoil(float *x, int n, int width);

/** Returns the largest relative error of a number that is rounded to the
 *  bench's precision; 0 for f32. */
double es_linear_unit(const es_bench *bench);
/**
 * Same as es_bench_expect, but allows for a second rounding at an earlier stage
 * of the computation. `larger` contains the n values at that stage; if it is
 * NULL, the values of `want` are used.
 */
void es_linear_expect_twice(es_bench *bench, const char *what, const float *got,
                            const double *want, const double *larger, size_t n);

#endif
