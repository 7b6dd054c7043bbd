/* Compiled with AVX2 and FMA: nothing in here may run before entropy.c has
   found that the machine has them. */
#include <immintrin.h>

typedef __m256 vec;
#define WIDTH 8
#define TILE 4
#define PANELS 3

static inline vec vec_load(const float *p)
{
    return _mm256_loadu_ps(p);
}

static inline void vec_store(float *p, vec a)
{
    _mm256_storeu_ps(p, a);
}

static inline vec vec_set(float x)
{
    return _mm256_set1_ps(x);
}

static inline __m256i first_lanes(int n)
{
    __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), lanes);
}

static inline vec vec_load_first(const float *p, int n)
{
    return _mm256_maskload_ps(p, first_lanes(n));
}

static inline vec vec_select_first(int n, vec a, vec b)
{
    return _mm256_blendv_ps(b, a, _mm256_castsi256_ps(first_lanes(n)));
}

static inline vec vec_fma(vec a, vec b, vec c)
{
    return _mm256_fmadd_ps(a, b, c);
}

static inline vec vec_max(vec a, vec b)
{
    return _mm256_max_ps(a, b);
}

#include "analyzer/entropy/entropy_polynomials.h"

static inline vec vec_exp2(vec x)
{
    vec n = _mm256_floor_ps(x), f = x - n;
    vec p = exp2_polynomial(f);
    /* A NaN keeps its exponent of ones: its n is NaN, which converts to
       INT_MIN, and that shifted is 0. */
    __m256i k = _mm256_slli_epi32(_mm256_cvtps_epi32(n), 23);
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(p), k));
}

/** x = m 2^k with 3/4 <= m < 3/2. */
static inline vec vec_log2(vec x)
{
    __m256i bits = _mm256_castps_si256(x);
    __m256i above = _mm256_sub_epi32(bits, _mm256_set1_epi32(0x3f400000));
    __m256i k = _mm256_srai_epi32(above, 23);
    vec m =
        _mm256_castsi256_ps(_mm256_sub_epi32(bits, _mm256_slli_epi32(k, 23)));
    vec r = m - vec_set(1);
    vec p = log2_polynomial(r, _mm256_cvtepi32_ps(k));
    /* All ones, a NaN, where x is negative. */
    return _mm256_or_ps(p, _mm256_castsi256_ps(_mm256_srai_epi32(bits, 31)));
}

static inline vec low_pairs(vec a, vec b)
{
    return _mm256_castpd_ps(
        _mm256_unpacklo_pd(_mm256_castps_pd(a), _mm256_castps_pd(b)));
}

static inline vec high_pairs(vec a, vec b)
{
    return _mm256_castpd_ps(
        _mm256_unpackhi_pd(_mm256_castps_pd(a), _mm256_castps_pd(b)));
}

static inline vec low_halves(vec a, vec b)
{
    return _mm256_permute2f128_ps(a, b, 0x20);
}

static inline vec high_halves(vec a, vec b)
{
    return _mm256_permute2f128_ps(a, b, 0x31);
}

/** 4 x 4 transposes within both halves of four rows. */
static inline void transpose_blocks(vec rows[4])
{
    vec a = _mm256_unpacklo_ps(rows[0], rows[1]);
    vec b = _mm256_unpackhi_ps(rows[0], rows[1]);
    vec c = _mm256_unpacklo_ps(rows[2], rows[3]);
    vec d = _mm256_unpackhi_ps(rows[2], rows[3]);
    rows[0] = low_pairs(a, c);
    rows[1] = high_pairs(a, c);
    rows[2] = low_pairs(b, d);
    rows[3] = high_pairs(b, d);
}

static inline void vec_transpose(vec rows[WIDTH])
{
    transpose_blocks(rows);
    transpose_blocks(rows + 4);
    for (int i = 0; i < 4; i++) {
        vec low = low_halves(rows[i], rows[i + 4]);
        rows[i + 4] = high_halves(rows[i], rows[i + 4]);
        rows[i] = low;
    }
}

/* Halves the number of vectors and the lanes a row has left, three times. */
#define FOLD_ROWS(name, combine)                                               \
    static inline vec name(const vec rows[WIDTH])                              \
    {                                                                          \
        vec a[4], b[2];                                                        \
        for (int i = 0; i < 4; i++)                                            \
            a[i] = combine(_mm256_unpacklo_ps(rows[2 * i], rows[2 * i + 1]),   \
                           _mm256_unpackhi_ps(rows[2 * i], rows[2 * i + 1]));  \
        for (int i = 0; i < 2; i++)                                            \
            b[i] = combine(low_pairs(a[2 * i], a[2 * i + 1]),                  \
                           high_pairs(a[2 * i], a[2 * i + 1]));                \
        return combine(low_halves(b[0], b[1]), high_halves(b[0], b[1]));       \
    }

FOLD_ROWS(vec_sum_rows, vec_add)
FOLD_ROWS(vec_max_rows, vec_max)

#define ES_KERNELS es_kernels_avx2
#define ES_KERNELS_NAME "avx2"
#define ES_KERNELS_NEED ES_VECTORS_AVX2
#include "analyzer/entropy/entropy_kernels.h"
