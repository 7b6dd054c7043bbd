/**
 * Rules: what a run's owner wants to be alerted to besides the flags. A rule
 * compares one series with a threshold; like the judge of flags.h it is fed
 * samples in the order of their steps and reports episodes, in constant
 * memory, with the same code for a finished file and a growing one.
 */
#ifndef ES_RULES_H
#define ES_RULES_H

#include "analyzer/flags/flags.h"

/** What of a sample is compared. Each head, each layer, or the run is a unit:
 *  it has its own count of consecutive samples and its own history. */
typedef enum es_rule_aggregate {
    ES_RULE_HEAD,       /* every head by itself; series of heads */
    ES_RULE_LAYER_MEAN, /* of each layer; series of heads or of layers */
    ES_RULE_LAYER_MIN,
    ES_RULE_LAYER_MAX,
    ES_RULE_SHARE, /* the heads for which the comparison holds, as a share of
                      those measured; series of heads */
    ES_RULE_RUN,   /* the value; series of the run */
    ES_N_RULE_AGGREGATES
} es_rule_aggregate;

typedef enum es_rule_comparison {
    ES_RULE_ABOVE,    /* > */
    ES_RULE_BELOW,    /* < */
    ES_RULE_AT_LEAST, /* >= */
    ES_RULE_AT_MOST,  /* <= */
    ES_N_RULE_COMPARISONS
} es_rule_comparison;

/** What a threshold is a multiple of. */
typedef enum es_rule_reference {
    ES_RULE_NUMBER,   /* 1 */
    ES_RULE_CEILING,  /* ln(T!)/T; of an unknown one nothing is judged */
    ES_RULE_HISTORY,  /* the unit's own median since warm-up, see below */
    ES_RULE_BASELINE, /* the same unit of the baseline run, at the same step */
    ES_N_RULE_REFERENCES
} es_rule_reference;

typedef enum es_rule_action {
    ES_RULE_NO_ACTION,
    ES_RULE_STOP, /* the run is to be stopped */
    ES_N_RULE_ACTIONS
} es_rule_action;

#define ES_RULE_NAME_MAX 40
#define ES_RULE_SERIES_MAX 255

/** es_rule_default fills in all but name, series and threshold. */
typedef struct es_rule {
    char name[ES_RULE_NAME_MAX + 1];
    char series[ES_RULE_SERIES_MAX + 1];
    bool eval;                   /* the phase; false: train */
    es_rule_aggregate aggregate; /* head */
    es_rule_comparison comparison;
    es_rule_reference reference;
    double threshold;     /* a multiple of the reference */
    double share;         /* of ES_RULE_SHARE: at least so many heads: 0.5 */
    double end;           /* an episode goes on while the comparison holds with
                             this threshold; of ES_RULE_SHARE while the share is
                             at least this. NaN: the one that opened it */
    uint32_t samples;     /* consecutive, before an episode opens: 1 */
    double warm_up;       /* share of the planned steps, if they are known: 0 */
    int64_t warm_up_end;  /* or the step that it lasts to, if that is later */
    uint32_t cool_down;   /* samples after an end that open nothing: 0 */
    es_severity severity; /* warning */
    es_rule_action action;
} es_rule;

void es_rule_default(es_rule *out);

const char *es_rule_aggregate_name(es_rule_aggregate);   /* "layer_mean" */
const char *es_rule_comparison_name(es_rule_comparison); /* "at_least" */
/** "" of a number, "ceiling", "history", "baseline". */
const char *es_rule_reference_name(es_rule_reference);
const char *es_rule_action_name(es_rule_action); /* "none", "stop" */

/** Of two values that the rule is about the worse one; either may be NaN. */
double es_rule_worse(const es_rule *rule, double a, double b);

/** True if samples of n values can be judged by the rule in such a run. */
bool es_rule_fits(const es_rule *rule, const es_judge_run *run, size_t n);

/**
 * One episode of a rule: its kind is ES_N_FLAG_KINDS.
 *
 *   rule   index into the rules
 *
 * Onset is the first of the consecutive samples, last the newest that held.
 * It ends when no unit holds any more that was part of it; then every unit
 * counts from the beginning, so no two episodes of a rule overlap.
 * `layers` are those of the units; of a share those whose own share is large
 * enough. `heads` are known of head and share. `value` is the worst seen: of
 * history and baseline its ratio to the reference, of a share the share, else
 * in units of the series; `threshold` is what that is compared with.
 */
typedef void es_rule_handler(void *user, size_t rule,
                             const es_episode *episode);

typedef struct es_rules es_rules;

/** Bytes of workspace; 0 if the sizes overflow or the run's are < 1. */
size_t es_rules_size(const es_rule *rules, size_t n, const es_judge_run *run);

/**
 * Makes the state of rules (n, copied) inside `workspace`, which is the
 * caller's, has es_rules_size bytes and is aligned for any type.
 *
 * `handler` gets each episode once, when it is over or at es_rules_finish.
 */
es_rules *es_rules_init(void *workspace, const es_rule *rules, size_t n,
                        const es_judge_run *run, es_rule_handler *handler,
                        void *user);

/** From now on `handler` also gets each episode at the sample that opens it:
 *  `stands` is true, the rest is as far as it has come. */
void es_rules_announce(es_rules *rules, es_rule_handler *handler, void *user);

/**
 * One sample of a series; rules of other series and phases ignore it, and a
 * size that es_rule_fits refuses. Steps must not decrease within a series;
 * different series may come in any order.
 *
 * Missing is no sample: a unit with nothing measured stays as it is, neither
 * longer nor interrupted.
 *
 * NaN and infinities are never compared. A unit with some is judged by its
 * finite values: these may open an episode or go on with it, but as long as
 * the others are unknown, nothing ends it and nothing interrupts the
 * consecutive samples. (A share ends if it were too small with all of them.)
 * es_rules_nonfinite counts such values; the flag nan reports those of its own
 * series.
 *
 * The history is a histogram with 32 bins an octave over 24 octaves, 12 below
 * and 12 above the unit's first positive value: the lower median, exact to
 * 1/64. Values that the rule is about stay out of it: what is wrong for long
 * does not become the norm. With fewer than three values in it, or fewer than
 * `samples`, nothing is judged; nor with a median, or a baseline's value, that
 * is not above zero.
 *
 * O(n) for each rule of the series; any thread, one at a time.
 */
void es_rules_push(es_rules *rules, const char *series, bool eval, int64_t step,
                   const float *values, size_t n);

/** A sample of the baseline run, of as many layers and heads. It has to come
 *  before the run's own of that step; a step that the baseline has no sample
 *  of is not judged by it. */
void es_rules_push_baseline(es_rules *rules, const char *series, bool eval,
                            int64_t step, const float *values, size_t n);

/** NaN and infinite values met by rule `rule` since its warm-up. */
uint64_t es_rules_nonfinite(const es_rules *rules, size_t rule);

/** Reports the episodes still open, which stand, and ends the rules. */
void es_rules_finish(es_rules *rules);

#endif
