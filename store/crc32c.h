/** Computes CRC-32C (Castagnoli, RFC 3720), the checksum of samples. */
#ifndef ES_CRC32C_H
#define ES_CRC32C_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * Returns the checksum of some bytes followed by `bytes` (n), where `crc` is
 * the checksum of the preceding bytes; pass 0 if there are none. The checksum
 * of "123456789" is 0xe3069283. `bytes` may have any alignment. Any thread may
 * call the function. It uses the fastest implementation that the processor
 * supports and that agrees with the portable one.
 */
uint32_t es_crc32c(uint32_t crc, const void *bytes, size_t n);

/** One implementation of the checksum. */
typedef struct es_crc32c_form {
    const char *name;
    uint32_t (*update)(uint32_t crc, const void *bytes, size_t n);
    bool (*is_supported)(void);
} es_crc32c_form;

extern const es_crc32c_form es_crc32c_avx512, es_crc32c_sse42, es_crc32c_plain;

/**
 * Returns true if the processor has the instructions that `form` needs, and if
 * `form` computes correct checksums for lengths around its block sizes.
 */
bool es_crc32c_agrees(const es_crc32c_form *form);

#endif
