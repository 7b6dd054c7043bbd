/** Rounds float32 numbers to values of IEEE binary16 ("fp16") for --emulate
 *  fp16. The results are stored as float32. kernels.inc.h has the vector
 *  version. */
#ifndef ES_CPU_HALF_H
#define ES_CPU_HALF_H

#include <math.h>
#include <stdint.h>
#include <string.h>

/* The bits of 65520.0f. This and all larger numbers become infinite. */
#define ES_HALF_INFINITE 0x477ff000
/* The bits of 2^-14. Smaller fp16 numbers are multiples of 2^-24. */
#define ES_HALF_SUBNORMAL 0x38800000
/* The lowest 13 of a float's 23 fraction bits, which fp16 lacks. */
#define ES_HALF_DROPPED 0x1fff

/**
 * Returns the fp16 number nearest to x, with ties to even; the result may be
 * subnormal. From 65520 on, which is halfway between the largest fp16 number
 * and 2^16, the result is infinite. NaN and the sign of zero are kept.
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
    /* Adding 0.5 makes 2^-24 the value of the float's last bit, so the sum is
     * rounded to a multiple of 2^-24. */
    if (size < ES_HALF_SUBNORMAL)
        return copysignf((fabsf(x) + 0.5f) - 0.5f, x);
    size += ES_HALF_DROPPED / 2 + ((size >> 13) & 1);
    size &= ~ES_HALF_DROPPED;
    memcpy(&x, &size, sizeof x);
    return bits < 0 ? -x : x;
}

#endif
