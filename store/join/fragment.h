/**
 * Reads the descriptions of fragments, which are the run files of the ranks of
 * one distributed training run. Each fragment is a separate run file with the
 * uuid of the whole run, and its configuration contains
 *
 *     "fragment": {"world": 4, "ranks": [1], "layer": 3, "head": 0}
 *
 * where "world" is the number of ranks, "ranks" lists the ranks whose attention
 * the file contains, in ascending order, and "layer" and "head" are the indices
 * of its first layer and head in the whole run.
 */
#ifndef ES_FRAGMENT_H
#define ES_FRAGMENT_H

#include "store/reader.h"

#define ES_MAX_RANKS (1 << 16)

typedef struct es_fragment {
    es_reader *reader; /* borrowed */
    size_t run;        /* index of the run in the reader */
    es_run_info info;  /* strings borrowed from the reader */
    int64_t *ranks;    /* the n_ranks rank numbers in ascending order, all below
                          `world` */
    size_t n_ranks;    /* at least 1 */
    int64_t world;
    int64_t first_layer, first_head;
} es_fragment;

/**
 * Reads the member "fragment" of a run's configuration. After ES_OK the caller
 * must call es_fragment_free.
 *
 * Returns ES_OK, ES_EARGUMENT, ES_EIO or ES_ENOMEM. Returns ES_DONE if the run
 * is not a fragment, and ES_EFORMAT if the description is invalid.
 */
es_status es_fragment_read(es_fragment *out, es_reader *reader,
                           size_t run) ES_MUST_USE;

/** Frees the members of a fragment. Does nothing if *fragment is all zeros. */
void es_fragment_free(es_fragment *fragment);

#endif
