/* Compiled with AVX-512 F, BW, DQ and VL: nothing in here may run before
   entropy.c has found that the machine has them. */
#include <immintrin.h>

typedef __m512 vec;
#define WIDTH 16
#define TILE 8
#define PANELS 3

static inline vec vec_load(const float *p)
{
    return _mm512_loadu_ps(p);
}

static inline void vec_store(float *p, vec a)
{
    _mm512_storeu_ps(p, a);
}

static inline vec vec_set(float x)
{
    return _mm512_set1_ps(x);
}

static inline __mmask16 first_lanes(int n)
{
    return (__mmask16)((1U << n) - 1);
}

static inline vec vec_load_first(const float *p, int n)
{
    return _mm512_maskz_loadu_ps(first_lanes(n), p);
}

static inline vec vec_select_first(int n, vec a, vec b)
{
    return _mm512_mask_mov_ps(b, first_lanes(n), a);
}

static inline vec vec_fma(vec a, vec b, vec c)
{
    return _mm512_fmadd_ps(a, b, c);
}

static inline vec vec_max(vec a, vec b)
{
    return _mm512_max_ps(a, b);
}

#include "analyzer/entropy/entropy_polynomials.h"

static inline vec vec_exp2(vec x)
{
    vec f = _mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF);
    vec p = exp2_polynomial(f);
    return _mm512_scalef_ps(p, x); /* p * 2^floor(x) */
}

/* For m in [1 + i/16, 1 + (i+1)/16): a c near 1/m, and -log2(c). Exact at both
 * ends, so that logarithms near 0 keep their relative accuracy. */
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

/** x = m 2^k with 1 <= m < 2; log2(x) = k - log2(c) + log2(1 + r), where
 *  r = m c - 1 and -1/32 <= r < 1/16; minimax polynomial: 1e-8. */
static inline vec vec_log2(vec x)
{
    vec k = _mm512_getexp_ps(x);
    vec m = _mm512_getmant_ps(x, _MM_MANT_NORM_1_2, _MM_MANT_SIGN_nan);
    __m512i i = _mm512_srli_epi32(_mm512_castps_si512(x), 19);
    vec r = _mm512_fmsub_ps(m, _mm512_permutexvar_ps(i, vec_load(near_inverse)),
                            vec_set(1));
    k = k + _mm512_permutexvar_ps(i, vec_load(inverse_log));
    vec p = vec_set(-3.43797797E-1F);
    p = vec_fma(p, r, vec_set(4.81116132E-1F));
    p = vec_fma(p, r, vec_set(-7.21362059E-1F));
    p = vec_fma(p, r, vec_set(1.442695F));
    return vec_fma(p, r, k);
}

/** The four blocks of 128 bits: even ones of a then b; odd ones. */
static inline vec even_blocks(vec a, vec b)
{
    return _mm512_shuffle_f32x4(a, b, 0x88);
}

static inline vec odd_blocks(vec a, vec b)
{
    return _mm512_shuffle_f32x4(a, b, 0xdd);
}

static inline vec low_pairs(vec a, vec b)
{
    return _mm512_castpd_ps(
        _mm512_unpacklo_pd(_mm512_castps_pd(a), _mm512_castps_pd(b)));
}

static inline vec high_pairs(vec a, vec b)
{
    return _mm512_castpd_ps(
        _mm512_unpackhi_pd(_mm512_castps_pd(a), _mm512_castps_pd(b)));
}

/** 4 x 4 transposes within each block of 128 bits of four rows. */
static inline void transpose_blocks(vec rows[4])
{
    vec a = _mm512_unpacklo_ps(rows[0], rows[1]);
    vec b = _mm512_unpackhi_ps(rows[0], rows[1]);
    vec c = _mm512_unpacklo_ps(rows[2], rows[3]);
    vec d = _mm512_unpackhi_ps(rows[2], rows[3]);
    rows[0] = low_pairs(a, c);
    rows[1] = high_pairs(a, c);
    rows[2] = low_pairs(b, d);
    rows[3] = high_pairs(b, d);
}

static inline void vec_transpose(vec rows[WIDTH])
{
    for (int i = 0; i < WIDTH; i += 4)
        transpose_blocks(rows + i);
    for (int i = 0; i < 4; i++) {
        vec a = even_blocks(rows[i], rows[i + 4]);
        vec b = odd_blocks(rows[i], rows[i + 4]);
        vec c = even_blocks(rows[i + 8], rows[i + 12]);
        vec d = odd_blocks(rows[i + 8], rows[i + 12]);
        rows[i] = even_blocks(a, c);
        rows[i + 4] = even_blocks(b, d);
        rows[i + 8] = odd_blocks(a, c);
        rows[i + 12] = odd_blocks(b, d);
    }
}

/* Halves the number of vectors and the lanes a row has left, four times. */
#define FOLD_ROWS(name, combine)                                               \
    static inline vec name(const vec rows[WIDTH])                              \
    {                                                                          \
        vec a[8], b[4];                                                        \
        for (int i = 0; i < 8; i++)                                            \
            a[i] = combine(_mm512_unpacklo_ps(rows[2 * i], rows[2 * i + 1]),   \
                           _mm512_unpackhi_ps(rows[2 * i], rows[2 * i + 1]));  \
        for (int i = 0; i < 4; i++)                                            \
            b[i] = combine(low_pairs(a[2 * i], a[2 * i + 1]),                  \
                           high_pairs(a[2 * i], a[2 * i + 1]));                \
        for (int i = 0; i < 2; i++)                                            \
            a[i] = combine(even_blocks(b[2 * i], b[2 * i + 1]),                \
                           odd_blocks(b[2 * i], b[2 * i + 1]));                \
        return combine(even_blocks(a[0], a[1]), odd_blocks(a[0], a[1]));       \
    }

FOLD_ROWS(vec_sum_rows, vec_add)
FOLD_ROWS(vec_max_rows, vec_max)

#define ES_KERNELS es_kernels_avx512
#define ES_KERNELS_NAME "avx512"
#define ES_KERNELS_NEED ES_VECTORS_AVX512
#include "analyzer/entropy/entropy_kernels.h"
