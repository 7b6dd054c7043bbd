/** What the files of rules share. */
#ifndef ES_RULES_INTERNAL_H
#define ES_RULES_INTERNAL_H

#include "analyzer/flags/flags_internal.h"
#include "analyzer/flags/rules.h"

/** A unit on its way into an episode. All zero: not seen yet. */
typedef struct es_rule_unit {
    int64_t onset, last; /* of the streak */
    double worst;        /* in it */
    uint32_t streak;     /* samples in a row that held */
    bool active;         /* it is part of the open episode */
} es_rule_unit;

/** A unit's values, scaled so that the first has the middle bins. */
typedef struct es_rule_history {
    es_history scaled;
    int shift; /* scaled = value * 2^shift; known once `positive` */
    bool positive;
} es_rule_history;

/** A rule on its way through a run. */
typedef struct es_rule_state {
    es_rule rule;
    size_t n_layers, n_heads; /* of the run */
    size_t n_units;           /* L*H, L or 1 */
    size_t n_references;      /* the same, but L*H of a share */
    double ceiling;           /* NaN: unknown, or of no use */
    int64_t warm_up_end;
    es_rule_unit *units;        /* (n_units) */
    es_rule_history *histories; /* (n_references) or NULL */
    double *baseline;           /* (n_references) or NULL; NaN: none */
    int64_t baseline_step;
    bool has_baseline;

    uint64_t n_nonfinite;
    uint32_t cooling; /* samples that may not open anything yet */
    bool open;
    int64_t onset, last;
    int64_t opened; /* the sample that was enough */
    double worst;
    unsigned char *layers, *heads; /* (L), (L,H) */
    unsigned char *now; /* (L,H) of a share: the heads of one sample; or NULL */
} es_rule_state;

struct es_rules {
    size_t n;
    es_rule_state *states; /* (n) */
    es_judge_run run;
    float *scaled; /* (L,H) a sample by the heads' own ceilings; or NULL */
    es_rule_handler *handler, *announce; /* announce or NULL */
    void *user, *announce_user;
};

/** Some values of a sample as one. */
typedef struct es_rule_measure {
    double value; /* of the finite ones; NaN if there is none */
    size_t n_finite, n_nonfinite;
} es_rule_measure;

/** Aggregates x (n): mean, least or largest; of one value that value. */
es_rule_measure es_rule_measure_of(es_rule_aggregate aggregate, const float *x,
                                   size_t n);

bool es_rule_compare(es_rule_comparison comparison, double x, double limit);

/** What `value` is compared as: itself, or its ratio to reference i. NaN if
 *  there is none yet, or none above zero. */
double es_rule_relate(const es_rule_state *state, size_t i, double value,
                      int64_t step);

/** The limit that it is compared with; NaN: unknown. */
double es_rule_limit(const es_rule_state *state, double threshold);

void es_rule_history_add(es_rule_history *history, double value);

#endif
