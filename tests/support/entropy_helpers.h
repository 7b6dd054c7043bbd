/** Declares helpers shared by the tests of the entropy module. */
#ifndef TESTS_ENTROPY_HELPERS_H
#define TESTS_ENTROPY_HELPERS_H

#include "analyzer/entropy/entropy_internal.h"
#include "tests/support/cmocka_all.h"
#include <stdbool.h>

/**
 * Return a random number and advance the state: uniform in [0,1), or normal
 * with mean 0 and standard deviation 1.
 */
double random_uniform(uint64_t *state);
double random_normal(uint64_t *state);

/**
 * Returns n normal random numbers multiplied by `scale`; the caller frees them.
 */
float *new_normals(size_t n, double scale, uint64_t seed);

/** Output arrays for n rows, with guard values before and after each array. */
typedef struct row_buffers {
    es_rows rows;
    size_t n;
    void *block;
} row_buffers;

row_buffers new_rows(size_t n);
void free_rows(row_buffers *buffers);

/** Fails the test if a guard value has changed. */
void assert_sentinels(const row_buffers *buffers);

/** Passes if |got - wanted| <= tolerance, or if both are NaN. */
#define assert_close(got, wanted, tolerance)                                   \
    check_close(got, wanted, tolerance, #got, __FILE__, __LINE__)
void check_close(double got, double wanted, double tolerance, const char *what,
                 const char *file, int line);

/** Initialises a shape from B, H, T, S, D and causal. */
#define SHAPE(b, h, t, s, d, is_causal)                                        \
    {                                                                          \
        .size = sizeof(es_attention_shape), .n_batch = b, .n_heads = h,        \
        .n_queries = t, .n_keys = s, .head_width = d, .causal = is_causal      \
    }

/**
 * Describe contiguous float32 arrays as inputs: weights (B,H,T,S), queries
 * (B,H,T,D), or keys (B,n_kv_heads,S,D).
 */
es_entropy_input weights_at(const float *att, const es_attention_shape *shape);
es_entropy_input queries_at(const float *q, const es_attention_shape *shape);
es_entropy_input keys_at(const float *k, const es_attention_shape *shape);

/**
 * Computes row number `position` with the double-precision reference. If k is
 * NULL, `in` contains attention weights, otherwise queries.
 */
es_ref_row reference_row(const es_entropy_input *in, const es_entropy_input *k,
                         const float *temperature,
                         const es_attention_shape *shape, size_t position);

/**
 * Compares each row whose number is a multiple of `every` with the reference,
 * within the accuracy that entropy.h states.
 */
void assert_entropy(const es_rows *rows, const es_entropy_input *in,
                    const es_entropy_input *k, const float *temperature,
                    const es_attention_shape *shape, int every);
void assert_probs(const es_rows *rows, const float *att,
                  const es_attention_shape *shape, int every);
void assert_qk(const es_rows *rows, const float *q, const float *k,
               const float *temperature, const es_attention_shape *shape,
               int every);

/** Fails the test unless all outputs have the same bits. */
void assert_same_rows(const row_buffers *got, const row_buffers *wanted);

/**
 * Return sizes of a shape: the number of rows (b,h,i), the number of weights
 * (b,h,i,j), and the number of floats in k.
 */
size_t n_rows(const es_attention_shape *shape);
size_t n_weights(const es_attention_shape *shape);
size_t n_key_floats(const es_attention_shape *shape);

/**
 * Returns the softmax of normal random scores with standard deviation `spread`.
 * Masked weights are NaN.
 */
float *new_weights(const es_attention_shape *shape, double spread,
                   uint64_t seed);

/**
 * Call es_entropy_with for contiguous inputs, and fail the test if the call
 * fails.
 */
void run_probs(const es_entropy_kernels *set, const es_rows *rows,
               const float *att, const es_attention_shape *shape,
               int n_threads);
void run_qk(const es_entropy_kernels *set, const es_rows *rows, const float *q,
            const float *k, const float *temperature,
            const es_attention_shape *shape, int n_threads);

/**
 * Shapes with sizes of 1, odd sizes, S != T, and sizes close to those of the
 * kernels' tiles, chunks and parts.
 */
extern const es_attention_shape test_shapes[];
extern const size_t n_test_shapes;

/** A test that runs once for every variant of the kernels. */
typedef struct variant_case {
    const char *name;
    CMUnitTestFunction run;
} variant_case;

#define VARIANT_CASE(function)                                                 \
    {                                                                          \
#function, function                                                    \
    }

/**
 * Runs every case with each variant that this processor supports, as one group
 * of cmocka tests. Returns the exit status for main.
 */
int run_for_variants(const variant_case *cases, size_t n);

/** Returns the variant under test. */
const es_entropy_kernels *variant(void **state);

/** One case of tests/analyzer/cases. */
typedef struct entropy_case {
    bool from_qk;
    es_attention_shape shape;
    /* arrays of the case; NULL if this kind of case does not have the array */
    float *att, *q, *k, *temperature;
    /* expected results, computed in double and rounded to float32 */
    float *row_entropy, *entropy, *lse;
    int32_t *nonfinite;
} entropy_case;

/**
 * Calls `visit` once for every stored case. Fails the test if a case cannot be
 * read.
 */
void each_entropy_case(void (*visit)(const entropy_case *, void *user),
                       void *user);

#endif
