/** What the files of summary share. */
#ifndef ES_SUMMARY_INTERNAL_H
#define ES_SUMMARY_INTERNAL_H

#include "cli/runs/summary.h"

/** Streams the run once through a judge and the rules, and fills in flags and
 *  judged. rules NULL: the default ones. ES_OK, ES_EFORMAT, ES_EIO, ES_EUSAGE,
 *  ES_ENOMEM; flags stay valid in every case. */
es_status es_summary_judge(es_run_summary *summary, es_reader *reader,
                           size_t run, const es_rules_file *rules) ES_MUST_USE;

/** Takes down episodes as they come. The first failure is kept: a callback has
 *  no way to stop the judge. */
typedef struct es_collector {
    es_run_summary *summary;
    const es_rule *rules;       /* (n_kinds - ES_N_FLAG_KINDS) */
    size_t *n_of_kind, *newest; /* (n_kinds) flags, then rules */
    size_t capacity;
    size_t n_heads; /* of all flags kept */
    es_status status;
} es_collector;

/** es_episode_handler and es_rule_handler; `user` is an es_collector. */
void es_collect_flag(void *user, const es_episode *episode);
void es_collect_rule(void *user, size_t rule, const es_episode *episode);

/** By onset, then kind, then rule. */
void es_summary_sort_flags(es_run_summary *summary);

void es_summary_free_flags(es_run_summary *summary);

#endif
