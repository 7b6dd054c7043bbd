/** The inside of joining, for join*.c. */
#ifndef ES_JOIN_INTERNAL_H
#define ES_JOIN_INTERNAL_H

#include "store/join/join.h"

/** How the values that several fragments have of one cell become one. */
typedef enum es_join_rule {
    ES_JOIN_MEAN_OF_ROWS, /* weighted by finite_rows */
    ES_JOIN_LOWEST,
    ES_JOIN_HIGHEST,
    ES_JOIN_SUM,
    ES_JOIN_MEAN,
    ES_JOIN_SAME /* no rule: the value that all have */
} es_join_rule;

es_join_rule es_join_rule_of(const char *series, es_shape shape);

/** One value of the whole run while fragments add theirs. Zeroed first. */
typedef struct es_join_cell {
    double sum, weight; /* of extremes: the extreme, 0 */
    float first;
    uint32_t n;        /* that are not missing */
    bool has_no_value; /* rows of a value are unknown, or values differ */
} es_join_cell;

/** Adds a value; a missing one changes nothing. rows: its finite rows; below 0
 *  if that is not known; of ES_JOIN_MEAN_OF_ROWS alone. */
void es_join_add(es_join_cell *cell, es_join_rule rule, float value,
                 double rows);

/** What the cell holds: bit by bit the value, if one was added; missing if none
 *  was, or *has_no_rule is set. */
float es_join_value(const es_join_cell *cell, es_join_rule rule,
                    bool *has_no_rule);

/** finite_rows of a fragment at a step. */
typedef struct es_join_rows {
    float *values; /* (L,H of the fragment) or NULL */
    int64_t step;  /* -1: of none so far */
    bool is_there;
} es_join_rows;

/** Steps at which others have attention and a fragment has none. */
typedef struct es_join_gap {
    bool has_attention; /* at the present step */
    int64_t n, first, last;
} es_join_gap;

/** A fragment while its samples stream by. */
typedef struct es_join_part {
    const es_fragment *fragment;
    bool has_replica; /* another one holds the same heads */
    es_cursor *cursor;
    bool is_over; /* the cursor is at its end; else its next sample is: */
    int64_t step;
    const float *values; /* (series.n_values) */
    es_series series;
    es_join_rows rows[2]; /* by phase */
    es_join_gap gaps[2];
} es_join_part;

/** A series of the joined run. */
typedef struct es_join_series {
    const char *name; /* borrowed from a reader */
    es_phase phase;
    es_shape shape;
    es_join_rule rule;
    int64_t id;
    int64_t n_missing, first_missing; /* steps with a cell that has no rule */
} es_join_series;

typedef struct es_join_state {
    es_writer *writer;
    es_join_part *parts; /* (n_parts) by rank */
    size_t n_parts;
    int64_t n_layer, n_head, world;
    int64_t run_id;
    es_join_series *series; /* (n_series) */
    size_t n_series;
    es_join_cell *cells; /* (n_layer * n_head) */
    float *values;       /* likewise */
    int64_t n_steps[2];  /* with attention, by phase */
    es_join_handler *handler;
    void *user;
} es_join_state;

/** Parts by rank, L and H: ES_OK, or ES_EFORMAT as es_join. */
es_status es_join_fit(es_join_state *state) ES_MUST_USE;

/** All samples, in the order of steps. */
es_status es_join_samples(es_join_state *state) ES_MUST_USE;

/** Events of the fragments, and those of what is not there. After the samples,
 *  which find what is damaged. */
es_status es_join_events(es_join_state *state) ES_MUST_USE;

#endif
