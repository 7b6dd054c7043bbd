/* The flags of a run's summary: streams the run through cli/runs/judging.c and
   keeps the episodes that come of it: the first ES_FLAGS_KEPT of each kind, and
   later ones as part of the last. */
#include "cli/runs/summary_internal.h"

#include "analyzer/base/checked.h"
#include "cli/runs/judging.h"
#include <math.h>
#include <stdlib.h>

/* Keeps episodes as they come. The first failure is remembered: a callback
   cannot stop the judge. */
typedef struct collector {
    es_run_summary *summary;
    const es_rule *rules;       /* (n_kinds - ES_N_FLAG_KINDS) */
    size_t *n_of_kind, *newest; /* (n_kinds) flags, then rules */
    size_t capacity;
    size_t n_heads; /* of all flags kept */
    es_status status;
} collector;

/* --- episodes -------------------------------------------------------------*/

/* Adds the numbers of the marks to an ascending list that may have some. */
static es_status list_marks(uint32_t **list, size_t *n_list,
                            const unsigned char *marks, size_t n_marks)
{
    const uint32_t *old = *list;
    uint32_t *joined;
    size_t n = 0, n_old = *n_list, at = 0;
    for (size_t i = 0; i < n_marks; i++)
        n += marks[i] != 0;
    es_status status =
        es_alloc(&joined, n + n_old, sizeof *joined, "a list of heads");
    if (status < 0)
        return status;
    n = 0;
    for (size_t i = 0; i < n_marks; i++) {
        bool listed = at < n_old && old[at] == i;
        at += listed;
        if (listed || marks[i])
            joined[n++] = (uint32_t)i;
    }
    free(*list);
    *list = joined;
    *n_list = n;
    return ES_OK;
}

static es_status list_places(es_flag *flag, const es_episode *episode,
                             const es_run_summary *summary)
{
    size_t n_layers = (size_t)summary->n_layer;
    size_t n_values = n_layers * (size_t)summary->n_head;
    es_status status =
        list_marks(&flag->layers, &flag->n_layers, episode->layers, n_layers);
    if (status < 0)
        return status;
    return list_marks(&flag->heads, &flag->n_heads, episode->heads, n_values);
}

static es_status append_flag(collector *to, size_t kind,
                             const es_episode *episode)
{
    es_run_summary *summary = to->summary;
    if (summary->n_flags == to->capacity) {
        size_t capacity = to->capacity ? 2 * to->capacity : 8;
        es_status status =
            es_grow(&summary->flags, capacity, sizeof *summary->flags, "flags");
        if (status < 0)
            return status;
        to->capacity = capacity;
    }
    to->newest[kind] = summary->n_flags;
    to->n_of_kind[kind]++;
    summary->flags[summary->n_flags++] = (es_flag){
        .kind = episode->kind,
        .rule =
            kind < ES_N_FLAG_KINDS ? NULL : &to->rules[kind - ES_N_FLAG_KINDS],
        .severity = episode->severity,
        .stands = episode->stands,
        .onset = episode->onset,
        .reported = episode->reported,
        .collapse_reported = episode->collapse_reported,
        .last = episode->last,
        .value = episode->value,
        .threshold = episode->threshold,
    };
    return ES_OK;
}

/* The newest flag of the kind comes to mean this episode as well. */
static void lengthen_flag(es_flag *flag, const es_episode *episode)
{
    if (episode->stands || episode->severity > flag->severity)
        flag->severity = episode->severity;
    flag->stands = flag->stands || episode->stands;
    flag->last = episode->last;
    flag->value = flag->rule
                      ? es_rule_worse(flag->rule, flag->value, episode->value)
                      : fmax(flag->value, episode->value);
    flag->threshold = episode->threshold;
}

