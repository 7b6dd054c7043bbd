/**
 * Runs compared with each other: in which settings they differ, how well each
 * did on held-out data, when it went wrong, how far their entropies lie apart;
 * and the seeds of one configuration taken together.
 *
 * Settings are the run's own columns (arch, n_layer, ..., seed) and the
 * members of its configuration. One that says where or how a run was made but
 * not what was done (out, threads, ...) is incidental: it makes no other
 * configuration, and neither does the seed.
 *
 * Memory: a few times the sample shown of each run, whatever its steps.
 */
#ifndef ES_COMPARE_H
#define ES_COMPARE_H

#include "analyzer/base/json_write.h"
#include "cli/output/grid.h"
#include "cli/runs/summary.h"

typedef struct es_comparison es_comparison;

/** options: borrowed; their step is the summaries'. ES_OK or ES_ENOMEM. */
es_status es_comparison_new(es_comparison **out,
                            const es_summary_options *options) ES_MUST_USE;

void es_comparison_free(es_comparison *comparison); /* NULL is fine */

/**
 * One more run.
 *
 *   reader, run  where it was read; its evaluations are read now
 *   summary      judged, its settings read; borrowed until the comparison is
 * freed baseline     the others are compared with this one
 *
 * ES_OK; ES_EUSAGE (a baseline in a file of several runs); ES_EFORMAT,
 * ES_EIO (damaged), ES_ENOMEM. A run that fails is not in the comparison.
 */
es_status es_comparison_add(es_comparison *comparison, es_reader *reader,
                            size_t run, const es_run_summary *summary,
                            bool baseline) ES_MUST_USE;

/**
 * Once, after the last run, when the m of all summaries is final.
 *
 *   order     the summaries, in the order in which to show the runs
 *   baseline  the file that should have given one; NULL: there is none
 *
 * ES_OK; ES_ENOTFOUND (no baseline came); ES_EARGUMENT (other summaries);
 * ES_ENOMEM.
 */
es_status es_comparison_finish(es_comparison *comparison,
                               const es_run_summary *const *order,
                               const char *baseline) ES_MUST_USE;

/** The tables; nothing without a run. The caller checks the stream. ES_OK or
 *  ES_ENOMEM. */
es_status es_comparison_print(const es_comparison *comparison, FILE *stream,
                              const es_table_options *options) ES_MUST_USE;

/** The configurations alone, best first: by held-out perplexity, or the last
 *  loss; what is not finite comes last. As es_comparison_print. */
es_status es_comparison_print_best(const es_comparison *comparison,
                                   FILE *stream,
                                   const es_table_options *options) ES_MUST_USE;

/**
 * The member "comparison" of `--json`. Its numbers are those of the tables;
 * runs are counted from 0 in the order of "runs":
 *
 *     "comparison":{"reference":0,"baseline":null|0,
 *      "differing":["arch","seed"],"incidental":["threads"],
 *      "runs":[{"label":"SM seed=1","settings":{"arch":"SM","seed":1},
 *        "configuration":0,
 *        "eval":{"n","nonfinite","final_step","final_ppl","best_step",
 *                "best_ppl"},
 *        "entropy":{"n","nonfinite","missing","q25","median","q75"},
 *        "onsets":{"nan":{"episodes","stands","any","error"},...},
 *        "distance":{"to":0,"ks","p","p_holm","wasserstein"},
 *        "relative":{"to":0,"final_percent","best_percent",
 *                    "bands_points":[..4],"balanced_points","nan_later",
 *                    "nan_error_later",...}}],
 *      "configurations":[{"runs":[0,1],"label":"SM","settings":{"arch":"SM"},
 *        "final":{"n","nonfinite","missing","mean","std","min","max"},
 *        "best":{the same},
 *        "interval":{"low","high","reason":null},
 *        "bands":{"heads","nonfinite","fractions":[..4],"balanced"},
 *        "relative":{"to":0,"final_percent","best_percent",
 *                    "bands_points":[..4],"balanced_points"},
 *        "evidence":{"ppl_difference","ppl_low","ppl_high","hedges_g",
 *                    "welch_t","welch_freedom","welch_p","welch_p_holm",
 *                    "seeds_p","seeds_p_holm","ks","layers_p",
 *                    "layers_p_holm","ppl_reason":null}}],
 *      "distances":{"ks":[[..],..],"wasserstein":[[..],..]}}
 *
 * Labels are those of cli/runs/labels.h, plain. Onsets are steps: of the first
 * episode, and of the first of severity error or above. "distance" is to the
 * run "reference": the baseline, else the first one. "relative" is there with a
 * baseline; of a configuration, it is to the baseline's configuration, whose
 * number "to" is. "distances" is null beyond ES_COMPARE_MATRIX_MOST runs, and
 * so are p without a baseline; null in it: a run without a finite value.
 *
 * "interval" is of the mean of "final", at 95 %. "evidence" is there of every
 * other configuration than the baseline's. p are those of
 * analyzer/statistics/inference.h, that of a distance by exchange of layers;
 * "_holm" of them is adjusted for all runs, or configurations. A "reason" says
 * why perplexities have none. Nothing fails here: the caller checks
 * the stream.
 */
void es_comparison_json(const es_comparison *comparison, es_json_writer *json);

#define ES_COMPARE_MATRIX_MOST 64

#endif
