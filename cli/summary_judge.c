#include "cli/summary_internal.h"

#include "analyzer/base/checked.h"
#include <stdlib.h>
#include <string.h>

/* A series of a run, and its newest sample. */
typedef struct stream {
    es_cursor *cursor;
    bool live;
    size_t n_values;
    int64_t step;
    const float *values;
} stream;

/* A series that the judge or a rule wants. */
typedef struct feed {
    const char *name;
    es_phase phase;
    es_judge_series role; /* OTHER: not the judge's */
    stream own, baseline; /* the baseline's only if a rule wants it */
} feed;

typedef struct judging {
    const es_rules_file *rules;
    es_judge_run run;
    es_collector found;
    void *judge_space, *rules_space;
    es_judge *judge;
    es_rules *further; /* NULL: there are none */
    es_reader *baseline;
    feed *feeds; /* (n_feeds) */
    size_t n_feeds;
} judging;

/* --- series ---------------------------------------------------------------*/

static es_status advance(stream *from)
{
    es_status status = es_cursor_next(from->cursor, &from->step, &from->values);
    from->live = status == ES_OK;
    return status == ES_DONE ? ES_OK : status;
}

static es_status open_stream(stream *out, es_reader *reader, size_t run,
                             const char *name, es_phase phase)
{
    es_series series;
    es_status status = es_reader_find(reader, run, name, phase, &series);
    if (status == ES_ENOTFOUND)
        return ES_OK; /* then it cannot tell anything */
    if (status)
        return status;
    out->n_values = series.n_values;
    status = es_cursor_open(&out->cursor, reader, &series, ES_STEP_FIRST,
                            ES_STEP_LAST);
    return status ? status : advance(out);
}

/* The feed of a series and phase: the one there is, or a new one. */
static feed *want(judging *j, const char *name, es_phase phase)
{
    for (size_t i = 0; i < j->n_feeds; i++)
        if (j->feeds[i].phase == phase && strcmp(j->feeds[i].name, name) == 0)
            return &j->feeds[i];
    feed *wanted = &j->feeds[j->n_feeds++];
    *wanted = (feed){.name = name, .phase = phase, .role = ES_JUDGE_OTHER};
    return wanted;
}

static es_phase phase_of(const es_rule *rule)
{
    return rule->eval ? ES_PHASE_EVAL : ES_PHASE_TRAIN;
}

/* A rule that could never say anything is a mistake. */
static es_status check_fit(const judging *j, const es_rule *rule,
                           const feed *from)
{
    if (!from->own.cursor || es_rule_fits(rule, &j->run, from->own.n_values))
        return ES_OK;
    return es_fail(ES_EUSAGE,
                   "rule %s: aggregate %s does not fit %s, which has %zu "
                   "values a step: choose another",
                   rule->name, es_rule_aggregate_name(rule->aggregate),
                   rule->series, from->own.n_values);
}

static es_status check_baseline(const judging *j, const feed *from)
{
    if (!from->baseline.cursor || !from->own.cursor ||
        from->baseline.n_values == from->own.n_values)
        return ES_OK;
    return es_fail(ES_EUSAGE,
                   "%s: no baseline for this run: its %s has %zu values a "
                   "step, not %zu",
                   es_reader_path(j->baseline), from->name,
                   from->baseline.n_values, from->own.n_values);
}

static es_status open_rule(judging *j, const es_rule *rule, es_reader *reader,
                           size_t run)
{
    es_status status = ES_OK;
    feed *from = want(j, rule->series, phase_of(rule));
    if (!from->own.cursor)
        status =
            open_stream(&from->own, reader, run, rule->series, phase_of(rule));
    if (status == ES_OK)
        status = check_fit(j, rule, from);
    if (status || rule->reference != ES_RULE_BASELINE || from->baseline.cursor)
        return status;
    status = open_stream(&from->baseline, j->baseline, 0, rule->series,
                         phase_of(rule));
    return status ? status : check_baseline(j, from);
}

static es_status open_baseline(judging *j)
{
    if (!j->rules || !j->rules->baseline)
        return ES_OK;
    es_status status = es_reader_open(&j->baseline, j->rules->baseline);
    if (status == ES_OK && es_reader_n_runs(j->baseline) != 1)
        status = es_fail(ES_EUSAGE, "%s: a baseline is one run, not %zu",
                         j->rules->baseline, es_reader_n_runs(j->baseline));
    return status;
}

static es_status open_feeds(judging *j, es_reader *reader, size_t run)
{
    static const char *const names[] = {"entropy", "nonfinite_rows",
                                        "nan_activations", "max_logit", "loss"};
    enum { N_NAMES = sizeof names / sizeof *names };
    size_t n = j->rules ? j->rules->n : 0;
    es_phase phase = j->found.summary->phase;
    j->feeds = es_resize(NULL, N_NAMES + n, sizeof *j->feeds);
    if (!j->feeds)
        return es_fail(ES_ENOMEM, "out of memory for judging a run");
    es_status status = open_baseline(j);
    for (size_t i = 0; i < N_NAMES && !status; i++) {
        feed *from = want(j, names[i], phase);
        from->role = es_judge_series_of(names[i]);
        status = open_stream(&from->own, reader, run, names[i], phase);
    }
    for (size_t i = 0; i < n && !status; i++)
        status = open_rule(j, &j->rules->rules[i], reader, run);
    return status;
}

