#include "cli/runs/summary_internal.h"

#include "analyzer/base/checked.h"
#include <math.h>
#include <stdlib.h>

/* Adds the numbers of the marks to an ascending list that may have some. */
static es_status list_marks(uint32_t **list, size_t *n_list,
                            const unsigned char *marks, size_t n_marks)
{
    const uint32_t *old = *list;
    size_t n = 0, n_old = *n_list, at = 0;
    for (size_t i = 0; i < n_marks; i++)
        n += marks[i] != 0;
    uint32_t *joined = es_resize(NULL, n + n_old, sizeof *joined);
    if (!joined)
        return es_fail(ES_ENOMEM, "out of memory for a list of heads");
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
    if (status)
        return status;
    return list_marks(&flag->heads, &flag->n_heads, episode->heads, n_values);
}

static es_status append_flag(es_collector *to, size_t kind,
                             const es_episode *episode)
{
    es_run_summary *summary = to->summary;
    if (summary->n_flags == to->capacity) {
        size_t capacity = to->capacity ? 2 * to->capacity : 8;
        es_flag *grown = es_resize(summary->flags, capacity, sizeof *grown);
        if (!grown)
            return es_fail(ES_ENOMEM, "out of memory for flags");
        summary->flags = grown;
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
        .alerted = episode->told,
        .collapse_alerted = episode->foretold,
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

static void collect(es_collector *to, size_t kind, const es_episode *episode)
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

void es_collect_flag(void *user, const es_episode *episode)
{
    collect(user, episode->kind, episode);
}

void es_collect_rule(void *user, size_t rule, const es_episode *episode)
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

void es_summary_sort_flags(es_run_summary *summary)
{
    if (summary->n_flags > 0)
        qsort(summary->flags, summary->n_flags, sizeof *summary->flags,
              by_onset);
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
