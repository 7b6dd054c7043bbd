/** What the files of summary share. */
#ifndef ES_SUMMARY_INTERNAL_H
#define ES_SUMMARY_INTERNAL_H

#include "cli/runs/summary.h"

/** Streams the run once through a judge and the rules, and fills in flags, by
 *  onset, then kind, then rule, and judged. rules NULL: the default ones.
 *  ES_OK, ES_EFORMAT, ES_EIO, ES_EUSAGE, ES_ENOMEM; flags stay valid in every
 *  case. */
es_status es_summary_judge(es_run_summary *summary, es_reader *reader,
                           size_t run, const es_rules_file *rules) ES_MUST_USE;

void es_summary_free_flags(es_run_summary *summary);

#endif
