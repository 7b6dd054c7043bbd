/**
 * Vectors of LANES floats in plain C with compiler vectors; the includer
 * defines LANES. Everything is static: each variant of the kernels has its
 * own copy, compiled for its own instructions.
 */
#ifndef ES_CPU_VECTOR_H
#define ES_CPU_VECTOR_H

#include "hooks/trainer/cpu/half.h"

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __AVX512F__
#include <immintrin.h>
#endif

typedef float vec __attribute__((vector_size(4 * LANES)));
typedef int32_t ivec __attribute__((vector_size(4 * LANES)));

static inline vec splat(float value)
{
    return value - (vec){0};
}

static inline vec load(const float *from)
{
    vec v;
    memcpy(&v, from, sizeof v);
    return v;
}

static inline void store(float *to, vec v)
{
    memcpy(to, &v, sizeof v);
}

/* The first n lanes from memory, the rest `fill`. */
static inline vec load_part(const float *from, int n, float fill)
{
#if defined(__AVX512F__) && LANES == 16
    return (vec)_mm512_mask_loadu_ps((__m512)splat(fill),
                                     (__mmask16)((1u << n) - 1), from);
#else
    vec v = splat(fill);
    for (int i = 0; i < n; i++)
        v[i] = from[i];
    return v;
#endif
}

static inline void store_part(float *to, vec v, int n)
{
#if defined(__AVX512F__) && LANES == 16
    _mm512_mask_storeu_ps(to, (__mmask16)((1u << n) - 1), (__m512)v);
#else
    for (int i = 0; i < n; i++)
        to[i] = v[i];
#endif
}

/* Lane by lane: where ? a : b. `where` is the result of a comparison. */
static inline vec choose(ivec where, vec a, vec b)
{
    return (vec)(((ivec)a & where) | ((ivec)b & ~where));
}

/* The larger, lane by lane; b where either is NaN. */
static inline vec larger(vec a, vec b)
{
#if defined(__AVX512F__) && LANES == 16
    return (vec)_mm512_max_ps((__m512)a, (__m512)b);
#else
    return choose(a > b, a, b);
#endif
}

/* The smaller, lane by lane; b where either is NaN. */
static inline vec smaller(vec a, vec b)
{
#if defined(__AVX512F__) && LANES == 16
    return (vec)_mm512_min_ps((__m512)a, (__m512)b);
#else
    return choose(a < b, a, b);
#endif
}

/* Sum of the lanes, always by halves. */
static inline float sum_lanes(vec v)
{
    float lane[LANES];
    memcpy(lane, &v, sizeof lane);
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            lane[i] += lane[i + half];
    return lane[0];
}

/* The largest lane; NaN if any lane is NaN. */
static inline float largest_lane(vec v)
{
    float largest = v[0];
    for (int i = 1; i < LANES; i++)
        largest = v[i] > largest || isnan(v[i]) ? v[i] : largest;
    return largest;
}

/**
 * exp(x), relative error below 2e-7, and exp(0) = 1. 0 below -87.3, infinite
 * above 88.7, NaN for NaN. x = n ln 2 + r, |r| <= ln 2 / 2; exp(r) by the
 * polynomial 1 + r + ... of degree 5 with the least relative error, 1.1e-7.
 */
static inline vec vec_exp(vec x)
{
    const float shift = 0x1.8p23f; /* adding it rounds to an integer */
    x = larger(splat(-104), smaller(splat(89), x));
    vec t = x * splat(1.44269504f) + splat(shift);
    vec n = t - splat(shift);
    vec r = x - n * splat(0.693359375f);
    r = r - n * splat(-2.12194440e-4f);
    vec p = splat(0.008312501013f);
    p = p * r + splat(0.041890330613f);
    p = p * r + splat(0.166671156883f);
    p = p * r + splat(0.499992311001f);
    p = p * r + splat(1);
    p = p * r + splat(1);
#if defined(__AVX512F__) && LANES == 16
    return (vec)_mm512_scalef_ps((__m512)p, (__m512)n);
#else
    vec power = (vec)(((ivec)t - (ivec)splat(shift) + 127) << 23);
    vec y = choose(x < splat(-87.3f), splat(0), p * power);
    return choose(x > splat(88.7f), splat(INFINITY), y);
#endif
}

