/* Passes samples to a judge (which detects flags) or to alert rules, and stores
 * the episodes that they report. */
#include "tests/support/judged.h"
#include "tests/support/test.h"

static void keep(es_judged_episode *all, size_t *n, const es_judge_run *run,
                 size_t rule, const es_episode *episode)
{
    size_t n_layers = (size_t)run->n_layers;
    assert_true(*n < ES_JUDGED_EPISODES);
    es_judged_episode *kept = &all[(*n)++];
    *kept = (es_judged_episode){.rule = rule, .said = *episode};
    memcpy(kept->layers, episode->layers, n_layers);
    memcpy(kept->heads, episode->heads, n_layers * (size_t)run->n_heads);
    kept->said.layers = kept->said.heads = NULL;
}

/* Returns a workspace of `size` bytes filled with arbitrary bytes, because the
 * detector of flags (es_judge) must not rely on its contents. */
static void *workspace_of(size_t size, const es_judge_run *run)
{
    assert_true(run->n_layers * run->n_heads <= ES_JUDGED_VALUES);
    assert_true(size > 0);
    void *workspace = malloc(size);
    assert_non_null(workspace);
    return memset(workspace, 0xa5, size);
}

static void take_judged(void *user, const es_episode *episode)
{
    es_judged *to = user;
    keep(to->episodes, &to->n, &to->run, 0, episode);
}

es_judged *es_judged_new(es_judge_run run, const es_flag_rules *rules)
{
    es_flag_rules defaults;
    es_judged *judged = calloc(1, sizeof *judged);
    assert_non_null(judged);
    es_flag_rules_default(&defaults);
    judged->run = run;
    judged->workspace = workspace_of(es_judge_size(&run), &run);
    judged->judge =
        es_judge_init(judged->workspace, &run, rules ? rules : &defaults,
                      take_judged, judged);
    return judged;
}

void es_judged_free(es_judged *judged)
{
    if (judged)
        free(judged->workspace);
    free(judged);
}

void es_judged_push_all(es_judged *judged, es_judge_series series, int64_t step,
                        float value)
{
    float values[ES_JUDGED_VALUES];
    size_t n = (size_t)judged->run.n_layers * (size_t)judged->run.n_heads;
    for (size_t i = 0; i < n; i++)
        values[i] = value;
    es_judge_push(judged->judge, series, step, values, n);
}

size_t es_judged_count(const es_judged *judged, es_flag_kind kind)
{
    size_t n = 0;
    for (size_t i = 0; i < judged->n; i++)
        n += judged->episodes[i].said.kind == kind;
    return n;
}

const es_judged_episode *es_judged_only(const es_judged *judged,
                                        es_flag_kind kind)
{
    assert_true(es_judged_count(judged, kind) <= 1);
    for (size_t i = 0; i < judged->n; i++)
        if (judged->episodes[i].said.kind == kind)
            return &judged->episodes[i];
    return NULL;
}

void es_judged_span(const es_judged_episode *episode, int64_t onset,
                    int64_t last, bool stands)
{
    assert_non_null(episode);
    assert_int_equal(episode->said.onset, onset);
    assert_int_equal(episode->said.last, last);
    assert_int_equal(episode->said.stands, stands);
}

const char *es_judged_list(const unsigned char *marks, size_t n)
{
    static char text[1024];
    size_t length = 0;
    text[0] = 0;
    for (size_t i = 0; i < n && length < sizeof text; i++)
        if (marks[i])
            length += (size_t)snprintf(text + length, sizeof text - length,
                                       length ? " %zu" : "%zu", i);
    return text;
}

/* --- rules ---------------------------------------------------------------- */

static void take_over(void *user, size_t rule, const es_episode *episode)
{
    es_ruled *to = user;
    keep(to->episodes, &to->n, &to->run, rule, episode);
}

static void take_opened(void *user, size_t rule, const es_episode *episode)
{
    es_ruled *to = user;
    keep(to->opened, &to->n_opened, &to->run, rule, episode);
}

es_ruled *es_ruled_new(es_judge_run run, const es_rule *rules, size_t n)
{
    es_ruled *ruled = calloc(1, sizeof *ruled);
    assert_non_null(ruled);
    ruled->run = run;
    ruled->size = es_rules_size(rules, n, &run);
    ruled->workspace = workspace_of(ruled->size, &run);
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
