/**
 * Includes the vector functions of analyzer/base/vector.h, which use the LANES
 * that the including file defines, and adds the conversions to fp16 and bf16,
 * which only the trainer needs.
 */
#ifndef ES_CPU_VECTOR_H
#define ES_CPU_VECTOR_H

#include "analyzer/base/vector.h"
#include "hooks/trainer/cpu/half.h"

/** Rounds the first n lanes of x to bf16, like es_bfloat_round, and stores
 *  them. */
static inline void store_bf16(uint16_t *to, vec x, int n)
{
    typedef uint16_t halves __attribute__((vector_size(2 * LANES)));
    const uvec all = (uvec)x;
    const uvec near = all + 0x7fff + ((all >> 16) & 1);
    const uvec quiet = all | 0x400000; /* truncates a NaN */
    const uvec kept = (uvec)choose(x == x, (vec)near, (vec)quiet) >> 16;
    const halves bits = __builtin_convertvector(kept, halves);
    if (n == LANES)
        memcpy(to, &bits, sizeof bits);
    for (int i = 0; n < LANES && i < n; i++)
        to[i] = bits[i];
}

/** Rounds each lane of x to fp16, like es_half_round. */
static inline vec vec_half(vec x)
{
#if defined(ES_VECTOR_AVX512)
    __m256i half = _mm512_cvtps_ph((__m512)x, _MM_FROUND_TO_NEAREST_INT);
    return (vec)_mm512_cvtph_ps(half);
#else
    ivec size = (ivec)x & INT32_MAX, sign = (ivec)x ^ size;
    ivec large = size >= ES_HALF_INFINITE;
    /* large numbers are set to 0 here, since rounding them up could overflow an
     * int */
    ivec near = size & ~large;
    near = (near + ES_HALF_DROPPED / 2 + ((near >> 13) & 1)) & ~ES_HALF_DROPPED;
    vec y = choose(large, splat(INFINITY), (vec)near);
    vec subnormal = ((vec)size + splat(0.5f)) - splat(0.5f);
    y = choose(size < ES_HALF_SUBNORMAL, subnormal, y);
    return choose(x == x, (vec)((ivec)y | sign), x);
#endif
}

/* Returns the larger of `a` and |x| in each lane, as the bits of a float. The
 * bits are ordered like floats, and NaN counts as larger than all numbers. */
static inline uvec larger_size(uvec a, vec x)
{
    const uvec b = (uvec)x & INT32_MAX;
#if defined(ES_VECTOR_AVX512)
    return (uvec)_mm512_max_epu32((__m512i)a, (__m512i)b);
#elif defined(ES_VECTOR_AVX2)
    return (uvec)_mm256_max_epu32((__m256i)a, (__m256i)b);
#else
    return (uvec)choose((ivec)a > (ivec)b, (vec)a, (vec)b);
#endif
}

/* Returns the largest lane of a vector that larger_size returned. */
static inline uint32_t largest_lane_size(uvec size)
{
    uint32_t largest = 0;
    for (int lane = 0; lane < LANES; lane++)
        largest = size[lane] > largest ? size[lane] : largest;
    return largest;
}

#endif
