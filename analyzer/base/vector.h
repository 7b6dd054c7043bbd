/**
 * The vector kit: functions that process LANES floats at a time, in plain C
 * with compiler vectors, for the kernels of the trainer (hooks/trainer/cpu) and
 * of attention entropy (analyzer/entropy).
 *
 * The including file defines LANES as 4, 8 or 16 and is compiled for the
 * matching instructions: AVX2 and FMA for 8, AVX-512 F, BW, DQ and VL for 16.
 * Intrinsics are used only where compilers do not choose the best instruction
 * by themselves. Everything is static, so each variant of a kernel has its own
 * copy.
 */
#ifndef ES_VECTOR_H
#define ES_VECTOR_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__AVX512F__) && LANES == 16
#define ES_VECTOR_AVX512
#include <immintrin.h>
#elif defined(__AVX2__) && defined(__FMA__) && LANES == 8
#define ES_VECTOR_AVX2
#include <immintrin.h>
#endif

typedef float vec __attribute__((vector_size(4 * LANES)));
typedef int32_t ivec __attribute__((vector_size(4 * LANES)));
typedef uint32_t uvec __attribute__((vector_size(4 * LANES)));

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

/* Takes, lane by lane, the value of a where `where` is true and the value of b
   elsewhere. `where` is the result of a comparison. */
static inline vec choose(ivec where, vec a, vec b)
{
    return (vec)(((ivec)a & where) | ((ivec)b & ~where));
}

/* Returns a mask in which the first n lanes are set; n may be LANES. */
#if defined(ES_VECTOR_AVX512)
static inline __mmask16 first_lanes(int n)
{
    return (__mmask16)((1u << n) - 1);
}
#else
static inline ivec first_lanes(int n)
{
    ivec lane;
    for (int i = 0; i < LANES; i++)
        lane[i] = i;
    return lane < n;
}
#endif

/* Returns the first n lanes of a and the other lanes of b. */
static inline vec choose_first(int n, vec a, vec b)
{
#if defined(ES_VECTOR_AVX512)
    return (vec)_mm512_mask_mov_ps((__m512)b, first_lanes(n), (__m512)a);
#else
    return choose(first_lanes(n), a, b);
#endif
}

/* Loads the first n lanes from memory; the other lanes become `fill`. */
static inline vec load_part(const float *from, int n, float fill)
{
    if (n == LANES)
        return load(from);
#if defined(ES_VECTOR_AVX512)
    return (vec)_mm512_mask_loadu_ps((__m512)splat(fill), first_lanes(n), from);
#elif defined(ES_VECTOR_AVX2)
    vec v = (vec)_mm256_maskload_ps(from, (__m256i)first_lanes(n));
    return choose_first(n, v, splat(fill));
#else
    vec v = splat(fill);
    for (int i = 0; i < n; i++)
        v[i] = from[i];
    return v;
#endif
}

static inline void store_part(float *to, vec v, int n)
{
#if defined(ES_VECTOR_AVX512)
    _mm512_mask_storeu_ps(to, first_lanes(n), (__m512)v);
#else
    if (n == LANES)
        store(to, v);
    for (int i = 0; n < LANES && i < n; i++)
        to[i] = v[i];
#endif
}

/* Loads n bfloat16 numbers as float32; the other lanes become 0. */
static inline vec load_bf16(const uint16_t *from, int n)
{
    typedef uint16_t halves __attribute__((vector_size(2 * LANES)));
    halves bits = {0};
    if (n == LANES)
        memcpy(&bits, from, sizeof bits);
    for (int i = 0; n < LANES && i < n; i++)
        bits[i] = from[i];
    return (vec)(__builtin_convertvector(bits, uvec) << 16);
}

/* Loads n float16 numbers, including subnormal ones, as float32; the other
   lanes become 0. */
