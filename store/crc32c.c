/* Computes CRC-32C in portable C with eight tables (slicing-by-8), and chooses
   the fastest implementation once per process. A fast implementation is used
   only if it agrees with the portable one on test data. */
#include "store/crc32c.h"

#include <pthread.h>
#include <string.h>

#define POLYNOMIAL UINT32_C(0x82f63b78) /* bit-reflected */

static uint32_t tables[8][256];
static uint32_t (*chosen)(uint32_t crc, const void *bytes, size_t n);

static void fill_tables(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? POLYNOMIAL : 0);
        tables[0][i] = crc;
    }
    for (int k = 1; k < 8; k++)
        for (int i = 0; i < 256; i++) {
            uint32_t crc = tables[k - 1][i];
            tables[k][i] = crc >> 8 ^ tables[0][crc & 0xff];
        }
}

static uint32_t plain(uint32_t crc, const void *bytes, size_t n)
{
    const unsigned char *at = bytes;
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, fill_tables);
    crc = ~crc;
    for (; n >= 8; n -= 8, at += 8) {
        uint64_t word;
        memcpy(&word, at, sizeof word);
        word ^= crc;
        crc = 0;
        for (int k = 0; k < 8; k++)
            crc ^= tables[7 - k][word >> 8 * k & 0xff];
    }
    for (; n > 0; n--)
        crc = crc >> 8 ^ tables[0][(crc ^ *at++) & 0xff];
    return ~crc;
}

static bool anywhere(void)
{
    return true;
}

const es_crc32c_form es_crc32c_plain = {"plain", plain, anywhere};

/* On processors other than x86-64, crc32c_x86.c is empty. */
#ifndef __x86_64__
static bool nowhere(void)
{
    return false;
}

const es_crc32c_form es_crc32c_avx512 = {"avx512", plain, nowhere};
const es_crc32c_form es_crc32c_sse42 = {"sse4.2", plain, nowhere};
#endif

bool es_crc32c_agrees(const es_crc32c_form *form)
{
    unsigned char bytes[1500];
    uint32_t state = 1, crc = 0;
    if (!form->is_supported())
        return false;
    for (size_t i = 0; i < sizeof bytes; i++) {
        state = state * 1664525U + 1013904223U;
        bytes[i] = (unsigned char)(state >> 24);
    }
    for (size_t n = 0; n < sizeof bytes; n += n < 20 ? 1 : 61) {
        const unsigned char *from = bytes + (n & 1);
        uint32_t right = plain(crc, from, n);
        if (form->update(crc, from, n) != right)
            return false;
        crc = right;
    }
    return true;
}

static void choose_variant(void)
{
    static const es_crc32c_form *const fast[] = {&es_crc32c_avx512,
                                                 &es_crc32c_sse42};
    chosen = plain;
    for (size_t i = 0; i < sizeof fast / sizeof *fast && chosen == plain; i++)
        if (es_crc32c_agrees(fast[i]))
            chosen = fast[i]->update;
}

uint32_t es_crc32c(uint32_t crc, const void *bytes, size_t n)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, choose_variant);
    return chosen(crc, bytes, n);
}
