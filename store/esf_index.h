/**
 * The samples of a fragment: which there are and where in the file each lies,
 * in memory (16 bytes each), and the virtual table `sample` of its private
 * database, whose values are read out of the file when they are requested.
 */
#ifndef ES_ESF_INDEX_H
#define ES_ESF_INDEX_H

#include "store/store_internal.h"

typedef struct es_esf_index es_esf_index;

/** Makes the index, empty, and the table in a connection that has none of this
 *  name. The index lives as long as the connection. ES_OK, ES_ENOMEM, ES_EIO.
 */
es_status es_esf_index_make(es_esf_index **out,
                            const es_database *database) ES_MUST_USE;

/** The file that values are read from, anew; borrowed. -1: none, all samples
 *  read as damaged. */
void es_esf_index_set_file(es_esf_index *index, int fd);

/** A series of the private database, numbered from 1 on, and of a run there;
 *  `bytes` of a sample. That it is there already is fine. ES_OK, ES_ENOMEM. */
es_status es_esf_index_add_series(es_esf_index *index, int64_t series_id,
                                  int64_t run_id, uint32_t bytes) ES_MUST_USE;

/**
 * What changes the index, all of it or nothing, like a transaction of SQLite:
 * es_esf_index_commit or es_esf_index_roll_back ends it. A sample takes the
 * place of an earlier one of its step.
 *
 *   place  of the values in the file; es_esf_sample lies before them
 *
 * ES_OK, ES_ENOMEM.
 */
es_status es_esf_index_put(es_esf_index *index, int64_t series_id, int64_t step,
                           int64_t place) ES_MUST_USE;
/** Forgets what a run has at this step and above. NULL, of a run file, has
 *  nothing. */
es_status es_esf_index_cut(es_esf_index *index, int64_t run_id,
                           int64_t step) ES_MUST_USE;
/** Forgets everything, series too. */
void es_esf_index_clear(es_esf_index *index);

/** NULL, of a run file, is fine. */
void es_esf_index_commit(es_esf_index *index);
void es_esf_index_roll_back(es_esf_index *index);

#endif
