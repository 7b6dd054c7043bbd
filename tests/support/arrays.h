/**
 * Allocates the arrays of one test, which a single call frees, and defines
 * short names for functions that tests of operations call often.
 */
#ifndef ES_TESTS_ARRAYS_H
#define ES_TESTS_ARRAYS_H

#include "hooks/trainer/model/ops.h"

/**
 * Return a new array with n random numbers in [-scale, scale), n zeros, a copy
 * of n numbers, or n numbers converted to double, respectively.
 */
float *es_test_array(size_t n, double scale);
double *es_test_doubles(size_t n);
float *es_test_copy(const float *from, size_t n);
double *es_test_widen(const float *from, size_t n);

/** Frees all arrays that the functions above have returned. */
void es_test_release(void);

/**
 * Sets the seed of es_test_array. The following random numbers depend only on
 * this seed.
 */
void es_test_seed(uint64_t seed);

#define array(n, scale) es_test_array((size_t)(n), scale)
#define doubles(n) es_test_doubles((size_t)(n))
#define copy(from, n) es_test_copy(from, (size_t)(n))
#define widen(from, n) es_test_widen(from, (size_t)(n))

/**
 * Casts an array to the memory type of the CPU back-end, whose memory consists
 * of plain arrays.
 */
static inline es_mem *mem(void *numbers)
{
    return (es_mem *)numbers;
}

#endif
