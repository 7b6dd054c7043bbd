/**
 * `--json`, schema 1 (design, section 5): one object, written as the runs come.
 *
 * A number that is not finite is null, and a member beside it says why:
 * "loss":null,"loss_state":"nan" ("nan", "inf", "-inf", "missing").
 * Beyond the design's members: a run has "series", "eval_loss", "eval_ppl",
 * "config" (the resolved configuration that the run keeps, an object, or null),
 * and its bands "max", the m they were counted with. "run" is the run's number
 * within its file, from 1; "flags" is null for a run that was not judged.
 * With --compare "comparison" follows the runs: cli/compare/compare.h.
 * Under rules of one's own "rules" follows the runs
 * (cli/alerts/rules/rules_file.h).
 */
#ifndef ES_JSON_H
#define ES_JSON_H

#include "cli/runs/summary.h"
#include <stdio.h>

typedef struct es_json {
    FILE *stream; /* the caller checks it for errors */
    size_t n_runs;
    bool ended; /* the runs */
} es_json;

/** observed: the m that all runs share; ignored by policies under which each
 *  run has its own: "value" is null then. */
void es_json_begin(es_json *json, FILE *stream, const es_max *max,
                   double observed);
/** ES_OK or ES_ENOMEM. */
es_status es_json_run(es_json *json, const es_run_summary *summary) ES_MUST_USE;
/** The same object as a line of its own, without a list around it. */
es_status es_json_line(FILE *stream, const es_run_summary *summary) ES_MUST_USE;
/** Only where members follow the runs (cli/output/json_members.h). */
void es_json_end_runs(es_json *json);
void es_json_end(es_json *json);

#endif
