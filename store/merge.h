/** Many run files into one. */
#ifndef ES_MERGE_H
#define ES_MERGE_H

#include "store/reader.h"
#include "store/writer.h"

/**
 * Copies every run of `reader` with its series, samples and events, bit by
 * bit: uuid, times and status too. A run whose uuid is there already is
 * skipped and counted. A damaged sample is copied as missing values, with an
 * event of the kind "damaged"; what came without a checksum gets one of what
 * was read.
 *
 *   n_copied, n_skipped   added to
 *
 * Each run is one transaction: at a failure the runs before it are there and
 * counted, and nothing of the one that failed.
 *
 * ES_OK; ES_EARGUMENT (within a transaction); what reading or writing says.
 */
ES_API es_status es_merge(es_writer *writer, es_reader *reader,
                          size_t *n_copied, size_t *n_skipped) ES_MUST_USE;

#endif
