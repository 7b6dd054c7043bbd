/**
 * Compares runs: determines the settings in which they differ, their results on
 * held-out data, the onsets of their flags, and the distances between their
 * entropies. Runs that differ only in the seed form a configuration.
 *
 * Settings are the columns that describe a run (arch, n_layer, ..., seed) and
 * the members of the run's configuration. Settings that describe where or how a
 * run was made, but not what was trained (out, threads, ...), are incidental:
 * two runs that differ only in the seed and in incidental settings belong to
 * the same configuration.
 *
 * A comparison needs a few times the memory of one sample per run, independent
 * of the number of steps.
 */
#ifndef ES_COMPARE_H
#define ES_COMPARE_H

#include "analyzer/base/json_write.h"
#include "cli/output/grid.h"
#include "cli/runs/summary.h"

typedef struct es_comparison es_comparison;

/**
 * Creates an empty comparison. `options` is borrowed and contains the step at
 * which runs are summarised. Returns ES_OK or ES_ENOMEM.
 */
es_status es_comparison_new(es_comparison **out,
                            const es_summary_options *options) ES_MUST_USE;

void es_comparison_free(es_comparison *comparison); /* comparison may be NULL */

/**
 * Adds one run.
 *
 *   reader, run  source of the run, whose evaluations are read now
 *   summary      summary of the run, with flags and settings; borrowed until
 *                the comparison is freed
 *   baseline     true if this run is the baseline, with which the others are
 *                compared
 *
 * Returns ES_OK or ES_ENOMEM. Returns ES_EUSAGE if the baseline is in a file
 * with several runs, and ES_EFORMAT or ES_EIO if the file is damaged. On
 * failure the run is not part of the comparison.
 */
es_status es_comparison_add(es_comparison *comparison, es_reader *reader,
                            size_t run, const es_run_summary *summary,
                            bool baseline) ES_MUST_USE;

/**
 * Completes the comparison. Must be called once, after the last run was added
 * and the maximum m (analyzer/heads/bands.h) of all summaries is final.
 *
 *   order     summaries of all runs, in the order in which the tables list them
 *   baseline  path of the file that should contain the baseline, or NULL
 *
 * Returns ES_OK or ES_ENOMEM. Returns ES_ENOTFOUND if `baseline` is not NULL
 * but no baseline was added, and ES_EARGUMENT if `order` contains a summary
 * that was not added.
 */
es_status es_comparison_finish(es_comparison *comparison,
                               const es_run_summary *const *order,
                               const char *baseline) ES_MUST_USE;

/**
 * Prints the tables, or nothing if there is no run. The caller checks the
 * stream for errors. Returns ES_OK or ES_ENOMEM.
 */
es_status es_comparison_print(const es_comparison *comparison, FILE *stream,
                              const es_table_options *options) ES_MUST_USE;

/**
 * Like es_comparison_print, but prints only the table of configurations, best
 * first. They are ranked by held-out perplexity or, without evaluations, by the
 * last loss; configurations with a value that is not finite come last.
 */
es_status es_comparison_print_best(const es_comparison *comparison,
                                   FILE *stream,
                                   const es_table_options *options) ES_MUST_USE;

/**
 * Writes the member "comparison" of `--json`, which contains the values of the
 * tables. Runs are numbered from 0 in the order of "runs":
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
 * Labels come from cli/runs/labels.h, without escapes. The onsets "any" and
 * "error" are the steps of the first episode and of the first episode of
 * severity error or above. "distance" is the distance to the run "reference",
 * which is the baseline or, without a baseline, the first run. "relative" is
 * present if there is a baseline; in a configuration, "relative" refers to the
 * configuration of the baseline, whose number is "to". "distances" is null if
 * there are more than ES_COMPARE_MATRIX_MOST runs, and "p" is null without a
 * baseline. An element of "distances" is null if either run has no finite
 * value.
 *
 * "interval" is the 95 % interval of the mean of "final". "evidence" is present
 * in every configuration except that of the baseline.
 * analyzer/statistics/inference.h defines the tests that give each p; the p of
 * a distance comes from a permutation test that exchanges layers. Members
 * ending in "_holm" are p adjusted for the number of runs or configurations. A
 * "reason" explains why a statistic of the perplexities is missing. The caller
 * checks the stream for errors.
 */
void es_comparison_json(const es_comparison *comparison, es_json_writer *json);

#define ES_COMPARE_MATRIX_MOST 64

#endif