static inline vec load_f16(const uint16_t *from, int n)
{
    typedef uint16_t halves __attribute__((vector_size(2 * LANES)));
    halves bits = {0};
    if (n == LANES)
        memcpy(&bits, from, sizeof bits);
    for (int i = 0; n < LANES && i < n; i++)
        bits[i] = from[i];
#if defined(ES_VECTOR_AVX512)
    return (vec)_mm512_cvtph_ps((__m256i)bits);
#else
    const uvec all = __builtin_convertvector(bits, uvec);
    const uvec size = (all & 0x7fff) << 13, sign = (all & 0x8000) << 16;
    const ivec mantissa = (ivec)(all & 0x3ff);
    const vec small = __builtin_convertvector(mantissa, vec) * splat(0x1p-24f);
    const ivec is_small = (ivec)((all & 0x7c00) == 0);
    const ivec is_odd = (ivec)((all & 0x7c00) == 0x7c00);
    vec value = (vec)(size + (112u << 23));
    value = choose(is_odd, (vec)(size | 0x7f800000u), value);
    return (vec)((uvec)choose(is_small, small, value) | sign);
#endif
}

/* Returns a * b + c, rounded only once if the machine has a fused multiply-add
   instruction. */
static inline vec multiply_add(vec a, vec b, vec c)
{
#if defined(ES_VECTOR_AVX512)
    return (vec)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(ES_VECTOR_AVX2)
    return (vec)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#else
    return a * b + c;
#endif
}

/* Returns the larger value in each lane, or the value of b if either is NaN. */
static inline vec larger(vec a, vec b)
{
#if defined(ES_VECTOR_AVX512)
    return (vec)_mm512_max_ps((__m512)a, (__m512)b);
#elif defined(ES_VECTOR_AVX2)
    return (vec)_mm256_max_ps((__m256)a, (__m256)b);
#else
    return choose(a > b, a, b);
#endif
}

/* Returns the smaller value in each lane, or the value of b if either is
 * NaN. */
static inline vec smaller(vec a, vec b)
{
#if defined(ES_VECTOR_AVX512)
    return (vec)_mm512_min_ps((__m512)a, (__m512)b);
#elif defined(ES_VECTOR_AVX2)
    return (vec)_mm256_min_ps((__m256)a, (__m256)b);
#else
    return choose(a < b, a, b);
#endif
}

/* Returns the sum of the lanes. Always adds in the same order: the two halves
   of the vector, then the halves of the result, and so on. */
static inline float sum_lanes(vec v)
{
    float lane[LANES];
    memcpy(lane, &v, sizeof lane);
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            lane[i] += lane[i + half];
    return lane[0];
}

/* Returns the largest lane; NaN if any lane is NaN. */
static inline float largest_lane(vec v)
{
    float largest = v[0];
    for (int i = 1; i < LANES; i++)
        largest = v[i] > largest || isnan(v[i]) ? v[i] : largest;
    return largest;
}

/**
 * Returns exp(x) for x up to 88.7 with relative error below 2e-7; exp(0) = 1.
 * The result is 0 below -87.3, unspecified above 88.7, NaN for NaN. The method
 * splits x = n * ln 2 + r with |r| <= ln 2 / 2. exp(r) is computed by the
 * polynomial 1 + r + ... of degree 5 with the smallest relative error, 1.1e-7.
 */
static inline vec vec_exp_below(vec x)
{
    const float shift =
        0x1.8p23f; /* adding this constant rounds a number to an integer */
    x = larger(splat(-104), x);
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
#if defined(ES_VECTOR_AVX512)
    return (vec)_mm512_scalef_ps((__m512)p, (__m512)n);
#else
    /* Shifting left by 23 moves the integer n into the exponent and discards
     * the bits of the constant `shift`. */
    vec power = (vec)(((uvec)t << 23) + (uvec)splat(1));
    return choose(x < splat(-87.3f), splat(0), p * power);
#endif
}

/* Returns exp(x) for every x. Same as vec_exp_below, but infinity above 88.7.
 */
static inline vec vec_exp(vec x)
{
    const vec y = vec_exp_below(smaller(splat(89), x));
#if defined(ES_VECTOR_AVX512)
    return y;
#else
    return choose(x > splat(88.7f), splat(INFINITY), y);
#endif
}

/**
 * Returns the natural logarithm of positive normal numbers with relative error
 * below 3e-7; NaN for NaN, infinity for infinity, an unspecified finite value
 * for 0 and subnormal numbers, unspecified for negative numbers. The method
 * splits x = 2^n * f with f in [2/3, 4/3). ln f = 2 * atanh((f - 1) / (f + 1))
 * is computed by its series.
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

/* Returns the largest integer not above x, for |x| < 2^31; unspecified for
   NaN. */
