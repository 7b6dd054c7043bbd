/**
 * Fragments: the run files of the ranks of one distributed training. Each is a
 * run file of its own with the uuid of the whole run, whose configuration has
 *
 *     "fragment": {"world": 4, "ranks": [1], "layer": 3, "head": 0}
 *
 * world: number of ranks; ranks: those whose attention is in it, in order;
 * layer, head: which of the whole run its first ones are.
 */
#ifndef ES_FRAGMENT_H
#define ES_FRAGMENT_H

#include "store/reader.h"

#define ES_MAX_RANKS (1 << 16)

typedef struct es_fragment {
    es_reader *reader; /* borrowed */
    size_t run;        /* index in it */
    es_run_info info;  /* strings borrowed from the reader */
    int64_t *ranks;    /* (n_ranks), rising, below `world` */
    size_t n_ranks;    /* at least 1 */
    int64_t world;
    int64_t first_layer, first_head;
} es_fragment;

/**
 * What a run says of itself as a fragment. es_fragment_free it after ES_OK.
 *
 * ES_OK; ES_DONE: the run is no fragment; ES_EFORMAT: it says what cannot be;
 * ES_EARGUMENT; ES_EIO; ES_ENOMEM.
 */
es_status es_fragment_read(es_fragment *out, es_reader *reader,
                           size_t run) ES_MUST_USE;

/** Zeroed is fine. */
void es_fragment_free(es_fragment *fragment);

#endif
