/**
 * Single calls of the CUDA back-end's matrix products on a workbench, for the
 * tests of products and of the activations that go with them.
 */
#ifndef ES_TESTS_CUDA_LINEAR_H
#define ES_TESTS_CUDA_LINEAR_H

#include "tests/support/cuda_bench.h"

/** Rows, then width before and behind. */
typedef struct es_linear_sizes {
    int n, n_in, n_out;
    bool transposed;
    int trained; /* biases */
} es_linear_sizes;

/** One call of any of the operations: weights and biases are one array, as in
 *  a model. */
typedef struct es_linear_call {
    es_linear_sizes s;
    es_linear linear;
    es_mem *y, *post, *dslope, *dweight, *dbias;
    const es_mem *x, *residual, *pre;
    const es_act *act;
} es_linear_call;

/** What all of them fit into. */
extern const es_extents es_linear_extents;

/** Where biases begin behind the weights: aligned as in a model. */
size_t es_linear_bias_at(const es_linear_sizes *s);
/** Weights and biases behind them, of numbers that the precision holds, as of
 *  es_bench_draw. */
float *es_linear_draw(const es_bench *bench, const es_linear_sizes *s);
/** Puts them and says so in the call; products are to keep the weights, with
 *  `keeps_bias` the biases, too. */
void es_linear_put(es_bench *bench, es_linear_call *c, const float *weights,
                   bool keeps_bias);
/** What is not finite in rows 1, 4 and 6, if there are as many. */
void es_linear_spoil(float *x, int n, int width);

/** What rounding changes at most, relative to the value; 0 for f32. */
double es_linear_unit(const es_bench *bench);
/** As es_bench_expect, of what was rounded once more on the way while it was
 *  `larger` (n; NULL: as large as it is now). */
void es_linear_expect_twice(es_bench *bench, const char *what, const float *got,
                            const double *want, const double *larger, size_t n);

#endif