static inline vec round_down(vec x)
{
#if defined(ES_VECTOR_AVX2)
    return (vec)_mm256_floor_ps((__m256)x);
#else
    ivec n = __builtin_convertvector(x, ivec);
    n += __builtin_convertvector(n, vec) > x;
    return __builtin_convertvector(n, vec);
#endif
}

/**
 * Returns 2^x for -126 <= x < 128 with relative error below 2e-7, exact for
 * integers; NaN for NaN. For the fractional part f, 0 <= f < 1, 2^f is computed
 * by the polynomial of degree 6 that is exact at 0 and has the smallest error,
 * 2e-9.
 */
static inline vec vec_exp2(vec x)
{
#if defined(ES_VECTOR_AVX512)
    vec f = (vec)_mm512_reduce_ps((__m512)x, _MM_FROUND_TO_NEG_INF);
#else
    vec n = round_down(x), f = x - n;
#endif
    vec p = splat(2.1612915E-4f);
    p = multiply_add(p, f, splat(1.2467846E-3f));
    p = multiply_add(p, f, splat(9.6754716E-3f));
    p = multiply_add(p, f, splat(5.5485281E-2f));
    p = multiply_add(p, f, splat(2.4022931E-1f));
    p = multiply_add(p, f, splat(6.9314704E-1f));
    p = multiply_add(p, f, splat(1));
#if defined(ES_VECTOR_AVX512)
    return (vec)_mm512_scalef_ps((__m512)p, (__m512)x); /* p 2^floor(x) */
#else
    /* A NaN stays a NaN, because the conversion of a NaN gives 0 or INT_MIN,
     * and both become 0 when shifted. */
    return (vec)((uvec)p + ((uvec) __builtin_convertvector(n, ivec) << 23));
#endif
}

#if defined(ES_VECTOR_AVX512)
/* Tables for m in [1 + i/16, 1 + (i+1)/16): entry i contains a number c near
   1/m, and -log2(c). The first and last entries are exact, so that logarithms
   near 0 keep their relative accuracy. */
static const float near_inverse[16] = {
    1.0F,         0.914285719F, 0.864864886F, 0.820512831F,
    0.780487776F, 0.744186044F, 0.711111128F, 0.680851042F,
    0.653061211F, 0.627451003F, 0.603773594F, 0.581818163F,
    0.561403513F, 0.542372882F, 0.524590135F, 0.5F};
static const float inverse_log[16] = {
    0.0F,         0.129283009F, 0.209453331F, 0.2854022F,
    0.357552058F, 0.42626476F,  0.491853061F, 0.554588897F,
    0.614709874F, 0.672425291F, 0.727920433F, 0.781359759F,
    0.832890003F, 0.882643047F, 0.930737418F, 1.0F};
#endif

/**
 * Returns the base-2 logarithm of normal x > 0 with error below 1.5e-7 * (1 +
 * |log2(x)|), exact for powers of two; NaN for x < 0; for NaN and infinity, a
 * value for which x * log2(x) is not finite. The method splits x = m * 2^k.
 * With AVX-512, 1 <= m < 2 and log2(x) = k - log2(c) + log2(1 + r), where c is
 * near 1/m (see near_inverse) and r = m * c - 1 is between -1/32 and 1/16. With
 * other instruction sets, 3/4 <= m < 3/2 and r = m - 1. log2(1 + r) is a
 * minimax polynomial.
 */
