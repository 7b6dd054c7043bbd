/** Copies of one run: which of them merge takes, and what one has that another
 *  lacks. */
#ifndef ES_COPIES_H
#define ES_COPIES_H

#include "store/reader.h"

typedef struct es_copies es_copies;

/**
 * Looks through the runs of all files for copies, runs of the same uuid that
 * are no fragments (store/join/fragment.h), and chooses of each run the one of
 * which the most samples can be read; of several like that the first.
 *
 *   paths  (n) one that cannot be read is passed over
 *
 * Only copies are read, all of each. ES_OK; ES_ENOMEM.
 */
es_status es_copies_find(es_copies **out, char *const *paths,
                         size_t n) ES_MUST_USE;

/** Whether run `run` of file `path` (indices) is left out for another copy.
 *  False of one that was not there yet. */
bool es_copies_leave_out(const es_copies *copies, size_t path, size_t run);

void es_copies_free(es_copies *copies); /* NULL is fine */

/** The runs of a file by their uuid. */
typedef struct es_run_index es_run_index;

/** Of the runs that the reader has now. ES_OK, ES_ENOMEM. */
es_status es_run_index_make(es_run_index **out, es_reader *reader) ES_MUST_USE;

/** False: the reader has no such run. */
bool es_run_index_find(size_t *run, const es_run_index *index,
                       const char *uuid);

void es_run_index_free(es_run_index *index); /* NULL is fine */

/** Whether more samples can be read of a run than of another. A sample of
 *  missing values alone counts for nothing. As es_cursor_next. */
es_status es_copy_has_more(bool *out, es_reader *reader, size_t run,
                           es_reader *other, size_t other_run) ES_MUST_USE;

/** Whether a series of a run goes on after the last step of the same series of
 *  the other run, or that lacks it. As es_reader_series. */
es_status es_copy_goes_on(bool *out, es_reader *reader, size_t run,
                          es_reader *other, size_t other_run) ES_MUST_USE;

#endif
