/** Collects the fragments among the inputs of merge from all files, then joins
 *  them run by run. */
#ifndef ES_MERGE_FRAGMENTS_H
#define ES_MERGE_FRAGMENTS_H

#include "cli/output/output.h"
#include "store/merge.h"

typedef struct es_fragments es_fragments;

/** Results of a merge. */
typedef struct es_merged {
    size_t n_runs;       /* runs written */
    size_t n_failed;     /* files that could not be merged */
    size_t n_incomplete; /* joined runs that lack ranks, plus fragments that do
                            not fit or could not be read completely */
} es_merged;

/** Creates an empty collection. Returns ES_OK or ES_ENOMEM. */
es_status es_fragments_make(es_fragments **out) ES_MUST_USE;

/** Adds a run if it is a fragment; its reader must then stay open until
 *  es_fragments_free. Returns ES_OK; ES_DONE if the run is not a fragment;
 *  errors of es_fragment_read. */
es_status es_fragments_add(es_fragments *fragments, es_reader *reader,
                           size_t run) ES_MUST_USE;

/** Takes ownership of a reader whose fragments were added, also on failure.
 *  Returns `status`, or ES_ENOMEM. */
es_status es_fragments_keep(es_fragments *fragments, es_reader *reader,
                            es_status status) ES_MUST_USE;

/**
 * Joins the fragments, run by run. Fragments that do not fit together are
 * reported, counted and omitted.
 *
 *   handler  called for each joined run, with a reader of the output
 *   quiet    if true, gaps are not printed
 *   merged   the function adds its counts to these
 *
 * Returns ES_OK; otherwise a failure to write the output.
 */
es_status es_fragments_join(es_fragments *fragments, es_writer *writer,
                            const es_output *output, es_merge_handler *handler,
                            bool quiet, es_merged *merged) ES_MUST_USE;

/**
 * Checks whether a run of the file that will be replaced would be lost.
 *
 *   is_fragment  set to true if the run is a fragment
 *   lost         set to true if the run would be lost: it is a fragment that no
 *                joined run contains with at least as many samples; or it is a
 *                joined run that this merge joined anew without all its ranks
 *
 * Returns ES_OK; errors of es_fragment_read.
 */
es_status es_fragments_check(const es_fragments *fragments, es_reader *reader,
                             size_t run, bool *is_fragment,
                             bool *lost) ES_MUST_USE;

/** Closes the readers. fragments may be NULL. */
void es_fragments_free(es_fragments *fragments);

#endif
