/* Compiled with AVX-512 and VPCLMULQDQ: nothing in here but is_supported may
   run before crc32c.c has found that the machine has them.

   256 bytes are kept in four registers, and folded onto the 256 that follow:
   of each 128 bits both halves are multiplied by x^(distance in bits, +31 or
   -33) modulo the polynomial (V. Gopal et al., Fast CRC Computation Using
   PCLMULQDQ, 2009). */
#include "store/crc32c.h"

#ifdef __x86_64__
#include "store/crc32c_tail.h"

#define REGISTER 64 /* bytes */
#define BLOCK (4 * REGISTER)
#define PAIR(low, high) _mm_set_epi64x(INT64_C(high), INT64_C(low))
#define BY_128 PAIR(0xf20c0dfe, 0x493c7d27)
#define BY_256 PAIR(0x3da6d0cb, 0xba4fc28e)
#define BY_384 PAIR(0x1c291d04, 0xddc0152b)
#define BY_512 PAIR(0x740eef02, 0x9e4addf8)
#define BY_1024 PAIR(0x6992cea2, 0x0d3b6092)
#define BY_1536 PAIR(0xa87ab8a8, 0xab7aff2a)
#define BY_2048 PAIR(0xdcb17aa4, 0xb9e02b86)

static inline __m512i load(const unsigned char *bytes)
{
    return _mm512_loadu_si512(bytes);
}

/* `kept` moved by the distance of `factors`, plus `next`. */
static inline __m512i fold(__m512i kept, __m512i factors, __m512i next)
{
    return _mm512_ternarylogic_epi64(
        _mm512_clmulepi64_epi128(kept, factors, 0x00),
        _mm512_clmulepi64_epi128(kept, factors, 0x11), next, 0x96);
}

static inline __m512i everywhere(__m128i factors)
{
    return _mm512_broadcast_i32x4(factors);
}

/* 64 bytes become a crc. */
static inline uint64_t finish(__m512i kept)
{
    __m512i factors = _mm512_castsi128_si512(BY_384);
    factors = _mm512_inserti32x4(factors, BY_256, 1);
    factors = _mm512_inserti32x4(factors, BY_128, 2);
    factors = _mm512_inserti32x4(factors, _mm_setzero_si128(), 3);
    __m512i last = _mm512_maskz_mov_epi64(0xc0, kept);
    __m512i moved = fold(kept, factors, last);
    __m256i half = _mm256_xor_si256(_mm512_castsi512_si256(moved),
                                    _mm512_extracti64x4_epi64(moved, 1));
    __m128i all = _mm_xor_si128(_mm256_castsi256_si128(half),
                                _mm256_extracti128_si256(half, 1));
    uint64_t crc = _mm_crc32_u64(0, (uint64_t)_mm_cvtsi128_si64(all));
    return _mm_crc32_u64(crc, (uint64_t)_mm_extract_epi64(all, 1));
}

/* Bytes (n >= BLOCK) up to the last 63. */
static inline uint64_t take_blocks(uint32_t crc, const unsigned char **bytes,
                                   size_t *n)
{
    const __m512i by_block = everywhere(BY_2048);
    const __m512i by_register = everywhere(BY_512);
    const unsigned char *at = *bytes;
    size_t left = *n - BLOCK;
    __m512i kept[4];
    for (int i = 0; i < 4; i++)
        kept[i] = load(at + REGISTER * i);
    kept[0] = _mm512_xor_si512(
        kept[0], _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)crc)));
    at += BLOCK;
    for (; left >= BLOCK; left -= BLOCK, at += BLOCK)
        for (int i = 0; i < 4; i++)
            kept[i] = fold(kept[i], by_block, load(at + REGISTER * i));
    __m512i one = fold(kept[2], by_register, kept[3]);
    one = fold(kept[1], everywhere(BY_1024), one);
    one = fold(kept[0], everywhere(BY_1536), one);
    for (; left >= REGISTER; left -= REGISTER, at += REGISTER)
        one = fold(one, by_register, load(at));
    *bytes = at;
    *n = left;
    return finish(one);
}

static uint32_t update(uint32_t crc, const void *bytes, size_t n)
{
    const unsigned char *at = bytes;
    uint64_t state = ~crc;
    if (n >= BLOCK)
        state = take_blocks(~crc, &at, &n);
    return ~(uint32_t)crc32c_tail(state, at, n);
}

static bool is_supported(void)
{
    return __builtin_cpu_supports("sse4.2") &&
           __builtin_cpu_supports("avx512f") &&
           __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("vpclmulqdq");
}

const es_crc32c_form es_crc32c_avx512 = {"avx512", update, is_supported};
#endif