/* --- samples --------------------------------------------------------------*/

/* The baseline's sample of the step, if it has one. */
static es_status push_baseline(judging *j, feed *from, int64_t step)
{
    stream *baseline = &from->baseline;
    while (baseline->live && baseline->step < step) {
        es_status status = advance(baseline);
        if (status)
            return status;
    }
    if (baseline->live && baseline->step == step)
        es_rules_push_baseline(j->further, from->name,
                               from->phase == ES_PHASE_EVAL, step,
                               baseline->values, baseline->n_values);
    return ES_OK;
}

static es_status push(judging *j, feed *from)
{
    stream *own = &from->own;
    if (from->role != ES_JUDGE_OTHER)
        es_judge_push(j->judge, from->role, own->step, own->values,
                      own->n_values);
    if (j->further) {
        es_status status = push_baseline(j, from, own->step);
        if (status)
            return status;
        es_rules_push(j->further, from->name, from->phase == ES_PHASE_EVAL,
                      own->step, own->values, own->n_values);
    }
    return advance(own);
}

/* All samples of a step before the next step's: the smallest step leads. */
static es_status push_all(judging *j)
{
    for (;;) {
        const stream *first = NULL;
        for (size_t i = 0; i < j->n_feeds; i++)
            if (j->feeds[i].own.live &&
                (!first || j->feeds[i].own.step < first->step))
                first = &j->feeds[i].own;
        if (!first)
            return ES_OK;
        int64_t step = first->step;
        for (size_t i = 0; i < j->n_feeds; i++) {
            if (!j->feeds[i].own.live || j->feeds[i].own.step != step)
                continue;
            es_status status = push(j, &j->feeds[i]);
            if (status)
                return status;
        }
    }
}

/* --- runs -----------------------------------------------------------------*/

static es_judge_run judge_run_of(const es_run_summary *summary)
{
    return (es_judge_run){
        .n_layers = (int)summary->n_layer,
        .n_heads = (int)summary->n_head,
        .ctx = summary->ctx == ES_UNKNOWN ? 0 : (int)summary->ctx,
        .planned_steps = summary->planned_steps,
    };
}

static es_status make_judges(judging *j)
{
    es_flag_rules flags;
    es_flag_rules_default(&flags);
    const es_rule *rules = j->rules ? j->rules->rules : NULL;
    size_t n = j->rules ? j->rules->n : 0, n_kinds = ES_N_FLAG_KINDS + n;
    size_t judge_size = es_judge_size(&j->run);
    size_t rules_size = es_rules_size(rules, n, &j->run);
    j->found.rules = rules;
    j->found.n_of_kind = calloc(n_kinds, sizeof *j->found.n_of_kind);
    j->found.newest = calloc(n_kinds, sizeof *j->found.newest);
    j->judge_space = judge_size ? malloc(judge_size) : NULL;
    j->rules_space = rules_size ? malloc(rules_size) : NULL;
    if (!j->found.n_of_kind || !j->found.newest || !j->judge_space ||
        !j->rules_space)
        return es_fail(ES_ENOMEM, "out of memory for judging a run");
    j->judge = es_judge_init(j->judge_space, &j->run,
                             j->rules ? &j->rules->flags : &flags,
                             es_collect_flag, &j->found);
    if (n > 0)
        j->further = es_rules_init(j->rules_space, rules, n, &j->run,
                                   es_collect_rule, &j->found);
    return ES_OK;
}

static void close_all(judging *j)
{
    for (size_t i = 0; i < j->n_feeds; i++) {
        es_cursor_close(j->feeds[i].own.cursor);
        es_cursor_close(j->feeds[i].baseline.cursor);
    }
    es_reader_close(j->baseline);
    free(j->feeds);
    free(j->found.n_of_kind);
    free(j->found.newest);
    free(j->judge_space);
    free(j->rules_space);
}

es_status es_summary_judge(es_run_summary *summary, es_reader *reader,
                           size_t run, const es_rules_file *rules)
{
    judging j = {.rules = rules,
                 .run = judge_run_of(summary),
                 .found = {.summary = summary}};
    es_status status = make_judges(&j);
    if (status == ES_OK)
        status = open_feeds(&j, reader, run);
    if (status == ES_OK)
        status = push_all(&j);
    if (status == ES_OK) {
        es_judge_finish(j.judge);
        if (j.further)
            es_rules_finish(j.further);
        status = j.found.status;
    }
    es_summary_sort_flags(summary);
    summary->rules = rules;
    summary->judged = !status;
    close_all(&j);
    return status;
}
