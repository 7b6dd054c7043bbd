/**
 * Gives access to the samples of a fragment: an index in memory contains their
 * steps and their offsets in the file (16 bytes per sample), and the virtual
 * table `sample` of the fragment's private in-memory database reads their
 * values from the file on request.
 */
#ifndef ES_ESF_INDEX_H
#define ES_ESF_INDEX_H

#include "store/store_internal.h"

typedef struct es_esf_index es_esf_index;

/**
 * Creates an empty index and the table `sample` in a connection that has no
 * table of this name. The index lives as long as the connection. Returns ES_OK,
 * ES_ENOMEM, ES_EIO.
 */
es_status es_esf_index_make(es_esf_index **out,
                            const es_database *database) ES_MUST_USE;

/**
 * Sets the descriptor of the file from which values are read; the descriptor is
 * borrowed. With -1 all samples are read as damaged.
 */
void es_esf_index_set_file(es_esf_index *index, int fd);

/**
 * Adds a series of the fragment, with its number in the private (in-memory)
 * database (from 1 on), its run, and the size of a sample in bytes. A series
 * may be added again. Returns ES_OK, ES_ENOMEM.
 */
es_status es_esf_index_add_series(es_esf_index *index, int64_t series_id,
                                  int64_t run_id, uint32_t bytes) ES_MUST_USE;

/**
 * Adds a sample. If the series already has a sample at this step, replaces it.
 * Changes of the index form a transaction as in SQLite; es_esf_index_commit or
 * es_esf_index_roll_back ends it.
 *
 *   place  offset of the sample's values in the file, where an es_esf_sample
 *          precedes them
 *
 * Returns ES_OK, ES_ENOMEM.
 */
es_status es_esf_index_put(es_esf_index *index, int64_t series_id, int64_t step,
                           int64_t place) ES_MUST_USE;
/**
 * Removes a run's samples at `step` and above. Does nothing if `index` is NULL,
 * as for a run file.
 */
es_status es_esf_index_cut(es_esf_index *index, int64_t run_id,
                           int64_t step) ES_MUST_USE;
/** Removes all samples and all series. */
void es_esf_index_clear(es_esf_index *index);

/** Ends the transaction. Does nothing if `index` is NULL, as for a run file. */
void es_esf_index_commit(es_esf_index *index);
void es_esf_index_roll_back(es_esf_index *index);

#endif
