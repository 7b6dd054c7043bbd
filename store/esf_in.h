/**
 * Reads fragment files (esf.h). The records of a fragment, each of which is a
 * call of writer.h, are replayed into a private database with the tables of a
 * run file; no other connection can open this database. The values of samples
 * stay in the fragment and are read on request. Memory therefore grows with the
 * number of samples (16 bytes each, esf_index.h), not with the number of their
 * values.
 */
#ifndef ES_ESF_IN_H
#define ES_ESF_IN_H

#include "store/esf.h"
#include "store/esf_out.h"
#include "store/source.h"

typedef struct es_esf es_esf;

/** Returns the open fragment from which a source reads, or NULL if the source
 *  is not a fragment. */
es_esf *es_esf_of(const es_run_source *source);

/**
 * Creates the private in-memory database of the fragment whose path is in
 * `database`, sets the handle of `database` to it, and loads the contents of
 * the file.
 *
 *   is_new  true if the file does not exist or is empty; the tables are then
 *           empty
 *
 * Returns ES_OK; ES_EFORMAT (not a fragment, its header or first frame is
 * damaged, or it has an invalid record); ES_EVERSION; ES_EIO; ES_ENOMEM.
 */
es_status es_esf_open(es_esf **out, es_database *database,
                      bool is_new) ES_MUST_USE;

/**
 * Loads the data that was appended since the last call, or the whole file if it
 * was replaced, truncated or changed. On failure the tables are unchanged.
 * Returns the same statuses as es_esf_open.
 */
es_status es_esf_refresh(es_esf *esf) ES_MUST_USE;

/**
 * Closes the fragment. Must be called before the database is disconnected. The
 * tables stay in the database, but all samples are then read as missing. `esf`
 * may be NULL.
 */
void es_esf_close(es_esf *esf);

/**
 * Finds the offset at which a writer can append. Returns ES_OK; ES_EFORMAT if
 * the file is damaged; ES_ELOCKED if a process of another host was writing the
 * file less than ES_ESF_SILENT_MS ago.
 */
es_status es_esf_find_end(const es_esf *esf, es_esf_place *out) ES_MUST_USE;

/**
 * Sets *out to true if the fragment's writer is active. A writer that has
 * closed the file is not active. If the writer runs on this machine and the
 * file system is local, it is active while it holds the lock. Otherwise it is
 * active if it holds the lock, or if its last frame is at most ES_ESF_SILENT_MS
 * old by the clocks of both machines. Returns ES_OK, ES_EIO, ES_ENOMEM.
 */
es_status es_esf_is_written(const es_esf *esf, bool *out) ES_MUST_USE;

#endif