static inline vec vec_log2(vec x)
{
#if defined(ES_VECTOR_AVX512)
    __m512 k = _mm512_getexp_ps((__m512)x);
    __m512 m =
        _mm512_getmant_ps((__m512)x, _MM_MANT_NORM_1_2, _MM_MANT_SIGN_nan);
    __m512i i = _mm512_srli_epi32((__m512i)x, 19);
    __m512 c = _mm512_permutexvar_ps(i, _mm512_loadu_ps(near_inverse));
    vec r = (vec)_mm512_fmsub_ps(m, c, (__m512)splat(1));
    k = k + _mm512_permutexvar_ps(i, _mm512_loadu_ps(inverse_log));
    vec p = splat(-3.43797797E-1f);
    p = multiply_add(p, r, splat(4.81116132E-1f));
    p = multiply_add(p, r, splat(-7.21362059E-1f));
    p = multiply_add(p, r, splat(1.442695f));
    return multiply_add(p, r, (vec)k);
#else
    ivec k = (ivec)((uvec)x - 0x3f400000) >> 23;
    vec r = (vec)((uvec)x - ((uvec)k << 23)) - splat(1);
    vec p = splat(-7.7694434E-2f);
    p = multiply_add(p, r, splat(1.9017744E-1f));
    p = multiply_add(p, r, splat(-2.5153362E-1f));
    p = multiply_add(p, r, splat(2.9219950E-1f));
    p = multiply_add(p, r, splat(-3.6040031E-1f));
    p = multiply_add(p, r, splat(4.8074484E-1f));
    p = multiply_add(p, r, splat(-7.2134845E-1f));
    p = multiply_add(p, r, splat(1.4426966f));
    p = multiply_add(p, r, __builtin_convertvector(k, vec));
    /* Sets all bits, which is a NaN, where x is negative. */
    return (vec)((ivec)p | (ivec)x >> 31);
#endif
}

/* --- LANES rows of LANES --------------------------------------------------
 * Works in log2 LANES rounds: the round with distance h combines rows i and i
 * + h. A transposition swaps the lanes with bit h set in row i with the lanes
 * without it in row i + h. A sum (or maximum) combines the two results
 * instead, which halves the number of rows and the number of partial results
 * of each row. */

#define UPPER(lane, h) ((lane) & (h) ? LANES + (lane) - (h) : (lane))
#define LOWER(lane, h) ((lane) & (h) ? LANES + (lane) : (lane) + (h))
#define LIST4(pick, h, i)                                                      \
    pick(i, h), pick(i + 1, h), pick(i + 2, h), pick(i + 3, h)
#define LIST8(pick, h, i) LIST4(pick, h, i), LIST4(pick, h, i + 4)
#if LANES == 16
#define LANE_LIST(pick, h) LIST8(pick, h, 0), LIST8(pick, h, 8)
#define EACH_ROUND(step) step(8) step(4) step(2) step(1)
#elif LANES == 8
#define LANE_LIST(pick, h) LIST8(pick, h, 0)
#define EACH_ROUND(step) step(4) step(2) step(1)
#else
#define LANE_LIST(pick, h) LIST4(pick, h, 0)
#define EACH_ROUND(step) step(2) step(1)
#endif

#define MIX(a, b, pick, h) __builtin_shufflevector(a, b, LANE_LIST(pick, h))

#define EXCHANGE(h)                                                            \
    for (int i = 0; i < LANES; i++)                                            \
        if (!(i & (h))) {                                                      \
            vec a = rows[i], b = rows[i + (h)];                                \
            rows[i] = MIX(a, b, UPPER, h);                                     \
            rows[i + (h)] = MIX(a, b, LOWER, h);                               \
        }

static inline void transpose(vec rows[LANES])
{
    EACH_ROUND(EXCHANGE)
}

#define ADD_PAIRS(h)                                                           \
    for (int i = 0; i < (h); i++)                                              \
        rows[i] = MIX(rows[i], rows[i + (h)], UPPER, h) +                      \
                  MIX(rows[i], rows[i + (h)], LOWER, h);

/* Returns a vector whose lane r is the sum of the lanes of in[r]. */
static inline vec sum_rows(const vec in[LANES])
{
    vec rows[LANES];
    memcpy(rows, in, sizeof rows);
    EACH_ROUND(ADD_PAIRS)
    return rows[0];
}

#define LARGER_OF_PAIRS(h)                                                     \
    for (int i = 0; i < (h); i++)                                              \
        rows[i] = larger(MIX(rows[i], rows[i + (h)], UPPER, h),                \
                         MIX(rows[i], rows[i + (h)], LOWER, h));

/* Returns a vector whose lane r is the largest lane of in[r]; no lane may be
   NaN. */
static inline vec largest_of_rows(const vec in[LANES])
{
    vec rows[LANES];
    memcpy(rows, in, sizeof rows);
    EACH_ROUND(LARGER_OF_PAIRS)
    return rows[0];
}

#endif
