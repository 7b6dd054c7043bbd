/* Compiled with SSE4.2 and PCLMULQDQ: nothing in here but is_supported may run
   before crc32c.c has found that the machine has them.

   Three neighbouring stretches at a time, to hide the instruction's latency:
   the first two are then moved behind the third, which is to multiply by
   x^1024 and x^512 modulo the polynomial. */
#include "store/crc32c.h"

#ifdef __x86_64__
#include "store/crc32c_tail.h"

#define STRETCH 64
#define MOVE_BY_1 0x9e4addf8 /* x^(8 * 64 - 33), reflected: the instruction */
#define MOVE_BY_2                                                              \
    0x0d3b6092 /* x^(8 * 128 - 33)   itself multiplies by x^33                 \
                */

static inline __m128i multiply(uint64_t crc, int64_t factor)
{
    return _mm_clmulepi64_si128(_mm_cvtsi64_si128((int64_t)crc),
                                _mm_cvtsi64_si128(factor), 0);
}

static uint32_t update(uint32_t crc, const void *bytes, size_t n)
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

static bool is_supported(void)
{
    return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul");
}

const es_crc32c_form es_crc32c_sse42 = {"sse4.2", update, is_supported};
#endif
