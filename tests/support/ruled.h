/** Rules whose episodes are kept, for tests. */
#ifndef ES_TESTS_RULED_H
#define ES_TESTS_RULED_H

#include "analyzer/flags/rules.h"
#include "tests/support/auto.h"

#define ES_RULED_VALUES 64 /* L*H at most */
#define ES_RULED_EPISODES 512

typedef struct es_ruled_episode {
    size_t rule;
    es_episode said; /* layers and heads point nowhere: use those below */
    unsigned char layers[ES_RULED_VALUES], heads[ES_RULED_VALUES];
} es_ruled_episode;

typedef struct es_ruled {
    es_judge_run run;
    void *workspace;
    size_t size;
    es_rules *rules;
    es_ruled_episode episodes[ES_RULED_EPISODES]; /* (n) as they came */
    size_t n;
    es_ruled_episode opened[ES_RULED_EPISODES]; /* (n_opened) announced */
    size_t n_opened;
} es_ruled;

/** Fails the test if anything does. */
es_ruled *es_ruled_new(es_judge_run run, const es_rule *rules, size_t n);
void es_ruled_free(es_ruled *ruled);
AUTO_OF(es_ruled, es_ruled_free)

/** A rule "r" on train `series`, otherwise es_rule_default. */
es_rule es_rule_on(const char *series, es_rule_aggregate aggregate,
                   es_rule_comparison comparison, double threshold);

#endif
