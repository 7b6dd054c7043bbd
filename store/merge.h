/** Many run files into one. */
#ifndef ES_MERGE_H
#define ES_MERGE_H

#include "store/reader.h"
#include "store/writer.h"

/** What else is to be written of a run that was copied, in the transaction of
 *  its copy: a failure undoes that, too. */
typedef es_status es_merge_handler(es_writer *writer, es_reader *reader,
                                   size_t run);

/**
 * Copies every run of `reader` with its series, samples and events, bit by
 * bit: uuid, times and status too. A run whose uuid is there already is
 * skipped and counted. A damaged sample is copied as missing values, with an
 * event of the kind "damaged"; what came without a checksum gets one of what
 * was read.
 *
 *   n_copied, n_skipped   added to
 *   handler               called for each run that was copied; NULL: none
 *
 * Each run is one transaction: at a failure the runs before it are there and
 * counted, and nothing of the one that failed.
 *
 * ES_OK; ES_EARGUMENT (within a transaction); what reading or writing says;
 * what the handler returned.
 */
es_status es_merge(es_writer *writer, es_reader *reader, size_t *n_copied,
                   size_t *n_skipped, es_merge_handler *handler) ES_MUST_USE;

/** The same of one run, by its index; `on_sample` is called with the bytes of
 *  each sample that was copied, NULL: nobody. */
es_status es_merge_run(es_writer *writer, es_reader *reader, size_t run,
                       size_t *n_copied, size_t *n_skipped,
                       es_merge_handler *handler,
                       void (*on_sample)(size_t n_bytes)) ES_MUST_USE;

/** Whether the reader's fragment has frames that cannot be read yet, as one
 *  before them is damaged or not seen by this host (esf.h): what was copied is
 *  not all of it. False of a run file. */
bool es_merge_is_behind(const es_reader *reader);

/** A reader of what the writer has committed to its file by now. Close it
 *  before the writer. Returns as es_reader_open. */
es_status es_merge_open(es_reader **out, const es_writer *writer) ES_MUST_USE;

#endif
