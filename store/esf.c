/* Converts the header and the frames of a fragment file to and from bytes, in
   the format that esf.h describes. Does not read or write files. */
#include "store/esf.h"

#include "analyzer/base/text.h"
#include "store/crc32c.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define MARK 0x45534652u

static const char magic[8] = {'E', 'N', 'T', 'R', 'E', 'S', 'F', '\n'};

static void put32(unsigned char *out, uint32_t value)
{
    memcpy(out, &value, sizeof value);
}

static void put64(unsigned char *out, uint64_t value)
{
    memcpy(out, &value, sizeof value);
}

static uint32_t get32(const unsigned char *in)
{
    uint32_t value;
    memcpy(&value, in, sizeof value);
    return value;
}

static uint64_t get64(const unsigned char *in)
{
    uint64_t value;
    memcpy(&value, in, sizeof value);
    return value;
}

/* --- header --------------------------------------------------------------- */

static uint32_t seed_of(const unsigned char *header)
{
    return es_crc32c(0, header + 16, ES_UUID_SIZE - 1);
}

uint32_t es_esf_header_write(unsigned char out[ES_ESF_HEADER_BYTES],
                             const char uuid[ES_UUID_SIZE])
{
    memset(out, 0, ES_ESF_HEADER_BYTES);
    memcpy(out, magic, sizeof magic);
    put32(out + 8, 1);
    memcpy(out + 16, uuid, ES_UUID_SIZE - 1);
    put32(out + 60, es_crc32c(0, out, 60));
    return seed_of(out);
}

bool es_esf_header_read(uint32_t *seed, bool *newer,
                        const unsigned char in[ES_ESF_HEADER_BYTES])
{
    *newer = false;
    if (memcmp(in, magic, sizeof magic) != 0 ||
        get32(in + 60) != es_crc32c(0, in, 60))
        return false;
    *newer = get32(in + 8) > 1;
    *seed = seed_of(in);
    return get32(in + 8) == 1;
}

/* --- frames --------------------------------------------------------------- */

void es_esf_frame_write(unsigned char out[ES_ESF_FRAME_BYTES],
                        const es_esf_frame *frame, uint32_t seed)
{
    put32(out, MARK);
    put32(out + 4, frame->bytes);
    put64(out + 8, frame->sequence);
    put64(out + 16, (uint64_t)frame->time);
    put32(out + 24, frame->attempt);
    put32(out + 28, frame->run);
    put64(out + 32, (uint64_t)frame->resume);
    put32(out + 40, frame->closed);
    put32(out + 44, frame->crc);
    put32(out + 48, 0);
    put32(out + 52, es_crc32c(seed, out, 52));
}

bool es_esf_frame_read(es_esf_frame *frame,
                       const unsigned char in[ES_ESF_FRAME_BYTES],
                       uint32_t seed)
{
    if (get32(in) != MARK || get32(in + 52) != es_crc32c(seed, in, 52))
        return false;
    *frame = (es_esf_frame){.bytes = get32(in + 4),
                            .sequence = get64(in + 8),
                            .time = (int64_t)get64(in + 16),
                            .attempt = get32(in + 24),
                            .run = get32(in + 28),
                            .resume = (int64_t)get64(in + 32),
                            .closed = get32(in + 40) == 1,
                            .crc = get32(in + 44)};
    return frame->bytes <= ES_ESF_MOST && frame->bytes % 8 == 0 &&
           frame->sequence < INT64_MAX && frame->time >= 0 &&
           frame->time < INT64_MAX / 2;
}

uint32_t es_esf_checksum(uint32_t seed, const void *payload, size_t n)
{
    return es_crc32c(seed, payload, n);
}

bool es_esf_is_name(const char *path)
{
    return es_text_ends(path, ES_ESF_SUFFIX);
}

bool es_esf_beside(char out[PATH_MAX], const char *path)
{
    const size_t n = strlen(path);
    return snprintf(out, PATH_MAX, "%.*s" ES_ESF_SUFFIX,
                    (int)(es_text_ends(path, ".db") ? n - 3 : n),
                    path) < PATH_MAX;
}

/* --- the clock ------------------------------------------------------------ */

static _Atomic int64_t shift;

int64_t es_esf_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    const int64_t ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000 +
                       atomic_load(&shift);
    return ms > 0 ? ms : 0; /* the format has no times before 1970 */
}

void es_esf_shift_clock(int64_t ms)
{
    atomic_store(&shift, ms);
}
