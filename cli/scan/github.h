/** Prints the findings of --check as annotations, which GitHub Actions displays
 *  next to the changed files. */
#ifndef ES_GITHUB_H
#define ES_GITHUB_H

#include "cli/runs/summary.h"

/**
 * Prints one annotation (the workflow command ::error, ::warning or ::notice)
 * with the run's file and its active flags. Prints nothing if the highest
 * severity of these flags is below `least`. Syntax: docs.github.com/actions,
 * "Workflow commands".
 *
 * Returns ES_OK or ES_ENOMEM. The caller checks the stream for write errors.
 */
es_status es_github_run(FILE *out, const es_run_summary *run,
                        es_severity least) ES_MUST_USE;

#endif
