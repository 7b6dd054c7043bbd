/** Declares the index of a fragment's samples for esf_index.c and esf_table.c.
 */
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
    uint32_t bytes;     /* size of a sample's values in bytes */
    es_esf_item *items; /* n entries, in order of step unless `mixed` is true */
    size_t n, capacity;
    bool mixed; /* true if steps are out of order or occur more than once */
    size_t n_committed; /* number of committed items, which are not changed
                           unless is_saved */
    es_esf_item *saved; /* copy of the n_committed committed items if
                           is_saved */
    bool is_saved;
} es_esf_lane;

struct es_esf_index {
    es_esf_lane *lanes; /* samples of n_lanes series; a series is at index
                           series_id - 1 */
    size_t n_lanes;
    es_esf_lane *past; /* if is_cleared, the n_past elements that `lanes` had
                          before es_esf_index_clear, kept for a rollback */
    size_t n_past;
    bool is_cleared;
    uint64_t generation; /* changes whenever indices of items in `lanes` become
                            invalid */
    es_esf_pieces pieces;
};

/** Sorts the samples of a series by step if necessary. Returns ES_OK,
 *  ES_ENOMEM. */
es_status es_esf_lane_settle(es_esf_lane *lane) ES_MUST_USE;

/**
 * Returns the index of the first of a series' samples at `step` or later.
 * es_esf_lane_settle must have sorted the samples.
 */
size_t es_esf_lane_find(const es_esf_lane *lane, int64_t step);

/* --- esf_table.c ---------------------------------------------------------- */

/**
 * Implements the virtual table `sample`, which exists without a CREATE
 * statement. The module's user data is the es_esf_index.
 */
extern const sqlite3_module es_esf_sample_module;

#endif
