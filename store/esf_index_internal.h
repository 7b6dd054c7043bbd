/** The index of a fragment's samples, for esf_index.c and esf_table.c. */
#ifndef ES_ESF_INDEX_INTERNAL_H
#define ES_ESF_INDEX_INTERNAL_H

#include "store/esf_index.h"
#include "store/esf_pieces.h"

typedef struct es_esf_item {
    int64_t step, place;
} es_esf_item;

/** The samples of a series. */
typedef struct es_esf_lane {
    int64_t run_id;
    uint32_t bytes;     /* of a sample */
    es_esf_item *items; /* (n) by step, unless they are mixed */
    size_t n, capacity;
    bool mixed;         /* there are steps out of order, or one twice */
    size_t n_committed; /* these were, and are unchanged unless `saved` is */
    es_esf_item *saved; /* (n_committed) if is_saved: what they were */
    bool is_saved;
} es_esf_lane;

struct es_esf_index {
    es_esf_lane *lanes; /* (n_lanes) by series_id - 1 */
    size_t n_lanes;
    es_esf_lane *past; /* (n_past) before es_esf_index_clear, if is_cleared */
    size_t n_past;
    bool is_cleared;
    uint64_t generation; /* positions are of it */
    es_esf_pieces pieces;
};

/** Puts the items in order. ES_OK, ES_ENOMEM. */
es_status es_esf_lane_settle(es_esf_lane *lane) ES_MUST_USE;

/** Index of the first item of a settled lane at this step or above. */
size_t es_esf_lane_find(const es_esf_lane *lane, int64_t step);

/* --- esf_table.c ---------------------------------------------------------- */

/** `sample`, there without a CREATE; its user is the index. */
extern const sqlite3_module es_esf_sample_module;

#endif
