/**
 * `--json`: one object, written as the runs come.
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
 * A number that is not finite is null, and a member beside it says why:
 * "loss":null,"loss_state":"nan" ("nan", "inf", "-inf", "missing"). "run" is
 * the run's number within its file, from 1; "max" of the bands is the m that
 * they were counted with; "verdict" is the severity in words
 * (absent of a rule's); "reported" is the step of the sample that the flag
 * could first be reported at (schema 1 called it "told"); "advice" is what
 * entropy-scan explain prints, null of a rule but the forecast's; "config" is
 * the resolved configuration that the run keeps.
 * "modelled_gb" and "modelled_minutes" are of a private forward pass
 * (analyzer/cost/cost.h) with intervals of 95 %; "missing" where there is no
 * model of it. "flags_state":"damaged" follows flags where the newest samples
 * of a judged series are damaged: that no other flag stands is then not known.
 * With --compare "comparison" follows the runs: cli/compare/compare.h.
 * Under rules of one's own "rules" follows the runs
 * (cli/alerts/rules/rules_file.h).
 */
#ifndef ES_JSON_H
#define ES_JSON_H

#include "analyzer/base/json_write.h"
#include "cli/runs/summary.h"
#include <stdio.h>

#define ES_JSON_SCHEMA 2

/** Nothing fails here: the caller checks the stream for errors. */
typedef struct es_json {
    es_json_writer writer;
    bool ended;          /* the runs */
    bool advice_by_name; /* "advice":"collapse", for what has the advice of
                            each kind by itself: es_json_advice */
} es_json;

/** observed: the m that all runs share; ignored by policies under which each
 *  run has its own: "value" is null then. */
void es_json_begin(es_json *json, FILE *stream, const es_max *max,
                   double observed);
void es_json_run(es_json *json, const es_run_summary *summary);
/** The same object as a line of its own, without a list around it. */
void es_json_line(FILE *stream, const es_run_summary *summary);
/** {"causes","remedies","sources":[..]}; null without `info`. */
void es_json_advice(es_json_writer *json, const char *name,
                    const es_flag_info *info);
/** Only where members follow the runs; returns what writes them. */
es_json_writer *es_json_end_runs(es_json *json);
/** The member "rules", if there are rules of one's own; NULL: none. */
void es_json_rules(es_json *json, const es_rules_file *rules);
void es_json_end(es_json *json);

/** "fractions": the share of heads in each band, all null without heads. */
void es_json_fractions(es_json_writer *json, const es_bands *bands);

#endif
