/**
 * Defines the missing value. NaN, missing and zero have different meanings.
 *
 * A sample is an array of float32. "Missing" (this head was not measured at
 * this step) is one particular quiet NaN; every other NaN is a value that
 * training really produced. Test for missing first, because it is a NaN too.
 */
#ifndef ES_VALUE_H
#define ES_VALUE_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* A quiet NaN with payload 1954, like NA in R. */
#define ES_MISSING_BITS UINT32_C(0x7fc007a2)

/** Returns the float32 that stands for "not measured". */
static inline float es_missing(void)
{
    const uint32_t bits = ES_MISSING_BITS;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/** Returns true for the missing value only, false for every other NaN. */
static inline bool es_is_missing(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits == ES_MISSING_BITS;
}

/**
 * Returns true if at least one of the n values is not missing. A NaN that
 * training produced counts as measured.
 */
static inline bool es_is_measured(const float *values, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!es_is_missing(values[i]))
            return true;
    return false;
}

#endif
