/**
 * Writes the output of `--json`. It is a single object, which is written while
 * the runs are read:
 *
 *     {"schema":2,"max":{"policy","value"},
 *      "runs":[{the fields of cli/runs/fields.c,
 *        "bands":{"counts":[..4],"fractions":[..4],"nonfinite","heads",
 *                 "balanced","max"},
 *        "layers":[{"layer","mean","min","max","std","nonfinite"}],
 *        "flags":[{"kind","severity","stands","onset","last","reported",
 *                  "layers":[..],"heads":[[layer,head],..],"value",
 *                  "threshold","verdict",
 *                  "advice":{"causes","remedies","sources":[..]} or null}]
 *                or null if the run was not judged,
 *        "modelled_gb","modelled_gb_low","modelled_gb_high",
 *        "modelled_minutes","modelled_minutes_low","modelled_minutes_high",
 *        "collapse_before_nan","checksums",
 *        "damaged":[{"series","phase","step"} or {"frames","step"}
 *                   or {"row":"run", "series" or "event","id","step"}
 *                   or {"lost","step"}],
 *        "config":{..} or null}]}
 *
 * A number that is not finite is null, and a member next to it gives its state:
 * "loss":null,"loss_state":"nan" ("nan", "inf", "-inf", "missing"). "run" is
 * the run's number within its file, from 1; "max" of the bands is the m that
 * was used to count them; "stands" is true if the flag is active at the last
 * sample; "verdict" is the severity in words (absent for a rule); "reported" is
 * the step of the first sample at which the flag could be reported (schema 1
 * called it "told"); "advice" is the text of entropy-scan explain, null for
 * rules; "config" is the resolved configuration that the
 * file stores. "modelled_gb" and "modelled_minutes" are the cost of a private
 * forward pass (analyzer/cost/cost.h) with intervals of 95 %; "missing" if the
 * run's model is unknown. "flags_state":"damaged" follows "flags" if the newest
 * samples of a judged series are damaged: other flags may then be active, too.
 * With --compare, "comparison" follows the runs: cli/compare/compare.h. With a
 * rules file, "rules" follows the runs (cli/alerts/rules/rules_file.h).
 */
#ifndef ES_JSON_H
#define ES_JSON_H

#include "analyzer/base/json_write.h"
#include "cli/runs/summary.h"
#include <stdio.h>

#define ES_JSON_SCHEMA 2

/** State of a JSON document. No function fails; the caller checks the stream
 *  for errors. */
typedef struct es_json {
    es_json_writer writer;
    bool ended;          /* true once the array "runs" is closed */
    bool advice_by_name; /* if true, the member "advice" of a flag has only a
                            name, such as "collapse", and the caller writes the
                            text for each name once (es_json_advice); if false,
                            the member has the text */
} es_json;

/** Begins the document. `observed` is the upper edge m of the bands that all
 *  runs share, and is written as the member "value" of "max". If each run has a
 *  separate m, `observed` is ignored and "value" is null. */
void es_json_begin(es_json *json, FILE *stream, const es_max *max,
                   double observed);
void es_json_run(es_json *json, const es_run_summary *summary);
/** Writes the members of a run's JSON object, without brackets, for an object
 *  that has further members. */
void es_json_run_members(es_json_writer *json, const es_run_summary *summary,
                         bool advice_by_name);
/** Writes the member "max" of the document. */
void es_json_max(es_json_writer *json, const es_max *max, double observed);
/** Writes the JSON object of a run as a separate line, as --jsonl requires. */
void es_json_line(FILE *stream, const es_run_summary *summary);
/** Writes an object {"causes","remedies","sources":[..]}; null if `info` is
 *  NULL. */
void es_json_advice(es_json_writer *json, const char *name,
                    const es_flag_info *info);
/** Closes the array "runs"; returns the writer, with which the caller adds
 *  members after the array. */
es_json_writer *es_json_end_runs(es_json *json);
/** Writes the member "rules". If `rules` is NULL, because no rules file is
 *  used, writes nothing. */
void es_json_rules(es_json *json, const es_rules_file *rules);
void es_json_end(es_json *json);

/** Writes the member "fractions", the share of heads in each band. All elements
 *  are null if there are no heads. */
void es_json_fractions(es_json_writer *json, const es_bands *bands);

#endif
