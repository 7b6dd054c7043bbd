/**
 * Reads fragment files (esf.h). The records of a fragment are replayed, call by
 * call, into a private database with the tables of a run file, which no other
 * connection sees. The values of samples stay in the fragment and are read on
 * request: memory grows with the number of samples (16 bytes each,
 * esf_index.h), not with the number of their values.
 */
#ifndef ES_ESF_IN_H
#define ES_ESF_IN_H

#include "store/esf.h"
#include "store/esf_out.h"
#include "store/store_internal.h"

/**
 * Creates the private database for a fragment whose path `database` holds, sets
 * the handle of `database` to it, and loads the contents of the file.
 *
 *   is_new  the file does not exist or is empty: the tables are empty
 *
 * Returns ES_OK; ES_EFORMAT (not a fragment, its header or first frame is
 * damaged, or it has an invalid record); ES_EVERSION; ES_EIO; ES_ENOMEM.
 */
es_status es_esf_open(es_esf **out, es_database *database,
                      bool is_new) ES_MUST_USE;

/**
 * Loads the data that was appended since the last call, or everything again if
 * the file was replaced, truncated or changed. On failure the tables are
 * unchanged. Same statuses as es_esf_open.
 */
es_status es_esf_refresh(es_esf *esf) ES_MUST_USE;

/** Damaged frames of a run, followed by complete frames. */
typedef struct es_esf_loss {
    int64_t run_id, step; /* `step`: highest step before the damaged frames */
    uint64_t n_frames;
} es_esf_loss;

/** Returns the n losses in the order of the file; borrowed until the next
 *  refresh. */
const es_esf_loss *es_esf_losses(const es_esf *esf, size_t *n);

/** Returns true if complete frames have not been read yet, because a frame
 * before them is missing and they are newer than ES_ESF_SETTLED_MS. */
bool es_esf_is_behind(const es_esf *esf);

/**
 * Closes the fragment; call it before the database is disconnected. The tables
 * stay in the database, but all samples then read as missing. NULL is fine.
 */
void es_esf_close(es_esf *esf);

/**
 * Finds the place at which a writer appends. Returns ES_OK; ES_EFORMAT: the
 * file is damaged; ES_ELOCKED: a process of another host was alive less than
 * ES_ESF_SILENT_MS ago.
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