static void collect(collector *to, size_t kind, const es_episode *episode)
{
    es_run_summary *summary = to->summary;
    size_t n_of_kind = to->n_of_kind[kind];
    if (to->status)
        return;
    if (n_of_kind > 0 &&
        (n_of_kind >= ES_FLAGS_KEPT || to->n_heads >= ES_FLAG_HEADS_KEPT))
        lengthen_flag(&summary->flags[to->newest[kind]], episode);
    else
        to->status = append_flag(to, kind, episode);
    if (to->status)
        return;
    es_flag *flag = &summary->flags[to->newest[kind]];
    to->n_heads -= flag->n_heads;
    to->status = list_places(flag, episode, summary);
    to->n_heads += flag->n_heads;
}

static void collect_flag(void *user, const es_episode *episode)
{
    collect(user, episode->kind, episode);
}

static void collect_rule(void *user, size_t rule, const es_episode *episode)
{
    collect(user, ES_N_FLAG_KINDS + rule, episode);
}

static int by_onset(const void *a, const void *b)
{
    const es_flag *x = a, *y = b;
    if (x->onset != y->onset)
        return x->onset < y->onset ? -1 : 1;
    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    return (x->rule > y->rule) - (x->rule < y->rule);
}

const char *es_flag_title(const es_flag *flag)
{
    return flag->rule ? flag->rule->name : es_flag_name(flag->kind);
}

void es_summary_free_flags(es_run_summary *summary)
{
    for (size_t i = 0; i < summary->n_flags; i++) {
        free(summary->flags[i].layers);
        free(summary->flags[i].heads);
    }
    free(summary->flags);
    summary->flags = NULL;
    summary->n_flags = 0;
}

/* --- judging --------------------------------------------------------------*/

static es_judge_run judge_run_of(const es_run_summary *summary)
{
    return (es_judge_run){
        .n_layers = (int)summary->n_layer,
        .n_heads = (int)summary->n_head,
        .ctx = summary->ctx == ES_UNKNOWN ? 0 : (int)summary->ctx,
        .planned_steps = summary->planned_steps,
    };
}

static es_status note_heard(es_run_summary *summary, const es_judging *judging,
                            const es_rules_file *rules)
{
    es_status status;
    if (!rules || !rules->n)
        return ES_OK;
    if ((status = es_alloc(&summary->heard, rules->n, sizeof *summary->heard,
                           "judging a run")) < 0 ||
        (status = es_alloc(&summary->nonfinite, rules->n,
                           sizeof *summary->nonfinite, "judging a run")) < 0)
        return status;
    for (size_t i = 0; i < rules->n; i++) {
        summary->heard[i] = es_judging_heard(judging, i);
        summary->nonfinite[i] = es_judging_nonfinite(judging, i);
    }
    return ES_OK;
}

es_status es_summary_judge(es_run_summary *summary, es_reader *reader,
                           size_t run, const es_rules_file *rules)
{
    const size_t n_kinds = ES_N_FLAG_KINDS + (rules ? rules->n : 0);
    collector found = {.summary = summary,
                       .rules = rules ? rules->rules : NULL};
    const es_judging_options options = {.run = judge_run_of(summary),
                                        .phase = summary->phase,
                                        .rules = rules,
                                        .flag = collect_flag,
                                        .rule = collect_rule,
                                        .user = &found};
    es_judging *judging = NULL;
    es_status status;
    if ((status = es_alloc(&found.n_of_kind, n_kinds, sizeof *found.n_of_kind,
                           "judging a run")) < 0 ||
        (status = es_alloc(&found.newest, n_kinds, sizeof *found.newest,
                           "judging a run")) < 0 ||
        (status = es_judging_open(&judging, &options)) < 0 ||
        (status = es_judging_read(judging, reader, run)) != ES_OK)
        goto done;
    es_judging_finish(judging);
    if ((status = found.status) == ES_OK)
        status = note_heard(summary, judging, rules);
done:
    es_judging_close(judging);
    if (summary->n_flags > 0)
        qsort(summary->flags, summary->n_flags, sizeof *summary->flags,
              by_onset);
    summary->rules = rules;
    summary->judged = status == ES_OK;
    free(found.n_of_kind);
    free(found.newest);
    return status;
}
