/**
 * Arrays of one test, which are freed together, and short names for the calls
 * that tests of operations make most often.
 */
#ifndef ES_TESTS_ARRAYS_H
#define ES_TESTS_ARRAYS_H

#include "hooks/trainer/model/ops.h"

/**
 * Each returns a new array: n random numbers in [-scale, scale), n zeros, a
 * copy of n numbers, or n numbers as doubles.
 */
float *es_test_array(size_t n, double scale);
double *es_test_doubles(size_t n);
float *es_test_copy(const float *from, size_t n);
double *es_test_widen(const float *from, size_t n);

/** Frees all of these arrays. */
void es_test_release(void);

/** Sets the seed of es_test_array. What it draws next depends on this alone. */
void es_test_seed(uint64_t seed);

#define array(n, scale) es_test_array((size_t)(n), scale)
#define doubles(n) es_test_doubles((size_t)(n))
#define copy(from, n) es_test_copy(from, (size_t)(n))
#define widen(from, n) es_test_widen(from, (size_t)(n))

/** Returns plain numbers as memory of the CPU back-end, which they are. */
static inline es_mem *mem(void *numbers)
{
    return (es_mem *)numbers;
}

#endif
