/** The last bytes by the instruction for CRC-32C, for the forms that have it.
 *  It takes three cycles a word and could begin one in each: the forms work on
 *  several words at once before they come here. Crc without inversion. */
#ifndef ES_CRC32C_TAIL_H
#define ES_CRC32C_TAIL_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

static inline uint64_t crc32c_word(const unsigned char *bytes)
{
    uint64_t word;
    memcpy(&word, bytes, sizeof word);
    return word;
}

static inline uint64_t crc32c_tail(uint64_t crc, const unsigned char *bytes,
                                   size_t n)
{
    for (; n >= 8; n -= 8, bytes += 8)
        crc = _mm_crc32_u64(crc, crc32c_word(bytes));
    for (; n > 0; n--)
        crc = _mm_crc32_u8((uint32_t)crc, *bytes++);
    return crc;
}

#endif
