/** The fragments among the inputs of merge: collected from all files, then
 *  joined run by run. */
#ifndef ES_MERGE_FRAGMENTS_H
#define ES_MERGE_FRAGMENTS_H

#include "cli/output/output.h"
#include "store/merge.h"

typedef struct es_fragments es_fragments;

/** What a merge has done. */
typedef struct es_merged {
    size_t n_runs;       /* written */
    size_t n_failed;     /* files that could not be merged */
    size_t n_incomplete; /* joined runs that lack ranks, or do not fit, and
                            fragments that are not whole */
} es_merged;

/** ES_OK, ES_ENOMEM. */
es_status es_fragments_make(es_fragments **out) ES_MUST_USE;

/** Adds a run if it is a fragment; the reader stays open then, until
 *  es_fragments_free. ES_OK; ES_DONE: it is none; as es_fragment_read. */
es_status es_fragments_add(es_fragments *fragments, es_reader *reader,
                           size_t run) ES_MUST_USE;

/** Owns the reader of fragments from now on, also at a failure. Returns
 *  `status`, or ES_ENOMEM. */
es_status es_fragments_keep(es_fragments *fragments, es_reader *reader,
                            es_status status) ES_MUST_USE;

/**
 * Joins them, run by run. Fragments that do not fit are reported, counted, and
 * left out.
 *
 *   handler  for each run that was joined, with a reader of the output
 *   quiet    gaps are not printed
 *   merged   added to
 *
 * ES_OK; what stops the writing of the output.
 */
es_status es_fragments_join(es_fragments *fragments, es_writer *writer,
                            const es_output *output, es_merge_handler *handler,
                            bool quiet, es_merged *merged) ES_MUST_USE;

/**
 * Of a run of the file that is to be replaced.
 *
 *   is_fragment  written
 *   lost         written: a fragment that is in no joined run, or with fewer
 *                samples, or a run that was joined anew, but without all its
 *                ranks
 *
 * ES_OK; as es_fragment_read.
 */
es_status es_fragments_check(const es_fragments *fragments, es_reader *reader,
                             size_t run, bool *is_fragment,
                             bool *lost) ES_MUST_USE;

/** Closes the readers. NULL is fine. */
void es_fragments_free(es_fragments *fragments);

#endif
