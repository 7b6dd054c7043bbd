/** Writes, changes and checks fragment files for tests. Include cmocka.h before
 *  this header. */
#ifndef ES_TESTS_ESF_FILES_H
#define ES_TESTS_ESF_FILES_H

#include "store/esf.h"
#include "store/reader.h"
#include "store/writer.h"

#define ES_ESF_UUID "0f0e0d0c-0b0a-4908-8706-050403020100"
/* number of layers in the runs that es_esf_begin adds */
#define ES_ESF_LAYERS 2
#define ES_ESF_PER_LAYER 3
#define ES_ESF_CELLS (ES_ESF_LAYERS * ES_ESF_PER_LAYER)

/** Opens a fragment, and adds a run to it or resumes the run at step `resume`.
 *  Series 1 of the run is "entropy". */
es_writer *es_esf_begin(const char *path, int64_t resume, int64_t *run);

/** Writes the samples of "entropy" at the steps from..to-1 as one transaction.
 *  The values are those of es_value_of for series 1. */
void es_esf_commit(es_writer *writer, int64_t from, int64_t to);

/** Writes a finished run of n_commits transactions with two steps each. */
void es_esf_write(const char *path, int n_commits);

/**
 * Fails unless every sample of "entropy" has the right values for its step. If
 * `may_miss` is true, all values of a sample may be missing instead. Returns
 * the number of samples, and sets *gap to the first step without a sample.
 */
int64_t es_esf_check(es_reader *reader, bool may_miss, int64_t *gap);

/** Same as es_esf_check, but for a path. Returns -1 if the file is refused. */
int64_t es_esf_check_file(const char *path, bool may_miss, int64_t *gap);

/** Finds frame i in a file's bytes (n) and reads the frame's header. Returns
 *  the frame's offset; fails the test if the frame does not exist. */
size_t es_esf_find(es_esf_frame *frame, uint32_t *seed,
                   const unsigned char *bytes, size_t n, int i);

/** Rewrites the header of the frame at offset `place` with the checksum of the
 *  frame's current payload. */
void es_esf_seal(unsigned char *bytes, size_t place, es_esf_frame *frame,
                 uint32_t seed);

/** Sets the clock of this process to `ms` milliseconds after the time at which
 *  the file's first frame was written. */
void es_esf_clock_after(const unsigned char *bytes, size_t n, int64_t ms);

/** Changes the first frame of the file, so that the writer seems to run on
 *  another machine. */
void es_esf_move_abroad(const char *path);

#endif
