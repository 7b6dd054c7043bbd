/** Declarations shared by the files that implement rules. */
#ifndef ES_RULES_INTERNAL_H
#define ES_RULES_INTERNAL_H

#include "analyzer/flags/flags_internal.h"
#include "analyzer/flags/rules.h"

/**
 * The progress of a unit (head, layer or run) towards an episode. Before the
 * first sample all fields are 0.
 */
typedef struct es_rule_unit {
    int64_t onset, last; /* steps of the first and last of the consecutive
                            samples at which the condition held */
    double worst;        /* worst value in the samples of `streak` */
    uint32_t streak;     /* number of consecutive samples at which the
                            condition held */
    bool active;         /* true if this head, layer or run is part of the
                            open episode */
} es_rule_unit;

/**
 * Histogram of the values of one head, layer or run, scaled so that the first
 * value falls into the middle bins.
 */
typedef struct es_rule_history {
    es_history scaled;
    int shift; /* values are multiplied by 2^shift; valid once `positive` is
                  set */
    bool positive;
} es_rule_history;

/** The state of one rule during a run. */
typedef struct es_rule_state {
    es_rule rule;
    size_t n_layers, n_heads; /* numbers of layers and heads of the run */
    size_t n_units;           /* L*H, L or 1 */
    size_t n_references;      /* number of reference values: one per unit (head,
                                 layer or run), or L*H for ES_RULE_SHARE */
    double ceiling; /* entropy ceiling of the run; NaN if it is unknown, or if
                       it is 0 because the context length is 1 */
    int64_t warm_up_end;
    es_rule_unit *units;        /* (n_units) */
    es_rule_history *histories; /* (n_references) histories; NULL unless the
                                   rule compares with the history */
    double *baseline; /* (n_references) values of the baseline run, NaN if
                         there is no value; NULL unless the rule compares
                         with a baseline */
    int64_t baseline_step;
    bool has_baseline;

    uint64_t n_nonfinite;
    /* After an episode: number of further samples at which no new episode can
     * open. */
    uint32_t cooling;
    bool open;
    int64_t onset, last;
    int64_t opened; /* step of the sample at which the episode opened */
    double worst;
    unsigned char *layers, *heads; /* (L), (L,H) */
    /* (L,H) marks of the heads that meet the condition in the current sample;
     * NULL unless the rule compares a share */
    unsigned char *now;
} es_rule_state;

struct es_rules {
    size_t n;
    es_rule_state *states; /* (n) */
    es_judge_run run;
    float *scaled; /* (L,H) buffer for one sample whose entropies are scaled by
                      the ceilings (largest possible entropies) of the heads;
                      NULL if no scaling is needed */
    es_rule_handler *handler, *announce; /* `announce` is NULL unless
                                            es_rules_announce was called */
    void *user, *announce_user;
};

/** The aggregate of several values of a sample. */
typedef struct es_rule_measure {
    double value; /* aggregate of the finite values; NaN if no value is
                     finite */
    size_t n_finite, n_nonfinite;
} es_rule_measure;

/** Aggregates x (n) to its mean, smallest or largest value. */
es_rule_measure es_rule_measure_of(es_rule_aggregate aggregate, const float *x,
                                   size_t n);

bool es_rule_compare(es_rule_comparison comparison, double x, double limit);

/**
 * Returns the number that is compared with the limit: `value`, or its ratio to
 * reference i. NaN if reference i does not exist yet or is not above zero.
 */
double es_rule_relate(const es_rule_state *state, size_t i, double value,
                      int64_t step);

/**
 * Returns the limit: `threshold`, multiplied by the ceiling if the rule refers
 * to the ceiling. Returns NaN if the ceiling is needed but unknown.
 */
double es_rule_limit(const es_rule_state *state, double threshold);

void es_rule_history_add(es_rule_history *history, double value);

#endif