/**
 * Natural logarithm of positive normal numbers, relative error below 3e-7;
 * NaN for NaN, infinity for infinity, something finite for 0 and subnormal
 * numbers, anything for negative ones. x = 2^n f with f in [2/3, 4/3); ln f = 2
 * atanh((f - 1) / (f + 1)) by its series.
 */
static inline vec vec_log(vec x)
{
    const int32_t base = 0x3f2aaaab; /* 2/3 */
    ivec bits = (ivec)x - base;
    ivec n = bits >> 23;
    vec f = (vec)((bits & 0x7fffff) + base);
    vec s = (f - splat(1)) / (f + splat(1)), q = s * s;
    vec p = splat(2.f / 11);
    p = p * q + splat(2.f / 9);
    p = p * q + splat(2.f / 7);
    p = p * q + splat(2.f / 5);
    p = p * q + splat(2.f / 3);
    p = p * q * s + splat(2) * s;
    vec y = __builtin_convertvector(n, vec) * splat(0.69314718f) + p;
    return choose(x < splat(INFINITY), y, x);
}

/** As es_half_round, lane by lane. */
static inline vec vec_half(vec x)
{
#if defined(__AVX512F__) && LANES == 16
    __m256i half = _mm512_cvtps_ph((__m512)x, _MM_FROUND_TO_NEAREST_INT);
    return (vec)_mm512_cvtph_ps(half);
#else
    ivec size = (ivec)x & INT32_MAX, sign = (ivec)x ^ size;
    ivec large = size >= ES_HALF_INFINITE;
    /* What is large already is not rounded up beyond an int. */
    ivec near = size & ~large;
    near = (near + ES_HALF_DROPPED / 2 + ((near >> 13) & 1)) & ~ES_HALF_DROPPED;
    vec y = choose(large, splat(INFINITY), (vec)near);
    vec subnormal = ((vec)size + splat(0.5f)) - splat(0.5f);
    y = choose(size < ES_HALF_SUBNORMAL, subnormal, y);
    return choose(x == x, (vec)((ivec)y | sign), x);
#endif
}

/* --- transposition --------------------------------------------------------
 * LANES rows of LANES, in log2 LANES rounds: round h exchanges, in each pair
 * of rows i, i + h, the lanes with bit h set in the one against those without
 * in the other. */

#define UPPER(lane, h) ((lane) & (h) ? LANES + (lane) - (h) : (lane))
#define LOWER(lane, h) ((lane) & (h) ? LANES + (lane) : (lane) + (h))
#define LIST4(pick, h, i)                                                      \
    pick(i, h), pick(i + 1, h), pick(i + 2, h), pick(i + 3, h)
#define LIST8(pick, h, i) LIST4(pick, h, i), LIST4(pick, h, i + 4)
#if LANES == 16
#define LANE_LIST(pick, h) LIST8(pick, h, 0), LIST8(pick, h, 8)
#elif LANES == 8
#define LANE_LIST(pick, h) LIST8(pick, h, 0)
#else
#define LANE_LIST(pick, h) LIST4(pick, h, 0)
#endif

#define EXCHANGE(rows, h)                                                      \
    for (int i = 0; i < LANES; i++)                                            \
        if (!(i & (h))) {                                                      \
            vec a = rows[i], b = rows[i + (h)];                                \
            rows[i] = __builtin_shufflevector(a, b, LANE_LIST(UPPER, h));      \
            rows[i + (h)] =                                                    \
                __builtin_shufflevector(a, b, LANE_LIST(LOWER, h));            \
        }

static inline void transpose(vec rows[LANES])
{
#if LANES == 16
    EXCHANGE(rows, 8)
#endif
#if LANES >= 8
    EXCHANGE(rows, 4)
#endif
    EXCHANGE(rows, 2)
    EXCHANGE(rows, 1)
}

#endif
