/** Converts single numbers to and from bfloat16, the upper 16 bits of a
 *  float32. kernels.inc.h has the vector versions. */
#ifndef ES_CPU_BF16_H
#define ES_CPU_BF16_H

#include <stdint.h>
#include <string.h>

typedef uint16_t es_bfloat;

static inline float es_bfloat_read(es_bfloat x)
{
    const uint32_t bits = (uint32_t)x << 16;
    float out;
    memcpy(&out, &bits, sizeof out);
    return out;
}

/** Returns the bfloat16 nearest to x, with ties to even; numbers that are too
 *  large become infinite. A NaN stays NaN and keeps its sign and the upper bits
 *  of its payload. */
static inline es_bfloat es_bfloat_round(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if ((bits & 0x7fffffff) > 0x7f800000)
        return (es_bfloat)(bits >> 16 | 0x40);
    return (es_bfloat)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

#endif
