/** Copies the runs of many files into one. */
#ifndef ES_MERGE_H
#define ES_MERGE_H

#include "store/reader.h"
#include "store/writer.h"

/** Writes additional data for a copied run, within the transaction of the copy,
 *  so that a failure also undoes the copy. */
typedef es_status es_merge_handler(es_writer *writer, es_reader *reader,
                                   size_t run);

/**
 * Copies every run of `reader` with its series, samples and events, bit by bit,
 * including uuid, times and status. A run whose uuid is already in the target
 * is skipped and counted. A damaged sample is copied as missing values, with an
 * event of the kind "damaged"; for a sample without a checksum, one is computed
 * from the values.
 *
 *   n_copied, n_skipped   incremented
 *   handler               called for each copied run; may be NULL
 *
 * Each run is one transaction: after a failure, the earlier runs are in the
 * target and counted, and nothing of the failed run is.
 *
 * Returns ES_OK; ES_EARGUMENT (called within a transaction); the errors of
 * reading and writing; the handler's return value.
 */
es_status es_merge(es_writer *writer, es_reader *reader, size_t *n_copied,
                   size_t *n_skipped, es_merge_handler *handler) ES_MUST_USE;

/** Copies the run with index `run` in the same way as es_merge. `on_sample`, if
 * not NULL, is called with the size of each copied sample. */
es_status es_merge_run(es_writer *writer, es_reader *reader, size_t run,
                       size_t *n_copied, size_t *n_skipped,
                       es_merge_handler *handler,
                       void (*on_sample)(size_t n_bytes)) ES_MUST_USE;

/**
 * Returns true if the reader's fragment has frames that cannot be read yet,
 * because a frame before them is damaged or not visible to this host (esf.h). A
 * copy is then incomplete. Returns false for a run file.
 */
bool es_merge_is_behind(const es_reader *reader);

/** Opens a reader of the data that the writer has committed so far. Close the
 * reader before the writer. Same statuses as es_reader_open. */
es_status es_merge_open(es_reader **out, const es_writer *writer) ES_MUST_USE;

#endif
