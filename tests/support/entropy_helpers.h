/** What the tests of the entropy module share. */
#ifndef TESTS_ENTROPY_HELPERS_H
#define TESTS_ENTROPY_HELPERS_H

#include "analyzer/entropy/entropy_internal.h"
#include "tests/support/cmocka_all.h"
#include <stdbool.h>

/** Numbers from a seed: uniform in [0,1); normal, mean 0, deviation 1. */
double random_uniform(uint64_t *state);
double random_normal(uint64_t *state);

/** n normal numbers times `scale`; the caller frees them. */
float *new_normals(size_t n, double scale, uint64_t seed);

/** Outputs of n rows with sentinels before and after each array. */
typedef struct row_buffers {
    es_rows rows;
    size_t n;
    void *block;
} row_buffers;

row_buffers new_rows(size_t n);
void free_rows(row_buffers *buffers);

/** Fails the test if a sentinel has changed. */
void assert_sentinels(const row_buffers *buffers);

/** Passes if |got - wanted| <= tolerance, or if both are NaN. */
#define assert_close(got, wanted, tolerance)                                   \
    check_close(got, wanted, tolerance, #got, __FILE__, __LINE__)
void check_close(double got, double wanted, double tolerance, const char *what,
                 const char *file, int line);

/** Strides of packed (B,H,n,D). */
es_strides packed(const es_attention_shape *shape, int n);

/** Row at (b,h,i) by the double reference, from packed inputs. */
es_ref_row reference_probs(const float *att, const es_attention_shape *shape,
                           size_t at);
es_ref_row reference_qk(const float *q, const float *k,
                        const float *temperature,
                        const es_attention_shape *shape, size_t at);

/**
 * Row `at` of the fast form against the reference, within what entropy.h
 * promises. The q, k form needs the largest sum |q_c k_c| / (t sqrt(D)) of the
 * row as `reach`.
 */
void assert_probs_row(const es_rows *rows, size_t at, const es_ref_row *wanted,
                      double mass);
void assert_qk_row(const es_rows *rows, size_t at, const es_ref_row *wanted,
                   double reach, int n_visible);

/** All rows, by the two above. */
void assert_probs(const es_rows *rows, const float *att,
                  const es_attention_shape *shape, int every);
void assert_qk(const es_rows *rows, const float *q, const float *k,
               const float *temperature, const es_attention_shape *shape,
               int every);

/** Number of (b,h,i); of weights; of floats in k. */
size_t n_rows(const es_attention_shape *shape);
size_t n_weights(const es_attention_shape *shape);
size_t n_key_floats(const es_attention_shape *shape);

/** Softmax of normal scores of deviation `spread`; masked weights are NaN. */
float *new_weights(const es_attention_shape *shape, double spread,
                   uint64_t seed);

/** es_entropy_qk_with for packed inputs; has to succeed. */
void run_qk(const es_kernels *set, const es_rows *rows, const float *q,
            const float *k, const float *temperature,
            const es_attention_shape *shape, int n_threads);

/** Sizes of one and odd ones, S != T, and around those of tiles, chunks and
 *  parts. */
extern const es_attention_shape test_shapes[];
extern const size_t n_test_shapes;

/** A test that runs once for every variant. */
typedef struct variant_case {
    const char *name;
    CMUnitTestFunction run;
} variant_case;

/** Runs them all, as one group of tests; what main returns. */
int run_for_variants(const variant_case *cases, size_t n);

/** The variant under test; skips the test if the machine lacks it. */
const es_kernels *variant(void **state);

/** One folder of ../shared/reference/entropy. */
typedef struct entropy_case {
    bool from_qk;
    es_attention_shape shape;
    float *att, *q, *k, *temperature;   /* those that the kind has */
    float *row_entropy, *entropy, *lse; /* rounded from double */
    int32_t *nonfinite;
} entropy_case;

/**
 * Calls visit for every folder there, each time with a loaded case; fails the
 * test if one cannot be read. Returns their number, 0 if there is no such
 * place (ES_SHARED).
 */
int each_entropy_case(void (*visit)(const entropy_case *, void *user),
                      void *user);

#endif
