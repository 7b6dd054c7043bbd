/**
 * Reads the descriptions of fragments, the run files of the ranks of one
 * distributed training run. Each is a separate run file with the uuid of the
 * whole run, and has in its configuration
 *
 *     "fragment": {"world": 4, "ranks": [1], "layer": 3, "head": 0}
 *
 * world: number of ranks; ranks: the ranks whose attention the file holds, in
 * order; layer, head: place of its first layer and head in the whole run.
 */
#ifndef ES_FRAGMENT_H
#define ES_FRAGMENT_H

#include "store/reader.h"

#define ES_MAX_RANKS (1 << 16)

typedef struct es_fragment {
    es_reader *reader; /* borrowed */
    size_t run;        /* index in the reader */
    es_run_info info;  /* strings borrowed from the reader */
    int64_t *ranks;    /* (n_ranks) ascending, below `world` */
    size_t n_ranks;    /* at least 1 */
    int64_t world;
    int64_t first_layer, first_head;
} es_fragment;

/**
 * Reads the description of a run as a fragment. Call es_fragment_free after
 * ES_OK.
 *
 * Returns ES_OK; ES_DONE: the run is not a fragment; ES_EFORMAT: the
 * description is invalid; ES_EARGUMENT; ES_EIO; ES_ENOMEM.
 */
es_status es_fragment_read(es_fragment *out, es_reader *reader,
                           size_t run) ES_MUST_USE;

/** Frees a fragment; a zeroed one is fine. */
void es_fragment_free(es_fragment *fragment);

#endif
