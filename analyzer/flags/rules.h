/**
 * Rules: user-defined alerts in addition to the flags. A rule compares one
 * series with a threshold. Like the judge of flags.h it receives samples in
 * the order of their steps and reports episodes, in constant memory, with the
 * same code for a finished file and a growing one.
 */
#ifndef ES_RULES_H
#define ES_RULES_H

#include "analyzer/flags/flags.h"

/**
 * The values of a sample that are compared. Each head, each layer, or the run
 * is a unit with a separate count of consecutive samples and a separate
 * history.
 */
typedef enum es_rule_aggregate {
    ES_RULE_HEAD,       /* every head separately; for series of heads */
    ES_RULE_LAYER_MEAN, /* of each layer; for series of heads or of layers */
    ES_RULE_LAYER_MIN,
    ES_RULE_LAYER_MAX,
    ES_RULE_SHARE, /* the share of measured heads for which the comparison
                      holds; for series of heads */
    ES_RULE_RUN,   /* the value; for series of the run */
    ES_N_RULE_AGGREGATES
} es_rule_aggregate;

typedef enum es_rule_comparison {
    ES_RULE_ABOVE,    /* > */
    ES_RULE_BELOW,    /* < */
    ES_RULE_AT_LEAST, /* >= */
    ES_RULE_AT_MOST,  /* <= */
    ES_N_RULE_COMPARISONS
} es_rule_comparison;

/** The quantity that a threshold is a multiple of. */
typedef enum es_rule_reference {
    ES_RULE_NUMBER,   /* 1 */
    ES_RULE_CEILING,  /* ln(T!)/T; nothing is judged if it is unknown */
    ES_RULE_HISTORY,  /* the unit's own median since the warm-up, see below */
    ES_RULE_BASELINE, /* the same unit in the baseline run, at the same step */
    ES_N_RULE_REFERENCES
} es_rule_reference;

typedef enum es_rule_action {
    ES_RULE_NO_ACTION,
    ES_RULE_STOP, /* request that the run be stopped */
    ES_N_RULE_ACTIONS
} es_rule_action;

#define ES_RULE_NAME_MAX 40
#define ES_RULE_SERIES_MAX 255

/**
 * A rule. es_rule_default sets all fields except name, series and threshold;
 * the comments state its defaults.
 */
typedef struct es_rule {
    char name[ES_RULE_NAME_MAX + 1];
    char series[ES_RULE_SERIES_MAX + 1];
    bool eval;                   /* the phase; false: train */
    es_rule_aggregate aggregate; /* default: ES_RULE_HEAD */
    es_rule_comparison comparison;
    es_rule_reference reference;
    double threshold;     /* a multiple of the reference */
    double share;         /* for ES_RULE_SHARE: smallest share of heads: 0.5 */
    double end;           /* an episode continues while the comparison holds
                             with this threshold, or, for ES_RULE_SHARE, while
                             the share is at least this. NaN: the threshold
                             that opened it */
    uint32_t samples;     /* consecutive samples that open an episode: 1 */
    double warm_up;       /* share of the planned steps, if they are known: 0 */
    int64_t warm_up_end;  /* first judged step, if that is later than warm_up */
    uint32_t cool_down;   /* samples after an episode that open no new one: 0 */
    es_severity severity; /* warning */
    es_rule_action action;
} es_rule;

void es_rule_default(es_rule *out);

const char *es_rule_aggregate_name(es_rule_aggregate);   /* "layer_mean" */
const char *es_rule_comparison_name(es_rule_comparison); /* "at_least" */
/** Returns "" for a number, "ceiling", "history" or "baseline". */
const char *es_rule_reference_name(es_rule_reference);
const char *es_rule_action_name(es_rule_action); /* "none", "stop" */

/** Returns the value that is worse under the rule; either may be NaN. */
double es_rule_worse(const es_rule *rule, double a, double b);

/** Returns true if the rule can judge samples of n values in such a run. */
bool es_rule_fits(const es_rule *rule, const es_judge_run *run, size_t n);

/**
 * Receives one episode of a rule; its kind is ES_N_FLAG_KINDS.
 *
 *   rule  index into the rules
 *
 * `onset` is the first of the consecutive samples, `last` the newest that
 * held. The episode ends when none of its units holds any more; then every
 * unit counts from the beginning, so episodes of a rule do not overlap.
 * `layers` are those of the units, or, for a share, those whose own share is
 * large enough. `heads` are set for ES_RULE_HEAD and ES_RULE_SHARE only.
 * `value` is the worst seen: the ratio to a history or baseline, the share, or
 * else a value of the series; `threshold` is the number it is compared with.
 */
typedef void es_rule_handler(void *user, size_t rule,
                             const es_episode *episode);

typedef struct es_rules es_rules;

/**
 * Returns the bytes of workspace; 0 if the sizes overflow or the run's are <
 * 1.
 */
size_t es_rules_size(const es_rule *rules, size_t n, const es_judge_run *run);

/**
 * Makes the state of rules (n, copied) inside `workspace`, which belongs to
 * the caller, has es_rules_size bytes and is aligned for any type.
 *
 * `handler` receives each episode once, when it is over or at es_rules_finish.
 */
es_rules *es_rules_init(void *workspace, const es_rule *rules, size_t n,
                        const es_judge_run *run, es_rule_handler *handler,
                        void *user);

/**
 * Makes `handler` also receive each episode at the sample that opens it.
 * `stands` is then true, and the other fields describe the episode so far.
 */
void es_rules_announce(es_rules *rules, es_rule_handler *handler, void *user);

/**
 * Adds one sample of a series. It is ignored by rules of other series and
 * phases, and if es_rule_fits refuses its size. Steps must not decrease within
 * a series; different series may come in any order.
 *
 * A missing value is not a sample: a unit with no measured value keeps its
 * state.
 *
 * NaN and infinities are never compared. A unit with such values is judged by
 * its finite ones: these may open or extend an episode, but as long as the
 * others are unknown, nothing ends it and nothing interrupts the consecutive
 * samples. (A share ends if it would be too small even with all of them.)
 * es_rules_nonfinite counts such values; the flag nan reports those of its own
 * series.
 *
 * The history is a histogram with 32 bins per octave over 24 octaves, 12 below
 * and 12 above the unit's first positive value; its lower median is exact to
 * 1/64. Values for which the comparison holds are not added, so that a lasting
 * fault does not become the norm. Nothing is judged with fewer than three
 * values in the history, or fewer than `samples`, nor with a median or a
 * baseline value that is not above zero.
 *
 * O(n) for each rule of the series; any thread, one at a time.
 */
void es_rules_push(es_rules *rules, const char *series, bool eval, int64_t step,
                   const float *values, size_t n);

/**
 * Adds a sample of the baseline run, which must have as many layers and heads.
 * It must come before the run's own sample of that step; a step for which the
 * baseline has no sample is not judged.
 */
void es_rules_push_baseline(es_rules *rules, const char *series, bool eval,
                            int64_t step, const float *values, size_t n);

/**
 * Returns the number of NaN and infinite values that the rule has met since
 * its warm-up.
 */
uint64_t es_rules_nonfinite(const es_rules *rules, size_t rule);

/** Reports the open episodes, with `stands` true, and ends the rules. */
void es_rules_finish(es_rules *rules);

#endif
