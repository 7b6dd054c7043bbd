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
    uint32_t bytes;     /* size of a sample */
    es_esf_item *items; /* (n) in order of step, unless `mixed` */
    size_t n, capacity;
    bool mixed; /* some steps are out of order or occur twice */
    size_t
        n_committed; /* number of committed items, unchanged unless is_saved */
    es_esf_item *saved; /* (n_committed) if is_saved: the committed items */
    bool is_saved;
} es_esf_lane;

struct es_esf_index {
    es_esf_lane *lanes; /* (n_lanes) by series_id - 1 */
    size_t n_lanes;
    es_esf_lane
        *past; /* (n_past) if is_cleared: the lanes before es_esf_index_clear */
    size_t n_past;
    bool is_cleared;
    uint64_t
        generation; /* changes whenever positions in lanes become invalid */
    es_esf_pieces pieces;
};

/** Sorts the items. ES_OK, ES_ENOMEM. */
es_status es_esf_lane_settle(es_esf_lane *lane) ES_MUST_USE;

/** Returns the index of the first item of a settled lane at this step or
 *  above. */
size_t es_esf_lane_find(const es_esf_lane *lane, int64_t step);

/* --- esf_table.c ---------------------------------------------------------- */

/** The table `sample`, which exists without a CREATE; its user data is the
 *  index. */
extern const sqlite3_module es_esf_sample_module;

#endif
