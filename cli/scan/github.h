/** What --check finds, as GitHub Actions shows it beside a change. */
#ifndef ES_GITHUB_H
#define ES_GITHUB_H

#include "cli/runs/summary.h"

/**
 * One workflow command, ::error, ::warning or ::notice, with the run's file
 * and what stands; nothing if that is below `least`. docs.github.com/actions,
 * "Workflow commands".
 *
 * ES_OK or ES_ENOMEM. Writing is the stream's matter.
 */
es_status es_github_run(FILE *out, const es_run_summary *run,
                        es_severity least) ES_MUST_USE;

#endif
