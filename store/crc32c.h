/** CRC-32C (Castagnoli, RFC 3720), the checksum of a sample. */
#ifndef ES_CRC32C_H
#define ES_CRC32C_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * The checksum of bytes (n) that follow those whose checksum is `crc`; 0 before
 * the first. Of "123456789" it is 0xe3069283. Any alignment, any thread; by the
 * fastest form that the machine has and that agrees with the plain one.
 */
uint32_t es_crc32c(uint32_t crc, const void *bytes, size_t n);

/** One form of it. */
typedef struct es_crc32c_form {
    const char *name;
    uint32_t (*update)(uint32_t crc, const void *bytes, size_t n);
    bool (*is_supported)(void);
} es_crc32c_form;

extern const es_crc32c_form es_crc32c_avx512, es_crc32c_sse42, es_crc32c_plain;

/** Whether the machine has what the form needs, and it is right on lengths
 *  around those of its blocks. */
bool es_crc32c_agrees(const es_crc32c_form *form);

#endif
