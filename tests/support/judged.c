/* Runs pushed through a judge, and the episodes that it reports. */
#include "tests/support/judged.h"
#include "tests/support/test.h"

static void keep(void *user, const es_episode *episode)
{
    es_judged *judged = user;
    size_t n_layers = (size_t)judged->run.n_layers;
    size_t n_values = n_layers * (size_t)judged->run.n_heads;
    assert_true(judged->n < ES_JUDGED_EPISODES);
    es_judged_episode *kept = &judged->episodes[judged->n++];
    kept->said = *episode;
    memcpy(kept->layers, episode->layers, n_layers);
    memcpy(kept->heads, episode->heads, n_values);
    kept->said.layers = kept->said.heads = NULL;
}

es_judged *es_judged_new(es_judge_run run, const es_flag_rules *rules)
{
    es_flag_rules defaults;
    es_judged *judged = calloc(1, sizeof *judged);
    assert_non_null(judged);
    assert_true(run.n_layers * run.n_heads <= ES_JUDGED_VALUES);
    es_flag_rules_default(&defaults);
    judged->run = run;
    size_t size = es_judge_size(&run);
    assert_true(size > 0);
    judged->workspace = malloc(size);
    assert_non_null(judged->workspace);
    memset(judged->workspace, 0xa5, size); /* it may hold anything */
    judged->judge = es_judge_init(judged->workspace, &run,
                                  rules ? rules : &defaults, keep, judged);
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
