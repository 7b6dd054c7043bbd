/** Arrays of one test, which are freed together; short names for what tests of
 *  operations write most. */
#ifndef ES_TESTS_ARRAYS_H
#define ES_TESTS_ARRAYS_H

#include "hooks/trainer/model/ops.h"

/** n random numbers in [-scale, scale), n zeros, n copies. */
float *es_test_array(size_t n, double scale);
double *es_test_doubles(size_t n);
float *es_test_copy(const float *from, size_t n);
double *es_test_widen(const float *from, size_t n);

/** Frees all of them. */
void es_test_release(void);

/** What es_test_array draws next depends on this alone. */
void es_test_seed(uint64_t seed);

#define array(n, scale) es_test_array((size_t)(n), scale)
#define doubles(n) es_test_doubles((size_t)(n))
#define copy(from, n) es_test_copy(from, (size_t)(n))
#define widen(from, n) es_test_widen(from, (size_t)(n))

/** The CPU's memory is plain numbers. */
static inline es_mem *mem(void *numbers)
{
    return (es_mem *)numbers;
}

#endif
