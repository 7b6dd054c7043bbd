/** Copies the runs of many files into one file. */
#ifndef ES_MERGE_H
#define ES_MERGE_H

#include "store/reader.h"
#include "store/writer.h"

/**
 * Writes additional data for a copied run. Called within the transaction of the
 * copy, so that the run is not copied if the handler fails.
 */
typedef es_status es_merge_handler(es_writer *writer, es_reader *reader,
                                   size_t run);

/**
 * Copies every run of `reader` with its series, samples and events, bit for
 * bit, including uuid, times and status, to the file of `writer`. A run whose
 * uuid is already in this file is skipped and counted. A damaged sample is
 * copied as missing values, with an event of the kind "damaged". If a sample
 * has no checksum, a checksum is computed from its values.
 *
 *   n_copied, n_skipped   incremented
 *   handler               called for each copied run; may be NULL
 *
 * Each run is copied in one transaction. After a failure, the runs before the
 * failed run have been copied and counted, and no part of the failed run has
 * been copied.
 *
 * Returns ES_OK, ES_EARGUMENT if called within a transaction, the errors of
 * reading and writing, or the handler's return value.
 */
es_status es_merge(es_writer *writer, es_reader *reader, size_t *n_copied,
                   size_t *n_skipped, es_merge_handler *handler) ES_MUST_USE;

/**
 * Copies only the run with index `run`, in the same way as es_merge.
 * `on_sample`, if not NULL, is called with the size of each copied sample in
 * bytes.
 */
es_status es_merge_run(es_writer *writer, es_reader *reader, size_t run,
                       size_t *n_copied, size_t *n_skipped,
                       es_merge_handler *handler,
                       void (*on_sample)(size_t n_bytes)) ES_MUST_USE;

/**
 * Returns true if the reader's fragment has frames that cannot be read yet
 * because an earlier frame is damaged or not visible to this host (esf.h). A
 * copy is then incomplete. Returns false for a run file.
 */
bool es_merge_is_behind(const es_reader *reader);

/**
 * Opens a reader of the data that the writer has committed so far. The reader
 * must be closed before the writer. Returns the same statuses as
 * es_reader_open.
 */
es_status es_merge_open(es_reader **out, const es_writer *writer) ES_MUST_USE;

#endif
