/**
 * Rules: user-defined alerts in addition to the flags. A rule compares one
 * series with a threshold. Like the detector of flags (flags.h), rules receive
 * samples in the order of their steps and report episodes, in constant memory,
 * with the same code for a finished and a growing file. An episode is a period
 * in which a condition holds.
 */
#ifndef ES_RULES_H
#define ES_RULES_H

#include "analyzer/flags/flags.h"

/**
 * The values of a sample that a rule compares with its threshold. Each head,
 * each layer, or the run as a whole is a unit: it has a separate count of
 * consecutive samples and a separate history.
 */
typedef enum es_rule_aggregate {
    ES_RULE_HEAD,       /* every head separately; only for series of heads */
    ES_RULE_LAYER_MEAN, /* mean of each layer; for series of heads or layers */
    ES_RULE_LAYER_MIN,
    ES_RULE_LAYER_MAX,
    ES_RULE_SHARE, /* share of the measured heads for which the comparison
                      holds; only for series of heads */
    ES_RULE_RUN,   /* the single value of a sample; only for series with one
                      value per run */
    ES_N_RULE_AGGREGATES
} es_rule_aggregate;

typedef enum es_rule_comparison {
    ES_RULE_ABOVE,    /* > */
    ES_RULE_BELOW,    /* < */
    ES_RULE_AT_LEAST, /* >= */
    ES_RULE_AT_MOST,  /* <= */
    ES_N_RULE_COMPARISONS
} es_rule_comparison;

/** The quantity by which a rule's threshold is multiplied. */
typedef enum es_rule_reference {
    ES_RULE_NUMBER,   /* 1 */
    ES_RULE_CEILING,  /* ceiling of the entropy, ln(T!)/T for the context length
                         T; if it is unknown, the rule is not applied */
    ES_RULE_HISTORY,  /* median of the earlier values of the same head, layer
                         or run since the warm-up; see es_rules_push */
    ES_RULE_BASELINE, /* value of the same head, layer or run in the baseline
                         run, at the same step */
    ES_N_RULE_REFERENCES
} es_rule_reference;

typedef enum es_rule_action {
    ES_RULE_NO_ACTION,
    ES_RULE_STOP, /* requests that the run be stopped */
    ES_N_RULE_ACTIONS
} es_rule_action;

#define ES_RULE_NAME_MAX 40
#define ES_RULE_SERIES_MAX 255

/**
 * A rule. es_rule_default sets all fields except name, series and threshold;
 * the comments of the fields state the defaults.
 */
typedef struct es_rule {
    char name[ES_RULE_NAME_MAX + 1];
    char series[ES_RULE_SERIES_MAX + 1];
    bool eval; /* phase of the series: true for eval, false for train */
    /* The values that the rule compares; default ES_RULE_HEAD. */
    es_rule_aggregate aggregate;
    es_rule_comparison comparison;
    es_rule_reference reference;
    double threshold; /* multiple of `reference`, or a plain number if the rule
                         has no reference */
    double share; /* smallest share of heads, for ES_RULE_SHARE; default 0.5 */
    double end;   /* threshold (for ES_RULE_SHARE: smallest share) at which an
                     open episode continues; NaN: the same as for opening */
    uint32_t samples;    /* number of consecutive samples that open an
                            episode; default 1 */
    double warm_up;      /* share of the planned steps, from the start, in which
                            the rule is not applied; unused if the number of
                            steps is unknown; default 0 */
    int64_t warm_up_end; /* first step at which the rule is applied, if
                            later than the end of warm_up */
    uint32_t cool_down;  /* number of samples after an episode at which no
                            new episode opens; default 0 */
    es_severity severity; /* warning */
    es_rule_action action;
} es_rule;

void es_rule_default(es_rule *out);

const char *es_rule_aggregate_name(es_rule_aggregate);   /* "layer_mean" */
const char *es_rule_comparison_name(es_rule_comparison); /* "at_least" */
/** Returns "ceiling", "history" or "baseline"; "" for a plain number. */
const char *es_rule_reference_name(es_rule_reference);
const char *es_rule_action_name(es_rule_action); /* "none", "stop" */

/** Returns the worse of two values, which is the one that is farther beyond the
 *  rule's threshold. Either value may be NaN. */
double es_rule_worse(const es_rule *rule, double a, double b);

/**
 * Returns true if the rule can be applied to samples of n values in a run of
 * this shape.
 */
bool es_rule_fits(const es_rule *rule, const es_judge_run *run, size_t n);

/**
 * Receives one episode of a rule. The kind of the episode is ES_N_FLAG_KINDS.
 *
 *   rule  index into the rules
 *
 * `onset` is the first of the consecutive samples, `last` the newest sample at
 * which the condition held. The episode ends when the condition no longer holds
 * for any unit. The counts of all units then restart at 0, so episodes of a
 * rule do not overlap. `layers` marks the layers of the units, or, for a share,
 * the layers whose own share is large enough. `heads` are set for ES_RULE_HEAD
 * and ES_RULE_SHARE only. `value` is the worst value of the episode: the ratio
 * to a history or baseline, the share, or else a value of the series.
 * `threshold` is the number that `value` is compared with.
 */
typedef void es_rule_handler(void *user, size_t rule,
                             const es_episode *episode);

typedef struct es_rules es_rules;

/**
 * Returns the number of bytes of workspace; 0 if the run has a size below 1 or
 * the total overflows.
 */
size_t es_rules_size(const es_rule *rules, size_t n, const es_judge_run *run);

/**
 * Creates the state of n rules, which are copied, inside `workspace`. The
 * workspace belongs to the caller, has es_rules_size bytes and is aligned for
 * any type.
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
 * Adds one sample of a series. Rules of other series and phases ignore the
 * sample, and so do rules for which es_rule_fits returns false. Steps must not
 * decrease within a series; different series may come in any order.
 *
 * Missing values are skipped: a unit without a measured value keeps its state.
 *
 * NaN and infinities are never compared. For a unit with non-finite values, the
 * finite values are compared. These may open or extend an episode; but as long
 * as the unit has non-finite values, its episode does not end and its count of
 * consecutive samples is not reset. (An episode of a share ends if the share
 * would be too small even if the comparison held for all non-finite values.)
 * es_rules_nonfinite counts non-finite values; the flag nan also reports them
 * for some series.
 *
 * The history is a histogram with 32 bins per octave over 24 octaves, 12 below
 * and 12 above the unit's first positive value; its lower median is exact to
 * 1/64. Values for which the comparison holds are not added, so that a long
 * episode does not shift the median. A unit is ignored if its history has
 * fewer than three or fewer than `samples` values, or if the median or the
 * baseline value is not above zero.
 *
 * Costs O(n) for each rule of the series. May be called from any thread, but
 * from one thread at a time.
 */
void es_rules_push(es_rules *rules, const char *series, bool eval, int64_t step,
                   const float *values, size_t n);

/**
 * Adds a sample of the baseline run, which must have the same numbers of
 * layers and heads. It must be added before the run's own sample of the same
 * step. Rules that refer to the baseline are not applied at steps for which
 * the baseline has no sample.
 */
void es_rules_push_baseline(es_rules *rules, const char *series, bool eval,
                            int64_t step, const float *values, size_t n);

/**
 * Returns the number of NaN and infinite values that the rule has received
 * since its warm-up.
 */
uint64_t es_rules_nonfinite(const es_rules *rules, size_t rule);

/**
 * Reports the episodes that are still open, with `stands` set. This must be
 * the last call for `rules`.
 */
void es_rules_finish(es_rules *rules);

#endif
