/** Types and functions shared by join*.c. */
#ifndef ES_JOIN_INTERNAL_H
#define ES_JOIN_INTERNAL_H

#include "store/join/join.h"

/**
 * The rule by which the values of several fragments are combined into one
 * value.
 */
typedef enum es_join_rule {
    ES_JOIN_MEAN_OF_ROWS, /* mean over the ranks, weighted by their
                             finite_rows */
    ES_JOIN_LOWEST,
    ES_JOIN_HIGHEST,
    ES_JOIN_SUM,
    ES_JOIN_MEAN,
    ES_JOIN_SAME /* the common value if all fragments have the same value, else
                    missing */
} es_join_rule;

es_join_rule es_join_rule_of(const char *series, es_shape shape);

/**
 * Accumulates the values that several fragments have for one head, layer or run
 * at a step. All members must initially be zero.
 */
typedef struct es_join_cell {
    double sum, weight; /* sum of the values and sum of their weights; for a
                           minimum or maximum: the extreme value and 0 */
    float first;
    uint32_t n;        /* number of values that are not missing */
    bool has_no_value; /* true if there is no combined value, because the number
                          of rows is unknown or the values differ */
} es_join_cell;

/**
 * Adds a value to a cell. A missing value is ignored. `rows` is the number of
 * finite rows from which the value was computed, or negative if it is unknown;
 * it is used only by ES_JOIN_MEAN_OF_ROWS.
 */
void es_join_add(es_join_cell *cell, es_join_rule rule, float value,
                 double rows);

/**
 * Returns the combined value. If only one value was added, returns exactly its
 * bits. Returns missing if no value was added. Returns missing and sets
 * *has_no_rule if the values cannot be combined.
 */
float es_join_value(const es_join_cell *cell, es_join_rule rule,
                    bool *has_no_rule);

/** The values of a fragment's series finite_rows at one step. */
typedef struct es_join_rows {
    float *values; /* values, one for each head of the fragment; NULL if not
                      loaded yet */
    int64_t step;  /* step for which values were loaded; -1 before the first
                      load */
    bool is_there;
} es_join_rows;

/**
 * The range of steps at which this fragment has no head statistics although
 * other fragments have some.
 */
typedef struct es_join_gap {
    bool has_attention; /* true if this fragment has head statistics at the
                           current step */
    int64_t n, first, last;
} es_join_gap;

/** A fragment whose samples are being streamed. */
typedef struct es_join_part {
    const es_fragment *fragment;
    bool has_replica; /* true if another fragment contains the same heads */
    es_cursor *cursor;
    bool is_over; /* true if the fragment has no further samples; otherwise the
                     following members describe its next sample */
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
        first_missing; /* number of steps at which the values could not be
                          combined, and the first such step */
} es_join_series;

typedef struct es_join_state {
    es_writer *writer;
    es_join_part *parts; /* the n_parts fragments, in order of rank */
    size_t n_parts;
    int64_t n_layer, n_head, world;
    int64_t run_id;
    es_join_series *series; /* (n_series) */
    size_t n_series;
    es_join_cell *cells; /* (n_layer * n_head) */
    float *values;       /* (n_layer * n_head) */
    int64_t n_steps[2];  /* number of steps at which a fragment has head
                            statistics, by phase */
    es_join_handler *handler;
    void *user;
} es_join_state;

/** Sorts the fragments by rank, and computes the numbers of layers and heads.
 * Returns ES_OK, or ES_EFORMAT if the fragments do not fit together. */
es_status es_join_fit(es_join_state *state) ES_MUST_USE;

/** Writes all samples, in order of step. */
es_status es_join_samples(es_join_state *state) ES_MUST_USE;

/**
 * Writes the events of the fragments, and new events about missing data. Must
 * be called after es_join_samples, because reading the samples detects damage.
 */
es_status es_join_events(es_join_state *state) ES_MUST_USE;

#endif
