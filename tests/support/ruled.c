/* Runs pushed through rules, and the episodes that they report. */
#include "tests/support/ruled.h"
#include "tests/support/test.h"

static void keep(const es_ruled *ruled, es_ruled_episode *kept, size_t rule,
                 const es_episode *episode)
{
    size_t n_layers = (size_t)ruled->run.n_layers;
    kept->rule = rule;
    kept->said = *episode;
    memcpy(kept->layers, episode->layers, n_layers);
    memcpy(kept->heads, episode->heads, n_layers * (size_t)ruled->run.n_heads);
    kept->said.layers = kept->said.heads = NULL;
}

static void take_over(void *user, size_t rule, const es_episode *episode)
{
    es_ruled *ruled = user;
    assert_true(ruled->n < ES_RULED_EPISODES);
    keep(ruled, &ruled->episodes[ruled->n++], rule, episode);
}

static void take_opened(void *user, size_t rule, const es_episode *episode)
{
    es_ruled *ruled = user;
    assert_true(ruled->n_opened < ES_RULED_EPISODES);
    keep(ruled, &ruled->opened[ruled->n_opened++], rule, episode);
}

es_ruled *es_ruled_new(es_judge_run run, const es_rule *rules, size_t n)
{
    es_ruled *ruled = calloc(1, sizeof *ruled);
    assert_non_null(ruled);
    assert_true(run.n_layers * run.n_heads <= ES_RULED_VALUES);
    ruled->run = run;
    ruled->size = es_rules_size(rules, n, &run);
    assert_true(ruled->size > 0);
    ruled->workspace = malloc(ruled->size);
    assert_non_null(ruled->workspace);
    memset(ruled->workspace, 0xa5, ruled->size); /* it may hold anything */
    ruled->rules =
        es_rules_init(ruled->workspace, rules, n, &run, take_over, ruled);
    es_rules_announce(ruled->rules, take_opened, ruled);
    return ruled;
}

void es_ruled_free(es_ruled *ruled)
{
    if (ruled)
        free(ruled->workspace);
    free(ruled);
}

es_rule es_rule_on(const char *series, es_rule_aggregate aggregate,
                   es_rule_comparison comparison, double threshold)
{
    es_rule rule;
    es_rule_default(&rule);
    snprintf(rule.name, sizeof rule.name, "r");
    snprintf(rule.series, sizeof rule.series, "%s", series);
    rule.aggregate = aggregate;
    rule.comparison = comparison;
    rule.threshold = threshold;
    return rule;
}
