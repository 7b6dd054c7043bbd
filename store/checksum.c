/* Computes the checksum of a sample, for the writer and for readers. The
   checksum covers the sample's values, step and series, so a change of any of
   these is detected. */
#include "store/crc32c.h"
#include "store/store_internal.h"

#include <string.h>

uint32_t es_checksum_of_series(const char *uuid, es_phase phase,
                               const char *name)
{
    const char *phase_name = es_phase_name(phase);
    uint32_t crc = es_crc32c(0, uuid, strlen(uuid));
    crc = es_crc32c(crc, phase_name, strlen(phase_name));
    return es_crc32c(crc, name, strlen(name));
}

int32_t es_checksum_of_sample(uint32_t series, int64_t step, const void *value,
                              size_t size)
{
    uint32_t crc = es_crc32c(series, &step, sizeof step);
    return (int32_t)es_crc32c(crc, value, size);
}
