/**
 * Fragment files, RUN.esf: what a recorder appends where SQLite's log is not
 * safe, on a file system that hosts share (mount.h). One writer, any number of
 * readers on any host, no locks between them: a reader believes nothing but
 * whole frames with a right checksum.
 *
 * All numbers are little-endian. The file is a header and then frames, in the
 * order of their numbers, without a hole:
 *
 *   header, 64 bytes
 *     0  "ENTRESF\n"
 *     8  u32  version, 1
 *    12  u32  0
 *    16  36 characters: the file's own random uuid. Its CRC-32C is the seed of
 *        all checksums below: a frame of another file never fits
 *    52  u64  0
 *    60  u32  CRC-32C of bytes 0..59
 *
 *   frame, 56 bytes and its payload: what one transaction of the writer wrote,
 *   all of it or nothing
 *     0  u32  0x45534652
 *     4  u32  bytes of the payload, a multiple of 8, at most ES_ESF_MOST
 *     8  u64  sequence number, from 0 on
 *    16  i64  time of day when it was written, ms since 1970
 *    24  u32  attempt: 1 for the first es_writer_run in this file, then one
 *             more for each that began or resumed a run
 *    28  u32  number of the run that it is about, from 1 on
 *    32  i64  resume: what lies at this step and above, written by earlier
 *             attempts of the run, does not count any more
 *    40  u32  1: the writer closed the file after this frame; else 0
 *    44  u32  CRC-32C of the payload, after the seed
 *    48  u32  0
 *    52  u32  CRC-32C of bytes 0..51, after the seed
 *
 *   payload: records, each u32 kind, u32 bytes, and so many bytes, filled up
 *   with zeros to a multiple of 8 (esf_record.h)
 *
 * What says which run it is and which series it has is said again, with the
 * samples of the frame: first after ES_ESF_AGAIN_FIRST bytes, then after twice
 * as many each time, at most after ES_ESF_AGAIN_MOST. A damaged frame costs no
 * more than what lies before the next of those.
 *
 * The first frame is written together with the header and begins with the
 * writer (host, boot, process) and the run. A frame without payload is a
 * heartbeat: while there is nothing to write, one each ES_ESF_BEAT_MS.
 *
 * Torn tail: what follows the last whole frame is not there. The next writer
 * cuts it off and appends. Damage: a frame that is not whole, though a later
 * one is; it is left out, and an event of the kind "damaged" says how many
 * were. As another host may see later blocks before earlier ones, that is
 * believed only once the later frame, or the file's last change, is
 * ES_ESF_SETTLED_MS old, or the frame is dated as far in the future; until then
 * a reader stays with what is before it: an old number, never a wrong one.
 */
#ifndef ES_ESF_H
#define ES_ESF_H

#include "store/run.h"

#define ES_ESF_SUFFIX ".esf"
#define ES_ESF_HEADER_BYTES 64
#define ES_ESF_FRAME_BYTES 56
#define ES_ESF_MOST (16 << 20) /* bytes of one payload */
#define ES_ESF_AGAIN_FIRST (1 << 17)
#define ES_ESF_AGAIN_MOST (1 << 20)
#define ES_ESF_BEAT_MS 5000 /* between two frames, at most */
#define ES_ESF_SILENT_MS                                                       \
    30000                       /* after so long without one a writer is dead  \
                                 */
#define ES_ESF_SETTLED_MS 60000 /* all hosts see what is older than this */

typedef struct es_esf_frame {
    uint32_t bytes;
    uint64_t sequence;
    int64_t time;
    uint32_t attempt, run;
    int64_t resume;
    bool closed;
    uint32_t crc; /* of the payload */
} es_esf_frame;

/** Makes the header of a file with this uuid. Returns the seed. */
uint32_t es_esf_header_write(unsigned char out[ES_ESF_HEADER_BYTES],
                             const char uuid[ES_UUID_SIZE]);

/** True and the seed, if it is a header of this version, whole. `*newer`: it is
 *  whole, but of a later version. */
bool es_esf_header_read(uint32_t *seed, bool *newer,
                        const unsigned char in[ES_ESF_HEADER_BYTES]);

void es_esf_frame_write(unsigned char out[ES_ESF_FRAME_BYTES],
                        const es_esf_frame *frame, uint32_t seed);

/** False: no frame of this file begins here, or its head is damaged. */
bool es_esf_frame_read(es_esf_frame *frame,
                       const unsigned char in[ES_ESF_FRAME_BYTES],
                       uint32_t seed);

uint32_t es_esf_checksum(uint32_t seed, const void *payload, size_t n);

/** The path ends in ".esf". */
bool es_esf_is_name(const char *path);

/** The time of day, ms since 1970. For tests: es_esf_shift_clock moves it for
 *  this process. */
int64_t es_esf_clock(void);
void es_esf_shift_clock(int64_t ms);

#endif
