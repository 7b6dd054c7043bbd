/**
 * Defines the format of fragment files, RUN.esf, and converts headers and
 * frames to and from bytes. A recorder appends to a fragment where SQLite's log
 * is not safe, which is on a file system that several hosts share (mount.h).
 * One writer and any number of readers on any host work without locks, because
 * a reader relies only on complete frames with a correct checksum.
 *
 * All numbers are little-endian. The file is a header followed by frames in the
 * order of their numbers, without gaps:
 *
 *   header, 64 bytes
 *     0  "ENTRESF\n"
 *     8  u32  version, 1
 *    12  u32  0
 *    16  36 characters: the file's random uuid. Its CRC-32C is the seed of all
 *        checksums below, so that a frame of another file never matches
 *    52  u64  0
 *    60  u32  CRC-32C of bytes 0..59
 *
 *   frame, 56 bytes and its payload: the data of one transaction of the writer,
 *   which is valid as a whole or not at all
 *     0  u32  0x45534652
 *     4  u32  bytes of the payload, a multiple of 8, at most ES_ESF_MOST
 *     8  u64  sequence number, from 0 on
 *    16  i64  time at which the frame was written, ms since 1970
 *    24  u32  attempt: 1 for the first es_writer_run in this file, then
 *             incremented by each call that begins or resumes a run
 *    28  u32  number of the frame's run, from 1 on
 *    32  i64  resume: data of earlier attempts of the run at this step and
 *             above is no longer valid
 *    40  u32  1: the writer closed the file after this frame; else 0
 *    44  u32  CRC-32C of the payload, after the seed
 *    48  u32  0
 *    52  u32  CRC-32C of bytes 0..51, after the seed
 *
 *   payload: records, each u32 kind, u32 bytes, and that many bytes, padded
 *   with zeros to a multiple of 8 (esf_record.h)
 *
 * The records that describe the run and its series are repeated along with the
 * samples of a frame: first after ES_ESF_AGAIN_FIRST bytes, then at intervals
 * that double each time up to ES_ESF_AGAIN_MOST. A damaged frame therefore
 * costs no more than the data up to the next repetition.
 *
 * The first frame is written together with the header and begins with the
 * records of the writer (host, boot, process) and of the run. A frame without
 * payload is a heartbeat: an idle writer appends one every ES_ESF_BEAT_MS.
 *
 * Torn tail: data after the last complete frame is ignored. The next writer
 * truncates this data and appends. Damage: an incomplete frame before a
 * complete frame is skipped, and an event of the kind "damaged" reports the
 * number of such frames. Another host may see later blocks before earlier
 * blocks, so a frame counts as damaged only once the later frame or the file's
 * last change is ES_ESF_SETTLED_MS old, or if the later frame is dated as far
 * in the future. Until then a reader stops before the gap: it returns old data,
 * never wrong data.
 */
#ifndef ES_ESF_H
#define ES_ESF_H

#include "store/run.h"
#include <limits.h>

#define ES_ESF_SUFFIX ".esf"
#define ES_ESF_HEADER_BYTES 64
#define ES_ESF_FRAME_BYTES 56
#define ES_ESF_MOST (16 << 20) /* maximum payload of a frame in bytes */
#define ES_ESF_AGAIN_FIRST (1 << 17)
#define ES_ESF_AGAIN_MOST (1 << 20)
#define ES_ESF_BEAT_MS 5000 /* maximum time between two frames */
/* A writer counts as dead if its last frame is older than this number of ms. */
#define ES_ESF_SILENT_MS 30000
/* Age in ms from which written data is assumed to be visible on all hosts. */
#define ES_ESF_SETTLED_MS 60000

typedef struct es_esf_frame {
    uint32_t bytes;
    uint64_t sequence;
    int64_t time;
    uint32_t attempt, run;
    int64_t resume;
    bool closed;
    uint32_t crc; /* checksum of the payload */
} es_esf_frame;

/**
 * Writes the header of a file with this uuid into `out`. Returns the seed of
 * the file's checksums.
 */
uint32_t es_esf_header_write(unsigned char out[ES_ESF_HEADER_BYTES],
                             const char uuid[ES_UUID_SIZE]);

/**
 * Reads a header. If it is valid and of this version, returns true and sets
 * *seed; if it is valid but of a newer version, sets `*newer` and returns
 * false.
 */
bool es_esf_header_read(uint32_t *seed, bool *newer,
                        const unsigned char in[ES_ESF_HEADER_BYTES]);

void es_esf_frame_write(unsigned char out[ES_ESF_FRAME_BYTES],
                        const es_esf_frame *frame, uint32_t seed);

/**
 * Reads a frame's header. Returns false if no frame of this file begins here,
 * or if the header is damaged.
 */
bool es_esf_frame_read(es_esf_frame *frame,
                       const unsigned char in[ES_ESF_FRAME_BYTES],
                       uint32_t seed);

uint32_t es_esf_checksum(uint32_t seed, const void *payload, size_t n);

/** Returns true if the path ends in ".esf". */
bool es_esf_is_name(const char *path);

/**
 * Writes the path of the fragment that belongs to the run file `path` to `out`;
 * for RUN.db this is RUN.esf. Returns false if the path is too long.
 */
bool es_esf_beside(char out[PATH_MAX], const char *path);

/**
 * Returns the time of day in ms since 1970. Tests shift this clock with
 * es_esf_shift_clock, for their process only.
 */
int64_t es_esf_clock(void);
void es_esf_shift_clock(int64_t ms);

#endif
