/**
 * Allocates the arrays of one test, which are freed together, and gives short
 * names to the calls that tests of operations use most often.
 */
#ifndef ES_TESTS_ARRAYS_H
#define ES_TESTS_ARRAYS_H

#include "hooks/trainer/model/ops.h"

/**
 * Each function returns a new array: n random numbers in [-scale, scale), n
 * zeros, a copy of n numbers, or n numbers converted to double.
 */
float *es_test_array(size_t n, double scale);
double *es_test_doubles(size_t n);
float *es_test_copy(const float *from, size_t n);
double *es_test_widen(const float *from, size_t n);

/** Frees all arrays that these functions returned. */
void es_test_release(void);

/**
 * Sets the seed of es_test_array. The numbers that follow depend only on the
 * seed.
 */
void es_test_seed(uint64_t seed);

#define array(n, scale) es_test_array((size_t)(n), scale)
#define doubles(n) es_test_doubles((size_t)(n))
#define copy(from, n) es_test_copy(from, (size_t)(n))
#define widen(from, n) es_test_widen(from, (size_t)(n))

/**
 * Returns an array of numbers as memory of the CPU back-end, which uses plain
 * arrays.
 */
static inline es_mem *mem(void *numbers)
{
    return (es_mem *)numbers;
}

#endif
