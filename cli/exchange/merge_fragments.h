/** Collects the fragments in the inputs of merge, then joins them run by run. A
 *  fragment is the part of a run that one rank of distributed training
 *  recorded. */
#ifndef ES_MERGE_FRAGMENTS_H
#define ES_MERGE_FRAGMENTS_H

#include "cli/output/output.h"
#include "store/merge.h"

typedef struct es_fragments es_fragments;

/** Results of a merge. */
typedef struct es_merged {
    size_t n_runs;       /* runs written */
    size_t n_failed;     /* number of files that could not be merged */
    size_t n_incomplete; /* number of joined runs that lack ranks, plus number
                            of fragments that do not match the others or could
                            not be read completely */
} es_merged;

/** Creates an empty collection. Returns ES_OK or ES_ENOMEM. */
es_status es_fragments_make(es_fragments **out) ES_MUST_USE;

/** Adds a run if it is a fragment; its reader must then stay open until
 *  es_fragments_free. Returns ES_OK; ES_DONE if the run is not a fragment;
 *  errors of es_fragment_read. */
es_status es_fragments_add(es_fragments *fragments, es_reader *reader,
                           size_t run) ES_MUST_USE;

/**
 * Takes ownership of a reader whose fragments were added, even on failure, and
 * closes the reader in es_fragments_free. Returns `status`, or ES_ENOMEM.
 */
es_status es_fragments_keep(es_fragments *fragments, es_reader *reader,
                            es_status status) ES_MUST_USE;

/**
 * Joins the fragments, run by run. Fragments that do not fit together are
 * reported, counted and omitted.
 *
 *   handler  called for each joined run, with a reader of the output
 *   quiet    if true, steps that some ranks lack are not reported
 *   merged   counts of the merge so far, which the function increases
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
 *   lost         set to true if the run would be lost: either the run is a
 *                fragment, and no joined run contains this fragment with at
 *                least as many samples; or the run is a joined run, and this
 *                merge joined the run again without some of its ranks
 *
 * Returns ES_OK; errors of es_fragment_read.
 */
es_status es_fragments_check(const es_fragments *fragments, es_reader *reader,
                             size_t run, bool *is_fragment,
                             bool *lost) ES_MUST_USE;

/** Closes the readers. fragments may be NULL. */
void es_fragments_free(es_fragments *fragments);

#endif
