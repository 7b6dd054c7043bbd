/* Implements CRC-32C for x86-64. The attribute of each function names the
   instructions that it is compiled for. Only has_sse42 and has_avx512 may run
   before crc32c.c has checked that the processor has these instructions. */
#include "store/crc32c.h"

#ifdef __x86_64__
#include "analyzer/base/processor.h"

#include <immintrin.h>
#include <string.h>

#define SSE42 __attribute__((target("sse4.2,crc32,pclmul")))
#define AVX512                                                                 \
    __attribute__((target("sse4.2,crc32,pclmul,avx512f,avx512bw,avx512dq,"     \
                          "avx512vl,vpclmulqdq")))

/* --- the last bytes, with the CRC-32C instruction ------------------------- */

/* The CRC-32C instruction has a latency of three cycles and a throughput of one
   per cycle. The callers therefore first process several streams in parallel
   and use this function only for the last bytes. `crc` is the checksum without
   the final inversion. */

SSE42 static inline uint64_t crc32c_word(const unsigned char *bytes)
{
    uint64_t word;
    memcpy(&word, bytes, sizeof word);
    return word;
}

SSE42 static inline uint64_t crc32c_tail(uint64_t crc,
                                         const unsigned char *bytes, size_t n)
{
    for (; n >= 8; n -= 8, bytes += 8)
        crc = _mm_crc32_u64(crc, crc32c_word(bytes));
    for (; n > 0; n--)
        crc = _mm_crc32_u8((uint32_t)crc, *bytes++);
    return crc;
}

/* --- SSE4.2 and PCLMULQDQ ------------------------------------------------- */

/* Processes three adjacent parts of the input in parallel to hide the
   instruction's latency. The checksums of the first two parts are then shifted
   past the parts that follow them, by a multiplication with x^1024 or x^512
   modulo the polynomial. */
#define STRETCH 64
/* x^(8 * 64 - 33) and x^(8 * 128 - 33), bit-reflected: the carry-less
   multiplication contributes the remaining factor x^33. */
#define MOVE_BY_1 0x9e4addf8
#define MOVE_BY_2 0x0d3b6092

SSE42 static inline __m128i multiply(uint64_t crc, int64_t factor)
{
    return _mm_clmulepi64_si128(_mm_cvtsi64_si128((int64_t)crc),
                                _mm_cvtsi64_si128(factor), 0);
}

SSE42 static uint32_t update_sse42(uint32_t crc, const void *bytes, size_t n)
{
    const unsigned char *at = bytes;
    uint64_t a = ~crc;
    for (; n >= 3 * STRETCH; n -= 3 * STRETCH, at += 3 * STRETCH) {
        uint64_t b = 0, c = 0;
        for (int i = 0; i < STRETCH; i += 8) {
            a = _mm_crc32_u64(a, crc32c_word(at + i));
            b = _mm_crc32_u64(b, crc32c_word(at + STRETCH + i));
            c = _mm_crc32_u64(c, crc32c_word(at + 2 * STRETCH + i));
        }
        __m128i moved =
            _mm_xor_si128(multiply(a, MOVE_BY_2), multiply(b, MOVE_BY_1));
        a = _mm_crc32_u64(0, (uint64_t)_mm_cvtsi128_si64(moved)) ^ c;
    }
    return ~(uint32_t)crc32c_tail(a, at, n);
}

static bool has_sse42(void)
{
    const unsigned needed = ES_HAS_SSE42 | ES_HAS_PCLMUL;
    return (es_processor_instructions() & needed) == needed;
}

const es_crc32c_form es_crc32c_sse42 = {"sse4.2", update_sse42, has_sse42};

/* --- AVX-512 and VPCLMULQDQ ----------------------------------------------- */

/* Four registers contain 256 bytes and are folded onto the next 256 bytes: both
   halves of every 128 bits are multiplied by a power of x modulo the
   polynomial, whose exponent is the distance in bits, plus 31 or minus 33 (V.
   Gopal et al., Fast CRC Computation Using PCLMULQDQ, 2009). */
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

AVX512 static inline __m512i load(const unsigned char *bytes)
{
    return _mm512_loadu_si512(bytes);
}

/* Folds `kept` onto `next`: multiplies its two halves by the powers of x in
 * `factors`, and adds `next` without carries. */
AVX512 static inline __m512i fold(__m512i kept, __m512i factors, __m512i next)
{
    return _mm512_ternarylogic_epi64(
        _mm512_clmulepi64_epi128(kept, factors, 0x00),
        _mm512_clmulepi64_epi128(kept, factors, 0x11), next, 0x96);
}

AVX512 static inline __m512i everywhere(__m128i factors)
{
    return _mm512_broadcast_i32x4(factors);
}

/* Reduces 64 bytes to a checksum. */
AVX512 static inline uint64_t finish(__m512i kept)
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

/* Processes all whole blocks of 64 bytes; n must be at least BLOCK. The caller
 * must process the last n % 64 bytes. */
AVX512 static inline uint64_t
take_blocks(uint32_t crc, const unsigned char **bytes, size_t *n)
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

AVX512 static uint32_t update_avx512(uint32_t crc, const void *bytes, size_t n)
{
    const unsigned char *at = bytes;
    uint64_t state = ~crc;
    if (n >= BLOCK)
        state = take_blocks(~crc, &at, &n);
    return ~(uint32_t)crc32c_tail(state, at, n);
}

static bool has_avx512(void)
{
    const unsigned needed = ES_HAS_AVX512 | ES_HAS_VPCLMULQDQ;
    return has_sse42() && (es_processor_instructions() & needed) == needed;
}

const es_crc32c_form es_crc32c_avx512 = {"avx512", update_avx512, has_avx512};
#endif
