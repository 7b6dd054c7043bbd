/** Rounds float32 numbers to values of IEEE binary16 ("fp16") for --emulate
 *  fp16. The results are stored as float32. kernels.inc.h has the vector
 *  version. */
#ifndef ES_CPU_HALF_H
#define ES_CPU_HALF_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#define ES_HALF_INFINITE 0x477ff000  /* from 65520 on, infinity */
#define ES_HALF_SUBNORMAL 0x38800000 /* fp16 has spacing 2^-24 below 2^-14 */
#define ES_HALF_DROPPED 0x1fff       /* lowest 13 of 23 fraction bits */

/**
 * Returns the nearest fp16 number, ties to even; subnormal results are kept.
 * Returns infinity for numbers from 65520 on, halfway between the largest fp16
 * number and 2^16. Keeps NaN and the sign of zero.
 */
static inline float es_half_round(float x)
{
    int32_t bits, size;
    memcpy(&bits, &x, sizeof bits);
    size = bits & INT32_MAX;
    if (isnan(x))
        return x;
    if (size >= ES_HALF_INFINITE)
        return copysignf(INFINITY, x);
    /* Adding 0.5 rounds to a multiple of 2^-24, the last bit of a float near
     * 0.5. */
    if (size < ES_HALF_SUBNORMAL)
        return copysignf((fabsf(x) + 0.5f) - 0.5f, x);
    size += ES_HALF_DROPPED / 2 + ((size >> 13) & 1);
    size &= ~ES_HALF_DROPPED;
    memcpy(&x, &size, sizeof x);
    return bits < 0 ? -x : x;
}

#endif
