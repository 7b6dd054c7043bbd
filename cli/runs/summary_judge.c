#include "cli/runs/judging.h"
#include "cli/runs/summary_internal.h"

#include <stdlib.h>

static es_judge_run judge_run_of(const es_run_summary *summary)
{
    return (es_judge_run){
        .n_layers = (int)summary->n_layer,
        .n_heads = (int)summary->n_head,
        .ctx = summary->ctx == ES_UNKNOWN ? 0 : (int)summary->ctx,
        .planned_steps = summary->planned_steps,
    };
}

static es_status make_collector(es_collector *out, es_run_summary *summary,
                                const es_rules_file *rules)
{
    size_t n_kinds = ES_N_FLAG_KINDS + (rules ? rules->n : 0);
    *out = (es_collector){.summary = summary,
                          .rules = rules ? rules->rules : NULL};
    out->n_of_kind = calloc(n_kinds, sizeof *out->n_of_kind);
    out->newest = calloc(n_kinds, sizeof *out->newest);
    return out->n_of_kind && out->newest
               ? ES_OK
               : es_fail(ES_ENOMEM, "out of memory for judging a run");
}

static es_status note_heard(es_run_summary *summary, const es_judging *judging,
                            const es_rules_file *rules)
{
    if (!rules || !rules->n)
        return ES_OK;
    summary->heard = calloc(rules->n, sizeof *summary->heard);
    summary->nonfinite = calloc(rules->n, sizeof *summary->nonfinite);
    if (!summary->heard || !summary->nonfinite)
        return es_fail(ES_ENOMEM, "out of memory for judging a run");
    for (size_t i = 0; i < rules->n; i++) {
        summary->heard[i] = es_judging_heard(judging, i);
        summary->nonfinite[i] = es_judging_nonfinite(judging, i);
    }
    return ES_OK;
}

static es_status judge(es_collector *found, es_reader *reader, size_t run,
                       const es_rules_file *rules)
{
    es_judging *judging = NULL;
    const es_judging_options options = {.run = judge_run_of(found->summary),
                                        .phase = found->summary->phase,
                                        .rules = rules,
                                        .flag = es_collect_flag,
                                        .rule = es_collect_rule,
                                        .user = found};
    es_status status = es_judging_open(&judging, &options);
    if (status == ES_OK)
        status = es_judging_read(judging, reader, run);
    if (status == ES_OK) {
        es_judging_finish(judging);
        status = found->status;
        if (status == ES_OK)
            status = note_heard(found->summary, judging, rules);
    }
    es_judging_close(judging);
    return status;
}

es_status es_summary_judge(es_run_summary *summary, es_reader *reader,
                           size_t run, const es_rules_file *rules)
{
    es_collector found;
    es_status status = make_collector(&found, summary, rules);
    if (status == ES_OK)
        status = judge(&found, reader, run, rules);
    es_summary_sort_flags(summary);
    summary->rules = rules;
    summary->judged = !status;
    free(found.n_of_kind);
    free(found.newest);
    return status;
}
