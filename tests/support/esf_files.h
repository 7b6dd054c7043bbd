/** Fragment files for tests. Include cmocka first. */
#ifndef ES_TESTS_ESF_FILES_H
#define ES_TESTS_ESF_FILES_H

#include "store/esf.h"
#include "store/reader.h"
#include "store/writer.h"

#define ES_ESF_UUID "0f0e0d0c-0b0a-4908-8706-050403020100"
#define ES_ESF_LAYERS 2 /* of the run */
#define ES_ESF_PER_LAYER 3
#define ES_ESF_CELLS (ES_ESF_LAYERS * ES_ESF_PER_LAYER)

/** Opens a fragment and its run, from a step on; series 1 is "entropy". */
es_writer *es_esf_begin(const char *path, int64_t resume, int64_t *run);

/** Commits the samples of entropy from one step to before another, es_value_of
 *  series 1, as one transaction. */
void es_esf_commit(es_writer *writer, int64_t from, int64_t to);

/** A run of n_commits transactions of two steps each, finished. */
void es_esf_write(const char *path, int n_commits);

/** Fails unless every sample of entropy is the right one at its step, or where
 *  `may_miss` missing as a whole. Returns how many there are, and the first
 *  step that is not there. */
int64_t es_esf_check(es_reader *reader, bool may_miss, int64_t *gap);

/** The same of a file; -1: it is refused, or has no run. */
int64_t es_esf_check_file(const char *path, bool may_miss, int64_t *gap);

/** Offset of frame i of a file's bytes (n), and what its head says. Fails if
 *  there is none. */
size_t es_esf_find(es_esf_frame *frame, uint32_t *seed,
                   const unsigned char *bytes, size_t n, int i);

/** Writes a head, and the payload's checksum, anew. */
void es_esf_seal(unsigned char *bytes, size_t place, es_esf_frame *frame,
                 uint32_t seed);

/** Sets the clock to so many ms after the file's first frame was written,
 * however long ago that was. */
void es_esf_clock_after(const unsigned char *bytes, size_t n, int64_t ms);

/** Makes the writer of its first frame one of another machine. */
void es_esf_move_abroad(const char *path);

#endif
