/** Types and functions shared by join*.c. */
#ifndef ES_JOIN_INTERNAL_H
#define ES_JOIN_INTERNAL_H

#include "store/join/join.h"

/** The rule that combines the values of several fragments for one cell. */
typedef enum es_join_rule {
    ES_JOIN_MEAN_OF_ROWS, /* weighted by finite_rows */
    ES_JOIN_LOWEST,
    ES_JOIN_HIGHEST,
    ES_JOIN_SUM,
    ES_JOIN_MEAN,
    ES_JOIN_SAME /* the value if all fragments have the same, else missing */
} es_join_rule;

es_join_rule es_join_rule_of(const char *series, es_shape shape);

/** Accumulates one value of the whole run from the fragments' values. Starts as
 * zero. */
typedef struct es_join_cell {
    double sum, weight; /* sums of values and of weights; for minima and maxima,
                           the extreme and 0 */
    float first;
    uint32_t n;        /* number of values that are not missing */
    bool has_no_value; /* no combined value: unknown number of rows, or the
                        * values differ
                        */
} es_join_cell;

/** Adds a value; a missing one changes nothing. `rows`: number of finite rows
 * behind the value, below 0 if unknown; used only by ES_JOIN_MEAN_OF_ROWS. */
void es_join_add(es_join_cell *cell, es_join_rule rule, float value,
                 double rows);

/**
 * Returns the combined value. A single added value is returned bit by bit.
 * Returns missing if no value was added, or if the values cannot be combined;
 * the latter sets *has_no_rule.
 */
float es_join_value(const es_join_cell *cell, es_join_rule rule,
                    bool *has_no_rule);

/** The series finite_rows of a fragment at a step. */
typedef struct es_join_rows {
    float *values; /* (L,H of the fragment) or NULL */
    int64_t step;  /* step of `values`; -1 before the first load */
    bool is_there;
} es_join_rows;

/** Steps at which other fragments have attention but this fragment has not. */
typedef struct es_join_gap {
    bool has_attention; /* this fragment has attention at the current step */
    int64_t n, first, last;
} es_join_gap;

/** A fragment whose samples are being streamed. */
typedef struct es_join_part {
    const es_fragment *fragment;
    bool has_replica; /* the same heads are in another fragment, too */
    es_cursor *cursor;
    bool is_over; /* the cursor is at its end; if not, the next members describe
                     its next sample */
    int64_t step;
    const float *values; /* (series.n_values) */
    es_series series;
    es_join_rows rows[2]; /* index: phase */
    es_join_gap gaps[2];
} es_join_part;

/** A series of the joined run. */
typedef struct es_join_series {
    const char *name; /* borrowed from a reader */
    es_phase phase;
    es_shape shape;
    es_join_rule rule;
    int64_t id;
    int64_t n_missing,
        first_missing; /* steps whose values cannot be combined */
} es_join_series;

typedef struct es_join_state {
    es_writer *writer;
    es_join_part *parts; /* (n_parts) in order of rank */
    size_t n_parts;
    int64_t n_layer, n_head, world;
    int64_t run_id;
    es_join_series *series; /* (n_series) */
    size_t n_series;
    es_join_cell *cells; /* (n_layer * n_head) */
    float *values;       /* (n_layer * n_head) */
    int64_t n_steps[2];  /* number of steps with attention, by phase */
    es_join_handler *handler;
    void *user;
} es_join_state;

/** Sorts the parts by rank, and computes L and H. Returns ES_OK, or ES_EFORMAT
 * if the fragments do not fit together. */
es_status es_join_fit(es_join_state *state) ES_MUST_USE;

/** Writes all samples, in order of step. */
es_status es_join_samples(es_join_state *state) ES_MUST_USE;

/** Writes the events of the fragments, and those about missing data. Call it
 *  after the samples, which detect damage. */
es_status es_join_events(es_join_state *state) ES_MUST_USE;

#endif
