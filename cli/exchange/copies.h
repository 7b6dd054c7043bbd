/** Detects copies of the same run in several files, chooses the copy that merge
 *  keeps, and compares copies. */
#ifndef ES_COPIES_H
#define ES_COPIES_H

#include "store/reader.h"

typedef struct es_copies es_copies;

/**
 * Finds copies and chooses which one to keep. Copies are runs with the same
 * uuid that are not fragments (store/join/fragment.h). The copy with the most
 * readable samples is chosen. If several copies have equally many, the first of
 * these is chosen.
 *
 *   paths  (n) files; unreadable files are skipped
 *
 * Reads only the samples of runs that have copies. Returns ES_OK or ES_ENOMEM.
 */
es_status es_copies_find(es_copies **out, char *const *paths,
                         size_t n) ES_MUST_USE;

/** Returns true if the run with index `run` in the file with index `path` is
 *  omitted because another copy was chosen; false if the run was added after
 *  es_copies_find. */
bool es_copies_leave_out(const es_copies *copies, size_t path, size_t run);

void es_copies_free(es_copies *copies); /* copies may be NULL */

/** The runs of a file, indexed by uuid. */
typedef struct es_run_index es_run_index;

/** Indexes the current runs of a reader. Returns ES_OK or ES_ENOMEM. */
es_status es_run_index_make(es_run_index **out, es_reader *reader) ES_MUST_USE;

/** Sets *run to the index of the run with this uuid. Returns false if the
 *  indexed file has no such run. */
bool es_run_index_find(size_t *run, const es_run_index *index,
                       const char *uuid);

void es_run_index_free(es_run_index *index); /* index may be NULL */

/** Compares two copies of a run. Sets *out to true if `run` of `reader` has
 *  more readable samples than `other_run` of `other`. Samples that contain only
 *  missing values are not counted. Returns the same statuses as
 *  es_cursor_next. */
es_status es_copy_has_more(bool *out, es_reader *reader, size_t run,
                           es_reader *other, size_t other_run) ES_MUST_USE;

/** Compares two copies of a run. Sets *out to true if a series of `run` in
 *  `reader` has steps after the last step of that series in `other_run` of
 *  `other`, or if `other_run` lacks the series. Returns the same statuses as
 *  es_reader_series. */
es_status es_copy_goes_on(bool *out, es_reader *reader, size_t run,
                          es_reader *other, size_t other_run) ES_MUST_USE;

#endif
