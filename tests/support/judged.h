/** Passes samples to a judge (es_judge of analyzer/flags/flags.h, which detects
 *  flags) or to alert rules, and stores the reported episodes, for tests. */
#ifndef ES_TESTS_JUDGED_H
#define ES_TESTS_JUDGED_H

#include "analyzer/flags/flags.h"
#include "analyzer/flags/rules.h"
#include "tests/support/auto.h"

#define ES_JUDGED_VALUES 256 /* largest L*H */
#define ES_JUDGED_EPISODES 512

typedef struct es_judged_episode {
    /* index of the rule that reported the episode; used only if the test
     * evaluates alert rules */
    size_t rule;
    es_episode said; /* the reported episode; its layers and heads are NULL,
                        because they are copied to the members below */
    unsigned char layers[ES_JUDGED_VALUES], heads[ES_JUDGED_VALUES];
} es_judged_episode;

typedef struct es_judged {
    es_judge_run run;
    void *workspace;
    es_judge *judge;
    es_judged_episode episodes[ES_JUDGED_EPISODES]; /* (n) oldest first */
    size_t n;
} es_judged;

/**
 * Returns a new es_judged, which evaluates flags with `rules` or, if `rules` is
 * NULL, with the default thresholds. Fails the test on an error.
 */
es_judged *es_judged_new(es_judge_run run, const es_flag_rules *rules);

void es_judged_free(es_judged *judged);
AUTO_OF(es_judged, es_judged_free)

/** Passes a sample of a series of heads to the judge, which detects flags. The
 *  sample has `value` for all L*H heads. */
void es_judged_push_all(es_judged *judged, es_judge_series series, int64_t step,
                        float value);

/**
 * Returns the only episode of a kind; NULL if no episode has this kind. Fails
 * the test if there are several.
 */
const es_judged_episode *es_judged_only(const es_judged *judged,
                                        es_flag_kind kind);

size_t es_judged_count(const es_judged *judged, es_flag_kind kind);

/**
 * Fails the test unless the episode is not NULL and lasts from step `onset` to
 * step `last`.
 */
void es_judged_span(const es_judged_episode *episode, int64_t onset,
                    int64_t last, bool stands);

/**
 * Returns the indices of the marked elements as "9 10 11"; borrowed until the
 * next call.
 */
const char *es_judged_list(const unsigned char *marks, size_t n);

typedef struct es_ruled {
    es_judge_run run;
    void *workspace;
    size_t size;
    es_rules *rules;
    es_judged_episode episodes[ES_JUDGED_EPISODES]; /* (n) oldest first */
    size_t n;
    /* the n_opened episodes as they were reported at their onset */
    es_judged_episode opened[ES_JUDGED_EPISODES];
    size_t n_opened;
} es_ruled;

/**
 * Returns a new es_ruled, which evaluates the given alert rules. Fails the test
 * on an error.
 */
es_ruled *es_ruled_new(es_judge_run run, const es_rule *rules, size_t n);
void es_ruled_free(es_ruled *ruled);
AUTO_OF(es_ruled, es_ruled_free)

/**
 * Returns es_rule_default with the name "r", the given series in the phase
 * train, and the given fields.
 */
es_rule es_rule_on(const char *series, es_rule_aggregate aggregate,
                   es_rule_comparison comparison, double threshold);

#endif
